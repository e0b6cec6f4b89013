//! The bridge between change batches and the scalar algebra: rows of batches as
//! `lazybase_model::change::StoredRow`s and back, and random tables and changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray, UInt8Array,
    UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use lazybase_model::MergeOperator;
use lazybase_model::change::{Action, Cell, Change, Row, StoredKind, StoredRow, Version};
use proptest::prelude::*;

use crate::change_batch::{ChangeBatch, Kinds, Scus, masks};
use crate::stages::merge::{MergeShape, OutputSize, operators_of};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
}

pub(crate) type Key = Vec<Value>;
pub(crate) type Rows = BTreeMap<Key, Row<Value>>;
pub(crate) type Changes = BTreeMap<Key, Change<Value>>;

pub(crate) fn version(scu: u64) -> Version {
    Version {
        scu,
        time_micros: 0,
    }
}

impl lazybase_model::change::Value for Value {
    fn combine(&self, operator: MergeOperator, later: &Value) -> Value {
        match (operator, self, later) {
            (_, Value::Null, _) => later.clone(),
            (_, _, Value::Null) => self.clone(),
            (MergeOperator::Sum, Value::Int(a), Value::Int(b)) => Value::Int(a + b),
            (MergeOperator::Sum, ..) => panic!("a sum of texts"),
            // Of equal values either will do.
            (MergeOperator::Min, ..) => self.min(later).clone(),
            (MergeOperator::Max, ..) => self.max(later).clone(),
            (MergeOperator::First, ..) => self.clone(),
        }
    }
}

pub(crate) fn shape(key: &[DataType], values: &[DataType]) -> MergeShape {
    let values: Vec<_> = values.iter().map(|t| (t.clone(), None)).collect();
    combining(key, &values)
}

/// A table whose value columns may have merge operators.
pub(crate) fn combining(
    key: &[DataType],
    values: &[(DataType, Option<MergeOperator>)],
) -> MergeShape {
    let operators = values.iter().map(|(_, operator)| *operator);
    let operators = operators_of(operators.chain(key.iter().map(|_| None)));
    let keys = key.iter().enumerate();
    let keys = keys.map(|(at, t)| Field::new(format!("k{at}"), t.clone(), false));
    let values = values.iter().enumerate();
    let values = values.map(|(at, (t, _))| Field::new(format!("v{at}"), t.clone(), true));
    // Values first: a key need not be the first columns.
    let fields: Vec<Field> = values.chain(keys).collect();
    let width = fields.len();
    MergeShape {
        partitioner: None,
        schema: Arc::new(Schema::new(fields)),
        key: (width - key.len()..width).collect(),
        operators,
    }
}

fn column_of(data_type: &DataType, values: &[Value]) -> ArrayRef {
    match data_type {
        DataType::Utf8 => Arc::new(StringArray::from_iter(values.iter().map(
            |value| match value {
                Value::Text(text) => Some(text.clone()),
                _ => None,
            },
        ))),
        _ => {
            let ints = Int64Array::from_iter(values.iter().map(|value| match value {
                Value::Int(int) => Some(*int),
                _ => None,
            }));
            arrow::compute::cast(&ints, data_type).unwrap()
        }
    }
}

fn value_of(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Utf8 => Value::Text(column.as_string::<i32>().value(row).to_owned()),
        _ => {
            let ints = arrow::compute::cast(&column.slice(row, 1), &DataType::Int64).unwrap();
            Value::Int(ints.as_primitive::<Int64Type>().value(0))
        }
    }
}

/// The batch of these changes, each with its key and the SCU that a change without cells has.
pub(crate) fn batch_of(shape: &MergeShape, changes: &[(Key, Change<Value>, u64)]) -> ChangeBatch {
    let width = shape.schema.fields().len();
    let mut columns: Vec<Vec<Value>> = vec![Vec::new(); width];
    let (mut kinds, mut row_masks, mut scus, mut column_scus) = (vec![], vec![], vec![], vec![]);
    for (key, change, scu) in changes {
        for row in change.to_stored() {
            let row = row.padded(width);
            let newest = row
                .cells
                .iter()
                .flatten()
                .map(|cell| cell.version.scu)
                .max();
            let row_scu = newest.unwrap_or(*scu);
            let mut distances = Vec::new();
            for (at, column) in columns.iter_mut().enumerate() {
                let cell = row.cells[at].as_ref();
                column.push(match shape.key.iter().position(|place| *place == at) {
                    Some(part) => key[part].clone(),
                    None => cell.map_or(Value::Null, |cell| cell.value.clone()),
                });
                distances.push(cell.map_or(0, |cell| row_scu - cell.version.scu));
            }
            kinds.push(row.kind.bits());
            let combined: Vec<usize> = row.combines.keys().copied().collect();
            row_masks.push(row.sets.map(|sets| {
                let sets: Vec<usize> = sets.into_iter().collect();
                masks::mask_combining(&sets, &combined, width)
            }));
            scus.push(row_scu);
            column_scus.push(distances.iter().any(|d| *d > 0).then(|| {
                let mut bytes = Vec::new();
                masks::encode_distances(&distances, &mut bytes);
                bytes
            }));
        }
    }
    let fields = shape.schema.fields().iter().zip(&columns);
    let arrays = fields.map(|(field, values)| column_of(field.data_type(), values));
    let data = RecordBatch::try_new(shape.schema.clone(), arrays.collect()).unwrap();
    ChangeBatch {
        data,
        kinds: Kinds::Each(UInt8Array::from(kinds)),
        masks: Some(BinaryArray::from_iter(row_masks)),
        scus: Scus::Each(UInt64Array::from(scus)),
        column_scus: Some(BinaryArray::from_iter(column_scus)),
    }
    .settled()
}

