//! The names that a statement can see: stored tables of one snapshot, and system tables.
//!
//! ```text
//!   lazybase (catalog) -> public              -> tables of the snapshot
//!                      -> lazybase            -> system tables, of the moment
//!                      -> pg_catalog          -> PostgreSQL's, about what the statement sees
//!                      -> information_schema  -> DataFusion's own, over the two above, and grants
//! ```
//!
//! Invariant CAT-1: a statement resolves each name once, in one manifest, changed by what the
//! session's transaction did to tables; a table that is
//! dropped meanwhile is still read as of the snapshot.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::information_schema::{INFORMATION_SCHEMA, InformationSchemaProvider};
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemTable, SchemaProvider, TableProvider,
};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::TableType;
use futures::future::{self, BoxFuture};
use lazybase_cluster::Instance;
use lazybase_engine::read::{HiddenColumn, OwnChanges, Snapshot};
use lazybase_model::table::HIDDEN_KEY_COLUMN;
use lazybase_model::{Error, ErrorKind, Result, Table, TableId, UsedTable};

use crate::access::{Gate, Identity};
use crate::activity::Activities;
use crate::advisory::SpanLocks;
use crate::cursors::Cursors;
use crate::error::{into_datafusion, unknown_table};
use crate::expansion::{PlannedViews, ViewTable};
use crate::hidden;
use crate::information_schema::{self, InformationSchema};
use crate::named_statements::NamedStatements;
use crate::parse::{CATALOG, SCHEMA, SYSTEM_SCHEMA};
use crate::pg_catalog::system::{OfSystem, SystemTable};
use crate::pg_catalog::{self, PG_CATALOG};
use crate::plain_views;
use crate::sequences::Numbers;
use crate::settings::Settings;
use crate::system_tables;
use crate::table::{LazyTable, ScanNotes, Views};
use crate::visible::{self, Visible};

/// What the names of one statement mean.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// The tables of the snapshot where there is one, as the transaction has changed them.
    pub(crate) visible: Visible,
    /// What the session may do, as of now: also where the tables are of an earlier moment.
    pub(crate) gate: Gate,
    /// Whose session it is.
    pub(crate) identity: Identity,
    /// `None` where no stored table is read.
    pub(crate) snapshot: Option<Snapshot>,
    /// The transaction's own changes.
    pub(crate) buffered: HashMap<TableId, Vec<OwnChanges>>,
    /// The table whose rows may have IDs that are given out at COMMIT.
    pub(crate) with_new_ids: Option<TableId>,
    pub(crate) notes: ScanNotes,
    /// The plain view whose text the names stand in, where they stand in one: they mean what they
    /// meant when it was made.
    pub(crate) within: Option<Arc<Table>>,
    /// The plain views that were planned for the statement.
    pub(crate) planned: PlannedViews,
    /// Who is connected.
    pub(crate) activities: Arc<Activities>,
    /// The session's.
    pub(crate) cursors: Arc<Cursors>,
    /// The statements that it keeps.
    pub(crate) named: Arc<NamedStatements>,
    /// What the statement locks.
    pub(crate) locks: Arc<SpanLocks>,
    /// What takes numbers of sequences for it.
    pub(crate) numbers: Numbers,
    /// The number of the session's own connection, where a server serves it.
    pub(crate) pid: Option<i32>,
}

impl Names {
    /// The definition of the table of a name: the name is today's, the columns are those of the
    /// horizon.
    pub(crate) fn definition(&self, name: &str) -> Result<Arc<Table>> {
        match &self.within {
            None => self.of_horizon(self.visible.require(name)?),
            Some(view) => {
                let (used, table) = self.used(view, name)?;
                if table.view_of.is_some() || table.query.is_some() {
                    return Err(
                        Error::invalid(format!("{name:?} is a view")).with_sqlstate("42809")
                    );
                }
                Ok(plain_views::as_used(self.of_horizon(table)?, used))
            }
        }
    }

