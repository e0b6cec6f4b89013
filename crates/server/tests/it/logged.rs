//! Log lines of the server: slow statements, levels, JSON; and never a value.

use arrow_flight::error::FlightError;
use futures::TryStreamExt;
use tokio::task::block_in_place;

use crate::flight;
use crate::monitored::{metrics, sum};
use crate::run::{Place, alone};
use crate::server::Server;

fn events(said: &[String]) -> Vec<serde_json::Value> {
    let parsed = said.iter().map(|line| serde_json::from_str(line));
    parsed
        .map(|line| line.unwrap_or_else(|error| panic!("{error}: {said:?}")))
        .collect()
}

#[test]
fn slow_statements_are_logged_with_what_they_read_and_no_values() {
    let place = Place::new();
    let server = Server::start(&place, &["--slow-query", "0"]);
    server.rows("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)");
    server.rows("INSERT INTO t VALUES (1, 'a secret of somebody')");
    server.rows("SELECT k FROM t WHERE v = 'a secret of somebody'");
    let line = server.line("SELECT k FROM t WHERE v = ?");
    assert!(
        line.contains("WARN") && line.contains("slow query"),
        "{line}"
    );
    for told in [
        "kind=\"scan\"",
        "elapsed_us=",
        "rows=1",
        "bytes_read=",
        "horizon",
        "(asked 0), as of 2",
    ] {
        assert!(line.contains(told), "{told}: {line}");
    }
    server.line("INSERT INTO t VALUES (?, ?)");
    // A session may say otherwise.
    server.rows("SET lazybase.slow_query = off; SELECT k + 1 FROM t");
    let said = server.stop();
    assert!(!said.iter().any(|line| line.contains("secret")), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("k + ?")), "{said:?}");
}

/// How many statements that write were counted.
fn writes(server: &Server) -> f64 {
    let name = "lazybase_query_duration_seconds_count";
    sum(&metrics(server), name, &[("kind", "write")])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_flight_puts_is_logged_and_counted_as_statements_are() {
    let place = Place::new();
    let server = block_in_place(|| Server::start(&place, &["--slow-query", "0"]));
    let mut client = flight::connect(&server).await;
    let table = "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)".to_owned();
    client.execute_update(table, None).await.unwrap();
    let before = writes(&server);
    let put = flight::put(&mut client, "t", flight::rows(0..10)).await;
    assert_eq!(put, 10);
    let insert = "INSERT INTO t VALUES ($1, $2)";
    let mut prepared = client.prepare(insert.to_owned(), None).await.unwrap();
    prepared.set_parameters(flight::rows(10..15)).unwrap();
    assert_eq!(prepared.execute_update().await.unwrap(), 5);
    for text in ["INGEST INTO t", insert] {
        let line = server.line(text);
        for told in ["slow query", "kind=\"write\"", "sqlstate=\"00000\""] {
            assert!(line.contains(told), "{told}: {line}");
        }
    }
    assert_eq!(writes(&server) - before, 2.0);
    let said = block_in_place(|| server.stop());
    assert!(!said.iter().any(|line| line.contains("secret")), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_flight_gives_up_is_logged_as_its_client_is_told() {
    let place = Place::new();
    let server = block_in_place(|| Server::start(&place, &["--slow-query", "0"]));
    let mut client = flight::connect(&server).await;
    let table = "CREATE TABLE t (k BIGINT PRIMARY KEY)".to_owned();
    client.execute_update(table, None).await.unwrap();
    client.set_header("lazybase-timeout", "300ms");
    let endless = "SELECT x FROM generate_series(1, 1000000000000) AS s (x) WHERE x % 7 = 8";
    let read = async {
        let info = client.execute(endless.to_owned(), None).await?;
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let mut rows = client.do_get(ticket).await?;
        while rows.try_next().await?.is_some() {}
        Ok::<_, FlightError>(())
    };
    read.await.unwrap_err();
    let line = server.line("\"SELECT x FROM");
    assert!(line.contains("sqlstate=\"57014\""), "{line}");
    // Whether anything of it is kept is not known where it may have come to its commit.
    let insert = format!("INSERT INTO t {endless}");
    client.execute_update(insert, None).await.unwrap_err();
    let line = server.line("\"INSERT INTO t");
    assert!(line.contains("sqlstate=\"40003\""), "{line}");
    block_in_place(|| server.stop());
}

/// Clients are told the same whatever was wrong; those who run the server are told what.
#[test]
fn why_a_password_was_refused_is_logged() {
    let place = Place::new();
    place.ok(&[
        "sql",
        "-c",
        "CREATE ROLE late LOGIN PASSWORD 'x' VALID UNTIL '2020-01-01 00:00:00+00';
         CREATE ROLE bare LOGIN; CREATE ROLE kept PASSWORD 'x';
         CREATE ROLE anna LOGIN PASSWORD 'y'",
    ]);
    let server = Server::start(&place, &[]);
    for (user, why) in [
        ("late", "the role's VALID UNTIL is over"),
        ("bare", "the role has no password"),
        ("kept", "the role has no LOGIN"),
        ("anna", "the password is not the role's"),
        ("nosuch", "there is no such role"),
    ] {
        let url = format!("postgresql://{user}:x@{}/lazybase", server.pg);
        let said = alone(&["sql", "--url", &url, "-c", "SELECT 1"]);
        let told = format!("password authentication failed for user \"{user}\"");
        assert!(!said.ok && said.err.contains(&told), "{}", said.err);
        assert!(!said.err.contains(why), "{}", said.err);
        let line = server.line(why);
        assert!(
            line.contains(user) && line.contains("peer=127.0.0.1:"),
            "{line}"
        );
    }
    server.stop();
}

#[test]
fn json_lines_tell_connections_statements_and_attempts() {
    let place = Place::new();
    let args = ["--log-format", "json", "--log-level", "debug"];
    let server = Server::start(&place, &args);
    server.rows("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1); SETTLE");
    let failed = server.sql(&["-c", "SELECT * FROM absent"]);
    assert!(!failed.ok);
    let said = server.stop();
    let events = events(&said);
    let find = |message: &str| {
        let found = events.iter().find(|event| event["message"] == message);
        found.unwrap_or_else(|| panic!("{message}: {said:?}"))
    };
    assert_eq!(find("connection opened")["level"], "DEBUG");
    assert_eq!(find("statement")["sqlstate"], "00000");
    assert_eq!(find("error")["protocol"], "postgresql");
    let attempts = events
        .iter()
        .filter(|event| event["message"] == "attempt ended");
    let stages: Vec<&str> = attempts
        .filter_map(|event| event["stage"].as_str())
        .collect();
    assert!(stages.contains(&"sort"), "{said:?}");
    assert!(find("ready; Ctrl-C stops")["timestamp"].is_string());
}

#[test]
fn json_lines_say_what_is_served_at_every_level() {
    for level in ["warn", "off"] {
        let place = Place::new();
        let args = ["--log-format", "json", "--log-level", level];
        let server = Server::start(&place, &args);
        let said = server.stop();
        for words in [
            "serving",
            "PostgreSQL clients",
            "HTTP: ",
            "stopping",
            "stopped",
        ] {
            let says = |event: &serde_json::Value| {
                let message = event["message"].as_str();
                message.is_some_and(|message| message.contains(words))
            };
            assert!(events(&said).iter().any(says), "{level}, {words}: {said:?}");
        }
    }
}

#[test]
fn an_idle_server_says_nothing_more() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let before = server.said().len();
    server.rows("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1); SETTLE");
    // stopping, stopped
    assert_eq!(server.stop().len(), before + 2);
}
