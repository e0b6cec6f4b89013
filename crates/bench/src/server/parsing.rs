//! Bare parsing of COPY's text: the least that it takes to make batches of it, on one thread and
//! with no database around.
//!
//! Values are cut at tabs and read as the types of their columns. The rows of the benchmarks have
//! no NULL and need no backslash; a text with any is refused.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBuilder, PrimitiveBuilder, RecordBatch, StringBuilder};
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampMicrosecondType};

use super::rows::BATCH_ROWS;
use crate::Outcome;
use crate::data::{Shape, schema};

/// Room for the texts of a column, for each row.
const TEXT_BYTES: usize = 64;

/// The batches of a text of wide rows.
pub(super) fn batches(text: &[u8]) -> Outcome<Vec<RecordBatch>> {
    let text = std::str::from_utf8(text)?;
    if text.contains('\\') {
        return Err("a row has a NULL or a backslash".into());
    }
    let schema = schema(Shape::Wide);
    let mut lines = text.lines().peekable();
    let mut batches = Vec::new();
    while lines.peek().is_some() {
        let fields = schema.fields().iter();
        let mut columns: Vec<Values> = fields.map(|field| Values::new(field.data_type())).collect();
        for line in lines.by_ref().take(BATCH_ROWS) {
            take_line(line, &mut columns).ok_or_else(|| format!("this is no row: {line}"))?;
        }
        let arrays = columns.iter_mut().map(Values::finish).collect();
        batches.push(RecordBatch::try_new(Arc::clone(&schema), arrays)?);
    }
    Ok(batches)
}

/// Appends the values of a line; nothing where it has not one of each column's type.
fn take_line(line: &str, columns: &mut [Values]) -> Option<()> {
    let mut values = line.split('\t');
    for column in columns {
        column.append(values.next()?)?;
    }
    values.next().is_none().then_some(())
}

/// The values of a column.
enum Values {
    Numbers(PrimitiveBuilder<Int64Type>),
    Floats(PrimitiveBuilder<Float64Type>),
    Moments(PrimitiveBuilder<TimestampMicrosecondType>),
    Flags(BooleanBuilder),
    Texts(StringBuilder),
}

impl Values {
    fn new(of_type: &DataType) -> Values {
        match of_type {
            DataType::Int64 => Values::Numbers(PrimitiveBuilder::with_capacity(BATCH_ROWS)),
            DataType::Float64 => Values::Floats(PrimitiveBuilder::with_capacity(BATCH_ROWS)),
            DataType::Timestamp(..) => Values::Moments(PrimitiveBuilder::with_capacity(BATCH_ROWS)),
            DataType::Boolean => Values::Flags(BooleanBuilder::with_capacity(BATCH_ROWS)),
            _ => Values::Texts(StringBuilder::with_capacity(
                BATCH_ROWS,
                BATCH_ROWS * TEXT_BYTES,
            )),
        }
    }

    /// Nothing where the text is no value of the type.
    fn append(&mut self, text: &str) -> Option<()> {
        match self {
            Values::Numbers(values) => values.append_value(Int64Type::parse(text)?),
            Values::Floats(values) => values.append_value(Float64Type::parse(text)?),
            Values::Moments(values) => {
                values.append_value(TimestampMicrosecondType::parse(text)?);
            }
            Values::Flags(values) => values.append_value(text.parse().ok()?),
            Values::Texts(values) => values.append_value(text),
        }
        Some(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Values::Numbers(values) => Arc::new(values.finish()),
            Values::Floats(values) => Arc::new(values.finish()),
            Values::Moments(values) => Arc::new(values.finish()),
            Values::Flags(values) => Arc::new(values.finish()),
            Values::Texts(values) => Arc::new(values.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::*;

    #[test]
    fn the_text_of_rows_is_parsed_to_the_same_rows() {
        let rows = Rows::new(BATCH_ROWS as u64 + 2).expect("they compress as they should");
        let text = rows.text(0..rows.count).expect("rows have a text");
        let parsed = batches(&text).expect("it is their text");
        assert_eq!(parsed, rows.batches(0, rows.count));
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let rows = Rows::new(1).expect("they compress as they should");
        let text = rows.text(0..1).expect("rows have a text");
        let line = std::str::from_utf8(&text).expect("it is text").trim_end();
        let short = line.rsplit_once('\t').expect("it has several values").0;
        let wrong = [
            short.to_owned(),
            format!("{line}\t1"),
            format!("x{line}"),
            line.replacen('\t', "\t\\N", 1),
        ];
        for text in wrong {
            assert!(batches(text.as_bytes()).is_err(), "{text}");
        }
        assert!(batches(line.as_bytes()).is_ok());
    }
}