    /// What the text of a view means by a name.
    fn used<'v>(&self, view: &'v Table, name: &str) -> Result<(&'v UsedTable, Arc<Table>)> {
        let used = visible::uses(view).find(|used| used.name == name);
        let found = used.and_then(|used| Some((used, self.visible.relation_of(used.table)?)));
        found.ok_or_else(|| unknown_table(name, visible::uses(view).map(|used| used.name.as_str())))
    }

    /// The plain view of a name.
    pub(crate) fn plain_view(&self, name: &str) -> Option<Arc<Table>> {
        match &self.within {
            None => self.visible.plain_view(name),
            Some(view) => {
                let (_, found) = self.used(view, name).ok()?;
                found.query.is_some().then_some(found)
            }
        }
    }

    /// The secondary view of a name.
    fn secondary_view(&self, name: &str) -> Option<Arc<Table>> {
        match &self.within {
            None => self.visible.view(name),
            Some(view) => {
                let (_, found) = self.used(view, name).ok()?;
                found.view_of.is_some().then_some(found)
            }
        }
    }

    /// What `*` gives of the table or plain view of a name; nothing where there is none.
    pub(crate) fn columns_of(&self, name: &str) -> Option<Arc<Table>> {
        match self.definition(name) {
            Ok(table) if self.within.is_some() => Some(plain_views::listed(table)),
            Ok(table) => Some(table),
            Err(_) => {
                let view = self.plain_view(name)?;
                Some(plain_views::first_columns(view, self.columns_used(name)))
            }
        }
    }

    /// How many of the columns of a plain view the text knows that names it; all where that is the
    /// statement's own.
    fn columns_used(&self, name: &str) -> Option<usize> {
        let used = visible::uses(self.within.as_deref()?).find(|used| used.name == name);
        used.map(|used| used.columns.len())
    }

    fn of_horizon(&self, table: Arc<Table>) -> Result<Arc<Table>> {
        match &self.snapshot {
            Some(snapshot) => definition_in(snapshot, &table),
            None => Ok(table),
        }
    }
}

/// The definition of a table at a snapshot.
///
/// # Errors
/// `NotFound` (42P01) for one that the snapshot does not have.
pub(crate) fn definition_in(snapshot: &Snapshot, table: &Table) -> Result<Arc<Table>> {
    snapshot.definition(table.id).map_err(|error| {
        let missing = error.kind() == ErrorKind::NotFound;
        match missing {
            true => Error::not_found(format!(
                "table {:?} was made after the transaction's snapshot",
                table.name
            ))
            .with_detail("all queries of a transaction read the state that its first one has found")
            .with_hint("COMMIT or ROLLBACK first, then read it")
            .with_sqlstate("42P01"),
            false => error,
        }
    })
}

/// What a schema has under a name. The futures of it are written out, and ready: what `async_trait`
/// makes of them takes the compiler long, for it proves of each that all of a session may be
/// sent, under bounds under which it keeps no proofs.
type Found = DataFusionResult<Option<Arc<dyn TableProvider>>>;
/// What kind of thing that is.
type Kind = DataFusionResult<Option<TableType>>;

/// The only catalogue there is, in the list that DataFusion wants.
#[derive(Debug)]
pub(crate) struct Catalogs {
    catalog: Arc<Catalog>,
}

impl Catalogs {
    /// The catalogue of one statement.
    pub(crate) fn new(names: Names, instance: Instance, settings: Settings) -> Catalogs {
        let now_micros = instance.env().clock.wall_micros();
        let system = Arc::new(AtOnce(SystemSchema {
            instance,
            settings: settings.clone(),
            gate: names.gate.clone(),
        }));
        Catalogs {
            catalog: Arc::new(Catalog {
                pg_catalog: Arc::new(AtOnce(PgSchema {
                    seen: pg_catalog::Seen {
                        visible: names.visible.clone(),
                        gate: names.gate.clone(),
                        settings,
                        activities: Arc::clone(&names.activities),
                        cursors: Arc::clone(&names.cursors),
                        named: Arc::clone(&names.named),
                        locks: Arc::clone(&names.locks),
                        numbers: Some(names.numbers.clone()),
                        now_micros,
                    },
                    system: Arc::clone(&system),
                })),
                system,
                stored: Arc::new(AtOnce(StoredSchema { names })),
            }),
        }
    }
}

impl Catalogs {
    /// What its names mean.
    pub(crate) fn names(&self) -> &Names {
        &self.catalog.stored.0.names
    }

    /// The names in the text of a plain view, of which may be read what a gate lets pass.
    pub(crate) fn within(&self, view: Arc<Table>, gate: Gate) -> Catalogs {
        let names = Names {
            gate,
            within: Some(view),
            with_new_ids: None,
            ..self.names().clone()
        };
        let system = &self.catalog.system.0;
        Catalogs::new(names, system.instance.clone(), system.settings.clone())
    }
}

impl CatalogProviderList for Catalogs {
    fn register_catalog(
        &self,
        _: String,
        _: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::clone(&self.catalog) as _)
    }
}

#[derive(Debug, Clone)]
struct Catalog {
    stored: Arc<AtOnce<StoredSchema>>,
    system: Arc<AtOnce<SystemSchema>>,
    pg_catalog: Arc<AtOnce<PgSchema>>,
}

