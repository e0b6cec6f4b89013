//! Definitions that follow each other, and changes of one seen through another, against the scalar
//! algebra.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use lazybase_model::change::{Action, Cell, Change, Row};
use lazybase_model::{
    Column, ColumnDefault, ColumnId, LabelRole, MergeOperator, SchemaVersion, Table, TableId,
    ViewId,
};
use proptest::prelude::*;

use super::*;
use crate::change_batch::ChangeBatch;
use crate::segment::RowLayout;
use crate::stages::merge::tests::merge;
use crate::stages::merge::tests::scalar::{
    Changes, Key, Op, Value, any_size, batch_of, changes_of, op, value, version,
};
use crate::stages::merge::{MergeMode, MergeShape, OutputSize};
use crate::stages::sort::sort_shaped;

/// a BIGINT, d TEXT, k BIGINT, w INT, l BIGINT; the key is (k, l).
fn before() -> Table {
    let columns = vec![
        Column::new("a", DataType::Int64),
        Column::new("d", DataType::Utf8),
        Column::new("k", DataType::Int64),
        Column::new("w", DataType::Int32),
        Column::new("l", DataType::Int64),
    ];
    Table::new(TableId(1), ViewId(1), "t", columns, &[2, 4])
}

fn text(text: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![text]))
}

fn new_column(older: Option<&str>) -> Column {
    Column {
        older: older.and_then(|older| encode_cell(&text(older)).unwrap()),
        ..Column::new("n", DataType::Utf8)
    }
}

fn next(table: &Table, changes: &[Alteration]) -> Result<Table, lazybase_model::Error> {
    altered(table, changes, SchemaVersion(table.version.0 + 1))
}

/// What may happen to the table, by the bits of a number.
fn after(bits: u8) -> Table {
    let bit = |at: u8| bits >> at & 1 == 1;
    let mut changes = Vec::new();
    if bit(0) {
        changes.push(Alteration::AddColumn(new_column(bit(1).then_some("old"))));
    }
    if bit(2) {
        changes.push(Alteration::DropColumn("d".to_owned()));
    }
    if bit(3) {
        changes.push(Alteration::SetType {
            column: "w".to_owned(),
            data_type: DataType::Int64,
            characters_max: None,
            json: false,
        });
    }
    if bit(4) {
        changes.push(Alteration::DropColumn("a".to_owned()));
    }
    if bit(5) {
        changes.push(Alteration::AddLabels("w".to_owned()));
    }
    if bit(6) {
        changes.push(Alteration::AddRowLabels);
    }
    next(&before(), &changes).unwrap()
}

fn layout(table: &Table) -> RowLayout {
    RowLayout::primary(&Arc::new(table.clone())).unwrap()
}

fn adapted(from: &Table, to: &Table, batches: &[ChangeBatch]) -> Vec<ChangeBatch> {
    let to = layout(to);
    let under = |batch: &ChangeBatch| Adapter::under(from, &to, batch.clone()).unwrap();
    batches.iter().map(under).collect()
}

/// The columns that an operation sets: never those of the key.
fn without_key(op: &Op, table: &Table) -> Op {
    let keys = table.key_indices().into_iter();
    let sets = keys.fold(op.sets, |sets, at| sets & !(1 << at));
    Op { sets, ..op.clone() }
}

