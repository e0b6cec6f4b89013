//! The spans of the pipeline: one for each batch until its SCU is sealed, one for each SCU from its
//! seal until it is in the authority, and one for each attempt below it.
//!
//! ```text
//!   statement --- commit --- open           the writer's trace, until the SCU is sealed
//!                              ^
//!                              |  link
//!   scu 7 ------- remap, sort, merge, ...   from the seal to the authority: its length is the lag
//!                                |  link
//!                                v
//!   scu 6 ------- remap, sort               an attempt stands below its newest SCU, and is linked
//!                                           with the others
//! ```
//!
//! So a batch is followed from its statement to the authority, whatever it is merged with. Nothing
//! is kept while nobody listens to spans. Invariant TRC-1: the spans that are kept have a limit;
//! one that is given up early ends early.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use lazybase_engine::manifest::Manifest;
use lazybase_engine::stages::ingest::{Acknowledgement, Sealed};
use lazybase_model::{ScuNumber, Span};
use parking_lot::Mutex;

use crate::lag;
use crate::task::{StageName, TaskStatus};

/// The spans that one is linked with at most: an attempt with the SCUs that it works on, an SCU
/// with its batches.
pub const SPAN_LINKS_MAX: u32 = 1024;

/// The SCUs whose spans are kept at most.
const SCUS_MAX: usize = SPAN_LINKS_MAX as usize;

/// The batches in open SCUs whose spans are kept at most: they end together, and what sends spans
/// must have room for them.
const BATCHES_MAX: usize = 512;

/// The spans of batches and SCUs that are on their way. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ScuSpans(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// Batches whose SCU is not known to be sealed.
    open: BTreeMap<ScuNumber, Vec<tracing::Span>>,
    /// SCUs that are not in the authority yet.
    sealed: BTreeMap<ScuNumber, tracing::Span>,
    /// The newest SCU that was sealed.
    newest: ScuNumber,
}

impl ScuSpans {
    /// A batch was acknowledged, in the span of whoever wrote it.
    pub(crate) fn acknowledged(&self, done: &Acknowledgement) {
        // An empty batch is in no SCU, and a duplicate was in one before.
        if done.ack_micros == 0 {
            return;
        }
        let scu = done.horizon.scu;
        let batch = tracing::info_span!("open", scu = scu.0);
        if batch.is_disabled() {
            return;
        }
        let mut kept = self.0.lock();
        let room = BATCHES_MAX.saturating_sub(kept.open.values().map(Vec::len).sum());
        if let Some(sealed) = kept.sealed.get(&scu) {
            // The seal was quicker than the word of the acknowledgement.
            sealed.follows_from(&batch);
        } else if kept.newest < scu && room > 0 {
            kept.open.entry(scu).or_default().push(batch);
        }
    }

    /// An SCU was sealed.
    pub(crate) fn sealed(&self, sealed: &Sealed) {
        let entry = &sealed.entry;
        let span = tracing::info_span!(
            parent: None,
            "scu",
            scu = entry.scu.0,
            batches = entry.batches,
            rows = entry.rows,
            bytes = entry.raw_bytes,
        );
        let mut kept = self.0.lock();
        kept.newest = kept.newest.max(entry.scu);
        if span.is_disabled() {
            return;
        }
        let later = kept.open.split_off(&entry.scu.next());
        let open = mem::replace(&mut kept.open, later);
        for batch in open.get(&entry.scu).into_iter().flatten() {
            span.follows_from(batch);
        }
        kept.sealed.insert(entry.scu, span);
        while kept.sealed.len() > SCUS_MAX {
            kept.sealed.pop_first();
        }
    }

    /// The manifest has changed: SCUs that are in the authority now have come to their end.
    pub(crate) fn settled(&self, manifest: &Manifest) {
        if self.0.lock().sealed.is_empty() {
            return;
        }
        let through = lag::authority_of(manifest);
        let mut kept = self.0.lock();
        kept.sealed = kept.sealed.split_off(&through.next());
    }

    /// The span of an attempt: below that of the newest SCU that it works on, and linked with those
    /// of the others.
    pub(crate) fn attempt(&self, status: &TaskStatus) -> tracing::Span {
        let Span { first, last, .. } = status.span;
        let kept = self.0.lock();
        let newest_first = kept.sealed.range(..=last).rev();
        let mut scus = newest_first.take_while(|(scu, _)| **scu >= first);
        let parent = scus.next().and_then(|(_, span)| span.id());
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
        let attempt = match status.stage {
            StageName::Ingest => span!("ingest"),
            StageName::Remap => span!("remap"),
            StageName::Sort => span!("sort"),
            StageName::Merge => span!("merge"),
            StageName::Authority => span!("authority"),
            StageName::Heal => span!("heal"),
        };
        for (_, older) in scus {
            attempt.follows_from(older);
        }
        attempt
    }
}
