//! Connections: how many, who, and how they end.

use std::time::Duration;

use lazybase_pg::{Options, Server};

use crate::served::{Served, sqlstate};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_connections_are_told_so() {
    let options = Options {
        connections_max: 2,
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    let first = served.client().await;
    let second = served.client().await;
    let refused = served.connect("").await;
    assert_eq!(sqlstate(refused.map(drop)), "53300");
    drop(first);
    for _ in 0..100 {
        if let Ok(client) = served.connect("").await {
            client.batch_execute("SELECT 1").await.unwrap();
            drop(second);
            served.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the place of a connection that has ended was not given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_database_or_setting_is_refused() {
    let served = Served::start().await;
    let refused = served.connect("dbname=other").await;
    assert_eq!(sqlstate(refused.map(drop)), "3D000");
    let refused = served.connect("options='-c lazybase.nothing=1'").await;
    assert_eq!(sqlstate(refused.map(drop)), "42704");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_this_machine_is_listened_to() {
    let folder = tempfile::tempdir().unwrap();
    let database = lazybase_query::Database::open(folder.path().join("db"))
        .await
        .unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let address = address.parse().unwrap();
        let refused = Server::bind(database.clone(), address, Options::default()).await;
        let error = refused.err().unwrap();
        assert!(error.hint().unwrap().contains("ssh"), "{error}");
    }
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_stops_and_keeps_what_it_acknowledged() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY)")
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    let slow = served.client().await;
    let running = tokio::spawn(async move {
        slow.query("SELECT count(*) FROM generate_series(1, 3000000)", &[])
            .await
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    served.stop().await;
    running.await.unwrap().unwrap();
    let idle = client.batch_execute("SELECT 1").await.unwrap_err();
    assert!(idle.is_closed() || idle.as_db_error().is_some(), "{idle}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_frees_its_statement() {
    let options = Options {
        connections_max: 1,
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    let client = served.client().await;
    let long = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b";
    let running = tokio::spawn(async move { client.query(long, &[]).await.map(drop) });
    tokio::time::sleep(Duration::from_millis(200)).await;
    running.abort();
    for _ in 0..200 {
        if served.connect("").await.is_ok() {
            served.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the statement of a client that has left goes on");
}
