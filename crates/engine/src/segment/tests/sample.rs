//! Tables and rows to store: every type, every kind of change.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, LargeStringArray, ListArray, RecordBatch, StringArray,
    StringViewArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt8Array,
    UInt32Array, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Field, Fields, Int32Type, IntervalMonthDayNano, IntervalUnit, TimeUnit,
};
use lazybase_model::change::StoredKind;
use lazybase_model::{Column, Table, TableId, ViewId};

use super::super::RowLayout;
use crate::change_batch::{ChangeBatch, Kinds, Scus};

pub(super) fn layout(columns: &[(&str, DataType)], key: &[usize]) -> Arc<RowLayout> {
    let columns = columns.iter();
    let columns = columns.map(|(name, data_type)| Column::new(*name, data_type.clone()));
    let table = Table::new(TableId(7), ViewId(7), "flights", columns.collect(), key);
    Arc::new(RowLayout::primary(&Arc::new(table)).unwrap())
}

/// Two columns: an integer key and text.
pub(super) fn narrow() -> Arc<RowLayout> {
    layout(&[("id", DataType::Int64), ("text", DataType::Utf8)], &[0])
}

/// Rows of `narrow` with these keys.
pub(super) fn narrow_rows(layout: &RowLayout, keys: &[i64], scu: u64) -> ChangeBatch {
    let text = keys.iter().map(|key| match key % 7 {
        0 => None,
        _ => Some(format!(
            "text of {key} {}",
            "x".repeat((*key * 31).rem_euclid(97) as usize)
        )),
    });
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys.to_vec())),
        Arc::new(text.collect::<StringArray>()),
    ];
    let data = RecordBatch::try_new(Arc::clone(&layout.schema), columns).unwrap();
    ChangeBatch::upserts(data, scu)
}

fn struct_fields() -> Fields {
    vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
    ]
    .into()
}

/// A table with a column of every type; the key is the second column, then the first.
pub(super) fn every_type() -> Arc<RowLayout> {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let utc: Arc<str> = "UTC".into();
    layout(
        &[
            ("key", DataType::Utf8),
            ("id", DataType::Int64),
            ("bool", DataType::Boolean),
            ("i8", DataType::Int8),
            ("i16", DataType::Int16),
            ("i32", DataType::Int32),
            ("u8", DataType::UInt8),
            ("u32", DataType::UInt32),
            ("u64", DataType::UInt64),
            ("f32", DataType::Float32),
            ("f64", DataType::Float64),
            ("decimal", DataType::Decimal128(20, 3)),
            ("large", DataType::LargeUtf8),
            ("view", DataType::Utf8View),
            ("binary", DataType::Binary),
            ("uuid", DataType::FixedSizeBinary(16)),
            ("date", DataType::Date32),
            ("time", DataType::Time64(TimeUnit::Microsecond)),
            ("stamp", DataType::Timestamp(TimeUnit::Microsecond, None)),
            (
                "stamptz",
                DataType::Timestamp(TimeUnit::Microsecond, Some(utc)),
            ),
            ("interval", DataType::Interval(IntervalUnit::MonthDayNano)),
            ("list", DataType::List(item)),
            ("struct", DataType::Struct(struct_fields())),
        ],
        &[1, 0],
    )
}

fn structs(rows: std::ops::Range<i64>) -> StructArray {
    let numbers: Int32Array = rows
        .clone()
        .map(|row| (row % 4 != 0).then_some(row as i32))
        .collect();
    let texts: StringArray = rows.clone().map(|row| Some(format!("s{row}"))).collect();
    let valid: NullBuffer = rows.map(|row| row % 5 != 0).collect::<Vec<bool>>().into();
    let columns: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(texts)];
    StructArray::new(struct_fields(), columns, Some(valid))
}

