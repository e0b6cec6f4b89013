//! Defaults: evaluated when a change is accepted, never when it is read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, new_null_array};
use datafusion::sql::sqlparser::ast::Expr;
use lazybase_model::{ColumnDefault, Error, Result, SequenceId, Table};
use parking_lot::Mutex;

use crate::cast::{place, to_column};
use crate::changes::repeated;
use crate::context::Constants;
use crate::error::from_parser;
use crate::literal::{Literal, to_array};
use crate::sequences::Numbers;
use crate::text_places::of_template;

/// The expression that a text is.
///
/// # Errors
/// `Invalid` (42601) when it is none.
pub(crate) fn parse_expression(text: &str) -> Result<Expr> {
    let parse = || {
        let mut parser = of_template(text)?;
        let expr = parser.parse_expr()?;
        Ok((expr, parser.peek_token()))
    };
    let (expr, left) = parse().map_err(|error| from_parser(&error, ""))?;
    match left.token {
        datafusion::sql::sqlparser::tokenizer::Token::EOF => Ok(expr),
        other => Err(Error::invalid(format!("syntax error at {other}")).with_sqlstate("42601")),
    }
}

/// The default of one column.
#[derive(Debug)]
enum Made {
    Null,
    By(Box<Expr>),
    /// A number of a sequence, for whoever may take them.
    Next(SequenceId),
    /// A number of an identity column, for whoever may insert.
    Identity(SequenceId),
}

/// The defaults of a table's columns, by position.
#[derive(Debug)]
pub(crate) struct Defaults {
    columns: Vec<Made>,
    /// Numbers that were taken for rows to come, by the columns that they are for.
    numbers: Mutex<BTreeMap<usize, VecDeque<i64>>>,
}

impl Defaults {
    /// The defaults of a table.
    pub(crate) fn of(table: &Table) -> Result<Defaults> {
        let columns = table.columns.iter().map(|column| match &column.default {
            ColumnDefault::Null => Ok(Made::Null),
            ColumnDefault::Expression(text) => {
                parse_expression(text).map(|expression| Made::By(Box::new(expression)))
            }
            ColumnDefault::Next(sequence) => Ok(match column.identity {
                None => Made::Next(*sequence),
                Some(_) => Made::Identity(*sequence),
            }),
        });
        Ok(Defaults {
            columns: columns.collect::<Result<_>>()?,
            numbers: Mutex::default(),
        })
    }

    /// Takes the numbers that columns need for so many rows each, where those are their defaults:
    /// [`Defaults::values`] can't wait for them.
    ///
    /// # Errors
    /// As [`Numbers::next_by_default`].
    pub(crate) async fn take(&self, numbers: &Numbers, wanted: Vec<(usize, usize)>) -> Result<()> {
        for (column, rows) in wanted.into_iter().filter(|(_, rows)| *rows > 0) {
            let taken = match &self.columns[column] {
                Made::Next(sequence) => numbers.next_by_default(*sequence, rows).await?,
                Made::Identity(sequence) => numbers.next(*sequence, rows).await?,
                Made::Null | Made::By(_) => continue,
            };
            let mut stock = self.numbers.lock();
            stock.entry(column).or_default().extend(taken);
        }
        Ok(())
    }

    /// The default of a column for `rows` rows: another value for each where it is volatile.
    pub(crate) fn values(
        &self,
        constants: &Constants,
        table: &Table,
        column: usize,
        rows: usize,
        first_row: u64,
    ) -> Result<ArrayRef> {
        let place = place(table, column, first_row);
        match &self.columns[column] {
            Made::Null => Ok(new_null_array(place.data_type(), rows)),
            Made::Next(_) | Made::Identity(_) => to_column(&self.taken(column, rows)?, &place),
            Made::By(expr) => match Literal::of(expr) {
                Some(literal) => repeated(&to_array(&[literal], &place)?, rows),
                None => to_column(&constants.context().constant(expr, rows)?, &place),
            },
        }
    }

    /// Numbers that were taken for a column.
    fn taken(&self, column: usize, rows: usize) -> Result<ArrayRef> {
        let mut stock = self.numbers.lock();
        let stock = stock.entry(column).or_default();
        if stock.len() < rows {
            return Err(Error::internal(
                "rows are made that nobody took numbers for",
            ));
        }
        let numbers: Int64Array = stock.drain(..rows).map(Some).collect();
        Ok(Arc::new(numbers))
    }

    /// Whether the database generates what a column gets: by what is written for it, or by its
    /// default.
    pub(crate) fn generate(
        &self,
        constants: &Constants,
        column: usize,
        written: Option<&Expr>,
    ) -> bool {
        match (
            written.filter(|written| !is_default(written)),
            &self.columns[column],
        ) {
            (Some(expr), _) => constants.generates(expr),
            (None, Made::By(expr)) => constants.generates(expr),
            (None, Made::Next(_) | Made::Identity(_)) => true,
            (None, Made::Null) => false,
        }
    }
}

/// Whether an expression is the word DEFAULT.
pub(crate) fn is_default(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(ident) => {
            ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default")
        }
        _ => false,
    }
}
