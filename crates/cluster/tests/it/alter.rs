//! Schema changes between batches: the same rows at every stage, for every horizon that is kept
//! with the columns that it had; whole or not at all after a power cut.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};
use futures::executor::block_on;
use lazybase_cluster::{Instance, SettleTo, TableSpec};
use lazybase_engine::change_batch::{ChangeBatch, Kinds, Scus, masks};
use lazybase_engine::env::faults::{Faults, FaultyStore};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_engine::manifest::Ddl;
use lazybase_engine::read::{HiddenColumn, Snapshot};
use lazybase_engine::schema::{Alteration, encode_cell};
use lazybase_engine::segment::RowLayout;
use lazybase_model::change::StoredKind;
use lazybase_model::{Column, ColumnId, ErrorKind, Freshness, Result, ScuNumber, Table, TableId};
use proptest::prelude::*;

use crate::harness::{
    Change, at, batches, close_whole, crash_images, create, fresh, keeping, open, settings,
};

/// What a cell holds; `None` is NULL.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Int(i64),
    Text(String),
}

type Cells = BTreeMap<ColumnId, Option<Value>>;

/// A row of the model: its cells but the key's, and the SCU that set each, the key's included.
#[derive(Debug, Clone, Default)]
struct Row {
    cells: Cells,
    scus: BTreeMap<ColumnId, u64>,
}

/// The naive model: the definition, and rows by key with their other cells.
#[derive(Debug, Clone)]
struct Model {
    table: Arc<Table>,
    rows: BTreeMap<i64, Row>,
}

/// A change of one row, in numbers: what it does to which columns depends on the definition.
#[derive(Debug, Clone)]
struct Op {
    id: i64,
    kind: u8,
    sets: u8,
    values: [u8; 4],
}

#[derive(Debug, Clone)]
enum Act {
    Batch(Vec<Op>),
    /// A batch of another table.
    Quiet,
    /// A change of the definition, alone or with a batch under the new one.
    Alter(u8, Vec<Op>),
    Seal,
    Sorted,
    Authority,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    (
        0..30_i64,
        0..8_u8,
        any::<u8>(),
        prop::array::uniform4(0..5_u8),
    )
        .prop_map(|(id, kind, sets, values)| Op {
            id,
            kind,
            sets,
            values,
        })
}

fn act() -> impl Strategy<Value = Act> {
    let ops = || prop::collection::vec(op(), 1..10);
    prop_oneof![
        8 => ops().prop_map(Act::Batch),
        1 => Just(Act::Quiet),
        4 => (any::<u8>(), prop::collection::vec(op(), 0..6))
            .prop_map(|(number, ops)| Act::Alter(number, ops)),
        2 => Just(Act::Seal),
        2 => Just(Act::Sorted),
        2 => Just(Act::Authority),
        1 => Just(Act::Reopen),
    ]
}

/// id BIGINT, count INT, note TEXT.
fn first_columns() -> Vec<Column> {
    vec![
        Column::new("id", DataType::Int64),
        Column::new("count", DataType::Int32),
        Column::new("note", DataType::Utf8),
    ]
}

fn make(instance: &Instance) -> Arc<Table> {
    let spec = TableSpec::new("t", first_columns(), &["id"]);
    block_on(instance.create_table(spec, false))
        .unwrap()
        .unwrap()
}

fn cell(column: &Column, number: u8) -> Option<Value> {
    match (number, &column.data_type) {
        (0, _) => None,
        (_, DataType::Utf8) => Some(Value::Text(format!("text {number}"))),
        _ => Some(Value::Int(i64::from(number) * 11)),
    }
}

fn array(data_type: &DataType, cells: &[Option<Value>]) -> ArrayRef {
    let ints = || {
        cells.iter().map(|cell| match cell {
            Some(Value::Int(int)) => Some(*int),
            _ => None,
        })
    };
    match data_type {
        DataType::Utf8 => Arc::new(StringArray::from_iter(cells.iter().map(
            |cell| match cell {
                Some(Value::Text(text)) => Some(text.clone()),
                _ => None,
            },
        ))),
        DataType::Int32 => Arc::new(Int32Array::from_iter(
            ints().map(|int| int.map(|int| i32::try_from(int).unwrap())),
        )),
        _ => Arc::new(Int64Array::from_iter(ints())),
    }
}

