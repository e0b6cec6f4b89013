//! Taking, joining and projecting batches, compared row by row.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;

use super::*;
use crate::key::Key;
use crate::stages::merge::OutputSize;
use crate::stages::merge::tests::scalar::{Op, any_shape, batch_of, changes_of, op};
use crate::stages::sort::sort_shaped;

/// Rows as text: everything that a batch says about them.
fn rows(batch: &ChangeBatch) -> Vec<String> {
    let scus = (0..batch.data.num_columns()).map(|at| batch.scus_of_column(at).unwrap());
    let scus: Vec<_> = scus.collect();
    let row = |row: usize| {
        let columns = batch.data.columns().iter().zip(&scus);
        let cell = |(column, scus): (&ArrayRef, &UInt64Array)| {
            let value = array_value_to_string(column, row).unwrap();
            format!("{value:?}{}@{}", column.is_null(row), scus.value(row))
        };
        let cells: Vec<String> = columns.map(cell).collect();
        let mask: Vec<usize> = masks::bits(batch.mask(row)).collect();
        format!(
            "{:?} {mask:?} {} {cells:?}",
            batch.kind(row),
            batch.scu(row)
        )
    };
    (0..batch.rows()).map(row).collect()
}

fn any_batch() -> impl Strategy<Value = (Vec<Op>, u64)> {
    (prop::collection::vec(op(60), 1..40), 1u64..1000)
}

proptest! {
    #[test]
    fn interleaving_takes_the_rows_named(
        shape in any_shape(),
        stories in prop::collection::vec(any_batch(), 1..4),
        picks in prop::collection::vec((any::<u16>(), any::<u16>(), 1u32..4), 0..200),
        long in any::<bool>(),
    ) {
        let batches: Vec<ChangeBatch> = stories
            .iter()
            .map(|(ops, scu)| {
                let changes: Vec<_> = ops.iter().map(|op| op.change(&shape, *scu)).collect();
                batch_of(&shape, &changes)
            })
            .collect();
        let inputs: Vec<&ChangeBatch> = batches.iter().collect();
        let picks: Vec<(u32, u32)> = picks
            .iter()
            .flat_map(|(input, row, count)| {
                let input = usize::from(*input) % inputs.len();
                let rows = inputs[input].rows() as u32;
                let start = u32::from(*row) % rows;
                let end = rows.min(start + if long { rows } else { *count });
                (start..end).map(move |row| (input as u32, row))
            })
            .collect();
        let texts: Vec<Vec<String>> = batches.iter().map(rows).collect();
        let text = |(input, at): &(u32, u32)| texts[*input as usize][*at as usize].clone();
        let named: Vec<String> = picks.iter().map(text).collect();
        let taken = ChangeBatch::interleave(&inputs, &picks).unwrap();
        prop_assert_eq!(rows(&taken), named);
        let all = ChangeBatch::concat(&inputs).unwrap();
        prop_assert_eq!(rows(&all), texts.concat());
        let places: Vec<u32> = picks.iter().map(|(_, at)| *at % inputs[0].rows() as u32).collect();
        let named: Vec<String> = places.iter().map(|at| text(&(0, *at))).collect();
        let taken = inputs[0].take(&UInt32Array::from(places)).unwrap();
        prop_assert_eq!(rows(&taken), named);
    }

    #[test]
    fn texts_are_copied_whatever_the_length_of_their_stretches(
        texts in prop::collection::vec(prop::option::of("[a-z\u{e4}\u{20ac}]{0,20}"), 60..200),
        cut in 0usize..20,
        stretches in prop::collection::vec((any::<bool>(), any::<u16>(), 1u32..12), 1..60),
    ) {
        // Inputs that begin inside of their buffers.
        let column: ArrayRef = Arc::new(StringArray::from(texts.clone()));
        let (first, second) = texts[cut..].split_at((texts.len() - cut) / 2);
        let batch = |start: usize, rows: usize| {
            let columns = [("a", column.slice(start, rows), true)];
            let data = RecordBatch::try_from_iter_with_nullable(columns);
            ChangeBatch::upserts(data.unwrap(), 1)
        };
        let inputs = [batch(cut, first.len()), batch(cut + first.len(), second.len())];
        let texts = [first, second];
        let picks: Vec<(u32, u32)> = stretches
            .iter()
            .flat_map(|(input, start, count)| {
                let input = u32::from(*input);
                let rows = texts[input as usize].len() as u32;
                let start = u32::from(*start) % rows;
                (start..rows.min(start + count)).map(move |row| (input, row))
            })
            .collect();
        let taken = ChangeBatch::interleave(&[&inputs[0], &inputs[1]], &picks).unwrap();
        let taken = taken.data.column(0).as_string::<i32>();
        let named = picks.iter().map(|(input, row)| &texts[*input as usize][*row as usize]);
        prop_assert!(taken.iter().eq(named.map(Option::as_deref)));
    }

    #[test]
    fn distances_are_read_as_written(distances in prop::collection::vec(any::<u64>(), 0..20)) {
        let (mut bytes, mut read) = (Vec::new(), vec![7]);
        masks::encode_distances(&distances, &mut bytes);
        masks::decode_distances(&bytes, distances.len() + 2, &mut read).unwrap();
        prop_assert_eq!(&read[1..=distances.len()], &distances[..]);
        prop_assert_eq!(&read[distances.len() + 1..], &[0, 0]);
    }
}

