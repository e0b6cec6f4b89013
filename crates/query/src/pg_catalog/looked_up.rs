//! Queries of one value that tools ask for each column: its default, and what its sequence is like.
//! Each is known by the tables that it reads. Pure.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Select,
    SelectItem,
};

use super::functions::SERIAL_SEQUENCE;
use super::rewrite::{catalog_table, parts, relations};
use crate::parse::folded;
use crate::walk::visit_expressions;

/// The table and the column whose sequence a query describes as one JSON object: that of
/// `pg_sequence` which `pg_get_serial_sequence` names.
pub(super) fn identity_of(select: &Select) -> Option<(Expr, Expr)> {
    let mut from = relations(select);
    let only = from.all(|factor| catalog_table(factor).as_deref() == Some("pg_sequence"));
    let is_object = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias {
            expr: Expr::Function(function),
            ..
        } => parts(&function.name)
            .last()
            .is_some_and(|name| name == "json_build_object"),
        _ => false,
    };
    if !only || !matches!(select.projection.as_slice(), [item] if is_object(item)) {
        return None;
    }
    let found = visit_expressions(select.selection.as_ref()?, |expr| match expr {
        Expr::Function(function)
            if parts(&function.name).last().map(String::as_str) == Some(SERIAL_SEQUENCE) =>
        {
            ControlFlow::Break(plain_arguments(function))
        }
        _ => ControlFlow::Continue(()),
    });
    match found.break_value()?.as_slice() {
        [table, column] => Some((table.clone(), column.clone())),
        _ => None,
    }
}

/// The arguments of a call that are plain expressions.
fn plain_arguments(function: &Function) -> Vec<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return Vec::new();
    };
    let arguments = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    arguments.collect()
}

/// The table and the column whose default a query looks up in `pg_attrdef`.
pub(super) fn default_of(select: &Select) -> Option<(Expr, Expr)> {
    let only =
        relations(select).all(|factor| catalog_table(factor).as_deref() == Some("pg_attrdef"));
    let mut conditions = vec![select.selection.as_ref().filter(|_| only)?];
    let (mut table, mut column) = (None, None);
    let name = |expr: &Expr| match expr {
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded).unwrap_or_default(),
        _ => String::new(),
    };
    while let Some(condition) = conditions.pop() {
        match condition {
            Expr::Nested(inner) => conditions.push(inner),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => conditions.extend([left.as_ref(), right.as_ref()]),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq,
                right,
            } => {
                let (known, other) = match name(left).starts_with("ad") {
                    true => (name(left), right),
                    false => (name(right), left),
                };
                match known.as_str() {
                    "adrelid" => table = Some(other.as_ref().clone()),
                    "adnum" => column = Some(other.as_ref().clone()),
                    _ => return None,
                }
            }
            // It says that there is a row, and nothing more.
            other if name(other) == "atthasdef" => {}
            _ => return None,
        }
    }
    Some((table?, column?))
}
