//! An attempt at sorting an SCU: one run for each table, in parts where memory is short.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::manifest::{SegmentFormat, SegmentMeta};
use lazybase_engine::segment::{RowLayout, SegmentWriter, WriteOptions, verify_segment};
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_engine::stages::sort::sort_changes;
use lazybase_model::Result;

use super::{Traffic, WorkerContext};
use crate::task::Output;

pub(super) async fn attempt(
    context: &WorkerContext,
    traffic: &Traffic,
    scu: &Arc<UnsortedScu>,
    layouts: &[Arc<RowLayout>],
) -> Result<Output> {
    let memory = context.settings.sort_memory;
    let mut runs = Vec::new();
    for layout in layouts {
        for segments in sort_table(context, traffic, scu, layout, memory).await? {
            runs.push((layout.table.primary.id, segments));
        }
    }
    Ok(Output::Sorted {
        scu: scu.scu(),
        runs,
    })
}

/// The parts of one table's run, in the order of their changes, each within `memory` bytes.
pub(super) async fn sort_table(
    context: &WorkerContext,
    traffic: &Traffic,
    scu: &Arc<UnsortedScu>,
    layout: &Arc<RowLayout>,
    memory: u64,
) -> Result<Vec<Vec<Arc<SegmentMeta>>>> {
    let mut parts = Vec::new();
    let mut held: Vec<ChangeBatch> = Vec::new();
    let mut held_bytes: u64 = 0;
    for batch in scu.prefix(u32::MAX) {
        for part in batch
            .parts
            .iter()
            .filter(|part| part.table == layout.table.id)
        {
            if held_bytes > 0 && held_bytes.saturating_add(part.raw_bytes) > memory {
                parts.push(sort_part(context, traffic, layout, std::mem::take(&mut held)).await?);
                held_bytes = 0;
            }
            held_bytes += part.raw_bytes;
            held.push(part.read(&*context.env.store, layout, scu.scu()).await?);
            traffic.read.fetch_add(part.raw_bytes, Ordering::Relaxed);
        }
    }
    if !held.is_empty() {
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
    let options = WriteOptions::default();
    let mut writer = SegmentWriter::create(&context.env, layout, SegmentFormat::Extent, options)?;
    for batch in sorted {
        writer.push(batch).await?;
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
        traffic.written.fetch_add(segment.bytes, Ordering::Relaxed);
        segments.push(segment);
    }
    Ok(segments)
}
