//! The columns that COPY's FORCE_QUOTE, FORCE_NULL and FORCE_NOT_NULL name.
//!
//! Pure.

use arrow::datatypes::Schema;
use lazybase_model::{Error, Result, Table};

use crate::dml::insert::column;

/// Columns that an option of a COPY names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForcedColumns {
    /// All of them.
    All,
    /// Those of these names; by default none.
    Named(Vec<String>),
}

impl Default for ForcedColumns {
    fn default() -> ForcedColumns {
        ForcedColumns::Named(Vec::new())
    }
}

impl ForcedColumns {
    /// Whether no column is named.
    pub(crate) fn is_empty(&self) -> bool {
        *self == ForcedColumns::default()
    }

    /// For each column of an answer, whether it is meant.
    ///
    /// # Errors
    /// `NotFound` (42703) for a name that no column has.
    pub fn of_answer(&self, schema: &Schema) -> Result<Vec<bool>> {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let names: Vec<&str> = names.collect();
        self.among(&names).map_err(|name| {
            Error::not_found(format!("the COPY has no column {name:?}")).with_sqlstate("42703")
        })
    }

    /// For each column of a table that is given, whether it is meant.
    ///
    /// # Errors
    /// `NotFound` (42703) for a name that no column of the table has; `Invalid` (42P10) for a
    /// column that is not given.
    pub(super) fn of_table(
        &self,
        option: &str,
        table: &Table,
        given: &[usize],
    ) -> Result<Vec<bool>> {
        if let ForcedColumns::Named(names) = self {
            for name in names {
                column(table, name)?;
            }
        }
        let names = given.iter().map(|at| table.columns[*at].name.as_str());
        let names: Vec<&str> = names.collect();
        self.among(&names).map_err(|name| {
            Error::invalid(format!(
                "{option} names column {name:?}, which COPY does not give"
            ))
            .with_sqlstate("42P10")
        })
    }

    /// For each name, whether it is meant; else the first that is none of them.
    fn among(&self, names: &[&str]) -> Result<Vec<bool>, &str> {
        let ForcedColumns::Named(meant) = self else {
            return Ok(vec![true; names.len()]);
        };
        match meant.iter().find(|meant| !names.contains(&meant.as_str())) {
            Some(unknown) => Err(unknown.as_str()),
            None => Ok(names
                .iter()
                .map(|name| meant.iter().any(|meant| meant == name))
                .collect()),
        }
    }
}
