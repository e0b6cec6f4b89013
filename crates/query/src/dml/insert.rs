//! INSERT: whole rows with defaults, checked, as upserts; ON CONFLICT as the halves of the
//! algebra (`docs/design/0001-change-algebra.md`).
//!
//! | written                                   | stored                                        |
//! | ----------------------------------------- | --------------------------------------------- |
//! | INSERT                                    | whole-row upsert                              |
//! | the same, with merge operators            | both halves in one row, columns combined      |
//! | ON CONFLICT DO NOTHING                    | both halves in one row, nothing set           |
//! | DO UPDATE SET c = EXCLUDED.c, ...         | both halves in one row, the columns set       |
//! | the same, of every column                 | whole-row upsert: the key counts as set, too  |
//! | DO UPDATE SET c = anything else           | a pair: the row, then the columns set         |
//!
//! Invariant INS-1: rows are written in the order given, so that of two rows of one key the later
//! counts (or, with DO NOTHING, the first).

use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{Expr, SetExpr, Statement};
use futures::stream::{BoxStream, StreamExt};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::stages::ingest::check_partitions;
use lazybase_engine::stages::remap::KeyedChanges;
use lazybase_model::access::Privilege;
use lazybase_model::{Error, Result, Table};

use super::defaults::{Defaults, is_default};
use super::places::at_cell;
use super::returning::Returning;
use super::sink::Sink;
use super::values_query::{as_selects, name_apart, values_query};
use crate::answer::AnswerStream;
use crate::cast::{checked_cells, place, to_column};
use crate::changes::{insert_or_set, insert_or_set_other, inserts};
use crate::clauses::Clauses;
use crate::context::Constants;
use crate::error::{from_arrow, from_datafusion, nearest};
use crate::id_keys::{Keys, check_numbers, own_ids};
use crate::labels::Sight;
use crate::literal::{Literal, to_array};
use crate::parse::{Insert, InsertSource, OnConflict, folded, unsupported};
use crate::read;
use crate::scan::Shape;
use crate::sequences::called::{self, takes_numbers};
use crate::sequences::columns::check_given;
use crate::session::{Shared, ours};
use crate::walk::visit_expressions;

/// How many rows of VALUES make one batch.
const VALUES_ROWS: usize = 4096;

/// What happens to a row that is there already.
#[derive(Debug)]
pub(crate) enum Conflict {
    /// It is replaced; columns with a merge operator are combined.
    Replace,
    /// It stays.
    Keep,
    /// These columns are set to what the inserted row holds.
    Set(Vec<usize>),
    /// These columns are set to values of their own.
    SetOther(Vec<(usize, Expr)>),
}

