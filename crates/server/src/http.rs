//! Health and metrics over HTTP: `/health`, `/ready`, `/metrics`.
//!
//! Reads the state of the server and of the database; writes nothing. Invariant HTTP-1: `/ready`
//! is 200 only while statements are taken and batches can be made durable. `/health` stays 200
//! where they can't: readers are served, and whoever watches it may end the process. Who is shown
//! the pages is asked in `guard`; how many at a time, and for how long, is said in `door`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener as _;
use axum::{Router, middleware};
use lazybase_engine::env::FailedSync;
use lazybase_model::{Error, Result};
use lazybase_query::Database;
use lazybase_tls::{Listener, Tls};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::metrics::Recorder;
use crate::wall;

mod door;
mod guard;

use door::Door;
use guard::{Guard, Peer};

/// Where in its life the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The database is not open yet.
    Starting,
    /// Statements are taken.
    Ready,
    /// It was told to stop.
    Stopping,
}

/// What tells how the server is. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Health(Arc<HealthParts>);

#[derive(Default)]
struct HealthParts {
    phase: AtomicU8,
    database: OnceLock<Database>,
}

impl Health {
    /// The database is there to be asked.
    pub(crate) fn opened(&self, database: &Database) {
        // A server opens one database.
        let _ = self.0.database.set(database.clone());
    }

    /// The server comes to another phase of its life.
    pub(crate) fn enter(&self, phase: Phase) {
        self.0.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        match self.0.phase.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Stopping,
        }
    }

    /// The database, once it is open.
    pub(crate) fn database(&self) -> Option<&Database> {
        self.0.database.get()
    }

    /// Why the server is not ready, if it is not.
    pub(crate) fn not_ready(&self) -> Option<String> {
        match self.phase() {
            Phase::Starting => return Some("starting: the database is being opened".to_owned()),
            Phase::Stopping => return Some("stopping".to_owned()),
            Phase::Ready => {}
        }
        let status = self.database()?.instance().status();
        let failed_sync = status.failed_sync.map(|failed| failed.to_string());
        let failing = failed_sync.or(status.ingest.failing)?;
        Some(format!("batches can't be made durable: {failing}"))
    }

    /// The sync that failed and after which no batch can be made durable, if there was one.
    fn failed_sync(&self) -> Option<FailedSync> {
        self.database()?.instance().env().store.failed_sync()
    }
}

/// The name of the protocol in TLS.
const HTTP1: &str = "http/1.1";

/// What serves HTTP, if anything does.
pub(crate) struct Http {
    told: String,
    serving: Vec<JoinHandle<()>>,
}

impl Http {
    /// Begins to serve where the configuration says, so many connections at a time.
    ///
    /// # Errors
    /// `Unavailable` when an address that somebody chose can't be had.
    pub(crate) async fn open(
        config: &Config,
        health: &Health,
        tls: Option<Arc<Tls>>,
        connections_max: usize,
    ) -> Result<Http> {
        let Some(address) = config.http_listen else {
            return Ok(Http::none("HTTP: off"));
        };
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let guard = Guard {
                    health: health.clone(),
                    asks: config.http_client_cert,
                    trusts_loopback: config.trust_loopback,
                };
                let encrypts = tls.is_some();
                let listener = Listener::new(listener, tls, &[HTTP1]);
                Http::serve(Door::new(listener, connections_max), guard, encrypts)
            }
            // An address that nobody asked for is no reason not to serve the database.
            Err(error) if !config.is_given("http_listen") => Ok(Http::none(&format!(
                "HTTP: off, for {address} can't be had ({error}); choose one with --http-listen"
            ))),
            Err(error) => Err(cannot_listen(address, &error)),
        }
    }

    fn none(told: &str) -> Http {
        Http {
            told: told.to_owned(),
            serving: Vec::new(),
        }
    }

    fn serve(listener: Door, guard: Guard, encrypts: bool) -> Result<Http> {
        let address = listener.local_addr();
        let address = address.map_err(|error| {
            Error::unavailable(format!("the address of HTTP is not known: {error}"))
        })?;
        let scheme = if encrypts { "https" } else { "http" };
        let recorder = Recorder::install()?;
        let shared = Shared {
            health: guard.health.clone(),
            recorder: recorder.clone(),
        };
        let whom = if guard.asks {
            " (with a certificate)"
        } else {
            ""
        };
        let router = Router::new()
            .route("/", get(index))
            .route("/health", get(health))
            .route("/ready", get(ready))
            .route("/metrics", get(metrics))
            .fallback(absent)
            .with_state(shared)
            .layer(middleware::from_fn_with_state(guard, guard::admit))
            .into_make_service_with_connect_info::<Peer>();
        let serving = wall::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!("HTTP has ended: {error}");
            }
        });
        Ok(Http {
            told: format!("HTTP: {scheme}://{address}/health, /ready, /metrics{whom}"),
            serving: vec![serving, wall::spawn(recorder.upkeep())],
        })
    }

    /// Where it serves, for people.
    pub(crate) fn told(&self) -> String {
        self.told.clone()
    }

    /// Ends it.
    pub(crate) fn close(self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Error {
    Error::unavailable(format!("can't listen on {address}: {error}"))
        .with_hint("choose another address: --http-listen 127.0.0.1:8089, or off")
}

#[derive(Clone)]
struct Shared {
    health: Health,
    recorder: Recorder,
}

async fn index() -> &'static str {
    "LazyBase\n\n\
     /health   200 while the process is alive, and whether it must be restarted\n\
     /ready    200 while it takes statements, else 503 with the reason\n\
     /metrics  for Prometheus\n"
}

async fn absent() -> impl IntoResponse {
    let told = "there is no such page: / lists those that there are\n";
    (StatusCode::NOT_FOUND, told)
}

async fn health(State(shared): State<Shared>) -> String {
    match shared.health.failed_sync() {
        None => "alive\n".to_owned(),
        Some(failed) => format!("alive, for readers: {failed}\n"),
    }
}

async fn ready(State(shared): State<Shared>) -> impl IntoResponse {
    match shared.health.not_ready() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// The content type of Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    // Sizes of files are asked of the system: no thread that serves clients waits for that.
    let scraped = wall::spawn_blocking(move || shared.recorder.render(&shared.health)).await;
    match scraped {
        Ok(text) => (StatusCode::OK, [(header::CONTENT_TYPE, PROMETHEUS)], text),
        Err(error) => {
            let text = format!("the figures can't be had: {error}\n");
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            (code, [(header::CONTENT_TYPE, "text/plain")], text)
        }
    }
}

#[cfg(test)]
mod tests;
