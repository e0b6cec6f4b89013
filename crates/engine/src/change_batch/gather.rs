//! Putting output batches together from rows of input batches.
//!
//! A [`Gather`] collects what the next output holds: stretches of input rows, taken whole, and
//! composed rows, which begin as one input row and have single cells from others. Nothing is
//! copied until [`Gather::finish`], which then works column by column: a column of one stretch of
//! which no cell comes from elsewhere is not copied at all, one of numbers is copied stretch by
//! stretch. What merge operators compute becomes an input of its own first (`combine`).
//!
//! Invariant G-1: an input is referenced only if a row of it is in the output, so that a batch of
//! which nothing stays is freed at once. Invariant G-2: what all inputs hold uniformly, and what
//! none of them holds, stays uniform or absent.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryBuilder, BooleanBufferBuilder, Capacities,
    MutableArrayData, NullArray, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt8Array,
    UInt64Array, downcast_primitive, downcast_primitive_array, make_array,
};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{ArrowNativeType, DataType, SchemaRef};
use lazybase_model::change::StoredKind;
use lazybase_model::{Error, Result};

use super::combine::{Stretched, resolve};
use super::{ChangeBatch, Kinds, Scus};
use crate::stages::merge::{MergeMode, Operators};

/// The mean stretch from which copying stretches beats copying rows, measured on wide rows.
const LONG_STRETCH: usize = 50;
/// The same of texts: what lies in one stretch is copied at once, and what a stretch costs by
/// itself is less than finding some of its rows one by one.
const LONG_TEXT_STRETCH: usize = 4;
/// So many rows of an output must come from an input on average where texts are copied by
/// stretches: each input is taken into its parts for that.
const TEXT_ROWS_PER_INPUT: usize = 32;
/// No head: a stretch of rows taken as they are.
const WHOLE: u32 = u32::MAX;

/// A batch that rows are taken from.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) batch: ChangeBatch,
    /// The mean size of a row, in bytes; never 0.
    pub(crate) row_bytes: usize,
}

impl Input {
    pub(crate) fn new(batch: ChangeBatch) -> Arc<Input> {
        let row_bytes = batch.row_bytes();
        Arc::new(Input { batch, row_bytes })
    }

    /// An input where nobody asks how large the output is.
    pub(crate) fn unmeasured(batch: ChangeBatch) -> Arc<Input> {
        let row_bytes = 1;
        Arc::new(Input { batch, row_bytes })
    }
}

/// Rows `start .. start + len` of an input; with a head, one composed row that begins as it.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    input: u32,
    start: u32,
    len: u32,
    head: u32,
}

/// The hidden values of a composed row, the last two as places in the arena.
#[derive(Debug, Clone)]
struct Head {
    kind: StoredKind,
    scu: u64,
    mask: Option<std::ops::Range<usize>>,
    column_scus: Option<std::ops::Range<usize>>,
}

/// The bit of an input's number that says: its cell is combined with what is there.
const COMBINED: u32 = 1 << 31;
/// The number of no input: the cell is null.
const BLANK: u32 = u32::MAX;

/// A cell of a composed row that comes from another row than the one it begins as. Those of one
/// cell follow each other, in the order in which they change it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patch {
    pub(super) row: u32,
    /// The number of an input, [`COMBINED`] with it, or [`BLANK`].
    input: u32,
    pub(super) source: u32,
}

/// What a patch does.
#[derive(Debug, Clone, Copy)]
pub(super) enum PatchAction {
    /// The cell becomes that of an input.
    Set(u32),
    /// The cell is combined with that of an input.
    Combine(u32),
    /// The cell is null.
    Blank,
}

impl Patch {
    pub(super) fn action(&self) -> PatchAction {
        match self.input {
            BLANK => PatchAction::Blank,
            input if input & COMBINED != 0 => PatchAction::Combine(input & !COMBINED),
            input => PatchAction::Set(input),
        }
    }

    /// The cell of row `row` becomes that of row `source` of `input`.
    pub(super) fn set(row: u32, input: u32, source: u32) -> Patch {
        Patch { row, input, source }
    }
}

