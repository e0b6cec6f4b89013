//! A transaction's own changes: found by key, through one index for all reads.

use std::ptr;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use lazybase_model::{Column, Table, TableId, ViewId};

use super::*;
use crate::key::KeyCodec;

fn table(version: u32) -> Arc<Table> {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
    ];
    let version = SchemaVersion(version);
    let table = Table::new(TableId(1), ViewId(1), "t", columns, &[0]);
    Arc::new(Table { version, ..table })
}

fn upserts(rows: impl IntoIterator<Item = (i64, i64)>) -> OwnChanges {
    let (ids, values): (Vec<i64>, Vec<i64>) = rows.into_iter().unzip();
    let column = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let columns = vec![("id", column(ids), true), ("value", column(values), true)];
    let data = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    ChangeBatch::upserts(data, 0).into()
}

fn found(layout: &RowLayout, own: &[OwnChanges], id: i64) -> Option<i64> {
    let codec = KeyCodec::primary(&layout.table).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![id]));
    let keys = codec.encode_columns(&[ids]).unwrap();
    let change = find_own(layout, own, &Key::new(keys.row(0).data())).unwrap()?;
    Some(change.data.column(1).as_primitive::<Int64Type>().value(0))
}

#[test]
fn the_newest_change_of_a_key_is_found_and_the_index_made_once() {
    let layout = RowLayout::primary(&table(1)).unwrap();
    let own = vec![
        upserts((0..100).map(|id| (id, 1))),
        upserts([(7, 2), (8, 2), (7, 3)]),
    ];
    assert_eq!(found(&layout, &own, 100), None);
    let made = own
        .iter()
        .map(|own| ptr::from_ref(own.places.get().unwrap()));
    let made: Vec<_> = made.collect();
    // Each read of a transaction has clones of its changes.
    for id in 0..100 {
        let wanted = match id {
            7 => 3,
            8 => 2,
            _ => 1,
        };
        assert_eq!(found(&layout, &own.clone(), id), Some(wanted));
    }
    let now = own
        .iter()
        .map(|own| ptr::from_ref(own.places.get().unwrap()));
    assert_eq!(now.collect::<Vec<_>>(), made);
    // Under another definition keys may be encoded otherwise.
    let other = RowLayout::primary(&table(2)).unwrap();
    assert_eq!(found(&other, &own, 7), Some(3));
}
