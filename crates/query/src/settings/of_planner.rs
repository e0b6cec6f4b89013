//! DataFusion's settings that a session may set: those that change how an answer is found and not
//! what it is, each number within bounds. Beyond them a session could take all memory of the
//! server, or keep it from ending a statement. All others are only shown: LazyBase relies on their
//! values, or nothing here asks for them.
//!
//! Pure.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::thread::available_parallelism;

use lazybase_model::{Error, Result};

/// What values a setting may have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Values {
    /// Those that DataFusion takes: of a switch, or one of a few words.
    Words,
    /// The whole numbers from one to another.
    Numbers(u64, u64),
    /// The whole numbers from 1 to a few times the cores of the machine.
    Partitions,
}

/// The settings.
pub(super) const SETTABLE: [(&str, Values); 20] = [
    (
        "datafusion.execution.batch_size",
        Values::Numbers(1, 65_536),
    ),
    ("datafusion.execution.target_partitions", Values::Partitions),
    ("datafusion.explain.analyze_level", Values::Words),
    (
        "datafusion.optimizer.default_filter_selectivity",
        Values::Numbers(0, 100),
    ),
    (
        "datafusion.optimizer.enable_distinct_aggregation_soft_limit",
        Values::Words,
    ),
    (
        "datafusion.optimizer.enable_round_robin_repartition",
        Values::Words,
    ),
    (
        "datafusion.optimizer.enable_topk_aggregation",
        Values::Words,
    ),
    (
        "datafusion.optimizer.enable_topk_repartition",
        Values::Words,
    ),
    ("datafusion.optimizer.enable_window_limits", Values::Words),
    ("datafusion.optimizer.filter_null_join_keys", Values::Words),
    (
        "datafusion.optimizer.hash_join_single_partition_threshold",
        Values::Numbers(0, 1 << 30),
    ),
    (
        "datafusion.optimizer.hash_join_single_partition_threshold_rows",
        Values::Numbers(0, 1 << 30),
    ),
    ("datafusion.optimizer.join_reordering", Values::Words),
    ("datafusion.optimizer.prefer_existing_sort", Values::Words),
    ("datafusion.optimizer.prefer_hash_join", Values::Words),
    (
        "datafusion.optimizer.repartition_aggregations",
        Values::Words,
    ),
    ("datafusion.optimizer.repartition_joins", Values::Words),
    ("datafusion.optimizer.repartition_sorts", Values::Words),
    ("datafusion.optimizer.repartition_windows", Values::Words),
    (
        "datafusion.optimizer.top_down_join_key_reordering",
        Values::Words,
    ),
];

/// The most parts of a query for each core, and on machines with few cores.
const PARTITIONS_PER_CORE: u64 = 4;
const PARTITIONS_OF_FEW_CORES: u64 = 16;

impl Values {
    /// The least and the greatest number; none where the values are no numbers.
    pub(super) fn bounds(self) -> Option<RangeInclusive<u64>> {
        match self {
            Values::Words => None,
            Values::Numbers(least, greatest) => Some(least..=greatest),
            Values::Partitions => {
                let cores = available_parallelism().map_or(1, NonZeroUsize::get) as u64;
                let greatest = cores.saturating_mul(PARTITIONS_PER_CORE);
                Some(1..=greatest.max(PARTITIONS_OF_FEW_CORES))
            }
        }
    }
}

/// Refuses what a session may not set, and numbers beyond the bounds; no value stands for the
/// default.
///
/// # Errors
/// `Invalid`: 55P02 for a setting that is only shown, 22023 for a number beyond the bounds.
pub(super) fn check(name: &str, value: Option<&str>) -> Result<()> {
    let Some((_, values)) = SETTABLE.iter().find(|(known, _)| *known == name) else {
        return Err(Error::invalid(format!("{name} is fixed")).with_sqlstate("55P02"));
    };
    let (Some(bounds), Some(value)) = (values.bounds(), value) else {
        return Ok(());
    };
    match value.parse::<u64>() {
        Ok(number) if bounds.contains(&number) => Ok(()),
        _ => {
            let (least, greatest) = (bounds.start(), bounds.end());
            Err(Error::invalid(format!(
                "{name} is a whole number from {least} to {greatest}, not {value:?}"
            ))
            .with_sqlstate("22023"))
        }
    }
}
