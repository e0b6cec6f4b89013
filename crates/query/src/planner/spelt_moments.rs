//! Texts that are cast to dates, timestamps, intervals and bytes, read as people and PostgreSQL
//! write them: without seconds and with single digits too, before year 1 and after 9999. A zone
//! says nothing where the type has none.
//!
//! ```text
//!   at >= '2013-01-01 5:00'      ->  at >= '2013-01-01 05:00:00'
//!   bytes = '\x00ff'            ->  bytes = X'00ff'
//!   DATE '0044-03-15 BC'        ->  the number of that day
//!   arrived::TIMESTAMP           ->  moment_of_text(arrived)
//!   took::INTERVAL               ->  spelt_interval(took)::INTERVAL
//! ```
//!
//! A rule of the planner and its functions; pure. Invariant SPM-1: a text that is no moment, or one
//! in full, goes to the planner's cast as it is.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::cast::far;
use crate::hex::from_hex;
use crate::moments::{local_moment, spelt_interval, spelt_moment};
use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const SPELT_MOMENTS: NodeRule = NodeRule::new("spelt_moments", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, schema| Ok(spelt_cast(expr, schema)))
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

    /// Whether texts are those of a day or of a moment.
    fn is_of_moments(self) -> bool {
        matches!(self, Spelling::Zoned | Spelling::Local)
    }
}

/// A cast to a moment or an interval, of a text that it reads.
fn spelt_cast(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::Cast(Cast { expr: inner, field }) = expr else {
        return Transformed::no(expr);
    };
    if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = inner.as_ref()
        && let Some(value) = value_of(text, field.data_type())
    {
        return Transformed::yes(Expr::Literal(value, None));
    }
    let is_constant = matches!(inner.as_ref(), Expr::Literal(..));
    let spelling = Spelling::of(field.data_type());
    if spelling.is_some_and(Spelling::is_of_moments) && !is_constant && is_text(&inner, schema) {
        let function = MomentOfText::new(field.data_type().clone());
        return Transformed::yes(call(function, *inner));
    }
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
        (inner, Some(_)) if is_text(&inner, schema) => {
            Transformed::yes(call(SpeltIntervals::new(), inner))
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

fn call(function: impl ScalarUDFImpl + 'static, argument: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![argument]))
}

/// Whether a call reads moments from texts: it fails where one is none.
pub(crate) fn reads_moments(call: &ScalarFunction) -> bool {
    call.func.inner().is::<MomentOfText>()
}

/// The value of a text that the planner's cast does not read.
fn value_of(text: &str, wanted: &DataType) -> Option<ScalarValue> {
    bytes_of(text, wanted).or_else(|| {
        let spelling = Spelling::of(wanted).filter(|spelling| spelling.is_of_moments())?;
        let spelt = spelling.spell(text);
        far::constant(spelt.as_deref().unwrap_or(text), wanted)
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
    let is_call = matches!(expr, Expr::ScalarFunction(call)
        if call.func.inner().is::<SpeltIntervals>());
    let of = expr.get_type(schema);
    let is_text = |of: &DataType| {
        matches!(
            of,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    !is_call && of.is_ok_and(|of| is_text(&of))
}

/// Texts with those that are intervals spelt in full.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SpeltIntervals {
    signature: Signature,
}

impl SpeltIntervals {
    fn new() -> SpeltIntervals {
        SpeltIntervals {
            signature: Signature::string(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for SpeltIntervals {
    fn name(&self) -> &'static str {
        "spelt_interval"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_texts(&args, |texts| {
            Ok(Arc::new(spelt_by(Spelling::Interval, texts)))
        })
    }
}

/// Texts as dates or timestamps.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MomentOfText {
    wanted: DataType,
    signature: Signature,
}

impl MomentOfText {
    fn new(wanted: DataType) -> MomentOfText {
        MomentOfText {
            wanted,
            signature: Signature::string(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for MomentOfText {
    fn name(&self) -> &'static str {
        "moment_of_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.wanted.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let field = Field::new(self.name(), self.wanted.clone(), nullable);
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        const CHECKED: CastOptions<'static> = CastOptions {
            safe: false,
            format_options: FormatOptions::new(),
        };
        of_texts(&args, |texts| {
            let spelt = match Spelling::of(&self.wanted) {
                Some(spelling) => spelt_by(spelling, texts),
                None => texts.clone(),
            };
            far::moments(&spelt, &self.wanted, |near| {
                cast_with_options(near, &self.wanted, &CHECKED).map_err(failed)
            })
        })
    }
}

fn failed(error: ArrowError) -> DataFusionError {
    DataFusionError::ArrowError(Box::new(error), None)
}

/// What a function makes of the texts that it is called with.
fn of_texts(
    args: &ScalarFunctionArgs,
    made: impl FnOnce(&StringArray) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let constant = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
    let texts = ColumnarValue::values_to_arrays(&args.args)?;
    let texts = cast(&texts[0], &DataType::Utf8).map_err(failed)?;
    let values = made(texts.as_string::<i32>())?;
    match constant && !values.is_empty() {
        true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &values, 0,
        )?)),
        false => Ok(ColumnarValue::Array(values)),
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
