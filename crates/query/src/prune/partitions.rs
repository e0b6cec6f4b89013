//! Which partitions a predicate on the key can let pass, and the bounds on the key in each.
//!
//! Equality and IN on all columns of a hash rule choose its buckets; bounds on the columns of the
//! range rule choose its partitions. Partitions that were dropped are read too: a horizon of the
//! past may still see their rows, at newer ones they are empty.

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use lazybase_engine::key::{Key, KeyCodec, PartitionId, Partitioner, combinations};
use lazybase_engine::manifest::KeyRange;
use lazybase_model::partition::RangeBounds;
use lazybase_model::{Result, Table};

use super::{Access, Bounds, plain, product};

/// The partitions that are read, each by a stretch of its keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionAccess {
    /// The stretches, in the order of reading.
    pub(crate) ranges: Vec<KeyRange>,
    /// Whether rows that come in that order are sorted by the primary key.
    pub(crate) ordered: bool,
    /// How many of the partitions that take rows are read.
    pub(crate) read: usize,
    /// How many there are.
    pub(crate) all: usize,
    /// Whether the predicate bounds the keys inside partitions.
    pub(crate) bounded: bool,
}

/// The way to the rows of a partitioned table; one entry of `bounds` for each column of the key.
pub(super) fn access(
    table: &Table,
    partitioner: &Partitioner,
    bounds: &[Bounds],
) -> Result<Access> {
    let key = table.key_indices();
    if let Some(rows) = product(bounds) {
        return keys(table, partitioner, &columns_of(&rows, key.len())?);
    }
    let stretch = match plain(table, &key, bounds)? {
        Access::Range(range) => range,
        _ => return Ok(Access::Nothing),
    };
    let Some(rules) = &table.partitioning else {
        return Ok(Access::Range(stretch));
    };
    let place = |id: &lazybase_model::ColumnId| {
        let mut columns = table.primary.key.iter();
        columns.position(|column| column == id).unwrap_or(0)
    };
    let mut buckets: Vec<Vec<u16>> = Vec::new();
    for (at, rule) in rules.hash.iter().enumerate() {
        let of_rule: Vec<Bounds> = rule
            .columns
            .iter()
            .map(|id| bounds[place(id)].clone())
            .collect();
        buckets.push(match product(&of_rule) {
            None => (0..rule.buckets).collect(),
            Some(rows) => {
                let values = columns_of(&rows, rule.columns.len())?;
                let mut chosen = partitioner.buckets(at, &values)?;
                chosen.sort_unstable();
                chosen.dedup();
                chosen
            }
        });
    }
    let numbers = match &rules.range {
        None => vec![(None, false)],
        Some(rule) => {
            let places: Vec<usize> = rule.columns.iter().map(place).collect();
            let columns: Vec<usize> = places.iter().map(|at| key[*at]).collect();
            let of_rule: Vec<Bounds> = places.iter().map(|at| bounds[*at].clone()).collect();
            let wanted = plain(table, &columns, &of_rule)?;
            let partitions = rule.partitions.iter();
            partitions
                .filter(|partition| may_hold(&partition.bounds, &wanted))
                .map(|partition| (Some(partition.number), partition.dropped))
                .collect()
        }
    };
    let leading = rules.range.iter().flat_map(|rule| &rule.columns);
    let ordered = rules.hash.is_empty() && leading.zip(&table.primary.key).all(|(a, b)| a == b);
    Ok(partition_access(
        &buckets,
        &numbers,
        &stretch,
        ordered,
        rules.live_partitions(),
    ))
}

/// Full keys, in the order of the primary key.
fn keys(table: &Table, partitioner: &Partitioner, columns: &[ArrayRef]) -> Result<Access> {
    let encoded = KeyCodec::primary(table)?.encode_columns(columns)?;
    let mut keys: Vec<Key> = encoded
        .iter()
        .filter(|key| !partitioner.is_nowhere(key.as_ref()))
        .map(|key| Key::new(key.as_ref()))
        .collect();
    let prefix = partitioner.prefix_bytes();
    keys.sort_by(|a, b| a.as_bytes()[prefix..].cmp(&b.as_bytes()[prefix..]));
    keys.dedup();
    Ok(match keys.is_empty() {
        true => Access::Nothing,
        false => Access::Keys(keys),
    })
}

/// Whether a range partition may hold values that are wanted, encoded as its bounds are.
fn may_hold(bounds: &RangeBounds, wanted: &Access) -> bool {
    match wanted {
        Access::Nothing => false,
        Access::Keys(values) => values.iter().any(|value| bounds.contains(value.as_bytes())),
        Access::Range(range) => {
            let ends_before = match (&bounds.high, &range.low) {
                (Some(high), Some(low)) => match high.after {
                    true => high.value.0.as_slice() < low.as_bytes(),
                    false => high.value.0.as_slice() <= low.as_bytes(),
                },
                _ => false,
            };
            let begins_after = matches!((&bounds.low, &range.high), (Some(low), Some(high))
                if low.value.0.as_slice() >= high.as_bytes());
            !ends_before && !begins_after
        }
        Access::Partitions(_) => true,
    }
}

fn partition_access(
    buckets: &[Vec<u16>],
    numbers: &[(Option<u32>, bool)],
    stretch: &KeyRange,
    ordered: bool,
    all: usize,
) -> Access {
    let mut chosen: Vec<PartitionId> = Vec::new();
    let buckets = combinations(buckets);
    for buckets in &buckets {
        chosen.extend(numbers.iter().map(|(number, _)| PartitionId {
            buckets: buckets.clone(),
            range: *number,
        }));
    }
    if !ordered {
        chosen.sort();
    }
    if chosen.is_empty() {
        return Access::Nothing;
    }
    let live = numbers.iter().filter(|(_, dropped)| !dropped).count();
    let inside = |id: &PartitionId| {
        let prefix = id.prefix();
        let with = |key: &Key| Key::new([prefix.as_slice(), key.as_bytes()].concat());
        let whole = id.key_range();
        KeyRange {
            low: stretch.low.as_ref().map(with).or(whole.low),
            high: stretch.high.as_ref().map(with).or(whole.high),
        }
    };
    Access::Partitions(PartitionAccess {
        ranges: chosen.iter().map(inside).collect(),
        ordered,
        read: buckets.len() * live,
        all,
        bounded: *stretch != KeyRange::default(),
    })
}

/// Values as arrays, one a column.
pub(super) fn columns_of(rows: &[Vec<ScalarValue>], width: usize) -> Result<Vec<ArrayRef>> {
    (0..width)
        .map(|at| column_of(rows, at))
        .collect::<DataFusionResult<_>>()
        .map_err(|error| lazybase_model::Error::internal(error.to_string()))
}

/// One by one, for they are few: `ScalarValue::iter_to_array` would be compiled here, hundreds of
/// functions for all types that values may have.
fn column_of(rows: &[Vec<ScalarValue>], at: usize) -> DataFusionResult<ArrayRef> {
    let values = rows.iter().map(|row| row[at].to_array());
    let values = values.collect::<DataFusionResult<Vec<ArrayRef>>>()?;
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    Ok(concat(&values)?)
}
