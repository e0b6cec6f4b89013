//! The simple protocol.

use tokio_postgres::SimpleQueryMessage;

use crate::served::{Served, cells, count, rows_of, sqlstate};

/// The cells of all rows, and the counts of rows in tags.
fn told(messages: &[SimpleQueryMessage]) -> (Vec<Vec<String>>, Vec<u64>) {
    let counts = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::CommandComplete(count) => Some(*count),
        _ => None,
    });
    (rows_of(messages), counts.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_statements_answer_one_after_the_other() {
    let served = Served::start().await;
    let client = served.client().await;
    let messages = client
        .simple_query(
            "CREATE TABLE t (k INT PRIMARY KEY, v TEXT);
             INSERT INTO t VALUES (1, 'one'), (2, NULL);
             SELECT * FROM t ORDER BY k; ;",
        )
        .await
        .unwrap();
    let (rows, counts) = told(&messages);
    assert_eq!(rows, [["1", "one"], ["2", "-"]]);
    assert_eq!(counts, [0, 2, 2]);
    assert!(cells(&client, "").await.is_empty());
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_tells_its_rows_and_counts_them() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, v TEXT DEFAULT 'new')").await;
    let client = served.client().await;
    let messages = client
        .simple_query(
            "INSERT INTO t (k) VALUES (2), (1) RETURNING v, k;
             INSERT INTO t VALUES (3, NULL) RETURNING *",
        )
        .await
        .unwrap();
    let (rows, counts) = told(&messages);
    assert_eq!(rows, [["new", "2"], ["new", "1"], ["3", "-"]]);
    assert_eq!(counts, [2, 1]);
    assert_eq!(count(&client, "t").await, 3);
    let messages = client
        .simple_query(
            "UPDATE t SET v = 'old' WHERE k = 3 RETURNING v, k;
             DELETE FROM t WHERE k IN (2, 9) RETURNING *;
             DELETE FROM t WHERE k = 9 RETURNING *",
        )
        .await
        .unwrap();
    let (rows, counts) = told(&messages);
    assert_eq!(rows, [["old", "3"], ["2", "new"]]);
    assert_eq!(counts, [1, 1, 0]);
    assert_eq!(count(&client, "t").await, 2);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_statements_are_one_transaction() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY)")
        .await
        .unwrap();
    let failed = client
        .batch_execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES ('x'); SELECT 1")
        .await;
    assert_eq!(sqlstate(failed), "22P02");
    assert_eq!(count(&client, "t").await, 0, "nothing of it is kept");
    // A transaction of the text's own is left as it is.
    client
        .batch_execute("BEGIN; INSERT INTO t VALUES (2)")
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO t VALUES (3); INSERT INTO t VALUES (4)")
        .await
        .unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(count(&client, "t").await, 0);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_state_hint_and_place() {
    let served = Served::start().await;
    let client = served.client().await;
    let error = client
        .simple_query("SELECT 1;\n SELEC 2")
        .await
        .unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "42601");
    let tokio_postgres::error::ErrorPosition::Original(place) = error.position().unwrap() else {
        panic!("{error:?}");
    };
    assert_eq!(*place, 12, "{error:?}");
    let error = client
        .simple_query("SELECT * FROM nothing")
        .await
        .unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "42P01");
    let error = client
        .simple_query("SET lazybase.freshnes = 1")
        .await
        .unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.hint(), Some("perhaps lazybase.freshness is meant"));
    assert_eq!(cells(&client, "SELECT 3").await, [["3"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_go_on_after_a_savepoint() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY)")
        .await
        .unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    client
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    client.batch_execute("SAVEPOINT s").await.unwrap();
    assert_eq!(
        sqlstate(client.simple_query("SELECT * FROM nothing").await),
        "42P01"
    );
    assert_eq!(sqlstate(client.simple_query("SELECT 1").await), "25P02");
    client
        .batch_execute("ROLLBACK TO SAVEPOINT s")
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO t VALUES (2); COMMIT")
        .await
        .unwrap();
    assert_eq!(
        cells(&client, "SELECT k FROM t ORDER BY k").await,
        [["1"], ["2"]]
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_drivers_set_and_ask_for_as_they_start_is_there() {
    let served = Served::start().await;
    let client = served
        .connect(
            "application_name=tests options='-c lazybase.freshness=30 -c extra_float_digits=3'",
        )
        .await
        .unwrap();
    for (name, value) in [
        ("application_name", "tests"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("standard_conforming_strings", "on"),
        ("lazybase.freshness", "30s"),
        ("search_path", "public"),
        ("transaction isolation level", "repeatable read"),
    ] {
        assert_eq!(
            cells(&client, &format!("SHOW {name}")).await,
            [[value]],
            "{name}"
        );
    }
    client
        .batch_execute(
            "SET client_encoding TO 'UTF8'; SET datestyle TO ISO; SET extra_float_digits = 2;
             SET SESSION application_name = 'x'; SET statement_timeout = '5s'; DISCARD ALL",
        )
        .await
        .unwrap();
    assert_eq!(
        sqlstate(client.batch_execute("SET client_encoding = 'LATIN1'").await),
        "0A000"
    );
    let version = client.query_one("SELECT version()", &[]).await.unwrap();
    assert!(
        version
            .get::<_, String>(0)
            .starts_with("PostgreSQL 15.0 (LazyBase")
    );
    served.stop().await;
}

/// A text with COMMIT and BEGIN in it, as PostgreSQL takes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_may_end_and_begin_inside_a_text() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let client = served.client().await;
    let text = "INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2); SELECT 1 / 0";
    assert_eq!(sqlstate(client.batch_execute(text).await), "22012");
    assert_eq!(cells(&client, "SELECT k FROM t").await, [["1"]]);
    // What comes before BEGIN is part of what it begins.
    client
        .batch_execute("INSERT INTO t VALUES (3); BEGIN; INSERT INTO t VALUES (4)")
        .await
        .unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(cells(&client, "SELECT k FROM t").await, [["1"]]);
    // What can't stand in a transaction ends it.
    client
        .batch_execute("INSERT INTO t VALUES (5); SETTLE; SELECT 1")
        .await
        .unwrap();
    assert_eq!(count(&client, "t").await, 2);
    let refused = client
        .batch_execute("INSERT INTO t VALUES (6); SAVEPOINT s; SELECT 1")
        .await;
    assert_eq!(sqlstate(refused), "25P01");
    assert_eq!(count(&client, "t").await, 2);
    let refused = client
        .batch_execute("SELECT 1; BEGIN READ ONLY; INSERT INTO t VALUES (7)")
        .await;
    assert_eq!(sqlstate(refused), "25006");
    client.batch_execute("ROLLBACK").await.unwrap();
    let refused = client
        .batch_execute("SELECT 1; BEGIN ISOLATION LEVEL SERIALIZABLE")
        .await;
    assert_eq!(sqlstate(refused), "0A000");
    assert_eq!(count(&client, "t").await, 2);
    served.stop().await;
}
