//! The extended protocol: prepared statements, portals, pipelines, cancel requests.

use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, TryStreamExt, pin_mut};
use tokio_postgres::Statement;
use tokio_postgres::types::{ToSql, Type};

use crate::raw::Raw;
use crate::served::{ENDLESS, Served, cells, count, sqlstate};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_get_the_types_of_their_columns() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT, d DOUBLE PRECISION)")
        .await
        .unwrap();
    let insert = client
        .prepare("INSERT INTO t (k, v, d) VALUES ($1, $2, $3)")
        .await
        .unwrap();
    assert_eq!(insert.params(), [Type::INT8, Type::TEXT, Type::FLOAT8]);
    for k in 0..5_i64 {
        let text = format!("v{k}");
        assert_eq!(
            client
                .execute(&insert, &[&k, &text, &(k as f64 / 2.0)])
                .await
                .unwrap(),
            1
        );
    }
    let find = client
        .prepare("SELECT v, d FROM t WHERE k = $1")
        .await
        .unwrap();
    assert_eq!(find.params(), [Type::INT8]);
    let names: Vec<&str> = find.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["v", "d"]);
    let row = client.query_one(&find, &[&3_i64]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, f64>(1)), ("v3", 1.5));
    assert!(client.query_opt(&find, &[&9_i64]).await.unwrap().is_none());
    let range = client
        .prepare("SELECT k FROM t WHERE k >= $1 LIMIT $2")
        .await
        .unwrap();
    assert_eq!(range.params(), [Type::INT8, Type::INT8]);
    let rows = client.query(&range, &[&1_i64, &2_i64]).await.unwrap();
    let keys: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(keys, [1, 2]);
    let typed = client
        .prepare_typed("SELECT $1, $2 + 1", &[Type::TIMESTAMP, Type::INT4])
        .await;
    assert_eq!(typed.unwrap().columns()[0].type_(), &Type::TIMESTAMP);
    let plan = client
        .prepare("EXPLAIN SELECT v, d FROM t WHERE k = $1")
        .await
        .unwrap();
    assert_eq!(plan.params(), [Type::INT8]);
    let lines = client.query(&plan, &[&3_i64]).await.unwrap();
    let lines: Vec<&str> = lines.iter().map(|line| line.get(0)).collect();
    assert!(
        lines[1].starts_with("read of t by key: 1 key"),
        "the plan of the query itself: {lines:?}"
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn portals_give_their_rows_in_pieces() {
    let served = Served::start().await;
    let mut client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY)")
        .await
        .unwrap();
    let values: Vec<String> = (0..100).map(|k| format!("({k})")).collect();
    client
        .batch_execute(&format!("INSERT INTO t VALUES {}", values.join(",")))
        .await
        .unwrap();
    let transaction = client.transaction().await.unwrap();
    let portal = transaction
        .bind("SELECT k FROM t ORDER BY k", &[])
        .await
        .unwrap();
    let mut seen = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 30).await.unwrap();
        if rows.is_empty() {
            break;
        }
        assert!(rows.len() <= 30);
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    transaction.commit().await.unwrap();
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_tells_its_rows() {
    let table = "CREATE TABLE t (k INT PRIMARY KEY, v TEXT DEFAULT 'new', u UUID DEFAULT uuid())";
    let served = Served::with(table).await;
    let mut client = served.client().await;
    let insert = client
        .prepare("INSERT INTO t (k) VALUES ($1) RETURNING *, k + 1, v AS said")
        .await
        .unwrap();
    let columns = insert.columns().iter();
    let columns: Vec<(&str, &Type)> = columns.map(|told| (told.name(), told.type_())).collect();
    let wanted = [
        ("k", &Type::INT4),
        ("v", &Type::TEXT),
        ("u", &Type::UUID),
        ("?column?", &Type::INT8),
        ("said", &Type::TEXT),
    ];
    assert_eq!(columns, wanted);
    let told = client.query_one(&insert, &[&1_i32]).await.unwrap();
    assert_eq!((told.get::<_, i32>(0), told.get::<_, i64>(3)), (1, 2));
    assert_eq!(told.get::<_, &str>(4), "new");
    assert_eq!(client.execute(&insert, &[&2_i32]).await.unwrap(), 1);

    // In pieces: the rows are written with the first.
    let transaction = client.transaction().await.unwrap();
    let insert = "INSERT INTO t (k) SELECT value FROM generate_series(101, 200) AS g (value) \
                  ORDER BY value RETURNING k";
    let portal = transaction.bind(insert, &[]).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 30).await.unwrap();
        if rows.is_empty() {
            break;
        }
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    assert_eq!(seen, (101..=200).collect::<Vec<_>>());
    transaction.rollback().await.unwrap();
    assert_eq!(count(&client, "t").await, 2);

    let mut raw = Raw::new(&served).await;
    let told = raw.run("INSERT INTO t (k) VALUES (3), (4) RETURNING k");
    let told = told.sync().ready().await;
    assert_eq!(told.tags(), ["INSERT 0 2"], "{told:?}");
    served.stop().await;
}

