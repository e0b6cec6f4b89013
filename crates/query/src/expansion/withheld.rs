//! Columns of plain views that may not be read, though others of the view may.
//!
//! ```text
//!   FROM v, of which a may be read   ->  Projection a, withheld(s) AS s
//!                                          the plan of v
//!   optimized, withheld(..) is gone  ->  nothing has read s: the statement runs
//!              withheld(..) is there ->  42501
//! ```
//!
//! What is left out by the optimizer is not read, and needs no privilege, as with columns of
//! tables. The function is volatile, so that no rule computes it, or takes it for what it is over.
//! Reads plans; writes nothing. Invariant WHD-1: no plan with a withheld column in it runs.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use lazybase_model::{ColumnId, Table};

use crate::access::Gate;
use crate::context::Context;
use crate::error::into_datafusion;
use crate::walk::plans::{apply, apply_expressions, apply_with_subqueries};

/// The plan of a view, or of the first of its columns, with what a gate does not let pass withheld.
pub(super) fn withhold(plan: LogicalPlan, view: &Arc<Table>, gate: &Gate) -> Result<LogicalPlan> {
    let given = plan.schema().columns();
    let known = view.columns.iter().take(given.len());
    if known
        .clone()
        .all(|column| gate.reads_column(view, column.id))
    {
        return Ok(plan);
    }
    let shown = given.into_iter().zip(known).map(|(given, column)| {
        let given = Expr::Column(given);
        match gate.reads_column(view, column.id) {
            true => given,
            false => {
                let withheld = Withheld {
                    view: Arc::clone(view),
                    column: column.id,
                    gate: gate.clone(),
                    signature: Signature::any(1, Volatility::Volatile),
                };
                let withheld = ScalarUDF::from(withheld).call(vec![given]);
                withheld.alias(column.name.as_str())
            }
        }
    });
    let shown: Vec<Expr> = shown.collect();
    LogicalPlanBuilder::from(plan).project(shown)?.build()
}

impl Context {
    /// Whether a statement reads no column that is withheld from it, as the optimizer leaves it.
    ///
    /// # Errors
    /// `Invalid` (42501) where it does; what the optimizer refuses.
    pub(crate) fn check_withheld(&self, state: &SessionState, plan: &LogicalPlan) -> Result<()> {
        let Some(catalogs) = self.catalogs() else {
            return Ok(());
        };
        let has_views = !catalogs.names().planned.lock().is_empty();
        if !has_views || read_by(plan)?.is_empty() {
            return Ok(());
        }
        let read = read_by(&state.optimize(plan)?)?;
        let Some(first) = read.first() else {
            return Ok(());
        };
        let of_view = read.iter().filter(|other| other.view.id == first.view.id);
        let columns: Vec<ColumnId> = of_view.map(|other| other.column).collect();
        Err(into_datafusion(first.gate.withheld(&first.view, &columns)))
    }
}

/// The withheld columns that stand in a plan.
fn read_by(plan: &LogicalPlan) -> Result<Vec<Withheld>> {
    let mut read = Vec::new();
    apply_with_subqueries(plan, &mut |node| {
        apply_expressions(node, &mut |expr| {
            apply(expr, &mut |part: &Expr| {
                if let Expr::ScalarFunction(call) = part
                    && let Some(withheld) = call.func.inner().downcast_ref::<Withheld>()
                {
                    read.push(withheld.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(read)
}

/// Stands for the values of a column, and never tells them.
#[derive(Clone)]
struct Withheld {
    view: Arc<Table>,
    column: ColumnId,
    /// What does not let it pass.
    gate: Gate,
    signature: Signature,
}

impl fmt::Debug for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Withheld")
            .field("view", &self.view.name)
            .field("column", &self.column)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Withheld {
    fn eq(&self, other: &Withheld) -> bool {
        (self.view.id, self.column) == (other.view.id, other.column)
    }
}

impl Eq for Withheld {}

impl Hash for Withheld {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.view.id, self.column).hash(state);
    }
}

impl ScalarUDFImpl for Withheld {
    fn name(&self) -> &str {
        "withheld"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [of] => Ok(of.clone()),
            _ => internal_err!("withheld has one argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [of] => Ok(Arc::new(Field::clone(of).with_nullable(true))),
            _ => internal_err!("withheld has one argument"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let refused = self.gate.withheld(&self.view, &[self.column]);
        Err(into_datafusion(refused))
    }
}
