//! The manifest's value: tables, SCUs whose log is kept, runs, producers' marks.
//!
//! Each view's key space is cut into ranges. A range lists every run that holds data for it and
//! is still readable; runs are edges from the SCU boundary before their span to any boundary
//! from `changes_through` to the span's end, and an answer at a horizon takes a cheapest path of
//! edges from nothing to the horizon. Merging adds an edge beside those it joins; retiring takes
//! edges away once nothing can need them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use lazybase_model::access::Access;
use lazybase_model::sequence::{Counter, Sequence};
use lazybase_model::table::Table;
use lazybase_model::{
    DatabaseId, Horizon, NextIds, SchemaVersion, ScuNumber, SequenceId, Span, TableId, TableName,
    ViewId,
};
use serde::{Deserialize, Serialize};

use super::history::ScuHistory;
use crate::key::Key;

/// A run's id: never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub u64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// A stretch of a view's key space: from `low` (included) to `high` (excluded); `None` is open.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct KeyRange {
    /// The least key in the range.
    pub low: Option<Key>,
    /// The least key after the range.
    pub high: Option<Key>,
}

impl KeyRange {
    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &Key) -> bool {
        self.low.as_ref().is_none_or(|low| low <= key)
            && self.high.as_ref().is_none_or(|high| key < high)
    }

    /// Whether some key can lie in both ranges.
    pub fn meets(&self, other: &KeyRange) -> bool {
        let before = |high: &Option<Key>, low: &Option<Key>| {
            high.as_ref()
                .is_some_and(|high| low.as_ref().is_some_and(|low| high <= low))
        };
        !before(&self.high, &other.low) && !before(&other.high, &self.low)
    }

    /// Whether all keys from `min` to `max` lie in the range.
    pub fn encloses(&self, min: &[u8], max: &[u8]) -> bool {
        self.low.as_ref().is_none_or(|low| low.as_bytes() <= min)
            && self.high.as_ref().is_none_or(|high| max < high.as_bytes())
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.low {
            Some(low) => write!(f, "[{low:?}, ")?,
            None => write!(f, "(-, ")?,
        }
        match &self.high {
            Some(high) => write!(f, "{high:?})"),
            None => write!(f, "-)"),
        }
    }
}

/// How a segment's bytes are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SegmentFormat {
    /// Extents of whole rows.
    Extent,
    /// Parquet that any tool can read.
    Parquet,
}

/// One immutable file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentMeta {
    /// Its file: `segments/...`, named by the attempt that wrote it, never used again.
    pub file: String,
    /// How its bytes are laid out.
    pub format: SegmentFormat,
    /// Stored rows.
    pub rows: u64,
    /// The file's length in bytes.
    pub bytes: u64,
    /// The rows' size before compression, in bytes.
    pub raw_bytes: u64,
    /// Where the index part of the file begins; everything from here on is covered by
    /// `index_crc`, everything before it by checksums in the index.
    pub index_offset: u64,
    /// CRC-32C of the file from `index_offset` to its end.
    pub index_crc: u32,
    /// The least key in it.
    pub min_key: Key,
    /// The greatest key in it.
    pub max_key: Key,
    /// Whether every row is a whole-row upsert: such a segment may stand in a base run as it is.
    pub all_upserts: bool,
    /// The newest SCU of any row in it.
    pub newest_scu: ScuNumber,
    /// Of a table whose rows end by a column: no row's moment is after this one, in microseconds
    /// since 1970. `None` where that is not known, or a row has none and never ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moments_through: Option<i64>,
}

/// The folder of segments that never were: see [`SegmentMeta::lost`].
const LOST: &str = "lost/";
/// Longer than any key's common beginning, so that no key comes after it.
const GREATEST_KEY: [u8; 64] = [0xff; 64];

impl SegmentMeta {
    /// Stands for the rows of a table that an SCU held, where its log was damaged before they
    /// were sorted: a file that never was. Whoever needs it meets damage, as with any lost file,
    /// and all other tables go on.
    pub fn lost(scu: ScuNumber, table: TableId, rows: u64) -> SegmentMeta {
        SegmentMeta {
            file: format!("{LOST}{:020}-{}", scu.0, table.0),
            format: SegmentFormat::Extent,
            rows: rows.max(1),
            bytes: 1,
            raw_bytes: 1,
            index_offset: 0,
            index_crc: 0,
            min_key: Key::new([0; 0]),
            max_key: Key::new(GREATEST_KEY),
            all_upserts: false,
            newest_scu: scu,
            moments_through: None,
        }
    }

