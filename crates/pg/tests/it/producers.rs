//! Writes under a producer's numbers, as a client sends them.

use tokio_postgres::Client;

use crate::served::{Served, cells, count, sqlstate};

async fn run(client: &Client, sql: &str) {
    let done = client.batch_execute(sql).await;
    done.unwrap_or_else(|error| panic!("{error:?}\n{sql}"));
}

async fn number(client: &Client) -> String {
    cells(client, "SHOW lazybase.batch_number").await[0][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_is_used_by_the_write_that_it_was_given_for() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, n INT)").await;
    let client = served.client().await;
    run(&client, "SET lazybase.producer = 'p'").await;
    for (at, write) in [
        "INSERT INTO t SELECT 1, 1 WHERE false",
        "UPDATE t SET n = 2 WHERE n = 77",
        "DELETE FROM t WHERE n = 77",
        "BEGIN; DELETE FROM t WHERE n = 77; COMMIT",
        "BEGIN; COMMIT",
        "INSERT INTO t VALUES (1, 1)",
    ]
    .into_iter()
    .enumerate()
    {
        run(&client, &format!("SET lazybase.batch_number = {}", at + 1)).await;
        run(&client, write).await;
        assert_eq!(number(&client).await, "", "{write}");
    }
    // What only reads leaves it, also where it comes as several statements.
    run(&client, "SET lazybase.batch_number = 9; SELECT 1").await;
    run(&client, "SELECT 1; SELECT count(*) FROM t").await;
    assert_eq!(number(&client).await, "9");
    for ddl in [
        "CREATE TABLE u (k INT PRIMARY KEY)",
        "TRUNCATE t",
        "ALTER TABLE t ADD COLUMN c INT",
        "DROP TABLE t",
        "CREATE TABLE u AS SELECT * FROM t",
        "BEGIN; CREATE TABLE u (k INT PRIMARY KEY); INSERT INTO u VALUES (1); COMMIT",
    ] {
        let refused = client.batch_execute(ddl).await;
        assert_eq!(sqlstate(refused), "55000", "{ddl}");
        assert_eq!(number(&client).await, "9", "{ddl}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_a_transaction_is_that_of_its_first_write() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let client = served.client().await;
    run(&client, "SET lazybase.producer = 'p'").await;
    run(&client, "BEGIN; SET lazybase.batch_number = 1").await;
    run(&client, "INSERT INTO t VALUES (1)").await;
    for late in [
        "SET lazybase.batch_number = 2",
        "SET lazybase.producer = 'q'",
        "RESET lazybase.batch_number",
        "RESET ALL",
    ] {
        run(&client, "SAVEPOINT s").await;
        assert_eq!(
            sqlstate(client.batch_execute(late).await),
            "25001",
            "{late}"
        );
        run(&client, "ROLLBACK TO s").await;
    }
    run(&client, "COMMIT").await;
    assert_eq!(number(&client).await, "");
    run(&client, "SETTLE").await;
    let last = cells(&client, "SELECT name, number FROM lazybase.producers").await;
    assert_eq!(last, [["p", "1"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_session_takes_its_producer_over_again() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let (old, new) = (served.client().await, served.client().await);
    for (number, client) in [(1, &old), (2, &new)] {
        run(client, "SET lazybase.producer = 'p'").await;
        run(client, &format!("SET lazybase.batch_number = {number}")).await;
        run(client, &format!("INSERT INTO t VALUES ({number})")).await;
    }
    run(&old, "SET lazybase.batch_number = 3").await;
    let fenced = old.batch_execute("INSERT INTO t VALUES (3)").await;
    assert_eq!(sqlstate(fenced), "57L01");
    for (number, again) in [(3, "SET lazybase.producer = 'p'"), (5, "DISCARD ALL")] {
        run(&old, again).await;
        run(&old, "SET lazybase.producer = 'p'").await;
        run(&old, &format!("SET lazybase.batch_number = {number}")).await;
        run(&old, &format!("INSERT INTO t VALUES ({number})")).await;
        run(&new, &format!("SET lazybase.batch_number = {}", number + 1)).await;
        let sql = format!("INSERT INTO t VALUES ({})", number + 1);
        assert_eq!(sqlstate(new.batch_execute(&sql).await), "57L01");
        run(&new, "RESET lazybase.batch_number").await;
        run(&new, "SET lazybase.producer = 'p'").await;
        run(&new, &format!("SET lazybase.batch_number = {}", number + 1)).await;
        run(&new, &sql).await;
    }
    assert_eq!(count(&old, "t").await, 6);
    served.stop().await;
}