/// Rows to change, and what to change them by.
const CHANGED: &str = "CREATE TABLE t (k INT PRIMARY KEY, v TEXT, u UUID, d DECIMAL(8, 2));
    CREATE TABLE o (id BIGINT PRIMARY KEY, k INT, n INT);
    INSERT INTO t (k, v, d) VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3);
    INSERT INTO o VALUES (10, 1, 7), (20, 2, 8)";

/// The columns that a statement tells, each as `name type`.
fn columns_of(statement: &Statement) -> Vec<String> {
    let columns = statement.columns().iter();
    let columns = columns.map(|told| format!("{} {}", told.name(), told.type_()));
    columns.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_tells_its_rows() {
    let served = Served::with(CHANGED).await;
    let client = served.client().await;
    let update = "UPDATE t SET v = $2 WHERE k = $1 RETURNING *, k + 1 AS sum, v AS said";
    let update = client.prepare(update).await.unwrap();
    assert_eq!(update.params(), [Type::INT4, Type::TEXT]);
    let wanted = [
        "k int4",
        "v text",
        "u uuid",
        "d numeric",
        "sum int8",
        "said text",
    ];
    assert_eq!(columns_of(&update), wanted);
    // The columns are those of the table, as clients know it.
    let tables = update.columns().iter().map(|told| told.table_oid());
    let tables: Vec<Option<u32>> = tables.collect();
    assert!(tables[0].is_some() && tables[0] == tables[1] && tables[4].is_none());
    // Nothing has run yet.
    let first = "SELECT v FROM t WHERE k = 1";
    assert_eq!(cells(&client, first).await, [["one"]]);
    let told = client.query_one(&update, &[&1_i32, &"uno"]).await.unwrap();
    assert_eq!((told.get::<_, i32>(0), told.get::<_, i64>(4)), (1, 2));
    assert_eq!(told.get::<_, &str>(5), "uno");
    let none = client.query_opt(&update, &[&9_i32, &"nine"]).await.unwrap();
    assert!(none.is_none());
    assert_eq!(client.execute(&update, &[&2_i32, &"dos"]).await.unwrap(), 1);

    let joined = "UPDATE t SET d = o.n FROM o WHERE o.k = t.k RETURNING t.k, d, o.*, id + n";
    let joined = client.prepare(joined).await.unwrap();
    let wanted = [
        "k int4",
        "d numeric",
        "id int8",
        "k int4",
        "n int4",
        "?column? int8",
    ];
    assert_eq!(columns_of(&joined), wanted);
    let told = client.query(&joined, &[]).await.unwrap();
    let ids = told.iter().map(|row| (row.get(0), row.get(2)));
    let mut ids: Vec<(i32, i64)> = ids.collect();
    ids.sort_unstable();
    assert_eq!(ids, [(1, 10), (2, 20)]);

    let mut raw = Raw::new(&served).await;
    let update = raw.run("UPDATE t SET v = 'x' WHERE k > 1 RETURNING k");
    let told = update.sync().ready().await;
    assert_eq!(told.tags(), ["UPDATE 2"], "{told:?}");
    assert_eq!(told.rows().len(), 2, "{told:?}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_tells_its_rows() {
    let served = Served::with(CHANGED).await;
    let mut client = served.client().await;
    let delete = "DELETE FROM t WHERE k <= $1 RETURNING v, d";
    let delete = client.prepare(delete).await.unwrap();
    assert_eq!(delete.params(), [Type::INT4]);
    assert_eq!(columns_of(&delete), ["v text", "d numeric"]);
    let told = client.query_one(&delete, &[&1_i32]).await.unwrap();
    assert_eq!(told.get::<_, &str>(0), "one");
    assert_eq!(count(&client, "t").await, 2);

    // In pieces: the rows are deleted with the first.
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind(&delete, &[&3_i32]).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let rows = transaction.query_portal(&portal, 1).await.unwrap();
        seen.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    seen.sort_unstable();
    assert_eq!(seen, ["three", "two"]);
    transaction.rollback().await.unwrap();
    assert_eq!(count(&client, "t").await, 2);

    let mut raw = Raw::new(&served).await;
    let delete = raw.run("DELETE FROM t WHERE k = 2 RETURNING v, k");
    let told = delete.sync().ready().await;
    assert_eq!(told.tags(), ["DELETE 1"], "{told:?}");
    assert_eq!(told.rows(), [["two", "2"]], "{told:?}");
    let delete = raw.run("DELETE FROM t USING o WHERE o.k = t.k RETURNING *");
    let told = delete.sync().ready().await;
    assert_eq!(told.tags(), ["DELETE 0"], "{told:?}");
    served.stop().await;
}

/// Rows that can't be told as they were described are not changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_whose_columns_changed_deletes_nothing() {
    let served = Served::with("CREATE TABLE t (k INT); INSERT INTO t VALUES (1)").await;
    let other = served.client().await;
    let mut raw = Raw::new(&served).await;
    raw.parse("s", "DELETE FROM t RETURNING *");
    let told = raw.describe("s").sync().ready().await;
    assert!(told.errors(b'C').is_empty(), "{told:?}");
    let alter = "ALTER TABLE t ADD COLUMN n INT";
    other.batch_execute(alter).await.unwrap();
    raw.parse("n", "DELETE FROM t WHERE k = 2 RETURNING *");
    let told = raw
        .describe("n")
        .bind("", "n")
        .execute("", 0)
        .sync()
        .ready()
        .await;
    assert_eq!(told.tags(), ["DELETE 0"], "{told:?}");
    let told = raw.bind("", "s").execute("", 0).sync().ready().await;
    assert_eq!(told.errors(b'C'), ["0A000"], "{told:?}");
    assert_eq!(count(&other, "t").await, 1);
    served.stop().await;
}

/// Rows that can't be told as they were described are not written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_whose_columns_changed_writes_nothing() {
    let served = Served::with("CREATE TABLE t (k INT DEFAULT 1)").await;
    let other = served.client().await;
    let mut raw = Raw::new(&served).await;
    raw.parse("s", "INSERT INTO t DEFAULT VALUES RETURNING *");
    raw.describe("s");
    let told = raw.bind("", "s").execute("", 0).sync().ready().await;
    assert_eq!(told.rows(), [["1"]], "{told:?}");
    let alter = "ALTER TABLE t ADD COLUMN n INT";
    other.batch_execute(alter).await.unwrap();
    let told = raw.bind("", "s").execute("", 0).sync().ready().await;
    assert_eq!(told.errors(b'C'), ["0A000"], "{told:?}");
    assert_eq!(count(&other, "t").await, 1);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_ends_a_pipeline_and_nothing_else() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY)")
        .await
        .unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1)").await.unwrap();
    let keys: Vec<i32> = (0..50).collect();
    // Sent without waiting: each is a transaction of its own, for each has its own Sync.
    let all = keys.iter().map(|key| async {
        let parameters: [&(dyn ToSql + Sync); 1] = [key];
        client.execute(&insert, &parameters).await
    });
    for done in join_all(all).await {
        assert_eq!(done.unwrap(), 1);
    }
    assert_eq!(sqlstate(client.query("SELECT 1 / 0", &[]).await), "22012");
    assert_eq!(count(&client, "t").await, 50);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_streamed() {
    let served = Served::start().await;
    let client = served.client().await;
    let nothing: [&(dyn ToSql + Sync); 0] = [];
    let rows = client
        .query_raw(
            "SELECT generate_series FROM generate_series(1, 300000)",
            nothing,
        )
        .await
        .unwrap();
    pin_mut!(rows);
    let mut sum = 0_i64;
    while let Some(row) = rows.try_next().await.unwrap() {
        sum += row.get::<_, i64>(0);
    }
    assert_eq!(sum, 300_000 * 300_001 / 2);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_request_ends_the_statement() {
    let served = Served::start().await;
    let client = served.client().await;
    let cancel = client.cancel_token();
    let running = client.query(ENDLESS, &[]);
    let cancelling = async {
        served.until_one_runs().await;
        cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    };
    let (ended, ()) = tokio::join!(running, cancelling);
    assert_eq!(sqlstate(ended), "57014");
    let row = client.query_one("SELECT 7", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 7);
    // One that comes when nothing runs is forgotten.
    let mut raw = Raw::new(&served).await;
    assert_eq!(raw.query("SELECT 8").ready().await.rows(), [["8"]]);
    Raw::cancel(&raw.key.clone(), &served).await;
    assert_eq!(raw.query("SELECT 9").ready().await.rows(), [["9"]]);
    client
        .batch_execute("SET statement_timeout = 200")
        .await
        .unwrap();
    assert_eq!(sqlstate(client.query(ENDLESS, &[]).await), "57014");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_come_on_demand() {
    let served = Served::start().await;
    let connecting = tokio_postgres::connect(
        &format!("{} user=somebody", served.url()),
        tokio_postgres::NoTls,
    )
    .await;
    let (client, mut connection) = connecting.unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
    tokio::spawn(messages.for_each(move |message| {
        if let Ok(tokio_postgres::AsyncMessage::Notice(notice)) = message {
            drop(sender.send(notice.message().to_owned()));
        }
        futures::future::ready(())
    }));
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    client.query("SELECT * FROM t", &[]).await.unwrap();
    assert!(receiver.try_recv().is_err(), "drivers are not flooded");
    client
        .batch_execute("SET lazybase.notices = on")
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO t VALUES (2)")
        .await
        .unwrap();
    let token = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
    let token = token.strip_prefix("token ").unwrap().to_owned();
    // Another session reads what the token stands for.
    let other = served.client().await;
    other
        .batch_execute("SET lazybase.freshness = 'best effort'")
        .await
        .unwrap();
    let rows = other
        .query(&format!("SELECT * FROM t AFTER '{token}'"), &[])
        .await
        .unwrap();
    assert_eq!(rows.len(), 2);
    client.query("SELECT * FROM t", &[]).await.unwrap();
    let stamp = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(
        stamp.starts_with("horizon ") && stamp.contains(" (asked 0), as of 2"),
        "{stamp}"
    );
    // What a staler answer would have saved is told with it.
    other.batch_execute("SETTLE").await.unwrap();
    client
        .batch_execute(
            "PAUSE STAGE SORT; \
             INSERT INTO t SELECT value FROM generate_series(10, 100000) AS g (value)",
        )
        .await
        .unwrap();
    receiver.recv_timeout(Duration::from_secs(30)).unwrap();
    client.query("SELECT max(k) FROM t", &[]).await.unwrap();
    let stamp = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(stamp.contains("times less"), "{stamp}");
    served.stop().await;
}

/// Rows are never taken for those of other columns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_columns_changed_must_be_prepared_again() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, a INT, c INT)").await;
    let other = served.client().await;
    other
        .batch_execute("INSERT INTO t VALUES (1, 10, 30)")
        .await
        .unwrap();
    let mut raw = Raw::new(&served).await;
    for (sql, old, new) in [
        ("SELECT * FROM t", "a", "b"),
        ("SELECT * FROM t WHERE k = 1", "b", "d"),
    ] {
        raw.parse("s", sql).describe("s");
        let told = raw.bind("", "s").execute("", 0).sync().ready().await;
        assert_eq!(told.rows().len(), 1, "{told:?}");
        // As many columns, of the same types, but others.
        let alter = format!("ALTER TABLE t DROP COLUMN {old}; ALTER TABLE t ADD COLUMN {new} INT");
        other.batch_execute(&alter).await.unwrap();
        let told = raw.bind("", "s").execute("", 0).sync().ready().await;
        assert_eq!(told.errors(b'C'), ["0A000"], "{told:?}");
        assert_eq!(told.errors(b'R'), ["RevalidateCachedQuery"]);
        assert_eq!(
            told.errors(b'M'),
            ["cached plan must not change result type"]
        );
        assert!(told.rows().is_empty());
        // A change that leaves the columns as they are is none.
        raw.describe("s").sync().ready().await;
        other
            .batch_execute("COMMENT ON TABLE t IS 'seen'")
            .await
            .unwrap();
        let told = raw.bind("", "s").execute("", 0).sync().ready().await;
        assert_eq!(told.rows().len(), 1, "{told:?}");
        raw.put(b'C', b"Ss\0").sync().ready().await;
    }
    served.stop().await;
}

/// The past has the columns that it had, as each of the statement's ways tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_past_is_described_as_it_was() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, a INT, b TEXT)").await;
    let client = served.client().await;
    // A change of tables ends an SCU.
    for sql in [
        "INSERT INTO t VALUES (1, 10, 'x')",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t RENAME COLUMN a TO aa",
        "ALTER TABLE t ADD COLUMN c BIGINT",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    for sql in [
        "SELECT * FROM t AS OF SCU 1",
        "SELECT * FROM t WHERE k = 1 AS OF SCU 1",
    ] {
        let rows = client.query(sql, &[]).await.unwrap();
        let names: Vec<&str> = rows[0].columns().iter().map(|c| c.name()).collect();
        assert_eq!(names, ["k", "a", "b"], "{sql}");
        assert_eq!(rows[0].get::<_, &str>(2), "x");
    }
    // A transaction goes on with the columns of its snapshot.
    client.batch_execute("BEGIN").await.unwrap();
    client.query("SELECT * FROM t", &[]).await.unwrap();
    let other = served.client().await;
    other
        .batch_execute("ALTER TABLE t DROP COLUMN c")
        .await
        .unwrap();
    let rows = client.query("SELECT * FROM t", &[]).await.unwrap();
    assert_eq!(rows[0].len(), 3);
    client.batch_execute("COMMIT").await.unwrap();
    let rows = client.query("SELECT * FROM t", &[]).await.unwrap();
    assert_eq!(rows[0].len(), 2);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_upkeep_tell_their_columns() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)").await;
    let client = served.client().await;
    let rows = client.query("VERIFY TABLE t", &[]).await.unwrap();
    assert!(rows.iter().all(|row| row.columns()[0].name() == "holds"));
    let folder = tempfile::tempdir().unwrap();
    let sql = format!("BACKUP TO '{}'", folder.path().join("b").display());
    let rows = client.query(&sql, &[]).await.unwrap();
    assert_eq!(rows[0].columns()[0].name(), "backup");
    assert_eq!(rows[0].get::<_, i64>(0), 1);
    served.stop().await;
}

