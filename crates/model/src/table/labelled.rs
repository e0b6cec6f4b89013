//! What may have labels: which columns' cells, and which tables' rows.

use super::Column;
use crate::error::{Error, Result};

/// Whether a column that is declared so, and stands in the key or not, may have labels.
///
/// # Errors
/// `Invalid`: 42P16, or 0A000 for ID keys; with the reason and a hint.
pub fn check_labelled(column: &Column, in_key: bool) -> Result<()> {
    let refused = |why: &str, hint: &str, sqlstate| {
        let name = &column.name;
        let error = Error::invalid(format!("cells of column {name:?} can't have labels"));
        Err(error
            .with_detail(why)
            .with_hint(hint)
            .with_sqlstate(sqlstate))
    };
    if !column.has_labels() {
        return Ok(());
    }
    if in_key {
        return refused(
            "it is in the key: without it there is no row",
            "WITH (row_labels = true) labels whole rows",
            "42P16",
        );
    }
    if let Some(operator) = column.merge {
        let why = format!(
            "MERGE {} makes one value of many, whose labels may differ",
            operator.word()
        );
        return refused(&why, "leave WITH LABELS or the operator out", "42P16");
    }
    if column.id_key.is_some() {
        let why = "the natural keys that its numbers stand for are their owner's rows";
        return refused(why, "leave WITH LABELS out", "0A000");
    }
    if !column.nullable {
        return refused(
            "it is NOT NULL, and a cell that may not be read is NULL",
            "leave NOT NULL out",
            "42P16",
        );
    }
    Ok(())
}

/// Whether the rows of a table with these columns may have labels; whether one of them is the ID
/// key that the table owns is said.
///
/// # Errors
/// `Invalid`: 42P16 for merge operators, 0A000 for ID keys; with the reason and a hint.
pub fn check_row_labels(table: &str, columns: &[Column], owns_id: bool) -> Result<()> {
    let refused = |why: String, hint: &str, sqlstate| {
        let error = Error::invalid(format!("rows of table {table:?} can't have labels"));
        Err(error
            .with_detail(why)
            .with_hint(hint)
            .with_sqlstate(sqlstate))
    };
    if let Some(combined) = columns.iter().find(|column| column.merge.is_some()) {
        let why = format!(
            "column {:?} makes one value of many, of rows whose labels may differ",
            combined.name
        );
        return refused(why, "leave row_labels or the operator out", "42P16");
    }
    if owns_id {
        let why = "its ID key shows everybody which natural keys there are".to_owned();
        return refused(why, "WITH LABELS behind a column labels its cells", "0A000");
    }
    Ok(())
}
