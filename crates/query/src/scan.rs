//! The leaf of every plan: plain rows of one table, as a snapshot gives them (section 3.7 of the
//! paper).
//!
//! ```text
//!   parts of the key space, in order     partition 0: part 0, part 1, ...
//!                                        partition 1: part n, ...        each sorted by key
//!   the same, where order is nobody's    any partition: the next part    (`shared_parts`)
//! ```
//!
//! Reads through [`Snapshot`]; writes nothing. Invariant SCAN-1: where an order is declared, rows
//! of a partition come in that order, so that `ORDER BY key LIMIT n` stops early. Invariant SCAN-2:
//! the number of rows is called exact only where the engine says so (trap 1).

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{SortOptions, take_record_batch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    SortOrderPushdownResult,
};
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_engine::key::Key;
use lazybase_engine::read::{HiddenColumn, OwnChanges, ScanPart, Snapshot, SourceDescription};
use lazybase_model::{Result, Table};

use crate::cast::uuid_text;
use crate::error::{from_arrow, into_datafusion};
use crate::id_keys::own;
use crate::labels::{Hiding, Sight};
use crate::pg_catalog::types::mark;
use crate::table::{ScanNote, ScanNotes};
use crate::types::{self, UUID};

mod shared_parts;
#[cfg(test)]
mod tests;

use shared_parts::SharedParts;

/// Which columns a scan gives, and in which form.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) table: Arc<Table>,
    /// Positions in the table's columns, and of hidden ones behind them.
    pub(crate) projection: Vec<usize>,
    /// What the rows look like to SQL.
    pub(crate) schema: SchemaRef,
    /// What is hidden in them.
    hiding: Option<Arc<Hiding>>,
    /// Whether something of the table may be hidden: then nothing is told of all of it.
    limited: bool,
    /// Whether the rows may have IDs that are given out at COMMIT.
    pub(crate) new_ids: bool,
}

