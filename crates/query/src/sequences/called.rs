//! Calls of nextval in a statement's tree: the names that they give, and numbers in their place.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    UnaryOperator, Value,
};
use lazybase_model::{Error, Result};

use super::Numbers;
use super::functions::{NEXTVAL, SETVAL};
use crate::access::Gate;
use crate::parse::{CATALOG, SCHEMA, folded};
use crate::pg_catalog::schema_and_name;
use crate::temporary::{self, PG_TEMP};
use crate::walk::{visit_expressions, visit_expressions_mut};

/// The name that a text gives a sequence, as names are looked up.
///
/// # Errors
/// `NotFound` (3F000) for another schema.
pub(crate) fn name_of(text: &str) -> Result<String> {
    let (schema, name) = schema_and_name(text.trim());
    let of_catalog = format!("{CATALOG}.{SCHEMA}");
    match schema.as_deref() {
        None => Ok(name),
        Some(PG_TEMP) => Ok(temporary::of_session(&name)),
        Some(schema) if schema == SCHEMA || schema == of_catalog => Ok(name),
        Some(schema) => Err(Error::not_found(format!("there is no schema {schema:?}"))
            .with_hint("all sequences live in the schema public")
            .with_sqlstate("3F000")),
    }
}

/// The function that is called, without its schema.
pub(super) fn function_name(function: &Function) -> Option<String> {
    function.name.0.last()?.as_ident().map(folded)
}

/// The arguments of a call that are plain expressions.
pub(super) fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return Vec::new();
    };
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    arguments.collect::<Option<_>>().unwrap_or_default()
}

/// The text that a constant is, be it cast to `regclass`.
fn constant(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => value.clone().into_string(),
        Expr::Nested(inner) => constant(inner),
        Expr::Cast {
            expr, data_type, ..
        } if is_name_type(data_type) => constant(expr),
        _ => None,
    }
}

fn is_name_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Regclass | DataType::Text | DataType::Varchar(None) => true,
        DataType::Custom(name, _) => {
            let last = name.0.last().and_then(|part| part.as_ident()).map(folded);
            last.is_some_and(|name| name == "regclass" || name == "text")
        }
        _ => false,
    }
}

/// The name in a call of nextval, where a constant gives it.
pub(crate) fn next_of(expr: &Expr) -> Option<String> {
    let Expr::Function(function) = expr else {
        return None;
    };
    if function_name(function)? != NEXTVAL {
        return None;
    }
    match arguments(function).as_slice() {
        [name] => constant(name),
        _ => None,
    }
}

/// Whether an expression takes a number of a sequence, or sets one.
pub(crate) fn takes_numbers(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| {
        let called = match part {
            Expr::Function(function) => function_name(function),
            _ => None,
        };
        match called.is_some_and(|name| name == NEXTVAL || name == SETVAL) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// Takes off the casts to `regclass` of what functions of sequences are told to take numbers of:
/// they know names, and numbers of the catalogue too.
pub(crate) fn without_regclass(function: &mut Function) {
    let is_ours = function_name(function).is_some_and(|name| super::functions::is_name(&name));
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut() else {
        return;
    };
    if let Expr::Cast {
        expr, data_type, ..
    } = first
        && is_ours
        && is_name_type(data_type)
    {
        let inner = std::mem::replace(expr.as_mut(), Expr::Value(Value::Null.into()));
        *first = inner;
    }
}

/// Puts numbers in the place of calls of nextval in rows of VALUES, row by row, where a constant
/// names the sequence; tells of each place of a row whether it has taken any.
///
/// # Errors
/// As [`Numbers::next`]; `Invalid` (42501) where no numbers of the sequence may be taken.
pub(crate) async fn take(
    numbers: &Numbers,
    gate: &Gate,
    rows: &mut [Vec<Expr>],
) -> Result<Vec<bool>> {
    let width = rows.first().map_or(0, Vec::len);
    let mut taking = vec![false; width];
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for cells in rows.iter() {
        for (at, cell) in cells.iter().enumerate() {
            let done: ControlFlow<()> = visit_expressions(cell, |part| {
                if let Some(name) = next_of(part) {
                    *wanted.entry(name).or_default() += 1;
                    if let Some(taking) = taking.get_mut(at) {
                        *taking = true;
                    }
                }
                ControlFlow::Continue(())
            });
            debug_assert!(done.is_continue(), "nothing ends the visit");
        }
    }
    let mut taken: BTreeMap<String, VecDeque<i64>> = BTreeMap::new();
    for (name, count) in wanted {
        let seen = numbers.named(&name)?;
        gate.take_numbers(&seen.sequence)?;
        let next = numbers.next(seen.sequence.id, count).await?;
        taken.insert(name, next.into());
    }
    if taken.is_empty() {
        return Ok(taking);
    }
    for cell in rows.iter_mut().flatten() {
        let whole = next_of(cell).and_then(|name| taken.get_mut(&name)?.pop_front());
        if let Some(number) = whole {
            *cell = written(number);
            continue;
        }
        let done: ControlFlow<()> = visit_expressions_mut(cell, |part| {
            let number = next_of(part).and_then(|name| taken.get_mut(&name)?.pop_front());
            if let Some(number) = number {
                *part = bigint(number);
            }
            ControlFlow::Continue(())
        });
        debug_assert!(done.is_continue(), "nothing ends the visit");
    }
    Ok(taking)
}

/// A number as a cell of its own: it goes to its column as any that is written.
fn written(number: i64) -> Expr {
    let digits = Value::Number(number.unsigned_abs().to_string(), false);
    let digits = Expr::Value(digits.into());
    match number < 0 {
        false => digits,
        true => Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(digits),
        },
    }
}

/// A number inside of an expression, of type BIGINT.
fn bigint(number: i64) -> Expr {
    let text = Value::SingleQuotedString(number.to_string());
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(text.into())),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    }
}

/// A call of nextval of a sequence, as catalogues and definitions say it.
pub(crate) fn next_call(name: &str) -> String {
    let name = crate::definition::identifier(name);
    format!("nextval({}::regclass)", crate::definition::text(&name))
}
