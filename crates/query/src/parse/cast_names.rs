//! Aggregates and groups that differ in a cast alone: to the planner a cast has no name of its own,
//! so that it takes both for one and refuses the second.
//!
//! | written                            | read                                            |
//! | ---------------------------------- | ----------------------------------------------- |
//! | `SELECT sum(n), sum(n::NUMERIC)`   | `SELECT sum(n), sum(coalesce(n::NUMERIC))`      |
//! | `SELECT sum(1), sum(1::INT)`       | `SELECT sum(1), sum(coalesce(1::INT))`          |
//! | `GROUP BY at, at::DATE`            | `GROUP BY at, coalesce(at::DATE)`               |
//!
//! `coalesce` of one value is that value, and gone before a query runs. Rewrites sqlparser's tree
//! and does nothing else. Invariant CNM-1: a SELECT without such a pair stays as it is.

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, OrderBy,
    OrderByKind, Query, Select, SelectItem, SetExpr, Value,
};

use super::kept_names::keep;
use super::{folded, outside_queries};
use crate::pg_catalog::rewrite::call;
use crate::planner::column_names;
use crate::walk::visit_expressions;

/// Aggregates of one value, whatever that is.
const OF_ONE_VALUE: [&str; 6] = ["array_agg", "avg", "count", "max", "min", "sum"];

/// Rewrites the SELECTs of a query.
pub(super) fn in_query(query: &mut Query) {
    each_select(&mut query.body, &mut query.order_by);
}

fn each_select(body: &mut SetExpr, order: &mut Option<OrderBy>) {
    match body {
        SetExpr::Select(select) => in_select(select, order),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left, &mut None);
            each_select(right, &mut None);
        }
        _ => {}
    }
}

fn in_select(select: &mut Select, order: &mut Option<OrderBy>) {
    if !are_mistaken(select) {
        return;
    }
    let mut types: Vec<String> = Vec::new();
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = column_names::of(expr);
                name_casts(expr, &mut types);
                keep(item, name);
            }
            SelectItem::ExprWithAlias { expr, .. } => name_casts(expr, &mut types),
            _ => {}
        }
    }
    if let GroupByExpr::Expressions(all, _) = &mut select.group_by {
        all.iter_mut().for_each(|expr| name_casts(expr, &mut types));
    }
    if let Some(having) = &mut select.having {
        name_casts(having, &mut types);
    }
    if let Some(order) = order
        && let OrderByKind::Expressions(all) = &mut order.kind
    {
        let all = all.iter_mut().map(|ordered| &mut ordered.expr);
        all.for_each(|expr| name_casts(expr, &mut types));
    }
}

/// Whether two aggregates, or groups, have one name.
fn are_mistaken(select: &Select) -> bool {
    let items = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let groups: &[Expr] = match &select.group_by {
        GroupByExpr::Expressions(all, _) => all,
        GroupByExpr::All(_) => &[],
    };
    let mut written: HashMap<String, String> = HashMap::new();
    let mut is_other = |expr: &Expr| {
        let text = expr.to_string();
        let known = written.entry(without_casts(expr)).or_insert(text.clone());
        *known != text
    };
    if groups.iter().any(&mut is_other) {
        return true;
    }
    items.chain(&select.having).any(|expr| {
        let found = visit_expressions(expr, |part| match part {
            Expr::Function(_) if is_other(part) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    })
}

/// An expression as the planner names it.
fn without_casts(expr: &Expr) -> String {
    let mut bare = expr.clone();
    outside_queries::rewrite(&mut bare, |part| {
        if let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = part {
            *part = mem::replace(inner, Expr::Value(Value::Null.into()));
        }
    });
    bare.to_string()
}

/// Makes a name of each cast of something that is no constant, and of constants in aggregates of
/// one value: others have to know at once which constant they are given.
fn name_casts(expr: &mut Expr, types: &mut Vec<String>) {
    outside_queries::rewrite(expr, |part| match is_of_constant(part) {
        Some(true) => {}
        Some(false) => name_cast(part, types),
        None => {
            if let Expr::Function(function) = part
                && let Some(argument) = only_argument(function)
                && is_of_constant(argument) == Some(true)
            {
                name_cast(argument, types);
            }
        }
    });
}

/// Whether a cast is one of a constant; `None` for what is no cast.
fn is_of_constant(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Cast { expr: inner, .. } => Some(matches!(**inner, Expr::Value(_))),
        _ => None,
    }
}

/// The argument of an aggregate of one value.
fn only_argument(function: &mut Function) -> Option<&mut Expr> {
    let name = function.name.0.last()?.as_ident().map(folded)?;
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))]
            if OF_ONE_VALUE.contains(&name.as_str()) =>
        {
            Some(argument)
        }
        _ => None,
    }
}

/// Makes a name of a cast: by its type, as many calls as there were types before it, and one.
fn name_cast(cast: &mut Expr, types: &mut Vec<String>) {
    let Expr::Cast { data_type, .. } = &*cast else {
        return;
    };
    let name = data_type.to_string();
    let place = types.iter().position(|known| *known == name);
    let place = place.unwrap_or_else(|| {
        types.push(name);
        types.len() - 1
    });
    for _ in 0..=place {
        let inner = mem::replace(cast, Expr::Value(Value::Null.into()));
        *cast = call("coalesce", vec![inner]);
    }
}
