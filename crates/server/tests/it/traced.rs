//! Traces over OTLP: a collector in this process hears of a statement's parts, of an SCU's way
//! through the stages, and which batches went that way.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::SinkExt;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Link;
use tokio::task::block_in_place;
use tokio_postgres::{Client, NoTls};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::flight;
use crate::run::Place;
use crate::server::{PATIENCE, Server};

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        self.0
            .lock()
            .unwrap()
            .extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Begins to listen; gives its address.
    async fn listen(&self) -> String {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = incoming.local_addr().unwrap();
        let service = TraceServiceServer::new(self.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
        format!("http://{address}")
    }
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span
        .attributes
        .iter()
        .find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{key}: {other:?}"),
    }
}

/// An attribute that is a number.
fn number(span: &Span, key: &str) -> u64 {
    attribute(span, key).unwrap().parse().unwrap()
}

/// The spans of a name.
fn named<'s>(spans: &'s [Span], name: &str) -> impl Iterator<Item = &'s Span> {
    spans.iter().filter(move |span| span.name == name)
}

/// The spans of the statements with this text.
fn statements<'s>(spans: &'s [Span], text: &str) -> Vec<&'s Span> {
    let is = |span: &&Span| attribute(span, "db.statement").as_deref() == Some(text);
    let found: Vec<&Span> = named(spans, "statement").filter(is).collect();
    assert!(!found.is_empty(), "{text}: {spans:?}");
    found
}

/// The spans below one, however deep.
fn below<'s>(spans: &'s [Span], root: &Span) -> Vec<&'s Span> {
    let mut found = Vec::new();
    let mut ids = vec![root.span_id.clone()];
    while let Some(id) = ids.pop() {
        for span in spans.iter().filter(|span| span.parent_span_id == id) {
            assert_eq!(span.trace_id, root.trace_id);
            found.push(span);
            ids.push(span.span_id.clone());
        }
    }
    found
}

/// Whether a span is right below another one, or linked with it.
fn belongs(span: &Span, to: &Span) -> bool {
    let is = |link: &Link| link.trace_id == to.trace_id && link.span_id == to.span_id;
    span.parent_span_id == to.span_id || span.links.iter().any(is)
}

/// A server that sends its traces to a collector.
async fn start(place: &Place, args: &[&str]) -> (Server, Collector) {
    let collector = Collector::default();
    let endpoint = collector.listen().await;
    let args = [&["--trace-endpoint", &endpoint], args].concat();
    let server = block_in_place(|| Server::start(place, &args));
    (server, collector)
}