/// What columns of a table look like to SQL.
pub(crate) fn shown_schema(table: &Table, projection: &[usize]) -> SchemaRef {
    let fields = projection.iter().map(|at| shown_field(table, *at));
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

impl Shape {
    /// The columns `projection` of a table, as SQL shows them to whoever has this sight.
    ///
    /// # Errors
    /// `Internal` when the table lacks labels.
    pub(crate) fn new(table: Arc<Table>, projection: Vec<usize>, sight: &Sight) -> Result<Shape> {
        let schema = shown_schema(&table, &projection);
        Shape::with_schema(table, projection, sight, schema)
    }

    /// The same, where it is known what they look like to SQL.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub(crate) fn with_schema(
        table: Arc<Table>,
        projection: Vec<usize>,
        sight: &Sight,
        schema: SchemaRef,
    ) -> Result<Shape> {
        Ok(Shape {
            hiding: Hiding::of(&table, &projection, sight)?.map(Arc::new),
            limited: sight.is_limited(&table),
            schema,
            table,
            projection,
            new_ids: false,
        })
    }

    /// Whether something of the table may be hidden.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    /// The same, with one of the columns as views of its texts. `None` where it is no text that is
    /// stored as SQL shows it, and where something may be hidden: views keep what lies around what
    /// they show.
    fn with_views_of(&self, place: usize) -> Option<Shape> {
        let at = *self.projection.get(place)?;
        let column = self.table.columns.get(at)?;
        if self.limited || self.hiding.is_some() || column.data_type != DataType::Utf8 {
            return None;
        }
        let mut fields: Vec<FieldRef> = self.schema.fields().to_vec();
        let field = fields.get_mut(place)?;
        *field = Arc::new(Field::clone(field).with_data_type(DataType::Utf8View));
        Some(Shape {
            schema: Arc::new(Schema::new(fields)),
            ..self.clone()
        })
    }

    /// The names of the columns that are given as views of texts: no table has others.
    fn views(&self) -> impl Iterator<Item = &str> {
        let fields = self.schema.fields().iter();
        let views = fields.filter(|field| *field.data_type() == DataType::Utf8View);
        views.map(|field| field.name().as_str())
    }

    /// What the engine is asked for: at least one column, since it gives rows as columns.
    pub(crate) fn stored_projection(&self) -> Vec<usize> {
        if let Some(hiding) = &self.hiding {
            return hiding.stored().to_vec();
        }
        match self.projection.is_empty() {
            true => vec![self.table.key_indices().first().copied().unwrap_or(0)],
            false => self.projection.clone(),
        }
    }

    /// Rows from the engine as SQL shows them, without what may not be read.
    pub(crate) fn show(&self, rows: &RecordBatch) -> DataFusionResult<RecordBatch> {
        let shown = self.show_in_place(rows)?;
        match self.views().next() {
            None => of_its_size(shown),
            // What lies around views is not left behind by a copy, and what groups them keeps none.
            Some(_) => Ok(shown),
        }
    }

    /// The same for who lets go of them soon: a few rows may hold all that they lie in.
    pub(crate) fn show_in_place(&self, rows: &RecordBatch) -> DataFusionResult<RecordBatch> {
        let seen = match &self.hiding {
            Some(hiding) => Some(alone(&hiding.hide(rows).map_err(into_datafusion)?)?),
            None => None,
        };
        let rows = seen.as_ref().unwrap_or(rows);
        let columns: Vec<ArrayRef> = match self.projection.is_empty() {
            true => Vec::new(),
            false => rows.columns().iter().map(shown_column).collect(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| into_datafusion(from_arrow(&error)))
    }

    /// The leading columns of the key that the rows hold: what they are sorted by.
    pub(crate) fn ordering(&self) -> Option<LexOrdering> {
        let columns = self.table.key_indices().into_iter().map_while(|key| {
            // NULL, which only the keys of views may hold, comes first.
            let nulls_first = self.table.columns[key].nullable;
            let at = self.projection.iter().position(|column| *column == key)?;
            let column = ColumnExpr::new(self.schema.field(at).name(), at);
            Some(PhysicalSortExpr::new(
                Arc::new(column),
                SortOptions {
                    descending: false,
                    nulls_first,
                },
            ))
        });
        LexOrdering::new(columns)
    }
}

/// Rows in memory of their own. What they lie in tells how much was hidden around them: plans
/// show how large their batches are.
fn alone(rows: &RecordBatch) -> DataFusionResult<RecordBatch> {
    if rows.num_columns() == 0 {
        return Ok(rows.clone());
    }
    let all: UInt64Array = (0..rows.num_rows() as u64).collect();
    Ok(take_record_batch(rows, &all)?)
}

/// So much may lie unused around rows, whatever they take themselves.
const UNUSED_MAX: usize = 64 << 10;

/// The rows, copied where they are a small part of what they lie in: the memory of a query counts
/// all that its batches lie in, and keeps it as long as one row of it is wanted.
pub(crate) fn of_its_size(rows: RecordBatch) -> DataFusionResult<RecordBatch> {
    let mut used = 0;
    for column in rows.columns() {
        used += column.to_data().get_slice_memory_size()?;
    }
    match get_record_batch_memory_size(&rows) > 2 * used + UNUSED_MAX {
        true => alone(&rows),
        false => Ok(rows),
    }
}

/// A column's field as SQL shows it.
pub(crate) fn shown_field(table: &Table, at: usize) -> Field {
    if let Some(hidden) = HiddenColumn::at(table, at) {
        return hidden.field(table);
    }
    let column = &table.columns[at];
    let field = types::shown_field(&column.name, &column.data_type, column.nullable);
    match column.json {
        true => field.with_metadata(mark("json")),
        false => field,
    }
}

/// A column's values as SQL shows them.
pub(crate) fn shown_column(column: &ArrayRef) -> ArrayRef {
    match *column.data_type() == UUID {
        true => uuid_text(column),
        false => Arc::clone(column),
    }
}

/// The most groups of rows, each sorted, that are merged where the order is wanted.
const SORTED_GROUPS_MAX: usize = 32;

/// Where the rows come from.
#[derive(Debug, Clone)]
enum Source {
    /// Stretches of the key space, contiguous in each partition.
    Parts {
        partitions: Vec<Vec<ScanPart>>,
        sources: Arc<Vec<SourceDescription>>,
    },
    /// Named keys, read one by one.
    Points {
        snapshot: Snapshot,
        keys: Arc<Vec<Key>>,
        buffered: Arc<Vec<OwnChanges>>,
    },
}

/// How many rows a scan gives.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows {
    Exact(u64),
    Estimated(u64),
}

