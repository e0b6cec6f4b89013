//! Rules, bounds, and what adding and dropping makes of them.

use super::*;

fn bound(value: u8, after: bool) -> RangeBound {
    RangeBound {
        value: BoundBytes(vec![value]),
        after,
    }
}

fn bounds(low: Option<u8>, high: Option<u8>) -> RangeBounds {
    RangeBounds {
        low: low.map(|value| bound(value, false)),
        high: high.map(|value| bound(value, false)),
    }
}

fn rule(partitions: &[(Option<u8>, Option<u8>)]) -> RangeRule {
    let partitions = partitions.iter().map(|(low, high)| bounds(*low, *high));
    RangeRule::new(vec![ColumnId(0)], partitions.collect()).unwrap()
}

fn number(rule: &RangeRule, value: u8) -> Option<u32> {
    rule.find(&[value]).map(|partition| partition.number)
}

#[test]
fn a_value_lies_in_the_partition_whose_bounds_hold_it() {
    let rule = rule(&[(Some(30), None), (None, Some(10)), (Some(10), Some(20))]);
    assert_eq!(number(&rule, 9), Some(1));
    assert_eq!(number(&rule, 10), Some(2));
    assert_eq!(number(&rule, 19), Some(2));
    assert_eq!(number(&rule, 20), None);
    assert_eq!(number(&rule, 30), Some(3));
    let after = RangeBounds {
        low: Some(bound(20, true)),
        high: Some(bound(25, true)),
    };
    assert!(!after.contains(&[20]) && after.contains(&[25]) && !after.contains(&[26]));
}

#[test]
fn overlapping_and_empty_partitions_are_refused() {
    let mut rule = rule(&[(Some(10), Some(20))]);
    for (low, high) in [(Some(5), Some(11)), (Some(19), None), (None, None)] {
        let error = rule.add(&bounds(low, high)).unwrap_err();
        assert_eq!(error.sqlstate(), "42P17", "{low:?} {high:?}");
    }
    assert!(rule.add(&bounds(Some(5), Some(5))).is_err());
    assert_eq!(rule.add(&bounds(Some(20), None)).unwrap(), 2);
    assert_eq!(rule.add(&bounds(None, Some(10))).unwrap(), 3);
}

#[test]
fn a_dropped_partition_comes_back_under_its_number_but_is_not_cut() {
    let mut rule = rule(&[(Some(10), Some(20)), (Some(20), Some(30))]);
    assert_eq!(rule.drop(&bounds(Some(10), Some(20))).unwrap(), 1);
    assert!(rule.drop(&bounds(Some(10), Some(20))).is_err());
    assert!(!rule.is_live(1));
    assert_eq!(number(&rule, 15), Some(1), "older answers know it");
    let error = rule.add(&bounds(Some(10), Some(15))).unwrap_err();
    assert_eq!(error.sqlstate(), "55006");
    assert!(rule.add(&bounds(None, Some(20))).is_err());
    assert_eq!(rule.add(&bounds(Some(10), Some(20))).unwrap(), 1);
    assert!(rule.is_live(1));
}

#[test]
fn rules_are_checked_against_each_other() {
    let hash = |column: u32, buckets: u16| HashRule {
        columns: vec![ColumnId(column)],
        buckets,
    };
    let check = |hash: Vec<HashRule>| Partitioning { hash, range: None }.check();
    assert!(check(vec![hash(1, 2), hash(2, 8)]).is_ok());
    assert!(check(vec![hash(1, 2), hash(1, 8)]).is_err());
    assert!(check(vec![hash(1, 1)]).is_err());
    assert!(check(vec![hash(1, 200), hash(2, 200)]).is_err());
    let both = Partitioning {
        hash: vec![hash(0, 2)],
        range: Some(rule(&[(None, None)])),
    };
    assert!(both.check().is_err());
}
