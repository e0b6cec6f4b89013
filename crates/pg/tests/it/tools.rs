//! What single tools send that is found nowhere else, as they send it.

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::types::Type;

use crate::served::{Served, sqlstate};

async fn one(client: &tokio_postgres::Client, sql: &str) -> String {
    let messages = client.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|error| panic!("{error:?}\n{sql}"));
    let cell = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    cell.unwrap_or_else(|| panic!("no cell\n{sql}"))
}

/// ADBC's driver marks no end, and declares its lists with a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binary_copy_may_end_without_its_mark() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (\"k\" int8, \"l\" int8 ARRAY, n int8 ARRAY NOT NULL)")
        .await
        .unwrap();
    let types = "SELECT string_agg(format_type(atttypid, atttypmod), ' ') FROM pg_attribute \
                 WHERE attrelid = 't'::regclass";
    assert_eq!(one(&client, types).await, "bigint bigint[] bigint[]");
    client
        .batch_execute("CREATE TABLE b (k SMALLINT)")
        .await
        .unwrap();
    let head = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".as_slice();
    let row = b"\0\x01\0\0\0\x02\0\x07".as_slice();
    // Without rows too: ADBC's driver makes empty tables so.
    for (bytes, wanted) in [
        ([head, row, row].concat(), Some(2)),
        ([head, row, &row[..5]].concat(), None),
        (head[..12].to_vec(), None),
        (head.to_vec(), Some(0)),
        ([head, b"\xff\xff"].concat(), Some(0)),
    ] {
        let sink = client
            .copy_in::<_, Bytes>("COPY b FROM STDIN (FORMAT binary)")
            .await
            .unwrap();
        let mut sink = Box::pin(sink);
        sink.send(Bytes::from(bytes)).await.unwrap();
        match sink.as_mut().finish().await {
            Ok(rows) => assert_eq!(Some(rows), wanted),
            failed => assert!(wanted.is_none() && sqlstate(failed) == "22P04"),
        }
    }
    assert_eq!(one(&client, "SELECT count(*) FROM b").await, "2");
    served.stop().await;
}

/// psycopg 2 writes bytes into its statements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_constant_of_bytes_is_those_bytes() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (k INT PRIMARY KEY, y BYTEA);
             INSERT INTO t VALUES (1, '\\x00fe'::bytea), (2, CAST('\\x' AS bytea))",
        )
        .await
        .unwrap();
    assert_eq!(one(&client, "SELECT y FROM t WHERE k = 1").await, "\\x00fe");
    assert_eq!(one(&client, "SELECT y FROM t WHERE k = 2").await, "\\x");
    assert_eq!(one(&client, "SELECT '\\xAB'::bytea").await, "\\xab");
    let wrong = client.simple_query("SELECT '\\xabc'::bytea").await;
    assert_eq!(sqlstate(wrong), "22P02");
    served.stop().await;
}

/// pgJDBC writes the zone behind days and times of day as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_with_a_zone_is_that_day() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY, d DATE, m TIME)")
        .await
        .unwrap();
    client
        .batch_execute(
            "INSERT INTO t VALUES (1, '2020-02-29 +00', '12:30:15+00'), \
             (2, '2020-02-29', '12:30:15'), (3, '2020-02-29+05:30', '12:30:15-08')",
        )
        .await
        .unwrap();
    let found =
        "SELECT count(*) FROM t WHERE d = DATE '2020-02-29' AND CAST(m AS TEXT) = '12:30:15'";
    assert_eq!(one(&client, found).await, "3");
    let wrong = client.simple_query("INSERT INTO t (k, d) VALUES (4, '2020-02-29 x')");
    assert_eq!(sqlstate(wrong.await), "22007");
    served.stop().await;
}

