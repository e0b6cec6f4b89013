//! Hidden columns by name: `_scu`, `_time`, `_time(column)`, `_label` and `_label(column)` of
//! stored tables, which `SELECT *`, `information_schema` and copies of a table do not show.
//!
//! ```text
//!   SELECT *, _scu FROM t         ->  SELECT * EXCLUDE ("_scu"), _scu FROM "t␟_scu" AS t
//!   _time(t.a)                    ->  t."_time(a)"
//!   _time(x) FROM t AS u(x)       ->  "_time(x)" FROM "t␟_time(a)" AS u(x, "_time(x)")
//!   the rows of t to change       ->  SELECT t."_row" FROM "t␟_row" AS t
//! ```
//!
//! Reads and rewrites a statement that was parsed; the names of tables with what they show are
//! understood by the catalogue alone. A statement that names no hidden column stays as it is.
//! Invariant HID-1: a wildcard gives the same columns, whatever else the statement names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins, Visitor, VisitorMut, WildcardAdditionalOptions,
};
use lazybase_engine::read::HiddenColumn;
use lazybase_model::table::{HIDDEN_KEY_COLUMN, ROW_LABEL_COLUMN, cell_label_name};
use lazybase_model::{Error, Result, Table};

use crate::parse::{folded, table_name, unsupported};
use crate::walk::{visit, visit_expressions, visit_expressions_mut, visit_mut};

/// What stands between a table's name and the hidden columns that it shows.
const SHOWS: char = '\u{1f}';

/// Looks a stored table up by its name.
pub(crate) type Find<'f> = dyn Fn(&str) -> Option<Arc<Table>> + 'f;

/// Lets the tables of a statement show the hidden columns that it names.
///
/// # Errors
/// `Invalid` where a wildcard or a join can't be told which columns are hidden.
pub(crate) fn show(statement: &mut Statement, find: &Find<'_>) -> Result<()> {
    let named = visit_expressions(&*statement, |expr| match names_hidden(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    if named.is_continue() {
        return Ok(());
    }
    let times = visit_expressions_mut(statement, |expr| {
        if let Expr::Function(function) = expr
            && let Some(column) = part_of(function)
        {
            *expr = column;
        }
        ControlFlow::<()>::Continue(())
    });
    debug_assert!(times.is_continue());
    let mut shower = Shower {
        find,
        with: named_queries(statement),
    };
    match visit_mut(statement, &mut shower) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Lets the table whose rows a query finds, the first of its FROM, show the key that nobody gave
/// it. The same table under other names shows none.
pub(crate) fn show_key(statement: &mut Statement) {
    if let Statement::Query(query) = statement
        && let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Table { name, .. } = &mut from.relation
        && let Some(ObjectNamePart::Identifier(name)) = name.0.last_mut()
    {
        name.value.push(SHOWS);
        name.value.push_str(HIDDEN_KEY_COLUMN);
    }
}

/// A table's name, and the names of the hidden columns that it shall show.
pub(crate) fn shown(name: &str) -> (&str, Vec<&str>) {
    let mut parts = name.split(SHOWS);
    let table = parts.next().unwrap_or_default();
    (table, parts.collect())
}

/// Whether an expression is a hidden column of some table.
pub(crate) fn names_hidden(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => part_of(function).is_some(),
        expr => hidden_name(expr).is_some(),
    }
}

/// The hidden column that an expression names, and the table it says.
fn hidden_name(expr: &Expr) -> Option<(Option<String>, String)> {
    let (qualifier, name) = match expr {
        Expr::Identifier(name) => (None, folded(name)),
        Expr::CompoundIdentifier(parts) => {
            let (name, qualifier) = parts.split_last()?;
            (qualifier.last().map(folded), folded(name))
        }
        _ => return None,
    };
    HiddenColumn::is_name(&name).then_some((qualifier, name))
}

/// `_time(column)`, `_time(table.column)` or `table._time(column)` as the name of a hidden column;
/// `_label(column)` the same way.
fn part_of(function: &Function) -> Option<Expr> {
    let (name, table) = function.name.0.split_last()?;
    let name = name.as_ident()?;
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(column))] = list.args.as_slice() else {
        return None;
    };
    let name_of = match folded(name).as_str() {
        HiddenColumn::TIME => HiddenColumn::time_of,
        ROW_LABEL_COLUMN => cell_label_name,
        _ => return None,
    };
    let table = table.iter().map(|part| part.as_ident().cloned());
    let mut parts = table.collect::<Option<Vec<Ident>>>()?;
    let column = match column {
        Expr::Identifier(column) => column,
        Expr::CompoundIdentifier(of_table) if parts.is_empty() => {
            let (column, table) = of_table.split_last()?;
            parts.extend_from_slice(table);
            column
        }
        _ => return None,
    };
    let hidden = Ident::with_quote('"', name_of(&folded(column)));
    if parts.is_empty() {
        return Some(Expr::Identifier(hidden));
    }
    parts.push(hidden);
    Some(Expr::CompoundIdentifier(parts))
}

