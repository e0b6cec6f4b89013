//! The vectorised assignment gives the numbers of the scalar specification, in any cut of an SCU
//! into batches, and of mentions into columns; each natural key stands once in a batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use lazybase_model::id_key::{assign_one_by_one, temporary_id};
use lazybase_model::table::{Column, Table};
use lazybase_model::{
    ColumnDefault, IdKeyColumn, MergeOperator, NextIds, SchemaVersion, ScuNumber, TableId, ViewId,
};
use proptest::prelude::*;

use super::key_table::KeyTable;
use super::{Assigned, BatchKeys, KeyedChanges, Known, MentionedKeys, Mentions, rows_of_owner};
use crate::change_batch::ChangeBatch;
use crate::key::KeyCodec;
use crate::schema::{Alteration, altered, encode_cell};
use crate::segment::key_hash;
use crate::stages::ingest::data_schema;

fn owner() -> Table {
    let mut id = Column::new("id", DataType::Int64);
    id.nullable = false;
    id.id_key = Some(IdKeyColumn {
        map: TableId(2),
        owner: TableId(1),
    });
    let columns = vec![id, Column::new("host", DataType::Utf8)];
    Table::new(TableId(1), ViewId(1), "files", columns, &[1])
}

fn map() -> Arc<Table> {
    Arc::new(owner().key_map_table(TableId(2), ViewId(2)))
}

/// A table with two references.
fn sizes() -> Table {
    let reference = |name| Column {
        id_key: Some(IdKeyColumn {
            map: TableId(2),
            owner: TableId(1),
        }),
        ..Column::new(name, DataType::Int64)
    };
    let columns = vec![
        reference("a"),
        reference("b"),
        Column::new("n", DataType::Int64),
    ];
    Table::new(TableId(3), ViewId(3), "sizes", columns, &[2])
}

/// Sums are stored wider than they are declared, in the rows that references make too: of a column
/// that gets its default, of one without, and of one that was added later.
#[test]
fn a_reference_makes_rows_of_an_owner_that_has_sums() {
    let sum = |name: &str, default: ColumnDefault| Column {
        merge: Some(MergeOperator::Sum),
        default,
        ..Column::new(name, DataType::Int32)
    };
    let seven: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    let mut columns = owner().columns;
    columns.push(sum("given", ColumnDefault::Expression("5".to_owned())));
    columns.push(sum("empty", ColumnDefault::Null));
    let owner = Table::new(TableId(1), ViewId(1), "files", columns, &[1]);
    let map = owner.key_map_table(TableId(2), ViewId(2));
    let later = Column {
        older: encode_cell(&seven).unwrap(),
        ..sum("later", ColumnDefault::Null)
    };
    let add = [Alteration::AddColumn(later)];
    let owner = altered(&owner, &add, SchemaVersion(9)).unwrap();
    let mentioned: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["a", "b"])),
        Arc::new(Int64Array::from(vec![0, 0])),
        Arc::new(Int32Array::from(vec![5, 5])),
    ];
    let mentioned = RecordBatch::try_new(data_schema(&map), mentioned).unwrap();
    let ids = Int64Array::from(vec![16, 17]);
    let made = rows_of_owner(&owner, &map, &mentioned, ids).unwrap();
    let sums = |at: usize| -> Vec<Option<i128>> {
        let cells = made.data.column(at).as_primitive::<Decimal128Type>();
        cells.iter().collect()
    };
    assert_eq!(sums(2), [Some(5); 2]);
    assert_eq!(sums(3), [None; 2]);
    assert_eq!(sums(4), [Some(7); 2]);
}

/// Rows of the map for keys.
fn map_rows(keys: &[u8]) -> RecordBatch {
    let names = StringArray::from_iter_values(keys.iter().map(|key| format!("k{key}")));
    let nothing = Int64Array::from(vec![0; keys.len()]);
    RecordBatch::try_new(
        data_schema(&map()),
        vec![Arc::new(names), Arc::new(nothing)],
    )
    .unwrap()
}

fn hash_of(key: u8) -> u64 {
    let codec = KeyCodec::primary(&map()).unwrap();
    let keys = codec.encode(&map_rows(&[key])).unwrap();
    key_hash(keys.row(0).data())
}

#[test]
fn a_key_table_numbers_distinct_keys() {
    let mut table = KeyTable::default();
    let words: Vec<String> = (0..1000).map(|at| format!("key {}", at % 300)).collect();
    for (at, word) in words.iter().enumerate() {
        let (place, new) = table.insert(key_hash(word.as_bytes()), word.as_bytes());
        assert_eq!((place as usize, new), (at % 300, at < 300));
    }
    assert_eq!(table.len(), 300);
    assert_eq!(table.key(7), b"key 7");
    assert_eq!(table.get(key_hash(b"key 299"), b"key 299"), Some(299));
    assert_eq!(table.get(key_hash(b"key 300"), b"key 300"), None);
    let mut sorted: Vec<u32> = (0..300).collect();
    table.sort(&mut sorted);
    assert!(
        sorted
            .windows(2)
            .all(|pair| { table.key(pair[0] as usize) < table.key(pair[1] as usize) })
    );
}

