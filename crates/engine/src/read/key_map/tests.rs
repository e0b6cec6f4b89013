//! Galloping finds what a plain search finds.

use super::gallop;

#[test]
fn galloping_finds_the_first_row_that_is_not_before() {
    let rows = [1, 3, 3, 5, 9, 12, 12, 20];
    for from in 0..=rows.len() {
        for wanted in 0..22 {
            let plain = (from..rows.len()).find(|row| rows[*row] >= wanted);
            let found = gallop(rows.len(), from, |row| rows[row] < wanted);
            assert_eq!(found, plain.unwrap_or(rows.len()), "{wanted} from {from}");
        }
    }
}
