//! The columns of labels that a table and its views have besides those that were declared.

use lazybase_model::table::{check_labelled, check_row_labels};
use lazybase_model::{Column, ColumnId, IdKeyColumn, LabelRole, Result, Table};

use super::TableSpec;

/// Adds the columns of labels behind those that were declared.
///
/// # Errors
/// `Invalid`: for columns and tables that can't have labels.
pub(super) fn add(spec: &TableSpec, columns: &mut Vec<Column>) -> Result<()> {
    for at in 0..columns.len() {
        check_labelled(&columns[at], spec.key.contains(&columns[at].name))?;
        if columns[at].has_labels() {
            let (column, label) = (ColumnId(at as u32), ColumnId(columns.len() as u32));
            columns[at].label = Some(LabelRole::In(label));
            let labels = Column::of_cell_labels(&columns[at]);
            columns.push(Column {
                label: Some(LabelRole::OfCells(column)),
                ..labels
            });
        }
    }
    if spec.row_labels {
        let own = Some(IdKeyColumn::OWN);
        let owns_id = spec.columns.iter().any(|column| column.id_key == own);
        check_row_labels(&spec.name, &spec.columns, owns_id)?;
        columns.push(Column::of_row_labels());
    }
    Ok(())
}

/// Adds the columns of the labels of those columns, and of rows.
pub(super) fn add_to_view(table: &Table, columns: &mut Vec<Column>) {
    let of_those = table.columns.iter().filter(|label| match label.label {
        Some(LabelRole::OfCells(column)) => columns.iter().any(|shown| shown.id == column),
        Some(LabelRole::OfRows) => true,
        Some(LabelRole::In(_)) | None => false,
    });
    let labels: Vec<Column> = of_those.cloned().collect();
    columns.extend(labels);
}
