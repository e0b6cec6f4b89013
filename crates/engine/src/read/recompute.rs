//! Whether a later stage holds what an earlier one makes of it: what `VERIFY TABLE` asks.
//!
//! ```text
//!   run of SCUs a..=b   late:  runs before a, and the run          \  the same boundary,
//!                       early: runs before a, and what the run     /  the same rows?
//!                              was made of; for a sorted run its log
//! ```
//!
//! Both ways are ordinary reads: each has a manifest of its own in which the other's runs are left
//! out, so that the kernels that answer queries are the ones that are compared. Numbers of natural
//! keys alone are looked up in the whole manifest: a key map that is compared has one range left,
//! and a log mentions keys of all of them. Nothing here takes the place of a checksum: a file may
//! be whole and wrong. Reads runs and logs, writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::util::display::array_value_to_string;
use arrow_row::{RowConverter, SortField};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use lazybase_model::{Error, Freshness, Horizon, OnMiss, Result, ScuNumber, Span, TableId};

use super::arrow_internal;
use super::damaged::DamagedFiles;
use super::delta::table_key_in;
use super::hidden::HiddenColumn;
use super::identify::Identifier;
use super::paths::{RangePaths, segments_in};
use super::scan::{Form, ScanRequest, codec_of};
use super::snapshot::{AsOf, Reader, Snapshot, SnapshotAsk};
use crate::env::Random;
use crate::key::{Key, KeyCodec};
use crate::manifest::{KeyRange, Manifest, RangeState, Run, RunId, RunKind, RunRef, TableState};
use crate::segment::{ReadCounters, RowLayout};
use crate::stages::ingest::UnsortedScu;

/// How many differences of a run are told one by one.
pub const DIFFERENCES_TOLD: usize = 5;
/// The longest text of a row that is told.
const ROW_TEXT_MAX: usize = 200;
/// The rows that are compared at once.
const BATCH_ROWS: usize = 8192;
/// Parts of a whole that a sample is drawn in.
const SHARES: u64 = 1 << 20;

/// A run of one key range that can be compared, or why it can't.
#[derive(Debug, Clone)]
pub struct StagePair {
    /// The run, or the parts of one sort.
    pub runs: Vec<Arc<Run>>,
    /// Its keys.
    pub range: KeyRange,
    /// Where both ways end, and the ways; or what is missing.
    pub ways: Result<Ways, String>,
}

/// Two ways to one boundary.
#[derive(Debug, Clone)]
pub struct Ways {
    boundary: ScuNumber,
    late: Arc<Manifest>,
    early: Arc<Manifest>,
    /// Files that the early way leaves out: the log is read in their place.
    avoided: Vec<String>,
}

impl StagePair {
    /// Which stage wrote the run.
    pub fn kind(&self) -> RunKind {
        self.runs[0].kind
    }

    /// Its SCUs.
    pub fn span(&self) -> Span {
        self.runs[0].span
    }
}

/// What comparing a run showed.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// Rows that were compared.
    pub rows: u64,
    /// How many rows differ.
    pub differing: u64,
    /// The first of them in words.
    pub told: Vec<String>,
    /// The run's files that hold them, or should.
    pub files: BTreeSet<String>,
}

/// What comparing a view with its table showed.
#[derive(Debug, Clone, Default)]
pub struct WrongEntries {
    /// Entries that were looked at.
    pub compared: u64,
    /// How many of them are those of no row.
    pub wrong: u64,
    /// The first of them in words.
    pub told: Vec<String>,
}

/// All runs of a table or key map, oldest first, each with the two ways to its end.
pub fn stage_pairs(manifest: &Manifest, table: &TableState) -> Vec<StagePair> {
    let mut pairs = Vec::new();
    for range in &table.ranges {
        for runs in edges(manifest, range) {
            if runs.iter().all(|run| run.segments.is_empty()) && runs[0].kind != RunKind::Base {
                continue;
            }
            if runs[0].span.is_empty() {
                continue;
            }
            pairs.push(StagePair {
                ways: ways(manifest, table, range, &runs),
                range: range.range.clone(),
                runs,
            });
        }
    }
    pairs
}

