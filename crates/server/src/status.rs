//! `lazybase status`: what the database holds and how far each stage has come.
//!
//! Reads one manifest, so that all figures are of one moment.

use std::collections::BTreeSet;
use std::path::PathBuf;

use lazybase_cluster::Instance;
use lazybase_engine::manifest::{Manifest, RunKind, SegmentFormat, TableState};
use lazybase_model::Result;
use serde::Serialize;

use crate::cli::{ReportFormat, StatusArgs};
use crate::failure;
use crate::figures::{as_micros, bytes, counted, micros, thousands};
use crate::open::{self, Missing};
use crate::pipeline::{Boundaries, staleness_micros};
use crate::render::print_rows;

pub(crate) mod page;

/// What a table's current runs hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct TableFigures {
    /// Stored rows of runs that the newest answers use; a key may stand in several runs.
    pub(crate) rows: u64,
    /// Their bytes on disk.
    pub(crate) bytes: u64,
    /// How many runs.
    pub(crate) runs: u64,
    /// Key ranges.
    pub(crate) ranges: u64,
}

impl TableFigures {
    /// Counts each run once, however many ranges it serves.
    pub(crate) fn of(manifest: &Manifest, state: &TableState) -> TableFigures {
        let ids: BTreeSet<_> = state
            .ranges
            .iter()
            .flat_map(|range| range.runs.iter().filter(|run| run.is_current()))
            .map(|run| run.id)
            .collect();
        let mut figures = TableFigures {
            ranges: state.ranges.len() as u64,
            ..TableFigures::default()
        };
        for run in ids.iter().filter_map(|id| manifest.runs.get(id)) {
            figures.rows += run.rows();
            figures.bytes += run.bytes();
            figures.runs += 1;
        }
        figures
    }
}

/// Runs of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
struct KindFigures {
    runs: u64,
    segments: u64,
    rows: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Status {
    database: String,
    manifest: u64,
    epoch: u64,
    boundaries: Boundaries,
    /// How stale an answer at each boundary is: ingested, sorted, merged, authority.
    staleness_us: [u64; 4],
    /// Batches acknowledged up to the newest sealed SCU.
    batches: u64,
    /// Bytes of the log's files: of those whose SCUs are kept, and of those that are written next.
    log_bytes: u64,
    unsorted: KindFigures,
    sorted: KindFigures,
    merged: KindFigures,
    authority: KindFigures,
    /// Runs that only the retention keeps.
    superseded: KindFigures,
    /// Files that the newest answers don't need.
    superseded_files: SupersededFiles,
    tables: Vec<(String, TableFigures)>,
    producers: Vec<(String, u64)>,
    /// The sync that failed and after which all writers are refused.
    failed_sync: Option<String>,
    /// What holds writers back, and who waits.
    back_pressure: BackPressure,
    /// The reader's snapshot that keeps the oldest files.
    oldest_snapshot: Option<OldestSnapshot>,
    /// Stages that are paused.
    paused: Vec<&'static str>,
}

#[derive(Debug, Default, Serialize)]
struct SupersededFiles {
    /// What they take.
    bytes: u64,
    /// What they may take; `None` where there is no limit.
    bytes_max: Option<u64>,
    /// How far back the past is kept.
    kept_us: u64,
    /// Snapshots that were ended as too much was kept.
    snapshots_ended: u64,
}

#[derive(Debug, Serialize)]
struct BackPressure {
    /// Why writers have to wait, if they have to.
    reason: Option<String>,
    /// Who waits at this moment, and why.
    waiting: Vec<(String, String)>,
}

#[derive(Debug, Serialize)]
struct OldestSnapshot {
    owner: String,
    horizon: String,
    age_us: u64,
    /// The bytes of superseded files that it alone keeps.
    held_bytes: u64,
}

/// Runs the command.
pub(crate) async fn run(db: Option<PathBuf>, args: StatusArgs) -> Result<()> {
    if let Some(url) = &args.url {
        return page::run(url, &args).await;
    }
    let database = open::database(db, Missing::Refuse).await?;
    let status = Status::of(database.instance());
    let text = match args.format {
        ReportFormat::Text => status.text(),
        ReportFormat::Json => format!("{}\n", serde_json::json!(status)),
    };
    open::close(&database, failure::write_data(&text)).await
}

/// The status of a running database, for people.
pub(crate) fn text(instance: &Instance) -> String {
    Status::of(instance).text()
}

impl Status {
    fn of(instance: &Instance) -> Status {
        let mut status = Status::of_manifest(&instance.manifest(), instance.now_micros());
        let running = instance.status();
        status.log_bytes = running.ingest.log_bytes_kept;
        status.failed_sync = running.failed_sync.map(|failed| failed.to_string());
        let waiting = running.waiting.into_iter();
        status.back_pressure.reason = running.throttle;
        status.back_pressure.waiting = waiting.map(|writer| (writer.who, writer.why)).collect();
        status.oldest_snapshot = running.oldest_pin.map(|held| OldestSnapshot {
            owner: held.pin.owner,
            horizon: held.pin.horizon.to_string(),
            age_us: as_micros(held.pin.age),
            held_bytes: held.held_bytes,
        });
        let superseded = running.superseded;
        status.superseded_files = SupersededFiles {
            bytes: superseded.bytes,
            bytes_max: Some(superseded.bytes_max).filter(|max| *max < u64::MAX),
            kept_us: superseded.kept_micros,
            snapshots_ended: superseded.snapshots_ended,
        };
        status.paused = running.paused.iter().map(|stage| stage.name()).collect();
        status
    }

