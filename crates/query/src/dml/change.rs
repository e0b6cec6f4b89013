//! UPDATE and DELETE: blind where the WHERE names full keys; otherwise a query on the newest
//! snapshot finds the keys.
//!
//! Invariant CHG-2: what is written is the key and the new values, never a row that was read;
//! columns of the key are set only where a row has no others (`moved`). For RETURNING a query finds
//! the rows, and gives what is told of them.
//! Values that are made from stored ones are refused, unless the session says
//! `lazybase.read_modify_write = on` and accepts that updates of others can be lost.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, Statement, Value, Visitor, WildcardAdditionalOptions,
};
use futures::stream::{BoxStream, StreamExt};
use lazybase_engine::read::{HiddenColumn, Snapshot};
use lazybase_engine::stages::remap::MentionedKeys;
use lazybase_model::access::Privilege;
use lazybase_model::{Error, IdentityKind, Result, Table};

use super::defaults::{Defaults, is_default};
use super::insert::{column, has_subquery, id_is_given_out, key_is_set};
use super::matches::{FirstOfKeys, order_of_all};
use super::moved::{Moved, can_move};
use super::places::at_value;
use super::returning::found::{FoundColumns, Telling};
use super::returning::wanted::Wanted;
use super::sink::Sink;
use crate::answer::{AnswerStream, Definitions};
use crate::cast::{Place, checked_cells, place, to_column};
use crate::catalog::definition_in;
use crate::changes::repeated;
use crate::context::{Read, stored_tables};
use crate::id_keys::met::only_meets_ids;
use crate::id_keys::{Keys, check_cells};
use crate::keys::{NamedKeys, named_keys};
use crate::literal::{Literal, to_array};
use crate::parse::{
    ChangedRows, Delete, Statement as Ours, Update, folded, parse_template, unsupported,
};
use crate::read;
use crate::sequences::called::takes_numbers;
use crate::sequences::columns::numbered_always;
use crate::session::{Shared, Target, ours};
use crate::temporary::own_name;
use crate::walk::{visit, visit_expressions};

/// UPDATE.
pub(crate) async fn update(
    session: &Arc<Shared>,
    update: Update,
    sql: &str,
) -> Result<AnswerStream> {
    let table = session.table(&update.rows.table)?;
    let alias = update.rows.called().to_owned();
    let read_modify_write = session.state.lock().settings.read_modify_write;
    let mut set: Vec<(usize, Expr)> = Vec::with_capacity(update.assignments.len());
    // A row that may not be read is not met: only a query can tell.
    let hides_rows = session.gate_now().hides_rows(&table);
    let mut needs_query = !update.rows.is_of_table() || hides_rows || update.returning.is_some();
    for (name, value) in update.assignments {
        let at = column(&table, &name)?;
        if table.columns[at].identity == Some(IdentityKind::Always) && !is_default(&value) {
            return Err(numbered_always(&name));
        }
        if table.key_indices().contains(&at) {
            if !can_move(&table) || !update.rows.from.is_empty() {
                return Err(key_is_set(&name));
            }
            // A row that is not there does not go anywhere.
            needs_query = true;
        }
        if table.owned_id().is_some_and(|(owned, _)| owned == at) {
            return Err(id_is_given_out(&name));
        }
        let reads = reads_columns(&value, &table, &alias) && !is_default(&value);
        if reads && !read_modify_write {
            return Err(reads_stored(&name));
        }
        // Only a query can wait for numbers.
        needs_query |= reads || has_subquery(&value) || takes_numbers(&value);
        set.push((at, value));
    }
    let exprs = set
        .iter()
        .map(|(_, value)| value)
        .chain(&update.rows.selection);
    check_read(session, &table, &alias, exprs)?;
    let named = match (&update.rows.selection, needs_query) {
        (Some(predicate), false) => taken_keys(predicate, &table, &alias)?,
        _ => None,
    };
    let mut sink = Sink::of(session);
    let columns: Vec<usize> = set.iter().map(|(at, _)| *at).collect();
    sink.permit(Privilege::Update, &table, &columns)?;
    let generated = match sink.is_numbered() {
        true => generated_columns(session, &table, &set)?,
        false => Vec::new(),
    };
    let (rows, told) = match named {
        Some(keys) => {
            let rows = keys.encoded.len() as u64;
            let new = looked_up(update.rows.selection.as_ref());
            let defaults = Defaults::of(&table)?;
            let wanted = defaulted(&set).map(|at| (at, keys.encoded.len()));
            defaults.take(&session.numbers(), wanted.collect()).await?;
            let made = (&defaults, &set[..]);
            let (keys, values, mentioned) = blind_values(session, &table, &keys, &new, made)?;
            check_set(session, &table, &values).await?;
            sink.update(&table, &keys, &values, &generated, mentioned)
                .await?;
            (rows, None)
        }
        None => {
            let found = Found::of(session, &table, update.rows, update.returning, &sink)?;
            let set = Assigned {
                set: &set,
                generated: &generated,
            };
            update_found(session, found, set, &mut sink, sql).await?
        }
    };
    let token = sink.finish(session).await?;
    Ok(answer(format!("UPDATE {rows}"), rows, told).with_token(token))
}

