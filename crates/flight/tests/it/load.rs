//! Clients that read nothing, vanish or give up, and many of them at a time.

use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use lazybase_flight::Options;
use lazybase_query::OpenOptions;

use crate::queries::cancel;
use crate::served::{
    Client, Served, fetch, ingest, ingest_into, pairs, query, sqlstate, text, ticket,
};

/// Clients at a time.
const MANY: i64 = 100;

/// A sort of more than there is memory, whose end nobody waits for.
const SPILLS: &str = "SELECT x FROM (
        SELECT x, concat(repeat('v', 90), CAST(x AS TEXT)) AS v
        FROM generate_series(1, 1000000000) AS s (x)
    ) AS r ORDER BY v";

impl Served {
    /// Waits until some statement has files pinned.
    async fn until_pinned(&self) {
        let pinned = async {
            while self.database.instance().pins().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let pinned = tokio::time::timeout(Duration::from_secs(30), pinned).await;
        pinned.expect("the statement runs");
    }

    /// A client whose sorts are one each: several would have parts of the memory each.
    async fn alone(&self) -> Client {
        let mut client = self.named().await;
        let parts = "SET datafusion.execution.target_partitions = 1";
        query(&mut client, parts).await.unwrap();
        client
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_holds_up_nobody_and_leaves_nothing() {
    let served = Served::start().await;
    served
        .sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT); \
             INSERT INTO t SELECT value, repeat(chr(97 + value % 26), 3000) \
             FROM generate_series(1, 40000) AS g (value)",
        )
        .await;
    let mut slow = served.client().await;
    let info = slow
        .execute("SELECT * FROM t".to_owned(), None)
        .await
        .unwrap();
    let mut rows = slow.do_get(ticket(&info)).await.unwrap();
    rows.next().await.unwrap().unwrap();
    served.until_pinned().await;
    let mut writer = served.client().await;
    for at in 0..10 {
        let batch = vec![pairs(100_000 + at..100_001 + at)];
        let sent = ingest(&mut writer, ingest_into("t", "append"), batch);
        let sent = tokio::time::timeout(Duration::from_secs(10), sent).await;
        assert_eq!(sent.expect("writers do not wait for readers").unwrap(), 1);
    }
    drop((rows, slow));
    served.until_nothing_is_held().await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sort_that_is_given_up_leaves_no_temporary_files() {
    let mut open = OpenOptions::default();
    open.settings.query_memory = 32 << 20;
    let served = Served::start_over(open, Options::default()).await;

    let (mut client, mut other) = (served.alone().await, served.client().await);
    let info = client.execute(SPILLS.to_owned(), None).await.unwrap();
    let told = info.clone();
    let cancelling = async {
        served.until_spilt().await;
        cancel(&mut other, told).await
    };
    let (over, cancelled) = tokio::join!(fetch(&mut client, &info), cancelling);
    assert_eq!((sqlstate(over), cancelled), ("57014".to_owned(), 1));
    served.until_nothing_is_held().await;

    client.set_header("lazybase-timeout", "2s");
    let (over, ()) = tokio::join!(query(&mut client, SPILLS), served.until_spilt());
    assert_eq!(sqlstate(over), "57014");
    served.until_nothing_is_held().await;

    let mut client = served.alone().await;
    let reading = tokio::spawn(async move { query(&mut client, SPILLS).await.map(drop) });
    served.until_spilt().await;
    reading.abort();
    served.until_nothing_is_held().await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_clients_write_and_read_at_a_time() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        .await;
    let work = (0..MANY).map(|at| {
        let served = &served;
        async move {
            let mut client = served.client().await;
            let batch = vec![pairs(10 * at..10 * at + 10)];
            let sent = ingest(&mut client, ingest_into("t", "append"), batch).await;
            assert_eq!(sent.unwrap(), 10);
            let own = format!("SELECT v FROM t WHERE k = {}", 10 * at + 3);
            assert_eq!(text(&mut client, &own).await, format!("v{}", 10 * at + 3));
        }
    });
    join_all(work).await;
    let count = served.read("SELECT count(*) FROM t").await;
    assert_eq!(count, (10 * MANY).to_string());
    served.until_nothing_is_held().await;
    served.stop().await;
}

/// Told with the answer, so that whoever asks can choose another bound the next time.
#[tokio::test]
async fn the_stamp_says_what_a_staler_answer_would_have_saved() {
    let served = Served::start().await;
    served
        .sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY); INSERT INTO t VALUES (1); SETTLE; \
             PAUSE STAGE SORT; \
             INSERT INTO t SELECT value FROM generate_series(10, 50000) AS g (value)",
        )
        .await;
    let mut client = served.client().await;
    let fresh = query(&mut client, "SELECT max(k) FROM t FRESHNESS 0")
        .await
        .unwrap();
    let advice = fresh.last["stamp"]["advice"].as_str().unwrap();
    assert!(advice.contains("times less"), "{advice}");
    let stale = query(&mut client, "SELECT max(k) FROM t FRESHNESS 'best effort'").await;
    assert!(stale.unwrap().last["stamp"]["advice"].is_null());
    served.stop().await;
}
