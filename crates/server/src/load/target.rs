//! The table that a load writes: made from a file's columns, or checked against them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lazybase_cluster::TableSpec;
use lazybase_model::{Column, ColumnDefault, Error, ErrorKind, Result, Table};
use lazybase_query::{Database, checked_name, may_fit};

use crate::failure;
use crate::render::sql_type;
use crate::source::{listed, listed_schema, shortened};

/// Makes a table unless there is one of that name. `key` may be empty: a hidden key.
///
/// # Errors
/// `NotFound` for a key column that is not among the columns, `Invalid` for a name that SQL could
/// not give.
pub(crate) async fn create_table(
    database: &Database,
    name: &str,
    schema: &Schema,
    key: &[String],
) -> Result<()> {
    if let Some(missing) = key.iter().find(|name| schema.index_of(name).is_err()) {
        let columns = schema.fields().iter();
        let columns = columns.map(|field| (field.name().as_str(), field.data_type()));
        return Err(
            Error::not_found(format!("there is no column {missing:?} for the key"))
                .with_detail(format!("the columns are {}", listed(columns))),
        );
    }
    let name = checked_name(name.to_owned())?;
    let column = |field: &Arc<Field>| Column {
        nullable: field.is_nullable() && !key.contains(field.name()),
        ..Column::new(field.name(), field.data_type().clone())
    };
    let columns = schema.fields().iter().map(column).collect();
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    let spec = TableSpec::new(&name, columns, &key);
    database.instance().create_table(spec, true).await.map(drop)
}

/// The table of that name, if there is one.
pub(super) fn find_table(database: &Database, name: &str) -> Result<Option<Arc<Table>>> {
    match database.instance().table(name) {
        Ok(table) => Ok(Some(table)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The table's name for a file's column: the same, or folded as SQL folds it.
pub(super) fn matching(table: &Table, name: &str) -> Option<usize> {
    let written = |at: &usize| *at < table.written_columns();
    let exact = table.column_index(name).filter(written);
    exact.or_else(|| table.column_index(&name.to_lowercase()).filter(written))
}

/// A file's columns beside the table's.
pub(super) struct Target {
    schema: SchemaRef,
    /// For each column of the file that is loaded: its position there.
    from: Vec<usize>,
    /// Positions of the key among the loaded columns.
    pub(super) key: Vec<usize>,
    /// The op column's position in the file.
    pub(super) op: Option<usize>,
}

impl Target {
    /// Checks a file's columns against the table's.
    ///
    /// # Errors
    /// `Invalid` when a column is unknown, missing, or of a type that can't be taken whole.
    pub(super) fn new(table: &Table, file: &SchemaRef, op_column: Option<&str>) -> Result<Target> {
        let op = op_column.map(|name| op_position(file, name)).transpose()?;
        let mut target = Target {
            schema: Arc::new(Schema::empty()),
            from: Vec::new(),
            key: Vec::new(),
            op,
        };
        let mut fields = Vec::new();
        let mut taken = Vec::new();
        for (at, field) in file.fields().iter().enumerate() {
            if target.op == Some(at) {
                continue;
            }
            let column = matching(table, field.name())
                .ok_or_else(|| unknown_column(table, file, field.name()))?;
            if taken.contains(&column) {
                return Err(second_column(table, file, column, field.name()));
            }
            // Natural keys are looked up, or numbers are looked for.
            if table.columns[column].id_key.is_none() {
                check_type(table, column, field)?;
            }
            let name = &table.columns[column].name;
            fields.push(Field::new(name, field.data_type().clone(), true));
            target.from.push(at);
            taken.push(column);
        }
        if !table.hidden_key {
            for column in table.key_indices() {
                let at = taken.iter().position(|taken| *taken == column);
                target
                    .key
                    .push(at.ok_or_else(|| missing_column(table, file, column, "key "))?);
            }
        }
        let owned = table.owned_id().map(|(at, _)| at);
        let required = |at: &&usize| {
            let column = &table.columns[**at];
            !column.nullable && column.default == ColumnDefault::Null && owned != Some(**at)
        };
        let all: Vec<usize> = (0..table.visible_columns()).collect();
        if let Some(missing) = all.iter().filter(|at| !taken.contains(at)).find(required) {
            return Err(missing_column(table, file, *missing, "NOT NULL "));
        }
        target.schema = Arc::new(Schema::new(fields));
        Ok(target)
    }

    /// A file's rows with the table's names.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.from.iter().map(|from| Arc::clone(batch.column(*from)));
        RecordBatch::try_new(Arc::clone(&self.schema), columns.collect())
            .map_err(|error| failure::arrow("rows", &error))
    }
}

/// The types that a text file's columns are read as, where they go to a table.
pub(super) fn reading_schema(
    file: &SchemaRef,
    table: &Table,
    op_column: Option<&str>,
) -> SchemaRef {
    let read = |field: &Arc<Field>| {
        let column = matching(table, field.name()).map(|at| &table.columns[at]);
        let data_type = match column {
            _ if Some(field.name().as_str()) == op_column => DataType::Utf8,
            // Natural keys, or numbers.
            Some(column) if column.id_key.is_some() => DataType::Utf8,
            Some(column) => column.data_type.clone(),
            None => field.data_type().clone(),
        };
        Field::new(field.name(), data_type, true)
    };
    Arc::new(Schema::new(
        file.fields().iter().map(read).collect::<Vec<_>>(),
    ))
}

fn op_position(file: &SchemaRef, name: &str) -> Result<usize> {
    file.index_of(name).map_err(|_| {
        Error::not_found(format!("the file has no column {name:?} for --op-column"))
            .with_detail(format!("its columns are {}", listed_schema(file)))
    })
}

fn table_columns(table: &Table) -> String {
    let columns = table.columns[..table.visible_columns()].iter();
    listed(columns.map(|column| (column.name.as_str(), &column.data_type)))
}

fn unknown_column(table: &Table, file: &SchemaRef, name: &str) -> Error {
    let name = shortened(name);
    Error::invalid(format!("table {:?} has no column {name:?}", table.name))
        .with_detail(format!(
            "the file's columns are {}; the table's are {}",
            listed_schema(file),
            table_columns(table)
        ))
        .with_sqlstate("42703")
}

fn second_column(table: &Table, file: &SchemaRef, column: usize, name: &str) -> Error {
    let message = format!(
        "the file has more than one column for {:?} of table {:?}: the second is {name:?}",
        table.columns[column].name, table.name
    );
    Error::invalid(message)
        .with_detail(format!("its columns are {}", listed_schema(file)))
        .with_sqlstate("42701")
}

fn missing_column(table: &Table, file: &SchemaRef, column: usize, what: &str) -> Error {
    let name = &table.columns[column].name;
    Error::invalid(format!(
        "the file lacks {what}column {name:?} of table {:?}",
        table.name
    ))
    .with_detail(format!("its columns are {}", listed_schema(file)))
}

fn check_type(table: &Table, column: usize, field: &Field) -> Result<()> {
    let column = &table.columns[column];
    if may_fit(field.data_type(), &column.data_type) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "column {:?} is {} in table {:?} and {} in the file",
        column.name,
        sql_type(&column.data_type),
        table.name,
        sql_type(field.data_type()),
    ))
    .with_detail("values could be changed by the cast")
    .with_hint("make the file with the table's type, or a table with the file's")
    .with_sqlstate("42804"))
}

#[cfg(test)]
mod tests;
