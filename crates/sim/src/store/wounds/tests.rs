//! What is read of damaged files.

use std::time::Duration;

use bytes::Bytes;

use super::{Harm, Of, Wounds};

#[test]
fn torn_bytes_are_zeros_in_whatever_is_read_of_them() {
    let wounds = Wounds::default();
    wounds.strike("log/1", Harm::Torn { from: 2, to: 5 }, Of::Log);
    let read = |from: u64, to: u64| {
        let bytes = Bytes::from(vec![9; (to - from) as usize]);
        wounds.read("log/1", &(from..to), bytes).unwrap().to_vec()
    };
    assert_eq!(read(0, 8), [9, 9, 0, 0, 0, 9, 9, 9]);
    assert_eq!(read(3, 6), [0, 0, 9]);
    assert_eq!(read(5, 7), [9, 9]);
    assert_eq!(read(0, 2), [9, 9]);
    wounds.restore("log/1", Duration::from_secs(3));
    assert_eq!(read(0, 8), [9; 8]);
}

#[test]
fn a_file_that_is_whole_again_is_told_of_all_the_same() {
    let wounds = Wounds::default();
    wounds.strike("log/1", Harm::Flip { byte: 0, bit: 1 }, Of::Log);
    let text = "table t: lost/3-1 is gone";
    assert!(wounds.are_named_now(text) && wounds.has_log());
    assert_eq!(wounds.whole_since(text), None);
    wounds.restore("log/1", Duration::from_secs(3));
    wounds.restore("log/1", Duration::from_secs(4));
    assert!(wounds.are_named(text) && !wounds.are_named_now(text));
    assert_eq!(wounds.whole_since(text), Some(Duration::from_secs(3)));
    assert!(wounds.of(Of::Log).is_empty());
}

#[test]
fn what_is_gone_is_in_no_listing_until_it_comes_back() {
    let wounds = Wounds::default();
    wounds.strike("log/1", Harm::Gone, Of::Log);
    wounds.strike("log/2", Harm::Flip { byte: 0, bit: 1 }, Of::Log);
    let listed = || {
        let mut listed: Vec<(String, u64)> = vec![("log/1".into(), 9), ("log/2".into(), 9)];
        wounds.hide(&mut listed);
        listed.len()
    };
    assert!(wounds.is_gone("log/1") && !wounds.is_gone("log/2"));
    assert_eq!(listed(), 1);
    assert!(wounds.length("log/1", 9).is_err());
    wounds.restore("log/1", Duration::from_secs(3));
    assert_eq!((listed(), wounds.logs_taken()), (2, 1));
    assert_eq!(wounds.length("log/1", 9).unwrap(), 9);
}
