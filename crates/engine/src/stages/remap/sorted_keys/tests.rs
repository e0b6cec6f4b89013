//! Galloping finds what a plain search finds; keys come in their order with what belongs to them.

use super::{SortedKeys, gallop};
use crate::segment::key_hash;
use crate::stages::remap::key_table::KeyTable;

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

#[test]
fn keys_come_in_their_order() {
    let mut table = KeyTable::default();
    let words: Vec<String> = (0..100).map(|at| format!("{}", at * 37 % 101)).collect();
    for word in &words {
        table.insert(key_hash(word.as_bytes()), word.as_bytes());
    }
    let places: Vec<u32> = (0..100).filter(|place| place % 3 != 0).collect();
    let keys = SortedKeys::new(&table, places.clone());
    let mut expected: Vec<&String> = places.iter().map(|at| &words[*at as usize]).collect();
    expected.sort();
    assert_eq!(keys.len(), expected.len());
    for (at, word) in expected.iter().enumerate() {
        assert_eq!(keys.key(at), word.as_bytes());
        assert_eq!(keys.hash(at), key_hash(word.as_bytes()));
        assert_eq!(&&words[keys.place(at) as usize], word);
        assert_eq!(keys.first_from(0, word.as_bytes()), at);
    }
    assert_eq!(keys.first_from(3, b"~"), keys.len());
}
