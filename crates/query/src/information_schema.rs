//! `information_schema`: DataFusion's own tables, and beside them columns, keys, and who was
//! granted what.
//!
//! ```text
//!   columns                types, defaults and measures of all columns
//!   table_constraints, key_column_usage, constraint_column_usage,
//!   constraint_table_usage                                          primary keys
//!   table_privileges       what the session's roles, or everybody, have or have granted
//!   role_table_grants      the same without what everybody has
//!   column_privileges      the same by column: what is granted on a table is on each of them
//!   usage_privileges       the same of sequences, as far as it is USAGE
//!   role_usage_grants      that without what everybody has
//!   enabled_roles          the roles whose rights the session has
//!   applicable_roles, administrable_role_authorizations    what these are members of
//! ```
//!
//! An owner's privileges stand there too, as granted by the owner. Columns and keys are described
//! as PostgreSQL does (`described`): its tools read the names of types there.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::information_schema::{
    INFORMATION_SCHEMA_TABLES, InformationSchemaProvider,
};
use datafusion::catalog::{MemTable, MemoryCatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::Result as DataFusionResult;
use futures::FutureExt;
use lazybase_model::access::{Privilege, RoleId};
use lazybase_model::{Error, Result, Table};

use crate::access::{Gate, name_of};
use crate::error::{from_datafusion, into_datafusion};
use crate::parse::{CATALOG, SCHEMA};
use crate::pg_catalog::{self, Row};
use crate::visible::Visible;

mod described;
mod usage;

/// The tables of privileges.
const PRIVILEGES: [&str; 3] = ["column_privileges", "role_table_grants", "table_privileges"];
/// How everybody is called there.
const EVERYBODY: &str = "PUBLIC";

/// The schema.
#[derive(Debug)]
pub(crate) struct InformationSchema {
    pub(crate) others: InformationSchemaProvider,
    pub(crate) visible: Visible,
    pub(crate) gate: Gate,
    /// The schemas whose tables the system makes.
    pub(crate) system: Vec<(&'static str, Arc<dyn SchemaProvider>)>,
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.others.table_names();
        names.extend(PRIVILEGES.map(str::to_owned));
        names.extend(described::COLUMNS.map(|(name, _)| name.to_owned()));
        names.sort_unstable();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        let described = described::COLUMNS.iter().find(|(known, _)| *known == name);
        let rows = match described {
            Some((_, columns)) => {
                let rows = self.described(name).await?;
                pg_catalog::batch(columns, rows).map_err(into_datafusion)?
            }
            None if PRIVILEGES.contains(&name) => self.rows(name)?,
            None => return self.others.table(name).await,
        };
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
        Ok(Some(Arc::new(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        PRIVILEGES.contains(&name)
            || described::COLUMNS.iter().any(|(known, _)| *known == name)
            || self.others.table_exist(name)
    }
}

/// The names of all tables.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let made = described::COLUMNS.iter().map(|(name, _)| *name);
    let others = INFORMATION_SCHEMA_TABLES.iter().copied();
    let others = others.filter(|name| !described::COLUMNS.iter().any(|(made, _)| made == name));
    made.chain(PRIVILEGES).chain(others)
}

/// The columns of a table, whatever is in it.
///
/// # Errors
/// `Internal` where there is none of that name.
pub(crate) fn columns_of(name: &str) -> Result<SchemaRef> {
    if let Some((_, columns)) = described::COLUMNS.iter().find(|(known, _)| *known == name) {
        return Ok(pg_catalog::batch(columns, Vec::new())?.schema());
    }
    if PRIVILEGES.contains(&name) {
        let none = privileges(name, &BTreeSet::new());
        let none = none.map_err(|error| from_datafusion(&error, ""))?;
        return Ok(none.schema());
    }
    let others = InformationSchemaProvider::new(Arc::new(MemoryCatalogProviderList::new()));
    // It reads nothing, and is ready at once.
    match others.table(name).now_or_never() {
        Some(Ok(Some(table))) => Ok(table.schema()),
        _ => Err(Error::internal(format!(
            "information_schema has no columns of {name:?}"
        ))),
    }
}

/// One privilege of one grantee.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Granted {
    grantor: String,
    grantee: String,
    table: String,
    column: Option<String>,
    privilege: Privilege,
    passes: bool,
}

impl InformationSchema {
    /// What is said of columns and keys.
    async fn described(&self, name: &str) -> DataFusionResult<Vec<Row>> {
        if name == "information_schema_catalog_name" {
            return Ok(vec![vec![("catalog_name", CATALOG.into())]]);
        }
        if let Some(rows) = described::of_roles(name, &self.gate) {
            return Ok(rows);
        }
        if name == "sequences" {
            return Ok(pg_catalog::sequences::of_standard(
                &self.visible,
                &self.gate,
            ));
        }
        if name == "usage_privileges" || name == "role_usage_grants" {
            return Ok(usage::rows(name, &self.visible, &self.gate));
        }
        if name == "views" || name == "view_table_usage" {
            let views = self.visible.plain_views().into_iter();
            let views = views.filter(|view| self.gate.sees(view));
            let owns = |view: &Table| self.gate.owns(view.id);
            let rows =
                views.map(|view| described::of_plain_view(name, &view, &self.visible, &owns));
            return Ok(rows.flatten().collect());
        }
        let mut tables = self.visible.tables();
        if name != "columns" {
            tables.retain(|table| self.gate.sees(table));
            let keys = tables.iter().map(|table| described::of_key(name, table));
            return Ok(keys.flatten().collect());
        }
        tables = self.visible.relations();
        tables.retain(|table| self.gate.sees(table));
        let columns = tables
            .iter()
            .map(|table| described::columns_of_table(&self.visible, table));
        let mut rows: Vec<Row> = columns.flatten().collect();
        for (schema, provider) in &self.system {
            for table in provider.table_names() {
                if let Some(found) = provider.table(&table).await? {
                    rows.extend(described::columns_of_schema(
                        schema,
                        &table,
                        &found.schema(),
                    ));
                }
            }
        }
        Ok(rows)
    }

    fn rows(&self, name: &str) -> DataFusionResult<RecordBatch> {
        let tables = self.visible.relations();
        let of_columns = name == "column_privileges";
        let mut rows = BTreeSet::new();
        for table in &tables {
            self.granted(table, of_columns, &mut rows);
        }
        if name == "role_table_grants" {
            rows.retain(|row| row.grantee != EVERYBODY);
        }
        privileges(name, &rows)
    }

    /// What was granted on a table, as far as it concerns the session.
    fn granted(&self, table: &Table, of_columns: bool, rows: &mut BTreeSet<Granted>) {
        let access = self.gate.access();
        let owner = access.owner_of(table.id);
        let grantor = name_of(access, owner);
        let rights = self.gate.rights();
        let mine = |role: Option<RoleId>| {
            rights.superuser || role.is_some_and(|role| rights.roles.contains(&role))
        };
        let mut add = |role: Option<RoleId>, column: Option<&str>, privilege, passes| {
            if mine(owner) || mine(role) {
                rows.insert(Granted {
                    grantor: grantor.clone(),
                    grantee: match role {
                        Some(RoleId::PUBLIC) => EVERYBODY.to_owned(),
                        role => name_of(access, role),
                    },
                    table: table.name.clone(),
                    column: column.map(str::to_owned),
                    privilege,
                    passes,
                });
            }
        };
        let mut add_all = |role: Option<RoleId>, privilege: Privilege, passes: bool| {
            if !of_columns {
                add(role, None, privilege, passes);
            } else if Privilege::OF_COLUMNS.contains(&privilege) {
                for column in &table.columns[..table.visible_columns()] {
                    add(role, Some(&column.name), privilege, passes);
                }
            }
        };
        for privilege in Privilege::OF_TABLES {
            add_all(owner, privilege, true);
        }
        let Some(object) = access.objects.get(&table.id) else {
            return;
        };
        for (role, privileges) in &object.grants {
            let passed = object.options.get(role);
            for privilege in privileges {
                let passes = passed.is_some_and(|passed| passed.contains(privilege));
                add_all(Some(*role), *privilege, passes);
            }
        }
        for (id, grants) in object.columns.iter().filter(|_| of_columns) {
            let column = table.columns.iter().find(|column| column.id == *id);
            for (role, privileges) in grants {
                for privilege in privileges {
                    let name = column.map(|column| column.name.as_str());
                    add(Some(*role), name, *privilege, false);
                }
            }
        }
    }
}

/// A table of privileges.
fn privileges(name: &str, rows: &BTreeSet<Granted>) -> DataFusionResult<RecordBatch> {
    let of_columns = name == "column_privileges";
    let texts = |of: &dyn Fn(&Granted) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let fixed = |text: &'static str| texts(&move |_| Some(text.to_owned()));
    let yes_no = |yes: bool| Some(if yes { "YES" } else { "NO" }.to_owned());
    let mut columns = vec![
        ("grantor", texts(&|row| Some(row.grantor.clone()))),
        ("grantee", texts(&|row| Some(row.grantee.clone()))),
        ("table_catalog", fixed(CATALOG)),
        ("table_schema", fixed(SCHEMA)),
        ("table_name", texts(&|row| Some(row.table.clone()))),
    ];
    if of_columns {
        columns.push(("column_name", texts(&|row| row.column.clone())));
    }
    columns.push((
        "privilege_type",
        texts(&|row| Some(row.privilege.name().to_owned())),
    ));
    columns.push(("is_grantable", texts(&|row| yes_no(row.passes))));
    if !of_columns {
        let reads = |row: &Granted| yes_no(row.privilege == Privilege::Select);
        columns.push(("with_hierarchy", texts(&reads)));
    }
    let columns = columns.into_iter();
    let columns = columns.map(|(name, values)| (name, values, true));
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}
