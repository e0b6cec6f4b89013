//! Comparisons of rows that are written out, element by element: the planner compares them as
//! wholes, to which NULL is a value like any other.
//!
//! | written                        | read                                             |
//! | ------------------------------ | ------------------------------------------------ |
//! | `(a, b) = (1, 2)`              | `a = 1 AND b = 2`                                |
//! | `(a, b) <> ROW(1, 2)`          | `a <> 1 OR b <> 2`                               |
//! | `(a, b) >= (1, 2)`             | `a >= 1 AND (a > 1 OR b >= 2)`                   |
//! | `(a, b) BETWEEN p AND q`       | `(a, b) >= p AND (a, b) <= q`                    |
//! | `(a, b) IN ((1, 2), (3, 4))`   | `a = 1 AND b = 2 OR a = 3 AND b = 4`             |
//! | `ROW(a, b) IS NULL`            | `a IS NULL AND b IS NULL`                        |
//! | `(a, b) IS DISTINCT FROM p`    | `a IS DISTINCT FROM ... OR ...`                  |
//!
//! The first column of a key so has a range of its own. Rewrites sqlparser's tree and does nothing
//! else. Lists are rewritten when a statement is planned: full keys are read without the planner.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
    Value,
};
use lazybase_model::{Error, Result};

use super::folded;

/// Longer lists of constants are looked up in a table of theirs.
const FEW_ROWS: usize = 16;

/// The elements of a row that is written out.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    let elements: Option<Vec<Expr>> = match expr {
        Expr::Nested(inner) => row(inner),
        Expr::Tuple(elements) => Some(elements.clone()),
        Expr::Function(function) => {
            let [part] = function.name.0.as_slice() else {
                return None;
            };
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            if folded(part.as_ident()?) != "row" || function.over.is_some() {
                return None;
            }
            let element = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            list.args.iter().map(element).collect()
        }
        _ => None,
    };
    elements.filter(|elements| !elements.is_empty())
}

/// Rewrites a comparison of rows, but for lists.
///
/// # Errors
/// `Invalid` (42601) for rows that are not equally long.
pub(super) fn compare(expr: &mut Expr) -> Result<()> {
    let compared = match &*expr {
        Expr::BinaryOp { left, op, right } => match (row(left), row(right)) {
            (Some(left), Some(right)) => operator(&left, op, &right)?,
            _ => None,
        },
        Expr::IsDistinctFrom(left, right) => each(left, right, BinaryOperator::Or, |l, r| {
            Expr::IsDistinctFrom(Box::new(l), Box::new(r))
        })?,
        Expr::IsNotDistinctFrom(left, right) => each(left, right, BinaryOperator::And, |l, r| {
            Expr::IsNotDistinctFrom(Box::new(l), Box::new(r))
        })?,
        Expr::IsNull(inner) => row(inner).and_then(|elements| {
            let null = elements.into_iter().map(|e| Expr::IsNull(Box::new(e)));
            joined(null.collect(), &BinaryOperator::And)
        }),
        Expr::IsNotNull(inner) => row(inner).and_then(|elements| {
            let there = elements.into_iter().map(|e| Expr::IsNotNull(Box::new(e)));
            joined(there.collect(), &BinaryOperator::And)
        }),
        Expr::Between {
            expr,
            negated,
            low,
            high,
        } => match (row(expr), row(low), row(high)) {
            (Some(of), Some(low), Some(high)) => {
                let low = operator(&of, &BinaryOperator::GtEq, &low)?;
                let high = operator(&of, &BinaryOperator::LtEq, &high)?;
                let both = low.into_iter().chain(high).collect();
                joined(both, &BinaryOperator::And).map(|both| not_if(*negated, both))
            }
            _ => None,
        },
        Expr::InList { expr, list, .. } => {
            if let Some(of) = row(expr) {
                for other in list.iter().filter_map(row) {
                    equally_long(&of, &other)?;
                }
            }
            None
        }
        _ => None,
    };
    if let Some(compared) = compared {
        *expr = compared;
    }
    Ok(())
}

fn equally_long(left: &[Expr], right: &[Expr]) -> Result<()> {
    match left.len() == right.len() {
        true => Ok(()),
        false => {
            let said = "unequal number of entries in row expressions";
            Err(Error::invalid(said).with_sqlstate("42601"))
        }
    }
}

