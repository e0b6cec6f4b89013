//! Temporary tables: those of one session, which nobody else sees, and which end with it.
//!
//! ```text
//!   CREATE TEMPORARY TABLE t   ->  a table that is stored as "pg_temp_7.t", for session 7
//!   pg_temp.t                  ->  t, if it is a temporary one
//!   public.t                   ->  t, if it is none; the temporary one where there is no other
//!   names in session 7         ->  t means that one; elsewhere it means nothing
//!   the session ends           ->  it is dropped; after a crash, when the database is opened
//! ```
//!
//! They are tables as all others are: their rows are in the log, their changes in transactions.
//! Invariant TMP-1: a stored name of this form is seen by its session alone, without its prefix,
//! and by no session under another name.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use lazybase_cluster::Instance;
use lazybase_engine::manifest::{Ddl, Manifest};
use lazybase_model::{Error, Result, Table};

use crate::parse::{self, Unbound};
use crate::session::{Session, Shared};

/// How the stored names of temporary tables begin; no other table's does.
const PREFIX: &str = "pg_temp_";

/// The schema that stands for the session's temporary tables, wherever they may be named.
pub(crate) const PG_TEMP: &str = "pg_temp";

/// The name of a table of which a statement says that it is a temporary one: no other table has
/// such a name.
pub(crate) fn of_session(name: &str) -> String {
    format!("{PG_TEMP}.{name}")
}

/// The table's own name, of such a name.
pub(crate) fn named(name: &str) -> Option<&str> {
    name.strip_prefix(PG_TEMP)?.strip_prefix('.')
}

/// The name of a table of which a statement says that it is in the schema `public`, where the
/// session has a temporary one of the same name. No temporary table has such a name, for none has
/// one that begins with its schema.
pub(crate) fn of_public(name: &str) -> String {
    of_session(&of_session(name))
}

/// The table's own name, of such a name.
pub(crate) fn named_in_public(name: &str) -> Option<&str> {
    named(named(name)?)
}

/// The name that something has, or gets, which a statement calls so, or by any other name.
pub(crate) fn own_name(name: &str) -> &str {
    named_in_public(name).unwrap_or(name)
}

/// The number of a session that has, or has had, temporary tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Temporary(u64);

/// Gives numbers to sessions. They are those of one process: tables of an earlier one are gone.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Temporary {
    fn next() -> Temporary {
        Temporary(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The name that a table of the session is stored under.
    pub(crate) fn stored(self, name: &str) -> String {
        format!("{PREFIX}{}.{name}", self.0)
    }

    /// The name that the session sees of a table that is stored under `stored`, if it is its own.
    pub(crate) fn shown(self, stored: &str) -> Option<&str> {
        let (number, name) = parts(stored)?;
        (number == self.0).then_some(name)
    }
}

/// The number of the session and the name, of the stored name of a temporary table.
fn parts(stored: &str) -> Option<(u64, &str)> {
    let (number, name) = stored.strip_prefix(PREFIX)?.split_once('.')?;
    Some((number.parse().ok()?, name))
}

/// Whether a stored name is that of a temporary table.
pub(crate) fn is_stored(name: &str) -> bool {
    parts(name).is_some()
}

/// A table as a session sees it: `None` for what is of another one.
pub(crate) fn seen(table: Arc<Table>, by: Option<Temporary>) -> Option<Arc<Table>> {
    if !is_stored(&table.name) {
        return Some(table);
    }
    let name = by?.shown(&table.name)?.to_owned();
    let mut table = Table::clone(&table);
    table.name = name;
    Some(Arc::new(table))
}

/// A table as it is stored, after a change to what its session sees of it.
pub(crate) fn as_stored(table: &Arc<Table>, by: Option<Temporary>) -> Arc<Table> {
    match by {
        Some(by) if !is_stored(&table.name) => {
            let mut table = Table::clone(table);
            table.name = by.stored(&table.name);
            Arc::new(table)
        }
        _ => Arc::clone(table),
    }
}

/// A temporary table stands where it can't.
pub(crate) fn refused(what: &str) -> Error {
    Error::invalid(format!("a temporary table can't have {what}"))
        .with_hint("make it without TEMPORARY")
        .with_sqlstate("0A000")
}

/// Drops the temporary tables of one session, or of all.
///
/// # Errors
/// `Unavailable` when the manifest can't be written.
async fn drop_of(instance: &Instance, of: Option<Temporary>) -> Result<()> {
    let ends = |manifest: &Manifest| -> Vec<Ddl> {
        let tables = manifest.tables.values().map(|state| &state.table);
        let tables = tables.filter(|table| match of {
            Some(of) => of.shown(&table.name).is_some(),
            None => is_stored(&table.name),
        });
        tables.map(|table| Ddl::Drop { table: table.id }).collect()
    };
    let ddl = ends(&instance.manifest());
    if !ddl.is_empty() {
        instance.commit(ddl, None).await?;
    }
    Ok(())
}

/// Drops what sessions left that a crash has ended.
///
/// # Errors
/// As [`drop_of`].
pub(crate) async fn drop_left(instance: &Instance) -> Result<()> {
    drop_of(instance, None).await
}

impl Session {
    /// Drops the session's temporary tables, as DISCARD TEMP does; inside of a transaction, none.
    ///
    /// # Errors
    /// `Unavailable` when the manifest can't be written.
    pub fn drop_temporary(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let _running = self.shared().gate.lock().await;
            let of = self.shared().state.lock().temporary;
            match of {
                Some(_) if !self.in_transaction() => drop_of(self.shared().instance(), of).await,
                _ => Ok(()),
            }
        })
    }
}

impl Shared {
    /// Reads one statement as the session means its names.
    ///
    /// # Errors
    /// As [`parse::read`].
    pub(crate) fn read(&self, sql: &str) -> Result<Unbound> {
        parse::read_beside(sql, &self.temporary_names(sql))
    }

    /// The names of its temporary tables, if the text may name others in their schema.
    pub(crate) fn temporary_names(&self, sql: &str) -> BTreeSet<String> {
        let has_some = self.state.lock().temporary.is_some();
        match has_some && parse::may_name_schema(sql) {
            true => self.visible().temporary_names(),
            false => BTreeSet::new(),
        }
    }

    /// The session's number for temporary tables, given now if it has none.
    pub(crate) fn temporary(&self) -> Temporary {
        // What a branch makes is its parent's too, and ends with that.
        let of_parent = self.parent().map(|parent| parent.temporary());
        let mut state = self.state.lock();
        let given = of_parent.or(state.temporary);
        *state
            .temporary
            .insert(given.unwrap_or_else(Temporary::next))
    }
}

impl Drop for Shared {
    /// Its temporary tables end with a session; where there is no runtime any more to drop them,
    /// the next opening does.
    fn drop(&mut self) {
        let of = self.state.get_mut().temporary;
        let (Some(of), None) = (of, self.parent()) else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let instance = self.instance().clone();
            runtime.spawn(async move {
                if let Err(error) = drop_of(&instance, Some(of)).await {
                    tracing::warn!(%error, "temporary tables are left until the next start");
                }
            });
        }
    }
}
