//! Sort: the batches of one SCU become a run for each view (section 3.3 of the paper: the sorting
//! stage).
//!
//! Reads: change batches in commit order. Writes: change batches sorted by key, the changes of a
//! key composed into one. Pure: no store, no clock. The caller splits what is larger than its
//! memory share into several runs; a read sorts what no stage has reached with the same kernel.
//!
//! 1. Small batches are joined, so that encoding and gathering work on long columns.
//! 2. Every change becomes a number (its key, or the key's first 16 bytes) and its place.
//! 3. If keys rise strictly already, the batches go on as they are.
//! 4. Otherwise numbers and places are sorted, by place where keys are equal.
//! 5. Rows are gathered in that order; the changes of one key are composed, oldest first.
//!
//! Invariant SORT-1: the outputs are a merge source: keys rise strictly, one change a key.

use std::sync::Arc;

use arrow::array::Array;
use lazybase_model::Result;

use crate::change_batch::gather::{Gather, Input};
use crate::change_batch::{ChangeBatch, Kinds};
use crate::env::planted::{Planted, is_planted};
use crate::segment::RowLayout;
use crate::stages::merge::compose::{Composer, Entry, push_single};
use crate::stages::merge::keys::{BatchKeys, KeyReader, Prefix, read_long};
use crate::stages::merge::{MergeMode, MergeShape, OutputSize};

#[cfg(test)]
mod tests;

/// Batches below this many rows are joined before they are sorted.
const SMALL_ROWS: usize = 1024;

/// Sorts the changes of a view's batches, older first, into batches that a segment writer or a
/// merge takes.
///
/// # Errors
/// `Invalid` when a key column's type has no order; `Corrupt` when hidden columns can't be decoded.
pub fn sort_changes(layout: &RowLayout, batches: &[ChangeBatch]) -> Result<Vec<ChangeBatch>> {
    sort_shaped(&MergeShape::of(layout), batches, OutputSize::default())
}

/// As [`sort_changes`], for batches of any shape (a projection) and outputs of any size.
///
/// # Errors
/// As [`sort_changes`].
pub fn sort_shaped(
    shape: &MergeShape,
    batches: &[ChangeBatch],
    size: OutputSize,
) -> Result<Vec<ChangeBatch>> {
    let inputs = inputs_of(batches, size)?;
    let holds_null = |column: usize| {
        let mut columns = inputs.iter().map(|input| input.batch.data.column(column));
        columns.any(|column| column.null_count() > 0)
    };
    match KeyReader::knowing(
        &shape.schema,
        &shape.key,
        shape.partitioner.as_ref(),
        holds_null,
    )? {
        KeyReader::Narrow(packer) => sort_inputs(shape, &inputs, size, |input| {
            packer.read::<u64>(&input.data)
        }),
        KeyReader::Wide(packer) => sort_inputs(shape, &inputs, size, |input| {
            packer.read::<u128>(&input.data)
        }),
        KeyReader::Long(codec) => {
            sort_inputs(shape, &inputs, size, |input| read_long(&codec, &input.data))
        }
    }
}

/// The batches that have rows, small neighbours joined.
fn inputs_of(batches: &[ChangeBatch], size: OutputSize) -> Result<Vec<Arc<Input>>> {
    let mut inputs = Vec::with_capacity(batches.len());
    let mut small: Vec<&ChangeBatch> = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    let join = |small: &mut Vec<&ChangeBatch>, inputs: &mut Vec<Arc<Input>>| -> Result<()> {
        match small[..] {
            [] => {}
            [only] => inputs.push(Input::new(only.clone())),
            _ => inputs.push(Input::new(ChangeBatch::concat(small)?)),
        }
        small.clear();
        Ok(())
    };
    for batch in batches.iter().filter(|batch| batch.rows() > 0) {
        let batch_bytes = batch.row_bytes() * batch.rows();
        let is_small = batch.rows() < SMALL_ROWS && batch_bytes < size.bytes / 4;
        if !is_small || rows >= size.rows || bytes >= size.bytes {
            join(&mut small, &mut inputs)?;
            (rows, bytes) = (0, 0);
        }
        match is_small {
            true => small.push(batch),
            false => inputs.push(Input::new(batch.clone())),
        }
        rows += batch.rows();
        bytes += batch_bytes;
    }
    join(&mut small, &mut inputs)?;
    Ok(inputs)
}

/// A change: the number of its key, and its place (input, then row).
type Item<P> = (P, u64);

fn place_of(input: usize, row: usize) -> u64 {
    (input as u64) << 32 | row as u64
}

fn input_and_row(place: u64) -> (usize, usize) {
    ((place >> 32) as usize, place as u32 as usize)
}

