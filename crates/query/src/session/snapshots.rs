//! Which snapshot a statement of a session reads.
//!
//! ```text
//!   transaction that has read    its snapshot, whatever the statement asks for
//!   query                        clauses, else settings; not before the floor -> a new one
//!   write that must find rows    everything acknowledged                      -> a new one
//!   what will a query give?      as the query, but nothing is waited for      -> a new one
//! ```
//!
//! Reads what the session remembers; a query raises its floor (SES-1), and may pin its
//! transaction's snapshot.

use lazybase_cluster::{AsOf, SnapshotRequest};
use lazybase_engine::read::Snapshot;
use lazybase_model::{Error, Freshness, Horizon, OnMiss, Result, TableId, Token};
use tracing::Instrument;

use super::{Shared, State};
use crate::clauses::{Clauses, PastPoint};

impl Shared {
    /// The snapshot that a statement reads: the transaction's, or a new one that satisfies the
    /// clauses, the settings and the session's floor.
    pub(crate) async fn snapshot(
        &self,
        clauses: &Clauses,
        tables: Option<Vec<TableId>>,
    ) -> Result<Snapshot> {
        let snapshot = self.found(clauses, tables, true).await?;
        let mut state = self.state.lock();
        if let Some(transaction) = &mut state.transaction
            && transaction.snapshot.is_none()
        {
            transaction.snapshot = Some(snapshot.clone());
            transaction.pinned_by = Some(*clauses);
        }
        let snapshot = own(&state, snapshot);
        drop(state);
        self.rise(snapshot.horizon());
        Ok(snapshot)
    }

    /// The same for who asks what a statement gives: no transaction is pinned by that, and nothing
    /// is waited for, which the statement itself will do.
    pub(crate) async fn glance(
        &self,
        clauses: &Clauses,
        tables: Option<Vec<TableId>>,
    ) -> Result<Snapshot> {
        let snapshot = self.found(clauses, tables, false).await?;
        Ok(own(&self.state.lock(), snapshot))
    }

    async fn found(
        &self,
        clauses: &Clauses,
        tables: Option<Vec<TableId>>,
        may_wait: bool,
    ) -> Result<Snapshot> {
        let mut request = {
            let state = self.state.lock();
            let transaction = state.transaction.as_ref();
            if let Some(transaction) = transaction
                && let Some(pinned) = transaction.snapshot.clone()
            {
                let by_statement = transaction.pinned_by.as_ref() == Some(clauses);
                let after = clauses.after.or(state.settings.after);
                return self.pinned(pinned, clauses, by_statement, after);
            }
            let tables = tables.filter(|_| transaction.is_none());
            self.request(&state, clauses, tables)?
        };
        if !may_wait && matches!(request.on_miss, OnMiss::Wait(_)) {
            request.on_miss = OnMiss::Dig;
        }
        let pin = tracing::info_span!("pin");
        self.instance().snapshot(request).instrument(pin).await
    }

    /// A snapshot of the newest that was acknowledged, for writes that must find rows: what the
    /// session's settings let its queries leave out would be left as it was. A transaction that has
    /// read finds what it has seen.
    pub(crate) async fn newest(&self, tables: Option<Vec<TableId>>) -> Result<Snapshot> {
        let clauses = match self.has_snapshot() {
            true => Clauses::default(),
            false => Clauses {
                freshness: Some(Freshness::ZERO),
                on_miss: Some(OnMiss::Dig),
                ..Clauses::default()
            },
        };
        self.snapshot(&clauses, tables).await
    }

    fn pinned(
        &self,
        pinned: Snapshot,
        clauses: &Clauses,
        by_statement: bool,
        after: Option<Token>,
    ) -> Result<Snapshot> {
        let asks = clauses.freshness.is_some() || clauses.as_of.is_some();
        if asks && !by_statement {
            return Err(Error::invalid("the transaction's snapshot is pinned")
                .with_detail(format!(
                    "its first read took horizon {}: FRESHNESS and AS OF come too late",
                    pinned.horizon()
                ))
                .with_hint("give them with the first query, or after COMMIT")
                .with_sqlstate("25001"));
        }
        if let Some(token) = after {
            let wanted = token.horizon_in(self.instance().database())?;
            if wanted > pinned.horizon() {
                return Err(
                    Error::invalid("the transaction's snapshot is before the token")
                        .with_detail(format!("it is at {}, not {wanted}", pinned.horizon()))
                        .with_hint("COMMIT, and read after it")
                        .with_sqlstate("25001"),
                );
            }
        }
        Ok(pinned)
    }

    fn request(
        &self,
        state: &State,
        clauses: &Clauses,
        tables: Option<Vec<TableId>>,
    ) -> Result<SnapshotRequest> {
        let settings = &state.settings;
        let mut floor = match settings.monotonic && clauses.as_of.is_none() {
            true => state.floor,
            false => Horizon::ZERO,
        };
        let set = settings.after.filter(|_| clauses.as_of.is_none());
        if let Some(token) = clauses.after.or(set) {
            floor = floor.max(token.horizon_in(self.instance().database())?);
        }
        Ok(SnapshotRequest {
            freshness: clauses.freshness.unwrap_or(settings.freshness),
            floor,
            on_miss: clauses.on_miss.unwrap_or(settings.on_miss),
            at: clauses.as_of.map(|point| match point {
                PastPoint::Scu(scu) => AsOf::Scu(scu),
                PastPoint::Micros(micros) => AsOf::Timestamp { micros },
            }),
            tables,
            owner: settings.application_name.clone(),
        })
    }
}

/// The snapshot as the transaction sees it.
fn own(state: &State, snapshot: Snapshot) -> Snapshot {
    match &state.transaction {
        Some(transaction) => snapshot.with_own(transaction.buffer.tables.own()),
        None => snapshot,
    }
}
