//! WHERE of a COPY FROM: which of the rows that come are written.
//!
//! ```text
//!   batch as it comes -> values of the table's types, defaults of the columns that are not given
//!                     -> the condition -> the batch without the rows for which it does not hold
//! ```
//!
//! Reads rows; writes nothing. As with PostgreSQL, whatever else a table asks of its rows (NOT
//! NULL, keys, partitions) is asked of those alone that are written. Invariant CPC-1: a row for
//! which the condition is not true mentions no natural key.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, TableReference};
use datafusion::sql::sqlparser::ast::Expr;
use lazybase_model::{Error, Result, Table};

use crate::cast::{place, to_column};
use crate::context::Constants;
use crate::dml::defaults::Defaults;
use crate::error::{from_arrow, from_datafusion};
use crate::labels::Sight;
use crate::parse::{folded, unsupported};
use crate::scan::{Shape, shown_field};
use crate::session::Shared;
use crate::types;
use crate::walk::visit_expressions;

/// The condition, with what it is asked of.
pub(super) struct Condition {
    expr: Expr,
    table: Arc<Table>,
    given: Vec<usize>,
    constants: Constants,
    defaults: Defaults,
    shape: Shape,
    schema: DFSchema,
    /// The number of the next row, counted from 1.
    next_row: u64,
}

impl Condition {
    /// The condition of a COPY whose rows give these columns of a table.
    ///
    /// # Errors
    /// `NotFound` (42703) for a column that the table lacks, `Invalid` for what is no condition
    /// (42804), and for columns whose values are known only when a row is written (0A000).
    pub(super) fn of(
        session: &Shared,
        table: &Arc<Table>,
        given: &[usize],
        expr: &Expr,
    ) -> Result<Condition> {
        let all: Vec<usize> = (0..table.written_columns()).collect();
        // Whether a value may be missing is asked later, of the rows that are written.
        let fields = all
            .iter()
            .map(|at| shown_field(table, *at).with_nullable(true));
        let shown = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let sight = Sight::of_given_rows();
        let shape = Shape::with_schema(Arc::clone(table), all, &sight, shown)?;
        let name = TableReference::bare(table.name.as_str());
        let schema = DFSchema::try_from_qualified_schema(name, &shape.schema)
            .map_err(|error| from_datafusion(&error, ""))?;
        let condition = Condition {
            expr: expr.clone(),
            table: Arc::clone(table),
            given: given.to_vec(),
            constants: session.constants(),
            defaults: Defaults::of(table)?,
            shape,
            schema,
            next_row: 1,
        };
        condition.check_columns()?;
        // What else is wrong with it is said before any row comes.
        let fields = given
            .iter()
            .map(|at| Field::new(&table.columns[*at].name, DataType::Utf8, true));
        let schema = Schema::new(fields.collect::<Vec<Field>>());
        condition.holds(&RecordBatch::new_empty(Arc::new(schema)))?;
        Ok(condition)
    }

    /// The rows of a batch for which it holds.
    ///
    /// # Errors
    /// `Invalid` for values that are none of their column's, whether the row is written or not.
    pub(super) fn kept(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        if batch.num_columns() != self.given.len() {
            // Whoever writes the rows says so.
            return Ok(batch.clone());
        }
        let holds = self.holds(batch)?;
        self.next_row += batch.num_rows() as u64;
        filter_record_batch(batch, holds.as_boolean()).map_err(|error| from_arrow(&error))
    }

    /// For each row whether it holds.
    fn holds(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let columns: Result<Vec<ArrayRef>> = (0..self.table.written_columns())
            .map(|at| self.column(at, batch))
            .collect();
        let names = self.table.columns.iter().map(|column| &column.name);
        let stored =
            RecordBatch::try_from_iter(names.zip(columns?)).map_err(|error| from_arrow(&error))?;
        let rows = self
            .shape
            .show(&stored)
            .map_err(|error| from_datafusion(&error, ""))?;
        let context = self.constants.context();
        let holds = context.evaluate(&self.expr, &self.schema, &rows)?;
        match holds.data_type() {
            DataType::Boolean => Ok(holds),
            other => Err(Error::invalid(format!(
                "COPY's WHERE takes a condition, and not a {}",
                types::name(other)
            ))
            .with_sqlstate("42804")),
        }
    }

    /// The values of a column: as they are given, or its default.
    fn column(&self, at: usize, batch: &RecordBatch) -> Result<ArrayRef> {
        let (table, rows) = (self.table.as_ref(), batch.num_rows());
        let column = &table.columns[at];
        // What is known later is not asked for.
        let is_numbered = column.default.sequence().is_some() && !self.given.contains(&at);
        if column.id_key.is_some() || is_numbered {
            return Ok(new_null_array(&column.data_type, rows));
        }
        match self.given.iter().position(|given| *given == at) {
            Some(nth) => to_column(batch.column(nth), &place(table, at, self.next_row)),
            None => self
                .defaults
                .values(&self.constants, table, at, rows, self.next_row),
        }
    }

    /// Refuses columns whose values nobody knows before the row is written.
    fn check_columns(&self) -> Result<()> {
        let refused = visit_expressions(&self.expr, |part| {
            let name = match part {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(parts) => parts.last(),
                _ => None,
            };
            let at = name.and_then(|name| self.table.column_index(&folded(name)));
            match at.filter(|at| self.is_known_later(*at)) {
                Some(at) => ControlFlow::Break(at),
                None => ControlFlow::Continue(()),
            }
        });
        match refused {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(at) => Err(unsupported(format!(
                "COPY's WHERE can't ask for column {:?}",
                self.table.columns[at].name
            ))
            .with_detail("its values are known only when a row is written")
            .with_hint(
                "COPY all rows into a temporary table, then INSERT INTO t SELECT ... FROM it \
                 WHERE ...",
            )),
        }
    }

    fn is_known_later(&self, at: usize) -> bool {
        let is_default = !self.given.contains(&at);
        self.table.columns[at].id_key.is_some()
            || (is_default && self.defaults.generate(&self.constants, at, None))
    }
}
