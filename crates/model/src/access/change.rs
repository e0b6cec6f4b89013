//! Changes of who may do what: each is one variant, and what can't be done changes nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Access, Grants, Object, ObjectAccess, Privilege, Privileges, Role, RoleId, Verifier};
use crate::label::Authorizations;
use crate::{ColumnId, Error, Result, TableId};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessChange {
    /// A role begins, under the next id.
    CreateRole {
        /// All of it.
        role: Role,
    },
    /// A role has another attribute.
    AlterRole {
        /// Which.
        role: RoleId,
        /// What it has.
        attribute: RoleAttribute,
    },
    /// A role ends, with what was granted to it. It owns nothing.
    DropRole {
        /// Which.
        role: RoleId,
    },
    /// A role is a member of another.
    Join {
        /// The member.
        member: RoleId,
        /// What it is a member of.
        role: RoleId,
        /// Whether it may make others members.
        #[serde(default)]
        admin: bool,
    },
    /// A role is no member of another, or may no longer make others members.
    Leave {
        /// The member.
        member: RoleId,
        /// What it was a member of.
        role: RoleId,
        /// Whether it stays a member.
        #[serde(default)]
        only_admin: bool,
    },
    /// Privileges are given.
    Grant {
        /// On what.
        on: Object,
        /// To whom.
        to: RoleId,
        /// Which.
        privileges: Privileges,
    },
    /// Privileges are taken. What is taken on a table is taken on its columns too.
    Revoke {
        /// On what.
        on: Object,
        /// From whom.
        from: RoleId,
        /// Which.
        privileges: Privileges,
    },
    /// A table or view has another owner.
    Own {
        /// Which.
        table: TableId,
        /// Whose it is; none is whoever owns the folder.
        owner: Option<RoleId>,
    },
    /// A setting that all sessions begin with; without a value, the server's.
    Setting {
        /// Its name; all, where there is none.
        name: Option<String>,
        /// Its value.
        value: Option<String>,
    },
    /// What a role has on a table or view may be passed on by it, or no longer.
    Option {
        /// On what.
        table: TableId,
        /// By whom.
        role: RoleId,
        /// Which; what the role does not have is left out.
        privileges: Privileges,
        /// Whether it may.
        gives: bool,
    },
    /// What is granted on each table or view that a role makes from now on, or no longer.
    Default {
        /// Who makes them.
        maker: RoleId,
        /// To whom it is granted.
        to: RoleId,
        /// Which.
        privileges: Privileges,
        /// Whether it is.
        gives: bool,
    },
    /// A named producer belongs to a role, or to nobody.
    Producer {
        /// Its name.
        name: String,
        /// Whose it is.
        owner: Option<RoleId>,
    },
}

/// What a role has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleAttribute {
    /// Another name.
    Name(String),
    /// See [`Role::superuser`].
    Superuser(bool),
    /// See [`Role::create_role`].
    CreateRole(bool),
    /// See [`Role::login`].
    Login(bool),
    /// See [`Role::inherit`].
    Inherit(bool),
    /// See [`Role::connection_limit`].
    ConnectionLimit(Option<u32>),
    /// See [`Role::valid_until_micros`].
    ValidUntil(Option<i64>),
    /// See [`Role::password`].
    Password(Option<Verifier>),
    /// See [`Role::authorizations`]: these, and no others.
    Authorizations(Authorizations),
    /// A setting that its sessions begin with; without a value, what holds for all. All of them,
    /// where there is no name.
    Setting {
        /// Its name.
        name: Option<String>,
        /// Its value.
        value: Option<String>,
    },
}

impl RoleAttribute {
    /// Gives it to a role.
    pub fn give(&self, role: &mut Role) {
        match self {
            RoleAttribute::Name(name) => role.name.clone_from(name),
            RoleAttribute::Superuser(is) => role.superuser = *is,
            RoleAttribute::CreateRole(may) => role.create_role = *may,
            RoleAttribute::Login(may) => role.login = *may,
            RoleAttribute::Inherit(does) => role.inherit = *does,
            RoleAttribute::ConnectionLimit(limit) => role.connection_limit = *limit,
            RoleAttribute::ValidUntil(moment) => role.valid_until_micros = *moment,
            RoleAttribute::Password(password) => role.password.clone_from(password),
            RoleAttribute::Authorizations(all) => role.authorizations.clone_from(all),
            RoleAttribute::Setting { name, value } => set(&mut role.settings, name, value),
        }
    }
}

fn set(settings: &mut BTreeMap<String, String>, name: &Option<String>, value: &Option<String>) {
    match (name, value) {
        (None, _) => settings.clear(),
        (Some(name), Some(value)) => {
            settings.insert(name.clone(), value.clone());
        }
        (Some(name), None) => {
            settings.remove(name);
        }
    }
}

