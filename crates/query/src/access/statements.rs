//! CREATE ROLE, GRANT and what belongs to them: what is asked becomes changes of who may do what,
//! which are committed as changes of tables are.
//!
//! ```text
//!   statement -> may the session do this? -> AccessChanges -> Sink: one commit, or the buffer
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use lazybase_model::access::{
    Access, AccessChange, Logins, Object, Privilege, Privileges, Role, RoleAttribute, RoleId,
};
use lazybase_model::{Error, ErrorKind, Result, Table};

use super::gate::denied;
use super::of_session::begun;
use super::{Gate, Identity, name_of, scram};
use crate::alter::is_stale;
use crate::answer::AnswerStream;
use crate::dml::sink::Sink;
use crate::moments::utc_micros;
use crate::notice::Notice;
use crate::parse::roles::{
    AccessStatement, GrantOption, Listed, Owned, RoleName, RoleOption, Targets,
};
use crate::parse::{CATALOG, unsupported};
use crate::plain_views::no_plain_view;
use crate::session::Shared;
use crate::settings::{self, Settings};
use crate::temporary::own_name;
use crate::views::no_view;
use crate::visible::{TableChange, Visible};

mod targets;

/// How often a statement is made anew because other sessions change roles meanwhile.
const ATTEMPTS: usize = 16;

/// Does a statement.
pub(crate) async fn run(
    session: &Arc<Shared>,
    statement: &AccessStatement,
) -> Result<AnswerStream> {
    if let AccessStatement::SetRole(role) = statement {
        set_role(session, role.as_deref())?;
        return Ok(AnswerStream::done("SET", 0));
    }
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut asked = Asked::of(session);
        let before = asked.access.logins();
        asked.ask(statement)?;
        asked.check_logins(before)?;
        let mut sink = Sink::of(session);
        let in_transaction = sink.in_transaction();
        for change in asked.changes {
            sink.change_table(TableChange::Access(change))?;
        }
        match sink.finish(session).await {
            Err(error) if !in_transaction && attempts < ATTEMPTS && is_stale(&error) => {}
            Err(error) => return Err(error),
            Ok(token) => {
                return Ok(AnswerStream::done(statement.tag(), 0)
                    .with_token(token)
                    .with_notices(asked.notices));
            }
        }
    }
}

fn set_role(session: &Arc<Shared>, role: Option<&str>) -> Result<()> {
    let access = session.visible().access();
    let mut state = session.state.lock();
    let identity = state.identity;
    state.identity.current = match role {
        None => identity.session,
        Some(CATALOG) if identity.session.is_none() => None,
        Some(name) => {
            let role = access.role_named(name).ok_or_else(|| no_role(name))?;
            if !access.may_become(identity.session, role.id) {
                return Err(denied(format!("permission denied to set role {name:?}"))
                    .with_hint("members of a role may act as it"));
            }
            Some(role.id)
        }
    };
    Ok(())
}

fn no_role(name: &str) -> Error {
    Error::not_found(format!("there is no role {name:?}"))
        .with_name(name)
        .with_sqlstate("42704")
}

/// What a statement comes to.
struct Asked {
    gate: Gate,
    identity: Identity,
    visible: Visible,
    /// As the changes so far leave it.
    access: Access,
    changes: Vec<AccessChange>,
    notices: Vec<Notice>,
}

impl Asked {
    fn of(session: &Shared) -> Asked {
        let visible = session.visible();
        Asked {
            gate: session.gate_now(),
            identity: session.state.lock().identity,
            access: visible.access().as_ref().clone(),
            visible,
            changes: Vec::new(),
            notices: Vec::new(),
        }
    }

    fn push(&mut self, change: AccessChange) -> Result<()> {
        self.access.change(&change)?;
        self.changes.push(change);
        Ok(())
    }

