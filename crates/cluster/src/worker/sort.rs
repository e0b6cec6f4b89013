//! An attempt at sorting an SCU: one run for each table, in parts where memory is short.

use std::sync::Arc;

use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::manifest::{SegmentFormat, SegmentMeta};
use lazybase_engine::read::Identifier;
use lazybase_engine::segment::{RowLayout, SegmentWriter, verify_segment};
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_engine::stages::sort::sort_changes;
use lazybase_model::{Error, Result};

use super::{Traffic, WorkerContext};
use crate::shared::is_log;
use crate::task::Output;

/// How often a log that failed is read again at once before what it holds is given up.
const READS: usize = 4;

pub(super) async fn attempt(
    context: &WorkerContext,
    traffic: &Traffic,
    ids: &Identifier,
    scu: &Arc<UnsortedScu>,
    (layouts, give_up): (&[Arc<RowLayout>], bool),
) -> Result<Output> {
    let memory = context.settings.sort_memory;
    let mut runs = Vec::new();
    for layout in layouts {
        let parts = match sort_table(context, traffic, ids, scu, layout, memory).await {
            Err(error) if give_up && is_of_log(&error) => {
                sort_or_lose(context, traffic, ids, scu, layout).await?
            }
            parts => parts?,
        };
        // References to keys that are all known change nothing.
        for segments in parts.into_iter().filter(|segments| !segments.is_empty()) {
            runs.push((layout.table.primary.id, segments));
        }
    }
    Ok(Output::Sorted {
        scu: scu.scu(),
        runs,
    })
}

fn is_of_log(error: &Error) -> bool {
    error.damaged_file().is_some_and(is_log)
}

/// The parts of a table whose log could not be read: read again, a few times, and given up then.
async fn sort_or_lose(
    context: &WorkerContext,
    traffic: &Traffic,
    ids: &Identifier,
    scu: &Arc<UnsortedScu>,
    layout: &Arc<RowLayout>,
) -> Result<Vec<Vec<Arc<SegmentMeta>>>> {
    let memory = context.settings.sort_memory;
    for _ in 0..READS {
        match sort_table(context, traffic, ids, scu, layout, memory).await {
            Err(error) if is_of_log(&error) => traffic.note_damage(&context.damaged, &error),
            parts => return parts,
        }
    }
    let rows = scu.table_totals(layout.table.id).rows;
    let lost = SegmentMeta::lost(scu.scu(), layout.table.id, rows);
    Ok(vec![vec![Arc::new(lost)]])
}

/// The parts of one table's run, in the order of their changes, each within `memory` bytes.
pub(super) async fn sort_table(
    context: &WorkerContext,
    traffic: &Traffic,
    ids: &Identifier,
    scu: &Arc<UnsortedScu>,
    layout: &Arc<RowLayout>,
    memory: u64,
) -> Result<Vec<Vec<Arc<SegmentMeta>>>> {
    let mut parts = Vec::new();
    let mut held: Vec<ChangeBatch> = Vec::new();
    let mut held_bytes: u64 = 0;
    for batch in scu.prefix(u32::MAX) {
        for place in Identifier::places(&layout.table, &batch) {
            let bytes = place.raw_bytes(&batch);
            if held_bytes > 0 && held_bytes.saturating_add(bytes) > memory {
                parts.push(sort_part(context, traffic, layout, std::mem::take(&mut held)).await?);
                held_bytes = 0;
            }
            held_bytes += bytes;
            held.push(ids.read(layout, scu, &batch, place).await?);
            traffic.read(bytes);
        }
    }
    if held.iter().any(|changes| changes.rows() > 0) {
        parts.push(sort_part(context, traffic, layout, held).await?);
    }
    Ok(parts)
}

pub(super) async fn sort_part(
    context: &WorkerContext,
    traffic: &Traffic,
    layout: &Arc<RowLayout>,
    changes: Vec<ChangeBatch>,
) -> Result<Vec<Arc<SegmentMeta>>> {
    let sorted = sort_changes(layout, &changes)?;
    drop(changes);
    let options = context.settings.write_options;
    let mut writer = SegmentWriter::create(&context.env, layout, SegmentFormat::Extent, options)?;
    for batch in sorted {
        writer.push(batch).await?;
        traffic.went_on();
    }
    finish(context, traffic, layout, writer).await
}

/// Ends a writer and reads back what it wrote: inputs may go only after this.
pub(super) async fn finish(
    context: &WorkerContext,
    traffic: &Traffic,
    layout: &Arc<RowLayout>,
    writer: SegmentWriter,
) -> Result<Vec<Arc<SegmentMeta>>> {
    let mut segments = Vec::new();
    for segment in writer.finish().await? {
        let segment = Arc::new(segment);
        verify_segment(&context.env, layout, &segment).await?;
        traffic.wrote(segment.bytes);
        segments.push(segment);
    }
    Ok(segments)
}