/// A column of whole numbers of a type, and how far they reach.
fn whole_numbers(data_type: &DataType, numbers: &[u8]) -> ArrayRef {
    // Around zero, and where the type ends.
    let wide = |number: &u8| match (number % 4, i64::from(*number / 4)) {
        (0, near) => near,
        (1, near) => -near,
        (2, near) => i64::from(i32::MAX) - near,
        (_, near) => i64::from(i32::MIN) + near,
    };
    let numbers = numbers.iter().map(|number| match data_type {
        DataType::Int8 | DataType::Int16 => i64::from(*number as i8),
        DataType::UInt8 | DataType::UInt16 => i64::from(*number),
        DataType::UInt32 | DataType::UInt64 => wide(number).unsigned_abs() as i64,
        _ => wide(number),
    });
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    let numbers = match data_type {
        DataType::Date32 | DataType::Time32(_) => cast(&numbers, &DataType::Int32).unwrap(),
        _ => numbers,
    };
    cast(&numbers, data_type).unwrap()
}

fn whole_number_type() -> impl Strategy<Value = DataType> {
    use arrow::datatypes::TimeUnit::{Microsecond, Millisecond};
    prop::sample::select(vec![
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(Millisecond),
        DataType::Time64(Microsecond),
        DataType::Timestamp(Microsecond, None),
        DataType::Timestamp(Millisecond, Some("+00:00".into())),
        DataType::Duration(Microsecond),
    ])
}

