//! The stamp: what every answer says about itself.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::freshness::{DisplayDuration, Freshness};
use crate::moment::DisplayMoment;
use crate::scu::Horizon;

/// How far an SCU, or a span of SCUs, has come (section 3.3 of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Acknowledged batches of the SCU that is still open.
    Open,
    /// Sealed, unsorted: the log.
    Ingested,
    /// Unsorted, with global IDs.
    Remapped,
    /// One sorted run for each table and view.
    Sorted,
    /// Joined with its neighbours.
    Merged,
    /// Part of the base run.
    Authority,
}

impl Stage {
    /// All stages, in the order of the flow.
    pub const ALL: [Stage; 6] = [
        Stage::Open,
        Stage::Ingested,
        Stage::Remapped,
        Stage::Sorted,
        Stage::Merged,
        Stage::Authority,
    ];

    /// The stage's name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Open => "open",
            Stage::Ingested => "ingested",
            Stage::Remapped => "remapped",
            Stage::Sorted => "sorted",
            Stage::Merged => "merged",
            Stage::Authority => "authority",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an answer read, by stage. Runs and batches are sources that were opened; extents and
/// bytes are what was actually fetched from the store or the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceCounts {
    /// Acknowledged batches of the open SCU.
    pub open_batches: u64,
    /// Sealed SCUs that are not sorted.
    pub unsorted_scus: u64,
    /// Sorted runs of one SCU.
    pub sorted_runs: u64,
    /// Merged runs.
    pub merged_runs: u64,
    /// Base runs.
    pub authority_runs: u64,
    /// Extents (in Parquet: row groups or pages) that were read.
    pub extents_read: u64,
    /// Extents that an index or filter let the read skip.
    pub extents_pruned: u64,
    /// Bytes fetched from the store, as stored.
    pub bytes_read: u64,
    /// Extents served from the cache of decoded extents.
    pub cache_hits: u64,
    /// The newest SCU of which any source was opened: never past the horizon.
    pub newest_scu_opened: u64,
}

impl SourceCounts {
    /// Adds what another part of the same answer read.
    pub fn add(&mut self, other: &SourceCounts) {
        self.open_batches += other.open_batches;
        self.unsorted_scus += other.unsorted_scus;
        self.sorted_runs += other.sorted_runs;
        self.merged_runs += other.merged_runs;
        self.authority_runs += other.authority_runs;
        self.extents_read += other.extents_read;
        self.extents_pruned += other.extents_pruned;
        self.bytes_read += other.bytes_read;
        self.cache_hits += other.cache_hits;
        self.newest_scu_opened = self.newest_scu_opened.max(other.newest_scu_opened);
    }

    /// The stages that were read, earliest first.
    pub fn stages(&self) -> Vec<Stage> {
        [
            (self.open_batches, Stage::Open),
            (self.unsorted_scus, Stage::Ingested),
            (self.sorted_runs, Stage::Sorted),
            (self.merged_runs, Stage::Merged),
            (self.authority_runs, Stage::Authority),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, stage)| stage)
        .collect()
    }
}

/// What every answer says: as of when it is true, and what it cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// The answer contains exactly the batches up to here.
    pub horizon: Horizon,
    /// The answer is true as of this moment, in microseconds since 1970 on the coordinator's
    /// clock: when the first batch after the horizon was acknowledged, or now if there is none.
    pub as_of_micros: i64,
    /// What the query asked for; does not count where it asked for a point of the past.
    pub freshness_asked: Freshness,
    /// The point of the past that it asked for instead, as its AS OF names it: `SCU 40`, or
    /// `TIMESTAMP 2026-01-31 12:00:00`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of_asked: Option<String>,
    /// How stale the answer is.
    pub staleness: Duration,
    /// Acknowledged batches that the answer leaves out.
    pub batches_left_out: u64,
    /// What was read.
    pub sources: SourceCounts,
    /// What best effort would have saved, when that is much; no other bound is compared.
    pub advice: Option<String>,
}

impl Stamp {
    /// What the query asked for, in words: `0`, `30s`, `best effort`, `as of SCU 40`.
    pub fn asked(&self) -> String {
        match &self.as_of_asked {
            Some(point) => format!("as of {point}"),
            None => self.freshness_asked.to_string(),
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "horizon {}", self.horizon)?;
        match self.batches_left_out {
            0 => f.write_str(", complete")?,
            n => write!(
                f,
                ", {} stale, {n} acknowledged {} left out",
                DisplayDuration(self.staleness),
                if n == 1 { "batch" } else { "batches" },
            )?,
        }
        write!(f, " (asked {})", self.asked())?;
        write!(f, ", as of {}", DisplayMoment(self.as_of_micros))?;
        let stages: Vec<&str> = self
            .sources
            .stages()
            .iter()
            .map(|stage| stage.name())
            .collect();
        if !stages.is_empty() {
            write!(f, ", read {}", stages.join("+"))?;
        }
        write!(
            f,
            ", {} extent{}, {} bytes",
            self.sources.extents_read,
            if self.sources.extents_read == 1 {
                ""
            } else {
                "s"
            },
            self.sources.bytes_read
        )?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scu::ScuNumber;

    #[test]
    fn a_stamp_says_as_of_when_it_is_true() {
        let mut stamp = Stamp {
            horizon: Horizon::inside(ScuNumber(41), 3),
            as_of_micros: 1_769_860_803_250_000,
            freshness_asked: Freshness::ZERO,
            as_of_asked: None,
            staleness: Duration::ZERO,
            batches_left_out: 0,
            sources: SourceCounts {
                open_batches: 3,
                authority_runs: 1,
                extents_read: 1,
                bytes_read: 786_432,
                ..SourceCounts::default()
            },
            advice: None,
        };
        assert_eq!(
            stamp.to_string(),
            "horizon 40+3, complete (asked 0), as of 2026-01-31 12:00:03.250000 UTC, \
             read open+authority, 1 extent, 786432 bytes"
        );
        stamp.as_of_asked = Some("SCU 38".to_owned());
        stamp.horizon = Horizon::end_of(ScuNumber(38));
        stamp.staleness = Duration::from_millis(1_900);
        stamp.batches_left_out = 57;
        stamp.sources = SourceCounts::default();
        stamp.advice = Some("so much less".to_owned());
        assert_eq!(
            stamp.to_string(),
            "horizon 38, 1.90s stale, 57 acknowledged batches left out (asked as of SCU 38), \
             as of 2026-01-31 12:00:03.250000 UTC, 0 extents, 0 bytes; so much less"
        );
    }
}
