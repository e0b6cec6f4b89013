//! From what attempts made to the edits that adopt it: plain functions.

use std::sync::Arc;

use lazybase_engine::env::planted::{Planted, is_planted};
use lazybase_engine::manifest::{Edit, Manifest, Run, RunId, RunKind, SegmentMeta};
use lazybase_engine::stages::ingest::Sealed;
use lazybase_model::{ScuNumber, Span, ViewId};

use crate::task::Output;

/// The edit that names a sealed SCU.
pub(crate) fn seal_edit(sealed: &Sealed) -> Edit {
    Edit::Seal {
        entry: sealed.entry.clone(),
        time: sealed.time,
        producers: sealed.producers.clone(),
    }
}

/// The runs of a sorted SCU, of the tables that are still there.
pub(crate) fn sorted_runs(
    manifest: &Manifest,
    scu: ScuNumber,
    made: &[(ViewId, Vec<Arc<SegmentMeta>>)],
) -> Vec<Run> {
    let mut next = manifest.next_run;
    let mut runs = Vec::new();
    for (view, segments) in made {
        if manifest.table_of_view(*view).is_none() {
            continue;
        }
        let part = runs.iter().filter(|run: &&Run| run.view == *view).count() as u32;
        runs.push(Run {
            id: RunId(next),
            view: *view,
            kind: RunKind::Sorted,
            span: Span::single(scu),
            changes_through: scu,
            segments: segments.clone(),
            part,
        });
        next += 1;
    }
    runs
}

/// The edit that adopts a joined run, unless its table or range is gone or its inputs were
/// replaced meanwhile.
pub(crate) fn merged_edit(manifest: &Manifest, made: &Output, clock_micros: i64) -> Option<Edit> {
    let Output::Merged {
        view,
        range,
        inputs,
        kind,
        span,
        changes_through,
        segments,
    } = made
    else {
        return None;
    };
    let table = manifest.table_of_view(*view)?;
    let current = table.ranges.iter().find(|state| state.range == *range)?;
    let all_there = inputs.iter().all(|input| {
        current
            .runs
            .iter()
            .any(|run| run.id == *input && run.superseded_micros.is_none())
    });
    // While the attempt ran, the newest input may have been extended over SCUs that changed
    // nothing here: the joined run takes the extension over.
    let last = manifest.runs.get(inputs.last()?)?.span.last;
    all_there.then(|| Edit::Merged {
        view: *view,
        low: range.low.clone(),
        inputs: inputs.clone(),
        output: Run {
            id: RunId(manifest.next_run),
            view: *view,
            kind: *kind,
            span: Span {
                first: span.first,
                last: last.max(span.last),
            },
            changes_through: *changes_through,
            segments: segments.clone(),
            part: 0,
        },
        clock_micros,
    })
}

/// The edit that brings a secondary view to a newer boundary, unless it is gone or was changed
/// meanwhile. What was built from all rows may hold those of a partition that was dropped since:
/// then the view has begun again, at the same boundary as before.
pub(crate) fn advanced_edit(manifest: &Manifest, made: &Output) -> Option<Edit> {
    let Output::Advanced {
        view,
        from,
        to,
        parts,
        whole,
    } = made
    else {
        return None;
    };
    let state = manifest.table_of_view(*view)?;
    let to = match whole.is_some() && is_planted(Planted::ViewBuiltAhead) {
        true => manifest.sorted_through,
        false => *to,
    };
    let runs = parts.iter().zip(0..).map(|(segments, part)| Run {
        id: RunId(manifest.next_run + u64::from(part)),
        view: *view,
        kind: RunKind::Sorted,
        span: Span::new(from.next(), to),
        changes_through: to,
        segments: segments.clone(),
        part,
    });
    let has_begun_again = whole.is_some_and(|empty| !manifest.runs.contains_key(&empty));
    let goes_on =
        state.table.view_of.is_some() && manifest.view_end(state) == *from && !has_begun_again;
    goes_on.then(|| Edit::Advanced {
        view: *view,
        from: *from,
        to,
        runs: runs.collect(),
        whole: whole.is_some(),
    })
}
