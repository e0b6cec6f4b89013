//! `lazybase export`: a table or a query's rows into one file.
//!
//! Rows stream from the query to the file. The file gets its name when it is whole, so that a
//! failed export leaves nothing that looks like a result; pipes and devices are written to as they
//! are.

use std::path::{Path, PathBuf};

use futures::StreamExt;
use lazybase_model::{Result, Stamp};
use lazybase_query::{CsvSpelling, Database, FileForm, RowsFile};

use crate::cli::{ExportArgs, FileFormat};
use crate::figures::counted;
use crate::load::format_of;
use crate::names::{folded, quoted};
use crate::open::{self, Missing};
use crate::wall::{self, Place};

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
    let mut stream = session.read(sql).await?;
    let (made, unfinished) = match wall::place_of(file)? {
        Place::File(target) => {
            let (made, partial) = wall::create_beside(&target)?;
            (made, Some((partial, target)))
        }
        Place::Other(opened) => (opened, None),
    };
    let mut rows = 0;
    let written: Result<()> = async {
        let name = file.to_string_lossy();
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
            let place = file.display().to_string();
            Err(match error.message().starts_with(&place) {
                true => error,
                false => error.within(place),
            })
        }
    }
}

/// How a file of the format is written.
fn form_of(format: FileFormat) -> FileForm {
    match format {
        FileFormat::Parquet => FileForm::Parquet,
        FileFormat::Csv => FileForm::Csv {
            header: true,
            spelling: CsvSpelling::default(),
        },
        FileFormat::Jsonl => FileForm::Json,
    }
}
