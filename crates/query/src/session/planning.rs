//! What a statement of a session needs to be planned and run.
//!
//! Reads what the session remembers, and writes nothing of it, but that a transaction has locks of
//! its own.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use lazybase_engine::read::Snapshot;
use lazybase_model::{ColumnId, TableId};

use super::{Shared, State};
use crate::advisory::{SessionLocks, SpanLocks, TransactionLocks};
use crate::catalog::Names;
use crate::context::{Constants, Context, OfSession};
use crate::id_keys::own::Buffered;
use crate::settings::Settings;
use crate::told::Told;

/// What a statement may do with one table of its query: that which UPDATE or DELETE changes, or one
/// whose IDs are only compared.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) table: TableId,
    /// Whether its hidden key is shown, where it stands first in the FROM.
    pub(crate) hidden_key: bool,
    /// Columns that the statement itself needs, and shows nobody.
    pub(crate) free: Vec<ColumnId>,
    /// Whether the rows may have IDs of natural keys that are new: the statement shows none.
    pub(crate) new_ids: bool,
}

impl State {
    /// What a statement of a session locks for its transaction, or for itself where there is none.
    fn locks(&mut self, session: &Arc<SessionLocks>) -> Arc<SpanLocks> {
        match &mut self.transaction {
            Some(transaction) => {
                let locks = &mut transaction.locks;
                locks
                    .get_or_insert_with(|| TransactionLocks::new(session))
                    .span()
            }
            None => SpanLocks::new(session),
        }
    }
}

impl Shared {
    /// The planner for one statement over a snapshot, and the transaction's own changes.
    pub(crate) fn context(
        &self,
        snapshot: Option<Snapshot>,
        buffered: Buffered,
        target: Option<Target>,
    ) -> (Context, Names) {
        let mut visible = self.visible();
        if let Some(snapshot) = &snapshot {
            visible.manifest = Arc::clone(snapshot.manifest());
        }
        let (settings, identity, locks) = {
            let mut state = self.state.lock();
            let locks = state.locks(&self.locks);
            (self.settings_of(&state), state.identity, locks)
        };
        let with_new_ids = target.as_ref().filter(|t| t.new_ids).map(|t| t.table);
        let gate = self.gate_now();
        let gate = match target {
            Some(target) => gate.with_free(target.table, target.free),
            None => gate,
        };
        let names = Names {
            visible,
            gate,
            identity,
            snapshot,
            buffered,
            with_new_ids,
            notes: Arc::default(),
            within: None,
            planned: Arc::default(),
            activities: Arc::clone(self.database.activities()),
            cursors: Arc::clone(&self.cursors),
            named: Arc::clone(&self.named),
            locks,
            numbers: self.numbers(),
            pid: self.activity().map(|activity| activity.pid()),
        };
        let planner = self.database.planner();
        let context = Context::new(planner, &settings, names.clone(), self.instance());
        (context, names)
    }

    /// The settings as a statement sees them.
    fn settings_of(&self, state: &State) -> Settings {
        let told = Told::of(state, &self.database);
        state.settings.clone().with_told(told)
    }

    /// What counts memory as that of queries.
    pub(crate) fn reserve(&self, what: &str) -> MemoryReservation {
        let pool = &self.database.planner().runtime_env().memory_pool;
        MemoryConsumer::new(what).register(pool)
    }

    /// What evaluates the constants of a write.
    pub(crate) fn constants(&self) -> Constants {
        let numbers = self.numbers();
        let mut state = self.state.lock();
        let locks = state.locks(&self.locks);
        let of_session = OfSession {
            settings: self.settings_of(&state),
            identity: state.identity,
            locks,
            numbers,
        };
        Constants::new(self.database.clone(), Some(of_session))
    }
}
