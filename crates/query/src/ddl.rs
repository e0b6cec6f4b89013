//! CREATE TABLE, CREATE TABLE AS, DROP TABLE, TRUNCATE: a transaction of their own, or a part of
//! the session's. Each takes effect at a boundary of the order of batches.
//!
//! ```text
//!   names looked up -> definition under ids of its own -> Sink: table changes, then rows
//!                                                           -> one commit, or the buffer
//! ```
//!
//! Invariant DDL-2: a statement's tables and rows are there together, or none of them: CREATE TABLE
//! AS writes its rows under the new table's id before the table is there.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Query, Statement};
use lazybase_cluster::TableSpec;
use lazybase_engine::ttl::Expiry;
use lazybase_model::{Column, Error, ErrorKind, Result, Table, TableId};

pub(crate) mod partitions;
pub(crate) mod taken;

use crate::alter::default_value;
use crate::answer::AnswerStream;
use crate::clauses::Clauses;
use crate::dml::insert::{Conflict, Rows, write_rows};
use crate::dml::sink::Sink;
use crate::id_keys;
use crate::notice::Notice;
use crate::parse::create::{checked_name, mark_key};
use crate::parse::{CreateTable, convert};
use crate::pg_catalog::types::is_json_field;
use crate::read;
use crate::sequences::columns;
use crate::sequences::own::OwnSequence;
use crate::sequences::statements::as_stored;
use crate::session::{Shared, ours};
use crate::temporary;
use crate::types;
use crate::views;
use crate::visible::{TableChange, Visible};

/// CREATE TABLE, with or without a query.
pub(crate) async fn create(
    session: &Arc<Shared>,
    create: CreateTable,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    let name = create.name.clone();
    let if_not_exists = create.if_not_exists;
    let of_session = create.temporary;
    let unlogged = create.unlogged;
    let is_there = || {
        let visible = session.visible();
        match of_session {
            true => visible.table(&temporary::of_session(&name)).is_some(),
            false => visible.is_taken(&name),
        }
    };
    let taken_by = || match of_session {
        true => Some("table"),
        false => session.visible().taken_by(&name),
    };
    let said = || match taken_by() {
        Some("table") | None => format!("table {name:?} is there already"),
        Some(kind) => format!("{name:?} is there already: a {kind}"),
    };
    let skipped = || {
        let notice = Notice::note(format!("{}: skipped", said())).with_sqlstate("42P07");
        AnswerStream::done("CREATE TABLE", 0).with_notices([notice])
    };
    match (is_there(), if_not_exists) {
        (true, true) => return Ok(skipped()),
        (true, false) => {
            let hint = match taken_by() {
                Some("table") | None => "CREATE TABLE IF NOT EXISTS leaves it as it is",
                Some("sequence") => "give the table another name, or drop the sequence first",
                Some(_) => "give the table another name, or drop the view first",
            };
            let error = Error::conflict(said()).with_hint(hint);
            return Err(error.with_sqlstate("42P07"));
        }
        (false, _) => {}
    }
    match make(session, create, clauses, sql).await {
        // Somebody else was quicker.
        Err(error) if if_not_exists && error.kind() == ErrorKind::Conflict && is_there() => {
            Ok(skipped())
        }
        made => {
            let left_out = "UNLOGGED is left out: the table is kept as all others are";
            made.map(|answer| answer.with_notices(unlogged.then(|| Notice::note(left_out))))
        }
    }
}

async fn make(
    session: &Arc<Shared>,
    mut create: CreateTable,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    if let Some(query) = create.query.take() {
        return make_as(session, create, query, clauses, sql).await;
    }
    session.gate_now().create()?;
    let numbered = columns::plan(session, &mut create)?;
    check_defaults(session, &create)?;
    id_keys::declare(&session.visible(), &session.gate_now(), &mut create)?;
    let mut sink = Sink::of(session);
    if create.temporary && !create.id_keys.is_empty() {
        return Err(temporary::refused("ID keys"));
    }
    let tables = session.instance().define_tables(&spec(session, &create)?)?;
    let sequences = match tables.first() {
        Some(table) => columns::changes(numbered, table)?,
        None => Vec::new(),
    };
    let tables = tables.into_iter().map(TableChange::Create);
    for change in tables.chain(sequences) {
        sink.change_table(change)?;
    }
    let token = sink.finish(session).await?;
    Ok(AnswerStream::done("CREATE TABLE", 0).with_token(token))
}

