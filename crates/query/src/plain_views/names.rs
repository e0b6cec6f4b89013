//! Tables and views as the text of a view knows them: with the columns that they had when it was
//! made, under the names that these had; pure.

use std::sync::Arc;

use lazybase_model::{Column, Table, UsedTable};

/// How the names of columns begin that the text does not know; no statement writes it.
const UNLISTED: char = '\0';

/// A table under the names that a view's text knows. Its columns keep their places.
pub(crate) fn as_used(table: Arc<Table>, used: &UsedTable) -> Arc<Table> {
    let written = table.written_columns();
    let known = |column: &Column| {
        let mut columns = used.columns.iter();
        let known = columns.find(|known| known.id == column.id);
        known.map(|known| known.name.as_str())
    };
    let mut columns = table.columns[..written].iter();
    if columns.all(|column| known(column) == Some(column.name.as_str())) {
        return table;
    }
    let mut renamed = Table::clone(&table);
    for column in &mut renamed.columns[..written] {
        column.name = match known(column) {
            Some(name) => name.to_owned(),
            None => format!("{UNLISTED}{}", column.id.0),
        };
    }
    Arc::new(renamed)
}

/// Whether a column came after the view whose text is read.
pub(crate) fn is_unlisted(column: &Column) -> bool {
    column.name.starts_with(UNLISTED)
}

/// A table without the columns that came after the view.
pub(crate) fn listed(table: Arc<Table>) -> Arc<Table> {
    if !table.columns.iter().any(is_unlisted) {
        return table;
    }
    let mut table = Table::clone(&table);
    table.columns.retain(|column| !is_unlisted(column));
    Arc::new(table)
}

/// A view with so many of its columns, all where that is not said: new ones stand behind the
/// others.
pub(crate) fn first_columns(view: Arc<Table>, columns: Option<usize>) -> Arc<Table> {
    match columns.filter(|columns| *columns < view.columns.len()) {
        None => view,
        Some(columns) => {
            let mut view = Table::clone(&view);
            view.columns.truncate(columns);
            Arc::new(view)
        }
    }
}

#[cfg(test)]
mod tests;
