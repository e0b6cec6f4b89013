//! Functions and operators of PostgreSQL that are others' names, or made of others.
//!
//! | written     | read                                     |
//! | ----------- | ---------------------------------------- |
//! | `mod(a, b)` | `a % b`                                  |
//! | `div(a, b)` | `((a - a % b) / b)::DECIMAL(38, 0)`      |
//! | `date(x)`   | `x::DATE`                                |
//! | `~a`, `a && b` | `-1 - a`, `array_has_any(a, b)`       |
//! | `isfinite(x)`   | true: no moment is infinite            |
//! | `array_dims(a)` | `[1:2][1:3]` of `list_dims(a)`       |
//! | `array_lower(a, n)` | 1 where the array is not empty   |
//! | `array_upper(a, n)` | `array_length(a, n)`             |
//! | `trim_array(a, n)`  | `a[1:array_length(a, 1) - n]`    |
//! | `a LIKE ANY (ARRAY[p, q])` | `a LIKE p OR a LIKE q`; AND for ALL |
//! | `a BETWEEN SYMMETRIC b AND c` | between them, or between `c` and `b` |
//! | `regexp_split_to_table(x, p)` | `unnest(regexp_split_to_array(x, p))` |
//! | `regexp_matches(x, p, f)` | `unnest(regexp_all_matches(x, p, f))` |
//! | `string_to_table(x, s)` | `unnest(string_to_array(x, s))` |
//! | `num_nulls(a, b)`   | how many of them `IS NULL`       |
//! | `nextval('s'::REGCLASS)` | `nextval('s')`; so of all functions of sequences |
//!
//! Rewrites sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, UnaryOperator, Value,
};

use super::folded;
use crate::pg_catalog::rewrite::call;
use crate::pg_catalog::vectors::is_vector;
use crate::planner::patterns::ALL_MATCHES;
use crate::sequences::called::without_regclass;

/// Rewrites a call of one of them, in a statement that may be about the catalogue.
pub(super) fn rewrite(expr: &mut Expr, of_catalog: bool) {
    operator(expr);
    let Expr::Function(function) = expr else {
        return;
    };
    without_regclass(function);
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
        ("array_lower", [array, dimension]) => {
            let length = call("array_length", vec![array.clone(), dimension.clone()]);
            let first = if of_catalog && is_vector(array) { 0 } else { 1 };
            case(Expr::IsNotNull(Box::new(length)), number(first), None)
        }
        ("array_upper", [array, dimension]) => {
            let length = call("array_length", vec![array.clone(), dimension.clone()]);
            match of_catalog && is_vector(array) {
                true => nested(binary(&length, BinaryOperator::Minus, &number(1))),
                false => length,
            }
        }
        ("isfinite", [moment]) => {
            let truth = Expr::Value(Value::Boolean(true).into());
            case(Expr::IsNotNull(Box::new(moment.clone())), truth, None)
        }
        ("array_dims", [array]) => {
            let length = call("array_length", vec![array.clone(), number(1)]);
            let lengths = call("list_dims", vec![array.clone()]);
            let inner = call("array_to_string", vec![lengths, text("][1:")]);
            let begun = binary(&text("[1:"), BinaryOperator::StringConcat, &inner);
            let whole = binary(&begun, BinaryOperator::StringConcat, &text("]"));
            case(Expr::IsNotNull(Box::new(length)), whole, None)
        }
        ("trim_array", [array, count]) => {
            let length = call("cardinality", vec![array.clone()]);
            let length = cast(length, DataType::BigInt(None));
            let last = binary(&length, BinaryOperator::Minus, count);
            call("array_slice", vec![array.clone(), number(1), last])
        }
        ("regexp_split_to_table", arguments) => {
            let parts = call("regexp_split_to_array", arguments.to_vec());
            call("unnest", vec![parts])
        }
        ("regexp_matches", arguments) => {
            call("unnest", vec![call(ALL_MATCHES, arguments.to_vec())])
        }
        ("string_to_table", arguments) => {
            call("unnest", vec![call("string_to_array", arguments.to_vec())])
        }
        ("num_nulls" | "num_nonnulls", [first, others @ ..]) => {
            let counted = |expr: &Expr| {
                let (null, value) = match name.as_str() {
                    "num_nulls" => (1, 0),
                    _ => (0, 1),
                };
                let is_null = Expr::IsNull(Box::new(expr.clone()));
                case(is_null, number(null), Some(number(value)))
            };
            let sum = others.iter().fold(counted(first), |sum, other| {
                binary(&sum, BinaryOperator::Plus, &counted(other))
            });
            cast(nested(sum), DataType::Int(None))
        }
        _ => return,
    };
    *expr = rewritten;
}

/// Rewrites an operator that the planner does not have.
fn operator(expr: &mut Expr) {
    *expr = match expr {
        Expr::UnaryOp {
            op: UnaryOperator::BitwiseNot,
            expr: inner,
        } => {
            let inner = nested(inner.as_ref().clone());
            nested(binary(&nested(number(-1)), BinaryOperator::Minus, &inner))
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::PGOverlap,
            right,
        } => {
            let arguments = vec![left.as_ref().clone(), right.as_ref().clone()];
            call("array_has_any", arguments)
        }
        Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } => match any_pattern(expr) {
            Some(found) => found,
            None => return,
        },
        Expr::Between {
            expr: value,
            negated,
            low,
            high,
        } => match low.as_ref() {
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: low,
            } => symmetric(value, *negated, low, high),
            _ => return,
        },
        _ => return,
    };
}

/// A value between two others, whichever of them is the greater.
fn symmetric(value: &Expr, negated: bool, first: &Expr, second: &Expr) -> Expr {
    let between = |low: &Expr, high: &Expr| Expr::Between {
        expr: Box::new(value.clone()),
        negated,
        low: Box::new(low.clone()),
        high: Box::new(high.clone()),
    };
    let op = match negated {
        true => BinaryOperator::And,
        false => BinaryOperator::Or,
    };
    nested(binary(&between(first, second), op, &between(second, first)))
}

/// A text that is like one of several patterns, or all of them, pattern by pattern.
fn any_pattern(like: &Expr) -> Option<Expr> {
    let (Expr::Like { pattern, .. } | Expr::ILike { pattern, .. }) = like else {
        return None;
    };
    let mut patterns = pattern.as_ref();
    let mut op = BinaryOperator::Or;
    loop {
        patterns = match patterns {
            Expr::Nested(inner) => inner,
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: inner,
            } => {
                op = BinaryOperator::And;
                inner
            }
            _ => break,
        };
    }
    let Expr::Array(array) = patterns else {
        return None;
    };
    let one = |single: &Expr| {
        let mut like = like.clone();
        if let Expr::Like { pattern, any, .. } | Expr::ILike { pattern, any, .. } = &mut like {
            **pattern = single.clone();
            *any = false;
        }
        like
    };
    let found = array.elem.iter().map(one);
    found
        .reduce(|left, right| binary(&left, op.clone(), &right))
        .map(nested)
}

fn number(number: i8) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

pub(super) fn case(condition: Expr, then: Expr, otherwise: Option<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition,
            result: then,
        }],
        else_result: otherwise.map(Box::new),
    }
}

/// The name and the arguments of a plain call.
pub(super) fn plain(function: &Function) -> Option<(String, Vec<Expr>)> {
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

pub(super) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}
