//! `x LIKE 'a!_b' ESCAPE '!'`: the planner knows the backslash alone, so that patterns are written
//! with it. And `x SIMILAR TO 'a%'`, which the planner takes for a regular expression: it becomes
//! `x ~ similar_to_escape('a%')`.
//!
//! Rewrites sqlparser's tree before it is planned, once parameters have their values, and does
//! nothing else. Invariant LKE-1: a pattern of LIKE that is no constant stays as it is, for the
//! planner to refuse.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, TypedString, Value, VisitMut};

use crate::pg_catalog::rewrite::call;
use crate::walk::visit_expressions_mut;

/// Writes the constant patterns of LIKE in a tree with the backslash, and those of SIMILAR TO as
/// regular expressions.
pub(crate) fn rewrite(tree: &mut impl VisitMut) {
    let done: ControlFlow<()> = visit_expressions_mut(tree, |expr| {
        if let Expr::SimilarTo {
            negated,
            expr: text,
            pattern,
            escape_char,
        } = expr
        {
            let op = match negated {
                true => BinaryOperator::PGRegexNotMatch,
                false => BinaryOperator::PGRegexMatch,
            };
            let escape = escape_char.take().map(Expr::Value);
            let mut arguments = vec![pattern.as_ref().clone()];
            arguments.extend(escape);
            *expr = Expr::BinaryOp {
                left: text.clone(),
                op,
                right: Box::new(call(SIMILAR_TO_ESCAPE, arguments)),
            };
            return ControlFlow::Continue(());
        }
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

const SIMILAR_TO_ESCAPE: &str = "similar_to_escape";

/// A pattern of SIMILAR TO as a regular expression; the second argument escapes, or else the
/// backslash does.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SimilarToEscape {
    signature: Signature,
}

impl SimilarToEscape {
    pub(crate) fn new() -> SimilarToEscape {
        SimilarToEscape {
            signature: Signature::one_of(
                [1, 2]
                    .map(datafusion::logical_expr::TypeSignature::String)
                    .into(),
                Volatility::Immutable,
            ),
        }
    }
}

impl ScalarUDFImpl for SimilarToEscape {
    fn name(&self) -> &str {
        SIMILAR_TO_ESCAPE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args
            .args
            .iter()
            .all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let texts = ColumnarValue::values_to_arrays(&args.args)?;
        let texts = texts.iter().map(|texts| cast(texts, &DataType::Utf8));
        let texts: std::result::Result<Vec<_>, _> = texts.collect();
        let texts = texts.map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
        let patterns = texts[0].as_string::<i32>();
        let escape = |row: usize| match texts.get(1) {
            Some(escapes) => {
                let escapes = escapes.as_string::<i32>();
                escapes
                    .is_valid(row)
                    .then(|| escapes.value(row).chars().next())
            }
            None => Some(Some('\\')),
        };
        let expressions = patterns
            .iter()
            .enumerate()
            .map(|(row, pattern)| Some(regular_expression(pattern?, escape(row)?)));
        let expressions: StringArray = expressions.collect();
        match constant && !expressions.is_empty() {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &expressions,
                0,
            )?)),
            false => Ok(ColumnarValue::Array(Arc::new(expressions))),
        }
    }
}

/// The regular expression of what a pattern of SIMILAR TO means.
fn regular_expression(pattern: &str, escape: Option<char>) -> String {
    let mut expression = String::with_capacity(pattern.len() + 8);
    expression.push_str("(?s)^(?:");
    let mut chars = pattern.chars();
    let mut in_brackets = false;
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            let literal = chars.next().unwrap_or(c);
            if !literal.is_alphanumeric() {
                expression.push('\\');
            }
            expression.push(literal);
            continue;
        }
        match c {
            ']' => in_brackets = false,
            '[' if !in_brackets => in_brackets = true,
            _ => {}
        }
        match c {
            '\\' => expression.push_str("\\\\"),
            _ if in_brackets || c == ']' => expression.push(c),
            '%' => expression.push_str(".*"),
            '_' => expression.push('.'),
            '(' => expression.push_str("(?:"),
            '.' | '^' | '$' => expression.extend(['\\', c]),
            _ => expression.push(c),
        }
    }
    expression.push_str(")$");
    expression
}
