//! What was measured, and its summary by freshness asked; no I/O.

use std::collections::BTreeMap;

use lazybase_model::{SourceCounts, Stamp};
use serde::Serialize;

use super::questions::{LEVELS, Question};
use crate::figures::{as_micros, bytes, micros, quantile, thousands};
use crate::render::print_rows;

/// One answer.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Microseconds since the replay began, at the answer.
    pub(super) at_us: u64,
    pub(super) question: Question,
    /// Which of [`LEVELS`].
    pub(super) level: usize,
    pub(super) latency_us: u64,
    pub(super) staleness_us: u64,
    pub(super) left_out: u64,
    pub(super) sources: SourceCounts,
}

impl Sample {
    /// An answer with its stamp.
    pub(super) fn new(
        at_us: u64,
        question: Question,
        level: usize,
        latency_us: u64,
        stamp: &Stamp,
    ) -> Sample {
        Sample {
            at_us,
            question,
            level,
            latency_us,
            staleness_us: as_micros(stamp.staleness),
            left_out: stamp.batches_left_out,
            sources: stamp.sources,
        }
    }
}

/// The pipeline at one moment.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct PipelineSample {
    /// Microseconds since the replay began.
    pub(super) at_us: u64,
    /// Changes acknowledged so far.
    pub(super) changes: u64,
    /// Batches of the open SCU, about.
    pub(super) open_batches: u64,
    /// SCUs ingested, sorted, merged, in the authority.
    pub(super) scus: [u64; 4],
    /// How stale answers from each stage on are: sorted, merged, authority.
    pub(super) staleness_us: [u64; 3],
}

/// Answers of one freshness.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct LevelSummary {
    pub(super) asked: String,
    pub(super) queries: u64,
    pub(super) staleness_median_us: u64,
    pub(super) staleness_max_us: u64,
    pub(super) latency_median_us: u64,
    pub(super) latency_p99_us: u64,
    /// In how many answers each stage was read.
    pub(super) stages: BTreeMap<&'static str, u64>,
    /// Acknowledged batches that an answer left out.
    pub(super) left_out_median: u64,
    pub(super) bytes_median: u64,
    pub(super) bytes_total: u64,
    /// Median latency by question.
    pub(super) latency_by_question_us: BTreeMap<&'static str, u64>,
}

/// Sums up each freshness, stalest first.
pub(super) fn summarise(samples: &[Sample]) -> Vec<LevelSummary> {
    let levels = LEVELS.iter().enumerate();
    levels
        .map(|(level, asked)| {
            let of_level: Vec<&Sample> = samples
                .iter()
                .filter(|sample| sample.level == level)
                .collect();
            summarise_level(asked.to_string(), &of_level)
        })
        .collect()
}

fn summarise_level(asked: String, samples: &[&Sample]) -> LevelSummary {
    let collect = |value: fn(&Sample) -> u64| -> Vec<u64> {
        samples.iter().map(|sample| value(sample)).collect()
    };
    let mut staleness = collect(|sample| sample.staleness_us);
    let mut latency = collect(|sample| sample.latency_us);
    let mut left_out = collect(|sample| sample.left_out);
    let mut bytes = collect(|sample| sample.sources.bytes_read);
    let mut stages = BTreeMap::new();
    for stage in samples.iter().flat_map(|sample| sample.sources.stages()) {
        *stages.entry(stage.name()).or_default() += 1;
    }
    let mut by_question = BTreeMap::new();
    for question in Question::ALL {
        let of_question = samples.iter().filter(|sample| sample.question == question);
        let mut latencies: Vec<u64> = of_question.map(|sample| sample.latency_us).collect();
        by_question.insert(question.name(), quantile(&mut latencies, 0.5));
    }
    LevelSummary {
        asked,
        queries: samples.len() as u64,
        staleness_median_us: quantile(&mut staleness, 0.5),
        staleness_max_us: quantile(&mut staleness, 1.0),
        latency_median_us: quantile(&mut latency, 0.5),
        latency_p99_us: quantile(&mut latency, 0.99),
        stages,
        left_out_median: quantile(&mut left_out, 0.5),
        bytes_median: quantile(&mut bytes, 0.5),
        bytes_total: bytes.iter().sum(),
        latency_by_question_us: by_question,
    }
}

/// The headers of [`summary_rows`].
pub(super) const SUMMARY_HEADERS: [&str; 8] = [
    "asked",
    "queries",
    "stale by",
    "at most",
    "latency",
    "p99",
    "bytes read",
    "stages read",
];

/// The summary as cells of text.
pub(super) fn summary_rows(levels: &[LevelSummary]) -> Vec<Vec<String>> {
    levels
        .iter()
        .map(|level| {
            vec![
                level.asked.clone(),
                thousands(level.queries),
                micros(level.staleness_median_us),
                micros(level.staleness_max_us),
                micros(level.latency_median_us),
                micros(level.latency_p99_us),
                bytes(level.bytes_median),
                stages_text(level),
            ]
        })
        .collect()
}

/// The summary as an aligned table.
pub(super) fn summary_table(levels: &[LevelSummary]) -> String {
    let right = [false, true, true, true, true, true, true, false];
    print_rows(&SUMMARY_HEADERS, &right, &summary_rows(levels))
}

/// Stages in the order of the flow, each with the share of answers that read it.
fn stages_text(level: &LevelSummary) -> String {
    let flow = lazybase_model::Stage::ALL.into_iter().rev();
    let shares: Vec<String> = flow
        .filter_map(|stage| {
            let count = level.stages.get(stage.name())?;
            let percent = (count * 100).div_ceil(level.queries.max(1));
            Some(match percent {
                100 => stage.name().to_owned(),
                percent => format!("{} {percent}%", stage.name()),
            })
        })
        .collect();
    shares.join(", ")
}

#[cfg(test)]
mod tests;
