//! The Rust API: appenders, point reads by keys, streams, EXPLAIN's text, producers.

use std::sync::Arc;

use arrow::array::{AsArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Int64Type};
use futures::StreamExt;
use lazybase_cluster::StageName;
use lazybase_query::{Answer, Database, Op, Value};

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
    ask(
        &database,
        "CREATE TABLE s (k BIGINT PRIMARY KEY, v VARCHAR(2))",
    )
    .await;
    for op in [Op::Upsert, Op::Insert, Op::Update] {
        let long = rows(&[1, 2], &["äö", "abc"]);
        let error = appender.append("s", &long, op).await.unwrap_err();
        assert_eq!(error.sqlstate(), "22001");
        let message = error.message();
        assert!(message.starts_with("table \"s\", column \"v\", row 2: "));
    }
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
async fn a_stamp_says_which_past_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    ask(&database, "INSERT INTO t (k) VALUES (1)").await;
    // DDL seals.
    ask(&database, "CREATE TABLE sealed (k BIGINT PRIMARY KEY)").await;
    for (clause, asked) in [
        ("AS OF SCU 1", "(asked as of SCU 1)"),
        (
            "AS OF TIMESTAMP '2100-01-02 03:04:05.5'",
            "(asked as of TIMESTAMP 2100-01-02 03:04:05.500)",
        ),
        ("FRESHNESS 'best effort'", "(asked best effort)"),
        ("", "(asked 0)"),
    ] {
        let answer = ask(&database, &format!("SELECT count(*) FROM t {clause}")).await;
        let stamp = answer.stamp.unwrap().to_string();
        assert!(stamp.contains(asked), "{clause}: {stamp}");
    }
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_the_horizon_and_the_sources() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    ask(&database, "INSERT INTO t (k) VALUES (1)").await;
    let explain = async |sql: &str| -> Vec<String> {
        let answer = ask(&database, sql).await;
        let lines = answer.batches.iter();
        lines
            .flat_map(|batch| {
                let lines = batch.column(0).as_string::<i32>().iter();
                lines
                    .map(|line| line.unwrap().to_owned())
                    .collect::<Vec<_>>()
            })
            .collect()
    };
    let lines = explain("EXPLAIN SELECT v FROM t WHERE k > 0 AND n = 1").await;
    assert!(lines[0].starts_with("horizon "), "{lines:#?}");
    assert!(lines[0].ends_with("complete (asked 0)"), "{lines:#?}");
    assert_eq!(lines[1], "scan of t: a range of the key, 1 source");
    assert!(lines[2].starts_with("  open"), "{lines:#?}");
    assert_eq!(lines[3], "plan");
    assert!(
        lines.last().unwrap().contains("LazyScanExec: table=t"),
        "{lines:#?}"
    );
    ask(&database, "SETTLE").await;
    let lines = explain("EXPLAIN ANALYZE SELECT v FROM t WHERE n = 1").await;
    assert!(lines[0].contains("read authority"), "{lines:#?}");
    assert_eq!(lines[1], "scan of t: the whole table, 1 source");
    let source = "  authority  run r";
    assert!(lines[2].starts_with(source), "{lines:#?}");
    assert!(
        lines[2].contains(": 1 of 1 extent in 1 segment, "),
        "{lines:#?}"
    );
    let ran = lines
        .iter()
        .find(|line| line.contains("LazyScanExec"))
        .unwrap();
    assert!(ran.contains("output_rows=1"), "{lines:#?}");
    let lines = explain("EXPLAIN SELECT v FROM t WHERE k = 1").await;
    assert_eq!(lines[1], "read of t by key: 1 key, past the planner");
    assert!(lines[2].starts_with(source), "{lines:#?}");
    assert!(
        lines[2].contains(": 1 of 1 extent in 1 segment, "),
        "{lines:#?}"
    );
    assert_eq!(lines.len(), 3);
    let lines = explain("EXPLAIN ANALYZE SELECT v FROM t WHERE k IN (1, 9)").await;
    assert_eq!(lines[1], "read of t by key: 2 keys, past the planner");
    assert_eq!(lines[2], "  1 row");
    let lines = explain("EXPLAIN VERBOSE SELECT v FROM t").await;
    assert!(
        lines.iter().any(|line| line == "logical_plan"),
        "{lines:#?}"
    );
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_one_text_are_told_apart_by_views() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let insert = "INSERT INTO t (k, v, n) VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3)";
    ask(&database, insert).await;
    let session = database.session();
    // One part: else the few rows that a filter leaves are dealt out before they are grouped.
    crate::rows(&session, "SET datafusion.execution.target_partitions = 1").await;
    for settle in [false, true] {
        if settle {
            ask(&database, "SETTLE").await;
        }
        for (sql, viewed) in [
            ("SELECT v, count(*) FROM t GROUP BY v", true),
            ("SELECT v, sum(n) FROM t GROUP BY v", true),
            ("SELECT v, count(*) FROM t WHERE n > 0 GROUP BY v", true),
            ("SELECT DISTINCT v FROM t", true),
            ("SELECT v, max(v || '!') FROM t GROUP BY v", false),
            ("SELECT v, count(*) FROM t WHERE v > '' GROUP BY v", false),
            ("SELECT v, n, count(*) FROM t GROUP BY v, n", false),
            ("SELECT v FROM t", false),
        ] {
            let plan = crate::rows(&session, &format!("EXPLAIN {sql}")).await;
            let scan = plan.iter().find(|line| line[0].contains("LazyScanExec"));
            assert_eq!(scan.unwrap()[0].contains("views=[v]"), viewed, "{plan:#?}");
            let answer = ask(&database, sql).await;
            assert_eq!(answer.schema.field(0).data_type(), &DataType::Utf8, "{sql}");
            let mut texts: Vec<&str> = Vec::new();
            for batch in &answer.batches {
                texts.extend(batch.column(0).as_string::<i32>().iter().flatten());
            }
            texts.sort_unstable();
            texts.dedup();
            assert_eq!(texts, ["a", "b"], "{sql}");
        }
    }
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_into_an_empty_cache_is_kept_for_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let setup = [
        "CREATE TABLE kept (k BIGINT PRIMARY KEY, v BIGINT)",
        "INSERT INTO kept SELECT x, (x * 48271) % 65537 FROM generate_series(1, 100000) AS s (x)",
        "SETTLE",
    ];
    for sql in setup {
        ask(&database, sql).await;
    }
    let sources = async || {
        let answer = ask(&database, "SELECT sum(v) FROM kept").await;
        answer.stamp.unwrap().sources
    };
    let (first, second) = (sources().await, sources().await);
    assert!(first.bytes_read > 0, "{first:?}");
    assert_eq!(second.bytes_read, 0, "{second:?}");
    assert!(second.cache_hits > 0, "{second:?}");
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_does_what_its_options_say_and_shows_no_inner_names() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    ask(&database, "INSERT INTO t (k) VALUES (1)").await;
    let told = async |sql: &str| -> String {
        let lines = crate::rows(&session, sql).await;
        lines.into_iter().map(|line| line.join("") + "\n").collect()
    };
    for (options, runs) in [("", false), ("(ANALYZE) ", true), ("(VERBOSE) ", false)] {
        let sql = format!("EXPLAIN {options}SELECT k + 1, k + 2, v, v FROM t WHERE n IS NULL");
        let plan = told(&sql).await;
        assert_eq!(plan.contains("output_rows="), runs, "{plan}");
        let inner = |c: char| c.is_control() && c != '\n';
        assert!(!plan.contains(inner) && !plan.contains("again"), "{plan:?}");
    }
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

