//! Sessions: by cookie, by bearer token, or none; transactions; options; how they end.

use std::collections::HashMap;
use std::time::Duration;

use arrow_flight::Action;
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionEndSavepointRequest, Any,
    EndTransaction, ProstMessageExt,
};
use bytes::Bytes;
use lazybase_flight::Options;
use prost::Message;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Endpoint;
use tonic::{Code, Request};

use crate::served::{
    COUNT, Client, Served, failure, fetch, ingest, ingest_into, number, pairs, query, refused,
    sqlstate, text, until,
};

/// Runs a query as a client that keeps cookies: gives back those that it is told.
async fn with_cookie(client: &mut Client, cookie: &mut Option<String>, sql: &str) -> String {
    if let Some(cookie) = cookie {
        client.set_header("cookie", format!("theirs=1; {cookie}"));
    }
    let command = arrow_flight::sql::CommandStatementQuery {
        query: sql.to_owned(),
        transaction_id: None,
    };
    let descriptor = arrow_flight::FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let mut request = Request::new(descriptor);
    if let Some(cookie) = cookie {
        request
            .metadata_mut()
            .insert("cookie", cookie.parse().unwrap());
    }
    let response = client.inner_mut().get_flight_info(request).await.unwrap();
    if let Some(told) = told(response.metadata()) {
        *cookie = Some(told);
    }
    let info = response.into_inner();
    if let Some(cookie) = cookie {
        client.set_header("cookie", cookie.clone());
    }
    fetch(client, &info).await.unwrap().text()
}

fn told(metadata: &MetadataMap) -> Option<String> {
    let cookie = metadata.get("set-cookie")?.to_str().unwrap();
    Some(cookie.split(';').next().unwrap().to_owned())
}

