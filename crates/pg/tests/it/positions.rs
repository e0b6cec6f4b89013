//! Where errors stand in the text that a client has sent: the caret below psql's `LINE 1: ...`.

use tokio_postgres::error::ErrorPosition;

use crate::served::{Served, sqlstate};

/// A text without its caret, and the character before which that stood, counted from 1.
fn marked(text: &str) -> (String, Option<u32>) {
    let at = text.chars().position(|c| c == '^');
    (text.replace('^', ""), at.map(|at| at as u32 + 1))
}

/// The place that the error of what must have failed tells.
fn place<T>(outcome: Result<T, tokio_postgres::Error>) -> Option<u32> {
    let Err(error) = outcome else {
        panic!("it did not fail");
    };
    let told = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
    match told.position()? {
        ErrorPosition::Original(place) => Some(*place),
        ErrorPosition::Internal { .. } => panic!("{told:?}"),
    }
}

async fn served() -> Served {
    Served::with("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_are_counted_in_the_whole_text() {
    let served = served().await;
    let client = served.client().await;
    for text in [
        "SELECT ^nope FROM t",
        "SELECT 1;\n SELECT 'ä日', ^nope FROM t",
        "SELECT 1;\r\n-- nope\n/* nope */ SELECT 'nope', ^nope FROM t; SELECT 2",
        "SELECT 1; /* SELECT * FROM nope */; SELECT * FROM ^nope",
        "  SELECT k FROM t WHERE k = ^= 1 FRESHNESS 30",
        "SELECT 1; SELECT * FROM^",
        "SELECT 1; SELECT ^'a",
        "SELECT ^x.k FROM t",
        "SELECT k::^nope FROM t",
        "SELECT k FROM t WHERE ^nope(k) = 1",
        "SELECT 1; DECLARE c CURSOR FOR\n SELECT 'ä', ^nope FROM t",
        "COPY (SELECT ^nope FROM t) TO STDOUT",
        " PREPARE p AS SELECT ^nope FROM t",
        "INSERT INTO t (k, ^nope) VALUES (1, 'nope')",
        "SELECT 1 / 0",
    ] {
        let (sql, wanted) = marked(text);
        assert_eq!(place(client.simple_query(&sql).await), wanted, "{text}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_of_prepared_statements_are_those_of_their_text() {
    let served = served().await;
    let client = served.client().await;
    for text in [
        "\n  SELECT 'ä', ^nope FROM t",
        "SELECT $1::INT + ^nope FROM t",
        "SELECT k FROM t WHERE k = $1 AND^",
        "UPDATE t SET ^nope = $1",
    ] {
        let (sql, wanted) = marked(text);
        assert_eq!(place(client.prepare(&sql).await), wanted, "{text}");
    }
    // What comes out only when they run stands there too.
    let (sql, wanted) = marked(" DECLARE ä CURSOR FOR SELECT ^nope FROM t");
    assert_eq!(place(client.execute(&sql, &[]).await), wanted);
    client
        .batch_execute("CREATE TABLE gone (k INT PRIMARY KEY, v TEXT)")
        .await
        .unwrap();
    let (sql, wanted) = marked("\n SELECT 'ä', v FROM ^gone WHERE k > $1");
    let statement = client.prepare(&sql).await.unwrap();
    client
        .batch_execute("PREPARE gone AS SELECT v FROM gone; DROP TABLE gone")
        .await
        .unwrap();
    assert_eq!(place(client.query(&statement, &[&1_i32]).await), wanted);
    // It is not the text of EXECUTE that names the table.
    let execute = || client.simple_query("EXECUTE gone");
    assert_eq!(place(execute().await), None);
    assert_eq!(sqlstate(execute().await), "42P01");
    served.stop().await;
}
