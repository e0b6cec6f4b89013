//! Columns of files as columns of tables; no I/O.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lazybase_model::Result;
use lazybase_query::of_data;

use crate::render::sql_type;

/// The columns of a new table for a file: names as SQL folds them, where that keeps them apart.
///
/// # Errors
/// `Invalid` for a type that is not kept, naming the column.
pub(super) fn stored_schema(schema: &Schema, leave_out: Option<&str>) -> Result<Schema> {
    let kept = || {
        let fields = schema.fields().iter();
        fields.filter(|field| Some(field.name().as_str()) != leave_out)
    };
    let folded = |field: &Field| {
        let name = field.name().to_lowercase();
        let alike = kept().filter(|other| other.name().to_lowercase() == name);
        match alike.count() {
            1 => name,
            _ => field.name().clone(),
        }
    };
    let fields = kept().map(|field| {
        let data_type = of_data(field.data_type())
            .map_err(|error| error.within(format_args!("column {:?}", field.name())))?;
        Ok(Field::new(folded(field), data_type, true))
    });
    Ok(Schema::new(fields.collect::<Result<Vec<Field>>>()?))
}

/// Columns in words, for errors.
pub(super) fn listed<'a>(columns: impl Iterator<Item = (&'a str, &'a DataType)>) -> String {
    let columns: Vec<String> = columns
        .map(|(name, data_type)| format!("{name} {}", sql_type(data_type)))
        .collect();
    columns.join(", ")
}

/// See [`listed`].
pub(super) fn listed_schema(schema: &SchemaRef) -> String {
    listed(
        schema
            .fields()
            .iter()
            .map(|field| (field.name().as_str(), field.data_type())),
    )
}

#[cfg(test)]
mod tests;
