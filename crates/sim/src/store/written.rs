//! What is written to the log of batches: in how many frames, under which SCUs, and in which files.

use std::collections::{BTreeMap, BTreeSet};

use super::frames::frames_in;
use crate::marks::Mark;

/// What was written of batches that are not committed yet.
#[derive(Debug, Default)]
pub(crate) struct Written(BTreeMap<u64, OfBatch>);

#[derive(Debug, Default)]
struct OfBatch {
    frames: u64,
    scus: BTreeSet<u64>,
    files: BTreeSet<String>,
}

impl Written {
    /// Frames were written to a file; what their batches are examples of.
    pub(crate) fn note(&mut self, name: &str, bytes: &[u8]) -> Vec<Mark> {
        let mut met = Vec::new();
        for frame in frames_in(bytes) {
            let batch = self.0.entry(frame.batch).or_default();
            batch.scus.insert(frame.scu);
            batch.files.insert(name.to_owned());
            if !frame.commits {
                batch.frames += 1;
                continue;
            }
            met.extend((batch.frames > 1).then_some(Mark::FramesSeveral));
            met.extend((batch.scus.len() > 1).then_some(Mark::FramesOfScus));
            met.extend((batch.files.len() > 1).then_some(Mark::FramesInFiles));
            self.0.remove(&frame.batch);
        }
        met
    }

    /// Whether there are frames of a batch that was not committed.
    pub(crate) fn has_open_batches(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
