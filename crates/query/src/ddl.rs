//! CREATE TABLE, CREATE TABLE AS, DROP TABLE, TRUNCATE: each takes effect at a boundary of the
//! order of batches (design section 3).
//!
//! CREATE TABLE AS is two steps: the table, then its rows as one batch. A query that fails leaves
//! no table; a crash between the two leaves it empty.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Query, Statement};
use lazybase_cluster::TableSpec;
use lazybase_model::{Column, ColumnDefault, ColumnId, Error, Result};

use crate::answer::AnswerStream;
use crate::cast::{checked_length, to_column};
use crate::clauses::Clauses;
use crate::dml::insert::{Conflict, write_rows};
use crate::dml::sink::Sink;
use crate::parse::create::{checked_name, mark_key};
use crate::parse::{CreateTable, convert};
use crate::read;
use crate::session::{Shared, ours};
use crate::types;

/// CREATE TABLE, with or without a query.
pub(crate) async fn create(
    session: &Arc<Shared>,
    create: CreateTable,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    let exists = session
        .instance()
        .manifest()
        .table_named(&create.name)
        .is_some();
    if exists && create.if_not_exists {
        let notice = format!("table {:?} is there already: skipped", create.name);
        return Ok(AnswerStream::done("CREATE TABLE", 0).with_notices(vec![notice]));
    }
    if exists {
        return Err(
            Error::conflict(format!("table {:?} is there already", create.name))
                .with_hint("CREATE TABLE IF NOT EXISTS leaves it as it is")
                .with_sqlstate("42P07"),
        );
    }
    let mut create = create;
    if let Some(query) = create.query.take() {
        return create_as(session, create, query, clauses, sql).await;
    }
    check_defaults(session, &create)?;
    session
        .instance()
        .create_table(spec(&create), create.if_not_exists)
        .await?;
    session.note_ddl();
    Ok(AnswerStream::done("CREATE TABLE", 0))
}

fn spec(create: &CreateTable) -> TableSpec {
    TableSpec {
        name: create.name.clone(),
        columns: create.columns.clone(),
        key: create.key.clone(),
        layout: create.layout,
        comment: create.comment.clone(),
    }
}

/// Evaluates each default once, so that a wrong one is refused now and not with each row.
fn check_defaults(session: &Arc<Shared>, create: &CreateTable) -> Result<()> {
    let (context, _) = session.context(None, None);
    for column in &create.columns {
        if let ColumnDefault::Expression(text) = &column.default {
            let place = crate::cast::Place {
                table: &create.name,
                column,
                first_row: 1,
            };
            let within = |error: Error| {
                error.within(format_args!("the default of column {:?}", column.name))
            };
            let expr = crate::dml::defaults::parse_expression(text).map_err(within)?;
            let value = match crate::literal::Literal::of(&expr) {
                Some(literal) => crate::literal::to_array(&[literal], &place),
                None => context
                    .constant(&expr, 1)
                    .and_then(|value| to_column(&value, &place)),
            };
            value
                .and_then(|value| checked_length(value, &place))
                .map_err(within)?;
        }
    }
    Ok(())
}

async fn create_as(
    session: &Arc<Shared>,
    mut create: CreateTable,
    query: Box<Query>,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    let query = convert::reading(query)?;
    let opened = read::open(session, Statement::Query(query), clauses, sql).await?;
    for (field, id) in opened.rows.schema().fields().iter().zip(0..) {
        let name = checked_name(field.name().clone())?;
        if create.columns.iter().any(|column| column.name == name) {
            return Err(Error::invalid(format!("column {name:?} is there twice"))
                .with_hint("name the columns of the query with AS")
                .with_sqlstate("42701"));
        }
        create.columns.push(Column {
            id: ColumnId(id),
            data_type: match types::is_uuid(field) {
                true => types::UUID,
                false => types::storable(field.data_type())
                    .map_err(|error| error.within(format_args!("column {name:?}")))?,
            },
            name,
            nullable: true,
            default: ColumnDefault::Null,
            comment: None,
            characters_max: None,
        });
    }
    mark_key(&mut create.columns, &create.key)?;
    let made = session
        .instance()
        .create_table(spec(&create), false)
        .await?;
    session.note_ddl();
    let table = made.ok_or_else(|| Error::internal("a new table was not made"))?;
    let given: Vec<usize> = (0..table.visible_columns()).collect();
    let mut sink = Sink::batch(session);
    let rows = ours(opened.rows, sql);
    let written = write_rows(session, &table, &given, rows, &Conflict::Replace, &mut sink).await;
    let finished = match written {
        Ok(rows) => sink.finish(session).await.map(|token| (rows, token)),
        Err(error) => Err(error),
    };
    match finished {
        Ok((rows, token)) => {
            let stamp = opened.snapshot.as_ref().map(|snapshot| snapshot.stamp());
            Ok(AnswerStream::done(format!("SELECT {rows}"), rows)
                .with_token(token)
                .with_stamp(stamp))
        }
        Err(error) => {
            // The table must not outlive the failed query; the query's error is what matters.
            let _dropped = session.instance().drop_table(&create.name, true).await;
            Err(error)
        }
    }
}

/// DROP TABLE.
pub(crate) async fn drop(
    session: &Arc<Shared>,
    names: &[String],
    if_exists: bool,
) -> Result<AnswerStream> {
    let mut notices = Vec::new();
    if !if_exists {
        for name in names {
            session.database.table(name)?;
        }
    }
    for name in names {
        if !session.instance().drop_table(name, if_exists).await? {
            notices.push(format!("there is no table {name:?}: skipped"));
        }
    }
    session.note_ddl();
    Ok(AnswerStream::done("DROP TABLE", 0).with_notices(notices))
}

/// TRUNCATE.
pub(crate) async fn truncate(
    session: &Arc<Shared>,
    names: &[String],
    if_exists: bool,
) -> Result<AnswerStream> {
    let mut notices = Vec::new();
    for name in names {
        match session.database.table(name) {
            Ok(_) => session.instance().truncate_table(name).await?,
            Err(_) if if_exists => notices.push(format!("there is no table {name:?}: skipped")),
            Err(error) => return Err(error),
        }
    }
    session.note_ddl();
    Ok(AnswerStream::done("TRUNCATE TABLE", 0).with_notices(notices))
}
