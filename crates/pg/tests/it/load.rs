//! What a server meets that many use at a time: hundreds of connections, statements that are given
//! up, clients that read slowly or vanish. Nothing of them stays, and nobody waits for them.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use lazybase_pg::Options;
use lazybase_query::OpenOptions;
use tokio_postgres::{Client, NoTls};

use crate::raw::Raw;
use crate::served::{Served, cells, sqlstate};

/// Connections at a time.
const MANY: usize = 300;

/// Rows of 60 MB: more than lies between a server and a client that does not read.
const BIG: &str = "CREATE TABLE big (k INT PRIMARY KEY, v TEXT);
    INSERT INTO big SELECT value, repeat(chr(97 + value % 26), 3000)
    FROM generate_series(1, 20000) AS g (value)";

/// A sort that nobody waits for.
const SORTS: &str = "SELECT a.k FROM big a, big b ORDER BY concat(a.v, b.v)";

/// A server with a table of many bytes.
async fn limited() -> Served {
    let mut open = OpenOptions::default();
    open.settings.query_memory = 2 << 30;
    open.settings.query_spill_bytes = 1 << 30;
    let served = Served::start_over(open, Options::default()).await;
    served.client().await.batch_execute(BIG).await.unwrap();
    served.until_nothing_is_held().await;
    served
}

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_given_up_frees_what_it_held() {
    let served = limited().await;
    let client = served.client().await;
    // However quick the machine, its time is over before its memory is.
    let parts = "SET datafusion.execution.target_partitions = 2";
    client.batch_execute(parts).await.unwrap();
    let limit = "SET statement_timeout = '300ms'";
    client.batch_execute(limit).await.unwrap();
    let over = client.query(SORTS, &[]).await;
    assert_eq!(sqlstate(over), "57014");
    served.until_nothing_is_held().await;
    // The connection goes on.
    client
        .batch_execute("RESET statement_timeout")
        .await
        .unwrap();
    assert_eq!(
        cells(&client, "SELECT count(*) FROM big").await,
        [["20000"]]
    );

    let cancel = client.cancel_token();
    let running = tokio::spawn(async move { client.query(SORTS, &[]).await.map(drop) });
    served.until_held(1 << 20).await;
    cancel.cancel_query(NoTls).await.unwrap();
    assert_eq!(sqlstate(running.await.unwrap()), "57014");
    served.until_nothing_is_held().await;

    let (client, connected) = served.client_to_lose().await;
    let running = tokio::spawn(async move { client.query(SORTS, &[]).await.map(drop) });
    served.until_held(1 << 20).await;
    connected.abort();
    assert!(running.await.unwrap().is_err());
    served.until_nothing_is_held().await;
    served.stop().await;
}

/// A sort of more than there is memory, whose end nobody waits for.
const SPILLS: &str = "SELECT x FROM (
        SELECT x, concat(repeat('v', 90), CAST(x AS TEXT)) AS v
        FROM generate_series(1, 1000000000) AS s (x)
    ) AS r ORDER BY v";

/// Sorts of a client that says so are one each: several would have parts of the memory each.
const ALONE: &str = "SET datafusion.execution.target_partitions = 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sort_that_is_given_up_leaves_no_temporary_files() {
    let mut open = OpenOptions::default();
    open.settings.query_memory = 32 << 20;
    let served = Served::start_over(open, Options::default()).await;

    let client = served.client().await;
    client.batch_execute(ALONE).await.unwrap();
    let cancel = client.cancel_token();
    let running = tokio::spawn(async move { client.query(SPILLS, &[]).await.map(drop) });
    served.until_spilt().await;
    cancel.cancel_query(NoTls).await.unwrap();
    assert_eq!(sqlstate(running.await.unwrap()), "57014");
    served.until_nothing_is_held().await;

    let client = served.client().await;
    client.batch_execute(ALONE).await.unwrap();
    let limit = "SET statement_timeout = '2s'";
    client.batch_execute(limit).await.unwrap();
    let (over, ()) = tokio::join!(client.query(SPILLS, &[]), served.until_spilt());
    assert_eq!(sqlstate(over), "57014");
    served.until_nothing_is_held().await;

    let (client, connected) = served.client_to_lose().await;
    client.batch_execute(ALONE).await.unwrap();
    let running = tokio::spawn(async move { client.query(SPILLS, &[]).await.map(drop) });
    served.until_spilt().await;
    connected.abort();
    assert!(running.await.unwrap().is_err());
    served.until_nothing_is_held().await;
    served.stop().await;
}

/// Minutes would go by before it is through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_finds_nothing_hears_of_its_limit() {
    let served = limited().await;
    let client = served.client().await;
    let limit = "SET statement_timeout = '300ms'";
    client.batch_execute(limit).await.unwrap();
    let pairs = "SELECT count(*) FROM generate_series(1, 500000) AS a (x)
                 JOIN generate_series(1, 500000) AS b (y) ON x + y < 0";
    let over = client.query(pairs, &[]);
    let over = tokio::time::timeout(Duration::from_secs(30), over).await;
    assert_eq!(sqlstate(over.expect("nobody heard")), "57014");
    served.until_nothing_is_held().await;
    served.stop().await;
}

