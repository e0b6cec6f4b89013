//! Casts and typed constants of SQL's types that the planner does not know, or knows otherwise than
//! columns are stored.
//!
//! | written                     | planned                                        |
//! | --------------------------- | ---------------------------------------------- |
//! | `x::UUID`, `UUID '...'`     | `uuid_of(x)`: lower-case text, marked as UUID  |
//! | `x::UUID[]`                 | `uuids_of(x::TEXT[])`: the same, in a list     |
//! | `x::TIME`, `TIME '...'`     | as a TIME column, in microseconds              |
//! | `x::TIMESTAMP`              | as such a column, in microseconds              |
//! | `x::TIMESTAMPTZ`            | the same, of UTC                               |
//! | `x::JSON`, `x::JSONB`       | `json_checked(x::JSON)`: text, marked as JSON  |
//! | `x::FLOAT`                  | DOUBLE PRECISION, FLOAT(24) and fewer REAL     |
//! | `x::OID[]`                  | an array of BIGINT, as `pg_catalog` has them   |
//! | `DATE '2013-1-1'`           | the same day, spelt in full                    |
//! | `INTERVAL '04:05'`          | `INTERVAL '04 hours 05 minutes 0 seconds'`     |
//!
//! Rewrites sqlparser's tree before it is planned, and tells the planner types; does nothing else.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType as SqlType, Expr, TimezoneInfo, TypedString, Value,
    VisitMut,
};
use lazybase_model::Error;

use crate::cast::without_exponent;
use crate::error::into_datafusion;
use crate::hex::{from_uuid, put_uuid};
use crate::moments::rounded_fraction;
use crate::parse::folded;
use crate::pg_catalog::rewrite::call;
use crate::pg_catalog::types::mark;
use crate::planner::json_values::JSON_CHECKED;
use crate::planner::spelt_moments::spelt_as;
use crate::types::{self, INTERVAL, UTC, UUID};
use crate::walk::visit_expressions_mut;

/// The name of the function that casts to UUID become.
const UUID_OF: &str = "uuid_of";
/// The name of the function that casts to lists of UUIDs become.
const UUIDS_OF: &str = "uuids_of";

/// Writes all casts to UUID and JSON as calls of functions, and constants of moments in full.
pub(crate) fn rewrite(tree: &mut impl VisitMut) {
    let done: ControlFlow<()> = visit_expressions_mut(tree, |expr| {
        spell(expr);
        if is_to_json(expr) {
            *expr = call(JSON_CHECKED, vec![expr.clone()]);
            return ControlFlow::Continue(());
        }
        let inner = match expr {
            Expr::Cast {
                expr,
                data_type: SqlType::Uuid,
                ..
            } => expr.as_ref().clone(),
            Expr::TypedString(TypedString {
                data_type: SqlType::Uuid,
                value,
                ..
            }) => Expr::Value(value.clone()),
            Expr::Cast { data_type, .. } if is_uuids(data_type) => {
                *data_type = text_list();
                let texts = expr.clone();
                *expr = call(UUIDS_OF, vec![texts]);
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        *expr = uuid_of(inner);
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

/// Whether an expression is a cast to JSON; one that gives NULL where it can't be done looks at no
/// text.
fn is_to_json(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            data_type: SqlType::JSON | SqlType::JSONB,
            ..
        } | Expr::TypedString(TypedString {
            data_type: SqlType::JSON | SqlType::JSONB,
            ..
        })
    )
}

/// Writes the text of a constant that is cast to a moment or an interval in full.
fn spell(expr: &mut Expr) {
    let (value, data_type) = match expr {
        Expr::Cast {
            expr, data_type, ..
        } => match expr.as_mut() {
            Expr::Value(value) => (value, &*data_type),
            _ => return,
        },
        Expr::TypedString(typed) => (&mut typed.value, &typed.data_type),
        // With a field, the text is a number of it.
        Expr::Interval(interval) if interval.leading_field.is_none() => {
            match interval.value.as_mut() {
                Expr::Value(value) => (value, &ANY_INTERVAL),
                _ => return,
            }
        }
        _ => return,
    };
    let (Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text)) = &mut value.value
    else {
        return;
    };
    let wanted = match data_type {
        SqlType::Date => DataType::Date32,
        SqlType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        SqlType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        SqlType::Interval { .. } => INTERVAL,
        SqlType::Numeric(_) | SqlType::Decimal(_) | SqlType::Dec(_) => {
            if let Some(digits) = without_exponent(text) {
                *text = digits;
            }
            return;
        }
        _ => return,
    };
    if matches!(data_type, SqlType::Timestamp(None | Some(6), _))
        && let Some(rounded) = rounded_fraction(text)
    {
        *text = rounded;
    }
    if let Some(spelt) = spelt_as(text, &wanted) {
        *text = spelt;
    }
}

const ANY_INTERVAL: SqlType = SqlType::Interval {
    fields: None,
    precision: None,
};

fn uuid_of(expr: Expr) -> Expr {
    // The planner knows no type of a plain NULL.
    let expr = match expr {
        Expr::Value(value) if value.value == Value::Null => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(Expr::Value(value)),
            data_type: SqlType::Text,
            array: false,
            format: None,
        },
        other => other,
    };
    call(UUID_OF, vec![expr])
}

/// The type of a cast that became a call of this function.
pub(crate) fn cast_by(function: &str) -> Option<&'static str> {
    matches!(function, UUID_OF | UUIDS_OF).then_some("uuid")
}

/// Whether what a parameter is cast to is JSON.
pub(crate) fn is_any_json(sql: &SqlType) -> bool {
    matches!(sql, SqlType::JSON | SqlType::JSONB)
}

