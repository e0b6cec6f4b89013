//! Drives the stages of the database between statements, so that its rows lie in many mixes of
//! them.

use lazybase_cluster::{SettleTo, StageName};
use lazybase_model::Result;

use super::{Run, World, fine, open, timely};
use crate::story::Push;

const AFTER_INGEST: [StageName; 3] = [StageName::Sort, StageName::Merge, StageName::Authority];

/// How often a merge is waited for, and how long each time.
const LOOKS: u32 = 20;

impl World {
    /// Lets nothing go on by itself but remapping.
    pub(super) async fn pause(&self) -> Result<()> {
        for stage in AFTER_INGEST {
            self.database.instance().pause(stage).await?;
        }
        Ok(())
    }

    pub(super) async fn resume(&self, stages: &[StageName]) -> Result<()> {
        for stage in stages {
            self.database.instance().resume(*stage).await?;
        }
        Ok(())
    }

    async fn settle(&self, to: SettleTo) -> Run {
        let settled = timely(self.database.instance().settle(None, to, &|_| {})).await?;
        fine(settled)
    }

    pub(super) async fn push(&mut self, push: Push) -> Run {
        self.say(format!("-- {push:?}"));
        match push {
            Push::Seal => fine(timely(self.database.instance().seal()).await?),
            Push::Sort => {
                fine(self.resume(&[StageName::Sort]).await)?;
                self.settle(SettleTo::Sorted).await?;
                fine(self.pause().await)
            }
            Push::Merge => {
                fine(self.resume(&[StageName::Sort, StageName::Merge]).await)?;
                self.settle(SettleTo::Sorted).await?;
                self.rest().await;
                fine(self.pause().await)
            }
            Push::Authority => {
                fine(self.resume(&AFTER_INGEST).await)?;
                self.settle(SettleTo::Authority).await?;
                fine(self.pause().await)
            }
            Push::Free => fine(self.resume(&AFTER_INGEST).await),
            Push::Restart => self.restart().await,
            Push::Restore(share) => self.restore(share).await,
        }
    }

    /// Waits a moment until no stage works.
    #[expect(
        clippy::disallowed_methods,
        reason = "watches the database from outside"
    )]
    async fn rest(&self) {
        for _ in 0..LOOKS {
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            if self.database.instance().status().running.is_empty() {
                return;
            }
        }
    }

    /// Closes the database and opens it again; what was not committed is gone, and so are the
    /// temporary tables of its sessions.
    async fn restart(&mut self) -> Run {
        self.transaction = None;
        self.pin = None;
        self.slow = None;
        self.prepared.clear();
        fine(timely(self.database.close()).await?)?;
        self.database = match timely(open(&self.store)).await? {
            Ok(database) => database,
            Err(error) => return fine::<()>(Err(error)),
        };
        fine(self.sessions().await)?;
        let mut state = self.state();
        if !state.temporary.is_empty() {
            state.temporary.clear();
            self.add_version(state, None);
        }
        fine(self.pause().await)
    }
}
