//! The spans of the pipeline: one for each SCU from its seal until it is in the authority, and one
//! for each attempt below it.
//!
//! ```text
//!   statement --- commit (scu 7)            the writer's trace
//!   scu 7 ------- remap, sort, merge, ...   from the seal to the authority: its length is the lag
//! ```
//!
//! Nothing is kept while nobody listens to spans. Invariant TRC-1: the spans that are kept have a
//! limit; one that is given up early ends early.

use std::collections::BTreeMap;

use lazybase_engine::manifest::Manifest;
use lazybase_engine::stages::ingest::Sealed;
use lazybase_model::{ScuNumber, Span};

use crate::lag;
use crate::task::{StageName, TaskStatus};

/// The SCUs whose spans are kept at most.
const SCUS_MAX: usize = 1024;

/// The spans of SCUs that are on their way.
#[derive(Default)]
pub(crate) struct ScuSpans(BTreeMap<ScuNumber, tracing::Span>);

impl ScuSpans {
    /// An SCU was sealed.
    pub(crate) fn sealed(&mut self, sealed: &Sealed) {
        let entry = &sealed.entry;
        let span = tracing::info_span!(
            parent: None,
            "scu",
            scu = entry.scu.0,
            batches = entry.batches,
            rows = entry.rows,
            bytes = entry.raw_bytes,
        );
        if span.is_disabled() {
            return;
        }
        self.0.insert(entry.scu, span);
        while self.0.len() > SCUS_MAX {
            self.0.pop_first();
        }
    }

    /// The manifest has changed: SCUs that are in the authority now have come to their end.
    pub(crate) fn settled(&mut self, manifest: &Manifest) {
        if !self.0.is_empty() {
            let through = lag::authority_of(manifest);
            self.0 = self.0.split_off(&through.next());
        }
    }

    /// The span of an attempt: below that of the newest SCU that it works on.
    pub(crate) fn attempt(&self, status: &TaskStatus) -> tracing::Span {
        let Span { first, last, .. } = status.span;
        let upto = self.0.range(..=last).next_back();
        let parent = upto.filter(|(scu, _)| **scu >= first);
        let parent = parent.and_then(|(_, span)| span.id());
        macro_rules! span {
            ($name:literal) => {
                tracing::info_span!(
                    parent: parent,
                    $name,
                    task = status.id.0,
                    first_scu = first.0,
                    last_scu = last.0,
                    bytes = status.bytes,
                    failed = tracing::field::Empty,
                )
            };
        }
        match status.stage {
            StageName::Ingest => span!("ingest"),
            StageName::Remap => span!("remap"),
            StageName::Sort => span!("sort"),
            StageName::Merge => span!("merge"),
            StageName::Authority => span!("authority"),
            StageName::Heal => span!("heal"),
        }
    }
}
