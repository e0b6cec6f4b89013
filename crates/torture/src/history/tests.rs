//! A history that can be, and each way in which it can't.

use std::collections::{BTreeMap, BTreeSet};

use super::{Answer, Fate, Final, History, Reached, Write};
use crate::tables::{Rows, Slot};

fn write(register: u32, number: u64, sent: u64, fate: Fate) -> Write {
    Write {
        register,
        number,
        sent,
        fate,
    }
}

fn answer(session: u64, began: u64, bound: Option<u64>, reached: [(u64, u64); 2]) -> Answer {
    Answer {
        session,
        began,
        ended: began + 5,
        bound,
        after: None,
        at: None,
        reached: (1..)
            .zip(reached.map(|(greatest, count)| Reached { greatest, count }))
            .collect(),
        rows: None,
    }
}

/// Register 1: 1 acknowledged, 2 refused, 3 unknown and there, 4 acknowledged. Register 2: 1
/// unknown and not there, 2 acknowledged after all that.
fn good() -> (History, Final) {
    let mut history = History::default();
    for write in [
        write(1, 1, 10, Fate::Acknowledged(20)),
        write(1, 2, 30, Fate::Refused),
        write(1, 3, 40, Fate::Unknown),
        write(1, 4, 60, Fate::Acknowledged(70)),
        write(2, 1, 35, Fate::Unknown),
        write(2, 2, 80, Fate::Acknowledged(90)),
    ] {
        history.note(write);
    }
    history.answers = vec![
        answer(1, 15, Some(0), [(0, 0), (0, 0)]),
        answer(1, 25, Some(0), [(1, 1), (0, 0)]),
        answer(2, 75, Some(50), [(3, 2), (0, 0)]),
        answer(1, 95, None, [(4, 3), (0, 0)]),
        answer(2, 95, Some(0), [(4, 3), (2, 1)]),
    ];
    let last = BTreeMap::from([(1, BTreeSet::from([1, 3, 4])), (2, BTreeSet::from([2]))]);
    (history, last)
}

/// What is found in the good history after a change of it.
fn found(change: impl FnOnce(&mut History, &mut Final)) -> String {
    let (mut history, mut last) = good();
    change(&mut history, &mut last);
    history.violations(&last).join("\n")
}

#[test]
fn a_history_that_can_be_is_taken() {
    assert_eq!(found(|_, _| {}), "");
}

#[test]
fn each_broken_promise_is_found() {
    let lost = found(|_, last| assert!(last.get_mut(&2).unwrap().remove(&2)));
    assert!(lost.contains("acknowledged and lost"), "{lost}");
    let refused = found(|_, last| assert!(last.get_mut(&1).unwrap().insert(2)));
    assert!(refused.contains("refused, and there"), "{refused}");
    let invented = found(|_, last| assert!(last.get_mut(&2).unwrap().insert(7)));
    assert!(invented.contains("never sent"), "{invented}");
    let vanished = found(|_, last| assert!(last.get_mut(&1).unwrap().remove(&3)));
    assert!(vanished.contains("at the end"), "{vanished}");
    let stale = found(|history, _| {
        history.answers[4]
            .reached
            .insert(2, Reached::default())
            .into_iter()
            .for_each(drop)
    });
    assert!(stale.contains("too stale"), "{stale}");
    let early = found(|history, _| {
        let reached = Reached {
            greatest: 4,
            count: 3,
        };
        history.answers[1].reached.insert(1, reached);
    });
    assert!(early.contains("sent later"), "{early}");
    let back = found(|history, _| {
        history.answers[3].reached.insert(1, Reached::default());
    });
    assert!(back.contains("went back"), "{back}");
    let token = found(|history, _| history.answers[3].after = Some((2, 2)));
    assert!(token.contains("token"), "{token}");
    let prefix = found(|history, _| {
        let reached = Reached {
            greatest: 2,
            count: 1,
        };
        history.answers[2].reached.insert(2, reached);
    });
    assert!(prefix.contains("acknowledged before"), "{prefix}");
    let apart = found(|history, _| {
        let mut other = history.answers[2].clone();
        other.bound = None;
        other.session = 9;
        other.reached = BTreeMap::from([(
            2,
            Reached {
                greatest: 2,
                count: 1,
            },
        )]);
        history.answers.push(other);
    });
    assert!(apart.contains("no order has both"), "{apart}");
}

