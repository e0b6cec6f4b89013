//! What a run did, what came of it, and whether that is enough to say that nothing was found.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Args;
use crate::history::Register;
use crate::tables::{ADDED_EVERY, DEFINER, WRITERS};

/// With fewer rounds nothing is asked of their kinds.
const ROUNDS_JUDGED: u64 = 10;

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
    /// Runs of the authority that merges made, of all tables and views.
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
    /// Acknowledged batches that changed a table.
    pub(crate) tables_changed: u64,
    /// Batches that were refused for that.
    pub(crate) conflicts: u64,
    pub(crate) unknown: u64,
    pub(crate) refused: u64,
    pub(crate) answers: u64,
    /// Those that were read as whole rows.
    pub(crate) answers_of_rows: u64,
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
            at_least("freezes", self.freezes.into(), 1);
            if args.require_disk {
                at_least("full disks", self.fills.into(), 1);
                let refused = self.read_only.into();
                at_least("starts on a read-only disk", refused, 1);
                let lives = self.read_only_lives.into();
                at_least("lives on a read-only disk", lives, 1);
                let failed = u64::from(self.disk == "ext4");
                at_least("disks that failed", self.failed_disks.into(), failed);
            }
            let merges = self.merges_to_authority;
            at_least("merges to the authority", merges, rounds / 2);
            for (writer, acknowledged) in &self.acknowledged_by {
                let what = format!("acknowledgements of writer {writer}");
                at_least(&what, *acknowledged, rounds);
            }
            // Half of those that are due where no batch fails.
            let changing = self.acknowledged_by.get(&DEFINER).copied();
            let changing = changing.unwrap_or_default() / ADDED_EVERY / 2;
            at_least("changes of a table", self.tables_changed, changing);
            let whole = self.answers_of_rows;
            at_least("answers of whole rows", whole, rounds / 2);
            let writers = self.acknowledged_by.len() as u64;
            at_least("writers with acknowledgements", writers, WRITERS.into());
            for (reader, answers) in self.answers_by.iter().enumerate() {
                at_least(&format!("answers of reader {reader}"), *answers, rounds);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;

    use super::Report;
    use crate::Args;

    /// What is enough for sixty rounds and forty damaged files on an ext4.
    fn enough() -> Report {
        Report {
            disk: "ext4",
            rounds: 60,
            kills: 1,
            freezes: 1,
            fills: 1,
            stops: 1,
            read_only: 1,
            read_only_lives: 1,
            failed_disks: 1,
            merges_to_authority: 30,
            corruptions: 40,
            corruptions_after_kills: 20,
            acknowledged_by: BTreeMap::from([(1, 400), (2, 60), (3, 60), (4, 60)]),
            tables_changed: 4,
            answers_of_rows: 30,
            answers_by: vec![60; 3],
            ..Report::default()
        }
    }

    fn too_little(more: &[&str], change: impl FnOnce(&mut Report)) -> String {
        let mut report = enough();
        change(&mut report);
        let given = ["torture", "--rounds", "60", "--corruptions", "40"];
        let args = Args::parse_from(given.into_iter().chain(more.iter().copied()));
        report.too_little(&args).join("; ")
    }

    #[test]
    fn enough_is_enough() {
        assert_eq!(too_little(&["--require-disk"], |_| {}), "");
    }

    /// What is said of a report, and what makes it so.
    type Missed = (&'static str, fn(&mut Report));

    #[test]
    fn all_that_is_asked_for_is_missed() {
        let missed: [Missed; 10] = [
            ("rounds: 59, not 60", |report| report.rounds = 59),
            ("damaged files: 39", |report| report.corruptions = 39),
            ("killed databases: 19", |report| {
                report.corruptions_after_kills = 19;
            }),
            ("kills: 0", |report| report.kills = 0),
            ("stops: 0", |report| report.stops = 0),
            ("freezes: 0", |report| report.freezes = 0),
            ("merges to the authority: 29", |report| {
                report.merges_to_authority = 29;
            }),
            ("changes of a table: 3", |report| report.tables_changed = 3),
            ("answers of whole rows: 29", |report| {
                report.answers_of_rows = 29;
            }),
            ("answers of reader 2: 59", |report| {
                report.answers_by[2] = 59
            }),
        ];
        for (what, change) in missed {
            let found = too_little(&[], change);
            assert!(found.contains(what), "{what}: {found:?}");
        }
        let found = too_little(&[], |report| {
            report.acknowledged_by.remove(&3);
        });
        assert!(
            found.contains("writers with acknowledgements: 3"),
            "{found}"
        );
    }

    #[test]
    fn what_needs_a_disk_is_missed_where_one_was_asked_for() {
        let missed: [Missed; 4] = [
            ("full disks: 0", |report| report.fills = 0),
            ("starts on a read-only disk: 0", |report| {
                report.read_only = 0
            }),
            ("lives on a read-only disk: 0", |report| {
                report.read_only_lives = 0;
            }),
            ("disks that failed: 0", |report| report.failed_disks = 0),
        ];
        for (what, change) in missed {
            assert_eq!(too_little(&[], change), "");
            let found = too_little(&["--require-disk"], change);
            assert!(found.contains(what), "{what}: {found:?}");
        }
        let in_memory = |report: &mut Report| (report.disk, report.failed_disks) = ("tmpfs", 0);
        assert_eq!(too_little(&["--require-disk"], in_memory), "");
    }
}