/// The leaf of a plan.
#[derive(Debug, Clone)]
pub(crate) struct LazyScanExec {
    shape: Shape,
    source: Source,
    /// The same parts, cut finer, where partitions share them.
    shared: Option<SharedParts<ScanPart>>,
    rows: Rows,
    fetch: Option<usize>,
    /// Scans of views with the same rows in other orders.
    others: Arc<Vec<OtherOrder>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// A scan of a view that gives the same rows and columns in another order.
#[derive(Debug)]
pub(crate) struct OtherOrder {
    pub(crate) scan: LazyScanExec,
    /// What EXPLAIN says once it is chosen, and in which place.
    pub(crate) note: ScanNote,
    pub(crate) notes: ScanNotes,
    pub(crate) at: usize,
}

impl LazyScanExec {
    /// A scan of parts.
    pub(crate) fn parts(
        shape: Shape,
        parts: Parts,
        sources: Vec<SourceDescription>,
        rows: Rows,
        fetch: Option<usize>,
    ) -> LazyScanExec {
        let source = Source::Parts {
            partitions: parts.groups,
            sources: Arc::new(sources),
        };
        LazyScanExec::new(shape, source, parts.ordered, rows, fetch)
    }

    /// A read of named keys.
    pub(crate) fn points(
        shape: Shape,
        snapshot: Snapshot,
        keys: Vec<Key>,
        buffered: Vec<OwnChanges>,
        fetch: Option<usize>,
    ) -> LazyScanExec {
        let rows = Rows::Estimated(keys.len() as u64);
        let source = Source::Points {
            snapshot,
            keys: Arc::new(keys),
            buffered: Arc::new(buffered),
        };
        LazyScanExec::new(shape, source, true, rows, fetch)
    }

    fn new(
        shape: Shape,
        source: Source,
        ordered: bool,
        rows: Rows,
        fetch: Option<usize>,
    ) -> LazyScanExec {
        let partitions = match &source {
            Source::Parts { partitions, .. } => partitions.len(),
            Source::Points { .. } => 1,
        };
        let equivalences = EquivalenceProperties::new_with_orderings(
            Arc::clone(&shape.schema),
            shape.ordering().filter(|_| ordered),
        );
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        LazyScanExec {
            shape,
            source,
            shared: None,
            rows,
            fetch,
            others: Arc::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// How many values it gives at most, as far as that is known, where so many rows of it are
    /// taken. Where something may be hidden it counts as many: how long a statement waits does not
    /// tell how much there is.
    pub(crate) fn values(&self, rows_max: Option<u64>) -> u64 {
        let hides = self.shape.limited && matches!(self.source, Source::Parts { .. });
        let rows = match self.rows {
            Rows::Exact(rows) | Rows::Estimated(rows) if !hides => rows,
            _ => u64::MAX,
        };
        let fetch = self.fetch.map(|rows| rows as u64);
        let limits = [fetch, rows_max].into_iter().flatten();
        let columns = self.shape.projection.len().max(1) as u64;
        limits.fold(rows, u64::min).saturating_mul(columns)
    }

    /// The scan, with others that may take its place for the sake of their order.
    pub(crate) fn with_others(mut self, others: Vec<OtherOrder>) -> LazyScanExec {
        self.others = Arc::new(others);
        self
    }

    /// The same scan, with one of its columns as views of texts, where it may be so.
    pub(crate) fn with_views_of(&self, place: usize) -> Option<LazyScanExec> {
        let Source::Parts {
            partitions,
            sources,
        } = &self.source
        else {
            return None;
        };
        let shape = self.shape.with_views_of(place)?;
        let viewed = |parts: &Vec<ScanPart>| {
            let parts = parts.iter().map(|part| part.with_views(&[place]));
            parts.collect()
        };
        let source = Source::Parts {
            partitions: partitions.iter().map(viewed).collect(),
            sources: Arc::clone(sources),
        };
        let ordered = self.properties.output_ordering().is_some();
        Some(LazyScanExec::new(
            shape, source, ordered, self.rows, self.fetch,
        ))
    }

    /// The same rows in one partition, in the order that those of each partition are in: each is a
    /// stretch of the key space, behind the one before it.
    fn in_one_partition(self) -> LazyScanExec {
        match self.source {
            Source::Parts {
                partitions,
                sources,
            } => {
                let ordered = self.properties.output_ordering().is_some();
                let partitions = vec![partitions.into_iter().flatten().collect()];
                let source = Source::Parts {
                    partitions,
                    sources,
                };
                LazyScanExec::new(self.shape, source, ordered, self.rows, self.fetch)
            }
            Source::Points { .. } => self,
        }
    }

    fn rows(&self, partition: usize) -> DataFusionResult<BoxStream<'static, Result<RecordBatch>>> {
        if let Some(shared) = &self.shared {
            let parts = stream::iter(shared.take(partition)?);
            return Ok(parts.flat_map(|part| part.stream()).boxed());
        }
        Ok(match &self.source {
            Source::Parts { partitions, .. } => {
                let parts = partitions[partition].clone();
                stream::iter(parts).flat_map(|part| part.stream()).boxed()
            }
            Source::Points {
                snapshot,
                keys,
                buffered,
            } => {
                let (snapshot, keys) = (snapshot.clone(), Arc::clone(keys));
                let (table, buffered) = (self.shape.table.id, Arc::clone(buffered));
                let projection = self.shape.stored_projection();
                stream::once(
                    async move { snapshot.get(table, &keys, &projection, &buffered).await },
                )
                .boxed()
            }
        })
    }
}

/// What the parts of a scan say about the order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// They come in the order of the primary key.
    Parts,
    /// Those of one range do: each range lies in another partition of the table.
    Ranges,
    /// Nobody asks.
    None,
}

/// The parts of a scan, a group for each partition of the plan.
#[derive(Debug)]
pub(crate) struct Parts {
    groups: Vec<Vec<ScanPart>>,
    /// Whether the rows of each group are sorted by the primary key.
    ordered: bool,
}

impl Parts {
    /// With empty groups, so that there are as many as are wanted, however few the parts are.
    pub(crate) fn filled(mut self, wanted: usize) -> Parts {
        if self.groups.len() < wanted {
            self.groups.resize(wanted, Vec::new());
        }
        self
    }

