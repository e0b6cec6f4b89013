//! An attempt at a merge: adjacent runs of one key range become one run, by a plan that touches
//! as little as it can.

use std::sync::Arc;

use futures::TryStreamExt;
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::key::Key;
use lazybase_engine::manifest::{KeyRange, Run, RunKind, SegmentFormat, SegmentMeta};
use lazybase_engine::read::paths::segments_in;
use lazybase_engine::segment::{ReadCounters, RowLayout, Segment, SegmentWriter, WriteOptions};
use lazybase_engine::stages::merge::plan::{
    ExtentSummary, InputRun, MergePart, PlanStep, PlanTarget, SegmentSummary, plan_merge,
};
use lazybase_engine::stages::merge::{MergeMode, MergeShape, Merger, OutputSize, drive};
use lazybase_engine::ttl::Expiry;
use lazybase_model::{Error, Layout, Result, ScuNumber, Span};

use super::{Traffic, WorkerContext, sort};
use crate::settings::Settings;
use crate::task::Output;

mod sparse;

pub(super) async fn attempt(
    context: &WorkerContext,
    traffic: &Traffic,
    layout: &Arc<RowLayout>,
    range: &KeyRange,
    inputs: &[Arc<Run>],
    (kind, expiry): (RunKind, Option<&Expiry>),
) -> Result<Output> {
    let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else {
        return Err(Error::internal("a merge without inputs"));
    };
    let settings = &context.settings;
    let target = target_of(layout, kind, (expiry, settings));
    let opened = open_inputs(context, layout, range, inputs, expiry).await?;
    traffic.went_on();
    let options = settings.merge_options();
    let summaries: Vec<InputRun> = opened.iter().map(|run| summary(run, &options)).collect();
    let steps = plan_merge(&summaries, &target, range);
    drop(summaries);
    let mut attempt = Attempt {
        context,
        traffic,
        layout,
        target,
        options,
        inputs: opened,
        counters: Arc::default(),
        writer: None,
        segments: Vec::new(),
        expiry,
    };
    for step in steps {
        attempt.run(step).await?;
    }
    attempt.end_file().await?;
    traffic.read(attempt.counters.bytes_read());
    let changed = match expiry {
        // Rows that were dropped may still be there at any horizon before.
        Some(_) => Some(last.span.last),
        None => inputs.iter().map(|run| run.changes_through).max(),
    };
    Ok(Output::Merged {
        view: first.view,
        range: range.clone(),
        inputs: inputs.iter().map(|run| run.id).collect(),
        kind,
        span: Span {
            first: first.span.first,
            last: last.span.last,
        },
        changes_through: changed.unwrap_or(ScuNumber::ZERO),
        segments: attempt.segments,
    })
}

/// What the joined run is to be.
fn target_of(
    layout: &RowLayout,
    kind: RunKind,
    (expiry, settings): (Option<&Expiry>, &Settings),
) -> PlanTarget {
    let base = kind == RunKind::Base;
    let format = match layout.table.layout {
        Layout::Scan if base => SegmentFormat::Parquet,
        Layout::Scan | Layout::Point => SegmentFormat::Extent,
    };
    PlanTarget {
        mode: if base {
            MergeMode::Rows
        } else {
            MergeMode::Changes
        },
        format,
        copies_extents: true,
        move_bytes_min: settings.move_bytes_min(),
        // Whether rows have ended is seen on whole rows alone.
        sparse_part: (format == SegmentFormat::Parquet && expiry.is_none())
            .then_some(settings.sparse_part),
    }
}

async fn open_inputs(
    context: &WorkerContext,
    layout: &Arc<RowLayout>,
    range: &KeyRange,
    inputs: &[Arc<Run>],
    expiry: Option<&Expiry>,
) -> Result<Vec<Vec<Arc<Segment>>>> {
    let counters = ReadCounters::default();
    let mut opened = Vec::with_capacity(inputs.len());
    for run in inputs {
        let mut segments = Vec::new();
        for meta in segments_in(run, range) {
            // Of the base's rows nothing is left, whatever newer runs hold for their keys.
            if run.kind == RunKind::Base && expiry.is_some_and(|expiry| expiry.ends_all(meta)) {
                continue;
            }
            let segment = context
                .cache
                .open(&context.env, layout, meta, &counters)
                .await;
            segments.push(segment.map_err(|error| {
                error.with_detail(format!(
                    "table {:?}, view {}, SCUs {}",
                    layout.table.name, run.view, run.span
                ))
            })?);
        }
        opened.push(segments);
    }
    Ok(opened)
}

fn summary(segments: &[Arc<Segment>], options: &WriteOptions) -> InputRun {
    let of_segment = |segment: &Arc<Segment>| {
        let meta = segment.meta();
        let is_small = |rows: u32, raw_len: u32| {
            let is_group = meta.format == SegmentFormat::Parquet;
            is_group && options.is_small_group(rows as usize, raw_len as usize)
        };
        let extents = segment.extents().iter().map(|extent| ExtentSummary {
            min: Key::new(extent.min_key),
            max: Key::new(extent.max_key),
            all_upserts: extent.all_upserts,
            bytes: u64::from(extent.stored_len),
            rows: u64::from(extent.rows),
            is_small: is_small(extent.rows, extent.raw_len),
        });
        SegmentSummary {
            min: meta.min_key.clone(),
            max: meta.max_key.clone(),
            all_upserts: meta.all_upserts,
            format: meta.format,
            bytes: meta.bytes,
            extents: Some(extents.collect()),
            same_columns: segment.may_be_copied(),
        }
    };
    InputRun {
        segments: segments.iter().map(of_segment).collect(),
    }
}

