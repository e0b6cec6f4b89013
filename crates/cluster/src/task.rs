//! Work in its three states: a policy's *proposal* becomes a *task* when the coordinator decides
//! it, and each try at a task is an *attempt* that ends in a report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lazybase_engine::manifest::{KeyRange, Run, RunId, RunKind, ScuEntry, SegmentMeta};
use lazybase_engine::read::{Identifier, NextOfMaps, Snapshot};
use lazybase_engine::segment::RowLayout;
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_engine::ttl::Expiry;
use lazybase_model::{Error, Result, ScuNumber, Span, TableId, ViewId};

use crate::shared::SparseWork;

/// A stage as operators name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StageName {
    /// Sealing of the open SCU by age and size.
    Ingest,
    /// Giving numbers to natural keys.
    Remap,
    /// Sorting.
    Sort,
    /// Merging below the authority.
    Merge,
    /// Merging into the authority.
    Authority,
    /// Making damaged files again; never paused.
    Heal,
}

impl StageName {
    /// All that can be paused.
    pub const ALL: [StageName; 5] = [
        StageName::Ingest,
        StageName::Remap,
        StageName::Sort,
        StageName::Merge,
        StageName::Authority,
    ];

    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            StageName::Ingest => "ingest",
            StageName::Remap => "remap",
            StageName::Sort => "sort",
            StageName::Merge => "merge",
            StageName::Authority => "authority",
            StageName::Heal => "heal",
        }
    }
}

impl std::str::FromStr for StageName {
    type Err = lazybase_model::Error;

    fn from_str(text: &str) -> Result<Self> {
        let wanted = text.to_ascii_lowercase();
        StageName::ALL
            .into_iter()
            .find(|stage| stage.name() == wanted)
            .ok_or_else(|| {
                lazybase_model::Error::invalid(format!("there is no stage {text:?} to pause"))
                    .with_hint("stages are ingest, remap, sort, merge and authority")
            })
    }
}

/// Numbers tasks within one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// A decision that was recorded: what is to be done.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) work: Work,
    /// What its attempt is traced as.
    pub(crate) span: tracing::Span,
    /// What its attempt shows that it is alive by.
    pub(crate) pulse: Pulse,
}

/// The signs of life of an attempt, and whether anybody still waits for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pulse(Arc<Signs>);

#[derive(Debug, Default)]
struct Signs {
    beats: AtomicU64,
    is_given_up: AtomicBool,
}

impl Pulse {
    /// The attempt goes on.
    pub(crate) fn beat(&self) {
        self.0.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it did.
    pub(crate) fn beats(&self) -> u64 {
        self.0.beats.load(Ordering::Relaxed)
    }

    /// Nobody waits for the attempt any more.
    pub(crate) fn give_up(&self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether nobody waits for it: what it reads may be gone, and says nothing of damage.
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.is_given_up.load(Ordering::Relaxed)
    }
}

/// The shapes of stage work.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Give numbers to the natural keys of SCUs, in their order.
    Remap {
        ids: Identifier,
        scus: Vec<Arc<UnsortedScu>>,
    },
    /// Sort all tables of an SCU.
    Sort {
        ids: Identifier,
        scu: Arc<UnsortedScu>,
        layouts: Vec<Arc<RowLayout>>,
        /// Tables whose log can't be read are given up, by name: earlier attempts met the damage.
        give_up: bool,
    },
    /// Join adjacent runs of one range.
    Merge {
        layout: Arc<RowLayout>,
        range: KeyRange,
        inputs: Vec<Arc<Run>>,
        output: RunKind,
        /// Rows that have ended at every horizon that the output can answer, for the authority.
        expiry: Option<Expiry>,
    },
    /// Bring a secondary view to the boundary of a snapshot.
    Advance(Advance),
    /// Read suspected files back in full.
    Check {
        segments: Vec<(Arc<RowLayout>, Arc<SegmentMeta>)>,
    },
    /// Make the damaged files of a run again.
    Heal {
        layout: Arc<RowLayout>,
        ids: Identifier,
        heal: Heal,
    },
}

