//! Attempts at healing: reading suspected files back in full, and running the stage of a damaged
//! run once more.

use std::sync::Arc;

use lazybase_engine::env::planted::{Planted, is_planted};
use lazybase_engine::manifest::{Run, RunKind, ScuEntry, SegmentMeta};
use lazybase_engine::read::Identifier;
use lazybase_engine::segment::{RowLayout, verify_segment};
use lazybase_engine::stages::ingest::open_sealed;
use lazybase_model::{Error, Result};

use super::{Traffic, WorkerContext, merge, sort};
use crate::task::{Heal, HealPiece, Output, Replaced};

/// Tells damaged files from those that are whole after all.
pub(super) async fn check(
    context: &WorkerContext,
    traffic: &Traffic,
    segments: &[(Arc<RowLayout>, Arc<SegmentMeta>)],
) -> Result<Output> {
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    for (layout, meta) in segments {
        traffic.went_on();
        match verify_segment(&context.env, layout, meta).await {
            Ok(()) => whole.push(meta.file.clone()),
            Err(error) if error.damaged_file().is_some() => {
                damaged.push(error.with_file(&meta.file));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Output::Checked { whole, damaged })
}

/// Makes damaged files again.
pub(super) async fn attempt(
    context: &WorkerContext,
    traffic: &Traffic,
    layout: &Arc<RowLayout>,
    ids: &Identifier,
    heal: &Heal,
) -> Result<Output> {
    let runs = match heal {
        Heal::Sort { entry, runs } => {
            sort_again(context, traffic, layout, ids, entry, runs).await?
        }
        Heal::Merge { run, files, pieces } => {
            let segments = merge_again(context, traffic, layout, run, pieces).await?;
            vec![Replaced {
                run: run.id,
                files: files.clone(),
                segments,
            }]
        }
    };
    Ok(Output::Healed { runs })
}

async fn merge_again(
    context: &WorkerContext,
    traffic: &Traffic,
    layout: &Arc<RowLayout>,
    run: &Run,
    pieces: &[HealPiece],
) -> Result<Vec<Arc<SegmentMeta>>> {
    let kind = match run.kind {
        RunKind::Base => RunKind::Base,
        RunKind::Merged | RunKind::Sorted => RunKind::Merged,
    };
    let mut made = Vec::new();
    for HealPiece { range, inputs } in pieces {
        let left = match inputs.len() {
            several @ 2.. if is_planted(Planted::HealedShort) => several - 1,
            all => all,
        };
        let inputs = &inputs[..left];
        let merged = merge::attempt(context, traffic, layout, range, inputs, (kind, None)).await?;
        if let Output::Merged { segments, .. } = merged {
            made.extend(segments);
        }
    }
    Ok(made)
}

/// Sorts an SCU from its log once more. Its parts are replaced together: where memory cuts them
/// otherwise than before, the first holds all.
async fn sort_again(
    context: &WorkerContext,
    traffic: &Traffic,
    layout: &Arc<RowLayout>,
    ids: &Identifier,
    entry: &ScuEntry,
    runs: &[Arc<Run>],
) -> Result<Vec<Replaced>> {
    let scu = open_sealed(&*context.env.store, entry).await?;
    let memory = context.settings.sort_memory;
    let mut parts = sort::sort_table(context, traffic, ids, &scu, layout, memory).await?;
    if parts.len() > runs.len() {
        parts = sort::sort_table(context, traffic, ids, &scu, layout, u64::MAX).await?;
    }
    if parts.len() > runs.len() {
        return Err(Error::internal("an SCU was sorted into too many parts"));
    }
    parts.resize(runs.len(), Vec::new());
    let replaced = runs.iter().zip(parts).map(|(run, segments)| Replaced {
        run: run.id,
        files: run.segments.iter().map(|s| s.file.clone()).collect(),
        segments,
    });
    Ok(replaced.collect())
}
