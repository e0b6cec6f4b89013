//! Scans: a key range of a table at a snapshot, as parts in key order.
//!
//! ```text
//!   ranges of the table, clipped -> sources (runs, unsorted) -> steps -> parts
//!                                                 one source: its extents as they are
//!                                                 several overlap: reconcile
//! ```
//!
//! Invariant READ-2: nothing is filtered here but by key; what the caller filters, it filters
//! after reconciling.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use lazybase_model::{Error, Result, Stage, TableId};

use super::arrow_internal;
use super::point::stage_of;
use super::snapshot::{Inner, Snapshot};
use super::source::{Chunk, PieceReader, Source, Stretch, intersection};
use super::steps::{self, ReadStep};
use crate::change_batch::ChangeBatch;
use crate::key::{Key, KeyCodec};
use crate::manifest::{KeyRange, RangeState, Run};
use crate::segment::RowLayout;
use crate::stages::merge::{MergeShape, OutputSize, reconcile};
use crate::stages::sort::sort_changes;

/// What a scan wants.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The table.
    pub table: TableId,
    /// Positions in the table's columns, in the order wanted.
    pub projection: Vec<usize>,
    /// Bounds on the encoded primary key.
    pub range: KeyRange,
    /// A transaction's own changes, oldest first: one more unsorted source, the newest of all.
    pub buffered: Vec<ChangeBatch>,
    /// Output batches aim at this many rows.
    pub batch_rows: usize,
    /// The scan is cut into about this many parts, where it is large enough.
    pub parts: usize,
}

/// One source of a scan in words.
#[derive(Debug, Clone)]
pub struct SourceDescription {
    /// How far its data has come.
    pub stage: Stage,
    /// What it is, e.g. `run r12 of SCUs 1..=40`.
    pub name: String,
    /// Segments that lie in the range; a memory source counts as one.
    pub segments: usize,
    /// Extents (of memory sources: chunks) that lie in the range.
    pub extents: usize,
    /// Extents that the key range lets the scan skip.
    pub extents_pruned: usize,
    /// Bytes of the files that it has in the range, as stored.
    pub bytes: u64,
}

/// A scan, planned: nothing but indexes has been read.
#[derive(Debug)]
pub struct ScanPlan {
    /// Disjoint parts in key order.
    pub parts: Vec<ScanPart>,
    /// What is read, oldest first.
    pub sources: Vec<SourceDescription>,
    /// How many rows come out, where one source answers alone.
    pub exact_rows: Option<u64>,
    /// How many stored rows the sources hold in the range, at most.
    pub estimated_rows: u64,
    /// Their bytes as stored.
    pub estimated_bytes: u64,
    /// Key ranges in which several sources must be reconciled, and in which one answers alone.
    pub reconciled: usize,
    /// See `reconciled`.
    pub alone: usize,
}

/// A stretch of a scan that is read by one stream.
#[derive(Debug, Clone)]
pub struct ScanPart {
    work: Arc<PartWork>,
}

#[derive(Debug)]
struct PartWork {
    snapshot: Snapshot,
    layout: Arc<RowLayout>,
    reader: PieceReader,
    sources: Vec<Source>,
    steps: Vec<ReadStep>,
    /// Where the wanted columns stand among those that are read.
    wanted: Vec<usize>,
    schema: SchemaRef,
    batch_rows: usize,
}

/// The Arrow schema of the projected columns, as the table declares them.
pub(super) fn output_schema(layout: &RowLayout, projection: &[usize]) -> Result<SchemaRef> {
    let declared = &layout.declared;
    if projection.iter().copied().eq(0..declared.fields().len()) {
        return Ok(Arc::clone(declared));
    }
    let projected = declared.project(projection).map_err(arrow_internal);
    projected.map(Arc::new)
}

impl Snapshot {
    /// Plans a scan: chooses sources by the snapshot's horizon and extents by the key range.
    ///
    /// # Errors
    /// `Corrupt` when an index or a log frame is damaged; the store's errors.
    pub async fn plan_scan(&self, request: ScanRequest) -> Result<ScanPlan> {
        let layout = self.layout(request.table)?;
        let memory = self.memory_sources(&layout, &request.buffered).await?;
        let mut pieces = Vec::new();
        for (range, runs) in self.inner.ranges(request.table)? {
            let Some(clip) = intersection(&range.range, &request.range) else {
                continue;
            };
            let mut sources = Vec::new();
            for run in &runs {
                sources.push(self.run_source(&layout, run, &clip).await?);
            }
            sources.extend(memory.iter().cloned());
            let steps = steps::decompose(&sources, &clip);
            pieces.push((sources, steps, clip));
        }
        self.check_pin()?;
        assemble(self, &layout, &request, pieces)
    }

