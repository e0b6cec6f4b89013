//! Columns of files as columns of tables; no I/O.

use std::borrow::Cow;
use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lazybase_model::Result;
use lazybase_query::of_data;

use crate::type_names::sql_type;

/// The most columns that an error names.
const LISTED_MAX: usize = 40;
/// The longest name that an error gives whole: the first line of a file without a header holds
/// values, of any length.
const NAME_BYTES_MAX: usize = 80;

/// The columns of a new table for a file: names as SQL folds them, where that keeps them apart.
///
/// # Errors
/// `Invalid` for a type that is not kept, naming the column.
pub fn stored_schema(schema: &Schema, leave_out: Option<&str>) -> Result<Schema> {
    let kept = || {
        let fields = schema.fields().iter();
        fields.filter(|field| Some(field.name().as_str()) != leave_out)
    };
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    for field in kept() {
        *alike.entry(field.name().to_lowercase()).or_default() += 1;
    }
    let folded = |field: &Field| {
        let name = field.name().to_lowercase();
        match alike.get(&name) {
            Some(1) => name,
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

/// A column's name in an error.
pub fn shortened(name: &str) -> Cow<'_, str> {
    match name.len() > NAME_BYTES_MAX {
        true => {
            let end = name.floor_char_boundary(NAME_BYTES_MAX);
            Cow::Owned(format!("{}...", &name[..end]))
        }
        false => Cow::Borrowed(name),
    }
}

/// Columns in words, for errors.
pub fn listed<'a>(mut columns: impl Iterator<Item = (&'a str, &'a DataType)>) -> String {
    let in_words = |(name, data_type): (&str, &DataType)| {
        format!("{} {}", shortened(name), sql_type(data_type))
    };
    let first = columns.by_ref().take(LISTED_MAX);
    let mut listed: Vec<String> = first.map(in_words).collect();
    match columns.count() {
        0 => {}
        more => listed.push(format!("and {more} more")),
    }
    listed.join(", ")
}

/// See [`listed`].
pub fn listed_schema(schema: &SchemaRef) -> String {
    listed(
        schema
            .fields()
            .iter()
            .map(|field| (field.name().as_str(), field.data_type())),
    )
}

#[cfg(test)]
mod tests;
