//! Who may do what: roles, their memberships, and what they were granted.
//!
//! ```text
//!   Access      roles, grants on the database, and of each table and view its owner and grants
//!   change      AccessChange: every change to it, one variant each
//!   decide      Rights: what a role may do, from its memberships; a plain function
//! ```
//!
//! Tables and columns are named by ids: a grant survives every renaming, and goes with what it is
//! for. Nobody here reads a password: a role keeps a verifier, which can test one and not tell it.
//!
//! Invariant ACL-1: memberships have no cycle, and every id here is of something that is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::label::Authorizations;
use crate::{ColumnId, TableId};

mod change;
mod decide;

#[cfg(test)]
mod tests;

pub use change::{AccessChange, RoleAttribute};
pub use decide::Rights;

/// A role's id: never used again, not even for a role of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleId(pub u32);

impl RoleId {
    /// Everybody: what is granted to it is granted to all roles.
    pub const PUBLIC: RoleId = RoleId(0);
}

/// What a grant allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Privilege {
    /// To read.
    Select,
    /// To write rows; a row of the same key is replaced.
    Insert,
    /// To set columns of rows that are there.
    Update,
    /// To delete rows.
    Delete,
    /// To end all rows at once.
    Truncate,
    /// To connect to the database.
    Connect,
    /// To make tables in the database.
    Create,
}

impl Privilege {
    /// Those that can be granted on a table or view, in the order in which they are told.
    pub const OF_TABLES: [Privilege; 5] = [
        Privilege::Insert,
        Privilege::Select,
        Privilege::Update,
        Privilege::Delete,
        Privilege::Truncate,
    ];

    /// Those that can be granted on columns.
    pub const OF_COLUMNS: [Privilege; 3] =
        [Privilege::Insert, Privilege::Select, Privilege::Update];

    /// To take numbers of a sequence. It is kept as what lets rows be made, and has a name of its
    /// own on sequences.
    pub const USAGE: Privilege = Privilege::Insert;

    /// Those that can be granted on a sequence, in the order in which they are told.
    pub const OF_SEQUENCES: [Privilege; 3] =
        [Privilege::Select, Privilege::Update, Privilege::USAGE];

    /// Those that can be granted on the database.
    pub const OF_DATABASE: [Privilege; 2] = [Privilege::Create, Privilege::Connect];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Privilege::Select => "SELECT",
            Privilege::Insert => "INSERT",
            Privilege::Update => "UPDATE",
            Privilege::Delete => "DELETE",
            Privilege::Truncate => "TRUNCATE",
            Privilege::Connect => "CONNECT",
            Privilege::Create => "CREATE",
        }
    }

    /// Its letter in PostgreSQL's lists of privileges.
    pub fn letter(self) -> char {
        match self {
            Privilege::Select => 'r',
            Privilege::Insert => 'a',
            Privilege::Update => 'w',
            Privilege::Delete => 'd',
            Privilege::Truncate => 'D',
            Privilege::Connect => 'c',
            Privilege::Create => 'C',
        }
    }

    /// Its name in SQL where it is of a sequence.
    pub fn name_on_sequence(self) -> &'static str {
        match self {
            Privilege::USAGE => "USAGE",
            other => other.name(),
        }
    }

    /// Its letter in PostgreSQL's lists of privileges where it is of a sequence.
    pub fn letter_on_sequence(self) -> char {
        match self {
            Privilege::USAGE => 'U',
            other => other.letter(),
        }
    }

    /// The privilege of a name that sequences have, in capitals or not.
    pub fn named_on_sequence(name: &str) -> Option<Privilege> {
        let mut all = Privilege::OF_SEQUENCES.into_iter();
        all.find(|known| known.name_on_sequence().eq_ignore_ascii_case(name))
    }

    /// The privilege of a name, in capitals or not.
    pub fn named(name: &str) -> Option<Privilege> {
        let of_all = Privilege::OF_TABLES
            .into_iter()
            .chain(Privilege::OF_DATABASE);
        of_all
            .into_iter()
            .find(|known| known.name().eq_ignore_ascii_case(name))
    }
}

/// Privileges of one thing.
pub type Privileges = BTreeSet<Privilege>;

/// Who has which privileges on one thing; nobody stands here without any.
pub type Grants = BTreeMap<RoleId, Privileges>;

/// What can test a password without telling it: a SCRAM verifier in PostgreSQL's own text form.
/// Messages and logs never hold it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verifier(String);

impl Verifier {
    /// A verifier of this text. Whether the text is one is for whoever reads it to say.
    pub fn new(text: impl Into<String>) -> Verifier {
        Verifier(text.into())
    }

    /// The text.
    pub fn as_text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(..)")
    }
}

/// A user, or a group of users: whoever may act under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Its id.
    pub id: RoleId,
    /// Its name.
    pub name: String,
    /// Whether nothing is forbidden to it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub superuser: bool,
    /// Whether it may make and change roles that are no superusers.
    #[serde(default, skip_serializing_if = "is_false")]
    pub create_role: bool,
    /// Whether it may connect.
    #[serde(default, skip_serializing_if = "is_false")]
    pub login: bool,
    /// Whether it has what the roles have that it is a member of, without SET ROLE.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub inherit: bool,
    /// The most connections that it may have at a time; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_limit: Option<u32>,
    /// From this moment on its password is no longer valid: microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until_micros: Option<i64>,
    /// What tests its password; `None` lets no password in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Verifier>,
    /// The settings that its sessions begin with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// What labels of rows and cells it may read.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub authorizations: Authorizations,
    /// The roles that it is a member of, and whether it may make others members of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub member_of: BTreeMap<RoleId, bool>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_true(value: &bool) -> bool {
    *value
}

