//! `pg_catalog`: PostgreSQL's own tables of tables, as far as its tools ask for them.
//!
//! ```text
//!   statement -> rewrite: names, operators and casts that only PostgreSQL has
//!             -> tables made of what the statement sees, one row a table, column, key, ...
//!             -> functions: format_type, pg_get_constraintdef, ...
//! ```
//!
//! Reads the tables that a statement sees; writes nothing. Invariant PGC-1: what LazyBase does not
//! have (triggers, policies, ...) is a table without rows, never a made-up row.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float32Builder, Int16Builder, Int32Builder, Int64Builder,
    IntervalMonthDayNanoBuilder, ListBuilder, RecordBatch, StringBuilder,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, Schema, SchemaRef};
use lazybase_model::{Error, Result};

use crate::access::Gate;
use crate::activity::Activities;
use crate::advisory::SpanLocks;
use crate::cursors::Cursors;
use crate::named_statements::NamedStatements;
use crate::sequences::Numbers;
use crate::settings::Settings;
use crate::visible::Visible;

pub(crate) use described::{key_name, oid_of, schema_and_name};
pub(crate) use privileges::{DATABASE, role_oid};
pub(crate) use sequences::oid_of_sequence;

pub(crate) mod by_name;
mod counted;
mod described;
mod dumped;
pub(crate) mod expanded;
mod facts;
mod fixed;
pub(crate) mod functions;
pub(crate) mod keywords;
mod looked_up;
pub(crate) mod or_empty;
mod order;
mod privileges;
pub(crate) mod rewrite;
mod select_list;
pub(crate) mod sequences;
mod shown;
pub(crate) mod system;
#[cfg(test)]
mod tests;
pub(crate) mod types;
pub(crate) mod vectors;
mod zones;

/// Who is connected, and what they do.
const ACTIVITY: (&str, &str) = (
    "pg_stat_activity",
    "datid o, datname t, pid i, leader_pid i?, usesysid o, usename t, application_name t, \
     client_addr t?, client_hostname t?, client_port i?, backend_start m?, xact_start m?, \
     query_start m?, state_change m?, wait_event_type t?, wait_event t?, state t?, \
     backend_xid o?, backend_xmin o?, query_id o?, query t, backend_type t",
);

/// Whose connections are encrypted.
const ENCRYPTION: (&str, &str) = (
    "pg_stat_ssl",
    "pid i, ssl b?, version t?, cipher t?, bits i?, client_dn t?, client_serial t?, issuer_dn t?",
);

/// How the database is used: what is not counted is not known.
const DATABASES: (&str, &str) = (
    "pg_stat_database",
    "datid o, datname t, numbackends i, xact_commit l?, xact_rollback l?, blks_read l?, \
     blks_hit l?, tup_returned l?, tup_fetched l?, tup_inserted l?, tup_updated l?, \
     tup_deleted l?, conflicts l?, temp_files l?, temp_bytes l?, deadlocks l?, \
     checksum_failures l?, checksum_last_failure m?, blk_read_time f?, blk_write_time f?, \
     session_time f?, active_time f?, idle_in_transaction_time f?, sessions l?, \
     sessions_abandoned l?, sessions_fatal l?, sessions_killed l?, stats_reset m?",
);

/// What is locked: there are advisory locks alone.
const LOCKS: (&str, &str) = (
    "pg_locks",
    "locktype t, database o?, relation o?, page i?, tuple s?, virtualxid t?, transactionid o?, \
     classid o?, objid o?, objsubid s?, virtualtransaction t, pid i?, mode t, granted b, \
     fastpath b, waitstart m?",
);

/// The session's cursors.
const CURSORS: (&str, &str) = (
    "pg_cursors",
    "name t, statement t, is_holdable b, is_binary b, is_scrollable b, creation_time m",
);