fn answer(tag: String, rows: u64, told: Option<Box<Telling>>) -> AnswerStream {
    match told {
        Some(told) => told.answer(tag, rows),
        None => AnswerStream::done(tag, rows),
    }
}

/// The keys that a predicate names, and of which a row can be there.
fn taken_keys(predicate: &Expr, table: &Table, alias: &str) -> Result<Option<NamedKeys>> {
    let named = named_keys(predicate, table, alias)?;
    named.map(|keys| keys.taken(table)).transpose()
}

/// DELETE.
pub(crate) async fn delete(
    session: &Arc<Shared>,
    delete: Delete,
    sql: &str,
) -> Result<AnswerStream> {
    let changed = delete.rows;
    let table = session.table(&changed.table)?;
    let mut sink = Sink::of(session);
    sink.permit(Privilege::Delete, &table, &[])?;
    check_read(session, &table, changed.called(), changed.selection.iter())?;
    let hides_rows = session.gate_now().hides_rows(&table);
    let needs_query = !changed.is_of_table() || hides_rows || delete.returning.is_some();
    let named = match &changed.selection {
        Some(predicate) if !needs_query => taken_keys(predicate, &table, changed.called())?,
        _ => None,
    };
    let (rows, told) = match named {
        Some(keys) => {
            let new = looked_up(changed.selection.as_ref());
            let is_new = |id: i64| new.contains(&id);
            delete_keys(session, &table, &keys.columns, is_new, &mut sink).await?;
            (keys.encoded.len() as u64, None)
        }
        None => {
            let found = Found::of(session, &table, changed, delete.returning, &sink)?;
            delete_found(session, found, &mut sink, sql).await?
        }
    };
    let token = sink.finish(session).await?;
    Ok(answer(format!("DELETE {rows}"), rows, told).with_token(token))
}

async fn delete_found(
    session: &Arc<Shared>,
    found: Found<'_>,
    sink: &mut Sink,
    sql: &str,
) -> Result<Changed> {
    let table = found.table;
    let constants = session.constants();
    let mut found = found.open(session, Vec::new(), &[], sql).await?;
    let mut rows = 0;
    while let Some(batch) = found.next_batch().await? {
        let keys = stored_keys(table, batch.columns(), rows + 1)?;
        if let Some(told) = &mut found.told {
            told.take(&constants, &batch, &[])?;
        }
        delete_keys(session, table, &keys, |_| true, sink).await?;
        rows += batch.num_rows() as u64;
    }
    Ok((rows, found.told))
}

/// Deletes the rows of keys that were found, or named.
async fn delete_keys(
    session: &Arc<Shared>,
    table: &Arc<Table>,
    keys: &[ArrayRef],
    is_new: impl Fn(i64) -> bool,
    sink: &mut Sink,
) -> Result<()> {
    let (visible, constants) = (session.visible(), session.constants());
    let mut mentioned = Keys::new(&visible, &constants);
    let keys = mentioned.found(session, table, keys, is_new)?;
    sink.delete(table, &keys, mentioned.finish()?).await
}

/// The numbers that IDKEY stands for in a predicate, of keys that are new in the transaction: a
/// negative number of the user's own has its sign before it, and is nobody's ID.
fn looked_up(predicate: Option<&Expr>) -> HashSet<i64> {
    let mut numbers = HashSet::new();
    let done: Option<ControlFlow<()>> = predicate.map(|predicate| {
        visit_expressions(predicate, |part| {
            if let Expr::Value(value) = part
                && let Value::Number(text, _) = &value.value
            {
                numbers.extend(text.parse::<i64>().ok().filter(|id| *id < 0));
            }
            ControlFlow::Continue(())
        })
    });
    debug_assert!(
        done.is_none_or(|done| done.is_continue()),
        "nothing ends the visit"
    );
    numbers
}

