//! Pipelines: what stands between two Syncs is one transaction, whatever it holds.

use crate::raw::Raw;
use crate::served::{Served, cells, count};

async fn served() -> (Served, Raw) {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let raw = Raw::new(&served).await;
    (served, raw)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_needs_a_transaction_of_the_clients_own() {
    let (served, mut raw) = served().await;
    raw.run("INSERT INTO t VALUES (1)").run("SAVEPOINT s");
    let told = raw.run("INSERT INTO t VALUES (2)").sync().ready().await;
    assert_eq!(told.errors(b'C'), ["25P01"]);
    assert_eq!(told.status(), Some('I'), "no transaction is left open");
    let client = served.client().await;
    assert_eq!(count(&client, "t").await, 0);
    raw.run("INSERT INTO t VALUES (1)")
        .run("BEGIN")
        .run("SAVEPOINT s");
    raw.run("INSERT INTO t VALUES (2)").run("ROLLBACK TO s");
    let told = raw.sync().ready().await;
    assert!(told.errors(b'C').is_empty(), "{told:?}");
    assert_eq!(told.status(), Some('T'));
    raw.query("COMMIT").ready().await;
    assert_eq!(cells(&client, "SELECT k FROM t").await, [["1"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn begin_in_a_pipeline_keeps_its_options() {
    let (served, mut raw) = served().await;
    raw.run("SELECT 1").run("BEGIN READ ONLY");
    let told = raw.run("INSERT INTO t VALUES (1)").sync().ready().await;
    assert_eq!(told.errors(b'C'), ["25006"]);
    assert_eq!(told.status(), Some('E'));
    raw.query("ROLLBACK").ready().await;
    let told = raw
        .run("SELECT 1")
        .run("BEGIN ISOLATION LEVEL SERIALIZABLE")
        .sync()
        .ready()
        .await;
    assert_eq!(told.errors(b'C'), ["0A000"]);
    assert_eq!(told.status(), Some('I'));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn portals_end_with_their_transaction() {
    let (served, mut raw) = served().await;
    raw.query("BEGIN").ready().await;
    raw.parse("s", "SELECT generate_series FROM generate_series(1, 3)");
    raw.bind("p", "s").execute("p", 1);
    let told = raw.sync().ready().await;
    assert_eq!(told.rows(), [["1"]]);
    let told = raw.query("COMMIT").ready().await;
    assert_eq!(told.status(), Some('I'));
    let told = raw.execute("p", 1).sync().ready().await;
    assert_eq!(told.errors(b'C'), ["34000"]);
    // The same where COMMIT comes in the pipeline.
    raw.run("BEGIN").bind("p", "s").execute("p", 1);
    raw.run("COMMIT").run("BEGIN").execute("p", 1);
    let told = raw.sync().ready().await;
    assert_eq!(told.errors(b'C'), ["34000"]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn portals_and_cursors_end_with_rollback_to_a_savepoint_before_them() {
    let (served, mut raw) = served().await;
    raw.query("INSERT INTO t VALUES (1), (2), (3)")
        .ready()
        .await;
    raw.query("BEGIN").ready().await;
    raw.parse("q", "SELECT k FROM t ORDER BY k");
    raw.bind("begun", "q").execute("begun", 1);
    let told = raw.bind("late", "q").sync().ready().await;
    assert_eq!(told.rows(), [["1"]], "{told:?}");
    raw.query("SAVEPOINT s").ready().await;
    raw.query("INSERT INTO t VALUES (0)").ready().await;
    raw.run("DECLARE h CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k");
    raw.bind("new", "q").execute("new", 1).bind("unused", "q");
    // It sees what is there when it begins.
    let told = raw.execute("late", 1).sync().ready().await;
    assert_eq!(told.rows(), [["0"], ["0"]], "{told:?}");
    let told = raw.run("ROLLBACK TO s").sync().ready().await;
    assert_eq!(told.tags(), ["ROLLBACK"], "{told:?}");
    for name in ["new", "unused", "late"] {
        let told = raw.execute(name, 1).sync().ready().await;
        assert_eq!(told.errors(b'C'), ["34000"], "{name}: {told:?}");
        assert!(told.rows().is_empty(), "{name}: {told:?}");
        raw.run("ROLLBACK TO s").sync().ready().await;
    }
    let told = raw.execute("begun", 1).sync().ready().await;
    assert_eq!(told.rows(), [["2"]], "{told:?}");
    raw.query("COMMIT").ready().await;
    let told = raw.query("FETCH h").ready().await;
    assert_eq!(told.errors(b'C'), ["34000"], "{told:?}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_portal_without_rows_is_executed_once() {
    let (served, mut raw) = served().await;
    raw.run("INSERT INTO t VALUES (1)").execute("", 0);
    let told = raw.sync().ready().await;
    assert_eq!(told.tags(), ["INSERT 0 1"]);
    assert_eq!(told.errors(b'C'), ["55000"]);
    // One with rows says that there are no more.
    raw.run("SELECT 1").execute("", 0);
    let told = raw.sync().ready().await;
    assert_eq!(told.tags(), ["SELECT 1", "SELECT 0"]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_comes_first_is_part_of_the_pipeline() {
    let (served, mut raw) = served().await;
    raw.run("COPY t FROM STDIN");
    raw.put(b'd', b"1\n").put(b'c', b"");
    let told = raw.run("SELECT 1 / 0").sync().ready().await;
    assert_eq!(told.tags(), ["COPY 1"]);
    assert_eq!(told.errors(b'C'), ["22012"]);
    let client = served.client().await;
    assert_eq!(count(&client, "t").await, 0);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_no_sync_can_be_cancelled() {
    let (served, mut raw) = served().await;
    let told = raw.run("SELECT 1").cancelled(&served, b'E').await;
    assert_eq!(told.errors(b'C'), ["57014"]);
    assert_eq!(raw.sync().ready().await.status(), Some('I'));
    served.stop().await;
}

/// Values that wait in portals have a limit; one portal may have as many as a message holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn portals_that_are_kept_have_a_limit() {
    let (served, mut raw) = served().await;
    let bind = |portal: &str, length: usize| {
        let mut body = format!("{portal}\0s\0").into_bytes();
        body.extend_from_slice(&[0, 0, 0, 1]);
        body.extend_from_slice(&(length as u32).to_be_bytes());
        body.resize(body.len() + length, b'x');
        body.extend_from_slice(&[0, 0]);
        body
    };
    raw.query("BEGIN").ready().await;
    raw.parse("s", "SELECT length($1::text)")
        .sync()
        .ready()
        .await;
    for _ in 0..2 {
        let told = raw.put(b'B', &bind("", 70 << 20)).sync().ready().await;
        assert!(told.errors(b'C').is_empty(), "{told:?}");
    }
    let told = raw.put(b'B', &bind("a", 20 << 20)).sync().ready().await;
    assert_eq!(told.errors(b'C'), ["53400"]);
    raw.query("ROLLBACK").ready().await;
    raw.query("BEGIN").ready().await;
    for name in ["a", "b", "c"] {
        let told = raw.put(b'B', &bind(name, 20 << 20)).sync().ready().await;
        assert!(told.errors(b'C').is_empty(), "{told:?}");
    }
    let told = raw.put(b'B', &bind("d", 20 << 20)).sync().ready().await;
    assert_eq!(told.errors(b'C'), ["53400"]);
    served.stop().await;
}

/// What PREPARE has named and what a client has named share their names: each way runs those of
/// the other, and ends them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_prepare_and_of_clients_share_their_names() {
    let (served, mut raw) = served().await;
    raw.query("CREATE TABLE named (k INT PRIMARY KEY, v TEXT)");
    raw.ready().await;
    raw.query("INSERT INTO named VALUES (1, 'one'), (2, 'two')");
    raw.ready().await;
    raw.parse("c", "SELECT v FROM named WHERE k = $1");
    let told = raw.sync().ready().await;
    assert_eq!(told.kinds(), "1Z", "{told:?}");
    let told = raw.query("EXECUTE c(1 + 1)").ready().await;
    assert_eq!(told.rows(), [["two"]]);
    assert_eq!(told.tags(), ["SELECT 1"]);
    let told = raw.query("PREPARE c AS SELECT 1").ready().await;
    assert_eq!(told.errors(b'C'), ["42P05"]);
    raw.query("PREPARE s AS SELECT k + 1 AS next FROM named ORDER BY k");
    assert_eq!(raw.ready().await.tags(), ["PREPARE"]);
    let told = raw.parse("s", "SELECT 1").sync().ready().await;
    assert_eq!(told.errors(b'C'), ["42P05"]);
    raw.describe("s").bind("", "s").execute("", 0);
    let told = raw.sync().ready().await;
    assert_eq!(told.kinds(), "tT2DDCZ", "{told:?}");
    assert_eq!(told.rows(), [["2"], ["3"]]);
    raw.parse("", "EXECUTE s").describe("");
    raw.bind("", "").execute("", 0);
    let told = raw.sync().ready().await;
    assert_eq!(told.kinds(), "1tT2DDCZ", "{told:?}");
    assert_eq!(told.rows(), [["2"], ["3"]]);
    let listed = "SELECT name, from_sql FROM pg_prepared_statements ORDER BY name";
    let told = raw.query(listed).ready().await;
    assert_eq!(told.rows(), [["c", "f"], ["s", "t"]]);
    let told = raw.put(b'C', b"Ss\0").sync().ready().await;
    assert_eq!(told.kinds(), "3Z", "{told:?}");
    let told = raw.query("EXECUTE s").ready().await;
    assert_eq!(told.errors(b'C'), ["26000"]);
    let told = raw.query("DISCARD ALL; EXECUTE c(1)").ready().await;
    assert_eq!(told.errors(b'C'), ["26000"]);
    let told = raw.bind("", "c").sync().ready().await;
    assert_eq!(told.errors(b'C'), ["26000"]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_kept_have_limits_and_names() {
    let (served, mut raw) = served().await;
    raw.parse("x", "SELECT 1").parse("", "DEALLOCATE x;");
    raw.bind("", "").execute("", 0);
    let told = raw.sync().ready().await;
    assert_eq!(told.tags(), ["DEALLOCATE"]);
    let told = raw.bind("", "x").sync().ready().await;
    assert_eq!(told.errors(b'C'), ["26000"]);
    // Types may be declared for more parameters than the text has.
    raw.put(b'P', b"\0SELECT $1 + 1\0\0\x02\0\0\0\x17\0\0\0\x17");
    raw.put(b'B', b"\0\0\0\0\0\x02\0\0\0\x0241\0\0\0\x017\0\0");
    let told = raw.execute("", 0).sync().ready().await;
    assert_eq!(told.rows(), [["42"]], "{told:?}");
    let long = format!("SELECT '{}'", "x".repeat(20 << 20));
    for name in ["a", "b", "c"] {
        let told = raw.parse(name, &long).sync().ready().await;
        assert!(told.errors(b'C').is_empty());
    }
    let told = raw.parse("d", &long).sync().ready().await;
    assert_eq!(told.errors(b'C'), ["53400"]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_implicit_commit_that_fails_leaves_no_transaction() {
    let (served, mut raw) = served().await;
    // A number without a producer is an error of COMMIT, before that has begun.
    raw.run("SELECT 1").run("SET lazybase.batch_number = 1");
    let told = raw.run("SELECT 2").sync().ready().await;
    assert_eq!(told.errors(b'C'), ["55000"]);
    assert_eq!(told.status(), Some('I'));
    let told = raw.query("SHOW lazybase.batch_number").ready().await;
    assert_eq!(told.rows(), [[""]], "what it has set is undone");
    let told = raw
        .query("SELECT 1; SET lazybase.batch_number = 1; SELECT 2")
        .ready()
        .await;
    assert_eq!(told.errors(b'C'), ["55000"]);
    assert_eq!(told.status(), Some('I'));
    served.stop().await;
}
