//! COPY, both ways, in all formats.

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt, pin_mut};
use tokio_postgres::Client;

use crate::raw::Raw;
use crate::served::{Served, count, sqlstate};

/// Sends data in small pieces.
pub(crate) async fn copy_in(
    client: &Client,
    sql: &str,
    data: &[u8],
) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in::<_, Bytes>(sql).await?;
    pin_mut!(sink);
    for piece in data.chunks(5) {
        sink.send(Bytes::copy_from_slice(piece)).await?;
    }
    sink.finish().await
}

pub(crate) async fn copy_out(client: &Client, sql: &str) -> Vec<u8> {
    let stream = client.copy_out(sql).await.unwrap();
    let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
    pieces.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_for_which_a_condition_does_not_hold_are_left_out() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)").await;
    let client = served.client().await;
    let sql = "COPY t FROM STDIN WHERE k > 10 AND v IS NOT NULL";
    let rows = b"9\tone\n11\ttwo\n12\t\\N\n13\tthree\n";
    assert_eq!(copy_in(&client, sql, rows).await.unwrap(), 2);
    assert_eq!(
        copy_out(&client, "COPY (SELECT * FROM t ORDER BY k) TO STDOUT").await,
        b"11\ttwo\n13\tthree\n"
    );
    // It is refused before the client sends anything.
    let refused = client
        .copy_in::<_, Bytes>("COPY t FROM STDIN WHERE nothing = 1")
        .await;
    assert_eq!(sqlstate(refused.map(drop)), "42703");
    served.stop().await;
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
    let sql = "COPY (SELECT * FROM t ORDER BY k) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (v,n))";
    let csv = copy_out(&client, sql).await;
    assert_eq!(
        String::from_utf8_lossy(&csv),
        "k,v,n\n1,\"one\",\"1.50\"\n2,,\n3,\"a\tb\\\",\"-2.00\"\n"
    );
    let csv = copy_out(
        &client,
        "COPY (SELECT 1 a, NULL b) TO STDOUT CSV FORCE QUOTE *",
    )
    .await;
    assert_eq!(String::from_utf8_lossy(&csv), "\"1\",\n");
    let sql = "COPY (SELECT 1 a) TO STDOUT (FORMAT csv, FORCE_QUOTE (b))";
    let refused = client.copy_out(sql).await.map(drop);
    assert_eq!(sqlstate(refused), "42703");
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
    assert_eq!(count(&client, "t").await, 0);
    {
        let sink = client
            .copy_in::<_, Bytes>("COPY t FROM STDIN")
            .await
            .unwrap();
        pin_mut!(sink);
        sink.send(Bytes::from_static(b"1\tone\n")).await.unwrap();
        // Dropped amid its data: the driver sends CopyFail.
    }
    assert_eq!(count(&client, "t").await, 0);
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
    assert_eq!(count(&client, "t").await, 0);
    served.stop().await;
}

/// What a client sent before it gave up is never kept, also where the rows had ended by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_the_client_gives_up_is_not_kept() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY)").await;
    let client = served.client().await;
    let mut arrow = Vec::new();
    {
        let column: arrow::array::ArrayRef =
            std::sync::Arc::new(arrow::array::Int32Array::from(vec![1]));
        let batch = arrow::array::RecordBatch::try_from_iter([("k", column)]).unwrap();
        let mut writer =
            arrow::ipc::writer::StreamWriter::try_new(&mut arrow, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }
    let mut raw = Raw::new(&served).await;
    for (format, data) in [
        ("text", &b"1\n\\.\n"[..]),
        ("csv", b"1\n\\.\n"),
        ("arrow", &arrow),
    ] {
        for cancels in [false, true] {
            raw.query(&format!("COPY t FROM STDIN (FORMAT {format})"));
            raw.until(b'G').await;
            raw.put(b'd', data).send().await;
            // Time for the rows to be read, and for a reader that takes them to be all.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            let told = match cancels {
                true => {
                    Raw::cancel(&raw.key.clone(), &served).await;
                    raw.ready().await
                }
                false => raw.put(b'f', b"given up\0").ready().await,
            };
            assert_eq!(told.errors(b'C'), ["57014"], "{format}, {cancels}");
            assert_eq!(told.status(), Some('I'));
            assert_eq!(count(&client, "t").await, 0, "{format}, {cancels}");
        }
        raw.query(&format!("COPY t FROM STDIN (FORMAT {format})"));
        let told = raw
            .put(b'd', data)
            .put(b'd', b"")
            .put(b'c', b"")
            .ready()
            .await;
        assert_eq!(told.tags(), ["COPY 1"], "{format}: {told:?}");
        assert_eq!(count(&client, "t").await, 1, "{format}");
        client.batch_execute("DELETE FROM t").await.unwrap();
    }
    served.stop().await;
}

/// psql sends the line that ends the data in CSV too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_ends_the_data_of_a_client() {
    let served = Served::with("CREATE TABLE t (v TEXT)").await;
    let client = served.client().await;
    for sql in ["COPY t FROM STDIN CSV", "COPY t FROM STDIN"] {
        let data = b"a\nb\n\\.\nnothing that counts\n";
        assert_eq!(copy_in(&client, sql, data).await.unwrap(), 2, "{sql}");
    }
    let quoted = copy_in(&client, "COPY t FROM STDIN CSV", b"\"\\.\"\n").await;
    assert_eq!(quoted.unwrap(), 1);
    served.stop().await;
}

