//! What Arrow's reader of record batches takes on trust, checked before it does: it slices, and
//! allocates, by the numbers of the message, and passes over columns that it finds.
//!
//! Invariant IPC-1: no number of a message reaches past its body. Invariant IPC-2: what is read as
//! stored columns is a message of just so many arrays and buffers as they have.

use arrow::datatypes::{DataType, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow::ipc::RecordBatch;

/// The most buffers that a column of views names.
const VIEW_BUFFERS_MAX: i64 = 1 << 20;

/// The most values of a column without a body: those of the type Null take none.
const BODILESS_VALUES_MAX: i64 = 1 << 20;

/// Checks the buffers and lengths of a record batch whose body has so many bytes.
///
/// # Errors
/// `IpcError` when a number says more than there is.
pub fn check_body(batch: &RecordBatch<'_>, body_bytes: usize) -> Result<(), ArrowError> {
    let wrong = |what: &str| Err(ArrowError::IpcError(what.to_owned()));
    let many = |count: i64| !(0..=VIEW_BUFFERS_MAX).contains(&count);
    let mut views = batch.variadicBufferCounts().into_iter().flatten();
    if batch.compression().is_some() || views.any(many) {
        return wrong("its body is of another kind");
    }
    let inside = |offset: i64, length: i64| {
        let end = offset.checked_add(length);
        offset >= 0 && length >= 0 && end.is_some_and(|end| end <= body_bytes as i64)
    };
    let mut buffers = batch.buffers().into_iter().flatten();
    if !buffers.all(|buffer| inside(buffer.offset(), buffer.length())) {
        return wrong("a buffer lies outside of its body");
    }
    // Each value takes a bit at least, but for those of columns that hold NULL alone.
    let values_max = (body_bytes as i64)
        .saturating_mul(8)
        .max(BODILESS_VALUES_MAX);
    let mut nodes = batch.nodes().into_iter().flatten();
    let counts = |length: i64, nulls: i64| {
        (0..=values_max).contains(&length) && (0..=length).contains(&nulls)
    };
    match nodes.all(|node| counts(node.length(), node.null_count())) {
        true => Ok(()),
        false => wrong("a column has more values than its body holds"),
    }
}

/// Checks that a record batch has as many arrays and buffers as columns of these types, all of them
/// such as tables store.
///
/// # Errors
/// `IpcError` when it has more, or fewer.
pub(crate) fn check_columns(batch: &RecordBatch<'_>, schema: &Schema) -> Result<(), ArrowError> {
    let counts: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
    let held = Parts {
        nodes: batch.nodes().map_or(0, |nodes| nodes.len()),
        buffers: batch.buffers().map_or(0, |buffers| buffers.len()),
        views: counts.len(),
    };
    let mut wanted = parts_of_all(schema.fields().iter().map(|field| field.data_type()));
    if let Some(parts) = &mut wanted {
        // IPC-1: none is negative, and none large.
        parts.buffers += counts.iter().map(|count| *count as usize).sum::<usize>();
    }
    match wanted == Some(held) {
        true => Ok(()),
        false => Err(ArrowError::IpcError(
            "it is not a batch of these columns".to_owned(),
        )),
    }
}

/// What of a message columns take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    nodes: usize,
    /// Without those that views point into.
    buffers: usize,
    /// Columns of views.
    views: usize,
}

impl Parts {
    fn of(buffers: usize) -> Parts {
        Parts {
            nodes: 1,
            buffers,
            views: 0,
        }
    }

    fn and(self, other: Parts) -> Parts {
        Parts {
            nodes: self.nodes + other.nodes,
            buffers: self.buffers + other.buffers,
            views: self.views + other.views,
        }
    }
}

/// What a column takes, where tables store such.
fn parts_of(data_type: &DataType) -> Option<Parts> {
    let (own, inner) = match data_type {
        // What can be said, and is no type.
        DataType::Time32(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        | DataType::Time64(TimeUnit::Second | TimeUnit::Millisecond)
        | DataType::FixedSizeBinary(i32::MIN..0)
        | DataType::FixedSizeList(_, i32::MIN..0) => return None,
        DataType::Null => (Parts::of(0), None),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            (Parts::of(3), None)
        }
        DataType::Utf8View | DataType::BinaryView => {
            let views = Parts::of(2).and(Parts {
                nodes: 0,
                buffers: 0,
                views: 1,
            });
            (views, None)
        }
        DataType::List(inner) | DataType::LargeList(inner) | DataType::Map(inner, _) => {
            (Parts::of(2), Some(inner))
        }
        DataType::FixedSizeList(inner, _) => (Parts::of(1), Some(inner)),
        DataType::Struct(fields) => {
            let inner = parts_of_all(fields.iter().map(|field| field.data_type()))?;
            (Parts::of(1).and(inner), None)
        }
        DataType::Boolean | DataType::FixedSizeBinary(_) => (Parts::of(2), None),
        primitive if primitive.is_primitive() => (Parts::of(2), None),
        _ => return None,
    };
    Some(match inner {
        Some(inner) => own.and(parts_of(inner.data_type())?),
        None => own,
    })
}

fn parts_of_all<'a>(data_types: impl Iterator<Item = &'a DataType>) -> Option<Parts> {
    let none = Parts {
        nodes: 0,
        buffers: 0,
        views: 0,
    };
    data_types
        .map(parts_of)
        .try_fold(none, |all, one| Some(all.and(one?)))
}

/// The most bytes that an LZ4 block of so many bytes can stand for.
pub(crate) fn lz4_raw_bytes_max(block_bytes: usize) -> usize {
    block_bytes.saturating_mul(255).saturating_add(64)
}