fn yes() -> bool {
    true
}

impl Role {
    /// A role with nothing but a name: it can't connect.
    pub fn new(id: RoleId, name: impl Into<String>) -> Role {
        Role {
            id,
            name: name.into(),
            superuser: false,
            create_role: false,
            login: false,
            inherit: true,
            connection_limit: None,
            valid_until_micros: None,
            password: None,
            settings: BTreeMap::new(),
            authorizations: Authorizations::new(),
            member_of: BTreeMap::new(),
        }
    }
}

/// Whose a table, view or sequence is, and what others may do with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectAccess {
    /// Its owner; `None` is whoever owns the database's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<RoleId>,
    /// What was granted on all of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grants: Grants,
    /// What was granted on columns alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<ColumnId, Grants>,
    /// What of `grants` may be passed on by those who have it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: Grants,
}

/// What privileges are granted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// The database.
    Database,
    /// A table, a secondary view by the id of its rows' definition, or a sequence.
    Table(TableId),
    /// A column of one.
    Column(TableId, ColumnId),
}

/// Everything about who may do what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The next role's id.
    pub next_role: RoleId,
    /// The roles.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<RoleId, Role>,
    /// The settings that all sessions begin with, unless their role has others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// What was granted on the database.
    pub database: Grants,
    /// Tables, views and sequences that have an owner or grants.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<TableId, ObjectAccess>,
    /// What is granted on each table or view that a role makes from now on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<RoleId, Grants>,
    /// The roles that named producers belong to; others belong to nobody yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub producers: BTreeMap<String, RoleId>,
}

impl Default for Access {
    /// No roles; everybody may connect, as in PostgreSQL.
    fn default() -> Self {
        Access {
            next_role: RoleId(1),
            roles: BTreeMap::new(),
            settings: BTreeMap::new(),
            database: [(RoleId::PUBLIC, [Privilege::Connect].into())].into(),
            objects: BTreeMap::new(),
            defaults: BTreeMap::new(),
            producers: BTreeMap::new(),
        }
    }
}

/// How those who connect can show which role they are; each allows more than the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Logins {
    /// Not at all: no role may log in.
    None,
    /// Not by a password: roles may log in, and none of them has one.
    WithoutPassword,
    /// By a password too.
    WithPassword,
}

impl Access {
    /// The role of a name.
    pub fn role_named(&self, name: &str) -> Option<&Role> {
        self.roles.values().find(|role| role.name == name)
    }

    /// How roles can show who they are.
    pub fn logins(&self) -> Logins {
        let of_role = |role: &Role| match role.login {
            false => Logins::None,
            true if role.password.is_none() => Logins::WithoutPassword,
            true => Logins::WithPassword,
        };
        let all = self.roles.values().map(of_role);
        all.max().unwrap_or(Logins::None)
    }

    /// What tables or views stand under a role.
    pub fn owned_by(&self, role: RoleId) -> impl Iterator<Item = TableId> {
        let own = self.objects.iter();
        own.filter(move |(_, object)| object.owner == Some(role))
            .map(|(id, _)| *id)
    }

    /// The owner of a table or view; `None` is whoever owns the folder.
    pub fn owner_of(&self, table: TableId) -> Option<RoleId> {
        self.objects.get(&table).and_then(|object| object.owner)
    }

    /// The first breach of ACL-1, if any; what tables, views and columns there are is asked.
    pub fn violation(
        &self,
        is_there: impl Fn(TableId, Option<ColumnId>) -> bool,
    ) -> Option<String> {
        let known = |role: &RoleId| *role == RoleId::PUBLIC || self.roles.contains_key(role);
        let mut names = BTreeSet::new();
        for (id, role) in &self.roles {
            let sound = role.id == *id && *id < self.next_role && *id != RoleId::PUBLIC;
            if !sound || !names.insert(role.name.as_str()) {
                return Some(format!("role {:?} is there twice or has no id", role.name));
            }
            let of_known = role.member_of.keys().all(|of| self.roles.contains_key(of));
            if !of_known || self.memberships(*id).contains(id) {
                return Some(format!("memberships of role {:?}", role.name));
            }
        }
        let sound = |grants: &Grants| {
            let mut grants = grants.iter();
            grants.all(|(role, privileges)| known(role) && !privileges.is_empty())
        };
        if !sound(&self.database) {
            return Some("grants on the database".to_owned());
        }
        let mut makers = self.defaults.iter();
        if !makers.all(|(role, grants)| self.roles.contains_key(role) && sound(grants)) {
            return Some("grants on tables to come".to_owned());
        }
        if !self
            .producers
            .values()
            .all(|role| self.roles.contains_key(role))
        {
            return Some("owners of producers".to_owned());
        }
        self.objects.iter().find_map(|(table, object)| {
            let mut columns = object.columns.iter();
            let fits = is_there(*table, None)
                && object
                    .owner
                    .is_none_or(|owner| self.roles.contains_key(&owner))
                && sound(&object.grants)
                && object.options.iter().all(|(role, privileges)| {
                    let has = object.grants.get(role);
                    !privileges.is_empty() && has.is_some_and(|has| has.is_superset(privileges))
                })
                && columns.all(|(column, grants)| {
                    is_there(*table, Some(*column)) && sound(grants) && !grants.is_empty()
                });
            (!fits).then(|| format!("grants on table {}", table.0))
        })
    }
}