fn reads_stored(name: &str) -> Error {
    unsupported(format!("SET {name:?} = ... reads the stored row"))
        .with_detail("updates are blind: between reading and writing, another update can be lost")
        .with_hint(
            "SET lazybase.read_modify_write = on accepts that; a merge operator on the column \
             needs no reading at all",
        )
}

/// Whether the session may read the columns that expressions name. Those inside queries of theirs
/// are asked for where these are read.
fn check_read<'e>(
    session: &Shared,
    table: &Table,
    alias: &str,
    exprs: impl Iterator<Item = &'e Expr>,
) -> Result<()> {
    let mut named = Named {
        table,
        alias,
        depth: 0,
        columns: Vec::new(),
    };
    for expr in exprs.filter(|expr| !is_default(expr)) {
        let _ = visit(expr, &mut named);
    }
    match named.columns.is_empty() {
        true => Ok(()),
        false => session.gate_now().may_read(table, &named.columns),
    }
}

/// Collects the columns of a table that an expression names outside of queries.
struct Named<'n> {
    table: &'n Table,
    alias: &'n str,
    depth: usize,
    columns: Vec<usize>,
}

impl Visitor for Named<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let name = match expr {
            Expr::Identifier(name) => Some(folded(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] if folded(qualifier) == self.alias => Some(folded(name)),
                _ => None,
            },
            _ => None,
        };
        let at = name.and_then(|name| self.table.column_index(&name));
        self.columns.extend(at.filter(|_| self.depth == 0));
        ControlFlow::Continue(())
    }
}

