//! Re-reading everything that the newest manifest names, against checksums and invariants.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_engine::manifest::{Manifest, SegmentMeta, check};
use lazybase_engine::segment::{RowLayout, verify_segment};
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_model::{Error, Result};

use crate::shared::Shared;

/// What a verification found.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// Segments and logs of unsorted SCUs that were read back in full.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Stored rows seen.
    pub rows: u64,
    /// What is wrong, a line each; empty when all is well.
    pub problems: Vec<String>,
}

/// Reads back all segments and logs; `progress` hears the share that is done, from 0 to 1.
pub(crate) async fn verify(
    shared: &Shared,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<VerifyReport> {
    let unsorted = shared.ingest.unsorted();
    let pin = shared
        .reader
        .pins
        .pin("verify", || shared.manifests.current());
    let manifest = Arc::clone(pin.manifest());
    let mut report = VerifyReport::default();
    if let Err(error) = check::check_loaded(&manifest) {
        report.problems.push(error.to_string());
    }
    let segments = segments_of(&manifest)?;
    let total: u64 = segments.iter().map(|(_, meta, _)| meta.bytes).sum();
    for (layout, meta, place) in &segments {
        let checked = verify_segment(&shared.env, layout, meta).await;
        note(&mut report, checked, place);
        report.files += 1;
        report.rows += meta.rows;
        report.bytes += meta.bytes;
        progress(report.bytes as f64 / total.max(1) as f64);
        pin.check()?;
    }
    for scu in unsorted
        .iter()
        .filter(|scu| scu.scu() > manifest.sorted_through)
    {
        let read = verify_log(shared, &manifest, scu).await;
        note(&mut report, read, &format!("log of SCU {}", scu.scu()));
        report.files += 1;
    }
    Ok(report)
}

fn note(report: &mut VerifyReport, checked: Result<()>, place: &str) {
    if let Err(error) = checked {
        report.problems.push(format!("{place}: {error}"));
    }
}

type Named = (Arc<RowLayout>, Arc<SegmentMeta>, String);

/// Reads back all batches of an unsorted SCU.
async fn verify_log(shared: &Shared, manifest: &Manifest, scu: &UnsortedScu) -> Result<()> {
    for state in manifest.tables.values() {
        scu.read_table(&*shared.env.store, &state.table, u32::MAX)
            .await?;
    }
    Ok(())
}

/// Every segment once, with its layout and where it belongs.
fn segments_of(manifest: &Manifest) -> Result<Vec<Named>> {
    let mut seen = BTreeSet::new();
    let mut named = Vec::new();
    for run in manifest.runs.values() {
        let state = manifest
            .table_of_view(run.view)
            .ok_or_else(|| Error::internal(format!("run {} has no table", run.id.0)))?;
        let layout = Arc::new(RowLayout::primary(&state.table)?);
        for meta in &run.segments {
            if seen.insert(&meta.file) {
                let place = format!(
                    "table {:?}, view {}, SCUs {}",
                    state.table.name, run.view, run.span
                );
                named.push((Arc::clone(&layout), Arc::clone(meta), place));
            }
        }
    }
    Ok(named)
}
