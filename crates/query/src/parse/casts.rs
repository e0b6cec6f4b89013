//! Casts to texts of a length, done as PostgreSQL does them: `CAST(x AS VARCHAR(3))` is x as text,
//! cut to three characters, and `x::CHAR` its first one. And casts of constants to decimals, which
//! keep all of their digits: `0.1::DECIMAL(20, 1)` and `1e20::NUMERIC` are casts of texts.
//!
//! Rewrites sqlparser's tree and does nothing else. The planner knows no lengths: left to it, the
//! cast would give the whole text (invariant PAR-1); and a constant with a point or an exponent is
//! a double to it, which has few digits, and fewer once it is multiplied for those behind the
//! point.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Statement, TypedString, UnaryOperator, Value,
};
use lazybase_model::Result;

use super::unsupported;
use crate::cast::without_exponent;
use crate::types;
use crate::walk::visit_expressions_mut;

/// The digits that an integer constant has at most.
const INTEGER_DIGITS: usize = 38;
/// The digits behind the point that Arrow reads for any decimal, be it to round them.
const READ_DIGITS: usize = 38;

/// Writes all casts of a statement to VARCHAR(n), and of constants to decimals, as what they mean.
///
/// # Errors
/// `Invalid`: 22023 for a length out of range, 0A000 for CHAR(n), which pads.
pub(super) fn cut(statement: &mut Statement) -> Result<()> {
    let cut = visit_expressions_mut(statement, |expr| match cut_here(expr) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    });
    match cut {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn cut_here(expr: &mut Expr) -> Result<()> {
    if let Expr::Cast {
        expr: cast,
        data_type: DataType::Decimal(_) | DataType::Dec(_) | DataType::Numeric(_),
        ..
    } = expr
        && let Some(text) = constant(cast).and_then(|number| exact_digits(&number))
    {
        **cast = Expr::Value(Value::SingleQuotedString(text).into());
    }
    let (Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) = expr
    else {
        return Ok(());
    };
    let single = matches!(data_type, DataType::Char(None) | DataType::Character(None));
    let characters = match single {
        true => Some(1),
        false => types::varying(data_type)?,
    };
    if let Some(characters) = characters {
        *data_type = DataType::Varchar(None);
        let whole = mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = left(whole, characters);
        return Ok(());
    }
    match is_lost(data_type) {
        true => Err(
            unsupported(format!("a cast to {data_type} is not supported"))
                .with_hint("cast to TEXT, or to VARCHAR(n), which cuts"),
        ),
        false => Ok(()),
    }
}

/// A number as it is written, with its sign.
fn constant(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => constant(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => constant(expr).map(|text| match text.strip_prefix('-') {
            Some(positive) => positive.to_owned(),
            None => format!("-{text}"),
        }),
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The digits of a number that the planner would take for a double.
fn exact_digits(number: &str) -> Option<String> {
    let plain = match number.contains(['e', 'E']) {
        true => without_exponent(number).filter(|plain| {
            let behind = plain.split_once('.').map_or("", |(_, behind)| behind);
            behind.len() <= READ_DIGITS
        })?,
        false => number.to_owned(),
    };
    let digits = plain.bytes().filter(u8::is_ascii_digit).count();
    let is_double = number.contains(['.', 'e', 'E']) || digits > INTEGER_DIGITS;
    is_double.then_some(plain)
}

/// Whether a type has a length that the planner would not see.
fn is_lost(sql: &DataType) -> bool {
    match sql {
        DataType::Character(Some(_))
        | DataType::Char(Some(_))
        | DataType::CharacterVarying(Some(_))
        | DataType::CharVarying(Some(_))
        | DataType::Varchar(Some(_))
        | DataType::Nvarchar(Some(_)) => true,
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => is_lost(element),
        _ => false,
    }
}

fn left(text: Expr, characters: u32) -> Expr {
    let count = Expr::Value(Value::Number(characters.to_string(), false).into());
    let unnamed = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("left")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![unnamed(text), unnamed(count)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