fn value(column: &ArrayRef, row: usize) -> Option<Value> {
    column.is_valid(row).then(|| match column.data_type() {
        DataType::Utf8 => Value::Text(column.as_string::<i32>().value(row).to_owned()),
        DataType::Int32 => Value::Int(column.as_primitive::<Int32Type>().value(row).into()),
        _ => Value::Int(column.as_primitive::<Int64Type>().value(row)),
    })
}

impl Op {
    fn kind(&self) -> StoredKind {
        match self.kind {
            0..=2 => StoredKind::UPSERT,
            3 => StoredKind::DELETE,
            4 | 5 => StoredKind::UPDATE,
            _ => StoredKind::BOTH,
        }
    }

    fn cells(&self, table: &Table) -> Cells {
        let columns = table.columns.iter().skip(1).enumerate();
        let cells = columns.map(|(at, column)| (column.id, cell(column, self.values[at % 4])));
        cells.collect()
    }

    /// The positions of the columns that it sets; never the key's.
    fn set(&self, table: &Table) -> Vec<usize> {
        let columns = 1..table.columns.len();
        columns
            .filter(|at| self.sets >> (at % 8) & 1 == 1)
            .collect()
    }
}

/// Operations in the stored form; the key is the first column.
fn changes(table: &Arc<Table>, ops: &[Op]) -> ChangeBatch {
    let width = table.columns.len();
    let mut columns: Vec<Vec<Option<Value>>> = vec![Vec::new(); width];
    let mut row_masks: Vec<Option<Vec<u8>>> = Vec::new();
    for op in ops {
        let (kind, set) = (op.kind(), op.set(table));
        let cells = op.cells(table);
        columns[0].push(Some(Value::Int(op.id)));
        for (at, column) in table.columns.iter().enumerate().skip(1) {
            let carried = kind.makes_row() || (kind.keeps_row() && set.contains(&at));
            columns[at].push(cells[&column.id].clone().filter(|_| carried));
        }
        row_masks.push(kind.keeps_row().then(|| masks::mask_of(set, width)));
    }
    let layout = RowLayout::primary(table).unwrap();
    let arrays = table.columns.iter().zip(&columns);
    let arrays = arrays.map(|(column, cells)| array(&column.data_type, cells));
    let data = RecordBatch::try_new(layout.schema, arrays.collect()).unwrap();
    let masked = row_masks.iter().any(Option::is_some);
    let kinds: Vec<u8> = ops.iter().map(|op| op.kind().bits()).collect();
    ChangeBatch {
        data,
        kinds: Kinds::Each(kinds.into()),
        masks: masked.then(|| row_masks.iter().map(Option::as_deref).collect()),
        scus: Scus::Uniform(0),
        column_scus: None,
    }
}

impl Model {
    fn apply(&mut self, ops: &[Op], scu: u64) {
        for op in ops {
            let cells = op.cells(&self.table);
            let kind = op.kind();
            match self.rows.get_mut(&op.id) {
                Some(row) if kind.keeps_row() => {
                    for at in op.set(&self.table) {
                        let id = self.table.columns[at].id;
                        row.cells.insert(id, cells[&id].clone());
                        row.scus.insert(id, scu);
                    }
                }
                _ if kind.makes_row() => {
                    let columns = self.table.columns.iter();
                    let scus = columns.map(|column| (column.id, scu)).collect();
                    self.rows.insert(op.id, Row { cells, scus });
                }
                _ if !kind.keeps_row() => {
                    self.rows.remove(&op.id);
                }
                _ => {}
            }
        }
    }

    /// The table goes on as `next`: rows get what was fixed for them.
    fn follow(&mut self, next: Arc<Table>) {
        for row in self.rows.values_mut() {
            let before = std::mem::take(row);
            let made = before.scus[&next.columns[0].id];
            for column in &next.columns {
                let scu = before.scus.get(&column.id).copied().unwrap_or(made);
                row.scus.insert(column.id, scu);
            }
            for column in next.columns.iter().skip(1) {
                let fixed = || {
                    let older = column.older.as_ref();
                    let cell = lazybase_engine::schema::decode_cell(older, &column.data_type);
                    value(&cell.unwrap(), 0)
                };
                let kept = before.cells.get(&column.id).cloned();
                row.cells.insert(column.id, kept.unwrap_or_else(fixed));
            }
        }
        self.table = next;
    }

