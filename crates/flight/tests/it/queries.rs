//! Queries: columns before they run, rows as they are made, the stamp, cancelling.

use std::time::Duration;

use arrow::datatypes::DataType;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, FlightDescriptor};
use futures::TryStreamExt;
use prost::Message;
use tonic::{Code, Request};

use crate::served::{
    Client, Served, failure, fetch, fetch_raw, number, query, refused, sqlstate, text, ticket,
    until,
};

#[tokio::test]
async fn a_query_tells_its_columns_and_its_stamp() {
    let served = Served::start().await;
    served
        .sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT); \
              INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        )
        .await;
    let mut client = served.client().await;
    let info = client
        .execute("SELECT k, v FROM t ORDER BY k".to_owned(), None)
        .await
        .unwrap();
    let schema = info.clone().try_decode_schema().unwrap();
    assert_eq!(schema.field(0).name(), "k");
    assert_eq!(*schema.field(0).data_type(), DataType::Int64);
    assert!(info.ordered);

    let got = fetch_raw(&mut client, &info).await.unwrap();
    assert_eq!(got.text(), "1 a; 2 b");
    let answer = got.answer();
    assert_eq!(answer["tag"], "SELECT 2");
    assert_eq!(answer["rows"], 2);
    assert_eq!(answer["stamp"]["batches_left_out"], 0);
    assert_eq!(answer, got.last, "the last message tells the same");
    let seen = answer["seen"].as_str().unwrap();
    assert_eq!(
        text(
            &mut client,
            &format!("SELECT count(*) FROM t AFTER '{seen}'")
        )
        .await,
        "2"
    );

    // A ticket is good for one answer.
    assert_eq!(sqlstate(fetch(&mut client, &info).await), "26000");
    served.stop().await;
}

#[tokio::test]
async fn what_gives_no_rows_is_done_with_its_description() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let made = client
        .execute("CREATE TABLE t (k INT PRIMARY KEY)".to_owned(), None)
        .await
        .unwrap();
    // It is there before anything is fetched.
    let written = client
        .execute("INSERT INTO t VALUES (1), (2)".to_owned(), None)
        .await
        .unwrap();
    assert_eq!(served.read("SELECT count(*) FROM t").await, "2");
    let told: serde_json::Value = serde_json::from_slice(&written.app_metadata).unwrap();
    assert_eq!(told["tag"], "INSERT 0 2");
    assert!(told["token"].as_str().unwrap().starts_with("lb1-"));
    for info in [made, written] {
        let got = fetch_raw(&mut client, &info).await.unwrap();
        assert_eq!(got.rows.len(), 0);
    }
    assert_eq!(served.read("SELECT count(*) FROM t").await, "2");
    assert_eq!(
        client
            .execute_update("DELETE FROM t WHERE k = 1".to_owned(), None)
            .await
            .unwrap(),
        1
    );
    served.stop().await;
}

#[tokio::test]
async fn an_insert_that_tells_its_rows_is_run_when_they_are_fetched() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT DEFAULT 'new')")
        .await;
    let mut client = served.client().await;
    let insert = "INSERT INTO t (k) VALUES (1), (2) RETURNING k, v";
    let info = client.execute(insert.to_owned(), None).await.unwrap();
    let schema = info.clone().try_decode_schema().unwrap();
    assert_eq!(schema.field(1).name(), "v");
    assert_eq!(served.read("SELECT count(*) FROM t").await, "0");
    let got = fetch_raw(&mut client, &info).await.unwrap();
    assert_eq!(got.text(), "1 new; 2 new");
    assert_eq!(got.answer()["tag"], "INSERT 0 2");
    assert_eq!(served.read("SELECT count(*) FROM t").await, "2");
    // As an update it writes the same, and its rows are nobody's.
    let insert = "INSERT INTO t (k) VALUES (3) RETURNING k";
    let updated = client.execute_update(insert.to_owned(), None).await;
    assert_eq!(updated.unwrap(), 1);
    assert_eq!(served.read("SELECT count(*) FROM t").await, "3");
    served.stop().await;
}