/// INSERT.
pub(crate) async fn insert(
    session: &Arc<Shared>,
    insert: Insert,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    let table = session.table(&insert.table)?;
    let given = columns_given(&table, &insert.columns)?;
    let conflict = conflict(&table, insert.on_conflict)?;
    let given = match &insert.source {
        InsertSource::Values(rows) if !rows.iter().flatten().any(has_subquery) => {
            values_given(given, &insert.columns, rows)?
        }
        _ => given,
    };
    let check_numbered = |given: &[usize], rows: &[Vec<Expr>]| match insert.overriding {
        true => Ok(()),
        false => check_given(&table, given, rows),
    };
    let mut sink = Sink::of(session);
    permit(session, &mut sink, &table, &given, &conflict)?;
    if let Some(items) = &insert.returning {
        let alias = insert.alias.as_deref();
        let returning = Returning::of(session, &table, alias, items, &conflict)?;
        sink.returning = Some(Box::new(returning));
    }
    let mut stamp = None;
    let rows = match insert.source {
        InsertSource::Values(rows) => {
            check_numbered(&given, &rows)?;
            let asked = (clauses, sql);
            insert_values(session, &table, &given, rows, &conflict, &mut sink, asked).await?
        }
        InsertSource::Query(mut query) => {
            if let SetExpr::Values(values) = query.body.as_mut() {
                let rows = mem::take(&mut values.rows).into_iter();
                query.body = as_selects(rows.map(|row| row.content))?;
            }
            name_apart(&mut query);
            let opened = read::open(session, Statement::Query(query), clauses, sql).await?;
            let width = opened.rows.schema().fields().len();
            // Without a list of columns the last ones may be left out.
            let given = match insert.columns.is_empty() {
                true => &given[..width.min(given.len())],
                false => &given[..],
            };
            check_arity(given, width)?;
            check_numbered(given, &[])?;
            let rows = Rows {
                batches: ours(opened.rows, sql),
                generated: &opened.generated,
            };
            let rows = write_rows(session, &table, given, rows, &conflict, &mut sink).await?;
            stamp = opened.snapshot.map(|snapshot| snapshot.stamp());
            rows
        }
        InsertSource::Defaults => {
            let rows = Cells {
                rows: &[vec![]],
                taking: &[],
            };
            write_values(session, &table, &[], rows, &conflict, &mut sink).await?
        }
    };
    let returning = sink.returning.take();
    let token = sink.finish(session).await?;
    let tag = format!("INSERT 0 {rows}");
    let answer = match returning {
        Some(returning) => returning.answer(tag, rows),
        None => AnswerStream::done(tag, rows),
    };
    Ok(answer.with_token(token).with_stamp(stamp))
}

/// Writes the rows of VALUES: as they stand, or those of a query that they are.
async fn insert_values(
    session: &Arc<Shared>,
    table: &Arc<Table>,
    given: &[usize],
    mut rows: Vec<Vec<Expr>>,
    conflict: &Conflict,
    sink: &mut Sink,
    (clauses, sql): (&Clauses, &str),
) -> Result<u64> {
    // A query takes its numbers itself: one for each of its rows.
    if !rows.iter().flatten().any(has_subquery) {
        let (numbers, gate) = (session.numbers(), session.gate_now());
        let taking = called::take(&numbers, &gate, &mut rows).await?;
        if !rows.iter().flatten().any(takes_numbers) {
            let cells = Cells {
                rows: &rows,
                taking: &taking,
            };
            return write_values(session, table, given, cells, conflict, sink).await;
        }
    }
    let opened = read::open(session, values_query(rows)?, clauses, sql).await?;
    let rows = Rows {
        batches: ours(opened.rows, sql),
        generated: &opened.generated,
    };
    write_rows(session, table, given, rows, conflict, sink).await
}

/// Asks whether the session may write such rows. A row that is met has its columns set, and tells
/// by the count of rows that it is there.
pub(crate) fn permit(
    session: &Shared,
    sink: &mut Sink,
    table: &Table,
    given: &[usize],
    conflict: &Conflict,
) -> Result<()> {
    let set = match conflict {
        Conflict::Replace => return sink.permit(Privilege::Insert, table, given),
        Conflict::Keep => Vec::new(),
        Conflict::Set(set) => set.clone(),
        Conflict::SetOther(set) => set.iter().map(|(at, _)| *at).collect(),
    };
    let gate = session.gate_now();
    gate.may_read(table, &table.key_indices())?;
    gate.meet_rows(
        table,
        "INSERT without ON CONFLICT replaces a row, whether it is there",
    )?;
    if !set.is_empty() {
        sink.permit(Privilege::Update, table, &set)?;
    }
    sink.permit(Privilege::Insert, table, given)
}

/// The positions of the columns that an INSERT names; all, where it names none.
pub(crate) fn columns_given(table: &Table, names: &[String]) -> Result<Vec<usize>> {
    let owned = table.owned_id().map(|(at, _)| at);
    if names.is_empty() {
        let all = 0..table.visible_columns();
        return Ok(all.filter(|at| owned != Some(*at)).collect());
    }
    let mut given = Vec::with_capacity(names.len());
    for name in names {
        let at = column(table, name)?;
        if owned == Some(at) {
            return Err(id_is_given_out(name));
        }
        if given.contains(&at) {
            return Err(Error::invalid(format!("column {name:?} is given twice"))
                .with_name(name)
                .with_sqlstate("42701"));
        }
        given.push(at);
    }
    Ok(given)
}