/// What is known to have changed no rows is not called unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settling_that_is_cancelled_has_changed_nothing() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let client = served.client().await;
    // Where the machine stands still, all is settled before anybody looks at the time.
    let mut rows = 0;
    let settled = loop {
        let (first, last) = (rows + 1, rows + 50_000);
        let insert =
            format!("INSERT INTO t SELECT x FROM generate_series({first}, {last}) AS s (x)");
        client.batch_execute(&insert).await.unwrap();
        rows = last;
        client
            .batch_execute("SET statement_timeout = 1")
            .await
            .unwrap();
        let settled = client.batch_execute("SETTLE").await;
        client.batch_execute("RESET ALL").await.unwrap();
        if settled.is_err() || rows == 500_000 {
            break settled;
        }
    };
    assert_eq!(sqlstate(settled), "57014");
    assert_eq!(count(&client, "t").await, rows);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_a_portal_or_a_cursor_is_not_given_in_a_failed_transaction() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let mut raw = Raw::new(&served).await;
    raw.query("INSERT INTO t VALUES (1), (2), (3), (4), (5)")
        .ready()
        .await;
    raw.query("BEGIN").ready().await;
    raw.query("DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k")
        .ready()
        .await;
    raw.query("SAVEPOINT s").ready().await;
    raw.parse("", "SELECT k FROM t ORDER BY k").bind("p", "");
    let told = raw.execute("p", 2).sync().ready().await;
    assert_eq!(told.rows(), [["1"], ["2"]], "{told:?}");
    let told = raw.query("SELECT * FROM nosuch").ready().await;
    assert_eq!(told.status(), Some('E'), "{told:?}");
    let told = raw.execute("p", 2).sync().ready().await;
    assert_eq!(told.errors(b'C'), ["25P02"], "{told:?}");
    assert!(told.rows().is_empty(), "{told:?}");
    for sql in ["FETCH 2 FROM c", "MOVE 1 FROM c", "CLOSE c"] {
        let told = raw.query(sql).ready().await;
        assert_eq!(told.errors(b'C'), ["25P02"], "{told:?}");
        assert!(told.rows().is_empty(), "{told:?}");
        let told = raw.run(sql).sync().ready().await;
        assert_eq!(told.errors(b'C'), ["25P02"], "{told:?}");
    }
    raw.query("ROLLBACK TO s").ready().await;
    let told = raw.query("FETCH 2 FROM c").ready().await;
    assert_eq!(told.rows(), [["1"], ["2"]], "{told:?}");
    raw.query("ROLLBACK").ready().await;
    served.stop().await;
}
