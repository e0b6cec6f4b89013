//! When a secondary view is brought to the newest boundary. Pure.
//!
//! A view that lags is read with its table's changes since; bringing it on reads the changed rows
//! of the table twice, as they were and as they are. So it waits until there is as much to do as
//! makes reads dear, until nothing else comes in, or until somebody waits for it.

use lazybase_engine::manifest::{Manifest, RunKind, TableState};
use lazybase_model::ScuNumber;

use super::{Load, Proposal, Ranked, RunningTask};

/// Before all merges but those that are far behind: readers of the view wait for nothing else.
const URGENCY: u64 = 120;
/// A view follows once the changes that it lacks are this part of its table's authority.
const SHARE: u64 = 32;
/// It follows in any case after so many SCUs.
const SCUS_MAX: u64 = 128;

/// The views that should be brought to the newest boundary now.
pub(super) fn advances(manifest: &Manifest, load: &Load<'_>, idle: bool) -> Vec<Ranked> {
    let to = manifest.sorted_through;
    let mut ranked = Vec::new();
    for state in manifest.views.values() {
        let view = state.table.primary.id;
        let mut running = load.running.iter();
        let busy = running
            .any(|task| matches!(task, RunningTask::Advance { view: of, .. } if *of == view));
        let from = manifest.view_end(state);
        let table = state.table.view_of.and_then(|of| manifest.tables.get(&of));
        let Some(table) = table.filter(|_| !busy && from < to) else {
            continue;
        };
        let lack = lacking(manifest, table, from);
        let awaited = load.awaited(manifest).is_some_and(|through| from < through);
        let due = idle
            || awaited
            || is_empty(manifest, state)
            || to.0 - from.0 >= SCUS_MAX
            || lack.bytes >= lack.base_bytes / SHARE && lack.bytes > 0;
        if due {
            ranked.push(Ranked {
                urgency: match awaited {
                    true => load.awaited_urgency(),
                    false => URGENCY,
                },
                bytes: lack.bytes,
                proposal: Proposal::Advance { view, from, to },
            });
        }
    }
    ranked
}

/// What a view that ends at a boundary lacks.
struct Lack {
    /// Bytes of changes after the boundary.
    bytes: u64,
    /// Bytes of the table's authority.
    base_bytes: u64,
}

fn lacking(manifest: &Manifest, table: &TableState, from: ScuNumber) -> Lack {
    let view = table.table.primary.id;
    let mut lack = Lack {
        bytes: 0,
        base_bytes: 0,
    };
    for run in manifest.runs.values().filter(|run| run.view == view) {
        if run.kind == RunKind::Sorted && run.span.last > from {
            lack.bytes += run.bytes();
        }
        if run.kind == RunKind::Base {
            lack.base_bytes += run.bytes();
        }
    }
    lack
}

/// Whether a view holds nothing.
fn is_empty(manifest: &Manifest, view: &TableState) -> bool {
    let runs = manifest.runs.values();
    let mut of_view = runs.filter(|run| run.view == view.table.primary.id);
    of_view.all(|run| run.segments.is_empty())
}
