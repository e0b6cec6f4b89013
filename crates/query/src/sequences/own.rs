//! Sequences that a transaction has made, or has begun anew: nobody else takes numbers of them
//! before it is committed, so it gives them out by itself. COMMIT tells how far it has come.

use lazybase_model::sequence::{Counter, Sequence};
use lazybase_model::{Error, Result};
use parking_lot::Mutex;

/// A sequence as the session's transaction has left it.
#[derive(Debug)]
pub(crate) struct OwnSequence {
    pub(crate) sequence: Sequence,
    /// Where it stands; nothing where it goes on as others have left it.
    counter: Mutex<Option<Counter>>,
}

impl OwnSequence {
    /// A sequence that stands at a counter of its own, if there is one.
    pub(crate) fn new(sequence: Sequence, counter: Option<Counter>) -> OwnSequence {
        OwnSequence {
            sequence,
            counter: Mutex::new(counter),
        }
    }

    /// Where it stands, if the transaction alone takes numbers of it.
    pub(crate) fn counter(&self) -> Option<Counter> {
        *self.counter.lock()
    }

    /// Has it go on from elsewhere; whether the transaction alone takes numbers of it.
    pub(crate) fn set(&self, counter: Counter) -> bool {
        let mut own = self.counter.lock();
        match own.as_mut() {
            None => false,
            Some(own) => {
                *own = counter;
                true
            }
        }
    }

    /// The next numbers, so many, if the transaction alone takes numbers of it.
    ///
    /// # Errors
    /// `Invalid` (2200H) where the sequence ends before.
    pub(crate) fn take(&self, count: usize) -> Result<Option<Vec<i64>>> {
        let mut own = self.counter.lock();
        let Some(counter) = own.as_mut() else {
            return Ok(None);
        };
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let block = self
                .sequence
                .block(*counter, (count - taken.len()) as u64)?;
            taken.extend((0..block.count).map(|place| block.at(place)));
            *counter = Counter {
                last: block.last(),
                called: true,
            };
        }
        Ok(Some(taken))
    }
}

/// What was never called.
pub(super) fn not_called(name: &str) -> Error {
    Error::invalid(format!(
        "currval of sequence {name:?} is not yet defined in this session"
    ))
    .with_hint("nextval, or an INSERT that takes its numbers, comes first")
    .with_sqlstate("55000")
}