/// Rows of `every_type` with the keys `rows`, every third cell null.
pub(super) fn every_type_data(layout: &RowLayout, rows: std::ops::Range<i64>) -> RecordBatch {
    let some = |row: i64| (row % 3 != 0).then_some(row);
    let each = || rows.clone().map(some);
    let text = |row: i64| some(row).map(|row| format!("a text that is long enough {row}"));
    let blobs: Vec<Option<Vec<u8>>> = each()
        .map(|v| v.map(|v| v.to_be_bytes().repeat(2)))
        .collect();
    let lists = rows.clone().map(|row| {
        some(row).map(|row| (0..row % 4).map(|item| (item != 2).then_some(item as i32)))
    });
    let micros: Vec<Option<i64>> = each().collect();
    let interval = |row: i64| IntervalMonthDayNano::new(row as i32, 2, row * 1000);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            rows.clone()
                .map(|row| Some(format!("key {row:06}")))
                .collect::<StringArray>(),
        ),
        Arc::new(rows.clone().collect::<Int64Array>()),
        Arc::new(
            each()
                .map(|v| v.map(|v| v % 2 == 0))
                .collect::<BooleanArray>(),
        ),
        Arc::new(each().map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
        Arc::new(each().map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
        Arc::new(each().map(|v| v.map(|v| -v as i32)).collect::<Int32Array>()),
        Arc::new(each().map(|v| v.map(|v| v as u8)).collect::<UInt8Array>()),
        Arc::new(each().map(|v| v.map(|v| v as u32)).collect::<UInt32Array>()),
        Arc::new(each().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>()),
        Arc::new(
            each()
                .map(|v| v.map(|v| v as f32 / 3.0))
                .collect::<Float32Array>(),
        ),
        Arc::new(
            each()
                .map(|v| v.map(|v| v as f64 / 7.0))
                .collect::<Float64Array>(),
        ),
        Arc::new(
            each()
                .map(|v| v.map(|v| i128::from(v) * 1_000_003))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(20, 3)
                .unwrap(),
        ),
        Arc::new(rows.clone().map(text).collect::<LargeStringArray>()),
        Arc::new(rows.clone().map(text).collect::<StringViewArray>()),
        Arc::new(blobs.iter().map(|b| b.as_deref()).collect::<BinaryArray>()),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(blobs.iter().cloned(), 16)
                .unwrap(),
        ),
        Arc::new(each().map(|v| v.map(|v| v as i32)).collect::<Date32Array>()),
        Arc::new(Time64MicrosecondArray::from(micros.clone())),
        Arc::new(TimestampMicrosecondArray::from(micros.clone())),
        Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC")),
        Arc::new(
            each()
                .map(|v| v.map(interval))
                .collect::<IntervalMonthDayNanoArray>(),
        ),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        Arc::new(structs(rows.clone())),
    ];
    RecordBatch::try_new(Arc::clone(&layout.schema), columns).unwrap()
}

/// Rows of `every_type` with every kind of change, a split pair among them, and versions.
pub(super) fn every_kind(layout: &RowLayout) -> ChangeBatch {
    let once = every_type_data(layout, 0..5);
    let pair = every_type_data(layout, 5..6);
    let rest = every_type_data(layout, 6..40);
    let data =
        arrow::compute::concat_batches(&layout.schema, [&once, &pair, &pair, &rest]).unwrap();
    let kinds: Vec<u8> = (0..data.num_rows())
        .map(|row| match row {
            5 => StoredKind::SPLIT.bits(),
            6 => StoredKind::UPDATE.bits(),
            row => [0, 1, 2, 3][row % 4],
        })
        .collect();
    let mask = [0b1010_0011u8, 0b0000_0001, 0b0100_0000];
    let masks = kinds
        .iter()
        .map(|kind| (*kind == 1 || *kind == 3).then_some(&mask[..]));
    let versions = (0..kinds.len()).map(|row| (row % 6 == 1).then_some(&b"\x00\x03\x81\x01"[..]));
    ChangeBatch {
        masks: Some(masks.collect::<BinaryArray>()),
        column_scus: Some(versions.collect::<BinaryArray>()),
        scus: Scus::Each((0..kinds.len() as u64).map(|row| 100 + row % 3).collect()),
        kinds: Kinds::Each(UInt8Array::from(kinds)),
        data,
    }
}