/// What an operation under `from` is under `to`, by the rule in words.
fn seen(op: &Op, from: &Table, to: &Table, scu: u64) -> (Key, Change<Value>) {
    let shape = MergeShape::of(&layout(from));
    let key = op.key(&shape.schema, &shape.key);
    let cell = |value: Value| Cell {
        value,
        version: version(scu),
    };
    let stored = |column: &Column| from.columns.iter().position(|c| c.id == column.id);
    let held = |values: &[u8; 4], column: &Column| match stored(column) {
        Some(at) => match shape.key.iter().position(|place| *place == at) {
            Some(part) => key[part].clone(),
            None => value(&from.columns[at].data_type, values[at % 4]),
        },
        None => {
            let older = decode_cell(column.older.as_ref(), &column.data_type).unwrap();
            match older.is_null(0) {
                true => Value::Null,
                false => Value::Text(older.as_string::<i32>().value(0).to_owned()),
            }
        }
    };
    let row = |values: &[u8; 4]| {
        let cells = to.columns.iter().map(|column| cell(held(values, column)));
        Row::new(cells.collect())
    };
    // A label is set with its cell.
    let set_with = |column: &Column| match column.label {
        Some(LabelRole::OfCells(cells)) => from.columns.iter().position(|c| c.id == cells),
        _ => stored(column),
    };
    let sets = to.columns.iter().enumerate().filter_map(|(at, column)| {
        let from = stored(column).or_else(|| set_with(column));
        let from = from.filter(|from| op.sets >> from & 1 == 1);
        from.map(|_| (at, Action::Set(cell(held(&op.others, column)))))
    });
    let sets = sets.collect();
    let change = match op.kind {
        0 | 1 => Change::upsert(row(&op.values)),
        2 => Change::delete(),
        3 | 4 => Change::update(sets),
        5 => Change::upsert_columns(sets, row(&op.values)),
        6 => Change::insert_if_absent(row(&op.values)),
        _ => Change::insert_or_update(row(&op.values), sets),
    };
    (key, change)
}

fn sorted(table: &Table, ops: &[Op], scu: u64, size: OutputSize) -> Vec<ChangeBatch> {
    let shape = MergeShape::of(&layout(table));
    let change = |op: &Op| without_key(op, table).change(&shape, scu);
    let changes: Vec<_> = ops.iter().map(change).collect();
    sort_shaped(&shape, &[batch_of(&shape, &changes)], size).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// SCH-1: SCUs of either definition, those of the older one merged before or after they are
    /// adapted, give what applying one by one gives.
    #[test]
    fn adapting_and_composing_can_be_done_in_any_order(
        bits in 0u8..128,
        old in prop::collection::vec(prop::collection::vec(op(9), 0..7), 1..5),
        new in prop::collection::vec(prop::collection::vec(op(9), 0..7), 0..3),
        merged in 0usize..5,
        size in any_size(),
    ) {
        let (from, to) = (before(), after(bits));
        let mut expected = Changes::new();
        let mut runs = Vec::new();
        let mut scu = 0;
        let all = old.iter().map(|ops| (&from, ops)).chain(new.iter().map(|ops| (&to, ops)));
        for (table, ops) in all {
            scu += 1;
            for op in ops {
                let (key, change) = seen(&without_key(op, table), table, &to, scu);
                let composed = match expected.remove(&key) {
                    Some(before) => before.then(change),
                    None => change,
                };
                expected.insert(key, composed);
            }
            runs.push(sorted(table, ops, scu, size));
        }
        let shape = |table: &Table| MergeShape::of(&layout(table));
        let later = runs.split_off(old.len());
        // Some of the older ones first meet each other.
        let rest = runs.split_off(merged.min(runs.len()));
        let mut inputs = vec![merge(&shape(&from), &runs, MergeMode::Changes, size)];
        inputs.extend(rest);
        for run in &mut inputs {
            *run = adapted(&from, &to, run);
        }
        inputs.extend(later);
        let done = merge(&shape(&to), &inputs, MergeMode::Changes, size);
        let done = changes_of(&shape(&to), &done);
        // An update of nothing but dropped columns is no change: it may be there or not.
        let nothing = |change: &Change<Value>| *change == Change::update(Default::default());
        let kept = |changes: Changes| -> Changes {
            changes.into_iter().filter(|(_, change)| !nothing(change)).collect()
        };
        prop_assert_eq!(kept(done), kept(expected));
    }
}

