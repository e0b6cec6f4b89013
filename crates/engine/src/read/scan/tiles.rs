//! Steps that reconcile: at once, or where the oldest source is the authority row group by row
//! group, so that what these come to is kept for the reads that come back to it (`kept_rows`).
//! Where sources in memory lie over files, that is what the files come to: it is reconciled by
//! itself first, and memory over it.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use lazybase_model::{Result, ScuNumber};

use super::PartWork;
use crate::change_batch::ChangeBatch;
use crate::env::planted::{Planted, is_planted};
use crate::manifest::{KeyRange, SegmentFormat};
use crate::read::kept_rows::{self, TileKey};
use crate::read::snapshot::Reader;
use crate::read::source::{Source, Stretch};
use crate::read::steps::{self, Tile};
use crate::stages::merge::{MergeShape, OutputSize, reconcile, reconcile_versions};

type Changes = BoxStream<'static, Result<ChangeBatch>>;

/// A tile's rows come in one batch, as those of a row group that nothing lies over, unless they are
/// much more than a row group has.
const TILE_BYTES: usize = 12 << 20;
/// What takes more is not kept: it is more than a row group.
const KEPT_BYTES_MAX: usize = 4 * TILE_BYTES;

/// The files that a tile is read from, oldest first, up to the first source in memory.
struct Files {
    ids: Vec<u128>,
    /// The horizon that they are read at.
    at: ScuNumber,
    /// For each source, how many files it and those before it have.
    ends: Vec<usize>,
    /// How many sources have any.
    sources: usize,
    /// Whether they are all that there is to read.
    is_all: bool,
}

impl Files {
    /// What tells them from others.
    fn known(&self) -> kept_rows::Files<'_> {
        kept_rows::Files {
            ids: &self.ids,
            at: self.at,
        }
    }
}

impl PartWork {
    /// The rows of a step that reconciles.
    pub(super) fn reconciled(
        self: &Arc<Self>,
        stretches: &[Stretch],
        range: &KeyRange,
    ) -> Result<Changes> {
        let Some(groups) = self.groups(stretches) else {
            let size = OutputSize {
                rows: self.batch_rows,
                ..OutputSize::default()
            };
            let inputs = self.inputs(stretches, range, 0..self.sources.len());
            return self.merged(inputs, range, size);
        };
        let tiles = steps::tiles(&self.sources, stretches, range, groups);
        let work = Arc::clone(self);
        let rows = stream::iter(tiles).map(move |tile| work.tile(tile));
        Ok(rows.try_flatten().boxed())
    }

    /// The source whose row groups make the tiles of a step: its oldest, if that has row groups,
    /// and if what the read decodes is kept.
    fn groups(&self, stretches: &[Stretch]) -> Option<usize> {
        let oldest = stretches.iter().map(|stretch| stretch.source).min()?;
        let Source::Run { segments, .. } = &self.sources[oldest] else {
            return None;
        };
        let mut of_oldest = stretches.iter().filter(|stretch| stretch.source == oldest);
        let has_groups = of_oldest.all(|stretch| {
            let meta = segments[stretch.segment].meta();
            meta.format == SegmentFormat::Parquet
        });
        // A transaction's own definition may have the version that another one will commit.
        let own = self.snapshot.has_own(self.layout.table.id);
        let keeps = self.reader.caching && !self.reader.versions && !own;
        (has_groups && keeps).then_some(oldest)
    }

