//! Looks at the pipeline several times a second, for the live view and the report.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lazybase_engine::manifest::Manifest;
use lazybase_model::ScuNumber;
use lazybase_query::Database;

use super::live::View;
use super::shared::Shared;
use super::stats::PipelineSample;
use crate::pipeline::Boundaries;
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
    let sample = sample(&instance.manifest(), shared);
    shared.pipeline().push(sample);
    view.show(&sample, shared);
}

fn sample(manifest: &Manifest, shared: &Shared) -> PipelineSample {
    let reached = Boundaries::of(manifest);
    let batches_through = |boundary: u64| {
        let time = manifest.times.get(&ScuNumber(boundary));
        time.map_or(0, |time| time.batches_through)
    };
    let batches = shared.batches.load(Ordering::Relaxed);
    let now = shared.start.micros();
    let acks = shared.acks();
    PipelineSample {
        at_us: now,
        changes: shared.changes.load(Ordering::Acquire),
        open_batches: batches.saturating_sub(batches_through(reached.ingested)),
        scus: reached.scus(),
        // By the acknowledgements that the demo has seen, so that the open SCU counts too.
        staleness_us: [reached.sorted, reached.merged, reached.authority]
            .map(|boundary| acks.staleness(batches_through(boundary), now)),
    }
}
