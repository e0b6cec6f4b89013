//! What Arrow's reader of record batches takes on trust, checked before it does: it slices, and
//! allocates, by the numbers of the message.
//!
//! Invariant IPC-1: no number of a message reaches past its body.

use arrow::error::ArrowError;
use arrow::ipc::RecordBatch;

/// The most buffers that a column of views names.
const VIEW_BUFFERS_MAX: i64 = 1 << 20;

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
    // Each value takes a bit at least.
    let values_max = (body_bytes as i64).saturating_mul(8);
    let mut nodes = batch.nodes().into_iter().flatten();
    let counts = |length: i64, nulls: i64| {
        (0..=values_max).contains(&length) && (0..=length).contains(&nulls)
    };
    match nodes.all(|node| counts(node.length(), node.null_count())) {
        true => Ok(()),
        false => wrong("a column has more values than its body holds"),
    }
}

/// The most bytes that an LZ4 block of so many bytes can stand for.
pub(crate) fn lz4_raw_bytes_max(block_bytes: usize) -> usize {
    block_bytes.saturating_mul(255).saturating_add(64)
}
