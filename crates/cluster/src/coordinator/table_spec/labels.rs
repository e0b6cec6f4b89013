//! The columns of labels that a table and its views have besides those that were declared.

use lazybase_model::table::check_labelled;
use lazybase_model::{Column, ColumnId, Error, IdKeyColumn, LabelRole, Result, Table};

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
        check_rows(spec)?;
        columns.push(Column::of_row_labels());
    }
    Ok(())
}

/// Checks that rows of the table can have labels.
fn check_rows(spec: &TableSpec) -> Result<()> {
    let refused = |why: String, hint: &str, sqlstate| {
        let error = Error::invalid(format!("rows of table {:?} can't have labels", spec.name));
        Err(error
            .with_detail(why)
            .with_hint(hint)
            .with_sqlstate(sqlstate))
    };
    if let Some(combined) = spec.columns.iter().find(|column| column.merge.is_some()) {
        let why = format!(
            "column {:?} makes one value of many, of rows whose labels may differ",
            combined.name
        );
        return refused(why, "leave row_labels or the operator out", "42P16");
    }
    let own = Some(IdKeyColumn::OWN);
    if spec.columns.iter().any(|column| column.id_key == own) {
        let why = "its ID key shows everybody which natural keys there are".to_owned();
        return refused(why, "WITH LABELS behind a column labels its cells", "0A000");
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
