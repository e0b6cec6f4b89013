//! A key that a table is given while others write to it and use what was granted on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use lazybase_cluster::Settings;
use lazybase_query::Session;

use crate::in_memory;

async fn number(session: &Session, sql: &str) -> i64 {
    let answer = session.execute(sql).await.unwrap().pop().unwrap();
    let column = answer.batches[0].column(0);
    column.as_primitive::<Int64Type>().value(0)
}

/// Writers add rows one by one; whatever becomes of the key, each row that was acknowledged is
/// there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_acknowledged_row_is_lost_to_a_key() {
    const WRITERS: i64 = 3;
    let database = in_memory(Settings::default()).await;
    let session = database.session();
    let made = "CREATE TABLE t (k BIGINT, v TEXT)";
    session.execute(made).await.unwrap();
    let (next, acknowledged) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let session = database.session();
            let (next, acknowledged) = (Arc::clone(&next), Arc::clone(&acknowledged));
            let stopped = stopped.clone();
            tokio::spawn(async move {
                let mut refused = 0;
                while !*stopped.borrow() {
                    let k = next.fetch_add(1, Ordering::Relaxed);
                    let insert = format!("INSERT INTO t VALUES ({k}, 'v')");
                    match session.execute(&insert).await {
                        Ok(_) => drop(acknowledged.fetch_add(1, Ordering::Relaxed)),
                        // The table that it was planned for has ended meanwhile.
                        Err(error) => {
                            assert!(["40001", "42P01"].contains(&error.sqlstate()), "{error}");
                            refused += 1;
                        }
                    }
                    // At times long enough for the key to come in between.
                    tokio::time::sleep(Duration::from_millis(30 * (k as u64 % 5))).await;
                }
                refused
            })
        })
        .collect();
    let written = || acknowledged.load(Ordering::Relaxed);
    let (mut keyed, mut attempts) = (false, 0);
    while attempts < 10 && !keyed {
        let before = written();
        while written() < before + 5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        attempts += 1;
        match session.execute("ALTER TABLE t ADD PRIMARY KEY (k)").await {
            Ok(_) => keyed = true,
            Err(error) => assert_eq!(error.sqlstate(), "40001", "{error}"),
        }
    }
    let before = written();
    while written() < before + 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.send(true).unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    if !keyed {
        let add = "ALTER TABLE t ADD PRIMARY KEY (k)";
        session.execute(add).await.unwrap();
    }
    let rows = "SELECT count(*) FROM t FRESHNESS 0";
    assert_eq!(number(&session, rows).await, written());
    let distinct = "SELECT count(DISTINCT k) FROM t FRESHNESS 0";
    assert_eq!(number(&session, distinct).await, written());
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_and_grants_stay() {
    let database = in_memory(Settings::default()).await;
    let admin = database.session();
    let setup = "CREATE ROLE maker; CREATE ROLE reader; CREATE ROLE clerk; CREATE ROLE other;
                 GRANT CREATE ON DATABASE lazybase TO maker; SET ROLE maker;
                 CREATE TABLE t (id BIGINT, name TEXT, secret TEXT);
                 INSERT INTO t VALUES (1, 'one', 'x'), (2, 'two', 'y');
                 GRANT SELECT ON t TO reader WITH GRANT OPTION; GRANT SELECT (name) ON t TO clerk;
                 RESET ROLE";
    admin.execute(setup).await.unwrap();
    let role = async |name: &str| {
        let session = database.session();
        session.execute(&format!("SET ROLE {name}")).await.unwrap();
        session
    };
    let add = "ALTER TABLE t ADD PRIMARY KEY (id)";
    let refused = role("reader").await.execute(add).await.unwrap_err();
    assert_eq!(refused.sqlstate(), "42501");
    // Whoever adds it does not become its owner.
    admin.execute(add).await.unwrap();
    let reader = role("reader").await;
    assert_eq!(number(&reader, "SELECT count(*) FROM t").await, 2);
    reader.execute("GRANT SELECT ON t TO other").await.unwrap();
    let other = role("other").await;
    assert_eq!(number(&other, "SELECT count(secret) FROM t").await, 2);
    let clerk = role("clerk").await;
    clerk.execute("SELECT name FROM t").await.unwrap();
    let refused = clerk.execute("SELECT secret FROM t").await.unwrap_err();
    assert_eq!(refused.sqlstate(), "42501");
    let maker = role("maker").await;
    maker.execute("DROP TABLE t").await.unwrap();
    database.close().await.unwrap();
}
