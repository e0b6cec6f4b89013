//! What a role may do: plain functions from what was granted to yes or no.
//!
//! ```text
//!   role -> roles that it is a member of, and those of these   (NOINHERIT stops there)
//!        -> all grants to any of them, or to everybody
//! ```
//!
//! A superuser may do everything, and whoever owns the folder is one. An owner may do everything
//! with what is his. Being a superuser is not passed on by memberships: SET ROLE is needed.

use std::collections::BTreeSet;

use super::{Access, Grants, Object, Privilege, RoleId};
use crate::label::Authorizations;
use crate::sequence::Sequence;
use crate::{ColumnId, TableId};

/// Whose grants count for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// Whether nothing is forbidden.
    pub superuser: bool,
    /// Whether roles may be made and changed.
    pub create_role: bool,
    /// The roles whose grants count: everybody, the role, and what it is a member of.
    pub roles: BTreeSet<RoleId>,
    /// What labels may be read: those of all these roles; `None` is every label.
    pub authorizations: Option<Authorizations>,
}

impl Rights {
    /// The rights of whoever owns the database's folder.
    pub fn all() -> Rights {
        Rights {
            superuser: true,
            create_role: true,
            roles: [RoleId::PUBLIC].into(),
            authorizations: None,
        }
    }
}

impl Access {
    /// The rights of a role; `None` is whoever owns the folder. A role that is gone has none, not
    /// even those of everybody.
    pub fn rights_of(&self, role: Option<RoleId>) -> Rights {
        let Some(id) = role else {
            return Rights::all();
        };
        let Some(role) = self.roles.get(&id) else {
            return Rights {
                superuser: false,
                create_role: false,
                roles: BTreeSet::new(),
                authorizations: Some(Authorizations::new()),
            };
        };
        let mut roles: BTreeSet<RoleId> = [RoleId::PUBLIC, id].into();
        let mut next = vec![role];
        while let Some(role) = next.pop() {
            if !role.inherit {
                continue;
            }
            let found = role.member_of.keys().filter(|of| !roles.contains(*of));
            let found: Vec<RoleId> = found.copied().collect();
            next.extend(found.iter().filter_map(|of| self.roles.get(of)));
            roles.extend(found);
        }
        let own = roles.iter().filter_map(|role| self.roles.get(role));
        let authorizations = own.flat_map(|role| &role.authorizations).cloned();
        Rights {
            superuser: role.superuser,
            create_role: role.create_role || role.superuser,
            authorizations: (!role.superuser).then(|| authorizations.collect()),
            roles,
        }
    }

    /// What labels a role may read if it acts as any role that it is a member of; `None` is every
    /// label.
    pub fn reachable_authorizations(&self, role: RoleId) -> Option<Authorizations> {
        let mut all = self.memberships(role);
        all.insert(role);
        let roles = || all.iter().filter_map(|role| self.roles.get(role));
        match roles().any(|role| role.superuser) {
            true => None,
            false => Some(
                roles()
                    .flat_map(|role| &role.authorizations)
                    .cloned()
                    .collect(),
            ),
        }
    }

    /// All roles that a role is a member of, by one step or many, whether it inherits or not.
    pub fn memberships(&self, role: RoleId) -> BTreeSet<RoleId> {
        let mut all = BTreeSet::new();
        let mut next = vec![role];
        while let Some(role) = next.pop().and_then(|id| self.roles.get(&id)) {
            for of in role.member_of.keys() {
                if all.insert(*of) {
                    next.push(*of);
                }
            }
        }
        all
    }

    /// Whether somebody may do this with a thing. For a column, what was granted on all of its
    /// table counts too.
    pub fn may(&self, rights: &Rights, privilege: Privilege, object: Object) -> bool {
        if rights.superuser {
            return true;
        }
        match object {
            Object::Database => granted(rights, privilege, &self.database),
            Object::Table(table) => self.may_all(rights, privilege, table),
            Object::Column(table, column) => {
                let of_column = || {
                    let grants = self.objects.get(&table)?.columns.get(&column)?;
                    granted(rights, privilege, grants).then_some(())
                };
                self.may_all(rights, privilege, table) || of_column().is_some()
            }
        }
    }

    fn may_all(&self, rights: &Rights, privilege: Privilege, table: TableId) -> bool {
        let Some(object) = self.objects.get(&table) else {
            return false;
        };
        self.owns(rights, table) || granted(rights, privilege, &object.grants)
    }

