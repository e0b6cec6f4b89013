//! Roles: who is let in, and what each may do, by statements, ingests, catalogs and transactions.

use std::time::Instant;

use arrow_flight::sql::{CommandGetTables, EndTransaction};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::join_all;
use lazybase_flight::Options;
use tonic::Code;

use crate::served::{
    Client, Served, failure, fetch, ingest, ingest_into, pairs, query, sqlstate, text,
};

/// Tables of a superuser, and of two roles.
async fn served() -> Served {
    let served = Served::start().await;
    served
        .sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT); \
             INSERT INTO t VALUES (1, 'one'), (2, 'two'); \
             CREATE TABLE secret (k BIGINT PRIMARY KEY, v TEXT); \
             INSERT INTO secret VALUES (1, 'x'); \
             CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'root'; \
             CREATE ROLE reader LOGIN PASSWORD 'read'; \
             CREATE ROLE writer LOGIN PASSWORD 'write'; \
             GRANT SELECT ON t TO reader; \
             GRANT SELECT (k), INSERT ON t TO writer",
        )
        .await;
    served
}

async fn logged_in(served: &Served, user: &str, password: &str) -> Client {
    let mut client = served.client().await;
    client.handshake(user, password).await.unwrap();
    client
}

fn basic(user: &str, password: &str) -> String {
    format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{user}:{password}"))
    )
}

#[tokio::test]
async fn a_name_and_a_password_let_in_by_handshake_and_by_each_call() {
    let served = served().await;
    let mut nobody = served.client().await;
    assert_eq!(sqlstate(query(&mut nobody, "SELECT 1").await), "28000");
    let bearer = {
        let mut client = logged_in(&served, "reader", "read").await;
        assert_eq!(text(&mut client, "SELECT current_user").await, "reader");
        client.token().unwrap().clone()
    };
    // The token that the handshake gave is good for another connection; another one is not.
    let mut again = served.client().await;
    again.set_token(bearer.clone());
    assert_eq!(text(&mut again, "SELECT session_user").await, "reader");
    let mut guessed = served.client().await;
    guessed.set_token(bearer.replace(|c: char| c.is_ascii_digit(), "a"));
    assert!(query(&mut guessed, "SELECT 1").await.is_err());
    // Without a session, each call says who it is.
    let mut each = served.client().await;
    each.set_header("authorization", basic("writer", "write"));
    assert_eq!(text(&mut each, "SELECT current_user").await, "writer");
    for (user, password) in [("reader", "write"), ("nosuch", "x"), ("reader", "")] {
        let mut wrong = served.client().await;
        wrong.set_header("authorization", basic(user, password));
        let (_, sqlstate, message) = failure(query(&mut wrong, "SELECT 1").await);
        assert_eq!(sqlstate, "28P01", "{user}: {message}");
        assert!(!message.contains("nosuch role"), "{message}");
    }
    served.stop().await;
}

#[tokio::test]
async fn passwords_that_are_tried_one_after_the_other_take_longer_and_longer() {
    let served = served().await;
    let begun = Instant::now();
    for _ in 0..5 {
        let mut client = served.client().await;
        assert!(client.handshake("reader", "guess").await.is_err());
    }
    // Two are free, then 0.1, 0.2 and 0.4 seconds.
    assert!(begun.elapsed().as_millis() >= 300);
    logged_in(&served, "reader", "read").await;
    served.stop().await;
}

/// Whether a guess of somebody new is refused.
async fn is_refused(served: &Served) -> bool {
    let mut client = served.client().await;
    client.handshake("reader", "guess").await.is_err()
}

#[tokio::test]
async fn passwords_that_are_tried_together_take_as_long() {
    let served = served().await;
    let begun = Instant::now();
    let refused = join_all((0..6).map(|_| is_refused(&served))).await;
    assert!(refused.into_iter().all(|refused| refused));
    // 0.1, 0.2 and 0.4 seconds before the last three.
    assert!(begun.elapsed().as_millis() >= 600);
    logged_in(&served, "reader", "read").await;
    served.stop().await;
}

