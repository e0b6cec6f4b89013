//! Changes of who may do what, in words; no I/O. Roles and tables have their ids: the manifest
//! tells what they are called.

use lazybase_model::access::{AccessChange, Object, Privileges, Role, RoleAttribute, RoleId};

/// What changes, in one line.
pub(super) fn change_text(change: &AccessChange) -> String {
    match change {
        AccessChange::CreateRole { role: made } => created(made),
        AccessChange::AlterRole { role, attribute } => {
            format!("{}: {}", a_role(*role), attribute_text(attribute))
        }
        AccessChange::DropRole { role } => format!("{} ends", a_role(*role)),
        AccessChange::Join {
            member,
            role,
            admin,
        } => {
            let how = if *admin { ", and may make others" } else { "" };
            format!("{} is a member of {}{how}", a_role(*member), a_role(*role))
        }
        AccessChange::Leave {
            member,
            role,
            only_admin,
        } => {
            let what = match only_admin {
                true => "may make no others members",
                false => "is no member",
            };
            format!("{} {what} of {}", a_role(*member), a_role(*role))
        }
        AccessChange::Grant { on, to, privileges } => {
            let (what, on) = (names(privileges), object(on));
            format!("{what} on {on} is granted to {}", a_role(*to))
        }
        AccessChange::Revoke {
            on,
            from,
            privileges,
        } => {
            let (what, on) = (names(privileges), object(on));
            format!("{what} on {on} is taken from {}", a_role(*from))
        }
        AccessChange::Own { table, owner } => format!("table {table} {}", owned(*owner)),
        AccessChange::Setting { name, value } => {
            format!("all sessions begin with {}", setting(name, value))
        }
        AccessChange::Option {
            table,
            role,
            privileges,
            gives,
        } => {
            let may = if *gives { "may" } else { "may no longer" };
            let what = names(privileges);
            format!("{} {may} pass on {what} on table {table}", a_role(*role))
        }
        AccessChange::Default {
            maker,
            to,
            privileges,
            gives,
        } => {
            let is = if *gives { "is" } else { "is no longer" };
            let (what, to, maker) = (names(privileges), a_role(*to), a_role(*maker));
            format!("{what} {is} granted to {to} on all tables that {maker} makes")
        }
        AccessChange::Producer { name, owner } => format!("producer {name:?} {}", owned(*owner)),
    }
}

fn a_role(role: RoleId) -> String {
    match role {
        RoleId::PUBLIC => "everybody".to_owned(),
        RoleId(id) => format!("role {id}"),
    }
}

fn owned(owner: Option<RoleId>) -> String {
    match owner {
        Some(owner) => format!("belongs to {}", a_role(owner)),
        None => "belongs to nobody".to_owned(),
    }
}

fn created(role: &Role) -> String {
    let mut text = format!("role {:?} ({}) begins", role.name, role.id.0);
    for (is, what) in [
        (role.superuser, ", a superuser"),
        (role.create_role, ", may make roles"),
        (role.login, ", may connect"),
    ] {
        if is {
            text += what;
        }
    }
    text
}

fn attribute_text(attribute: &RoleAttribute) -> String {
    let yes_or_no = |is: &bool, yes: &str, no: &str| match is {
        true => yes.to_owned(),
        false => no.to_owned(),
    };
    match attribute {
        RoleAttribute::Name(name) => format!("is called {name:?}"),
        RoleAttribute::Superuser(is) => yes_or_no(is, "is a superuser", "is no superuser"),
        RoleAttribute::CreateRole(may) => yes_or_no(may, "may make roles", "may make no roles"),
        RoleAttribute::Login(may) => yes_or_no(may, "may connect", "can't connect"),
        RoleAttribute::Inherit(does) => yes_or_no(
            does,
            "has what its roles have",
            "has what its roles have by SET ROLE alone",
        ),
        RoleAttribute::ConnectionLimit(Some(limit)) => format!("has {limit} connections at most"),
        RoleAttribute::ConnectionLimit(None) => "has no limit of connections".to_owned(),
        RoleAttribute::ValidUntil(Some(micros)) => {
            format!("its password holds until {}", super::moment(*micros))
        }
        RoleAttribute::ValidUntil(None) => "its password holds for ever".to_owned(),
        RoleAttribute::Password(Some(_)) => "has another password".to_owned(),
        RoleAttribute::Password(None) => "has no password".to_owned(),
        RoleAttribute::Authorizations(all) => {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            format!("may read labels of ({})", all.join(", "))
        }
        RoleAttribute::Setting { name, value } => {
            format!("its sessions begin with {}", setting(name, value))
        }
    }
}

fn setting(name: &Option<String>, value: &Option<String>) -> String {
    match (name, value) {
        (Some(name), Some(value)) => format!("{name} = {value:?}"),
        (Some(name), None) => format!("{name} as it is without"),
        (None, _) => "no settings of their own".to_owned(),
    }
}

fn object(on: &Object) -> String {
    match on {
        Object::Database => "the database".to_owned(),
        Object::Table(table) => format!("table {table}"),
        Object::Column(table, column) => format!("column {} of table {table}", column.0),
    }
}

fn names(privileges: &Privileges) -> String {
    let names: Vec<&str> = privileges.iter().map(|known| known.name()).collect();
    names.join(", ")
}
