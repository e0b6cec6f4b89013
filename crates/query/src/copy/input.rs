//! The rows of a file, or of standard input, as batches for a table.
//!
//! Reads what the user names or sends; writes nothing, but for a nameless temporary file where
//! Parquet comes through a pipe: its directory stands at its end.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_model::{Error, Result, Table};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use super::arrow_stream::ArrowStream;
use super::csv::{Dialect, Records};
use super::json_rows::{JsonColumn, JsonRows};
use super::text::Lines;
use super::{Format, ascii, delimiter, drain, io, null_of};
use crate::cast::{check_digits, place};
use crate::dml::insert::{column, columns_given};
use crate::error::{arrow_fact, from_given, parquet_fact};
use crate::guard::unpanicked;
use crate::id_keys::key_names;
use crate::parse::{CopyFile, CopyPlace};
use crate::types;
use crate::visible::Visible;

/// The data of a `COPY ... FROM STDIN`.
pub(crate) type Input = Box<dyn BufRead + Send>;

/// The rows that are read at once.
const BATCH_ROWS: usize = 8192;

/// How a file of Arrow's begins; after this and zeros comes the stream.
const ARROW_FILE_MAGIC: &[u8] = b"ARROW1";

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Where the bytes come from.
enum Source {
    File(File),
    Input(Input),
}

impl Source {
    fn open(place: &CopyPlace, input: Option<Input>) -> Result<Source> {
        match (place, input) {
            (CopyPlace::Input | CopyPlace::Output, Some(input)) => Ok(Source::Input(input)),
            (CopyPlace::Input | CopyPlace::Output, None) => {
                Err(Error::invalid("COPY FROM STDIN has no data here")
                    .with_hint(
                        "lazybase sql sends what follows the statement; in Rust, call \
                     session.copy_from",
                    )
                    .with_sqlstate("0A000"))
            }
            (CopyPlace::File(path), _) => {
                let opened = File::open(path).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => {
                        Error::not_found(format!("{path}: there is no such file"))
                            .with_sqlstate("58P01")
                    }
                    _ => io(path)(error),
                })?;
                Ok(Source::File(opened))
            }
        }
    }

    fn reader(self) -> Input {
        match self {
            Source::File(file) => Box::new(BufReader::with_capacity(64 << 10, file)),
            Source::Input(input) => input,
        }
    }

    /// A file that can be read at any place.
    fn file(self) -> Result<File> {
        match self {
            Source::File(file) => Ok(file),
            Source::Input(mut input) => {
                let name = "a temporary file";
                let mut spooled = tempfile::tempfile().map_err(io(name))?;
                io::copy(&mut input, &mut spooled).map_err(io(name))?;
                spooled.rewind().map_err(io(name))?;
                Ok(spooled)
            }
        }
    }
}

/// The columns that the data give, and their rows.
pub(super) fn rows(
    table: &Arc<Table>,
    columns: &[String],
    file: &CopyFile,
    format: Format,
    input: Option<Input>,
    visible: &Visible,
) -> Result<(Vec<usize>, Batches)> {
    let source = Source::open(&file.place, input)?;
    match format {
        Format::Csv => {
            let given = columns_given(table, columns)?;
            let dialect = dialect(file, format, table, &given)?;
            let names = given.iter().map(|at| table.columns[*at].name.clone());
            let records = Records::new(source.reader(), dialect, names.collect())?;
            Ok((given, stream::iter(records).boxed()))
        }
        Format::Text => {
            let given = columns_given(table, columns)?;
            let names = given.iter().map(|at| table.columns[*at].name.clone());
            let lines = Lines::new(
                source.reader(),
                delimiter(file, format)?,
                null_of(file, format),
                file.header,
                names.collect(),
            )?;
            Ok((given, stream::iter(lines).boxed()))
        }
        Format::Binary if file.place != CopyPlace::Input => Err(Error::invalid(
            "files in PostgreSQL's binary format are not read",
        )
        .with_hint("a client sends them: COPY t FROM STDIN WITH (FORMAT binary)")
        .with_sqlstate("0A000")),
        Format::Json => {
            let given = columns_given(table, columns)?;
            let columns = given.iter().map(|at| {
                let column = &table.columns[*at];
                let given = match key_names(visible, column)? {
                    Some(key) => JsonColumn::of_key(&column.name, key),
                    None => JsonColumn::new(&column.name, &column.data_type),
                };
                Ok(given.of_table(&table.name))
            });
            let columns = columns.collect::<Result<Vec<JsonColumn>>>()?;
            let rows = JsonRows::new(source.reader(), columns, 1);
            Ok((given, stream::iter(rows).boxed()))
        }
        Format::Parquet => {
            let broken = |error| no_data("not a Parquet file", &parquet_fact(&error));
            let file = source.file()?;
            let reader = unpanicked(|| ParquetRecordBatchReaderBuilder::try_new(file))
                .unwrap_or_else(|panic| Err(ParquetError::General(panic)))
                .map_err(broken)?
                .with_batch_size(BATCH_ROWS)
                .build()
                .map_err(broken)?;
            let given = given_by(table, columns, &reader.schema())?;
            check_types(table, &given, &reader.schema())?;
            let rows = reader.map(arrow_batch);
            let rows = with_digits_kept(Arc::clone(table), given.clone(), rows);
            Ok((given, stream::iter(rows).boxed()))
        }
        Format::Arrow | Format::Binary => {
            let mut bytes = source.reader();
            skip_magic(&mut bytes)?;
            let reader = unpanicked(|| ArrowStream::begin(bytes))
                .unwrap_or_else(|panic| Err(ArrowError::IpcError(panic)))
                .map_err(|error| no_data("no Arrow data", &arrow_fact(&error)))?;
            let given = given_by(table, columns, &reader.schema())?;
            check_types(table, &given, &reader.schema())?;
            let rows = with_digits_kept(Arc::clone(table), given.clone(), ArrowBatches(reader));
            Ok((given, stream::iter(rows).boxed()))
        }
    }
}

