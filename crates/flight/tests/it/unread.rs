//! Clients that leave answers unread: what their statements hold is free once these are given up,
//! though nobody polls them any more; and whoever is only slow gets all of its rows.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::EndTransaction;
use arrow_flight::utils::flight_data_to_batches;
use arrow_flight::{Action, FlightInfo};
use bytes::Bytes;
use futures::TryStreamExt;
use lazybase_flight::Options;
use lazybase_query::OpenOptions;
use tonic::transport::Endpoint;
use tonic::{Code, Request};

use crate::queries::{LONG, MANY, RUNNING, cancel};
use crate::served::{COUNT, Client, Served, failure, fetch, query, sqlstate, text, ticket, until};

/// So much of an answer lies between a server and a client that does not read.
const WINDOW_BYTES: u32 = 16 << 10;

/// Longer than a statement takes until its first rows are there.
const LIMIT: &str = "3s";

impl Served {
    /// A client with a session, for which little is sent ahead.
    async fn narrow(&self) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let endpoint = endpoint.initial_stream_window_size(WINDOW_BYTES);
        let mut client = Client::new(endpoint.connect().await.unwrap());
        client.handshake("somebody", "").await.unwrap();
        client
    }

    /// Waits until no statement runs, or holds anything.
    async fn until_free(&self) {
        self.until_nothing_is_held().await;
        until(self, RUNNING, "0").await;
        let heavy = (self.database.heavy_running(), self.database.heavy_waiting());
        assert_eq!(heavy, (0, 0));
    }
}

/// The answer of a statement, of which the first rows were taken.
async fn begun(
    client: &mut Client,
    sql: &str,
    transaction: Option<Bytes>,
) -> (FlightInfo, FlightRecordBatchStream) {
    let info = client.execute(sql.to_owned(), transaction).await.unwrap();
    let mut rows = client.do_get(ticket(&info)).await.unwrap();
    let first = rows.try_next().await.unwrap().unwrap();
    assert!(first.num_rows() > 0);
    (info, rows)
}

