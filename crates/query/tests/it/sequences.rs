//! Columns that number themselves, through each way that rows come, by many sessions at once, and
//! across restarts; who may take numbers.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;
use futures::StreamExt;
use lazybase_cluster::Settings;
use lazybase_query::{Database, Ingest, Op, Session};

use crate::{in_memory, open_in, rows};

const TABLE: &str = "CREATE TABLE t (id SERIAL PRIMARY KEY, v TEXT)";

async fn opened() -> Database {
    let database = in_memory(Settings::default()).await;
    database.session().execute(TABLE).await.unwrap();
    database
}

fn texts(values: &[&str]) -> RecordBatch {
    let values: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    RecordBatch::try_from_iter([("v", values)]).unwrap()
}

async fn state_of(session: &Session, sql: &str) -> &'static str {
    let refused = session.execute(sql).await;
    refused.expect_err(sql).sqlstate()
}

async fn all(database: &Database) -> Vec<Vec<String>> {
    let session = database.session();
    rows(&session, "SELECT id, v FROM t ORDER BY id").await
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_have_numbers_whatever_way_they_come() {
    let database = opened().await;
    let session = database.session();
    session
        .execute("INSERT INTO t (v) VALUES ('values')")
        .await
        .unwrap();
    let copied: &[u8] = b"copied\nand more\n";
    session
        .copy_from("COPY t (v) FROM STDIN WITH (FORMAT csv)", copied)
        .await
        .unwrap();
    let given: &[u8] = b"50,given\n";
    session
        .copy_from("COPY t FROM STDIN WITH (FORMAT csv)", given)
        .await
        .unwrap();
    let chosen: &[u8] = b"no\nyes\n";
    let copy = "COPY t (v) FROM STDIN WITH (FORMAT csv) WHERE v = 'yes'";
    session.copy_from(copy, chosen).await.unwrap();
    let mut appender = database.appender();
    let appended = texts(&["appended"]);
    appender.append("t", &appended, Op::Upsert).await.unwrap();
    appender.commit().await.unwrap();
    let batches = futures::stream::iter([Ok(texts(&["streamed", "too"]))]).boxed();
    let schema = texts(&[]).schema();
    session
        .ingest(&Ingest::append("t"), schema.clone(), batches)
        .await
        .unwrap();
    let prepared = session.prepare("INSERT INTO t (v) VALUES ($1)").await;
    let batches = futures::stream::iter([Ok(texts(&["prepared"]))]).boxed();
    let prepared = prepared.unwrap();
    prepared.execute_rows(schema, batches).await.unwrap();
    assert_eq!(
        all(&database).await,
        [
            ["1", "values"],
            ["2", "copied"],
            ["3", "and more"],
            ["4", "yes"],
            ["5", "appended"],
            ["6", "streamed"],
            ["7", "too"],
            ["8", "prepared"],
            ["50", "given"],
        ]
    );
    database.close().await.unwrap();
}

/// What many sessions insert and ask for at once.
async fn numbers_of(database: &Database, inserts: usize) -> Vec<i32> {
    let session = database.session();
    let mut numbers = Vec::new();
    for round in 0..inserts {
        let values = vec!["('x')"; 1 + round % 7].join(", ");
        let insert = format!("INSERT INTO t (v) VALUES {values} RETURNING id");
        let answers = session.execute(&insert).await.unwrap();
        for batch in &answers.last().unwrap().batches {
            let ids = batch.column(0).as_primitive::<Int32Type>();
            assert_eq!(ids.null_count(), 0);
            numbers.extend(ids.values().iter().copied());
        }
    }
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_insert_at_once_never_get_the_same_number() {
    let database = opened().await;
    let sessions = (0..8).map(|_| {
        let database = database.clone();
        tokio::spawn(async move { numbers_of(&database, 60).await })
    });
    let mut told = Vec::new();
    for session in sessions.collect::<Vec<_>>() {
        told.extend(session.await.unwrap());
    }
    let distinct: BTreeSet<i32> = told.iter().copied().collect();
    assert_eq!(distinct.len(), told.len());
    let session = database.session();
    let counted = rows(&session, "SELECT count(*), count(DISTINCT id) FROM t").await;
    let count = told.len().to_string();
    assert_eq!(counted, [[count.clone(), count]]);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_opened_again_goes_on_behind_what_it_had_reserved() {
    let folder = tempfile::tempdir().unwrap();
    let mut before = 0;
    for _ in 0..3 {
        let database = open_in(folder.path()).await;
        let session = database.session();
        session
            .execute("CREATE TABLE IF NOT EXISTS t (id SERIAL PRIMARY KEY, v TEXT)")
            .await
            .unwrap();
        for number in numbers_of(&database, 20).await {
            assert!(number > before, "{number} after {before}");
            before = number;
        }
        database.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_back_gives_no_number_back() {
    let database = opened().await;
    let session = database.session();
    for sql in [
        "INSERT INTO t (v) VALUES ('one')",
        "BEGIN",
        "INSERT INTO t (v) VALUES ('gone')",
        "SAVEPOINT s",
        "INSERT INTO t (v) VALUES ('gone too')",
        "ROLLBACK TO s",
        "INSERT INTO t (v) VALUES ('gone as well')",
        "ROLLBACK",
        "INSERT INTO t (v) VALUES ('two')",
    ] {
        session.execute(sql).await.unwrap();
    }
    assert_eq!(all(&database).await, [["1", "one"], ["5", "two"]]);
    // A sequence begins again with the transaction that says so, or not at all.
    for (end, next) in [("ROLLBACK", "6"), ("COMMIT", "1")] {
        session
            .execute("BEGIN; TRUNCATE t RESTART IDENTITY")
            .await
            .unwrap();
        session.execute(end).await.unwrap();
        let inserted = rows(&session, "INSERT INTO t (v) VALUES ('x') RETURNING id").await;
        assert_eq!(inserted, [[next]], "{end}");
    }
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producers_batch_counts_once_whatever_numbers_it_has() {
    let database = opened().await;
    let session = database.session();
    session
        .execute("SET lazybase.producer = 'feed'")
        .await
        .unwrap();
    for _ in 0..2 {
        session
            .execute("SET lazybase.batch_number = 1")
            .await
            .unwrap();
        session
            .execute("INSERT INTO t (v) VALUES ('once'), ('and twice')")
            .await
            .unwrap();
    }
    assert_eq!(all(&database).await, [["1", "once"], ["2", "and twice"]]);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_taken_by_whoever_was_granted_usage() {
    let folder = tempfile::tempdir().unwrap();
    let database = open_in(folder.path()).await;
    let session = database.session();
    for sql in [
        TABLE,
        "CREATE TABLE i (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v TEXT)",
        "CREATE ROLE writer",
        "CREATE ROLE user_of_it",
        "GRANT INSERT, SELECT, UPDATE ON t, i TO writer, user_of_it",
        "GRANT USAGE ON SEQUENCE t_id_seq TO user_of_it",
    ] {
        let done = session.execute(sql).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
    drop(session);
    database.close().await.unwrap();
    drop(database);
    let database = open_in(folder.path()).await;
    let given: &[u8] = b"20,given\n";
    let copied: &[u8] = b"copied\n";
    for (role, may) in [("writer", false), ("user_of_it", true)] {
        let session = database.session();
        session.execute(&format!("SET ROLE {role}")).await.unwrap();
        let tried = |done: lazybase_model::Result<()>, what: &str| match done {
            Ok(()) => assert!(may, "{what} by {role}"),
            Err(error) => assert_eq!((may, error.sqlstate()), (false, "42501"), "{what}"),
        };
        let insert = "INSERT INTO t (v) VALUES ('x')";
        tried(session.execute(insert).await.map(drop), "INSERT");
        let select = "INSERT INTO t (v) SELECT v FROM i";
        session
            .execute("INSERT INTO i (v) VALUES ('numbered for whoever may insert')")
            .await
            .unwrap();
        tried(session.execute(select).await.map(drop), "INSERT ... SELECT");
        let copy = "COPY t (v) FROM STDIN WITH (FORMAT csv)";
        tried(session.copy_from(copy, copied).await.map(drop), "COPY");
        let mut appender = session.appender(None);
        let appended = texts(&["appended"]);
        let appended = appender.append("t", &appended, Op::Upsert);
        tried(appended.await.map(drop), "an appender");
        drop(appender);
        let batches = futures::stream::iter([Ok(texts(&["streamed"]))]).boxed();
        let into = Ingest::append("t");
        let ingested = session.ingest(&into, texts(&[]).schema(), batches);
        tried(ingested.await.map(drop), "an ingest");
        let prepared = session.prepare("INSERT INTO t (v) VALUES ($1)").await;
        let prepared = prepared.unwrap();
        tried(
            prepared.execute(&["p".into()]).await.map(drop),
            "a prepared INSERT",
        );
        let batches = futures::stream::iter([Ok(texts(&["rows"]))]).boxed();
        let many = prepared.execute_rows(texts(&[]).schema(), batches);
        tried(many.await.map(drop), "rows of parameters");
        // Whoever gives a number takes none.
        session
            .copy_from("COPY t FROM STDIN WITH (FORMAT csv)", given)
            .await
            .unwrap();
        session
            .execute("INSERT INTO t VALUES (30, 'given')")
            .await
            .unwrap();
    }
    database.close().await.unwrap();
}

/// Where a call can't wait it is refused, and no number is made up.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_can_not_wait_are_refused() {
    let database = opened().await;
    let session = database.session();
    for sql in [
        "INSERT INTO t VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET v = nextval('t_id_seq')",
        "CREATE TABLE u (k INT PRIMARY KEY, v BIGINT DEFAULT 1 + nextval('t_id_seq'))",
    ] {
        assert_eq!(state_of(&session, sql).await, "0A000", "{sql}");
    }
    assert_eq!(rows(&session, "SELECT nextval('t_id_seq')").await, [["1"]]);
    database.close().await.unwrap();
}
