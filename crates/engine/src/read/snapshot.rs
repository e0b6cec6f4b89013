//! A pinned manifest and a horizon in it: what every answer is computed from.
//!
//! Invariant READ-4: a snapshot has both the DDL and the batch of a transaction, or neither. A
//! batch that came with DDL is published before the manifest that names it can be seen, so:
//!
//! ```text
//!   manifest pinned   batch published   the snapshot
//!   before the edit   no or yes         leaves out the batch and all after it: it began before
//!                                       the commit was acknowledged
//!   after the edit    yes               its horizon is at or after the batch, whatever the bound
//! ```

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::temporal_conversions::timestamp_us_to_datetime;
use lazybase_model::freshness::DisplayDuration;
use lazybase_model::{
    Error, Freshness, Horizon, OnMiss, Result, SchemaVersion, ScuNumber, SourceCounts, Stamp,
    Table, TableId, limits,
};
use parking_lot::Mutex;

use super::damaged::Damaged;
use super::delta::KeptDeltas;
use super::freshness::{self, Acks, Cheaper, Choice, FreshnessInput, UnsortedSummary};
use super::hidden::TimesCache;
use super::identify::Identifier;
use super::kept_rows::KeptRows;
use super::paths::{ReadIndex, TablePath};
use super::turns::Turns;
use super::unsorted::UnsortedCache;
use crate::env::Env;
use crate::env::planted::{Planted, is_planted};
use crate::key::Key;
use crate::manifest::{KeyRange, Manifest, Pin, Pins, TableState};
use crate::segment::{ReadCounters, RowLayout, SegmentCache};
use crate::stages::ingest::{AcceptedBatch, UnsortedScu};
use crate::ttl::Expiry;

/// The most layouts that are kept: far more than a database has tables in use.
const LAYOUTS_MAX: usize = 4096;

/// What all reads of a database share. Cheap to clone: clones are the same reader. Each snapshot
/// holds one.
#[derive(Debug, Clone)]
pub struct Reader(Arc<ReaderParts>);

impl Deref for Reader {
    type Target = ReaderParts;

    fn deref(&self) -> &ReaderParts {
        &self.0
    }
}

/// What a reader is made of.
#[derive(Debug, Clone)]
pub struct ReaderParts {
    /// The world.
    pub env: Env,
    /// Open segments and decoded extents.
    pub cache: Arc<SegmentCache>,
    /// What readers hold.
    pub pins: Pins,
    /// Unsorted data that a read had to sort or index: kept, not repeated.
    pub unsorted: Arc<UnsortedCache>,
    /// The layouts of tables that were read or written.
    layouts: Arc<Mutex<Layouts>>,
    /// Files that could not be read as they were written.
    pub damaged: Damaged,
    /// Times of SCUs that no horizon asks for.
    pub(super) times: Arc<TimesCache>,
    /// Whose turn it is to give numbers to natural keys: one after the other.
    pub(super) remapping: Arc<Turns>,
    /// The paths of the newest manifest that was read.
    index: Arc<Mutex<Option<KeptIndex>>>,
    /// What changed since the ends of views, for the next query at the same horizon.
    pub(super) deltas: Arc<KeptDeltas>,
    /// What was reconciled over the authority, for the next read of the same files.
    pub(super) kept_rows: Arc<KeptRows>,
}

/// Layouts by table and version.
type Layouts = HashMap<(TableId, SchemaVersion), Arc<RowLayout>>;

/// The paths of a manifest, and the number of the set of damaged files that they avoid.
#[derive(Debug)]
struct KeptIndex {
    manifest: Arc<Manifest>,
    avoids: u64,
    index: Arc<ReadIndex>,
}

/// A horizon of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsOf {
    /// The end of this SCU.
    Scu(ScuNumber),
    /// The newest boundary whose batches were all acknowledged by then.
    Timestamp {
        /// Microseconds since 1970.
        micros: i64,
    },
}

impl fmt::Display for AsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsOf::Scu(scu) => write!(f, "SCU {scu}"),
            AsOf::Timestamp { micros } => match timestamp_us_to_datetime(*micros) {
                Some(moment) => write!(f, "TIMESTAMP {moment}"),
                // Beyond the years that have a date: as seconds, which AS OF takes too.
                None => write!(f, "TIMESTAMP {}", micros.div_euclid(1_000_000)),
            },
        }
    }
}

