//! The value of a subquery is NULL where the subquery gives no row, whatever its column is: the
//! planner takes it for a value that is there if the column is NOT NULL, or a constant, and answers
//! `(SELECT k FROM t WHERE false) IS NULL` with false.
//!
//! ```text
//!   (SELECT k FROM t WHERE ...)    ->  maybe((SELECT k FROM t WHERE ...))
//! ```
//!
//! A rule of the planner before all that look at what can be NULL; pure.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const SUBQUERY_VALUES: NodeRule = NodeRule::new("subquery_values", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, _| {
        let Expr::ScalarSubquery(subquery) = &expr else {
            return Ok(Transformed::no(expr));
        };
        let fields = subquery.subquery.schema().fields();
        if fields.iter().all(|field| field.is_nullable()) {
            return Ok(Transformed::no(expr));
        }
        let maybe = Arc::new(ScalarUDF::from(Maybe::new()));
        let call = ScalarFunction::new_udf(maybe, vec![expr]);
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    })
}

/// A value that may be NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Maybe {
    signature: Signature,
}

impl Maybe {
    fn new() -> Maybe {
        Maybe {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Maybe {
    fn name(&self) -> &str {
        "maybe"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [of] => Ok(of.clone()),
            _ => internal_err!("maybe has one argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [of] => Ok(Arc::new(Field::clone(of).with_nullable(true))),
            _ => internal_err!("maybe has one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match <[ColumnarValue; 1]>::try_from(args.args) {
            Ok([value]) => Ok(value),
            Err(_) => internal_err!("maybe has one argument"),
        }
    }
}
