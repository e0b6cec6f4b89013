//! Who may take numbers of sequences, as the standard lists it: USAGE, which owners have too. Other
//! privileges on sequences are none of the standard's.

use lazybase_model::Sequence;
use lazybase_model::access::{Privilege, RoleId};

use super::EVERYBODY;
use crate::access::{Gate, name_of};
use crate::parse::{CATALOG, SCHEMA};
use crate::pg_catalog::Row;
use crate::visible::Visible;

/// The rows of one of the tables, as far as they concern the session.
pub(super) fn rows(name: &str, visible: &Visible, gate: &Gate) -> Vec<Row> {
    let with_everybody = name == "usage_privileges";
    let mut rows = Vec::new();
    for seen in visible.sequences() {
        let sequence = &seen.sequence;
        for (role, passes) in grantees(gate, sequence) {
            if with_everybody || role != Some(RoleId::PUBLIC) {
                rows.push(row(gate, sequence, role, passes));
            }
        }
    }
    rows
}

/// Who has USAGE of a sequence, and whether they may pass it on.
fn grantees(gate: &Gate, sequence: &Sequence) -> Vec<(Option<RoleId>, bool)> {
    let (access, rights) = (gate.access(), gate.rights());
    let mut all = vec![(access.owner_of(sequence.owned_with()), true)];
    if let Some(object) = access.objects.get(&sequence.id.as_object()) {
        for (role, privileges) in &object.grants {
            let passed = object.options.get(role);
            if privileges.contains(&Privilege::USAGE) {
                let passes = passed.is_some_and(|passed| passed.contains(&Privilege::USAGE));
                all.push((Some(*role), passes));
            }
        }
    }
    let owns = gate.owns_sequence(sequence);
    let is_mine = |role: &Option<RoleId>| role.is_some_and(|role| rights.roles.contains(&role));
    all.retain(|(role, _)| owns || is_mine(role));
    all
}

fn row(gate: &Gate, sequence: &Sequence, role: Option<RoleId>, passes: bool) -> Row {
    let access = gate.access();
    let grantee = match role {
        Some(RoleId::PUBLIC) => EVERYBODY.to_owned(),
        role => name_of(access, role),
    };
    vec![
        (
            "grantor",
            name_of(access, access.owner_of(sequence.owned_with())).into(),
        ),
        ("grantee", grantee.into()),
        ("object_catalog", CATALOG.into()),
        ("object_schema", SCHEMA.into()),
        ("object_name", sequence.name.clone().into()),
        ("object_type", "SEQUENCE".into()),
        ("privilege_type", "USAGE".into()),
        ("is_grantable", if passes { "YES" } else { "NO" }.into()),
    ]
}
