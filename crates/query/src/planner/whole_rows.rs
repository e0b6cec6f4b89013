//! `t.*` as a value. It is NULL where all its columns are, and not NULL where none is. `count(t.*)`
//! counts the rows of `t`, and not those that an outer join made up: there, a column is NULL that
//! never is in `t` itself.
//!
//! ```text
//!   t.* IS NULL                                    ->  t.a IS NULL AND t.b IS NULL
//!   count(t.* IS UNKNOWN), which means count(t.*)  ->  count(t.key)
//!   json_row(t.*)                                  ->  json_row('a', t.a, 'b', t.b)
//! ```
//!
//! A rule of the planner before all that look at expressions; pure. The form of `count` is made in
//! `parse/whole_rows.rs`.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::json_values::JSON_ROW;
use crate::planner::rule::{NodeRule, rewrite_parts};
use lazybase_engine::read::HiddenColumn;

/// The rule.
pub(crate) const WHOLE_ROWS: NodeRule = NodeRule::new("whole_rows", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let below: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
    rewrite_parts(plan, &|expr, schema| {
        if let Expr::ScalarFunction(call) = &expr
            && let Some(table) = whole_json(call)
        {
            return json_row(call, table, schema).map(Transformed::yes);
        }
        let (of, test): (_, fn(Box<Expr>) -> Expr) = match &expr {
            Expr::IsNull(of) => (of, Expr::IsNull),
            Expr::IsNotNull(of) => (of, Expr::IsNotNull),
            Expr::IsUnknown(of) => (of, Expr::IsUnknown),
            _ => return Ok(Transformed::no(expr)),
        };
        let Some(table) = whole_row(of) else {
            return Ok(Transformed::no(expr));
        };
        if matches!(expr, Expr::IsUnknown(_)) {
            return match below.iter().find_map(|plan| never_null(plan, table)) {
                Some(column) => Ok(Transformed::yes(Expr::Column(column))),
                None => Err(uncountable(table)),
            };
        }
        let columns = columns_of(schema, table).into_iter();
        match conjunction(columns.map(|column| test(Box::new(Expr::Column(column))))) {
            Some(all) => Ok(Transformed::yes(all)),
            None => Err(unknown(table)),
        }
    })
}

/// The table whose rows a call makes JSON of.
fn whole_json(call: &ScalarFunction) -> Option<&TableReference> {
    match call.args.as_slice() {
        [whole] if call.func.name() == JSON_ROW => whole_row(whole),
        _ => None,
    }
}

/// A row by the names of its columns. A column that is called as the table is meant itself, where
/// that name stands alone: rows are asked for so.
fn json_row(call: &ScalarFunction, table: &TableReference, schema: &DFSchema) -> Result<Expr> {
    let columns = columns_of(schema, table);
    if columns.is_empty() {
        return Err(unknown(table));
    }
    let own = columns.iter().find(|column| column.name == table.table());
    if let Some(own) = own {
        return Ok(Expr::Column(own.clone()));
    }
    let members = columns
        .into_iter()
        .flat_map(|column| [lit(column.name.clone()), Expr::Column(column)]);
    let function = Arc::clone(&call.func);
    let call = ScalarFunction::new_udf(function, members.collect());
    Ok(Expr::ScalarFunction(call))
}

#[expect(deprecated, reason = "the planner reads whole rows as these")]
fn whole_row(expr: &Expr) -> Option<&TableReference> {
    match expr {
        Expr::Wildcard { qualifier, .. } => qualifier.as_ref(),
        _ => None,
    }
}

fn columns_of(schema: &DFSchema, table: &TableReference) -> Vec<Column> {
    let columns = schema.columns().into_iter().filter(|column| {
        let is_of = column
            .relation
            .as_ref()
            .is_some_and(|of| of.resolved_eq(table));
        is_of && !HiddenColumn::is_name(&column.name)
    });
    columns.collect()
}

/// A column of a table, read somewhere in a plan, that is NULL in none of the table's own rows.
fn never_null(plan: &LogicalPlan, table: &TableReference) -> Option<Column> {
    let (own, of) = match plan {
        LogicalPlan::TableScan(scan) => (&scan.projected_schema, &scan.table_name),
        LogicalPlan::SubqueryAlias(alias) => (alias.input.schema(), &alias.alias),
        _ => {
            let found = plan
                .inputs()
                .into_iter()
                .find_map(|input| never_null(input, table));
            return found.filter(|column| plan.schema().has_column(column));
        }
    };
    if !of.resolved_eq(table) {
        return None;
    }
    let mut fields = own.fields().iter().zip(plan.schema().columns());
    fields.find_map(|(field, column)| (!field.is_nullable()).then_some(column))
}

fn unknown(table: &TableReference) -> DataFusionError {
    into_datafusion(
        Error::invalid(format!("{table}.* has no columns here"))
            .with_hint("it stands for the columns of a table of the same FROM, before GROUP BY")
            .with_sqlstate("42P01"),
    )
}

fn uncountable(table: &TableReference) -> DataFusionError {
    into_datafusion(
        Error::invalid(format!("count({table}.*) is not supported here"))
            .with_detail(format!("no column of {table} is known to be NOT NULL"))
            .with_hint("write count(*), or count() of a column that is never NULL")
            .with_sqlstate("0A000"),
    )
}
