//! Time to live: an answer at a horizon is the same before and after all merges, and what has ended
//! leaves the disk.

use std::time::Duration;

use lazybase_cluster::{Settings, StageName};
use lazybase_query::Session;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::limits::World;
use crate::{in_memory, rows};

/// How long rows live in these tests: about as long as a few statements take.
const TTL_MS: i64 = 40;

/// A write of one batch: rows by key, with a moment so many milliseconds around now, or deletes.
#[derive(Debug, Clone)]
enum Write {
    Upserts(Vec<(i64, i64)>),
    Deletes(Vec<i64>),
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => prop::collection::vec((0..20_i64, -60..40_i64), 1..10).prop_map(Write::Upserts),
        1 => prop::collection::vec(0..20_i64, 1..5).prop_map(Write::Deletes),
    ]
}

/// The answers at all horizons but the newest, whose as-of time goes on.
async fn past(session: &Session, through: u64) -> Vec<Vec<Vec<String>>> {
    let mut answers = Vec::new();
    for scu in 1..through {
        let sql = format!("SELECT k, n FROM t ORDER BY k AS OF SCU {scu}");
        answers.push(rows(session, &sql).await);
        let sql = format!("SELECT count(*) FROM t WHERE k < 10 AS OF SCU {scu}");
        answers.push(rows(session, &sql).await);
        let sql = format!("SELECT n FROM t WHERE k = 3 AS OF SCU {scu}");
        answers.push(rows(session, &sql).await);
    }
    answers
}

async fn story(writes: &[Write], layout: &str) -> Result<(), TestCaseError> {
    let database = in_memory(Settings::default()).await;
    let instance = database.instance();
    for stage in [StageName::Sort, StageName::Merge, StageName::Authority] {
        instance.pause(stage).await.unwrap();
    }
    let session = database.session();
    let create = format!(
        "CREATE TABLE t (k BIGINT PRIMARY KEY, at TIMESTAMP, n BIGINT) \
         WITH (ttl = '{TTL_MS} ms', ttl_column = 'at', layout = '{layout}')"
    );
    rows(&session, &create).await;
    let mut through = 0;
    for (n, write) in writes.iter().enumerate() {
        let sql = match write {
            Write::Upserts(upserts) => {
                let row = |(k, shift): &(i64, i64)| {
                    let at = chrono_micros(instance.now_micros() + shift * 1_000);
                    format!("({k}, {at}, {n})")
                };
                let values: Vec<String> = upserts.iter().map(row).collect();
                format!("INSERT INTO t VALUES {}", values.join(", "))
            }
            Write::Deletes(keys) => {
                let keys: Vec<String> = keys.iter().map(i64::to_string).collect();
                format!("DELETE FROM t WHERE k IN ({})", keys.join(", "))
            }
        };
        rows(&session, &sql).await;
        through = instance.seal().await.unwrap().0;
        if n % 3 == 2 {
            tokio::time::sleep(Duration::from_millis(TTL_MS as u64 / 2)).await;
        }
    }
    let before = past(&session, through).await;
    for stage in [StageName::Sort, StageName::Merge, StageName::Authority] {
        instance.resume(stage).await.unwrap();
    }
    rows(&session, "SETTLE").await;
    prop_assert_eq!(&past(&session, through).await, &before);
    // Another batch, by which everything so far has ended, and what it throws away.
    tokio::time::sleep(Duration::from_millis(TTL_MS as u64 + 50)).await;
    rows(&session, "INSERT INTO t VALUES (1000, '2999-01-01', 0)").await;
    instance.seal().await.unwrap();
    rows(&session, "INSERT INTO t VALUES (1001, '2999-01-01', 0)").await;
    rows(&session, "SETTLE").await;
    prop_assert_eq!(&past(&session, through).await, &before);
    prop_assert_eq!(
        rows(&session, "SELECT k FROM t ORDER BY k").await,
        [["1000"], ["1001"]]
    );
    let report = instance.verify(&|_| {}).await.unwrap();
    prop_assert!(report.is_whole(), "{:?}", report);
    database.close().await.unwrap();
    Ok(())
}

/// A moment as SQL.
fn chrono_micros(micros: i64) -> String {
    format!("to_timestamp_micros({micros})")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_the_same_before_and_after_merges(
        writes in prop::collection::vec(write(), 1..12),
        layout in prop::sample::select(vec!["scan", "point"]),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(story(&writes, layout))?;
    }
}

/// Segments whose rows have all ended go by themselves, once a later batch says what time it is,
/// though no change meets their keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_segments_leave_the_authority() {
    let world = World::with(Settings::default()).await;
    let database = &world.database;
    let session = database.session();
    rows(
        &session,
        "CREATE TABLE t (k BIGINT, at TIMESTAMP, PRIMARY KEY (k, at)) \
         WITH (ttl = '1 hour', ttl_column = 'at')",
    )
    .await;
    rows(&session, "CREATE TABLE other (k INT PRIMARY KEY)").await;
    let soon = database.instance().now_micros();
    let insert = format!(
        "INSERT INTO t SELECT x, to_timestamp_micros({soon}) FROM generate_series(1, 5000) AS t(x)"
    );
    rows(&session, &insert).await;
    rows(&session, "SETTLE").await;
    let stored = "SELECT stored_rows FROM lazybase.tables WHERE name = 't'";
    assert_eq!(rows(&session, stored).await, [["5000"]]);
    world.hurry(Duration::from_secs(2 * 3600));
    rows(&session, "INSERT INTO other VALUES (1)").await;
    rows(&session, "SETTLE").await;
    for _ in 0..600 {
        if rows(&session, stored).await == [["0"]] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(rows(&session, stored).await, [["0"]]);
    assert_eq!(rows(&session, "SELECT count(*) FROM t").await, [["0"]]);
    database.close().await.unwrap();
}

/// A merge of rows that were written before a column was dropped looks at their moment, and at
/// no other column that now stands in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_column_ends_no_rows() {
    let database = in_memory(Settings::default()).await;
    let session = database.session();
    let create = "CREATE TABLE t (k BIGINT PRIMARY KEY, a INT, born TIMESTAMP, at TIMESTAMP) \
                  WITH (ttl = '1 day', ttl_column = 'at')";
    rows(&session, create).await;
    rows(&session, "PAUSE STAGE authority").await;
    let insert = "INSERT INTO t VALUES (1, 1, '1970-01-01', '2999-01-01'), \
                  (2, 2, '2999-01-01', '1970-01-01')";
    rows(&session, insert).await;
    rows(&session, "SETTLE TO SORTED").await;
    rows(&session, "ALTER TABLE t DROP COLUMN a").await;
    rows(&session, "RESUME STAGE authority").await;
    rows(&session, "SETTLE").await;
    let left = rows(&session, "SELECT k FROM t").await;
    assert_eq!(left, vec![vec!["1".to_owned()]]);
    let checked = database.instance().verify(&|_| {}).await.unwrap();
    assert_eq!(checked.problems, Vec::<String>::new());
    database.close().await.unwrap();
}