impl Access {
    /// Makes a change. What tables there are is for the caller to know.
    ///
    /// # Errors
    /// `Conflict` for a name or an id that is taken (42710, 40001), a role that owns something
    /// (2BP01), and a circle of memberships (0LP01); `NotFound` (42704) for a role that is gone.
    /// Then nothing has changed.
    pub fn change(&mut self, change: &AccessChange) -> Result<()> {
        match change {
            AccessChange::CreateRole { role } => self.create(role),
            AccessChange::AlterRole { role, attribute } => self.alter(*role, attribute),
            AccessChange::DropRole { role } => self.drop_role(*role),
            AccessChange::Join {
                member,
                role,
                admin,
            } => self.join(*member, *role, *admin),
            AccessChange::Leave {
                member,
                role,
                only_admin,
            } => {
                let of = &mut self.require(*member)?.member_of;
                match (only_admin, of.get_mut(role)) {
                    (true, Some(admin)) => *admin = false,
                    (true, None) => {}
                    (false, _) => drop(of.remove(role)),
                }
                Ok(())
            }
            AccessChange::Grant { on, to, privileges } => {
                self.check_grantee(*to)?;
                check_fits(*on, privileges)?;
                let grants = self.grants_mut(*on);
                grants.entry(*to).or_default().extend(privileges);
                grants.retain(|_, privileges| !privileges.is_empty());
                Ok(())
            }
            AccessChange::Revoke {
                on,
                from,
                privileges,
            } => {
                self.check_grantee(*from)?;
                self.revoke(*on, *from, privileges);
                Ok(())
            }
            AccessChange::Own { table, owner } => {
                if let Some(owner) = owner {
                    self.require(*owner)?;
                }
                self.objects.entry(*table).or_default().owner = *owner;
                self.tidy();
                Ok(())
            }
            AccessChange::Setting { name, value } => {
                set(&mut self.settings, name, value);
                Ok(())
            }
            AccessChange::Option {
                table,
                role,
                privileges,
                gives,
            } => self.option(*table, *role, privileges, *gives),
            AccessChange::Default {
                maker,
                to,
                privileges,
                gives,
            } => self.default(*maker, *to, privileges, *gives),
            AccessChange::Producer { name, owner } => self.own_producer(name, *owner),
        }
    }

    fn option(
        &mut self,
        table: TableId,
        role: RoleId,
        privileges: &Privileges,
        gives: bool,
    ) -> Result<()> {
        if role == RoleId::PUBLIC {
            return Err(
                Error::invalid("grant options are given to roles, not to everybody")
                    .with_sqlstate("0LP01"),
            );
        }
        self.require(role)?;
        let object = self.objects.entry(table).or_default();
        match gives {
            true => object.options.entry(role).or_default().extend(privileges),
            false => take(&mut object.options, role, privileges),
        }
        self.tidy();
        Ok(())
    }

    fn default(
        &mut self,
        maker: RoleId,
        to: RoleId,
        privileges: &Privileges,
        gives: bool,
    ) -> Result<()> {
        self.require(maker)?;
        self.check_grantee(to)?;
        check_fits(Object::Table(TableId(0)), privileges)?;
        let grants = self.defaults.entry(maker).or_default();
        match gives {
            true => grants.entry(to).or_default().extend(privileges),
            false => take(grants, to, privileges),
        }
        self.tidy();
        Ok(())
    }

    fn own_producer(&mut self, name: &str, owner: Option<RoleId>) -> Result<()> {
        match owner {
            None => drop(self.producers.remove(name)),
            Some(owner) => {
                self.require(owner)?;
                self.producers.insert(name.to_owned(), owner);
            }
        }
        Ok(())
    }

    /// Forgets a table or view that is gone.
    pub fn forget_table(&mut self, table: TableId) {
        self.objects.remove(&table);
    }

    /// Forgets columns that a table has no more.
    pub fn forget_columns(&mut self, table: TableId, is_there: impl Fn(ColumnId) -> bool) {
        if let Some(object) = self.objects.get_mut(&table) {
            object.columns.retain(|column, _| is_there(*column));
            self.tidy();
        }
    }

    /// The change names this table or view.
    pub fn is_about(change: &AccessChange, table: TableId) -> bool {
        match change {
            AccessChange::Grant { on, .. } | AccessChange::Revoke { on, .. } => match on {
                Object::Database => false,
                Object::Table(of) | Object::Column(of, _) => *of == table,
            },
            AccessChange::Own { table: of, .. } | AccessChange::Option { table: of, .. } => {
                *of == table
            }
            _ => false,
        }
    }

    fn require(&mut self, role: RoleId) -> Result<&mut Role> {
        self.roles.get_mut(&role).ok_or_else(gone)
    }

