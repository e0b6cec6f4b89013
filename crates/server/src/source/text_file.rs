//! CSV and JSON lines: whole records, a chunk at a time, parsed as the types that are wanted.

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lazybase_model::{Column, Error, ErrorKind, Result, Table};
use lazybase_query::{BYTE_ORDER_MARK, JsonColumn, LinesBefore, csv_texts, json_rows, texts_as};
use regex::Regex;

use super::Piece;
use super::chunk::{CHUNK_BYTES, Chunks, PrefixHash};
use super::infer::{csv_columns, csv_names, json_columns, json_names};
use super::input::{Input, opened};
use super::mark::{Evidence, Mark, check};
use crate::failure;

/// How CSV is written.
#[derive(Debug, Clone)]
pub struct TextOptions {
    delimiter: u8,
    /// A text that means NULL beside the empty one.
    null: Option<String>,
}

impl TextOptions {
    /// `null` is a text that means NULL beside the empty one.
    pub fn new(delimiter: u8, null: Option<&str>) -> TextOptions {
        let null = null.map(str::to_owned);
        TextOptions { delimiter, null }
    }

    /// What stands between values.
    pub(super) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// What means NULL where types are inferred.
    pub(super) fn null_pattern(&self) -> Result<Regex> {
        let null = self.null.as_deref().unwrap_or("");
        let pattern = format!("^({})?$", regex::escape(null));
        Regex::new(&pattern).map_err(|error| Error::invalid(format!("--null: {error}")))
    }
}

/// A text file being read.
pub(super) struct TextFile {
    options: TextOptions,
    csv: bool,
    schema: SchemaRef,
    /// Whether its types are those of a table that was there before.
    known: bool,
    /// Of each column the names of the natural keys that it holds, if it does.
    natural_keys: Vec<Option<Vec<String>>>,
    chunks: Chunks<Box<dyn Read + Send>>,
    /// What precedes the first record: the header line, or a mark.
    header: Vec<u8>,
    hash: PrefixHash,
    rows: u64,
    path: PathBuf,
}

