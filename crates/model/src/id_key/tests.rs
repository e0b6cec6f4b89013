//! Numbers are disjoint between partitions, only grow, and stay.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{NextIds, assign_one_by_one, place_of, temporary_id};

#[test]
fn temporary_ids_are_negative_and_name_places() {
    assert_eq!(temporary_id(0), -1);
    assert_eq!(place_of(temporary_id(7)), Some(7));
    assert_eq!(place_of(0), None);
    assert_eq!(place_of(7), None);
}

#[test]
fn numbers_begin_with_one_and_are_congruent_to_their_partition() {
    let mut next = NextIds::first(4);
    assert_eq!([next.give(0), next.give(4), next.give(1)], [4, 8, 1]);
    assert!(next.has_given(4) && next.has_given(8) && next.has_given(1));
    assert!(!next.has_given(12) && !next.has_given(5) && !next.has_given(2));
    assert!(!next.has_given(0) && !next.has_given(-1));
    assert_eq!(next.given(), 3);
}

proptest! {
    #[test]
    fn one_number_a_key_and_one_key_a_number(
        mentions in prop::collection::vec(0_u64..40, 0..200),
        partitions in 1_u32..9,
        cut in 0_usize..200,
    ) {
        let (mut known, mut next) = (BTreeMap::new(), NextIds::first(partitions));
        let cut = cut.min(mentions.len());
        let keyed = |keys: &[u64]| keys.iter().map(|key| (*key, key * 7919)).collect::<Vec<_>>();
        let mut given = assign_one_by_one(&mut known, &mut next, keyed(&mentions[..cut]));
        let half = next.clone();
        given.extend(assign_one_by_one(&mut known, &mut next, keyed(&mentions[cut..])));
        prop_assert!(next.follows(&half) && half.follows(&NextIds::first(partitions)));
        for (key, id) in mentions.iter().zip(&given) {
            prop_assert_eq!(known[key], *id);
            prop_assert!(next.has_given(*id));
        }
        let numbers: BTreeSet<i64> = known.values().copied().collect();
        prop_assert_eq!(numbers.len(), known.len());
        prop_assert_eq!(next.given(), known.len() as u64);
        let mut whole = BTreeMap::new();
        let mut from_first = NextIds::first(partitions);
        prop_assert_eq!(assign_one_by_one(&mut whole, &mut from_first, keyed(&mentions)), given);
    }
}
