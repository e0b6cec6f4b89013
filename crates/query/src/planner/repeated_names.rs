//! The names of columns: PostgreSQL's, also where a SELECT has one of them twice. The planner has
//! names of its own for what is computed, and wants each name once.
//!
//! ```text
//!   SELECT a, a FROM t       ->  SELECT a, a AS "a{mark}2" FROM t       -> planned, run
//!                                                                       -> columns a, a
//!   SELECT count(*) FROM t   ->  SELECT count(*) AS "count" FROM t
//!   SELECT b AS a FROM t ORDER BY t.a, a
//!                            ->  SELECT b AS "a{mark}1" FROM t ORDER BY t.a, "a{mark}1"
//!   SELECT -a AS a FROM t ORDER BY a + 0
//!                            ->  SELECT -a AS "a{mark}1" FROM t ORDER BY a + 0
//! ```
//!
//! Rewrites sqlparser's tree before it is planned, and the names of what the plan gives. Invariant
//! RPN-1: a name that a query could mean outside of its SELECT stays as it is: of columns with the
//! same name, the first.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, Value, Visit, Visitor,
    VisitorMut, WildcardAdditionalOptions,
};
use futures::stream::StreamExt;

use crate::parse::folded;
use crate::planner::column_names::{self, NAMELESS};
use crate::walk::{visit, visit_expressions, visit_mut};

/// Stands between a column's name and the number of its place. No key of a keyboard writes it.
const MARK: &str = "\u{1}again ";

/// Names apart what the columns of each SELECT have in common.
pub(crate) fn mark(statement: &mut Statement) {
    let done = visit_mut(statement, &mut Marker { depth: 0 });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

/// The columns under the names that the statement gave them.
pub(crate) fn unmarked(schema: &SchemaRef) -> SchemaRef {
    if !is_marked(schema) {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| {
        let name = field.name().split(MARK).next().unwrap_or_default();
        field.as_ref().clone().with_name(name)
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The text of a plan under the names that the statement gave its columns.
pub(crate) fn unmarked_text(plan: &str) -> String {
    // Parts of plans are told as the compiler would write them.
    let plan = plan.replace(&MARK.escape_debug().to_string(), MARK);
    let mut parts = plan.split(MARK);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    text.replace(|c: char| c.is_control() && c != '\n', "")
}

/// Rows under the names that the statement gave their columns.
pub(crate) fn unmarked_rows(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    if !is_marked(&schema) {
        return rows;
    }
    let shown = unmarked(&schema);
    let of_batch = Arc::clone(&shown);
    let rows = rows.map(move |batch| {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        let renamed = RecordBatch::try_new_with_options(Arc::clone(&of_batch), columns, &options);
        Ok(renamed?)
    });
    Box::pin(RecordBatchStreamAdapter::new(shown, rows))
}

fn is_marked(schema: &Schema) -> bool {
    let mut fields = schema.fields().iter();
    fields.any(|field| field.name().contains(MARK))
}

struct Marker {
    /// How many queries stand around the one that is visited.
    depth: usize,
}

impl VisitorMut for Marker {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        if let SetExpr::Select(select) = query.body.as_ref()
            && let Some(order) = &mut query.order_by
        {
            order_by_places(order, select);
        }
        if self.depth == 0
            && let SetExpr::Select(select) = query.body.as_mut()
            && let Some(order) = &mut query.order_by
        {
            apart_from_tables(order, select);
        }
        let meant = query.order_by.as_ref().map(inputs_of).unwrap_or_default();
        let names = Names {
            meant,
            // The names of a query inside of another one are for that.
            outermost: self.depth == 0,
        };
        each_select(&mut query.body, &names);
        if let SetExpr::Select(select) = query.body.as_ref()
            && select.distinct.is_some()
            && let Some(order) = &mut query.order_by
        {
            order_by_names(order, select);
        }
        ControlFlow::Continue(())
    }
}

/// What names of a query's columns depend on.
struct Names {
    /// Those that have to go on meaning columns of the input.
    meant: HashSet<String>,
    /// Whether nobody but the client is given them.
    outermost: bool,
}

fn each_select(body: &mut SetExpr, names: &Names) {
    match body {
        SetExpr::Select(select) => name_apart(select, names),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left, names);
            each_select(right, names);
        }
        _ => {}
    }
}

/// Orders the rows by the places of columns where an ORDER BY computes what the SELECT does: so
/// the columns can have names that mean other columns in it.
fn order_by_places(order: &mut OrderBy, select: &Select) {
    let OrderByKind::Expressions(all) = &mut order.kind else {
        return;
    };
    let is_item = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    };
    if !select.projection.iter().all(is_item) {
        return;
    }
    for ordered in all {
        if matches!(ordered.expr, Expr::Identifier(_) | Expr::Value(_)) {
            continue;
        }
        let place = select.projection.iter().position(
            |item| matches!(item, SelectItem::UnnamedExpr(expr) if *expr == ordered.expr),
        );
        if let Some(place) = place {
            let number = Value::Number((place + 1).to_string(), false);
            ordered.expr = Expr::Value(number.into());
        }
    }
}

