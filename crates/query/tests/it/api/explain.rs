//! EXPLAIN: what it shows of a read, and of a plan.

use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use lazybase_cluster::Settings;
use lazybase_engine::segment::WriteOptions;
use lazybase_query::{Database, Session};

use super::{ask, database};
use crate::{in_memory, rows};

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_the_horizon_and_the_sources() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    ask(&database, "PAUSE STAGE INGEST").await;
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
    assert!(lines[0].contains("(asked 0), as of 2"), "{lines:#?}");
    assert!(lines[0].contains(" UTC, read authority"), "{lines:#?}");
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
    let plans = |lines: &[String]| lines.iter().filter(|line| !line.starts_with(' ')).count();
    assert_eq!(
        plans(&lines),
        3,
        "the horizon, a scan and a plan: {lines:#?}"
    );
    assert!(lines.last().unwrap().contains("schema=[v:"), "{lines:#?}");
    let lines = explain("EXPLAIN (STEPS) SELECT v FROM t").await;
    assert!(plans(&lines) > 20, "{lines:#?}");
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
    // With several parts the rows that a filter leaves are dealt out before they are grouped.
    for (settle, parts) in [(false, 1), (false, 4), (true, 1), (true, 4)] {
        let parts = format!("SET datafusion.execution.target_partitions = {parts}");
        crate::rows(&session, &parts).await;
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

/// Joins by equal keys that may look at many pairs of rows and give none let others run meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn joins_that_may_give_nothing_pause() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder).await;
    let insert = "INSERT INTO t (k, v, n) VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3)";
    ask(&database, insert).await;
    let session = database.session();
    for (sql, pauses) in [
        ("SELECT * FROM t a JOIN t b ON a.n = b.n", false),
        ("SELECT * FROM t a LEFT JOIN t b ON a.n = b.n", false),
        (
            "SELECT * FROM t a JOIN t b ON a.n = b.n AND a.v > b.v",
            true,
        ),
        ("SELECT * FROM t WHERE n IN (SELECT k FROM t)", true),
    ] {
        let plan = crate::rows(&session, &format!("EXPLAIN {sql}")).await;
        let is_in = |name: &str| plan.iter().any(|line| line[0].contains(name));
        assert!(is_in("HashJoinExec"), "{plan:#?}");
        assert_eq!(is_in("PausingExec"), pauses, "{plan:#?}");
    }
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
    for (options, runs) in [
        ("", false),
        ("(ANALYZE) ", true),
        ("(VERBOSE) ", false),
        ("(STEPS) ", false),
    ] {
        let sql = format!("EXPLAIN {options}SELECT k + 1, k + 2, v, v FROM t WHERE n IS NULL");
        let plan = told(&sql).await;
        assert_eq!(plan.contains("output_rows="), runs, "{plan}");
        let inner = |c: char| c.is_control() && c != '\n';
        assert!(!plan.contains(inner) && !plan.contains("again"), "{plan:?}");
    }
    database.close().await.unwrap();
}

/// A table of 1,000 rows in some dozens of extents or row groups. Its keys are even; `n` has each
/// number below 1,000 once, in another order.
async fn in_small_extents(layout: &str) -> Database {
    let database = in_memory(Settings {
        seal_age: Duration::from_secs(3600),
        write_options: WriteOptions {
            extent_bytes: 1 << 10,
            group_rows: 32,
            group_bytes: 1 << 10,
            ..WriteOptions::default()
        },
        ..Settings::default()
    })
    .await;
    let made = format!(
        "CREATE TABLE t (k INT PRIMARY KEY, n INT, v TEXT) WITH (layout = '{layout}');
        INSERT INTO t SELECT x * 2, x * 7919 % 1000, md5(x::TEXT)
            FROM generate_series(0, 999) AS s (x);
        PAUSE STAGE AUTHORITY;
        SETTLE TO SORTED"
    );
    database.session().execute(&made).await.unwrap();
    database
}