    fn rows(&self) -> Vec<Vec<Option<Value>>> {
        let row = |(id, row): (&i64, &Row)| {
            let columns = self.table.columns.iter().skip(1);
            let cells = columns.map(|column| row.cells[&column.id].clone());
            std::iter::once(Some(Value::Int(*id)))
                .chain(cells)
                .collect()
        };
        self.rows.iter().map(row).collect()
    }
}

impl Model {
    /// For each row the SCU that last changed it, then those of its columns.
    fn scus(&self) -> Vec<Vec<u64>> {
        let row = |row: &Row| {
            let columns = self.table.columns.iter();
            let of_columns: Vec<u64> = columns.map(|column| row.scus[&column.id]).collect();
            let newest = of_columns.iter().copied().max();
            newest.into_iter().chain(of_columns).collect()
        };
        self.rows.values().map(row).collect()
    }
}

/// The time of each SCU that was ever seen: it never changes, and never falls.
type Times = BTreeMap<u64, i64>;

/// Hidden columns: the model's SCUs, and times that go with them.
fn check_hidden(snapshot: &Snapshot, model: &Model, times: &mut Times, what: &str) {
    let table = snapshot.definition(model.table.id).unwrap();
    let of_columns = (0..table.columns.len()).map(HiddenColumn::TimeOf);
    let hidden = [HiddenColumn::Scu, HiddenColumn::Time];
    let hidden = hidden.into_iter().chain(of_columns);
    let projection = hidden.map(|hidden| hidden.position(&table)).collect();
    let mut found: Vec<(u64, Vec<i64>)> = Vec::new();
    for batch in batches(snapshot, table.id, projection).unwrap() {
        let scus = batch.column(0).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let time = |at: usize| {
                let column = batch.column(at).as_primitive::<TimestampMicrosecondType>();
                assert!(column.is_valid(row), "{what}: a time is known");
                column.value(row)
            };
            let of_row = (1..batch.num_columns()).map(time).collect();
            found.push((scus.value(row) as u64, of_row));
        }
    }
    let expected = model.scus();
    assert_eq!(found.len(), expected.len(), "{what}");
    for ((scu, shown), expected) in found.iter().zip(&expected) {
        assert_eq!(*scu, expected[0], "{what}");
        for (scu, time) in expected.iter().zip(shown) {
            assert_eq!(
                times.entry(*scu).or_insert(*time),
                time,
                "{what}: SCU {scu}"
            );
        }
    }
    assert!(times.values().is_sorted(), "{what}: times fall");
}

fn rows_of(batch: &RecordBatch) -> Vec<Vec<Option<Value>>> {
    let row = |row| {
        batch
            .columns()
            .iter()
            .map(|column| value(column, row))
            .collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

fn scan(snapshot: &Snapshot, id: TableId, columns: Vec<usize>) -> Vec<Vec<Option<Value>>> {
    let batches = batches(snapshot, id, columns).unwrap();
    batches.iter().flat_map(rows_of).collect()
}

/// Scans of all columns and of the last one, and reads by key, give the model's rows.
fn check(snapshot: &Snapshot, model: &Model, what: &str) {
    let table = snapshot.definition(model.table.id).unwrap();
    assert_eq!(table.columns, model.table.columns, "{what}");
    let expected = model.rows();
    let all: Vec<usize> = (0..table.columns.len()).collect();
    assert_eq!(scan(snapshot, table.id, all), expected, "{what}");
    let last = table.columns.len() - 1;
    let found = scan(snapshot, table.id, vec![last]);
    let wanted: Vec<_> = expected.iter().map(|row| vec![row[last].clone()]).collect();
    assert_eq!(found, wanted, "{what}");
    let codec = KeyCodec::primary(&table).unwrap();
    for id in [0, 7, 13, 29] {
        let op = Op {
            id,
            kind: 3,
            sets: 0,
            values: [0; 4],
        };
        let keys = codec.encode(&changes(&table, &[op]).data).unwrap();
        let key = Key::new(keys.row(0).data());
        let all: Vec<usize> = (0..table.columns.len()).collect();
        let found = block_on(snapshot.get(table.id, &[key], &all, &[])).unwrap();
        let of_key = |row: &&Vec<Option<Value>>| row[0] == Some(Value::Int(id));
        let wanted: Vec<_> = expected.iter().filter(of_key).cloned().collect();
        assert_eq!(rows_of(&found), wanted, "{what}, key {id}");
    }
}

/// One of the changes that the definition allows; `made` makes names that are new.
fn alteration(table: &Table, number: u8, made: &mut u32) -> Vec<Alteration> {
    *made += 1;
    let fixed = |value: ArrayRef| encode_cell(&value).unwrap();
    let at = 1 + usize::from(number / 8) % (table.columns.len() - 1).max(1);
    let other = table.columns.get(at).filter(|_| table.columns.len() > 2);
    let add = |data_type: DataType, value: Option<ArrayRef>| {
        Alteration::AddColumn(Column {
            older: value.and_then(fixed),
            ..Column::new(format!("c{made}"), data_type)
        })
    };
    let seven: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["older"]));
    match (number % 8, other) {
        (0, _) => vec![add(DataType::Int32, Some(seven))],
        (1, _) => vec![add(DataType::Utf8, Some(text))],
        (2, _) | (_, None) => vec![add(DataType::Int64, None)],
        (3, Some(column)) => vec![Alteration::RenameColumn {
            from: column.name.clone(),
            to: format!("n{made}"),
        }],
        (4 | 5, Some(column)) => vec![
            Alteration::DropColumn(column.name.clone()),
            add(DataType::Int32, Some(seven)),
        ],
        (6, Some(column)) => vec![Alteration::DropColumn(column.name.clone())],
        (_, Some(column)) if column.data_type == DataType::Int32 => vec![Alteration::SetType {
            column: column.name.clone(),
            data_type: DataType::Int64,
            characters_max: None,
            json: false,
        }],
        (_, Some(column)) => vec![Alteration::Comment {
            column: Some(column.name.clone()),
            text: Some(format!("comment {made}")),
        }],
    }
}

