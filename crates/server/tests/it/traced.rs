//! Traces over OTLP: a collector in this process hears of a statement's parts, and of an SCU's
//! way through the stages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

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

/// The names of the spans below one, however deep.
fn below(spans: &[Span], root: &Span) -> Vec<String> {
    let mut names = Vec::new();
    let mut ids = vec![root.span_id.clone()];
    while let Some(id) = ids.pop() {
        for span in spans.iter().filter(|span| span.parent_span_id == id) {
            assert_eq!(span.trace_id, root.trace_id);
            names.push(span.name.clone());
            ids.push(span.span_id.clone());
        }
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_and_stages_are_traced() {
    let collector = Collector::default();
    let endpoint = collector.listen().await;
    let place = Place::new();
    let server =
        tokio::task::block_in_place(|| Server::start(&place, &["--trace-endpoint", &endpoint]));
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
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
    // The span of an SCU ends when the manifest has it in the authority.
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(client);
    tokio::task::block_in_place(|| server.stop());
    let until = Instant::now() + PATIENCE;
    let spans = loop {
        let spans = collector.0.lock().unwrap().clone();
        if spans.iter().any(|span| span.name == "scu") {
            break spans;
        }
        assert!(Instant::now() < until, "{spans:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let statement = |text: &str| {
        let mut found = spans.iter().filter(|span| span.name == "statement");
        let found = found.find(|span| attribute(span, "db.statement").unwrap() == text);
        found.unwrap_or_else(|| panic!("{text}: {spans:?}"))
    };
    let query = statement("SELECT count(*) FROM t WHERE v = ?");
    let parts = below(&spans, query);
    for part in ["parse", "pin", "plan", "scan"] {
        assert!(parts.iter().any(|name| name == part), "{part}: {parts:?}");
    }
    assert!(attribute(query, "stamp").unwrap().contains("horizon"));
    let insert = statement("INSERT INTO t VALUES (?, ?)");
    let commits = spans.iter().filter(|span| span.name == "commit");
    let commits: BTreeMap<_, _> = commits.map(|span| (attribute(span, "scu"), span)).collect();
    assert!(below(&spans, insert).contains(&"commit".to_owned()));
    let mut scus = 0;
    for scu in spans.iter().filter(|span| span.name == "scu") {
        assert!(commits.contains_key(&attribute(scu, "scu")), "{spans:?}");
        let stages = below(&spans, scu);
        assert!(stages.contains(&"sort".to_owned()), "{stages:?}");
        scus += 1;
    }
    assert_eq!(scus, 2);
    assert!(
        spans.iter().any(|span| span.name == "authority"),
        "{spans:?}"
    );
    assert!(!format!("{spans:?}").contains("secret"));
}
