//! Drives the pipeline between the statements of a file, so that its rows lie in one mix of
//! stages.

use std::sync::atomic::{AtomicU64, Ordering};

use lazybase_cluster::{Instance, SettleTo, StageName};
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
    /// By turns sorted, merged, and in the authority.
    PartlyMerged,
    /// In the authority before each statement.
    Authority,
}

/// The pipeline of one run.
pub(crate) struct Pipeline {
    database: Database,
    mix: Mix,
    statements: AtomicU64,
}

const AFTER_INGEST: [StageName; 3] = [StageName::Sort, StageName::Merge, StageName::Authority];

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
        for stage in AFTER_INGEST {
            self.instance().pause(stage).await?;
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
        match (self.mix, turn % 4) {
            (Mix::Open | Mix::Authority, _) => Ok(()),
            (Mix::HalfSorted, 1 | 3) | (Mix::PartlyMerged, 1) => {
                self.instance().resume(StageName::Sort).await?;
                self.settle(SettleTo::Sorted).await?;
                self.pause().await
            }
            (Mix::PartlyMerged, 3) => {
                self.resume().await?;
                self.settle(SettleTo::Authority).await?;
                self.pause().await
            }
            _ => self.instance().seal().await.map(|_| ()),
        }
    }

    async fn settle(&self, to: SettleTo) -> Result<()> {
        self.instance().settle(None, to, &|_| {}).await
    }
}