/// The position of a column that can be written: one that SQL shows, or labels.
pub(crate) fn column(table: &Table, name: &str) -> Result<usize> {
    let shown = &table.columns[..table.visible_columns()];
    table
        .require_column(name)
        .and_then(|at| match at < table.written_columns() {
            true => Ok(at),
            false => Err(
                Error::not_found(format!("column {name:?} can't be written"))
                    .with_name(name)
                    .with_sqlstate("42703"),
            ),
        })
        .map_err(
            |error| match nearest(name, shown.iter().map(|column| column.name.as_str())) {
                Some(near) => error.with_hint(format!("perhaps {near:?} is meant")),
                None => error,
            },
        )
}

/// The columns that rows of VALUES give: without a list of columns, a row may be shorter.
pub(crate) fn values_given(
    given: Vec<usize>,
    names: &[String],
    rows: &[Vec<Expr>],
) -> Result<Vec<usize>> {
    let width = rows.first().map_or(0, Vec::len);
    if let Some(row) = rows.iter().position(|row| row.len() != width) {
        return Err(Error::invalid(format!(
            "row {} of VALUES has {} values, the first has {width}",
            row + 1,
            rows[row].len(),
        ))
        .with_sqlstate("42601"));
    }
    match names.is_empty() && width < given.len() && width > 0 {
        true => Ok(given[..width].to_vec()),
        false => {
            check_arity(&given, width)?;
            Ok(given)
        }
    }
}

fn check_arity(given: &[usize], width: usize) -> Result<()> {
    match width == given.len() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{width} values are given for {} columns",
            given.len()
        ))
        .with_sqlstate("42601")),
    }
}

pub(crate) fn conflict(table: &Table, on_conflict: Option<OnConflict>) -> Result<Conflict> {
    let Some(on_conflict) = on_conflict else {
        return Ok(Conflict::Replace);
    };
    if let Some(target) = &on_conflict.target {
        check_target(table, target)?;
    }
    let Some(assignments) = on_conflict.update else {
        // Rows of a table without a key never meet.
        return Ok(match table.hidden_key {
            true => Conflict::Replace,
            false => Conflict::Keep,
        });
    };
    if table.hidden_key {
        return Err(no_key(table));
    }
    let key = table.key_indices();
    let mut set = Vec::with_capacity(assignments.len());
    for (name, value) in assignments {
        let at = column(table, &name)?;
        let same = excluded_column(&value).is_some_and(|excluded| excluded == name);
        if table.owned_id().is_some_and(|(owned, _)| owned == at) {
            return Err(id_is_given_out(&name));
        }
        match key.contains(&at) {
            // The row that is met has this key: setting it to itself changes nothing.
            true if same => {}
            true => return Err(key_is_set(&name)),
            false => {
                check_reads_excluded_only(&value, &name)?;
                set.push((at, value, same));
            }
        }
    }
    Ok(match set.iter().all(|(_, _, same)| *same) {
        true => Conflict::Set(set.into_iter().map(|(at, _, _)| at).collect()),
        false => Conflict::SetOther(set.into_iter().map(|(at, value, _)| (at, value)).collect()),
    })
}

fn check_target(table: &Table, target: &[String]) -> Result<()> {
    let key = table.key_indices();
    let mut columns = Vec::with_capacity(target.len());
    for name in target {
        columns.push(column(table, name)?);
    }
    columns.sort_unstable();
    let mut wanted = key.clone();
    wanted.sort_unstable();
    if table.hidden_key {
        return Err(no_key(table));
    }
    match columns == wanted {
        true => Ok(()),
        false => {
            let names: Vec<&str> = key
                .iter()
                .map(|at| table.columns[*at].name.as_str())
                .collect();
            Err(
                Error::invalid("ON CONFLICT names columns that are not the key")
                    .with_hint(format!("the key is ({})", names.join(", ")))
                    .with_sqlstate("42P10"),
            )
        }
    }
}