    /// Whether somebody may do this with a table, or with some column of it.
    pub fn may_some(&self, rights: &Rights, privilege: Privilege, table: TableId) -> bool {
        self.may(rights, privilege, Object::Table(table))
            || self.objects.get(&table).is_some_and(|object| {
                let mut columns = object.columns.values();
                columns.any(|grants| granted(rights, privilege, grants))
            })
    }

    /// Whether somebody may do this with each of these columns. Where there are none, one that may
    /// be is enough: how many rows there are is told to whoever may see anything of them.
    pub fn may_columns(
        &self,
        rights: &Rights,
        privilege: Privilege,
        table: TableId,
        columns: &[ColumnId],
    ) -> bool {
        match columns {
            [] => self.may_some(rights, privilege, table),
            columns => columns
                .iter()
                .all(|column| self.may(rights, privilege, Object::Column(table, *column))),
        }
    }

    /// Whether a table or view is somebody's own.
    pub fn owns(&self, rights: &Rights, table: TableId) -> bool {
        let owner = self.owner_of(table);
        rights.superuser || owner.is_some_and(|owner| rights.roles.contains(&owner))
    }

    /// Whether somebody may do anything at all with a table or view.
    pub fn may_anything(&self, rights: &Rights, table: TableId) -> bool {
        let mut privileges = Privilege::OF_TABLES.into_iter();
        self.owns(rights, table)
            || privileges.any(|privilege| self.may_some(rights, privilege, table))
    }

    /// Whether somebody may pass a privilege on a table or view on to others.
    pub fn may_pass(&self, rights: &Rights, privilege: Privilege, table: TableId) -> bool {
        let options = || self.objects.get(&table).map(|object| &object.options);
        self.owns(rights, table)
            || options().is_some_and(|options| granted(rights, privilege, options))
    }

    /// Whether a sequence is somebody's own: one of a column is whose the table is.
    pub fn owns_sequence(&self, rights: &Rights, sequence: &Sequence) -> bool {
        self.owns(rights, sequence.owned_with())
    }

    /// Whether somebody may do this with a sequence.
    pub fn may_use(&self, rights: &Rights, privilege: Privilege, sequence: &Sequence) -> bool {
        let object = self.objects.get(&sequence.id.as_object());
        self.owns_sequence(rights, sequence)
            || object.is_some_and(|object| granted(rights, privilege, &object.grants))
    }

    /// Whether somebody may pass a privilege on a sequence on to others.
    pub fn may_pass_use(&self, rights: &Rights, privilege: Privilege, sequence: &Sequence) -> bool {
        let object = self.objects.get(&sequence.id.as_object());
        self.owns_sequence(rights, sequence)
            || object.is_some_and(|object| granted(rights, privilege, &object.options))
    }

    /// Whether somebody may open a named producer, which fences those who have it. One that
    /// belongs to nobody yet is for whoever comes first.
    pub fn may_open(&self, rights: &Rights, producer: &str) -> bool {
        let owner = self.producers.get(producer);
        rights.superuser || owner.is_none_or(|owner| rights.roles.contains(owner))
    }

    /// Whether a role may act as another one: with SET ROLE, or as an owner of what it gives.
    pub fn may_become(&self, role: Option<RoleId>, other: RoleId) -> bool {
        match role {
            None => true,
            Some(role) => {
                role == other
                    || self.rights_of(Some(role)).superuser
                    || self.memberships(role).contains(&other)
            }
        }
    }

    /// Whether somebody may make roles members of a role.
    pub fn may_admit(&self, rights: &Rights, role: RoleId) -> bool {
        let is_superuser = self.roles.get(&role).is_some_and(|role| role.superuser);
        let admin = || {
            let own = rights.roles.iter().filter_map(|own| self.roles.get(own));
            own.into_iter()
                .any(|own| own.member_of.get(&role) == Some(&true))
        };
        rights.superuser || (rights.create_role && !is_superuser) || admin()
    }
}

fn granted(rights: &Rights, privilege: Privilege, grants: &Grants) -> bool {
    let mut roles = rights.roles.iter();
    roles.any(|role| {
        let privileges = grants.get(role);
        privileges.is_some_and(|privileges| privileges.contains(&privilege))
    })
}
