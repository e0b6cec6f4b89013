//! Whether an answer is the expected one, as far as the query settles it.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use lazybase_model::Error;

use crate::query::Order;

/// What an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The statement, whatever the rows are.
    Statement,
    /// The rows that were looked at.
    Rows,
    /// The planner itself: it calls some of its own refusals internal.
    Internal,
    Other,
}

impl Class {
    /// What an error of LazyBase is about.
    pub(crate) fn of(error: &Error) -> Class {
        match error.sqlstate() {
            // The class of values, but about the statement.
            "22000" | "22023" => Class::Statement,
            state if state.starts_with("2201") && state != "22012" => Class::Statement,
            state if state.starts_with("22") => Class::Rows,
            state if state.starts_with("42") || state.starts_with("0A") => Class::Statement,
            "XX000" => Class::Internal,
            _ => Class::Other,
        }
    }
}

/// An answer as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Names and types.
    columns: Vec<(String, DataType)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(schema: &Schema, batches: &[RecordBatch]) -> Table {
        let columns = schema.fields().iter();
        Table {
            columns: columns
                .map(|field| (field.name().clone(), field.data_type().clone()))
                .collect(),
            rows: batches.iter().flat_map(texts).collect(),
        }
    }

    /// Loses all rows.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
    }

    fn sorted(&self) -> Vec<&Vec<String>> {
        let mut rows: Vec<&Vec<String>> = self.rows.iter().collect();
        rows.sort();
        rows
    }

    /// What is wrong with an answer where this is expected; for [`Order::Some`], without its limit.
    pub(crate) fn differs(&self, got: &Table, order: &Order) -> Option<String> {
        let types = |table: &Table| -> Vec<(String, String)> {
            let shown = table.columns.iter();
            shown.map(|(name, of)| (name.clone(), family(of))).collect()
        };
        if types(self) != types(got) {
            return Some(format!("columns {:?}, not {:?}", got.columns, self.columns));
        }
        let same = match order {
            Order::Any => self.sorted() == got.sorted(),
            Order::Total => self.rows == got.rows,
            Order::By(columns) => {
                let ordered = |table: &Table| -> Vec<Vec<String>> {
                    let cells = |row: &Vec<String>| -> Vec<String> {
                        columns.iter().map(|at| row[*at].clone()).collect()
                    };
                    table.rows.iter().map(cells).collect()
                };
                self.sorted() == got.sorted() && ordered(self) == ordered(got)
            }
            Order::Some { limit, offset, .. } => {
                got.rows.len() == self.rows.len().saturating_sub(*offset).min(*limit)
                    && self.holds(got)
            }
        };
        (!same).then(|| format!("expected\n{}\nbut got\n{}", self.shown(), got.shown()))
    }

    /// Whether all rows of the other are among these, each as often at least.
    fn holds(&self, other: &Table) -> bool {
        let mut left = self.sorted().into_iter();
        other
            .sorted()
            .into_iter()
            .all(|row| left.any(|one| one == row))
    }

    fn shown(&self) -> String {
        let mut lines: Vec<String> = self.rows.iter().map(|row| row.join(" | ")).collect();
        let count = lines.len();
        if count > ROWS_SHOWN {
            lines.truncate(ROWS_SHOWN);
            lines.push("...".to_owned());
        }
        lines.push(format!("({count} rows)"));
        lines.join("\n")
    }
}

/// More rows of an answer are not shown.
const ROWS_SHOWN: usize = 60;

/// A type, without how its values lie in memory.
fn family(of: &DataType) -> String {
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytes".to_owned(),
        DataType::List(field) => format!("list of {}", family(field.data_type())),
        other => other.to_string(),
    }
}

fn texts(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<Option<ArrayFormatter<'_>>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).ok())
        .collect();
    let cell = |formatter: &Option<ArrayFormatter<'_>>, row: usize| match formatter {
        Some(formatter) => formatter.value(row).to_string(),
        None => "?".to_owned(),
    };
    let is_float = |at: usize| batch.column(at).data_type().is_floating();
    let shown = |(at, formatter): (usize, &Option<ArrayFormatter<'_>>), row: usize| {
        let text = cell(formatter, row);
        // Where zeros meet, as in a group, any of them stands for all.
        match text == "-0.0" && is_float(at) {
            true => "0.0".to_owned(),
            false => text,
        }
    };
    let row = |row: usize| -> Vec<String> {
        let cells = columns.iter().enumerate();
        cells.map(|column| shown(column, row)).collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

#[cfg(test)]
mod tests;