    /// The unsorted SCUs of the snapshot, and a transaction's own changes, as sorted sources.
    async fn memory_sources(
        &self,
        layout: &Arc<RowLayout>,
        buffered: &[ChangeBatch],
    ) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        let reader = &self.inner.reader;
        for (scu, batches) in &self.inner.unsorted {
            if scu.table_totals(layout.table.id).rows == 0 {
                continue;
            }
            let sealed = scu.is_sealed();
            self.note_unsorted(scu.scu().0, *batches, sealed);
            for chunks in reader
                .unsorted
                .sorted(&reader.env, layout, scu, *batches)
                .await?
            {
                if chunks.is_empty() {
                    continue;
                }
                sources.push(Source::Memory {
                    stage: if sealed { Stage::Ingested } else { Stage::Open },
                    name: match sealed {
                        true => format!("SCU {}, unsorted", scu.scu()),
                        false => format!("SCU {}, open, {batches} batches", scu.scu()),
                    },
                    chunks,
                });
            }
        }
        if !buffered.is_empty() {
            let chunks = sort_changes(layout, buffered)?
                .into_iter()
                .map(|rows| Chunk::new(layout, rows))
                .collect::<Result<Vec<_>>>()?;
            sources.push(Source::Memory {
                stage: Stage::Open,
                name: "this transaction's changes".to_owned(),
                chunks: Arc::new(chunks),
            });
        }
        Ok(sources)
    }

    /// A run's segments in the range; their indexes are loaded.
    async fn run_source(
        &self,
        layout: &Arc<RowLayout>,
        run: &Arc<Run>,
        range: &KeyRange,
    ) -> Result<Source> {
        let mut segments = Vec::new();
        let reader = &self.inner.reader;
        for meta in super::paths::segments_in(run, range) {
            let opened = reader
                .cache
                .open(&reader.env, layout, meta, &self.inner.counters)
                .await;
            segments.push(opened.map_err(|error| self.name_damage(error, layout, run))?);
        }
        if !segments.is_empty() {
            self.note_run(run);
        }
        Ok(Source::Run {
            stage: stage_of(run.kind),
            name: format!("run {} of SCUs {}", run.id, run.span),
            segments,
        })
    }
}

/// A range of a table, and the runs that are read of it, oldest first.
type RangeRuns<'m> = (&'m RangeState, Vec<Arc<Run>>);

impl Inner {
    /// The ranges of a table, in key order, with the runs that the choice takes for each.
    pub(super) fn ranges(&self, table: TableId) -> Result<Vec<RangeRuns<'_>>> {
        let state = self
            .manifest
            .tables
            .get(&table)
            .ok_or_else(|| Error::not_found(format!("table {table} is not in the snapshot")))?;
        let missing = || Error::internal(format!("no runs were chosen for table {table}"));
        let path = self.choice.paths.iter().find(|path| path.table == table);
        let path = path.ok_or_else(missing)?;
        let mut ranges = Vec::with_capacity(state.ranges.len());
        for (range, chosen) in state.ranges.iter().zip(&path.ranges) {
            let runs = chosen
                .runs
                .iter()
                .map(|id| self.manifest.runs.get(id).cloned());
            ranges.push((range, runs.collect::<Option<Vec<_>>>().ok_or_else(missing)?));
        }
        Ok(ranges)
    }

    /// The runs that the choice takes for a key, oldest first.
    pub(super) fn runs_at(&self, table: TableId, key: &Key) -> Result<Vec<&Arc<Run>>> {
        let missing = || Error::internal(format!("no runs were chosen for table {table}"));
        let state = self.manifest.tables.get(&table).ok_or_else(missing)?;
        let path = self.choice.paths.iter().find(|path| path.table == table);
        let path = path.ok_or_else(missing)?;
        let at = state
            .ranges
            .partition_point(|range| range.range.low.as_ref().is_none_or(|low| low <= key));
        let chosen = path.ranges.get(at.saturating_sub(1)).ok_or_else(missing)?;
        let runs = chosen.runs.iter().map(|id| self.manifest.runs.get(id));
        runs.collect::<Option<Vec<_>>>().ok_or_else(missing)
    }
}

type Piece = (Vec<Source>, Vec<ReadStep>, KeyRange);

