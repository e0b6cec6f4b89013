//! COPY, both ways, in all formats.

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt, pin_mut};
use tokio_postgres::Client;

use crate::served::{Served, sqlstate};

async fn copy_in(client: &Client, sql: &str, data: &[u8]) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in::<_, Bytes>(sql).await?;
    pin_mut!(sink);
    for piece in data.chunks(5) {
        sink.send(Bytes::copy_from_slice(piece)).await?;
    }
    sink.finish().await
}

async fn copy_out(client: &Client, sql: &str) -> Vec<u8> {
    let stream = client.copy_out(sql).await.unwrap();
    let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
    pieces.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_go_in_and_out_in_each_format() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT, n DECIMAL(8, 2))")
        .await
        .unwrap();
    let text = b"1\tone\t1.50\n2\t\\N\t\\N\n3\ta\\tb\\\\\t-2.00\n";
    assert_eq!(
        copy_in(&client, "COPY t FROM STDIN", text).await.unwrap(),
        3
    );
    assert_eq!(
        copy_out(&client, "COPY (SELECT * FROM t ORDER BY k) TO STDOUT").await,
        text
    );
    let csv = copy_out(
        &client,
        "COPY (SELECT * FROM t ORDER BY k) TO STDOUT WITH (FORMAT csv, HEADER)",
    )
    .await;
    assert_eq!(
        String::from_utf8_lossy(&csv),
        "k,v,n\n1,one,1.50\n2,,\n3,a\tb\\,-2.00\n"
    );
    let binary = copy_out(&client, "COPY t TO STDOUT (FORMAT binary)").await;
    client
        .batch_execute("CREATE TABLE u (k INT PRIMARY KEY, v TEXT, n DECIMAL(8, 2))")
        .await
        .unwrap();
    let sql = "COPY u (k, v, n) FROM STDIN WITH (FORMAT binary)";
    assert_eq!(copy_in(&client, sql, &binary).await.unwrap(), 3);
    assert_eq!(
        copy_out(&client, "COPY (SELECT * FROM u ORDER BY k) TO STDOUT").await,
        text
    );
    let sql = "COPY u (k, v) FROM STDIN CSV";
    assert_eq!(copy_in(&client, sql, b"7,\"x, y\"\n8,\n").await.unwrap(), 2);
    let row = client
        .query_one("SELECT v FROM u WHERE k = 7", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, &str>(0), "x, y");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_fails_leaves_nothing_and_the_connection_goes_on() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)")
        .await
        .unwrap();
    let mut data = Vec::new();
    for k in 0..20_000 {
        data.extend_from_slice(format!("{k}\tvalue {k}\n").as_bytes());
    }
    data.extend_from_slice(b"x\tbad\n");
    assert_eq!(
        sqlstate(copy_in(&client, "COPY t FROM STDIN", &data).await),
        "22P02"
    );
    assert_eq!(
        sqlstate(copy_in(&client, "COPY t FROM STDIN", b"1\n").await),
        "22P04"
    );
    assert_eq!(
        sqlstate(copy_in(&client, "COPY nothing FROM STDIN", b"1\n").await),
        "42P01"
    );
    let row = client
        .query_one("SELECT count(*) FROM t", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
    {
        let sink = client
            .copy_in::<_, Bytes>("COPY t FROM STDIN")
            .await
            .unwrap();
        pin_mut!(sink);
        sink.send(Bytes::from_static(b"1\tone\n")).await.unwrap();
        // Dropped amid its data: the driver sends CopyFail.
    }
    let row = client
        .query_one("SELECT count(*) FROM t", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_part_of_its_transaction() {
    let served = Served::start().await;
    let mut client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)")
        .await
        .unwrap();
    let transaction = client.transaction().await.unwrap();
    let sink = transaction
        .copy_in::<_, Bytes>("COPY t FROM STDIN")
        .await
        .unwrap();
    pin_mut!(sink);
    sink.send(Bytes::from_static(b"1\tone\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 1);
    transaction.rollback().await.unwrap();
    let row = client
        .query_one("SELECT count(*) FROM t", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
    served.stop().await;
}
