//! Heavy statements, of which few run at a time: the others wait and are seen to, can be given up,
//! and are refused where too many wait. Nothing else waits for them, and who does not read keeps
//! nobody waiting.

use std::time::Duration;

use lazybase_pg::Options;
use lazybase_query::OpenOptions;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::raw::Raw;
use crate::served::{Served, cells, rows_of, sqlstate};

/// Pairs of its rows are some millions.
const TABLE: &str = "CREATE TABLE t (k INT PRIMARY KEY, v TEXT);
    INSERT INTO t SELECT value, repeat('v', 200) FROM generate_series(1, 3000) AS g (value)";

/// It waits for minutes, and keeps no processor busy.
const SLEEPS: &str = "SELECT pg_sleep(0.001) FROM t a, t b";

/// It is heavy, and soon done.
const PAIRS: &str = "SELECT count(*) FROM t a, t b WHERE a.k + b.k = 6000";

/// More bytes than lie between a server and a client that does not read.
const WIDE: &str = "SELECT a.v, b.v FROM t a, t b WHERE a.k + b.k > 0";

/// A server on which one heavy statement runs at a time, and so many wait.
async fn narrow(waiting: usize, heavy_threads: Option<Handle>) -> Served {
    let mut open = OpenOptions {
        heavy_threads,
        ..OpenOptions::default()
    };
    open.settings.heavy_statements = 1;
    open.settings.heavy_waiting = waiting;
    let served = Served::start_over(open, Options::default()).await;
    served.client().await.batch_execute(TABLE).await.unwrap();
    served
}

/// Waits until so many heavy statements run, and so many wait.
async fn until(served: &Served, running: usize, waiting: usize) {
    let database = &served.database;
    let reached = async {
        while (database.heavy_running(), database.heavy_waiting()) != (running, waiting) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(30), reached).await;
    let counts = (database.heavy_running(), database.heavy_waiting());
    reached.unwrap_or_else(|_| panic!("{counts:?}, not {:?}", (running, waiting)));
}

type Running = JoinHandle<Result<(), tokio_postgres::Error>>;

/// Sends a statement; its connection goes with it.
fn sent(client: Client, sql: &'static str) -> Running {
    tokio::spawn(async move { client.batch_execute(sql).await })
}

/// What a statement has come to, soon.
async fn soon(running: Running) -> Result<(), tokio_postgres::Error> {
    let ended = tokio::time::timeout(Duration::from_secs(30), running).await;
    ended.expect("it goes on for long").unwrap()
}

