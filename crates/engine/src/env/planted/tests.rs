//! A binary in which faults can be planted is known by its bytes, wherever the mark stands in them.

use std::io::BufReader;

use super::{MARKER, is_marked};

#[test]
fn a_mark_is_found_wherever_it_stands_and_a_part_of_it_is_none() {
    let found = |bytes: &[u8]| {
        let found = |at_once| is_marked(BufReader::with_capacity(at_once, bytes)).unwrap();
        [1, 3, 4096].map(found)
    };
    let part = &MARKER[..MARKER.len() - 1];
    for (text, expected) in [
        (MARKER.to_owned(), true),
        (format!("E{MARKER}"), true),
        (format!("{part}{MARKER}E"), true),
        (part.to_owned(), false),
        (format!("{part}-{part}"), false),
        (String::new(), false),
    ] {
        assert_eq!(found(text.as_bytes()), [expected; 3], "{text:?}");
    }
}