/// The runs of a range, the parts of one sort together.
fn edges(manifest: &Manifest, range: &RangeState) -> Vec<Vec<Arc<Run>>> {
    let runs: Vec<&Arc<Run>> = range
        .runs
        .iter()
        .filter_map(|entry| manifest.runs.get(&entry.id))
        .collect();
    let parts = |a: &&Arc<Run>, b: &&Arc<Run>| {
        a.kind == RunKind::Sorted && b.kind == a.kind && a.span == b.span
    };
    let edges = runs.chunk_by(parts);
    edges
        .map(|edge| edge.iter().map(|run| Arc::clone(run)).collect())
        .collect()
}

fn ways(
    manifest: &Manifest,
    table: &TableState,
    range: &RangeState,
    runs: &[Arc<Run>],
) -> Result<Ways, String> {
    let span = runs[0].span;
    let own: BTreeSet<RunId> = runs.iter().map(|run| run.id).collect();
    let sorted = runs[0].kind == RunKind::Sorted;
    let overlaps = |run: &Run| {
        !run.span.is_empty() && run.span.first <= span.last && span.first <= run.span.last
    };
    let inside = |run: &Run| span.first <= run.span.first && run.span.last <= span.last;
    let keep = |wanted: &dyn Fn(&Run) -> bool| {
        let kept = range.runs.iter().filter(|entry| {
            let run = manifest.runs.get(&entry.id);
            run.is_some_and(|run| wanted(run))
        });
        doctored(manifest, table, range, kept.copied().collect())
    };
    let late = keep(&|run| own.contains(&run.id) || !overlaps(run));
    let early = match sorted {
        true => Arc::clone(&late),
        false => {
            let older = |run: &Run| own.iter().all(|id| run.id < *id);
            keep(&|run| !overlaps(run) || (inside(run) && older(run)))
        }
    };
    if sorted && !manifest.scus.contains_key(&span.first) {
        return Err("its log is no longer kept".to_owned());
    }
    let reaches = |manifest: &Manifest, boundary: ScuNumber| {
        let state = &manifest.tables[&table.table.id];
        let paths = RangePaths::new(manifest, state, 0, &DamagedFiles::new());
        paths.least_work(boundary).is_some()
    };
    let last = runs.iter().map(|run| run.changes_through).max();
    let ends = [span.last, last.unwrap_or(span.last)];
    let late_end = |boundary: &&ScuNumber| reaches(&late, **boundary);
    if !ends.iter().any(|boundary| late_end(&boundary)) {
        return Err("what came before it is no longer kept by itself".to_owned());
    }
    let both = |boundary: &&ScuNumber| reaches(&late, **boundary) && reaches(&early, **boundary);
    let boundary = ends.iter().find(both);
    let boundary = boundary.ok_or("what it was made of is no longer kept")?;
    let avoided = match sorted {
        true => {
            let segments = runs.iter().flat_map(|run| &run.segments);
            segments.map(|segment| segment.file.clone()).collect()
        }
        false => Vec::new(),
    };
    Ok(Ways {
        boundary: *boundary,
        late,
        early,
        avoided,
    })
}

/// The manifest with one range of a table, of these runs only, and without views.
fn doctored(
    manifest: &Manifest,
    table: &TableState,
    range: &RangeState,
    runs: Vec<RunRef>,
) -> Arc<Manifest> {
    let mut doctored = manifest.clone();
    doctored.views.clear();
    let state = TableState {
        ranges: vec![Arc::new(RangeState {
            range: range.range.clone(),
            runs,
        })],
        ..table.clone()
    };
    doctored.tables.insert(table.table.id, Arc::new(state));
    Arc::new(doctored)
}

/// What a comparison reads with.
#[derive(Debug)]
pub struct Recompute {
    reader: Reader,
    manifest: Arc<Manifest>,
    unsorted: Vec<Arc<UnsortedScu>>,
    now_micros: i64,
}

impl Recompute {
    /// Over a database's reader and the manifest that [`stage_pairs`] are of; whoever calls keeps
    /// it pinned there. `unsorted` are the SCUs after those that it has sorted.
    pub fn new(
        reader: &Reader,
        manifest: &Arc<Manifest>,
        unsorted: Vec<Arc<UnsortedScu>>,
        now_micros: i64,
    ) -> Recompute {
        Recompute {
            reader: reader.clone(),
            manifest: Arc::clone(manifest),
            unsorted,
            now_micros,
        }
    }

