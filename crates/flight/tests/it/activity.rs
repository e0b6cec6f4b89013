//! Who is connected: what others see of a session, and how they end what it does.

use arrow_flight::FlightDescriptor;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::{EndTransaction, ProstMessageExt};
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::{Code, Request};

use crate::served::{
    COUNT, Served, failure, ingest_into, pairs, query, refused, sqlstate, text, until,
};

const LONG: &str =
    "SELECT count(*) FROM generate_series(1, 1000000000000) AS s (x) WHERE x % 7 = 3";
const RUNNING: &str = "SELECT state FROM pg_stat_activity WHERE application_name = 'etl'";

/// Ends something of the session that calls itself so.
async fn end(served: &Served, function: &str) -> String {
    let of = "FROM pg_stat_activity WHERE application_name = 'etl'";
    served.read(&format!("SELECT {function}(pid) {of}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_see_what_a_session_does() {
    let served = Served::start().await;
    assert_eq!(served.read(COUNT).await, "0");
    let mut worker = served.named().await;
    let who = "SELECT usename, application_name, client_addr, client_port > 0, state, \
               query = '', query_start IS NULL, backend_type FROM pg_stat_activity";
    assert_eq!(
        served.read(who).await,
        "lazybase Arrow Flight 127.0.0.1 true idle true true client backend"
    );
    query(&mut worker, "SET application_name = 'etl'")
        .await
        .unwrap();
    text(&mut worker, "SELECT 'a secret' AS s, 42 AS n").await;
    let seen = "SELECT state, query, backend_start <= query_start FROM pg_stat_activity \
                WHERE application_name = 'etl'";
    assert_eq!(served.read(seen).await, "idle SELECT ? AS s, ? AS n true");
    // A transaction is one of its session.
    let transaction = worker.begin_transaction().await.unwrap();
    assert_eq!(served.read(RUNNING).await, "idle in transaction");
    let wrong = worker
        .execute_update("SELECT 1 / 0".to_owned(), Some(transaction.clone()))
        .await;
    assert_eq!(sqlstate(wrong), "22012");
    assert_eq!(served.read(RUNNING).await, "idle in transaction (aborted)");
    worker
        .end_transaction(transaction, EndTransaction::Rollback)
        .await
        .unwrap();
    assert_eq!(served.read(RUNNING).await, "idle");
    // Each knows itself, one that lasts for a call too; nothing of that stays.
    let own = "SELECT state FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert_eq!(text(&mut worker, own).await, "active");
    let mut nobody = served.client().await;
    assert_eq!(text(&mut nobody, own).await, "active");
    until(&served, COUNT, "1").await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_end_a_statement_and_a_session() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        .await;
    let mut worker = served.named().await;
    query(&mut worker, "SET application_name = 'etl'")
        .await
        .unwrap();
    for (function, expected) in [
        ("pg_cancel_backend", "57014"),
        ("pg_terminate_backend", "57P01"),
    ] {
        until(&served, RUNNING, "idle").await;
        let work = tokio::spawn(async move {
            let over = query(&mut worker, LONG).await;
            (worker, failure(over))
        });
        until(&served, RUNNING, "active").await;
        assert_eq!(end(&served, function).await, "true");
        let (back, over) = work.await.unwrap();
        assert_eq!((over.0, over.1.as_str()), (Code::Cancelled, expected));
        served.until_nothing_is_held().await;
        worker = back;
    }
    until(&served, COUNT, "0").await;
    // A client that has lost its session is told so, and begins another one.
    let (code, gone, _) = failure(query(&mut worker, "SELECT 1").await);
    assert_eq!((code, gone.as_str()), (Code::Unauthenticated, "08003"));
    let mut worker = served.named().await;
    query(&mut worker, "SET application_name = 'etl'")
        .await
        .unwrap();
    let transaction = worker.begin_transaction().await.unwrap();
    let sql = "INSERT INTO t VALUES (1, 'x')".to_owned();
    worker
        .execute_update(sql, Some(transaction.clone()))
        .await
        .unwrap();
    // What is cancelled while nothing runs goes on.
    assert_eq!(end(&served, "pg_cancel_backend").await, "true");
    assert_eq!(served.read(RUNNING).await, "idle in transaction");
    assert_eq!(end(&served, "pg_terminate_backend").await, "true");
    until(&served, COUNT, "0").await;
    let mut nobody = served.client().await;
    let ended = nobody
        .end_transaction(transaction, EndTransaction::Commit)
        .await;
    assert_eq!(sqlstate(ended), "25P01");
    assert_eq!(served.read("SELECT count(*) FROM t").await, "0");
    let absent = "SELECT pg_terminate_backend(123456)";
    assert_eq!(served.read(absent).await, "false");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_end_an_ingest() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        .await;
    let command = ingest_into("t", "append").as_any().encode_to_vec();
    let messages: Vec<_> = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command)))
        .build(stream::iter([Ok(pairs(0..10))]))
        .try_collect()
        .await
        .unwrap();
    let endless = stream::iter(messages).chain(stream::pending());
    let mut client = served.client().await;
    let work = tokio::spawn(async move {
        let put = client.inner_mut().do_put(Request::new(endless)).await;
        put.map(drop)
    });
    let seen = "SELECT state, query FROM pg_stat_activity";
    until(&served, seen, "active INGEST INTO t").await;
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity";
    assert_eq!(served.read(cancel).await, "true");
    let (code, ended, _) = refused(work.await.unwrap().unwrap_err());
    assert_eq!((code, ended.as_str()), (Code::Unknown, "40003"));
    assert_eq!(served.read("SELECT count(*) FROM t").await, "0");
    until(&served, COUNT, "0").await;
    served.until_nothing_is_held().await;
    served.stop().await;
}
