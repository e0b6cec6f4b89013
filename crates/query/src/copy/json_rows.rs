//! JSON as rows: an object a row, its fields matched with columns by name.
//!
//! | a field holds       | the row has                                                      |
//! | ------------------- | ---------------------------------------------------------------- |
//! | a text              | the text                                                         |
//! | a number, a boolean | its text, digit by digit                                         |
//! | NULL, or is missing | NULL                                                             |
//! | a list, an object   | its JSON                                                         |
//! | an object, of an ID | the natural key, as CSV has it: the fields are the key's columns |
//!
//! Reads bytes; gives batches of text columns, as CSV does: what a value is worth is decided once,
//! by the column's type, and an error of a value can name its row. Invariant JSR-1: memory holds
//! one batch and one object, and an object has a limit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, Read};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lazybase_model::{Error, Result};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{BYTE_ORDER_MARK, io};
use crate::error::from_arrow;

#[cfg(test)]
mod tests;

/// The most rows of a batch.
const BATCH_ROWS: usize = 8192;
/// A batch ends with the object that brings it to so many bytes.
const BATCH_BYTES: usize = 8 << 20;
/// How much is read at once, as long as objects are shorter.
const STEP_BYTES: usize = 1 << 20;
/// The longest object: cells go up to 16 MiB, and a row has several.
const OBJECT_BYTES_MAX: usize = 256 << 20;

/// A column that fields of its name go to.
#[derive(Debug, Clone)]
pub struct JsonColumn {
    /// Empty where messages name none.
    table: String,
    name: String,
    form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Plain,
    /// Hexadecimal digits.
    Bytes,
    /// A natural key of these columns, where it is an object.
    Key(Vec<String>),
}

impl JsonColumn {
    /// A column of a type.
    pub fn new(name: &str, data_type: &DataType) -> JsonColumn {
        let form = match data_type {
            DataType::Binary => Form::Bytes,
            _ => Form::Plain,
        };
        JsonColumn {
            table: String::new(),
            name: name.to_owned(),
            form,
        }
    }

    /// An ID column, whose natural keys have these columns.
    pub fn of_key(name: &str, key: Vec<String>) -> JsonColumn {
        JsonColumn {
            table: String::new(),
            name: name.to_owned(),
            form: Form::Key(key),
        }
    }

    /// The same of a table, which messages name.
    #[must_use]
    pub fn of_table(self, table: &str) -> JsonColumn {
        let table = table.to_owned();
        JsonColumn { table, ..self }
    }

    /// What is wrong with its field in a row.
    fn error(&self, row: u64, error: &serde_json::Error) -> Error {
        let of_table = match self.table.as_str() {
            "" => String::new(),
            table => format!("table {table:?}, "),
        };
        let wrong = Error::invalid(format!(
            "{of_table}column {:?}, row {row}: {error}",
            self.name
        ))
        .with_sqlstate("22P02");
        match &self.form {
            Form::Key(names) => wrong.with_hint(format!(
                "a natural key is an object with the fields {}",
                names.join(", ")
            )),
            Form::Plain | Form::Bytes => wrong,
        }
    }
}

/// The rows of lines of JSON, as texts in columns of these names; `first_row` is the number of the
/// first, counted from 1, for messages.
///
/// # Errors
/// Each batch: `Invalid` naming the row that is no object, or has a field without a column.
pub fn json_rows(
    lines: &[u8],
    columns: Vec<JsonColumn>,
    first_row: u64,
) -> impl Iterator<Item = Result<RecordBatch>> {
    JsonRows::new(lines, columns, first_row)
}

/// The objects of lines of JSON.
///
/// # Errors
/// Each: `Invalid` naming the row that is no object.
pub fn json_objects(lines: &[u8]) -> impl Iterator<Item = Result<JsonObject<'_>>> {
    let objects = serde_json::Deserializer::from_slice(lines).into_iter();
    let numbered = objects.zip(1..);
    numbered.map(|(object, row)| object.map_err(|error| no_object(row, &error)))
}

