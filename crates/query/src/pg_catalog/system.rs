//! The tables that the system makes, as views in `pg_class` and `pg_attribute`, so that `\d` and
//! its like describe them too: those of the schemas lazybase, pg_catalog and information_schema.
//!
//! ```text
//!   their names    -> numbers, which stay the same while the program does
//!   their columns  -> rows, made once in a process: no statement makes them again
//! ```
//!
//! Only those of pg_catalog are visible without their schema: lists of what users have made, which
//! leave pg_catalog out or ask what is visible, are without them.

use std::sync::LazyLock;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use lazybase_model::Result;
use lazybase_model::access::Rights;

use super::described::{COLUMNS, PG_CLASS};
use super::fixed::{OF_STANDARD, OF_SYSTEM, OWNER, PG_NAMESPACE};
use super::types::{known_type, pg_type_of};
use super::{Cell, PG_CATALOG, Row, batch, names, privileges};
use crate::information_schema;
use crate::parse::{CATALOG, SYSTEM_SCHEMA};
use crate::system_tables;

/// Where their numbers begin: behind those of functions, before those of users' tables.
const FIRST: i64 = 14_000;

/// Those of pg_catalog that PostgreSQL's tools know by the numbers that they have there.
const KNOWN: [(&str, i64); 9] = [
    ("pg_type", 1247),
    ("pg_class", PG_CLASS),
    ("pg_authid", 1260),
    ("pg_database", 1262),
    ("pg_am", 2601),
    ("pg_attrdef", 2604),
    ("pg_constraint", 2606),
    ("pg_namespace", 2615),
    ("pg_extension", 3079),
];

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemTable {
    pub(crate) oid: i64,
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
}

/// All of them, in the order of their numbers, but for those that PostgreSQL numbers.
fn all() -> &'static [SystemTable] {
    static ALL: LazyLock<Vec<SystemTable>> = LazyLock::new(|| {
        let of_system = system_tables::NAMES.into_iter();
        let of_system = of_system.map(|name| (SYSTEM_SCHEMA, name));
        let of_postgres = names().map(|name| (PG_CATALOG, name));
        let of_standard = information_schema::names().map(|name| (INFORMATION_SCHEMA, name));
        let all = of_system.chain(of_postgres).chain(of_standard);
        let numbered = all.zip(FIRST..).map(|((schema, name), number)| {
            let known = KNOWN.iter().find(|(known, _)| *known == name);
            let known = known.filter(|_| schema == PG_CATALOG);
            SystemTable {
                oid: known.map_or(number, |(_, known)| *known),
                schema,
                name,
            }
        });
        numbered.collect()
    });
    &ALL
}

/// The one of a number.
pub(super) fn numbered(oid: i64) -> Option<&'static SystemTable> {
    if let Some((name, _)) = KNOWN.iter().find(|(_, known)| *known == oid) {
        return named(None, name);
    }
    let at = usize::try_from(oid.checked_sub(FIRST)?).ok()?;
    all().get(at).filter(|table| table.oid == oid)
}

/// The one of a name, in the schema that is said, or among those that are visible.
pub(super) fn named(schema: Option<&str>, name: &str) -> Option<&'static SystemTable> {
    let schema = schema.unwrap_or(PG_CATALOG);
    let mut tables = all().iter();
    tables.find(|table| table.schema == schema && table.name == name)
}

/// The number of one of pg_catalog.
pub(super) fn number_of(name: &str) -> i64 {
    named(None, name).map_or(0, |table| table.oid)
}

