//! COMMIT AND CHAIN, ROLLBACK AND CHAIN: where a transaction ends, one like it begins.

use crate::raw::Raw;
use crate::served::{Served, cells, count};

async fn served() -> (Served, Raw) {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let raw = Raw::new(&served).await;
    (served, raw)
}

/// Does a statement; gives its tag, or the SQLSTATE of its error, and how the transaction stands.
async fn done(raw: &mut Raw, sql: &str) -> String {
    let told = raw.query(sql).ready().await;
    let said = match told.errors(b'C').pop() {
        Some(error) => error,
        None => told.tags().pop().unwrap_or_default(),
    };
    format!("{said} {}", told.status().unwrap_or('-'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_transaction_begins_at_once() {
    let (served, mut raw) = served().await;
    let client = served.client().await;
    for (sql, expected, rows) in [
        ("BEGIN", "BEGIN T", 0),
        ("INSERT INTO t VALUES (1)", "INSERT 0 1 T", 0),
        ("COMMIT AND CHAIN", "COMMIT T", 1),
        ("INSERT INTO t VALUES (2)", "INSERT 0 1 T", 1),
        ("ROLLBACK AND CHAIN", "ROLLBACK T", 1),
        ("INSERT INTO t VALUES (3)", "INSERT 0 1 T", 1),
        ("END WORK AND CHAIN", "COMMIT T", 2),
        ("INSERT INTO t VALUES (4)", "INSERT 0 1 T", 2),
        ("ABORT TRANSACTION AND CHAIN", "ROLLBACK T", 2),
        ("INSERT INTO t VALUES (5)", "INSERT 0 1 T", 2),
        ("COMMIT AND NO CHAIN", "COMMIT I", 3),
        ("BEGIN", "BEGIN T", 3),
        ("ROLLBACK AND NO CHAIN", "ROLLBACK I", 3),
    ] {
        assert_eq!(done(&mut raw, sql).await, expected, "{sql}");
        assert_eq!(count(&client, "t").await, rows, "{sql}");
    }
    let kept = cells(&client, "SELECT k FROM t ORDER BY k").await;
    assert_eq!(kept, [["1"], ["3"], ["5"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_as_the_one_before_and_reads_anew() {
    let (served, mut raw) = served().await;
    let client = served.client().await;
    for (sql, expected) in [
        ("BEGIN READ ONLY", "BEGIN T"),
        ("COMMIT AND CHAIN", "COMMIT T"),
        ("INSERT INTO t VALUES (1)", "25006 E"),
        ("ROLLBACK AND CHAIN", "ROLLBACK T"),
        ("INSERT INTO t VALUES (1)", "25006 E"),
        // What has failed is not kept, and says so.
        ("COMMIT AND CHAIN", "ROLLBACK T"),
        ("SHOW transaction_read_only", "SHOW T"),
        ("COMMIT", "COMMIT I"),
        ("BEGIN", "BEGIN T"),
        ("SET LOCAL statement_timeout = 5000", "SET T"),
        ("SELECT * FROM t", "SELECT 0 T"),
    ] {
        assert_eq!(done(&mut raw, sql).await, expected, "{sql}");
    }
    client
        .batch_execute("INSERT INTO t VALUES (7)")
        .await
        .unwrap();
    assert_eq!(done(&mut raw, "SELECT * FROM t").await, "SELECT 0 T");
    assert_eq!(done(&mut raw, "COMMIT AND CHAIN").await, "COMMIT T");
    assert_eq!(done(&mut raw, "SELECT * FROM t").await, "SELECT 1 T");
    let told = raw.query("SHOW statement_timeout").ready().await;
    assert_eq!(told.rows(), [["0"]]);
    // What could not be committed leaves no transaction behind.
    assert_eq!(
        done(&mut raw, "CREATE TABLE u (k INT PRIMARY KEY)").await,
        "CREATE TABLE T"
    );
    client
        .batch_execute("CREATE TABLE u (k INT PRIMARY KEY)")
        .await
        .unwrap();
    assert_eq!(done(&mut raw, "COMMIT AND CHAIN").await, "42P07 I");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outside_of_a_transaction_there_is_nothing_to_chain() {
    let (served, mut raw) = served().await;
    let client = served.client().await;
    for sql in ["COMMIT AND CHAIN", "ABORT AND CHAIN"] {
        assert_eq!(done(&mut raw, sql).await, "25P01 I");
        // What was sent with it is no transaction of the client's own, and fails with it.
        let together = format!("INSERT INTO t VALUES (1); {sql}");
        assert_eq!(done(&mut raw, &together).await, "25P01 I");
        raw.run("INSERT INTO t VALUES (1)").run(sql).sync();
        assert_eq!(raw.ready().await.errors(b'C'), ["25P01"]);
    }
    assert_eq!(count(&client, "t").await, 0);
    assert_eq!(
        done(&mut raw, "ROLLBACK AND CHAIN TO SAVEPOINT s").await,
        "42601 I"
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_and_portals_end_with_the_transaction_before() {
    let (served, mut raw) = served().await;
    let query = "SELECT generate_series FROM generate_series(1, 3)";
    done(&mut raw, "BEGIN").await;
    done(&mut raw, &format!("DECLARE c CURSOR FOR {query}")).await;
    raw.parse("s", query).bind("p", "s").execute("p", 1);
    assert_eq!(raw.sync().ready().await.rows(), [["1"]]);
    assert_eq!(done(&mut raw, "COMMIT AND CHAIN").await, "COMMIT T");
    let told = raw.execute("p", 1).sync().ready().await;
    assert_eq!(told.errors(b'C'), ["34000"]);
    assert_eq!(done(&mut raw, "ROLLBACK AND CHAIN").await, "ROLLBACK T");
    assert_eq!(done(&mut raw, "FETCH c").await, "34000 E");
    assert_eq!(done(&mut raw, "ROLLBACK").await, "ROLLBACK I");
    served.stop().await;
}
