//! Texts that are cast to dates, timestamps, intervals and bytes, spelt as the planner's casts read
//! them: without seconds and with single digits too, as people and PostgreSQL write them. A zone
//! says nothing where the type has none.
//!
//! ```text
//!   at >= '2013-01-01 5:00'      ->  at >= '2013-01-01 05:00:00'
//!   bytes = '\x00ff'            ->  bytes = X'00ff'
//!   arrived::TIMESTAMPTZ         ->  spelt_moment(arrived)::TIMESTAMPTZ
//!   arrived::TIMESTAMP           ->  spelt_local_moment(arrived)::TIMESTAMP
//!   took::INTERVAL               ->  spelt_interval(took)::INTERVAL
//! ```
//!
//! A rule of the planner and its functions; pure. Invariant SPM-1: a text that is no moment, or one
//! in full, stays as it is.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::hex::from_hex;
use crate::moments::{local_moment, spelt_interval, spelt_moment};
use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const SPELT_MOMENTS: NodeRule = NodeRule::new("spelt_moments", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, |expr, schema| Ok(spelt_cast(expr, schema)))
}

/// How a text is written for a type that it is cast to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Spelling {
    /// A moment of a zone, its own or UTC.
    Zoned,
    /// A day or a moment as they are written, whatever zone stands behind.
    Local,
    Interval,
}

impl Spelling {
    fn of(wanted: &DataType) -> Option<Spelling> {
        match wanted {
            DataType::Date32 | DataType::Timestamp(_, None) => Some(Spelling::Local),
            DataType::Timestamp(_, Some(_)) => Some(Spelling::Zoned),
            DataType::Interval(_) => Some(Spelling::Interval),
            _ => None,
        }
    }

    /// The text in full; `None` where it is.
    fn spell(self, text: &str) -> Option<String> {
        match self {
            Spelling::Zoned => spelt_moment(text),
            Spelling::Local => {
                let local = local_moment(text);
                let is_cut = local.len() != text.len();
                spelt_moment(local).or_else(|| is_cut.then(|| local.to_owned()))
            }
            Spelling::Interval => spelt_interval(text),
        }
    }

    /// The name of the function that spells texts so.
    fn function(self) -> &'static str {
        match self {
            Spelling::Zoned => "spelt_moment",
            Spelling::Local => "spelt_local_moment",
            Spelling::Interval => "spelt_interval",
        }
    }
}

/// A cast to a moment or an interval, of a text that it reads.
fn spelt_cast(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::Cast(Cast { expr: inner, field }) = expr else {
        return Transformed::no(expr);
    };
    if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = inner.as_ref()
        && let Some(bytes) = bytes_of(text, field.data_type())
    {
        return Transformed::yes(Expr::Literal(bytes, None));
    }
    let spelling = Spelling::of(field.data_type());
    let spelt = match (*inner, spelling) {
        (inner, None) => Transformed::no(inner),
        (Expr::Literal(ScalarValue::Utf8(Some(text)), metadata), Some(spelling)) => {
            let spelt = spelling.spell(&text);
            let is_spelt = spelt.is_some();
            let text = ScalarValue::Utf8(Some(spelt.unwrap_or(text)));
            let literal = Expr::Literal(text, metadata);
            Transformed::new(literal, is_spelt, TreeNodeRecursion::Continue)
        }
        (constant @ Expr::Literal(..), _) => Transformed::no(constant),
        (inner, Some(spelling)) if is_text(&inner, schema) => {
            let function = Arc::new(ScalarUDF::from(Spelt::new(spelling)));
            let call = ScalarFunction::new_udf(function, vec![inner]);
            Transformed::yes(Expr::ScalarFunction(call))
        }
        (inner, _) => Transformed::no(inner),
    };
    spelt.update_data(|inner| {
        Expr::Cast(Cast {
            expr: Box::new(inner),
            field,
        })
    })
}

/// The bytes that a text is beside a BYTEA column, where it is written in hexadecimal digits.
fn bytes_of(text: &str, wanted: &DataType) -> Option<ScalarValue> {
    let bytes = from_hex(text.strip_prefix("\\x")?)?;
    Some(match wanted {
        DataType::Binary => ScalarValue::Binary(Some(bytes)),
        DataType::LargeBinary => ScalarValue::LargeBinary(Some(bytes)),
        DataType::BinaryView => ScalarValue::BinaryView(Some(bytes)),
        _ => return None,
    })
}

fn is_text(expr: &Expr, schema: &DFSchema) -> bool {
    let is_call = matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Spelt>());
    let of = expr.get_type(schema);
    let is_text = |of: &DataType| {
        matches!(
            of,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    !is_call && of.is_ok_and(|of| is_text(&of))
}

/// Texts with those that are moments, or intervals, spelt in full.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Spelt {
    spelling: Spelling,
    signature: Signature,
}

impl Spelt {
    fn new(spelling: Spelling) -> Spelt {
        Spelt {
            spelling,
            signature: Signature::string(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Spelt {
    fn name(&self) -> &str {
        self.spelling.function()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let texts = ColumnarValue::values_to_arrays(&args.args)?;
        let texts = cast(&texts[0], &DataType::Utf8)
            .map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
        let spelt: ArrayRef = Arc::new(spelt_by(self.spelling, texts.as_string::<i32>()));
        match constant && !spelt.is_empty() {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &spelt, 0,
            )?)),
            false => Ok(ColumnarValue::Array(spelt)),
        }
    }
}

/// Texts with those that are moments spelt in full.
pub(crate) fn all_spelt(texts: &StringArray) -> StringArray {
    spelt_by(Spelling::Zoned, texts)
}

/// A text that is cast to a type, spelt in full; `None` where it is, or the type has no spelling.
pub(crate) fn spelt_as(text: &str, wanted: &DataType) -> Option<String> {
    Spelling::of(wanted)?.spell(text)
}

fn spelt_by(spelling: Spelling, texts: &StringArray) -> StringArray {
    let spell = |text: Option<&str>| text.and_then(|text| spelling.spell(text));
    if !texts.iter().any(|text| spell(text).is_some()) {
        return texts.clone();
    }
    let spelt = texts.iter().map(|text| {
        let spelt = spell(text).map(Cow::Owned);
        spelt.or(text.map(Cow::Borrowed))
    });
    spelt.collect()
}