    /// One of two ways, without `avoided` files.
    fn snapshot(
        &self,
        manifest: &Arc<Manifest>,
        avoided: &[String],
        boundary: ScuNumber,
        table: TableId,
    ) -> Result<Snapshot> {
        let reader = self.reader.apart(avoided);
        let snapshot = reader.snapshot(SnapshotAsk {
            pin: reader.pins.pin("verify", || Arc::clone(manifest)),
            unsorted: self.unsorted.clone(),
            now_micros: self.now_micros,
            freshness: Freshness::BestEffort,
            floor: Horizon::ZERO,
            on_miss: OnMiss::Dig,
            at: Some(AsOf::Scu(boundary)),
            tables: Some(vec![table]),
        })?;
        // With a reader of its own: paths are kept by a manifest's number, which both have.
        let (reader, manifest) = (self.reader.apart(avoided), Arc::clone(&self.manifest));
        let numbers = Identifier::new(reader, manifest, self.unsorted.iter().cloned());
        Ok(snapshot.numbered_by(numbers))
    }

    /// The key ranges in which a run is compared: all of its keys, or a share of its extents, each
    /// with the keys up to the next one.
    ///
    /// # Errors
    /// `Corrupt` when an index is damaged.
    pub async fn sample(
        &self,
        layout: &Arc<RowLayout>,
        pair: &StagePair,
        share: f64,
        random: &dyn Random,
    ) -> Result<Vec<KeyRange>> {
        if share >= 1.0 {
            return Ok(vec![pair.range.clone()]);
        }
        let counters = ReadCounters::default();
        let mut cuts: BTreeSet<Key> = BTreeSet::new();
        for run in &pair.runs {
            for meta in segments_in(run, &pair.range) {
                let cache = &self.reader.cache;
                let segment = cache
                    .open(&self.reader.env, layout, meta, &counters)
                    .await?;
                for extent in 0..segment.extents().len() {
                    cuts.insert(Key::new(segment.extents().min_key(extent)));
                }
            }
        }
        cuts.retain(|cut| pair.range.contains(cut));
        cuts.pop_first();
        let lows = [pair.range.low.clone()].into_iter();
        let lows: Vec<Option<Key>> = lows.chain(cuts.into_iter().map(Some)).collect();
        let highs = lows[1..].iter().cloned().chain([pair.range.high.clone()]);
        let stretches: Vec<KeyRange> = lows
            .iter()
            .cloned()
            .zip(highs)
            .map(|(low, high)| KeyRange { low, high })
            .collect();
        let drawn = |_: &&KeyRange| (random.next_u64() % SHARES) < (share * SHARES as f64) as u64;
        let mut chosen: Vec<KeyRange> = stretches.iter().filter(drawn).cloned().collect();
        if chosen.is_empty() {
            let at = random.next_u64() % stretches.len() as u64;
            chosen.push(stretches[at as usize].clone());
        }
        Ok(chosen)
    }