    /// The rows of a tile: kept ones, with what is newer over them, or all of it anew.
    fn tile(&self, tile: Tile) -> Result<Changes> {
        let files = self.files(&tile.stretches);
        let key = TileKey {
            table: self.layout.table.id,
            low: tile.range.low.clone(),
            high: tile.range.high.clone(),
            columns: Arc::clone(self.reader.columns()),
            under_memory: !files.is_all,
        };
        let reader = &self.snapshot.inner.reader;
        // A row group of which a read takes a part is seldom asked for in the same part again. One
        // that only memory lies over is kept as it was decoded.
        let asks = tile.whole && (files.is_all || files.sources > 1);
        let (found, keep) = reader.kept_rows.look(&key, files.known(), asks);
        let (mut inputs, mut newer) = (Vec::new(), 0);
        let of_sources = found.and_then(|found| {
            let last = files.ends.iter().position(|end| *end == found.files)?;
            Some((last + 1, found.rows))
        });
        if let Some((next, rows)) = of_sources {
            self.reader.counters.add_hit();
            let rows: Vec<Result<ChangeBatch>> = rows.iter().cloned().map(Ok).collect();
            let rows = stream::iter(rows).boxed();
            if tile.stretches.iter().all(|stretch| stretch.source < next) {
                return Ok(rows);
            }
            inputs.push(rows);
            newer = next;
        }
        let size = OutputSize {
            rows: self.batch_rows.max(2 * tile.rows),
            bytes: TILE_BYTES,
        };
        let all = self.sources.len();
        let kept = match keep {
            true => files.ends.len(),
            false => all,
        };
        inputs.extend(self.inputs(&tile.stretches, &tile.range, newer..kept));
        let rows = self.merged(inputs, &tile.range, size)?;
        if !keep {
            return Ok(rows);
        }
        let keeping = Keeping {
            rows,
            batches: Vec::new(),
            bytes: 0,
            key,
            files,
            reader: reader.clone(),
        };
        let rows = stream::try_unfold(keeping, Keeping::next).boxed();
        let over = self.inputs(&tile.stretches, &tile.range, kept..all);
        if over.is_empty() {
            return Ok(rows);
        }
        self.merged(iter::once(rows).chain(over).collect(), &tile.range, size)
    }

    fn files(&self, stretches: &[Stretch]) -> Files {
        let mut files = Files {
            ids: Vec::new(),
            at: self.snapshot.inner.choice.sorted,
            ends: Vec::new(),
            sources: 0,
            is_all: true,
        };
        for (at, source) in self.sources.iter().enumerate() {
            let mut of_source = stretches.iter().filter(|stretch| stretch.source == at);
            match source {
                Source::Run { segments, .. } => {
                    let before = files.ids.len();
                    let ids = of_source.map(|stretch| segments[stretch.segment].id());
                    files.ids.extend(ids);
                    files.sources += usize::from(files.ids.len() > before);
                }
                Source::Memory { .. } => {
                    if of_source.next().is_some() {
                        files.is_all = false;
                        break;
                    }
                }
            }
            files.ends.push(files.ids.len());
        }
        files
    }

    /// What is read of each of some sources, oldest first.
    fn inputs(
        &self,
        stretches: &[Stretch],
        range: &KeyRange,
        sources: Range<usize>,
    ) -> Vec<Changes> {
        let mut inputs = Vec::new();
        for source in sources {
            let of_source: Vec<Stretch> = stretches
                .iter()
                .filter(|stretch| stretch.source == source)
                .cloned()
                .collect();
            if !of_source.is_empty() {
                let changes = self.stretch(of_source, range, false);
                let is_newest = source + 1 == self.sources.len();
                inputs.push(if is_planted(Planted::FilterBeforeReconcile) {
                    changes.map(|rows| rows?.without_deletes()).boxed()
                } else if is_planted(Planted::PredicateOnNewest) && is_newest {
                    self.unended(changes)
                } else {
                    changes
                });
            }
        }
        inputs
    }

    fn merged(&self, inputs: Vec<Changes>, range: &KeyRange, size: OutputSize) -> Result<Changes> {
        let shape = MergeShape::of(&self.layout).within(range);
        let shape = shape.project(self.reader.columns())?;
        match self.reader.versions {
            true => reconcile_versions(&shape, inputs, size),
            false => reconcile(&shape, inputs, size),
        }
    }
}

/// Rows of a tile on their way, which are kept once all of them have come.
struct Keeping {
    rows: Changes,
    batches: Vec<ChangeBatch>,
    bytes: usize,
    key: TileKey,
    files: Files,
    reader: Reader,
}

impl Keeping {
    async fn next(mut self) -> Result<Option<(ChangeBatch, Keeping)>> {
        let next = self.rows.try_next().await?;
        let is_little = self.bytes <= KEPT_BYTES_MAX;
        match next {
            Some(rows) => {
                self.bytes += rows.memory_bytes();
                match self.bytes <= KEPT_BYTES_MAX {
                    true => self.batches.push(rows.clone()),
                    false => self.batches.clear(),
                }
                Ok(Some((rows, self)))
            }
            None if is_little => {
                let kept = &self.reader.kept_rows;
                kept.keep(&self.key, self.files.known(), self.batches);
                Ok(None)
            }
            None => Ok(None),
        }
    }
}
