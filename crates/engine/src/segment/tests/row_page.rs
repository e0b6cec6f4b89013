//! Rows that are kept one behind the other are those of the batch that they come from.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, SchemaRef,
    TimestampMicrosecondType,
};
use lazybase_model::change::StoredKind;

use super::super::Cell;
use super::super::row_page::RowPage;
use super::sample::{every_type, every_type_data, narrow, narrow_rows};
use crate::change_batch::{ChangeBatch, Kinds};
use crate::key::{KeyCodec, Keys};

/// Rows of every type that is kept so, with NULL in every third cell, and their keys: so many of
/// the first columns.
fn kept_types(of_key: usize) -> (ChangeBatch, Keys) {
    let all = every_type();
    let rows = every_type_data(&all, 0..40);
    let is_kept = |at: &usize| {
        use DataType as T;
        !matches!(
            all.schema.field(*at).data_type(),
            T::LargeUtf8 | T::Utf8View | T::List(_) | T::Struct(_)
        )
    };
    let kept: Vec<usize> = (0..all.schema.fields().len()).filter(is_kept).collect();
    let rows = rows.project(&kept).unwrap();
    let codec = KeyCodec::new(&rows.schema(), (0..of_key).collect()).unwrap();
    let keys = codec.encode(&rows).unwrap();
    (ChangeBatch::upserts(rows, 9), keys)
}

fn page(rows: &ChangeBatch, keys: &Keys) -> Arc<RowPage> {
    Arc::new(RowPage::pack(rows, keys).unwrap())
}

#[test]
fn each_key_has_its_row_and_no_other_key_has_one() {
    for (rows, keys) in [kept_types(1), kept_types(2)] {
        let page = page(&rows, &keys);
        for row in 0..rows.rows() {
            let key = keys.row(row).data();
            let found = page.find(key).unwrap();
            assert_eq!(found.batch().unwrap(), rows.data.slice(row, 1));
            let longer = [key, b"\0"].concat();
            assert!(page.find(&longer).is_none());
            assert!(page.find(&key[..key.len() - 1]).is_none());
        }
        assert!(page.find(b"").is_none());
    }
}

#[test]
fn keys_may_differ_in_length() {
    let layout = super::sample::layout(&[("k", DataType::Utf8)], &[0]);
    let texts = [
        "",
        "a",
        "a text that is longer than a block of its key",
        "b",
    ];
    let column = Arc::new(arrow::array::StringArray::from(texts.to_vec()));
    let rows = RecordBatch::try_new(Arc::clone(&layout.schema), vec![column]).unwrap();
    let keys = layout.codec.encode(&rows).unwrap();
    let page = page(&ChangeBatch::upserts(rows.clone(), 1), &keys);
    for (row, text) in texts.iter().enumerate() {
        let found = page.find(keys.row(row).data()).unwrap();
        assert_eq!(found.cell(0), Cell::Text(text.as_bytes()));
    }
    assert!(page.memory_bytes() > texts.concat().len());
}

#[test]
fn a_cell_is_what_it_was_in_its_column() {
    let (rows, keys) = kept_types(1);
    let page = page(&rows, &keys);
    let schema: SchemaRef = rows.data.schema();
    for row in 0..rows.rows() {
        let found = page.find(keys.row(row).data()).unwrap();
        for (at, column) in rows.data.columns().iter().enumerate() {
            let cell = found.cell(at);
            assert_eq!(cell == Cell::Null, column.is_null(row), "{at}");
            if column.is_null(row) {
                continue;
            }
            let expected = match schema.field(at).data_type() {
                DataType::Boolean => Cell::Boolean(column.as_boolean().value(row)),
                DataType::Int16 => Cell::Int16(column.as_primitive::<Int16Type>().value(row)),
                DataType::Int32 => Cell::Int32(column.as_primitive::<Int32Type>().value(row)),
                DataType::Int64 => Cell::Int64(column.as_primitive::<Int64Type>().value(row)),
                DataType::Float32 => Cell::Float32(column.as_primitive::<Float32Type>().value(row)),
                DataType::Float64 => Cell::Float64(column.as_primitive::<Float64Type>().value(row)),
                DataType::Date32 => Cell::Date32(column.as_primitive::<Date32Type>().value(row)),
                DataType::Timestamp(..) => {
                    let moments = column.as_primitive::<TimestampMicrosecondType>();
                    Cell::TimestampMicros(moments.value(row))
                }
                DataType::Utf8 => Cell::Text(column.as_string::<i32>().value(row).as_bytes()),
                DataType::Binary => Cell::Binary(column.as_binary::<i32>().value(row)),
                _ => Cell::Other,
            };
            assert_eq!(cell, expected, "{at}");
        }
    }
}

#[test]
fn rows_of_a_slice_are_those_of_the_slice() {
    let layout = narrow();
    let rows = narrow_rows(&layout, &(0..20).collect::<Vec<i64>>(), 3).slice(7, 5);
    let keys = layout.codec.encode(&rows.data).unwrap();
    let page = page(&rows, &keys);
    for row in 0..5 {
        let found = page.find(keys.row(row).data()).unwrap();
        assert_eq!(found.batch().unwrap(), rows.data.slice(row, 1));
    }
}

#[test]
fn changes_and_nested_types_stay_in_columns() {
    let layout = every_type();
    let nested = every_type_data(&layout, 0..5);
    let keys = layout.codec.encode(&nested).unwrap();
    assert!(RowPage::pack(&ChangeBatch::upserts(nested, 1), &keys).is_none());
    let layout = narrow();
    for keys in [vec![], vec![1, 2]] {
        let rows = ChangeBatch {
            kinds: Kinds::Uniform(StoredKind::UPDATE),
            ..narrow_rows(&layout, &keys, 1)
        };
        let keys = layout.codec.encode(&rows.data).unwrap();
        assert!(RowPage::pack(&rows, &keys).is_none());
    }
}
