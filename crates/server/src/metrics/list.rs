//! Every metric, with its kind, its labels and its meaning. The document and the dashboards are
//! compared with this list.

use lazybase_query::observe::names;
use metrics::{describe_counter, describe_gauge, describe_histogram};

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole number that only rises while the process lives.
    Counter,
    /// The same with fractions.
    FloatCounter,
    /// A number that rises and falls.
    Gauge,
    /// Samples in buckets.
    Histogram,
}

/// One metric.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the document is compared with it")
    )]
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
    pub(super) buckets: &'static [f64],
}

/// Latencies, in seconds.
const TIMES: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// Ages of data, in seconds.
const AGES: &[f64] = &[
    0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 3600.0,
];

const fn of(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    let buckets: &[f64] = &[];
    Metric {
        name,
        kind,
        labels,
        help,
        buckets,
    }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    of(name, Kind::Counter, labels, help)
}

const fn float_counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    of(name, Kind::FloatCounter, labels, help)
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    of(name, Kind::Gauge, labels, help)
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    buckets: &'static [f64],
    help: &'static str,
) -> Metric {
    Metric {
        buckets,
        ..of(name, Kind::Histogram, labels, help)
    }
}

/// All of them.
pub(super) static METRICS: &[Metric] = &[
    // Statements.
    histogram(
        names::QUERY_SECONDS,
        &["kind", "freshness"],
        TIMES,
        "How long statements took until their last row was taken, by kind (point, scan, write, \
         definition, other) and by the freshness that was asked (0, bounded, best_effort, none)",
    ),
    counter(names::ROWS_RETURNED, &[], "Rows that statements returned"),
    counter(
        names::READ_BYTES,
        &[],
        "Bytes that reads fetched from the store, as stored",
    ),
    counter(
        names::EXTENTS_READ,
        &[],
        "Extents or pages that reads fetched",
    ),
    counter(
        names::EXTENTS_PRUNED,
        &[],
        "Extents that an index or a filter let reads skip",
    ),
    histogram(
        names::STALENESS_SECONDS,
        &["freshness"],
        AGES,
        "How stale answers were, by the freshness that was asked (0, bounded, best_effort)",
    ),
    histogram(
        names::ASKED_SECONDS,
        &[],
        AGES,
        "How stale answers were allowed to be, where a bound was given",
    ),
    counter(
        names::SLOW,
        &[],
        "Statements that took longer than the option slow_query",
    ),
    counter(
        names::ERRORS,
        &["protocol", "class"],
        "Errors that clients were told, by the class of their SQLSTATE (its first two letters)",
    ),
    gauge(
        names::CONNECTIONS,
        &["protocol"],
        "Connections that are open",
    ),
    counter(
        names::CONNECTIONS_OPENED,
        &["protocol"],
        "Connections that were opened",
    ),
    gauge(
        "lazybase_query_memory_bytes",
        &[],
        "What running queries hold in memory to sort, group and join",
    ),
    gauge(
        "lazybase_query_memory_limit_bytes",
        &[],
        "What they may hold: the option query_memory; +Inf where there is no limit",
    ),
    gauge(
        "lazybase_heavy_running",
        &[],
        "Heavy statements that have their turn",
    ),
    gauge(
        "lazybase_heavy_waiting",
        &[],
        "Heavy statements that wait for their turn",
    ),
    histogram(
        names::HEAVY_WAIT_SECONDS,
        &[],
        TIMES,
        "How long heavy statements waited for their turn, those that did",
    ),
    counter(
        names::HEAVY_REFUSED,
        &[],
        "Heavy statements that were refused, because too many waited (the option heavy_waiting)",
    ),
    // Ingest.
    histogram(
        names::COMMIT_SECONDS,
        &[],
        TIMES,
        "How long writers waited for a batch to be durable, from its commit on",
    ),
    counter(names::ROWS_INGESTED, &[], "Rows of acknowledged batches"),
    counter(
        "lazybase_ingest_batches_total",
        &[],
        "Batches that were ever acknowledged in this database",
    ),
    counter(
        "lazybase_ingest_log_bytes_total",
        &[],
        "Bytes written to the log",
    ),
    gauge(
        "lazybase_ingest_queue_bytes",
        &[],
        "Bytes that wait for the next group commit",
    ),
    gauge(
        "lazybase_ingest_open_batches",
        &[],
        "Acknowledged batches that are not sealed yet",
    ),
    gauge(
        "lazybase_ingest_held_back",
        &[],
        "1 while the stages hold writers back, else 0",
    ),
    gauge(
        "lazybase_ingest_waiting_writers",
        &[],
        "Writers that wait, for the stages or the log",
    ),
    counter(
        "lazybase_ingest_waits_total",
        &[],
        "How often writers had to wait",
    ),
    gauge(
        "lazybase_ingest_failing",
        &[],
        "1 while batches can't be made durable, else 0",
    ),
    gauge(
        "lazybase_sync_failed",
        &[],
        "1 after a sync failed: nothing is acknowledged until the server is restarted; else 0",
    ),
    gauge(
        "lazybase_unsorted_memory_bytes",
        &[],
        "Unsorted batches that are held in memory",
    ),
    gauge(
        "lazybase_unsorted_memory_limit_bytes",
        &[],
        "What may be held of them: the option unsorted_memory",
    ),
    counter(
        "lazybase_scus_sealed_total",
        &[],
        "SCUs that were ever sealed in this database",
    ),
    // Stages.
    gauge(
        "lazybase_stage_scus",
        &["stage"],
        "SCUs whose newest form is of this stage",
    ),
    gauge(
        "lazybase_stage_rows",
        &["stage"],
        "Stored rows that are of this stage",
    ),
    gauge(
        "lazybase_stage_bytes",
        &["stage"],
        "Bytes that are of this stage",
    ),
    gauge(
        "lazybase_stage_runs",
        &["stage"],
        "Current runs of this stage, over all key ranges",
    ),
    gauge(
        "lazybase_stage_waiting_scus",
        &["stage"],
        "SCUs that wait for the work of this stage",
    ),
    gauge(
        "lazybase_stage_running_tasks",
        &["stage"],
        "Attempts of this stage that run",
    ),
    gauge(
        "lazybase_stage_paused",
        &["stage"],
        "1 while the stage is paused, else 0",
    ),
    counter(
        "lazybase_stage_attempts_total",
        &["stage"],
        "Attempts that ended",
    ),
    counter(
        "lazybase_stage_failures_total",
        &["stage"],
        "Attempts that failed",
    ),
    float_counter(
        "lazybase_stage_seconds_total",
        &["stage"],
        "How long attempts took together",
    ),
    counter(
        "lazybase_stage_read_bytes_total",
        &["stage"],
        "Bytes that attempts fetched",
    ),
    counter(
        "lazybase_stage_written_bytes_total",
        &["stage"],
        "Bytes that attempts wrote",
    ),
    counter(
        "lazybase_stage_written_rows_total",
        &["stage"],
        "Stored rows that attempts wrote",
    ),
    gauge(
        "lazybase_stage_lag_seconds",
        &["stage"],
        "Age of the oldest sealed batch that has not reached the stage (as in lazybase.lag)",
    ),
    gauge(
        "lazybase_stage_lag_scus",
        &["stage"],
        "Sealed SCUs that have not reached the stage",
    ),
    gauge(
        "lazybase_table_lag_seconds",
        &["table", "stage"],
        "Age of the table's oldest sealed change that has not reached the stage (as in \
         lazybase.table_lag)",
    ),
    gauge(
        "lazybase_table_lag_scus",
        &["table", "stage"],
        "Sealed SCUs after the last one whose changes to the table have all reached the stage",
    ),
    gauge(
        "lazybase_table_freshness_target_seconds",
        &["table"],
        "How stale a cheap answer from the table should be at most, where somebody said so",
    ),
    gauge(
        "lazybase_table_freshness_seconds",
        &["table"],
        "How stale an answer from the table is that meets as few runs as one at best effort, where \
         there is a target",
    ),
    gauge(
        "lazybase_table_rows",
        &["table"],
        "Stored rows of the table's current runs",
    ),
    gauge(
        "lazybase_table_bytes",
        &["table"],
        "Bytes of the table's current runs",
    ),
    counter(
        "lazybase_background_troubles_total",
        &[],
        "What went wrong in the background",
    ),
    gauge(
        "lazybase_damaged_files",
        &["state"],
        "Files that were seen damaged, by what became of them",
    ),
    // What is kept.
    counter(
        "lazybase_cache_hits_total",
        &["cache"],
        "What was found decoded in a cache",
    ),
    counter(
        "lazybase_cache_misses_total",
        &["cache"],
        "What had to be read and decoded",
    ),
    gauge("lazybase_cache_bytes", &["cache"], "What a cache holds"),
    gauge(
        "lazybase_cache_limit_bytes",
        &["cache"],
        "What a cache may hold",
    ),
    gauge("lazybase_pins", &[], "Snapshots that readers hold"),
    gauge(
        "lazybase_oldest_pin_seconds",
        &[],
        "Age of the oldest snapshot; 0 where there is none",
    ),
    gauge(
        "lazybase_pinned_bytes",
        &[],
        "Superseded bytes that the oldest snapshot keeps",
    ),
    gauge(
        "lazybase_superseded_bytes",
        &[],
        "Files that the newest answers don't need: what the retention and snapshots keep, and what \
         lags behind",
    ),
    gauge(
        "lazybase_superseded_limit_bytes",
        &[],
        "What may be kept of them: the option superseded_bytes_max; +Inf where there is no limit",
    ),
    gauge(
        "lazybase_retention_seconds",
        &[],
        "How far back the past is kept: the option retention, or less where superseded files would \
         take too much",
    ),
    counter(
        "lazybase_snapshots_ended_total",
        &[],
        "Snapshots that were ended, as superseded files would have taken too much",
    ),
    gauge(
        "lazybase_disk_bytes",
        &["kind"],
        "Files of the database: segments, log, manifest",
    ),
    counter(
        "lazybase_files_collected_total",
        &[],
        "Files that were removed, for nothing named them",
    ),
    counter(
        "lazybase_manifest_edits_total",
        &[],
        "Edits that were ever made to the manifest",
    ),
    // The process.
    gauge(
        "lazybase_build_info",
        &["version"],
        "1, with the version as a label",
    ),
    gauge("lazybase_ready", &[], "1 while /ready says so, else 0"),
    gauge(
        "process_resident_memory_bytes",
        &[],
        "Memory of the process that is in RAM",
    ),
    gauge(
        "process_open_fds",
        &[],
        "Open files and connections of the process",
    ),
    gauge(
        "process_start_time_seconds",
        &[],
        "When the process began, in seconds since 1970",
    ),
    float_counter(
        "process_cpu_seconds_total",
        &[],
        "CPU time of the process, user and system",
    ),
];

/// Tells the current recorder what each means.
pub(super) fn describe() {
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.help),
            Kind::Gauge | Kind::FloatCounter => describe_gauge!(metric.name, metric.help),
            Kind::Histogram => describe_histogram!(metric.name, metric.help),
        }
    }
}
