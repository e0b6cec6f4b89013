//! What a batch says about labels: each is one that can be read, and a cell's label is set exactly
//! where the cell is.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray};
use lazybase_model::label::Label;
use lazybase_model::{Error, Result, Table};

use crate::change_batch::ChangeBatch;

/// The first row that matters whose text is no label, and why.
pub fn first_no_label(
    values: &ArrayRef,
    matters: impl Fn(usize) -> bool,
) -> Option<(usize, Error)> {
    let texts = values.as_string_opt::<i32>()?;
    let mut known: HashSet<&str> = HashSet::new();
    let mut last = "";
    (0..texts.len())
        .filter(|row| texts.is_valid(*row))
        .find_map(|row| {
            let text = texts.value(row);
            if text == last || known.contains(text) {
                return None;
            }
            match Label::parse(text) {
                Ok(_) => {
                    last = text;
                    known.insert(text);
                    None
                }
                Err(error) => matters(row).then_some((row, error)),
            }
        })
}

/// Checks that no change sets a cell and leaves its label, or a label and leaves its cell.
///
/// # Errors
/// `Invalid` (0A000), naming table and column.
pub(super) fn check_masks(table: &Table, changes: &ChangeBatch) -> Result<()> {
    let Some(masks) = &changes.masks else {
        return Ok(());
    };
    let mut pairs = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        if let Some(label) = table.cell_label(at)? {
            pairs.push((at, label, column));
        }
    }
    if pairs.is_empty() {
        return Ok(());
    }
    let mut last: Option<&[u8]> = None;
    for mask in masks.iter().flatten() {
        if last == Some(mask) {
            continue;
        }
        last = Some(mask);
        let is_set = |at: usize| {
            let byte = mask.get(at / 8);
            byte.is_some_and(|byte| byte & (1 << (at % 8)) != 0)
        };
        let apart = pairs
            .iter()
            .find(|(at, label, _)| is_set(*at) != is_set(*label));
        if let Some((_, _, column)) = apart {
            return Err(Error::invalid(format!(
                "table {:?}, column {:?}: a cell is set without its label, or the label without it",
                table.name, column.name
            ))
            .with_sqlstate("0A000"));
        }
    }
    Ok(())
}
