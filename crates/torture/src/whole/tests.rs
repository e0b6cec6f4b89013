//! A cut that can be, and each way in which one contradicts itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fetched, Whole};
use crate::tables::{Rows, Slot, note_of};

/// Columns, then rows of cells that are separated by blanks.
fn fetched(names: &str, rows: &[&str]) -> Fetched {
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    let cells = |row: &&str| -> Vec<Option<String>> { words(row).into_iter().map(Some).collect() };
    Fetched {
        names: words(names),
        rows: rows.iter().map(cells).collect(),
    }
}

/// Register 1 has written 1 to 3, and some batch 50 a column.
fn good() -> [Fetched; 8] {
    let noted = [1, 2, 3].map(|number| format!("1 {number} {}", note_of(number)));
    let noted: Vec<&str> = noted.iter().map(String::as_str).collect();
    let cells = ["0 0 0 0 0 0", "1 1 0 0 0 0", "2 2 0 0 0 0", "3 3 0 0 0 0"];
    let by_w1 = ["0 0 0 0 0 0", "1 1 0 0 0 0", "2 2 0 0 0 0", "3 3 0 0 0 0"];
    [
        fetched("register number note", &noted),
        fetched("number register", &["1 1", "2 1", "3 1"]),
        fetched("register side value", &["1 a 3", "1 b -3"]),
        fetched("register n", &["1 3"]),
        fetched(
            "register slot number side added_50",
            &["1 1 1 1 50", "1 2 2 2 50", "1 3 3 3 50"],
        ),
        fetched(
            "side register slot number",
            &["1 1 1 1", "2 1 2 2", "3 1 3 3"],
        ),
        fetched("cell w1 w2 w3 w4 w5", &cells),
        fetched("w1 cell w2 w3 w4 w5", &by_w1),
    ]
}

/// What is wrong after a change of the good cut.
fn wrong(change: impl FnOnce(&mut [Fetched; 8])) -> String {
    let mut fetched = good();
    change(&mut fetched);
    Whole::of(0, &fetched).err().unwrap_or_default()
}

fn set(fetched: &mut Fetched, row: usize, column: usize, cell: &str) {
    fetched.rows[row][column] = Some(cell.to_owned());
}

#[test]
fn a_cut_is_counted_by_its_reader() {
    let whole = Whole::of(0, &good()).unwrap();
    assert_eq!(
        whole.numbers,
        BTreeMap::from([(1, BTreeSet::from([1, 2, 3]))])
    );
    assert_eq!(
        (whole.reached[&1].greatest, whole.reached[&1].count),
        (3, 3)
    );
    assert_eq!(whole.rows.counted, BTreeMap::from([(1, (3, 6))]));
    let row = |number| Slot {
        number,
        side: number,
    };
    let slots = BTreeMap::from([((1, 1), row(1)), ((1, 2), row(2)), ((1, 3), row(3))]);
    assert_eq!(whole.rows.slots, slots);
    assert_eq!(whole.rows.added, BTreeSet::from([50]));
    assert_eq!(
        (whole.rows.cells[&(3, 1)], whole.rows.cells[&(3, 5)]),
        (3, 0)
    );
    // It is no cut of these batches all the same: none of them adds a column, and four of the
    // cells are missing.
    let due = Rows::due(0, &whole.numbers, |_| 3);
    assert_eq!(whole.rows.differences(&due).len(), 2);
}

#[test]
fn the_end_of_the_registers_is_enough() {
    let mut fetched = good();
    fetched[0].rows.drain(..2);
    fetched[1].rows.drain(..2);
    let whole = Whole::of(2, &fetched).unwrap();
    assert_eq!(whole.rows.counted, BTreeMap::from([(1, (1, 3))]));
    assert_eq!(whole.reached[&1].count, 3);
    fetched[0].rows.clear();
    fetched[1].rows.clear();
    assert!(Whole::of(3, &fetched).is_ok());
    let lost = Whole::of(2, &fetched).unwrap_err();
    assert!(lost.contains("and says"), "{lost}");
}

#[test]
fn what_contradicts_itself_is_found() {
    let mut found = vec![
        ("another note", wrong(|all| set(&mut all[0], 1, 2, "2-xx"))),
        ("and says", wrong(|all| set(&mut all[3], 0, 1, "4"))),
        ("the sides", wrong(|all| set(&mut all[2], 1, 2, "-2"))),
        ("pairs has", wrong(|all| drop(all[2].rows.remove(0)))),
        ("not its default", wrong(|all| set(&mut all[4], 2, 4, "49"))),
        ("is no number", wrong(|all| all[4].rows[0][4] = None)),
        (
            "a column",
            wrong(|all| all[4].names[4] = "other".to_owned()),
        ),
    ];
    let all_but_last = |all: &mut [Fetched; 8], at: usize| drop(all[at].rows.pop());
    for (at, table) in [(1, "registers"), (5, "slots"), (7, "cells")] {
        let lacking = wrong(|all| all_but_last(all, at));
        assert!(lacking.contains(table), "{lacking}");
        found.push(("lacks [[", lacking));
        // The view has a row that its table has no more.
        found.push(("and has [[", wrong(|all| all_but_last(all, at - 1))));
    }
    for at in 0..8 {
        found.push((
            "twice",
            wrong(|all| {
                let again = all[at].rows[0].clone();
                all[at].rows.push(again);
            }),
        ));
    }
    for (what, found) in found {
        assert!(found.contains(what), "{what}: {found:?}");
    }
}

#[test]
fn rows_of_one_key_are_found() {
    // In table and view alike: as rows they differ.
    let slots = wrong(|all| {
        all[4].rows.push(all[4].rows[0].clone());
        set(&mut all[4], 3, 2, "9");
        all[5].rows.push(all[5].rows[0].clone());
        set(&mut all[5], 3, 3, "9");
    });
    assert!(slots.contains("slots has (1, 1) twice"), "{slots}");
    let cells = wrong(|all| {
        for at in [6, 7] {
            all[at].rows.push(all[at].rows[0].clone());
            set(&mut all[at], 4, 5, "9");
        }
    });
    assert!(cells.contains("cells has 0 twice"), "{cells}");
}