    /// Whether it stands for rows that were lost before they were sorted.
    pub fn is_lost(&self) -> bool {
        self.file.starts_with(LOST)
    }
}

/// Which stage wrote a run, in the order of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Of one SCU.
    Sorted,
    /// Joined from adjacent runs.
    Merged,
    /// The authority: its span begins at SCU 1, its rows are plain rows.
    Base,
}

/// The sorted data of one view, one key range and one span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its view.
    pub view: ViewId,
    /// Which stage wrote it.
    pub kind: RunKind,
    /// The SCUs whose changes it holds.
    pub span: Span,
    /// The newest SCU of the span that changed anything in the view (or `span.first` - 1 when none
    /// did): a read may end at any boundary from here to `span.last`.
    pub changes_through: ScuNumber,
    /// Its files, by key, disjoint.
    pub segments: Vec<Arc<SegmentMeta>>,
    /// A sort that did not fit its memory gives several runs of one SCU: their order inside it,
    /// from 0. They are one edge, read together.
    #[serde(default)]
    pub part: u32,
}

impl Run {
    /// The bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Its stored rows.
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(|segment| segment.rows).sum()
    }

    /// Where the run stands among the runs of a range.
    pub fn order(&self) -> (ScuNumber, ScuNumber, RunKind, u32, RunId) {
        (
            self.span.first,
            self.span.last,
            self.kind,
            self.part,
            self.id,
        )
    }
}

/// A run as one key range sees it: ranges that share a run supersede it one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunRef {
    /// The run.
    pub id: RunId,
    /// When a merge made it unneeded for this range's newest answers, on the coordinator's clock
    /// in microseconds since 1970. `None` while it is current here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_micros: Option<i64>,
}

impl RunRef {
    /// A run that is current in the range.
    pub fn current(id: RunId) -> RunRef {
        RunRef {
            id,
            superseded_micros: None,
        }
    }

    /// Whether the range's newest answers are made of it.
    pub fn is_current(self) -> bool {
        self.superseded_micros.is_none()
    }
}

/// One key range of a view and the runs that hold its data, current and superseded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeState {
    /// Where it lies.
    pub range: KeyRange,
    /// Its runs, by (span.first, span.last, kind, part, id). Runs may reach beyond the range: a
    /// reader clips.
    pub runs: Vec<RunRef>,
}

/// A table with the state of its primary view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableState {
    /// Its definition.
    pub table: Arc<Table>,
    /// Its earlier definitions, oldest first, as long as a horizon or a log can ask for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older: Vec<OlderTable>,
    /// It holds nothing at or before this boundary; a secondary view can't be read there.
    pub created_after: ScuNumber,
    /// Its primary view's ranges, in the order of keys, covering the whole key space. A manifest
    /// shares with the one before it those that the edit between them left alone.
    pub ranges: Vec<Arc<RangeState>>,
}

/// An earlier definition of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OlderTable {
    /// The boundary that it held to: the newest SCU that may hold batches written under it.
    pub through: ScuNumber,
    /// When it ended, microseconds since 1970 on the coordinator's clock.
    pub until_micros: i64,
    /// The definition.
    pub table: Arc<Table>,
}

impl TableState {
    /// The definition that SCU `scu` was written under, or the oldest that is kept after it.
    pub fn at(&self, scu: ScuNumber) -> &Arc<Table> {
        let older = self.older.iter().find(|older| scu <= older.through);
        older.map_or(&self.table, |older| &older.table)
    }

    /// The definition at a moment whose horizon is `scu`: as [`TableState::at`], save that one
    /// which had ended by then does not count.
    pub fn at_moment(&self, scu: ScuNumber, micros: i64) -> &Arc<Table> {
        let mut older = self.older.iter();
        let held = older.find(|older| scu <= older.through && micros < older.until_micros);
        held.map_or(&self.table, |older| &older.table)
    }