/// What a snapshot is made from.
#[derive(Debug)]
pub struct SnapshotAsk {
    /// The newest manifest, pinned.
    pub pin: Pin,
    /// All SCUs after its `sorted_through`, the open one included, oldest first.
    pub unsorted: Vec<Arc<UnsortedScu>>,
    /// The coordinator's clock.
    pub now_micros: i64,
    /// The bound.
    pub freshness: Freshness,
    /// Never before this.
    pub floor: Horizon,
    /// What to do when the bound needs unsorted data.
    pub on_miss: OnMiss,
    /// A horizon of the past instead of a bound.
    pub at: Option<AsOf>,
    /// The tables that the query names; `None` for all.
    pub tables: Option<Vec<TableId>>,
}

/// A consistent cut of the whole database. Cheap to clone; the pin lasts while any clone lives.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(super) inner: Arc<Inner>,
    /// Tables that a transaction changed, as it left them.
    own: Arc<HashMap<TableId, OwnTable>>,
}

/// A table as a transaction left it.
#[derive(Debug, Clone)]
pub struct OwnTable {
    /// Its definition.
    pub table: Arc<Table>,
    /// Whether the transaction made or emptied it: nothing that is stored counts.
    pub is_emptied: bool,
    /// Where nothing that is stored counts: partitions that the transaction dropped.
    pub emptied: Vec<KeyRange>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) reader: Reader,
    pub(super) manifest: Arc<Manifest>,
    pub(super) choice: Choice,
    /// The unsorted SCUs that count, oldest first, with how many of their batches.
    pub(super) unsorted: Vec<(Arc<UnsortedScu>, u32)>,
    /// All SCUs that are not sorted in the manifest, oldest first.
    all_unsorted: Vec<Arc<UnsortedScu>>,
    /// What gives numbers to natural keys, once somebody has asked; or where that is not the
    /// manifest.
    numbers: OnceLock<Identifier>,
    pub(super) counters: Arc<ReadCounters>,
    pub(super) opened: Mutex<SourceCounts>,
    /// Which set of damaged files the choice avoids.
    pub(super) avoids: u64,
    /// Other paths to the same horizon, with the set of damaged files that each avoids.
    pub(super) detours: Mutex<HashMap<TableId, (u64, Arc<TablePath>)>>,
    /// Whether the stamp keeps what was read to itself.
    concealed: AtomicBool,
    asked: Freshness,
    /// The horizon of the past that was asked for.
    at: Option<AsOf>,
    pin: Pin,
}

impl Reader {
    /// A reader of the environment's store, with a cache of `cache_bytes`.
    pub fn new(env: Env, cache_bytes: u64) -> Reader {
        let cache = Arc::new(SegmentCache::new(Arc::clone(&env.clock), cache_bytes));
        Reader(Arc::new(ReaderParts {
            deltas: Arc::new(KeptDeltas::new(&cache)),
            kept_rows: Arc::new(KeptRows::new(&cache)),
            cache,
            pins: Pins::new(Arc::clone(&env.clock), limits::PIN_LIFETIME),
            unsorted: Arc::default(),
            layouts: Arc::default(),
            damaged: Damaged::default(),
            times: Arc::default(),
            remapping: Arc::default(),
            index: Arc::default(),
            env,
        }))
    }

    /// A reader with pins, paths and a set of damaged files of its own, for reads that choose their
    /// sources otherwise than queries do. It leaves out `avoided` files, and what is known as
    /// damaged. What it pins holds nothing: whoever uses it holds the manifest.
    pub(super) fn apart(&self, avoided: &[String]) -> Reader {
        let damaged = Damaged::default();
        let (_, known) = self.damaged.files();
        known.values().for_each(|error| damaged.note(error));
        for file in avoided {
            damaged.note(&Error::corrupt(format!("{file}: left out")).with_file(file));
        }
        Reader(Arc::new(ReaderParts {
            pins: Pins::new(Arc::clone(&self.env.clock), limits::PIN_LIFETIME),
            damaged,
            index: Arc::default(),
            deltas: Arc::new(KeptDeltas::new(&self.cache)),
            kept_rows: Arc::new(KeptRows::new(&self.cache)),
            unsorted: Arc::default(),
            ..ReaderParts::clone(self)
        }))
    }

    /// Somebody hangs who may have the turn to give numbers to natural keys: others go on in its
    /// place, and what it finds is not kept.
    pub fn pass_on_remapping(&self) {
        self.remapping.pass_on();
    }

    /// The layout of a table's rows: made once for each schema.
    ///
    /// # Errors
    /// `Invalid` when a key column's type has no order.
    pub fn layout(&self, table: &Arc<Table>) -> Result<Arc<RowLayout>> {
        self.layout_after(table, Vec::new)
    }

