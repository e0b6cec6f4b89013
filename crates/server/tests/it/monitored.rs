//! Health and metrics of the real binary, over HTTP.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use lazybase_engine::fuzz::corpus;

use crate::prometheus::{Family, parse};
use crate::run::Place;
use crate::server::{PATIENCE, Server};

pub(crate) type Metrics = BTreeMap<String, Family>;

pub(crate) fn metrics(server: &Server) -> Metrics {
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200, "{text}");
    parse(&text)
}

/// The sum of a metric's series that have these labels.
pub(crate) fn sum(metrics: &Metrics, name: &str, labels: &[(&str, &str)]) -> f64 {
    sum_if_there(metrics, name, labels).unwrap_or_else(|| panic!("{name} is not there"))
}

fn sum_if_there(metrics: &Metrics, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let base = name.strip_suffix("_count").unwrap_or(name);
    let family = metrics.get(base)?;
    let has = |series: &BTreeMap<String, String>| {
        let same = |(label, value): &(&str, &str)| series.get(*label).is_some_and(|v| v == value);
        labels.iter().all(same)
    };
    let samples = family.samples.iter().filter(|sample| sample.name == name);
    let values = samples.filter(|sample| has(&sample.labels));
    Some(values.map(|sample| sample.value).sum())
}

#[test]
fn health_and_readiness_are_told() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    assert_eq!(server.get("/health"), (200, "alive\n".to_owned()));
    assert_eq!(server.get("/ready"), (200, "ready\n".to_owned()));
    let (status, text) = server.get("/healthz");
    assert!(status == 404 && text.contains("/ lists"), "{text}");
    assert!(server.get("/").1.contains("/metrics"));
}

#[test]
fn who_says_nothing_or_nonsense_over_http_keeps_nobody_out() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let long = b"GET /health HTTP/1.1\r\nX: y\r\n".repeat(20_000);
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        &[0xff; 4096],
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        &long[..],
    ] {
        let mut stream = TcpStream::connect(&server.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // It may be closed before all is sent.
        drop(stream.write_all(bytes));
        drop(stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.contains(" 200 "), "{answer}");
        assert_eq!(server.get("/health").0, 200);
    }
    let half = || {
        let mut stream = TcpStream::connect(&server.http).unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nHost:").unwrap();
        stream
    };
    let mut halves: Vec<TcpStream> = (0..100).map(|_| half()).collect();
    assert_eq!(server.get("/health").0, 200);
    let last = halves.last_mut().unwrap();
    last.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    // Closed or reset, but not kept.
    if let Err(error) = last.read_to_end(&mut answer) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    assert_eq!(server.get("/ready").0, 200);
}

/// How long an answer is waited for whose request may not be whole.
const MOMENT: Duration = Duration::from_millis(50);

#[test]
fn no_bytes_of_a_request_end_the_server() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let address = server.http.clone();
    corpus::every("http", 20, |bytes| {
        let mut stream = TcpStream::connect(&address).unwrap();
        // It may be closed before all is sent.
        drop(stream.write_all(bytes));
        // Who sends no more gets no answer that takes time: whole requests have theirs before.
        stream.set_read_timeout(Some(MOMENT)).unwrap();
        let mut answer = Vec::new();
        if stream.read_to_end(&mut answer).is_ok() {
            return Ok(());
        }
        drop(stream.shutdown(Shutdown::Write));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        match stream.read_to_end(&mut answer) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                Err(format!("no end of the answer: {error}"))
            }
            _ => Ok(()),
        }
    });
    assert_eq!(server.get("/ready").0, 200);
    let said = server.stop();
    let panics = said.iter().find(|line| line.contains("panicked"));
    assert_eq!(panics, None);
}

#[test]
fn a_server_that_stops_is_not_ready() {
    let place = Place::new();
    let server = Server::start(&place, &["--grace", "60 s"]);
    let url = server.url();
    let long = "SELECT count(*) FROM generate_series(1, 100000000000) AS s (x) WHERE x % 7 = 3";
    std::thread::scope(|scope| {
        scope.spawn(|| crate::run::alone(&["sql", "--url", &url, "-c", long]));
        let until = Instant::now() + PATIENCE;
        // Once it runs, the statement holds the server up.
        let runs = "SELECT count(*) FROM pg_stat_activity
                    WHERE state = 'active' AND query LIKE '%generate_series%'";
        while !server.rows(runs).ends_with("\n1\n") {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(20));
        }
        server.signal("TERM");
        server.line("stopping: ");
        assert_eq!(server.get("/ready"), (503, "stopping\n".to_owned()));
        assert_eq!(server.get("/health").0, 200);
        server.signal("TERM");
        server.line("stopped: ");
    });
}

