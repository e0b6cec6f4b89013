//! Series as rows, without a list of their values: however many they are, a batch of them is made
//! when somebody takes it, and the statement can end before the next one.
//!
//! ```text
//!   Projection  unnest(x)              x is not computed while the statement is planned
//!     Unnest  x
//!       Projection  k, generate_series(1, n) AS x
//!
//!   UnnestExec  x               ->   SeriesExec  k, generate_series(1, n)
//!     ProjectionExec  k, x             input
//!       input
//! ```
//!
//! Several series beside one another go on until the longest ends, with NULL behind the others;
//! series beside other lists stay lists. Two rules of the planner and a plan; reads and gives
//! plans. Invariant SER-3: the rows are those that the lists would have given.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{NullHandling, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, ScalarUDF, Unnest, Volatility};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream::{self, StreamExt};

use super::values::{Arguments, Values};
use super::{Gives, Series};
use crate::planner::rule::{NodeRule, PlanRule};

/// The rule for logical plans: where lists of series become rows, the planner does not compute
/// them.
pub(crate) const KEPT_SERIES: NodeRule = NodeRule::new("kept_series", keep);

fn keep(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Unnest(mut unnest) = plan else {
        return Ok(Transformed::no(plan));
    };
    let kept = match unnest.input.as_ref() {
        LogicalPlan::Projection(lists) => with_kept(lists, &unnest)?,
        _ => None,
    };
    Ok(match kept {
        Some(lists) => {
            unnest.input = Arc::new(LogicalPlan::Projection(lists));
            Transformed::yes(LogicalPlan::Unnest(unnest))
        }
        None => Transformed::no(LogicalPlan::Unnest(unnest)),
    })
}

/// The lists, where all that become rows are those of series, and some would be computed.
fn with_kept(lists: &Projection, unnest: &Unnest) -> Result<Option<Projection>> {
    let mut exprs = lists.expr.clone();
    let mut changed = false;
    for (at, _) in &unnest.list_type_columns {
        let Some(call) = exprs.get_mut(*at).and_then(call_of_series) else {
            return Ok(None);
        };
        let series = call.func.inner().downcast_ref::<Series>();
        let computed = series.filter(|series| series.signature.volatility != Volatility::Volatile);
        if let Some(kept) = computed.map(Series::kept) {
            call.func = Arc::new(ScalarUDF::from(kept));
            changed = true;
        }
    }
    if !changed {
        return Ok(None);
    }
    let (input, schema) = (Arc::clone(&lists.input), Arc::clone(&lists.schema));
    Projection::try_new_with_schema(exprs, input, schema).map(Some)
}

fn call_of_series(expr: &mut Expr) -> Option<&mut ScalarFunction> {
    match expr {
        Expr::Alias(alias) => call_of_series(&mut alias.expr),
        Expr::ScalarFunction(call) => call.func.inner().is::<Series>().then_some(call),
        _ => None,
    }
}

/// The rule for physical plans, before all others of its kind.
pub(crate) const SERIES_ROWS: PlanRule = PlanRule::new("series_rows", without_lists);

fn without_lists(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match SeriesExec::of(&plan) {
        Some(rows) => Transformed::yes(Arc::new(rows) as _),
        None => Transformed::no(plan),
    })
}

/// A column of the rows.
#[derive(Debug)]
struct Column {
    expr: Arc<dyn PhysicalExpr>,
    /// The series that it has the values of; the others repeat what they are for the row.
    series: Option<Call>,
}

/// A call of a series.
#[derive(Debug)]
struct Call {
    gives: Gives,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
}

