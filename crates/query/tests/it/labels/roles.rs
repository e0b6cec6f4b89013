//! Authorizations of roles: who has them, who gives them, and every way to rows past the planner.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use lazybase_query::{Database, Op, Session, Value};

use super::world;
use crate::rows;

const SETUP: &str = "
    CREATE ROLE pay AUTHORIZATIONS ('pay');
    CREATE ROLE clerk AUTHORIZATIONS ('hr') IN ROLE pay;
    CREATE ROLE guest;
    CREATE ROLE apart NOINHERIT IN ROLE pay;
    CREATE ROLE boss SUPERUSER;
    CREATE ROLE maker CREATEROLE;
    CREATE TABLE t (k INT PRIMARY KEY, a INT WITH LABELS) WITH (row_labels = true);
    CREATE MATERIALIZED VIEW v AS SELECT k, a FROM t ORDER BY a, k;
    INSERT INTO t (k, a, \"_label(a)\", _label)
        VALUES (1, 10, 'pay', NULL), (2, 20, 'hr', NULL), (3, 30, 'pay&hr', NULL),
            (4, 40, NULL, 'hr');
    GRANT SELECT, INSERT, UPDATE, DELETE ON t TO PUBLIC;
    GRANT SELECT ON v TO PUBLIC";

async fn acting(database: &Database, role: &str) -> Session {
    let session = database.session();
    session.execute(&format!("SET ROLE {role}")).await.unwrap();
    session
}

async fn seen(session: &Session) -> Vec<String> {
    let mut all = rows(session, "SELECT k, a FROM t").await;
    all.sort();
    let through_view = rows(session, "SELECT k, a FROM v ORDER BY k").await;
    assert_eq!(all, through_view);
    all.into_iter().map(|row| row.join(" ")).collect()
}

async fn refused(session: &Session, sql: &str) {
    let error = session.execute(sql).await.map(drop).unwrap_err();
    assert_eq!(error.sqlstate(), "42501", "{sql}: {error:?}");
}

const ALL: [&str; 4] = ["1 10", "2 20", "3 30", "4 40"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_read_by_what_they_are_authorized_to() {
    let (_folder, database, owner) = world(SETUP).await;
    assert_eq!(seen(&owner).await, ALL);
    for (role, wanted) in [
        ("boss", &ALL[..]),
        ("clerk", &ALL[..]),
        ("pay", &["1 10", "2 NULL", "3 NULL"][..]),
        ("guest", &["1 NULL", "2 NULL", "3 NULL"][..]),
        ("apart", &["1 NULL", "2 NULL", "3 NULL"][..]),
    ] {
        assert_eq!(seen(&acting(&database, role).await).await, wanted, "{role}");
    }
    // A session narrows what it uses, and never widens it.
    let pay = acting(&database, "pay").await;
    pay.execute("SET lazybase.authorizations = 'hr, pay, more'")
        .await
        .unwrap();
    assert_eq!(seen(&pay).await, ["1 10", "2 NULL", "3 NULL"]);
    pay.execute("SET lazybase.authorizations = 'hr'")
        .await
        .unwrap();
    assert_eq!(seen(&pay).await, ["1 NULL", "2 NULL", "3 NULL"]);
    pay.execute("RESET lazybase.authorizations").await.unwrap();
    assert_eq!(seen(&pay).await, ["1 10", "2 NULL", "3 NULL"]);
    let boss = acting(&database, "boss").await;
    boss.execute("SET lazybase.authorizations = 'hr'")
        .await
        .unwrap();
    assert_eq!(seen(&boss).await, ["1 NULL", "2 20", "3 NULL", "4 40"]);
    // What is given and taken holds from the next statement on, and outlives the database.
    owner
        .execute("ALTER ROLE pay AUTHORIZATIONS ('hr', 'of \"x\"')")
        .await
        .unwrap();
    assert_eq!(seen(&pay).await, ["1 NULL", "2 20", "3 NULL", "4 40"]);
    owner
        .execute("ALTER ROLE pay AUTHORIZATIONS ()")
        .await
        .unwrap();
    assert_eq!(seen(&pay).await, ["1 NULL", "2 NULL", "3 NULL"]);
    owner
        .execute("ALTER ROLE guest AUTHORIZATIONS ('of \"x\"', 'hr')")
        .await
        .unwrap();
    let shown = "SELECT name, authorizations FROM lazybase.roles WHERE authorizations <> ''";
    let mut shown = rows(&owner, shown).await;
    shown.sort();
    assert_eq!(shown, [["clerk", "hr"], ["guest", "hr,\"of \\\"x\\\"\""]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn superusers_alone_say_who_is_authorized() {
    let (_folder, database, owner) = world(SETUP).await;
    let maker = acting(&database, "maker").await;
    refused(&maker, "ALTER ROLE maker AUTHORIZATIONS ('hr')").await;
    refused(&maker, "CREATE ROLE other AUTHORIZATIONS ('hr')").await;
    // Nor by way of a role that has what the session lacks.
    refused(&maker, "GRANT clerk TO maker").await;
    refused(&maker, "GRANT pay TO guest").await;
    refused(&maker, "ALTER ROLE clerk LOGIN PASSWORD 'known'").await;
    refused(&maker, "CREATE ROLE other IN ROLE pay").await;
    maker.execute("GRANT guest TO maker").await.unwrap();
    owner
        .execute("ALTER ROLE maker AUTHORIZATIONS ('hr', 'pay')")
        .await
        .unwrap();
    maker.execute("GRANT pay TO guest").await.unwrap();
    let guest = acting(&database, "guest").await;
    assert_eq!(seen(&guest).await[0], "1 10");
    let error = owner.execute("ALTER ROLE pay AUTHORIZATIONS (''x)").await;
    assert_eq!(error.map(drop).unwrap_err().sqlstate(), "42601");
}

fn keys(keys: Vec<i32>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("k", DataType::Int32, false)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int32Array::from(keys))]).unwrap()
}

fn values(answer: &lazybase_query::Answer) -> Vec<Option<i32>> {
    let columns = answer.batches.iter().map(|batch| batch.column(0));
    let values = columns.flat_map(|column| {
        let column = column.as_primitive::<arrow::datatypes::Int32Type>();
        column.iter().collect::<Vec<_>>()
    });
    values.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_past_the_planner_hide_too() {
    let (folder, database, owner) = world(SETUP).await;
    for stage in ["SELECT 1", "SETTLE"] {
        owner.execute(stage).await.unwrap();
        let pay = acting(&database, "pay").await;
        let got = pay.get("t", &keys(vec![1, 3, 4]), &["a"]).await.unwrap();
        assert_eq!(values(&got), [Some(10), None]);
        let got = pay
            .get("t", &keys(vec![1, 3, 4]), &["_label(a)", "a"])
            .await
            .unwrap();
        let labels = got.batches[0].column(0).as_string::<i32>();
        assert_eq!((labels.value(0), labels.is_null(1)), ("pay", true));
        let prepared = pay.prepare("SELECT a FROM t WHERE k = $1").await.unwrap();
        for (key, wanted) in [(1, vec![Some(10)]), (2, vec![None]), (4, vec![])] {
            let answer = prepared.execute(&[Value::Int(key)]).await.unwrap();
            assert_eq!(values(&answer), wanted, "{key}");
        }
        // What was prepared before asks at each run.
        pay.execute("SET lazybase.authorizations = ''")
            .await
            .unwrap();
        let answer = prepared.execute(&[Value::Int(1)]).await.unwrap();
        assert_eq!(values(&answer), [None]);
    }
    // COPY, and tables that are made of what is read.
    owner
        .execute("SET lazybase.authorizations = 'pay'")
        .await
        .unwrap();
    let file = folder.path().join("t.csv");
    let copy = format!("COPY t TO '{}'", file.display());
    owner.execute(&copy).await.unwrap();
    let mut lines: Vec<String> = std::fs::read_to_string(&file)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert!(lines.contains(&"1,10".to_owned()), "{lines:?}");
    assert!(lines.contains(&"3,".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with('4')), "{lines:?}");
    owner
        .execute("CREATE TABLE copied AS SELECT k, a FROM t")
        .await
        .unwrap();
    owner
        .execute("RESET lazybase.authorizations")
        .await
        .unwrap();
    let copied = rows(&owner, "SELECT k, a FROM copied ORDER BY k").await;
    assert_eq!(copied, [["1", "10"], ["2", "NULL"], ["3", "NULL"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_by_keys_meet_no_row_that_is_hidden() {
    let (_folder, database, owner) = world(SETUP).await;
    let guest = acting(&database, "guest").await;
    // One statement for many rows, by key: each looks.
    for sql in [
        "UPDATE t SET a = 0 WHERE k = $1",
        "DELETE FROM t WHERE k = $1",
    ] {
        let prepared = guest.prepare(sql).await.unwrap();
        let answer = prepared.execute(&[Value::Int(4)]).await.unwrap();
        assert_eq!(answer.rows, 0, "{sql}");
        let rows = futures::stream::iter([Ok(keys(vec![4]))]);
        let schema = keys(vec![]).schema();
        let done = prepared.execute_rows(schema, Box::pin(rows)).await.unwrap();
        assert_eq!(done.row_count(), 0, "{sql}");
    }
    for op in [Op::Insert, Op::Update, Op::Delete] {
        let mut appender = guest.appender(None);
        let error = appender.append("t", &keys(vec![4]), op).await.unwrap_err();
        assert_eq!(error.sqlstate(), "42501", "{op:?}");
    }
    let four = "SELECT k, a, _label FROM t WHERE k = 4";
    assert_eq!(rows(&owner, four).await, [["4", "40", "hr"]]);
    // Whoever writes a whole row writes its labels.
    let row = RecordBatch::try_from_iter([
        (
            "k",
            Arc::new(Int32Array::from(vec![4, 5])) as arrow::array::ArrayRef,
        ),
        ("a", Arc::new(Int32Array::from(vec![41, 50]))),
        ("_label(a)", Arc::new(StringArray::from(vec!["pay", "hr"]))),
    ])
    .unwrap();
    let mut appender = guest.appender(None);
    appender.append("t", &row, Op::Upsert).await.unwrap();
    appender.commit().await.unwrap();
    let both = "SELECT k, a, _label, _label(a) FROM t WHERE k > 3 ORDER BY k";
    assert_eq!(
        rows(&owner, both).await,
        [["4", "41", "NULL", "pay"], ["5", "50", "NULL", "hr"]]
    );
    let pay = acting(&database, "pay").await;
    assert_eq!(seen(&pay).await[3..], ["4 41", "5 NULL"]);
    // What is no label is refused whole, whoever sends it.
    let wrong = RecordBatch::try_from_iter([
        (
            "k",
            Arc::new(Int32Array::from(vec![6])) as arrow::array::ArrayRef,
        ),
        ("_label", Arc::new(StringArray::from(vec!["a&"]))),
    ])
    .unwrap();
    let error = owner
        .appender(None)
        .append("t", &wrong, Op::Upsert)
        .await
        .unwrap_err();
    assert_eq!(error.sqlstate(), "22023", "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_are_read_and_written_by_whom_their_cells_are() {
    let (_folder, database, owner) = world(SETUP).await;
    let grants = "REVOKE ALL ON t FROM PUBLIC; GRANT SELECT (k), INSERT (k, a) ON t TO clerk;
        GRANT SELECT (k, a) ON t TO pay";
    owner.execute(grants).await.unwrap();
    owner.execute("REVOKE pay FROM clerk").await.unwrap();
    let clerk = acting(&database, "clerk").await;
    refused(&clerk, "SELECT _label(a) FROM t").await;
    refused(&clerk, "SELECT k FROM t WHERE _label(a) = 'pay'").await;
    refused(&clerk, "SELECT _label FROM t").await;
    let insert = "INSERT INTO t (k, a, \"_label(a)\") VALUES (9, 9, 'hr')";
    clerk.execute(insert).await.unwrap();
    refused(&clerk, "INSERT INTO t (k, a, _label) VALUES (9, 9, 'hr')").await;
    let pay = acting(&database, "pay").await;
    let labels = rows(&pay, "SELECT k, _label(a) FROM t ORDER BY k LIMIT 2").await;
    assert_eq!(labels, [["1", "pay"], ["2", "NULL"]]);
    refused(&pay, "SELECT _label FROM t").await;
}
