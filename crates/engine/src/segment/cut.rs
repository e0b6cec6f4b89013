//! Where to cut rows into extents, and how to join batches that are too small for one.
//!
//! Pure. An extent aims at a number of bytes; rows are counted by the average of their batch, and
//! measured again where they vary. Invariant CB-1: a cut never tears a split pair.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt8Array, UInt64Array};
use arrow::array::{RecordBatch, new_null_array};
use arrow::compute::{concat, concat_batches};
use arrow::datatypes::DataType;
use lazybase_model::{Error, Result};

use crate::change_batch::{ChangeBatch, Kinds, Scus};

/// The bytes of rows `first..first + count` of a column, without what its slice drags along.
pub(super) fn array_bytes(array: &ArrayRef, first: usize, count: usize) -> usize {
    macro_rules! text {
        ($array:expr, $offset:ty) => {{
            let offsets = $array.value_offsets();
            (offsets[first + count] - offsets[first]) as usize + count * size_of::<$offset>()
        }};
    }
    macro_rules! views {
        ($array:expr) => {{
            let views = &$array.views()[first..first + count];
            views.iter().map(|view| *view as u32 as usize + 16).sum()
        }};
    }
    match array.data_type() {
        DataType::Utf8 => text!(array.as_string::<i32>(), i32),
        DataType::LargeUtf8 => text!(array.as_string::<i64>(), i64),
        DataType::Binary => text!(array.as_binary::<i32>(), i32),
        DataType::LargeBinary => text!(array.as_binary::<i64>(), i64),
        DataType::Utf8View => views!(array.as_string_view()),
        DataType::BinaryView => views!(array.as_binary_view()),
        DataType::FixedSizeBinary(width) => *width as usize * count,
        DataType::Boolean => count.div_ceil(8),
        DataType::Null => 0,
        DataType::Struct(_) => {
            let children = array.as_struct().columns().iter();
            children.map(|c| array_bytes(c, first, count)).sum()
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let (start, end) = (offsets[first] as usize, offsets[first + count] as usize);
            array_bytes(list.values(), start, end - start) + 4 * count
        }
        other => match other.primitive_width() {
            Some(width) => width * count,
            None => array
                .slice(first, count)
                .to_data()
                .get_slice_memory_size()
                .unwrap_or(0),
        },
    }
}

/// The bytes of rows `first..first + count`.
pub(super) fn rows_bytes(rows: &ChangeBatch, first: usize, count: usize) -> usize {
    let data = rows.data.columns().iter();
    let hidden = [&rows.masks, &rows.column_scus].into_iter().flatten();
    let hidden_bytes: usize = hidden
        .map(|column| {
            let offsets = column.value_offsets();
            (offsets[first + count] - offsets[first]) as usize + 4 * count
        })
        .sum();
    let kinds = usize::from(matches!(rows.kinds, Kinds::Each(_)));
    let scus = 8 * usize::from(matches!(rows.scus, Scus::Each(_)));
    data.map(|column| array_bytes(column, first, count))
        .sum::<usize>()
        + hidden_bytes
        + count * (kinds + scus)
}

/// The rows after which to cut, the last being the number of rows.
pub(super) fn cuts(rows: &ChangeBatch, target_bytes: usize) -> Vec<usize> {
    let count = rows.rows();
    let total = rows_bytes(rows, 0, count);
    let extents = (total + target_bytes / 2) / target_bytes;
    let step = count.div_ceil(extents.clamp(1, count.max(1)));
    let even = rows
        .data
        .columns()
        .iter()
        .all(|c| c.data_type().is_primitive());
    let mut ends = Vec::with_capacity(extents + 1);
    let mut start = 0;
    while start < count {
        let mut length = step.min(count - start);
        while !even && length > 1 && rows_bytes(rows, start, length) > 2 * target_bytes {
            length /= 2;
        }
        let mut end = start + length;
        if end < count && rows.kind(end - 1).is_split() {
            end += 1;
        }
        ends.push(end);
        start = end;
    }
    ends
}

/// The batches one after the other.
///
/// # Errors
/// `Internal` when they are not of one schema; `Invalid` when a column would pass 2 GiB.
pub(super) fn joined(batches: &[ChangeBatch]) -> Result<ChangeBatch> {
    if let [only] = batches {
        return Ok(only.clone());
    }
    let arrow = |error| Error::internal(format!("batches can't be joined: {error}"));
    let first = batches
        .first()
        .ok_or_else(|| Error::internal("no batch to join"))?;
    let data: Vec<&RecordBatch> = batches.iter().map(|batch| &batch.data).collect();
    Ok(ChangeBatch {
        data: concat_batches(first.data.schema_ref(), data).map_err(arrow)?,
        kinds: joined_kinds(batches),
        masks: joined_binary(batches, |batch| &batch.masks).map_err(arrow)?,
        scus: joined_scus(batches),
        column_scus: joined_binary(batches, |batch| &batch.column_scus).map_err(arrow)?,
    })
}

fn joined_kinds(batches: &[ChangeBatch]) -> Kinds {
    if let Kinds::Uniform(kind) = batches[0].kinds {
        let same = |batch: &ChangeBatch| matches!(batch.kinds, Kinds::Uniform(k) if k == kind);
        if batches.iter().all(same) {
            return Kinds::Uniform(kind);
        }
    }
    let mut all = Vec::new();
    for batch in batches {
        match &batch.kinds {
            Kinds::Uniform(kind) => all.resize(all.len() + batch.rows(), kind.bits()),
            Kinds::Each(kinds) => all.extend_from_slice(kinds.values()),
        }
    }
    Kinds::Each(UInt8Array::from(all))
}

fn joined_scus(batches: &[ChangeBatch]) -> Scus {
    if let Scus::Uniform(scu) = batches[0].scus {
        let same = |batch: &ChangeBatch| matches!(batch.scus, Scus::Uniform(s) if s == scu);
        if batches.iter().all(same) {
            return Scus::Uniform(scu);
        }
    }
    let mut all = Vec::new();
    for batch in batches {
        match &batch.scus {
            Scus::Uniform(scu) => all.resize(all.len() + batch.rows(), *scu),
            Scus::Each(scus) => all.extend_from_slice(scus.values()),
        }
    }
    Scus::Each(UInt64Array::from(all))
}

fn joined_binary(
    batches: &[ChangeBatch],
    column: fn(&ChangeBatch) -> &Option<BinaryArray>,
) -> Result<Option<BinaryArray>, arrow::error::ArrowError> {
    if batches.iter().all(|batch| column(batch).is_none()) {
        return Ok(None);
    }
    let parts: Vec<ArrayRef> = batches
        .iter()
        .map(|batch| match column(batch) {
            Some(values) => Arc::new(values.clone()) as ArrayRef,
            None => new_null_array(&DataType::Binary, batch.rows()),
        })
        .collect();
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(Some(concat(&parts)?.as_binary::<i32>().clone()))
}
