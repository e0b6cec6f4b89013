//! Comparisons with the rows of a query, as values of which NULL is one: the planner knows them as
//! conditions that hold or don't, and of `op ANY` and `op ALL` gives wrong ones.
//!
//! | written                   | read                                                   |
//! | ------------------------- | ------------------------------------------------------ |
//! | `x = ANY (q)`             | `x IN (q)`                                             |
//! | `x <> ALL (q)`            | `x NOT IN (q)`                                         |
//! | `x > ALL (q)`             | CASE of `x > max(q)`, and how many rows and NULLs q has|
//! | `x > ANY (q)`             | the same of `x > min(q)`                               |
//! | `SELECT x IN (q)`         | CASE of `array_has(array_agg(q), x)`, and the same     |
//! | `WHERE (x IN (q)) IS NULL`| CASE of `x IN (q)`, and the same                       |
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant SBQ-1: where only rows for which a
//! condition holds are asked for, `IN` and `NOT IN` stay as they are, for the planner joins them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, GroupByExpr, Ident, Query, Select, SelectItem,
    SetExpr, TableFactor, UnaryOperator, VisitMut, Visitor,
};
use lazybase_model::Result;

use super::{folded, outside_queries, row_lookups, unsupported};
use crate::text_places::of_template;
use crate::walk::{visit, visit_expressions, visit_expressions_mut};

/// The one column of a query, in what is asked about it.
const COLUMN: &str = "v";

/// Rewrites `op ANY` and `op ALL` of a query in what a SELECT gives.
///
/// # Errors
/// `Invalid` (0A000) for operators that are no comparison.
pub(super) fn in_list(select: &mut Select) -> Result<()> {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            outside_queries::try_rewrite(expr, quantified)?;
        }
    }
    Ok(())
}

/// Rewrites `op ANY` and `op ALL` of a query in a condition. One that names columns of the query
/// around it the planner knows better, as long as it can tell them apart from its own, and there
/// is no `IN` that means the same.
///
/// # Errors
/// As [`in_list`].
pub(super) fn in_condition(expr: &mut Expr) -> Result<()> {
    let of_planner = match &*expr {
        Expr::AnyOp { compare_op, .. } if *compare_op == BinaryOperator::Eq => false,
        Expr::AllOp { compare_op, .. } if *compare_op == BinaryOperator::NotEq => false,
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => {
            query_of(right).is_some_and(|query| is_about_rows_around(left, query))
        }
        _ => return Ok(()),
    };
    match of_planner {
        true => Ok(()),
        false => quantified(expr),
    }
}

/// Whether a query plainly names columns of a query around it, and what is compared with it none
/// that it could take for its own.
fn is_about_rows_around(left: &Expr, query: &Query) -> bool {
    let (mut of_left, mut inside) = (Names::default(), Names::default());
    let _ = visit(left, &mut of_left);
    let _ = visit(query, &mut inside);
    let clear = !of_left.unqualified && of_left.qualifiers.is_disjoint(&inside.tables);
    clear && !inside.qualifiers.is_subset(&inside.tables)
}

/// What a table is called that is read.
pub(super) fn called(factor: &TableFactor) -> Option<&Ident> {
    match factor {
        TableFactor::Table {
            name, alias: None, ..
        } => name.0.last().and_then(|part| part.as_ident()),
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.as_ref().map(|alias| &alias.name),
        _ => None,
    }
}

