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

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use async_recursion::async_recursion as boxed;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use lazybase_model::{Error, Result, Stage, TableId};

use super::arrow_internal;
use super::hidden::{HiddenColumn, OWN_SCU};
use super::identify::Identifier;
use super::instead::{Covering, Stored};
use super::own::{OwnChanges, changes_of};
use super::point::stage_of;
use super::snapshot::Snapshot;
use super::source::{Chunk, PieceReader, Source, Stretch, intersection};
use super::steps::{self, Cut, ReadStep, Shares, Weights};
use super::views::ViewRead;
use crate::change_batch::{ChangeBatch, Projection, Scus};
use crate::env::planted::{Planted, is_planted};
use crate::key::{KeyCodec, Partitioner};
use crate::manifest::{KeyRange, Run};
use crate::segment::RowLayout;
use crate::stages::sort::sort_changes;
use crate::ttl::Expiry;

mod reading;
mod shown;
mod sums;
mod tiles;

use reading::{Reading, RowStream};
use shown::{Wanted, wanted};

/// What a scan wants.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The table.
    pub table: TableId,
    /// Positions in the table's columns, in the order wanted; those of hidden columns lie behind
    /// ([`HiddenColumn::position`]).
    pub projection: Vec<usize>,
    /// Bounds on the encoded primary key.
    pub range: KeyRange,
    /// A transaction's own changes, oldest first: one more unsorted source, the newest of all.
    pub buffered: Vec<OwnChanges>,
    /// Output batches aim at this many rows.
    pub batch_rows: usize,
    /// The scan is cut into about this many parts, each of about as many values, where it is large
    /// enough.
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
    /// About how many bytes of them the scan takes, as stored.
    pub estimated_bytes: u64,
    /// Key ranges in which several sources must be reconciled, and in which one answers alone.
    pub reconciled: usize,
    /// See `reconciled`.
    pub alone: usize,
}

/// How columns are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As the table declares them: a sum that is out of range is an error.
    Declared,
    /// As they are stored: what makes other stored rows of them meets no such error.
    Stored,
}

/// A stretch of a scan that is read by one stream.
#[derive(Debug, Clone)]
pub struct ScanPart {
    work: Arc<PartWork>,
    /// Which of the ranges that were asked for it lies in.
    pub range: usize,
    /// About how many values it goes through: rows times columns that are read. Of rows in files
    /// those count as more that take more bytes there.
    pub weight: u64,
}

#[derive(Debug, Clone)]
struct PartWork {
    snapshot: Snapshot,
    layout: Arc<RowLayout>,
    reader: PieceReader,
    sources: Vec<Source>,
    /// How many of the newest sources are in memory in any case.
    memory: usize,
    /// Which set of damaged files the sources avoid.
    avoids: u64,
    steps: Vec<ReadStep>,
    weights: Weights,
    projection: Arc<[usize]>,
    wanted: Vec<Wanted>,
    form: Form,
    schema: SchemaRef,
    batch_rows: usize,
    /// Which rows have ended, and where their moment stands among the columns that are read.
    expiry: Option<(Expiry, usize)>,
    /// For a secondary view: which rows count, by the table's key.
    view: Option<(Arc<ViewRead>, Option<Arc<KeyCodec>>)>,
}

