//! Looks at the pipeline several times a second, for the live view and the report.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lazybase_engine::manifest::Manifest;
use lazybase_query::Database;

use super::live::View;
use super::shared::Shared;
use super::stats::PipelineSample;
use crate::pipeline::{Boundaries, staleness_micros};
use crate::wall;

const EVERY: Duration = Duration::from_millis(200);

/// Samples and shows the pipeline until the replay is over.
pub(super) async fn run(database: Database, shared: Arc<Shared>, mut view: View) -> View {
    while shared.running() {
        look(&database, &shared, &mut view);
        wall::sleep(EVERY).await;
    }
    look(&database, &shared, &mut view);
    view
}

/// One look.
pub(super) fn look(database: &Database, shared: &Shared, view: &mut View) {
    let instance = database.instance();
    let sample = sample(&instance.manifest(), instance.now_micros(), shared);
    shared.pipeline().push(sample);
    view.show(&sample, shared);
}

fn sample(manifest: &Manifest, now_micros: i64, shared: &Shared) -> PipelineSample {
    let reached = Boundaries::of(manifest);
    let newest = manifest.times.last_key_value();
    let sealed_batches = newest.map_or(0, |(_, time)| time.batches_through);
    let batches = shared.batches.load(Ordering::Relaxed);
    PipelineSample {
        at_us: shared.start.micros(),
        changes: shared.changes.load(Ordering::Acquire),
        open_batches: batches.saturating_sub(sealed_batches),
        scus: reached.scus(),
        staleness_us: [reached.sorted, reached.merged, reached.authority]
            .map(|boundary| staleness_micros(manifest, boundary, now_micros)),
    }
}
