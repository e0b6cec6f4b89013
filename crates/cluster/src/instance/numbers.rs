//! Numbers of sequences.

use async_recursion::async_recursion as boxed;
use lazybase_engine::env::planted::{Planted, is_planted};
use lazybase_model::sequence::Counter;
use lazybase_model::{Result, SequenceId};
use tokio::sync::oneshot;

use super::Instance;
use crate::coordinator::{Command, Event};
use crate::sequences::Reserved;

impl Instance {
    /// An id for a sequence that is being defined: nobody else gets it. It is not there yet:
    /// [`Instance::commit`] makes it.
    pub fn take_sequence_id(&self) -> SequenceId {
        SequenceId(self.shared.take_ids().0.0)
    }

    /// The next numbers of a sequence, so many: nobody else gets them, whatever becomes of the
    /// caller. Others may have taken some between them.
    ///
    /// # Errors
    /// `NotFound` (42P01) when the sequence is gone, `Invalid` (2200H) when it has ended,
    /// `Unavailable` or `MaybeHappened` when the store does not take the edit that reserves them.
    #[boxed]
    pub async fn next_numbers(&self, sequence: SequenceId, count: usize) -> Result<Vec<i64>> {
        let sequences = &self.shared.sequences;
        let mut taken = Vec::new();
        sequences.take(&self.manifest(), sequence, count, &mut taken)?;
        if taken.len() >= count {
            return Ok(taken);
        }
        let _turn = sequences.reserving.lock().await;
        loop {
            sequences.take(&self.manifest(), sequence, count, &mut taken)?;
            let missing = count.saturating_sub(taken.len());
            if missing == 0 {
                return Ok(taken);
            }
            let block = sequences.block_for(sequence, missing);
            let reserved = match is_planted(Planted::NumbersEarly) {
                true => self.reserve_unheard(sequence, block)?,
                false => self.reserve(sequence, block).await?,
            };
            sequences.put(sequence, reserved);
            sequences.forget(&self.manifest());
        }
    }

    async fn reserve(&self, sequence: SequenceId, count: u64) -> Result<Reserved> {
        let reserved = self.ask(|reply| Command::ReserveNumbers {
            sequence,
            count,
            reply,
        });
        reserved.await?
    }

    /// The same, without waiting until it is done.
    fn reserve_unheard(&self, sequence: SequenceId, count: u64) -> Result<Reserved> {
        let manifest = self.manifest();
        let state = manifest.sequence(sequence)?;
        let (reply, _) = oneshot::channel();
        // Nobody hears whether the coordinator is there.
        let _ = self.events.send(Event::Asked(Command::ReserveNumbers {
            sequence,
            count,
            reply,
        }));
        Ok(Reserved {
            block: state.sequence.block(state.counter, count)?,
            set_in: state.set_in,
            before: state.counter,
        })
    }

    /// Where a sequence stands, as far as numbers were given out.
    ///
    /// # Errors
    /// `NotFound` (42P01) when the sequence is gone.
    pub fn sequence_counter(&self, sequence: SequenceId) -> Result<Counter> {
        self.shared.sequences.counter(&self.manifest(), sequence)
    }

    /// Has a sequence go on from elsewhere: behind a number that counts as given out, or with one
    /// that does not.
    ///
    /// # Errors
    /// `NotFound` (42P01) when the sequence is gone, `Invalid` (22003) for a number that it never
    /// gives out, and as [`Instance::next_numbers`].
    #[boxed]
    pub async fn set_sequence(&self, sequence: SequenceId, counter: Counter) -> Result<()> {
        self.ask(|reply| Command::SetSequence {
            sequence,
            counter,
            reply,
        })
        .await?
    }
}
