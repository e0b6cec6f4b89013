//! Health and metrics as pages: `/health`, `/ready`, `/metrics`.
//!
//! Reads the state of the server and of the database; writes nothing. Invariant HTTP-1: `/ready`
//! is 200 only while statements are taken and batches can be made durable. `/health` stays 200
//! where they can't: readers are served, and whoever watches it may end the process. Who is shown
//! the pages is asked in `guard`; how many at a time, and for how long, is said in `door`.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Router, middleware};
use lazybase_engine::env::FailedSync;
use lazybase_query::Database;

use crate::wall;

mod door;
pub(crate) mod fuzz;
mod guard;

pub use door::Door;
pub use guard::{Guard, Peer};

/// Where in its life the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The database is not open yet.
    Starting,
    /// Statements are taken.
    Ready,
    /// It was told to stop.
    Stopping,
}

/// What tells how the server is. Clones are the same.
#[derive(Clone, Default)]
pub struct Health(Arc<HealthParts>);

#[derive(Default)]
struct HealthParts {
    phase: AtomicU8,
    database: OnceLock<Database>,
}

impl Health {
    /// The database is there to be asked.
    pub fn opened(&self, database: &Database) {
        // A server opens one database.
        let _ = self.0.database.set(database.clone());
    }

    /// The server comes to another phase of its life.
    pub fn enter(&self, phase: Phase) {
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
    pub fn database(&self) -> Option<&Database> {
        self.0.database.get()
    }

    /// Why the server is not ready, if it is not.
    pub fn not_ready(&self) -> Option<String> {
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

/// What makes the figures of `/metrics`.
pub type Figures = Arc<dyn Fn(&Health) -> String + Send + Sync>;

/// The pages, for those whom the guard lets in.
pub fn router(guard: Guard, figures: Figures) -> Router {
    let shared = Shared {
        health: guard.health.clone(),
        figures,
    };
    Router::new()
        .route("/", get(index))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .fallback(absent)
        .with_state(shared)
        .layer(middleware::from_fn_with_state(guard, guard::admit))
}

#[derive(Clone)]
struct Shared {
    health: Health,
    figures: Figures,
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
    let scraped = wall::spawn_blocking(move || (shared.figures)(&shared.health)).await;
    match scraped {
        Ok(text) => (StatusCode::OK, [(header::CONTENT_TYPE, PROMETHEUS)], text),
        Err(error) => {
            let text = format!("the figures can't be had: {error}\n");
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            (code, [(header::CONTENT_TYPE, "text/plain")], text)
        }
    }
}
