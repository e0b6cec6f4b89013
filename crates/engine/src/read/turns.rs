//! Turns: who gives numbers to natural keys, one after the other, and past whoever hangs.
//!
//! ```text
//!   A   takes the turn -- hangs .......................... goes on: nothing of it is kept
//!   B          waits for it ....| the turn is passed on | takes it -- keeps its numbers
//! ```
//!
//! No I/O, no clock. Invariant ID-5: numbers are kept only by whoever has the turn at that moment,
//! so that whoever takes it finds all that was kept before, and nothing is kept behind its back.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct Turns(Mutex<Arc<Semaphore>>);

/// The turn, as long as it is held and was not passed on.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    line: Arc<Semaphore>,
    _held: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns(Mutex::new(new_line()))
    }
}

/// Where one at a time has the turn, and the others wait.
fn new_line() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(1))
}

impl Turns {
    /// Waits for the turn.
    pub(super) async fn take(&self) -> Turn<'_> {
        loop {
            let line = Arc::clone(&self.0.lock());
            // A line is closed once another one has taken its place.
            if let Ok(held) = Arc::clone(&line).acquire_owned().await {
                return Turn {
                    turns: self,
                    line,
                    _held: held,
                };
            }
        }
    }

    /// Passes the turn on: whoever waits for it need not wait for the one that has it.
    pub(super) fn pass_on(&self) {
        let passed = std::mem::replace(&mut *self.0.lock(), new_line());
        passed.close();
    }
}

impl Turn<'_> {
    /// Does something that nobody else does meanwhile; nothing if the turn was passed on.
    pub(super) fn during<T>(&self, keep: impl FnOnce() -> T) -> Option<T> {
        let line = self.turns.0.lock();
        Arc::ptr_eq(&line, &self.line).then(keep)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn one_has_the_turn_and_the_next_one_comes_after_it() {
        let turns = Turns::default();
        let first = block_on(turns.take());
        let mut second = pin!(turns.take());
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(first.during(|| 1), Some(1));
        drop(first);
        let second = second.now_or_never().expect("nobody has it any more");
        assert_eq!(second.during(|| 2), Some(2));
    }

    #[test]
    fn a_turn_that_was_passed_on_keeps_nothing_and_holds_up_nobody() {
        let turns = Turns::default();
        let hanging = block_on(turns.take());
        let mut waiting = pin!(turns.take());
        assert!(waiting.as_mut().now_or_never().is_none());
        turns.pass_on();
        let next = waiting.now_or_never().expect("nobody waits for the other");
        assert_eq!(hanging.during(|| 1), None);
        assert_eq!(next.during(|| 2), Some(2));
        // It is still one after the other.
        drop(hanging);
        let mut last = pin!(turns.take());
        assert!(last.as_mut().now_or_never().is_none());
        drop(next);
        assert!(last.now_or_never().is_some());
    }
}