#[test]
fn a_definition_follows_by_ids() {
    let first = before();
    let second = next(
        &first,
        &[
            Alteration::DropColumn("d".to_owned()),
            Alteration::AddColumn(Column::new("d", DataType::Int64)),
            Alteration::RenameColumn {
                from: "a".to_owned(),
                to: "b".to_owned(),
            },
            Alteration::Rename("u".to_owned()),
            Alteration::SetDefault {
                column: "w".to_owned(),
                default: ColumnDefault::Expression("7".to_owned()),
            },
            Alteration::Comment {
                column: Some("w".to_owned()),
                text: Some("how wide".to_owned()),
            },
        ],
    )
    .unwrap();
    check_succession(&first, &second).unwrap();
    let names: Vec<&str> = second.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["b", "k", "w", "l", "d"]);
    assert_eq!(second.columns[4].id, ColumnId(5));
    assert_eq!(second.name, "u");
    let third = next(&second, &[Alteration::DropColumn("d".to_owned())]).unwrap();
    let again = Alteration::AddColumn(Column::new("d", DataType::Utf8));
    let fourth = next(&third, &[again]).unwrap();
    assert_eq!(fourth.columns[4].id, ColumnId(6));
    for pair in [[&first, &third], [&second, &fourth], [&third, &fourth]] {
        check_succession(pair[0], pair[1]).unwrap();
    }
    assert!(check_succession(&second, &first).is_err());
    let mut stolen = third.clone();
    stolen.version = SchemaVersion(9);
    stolen.columns[0].id = ColumnId(1);
    assert!(check_succession(&third, &stolen).is_err());
}

#[test]
fn labels_stand_behind_all_columns_that_are_shown() {
    let labels = [
        Alteration::AddRowLabels,
        Alteration::AddLabels("a".to_owned()),
        Alteration::AddLabels("d".to_owned()),
        Alteration::AddColumn(Column::new("n", DataType::Int64)),
        Alteration::RenameColumn {
            from: "a".to_owned(),
            to: "b".to_owned(),
        },
        Alteration::DropColumn("d".to_owned()),
    ];
    let first = before();
    let second = next(&first, &labels).unwrap();
    check_succession(&first, &second).unwrap();
    let names: Vec<&str> = second.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["b", "k", "w", "l", "n", "_label", "_label(b)"]);
    assert_eq!(second.visible_columns(), 5);
    assert_eq!(second.row_label(), Some(5));
    assert_eq!(second.cell_label(0).unwrap(), Some(6));
    let ids: Vec<u32> = second.columns.iter().map(|column| column.id.0).collect();
    assert_eq!(ids, [0, 2, 3, 4, 8, 5, 6]);
    for change in &labels[..2] {
        let error = next(&second, std::slice::from_ref(change));
        let sqlstate = error.unwrap_err().sqlstate().to_owned();
        let expected = match change {
            Alteration::AddRowLabels => "42710",
            // It has another name now.
            _ => "42703",
        };
        assert_eq!(sqlstate, expected, "{change:?}");
    }
}

#[test]
fn what_cant_have_labels_says_why() {
    let mut table = before();
    table.columns[0].merge = Some(MergeOperator::Sum);
    table.columns[3].nullable = false;
    for (change, sqlstate) in [
        (Alteration::AddLabels("a".to_owned()), "42P16"),
        (Alteration::AddLabels("k".to_owned()), "42P16"),
        (Alteration::AddLabels("w".to_owned()), "42P16"),
        (Alteration::AddLabels("nosuch".to_owned()), "42703"),
        (Alteration::AddRowLabels, "42P16"),
    ] {
        let error = next(&table, std::slice::from_ref(&change)).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate, "{change:?}: {error}");
    }
}