/// asyncpg turns a setting off before it asks about types, and on again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_read_and_change_settings() {
    let served = Served::start().await;
    let client = served.client().await;
    let jit = "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new";
    client.prepare(jit).await.unwrap();
    assert_eq!(one(&client, jit).await, "off");
    let asked = "SELECT set_config('lazybase.freshness', '30 s', false)";
    client.prepare(asked).await.unwrap();
    assert_eq!(one(&client, "SHOW lazybase.freshness").await, "0");
    assert_eq!(one(&client, asked).await, "30s");
    assert_eq!(one(&client, "SHOW lazybase.freshness").await, "30s");
    for (sql, state) in [
        ("SELECT current_setting('nothing')", "42704"),
        ("SELECT set_config('nothing', 'x', false)", "42704"),
        (
            "SELECT set_config('lazybase.freshness', 'x', false)",
            "22023",
        ),
        ("SELECT set_config('lazybase.nothing', 'x', true)", "42704"),
    ] {
        assert_eq!(sqlstate(client.simple_query(sql).await), state, "{sql}");
    }
    let missing = "SELECT coalesce(current_setting('nothing', true), 'none')";
    assert_eq!(one(&client, missing).await, "none");
    // Outside of a transaction what is set for one ends at once.
    client
        .batch_execute("SELECT set_config('lazybase.freshness', '40 s', true)")
        .await
        .unwrap();
    assert_eq!(one(&client, "SHOW lazybase.freshness").await, "30s");
    for ends in ["COMMIT", "ROLLBACK"] {
        let asked = "BEGIN; SELECT set_config('lazybase.freshness', '50 s', true)";
        client.batch_execute(asked).await.unwrap();
        assert_eq!(one(&client, "SHOW lazybase.freshness").await, "50s");
        client.batch_execute(ends).await.unwrap();
        assert_eq!(one(&client, "SHOW lazybase.freshness").await, "30s");
    }
    served.stop().await;
}

/// Applications keep what their policies and triggers ask for so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_with_a_point_are_kept_for_whoever_set_them() {
    let served = Served::start().await;
    let client = served.connect("options='-c nope.x=1'").await.unwrap();
    assert_eq!(one(&client, "SHOW nope.x").await, "1");
    let asked = "SELECT coalesce(current_setting('app.user', true), 'none')";
    assert_eq!(one(&client, asked).await, "none");
    let set = "SELECT set_config('app.user', 'anna', true)";
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(one(&client, set).await, "anna");
    assert_eq!(one(&client, asked).await, "anna");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(one(&client, asked).await, "none");
    let run = async |sql: &str| client.batch_execute(sql).await.unwrap();
    run("SET App.User = 'boris'; SET nope.x TO 2").await;
    assert_eq!(
        one(&client, "SELECT current_setting('app.USER')").await,
        "boris"
    );
    run("BEGIN; SET LOCAL app.user = 'carla'; SET nope.y = 3; ROLLBACK").await;
    assert_eq!(one(&client, asked).await, "boris");
    assert_eq!(sqlstate(client.simple_query("SHOW nope.y").await), "42704");
    run("RESET nope.x; RESET app.user").await;
    assert_eq!(one(&client, "SHOW nope.x").await, "1");
    assert_eq!(one(&client, asked).await, "none");
    run("SET app.user = 'dora'; DISCARD ALL").await;
    assert_eq!(one(&client, asked).await, "none");
    for sql in [
        "SET lazybase.x = 1",
        "SET datafusion.x = 1",
        "SET a.\"b c\" = 1",
    ] {
        assert_eq!(sqlstate(client.batch_execute(sql).await), "42704", "{sql}");
    }
    let large = format!("SET app.large = '{}'", "x".repeat(2 << 20));
    assert_eq!(sqlstate(client.batch_execute(&large).await), "54000");
    // What one query asks for is kept once for each setting, and has a bound.
    let again = "SELECT max(set_config('app.user', repeat('x', 1000), false)) = repeat('x', 1000) \
                 FROM generate_series(1, 4000)";
    assert_eq!(one(&client, again).await, "t");
    let length = "SELECT length(current_setting('app.user'))";
    assert_eq!(one(&client, length).await, "1000");
    let many = "SELECT max(set_config('app.x' || i, repeat('x', 1000), false)) \
                FROM generate_series(1, 4000) AS s(i)";
    assert_eq!(sqlstate(client.simple_query(many).await), "54000");
    served.stop().await;
}

