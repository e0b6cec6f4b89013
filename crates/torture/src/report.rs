//! What a run did, what came of it, and whether that is enough to say that nothing was found.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Args;
use crate::history::Register;
use crate::rounds::WRITERS;

/// With fewer rounds nothing is asked of their kinds.
const ROUNDS_JUDGED: u64 = 10;

/// In so many rounds one merge to the authority is the least that is asked.
const ROUNDS_A_MERGE: u64 = 10;

/// What was done, and what came of it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// The kind of file system that the database lay on.
    pub(crate) disk: &'static str,
    pub(crate) rounds: u32,
    pub(crate) kills: u32,
    pub(crate) freezes: u32,
    pub(crate) fills: u32,
    pub(crate) stops: u32,
    /// Starts on a disk that could only be read, which were refused.
    pub(crate) read_only: u32,
    /// Lives in which the disk could only be read for a while.
    pub(crate) read_only_lives: u32,
    /// Lives in which the disk failed.
    pub(crate) failed_disks: u32,
    /// Batches that had to be acknowledged after a trouble, and were.
    pub(crate) recoveries: u32,
    /// Runs of the authority that merges made between rounds' beginnings.
    pub(crate) merges_to_authority: u64,
    pub(crate) corruptions: u32,
    /// Those of databases that had been killed.
    pub(crate) corruptions_after_kills: u32,
    pub(crate) corruptions_refused: u32,
    pub(crate) corruptions_query_failed: u32,
    pub(crate) corruptions_right: u32,
    pub(crate) corruptions_healed: u32,
    pub(crate) acknowledged: u64,
    pub(crate) acknowledged_by: BTreeMap<Register, u64>,
    pub(crate) unknown: u64,
    pub(crate) refused: u64,
    pub(crate) answers: u64,
    /// By the readers' places in a round.
    pub(crate) answers_by: Vec<u64>,
    pub(crate) slowest_start_ms: u64,
    pub(crate) refusals: BTreeMap<String, u64>,
    pub(crate) skipped: Vec<String>,
    pub(crate) shortfalls: Vec<String>,
    pub(crate) violations: usize,
    pub(crate) seconds: u64,
}

impl Report {
    /// What was asked for and did not happen.
    pub(crate) fn too_little(&self, args: &Args) -> Vec<String> {
        let mut found = Vec::new();
        let mut at_least = |what: &str, is: u64, wanted: u64| {
            if is < wanted {
                found.push(format!("{what}: {is}, not {wanted}"));
            }
        };
        let rounds = u64::from(args.rounds);
        at_least("rounds", self.rounds.into(), rounds);
        let corruptions = u64::from(self.corruptions);
        at_least("damaged files", corruptions, args.corruptions.into());
        let killed = self.corruptions_after_kills.into();
        let half = u64::from(args.corruptions / 2);
        at_least("damaged files of killed databases", killed, half);
        if rounds >= ROUNDS_JUDGED {
            at_least("kills", self.kills.into(), 1);
            at_least("stops", self.stops.into(), 1);
            let merges = self.merges_to_authority;
            at_least("merges to the authority", merges, rounds / ROUNDS_A_MERGE);
            for (writer, acknowledged) in &self.acknowledged_by {
                let what = format!("acknowledgements of writer {writer}");
                at_least(&what, *acknowledged, rounds);
            }
            let writers = self.acknowledged_by.len() as u64;
            at_least("writers with acknowledgements", writers, WRITERS.into());
            for (reader, answers) in self.answers_by.iter().enumerate() {
                at_least(&format!("answers of reader {reader}"), *answers, rounds);
            }
        }
        found
    }
}