/// Rows that refer to keys by local places, as a writer gives them.
fn keyed(rows: &[(u8, Option<u8>)]) -> KeyedChanges {
    let mut local = Vec::new();
    let mut place = |key: u8| {
        local.push(key);
        temporary_id(local.len() as u32 - 1)
    };
    let mut a = Vec::new();
    let mut b = Vec::new();
    for (first, second) in rows {
        a.push(place(*first));
        b.push(second.map(&mut place));
    }
    let n = Int64Array::from_iter_values(0..rows.len() as i64);
    let columns: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(Int64Array::from(a)),
        Arc::new(Int64Array::from(b)),
        Arc::new(n),
    ];
    let data = RecordBatch::try_new(data_schema(&sizes()), columns).unwrap();
    KeyedChanges {
        changes: ChangeBatch::upserts(data, 0),
        keys: vec![MentionedKeys {
            map: map(),
            rows: map_rows(&local),
            generated: Vec::new(),
        }],
        generated: Vec::new(),
    }
}

/// What stands in the log: the names of mentioned keys, and the ID cells of rows.
fn logged(pieces: &[&[(u8, Option<u8>)]]) -> (Vec<String>, Vec<(i64, Option<i64>)>) {
    let (mut names, mut cells) = (Vec::new(), Vec::new());
    let mut keys = BatchKeys::default();
    for piece in pieces {
        let (mentions, changes) = keys.place(&sizes(), keyed(piece)).unwrap();
        for mention in mentions {
            let host = mention.rows.data.column(0).as_string::<i32>();
            names.extend(host.iter().flatten().map(str::to_owned));
        }
        let a = changes.data.column(0).as_primitive::<Int64Type>();
        let b = changes.data.column(1).as_primitive::<Int64Type>();
        cells.extend(a.iter().flatten().zip(b.iter()));
    }
    (names, cells)
}

#[test]
fn wrong_ids_are_refused() {
    let mut keys = BatchKeys::default();
    let mut changes = keyed(&[(1, None)]);
    changes.keys.clear();
    let error = keys.place(&sizes(), changes).unwrap_err();
    assert_eq!(error.sqlstate(), "23503");
}

proptest! {
    #[test]
    fn places_do_not_depend_on_the_pieces(
        rows in prop::collection::vec((0_u8..9, prop::option::of(0_u8..9)), 1..40),
        cut in 0_usize..40,
    ) {
        let cut = cut.min(rows.len());
        let whole = logged(&[&rows]);
        prop_assert_eq!(&whole, &logged(&[&rows[..cut], &rows[cut..]]));
        let (names, cells) = whole;
        let mut distinct = names.clone();
        distinct.sort();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), names.len());
        let name = |id: i64| names[(-1 - id) as usize].clone();
        for ((a, b), (first, second)) in rows.iter().zip(cells) {
            prop_assert_eq!(name(first), format!("k{a}"));
            prop_assert_eq!(second.map(name), b.map(|b| format!("k{b}")));
        }
    }

    #[test]
    fn numbers_are_those_of_the_specification(
        before in prop::collection::btree_set(0_u8..30, 0..20),
        batches in prop::collection::vec(prop::collection::vec(0_u8..30, 0..12), 1..8),
        forgotten in any::<bool>(),
    ) {
        let mut known = BTreeMap::new();
        let mut next = NextIds::first(4);
        assign_one_by_one(&mut known, &mut next, before.iter().map(|key| (*key, hash_of(*key))));
        let stored = known.clone();
        let mut assigned = Assigned::new(ScuNumber(5), next.clone());
        let mut expected = Vec::new();
        for (at, batch) in batches.iter().enumerate() {
            let mentions = batch.iter().map(|key| (*key, hash_of(*key)));
            expected.extend(assign_one_by_one(&mut known, &mut next, mentions));
            let mut of_batch = Mentions::default();
            let mut distinct = KeyTable::default();
            let codec = KeyCodec::primary(&map()).unwrap();
            of_batch.add(&mut distinct, &codec, &map_rows(batch)).unwrap();
            let mut found: Vec<Option<Known>> = vec![None; distinct.len()];
            let mut numbers = vec![0; distinct.len()];
            for key in batch {
                let encoded = codec.encode(&map_rows(&[*key])).unwrap();
                let (hash, bytes) = (key_hash(encoded.row(0).data()), encoded.row(0));
                let at = distinct.get(hash, bytes.data()).unwrap() as usize;
                numbers[at] = assigned.fresh(hash, bytes.data()).unwrap_or(0);
                found[at] = match stored.get(key) {
                    Some(id) => Some(Known { id: *id, scu: 4 }),
                    // What an earlier attempt wrote must come out again.
                    None if forgotten => known.get(key).map(|id| Known { id: *id, scu: 5 }),
                    None => None,
                };
            }
            let through = at as u32 + 1;
            assigned.extend(&distinct, &of_batch, &mut numbers, &found, through).unwrap();
        }
        prop_assert_eq!(&assigned.ids, &expected);
        prop_assert_eq!(&assigned.next, &next);
        let firsts: Vec<u32> = (0..expected.len() as u32).filter(|at| {
            let id = expected[*at as usize];
            !stored.values().any(|old| *old == id)
                && !expected[..*at as usize].contains(&id)
        }).collect();
        prop_assert_eq!(&assigned.new, &firsts);
        let mut first = 0;
        for batch in &batches {
            let mentions = first..first + batch.len() as u64;
            let given = firsts.iter().any(|at| mentions.contains(&u64::from(*at)));
            prop_assert_eq!(assigned.gives_new(mentions.clone()), given);
            first = mentions.end;
        }
    }
}
