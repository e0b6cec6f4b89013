//! What sorting alone promises; that its results compose rightly is tested with the merge.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};

use super::*;
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
