//! Parameters of a statement: `$1`, `$2`, found and replaced by the values given.
//!
//! Reads and writes sqlparser's trees; no I/O. Invariant PRM-1: a value never becomes text that
//! is read again: it goes into the tree as a constant.

use std::ops::ControlFlow;

use arrow::datatypes::{DataType as Stored, TimeUnit};
use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr,
    FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, Query, Statement, TimezoneInfo,
    TypedString, UnaryOperator, Value as Constant,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use lazybase_model::{Error, Result};

use super::folded;
use crate::advisory::functions::PREFIXES;
use crate::hex::put_hex;
use crate::moments::spelt_interval;
use crate::planner::json_functions::is_json_text;
use crate::sleep::PG_SLEEP;
use crate::text_places::at_span;
use crate::value::Value;
use crate::walk::{visit_expressions, visit_expressions_mut};

/// The most parameters that a statement may have, as with PostgreSQL.
const PARAMETERS_MAX: usize = 65_535;

/// The number of the parameter that an expression is, counted from 1; `None` for anything else.
pub(crate) fn number_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Constant::Placeholder(name) => name
                .strip_prefix('$')?
                .parse()
                .ok()
                .filter(|number| (1..=PARAMETERS_MAX).contains(number)),
            _ => None,
        },
        _ => None,
    }
}

/// How many values a statement needs: the highest of its parameters' numbers.
///
/// # Errors
/// `Invalid` (42P02) for a parameter that is not written `$1`, `$2`, ...
pub(crate) fn count(statement: &Statement) -> Result<usize> {
    let mut most = 0;
    let found = visit_expressions(statement, |expr| match number_of(expr) {
        Some(number) => {
            most = most.max(number);
            ControlFlow::Continue(())
        }
        None => match expr {
            Expr::Value(value) => match &value.value {
                Constant::Placeholder(name) => ControlFlow::Break((name.clone(), value.span)),
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        },
    });
    match found {
        ControlFlow::Continue(()) => Ok(most),
        ControlFlow::Break((name, span)) => {
            let error = Error::invalid(format!("{name} is not a parameter"))
                .with_hint("parameters are written $1, $2, ...")
                .with_sqlstate("42P02");
            Err(at_span(error, span))
        }
    }
}

/// Where the first parameter of a statement stands in its text.
pub(crate) fn first(statement: &Statement) -> Span {
    let mut spans = Vec::new();
    let visited: ControlFlow<()> = visit_expressions(statement, |expr| {
        if let Expr::Value(value) = expr
            && number_of(expr).is_some()
        {
            spans.push(value.span);
        }
        ControlFlow::Continue(())
    });
    debug_assert!(visited.is_continue(), "nothing ends the visit");
    let first = spans.into_iter().min_by_key(|span| span.start);
    first.unwrap_or_else(Span::empty)
}

/// Puts values in the places of the parameters; there must be one for each.
pub(crate) fn bind(statement: &mut Statement, values: &[Value]) {
    let bound: ControlFlow<()> = visit_expressions_mut(statement, |expr| {
        if let Some(value) = number_of(expr).and_then(|number| values.get(number - 1)) {
            *expr = constant(value);
        }
        ControlFlow::Continue(())
    });
    debug_assert!(bound.is_continue(), "nothing ends the visit");
}

/// A value as SQL would write it.
fn constant(value: &Value) -> Expr {
    match value {
        Value::Null => of(Constant::Null),
        Value::Bool(value) => of(Constant::Boolean(*value)),
        Value::Int(value) => number(&value.to_string()),
        Value::UInt(value) => number(&value.to_string()),
        Value::Decimal(text) => decimal(text),
        Value::Float(value) if value.is_finite() => number(&format!("{value:?}")),
        Value::Float(value) => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(of(Constant::SingleQuotedString(value.to_string()))),
            data_type: DataType::Double(ExactNumberInfo::None),
            array: false,
            format: None,
        },
        Value::Text(text) => of(Constant::SingleQuotedString(text.clone())),
        Value::Json(text) => spelt_as(DataType::JSON, text.clone()),
        Value::Bytes(bytes) => {
            let mut digits = String::with_capacity(2 * bytes.len());
            put_hex(bytes, &mut digits);
            of(Constant::HexStringLiteral(digits))
        }
        Value::Typed(data_type, text) => typed(data_type, text),
        Value::List(values) => Expr::Array(Array {
            elem: values.iter().map(element).collect(),
            named: true,
        }),
    }
}