    /// Compares what a run shows with what its earlier stage makes.
    ///
    /// # Errors
    /// `Corrupt`, naming the file, when one of the two can't be read; `NotFound` when neither way
    /// leads to the boundary.
    pub async fn compare(
        &self,
        table: TableId,
        pair: &StagePair,
        ways: &Ways,
        ranges: &[KeyRange],
    ) -> Result<Comparison> {
        let late = self.snapshot(&ways.late, &[], ways.boundary, table)?;
        let early = self.snapshot(&ways.early, &ways.avoided, ways.boundary, table)?;
        let layout = late.layout(table)?;
        let mut found = Comparison::default();
        for range in ranges {
            let mut late = Side::open(&late, &layout, range).await?;
            let mut early = Side::open(&early, &layout, range).await?;
            loop {
                let order = match (late.head().await?, early.head().await?) {
                    (None, None) => break,
                    (Some(_), None) => std::cmp::Ordering::Less,
                    (None, Some(_)) => std::cmp::Ordering::Greater,
                    (Some(late), Some(early)) => late.cmp(early),
                };
                found.rows += 1;
                let what = match order {
                    std::cmp::Ordering::Less => {
                        Some(format!("{} is there, and should not be", late.text()))
                    }
                    std::cmp::Ordering::Greater => Some(format!("{} is missing", early.text())),
                    std::cmp::Ordering::Equal if late.row() != early.row() => {
                        Some(format!("{} should be {}", late.text(), early.text()))
                    }
                    std::cmp::Ordering::Equal => None,
                };
                if let Some(what) = what {
                    let key = if order.is_le() {
                        late.key()
                    } else {
                        early.key()
                    };
                    found.files.extend(file_of(pair, key));
                    found.differing += 1;
                    if found.told.len() < DIFFERENCES_TOLD {
                        found.told.push(what);
                    }
                }
                if order.is_le() {
                    late.step();
                }
                if order.is_ge() {
                    early.step();
                }
            }
        }
        Ok(found)
    }
}

/// The file of a run that holds a key, or the one before it.
fn file_of(pair: &StagePair, key: &[u8]) -> Option<String> {
    let of_run = |run: &Arc<Run>| {
        let before = run
            .segments
            .partition_point(|segment| segment.min_key.as_bytes() <= key);
        let at = before.saturating_sub(1);
        run.segments.get(at).map(|segment| segment.file.clone())
    };
    pair.runs.iter().find_map(of_run)
}

/// The rows of one way, in the order of keys.
struct Side {
    batches: BoxStream<'static, Result<RecordBatch>>,
    layout: Arc<RowLayout>,
    converter: RowConverter,
    held: Option<Held>,
}

struct Held {
    batch: RecordBatch,
    keys: Vec<Vec<u8>>,
    rows: arrow_row::Rows,
    at: usize,
}

impl Side {
    async fn open(snapshot: &Snapshot, layout: &Arc<RowLayout>, range: &KeyRange) -> Result<Side> {
        let columns = layout.table.columns.len();
        let scu = HiddenColumn::Scu.position(&layout.table);
        let request = ScanRequest {
            table: layout.table.id,
            projection: (0..columns).chain([scu]).collect(),
            range: range.clone(),
            buffered: Vec::new(),
            batch_rows: BATCH_ROWS,
            parts: 1,
        };
        let plan = snapshot.plan_stored(&request).await?;
        let mut fields = Vec::new();
        for field in layout.schema.fields() {
            fields.push(SortField::new(field.data_type().clone()));
        }
        let hidden = HiddenColumn::Scu.field(&layout.table);
        fields.push(SortField::new(hidden.data_type().clone()));
        Ok(Side {
            batches: stream::iter(plan.parts)
                .flat_map(|part| part.stream())
                .boxed(),
            layout: Arc::clone(layout),
            converter: RowConverter::new(fields).map_err(arrow_internal)?,
            held: None,
        })
    }

    /// The key of the next row.
    async fn head(&mut self) -> Result<Option<&[u8]>> {
        while self
            .held
            .as_ref()
            .is_none_or(|held| held.at == held.keys.len())
        {
            let Some(batch) = self.batches.try_next().await? else {
                return Ok(None);
            };
            let columns = self.layout.table.columns.len();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let own = RecordBatch::try_new_with_options(
                Arc::clone(&self.layout.schema),
                batch.columns()[..columns].to_vec(),
                &options,
            )
            .map_err(arrow_internal)?;
            let keys = self.layout.codec.encode(&own)?;
            self.held = Some(Held {
                keys: keys.iter().map(|key| key.as_ref().to_vec()).collect(),
                rows: self
                    .converter
                    .convert_columns(batch.columns())
                    .map_err(arrow_internal)?,
                batch,
                at: 0,
            });
        }
        Ok(self.held.as_ref().map(|held| held.keys[held.at].as_slice()))
    }

    fn key(&self) -> &[u8] {
        self.held.as_ref().map_or(&[], |held| &held.keys[held.at])
    }