/// Cuts the steps of all ranges into parts, and sums up what they read.
fn assemble(
    snapshot: &Snapshot,
    layout: &Arc<RowLayout>,
    request: &ScanRequest,
    pieces: Vec<Piece>,
) -> Result<ScanPlan> {
    let sums = steps::sum_up(&pieces);
    let caching = sums.bytes < snapshot.inner.reader.cache.bytes() / 4;
    let plain = pieces
        .iter()
        .all(|(_, steps, _)| steps.iter().all(ReadStep::is_whole));
    let columns = read_columns(layout, &request.projection, plain);
    let position = |column: &usize| {
        columns
            .binary_search(column)
            .map_err(|_| Error::internal("a wanted column is not read"))
    };
    let wanted = request
        .projection
        .iter()
        .map(position)
        .collect::<Result<Vec<_>>>()?;
    let reader = PieceReader {
        cache: Arc::clone(&snapshot.inner.reader.cache),
        counters: Arc::clone(&snapshot.inner.counters),
        codec: key_codec(layout, &columns)?,
        caching,
        columns: columns.into(),
    };
    let schema = output_schema(layout, &request.projection)?;
    let budget = sums.bytes / request.parts.max(1) as u64 + 1;
    let mut parts = Vec::new();
    for (sources, steps, _) in pieces {
        for steps in steps::cut(&sources, steps, budget) {
            parts.push(ScanPart {
                work: Arc::new(PartWork {
                    snapshot: snapshot.clone(),
                    layout: Arc::clone(layout),
                    reader: reader.clone(),
                    sources: sources.clone(),
                    steps,
                    wanted: wanted.clone(),
                    schema: Arc::clone(&schema),
                    batch_rows: request.batch_rows.max(1),
                }),
            });
        }
    }
    Ok(ScanPlan {
        parts,
        sources: sums.sources,
        exact_rows: (sums.reconciled == 0 && plain).then_some(sums.rows),
        estimated_rows: sums.rows,
        estimated_bytes: sums.bytes,
        reconciled: sums.reconciled,
        alone: sums.alone,
    })
}

/// The columns to read, rising: the wanted ones, and the key's where rows meet or are clipped.
fn read_columns(layout: &RowLayout, projection: &[usize], plain: bool) -> Vec<usize> {
    let mut columns = projection.to_vec();
    if !plain || columns.is_empty() {
        columns.extend(layout.codec.indices());
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The key among columns that are read, if all of it is.
fn key_codec(layout: &RowLayout, columns: &[usize]) -> Result<Option<Arc<KeyCodec>>> {
    let place = |key: &usize| columns.binary_search(key).ok();
    let Some(key) = layout
        .codec
        .indices()
        .iter()
        .map(place)
        .collect::<Option<Vec<_>>>()
    else {
        return Ok(None);
    };
    let schema = layout.schema.project(columns).map_err(arrow_internal)?;
    KeyCodec::new(&Arc::new(schema), key).map(|codec| Some(Arc::new(codec)))
}

impl ScanPart {
    /// The part's rows: plain, in key order, the projected columns as the table declares them.
    pub fn stream(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let work = Arc::clone(&self.work);
        stream::iter(0..work.steps.len())
            .map(move |step| Ok((Arc::clone(&work), step)))
            .and_then(|(work, step)| async move { work.run(step) })
            .try_flatten()
            .boxed()
    }
}

impl PartWork {
    fn run(self: Arc<Self>, step: usize) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let rows = match &self.steps[step] {
            ReadStep::Alone { stretch, range, .. } => self.stretch(vec![stretch.clone()], range),
            ReadStep::Reconcile { stretches, range } => self.reconciled(stretches, range)?,
        };
        let work = self;
        Ok(rows
            .map(move |rows| {
                work.snapshot.check_pin()?;
                work.plain(rows?)
            })
            .try_filter(|rows| futures::future::ready(rows.num_rows() > 0))
            .boxed())
    }

    fn stretch(
        &self,
        stretches: Vec<Stretch>,
        range: &KeyRange,
    ) -> BoxStream<'static, Result<ChangeBatch>> {
        let source = self.sources[stretches[0].source].clone();
        self.reader.clone().stream(source, stretches, range.clone())
    }

    fn reconciled(
        &self,
        stretches: &[Stretch],
        range: &KeyRange,
    ) -> Result<BoxStream<'static, Result<ChangeBatch>>> {
        let mut inputs = Vec::new();
        for source in 0..self.sources.len() {
            let of_source: Vec<Stretch> = stretches
                .iter()
                .filter(|stretch| stretch.source == source)
                .cloned()
                .collect();
            if !of_source.is_empty() {
                inputs.push(self.stretch(of_source, range));
            }
        }
        let shape = MergeShape::of(&self.layout).project(&self.reader.columns)?;
        let size = OutputSize {
            rows: self.batch_rows,
            ..OutputSize::default()
        };
        reconcile(&shape, inputs, size)
    }

    /// The wanted columns under the table's own schema.
    fn plain(&self, rows: ChangeBatch) -> Result<RecordBatch> {
        let columns = self
            .wanted
            .iter()
            .map(|at| Arc::clone(rows.data.column(*at)))
            .collect();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::corrupt(format!("stored rows break the schema: {error}")))
    }
}