fn no_key(table: &Table) -> Error {
    Error::invalid(format!(
        "table {:?} has no key: no row meets another",
        table.name
    ))
    .with_sqlstate("42P10")
}

/// The refusal to set a key column.
pub(crate) fn key_is_set(name: &str) -> Error {
    unsupported(format!(
        "column {name:?} is part of the key and can't be set"
    ))
    .with_hint("DELETE the row and INSERT it under its new key")
}

/// The refusal to write the ID key that a table owns.
pub(crate) fn id_is_given_out(name: &str) -> Error {
    Error::invalid(format!("column {name:?} is given out by the database"))
        .with_detail("it is the ID key that the table owns")
        .with_hint("leave it out: give the columns of the primary key")
        .with_sqlstate("428C9")
}

/// The column that `EXCLUDED.column` names.
fn excluded_column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => excluded_column(inner),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [excluded, column] if folded(excluded) == "excluded" => Some(folded(column)),
            _ => None,
        },
        _ => None,
    }
}

fn check_reads_excluded_only(expr: &Expr, column: &str) -> Result<()> {
    if is_default(expr) {
        return Ok(());
    }
    let reads_stored = visit_expressions(expr, |part| match part {
        Expr::Identifier(_) => ControlFlow::Break(()),
        Expr::CompoundIdentifier(_) if excluded_column(part).is_none() => ControlFlow::Break(()),
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    match reads_stored.is_break() {
        false => Ok(()),
        true => Err(
            unsupported(format!("DO UPDATE SET {column:?} reads the stored row"))
                .with_detail("writes are blind: constants and EXCLUDED.column are what they have")
                .with_hint("UPDATE with lazybase.read_modify_write = on reads the stored row"),
        ),
    }
}

/// Whether an expression needs a query of its own.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Rows of VALUES, and in which of their places numbers were taken for them.
#[derive(Clone, Copy)]
struct Cells<'r> {
    rows: &'r [Vec<Expr>],
    taking: &'r [bool],
}

/// Writes rows of constants and expressions.
async fn write_values(
    session: &Arc<Shared>,
    table: &Arc<Table>,
    given: &[usize],
    cells: Cells<'_>,
    conflict: &Conflict,
    sink: &mut Sink,
) -> Result<u64> {
    let Cells { rows, taking } = cells;
    let (constants, defaults) = (session.constants(), Defaults::of(table)?);
    let (visible, numbers) = (session.visible(), session.numbers());
    let is_generated = |place: usize, at: usize| {
        let mut cells = rows.iter().map(|row| &row[place]);
        let is_taken = taking.get(place).copied().unwrap_or(false);
        is_taken || cells.any(|cell| defaults.generate(&constants, at, Some(cell)))
    };
    let (made, numbered) = ((&constants, &defaults), sink.is_numbered());
    let maker = RowMaker::of(made, table, given, conflict, numbered, is_generated);
    let mut written = 0_u64;
    for chunk in rows.chunks(VALUES_ROWS) {
        let first_row = written + 1;
        let wanted = maker.wanted(conflict, chunk.len(), |place| {
            let cells = chunk.iter().map(|row| &row[place]);
            cells.filter(|cell| is_default(cell)).count()
        });
        defaults.take(&numbers, wanted).await?;
        let keys = Keys::new(&visible, &constants);
        let returning = sink.returning.as_deref_mut();
        let changes = changes_of(&maker, keys, chunk, first_row, conflict, returning)
            .map_err(|error| at_cell(error, table, given, chunk, first_row))?;
        let instance = session.instance();
        Box::pin(check_numbers(instance, table, &changes, first_row)).await?;
        sink.append_keyed(table, changes).await?;
        written += chunk.len() as u64;
    }
    Ok(written)
}

/// Changes of some rows of VALUES.
fn changes_of(
    maker: &RowMaker<'_>,
    mut keys: Keys<'_>,
    rows: &[Vec<Expr>],
    first_row: u64,
    conflict: &Conflict,
    returning: Option<&mut Returning>,
) -> Result<KeyedChanges> {
    let table = maker.table;
    let mut columns = Vec::with_capacity(maker.given.len());
    for (at_value, at) in maker.given.iter().enumerate() {
        let cells: Vec<&Expr> = rows.iter().map(|row| &row[at_value]).collect();
        columns.push(match table.columns[*at].id_key {
            Some(_) => keys.of_exprs(&cells, &place(table, *at, first_row))?,
            None => maker.cells(*at, &cells, first_row)?,
        });
    }
    maker.changes(columns, keys, rows.len(), first_row, conflict, returning)
}

/// The columns of whole rows whose values the database generates: those that `is_generated` says of
/// the columns given, by their places among them and in the table; the others by their defaults;
/// and those that ON CONFLICT sets so.
fn generated_columns(
    constants: &Constants,
    defaults: &Defaults,
    table: &Table,
    given: &[usize],
    conflict: &Conflict,
    is_generated: impl Fn(usize, usize) -> bool,
) -> Vec<usize> {
    let of_row = |at: &usize| match given.iter().position(|given| given == at) {
        Some(place) => is_generated(place, *at),
        None => defaults.generate(constants, *at, None),
    };
    let mut generated: Vec<usize> = (0..table.written_columns()).filter(of_row).collect();
    if let Conflict::SetOther(set) = conflict {
        let of_rows = generated.clone();
        let reads_generated = |expr: &Expr| {
            let found = visit_expressions(expr, |part| {
                let excluded = excluded_column(part).and_then(|name| table.column_index(&name));
                match excluded.is_some_and(|at| of_rows.contains(&at)) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            found.is_break()
        };
        let set = set.iter().filter(|(at, expr)| {
            defaults.generate(constants, *at, Some(expr)) || reads_generated(expr)
        });
        generated.extend(set.map(|(at, _)| *at));
    }
    generated
}

/// The rows of a query, a file or an Arrow stream.
pub(crate) struct Rows<'r> {
    pub(crate) batches: BoxStream<'static, Result<RecordBatch>>,
    /// Which of their columns the database generated: none, where it does not say.
    pub(crate) generated: &'r [bool],
}

impl Rows<'static> {
    /// Rows that come from outside.
    pub(crate) fn given(batches: BoxStream<'static, Result<RecordBatch>>) -> Rows<'static> {
        Rows {
            batches,
            generated: &[],
        }
    }
}

/// Writes rows whose columns go to `given` in order.
pub(crate) async fn write_rows(
    session: &Arc<Shared>,
    table: &Arc<Table>,
    given: &[usize],
    mut rows: Rows<'_>,
    conflict: &Conflict,
    sink: &mut Sink,
) -> Result<u64> {
    let (constants, defaults) = (session.constants(), Defaults::of(table)?);
    let is_generated = |place: usize, _: usize| rows.generated.get(place).copied().unwrap_or(false);
    let (made, numbered) = ((&constants, &defaults), sink.is_numbered());
    let maker = RowMaker::of(made, table, given, conflict, numbered, is_generated);
    let (visible, numbers) = (session.visible(), session.numbers());
    let mut written = 0_u64;
    while let Some(batch) = rows.batches.next().await {
        let batch = batch?;
        check_arity(given, batch.num_columns())?;
        let first_row = written + 1;
        let wanted = maker.wanted(conflict, batch.num_rows(), |_| 0);
        defaults.take(&numbers, wanted).await?;
        let mut keys = Keys::new(&visible, &constants);
        let columns: Result<Vec<ArrayRef>> = given
            .iter()
            .zip(batch.columns())
            .map(|(at, column)| keys.cells(column, &place(table, *at, first_row)))
            .collect();
        let (rows, returning) = (batch.num_rows(), sink.returning.as_deref_mut());
        let changes = maker.changes(columns?, keys, rows, first_row, conflict, returning)?;
        let instance = session.instance();
        Box::pin(check_numbers(instance, table, &changes, first_row)).await?;
        sink.append_keyed(table, changes).await?;
        written += batch.num_rows() as u64;
    }
    Ok(written)
}

/// Makes whole rows, and changes of them.
pub(crate) struct RowMaker<'m> {
    constants: &'m Constants,
    defaults: &'m Defaults,
    table: &'m Table,
    /// The positions of the columns given.
    given: &'m [usize],
    /// The positions of the columns whose values the database generates, where a producer numbers
    /// the batch.
    generated: Vec<usize>,
}

impl<'m> RowMaker<'m> {
    /// What makes rows of a table from the columns `given`, the others from the defaults. Of these
    /// `is_generated` says, by their places among them and in the table, whether the database
    /// generates their values: it is asked where a producer has `numbered` the batch.
    pub(crate) fn of(
        (constants, defaults): (&'m Constants, &'m Defaults),
        table: &'m Table,
        given: &'m [usize],
        conflict: &Conflict,
        numbered: bool,
        is_generated: impl Fn(usize, usize) -> bool,
    ) -> RowMaker<'m> {
        let generated = match numbered {
            true => generated_columns(constants, defaults, table, given, conflict, is_generated),
            false => Vec::new(),
        };
        RowMaker {
            constants,
            defaults,
            table,
            given,
            generated,
        }
    }

    /// For how many rows each column needs its default: those that are not given for all, those
    /// given for as many as `defaulted` says by their places, those that ON CONFLICT sets so, too.
    fn wanted(
        &self,
        conflict: &Conflict,
        rows: usize,
        defaulted: impl Fn(usize) -> usize,
    ) -> Vec<(usize, usize)> {
        let of_row = |at: usize| match self.given.iter().position(|given| *given == at) {
            Some(place) => defaulted(place),
            None => rows,
        };
        let all = (0..self.table.written_columns()).map(|at| (at, of_row(at)));
        let mut wanted: Vec<(usize, usize)> = all.collect();
        if let Conflict::SetOther(set) = conflict {
            let set = set.iter().filter(|(_, expr)| is_default(expr));
            wanted.extend(set.map(|(at, _)| (*at, rows)));
        }
        wanted
    }

    /// One column of VALUES.
    fn cells(&self, at: usize, cells: &[&Expr], first_row: u64) -> Result<ArrayRef> {
        let literals: Option<Vec<Literal>> = cells.iter().map(|cell| Literal::of(cell)).collect();
        if let Some(literals) = literals {
            return to_array(&literals, &place(self.table, at, first_row));
        }
        let mut values = Vec::with_capacity(cells.len());
        for (row, cell) in (first_row..).zip(cells) {
            let place = place(self.table, at, row);
            values.push(match Literal::of(cell) {
                Some(literal) => to_array(&[literal], &place)?,
                None if is_default(cell) => {
                    self.defaults
                        .values(self.constants, self.table, at, 1, row)?
                }
                None => to_column(&self.constants.context().constant(cell, 1)?, &place)?,
            });
        }
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        concat(&values).map_err(|error| from_arrow(&error))
    }

    /// Changes of `rows` rows, whose given columns are of their types already, with the keys that
    /// they mention. The whole rows are given to `returning`.
    pub(crate) fn changes(
        &self,
        columns: Vec<ArrayRef>,
        mut keys: Keys<'_>,
        rows: usize,
        first_row: u64,
        conflict: &Conflict,
        returning: Option<&mut Returning>,
    ) -> Result<KeyedChanges> {
        let columns = self.whole_rows(columns, rows, first_row)?;
        check_partitions(self.table, &columns, first_row)?;
        keys.own(self.table, &columns, rows, &self.generated)?;
        if let Some(returning) = returning {
            returning.take(self.constants, &columns, rows, &self.generated)?;
        }
        let changes = self.changed(columns, &mut keys, first_row, conflict)?;
        Ok(KeyedChanges {
            changes,
            keys: keys.finish()?,
            generated: self.generated.clone(),
        })
    }

    fn changed(
        &self,
        columns: Vec<ArrayRef>,
        keys: &mut Keys<'_>,
        first_row: u64,
        conflict: &Conflict,
    ) -> Result<ChangeBatch> {
        match conflict {
            Conflict::Replace => inserts(self.table, columns, self.given),
            Conflict::Keep => insert_or_set(self.table, columns, &[]),
            Conflict::Set(set) => insert_or_set(self.table, columns, set),
            Conflict::SetOther(set) => {
                let set = self.other_values(&columns, keys, set, first_row)?;
                insert_or_set_other(self.table, &columns, &set)
            }
        }
    }

    /// All columns that the table shows, checked.
    fn whole_rows(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
        first_row: u64,
    ) -> Result<Vec<ArrayRef>> {
        let key = self.table.key_indices();
        let owned = self.table.owned_id().map(|(at, _)| at);
        (0..self.table.written_columns())
            .map(|at| {
                let values = match self.given.iter().position(|given| *given == at) {
                    Some(place) => Arc::clone(&columns[place]),
                    None if owned == Some(at) => own_ids(rows),
                    None => {
                        self.defaults
                            .values(self.constants, self.table, at, rows, first_row)?
                    }
                };
                checked_cells(values, key.contains(&at), &place(self.table, at, first_row))
            })
            .collect()
    }

    /// The IDs that a row gives, where `EXCLUDED.column` stands for them: some are places of keys
    /// that have no number, and stay so.
    fn given_ids(&self, at: usize, expr: &Expr, columns: &[ArrayRef]) -> Option<ArrayRef> {
        let from = self.table.column_index(&excluded_column(expr)?)?;
        let map = |at: usize| Some(self.table.columns[at].id_key?.map);
        (map(at)? == map(from)?).then(|| Arc::clone(&columns[from]))
    }

    /// What DO UPDATE sets, for each row.
    fn other_values(
        &self,
        columns: &[ArrayRef],
        keys: &mut Keys<'_>,
        set: &[(usize, Expr)],
        first_row: u64,
    ) -> Result<Vec<(usize, ArrayRef)>> {
        let rows = columns.first().map_or(0, Array::len);
        let all = (0..columns.len()).collect();
        let given = Sight::of_given_rows();
        let shape = Shape::new(Arc::new(self.table.clone()), all, &given)?;
        let stored = RecordBatch::try_from_iter(
            self.table
                .columns
                .iter()
                .map(|c| &c.name)
                .zip(columns.iter().map(Arc::clone)),
        )
        .map_err(|error| from_arrow(&error))?;
        let excluded = shape
            .show(&stored)
            .map_err(|error| from_datafusion(&error, ""))?;
        let schema = DFSchema::try_from_qualified_schema("excluded", &shape.schema)
            .map_err(|error| from_datafusion(&error, ""))?;
        set.iter()
            .map(|(at, expr)| {
                let place = place(self.table, *at, first_row);
                if let Some(ids) = self.given_ids(*at, expr, columns) {
                    return Ok((*at, ids));
                }
                let values = match Literal::of(expr) {
                    Some(literal) => {
                        crate::changes::repeated(&to_array(&[literal], &place)?, rows)?
                    }
                    None if is_default(expr) => {
                        self.defaults
                            .values(self.constants, self.table, *at, rows, first_row)?
                    }
                    None => keys.cells(
                        &self
                            .constants
                            .context()
                            .evaluate(expr, &schema, &excluded)?,
                        &place,
                    )?,
                };
                Ok((*at, checked_cells(values, false, &place)?))
            })
            .collect()
    }
}