impl TextFile {
    /// Begins to read, and looks at the beginning for columns: with `known`, for their names alone.
    pub(super) fn open(
        input: Input,
        options: &TextOptions,
        csv: bool,
        known: bool,
    ) -> Result<TextFile> {
        let path = input.path().to_owned();
        let mut chunks = Chunks::new(input.into_reader(), csv, CHUNK_BYTES);
        let mut first = chunks.next()?.unwrap_or_default();
        if let Some(error) = no_text(&first) {
            return Err(error);
        }
        let header = match csv {
            true => header_length(&first),
            false if first.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
            false => 0,
        };
        if csv && header == 0 {
            return Err(Error::invalid("the file is empty: it has no header line"));
        }
        let schema = match (csv, known) {
            (true, known) => csv_schema(&first, header, options, known)?,
            (false, true) => json_names(&first[header..])?,
            (false, false) => json_columns(&first[header..])?,
        };
        let records = first.split_off(header);
        let (buffered, rest) = chunks.into_inner();
        let rest = Cursor::new(records)
            .chain(Cursor::new(buffered))
            .chain(rest);
        let mut hash = PrefixHash::new();
        hash.write(&first);
        Ok(TextFile {
            options: options.clone(),
            csv,
            known,
            natural_keys: vec![None; schema.fields().len()],
            schema: SchemaRef::new(schema),
            chunks: Chunks::new(Box::new(rest), csv, CHUNK_BYTES),
            header: first,
            hash,
            rows: 0,
            path,
        })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// JSON lines without any record have the columns of the table that they go to.
    pub(super) fn has_columns_of(&mut self, table: &Table) {
        if !self.csv && self.schema.fields().is_empty() {
            let shown = table.columns[..table.visible_columns()].iter();
            let field = |column: &Column| Field::new(&column.name, DataType::Utf8, true);
            self.schema = SchemaRef::new(Schema::new(shown.map(field).collect::<Vec<_>>()));
            self.natural_keys = vec![None; self.schema.fields().len()];
        }
    }

    pub(super) fn read_as(&mut self, schema: SchemaRef, natural_keys: Vec<Option<Vec<String>>>) {
        self.schema = schema;
        self.natural_keys = natural_keys;
    }

    pub(super) fn resume(&mut self, mark: &Mark, name: &str) -> Result<()> {
        let mut file = opened(&self.path)?;
        let length = file
            .metadata()
            .map_err(|error| failure::io(name, &error))?
            .len();
        let mut hash = PrefixHash::new();
        let last = hash.read(&mut file, mark.bytes)?;
        let mut next = [0];
        let more = file
            .read(&mut next)
            .map_err(|error| failure::io(name, &error))?
            > 0;
        let evidence = Evidence {
            length,
            prefix_hash: last.map(|_| hash.hex()),
            footer: String::new(),
            // A last record without its line end may get one later, and nothing else.
            ends_at_record: last == Some(b'\n') || !more || matches!(next[0], b'\n' | b'\r'),
        };
        check(mark, &evidence, name)?;
        let position = SeekFrom::Start(mark.bytes.max(self.header.len() as u64));
        file.seek(position)
            .map_err(|error| failure::io(name, &error))?;
        self.chunks = Chunks::new(Box::new(file), self.csv, CHUNK_BYTES);
        self.hash = hash;
        self.rows = mark.rows;
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<Piece>> {
        let chunk = self.chunks.next();
        let chunk = chunk.map_err(|error| match error.kind() {
            ErrorKind::Invalid => error.within(format!("line {}", self.hash.lines() + 1)),
            _ => error,
        })?;
        let Some(chunk) = chunk else {
            return Ok(None);
        };
        let batches = match self.csv {
            true => self.csv_rows(&chunk)?,
            false => self.json_rows(&chunk)?,
        };
        self.hash.write(&chunk);
        self.rows += batches
            .iter()
            .map(|batch| batch.num_rows() as u64)
            .sum::<u64>();
        Ok(Some(Piece {
            batches,
            mark: Mark {
                rows: self.rows,
                bytes: self.hash.bytes(),
                hash: self.hash.hex(),
                footer: String::new(),
            },
            bytes: chunk.len() as u64,
            weight: chunk.len() as u64,
        }))
    }

    fn csv_rows(&self, chunk: &[u8]) -> Result<Vec<RecordBatch>> {
        let fields = self.schema.fields().iter();
        let names = fields.map(|field| field.name().clone()).collect();
        let before = LinesBefore {
            rows: self.rows,
            lines: self.hash.lines(),
        };
        let mut first_row = self.rows + 1;
        let mut batches = Vec::new();
        for texts in csv_texts(chunk, self.options.delimiter, names, before)? {
            let texts = texts?;
            let blank = |field: &Field, key: &Option<Vec<String>>| match field.data_type() {
                DataType::Utf8 if key.is_none() => None,
                _ => Some(""),
            };
            let columns = self.schema.fields().iter().zip(texts.columns());
            let columns = columns.zip(&self.natural_keys);
            let columns = columns.map(|((field, texts), key)| {
                let mut texts = without(texts, self.options.null.as_deref());
                // Many programs put every value in quotes, those that lack too.
                texts = without(&texts, blank(field, key));
                self.typed(field, &texts, first_row)
            });
            let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
            first_row += texts.num_rows() as u64;
            batches.push(assembled(&self.schema, columns)?);
        }
        Ok(batches)
    }

    fn json_rows(&self, chunk: &[u8]) -> Result<Vec<RecordBatch>> {
        let fields = self.schema.fields().iter().zip(&self.natural_keys);
        let columns = fields.map(|(field, key)| match key {
            Some(key) => JsonColumn::of_key(field.name(), key.clone()),
            None => JsonColumn::new(field.name(), field.data_type()),
        });
        let mut first_row = self.rows + 1;
        let mut batches = Vec::new();
        for texts in json_rows(chunk, columns.collect(), first_row) {
            let texts = texts?;
            let columns = self.schema.fields().iter().zip(texts.columns());
            let columns = columns.map(|(field, texts)| self.typed(field, texts, first_row));
            let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
            first_row += texts.num_rows() as u64;
            batches.push(assembled(&self.schema, columns)?);
        }
        Ok(batches)
    }

    /// Texts as values of the column's type; what has it stays as it is.
    fn typed(&self, field: &Field, values: &ArrayRef, first_row: u64) -> Result<ArrayRef> {
        if values.data_type() == field.data_type() {
            return Ok(Arc::clone(values));
        }
        let column = Column::new(field.name(), field.data_type().clone());
        let typed = texts_as(values, &column, first_row);
        typed.map_err(|error| match self.known {
            true => error,
            false => error.with_hint(
                "the type is that of the first records: CREATE TABLE with another one, and load \
                 into that",
            ),
        })
    }
}

fn assembled(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|error| failure::arrow("rows", &error))
}

/// Texts with NULL for those that are `null`.
fn without(texts: &ArrayRef, null: Option<&str>) -> ArrayRef {
    let strings = texts.as_string::<i32>();
    let Some(null) = null.filter(|null| strings.iter().any(|text| text == Some(null))) else {
        return Arc::clone(texts);
    };
    let kept = strings.iter().map(|text| text.filter(|text| *text != null));
    Arc::new(kept.collect::<StringArray>())
}

/// How files begin that hold text in another form, what they are, and what makes text of them.
const OTHER_FORMS: [(&[u8], &str, &str); 6] = [
    (b"\x1f\x8b", "compressed by gzip", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -dc"),
    (b"\xfd7zXZ\0", "compressed by xz", "xz -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
    (b"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8"),
];

/// The error of a file that can't be read as text.
fn no_text(first: &[u8]) -> Option<Error> {
    let mut forms = OTHER_FORMS.iter();
    let (_, form, command) = forms.find(|(begin, ..)| first.starts_with(begin))?;
    let error = Error::invalid(format!("the file is {form}, and no text in UTF-8"));
    Some(error.with_hint(format!(
        "pipe its text in: {command} FILE | lazybase load TABLE - --format ..."
    )))
}

/// The columns of a CSV file by its first records, which stand behind `header` bytes.
fn csv_schema(first: &[u8], header: usize, options: &TextOptions, known: bool) -> Result<Schema> {
    if std::str::from_utf8(&first[..header]).is_err() {
        return Err(Error::invalid("the header is not UTF-8")
            .with_hint("iconv makes UTF-8 of other encodings")
            .with_sqlstate("22021"));
    }
    let named = csv_names(first, options)?;
    if known {
        return Ok(named);
    }
    csv_columns(first, options).map_err(|error| {
        // The reader that takes the records says where they are broken.
        let mut hash = PrefixHash::new();
        hash.write(&first[..header]);
        let before = LinesBefore {
            rows: 0,
            lines: hash.lines(),
        };
        let names = named.fields().iter().map(|field| field.name().clone());
        let texts = csv_texts(&first[header..], options.delimiter, names.collect(), before);
        match texts.map(|mut texts| texts.find_map(Result::err)) {
            Ok(Some(broken)) => broken,
            _ => error,
        }
    })
}

/// The bytes of the first record with its line end.
fn header_length(text: &[u8]) -> usize {
    let mut inside = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'"' => inside = !inside,
            b'\n' if !inside => return at + 1,
            _ => {}
        }
    }
    text.len()
}