/// The names that WITH gives to queries, anywhere in the statement.
pub(crate) fn named_queries(statement: &mut Statement) -> BTreeSet<String> {
    struct Names(BTreeSet<String>);
    impl VisitorMut for Names {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0.extend(tables.map(|table| folded(&table.alias.name)));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(BTreeSet::new());
    let _ = visit_mut(statement, &mut names);
    names.0
}

/// Hidden columns by the tables that the statement names them with.
type Wanted = BTreeSet<(Option<String>, String)>;

struct Shower<'f> {
    find: &'f Find<'f>,
    /// What WITH names: no stored tables.
    with: BTreeSet<String>,
}

impl VisitorMut for Shower<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let mut wanted = Wanted::new();
        collect(&query.order_by, &mut wanted);
        match self.set_expr(&mut query.body, wanted) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Adds the hidden columns that the expressions of a part of the statement name.
fn collect<V: datafusion::sql::sqlparser::ast::Visit>(part: &V, wanted: &mut Wanted) {
    let seen = visit_expressions(part, |expr| {
        wanted.extend(hidden_name(expr));
        ControlFlow::<()>::Continue(())
    });
    debug_assert!(seen.is_continue());
}

/// Adds those that a SELECT may name of its own tables: a subquery in its FROM has tables for
/// itself, unless it is LATERAL.
fn collect_of_tables(select: &Select, wanted: &mut Wanted) {
    let mut collector = Collector {
        wanted,
        queries: 0,
        apart: 0,
    };
    let done = visit(select, &mut collector);
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

struct Collector<'w> {
    wanted: &'w mut Wanted,
    /// In how many queries inside of the SELECT the visit is.
    queries: usize,
    /// In how many subqueries of its FROM that know nothing of its tables.
    apart: usize,
}

impl Visitor for Collector<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        // One in the FROM of a query in an expression may name tables of this SELECT.
        if stands_apart(table) && (self.queries == 0 || self.apart > 0) {
            self.apart += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        if stands_apart(table) && self.apart > 0 {
            self.apart -= 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.apart == 0 {
            self.wanted.extend(hidden_name(expr));
        }
        ControlFlow::Continue(())
    }
}

fn stands_apart(table: &TableFactor) -> bool {
    matches!(table, TableFactor::Derived { lateral: false, .. })
}

