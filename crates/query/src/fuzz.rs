//! What users send, as functions over bytes: for fuzzing, and for the corpus that tests read. No
//! bytes make one of them panic, hang, or take memory that they do not pay for.
//!
//! Reads its argument; COPY goes into a database in memory, and is rolled back. Nothing else
//! calls it.

use std::io::Cursor;
use std::sync::{Arc, OnceLock};

use lazybase_cluster::Settings as DatabaseSettings;
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::MemoryStore;
pub use lazybase_engine::fuzz::Target;
pub use lazybase_engine::fuzz::corpus::{changes, is_survived};
#[cfg(fuzzing)]
pub use lazybase_engine::fuzz::memory;
use lazybase_model::label::{Label, parse_authorizations, show_authorizations};
use lazybase_model::{Freshness, OnMiss, Result, Token};
use tokio::runtime::{Builder, Runtime};

use crate::database::Database;
use crate::parse;
use crate::settings::Settings;
use crate::split::{is_complete, split_statements};

#[cfg(test)]
mod tests;

/// Every target with its name, as the corpus and `fuzz/run` have it.
pub const TARGETS: [(&str, Target); 4] = [
    ("sql", read_sql),
    ("copy", read_copy),
    ("settings", read_settings),
    ("labels", read_label),
];

/// A text of SQL: cut into statements, read, and prepared where there is one.
pub fn read_sql(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = is_complete(&text);
    let Ok(statements) = split_statements(&text) else {
        return;
    };
    for statement in statements {
        let again = split_statements(&statement);
        assert!(
            again.is_ok(),
            "a statement can be read alone: {statement:?}"
        );
        let unbound = match parse::read(&statement) {
            Ok(unbound) => unbound,
            Err(error) => {
                let place = error.place();
                assert!(
                    place.is_none_or(|place| place.character_in(&statement).is_some()),
                    "{place:?} is a place of the statement: {statement:?}"
                );
                continue;
            }
        };
        let _ = unbound.finish();
        if let Some(world) = world() {
            let session = world.database.session();
            let _ = world.runtime.block_on(session.prepare(&statement));
        }
    }
}

/// The data of a COPY: the first byte chooses the format, the second the table.
pub fn read_copy(bytes: &[u8]) {
    let ([format, table, data @ ..], Some(world)) = (bytes, world()) else {
        return;
    };
    let format = [
        "csv",
        "csv, HEADER, DELIMITER ';', NULL 'n'",
        "csv, QUOTE '''', ESCAPE '\\'",
        "json",
        "parquet",
        "arrow",
    ][usize::from(*format) % 6];
    let table = ["types", "log", "sizes"][usize::from(*table) % 3];
    let sql = format!("COPY {table} FROM STDIN WITH (FORMAT {format})");
    let session = world.database.session();
    let input = Cursor::new(data.to_vec());
    world.runtime.block_on(async {
        let _ = session.execute("BEGIN").await;
        if let Ok(copied) = session.copy_from(&sql, input).await {
            let _ = copied.collect().await;
        }
        let _ = session.execute("ROLLBACK").await;
    });
}

/// A label of a row or cell; the same bytes as a list of authorizations.
pub fn read_label(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let authorizations = parse_authorizations(&text);
    if let Ok(all) = &authorizations {
        let again = parse_authorizations(&show_authorizations(all));
        assert_eq!(again.as_ref().ok(), Some(all), "what is shown is read back");
    }
    if let Ok(label) = Label::parse(&text) {
        let again = Label::parse(&label.to_string());
        assert_eq!(
            again.as_ref().ok(),
            Some(&label),
            "what is shown is read back"
        );
        let _ = label.admits(&authorizations.unwrap_or_default());
    }
}

/// A setting's name and value, one a line; the value also as what clauses and clients give.
pub fn read_settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (name, value) = text.split_once('\n').unwrap_or((&text, ""));
    let (mut settings, defaults) = (Settings::default(), Settings::default());
    let _ = settings.set(name.trim(), Some(value), &defaults);
    let _ = settings.show(name.trim());
    let _ = settings.set(name.trim(), None, &defaults);
    if let Ok(freshness) = value.parse::<Freshness>() {
        let again = freshness.to_string().parse::<Freshness>();
        assert!(again.is_ok(), "{freshness} is what it says");
    }
    if let Ok(token) = value.parse::<Token>() {
        assert_eq!(
            token.to_string().parse::<Token>().ok(),
            Some(token),
            "{token}"
        );
    }
    let _ = value.parse::<OnMiss>();
}

/// A database with some tables.
pub struct World {
    /// Where its work is done.
    pub runtime: Runtime,
    /// The database, in memory.
    pub database: Database,
}

/// The database of this process; `None` where none can be had.
pub fn world() -> Option<&'static World> {
    static WORLD: OnceLock<Option<World>> = OnceLock::new();
    WORLD.get_or_init(|| made().ok()).as_ref()
}

/// The stack of whoever plans, in bytes: planning recurses, deeper where nothing is optimised.
pub const STACK_BYTES: usize = 16 << 20;

fn made() -> Result<World> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(|error| lazybase_model::Error::internal(error.to_string()))?;
    let database = runtime.block_on(async {
        let env = Env::system(Arc::new(MemoryStore::new()));
        let database = Database::open_env(env, DatabaseSettings::default()).await?;
        database.session().execute(TABLES).await?;
        Ok::<_, lazybase_model::Error>(database)
    })?;
    Ok(World { runtime, database })
}

const TABLES: &str = "
    CREATE TABLE types (k INT, s TEXT, b BOOLEAN, i BIGINT, u BIGINT UNSIGNED,
        r REAL, d DECIMAL(10, 2), y BYTEA, id UUID, day DATE, t TIME,
        at TIMESTAMP, z TIMESTAMP WITH TIME ZONE, v VARCHAR(3), l INT[],
        n INTERVAL, c STRUCT<a INT, b TEXT>, hits BIGINT MERGE SUM, PRIMARY KEY (k, s));
    CREATE TABLE log (line TEXT, n INT DEFAULT 7);
    CREATE TABLE files (id IDKEY, host TEXT, path TEXT, PRIMARY KEY (host, path));
    CREATE TABLE sizes (f IDKEY REFERENCES files, at INT, n INT, PRIMARY KEY (f, at));
    CREATE MATERIALIZED VIEW by_n AS SELECT n, f, at FROM sizes ORDER BY n, f, at";
