//! Notices: how grave each is, and which of them a client is told.

use crate::raw::{Raw, Told};
use crate::served::{Served, cells, sqlstate};

async fn served() -> (Served, Raw) {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)").await;
    let raw = Raw::new(&served).await;
    (served, raw)
}

/// The severity and the SQLSTATE of each notice.
fn severities(told: &Told) -> Vec<String> {
    let [words, states] = [b'S', b'C'].map(|field| told.of_notices(field));
    let pairs = words.into_iter().zip(states);
    pairs
        .map(|(word, state)| format!("{word} {state}"))
        .collect()
}

/// The same of what a statement says that is done.
async fn said(raw: &mut Raw, sql: &str) -> Vec<String> {
    let told = raw.query(sql).ready().await;
    assert!(told.errors(b'C').is_empty(), "{sql}: {told:?}");
    severities(&told)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_has_the_severity_that_postgresql_gives_it() {
    let (served, mut raw) = served().await;
    for (sql, expected) in [
        (
            "CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY)",
            "NOTICE 42P07",
        ),
        ("DROP TABLE IF EXISTS u", "NOTICE 00000"),
        (
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS k INT",
            "NOTICE 42701",
        ),
        ("ALTER TABLE t DROP COLUMN IF EXISTS x", "NOTICE 00000"),
        ("CREATE SCHEMA IF NOT EXISTS public", "NOTICE 42P06"),
        ("DROP ROLE IF EXISTS nobody", "NOTICE 00000"),
        ("CREATE INDEX i ON t (k)", "NOTICE 00000"),
        ("CHECKPOINT", "NOTICE 00000"),
        ("SET work_mem = '1GB'", "NOTICE 00000"),
        ("COMMIT", "WARNING 25P01"),
        ("ROLLBACK", "WARNING 25P01"),
        ("SET LOCAL lazybase.freshness = 1", "WARNING 25P01"),
    ] {
        assert_eq!(said(&mut raw, sql).await, [expected], "{sql}");
    }
    assert!(said(&mut raw, "BEGIN").await.is_empty());
    assert_eq!(said(&mut raw, "BEGIN").await, ["WARNING 25001"]);
    assert!(said(&mut raw, "ROLLBACK").await.is_empty());
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_min_messages_says_which_are_told() {
    let (served, mut raw) = served().await;
    for (level, shown, heard) in [
        ("debug5", "debug5", 2),
        ("debug", "debug2", 2),
        ("LOG", "log", 2),
        ("info", "info", 2),
        ("notice", "notice", 2),
        ("'Warning'", "warning", 1),
        ("error", "error", 0),
        ("DEFAULT", "notice", 2),
    ] {
        said(&mut raw, &format!("SET client_min_messages = {level}")).await;
        let told = raw.query("SHOW client_min_messages").ready().await;
        assert_eq!(told.rows(), [[shown]]);
        let (mut simple, mut prepared) = (0, 0);
        for sql in ["DROP TABLE IF EXISTS u", "ROLLBACK"] {
            simple += said(&mut raw, sql).await.len();
            prepared += raw.run(sql).sync().ready().await.notices().len();
        }
        assert_eq!((simple, prepared), (heard, heard), "{level}");
    }
    for wrong in ["loud", "fatal", "panic", "''", "3"] {
        let told = raw
            .query(&format!("SET client_min_messages = {wrong}"))
            .ready()
            .await;
        assert_eq!(told.errors(b'C'), ["22023"], "{wrong}");
    }
    let told = raw
        .query("SELECT setting FROM pg_settings WHERE name = 'client_min_messages'")
        .ready()
        .await;
    assert_eq!(told.rows(), [["notice"]]);
    served.stop().await;
}

/// Stamps and tokens were asked for: they are told whatever else is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_for_is_always_told() {
    let (served, mut raw) = served().await;
    said(&mut raw, "SET lazybase.notices = on").await;
    said(&mut raw, "SET client_min_messages = error").await;
    assert_eq!(said(&mut raw, "SELECT k FROM t").await, ["INFO 00000"]);
    let told = raw.query("INSERT INTO t VALUES (2)").ready().await;
    assert_eq!(severities(&told), ["INFO 00000"]);
    assert!(told.notices()[0].starts_with("token "), "{told:?}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_local_ends_with_its_transaction() {
    let (served, mut raw) = served().await;
    let skipped = "DROP TABLE IF EXISTS u";
    for end in ["COMMIT", "ROLLBACK"] {
        said(&mut raw, "BEGIN").await;
        said(&mut raw, "SET LOCAL client_min_messages TO warning").await;
        assert!(said(&mut raw, skipped).await.is_empty());
        assert_eq!(said(&mut raw, "BEGIN").await, ["WARNING 25001"]);
        said(&mut raw, end).await;
        assert_eq!(said(&mut raw, skipped).await.len(), 1, "{end}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_roles_and_the_database_say_it_too() {
    let (served, _) = served().await;
    let shown = "SHOW client_min_messages";
    let client = served
        .connect("options='-c client_min_messages=Warning'")
        .await
        .unwrap();
    assert_eq!(cells(&client, shown).await, [["warning"]]);
    let refused = served
        .connect("options='-c client_min_messages=loud'")
        .await;
    assert_eq!(sqlstate(refused.map(drop)), "22023");
    // What a connection is told at its beginning is told as it asks for.
    let begun = async |level: &str| {
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        let parameters = format!(
            "user\0x\0database\0lazybase\0TimeZone\0Europe/Berlin\0client_min_messages\0{level}\0\0"
        );
        body.extend_from_slice(parameters.as_bytes());
        Raw::begin(&served, &body).await
    };
    assert_eq!(severities(&begun("notice").await), ["NOTICE 00000"]);
    assert!(begun("warning").await.notices().is_empty());
    let sql = "ALTER DATABASE lazybase SET client_min_messages = 'loud'";
    assert_eq!(sqlstate(client.batch_execute(sql).await), "22023");
    client
        .batch_execute(
            "ALTER DATABASE lazybase SET client_min_messages = error;
             CREATE ROLE anna LOGIN PASSWORD 'a'; CREATE ROLE boris LOGIN PASSWORD 'b';
             ALTER ROLE boris SET client_min_messages = debug1",
        )
        .await
        .unwrap();
    let anna = served.connect("user=anna password=a").await.unwrap();
    assert_eq!(cells(&anna, shown).await, [["error"]]);
    let boris = served.connect("user=boris password=b").await.unwrap();
    assert_eq!(cells(&boris, shown).await, [["debug1"]]);
    boris
        .batch_execute("SET client_min_messages = log; RESET client_min_messages")
        .await
        .unwrap();
    assert_eq!(cells(&boris, shown).await, [["debug1"]]);
    served.stop().await;
}
