//! `IDKEY(...)` in predicates: looked up in the key map before the statement is planned.
//!
//! ```text
//!   file_id = IDKEY('web1', '/var/log')   -> file_id = 17
//!   a key that nobody ever mentioned      -> a number that is never given out: no row has it
//! ```
//!
//! Reads the key map on the newest snapshot (or the transaction's): a mapping never changes, so
//! the number is right at every horizon, and where the key is younger than the horizon no row
//! has it. Invariant IDL-1: a predicate holds for exactly the rows whose ID stands for the key.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectNamePart, Query, Select, Spanned, TableFactor, TableWithJoins, Value, VisitMut,
    VisitorMut,
};
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_engine::read::HiddenColumn;
use lazybase_model::id_key::NO_ID;
use lazybase_model::{Error, IdKeyColumn, Result, Table, TableId};

use super::{Owner, function, other_width, own};
use crate::cast::{checked_key, place, to_column};
use crate::clauses::Clauses;
use crate::literal::{Literal, to_array};
use crate::parse::parameters::null_of;
use crate::parse::{
    ChangedRows, CopySource, InsertSource, Statement, folded, table_name, unsupported,
};
use crate::session::Shared;
use crate::text_places::at_span;
use crate::walk::{visit_expressions, visit_expressions_mut, visit_mut};

/// The arguments of a call of the function.
pub(crate) fn arguments(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Nested(inner) => arguments(inner),
        Expr::Function(Function {
            name,
            args: FunctionArguments::List(list),
            ..
        }) => match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] if folded(name) == function::NAME => list
                .args
                .iter()
                .map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                    _ => None,
                })
                .collect(),
            _ => None,
        },
        _ => None,
    }
}

/// The elements of a row that is written out.
fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Nested(inner) => elements(inner),
        Expr::Tuple(elements) => Some(elements),
        _ => None,
    }
}

fn elements_mut(expr: &mut Expr) -> Option<&mut Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => elements_mut(inner),
        Expr::Tuple(elements) => Some(elements),
        _ => None,
    }
}

