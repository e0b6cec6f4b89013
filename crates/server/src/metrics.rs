//! The figures for Prometheus.
//!
//! ```text
//!   statements, connections, commits --facade--> the recorder --+
//!   manifest, status, pins, process  --at the scrape-----------> a fresh recorder --> text
//! ```
//!
//! What happens is recorded where it happens; what is, is read when somebody asks, into a recorder
//! of its own, so that nothing stays of tables that are gone. Invariant MET-1: every metric stands
//! in `list.rs`, with its meaning.

use std::time::Duration;

use lazybase_model::{Error, Result};
use lazybase_query::observe;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::pages::Health;
use crate::wall;

mod list;
mod process;
mod scrape;

use list::{Kind, METRICS};

/// How often samples are gathered when nobody asks for them.
const UPKEEP: Duration = Duration::from_secs(5);

/// What gathers and shows. Clones are the same.
#[derive(Clone)]
pub(crate) struct Recorder {
    handle: PrometheusHandle,
    started_micros: i64,
}

impl Recorder {
    /// Takes what the process records from here on.
    ///
    /// # Errors
    /// `Internal` when something else does already.
    pub(crate) fn install() -> Result<Recorder> {
        let recorder = builder()?.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder)
            .map_err(|error| Error::internal(format!("metrics can't begin: {error}")))?;
        list::describe();
        observe::begin();
        Ok(Recorder {
            handle,
            started_micros: wall::now_micros(),
        })
    }

    /// Gathers samples now and then, so that they don't pile up where nobody scrapes.
    pub(crate) fn upkeep(&self) -> impl Future<Output = ()> + Send + use<> {
        let handle = self.handle.clone();
        async move {
            loop {
                wall::sleep(UPKEEP).await;
                handle.run_upkeep();
            }
        }
    }

    /// All figures as Prometheus reads them.
    pub(crate) fn render(&self, health: &Health) -> String {
        let now = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&now, || {
            list::describe();
            process::read(self.started_micros);
            scrape::read(health);
        });
        self.handle.render() + &with_types(&now.handle().render())
    }
}

fn builder() -> Result<PrometheusBuilder> {
    let histograms = METRICS
        .iter()
        .filter(|metric| metric.kind == Kind::Histogram);
    let mut builder = PrometheusBuilder::new();
    for metric in histograms {
        let name = Matcher::Full(metric.name.to_owned());
        builder = builder
            .set_buckets_for_metric(name, metric.buckets)
            .map_err(|error| Error::internal(error.to_string()))?;
    }
    Ok(builder)
}

/// The facade's counters are whole numbers: those that are not are recorded as gauges, and called
/// counters here.
fn with_types(text: &str) -> String {
    // As Prometheus writes what has no bound.
    let mut text = text.replace(" inf\n", " +Inf\n");
    for metric in METRICS {
        if metric.kind == Kind::FloatCounter {
            let gauge = format!("# TYPE {} gauge\n", metric.name);
            text = text.replace(&gauge, &format!("# TYPE {} counter\n", metric.name));
        }
    }
    text
}

#[cfg(test)]
mod tests;
