//! One table of one snapshot, as DataFusion sees it.
//!
//! Reads through [`Snapshot`]; writes nothing. Invariant TBL-1: all tables of a statement are of
//! one snapshot. Filters on the key narrow what is read and are tested again; all others are
//! DataFusion's alone, after rows are reconciled (trap 1 of the design, section 5).

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::key::Key;
use lazybase_engine::manifest::KeyRange;
use lazybase_engine::read::{ScanRequest, Snapshot, SourceDescription};
use lazybase_model::{Error, Table};
use parking_lot::Mutex;

use crate::error::into_datafusion;
use crate::prune::{self, Access, PartitionAccess};
use crate::scan::{LazyScanExec, Order, Parts, Rows, Shape, shown_field};

/// What a scan of a statement reads, for EXPLAIN.
#[derive(Debug, Clone)]
pub(crate) struct ScanNote {
    pub(crate) table: String,
    /// How the rows are reached, in words.
    pub(crate) access: String,
    pub(crate) sources: Vec<SourceDescription>,
}

/// The notes of all scans of a statement.
pub(crate) type ScanNotes = Arc<Mutex<Vec<ScanNote>>>;

/// A table of a snapshot.
#[derive(Debug)]
pub(crate) struct LazyTable {
    table: Arc<Table>,
    /// What it shows: positions in the table's columns, and of hidden ones behind them.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// `None` where only the definition is asked for.
    snapshot: Option<Snapshot>,
    /// The transaction's own changes of this table.
    buffered: Vec<ChangeBatch>,
    notes: ScanNotes,
}

impl LazyTable {
    /// The table with these columns.
    pub(crate) fn new(
        table: Arc<Table>,
        columns: Vec<usize>,
        snapshot: Option<Snapshot>,
        buffered: Vec<ChangeBatch>,
        notes: ScanNotes,
    ) -> LazyTable {
        let fields: Vec<_> = columns.iter().map(|at| shown_field(&table, *at)).collect();
        LazyTable {
            schema: Arc::new(Schema::new(fields)),
            table,
            columns,
            snapshot,
            buffered,
            notes,
        }
    }

    fn note(&self, mut access: String, sources: Vec<SourceDescription>) {
        if !self.buffered.is_empty() {
            access += ", with the transaction's own changes";
        }
        self.notes.lock().push(ScanNote {
            table: self.table.name.clone(),
            access,
            sources,
        });
    }
}

#[async_trait]
impl TableProvider for LazyTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match prune::is_useful(filter, &self.table) {
                true => TableProviderFilterPushDown::Inexact,
                false => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let snapshot = self.snapshot.clone().ok_or_else(|| {
            into_datafusion(Error::internal("a table is scanned without a snapshot"))
        })?;
        let projection: Vec<usize> = match projection {
            Some(chosen) => chosen.iter().map(|at| self.columns[*at]).collect(),
            None => self.columns.clone(),
        };
        let width = self.table.columns.len();
        let versions = projection.iter().any(|at| *at >= width);
        let shape = Shape::new(Arc::clone(&self.table), projection);
        let (access, ranges, order) =
            match prune::access(&self.table, filters).map_err(into_datafusion)? {
                Access::Nothing => {
                    self.note(
                        "nothing: the predicate on the key is never true".to_owned(),
                        vec![],
                    );
                    return Ok(Arc::new(EmptyExec::new(shape.schema)));
                }
                // Versions are read by scans alone.
                Access::Keys(keys) if versions => scanned(keys),
                Access::Keys(keys) => {
                    self.note(format!("{} keys, read one by one", keys.len()), vec![]);
                    let buffered = self.buffered.clone();
                    let scan = LazyScanExec::points(shape, snapshot, keys, buffered, limit);
                    return Ok(Arc::new(scan));
                }
                Access::Range(range) => {
                    let access = in_words(range != KeyRange::default()).to_owned();
                    (access, vec![range], Order::Parts)
                }
                Access::Partitions(access) => {
                    let PartitionAccess { read, all, .. } = access;
                    let words = in_words(access.bounded);
                    let order = match access.ordered {
                        true => Order::Parts,
                        false => Order::Ranges,
                    };
                    (
                        format!("{words}, {read} of {all} partitions"),
                        access.ranges,
                        order,
                    )
                }
            };
        let request = ScanRequest {
            table: self.table.id,
            projection: shape.stored_projection(),
            range: KeyRange::default(),
            buffered: self.buffered.clone(),
            batch_rows: state.config().batch_size(),
            parts: state.config().target_partitions(),
        };
        let plan = snapshot.plan_scan_of(request, &ranges).await;
        let plan = plan.map_err(into_datafusion)?;
        self.note(access, plan.sources.clone());
        let rows = match plan.exact_rows {
            Some(rows) if self.buffered.is_empty() => Rows::Exact(rows),
            _ => Rows::Estimated(plan.estimated_rows),
        };
        let target = state.config().target_partitions();
        let parts = Parts::grouped(plan.parts, order, target);
        Ok(Arc::new(LazyScanExec::parts(
            shape,
            parts,
            plan.sources,
            rows,
            limit,
        )))
    }
}

/// How named keys are scanned: in words, their ranges, and what order their rows have.
fn scanned(mut keys: Vec<Key>) -> (String, Vec<KeyRange>, Order) {
    keys.sort_unstable();
    let words = format!("{} keys, each scanned", keys.len());
    let range = |key: Key| KeyRange {
        high: Some(Key::after(key.as_bytes())),
        low: Some(key),
    };
    (words, keys.into_iter().map(range).collect(), Order::Ranges)
}

fn in_words(bounded: bool) -> &'static str {
    match bounded {
        true => "a range of the key",
        false => "the whole table",
    }
}
