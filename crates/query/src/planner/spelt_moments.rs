//! Texts that are cast to dates, timestamps and bytes, spelt as the planner's casts read them:
//! without seconds and with single digits too, as people and PostgreSQL write them.
//!
//! ```text
//!   at >= '2013-01-01 5:00'      ->  at >= '2013-01-01 05:00:00'
//!   bytes = '\x00ff'            ->  bytes = X'00ff'
//!   arrived::TIMESTAMP           ->  spelt_moment(arrived)::TIMESTAMP
//! ```
//!
//! A rule of the planner and its function; pure. Invariant SPM-1: a text that is no moment, or one
//! in full, stays as it is.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::hex::from_hex;
use crate::moments::spelt_moment;
use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const SPELT_MOMENTS: NodeRule = NodeRule::new("spelt_moments", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, |expr, schema| Ok(spelt_cast(expr, schema)))
}

/// A cast to a moment, of a text that it reads.
fn spelt_cast(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::Cast(Cast { expr: inner, field }) = expr else {
        return Transformed::no(expr);
    };
    if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = inner.as_ref()
        && let Some(bytes) = bytes_of(text, field.data_type())
    {
        return Transformed::yes(Expr::Literal(bytes, None));
    }
    let is_moment = matches!(
        field.data_type(),
        DataType::Date32 | DataType::Timestamp(..)
    );
    let spelt = match *inner {
        inner if !is_moment => Transformed::no(inner),
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => match spelt_moment(&text) {
            Some(text) => Transformed::yes(Expr::Literal(ScalarValue::Utf8(Some(text)), metadata)),
            None => Transformed::no(Expr::Literal(ScalarValue::Utf8(Some(text)), metadata)),
        },
        constant @ Expr::Literal(..) => Transformed::no(constant),
        inner if is_text(&inner, schema) => {
            let function = Arc::new(ScalarUDF::from(SpeltMoment::new()));
            let call = ScalarFunction::new_udf(function, vec![inner]);
            Transformed::yes(Expr::ScalarFunction(call))
        }
        inner => Transformed::no(inner),
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
    let is_call = matches!(expr, Expr::ScalarFunction(call) if call.func.name() == SPELT_MOMENT);
    let of = expr.get_type(schema);
    let is_text = |of: &DataType| {
        matches!(
            of,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    !is_call && of.is_ok_and(|of| is_text(&of))
}

const SPELT_MOMENT: &str = "spelt_moment";

/// Texts with those that are moments spelt in full.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpeltMoment {
    signature: Signature,
}

impl SpeltMoment {
    pub(crate) fn new() -> SpeltMoment {
        SpeltMoment {
            signature: Signature::string(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for SpeltMoment {
    fn name(&self) -> &str {
        SPELT_MOMENT
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
        let spelt: ArrayRef = Arc::new(all_spelt(texts.as_string::<i32>()));
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
    let is_short = |text: Option<&str>| text.and_then(spelt_moment).is_some();
    if !texts.iter().any(is_short) {
        return texts.clone();
    }
    let spelt = texts.iter().map(|text| {
        let spelt = text.and_then(spelt_moment).map(Cow::Owned);
        spelt.or(text.map(Cow::Borrowed))
    });
    spelt.collect()
}