#[tokio::test]
async fn a_cookie_names_a_session() {
    let served = Served::start().await;
    served.sql("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let mut client = served.client().await;
    let mut cookie = None;
    with_cookie(&mut client, &mut cookie, "SELECT 1").await;
    assert!(
        cookie.as_ref().unwrap().starts_with("lazybase-session=f"),
        "{cookie:?}"
    );
    with_cookie(&mut client, &mut cookie, "SET lazybase.freshness = '30 s'").await;
    assert!(
        cookie.as_ref().unwrap().starts_with("lazybase-session=k"),
        "{cookie:?}"
    );
    let shown = with_cookie(&mut client, &mut cookie, "SHOW lazybase.freshness").await;
    assert_eq!(shown, "30s");
    // A header counts for its call alone.
    client.set_header("lazybase-freshness", "5 s");
    assert_eq!(text(&mut client, "SHOW lazybase.freshness").await, "5s");
    client.set_header("lazybase-freshness", "30 s");
    with_cookie(&mut client, &mut cookie, "INSERT INTO t VALUES (1)").await;
    // It reads its own writes, at whatever freshness.
    with_cookie(
        &mut client,
        &mut cookie,
        "SET lazybase.freshness = 'best effort'",
    )
    .await;
    assert_eq!(
        with_cookie(&mut client, &mut cookie, "SELECT count(*) FROM t").await,
        "1"
    );
    // BEGIN and COMMIT in SQL, too.
    for sql in [
        "BEGIN",
        "INSERT INTO t VALUES (2)",
        "INSERT INTO t VALUES (3)",
    ] {
        with_cookie(&mut client, &mut cookie, sql).await;
    }
    assert_eq!(served.read("SELECT count(*) FROM t").await, "1");
    with_cookie(&mut client, &mut cookie, "COMMIT").await;
    assert_eq!(served.read("SELECT count(*) FROM t").await, "3");
    served.stop().await;
}

#[tokio::test]
async fn a_fresh_cookie_carries_what_its_client_has_seen() {
    let served = Served::start().await;
    served.sql("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let mut client = served.client().await;
    let mut cookie = None;
    // The write is the first call: nothing of its session is kept but in the cookie.
    with_cookie(&mut client, &mut cookie, "INSERT INTO t VALUES (1)").await;
    let sql = "SELECT count(*) FROM t FRESHNESS 'best effort'";
    assert_eq!(with_cookie(&mut client, &mut cookie, sql).await, "1");
    served.stop().await;
}

#[tokio::test]
async fn without_a_session_nothing_is_set_that_would_be_lost() {
    let served = Served::start().await;
    let mut client = served.client().await;
    for sql in [
        "SET lazybase.freshness = '5 s'",
        "BEGIN",
        "/* so */ rollback",
    ] {
        let (code, sqlstate, message) = failure(query(&mut client, sql).await);
        assert_eq!(
            (code, sqlstate.as_str()),
            (Code::FailedPrecondition, "55000"),
            "{sql}"
        );
        assert!(message.contains("cookie"), "{message}");
        let update = client.execute_update(sql.to_owned(), None).await;
        assert_eq!(crate::served::sqlstate(update), "55000", "{sql}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_handshake_gives_a_session() {
    let served = Served::start().await;
    let mut client = served.named().await;
    query(&mut client, "SET lazybase.freshness = '7 s'")
        .await
        .unwrap();
    assert_eq!(text(&mut client, "SHOW lazybase.freshness").await, "7s");
    let mut other = served.named().await;
    assert_eq!(text(&mut other, "SHOW lazybase.freshness").await, "0");
    for wrong in [
        "nonsense",
        "k123",
        "kzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
        "f",
        "k",
    ] {
        client.set_token(wrong.to_owned());
        let (code, sqlstate, _) = failure(query(&mut client, "SELECT 1").await);
        assert_eq!(
            (code, sqlstate.as_str()),
            (Code::Unauthenticated, "28000"),
            "{wrong}"
        );
    }
    client.set_token(format!("k{}", "0".repeat(32)));
    let (code, sqlstate, _) = failure(query(&mut client, "SELECT 1").await);
    assert_eq!((code, sqlstate.as_str()), (Code::Unauthenticated, "08003"));
    served.stop().await;
}

#[tokio::test]
async fn what_nobody_uses_ends() {
    let served = Served::start_with(Options {
        idle: Duration::from_millis(1500),
        ..Options::default()
    })
    .await;
    served.sql("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let mut client = served.named().await;
    let transaction = client.begin_transaction().await.unwrap();
    let sql = "INSERT INTO t VALUES (1)".to_owned();
    client
        .execute_update(sql, Some(transaction.clone()))
        .await
        .unwrap();
    let mut prepared = client.prepare("SELECT 1".to_owned(), None).await.unwrap();
    let info = client.execute("SELECT 2".to_owned(), None).await.unwrap();
    // First what the session is held by, then the session.
    until(&served, COUNT, "0").await;
    let (code, sqlstate, _) = failure(query(&mut client, "SELECT 1").await);
    assert_eq!((code, sqlstate.as_str()), (Code::Unauthenticated, "08003"));
    client.clear_token();
    let mut client = served.client().await;
    let ended = client
        .end_transaction(transaction, EndTransaction::Commit)
        .await;
    assert_eq!(crate::served::sqlstate(ended), "25P01");
    assert_eq!(
        crate::served::sqlstate(fetch(&mut client, &info).await),
        "26000"
    );
    assert!(prepared.execute().await.is_err());
    assert_eq!(served.read("SELECT count(*) FROM t").await, "0");
    served.stop().await;
}

/// A statement that takes longer than a session may be idle does not make it idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_long_statement_was_run_in_stays() {
    let served = Served::start_with(Options {
        idle: Duration::from_secs(2),
        ..Options::default()
    })
    .await;
    served.sql("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let holder = served.database.session();
    holder.execute("SELECT pg_advisory_lock(7)").await.unwrap();
    let mut client = served.named().await;
    let transaction = client.begin_transaction().await.unwrap();
    let sql = "INSERT INTO t VALUES (1)".to_owned();
    client
        .execute_update(sql, Some(transaction.clone()))
        .await
        .unwrap();
    let waits = "SELECT pg_advisory_lock(7)".to_owned();
    let info = client
        .execute(waits, Some(transaction.clone()))
        .await
        .unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_millis(3500)).await;
        holder
            .execute("SELECT pg_advisory_unlock(7)")
            .await
            .unwrap();
    };
    let (fetched, ()) = tokio::join!(fetch(&mut client, &info), release);
    fetched.unwrap();
    // Handles are looked through each half of a second.
    tokio::time::sleep(Duration::from_millis(700)).await;
    client
        .end_transaction(transaction, EndTransaction::Commit)
        .await
        .unwrap();
    assert_eq!(text(&mut client, "SELECT count(*) FROM t").await, "1");
    served.stop().await;
}

#[tokio::test]
async fn a_transaction_is_one_snapshot_and_one_batch() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        .await;
    let mut client = served.client().await;
    let first = client.begin_transaction().await.unwrap();
    let second = client.begin_transaction().await.unwrap();
    let count = |client: &mut Client, transaction: &Bytes| {
        let (mut client, transaction) = (
            Client::new_from_inner(client.inner().clone()),
            transaction.clone(),
        );
        async move {
            let sql = "SELECT count(*) FROM t".to_owned();
            let info = client.execute(sql, Some(transaction)).await.unwrap();
            number(&fetch(&mut client, &info).await.unwrap())
        }
    };
    let sql = "INSERT INTO t VALUES (1, 'one')".to_owned();
    client
        .execute_update(sql, Some(first.clone()))
        .await
        .unwrap();
    let mut bulk = ingest_into("t", "append");
    bulk.transaction_id = Some(first.clone());
    assert_eq!(
        ingest(&mut client, bulk, vec![pairs(10..20)])
            .await
            .unwrap(),
        10
    );
    let sql = "INSERT INTO t VALUES ($1, $2)".to_owned();
    let mut prepared = client.prepare(sql, Some(first.clone())).await.unwrap();
    prepared.set_parameters(pairs(30..35)).unwrap();
    assert_eq!(prepared.execute_update().await.unwrap(), 5);
    assert_eq!(count(&mut client, &first).await, 16);
    assert_eq!(count(&mut client, &second).await, 0);
    client
        .end_transaction(first.clone(), EndTransaction::Commit)
        .await
        .unwrap();
    assert_eq!(count(&mut client, &second).await, 0, "its snapshot stays");
    client
        .end_transaction(second, EndTransaction::Rollback)
        .await
        .unwrap();
    assert_eq!(served.read("SELECT count(*) FROM t").await, "16");
    let gone = client.end_transaction(first, EndTransaction::Commit).await;
    assert_eq!(sqlstate(gone), "25P01");

    // One whose statement failed keeps nothing.
    let failed = client.begin_transaction().await.unwrap();
    let sql = "INSERT INTO t VALUES (99, 'x')".to_owned();
    client
        .execute_update(sql, Some(failed.clone()))
        .await
        .unwrap();
    let wrong = client
        .execute_update("SELECT 1 / 0".to_owned(), Some(failed.clone()))
        .await;
    assert_eq!(sqlstate(wrong), "22012");
    let after = client
        .execute_update("SELECT 1".to_owned(), Some(failed.clone()))
        .await;
    assert_eq!(sqlstate(after), "25P02");
    let ended = client.end_transaction(failed, EndTransaction::Commit).await;
    assert_eq!(sqlstate(ended), "25P02");
    assert_eq!(served.read("SELECT count(*) FROM t").await, "16");
    served.stop().await;
}

#[tokio::test]
async fn tables_are_made_and_replaced_in_transactions() {
    let served = Served::start().await;
    let mut client = served.client().await;
    ingest(&mut client, ingest_into("t", "create"), vec![pairs(0..3)])
        .await
        .unwrap();
    let transaction = client.begin_transaction().await.unwrap();
    for (table, mode) in [("t", "replace"), ("u", "create")] {
        let mut command = ingest_into(table, mode);
        command.transaction_id = Some(transaction.clone());
        ingest(&mut client, command, vec![pairs(5..10)])
            .await
            .unwrap();
    }
    assert_eq!(served.read("SELECT count(*) FROM t").await, "3");
    client
        .end_transaction(transaction, EndTransaction::Commit)
        .await
        .unwrap();
    assert_eq!(served.read("SELECT count(*), min(k) FROM t").await, "5 5");
    assert_eq!(served.read("SELECT count(*) FROM u").await, "5");
    served.stop().await;
}

async fn act(client: &mut Client, name: &str, body: Vec<u8>) -> Result<Bytes, tonic::Status> {
    let request = Request::new(Action::new(name, body));
    let mut results = client.inner_mut().do_action(request).await?.into_inner();
    Ok(results
        .message()
        .await?
        .map(|result| result.body)
        .unwrap_or_default())
}

#[tokio::test]
async fn savepoints_are_gone_back_to() {
    let served = Served::start().await;
    served.sql("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let mut client = served.client().await;
    let transaction = client.begin_transaction().await.unwrap();
    let insert = |k: i32| format!("INSERT INTO t VALUES ({k})");
    client
        .execute_update(insert(1), Some(transaction.clone()))
        .await
        .unwrap();
    let begin = ActionBeginSavepointRequest {
        transaction_id: transaction.clone(),
        name: "here \"and\" now".to_owned(),
    };
    let body = act(
        &mut client,
        "BeginSavepoint",
        begin.as_any().encode_to_vec(),
    )
    .await
    .unwrap();
    let made: ActionBeginSavepointResult = Any::decode(body).unwrap().unpack().unwrap().unwrap();
    client
        .execute_update(insert(2), Some(transaction.clone()))
        .await
        .unwrap();
    for action in [2, 1] {
        let end = ActionEndSavepointRequest {
            savepoint_id: made.savepoint_id.clone(),
            action,
        };
        act(&mut client, "EndSavepoint", end.as_any().encode_to_vec())
            .await
            .unwrap();
    }
    client
        .end_transaction(transaction, EndTransaction::Commit)
        .await
        .unwrap();
    assert_eq!(served.read("SELECT k FROM t").await, "1");
    served.stop().await;
}

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SessionOptions {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, Text>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(int32, tag = "1")]
    value: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Errors {
    #[prost(map = "string, message", tag = "1")]
    errors: HashMap<String, Number>,
}

#[tokio::test]
async fn options_are_settings() {
    let served = Served::start().await;
    let mut client = served.named().await;
    let bearer = client.token().unwrap().clone();
    let with_token = |name: &str, body: Vec<u8>| {
        let mut request = Request::new(Action::new(name, body));
        let value = format!("Bearer {bearer}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
        request
    };
    let text = |text: &str| Text {
        text: Some(text.to_owned()),
    };
    let set = SessionOptions {
        options: HashMap::from([
            ("lazybase.freshness".to_owned(), text("9 s")),
            ("catalog".to_owned(), text("lazybase")),
            ("schema".to_owned(), text("elsewhere")),
            ("no_such".to_owned(), text("x")),
        ]),
    };
    let request = with_token("SetSessionOptions", set.encode_to_vec());
    let mut answer = client
        .inner_mut()
        .do_action(request)
        .await
        .unwrap()
        .into_inner();
    let body = answer.message().await.unwrap().unwrap().body;
    let errors = Errors::decode(body).unwrap().errors;
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!((errors["no_such"].value, errors["schema"].value), (1, 2));

    let request = with_token("GetSessionOptions", Vec::new());
    let mut answer = client
        .inner_mut()
        .do_action(request)
        .await
        .unwrap()
        .into_inner();
    let body = answer.message().await.unwrap().unwrap().body;
    let options = SessionOptions::decode(body).unwrap().options;
    assert_eq!(options["lazybase.freshness"], text("9s"));
    assert_eq!(options["catalog"], text("lazybase"));

    // An option without a value goes back to its default.
    let reset = SessionOptions {
        options: HashMap::from([("lazybase.freshness".to_owned(), Text { text: None })]),
    };
    let request = with_token("SetSessionOptions", reset.encode_to_vec());
    client.inner_mut().do_action(request).await.unwrap();
    assert_eq!(
        crate::served::text(&mut client, "SHOW lazybase.freshness").await,
        "0"
    );

    let request = with_token("CloseSession", Vec::new());
    let mut answer = client
        .inner_mut()
        .do_action(request)
        .await
        .unwrap()
        .into_inner();
    let body = answer.message().await.unwrap().unwrap().body;
    assert_eq!(Number::decode(body).unwrap().value, 1);
    assert_eq!(sqlstate(query(&mut client, "SELECT 1").await), "08003");
    served.stop().await;
}

/// A client that is let in, as soon as one is.
async fn let_in(served: &Served) -> Client {
    for _ in 0..1500 {
        let endpoint = Endpoint::from_shared(format!("http://{}", served.address)).unwrap();
        if let Ok(channel) = endpoint.connect().await {
            let mut client = Client::new(channel);
            if query(&mut client, "SELECT 1").await.is_ok() {
                return client;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the place is not given back");
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let served = Served::start_with(Options {
        connections_max: 1,
        ..Options::default()
    })
    .await;
    let mut first = served.client().await;
    assert_eq!(text(&mut first, "SELECT 1").await, "1");
    let mut beyond = served.client().await;
    let (code, sqlstate, message) = failure(query(&mut beyond, "SELECT 1").await);
    assert_eq!(
        (code, sqlstate.as_str()),
        (Code::ResourceExhausted, "53300")
    );
    assert!(message.contains("too many connections"), "{message}");
    let greeted = beyond.handshake("somebody", "").await.unwrap_err();
    assert!(greeted.to_string().contains("53300"), "{greeted}");
    assert_eq!(text(&mut first, "SELECT 1").await, "1");
    drop((first, beyond));
    let_in(&served).await;
    served.stop().await;
}

/// A connection by which nobody is let in gives its place back; one by which somebody was keeps it.
#[tokio::test]
async fn who_says_nothing_keeps_no_place() {
    let served = Served::start_with(Options {
        connections_max: 1,
        unknown: Duration::from_millis(500),
        ..Options::default()
    })
    .await;
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let mut said = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(30), silent.read_to_end(&mut said));
    assert!(closed.await.is_ok(), "it is still open");
    let mut known = let_in(&served).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let mut beyond = served.client().await;
    let (code, _, _) = failure(query(&mut beyond, "SELECT 1").await);
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(text(&mut known, "SELECT 1").await, "1");
    served.stop().await;
}

#[tokio::test]
async fn what_is_beyond_the_limit_is_closed_soon() {
    let served = Served::start_with(Options {
        connections_max: 1,
        ..Options::default()
    })
    .await;
    let mut first = served.client().await;
    assert_eq!(text(&mut first, "SELECT 1").await, "1");
    // It says nothing, and waits for the end: of some bytes that the server may have said.
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let mut said = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(30), silent.read_to_end(&mut said));
    assert!(closed.await.is_ok(), "it is still open");
    assert_eq!(text(&mut first, "SELECT 1").await, "1");
    served.stop().await;
}

#[tokio::test]
async fn a_session_too_many_does_not_begin() {
    let served = Served::start_with(Options {
        sessions_max: 1,
        ..Options::default()
    })
    .await;
    let mut first = served.named().await;
    let mut second = served.client().await;
    let refused = second.handshake("somebody", "").await.unwrap_err();
    assert!(refused.to_string().contains("53300"), "{refused}");
    // What needs no session of its own goes on.
    assert_eq!(text(&mut second, "SELECT 1").await, "1");
    assert_eq!(text(&mut first, "SELECT 1").await, "1");
    served.stop().await;
}

#[tokio::test]
async fn unknown_actions_are_refused() {
    let served = Served::start().await;
    let mut client = served.client().await;
    for (name, body, sqlstate) in [
        ("Explode", Vec::new(), "0A000"),
        ("CreatePreparedStatement", vec![1, 2, 3], "08P01"),
        ("CreatePreparedSubstraitPlan", Vec::new(), "0A000"),
        ("EndTransaction", Vec::new(), "08P01"),
        ("CancelFlightInfo", vec![255; 20], "08P01"),
        ("SetSessionOptions", vec![255; 20], "08P01"),
    ] {
        let refusal = act(&mut client, name, body).await.err().unwrap();
        assert_eq!(refused(refusal).1, sqlstate, "{name}");
    }
    let listed = client
        .inner_mut()
        .list_actions(arrow_flight::Empty {})
        .await
        .unwrap();
    let mut listed = listed.into_inner();
    let mut count = 0;
    while let Some(action) = listed.message().await.unwrap() {
        assert!(!action.description.is_empty());
        count += 1;
    }
    assert!(count > 10);
    served.stop().await;
}

#[tokio::test]
async fn an_ingest_that_names_no_transaction_is_of_the_one_that_is_open() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        .await;
    let count = "SELECT count(*) FROM t";
    let into = || ingest_into("t", "append");
    let mut client = served.named().await;
    for (how, rows) in [
        (EndTransaction::Rollback, "0"),
        (EndTransaction::Commit, "3"),
    ] {
        let open = client.begin_transaction().await.unwrap();
        let written = ingest(&mut client, into(), vec![pairs(0..3)]).await;
        assert_eq!(written.unwrap(), 3);
        assert_eq!(served.read(count).await, "0");
        client.end_transaction(open, how).await.unwrap();
        assert_eq!(served.read(count).await, rows);
    }
    let open = [
        client.begin_transaction().await.unwrap(),
        client.begin_transaction().await.unwrap(),
    ];
    let unclear = ingest(&mut client, into(), vec![pairs(3..4)]).await;
    assert_eq!(sqlstate(unclear), "25000");
    // Nor is it known of a client that keeps no session.
    let mut nobody = served.client().await;
    let its_own = nobody.begin_transaction().await.unwrap();
    let unclear = ingest(&mut nobody, into(), vec![pairs(3..4)]).await;
    assert_eq!(sqlstate(unclear), "25000");
    for open in open.into_iter().chain([its_own]) {
        let rollback = EndTransaction::Rollback;
        nobody.end_transaction(open, rollback).await.unwrap();
    }
    for client in [&mut client, &mut nobody] {
        ingest(client, into(), vec![pairs(3..4)]).await.unwrap();
    }
    assert_eq!(served.read(count).await, "4");
    served.stop().await;
}