/// Messages of a connection by which nobody was let in are read before it is known whose they are.
#[tokio::test]
async fn messages_are_short_until_somebody_is_let_in() {
    let served = served().await;
    let long = format!("SELECT 1 AS one /* {} */", "x".repeat(3 << 19));
    let mut client = served.client().await;
    client.set_header("authorization", basic("reader", "read"));
    let (code, _, message) = failure(query(&mut client, &long).await);
    assert_eq!(code, Code::OutOfRange, "{message}");
    assert_eq!(text(&mut client, "SELECT 1").await, "1");
    assert_eq!(text(&mut client, &long).await, "1");
    // The name of a session shows at once whose call it is.
    let client = logged_in(&served, "reader", "read").await;
    let mut again = served.client().await;
    again.set_token(client.token().unwrap().clone());
    assert_eq!(text(&mut again, &long).await, "1");
    // What is ingested is not read before its client was let in.
    let mut writer = served.client().await;
    writer.set_header("authorization", basic("writer", "write"));
    let rows = vec![pairs(100..100_100)];
    let taken = ingest(&mut writer, ingest_into("t", "append"), rows).await;
    assert_eq!(taken.unwrap(), 100_000);
    served.stop().await;
}

#[tokio::test]
async fn a_session_is_not_used_with_the_credentials_of_another_role() {
    let served = served().await;
    let reader = logged_in(&served, "reader", "read").await;
    let mut client = served.client().await;
    let cookie = format!("lazybase-session={}", reader.token().unwrap());
    client.set_header("cookie", cookie);
    assert_eq!(text(&mut client, "SELECT session_user").await, "reader");
    client.set_header("authorization", basic("writer", "write"));
    let (code, sqlstate, message) = failure(query(&mut client, "SELECT session_user").await);
    assert_eq!((code, sqlstate.as_str()), (Code::Unauthenticated, "28000"));
    assert!(message.contains("somebody else's"), "{message}");
    client.set_header("authorization", basic("reader", "read"));
    assert_eq!(text(&mut client, "SELECT session_user").await, "reader");
    // Its client, told to forget the cookie, is the other role from then on.
    client.set_header("authorization", basic("writer", "write"));
    client.set_header("cookie", "lazybase-session=");
    assert_eq!(text(&mut client, "SELECT session_user").await, "writer");
    served.stop().await;
}

