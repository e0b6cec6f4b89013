//! The model against short stories told by hand.

use lazybase_model::{Horizon, MergeOperator, ScuNumber};

use super::{Batch, Change, Fate, Model, OnRow, Row};
use crate::schema::{ColumnDraw, Kind, TableDraw};

fn table() -> TableDraw {
    let column = |merge| ColumnDraw {
        merge,
        ..ColumnDraw::plain(Kind::Long)
    };
    TableDraw {
        name: "t".to_owned(),
        columns: vec![column(None), column(Some(MergeOperator::Sum))],
        keys: 1,
        key_values: [10, 1],
        point: false,
        cut: None,
        ttl: None,
        views: Vec::new(),
        owned: None,
    }
}

fn batch(parts: Vec<(usize, Vec<Change>)>) -> Batch {
    Batch {
        writer: 0,
        parts,
        empties: None,
        alters: None,
        given: Default::default(),
        fate: Fate::Sent,
        place: None,
        sent_micros: 0,
        heard_micros: None,
    }
}

fn insert(key: i64, value: i64) -> Change {
    Change {
        key: [key, 0],
        on_row: OnRow::Keep(vec![(1, Some(value), true)]),
        on_absent: Some(Row::from([Some(key), Some(value)])),
    }
}

#[test]
fn batches_apply_in_their_order_and_not_in_that_of_their_sending() {
    let mut model = Model::new(vec![table()]);
    let first = model.send(batch(vec![(0, vec![insert(1, 5)])]));
    let second = model.send(batch(vec![(0, vec![insert(1, 7)])]));
    model
        .heard(second, Horizon::inside(ScuNumber(1), 1), 10)
        .unwrap();
    assert!(!model.knows(Horizon::inside(ScuNumber(1), 2)));
    model
        .heard(first, Horizon::inside(ScuNumber(1), 2), 11)
        .unwrap();
    let at = |model: &mut Model, batches| {
        let horizon = Horizon::inside(ScuNumber(1), batches);
        model.see_times(&Default::default()).unwrap();
        assert!(model.knows(horizon));
        let count = model.count_to(horizon);
        model
            .held_after(count, 0)
            .rows
            .get(&[1, 0])
            .map(|row| row[1])
    };
    assert_eq!(at(&mut model, 1), Some(Some(7)));
    assert_eq!(at(&mut model, 2), Some(Some(12)));
}

#[test]
fn a_ledger_that_lacks_an_acknowledged_batch_or_shows_one_twice_is_wrong() {
    let mut model = Model::new(vec![table()]);
    let one = model.send(batch(Vec::new()));
    model
        .heard(one, Horizon::inside(ScuNumber(1), 1), 10)
        .unwrap();
    let end = Horizon::end_of(ScuNumber(1));
    assert!(model.learn(&[], end, 0).unwrap_err().contains("lost"));
    assert!(model.learn(&[(1, 0, 0), (1, 1, 0)], end, 0).is_err());
    assert!(model.learn(&[(1, 0, 7)], end, 0).is_err());
    model.learn(&[(1, 0, 0)], end, 0).unwrap();
    assert!(model.knows(end));
    let two = model.send(batch(Vec::new()));
    let late = model.heard(two, Horizon::inside(ScuNumber(1), 2), 12);
    assert!(late.unwrap_err().contains("lacked it"));
}

#[test]
fn a_batch_in_doubt_may_come_back_after_a_restart_only() {
    let mut model = Model::new(vec![table()]);
    let doubtful = model.send(batch(Vec::new()));
    model.failed(doubtful, Fate::InDoubt { life: 1 }).unwrap();
    let horizon = Horizon::inside(ScuNumber(1), 1);
    assert!(model.learn(&[(1, 0, 0)], horizon, 1).is_err());
    model.learn(&[(1, 0, 0)], horizon, 2).unwrap();
}
