//! What point reads find among unsorted changes is what the scalar algebra says, in linear steps.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use lazybase_model::MergeOperator;
use proptest::prelude::*;

use super::*;
use crate::stages::merge::tests::composed;
use crate::stages::merge::tests::scalar::{
    Changes, Op, any_shape, batch_of, changes_of, combining, key_at, op,
};

/// Batches, and where their rows stand.
struct Indexed<'s> {
    shape: &'s MergeShape,
    codec: KeyCodec,
    batches: Vec<ChangeBatch>,
    places: KeyPlaces,
}

impl<'s> Indexed<'s> {
    fn new(shape: &'s MergeShape, batches: Vec<ChangeBatch>) -> Self {
        let codec = KeyCodec::new(&shape.schema, shape.key.clone()).unwrap();
        let mut places = KeyPlaces::default();
        for (part, rows) in (0..).zip(&batches) {
            places.add(&codec, part, rows).unwrap();
        }
        Indexed {
            shape,
            codec,
            batches,
            places,
        }
    }

    /// What the changes of a key come to, where all keys have the hash `hash_of` gives; and how
    /// many places were looked at.
    fn find(&self, key: &[u8]) -> (Option<ChangeBatch>, usize) {
        let mut of_key = KeyChanges::new(self.shape, &self.codec, key);
        let mut steps = 0;
        let places: Vec<(u32, u32)> = self.places.with_hash(key_hash(key)).collect();
        for of_part in places.chunk_by(|one, other| one.0 == other.0) {
            let rows = of_part.iter().map(|(_, row)| *row);
            let batch = &self.batches[of_part[0].0 as usize];
            if of_key.take(batch, rows.inspect(|_| steps += 1)).unwrap() {
                break;
            }
        }
        (of_key.composed().unwrap(), steps)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_changes_of_each_key_come_to_what_the_algebra_says(
        shape in any_shape(),
        batches in prop::collection::vec(prop::collection::vec(op(4), 0..30), 0..12),
    ) {
        let of_batch = |ops: &Vec<Op>| {
            let changes: Vec<_> = ops.iter().map(|op| op.change(&shape, 1)).collect();
            batch_of(&shape, &changes)
        };
        let indexed = Indexed::new(&shape, batches.iter().map(of_batch).collect());
        let wanted = composed(&shape, &vec![batches]);
        let mut found = Changes::new();
        let mut seen = BTreeMap::new();
        for batch in &indexed.batches {
            for (row, key) in indexed.codec.encode(&batch.data).unwrap().iter().enumerate() {
                seen.insert(key.data().to_vec(), key_at(&shape, batch, row));
            }
        }
        for key in seen.keys() {
            let (change, _) = indexed.find(key);
            found.extend(changes_of(&shape, &[change.unwrap()]));
        }
        prop_assert_eq!(found, wanted);
        prop_assert!(indexed.find(b"a key that nothing changes").0.is_none());
    }

    /// Rows of other keys among the places, as if all hashes were the same.
    #[test]
    fn other_keys_with_the_same_hash_are_left_out(
        shape in any_shape(),
        ops in prop::collection::vec(op(3), 1..40),
    ) {
        let changes: Vec<_> = ops.iter().map(|op| op.change(&shape, 1)).collect();
        let batch = batch_of(&shape, &changes);
        let indexed = Indexed::new(&shape, vec![batch.clone()]);
        for key in indexed.codec.encode(&batch.data).unwrap().iter() {
            let mut of_key = KeyChanges::new(&shape, &indexed.codec, key.data());
            let rows = (0..batch.rows()).rev().filter(|row| !batch.kind(*row).is_split());
            of_key.take(&batch, rows.map(|row| row as u32)).unwrap();
            let of_all = of_key.composed().unwrap().unwrap();
            let of_hash = indexed.find(key.data()).0.unwrap();
            prop_assert_eq!(changes_of(&shape, &[of_all]), changes_of(&shape, &[of_hash]));
        }
    }
}

/// One row is left of each key for whoever reads it, so a merge has one source for each SCU and
/// not one for each change; each change is looked at once.
#[test]
fn a_hot_key_takes_a_step_for_each_change_and_leaves_one() {
    const CHANGES: usize = 20_000;
    let sum = (DataType::Decimal128(38, 0), Some(MergeOperator::Sum));
    let shape = combining(&[DataType::Int64], &[sum]);
    let combine = Op {
        key: 1,
        kind: 4,
        sets: 1,
        values: [1; 4],
        others: [1; 4],
    };
    let changes = vec![combine.change(&shape, 1); CHANGES / 10];
    let indexed = Indexed::new(&shape, vec![batch_of(&shape, &changes); 10]);
    let keys = indexed.codec.encode(&indexed.batches[0].data).unwrap();
    let (found, steps) = indexed.find(keys.row(0).data());
    assert_eq!((found.unwrap().rows(), steps), (1, CHANGES));
    assert_eq!(indexed.places.bytes(), 16 * CHANGES as u64);
    assert!(indexed.places.tiers.len() <= 3);
}

#[test]
fn a_total_change_ends_the_search() {
    let shape = combining(&[DataType::Int64], &[(DataType::Int64, None)]);
    let upsert = Op {
        key: 1,
        kind: 0,
        sets: 1,
        values: [1; 4],
        others: [1; 4],
    };
    let changes = vec![upsert.change(&shape, 1); 1000];
    let indexed = Indexed::new(&shape, vec![batch_of(&shape, &changes); 3]);
    let keys = indexed.codec.encode(&indexed.batches[0].data).unwrap();
    let (found, steps) = indexed.find(keys.row(0).data());
    assert_eq!((found.unwrap().rows(), steps), (1, 1));
}