#[test]
fn what_cant_be_done_says_why() {
    let table = before();
    let set_type = |column: &str, data_type: DataType, characters_max| Alteration::SetType {
        column: column.to_owned(),
        data_type,
        characters_max,
        json: false,
    };
    let to_json = Alteration::SetType {
        column: "d".to_owned(),
        data_type: DataType::Utf8,
        characters_max: None,
        json: true,
    };
    let refused = [
        (Alteration::DropColumn("k".to_owned()), "42P16"),
        (Alteration::DropColumn("x".to_owned()), "42703"),
        (Alteration::DropNotNull("k".to_owned()), "42P16"),
        (
            Alteration::AddColumn(Column::new("a", DataType::Int64)),
            "42701",
        ),
        (
            Alteration::AddColumn(Column::new("_scu", DataType::Int64)),
            "42939",
        ),
        (
            Alteration::AddColumn(Column {
                nullable: false,
                ..Column::new("n", DataType::Int64)
            }),
            "23502",
        ),
        (
            Alteration::RenameColumn {
                from: "a".to_owned(),
                to: "_time".to_owned(),
            },
            "42939",
        ),
        (set_type("w", DataType::Int16, None), "42804"),
        (set_type("a", DataType::Float64, None), "42804"),
        (set_type("d", DataType::Utf8, Some(5)), "42804"),
        (set_type("d", DataType::Int64, None), "42804"),
        (to_json, "42804"),
        (set_type("k", DataType::Decimal128(38, 0), None), "42P16"),
    ];
    for (change, sqlstate) in refused {
        let error = next(&table, std::slice::from_ref(&change)).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate, "{change:?}: {error}");
    }
}

#[test]
fn only_exact_types_are_wider() {
    use DataType as T;
    for (from, to) in [
        (T::Int16, T::Int64),
        (T::UInt8, T::Int16),
        (T::UInt32, T::Int64),
        (T::Int32, T::Float64),
        (T::Int16, T::Float32),
        (T::Float32, T::Float64),
        (T::Int32, T::Decimal128(10, 0)),
        (T::Int64, T::Decimal128(21, 2)),
        (T::Decimal128(10, 2), T::Decimal128(12, 4)),
        (T::Decimal128(10, 2), T::Decimal256(76, 60)),
    ] {
        assert_eq!(widening(&from, &to), Widening::Cast, "{from} to {to}");
    }
    for (from, to) in [
        (T::Int64, T::Int32),
        (T::Int8, T::UInt64),
        (T::UInt64, T::Int64),
        (T::Int64, T::Float64),
        (T::Int32, T::Float32),
        (T::Float64, T::Float32),
        (T::Int64, T::Decimal128(18, 0)),
        (T::Decimal128(10, 2), T::Decimal128(11, 4)),
        (T::Decimal256(40, 2), T::Decimal128(38, 2)),
        (T::Utf8, T::Binary),
        (
            T::Date32,
            T::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None),
        ),
    ] {
        assert!(
            matches!(widening(&from, &to), Widening::Refused(_)),
            "{from} to {to}"
        );
    }
}

#[test]
fn a_wider_column_keeps_the_value_of_older_rows() {
    let seven: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    let column = Column {
        older: encode_cell(&seven).unwrap(),
        ..Column::new("n", DataType::Int32)
    };
    let second = next(&before(), &[Alteration::AddColumn(column)]).unwrap();
    let third = next(
        &second,
        &[Alteration::SetType {
            column: "n".to_owned(),
            data_type: DataType::Int64,
            characters_max: None,
            json: false,
        }],
    )
    .unwrap();
    let n = third.columns.last().unwrap();
    let value = decode_cell(n.older.as_ref(), &n.data_type).unwrap();
    assert_eq!(value.as_primitive::<Int64Type>().value(0), 7);
}

#[test]
fn a_cell_of_any_type_is_read_back() {
    let seven: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    for data_type in [
        DataType::Int8,
        DataType::Float64,
        DataType::Boolean,
        DataType::Utf8,
        DataType::Date32,
        DataType::Decimal256(60, 3),
        DataType::List(Arc::new(arrow::datatypes::Field::new_list_field(
            DataType::Int32,
            true,
        ))),
    ] {
        let value = arrow::compute::cast(&seven, &data_type).unwrap();
        let cell = encode_cell(&value).unwrap();
        let json = serde_json::to_string(&cell).unwrap();
        let cell: Option<lazybase_model::CellBytes> = serde_json::from_str(&json).unwrap();
        let read = decode_cell(cell.as_ref(), &data_type).unwrap();
        assert_eq!(&read, &value, "{data_type}");
        let wrong = decode_cell(cell.as_ref(), &DataType::UInt16);
        assert!(wrong.is_err());
    }
}