const WAITS: &str = "SELECT state, wait_event_type, wait_event FROM pg_stat_activity
    WHERE application_name = 'second'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_one_waits_is_seen_to_and_has_its_turn() {
    let served = narrow(9, None).await;
    let first = served.client().await;
    let ends_first = first.cancel_token();
    let first = sent(first, SLEEPS);
    until(&served, 1, 0).await;
    let second = served.connect("application_name=second").await.unwrap();
    let second = sent(second, PAIRS);
    until(&served, 1, 1).await;

    // Nothing else waits: reads by key and of little, writes, and questions about the server.
    let other = served.client().await;
    let seen = cells(&other, WAITS).await;
    assert_eq!(seen, [["active", "Admission", "HeavyStatements"]]);
    other
        .batch_execute(
            "BEGIN; INSERT INTO t VALUES (0, 'new'); UPDATE t SET v = 'w' WHERE k = 2; COMMIT;
             SET application_name = 'other'; SHOW application_name; EXPLAIN SELECT * FROM t a, t b",
        )
        .await
        .unwrap();
    let point = "SELECT v FROM t WHERE k = 2";
    assert_eq!(cells(&other, point).await, [["w"]]);
    let few = "SELECT count(*) FROM t WHERE v = 'new'";
    assert_eq!(cells(&other, few).await, [["1"]]);
    until(&served, 1, 1).await;

    ends_first.cancel_query(NoTls).await.unwrap();
    assert_eq!(sqlstate(soon(first).await), "57014");
    soon(second).await.unwrap();
    until(&served, 0, 0).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_waits_is_cancelled_and_has_its_time_at_once() {
    let served = narrow(9, None).await;
    let first = served.client().await;
    let ends_first = first.cancel_token();
    let first = sent(first, SLEEPS);
    until(&served, 1, 0).await;

    let second = served.client().await;
    let ends_second = second.cancel_token();
    let second = sent(second, PAIRS);
    until(&served, 1, 1).await;
    ends_second.cancel_query(NoTls).await.unwrap();
    assert_eq!(sqlstate(soon(second).await), "57014");
    until(&served, 1, 0).await;

    let third = served.client().await;
    let limit = "SET statement_timeout = '200ms'";
    third.batch_execute(limit).await.unwrap();
    assert_eq!(sqlstate(soon(sent(third, PAIRS)).await), "57014");
    until(&served, 1, 0).await;

    // One whose client has gone gives its place in line back too.
    let mut gone = Raw::new(&served).await;
    gone.query(PAIRS).send().await;
    until(&served, 1, 1).await;
    gone.vanish();
    until(&served, 1, 0).await;

    ends_first.cancel_query(NoTls).await.unwrap();
    assert_eq!(sqlstate(soon(first).await), "57014");
    until(&served, 0, 0).await;
    served.until_nothing_is_held().await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_series_are_heavy() {
    let served = narrow(9, None).await;
    let first = served.client().await;
    let ends_first = first.cancel_token();
    let first = sent(first, SLEEPS);
    until(&served, 1, 0).await;
    let moments = "SELECT count(*) FROM generate_series('2000-01-01'::TIMESTAMP, \
                   '2001-01-01', '1 second')";
    let beside_rows = "SELECT count(*) FROM (SELECT k, unnest(generate_series(1, 10000)) FROM t) s";
    for sql in [moments, beside_rows] {
        let waits = served.client().await;
        let ends = waits.cancel_token();
        let waits = sent(waits, sql);
        until(&served, 1, 1).await;
        ends.cancel_query(NoTls).await.unwrap();
        assert_eq!(sqlstate(soon(waits).await), "57014");
        until(&served, 1, 0).await;
    }
    // Of which few rows are taken.
    let few = "SELECT unnest(generate_series(1, 1000000000)) LIMIT 1";
    assert_eq!(cells(&served.client().await, few).await, [["1"]]);
    ends_first.cancel_query(NoTls).await.unwrap();
    assert_eq!(sqlstate(soon(first).await), "57014");
    until(&served, 0, 0).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_too_many_is_refused_and_may_come_again() {
    let served = narrow(1, None).await;
    let first = served.client().await;
    let ends_first = first.cancel_token();
    let first = sent(first, SLEEPS);
    until(&served, 1, 0).await;
    let second = sent(served.client().await, PAIRS);
    until(&served, 1, 1).await;

    let third = served.client().await;
    let error = third.batch_execute(PAIRS).await.unwrap_err();
    let told = error.as_db_error().unwrap();
    assert_eq!(told.code().code(), "53400");
    assert_eq!(told.detail(), Some("1 run, and 1 wait"));
    assert!(told.hint().unwrap().contains("heavy_waiting"), "{told:?}");
    until(&served, 1, 1).await;

    ends_first.cancel_query(NoTls).await.unwrap();
    assert_eq!(sqlstate(soon(first).await), "57014");
    soon(second).await.unwrap();
    third.batch_execute(PAIRS).await.unwrap();
    until(&served, 0, 0).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_portal_that_rests_keeps_nobody_waiting_and_goes_on() {
    let served = narrow(9, None).await;
    let mut reader = served.client().await;
    let transaction = reader.transaction().await.unwrap();
    let pairs = "SELECT a.k, b.k FROM t a, t b WHERE a.k + b.k > 0";
    let portal = transaction.bind(pairs, &[]).await.unwrap();
    let rows = transaction.query_portal(&portal, 10).await.unwrap();
    assert_eq!(rows.len(), 10);
    assert_eq!(served.database.heavy_running(), 1);

    let other = served.client().await;
    let counted = cells(&other, PAIRS);
    let counted = tokio::time::timeout(Duration::from_secs(30), counted).await;
    // 3000 and 3000: of the others no two have this sum.
    assert_eq!(counted.expect("the portal keeps its place"), [["1"]]);

    // More rows than the batch that it has: it needs its place again.
    let rows = transaction.query_portal(&portal, 100_000).await.unwrap();
    assert_eq!(rows.len(), 100_000);
    // A cursor beside it, of the same session.
    transaction
        .batch_execute(&format!("DECLARE c CURSOR FOR {pairs}"))
        .await
        .unwrap();
    let fetched = transaction.simple_query("FETCH 3 FROM c").await;
    assert_eq!(rows_of(&fetched.unwrap()).len(), 3);
    transaction.commit().await.unwrap();
    until(&served, 0, 0).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_keeps_nobody_waiting() {
    for sql in [WIDE.to_owned(), format!("COPY ({WIDE}) TO STDOUT")] {
        let served = narrow(9, None).await;
        let mut slow = Raw::new(&served).await;
        slow.query(&sql).send().await;
        until(&served, 1, 0).await;
        let other = served.client().await;
        let counted = cells(&other, PAIRS);
        let counted = tokio::time::timeout(Duration::from_secs(60), counted).await;
        assert_eq!(counted.expect(&sql), [["1"]]);
        drop(slow);
        served.until_nothing_is_held().await;
        served.stop().await;
    }
}

/// What writes with a heavy query waits as a query does, and has all of its rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_ones_run_on_threads_of_their_own() {
    let served = narrow(9, Some(Handle::current())).await;
    let first = served.client().await;
    let ends_first = first.cancel_token();
    let first = sent(first, SLEEPS);
    until(&served, 1, 0).await;
    let client = served.client().await;
    let second = sent(
        client,
        "CREATE TABLE made (k INT PRIMARY KEY);
         INSERT INTO made SELECT a.k FROM t a, t b WHERE a.k = b.k + 1000 OR a.k + b.k < 0",
    );
    until(&served, 1, 1).await;
    ends_first.cancel_query(NoTls).await.unwrap();
    assert_eq!(sqlstate(soon(first).await), "57014");
    soon(second).await.unwrap();
    let client = served.client().await;
    let made = "SELECT count(*), min(k), max(k) FROM made";
    assert_eq!(cells(&client, made).await, [["2000", "1001", "3000"]]);
    // An error of its rows comes to who takes them.
    let fails = "SELECT sum(1 / (a.k - b.k)) FROM t a, t b";
    assert_eq!(sqlstate(client.batch_execute(fails).await), "22012");
    assert_eq!(cells(&client, PAIRS).await, [["1"]]);
    until(&served, 0, 0).await;
    served.until_nothing_is_held().await;
    served.stop().await;
}