/// Puts an unknown number in the place of each call in a query's predicates: what the query gives
/// can be told before anybody says which keys are meant.
pub(crate) fn unknown_numbers(query: &mut impl VisitMut) {
    fn unknown(operand: &mut Expr) {
        if arguments(operand).is_some() {
            *operand = null_of(&DataType::Int64);
        } else if let Some(elements) = elements_mut(operand) {
            elements.iter_mut().for_each(unknown);
        }
    }
    let done: ControlFlow<()> = visit_expressions_mut(query, |expr| {
        match expr {
            Expr::BinaryOp { left, right, .. }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => {
                [left, right].into_iter().for_each(|o| unknown(o))
            }
            Expr::InList { expr, list, .. } => {
                unknown(expr);
                list.iter_mut().for_each(unknown);
            }
            Expr::Between {
                expr, low, high, ..
            } => [expr, low, high].into_iter().for_each(|o| unknown(o)),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

/// Replaces the calls in a statement's predicates.
///
/// # Errors
/// `Invalid` for a natural key that no row can have, and where it is not clear whose key it is.
pub(crate) async fn resolve(
    session: &Arc<Shared>,
    statement: &mut Statement,
    clauses: &Clauses,
) -> Result<()> {
    let (reads, none) = (Purpose::Read(clauses), Tables::default());
    match statement {
        Statement::Query(query) => in_part(session, query.as_mut(), &none, reads).await,
        Statement::Explain(inner) => in_part(session, inner.as_mut(), &none, reads).await,
        Statement::Insert(insert) => match &mut insert.source {
            InsertSource::Query(query) => in_part(session, query.as_mut(), &none, reads).await,
            _ => Ok(()),
        },
        Statement::CreateTable(create) => match &mut create.query {
            Some(query) => in_part(session, query.as_mut(), &none, reads).await,
            None => Ok(()),
        },
        Statement::CopyTo {
            source: CopySource::Query(query),
            ..
        } => in_part(session, query.as_mut(), &none, reads).await,
        Statement::Update(update) => {
            let values = update.assignments.iter_mut().map(|(_, value)| value);
            in_changed(session, &mut update.rows, values).await
        }
        Statement::Delete(delete) => {
            in_changed(session, &mut delete.rows, std::iter::empty()).await
        }
        _ => Ok(()),
    }
}

/// The same in what tells the rows that are changed, and in their new values, where a call that is
/// itself the value stays as it is.
async fn in_changed(
    session: &Arc<Shared>,
    rows: &mut ChangedRows,
    values: impl Iterator<Item = &mut Expr>,
) -> Result<()> {
    let target = Tables {
        stored: named(session, &rows.table, rows.alias.as_deref()),
        others: rows.with.is_some(),
    };
    let mut finder = Finder::new(session, target);
    let _ = visit_mut(&mut rows.with, &mut finder);
    let _ = visit_mut(&mut rows.from, &mut finder);
    let target = finder.tables;
    in_part(session, &mut rows.with, &target, Purpose::Write).await?;
    in_part(session, &mut rows.from, &target, Purpose::Write).await?;
    for value in values {
        in_part(session, value, &target, Purpose::Write).await?;
    }
    in_part(session, &mut rows.selection, &target, Purpose::Write).await
}

/// What the rows are looked for for.
#[derive(Debug, Clone, Copy)]
enum Purpose<'c> {
    Read(&'c Clauses),
    Write,
}

type Sources = Vec<(String, Arc<Table>)>;

/// What a statement reads.
#[derive(Debug, Clone, Default)]
struct Tables {
    /// Stored tables, by their aliases.
    stored: Sources,
    /// Whether there is anything else that is: queries, functions, tables of the system. Columns
    /// of these may have any name.
    others: bool,
}

fn named(session: &Shared, table: &str, alias: Option<&str>) -> Sources {
    let visible = session.visible();
    let found = visible.table(table).or_else(|| visible.view(table));
    let alias = alias.unwrap_or(table).to_owned();
    found.map(|table| (alias, table)).into_iter().collect()
}

async fn in_part<P: VisitMut>(
    session: &Arc<Shared>,
    part: &mut P,
    target: &Tables,
    purpose: Purpose<'_>,
) -> Result<()> {
    let mut finder = Finder::new(session, target.clone());
    let _ = visit_mut(part, &mut finder);
    if !finder.called {
        return Ok(());
    }
    // What is changed stands around its expressions, and before the tables of queries inside.
    let around = target.stored.iter();
    let around = around.map(|(alias, table)| (alias.clone(), table.name.clone()));
    let mut tables = finder.tables;
    if let Purpose::Read(clauses) = purpose {
        as_of(session, &mut tables.stored, clauses).await?;
    }
    let mut rewriter = Rewriter {
        tables,
        scopes: vec![around.collect()],
        wanted: BTreeMap::new(),
        known: None,
        failed: None,
    };
    let _ = visit_mut(part, &mut rewriter);
    if let Some(error) = rewriter.failed {
        return Err(error);
    }
    let mut known = HashMap::new();
    for (call, (id_key, arguments)) in &rewriter.wanted {
        let id = look_up(session, *id_key, arguments, purpose).await?;
        known.insert(call.clone(), id);
    }
    rewriter.known = Some(known);
    let _ = visit_mut(part, &mut rewriter);
    Ok(())
}

/// Gives tables the columns that they have at the horizon that is read, where that may be one of
/// the past.
async fn as_of(session: &Shared, sources: &mut Sources, clauses: &Clauses) -> Result<()> {
    if clauses.as_of.is_none() && !session.has_snapshot() {
        return Ok(());
    }
    let snapshot = session.snapshot(clauses, None).await?;
    for (_, table) in sources
        .iter_mut()
        .filter(|(_, table)| table.view_of.is_none())
    {
        if let Ok(then) = snapshot.definition(table.id) {
            *table = then;
        }
    }
    Ok(())
}

/// Finds the tables of a statement, and whether it calls the function.
struct Finder<'f> {
    session: &'f Shared,
    tables: Tables,
    /// What WITH names.
    with: BTreeSet<String>,
    called: bool,
}

impl<'f> Finder<'f> {
    fn new(session: &'f Shared, tables: Tables) -> Finder<'f> {
        Finder {
            session,
            tables,
            with: BTreeSet::new(),
            called: false,
        }
    }
}

impl VisitorMut for Finder<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        self.with.extend(named.map(|of| folded(&of.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name, alias, args, ..
        } = factor
            && let Ok(name) = table_name(name)
        {
            let renames = alias.as_ref().is_some_and(|of| !of.columns.is_empty());
            self.tables.others |= args.is_some() || renames || self.with.contains(&name);
            let alias = alias.as_ref().map(|alias| folded(&alias.name));
            let found = named(self.session, &name, alias.as_deref());
            let is_view = || self.session.visible().plain_view(&name).is_some();
            self.tables.others |= found.is_empty() && is_view();
            self.tables.stored.extend(found);
        } else {
            self.tables.others |= !matches!(factor, TableFactor::NestedJoin { alias: None, .. });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.called |= arguments(expr).is_some();
        ControlFlow::Continue(())
    }
}

/// First collects calls beside ID columns, then puts numbers in their places.
struct Rewriter {
    /// All tables of the statement.
    tables: Tables,
    /// The tables that each SELECT around an expression names itself, the innermost last: their
    /// aliases and names.
    scopes: Vec<Vec<(String, String)>>,
    wanted: BTreeMap<(TableId, String), (IdKeyColumn, Vec<Expr>)>,
    known: Option<HashMap<(TableId, String), i64>>,
    failed: Option<Error>,
}

impl Rewriter {
    /// The ID key that a column is; `None` where there is no such column.
    fn id_key(&self, column: &Expr) -> Result<Option<IdKeyColumn>> {
        let (qualifier, name) = match column {
            Expr::Nested(inner) => return self.id_key(inner),
            Expr::Identifier(name) => (None, folded(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., qualifier, name] => (Some(folded(qualifier)), folded(name)),
                _ => return Err(no_column(column)),
            },
            _ => return Err(no_column(column)),
        };
        let wanted = |alias: &str| qualifier.as_ref().is_none_or(|q| q == alias);
        for scope in self.scopes.iter().rev() {
            let here = self.tables.stored.iter().filter(|(alias, table)| {
                let is_named = |(a, t): &(String, String)| a == alias && *t == table.name;
                wanted(alias) && scope.iter().any(is_named)
            });
            if let Some(found) = id_key_among(here, column, &name)? {
                return Ok(Some(found));
            }
        }
        // A column of a query in FROM or WITH is that of a table inside.
        let all = self.tables.stored.iter();
        let found = id_key_among(all.filter(|(alias, _)| wanted(alias)), column, &name)?;
        let may_be_there = self.tables.others || HiddenColumn::is_name(&name);
        match found.is_none() && may_be_there {
            true => Err(no_column(column)),
            false => Ok(found),
        }
    }

    fn put(&mut self, column: &Expr, call: &mut Expr) -> Result<()> {
        let Some(given) = arguments(call) else {
            return Ok(());
        };
        // The planner says what is missing: the column, or its table.
        let Some(id_key) = self.id_key(column)? else {
            return Ok(());
        };
        let name = (id_key.map, call.to_string());
        match &self.known {
            None => {
                let given = given.into_iter().cloned().collect();
                self.wanted.insert(name, (id_key, given));
            }
            Some(known) => {
                let id = known.get(&name).copied().unwrap_or(NO_ID);
                *call = Expr::value(Value::Number(id.to_string(), false));
            }
        }
        Ok(())
    }

    fn compare(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::BinaryOp { left, op, right } if is_equality(op) => self.equal(left, right),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.equal(left, right)
            }
            Expr::InList { expr, list, .. } => {
                for item in list {
                    self.put_in_row(expr, item)?;
                }
                Ok(())
            }
            Expr::BinaryOp { left, right, .. } => no_order(&[&**left, &**right]),
            Expr::Between {
                expr, low, high, ..
            } => no_order(&[&**expr, &**low, &**high]),
            _ => Ok(()),
        }
    }

    fn equal(&mut self, left: &mut Expr, right: &mut Expr) -> Result<()> {
        match (arguments(left).is_some(), arguments(right).is_some()) {
            (false, true) => self.put(left, right),
            (true, false) => self.put(right, left),
            _ => Ok(()),
        }
    }

    /// As [`Rewriter::put`], also where both are rows.
    fn put_in_row(&mut self, column: &Expr, call: &mut Expr) -> Result<()> {
        match (elements(column), elements_mut(call)) {
            (Some(columns), Some(calls)) => columns
                .iter()
                .zip(calls)
                .try_for_each(|(column, call)| self.put_in_row(column, call)),
            _ => self.put(column, call),
        }
    }
}

/// The ID key that a column of this name is in some tables, if one of them has it.
fn id_key_among<'s>(
    sources: impl Iterator<Item = &'s (String, Arc<Table>)>,
    column: &Expr,
    name: &str,
) -> Result<Option<IdKeyColumn>> {
    let mut found: Option<IdKeyColumn> = None;
    for (_, table) in sources {
        let Some(at) = table.column_index(name) else {
            continue;
        };
        let id_key = table.columns[at].id_key.ok_or_else(|| no_column(column))?;
        if found.is_some_and(|found| found.map != id_key.map) {
            let error = Error::invalid(format!("column {name:?} is in several tables"))
                .with_hint("name its table before it, with a dot between")
                .with_sqlstate("42702");
            return Err(at_span(error, column.span()));
        }
        found = Some(id_key);
    }
    Ok(found)
}

/// The tables that stand in a FROM themselves: their aliases and names.
fn named_in(factor: &TableFactor, scope: &mut Vec<(String, String)>) {
    match factor {
        TableFactor::Table { name, alias, .. } => {
            if let Ok(name) = table_name(name) {
                let alias = alias.as_ref().map(|alias| folded(&alias.name));
                scope.push((alias.unwrap_or_else(|| name.clone()), name));
            }
        }
        TableFactor::NestedJoin {
            table_with_joins, ..
        } => named_in_joins(table_with_joins, scope),
        _ => {}
    }
}

fn named_in_joins(from: &TableWithJoins, scope: &mut Vec<(String, String)>) {
    named_in(&from.relation, scope);
    for join in &from.joins {
        named_in(&join.relation, scope);
    }
}

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut scope = Vec::new();
        for from in &select.from {
            named_in_joins(from, &mut scope);
        }
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match self.compare(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Refuses to compare natural keys by their order.
fn no_order(operands: &[&Expr]) -> Result<()> {
    match operands.iter().any(|operand| arguments(operand).is_some()) {
        false => Ok(()),
        true => Err(
            unsupported("IDs of natural keys are compared with = and <> alone")
                .with_detail("numbers are given out in the order of first mention")
                .with_hint(
                    "write =, <> or IN (IDKEY(...), ...); or join the owner, and compare its \
                     columns",
                ),
        ),
    }
}

fn is_equality(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq)
}

fn no_column(column: &Expr) -> Error {
    let error = Error::invalid(format!(
        "{column} is no ID key: IDKEY(...) can't be compared with it"
    ))
    .with_hint("IDKEY(...) stands beside a column of type IDKEY")
    .with_sqlstate("42804");
    at_span(error, column.span())
}

/// The number of a natural key: negative where the transaction itself mentions it first.
async fn look_up(
    session: &Arc<Shared>,
    id_key: IdKeyColumn,
    given: &[Expr],
    purpose: Purpose<'_>,
) -> Result<i64> {
    let owner = Owner::of(&session.visible(), id_key)?;
    let key = owner.table.key_indices();
    // Whether a key has a number is told by it.
    session.gate_now().may_read(&owner.table, &key)?;
    if given.len() != key.len() {
        let what = other_width(given.len(), key.len());
        return Err(Error::invalid(what)
            .with_hint(owner.form())
            .with_sqlstate("42601"));
    }
    let constants = session.constants();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(key.len());
    for (at, expr) in key.iter().zip(given) {
        let place = place(&owner.table, *at, 1);
        let value = match Literal::of(expr) {
            Some(literal) => to_array(&[literal], &place)?,
            None if reads_rows(expr) => return Err(not_constant(&owner)),
            None => to_column(&constants.context().constant(expr, 1)?, &place)?,
        };
        if value.null_count() > 0 {
            return Err(Error::invalid("a natural key holds NULL")
                .with_hint(owner.form())
                .with_sqlstate("23502"));
        }
        columns.push(checked_key(value, &place)?);
    }
    let keys = KeyCodec::primary(&owner.map)?.encode_columns(&columns)?;
    let key = Key::new(keys.row(0).data());
    let tables = Some(vec![owner.map.id]);
    let snapshot = match purpose {
        // It is the first read of its transaction, or one at the snapshot of that.
        Purpose::Read(clauses) if session.has_transaction() => {
            session.snapshot(clauses, tables).await?
        }
        Purpose::Read(_) | Purpose::Write => session.newest(tables).await?,
    };
    let id_at = owner.map.key_map_id();
    let found = snapshot
        .get(owner.map.id, std::slice::from_ref(&key), &[id_at], &[])
        .await?;
    if found.num_rows() > 0 {
        return Ok(found.column(0).as_primitive::<Int64Type>().value(0));
    }
    let own = own::provisional(session, &snapshot, owner.map.id, &key).await?;
    Ok(own.unwrap_or(NO_ID))
}

fn reads_rows(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn not_constant(owner: &Owner) -> Error {
    unsupported("IDKEY(...) in a predicate takes constants").with_hint(format!(
        "join table {:?} on its ID key, and compare its columns",
        owner.table.name
    ))
}
