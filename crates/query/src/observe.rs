//! What is counted, logged and traced of statements and connections.
//!
//! ```text
//!   statement, ingest -> Watch -> histograms by kind and freshness    (the facade `metrics`)
//!                              -> a debug event, a slow-query event   (`tracing`)
//!                              -> a span, with parse, pin, plan, scan, commit below it
//! ```
//!
//! Writes to the recorder and the subscriber of the process, if it has any; without them it costs
//! next to nothing. Invariant OBS-1: neither values of rows nor passwords leave through it: the
//! text of a statement is shown with its constants masked.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use datafusion::common::runtime::set_join_set_tracer;
use lazybase_engine::env::Clock;
use lazybase_model::{Error, Freshness, Stamp};
use metrics::{Counter, Histogram, counter, gauge, histogram};
use tracing::Span;

use crate::activity::Activity;
use crate::session::Shared;

mod mask;
mod tasks;

pub use mask::masked;

/// The names under which the recorder gets them.
pub mod names {
    /// How long statements took, by kind and freshness.
    pub const QUERY_SECONDS: &str = "lazybase_query_duration_seconds";
    /// Rows that statements returned.
    pub const ROWS_RETURNED: &str = "lazybase_query_rows_returned_total";
    /// Bytes that statements fetched from the store.
    pub const READ_BYTES: &str = "lazybase_query_read_bytes_total";
    /// Extents that statements read.
    pub const EXTENTS_READ: &str = "lazybase_query_extents_read_total";
    /// Extents that statements could skip.
    pub const EXTENTS_PRUNED: &str = "lazybase_query_extents_pruned_total";
    /// How stale answers were.
    pub const STALENESS_SECONDS: &str = "lazybase_query_staleness_seconds";
    /// How stale answers were allowed to be.
    pub const ASKED_SECONDS: &str = "lazybase_query_freshness_asked_seconds";
    /// Statements that took longer than the threshold.
    pub const SLOW: &str = "lazybase_slow_queries_total";
    /// How long heavy statements waited for their turn.
    pub const HEAVY_WAIT_SECONDS: &str = "lazybase_heavy_wait_seconds";
    /// Heavy statements that were refused, because too many waited.
    pub const HEAVY_REFUSED: &str = "lazybase_heavy_refused_total";
    /// Errors that clients were told, by the class of their SQLSTATE.
    pub const ERRORS: &str = "lazybase_errors_total";
    /// Connections that are open, by protocol.
    pub const CONNECTIONS: &str = "lazybase_connections";
    /// Connections that were ever opened, by protocol.
    pub const CONNECTIONS_OPENED: &str = "lazybase_connections_opened_total";
    /// How long commits of batches took.
    pub const COMMIT_SECONDS: &str = "lazybase_ingest_commit_duration_seconds";
    /// Rows of acknowledged batches.
    pub const ROWS_INGESTED: &str = "lazybase_ingest_rows_total";
}

/// What a statement is, for its latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads rows by full keys, past the planner.
    Point,
    /// It reads.
    Scan,
    /// It writes rows.
    Write,
    /// It changes tables or views.
    Definition,
    /// Settings, transactions, operations.
    Other,
}

/// The first words of what writes. An ingest has no text but the one that it is shown by.
const WRITES: [&str; 7] = [
    "INSERT", "UPDATE", "DELETE", "MERGE", "COMMIT", "END", "INGEST",
];

impl Kind {
    const ALL: [Kind; 5] = [
        Kind::Point,
        Kind::Scan,
        Kind::Write,
        Kind::Definition,
        Kind::Other,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Point => "point",
            Kind::Scan => "scan",
            Kind::Write => "write",
            Kind::Definition => "definition",
            Kind::Other => "other",
        }
    }

    /// What a statement is by its first words.
    fn of(sql: &str) -> Kind {
        let mut words = mask::words(sql);
        let first = words.next().unwrap_or_default();
        let is = |known: &[&str]| known.iter().any(|word| first.eq_ignore_ascii_case(word));
        match () {
            () if is(&["SELECT", "WITH", "VALUES", "TABLE"]) => Kind::Scan,
            () if is(&WRITES) => Kind::Write,
            () if is(&["COPY"]) => match words.any(|word| word.eq_ignore_ascii_case("from")) {
                true => Kind::Write,
                false => Kind::Scan,
            },
            () if is(&["CREATE", "ALTER", "DROP", "TRUNCATE", "COMMENT"]) => Kind::Definition,
            () => Kind::Other,
        }
    }
}

/// What a statement asked of freshness, by class.
const CLASSES: [&str; 4] = ["0", "bounded", "best_effort", "none"];