/// The Arrow schema of the projected columns.
pub(super) fn output_schema(
    layout: &RowLayout,
    projection: &[usize],
    form: Form,
) -> Result<SchemaRef> {
    let schema = match form {
        Form::Declared => &layout.declared,
        Form::Stored => &layout.schema,
    };
    if projection.iter().copied().eq(0..schema.fields().len()) {
        return Ok(Arc::clone(schema));
    }
    let fields = projection.iter().map(|at| {
        if let Some(hidden) = HiddenColumn::at(&layout.table, *at) {
            return Ok(Arc::new(hidden.field(&layout.table)));
        }
        let field = schema.fields().get(*at).cloned();
        field.ok_or_else(|| Error::internal(format!("there is no column {at}")))
    });
    let fields: Vec<FieldRef> = fields.collect::<Result<_>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// Whether a projection names hidden columns.
pub(super) fn has_hidden(layout: &RowLayout, projection: &[usize]) -> bool {
    let hidden = |at: &usize| HiddenColumn::at(&layout.table, *at).is_some();
    projection.iter().any(hidden)
}

impl Snapshot {
    /// Plans a scan: chooses sources by the snapshot's horizon and extents by the key range.
    ///
    /// # Errors
    /// `Corrupt` when an index or a log frame is damaged; the store's errors.
    pub async fn plan_scan(&self, request: ScanRequest) -> Result<ScanPlan> {
        let ranges = [request.range.clone()];
        self.plan_scan_of(request, &ranges).await
    }

    /// Plans a scan of several disjoint ranges in place of the request's one: its parts come in
    /// their order.
    ///
    /// # Errors
    /// As [`Snapshot::plan_scan`].
    #[boxed]
    pub async fn plan_scan_of(
        &self,
        request: ScanRequest,
        ranges: &[KeyRange],
    ) -> Result<ScanPlan> {
        self.plan_scan_in(&request, ranges, Form::Declared).await
    }

    /// As [`Snapshot::plan_scan`], with the columns as they are stored.
    pub(super) async fn plan_stored(&self, request: &ScanRequest) -> Result<ScanPlan> {
        let ranges = [request.range.clone()];
        self.plan_scan_in(request, &ranges, Form::Stored).await
    }

    async fn plan_scan_in(
        &self,
        request: &ScanRequest,
        ranges: &[KeyRange],
        form: Form,
    ) -> Result<ScanPlan> {
        let layout = self.layout(request.table)?;
        let own = own_changes(&layout, request);
        let memory = self.memory_sources(&layout, &own).await;
        let memory = memory.map_err(|error| {
            // Without its pin the log may be gone by right.
            if self.check_pin().is_ok() {
                self.inner.reader.damaged.note(&error);
            }
            self.placed(error)
        })?;
        let pieces = self.pieces(&layout, ranges, &memory).await?;
        self.check_pin()?;
        assemble(self, &layout, (request, form), pieces, None)
    }

    /// The sources of key ranges and the steps that read them; those in memory behind the runs.
    async fn pieces(
        &self,
        layout: &Arc<RowLayout>,
        ranges: &[KeyRange],
        memory: &[Source],
    ) -> Result<Pieces> {
        if self.is_emptied(layout.table.id) {
            let of_range = |range: &KeyRange| {
                let steps = steps::decompose(memory, range);
                (memory.to_vec(), steps, range.clone())
            };
            return Ok(Pieces {
                of_ranges: ranges.iter().map(of_range).collect(),
                ranges: (0..ranges.len()).collect(),
                memory: memory.len(),
                avoids: self.inner.avoids,
            });
        }
        loop {
            let covering = self.inner.covering(layout.table.id)?;
            match self.pieces_of(layout, ranges, memory, &covering).await {
                Ok((of_ranges, ranges)) => {
                    return Ok(Pieces {
                        of_ranges,
                        ranges,
                        memory: memory.len(),
                        avoids: covering.avoids,
                    });
                }
                Err(error) if self.may_read_instead(&error, covering.avoids) => {}
                Err(error) => return Err(self.placed(error)),
            }
        }
    }

    async fn pieces_of(
        &self,
        layout: &Arc<RowLayout>,
        ranges: &[KeyRange],
        memory: &[Source],
        covering: &Covering,
    ) -> Result<(Vec<Piece>, Vec<usize>)> {
        let of_table = self.inner.ranges(layout.table.id, covering)?;
        let (mut pieces, mut places) = (Vec::new(), Vec::new());
        for (at, range) in ranges.iter().enumerate() {
            let first = of_table.partition_point(|(state, _)| {
                let (high, low) = (&state.range.high, &range.low);
                matches!((high, low), (Some(high), Some(low)) if high <= low)
            });
            for (state, stored) in &of_table[first..] {
                let Some(clip) = intersection(&state.range, range) else {
                    break;
                };
                let mut sources = match self.is_emptied_in(layout.table.id, &clip) {
                    true => Vec::new(),
                    false => self.stored_sources(layout, stored, &clip).await?,
                };
                let counts = |source: &&Source| {
                    source.is_own() || !self.is_emptied_in(layout.table.id, &clip)
                };
                sources.extend(memory.iter().filter(counts).cloned());
                let steps = steps::decompose(&sources, &clip);
                pieces.push((sources, steps, clip));
                places.push(at);
            }
        }
        Ok((pieces, places))
    }

    /// What is stored of a key range, as sources, oldest first.
    async fn stored_sources(
        &self,
        layout: &Arc<RowLayout>,
        stored: &[Stored<'_>],
        clip: &KeyRange,
    ) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        for source in stored {
            match source {
                Stored::Run(run) => sources.push(self.run_source(layout, run, clip).await?),
                Stored::Log(entry) => sources.extend(self.log_sources(layout, entry).await?),
            }
        }
        Ok(sources)
    }

    /// The unsorted SCUs of the snapshot, and a transaction's own changes, as sorted sources.
    pub(super) async fn memory_sources(
        &self,
        layout: &Arc<RowLayout>,
        buffered: &[ChangeBatch],
    ) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        let reader = &self.inner.reader;
        let has_ids = layout.table.id_keys().next().is_some();
        let logged = self.log_layout(layout)?;
        for (scu, batches) in &self.inner.unsorted {
            if !Identifier::touches(&layout.table, scu) || self.is_emptied(layout.table.id) {
                continue;
            }
            let sealed = scu.is_sealed();
            self.note_unsorted(scu.scu().0, *batches, sealed);
            for chunks in reader
                .unsorted
                .sorted(self.inner.ids(), &logged, scu, *batches)
                .await
                .map_err(|error| Snapshot::of_scu(error, layout, scu.scu()))?
            {
                if chunks.is_empty() {
                    continue;
                }
                let remapped = has_ids && scu.scu() <= self.inner.manifest.remapped_through();
                sources.push(Source::Memory {
                    stage: match (sealed, remapped) {
                        (_, true) => Stage::Remapped,
                        (true, false) => Stage::Ingested,
                        (false, false) => Stage::Open,
                    },
                    name: match sealed {
                        true => format!("SCU {}, unsorted", scu.scu()),
                        false => format!("SCU {}, open, {batches} batches", scu.scu()),
                    },
                    chunks,
                    own: false,
                });
            }
        }
        if !buffered.is_empty() && !is_planted(Planted::OwnUnseen) {
            let chunks = sort_changes(layout, buffered)?
                .into_iter()
                .map(|rows| Chunk::new(layout, rows))
                .collect::<Result<Vec<_>>>()?;
            sources.push(Source::Memory {
                stage: Stage::Open,
                name: "this transaction's changes".to_owned(),
                chunks: Arc::new(chunks),
                own: true,
            });
        }
        Ok(sources)
    }

    /// A run's segments in the range; their indexes are loaded.
    pub(super) async fn run_source(
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
            segments.push(opened?);
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

impl Snapshot {
    /// A scan of a secondary view from its sources, of which the last ones are in memory.
    pub(super) fn assemble_view(
        &self,
        layout: &Arc<RowLayout>,
        asked: (&ScanRequest, Form),
        of_ranges: Vec<Piece>,
        memory: usize,
        read: ViewRead,
    ) -> Result<ScanPlan> {
        let pieces = Pieces {
            ranges: vec![0; of_ranges.len()],
            of_ranges,
            memory,
            avoids: self.inner.reader.damaged.version(),
        };
        assemble(self, layout, asked, pieces, Some(read))
    }
}

/// The sources of a key range, the steps that read them, and the range.
pub(super) type Piece = (Vec<Source>, Vec<ReadStep>, KeyRange);

/// What is read of some ranges of a table.
struct Pieces {
    of_ranges: Vec<Piece>,
    /// For each of them, which of the ranges that were asked for it lies in.
    ranges: Vec<usize>,
    memory: usize,
    avoids: u64,
}

/// Cuts the steps of all ranges into parts, and sums up what they read.
fn assemble(
    snapshot: &Snapshot,
    layout: &Arc<RowLayout>,
    (request, form): (&ScanRequest, Form),
    pieces: Pieces,
    view: Option<ViewRead>,
) -> Result<ScanPlan> {
    let Pieces {
        of_ranges: pieces,
        ranges,
        memory,
        avoids,
    } = pieces;
    let sums = steps::sum_up(&pieces);
    snapshot.note_pruned(sums.pruned());
    let reader = &snapshot.inner.reader;
    let kept = reader.kept_rows.begin(reader.env.clock.monotonic());
    let caching = reader.cache.has_room_beside(sums.bytes, kept);
    let plain = pieces
        .iter()
        .all(|(_, steps, _)| steps.iter().all(ReadStep::is_whole));
    let plain = plain && view.as_ref().is_none_or(ViewRead::counts_all);
    let columns = read_columns(layout, &request.projection, plain);
    let projection: Arc<[usize]> = request.projection.as_slice().into();
    let wanted = wanted(layout, &columns, &projection)?;
    let expiry = expiry_among(snapshot, layout, &columns)?;
    let alone = sums.reconciled == 0 && plain;
    let is_exact = (alone || is_planted(Planted::ExactOverlap)) && expiry.is_none();
    let reader = PieceReader {
        cache: Arc::clone(&snapshot.inner.reader.cache),
        counters: Arc::clone(&snapshot.inner.counters),
        codec: key_codec(layout, &columns)?,
        caching,
        projection: Arc::new(Projection::new(&layout.schema, columns)?),
        versions: has_hidden(layout, &projection),
        views: false,
    };
    let view = view.map(|read| with_table_key(Arc::new(read), layout, reader.columns()));
    let view = view.transpose()?;
    let schema = output_schema(layout, &request.projection, form)?;
    let work = PartWork {
        snapshot: snapshot.clone(),
        layout: Arc::clone(layout),
        weights: Weights::new(layout, reader.columns().len(), sums.stored),
        reader,
        sources: Vec::new(),
        memory,
        avoids,
        steps: Vec::new(),
        projection,
        wanted,
        form,
        schema,
        batch_rows: request.batch_rows.max(1),
        expiry,
        view,
    };
    let parts = work.parts_of(pieces, ranges, request.parts);
    Ok(ScanPlan {
        parts,
        sources: sums.sources,
        exact_rows: is_exact.then_some(sums.rows),
        estimated_rows: sums.rows,
        estimated_bytes: sums.taken,
        reconciled: sums.reconciled,
        alone: sums.alone,
    })
}

/// Which rows have ended, and where their moment stands among the columns that are read.
fn expiry_among(
    snapshot: &Snapshot,
    layout: &RowLayout,
    columns: &[usize],
) -> Result<Option<(Expiry, usize)>> {
    let Some(expiry) = snapshot.expiry(&layout.table) else {
        return Ok(None);
    };
    let at = columns.binary_search(&expiry.column());
    let at = at.map_err(|_| Error::internal("the moment that rows end by is not read"))?;
    Ok(Some((expiry, at)))
}

/// The columns to read, rising: the wanted ones, the key's where rows meet or are clipped, and the
/// moment that rows end by.
fn read_columns(layout: &RowLayout, projection: &[usize], plain: bool) -> Vec<usize> {
    let stored = projection
        .iter()
        .filter_map(|at| match HiddenColumn::at(&layout.table, *at) {
            None => Some(*at),
            Some(
                HiddenColumn::TimeOf(column)
                | HiddenColumn::ScuOf(column)
                | HiddenColumn::Label(column),
            ) => Some(column),
            Some(HiddenColumn::Scu | HiddenColumn::Time) => None,
        });
    let mut columns: Vec<usize> = stored.collect();
    if !plain || columns.is_empty() {
        columns.extend(layout.codec.indices());
    }
    columns.extend(layout.table.ttl_index());
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// A transaction's own changes: where versions are asked for, they come after every SCU.
fn own_changes(layout: &RowLayout, request: &ScanRequest) -> Vec<ChangeBatch> {
    let mut own = changes_of(&request.buffered);
    if has_hidden(layout, &request.projection) {
        for changes in &mut own {
            changes.scus = Scus::Uniform(OWN_SCU);
        }
    }
    own
}

/// The key among columns that are read, if all of it is.
pub(super) fn key_codec(layout: &RowLayout, columns: &[usize]) -> Result<Option<Arc<KeyCodec>>> {
    let partitioner = layout.codec.partitioner();
    codec_of(layout, layout.codec.indices(), partitioner, columns)
}

/// What a view's scan needs to tell which rows count: the table's key among the columns read.
fn with_table_key(
    read: Arc<ViewRead>,
    layout: &RowLayout,
    columns: &[usize],
) -> Result<(Arc<ViewRead>, Option<Arc<KeyCodec>>)> {
    let codec = codec_of(layout, &read.table_key(layout)?, None, columns)?;
    Ok((read, codec))
}

/// The codec of a key, with its partition or without, among columns that are read, if all of it
/// is.
pub(super) fn codec_of(
    layout: &RowLayout,
    key: &[usize],
    partitioner: Option<&Arc<Partitioner>>,
    columns: &[usize],
) -> Result<Option<Arc<KeyCodec>>> {
    let place = |key: &usize| columns.binary_search(key).ok();
    let Some(key) = key.iter().map(place).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let schema = layout.schema.project(columns).map_err(arrow_internal)?;
    let codec = KeyCodec::partitioned(&Arc::new(schema), key, partitioner.cloned());
    codec.map(|codec| Some(Arc::new(codec)))
}

/// A part is split into such that go through so many values at least: to begin with one takes as
/// long as some thousands of them.
const SPLIT_VALUES_MIN: u64 = 1 << 15;

impl ScanPart {
    /// The part's rows: plain, in key order, the projected columns as the table declares them.
    pub fn stream(&self) -> RowStream {
        Arc::clone(&self.work).stream()
    }

    /// The same rows in parts of their own, in the same order: so many at most, of about one size,
    /// and fewer where the part is small. They are cut between the pieces that the part mostly
    /// consists of, so that none of these is read twice.
    pub fn split(&self, parts: usize) -> Vec<ScanPart> {
        let most = usize::try_from(self.weight / SPLIT_VALUES_MIN);
        let parts = most.map_or(parts, |most| parts.min(most));
        if parts < 2 {
            return vec![self.clone()];
        }
        let work = &self.work;
        let mut shares = Shares::between_pieces(self.weight, parts);
        let cuts = steps::cut(
            &work.sources,
            work.steps.clone(),
            &work.weights,
            &mut shares,
        );
        let part = |cut| work.part(self.range, cut, &work.sources);
        cuts.into_iter().map(part).collect()
    }
}

impl PartWork {
    /// What is read of some ranges, in about so many parts; `places` tells for each which of the
    /// ranges that were asked for it lies in.
    fn parts_of(&self, pieces: Vec<Piece>, places: Vec<usize>, parts: usize) -> Vec<ScanPart> {
        let of_range = |(sources, steps, _): &Piece| -> u64 {
            let steps = steps.iter();
            steps.map(|step| self.weights.step(sources, step)).sum()
        };
        let mut shares = Shares::new(pieces.iter().map(of_range).sum(), parts);
        let mut all = Vec::new();
        for ((sources, steps, _), range) in pieces.into_iter().zip(places) {
            let cuts = steps::cut(&sources, steps, &self.weights, &mut shares);
            let part = |cut| self.part(range, cut, &sources);
            all.extend(cuts.into_iter().map(part));
        }
        all
    }

    /// A part that reads this of some sources, as others do.
    fn part(&self, range: usize, cut: Cut, sources: &[Source]) -> ScanPart {
        ScanPart {
            range,
            weight: cut.weight,
            work: Arc::new(PartWork {
                sources: sources.to_vec(),
                steps: cut.steps,
                ..self.clone()
            }),
        }
    }

    fn stream(self: Arc<Self>) -> RowStream {
        stream::iter(0..self.steps.len())
            .map(move |step| Arc::clone(&self).run(step))
            .try_flatten()
            .boxed()
    }

    fn run(self: Arc<Self>, step: usize) -> Result<RowStream> {
        let rows = Arc::clone(&self).read(step)?;
        Ok(Reading::new(self, step, rows).stream())
    }

    fn read(self: Arc<Self>, step: usize) -> Result<RowStream> {
        let rows = match &self.steps[step] {
            ReadStep::Alone {
                stretch,
                range,
                whole,
            } => self.stretch(vec![stretch.clone()], range, *whole),
            ReadStep::Reconcile { stretches, range } => self.reconciled(stretches, range)?,
        };
        let work = self;
        Ok(rows
            .then(move |rows| {
                let work = Arc::clone(&work);
                async move {
                    work.snapshot.check_pin()?;
                    work.plain(work.counting(rows?)?).await
                }
            })
            .try_filter(|rows| futures::future::ready(rows.num_rows() > 0))
            .boxed())
    }

    /// All rows of a step that met damage, from what is left: the rows of these keys at this
    /// horizon are the same from any covering set.
    async fn read_instead(&self, step: usize, error: Error) -> Result<RowStream> {
        let snapshot = &self.snapshot;
        if !snapshot.may_read_instead(&error, self.avoids) {
            return Err(snapshot.placed(error));
        }
        let keys = steps::keys_of(&self.sources, &self.steps[step]);
        let Some(keys) = keys else {
            return Ok(stream::empty().boxed());
        };
        if let Some((view, _)) = &self.view {
            let rows = view.rows_of_table(snapshot, &self.layout, &keys).await?;
            let columns = self.reader.columns();
            let show = |rows: ChangeBatch| {
                let rows = self.reader.projection.of(&rows)?.data;
                let values = self.wanted.iter().map(|wanted| match wanted {
                    Wanted::Stored(at) => self.stored(&rows, columns, *at),
                    _ => Err(Error::internal("versions are not read through views")),
                });
                self.output(values.collect::<Result<_>>()?, rows.num_rows())
            };
            let rows: Vec<_> = rows.into_iter().map(show).collect();
            return Ok(stream::iter(rows).boxed());
        }
        let stored = self.sources.len().saturating_sub(self.memory);
        let memory = &self.sources[stored..];
        let keys = [keys];
        let pieces = snapshot.pieces(&self.layout, &keys, memory).await?;
        let columns = read_columns(&self.layout, &self.projection, false);
        let reader = PieceReader {
            codec: key_codec(&self.layout, &columns)?,
            projection: Arc::new(Projection::new(&self.layout.schema, columns)?),
            ..self.reader.clone()
        };
        let wanted = wanted(&self.layout, reader.columns(), &self.projection)?;
        let expiry = expiry_among(snapshot, &self.layout, reader.columns())?;
        let part = |(sources, steps, _)| {
            let work = PartWork {
                snapshot: self.snapshot.clone(),
                layout: Arc::clone(&self.layout),
                reader: reader.clone(),
                sources,
                memory: pieces.memory,
                avoids: pieces.avoids,
                steps,
                weights: self.weights.clone(),
                projection: Arc::clone(&self.projection),
                wanted: wanted.clone(),
                form: self.form,
                schema: Arc::clone(&self.schema),
                batch_rows: self.batch_rows,
                expiry: expiry.clone(),
                view: None,
            };
            Arc::new(work).stream()
        };
        let parts: Vec<RowStream> = pieces.of_ranges.into_iter().map(part).collect();
        Ok(stream::iter(parts).flatten().boxed())
    }

    /// The rows that count: of a table all of them.
    fn counting(&self, rows: ChangeBatch) -> Result<ChangeBatch> {
        match (&self.view, &self.reader.codec) {
            (Some((view, Some(table_key))), Some(view_key)) if !view.counts_all() => {
                view.filter(rows, view_key, table_key)
            }
            (Some((view, _)), _) if !view.counts_all() => {
                Err(Error::internal("a view is read without its key"))
            }
            _ => Ok(rows),
        }
    }

    /// Rows of one source; `alone` where they are taken as they are, neither clipped nor compared.
    fn stretch(
        &self,
        stretches: Vec<Stretch>,
        range: &KeyRange,
        alone: bool,
    ) -> BoxStream<'static, Result<ChangeBatch>> {
        let source = self.sources[stretches[0].source].clone();
        let mut reader = self.reader.clone();
        reader.views &= alone;
        reader.stream(source, stretches, range.clone())
    }
}
