//! Writes that a producer sends again under their number: what the database itself makes is made
//! anew, and it is the same batch still.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use lazybase_cluster::BatchNumber;
use lazybase_model::{Result, Token};
use lazybase_query::{Database, Op, Session};

use crate::{open_in, rows};

const TABLE: &str = "CREATE TABLE t (k INT PRIMARY KEY, v INT, at TIMESTAMP DEFAULT now(), \
    r DOUBLE PRECISION DEFAULT random())";

const ALL: &str = "SELECT * FROM t ORDER BY k";

/// Sends a write under a number, over a connection of its own.
async fn send(database: &Database, number: u32, sql: &str) -> Result<Option<Token>> {
    let session = database.session();
    session
        .execute("SET lazybase.producer = 'feed'")
        .await
        .unwrap();
    numbered(&session, number, sql).await
}

async fn numbered(session: &Session, number: u32, sql: &str) -> Result<Option<Token>> {
    let set = format!("SET lazybase.batch_number = {number}");
    session.execute(&set).await.unwrap();
    let answers = session.execute(sql).await?;
    Ok(answers.last().and_then(|answer| answer.token))
}

async fn opened(folder: &tempfile::TempDir) -> Database {
    let database = open_in(folder.path()).await;
    database.session().execute(TABLE).await.unwrap();
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_statement_counts_once_whatever_the_database_makes() {
    let folder = tempfile::tempdir().unwrap();
    let database = opened(&folder).await;
    let writes = [
        "INSERT INTO t (k, v) VALUES (1, 1), (2, 2)",
        "INSERT INTO t VALUES (3, 3, DEFAULT, DEFAULT)",
        "INSERT INTO t (k, at) VALUES (4, now()), (5, TIMESTAMP '2024-01-01 00:00:00')",
        "INSERT INTO t (k, at) VALUES (6, 'now'::TIMESTAMP)",
        "INSERT INTO t (k, v, at) VALUES (7, (SELECT 7), now())",
        "INSERT INTO t (k, v, at, r) SELECT k + 10, v, now(), random() FROM t WHERE k = 1",
        "INSERT INTO t (k, at) SELECT 8, now() UNION ALL SELECT 8, current_timestamp",
        "INSERT INTO t (k, at) SELECT k, at FROM (SELECT 9 AS k, now() AS at) AS made",
        "UPDATE t SET at = now() WHERE k = 1",
        "UPDATE t SET at = now(), r = random() WHERE v = 3",
        "INSERT INTO t (k, v) VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET at = now(), v = 5",
        "INSERT INTO t (k, v) VALUES (1, 6) ON CONFLICT (k) DO UPDATE SET at = EXCLUDED.at",
        "BEGIN; INSERT INTO t (k) VALUES (20); INSERT INTO t (k, at) VALUES (21, now()); COMMIT",
        "BEGIN; INSERT INTO t (k) VALUES (22), (23); UPDATE t SET at = now() WHERE k = 22; COMMIT",
    ];
    for (number, sql) in (1..).zip(writes) {
        let first = send(&database, number, sql).await;
        let first = first.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert!(first.is_some(), "{sql}");
        let before = rows(&database.session(), ALL).await;
        let second = send(&database, number, sql).await;
        let second = second.unwrap_or_else(|error| panic!("{sql} again: {error:?}"));
        assert_eq!(second, first, "{sql}");
        assert_eq!(rows(&database.session(), ALL).await, before, "{sql}");
    }
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_still_tells_batches_apart() {
    let folder = tempfile::tempdir().unwrap();
    let database = opened(&folder).await;
    let sent = "INSERT INTO t (k, v) VALUES (1, 1)";
    let first = send(&database, 1, sent).await.unwrap();
    let before = rows(&database.session(), ALL).await;
    for other in [
        "INSERT INTO t (k, v) VALUES (1, 2)",
        "INSERT INTO t (k, v) VALUES (2, 1)",
        "INSERT INTO t (k) VALUES (1)",
        "INSERT INTO t (k, v) VALUES (1, 1), (2, 2)",
        "INSERT INTO t (k, v, at) VALUES (1, 1, TIMESTAMP '2024-01-01 00:00:00')",
        "INSERT INTO t (k, v, r) VALUES (1, 1, 0.5)",
        "UPDATE t SET at = now() WHERE k = 1",
    ] {
        let refused = send(&database, 1, other).await.expect_err(other);
        let message = refused.message();
        assert!(
            message.contains("two different batches"),
            "{other}: {message}"
        );
    }
    assert_eq!(send(&database, 1, sent).await.unwrap(), first);
    assert_eq!(rows(&database.session(), ALL).await, before);
    // A moment that is given is a value as others are.
    let given = "INSERT INTO t (k, at) VALUES (2, TIMESTAMP '2024-01-01 00:00:00')";
    let other = "INSERT INTO t (k, at) VALUES (2, TIMESTAMP '2024-01-01 00:00:01')";
    send(&database, 2, given).await.unwrap();
    assert!(send(&database, 2, other).await.is_err());
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn appenders_leave_defaults_out_too() {
    let folder = tempfile::tempdir().unwrap();
    let database = opened(&folder).await;
    let keys = |key: i32| {
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![key]));
        RecordBatch::try_from_iter([("k", keys)]).unwrap()
    };
    let mut tokens = Vec::new();
    for (duplicate, key, fits) in [(false, 1, true), (true, 1, true), (false, 2, false)] {
        let (epoch, _) = database.instance().open_producer("feed").await.unwrap();
        let number = BatchNumber {
            name: "feed".to_owned(),
            epoch,
            number: 1,
        };
        let mut appender = database.producer_appender(number);
        appender.append("t", &keys(key), Op::Upsert).await.unwrap();
        match appender.commit().await {
            Ok(done) => {
                assert!(fits);
                assert_eq!(done.duplicate, duplicate);
                tokens.push(done.token);
            }
            Err(error) => assert!(!fits, "{error:?}"),
        }
    }
    assert_eq!(tokens.len(), 2);
    assert_eq!(tokens[0], tokens[1]);
    database.close().await.unwrap();
}
