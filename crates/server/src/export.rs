//! `lazybase export`: a table or a query's rows into one file.
//!
//! Rows stream from the query to the file. The file gets its name when it is whole, so that a
//! failed export leaves nothing that looks like a result.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::csv;
use arrow::datatypes::SchemaRef;
use arrow::json;
use arrow::json::writer::LineDelimited;
use futures::StreamExt;
use lazybase_model::{Result, Stamp};
use lazybase_query::Database;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::cli::{ExportArgs, FileFormat};
use crate::failure;
use crate::figures::counted;
use crate::load::format_of;
use crate::names::{folded, quoted};
use crate::open::{self, Missing};
use crate::render::{csv_writer, flat, json_writer};
use crate::wall;

/// Runs the command.
pub(crate) async fn run(db: Option<PathBuf>, args: ExportArgs) -> Result<()> {
    let format = format_of(&args.file, args.format)?;
    let sql = match (&args.query, &args.table) {
        (Some(query), _) => query.clone(),
        (None, table) => format!(
            "SELECT * FROM {}",
            quoted(&folded(table.as_deref().unwrap_or("")))
        ),
    };
    let database = open::database(db, Missing::Refuse).await?;
    let exported = export(&database, &sql, &args.file, format).await;
    let (rows, stamp) = open::close(&database, exported).await?;
    eprintln!("wrote {} to {}", counted(rows, "row"), args.file.display());
    if let Some(stamp) = stamp {
        eprintln!("{stamp}");
    }
    Ok(())
}

async fn export(
    database: &Database,
    sql: &str,
    file: &Path,
    format: FileFormat,
) -> Result<(u64, Option<Stamp>)> {
    let session = database.session();
    let mut stream = session.query(sql).await?;
    let mut name = file.as_os_str().to_owned();
    name.push(".partial");
    let partial = PathBuf::from(name);
    let mut sink = Sink::new(format, stream.schema(), wall::create_file(&partial)?)?;
    let mut rows = 0;
    let written: Result<()> = async {
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            sink.write(&batch)?;
        }
        sink.finish()
    }
    .await;
    match written.and_then(|()| wall::rename(&partial, file)) {
        Ok(()) => Ok((rows, stream.stamp().cloned())),
        Err(error) => {
            wall::remove_file(&partial);
            Err(error.within(file.display()))
        }
    }
}

/// A file being written in one of the formats.
enum Sink {
    Parquet(Box<ArrowWriter<File>>),
    Csv(Box<csv::Writer<BufWriter<File>>>),
    Jsonl(Box<json::Writer<BufWriter<File>, LineDelimited>>),
}

impl Sink {
    fn new(format: FileFormat, schema: SchemaRef, file: File) -> Result<Sink> {
        match format {
            FileFormat::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .build();
                ArrowWriter::try_new(file, schema, Some(properties))
                    .map(|writer| Sink::Parquet(Box::new(writer)))
                    .map_err(|error| failure::parquet("Parquet", &error))
            }
            FileFormat::Csv => {
                let mut writer = csv_writer(BufWriter::new(file));
                // The header stands even where no row follows.
                let header = flat(&RecordBatch::new_empty(schema))?;
                let written = writer.write(&header);
                written.map_err(|error| failure::arrow("CSV", &error))?;
                Ok(Sink::Csv(Box::new(writer)))
            }
            FileFormat::Jsonl => Ok(Sink::Jsonl(Box::new(json_writer(BufWriter::new(file))))),
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Sink::Parquet(writer) => writer
                .write(batch)
                .map_err(|error| failure::parquet("Parquet", &error)),
            Sink::Csv(writer) => writer
                .write(&flat(batch)?)
                .map_err(|error| failure::arrow("CSV", &error)),
            Sink::Jsonl(writer) => writer
                .write(batch)
                .map_err(|error| failure::arrow("JSON", &error)),
        }
    }

    fn finish(self) -> Result<()> {
        let flushed = match self {
            Sink::Parquet(writer) => {
                let closed = writer.close();
                return closed
                    .map(drop)
                    .map_err(|error| failure::parquet("Parquet", &error));
            }
            Sink::Csv(writer) => writer.into_inner().flush(),
            Sink::Jsonl(mut writer) => {
                let finished = writer.finish();
                finished.map_err(|error| failure::arrow("JSON", &error))?;
                writer.into_inner().flush()
            }
        };
        flushed.map_err(|error| failure::io("file", &error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, RecordBatch};

    use super::Sink;
    use crate::cli::FileFormat;
    use crate::wall;

    #[test]
    fn each_format_holds_the_rows() {
        let folder = tempfile::tempdir().unwrap();
        let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let written = |format, name: &str| {
            let path = folder.path().join(name);
            let file = wall::create_file(&path).unwrap();
            let mut sink = Sink::new(format, batch.schema(), file).unwrap();
            sink.write(&batch).unwrap();
            sink.finish().unwrap();
            std::fs::read(path).unwrap()
        };
        assert_eq!(written(FileFormat::Csv, "a.csv"), b"n\n1\n\"\"\n");
        assert_eq!(
            written(FileFormat::Jsonl, "a.jsonl"),
            b"{\"n\":1}\n{\"n\":null}\n"
        );
        assert!(written(FileFormat::Parquet, "a.parquet").starts_with(b"PAR1"));
    }
}