/// Commits a batch; says which SCU it is in.
fn commit(instance: &Instance, table: &Arc<Table>, ops: &[Op]) -> Result<u64> {
    block_on(async {
        let mut writer = instance.begin(None);
        writer.append(table, changes(table, ops)).await?;
        let done = writer.commit().await?;
        Ok(done.token.horizon.scu.0)
    })
}

/// Changes the definition and writes under the new one, as one transaction.
fn alter(
    instance: &Instance,
    before: &Arc<Table>,
    changes_of_table: &[Alteration],
    ops: &[Op],
) -> Result<(Arc<Table>, u64)> {
    let next = instance.define_alteration(before, changes_of_table)?;
    let ddl = vec![Ddl::Alter {
        base: before.version,
        table: next.as_ref().clone(),
    }];
    let done = block_on(async {
        let mut writer = instance.begin(None);
        if !ops.is_empty() {
            writer.append(&next, changes(&next, ops)).await?;
        }
        instance.commit(ddl, Some(writer)).await
    })?;
    Ok((next, done.map_or(0, |done| done.token.horizon.scu.0)))
}

fn run_story(acts: Vec<Act>) {
    let store = Arc::new(MemoryStore::without_history());
    let keep = keeping();
    let mut instance = open(Arc::clone(&store) as _, keep.clone()).unwrap();
    let other = create(&instance, "other");
    let mut model = Model {
        table: make(&instance),
        rows: BTreeMap::new(),
    };
    let mut boundaries: Vec<(ScuNumber, Model)> = Vec::new();
    let mut made = 0;
    let mut pinned: Vec<(Snapshot, Model)> = Vec::new();
    let mut times = Times::new();
    for act in acts {
        let seals = matches!(act, Act::Seal | Act::Alter(..));
        if seals {
            let sealed = block_on(instance.seal()).unwrap();
            let known = boundaries.last().map_or(ScuNumber::ZERO, |(scu, _)| *scu);
            if known < sealed {
                boundaries.push((sealed, model.clone()));
            }
        }
        match act {
            Act::Batch(ops) => {
                let scu = commit(&instance, &model.table, &ops).unwrap();
                model.apply(&ops, scu);
            }
            Act::Quiet => {
                let change = [Change::Upsert((1, None, None))];
                crate::harness::commit(&instance, &[(&other, &change)]).unwrap();
            }
            Act::Alter(number, ops) => {
                pinned.push((fresh(&instance, Freshness::ZERO), model.clone()));
                let asked = alteration(&model.table, number, &mut made);
                let (next, scu) = alter(&instance, &model.table, &asked, &ops).unwrap();
                // A batch under the definition before is refused whole.
                let error = commit(
                    &instance,
                    &model.table,
                    &[Op {
                        id: 1,
                        kind: 0,
                        sets: 0,
                        values: [1; 4],
                    }],
                );
                assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict);
                model.follow(next);
                model.apply(&ops, scu);
            }
            Act::Seal => {}
            Act::Sorted => {
                block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
            }
            Act::Authority => {
                block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
                check(&fresh(&instance, Freshness::BestEffort), &model, "settled");
            }
            Act::Reopen => {
                pinned.clear();
                block_on(instance.close()).unwrap();
                instance = open(Arc::clone(&store) as _, keep.clone()).unwrap();
            }
        }
        let now = fresh(&instance, Freshness::ZERO);
        check(&now, &model, "now");
        check_hidden(&now, &model, &mut times, "now");
    }
    for (snapshot, expected) in &pinned {
        check(snapshot, expected, "pinned before a change");
        check_hidden(snapshot, expected, &mut times, "pinned before a change");
    }
    pinned.clear();
    for (scu, expected) in &boundaries {
        let snapshot = at(&instance, *scu).unwrap();
        let what = format!("as of SCU {scu}");
        check(&snapshot, expected, &what);
        check_hidden(&snapshot, expected, &mut times, &what);
    }
    close_whole(&instance);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_stage_and_horizon_gives_the_rows_with_the_columns_that_it_had(
        acts in prop::collection::vec(act(), 1..30),
    ) {
        run_story(acts);
    }
}

