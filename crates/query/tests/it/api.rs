//! The Rust API: appenders, point reads by keys, streams, EXPLAIN's text, producers.

use std::sync::Arc;

use arrow::array::{AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use futures::StreamExt;
use lazybase_query::{Answer, Database, Op};

async fn database(folder: &tempfile::TempDir) -> Database {
    let database = Database::open(folder.path().join("db")).await.unwrap();
    let session = database.session();
    session
        .execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT NOT NULL DEFAULT 'x', n BIGINT)")
        .await
        .unwrap();
    database
}

fn rows(keys: &[i64], values: &[&str]) -> RecordBatch {
    RecordBatch::try_from_iter([
        (
            "v",
            Arc::new(StringArray::from(values.to_vec())) as arrow::array::ArrayRef,
        ),
        ("k", Arc::new(Int64Array::from(keys.to_vec())) as _),
    ])
    .unwrap()
}

fn keys(keys: &[i64]) -> RecordBatch {
    RecordBatch::try_from_iter([(
        "k",
        Arc::new(Int64Array::from(keys.to_vec())) as arrow::array::ArrayRef,
    )])
    .unwrap()
}

async fn ask(database: &Database, sql: &str) -> Answer {
    database
        .session()
        .execute(sql)
        .await
        .unwrap()
        .pop()
        .unwrap()
}

fn pairs(answer: &Answer) -> Vec<(i64, String)> {
    let batches = answer.batches.iter();
    batches
        .flat_map(|batch| {
            let keys = batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec();
            let values = batch.column(1).as_string::<i32>().clone();
            keys.into_iter()
                .enumerate()
                .map(move |(row, key)| (key, values.value(row).to_owned()))
        })
        .collect()
}