/// An element of a list, of which nothing says that it is JSON; a text that is none is refused by
/// the planner.
fn element(value: &Value) -> Expr {
    match value {
        Value::Json(text) if is_json_text(text) => of(Constant::SingleQuotedString(text.clone())),
        value => constant(value),
    }
}

/// The most digits that a decimal number of SQL has.
const DECIMAL_DIGITS_MAX: usize = 76;

/// A decimal number with all of its digits: a plain number in SQL's text, with a point or long,
/// would be a floating-point number.
fn decimal(text: &str) -> Expr {
    let plain = text.trim_start_matches('-');
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let precision = (whole.len() + fraction.len()).max(1);
    if text.parse::<i64>().is_ok() || precision > DECIMAL_DIGITS_MAX {
        return number(text);
    }
    let (precision, scale) = (precision as u64, fraction.len() as i64);
    let data_type = DataType::Decimal(ExactNumberInfo::PrecisionAndScale(precision, scale));
    spelt_as(data_type, text.to_owned())
}

/// A text as a constant of a type: `TIMESTAMP '...'`.
fn typed(data_type: &Stored, text: &str) -> Expr {
    let spelt = match data_type {
        Stored::Interval(_) => spelt_interval(text),
        _ => None,
    };
    let text = spelt.unwrap_or_else(|| text.to_owned());
    match sql_name(data_type) {
        Some(data_type) => spelt_as(data_type, text),
        None => of(Constant::SingleQuotedString(text)),
    }
}

/// A text as a constant of an SQL type.
fn spelt_as(data_type: DataType, text: String) -> Expr {
    Expr::TypedString(TypedString {
        data_type,
        value: Constant::SingleQuotedString(text).into(),
        uses_odbc_syntax: false,
    })
}

/// NULL of a type; plain where SQL has no short name for it.
pub(crate) fn null_of(data_type: &Stored) -> Expr {
    sql_name(data_type).map_or_else(|| of(Constant::Null), null_as)
}

/// NULL of an SQL type.
fn null_as(data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(of(Constant::Null)),
        data_type,
        array: false,
        format: None,
    }
}

/// The SQL type that a constant of a stored type is written with.
pub(crate) fn sql_name(data_type: &Stored) -> Option<DataType> {
    let digits = |unit: &TimeUnit| {
        Some(match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        })
    };
    Some(match data_type {
        Stored::Boolean => DataType::Boolean,
        Stored::Int16 => DataType::SmallInt(None),
        Stored::Int32 => DataType::Int(None),
        Stored::Int64 => DataType::BigInt(None),
        Stored::Float32 => DataType::Real,
        Stored::Float64 => DataType::Double(ExactNumberInfo::None),
        Stored::Decimal128(precision, scale) | Stored::Decimal256(precision, scale) => {
            let (precision, scale) = (u64::from(*precision), i64::from(*scale));
            DataType::Decimal(ExactNumberInfo::PrecisionAndScale(precision, scale))
        }
        Stored::Utf8 => DataType::Text,
        Stored::Binary => DataType::Bytea,
        Stored::Date32 => DataType::Date,
        Stored::Time64(_) => DataType::Time(None, TimezoneInfo::None),
        Stored::Timestamp(unit, None) => DataType::Timestamp(digits(unit), TimezoneInfo::None),
        Stored::Timestamp(unit, Some(_)) => {
            DataType::Timestamp(digits(unit), TimezoneInfo::WithTimeZone)
        }
        Stored::Interval(_) => DataType::Interval {
            fields: None,
            precision: None,
        },
        Stored::List(item) => DataType::Array(ArrayElemTypeDef::SquareBracket(
            Box::new(sql_name(item.data_type())?),
            None,
        )),
        _ => return None,
    })
}

/// Puts a NULL of its type in the place of each parameter, for a look at what the statement gives;
/// `json` says of each whether its texts are JSON.
pub(crate) fn bind_nulls(statement: &mut Statement, types: &[Option<Stored>], json: &[bool]) {
    let bound: ControlFlow<()> = visit_expressions_mut(statement, |expr| {
        if let Some(at) = number_of(expr).map(|number| number - 1)
            && let Some(data_type) = types.get(at)
        {
            *expr = match json.get(at) {
                Some(true) => null_as(DataType::JSON),
                _ => null_of(data_type.as_ref().unwrap_or(&Stored::Utf8)),
            };
        }
        ControlFlow::Continue(())
    });
    debug_assert!(bound.is_continue(), "nothing ends the visit");
}