    fn of_manifest(manifest: &Manifest, now_micros: i64) -> Status {
        let boundaries = Boundaries::of(manifest);
        let Boundaries {
            ingested,
            sorted,
            merged,
            authority,
        } = boundaries;
        let mut status = Status {
            database: manifest.database.to_string(),
            manifest: manifest.number,
            epoch: manifest.epoch,
            boundaries,
            staleness_us: [ingested, sorted, merged, authority]
                .map(|boundary| staleness_micros(manifest, boundary, now_micros)),
            batches: manifest
                .times
                .last_key_value()
                .map_or(0, |(_, time)| time.batches_through),
            log_bytes: 0,
            unsorted: unsorted(manifest),
            sorted: KindFigures::default(),
            merged: KindFigures::default(),
            authority: KindFigures::default(),
            superseded: KindFigures::default(),
            superseded_files: SupersededFiles::default(),
            tables: Vec::new(),
            producers: Vec::new(),
            failed_sync: None,
            back_pressure: BackPressure {
                reason: None,
                waiting: Vec::new(),
            },
            oldest_snapshot: None,
            paused: Vec::new(),
        };
        status.count_runs(manifest);
        for state in manifest.tables.values() {
            let figures = TableFigures::of(manifest, state);
            status.tables.push((state.table.name.clone(), figures));
        }
        for (name, mark) in &manifest.producers {
            status.producers.push((name.clone(), mark.number));
        }
        status
    }

    fn count_runs(&mut self, manifest: &Manifest) {
        let current = manifest.current_runs();
        for run in manifest.runs.values() {
            let figures = match (current.contains(&run.id), run.kind) {
                (false, _) => &mut self.superseded,
                (true, RunKind::Sorted) => &mut self.sorted,
                (true, RunKind::Merged) => &mut self.merged,
                (true, RunKind::Base) => &mut self.authority,
            };
            figures.runs += 1;
            figures.segments += run.segments.len() as u64;
            figures.rows += run.rows();
            figures.bytes += run.bytes();
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "database {}, manifest {}, epoch {}\n{} sealed in {}\n\n",
            self.database,
            self.manifest,
            self.epoch,
            counted(self.batches, "batch"),
            counted(self.boundaries.ingested, "SCU"),
        );
        let scus = self.boundaries.scus();
        let stages = [
            ("ingested", scus[0], self.unsorted, 0),
            ("sorted", scus[1], self.sorted, 1),
            ("merged", scus[2], self.merged, 2),
            ("authority", scus[3], self.authority, 3),
        ];
        let mut rows: Vec<Vec<String>> = stages
            .into_iter()
            .map(|(name, scus, figures, at)| {
                let staleness = micros(self.staleness_us[at]);
                figures.row(name, thousands(scus), staleness)
            })
            .collect();
        rows.push(
            self.superseded
                .row("superseded", String::new(), String::new()),
        );
        let headers = [
            "stage",
            "SCUs",
            "runs",
            "segments",
            "stored rows",
            "size",
            "stale by",
        ];
        let right = [false, true, true, true, true, true, true];
        text += &print_rows(&headers, &right, &rows);
        text += &format!("log files: {}\n", bytes(self.log_bytes));
        text += &self.superseded_files.text();
        text += &self.tables_text();
        for (name, number) in &self.producers {
            text += &format!("producer {name}: last batch {number}\n");
        }
        text + &self.waiting_text()
    }

