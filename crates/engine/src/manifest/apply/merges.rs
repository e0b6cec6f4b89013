//! What a merge makes of its inputs: the span that they cover together, and the segments that it
//! moves as they are. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_model::{Error, Result, Span};

use crate::manifest::state::{Run, RunKind, SegmentMeta};

/// The span of the run that joins `inputs`: theirs, once they are adjacent and `output` agrees.
pub(super) fn joined_span(inputs: &[&Arc<Run>], output: &Run) -> Result<Span> {
    let mut inputs: Vec<&Run> = inputs.iter().map(|run| run.as_ref()).collect();
    inputs.sort_by_key(|run| run.order());
    let wrong = |why: String| Err(Error::internal(format!("{} {why}", output.id)));
    let Some(first) = inputs.first() else {
        return wrong("joins nothing".to_owned());
    };
    let (mut span, mut changes_through) = (first.span, first.changes_through);
    for pair in inputs.windows(2) {
        let (before, run) = (pair[0], pair[1]);
        let next_part = before.span == run.span && before.part + 1 == run.part;
        if !next_part && !span.is_followed_by(run.span) {
            return wrong(format!("joins {} and {} across a gap", span, run.span));
        }
        span.last = run.span.last;
        changes_through = changes_through.max(run.changes_through);
    }
    let ends = changes_through <= output.span.last && output.span.last <= span.last;
    // It may answer later only than its inputs: where rows have ended by then, and are gone.
    let answers = (changes_through..=output.span.last).contains(&output.changes_through);
    if output.span.first != span.first || !ends || !answers {
        return wrong(format!(
            "holds {} with changes through {}, but joins {span} with changes through \
             {changes_through}",
            output.span, output.changes_through
        ));
    }
    let base = inputs.iter().any(|run| run.kind == RunKind::Base);
    if base != (output.kind == RunKind::Base) || output.kind == RunKind::Sorted {
        return wrong(format!("can't be of kind {:?}", output.kind));
    }
    Ok(span)
}

/// A segment that was moved by reference is one value, however many runs name it.
pub(super) fn share_segments(inputs: &[&Arc<Run>], output: &mut Run) {
    let known: BTreeMap<&str, &Arc<SegmentMeta>> = inputs
        .iter()
        .flat_map(|run| run.segments.iter())
        .map(|segment| (segment.file.as_str(), segment))
        .collect();
    for segment in &mut output.segments {
        if let Some(same) = known
            .get(segment.file.as_str())
            .filter(|same| **same == segment)
        {
            *segment = Arc::clone(same);
        }
    }
}
