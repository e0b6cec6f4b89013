//! Flight SQL's catalog commands: catalogs, schemas, tables, keys, and what the server can do.
//!
//! Reads names through the session, as SQL's own catalogs show them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::metadata::{SqlInfoDataBuilder, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{
    Command, CommandGetCatalogs, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTableTypes,
    CommandGetTables,
};
use futures::StreamExt;
use lazybase_model::{Error, Result};
use lazybase_query::Session;

use crate::failure::{broken, of_flight};
use crate::info;

/// The one catalog.
pub(crate) const CATALOG: &str = "lazybase";
/// The schema of all stored tables.
pub(crate) const SCHEMA: &str = "public";

/// The columns of a catalog command's rows.
pub(crate) fn schema(command: &Command) -> Result<SchemaRef> {
    Ok(match command {
        Command::CommandGetCatalogs(_) => CommandGetCatalogs {}.into_builder().schema(),
        Command::CommandGetDbSchemas(asked) => asked.clone().into_builder().schema(),
        Command::CommandGetTables(asked) => asked.clone().into_builder().schema(),
        Command::CommandGetTableTypes(_) => CommandGetTableTypes {}.into_builder().schema(),
        Command::CommandGetPrimaryKeys(_) => primary_key_schema(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_key_schema(),
        Command::CommandGetSqlInfo(_) => Arc::new(SqlInfoDataBuilder::schema().clone()),
        Command::CommandGetXdbcTypeInfo(_) => {
            let none = XdbcTypeInfoDataBuilder::new();
            none.build().map_err(of_flight)?.schema()
        }
        other => return Err(broken(format!("{} gives no rows", other.type_url()))),
    })
}

/// The rows of a catalog command.
pub(crate) async fn rows(session: &Session, command: Command) -> Result<RecordBatch> {
    match command {
        Command::CommandGetCatalogs(asked) => {
            let mut builder = asked.into_builder();
            builder.append(CATALOG);
            builder.build().map_err(of_flight)
        }
        Command::CommandGetDbSchemas(asked) => schemas(session, asked).await,
        Command::CommandGetTables(asked) => tables(session, asked).await,
        Command::CommandGetTableTypes(asked) => {
            let mut builder = asked.into_builder();
            for kind in ["TABLE", "VIEW", "SYSTEM TABLE"] {
                builder.append(kind);
            }
            builder.build().map_err(of_flight)
        }
        Command::CommandGetPrimaryKeys(asked) => primary_keys(session, &asked),
        asked @ (Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_)) => {
            // There are no foreign keys.
            Ok(RecordBatch::new_empty(schema(&asked)?))
        }
        Command::CommandGetSqlInfo(asked) => {
            let known = info::server().map_err(of_flight)?;
            known.record_batch(asked.info).map_err(of_flight)
        }
        Command::CommandGetXdbcTypeInfo(asked) => {
            let known = info::types().map_err(of_flight)?;
            known.record_batch(asked.data_type).map_err(of_flight)
        }
        other => Err(broken(format!("{} gives no rows", other.type_url()))),
    }
}

/// A relation that SQL's catalog names.
struct Named {
    schema: String,
    name: String,
    kind: &'static str,
}

/// All relations that a session sees.
async fn relations(session: &Session) -> Result<Vec<Named>> {
    let sql = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
               ORDER BY table_schema, table_name";
    let mut answer = session.query(sql).await?;
    let mut relations = Vec::new();
    while let Some(rows) = answer.next().await {
        let rows = rows?;
        let text = |at: usize| -> Result<ArrayRef> {
            let column = cast(rows.column(at), &DataType::Utf8);
            column.map_err(|error| Error::internal(error.to_string()))
        };
        let (schemas, names, kinds) = (text(0)?, text(1)?, text(2)?);
        let (schemas, names) = (schemas.as_string::<i32>(), names.as_string::<i32>());
        let kinds = kinds.as_string::<i32>();
        for row in 0..rows.num_rows() {
            let schema = schemas.value(row).to_owned();
            let kind = match (schema.as_str(), kinds.value(row)) {
                (SCHEMA, kind) if kind.contains("VIEW") => "VIEW",
                (SCHEMA, _) => "TABLE",
                _ => "SYSTEM TABLE",
            };
            let name = names.value(row).to_owned();
            relations.push(Named { schema, name, kind });
        }
    }
    Ok(relations)
}

