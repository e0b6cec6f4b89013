//! One table of one snapshot, as DataFusion sees it.
//!
//! Reads through [`Snapshot`]; writes nothing. Invariant TBL-1: all tables of a statement are of
//! one snapshot. Filters on the key narrow what is read and are tested again; all others are
//! DataFusion's alone, after rows are reconciled (trap 1 of the design, section 5).

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use futures::future::BoxFuture;
use lazybase_engine::key::Key;
use lazybase_engine::manifest::KeyRange;
use lazybase_engine::read::views::{Share, is_cheaper};
use lazybase_engine::read::{OwnChanges, ScanPlan, ScanRequest, Snapshot, SourceDescription};
use lazybase_model::{Column, Error, Result, Table};
use parking_lot::Mutex;

use crate::access::Gate;
use crate::context::OnePartition;
use crate::error::into_datafusion;
use crate::id_keys::own;
use crate::labels::Sight;
use crate::origins::Origin;
use crate::prune::{self, Access, PartitionAccess};
use crate::scan::{LazyScanExec, Order, OtherOrder, Parts, Rows, Shape, shown_field};

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

/// Which secondary views a scan may read.
#[derive(Debug)]
pub(crate) enum Views {
    /// The statement names this one: it is read wherever it can be.
    Named(Arc<Table>),
    /// The statement names the table: one of these is read where that takes less.
    Choice(Vec<Arc<Table>>),
}

/// A table of a snapshot.
#[derive(Debug)]
pub(crate) struct LazyTable {
    table: Arc<Table>,
    views: Views,
    /// What it shows: positions in the columns of the table or the view that is named, and of a
    /// table's hidden ones behind them.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// That no two rows have one key, where the key is shown.
    constraints: Constraints,
    /// `None` where only the definition is asked for.
    snapshot: Option<Snapshot>,
    /// The transaction's own changes of this table.
    buffered: Vec<OwnChanges>,
    notes: ScanNotes,
    gate: Gate,
    /// Whether its rows may have IDs that are given out at COMMIT.
    new_ids: bool,
    /// The definition that `pg_catalog` shows, of what the statement names; none where its columns
    /// are told to come from nowhere.
    today: Option<Arc<Table>>,
}

impl LazyTable {
    /// The table with these columns, or a view of it with its own.
    pub(crate) fn new(
        table: Arc<Table>,
        columns: Vec<usize>,
        views: Views,
        snapshot: Option<Snapshot>,
        buffered: Vec<OwnChanges>,
        notes: ScanNotes,
        gate: Gate,
    ) -> LazyTable {
        let (columns, fields): (Vec<usize>, Vec<_>) = match &views {
            Views::Choice(_) => columns
                .into_iter()
                .map(|at| (at, shown_field(&table, at)))
                .unzip(),
            Views::Named(view) => (0..view.visible_columns())
                .map(|at| (at, field_then(view, at, &table)))
                .unzip(),
        };
        let constraints = match &views {
            Views::Choice(_) => unique_key(&table, &columns),
            Views::Named(_) => Constraints::default(),
        };
        let today = match &views {
            Views::Choice(_) => Arc::clone(&table),
            Views::Named(view) => Arc::clone(view),
        };
        LazyTable {
            schema: Arc::new(Schema::new(fields)),
            today: Some(today),
            constraints,
            table,
            views,
            columns,
            snapshot,
            buffered,
            notes,
            gate,
            new_ids: false,
        }
    }

    /// The same, whose rows may have IDs that are given out at COMMIT.
    pub(crate) fn with_new_ids(mut self, new_ids: bool) -> LazyTable {
        self.new_ids = new_ids;
        self
    }

    /// The same, whose definition is another one today.
    pub(crate) fn with_today(mut self, today: Option<Arc<Table>>) -> LazyTable {
        self.today = today.or(self.today);
        self
    }

    /// The same, whose columns are told to come from nowhere.
    pub(crate) fn without_origin(mut self) -> LazyTable {
        self.today = None;
        self
    }

    /// Where one of its columns comes from; nowhere if it is a hidden one, or gone by today.
    pub(crate) fn origin(&self, at: usize) -> Option<Origin> {
        let today = self.today.as_ref()?;
        let column = self.named().columns.get(*self.columns.get(at)?)?;
        let shown = &today.columns[..today.visible_columns()];
        let place = shown.iter().position(|known| known.id == column.id)?;
        Some(Origin::of(today, place))
    }

    /// GATE-1: what is read, or tested by a filter, may be read.
    fn check(&self, projection: &[usize], filters: &[Expr]) -> Result<Sight> {
        let mut columns = projection.to_vec();
        for column in filters.iter().flat_map(Expr::column_refs) {
            let at = self.schema.index_of(&column.name);
            let at = at.map_err(|error| Error::internal(error.to_string()))?;
            columns.push(self.columns[at]);
        }
        self.gate.read(self.named(), &columns)
    }