/// Names columns apart from those of tables that an ORDER BY means: those that it names with their
/// table, for of two that share a name the planner knows neither, and those in its expressions.
/// Where that name stands alone in the ORDER BY, it goes on meaning the column of the SELECT.
fn apart_from_tables(order: &mut OrderBy, select: &mut Select) {
    let OrderByKind::Expressions(all) = &mut order.kind else {
        return;
    };
    let mut of_tables = names_of_tables(all);
    // Of what is DISTINCT, rows have no columns but those of the SELECT.
    if select.distinct.is_none() {
        of_tables.extend(names_in_expressions(all, select));
    }
    let mut seen: HashSet<String> = HashSet::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let Some(named) = Named::of(item) else {
            continue;
        };
        let name = named.name().to_owned();
        let is_first = seen.insert(name.clone());
        let SelectItem::ExprWithAlias { alias, .. } = item else {
            continue;
        };
        if !of_tables.contains(&name) {
            continue;
        }
        let apart = Ident::with_quote('"', format!("{name}{MARK}{}", at + 1));
        for ordered in all.iter_mut().filter(|_| is_first) {
            if matches!(&ordered.expr, Expr::Identifier(alone) if folded(alone) == name) {
                ordered.expr = Expr::Identifier(apart.clone());
            }
        }
        *alias = apart;
    }
}

/// The columns that expressions name with their tables.
fn names_of_tables(all: &[OrderByExpr]) -> HashSet<String> {
    let mut names = HashSet::new();
    for ordered in all {
        let _ = visit_expressions(&ordered.expr, |expr| {
            if let Expr::CompoundIdentifier(parts) = expr {
                names.extend(parts.last().map(folded));
            }
            ControlFlow::<()>::Continue(())
        });
    }
    names
}

/// The names in expressions that the SELECT too takes from what it reads. What else an expression
/// names may be a column of the SELECT alone, where PostgreSQL knows none.
fn names_in_expressions(all: &[OrderByExpr], select: &Select) -> HashSet<String> {
    let alone = |ordered: &&OrderByExpr| matches!(ordered.expr, Expr::Identifier(_));
    let mut named = HashSet::new();
    for ordered in all.iter().filter(|ordered| !alone(ordered)) {
        add_names(&ordered.expr, &mut named);
    }
    let mut read = HashSet::new();
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            add_names(expr, &mut read);
        }
    }
    add_names(&select.selection, &mut read);
    named.retain(|name| read.contains(name));
    named
}

/// Adds the names of columns that stand without a table, outside of queries.
fn add_names(part: &impl Visit, names: &mut HashSet<String>) {
    struct Outside<'n> {
        names: &'n mut HashSet<String>,
        /// In how many queries the visit is.
        depth: usize,
    }
    impl Visitor for Outside<'_> {
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
            if let Expr::Identifier(name) = expr
                && self.depth == 0
            {
                self.names.insert(folded(name));
            }
            ControlFlow::Continue(())
        }
    }
    let done = visit(part, &mut Outside { names, depth: 0 });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

