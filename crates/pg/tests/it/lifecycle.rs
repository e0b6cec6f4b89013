//! Connections: how many, who, and how they end.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use lazybase_pg::{Descriptors, Options, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::raw::Raw;
use crate::served::{ENDLESS, LESS_THAN_SILENCE, Served, cells, count, sqlstate};

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
    let client = served.connects_within(Duration::from_secs(30)).await;
    let client = client.expect("the place of a connection that has ended is given back");
    client.batch_execute("SELECT 1").await.unwrap();
    drop(second);
    served.stop().await;
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

/// `psql -l` and `createuser` connect to these where nobody names a database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_databases_that_tools_connect_to_are_the_one_that_there_is() {
    let served = Served::start().await;
    for name in ["postgres", "template1"] {
        let client = served.connect(&format!("dbname={name}")).await.unwrap();
        let called =
            "SELECT current_database(), (SELECT string_agg(datname, ' ') FROM pg_database)";
        assert_eq!(cells(&client, called).await, [["lazybase", "lazybase"]]);
    }
    for name in ["template0", "Postgres"] {
        let refused = served.connect(&format!("dbname={name}")).await;
        assert_eq!(sqlstate(refused.map(drop)), "3D000", "{name}");
    }
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
    let options = Options {
        grace: Duration::from_secs(60),
        ..Options::default()
    };
    let served = Served::start_with(options).await;
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
    let (began, begins) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(async move {
        let all = "SELECT * FROM generate_series(1, 1000000)";
        let none: [&str; 0] = [];
        let rows = slow.query_raw(all, none).await.unwrap();
        let mut rows = pin!(rows);
        rows.try_next().await.unwrap().unwrap();
        began.send(()).unwrap();
        rows.try_fold(1, |rows, _| async move { Ok(rows + 1) })
            .await
    });
    begins.await.unwrap();
    served.stop().await;
    assert_eq!(running.await.unwrap().unwrap(), 1_000_000);
    let idle = client.batch_execute("SELECT 1").await.unwrap_err();
    assert!(idle.is_closed() || idle.as_db_error().is_some(), "{idle}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_outlives_the_grace_is_told_so() {
    let options = Options {
        grace: Duration::from_millis(300),
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    let client = served.client().await;
    let running = tokio::spawn(async move { client.query(ENDLESS, &[]).await.map(drop) });
    served.until_one_runs().await;
    served.stop().await;
    assert_eq!(sqlstate(running.await.unwrap()), "57P01");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_connected_and_says_nothing_holds_up_no_stop() {
    let served = Served::start().await;
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    // It is heard: what it asks for is declined.
    let encryption = [0, 0, 0, 8, 4, 210, 22, 47];
    silent.write_all(&encryption).await.unwrap();
    assert_eq!(silent.read_u8().await.unwrap(), b'N');
    let stopped = tokio::time::timeout(LESS_THAN_SILENCE, served.stop()).await;
    stopped.expect("the server waits for it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_frees_its_statement() {
    let options = Options {
        connections_max: 1,
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    // A driver would wait for the answer before it leaves.
    let mut raw = Raw::new(&served).await;
    raw.query(ENDLESS).send().await;
    served.until_one_runs().await;
    raw.vanish();
    let next = served.connects_within(Duration::from_secs(20)).await;
    assert!(
        next.is_some(),
        "the statement of a client that has left ends"
    );
    served.stop().await;
}

/// It has sent more than the server reads ahead, so that its end stands behind what nobody reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_in_its_pipeline_frees_its_statement() {
    for (bytes, first) in [(60 << 10, true), (16 << 10, true), (60 << 10, false)] {
        let options = Options {
            connections_max: 1,
            ..Options::default()
        };
        let served = Served::start_with(options).await;
        let mut raw = Raw::new(&served).await;
        raw.query(ENDLESS);
        if !first {
            raw.send().await;
            served.until_one_runs().await;
        }
        let more = format!("SELECT '{}'", "x".repeat(bytes));
        raw.query(&more).send().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        raw.vanish();
        let next = served.connects_within(Duration::from_secs(20)).await;
        assert!(next.is_some(), "{bytes} bytes behind the statement");
        served.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_much_behind_a_statement_is_answered() {
    let served = Served::start().await;
    let mut raw = Raw::new(&served).await;
    let more = format!("SELECT length('{}')", "x".repeat(60 << 10));
    raw.query("SELECT count(*) FROM generate_series(1, 3000000) a")
        .query(&more);
    assert_eq!(raw.ready().await.rows(), [["3000000"]]);
    assert_eq!(raw.ready().await.rows(), [[(60 << 10).to_string()]]);
    served.stop().await;
}

/// A connection whose transaction has gone on for longer than it may wait for its client; none
/// where the machine stood still, so that it did wait for so long.
async fn going_on(served: &Served) -> Option<Raw> {
    let mut raw = Raw::new(served).await;
    let set = "SET idle_in_transaction_session_timeout = '1s'";
    assert_eq!(raw.query(set).ready().await.tags(), ["SET"]);
    let shown = "SHOW idle_in_transaction_session_timeout";
    assert_eq!(raw.query(shown).ready().await.rows(), [["1000"]]);
    // Outside of a transaction it may wait as long as it likes, and one that goes on is not idle.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let mut asked = Instant::now();
    raw.query("BEGIN; INSERT INTO t VALUES (1)").ready().await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = std::mem::replace(&mut asked, Instant::now());
        let told = raw.query("SELECT 1").ready().await;
        if told.status() != Some('T') {
            let since = before.elapsed();
            assert!(since >= Duration::from_secs(1), "{since:?}: {told:?}");
            return None;
        }
    }
    Some(raw)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_waits_too_long_for_its_client_ends() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let mut raw = None;
    for _ in 0..10 {
        if raw.is_none() {
            raw = going_on(&served).await;
        }
    }
    let told = raw.expect("one of ten goes on").ready().await;
    assert_eq!(told.errors(b'C'), ["25P03"], "{told:?}");
    assert_eq!(told.errors(b'V'), ["FATAL"]);
    assert_eq!(told.status(), None);
    let client = served.client().await;
    assert_eq!(count(&client, "t").await, 0, "it is rolled back");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replication_is_refused_and_its_absence_is_not() {
    let served = Served::start().await;
    let mut raw = Raw::new(&served).await;
    let told = raw.query("SELECT 1").ready().await;
    assert_eq!(told.rows(), [["1"]]);
    for (value, accepted) in [("false", true), ("off", true), ("true", false)] {
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        let pairs = format!("user\0x\0database\0lazybase\0replication\0{value}\0\0");
        body.extend_from_slice(pairs.as_bytes());
        let told = Raw::begin(&served, &body).await;
        assert_eq!(told.status().is_some(), accepted, "{value}: {told:?}");
    }
    served.stop().await;
}

/// Connections that say nothing have a limit of their own, and take nobody's place for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_say_nothing_are_bounded() {
    let options = Options {
        connections_max: 1,
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    let mut silent = Vec::new();
    for _ in 0..101 {
        silent.push(
            tokio::net::TcpStream::connect(served.address)
                .await
                .unwrap(),
        );
    }
    let refused = served.connect("").await;
    assert!(refused.is_err(), "one too many is closed");
    drop(silent);
    let next = served.connects_within(LESS_THAN_SILENCE).await;
    assert!(
        next.is_some(),
        "those that have left have left their places"
    );
    served.stop().await;
}

/// Beyond the open files that are left for connections the next one is told so, and others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_past_the_open_files_are_told_so() {
    let options = Options {
        descriptors: Descriptors::new(3),
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    let client = served.client().await;
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpStream::connect(served.address).await.unwrap());
    }
    let mut told = Vec::new();
    silent[2].read_to_end(&mut told).await.unwrap();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(told.contains("53300") && told.contains("ulimit"), "{told}");
    client.batch_execute("SELECT 1").await.unwrap();
    drop(silent);
    let next = served.connects_within(LESS_THAN_SILENCE).await;
    assert!(
        next.is_some(),
        "those that have left have given back theirs"
    );
    served.stop().await;
}
