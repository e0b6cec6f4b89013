//! What follows from what the tables of `pg_catalog` never hold, done before the planner sees it,
//! which could not plan the rest.
//!
//! | written                                     | planned                               |
//! | ------------------------------------------- | ------------------------------------- |
//! | `CASE WHEN t.typtype = 'd' THEN x END`      | NULL: of types there are `b` and `p`  |
//! | `... WHERE contype = 'f'`                   | no rows: all constraints are keys     |
//! | `... WHERE indisprimary = 'f'`              | no rows: so are all indexes           |
//! | `ARRAY(SELECT ... FROM unnest(reloptions))` | an empty array: there are none        |
//! | the same of `pg_options_to_table`           | an empty array                        |
//! | `ARRAY(SELECT attname FROM unnest(conkey)`  | the names of the key's columns, by a  |
//! | `JOIN pg_attribute ...)`                    | function of the table's number        |
//! | `ARRAY(SELECT x FROM pg_...)`               | `(SELECT array_agg(x) FROM pg_...)`,  |
//! |                                             | an empty array where that is NULL     |
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant FCT-1: it is done only where all
//! tables are of `pg_catalog`, or for columns whose names only its tables have.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, OrderByKind, Query, Select,
    SelectItem, SetExpr, TableFactor, Value,
};

use super::functions::{BETWEEN_NAMES, KEY_COLUMNS};
use super::or_empty::OR_EMPTY;
use super::rewrite::{
    call, catalog_table, never_has_rows, null, parts, reads_catalog_only, relations,
};
use crate::parse::folded;
use crate::walk::visit_expressions_mut;

/// All values that are in columns of kinds.
const KINDS: [(&str, &[&str]); 3] = [
    ("typtype", &["b", "p"]),
    ("contype", &["p"]),
    (
        "indisprimary",
        &["t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"],
    ),
];

/// Columns that are NULL in every row.
const NEVER_SET: [&str; 4] = ["reloptions", "attoptions", "attfdwoptions", "spcoptions"];

/// Takes out of a SELECT over `pg_catalog` alone what never holds.
pub(super) fn fold(select: &mut Select) {
    let done: ControlFlow<()> = visit_expressions_mut(select, |expr| {
        if let Expr::Case {
            operand: None,
            conditions,
            else_result,
            ..
        } = expr
        {
            let first = conditions.first().map(|when| type_of(&when.result));
            conditions.retain(|when| !never_holds(&when.condition));
            if let (true, Some(data_type)) = (conditions.is_empty(), first) {
                let other = else_result.take().filter(|other| !is_null(other));
                *expr = other.map_or_else(|| cast(null(), data_type), |other| *other);
            }
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}

fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
        _ => None,
    }
}

/// Whether a condition asks for a kind of things that there is not.
pub(super) fn never_holds(condition: &Expr) -> bool {
    match condition {
        Expr::Nested(inner) => never_holds(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => never_holds(left) || never_holds(right),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } => {
            let kind = match right.as_ref() {
                Expr::Value(value) => value.clone().into_string(),
                _ => None,
            };
            let name = column_name(left);
            let known = KINDS
                .iter()
                .find(|(known, _)| name.as_deref() == Some(known));
            matches!((known, kind), (Some((_, kinds)), Some(kind)) if !kinds.contains(&&*kind))
        }
        _ => false,
    }
}

/// The type of what is never there: numbers of things, texts, and arrays of them.
fn type_of(expr: &Expr) -> DataType {
    match expr {
        Expr::Nested(inner) => type_of(inner),
        Expr::Cast { data_type, .. } => data_type.clone(),
        Expr::Subquery(query) => match first_item(query) {
            Some(expr) => type_of(expr),
            None => DataType::Text,
        },
        Expr::Function(function) if parts(&function.name) == ["array_agg"] => {
            let of = match first_argument(function).map_or(DataType::Text, type_of) {
                DataType::BigInt(_) => DataType::Custom(Ident::new("oid").into(), Vec::new()),
                other => other,
            };
            DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(of), None))
        }
        other => match column_name(other) {
            Some(name) if name.ends_with("id") => DataType::BigInt(None),
            _ => DataType::Text,
        },
    }
}

fn first_item(query: &Query) -> Option<&Expr> {
    match query.body.as_ref() {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        },
        _ => None,
    }
}