#[tokio::test(flavor = "multi_thread")]
async fn copy_reads_what_the_caller_gives() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let copy = "COPY t (k, v) FROM STDIN WITH (HEADER)";
    let data: &[u8] = b"k,v\n1,a\n2,\"\"\n";
    let answer = session.copy_from(copy, data).await.unwrap();
    assert_eq!(answer.tag(), "COPY 2");
    assert!(answer.token().is_some());
    let json: &[u8] = b"{\"k\":3,\"v\":\"c\"}\n";
    let copy = "COPY t (k, v) FROM STDIN WITH (FORMAT json)";
    session.copy_from(copy, json).await.unwrap();
    let broken: &[u8] = b"4,x\nfive,y\n";
    let error = session
        .copy_from("COPY t (k, v) FROM STDIN", broken)
        .await
        .err()
        .unwrap();
    assert_eq!(error.sqlstate(), "22P02");
    assert!(error.message().contains("row 2"), "{error}");
    let unknown: &[u8] = b"{\"k\":5,\"w\":1}\n";
    assert!(session.copy_from(copy, unknown).await.is_err());
    let answer = ask(&database, "SELECT k, v FROM t ORDER BY k").await;
    assert_eq!(pairs(&answer), expected(&[(1, "a"), (2, ""), (3, "c")]));
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_and_arrow_come_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    session
        .execute("INSERT INTO t (k) SELECT x FROM generate_series(1, 20000) AS s (x)")
        .await
        .unwrap();
    for format in ["parquet", "arrow"] {
        let path = folder.path().join(format!("t.{format}"));
        let name = path.to_str().unwrap();
        session
            .execute(&format!("COPY t TO '{name}'; DELETE FROM t WHERE k > 100"))
            .await
            .unwrap();
        let input = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
        let copy = format!("COPY t FROM STDIN WITH (FORMAT {format})");
        let answer = session.copy_from(&copy, input).await.unwrap();
        assert_eq!(answer.row_count(), 20_000, "{format}");
        let count = "SELECT k FROM t";
        assert_eq!(ask(&database, count).await.rows, 20_000);
    }
    database.close().await.unwrap();
}

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