impl Shower<'_> {
    fn set_expr(&mut self, body: &mut SetExpr, of_order: Wanted) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.select(select, of_order),
            SetExpr::SetOperation { left, right, .. } => {
                self.set_expr(left, Wanted::new())?;
                self.set_expr(right, Wanted::new())
            }
            _ => Ok(()),
        }
    }

    fn select(&mut self, select: &mut Select, mut wanted: Wanted) -> Result<()> {
        collect_of_tables(select, &mut wanted);
        if wanted.is_empty() {
            return Ok(());
        }
        let mut shows: Vec<Shown> = Vec::new();
        for from in &mut select.from {
            self.table(&mut from.relation, &wanted, &mut shows)?;
            for join in &mut from.joins {
                self.table(&mut join.relation, &wanted, &mut shows)?;
            }
        }
        if shows.iter().all(|shown| shown.columns.is_empty()) {
            return Ok(());
        }
        let joined = Joined::of(&select.from);
        if joined.natural {
            return Err(
                unsupported("NATURAL JOIN of tables whose hidden columns are named")
                    .with_hint("write JOIN ... USING (column)"),
            );
        }
        hide(&mut select.projection, &shows, joined)
    }

    /// Lets a table show what is wanted of it.
    fn table(
        &self,
        table: &mut TableFactor,
        wanted: &Wanted,
        shows: &mut Vec<Shown>,
    ) -> Result<()> {
        match table {
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => {
                self.table(&mut table_with_joins.relation, wanted, shows)?;
                for join in &mut table_with_joins.joins {
                    self.table(&mut join.relation, wanted, shows)?;
                }
                return Ok(());
            }
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let known = table_name(name).ok();
                let (with, known) = match known {
                    Some(name) if self.with.contains(&name) => (Some(name), None),
                    known => (None, known),
                };
                let alias_name = alias.as_ref().map(|alias| folded(&alias.name));
                let Some((known, found)) = known.and_then(|name| {
                    let found = (self.find)(&name)?;
                    Some((name, found))
                }) else {
                    shows.push(Shown::nothing(alias_name.or(with)));
                    return Ok(());
                };
                let called = alias_name.unwrap_or_else(|| known.clone());
                let given = alias.iter().flat_map(|alias| &alias.columns);
                let given: Vec<String> = given.map(|column| folded(&column.name)).collect();
                let of_table = wanted.iter().filter(|(qualifier, _)| {
                    qualifier
                        .as_ref()
                        .is_none_or(|qualifier| *qualifier == called)
                });
                let columns: BTreeMap<String, String> = of_table
                    .filter_map(|(_, name)| Some((name.clone(), of_stored(&found, &given, name)?)))
                    .collect();
                if !columns.is_empty() {
                    rename(name, alias, &known, &columns);
                }
                shows.push(Shown {
                    called: Some(called),
                    columns: columns.into_keys().collect(),
                    is_stored: !given.iter().any(|name| HiddenColumn::is_name(name)),
                });
            }
            TableFactor::Derived { alias, .. } => {
                shows.push(Shown::nothing(
                    alias.as_ref().map(|alias| folded(&alias.name)),
                ));
            }
            _ => shows.push(Shown::nothing(None)),
        }
        Ok(())
    }
}

/// One table of a FROM: what it is called, and the hidden columns that it shows.
struct Shown {
    called: Option<String>,
    columns: BTreeSet<String>,
    /// Whether it has no other columns of such names.
    is_stored: bool,
}

impl Shown {
    fn nothing(called: Option<String>) -> Shown {
        Shown {
            called,
            columns: BTreeSet::new(),
            is_stored: false,
        }
    }
}

/// The name that a hidden column has in its table, whose columns the statement calls as `given`
/// says, if it says anything.
fn of_stored(table: &Table, given: &[String], name: &str) -> Option<String> {
    let columns = &table.columns[..table.visible_columns()];
    let of_row = [HiddenColumn::SCU, HiddenColumn::TIME, ROW_LABEL_COLUMN].contains(&name);
    let stored = match given {
        [] => name.to_owned(),
        // The planner refuses a list of another length, and a column of this name is no hidden one.
        given if given.len() != columns.len() || given.iter().any(|given| given == name) => {
            return None;
        }
        _ if of_row => name.to_owned(),
        given => {
            let mut pairs = given.iter().zip(columns);
            pairs.find_map(|(given, column)| {
                let names: [fn(&str) -> String; 2] = [HiddenColumn::time_of, cell_label_name];
                let mut names = names.into_iter();
                let name_of = names.find(|name_of| name_of(given.as_str()) == name)?;
                Some(name_of(&column.name))
            })?
        }
    };
    HiddenColumn::named(table, &stored).map(|_| stored)
}

/// The table under a name that says what it shows; it is called what it was called. `columns` are
/// the names in the table by those in the statement.
fn rename(
    name: &mut ObjectName,
    alias: &mut Option<TableAlias>,
    table: &str,
    columns: &BTreeMap<String, String>,
) {
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::with_quote('"', table),
        columns: Vec::new(),
        at: None,
    });
    if !alias.columns.is_empty() {
        let shown = columns.keys().map(|called| TableAliasColumnDef {
            name: Ident::with_quote('"', called.as_str()),
            data_type: None,
        });
        alias.columns.extend(shown);
    }
    let mut shows = table.to_owned();
    for column in columns.values() {
        shows.push(SHOWS);
        shows.push_str(column);
    }
    if let Some(last) = name.0.last_mut() {
        *last = ObjectNamePart::Identifier(Ident::with_quote('"', shows));
    }
}

/// How the tables of a FROM are joined.
#[derive(Debug, Clone, Copy)]
struct Joined {
    natural: bool,
    using: bool,
    /// Whether rows have no columns of some table.
    lacks: bool,
}