/// Whether an expression names a column of the table, be it a hidden one.
fn reads_columns(expr: &Expr, table: &Table, alias: &str) -> bool {
    let is_column = |name: &str| {
        table.column_index(name).is_some() || HiddenColumn::named(table, name).is_some()
    };
    visit_expressions(expr, |part| {
        let reads = match part {
            Expr::Identifier(name) => is_column(&folded(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, ..] => folded(qualifier) == alias,
                [] => false,
            },
            _ => false,
        };
        match reads {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
    .is_break()
}

/// What UPDATE sets columns to.
#[derive(Clone, Copy)]
struct Assigned<'a> {
    set: &'a [(usize, Expr)],
    /// The columns whose values the database generates, where a producer numbers the batch.
    generated: &'a [usize],
}

/// The columns that are set to what the database generates.
fn generated_columns(session: &Shared, table: &Table, set: &[(usize, Expr)]) -> Result<Vec<usize>> {
    let constants = session.constants();
    let defaults = Defaults::of(table)?;
    let generated = set
        .iter()
        .filter(|(at, expr)| defaults.generate(&constants, *at, Some(expr)));
    Ok(generated.map(|(at, _)| *at).collect())
}

/// Columns with their new values, one a row.
type Set = Vec<(usize, ArrayRef)>;

/// The columns that are set to their defaults.
fn defaulted(set: &[(usize, Expr)]) -> impl Iterator<Item = usize> {
    let defaulted = set.iter().filter(|(_, expr)| is_default(expr));
    defaulted.map(|(at, _)| *at)
}

/// New values for rows that are not read: constants, and expressions of no column.
fn blind_values(
    session: &Arc<Shared>,
    table: &Table,
    named: &NamedKeys,
    new: &HashSet<i64>,
    (defaults, set): (&Defaults, &[(usize, Expr)]),
) -> Result<(Vec<ArrayRef>, Set, Vec<MentionedKeys>)> {
    let rows = named.encoded.len();
    let constants = session.constants();
    let visible = session.visible();
    let mut keys = Keys::new(&visible, &constants);
    let values: Result<Set> = set
        .iter()
        .map(|(at, expr)| {
            let place = place(table, *at, 1);
            let values = match Literal::of(expr) {
                Some(literal) => constants_of(literal, expr, rows, &place)?,
                None if is_default(expr) => defaults.values(&constants, table, *at, rows, 1)?,
                None => keys.cells(&constants.context().constant(expr, rows)?, &place)?,
            };
            let values = checked_cells(values, false, &place);
            Ok((*at, values.map_err(|error| at_value(error, expr))?))
        })
        .collect();
    let values = values?;
    let found = keys.found(session, table, &named.columns, |id| new.contains(&id))?;
    Ok((found, values, keys.finish()?))
}

/// A constant, which is written as `expr`, for each of `rows` rows.
fn constants_of(literal: Literal, expr: &Expr, rows: usize, place: &Place<'_>) -> Result<ArrayRef> {
    let value = to_array(&[literal], place).map_err(|error| at_value(error, expr))?;
    repeated(&value, rows)
}

/// Whether the numbers that ID columns are set to were given out.
async fn check_set(session: &Shared, table: &Table, set: &[(usize, ArrayRef)]) -> Result<()> {
    let cells = set.iter().map(|(at, values)| (*at, values));
    Box::pin(check_cells(session.instance(), table, cells)).await
}

/// How many rows were changed, and what is told of them.
type Changed = (u64, Option<Box<Telling>>);

/// The rows that a predicate finds.
struct Found<'f> {
    table: &'f Arc<Table>,
    rows: ChangedRows,
    /// What RETURNING tells of them.
    wanted: Option<Box<Wanted>>,
}

impl<'f> Found<'f> {
    /// Rows of a table of which `returning` tells.
    ///
    /// # Errors
    /// As [`Wanted::of`], and `Invalid` (0A000) under a producer's number.
    fn of(
        session: &Shared,
        table: &'f Arc<Table>,
        rows: ChangedRows,
        returning: Option<Vec<SelectItem>>,
        sink: &Sink,
    ) -> Result<Found<'f>> {
        let wanted = match &returning {
            None => None,
            Some(_) if sink.is_numbered() => return Err(found_before()),
            Some(items) => Some(Box::new(Wanted::of(session, table, &rows, items)?)),
        };
        Ok(Found {
            table,
            rows,
            wanted,
        })
    }

    /// Whether a row may match several of other tables.
    fn may_repeat(&self) -> bool {
        !self.rows.from.is_empty()
    }

    /// What the query may do with the table.
    fn target(&self, values: &[Expr]) -> Target {
        // Where the table is read once, and for nothing else, its key is shown to nobody.
        let told = self.wanted.iter().flat_map(|wanted| wanted.exprs());
        let asked = values.iter().chain(&self.rows.selection).chain(told);
        let alone = self.rows.is_of_table() && !asked.clone().any(has_subquery);
        let keys = self.table.key_indices().into_iter();
        let meets_ids = |expr: &mut Expr| only_meets_ids(expr, self.table, self.rows.called());
        Target {
            table: self.table.id,
            hidden_key: self.table.hidden_key,
            free: match alone {
                true => keys.map(|at| self.table.columns[at].id).collect(),
                false => Vec::new(),
            },
            new_ids: alone && asked.cloned().all(|mut expr| meets_ids(&mut expr)),
        }
    }

    /// Begins the query that gives the keys of the rows, then `values` of the columns `set`, then
    /// what is wanted of them: those of one key one behind the other, and one alone where there is
    /// nothing but keys.
    async fn open(
        self,
        session: &Arc<Shared>,
        values: Vec<Expr>,
        set: &[usize],
        sql: &str,
    ) -> Result<FoundRows> {
        let mut items: Vec<SelectItem> = Vec::new();
        for (place, at) in self.table.key_indices().into_iter().enumerate() {
            let parts = [self.rows.called(), &self.table.columns[at].name];
            let parts = parts.map(|part| Ident::with_quote('"', part));
            items.push(SelectItem::ExprWithAlias {
                expr: Expr::CompoundIdentifier(parts.to_vec()),
                alias: Ident::with_quote('"', format!("__key_{place}")),
            });
        }
        let target = self.target(&values);
        let name = self.rows.table.clone();
        // A row that several of other tables match is one, with the values of one of them.
        let repeats = self.may_repeat();
        let has_values = !values.is_empty() || self.wanted.is_some();
        items.extend(set_items(values));
        let (before, mut ordered) = (items.len(), items.len());
        if let Some(wanted) = &self.wanted {
            ordered += wanted.named();
            items.extend(wanted.select_items());
        }
        let key_columns = self.table.key_indices().len();
        let firsts = (repeats && has_values).then(|| FirstOfKeys::new(key_columns));
        let order = firsts.is_some().then(|| order_of_all(ordered));
        let mut query = query(self.rows, items, repeats && !has_values)?;
        query.order_by = order;
        let statement = Statement::Query(query);
        let named = stored_tables(&statement, session, Some(self.table.id))?;
        let snapshot = session.newest(Some(named.ids())).await?;
        check_target(session, (self.table, &name), &named, &snapshot)?;
        let definitions = Definitions::of(&named, Some(&snapshot))?;
        let opened = read::run(session, statement, Some(snapshot), Some(target), sql).await?;
        let told = match self.wanted {
            None => None,
            Some(wanted) => {
                let schema = opened.rows.schema();
                let columns = FoundColumns {
                    schema: &schema,
                    origins: &opened.origins,
                    before,
                    shows_key: self.table.hidden_key,
                    definitions,
                };
                Some(Box::new(wanted.telling(session, columns, set)?))
            }
        };
        Ok(FoundRows {
            batches: ours(opened.rows, sql),
            firsts,
            told,
            snapshot: opened.snapshot,
        })
    }
}