fn upserts(ids: std::ops::Range<i64>) -> Vec<Op> {
    let op = |id| Op {
        id,
        kind: 0,
        sets: 0,
        values: [1, 2, 3, 4],
    };
    ids.map(op).collect()
}

fn widen_and_add() -> Vec<Alteration> {
    vec![
        Alteration::SetType {
            column: "count".to_owned(),
            data_type: DataType::Int64,
            characters_max: None,
            json: false,
        },
        Alteration::AddColumn(Column {
            older: encode_cell(&(Arc::new(Int32Array::from(vec![7])) as ArrayRef)).unwrap(),
            ..Column::new("added", DataType::Int32)
        }),
        Alteration::DropColumn("note".to_owned()),
    ]
}

#[test]
fn an_alteration_is_there_whole_or_not_at_all_after_a_power_cut() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), settings()).unwrap();
    let mut before = Model {
        table: make(&instance),
        rows: BTreeMap::new(),
    };
    let scu = commit(&instance, &before.table, &upserts(0..3)).unwrap();
    before.apply(&upserts(0..3), scu);
    let begun = store.operations();
    let (next, scu) = alter(&instance, &before.table, &widen_and_add(), &upserts(2..200)).unwrap();
    let acknowledged = store.operations();
    let mut after = before.clone();
    after.follow(Arc::clone(&next));
    after.apply(&upserts(2..200), scu);
    check(&fresh(&instance, Freshness::ZERO), &after, "committed");
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    check(&fresh(&instance, Freshness::BestEffort), &after, "settled");
    block_on(instance.close()).unwrap();
    let mut seen = [false, false];
    for (cut, image) in crash_images(&store, begun) {
        let instance = open(Arc::clone(&image) as _, settings()).unwrap();
        let table = instance.table("t").unwrap();
        let committed = table.columns == next.columns;
        assert!(committed || cut < acknowledged, "after operation {cut}");
        seen[usize::from(committed)] = true;
        let mut model = if committed {
            after.clone()
        } else {
            before.clone()
        };
        check(
            &fresh(&instance, Freshness::ZERO),
            &model,
            "after a power cut",
        );
        model.table = table;
        if !committed {
            let asked = widen_and_add();
            let (next, _) = alter(&instance, &model.table, &asked, &[]).unwrap();
            model.follow(next);
        }
        let scu = commit(&instance, &model.table, &upserts(300..302)).unwrap();
        model.apply(&upserts(300..302), scu);
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        check(&fresh(&instance, Freshness::BestEffort), &model, "gone on");
        close_whole(&instance);
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn definitions_that_nobody_can_ask_for_are_forgotten() {
    let store = Arc::new(MemoryStore::without_history());
    let instance = open(store, settings()).unwrap();
    let mut table = make(&instance);
    for round in 0..5 {
        commit(&instance, &table, &upserts(round..round + 3)).unwrap();
        let name = format!("c{round}");
        let add = Alteration::AddColumn(Column::new(name, DataType::Int64));
        table = alter(&instance, &table, &[add], &[]).unwrap().0;
    }
    let known = |instance: &Instance| {
        let manifest = instance.manifest();
        manifest.table_named("t").unwrap().older.len()
    };
    assert_eq!(known(&instance), 5);
    commit(&instance, &table, &upserts(0..3)).unwrap();
    // Housekeeping comes by and by.
    for _ in 0..200 {
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        if known(&instance) <= 1 {
            break;
        }
        commit(&instance, &table, &upserts(0..3)).unwrap();
        block_on(instance.env().clock.sleep(Duration::from_millis(50)));
    }
    assert!(known(&instance) <= 1, "{} are kept", known(&instance));
    block_on(instance.close()).unwrap();
}

#[test]
fn the_second_of_two_sessions_is_told_that_the_table_changed() {
    let instance = open(Arc::new(MemoryStore::without_history()), settings()).unwrap();
    let table = make(&instance);
    let add = |name: &str| vec![Alteration::AddColumn(Column::new(name, DataType::Int64))];
    alter(&instance, &table, &add("one"), &[]).unwrap();
    let error = alter(&instance, &table, &add("two"), &upserts(0..2)).unwrap_err();
    assert_eq!(
        (error.kind(), error.sqlstate()),
        (ErrorKind::Conflict, "40001")
    );
    let newest = block_on(instance.alter_table("t", &add("two"))).unwrap();
    let names: Vec<&str> = newest.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["id", "count", "note", "one", "two"]);
    let rows = scan(&fresh(&instance, Freshness::ZERO), newest.id, vec![0]);
    assert_eq!(rows.len(), 0);
    block_on(instance.close()).unwrap();
}

