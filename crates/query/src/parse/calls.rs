//! Functions of PostgreSQL that are operators and casts under other names.
//!
//! | written     | read                                     |
//! | ----------- | ---------------------------------------- |
//! | `mod(a, b)` | `a % b`                                  |
//! | `div(a, b)` | `((a - a % b) / b)::DECIMAL(38, 0)`      |
//! | `date(x)`   | `x::DATE`                                |
//!
//! Rewrites sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments,
};

use super::folded;

/// Rewrites a call of one of them.
pub(super) fn rewrite(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    let Some((name, arguments)) = plain(function) else {
        return;
    };
    let rewritten = match (name.as_str(), arguments.as_slice()) {
        ("mod", [a, b]) => nested(binary(a, BinaryOperator::Modulo, b)),
        ("div", [a, b]) => {
            let left = nested(binary(a, BinaryOperator::Modulo, b));
            let whole = nested(binary(a, BinaryOperator::Minus, &left));
            let quotient = nested(binary(&whole, BinaryOperator::Divide, b));
            let type_of_it = DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0));
            cast(quotient, type_of_it)
        }
        ("date", [x]) => cast(x.clone(), DataType::Date),
        _ => return,
    };
    *expr = rewritten;
}

/// The name and the arguments of a plain call.
fn plain(function: &Function) -> Option<(String, Vec<Expr>)> {
    let [name] = function.name.0.as_slice() else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    if function.over.is_some() || function.filter.is_some() || !list.clauses.is_empty() {
        return None;
    }
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(nested(expr.clone())),
        _ => None,
    };
    let arguments = list.args.iter().map(argument).collect::<Option<_>>()?;
    Some((folded(name.as_ident()?), arguments))
}

fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Nested(_) => {
            expr
        }
        other => Expr::Nested(Box::new(other)),
    }
}

fn binary(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left.clone()),
        op,
        right: Box::new(right.clone()),
    }
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}