/// The names of tables and columns.
#[derive(Default)]
pub(super) struct Names {
    /// What tables are called that are read.
    pub(super) tables: BTreeSet<String>,
    /// The tables that columns are said to be of.
    pub(super) qualifiers: BTreeSet<String>,
    /// Whether there are columns of which it is not said.
    pub(super) unqualified: bool,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.tables.extend(called(factor).map(folded));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(_) => self.unqualified = true,
            Expr::CompoundIdentifier(parts) => {
                let table = parts.len().checked_sub(2).and_then(|at| parts.get(at));
                self.qualifiers.extend(table.map(folded));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn quantified(expr: &mut Expr) -> Result<()> {
    let (left, op, right, all) = match &*expr {
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } => (left, compare_op, right, false),
        Expr::AllOp {
            left,
            compare_op,
            right,
        } => (left, compare_op, right, true),
        _ => return Ok(()),
    };
    let Some(query) = query_of(right) else {
        return Ok(());
    };
    let rewritten = match (op, all) {
        (BinaryOperator::Eq, false) | (BinaryOperator::NotEq, true) => Some(Expr::InSubquery {
            expr: left.clone(),
            subquery: Box::new(query.clone()),
            negated: all,
        }),
        _ => holds(left, op, query, all).and_then(|holds| {
            let is_empty = about(query, "count(*) = 0")?;
            let has_null = about(query, HAS_NULL)?;
            let text = match all {
                true => {
                    "CASE WHEN is_empty THEN TRUE WHEN NOT holds THEN FALSE \
                     WHEN has_null THEN NULL ELSE holds END"
                }
                false => {
                    "CASE WHEN holds THEN TRUE WHEN has_null THEN NULL \
                     WHEN is_empty THEN FALSE ELSE holds END"
                }
            };
            let parts = [
                ("holds", holds),
                ("is_empty", is_empty),
                ("has_null", has_null),
            ];
            filled(text, &parts)
        }),
    };
    match rewritten {
        Some(rewritten) => *expr = rewritten,
        None => {
            let what = format!("{op} {} of a query", if all { "ALL" } else { "ANY" });
            return Err(unsupported(format!("{what} is not supported"))
                .with_hint("=, <>, <, <=, > and >= are; for others, write EXISTS (...)"));
        }
    }
    Ok(())
}

/// Whether a query has a row that is NULL.
const HAS_NULL: &str = "count(*) > count(v)";

fn query_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Nested(inner) => query_of(inner),
        Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

/// Whether a comparison holds with the row of a query that decides, NULLs left out.
fn holds(left: &Expr, op: &BinaryOperator, query: &Query, all: bool) -> Option<Expr> {
    use BinaryOperator as B;
    let with = |what: &str, op: &B| {
        Some(Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: op.clone(),
            right: Box::new(about(query, what)?),
        })
    };
    let both = |between: B| {
        let (left, right) = (with("min(v)", op)?, with("max(v)", op)?);
        let (left, right) = (Box::new(left), Box::new(right));
        let op = between;
        Some(nested(Expr::BinaryOp { left, op, right }))
    };
    let decides = match (op, all) {
        (B::Eq, true) => return both(B::And),
        (B::NotEq, false) => return both(B::Or),
        (B::Gt | B::GtEq, true) | (B::Lt | B::LtEq, false) => "max(v)",
        (B::Lt | B::LtEq, true) | (B::Gt | B::GtEq, false) => "min(v)",
        _ => return None,
    };
    with(decides, op).map(nested)
}

/// Rewrites `IN` of a query where a SELECT wants its value.
pub(super) fn as_values(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            value(expr, Place::List);
        }
    }
    for condition in select.selection.iter_mut().chain(&mut select.having) {
        holding(condition);
    }
}

/// Where a value stands, and so how the planner can look for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Among what a SELECT gives.
    List,
    /// In a condition.
    Condition,
}

/// A condition, of which only matters where it holds.
fn holding(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => holding(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            holding(left);
            holding(right);
        }
        Expr::InSubquery { .. } => looked_up(expr, true),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: inner,
        } => failing(inner),
        other => found(other),
    }
}

/// A condition, of which only matters where it fails.
fn failing(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => failing(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Or,
            right,
        } => {
            failing(left);
            failing(right);
        }
        Expr::InSubquery { .. } => looked_up(expr, false),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: inner,
        } => holding(inner),
        other => value(other, Place::Condition),
    }
}

/// An `IN` of a query of which only matters where it holds, or only where it fails.
fn looked_up(expr: &mut Expr, holds: bool) {
    if let Some(found) = row_lookups::found(expr, holds) {
        *expr = found;
    } else if let Expr::InSubquery { expr, .. } = expr {
        value(expr, Place::Condition);
    }
}

/// A condition beside others of which one is enough: the planner marks the rows that are found,
/// and not those of which nothing is known.
fn found(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => found(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And | BinaryOperator::Or,
            right,
        } => {
            found(left);
            found(right);
        }
        Expr::InSubquery { negated: false, .. } => looked_up(expr, true),
        other => value(other, Place::Condition),
    }
}