/// What a server has sent, once it has stopped.
async fn sent(server: Server, collector: &Collector) -> Vec<Span> {
    // The span of an SCU ends when the manifest has it in the authority.
    tokio::time::sleep(Duration::from_millis(300)).await;
    block_in_place(|| server.stop());
    let until = Instant::now() + PATIENCE;
    loop {
        let spans = collector.0.lock().unwrap().clone();
        if spans.iter().any(|span| span.name == "scu") {
            return spans;
        }
        assert!(Instant::now() < until, "{spans:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn connect(server: &Server) -> Client {
    let connected = tokio_postgres::connect(&server.url(), NoTls).await;
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_and_stages_are_traced() {
    let place = Place::new();
    let (server, collector) = start(&place, &[]).await;
    let client = connect(&server).await;
    for sql in [
        "CREATE TABLE t (k INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t VALUES (1, 'secret')",
        "SETTLE",
        "INSERT INTO t VALUES (2, 'b')",
        "SETTLE",
        "SELECT count(*) FROM t WHERE v = 'secret'",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    drop(client);
    let spans = sent(server, &collector).await;
    let query = statements(&spans, "SELECT count(*) FROM t WHERE v = ?")[0];
    let parts = below(&spans, query);
    for part in ["parse", "pin", "plan", "scan"] {
        assert!(parts.iter().any(|span| span.name == part), "{parts:?}");
    }
    assert!(attribute(query, "stamp").unwrap().contains("horizon"));
    let insert = statements(&spans, "INSERT INTO t VALUES (?, ?)")[0];
    let parts = below(&spans, insert);
    assert!(parts.iter().any(|span| span.name == "commit"), "{parts:?}");
    let commits = named(&spans, "commit").map(|span| attribute(span, "scu"));
    let commits: BTreeSet<_> = commits.collect();
    for scu in named(&spans, "scu") {
        assert!(commits.contains(&attribute(scu, "scu")), "{spans:?}");
        let stages = below(&spans, scu);
        assert!(stages.iter().any(|span| span.name == "sort"), "{stages:?}");
    }
    assert_eq!(named(&spans, "scu").count(), 2);
    assert!(named(&spans, "authority").count() > 0, "{spans:?}");
    assert!(!format!("{spans:?}").contains("secret"));
}

/// Batches of which each is sealed and sorted by itself.
const BATCHES: usize = 9;

/// Two rows for the table `t`, over COPY.
async fn copy(client: &Client) {
    let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN").await;
    let mut sink = pin!(sink.unwrap());
    let rows = Bytes::from("100\tsecret\n101\tsecret\n");
    sink.send(rows).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 2);
}

/// Writes by every way, then has all of it merged.
async fn write(server: &Server) {
    let client = connect(server).await;
    let mut putting = flight::connect(server).await;
    for sql in [
        "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)",
        "CREATE TABLE files (id IDKEY, path TEXT, PRIMARY KEY (path))",
        "CREATE TABLE sizes (file_id IDKEY REFERENCES files, at INT, PRIMARY KEY (file_id, at))",
        "PAUSE STAGE MERGE",
        "PAUSE STAGE AUTHORITY",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    for batch in 0..BATCHES {
        match batch {
            2 => copy(&client).await,
            4 => {
                let keyed = "INSERT INTO sizes VALUES (IDKEY('secret'), 1)";
                client.batch_execute(keyed).await.unwrap();
            }
            6 => {
                let put = flight::put(&mut putting, "t", flight::rows(200..210)).await;
                assert_eq!(put, 10);
            }
            _ => {
                let insert = format!("INSERT INTO t VALUES ({batch}, 'secret')");
                client.batch_execute(&insert).await.unwrap();
            }
        }
        client.batch_execute("SETTLE TO SORTED").await.unwrap();
    }
    for sql in ["RESUME STAGE MERGE", "RESUME STAGE AUTHORITY", "SETTLE"] {
        client.batch_execute(sql).await.unwrap();
    }
}

/// With a fan-in of 2, more than six runs are joined by pairs before they go to the authority.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_followed_from_its_statement_to_the_authority() {
    let place = Place::new();
    let (server, collector) = start(&place, &["--merge-fan-in", "2"]).await;
    write(&server).await;
    let spans = sent(server, &collector).await;
    let scus = named(&spans, "scu").map(|scu| (number(scu, "scu"), scu));
    let scus: BTreeMap<u64, &Span> = scus.collect();
    assert_eq!(scus.len(), BATCHES, "{spans:?}");
    for (text, batches) in [
        ("INSERT INTO t VALUES (?, ?)", BATCHES - 3),
        ("COPY t FROM STDIN", 1),
        ("INGEST INTO t", 1),
        ("INSERT INTO sizes VALUES (IDKEY(?), ?)", 1),
    ] {
        let found = statements(&spans, text);
        assert_eq!(found.len(), batches, "{text}");
        for statement in found {
            let parts = below(&spans, statement);
            assert!(parts.iter().any(|span| span.name == "commit"), "{parts:?}");
            let open = parts.iter().find(|span| span.name == "open");
            let open = open.unwrap_or_else(|| panic!("{text}: {parts:?}"));
            let scu = scus[&number(open, "scu")];
            assert!(belongs(scu, open), "{text}: {scu:?}");
            let attempts = spans.iter().filter(|span| belongs(span, scu));
            let attempts: BTreeSet<&str> = attempts.map(|span| span.name.as_str()).collect();
            let remapped = text.contains("IDKEY").then_some("remap");
            for stage in ["sort", "authority"].into_iter().chain(remapped) {
                assert!(attempts.contains(stage), "{text}: {attempts:?}");
            }
        }
    }
    // What joins several SCUs belongs to each of them.
    assert!(named(&spans, "merge").count() > 0, "{spans:?}");
    for merge in named(&spans, "merge") {
        let (first, last) = (number(merge, "first_scu"), number(merge, "last_scu"));
        assert!(first < last, "{merge:?}");
        for (_, scu) in scus.range(first..=last) {
            assert!(belongs(merge, scu), "{merge:?}: {scu:?}");
        }
    }
    assert!(!format!("{spans:?}").contains("secret"));
}
