//! Where constants of a write stand in its text: errors of values are found in whole columns, and
//! tell the row alone.
//!
//! Reads expressions and errors; writes nothing. Invariant CPL-2: the place of a constant is told
//! only where it alone makes the same error.

use datafusion::sql::sqlparser::ast::{Expr, TypedString};
use datafusion::sql::sqlparser::tokenizer::Span;
use lazybase_model::{Error, Table};

use crate::cast::{checked_cells, place};
use crate::literal::{Literal, to_array};
use crate::text_places::at_span;

/// Whether an error is one of a value, or of its type, without a place.
fn is_of_value(error: &Error) -> bool {
    let sqlstate = error.sqlstate();
    error.place().is_none() && (sqlstate.starts_with("22") || sqlstate == "42804")
}

/// An error of a value that an expression gives alone, with its place if it is a constant.
pub(super) fn at_value(error: Error, expr: &Expr) -> Error {
    match is_of_value(&error) {
        true => at_span(error, span(expr)),
        false => error,
    }
}

/// An error of rows of VALUES, whose values go to `given` in order, with the place of the constant
/// that it is about.
pub(super) fn at_cell(
    error: Error,
    table: &Table,
    given: &[usize],
    rows: &[Vec<Expr>],
    first_row: u64,
) -> Error {
    if !is_of_value(&error) {
        return error;
    }
    let key = table.key_indices();
    let is_wrong = |row: u64, at: usize, cell: &Expr| {
        let place = place(table, at, row);
        let literal = Literal::of(cell).filter(|_| place.column.id_key.is_none());
        let alone = literal.map(|literal| {
            let values = to_array(&[literal], &place);
            values.and_then(|values| checked_cells(values, key.contains(&at), &place))
        });
        matches!(alone, Some(Err(alone)) if alone.message() == error.message())
    };
    for (row, cells) in (first_row..).zip(rows) {
        let mut columns = given.iter().zip(cells);
        if let Some((_, cell)) = columns.find(|(at, cell)| is_wrong(row, **at, cell)) {
            return at_span(error, span(cell));
        }
    }
    error
}

/// Where a constant stands: nowhere, if it has a sign.
fn span(expr: &Expr) -> Span {
    match expr {
        Expr::Nested(inner) => span(inner),
        Expr::Value(value) | Expr::TypedString(TypedString { value, .. }) => value.span,
        _ => Span::empty(),
    }
}