/// pgbench fills its tables, and sweeps them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgbench_fills_its_tables() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE a (aid INT NOT NULL, bid INT, filler CHAR(84)) WITH (fillfactor=100);
             CREATE TABLE b (bid INT, bbalance INT);
             INSERT INTO b (bid, bbalance) SELECT bid, 0 FROM generate_series(1, 3) AS bid",
        )
        .await
        .unwrap();
    assert_eq!(one(&client, "SELECT sum(bid) FROM b").await, "6");
    let sink = client
        .copy_in::<_, Bytes>("copy a from stdin with (freeze on)")
        .await
        .unwrap();
    let mut sink = Box::pin(sink);
    sink.send(Bytes::from_static(b"1\t1\t\n2\t1\t\n"))
        .await
        .unwrap();
    assert_eq!(sink.as_mut().finish().await.unwrap(), 2);
    for sql in [
        "vacuum analyze a",
        "VACUUM",
        "VACUUM (VERBOSE, ANALYZE) public.a, b",
        "ANALYZE a (aid), b",
        "ANALYZE",
        "CREATE TABLE v (k INT PRIMARY KEY, x INT)",
        "CREATE MATERIALIZED VIEW by_x AS SELECT x, k FROM v ORDER BY x, k",
        "VACUUM (SKIP_LOCKED, ANALYZE) public.by_x",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    for (sql, state) in [
        ("VACUUM nothing", "42P01"),
        ("VACUUM a,", "42601"),
        ("CREATE TABLE c (k INT) WITH (fillfactor=5)", "22023"),
    ] {
        assert_eq!(sqlstate(client.simple_query(sql).await), state, "{sql}");
    }
    served.stop().await;
}

/// pgAdmin and those that watch servers join who is connected with the databases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_of_the_database() {
    let served = Served::start().await;
    let client = served.client().await;
    let sql = "SELECT d.datname FROM pg_stat_activity a JOIN pg_database d ON d.oid = a.datid \
               WHERE a.pid = pg_backend_pid()";
    assert_eq!(one(&client, sql).await, "lazybase");
    served.stop().await;
}

/// psql shows how much tables take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_are_told() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2); SETTLE")
        .await
        .unwrap();
    let stored = "SELECT bytes FROM lazybase.tables WHERE name = 't'";
    let told = "SELECT pg_catalog.pg_table_size('t'::regclass)";
    assert_eq!(one(&client, told).await, one(&client, stored).await);
    for (bytes, text) in [(0, "0 bytes"), (10_239, "10239 bytes"), (10_240, "10 kB")] {
        let sql = format!("SELECT pg_size_pretty({bytes}::bigint)");
        assert_eq!(one(&client, &sql).await, text);
    }
    assert_eq!(
        one(&client, "SELECT pg_size_pretty(1610612736::bigint)").await,
        "1536 MB"
    );
    served.stop().await;
}

/// ADBC's driver looks for the first row behind the head of a binary COPY, in the same message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binary_copy_begins_with_its_head_and_a_row() {
    use futures::TryStreamExt;
    let served = Served::start().await;
    let client = served.client().await;
    for (query, pieces) in [("SELECT 1 WHERE false", 1), ("VALUES (1), (2)", 3)] {
        let copy = format!("COPY ({query}) TO STDOUT (FORMAT binary)");
        let stream = client.copy_out(&copy).await.unwrap();
        let sent: Vec<Bytes> = stream.try_collect().await.unwrap();
        assert_eq!(sent.len(), pieces, "{sent:?}");
        assert!(sent[0].starts_with(b"PGCOPY\n\xff\r\n\0"), "{sent:?}");
        assert!(sent[0].len() > 19, "{sent:?}");
        assert!(sent[pieces - 1].ends_with(&[0xff, 0xff]), "{sent:?}");
    }
    served.stop().await;
}

/// asyncpg asks so for a plan, and reads it as JSON.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_in_json_has_the_shape_of_postgresql() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)").await;
    let client = served.client().await;
    let options = ["FORMAT JSON, VERBOSE", "FORMAT JSON, VERBOSE, ANALYZE"];
    for (options, query, word) in [
        (
            options[0],
            "SELECT v FROM t WHERE k > 1",
            "\"Relation Name\": \"t\"",
        ),
        (
            options[1],
            "SELECT v FROM t WHERE k > 1",
            "\"Actual Rows\": 0",
        ),
        (
            options[0],
            "SELECT v FROM t WHERE k = 1",
            "\"read of t by key\"",
        ),
        (options[0], "SELECT 1 + 1 AS two", "\"Node Type\""),
    ] {
        let sql = format!("EXPLAIN ({options}) {query}");
        let statement = client.prepare(&sql).await.unwrap();
        let column = &statement.columns()[0];
        assert_eq!((column.name(), column.type_()), ("QUERY PLAN", &Type::JSON));
        let told = one(&client, &sql).await;
        assert!(told.starts_with("[\n  {\n"), "{told}");
        assert!(
            told.contains("\"Plan\": {") && told.contains(word),
            "{told}"
        );
    }
    let lines = client.prepare("EXPLAIN SELECT v FROM t").await.unwrap();
    assert_eq!(lines.columns()[0].name(), "plan");
    served.stop().await;
}
