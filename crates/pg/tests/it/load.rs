//! What a server meets that many use at a time.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use lazybase_pg::Options;

use crate::served::{Served, cells};

/// Connections at a time.
const MANY: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_connections_write_and_read_at_a_time() {
    let served = Served::start_with(Options {
        connections_max: MANY,
        ..Options::default()
    })
    .await;
    let clients = try_join_all((0..MANY).map(|_| served.connect("")))
        .await
        .unwrap();
    let table = "CREATE TABLE t (k INT PRIMARY KEY, v TEXT)";
    clients[0].batch_execute(table).await.unwrap();
    let refused = served.connect("").await.map(drop).unwrap_err();
    let told = refused.as_db_error().unwrap();
    assert_eq!(told.code().code(), "53300");
    assert!(
        told.hint().unwrap().contains("--max-connections"),
        "{told:?}"
    );
    let work = clients.iter().enumerate().map(|(at, client)| async move {
        let insert = format!("INSERT INTO t VALUES ({at}, 'of {at}')");
        client.batch_execute(&insert).await.unwrap();
        let own = format!("SELECT v FROM t WHERE k = {at}");
        assert_eq!(cells(client, &own).await, [[format!("of {at}")]]);
    });
    join_all(work).await;
    let count = "SELECT count(*) FROM t";
    assert_eq!(cells(&clients[MANY - 1], count).await, [[MANY.to_string()]]);
    drop(clients);
    let next = served.connects_within(Duration::from_secs(20)).await;
    assert!(next.is_some(), "places are given back");
    served.stop().await;
}