/// The statements that the session keeps under names. Each run is planned for its values.
const PREPARED: (&str, &str) = (
    "pg_prepared_statements",
    "name t, statement t, prepare_time m, parameter_types T, from_sql b, generic_plans l, \
     custom_plans l",
);

/// What is of connections, and of what they do.
const OF_THE_MOMENT: [(&str, &str); 6] =
    [ACTIVITY, CURSORS, DATABASES, ENCRYPTION, LOCKS, PREPARED];

/// The schema's name.
pub(crate) const PG_CATALOG: &str = "pg_catalog";

/// Whether there is a table of that name.
pub(crate) fn has(name: &str) -> bool {
    columns(name).is_some()
}

/// The columns of the table of that name, as `batch` reads them.
fn columns(name: &str) -> Option<&'static str> {
    let mut all = described::COLUMNS
        .iter()
        .chain(&fixed::COLUMNS)
        .chain(&privileges::COLUMNS)
        .chain(&sequences::COLUMNS)
        .chain(&shown::COLUMNS)
        .chain(&fixed::EMPTY)
        .chain(&zones::COLUMNS)
        .chain(&OF_THE_MOMENT)
        .chain(&counted::COLUMNS)
        .chain(&dumped::COLUMNS)
        .chain(&dumped::STAND_INS)
        .chain([&fixed::TYPE_FUNCTIONS]);
    let found = all.find(|(known, _)| *known == name);
    found.map(|(_, columns)| *columns)
}

/// The columns of the table of that name, if there is one.
pub(crate) fn columns_of(name: &str) -> Result<Option<SchemaRef>> {
    let Some(columns) = columns(name) else {
        return Ok(None);
    };
    batch(columns, Vec::new()).map(|rows| Some(rows.schema()))
}

/// Whether the table of that name never has a row.
pub(crate) fn is_empty(name: &str) -> bool {
    fixed::EMPTY.iter().any(|(known, _)| *known == name)
}

/// The names of all tables.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let all = described::COLUMNS
        .iter()
        .chain(&fixed::COLUMNS)
        .chain(&privileges::COLUMNS)
        .chain(&sequences::COLUMNS)
        .chain(&shown::COLUMNS)
        .chain(&fixed::EMPTY)
        .chain(&zones::COLUMNS)
        .chain(&OF_THE_MOMENT)
        .chain(&counted::COLUMNS)
        .chain(&dumped::COLUMNS);
    all.map(|(name, _)| *name)
}

/// The names of the tables that somebody may read.
pub(crate) fn readable_names(gate: &Gate) -> impl Iterator<Item = &'static str> {
    names().filter(|name| privileges::check(name, gate).is_ok())
}

/// What the tables tell of.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) visible: Visible,
    pub(crate) gate: Gate,
    pub(crate) settings: Settings,
    pub(crate) activities: Arc<Activities>,
    pub(crate) cursors: Arc<Cursors>,
    pub(crate) named: Arc<NamedStatements>,
    pub(crate) locks: Arc<SpanLocks>,
    /// What knows how far sequences have come.
    pub(crate) numbers: Option<Numbers>,
    /// When the statement began, in microseconds since 1970.
    pub(crate) now_micros: i64,
}

