//! Numbers come once, and only further; a sequence that was made again begins anew.

use lazybase_model::SequenceId;

use super::Sequences;
use crate::marks::Mark;
use crate::story::SequenceDraw;

const OLD: SequenceId = SequenceId(4);
const NEW: SequenceId = SequenceId(9);

fn draw(start: i64, increment: i64, cycles: bool) -> SequenceDraw {
    let bounds = match (cycles, increment > 0) {
        (true, _) => (1, 4),
        (false, true) => (1, i64::MAX),
        (false, false) => (i64::MIN, -1),
    };
    SequenceDraw {
        name: "s0".to_owned(),
        start,
        increment,
        bounds,
        cycles,
    }
}

/// The sequence `OLD` is there.
fn known() -> Sequences {
    let mut known = Sequences::default();
    assert!(!known.is_known(0));
    known.propose(0, OLD);
    known.made(0, OLD).unwrap();
    assert!(known.is_known(0) && !known.is_in_doubt(0));
    known
}

/// Somebody asks in a life, and hears these numbers at once.
fn hear(
    known: &mut Sequences,
    draw: &SequenceDraw,
    id: SequenceId,
    life: u32,
    numbers: &[i64],
) -> Result<Vec<Mark>, String> {
    let asked = known.ask(0, id, numbers.len(), life);
    known.answer(draw, &asked, numbers)
}

#[test]
fn numbers_come_once_and_further() {
    let rising = draw(10, 3, false);
    let mut known = known();
    assert!(hear(&mut known, &rising, OLD, 0, &[13]).is_err());
    hear(&mut known, &rising, OLD, 0, &[16, 22]).unwrap();
    let all_wrong: [&[i64]; 6] = [&[22], &[13], &[26], &[25, 25], &[28, 25], &[]];
    for wrong in all_wrong {
        let heard = hear(&mut known, &rising, OLD, 0, wrong);
        assert!(heard.is_err(), "{wrong:?}");
    }
    let falling = draw(-1, -2, false);
    let mut known = self::known();
    hear(&mut known, &falling, OLD, 0, &[-1, -3]).unwrap();
    assert!(hear(&mut known, &falling, OLD, 0, &[-3]).is_err());
    hear(&mut known, &falling, OLD, 0, &[-7]).unwrap();
}

#[test]
fn those_who_wait_at_once_may_hear_in_any_order_but_never_the_same() {
    let rising = draw(1, 1, false);
    let mut known = known();
    let [one, other] = [0, 0].map(|life| known.ask(0, OLD, 2, life));
    known.answer(&rising, &other, &[3, 4]).unwrap();
    known.answer(&rising, &one, &[1, 2]).unwrap();
    // What is asked for later is behind all of them.
    assert!(hear(&mut known, &rising, OLD, 0, &[3]).is_err());
    let [one, other] = [0, 0].map(|life| known.ask(0, OLD, 1, life));
    known.answer(&rising, &other, &[5]).unwrap();
    assert!(known.answer(&rising, &one, &[5]).is_err());
}

#[test]
fn a_restart_goes_on_behind_what_was_given_out() {
    let rising = draw(1, 1, false);
    let mut known = known();
    hear(&mut known, &rising, OLD, 0, &[1]).unwrap();
    known.opened(0, Some(OLD)).unwrap();
    assert!(hear(&mut known, &rising, OLD, 1, &[1]).is_err());
    let met = hear(&mut known, &rising, OLD, 1, &[33]).unwrap();
    assert!(met.contains(&Mark::NumbersGoOn) && met.contains(&Mark::NumbersSkipped));
    let met = hear(&mut known, &rising, OLD, 1, &[34]).unwrap();
    assert_eq!(met, [Mark::NumbersTaken]);
    assert!(known.opened(0, None).is_err());
}

#[test]
fn a_sequence_that_begins_again_gives_the_same_numbers() {
    let cycling = draw(1, 1, true);
    let mut known = known();
    hear(&mut known, &cycling, OLD, 0, &[1, 2, 3]).unwrap();
    let met = hear(&mut known, &cycling, OLD, 0, &[4, 1]).unwrap();
    assert!(met.contains(&Mark::NumbersAgain));
    assert!(hear(&mut known, &cycling, OLD, 0, &[5]).is_err());
}

#[test]
fn one_that_is_made_again_begins_anew_once_it_is_there() {
    let rising = draw(1, 1, false);
    let mut known = known();
    hear(&mut known, &rising, OLD, 0, &[1, 2]).unwrap();
    known.propose(0, NEW);
    let asked = known.ask(0, OLD, 1, 0);
    assert!(known.may_be_gone(&asked));
    known.see(0, Some(OLD)).unwrap();
    known.see(0, Some(NEW)).unwrap();
    known.made(0, NEW).unwrap();
    assert!(known.see(0, Some(OLD)).is_err());
    let met = hear(&mut known, &rising, NEW, 0, &[1]).unwrap();
    assert!(met.contains(&Mark::SequenceRemade));
}

#[test]
fn what_is_in_doubt_is_told_by_the_next_opening() {
    let mut known = known();
    known.propose(0, NEW);
    known.opened(0, Some(OLD)).unwrap();
    assert!(!known.is_in_doubt(0));
    assert!(known.see(0, Some(NEW)).is_err());
    known.propose(0, NEW);
    known.refused(0, NEW).unwrap();
    assert!(known.see(0, Some(NEW)).is_err());
    known.propose(0, NEW);
    known.see(0, Some(NEW)).unwrap();
    assert!(known.refused(0, NEW).is_err());
}