    fn check_grantee(&self, role: RoleId) -> Result<()> {
        match role == RoleId::PUBLIC || self.roles.contains_key(&role) {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    fn create(&mut self, role: &Role) -> Result<()> {
        self.check_name(&role.name, role.id)?;
        if role.id != self.next_role {
            let message = "another session has made a role meanwhile";
            return Err(Error::conflict(message).with_sqlstate("40001"));
        }
        self.roles.insert(role.id, role.clone());
        self.next_role = RoleId(role.id.0 + 1);
        Ok(())
    }

    fn check_name(&self, name: &str, id: RoleId) -> Result<()> {
        match self.role_named(name).filter(|role| role.id != id) {
            None => Ok(()),
            Some(_) => {
                Err(Error::conflict(format!("role {name:?} is there already"))
                    .with_sqlstate("42710"))
            }
        }
    }

    fn alter(&mut self, role: RoleId, attribute: &RoleAttribute) -> Result<()> {
        if let RoleAttribute::Name(name) = attribute {
            self.check_name(name, role)?;
        }
        attribute.give(self.require(role)?);
        Ok(())
    }

    fn drop_role(&mut self, role: RoleId) -> Result<()> {
        let name = self.require(role)?.name.clone();
        let owned = self.owned_by(role).count();
        if owned > 0 {
            return Err(Error::conflict(format!("role {name:?} can't be dropped"))
                .with_detail(format!("it owns {owned} tables, views or sequences"))
                .with_hint(format!(
                    "REASSIGN OWNED BY {name} TO another role, or drop them"
                ))
                .with_sqlstate("2BP01"));
        }
        self.roles.remove(&role);
        for other in self.roles.values_mut() {
            other.member_of.remove(&role);
        }
        self.database.remove(&role);
        self.producers.retain(|_, owner| *owner != role);
        self.defaults.remove(&role);
        for grants in self.defaults.values_mut() {
            grants.remove(&role);
        }
        for object in self.objects.values_mut() {
            object.grants.remove(&role);
            for grants in object.columns.values_mut() {
                grants.remove(&role);
            }
        }
        self.tidy();
        Ok(())
    }

    fn join(&mut self, member: RoleId, role: RoleId, admin: bool) -> Result<()> {
        let of = self.require(role)?.name.clone();
        if member == role || self.memberships(role).contains(&member) {
            let member = &self.require(member)?.name;
            let message = format!("role {of:?} is a member of role {member:?}");
            return Err(Error::conflict(message)
                .with_detail("neither can be a member of the other then")
                .with_sqlstate("0LP01"));
        }
        let known = self.require(member)?.member_of.entry(role).or_default();
        *known |= admin;
        Ok(())
    }

    fn grants_mut(&mut self, on: Object) -> &mut Grants {
        match on {
            Object::Database => &mut self.database,
            Object::Table(table) => &mut self.objects.entry(table).or_default().grants,
            Object::Column(table, column) => {
                let object = self.objects.entry(table).or_default();
                object.columns.entry(column).or_default()
            }
        }
    }

    fn revoke(&mut self, on: Object, from: RoleId, privileges: &Privileges) {
        take(self.grants_mut(on), from, privileges);
        if let Object::Table(table) = on
            && let Some(object) = self.objects.get_mut(&table)
        {
            for grants in object.columns.values_mut() {
                take(grants, from, privileges);
            }
        }
        self.tidy();
    }

    /// What says nothing is left out.
    fn tidy(&mut self) {
        for object in self.objects.values_mut() {
            object.columns.retain(|_, grants| !grants.is_empty());
            let ObjectAccess {
                grants, options, ..
            } = object;
            for (role, privileges) in options.iter_mut() {
                let has = grants.get(role);
                privileges.retain(|one| has.is_some_and(|has| has.contains(one)));
            }
            options.retain(|_, privileges| !privileges.is_empty());
        }
        for grants in self.defaults.values_mut() {
            grants.retain(|_, privileges| !privileges.is_empty());
        }
        self.defaults.retain(|_, grants| !grants.is_empty());
        self.objects.retain(|_, object| {
            object.owner.is_some() || !object.grants.is_empty() || !object.columns.is_empty()
        });
    }
}

fn take(grants: &mut Grants, from: RoleId, privileges: &Privileges) {
    if let Some(has) = grants.get_mut(&from) {
        has.retain(|privilege| !privileges.contains(privilege));
    }
    grants.retain(|_, privileges| !privileges.is_empty());
}

fn check_fits(on: Object, privileges: &Privileges) -> Result<()> {
    let known: &[Privilege] = match on {
        Object::Database => &Privilege::OF_DATABASE,
        Object::Table(_) => &Privilege::OF_TABLES,
        Object::Column(..) => &Privilege::OF_COLUMNS,
    };
    let other = privileges.iter().find(|given| !known.contains(given));
    match other {
        None => Ok(()),
        Some(other) => {
            let message = format!("{} can't be granted there", other.name());
            Err(Error::invalid(message).with_sqlstate("0LP01"))
        }
    }
}

fn gone() -> Error {
    Error::not_found("the role is gone: another session dropped it").with_sqlstate("42704")
}