fn spec(session: &Shared, create: &CreateTable) -> Result<TableSpec> {
    let key: Vec<&str> = create.key.iter().map(String::as_str).collect();
    let name = match create.temporary {
        true => session.temporary().stored(&create.name),
        false => create.name.clone(),
    };
    Ok(TableSpec {
        partitioning: partitions::spec(create)?,
        ttl: ttl(create)?,
        freshness_target_micros: create.freshness_target_micros,
        layout: create.layout,
        comment: create.comment.clone(),
        row_labels: create.row_labels,
        ..TableSpec::new(&name, create.columns.clone(), &key)
    })
}

/// The column that rows end by, and how long after its moment.
fn ttl(create: &CreateTable) -> Result<Option<(String, u64)>> {
    let (micros, column) = &create.ttl;
    let wrong =
        |what: String, hint: &str| Err(Error::invalid(what).with_hint(hint).with_sqlstate("42804"));
    let (micros, name) = match (micros, column) {
        (None, None) => return Ok(None),
        (Some(micros), Some(name)) => (*micros, name),
        (Some(_), None) => {
            let what = "ttl needs the column that it counts from".to_owned();
            return wrong(what, "WITH (ttl = '30 days', ttl_column = 'at')");
        }
        (None, Some(_)) => {
            let what = "ttl_column needs ttl".to_owned();
            return wrong(what, "WITH (ttl = '30 days', ttl_column = 'at')");
        }
    };
    let column = create.columns.iter().find(|column| column.name == *name);
    let Some(column) = column else {
        return Err(Error::not_found(format!(
            "table {:?} has no column {name:?} for its time to live",
            create.name
        ))
        .with_sqlstate("42703"));
    };
    if !Expiry::takes(&column.data_type) {
        let data_type = types::name(&column.data_type);
        let what = format!("column {name:?} can't say when rows end: it is of type {data_type}");
        return wrong(what, "ttl_column names a TIMESTAMP or DATE column");
    }
    Ok(Some((name.clone(), micros)))
}

/// Evaluates each default once, so that a wrong one is refused now and not with each row.
fn check_defaults(session: &Arc<Shared>, create: &CreateTable) -> Result<()> {
    for column in &create.columns {
        default_value(session, &create.name, column)?;
    }
    Ok(())
}

async fn make_as(
    session: &Arc<Shared>,
    mut create: CreateTable,
    query: Box<Query>,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    session.gate_now().create()?;
    let query = convert::reading(query)?;
    let opened = read::open(session, Statement::Query(query), clauses, sql).await?;
    for field in opened.rows.schema().fields() {
        let name = checked_name(field.name().clone())?;
        if create.columns.iter().any(|column| column.name == name) {
            return Err(Error::invalid(format!("column {name:?} is there twice"))
                .with_hint("name the columns of the query with AS")
                .with_sqlstate("42701"));
        }
        let data_type = match types::is_uuid(field) {
            true => types::UUID,
            false => types::storable(field.data_type())
                .map_err(|error| error.within(format_args!("column {name:?}")))?,
        };
        create.columns.push(Column {
            json: is_json_field(field),
            ..Column::new(name, data_type)
        });
    }
    mark_key(&mut create.columns, &create.key)?;
    let table = session.instance().define_table(&spec(session, &create)?)?;
    let given: Vec<usize> = (0..table.visible_columns()).collect();
    let mut sink = Sink::of(session);
    sink.change_table(TableChange::Create(Arc::clone(&table)))?;
    if create.without_rows {
        let token = sink.finish(session).await?;
        return Ok(AnswerStream::done("CREATE TABLE AS", 0).with_token(token));
    }
    let rows = Rows::given(ours(opened.rows, sql));
    let rows = write_rows(session, &table, &given, rows, &Conflict::Replace, &mut sink).await?;
    let token = sink.finish(session).await?;
    let stamp = opened.snapshot.as_ref().map(|snapshot| snapshot.stamp());
    Ok(AnswerStream::done(format!("SELECT {rows}"), rows)
        .with_token(token)
        .with_stamp(stamp))
}