    /// The definitions before a version, oldest first.
    pub fn before(&self, version: SchemaVersion) -> Vec<Arc<Table>> {
        let older = self.older.iter().map(|older| &older.table);
        let older = older.filter(|table| table.version < version);
        older.cloned().collect()
    }
}

/// A sequence, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceState {
    /// Its definition.
    pub sequence: Sequence,
    /// The last number that is reserved. Whoever opens the database goes on behind it.
    pub counter: Counter,
    /// The number of the manifest that last had it stand elsewhere: numbers that were reserved
    /// before are not given out any more.
    pub set_in: u64,
}

/// A sealed SCU whose log is still kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScuEntry {
    /// Its number.
    pub scu: ScuNumber,
    /// How many batches it holds.
    pub batches: u32,
    /// The rows of all its batches.
    pub rows: u64,
    /// The bytes of its batches as accepted, uncompressed.
    pub raw_bytes: u64,
    /// The tables that it changes, with their stored rows.
    pub tables: BTreeMap<TableId, u64>,
    /// The log files that hold its commit frames, oldest first: file name, identity, and the
    /// offsets between which the commit frames lie.
    pub log: Vec<LogPiece>,
    /// All log files that must stay for it: those above, and those of earlier data frames.
    pub files: Vec<String>,
    /// The number of its first batch, if that came with DDL: of all commit frames with such a
    /// number, this one alone counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ddl_batch: Option<u64>,
}

impl ScuEntry {
    /// An SCU that a transaction has for itself.
    pub fn without_batches(scu: ScuNumber) -> ScuEntry {
        ScuEntry {
            scu,
            batches: 0,
            rows: 0,
            raw_bytes: 0,
            tables: BTreeMap::new(),
            log: Vec::new(),
            files: Vec::new(),
            ddl_batch: None,
        }
    }
}

/// A batch that came with DDL: it counts because the manifest names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DdlBatch {
    /// The SCU that it is the first batch of; the DDL stands at the boundary right before.
    pub scu: ScuNumber,
    /// The number that its commit frame carries, drawn at random, never 0.
    pub number: u64,
}

/// A stretch of a log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPiece {
    /// The file's name.
    pub file: String,
    /// The identity that its frames carry.
    pub identity: u64,
    /// The first frame's offset.
    pub start: u64,
    /// The offset after the last frame.
    pub end: u64,
}

/// When an SCU came to be, and how many batches there were: what staleness is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScuTime {
    /// When its first batch was written to the log, to be acknowledged once that was durable,
    /// microseconds since 1970 on the coordinator's clock.
    pub first_ack_micros: i64,
    /// When its last batch was acknowledged.
    pub last_ack_micros: i64,
    /// All batches of the database up to the SCU's end.
    pub batches_through: u64,
}

/// How far a named producer has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerMark {
    /// The number of its last batch.
    pub number: u64,
    /// The hash of that batch's content.
    pub content_hash: u64,
    /// The SCU that holds it, and how many batches of that SCU count up to it.
    pub scu: ScuNumber,
    /// See `scu`.
    pub batches: u32,
    /// Session epochs fence older sessions of the name.
    pub epoch: u64,
}

