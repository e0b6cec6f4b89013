//! Casts that mean something else in PostgreSQL than in the planner.
//!
//! | written            | the planner's            | here, as there          |
//! | ------------------ | ------------------------ | ----------------------- |
//! | `5.7::INT`         | 5                        | 6                       |
//! | `d::INT`, d = 2.5  | 2                        | 2: halves to even       |
//! | `n::INT`, n = 2.50 | 2, of a DECIMAL          | 3: halves from zero     |
//! | `at::TEXT`         | `2024-01-15T10:20:30`    | `2024-01-15 10:20:30`   |
//! | `1.0::TEXT`        | `1.0`                    | `1`                     |
//! | `list::TEXT`       | `[1, 2]`                 | `{1,2}`                 |
//! | `ARRAY[1.5]::INT[]` | `{1}`                   | `{2}`: as its elements  |
//! | `(b - a)::INTERVAL` | hours alone             | days, and what is left  |
//!
//! A rule of the planner and its functions, once both sides of operators have one type; pure.
//! Invariant CST-1: a cast to TEXT gives what clients are sent as the text of the value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use crate::planner::intervals::computed;
use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::text_form::{intervals, is_spelt_otherwise, texts};
use crate::types::INTERVAL;

/// The rule.
pub(crate) const CASTS: NodeRule = NodeRule::new("casts", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, schema| Ok(rewritten(expr, schema)))
}

fn rewritten(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let (inner, wanted) = match &expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            (expr, field.data_type())
        }
        _ => return Transformed::no(expr),
    };
    let of = inner.get_type(schema).unwrap_or(DataType::Null);
    let Some(before) = before(&of, wanted) else {
        return Transformed::no(expr);
    };
    Transformed::yes(match expr {
        Expr::Cast(Cast { expr, field }) => Expr::Cast(Cast {
            expr: Box::new(before(*expr)),
            field,
        }),
        Expr::TryCast(TryCast { expr, field }) => Expr::TryCast(TryCast {
            expr: Box::new(before(*expr)),
            field,
        }),
        other => other,
    })
}

/// What a value must go through before the planner's cast gives what PostgreSQL's does.
fn before(of: &DataType, wanted: &DataType) -> Option<Box<dyn FnOnce(Expr) -> Expr>> {
    let is_text = matches!(
        wanted,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8
    );
    let to_whole = wanted.is_integer();
    Some(match *of {
        _ if is_text && is_spelt_otherwise(of) => Box::new(|inner| call(TextOf::new(), inner)),
        _ if to_whole && of.is_floating() => Box::new(whole),
        DataType::Duration(_) if matches!(wanted, DataType::Interval(_)) => {
            Box::new(|inner| call(Intervals::new(), inner))
        }
        DataType::Decimal128(precision, scale) if to_whole && scale > 0 => {
            Box::new(move |inner| cast(inner, DataType::Decimal128(precision, 0)))
        }
        DataType::Decimal256(precision, scale) if to_whole && scale > 0 => {
            Box::new(move |inner| cast(inner, DataType::Decimal256(precision, 0)))
        }
        DataType::List(ref element) => return elements_before(element, wanted),
        _ => return None,
    })
}

/// As [`before`], of a list's elements.
fn elements_before(of: &Field, wanted: &DataType) -> Option<Box<dyn FnOnce(Expr) -> Expr>> {
    let DataType::List(wanted) = wanted else {
        return None;
    };
    let list = |of: DataType| DataType::new_list(of, true);
    Some(match (of.data_type(), wanted.data_type()) {
        (of, wanted) if wanted.is_integer() && of.is_floating() => Box::new(whole_elements),
        (DataType::Decimal128(precision, 1..), wanted) if wanted.is_integer() => {
            let whole = list(DataType::Decimal128(*precision, 0));
            Box::new(move |inner| cast(inner, whole))
        }
        _ => return None,
    })
}

/// [`whole`] of each element.
fn whole_elements(inner: Expr) -> Expr {
    let is_literal = |element: &Expr| matches!(element, Expr::Literal(..));
    match inner {
        Expr::ScalarFunction(mut made)
            if made.func.name() == "make_array" && made.args.iter().all(is_literal) =>
        {
            made.args = made.args.into_iter().map(whole).collect();
            Expr::ScalarFunction(made)
        }
        inner => call(Whole::new(), inner),
    }
}

/// Lists with other elements in the same places.
fn with_elements(lists: &ListArray, elements: ArrayRef) -> Result<ArrayRef> {
    let item = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
    let offsets = lists.offsets().clone();
    let lists = ListArray::try_new(item, offsets, elements, lists.nulls().cloned())?;
    Ok(Arc::new(lists))
}

fn cast(inner: Expr, wanted: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(inner), wanted))
}

pub(super) fn call(function: impl ScalarUDFImpl + 'static, argument: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![argument]))
}

/// The whole number nearest to a floating one. What is written out is a DECIMAL in PostgreSQL, so
/// that its halves go away from zero.
fn whole(inner: Expr) -> Expr {
    match inner {
        Expr::Literal(ScalarValue::Float64(Some(value)), metadata) => {
            Expr::Literal(ScalarValue::Float64(Some(value.round())), metadata)
        }
        inner => call(Whole::new(), inner),
    }
}

/// The text of a value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextOf {
    signature: Signature,
}

impl TextOf {
    fn new() -> TextOf {
        TextOf {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for TextOf {
    fn name(&self) -> &str {
        "text_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| Ok(Arc::new(texts(&arrays[0])?)))
    }
}

/// The difference of moments as an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Intervals {
    signature: Signature,
}

impl Intervals {
    pub(super) fn new() -> Intervals {
        Intervals {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Intervals {
    fn name(&self) -> &str {
        "interval_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| Ok(Arc::new(intervals(&arrays[0])?)))
    }
}

/// The nearest whole number, of two the even one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Whole {
    signature: Signature,
}

impl Whole {
    fn new() -> Whole {
        Whole {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        "nearest_whole"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match arguments {
            [DataType::Float32] => DataType::Float32,
            [DataType::List(element)] => {
                DataType::new_list(self.return_type(&[element.data_type().clone()])?, true)
            }
            _ => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| match arrays[0].data_type() {
            DataType::List(_) => {
                let lists = arrays[0].as_list::<i32>();
                with_elements(lists, nearest(lists.values())?)
            }
            _ => nearest(&arrays[0]),
        })
    }
}

/// The whole numbers nearest to floating ones.
fn nearest(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            Arc::new(values.unary::<_, Float32Type>(f32::round_ties_even))
        }
        _ => {
            let values = arrow::compute::cast(values, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>();
            Arc::new(values.unary::<_, Float64Type>(f64::round_ties_even))
        }
    })
}
