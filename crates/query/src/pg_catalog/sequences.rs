//! Sequences as `pg_catalog` and `information_schema` list them, and what is said of columns that
//! take their numbers.

use arrow::datatypes::DataType;
use lazybase_model::access::Access;
use lazybase_model::{Column, ColumnDefault, IdentityKind, SequenceId, Table};

use super::described::{PG_CLASS, of_default, oid_of};
use super::fixed::PUBLIC;
use super::privileges::{role_oid, sequence_acl};
use super::types::{format_type, of_column};
use super::{Cell, Row, system};
use crate::access::{Gate, name_of};
use crate::definition::identifier;
use crate::parse::{CATALOG, SCHEMA};
use crate::sequences::Numbers;
use crate::sequences::called::next_call;
use crate::temporary::PG_TEMP;
use crate::visible::{SeenSequence, Visible};

pub(super) const COLUMNS: [(&str, &str); 2] = [
    (
        "pg_sequence",
        "seqrelid o, seqtypid o, seqstart l, seqincrement l, seqmax l, seqmin l, seqcache l, \
         seqcycle b",
    ),
    (
        "pg_sequences",
        "schemaname t, sequencename t, sequenceowner t, data_type t, start_value l, \
         min_value l, max_value l, increment_by l, cycle b, cache_size l, last_value l?",
    ),
];

/// The number of a sequence: those of tables and sequences follow from ids that they share.
pub(crate) fn oid_of_sequence(id: SequenceId) -> i64 {
    super::described::TABLES + i64::from(id.0)
}

/// The number of the type of its numbers.
fn type_of(seen: &SeenSequence) -> u32 {
    of_column(&Column::new("", seen.sequence.data_type.clone())).0
}

/// The default of a column as catalogues say it; nothing where there is none. That of an identity
/// column is no default there.
pub(crate) fn default_of(visible: &Visible, column: &Column) -> Option<String> {
    match &column.default {
        ColumnDefault::Null => None,
        ColumnDefault::Expression(text) => Some(text.clone()),
        ColumnDefault::Next(_) if column.identity.is_some() => None,
        ColumnDefault::Next(id) => {
            let seen = visible.sequence(*id)?;
            Some(next_call(&seen.sequence.name))
        }
    }
}

/// How an identity column is generated, in the words of SQL.
pub(crate) fn generation(kind: IdentityKind) -> &'static str {
    match kind {
        IdentityKind::Always => "ALWAYS",
        IdentityKind::ByDefault => "BY DEFAULT",
    }
}

/// The letter that `pg_attribute` has for an identity column.
pub(super) fn letter(kind: Option<IdentityKind>) -> &'static str {
    match kind {
        None => "",
        Some(IdentityKind::Always) => "a",
        Some(IdentityKind::ByDefault) => "d",
    }
}

/// The sequences in `pg_class`.
pub(super) fn classes(visible: &Visible, access: &Access) -> Vec<Row> {
    let class = |seen: SeenSequence| -> Row {
        let oid = oid_of_sequence(seen.sequence.id);
        let persistence = if seen.is_temporary { "t" } else { "p" };
        let owner = access.owner_of(seen.sequence.owned_with());
        let acl = sequence_acl(access, &seen.sequence);
        let mut row: Row = vec![
            ("oid", oid.into()),
            ("relname", seen.sequence.name.into()),
            ("relnamespace", PUBLIC.into()),
            ("relowner", role_oid(owner).into()),
            ("relfilenode", oid.into()),
            ("relpages", 1.into()),
            ("reltuples", Cell::Float(1.0)),
            ("relpersistence", persistence.into()),
            ("relkind", "S".into()),
            ("relnatts", 3.into()),
            ("relispopulated", true.into()),
            ("relreplident", "n".into()),
        ];
        row.extend(acl.map(|acl| ("relacl", acl)));
        row
    };
    visible.sequences().into_iter().map(class).collect()
}

/// The rows of one of these tables. How far a sequence has come is told to whoever may ask it.
pub(super) fn rows(
    name: &str,
    visible: &Visible,
    gate: &Gate,
    numbers: Option<&Numbers>,
) -> Vec<Row> {
    let row = |seen: SeenSequence| match name {
        "pg_sequence" => of_pg_sequence(&seen),
        _ => of_pg_sequences(&seen, gate, numbers),
    };
    visible.sequences().into_iter().map(row).collect()
}

fn of_pg_sequence(seen: &SeenSequence) -> Row {
    let sequence = &seen.sequence;
    vec![
        ("seqrelid", oid_of_sequence(sequence.id).into()),
        ("seqtypid", i64::from(type_of(seen)).into()),
        ("seqstart", sequence.start.into()),
        ("seqincrement", sequence.increment.into()),
        ("seqmax", sequence.max.into()),
        ("seqmin", sequence.min.into()),
        ("seqcache", 1.into()),
        ("seqcycle", sequence.cycle.into()),
    ]
}

fn of_pg_sequences(seen: &SeenSequence, gate: &Gate, numbers: Option<&Numbers>) -> Row {
    let (sequence, access) = (&seen.sequence, gate.access());
    let owner = access.owner_of(sequence.owned_with());
    let mut row: Row = vec![
        ("schemaname", SCHEMA.into()),
        ("sequencename", sequence.name.clone().into()),
        ("sequenceowner", name_of(access, owner).into()),
        ("data_type", format_type(type_of(seen), None).into()),
        ("start_value", sequence.start.into()),
        ("min_value", sequence.min.into()),
        ("max_value", sequence.max.into()),
        ("increment_by", sequence.increment.into()),
        ("cycle", sequence.cycle.into()),
        ("cache_size", 1.into()),
    ];
    let counter = numbers.map_or(seen.counter, |numbers| numbers.counter(seen));
    if counter.called && gate.tell_number(sequence).is_ok() {
        row.push(("last_value", counter.last.into()));
    }
    row
}