fn sort_inputs<P: Prefix>(
    shape: &MergeShape,
    inputs: &[Arc<Input>],
    size: OutputSize,
    read: impl Fn(&ChangeBatch) -> Result<BatchKeys<P>>,
) -> Result<Vec<ChangeBatch>> {
    let keys = inputs.iter().map(|input| read(&input.batch));
    let keys = keys.collect::<Result<Vec<BatchKeys<P>>>>()?;
    let mut items: Vec<Item<P>> = Vec::with_capacity(inputs.iter().map(|i| i.batch.rows()).sum());
    for (at, input) in inputs.iter().enumerate() {
        let prefixes = keys[at].prefixes.iter().enumerate();
        match has_pairs(&input.batch) {
            false => items.extend(prefixes.map(|(row, prefix)| (*prefix, place_of(at, row)))),
            true => items.extend(
                prefixes
                    .filter(|(row, _)| *row == 0 || !input.batch.kind(row - 1).is_split())
                    .map(|(row, prefix)| (*prefix, place_of(at, row))),
            ),
        }
    }
    let long = keys.first().is_some_and(|keys| keys.encoded.is_some());
    let compare = |a: &Item<P>, b: &Item<P>| {
        let ((a, a_row), (b, b_row)) = (input_and_row(a.1), input_and_row(b.1));
        keys[a].compare(a_row, &keys[b], b_row)
    };
    if long {
        if !items.is_sorted_by(|a, b| compare(a, b).is_lt()) {
            items.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| compare(a, b)));
        } else {
            return uncopied(shape, inputs, size);
        }
        gather(shape, inputs, size, &items, |a, b| {
            a.0 == b.0 && compare(a, b).is_eq()
        })
    } else {
        if items.is_sorted_by(|a, b| a.0 < b.0) {
            return uncopied(shape, inputs, size);
        }
        // Places rise with age, so this is the order of a stable sort by key.
        items.sort_unstable();
        if is_planted(Planted::SortPanics) {
            panic!("a sort that was to panic");
        }
        if is_planted(Planted::TieReversed) {
            items.sort_by_key(|item| (item.0, std::cmp::Reverse(item.1)));
        }
        gather(shape, inputs, size, &items, |a, b| a.0 == b.0)
    }
}

fn has_pairs(batch: &ChangeBatch) -> bool {
    match &batch.kinds {
        Kinds::Uniform(kind) => kind.is_split(),
        Kinds::Each(_) => !batch.all_upserts(),
    }
}

/// The rows of inputs that are in order, in batches of the right size.
fn uncopied(
    shape: &MergeShape,
    inputs: &[Arc<Input>],
    size: OutputSize,
) -> Result<Vec<ChangeBatch>> {
    let mut outputs = Vec::new();
    let mut out = Gather::new(shape.schema.clone(), MergeMode::Changes);
    for input in inputs {
        let rows = input.batch.rows();
        let most = (size.bytes / input.row_bytes).clamp(1, size.rows);
        let mut at = 0;
        while at < rows {
            let mut end = rows.min(at + most);
            if end < rows && input.batch.kind(end - 1).is_split() {
                end += 1;
            }
            // A whole output goes on as a view; what is smaller is joined with what follows.
            if end - at == most || out.rows() + (end - at) > size.rows {
                flush(&mut out, &mut outputs)?;
            }
            let number = out.input(input);
            out.push(number, at, end - at);
            at = end;
            if out.rows() >= size.rows || out.bytes() >= size.bytes {
                flush(&mut out, &mut outputs)?;
            }
        }
    }
    flush(&mut out, &mut outputs)?;
    Ok(outputs)
}

fn flush(out: &mut Gather, outputs: &mut Vec<ChangeBatch>) -> Result<()> {
    if out.rows() > 0 {
        outputs.push(out.finish()?);
    }
    Ok(())
}

/// Gathers the sorted items, those with the same key composed.
fn gather<P: Prefix>(
    shape: &MergeShape,
    inputs: &[Arc<Input>],
    size: OutputSize,
    items: &[Item<P>],
    same_key: impl Fn(&Item<P>, &Item<P>) -> bool,
) -> Result<Vec<ChangeBatch>> {
    const UNKNOWN: u32 = u32::MAX;
    let mut outputs = Vec::new();
    let operators = Arc::clone(&shape.operators);
    let mut out = Gather::combining(shape.schema.clone(), MergeMode::Changes, operators);
    let mut composer = Composer::new(MergeMode::Changes, shape);
    let mut entries = Vec::new();
    let mut numbers = vec![UNKNOWN; inputs.len()];
    for group in items.chunk_by(|a, b| same_key(a, b)) {
        let mut entry = |out: &mut Gather, item: &Item<P>| {
            let (input, row) = input_and_row(item.1);
            if numbers[input] == UNKNOWN {
                numbers[input] = out.input(&inputs[input]);
            }
            Entry {
                input: numbers[input],
                row: row as u32,
            }
        };
        let total = |item: &Item<P>| {
            let (input, row) = input_and_row(item.1);
            inputs[input].batch.kind(row).is_total()
        };
        match group {
            [.., only] if group.len() == 1 || total(only) => {
                let only = entry(&mut out, only);
                push_single(&mut out, MergeMode::Changes, only);
            }
            _ => {
                let start = group.iter().rposition(total).unwrap_or(0);
                entries.clear();
                entries.extend(group[start..].iter().map(|item| entry(&mut out, item)));
                composer.compose(&mut out, &entries)?;
            }
        }
        if out.rows() >= size.rows || out.bytes() >= size.bytes {
            flush(&mut out, &mut outputs)?;
            numbers.fill(UNKNOWN);
        }
    }
    flush(&mut out, &mut outputs)?;
    Ok(outputs)
}