pub(crate) fn key_at(shape: &MergeShape, batch: &ChangeBatch, row: usize) -> Key {
    let columns = shape.key.iter().map(|at| batch.data.column(*at));
    columns.map(|column| value_of(column, row)).collect()
}

/// One row of a batch as the model sees it; checks what the model can't express.
fn stored_row(shape: &MergeShape, batch: &ChangeBatch, row: usize) -> StoredRow<Value> {
    let width = shape.schema.fields().len();
    let kind = batch.kind(row);
    let has_mask = batch
        .masks
        .as_ref()
        .is_some_and(|masks| masks.is_valid(row));
    let sets: Option<BTreeSet<usize>> = has_mask.then(|| {
        masks::bits(batch.mask(row))
            .filter(|bit| *bit < width)
            .collect()
    });
    let mut distances = Vec::new();
    let encoded = batch.column_scus_of(row).unwrap_or_default();
    masks::decode_distances(encoded, width, &mut distances).unwrap();
    let carried = |at: &usize| kind.makes_row() || sets.as_ref().is_some_and(|s| s.contains(at));
    let cells = (0..width).map(|at| {
        let column = batch.data.column(at);
        if !carried(&at) {
            let is_key = shape.key.contains(&at);
            assert!(is_key || column.is_null(row), "a stray cell in column {at}");
            return None;
        }
        Some(Cell {
            value: value_of(column, row),
            version: version(batch.scu(row) - distances[at]),
        })
    });
    let cells: Vec<_> = cells.collect();
    let newest = |cell: &dyn Fn(usize) -> bool| {
        let cells = (0..width)
            .filter(|at| cell(*at))
            .filter_map(|at| cells[at].as_ref());
        cells.map(|cell| cell.version.scu).max()
    };
    let of_row = newest(&|_| true);
    let of_mask = newest(&|at| sets.as_ref().is_some_and(|sets| sets.contains(&at)));
    for newest in [of_row, of_mask].into_iter().flatten() {
        assert_eq!(newest, batch.scu(row), "CB-3 in row {row}");
    }
    let combined = |at: &usize| has_mask && masks::combines_column(batch.mask(row), *at, width);
    let combines = (0..width).filter(combined);
    let combines = combines.map(|at| (at, shape.operators[at].unwrap()));
    StoredRow {
        kind,
        sets,
        combines: combines.collect(),
        cells,
    }
}

/// The changes of sorted batches; checks that keys rise strictly and that no pair is torn.
pub(crate) fn changes_of(shape: &MergeShape, batches: &[ChangeBatch]) -> Changes {
    let mut changes = Changes::new();
    for batch in batches {
        assert!(batch.rows() > 0, "an output has rows");
        batch.check().unwrap();
        let mut row = 0;
        while row < batch.rows() {
            let count = 1 + usize::from(batch.kind(row).is_split());
            let rows: Vec<_> = (row..row + count)
                .map(|row| stored_row(shape, batch, row))
                .collect();
            let key = key_at(shape, batch, row);
            if let Some((last, _)) = changes.last_key_value() {
                assert!(*last < key, "{last:?} before {key:?}");
            }
            changes.insert(key, Change::from_stored(&rows).unwrap());
            row += count;
        }
    }
    changes
}

/// The rows of batches that hold nothing but plain rows.
pub(crate) fn rows_of(shape: &MergeShape, batches: &[ChangeBatch]) -> Rows {
    let plain = |batch: &ChangeBatch| {
        matches!(batch.kinds, Kinds::Uniform(StoredKind::UPSERT)) && batch.masks.is_none()
    };
    assert!(batches.iter().all(plain), "plain rows only");
    let changes = changes_of(shape, batches).into_iter();
    changes
        .map(|(key, change)| (key, change.apply(None).unwrap()))
        .collect()
}

/// What one writer asks for, before it has an SCU.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) key: u8,
    pub(crate) kind: u8,
    pub(crate) sets: u8,
    pub(crate) values: [u8; 4],
    pub(crate) others: [u8; 4],
}

pub(crate) fn op(keys: u8) -> impl Strategy<Value = Op> {
    let values = || prop::array::uniform4(0u8..4);
    (0..keys, 0u8..8, any::<u8>(), values(), values()).prop_map(
        |(key, kind, sets, values, others)| Op {
            key,
            kind,
            sets,
            values,
            others,
        },
    )
}