    /// The layout of a table's rows under one of its definitions, or one that a transaction made of
    /// it, for rows that may be stored under earlier ones.
    ///
    /// # Errors
    /// As [`Reader::layout`].
    pub fn layout_of(&self, state: &TableState, table: &Arc<Table>) -> Result<Arc<RowLayout>> {
        self.layout_after(table, || {
            let mut older = state.before(table.version);
            if state.table.version < table.version {
                older.push(Arc::clone(&state.table));
            }
            older
        })
    }

    fn layout_after(
        &self,
        table: &Arc<Table>,
        older: impl FnOnce() -> Vec<Arc<Table>>,
    ) -> Result<Arc<RowLayout>> {
        let key = (table.id, table.version);
        let mut layouts = self.layouts.lock();
        // A transaction's definition may have the version that another one will commit.
        let known = layouts.get(&key);
        let same =
            |known: &&Arc<RowLayout>| Arc::ptr_eq(&known.table, table) || *known.table == **table;
        if let Some(layout) = known.filter(same) {
            return Ok(Arc::clone(layout));
        }
        if layouts.len() >= LAYOUTS_MAX {
            layouts.clear();
        }
        let layout = Arc::new(RowLayout::after(table, older())?);
        layouts.insert(key, Arc::clone(&layout));
        Ok(layout)
    }

    /// The paths of a manifest that need no damaged file: made once for each.
    pub fn index(&self, manifest: &Arc<Manifest>) -> Arc<ReadIndex> {
        self.index_avoiding(manifest).1
    }

    /// The same, and which set of damaged files they avoid.
    pub fn index_avoiding(&self, manifest: &Arc<Manifest>) -> (u64, Arc<ReadIndex>) {
        let (avoids, damaged) = self.damaged.files();
        let mut kept = self.index.lock();
        let is_same =
            |known: &&KeptIndex| known.manifest.number == manifest.number && known.avoids == avoids;
        if let Some(known) = kept.as_ref().filter(is_same) {
            return (avoids, Arc::clone(&known.index));
        }
        let earlier = kept.as_ref().map(|known| (&*known.manifest, &*known.index));
        let index = Arc::new(ReadIndex::after(earlier, manifest, &damaged));
        *kept = Some(KeptIndex {
            manifest: Arc::clone(manifest),
            avoids,
            index: Arc::clone(&index),
        });
        (avoids, index)
    }

    /// Chooses a horizon and pins what it needs.
    ///
    /// # Errors
    /// `Unavailable` when the bound can't be met and misses are errors; `NotFound` when a past
    /// horizon is outside the retention.
    pub fn snapshot(&self, ask: SnapshotAsk) -> Result<Snapshot> {
        let manifest = Arc::clone(ask.pin.manifest());
        let (avoids, index) = self.index_avoiding(&manifest);
        let summaries = summaries(&manifest, &ask.unsorted);
        let at = match ask.at {
            None => None,
            Some(AsOf::Scu(scu)) => Some(Horizon::end_of(scu)),
            Some(AsOf::Timestamp { micros }) => {
                Some(freshness::boundary_at(&index, &summaries, micros)?)
            }
        };
        let tables = ask.tables.map(|tables| with_key_maps(&manifest, tables));
        let choice = freshness::choose(&FreshnessInput {
            index: &index,
            unsorted: &summaries,
            now_micros: ask.now_micros,
            freshness: ask.freshness,
            floor: match is_planted(Planted::FloorIgnored) {
                true => manifest.least_horizon(),
                false => ask.floor.max(manifest.least_horizon()),
            },
            on_miss: ask.on_miss,
            at,
            tables: tables.as_deref(),
        })?;
        let unsorted = choice
            .unsorted_scus
            .iter()
            .filter_map(|(number, batches)| {
                let scu = ask.unsorted.iter().find(|scu| scu.scu() == *number)?;
                let batches = match *batches {
                    batches if is_planted(Planted::HorizonShort) => batches.saturating_sub(1),
                    batches if is_planted(Planted::HorizonLong) => batches.saturating_add(1),
                    batches => batches,
                };
                Some((Arc::clone(scu), batches))
            })
            .collect();
        ask.pin.set_horizon(choice.horizon);
        Ok(Snapshot {
            own: Arc::default(),
            inner: Arc::new(Inner {
                reader: self.clone(),
                manifest,
                choice,
                all_unsorted: ask.unsorted,
                numbers: OnceLock::new(),
                unsorted,
                counters: Arc::default(),
                opened: Mutex::default(),
                avoids,
                detours: Mutex::default(),
                concealed: AtomicBool::new(false),
                asked: ask.freshness,
                at: ask.at,
                pin: ask.pin,
            }),
        })
    }
}