/// A list of its values would fill the memory before anybody heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_series_of_much_hears_of_its_limit() {
    let served = limited().await;
    let client = served.client().await;
    let limit = "SET statement_timeout = '300ms'";
    client.batch_execute(limit).await.unwrap();
    let moments = "generate_series('0001-01-01'::TIMESTAMP, '9999-01-01', '1 microsecond')";
    for rows in [
        format!("FROM {moments}"),
        format!("FROM (SELECT unnest({moments})) AS s"),
        format!("FROM {moments} WITH ORDINALITY"),
        "FROM (SELECT generate_series(k, 9000000000000000000) FROM big) AS s".to_owned(),
        "FROM big, generate_series(-9000000000000000000, k) AS x".to_owned(),
    ] {
        let sql = format!("SELECT count(*) {rows}");
        let over = client.query(&sql, &[]);
        let over = tokio::time::timeout(Duration::from_secs(30), over).await;
        assert_eq!(sqlstate(over.expect(&sql)), "57014", "{sql}");
    }
    served.until_nothing_is_held().await;
    served.stop().await;
}

/// All rows have one key: each batch makes billions of pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_by_one_key_that_finds_nothing_hears_of_its_limit() {
    let served = limited().await;
    let client = served.client().await;
    let limit = "SET statement_timeout = '3s'";
    client.batch_execute(limit).await.unwrap();
    let pairs = "SELECT count(*) FROM generate_series(1, 1000000) AS a (x)
                 JOIN generate_series(1, 1000000) AS b (y)
                   ON (x > 0) = (y > 0) AND x + y < 0";
    let over = client.query(pairs, &[]);
    let over = tokio::time::timeout(Duration::from_secs(30), over).await;
    assert_eq!(sqlstate(over.expect("nobody heard")), "57014");
    served.until_nothing_is_held().await;
    served.stop().await;
}

/// However many rows are on the left: each on the right is compared with all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_of_millions_is_given_up_soon() {
    let served = limited().await;
    let client = served.client().await;
    let cancel = client.cancel_token();
    let pairs = "SELECT count(*) FROM generate_series(1, 12000000) AS a (x)
                 JOIN generate_series(1, 300000) AS b (y) ON x + y < 0";
    let running = tokio::spawn(async move { client.query(pairs, &[]).await.map(drop) });
    let given_up = async {
        while served.database.query_memory_used() < 40 << 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The rest of the left comes, and the first pairs are compared.
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel_query(NoTls).await.unwrap();
        running.await.unwrap()
    };
    let given_up = tokio::time::timeout(Duration::from_secs(30), given_up).await;
    assert_eq!(sqlstate(given_up.expect("nobody heard")), "57014");
    served.until_nothing_is_held().await;
    served.stop().await;
}

/// Waits until a client is the only one that is connected.
async fn until_alone(client: &Client) {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
    let alone = async {
        while cells(client, others).await != [["0"]] {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let alone = tokio::time::timeout(Duration::from_secs(30), alone).await;
    alone.expect("the others are let go");
}

/// Answers that each are sent at once lie unread, in a transaction: whoever ends its connection
/// need not wait for the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_can_be_ended() {
    let served = limited().await;
    let client = served.client().await;
    let mut slow = Raw::new(&served).await;
    assert_eq!(slow.query("BEGIN").ready().await.status(), Some('T'));
    for _ in 0..500 {
        slow.query("SELECT * FROM big WHERE k < 15").send().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE pid <> pg_backend_pid()";
    assert_eq!(cells(&client, end).await, [["t"]]);
    until_alone(&client).await;
    served.until_nothing_is_held().await;
    drop(slow);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let served = limited().await;
    let mut slow = Raw::new(&served).await;
    slow.query("SET statement_timeout = '2s'").send().await;
    slow.ready().await;
    slow.query("SELECT * FROM big").send().await;
    served.until_held(0).await;
    let client = served.client().await;
    for at in 0..20 {
        let insert = format!("INSERT INTO big VALUES ({}, 'new')", 100_000 + at);
        let done = client.batch_execute(&insert);
        let done = tokio::time::timeout(Duration::from_secs(10), done).await;
        done.expect("writers do not wait for readers").unwrap();
    }
    let count = "SELECT count(*) FROM big WHERE k >= 100000";
    assert_eq!(cells(&client, count).await, [["20"]]);
    // What its statement held is free; it has still not read, and is let go.
    served.until_nothing_is_held().await;
    until_alone(&client).await;
    drop(slow);

    // Without a limit of time, its statement lasts as long as it does.
    let mut slow = Raw::new(&served).await;
    slow.query("SELECT * FROM big").send().await;
    served.until_held(0).await;
    drop(slow);
    served.until_nothing_is_held().await;
    served.stop().await;
}
