//! Ratios are of one round, and rows are what their readers are counted on to see.

#![allow(clippy::unwrap_used)]

use arrow::array::{Array, AsArray};

use super::{BATCH_ROWS, Given, PARTS, Round, TABLES, Took, figures, turn};

/// A round in which everything took so long, and each table as many times as its place says.
fn round(seconds: f64) -> Round {
    let of = |times: f64| Took {
        append: times * seconds,
        settled: times * seconds * 2.0,
        scan_all: times * seconds,
        scan_half: times * seconds,
        mib: times,
    };
    [of(1.0), of(2.0), of(3.0), of(4.0)]
}

#[test]
fn a_slow_round_moves_no_ratio() {
    let figures = figures(&[round(1.0), round(100.0), round(2.0)]);
    let number = |name: &str| figures[name].as_f64().unwrap();
    assert_eq!(number("plain_append_s"), 2.0);
    assert_eq!(number("plain_settled_s"), 4.0);
    assert_eq!(number("plain_size_mib"), 1.0);
    for (place, table) in TABLES.iter().enumerate().skip(1) {
        for (part, ..) in PARTS {
            let name = format!("{}_{part}_ratio", table.name);
            assert_eq!(number(&name), (place + 1) as f64, "{name}");
        }
    }
    assert_eq!(figures.len(), TABLES.len() * PARTS.len());
}

#[test]
fn each_table_comes_first_once_in_four_turns() {
    let first: Vec<usize> = (0..4).filter_map(|at| turn(at).next()).collect();
    assert_eq!(first, [0, 1, 2, 3]);
    assert_eq!(turn(5).collect::<Vec<_>>(), [1, 2, 3, 0]);
}

#[test]
fn half_of_the_labels_are_on_about_half_of_the_rows() {
    let rows = BATCH_ROWS + 1_000;
    let given = Given::new(rows, 4);
    assert_eq!(given.half, "group0,group1");
    assert!((rows / 3..2 * rows / 3).contains(&given.of_half));
    let mut seen = 0;
    for table in &TABLES {
        let batches = given.batches_of(table).unwrap();
        let counted: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!((batches.len(), counted), (2, rows), "{}", table.name);
        for batch in batches {
            let labels = table.labels.map(|name| batch.column_by_name(name).unwrap());
            let Some(labels) = labels else { continue };
            let labels = labels.as_string::<i32>();
            assert_eq!(labels.null_count(), 0);
            let labels = labels.iter().flatten();
            seen += labels
                .filter(|label| ["group0", "group1"].contains(label))
                .count();
        }
    }
    // Of two tables.
    assert_eq!(seen, 2 * given.of_half);
}