fn operator(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Option<Expr>> {
    use BinaryOperator as B;
    let strict = match op {
        B::Eq | B::NotEq => None,
        B::Lt | B::LtEq => Some(B::Lt),
        B::Gt | B::GtEq => Some(B::Gt),
        _ => return Ok(None),
    };
    equally_long(left, right)?;
    Ok(match strict {
        Some(strict) => ordered(left, op, &strict, right),
        None => {
            let between = match op {
                B::Eq => B::And,
                _ => B::Or,
            };
            let pairs = left.iter().zip(right);
            let pairs = pairs.map(|(left, right)| binary(left.clone(), op, right.clone()));
            joined(pairs.collect(), &between)
        }
    })
}

/// The first elements that differ decide.
fn ordered(
    left: &[Expr],
    op: &BinaryOperator,
    strict: &BinaryOperator,
    right: &[Expr],
) -> Option<Expr> {
    let ((l, left), (r, right)) = (left.split_first()?, right.split_first()?);
    if left.is_empty() {
        return Some(binary(l.clone(), op, r.clone()));
    }
    let or_equal = match strict {
        BinaryOperator::Lt => BinaryOperator::LtEq,
        _ => BinaryOperator::GtEq,
    };
    let first = binary(l.clone(), &or_equal, r.clone());
    let decides = binary(l.clone(), strict, r.clone());
    let rest = ordered(left, op, strict, right)?;
    let rest = nested(binary(decides, &BinaryOperator::Or, rest));
    Some(nested(binary(first, &BinaryOperator::And, rest)))
}

fn each(
    left: &Expr,
    right: &Expr,
    between: BinaryOperator,
    compare: impl Fn(Expr, Expr) -> Expr,
) -> Result<Option<Expr>> {
    let (Some(left), Some(right)) = (row(left), row(right)) else {
        return Ok(None);
    };
    equally_long(&left, &right)?;
    let pairs = left.into_iter().zip(right);
    let pairs = pairs.map(|(left, right)| nested(compare(left, right)));
    Ok(joined(pairs.collect(), &between))
}

/// Rewrites a row that is looked for in a list of rows.
pub(crate) fn list(expr: &mut Expr) {
    let Expr::InList {
        expr: of,
        list,
        negated,
    } = &*expr
    else {
        return;
    };
    let rows: Option<Vec<Vec<Expr>>> = list.iter().map(row).collect();
    let (Some(of), Some(rows)) = (row(of), rows) else {
        return;
    };
    let equal = rows.iter().map(|row| {
        let pairs = of.iter().zip(row);
        let pairs = pairs.map(|(l, r)| binary(l.clone(), &BinaryOperator::Eq, r.clone()));
        joined(pairs.collect(), &BinaryOperator::And)
    });
    let is_constant = |element: &Expr| match element {
        Expr::Value(value) => !matches!(value.value, Value::Null | Value::Placeholder(_)),
        _ => false,
    };
    let looked_up = rows.len() > FEW_ROWS && rows.iter().flatten().all(is_constant);
    let Some(any) = equal
        .collect::<Option<Vec<Expr>>>()
        .and_then(|equal| joined(equal, &BinaryOperator::Or))
    else {
        return;
    };
    *expr = match looked_up {
        true => {
            let whole = Expr::InList {
                expr: Box::new(Expr::Tuple(of.clone())),
                list: list.clone(),
                negated: false,
            };
            not_if(*negated, nested(with_nulls(of, any, whole)))
        }
        false => not_if(*negated, any),
    };
}

/// `CASE WHEN a IS NULL OR b IS NULL THEN by_elements ELSE whole END`, as a condition.
fn with_nulls(of: Vec<Expr>, by_elements: Expr, whole: Expr) -> Expr {
    let null = of.into_iter().map(|e| Expr::IsNull(Box::new(e))).collect();
    let yes = Expr::Value(Value::Boolean(true).into());
    let case = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition: joined(null, &BinaryOperator::Or).unwrap_or_else(|| yes.clone()),
            result: by_elements,
        }],
        else_result: Some(Box::new(whole)),
    };
    // It is called as an operator is.
    binary(case, &BinaryOperator::And, yes)
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn not_if(negated: bool, expr: Expr) -> Expr {
    match negated {
        true => Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(expr),
        },
        false => expr,
    }
}

fn binary(left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    }
}

/// All of it with an operator between: a tree that is no deeper than it must be.
fn joined(mut exprs: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    if exprs.len() < 2 {
        return exprs.pop();
    }
    let rest = exprs.split_off(exprs.len() / 2);
    let (left, right) = (joined(exprs, op)?, joined(rest, op)?);
    Some(nested(binary(left, op, right)))
}
