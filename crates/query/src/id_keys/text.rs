//! Natural keys as texts, for COPY: `(web1,/var/log)`, as PostgreSQL writes rows.
//!
//! Values stand between parentheses with commas between them. A value that holds a comma, a
//! parenthesis, a double quote or a backslash stands in double quotes; in them, a double quote is
//! doubled. Spaces count. An empty value without quotes is NULL, which no key holds. A text of
//! digits alone is a number that was given out.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray, StringBuilder};
use lazybase_model::{Error, Result};

use super::{never_given, other_width};
use crate::cast::Place;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Number(i64),
    /// The key at this place.
    Key(u32),
}

/// What some texts are.
pub(super) struct Texts {
    pub(super) cells: Vec<Cell>,
    /// The columns of the keys.
    pub(super) columns: Vec<ArrayRef>,
}

/// Reads texts.
///
/// # Errors
/// `Invalid` for the first that is neither a key of `width` values nor a number.
pub(super) fn keys_of(texts: &StringArray, width: usize, place: &Place<'_>) -> Result<Texts> {
    let mut builders: Vec<StringBuilder> = (0..width).map(|_| StringBuilder::new()).collect();
    let mut keys = 0;
    let mut cells = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        if texts.is_null(row) {
            cells.push(Cell::Null);
            continue;
        }
        let text = texts.value(row);
        if let Ok(number) = text.trim().parse::<i64>() {
            match number > 0 {
                true => cells.push(Cell::Number(number)),
                false => return Err(place.error(row, &never_given(number), "23503")),
            }
            continue;
        }
        let wrong = |fact: &str| -> Error { place.error(row, fact, "22P02") };
        let values = values_of(text).ok_or_else(|| wrong("the text is no natural key"))?;
        if values.len() != width {
            return Err(wrong(&other_width(values.len(), width)));
        }
        for (builder, value) in builders.iter_mut().zip(values) {
            builder.append_option(value);
        }
        cells.push(Cell::Key(keys));
        keys += 1;
    }
    let columns = builders
        .iter_mut()
        .map(|b| Arc::new(b.finish()) as ArrayRef);
    Ok(Texts {
        cells,
        columns: columns.collect(),
    })
}

/// The values of a row in parentheses.
pub(super) fn values_of(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let mut values = Vec::new();
    let mut value = String::new();
    let (mut quoted, mut was_quoted) = (false, false);
    let mut letters = inside.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                value.push('"');
            }
            '"' => {
                quoted = !quoted;
                was_quoted = true;
            }
            '\\' => value.push(letters.next()?),
            ',' if !quoted => {
                values.push((was_quoted || !value.is_empty()).then(|| std::mem::take(&mut value)));
                was_quoted = false;
            }
            '(' | ')' if !quoted => return None,
            other => value.push(other),
        }
    }
    values.push((was_quoted || !value.is_empty()).then_some(value));
    (!quoted).then_some(values)
}
