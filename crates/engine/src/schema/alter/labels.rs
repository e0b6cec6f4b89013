//! Labels for cells and rows of a table that is there: a new column that holds them, NULL in what
//! is stored, which is the empty label.
//!
//! There is no way back: whoever may not read a cell would, once its label is gone.

use lazybase_model::table::{Column, check_labelled, check_row_labels};
use lazybase_model::{ColumnId, Error, LabelRole, Result, Table};

use super::{check_room, in_key, refused, visible};

/// The id of the column of labels before it is given out.
const TO_COME: ColumnId = ColumnId(u32::MAX);

/// Begins the labels of a column's cells.
pub(super) fn of_cells(table: &mut Table, name: &str) -> Result<()> {
    let at = visible(table, name)?;
    let column = &mut table.columns[at];
    if column.has_labels() {
        let what = format!("cells of column {name:?} have labels already");
        return Err(Error::conflict(what).with_sqlstate("42710"));
    }
    column.label = Some(LabelRole::In(TO_COME));
    check_labelled(&table.columns[at], in_key(table, at))?;
    if table.ttl_index() == Some(at) {
        return Err(refused(table, name, "rows end by it", "42P16")
            .with_detail("that a row ends would tell whoever may not read the cell")
            .with_hint("SET (row_labels = true) labels whole rows"));
    }
    begin(table, at)
}

/// Adds the column of labels of the column at `at`.
pub(super) fn begin(table: &mut Table, at: usize) -> Result<()> {
    check_room(table)?;
    let id = table.next_column_id();
    table.next_column = id.0 + 1;
    table.columns[at].label = Some(LabelRole::In(id));
    let labels = Column {
        id,
        ..Column::of_cell_labels(&table.columns[at])
    };
    table.columns.insert(table.written_columns(), labels);
    Ok(())
}

/// Begins the labels of rows.
pub(super) fn of_rows(table: &mut Table) -> Result<()> {
    if table.row_label().is_some() {
        let what = format!("rows of table {:?} have labels already", table.name);
        return Err(Error::conflict(what).with_sqlstate("42710"));
    }
    check_row_labels(&table.name, &table.columns, table.owned_id().is_some())?;
    check_room(table)?;
    let id = table.next_column_id();
    table.next_column = id.0 + 1;
    let labels = Column {
        id,
        ..Column::of_row_labels()
    };
    table.columns.insert(table.written_columns(), labels);
    Ok(())
}