/// Batches of objects.
pub(super) struct JsonRows<R> {
    input: R,
    columns: Vec<JsonColumn>,
    places: HashMap<String, usize>,
    schema: SchemaRef,
    buffer: Vec<u8>,
    /// Up to here the buffer was made rows of.
    taken: usize,
    step: usize,
    /// Whether anything was read.
    begun: bool,
    input_ended: bool,
    /// The number of the next row.
    row: u64,
    ended: bool,
}

impl<R: BufRead> JsonRows<R> {
    /// Reads the objects of `input`.
    pub(super) fn new(input: R, columns: Vec<JsonColumn>, first_row: u64) -> JsonRows<R> {
        let named = columns.iter().enumerate();
        let fields = columns.iter();
        let fields = fields.map(|column| Field::new(&column.name, DataType::Utf8, true));
        JsonRows {
            input,
            places: named
                .map(|(at, column)| (column.name.clone(), at))
                .collect(),
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            columns,
            buffer: Vec::new(),
            taken: 0,
            step: STEP_BYTES,
            begun: false,
            input_ended: false,
            row: first_row,
            ended: false,
        }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut cells: Vec<StringBuilder> =
            self.columns.iter().map(|_| StringBuilder::new()).collect();
        let first = self.row;
        let mut bytes = 0;
        while !self.take_objects(&mut cells, first, &mut bytes)? {
            if self.input_ended {
                self.ended = true;
                break;
            }
            self.fill()?;
        }
        if self.row == first {
            return Ok(None);
        }
        let arrays = cells.iter_mut();
        let arrays = arrays.map(|cells| Arc::new(cells.finish()) as ArrayRef);
        RecordBatch::try_new(Arc::clone(&self.schema), arrays.collect())
            .map(Some)
            .map_err(|error| from_arrow(&error))
    }

    /// Makes rows of the whole objects in the buffer; true once the batch is full.
    fn take_objects(
        &mut self,
        cells: &mut [StringBuilder],
        first: u64,
        bytes: &mut usize,
    ) -> Result<bool> {
        let start = self.taken;
        let rest = serde_json::Deserializer::from_slice(&self.buffer[start..]);
        let mut objects = rest.into_iter::<JsonObject<'_>>();
        while let Some(object) = objects.next() {
            let object = match object {
                Ok(object) => object,
                Err(error) if error.is_eof() && !self.input_ended => return Ok(false),
                Err(error) => return Err(no_object(self.row, &error)),
            };
            let end = start + objects.byte_offset();
            *bytes += end - self.taken;
            self.taken = end;
            self.step = STEP_BYTES;
            put_row(&self.columns, &self.places, &object, cells, self.row)?;
            self.row += 1;
            if self.row - first >= BATCH_ROWS as u64 || *bytes >= BATCH_BYTES {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads on; more at once while an object has no end, which is read from its beginning again.
    fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        if self.buffer.len() > OBJECT_BYTES_MAX {
            return Err(Error::invalid(format!(
                "row {} is longer than {OBJECT_BYTES_MAX} bytes",
                self.row
            ))
            .with_hint("perhaps a quote or a brace is not closed")
            .with_sqlstate("54000"));
        }
        let step = self.step as u64;
        self.step *= 2;
        let read = self.input.by_ref().take(step).read_to_end(&mut self.buffer);
        self.input_ended = (read.map_err(io("JSON"))? as u64) < step;
        if !std::mem::replace(&mut self.begun, true) && self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.taken = BYTE_ORDER_MARK.len();
        }
        Ok(())
    }
}

impl<R: BufRead> Iterator for JsonRows<R> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.ended {
            return None;
        }
        let batch = self.next_batch();
        self.ended |= batch.is_err();
        batch.transpose()
    }
}

fn no_object(row: u64, error: &serde_json::Error) -> Error {
    // Its lines and columns count from where the reading went on, which says nothing to users.
    let said = error.to_string();
    let said = said
        .rsplit_once(" at line ")
        .map_or(&*said, |(said, _)| said);
    Error::invalid(format!("row {row} is no JSON object: {said}"))
        .with_hint("write an object a line: {\"id\": 1, \"name\": \"a\"}")
        .with_sqlstate("22P02")
}