#[tokio::test]
async fn changes_that_tell_their_rows_are_run_when_they_are_fetched() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'a')")
        .await;
    let mut client = served.client().await;
    let held = "SELECT coalesce(max(v), 'none') FROM t";
    for (sql, before, told, tag, after) in [
        (
            "UPDATE t SET v = 'b' WHERE k = 1 RETURNING v, k + 1",
            "a",
            "b 2",
            "UPDATE 1",
            "b",
        ),
        (
            "DELETE FROM t WHERE k = 1 RETURNING v, k",
            "b",
            "b 1",
            "DELETE 1",
            "none",
        ),
    ] {
        let info = client.execute(sql.to_owned(), None).await.unwrap();
        let schema = info.clone().try_decode_schema().unwrap();
        assert_eq!(schema.field(0).name(), "v");
        assert_eq!(served.read(held).await, before, "{sql}");
        let got = fetch_raw(&mut client, &info).await.unwrap();
        assert_eq!(got.text(), told, "{sql}");
        assert_eq!(got.answer()["tag"], tag);
        assert_eq!(served.read(held).await, after, "{sql}");
    }
    served.stop().await;
}

/// Rows that can't be told as they were described are not written.
#[tokio::test]
async fn an_insert_whose_columns_changed_writes_nothing() {
    let served = Served::start().await;
    served.sql("CREATE TABLE t (k BIGINT)").await;
    let mut client = served.client().await;
    let insert = "INSERT INTO t (k) VALUES (1) RETURNING *";
    let info = client.execute(insert.to_owned(), None).await.unwrap();
    served.sql("ALTER TABLE t ADD COLUMN n INT").await;
    assert_eq!(sqlstate(fetch(&mut client, &info).await), "0A000");
    assert_eq!(served.read("SELECT count(*) FROM t").await, "0");
    served.stop().await;
}

#[tokio::test]
async fn the_schema_alone_runs_nothing() {
    let served = Served::start().await;
    served.sql("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let mut client = served.client().await;
    for (sql, columns) in [
        ("SELECT k, k + 1 AS n FROM t", 2),
        ("INSERT INTO t VALUES (1)", 0),
        ("INSERT INTO t VALUES (1) RETURNING k, k + 1", 2),
    ] {
        let command = CommandStatementQuery {
            query: sql.to_owned(),
            transaction_id: None,
        };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let schema = client.inner_mut().get_schema(descriptor).await.unwrap();
        let schema = arrow::datatypes::Schema::try_from(schema.into_inner()).unwrap();
        assert_eq!(schema.fields().len(), columns, "{sql}");
    }
    assert_eq!(served.read("SELECT count(*) FROM t").await, "0");
    served.stop().await;
}

#[tokio::test]
async fn errors_have_a_code_an_sqlstate_and_a_hint() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let (code, sqlstate, message) = failure(query(&mut client, "SELECT * FROM nothing").await);
    assert_eq!((code, sqlstate.as_str()), (Code::NotFound, "42P01"));
    assert!(message.starts_with("[42P01] "), "{message}");
    assert!(message.ends_with(" (line 1, column 15)"), "{message}");
    let (code, sqlstate, _) = failure(query(&mut client, "SELEC 1").await);
    assert_eq!((code, sqlstate.as_str()), (Code::InvalidArgument, "42601"));
    let (code, sqlstate, _) = failure(query(&mut client, "SELECT 1; SELECT 2").await);
    assert_eq!((code, sqlstate.as_str()), (Code::InvalidArgument, "42601"));
    let (code, sqlstate, _) = failure(query(&mut client, "SELECT 1 / 0").await);
    assert_eq!((code, sqlstate.as_str()), (Code::InvalidArgument, "22012"));
    client
        .execute_update("CREATE TABLE t (k INT PRIMARY KEY)".to_owned(), None)
        .await
        .unwrap();
    let again = client
        .execute_update("CREATE TABLE t (k INT PRIMARY KEY)".to_owned(), None)
        .await;
    let (code, sqlstate, message) = failure(again);
    assert_eq!((code, sqlstate.as_str()), (Code::AlreadyExists, "42P07"));
    assert!(message.contains("hint:"), "{message}");
    served.stop().await;
}

/// A table whose rows are many, with itself three times.
pub(crate) const MANY: &str = "CREATE TABLE t (k BIGINT PRIMARY KEY); \
                    INSERT INTO t SELECT value FROM generate_series(1, 3000) AS g (value)";