/// Data that are not what they are said to be.
fn no_data(what: &str, fact: &str) -> Error {
    Error::invalid(format!("{what}: {fact}")).with_sqlstate("22P04")
}

/// How a file of CSV with these columns of a table is written.
fn dialect(file: &CopyFile, format: Format, table: &Table, given: &[usize]) -> Result<Dialect> {
    let (null, not_null) = (&file.force_null, &file.force_not_null);
    Ok(Dialect {
        delimiter: delimiter(file, format)?,
        quote: ascii(file.quote, "quote values")?,
        escape: ascii(file.escape, "escape quotes")?,
        null: null_of(file, format).into_bytes(),
        header: file.header,
        force_null: null.of_table("FORCE_NULL", table, given)?,
        force_not_null: not_null.of_table("FORCE_NOT_NULL", table, given)?,
        has_end: file.place == CopyPlace::Input,
    })
}

/// The batches of a stream of Arrow's; after its end the bytes are read to theirs.
struct ArrowBatches(ArrowStream);

impl Iterator for ArrowBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        match self.0.next() {
            Some(batch) => Some(arrow_batch(batch)),
            None => drain(self.0.input()).err().map(Err),
        }
    }
}

/// A file of Arrow's is its stream between a magic word and a directory.
fn skip_magic(bytes: &mut Input) -> Result<()> {
    let failed = |error| io("arrow data")(error);
    if !bytes
        .fill_buf()
        .map_err(failed)?
        .starts_with(ARROW_FILE_MAGIC)
    {
        return Ok(());
    }
    bytes.consume(ARROW_FILE_MAGIC.len());
    loop {
        let zeros = bytes.fill_buf().map_err(failed)?;
        let length = zeros.iter().take_while(|byte| **byte == 0).count();
        let more = length > 0 && length == zeros.len();
        bytes.consume(length);
        if !more {
            return Ok(());
        }
    }
}

/// The columns that are listed, in the order of the data; else by the names that the data give.
fn given_by(table: &Table, columns: &[String], schema: &Schema) -> Result<Vec<usize>> {
    if !columns.is_empty() {
        return columns_given(table, columns);
    }
    let names = schema.fields().iter().map(|field| field.name());
    let given = names.map(|name| match table.column_index(name) {
        Some(_) => column(table, name),
        None => column(table, &name.to_lowercase()),
    });
    // The data have these names, and no statement.
    given.map(|at| at.map_err(Error::elsewhere)).collect()
}

/// Values with types of their own are stored as they are; texts are read as SQL's constants.
fn check_types(table: &Table, given: &[usize], schema: &Schema) -> Result<()> {
    for (at, field) in given.iter().zip(schema.fields()) {
        let column = &table.columns[*at];
        let kept = types::storable(field.data_type());
        let is_read = kept.is_ok_and(|kept| kept == DataType::Utf8) || column.id_key.is_some();
        if !is_read && !types::may_fit(field.data_type(), &column.data_type) {
            return Err(types::lossy(table, column, field.data_type()));
        }
    }
    Ok(())
}

/// The batches, up to one with a value that has more digits than its column keeps.
fn with_digits_kept(
    table: Arc<Table>,
    given: Vec<usize>,
    rows: impl Iterator<Item = Result<RecordBatch>>,
) -> impl Iterator<Item = Result<RecordBatch>> {
    let mut first_row = 1;
    rows.map(move |batch| {
        let batch = batch?;
        for (at, values) in given.iter().zip(batch.columns()) {
            check_digits(values, &place(&table, *at, first_row))?;
        }
        first_row += batch.num_rows() as u64;
        Ok(batch)
    })
}

fn arrow_batch(batch: Result<RecordBatch, ArrowError>) -> Result<RecordBatch> {
    batch.map_err(|error| from_given(&error))
}