    /// What a statement names: the table, or its view.
    fn named(&self) -> &Arc<Table> {
        match &self.views {
            Views::Named(view) => view,
            Views::Choice(_) => &self.table,
        }
    }

    /// The definition of what is read in the place of what is named, with its key under the names
    /// that the statement knows: a table of the past may call otherwise what a view of now shows.
    fn as_named<'t>(&self, read: &'t Table) -> Cow<'t, Table> {
        let named = &self.named().columns;
        let mut alike = Cow::Borrowed(read);
        for at in read.key_indices() {
            let column = &read.columns[at];
            let known = named.iter().find(|known| known.id == column.id);
            let name = known.map_or("", |known| known.name.as_str());
            if column.name != name {
                name.clone_into(&mut alike.to_mut().columns[at].name);
            }
        }
        alike
    }

    fn note(&self, mut access: String, sources: &[SourceDescription], sight: &Sight) {
        // How much there is in all is told by what is hidden, too.
        let sources = match sight.is_limited(&self.table) {
            true => Vec::new(),
            false => sources.to_vec(),
        };
        if !self.buffered.is_empty() {
            access += ", with the transaction's own changes";
        }
        self.notes.lock().push(ScanNote {
            table: self.named().name.clone(),
            access,
            sources,
        });
    }

    fn is_useful(&self, filter: &Expr) -> bool {
        let views = match &self.views {
            Views::Named(view) => std::slice::from_ref(view),
            Views::Choice(views) => views,
        };
        let mut read = views.iter().chain([&self.table]);
        read.any(|table| prune::is_useful(filter, table))
    }

    /// What is asked of the engine for a range of the keys of a table or view.
    fn request(&self, shape: &Shape, range: KeyRange, state: &dyn Session) -> ScanRequest {
        ScanRequest {
            table: shape.table.id,
            projection: shape.stored_projection(),
            range,
            buffered: self.buffered.clone(),
            batch_rows: state.config().batch_size(),
            parts: state.config().target_partitions(),
        }
    }

    fn planned(&self, shape: Shape, plan: ScanPlan, scan: &Scan<'_>, order: Order) -> LazyScanExec {
        let hides_rows = scan.sight.hides_rows(&shape.table);
        let rows = match plan.exact_rows {
            Some(rows) if self.buffered.is_empty() && !hides_rows => Rows::Exact(rows),
            _ => Rows::Estimated(plan.estimated_rows),
        };
        let config = scan.state.config();
        let target = config.target_partitions();
        // Groups of their own are for rows whose order can be declared, and merged.
        let order = match order {
            Order::Ranges if shape.ordering().is_none() => Order::None,
            Order::Ranges if config.get_extension::<OnePartition>().is_some() => Order::None,
            order => order,
        };
        let parts = Parts::grouped(plan.parts, order, target);
        match shape.is_limited() {
            true => LazyScanExec::parts(shape, parts.filled(target), vec![], rows, scan.limit),
            false => LazyScanExec::parts(shape, parts, plan.sources, rows, scan.limit),
        }
    }

    /// The same columns of a view of the table (or of the table of a view), if it has them all.
    fn shape_of(&self, other: &Arc<Table>, scan: &Scan<'_>) -> Result<Option<Shape>> {
        let named = self.named();
        let place = |at: &usize| match named.columns.get(*at) {
            Some(column) => {
                let same = |other: &Column| other.id == column.id;
                other.columns.iter().position(same)
            }
            // Versions are those of the table's own rows.
            None => (other.id == named.id).then_some(*at),
        };
        let projection: Option<Vec<usize>> = scan.projection.iter().map(place).collect();
        let Some(projection) = projection else {
            return Ok(None);
        };
        let mut fields = Vec::with_capacity(projection.len());
        for (at, of_other) in scan.projection.iter().zip(&projection) {
            let field = self.columns.iter().position(|column| column == at);
            let field = field.map(|place| self.schema.field(place).clone());
            let field = field.ok_or_else(|| Error::internal("what is read is a column"))?;
            if shown_field(other, *of_other).data_type() != field.data_type() {
                return Ok(None);
            }
            fields.push(field);
        }
        let schema = Arc::new(Schema::new(fields));
        let mut shape = Shape::with_schema(Arc::clone(other), projection, &scan.sight, schema)?;
        shape.new_ids = self.new_ids;
        Ok(Some(shape))
    }

    fn boxed_scan<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'a, DataFusionResult<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            let planned = self.cheapest_scan(state, projection, filters, limit).await;
            planned.map_err(into_datafusion)
        })
    }

    /// What reads the columns of rows that pass the filters, as far as they narrow what is read.
    async fn cheapest_scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let snapshot = self
            .snapshot
            .clone()
            .ok_or_else(|| Error::internal("a table is scanned without a snapshot"))?;
        let projection: Vec<usize> = match projection {
            Some(chosen) => chosen.iter().map(|at| self.columns[*at]).collect(),
            None => self.columns.clone(),
        };
        let sight = self.check(&projection, filters)?;
        own::check_order(&self.table, &self.buffered, filters)?;
        if sight.is_limited(&self.table) {
            snapshot.conceal_sources();
        }
        let scan = Scan {
            state,
            projection,
            filters,
            limit,
            sight,
        };
        if let Views::Named(view) = &self.views
            && let Some(read) = self.view_scan(&snapshot, &scan, view, None).await?
        {
            return Ok(read);
        }
        self.table_scan(&snapshot, &scan).await
    }

    /// A scan of a view; `None` where the table must answer, or answers as well as the view.
    async fn view_scan(
        &self,
        snapshot: &Snapshot,
        scan: &Scan<'_>,
        view: &Arc<Table>,
        of_table: Option<TableCost>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !scan.sight.may_use(&self.table, view) {
            return Ok(None);
        }
        let Some(shape) = self.shape_of(view, scan)? else {
            return Ok(None);
        };
        let range = match prune::access(&self.as_named(view), scan.filters)? {
            Access::Nothing => return Ok(None),
            Access::Keys(keys) => KeyRange {
                low: keys.first().cloned(),
                high: keys.last().map(|key| Key::after(key.as_bytes())),
            },
            Access::Range(range) => range,
            Access::Partitions(_) => return Ok(None),
        };
        let access = match words_of(&range) {
            "the whole table" => format!("the whole view {:?}", view.name),
            range => format!("{range} of view {:?}", view.name),
        };
        let is_narrow = range != KeyRange::default();
        let request = self.request(&shape, range, scan.state);
        if let Some(of_table) = of_table {
            let bytes = snapshot.view_bytes(&request).await?;
            let share = |table: &Table| Share {
                columns: shape.projection.len(),
                of: table.columns.len(),
            };
            let cheaper =
                |bytes| is_cheaper((bytes, share(view)), (of_table.bytes, share(&self.table)));
            let is_better = match shape.is_limited() {
                // What is hidden has bytes too: which of both is read must not tell how many.
                true => bytes.is_some() && is_narrow && !of_table.is_narrow,
                false => bytes.is_some_and(cheaper),
            };
            if !is_better {
                return Ok(None);
            }
        }
        let Some(plan) = snapshot.plan_view_scan(&request).await? else {
            return Ok(None);
        };
        self.note(access, &plan.sources, &scan.sight);
        Ok(Some(Arc::new(self.planned(
            shape,
            plan,
            scan,
            Order::Parts,
        ))))
    }

    /// Whole scans of views that lack little and hold the columns: their order may be wanted.
    async fn other_orders(
        &self,
        snapshot: &Snapshot,
        scan: &Scan<'_>,
        views: &[Arc<Table>],
    ) -> Result<Vec<OtherOrder>> {
        let mut others = Vec::new();
        // How much a view lacks is told by what is hidden, too.
        let is_limited = scan.sight.is_limited(&self.table);
        if !scan.filters.is_empty() || scan.limit.is_some() || is_limited {
            return Ok(others);
        }
        for view in views {
            let lag = snapshot.view_lag_bytes(view.id);
            let near = lag.is_some_and(|bytes| bytes <= LAG_BYTES_MAX);
            if !near || !scan.sight.may_use(&self.table, view) {
                continue;
            }
            let Some(shape) = self.shape_of(view, scan)? else {
                continue;
            };
            let request = ScanRequest {
                parts: 1,
                ..self.request(&shape, KeyRange::default(), scan.state)
            };
            if let Some(plan) = snapshot.plan_view_scan(&request).await? {
                let note = ScanNote {
                    table: self.table.name.clone(),
                    access: format!("the whole view {:?}, in its order", view.name),
                    sources: plan.sources.clone(),
                };
                others.push(OtherOrder {
                    scan: self.planned(shape, plan, scan, Order::Parts),
                    note,
                    notes: Arc::clone(&self.notes),
                    at: self.notes.lock().len(),
                });
            }
        }
        Ok(others)
    }

    /// A scan of the table itself, or of a view of it that answers for less.
    async fn table_scan(
        &self,
        snapshot: &Snapshot,
        scan: &Scan<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let shape = self.shape_of(&self.table, scan)?;
        let shape = shape.ok_or_else(|| {
            let view = &self.named().name;
            Error::invalid(format!(
                "view {view:?} shows columns that its table does not have at this horizon"
            ))
            .with_sqlstate("42703")
        })?;
        let width = self.named().columns.len();
        let access = prune::access(&self.as_named(&self.table), scan.filters)?;
        let (access, ranges, order) = match access {
            Access::Nothing => {
                let words = "nothing: the predicate on the key is never true".to_owned();
                self.note(words, &[], &scan.sight);
                return Ok(Arc::new(EmptyExec::new(shape.schema)));
            }
            // Versions are read by scans alone.
            Access::Keys(keys) if scan.projection.iter().any(|at| *at >= width) => scanned(keys),
            Access::Keys(keys) => {
                let words = format!("{} keys, read one by one", keys.len());
                self.note(words, &[], &scan.sight);
                let (snapshot, buffered) = (snapshot.clone(), self.buffered.clone());
                let points = LazyScanExec::points(shape, snapshot, keys, buffered, scan.limit);
                return Ok(Arc::new(points));
            }
            Access::Range(range) => (words_of(&range).to_owned(), vec![range], Order::Parts),
            Access::Partitions(access) => {
                let PartitionAccess { read, all, .. } = access;
                let words = in_words(access.bounded);
                let order = match access.ordered {
                    true => Order::Parts,
                    false => Order::Ranges,
                };
                let words = format!("{words}, {read} of {all} partitions");
                (words, access.ranges, order)
            }
        };
        let is_narrow = ranges.iter().all(|range| *range != KeyRange::default());
        let request = self.request(&shape, KeyRange::default(), scan.state);
        let plan = snapshot.plan_scan_of(request, &ranges).await?;
        if let Views::Choice(views) = &self.views {
            for view in views {
                let cost = TableCost {
                    bytes: plan.estimated_bytes,
                    is_narrow,
                };
                if let Some(scan) = self.view_scan(snapshot, scan, view, Some(cost)).await? {
                    return Ok(scan);
                }
            }
        }
        let others = match &self.views {
            Views::Choice(views) => self.other_orders(snapshot, scan, views).await?,
            Views::Named(_) => Vec::new(),
        };
        self.note(access, &plan.sources, &scan.sight);
        let planned = self.planned(shape, plan, scan, order);
        Ok(Arc::new(planned.with_others(others)))
    }
}

