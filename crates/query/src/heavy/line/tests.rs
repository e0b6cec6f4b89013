//! Places are given in order, once, and come back.

use std::task::Waker;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Asked, IDLE, Line, Ticket};

const START: Duration = Duration::from_secs(1);

fn ask(line: &Line, ticket: Ticket, session: u64, now: Duration) -> Asked {
    line.ask(ticket, session, false, Waker::noop(), now)
}

#[test]
fn they_get_their_places_in_the_order_in_which_they_came() {
    let line = Line::new(1, 9);
    let [first, second, third] = [1, 2, 3].map(|_| line.ticket());
    assert_eq!(ask(&line, first, 1, START), Asked::Placed);
    assert_eq!(ask(&line, third, 3, START), Asked::Waits);
    assert_eq!(ask(&line, second, 2, START), Asked::Waits);
    assert_eq!(line.counts(), (1, 2));
    line.leave(first, START);
    assert_eq!(line.counts(), (1, 1));
    assert_eq!(ask(&line, third, 3, START), Asked::Waits);
    assert_eq!(ask(&line, second, 2, START), Asked::Placed);
    line.leave(second, START);
    line.leave(third, START);
    assert_eq!(line.counts(), (0, 0));
}

#[test]
fn a_session_that_has_places_comes_after_those_that_have_none() {
    let line = Line::new(2, 9);
    let [a, b, c, d] = [1, 2, 3, 4].map(|_| line.ticket());
    assert_eq!(ask(&line, a, 1, START), Asked::Placed);
    assert_eq!(ask(&line, b, 2, START), Asked::Placed);
    assert_eq!(ask(&line, c, 1, START), Asked::Waits);
    assert_eq!(ask(&line, d, 3, START), Asked::Waits);
    line.leave(b, START);
    assert_eq!(ask(&line, c, 1, START), Asked::Waits);
    assert_eq!(ask(&line, d, 3, START), Asked::Placed);
    line.leave(a, START);
    assert_eq!(ask(&line, c, 1, START), Asked::Placed);
}

#[test]
fn one_too_many_is_refused_and_leaves_nothing() {
    let line = Line::new(1, 1);
    let [a, b, c] = [1, 2, 3].map(|_| line.ticket());
    assert_eq!(ask(&line, a, 1, START), Asked::Placed);
    assert_eq!(ask(&line, b, 2, START), Asked::Waits);
    let refused = Asked::Refused {
        placed: 1,
        waiting: 1,
    };
    assert_eq!(ask(&line, c, 3, START), refused);
    assert_eq!(line.counts(), (1, 1));
    // Who waits already may ask as often as it likes, and who has begun is let in.
    assert_eq!(ask(&line, b, 2, START), Asked::Waits);
    let begun = line.ask(c, 3, true, Waker::noop(), START);
    assert_eq!(begun, Asked::Waits);
}

#[test]
fn a_place_whose_holder_rests_goes_to_who_waits_and_comes_back_first() {
    let line = Line::new(1, 9);
    let [a, b, c] = [1, 2, 3].map(|_| line.ticket());
    assert_eq!(ask(&line, a, 1, START), Asked::Placed);
    line.rests(a, START);
    let soon = START + IDLE / 2;
    assert_eq!(ask(&line, b, 2, soon), Asked::Waits);
    // It takes more rows in time, and rests again.
    assert_eq!(ask(&line, a, 1, soon), Asked::Placed);
    line.rests(a, soon);
    assert_eq!(ask(&line, b, 2, START + IDLE), Asked::Waits);
    assert_eq!(ask(&line, b, 2, soon + IDLE), Asked::Placed);
    let later = soon + IDLE;
    assert_eq!(ask(&line, c, 3, later), Asked::Waits);
    assert_eq!(line.ask(a, 1, true, Waker::noop(), later), Asked::Waits);
    line.leave(b, later);
    assert_eq!(line.ask(a, 1, true, Waker::noop(), later), Asked::Placed);
    assert_eq!(ask(&line, c, 3, later), Asked::Waits);
}

#[test]
fn nobody_waits_for_long_for_one_that_does_not_come_for_its_place() {
    let line = Line::new(1, 9);
    let [a, gone, c] = [1, 2, 3].map(|_| line.ticket());
    assert_eq!(ask(&line, a, 1, START), Asked::Placed);
    assert_eq!(ask(&line, gone, 2, START), Asked::Waits);
    assert_eq!(ask(&line, c, 3, START), Asked::Waits);
    line.leave(a, START);
    assert_eq!(ask(&line, c, 3, START), Asked::Waits);
    assert_eq!(ask(&line, c, 3, START + IDLE), Asked::Placed);
}

/// What a statement does next: it asks, rests, or leaves.
#[derive(Debug, Clone, Copy)]
enum Step {
    Ask,
    Rest,
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![3 => Just(Step::Ask), 1 => Just(Step::Rest), 1 => Just(Step::Leave)]
}

proptest! {
    #[test]
    fn places_are_neither_exceeded_nor_left_empty(
        places in 1_usize..4,
        steps in vec((0_usize..6, step(), 0_u64..150), 1..80),
    ) {
        let line = Line::new(places, 3);
        let mut tickets = [1, 2, 3, 4, 5, 6].map(|_| line.ticket());
        let mut now = START;
        for (who, step, millis) in steps {
            now += Duration::from_millis(millis);
            match step {
                Step::Ask => {
                    ask(&line, tickets[who], who as u64 % 3, now);
                }
                Step::Rest => line.rests(tickets[who], now),
                Step::Leave => {
                    line.leave(tickets[who], now);
                    tickets[who] = line.ticket();
                }
            }
            let (placed, waiting) = line.counts();
            prop_assert!(placed <= places && waiting <= 3, "{placed} placed, {waiting} waiting");
            prop_assert!(waiting == 0 || placed == places, "{placed} placed, {waiting} waiting");
        }
        tickets.into_iter().for_each(|ticket| line.leave(ticket, now));
        prop_assert_eq!(line.counts(), (0, 0));
    }
}
