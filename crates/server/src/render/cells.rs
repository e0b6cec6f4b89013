//! Single values as text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::Field;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use lazybase_model::Result;
use lazybase_query::json_texts;
use lazybase_query::text_form;

use crate::failure;

/// Instants as SQL users write them.
pub(crate) const TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";
const TIMESTAMP_TZ: &str = "%Y-%m-%d %H:%M:%S%.f%:z";

/// How values become text in tables.
pub(crate) fn format_options() -> FormatOptions<'static> {
    FormatOptions::default()
        .with_timestamp_format(Some(TIMESTAMP))
        .with_timestamp_tz_format(Some(TIMESTAMP_TZ))
        .with_null("NULL")
        .with_display_error(true)
}

/// The values of a column as text; `None` where NULL. Lists and structs are JSON, as they are
/// written in SQL and in CSV: it tells NULL from texts, and their commas from its own.
pub(crate) fn cell_texts(column: &ArrayRef) -> Result<Vec<Option<String>>> {
    if column.data_type().is_nested() {
        let field = Arc::new(Field::new("value", column.data_type().clone(), true));
        // JSON lacks maps whose keys are no texts.
        if let Ok(texts) = json_texts(&field, column) {
            return Ok(texts.iter().map(|text| text.map(str::to_owned)).collect());
        }
    }
    let options = format_options();
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options)
        .map_err(|error| failure::arrow("result", &error))?;
    let is_null = |row| column.is_null(row) || column.data_type().is_null();
    let shown =
        |row| text_form::own_text(column, row).unwrap_or_else(|| formatter.value(row).to_string());
    let text = |row| (!is_null(row)).then(|| shown(row));
    Ok((0..column.len()).map(text).collect())
}