    /// Parts in about as many groups as are wanted. Those of partitions of the table that are
    /// sorted one by one come in groups of their own, unless they are many.
    pub(crate) fn grouped(parts: Vec<ScanPart>, order: Order, wanted: usize) -> Parts {
        let wanted = wanted.max(1);
        let ranges = parts.chunk_by(|a, b| a.range == b.range).count();
        let mixed = match order {
            Order::Parts => false,
            Order::Ranges => ranges > wanted.max(SORTED_GROUPS_MAX),
            Order::None => true,
        };
        if mixed {
            return Parts {
                groups: contiguous(parts, wanted),
                ordered: false,
            };
        }
        let groups = match order {
            Order::Parts | Order::None => contiguous(parts, wanted),
            Order::Ranges => parts
                .chunk_by(|a, b| a.range == b.range)
                .flat_map(|of_range| contiguous(of_range.to_vec(), wanted.div_ceil(ranges)))
                .collect(),
        };
        Parts {
            groups: match groups.is_empty() {
                true => vec![Vec::new()],
                false => groups,
            },
            ordered: true,
        }
    }
}

/// Parts in as many groups as are wanted, at most: each a stretch of the key space, of about as
/// much weight as any other.
fn contiguous(parts: Vec<ScanPart>, groups: usize) -> Vec<Vec<ScanPart>> {
    let wanted = groups.min(parts.len()).max(1);
    let weights: Vec<u64> = parts.iter().map(|part| part.weight).collect();
    let mut groups = vec![Vec::new(); wanted];
    for (part, group) in parts.into_iter().zip(balanced(&weights, wanted)) {
        groups[group].push(part);
    }
    groups.retain(|parts| !parts.is_empty());
    match groups.is_empty() {
        true => vec![Vec::new()],
        false => groups,
    }
}

/// The group of each of some weights that follow each other: the one in which its middle lies.
fn balanced(weights: &[u64], groups: usize) -> Vec<usize> {
    let weight = |weight: &u64| u128::from(*weight).max(1);
    let total: u128 = weights.iter().map(weight).sum();
    let mut before = 0;
    let group = |of: &u64| {
        let group = (before + weight(of) / 2) * groups as u128 / total;
        before += weight(of);
        group as usize
    };
    weights.iter().map(group).collect()
}

impl DisplayAs for LazyScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LazyScanExec: table={}", self.shape.table.name)?;
        let columns: Vec<&str> = self
            .shape
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        write!(f, ", columns=[{}]", columns.join(", "))?;
        let views: Vec<&str> = self.shape.views().collect();
        if !views.is_empty() {
            write!(f, ", views=[{}]", views.join(", "))?;
        }
        match &self.source {
            Source::Points { keys, .. } => write!(f, ", keys={}", keys.len())?,
            Source::Parts {
                partitions,
                sources,
            } if self.shape.limited => {
                debug_assert!(sources.is_empty());
                write!(f, ", partitions={}", partitions.len())?;
            }
            Source::Parts {
                partitions,
                sources,
            } => {
                let pruned: usize = sources.iter().map(|source| source.extents_pruned).sum();
                let extents: usize = sources.iter().map(|source| source.extents).sum();
                write!(
                    f,
                    ", partitions={}, sources={}, extents={extents} of {}",
                    partitions.len(),
                    sources.len(),
                    extents + pruned,
                )?;
            }
        }
        if let Some(shared) = &self.shared {
            write!(f, ", shared_parts={}", shared.len())?;
        }
        if let Some(ordering) = self.properties.output_ordering() {
            write!(f, ", ordering=[{ordering}]")?;
        }
        match self.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for LazyScanExec {
    fn name(&self) -> &str {
        "LazyScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        match self.shared.is_some() {
            // What is read again is shared out again.
            true => Ok(Arc::new(LazyScanExec::clone(&self))),
            false => Ok(self),
        }
    }

