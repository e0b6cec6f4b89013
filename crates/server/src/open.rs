//! Opening and closing the database that `--db` or `LAZYBASE_DB` names.

use std::path::PathBuf;

use lazybase_cluster::Settings;
use lazybase_model::{Error, Freshness, Result};
use lazybase_query::{Database, OpenOptions};

/// Whether a command makes the database that it does not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It does.
    Create,
    /// It is an error.
    Refuse,
}

/// The folder, or an error that says how to name one.
pub(crate) fn folder(db: Option<PathBuf>) -> Result<PathBuf> {
    db.ok_or_else(|| {
        Error::invalid("no database is named")
            .with_hint("give --db DIR, or set LAZYBASE_DB to the database's folder")
    })
}

/// Opens the database.
pub(crate) async fn database(db: Option<PathBuf>, missing: Missing) -> Result<Database> {
    database_with(db, missing, settings()?).await
}

/// Opens the database with settings of its own.
pub(crate) async fn database_with(
    db: Option<PathBuf>,
    missing: Missing,
    settings: Settings,
) -> Result<Database> {
    let options = OpenOptions {
        create: missing == Missing::Create,
        settings,
    };
    Database::open_with(folder(db)?, options).await
}

/// The environment variables that set limits, in bytes.
const BATCH_BYTES_MAX: &str = "LAZYBASE_BATCH_BYTES_MAX";
const QUERY_MEMORY: &str = "LAZYBASE_QUERY_MEMORY";

/// The environment variable that sets how long horizons stay readable.
const RETENTION: &str = "LAZYBASE_RETENTION";

/// The settings of the database, as far as the environment changes them.
pub(crate) fn settings() -> Result<Settings> {
    let mut settings = Settings::default();
    if let Some(bytes) = bytes_of(BATCH_BYTES_MAX)? {
        settings.batch_bytes_max = bytes;
    }
    if let Some(bytes) = bytes_of(QUERY_MEMORY)? {
        settings.query_memory = bytes;
    }
    if let Some(text) = std::env::var_os(RETENTION) {
        let bound = text.to_str().and_then(|text| text.parse().ok());
        let Some(Freshness::Within(retention)) = bound else {
            return Err(
                Error::invalid(format!("{RETENTION} is not a duration: {text:?}"))
                    .with_hint("give seconds, or a number and a unit, such as '2 h'"),
            );
        };
        settings.retention = retention;
    }
    Ok(settings)
}

fn bytes_of(variable: &str) -> Result<Option<u64>> {
    let Some(text) = std::env::var_os(variable) else {
        return Ok(None);
    };
    let bytes = text.to_str().and_then(|text| text.trim().parse().ok());
    match bytes {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(Error::invalid(format!(
            "{variable} is not a number of bytes: {text:?}"
        ))),
    }
}

/// Closes the database after a command; the command's own error comes first.
pub(crate) async fn close<T>(database: &Database, outcome: Result<T>) -> Result<T> {
    let closed = database.close().await;
    let value = outcome?;
    closed.map(|()| value)
}