#[test]
fn metrics_are_well_formed_and_move_with_work() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let before = metrics(&server);
    server.rows(
        "CREATE TABLE t (k INT PRIMARY KEY, v TEXT);
         INSERT INTO t SELECT x, repeat('v', 50) FROM generate_series(1, 5000) AS s (x);
         SETTLE; SELECT count(*), max(v) FROM t; SELECT v FROM t WHERE k = 7;
         SELECT count(*) FROM t FRESHNESS 5; SELECT count(*) FROM t FRESHNESS 'best effort'",
    );
    assert!(!server.sql(&["-c", "SELECT * FROM absent"]).ok);
    let after = metrics(&server);
    let moved = |name: &str, labels: &[(&str, &str)]| {
        let old = sum_if_there(&before, name, labels).unwrap_or(0.0);
        sum(&after, name, labels) - old
    };
    let seconds = "lazybase_query_duration_seconds_count";
    for (kind, freshness) in [
        ("point", "0"),
        ("scan", "0"),
        ("scan", "bounded"),
        ("scan", "best_effort"),
        ("write", "none"),
        ("definition", "none"),
    ] {
        let labels = [("kind", kind), ("freshness", freshness)];
        assert!(moved(seconds, &labels) >= 1.0, "{kind} {freshness}");
    }
    assert_eq!(moved("lazybase_ingest_rows_total", &[]), 5000.0);
    assert_eq!(moved("lazybase_ingest_batches_total", &[]), 1.0);
    assert_eq!(
        moved("lazybase_ingest_commit_duration_seconds_count", &[]),
        1.0
    );
    assert!(moved("lazybase_query_rows_returned_total", &[]) >= 4.0);
    assert!(moved("lazybase_ingest_log_bytes_total", &[]) > 50.0 * 5000.0);
    for stage in ["sort", "authority"] {
        let of = [("stage", stage)];
        assert!(
            moved("lazybase_stage_attempts_total", &of) >= 1.0,
            "{stage}"
        );
        assert!(moved("lazybase_stage_seconds_total", &of) > 0.0, "{stage}");
        assert!(
            moved("lazybase_stage_written_rows_total", &of) >= 5000.0,
            "{stage}"
        );
    }
    assert_eq!(
        sum(&after, "lazybase_table_rows", &[("table", "t")]),
        5000.0
    );
    let lag = [("table", "t"), ("stage", "authority")];
    assert_eq!(sum(&after, "lazybase_table_lag_seconds", &lag), 0.0);
    assert!(moved("lazybase_errors_total", &[("class", "42")]) >= 1.0);
    assert!(
        moved(
            "lazybase_connections_opened_total",
            &[("protocol", "postgresql")]
        ) >= 2.0
    );
    assert_eq!(sum(&after, "lazybase_ready", &[]), 1.0);
    assert!(sum(&after, "lazybase_disk_bytes", &[]) > 0.0);
    assert!(sum(&after, "process_resident_memory_bytes", &[]) > 1e6);
    server.rows("DROP TABLE t");
    let gone = metrics(&server);
    assert!(
        !gone.contains_key("lazybase_table_rows"),
        "a table that is gone"
    );
}

#[test]
fn lag_shows_and_is_that_of_the_system_tables() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    server.rows(
        "PAUSE STAGE AUTHORITY; PAUSE STAGE MERGE; PAUSE STAGE SORT;
         CREATE TABLE t (k INT PRIMARY KEY); CREATE TABLE idle (k INT PRIMARY KEY);
         INSERT INTO t VALUES (1)",
    );
    let of = |table: &'static str, stage: &'static str| [("table", table), ("stage", stage)];
    let until = Instant::now() + PATIENCE;
    loop {
        let metrics = metrics(&server);
        if sum(&metrics, "lazybase_table_lag_seconds", &of("t", "sorted")) > 0.5 {
            let waiting = sum(
                &metrics,
                "lazybase_stage_waiting_scus",
                &[("stage", "sort")],
            );
            assert!(waiting >= 1.0, "{waiting}");
            let paused = sum(&metrics, "lazybase_stage_paused", &[("stage", "sort")]);
            assert_eq!(paused, 1.0);
            let idle = sum(
                &metrics,
                "lazybase_table_lag_seconds",
                &of("idle", "sorted"),
            );
            assert_eq!(idle, 0.0);
            break;
        }
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = server.rows(
        "SELECT table_name FROM lazybase.table_lag WHERE seconds_behind > 0.5 AND stage = 'sorted'",
    );
    assert_eq!(told, "table_name\nt\n");
    server.rows("RESUME STAGE SORT; RESUME STAGE MERGE; RESUME STAGE AUTHORITY; SETTLE");
    let metrics = metrics(&server);
    assert_eq!(sum(&metrics, "lazybase_table_lag_seconds", &[]), 0.0);
}