fn expected(pairs: &[(i64, &str)]) -> Vec<(i64, String)> {
    pairs
        .iter()
        .map(|(key, value)| (*key, (*value).to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn appenders_write_one_batch_of_each_kind() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let mut appender = database.appender();
    appender
        .append("t", &rows(&[1, 2, 3], &["a", "b", "c"]), Op::Upsert)
        .await
        .unwrap();
    appender
        .append("t", &rows(&[2, 4], &["B", "D"]), Op::Insert)
        .await
        .unwrap();
    appender
        .append("t", &rows(&[3, 5], &["C", "E"]), Op::Update)
        .await
        .unwrap();
    appender.append("t", &keys(&[1]), Op::Delete).await.unwrap();
    appender.append("t", &keys(&[6]), Op::Upsert).await.unwrap();
    assert_eq!(
        ask(&database, "SELECT count(*) FROM t WHERE k > 0")
            .await
            .rows,
        1
    );
    let before = ask(&database, "SELECT k, v FROM t ORDER BY k").await;
    assert!(
        pairs(&before).is_empty(),
        "nothing is seen before the commit"
    );
    appender.commit().await.unwrap();
    let answer = ask(&database, "SELECT k, v FROM t ORDER BY k").await;
    assert_eq!(
        pairs(&answer),
        expected(&[(2, "b"), (3, "C"), (4, "D"), (6, "x")])
    );
    assert_eq!(answer.stamp.unwrap().batches_left_out, 0);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_and_the_batch_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let mut appender = database.appender();
    let floats = RecordBatch::try_from_iter([(
        "k",
        Arc::new(Float64Array::from(vec![1.0])) as arrow::array::ArrayRef,
    )])
    .unwrap();
    let error = appender.append("t", &floats, Op::Upsert).await.unwrap_err();
    assert_eq!(error.sqlstate(), "42804");
    let error = appender
        .append("u", &keys(&[1]), Op::Upsert)
        .await
        .unwrap_err();
    assert_eq!(error.sqlstate(), "42P01");
    appender
        .append("t", &rows(&[1], &["a"]), Op::Upsert)
        .await
        .unwrap();
    appender.commit().await.unwrap();
    let answer = ask(&database, "SELECT k, v FROM t").await;
    assert_eq!(pairs(&answer), expected(&[(1, "a")]));
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_read_by_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    session
        .execute("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
        .await
        .unwrap();
    let answer = session
        .get("t", &keys(&[2, 9, 1, 2]), &["k", "v"])
        .await
        .unwrap();
    assert_eq!(pairs(&answer), expected(&[(1, "a"), (2, "b")]));
    assert!(session.last_stamp().is_some());
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_stream_and_end_with_their_stamp() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let script = "INSERT INTO t (k) SELECT x FROM generate_series(1, 20000) AS s (x)";
    session.execute(script).await.unwrap();
    let mut answer = session
        .query("SELECT k, v FROM t WHERE k % 2 = 0")
        .await
        .unwrap();
    let mut rows = 0;
    while let Some(batch) = answer.next().await {
        rows += batch.unwrap().num_rows();
    }
    assert_eq!(rows, 10_000);
    assert_eq!(answer.tag(), "SELECT 10000");
    assert!(answer.stamp().is_some());
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_the_horizon_and_the_sources() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    ask(&database, "INSERT INTO t (k) VALUES (1)").await;
    let answer = ask(&database, "EXPLAIN SELECT v FROM t WHERE k > 0 AND n = 1").await;
    let lines: Vec<(String, String)> = answer
        .batches
        .iter()
        .flat_map(|batch| {
            let (kinds, plans) = (batch.column(0).as_string::<i32>(), batch.column(1));
            let plans = plans.as_string::<i32>();
            (0..batch.num_rows())
                .map(|row| (kinds.value(row).to_owned(), plans.value(row).to_owned()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(lines[0].0, "horizon");
    assert_eq!(lines[1].0, "scan of t");
    assert!(
        lines[1].1.starts_with("a range of the key"),
        "{}",
        lines[1].1
    );
    let plan = lines
        .iter()
        .find(|(kind, _)| kind == "physical_plan")
        .unwrap();
    assert!(plan.1.contains("LazyScanExec: table=t"), "{}", plan.1);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_columns_and_large_cells_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let columns: Vec<String> = (0..2000).map(|at| format!("c{at} INT")).collect();
    let create = format!(
        "CREATE TABLE wide (k INT PRIMARY KEY, {})",
        columns.join(", ")
    );
    session.execute(&create).await.unwrap();
    session
        .execute("INSERT INTO wide (k, c1999) VALUES (1, 7)")
        .await
        .unwrap();
    session
        .execute("UPDATE wide SET c1000 = 8 WHERE k = 1")
        .await
        .unwrap();
    session.execute("SETTLE").await.unwrap();
    let answer = ask(&database, "SELECT c0, c1000, c1999 FROM wide").await;
    let values: Vec<String> = (0..3)
        .map(|at| {
            arrow::util::display::array_value_to_string(answer.batches[0].column(at), 0).unwrap()
        })
        .collect();
    assert_eq!(values, ["", "8", "7"]);

    let cell = "x".repeat(16 << 20);
    let mut appender = database.appender();
    appender
        .append("t", &rows(&[1], &[&cell]), Op::Upsert)
        .await
        .unwrap();
    let longer = format!("{cell}y");
    let error = appender
        .append("t", &rows(&[2], &[&longer]), Op::Upsert)
        .await
        .unwrap_err();
    assert_eq!(error.sqlstate(), "54000");
    appender.commit().await.unwrap();
    let answer = ask(&database, "SELECT k FROM t WHERE length(v) = 16777216").await;
    assert_eq!(answer.rows, 1);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_batches_and_repeated_keys_are_defined() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let mut appender = database.appender();
    appender
        .append("t", &rows(&[], &[]), Op::Upsert)
        .await
        .unwrap();
    appender.commit().await.unwrap();
    let mut appender = database.appender();
    appender
        .append("t", &rows(&[1, 1, 1], &["a", "b", "c"]), Op::Upsert)
        .await
        .unwrap();
    appender
        .append("t", &rows(&[2, 2], &["first", "second"]), Op::Insert)
        .await
        .unwrap();
    appender.commit().await.unwrap();
    let answer = ask(&database, "SELECT k, v FROM t ORDER BY k").await;
    assert_eq!(pairs(&answer), expected(&[(1, "c"), (2, "first")]));
    database.close().await.unwrap();
}