    fn ask(&mut self, statement: &AccessStatement) -> Result<()> {
        match statement {
            AccessStatement::CreateRole { name, options } => self.create_role(name, options),
            AccessStatement::AlterRole { role, options } => {
                let id = self.role(role)?;
                self.may_alter(id, options)?;
                self.options(id, options)
            }
            AccessStatement::RenameRole { name, to } => {
                let role = self.named(name)?;
                self.may_alter(role, &[])?;
                check_name(to)?;
                let attribute = RoleAttribute::Name(to.clone());
                self.push(AccessChange::AlterRole { role, attribute })
            }
            AccessStatement::DropRoles { names, if_exists } => self.drop_roles(names, *if_exists),
            AccessStatement::Setting { role, name, value } => {
                self.setting(role.as_ref(), name, value)
            }
            AccessStatement::Grant {
                gives,
                privileges,
                on,
                roles,
                option,
                cascade,
            } => {
                let given = self.given(*gives, privileges, on)?;
                let roles = self.grantees(roles)?;
                if !gives {
                    self.passed_on(&given, &roles, *cascade)?;
                }
                self.grant((*gives, *option), given, &roles)
            }
            AccessStatement::Defaults {
                gives,
                makers,
                privileges,
                roles,
            } => self.defaults(*gives, makers, privileges, roles),
            AccessStatement::GrantRoles {
                roles,
                members,
                admin,
            } => {
                let admin = *admin;
                self.memberships(roles, members, |member, role| AccessChange::Join {
                    member,
                    role,
                    admin,
                })
            }
            AccessStatement::RevokeRoles {
                roles,
                members,
                only_admin,
            } => {
                let only_admin = *only_admin;
                self.memberships(roles, members, |member, role| AccessChange::Leave {
                    member,
                    role,
                    only_admin,
                })
            }
            AccessStatement::Own {
                name,
                of,
                if_exists,
                owner,
            } => self.own(name, *of, *if_exists, owner),
            AccessStatement::Reassign { from, to } => self.reassign(from, to),
            AccessStatement::SetRole(_) => Ok(()),
        }
    }

    /// While no role can show who it is, whoever reaches the server from its machine is let in, as
    /// the folder's owner too: that is for superusers to say. Who is let in from then on is told.
    fn check_logins(&mut self, before: Logins) -> Result<()> {
        let now = self.access.logins();
        match now.cmp(&before) {
            Ordering::Equal => return Ok(()),
            Ordering::Greater => {}
            Ordering::Less if self.gate.rights().superuser => {}
            Ordering::Less => {
                let what = match now {
                    Logins::None => "role",
                    Logins::WithoutPassword | Logins::WithPassword => "password of a role",
                };
                return Err(denied(format!(
                    "the last {what} with LOGIN is for superusers to take away"
                ))
                .with_detail("without one, everybody on this machine is the folder's owner"));
            }
        }
        self.notices.push(Notice::warning(self.let_in(now)));
        Ok(())
    }

    /// Who is let in from now on.
    fn let_in(&self, logins: Logins) -> String {
        let told = match logins {
            Logins::None => "from now on everybody on this machine is let in as the folder's owner",
            Logins::WithoutPassword => {
                "no role that may log in has a password: until ALTER ROLE ... PASSWORD gives one, \
                 everybody on this machine is let in without, as the role of the name or else as \
                 the folder's owner; with --trust-loopback or --tls-client-ca, roles alone are"
            }
            Logins::WithPassword => {
                "from now on connections are those of roles, which give a password; without one, \
                 only with a certificate, or from this machine where --trust-loopback is on"
            }
        };
        let can_enter = |role: &Role| role.superuser && role.login && role.password.is_some();
        match logins == Logins::WithPassword && !self.access.roles.values().any(can_enter) {
            true => format!(
                "{told}; no superuser has one: CREATE ROLE ... SUPERUSER LOGIN PASSWORD makes one \
                 now, lazybase role create --superuser while no server runs"
            ),
            false => told.to_owned(),
        }
    }

    fn named(&self, name: &str) -> Result<RoleId> {
        let role = self.access.role_named(name);
        role.map(|role| role.id).ok_or_else(|| no_role(name))
    }

    /// The role of a name; whoever owns the folder is none.
    fn role(&self, name: &RoleName) -> Result<RoleId> {
        match name {
            RoleName::Named(name) => self.named(name),
            RoleName::Public => Err(no_role("public")),
            RoleName::Current => self.identity.current.ok_or_else(|| no_role(CATALOG)),
            RoleName::Session => self.identity.session.ok_or_else(|| no_role(CATALOG)),
        }
    }

