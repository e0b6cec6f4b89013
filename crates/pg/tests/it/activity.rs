//! Who is connected: what others see of a connection, and how they end what it does.

use std::time::{Duration, Instant};

use arrow::util::display::array_value_to_string;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::served::{ENDLESS, Served, cells, sqlstate};

/// Asks until a query gives this row.
async fn until(client: &Client, sql: &str, wanted: &[&str]) {
    let asked = async {
        while cells(client, sql).await != [wanted.to_vec()] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(30), asked).await;
    if found.is_err() {
        panic!("{sql} gives {:?}", cells(client, sql).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_see_what_a_connection_does() {
    let served = Served::start().await;
    let watcher = served.client().await;
    let worker = served.connect("application_name=etl").await.unwrap();
    let seen = "SELECT state, query FROM pg_stat_activity WHERE application_name = 'etl'";
    assert_eq!(cells(&watcher, seen).await, [["idle", ""]]);
    worker.batch_execute("BEGIN").await.unwrap();
    let secret = "SELECT 'a secret' AS s, 42 AS n";
    worker.batch_execute(secret).await.unwrap();
    let masked = "SELECT ? AS s, ? AS n";
    assert_eq!(
        cells(&watcher, seen).await,
        [["idle in transaction", masked]]
    );
    worker.batch_execute("SELECT nothing").await.unwrap_err();
    let state = "SELECT state FROM pg_stat_activity WHERE application_name = 'etl'";
    assert_eq!(
        cells(&watcher, state).await,
        [["idle in transaction (aborted)"]]
    );
    worker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(cells(&watcher, seen).await, [["idle", "ROLLBACK"]]);
    // Each knows itself.
    let own = "SELECT usename, datname, state, client_addr, backend_start <= query_start
               FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert_eq!(
        cells(&watcher, own).await,
        [["lazybase", "lazybase", "active", "127.0.0.1", "t"]]
    );
    drop(worker);
    until(&watcher, "SELECT count(*) FROM pg_stat_activity", &["1"]).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_end_a_statement_and_a_connection() {
    let served = Served::start().await;
    let watcher = served.client().await;
    let worker = served.connect("application_name=etl").await.unwrap();
    worker
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY)")
        .await
        .unwrap();
    let running = "SELECT state FROM pg_stat_activity WHERE application_name = 'etl'";
    let end = |function: &str| {
        format!("SELECT {function}(pid) FROM pg_stat_activity WHERE application_name = 'etl'")
    };
    let work = tokio::spawn(async move {
        let over = worker.batch_execute(ENDLESS).await;
        (worker, sqlstate(over))
    });
    until(&watcher, running, &["active"]).await;
    assert_eq!(cells(&watcher, &end("pg_cancel_backend")).await, [["t"]]);
    let (worker, over) = work.await.unwrap();
    assert_eq!(over, "57014");
    // The connection goes on, until it is ended with its transaction.
    let opened = "BEGIN; INSERT INTO t VALUES (1)";
    worker.batch_execute(opened).await.unwrap();
    assert_eq!(cells(&watcher, &end("pg_terminate_backend")).await, [["t"]]);
    until(&watcher, "SELECT count(*) FROM pg_stat_activity", &["1"]).await;
    worker.batch_execute("COMMIT").await.unwrap_err();
    assert_eq!(cells(&watcher, "SELECT count(*) FROM t").await, [["0"]]);
    // While a statement runs.
    let worker = served.connect("application_name=etl").await.unwrap();
    let work = tokio::spawn(async move { worker.batch_execute(ENDLESS).await });
    until(&watcher, running, &["active"]).await;
    assert_eq!(cells(&watcher, &end("pg_terminate_backend")).await, [["t"]]);
    work.await.unwrap().unwrap_err();
    until(&watcher, "SELECT count(*) FROM pg_stat_activity", &["1"]).await;
    let absent = "SELECT pg_terminate_backend(123456), pg_cancel_backend(NULL)";
    assert_eq!(cells(&watcher, absent).await, [["f", "-"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_see_and_end_their_own() {
    let served = Served::start().await;
    served
        .client()
        .await
        .batch_execute(
            "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret';
             CREATE USER anna PASSWORD 'a'; CREATE USER boris PASSWORD 'b'",
        )
        .await
        .unwrap();
    let admin = served.connect("user=admin password=secret").await.unwrap();
    let anna = served.connect("user=anna password=a").await.unwrap();
    let boris = served.connect("user=boris password=b").await.unwrap();
    let seen = "SELECT usename, query, state IS NULL FROM pg_stat_activity
                WHERE usename = 'boris'";
    boris.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(
        cells(&anna, seen).await,
        [["boris", "<insufficient privilege>", "t"]]
    );
    assert_eq!(cells(&admin, seen).await, [["boris", "SELECT ?", "f"]]);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'boris'";
    assert_eq!(sqlstate(anna.batch_execute(end).await), "42501");
    boris.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(cells(&admin, end).await, [["t"]]);
    // Being a superuser is not passed on to the members of one's role.
    admin.batch_execute("GRANT admin TO anna").await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'admin'";
    assert_eq!(sqlstate(anna.batch_execute(end).await), "42501");
    admin.batch_execute("SELECT 1").await.unwrap();
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_knows_its_addresses() {
    let served = Served::start().await;
    let client = served.client().await;
    let port = served.address.port().to_string();
    let asked = "SELECT inet_client_addr(), inet_server_addr(), inet_server_port()";
    assert_eq!(
        cells(&client, asked).await,
        [["127.0.0.1", "127.0.0.1", port.as_str()]]
    );
    let same = "SELECT inet_client_port() = client_port FROM pg_stat_activity \
                WHERE pid = pg_backend_pid()";
    assert_eq!(cells(&client, same).await, [["t"]]);
    let since = "SELECT pg_postmaster_start_time() <= backend_start, \
                 pg_conf_load_time() = pg_postmaster_start_time(), \
                 now() - pg_postmaster_start_time() < INTERVAL '1 hour', \
                 pg_typeof(pg_postmaster_start_time()) \
                 FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let moment = "timestamp with time zone";
    assert_eq!(cells(&client, since).await, [["t", "t", "t", moment]]);
    let other = served.client().await;
    let database = "SELECT d.datname, numbackends, xact_commit FROM pg_stat_database d \
                    JOIN pg_database ON oid = datid";
    assert_eq!(cells(&client, database).await, [["lazybase", "2", "-"]]);
    let plain = "SELECT count(*) FROM pg_stat_ssl WHERE NOT ssl";
    assert_eq!(cells(&other, plain).await, [["2"]]);
    // Nobody serves a session of the process itself.
    let session = served.database.session();
    let answers =
        session.execute("SELECT inet_server_addr() IS NULL AND inet_client_port() IS NULL");
    let answers = answers.await.unwrap();
    let told = answers[0].batches[0].column(0);
    assert_eq!(array_value_to_string(told, 0).unwrap(), "true");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleep_ends_with_its_time_and_with_its_statement() {
    let served = Served::start().await;
    let watcher = served.client().await;
    let worker = served.connect("application_name=etl").await.unwrap();
    let began = Instant::now();
    assert_eq!(cells(&worker, "SELECT pg_sleep(0.05)").await, [[""]]);
    assert!(began.elapsed() >= Duration::from_millis(50));
    let sleeps = worker.prepare("SELECT pg_sleep($1)").await.unwrap();
    assert_eq!(sleeps.params(), [Type::FLOAT8]);
    worker.query(&sleeps, &[&0.01_f64]).await.unwrap();
    worker
        .batch_execute("SET statement_timeout = '50ms'")
        .await
        .unwrap();
    let late = worker.simple_query("SELECT pg_sleep(3600)").await;
    assert_eq!(sqlstate(late), "57014");
    worker
        .batch_execute("SET statement_timeout = 0")
        .await
        .unwrap();
    let cancel = worker.cancel_token();
    let work = tokio::spawn(async move {
        let over = worker.batch_execute("SELECT pg_sleep('infinity')").await;
        (worker, sqlstate(over))
    });
    let state = "SELECT state FROM pg_stat_activity WHERE application_name = 'etl'";
    until(&watcher, state, &["active"]).await;
    cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    let (worker, over) = work.await.unwrap();
    assert_eq!(over, "57014");
    assert_eq!(cells(&worker, "SELECT 1").await, [["1"]]);
    served.stop().await;
}