/// What EXPLAIN says of the only source of a query: its stage, how many extents are read, of how
/// many, and in how many segments. The leaf of the plan, if there is one, must say the same.
async fn extents(session: &Session, sql: &str) -> (String, u64, u64, u64) {
    let plan = rows(session, &format!("EXPLAIN {sql}")).await.concat();
    let of_source = |line: &String| {
        let (name, read) = line.split_once(": ")?;
        let stage = name.split_whitespace().next()?.to_owned();
        let (extents, rest) = read.split_once(" of ")?;
        let (all, rest) = rest.split_once(" extents in ")?;
        let (segments, _) = rest.split_once(" segment")?;
        let number = |text: &str| text.parse::<u64>().ok();
        Some((stage, number(extents)?, number(all)?, number(segments)?))
    };
    let sources: Vec<_> = plan.iter().filter_map(of_source).collect();
    assert_eq!(sources.len(), 1, "{sql}: {plan:#?}");
    let (stage, extents, all, segments) = sources[0].clone();
    if let Some(leaf) = plan.iter().find(|line| line.contains("LazyScanExec")) {
        let told = format!(", extents={extents} of {all}");
        assert!(leaf.contains(&told), "{sql}: {plan:#?}");
    }
    (stage, extents, all, segments)
}

/// A predicate on the key leaves extents out, at every stage and in the order of a view too. One on
/// other columns leaves out none: the newest version of a row, which it drops, hides older ones.
#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_how_many_extents_a_predicate_leaves_out() {
    for layout in ["scan", "point"] {
        let database = in_small_extents(layout).await;
        let session = database.session();
        for (expected, settle) in [
            ("sorted", "SETTLE TO SORTED"),
            ("authority", "RESUME STAGE AUTHORITY; SETTLE"),
        ] {
            session.execute(settle).await.unwrap();
            let (stage, every, all, _) = extents(&session, "SELECT v FROM t").await;
            assert_eq!((stage.as_str(), every), (expected, all));
            assert!(all >= 20, "{all}");
            for (predicate, narrow, rows_left) in [
                ("k BETWEEN 600 AND 798", true, "100"),
                ("k >= 600 AND k < 800 AND n >= 0", true, "100"),
                ("n BETWEEN 300 AND 399", false, "100"),
                ("k < 600 OR n = 5", false, "301"),
            ] {
                let sql = format!("SELECT v FROM t WHERE {predicate}");
                let (_, few, of_all, _) = extents(&session, &sql).await;
                assert_eq!(of_all, all, "{sql}");
                match narrow {
                    true => assert!(0 < few && few <= all / 4, "{sql}: {few} of {all}"),
                    false => assert_eq!(few, all, "{sql}"),
                }
                let count = format!("SELECT count(v) FROM t WHERE {predicate}");
                assert_eq!(rows(&session, &count).await, [[rows_left]], "{sql}");
                // What is counted for the metrics is the same.
                let stamp = session.last_stamp().unwrap();
                assert_eq!(stamp.sources.extents_pruned, all - few, "{sql}");
            }
            // A read of some keys has an extent for each, of files that count once.
            for (list, few) in [("600", 1), ("0, 2, 4", 1), ("0, 1998", 2)] {
                let sql = format!("SELECT v FROM t WHERE k IN ({list})");
                let read = extents(&session, &sql).await;
                assert_eq!(read, (expected.to_owned(), few, all, 1), "{sql}");
            }
            // Of most keys that are not there a filter knows it.
            let mut skipped = 0;
            for key in (501..601).step_by(2) {
                let sql = format!("SELECT v FROM t WHERE k = {key}");
                assert!(rows(&session, &sql).await.is_empty(), "{sql}");
                let sources = session.last_stamp().unwrap().sources;
                skipped += sources.extents_pruned;
            }
            assert!((40..=50).contains(&skipped), "{skipped}");
        }
        let view = "CREATE MATERIALIZED VIEW by_n AS SELECT n, k, v FROM t ORDER BY n, k; SETTLE";
        session.execute(view).await.unwrap();
        let sql = "SELECT v FROM t WHERE n BETWEEN 300 AND 399";
        let plan = rows(&session, &format!("EXPLAIN {sql}")).await.concat();
        let through = "a range of the key of view \"by_n\"";
        assert!(plan.join("\n").contains(through), "{plan:#?}");
        let (_, few, all, _) = extents(&session, sql).await;
        assert!(0 < few && few <= all / 4, "{few} of {all}");
        database.close().await.unwrap();
    }
}