/// The numbered, immutable value that names everything. Swapped whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Rises by one with each edit.
    pub number: u64,
    /// Whose manifest it is.
    pub database: DatabaseId,
    /// Fences writers: a new leader raises it first.
    pub epoch: u64,
    /// The greatest wall time seen, so that a clock set back never makes answers look older.
    pub clock_micros: i64,
    /// The next table id.
    pub next_table: u32,
    /// The next view id.
    pub next_view: u32,
    /// The next run id.
    pub next_run: u64,
    /// SCUs up to here are sealed.
    pub sealed_through: ScuNumber,
    /// SCUs up to here are sorted: every range of every view can end at each of the newest
    /// boundaries.
    pub sorted_through: ScuNumber,
    /// The last SCU whose natural keys were given numbers by an edit; see
    /// [`Manifest::remapped_through`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_remapped: ScuNumber,
    /// The next numbers of key maps after SCUs that gave some out: of all whose log is kept, and
    /// of each map the last ones before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub next_ids: BTreeMap<ScuNumber, BTreeMap<TableId, NextIds>>,
    /// The newest batch that came with DDL. No snapshot of this manifest ends before it: the tables
    /// are as that transaction left them, so its rows are there too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ddl_batch: Option<DdlBatch>,
    /// Who may do what.
    #[serde(default, skip_serializing_if = "is_open")]
    pub access: Arc<Access>,
    /// Tables by id.
    pub tables: BTreeMap<TableId, Arc<TableState>>,
    /// Secondary views by the id of their rows' definition: each holds rows of a table in another
    /// order, up to a boundary of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub views: BTreeMap<TableId, Arc<TableState>>,
    /// Sequences by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sequences: BTreeMap<SequenceId, Arc<SequenceState>>,
    /// Plain views by id: queries under names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plain_views: BTreeMap<TableId, Arc<Table>>,
    /// Sealed SCUs whose log is still kept.
    pub scus: BTreeMap<ScuNumber, Arc<ScuEntry>>,
    /// Times of the SCUs that a horizon may still name, and of the last one before them.
    pub times: BTreeMap<ScuNumber, ScuTime>,
    /// Times of SCUs before those: what the column `_time` shows.
    #[serde(default, skip_serializing_if = "ScuHistory::is_empty")]
    pub history: ScuHistory,
    /// All runs by id.
    pub runs: BTreeMap<RunId, Arc<Run>>,
    /// Marks of named producers.
    pub producers: BTreeMap<String, ProducerMark>,
}

/// Nobody was granted or forbidden anything.
fn is_open(access: &Arc<Access>) -> bool {
    **access == Access::default()
}

fn is_zero(scu: &ScuNumber) -> bool {
    *scu == ScuNumber::ZERO
}

/// What happened after a boundary.
impl Manifest {
    /// Whether any sealed batch after a boundary changes a table, as far as the log or runs that
    /// are there tell; a table that was emptied after it is changed.
    pub fn changes_after(&self, table: TableId, boundary: ScuNumber) -> bool {
        let mut entries = self.scus.range(boundary.next()..);
        if entries.any(|(_, entry)| entry.tables.contains_key(&table)) {
            return true;
        }
        let ranges = self.tables.get(&table).map(|state| &state.ranges);
        let mut runs = ranges.into_iter().flatten().flat_map(|range| &range.runs);
        runs.any(|run| {
            let run = self.runs.get(&run.id);
            run.is_some_and(|run| run.changes_through > boundary)
        })
    }
}

/// ID keys.
impl Manifest {
    /// SCUs up to here have numbers for all their natural keys: those of which an edit says so,
    /// and those right behind that hold none.
    pub fn remapped_through(&self) -> ScuNumber {
        let known = self.last_remapped.max(self.sorted_through);
        let after = self.scus.range(known.next()..);
        let without = after.take_while(|(_, entry)| !self.holds_keys(entry));
        without.last().map_or(known, |(scu, _)| *scu)
    }

    /// Whether an SCU mentions natural keys of tables that are there.
    pub fn holds_keys(&self, entry: &ScuEntry) -> bool {
        entry.tables.keys().any(|table| self.is_key_map(*table))
    }

    /// Whether a table is the key map of another one.
    pub fn is_key_map(&self, table: TableId) -> bool {
        let state = self.tables.get(&table);
        state.is_some_and(|state| state.table.key_map.is_some())
    }

    /// The next numbers of a key map at a boundary; `None` where there is no such map.
    pub fn next_ids_at(&self, map: TableId, boundary: ScuNumber) -> Option<NextIds> {
        let partitions = self.tables.get(&map)?.table.key_map?.partitions;
        let mut before = self.next_ids.range(..=boundary).rev();
        let given = before.find_map(|(_, of)| of.get(&map).cloned());
        Some(given.unwrap_or_else(|| NextIds::first(partitions)))
    }
}

impl Manifest {
    /// Whether a table has another definition here than in an earlier manifest that had it.
    pub fn redefines(&self, earlier: &Manifest) -> bool {
        let now = self.tables.values();
        let mut both = now.filter_map(|now| Some((now, earlier.tables.get(&now.table.id)?)));
        both.any(|(now, then)| now.table.version != then.table.version)
    }

    /// A table by its name.
    pub fn table_named(&self, name: &str) -> Option<&Arc<TableState>> {
        self.tables.values().find(|state| state.table.name == name)
    }