/// The rows of `information_schema.sequences`: those of identity columns are not among them.
pub(crate) fn of_standard(visible: &Visible, gate: &Gate) -> Vec<Row> {
    let row = |seen: SeenSequence| -> Option<Row> {
        let is_shown = gate.sees_sequence(&seen.sequence) && !is_of_identity(visible, &seen);
        let sequence = seen.sequence.clone();
        let bits: i64 = match sequence.data_type {
            DataType::Int16 => 16,
            DataType::Int32 => 32,
            _ => 64,
        };
        is_shown.then(|| {
            vec![
                ("sequence_catalog", CATALOG.into()),
                ("sequence_schema", SCHEMA.into()),
                ("sequence_name", sequence.name.into()),
                ("data_type", format_type(type_of(&seen), None).into()),
                ("numeric_precision", bits.into()),
                ("numeric_precision_radix", 2.into()),
                ("numeric_scale", 0.into()),
                ("start_value", sequence.start.to_string().into()),
                ("minimum_value", sequence.min.to_string().into()),
                ("maximum_value", sequence.max.to_string().into()),
                ("increment", sequence.increment.to_string().into()),
                ("cycle_option", yes_no(sequence.cycle).into()),
            ]
        })
    };
    visible.sequences().into_iter().filter_map(row).collect()
}

fn yes_no(yes: bool) -> &'static str {
    if yes { "YES" } else { "NO" }
}

/// The column that a sequence is of.
fn column_of(visible: &Visible, seen: &SeenSequence) -> Option<(Table, usize)> {
    let owner = seen.sequence.owner?;
    let table = visible.by_id(owner.table)?;
    let mut columns = table.columns.iter();
    let at = columns.position(|column| column.id == owner.column)?;
    Some((table.as_ref().clone(), at))
}

fn is_of_identity(visible: &Visible, seen: &SeenSequence) -> bool {
    let column = column_of(visible, seen);
    column.is_some_and(|(table, at)| table.columns[at].identity.is_some())
}

/// What `information_schema.columns` says of an identity column.
pub(crate) fn identity(column: &Column) -> Row {
    let Some(kind) = column.identity else {
        return Vec::new();
    };
    vec![
        ("is_identity", "YES".into()),
        ("identity_generation", generation(kind).into()),
    ]
}

/// The sequence that is of a column, with its schema.
pub(super) fn serial_sequence(visible: &Visible, table: &Table, column: &str) -> Option<String> {
    let at = table.column_index(column)?;
    let mut owned = visible.sequences_of(table).into_iter();
    let seen = owned.find(|seen| {
        let owner = seen.sequence.owner;
        owner.is_some_and(|owner| owner.column == table.columns[at].id)
    })?;
    let schema = if seen.is_temporary { PG_TEMP } else { SCHEMA };
    Some(format!("{schema}.{}", identifier(&seen.sequence.name)))
}

/// What an identity column's sequence is like, as SQLAlchemy asks for it: JSON.
pub(super) fn identity_options(visible: &Visible, table: &Table, column: &str) -> Option<String> {
    let column = &table.columns[table.column_index(column)?];
    let kind = column.identity?;
    let sequence = visible.sequence(column.default.sequence()?)?.sequence;
    Some(format!(
        "{{\"always\": {}, \"start\": {}, \"increment\": {}, \"minvalue\": {}, \"maxvalue\": {}, \
         \"cache\": 1, \"cycle\": {}}}",
        kind == IdentityKind::Always,
        sequence.start,
        sequence.increment,
        sequence.min,
        sequence.max,
        sequence.cycle
    ))
}

/// What sequences depend on, and what depends on them: each sequence of a column ends with it, and
/// a default that takes numbers needs its sequence.
pub(super) fn dependencies(visible: &Visible) -> Vec<Row> {
    let row = |one: (i64, i64), on: (i64, i64, i64), kind: &'static str| -> Row {
        vec![
            ("classid", one.0.into()),
            ("objid", one.1.into()),
            ("refclassid", on.0.into()),
            ("refobjid", on.1.into()),
            ("refobjsubid", on.2.into()),
            ("deptype", kind.into()),
        ]
    };
    let mut rows = Vec::new();
    for seen in visible.sequences() {
        if let Some((table, at)) = column_of(visible, &seen) {
            let kind = match table.columns[at].identity {
                Some(_) => "i",
                None => "a",
            };
            let one = (PG_CLASS, oid_of_sequence(seen.sequence.id));
            rows.push(row(one, (PG_CLASS, oid_of(&table), at as i64 + 1), kind));
        }
    }
    for table in visible.tables() {
        for (at, column) in table.columns.iter().enumerate() {
            let taken = column
                .default
                .sequence()
                .filter(|_| column.identity.is_none());
            if let Some(id) = taken {
                let one = (system::number_of("pg_attrdef"), of_default(&table, at));
                rows.push(row(one, (PG_CLASS, oid_of_sequence(id), 0), "n"));
            }
        }
    }
    rows
}