fn put_row(
    columns: &[JsonColumn],
    places: &HashMap<String, usize>,
    object: &JsonObject<'_>,
    cells: &mut [StringBuilder],
    row: u64,
) -> Result<()> {
    let mut given: Vec<Option<&RawValue>> = vec![None; columns.len()];
    for (name, value) in &object.0 {
        let at = places.get(name.as_ref()).ok_or_else(|| {
            Error::not_found(format!(
                "row {row} has a field {name:?}, which is no column"
            ))
            .with_sqlstate("42703")
        })?;
        given[*at] = Some(value);
    }
    for ((column, value), cells) in columns.iter().zip(given).zip(cells) {
        let text = value.map_or(Ok(None), |value| cell_of(column, value));
        cells.append_option(text.map_err(|error| column.error(row, &error))?);
    }
    Ok(())
}

/// The text of a value in a column; `None` for NULL.
fn cell_of<'j>(
    column: &JsonColumn,
    value: &'j RawValue,
) -> serde_json::Result<Option<Cow<'j, str>>> {
    if let Form::Key(names) = &column.form
        && value.get().starts_with('{')
    {
        return natural_key(names, value).map(|key| Some(Cow::Owned(key)));
    }
    let text = text_of(value)?;
    Ok(match (text, &column.form) {
        (Some(text), Form::Bytes) if !text.starts_with("\\x") => {
            Some(Cow::Owned(format!("\\x{text}")))
        }
        (text, _) => text,
    })
}

/// A natural key as it stands in CSV, of an object with a field for each of its columns.
fn natural_key(names: &[String], value: &RawValue) -> serde_json::Result<String> {
    let JsonObject(fields) = serde_json::from_str(value.get())?;
    let is_known = |name: &str| names.iter().any(|known| known == name);
    if let Some((name, _)) = fields.iter().find(|(name, _)| !is_known(name)) {
        let said = format!("{name:?} is no column of the natural key");
        return Err(serde_json::Error::custom(said));
    }
    let mut values = Vec::with_capacity(names.len());
    for name in names {
        let field = fields.iter().rfind(|(field, _)| field == name);
        let text = field.map_or(Ok(None), |(_, value)| text_of(value))?;
        // NULL is an empty value outside of quotes.
        let quoted = |text: Cow<'_, str>| {
            let inside = text.replace('\\', "\\\\").replace('"', "\"\"");
            format!("\"{inside}\"")
        };
        values.push(text.map_or(String::new(), quoted));
    }
    Ok(format!("({})", values.join(",")))
}

/// The text of a value; `None` for NULL.
fn text_of(value: &RawValue) -> serde_json::Result<Option<Cow<'_, str>>> {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => serde_json::from_str(json).map(|text: String| Some(Cow::Owned(text))),
        _ => Ok(Some(Cow::Borrowed(json))),
    }
}

/// The fields of an object, in their order.
pub struct JsonObject<'j>(pub Vec<(Cow<'j, str>, &'j RawValue)>);

impl<'j> Deserialize<'j> for JsonObject<'j> {
    fn deserialize<D: Deserializer<'j>>(json: D) -> std::result::Result<JsonObject<'j>, D::Error> {
        json.deserialize_map(Fields)
    }
}

struct Fields;

impl<'j> Visitor<'j> for Fields {
    type Value = JsonObject<'j>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'j>>(
        self,
        mut map: A,
    ) -> std::result::Result<JsonObject<'j>, A::Error> {
        let mut fields = Vec::new();
        while let Some((Name(name), value)) = map.next_entry()? {
            fields.push((name, value));
        }
        Ok(JsonObject(fields))
    }
}

/// A field's name: borrowed, unless it holds escapes.
struct Name<'j>(Cow<'j, str>);

impl<'j> Deserialize<'j> for Name<'j> {
    fn deserialize<D: Deserializer<'j>>(json: D) -> std::result::Result<Name<'j>, D::Error> {
        json.deserialize_str(Text)
    }
}

struct Text;

impl<'j> Visitor<'j> for Text {
    type Value = Name<'j>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, text: &'j str) -> std::result::Result<Name<'j>, E> {
        Ok(Name(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Name<'j>, E> {
        Ok(Name(Cow::Owned(text.to_owned())))
    }
}