#[test]
fn stamps_that_lie_are_found() {
    let stamp = |stamps: [u64; 2]| {
        found(|history, _| {
            history.answers[2].at = Some((stamps[0], 0));
            history.answers[3].at = Some((stamps[1], 0));
        })
    };
    assert_eq!(stamp([1, 2]), "");
    for lying in [[2, 1], [2, 2]] {
        let found = stamp(lying);
        assert!(found.contains("stamps order"), "{found}");
    }
}

/// The rows of the last good answer.
fn rows() -> Rows {
    let slot = |number| Slot {
        number,
        side: number,
    };
    let mut cells = BTreeMap::new();
    for cell in 0..8 {
        for register in 1..=5 {
            cells.insert((cell, register), 0);
        }
    }
    cells.extend([((1, 1), 1), ((3, 1), 3), ((4, 1), 4), ((2, 2), 2)]);
    Rows {
        from: 0,
        counted: BTreeMap::from([(1, (3, 8)), (2, (1, 2))]),
        slots: BTreeMap::from([
            ((1, 1), slot(1)),
            ((1, 3), slot(3)),
            ((1, 4), slot(4)),
            ((2, 2), slot(2)),
        ]),
        added: BTreeSet::new(),
        cells,
    }
}

#[test]
fn rows_that_no_batches_make_are_found() {
    let with = |change: fn(&mut Rows)| {
        found(|history, _| {
            let mut rows = rows();
            change(&mut rows);
            history.answers[4].rows = Some(rows);
        })
    };
    assert_eq!(with(|_| {}), "");
    let lost = with(|rows| {
        rows.slots.remove(&(1, 3));
    });
    assert!(lost.contains("rows of slots"), "{lost}");
    let taken_along = with(|rows| {
        rows.cells.insert((2, 2), 0);
    });
    assert!(taken_along.contains("cells"), "{taken_along}");
    let added = with(|rows| {
        rows.added.insert(50);
    });
    assert!(added.contains("columns that were added"), "{added}");
    let twice = with(|rows| {
        rows.counted.insert(1, (4, 12));
    });
    assert!(twice.contains("count and sum"), "{twice}");
    // Rows of a batch of register 2, which the answer has not reached.
    let torn = found(|history, _| history.answers[3].rows = Some(rows()));
    assert!(torn.contains("rows of slots"), "{torn}");
}

#[test]
fn conflicts_without_a_change_are_found() {
    let with = |fate, conflict| {
        found(|history, last| {
            history.note(write(1, 50, 100, fate));
            history.note(write(1, 51, 200, Fate::Refused));
            if matches!(fate, Fate::Acknowledged(_)) {
                assert!(last.get_mut(&1).unwrap().insert(50));
            }
            history.conflicts.push(conflict);
        })
    };
    let acknowledged = Fate::Acknowledged(110);
    for (fate, conflict) in [
        (acknowledged, (90, 100)),
        (acknowledged, (105, 150)),
        (acknowledged, (110, 150)),
        (Fate::Unknown, (150, 160)),
        (Fate::Refused, (200, 210)),
    ] {
        assert_eq!(with(fate, conflict), "", "{fate:?} {conflict:?}");
    }
    for (fate, conflict) in [
        (acknowledged, (90, 99)),
        (acknowledged, (111, 150)),
        (Fate::Unknown, (201, 210)),
    ] {
        let found = with(fate, conflict);
        assert!(found.contains("a change that nobody made"), "{found}");
    }
}

#[test]
fn a_batch_that_is_sent_again_stands_once() {
    let mut history = History::default();
    history.note(write(1, 1, 10, Fate::Unknown));
    history.note(write(1, 1, 50, Fate::Acknowledged(60)));
    let writes = &history.writes[&1];
    assert_eq!((writes.len(), writes[0].sent), (1, 10));
    assert_eq!(writes[0].fate, Fate::Acknowledged(60));
}