    /// Whether a commit frame that carries `number` and stands in `scu` counts; one without a
    /// number always does.
    pub fn counts(&self, scu: ScuNumber, number: Option<u64>) -> bool {
        let named = |number| self.ddl_batch == Some(DdlBatch { scu, number });
        number.is_none_or(named)
    }

    /// The least horizon of a snapshot: see `ddl_batch`.
    pub fn least_horizon(&self) -> Horizon {
        let batch = self.ddl_batch;
        batch.map_or(Horizon::ZERO, |batch| Horizon::inside(batch.scu, 1))
    }

    /// A moment that the as-of time of a boundary does not lie before, as far as the manifest
    /// knows: when the first batch after it was written, or the last one before it acknowledged.
    pub fn as_of_at_least(&self, boundary: ScuNumber) -> Option<i64> {
        let after = self.times.get(&boundary.next());
        let before = self.times.get(&boundary);
        let after = after.map(|time| time.first_ack_micros);
        after.or(before.map(|time| time.last_ack_micros))
    }

    /// Runs that stand for rows which were lost before they were sorted: the SCU, and the table.
    pub fn lost_runs(&self) -> impl Iterator<Item = (ScuNumber, TableId)> {
        let lost = |run: &&Arc<Run>| {
            run.kind == RunKind::Sorted && run.segments.iter().any(|segment| segment.is_lost())
        };
        self.runs.values().filter(lost).filter_map(|run| {
            let state = self.table_of_view(run.view)?;
            Some((run.span.first, state.table.id))
        })
    }

    /// The runs that some range's newest answers are made of.
    pub fn current_runs(&self) -> BTreeSet<RunId> {
        let ranges = self.all_ranges().map(|(_, range)| range);
        let current = ranges.flat_map(|range| range.runs.iter().filter(|run| run.is_current()));
        current.map(|run| run.id).collect()
    }

    /// The name of a table, for messages.
    pub fn table_name(&self, id: TableId) -> TableName {
        match self.tables.get(&id) {
            Some(state) => state.table.name.clone(),
            None => format!("dropped table {id}"),
        }
    }

    /// The run of a range's entry.
    ///
    /// # Panics
    /// When the manifest breaks MAN-9: entries name runs that exist.
    pub fn run(&self, id: RunId) -> &Arc<Run> {
        self.runs
            .get(&id)
            .expect("ranges name runs that exist (MAN-9), checked at every commit and load")
    }

    /// The least boundary that the current base of any range ends at; `sorted_through` when there
    /// is no table.
    pub fn oldest_base_end(&self) -> ScuNumber {
        let ranges = self.primary_ranges();
        let bases = ranges.filter_map(|(_, range)| self.base_end(range));
        bases.min().unwrap_or(self.sorted_through)
    }

    /// The boundary that the current base of a range ends at.
    pub(super) fn base_end(&self, range: &RangeState) -> Option<ScuNumber> {
        let first = range.runs.iter().find(|entry| entry.is_current())?;
        Some(self.runs.get(&first.id)?.span.last)
    }

    /// Every key range of every view, primary or not, with its view.
    pub fn all_ranges(&self) -> impl Iterator<Item = (ViewId, &RangeState)> {
        self.tables
            .values()
            .chain(self.views.values())
            .flat_map(ranges_of)
    }

    /// The key ranges of primary views: those that every SCU reaches when it is sorted.
    pub fn primary_ranges(&self) -> impl Iterator<Item = (ViewId, &RangeState)> {
        self.tables.values().flat_map(ranges_of)
    }

    /// A table or secondary view, by its id.
    pub(super) fn state_of(&self, id: TableId) -> Option<&TableState> {
        let state = self.tables.get(&id).or_else(|| self.views.get(&id));
        state.map(|state| &**state)
    }

    /// The rows that a view holds: a table, or a secondary view of one.
    pub fn table_of_view(&self, view: ViewId) -> Option<&Arc<TableState>> {
        self.tables
            .values()
            .chain(self.views.values())
            .find(|state| state.table.primary.id == view)
    }
}

fn ranges_of(state: &Arc<TableState>) -> impl Iterator<Item = (ViewId, &RangeState)> {
    let view = state.table.primary.id;
    state.ranges.iter().map(move |range| (view, &**range))
}