    /// Who waits and why, and what readers hold.
    fn waiting_text(&self) -> String {
        let BackPressure { reason, waiting } = &self.back_pressure;
        let mut text = match (&self.failed_sync, reason) {
            (Some(failed), _) => format!("\nwriters are refused: {failed}\n"),
            (None, Some(reason)) => format!("\nwriters are held back: {reason}\n"),
            (None, None) => "\nwriters are not held back\n".to_owned(),
        };
        for (who, why) in waiting {
            text += &format!("{who} waits: {why}\n");
        }
        text += &match &self.oldest_snapshot {
            None => "no snapshot is held\n".to_owned(),
            Some(oldest) => format!(
                "oldest snapshot: held by {:?} for {} at horizon {}, keeps {} of \
                 superseded files\n",
                oldest.owner,
                micros(oldest.age_us),
                oldest.horizon,
                bytes(oldest.held_bytes),
            ),
        };
        if !self.paused.is_empty() {
            text += &format!("paused: {}\n", self.paused.join(", "));
        }
        text
    }

    fn tables_text(&self) -> String {
        if self.tables.is_empty() {
            return "\nno tables\n".to_owned();
        }
        let rows: Vec<Vec<String>> = self
            .tables
            .iter()
            .map(|(name, figures)| {
                vec![
                    name.clone(),
                    thousands(figures.rows),
                    bytes(figures.bytes),
                    thousands(figures.runs),
                    thousands(figures.ranges),
                ]
            })
            .collect();
        let headers = ["table", "stored rows", "size", "runs", "ranges"];
        let right = [false, true, true, true, true];
        format!("\n{}", print_rows(&headers, &right, &rows))
    }
}

impl SupersededFiles {
    fn text(&self) -> String {
        let bound = match self.bytes_max {
            None => String::new(),
            Some(max) => format!(" of {}", bytes(max)),
        };
        let mut text = format!(
            "superseded files: {}{bound}; the past is kept for {}\n",
            bytes(self.bytes),
            micros(self.kept_us),
        );
        if self.snapshots_ended > 0 {
            let ended = counted(self.snapshots_ended, "snapshot");
            text += &format!("ended, as they kept too much: {ended}\n");
        }
        text
    }
}

impl KindFigures {
    fn row(self, name: &str, scus: String, staleness: String) -> Vec<String> {
        vec![
            name.to_owned(),
            scus,
            thousands(self.runs),
            thousands(self.segments),
            thousands(self.rows),
            bytes(self.bytes),
            staleness,
        ]
    }
}

/// What is sealed and not sorted: it lies in logs.
fn unsorted(manifest: &Manifest) -> KindFigures {
    let waiting = manifest.scus.values();
    waiting
        .filter(|entry| entry.scu > manifest.sorted_through)
        .fold(KindFigures::default(), |sum, entry| KindFigures {
            rows: sum.rows + entry.rows,
            bytes: sum.bytes + entry.raw_bytes,
            ..sum
        })
}

/// A segment's format by name.
pub(crate) fn format_name(format: SegmentFormat) -> &'static str {
    match format {
        SegmentFormat::Extent => "extents",
        SegmentFormat::Parquet => "Parquet",
    }
}
