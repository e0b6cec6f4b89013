//! CREATE INDEX and LOCK TABLE, which change nothing: what they name is looked at all
//! the same.

use std::sync::Arc;

use lazybase_model::{Error, Result, Table};

use crate::answer::AnswerStream;
use crate::definition::{beyond_postgres, identifier};
use crate::notice::Notice;
use crate::parse::taken::{Index, Taken};
use crate::parse::unsupported;
use crate::session::Shared;

/// Does such a statement.
///
/// # Errors
/// As CREATE INDEX and LOCK TABLE.
pub(crate) fn run(session: &Arc<Shared>, taken: Taken) -> Result<AnswerStream> {
    match taken {
        Taken::Index(index) => create_index(session, &index),
        Taken::Lock(names) => lock(session, &names),
        Taken::Nothing { tag, notices } => Ok(AnswerStream::done(tag, 0).with_notices(notices)),
    }
}

/// LOCK TABLE ... IN ACCESS SHARE MODE, which pg_dump says of each table that it is to write.
///
/// # Errors
/// `Invalid`: 25P01 outside of a transaction, 0A000 for a table that pg_dump would write as another
/// one; `NotFound` (42P01).
fn lock(session: &Arc<Shared>, names: &[String]) -> Result<AnswerStream> {
    if session.state.lock().transaction.is_none() {
        return Err(
            Error::invalid("LOCK TABLE can only be used in a transaction").with_sqlstate("25P01"),
        );
    }
    let (visible, gate) = (session.visible(), session.gate_now());
    for name in names {
        let table = match visible.view(name) {
            Some(view) => view,
            None => visible.require(name)?,
        };
        gate.look(&table)?;
        if let Some(what) = beyond_postgres(&table) {
            let name = &table.name;
            return Err(unsupported(format!("pg_dump can't write {name:?}: {what}"))
                .with_detail("PostgreSQL's statements, which pg_dump writes, can't say so")
                .with_hint(format!(
                    "leave it out: pg_dump --exclude-table={name}; BACKUP copies all there is, \
                     SHOW CREATE TABLE and COPY ... TO write one table"
                )));
        }
    }
    Ok(AnswerStream::done("LOCK TABLE", 0))
}

/// CREATE INDEX: taken where its columns are there, and unique already if it says so.
///
/// # Errors
/// `NotFound` for a table (42P01) or a column (42703) that is not there, `Invalid` (0A000) where
/// nothing would keep the columns unique.
fn create_index(session: &Arc<Shared>, index: &Index) -> Result<AnswerStream> {
    let visible = session.visible();
    let view = visible.view(&index.on);
    let of_view = view.as_ref().and_then(|view| visible.table_of(view));
    let table = match of_view {
        Some(table) => table,
        None => visible.require(&index.on)?,
    };
    session.gate_now().look(view.as_ref().unwrap_or(&table))?;
    let named = &table.columns[..table.visible_columns()];
    for name in &index.columns {
        if !named.iter().any(|column| column.name == *name) {
            let what = format!("table {:?} has no column {name:?}", table.name);
            return Err(Error::not_found(what)
                .with_name(name)
                .with_sqlstate("42703"));
        }
    }
    let key = match table.hidden_key {
        true => Vec::new(),
        false => table.key_indices(),
    };
    let key = key.iter().map(|at| &table.columns[*at].name);
    let beside: Vec<&String> = key
        .clone()
        .filter(|name| !index.columns.contains(name))
        .collect();
    if index.unique && (table.hidden_key || !beside.is_empty()) {
        return Err(unsupported("CREATE UNIQUE INDEX is not supported here")
            .with_detail("writes are blind: only the primary key is kept unique")
            .with_hint("make these columns the PRIMARY KEY, or leave UNIQUE out"));
    }
    let order: Vec<&String> = index.columns.iter().chain(beside).collect();
    let notice = Notice::note(no_index(&table, &order));
    Ok(AnswerStream::done("CREATE INDEX", 0).with_notices([notice]))
}

/// The notice of an index that is not made, and of what keeps rows in an order.
fn no_index(table: &Table, order: &[&String]) -> String {
    if table.hidden_key || order.is_empty() {
        return "no index is made: rows are sorted by the primary key of their table".to_owned();
    }
    let order: Vec<String> = order.iter().map(|name| identifier(name)).collect();
    format!(
        "no index is made: rows are sorted by the primary key of their table; to have them in \
         another order too, CREATE MATERIALIZED VIEW v AS SELECT * FROM {} ORDER BY {}",
        identifier(&table.name),
        order.join(", ")
    )
}
