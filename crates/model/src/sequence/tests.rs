//! Blocks of numbers, up and down, to the very end.

use super::*;

fn sequence(start: i64, increment: i64, min: i64, max: i64) -> Sequence {
    let sequence = Sequence {
        start,
        increment,
        min,
        max,
        ..Sequence::new(SequenceId(1), "s")
    };
    sequence.check().unwrap();
    sequence
}

/// All numbers, in blocks of so many.
fn all(sequence: &Sequence, count: u64) -> Vec<i64> {
    let (mut counter, mut numbers) = (sequence.begin(), Vec::new());
    while let Ok(block) = sequence.block(counter, count) {
        numbers.extend((0..block.count).map(|place| block.at(place)));
        let next = sequence.counter(block.last(), true).unwrap();
        assert!(sequence.goes_on(counter, next));
        counter = next;
    }
    numbers
}

#[test]
fn blocks_follow_each_other_and_end_with_the_sequence() {
    let up = sequence(3, 2, 1, 10);
    let down = sequence(-1, -3, -8, -1);
    for count in [1, 2, 3, 100] {
        assert_eq!(all(&up, count), [3, 5, 7, 9]);
        assert_eq!(all(&down, count), [-1, -4, -7]);
    }
    let ended = up.block(up.counter(9, true).unwrap(), 1).unwrap_err();
    assert_eq!(ended.sqlstate(), "2200H");
}

#[test]
fn the_ends_of_bigint_are_given_out() {
    let up = sequence(i64::MAX - 1, 1, 1, i64::MAX);
    assert_eq!(all(&up, 32), [i64::MAX - 1, i64::MAX]);
    let down = sequence(i64::MIN, -1, i64::MIN, i64::MAX);
    assert_eq!(all(&down, 32), [i64::MIN]);
    let wide = sequence(i64::MIN, i64::MAX, i64::MIN, i64::MAX);
    assert_eq!(all(&wide, 32), [i64::MIN, -1, i64::MAX - 1]);
    let whole = sequence(i64::MIN, 1, i64::MIN, i64::MAX);
    assert_eq!(
        whole.block(whole.begin(), u64::MAX).unwrap().count,
        u64::MAX
    );
}

#[test]
fn a_cycle_begins_again_at_the_end_that_it_comes_from() {
    let mut up = sequence(5, 1, 4, 6);
    up.cycle = true;
    let after_end = up.block(up.counter(6, true).unwrap(), 9).unwrap();
    assert_eq!((after_end.first, after_end.count), (4, 3));
    let mut down = sequence(5, -1, 4, 6);
    down.cycle = true;
    let after_end = down.block(down.counter(4, true).unwrap(), 2).unwrap();
    assert_eq!((after_end.first, after_end.last()), (6, 5));
}

#[test]
fn a_number_that_was_not_called_comes_next() {
    let up = sequence(1, 1, 1, 100);
    let at = |called| up.block(up.counter(7, called).unwrap(), 1).unwrap().first;
    assert_eq!((at(false), at(true)), (7, 8));
    assert_eq!(up.counter(101, true).unwrap_err().sqlstate(), "22003");
}

#[test]
fn numbers_only_go_on() {
    let up = sequence(1, 1, 1, 100);
    let at = |last, called| Counter { last, called };
    assert!(up.goes_on(at(1, false), at(1, true)));
    assert!(!up.goes_on(at(5, true), at(4, true)));
    assert!(!up.goes_on(at(5, true), at(6, false)));
}

#[test]
fn what_has_no_numbers_is_refused() {
    let wrong = |change: fn(&mut Sequence)| {
        let mut sequence = Sequence::new(SequenceId(1), "s");
        change(&mut sequence);
        sequence.check().unwrap_err().sqlstate()
    };
    assert_eq!(wrong(|s| s.increment = 0), "22023");
    assert_eq!(wrong(|s| s.max = 1), "22023");
    assert_eq!(wrong(|s| s.start = 0), "22023");
    assert_eq!(wrong(|s| s.data_type = DataType::Int16), "22023");
}