/// A schema that finds its tables without waiting.
trait Schema: fmt::Debug + Send + Sync + 'static {
    fn names(&self) -> Vec<String>;

    fn find(&self, name: &str) -> Found;

    /// What `information_schema.tables` calls it, as `pg_class` does.
    fn kind(&self, name: &str) -> Kind;

    fn has(&self, name: &str) -> bool;
}

/// Such a schema as the planner asks for it.
#[derive(Debug)]
struct AtOnce<S>(S);

impl<S: Schema> SchemaProvider for AtOnce<S> {
    fn table_names(&self) -> Vec<String> {
        self.0.names()
    }

    fn table<'schema: 'found, 'name: 'found, 'found>(
        &'schema self,
        name: &'name str,
    ) -> BoxFuture<'found, Found>
    where
        Self: 'found,
    {
        Box::pin(future::ready(self.0.find(name)))
    }

    fn table_type<'schema: 'found, 'name: 'found, 'found>(
        &'schema self,
        name: &'name str,
    ) -> BoxFuture<'found, Kind>
    where
        Self: 'found,
    {
        Box::pin(future::ready(self.0.kind(name)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.has(name)
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        [SCHEMA, SYSTEM_SCHEMA, PG_CATALOG]
            .map(str::to_owned)
            .to_vec()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA => Some(Arc::clone(&self.stored) as _),
            SYSTEM_SCHEMA => Some(Arc::clone(&self.system) as _),
            PG_CATALOG => Some(Arc::clone(&self.pg_catalog) as _),
            INFORMATION_SCHEMA => {
                let names = &self.stored.0.names;
                // What there is is told by today's names, in the text of a view too.
                let today = Names {
                    within: None,
                    ..names.clone()
                };
                let all = Catalogs {
                    catalog: Arc::new(Catalog {
                        stored: Arc::new(AtOnce(StoredSchema { names: today })),
                        ..self.clone()
                    }),
                };
                Some(Arc::new(InformationSchema {
                    others: InformationSchemaProvider::new(Arc::new(all)),
                    visible: names.visible.clone(),
                    gate: names.gate.clone(),
                    system: vec![
                        (SYSTEM_SCHEMA, Arc::clone(&self.system) as _),
                        (PG_CATALOG, Arc::clone(&self.pg_catalog) as _),
                    ],
                }))
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
struct StoredSchema {
    names: Names,
}

impl StoredSchema {
    /// A sequence as a table of one row, as PostgreSQL's tools read it.
    fn sequence(&self, name: &str) -> Found {
        // The text of a view names none.
        let seen = match self.names.within {
            None => self.names.visible.sequence_named(name),
            Some(_) => None,
        };
        let Some(seen) = seen else {
            return Ok(None);
        };
        let may = self.names.gate.read_sequence(&seen.sequence);
        may.map_err(into_datafusion)?;
        let counter = self.names.numbers.counter(&seen);
        let row = vec![
            ("last_value", counter.last.into()),
            ("is_called", counter.called.into()),
        ];
        let rows = pg_catalog::batch("last_value l, log_cnt l, is_called b", vec![row]);
        let rows = rows.map_err(into_datafusion)?;
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
        Ok(Some(Arc::new(table)))
    }
}

impl Schema for StoredSchema {
    fn find(&self, name: &str) -> Found {
        let (name, shows) = hidden::shown(name);
        if let Some(view) = self.names.plain_view(name) {
            let planned = self.names.planned.lock().get(&view.id).cloned();
            let columns = self.names.columns_used(name);
            let gate = &self.names.gate;
            let table = ViewTable::new(&view, planned, columns, gate)?;
            return Ok(Some(Arc::new(table)));
        }
        let visible = &self.names.visible;
        let view = self.names.secondary_view(name);
        let of_view = view.as_ref().and_then(|view| visible.table_of(view));
        let table = match of_view {
            Some(table) => self.names.of_horizon(table),
            None => self.names.definition(name),
        };
        let table = match table {
            Ok(table) => table,
            // A function in FROM is looked up as a table first.
            Err(error) if self.names.snapshot.is_some() && self.has(name) => {
                return Err(into_datafusion(error));
            }
            Err(_) => return self.sequence(name),
        };
        let own_key = match shows.contains(&HIDDEN_KEY_COLUMN) {
            true => table.written_columns()..table.columns.len(),
            false => 0..0,
        };
        let shows = shows.into_iter().filter_map(|name| {
            let hidden = HiddenColumn::named(&table, name)?;
            Some(hidden.position(&table))
        });
        let is_listed = |at: &usize| !plain_views::is_unlisted(&table.columns[*at]);
        let listed = (0..table.visible_columns()).filter(is_listed);
        let columns = listed.chain(own_key).chain(shows);
        let columns = columns.collect();
        let buffered = self
            .names
            .buffered
            .get(&table.id)
            .cloned()
            .unwrap_or_default();
        let views = match view {
            Some(view) => Views::Named(view),
            None => Views::Choice(visible.views_of(table.id)),
        };
        let new_ids = self.names.with_new_ids == Some(table.id);
        let table = LazyTable::new(
            table,
            columns,
            views,
            self.names.snapshot.clone(),
            buffered,
            Arc::clone(&self.names.notes),
            self.names.gate.clone(),
        );
        let table = match self.names.within {
            None => table.with_today(visible.table(name)),
            // What a view gives is a column of no table.
            Some(_) => table.without_origin(),
        };
        Ok(Some(Arc::new(table.with_new_ids(new_ids))))
    }

    fn kind(&self, name: &str) -> Kind {
        let found = self.find(name)?;
        Ok(found.map(|table| table.table_type()))
    }

    fn names(&self) -> Vec<String> {
        let mut tables = self.names.visible.relations();
        tables.retain(|table| self.names.gate.sees(table));
        tables.iter().map(|table| table.name.clone()).collect()
    }

    fn has(&self, name: &str) -> bool {
        let (name, _) = hidden::shown(name);
        let visible = &self.names.visible;
        match &self.names.within {
            None => visible.relation(name).is_some(),
            Some(view) => self.names.used(view, name).is_ok(),
        }
    }
}

/// PostgreSQL's tables about the tables that the statement sees.
#[derive(Debug)]
struct PgSchema {
    seen: pg_catalog::Seen,
    system: Arc<AtOnce<SystemSchema>>,
}

impl PgSchema {
    /// The rows about what the system itself has, which are the same for every statement.
    fn of_system(&self, name: &str) -> Result<Option<&'static RecordBatch>> {
        static ROWS: OnceLock<OfSystem> = OnceLock::new();
        if !OfSystem::is_in(name) {
            return Ok(None);
        }
        if let Some(known) = ROWS.get() {
            return Ok(known.rows(name));
        }
        let made = OfSystem::new(|table| self.columns_of(table))?;
        Ok(ROWS.get_or_init(|| made).rows(name))
    }

    fn columns_of(&self, table: &SystemTable) -> Result<SchemaRef> {
        let columns = match table.schema {
            SYSTEM_SCHEMA => self.system.0.rows(table.name)?.map(|rows| rows.schema()),
            PG_CATALOG => pg_catalog::columns_of(table.name)?,
            _ => Some(information_schema::columns_of(table.name)?),
        };
        columns.ok_or_else(|| Error::internal(format!("{table:?} has no columns")))
    }
}

impl Schema for PgSchema {
    fn find(&self, name: &str) -> Found {
        let Some(mut rows) = pg_catalog::rows(name, &self.seen).map_err(into_datafusion)? else {
            return Ok(None);
        };
        if let Some(of_system) = self.of_system(name).map_err(into_datafusion)? {
            rows = concat_batches(&rows.schema(), [&rows, of_system])?;
        }
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
        Ok(Some(Arc::new(table)))
    }

    fn kind(&self, name: &str) -> Kind {
        Ok(self.has(name).then_some(TableType::View))
    }

    fn names(&self) -> Vec<String> {
        let names = pg_catalog::readable_names(&self.seen.gate);
        names.map(str::to_owned).collect()
    }

    fn has(&self, name: &str) -> bool {
        pg_catalog::has(name)
    }
}

struct SystemSchema {
    instance: Instance,
    settings: Settings,
    gate: Gate,
}

impl fmt::Debug for SystemSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemSchema").finish_non_exhaustive()
    }
}

impl SystemSchema {
    fn rows(&self, name: &str) -> Result<Option<RecordBatch>> {
        system_tables::rows(name, &self.instance, &self.settings, &self.gate)
    }
}

impl Schema for SystemSchema {
    fn find(&self, name: &str) -> Found {
        system_tables::check(name, &self.gate).map_err(into_datafusion)?;
        match self.rows(name).map_err(into_datafusion)? {
            None => Ok(None),
            Some(rows) => {
                let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
                Ok(Some(Arc::new(table)))
            }
        }
    }

    fn kind(&self, name: &str) -> Kind {
        Ok(self.has(name).then_some(TableType::View))
    }

    fn names(&self) -> Vec<String> {
        let names = system_tables::NAMES.into_iter();
        let seen = names.filter(|name| system_tables::check(name, &self.gate).is_ok());
        seen.map(str::to_owned).collect()
    }

    fn has(&self, name: &str) -> bool {
        system_tables::NAMES.contains(&name)
    }
}
