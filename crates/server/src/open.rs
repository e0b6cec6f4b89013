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

/// The environment variable that sets the largest batch.
const BATCH_BYTES_MAX: &str = "LAZYBASE_BATCH_BYTES_MAX";

/// The environment variable that sets how long horizons stay readable.
const RETENTION: &str = "LAZYBASE_RETENTION";

/// The settings of the database, as far as the environment changes them.
pub(crate) fn settings() -> Result<Settings> {
    let mut settings = Settings::default();
    if let Some(text) = std::env::var_os(BATCH_BYTES_MAX) {
        let bytes = text.to_str().and_then(|text| text.trim().parse().ok());
        settings.batch_bytes_max = bytes.ok_or_else(|| {
            Error::invalid(format!(
                "{BATCH_BYTES_MAX} is not a number of bytes: {text:?}"
            ))
        })?;
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

/// Closes the database after a command; the command's own error comes first.
pub(crate) async fn close<T>(database: &Database, outcome: Result<T>) -> Result<T> {
    let closed = database.close().await;
    let value = outcome?;
    closed.map(|()| value)
}