fn first_argument(function: &Function) -> Option<&Expr> {
    match &function.args {
        FunctionArguments::List(list) => list.args.first().and_then(unnamed),
        _ => None,
    }
}

fn unnamed(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// What `ARRAY(SELECT ...)` over tables of `pg_catalog` means.
pub(super) fn array_of(function: &Function) -> Option<Expr> {
    let FunctionArguments::Subquery(query) = &function.args else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let catalog_only = reads_catalog_only(select);
    if has_no_rows(select) || (catalog_only && never_has_rows(select)) {
        let item = Box::new(DataType::Text);
        let of_texts = DataType::Array(ArrayElemTypeDef::SquareBracket(item, None));
        return Some(cast(call("make_array", Vec::new()), of_texts));
    }
    let plain = query.limit_clause.is_none() && query.fetch.is_none() && query.with.is_none();
    if !catalog_only || !plain {
        return None;
    }
    if let Some(table) = key_of(select) {
        let between = Value::SingleQuotedString(BETWEEN_NAMES.to_owned());
        let names = call(KEY_COLUMNS, vec![table.clone()]);
        let names = call("string_to_array", vec![names, Expr::Value(between.into())]);
        return Some(call(OR_EMPTY, vec![names]));
    }
    let mut query = query.as_ref().clone();
    let order = query.order_by.take();
    if let SetExpr::Select(select) = query.body.as_mut()
        && let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
            select.projection.as_mut_slice()
    {
        let only = std::mem::replace(expr, null());
        *expr = gathered(only, order.map(|order| order.kind));
        // Around the query, for a join of the planner's may find no rows for it.
        return Some(call(OR_EMPTY, vec![Expr::Subquery(Box::new(query))]));
    }
    None
}

/// The number of the table whose key's columns a SELECT names: those of `attrelid = table` that
/// stand in `unnest(conkey)`.
fn key_of(select: &Select) -> Option<&Expr> {
    let [SelectItem::UnnamedExpr(item)] = select.projection.as_slice() else {
        return None;
    };
    let reads_columns =
        relations(select).any(|factor| catalog_table(factor).as_deref() == Some("pg_attribute"));
    let reads_key = relations(select).any(|factor| unnested(factor).as_deref() == Some("conkey"));
    let is_named = column_name(item).as_deref() == Some("attname");
    if !is_named || !reads_columns || !reads_key || relations(select).count() != 2 {
        return None;
    }
    let Some(Expr::BinaryOp {
        left,
        op: BinaryOperator::Eq,
        right,
    }) = &select.selection
    else {
        return None;
    };
    match (column_name(left)?.as_str(), column_name(right)?.as_str()) {
        ("attrelid", "conrelid") => Some(right.as_ref()),
        ("conrelid", "attrelid") => Some(left.as_ref()),
        _ => None,
    }
}

/// The column whose elements are rows of a FROM.
fn unnested(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.first().and_then(column_name),
        TableFactor::Table {
            name,
            args: Some(given),
            ..
        } if parts(name) == ["unnest"] => {
            let list = given.args.first().and_then(unnamed);
            list.and_then(column_name)
        }
        _ => None,
    }
}

/// `array_agg(item ORDER BY ...)`; a number there is the place of the item.
fn gathered(item: Expr, order: Option<OrderByKind>) -> Expr {
    let mut gathered = call("array_agg", vec![item.clone()]);
    if let Some(OrderByKind::Expressions(mut order)) = order
        && let Expr::Function(function) = &mut gathered
        && let FunctionArguments::List(list) = &mut function.args
    {
        for by in &mut order {
            if matches!(by.expr, Expr::Value(_)) {
                by.expr = item.clone();
            }
        }
        list.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
    gathered
}

/// Whether a SELECT is about elements of what is NULL in every row.
fn has_no_rows(select: &Select) -> bool {
    let never_set = |expr: Option<&Expr>| {
        let name = expr.and_then(column_name);
        name.is_some_and(|name| NEVER_SET.contains(&name.as_str()))
    };
    relations(select).any(|factor| match factor {
        TableFactor::UNNEST { array_exprs, .. } => never_set(array_exprs.first()),
        TableFactor::Table {
            name,
            args: Some(given),
            ..
        } => {
            let function = parts(name).pop().unwrap_or_default();
            matches!(function.as_str(), "unnest" | "pg_options_to_table")
                && never_set(given.args.first().and_then(unnamed))
        }
        _ => false,
    })
}
