//! `lazybase export`: a table, a system table or a query's rows into one file.
//!
//! Rows stream from the query to the file. The file gets its name when it is whole, so that a
//! failed export leaves nothing that looks like a result; pipes and devices are written to as they
//! are.

use std::path::{Path, PathBuf};

use futures::StreamExt;
use lazybase_model::{Result, Stamp};
use lazybase_query::{CsvSpelling, Database, FileForm, RowsFile};

use crate::cli::ExportArgs;
use crate::failure;
use crate::figures::counted;
use crate::load::format_of;
use crate::names::readable;
use crate::open::{self, Missing};
use crate::source::FileFormat;
use crate::wall::{self, Place};

/// Runs the command.
pub(crate) async fn run(db: Option<PathBuf>, args: ExportArgs) -> Result<()> {
    let format = format_of(&args.file, args.format)?;
    let sql = match (&args.query, &args.table) {
        (Some(query), _) => query.clone(),
        (None, table) => format!("SELECT * FROM {}", readable(table.as_deref().unwrap_or(""))),
    };
    let database = open::database(db, Missing::Refuse).await?;
    let exported = export(&database, &sql, &args.file, format).await;
    let (rows, stamp) = open::close(&database, exported).await?;
    let count = counted(rows, "row");
    failure::note(&format!("wrote {count} to {}\n", shown(&args.file)));
    if let Some(stamp) = stamp {
        failure::note(&format!("{stamp}\n"));
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
    let mut stream = session.read(sql).await?;
    let place = match is_standard_output(file) {
        true => Place::Other(wall::standard_output()?),
        false => wall::place_of(file)?,
    };
    let (made, unfinished) = match place {
        Place::File(target) => {
            let (made, partial) = wall::create_beside(&target)?;
            (made, Some((partial, target)))
        }
        Place::Other(opened) => (opened, None),
    };
    let mut rows = 0;
    let written: Result<()> = async {
        let name = shown(file);
        let schema = stream.schema();
        let mut file_rows = RowsFile::into_file(made, &name, form_of(format), &schema)?;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            file_rows.write(&batch)?;
        }
        file_rows.finish()
    }
    .await;
    let named = written.and_then(|()| match &unfinished {
        Some((partial, target)) => wall::rename(partial, target),
        None => Ok(()),
    });
    match named {
        Ok(()) => Ok((rows, stream.stamp().cloned())),
        Err(error) => {
            if let Some((partial, _)) = &unfinished {
                wall::remove_file(partial);
            }
            let place = shown(file);
            Err(match error.message().starts_with(&place) {
                true => error,
                false => error.within(place),
            })
        }
    }
}

fn is_standard_output(file: &Path) -> bool {
    file == Path::new("-")
}

/// The file's path in words.
fn shown(file: &Path) -> String {
    match is_standard_output(file) {
        true => "standard output".to_owned(),
        false => file.display().to_string(),
    }
}

/// How a file of the format is written.
fn form_of(format: FileFormat) -> FileForm {
    match format {
        FileFormat::Parquet => FileForm::Parquet,
        FileFormat::Csv | FileFormat::Tsv => FileForm::Csv {
            header: true,
            spelling: CsvSpelling::of_delimiter(match format {
                FileFormat::Tsv => '\t',
                _ => ',',
            }),
        },
        FileFormat::Jsonl => FileForm::Json,
    }
}
