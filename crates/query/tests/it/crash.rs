//! Power cuts under SQL: statements that make tables and write rows are there whole or not at all.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use lazybase_cluster::Settings;
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_query::{Database, Session};

fn settings() -> Settings {
    Settings {
        // Nothing happens by itself, so that the operations are those of the statements.
        seal_age: Duration::from_secs(3600),
        ..Settings::default()
    }
}

async fn open(store: MemoryStore) -> Database {
    let env = Env::system(Arc::new(store));
    Database::open_env(env, settings()).await.unwrap()
}

/// The count of a table's rows; `None` where there is no such table.
async fn count(session: &Session, table: &str) -> Option<i64> {
    let asked = format!("SELECT count(*) FROM {table}");
    match session.execute(&asked).await {
        Ok(answers) => {
            let counts = answers[0].batches[0].column(0).as_primitive::<Int64Type>();
            Some(counts.value(0))
        }
        Err(error) => {
            assert_eq!(error.sqlstate(), "42P01", "{error}");
            None
        }
    }
}

/// Runs `sql` over a table of 20,000 rows, cuts the power after operations of the store while it
/// runs, and checks what each image holds of `tables`: all of `before`, or all of `after`.
async fn cut_everywhere(
    sql: &str,
    tables: [&str; 2],
    before: [Option<i64>; 2],
    after: [Option<i64>; 2],
) {
    let store = MemoryStore::new();
    let database = open(store.clone()).await;
    let session = database.session();
    let setup = "CREATE TABLE base (k INT PRIMARY KEY, v TEXT);
        INSERT INTO base SELECT x, repeat('v', 200) FROM generate_series(1, 20000) AS s (x)";
    session.execute(setup).await.unwrap();
    let begun = store.operations();
    session.execute(sql).await.unwrap();
    let acknowledged = store.operations();
    database.close().await.unwrap();
    let mut seen = Vec::new();
    // After each operation, where time does not matter.
    let stride = match std::env::var("LAZYBASE_EVERY_CASE").is_ok() {
        true => 1,
        false => 3,
    };
    let end = store.operations();
    for cut in (begun..end).step_by(stride).chain([end]) {
        for unsynced in [Unsynced::Nothing, Unsynced::Prefix(cut as u64)] {
            let database = open(store.crash_image(cut, unsynced)).await;
            let session = database.session();
            let mut found = [None; 2];
            for (found, table) in found.iter_mut().zip(tables) {
                *found = count(&session, table).await;
            }
            assert!(found == after || found == before, "{found:?} at {cut}");
            assert!(found == after || cut < acknowledged, "lost at {cut}");
            seen.push(found == after);
            // The database goes on: the statement can be run, again where it was not kept.
            if found == before {
                session.execute(sql).await.unwrap();
                assert_eq!(count(&session, tables[0]).await, after[0]);
            }
            database.close().await.unwrap();
        }
    }
    assert!(seen.contains(&true) && seen.contains(&false));
}

#[tokio::test(flavor = "multi_thread")]
async fn create_table_as_is_atomic() {
    cut_everywhere(
        "CREATE TABLE copied (PRIMARY KEY (k)) AS SELECT * FROM base WHERE k <= 15000",
        ["copied", "base"],
        [None, Some(20_000)],
        [Some(15_000), Some(20_000)],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_there_with_the_rows_of_its_transaction() {
    cut_everywhere(
        "BEGIN;
         CREATE TABLE copied AS SELECT * FROM base WHERE k <= 100;
         CREATE VIEW few AS SELECT k FROM copied WHERE k <= 10;
         COMMIT",
        ["few", "copied"],
        [None, None],
        [Some(10), Some(100)],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_with_ddl_is_atomic() {
    cut_everywhere(
        "BEGIN;
         CREATE TABLE copied AS SELECT * FROM base;
         TRUNCATE base;
         INSERT INTO base SELECT * FROM copied WHERE k < 10;
         INSERT INTO copied SELECT * FROM base;
         COMMIT",
        ["copied", "base"],
        [None, Some(20_000)],
        [Some(20_009), Some(9)],
    )
    .await;
}
