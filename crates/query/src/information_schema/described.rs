//! Columns, keys and roles as `information_schema` describes them: with PostgreSQL's type names.

use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use lazybase_model::access::Role;
use lazybase_model::{Column, Table};

use crate::access::{Gate, name_of};
use crate::parse::{CATALOG, SCHEMA};
use crate::pg_catalog::sequences::{default_of, identity};
use crate::pg_catalog::types::{PgType, known_type, of_column, pg_element_of, pg_type_of};
use crate::pg_catalog::{Cell, PG_CATALOG, Row, key_name};
use crate::visible::{self, Visible};

/// What is told of memberships of roles.
const MEMBERSHIPS: &str = "grantee t, role_name t, is_grantable t";

/// What is told of who may use something that is no table.
const USAGE: &str = "grantor t, grantee t, object_catalog t, object_schema t, object_name t, \
                     object_type t, privilege_type t, is_grantable t";

/// The tables that are made here, with their columns as `pg_catalog::batch` reads them.
pub(super) const COLUMNS: [(&str, &str); 21] = [
    (
        "columns",
        "table_catalog t, table_schema t, table_name t, column_name t, ordinal_position i, \
         column_default t?, is_nullable t, data_type t, character_maximum_length i?, \
         character_octet_length i?, numeric_precision i?, numeric_precision_radix i?, \
         numeric_scale i?, datetime_precision i?, interval_type t?, interval_precision i?, \
         character_set_name t?, collation_name t?, domain_name t?, udt_catalog t, udt_schema t, \
         udt_name t, dtd_identifier t, is_self_referencing t, is_identity t, \
         identity_generation t?, is_generated t, generation_expression t?, is_updatable t",
    ),
    (
        "table_constraints",
        "constraint_catalog t, constraint_schema t, constraint_name t, table_catalog t, \
         table_schema t, table_name t, constraint_type t, is_deferrable t, \
         initially_deferred t, enforced t, nulls_distinct t?",
    ),
    (
        "key_column_usage",
        "constraint_catalog t, constraint_schema t, constraint_name t, table_catalog t, \
         table_schema t, table_name t, column_name t, ordinal_position i, \
         position_in_unique_constraint i?",
    ),
    (
        "constraint_column_usage",
        "table_catalog t, table_schema t, table_name t, column_name t, constraint_catalog t, \
         constraint_schema t, constraint_name t",
    ),
    (
        "referential_constraints",
        "constraint_catalog t, constraint_schema t, constraint_name t, \
         unique_constraint_catalog t, unique_constraint_schema t, unique_constraint_name t, \
         match_option t, update_rule t, delete_rule t",
    ),
    (
        "check_constraints",
        "constraint_catalog t, constraint_schema t, constraint_name t, check_clause t",
    ),
    (
        "sequences",
        "sequence_catalog t, sequence_schema t, sequence_name t, data_type t, \
         numeric_precision i, numeric_precision_radix i, numeric_scale i, start_value t, \
         minimum_value t, maximum_value t, increment t, cycle_option t",
    ),
    (
        "constraint_table_usage",
        "table_catalog t, table_schema t, table_name t, constraint_catalog t, \
         constraint_schema t, constraint_name t",
    ),
    ("information_schema_catalog_name", "catalog_name t"),
    ("enabled_roles", "role_name t"),
    ("applicable_roles", MEMBERSHIPS),
    ("administrable_role_authorizations", MEMBERSHIPS),
    ("usage_privileges", USAGE),
    ("role_usage_grants", USAGE),
    // What LazyBase does not have: these have no rows.
    (
        "domains",
        "domain_catalog t, domain_schema t, domain_name t, data_type t, \
         character_maximum_length i?, numeric_precision i?, numeric_scale i?, \
         datetime_precision i?, domain_default t?, udt_catalog t, udt_schema t, udt_name t, \
         dtd_identifier t",
    ),
    (
        "domain_constraints",
        "constraint_catalog t, constraint_schema t, constraint_name t, domain_catalog t, \
         domain_schema t, domain_name t, is_deferrable t, initially_deferred t",
    ),
    (
        "foreign_tables",
        "foreign_table_catalog t, foreign_table_schema t, foreign_table_name t, \
         foreign_server_catalog t, foreign_server_name t",
    ),
    (
        "triggers",
        "trigger_catalog t, trigger_schema t, trigger_name t, event_manipulation t, \
         event_object_catalog t, event_object_schema t, event_object_table t, action_order i, \
         action_condition t?, action_statement t, action_orientation t, action_timing t",
    ),
    (
        "user_defined_types",
        "user_defined_type_catalog t, user_defined_type_schema t, user_defined_type_name t, \
         user_defined_type_category t, is_instantiable t, is_final t",
    ),
    (
        "view_table_usage",
        "view_catalog t, view_schema t, view_name t, table_catalog t, table_schema t, \
         table_name t",
    ),
    // Materialized views are none of the standard's.
    (
        "views",
        "table_catalog t, table_schema t, table_name t, view_definition t?, check_option t, \
         is_updatable t, is_insertable_into t, is_trigger_updatable t, is_trigger_deletable t, \
         is_trigger_insertable_into t",
    ),
];

