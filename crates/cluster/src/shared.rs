//! What the coordinator, the workers and the readers of one process share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::env::{Env, FailedSync};
use lazybase_engine::manifest::{ManifestStore, TableState};
use lazybase_engine::read::Reader;
use lazybase_engine::segment::RowLayout;
use lazybase_engine::stages::ingest::{CoordinatorClock, Ingest};
use lazybase_model::{Error, Result, SchemaVersion, ScuNumber, TableId, ViewId};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::sequences::Sequences;
use crate::settings::Settings;
use crate::task::{Output, Report, StageName, TaskStatus};
use crate::trace::ScuSpans;

/// How many finished tasks and troubles the status remembers.
const REMEMBERED: usize = 64;
/// For how long work counts as failing that is not tried again.
const FAILING_REMEMBERED: Duration = Duration::from_secs(600);

/// What is shared; nothing in it is ever replaced, only its insides change.
pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) settings: Settings,
    pub(crate) clock: CoordinatorClock,
    pub(crate) manifests: Arc<ManifestStore>,
    pub(crate) reader: Reader,
    pub(crate) ingest: Ingest,
    /// The ids of the next table and its view. Those of tables that are never committed are left
    /// out, until the database is opened again.
    pub(crate) next_ids: Mutex<(TableId, ViewId)>,
    /// The version of the next definition that is made of any table.
    pub(crate) next_version: Mutex<SchemaVersion>,
    /// Numbers that are reserved.
    pub(crate) sequences: Sequences,
    /// What is traced of batches and SCUs.
    pub(crate) spans: ScuSpans,
    /// Rises with every committed edit: what waiters watch.
    pub(crate) changed: watch::Sender<u64>,
    pub(crate) tasks: Mutex<TaskBoard>,
    /// Held by whoever looks after the files of the manifest, until the board tells what was met;
    /// why they are not replaced, as it was said last.
    pub(crate) tending: tokio::sync::Mutex<String>,
}

/// What the status shows of the work.
#[derive(Default)]
pub(crate) struct TaskBoard {
    pub(crate) running: Vec<TaskStatus>,
    pub(crate) finished: VecDeque<FinishedTask>,
    pub(crate) troubles: VecDeque<Trouble>,
    pub(crate) paused: Vec<StageName>,
    pub(crate) totals: StageTotals,
    /// What the attempts of each stage have done.
    pub(crate) work: BTreeMap<&'static str, StageWork>,
    /// Attempts that were given up.
    pub(crate) silent: SilentAttempts,
    /// Files that were deleted since nothing names them.
    pub(crate) files_collected: u64,
    /// How often something went wrong in the background.
    pub(crate) troubles_seen: u64,
    /// Up to when the past went before its time, since it took too much: microseconds on the
    /// coordinator's clock.
    pub(crate) past_gone_micros: Option<i64>,
    /// Snapshots that were ended since they kept too much.
    pub(crate) snapshots_ended: u64,
    /// Files that were seen damaged since the database was opened, by name.
    pub(crate) damage: BTreeMap<String, DamageStatus>,
    /// Files of the manifest that were damaged and replaced, a line each, of which no verification
    /// has told yet.
    pub(crate) replaced: Vec<String>,
    /// Pieces of work whose last attempt failed, by name.
    pub(crate) failing: BTreeMap<String, FailingWork>,
}

/// A piece of work that fails, and is tried again.
pub(crate) struct FailingWork {
    pub(crate) status: TaskStatus,
    /// How many attempts have failed in a row.
    pub(crate) failures: u32,
    /// When the last of them did, on the monotonic clock.
    pub(crate) failed: Duration,
    /// What the last one said.
    pub(crate) error: Error,
}

impl TaskBoard {
    /// Remembers a failed attempt, and forgets work that nobody has tried again for long: what is
    /// merged has become other runs meanwhile.
    pub(crate) fn note_failing(&mut self, name: String, work: FailingWork) {
        let now = work.failed;
        self.failing
            .retain(|_, work| now.saturating_sub(work.failed) < FAILING_REMEMBERED);
        self.failing.insert(name, work);
    }
}

/// What became of attempts that showed no sign of life for too long, since the opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SilentAttempts {
    /// Those whose work was given to another attempt.
    pub given_up: u64,
    /// Those of them that reported later, and were refused.
    pub came_back: u64,
    /// Those of them that did so before the other attempt had ended.
    pub came_first: u64,
    /// The files of what was refused.
    pub files_refused: u64,
}

/// A task that ended.
#[derive(Debug, Clone)]
pub struct FinishedTask {
    /// What it was.
    pub task: TaskStatus,
    /// How long its attempt took, in microseconds.
    pub elapsed_micros: u64,
    /// Bytes fetched.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// What went wrong, if anything.
    pub error: Option<String>,
}

/// Something that went wrong in the background.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// When it was last seen, microseconds on the coordinator's clock.
    pub micros: i64,
    /// What.
    pub message: String,
    /// How often in a row.
    pub times: u64,
}

/// A file that was seen damaged.
#[derive(Debug, Clone)]
pub struct DamageStatus {
    /// Table, view and SCUs of what it holds.
    pub place: String,
    /// What was seen.
    pub what: String,
    /// What became of it.
    pub state: DamageState,
    /// The table whose newest answers need it, once that is known.
    pub table: Option<TableId>,
}

/// Whether a file is one of the log's.
pub(crate) fn is_log(file: &str) -> bool {
    file.starts_with("log/")
}

