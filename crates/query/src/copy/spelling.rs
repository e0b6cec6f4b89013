//! Values as the formats of files can hold them, so that COPY FROM reads what COPY TO wrote.
//!
//! | format  | what it lacks        | written as                                    |
//! | ------- | -------------------- | --------------------------------------------- |
//! | CSV     | bytes                | `\\x` and hexadecimal digits                  |
//! | CSV     | lists, structs       | their JSON                                    |
//! | JSON    | NaN and infinities   | the texts `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | Parquet | intervals            | text                                          |
//!
//! Pure.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray, StringBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};

use crate::hex::put_hex;

/// Whether CSV can't hold a type.
pub(super) fn csv_lacks(data_type: &DataType) -> bool {
    *data_type == DataType::Binary || data_type.is_nested()
}

/// Whether Parquet can't hold a type.
pub(super) fn parquet_lacks(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

/// The schema with texts for the types that a format lacks.
pub(super) fn schema_with(schema: &SchemaRef, lacks: fn(&DataType) -> bool) -> SchemaRef {
    let spelt = |field: &FieldRef| match lacks(field.data_type()) {
        true => Arc::new(Field::new(
            field.name(),
            DataType::Utf8,
            field.is_nullable(),
        )),
        false => Arc::clone(field),
    };
    Arc::new(Schema::new(
        schema.fields().iter().map(spelt).collect::<Vec<_>>(),
    ))
}

/// The rows with texts for the values of types that a format lacks.
///
/// # Errors
/// When a value has no text.
pub(super) fn rows_with(
    rows: &RecordBatch,
    lacks: fn(&DataType) -> bool,
) -> Result<RecordBatch, ArrowError> {
    let schema = rows.schema();
    if !schema.fields().iter().any(|field| lacks(field.data_type())) {
        return Ok(rows.clone());
    }
    let columns = schema.fields().iter().zip(rows.columns());
    let columns = columns.map(|(field, column)| match lacks(field.data_type()) {
        true => spelt(field, column),
        false => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema_with(&schema, lacks), columns, &options)
}

fn spelt(field: &FieldRef, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Binary => Ok(hexadecimal(column)),
        nested if nested.is_nested() => Ok(Arc::new(json_texts(field, column)?)),
        _ => cast(column, &DataType::Utf8),
    }
}

fn hexadecimal(column: &ArrayRef) -> ArrayRef {
    let spell = |bytes: &[u8]| {
        let mut text = "\\x".to_owned();
        put_hex(bytes, &mut text);
        text
    };
    let bytes = column.as_binary::<i32>().iter();
    Arc::new(bytes.map(|bytes| bytes.map(spell)).collect::<StringArray>())
}

/// The values of a column as JSON.
///
/// # Errors
/// When JSON has no such values: maps whose keys are no texts.
pub fn json_texts(field: &FieldRef, column: &ArrayRef) -> Result<StringArray, ArrowError> {
    json_texts_by(field, column, Arc::new(NumbersAsText))
}

/// The same, spelt by other encoders than Arrow's.
///
/// # Errors
/// As [`json_texts`].
pub(crate) fn json_texts_by(
    field: &FieldRef,
    column: &ArrayRef,
    encoders: Arc<dyn EncoderFactory>,
) -> Result<StringArray, ArrowError> {
    let options = EncoderOptions::default()
        .with_explicit_nulls(true)
        .with_encoder_factory(encoders);
    let mut encoder = make_encoder(field, column, &options)?;
    let (mut texts, mut text) = (StringBuilder::new(), Vec::new());
    for row in 0..column.len() {
        if column.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        encoder.encode(row, &mut text);
        let text = std::str::from_utf8(&text);
        texts.append_value(text.map_err(|error| ArrowError::JsonError(error.to_string()))?);
    }
    Ok(texts.finish())
}

/// Writes floating-point values that JSON has no numbers for as texts.
#[derive(Debug)]
pub(super) struct NumbersAsText;

impl EncoderFactory for NumbersAsText {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>().values();
                Box::new(Floats(move |row: usize| {
                    (f64::from(values[row]), values[row].to_string())
                }))
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>().values();
                Box::new(Floats(move |row: usize| {
                    (values[row], values[row].to_string())
                }))
            }
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

/// Gives the value of a row and its shortest text.
struct Floats<F>(F);

impl<F: Fn(usize) -> (f64, String)> Encoder for Floats<F> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = match (self.0)(row) {
            (value, text) if value.is_finite() => text,
            (value, _) if value.is_nan() => "\"NaN\"".to_owned(),
            (value, _) if value > 0.0 => "\"Infinity\"".to_owned(),
            _ => "\"-Infinity\"".to_owned(),
        };
        out.extend_from_slice(text.as_bytes());
    }
}
