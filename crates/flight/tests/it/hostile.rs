//! Messages that no client would send: each is an error of its call, and the server serves on.

use std::time::Duration;

use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::{
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementUpdate,
    ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{FlightData, FlightDescriptor, Ticket};
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tonic::{Code, Request, Status};

use crate::served::{Client, Served, ingest_into, pairs, refused, text};

async fn put(client: &mut Client, messages: Vec<FlightData>) -> Result<(), Status> {
    let request = Request::new(stream::iter(messages));
    let mut results = client.inner_mut().do_put(request).await?.into_inner();
    while results.message().await?.is_some() {}
    Ok(())
}

/// The messages of a whole ingest.
async fn messages(table: &str) -> Vec<FlightData> {
    let command = ingest_into(table, "create").as_any().encode_to_vec();
    FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command)))
        .build(stream::iter([Ok(pairs(0..100))]).boxed())
        .try_collect()
        .await
        .unwrap()
}

#[tokio::test]
async fn commands_and_tickets_that_are_none() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let random: Vec<u8> = (0..300_u32).map(|at| (at * 37 % 251) as u8).collect();
    for bytes in [Vec::new(), vec![0], vec![255; 64], random] {
        let status = client
            .inner_mut()
            .get_flight_info(FlightDescriptor::new_cmd(bytes.clone()));
        assert_eq!(status.await.err().unwrap().code(), Code::InvalidArgument);
        let status = client
            .inner_mut()
            .get_schema(FlightDescriptor::new_cmd(bytes.clone()))
            .await;
        assert_eq!(status.err().unwrap().code(), Code::InvalidArgument);
        let status = client.inner_mut().do_get(Ticket::new(bytes.clone())).await;
        assert_eq!(status.err().unwrap().code(), Code::InvalidArgument);
        let message = FlightData::new().with_descriptor(FlightDescriptor::new_cmd(bytes));
        let status = put(&mut client, vec![message]).await.err().unwrap();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
    assert!(put(&mut client, Vec::new()).await.is_err());
    assert!(put(&mut client, vec![FlightData::new()]).await.is_err());
    let path = FlightDescriptor::new_path(vec!["t".to_owned()]);
    assert!(client.inner_mut().get_flight_info(path).await.is_err());
    for handle in ["", "x", "00000000000000000000000000000000", "grün"] {
        let ticket = TicketStatementQuery {
            statement_handle: handle.to_owned().into(),
        };
        let status = client
            .inner_mut()
            .do_get(Ticket::new(ticket.as_any().encode_to_vec()))
            .await;
        assert_eq!(status.err().unwrap().code(), Code::NotFound, "{handle}");
        let query = CommandPreparedStatementQuery {
            prepared_statement_handle: handle.to_owned().into(),
        };
        let descriptor = FlightDescriptor::new_cmd(query.as_any().encode_to_vec());
        let status = client
            .inner_mut()
            .get_flight_info(descriptor)
            .await
            .err()
            .unwrap();
        assert_eq!(refused(status).1, "26000", "{handle}");
        let update = CommandPreparedStatementUpdate {
            prepared_statement_handle: handle.to_owned().into(),
        };
        let descriptor = FlightDescriptor::new_cmd(update.as_any().encode_to_vec());
        let message = FlightData::new().with_descriptor(descriptor);
        assert_eq!(
            put(&mut client, vec![message]).await.err().unwrap().code(),
            Code::NotFound
        );
    }
    let query = CommandStatementUpdate {
        query: "SELECT 1".to_owned(),
        transaction_id: Some("no transaction".into()),
    };
    let message = FlightData::new()
        .with_descriptor(FlightDescriptor::new_cmd(query.as_any().encode_to_vec()));
    assert_eq!(
        refused(put(&mut client, vec![message]).await.err().unwrap()).1,
        "25P01"
    );
    assert_eq!(text(&mut client, "SELECT 1").await, "1");
    served.stop().await;
}

/// Frames that HTTP/2 passes over: nothing but how much was read is told from them.
#[tokio::test]
async fn little_is_read_of_a_connection_by_which_nobody_was_let_in() {
    let served = Served::start().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let beginning = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(beginning).await.unwrap();
    let mut frame = b"\0\x40\0\xf0\0\0\0\0\0".to_vec();
    frame.resize(frame.len() + 0x4000, 0);
    let (mut sent, most) = (0, 64 << 20);
    // The buffers of both sockets take some megabytes beyond what the server reads.
    while sent < most {
        let sending = tokio::time::timeout(Duration::from_secs(3), stream.write_all(&frame));
        match sending.await {
            Ok(written) => written.unwrap(),
            Err(_) => break,
        }
        sent += frame.len();
    }
    assert!(sent < most, "all {sent} bytes were read");
    let mut client = served.client().await;
    assert_eq!(text(&mut client, "SELECT 1").await, "1");
    // Of one by which somebody was, everything is.
    let long = format!("SELECT 2 /* {} */", "x".repeat(3 << 19));
    for _ in 0..4 {
        assert_eq!(text(&mut client, &long).await, "2");
    }
    drop(stream);
    served.stop().await;
}

