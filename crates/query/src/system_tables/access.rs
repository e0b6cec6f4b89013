//! Roles and grants as rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array};
use lazybase_engine::manifest::Manifest;
use lazybase_model::access::{Access, Grants, Privilege, RoleId};
use lazybase_model::label::show_authorizations;

use super::{Columns, moments, texts};
use crate::access::{Gate, name_of};

/// All roles, without what tests their passwords.
pub(super) fn roles(access: &Access) -> Columns {
    let roles = || access.roles.values();
    let truths = |of: fn(&lazybase_model::access::Role) -> bool| -> ArrayRef {
        Arc::new(roles().map(|role| Some(of(role))).collect::<BooleanArray>())
    };
    let listed = |names: Vec<String>| Some(names.join(", ")).filter(|names| !names.is_empty());
    vec![
        ("name", texts(roles().map(|role| Some(role.name.clone())))),
        ("superuser", truths(|role| role.superuser)),
        ("create_role", truths(|role| role.create_role)),
        ("login", truths(|role| role.login)),
        ("has_password", truths(|role| role.password.is_some())),
        ("inherit", truths(|role| role.inherit)),
        ("connection_limit", {
            let limits = roles().map(|role| role.connection_limit.map(i64::from));
            Arc::new(limits.collect::<Int64Array>())
        }),
        (
            "valid_until",
            moments(roles().map(|role| role.valid_until_micros)),
        ),
        (
            "member_of",
            texts(roles().map(|role| {
                let of = role.member_of.keys().map(|of| name_of(access, Some(*of)));
                listed(of.collect())
            })),
        ),
        (
            "authorizations",
            texts(roles().map(|role| {
                Some(show_authorizations(&role.authorizations)).filter(|shown| !shown.is_empty())
            })),
        ),
        (
            "settings",
            texts(roles().map(|role| {
                let settings = role.settings.iter();
                listed(
                    settings
                        .map(|(name, value)| format!("{name}={value}"))
                        .collect(),
                )
            })),
        ),
    ]
}

/// One privilege of one role on one thing.
struct Row {
    object: String,
    column: Option<String>,
    role: String,
    privilege: &'static str,
    /// Whether the role may grant it to others.
    passes: bool,
}

/// What a privilege is called.
type NameOf = fn(Privilege) -> &'static str;

/// The rows that tell what was granted on something, and what of it may be passed on.
fn granted(
    access: &Access,
    (object, column): (&str, Option<&str>),
    (grants, options): (&Grants, &Grants),
    name: NameOf,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (role, privileges) in grants {
        let passed = options.get(role);
        let role = match *role {
            RoleId::PUBLIC => "public".to_owned(),
            role => name_of(access, Some(role)),
        };
        rows.extend(privileges.iter().map(|privilege| Row {
            object: object.to_owned(),
            column: column.map(str::to_owned),
            role: role.clone(),
            privilege: name(*privilege),
            passes: passed.is_some_and(|passed| passed.contains(privilege)),
        }));
    }
    rows
}

/// What was granted on the database, and on the tables, views and sequences that the session may
/// see.
pub(super) fn grants(manifest: &Manifest, gate: &Gate) -> Columns {
    let access = gate.access();
    let none = Grants::new();
    let of_database = (&access.database, &none);
    let mut rows = granted(access, ("lazybase", None), of_database, Privilege::name);
    let states = manifest.tables.values().chain(manifest.views.values());
    let tables = states.map(|state| &state.table);
    let tables = tables.chain(manifest.plain_views.values());
    for table in tables.filter(|table| gate.sees(table)) {
        let Some(object) = access.objects.get(&table.id) else {
            continue;
        };
        let of_all = (&object.grants, &object.options);
        let whole = (table.name.as_str(), None);
        rows.extend(granted(access, whole, of_all, Privilege::name));
        for (id, grants) in &object.columns {
            let mut columns = table.columns.iter();
            let column = columns.find(|column| column.id == *id);
            let named = (
                table.name.as_str(),
                column.map(|column| column.name.as_str()),
            );
            rows.extend(granted(access, named, (grants, &none), Privilege::name));
        }
    }
    let sequences = manifest.sequences.values().map(|state| &state.sequence);
    for sequence in sequences.filter(|sequence| gate.sees_sequence(sequence)) {
        if let Some(object) = access.objects.get(&sequence.id.as_object()) {
            let of_all = (&object.grants, &object.options);
            let name = Privilege::name_on_sequence;
            let whole = (sequence.name.as_str(), None);
            rows.extend(granted(access, whole, of_all, name));
        }
    }
    vec![
        (
            "object",
            texts(rows.iter().map(|row| Some(row.object.clone()))),
        ),
        (
            "column_name",
            texts(rows.iter().map(|row| row.column.clone())),
        ),
        ("role", texts(rows.iter().map(|row| Some(row.role.clone())))),
        (
            "privilege",
            texts(rows.iter().map(|row| Some(row.privilege))),
        ),
        ("grant_option", {
            let passes = rows.iter().map(|row| Some(row.passes));
            Arc::new(passes.collect::<BooleanArray>())
        }),
    ]
}
