//! Cursors of SQL.

use crate::served::{Served, cells, sqlstate};

async fn served() -> Served {
    let sql = "CREATE TABLE t (k INT PRIMARY KEY); \
               INSERT INTO t SELECT n FROM generate_series(1, 1000) AS n";
    Served::with(sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_fetched_in_pieces() {
    let served = served().await;
    let client = served.client().await;
    let run = async |sql: &str| client.batch_execute(sql).await.unwrap();
    run("BEGIN; DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k").await;
    assert_eq!(cells(&client, "FETCH c").await, [["1"]]);
    assert_eq!(
        cells(&client, "FETCH FORWARD 2 FROM c").await,
        [["2"], ["3"]]
    );
    run("MOVE 990 IN c").await;
    assert_eq!(
        cells(&client, "FETCH 3 IN c").await,
        [["994"], ["995"], ["996"]]
    );
    assert_eq!(cells(&client, "FETCH ALL FROM c").await.len(), 4);
    assert!(cells(&client, "FETCH ALL FROM c").await.is_empty());
    run("CLOSE c").await;
    assert_eq!(sqlstate(client.simple_query("FETCH c").await), "34000");
    run("ROLLBACK").await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_end_with_their_transaction_unless_they_are_held() {
    let served = served().await;
    let client = served.client().await;
    let run = async |sql: &str| client.batch_execute(sql).await.unwrap();
    let alone = client.simple_query("DECLARE c CURSOR FOR SELECT 1").await;
    assert_eq!(sqlstate(alone), "25P01");
    run("BEGIN; DECLARE c CURSOR FOR SELECT 1; COMMIT").await;
    assert_eq!(sqlstate(client.simple_query("FETCH c").await), "34000");
    run("DECLARE h CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    run("DELETE FROM t WHERE k < 500").await;
    assert_eq!(cells(&client, "FETCH 2 FROM h").await, [["1"], ["2"]]);
    let again = client
        .simple_query("DECLARE h CURSOR WITH HOLD FOR SELECT 1")
        .await;
    assert_eq!(sqlstate(again), "42P03");
    run("CLOSE ALL").await;
    assert_eq!(sqlstate(client.simple_query("FETCH h").await), "34000");
    served.stop().await;
}

/// They may have rows that the transaction wrote, and nobody else has ever seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_cursors_of_a_transaction_that_is_rolled_back_end_with_it() {
    let served = served().await;
    let client = served.client().await;
    let run = async |sql: &str| client.batch_execute(sql).await.unwrap();
    run("DECLARE before CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    run("BEGIN").await;
    run("INSERT INTO t (k) VALUES (0)").await;
    run("DECLARE h CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    run("ROLLBACK").await;
    assert_eq!(sqlstate(client.simple_query("FETCH h").await), "34000");
    run("BEGIN").await;
    run("DECLARE h CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    assert_eq!(
        sqlstate(client.simple_query("SELECT missing FROM t").await),
        "42703"
    );
    run("COMMIT").await;
    assert_eq!(sqlstate(client.simple_query("FETCH h").await), "34000");
    run("BEGIN").await;
    run("INSERT INTO t (k) VALUES (0)").await;
    run("DECLARE h CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    run("COMMIT").await;
    run("BEGIN; ROLLBACK").await;
    assert_eq!(cells(&client, "FETCH 2 FROM h").await, [["0"], ["1"]]);
    assert_eq!(cells(&client, "FETCH 1 FROM before").await, [["1"]]);
    served.stop().await;
}

/// They may have rows that were taken back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_end_with_rollback_to_a_savepoint_before_them() {
    let served = served().await;
    let client = served.client().await;
    let run = async |sql: &str| client.batch_execute(sql).await.unwrap();
    run("DECLARE outside CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    run("BEGIN; DECLARE before CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    assert_eq!(cells(&client, "FETCH before").await, [["1"]]);
    run("SAVEPOINT s; INSERT INTO t (k) VALUES (0)").await;
    run("DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k").await;
    run("DECLARE h CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    assert_eq!(cells(&client, "FETCH c").await, [["0"]]);
    // What was fetched of older ones stays so.
    assert_eq!(cells(&client, "FETCH before").await, [["2"]]);
    run("ROLLBACK TO SAVEPOINT s").await;
    assert_eq!(cells(&client, "FETCH before").await, [["3"]]);
    assert_eq!(cells(&client, "FETCH outside").await, [["1"]]);
    for sql in ["FETCH c", "FETCH h", "CLOSE h"] {
        assert_eq!(sqlstate(client.simple_query(sql).await), "34000", "{sql}");
        run("ROLLBACK TO s").await;
    }
    run("DECLARE h CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    run("COMMIT").await;
    assert_eq!(cells(&client, "FETCH h").await, [["1"]]);
    assert_eq!(cells(&client, "FETCH before").await, [["4"]]);
    // Those that are held take no part in later transactions.
    run("BEGIN; SAVEPOINT s; ROLLBACK TO s; COMMIT").await;
    assert_eq!(cells(&client, "FETCH h").await, [["2"]]);
    assert_eq!(cells(&client, "FETCH outside").await, [["2"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_know_which_of_several_savepoints_is_before_them() {
    let served = served().await;
    let client = served.client().await;
    let declared = "SELECT name FROM pg_cursors ORDER BY name";
    client.batch_execute("BEGIN").await.unwrap();
    for (sql, left) in [
        // Of two that are called alike, the later one is meant.
        ("SAVEPOINT s; DECLARE a CURSOR FOR SELECT 1", &["a"][..]),
        ("SAVEPOINT s; DECLARE b CURSOR FOR SELECT 1", &["a", "b"]),
        ("ROLLBACK TO s", &["a"]),
        // Quoted, it is another name.
        ("DECLARE b CURSOR FOR SELECT 1", &["a", "b"]),
        (
            "SAVEPOINT \"S\"; DECLARE c CURSOR FOR SELECT 1",
            &["a", "b", "c"],
        ),
        ("/* to b */ ROLLBACK TO SAVEPOINT \"S\"", &["a", "b"]),
        ("rollback work to S", &["a"]),
        // What follows a savepoint that is forgotten belongs to the one before.
        ("RELEASE s; DECLARE b CURSOR FOR SELECT 1", &["a", "b"]),
        (
            "SAVEPOINT u; DECLARE c CURSOR FOR SELECT 1; RELEASE u",
            &["a", "b", "c"],
        ),
        (
            "SAVEPOINT v; DECLARE d CURSOR FOR SELECT 1; ROLLBACK TO v",
            &["a", "b", "c"],
        ),
        ("ROLLBACK TO s", &[]),
    ] {
        client.batch_execute(sql).await.unwrap();
        assert_eq!(cells(&client, declared).await.concat(), left, "{sql}");
    }
    client.batch_execute("ROLLBACK").await.unwrap();
    served.stop().await;
}

/// PostgreSQL says the same of a cursor with NO SCROLL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_never_go_back() {
    let served = served().await;
    let client = served.client().await;
    let run = async |sql: &str| client.batch_execute(sql).await.unwrap();
    run("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    assert_eq!(cells(&client, "FETCH 2 FROM c").await, [["1"], ["2"]]);
    for (sql, state) in [
        ("FETCH PRIOR FROM c", "55000"),
        ("FETCH BACKWARD 1 FROM c", "55000"),
        ("FETCH -1 FROM c", "55000"),
        ("FETCH 0 FROM c", "55000"),
        ("FETCH FIRST FROM c", "55000"),
        ("FETCH ABSOLUTE 1 FROM c", "55000"),
        ("MOVE BACKWARD ALL IN c", "55000"),
        ("DECLARE d SCROLL CURSOR WITH HOLD FOR SELECT 1", "0A000"),
    ] {
        assert_eq!(sqlstate(client.simple_query(sql).await), state, "{sql}");
    }
    // A refusal moves nothing.
    assert_eq!(cells(&client, "FETCH NEXT FROM c").await, [["3"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_take_values_and_give_binary_rows() {
    let served = served().await;
    let mut client = served.client().await;
    let transaction = client.transaction().await.unwrap();
    let declare = "DECLARE \"C d\" CURSOR FOR SELECT k FROM t WHERE k > $1 ORDER BY k";
    transaction.execute(declare, &[&990_i32]).await.unwrap();
    let rows = transaction
        .query("FETCH 4 FROM \"C d\"", &[])
        .await
        .unwrap();
    let found: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, [991, 992, 993, 994]);
    assert_eq!(rows[0].columns()[0].name(), "k");
    transaction.commit().await.unwrap();
    served.stop().await;
}
