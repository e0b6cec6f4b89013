//! ALTER TABLE ... ADD PRIMARY KEY: the rows of a table without a key again, in a table of the same
//! name that is sorted by one.
//!
//! ```text
//!   seal -> read up to there: a NULL or a key that is there twice ends it
//!        -> write the rows under the id of a new table
//!        -> one commit: the old table ends, the new one begins with its rows, owner and grants
//! ```
//!
//! Invariant PKEY-1: the commit happens only if nobody has written to the old table, altered it, or
//! granted anything on it since it was read. Until then others read and write the old table.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::Statement;
use futures::stream::{BoxStream, StreamExt};
use lazybase_cluster::{TableSpec, Unchanged};
use lazybase_model::{Column, Error, Result, Table, Token};

use crate::clauses::{Clauses, PastPoint};
use crate::definition::identifier;
use crate::dml::insert::{Conflict, Rows, write_rows};
use crate::dml::sink::Sink;
use crate::error::from_arrow;
use crate::parse::create::{mark_key, two_keys};
use crate::parse::{Statement as Ours, parse_template, unsupported};
use crate::read;
use crate::session::{Shared, ours};
use crate::text_form;

/// Gives a table, which the statement calls `name`, a key of columns.
///
/// # Errors
/// `Invalid` for a table that has a key (42P16), columns that can't be one, NULL in one of them
/// (23502) and a key that two rows have (23505); `Unsupported` for tables with labels, and within
/// a transaction for tables that it has not made; `Conflict` for tables with views (2BP01), and
/// where others write to the table meanwhile (40001). Then nothing has happened.
pub(super) async fn add(
    session: &Arc<Shared>,
    name: &str,
    key: &[String],
) -> Result<Option<Token>> {
    // The commit compares with this moment: nothing older may be known of the table.
    let visible = session.visible();
    let before = &visible.require(name)?;
    let stored_name = match visible.is_temporary(before.id) {
        true => session.temporary().stored(&before.name),
        false => before.name.clone(),
    };
    let spec = keyed(before, &stored_name, key)?;
    if let Some(view) = visible.views_of(before.id).first() {
        return Err(has_view(&before.name, &view.name));
    }
    // They know it by its number, and the table would have another one.
    if let Some(view) = visible.readers_of([before.id]).first() {
        return Err(Error::conflict(format!(
            "table {:?} can't be given a key: view {:?} reads it",
            before.name, view.name
        ))
        .with_hint("DROP VIEW first, add the key, and create the view again")
        .with_sqlstate("2BP01"));
    }
    let mut sink = Sink::of(session);
    let made_of = match sink.in_transaction() {
        true if visible.changes.makes(before.id) => None,
        true => return Err(in_transaction(&before.name)),
        false => Some(Unchanged {
            table: before.id,
            through: session.instance().seal().await?,
            read_in: Arc::clone(&visible.manifest),
        }),
    };
    let reader = Reader {
        session,
        name,
        clauses: Clauses {
            as_of: made_of.as_ref().map(|of| PastPoint::Scu(of.through)),
            ..Clauses::default()
        },
    };
    reader.check(before, key).await?;
    let after = session.instance().define_table(&spec)?;
    sink.replace_table(before, &after, made_of)?;
    let given: Vec<usize> = (0..after.visible_columns()).collect();
    let columns: Vec<String> = spec.columns.iter().map(|c| identifier(&c.name)).collect();
    let rows = Rows::given(reader.read(&columns.join(", "), "").await?);
    write_rows(session, &after, &given, rows, &Conflict::Replace, &mut sink).await?;
    sink.finish(session).await
}

/// The definition of the table with a key.
fn keyed(before: &Table, stored_name: &str, key: &[String]) -> Result<TableSpec> {
    if !before.hidden_key {
        return Err(two_keys());
    }
    let mut columns = before.columns[..before.visible_columns()].to_vec();
    if before.row_label().is_some() || columns.iter().any(Column::has_labels) {
        let what = format!(
            "table {:?} has labels: it can't be given a key",
            before.name
        );
        return Err(unsupported(what)
            .with_detail("its rows are written anew, and whoever does that may not see them all")
            .with_hint("CREATE TABLE with the key and labels, and load it"));
    }
    if let Some(twice) = (1..key.len()).find(|at| key[..*at].contains(&key[*at])) {
        let what = format!("column {:?} is in the key twice", key[twice]);
        return Err(Error::invalid(what).with_sqlstate("42701"));
    }
    mark_key(&mut columns, key)?;
    for column in &mut columns {
        // Rows that are older than the column are written anew, with its value.
        column.older = None;
    }
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    let ttl = before.ttl.zip(before.ttl_index());
    Ok(TableSpec {
        layout: before.layout,
        comment: before.comment.clone(),
        freshness_target_micros: before.freshness_target_micros,
        ttl: ttl.map(|(ttl, at)| (before.columns[at].name.clone(), ttl.micros)),
        ..TableSpec::new(stored_name, columns, &key)
    })
}

