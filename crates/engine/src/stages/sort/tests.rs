//! What sorting alone promises; that its results compose rightly is tested with the merge.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use super::*;
use crate::key::KeyCodec;
use crate::stages::merge::tests::scalar::shape;

fn upserts(keys: impl IntoIterator<Item = i64>) -> (MergeShape, ChangeBatch) {
    let shape = shape(&[DataType::Int64], &[DataType::Int64]);
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
    let columns = vec![keys.clone(), keys];
    let data = RecordBatch::try_new(shape.schema.clone(), columns).unwrap();
    (shape, ChangeBatch::upserts(data, 7))
}

fn keys(batches: &[ChangeBatch]) -> Vec<i64> {
    let values = |batch: &ChangeBatch| batch.data.column(1).as_primitive::<Int64Type>().clone();
    let values = batches.iter().map(values);
    values.flat_map(|column| column.values().to_vec()).collect()
}

#[test]
fn sorted_batches_go_on_as_they_are() {
    let (shape, batch) = upserts(0..20_000);
    let size = OutputSize::default();
    let sorted = sort_shaped(&shape, std::slice::from_ref(&batch), size).unwrap();
    assert_eq!(keys(&sorted), (0..20_000).collect::<Vec<i64>>());
    let lengths: Vec<usize> = sorted.iter().map(ChangeBatch::rows).collect();
    assert_eq!(lengths, [8192, 8192, 3616]);
    let place = |batch: &ChangeBatch| batch.data.column(0).to_data().buffers()[0].as_ptr();
    assert_eq!(place(&sorted[0]), place(&batch));
}

#[test]
fn many_small_batches_make_few_outputs() {
    let (shape, batch) = upserts((0..1000).rev());
    let rows: Vec<ChangeBatch> = (0..1000).map(|at| batch.slice(at, 1)).collect();
    let sorted = sort_shaped(&shape, &rows, OutputSize::default()).unwrap();
    assert_eq!(sorted.len(), 1);
    assert_eq!(keys(&sorted), (0..1000).collect::<Vec<i64>>());
}

#[test]
fn the_newest_upsert_of_a_key_stays() {
    let (shape, batch) = upserts([5, 3, 5, 3, 9]);
    let sorted = sort_shaped(&shape, &[batch.clone(), batch], OutputSize::default()).unwrap();
    assert_eq!(keys(&sorted), [3, 5, 9]);
}

#[test]
fn keys_that_may_hold_null_are_in_the_order_of_their_codec() {
    let fields = [DataType::Int32, DataType::Int64, DataType::Int32].into_iter();
    let fields = fields.zip(["a", "b", "c"]);
    let fields = fields.map(|(data_type, name)| Field::new(name, data_type, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let codec = KeyCodec::new(&schema, vec![0, 1, 2]).unwrap();
    for nulls in [false, true] {
        let batch = |first: i64| {
            let rows = (first..first + 3000).map(|row| row.wrapping_mul(0x1e37_79b9_7f4a_7c15));
            let rows: Vec<i64> = rows.collect();
            let null = |row: &i64| nulls && row % 7 == 0;
            let a = rows
                .iter()
                .map(|row| (!null(row)).then_some((row >> 60) as i32));
            let b = rows.iter().map(|row| Some(row >> 59));
            let c = rows.iter().map(|row| Some(*row as i32));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(a.collect::<Int32Array>()),
                Arc::new(b.collect::<Int64Array>()),
                Arc::new(c.collect::<Int32Array>()),
            ];
            let data = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
            ChangeBatch::upserts(data, 7)
        };
        let batches = [batch(0), batch(3000)];
        let shape = MergeShape {
            schema: Arc::clone(&schema),
            key: vec![0, 1, 2],
            partitioner: None,
            operators: Default::default(),
        };
        let sorted = sort_shaped(&shape, &batches, OutputSize::default()).unwrap();
        let encoded = |batch: &ChangeBatch| {
            let keys = codec.encode(&batch.data).unwrap();
            keys.iter()
                .map(|key| key.as_ref().to_vec())
                .collect::<Vec<_>>()
        };
        let mut expected: Vec<_> = batches.iter().flat_map(encoded).collect();
        expected.sort();
        assert_eq!(
            sorted.iter().flat_map(encoded).collect::<Vec<_>>(),
            expected
        );
    }
}
