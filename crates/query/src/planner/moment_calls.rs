//! Calls about moments that the planner lacks, or has otherwise, as calls of functions that are
//! there.
//!
//! | written                       | planned                                              |
//! | ----------------------------- | ---------------------------------------------------- |
//! | `x AT TIME ZONE z`            | `timezone(z, x)`                                     |
//! | `date_trunc(unit, x, z)`      | `timezone(z, date_trunc(unit, clocks_in(z, x)))`     |
//! | `age(x)`                      | `age(current_date(), x)`                             |
//! | `make_interval(days => 3)`    | `make_interval(0, 0, 0, 3, 0, 0, 0)`                 |
//! | `now()`, `to_timestamp(x)`    | the same as a TIMESTAMPTZ, in microseconds           |
//! | `localtimestamp`              | `now()` as a TIMESTAMP                               |
//! | `'today'::DATE`, `'now'::TIMESTAMP` | `current_date()`, `now()`, of that type        |
//! | `- INTERVAL '1 day 2 hours'`  | `- (INTERVAL '1 day 2 hours')`                       |
//!
//! Rewrites sqlparser's tree, behind what names the columns, and does nothing else.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, TimezoneInfo, UnaryOperator, Value, VisitMut,
};

use super::ages::MAKE_INTERVAL;
use super::time_zones::{CLOCKS_IN, TIMEZONE};
use crate::parse::folded;
use crate::pg_catalog::rewrite::call;
use crate::walk::visit_expressions_mut;

/// Functions that give moments of a zone in nanoseconds, which reach to the year 2262 alone.
const IN_NANOSECONDS: [&str; 6] = [
    "now",
    "current_timestamp",
    "transaction_timestamp",
    "statement_timestamp",
    "clock_timestamp",
    "to_timestamp",
];

/// Writes the calls.
pub(crate) fn rewrite(tree: &mut impl VisitMut) {
    let done: ControlFlow<()> = visit_expressions_mut(tree, |expr| {
        let planned = match expr {
            Expr::AtTimeZone {
                timestamp,
                time_zone,
            } => Some(call(TIMEZONE, vec![taken(time_zone), taken(timestamp)])),
            Expr::Function(function) => of_call(function),
            Expr::Cast {
                expr: named,
                data_type,
                ..
            } => match named.as_ref() {
                Expr::Value(value) => named_moment(&value.value, data_type),
                _ => None,
            },
            Expr::TypedString(typed) => named_moment(&typed.value.value, &typed.data_type),
            // Left to itself, the planner writes the sign before the text, for its first unit.
            Expr::UnaryOp {
                op: op @ UnaryOperator::Minus,
                expr: of,
            } if matches!(**of, Expr::Interval(_)) => Some(Expr::UnaryOp {
                op: *op,
                expr: Box::new(Expr::Nested(Box::new(taken(of)))),
            }),
            _ => None,
        };
        if let Some(planned) = planned {
            *expr = planned;
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

/// The moment that a word stands for where it is cast to one.
fn named_moment(word: &Value, data_type: &SqlType) -> Option<Expr> {
    let (Value::SingleQuotedString(word) | Value::EscapedStringLiteral(word)) = word else {
        return None;
    };
    if !matches!(data_type, SqlType::Date | SqlType::Timestamp(..)) {
        return None;
    }
    let day = |further: Option<BinaryOperator>| {
        let today = call("current_date", Vec::new());
        let one = Expr::Value(Value::Number("1".to_owned(), false).into());
        match further {
            Some(op) => Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(today),
                op,
                right: Box::new(one),
            })),
            None => today,
        }
    };
    let moment = match word.trim().to_ascii_lowercase().as_str() {
        "now" => call("now", Vec::new()),
        "today" => day(None),
        "tomorrow" => day(Some(BinaryOperator::Plus)),
        "yesterday" => day(Some(BinaryOperator::Minus)),
        "epoch" => Expr::Value(Value::SingleQuotedString("1970-01-01 00:00:00".to_owned()).into()),
        _ => return None,
    };
    Some(cast(moment, data_type.clone()))
}

fn cast(expr: Expr, data_type: SqlType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}

fn of_call(function: &Function) -> Option<Expr> {
    let [name] = function.name.0.as_slice() else {
        return None;
    };
    let name = folded(name.as_ident()?);
    let arguments = arguments(&function.args);
    match (name.as_str(), arguments.as_deref()) {
        (MAKE_INTERVAL, _) => interval(&function.args),
        ("localtimestamp", None) => Some(cast(
            call("now", Vec::new()),
            SqlType::Timestamp(Some(6), TimezoneInfo::None),
        )),
        ("current_time", None | Some([])) => Some(cast(
            Expr::Function(function.clone()),
            SqlType::Time(Some(6), TimezoneInfo::None),
        )),
        (name, _) if IN_NANOSECONDS.contains(&name) => Some(cast(
            Expr::Function(function.clone()),
            SqlType::Timestamp(Some(6), TimezoneInfo::Tz),
        )),
        ("age", Some([of])) => {
            let today = call("current_date", Vec::new());
            Some(call("age", vec![today, of.clone()]))
        }
        ("date_trunc", Some([unit, of, zone])) => {
            let clocks = call(CLOCKS_IN, vec![zone.clone(), of.clone()]);
            let cut = call("date_trunc", vec![unit.clone(), clocks]);
            Some(call(TIMEZONE, vec![zone.clone(), cut]))
        }
        _ => None,
    }
}

/// What the parts of an interval are called, in their order.
const PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

/// An interval of all of its parts; nothing where an argument is none of them, or one twice.
fn interval(all: &FunctionArguments) -> Option<Expr> {
    let FunctionArguments::List(list) = all else {
        return None;
    };
    let mut parts: [Option<Expr>; PARTS.len()] = Default::default();
    let place = |name: &Ident| {
        let name = folded(name);
        PARTS.iter().position(|part| *part == name)
    };
    for (at, argument) in list.args.iter().enumerate() {
        let (at, value) = match argument {
            FunctionArg::Unnamed(value) => (at, value),
            FunctionArg::Named { name, arg, .. } => (place(name)?, arg),
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg,
                ..
            } => (place(name)?, arg),
            FunctionArg::ExprNamed { .. } => return None,
        };
        let FunctionArgExpr::Expr(value) = value else {
            return None;
        };
        if parts.get_mut(at)?.replace(value.clone()).is_some() {
            return None;
        }
    }
    let none = || Expr::Value(Value::Number("0".to_owned(), false).into());
    let parts = parts.map(|part| part.unwrap_or_else(none));
    Some(call(MAKE_INTERVAL, parts.into()))
}

/// The arguments of a call, where there is a list of plain ones.
fn arguments(all: &FunctionArguments) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = all else {
        return None;
    };
    let plain = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}

fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}
