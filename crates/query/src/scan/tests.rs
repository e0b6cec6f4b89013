//! Parts of a scan are divided by what they weigh.

use proptest::prelude::*;

use super::balanced;

#[test]
fn a_heavy_part_has_a_group_of_its_own() {
    assert_eq!(balanced(&[10, 1, 1], 2), [0, 1, 1]);
    assert_eq!(balanced(&[1, 1, 10], 2), [0, 0, 1]);
    assert_eq!(balanced(&[30, 35, 35], 2), [0, 0, 1]);
    assert_eq!(balanced(&[0, 0, 0, 0], 2), [0, 0, 1, 1]);
    assert_eq!(balanced(&[], 3), Vec::<usize>::new());
}

proptest! {
    #[test]
    fn groups_follow_each_other_and_differ_by_a_part(
        weights in prop::collection::vec(0_u64..1_000, 0..30),
        groups in 1_usize..8,
    ) {
        let of = balanced(&weights, groups);
        prop_assert_eq!(of.len(), weights.len());
        prop_assert!(of.is_sorted());
        prop_assert!(of.iter().all(|group| *group < groups));
        let counted: Vec<u64> = weights.iter().map(|weight| (*weight).max(1)).collect();
        let most = counted.iter().max().copied().unwrap_or(0);
        let all: u64 = counted.iter().sum();
        for group in 0..groups {
            let own = of.iter().zip(&counted).filter(|(of, _)| **of == group);
            let own: u64 = own.map(|(_, weight)| weight).sum();
            prop_assert!(own <= all / groups as u64 + most + 1);
        }
    }
}
