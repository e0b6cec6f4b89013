//! Tests of `transaction`.

use arrow::array::{Int64Array, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use lazybase_model::table::HIDDEN_KEY_COLUMN;
use lazybase_model::{Column, ViewId};

use super::*;

/// a BIGINT, b TEXT, with a hidden key.
fn table() -> Arc<Table> {
    table_with(TableId(1))
}

fn table_with(id: TableId) -> Arc<Table> {
    let columns = vec![
        Column::new("a", DataType::Int64),
        Column::new("b", DataType::Utf8),
        Column::new(HIDDEN_KEY_COLUMN, DataType::FixedSizeBinary(16)),
    ];
    Arc::new(Table {
        hidden_key: true,
        ..Table::new(id, ViewId(id.0), format!("t{id}"), columns, &[2])
    })
}

fn insert(table: &Arc<Table>, values: &[i64]) -> Staged {
    let texts: Vec<String> = values.iter().map(i64::to_string).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(values.to_vec())),
        Arc::new(StringArray::from(texts)),
    ];
    let changes = KeyedChanges::plain(upserts(table, columns).unwrap());
    Staged::Changes(Arc::clone(table), changes)
}

fn values(buffer: &Buffer) -> Vec<i64> {
    let entries = buffer.entries();
    entries
        .into_iter()
        .filter(|entry| entry.table.id == TableId(1))
        .flat_map(|entry| {
            entry
                .changes
                .changes()
                .data
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect()
}

fn row(position: u64) -> RowId {
    [OWN_SCU, position.to_be_bytes()].concat()
}

#[test]
fn own_rows_of_a_table_without_a_key_are_changed_in_the_buffer() {
    let table = table();
    let mut buffer = Buffer::default();
    buffer
        .apply(vec![insert(&table, &[1, 2]), insert(&table, &[3])])
        .unwrap();
    assert_eq!(values(&buffer), [1, 2, 3]);
    assert!(is_own(&row(1)) && !is_own(&[0; 16]));
    let set: ArrayRef = Arc::new(Int64Array::from(vec![20, 30]));
    let rows = HashMap::from([(row(1), 0), (row(2), 1)]);
    buffer
        .apply(vec![Staged::UpdateOwn {
            table: Arc::clone(&table),
            rows,
            set: vec![(0, set)],
            generated: Vec::new(),
        }])
        .unwrap();
    assert_eq!(values(&buffer), [1, 20, 30]);
    let rows = HashSet::from([row(0), row(2)]);
    buffer
        .apply(vec![Staged::RemoveOwn(Arc::clone(&table), rows)])
        .unwrap();
    assert_eq!(values(&buffer), [20]);
    assert_eq!(buffer.entries.len(), 1);
}

#[test]
fn savepoints_cut_the_buffer() {
    let table = table();
    let mut transaction = Transaction::default();
    transaction
        .buffer
        .apply(vec![insert(&table, &[1])])
        .unwrap();
    transaction.savepoint("s".to_owned(), Settings::default(), Identity::default());
    transaction
        .buffer
        .apply(vec![insert(&table, &[2])])
        .unwrap();
    transaction.savepoint("u".to_owned(), Settings::default(), Identity::default());
    transaction.failed = true;
    transaction.rollback_to("s").unwrap();
    assert_eq!(values(&transaction.buffer), [1]);
    assert!(!transaction.failed);
    assert_eq!(
        transaction.rollback_to("u").unwrap_err().sqlstate(),
        "3B001"
    );
    transaction.rollback_to("s").unwrap();
    transaction.release("s").unwrap();
    assert!(transaction.release("s").is_err());
}

/// So that a read of a transaction takes a time that does not grow with its statements.
#[test]
fn many_statements_leave_few_batches() {
    let (table, other) = (table(), table_with(TableId(2)));
    let mut buffer = Buffer::default();
    for value in 0..1000 {
        buffer.apply(vec![insert(&table, &[value])]).unwrap();
        buffer.apply(vec![insert(&other, &[-value])]).unwrap();
    }
    assert_eq!(values(&buffer), (0..1000).collect::<Vec<i64>>());
    assert!(buffer.entries.len() <= 20, "{}", buffer.entries.len());
    let counted = buffer.bytes;
    buffer.count_bytes();
    assert_eq!(counted, buffer.bytes);
    // Rows keep their keys, and what was saved before stays as it was.
    let saved = buffer.clone();
    let gone = HashSet::from([row(0), row(2 * 999)]);
    let removes = Staged::RemoveOwn(Arc::clone(&table), gone);
    buffer.apply(vec![removes]).unwrap();
    assert_eq!(values(&buffer), (1..999).collect::<Vec<i64>>());
    assert_eq!(values(&saved), (0..1000).collect::<Vec<i64>>());
}

#[test]
fn a_transaction_holds_what_its_limit_says() {
    check_bytes(TRANSACTION_BYTES_MAX).unwrap();
    let error = check_bytes(TRANSACTION_BYTES_MAX + 1).unwrap_err();
    assert_eq!(error.sqlstate(), "53200");
    let mut transaction = Transaction::default();
    transaction.apply(vec![insert(&table(), &[1])]).unwrap();
    assert!(transaction.bytes() > 0);
}

#[test]
fn what_savepoints_alone_keep_counts_too() {
    let table = table();
    let mut transaction = Transaction::default();
    let save = |transaction: &mut Transaction, name: &str| {
        transaction.savepoint(name.to_owned(), Settings::default(), Identity::default());
    };
    let set_texts = |transaction: &mut Transaction, text: &str| {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![text; 1000]));
        let update = Staged::UpdateOwn {
            table: Arc::clone(&table),
            rows: (0..1000).map(|at| (row(at as u64), at)).collect(),
            set: vec![(1, texts)],
            generated: Vec::new(),
        };
        transaction.apply(vec![update]).unwrap();
    };
    let bytes_of_texts = |transaction: &Transaction| {
        let changes = transaction.buffer.entries[0].changes.changes();
        changes.data.column(1).get_array_memory_size() as u64
    };
    let values: Vec<i64> = (0..1000).collect();
    transaction.apply(vec![insert(&table, &values)]).unwrap();
    let inserted = transaction.bytes();
    save(&mut transaction, "a");
    assert_eq!(transaction.bytes(), inserted);
    let first = bytes_of_texts(&transaction);
    set_texts(&mut transaction, &"x".repeat(1000));
    // The new texts, and the old ones; the other columns are the same.
    let second = bytes_of_texts(&transaction);
    assert!(second >= 1_000_000, "{second}");
    assert_eq!(transaction.buffer.bytes, inserted - first + second);
    assert_eq!(transaction.bytes(), inserted + second);
    save(&mut transaction, "b");
    set_texts(&mut transaction, "y");
    let third = bytes_of_texts(&transaction);
    assert_eq!(transaction.bytes(), inserted + second + third);
    transaction.release("b").unwrap();
    assert_eq!(transaction.bytes(), inserted + third);
    transaction.rollback_to("a").unwrap();
    assert_eq!(transaction.bytes(), inserted);
}
