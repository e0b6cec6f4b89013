//! The model against short stories told by hand.

use lazybase_model::{Horizon, MergeOperator, ScuNumber};

use super::{Batch, Change, Fate, Model, OnRow, Row};
use crate::schema::{ColumnDraw, CutDraw, Kind, TableDraw};

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
        later: Vec::new(),
        owned: None,
    }
}

fn batch(parts: Vec<(usize, Vec<Change>)>) -> Batch {
    Batch {
        writer: 0,
        parts,
        empties: None,
        replaces: None,
        remakes: None,
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

/// A batch that replaces a range partition finds it empty, and the others as they were; so does who
/// reads right before it.
#[test]
fn a_replaced_partition_has_the_rows_of_its_batch_alone() {
    let cut = CutDraw {
        buckets: None,
        bounds: vec![5],
    };
    let ranged = TableDraw {
        cut: Some(cut),
        ..table()
    };
    let mut model = Model::new(vec![ranged]);
    let first = model.send(batch(vec![(
        0,
        vec![insert(4, 1), insert(5, 2), insert(9, 3)],
    )]));
    let second = model.send(Batch {
        replaces: Some((0, 1)),
        ..batch(vec![(0, vec![insert(9, 4)])])
    });
    let (before, after) = (ScuNumber(1), ScuNumber(3));
    model.heard(first, Horizon::inside(before, 1), 10).unwrap();
    model
        .learn(&[(1, 0, 0)], Horizon::end_of(ScuNumber(2)), 0)
        .unwrap();
    model.heard(second, Horizon::inside(after, 1), 11).unwrap();
    model.see_times(&Default::default()).unwrap();
    assert_eq!(model.emptied_after(1), Some((after, 0, Some(1))));
    let keys = |model: &mut Model, batches| {
        let rows = model.held_after(batches, 0).rows;
        rows.keys().map(|key| key[0]).collect::<Vec<i64>>()
    };
    assert_eq!(keys(&mut model, 1), [4, 5, 9]);
    assert_eq!(keys(&mut model, 2), [4, 9]);
    let held = model.held_after(2, 0);
    assert_eq!(held.rows.get(&[9, 0]).map(|row| row[1]), Some(Some(4)));
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