pub(crate) const RUNNING: &str = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'";
pub(crate) const LONG: &str =
    "SELECT a.k AS a, b.k AS b, c.k AS c FROM t a CROSS JOIN t b CROSS JOIN t c";

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_as_they_are_made_and_a_client_that_leaves_frees_them() {
    let served = Served::start().await;
    served.sql(MANY).await;
    let mut client = served.client().await;
    // 27 thousand million rows: nobody waits for all of them.
    let info = client.execute(LONG.to_owned(), None).await.unwrap();
    let mut rows = client.do_get(ticket(&info)).await.unwrap();
    let first = rows.try_next().await.unwrap().unwrap();
    assert!(first.num_rows() > 0);
    let pins = served.database.instance().pins().into_iter();
    let held = pins.filter(|held| held.pin.owner == "Arrow Flight");
    assert_eq!(held.count(), 1);
    drop(rows);
    served.until_nothing_is_held().await;
    served.stop().await;
}

/// Cancels the statement of an answer; what came of it.
pub(crate) async fn cancel(client: &mut Client, info: arrow_flight::FlightInfo) -> i32 {
    let request = CancelFlightInfoRequest { info: Some(info) };
    let action = Action::new("CancelFlightInfo", request.encode_to_vec());
    let mut results = client
        .inner_mut()
        .do_action(action)
        .await
        .unwrap()
        .into_inner();
    let result = results.message().await.unwrap().unwrap();
    CancelFlightInfoResult::decode(result.body).unwrap().status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_cancelled() {
    let served = Served::start().await;
    served.sql(MANY).await;
    let mut client = served.client().await;
    let mut other = served.client().await;
    let sql = format!("SELECT sum(a * b % c) AS s FROM ({LONG})");
    let info = client.execute(sql.clone(), None).await.unwrap();
    let told = info.clone();
    let cancelling = async {
        until(&served, RUNNING, "1").await;
        cancel(&mut other, told).await
    };
    let (fetched, cancelled) = tokio::join!(fetch_raw(&mut client, &info), cancelling);
    let (code, sqlstate, _) = refused(fetched.err().unwrap());
    assert_eq!((code, sqlstate.as_str()), (Code::Cancelled, "57014"));
    assert_eq!(cancelled, 1);
    assert_eq!(
        cancel(&mut client, info).await,
        3,
        "there is nothing left to cancel"
    );
    served.until_nothing_is_held().await;

    // One that has not begun never does.
    let info = client.execute(sql.clone(), None).await.unwrap();
    assert_eq!(cancel(&mut client, info.clone()).await, 1);
    assert_eq!(
        crate::served::sqlstate(fetch(&mut client, &info).await),
        "26000"
    );

    client.set_header("lazybase-timeout", "200ms");
    let (code, sqlstate, _) = failure(query(&mut client, &sql).await);
    assert_eq!((code, sqlstate.as_str()), (Code::DeadlineExceeded, "57014"));
    served.until_nothing_is_held().await;
    served.stop().await;
}

#[tokio::test]
async fn many_clients_at_a_time_get_their_own_answers() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        .await;
    let channel = served.channel().await;
    let works = (0..16_i64).map(|at| {
        let channel = channel.clone();
        tokio::spawn(async move {
            let mut client = Client::new(channel);
            for round in 0..10 {
                let k = at * 100 + round;
                let sql = format!("INSERT INTO t VALUES ({k}, 'v{k}')");
                client.execute_update(sql, None).await.unwrap();
                let sql = format!("SELECT v FROM t WHERE k = {k}");
                assert_eq!(text(&mut client, &sql).await, format!("v{k}"));
            }
        })
    });
    futures::future::try_join_all(works).await.unwrap();
    let mut client = served.client().await;
    assert_eq!(
        number(&query(&mut client, "SELECT count(*) FROM t").await.unwrap()),
        160
    );
    served.stop().await;
}