/// DROP TABLE: all of the tables, or none.
pub(crate) async fn drop(
    session: &Arc<Shared>,
    names: &[String],
    if_exists: bool,
    cascade: bool,
) -> Result<AnswerStream> {
    let find = |visible: &Visible, name: &str| {
        visible
            .require(name)
            .map_err(|error| match visible.relation(name) {
                Some(view) if view.query.is_some() => error.with_hint("DROP VIEW drops it"),
                Some(_) => error.with_hint("DROP MATERIALIZED VIEW drops the view alone"),
                None => visible.sequence_instead(name).unwrap_or(error),
            })
    };
    let dropped = |visible: &Visible, table: Arc<Table>, _: &[TableId]| -> Result<Vec<_>> {
        // Who may not drop it is not told what reads it.
        session.gate_now().own(&table)?;
        views::dropped(visible, table, cascade)
    };
    change_all(session, names, if_exists, find, dropped, "DROP TABLE").await
}

/// TRUNCATE: all of the tables, or none; with `restart`, the sequences of their columns begin
/// again.
pub(crate) async fn truncate(
    session: &Arc<Shared>,
    names: &[String],
    if_exists: bool,
    restart: bool,
) -> Result<AnswerStream> {
    let find = |visible: &Visible, name: &str| visible.require(name);
    let truncated = |visible: &Visible, table: Arc<Table>, _: &[TableId]| {
        let owned = match restart {
            true => visible.sequences_of(&table),
            false => Vec::new(),
        };
        let again = owned.into_iter().map(|seen| {
            let sequence = as_stored(session, &seen);
            let counter = Some(sequence.begin());
            TableChange::AlterSequence(Arc::new(OwnSequence::new(sequence, counter)))
        });
        let truncate = TableChange::Truncate(table);
        Ok(std::iter::once(truncate).chain(again).collect())
    };
    change_all(session, names, if_exists, find, truncated, "TRUNCATE TABLE").await
}

/// Does the changes that `changes_of` tells for what `find` finds under each name, beside the ids
/// of all that are named, all or none; with `if_exists`, names that are not found are skipped. All
/// are looked for first, so that one which is named twice changes once, also where another has its
/// name once it is gone.
pub(crate) async fn change_all(
    session: &Arc<Shared>,
    names: &[String],
    if_exists: bool,
    find: impl Fn(&Visible, &str) -> Result<Arc<Table>>,
    changes_of: impl Fn(&Visible, Arc<Table>, &[TableId]) -> Result<Vec<TableChange>>,
    tag: &str,
) -> Result<AnswerStream> {
    let may_be_skipped = |error: &Error| if_exists && error.kind() == ErrorKind::NotFound;
    loop {
        let visible = session.visible();
        let mut found: Vec<Arc<Table>> = Vec::new();
        let mut notices = Vec::new();
        for name in names {
            match find(&visible, name) {
                Ok(table) if found.iter().any(|known| known.id == table.id) => {}
                Ok(table) => found.push(table),
                Err(error) if may_be_skipped(&error) => {
                    notices.push(Notice::note(format!("{}: skipped", error.message())));
                }
                Err(error) => return Err(error),
            }
        }
        let mut sink = Sink::of(session);
        let ids: Vec<TableId> = found.iter().map(|table| table.id).collect();
        let mut dropped: Vec<TableId> = Vec::new();
        for table in found {
            for change in changes_of(&visible, table, &ids)? {
                // A view may read several of them.
                if let TableChange::DropPlainView(view) = &change {
                    if dropped.contains(&view.id) {
                        continue;
                    }
                    dropped.push(view.id);
                }
                sink.change_table(change)?;
            }
        }
        match sink.finish(session).await {
            // Somebody else dropped one of them meanwhile: it is skipped next time.
            Err(error) if may_be_skipped(&error) => {}
            Err(error) => return Err(error),
            Ok(token) => {
                return Ok(AnswerStream::done(tag, 0)
                    .with_token(token)
                    .with_notices(notices));
            }
        }
    }
}
