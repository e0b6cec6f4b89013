//! Temporary tables: how they end.

use std::time::Duration;

use crate::served::{Served, cells, sqlstate};

/// The stored names of temporary tables that are there.
const LEFT: &str = "SELECT name FROM lazybase.tables WHERE starts_with(name, 'pg_temp_')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_tables_end_with_their_session() {
    let served = Served::start().await;
    let (one, other) = (served.client().await, served.client().await);
    let make = "CREATE TEMPORARY TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)";
    one.batch_execute(make).await.unwrap();
    assert_eq!(cells(&one, "SELECT count(*) FROM t").await, [["2"]]);
    assert_eq!(
        sqlstate(other.simple_query("SELECT * FROM t").await),
        "42P01"
    );
    assert_eq!(cells(&other, LEFT).await.len(), 1);
    drop(one);
    let gone = async {
        while !cells(&other, LEFT).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .unwrap();
    for discard in ["DISCARD TEMP", "DISCARD ALL"] {
        other.batch_execute(make).await.unwrap();
        other.batch_execute(discard).await.unwrap();
        assert_eq!(
            sqlstate(other.simple_query("SELECT * FROM t").await),
            "42P01"
        );
        assert_eq!(
            cells(&other, LEFT).await,
            Vec::<Vec<String>>::new(),
            "{discard}"
        );
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_session_finds_one_under_its_stored_name() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let (one, other) = (served.client().await, served.client().await);
    let make = "CREATE TEMPORARY TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)";
    one.batch_execute(make).await.unwrap();
    let stored = cells(&other, LEFT).await.concat();
    let [name] = stored.as_slice() else {
        panic!("{stored:?}")
    };
    for sql in [
        format!("SELECT * FROM \"{name}\""),
        format!("SELECT * FROM \"{name}\" WHERE k = 1"),
        format!("INSERT INTO \"{name}\" VALUES (3)"),
        format!("DELETE FROM \"{name}\" WHERE k = 1"),
        format!("DROP TABLE \"{name}\""),
    ] {
        for client in [&one, &other] {
            assert_eq!(sqlstate(client.simple_query(&sql).await), "42P01", "{sql}");
        }
    }
    assert_eq!(cells(&one, "SELECT count(*) FROM t").await, [["2"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_one_name_have_it() {
    let served = Served::with("CREATE TABLE t (a INT PRIMARY KEY, b INT)").await;
    let client = served.client().await;
    for (sql, wanted) in [
        ("SELECT a, a, b AS a FROM t", vec!["a", "a", "a"]),
        ("SELECT *, b FROM t", vec!["a", "b", "b"]),
        (
            "SELECT * FROM (SELECT b AS x, a AS x FROM t) s",
            vec!["x", "x"],
        ),
    ] {
        let prepared = client.prepare(sql).await.unwrap();
        let names: Vec<&str> = prepared
            .columns()
            .iter()
            .map(|column| column.name())
            .collect();
        assert_eq!(names, wanted, "{sql}");
        assert!(client.query(&prepared, &[]).await.unwrap().is_empty());
    }
    served.stop().await;
}