/// How an answer ends that is read at last: its code and SQLSTATE.
async fn end_of(mut rows: FlightRecordBatchStream) -> (Code, String) {
    let reading = async {
        while rows.try_next().await?.is_some() {}
        Ok::<(), FlightError>(())
    };
    let over = tokio::time::timeout(Duration::from_secs(30), reading).await;
    let (code, sqlstate, _) = failure(over.expect("the answer goes on"));
    (code, sqlstate)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_limit_frees_what_nobody_reads() {
    let served = Served::start().await;
    served.sql(MANY).await;
    let mut client = served.narrow().await;
    client.set_header("lazybase-timeout", LIMIT);
    let (info, rows) = begun(&mut client, LONG, None).await;
    assert_eq!(served.database.heavy_running(), 1);
    served.until_free().await;
    assert_eq!(cancel(&mut client, info).await, 3, "nothing is left of it");
    let timed_out = (Code::DeadlineExceeded, "57014".to_owned());
    assert_eq!(end_of(rows).await, timed_out);
    assert_eq!(text(&mut client, "SELECT 1").await, "1");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_ends_an_unread_answer_frees_what_it_holds() {
    let served = Served::start().await;
    served.sql(MANY).await;
    let mut other = served.client().await;
    for (way, expected) in [
        ("CancelFlightInfo", "57014"),
        ("CloseSession", "57014"),
        ("pg_cancel_backend", "57014"),
        ("pg_terminate_backend", "57P01"),
    ] {
        let mut client = served.narrow().await;
        query(&mut client, "SET application_name = 'slow'")
            .await
            .unwrap();
        let (info, rows) = begun(&mut client, LONG, None).await;
        match way {
            "CancelFlightInfo" => assert_eq!(cancel(&mut other, info).await, 1),
            "CloseSession" => {
                let bearer = format!("Bearer {}", client.token().unwrap());
                let mut request = Request::new(Action::new(way, Vec::new()));
                let metadata = request.metadata_mut();
                metadata.insert("authorization", bearer.parse().unwrap());
                other.inner_mut().do_action(request).await.unwrap();
            }
            function => {
                let of = "FROM pg_stat_activity WHERE application_name = 'slow'";
                let end = format!("SELECT {function}(pid) {of}");
                assert_eq!(served.read(&end).await, "true");
            }
        }
        served.until_free().await;
        let cancelled = (Code::Cancelled, expected.to_owned());
        assert_eq!(end_of(rows).await, cancelled, "{way}");
        // For the next one to be the only one of its name.
        drop(query(&mut client, "SET application_name = 'over'").await);
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_frees_what_nobody_reads() {
    let mut served = Served::start_with(Options {
        grace: Duration::from_millis(200),
        ..Options::default()
    })
    .await;
    served.sql(MANY).await;
    let mut client = served.narrow().await;
    let (_, rows) = begun(&mut client, LONG, None).await;
    served.tell_to_stop();
    served.until_free().await;
    assert_eq!(end_of(rows).await.1, "57P01");
    served.stop().await;
}

/// What is sorted is read from temporary files, for as long as somebody may read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_sort_that_nobody_reads_go() {
    let alone = "SET datafusion.execution.target_partitions = 1";
    let mut open = OpenOptions::default();
    open.settings.query_memory = 32 << 20;
    let served = Served::start_over(open, Options::default()).await;
    served
        .sql(&format!(
            "{alone};
             CREATE TABLE big (k INT PRIMARY KEY, v TEXT);
             INSERT INTO big SELECT x, concat(repeat('v', 90), CAST(x AS TEXT))
             FROM generate_series(1, 200000) AS s (x);
             INSERT INTO big SELECT k + 200000, concat(v, 'more') FROM big"
        ))
        .await;
    let (mut client, mut other) = (served.narrow().await, served.client().await);
    query(&mut client, alone).await.unwrap();
    let (info, rows) = begun(&mut client, "SELECT k, v FROM big ORDER BY v", None).await;
    served.until_spilt().await;
    assert_eq!(cancel(&mut other, info).await, 1);
    served.until_free().await;
    assert_eq!(end_of(rows).await.1, "57014");
    served.stop().await;
}

/// A statement that is given up fails its transaction, which is idle from then on, and ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_does_not_wait_for_who_does_not_read() {
    let served = Served::start_with(Options {
        idle: Duration::from_millis(1500),
        ..Options::default()
    })
    .await;
    served.sql(MANY).await;

    let mut client = served.narrow().await;
    client.set_header("lazybase-timeout", LIMIT);
    let transaction = client.begin_transaction().await.unwrap();
    let insert = "INSERT INTO t VALUES (0)".to_owned();
    let inserted = client.execute_update(insert, Some(transaction.clone()));
    assert_eq!(inserted.await.unwrap(), 1);
    let (_, rows) = begun(&mut client, LONG, Some(transaction.clone())).await;
    until(&served, RUNNING, "0").await;
    let commit = EndTransaction::Commit;
    let ended = client.end_transaction(transaction, commit).await;
    assert_eq!(sqlstate(ended), "25P02");
    served.until_free().await;
    assert_eq!(end_of(rows).await.1, "57014");
    assert_eq!(served.read("SELECT min(k) FROM t").await, "1");
    drop(client);

    // Nobody ends this one.
    let mut client = served.narrow().await;
    client.set_header("lazybase-timeout", LIMIT);
    let transaction = client.begin_transaction().await.unwrap();
    let (_, rows) = begun(&mut client, LONG, Some(transaction)).await;
    served.until_free().await;
    until(&served, COUNT, "0").await;
    assert_eq!(end_of(rows).await.1, "57014");
    served.stop().await;
}

/// Rows of the table of the slow readers.
const ROWS: usize = 5_000;

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// A server with a table of 15 MB.
async fn with_rows() -> Served {
    let served = Served::start().await;
    served
        .sql(&format!(
            "CREATE TABLE wide (k INT PRIMARY KEY, v TEXT);
             INSERT INTO wide SELECT x, repeat(chr(97 + x % 26), 3000)
             FROM generate_series(1, {ROWS}) AS s (x)"
        ))
        .await;
    served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_gets_all_of_its_rows() {
    let served = with_rows().await;
    let mut client = served.narrow().await;
    let info = client.execute("SELECT * FROM wide".to_owned(), None);
    let info = info.await.unwrap();
    let answer = client.inner_mut().do_get(ticket(&info)).await.unwrap();
    let mut messages = answer.into_inner();
    let mut data = Vec::new();
    while let Some(message) = messages.message().await.unwrap() {
        data.push(message);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(count(&flight_data_to_batches(&data).unwrap()), ROWS);
    let trailers = messages.trailers().await.unwrap().unwrap();
    let told = trailers.get("lazybase-answer").unwrap().to_str().unwrap();
    let told: serde_json::Value = serde_json::from_str(told).unwrap();
    assert_eq!(told["rows"], ROWS);
    served.until_free().await;
    served.stop().await;
}

/// Whatever a cancel meets: a statement that waits, begins, is being polled, rests, or is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_at_any_moment_leaves_all_rows_or_an_error() {
    let served = with_rows().await;
    let (mut client, mut other) = (served.narrow().await, served.client().await);
    let all = "SELECT * FROM wide WHERE k <= 500";
    for at in 0..60 {
        let info = client.execute(all.to_owned(), None).await.unwrap();
        let told = info.clone();
        let cancelling = async {
            tokio::time::sleep(Duration::from_micros(at % 20 * 500)).await;
            cancel(&mut other, told).await
        };
        let (fetched, cancelled) = tokio::join!(fetch(&mut client, &info), cancelling);
        match fetched {
            Ok(got) => assert_eq!(count(&got.rows), 500),
            Err(error) => {
                let told = sqlstate(Err::<(), _>(error));
                assert!(["57014", "26000"].contains(&told.as_str()), "{told}");
                assert_eq!(cancelled, 1);
            }
        }
    }
    served.until_free().await;
    served.stop().await;
}
