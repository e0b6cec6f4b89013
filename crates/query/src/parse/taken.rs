//! Statements that tools send and that ask for what is so anyhow, or for what there never is: they
//! are taken, with a notice, and change nothing. What would have to keep something is refused.
//!
//! ```text
//!   CREATE INDEX i ON t (c)                 taken: rows are sorted by key, and by views
//!   CREATE UNIQUE INDEX i ON t (key, ...)   taken: the key is unique; of other columns, refused
//!   CREATE SCHEMA IF NOT EXISTS public      taken; any other schema, refused
//!   DROP INDEX IF EXISTS                    taken: there are none
//!   LOCK TABLE t IN ACCESS SHARE MODE       taken, for pg_dump: a transaction reads a snapshot
//!   ALTER SCHEMA public OWNER TO r          taken: it has no owner
//!   CHECKPOINT                              taken: what is acknowledged is durable
//! ```

use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, ObjectName, SchemaName};
use lazybase_model::{Error, Result};

use super::{CATALOG, PG_CATALOG, SCHEMA, SYSTEM_SCHEMA, folded, table_name, unsupported};
use crate::notice::Notice;

/// Such a statement.
#[derive(Debug, Clone)]
pub(crate) enum Taken {
    /// CREATE INDEX: what it asks to be unique must be so.
    Index(Index),
    /// LOCK TABLE in ACCESS SHARE mode, of these tables.
    Lock(Vec<String>),
    /// With nothing left to look at.
    Nothing {
        tag: &'static str,
        notices: Vec<Notice>,
    },
}

/// CREATE INDEX: what it is on.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    /// The table, or the view.
    pub(crate) on: String,
    /// The columns that it names, without those inside of expressions.
    pub(crate) columns: Vec<String>,
    pub(crate) unique: bool,
}

pub(super) fn create_index(index: &CreateIndex) -> Result<Taken> {
    let column = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(folded(name)),
        _ => None,
    };
    let columns = index.columns.iter().map(|column| &column.column.expr);
    let mut columns: Vec<String> = columns.filter_map(column).collect();
    // Columns that are only carried along keep nothing unique.
    if !index.unique {
        columns.extend(index.include.iter().map(folded));
    }
    Ok(Taken::Index(Index {
        on: table_name(&index.table_name)?,
        columns,
        unique: index.unique,
    }))
}

pub(super) fn create_schema(name: &SchemaName, if_not_exists: bool) -> Result<Taken> {
    let refused = |name: &str| {
        Err(unsupported(format!("schema {name:?} can't be created"))
            .with_detail("there is one schema for tables")
            .with_hint(format!("all tables live in the schema {SCHEMA}")))
    };
    let (SchemaName::Simple(named) | SchemaName::NamedAuthorization(named, _)) = name else {
        return refused(&name.to_string());
    };
    let parts: Vec<String> = named
        .0
        .iter()
        .map(|part| part.as_ident().map(folded).unwrap_or_default())
        .collect();
    let schema = match parts.as_slice() {
        [schema] => schema,
        [catalog, schema] if catalog == CATALOG => schema,
        _ => return refused(&named.to_string()),
    };
    let known = [SCHEMA, SYSTEM_SCHEMA, PG_CATALOG, "information_schema"];
    match (known.contains(&schema.as_str()), if_not_exists) {
        (true, true) => Ok(Taken::Nothing {
            tag: "CREATE SCHEMA",
            notices: vec![
                Notice::note(format!("schema {schema:?} is there already: skipped"))
                    .with_sqlstate("42P06"),
            ],
        }),
        (true, false) => Err(
            Error::conflict(format!("schema {schema:?} is there already"))
                .with_hint("CREATE SCHEMA IF NOT EXISTS leaves it as it is")
                .with_sqlstate("42P06"),
        ),
        (false, _) => refused(schema),
    }
}

/// DROP of indexes.
pub(super) fn drop(names: &[ObjectName], if_exists: bool) -> Result<Taken> {
    match names.first().filter(|_| !if_exists) {
        Some(name) => Err(Error::not_found(format!("there is no index {name}"))
            .with_detail("CREATE INDEX is taken, and makes none")
            .with_hint("DROP INDEX IF EXISTS is taken too")
            .with_sqlstate("42704")),
        None => Ok(nothing("DROP INDEX", "index", names)),
    }
}

/// What is not there is not dropped.
pub(super) fn nothing(tag: &'static str, word: &str, names: &[ObjectName]) -> Taken {
    let skipped = names
        .iter()
        .map(|name| format!("there is no {word} {name}: skipped"));
    Taken::Nothing {
        tag,
        notices: skipped.map(Notice::note).collect(),
    }
}