impl Joined {
    fn of(from: &[TableWithJoins]) -> Joined {
        let mut joined = Joined {
            natural: false,
            using: false,
            lacks: false,
        };
        for join in from.iter().flat_map(|from| &from.joins) {
            match constraint(&join.join_operator) {
                Some(JoinConstraint::Natural) => joined.natural = true,
                Some(JoinConstraint::Using(_)) => joined.using = true,
                _ => {}
            }
            joined.lacks |= gives_one_side(&join.join_operator);
        }
        joined
    }
}

/// What a join says of the rows that meet.
pub(crate) fn constraint(join: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator as J;
    match join {
        J::Join(on)
        | J::Inner(on)
        | J::Left(on)
        | J::LeftOuter(on)
        | J::Right(on)
        | J::RightOuter(on)
        | J::FullOuter(on)
        | J::CrossJoin(on)
        | J::Semi(on)
        | J::LeftSemi(on)
        | J::RightSemi(on)
        | J::Anti(on)
        | J::LeftAnti(on)
        | J::RightAnti(on)
        | J::StraightJoin(on) => Some(on),
        _ => None,
    }
}

/// Whether rows have the columns of one of the two sides alone.
fn gives_one_side(join: &JoinOperator) -> bool {
    use JoinOperator as J;
    matches!(
        join,
        J::Semi(_)
            | J::LeftSemi(_)
            | J::RightSemi(_)
            | J::Anti(_)
            | J::LeftAnti(_)
            | J::RightAnti(_)
    )
}

/// Takes what tables show out of the wildcards.
fn hide(projection: &mut Vec<SelectItem>, shows: &[Shown], joined: Joined) -> Result<()> {
    let mut items = Vec::with_capacity(projection.len());
    for item in std::mem::take(projection) {
        match item {
            SelectItem::Wildcard(options) => wildcard(&mut items, options, shows, joined)?,
            SelectItem::QualifiedWildcard(kind, mut options) => {
                let called = match &kind {
                    SelectItemQualifiedWildcardKind::ObjectName(name) => {
                        name.0.last().and_then(ObjectNamePart::as_ident).map(folded)
                    }
                    SelectItemQualifiedWildcardKind::Expr(_) => None,
                };
                let of = shows
                    .iter()
                    .find(|shown| called.is_some() && shown.called == called);
                if let Some(shown) = of {
                    exclude(&mut options, &shown.columns);
                }
                items.push(SelectItem::QualifiedWildcard(kind, options));
            }
            item => items.push(item),
        }
    }
    *projection = items;
    Ok(())
}

fn wildcard(
    items: &mut Vec<SelectItem>,
    mut options: WildcardAdditionalOptions,
    shows: &[Shown],
    joined: Joined,
) -> Result<()> {
    let showing: Vec<&Shown> = shows
        .iter()
        .filter(|shown| !shown.columns.is_empty())
        .collect();
    // A column that several give can't be excluded by its name: one table after the other.
    let plain = options == WildcardAdditionalOptions::default() && !joined.using && !joined.lacks;
    let one_by_one = plain && shows.iter().all(|shown| shown.called.is_some());
    let alone = shows.iter().all(|shown| shown.is_stored);
    if let [only] = showing.as_slice()
        && (alone || !one_by_one)
    {
        exclude(&mut options, &only.columns);
        items.push(SelectItem::Wildcard(options));
        return Ok(());
    }
    for shown in shows {
        let Some(called) = shown.called.as_ref().filter(|_| plain) else {
            return Err(unsupported("* beside hidden columns of several tables")
                .with_hint("name the columns, or write a.*, b.*"));
        };
        let mut options = WildcardAdditionalOptions::default();
        exclude(&mut options, &shown.columns);
        let name = ObjectName::from(vec![Ident::with_quote('"', called.as_str())]);
        let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
        items.push(SelectItem::QualifiedWildcard(kind, options));
    }
    Ok(())
}

fn exclude(options: &mut WildcardAdditionalOptions, columns: &BTreeSet<String>) {
    let hidden = columns
        .iter()
        .map(|column| ObjectName::from(vec![Ident::with_quote('"', column.as_str())]));
    let mut names: Vec<ObjectName> = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    names.extend(hidden);
    if !names.is_empty() {
        options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
    }
}