/// What a secondary view is brought on with.
#[derive(Debug, Clone)]
pub(crate) struct Advance {
    /// The view's rows.
    pub(crate) layout: Arc<RowLayout>,
    /// Whose rows they are.
    pub(crate) table: TableId,
    /// Where the view ends.
    pub(crate) from: ScuNumber,
    /// Where it is to end.
    pub(crate) to: ScuNumber,
    /// The database at `to`.
    pub(crate) new: Snapshot,
    /// The database at `from`; none if the view holds nothing and is built from all rows.
    pub(crate) old: Option<Snapshot>,
    /// The run of nothing that the view is built in place of, if it is.
    pub(crate) empty: Option<RunId>,
}

/// From what damaged files are made again.
#[derive(Debug, Clone)]
pub(crate) enum Heal {
    /// From the log of an SCU: all parts of its run.
    Sort {
        entry: Arc<ScuEntry>,
        runs: Vec<Arc<Run>>,
    },
    /// From what the run was made of.
    Merge {
        run: Arc<Run>,
        files: Vec<String>,
        pieces: Vec<HealPiece>,
    },
}

/// Keys of a damaged file, and the runs whose changes make its rows.
#[derive(Debug, Clone)]
pub(crate) struct HealPiece {
    pub(crate) range: KeyRange,
    pub(crate) inputs: Vec<Arc<Run>>,
}

/// Files of a run that were made again.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) run: RunId,
    pub(crate) files: Vec<String>,
    pub(crate) segments: Vec<Arc<SegmentMeta>>,
}

/// What an attempt made: files that nothing names until the coordinator adopts them.
#[derive(Debug)]
pub(crate) enum Output {
    /// The next numbers after SCUs, by key map; those that are remapped end at `through`.
    Remapped {
        through: ScuNumber,
        next_ids: BTreeMap<ScuNumber, NextOfMaps>,
    },
    /// The runs of an SCU by view, each with its parts in order.
    Sorted {
        scu: ScuNumber,
        runs: Vec<(ViewId, Vec<Arc<SegmentMeta>>)>,
    },
    /// The segments of a joined run.
    Merged {
        view: ViewId,
        range: KeyRange,
        inputs: Vec<RunId>,
        kind: RunKind,
        span: Span,
        changes_through: ScuNumber,
        segments: Vec<Arc<SegmentMeta>>,
    },
    /// The changes of a secondary view's entries from one boundary to another, in parts.
    Advanced {
        view: ViewId,
        from: ScuNumber,
        to: ScuNumber,
        parts: Vec<Vec<Arc<SegmentMeta>>>,
        /// Where they hold all rows that there are, the run of nothing that they take the place
        /// of: it is gone if the view has begun again from nothing since.
        whole: Option<RunId>,
    },
    /// Suspected files: those that are whole after all, and what is wrong with the others.
    Checked {
        whole: Vec<String>,
        damaged: Vec<Error>,
    },
    /// Damaged files made again.
    Healed { runs: Vec<Replaced> },
}

impl Output {
    /// The files that it wrote or moved.
    pub(crate) fn segments(&self) -> Vec<&Arc<SegmentMeta>> {
        match self {
            Output::Sorted { runs, .. } => runs.iter().flat_map(|(_, made)| made).collect(),
            Output::Merged { segments, .. } => segments.iter().collect(),
            Output::Advanced { parts, .. } => parts.iter().flatten().collect(),
            Output::Healed { runs } => runs.iter().flat_map(|run| &run.segments).collect(),
            Output::Remapped { .. } | Output::Checked { .. } => Vec::new(),
        }
    }

    /// The stored rows of those files.
    pub(crate) fn rows(&self) -> u64 {
        self.segments().iter().map(|segment| segment.rows).sum()
    }
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) task: TaskId,
    pub(crate) outcome: Result<Output>,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) sparse: SparseWork,
    pub(crate) elapsed_micros: u64,
}

/// A running task in words, for the status.
#[derive(Debug, Clone)]
pub struct TaskStatus {
    /// Its number.
    pub id: TaskId,
    /// Which stage it is of.
    pub stage: StageName,
    /// The table and view, for merges.
    pub table: Option<TableId>,
    /// Its SCUs.
    pub span: Span,
    /// The bytes that it reads.
    pub bytes: u64,
    /// When it was started, microseconds on the coordinator's clock.
    pub started_micros: i64,
}