fn class(asked: Option<Freshness>) -> usize {
    match asked {
        Some(Freshness::Within(bound)) if bound.is_zero() => 0,
        Some(Freshness::Within(_)) => 1,
        Some(Freshness::BestEffort) => 2,
        None => 3,
    }
}

/// The recorder's handles, taken once.
struct Handles {
    seconds: Vec<Histogram>,
    staleness: Vec<Histogram>,
    asked: Histogram,
    rows: Counter,
    bytes: Counter,
    extents: Counter,
    pruned: Counter,
    slow: Counter,
    heavy_wait: Histogram,
    heavy_refused: Counter,
    commit: Histogram,
    ingested: Counter,
}

static HANDLES: LazyLock<Handles> = LazyLock::new(|| {
    let kinds = Kind::ALL.iter().flat_map(|kind| {
        let of = |class: &&'static str| {
            histogram!(names::QUERY_SECONDS, "kind" => kind.name(), "freshness" => *class)
        };
        CLASSES.iter().map(of).collect::<Vec<_>>()
    });
    Handles {
        seconds: kinds.collect(),
        staleness: CLASSES[..3]
            .iter()
            .map(|class| histogram!(names::STALENESS_SECONDS, "freshness" => *class))
            .collect(),
        asked: histogram!(names::ASKED_SECONDS),
        rows: counter!(names::ROWS_RETURNED),
        bytes: counter!(names::READ_BYTES),
        extents: counter!(names::EXTENTS_READ),
        pruned: counter!(names::EXTENTS_PRUNED),
        slow: counter!(names::SLOW),
        heavy_wait: histogram!(names::HEAVY_WAIT_SECONDS),
        heavy_refused: counter!(names::HEAVY_REFUSED),
        commit: histogram!(names::COMMIT_SECONDS),
        ingested: counter!(names::ROWS_INGESTED),
    }
});

/// Registers what is counted, so that it is there before anything happens. Call it once, after
/// the recorder was installed.
pub fn begin() {
    LazyLock::force(&HANDLES);
}

/// What the planner does in tasks of its own becomes part of the statement's trace. Only for those
/// who want traces: it costs an allocation for each task.
pub fn trace_tasks() {
    // Set once: a second call changes nothing.
    let _ = set_join_set_tracer(&tasks::InSpan);
}

/// A client was told an error.
pub fn failed(protocol: &'static str, error: &Error) {
    let sqlstate = error.sqlstate();
    let class = &sqlstate[..2.min(sqlstate.len())];
    counter!(names::ERRORS, "protocol" => protocol, "class" => class.to_owned()).increment(1);
    tracing::debug!(protocol, sqlstate, "error");
}

