//! Sequences: who takes numbers of them, and what the session remembers of that
//! (`docs/design/0018-sequences.md`).
//!
//! ```text
//!   INSERT, COPY, Arrow   defaults   -- Numbers::next, before a batch of rows is made --+
//!   nextval('s')          functions  -- Numbers::next, once a row ----------------------+
//!                                                                                       |
//!     a sequence of the transaction's own ----- OwnSequence: in memory, until COMMIT <--+
//!     any other ------------------------------- Instance: reserved, durable <-----------'
//! ```
//!
//! Numbers are of no transaction: ROLLBACK gives none back. Invariant SEQ-1: each row of a
//! statement has a number of its own, which no other row ever gets while nobody sets the sequence.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lazybase_cluster::Instance;
use lazybase_model::sequence::Counter;
use lazybase_model::{Error, Result, SequenceId};
use parking_lot::Mutex;

use crate::access::Gate;
use crate::pg_catalog;
use crate::session::{Session, Shared};
use crate::visible::{SeenSequence, Visible};

pub(crate) mod called;
pub(crate) mod columns;
pub(crate) mod functions;
pub(crate) mod own;
pub(crate) mod statements;

/// The numbers that a session took last.
#[derive(Debug, Default)]
pub(crate) struct LastNumbers(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    of: BTreeMap<SequenceId, i64>,
    /// The sequence that a number was taken of last.
    newest: Option<SequenceId>,
}

impl LastNumbers {
    fn note(&self, sequence: SequenceId, number: i64, is_taken: bool) {
        let mut last = self.0.lock();
        last.of.insert(sequence, number);
        if is_taken {
            last.newest = Some(sequence);
        }
    }
}

/// Takes numbers for one statement.
#[derive(Clone)]
pub(crate) struct Numbers {
    instance: Instance,
    /// The sequences as of now, also where the statement reads an earlier moment.
    visible: Visible,
    last: Arc<LastNumbers>,
    /// What the session may do; `None` is whoever owns the folder.
    gate: Option<Gate>,
    /// Whether the session, or its transaction, changes nothing.
    read_only: bool,
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbers")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl Numbers {
    /// Those of nobody's session.
    pub(crate) fn of(instance: &Instance) -> Numbers {
        Numbers {
            instance: instance.clone(),
            visible: Visible::stored(instance.manifest()),
            last: Arc::default(),
            gate: None,
            read_only: false,
        }
    }

    /// The sequence that a text names, as SQL reads names, or a number as catalogues have it.
    ///
    /// # Errors
    /// As [`Visible::require_sequence`].
    fn named(&self, text: &str) -> Result<SeenSequence> {
        if let Ok(oid) = text.trim().parse::<i64>() {
            let mut all = self.visible.sequences().into_iter();
            let found = all.find(|seen| pg_catalog::oid_of_sequence(seen.sequence.id) == oid);
            return found.ok_or_else(|| {
                Error::not_found(format!("there is no sequence of number {oid}"))
                    .with_sqlstate("42P01")
            });
        }
        self.visible.require_sequence(&called::name_of(text)?)
    }

    /// Whether others are those of the same session.
    fn is_same(&self, other: &Numbers) -> bool {
        Arc::ptr_eq(&self.last, &other.last)
    }

    /// Whether a function may take or set numbers.
    ///
    /// # Errors
    /// `Invalid` (25006) where nothing may be changed.
    fn check_writes(&self, function: &str) -> Result<()> {
        match self.read_only {
            false => Ok(()),
            true => Err(
                Error::invalid(format!("{function} can't run in what is read only"))
                    .with_sqlstate("25006"),
            ),
        }
    }

    /// The next numbers of a sequence, so many.
    ///
    /// # Errors
    /// As [`Instance::next_numbers`].
    pub(crate) async fn next(&self, sequence: SequenceId, count: usize) -> Result<Vec<i64>> {
        let own = self.visible.changes.own_sequence(sequence);
        let taken = match own.map(|own| own.take(count)).transpose()?.flatten() {
            Some(taken) => taken,
            None => self.instance.next_numbers(sequence, count).await?,
        };
        if let Some(last) = taken.last() {
            self.last.note(sequence, *last, true);
        }
        Ok(taken)
    }

    /// The same for a default that names a sequence: whoever gives it no value needs the right to
    /// take numbers, as one who calls nextval.
    ///
    /// # Errors
    /// `Invalid` (42501) where no numbers of it may be taken; as [`Numbers::next`].
    pub(crate) async fn next_by_default(
        &self,
        sequence: SequenceId,
        count: usize,
    ) -> Result<Vec<i64>> {
        let asked = self.gate.as_ref().filter(|gate| !gate.rights().superuser);
        if let Some(gate) = asked {
            let seen = self.visible.sequence(sequence).ok_or_else(|| {
                Error::not_found(format!(
                    "sequence {sequence} is gone: another session dropped it"
                ))
                .with_sqlstate("42P01")
            })?;
            gate.take_numbers(&seen.sequence)?;
        }
        self.next(sequence, count).await
    }

    /// The number that the session took last of a sequence.
    ///
    /// # Errors
    /// `Invalid` (55000) where it took none.
    fn current(&self, seen: &SeenSequence) -> Result<i64> {
        let last = self.last.0.lock();
        let number = last.of.get(&seen.sequence.id).copied();
        number.ok_or_else(|| own::not_called(&seen.sequence.name))
    }

    /// The number that the session took last of all, and of which sequence.
    ///
    /// # Errors
    /// `Invalid` (55000) where it took none.
    fn newest(&self) -> Result<(SequenceId, i64)> {
        let last = self.last.0.lock();
        let newest = last.newest;
        let newest = newest.and_then(|newest| Some((newest, *last.of.get(&newest)?)));
        newest.ok_or_else(|| {
            Error::invalid("lastval is not yet defined in this session")
                .with_hint("nextval, or an INSERT that takes numbers, comes first")
                .with_sqlstate("55000")
        })
    }

    /// Has a sequence go on from elsewhere.
    ///
    /// # Errors
    /// `Invalid` (22003) for a number that it never gives out, and as [`Instance::set_sequence`].
    async fn set(&self, seen: &SeenSequence, number: i64, called: bool) -> Result<()> {
        let (id, counter) = (seen.sequence.id, seen.sequence.counter(number, called)?);
        let own = self.visible.changes.own_sequence(id);
        if !own.is_some_and(|own| own.set(counter)) {
            self.instance.set_sequence(id, counter).await?;
        }
        if called {
            self.last.note(id, number, false);
        }
        Ok(())
    }

    /// Where a sequence stands, as far as numbers were given out.
    pub(crate) fn counter(&self, seen: &SeenSequence) -> Counter {
        let own = self.visible.changes.own_sequence(seen.sequence.id);
        let own = own.and_then(|own| own.counter());
        let stored = || self.instance.sequence_counter(seen.sequence.id).ok();
        own.or_else(stored).unwrap_or(seen.counter)
    }
}

impl Session {
    /// Forgets which numbers the session took last: `currval` and `lastval` know none from here on.
    pub fn forget_numbers(&self) {
        *self.shared().last_numbers.0.lock() = Last::default();
    }
}

impl Shared {
    /// What takes numbers for a statement of the session.
    pub(crate) fn numbers(&self) -> Numbers {
        let gate = self.gate_now();
        let read_only = self.state.lock().is_read_only();
        Numbers {
            instance: self.instance().clone(),
            visible: self.visible(),
            last: Arc::clone(&self.last_numbers),
            gate: Some(gate),
            read_only,
        }
    }
}
