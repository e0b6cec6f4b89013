//! Traces of statements and stages, sent to a collector over OTLP.
//!
//! Spans are made where the work is done (`lazybase-query`, `lazybase-cluster`); here they are
//! only passed on, in batches, beside the work. What a collector does not take is dropped.

use std::time::Duration;

use lazybase_cluster::SPAN_LINKS_MAX;
use lazybase_model::{Error, Result};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

/// How long a collector may take for a batch of spans.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What sends traces.
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Begins to send to an endpoint such as `http://127.0.0.1:4317`.
    pub(crate) fn begin(endpoint: &str) -> Result<Traces> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(|error| Error::invalid(format!("--trace-endpoint {endpoint}: {error}")))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_max_links_per_span(SPAN_LINKS_MAX)
            .with_resource(Resource::builder().with_service_name("lazybase").build())
            .build();
        lazybase_query::observe::trace_tasks();
        Ok(Traces(provider))
    }

    /// Makes traces of our own spans.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'s> LookupSpan<'s>,
    {
        let ours =
            filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("lazybase"));
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("lazybase"))
            .with_location(false)
            .with_threads(false)
            .with_filter(ours)
    }

    /// Sends what is left.
    pub(crate) fn end(self) {
        if let Err(error) = self.0.shutdown_with_timeout(TIMEOUT) {
            tracing::warn!("the last traces were not sent: {error}");
        }
    }
}
