//! Bytes that no driver sends.

use crate::raw::{Raw, framed, startup};
use crate::served::{Served, count};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_ends_its_own_connection_only() {
    let served = Served::start().await;
    let client = served.client().await;
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 64],
        &[0, 0, 0, 8, 4, 210, 22, 47, 0, 0, 0, 8, 4, 210, 22, 47],
        &[0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 1],
        &[0, 0, 0, 9, 0, 2, 0, 0, 0],
        b"",
    ] {
        let told = Raw::answer(&served, bytes).await;
        assert_eq!(told.status(), None, "{bytes:?}");
    }
    for message in [
        framed(b'B', b"\0\0\xff\xff"),
        framed(b'Q', b"SELECT 1"),
        framed(b'Z', b""),
        vec![b'Q', 0xff, 0xff, 0xff, 0xff],
        vec![b'P', 0, 0, 0, 3],
    ] {
        let mut bytes = startup("x");
        bytes.extend_from_slice(&message);
        let told = Raw::answer(&served, &bytes).await;
        assert_eq!(told.errors(b'V'), ["FATAL"], "{message:?}");
    }
    client.batch_execute("SELECT 1").await.unwrap();
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_is_not_utf8_is_an_error_and_no_more() {
    let served = Served::start().await;
    let mut raw = Raw::new(&served).await;
    let told = raw.put(b'Q', b"SELECT '\xff'\0").ready().await;
    assert_eq!(told.errors(b'C'), ["22021"]);
    assert_eq!(told.errors(b'V'), ["ERROR"]);
    assert_eq!(told.status(), Some('I'));
    raw.put(b'P', b"\0SELECT '\xff'\0\0\0");
    let told = raw.bind("", "").execute("", 0).sync().ready().await;
    assert_eq!(told.errors(b'C'), ["22021"]);
    assert_eq!(raw.query("SELECT 7").ready().await.rows(), [["7"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_out_of_their_order_are_errors() {
    let served = Served::start().await;
    let mut raw = Raw::new(&served).await;
    raw.execute("none", 0).query("SELECT 1").sync();
    let told = raw.ready().await;
    assert_eq!(told.errors(b'C'), ["34000"]);
    assert_eq!(told.kinds(), "EZ", "the query is left out");
    raw.put(b'c', b"").put(b'd', b"data").query("SELECT 42");
    let told = raw.ready().await;
    assert_eq!(told.rows(), [["42"]], "{told:?}");
    assert!(told.errors(b'C').is_empty(), "{told:?}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_without_syncs_is_one_transaction() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let client = served.client().await;
    let mut raw = Raw::new(&served).await;
    for (second, kept) in [("'x'", 0), ("2", 2)] {
        raw.run("INSERT INTO t VALUES (1)");
        raw.run(&format!("INSERT INTO t VALUES ({second})"));
        let told = raw.sync().ready().await;
        assert_eq!(told.status(), Some('I'));
        assert_eq!(count(&client, "t").await, kept, "{second}");
    }
    served.stop().await;
}