#[tokio::test]
async fn freshness_and_token_come_as_headers() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k INT PRIMARY KEY); SETTLE; INSERT INTO t VALUES (1)")
        .await;
    let mut client = served.client().await;
    client.set_header("lazybase-freshness", "best effort");
    let info = client
        .execute("SELECT count(*) FROM t".to_owned(), None)
        .await
        .unwrap();
    let got = fetch_raw(&mut client, &info).await.unwrap();
    assert_eq!(got.answer()["stamp"]["freshness_asked"], "best effort");
    let update = client.execute_update("INSERT INTO t VALUES (2)".to_owned(), None);
    assert_eq!(update.await.unwrap(), 1);

    // The token is in the response's metadata; with it, a stale reader sees the write.
    let command = arrow_flight::sql::CommandStatementUpdate {
        query: "INSERT INTO t VALUES (3)".to_owned(),
        transaction_id: None,
    };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let message = arrow_flight::FlightData {
        flight_descriptor: Some(descriptor),
        ..Default::default()
    };
    let request = Request::new(futures::stream::iter([message]));
    let response = client.inner_mut().do_put(request).await.unwrap();
    let token = response.metadata().get("lazybase-token").unwrap();
    let token = token.to_str().unwrap().to_owned();
    client.set_header("lazybase-after", token);
    assert_eq!(text(&mut client, "SELECT count(*) FROM t").await, "3");

    client.set_header("lazybase-freshness", "yesterday");
    let (code, sqlstate, message) = failure(query(&mut client, "SELECT 1").await);
    assert_eq!((code, sqlstate.as_str()), (Code::InvalidArgument, "22023"));
    assert!(message.contains("lazybase-freshness"), "{message}");

    // One that is written wrong would otherwise say nothing, and nobody would know.
    let mut client = served.client().await;
    client.set_header("lazybase-batch-numer", "7");
    let (code, sqlstate, message) = failure(query(&mut client, "SELECT 1").await);
    assert_eq!((code, sqlstate.as_str()), (Code::InvalidArgument, "42704"));
    assert!(
        message.contains("perhaps lazybase-batch-number"),
        "{message}"
    );
    served.stop().await;
}

#[tokio::test]
async fn a_bound_that_is_missed_is_refused_or_answered_as_the_call_says() {
    let served = Served::start().await;
    served
        .sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY); INSERT INTO t VALUES (1); SETTLE; \
             PAUSE STAGE SORT; INSERT INTO t VALUES (2)",
        )
        .await;
    let count = "SELECT count(*) FROM t";
    let mut client = served.client().await;
    for (choice, expected) in [("dig", 2), ("wait 50 ms", 2), ("stale", 1)] {
        client.set_header("lazybase-on-miss", choice);
        let got = query(&mut client, count).await.unwrap();
        assert_eq!(number(&got), expected, "{choice}");
        let left_out = got.last["stamp"]["batches_left_out"].as_i64();
        assert_eq!(left_out, Some(2 - expected), "{choice}");
    }
    client.set_header("lazybase-on-miss", "error");
    let (code, sqlstate, message) = failure(query(&mut client, count).await);
    assert_eq!(
        (code, sqlstate.as_str()),
        (Code::ResourceExhausted, "53L01")
    );
    assert!(
        message.contains("sorted data does not meet FRESHNESS 0"),
        "{message}"
    );
    // A clause counts before the header, and a bound that is met is not missed.
    let stale = format!("{count} FRESHNESS 0 ON MISS STALE");
    assert_eq!(text(&mut client, &stale).await, "1");
    client.set_header("lazybase-freshness", "1 h");
    assert_eq!(text(&mut client, count).await, "1");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_stops_with_what_runs() {
    let mut served = Served::start_with(lazybase_flight::Options {
        grace: Duration::from_millis(200),
        ..lazybase_flight::Options::default()
    })
    .await;
    served.sql(MANY).await;
    let mut client = served.client().await;
    let sql = format!("SELECT sum(a * b % c) AS s FROM ({LONG})");
    let info = client.execute(sql, None).await.unwrap();
    let fetching = tokio::spawn(async move { fetch(&mut client, &info).await.map(|_| ()) });
    until(&served, RUNNING, "1").await;
    served.tell_to_stop();
    match fetching.await.unwrap() {
        Err(FlightError::Tonic(status)) => {
            assert_eq!(refused(*status).1, "57P01");
        }
        other => panic!("{other:?}"),
    }
    served.stop().await;
}