#[tokio::test]
async fn messages_with_bytes_changed() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let whole = messages("good").await;
    assert_eq!(whole.len(), 2);
    put(&mut client, whole).await.unwrap();
    let mut table = 0;
    let mut try_with = async |change: &mut dyn FnMut(&mut Vec<FlightData>)| {
        table += 1;
        let mut changed = messages(&format!("t{table}")).await;
        change(&mut changed);
        // Whatever it comes to: it ends.
        let _ = put(&mut client, changed).await;
    };
    let lengths: Vec<usize> = {
        let whole = messages("x").await;
        whole
            .iter()
            .map(|message| message.data_header.len())
            .collect()
    };
    for (at, length) in lengths.into_iter().enumerate() {
        for byte in (0..length).step_by(3) {
            for value in [0x00, 0x7f, 0xff] {
                try_with(&mut |messages| {
                    let mut header = messages[at].data_header.to_vec();
                    header[byte] = value;
                    messages[at].data_header = header.into();
                })
                .await;
            }
        }
        for cut in [0, 1, 8, length / 2, length - 1] {
            try_with(&mut |messages| {
                messages[at].data_header = messages[at].data_header.slice(..cut);
            })
            .await;
        }
    }
    for cut in [0, 1, 64, 500] {
        try_with(&mut |messages| {
            let body = messages[1].data_body.clone();
            messages[1].data_body = body.slice(..cut.min(body.len()));
        })
        .await;
    }
    // Texts that are none.
    try_with(&mut |messages| {
        messages[1].data_body = vec![0xff; messages[1].data_body.len()].into();
    })
    .await;
    // The schema twice; a batch before it; no schema at all.
    try_with(&mut |messages| messages.insert(1, messages[0].clone())).await;
    try_with(&mut |messages| {
        let descriptor = messages[0].flight_descriptor.take();
        messages.swap(0, 1);
        messages[0].flight_descriptor = descriptor;
    })
    .await;
    try_with(&mut |messages| {
        messages[0].data_header = Default::default();
        messages.truncate(1);
    })
    .await;
    assert_eq!(text(&mut client, "SELECT count(*) FROM good").await, "100");
    served.stop().await;
}

#[tokio::test]
async fn headers_that_mean_nothing() {
    let served = Served::start().await;
    served.sql("CREATE TABLE t (k INT PRIMARY KEY)").await;
    for (name, value) in [
        ("lazybase-session", "x"),
        ("lazybase-session", "f0.lb1-0-0-0-0"),
        ("authorization", "Basic !!!"),
        ("authorization", "Basic bm9jb2xvbg"),
        ("authorization", "Digest x"),
        ("cookie", "lazybase-session=nonsense"),
        ("lazybase-batch-number", "-1"),
        ("lazybase-after", "lb1-0-0-0-0"),
        ("lazybase-on-miss", "guess"),
        ("lazybase-timeout", "soon"),
    ] {
        let mut client = served.client().await;
        client.set_header(name, value);
        let refusal = crate::served::query(&mut client, "SELECT 1").await;
        let sql = "SELECT count(*) FROM t";
        let refusal = match refusal {
            Ok(_) => crate::served::query(&mut client, sql).await.map(|_| ()),
            Err(error) => Err(error),
        };
        let (code, sqlstate, message) = crate::served::failure(refusal);
        let expected = [Code::InvalidArgument, Code::Unauthenticated];
        assert!(
            expected.contains(&code),
            "{name}: {value}: {code:?} {sqlstate} {message}"
        );
    }
    let mut client = served.client().await;
    client.set_header("cookie", "a=b; lazybase-session=; c");
    assert_eq!(text(&mut client, "SELECT 1").await, "1");
    let huge = "x".repeat(300_000);
    let refused = crate::served::query(&mut client, &format!("SELECT {huge}")).await;
    let (_, _, message) = crate::served::failure(refused);
    assert!(message.len() < 10_000, "{}", message.len());
    assert_eq!(text(&mut client, "SELECT 1").await, "1");
    served.stop().await;
}
