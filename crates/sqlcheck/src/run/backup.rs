//! Backups, and databases that are made of them as of an SCU: each holds what was there then.

use std::sync::Arc;

use lazybase_cluster::{AsOf, RestoreRequest, StageName, restore};
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_model::{Horizon, ScuNumber};
use lazybase_query::Database;

use super::{Run, Violation, World, fine, open, timely, wrong};
use crate::compare::Table;
use crate::plain;
use crate::query::Order;

fn env(store: &MemoryStore) -> Env {
    Env::system(Arc::new(store.clone()))
}

impl World {
    /// Takes a backup, and restores it as of an SCU: so many thousandths of the way from the oldest
    /// that it reaches to its newest.
    pub(super) async fn restore(&mut self, share: usize) -> Run {
        if self.transaction.is_some() || self.versions.is_empty() {
            return Ok(());
        }
        fine(self.resume(&[StageName::Sort]).await)?;
        let backups = MemoryStore::without_history();
        let target = env(&backups);
        let taken = timely(self.database.instance().backup(&target, &|_| {})).await?;
        fine(self.pause().await)?;
        let taken = taken.map_err(|error| Violation(format!("no backup: {error:?}")))?;
        let oldest = taken.oldest.0.max(self.first_scu());
        let Some(more) = taken.newest.0.checked_sub(oldest) else {
            return Ok(());
        };
        let scu = ScuNumber(oldest + more * share as u64 / 1000);
        self.say(format!("-- restored as of SCU {scu}"));
        let request = RestoreRequest {
            number: Some(taken.number),
            at: Some(AsOf::Scu(scu)),
            ..RestoreRequest::default()
        };
        let store = MemoryStore::without_history();
        let into = env(&store);
        let restored = timely(restore(&backups, &into, request, &|_| {})).await?;
        if let Err(error) = restored {
            return wrong(format!("not restored as of SCU {scu}: {error:?}"));
        }
        let database = match timely(open(&store)).await? {
            Ok(database) => database,
            Err(error) => return wrong(format!("restored as of SCU {scu}, not opened: {error:?}")),
        };
        let compared = self.compare_restored(&database, scu).await;
        let closed = timely(database.close()).await?;
        compared?;
        self.outcome.tally.restored += 1;
        fine(closed)
    }

    /// Compares the tables of a database that was restored, which have the names that they had.
    async fn compare_restored(&self, database: &Database, scu: ScuNumber) -> Run {
        let end = Horizon::end_of(scu);
        let at = self.version_at(end);
        let mut then = self.versions[at].state.clone();
        for version in self.versions[..=at].iter().rev() {
            // What was renamed or made right at the boundary came after it.
            if !then.keeps_names(&version.state) || !version.state.keeps_names(&then) {
                return Ok(());
            }
            if version.horizon < end {
                break;
            }
        }
        let today = &self.versions[self.newest()].state;
        then.tables
            .retain(|_, rows| today.table(rows.table.id).is_some());
        then.views.clear();
        then.temporary.clear();
        let tables = self.plain.tables(&then, &self.known, "");
        let tables = tables.map_err(|error| Violation(format!("{error:?}")))?;
        let session = database.session();
        for name in then.tables.keys() {
            let sql = format!("SELECT * FROM {name}");
            let what = format!("restored as of SCU {scu}: {sql}");
            let answer = match timely(session.execute(&sql)).await? {
                Ok(mut answers) => answers.remove(0),
                Err(error) => return wrong(format!("{what}: {error:?}")),
            };
            let expected = plain::answer(&tables, &sql).await;
            let expected = expected.map_err(|error| Violation(format!("{what}: {error:?}")))?;
            let got = Table::new(&answer.schema, &answer.batches);
            if let Some(difference) = expected.differs(&got, &Order::Any) {
                return wrong(format!("{what}\n{difference}"));
            }
        }
        Ok(())
    }
}
