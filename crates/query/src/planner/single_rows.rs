//! A subquery that is a value and depends on the row around it: the planner joins one that
//! aggregates, and refuses all others. What a subquery without aggregates gives is gathered, and
//! more than one row of it an error; of one that wants a single row, that row is an aggregate.
//!
//! ```text
//!   (SELECT b FROM u WHERE u.a = t.a)
//!     ->  only((SELECT array_agg(b) FROM u WHERE u.a = t.a))           more rows: 21000
//!   (SELECT b FROM u WHERE u.a = t.a ORDER BY c LIMIT 1)
//!     ->  (SELECT first_value(b ORDER BY c) FROM u WHERE u.a = t.a)
//! ```
//!
//! A rule of the planner before its own, and its function; pure. Invariant SGL-1: an error is one
//! of a row that is asked for, and not of rows that the subquery alone would find.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, internal_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, Sort};
use datafusion::logical_expr::logical_plan::{FetchType, Limit, SkipType};
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Distinct, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility,
};

use crate::error::{into_datafusion, more_than_one_row};
use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const SINGLE_ROWS: NodeRule = NodeRule::new("single_rows", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, _| match expr {
        Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => {
            value_of(subquery)
        }
        expr => Ok(Transformed::no(expr)),
    })
}

fn value_of(subquery: Subquery) -> Result<Transformed<Expr>> {
    if is_aggregated(&subquery.subquery) {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    let (plan, may_have_more) = match first_of(&subquery.subquery)? {
        Some(plan) => (plan, false),
        // One row that reads nothing. Of others, a limit leaves one for all rows around.
        None if !matches!(*subquery.subquery, LogicalPlan::Limit(_))
            && subquery.subquery.max_rows().is_some_and(|rows| rows <= 1) =>
        {
            return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
        }
        None => (all_of(&subquery.subquery)?, true),
    };
    let only = Only::of(subquery.subquery.schema().field(0));
    let value = Expr::ScalarSubquery(subquery.with_plan(Arc::new(plan)));
    Ok(Transformed::yes(match may_have_more {
        true => {
            let only = Arc::new(ScalarUDF::from(only));
            Expr::ScalarFunction(ScalarFunction::new_udf(only, vec![value]))
        }
        false => value,
    }))
}

/// Whether a query is an aggregate of all that it finds, which the planner joins.
fn is_aggregated(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_aggregated(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_aggregated(&alias.input),
        // HAVING.
        LogicalPlan::Filter(filter) => is_aggregated(&filter.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// The first row of a query that wants no other, as an aggregate.
fn first_of(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Limit(limit) = plan else {
        return Ok(None);
    };
    if !is_first(limit)? {
        return Ok(None);
    }
    // What is ordered by something else than the column is projected behind the order.
    let (value, ordered) = match limit.input.as_ref() {
        LogicalPlan::Projection(projection) => match projection.expr.as_slice() {
            [value] => (Some(value.clone().unalias()), &projection.input),
            _ => return Ok(None),
        },
        _ => (None, &limit.input),
    };
    let (order, rows) = match ordered.as_ref() {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.expr.clone(), &sort.input),
        _ => (Vec::new(), ordered),
    };
    let value = match value {
        Some(value) => value,
        None => Expr::Column(only_column(rows)?),
    };
    aggregated(rows, first_value_udaf(), value, order, false).map(Some)
}

fn is_first(limit: &Limit) -> Result<bool> {
    let from_start = matches!(limit.get_skip_type()?, SkipType::Literal(0));
    Ok(from_start && matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1))))
}

/// All rows of a query as one list.
fn all_of(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let (rows, distinct) = match plan {
        LogicalPlan::Distinct(Distinct::All(rows)) => (rows.as_ref(), true),
        other => (other, false),
    };
    // More than one is an error in any order.
    let rows = match rows {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => sort.input.as_ref(),
        other => other,
    };
    let value = Expr::Column(only_column(rows)?);
    aggregated(rows, array_agg_udaf(), value, Vec::new(), distinct)
}

fn only_column(plan: &LogicalPlan) -> Result<Column> {
    match plan.schema().columns().as_slice() {
        [column] => Ok(column.clone()),
        columns => datafusion::common::plan_err!(
            "subquery must return only one column, and not {}",
            columns.len()
        ),
    }
}

fn aggregated(
    rows: &LogicalPlan,
    function: Arc<AggregateUDF>,
    value: Expr,
    order: Vec<Sort>,
    distinct: bool,
) -> Result<LogicalPlan> {
    let aggregate = AggregateFunction::new_udf(function, vec![value], distinct, None, order, None);
    LogicalPlanBuilder::from(rows.clone())
        .aggregate(Vec::<Expr>::new(), [Expr::AggregateFunction(aggregate)])?
        .build()
}

/// The one value of a list: NULL where there is none, an error where there are more.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Only {
    signature: Signature,
    /// What is told of the values beside their type, as that they are UUIDs: lists do not say it.
    told: BTreeMap<String, String>,
}

impl Only {
    /// One that gives the values of this field.
    fn of(field: &Field) -> Only {
        Only {
            signature: Signature::any(1, Volatility::Immutable),
            told: field.metadata().clone().into_iter().collect(),
        }
    }
}

impl ScalarUDFImpl for Only {
    fn name(&self) -> &str {
        "only"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::List(element)] => Ok(element.data_type().clone()),
            _ => internal_err!("only is of one list"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [of] => match of.data_type() {
                DataType::List(element) => {
                    let told = self.told.clone().into_iter().collect();
                    let field = Field::new(of.name(), element.data_type().clone(), true);
                    Ok(Arc::new(field.with_metadata(told)))
                }
                _ => internal_err!("only is of one list"),
            },
            _ => internal_err!("only is of one list"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(list)] => {
                let one = only(&list.to_array()?)?;
                let value = datafusion::common::ScalarValue::try_from_array(&one, 0)?;
                Ok(ColumnarValue::Scalar(value))
            }
            [ColumnarValue::Array(lists)] => Ok(ColumnarValue::Array(only(lists)?)),
            _ => internal_err!("only is of one list"),
        }
    }
}

fn only(lists: &ArrayRef) -> Result<ArrayRef> {
    let Some(lists) = lists.as_list_opt::<i32>() else {
        return internal_err!("only is of lists");
    };
    let mut places: Vec<Option<u64>> = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let range = lists.value_offsets()[row]..lists.value_offsets()[row + 1];
        places.push(match range.len() {
            _ if lists.is_null(row) => None,
            0 => None,
            1 => u64::try_from(range.start).ok(),
            _ => return Err(into_datafusion(more_than_one_row())),
        });
    }
    Ok(take(lists.values(), &UInt64Array::from(places), None)?)
}