#[tokio::test(flavor = "multi_thread")]
async fn settle_tells_how_far_it_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    session.on_progress(move |share| told.lock().unwrap().push(share));
    session
        .execute("INSERT INTO t (k) VALUES (1); SETTLE")
        .await
        .unwrap();
    let heard = heard.lock().unwrap().clone();
    assert!(
        heard.iter().all(|share| (0.0..=1.0).contains(share)),
        "{heard:?}"
    );
    assert!(heard.is_sorted(), "{heard:?}");
    assert_eq!(heard.last(), Some(&1.0));
    database.close().await.unwrap();
}

#[tokio::test]
async fn appenders_take_natural_keys_as_structs() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path().join("db")).await.unwrap();
    let session = database.session();
    let tables = "CREATE TABLE files (id IDKEY, host TEXT, n BIGINT, PRIMARY KEY (host, n));
        CREATE TABLE sizes (file IDKEY REFERENCES files, at BIGINT, PRIMARY KEY (file, at))";
    session.execute(tables).await.unwrap();
    let rows = |hosts: &[Option<&str>], numbers: &[i64]| {
        let hosts: arrow::array::ArrayRef = Arc::new(StringArray::from(hosts.to_vec()));
        let numbers: arrow::array::ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let file = StructArray::try_from(vec![("host", hosts), ("n", Arc::clone(&numbers))]);
        let file: arrow::array::ArrayRef = Arc::new(file.unwrap());
        RecordBatch::try_from_iter([("file", file), ("at", numbers)]).unwrap()
    };
    let mut appender = database.appender();
    let batch = rows(&[Some("a"), Some("b"), Some("a")], &[1, 2, 1]);
    appender.append("sizes", &batch, Op::Upsert).await.unwrap();
    // A delete by a key that nobody knows makes no row of the owner.
    let unknown = rows(&[Some("z")], &[9]);
    appender
        .append("sizes", &unknown, Op::Delete)
        .await
        .unwrap();
    let refused = appender
        .append("sizes", &rows(&[None], &[1]), Op::Upsert)
        .await;
    assert_eq!(refused.unwrap_err().sqlstate(), "23502");
    let acknowledged = appender.commit().await.unwrap();
    assert_eq!(acknowledged.rows, 4);
    let joined = "SELECT n, host FROM files JOIN sizes ON id = file ORDER BY n";
    let answer = ask(&database, joined).await;
    assert_eq!(pairs(&answer), expected(&[(1, "a"), (2, "b")]));
    assert_eq!(ask(&database, "SELECT * FROM files").await.rows, 2);
    let find = session.prepare("SELECT at FROM sizes WHERE file = IDKEY($1, $2)");
    let find = find.await.unwrap();
    let found = find.execute(&["b".into(), 2_i64.into()]).await.unwrap();
    assert_eq!(found.rows, 1);
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
async fn a_session_reads_what_its_appender_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let instance = database.instance();
    instance.pause(StageName::Sort).await.unwrap();
    let session = database.session();
    session.set("lazybase.freshness", "best effort").unwrap();
    let mut appender = session.appender(None);
    appender
        .append("t", &rows(&[1], &["a"]), Op::Upsert)
        .await
        .unwrap();
    appender.commit().await.unwrap();
    let answers = session.execute("SELECT k, v FROM t").await.unwrap();
    assert_eq!(pairs(&answers[0]), expected(&[(1, "a")]));
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

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_to_a_client_finds_natural_keys() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let session = database.session();
    let script = "CREATE TABLE files (id IDKEY, host TEXT, PRIMARY KEY (host)); \
        CREATE TABLE sizes (n BIGINT PRIMARY KEY, file IDKEY REFERENCES files, s TEXT); \
        INSERT INTO sizes VALUES (1, IDKEY('a'), 'x'), (2, IDKEY('b'), 'x')";
    session.execute(script).await.unwrap();
    let copy = "COPY (SELECT n, s FROM sizes WHERE file = IDKEY('b')) TO STDOUT";
    let answer = session
        .copy_to(copy)
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(pairs(&answer), expected(&[(2, "x")]));
    database.close().await.unwrap();
}