/// Those of a schema.
pub(super) fn in_schema(schema: &'static str) -> impl Iterator<Item = &'static SystemTable> {
    all().iter().filter(move |table| table.schema == schema)
}

/// The numbers of those that everybody may read, and the lists that say so.
pub(super) fn readable_by_everybody() -> impl Iterator<Item = (i64, Cell)> {
    let all = all().iter().filter(|table| !table.is_for_superusers());
    all.map(|table| (table.oid, everybody()))
}

/// The privileges on one that everybody may read.
fn everybody() -> Cell {
    Cell::Texts(vec![
        format!("{CATALOG}=r/{CATALOG}"),
        format!("=r/{CATALOG}"),
    ])
}

impl SystemTable {
    /// Whether its name alone means it.
    pub(super) fn is_visible(&self) -> bool {
        self.schema == PG_CATALOG
    }

    /// The name that means it.
    pub(super) fn shown(&self) -> String {
        match self.is_visible() {
            true => self.name.to_owned(),
            false => format!("{}.{}", self.schema, self.name),
        }
    }

    fn is_for_superusers(&self) -> bool {
        match self.schema {
            SYSTEM_SCHEMA => system_tables::is_for_superusers(self.name),
            PG_CATALOG => privileges::is_for_superusers(self.name),
            _ => false,
        }
    }

    /// Whether somebody may read it. Nobody may do anything else with it.
    pub(super) fn is_read_by(&self, rights: &Rights) -> bool {
        rights.superuser || !self.is_for_superusers()
    }

    /// The number of its schema.
    fn namespace(&self) -> i64 {
        match self.schema {
            PG_CATALOG => PG_NAMESPACE,
            SYSTEM_SCHEMA => OF_SYSTEM,
            _ => OF_STANDARD,
        }
    }
}

/// The rows that tell of all of them.
#[derive(Debug)]
pub(crate) struct OfSystem {
    classes: RecordBatch,
    attributes: RecordBatch,
}

impl OfSystem {
    /// Rows about all tables, of which `columns_of` knows the columns.
    ///
    /// # Errors
    /// Those of `columns_of`.
    pub(crate) fn new(columns_of: impl Fn(&SystemTable) -> Result<SchemaRef>) -> Result<OfSystem> {
        let (mut classes, mut attributes) = (Vec::new(), Vec::new());
        for table in all() {
            let columns = columns_of(table)?;
            classes.push(class(table, &columns));
            attributes.extend(attributes_of(table, &columns));
        }
        let made = |name: &str, rows: Vec<Row>| {
            let columns = COLUMNS.iter().find(|(known, _)| *known == name);
            batch(columns.map_or("", |(_, columns)| *columns), rows)
        };
        Ok(OfSystem {
            classes: made("pg_class", classes)?,
            attributes: made("pg_attribute", attributes)?,
        })
    }

    /// Whether a table of `pg_catalog` tells of them.
    pub(crate) fn is_in(name: &str) -> bool {
        matches!(name, "pg_class" | "pg_attribute")
    }

    /// The rows that a table of `pg_catalog` has about them.
    pub(crate) fn rows(&self, name: &str) -> Option<&RecordBatch> {
        match name {
            "pg_class" => Some(&self.classes),
            "pg_attribute" => Some(&self.attributes),
            _ => None,
        }
    }
}

fn class(table: &SystemTable, columns: &Schema) -> Row {
    let mut row: Row = vec![
        ("oid", table.oid.into()),
        ("relname", table.name.into()),
        ("relnamespace", table.namespace().into()),
        ("relowner", OWNER.into()),
        // How many rows there are is known once they are counted.
        ("reltuples", Cell::Float(-1.0)),
        ("relpersistence", "p".into()),
        ("relkind", "v".into()),
        ("relnatts", (columns.fields().len() as i64).into()),
        ("relispopulated", true.into()),
        ("relreplident", "n".into()),
        ("tableoid", PG_CLASS.into()),
    ];
    if !table.is_for_superusers() {
        row.push(("relacl", everybody()));
    }
    row
}

fn attributes_of(table: &SystemTable, columns: &Schema) -> Vec<Row> {
    let columns = columns.fields().iter().zip(1_i64..);
    let attributes = columns.map(|(field, number)| -> Row {
        let data_type = pg_type_of(field);
        let known = known_type(data_type);
        let length = known.map_or(-1, |known| known.length);
        vec![
            ("attrelid", table.oid.into()),
            ("attname", field.name().clone().into()),
            ("atttypid", i64::from(data_type).into()),
            ("attstattarget", (-1).into()),
            ("attlen", i64::from(length).into()),
            ("attnum", number.into()),
            ("attndims", i64::from(known.is_none()).into()),
            ("attcacheoff", (-1).into()),
            ("atttypmod", (-1).into()),
            ("attalign", "i".into()),
            ("attstorage", if length < 0 { "x" } else { "p" }.into()),
            ("attislocal", true.into()),
        ]
    });
    attributes.collect()
}
