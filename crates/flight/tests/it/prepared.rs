//! Prepared statements: types of parameters, rows bound to queries, and many rows bound to one
//! statement as one batch.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::DataType;
use arrow_flight::sql::client::PreparedStatement;
use tonic::transport::Channel;

use crate::served::{Client, Served, fetch, pairs, sqlstate};

async fn prepare(client: &mut Client, sql: &str) -> PreparedStatement<Channel> {
    client.prepare(sql.to_owned(), None).await.unwrap()
}

/// Binds rows and runs the statement for each of them.
async fn update(
    client: &mut Client,
    sql: &str,
    rows: RecordBatch,
) -> Result<i64, arrow_flight::error::FlightError> {
    let mut statement = prepare(client, sql).await;
    statement.set_parameters(rows).unwrap();
    statement.execute_update().await
}

fn rows<const N: usize>(columns: [ArrayRef; N]) -> RecordBatch {
    let names = (1..=N).map(|at| format!("p{at}"));
    RecordBatch::try_from_iter(names.zip(columns)).unwrap()
}

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

#[tokio::test]
async fn a_query_is_described_and_run_with_what_is_bound() {
    let served = Served::start().await;
    served
        .sql(
            "CREATE TABLE t (k INT PRIMARY KEY, v TEXT, at TIMESTAMP); \
              INSERT INTO t SELECT value, 'v' || value, '2026-01-0' || value \
              FROM generate_series(1, 9) AS g (value)",
        )
        .await;
    let mut client = served.client().await;
    let mut find = prepare(&mut client, "SELECT v FROM t WHERE k = $1").await;
    assert_eq!(
        *find.parameter_schema().unwrap().field(0).data_type(),
        DataType::Int32
    );
    assert_eq!(find.dataset_schema().unwrap().field(0).name(), "v");
    for k in [3, 7] {
        find.set_parameters(rows([ints([k])])).unwrap();
        let info = find.execute().await.unwrap();
        assert_eq!(
            fetch(&mut client, &info).await.unwrap().text(),
            format!("v{k}")
        );
    }
    // Several rows: one answer, of one snapshot.
    find.set_parameters(rows([ints([1, 2, 100, 5])])).unwrap();
    let info = find.execute().await.unwrap();
    let got = fetch(&mut client, &info).await.unwrap();
    assert_eq!(got.text(), "v1; v2; v5");
    assert_eq!(got.last["rows"], 3);
    find.close().await.unwrap();

    // What the statement does not tell, the values do.
    let mut sum = prepare(&mut client, "SELECT ? + ? AS n, ? AS s").await;
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    sum.set_parameters(rows([ints([40]), ints([2]), texts]))
        .unwrap();
    let info = sum.execute().await.unwrap();
    let schema = info.clone().try_decode_schema().unwrap();
    assert_eq!(*schema.field(0).data_type(), DataType::Int64);
    assert_eq!(fetch(&mut client, &info).await.unwrap().text(), "42 x");

    let mut since = prepare(&mut client, "SELECT count(*) FROM t WHERE at > $1").await;
    let micros = 1_767_571_200_000_000; // 2026-01-05
    let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![micros]));
    since.set_parameters(rows([at])).unwrap();
    let info = since.execute().await.unwrap();
    assert_eq!(fetch(&mut client, &info).await.unwrap().text(), "4");

    // Too few values, and a statement that is gone.
    since.set_parameters(rows([ints([1]), ints([2])])).unwrap();
    let info = since.execute().await;
    assert_eq!(
        match info {
            Ok(info) => sqlstate(fetch(&mut client, &info).await),
            Err(error) => sqlstate::<()>(Err(error)),
        },
        "08P01"
    );
    served.stop().await;
}

#[tokio::test]
async fn many_rows_of_an_insert_are_one_batch() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT, n INT DEFAULT 7, c TEXT)")
        .await;
    let mut client = served.client().await;
    let sql = "INSERT INTO t (k, v, n, c) VALUES ($1, $2, DEFAULT, 'same')";
    assert_eq!(
        update(&mut client, sql, pairs(0..100_000)).await.unwrap(),
        100_000
    );
    assert_eq!(
        served
            .read("SELECT count(*), count(DISTINCT v), min(n), max(c) FROM t")
            .await,
        "100000 100000 7 same"
    );
    // One batch, so nothing of it is there when a row is wrong.
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let wrong = update(
        &mut client,
        "INSERT INTO t (k, v) VALUES (?, ?)",
        rows([keys, texts]),
    );
    assert_eq!(sqlstate(wrong.await), "23502");
    assert_eq!(served.read("SELECT count(*) FROM t WHERE k < 0").await, "0");
    // A conflict is met as in SQL.
    let keep = "INSERT INTO t (k, v) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["new", "new"]));
    assert_eq!(
        update(&mut client, keep, rows([ints([5, -5]), texts]))
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        served
            .read("SELECT k, v FROM t WHERE k IN (5, -5) ORDER BY k")
            .await,
        "-5 new; 5 v5"
    );
    served.stop().await;
}

