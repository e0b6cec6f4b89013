//! SQL as LazyBase reads and plans it, over tables that the caller holds: what an answer is held
//! to, where the storage is to be checked and not the planner above it.
//!
//! Reads those tables; writes nothing. Invariant PLA-1: between the text and the tables stands the
//! same code as for stored ones, but for what reads rows by their keys past the planner.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
    MemorySchemaProvider, SchemaProvider, TableProvider,
};
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::displayable;
use datafusion::sql::sqlparser::ast;
use futures::stream::TryStreamExt;
use lazybase_model::{Error, Result};

use crate::context::Context;
use crate::error::from_datafusion;
use crate::parse::{self, CATALOG, SCHEMA, Statement, natural_joins};
use crate::planner;
use crate::settings::Settings;

/// The planner, before it has tables. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PlainPlanner {
    base: Arc<SessionState>,
    settings: Settings,
}

/// Some tables, to be asked.
#[derive(Debug, Clone)]
pub struct PlainTables {
    planner: PlainPlanner,
    catalogs: Arc<dyn CatalogProviderList>,
}

impl PlainPlanner {
    /// A planner of queries that run on so many partitions, with batches of so many rows.
    ///
    /// # Errors
    /// `Unavailable` when there is no place for temporary files.
    pub fn new(partitions: usize, batch_rows: usize) -> Result<PlainPlanner> {
        let mut settings = Settings::default();
        settings.config = settings
            .config
            .with_target_partitions(partitions)
            .with_batch_size(batch_rows);
        Ok(PlainPlanner {
            base: Arc::new(planner::base(&lazybase_cluster::Settings::default(), None)?),
            settings,
        })
    }

    /// Tables with their names.
    ///
    /// # Errors
    /// `Invalid` when two have one name.
    pub fn over(
        &self,
        tables: impl IntoIterator<Item = (String, Arc<dyn TableProvider>)>,
    ) -> Result<PlainTables> {
        let schema = MemorySchemaProvider::new();
        for (name, table) in tables {
            schema
                .register_table(name, table)
                .map_err(|error| from_datafusion(&error, ""))?;
        }
        let catalog = MemoryCatalogProvider::new();
        catalog
            .register_schema(SCHEMA, Arc::new(schema))
            .map_err(|error| from_datafusion(&error, ""))?;
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
        Ok(PlainTables {
            planner: self.clone(),
            catalogs: Arc::new(catalogs),
        })
    }
}

impl PlainTables {
    /// The columns and rows that a query gives.
    ///
    /// # Errors
    /// As [`Session::query`](crate::Session::query); `Invalid` for what is no query, or has clauses
    /// that only a database can keep.
    pub async fn query(&self, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let rows = self.context().run(query_of(sql)?, sql, None).await?.rows;
        let schema = rows.schema();
        let batches = rows.try_collect().await;
        Ok((
            schema,
            batches.map_err(|error| from_datafusion(&error, sql))?,
        ))
    }

    /// How a query would run, in words.
    ///
    /// # Errors
    /// As [`PlainTables::query`].
    pub async fn explain(&self, sql: &str) -> Result<String> {
        let statement = planner::rewritten(query_of(sql)?);
        let context = self.context();
        let plan = context.plan(statement).await;
        let (plan, ..) = plan.map_err(|error| from_datafusion(&error, sql))?;
        Ok(displayable(plan.as_ref()).indent(false).to_string())
    }

    fn context(&self) -> Context {
        let planner = &self.planner;
        Context::over(&planner.base, &planner.settings, Arc::clone(&self.catalogs))
    }
}

/// The one query that a text is.
fn query_of(sql: &str) -> Result<ast::Statement> {
    let parsed = parse::parse(sql)?;
    match parsed.statement {
        Statement::Query(query) if parsed.clauses.is_empty() => {
            let mut statement = ast::Statement::Query(query);
            natural_joins::spell(&mut statement, &|_| None)?;
            Ok(statement)
        }
        _ => Err(Error::invalid(
            "only queries without clauses can be asked here",
        )),
    }
}