/// Tables that a query names, with the key maps whose mentions make rows of them.
fn with_key_maps(manifest: &Manifest, mut tables: Vec<TableId>) -> Vec<TableId> {
    for at in 0..tables.len() {
        let state = manifest.tables.get(&tables[at]);
        let map = state
            .and_then(|state| state.table.owned_id())
            .map(|(_, map)| map);
        if let Some(map) = map.filter(|map| !tables.contains(map)) {
            tables.push(map);
        }
    }
    tables
}

/// What the choice of a horizon may take: everything that was published before the first SCU that
/// a transaction of a newer manifest has for itself, and the first batch that came with one.
fn summaries(manifest: &Manifest, unsorted: &[Arc<UnsortedScu>]) -> Vec<UnsortedSummary> {
    let mut summaries = Vec::with_capacity(unsorted.len());
    for scu in unsorted {
        let summary = summary(scu);
        // Looked at second: what is not there now is not in the summary either.
        let counts = manifest.counts(scu.scu(), scu.ddl_batch()) && !scu.is_reserved();
        if scu.scu() <= manifest.sealed_through || counts {
            summaries.push(summary);
            continue;
        }
        summaries.push(UnsortedSummary {
            sealed: false,
            acks: Acks::Each(Arc::default()),
            bytes: Default::default(),
            ..summary
        });
        break;
    }
    summaries
}

/// What the choice of a horizon needs to know of an unsorted SCU.
pub fn summary(scu: &UnsortedScu) -> UnsortedSummary {
    // Where the SCU begins, the one before ends: by the time that the log and the manifest keep, so
    // that a boundary is as of the same moment for ever.
    let moment = |(at, batch): (usize, &Arc<AcceptedBatch>)| match at {
        0 => batch.written_micros,
        _ => batch.ack_micros,
    };
    // At one moment: batches that joined meanwhile would be no batches of a sealed SCU.
    scu.look(|sealed, batches, tables| UnsortedSummary {
        scu: scu.scu(),
        sealed,
        acks: Acks::Each(batches.iter().enumerate().map(moment).collect()),
        bytes: tables
            .iter()
            .map(|(table, of)| (*table, of.raw_bytes))
            .collect(),
    })
}

/// What best effort would have saved, in words.
fn advice(choice: &Choice, cheaper: &Cheaper) -> String {
    let staleness = DisplayDuration(cheaper.staleness);
    match cheaper.work {
        0 => format!("an answer {staleness} stale would have had nothing to read"),
        work => {
            let share = choice.estimated_work as f64 / work as f64;
            format!("an answer {staleness} stale would have cost {share:.0} times less")
        }
    }
}

impl Inner {
    /// Gives numbers to the natural keys of unsorted SCUs.
    pub(super) fn ids(&self) -> &Identifier {
        self.numbers.get_or_init(|| {
            let unsorted = self.all_unsorted.iter().cloned();
            Identifier::new(self.reader.clone(), Arc::clone(&self.manifest), unsorted)
        })
    }
}

impl Snapshot {
    /// The answer contains exactly the batches up to here.
    pub fn horizon(&self) -> Horizon {
        self.inner.choice.horizon
    }

    /// Which rows of a table have ended at the snapshot's as-of time.
    pub(super) fn expiry(&self, table: &Table) -> Option<Expiry> {
        Expiry::of(table, self.inner.choice.as_of_micros)
    }