    fn execute(
        &self,
        partition: usize,
        _: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let shape = self.shape.clone();
        let mut read = self.rows(partition)?;
        let span = tracing::info_span!(
            "scan",
            table = self.shape.table.name.as_str(),
            partition = partition as u64,
        );
        let rows = stream::poll_fn(move |context| {
            let _entered = span.enter();
            // Reading is part of the time: the store answers while it is polled.
            let _timer = metrics.elapsed_compute().timer();
            loop {
                let rows = match read.poll_next_unpin(context) {
                    Poll::Ready(Some(rows)) => rows,
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Pending => return Poll::Pending,
                };
                let shown = rows.map_err(into_datafusion).and_then(|rows| {
                    let shown = shape.show(&rows)?;
                    if !shape.new_ids {
                        own::check_known(&shape.table, &shape.projection, &shown)
                            .map_err(into_datafusion)?;
                    }
                    Ok(shown)
                });
                // A batch that is hidden whole is not told of by an empty one.
                let hidden = shown.as_ref().is_ok_and(|rows| rows.num_rows() == 0);
                if !(hidden && shape.limited) {
                    return Poll::Ready(Some(shown.map(|rows| rows.record_output(&metrics))));
                }
            }
        });
        let schema = Arc::clone(&self.shape.schema);
        let rows: SendableRecordBatchStream =
            make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        Ok(match self.fetch {
            None => rows,
            Some(fetch) => Box::pin(LimitStream::new(
                rows,
                0,
                Some(fetch),
                BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), partition),
            )),
        })
    }

    fn metrics(&self) -> Option<MetricsSet> {
        // Bytes and times are those of rows that are hidden, too.
        (!self.shape.limited).then(|| self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        let partitions = self.properties.partitioning.partition_count();
        let whole = args.partition().is_none() || partitions == 1;
        let num_rows = match self.rows {
            // How many there are in all is told by what is hidden, too.
            Rows::Estimated(_) if self.shape.limited => Precision::Absent,
            Rows::Exact(_) if self.shape.limited && !whole => Precision::Absent,
            Rows::Exact(rows) if whole => Precision::Exact(rows as usize),
            Rows::Exact(rows) | Rows::Estimated(rows) if whole => Precision::Inexact(rows as usize),
            Rows::Exact(rows) | Rows::Estimated(rows) => {
                Precision::Inexact(rows as usize / partitions)
            }
        };
        let num_rows = match self.fetch {
            Some(fetch) => match num_rows {
                Precision::Exact(rows) if rows <= fetch || partitions == 1 => {
                    Precision::Exact(rows.min(fetch))
                }
                // Each partition ends by itself.
                Precision::Exact(rows) => {
                    Precision::Inexact(rows.min(fetch.saturating_mul(partitions)))
                }
                Precision::Inexact(rows) => Precision::Inexact(rows.min(fetch)),
                Precision::Absent => Precision::Absent,
            },
            None => num_rows,
        };
        Ok(Arc::new(Statistics {
            num_rows,
            total_byte_size: Precision::Absent,
            column_statistics: vec![
                ColumnStatistics::new_unknown();
                self.shape.schema.fields().len()
            ],
        }))
    }

    /// Rows that are wanted in the order of a view are read from the view.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> DataFusionResult<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        for other in self.others.iter().filter(|_| self.fetch.is_none()) {
            let given = other.scan.properties.equivalence_properties();
            if given.ordering_satisfy(order.iter().cloned())? {
                if let Some(note) = other.notes.lock().get_mut(other.at) {
                    note.clone_from(&other.note);
                }
                // What sorts one partition is not merged above.
                let inner = match self.properties.partitioning.partition_count() {
                    1 => other.scan.clone().in_one_partition(),
                    _ => other.scan.clone(),
                };
                let inner = Arc::new(inner);
                return Ok(SortOrderPushdownResult::Exact { inner });
            }
        }
        Ok(SortOrderPushdownResult::Unsupported)
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut scan = self.clone();
        scan.fetch = limit;
        Some(Arc::new(scan))
    }
}