/// The rows that were found: first the columns of their keys.
struct FoundRows {
    batches: BoxStream<'static, Result<RecordBatch>>,
    /// Chooses among the rows of one key, where there may be several.
    firsts: Option<FirstOfKeys>,
    /// What tells of them.
    told: Option<Box<Telling>>,
    snapshot: Option<Snapshot>,
}

impl FoundRows {
    /// The next rows, one a key; `None` behind the last ones.
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.batches.next().await {
            let batch = match &mut self.firsts {
                Some(firsts) => firsts.take(batch?)?,
                None => batch?,
            };
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// Refuses to change a table under this name by keys that are of another definition of it, or of
/// another table that had its name.
fn check_target(
    session: &Shared,
    (table, name): (&Table, &str),
    named: &Read,
    snapshot: &Snapshot,
) -> Result<()> {
    for known in &named.tables {
        let then = definition_in(snapshot, known)?;
        if known.id == table.id {
            check_names(table, &then)?;
        }
    }
    let mut then = session.visible();
    then.manifest = Arc::clone(snapshot.manifest());
    if then.table(name).map(|named| named.id) != Some(table.id) {
        let name = own_name(name);
        let fact = format!("{name:?} was the name of another table there");
        return Err(altered(table, fact));
    }
    Ok(())
}

/// Refuses to change a table by what is read under another definition of it, where a name means
/// another column there.
fn check_names(table: &Table, then: &Table) -> Result<()> {
    let key = table.key_indices();
    for (at, column) in table.columns.iter().enumerate() {
        let named = then.columns.iter().find(|known| known.name == column.name);
        let is_same = named.map_or(!key.contains(&at), |known| known.id == column.id);
        if !is_same {
            let fact = format!("column {:?} was another one there", column.name);
            return Err(altered(table, fact));
        }
    }
    Ok(())
}

fn found_before() -> Error {
    unsupported("RETURNING of UPDATE and DELETE is not supported under a producer's number")
        .with_detail("of a batch that was there already it would tell the rows that are left")
        .with_hint("SELECT the rows before the write, or write without a number")
}

fn altered(table: &Table, fact: String) -> Error {
    Error::conflict(format!(
        "table {:?} was altered after the transaction's snapshot",
        table.name
    ))
    .with_detail(fact)
    .with_hint("COMMIT or ROLLBACK first, then change its rows")
    .with_sqlstate("40001")
}

/// The query that finds the rows of an UPDATE or DELETE and its new values: for what the planner
/// can tell about the statement before it runs.
pub(crate) fn rows_of(rows: ChangedRows, values: Vec<Expr>) -> Result<Box<Query>> {
    let mut items = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
    items.extend(set_items(values));
    query(rows, items, false)
}

/// The query that finds what RETURNING tells of the rows of an UPDATE or DELETE, behind one column
/// more: for its columns.
pub(crate) fn told_of(rows: ChangedRows, wanted: &Wanted) -> Result<Box<Query>> {
    let mut items: Vec<SelectItem> = set_items(vec![Expr::value(Value::Null)]).collect();
    items.extend(wanted.select_items());
    query(rows, items, false)
}

/// New values as columns of a query.
fn set_items(values: Vec<Expr>) -> impl Iterator<Item = SelectItem> {
    let named = |(place, expr)| SelectItem::ExprWithAlias {
        expr,
        alias: Ident::with_quote('"', format!("__set_{place}")),
    };
    values.into_iter().enumerate().map(named)
}

/// `WITH with SELECT items FROM table AS alias, from WHERE selection`.
fn query(rows: ChangedRows, items: Vec<SelectItem>, distinct: bool) -> Result<Box<Query>> {
    let quoted = |name: &str| name.replace('"', "\"\"");
    let template = format!(
        "SELECT {} 1 FROM \"{}\" AS \"{}\"",
        if distinct { "DISTINCT" } else { "" },
        quoted(&rows.table),
        quoted(rows.called())
    );
    let Ours::Query(mut query) = parse_template(&template)?.statement else {
        return Err(Error::internal("SELECT is a query"));
    };
    query.with = rows.with;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from.extend(rows.from);
        select.selection = rows.selection;
    }
    Ok(query)
}

async fn update_found(
    session: &Arc<Shared>,
    found: Found<'_>,
    assigned: Assigned<'_>,
    sink: &mut Sink,
    sql: &str,
) -> Result<Changed> {
    let (table, set) = (found.table, assigned.set);
    let defaults = Defaults::of(table)?;
    let constants = session.constants();
    // Constants reach their column as they are written; all else comes with the query.
    let asked = |expr: &Expr| Literal::of(expr).is_none() && !is_default(expr);
    let exprs = set.iter().map(|(_, expr)| expr).filter(|expr| asked(expr));
    let columns: Vec<usize> = set.iter().map(|(at, _)| *at).collect();
    let asked = exprs.cloned().collect();
    let mut found = found.open(session, asked, &columns, sql).await?;
    let (visible, numbers) = (session.visible(), session.numbers());
    let mut rows = 0_u64;
    let key = table.key_indices();
    // Of such a table the key alone can be set.
    let mut moved = match columns.iter().any(|at| key.contains(at)) {
        true => Some(Moved::of(table)?),
        false => None,
    };
    while let Some(batch) = found.next_batch().await? {
        let wanted = defaulted(set).map(|at| (at, batch.num_rows())).collect();
        defaults.take(&numbers, wanted).await?;
        let keys = stored_keys(table, batch.columns(), rows + 1)?;
        let mut answered = batch.columns()[key.len()..].iter();
        let mut values = Vec::with_capacity(set.len());
        let mut mentioned = Keys::new(&visible, &constants);
        let keys = mentioned.found(session, table, &keys, |_| true)?;
        for (at, expr) in set {
            let place = place(table, *at, rows + 1);
            let count = batch.num_rows();
            let new = match Literal::of(expr) {
                Some(literal) => constants_of(literal, expr, count, &place)?,
                None if is_default(expr) => {
                    defaults.values(&constants, table, *at, count, rows + 1)?
                }
                None => match answered.next() {
                    Some(column) => mentioned.cells(column, &place)?,
                    None => return Err(Error::internal("the query gave too few columns")),
                },
            };
            let new = checked_cells(new, moved.is_some(), &place);
            values.push((*at, new.map_err(|error| at_value(error, expr))?));
        }
        if let Some(told) = &mut found.told {
            told.take(&constants, &batch, &values)?;
        }
        if let Some(moved) = &mut moved {
            moved.take(sink, &keys, &values).await?;
        } else {
            check_set(session, table, &values).await?;
            let mentioned = mentioned.finish()?;
            sink.update(table, &keys, &values, assigned.generated, mentioned)
                .await?;
        }
        rows += batch.num_rows() as u64;
    }
    if let Some(moved) = moved {
        if let Some(snapshot) = &found.snapshot {
            moved.check(session, snapshot).await?;
        }
        moved.finish(sink).await?;
    }
    Ok((rows, found.told))
}

/// Keys of a query's rows, its first columns, as they are stored.
fn stored_keys(table: &Table, columns: &[ArrayRef], first_row: u64) -> Result<Vec<ArrayRef>> {
    table
        .key_indices()
        .into_iter()
        .zip(columns)
        .map(|(at, column)| {
            let place = place(table, at, first_row);
            checked_cells(to_column(column, &place)?, true, &place)
        })
        .collect()
}