async fn schemas(session: &Session, asked: CommandGetDbSchemas) -> Result<RecordBatch> {
    let mut names: Vec<String> = relations(session)
        .await?
        .into_iter()
        .map(|relation| relation.schema)
        .chain([SCHEMA.to_owned()])
        .collect();
    names.sort();
    names.dedup();
    let mut builder = asked.into_builder();
    for name in names {
        builder.append(CATALOG, name);
    }
    builder.build().map_err(of_flight)
}

async fn tables(session: &Session, asked: CommandGetTables) -> Result<RecordBatch> {
    let with_schema = asked.include_schema;
    let wanted = asked.clone();
    let mut builder = asked.into_builder();
    for relation in relations(session).await? {
        let columns = match with_schema && may_be_asked(&wanted, &relation) {
            true => match columns(session, &relation).await {
                Ok(columns) => columns,
                // It went meanwhile, or shows what is none of the role's business.
                Err(error) if error.kind() == lazybase_model::ErrorKind::NotFound => continue,
                Err(error) if error.sqlstate() == "42501" => continue,
                Err(error) => return Err(error),
            },
            false => Arc::new(Schema::empty()),
        };
        builder
            .append(
                CATALOG,
                relation.schema,
                relation.name,
                relation.kind,
                &columns,
            )
            .map_err(of_flight)?;
    }
    builder.build().map_err(of_flight)
}

/// Whether a relation is not left out by its kind or a plain name: so that its columns need not
/// be looked up.
fn may_be_asked(asked: &CommandGetTables, relation: &Named) -> bool {
    let of_kind =
        asked.table_types.is_empty() || asked.table_types.iter().any(|kind| kind == relation.kind);
    let named = |pattern: &Option<String>, name: &str| {
        let plain = pattern.as_deref().filter(|p| !p.contains(['%', '_', '\\']));
        plain.is_none_or(|plain| plain == name)
    };
    of_kind
        && named(&asked.db_schema_filter_pattern, &relation.schema)
        && named(&asked.table_name_filter_pattern, &relation.name)
}

async fn columns(session: &Session, relation: &Named) -> Result<SchemaRef> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let (schema, name) = (quoted(&relation.schema), quoted(&relation.name));
    let sql = format!("SELECT * FROM {schema}.{name}");
    let columns = session.prepare(&sql).await?.schema().await?;
    columns.ok_or_else(|| Error::internal("a table has columns"))
}

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

fn primary_key_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

fn foreign_key_schema() -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::UInt8, false);
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        number("update_rule"),
        number("delete_rule"),
    ]))
}

fn primary_keys(session: &Session, asked: &CommandGetPrimaryKeys) -> Result<RecordBatch> {
    let is = |given: &Option<String>, known: &str| {
        given
            .as_deref()
            .is_none_or(|given| given.is_empty() || given == known)
    };
    let here = is(&asked.catalog, CATALOG) && is(&asked.db_schema, SCHEMA);
    let table = match here {
        true => session.table(&asked.table).ok(),
        false => None,
    };
    // The key of a table without one is hidden.
    let key: Vec<String> = match table.filter(|table| !table.hidden_key) {
        Some(table) => {
            let key = table.key_indices().into_iter();
            key.map(|at| table.columns[at].name.clone()).collect()
        }
        None => Vec::new(),
    };
    let count = key.len();
    let same = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text; count])) };
    let columns: Vec<ArrayRef> = vec![
        same(CATALOG),
        same(SCHEMA),
        same(&asked.table),
        Arc::new(StringArray::from(key)),
        same(&format!("{}_pkey", asked.table)),
        Arc::new((1..=count as i32).collect::<Int32Array>()),
    ];
    RecordBatch::try_new(primary_key_schema(), columns)
        .map_err(|error| Error::internal(error.to_string()))
}