/// Orders the rows of a SELECT DISTINCT by the names of its columns: the planner finds no others.
/// A number is a place, whichever columns are that number; a name of a column means that column.
fn order_by_names(order: &mut OrderBy, select: &Select) {
    let OrderByKind::Expressions(all) = &mut order.kind else {
        return;
    };
    let is_column = |name: &Ident| {
        let mut named = select.projection.iter().filter_map(Named::of);
        named.any(|named| named.name() == folded(name))
    };
    for ordered in all {
        let is_meant = match &ordered.expr {
            Expr::Value(value) => matches!(value.value, Value::Number(..)),
            Expr::Identifier(name) => is_column(name),
            _ => false,
        };
        if is_meant {
            continue;
        }
        let named = select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if *expr == ordered.expr => Some(alias),
            _ => None,
        });
        if let Some(alias) = named {
            ordered.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// The names in an ORDER BY that mean columns of what the query reads, and not of what it gives:
/// all but those that stand alone.
fn inputs_of(order: &OrderBy) -> HashSet<String> {
    let mut meant = HashSet::new();
    let OrderByKind::Expressions(all) = &order.kind else {
        return meant;
    };
    for ordered in all {
        if matches!(ordered.expr, Expr::Identifier(_)) {
            continue;
        }
        let _ = visit_expressions(&ordered.expr, |expr| {
            meant.extend(match expr {
                Expr::Identifier(name) => Some(folded(name)),
                Expr::CompoundIdentifier(parts) => parts.last().map(folded),
                _ => None,
            });
            ControlFlow::<()>::Continue(())
        });
    }
    meant
}

/// A column of a SELECT list, as far as names go.
#[derive(Debug, PartialEq)]
enum Named {
    /// `a`, `t.a`: the table, where it is named, and the column.
    Column(Option<String>, String),
    /// By AS, or by what it computes.
    Other(String),
}

impl Named {
    fn of(item: &SelectItem) -> Option<Named> {
        Some(match item {
            SelectItem::ExprWithAlias { alias, .. } => Named::Other(folded(alias)),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Named::Column(None, folded(name)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                let (name, of) = parts.split_last()?;
                let of = of.last().map(folded);
                Named::Column(of, folded(name))
            }
            SelectItem::UnnamedExpr(expr) => Named::Other(column_names::of(expr)),
            _ => return None,
        })
    }

    fn name(&self) -> &str {
        match self {
            Named::Column(_, name) | Named::Other(name) => name,
        }
    }

    /// Whether the planner would take both for one. Columns of two tables are two to it.
    fn is_taken_for(&self, other: &Named) -> bool {
        match (self, other) {
            (Named::Column(Some(of), name), Named::Column(Some(other), same)) => {
                of == other && name == same
            }
            _ => self.name() == other.name(),
        }
    }
}

/// Gives each column that has no name one, and none that another column has.
fn name_apart(select: &mut Select, names: &Names) {
    let wild: Vec<Wild> = select.projection.iter().filter_map(Wild::of).collect();
    let in_wildcard = |named: &Named| match named {
        Named::Column(of, name) => wild.iter().any(|wild| wild.gives(of.as_deref(), name)),
        Named::Other(_) => false,
    };
    let mut seen: Vec<Named> = Vec::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let Some(named) = Named::of(item) else {
            continue;
        };
        let is_computed = matches!(
            (&named, &*item),
            (Named::Other(_), SelectItem::UnnamedExpr(_))
        );
        let taken = seen.iter().any(|earlier| named.is_taken_for(earlier));
        let name = named.name();
        // A wildcard may give any name.
        let any = names.outermost && !wild.is_empty();
        let unclear = any || name == NAMELESS || names.meant.contains(name);
        let marked = taken || in_wildcard(&named) || (is_computed && unclear);
        if marked || is_computed {
            let name = match marked {
                true => format!("{name}{MARK}{}", at + 1),
                false => name.to_owned(),
            };
            let alias = Ident::with_quote('"', name);
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let expr = expr.clone();
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
                SelectItem::ExprWithAlias { alias: known, .. } => *known = alias,
                _ => {}
            }
        }
        seen.push(named);
    }
}

/// A wildcard of a SELECT list.
struct Wild {
    /// The table whose columns it gives: `t.*`; those of all where there is none.
    of: Option<String>,
    /// The columns that it leaves out.
    without: HashSet<String>,
}

impl Wild {
    fn of(item: &SelectItem) -> Option<Wild> {
        let (of, options) = match item {
            SelectItem::Wildcard(options) => (None, options),
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => (Some(name.0.last()?.as_ident().map(folded)?), options),
            _ => return None,
        };
        let without = left_out(options);
        Some(Wild { of, without })
    }

    /// Whether a column is among those that it gives.
    fn gives(&self, of: Option<&str>, name: &str) -> bool {
        let is_of = self.of.is_none() || self.of.as_deref() == of;
        is_of && !self.without.contains(name)
    }
}

/// The columns that a wildcard excludes.
fn left_out(options: &WildcardAdditionalOptions) -> HashSet<String> {
    let names: &[ObjectName] = match &options.opt_exclude {
        None => &[],
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names.as_slice(),
    };
    let mut left_out: HashSet<String> = names
        .iter()
        .filter_map(|name| name.0.last()?.as_ident().map(folded))
        .collect();
    if let Some(except) = &options.opt_except {
        left_out.insert(folded(&except.first_element));
        left_out.extend(except.additional_elements.iter().map(folded));
    }
    left_out
}
