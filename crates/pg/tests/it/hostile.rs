//! Bytes that no driver sends.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::served::Served;

/// What the server answers to these bytes, up to its end or a short silence.
async fn answer(served: &Served, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    // The server may have ended the connection before all was sent.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    drop(tokio::time::timeout(std::time::Duration::from_millis(300), reading).await);
    answer
}

fn startup() -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    body.extend_from_slice(b"user\0x\0database\0lazybase\0\0");
    let mut message = (body.len() as u32 + 4).to_be_bytes().to_vec();
    message.extend_from_slice(&body);
    message
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body);
    message
}

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
        answer(&served, bytes).await;
    }
    for message in [
        framed(b'B', b"\0\0\xff\xff"),
        framed(b'Q', b"SELECT 1"),
        framed(b'Z', b""),
        framed(b'Q', &[0xff, 0xfe, 0]),
        vec![b'Q', 0xff, 0xff, 0xff, 0xff],
        vec![b'P', 0, 0, 0, 3],
    ] {
        let mut bytes = startup();
        bytes.extend_from_slice(&message);
        let told = answer(&served, &bytes).await;
        assert!(
            told.windows(5).any(|window| window == b"FATAL"),
            "{message:?}"
        );
    }
    client.batch_execute("SELECT 1").await.unwrap();
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_out_of_their_order_are_errors() {
    let served = Served::start().await;
    let mut bytes = startup();
    bytes.extend(framed(b'E', b"none\0\0\0\0\0"));
    bytes.extend(framed(b'Q', b"SELECT 1\0"));
    bytes.extend(framed(b'S', b""));
    bytes.extend(framed(b'c', b""));
    bytes.extend(framed(b'd', b"data"));
    bytes.extend(framed(b'Q', b"SELECT 42\0"));
    let told = answer(&served, &bytes).await;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("34000"), "{told}");
    assert!(told.contains("42"), "what comes after Sync is done: {told}");
    assert!(!told.contains("FATAL"), "{told}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_without_syncs_is_one_transaction() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY)")
        .await
        .unwrap();
    let insert = |value: &str| {
        let mut bytes = framed(
            b'P',
            format!("\0INSERT INTO t VALUES ({value})\0\0\0").as_bytes(),
        );
        bytes.extend(framed(b'B', b"\0\0\0\0\0\0\0\0"));
        bytes.extend(framed(b'E', b"\0\0\0\0\0"));
        bytes
    };
    for (second, kept) in [("'x'", 0), ("2", 2)] {
        let mut bytes = startup();
        bytes.extend(insert("1"));
        bytes.extend(insert(second));
        bytes.extend(framed(b'S', b""));
        bytes.extend(framed(b'X', b""));
        answer(&served, &bytes).await;
        let row = client
            .query_one("SELECT count(*) FROM t", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, i64>(0), kept, "{second}");
    }
    served.stop().await;
}