/// A connection: it counts as open for as long as this lives.
#[derive(Debug)]
pub struct Connected(&'static str);

impl Connected {
    /// One more connection of a protocol.
    pub fn new(protocol: &'static str) -> Connected {
        gauge!(names::CONNECTIONS, "protocol" => protocol).increment(1.0);
        counter!(names::CONNECTIONS_OPENED, "protocol" => protocol).increment(1);
        Connected(protocol)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        gauge!(names::CONNECTIONS, "protocol" => self.0).decrement(1.0);
    }
}

/// A batch was acknowledged.
pub(crate) fn committed(took: Duration, rows: u64) {
    HANDLES.commit.record(took.as_secs_f64());
    HANDLES.ingested.increment(rows);
}

/// A heavy statement has waited for its turn.
pub(crate) fn heavy_waited(time: Duration) {
    HANDLES.heavy_wait.record(time.as_secs_f64());
}

/// A heavy statement was refused.
pub(crate) fn heavy_refused() {
    HANDLES.heavy_refused.increment(1);
}

/// The span of a statement that is read, to be run later.
pub(crate) fn preparing(sql: &str) -> Span {
    let span = tracing::info_span!("prepare", db.statement = tracing::field::Empty);
    if !span.is_disabled() {
        span.record("db.statement", masked(sql));
    }
    span
}

/// One statement, or one ingest, from its beginning until its last row was taken.
pub(crate) struct Watch {
    clock: Arc<dyn Clock>,
    started: Duration,
    kind: Kind,
    sql: Arc<str>,
    /// Where others see that it runs.
    activity: Option<Arc<Activity>>,
    slow: Option<Duration>,
    span: Span,
    rows: u64,
    ended: bool,
}

impl Watch {
    /// A statement begins.
    pub(crate) fn begin(session: &Shared, sql: impl Into<Arc<str>>) -> Watch {
        let clock = Arc::clone(&session.instance().env().clock);
        let sql = sql.into();
        let kind = Kind::of(&sql);
        let span = tracing::info_span!(
            "statement",
            otel.kind = "server",
            db.system = "lazybase",
            db.statement = tracing::field::Empty,
            kind = tracing::field::Empty,
            rows = tracing::field::Empty,
            stamp = tracing::field::Empty,
            bytes_read = tracing::field::Empty,
            sqlstate = tracing::field::Empty,
        );
        if !span.is_disabled() {
            span.record("db.statement", masked(&sql));
        }
        let activity = session.activity();
        if let Some(activity) = &activity {
            activity.begins(Arc::clone(&sql), clock.wall_micros());
        }
        Watch {
            started: clock.monotonic(),
            clock,
            kind,
            sql,
            activity,
            slow: session.slow_query(),
            span,
            rows: 0,
            ended: false,
        }
    }

    /// What belongs to the statement is done inside of this.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// It reads rows by their keys.
    pub(crate) fn is_point(&mut self) {
        self.kind = Kind::Point;
    }

    /// It gave more rows.
    pub(crate) fn more(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// It has ended well; rows that were written are no rows returned.
    pub(crate) fn end(mut self, stamp: Option<&Stamp>) {
        self.finish(stamp, None);
    }

    /// It has failed.
    pub(crate) fn fail(mut self, error: &Error) {
        self.finish(None, Some(error.sqlstate()));
    }

    fn finish(&mut self, stamp: Option<&Stamp>, failed: Option<&'static str>) {
        self.ended = true;
        if let Some(activity) = &self.activity {
            activity.ends(self.clock.wall_micros());
        }
        let took = self.clock.monotonic().saturating_sub(self.started);
        self.count(took, stamp);
        self.tell_span(stamp, failed);
        if self.slow.is_some_and(|slow| took >= slow) {
            HANDLES.slow.increment(1);
            self.tell_slow(took, stamp, failed);
            return;
        }
        // Masked only where somebody listens.
        tracing::debug!(
            kind = self.kind.name(),
            elapsed_us = micros(took),
            rows = self.rows,
            sqlstate = failed.unwrap_or("00000"),
            statement = masked(&self.sql),
            "statement"
        );
    }

    fn count(&self, took: Duration, stamp: Option<&Stamp>) {
        // A point of the past is as stale as it was asked to be, whatever the bound.
        let stamp_of_now = stamp.filter(|stamp| stamp.as_of_asked.is_none());
        let class = class(stamp_of_now.map(|stamp| stamp.freshness_asked));
        let handles = &*HANDLES;
        let at = self.kind as usize * CLASSES.len() + class;
        handles.seconds[at].record(took.as_secs_f64());
        handles.rows.increment(self.rows);
        let Some(stamp) = stamp else {
            return;
        };
        if let Some(staleness) = handles.staleness.get(class) {
            staleness.record(stamp.staleness.as_secs_f64());
        }
        if let (1, Freshness::Within(asked)) = (class, stamp.freshness_asked) {
            handles.asked.record(asked.as_secs_f64());
        }
        handles.bytes.increment(stamp.sources.bytes_read);
        handles.extents.increment(stamp.sources.extents_read);
        handles.pruned.increment(stamp.sources.extents_pruned);
    }

    fn tell_span(&self, stamp: Option<&Stamp>, failed: Option<&'static str>) {
        if self.span.is_disabled() {
            return;
        }
        self.span.record("rows", self.rows);
        self.span.record("kind", self.kind.name());
        if let Some(stamp) = stamp {
            self.span.record("stamp", stamp.to_string());
            self.span.record("bytes_read", stamp.sources.bytes_read);
        }
        if let Some(sqlstate) = failed {
            self.span.record("sqlstate", sqlstate);
        }
    }

    fn tell_slow(&self, took: Duration, stamp: Option<&Stamp>, failed: Option<&'static str>) {
        tracing::warn!(
            kind = self.kind.name(),
            elapsed_us = micros(took),
            rows = self.rows,
            bytes_read = stamp.map_or(0, |stamp| stamp.sources.bytes_read),
            extents_read = stamp.map_or(0, |stamp| stamp.sources.extents_read),
            stamp = stamp.map(Stamp::to_string).unwrap_or_default(),
            sqlstate = failed.unwrap_or("00000"),
            statement = masked(&self.sql),
            "slow query"
        );
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Whoever asked has gone, or wants no more rows, or its server gives it up.
        if !self.ended {
            let activity = self.activity.as_ref();
            let given_up = activity.and_then(|activity| activity.given_up());
            self.finish(None, given_up);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