    fn row(&self) -> Option<arrow_row::Row<'_>> {
        self.held.as_ref().map(|held| held.rows.row(held.at))
    }

    fn step(&mut self) {
        if let Some(held) = &mut self.held {
            held.at += 1;
        }
    }

    /// The row in words.
    fn text(&self) -> String {
        let Some(held) = &self.held else {
            return String::new();
        };
        let schema = held.batch.schema();
        let cells = held.batch.columns().iter().zip(schema.fields());
        let cells = cells.map(|(column, field)| {
            let value = match column.is_null(held.at) {
                true => "NULL".to_owned(),
                false => array_value_to_string(column, held.at).unwrap_or_default(),
            };
            format!("{}={value}", field.name())
        });
        let mut text = cells.collect::<Vec<_>>().join(", ");
        if let Some((cut, _)) = text.char_indices().nth(ROW_TEXT_MAX) {
            text.truncate(cut);
            text += "...";
        }
        format!("({text})")
    }
}

impl Snapshot {
    /// The entries of a view that are not those of its table's rows. Of the view's stretches of
    /// rows a share is drawn. `None` where the view can't be read by itself.
    ///
    /// # Errors
    /// As a scan.
    pub async fn wrong_entries(
        &self,
        view: TableId,
        share: f64,
        random: &dyn Random,
    ) -> Result<Option<WrongEntries>> {
        let Some(state) = self.view(view) else {
            return Ok(None);
        };
        let Some(of) = state.table.view_of else {
            return Ok(None);
        };
        let layout = self.inner.reader.layout(&state.table)?;
        let all: Vec<usize> = (0..layout.table.columns.len()).collect();
        let request = ScanRequest {
            table: view,
            projection: all.clone(),
            range: Default::default(),
            buffered: Vec::new(),
            batch_rows: BATCH_ROWS,
            parts: 1,
        };
        let Some(plan) = self.plan_view_in(&request, Form::Stored).await? else {
            return Ok(None);
        };
        let table = self.layout(of)?;
        let key = table_key_in(&layout, &table)?;
        let codec = codec_of(&layout, &key, table.codec.partitioner(), &all)?;
        let codec = codec.ok_or_else(|| Error::internal("a view lacks its table's key"))?;
        let mut rows = stream::iter(plan.parts)
            .flat_map(|part| part.stream())
            .boxed();
        let mut found = WrongEntries::default();
        while let Some(batch) = rows.try_next().await? {
            if (random.next_u64() % SHARES) >= (share * SHARES as f64) as u64 {
                continue;
            }
            found.compared += batch.num_rows() as u64;
            let wrong = self.wrong_among(&layout, (of, &codec), &batch).await?;
            found.wrong += wrong.len() as u64;
            let left = DIFFERENCES_TOLD - found.told.len();
            found.told.extend(wrong.into_iter().take(left));
        }
        Ok(Some(found))
    }

    /// Which of these entries of a view are not those of its table's rows.
    async fn wrong_among(
        &self,
        layout: &Arc<RowLayout>,
        (of, codec): (TableId, &KeyCodec),
        batch: &RecordBatch,
    ) -> Result<Vec<String>> {
        let of_table = codec.encode(batch)?;
        let mut keys: Vec<Key> = of_table.iter().map(|key| Key::new(key.as_ref())).collect();
        keys.sort_unstable();
        keys.dedup();
        let (_, entries) = self.entries_of(layout, of, &keys).await?;
        let fields = layout.schema.fields().iter();
        let fields = fields.map(|field| SortField::new(field.data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(arrow_internal)?;
        let rows = |batch: &RecordBatch| {
            let rows = converter.convert_columns(batch.columns());
            rows.map_err(arrow_internal)
        };
        let known = rows(&entries)?;
        let known: BTreeSet<&[u8]> = known.iter().map(|row| row.data()).collect();
        let shown = rows(batch)?;
        let mut wrong = Vec::new();
        for row in 0..batch.num_rows() {
            if !known.contains(shown.row(row).data()) {
                let cell =
                    |column: &ArrayRef| array_value_to_string(column, row).unwrap_or_default();
                let cells: Vec<String> = batch.columns().iter().map(cell).collect();
                wrong.push(format!("({}) is no row of the table", cells.join(", ")));
            }
        }
        Ok(wrong)
    }
}
