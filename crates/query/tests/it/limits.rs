//! Limits that hold: a query that wants more memory than there is fails alone; a reader
//! that stands still stops nobody, and one that lost its pin is told so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use lazybase_cluster::{Settings, SettleTo};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::env::{Clock, Env};
use lazybase_model::ErrorKind;
use lazybase_model::limits::PIN_LIFETIME;
use lazybase_query::Database;

use crate::rows;

async fn open(settings: Settings) -> Database {
    let env = Env::system(Arc::new(MemoryStore::new()));
    Database::open_env(env, settings).await.unwrap()
}

/// 200,000 rows, about 20 MB of texts that are all different.
const BIG: &str = "CREATE TABLE big (k INT PRIMARY KEY, v TEXT);
    INSERT INTO big SELECT x, concat(repeat('v', 90), CAST(x AS TEXT))
        FROM generate_series(1, 200000) AS s (x)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_past_its_memory_fails_alone() {
    let database = open(Settings {
        query_memory: 12 << 20,
        ..Settings::default()
    })
    .await;
    let session = database.session();
    session.execute(BIG).await.unwrap();
    // The build side of a join can't be spilt.
    let other = database.session();
    let greedy = session.execute("SELECT count(*) FROM big AS a JOIN big AS b ON a.v = b.v");
    let modest = rows(&other, "SELECT count(*) FROM big WHERE k <= 1000");
    let (refused, counted) = tokio::join!(greedy, modest);
    let refused = refused.unwrap_err();
    assert_eq!(refused.sqlstate(), "53200", "{refused:?}");
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.hint().is_some(), "{refused:?}");
    assert_eq!(counted, [["1000"]]);
    // Nothing of it is left: the same session goes on.
    let after = rows(&session, "SELECT max(k) FROM big WHERE v LIKE '%7'");
    assert_eq!(after.await, [["199997"]]);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stands_still_stops_nobody() {
    let database = open(Settings {
        retention: Duration::ZERO,
        ..Settings::default()
    })
    .await;
    let session = database.session();
    session.execute(BIG).await.unwrap();
    let reader = database.session();
    let mut standing = reader.query("SELECT k, v FROM big").await.unwrap();
    let first = standing.next().await.unwrap().unwrap();
    let mut seen = first.num_rows();
    // Everything is written anew, comes to the authority, and is collected, while it stands.
    for part in 0..20 {
        let sql = format!(
            "UPDATE big SET v = 'new' WHERE k > {0} AND k <= {0} + 10000",
            part * 10_000
        );
        session.execute(&sql).await.unwrap();
    }
    let settled = database
        .instance()
        .settle(None, SettleTo::Authority, &|_| {});
    settled.await.unwrap();
    assert_eq!(
        rows(&session, "SELECT count(*) FROM big WHERE v = 'new'").await,
        [["200000"]]
    );
    // It reads on at its own horizon: all rows, and none of the new.
    let mut texts = rows_of(&first);
    while let Some(batch) = standing.next().await {
        let batch = batch.unwrap();
        seen += batch.num_rows();
        texts += rows_of(&batch);
    }
    assert_eq!((seen, texts), (200_000, 200_000));
    database.close().await.unwrap();
}

/// How many rows hold the text that they had first.
fn rows_of(batch: &arrow::array::RecordBatch) -> usize {
    let texts = batch.column(1);
    let texts = arrow::array::AsArray::as_string::<i32>(texts.as_ref());
    texts
        .iter()
        .filter(|text| text.is_some_and(|text| text.starts_with("vvv")))
        .count()
}

/// A clock that can be moved on.
struct Hurried {
    inner: Arc<dyn Clock>,
    ahead_ms: AtomicU64,
}

#[async_trait]
impl Clock for Hurried {
    fn wall_micros(&self) -> i64 {
        self.inner.wall_micros()
    }

    fn monotonic(&self) -> Duration {
        self.inner.monotonic() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }

    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_lost_its_pin_is_told_so_and_misses_no_row() {
    let system = Env::system(Arc::new(MemoryStore::new()));
    let clock = Arc::new(Hurried {
        inner: Arc::clone(&system.clock),
        ahead_ms: AtomicU64::new(0),
    });
    let env = Env {
        clock: clock.clone(),
        ..system
    };
    let database = Database::open_env(env, Settings::default()).await.unwrap();
    let session = database.session();
    session.execute(BIG).await.unwrap();
    session.execute("SETTLE").await.unwrap();
    session
        .execute("SET datafusion.execution.batch_size = 1000")
        .await
        .unwrap();
    let mut standing = session.query("SELECT k, v FROM big").await.unwrap();
    let mut seen = standing.next().await.unwrap().unwrap().num_rows();
    let ahead_ms = PIN_LIFETIME.as_millis() as u64 * 3;
    clock.ahead_ms.store(ahead_ms, Ordering::SeqCst);
    let lost = loop {
        match standing.next().await {
            None => break None,
            Some(Ok(batch)) => seen += batch.num_rows(),
            Some(Err(error)) => break Some(error),
        }
    };
    match lost {
        Some(error) => {
            assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error:?}");
            assert!(seen < 200_000);
        }
        None => assert_eq!(seen, 200_000, "an end without an error has all rows"),
    }
    // Asked again, it gets all.
    assert_eq!(
        rows(&session, "SELECT count(*) FROM big").await,
        [["200000"]]
    );
    database.close().await.unwrap();
}
