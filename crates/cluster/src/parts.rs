//! The files that a manifest names, each once, and how they are read: piece by piece.
//!
//! Reads manifests and stores; writes nothing. Backup, restore, verification and repair go over a
//! database's files with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use lazybase_engine::env::{Env, Store, StoreResult};
use lazybase_engine::manifest::history::TimesFile;
use lazybase_engine::manifest::{Manifest, Run, SegmentMeta};
use lazybase_engine::read::read_times;
use lazybase_engine::segment::{RowLayout, verify_segment};
use lazybase_model::{Error, Result};

/// What is read at once.
const PIECE_BYTES: u64 = 4 << 20;

/// A segment that runs name.
pub(crate) struct SegmentPart {
    pub(crate) layout: Arc<RowLayout>,
    pub(crate) meta: Arc<SegmentMeta>,
    /// Table, view and SCUs of the first run that names it, in words.
    pub(crate) place: String,
}

/// Table, view and SCUs of a run, in words.
pub(crate) fn place_of(manifest: &Manifest, run: &Run) -> String {
    let state = manifest.table_of_view(run.view);
    let table = state.map_or("", |state| state.table.name.as_str());
    format!("table {table:?}, view {}, SCUs {}", run.view, run.span)
}

/// All segments that a manifest names, each once.
pub(crate) fn segments_of(manifest: &Manifest) -> Result<Vec<SegmentPart>> {
    let mut seen = BTreeSet::new();
    let mut parts = Vec::new();
    for run in manifest.runs.values() {
        let state = manifest
            .table_of_view(run.view)
            .ok_or_else(|| Error::internal(format!("run {} has no table", run.id.0)))?;
        let layout = Arc::new(RowLayout::primary(&state.table)?);
        for meta in run.segments.iter().filter(|meta| seen.insert(&meta.file)) {
            parts.push(SegmentPart {
                layout: Arc::clone(&layout),
                meta: Arc::clone(meta),
                place: place_of(manifest, run),
            });
        }
    }
    Ok(parts)
}

/// A file of a manifest without logs.
pub(crate) enum Part {
    Segment(SegmentPart),
    Times(TimesFile),
}

/// The files that a manifest without logs names, each once.
pub(crate) fn parts_of(manifest: &Manifest) -> Result<Vec<Part>> {
    let segments = segments_of(manifest)?.into_iter().map(Part::Segment);
    let times = manifest.history.files.iter().cloned().map(Part::Times);
    Ok(segments.chain(times).collect())
}

impl Part {
    pub(crate) fn file(&self) -> &str {
        match self {
            Part::Segment(part) => &part.meta.file,
            Part::Times(times) => &times.file,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Part::Segment(part) => part.meta.bytes,
            Part::Times(times) => times.bytes,
        }
    }

    /// Reads the file back in full and checks everything that a reader may rely on.
    pub(crate) async fn check(&self, env: &Env) -> Result<()> {
        match self {
            Part::Segment(part) => verify_segment(env, &part.layout, &part.meta).await,
            Part::Times(times) => read_times(&*env.store, times).await.map(drop),
        }
    }
}

/// A file, read from front to back.
pub(crate) struct Pieces<'s> {
    store: &'s dyn Store,
    file: &'s str,
    at: u64,
    bytes: u64,
    crc: u32,
}

impl<'s> Pieces<'s> {
    /// The first `bytes` of a file.
    pub(crate) fn of(store: &'s dyn Store, file: &'s str, bytes: u64) -> Pieces<'s> {
        Pieces {
            store,
            file,
            at: 0,
            bytes,
            crc: 0,
        }
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> StoreResult<Option<Bytes>> {
        if self.at >= self.bytes {
            return Ok(None);
        }
        let end = (self.at + PIECE_BYTES).min(self.bytes);
        let piece = self.store.read(self.file, self.at..end).await?;
        self.crc = crc32c::crc32c_append(self.crc, &piece);
        self.at = end;
        Ok(Some(piece))
    }

    /// CRC-32C of what was read so far.
    pub(crate) fn crc32c(&self) -> u32 {
        self.crc
    }
}