/// The columns of a stored table or view.
pub(super) fn columns_of_table(visible: &Visible, table: &Table) -> Vec<Row> {
    let columns = table.columns[..table.visible_columns()].iter();
    let described = columns.enumerate().map(|(at, column)| {
        let (oid, _) = of_column(column);
        let is_of_table = table.view_of.is_none() && table.query.is_none();
        let mut row = match is_of_table {
            true => identity(column),
            false => Vec::new(),
        };
        row.extend(column_row(SCHEMA, &table.name, at, &column.name, oid));
        row.push(("is_nullable", yes_no(column.nullable)));
        let default = default_of(visible, column);
        row.extend(default.map(|text| ("column_default", Cell::from(text))));
        row.extend(measures(column));
        // A view is not written to.
        row.push(("is_updatable", yes_no(is_of_table)));
        row
    });
    described.collect()
}

/// The columns of a table that the system makes.
pub(super) fn columns_of_schema(schema: &str, name: &str, columns: &SchemaRef) -> Vec<Row> {
    let fields = columns.fields().iter().enumerate();
    let described = fields.map(|(at, field): (usize, &std::sync::Arc<Field>)| {
        let oid = pg_type_of(field);
        let mut row = column_row(schema, name, at, field.name(), oid);
        row.push(("is_nullable", yes_no(field.is_nullable())));
        row.extend(measures(&Column::new(
            field.name(),
            field.data_type().clone(),
        )));
        row.push(("is_updatable", yes_no(false)));
        row
    });
    described.collect()
}

fn yes_no(yes: bool) -> Cell {
    Cell::from(if yes { "YES" } else { "NO" })
}

/// What every column says.
fn column_row(schema: &str, table: &str, at: usize, name: &str, oid: u32) -> Row {
    let position = at as i64 + 1;
    let known =
        |oid| known_type(oid).map_or(("text", "text"), |known: &PgType| (known.sql, known.name));
    let (data_type, udt) = match pg_element_of(oid) {
        Some(element) => ("ARRAY", format!("_{}", known(element).1)),
        None => (known(oid).0, known(oid).1.to_owned()),
    };
    vec![
        ("table_catalog", CATALOG.into()),
        ("table_schema", schema.into()),
        ("table_name", table.into()),
        ("column_name", name.into()),
        ("ordinal_position", Cell::from(position)),
        ("data_type", data_type.into()),
        ("udt_catalog", CATALOG.into()),
        ("udt_schema", PG_CATALOG.into()),
        ("udt_name", udt.into()),
        ("dtd_identifier", position.to_string().into()),
        ("is_self_referencing", yes_no(false)),
        ("is_identity", yes_no(false)),
        ("is_generated", "NEVER".into()),
    ]
}

