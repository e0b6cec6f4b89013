//! Advisory locks between connections, and sessions of the process itself.

use std::sync::Arc;
use std::time::Duration;

use arrow::util::display::array_value_to_string;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::served::{Served, cells, sqlstate};

/// Asks until a query gives this cell.
async fn until(client: &Client, sql: &str, wanted: &str) {
    let asked = async {
        while cells(client, sql).await != [[wanted]] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(30), asked).await;
    assert!(found.is_ok(), "{sql} gives {:?}", cells(client, sql).await);
}

/// Whether a client gets the lock, which it then has.
async fn tries(client: &Client, number: i64) -> bool {
    let sql = "SELECT pg_try_advisory_lock($1)";
    client.query_one(sql, &[&number]).await.unwrap().get(0)
}

const WAITING: &str = "SELECT count(*) FROM pg_locks WHERE NOT granted";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_gets_the_lock_when_it_is_given_back() {
    let served = Served::start().await;
    let one = served.client().await;
    let other = Arc::new(served.client().await);
    one.batch_execute("SELECT pg_advisory_lock(7)")
        .await
        .unwrap();
    assert!(!tries(&other, 7).await);
    let waiting = tokio::spawn({
        let other = Arc::clone(&other);
        async move { other.batch_execute("SELECT pg_advisory_lock(7)").await }
    });
    until(&one, WAITING, "1").await;
    let shown = "SELECT l.classid, l.objid, l.objsubid, l.mode, l.granted, \
                 l.pid = pg_backend_pid() FROM pg_locks l \
                 WHERE l.locktype = 'advisory' ORDER BY l.granted";
    assert_eq!(
        cells(&one, shown).await,
        [
            ["0", "7", "1", "ExclusiveLock", "f", "f"],
            ["0", "7", "1", "ExclusiveLock", "t", "t"],
        ]
    );
    assert_eq!(cells(&one, "SELECT pg_advisory_unlock(7)").await, [["t"]]);
    waiting.await.unwrap().unwrap();
    assert!(!tries(&one, 7).await);
    assert_eq!(cells(&one, "SELECT pg_advisory_unlock(7)").await, [["f"]]);
    // Sessions of the process itself share the locks.
    let session = served.database.session();
    let got = async || {
        let asked = session.execute("SELECT pg_try_advisory_lock(7)");
        let answers = asked.await.unwrap();
        array_value_to_string(answers[0].batches[0].column(0), 0).unwrap()
    };
    assert_eq!(got().await, "false");
    drop(other);
    until(&one, "SELECT count(*) FROM pg_locks", "0").await;
    assert_eq!(got().await, "true");
    assert!(!tries(&one, 7).await);
    drop(session);
    assert!(tries(&one, 7).await);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_a_transaction_end_with_it() {
    let served = Served::start().await;
    let (one, other) = (served.client().await, served.client().await);
    let run = async |sql: &str| one.batch_execute(sql).await.unwrap();
    for end in ["COMMIT", "ROLLBACK"] {
        run("BEGIN; SELECT pg_advisory_xact_lock(1)").await;
        run("SELECT pg_advisory_xact_lock(1), pg_advisory_lock(2)").await;
        assert!(!tries(&other, 1).await);
        // What belongs to the transaction can't be unlocked before its end.
        assert_eq!(cells(&one, "SELECT pg_advisory_unlock(1)").await, [["f"]]);
        run(end).await;
        assert!(tries(&other, 1).await);
        assert!(!tries(&other, 2).await);
        run("SELECT pg_advisory_unlock_all()").await;
        assert!(tries(&other, 2).await);
        other.batch_execute("DISCARD ALL").await.unwrap();
    }
    run("SELECT pg_advisory_xact_lock(1)").await;
    assert!(tries(&other, 1).await);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_ends_with_its_time_or_when_it_is_cancelled() {
    let served = Served::start().await;
    let (one, other) = (served.client().await, Arc::new(served.client().await));
    assert!(tries(&one, 3).await);
    other
        .batch_execute("SET statement_timeout = '50ms'")
        .await
        .unwrap();
    let late = other.simple_query("SELECT pg_advisory_lock(3)").await;
    assert_eq!(sqlstate(late), "57014");
    assert_eq!(cells(&one, WAITING).await, [["0"]]);
    other
        .batch_execute("SET statement_timeout = 0")
        .await
        .unwrap();
    let waiting = tokio::spawn({
        let other = Arc::clone(&other);
        async move {
            other
                .query("SELECT pg_advisory_xact_lock($1)", &[&3_i64])
                .await
        }
    });
    until(&one, WAITING, "1").await;
    let cancel = other.cancel_token();
    cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    assert_eq!(sqlstate(waiting.await.unwrap()), "57014");
    until(&one, WAITING, "0").await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_the_numbers_that_are_locked() {
    let served = Served::start().await;
    let client = served.client().await;
    let pair = client
        .prepare("SELECT pg_try_advisory_lock($1, $2)")
        .await
        .unwrap();
    assert_eq!(pair.params(), [Type::INT4, Type::INT4]);
    let row = client.query_one(&pair, &[&-1_i32, &2_i32]).await.unwrap();
    assert!(row.get::<_, bool>(0));
    let shown = "SELECT classid, objid, objsubid FROM pg_locks";
    assert_eq!(cells(&client, shown).await, [["4294967295", "2", "2"]]);
    served.stop().await;
}
