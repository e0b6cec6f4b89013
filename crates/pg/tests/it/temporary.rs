//! Temporary tables: what their names mean, and how they end.

use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use crate::copying::{copy_in, copy_out};
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

/// What statements give for a value, one after the other.
async fn given(client: &Client, statements: &[Statement], value: i32) -> Vec<String> {
    let mut given = Vec::new();
    for statement in statements {
        let values: [&(dyn ToSql + Sync); 1] = [&value];
        let rows = client.query(statement, &values).await.unwrap();
        given.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    given
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_prepared_reads_what_its_names_mean_now() {
    let all = "CREATE TABLE t (k INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'of all')";
    let served = Served::with(all).await;
    let (client, other) = (served.client().await, served.client().await);
    let mut statements = Vec::new();
    // Reads by key, which are planned no more, and others.
    for sql in [
        "SELECT v FROM t WHERE k = $1",
        "SELECT v FROM t WHERE k >= $1",
        "SELECT v FROM public.t WHERE k = $1",
        "SELECT v FROM public.t WHERE k >= $1",
    ] {
        statements.push(client.prepare(sql).await.unwrap());
    }
    let before = ["of all"; 4];
    assert_eq!(given(&client, &statements, 1).await, before);
    let make = "CREATE TEMP TABLE t (k INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'own')";
    client.batch_execute(make).await.unwrap();
    let beside = ["own", "own", "of all", "of all"];
    assert_eq!(given(&client, &statements, 1).await, beside);
    // The same where the statement was prepared while both were there.
    let while_both = client.prepare("SELECT v FROM public.t WHERE k = $1").await;
    statements.push(while_both.unwrap());
    assert_eq!(given(&client, &statements[4..], 1).await, ["of all"]);
    assert_eq!(copy_out(&client, "COPY t TO STDOUT").await, b"1\town\n");
    let public = copy_out(&client, "COPY public.t TO STDOUT").await;
    assert_eq!(public, b"1\tof all\n");
    let copied = copy_in(&client, "COPY public.t FROM STDIN", b"2\tcopied\n").await;
    assert_eq!(copied.unwrap(), 1);
    let seen = cells(&other, "SELECT v FROM t WHERE k = 2 FRESHNESS 0").await;
    assert_eq!(seen, [["copied"]]);
    client.batch_execute("DROP TABLE t").await.unwrap();
    assert_eq!(given(&client, &statements, 2).await, ["copied"; 5]);
    // A client was told of other columns than it would get.
    let others = "CREATE TEMP TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (2, 7)";
    client.batch_execute(others).await.unwrap();
    for statement in &statements[..2] {
        let values: [&(dyn ToSql + Sync); 1] = [&2_i32];
        assert_eq!(sqlstate(client.query(statement, &values).await), "0A000");
    }
    assert_eq!(
        given(&client, &statements[2..], 2).await,
        ["copied", "copied", "copied"]
    );
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