    /// The pinned manifest.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.inner.manifest
    }

    /// The same snapshot, where nobody has it yet, with the numbers of natural keys from elsewhere.
    pub(super) fn numbered_by(mut self, numbers: Identifier) -> Snapshot {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.numbers = OnceLock::from(numbers);
        }
        self
    }

    /// The same snapshot for a transaction that changed these tables: of those that it made or
    /// emptied only its own changes are there, others have the definition that it gave them.
    pub fn with_own(mut self, tables: impl IntoIterator<Item = OwnTable>) -> Snapshot {
        let tables = tables.into_iter().map(|own| (own.table.id, own));
        self.own = Arc::new(tables.collect());
        self
    }

    /// Whether no stored row of a table counts.
    pub(super) fn is_emptied(&self, table: TableId) -> bool {
        self.own.get(&table).is_some_and(|own| own.is_emptied)
    }

    /// Whether a transaction has made or emptied a table, or changed its partitions.
    pub(super) fn has_own(&self, table: TableId) -> bool {
        self.own.contains_key(&table)
    }

    /// Whether no stored row of a table counts that lies in a range of keys, which lies in one
    /// partition.
    pub(super) fn is_emptied_in(&self, table: TableId, range: &KeyRange) -> bool {
        let own = self.own.get(&table);
        own.is_some_and(|own| {
            own.is_emptied || own.emptied.iter().any(|emptied| emptied.meets(range))
        })
    }

    /// Whether no stored row of a key counts.
    pub(super) fn is_emptied_at(&self, table: TableId, key: &Key) -> bool {
        let own = self.own.get(&table);
        own.is_some_and(|own| {
            own.is_emptied || own.emptied.iter().any(|emptied| emptied.contains(key))
        })
    }

    /// The definition under which a table's rows are given: a transaction's own, that of the
    /// horizon where one of the past was asked for, or else the newest.
    ///
    /// # Errors
    /// `NotFound` when the table is not in the snapshot.
    pub fn definition(&self, table: TableId) -> Result<Arc<Table>> {
        if let Some(own) = self.own.get(&table) {
            return Ok(Arc::clone(&own.table));
        }
        let state = self.state(table)?;
        let scu = self.inner.choice.horizon.scu;
        let table = match self.inner.at {
            None => &state.table,
            Some(AsOf::Scu(_)) => state.at(scu),
            Some(AsOf::Timestamp { micros }) => state.at_moment(scu, micros),
        };
        Ok(Arc::clone(table))
    }

    fn state(&self, table: TableId) -> Result<&Arc<TableState>> {
        self.inner.manifest.tables.get(&table).ok_or_else(|| {
            Error::not_found(format!("table {table} is not in the snapshot")).with_sqlstate("42P01")
        })
    }

    /// The table of a name.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        match self.inner.manifest.table_named(name) {
            Some(state) => Ok(Arc::clone(&state.table)),
            None => {
                Err(Error::not_found(format!("there is no table {name:?}")).with_sqlstate("42P01"))
            }
        }
    }

    /// The layout of a table's rows.
    ///
    /// # Errors
    /// `NotFound` when the table is not in the snapshot.
    pub fn layout(&self, table: TableId) -> Result<Arc<RowLayout>> {
        let definition = self.definition(table)?;
        match self.inner.manifest.tables.get(&table) {
            Some(state) => self.inner.reader.layout_of(state, &definition),
            None => self.inner.reader.layout(&definition),
        }
    }

    /// The layout that rows of the log are read by: their keys begin with the partitions that there
    /// were when they were written, and with none that a transaction gave the same bounds later. Of
    /// a table that it made or emptied, nothing in the log counts.
    pub(super) fn log_layout(&self, layout: &Arc<RowLayout>) -> Result<Arc<RowLayout>> {
        let own = self.own.get(&layout.table.id);
        if own.is_none_or(|own| own.is_emptied || own.emptied.is_empty()) {
            return Ok(Arc::clone(layout));
        }
        let stored = &self.state(layout.table.id)?.table;
        let table = Table {
            partitioning: stored.partitioning.clone(),
            ..layout.table.as_ref().clone()
        };
        Ok(Arc::new(RowLayout::after(
            &Arc::new(table),
            layout.older.clone(),
        )?))
    }

    /// Fails once the pin is lost.
    ///
    /// # Errors
    /// `SnapshotTooOld`: the files may be gone; rows would be missing.
    pub fn check_pin(&self) -> Result<()> {
        self.inner.pin.check()
    }

    /// From now on the stamp tells nothing of what is read: its reader may not know of all of it.
    pub fn conceal_sources(&self) {
        self.inner.concealed.store(true, Ordering::Relaxed);
    }

    /// The stamp, with everything that was read through this snapshot so far.
    pub fn stamp(&self) -> Stamp {
        let inner = &self.inner;
        let concealed = inner.concealed.load(Ordering::Relaxed);
        let mut sources = SourceCounts::default();
        if !concealed {
            sources = *inner.opened.lock();
            sources.extents_read = inner.counters.extents_read();
            sources.bytes_read = inner.counters.bytes_read();
            sources.cache_hits = inner.counters.extents_cached();
        }
        Stamp {
            horizon: inner.choice.horizon,
            as_of_micros: inner.choice.as_of_micros,
            freshness_asked: inner.asked,
            as_of_asked: inner.at.map(|at| at.to_string()),
            staleness: inner.choice.staleness,
            batches_left_out: inner.choice.batches_left_out,
            sources,
            advice: inner
                .choice
                .cheaper
                .as_ref()
                .filter(|_| !concealed)
                .map(|cheaper| advice(&inner.choice, cheaper)),
        }
    }
}