/// A client that does not go on has the time of a statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_waits_ends_in_its_time() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)").await;
    let client = served.client().await;
    let mut raw = Raw::new(&served).await;
    raw.query("SET statement_timeout = 1000").ready().await;
    raw.query("COPY t FROM STDIN");
    let line = format!("1\t{}\n", "x".repeat(1 << 20));
    for _ in 0..4 {
        raw.put(b'd', line.as_bytes());
    }
    // It never says that this is all.
    let told = raw.ready().await;
    assert_eq!(told.errors(b'C'), ["57014"]);
    assert_eq!(count(&client, "t").await, 0);
    assert_eq!(raw.query("SELECT 1").ready().await.status(), Some('I'));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_is_matched_and_columns_are_never_or_also_null() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, v TEXT, w TEXT)").await;
    let client = served.client().await;
    let sql = "COPY t (k, w, v) FROM STDIN WITH (HEADER MATCH)";
    let text = b"k\tw\tv\n1\tdouble\tone\n";
    assert_eq!(copy_in(&client, sql, text).await.unwrap(), 1);
    assert_eq!(
        sqlstate(copy_in(&client, sql, b"k\tv\tw\n1\tx\ty\n").await),
        "22P04"
    );
    let sql = "COPY t FROM STDIN (FORMAT csv, HEADER MATCH, FORCE_NOT_NULL (v), FORCE_NULL (w))";
    let csv = b"k,v,w\n2,,\"\"\n3,\"\",\n";
    assert_eq!(copy_in(&client, sql, csv).await.unwrap(), 2);
    let shown = copy_out(&client, "COPY (SELECT * FROM t ORDER BY k) TO STDOUT CSV").await;
    assert_eq!(
        String::from_utf8_lossy(&shown),
        "1,one,double\n2,\"\",\n3,\"\",\n"
    );
    // What is wrong with the options is said before any data.
    for (options, state) in [
        ("FORMAT csv, FORCE_NULL (x)", "42703"),
        ("FORMAT csv, FORCE_NOT_NULL (w)", "42P10"),
        ("FORCE_NULL (v)", "0A000"),
        ("FORMAT binary, HEADER MATCH", "0A000"),
    ] {
        let sql = format!("COPY t (k, v) FROM STDIN WITH ({options})");
        let refused = client.copy_in::<_, Bytes>(&sql).await.map(drop);
        assert_eq!(sqlstate(refused), state, "{options}");
    }
    served.stop().await;
}

/// Labels are columns of a COPY's list, in each format and both ways. Without a list, the rows are
/// for everybody to read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_are_copied_where_they_are_listed() {
    let table = "CREATE TABLE t (k INT PRIMARY KEY, v TEXT WITH LABELS) WITH (row_labels = true)";
    let served = Served::with(table).await;
    let client = served.client().await;
    let listed = "k, v, \"_label(v)\", _label";
    let text = b"1\tone\thr&(boss|audit)\t\\N\n2\ttwo\t\\N\thr\n3\tthree\t\t\\N\n";
    let from = |format: &str| format!("COPY t ({listed}) FROM STDIN (FORMAT {format})");
    let to = |format: &str| {
        format!("COPY (SELECT {listed} FROM t ORDER BY k) TO STDOUT (FORMAT {format})")
    };
    let copied = copy_in(&client, &from("text"), text).await;
    assert_eq!(copied.unwrap(), 3);
    for format in ["text", "csv", "binary"] {
        let data = copy_out(&client, &to(format)).await;
        client.batch_execute("TRUNCATE t").await.unwrap();
        let copied = copy_in(&client, &from(format), &data).await;
        assert_eq!(copied.unwrap(), 3, "{format}");
        let all = copy_out(&client, &to("text")).await;
        let all = String::from_utf8_lossy(&all);
        assert_eq!(all, String::from_utf8_lossy(text), "{format}");
    }
    let matched = format!("COPY t ({listed}) FROM STDIN (FORMAT csv, HEADER MATCH)");
    let csv = b"k,v,_label(v),_label\n4,four,boss,hr\n";
    assert_eq!(copy_in(&client, &matched, csv).await.unwrap(), 1);
    let visible = "COPY (SELECT * FROM t ORDER BY k) TO STDOUT";
    for (authorizations, rows) in [
        ("", "1\t\\N\n3\tthree\n"),
        ("hr", "1\t\\N\n2\ttwo\n3\tthree\n4\t\\N\n"),
        ("boss,hr", "1\tone\n2\ttwo\n3\tthree\n4\tfour\n"),
    ] {
        let set = format!("SET lazybase.authorizations = '{authorizations}'");
        client.batch_execute(&set).await.unwrap();
        let seen = copy_out(&client, visible).await;
        assert_eq!(String::from_utf8_lossy(&seen), rows, "{authorizations}");
    }
    // Whoever sees little replaces what is hidden as it stands, and what comes has empty labels.
    client
        .batch_execute("SET lazybase.authorizations = ''")
        .await
        .unwrap();
    let bare = copy_in(&client, "COPY t FROM STDIN", b"2\tanew\n").await;
    assert_eq!(bare.unwrap(), 1);
    let seen = copy_out(&client, visible).await;
    assert_eq!(
        String::from_utf8_lossy(&seen),
        "1\t\\N\n2\tanew\n3\tthree\n"
    );
    // What is no label is refused with all that came.
    let wrong = copy_in(&client, &from("text"), b"5\tx\thr\t\\N\n6\tx\thr&\t\\N\n").await;
    assert_eq!(sqlstate(wrong), "22023");
    client
        .batch_execute("RESET lazybase.authorizations")
        .await
        .unwrap();
    assert_eq!(count(&client, "t").await, 4);
    served.stop().await;
}
