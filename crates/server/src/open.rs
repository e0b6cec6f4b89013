//! Opening and closing the database that `--db` or `LAZYBASE_DB` names.

use std::path::PathBuf;

use lazybase_cluster::Settings;
use lazybase_model::{Error, Result};
use lazybase_query::{Database, OpenOptions, SessionDefaults};
use tokio::runtime::Handle;

use crate::config;

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
    database_with(db, missing, settings()).await
}

/// Opens the database with settings of its own.
pub(crate) async fn database_with(
    db: Option<PathBuf>,
    missing: Missing,
    settings: Settings,
) -> Result<Database> {
    Database::open_with(folder(db)?, options(missing, settings)).await
}

/// Opens the database to be served, or makes it: with threads for heavy statements.
pub(crate) async fn served(folder: PathBuf, heavy_threads: Handle) -> Result<Database> {
    let options = OpenOptions {
        heavy_threads: Some(heavy_threads),
        ..options(Missing::Create, settings())
    };
    Database::open_with(folder, options).await
}

fn options(missing: Missing, settings: Settings) -> OpenOptions {
    let config = config::in_force();
    OpenOptions {
        create: missing == Missing::Create,
        settings,
        sessions: SessionDefaults {
            statement_timeout: config.statement_timeout,
            slow_query: config.slow_query,
        },
        heavy_threads: None,
    }
}

/// The settings of the database, as the configuration has them.
pub(crate) fn settings() -> Settings {
    config::in_force().settings
}

/// Closes the database after a command; the command's own error comes first.
pub(crate) async fn close<T>(database: &Database, outcome: Result<T>) -> Result<T> {
    let closed = database.close().await;
    let value = outcome?;
    closed.map(|()| value)
}
