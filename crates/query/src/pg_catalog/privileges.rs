//! Roles and privileges as PostgreSQL shows them: `pg_roles` and its like, lists of privileges such
//! as `anna=r/owner`, and the functions that ask what somebody may do.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::ScalarUDF;
use lazybase_model::access::{Access, Grants, Object, Privilege, Privileges, Rights, Role, RoleId};
use lazybase_model::{ColumnId, Result, Sequence, Table};

use super::by_name;
use super::described::Numbered;
use super::fixed::OWNER;
use super::functions::{Arguments, argument, function};
use super::{Cell, Row};
use crate::access::gate::denied;
use crate::access::{Gate, name_of};
use crate::catalog::Names;
use crate::definition::identifier;
use crate::parse::CATALOG;

/// The name that a query for the roles that a role is a member of is rewritten to.
pub(super) const MEMBER_OF: &str = "pg_member_of";

/// Where the numbers of roles begin.
const ROLES: i64 = 1 << 27;

/// The tables that show what tests passwords.
const SHOW_VERIFIERS: [&str; 2] = ["pg_authid", "pg_shadow"];

/// What is told of those that may log in.
const OF_USERS: &str = "usename t, usesysid o, usecreatedb b, usesuper b, userepl b, \
                        usebypassrls b, passwd t?, valuntil t?, useconfig T?";

pub(super) const COLUMNS: [(&str, &str); 8] = [
    (
        "pg_database",
        "oid o, datname t, datdba o, encoding i, datlocprovider t, datistemplate b, \
         datallowconn b, datconnlimit i, datfrozenxid o, datminmxid o, dattablespace o, \
         datcollate t, datctype t, daticulocale t?, datcollversion t?, datacl T?, tableoid o",
    ),
    (
        "pg_roles",
        "oid o, rolname t, rolsuper b, rolinherit b, rolcreaterole b, rolcreatedb b, \
         rolcanlogin b, rolreplication b, rolconnlimit i, rolpassword t?, rolvaliduntil t?, \
         rolbypassrls b, rolconfig T?",
    ),
    ("pg_user", OF_USERS),
    ("pg_shadow", OF_USERS),
    (
        "pg_authid",
        "oid o, rolname t, rolsuper b, rolinherit b, rolcreaterole b, rolcreatedb b, \
         rolcanlogin b, rolreplication b, rolbypassrls b, rolconnlimit i, rolpassword t?, \
         rolvaliduntil t?",
    ),
    (
        "pg_auth_members",
        "roleid o, member o, grantor o, admin_option b",
    ),
    (
        "pg_db_role_setting",
        "setdatabase o, setrole o, setconfig T?",
    ),
    (
        "pg_default_acl",
        "oid o, tableoid o, defaclrole o, defaclnamespace o, defaclobjtype t, defaclacl T?",
    ),
];

/// The number of the database.
pub(crate) const DATABASE: i64 = 1;

/// The number of a role; whoever owns the folder has one too.
pub(crate) fn role_oid(role: Option<RoleId>) -> i64 {
    role.map_or(OWNER, |role| ROLES + i64::from(role.0))
}

