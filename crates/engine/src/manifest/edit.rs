//! Edits: every change to the manifest is one variant of one enum. The log, the tests and
//! `lazybase inspect` show the same values.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_model::access::{AccessChange, RoleId};
use lazybase_model::sequence::{Counter, Sequence};
use lazybase_model::table::Table;
use lazybase_model::{
    DatabaseId, NextIds, PartitionChange, SchemaVersion, ScuNumber, SequenceId, TableId, ViewId,
};
use serde::{Deserialize, Serialize};

use super::history::TimesFile;
use super::state::{ProducerMark, Run, RunId, ScuEntry, ScuTime};
use crate::key::Key;

/// One change to the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// The first edit of a database.
    Create {
        /// Its identity.
        database: DatabaseId,
        /// The clock at that moment, microseconds since 1970.
        clock_micros: i64,
    },
    /// A new leader fences the old one.
    Barrier {
        /// The new epoch.
        epoch: u64,
        /// The clock at that moment.
        clock_micros: i64,
    },
    /// What one transaction does to the tables, all of it at the boundary `sealed_through`, or
    /// right after it where it has an SCU of its own, and the batch that comes with it: the first
    /// of the next SCU. This edit is the point of commit of both: without it the batch's commit
    /// frame counts for nothing.
    Transaction {
        /// What happens to tables, in this order.
        ddl: Vec<Ddl>,
        /// The number that the batch's commit frame carries; none without a batch, never 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<u64>,
        /// Whether it has an SCU of its own, without batches: what it takes away is there at the
        /// boundary before. Everything before it is sorted.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        own_scu: bool,
        /// The clock: when runs of emptied tables were superseded.
        clock_micros: i64,
    },
    /// A table begins. Written by version 1 of the format; now it is a [`Edit::Transaction`], as
    /// are the next two.
    CreateTable {
        /// Its definition, ids included.
        table: Table,
    },
    /// A table ends.
    DropTable {
        /// Which.
        table: TableId,
    },
    /// All rows of a table end.
    TruncateTable {
        /// Which.
        table: TableId,
        /// The clock: when its runs were superseded.
        clock_micros: i64,
    },
    /// An SCU is sealed.
    Seal {
        /// What its log holds.
        entry: ScuEntry,
        /// Its times.
        time: ScuTime,
        /// Marks of the producers that it moved.
        producers: BTreeMap<String, ProducerMark>,
    },
    /// Natural keys have their numbers.
    Remapped {
        /// SCUs up to here, from the first that were not.
        through: ScuNumber,
        /// The next numbers of the key maps after each SCU that mentions keys of theirs.
        next_ids: BTreeMap<ScuNumber, BTreeMap<TableId, NextIds>>,
    },
    /// The next SCU is sorted: its runs join every range of their views; all other views are
    /// extended by it.
    Sorted {
        /// Which SCU: always the one after `sorted_through`.
        scu: ScuNumber,
        /// Its runs; several of one view are its parts.
        runs: Vec<Run>,
    },
    /// Adjacent runs of one range are joined; they stay readable until retired.
    Merged {
        /// The view.
        view: ViewId,
        /// The range's least key, which names the range.
        low: Option<Key>,
        /// The runs that were joined, by id.
        inputs: Vec<RunId>,
        /// The joined run, with its segments. Where SCUs without changes extended the last input
        /// since the merge began, the run's span is extended to the same end.
        output: Run,
        /// The clock: when the inputs were superseded.
        clock_micros: i64,
    },
    /// A range is cut in two.
    SplitRange {
        /// The view.
        view: ViewId,
        /// The range's least key, which names the range.
        low: Option<Key>,
        /// Where to cut.
        at: Key,
    },
    /// Runs, logs and times that neither the newest answers nor the retention need.
    Retire {
        /// Superseded runs by (view, range's least key, run).
        runs: Vec<RetiredRun>,
        /// SCUs whose log is no longer needed.
        scus: Vec<ScuNumber>,
        /// Times before this SCU are forgotten, but for the last one.
        times_before: ScuNumber,
    },
    /// Times of SCUs that no horizon asks for moved into a file.
    ArchiveTimes {
        /// The file: it holds what the newest files and the beginning of the tail held.
        file: TimesFile,
        /// How many of the newest files it replaces.
        replaces: usize,
    },
    /// A producer opens a session: older sessions of its name are fenced.
    OpenProducer {
        /// Its name.
        name: String,
        /// The new session's epoch.
        epoch: u64,
        /// The role that it belongs to from now on, where it belongs to nobody yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<RoleId>,
    },
    /// A secondary view comes from the boundary `from`, where all its ranges end, to `to`: the
    /// changes of its entries between the two, in parts; without parts, nothing changed.
    Advanced {
        /// The view.
        view: ViewId,
        /// Where it ended.
        from: ScuNumber,
        /// Where it ends.
        to: ScuNumber,
        /// The parts, from 0.
        runs: Vec<Run>,
        /// Set if they hold all rows that there are at `to`: what was there before can't be told
        /// from them, so the view can't be read before `to`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
    },
    /// A secondary view begins again from nothing: it will be built anew from its table.
    ResetView {
        /// The view.
        view: ViewId,
    },
    /// Numbers of a sequence are reserved: whoever has reserved them gives them out, and nobody
    /// else does.
    ReserveNumbers {
        /// Which.
        sequence: SequenceId,
        /// The last of them.
        through: i64,
    },
    /// A sequence goes on from elsewhere: what was reserved and not given out is left out.
    SetSequence {
        /// Which.
        sequence: SequenceId,
        /// Where it stands.
        counter: Counter,
    },
    /// Files were made again: the segments of runs are replaced by equal ones, in all of them at
    /// once.
    Heal {
        /// The runs.
        runs: Vec<HealedRun>,
    },
}