#[tokio::test]
async fn the_folders_owner_is_let_in_by_name_where_this_machine_is_trusted() {
    let options = Options {
        trusts_loopback: true,
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    served.sql("CREATE ROLE app LOGIN").await;
    let owner = logged_in(&served, "lazybase", "").await;
    // Its session is used with its credentials, and not with another role's.
    let mut client = served.client().await;
    let cookie = format!("lazybase-session={}", owner.token().unwrap());
    client.set_header("cookie", cookie);
    client.set_header("authorization", basic("lazybase", ""));
    let who = "SELECT session_user";
    assert_eq!(text(&mut client, who).await, "lazybase");
    client.set_header("authorization", basic("app", ""));
    assert_eq!(sqlstate(query(&mut client, who).await), "28000");
    client.set_header("cookie", "lazybase-session=");
    assert_eq!(text(&mut client, who).await, "app");
    client.set_header("authorization", basic("nosuch", ""));
    assert_eq!(sqlstate(query(&mut client, who).await), "28000");
    served.stop().await;
}

/// A role that has no password can't show who it is: then everybody on this machine is let in.
#[tokio::test]
async fn names_are_enough_until_a_role_has_a_password() {
    let served = Served::start().await;
    served.sql("CREATE ROLE app LOGIN").await;
    let mut app = logged_in(&served, "app", "").await;
    let refused = query(&mut app, "CREATE TABLE t (k INT)").await;
    assert_eq!(sqlstate(refused), "42501");
    let mut me = logged_in(&served, "me", "").await;
    let given = "ALTER ROLE app PASSWORD 'secret'".to_owned();
    me.execute_update(given, None).await.unwrap();
    let mut other = served.client().await;
    assert!(other.handshake("me", "").await.is_err());
    assert!(other.handshake("app", "").await.is_err());
    logged_in(&served, "app", "secret").await;
    served.stop().await;
}

#[tokio::test]
async fn statements_pass_the_gate_of_their_role() {
    let served = served().await;
    let mut reader = logged_in(&served, "reader", "read").await;
    assert_eq!(
        text(&mut reader, "SELECT v FROM t WHERE k = 1").await,
        "one"
    );
    for sql in [
        "SELECT * FROM secret",
        "SELECT v FROM secret WHERE k = 1",
        "CREATE TABLE u (k INT PRIMARY KEY)",
        "CREATE ROLE other",
    ] {
        assert_eq!(sqlstate(query(&mut reader, sql).await), "42501", "{sql}");
    }
    for sql in [
        "INSERT INTO t VALUES (3, 'three')",
        "DELETE FROM t WHERE k = 1",
        "UPDATE t SET v = 'x' WHERE k = 1",
        "DROP TABLE t",
    ] {
        let refused = reader.execute_update(sql.to_owned(), None).await;
        assert_eq!(sqlstate(refused), "42501", "{sql}");
    }
    // A statement that was prepared is asked for again at each run.
    let mut prepared = reader
        .prepare("SELECT count(*) FROM t".to_owned(), None)
        .await
        .unwrap();
    let info = prepared.execute().await.unwrap();
    assert_eq!(fetch(&mut reader, &info).await.unwrap().text(), "2");
    let info = prepared.execute().await.unwrap();
    served.sql("REVOKE SELECT ON t FROM reader").await;
    assert_eq!(sqlstate(fetch(&mut reader, &info).await), "42501");
    let mut admin = logged_in(&served, "admin", "root").await;
    assert_eq!(text(&mut admin, "SELECT v FROM secret").await, "x");
    served.stop().await;
}

#[tokio::test]
async fn ingests_pass_the_gate_of_their_role() {
    let served = served().await;
    let mut reader = logged_in(&served, "reader", "read").await;
    let mut writer = logged_in(&served, "writer", "write").await;
    let rows = || vec![pairs(10..12)];
    let refused = ingest(&mut reader, ingest_into("t", "append"), rows()).await;
    assert_eq!(sqlstate(refused), "42501");
    let taken = ingest(&mut writer, ingest_into("t", "append"), rows()).await;
    assert_eq!(taken.unwrap(), 2);
    // What rows may do is a privilege of its own, as is making a table, or replacing one.
    for op in ["update", "delete"] {
        writer.set_header("lazybase-op", op);
        let refused = ingest(&mut writer, ingest_into("t", "append"), rows()).await;
        assert_eq!(sqlstate(refused), "42501", "{op}");
    }
    writer.set_header("lazybase-op", "upsert");
    for (table, mode) in [("made", "create"), ("t", "replace"), ("secret", "append")] {
        let refused = ingest(&mut writer, ingest_into(table, mode), rows()).await;
        assert_eq!(sqlstate(refused), "42501", "{table} {mode}");
    }
    served
        .sql("GRANT CREATE ON DATABASE lazybase TO writer")
        .await;
    let made = ingest(&mut writer, ingest_into("made", "create"), rows()).await;
    assert_eq!(made.unwrap(), 2);
    assert_eq!(
        sqlstate(query(&mut reader, "SELECT * FROM made").await),
        "42501"
    );
    assert_eq!(text(&mut writer, "SELECT count(*) FROM made").await, "2");
    assert_eq!(served.read("SELECT count(*) FROM t").await, "4");
    served.stop().await;
}

#[tokio::test]
async fn transactions_pass_the_gate_and_are_their_clients_own() {
    let served = served().await;
    let mut reader = logged_in(&served, "reader", "read").await;
    let mut writer = logged_in(&served, "writer", "write").await;
    let transaction = writer.begin_transaction().await.unwrap();
    let insert = "INSERT INTO t VALUES (7, 'seven')".to_owned();
    writer
        .execute_update(insert, Some(transaction.clone()))
        .await
        .unwrap();
    let denied = writer
        .execute_update("DELETE FROM t".to_owned(), Some(transaction.clone()))
        .await;
    assert_eq!(sqlstate(denied), "42501");
    // Whoever hears of its handle still acts as nobody but its owner; it can't read what that may.
    let stolen = reader
        .execute("SELECT * FROM secret".to_owned(), Some(transaction.clone()))
        .await;
    assert!(stolen.is_err());
    writer
        .end_transaction(transaction, EndTransaction::Rollback)
        .await
        .unwrap();
    assert_eq!(served.read("SELECT count(*) FROM t").await, "2");
    served.stop().await;
}

#[tokio::test]
async fn catalogs_are_for_those_who_are_let_in() {
    let served = served().await;
    let everything = || CommandGetTables {
        include_schema: true,
        ..CommandGetTables::default()
    };
    let mut nobody = served.client().await;
    assert_eq!(sqlstate(nobody.get_tables(everything()).await), "28000");
    assert_eq!(sqlstate(nobody.get_catalogs().await), "28000");
    let mut reader = logged_in(&served, "reader", "read").await;
    let info = reader.get_tables(everything()).await.unwrap();
    let tables = fetch(&mut reader, &info).await.unwrap().text();
    // A role sees the tables that it may do something with.
    assert!(tables.contains(" t TABLE "), "{tables}");
    assert!(!tables.contains("secret"), "{tables}");
    served.stop().await;
}
