//! Calls about moments that the planner lacks, or has otherwise, as calls of functions that are
//! there.
//!
//! | written                       | planned                                              |
//! | ----------------------------- | ---------------------------------------------------- |
//! | `x AT TIME ZONE z`            | `timezone(z, x)`                                     |
//! | `date_trunc(unit, x, z)`      | `timezone(z, date_trunc(unit, clocks_in(z, x)))`     |
//! | `age(x)`                      | `age(current_date(), x)`                             |
//! | `localtimestamp`              | `now()` as a TIMESTAMP                               |
//! | `- INTERVAL '1 day 2 hours'`  | `- (INTERVAL '1 day 2 hours')`                       |
//!
//! Rewrites sqlparser's tree, behind what names the columns, and does nothing else.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    TimezoneInfo, UnaryOperator, Value, VisitMut, visit_expressions_mut,
};

use super::time_zones::{CLOCKS_IN, TIMEZONE};
use crate::parse::folded;
use crate::pg_catalog::rewrite::call;

/// Writes the calls.
pub(crate) fn rewrite(tree: &mut impl VisitMut) {
    let done: ControlFlow<()> = visit_expressions_mut(tree, |expr| {
        let planned = match expr {
            Expr::AtTimeZone {
                timestamp,
                time_zone,
            } => Some(call(TIMEZONE, vec![taken(time_zone), taken(timestamp)])),
            Expr::Function(function) => of_call(function),
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

fn of_call(function: &Function) -> Option<Expr> {
    let [name] = function.name.0.as_slice() else {
        return None;
    };
    let name = folded(name.as_ident()?);
    let arguments = arguments(&function.args);
    match (name.as_str(), arguments.as_deref()) {
        ("localtimestamp", None) => Some(Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(call("now", Vec::new())),
            data_type: SqlType::Timestamp(Some(6), TimezoneInfo::None),
            array: false,
            format: None,
        }),
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