pub(crate) fn value(data_type: &DataType, number: u8) -> Value {
    match (number, data_type) {
        (0, _) => Value::Null,
        (_, DataType::Utf8) => Value::Text("value ".repeat(usize::from(number))),
        _ => Value::Int(i64::from(number) * 1000),
    }
}

/// A key that spreads over several columns, with texts that share their first 16 bytes.
fn key_value(data_type: &DataType, number: u8) -> Value {
    match data_type {
        DataType::Utf8 => {
            let text = [
                "",
                "a",
                "a common beginning, then ",
                "a common beginning, then \0",
            ];
            Value::Text(format!("{}{}", text[usize::from(number) % 4], number / 4))
        }
        _ => Value::Int(i64::from(number) - 3),
    }
}

impl Op {
    pub(crate) fn key(&self, schema: &SchemaRef, key: &[usize]) -> Key {
        let mut rest = self.key;
        let last = key.len() - 1;
        let parts = key.iter().enumerate().map(|(at, column)| {
            let number = if at == last { rest } else { rest % 3 };
            rest /= 3;
            key_value(schema.field(*column).data_type(), number)
        });
        parts.collect()
    }

    pub(crate) fn change(&self, shape: &MergeShape, scu: u64) -> (Key, Change<Value>, u64) {
        let width = shape.schema.fields().len();
        let key = self.key(&shape.schema, &shape.key);
        let cells = |values: &[u8; 4]| -> Vec<Cell<Value>> {
            let cell = |at: usize| {
                let field = shape.schema.field(at);
                let of_key = shape.key.iter().position(|place| *place == at);
                let of_key = of_key.map(|part| key[part].clone());
                Cell {
                    value: of_key.unwrap_or_else(|| value(field.data_type(), values[at % 4])),
                    version: version(scu),
                }
            };
            (0..width).map(cell).collect()
        };
        let row = Row::new(cells(&self.values));
        let columns = (0..width).filter(|at| self.sets >> at & 1 == 1);
        let others = cells(&self.others);
        let sets = columns.map(|at| {
            let cell = others[at].clone();
            match shape.operators.get(at).copied().flatten() {
                Some(operator) if self.kind >= 4 => (at, Action::Combine(operator, cell)),
                _ => (at, Action::Set(cell)),
            }
        });
        let sets = sets.collect();
        let change = match self.kind {
            0 => Change::upsert(row),
            1 => Change::insert(row, &shape.operators),
            2 => Change::delete(),
            3 | 4 => Change::update(sets),
            5 => Change::upsert_columns(sets, row),
            6 => Change::insert_if_absent(row),
            _ => Change::insert_or_update(row, sets),
        };
        (key, change, scu)
    }
}

/// A table: key and value columns in every form that kernels tell apart.
pub(crate) fn any_shape() -> impl Strategy<Value = MergeShape> {
    let key = prop::sample::select(vec![
        vec![DataType::Int64],
        vec![DataType::Int16],
        vec![DataType::Float64],
        vec![DataType::Int32, DataType::Int32],
        vec![DataType::Int64, DataType::Date32],
        vec![DataType::Utf8],
        vec![DataType::Utf8, DataType::Int64],
        vec![DataType::Int64, DataType::Int64, DataType::Int64],
    ]);
    let plain = || prop::sample::select(vec![DataType::Int64, DataType::Utf8, DataType::Int32]);
    let sum = (DataType::Decimal128(38, 0), Some(MergeOperator::Sum));
    let chosen = vec![MergeOperator::Min, MergeOperator::Max, MergeOperator::First];
    let any_type = prop_oneof![plain(), Just(DataType::Float64), Just(DataType::Date32)];
    let operator = prop_oneof![
        2 => plain().prop_map(|t| (t, None)),
        2 => Just(sum),
        3 => (any_type, prop::sample::select(chosen)).prop_map(|(t, o)| (t, Some(o))),
    ];
    let values = prop_oneof![
        1 => prop::collection::vec(plain().prop_map(|t| (t, None)), 0..4),
        1 => prop::collection::vec(operator, 1..6),
    ];
    (key, values).prop_map(|(key, values)| combining(&key, &values))
}

pub(crate) fn any_size() -> impl Strategy<Value = OutputSize> {
    let size = |(rows, bytes)| OutputSize { rows, bytes };
    (1usize..10, prop::sample::select(vec![1usize, 60, 1 << 20])).prop_map(size)
}

/// Cuts batches into pieces of these lengths, over and over, without tearing a pair.
pub(crate) fn recut(batches: &[ChangeBatch], lengths: &[usize]) -> Vec<ChangeBatch> {
    let mut lengths = lengths.iter().cycle();
    let mut pieces = Vec::new();
    for batch in batches {
        let mut at = 0;
        while at < batch.rows() {
            let mut end = batch.rows().min(at + lengths.next().unwrap());
            end += usize::from(batch.kind(end - 1).is_split());
            pieces.push(batch.slice(at, end - at));
            at = end;
        }
    }
    pieces
}
