//! The extended protocol: prepared statements, portals, pipelines, cancel requests.

use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, TryStreamExt, pin_mut};
use tokio_postgres::types::{ToSql, Type};

use crate::served::{Served, sqlstate};

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
    let row = client
        .query_one("SELECT count(*) FROM t", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 50);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_streamed() {
    let served = Served::start().await;
    let client = served.client().await;
    let nothing: [&(dyn ToSql + Sync); 0] = [];
    let rows = client
        .query_raw("SELECT value FROM generate_series(1, 300000)", nothing)
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
    let long = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b";
    let running = client.query(long, &[]);
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    };
    let (ended, ()) = tokio::join!(running, cancelling);
    assert_eq!(sqlstate(ended), "57014");
    // One that comes when nothing runs is forgotten.
    cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let row = client.query_one("SELECT 7", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 7);
    client
        .batch_execute("SET statement_timeout = 200")
        .await
        .unwrap();
    assert_eq!(sqlstate(client.query(long, &[]).await), "57014");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_come_on_demand() {
    let served = Served::start().await;
    let text = format!(
        "host=127.0.0.1 port={} user=x dbname=lazybase",
        served.address.port()
    );
    let (client, mut connection) = tokio_postgres::connect(&text, tokio_postgres::NoTls)
        .await
        .unwrap();
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
    let token = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
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
    let stamp = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(
        stamp.contains("horizon") || stamp.contains("as of"),
        "{stamp}"
    );
    served.stop().await;
}
