//! What the tables hold, against rows that were reckoned by hand, and batch by batch.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{
    ADDED_EVERY, CELL_COLUMNS, CELLS, Change, PROBE, Rows, SET_UP, SLOTS, Slot, added_of, batch,
    cells_of, change, changes_table, slots_of,
};

#[test]
fn a_row_comes_changes_and_goes() {
    // The batches of slot 1: insert, side, delete, side, insert, side.
    let all = BTreeSet::from([1, 8, 15, 22, 29, 36]);
    let without = |numbers: &[u64]| -> BTreeSet<u64> {
        all.iter()
            .copied()
            .filter(|number| !numbers.contains(number))
            .collect()
    };
    let row = |number, side| Some(Slot { number, side });
    let cases: [(&[u64], u64, Option<Slot>); 13] = [
        (&[], 0, None),
        (&[], 1, row(1, 1)),
        (&[], 7, row(1, 1)),
        (&[], 8, row(1, 8)),
        (&[], 15, None),
        // What is not there is not updated.
        (&[], 22, None),
        (&[], 29, row(29, 29)),
        (&[], 40, row(29, 36)),
        (&[15], 22, row(1, 22)),
        (&[8, 15], 21, row(1, 1)),
        (&[29], 40, None),
        (&[1], 14, None),
        (&[15, 29], 40, row(1, 36)),
    ];
    for (missing, through, due) in cases {
        let found = slots_of(&without(missing), through).get(&1).copied();
        assert_eq!(found, due, "without {missing:?}, through {through}");
    }
}

#[test]
fn rows_are_those_of_batches_one_by_one() {
    let mut dice = SmallRng::seed_from_u64(3);
    for _ in 0..200 {
        let there: BTreeSet<u64> = (1..120).filter(|_| dice.random_range(0..10) > 2).collect();
        let (mut slots, mut cells) = (BTreeMap::new(), BTreeMap::new());
        for number in 1..120 {
            if there.contains(&number) {
                let slot = number % SLOTS;
                match change(number) {
                    Change::Insert => {
                        slots.insert(slot, (number, number));
                    }
                    Change::Delete => {
                        slots.remove(&slot);
                    }
                    Change::Side => {
                        if let Some((_, side)) = slots.get_mut(&slot) {
                            *side = number;
                        }
                    }
                }
                cells.insert(number % CELLS, number);
            }
            let found = slots_of(&there, number).into_iter();
            let found: BTreeMap<_, _> = found
                .map(|(slot, row)| (slot, (row.number, row.side)))
                .collect();
            assert_eq!(found, slots, "{there:?} through {number}");
            assert_eq!(cells_of(&there, number), cells);
        }
    }
}

#[test]
fn columns_come_and_go_with_their_batches() {
    let there = BTreeSet::from([50, 51, 100, 150, 250]);
    let cases: [(u64, &[u64]); 6] = [
        (49, &[]),
        (50, &[50]),
        (149, &[50, 100]),
        (150, &[100, 150]),
        // 200 is missing, which would have dropped 100.
        (249, &[100, 150]),
        (250, &[100, 250]),
    ];
    for (through, due) in cases {
        let due: BTreeSet<u64> = due.iter().copied().collect();
        assert_eq!(added_of(&there, through), due, "through {through}");
    }
}

#[test]
fn rows_that_differ_are_told() {
    let last = BTreeMap::from([(1, BTreeSet::from([1, 3, 4])), (2, BTreeSet::from([2]))]);
    let reached = |register: u32| [0, 3, 2][register as usize % 3];
    let due = Rows::due(0, &last, reached);
    assert_eq!(due.counted, BTreeMap::from([(1, (2, 4)), (2, (1, 2))]));
    assert_eq!(due.slots.len(), 3);
    let set: Vec<_> = due
        .cells
        .iter()
        .filter(|(_, number)| **number > 0)
        .collect();
    assert_eq!(set, [(&(1, 1), &1), (&(2, 2), &2), (&(3, 1), &3)]);
    assert!(due.differences(&due).is_empty());
    type Change = (&'static str, fn(&mut Rows));
    let changes: [Change; 6] = [
        ("count and sum", |rows| {
            rows.counted.insert(1, (2, 5));
        }),
        ("count and sum", |rows| {
            rows.counted.remove(&2);
        }),
        ("rows of slots", |rows| {
            rows.slots.remove(&(1, 3));
        }),
        ("rows of slots", |rows| {
            let (number, side) = (1, 3);
            rows.slots.insert((1, 1), Slot { number, side });
        }),
        ("columns", |rows| {
            rows.added.insert(50);
        }),
        // What another register set was taken along.
        ("cells", |rows| {
            rows.cells.insert((2, 2), 0);
        }),
    ];
    for (what, change) in changes {
        let mut rows = due.clone();
        change(&mut rows);
        let found = rows.differences(&due);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(what), "{found:?}");
    }
}

#[test]
fn each_register_has_a_column_of_its_own() {
    assert_eq!(CELL_COLUMNS.len() as u32, 1 + PROBE);
    for column in CELL_COLUMNS {
        assert!(SET_UP[0].contains(column), "{column}");
    }
    assert_eq!(SET_UP[1].matches("(").count() as u64, CELLS);
}

#[test]
fn now_and_then_a_batch_changes_a_table() {
    let changed = |register, number| batch(register, number).contains("ALTER TABLE");
    assert!(changed(1, ADDED_EVERY) && changes_table(1, ADDED_EVERY));
    assert!(!changed(1, ADDED_EVERY + 1) && !changed(2, ADDED_EVERY));
    assert!(!batch(1, 100).contains("DROP COLUMN"));
    assert!(batch(1, 150).contains("DROP COLUMN IF EXISTS added_50"));
}