/// One attempt on its way through the plan.
struct Attempt<'a> {
    context: &'a WorkerContext,
    traffic: &'a Traffic,
    layout: &'a Arc<RowLayout>,
    target: PlanTarget,
    /// How large what is written becomes.
    options: WriteOptions,
    inputs: Vec<Vec<Arc<Segment>>>,
    counters: Arc<ReadCounters>,
    writer: Option<SegmentWriter>,
    segments: Vec<Arc<SegmentMeta>>,
    expiry: Option<&'a Expiry>,
}

impl Attempt<'_> {
    async fn run(&mut self, step: PlanStep) -> Result<()> {
        match step {
            PlanStep::MoveSegment { input, segment } => {
                self.end_file().await?;
                self.segments
                    .push(Arc::clone(self.inputs[input][segment].meta()));
                Ok(())
            }
            PlanStep::CopyExtents {
                input,
                segment,
                extents,
            } => {
                let from = Arc::clone(&self.inputs[input][segment]);
                for extent in extents {
                    self.traffic.went_on();
                    let bytes = from.read_encoded(extent, &self.counters).await?;
                    self.writer()?.push_copied(bytes, from.meta()).await?;
                }
                Ok(())
            }
            PlanStep::Merge {
                parts,
                range,
                sparse: false,
            } => self.merge(&parts, &range).await,
            PlanStep::Merge {
                parts,
                range,
                sparse: true,
            } => self.merge_sparse(&parts, &range).await,
        }
    }

    async fn merge(&mut self, parts: &[MergePart], range: &KeyRange) -> Result<()> {
        let sources = self.sources(parts, range);
        self.merge_rows(sources, range).await
    }

    /// The rows of each input in a stretch, in key order.
    fn sources(
        &self,
        parts: &[MergePart],
        range: &KeyRange,
    ) -> Vec<BoxStream<'static, Result<ChangeBatch>>> {
        let of_inputs = parts.chunk_by(|a, b| a.input == b.input);
        of_inputs.map(|parts| self.source(parts, range)).collect()
    }

    /// Writes what these sources, older ones first, come to.
    async fn merge_rows(
        &mut self,
        sources: Vec<BoxStream<'static, Result<ChangeBatch>>>,
        range: &KeyRange,
    ) -> Result<()> {
        let shape = MergeShape::of(self.layout).within(range);
        let merger = Merger::new(
            &shape,
            sources.len(),
            self.target.mode,
            OutputSize::default(),
        )?;
        let mut merged = Box::pin(drive(merger, sources));
        while let Some(batch) = merged.try_next().await? {
            self.traffic.went_on();
            let batch = match self.expiry {
                Some(expiry) => expiry.keep_alive(batch)?,
                None => batch,
            };
            self.writer()?.push(batch).await?;
        }
        Ok(())
    }

    /// The rows of one input in a stretch, in key order.
    fn source(
        &self,
        parts: &[MergePart],
        range: &KeyRange,
    ) -> BoxStream<'static, Result<ChangeBatch>> {
        let places = self.places(parts);
        let counters = Arc::clone(&self.counters);
        let layout = Arc::clone(self.layout);
        let range = range.clone();
        stream::iter(places)
            .then(move |(segment, extent)| {
                let counters = Arc::clone(&counters);
                let layout = Arc::clone(&layout);
                let range = range.clone();
                async move {
                    let rows = segment.read_extent(extent, &counters).await?;
                    let (min, max) = (
                        segment.extents().min_key(extent),
                        segment.extents().max_key(extent),
                    );
                    match range.encloses(min, max) {
                        true => Ok(rows.as_ref().clone()),
                        false => rows.clip(&layout.codec, &range),
                    }
                }
            })
            .boxed()
    }

    /// The extents of some parts.
    fn places(&self, parts: &[MergePart]) -> Vec<(Arc<Segment>, usize)> {
        let of_part = |part: &MergePart| {
            let segment = Arc::clone(&self.inputs[part.input][part.segment]);
            let extents = part.extents.clone();
            let extents = extents.unwrap_or(0..segment.extents().len());
            extents.map(move |extent| (Arc::clone(&segment), extent))
        };
        parts.iter().flat_map(of_part).collect()
    }

    fn writer(&mut self) -> Result<&mut SegmentWriter> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => SegmentWriter::create(
                &self.context.env,
                self.layout,
                self.target.format,
                self.options,
            )?,
        };
        Ok(self.writer.insert(writer))
    }

    /// Ends the file at hand, so that the next segment follows it.
    async fn end_file(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let made = sort::finish(self.context, self.traffic, self.layout, writer).await?;
            self.segments.extend(made);
        }
        Ok(())
    }
}