/// The parameters in the place of lists (`x = ANY($1)`), with the name of what is compared.
pub(crate) fn lists(statement: &Statement) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let visited: ControlFlow<()> = visit_expressions(statement, |expr| {
        if let Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } = expr
            && let Some(number) = number_of(right)
        {
            found.push((number, column_name(left).unwrap_or_default()));
        }
        ControlFlow::Continue(())
    });
    debug_assert!(visited.is_continue(), "nothing ends the visit");
    found
}

/// The parameters that are compared with columns (`u = $1`, `u IN ($1, $2)`), with their names.
pub(crate) fn compared(statement: &Statement) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let visited: ControlFlow<()> = visit_expressions(statement, |expr| {
        match expr {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                found.extend(number_of(right).zip(column_name(left)));
                found.extend(number_of(left).zip(column_name(right)));
            }
            Expr::InList { expr, list, .. } => {
                let numbers = list.iter().filter_map(number_of);
                found.extend(numbers.filter_map(|number| Some((number, column_name(expr)?))));
            }
            Expr::Between {
                expr, low, high, ..
            } => {
                let numbers = [low, high].into_iter().filter_map(|end| number_of(end));
                found.extend(numbers.filter_map(|number| Some((number, column_name(expr)?))));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    debug_assert!(visited.is_continue(), "nothing ends the visit");
    found
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(op, B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq)
}

fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
        _ => None,
    }
}

/// The parameters that are cast where they stand (`$1::INT[]`), with the type: that of the value
/// which is to be given, as with PostgreSQL.
pub(crate) fn cast(statement: &Statement) -> Vec<(usize, DataType)> {
    let mut found = Vec::new();
    let visited: ControlFlow<()> = visit_expressions(statement, |expr| {
        if let Expr::Cast {
            expr, data_type, ..
        } = expr
            && let Some(number) = number_of(expr)
        {
            found.push((number, data_type.clone()));
        }
        ControlFlow::Continue(())
    });
    debug_assert!(visited.is_continue(), "nothing ends the visit");
    found
}

/// The parameters of calls whose names tell their types: those that name advisory locks, and
/// those that say which row of a window is meant.
pub(crate) fn in_calls(statement: &Statement) -> Vec<(usize, Stored)> {
    let mut found = Vec::new();
    let visited: ControlFlow<()> = visit_expressions(statement, |expr| {
        if let Expr::Function(function) = expr
            && let Some(name) = function.name.0.last().and_then(|part| part.as_ident())
            && let FunctionArguments::List(list) = &function.args
        {
            let (name, count) = (folded(name), list.args.len());
            let numbers = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => number_of(expr),
                _ => None,
            });
            let typed = numbers.enumerate().filter_map(|(at, number)| {
                let data_type = type_of_argument(&name, at, count)?;
                Some((number?, data_type))
            });
            found.extend(typed);
        }
        ControlFlow::Continue(())
    });
    debug_assert!(visited.is_continue(), "nothing ends the visit");
    found
}

/// The type of an argument by its place in a call of so many: an advisory lock is a BIGINT, or
/// two INTs, and how long is waited a number of seconds.
fn type_of_argument(function: &str, at: usize, count: usize) -> Option<Stored> {
    let is_lock = PREFIXES.iter().any(|prefix| function.starts_with(prefix));
    match (function, at) {
        _ if is_lock && count == 1 => Some(Stored::Int64),
        _ if is_lock => Some(Stored::Int32),
        ("lag" | "lead" | "nth_value", 1) | ("ntile", 0) => Some(Stored::Int32),
        (PG_SLEEP, 0) => Some(Stored::Float64),
        _ => None,
    }
}

/// The numbers of the parameters that say how many rows a query gives, or leaves out.
pub(crate) fn in_limit(query: &Query) -> Vec<usize> {
    let (limit, offset) = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        None => (None, None),
    };
    let fetch = query
        .fetch
        .as_ref()
        .and_then(|fetch| fetch.quantity.as_ref());
    let found = [limit, offset, fetch].into_iter().flatten();
    found.filter_map(number_of).collect()
}

fn number(text: &str) -> Expr {
    let plain = |text: &str| of(Constant::Number(text.to_owned(), false));
    match text.strip_prefix('-') {
        None => plain(text),
        Some(text) => Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(plain(text)),
        })),
    }
}

fn of(constant: Constant) -> Expr {
    Expr::Value(constant.into())
}
