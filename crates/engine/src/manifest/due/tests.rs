//! When a checkpoint is due, moment by moment.

use super::*;

/// Of so many edits and fewer, those with which a checkpoint is due.
fn due_up_to(moment: Moment, edits: u64) -> Vec<u64> {
    (0..=edits).filter(|edits| is_due(moment, *edits)).collect()
}

#[test]
fn commits_have_one_written_now_and_then_and_again_where_that_failed() {
    let due = due_up_to(Moment::Committed, EDITS_PER_CHECKPOINT + 2 * RETRY_EDITS);
    let first = EDITS_PER_CHECKPOINT;
    assert_eq!(due, [first, first + RETRY_EDITS, first + 2 * RETRY_EDITS]);
}

#[test]
fn an_opening_has_one_written_where_it_applied_many_edits_or_met_damage() {
    let whole = Moment::Opened { is_damaged: false };
    let due = due_up_to(whole, EDITS_PER_OPENING + 1);
    assert_eq!(due, [EDITS_PER_OPENING, EDITS_PER_OPENING + 1]);
    let damaged = Moment::Opened { is_damaged: true };
    assert_eq!(due_up_to(damaged, 2), [0, 1, 2]);
}

#[test]
fn closing_has_one_written_unless_the_newest_says_all() {
    assert_eq!(due_up_to(Moment::Closing, 3), [1, 2, 3]);
}
