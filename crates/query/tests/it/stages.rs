//! Drives the pipeline between the statements of a file, so that its rows lie in one mix of
//! stages.

use std::sync::atomic::{AtomicU64, Ordering};

use lazybase_cluster::{Instance, Settings, SettleTo, StageName};
use lazybase_engine::manifest::{RunKind, RunRef};
use lazybase_model::Result;
use lazybase_query::Database;

/// Where the rows of a file lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    /// In the open SCU: nothing is sealed but what DDL seals.
    Open,
    /// Sealed after each statement, never sorted.
    Unsorted,
    /// Every second time sorted.
    HalfSorted,
    /// In several key ranges, of which some are merged and others not: every second time sorted,
    /// joined where many runs lie over each other, and now and then brought to the authority.
    PartlyMerged,
    /// In the authority before each statement.
    Authority,
}

impl Mix {
    /// What a database is opened with, so that few rows come to lie so.
    pub(crate) fn settings(self) -> Settings {
        match self {
            // More runs than three times the fan-in are joined by pairs before they go to the base.
            Mix::PartlyMerged => Settings {
                range_split_bytes: 4 << 10,
                merge_fan_in: 2,
                ..Settings::default()
            },
            _ => Settings::default(),
        }
    }

    /// The stages that do nothing between statements.
    fn paused(self) -> &'static [StageName] {
        match self {
            Mix::PartlyMerged => &[StageName::Sort, StageName::Authority],
            _ => &AFTER_INGEST,
        }
    }
}

/// The pipeline of one run.
pub(crate) struct Pipeline {
    database: Database,
    mix: Mix,
    statements: AtomicU64,
}

const AFTER_INGEST: [StageName; 3] = [StageName::Sort, StageName::Merge, StageName::Authority];

/// What is partly merged is brought to the authority on this turn, so that there is a base early,
/// and again after so many more: several runs come to lie over it meanwhile.
const AUTHORITY_TURNS: (u64, u64) = (3, 16);

impl Pipeline {
    pub(crate) fn new(database: Database, mix: Mix) -> Pipeline {
        Pipeline {
            database,
            mix,
            statements: AtomicU64::new(0),
        }
    }

    fn instance(&self) -> &Instance {
        self.database.instance()
    }

    pub(crate) async fn start(&self) -> Result<()> {
        if self.mix == Mix::Open {
            self.instance().pause(StageName::Ingest).await?;
        }
        match self.mix {
            Mix::Authority => Ok(()),
            _ => self.pause().await,
        }
    }

    async fn pause(&self) -> Result<()> {
        for stage in self.mix.paused() {
            self.instance().pause(*stage).await?;
        }
        Ok(())
    }

    async fn resume(&self) -> Result<()> {
        for stage in AFTER_INGEST {
            self.instance().resume(stage).await?;
        }
        Ok(())
    }

    pub(crate) async fn before(&self, in_transaction: bool) -> Result<()> {
        match self.mix {
            Mix::Authority if !in_transaction => self.settle(SettleTo::Authority).await,
            _ => Ok(()),
        }
    }

    pub(crate) async fn after(&self, in_transaction: bool) -> Result<()> {
        if in_transaction {
            return Ok(());
        }
        let turn = self.statements.fetch_add(1, Ordering::Relaxed);
        let (first, every) = AUTHORITY_TURNS;
        match self.mix {
            Mix::Open | Mix::Authority => Ok(()),
            Mix::PartlyMerged if turn % every == first => {
                self.resume().await?;
                self.settle(SettleTo::Authority).await?;
                self.pause().await
            }
            Mix::HalfSorted | Mix::PartlyMerged if turn % 2 == 1 => {
                self.instance().resume(StageName::Sort).await?;
                self.settle(SettleTo::Sorted).await?;
                self.pause().await
            }
            _ => self.instance().seal().await.map(|_| ()),
        }
    }

    /// How many key ranges of a table have runs that are merged and not in the authority, and how
    /// many it has in all.
    pub(crate) fn merged_ranges(&self, table: &str) -> (usize, usize) {
        let manifest = self.instance().manifest();
        let ranges = &manifest.table_named(table).unwrap().ranges;
        let is_merged = |entry: &RunRef| {
            let run = manifest.runs.get(&entry.id);
            entry.is_current() && run.is_some_and(|run| run.kind == RunKind::Merged)
        };
        let merged = ranges
            .iter()
            .filter(|range| range.runs.iter().any(is_merged));
        (merged.count(), ranges.len())
    }

    async fn settle(&self, to: SettleTo) -> Result<()> {
        self.instance().settle(None, to, &|_| {}).await
    }
}
