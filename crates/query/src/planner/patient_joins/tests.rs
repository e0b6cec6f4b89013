//! Tests of `patient_joins`.

use super::*;

#[test]
fn the_more_rows_on_the_left_the_fewer_between_pauses() {
    for (left_rows, between) in [
        (0, 1024),
        (1, 1024),
        (65_536, 1024),
        (65_537, 1023),
        (3_000_000, 22),
        (PAIRS_BETWEEN_PAUSES, 1),
        (usize::MAX, 1),
    ] {
        assert_eq!(rows_between_pauses(left_rows), between, "{left_rows}");
    }
}