#[tokio::test]
async fn many_rows_of_an_update_or_a_delete_are_one_batch() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (a INT, b TEXT, v DOUBLE PRECISION, PRIMARY KEY (a, b))")
        .await;
    let mut client = served.client().await;
    let keys = || -> [ArrayRef; 2] {
        let a: Int64Array = (0..1000).collect();
        let b: StringArray = (0..1000).map(|at| Some(format!("b{at}"))).collect();
        [Arc::new(a), Arc::new(b)]
    };
    let [a, b] = keys();
    let insert = "INSERT INTO t (a, b, v) VALUES ($1, $2, 0)";
    assert_eq!(
        update(&mut client, insert, rows([a, b])).await.unwrap(),
        1000
    );
    let [a, b] = keys();
    let values: ArrayRef = Arc::new(
        (0..1000)
            .map(|at| Some(f64::from(at) / 2.0))
            .collect::<Float64Array>(),
    );
    let set = "UPDATE t SET v = $3 WHERE b = $2 AND a = $1";
    assert_eq!(
        update(&mut client, set, rows([a, b, values]))
            .await
            .unwrap(),
        1000
    );
    assert_eq!(
        served.read("SELECT sum(v), count(*) FROM t").await,
        "249750.0 1000"
    );

    // Values that no key has name no row: NULL, and numbers that the column can't hold.
    let a: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(i64::MAX), Some(1)]));
    let b: ArrayRef = Arc::new(StringArray::from(vec!["b1"; 3]));
    let delete = "DELETE FROM t WHERE a = ? AND b = ?";
    assert_eq!(update(&mut client, delete, rows([a, b])).await.unwrap(), 1);
    assert_eq!(served.read("SELECT count(*) FROM t").await, "999");

    // What needs a query is run row by row, and is one batch as well.
    let halves: ArrayRef = Arc::new(Int32Array::from(vec![10, 20]));
    let some = "DELETE FROM t WHERE a < $1";
    assert_eq!(
        update(&mut client, some, rows([halves])).await.unwrap(),
        9 + 10
    );
    let halves: ArrayRef = Arc::new(Int32Array::from(vec![30, 0]));
    let fails = "UPDATE t SET v = 1 / $1 WHERE a < 100";
    let failed = update(&mut client, fails, rows([halves])).await;
    assert_eq!(sqlstate(failed), "22012");
    assert_eq!(
        served.read("SELECT sum(v) FROM t WHERE a = 50").await,
        "25.0"
    );
    served.stop().await;
}

#[tokio::test]
async fn texts_become_what_their_columns_are() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (id UUID PRIMARY KEY, d DATE, n DECIMAL(10, 2), j INT[])")
        .await;
    let mut client = served.client().await;
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let id = "0a0b0c0d-0e0f-1011-1213-141516171819";
    let sql = "INSERT INTO t VALUES ($1, $2, $3, $4)";
    let row = rows([text(id), text("2026-02-03"), text("12.5"), text("[1, 2]")]);
    assert_eq!(update(&mut client, sql, row).await.unwrap(), 1);
    let expected = format!("{id} 2026-02-03 12.50 [1, 2]");
    assert_eq!(served.read("SELECT * FROM t").await, expected);
    let day: ArrayRef = Arc::new(Date32Array::from(vec![0]));
    let set = "UPDATE t SET d = $2 WHERE id = $1";
    assert_eq!(
        update(&mut client, set, rows([text(id), day]))
            .await
            .unwrap(),
        1
    );
    assert_eq!(served.read("SELECT d FROM t").await, "1970-01-01");
    let wrong = update(&mut client, set, rows([text(id), text("no day")])).await;
    assert_eq!(sqlstate(wrong), "22007");
    served.stop().await;
}

#[tokio::test]
async fn a_statement_without_parameters_runs_once() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let mut make = prepare(&mut client, "CREATE TABLE t (k INT PRIMARY KEY)").await;
    assert_eq!(make.dataset_schema().unwrap().fields().len(), 0);
    assert_eq!(make.execute_update().await.unwrap(), 0);
    let mut insert = prepare(&mut client, "INSERT INTO t VALUES (1), (2)").await;
    assert_eq!(insert.execute_update().await.unwrap(), 2);
    // As a query it is done, too, once.
    let info = prepare(&mut client, "DELETE FROM t WHERE k = 1")
        .await
        .execute()
        .await
        .unwrap();
    assert_eq!(served.read("SELECT count(*) FROM t").await, "1");
    fetch(&mut client, &info).await.unwrap();
    served.stop().await;
}

#[tokio::test]
async fn an_insert_tells_the_row_that_is_bound() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT DEFAULT 'new')")
        .await;
    let mut client = served.client().await;
    let insert = "INSERT INTO t (k) VALUES ($1) RETURNING v, k";
    let mut put = prepare(&mut client, insert).await;
    put.set_parameters(rows([ints([7])])).unwrap();
    let info = put.execute().await.unwrap();
    assert_eq!(fetch(&mut client, &info).await.unwrap().text(), "new 7");
    // Several would be several writes: they are one batch as an update, or in a transaction.
    put.set_parameters(rows([ints([8, 9])])).unwrap();
    let info = put.execute().await.unwrap();
    assert_eq!(sqlstate(fetch(&mut client, &info).await), "0A000");
    assert_eq!(served.read("SELECT count(*) FROM t").await, "1");
    let written = update(&mut client, insert, rows([ints([8, 9])])).await;
    assert_eq!(written.unwrap(), 2);
    assert_eq!(served.read("SELECT count(*) FROM t").await, "3");
    // So with rows that are found: here nothing is done at once.
    let delete = "DELETE FROM t WHERE k = $1 RETURNING v, k";
    let mut put = prepare(&mut client, delete).await;
    put.set_parameters(rows([ints([7])])).unwrap();
    let info = put.execute().await.unwrap();
    assert_eq!(fetch(&mut client, &info).await.unwrap().text(), "new 7");
    let written = update(&mut client, delete, rows([ints([8, 1, 9])])).await;
    assert_eq!(written.unwrap(), 2);
    assert_eq!(served.read("SELECT count(*) FROM t").await, "0");
    served.stop().await;
}
