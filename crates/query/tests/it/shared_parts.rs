//! Scans whose partitions share their parts: which these are, and that they answer what others do.

use std::time::Duration;

use lazybase_cluster::Settings;
use lazybase_query::{Database, Session};

use crate::{in_memory, rows};

/// So many rows that a scan of one column is cut into several parts for each of two partitions.
const ROWS: u64 = 150_000;

/// A table of that many rows, none of them sorted, over which others lie.
async fn filled() -> (Database, Session) {
    let database = in_memory(Settings {
        seal_age: Duration::from_secs(3_600),
        ..Settings::default()
    })
    .await;
    let session = database.session();
    let made = format!(
        "SET datafusion.execution.target_partitions = 2;
        CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT, n BIGINT, x FLOAT8);
        INSERT INTO t SELECT s, 'a', s % 7, s / 8.0 FROM generate_series(1, {ROWS}) AS g (s);
        UPDATE t SET n = 7 WHERE k % 100 = 0;
        CREATE TABLE few (i BIGINT PRIMARY KEY);
        INSERT INTO few VALUES (1), (2), (3)"
    );
    session.execute(&made).await.unwrap();
    (database, session)
}

/// How many scans of a plan share their parts.
async fn shared(session: &Session, sql: &str) -> usize {
    let lines = rows(session, &format!("EXPLAIN {sql}")).await.concat();
    let scans = lines.iter().filter(|line| line.contains("LazyScanExec"));
    scans.filter(|line| line.contains("shared_parts=")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_rows_in_any_order_shares_the_parts_of_a_scan() {
    let (database, session) = filled().await;
    let alone = database.session();
    let one = "SET datafusion.execution.target_partitions = 1";
    alone.execute(one).await.unwrap();
    for (sql, shares) in [
        ("SELECT count(*), sum(n), max(x) FROM t WHERE n > 0", 1),
        ("SELECT n, count(*), min(k) FROM t GROUP BY n ORDER BY n", 1),
        ("SELECT count(DISTINCT n), max(v) FROM t", 1),
        ("SELECT v, sum(k) FROM t WHERE n < 3 GROUP BY v", 1),
        ("SELECT DISTINCT n + 1 AS m FROM t ORDER BY m", 1),
        (
            "SELECT a.s, b.s FROM (SELECT sum(n) AS s FROM t) a, (SELECT max(k) AS s FROM t) b",
            2,
        ),
        // Rounded by the order.
        ("SELECT round(sum(x)) FROM t", 0),
        // In an order.
        (
            "SELECT k, sum(n) AS s FROM t GROUP BY k ORDER BY k LIMIT 3",
            0,
        ),
        (
            "SELECT count(*) FROM (SELECT n FROM t ORDER BY k LIMIT 9)",
            0,
        ),
        ("SELECT k FROM t ORDER BY k LIMIT 3", 0),
        ("SELECT n FROM t WHERE k > 149998 ORDER BY n", 0),
    ] {
        assert_eq!(shared(&session, sql).await, shares, "{sql}");
        assert_eq!(shared(&alone, sql).await, 0, "{sql}");
        assert_eq!(rows(&session, sql).await, rows(&alone, sql).await, "{sql}");
    }
    database.close().await.unwrap();
}

/// What is told of a scan that is shared is told of all of its rows, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_parts_are_counted_once() {
    let (database, session) = filled().await;
    let plan = rows(&session, "EXPLAIN ANALYZE SELECT sum(n) FROM t").await;
    let scan = plan.iter().find(|line| line[0].contains("LazyScanExec"));
    let scan = &scan.unwrap()[0];
    assert!(scan.contains("shared_parts="), "{scan}");
    // In words: 150.0 K.
    assert!(scan.contains("output_rows=150"), "{scan}");
    database.close().await.unwrap();
}

/// Each turn of a recursive query reads its tables anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_runs_again_has_all_rows_again() {
    let (database, session) = filled().await;
    let sql = "WITH RECURSIVE r (i, s) AS (
            SELECT 1::BIGINT, 0::BIGINT
            UNION ALL
            SELECT r.i + 1, u.c FROM r CROSS JOIN
                (SELECT count(*) AS c FROM t WHERE n >= 0) AS u WHERE r.i < 5
        ) SELECT * FROM r ORDER BY i";
    assert_eq!(shared(&session, sql).await, 1);
    let all = ROWS.to_string();
    for _ in 0..3 {
        let answer = rows(&session, sql).await;
        assert_eq!(answer.len(), 5, "{answer:?}");
        assert_eq!(answer[0], ["1", "0"]);
        assert!(answer[1..].iter().all(|row| row[1] == all), "{answer:?}");
    }
    database.close().await.unwrap();
}

/// The left side of a nested loop may be read twice without being told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_left_side_of_a_nested_loop_shares_nothing() {
    let (database, session) = filled().await;
    let sql = "SELECT u.c, i FROM (SELECT count(*) - 149998 AS c FROM t WHERE n >= 0) AS u
        JOIN few ON u.c < i ORDER BY i";
    let lines = rows(&session, &format!("EXPLAIN {sql}")).await.concat();
    let joins = lines
        .iter()
        .position(|line| line.contains("NestedLoopJoin"));
    let below = &lines[joins.expect("there is no other way")..];
    let scans = below.iter().filter(|line| line.contains("LazyScanExec"));
    let scans: Vec<&String> = scans.collect();
    // The left side is the one that stands first.
    assert!(!scans[0].contains("shared_parts="), "{lines:#?}");
    assert_eq!(rows(&session, sql).await, [["2", "3"]]);
    database.close().await.unwrap();
}

/// Who ends early leaves nothing behind: those that come later have all rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_ends_early_takes_nothing_from_others() {
    let (database, session) = filled().await;
    for _ in 0..5 {
        // Some row fails, wherever its part is.
        let failed = "SELECT sum(1 / (k - 125000)) FROM t";
        let error = session.execute(failed).await.unwrap_err();
        assert_eq!(error.sqlstate(), "22012", "{error:?}");
        let first = "SELECT n FROM (SELECT n, count(*) FROM t GROUP BY n) LIMIT 1";
        assert_eq!(rows(&session, first).await.len(), 1);
        let all = rows(&session, "SELECT count(*) FROM t WHERE n >= 0").await;
        assert_eq!(all, [[ROWS.to_string()]]);
    }
    database.close().await.unwrap();
}

/// How work is shared tells how much there is, and some of it may be hidden.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_from_whom_something_may_be_hidden_share_nothing() {
    let (database, session) = filled().await;
    let made = "CREATE ROLE guest;
        CREATE TABLE l (k BIGINT PRIMARY KEY, n BIGINT WITH LABELS) WITH (row_labels = true);
        GRANT SELECT ON l TO guest;
        INSERT INTO l (k, n) SELECT k, n FROM t";
    session.execute(made).await.unwrap();
    let sql = "SELECT max(n), count(*) FROM l WHERE n >= 0";
    assert_eq!(shared(&session, sql).await, 1);
    let seen = rows(&session, sql).await;
    session.execute("SET ROLE guest").await.unwrap();
    assert_eq!(shared(&session, sql).await, 0);
    assert_eq!(rows(&session, sql).await, seen);
    database.close().await.unwrap();
}
