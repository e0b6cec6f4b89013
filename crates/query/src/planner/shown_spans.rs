//! Times between moments as PostgreSQL has them: an interval of days and a time of day. The
//! planner's own type for them, a duration, is a number, and is added up as one; where a query
//! gives it, it becomes an interval.
//!
//! ```text
//!   SELECT went - came          ->  SELECT interval_of(went - came)      697:30 -> 29 days 01:30
//!   sum(went - came)            ->  as it is, inside of what is shown
//! ```
//!
//! A rule of the planner; pure. Invariant SPN-1: no column of an answer is a duration, and plans
//! that give none stay as they are.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;

use crate::planner::casts::{Intervals, call};

/// Shows the durations that a plan gives as intervals.
#[derive(Debug)]
pub(crate) struct ShownSpans;

impl AnalyzerRule for ShownSpans {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let spans: Vec<bool> = plan
            .schema()
            .fields()
            .iter()
            .map(|field| matches!(field.data_type(), DataType::Duration(_)))
            .collect();
        if !spans.contains(&true) {
            return Ok(plan);
        }
        let (columns, input) = match plan {
            LogicalPlan::Projection(Projection { expr, input, .. }) => (expr, input),
            other => {
                let columns = other.schema().iter();
                let columns = columns.map(|column| Expr::Column(Column::from(column)));
                (columns.collect(), Arc::new(other))
            }
        };
        let shown = columns.into_iter().zip(spans).map(|(expr, is_span)| {
            if !is_span {
                return expr;
            }
            let (relation, name) = expr.qualified_name();
            call(Intervals::new(), expr.unalias()).alias_qualified(relation, name)
        });
        let shown = Projection::try_new(shown.collect(), input)?;
        Ok(LogicalPlan::Projection(shown))
    }

    fn name(&self) -> &str {
        "shown_spans"
    }
}