/// The rows of a table, if there is one of that name.
pub(crate) fn rows(name: &str, seen: &Seen) -> Result<Option<RecordBatch>> {
    let (visible, access) = (&seen.visible, &**seen.gate.access());
    if name == ACTIVITY.0 {
        return batch(ACTIVITY.1, seen.activities.rows(&seen.gate)).map(Some);
    }
    if name == ENCRYPTION.0 {
        return batch(ENCRYPTION.1, seen.activities.encryption(&seen.gate)).map(Some);
    }
    if name == DATABASES.0 {
        return batch(DATABASES.1, vec![seen.activities.of_database()]).map(Some);
    }
    if name == LOCKS.0 {
        let rows = seen.locks.all().rows(&seen.activities.pids());
        return batch(LOCKS.1, rows).map(Some);
    }
    if name == CURSORS.0 {
        return batch(CURSORS.1, seen.cursors.rows()).map(Some);
    }
    if name == PREPARED.0 {
        return batch(PREPARED.1, seen.named.rows()).map(Some);
    }
    if name == fixed::TYPE_FUNCTIONS.0 {
        return batch(fixed::TYPE_FUNCTIONS.1, fixed::type_functions()).map(Some);
    }
    privileges::check(name, &seen.gate)?;
    let found = |tables: &[(&'static str, &'static str)]| {
        let table = tables.iter().find(|(known, _)| *known == name);
        table.map(|(_, columns)| *columns)
    };
    if let Some(columns) = found(&described::COLUMNS) {
        let rows = described::rows(name, visible, access);
        return batch(columns, numbered(name, columns, rows)).map(Some);
    }
    if let Some(columns) = found(&sequences::COLUMNS) {
        let rows = sequences::rows(name, visible, &seen.gate, seen.numbers.as_ref());
        return batch(columns, rows).map(Some);
    }
    if let Some(columns) = found(&counted::COLUMNS) {
        return batch(columns, counted::rows(name, visible)).map(Some);
    }
    if let Some(columns) = found(&fixed::COLUMNS) {
        return batch(columns, numbered(name, columns, fixed::rows(name))).map(Some);
    }
    if let Some(columns) = found(&privileges::COLUMNS) {
        let rows = privileges::rows(name, access);
        return batch(columns, numbered(name, columns, rows)).map(Some);
    }
    if let Some(columns) = found(&dumped::COLUMNS).or_else(|| found(&dumped::STAND_INS)) {
        return batch(columns, dumped::rows(name, visible)).map(Some);
    }
    if let Some(columns) = found(&shown::COLUMNS) {
        return batch(columns, shown::rows(&seen.settings)).map(Some);
    }
    if let Some(columns) = found(&zones::COLUMNS) {
        return batch(columns, zones::rows(name, seen.now_micros)).map(Some);
    }
    match found(&fixed::EMPTY) {
        Some(columns) => batch(columns, Vec::new()).map(Some),
        None => Ok(None),
    }
}