/// Rewrites each `IN` of a query in an expression, but in queries of its own.
fn value(expr: &mut Expr, place: Place) {
    outside_queries::rewrite(expr, |expr| {
        if let Some(value) = is_in(expr, place) {
            *expr = value;
        }
    });
}

/// Whether a value is one of a query's: NULL where that is not known.
fn is_in(expr: &Expr, place: Place) -> Option<Expr> {
    let Expr::InSubquery {
        expr: of,
        subquery,
        negated,
    } = expr
    else {
        return None;
    };
    if matches!(of.as_ref(), Expr::Tuple(_)) {
        return None;
    }
    let is_found = match place {
        Place::Condition => Expr::InSubquery {
            expr: of.clone(),
            subquery: subquery.clone(),
            negated: false,
        },
        Place::List => {
            let all = about(subquery, "array_agg(v)")?;
            filled(
                "array_has(held, x)",
                &[("held", all), ("x", nested(of.as_ref().clone()))],
            )?
        }
    };
    let text = "CASE WHEN is_found THEN TRUE WHEN is_empty THEN FALSE \
                WHEN x IS NULL OR has_null THEN NULL ELSE FALSE END";
    let parts = [
        ("is_found", is_found),
        ("is_empty", about(subquery, "count(*) = 0")?),
        ("has_null", about(subquery, HAS_NULL)?),
        ("x", nested(of.as_ref().clone())),
    ];
    let value = filled(text, &parts)?;
    Some(match *negated {
        true => Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(value),
        },
        false => value,
    })
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// An expression by its text, with others in the place of names.
fn filled(text: &str, parts: &[(&str, Expr)]) -> Option<Expr> {
    let parser = of_template(text);
    let mut expr = parser.ok()?.parse_expr().ok()?;
    fill(&mut expr, parts);
    Some(expr)
}

/// Puts expressions in the place of names. What was put in is not looked at.
fn fill(part: &mut impl VisitMut, parts: &[(&str, Expr)]) {
    let _ = visit_expressions_mut(part, |expr| {
        if let Expr::Identifier(name) = expr
            && let Some((_, put)) = parts.iter().find(|(known, _)| *known == name.value)
        {
            *expr = put.clone();
        }
        ControlFlow::<()>::Continue(())
    });
}

/// What an aggregate over the one column of a query gives, as a query in the place of a value.
fn about(query: &Query, what: &str) -> Option<Expr> {
    let text = format!("SELECT {what} FROM (SELECT 1) AS q ({COLUMN})");
    let parser = of_template(&text);
    let mut about = *parser.ok()?.parse_query().ok()?;
    let SetExpr::Select(select) = about.body.as_mut() else {
        return None;
    };
    if let Some((rows, column)) = plain(query) {
        fill(&mut select.projection, &[(COLUMN, nested(column))]);
        let projection = std::mem::take(&mut select.projection);
        let of_rows = Select { projection, ..rows };
        *about.body = SetExpr::Select(Box::new(of_rows));
        return Some(Expr::Subquery(Box::new(about)));
    }
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => **subquery = query.clone(),
        _ => return None,
    }
    Some(Expr::Subquery(Box::new(about)))
}

/// A query's rows and its column, if it gives one for each row that it reads: it may name columns
/// of the query around it, which the planner finds only there.
pub(super) fn plain(query: &Query) -> Option<(Select, Expr)> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [SelectItem::UnnamedExpr(column) | SelectItem::ExprWithAlias { expr: column, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let no_groups = matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    let each_row = query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && no_groups
        && select.having.is_none()
        && select.distinct.is_none()
        && select.qualify.is_none()
        && !select.from.is_empty();
    // An aggregate, or a function that makes rows, is not for each row.
    let computes = visit_expressions(column, |expr| match expr {
        Expr::Function(function) if !matches!(function.args, FunctionArguments::None) => {
            ControlFlow::Break(())
        }
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let is_plain = each_row && computes.is_continue();
    is_plain.then(|| (select.as_ref().clone(), column.clone()))
}

/// A name that is written out in a query that is made here.
pub(super) fn column() -> Ident {
    Ident::new(COLUMN)
}
