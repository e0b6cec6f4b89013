//! `x LIKE 'a!_b' ESCAPE '!'`: the planner knows the backslash alone, so that patterns are written
//! with it.
//!
//! Rewrites sqlparser's tree before it is planned, once parameters have their values, and does
//! nothing else. Invariant LKE-1: a pattern that is no constant stays as it is, for the planner to
//! refuse.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, TypedString, Value, VisitMut, visit_expressions_mut,
};

/// Writes the constant patterns of a tree with the backslash.
pub(crate) fn rewrite(tree: &mut impl VisitMut) {
    let done: ControlFlow<()> = visit_expressions_mut(tree, |expr| {
        if let Expr::Like {
            pattern,
            escape_char,
            ..
        }
        | Expr::ILike {
            pattern,
            escape_char,
            ..
        } = expr
            && let Some(escape) = escape_char
                .as_ref()
                .and_then(|value| value.clone().into_string())
            && with_backslashes(pattern, &escape)
        {
            *escape_char = None;
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

/// Whether the pattern is a constant; then it means the same without its ESCAPE.
fn with_backslashes(pattern: &mut Expr, escape: &str) -> bool {
    match constant(pattern) {
        Some(Some(text)) => {
            let text = spelt(&text, escape);
            *pattern = Expr::Value(Value::SingleQuotedString(text).into());
            true
        }
        Some(None) => true,
        None => false,
    }
}

/// The text that an expression is, be it NULL; nothing where it is no constant.
fn constant(expr: &Expr) -> Option<Option<String>> {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => constant(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::StringConcat,
            right,
        } => {
            let both = constant(left)?.zip(constant(right)?);
            Some(both.map(|(left, right)| left + &right))
        }
        Expr::Value(value) | Expr::TypedString(TypedString { value, .. }) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                Some(Some(text.clone()))
            }
            Value::Null => Some(None),
            _ => None,
        },
        _ => None,
    }
}

fn spelt(pattern: &str, escape: &str) -> String {
    let mut spelt = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let escaped = match escape.contains(c) {
            true => chars.next(),
            false => Some(c).filter(|c| *c == '\\'),
        };
        match escaped {
            Some(escaped) => spelt.extend(['\\', escaped]),
            None => spelt.push(c),
        }
    }
    spelt
}