/// How long, or how exact, a column's values are.
fn measures(column: &Column) -> Row {
    let numeric = |precision: i64, radix: i64, scale: Option<i64>| {
        let mut row: Row = vec![
            ("numeric_precision", precision.into()),
            ("numeric_precision_radix", radix.into()),
        ];
        row.extend(scale.map(|scale| ("numeric_scale", Cell::from(scale))));
        row
    };
    match &column.data_type {
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => numeric(16, 2, Some(0)),
        DataType::Int32 | DataType::UInt16 => numeric(32, 2, Some(0)),
        DataType::Int64 | DataType::UInt32 => numeric(64, 2, Some(0)),
        DataType::UInt64 => numeric(20, 10, Some(0)),
        DataType::Float16 | DataType::Float32 => numeric(24, 2, None),
        DataType::Float64 => numeric(53, 2, None),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            numeric(i64::from(*precision), 10, Some(i64::from(*scale)))
        }
        DataType::Date32 | DataType::Date64 => vec![("datetime_precision", 0.into())],
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Timestamp(unit, _) => {
            vec![("datetime_precision", digits_of(*unit).into())]
        }
        DataType::Interval(_) => vec![("datetime_precision", 9.into())],
        DataType::Utf8 => {
            let characters = column.characters_max.into_iter();
            characters
                .map(|most| ("character_maximum_length", i64::from(most).into()))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The digits behind the point of a second.
fn digits_of(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// What a table says of roles: of those whose rights the session has, and what they are members of.
/// Nothing where it is about something else.
pub(super) fn of_roles(name: &str, gate: &Gate) -> Option<Vec<Row>> {
    let (access, rights) = (gate.access(), gate.rights());
    let is_enabled = |role: &&Role| rights.superuser || rights.roles.contains(&role.id);
    let enabled = access.roles.values().filter(is_enabled);
    let only_admin = match name {
        "enabled_roles" => {
            // Whoever owns the folder is a role too.
            let owner = rights.superuser.then(|| CATALOG.to_owned());
            let names = enabled.map(|role| role.name.clone());
            let rows = owner.into_iter().chain(names);
            let rows = rows.map(|name| -> Row { vec![("role_name", name.into())] });
            return Some(rows.collect());
        }
        "applicable_roles" => false,
        "administrable_role_authorizations" => true,
        _ => return None,
    };
    let memberships = enabled.flat_map(|role| {
        let of = role.member_of.iter();
        of.map(move |(of, admin)| (role, *of, *admin))
    });
    let told = memberships.filter(|(.., admin)| *admin || !only_admin);
    let rows = told.map(|(role, of, admin)| -> Row {
        vec![
            ("grantee", role.name.clone().into()),
            ("role_name", name_of(access, Some(of)).into()),
            ("is_grantable", yes_no(admin)),
        ]
    });
    Some(rows.collect())
}

/// What is said of a plain view, its query to its owner alone, and of what it reads.
pub(super) fn of_plain_view(
    name: &str,
    view: &Table,
    visible: &Visible,
    owns: &dyn Fn(&Table) -> bool,
) -> Vec<Row> {
    if name == "view_table_usage" {
        let read = visible::uses(view).filter_map(|used| visible.relation_of(used.table));
        let rows = read.filter(|table| owns(table)).map(|table| -> Row {
            vec![
                ("view_catalog", CATALOG.into()),
                ("view_schema", SCHEMA.into()),
                ("view_name", view.name.clone().into()),
                ("table_catalog", CATALOG.into()),
                ("table_schema", SCHEMA.into()),
                ("table_name", table.name.clone().into()),
            ]
        });
        return rows.collect();
    }
    let mut row: Row = vec![
        ("table_catalog", CATALOG.into()),
        ("table_schema", SCHEMA.into()),
        ("table_name", view.name.clone().into()),
        ("check_option", "NONE".into()),
    ];
    row.extend(
        [
            "is_updatable",
            "is_insertable_into",
            "is_trigger_updatable",
            "is_trigger_deletable",
            "is_trigger_insertable_into",
        ]
        .map(|name| (name, yes_no(false))),
    );
    if owns(view) {
        let query = crate::views::definition(visible, view);
        row.push(("view_definition", query.into()));
    }
    vec![row]
}

/// What one of the other tables says of a stored table: its primary key.
pub(super) fn of_key(name: &str, table: &Table) -> Vec<Row> {
    if table.hidden_key {
        return Vec::new();
    }
    let constraint = || -> Row {
        vec![
            ("constraint_catalog", CATALOG.into()),
            ("constraint_schema", SCHEMA.into()),
            ("constraint_name", key_name(table).into()),
            ("table_catalog", CATALOG.into()),
            ("table_schema", SCHEMA.into()),
            ("table_name", table.name.clone().into()),
        ]
    };
    match name {
        "constraint_table_usage" => vec![constraint()],
        "table_constraints" => {
            let mut row = constraint();
            row.push(("constraint_type", "PRIMARY KEY".into()));
            row.push(("is_deferrable", yes_no(false)));
            row.push(("initially_deferred", yes_no(false)));
            row.push(("enforced", yes_no(true)));
            vec![row]
        }
        "key_column_usage" | "constraint_column_usage" => {
            let columns = table.key_indices().into_iter().zip(1_i64..);
            let described = columns.map(|(at, position)| {
                let mut row = constraint();
                row.push(("column_name", table.columns[at].name.clone().into()));
                row.push(("ordinal_position", position.into()));
                row
            });
            described.collect()
        }
        _ => Vec::new(),
    }
}
