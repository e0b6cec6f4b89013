//! CSV and JSON lines: whole records, a chunk at a time, parsed as the types that are wanted.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::csv;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow::json;
use lazybase_model::{Column, Error, Result, Table};
use lazybase_query::{JsonColumn, csv_texts, json_rows, texts_as};
use regex::Regex;

use super::chunk::{CHUNK_BYTES, Chunks, PrefixHash};
use super::mark::{Evidence, Mark, check};
use super::source::Piece;
use crate::failure;

/// The records that types are inferred from.
const INFERENCE_RECORDS: usize = 50_000;

/// How CSV is written.
#[derive(Debug, Clone)]
pub(super) struct TextOptions {
    delimiter: u8,
    /// A text that means NULL beside the empty one.
    null: Option<String>,
}

impl TextOptions {
    /// `null` is a text that means NULL beside the empty one.
    pub(super) fn new(delimiter: char, null: Option<&str>) -> Result<TextOptions> {
        let delimiter = u8::try_from(delimiter)
            .map_err(|_| Error::invalid(format!("{delimiter:?} is no delimiter of one byte")))?;
        let null = null.map(str::to_owned);
        Ok(TextOptions { delimiter, null })
    }

    /// What means NULL where types are inferred.
    fn null_pattern(&self) -> Result<Regex> {
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
    /// Of each column the names of the natural keys that it holds, if it does.
    natural_keys: Vec<Option<Vec<String>>>,
    chunks: Chunks<File>,
    /// What precedes the first record: the header line.
    header: Vec<u8>,
    hash: PrefixHash,
    rows: u64,
    path: std::path::PathBuf,
}

impl TextFile {
    /// Opens a file and infers its columns from its beginning.
    pub(super) fn open(path: &Path, options: &TextOptions, csv: bool) -> Result<TextFile> {
        let mut probe = Chunks::new(opened(path)?, csv, CHUNK_BYTES);
        let first = probe.next()?.unwrap_or_default();
        let header = match csv {
            true => first[..header_length(&first)].to_vec(),
            false => Vec::new(),
        };
        if csv && header.is_empty() {
            return Err(Error::invalid("the file is empty: it has no header line"));
        }
        let schema = infer(&first, options, csv)?;
        let mut file = opened(path)?;
        let start = SeekFrom::Start(header.len() as u64);
        file.seek(start)
            .map_err(|error| failure::io(path.display(), &error))?;
        let mut hash = PrefixHash::new();
        hash.write(&header);
        Ok(TextFile {
            options: options.clone(),
            csv,
            natural_keys: vec![None; schema.fields().len()],
            schema: SchemaRef::new(schema),
            chunks: Chunks::new(file, csv, CHUNK_BYTES),
            header,
            hash,
            rows: 0,
            path: path.to_owned(),
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
        self.chunks = Chunks::new(file, self.csv, CHUNK_BYTES);
        self.hash = hash;
        self.rows = mark.rows;
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<Piece>> {
        let Some(chunk) = self.chunks.next()? else {
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
        let after = |error: Error| error.within(format!("after row {}", self.rows));
        let mut first_row = self.rows + 1;
        let mut batches = Vec::new();
        for texts in csv_texts(chunk, self.options.delimiter, names).map_err(after)? {
            let texts = texts.map_err(after)?;
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
                typed(field, &texts, first_row)
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
            let columns = columns.map(|(field, texts)| typed(field, texts, first_row));
            let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
            first_row += texts.num_rows() as u64;
            batches.push(assembled(&self.schema, columns)?);
        }
        Ok(batches)
    }
}

fn assembled(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|error| failure::arrow("rows", &error))
}

/// Texts as values of the column's type; what has it stays as it is.
fn typed(field: &Field, values: &ArrayRef, first_row: u64) -> Result<ArrayRef> {
    if values.data_type() == field.data_type() {
        return Ok(Arc::clone(values));
    }
    let column = Column::new(field.name(), field.data_type().clone());
    texts_as(values, &column, first_row)
        .map_err(|error| error.with_hint("to have another type, make the table before"))
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

fn opened(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| failure::io(path.display(), &error))
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

/// Arrow infers a timestamp whatever stands behind it. Columns of instants, each with its zone,
/// hold instants; those of which some have a zone, or something else, hold texts.
fn with_zones(inferred: &Schema, first: &[u8], options: &TextOptions) -> Result<Schema> {
    let is_moment = |field: &FieldRef| matches!(field.data_type(), DataType::Timestamp(..));
    let moments: Vec<usize> = (0..inferred.fields().len())
        .filter(|at| is_moment(&inferred.fields()[*at]))
        .collect();
    if moments.is_empty() {
        return Ok(inferred.clone());
    }
    let texts = inferred.fields().iter();
    let texts = texts.map(|field| Field::new(field.name(), DataType::Utf8, true));
    let texts = Schema::new(texts.collect::<Vec<_>>());
    let records = csv::ReaderBuilder::new(SchemaRef::new(texts))
        .with_header(true)
        .with_delimiter(options.delimiter)
        .with_null_regex(options.null_pattern()?)
        .with_projection(moments.clone())
        .with_bounds(0, INFERENCE_RECORDS)
        .build(first)
        .map_err(|error| failure::arrow("columns", &error))?;
    let zone = Regex::new(r"^([Zz]|[+-]\d\d(:?\d\d)?(:\d\d)?)$")
        .map_err(|error| Error::internal(error.to_string()))?;
    let mut zones = vec![Zones::default(); moments.len()];
    for batch in records {
        let batch = batch.map_err(|error| failure::arrow("columns", &error))?;
        for (column, zones) in batch.columns().iter().zip(&mut zones) {
            let texts = column.as_string::<i32>().iter().flatten();
            texts.for_each(|text| zones.see(text, &zone));
        }
    }
    let mut fields: Vec<FieldRef> = inferred.fields().iter().cloned().collect();
    for (at, zones) in moments.into_iter().zip(zones) {
        if zones.with {
            let data_type = match zones.without {
                true => DataType::Utf8,
                false => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            };
            fields[at] = Arc::new(Field::new(fields[at].name(), data_type, true));
        }
    }
    Ok(Schema::new(fields))
}

/// What stands behind the moments of a column.
#[derive(Debug, Clone, Copy, Default)]
struct Zones {
    /// Zones behind some.
    with: bool,
    /// Nothing behind some, or no zone that is known.
    without: bool,
}

impl Zones {
    fn see(&mut self, moment: &str, zone: &Regex) {
        // Behind the day: the time of day, and what follows it.
        let clock = moment.get(11..).unwrap_or_default();
        let behind = clock.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == '.');
        self.with |= !behind.is_empty();
        self.without |= !zone.is_match(behind);
    }
}

fn infer(first: &[u8], options: &TextOptions, csv: bool) -> Result<Schema> {
    let inferred = if csv {
        csv::reader::Format::default()
            .with_header(true)
            .with_delimiter(options.delimiter)
            .with_null_regex(options.null_pattern()?)
            .infer_schema(first, Some(INFERENCE_RECORDS))
    } else {
        json::reader::infer_json_schema(first, Some(INFERENCE_RECORDS))
    };
    let (schema, _) = inferred.map_err(|error| failure::arrow("columns", &error))?;
    let schema = match csv {
        true => with_zones(&schema, first, options)?,
        false => schema,
    };
    // What no record of the beginning has may be anything later on.
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Null => Field::new(field.name(), DataType::Utf8, true),
        _ => field.as_ref().clone(),
    });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}