/// The hidden values of a composed row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hidden<'a> {
    pub(crate) kind: StoredKind,
    pub(crate) scu: u64,
    pub(crate) mask: Option<&'a [u8]>,
    pub(crate) column_scus: Option<&'a [u8]>,
}

/// The rows of the next output batch.
#[derive(Debug)]
pub(crate) struct Gather {
    schema: SchemaRef,
    /// Says which hidden columns the output has.
    mode: MergeMode,
    /// By column; empty where no column has one.
    operators: Operators,
    inputs: Vec<Arc<Input>>,
    stretches: Vec<Stretch>,
    heads: Vec<Head>,
    arena: Vec<u8>,
    /// By column.
    patches: Vec<Vec<Patch>>,
    rows: usize,
    bytes: usize,
}

impl Gather {
    pub(crate) fn new(schema: SchemaRef, mode: MergeMode) -> Gather {
        Gather::combining(schema, mode, Operators::default())
    }

    /// A gather whose cells may be combined by the operators of their columns.
    pub(crate) fn combining(schema: SchemaRef, mode: MergeMode, operators: Operators) -> Gather {
        let patches = vec![Vec::new(); schema.fields().len()];
        Gather {
            schema,
            mode,
            operators,
            inputs: Vec::new(),
            stretches: Vec::new(),
            heads: Vec::new(),
            arena: Vec::new(),
            patches,
            rows: 0,
            bytes: 0,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The rows' size, estimated from the mean row of each input.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an input, for this output only: its number is void after the next finish.
    pub(crate) fn input(&mut self, input: &Arc<Input>) -> u32 {
        self.inputs.push(Arc::clone(input));
        (self.inputs.len() - 1) as u32
    }

    pub(crate) fn batch(&self, input: u32) -> &ChangeBatch {
        &self.inputs[input as usize].batch
    }

    /// Adds rows as they are. The caller keeps split pairs together.
    #[inline]
    pub(crate) fn push(&mut self, input: u32, start: usize, len: usize) {
        self.rows += len;
        self.bytes += len * self.inputs[input as usize].row_bytes;
        if let Some(last) = self.stretches.last_mut() {
            let follows = last.input == input && (last.start + last.len) as usize == start;
            if follows && last.head == WHOLE {
                last.len += len as u32;
                return;
            }
        }
        self.stretches.push(Stretch {
            input,
            start: start as u32,
            len: len as u32,
            head: WHOLE,
        });
    }

    /// Adds one composed row: row `row` of `input`, with these hidden values instead of its own.
    /// Cells from elsewhere follow through [`Gather::patch`].
    pub(crate) fn push_composed(&mut self, input: u32, row: u32, hidden: Hidden<'_>) {
        let mut keep = |bytes: &[u8]| {
            let start = self.arena.len();
            self.arena.extend_from_slice(bytes);
            start..self.arena.len()
        };
        let (mask, column_scus) = (hidden.mask.map(&mut keep), hidden.column_scus.map(keep));
        self.heads.push(Head {
            kind: hidden.kind,
            scu: hidden.scu,
            mask,
            column_scus,
        });
        self.stretches.push(Stretch {
            input,
            start: row,
            len: 1,
            head: (self.heads.len() - 1) as u32,
        });
        self.rows += 1;
        self.bytes += self.inputs[input as usize].row_bytes;
    }

    /// The cell of `column` in the row added last comes from row `source` of `input`.
    pub(crate) fn patch(&mut self, column: usize, input: u32, source: u32) {
        self.patches[column].push(Patch {
            row: (self.rows - 1) as u32,
            input,
            source,
        });
    }

    /// The cell of `column` in the row added last is combined with that of row `source` of `input`.
    pub(crate) fn combine(&mut self, column: usize, input: u32, source: u32) {
        self.patch(column, input | COMBINED, source);
    }

    /// The cell of `column` in the row added last is null.
    pub(crate) fn blank(&mut self, column: usize) {
        self.patch(column, BLANK, 0);
    }

    /// The batch of all rows added since the last finish, none of which remain.
    ///
    /// # Errors
    /// `Internal` when the inputs' columns are not of the schema's types, or hold too much text
    /// for one column.
    pub(crate) fn finish(&mut self) -> Result<ChangeBatch> {
        let batch = match self.stretches[..] {
            [only] if only.head == WHOLE && !self.any_patch() => {
                let whole = &self.inputs[only.input as usize].batch;
                Ok(self.view(whole, only.start as usize, only.len as usize))
            }
            _ => self.copy(),
        };
        self.inputs.clear();
        self.stretches.clear();
        self.heads.clear();
        self.arena.clear();
        self.patches.iter_mut().for_each(Vec::clear);
        (self.rows, self.bytes) = (0, 0);
        batch
    }

    fn any_patch(&self) -> bool {
        self.patches.iter().any(|patches| !patches.is_empty())
    }

    /// Rows of a batch, with the hidden columns of the output, without copying.
    pub(crate) fn view(&self, batch: &ChangeBatch, start: usize, rows: usize) -> ChangeBatch {
        let mut view = batch.slice(start, rows);
        if self.mode.makes_rows() {
            view.kinds = Kinds::Uniform(StoredKind::UPSERT);
            view.masks = None;
        }
        if self.mode == MergeMode::Values {
            view.scus = Scus::Uniform(0);
            view.column_scus = None;
        }
        view.settled()
    }

    fn copy(&self) -> Result<ChangeBatch> {
        let picks = OnceCell::new();
        let columns = (0..self.schema.fields().len()).map(|column| {
            // A column that is left out (`stages::merge::patch`).
            if *self.schema.field(column).data_type() == DataType::Null {
                return Ok(Arc::new(NullArray::new(self.rows)) as ArrayRef);
            }
            let mut arrays: Vec<&dyn Array> = self
                .inputs
                .iter()
                .map(|input| input.batch.data.column(column).as_ref())
                .collect();
            let resolved = self.resolved(column, &arrays)?;
            let mut patches = &self.patches[column];
            if let Some((plain, computed)) = &resolved {
                patches = plain;
                arrays.push(computed.as_ref());
            }
            match (&self.stretches[..], patches.is_empty()) {
                ([only], true) => {
                    let rows = (only.start as usize, only.len as usize);
                    return Ok(arrays[only.input as usize].slice(rows.0, rows.1));
                }
                (_, true) if self.has_long_stretches(column) => {
                    return self.copy_stretches(&arrays);
                }
                _ => {}
            }
            let width = self.schema.field(column).data_type().primitive_width();
            match width {
                Some(1) => self.copy_numbers::<u8>(&arrays, patches),
                Some(2) => self.copy_numbers::<u16>(&arrays, patches),
                Some(4) => self.copy_numbers::<u32>(&arrays, patches),
                Some(8) => self.copy_numbers::<u64>(&arrays, patches),
                Some(16) => self.copy_numbers::<u128>(&arrays, patches),
                _ => {
                    let picks = picks.get_or_init(|| self.picks());
                    match patches.is_empty() {
                        true => interleave(&arrays, picks).map_err(gathering),
                        false => interleave(&arrays, &patched(picks, patches)).map_err(gathering),
                    }
                }
            }
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let schema = Arc::clone(&self.schema);
        let data =
            RecordBatch::try_new_with_options(schema, columns, &options).map_err(gathering)?;
        Ok(ChangeBatch {
            data,
            kinds: self.kinds(),
            masks: self.masks(),
            scus: self.scus(),
            column_scus: self.column_scus(),
        })
    }

    /// Whether a column is copied stretch by stretch, and not row by row.
    fn has_long_stretches(&self, column: usize) -> bool {
        let is_text = matches!(
            self.schema.field(column).data_type(),
            DataType::Utf8 | DataType::Binary
        );
        let few_inputs = self.rows >= TEXT_ROWS_PER_INPUT * self.inputs.len();
        let long = match is_text && few_inputs {
            true => LONG_TEXT_STRETCH,
            false => LONG_STRETCH,
        };
        self.rows >= long * self.stretches.len()
    }

    /// The patches of a column of which some combine or blank, as patches that set alone, and the
    /// cells that they name beyond those of the inputs.
    fn resolved(
        &self,
        column: usize,
        arrays: &[&dyn Array],
    ) -> Result<Option<(Vec<Patch>, ArrayRef)>> {
        let patches = &self.patches[column];
        if self.operators.is_empty() || patches.iter().all(|patch| patch.input & COMBINED == 0) {
            return Ok(None);
        }
        let stretches = self.stretches.iter().map(|stretch| Stretched {
            input: stretch.input,
            start: stretch.start,
            len: stretch.len,
        });
        let operator = self.operators.get(column).copied().flatten();
        resolve(operator, arrays, patches, stretches).map(Some)
    }

    /// A column whose values are numbers of one size: stretches first, then the cells that come
    /// from elsewhere.
    fn copy_numbers<T: ArrowNativeType>(
        &self,
        arrays: &[&dyn Array],
        patches: &[Patch],
    ) -> Result<ArrayRef> {
        let numbers: Vec<ScalarBuffer<T>> = arrays.iter().map(|array| numbers_of(*array)).collect();
        let mut column = Vec::with_capacity(self.rows);
        let numbers: Vec<&[T]> = numbers.iter().map(|numbers| &numbers[..]).collect();
        for stretch in &self.stretches {
            let (numbers, start) = (numbers[stretch.input as usize], stretch.start as usize);
            // A sort takes rows one by one: a call to copy each of them would cost more.
            match stretch.len {
                1 => column.push(numbers[start]),
                rows => column.extend_from_slice(&numbers[start..start + rows as usize]),
            }
        }
        for patch in patches {
            column[patch.row as usize] = numbers[patch.input as usize][patch.source as usize];
        }
        let data_type = arrays.first().map(|array| array.data_type().clone());
        let nulls = self.copy_nulls(arrays, patches);
        column_of(
            data_type.unwrap_or(DataType::Null),
            Buffer::from_vec(column),
            nulls,
        )
    }

    /// Which cells of a column are null, if any is.
    fn copy_nulls(&self, arrays: &[&dyn Array], patches: &[Patch]) -> Option<NullBuffer> {
        let nulls: Vec<Option<&NullBuffer>> = arrays
            .iter()
            .map(|array| array.nulls().filter(|nulls| nulls.null_count() > 0))
            .collect();
        if nulls.iter().all(Option::is_none) {
            return None;
        }
        let mut valid = BooleanBufferBuilder::new(self.rows);
        for stretch in &self.stretches {
            let (start, rows) = (stretch.start as usize, stretch.len as usize);
            match nulls[stretch.input as usize] {
                None => valid.append_n(rows, true),
                Some(nulls) if rows == 1 => valid.append(nulls.is_valid(start)),
                Some(nulls) => valid.append_buffer(&nulls.inner().slice(start, rows)),
            }
        }
        for patch in patches {
            let source = patch.source as usize;
            let is_valid = nulls[patch.input as usize].is_none_or(|nulls| nulls.is_valid(source));
            valid.set_bit(patch.row as usize, is_valid);
        }
        Some(NullBuffer::new(valid.finish())).filter(|nulls| nulls.null_count() > 0)
    }

    /// Where each output row begins, as `interleave` wants it.
    fn picks(&self) -> Vec<(usize, usize)> {
        let mut picks = Vec::with_capacity(self.rows);
        for stretch in &self.stretches {
            let (input, start) = (stretch.input as usize, stretch.start as usize);
            picks.extend((start..start + stretch.len as usize).map(|row| (input, row)));
        }
        picks
    }

    fn copy_stretches(&self, arrays: &[&dyn Array]) -> Result<ArrayRef> {
        let data: Vec<_> = arrays.iter().map(|array| array.to_data()).collect();
        let capacities = match self.schema_is_text(arrays) {
            true => Capacities::Binary(self.rows, Some(self.text_bytes(arrays))),
            false => Capacities::Array(self.rows),
        };
        let mut column =
            MutableArrayData::with_capacities(data.iter().collect(), false, capacities);
        for stretch in &self.stretches {
            let start = stretch.start as usize;
            let copied =
                column.try_extend(stretch.input as usize, start, start + stretch.len as usize);
            copied.map_err(gathering)?;
        }
        Ok(make_array(column.freeze()))
    }

    fn schema_is_text(&self, arrays: &[&dyn Array]) -> bool {
        arrays
            .first()
            .is_some_and(|array| matches!(array.data_type(), DataType::Utf8 | DataType::Binary))
    }

    /// How many bytes the stretches of a text column hold.
    fn text_bytes(&self, arrays: &[&dyn Array]) -> usize {
        let offsets: Vec<&[i32]> = arrays.iter().map(|array| text_offsets(*array)).collect();
        let bytes = self.stretches.iter().map(|stretch| {
            let offsets = offsets[stretch.input as usize];
            let (start, end) = (
                stretch.start as usize,
                (stretch.start + stretch.len) as usize,
            );
            (offsets[end] - offsets[start]) as usize
        });
        bytes.sum()
    }

    fn kinds(&self) -> Kinds {
        if self.mode.makes_rows() {
            return Kinds::Uniform(StoredKind::UPSERT);
        }
        let of_inputs = self.inputs.iter().map(|input| match input.batch.kinds {
            Kinds::Uniform(kind) => Some(kind),
            Kinds::Each(_) => None,
        });
        let of_heads = self.heads.iter().map(|head| Some(head.kind));
        if let Some(kind) = one_value(of_inputs.chain(of_heads)) {
            return Kinds::Uniform(kind);
        }
        let mut kinds = Vec::with_capacity(self.rows);
        for stretch in &self.stretches {
            let rows = stretch.start as usize..(stretch.start + stretch.len) as usize;
            match (self.head(stretch), &self.batch(stretch.input).kinds) {
                (Some(head), _) => kinds.push(head.kind.bits()),
                (None, Kinds::Uniform(kind)) => {
                    kinds.extend(std::iter::repeat_n(kind.bits(), rows.len()));
                }
                (None, Kinds::Each(each)) => kinds.extend_from_slice(&each.values()[rows]),
            }
        }
        settled_kinds(UInt8Array::from(kinds))
    }

    fn scus(&self) -> Scus {
        if self.mode == MergeMode::Values {
            return Scus::Uniform(0);
        }
        let of_inputs = self.inputs.iter().map(|input| match input.batch.scus {
            Scus::Uniform(scu) => Some(scu),
            Scus::Each(_) => None,
        });
        let of_heads = self.heads.iter().map(|head| Some(head.scu));
        if let Some(scu) = one_value(of_inputs.chain(of_heads)) {
            return Scus::Uniform(scu);
        }
        let mut scus = Vec::with_capacity(self.rows);
        for stretch in &self.stretches {
            let rows = stretch.start as usize..(stretch.start + stretch.len) as usize;
            match (self.head(stretch), &self.batch(stretch.input).scus) {
                (Some(head), _) => scus.push(head.scu),
                (None, Scus::Uniform(scu)) => scus.extend(std::iter::repeat_n(*scu, rows.len())),
                (None, Scus::Each(each)) => scus.extend_from_slice(&each.values()[rows]),
            }
        }
        settled_scus(UInt64Array::from(scus))
    }

    fn masks(&self) -> Option<BinaryArray> {
        if self.mode.makes_rows() {
            return None;
        }
        self.hidden(|batch| batch.masks.as_ref(), |head| head.mask.as_ref())
    }

    fn column_scus(&self) -> Option<BinaryArray> {
        if self.mode == MergeMode::Values {
            return None;
        }
        self.hidden(
            |batch| batch.column_scus.as_ref(),
            |head| head.column_scus.as_ref(),
        )
    }

    /// A hidden column of bytes, if any output row has a value in it.
    fn hidden(
        &self,
        of_batch: impl Fn(&ChangeBatch) -> Option<&BinaryArray>,
        of_head: impl Fn(&Head) -> Option<&std::ops::Range<usize>>,
    ) -> Option<BinaryArray> {
        let columns: Vec<Option<&BinaryArray>> = self
            .inputs
            .iter()
            .map(|input| of_batch(&input.batch))
            .collect();
        let any_head = self.heads.iter().any(|head| of_head(head).is_some());
        if !any_head && columns.iter().all(Option::is_none) {
            return None;
        }
        let mut values = BinaryBuilder::with_capacity(self.rows, self.rows);
        for stretch in &self.stretches {
            match (self.head(stretch), columns[stretch.input as usize]) {
                (Some(head), _) => {
                    values.append_option(of_head(head).map(|place| &self.arena[place.clone()]));
                }
                (None, None) => values.append_nulls(stretch.len as usize),
                (None, Some(column)) => {
                    let rows = column.slice(stretch.start as usize, stretch.len as usize);
                    rows.iter().for_each(|value| values.append_option(value));
                }
            }
        }
        settled_bytes(values.finish())
    }

    fn head(&self, stretch: &Stretch) -> Option<&Head> {
        (stretch.head != WHOLE).then(|| &self.heads[stretch.head as usize])
    }
}

/// The values of a column of numbers, without the parts that an array can be taken into.
fn numbers_of<T: ArrowNativeType>(array: &dyn Array) -> ScalarBuffer<T> {
    downcast_primitive_array! {
        array => ScalarBuffer::new(array.values().inner().clone(), 0, array.len()),
        _ => {
            let data = array.to_data();
            ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
        }
    }
}

/// A column of numbers of a type.
fn column_of(data_type: DataType, numbers: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    macro_rules! primitive {
        ($kind:ty, $data_type:expr, $numbers:expr, $nulls:expr) => {
            PrimitiveArray::<$kind>::try_new(ScalarBuffer::from($numbers), $nulls)
                .map(|column| Arc::new(column.with_data_type($data_type)) as ArrayRef)
                .map_err(gathering)
        };
    }
    downcast_primitive! {
        data_type => (primitive, data_type, numbers, nulls),
        other => Err(Error::internal(format!("a column of type {other} is no column of numbers"))),
    }
}

/// `kinds`, kept once if all are equal.
pub(super) fn settled_kinds(kinds: UInt8Array) -> Kinds {
    match one_value(kinds.values().iter().map(|kind| Some(*kind))) {
        Some(kind) => Kinds::Uniform(StoredKind::from_checked(kind)),
        None => Kinds::Each(kinds),
    }
}

/// `scus`, kept once if all are equal.
pub(super) fn settled_scus(scus: UInt64Array) -> Scus {
    match one_value(scus.values().iter().map(|scu| Some(*scu))) {
        Some(scu) => Scus::Uniform(scu),
        None => Scus::Each(scus),
    }
}

/// `column`, unless it is all null.
pub(super) fn settled_bytes(column: BinaryArray) -> Option<BinaryArray> {
    (column.null_count() < column.len()).then_some(column)
}

/// The value that all items have, if there are items and they have one.
fn one_value<T: PartialEq>(mut values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = values.next()??;
    values
        .all(|value| value.as_ref() == Some(&first))
        .then_some(first)
}

fn patched(picks: &[(usize, usize)], patches: &[Patch]) -> Vec<(usize, usize)> {
    let mut picks = picks.to_vec();
    for patch in patches {
        picks[patch.row as usize] = (patch.input as usize, patch.source as usize);
    }
    picks
}

/// The offsets of a text or binary column.
fn text_offsets(array: &dyn Array) -> &[i32] {
    use arrow::array::AsArray;
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value_offsets(),
        _ => array.as_binary::<i32>().value_offsets(),
    }
}

pub(super) fn gathering(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows can't be gathered: {error}"))
}