fn is_uuids(sql: &SqlType) -> bool {
    matches!(sql, SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _))
        if **element == SqlType::Uuid)
}

fn text_list() -> SqlType {
    SqlType::Array(ArrayElemTypeDef::SquareBracket(
        Box::new(SqlType::Text),
        None,
    ))
}

fn is_oid(sql: &SqlType) -> bool {
    match sql {
        SqlType::Custom(name, _) => {
            let last = name.0.last().and_then(|part| part.as_ident());
            last.is_some_and(|name| folded(name) == "oid")
        }
        _ => false,
    }
}

/// The type of the values that a parameter takes which is cast where it stands.
pub(crate) fn of_parameter(sql: &SqlType) -> Option<DataType> {
    if is_oid(sql) {
        return Some(DataType::Int64);
    }
    match sql {
        uuids if is_uuids(uuids) => Some(types::shown_list(&UUID)),
        SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) if is_oid(element) => {
            let item = Field::new_list_field(DataType::Int64, true).with_metadata(mark("oid"));
            Some(DataType::List(Arc::new(item)))
        }
        // The planner says what is wrong with a type that is none.
        sql => types::from_sql(sql).ok(),
    }
}

/// Tells the planner the types of values as they are stored.
#[derive(Debug)]
pub(crate) struct StoredTypes;

impl TypePlanner for StoredTypes {
    fn plan_type_field(&self, sql: &SqlType) -> Result<Option<FieldRef>> {
        Ok(match sql {
            SqlType::Time(..)
            | SqlType::JSON
            | SqlType::Float(_)
            | SqlType::Timestamp(..)
            | SqlType::Datetime(_) => {
                let stored = types::from_sql(sql).map_err(into_datafusion)?;
                Some(Arc::new(Field::new("", stored, true)))
            }
            SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) if is_oid(element) => {
                of_parameter(sql).map(|stored| Arc::new(Field::new("", stored, true)))
            }
            oid if is_oid(oid) => Some(Arc::new(Field::new("", DataType::Int64, true))),
            SqlType::JSONB => Some(Arc::new(Field::new("", DataType::Utf8, true))),
            _ => None,
        })
    }
}

/// A UUID in any spelling as the text that SQL shows of it; or each of a list of them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct UuidOf {
    signature: Signature,
    of_lists: bool,
}

impl UuidOf {
    pub(crate) fn new() -> UuidOf {
        UuidOf {
            signature: Signature::any(1, Volatility::Immutable),
            of_lists: false,
        }
    }

    pub(crate) fn of_lists() -> UuidOf {
        UuidOf {
            of_lists: true,
            ..UuidOf::new()
        }
    }
}

impl ScalarUDFImpl for UuidOf {
    fn name(&self) -> &str {
        match self.of_lists {
            true => UUIDS_OF,
            false => UUID_OF,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.of_lists {
            true => types::shown_list(&UUID),
            false => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(match self.of_lists {
            true => Field::new(UUIDS_OF, types::shown_list(&UUID), true),
            false => types::shown_field(UUID_OF, &UUID, true),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let constant = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let values = ColumnarValue::values_to_arrays(&args.args)?;
        let spelt = match self.of_lists {
            true => spelt_lists(&values[0])?,
            false => spelt(&values[0])?,
        };
        match constant && rows != spelt.len() {
            true => Ok(ColumnarValue::Scalar(
                datafusion::common::ScalarValue::try_from_array(&spelt, 0)?,
            )),
            false => Ok(ColumnarValue::Array(spelt)),
        }
    }
}

fn spelt_lists(values: &ArrayRef) -> Result<ArrayRef> {
    let failed = |error| DataFusionError::ArrowError(Box::new(error), None);
    let texts = DataType::new_list(DataType::Utf8, true);
    let lists = cast(values, &texts).map_err(failed)?;
    let item = Arc::new(types::shown_field(
        Field::LIST_FIELD_DEFAULT_NAME,
        &UUID,
        true,
    ));
    let mut spelt_lists = ListBuilder::new(StringBuilder::new()).with_field(item);
    for list in lists.as_list::<i32>().iter() {
        if let Some(list) = &list {
            for text in spelt(list)?.as_string::<i32>() {
                spelt_lists.values().append_option(text);
            }
        }
        spelt_lists.append(list.is_some());
    }
    Ok(Arc::new(spelt_lists.finish()))
}

fn spelt(values: &ArrayRef) -> Result<ArrayRef> {
    let failed = |error| DataFusionError::ArrowError(Box::new(error), None);
    let mut spelt = StringBuilder::new();
    let mut add = |bytes: Option<&[u8]>| match bytes {
        None => spelt.append_null(),
        Some(bytes) => {
            let mut text = String::with_capacity(36);
            put_uuid(bytes, &mut text);
            spelt.append_value(text);
        }
    };
    let wrong = |what: &str| {
        let error = Error::invalid(format!("{what} is not a UUID"));
        into_datafusion(error.with_sqlstate("22P02"))
    };
    match values.data_type() {
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => {
            let values = cast(values, &DataType::Binary).map_err(failed)?;
            for bytes in values.as_binary::<i32>() {
                if bytes.is_some_and(|bytes| bytes.len() != 16) {
                    return Err(wrong("a value of another length than 16 bytes"));
                }
                add(bytes);
            }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
            let values = cast(values, &DataType::Utf8).map_err(failed)?;
            for text in values.as_string::<i32>() {
                let bytes =
                    text.map(|text| from_uuid(text).ok_or_else(|| wrong(&format!("{text:?}"))));
                add(bytes.transpose()?.as_deref());
            }
        }
        other => return Err(wrong(&format!("a value of type {}", types::name(other)))),
    }
    Ok(Arc::new(spelt.finish()))
}