/// The rows of a table, with its own number where its columns say it: pg_dump asks for it.
fn numbered(name: &str, columns: &str, mut rows: Vec<Row>) -> Vec<Row> {
    if columns.contains("tableoid o") {
        let number = system::number_of(name);
        for row in &mut rows {
            row.push(("tableoid", number.into()));
        }
    }
    rows
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Bool(bool),
    Int(i64),
    Float(f32),
    Text(String),
    /// Microseconds since 1970.
    Moment(i64),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Cell {
        Cell::Bool(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Cell {
        Cell::Int(value)
    }
}

/// The cells of a row that are not what their column mostly holds.
pub(crate) type Row = Vec<(&'static str, Cell)>;

/// Rows of columns that are written `name kind`, with a comma between them. Kinds are `b`ool,
/// `s`mallint, `i`nt, `l`ong, `o`id, `f`loat, `t`ext, `m`oment, inter`v`al of so many seconds,
/// `S`, `O` and `F` for lists of numbers, `V` and `W` for PostgreSQL's vectors of them, `T` for a
/// list of texts. A cell that a row leaves out is false, 0 or empty; behind a question mark it is
/// NULL.
pub(crate) fn batch(columns: &str, rows: Vec<Row>) -> Result<RecordBatch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for column in columns.split(", ").chain(xmin(columns)) {
        let (name, kind) = column.split_once(' ').unwrap_or((column, "t"));
        let (kind, nullable) = match kind.strip_suffix('?') {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let cells = rows.iter().map(|row| {
            let cell = row.iter().find(|(known, _)| *known == name);
            cell.map(|(_, cell)| cell)
        });
        let (data_type, array) = array(kind, nullable, cells);
        let field = Field::new(name, data_type, true);
        fields.push(match kind {
            "o" => field.with_metadata(types::mark("oid")),
            "V" => field.with_metadata(types::mark(types::VECTOR)),
            "W" => field.with_metadata(types::mark(types::OID_VECTOR)),
            _ => field,
        });
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| Error::internal(error.to_string()))
}

/// The number of the transaction that wrote a row, which PostgreSQL has of all tables that give
/// what they describe a number. Here none has one, and is never old.
fn xmin(columns: &str) -> Option<&'static str> {
    let mut begin = ["oid o", "attrelid o", "indexrelid o"].into_iter();
    begin
        .any(|begin| columns.starts_with(begin))
        .then_some("xmin o")
}

fn lists_of_oids() -> ListBuilder<Int64Builder> {
    let item = Field::new_list_field(DataType::Int64, true).with_metadata(types::mark("oid"));
    ListBuilder::new(Int64Builder::new()).with_field(item)
}

/// The cells of one column.
fn array<'c>(
    kind: &str,
    nullable: bool,
    cells: impl Iterator<Item = Option<&'c Cell>>,
) -> (DataType, ArrayRef) {
    let int = |cell: Option<&Cell>| match cell {
        Some(Cell::Int(value)) => Some(*value),
        _ => (!nullable).then_some(0),
    };
    let text = |cell: Option<&Cell>| match cell {
        Some(Cell::Text(text)) => Some(text.clone()),
        _ => (!nullable).then(String::new),
    };
    macro_rules! built {
        ($builder:expr, $cell:ident => $value:expr) => {{
            let mut builder = $builder;
            for $cell in cells {
                builder.append_option($value);
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    macro_rules! listed {
        ($builder:expr, $as:ty) => {{
            let mut builder = $builder;
            for cell in cells {
                match cell {
                    Some(Cell::Ints(values)) => {
                        builder.append_value(values.iter().map(|value| Some(*value as $as)));
                    }
                    _ => builder.append(!nullable),
                }
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    let made: ArrayRef = match kind {
        "b" => built!(BooleanBuilder::new(), cell => match cell {
            Some(Cell::Bool(value)) => Some(*value),
            _ => (!nullable).then_some(false),
        }),
        "s" => built!(Int16Builder::new(), cell => int(cell).map(|value| value as i16)),
        "i" => built!(Int32Builder::new(), cell => int(cell).map(|value| value as i32)),
        "l" | "o" => built!(Int64Builder::new(), cell => int(cell)),
        "v" => built!(IntervalMonthDayNanoBuilder::new(), cell => {
            int(cell).map(|seconds| IntervalMonthDayNano::new(0, 0, seconds * 1_000_000_000))
        }),
        "f" => built!(Float32Builder::new(), cell => match cell {
            Some(Cell::Float(value)) => Some(*value),
            _ => (!nullable).then_some(0.0),
        }),
        "m" => {
            let micros = cells.map(|cell| match cell {
                Some(Cell::Moment(micros)) => Some(*micros),
                _ => (!nullable).then_some(0),
            });
            let moments: TimestampMicrosecondArray = micros.collect();
            Arc::new(moments.with_timezone("UTC"))
        }
        "S" | "V" => listed!(ListBuilder::new(Int16Builder::new()), i16),
        "O" => listed!(ListBuilder::new(Int64Builder::new()), i64),
        "W" => listed!(lists_of_oids(), i64),
        "F" => listed!(ListBuilder::new(Float32Builder::new()), f32),
        "T" => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for cell in cells {
                match cell {
                    Some(Cell::Texts(texts)) => {
                        builder.append_value(texts.iter().map(Some));
                    }
                    _ => builder.append(!nullable),
                }
            }
            Arc::new(builder.finish())
        }
        _ => built!(StringBuilder::new(), cell => text(cell)),
    };
    (made.data_type().clone(), made)
}