    /// Whether the session may change a role: roles that lead to a superuser are for superusers.
    fn may_alter(&self, role: RoleId, options: &[RoleOption]) -> Result<()> {
        let rights = self.gate.rights();
        if rights.superuser {
            return Ok(());
        }
        let authorizes = |option: &RoleOption| matches!(option, RoleOption::Authorizations(_));
        if options.iter().any(authorizes) {
            return self.gate.superuser("say what roles are authorized to read");
        }
        let gives_all = |option: &RoleOption| {
            matches!(
                option,
                RoleOption::Superuser(true) | RoleOption::OfSuperusers(_)
            )
        };
        if options.iter().any(gives_all) {
            return self.gate.superuser("make superusers");
        }
        let is_password = |option: &RoleOption| matches!(option, RoleOption::Password(_));
        let own = self.identity.current == Some(role) && !options.is_empty();
        match (rights.create_role && !self.leads_beyond(role))
            || (own && options.iter().all(is_password))
        {
            true => Ok(()),
            false => Err(self.denied_roles()),
        }
    }

    /// Whether a role leads to a superuser, or to labels that the session itself may not read.
    fn leads_beyond(&self, role: RoleId) -> bool {
        let own = self.identity.current;
        let own = own.and_then(|own| self.access.reachable_authorizations(own));
        match self.access.reachable_authorizations(role) {
            None => true,
            Some(all) => own.is_some_and(|own| !all.is_subset(&own)),
        }
    }

    fn denied_roles(&self) -> Error {
        denied("permission denied to change roles").with_detail(
            "CREATEROLE is needed; what leads to superusers, or to more authorizations than \
                 the session's own, is for superusers",
        )
    }

    fn create_role(&mut self, name: &str, options: &[RoleOption]) -> Result<()> {
        if !self.gate.rights().create_role {
            return Err(self.denied_roles());
        }
        check_name(name)?;
        let id = self.access.next_role;
        let role = Role::new(id, name);
        self.push(AccessChange::CreateRole { role })?;
        // Nobody but superusers makes superusers; a role that is new leads to none.
        self.may_alter(id, options)?;
        self.options(id, options)
    }

    fn options(&mut self, role: RoleId, options: &[RoleOption]) -> Result<()> {
        let superuser = |option: &RoleOption| *option == RoleOption::Superuser(true);
        let is_superuser = options.iter().any(superuser)
            || self
                .access
                .roles
                .get(&role)
                .is_some_and(|role| role.superuser);
        for option in options {
            let attribute = match option {
                RoleOption::Superuser(is) => RoleAttribute::Superuser(*is),
                RoleOption::CreateRole(may) => RoleAttribute::CreateRole(*may),
                RoleOption::Login(may) => RoleAttribute::Login(*may),
                RoleOption::Inherit(does) => RoleAttribute::Inherit(*does),
                RoleOption::Password(password) => {
                    let password = password.as_ref().map(scram::verifier).transpose()?;
                    RoleAttribute::Password(password)
                }
                RoleOption::ValidUntil(text) => RoleAttribute::ValidUntil(moment(text)?),
                RoleOption::ConnectionLimit(-1) => RoleAttribute::ConnectionLimit(None),
                RoleOption::ConnectionLimit(limit) => {
                    let limit = u32::try_from(*limit).map_err(|_| {
                        Error::invalid(format!("{limit} is no limit of connections"))
                            .with_hint("-1 is no limit")
                            .with_sqlstate("22023")
                    })?;
                    RoleAttribute::ConnectionLimit(Some(limit))
                }
                RoleOption::Authorizations(all) => RoleAttribute::Authorizations(all.clone()),
                RoleOption::OfSuperusers(_) if is_superuser => continue,
                RoleOption::OfSuperusers(what) => {
                    return Err(unsupported(format!("{what} is not supported"))
                        .with_hint("superusers may do everything"));
                }
                RoleOption::InRoles(of) => {
                    for of in of {
                        let of = self.role(of)?;
                        self.join(role, of, false)?;
                    }
                    continue;
                }
                RoleOption::Members(members, admin) => {
                    for member in members {
                        let member = self.role(member)?;
                        self.join(member, role, *admin)?;
                    }
                    continue;
                }
            };
            self.push(AccessChange::AlterRole { role, attribute })?;
        }
        Ok(())
    }

    fn join(&mut self, member: RoleId, role: RoleId, admin: bool) -> Result<()> {
        self.may_admit(role)?;
        self.push(AccessChange::Join {
            member,
            role,
            admin,
        })
    }