/// Times are known long after no horizon asks for them, after they have moved into files, and after
/// another opening.
#[test]
fn times_outlive_the_manifests() {
    const SCUS: i64 = 2300;
    let store = Arc::new(MemoryStore::without_history());
    let instance = open(Arc::clone(&store) as _, settings()).unwrap();
    let mut model = Model {
        table: make(&instance),
        rows: BTreeMap::new(),
    };
    let mut times = Times::new();
    for id in 0..SCUS {
        let ops = upserts(id..id + 1);
        let scu = commit(&instance, &model.table, &ops).unwrap();
        model.apply(&ops, scu);
        block_on(instance.seal()).unwrap();
        if id % 500 == 0 {
            check_hidden(
                &fresh(&instance, Freshness::ZERO),
                &model,
                &mut times,
                "early",
            );
        }
    }
    check_hidden(
        &fresh(&instance, Freshness::ZERO),
        &model,
        &mut times,
        "written",
    );
    let archived = |instance: &Instance| instance.manifest().history.files.len();
    for round in 0..400 {
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        if archived(&instance) > 0 && instance.manifest().times.len() < 500 {
            break;
        }
        let ops = upserts(round..round + 1);
        let scu = commit(&instance, &model.table, &ops).unwrap();
        model.apply(&ops, scu);
        block_on(instance.env().clock.sleep(Duration::from_millis(50)));
    }
    assert!(archived(&instance) > 0, "times moved into files");
    let kept = instance.manifest().times.len();
    assert!(
        kept < 500,
        "the manifest still has the times of {kept} SCUs"
    );
    check_hidden(
        &fresh(&instance, Freshness::ZERO),
        &model,
        &mut times,
        "archived",
    );
    close_whole(&instance);
    let instance = open(Arc::clone(&store) as _, settings()).unwrap();
    check_hidden(
        &fresh(&instance, Freshness::ZERO),
        &model,
        &mut times,
        "opened",
    );
    let file = instance.manifest().history.files[0].clone();
    block_on(instance.close()).unwrap();

    // Nothing else tells these times: who asks for them misses them, and nobody else.
    let faults = Faults::none();
    faults.flip_bit(&file.file, file.bytes * 4);
    let faulty = FaultyStore::over(store, faults);
    let instance = open(Arc::new(faulty), settings()).unwrap();
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(
        report.problems[0].starts_with("times of SCUs 1..="),
        "{report:?}"
    );
    let snapshot = fresh(&instance, Freshness::ZERO);
    let rows = scan(&snapshot, model.table.id, vec![0]);
    assert_eq!(rows.len(), model.rows.len());
    block_on(instance.close()).unwrap();
}