impl Edit {
    /// The variant's name as the log spells it.
    pub fn name(&self) -> &'static str {
        match self {
            Edit::Create { .. } => "create",
            Edit::Barrier { .. } => "barrier",
            Edit::Transaction { .. } => "transaction",
            Edit::CreateTable { .. } => "create_table",
            Edit::DropTable { .. } => "drop_table",
            Edit::TruncateTable { .. } => "truncate_table",
            Edit::Seal { .. } => "seal",
            Edit::Remapped { .. } => "remapped",
            Edit::Sorted { .. } => "sorted",
            Edit::Merged { .. } => "merged",
            Edit::SplitRange { .. } => "split_range",
            Edit::Retire { .. } => "retire",
            Edit::ArchiveTimes { .. } => "archive_times",
            Edit::OpenProducer { .. } => "open_producer",
            Edit::Heal { .. } => "heal",
            Edit::ReserveNumbers { .. } => "reserve_numbers",
            Edit::SetSequence { .. } => "set_sequence",
            Edit::Advanced { .. } => "advanced",
            Edit::ResetView { .. } => "reset_view",
        }
    }
}

/// A table goes from one definition to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionStep {
    /// The version that it has: another one meanwhile is a conflict.
    pub base: SchemaVersion,
    /// The version that it gets, which no other definition has.
    pub next: SchemaVersion,
}

/// What happens to one table at the boundary `sealed_through`, or to who may do what with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ddl {
    /// It begins, empty.
    Create {
        /// Its definition, ids included.
        table: Table,
    },
    /// It ends. Its runs leave the manifest at once: the catalogue is always current, and readers
    /// that pinned an older manifest keep its files.
    Drop {
        /// Which.
        table: TableId,
    },
    /// It goes on under another definition. Nothing that is stored is rewritten; the definition
    /// that it had stays known for what was written under it.
    Alter {
        /// The version that it has: another one meanwhile is a conflict.
        base: SchemaVersion,
        /// The definition that it gets, under its own ids.
        table: Table,
    },
    /// All its rows end. Everything up to the boundary is sorted: the table gets a new, empty base
    /// there, and its older runs serve only horizons before it.
    Truncate {
        /// Which.
        table: TableId,
    },
    /// A range partition of it begins, or ends with all its rows: then everything up to the
    /// boundary is sorted, its ranges get a new, empty base there, and their older runs serve only
    /// horizons before it.
    Partition {
        /// Which.
        table: TableId,
        /// What happens.
        change: PartitionChange,
        /// From which version to which; without, to the next one, whatever it has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        versions: Option<VersionStep>,
    },
    /// A secondary view of a table begins. It is filled in the background.
    CreateView {
        /// The definition of its rows, ids included; names its table.
        view: Table,
    },
    /// A secondary view ends.
    DropView {
        /// Which, by the id of its rows' definition.
        view: TableId,
    },
    /// A plain view begins: a query under a name.
    CreatePlainView {
        /// Its definition, id included.
        view: Table,
    },
    /// A plain view goes on under another definition: another name, query or comment.
    AlterPlainView {
        /// The version that it has: another one meanwhile is a conflict.
        base: SchemaVersion,
        /// The definition that it gets, under its own id.
        view: Table,
    },
    /// A plain view ends.
    DropPlainView {
        /// Which.
        view: TableId,
    },
    /// Who may do what changes.
    Access {
        /// What happens.
        change: AccessChange,
    },
    /// A sequence begins.
    CreateSequence {
        /// Its definition, id included.
        sequence: Sequence,
        /// Where it stands: its transaction may have taken numbers already.
        counter: Counter,
    },
    /// A sequence goes on under another definition.
    AlterSequence {
        /// The definition that it gets, under its own id.
        sequence: Sequence,
        /// Where it stands from now on; without, where it stood.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counter: Option<Counter>,
    },
    /// A sequence ends.
    DropSequence {
        /// Which.
        sequence: SequenceId,
    },
}

/// A run whose files were made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealedRun {
    /// The run.
    pub run: RunId,
    /// Its new segments, all of them.
    pub segments: Vec<Arc<super::state::SegmentMeta>>,
}

/// A superseded run that leaves one range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetiredRun {
    /// The view.
    pub view: ViewId,
    /// The range's least key.
    pub low: Option<Key>,
    /// The run.
    pub run: RunId,
}