/// A view's column as its table had it at the horizon: where the view is younger, the column may
/// have had another type.
fn field_then(view: &Table, at: usize, table: &Table) -> Field {
    let now = shown_field(view, at);
    let mut columns = table.columns.iter();
    match columns.position(|column| column.id == view.columns[at].id) {
        None => now,
        Some(place) => {
            let then = shown_field(table, place);
            let nullable = now.is_nullable() || then.is_nullable();
            then.with_name(now.name()).with_nullable(nullable)
        }
    }
}

/// A view that lacks more of its table than this is no quick way to rows in its order.
const LAG_BYTES_MAX: u64 = 1 << 20;

/// What a scan of the table itself would be.
#[derive(Clone, Copy)]
struct TableCost {
    bytes: u64,
    /// Whether the predicate bounds the keys that it reads.
    is_narrow: bool,
}

/// What DataFusion asks of a scan.
struct Scan<'a> {
    state: &'a dyn Session,
    projection: Vec<usize>,
    filters: &'a [Expr],
    limit: Option<usize>,
    sight: Sight,
}

/// What the planner may know of a table that shows these columns: those grouped by the key are
/// single rows, so that other columns need not stand in GROUP BY.
fn unique_key(table: &Table, columns: &[usize]) -> Constraints {
    let place = |key: &usize| columns.iter().position(|column| column == key);
    let key: Option<Vec<usize>> = table.key_indices().iter().map(place).collect();
    let known = key.filter(|key| !key.is_empty());
    Constraints::new_unverified(known.map(Constraint::PrimaryKey).into_iter().collect())
}

fn words_of(range: &KeyRange) -> &'static str {
    in_words(*range != KeyRange::default())
}

impl TableProvider for LazyTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        match self.views {
            Views::Named(_) => TableType::View,
            Views::Choice(_) => TableType::Base,
        }
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match self.is_useful(filter) {
                true => TableProviderFilterPushDown::Inexact,
                false => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    // Written out, and not by `async_trait`, for the compiler's sake: see `catalog::Found`.
    fn scan<'table: 'plan, 'state: 'plan, 'columns: 'plan, 'filters: 'plan, 'plan>(
        &'table self,
        state: &'state dyn Session,
        projection: Option<&'columns Vec<usize>>,
        filters: &'filters [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'plan, DataFusionResult<Arc<dyn ExecutionPlan>>>
    where
        Self: 'plan,
    {
        self.boxed_scan(state, projection, filters, limit)
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