/// What became of a file that was seen damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageState {
    /// It will be read back in full.
    Suspected,
    /// An earlier stage holds its rows: they are being written again.
    Healing,
    /// Its rows are in another file.
    Healed,
    /// Nothing holds its rows any more.
    Lost,
}

impl DamageState {
    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            DamageState::Suspected => "suspected",
            DamageState::Healing => "healing",
            DamageState::Healed => "healed",
            DamageState::Lost => "lost",
        }
    }
}

/// Bytes written since the database was opened, by stage: what write amplification is made of.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct StageTotals {
    /// By sorts.
    pub sort_bytes_written: u64,
    /// By merges below the authority.
    pub merge_bytes_written: u64,
    /// By merges into the authority.
    pub authority_bytes_written: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
}

/// What the attempts of a stage have done since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageWork {
    /// Attempts that ended.
    pub attempts: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// How long they took together, in microseconds.
    pub micros: u64,
    /// Bytes fetched.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Stored rows written.
    pub rows_written: u64,
    /// Row groups of the authority that few changes met.
    pub sparse: SparseWork,
}

/// What became of row groups that merges into the authority went through one by one, as the changes
/// were few beside their rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SparseWork {
    /// Those that nothing changed, and that were copied as bytes.
    pub copied: u64,
    /// Those of which the columns were made anew that changes touched.
    pub patched: u64,
    /// Those whose rows were merged.
    pub merged: u64,
}

impl StageWork {
    fn add(&mut self, report: &Report) {
        self.attempts += 1;
        self.failures += u64::from(report.outcome.is_err());
        self.micros += report.elapsed_micros;
        self.bytes_read += report.bytes_read;
        self.bytes_written += report.bytes_written;
        self.rows_written += report.outcome.as_ref().map_or(0, Output::rows);
        self.sparse.copied += report.sparse.copied;
        self.sparse.patched += report.sparse.patched;
        self.sparse.merged += report.sparse.merged;
    }
}

impl Shared {
    /// Now, in microseconds since 1970, on the clock that staleness is measured on.
    pub(crate) fn now(&self) -> i64 {
        self.clock.now_micros()
    }

    /// Ids for a table that is being defined: nobody else gets them.
    pub(crate) fn take_ids(&self) -> (TableId, ViewId) {
        let mut next = self.next_ids.lock();
        let taken = *next;
        *next = (TableId(taken.0.0 + 1), ViewId(taken.1.0 + 1));
        taken
    }

    /// Remembers what went wrong in the background, for the status.
    pub(crate) fn report_trouble(&self, error: &Error) {
        let message = error.to_string();
        if self.note_trouble(&message) {
            tracing::warn!(sqlstate = error.sqlstate(), "{message}");
        }
    }

    /// Says that nothing becomes durable any more: somebody has to see to it.
    pub(crate) fn report_failed_sync(&self, failed: &FailedSync) {
        self.note_trouble(&failed.to_string());
        let (file, reason) = (failed.name.as_str(), failed.reason.as_str());
        tracing::error!(file, reason, "{failed}");
    }

    /// Remembers what went wrong; whether it is something else than the last time.
    fn note_trouble(&self, message: &str) -> bool {
        let micros = self.now();
        let mut board = self.tasks.lock();
        board.troubles_seen += 1;
        if let Some(last) = board.troubles.back_mut()
            && last.message == message
        {
            last.micros = micros;
            last.times += 1;
            return false;
        }
        board.troubles.push_back(Trouble {
            micros,
            message: message.to_owned(),
            times: 1,
        });
        while board.troubles.len() > REMEMBERED {
            board.troubles.pop_front();
        }
        true
    }

    /// Remembers a task that ended, for the status.
    pub(crate) fn note_finished(&self, task: &TaskStatus, report: &Report) {
        tracing::debug!(
            stage = task.stage.name(),
            first_scu = task.span.first.0,
            last_scu = task.span.last.0,
            elapsed_us = report.elapsed_micros,
            bytes_read = report.bytes_read,
            bytes_written = report.bytes_written,
            failed = report.outcome.is_err(),
            "attempt ended"
        );
        let mut board = self.tasks.lock();
        let totals = &mut board.totals;
        match task.stage {
            StageName::Sort => totals.sort_bytes_written += report.bytes_written,
            StageName::Merge => totals.merge_bytes_written += report.bytes_written,
            StageName::Authority => totals.authority_bytes_written += report.bytes_written,
            StageName::Ingest | StageName::Remap | StageName::Heal => {}
        }
        totals.failed_attempts += u64::from(report.outcome.is_err());
        board.work.entry(task.stage.name()).or_default().add(report);
        board.finished.push_back(FinishedTask {
            task: task.clone(),
            elapsed_micros: report.elapsed_micros,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
            error: report.outcome.as_ref().err().map(Error::to_string),
        });
        while board.finished.len() > REMEMBERED {
            board.finished.pop_front();
        }
    }

    /// The SCU's batches are in runs now: no new reader needs its unsorted form.
    pub(crate) fn forget_sorted(&self, through: ScuNumber) {
        self.ingest.forget_through(through);
        self.reader.unsorted.forget(through);
    }

    /// A version for a definition of a table: nobody else gets it.
    pub(crate) fn take_version(&self) -> SchemaVersion {
        let mut next = self.next_version.lock();
        let taken = *next;
        next.0 += 1;
        taken
    }

    /// The layout of a table's rows as SCU `scu` changed them.
    pub(crate) fn layout_at(&self, state: &TableState, scu: ScuNumber) -> Result<Arc<RowLayout>> {
        self.reader.layout_of(state, state.at(scu))
    }
}