/// The rows of one of these tables.
pub(super) fn rows(name: &str, access: &Access) -> Vec<Row> {
    match name {
        "pg_database" => vec![database(access)],
        "pg_roles" | "pg_authid" => {
            let shows = name == "pg_authid";
            let roles = access.roles.values().map(|known| role(known, shows));
            std::iter::once(folders_owner()).chain(roles).collect()
        }
        "pg_user" | "pg_shadow" => {
            let shows = name == "pg_shadow";
            let own = vec![
                ("usename", CATALOG.into()),
                ("usesysid", OWNER.into()),
                ("usesuper", true.into()),
            ];
            let users = access.roles.values().filter(|role| role.login);
            let users = users.map(|known| user(known, shows));
            std::iter::once(own).chain(users).collect()
        }
        "pg_auth_members" => {
            let all = access.roles.values().flat_map(|role| {
                let of = role.member_of.iter();
                of.map(|(of, admin)| (role.id, *of, *admin))
            });
            all.map(|(member, role, admin)| {
                vec![
                    ("roleid", role_oid(Some(role)).into()),
                    ("member", role_oid(Some(member)).into()),
                    ("grantor", OWNER.into()),
                    ("admin_option", admin.into()),
                ]
            })
            .collect()
        }
        "pg_db_role_setting" => {
            let of_all = (DATABASE, 0, &access.settings);
            let of_roles = access.roles.values();
            let of_roles = of_roles.map(|role| (0, role_oid(Some(role.id)), &role.settings));
            let all = std::iter::once(of_all).chain(of_roles);
            all.filter_map(|(database, role, settings)| {
                Some(vec![
                    ("setdatabase", database.into()),
                    ("setrole", role.into()),
                    ("setconfig", listed_settings(settings)?),
                ])
            })
            .collect()
        }
        "pg_default_acl" => {
            let makers = access.defaults.iter();
            makers
                .map(|(maker, grants)| {
                    let all = &Privilege::OF_TABLES;
                    let acl = listed(access, Some(*maker), (grants, None), all);
                    vec![
                        ("oid", role_oid(Some(*maker)).into()),
                        ("defaclrole", role_oid(Some(*maker)).into()),
                        ("defaclobjtype", "r".into()),
                        ("defaclacl", acl),
                    ]
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

fn database(access: &Access) -> Row {
    let mut row: Row = vec![
        ("oid", DATABASE.into()),
        ("datname", CATALOG.into()),
        ("datdba", OWNER.into()),
        ("encoding", 6.into()),
        ("datlocprovider", "c".into()),
        ("datallowconn", true.into()),
        ("datconnlimit", (-1).into()),
        ("dattablespace", 1663.into()),
        ("datcollate", "C".into()),
        ("datctype", "C".into()),
    ];
    if access.database != Access::default().database {
        let all = &Privilege::OF_DATABASE;
        let acl = listed(access, None, (&access.database, None), all);
        row.push(("datacl", acl));
    }
    row
}

/// Whoever owns the folder: everything that no role owns is theirs.
fn folders_owner() -> Row {
    vec![
        ("oid", OWNER.into()),
        ("rolname", CATALOG.into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcanlogin", true.into()),
        ("rolconnlimit", (-1).into()),
    ]
}

/// A role; with the verifier of its password, or without.
fn role(role: &Role, shows_verifier: bool) -> Row {
    let mut row: Row = vec![
        ("oid", role_oid(Some(role.id)).into()),
        ("rolname", role.name.clone().into()),
        ("rolsuper", role.superuser.into()),
        ("rolinherit", role.inherit.into()),
        ("rolcreaterole", role.create_role.into()),
        ("rolcanlogin", role.login.into()),
        (
            "rolconnlimit",
            role.connection_limit.map_or(-1, i64::from).into(),
        ),
    ];
    row.extend(password(role, shows_verifier).map(|password| ("rolpassword", password)));
    let until = role.valid_until_micros.map(moment);
    row.extend(until.map(|until| ("rolvaliduntil", until.into())));
    row.extend(listed_settings(&role.settings).map(|settings| ("rolconfig", settings)));
    row
}

/// A role that may log in; with the verifier of its password, or without.
fn user(role: &Role, shows_verifier: bool) -> Row {
    let mut row: Row = vec![
        ("usename", role.name.clone().into()),
        ("usesysid", role_oid(Some(role.id)).into()),
        ("usesuper", role.superuser.into()),
    ];
    row.extend(password(role, shows_verifier).map(|password| ("passwd", password)));
    let until = role.valid_until_micros.map(moment);
    row.extend(until.map(|until| ("valuntil", until.into())));
    row.extend(listed_settings(&role.settings).map(|settings| ("useconfig", settings)));
    row
}

/// What stands for a password where nobody is to see what tests it.
const HIDDEN: &str = "********";

/// What tests a role's password, or what stands for it; nothing where the role has none, and its
/// verifier would show.
fn password(role: &Role, shows_verifier: bool) -> Option<Cell> {
    match (&role.password, shows_verifier) {
        (Some(verifier), true) => Some(verifier.as_text().into()),
        (None, true) => None,
        (_, false) => Some(HIDDEN.into()),
    }
}

/// Whether only superusers may read one of these tables: it shows what tests passwords.
pub(super) fn is_for_superusers(name: &str) -> bool {
    SHOW_VERIFIERS.contains(&name)
}

/// Refuses tables that show what tests passwords to whoever is no superuser.
///
/// # Errors
/// `Invalid` (42501).
pub(super) fn check(name: &str, gate: &Gate) -> Result<()> {
    if !is_for_superusers(name) || gate.rights().superuser {
        return Ok(());
    }
    Err(denied(format!("permission denied for table {name}"))
        .with_detail("it shows what tests passwords: only superusers may read it")
        .with_hint("pg_roles and pg_user have the rest"))
}

/// Settings as `name=value`; nothing where there are none.
fn listed_settings(settings: &BTreeMap<String, String>) -> Option<Cell> {
    let listed = settings
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    (!settings.is_empty()).then(|| Cell::Texts(listed.collect()))
}

fn moment(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    arrow::temporal_conversions::timestamp_s_to_datetime(seconds)
        .map(|moment| format!("{moment}+00"))
        .unwrap_or_default()
}

/// The privileges on a table or view; nothing where nobody was granted any.
pub(super) fn acl(access: &Access, table: &Table) -> Option<Cell> {
    let object = access.objects.get(&table.id)?;
    let told = !object.grants.is_empty();
    let all = &Privilege::OF_TABLES;
    told.then(|| {
        let grants = (&object.grants, Some(&object.options));
        listed(access, access.owner_of(table.id), grants, all)
    })
}

/// The privileges on a column alone.
pub(super) fn column_acl(access: &Access, table: &Table, column: ColumnId) -> Option<Cell> {
    let grants = access.objects.get(&table.id)?.columns.get(&column)?;
    let owner = name_of(access, access.owner_of(table.id));
    Some(Cell::Texts(granted(access, (grants, None), &owner)))
}

/// The privileges on a sequence; nothing where nobody was granted any.
pub(super) fn sequence_acl(access: &Access, sequence: &Sequence) -> Option<Cell> {
    let object = access.objects.get(&sequence.id.as_object())?;
    if object.grants.is_empty() {
        return None;
    }
    let owner = identifier(&name_of(access, access.owner_of(sequence.owned_with())));
    let all = Privileges::from(Privilege::OF_SEQUENCES);
    let of_owner = format!("{owner}={}/{owner}", letters_on_sequence(&all, None));
    let granted = object.grants.iter().map(|(role, privileges)| {
        let name = grantee(access, *role);
        let letters = letters_on_sequence(privileges, object.options.get(role));
        format!("{name}={letters}/{owner}")
    });
    let list = std::iter::once(of_owner).chain(granted);
    Some(Cell::Texts(list.collect()))
}

/// The letters of privileges on a sequence, a star behind those that may be passed on.
fn letters_on_sequence(privileges: &Privileges, passed: Option<&Privileges>) -> String {
    let known = Privilege::OF_SEQUENCES.into_iter();
    let letters = known.filter(|known| privileges.contains(known)).map(|one| {
        let star = passed.is_some_and(|passed| passed.contains(&one));
        format!(
            "{}{}",
            one.letter_on_sequence(),
            if star { "*" } else { "" }
        )
    });
    letters.collect()
}

/// The name of whoever was granted something; none is everybody.
fn grantee(access: &Access, role: RoleId) -> String {
    match role {
        RoleId::PUBLIC => String::new(),
        role => identifier(&name_of(access, Some(role))),
    }
}

/// What was granted, and what of it may be passed on.
type Passed<'g> = (&'g Grants, Option<&'g Grants>);

fn listed(access: &Access, owner: Option<RoleId>, grants: Passed<'_>, all: &[Privilege]) -> Cell {
    let name = name_of(access, owner);
    let letters: String = all.iter().map(|privilege| privilege.letter()).collect();
    let mut list = vec![format!("{0}={letters}/{0}", identifier(&name))];
    list.extend(granted(access, grants, &name));
    Cell::Texts(list)
}

fn granted(access: &Access, (grants, options): Passed<'_>, owner: &str) -> Vec<String> {
    let one = |(role, privileges): (&RoleId, &Privileges)| {
        let name = grantee(access, *role);
        let passed = options.and_then(|options| options.get(role));
        let letter = |privilege: &Privilege| {
            let star = passed.is_some_and(|passed| passed.contains(privilege));
            format!("{}{}", privilege.letter(), if star { "*" } else { "" })
        };
        let letters: String = privileges.iter().map(letter).collect();
        format!("{name}={letters}/{}", identifier(owner))
    };
    grants.iter().map(one).collect()
}

/// The privileges on something of a kind that nobody has granted any on, with commas between them.
fn default_acl(kind: &str, owner: &str) -> Option<String> {
    // Lists are written as texts with commas.
    if owner.contains(',') {
        return None;
    }
    let of_tables = || {
        Privilege::OF_TABLES
            .iter()
            .map(|privilege| privilege.letter())
    };
    Some(match kind {
        "r" => format!("{owner}={}/{owner}", of_tables().collect::<String>()),
        "s" => format!("{owner}=rwU/{owner}"),
        "n" => format!("{owner}=UC/{owner}"),
        "d" => format!("=Tc/{owner},{owner}=CTc/{owner}"),
        "f" => format!("=X/{owner},{owner}=X/{owner}"),
        "l" | "T" => format!("=U/{owner},{owner}=U/{owner}"),
        _ => return None,
    })
}

/// What the functions know.
struct Known {
    access: Arc<Access>,
    current: Option<RoleId>,
    numbered: Arc<Numbered>,
}

impl Known {
    /// The role that a name or a number means.
    fn role(&self, text: &str) -> Option<Option<RoleId>> {
        let text = text.trim();
        if text == CATALOG || text == OWNER.to_string() {
            return Some(None);
        }
        let number = text.parse::<i64>().ok();
        let mut roles = self.access.roles.values();
        let found = roles.find(|role| {
            role.name == text || number.is_some_and(|number| role_oid(Some(role.id)) == number)
        });
        found.map(|role| Some(role.id))
    }

    /// The rights of the role that is asked about: the first of `count` arguments, where there is
    /// one more than the others need. Then these others.
    fn asked<'a>(&self, a: &Arguments<'a>, needs: usize) -> Option<(Rights, Vec<&'a str>)> {
        let mut given: Vec<&str> = Vec::with_capacity(a.len());
        for at in 0..a.len() {
            given.push(argument(a, at)?);
        }
        let role = match given.len().checked_sub(needs)? {
            0 => self.current,
            _ => self.role(given.remove(0))?,
        };
        Some((self.access.rights_of(role), given))
    }

    /// Whether somebody has a privilege on a table of the system, where that is asked about.
    fn system(&self, rights: &Rights, table: &str, privileges: &str) -> Option<String> {
        let table = self.numbered.system(table)?;
        any(privileges, |privilege, grants| {
            privilege == Privilege::Select && !grants && table.is_read_by(rights)
        })
    }

    fn table(&self, a: &Arguments<'_>) -> Option<String> {
        let (rights, given) = self.asked(a, 2)?;
        if let Some(told) = self.system(&rights, given[0], given[1]) {
            return Some(told);
        }
        if let Some(sequence) = self.numbered.sequence(given[0]) {
            return Some(self.may_use(&rights, &sequence, given[1]));
        }
        let table = self.numbered.table(given[0])?;
        any(given[1], |privilege, grants| match grants {
            true => self.access.may_pass(&rights, privilege, table.id),
            false => self.access.may(&rights, privilege, Object::Table(table.id)),
        })
    }

    fn sequence(&self, a: &Arguments<'_>) -> Option<String> {
        let (rights, given) = self.asked(a, 2)?;
        let sequence = self.numbered.sequence(given[0])?;
        Some(self.may_use(&rights, &sequence, given[1]))
    }

    /// Whether somebody has one of the privileges of a text on a sequence.
    fn may_use(&self, rights: &Rights, sequence: &Sequence, privileges: &str) -> String {
        let may = |privilege, grants| match grants {
            true => self.access.may_pass_use(rights, privilege, sequence),
            false => self.access.may_use(rights, privilege, sequence),
        };
        any_of(privileges, Privilege::named_on_sequence, may).to_string()
    }

    fn any_column(&self, a: &Arguments<'_>) -> Option<String> {
        let (rights, given) = self.asked(a, 2)?;
        if let Some(told) = self.system(&rights, given[0], given[1]) {
            return Some(told);
        }
        let table = self.numbered.table(given[0])?;
        any(given[1], |privilege, grants| match grants {
            true => self.access.may_pass(&rights, privilege, table.id),
            false => self.access.may_some(&rights, privilege, table.id),
        })
    }

    fn column(&self, a: &Arguments<'_>) -> Option<String> {
        let (rights, given) = self.asked(a, 3)?;
        if let Some(told) = self.system(&rights, given[0], given[2]) {
            return Some(told);
        }
        let table = self.numbered.table(given[0])?;
        let at = match given[1].trim().parse::<usize>() {
            Ok(number) => number.checked_sub(1)?,
            Err(_) => table.column_index(given[1])?,
        };
        let object = Object::Column(table.id, table.columns.get(at)?.id);
        any(given[2], |privilege, grants| match grants {
            true => self.access.may_pass(&rights, privilege, table.id),
            false => self.access.may(&rights, privilege, object),
        })
    }

    fn database(&self, a: &Arguments<'_>) -> Option<String> {
        let (rights, given) = self.asked(a, 2)?;
        any(given[1], |privilege, grants| match grants {
            true => rights.superuser,
            false => self.access.may(&rights, privilege, Object::Database),
        })
    }

    /// Everybody may use the schema; what may be made in it is what may be made in the database.
    fn schema(&self, a: &Arguments<'_>) -> Option<String> {
        let (rights, given) = self.asked(a, 2)?;
        let mut names = given[1]
            .split(',')
            .map(|name| name.trim().to_ascii_uppercase());
        let may = |name: String| match name.as_str() {
            "CREATE" => self
                .access
                .may(&rights, Privilege::Create, Object::Database),
            name => name == "USAGE" || rights.superuser,
        };
        Some(names.any(may).to_string())
    }

    fn has_role(&self, a: &Arguments<'_>) -> Option<String> {
        let given: Vec<&str> = (0..a.len()).filter_map(|at| argument(a, at)).collect();
        let (member, role, how) = match given.as_slice() {
            [role, how] => (self.current, self.role(role)?, how),
            [member, role, how] => (self.role(member)?, self.role(role)?, how),
            _ => return None,
        };
        let Some(role) = role else {
            return Some(self.access.rights_of(member).superuser.to_string());
        };
        let inherits = how.to_ascii_uppercase().starts_with("USAGE");
        let rights = self.access.rights_of(member);
        let is = match inherits {
            true => rights.superuser || rights.roles.contains(&role),
            false => self.access.may_become(member, role),
        };
        Some(is.to_string())
    }
}

/// Whether one of the privileges of a text is there, or may be passed on.
fn any(names: &str, may: impl Fn(Privilege, bool) -> bool) -> Option<String> {
    Some(any_of(names, Privilege::named, may).to_string())
}

/// The same where names may mean other privileges.
fn any_of(
    names: &str,
    named: fn(&str) -> Option<Privilege>,
    may: impl Fn(Privilege, bool) -> bool,
) -> bool {
    let mut found = false;
    for name in names.split(',') {
        let upper = name.trim().to_ascii_uppercase();
        let (name, grants) = match upper.strip_suffix(" WITH GRANT OPTION") {
            Some(name) => (name.trim(), true),
            None => (upper.as_str(), false),
        };
        // Nobody has what is not known here, such as TRIGGER or TEMPORARY.
        found |= named(name).is_some_and(|privilege| may(privilege, grants));
    }
    found
}

/// The functions about roles and privileges, as the session sees them.
pub(super) fn functions(names: &Names, numbered: &Arc<Numbered>) -> Vec<ScalarUDF> {
    let access = Arc::clone(names.gate.access());
    let identity = names.identity;
    let known = Arc::new(Known {
        access: Arc::clone(&access),
        current: identity.current,
        numbered: Arc::clone(numbered),
    });
    let mut all = Vec::new();
    for (name, role) in [
        ("current_user", identity.current),
        ("current_role", identity.current),
        ("session_user", identity.session),
    ] {
        let name_of_role = name_of(&access, role);
        all.push(function(name, DataType::Utf8, move |_| {
            Some(name_of_role.clone())
        }));
    }
    type Ask = fn(&Known, &Arguments<'_>) -> Option<String>;
    let asks: [(&str, Ask); 7] = [
        ("has_table_privilege", Known::table),
        ("has_any_column_privilege", Known::any_column),
        ("has_column_privilege", Known::column),
        ("has_sequence_privilege", Known::sequence),
        ("has_database_privilege", Known::database),
        ("has_schema_privilege", Known::schema),
        ("pg_has_role", Known::has_role),
    ];
    for (name, ask) in asks {
        let known = Arc::clone(&known);
        all.push(function(name, DataType::Boolean, move |a| ask(&known, a)));
    }
    let of = Arc::clone(&known);
    all.push(function("pg_get_userbyid", DataType::Utf8, move |a| {
        let given = argument(a, 0)?;
        let name = of.role(given).map(|role| name_of(&of.access, role));
        Some(name.unwrap_or_else(|| format!("unknown (OID={given})")))
    }));
    let (of_names, of_numbers) = (Arc::clone(&known), Arc::clone(&known));
    all.extend(by_name::of_roles(
        Arc::new(move |name: &str| of_names.role(name).map(role_oid)),
        Arc::new(move |oid: i64| {
            let role = of_numbers.role(&oid.to_string());
            role.map(|role| name_of(&of_numbers.access, role))
        }),
    ));
    let lists = DataType::new_list(DataType::Utf8, true);
    let of = Arc::clone(&known);
    all.push(function("acldefault", lists.clone(), move |a| {
        let owner = of.role(argument(a, 1)?)?;
        default_acl(argument(a, 0)?, &identifier(&name_of(&of.access, owner)))
    }));
    all.push(function(MEMBER_OF, lists, move |a| {
        let role = known.role(argument(a, 0)?)??;
        let of = known.access.roles.get(&role)?.member_of.keys();
        let names: Vec<String> = of.map(|of| name_of(&known.access, Some(*of))).collect();
        (!names.is_empty()).then(|| names.join(","))
    }));
    all
}