    fn may_admit(&self, role: RoleId) -> Result<()> {
        let rights = self.gate.rights();
        let admits = self.access.may_admit(rights, role);
        // ADMIN OPTION was given for this very role; CREATEROLE opens no way to superusers.
        match admits && (rights.superuser || !self.leads_beyond(role)) {
            true => Ok(()),
            false => Err(self.denied_roles()),
        }
    }

    fn memberships(
        &mut self,
        roles: &[String],
        members: &[RoleName],
        change: impl Fn(RoleId, RoleId) -> AccessChange,
    ) -> Result<()> {
        for role in roles {
            let role = self.named(role)?;
            self.may_admit(role)?;
            for member in members {
                let member = self.role(member)?;
                self.push(change(member, role))?;
            }
        }
        Ok(())
    }

    fn drop_roles(&mut self, names: &[String], if_exists: bool) -> Result<()> {
        for name in names {
            let role = match self.named(name) {
                Ok(role) => role,
                Err(_) if if_exists => {
                    let said = format!("there is no role {name:?}: skipped");
                    self.notices.push(Notice::note(said));
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.may_alter(role, &[])?;
            if [self.identity.session, self.identity.current].contains(&Some(role)) {
                return Err(
                    Error::invalid(format!("role {name:?} is the session's own"))
                        .with_sqlstate("55006"),
                );
            }
            self.push(AccessChange::DropRole { role })?;
        }
        Ok(())
    }

    fn setting(
        &mut self,
        role: Option<&RoleName>,
        name: &Option<String>,
        value: &Option<String>,
    ) -> Result<()> {
        let role = role.map(|role| self.role(role)).transpose()?;
        if let Some(name) = name {
            // What a session could not be set to is refused now, not when one begins.
            let (mut tried, defaults) = (Settings::default(), Settings::default());
            tried.begin(&begun(&self.access, role));
            match tried.set(name, value.as_deref(), &defaults) {
                // What is only shown and was stored once, when it could be set, is taken back.
                Err(error) if value.is_none() && error.sqlstate() == "55P02" => {}
                tried => tried?,
            }
            let notice = value.as_deref();
            let notice = notice.and_then(|value| settings::notice(name, value));
            self.notices.extend(notice);
        }
        let (name, value) = (name.clone(), value.clone());
        let Some(role) = role else {
            self.gate.superuser("set what all sessions begin with")?;
            return self.push(AccessChange::Setting { name, value });
        };
        if self.identity.current != Some(role) {
            self.may_alter(role, &[])?;
        }
        let attribute = RoleAttribute::Setting { name, value };
        self.push(AccessChange::AlterRole { role, attribute })
    }

    fn grantees(&self, roles: &[RoleName]) -> Result<Vec<RoleId>> {
        let grantee = |role: &RoleName| match role {
            RoleName::Public => Ok(RoleId::PUBLIC),
            role => self.role(role),
        };
        roles.iter().map(grantee).collect()
    }

    /// What a statement gives, or takes, on each thing, if the session may.
    fn given(&mut self, gives: bool, privileges: &Listed, on: &Targets) -> Result<Given> {
        Ok(match on {
            Targets::Usage if gives => {
                let said = "everybody may use the schema public";
                self.notices.push(Notice::note(said));
                Given::new()
            }
            Targets::Usage => {
                return Err(unsupported("everybody may use the schema public")
                    .with_hint("REVOKE what was granted on its tables"));
            }
            Targets::Without(kind) => {
                let said = format!("{kind} have no privileges of their own: nothing changes");
                self.notices.push(Notice::note(said));
                Given::new()
            }
            Targets::Database => {
                self.gate.superuser("grant on the database")?;
                whole(Object::Database, &Privilege::OF_DATABASE, privileges)
            }
            Targets::Tables(names) => self.on_tables(names, privileges, gives)?,
            Targets::AllTables => self.on_all_tables(privileges, gives)?,
            Targets::Sequences(names) => self.on_sequences(names, privileges, gives)?,
            Targets::AllSequences => self.on_all_sequences(privileges, gives)?,
        })
    }

    /// Who has passed on what is taken now is not known: it stays, and that is said. Where it is
    /// asked to be taken too, that is refused.
    fn passed_on(&mut self, given: &Given, roles: &[RoleId], cascade: bool) -> Result<()> {
        for (on, privileges) in given {
            let Object::Table(table) = on else { continue };
            let Some(object) = self.access.objects.get(table) else {
                continue;
            };
            for role in roles {
                let options = object.options.get(role);
                if options.is_none_or(|options| options.is_disjoint(privileges)) {
                    continue;
                }
                let name = name_of(&self.access, Some(*role));
                if cascade {
                    return Err(unsupported(format!(
                        "what role {name:?} has granted to others can't be taken back with it"
                    ))
                    .with_detail("nobody remembers who granted what")
                    .with_hint(
                        "REVOKE without CASCADE, and from each other role: SELECT * FROM \
                         lazybase.grants",
                    ));
                }
                self.notices.push(Notice::warning(format!(
                    "what role {name:?} has granted to others stays: lazybase.grants shows it"
                )));
            }
        }
        Ok(())
    }

    fn grant(
        &mut self,
        (gives, option): (bool, GrantOption),
        given: Given,
        roles: &[RoleId],
    ) -> Result<()> {
        for (on, privileges) in given {
            for role in roles {
                let privileges = privileges.clone();
                let (to, from) = (*role, *role);
                if option != GrantOption::Only {
                    let privileges = privileges.clone();
                    self.push(match gives {
                        true => AccessChange::Grant { on, to, privileges },
                        false => AccessChange::Revoke {
                            on,
                            from,
                            privileges,
                        },
                    })?;
                }
                if option != GrantOption::Plain {
                    let Object::Table(table) = on else {
                        return Err(unsupported(
                            "grant options are of whole tables, views and sequences",
                        )
                        .with_hint("GRANT ... ON the table WITH GRANT OPTION"));
                    };
                    self.push(AccessChange::Option {
                        table,
                        role: *role,
                        privileges,
                        gives,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// What is granted on tables that are made from now on.
    fn defaults(
        &mut self,
        gives: bool,
        makers: &[RoleName],
        privileges: &Listed,
        roles: &[RoleName],
    ) -> Result<()> {
        let current = [RoleName::Current];
        let makers = if makers.is_empty() {
            &current[..]
        } else {
            makers
        };
        let grantees = self.grantees(roles)?;
        for maker in makers {
            let name = maker;
            let maker = self.role(maker).map_err(|error| match name {
                RoleName::Current => error.with_hint("say whose tables: FOR ROLE ..."),
                _ => error,
            })?;
            if !self.gate.rights().superuser && !self.gate.rights().roles.contains(&maker) {
                return Err(denied("permission denied to change default privileges")
                    .with_hint("members of a role may say what is granted on its tables"));
            }
            // What stands for the tables of a maker is of no object yet.
            for (_, privileges) in whole(Object::Database, &Privilege::OF_TABLES, privileges) {
                for to in &grantees {
                    self.push(AccessChange::Default {
                        maker,
                        to: *to,
                        privileges: privileges.clone(),
                        gives,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn table(&self, name: &str) -> Result<Arc<Table>> {
        match self.visible.relation(name) {
            Some(table) => Ok(table),
            None => self.visible.require(name),
        }
    }

    fn own(&mut self, name: &str, of: Owned, if_exists: bool, owner: &RoleName) -> Result<()> {
        let found = match of {
            Owned::Sequence => return self.own_sequence(name, if_exists, owner),
            // As PostgreSQL's older tools write it.
            Owned::Table if self.is_sequence_alone(name) => {
                return self.own_sequence(name, if_exists, owner);
            }
            Owned::Table => self.table(name),
            Owned::View => self
                .visible
                .view(name)
                .or_else(|| self.visible.plain_view(name))
                .ok_or_else(|| no_plain_view(&self.visible, name)),
            Owned::MaterializedView => self
                .visible
                .view(name)
                .ok_or_else(|| no_view(&self.visible, name)),
        };
        let table = match found {
            Err(_) if if_exists => {
                let said = format!("there is no {:?}: skipped", own_name(name));
                self.notices.push(Notice::note(said));
                return Ok(());
            }
            found => found?,
        };
        if !self.gate.owns(table.id) {
            return Err(denied(format!("you must own {:?}", table.name)));
        }
        let owner = self.owner(owner)?;
        self.give(table.id, owner)
    }

    /// Whether a name is that of a sequence, and of no table or view.
    fn is_sequence_alone(&self, name: &str) -> bool {
        self.visible.relation(name).is_none() && self.visible.sequence_named(name).is_some()
    }

    /// Gives a sequence another owner. One of a column is whose the table is, and stays so:
    /// scripts say it of each.
    fn own_sequence(&mut self, name: &str, if_exists: bool, owner: &RoleName) -> Result<()> {
        let sequence = match self.visible.require_sequence(name) {
            Err(error) if if_exists && error.kind() == ErrorKind::NotFound => {
                let said = format!("{}: skipped", error.message());
                self.notices.push(Notice::note(said));
                return Ok(());
            }
            seen => seen?.sequence,
        };
        self.gate.own_sequence(&sequence)?;
        if sequence.owner.is_some() {
            let said = "a sequence of a column is whose the table is: nothing changes";
            self.notices.push(Notice::note(said));
            return Ok(());
        }
        let owner = self.owner(owner)?;
        self.give(sequence.id.as_object(), owner)
    }

    /// Who shall own something: the folder's owner can be named too, by superusers.
    fn owner(&self, name: &RoleName) -> Result<Option<RoleId>> {
        let folder = matches!(name, RoleName::Named(name) if name == CATALOG)
            || (*name == RoleName::Current && self.identity.current.is_none())
            || (*name == RoleName::Session && self.identity.session.is_none());
        if folder {
            self.gate
                .superuser("give tables to whoever owns the folder")?;
            return Ok(None);
        }
        let role = self.role(name)?;
        let may =
            self.gate.rights().superuser || self.access.may_become(self.identity.current, role);
        match may {
            true => Ok(Some(role)),
            false => Err(denied("you must be a member of the role that shall own it")),
        }
    }

    fn give(&mut self, table: lazybase_model::TableId, owner: Option<RoleId>) -> Result<()> {
        self.push(AccessChange::Own { table, owner })
    }

    fn reassign(&mut self, from: &[RoleName], to: &RoleName) -> Result<()> {
        let to = self.owner(to)?;
        for role in from {
            let Some(from) = self.owner(role)? else {
                return Err(
                    unsupported("what the folder's owner made is not reassigned at once")
                        .with_hint("ALTER TABLE ... OWNER TO ..., table by table"),
                );
            };
            let owned: Vec<_> = self.access.owned_by(from).collect();
            for table in owned {
                self.give(table, to)?;
            }
            let producers = self.access.producers.iter();
            let producers = producers.filter(|(_, owner)| **owner == from);
            let producers: Vec<String> = producers.map(|(name, _)| name.clone()).collect();
            for name in producers {
                self.push(AccessChange::Producer { name, owner: to })?;
            }
        }
        Ok(())
    }
}

/// Privileges on one thing.
type Given = Vec<(Object, Privileges)>;

fn whole(on: Object, all: &[Privilege], listed: &Listed) -> Given {
    let mut privileges = Privileges::new();
    for (privilege, _) in listed {
        match privilege {
            Some(privilege) => drop(privileges.insert(*privilege)),
            None => privileges.extend(all),
        }
    }
    vec![(on, privileges)]
}

/// The name of a new role.
fn check_name(name: &str) -> Result<()> {
    let refused = |what: String| Err(Error::invalid(what).with_sqlstate("42939"));
    match name {
        "" => Err(Error::invalid("a role needs a name").with_sqlstate("42602")),
        CATALOG => refused(format!("{name:?} is whoever owns the folder")),
        "public" | "none" => refused(format!("no role can be called {name:?}")),
        name if name.starts_with("pg_") => {
            refused("names that begin with pg_ are PostgreSQL's own".to_owned())
        }
        name if name.len() > 63 => {
            Err(Error::invalid("the role's name has more than 63 bytes").with_sqlstate("42622"))
        }
        name if name.contains('\0') => {
            Err(Error::invalid("the role's name holds a zero").with_sqlstate("42602"))
        }
        _ => Ok(()),
    }
}

/// The moment that a text names; `None` is never.
fn moment(text: &str) -> Result<Option<i64>> {
    if text.trim().eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    match utc_micros(text.trim()) {
        Some(micros) => Ok(Some(micros)),
        None => Err(Error::invalid("VALID UNTIL takes a moment")
            .with_hint("write '2030-01-31 12:00:00+00', or 'infinity'")
            .with_sqlstate("22007")),
    }
}
