//! Defaults: evaluated when a change is accepted, never when it is read.

use arrow::array::{ArrayRef, new_null_array};
use datafusion::sql::sqlparser::ast::Expr;
use lazybase_model::{ColumnDefault, Error, Result, Table};

use crate::cast::{place, to_column};
use crate::changes::repeated;
use crate::context::Constants;
use crate::error::from_parser;
use crate::literal::{Literal, to_array};
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

/// The defaults of a table's columns, by position.
#[derive(Debug)]
pub(crate) struct Defaults {
    columns: Vec<Option<Expr>>,
}

impl Defaults {
    /// The defaults of a table.
    pub(crate) fn of(table: &Table) -> Result<Defaults> {
        let columns = table.columns.iter().map(|column| match &column.default {
            ColumnDefault::Null => Ok(None),
            ColumnDefault::Expression(text) => parse_expression(text).map(Some),
        });
        Ok(Defaults {
            columns: columns.collect::<Result<_>>()?,
        })
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
            None => Ok(new_null_array(place.data_type(), rows)),
            Some(expr) => match Literal::of(expr) {
                Some(literal) => repeated(&to_array(&[literal], &place)?, rows),
                None => to_column(&constants.context().constant(expr, rows)?, &place),
            },
        }
    }

    /// Whether the database generates what a column gets: by what is written for it, or by its
    /// default.
    pub(crate) fn generate(
        &self,
        constants: &Constants,
        column: usize,
        written: Option<&Expr>,
    ) -> bool {
        let written = written.filter(|written| !is_default(written));
        let expr = written.or(self.columns[column].as_ref());
        expr.is_some_and(|expr| constants.generates(expr))
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
