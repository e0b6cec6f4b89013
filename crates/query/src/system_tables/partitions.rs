//! `lazybase.partitions`: every partition of every partitioned table that takes rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use lazybase_engine::key::{PartitionId, Partitioner};
use lazybase_engine::manifest::{KeyRange, Manifest, Run, TableState};
use lazybase_engine::read::paths::segments_in;
use lazybase_model::partition::{RangeBound, RangeBounds};
use lazybase_model::{Result, Table};

use super::{Columns, texts};
use crate::definition::{identifier, literal};

/// One partition, as it is shown.
struct Row {
    table: String,
    buckets: Option<String>,
    range: Option<String>,
    ranges: u64,
    stored_rows: u64,
    bytes: u64,
}

/// The rows of the table.
pub(super) fn rows(manifest: &Manifest) -> Result<Columns> {
    let mut rows = Vec::new();
    for state in manifest.tables.values() {
        rows.extend(of_table(manifest, state)?);
    }
    let counts = |count: fn(&Row) -> u64| {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(count))) as ArrayRef
    };
    Ok(vec![
        (
            "table_name",
            texts(rows.iter().map(|row| Some(row.table.clone()))),
        ),
        ("buckets", texts(rows.iter().map(|row| row.buckets.clone()))),
        ("range", texts(rows.iter().map(|row| row.range.clone()))),
        ("key_ranges", counts(|row| row.ranges)),
        ("stored_rows", counts(|row| row.stored_rows)),
        ("bytes", counts(|row| row.bytes)),
    ])
}

fn of_table(manifest: &Manifest, state: &TableState) -> Result<Vec<Row>> {
    let table = &state.table;
    let Some(partitioner) = Partitioner::of(table)? else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for id in partitioner.partitions() {
        let bounds = match id.range {
            None => None,
            Some(number) => {
                let mut partitions = partitioner.range_partitions().into_iter().flatten();
                match partitions.find(|(of, dropped, _)| *of == number && !dropped) {
                    Some((_, _, bounds)) => Some(in_words(&partitioner, bounds)?),
                    None => continue,
                }
            }
        };
        rows.push(row(manifest, state, &id, bounds));
    }
    Ok(rows)
}

/// What the runs hold for a partition. A segment that reaches over several counts in equal parts.
fn row(manifest: &Manifest, state: &TableState, id: &PartitionId, range: Option<String>) -> Row {
    let stretch = id.key_range();
    let (mut ranges, mut stored_rows, mut bytes) = (0, 0, 0);
    for of_partition in state.ranges.iter().filter(|of| stretch.meets(&of.range)) {
        ranges += 1;
        let current = of_partition.runs.iter().filter(|entry| entry.is_current());
        let runs = current.filter_map(|entry| manifest.runs.get(&entry.id));
        for (rows, of_run) in runs.map(|run| share(run, state, &of_partition.range)) {
            stored_rows += rows;
            bytes += of_run;
        }
    }
    let buckets: Vec<String> = id.buckets.iter().map(u16::to_string).collect();
    Row {
        table: state.table.name.clone(),
        buckets: (!buckets.is_empty()).then(|| buckets.join(", ")),
        range,
        ranges,
        stored_rows,
        bytes,
    }
}

fn share(run: &Run, state: &TableState, range: &KeyRange) -> (u64, u64) {
    let segments = segments_in(run, range).iter().map(|segment| {
        let ends = |key| {
            let ranges = &state.ranges;
            ranges.partition_point(|of| of.range.low.as_ref().is_none_or(|low| low <= key))
        };
        let over = (1 + ends(&segment.max_key) - ends(&segment.min_key)) as u64;
        (segment.rows / over, segment.bytes / over)
    });
    segments.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

/// The bounds of a range partition as CREATE TABLE takes them.
fn in_words(partitioner: &Partitioner, bounds: &RangeBounds) -> Result<String> {
    let value = |bound: &RangeBound| -> Result<String> {
        let columns = partitioner.decode_range(&bound.value.0)?;
        let cells: Vec<String> = columns.iter().map(literal).collect();
        Ok(match cells.as_slice() {
            [only] => only.clone(),
            several => format!("({})", several.join(", ")),
        })
    };
    if let (Some(low), Some(high)) = (&bounds.low, &bounds.high)
        && low.value == high.value
    {
        return Ok(format!("VALUE = {}", value(low)?));
    }
    let mut words = String::new();
    if let Some(low) = &bounds.low {
        let sign = if low.after { "<" } else { "<=" };
        words += &format!("{} {sign} ", value(low)?);
    }
    words += "VALUES";
    if let Some(high) = &bounds.high {
        let sign = if high.after { "<=" } else { "<" };
        words += &format!(" {sign} {}", value(high)?);
    }
    Ok(words)
}

/// The definition of a table's partitions, as CREATE TABLE takes it.
pub(crate) fn definition(table: &Table) -> Result<Option<String>> {
    let (Some(partitioner), Some(rules)) = (Partitioner::of(table)?, &table.partitioning) else {
        return Ok(None);
    };
    let names = |ids: &[lazybase_model::ColumnId]| {
        let named = |id: &lazybase_model::ColumnId| {
            let mut columns = table.columns.iter();
            columns
                .find(|column| column.id == *id)
                .map(|column| identifier(&column.name))
        };
        ids.iter().filter_map(named).collect::<Vec<_>>().join(", ")
    };
    let mut words: Vec<String> = rules
        .hash
        .iter()
        .map(|rule| {
            format!(
                "HASH ({}) PARTITIONS {}",
                names(&rule.columns),
                rule.buckets
            )
        })
        .collect();
    if let Some(rule) = &rules.range {
        let bounds = rule.live().map(|of| in_words(&partitioner, &of.bounds));
        let bounds = bounds.collect::<Result<Vec<_>>>()?.into_iter();
        let bounds: Vec<String> = bounds.map(|words| format!("PARTITION {words}")).collect();
        words.push(format!(
            "RANGE ({}) ({})",
            names(&rule.columns),
            bounds.join(", ")
        ));
    }
    Ok(Some(words.join(", ")))
}
