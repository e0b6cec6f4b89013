//! Each part goes to one partition in each execution.

use proptest::prelude::*;

use super::SharedParts;

fn numbers(parts: usize, partitions: usize) -> SharedParts<usize> {
    SharedParts::new((0..parts).collect(), partitions)
}

proptest! {
    /// In whatever order partitions begin, take and end.
    #[test]
    fn each_part_is_taken_once(
        parts in 0_usize..20,
        partitions in 1_usize..5,
        turns in prop::collection::vec(0_usize..5, 0..60),
    ) {
        let shared = numbers(parts, partitions);
        for _ in 0..3 {
            let mut takers: Vec<_> = (0..partitions).map(|of| shared.take(of).unwrap()).collect();
            let mut taken: Vec<Vec<usize>> = vec![Vec::new(); partitions];
            for turn in &turns {
                let of = turn % partitions;
                taken[of].extend(takers[of].next());
            }
            for (taken, taker) in taken.iter_mut().zip(takers) {
                taken.extend(taker);
            }
            prop_assert!(taken.iter().all(|of_one| of_one.is_sorted()));
            let mut all = taken.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..parts).collect::<Vec<_>>());
        }
    }
}

/// One that takes nothing, as where its thread does not run, holds up nobody.
#[test]
fn the_others_take_what_one_does_not() {
    let shared = numbers(5, 2);
    let idle = shared.take(0).unwrap();
    let all: Vec<usize> = shared.take(1).unwrap().collect();
    assert_eq!(all, [0, 1, 2, 3, 4]);
    assert_eq!(idle.count(), 0);
}

#[test]
fn the_next_execution_begins_anew_also_where_one_ended_early() {
    let shared = numbers(4, 2);
    let mut first = shared.take(0).unwrap();
    assert_eq!(first.next(), Some(0));
    drop(first);
    drop(shared.take(1).unwrap());
    let (again, other) = (shared.take(1).unwrap(), shared.take(0).unwrap());
    assert_eq!(other.chain(again).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

/// Rows would be missing, or be there twice.
#[test]
fn a_partition_is_not_read_twice_at_once() {
    let shared = numbers(4, 2);
    let _first = shared.take(0).unwrap();
    assert!(shared.take(0).is_err());
    // A copy knows nothing of it.
    let copy = shared.clone();
    assert_eq!(copy.take(0).unwrap().count(), 4);
    assert_eq!(shared.take(1).unwrap().count(), 4);
}
