//! The Rust API: appenders, point reads by keys, streams, COPY, stamps.

mod explain;
mod prepared;

use std::sync::Arc;

use arrow::array::{AsArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::Int64Type;
use futures::StreamExt;
use lazybase_cluster::StageName;
use lazybase_model::moment::DisplayMoment;
use lazybase_query::{Answer, Database, Op};

use crate::open_in;

async fn database(folder: &tempfile::TempDir) -> Database {
    let database = open_in(folder.path()).await;
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
        let stamp = answer.stamp.unwrap();
        let text = stamp.to_string();
        let as_of = DisplayMoment(stamp.as_of_micros);
        let told = format!("{asked}, as of {as_of}, ");
        assert!(text.contains(&told), "{clause}: {text}");
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
    let database = open_in(folder.path()).await;
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
