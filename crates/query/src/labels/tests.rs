//! What is hidden is gone from the buffers too.

use arrow::array::{Int64Array, StringArray};
use arrow::datatypes::DataType;
use lazybase_model::{Column, ColumnId, LabelRole, TableId, ViewId};

use super::*;

/// A key, a text with labels, the labels, those of rows.
fn table() -> Table {
    let mut text = Column::new("text", DataType::Utf8);
    text.label = Some(LabelRole::In(ColumnId(2)));
    text.id = ColumnId(1);
    let labels = Column::of_cell_labels(&text);
    let columns = vec![
        Column::new("id", DataType::Int64),
        text,
        labels,
        Column::of_row_labels(),
    ];
    Table::new(TableId(1), ViewId(1), "t", columns, &[0])
}

fn sight(terms: &[&str]) -> Sight {
    let all: Authorizations = terms.iter().map(|term| (*term).to_owned()).collect();
    Sight::new(Some(&all), None)
}

fn rows(stored: &[usize]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["one", "two", "three", "four"]));
    let labels: ArrayRef = Arc::new(StringArray::from(vec![
        None,
        Some("a"),
        Some("b"),
        Some(""),
    ]));
    let of_rows: ArrayRef = Arc::new(StringArray::from(vec![None, None, Some("a|b"), Some("c")]));
    let all = [ids, texts, labels, of_rows];
    let names = ["id", "text", "label", "row"];
    RecordBatch::try_from_iter_with_nullable(stored.iter().enumerate().map(|(place, at)| {
        (
            format!("{}{place}", names[*at]),
            Arc::clone(&all[*at]),
            true,
        )
    }))
    .unwrap()
}

#[test]
fn rows_and_cells_are_hidden_by_their_labels() {
    let table = table();
    let hiding = Hiding::of(&table, &[1, 0], &sight(&["b"]))
        .unwrap()
        .unwrap();
    let shown = hiding.hide(&rows(hiding.stored())).unwrap();
    assert_eq!(shown.num_columns(), 2);
    assert_eq!(
        shown
            .column(0)
            .as_string::<i32>()
            .iter()
            .collect::<Vec<_>>(),
        [Some("one"), None, Some("three")]
    );
    // The bytes of what is hidden are gone, and not only marked as NULL.
    assert_eq!(shown.column(0).as_string::<i32>().value_data(), b"onethree");
    assert_eq!(
        shown.column(1).as_primitive::<Int64Type>().values(),
        &[1, 2, 3]
    );
}

#[test]
fn nothing_is_hidden_from_whoever_sees_all() {
    let table = table();
    let all = Sight::new(None, None);
    assert!(Hiding::of(&table, &[0, 1], &all).unwrap().is_none());
    assert!(!all.is_limited(&table));
    // A narrower choice holds for them too, and nobody gets wider by one.
    let narrowed: Arc<Authorizations> = Arc::new(["a".to_owned(), "z".to_owned()].into());
    assert!(Sight::new(None, Some(&narrowed)).is_limited(&table));
    let own: Authorizations = ["a".to_owned(), "b".to_owned()].into();
    let both = Sight::new(Some(&own), Some(&narrowed));
    assert_eq!(
        **both.authorizations.as_ref().unwrap(),
        ["a".to_owned()].into()
    );
}

#[test]
fn no_column_at_all_still_counts_the_rows_that_may_be_read() {
    let table = table();
    let hiding = Hiding::of(&table, &[], &sight(&[])).unwrap().unwrap();
    let shown = hiding.hide(&rows(hiding.stored())).unwrap();
    assert_eq!((shown.num_columns(), shown.num_rows()), (0, 2));
}

#[test]
fn a_label_is_hidden_with_its_cell_and_never_alone() {
    let table = table();
    let hiding = Hiding::of(&table, &[2], &sight(&["c"])).unwrap().unwrap();
    let shown = hiding.hide(&rows(hiding.stored())).unwrap();
    let labels: Vec<_> = shown.column(0).as_string::<i32>().iter().collect();
    assert_eq!(labels, [None, None, Some("")]);
}

#[test]
fn a_table_that_lost_labels_is_not_read() {
    let mut table = table();
    table.columns.remove(2);
    assert!(Hiding::of(&table, &[1], &sight(&[])).is_err());
}
