//! Prepared statements: types and values of parameters, and many rows of them.

use std::time::Duration;

use arrow::datatypes::DataType;
use futures::StreamExt;
use lazybase_query::Value;

use super::{ask, database, expected, keys, pairs};

#[tokio::test(flavor = "multi_thread")]
async fn parameters_get_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let insert = session
        .prepare("INSERT INTO t (k, v, n) VALUES ($1, $2, $3), ($1 + 10, upper($2), $3)")
        .await
        .unwrap();
    assert_eq!(insert.parameters(), 3);
    assert_eq!(
        insert.parameter_types(),
        [
            Some(DataType::Int64),
            Some(DataType::Utf8),
            Some(DataType::Int64)
        ]
    );
    for (k, v) in [(1_i64, "it's"), (2, "$1")] {
        let n: Option<i64> = (k == 1).then_some(-5);
        let answer = insert
            .execute(&[k.into(), v.into(), n.into()])
            .await
            .unwrap();
        assert_eq!(answer.tag, "INSERT 0 2");
    }
    let answer = ask(&database, "SELECT k, v FROM t ORDER BY k").await;
    assert_eq!(
        pairs(&answer),
        expected(&[(1, "it's"), (2, "$1"), (11, "IT'S"), (12, "$1")])
    );
    let found = session
        .prepare("SELECT k, v FROM t WHERE n = $1 AND v <> $2 ORDER BY k LIMIT $3")
        .await
        .unwrap();
    let types = found.parameter_types();
    assert_eq!(types[..2], [Some(DataType::Int64), Some(DataType::Utf8)]);
    let answer = found
        .execute(&[Value::Int(-5), "x".into(), 1_i64.into()])
        .await
        .unwrap();
    assert_eq!(pairs(&answer), expected(&[(1, "it's")]));
    let update = session
        .prepare("UPDATE t SET v = $2 WHERE k = $1")
        .await
        .unwrap();
    assert_eq!(
        update.parameter_types(),
        [Some(DataType::Int64), Some(DataType::Utf8)]
    );
    update.execute(&[1_i64.into(), "one".into()]).await.unwrap();
    let delete = "DELETE FROM t WHERE v = $1 OR k IN ($2, $3)";
    let values = [Value::from("IT'S"), Value::Int(2), Value::Int(12)];
    let answer = session.execute_with(delete, &values).await.unwrap();
    assert_eq!(answer.tag, "DELETE 3");
    let answer = ask(&database, "SELECT k, v FROM t").await;
    assert_eq!(pairs(&answer), expected(&[(1, "one")]));
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_windows_have_types() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    session
        .execute("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
        .await
        .unwrap();
    for (call, types) in [
        ("lag(n, $1)", vec![DataType::Int32]),
        ("lead(n, $1, $2)", vec![DataType::Int32, DataType::Int64]),
        ("nth_value(v, $1)", vec![DataType::Int32]),
        ("ntile($1)", vec![DataType::Int32]),
    ] {
        let sql = format!("SELECT {call} OVER (ORDER BY k) FROM t");
        let windows = session.prepare(&sql).await.unwrap();
        let types: Vec<Option<DataType>> = types.into_iter().map(Some).collect();
        assert_eq!(windows.parameter_types(), types, "{call}");
    }
    let windows = session
        .prepare("SELECT k, lag(v, $1, $2) OVER (ORDER BY k) FROM t ORDER BY k")
        .await
        .unwrap();
    assert_eq!(
        windows.parameter_types(),
        [Some(DataType::Int32), Some(DataType::Utf8)]
    );
    let values = [Value::Int(2), "none".into()];
    let answer = windows.execute(&values).await.unwrap();
    assert_eq!(
        pairs(&answer),
        expected(&[(1, "none"), (2, "none"), (3, "a")])
    );
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_read_by_key_passes_the_planner() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    session
        .execute("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
        .await
        .unwrap();
    let find = session
        .prepare("SELECT k, v FROM t WHERE k = $1 FRESHNESS 0")
        .await
        .unwrap();
    assert!(find.reads_keys());
    assert_eq!(find.parameter_types(), [Some(DataType::Int64)]);
    let answer = find.execute(&[2_i64.into()]).await.unwrap();
    assert_eq!(pairs(&answer), expected(&[(2, "b")]));
    assert_eq!(
        pairs(&find.execute(&["3".into()]).await.unwrap()),
        expected(&[(3, "c")])
    );
    for absent in [Value::Null, Value::Float(2.5), Value::Int(9)] {
        let answer = find.execute(&[absent]).await.unwrap();
        assert_eq!(answer.rows, 0);
        assert_eq!(answer.schema.fields().len(), 2);
    }
    let several = session
        .prepare("SELECT k, v FROM t WHERE k IN ($1, $2, 3)")
        .await
        .unwrap();
    assert!(several.reads_keys());
    let answer = several
        .execute(&[1_i64.into(), 1_i64.into()])
        .await
        .unwrap();
    assert_eq!(pairs(&answer), expected(&[(1, "a"), (3, "c")]));
    // Own changes of a transaction are seen; a failed one reads nothing.
    session
        .execute("BEGIN; UPDATE t SET v = 'B' WHERE k = 2")
        .await
        .unwrap();
    let answer = find.execute(&[2_i64.into()]).await.unwrap();
    assert_eq!(pairs(&answer), expected(&[(2, "B")]));
    session.execute("SELECT nothing FROM t").await.unwrap_err();
    let error = find.execute(&[2_i64.into()]).await.unwrap_err();
    assert_eq!(error.sqlstate(), "25P02");
    session.execute("ROLLBACK").await.unwrap();
    // The table is another one: the statement is read again.
    session
        .execute(
            "DROP TABLE t; CREATE TABLE t (v TEXT, k BIGINT PRIMARY KEY); \
                  INSERT INTO t VALUES ('new', 2)",
        )
        .await
        .unwrap();
    let answer = find.execute(&[2_i64.into()]).await.unwrap();
    assert_eq!(pairs(&answer), expected(&[(2, "new")]));
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let code = |error: lazybase_model::Error| error.sqlstate().to_owned();
    let refused = async |sql: &str| code(session.execute(sql).await.unwrap_err());
    assert_eq!(refused("SELECT * FROM t WHERE k = $1").await, "42P02");
    assert_eq!(refused("INSERT INTO t (k) VALUES ($1)").await, "42P02");
    let prepare = async |sql: &str| code(session.prepare(sql).await.err().unwrap());
    assert_eq!(prepare("SELECT * FROM nothing WHERE k = $1").await, "42P01");
    assert_eq!(prepare("SELECT nothing FROM t WHERE k = $1").await, "42703");
    assert_eq!(prepare("SELECT 1; SELECT 2").await, "42601");
    assert_eq!(prepare("SELECT * FROM t WHERE k = $0").await, "42P02");
    let given = async |sql: &str, values: &[Value]| {
        code(session.execute_with(sql, values).await.unwrap_err())
    };
    let find = "SELECT * FROM t WHERE k = $1";
    assert_eq!(given(find, &[]).await, "08P01");
    assert_eq!(given(find, &[Value::Int(1), Value::Int(2)]).await, "08P01");
    let insert = "INSERT INTO t (k, v) VALUES ($1, $2)";
    assert_eq!(given(insert, &[Value::Null, "x".into()]).await, "23502");
    assert_eq!(given(insert, &["x".into(), "x".into()]).await, "22P02");
    // Values of every kind arrive as they are.
    let all = "SELECT $1 AS a, $2 AS b, $3 AS c, $4 AS d, $5 AS e, $6 AS f";
    let values = [
        Value::Int(i64::MIN),
        Value::UInt(u64::MAX),
        Value::Float(f64::NEG_INFINITY),
        Value::Float(-1.5e300),
        Value::Bytes(vec![0, 255]),
        Value::Bool(true),
    ];
    let answer = session.execute_with(all, &values).await.unwrap();
    let shown: Vec<String> = answer.batches[0]
        .columns()
        .iter()
        .map(|column| arrow::util::display::array_value_to_string(column, 0).unwrap())
        .collect();
    let expected = [
        "-9223372036854775808",
        "18446744073709551615",
        "-inf",
        "-1.5e300",
        "00ff",
        "true",
    ];
    assert_eq!(shown, expected);
    database.close().await.unwrap();
}

/// The statement waits for its bound when it runs: who asked for its columns would wait twice.
#[tokio::test(flavor = "multi_thread")]
async fn columns_are_told_without_waiting_for_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let not_sorted =
        "ALTER TABLE t ADD COLUMN m INT; PAUSE STAGE SORT; INSERT INTO t (k) VALUES (1)";
    session.execute(not_sorted).await.unwrap();
    session.set("lazybase.on_miss", "wait 20 minutes").unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    for clauses in [
        "FRESHNESS '1 ms' ON MISS WAIT '10 minutes'",
        "FRESHNESS '1 ms'",
    ] {
        for rows in ["k = $1", "n = $1"] {
            let sql = format!("SELECT * FROM t WHERE {rows} {clauses}");
            let prepared = session.prepare(&sql).await.unwrap();
            let columns = tokio::time::timeout(Duration::from_secs(60), prepared.schema()).await;
            let columns = columns.expect("nothing is waited for").unwrap().unwrap();
            assert_eq!(columns.fields().len(), 4, "{sql}");
        }
    }
    // What runs waits.
    let waits = "SELECT * FROM t FRESHNESS '1 ms' ON MISS WAIT '1 minute'";
    let run = tokio::time::timeout(Duration::from_millis(200), session.execute(waits)).await;
    assert!(run.is_err());
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_run_one_by_one_leave_the_session_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    session.set("lazybase.freshness", "best effort").unwrap();
    let insert = "INSERT INTO t (k, n) SELECT $1::BIGINT, 6 / ($1::BIGINT - 3)";
    let prepared = session.prepare(insert).await.unwrap();
    let run = |given: &'static [i64]| {
        let rows = futures::stream::iter([Ok(keys(given))]).boxed();
        prepared.execute_rows(keys(given).schema(), rows)
    };
    assert_eq!(run(&[1, 2]).await.unwrap().row_count(), 2);
    assert_eq!(
        session.setting("lazybase.freshness").unwrap(),
        "best effort"
    );
    let error = run(&[4, 3]).await.err().unwrap();
    assert_eq!(error.sqlstate(), "22012");
    assert!(!session.in_transaction());
    assert_eq!(
        session.setting("lazybase.freshness").unwrap(),
        "best effort"
    );
    // A session that only reads writes nothing so.
    session.set("default_transaction_read_only", "on").unwrap();
    let error = run(&[5]).await.err().unwrap();
    assert_eq!(error.sqlstate(), "25006");
    let answer = ask(&database, "SELECT k, v FROM t ORDER BY k").await;
    assert_eq!(pairs(&answer), expected(&[(1, "x"), (2, "x")]));
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_refused_fail_their_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let update = "UPDATE t SET k = $1 WHERE k = $1";
    let prepared = session.prepare(update).await.unwrap();
    session.execute("BEGIN").await.unwrap();
    let rows = futures::stream::iter([Ok(keys(&[1]))]).boxed();
    let done = prepared.execute_rows(keys(&[1]).schema(), rows).await;
    assert_eq!(done.err().unwrap().sqlstate(), "0A000");
    let error = session.execute("SELECT 1").await.err().unwrap();
    assert_eq!(error.sqlstate(), "25P02");
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn to_be_described_pins_no_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let altered = "INSERT INTO t (k, n) VALUES (1, 1); ALTER TABLE t ADD COLUMN extra INT; BEGIN";
    session.execute(altered).await.unwrap();
    let query = "SELECT k, v FROM t WHERE n = 1 FRESHNESS 30";
    let prepared = session.prepare(query).await.unwrap();
    let schema = prepared.schema().await.unwrap().unwrap();
    assert_eq!(schema.fields().len(), 2);
    let answer = prepared.execute(&[]).await.unwrap();
    assert_eq!(pairs(&answer), expected(&[(1, "x")]));
    // It has pinned the transaction: how fresh that is can't be said again.
    let error = prepared.execute(&[]).await.unwrap_err();
    assert_eq!(error.sqlstate(), "25001");
    database.close().await.unwrap();
}