/// Whatever bounds there are: keys, their beginnings, what lies behind them, and anything else.
fn any_bound() -> impl Strategy<Value = (u16, usize, Vec<u8>)> {
    let behind = prop_oneof![
        2 => Just(Vec::new()),
        1 => Just(vec![0]),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    (
        any::<u16>(),
        prop_oneof![3 => Just(32_usize), 1 => 0_usize..20],
        behind,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whole_numbers_are_clipped_as_their_encoded_keys_are(
        types in prop::collection::vec(whole_number_type(), 1..4),
        rows in prop::collection::vec(any::<[u8; 3]>(), 1..200),
        skipped in 0_usize..3,
        bounds in prop::collection::vec(any_bound(), 1..10),
    ) {
        let column = |(at, data_type): (usize, &DataType)| {
            let numbers: Vec<u8> = rows.iter().map(|row| row[at]).collect();
            (format!("k{at}"), whole_numbers(data_type, &numbers))
        };
        let data = RecordBatch::try_from_iter(types.iter().enumerate().map(column)).unwrap();
        let codec = KeyCodec::new(&data.schema(), (0..types.len()).collect()).unwrap();
        let keys = codec.encode(&data).unwrap();
        let mut order: Vec<u32> = (0..data.num_rows() as u32).collect();
        order.sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
        let sorted = take_record_batch(&data, &UInt32Array::from(order)).unwrap();
        // Columns that begin inside of their buffers.
        let skipped = skipped.min(sorted.num_rows() - 1);
        let sorted = sorted.slice(skipped, sorted.num_rows() - skipped);
        let keys = codec.encode(&sorted).unwrap();
        let batch = ChangeBatch::upserts(sorted, 1);
        prop_assert!(codec.numbers(&batch.data).is_some());
        for (row, length, behind) in bounds {
            let key = keys.row(usize::from(row) % keys.num_rows());
            let key = key.data();
            let bound = [&key[..length.min(key.len())], behind.as_slice()].concat();
            let below = (0..keys.num_rows()).filter(|row| keys.row(*row).data() < bound.as_slice());
            let below = below.count();
            let bound = Some(Key::new(bound));
            let under = KeyRange { low: None, high: bound.clone() };
            let from = KeyRange { low: bound, high: None };
            prop_assert_eq!(&batch.clip(&codec, &under).unwrap().data, &batch.data.slice(0, below));
            let rest = batch.data.slice(below, batch.rows() - below);
            prop_assert_eq!(&batch.clip(&codec, &from).unwrap().data, &rest);
        }
    }

    #[test]
    fn one_projection_shows_each_batch_as_one_of_its_own_would(
        shape in any_shape(),
        stories in prop::collection::vec(any_batch(), 1..4),
        chosen in any::<u8>(),
    ) {
        let width = shape.schema.fields().len();
        let columns: Vec<usize> = (0..width).filter(|at| chosen >> at & 1 == 1).collect();
        let projection = Projection::new(&shape.schema, columns.clone()).unwrap();
        prop_assert_eq!(&projection.columns()[..], &columns[..]);
        for (ops, scu) in stories {
            let changes: Vec<_> = ops.iter().map(|op| op.change(&shape, scu)).collect();
            let batch = batch_of(&shape, &changes);
            let seen = projection.of(&batch).unwrap();
            prop_assert!(Arc::ptr_eq(seen.data.schema_ref(), projection.schema()));
            prop_assert_eq!(rows(&seen), rows(&batch.project(&columns).unwrap()));
            // As a batch has its columns, whatever the projection was told.
            let nullable = shape.schema.fields().iter();
            let nullable = nullable.map(|field| field.as_ref().clone().with_nullable(true));
            let nullable = Arc::new(Schema::new(nullable.collect::<Vec<_>>()));
            let data = RecordBatch::try_new(nullable, batch.data.columns().to_vec()).unwrap();
            let other = ChangeBatch { data, ..batch };
            let seen_other = projection.of(&other).unwrap();
            let fields = seen_other.data.schema();
            prop_assert!(fields.fields().iter().all(|field| field.is_nullable()));
            prop_assert_eq!(rows(&seen_other), rows(&seen));
        }
    }
}

proptest! {
    #[test]
    fn rows_that_are_clipped_first_are_shown_as_those_that_are_clipped_last(
        shape in any_shape(),
        (ops, scu) in any_batch(),
        chosen in any::<u8>(),
        (low, high) in (any::<Option<u16>>(), any::<Option<u16>>()),
    ) {
        let width = shape.schema.fields().len();
        let columns: Vec<usize> = (0..width)
            .filter(|at| shape.key.contains(at) || chosen >> at & 1 == 1)
            .collect();
        let changes: Vec<_> = ops.iter().map(|op| op.change(&shape, scu)).collect();
        let unsorted = [batch_of(&shape, &changes)];
        let sorted = sort_shaped(&shape, &unsorted, OutputSize::default()).unwrap();
        let narrow = shape.project(&columns).unwrap();
        let codec = KeyCodec::new(&narrow.schema, narrow.key.clone()).unwrap();
        let projection = Projection::new(&shape.schema, columns).unwrap();
        for batch in sorted {
            let seen = projection.of(&batch).unwrap();
            let keys = codec.encode(&seen.data).unwrap();
            let bound = |row: u16| {
                let key = keys.row(usize::from(row) % keys.num_rows());
                Key::new(key.data())
            };
            let range = KeyRange { low: low.map(bound), high: high.map(bound) };
            let clipped = projection.clipped(&batch, &codec, &range).unwrap();
            let expected = seen.clip(&codec, &range).unwrap();
            prop_assert_eq!(rows(&clipped), rows(&expected));
            prop_assert_eq!(clipped.data.schema_ref(), projection.schema());
        }
    }
}

fn numbered(keys: impl IntoIterator<Item = i64>) -> ChangeBatch {
    let keys: Vec<i64> = keys.into_iter().collect();
    let fields = vec![
        Field::new("k", DataType::Int64, false),
        Field::new("a", DataType::Utf8, true),
        Field::new("b", DataType::Int64, true),
    ];
    let texts = StringArray::from_iter_values(keys.iter().map(|key| format!("text {key}")));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
    let columns = vec![keys.clone(), Arc::new(texts), keys];
    let data = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    ChangeBatch::upserts(data, 5)
}

#[test]
fn what_is_uniform_stays_uniform() {
    let (a, b) = (numbered(0..100), numbered(200..300));
    let both = ChangeBatch::concat(&[&a, &b]).unwrap();
    assert!(matches!(both.kinds, Kinds::Uniform(StoredKind::UPSERT)));
    assert!(matches!(both.scus, Scus::Uniform(5)));
    assert!(both.masks.is_none() && both.column_scus.is_none());
    assert_eq!(both.rows(), 200);
}

#[test]
fn a_take_of_what_differs_can_become_uniform() {
    let (a, mut b) = (numbered(0..2), numbered(2..4));
    b.scus = Scus::Uniform(9);
    let both = ChangeBatch::interleave(&[&a, &b], &[(0, 0), (1, 0), (0, 1), (1, 1)]).unwrap();
    assert!(matches!(&both.scus, Scus::Each(scus) if scus.values()[..] == [5, 9, 5, 9]));
    let newer = both.take(&UInt32Array::from(vec![1, 3])).unwrap();
    assert!(matches!(newer.scus, Scus::Uniform(9)));
}

#[test]
fn a_projection_remembers_that_other_columns_are_set() {
    let data = numbered(0..1).data;
    let update = ChangeBatch::alike(data, StoredKind::UPDATE, Some(&[2]), 3);
    update.check().unwrap();
    let bits = |batch: &ChangeBatch| masks::bits(batch.mask(0)).collect::<Vec<_>>();
    let other = update.project(&[0, 1]).unwrap();
    assert_eq!(bits(&other), [2]);
    assert_eq!(bits(&other.project(&[1]).unwrap()), [1]);
    assert_eq!(bits(&update.project(&[2, 0]).unwrap()), [0]);
    let none = numbered(0..3).project(&[]).unwrap();
    assert_eq!(none.rows(), 3);
}

#[test]
fn clipping_keeps_the_low_bound_and_not_the_high() {
    let batch = numbered(0..10);
    let codec = KeyCodec::new(&batch.data.schema(), vec![0]).unwrap();
    let keys = codec.encode(&batch.data).unwrap();
    let key = |row: usize| Some(Key::new(keys.row(row).as_ref()));
    let clipped = |low, high| {
        let clipped = batch.clip(&codec, &KeyRange { low, high }).unwrap();
        clipped
            .data
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    };
    assert_eq!(clipped(key(3), key(6)), [3, 4, 5]);
    assert_eq!(clipped(None, key(2)), [0, 1]);
    assert_eq!(clipped(key(8), None), [8, 9]);
    assert!(clipped(key(6), key(3)).is_empty());
}

#[test]
fn clipping_finds_the_bounds_among_many_rows() {
    let all = 0..10_000;
    let even = |row: i64| 2 * row;
    let batch = numbered(all.clone().map(even));
    let codec = KeyCodec::new(&batch.data.schema(), vec![0]).unwrap();
    let key = |number: i64| {
        let keys = codec.encode(&numbered([number]).data).unwrap();
        Some(Key::new(keys.row(0).as_ref()))
    };
    for low in (-1_i64..20_010).step_by(97) {
        let high = low + 1 + low.rem_euclid(501);
        let clipped = batch.clip(
            &codec,
            &KeyRange {
                low: key(low),
                high: key(high),
            },
        );
        let clipped = clipped.unwrap();
        let rows = clipped.data.column(0).as_primitive::<Int64Type>();
        let expected = all.clone().map(even).filter(|n| (low..high).contains(n));
        assert_eq!(
            rows.values().to_vec(),
            expected.collect::<Vec<_>>(),
            "{low}..{high}"
        );
    }
}

#[test]
fn hidden_columns_out_of_order_are_found() {
    let data = numbered(0..2).data;
    let of = |kinds: [u8; 2], masks: [Option<&[u8]>; 2]| {
        let mut batch = ChangeBatch::upserts(data.clone(), 1);
        batch.kinds = Kinds::Each(UInt8Array::from(kinds.to_vec()));
        batch.masks = Some(BinaryArray::from_iter(masks));
        batch.check()
    };
    assert!(of([7, 1], [None, Some(&[4])]).is_ok());
    assert!(of([7, 2], [None, None]).is_err());
    assert!(of([2, 7], [None, None]).is_err());
    assert!(of([4, 2], [None, None]).is_err());
    assert!(of([2, 1], [None, None]).is_err());
    assert!(of([2, 2], [None, Some(&[1])]).is_err());
    assert!(masks::decode_distances(&[0x80], 1, &mut Vec::new()).is_err());
    assert!(masks::decode_distances(&[1, 1], 1, &mut Vec::new()).is_err());
    assert!(masks::decode_distances(&[0xff; 11], 1, &mut Vec::new()).is_err());
}

#[test]
fn a_run_is_read_back_as_written() {
    let shape = crate::stages::merge::tests::scalar::shape(&[DataType::Utf8], &[DataType::Utf8]);
    let op = Op {
        key: 4,
        kind: 7,
        sets: 1,
        values: [1; 4],
        others: [2; 4],
    };
    let (key, change, scu) = op.change(&shape, 3);
    let batch = batch_of(&shape, &[(key.clone(), change.clone(), scu)]);
    assert_eq!(batch.rows(), 2);
    assert_eq!(changes_of(&shape, &[batch]), [(key, change)].into());
}
