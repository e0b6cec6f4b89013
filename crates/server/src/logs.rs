//! Where events and spans of `lazybase serve` go: log lines on standard error, and traces.
//!
//! Events become lines, spans become traces: where no traces are wanted, no span is ever made.

use std::io::{self, IsTerminal};

use lazybase_model::{Error, Result};
use tracing::Subscriber;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::{EnvFilter, Registry, fmt};

use crate::config::{Config, LogFormat};
use crate::traces::Traces;

/// The target of the lines that say what is served, and where: they come at every level.
pub(crate) const TOLD: &str = "lazybase::told";

/// The log and the traces, until the end.
pub(crate) struct Watching {
    traces: Option<Traces>,
}

impl Watching {
    /// Begins to write log lines and to send traces. It must be called inside the runtime.
    ///
    /// # Errors
    /// `Invalid` for an endpoint that is none.
    pub(crate) fn begin(config: &Config) -> Result<Watching> {
        let traces = config.trace_endpoint.as_deref().map(Traces::begin);
        let traces = traces.transpose()?;
        tracing::subscriber::set_global_default(subscriber(config, traces.as_ref()))
            .map_err(|error| Error::internal(format!("the log can't begin: {error}")))?;
        Ok(Watching { traces })
    }

    /// Sends what is left of traces.
    pub(crate) fn end(self) {
        if let Some(traces) = self.traces {
            traces.end();
        }
    }
}

/// Who takes events and spans.
fn subscriber(config: &Config, traces: Option<&Traces>) -> Box<dyn Subscriber + Send + Sync> {
    let lines = Registry::default().with(lines(config));
    match traces {
        Some(traces) => Box::new(lines.with(traces.layer())),
        // A layer that is not there would still want all spans.
        None => Box::new(lines),
    }
}

/// Log lines on standard error.
fn lines(config: &Config) -> Box<dyn Layer<Registry> + Send + Sync> {
    let wanted = format!("{},{TOLD}=info", directives(&config.log_level));
    let wanted = EnvFilter::new(wanted);
    let wanted = wanted.and(filter_fn(|metadata| metadata.is_event()));
    let layer = fmt::layer().with_writer(io::stderr);
    match config.log_format {
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true);
            layer.with_current_span(false).with_filter(wanted).boxed()
        }
        LogFormat::Text => {
            let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            layer.with_ansi(colour).with_filter(wanted).boxed()
        }
    }
}

/// A level alone is that of our own events: of those of libraries only what went wrong is shown.
fn directives(level: &str) -> String {
    match level.contains(['=', ',']) {
        true => level.to_owned(),
        false if matches!(level, "off" | "error") => level.to_owned(),
        false => format!("warn,lazybase={level}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What somebody wants of an event is kept for all subscribers of the process: there is one of
    /// ours at a time.
    static ONE_SUBSCRIBER: Mutex<()> = Mutex::new(());

    #[test]
    fn without_traces_no_span_is_made_and_nothing_below_the_level() {
        let _alone = ONE_SUBSCRIBER.lock().unwrap();
        let quiet = subscriber(&Config::default(), None);
        tracing::subscriber::with_default(quiet, || {
            assert!(tracing::info_span!("statement").is_disabled());
            assert!(!tracing::event_enabled!(tracing::Level::DEBUG));
            assert!(tracing::event_enabled!(tracing::Level::INFO));
        });
    }

    #[test]
    fn what_is_served_is_told_at_every_level() {
        let _alone = ONE_SUBSCRIBER.lock().unwrap();
        for level in ["off", "error", "warn", "warn,lazybase=error", "debug"] {
            let mut config = Config::default();
            config.log_level = level.to_owned();
            config.log_format = LogFormat::Json;
            tracing::subscriber::with_default(subscriber(&config, None), || {
                assert!(tracing::event_enabled!(target: TOLD, tracing::Level::INFO));
                let info = tracing::event_enabled!(tracing::Level::INFO);
                assert_eq!(info, level == "debug", "{level}");
            });
        }
    }
}