/// Reads the table as it was at the boundary.
struct Reader<'r> {
    session: &'r Arc<Shared>,
    /// What the statement calls it.
    name: &'r str,
    clauses: Clauses,
}

impl Reader<'_> {
    async fn read(
        &self,
        columns: &str,
        rest: &str,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let sql = format!("SELECT {columns} FROM {} {rest}", identifier(self.name));
        let Ours::Query(query) = parse_template(&sql)?.statement else {
            return Err(Error::internal("SELECT is a query"));
        };
        let query = Statement::Query(query);
        let opened = read::open(self.session, query, &self.clauses, &sql).await?;
        Ok(ours(opened.rows, &sql))
    }

    /// The first row of what is read, if there is one.
    async fn first(&self, columns: &str, rest: &str) -> Result<Option<RecordBatch>> {
        let mut rows = self.read(columns, rest).await?;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch.slice(0, 1)));
            }
        }
        Ok(None)
    }

    /// Looks for what can't be a key.
    async fn check(&self, table: &Table, key: &[String]) -> Result<()> {
        let mut spelt = Vec::with_capacity(key.len());
        for name in key {
            let column = table.columns.iter().find(|column| column.name == *name);
            let column = column.ok_or_else(|| Error::internal("a checked column is gone"))?;
            spelt.push(as_in_keys(column));
            if !column.nullable {
                continue;
            }
            let null = format!("WHERE {} IS NULL LIMIT 1", identifier(name));
            if self.first("1", &null).await?.is_some() {
                return Err(Error::invalid(format!(
                    "column {name:?} of table {:?} holds NULL: it can't be in the key",
                    table.name
                ))
                .with_hint("UPDATE or DELETE those rows first")
                .with_sqlstate("23502"));
            }
        }
        let spelt = spelt.join(", ");
        let twice = format!("GROUP BY {spelt} HAVING count(*) > 1 LIMIT 1");
        let Some(row) = self.first(&spelt, &twice).await? else {
            return Ok(());
        };
        let mut values = Vec::with_capacity(key.len());
        for column in row.columns() {
            let texts = text_form::texts(column).map_err(|error| from_arrow(&error))?;
            values.push(texts.value(0).to_owned());
        }
        let (names, values) = (key.join(", "), values.join(", "));
        Err(Error::invalid(format!(
            "table {:?} can't have this key: several rows have the same one",
            table.name
        ))
        .with_detail(format!("key ({names})=({values}) is there more than once"))
        .with_hint("DELETE all but one of them, or choose more columns")
        .with_sqlstate("23505"))
    }
}

/// A column as keys are compared: there are one zero and one NaN.
fn as_in_keys(column: &Column) -> String {
    let name = identifier(&column.name);
    match column.data_type.is_floating() {
        true => format!(
            "CASE WHEN isnan({name}) THEN CAST('NaN' AS DOUBLE PRECISION) \
             ELSE CAST({name} AS DOUBLE PRECISION) + 0 END"
        ),
        false => name,
    }
}

fn has_view(table: &str, view: &str) -> Error {
    Error::conflict(format!(
        "table {table:?} can't be given a key: view {view:?} depends on it"
    ))
    .with_hint(format!(
        "DROP MATERIALIZED VIEW {}, add the key, and create the view again",
        identifier(view)
    ))
    .with_sqlstate("2BP01")
}

fn in_transaction(table: &str) -> Error {
    Error::invalid(format!(
        "ADD PRIMARY KEY can't run inside a transaction that has not made table {table:?}"
    ))
    .with_detail("it waits for what others have written")
    .with_hint("COMMIT first, and add the key by itself")
    .with_sqlstate("25001")
}