impl Call {
    fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Call> {
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        let series = call.fun().inner().downcast_ref::<Series>()?;
        Some(Call {
            gives: series.gives,
            arguments: call.args().to_vec(),
        })
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<Arguments> {
        let arrays = self
            .arguments
            .iter()
            .map(|argument| argument.evaluate(rows)?.into_array(rows.num_rows()));
        Arguments::of(self.gives, &arrays.collect::<Result<Vec<ArrayRef>>>()?)
    }

    /// About how many values it has, where all of its arguments are constants.
    fn estimate(&self) -> Option<u64> {
        let constants = self.arguments.iter().map(|argument| {
            let constant = argument.downcast_ref::<Literal>()?;
            constant.value().to_array().ok()
        });
        let constants = constants.collect::<Option<Vec<ArrayRef>>>()?;
        let series = Arguments::of(self.gives, &constants).ok()?.row(0).ok()?;
        Some(series.map_or(0, |values| values.estimate()))
    }
}

/// A row of the input for each value of the series beside it.
#[derive(Debug)]
pub(crate) struct SeriesExec {
    /// What gives the same rows by lists: it knows what holds of them.
    lists: Arc<dyn ExecutionPlan>,
    /// What that has the lists from.
    projection: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
    columns: Arc<[Column]>,
    metrics: ExecutionPlanMetricsSet,
}

impl SeriesExec {
    /// The rows of lists, where all of them are those of series.
    fn of(lists: &Arc<dyn ExecutionPlan>) -> Option<SeriesExec> {
        let unnest = lists.downcast_ref::<UnnestExec>()?;
        let projection = unnest.input().downcast_ref::<ProjectionExec>()?;
        let of_lists = unnest.list_column_indices();
        // A series that is NULL has no rows.
        let is_plain = !of_lists.is_empty()
            && of_lists.iter().all(|list| list.depth == 1)
            && unnest.struct_column_indices().is_empty()
            && unnest.options().null_handling == NullHandling::Drop
            && lists.schema().fields().len() == projection.expr().len();
        if !is_plain {
            return None;
        }
        let columns = projection.expr().iter().enumerate().map(|(at, column)| {
            let is_list = of_lists.iter().any(|list| list.index_in_input_schema == at);
            let series = match is_list {
                true => Some(Call::of(&column.expr)?),
                false => None,
            };
            Some(Column {
                expr: Arc::clone(&column.expr),
                series,
            })
        });
        Some(SeriesExec {
            columns: columns.collect::<Option<Vec<Column>>>()?.into(),
            lists: Arc::clone(lists),
            projection: Arc::clone(unnest.input()),
            input: Arc::clone(projection.input()),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// What the rows are made of.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// About how many rows there are for each of the input, where that can be told beforehand.
    pub(crate) fn rows_each(&self) -> u64 {
        let series = self.columns.iter().flat_map(|column| &column.series);
        series.filter_map(Call::estimate).max().unwrap_or(0)
    }

    /// The same over another input, which is its only one.
    fn over(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = replace_children_if_necessary(Arc::clone(&self.projection), inputs)?;
        let lists = replace_children_if_necessary(Arc::clone(&self.lists), vec![projection])?;
        match SeriesExec::of(&lists) {
            Some(rows) => Ok(Arc::new(rows)),
            None => internal_err!("the lists of series are those of something else"),
        }
    }
}

impl DisplayAs for SeriesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns.iter().map(|column| column.expr.to_string());
        let columns: Vec<String> = columns.collect();
        write!(f, "SeriesExec: {}", columns.join(", "))
    }
}

impl ExecutionPlan for SeriesExec {
    fn name(&self) -> &str {
        "SeriesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.lists.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        look: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.projection.apply_expressions(look)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let work = Work {
            rows_max: context.session_config().batch_size(),
            input: self.input.execute(partition, context)?,
            columns: Arc::clone(&self.columns),
            schema: Arc::clone(&schema),
            open: None,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let rows = stream::try_unfold(work, Work::next);
        let rows = RecordBatchStreamAdapter::new(schema, rows);
        Ok(make_cooperative(Box::pin(rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// How far the rows of a partition have come.
struct Work {
    input: SendableRecordBatchStream,
    columns: Arc<[Column]>,
    schema: SchemaRef,
    /// The most of a batch.
    rows_max: usize,
    open: Option<Open>,
    metrics: BaselineMetrics,
}

impl Work {
    async fn next(mut self) -> Result<Option<(RecordBatch, Work)>> {
        loop {
            if let Some(open) = &mut self.open {
                let timer = self.metrics.elapsed_compute().timer();
                let rows = open.next(self.rows_max, &self.schema);
                timer.done();
                if let Some(rows) = rows? {
                    let rows = rows.record_output(&self.metrics);
                    return Ok(Some((rows, self)));
                }
            }
            self.open = match self.input.next().await {
                Some(rows) => Some(Open::of(&self.columns, &rows?)?),
                None => return Ok(None),
            };
        }
    }
}

/// A batch of the input, of which rows are made.
struct Open {
    /// What each column repeats; nothing for those of series, in their order.
    beside: Vec<Option<ArrayRef>>,
    series: Vec<Arguments>,
    rows: usize,
    /// The row that has its turn.
    row: usize,
    /// Its series, once they have begun; of one that is NULL nothing.
    running: Option<Vec<Option<Values>>>,
}

impl Open {
    fn of(columns: &[Column], rows: &RecordBatch) -> Result<Open> {
        let (mut beside, mut series) = (Vec::new(), Vec::new());
        for column in columns {
            match &column.series {
                Some(call) => {
                    series.push(call.evaluate(rows)?);
                    beside.push(None);
                }
                None => {
                    let values = column.expr.evaluate(rows)?;
                    beside.push(Some(values.into_array(rows.num_rows())?));
                }
            }
        }
        Ok(Open {
            beside,
            series,
            rows: rows.num_rows(),
            row: 0,
            running: None,
        })
    }

    /// The next rows; nothing where there are no more.
    fn next(&mut self, rows_max: usize, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let mut taken: Vec<u32> = Vec::new();
        let mut values: Vec<Vec<Option<i64>>> = vec![Vec::new(); self.series.len()];
        while taken.len() < rows_max && self.row < self.rows {
            let mut running = match self.running.take() {
                Some(running) => running,
                None => {
                    let begun = self.series.iter().map(|series| series.row(self.row));
                    begun.collect::<Result<Vec<_>>>()?
                }
            };
            let room = rows_max - taken.len();
            let made = run(&mut running, &mut values, room);
            taken.extend(std::iter::repeat_n(self.row as u32, made));
            match made < room {
                true => self.row += 1,
                false => self.running = Some(running),
            }
        }
        match taken.is_empty() {
            true => Ok(None),
            false => self.batch(taken, values, schema).map(Some),
        }
    }

    fn batch(
        &self,
        taken: Vec<u32>,
        values: Vec<Vec<Option<i64>>>,
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let taken = UInt32Array::from(taken);
        let mut values = values.into_iter().map(Int64Array::from);
        let columns = self.beside.iter().zip(schema.fields());
        let columns = columns.map(|(beside, field)| -> Result<ArrayRef> {
            if let Some(beside) = beside {
                return Ok(take(beside, &taken, None)?);
            }
            match values.next() {
                Some(values) => Ok(cast(&values, field.data_type())?),
                None => internal_err!("a series is missing"),
            }
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    }
}

/// Lets series go on side by side, until all have ended or there are so many rows; gives how many
/// there are.
fn run(running: &mut [Option<Values>], values: &mut [Vec<Option<i64>>], rows_max: usize) -> usize {
    for made in 0..rows_max {
        let mut has_ended = true;
        for (series, values) in running.iter_mut().zip(values.iter_mut()) {
            let value = series.as_mut().and_then(Iterator::next);
            has_ended &= value.is_none();
            values.push(value);
        }
        if has_ended {
            for values in values {
                values.pop();
            }
            return made;
        }
    }
    rows_max
}
