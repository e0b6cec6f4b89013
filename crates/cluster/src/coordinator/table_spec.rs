//! From what a user says about a new table to its definition: plain functions.

use lazybase_engine::key::KeyCodec;
use lazybase_model::table::HIDDEN_KEY_COLUMN;
use lazybase_model::{
    Column, ColumnId, Error, Layout, Result, SchemaVersion, Table, TableId, View, ViewId, limits,
};

/// A table to be made.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// Its name, as SQL folds it.
    pub name: String,
    /// Its columns; their ids are given out here.
    pub columns: Vec<Column>,
    /// Names of the key columns, most significant first. Empty: rows get the hidden key `_row`.
    pub key: Vec<String>,
    /// How the authority keeps it.
    pub layout: Layout,
    /// What the user says about it.
    pub comment: Option<String>,
}

/// The definition that a specification comes to under these ids.
pub(crate) fn define(spec: &TableSpec, id: TableId, view: ViewId) -> Result<Table> {
    check_names(spec)?;
    let mut columns: Vec<Column> = spec.columns.clone();
    let hidden_key = spec.key.is_empty();
    if hidden_key {
        columns.push(hidden_key_column());
    }
    for (at, column) in columns.iter_mut().enumerate() {
        column.id = ColumnId(at as u32);
    }
    let key_names = match hidden_key {
        true => vec![HIDDEN_KEY_COLUMN.to_owned()],
        false => spec.key.clone(),
    };
    let mut key = Vec::with_capacity(key_names.len());
    for name in &key_names {
        let column = columns
            .iter_mut()
            .find(|column| column.name == *name)
            .ok_or_else(|| {
                Error::not_found(format!(
                    "key column {name:?} is not a column of {:?}",
                    spec.name
                ))
                .with_sqlstate("42703")
            })?;
        if key.contains(&column.id) {
            return Err(
                Error::invalid(format!("key column {name:?} is named twice"))
                    .with_sqlstate("42701"),
            );
        }
        column.nullable = false;
        key.push(column.id);
    }
    let table = Table {
        id,
        name: spec.name.clone(),
        version: SchemaVersion(0),
        columns,
        primary: View { id: view, key },
        hidden_key,
        layout: spec.layout,
        comment: spec.comment.clone(),
        next_column: 0,
        key_map: None,
    };
    KeyCodec::primary(&table)?;
    Ok(table)
}

fn hidden_key_column() -> Column {
    Column {
        nullable: false,
        ..Column::new(
            HIDDEN_KEY_COLUMN,
            arrow::datatypes::DataType::FixedSizeBinary(16),
        )
    }
}

fn check_names(spec: &TableSpec) -> Result<()> {
    if spec.columns.is_empty() {
        return Err(
            Error::invalid(format!("table {:?} needs a column", spec.name)).with_sqlstate("42P16"),
        );
    }
    if spec.columns.len() > limits::COLUMNS_MAX {
        return Err(Error::invalid(format!(
            "table {:?} has {} columns, at most {} are possible",
            spec.name,
            spec.columns.len(),
            limits::COLUMNS_MAX
        ))
        .with_sqlstate("54011"));
    }
    let mut seen = std::collections::BTreeSet::new();
    for column in &spec.columns {
        if column.name.len() > limits::NAME_BYTES_MAX || column.name.is_empty() {
            return Err(
                Error::invalid(format!("{:?} can't name a column", column.name))
                    .with_sqlstate("42602"),
            );
        }
        if column.name.starts_with('_') && is_reserved(&column.name) {
            return Err(
                Error::invalid(format!("column name {:?} is reserved", column.name))
                    .with_sqlstate("42939"),
            );
        }
        if !seen.insert(&column.name) {
            return Err(
                Error::invalid(format!("column {:?} is named twice", column.name))
                    .with_sqlstate("42701"),
            );
        }
    }
    Ok(())
}

/// Names of hidden columns.
fn is_reserved(name: &str) -> bool {
    matches!(
        name,
        "_row" | "_scu" | "_time" | "_kind" | "_mask" | "_column_scus"
    )
}
