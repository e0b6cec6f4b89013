//! Statements about who may do what, read by their tokens: CREATE, ALTER and DROP ROLE or USER,
//! GRANT, REVOKE, OWNER TO, REASSIGN OWNED, SET ROLE, and settings by role and database.
//!
//! What PostgreSQL has of these and LazyBase has not is refused by name. Invariant SEC-1: a
//! password is read into a [`Secret`], which no message and no debugging output shows.

use std::fmt;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::access::Privilege;
use lazybase_model::label::Authorizations;
use lazybase_model::{Error, Result};

use super::{CATALOG, SCHEMA, unsupported};
use crate::temporary::{self, PG_TEMP};
use crate::text_places::at_token;

mod grants;
#[cfg(test)]
mod tests;

/// A text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A role as a statement names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RoleName {
    Named(String),
    Public,
    Current,
    Session,
}

/// What CREATE ROLE and ALTER ROLE say of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RoleOption {
    Superuser(bool),
    CreateRole(bool),
    Login(bool),
    Inherit(bool),
    /// CREATEDB, REPLICATION, BYPASSRLS: superusers have them, nobody else can.
    OfSuperusers(&'static str),
    Password(Option<Secret>),
    /// As it is written.
    ValidUntil(String),
    ConnectionLimit(i64),
    /// It may read by these, and no others.
    Authorizations(Authorizations),
    /// It is a member of these.
    InRoles(Vec<RoleName>),
    /// These are members of it, and may make others members or not.
    Members(Vec<RoleName>, bool),
}

/// What privileges are given on, or taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Targets {
    Tables(Vec<String>),
    AllTables,
    Database,
    /// USAGE of the one schema: everybody has it.
    Usage,
    Sequences(Vec<String>),
    AllSequences,
    /// All of a kind that has no privileges of its own.
    Without(&'static str),
}

/// Whether those who are granted something may pass it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrantOption {
    /// Nothing is said of it.
    Plain,
    /// GRANT ... WITH GRANT OPTION.
    With,
    /// REVOKE GRANT OPTION FOR: only this is taken.
    Only,
}

/// Privileges as they are listed: `None` is ALL; then columns, if any are named.
pub(crate) type Listed = Vec<(Option<Privilege>, Vec<String>)>;

/// A statement about who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessStatement {
    CreateRole {
        name: String,
        options: Vec<RoleOption>,
    },
    AlterRole {
        role: RoleName,
        options: Vec<RoleOption>,
    },
    RenameRole {
        name: String,
        to: String,
    },
    DropRoles {
        names: Vec<String>,
        if_exists: bool,
    },
    /// A setting that sessions begin with: of a role, or of all. No name stands for all settings,
    /// no value for none of its own.
    Setting {
        role: Option<RoleName>,
        name: Option<String>,
        value: Option<String>,
    },
    Grant {
        gives: bool,
        privileges: Listed,
        on: Targets,
        roles: Vec<RoleName>,
        option: GrantOption,
        /// Whether what was passed on shall be taken too.
        cascade: bool,
    },
    /// What is granted on tables to come, of these makers; of oneself, where there is none.
    Defaults {
        gives: bool,
        makers: Vec<RoleName>,
        privileges: Listed,
        roles: Vec<RoleName>,
    },
    GrantRoles {
        roles: Vec<String>,
        members: Vec<RoleName>,
        admin: bool,
    },
    RevokeRoles {
        roles: Vec<String>,
        members: Vec<RoleName>,
        only_admin: bool,
    },
    Own {
        name: String,
        of: Owned,
        if_exists: bool,
        owner: RoleName,
    },
    Reassign {
        from: Vec<RoleName>,
        to: RoleName,
    },
    /// `None` is the role that the session began as.
    SetRole(Option<String>),
}

/// What a statement says that it gives an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owned {
    /// A table, a view, or a sequence.
    Table,
    /// A view of either kind.
    View,
    MaterializedView,
    Sequence,
}

impl AccessStatement {
    /// What the answer says was done.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            AccessStatement::CreateRole { .. } => "CREATE ROLE",
            AccessStatement::AlterRole { .. } | AccessStatement::RenameRole { .. } => "ALTER ROLE",
            AccessStatement::DropRoles { .. } => "DROP ROLE",
            AccessStatement::Setting { role: Some(_), .. } => "ALTER ROLE",
            AccessStatement::Setting { role: None, .. } => "ALTER DATABASE",
            AccessStatement::Grant { gives: true, .. } => "GRANT",
            AccessStatement::Grant { gives: false, .. } => "REVOKE",
            AccessStatement::Defaults { .. } => "ALTER DEFAULT PRIVILEGES",
            AccessStatement::GrantRoles { .. } => "GRANT ROLE",
            AccessStatement::RevokeRoles { .. } => "REVOKE ROLE",
            AccessStatement::Own { of, .. } => match of {
                Owned::Table => "ALTER TABLE",
                Owned::View => "ALTER VIEW",
                Owned::MaterializedView => "ALTER MATERIALIZED VIEW",
                Owned::Sequence => "ALTER SEQUENCE",
            },
            AccessStatement::Reassign { .. } => "REASSIGN OWNED",
            AccessStatement::SetRole(_) => "SET",
        }
    }
}

/// The statement, if it is one of these.
///
/// # Errors
/// `Invalid`: 42601 for what can't be read, 0A000 for what LazyBase does not do.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<AccessStatement>> {
    let mut cursor = Cursor { tokens, at: 0 };
    let read = match cursor.peek_words(3).as_slice() {
        ["GRANT", ..] => {
            cursor.at = 1;
            cursor.grant(true)?
        }
        ["REVOKE", ..] => {
            cursor.at = 1;
            cursor.grant(false)?
        }
        ["CREATE", kind @ ("ROLE" | "USER" | "GROUP"), ..] => {
            let login = *kind == "USER";
            cursor.at = 2;
            cursor.create_role(login)?
        }
        ["ALTER", "ROLE" | "USER" | "GROUP", ..] => {
            cursor.at = 2;
            cursor.alter_role()?
        }
        ["DROP", "ROLE" | "USER" | "GROUP", ..] => {
            cursor.at = 2;
            let if_exists = cursor.take(&["IF", "EXISTS"]);
            let names = cursor.list(Cursor::name)?;
            AccessStatement::DropRoles { names, if_exists }
        }
        ["ALTER", "DATABASE", ..] => {
            cursor.at = 2;
            cursor.alter_database()?
        }
        ["REASSIGN", "OWNED", "BY"] => {
            cursor.at = 3;
            let from = cursor.list(Cursor::role)?;
            cursor.expect("TO")?;
            let to = cursor.role()?;
            AccessStatement::Reassign { from, to }
        }
        ["DROP", "OWNED", ..] => {
            return Err(unsupported("DROP OWNED is not supported")
                .with_hint("REASSIGN OWNED BY ... TO ..., then DROP ROLE"));
        }
        ["ALTER", "DEFAULT", "PRIVILEGES"] => {
            cursor.at = 3;
            cursor.defaults()?
        }
        ["SET" | "RESET", ..] => match cursor.set_role()? {
            Some(set) => set,
            None => return Ok(None),
        },
        ["ALTER", "TABLE" | "VIEW" | "MATERIALIZED" | "SEQUENCE", ..] => match cursor.owner()? {
            Some(owner) => owner,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    match cursor.token() {
        None => Ok(Some(read)),
        Some(_) => Err(cursor.unexpected("the end of the statement")),
    }
}

struct Cursor<'t> {
    tokens: &'t [TokenWithSpan],
    at: usize,
}

impl Cursor<'_> {
    fn token(&self) -> Option<&Token> {
        let token = self.tokens.get(self.at).map(|token| &token.token);
        token.filter(|token| **token != Token::EOF)
    }

    /// The word that comes next, in capitals, unless it is quoted.
    fn word(&self) -> Option<String> {
        match self.token() {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                Some(word.value.to_ascii_uppercase())
            }
            _ => None,
        }
    }

    /// The first words, as far as they are words.
    fn peek_words(&self, count: usize) -> Vec<&'static str> {
        const KNOWN: [&str; 22] = [
            "GRANT",
            "REVOKE",
            "CREATE",
            "ALTER",
            "DROP",
            "ROLE",
            "USER",
            "GROUP",
            "DATABASE",
            "REASSIGN",
            "OWNED",
            "BY",
            "DEFAULT",
            "PRIVILEGES",
            "SET",
            "RESET",
            "TABLE",
            "VIEW",
            "MATERIALIZED",
            "SEQUENCE",
            "SESSION",
            "LOCAL",
        ];
        let words = self.tokens[self.at..].iter().take(count);
        let known = words.map(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_none() => KNOWN
                .into_iter()
                .find(|known| known.eq_ignore_ascii_case(&word.value))
                .unwrap_or(""),
            _ => "",
        });
        known.collect()
    }

    /// Goes past these words, if they come next.
    fn take(&mut self, words: &[&str]) -> bool {
        let start = self.at;
        for word in words {
            if self.word().as_deref() != Some(*word) {
                self.at = start;
                return false;
            }
            self.at += 1;
        }
        true
    }

    fn take_token(&mut self, token: &Token) -> bool {
        let is = self.token() == Some(token);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        match self.take(&[word]) {
            true => Ok(()),
            false => Err(self.unexpected(word)),
        }
    }

    /// An error that shows words alone: what is quoted may be a password.
    fn unexpected(&self, wanted: &str) -> Error {
        let found = match self.token() {
            None => "the end of the statement".to_owned(),
            Some(Token::Word(word)) => format!("{:?}", word.value),
            Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)) => {
                "a text".to_owned()
            }
            Some(Token::Number(..)) => "a number".to_owned(),
            Some(other) => format!("{:?}", other.to_string()),
        };
        let error = Error::invalid(format!("syntax error: {wanted} is expected, not {found}"));
        at_token(error.with_sqlstate("42601"), self.tokens, self.at)
    }

    fn name(&mut self) -> Result<String> {
        match self.token() {
            Some(Token::Word(word)) => {
                let name = match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                };
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// The name of a table or view, without the schema that all of them live in.
    fn table(&mut self) -> Result<String> {
        let mut parts = vec![self.name()?];
        while self.take_token(&Token::Period) {
            parts.push(self.name()?);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            [table] | [SCHEMA, table] | [CATALOG, SCHEMA, table] => Ok((*table).to_owned()),
            [PG_TEMP, table] => Ok(temporary::of_session(table)),
            _ => Err(
                Error::invalid(format!("{} has no privileges of its own", parts.join(".")))
                    .with_detail("privileges are of tables and views of the schema public")
                    .with_sqlstate("42809"),
            ),
        }
    }

    fn role(&mut self) -> Result<RoleName> {
        self.take(&["GROUP"]);
        let quoted = self.word().is_none();
        let role = match self.word().as_deref() {
            Some("PUBLIC") => RoleName::Public,
            Some("CURRENT_USER" | "CURRENT_ROLE") => RoleName::Current,
            Some("SESSION_USER") => RoleName::Session,
            _ => RoleName::Named(self.name()?),
        };
        self.at += usize::from(!quoted && !matches!(role, RoleName::Named(_)));
        Ok(role)
    }

    fn text(&mut self) -> Result<String> {
        let text = match self.token() {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                text.clone()
            }
            _ => return Err(self.unexpected("a text in single quotes")),
        };
        self.at += 1;
        Ok(text)
    }

    fn number(&mut self) -> Result<i64> {
        let minus = self.take_token(&Token::Minus);
        let number = match self.token() {
            Some(Token::Number(digits, _)) => digits.parse::<i64>().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.unexpected("a whole number"))?;
        self.at += 1;
        Ok(if minus { -number } else { number })
    }

    fn list<T>(&mut self, one: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.take_token(&Token::Comma) {
            all.push(one(self)?);
        }
        Ok(all)
    }

    fn create_role(&mut self, login: bool) -> Result<AccessStatement> {
        let name = self.name()?;
        let mut options = vec![RoleOption::Login(login)];
        options.extend(self.role_options()?);
        Ok(AccessStatement::CreateRole { name, options })
    }

    fn role_options(&mut self) -> Result<Vec<RoleOption>> {
        self.take(&["WITH"]);
        let mut options = Vec::new();
        while self.token().is_some() {
            options.push(self.role_option()?);
        }
        Ok(options)
    }

    fn role_option(&mut self) -> Result<RoleOption> {
        let word = self.word().ok_or_else(|| self.unexpected("an option"))?;
        self.at += 1;
        Ok(match word.as_str() {
            "SUPERUSER" => RoleOption::Superuser(true),
            "NOSUPERUSER" => RoleOption::Superuser(false),
            "CREATEROLE" => RoleOption::CreateRole(true),
            "NOCREATEROLE" => RoleOption::CreateRole(false),
            "LOGIN" => RoleOption::Login(true),
            "NOLOGIN" => RoleOption::Login(false),
            "INHERIT" => RoleOption::Inherit(true),
            "NOINHERIT" => RoleOption::Inherit(false),
            "CREATEDB" => RoleOption::OfSuperusers("CREATEDB"),
            "REPLICATION" => RoleOption::OfSuperusers("REPLICATION"),
            "BYPASSRLS" => RoleOption::OfSuperusers("BYPASSRLS"),
            // Nobody has what these take away.
            "NOCREATEDB" | "NOREPLICATION" | "NOBYPASSRLS" => RoleOption::InRoles(Vec::new()),
            "ENCRYPTED" => {
                self.expect("PASSWORD")?;
                RoleOption::Password(Some(Secret(self.text()?)))
            }
            "UNENCRYPTED" => {
                return Err(unsupported("passwords are never kept as they are")
                    .with_hint("leave UNENCRYPTED out"));
            }
            "PASSWORD" if self.take(&["NULL"]) => RoleOption::Password(None),
            "PASSWORD" => RoleOption::Password(Some(Secret(self.text()?))),
            "VALID" => {
                self.expect("UNTIL")?;
                RoleOption::ValidUntil(self.text()?)
            }
            "CONNECTION" => {
                self.expect("LIMIT")?;
                RoleOption::ConnectionLimit(self.number()?)
            }
            "AUTHORIZATIONS" => RoleOption::Authorizations(self.authorizations()?),
            "IN" => {
                if !self.take(&["ROLE"]) {
                    self.expect("GROUP")?;
                }
                RoleOption::InRoles(self.list(Self::role)?)
            }
            "ROLE" | "USER" => RoleOption::Members(self.list(Self::role)?, false),
            "ADMIN" => RoleOption::Members(self.list(Self::role)?, true),
            _ => {
                self.at -= 1;
                return Err(self.unexpected("an option of a role"));
            }
        })
    }

    /// Texts in parentheses, or none of them.
    fn authorizations(&mut self) -> Result<Authorizations> {
        if !self.take_token(&Token::LParen) {
            return Err(self.unexpected("an opening parenthesis"));
        }
        if self.take_token(&Token::RParen) {
            return Ok(Authorizations::new());
        }
        let all = self.list(Self::text)?;
        if !self.take_token(&Token::RParen) {
            return Err(self.unexpected("a closing parenthesis"));
        }
        if all.iter().any(String::is_empty) {
            return Err(Error::invalid("an authorization has no name")
                .with_hint("AUTHORIZATIONS () takes all of them away")
                .with_sqlstate("22023"));
        }
        Ok(all.into_iter().collect())
    }

    fn alter_role(&mut self) -> Result<AccessStatement> {
        if self.take(&["ALL"]) {
            self.in_database()?;
            return self.setting(None);
        }
        let role = self.role()?;
        if self.take(&["RENAME"]) {
            self.expect("TO")?;
            let to = self.name()?;
            return match role {
                RoleName::Named(name) => Ok(AccessStatement::RenameRole { name, to }),
                _ => Err(self.unexpected("a role's name")),
            };
        }
        self.in_database()?;
        match self.word().as_deref() {
            Some("SET" | "RESET") => self.setting(Some(role)),
            _ => {
                let options = self.role_options()?;
                Ok(AccessStatement::AlterRole { role, options })
            }
        }
    }

    /// There is one database.
    fn in_database(&mut self) -> Result<()> {
        match self.take(&["IN", "DATABASE"]) {
            true => self.database(),
            false => Ok(()),
        }
    }

    fn database(&mut self) -> Result<()> {
        let name = self.name()?;
        match name == CATALOG {
            true => Ok(()),
            false => Err(Error::not_found(format!("there is no database {name:?}"))
                .with_hint(format!("the database is called {CATALOG}"))
                .with_sqlstate("3D000")),
        }
    }

    fn alter_database(&mut self) -> Result<AccessStatement> {
        self.database()?;
        match self.word().as_deref() {
            Some("SET" | "RESET") => self.setting(None),
            _ => Err(unsupported("this form of ALTER DATABASE is not supported")
                .with_hint("write ALTER DATABASE lazybase SET name = value, or RESET name")),
        }
    }

    /// `SET name = value`, `RESET name`, `RESET ALL`.
    fn setting(&mut self, role: Option<RoleName>) -> Result<AccessStatement> {
        let resets = self.take(&["RESET"]);
        if !resets {
            self.expect("SET")?;
        }
        if resets && self.take(&["ALL"]) {
            let (name, value) = (None, None);
            return Ok(AccessStatement::Setting { role, name, value });
        }
        let mut name = self.name()?.to_lowercase();
        while self.take_token(&Token::Period) {
            name = format!("{name}.{}", self.name()?.to_lowercase());
        }
        if name == "time" && self.take(&["ZONE"]) {
            name = "timezone".to_owned();
        } else if !resets && !self.take_token(&Token::Eq) {
            self.expect("TO")?;
        }
        let value = match resets || self.take(&["DEFAULT"]) {
            true => None,
            false => Some(self.value()?),
        };
        let name = Some(name);
        Ok(AccessStatement::Setting { role, name, value })
    }

    /// What stands up to the end: a text, a number, or words.
    fn value(&mut self) -> Result<String> {
        let rest = &self.tokens[self.at..];
        let rest = rest.iter().filter(|token| token.token != Token::EOF);
        let words: Vec<String> = rest
            .map(|token| super::words::spelt(&token.token))
            .collect();
        if words.is_empty() {
            return Err(self.unexpected("a value"));
        }
        let plain = self.tokens[self.at..]
            .iter()
            .all(|token| matches!(token.token, Token::Word(_) | Token::EOF));
        self.at = self.tokens.len();
        Ok(words.join(if plain { " " } else { "" }))
    }

    /// SET ROLE, RESET ROLE; `None` for other settings.
    fn set_role(&mut self) -> Result<Option<AccessStatement>> {
        let resets = self.take(&["RESET"]);
        if !resets {
            self.at += 1;
        }
        if self.take(&["SESSION", "AUTHORIZATION"]) {
            return Err(unsupported("SESSION AUTHORIZATION can't be changed")
                .with_detail("a session stays whose it was when it connected")
                .with_hint("SET ROLE acts as another role; RESET ROLE ends that"));
        }
        let local = self.take(&["LOCAL"]);
        self.take(&["SESSION"]);
        if !self.take(&["ROLE"]) {
            return Ok(None);
        }
        if local {
            return Err(unsupported("SET LOCAL ROLE is not supported")
                .with_hint("SET ROLE lasts until RESET ROLE"));
        }
        if resets {
            return Ok(Some(AccessStatement::SetRole(None)));
        }
        if !self.take_token(&Token::Eq) {
            self.take(&["TO"]);
        }
        if self.take(&["NONE"]) || self.take(&["DEFAULT"]) {
            return Ok(Some(AccessStatement::SetRole(None)));
        }
        let name = match self.token() {
            Some(Token::SingleQuotedString(_)) => self.text()?,
            _ => self.name()?,
        };
        Ok(Some(AccessStatement::SetRole(Some(name))))
    }

    /// ALTER TABLE, VIEW or SEQUENCE ... OWNER TO; `None` for other changes of them.
    fn owner(&mut self) -> Result<Option<AccessStatement>> {
        self.at += 1;
        let of = if self.take(&["MATERIALIZED", "VIEW"]) {
            Owned::MaterializedView
        } else if self.take(&["VIEW"]) {
            Owned::View
        } else if self.take(&["TABLE"]) {
            Owned::Table
        } else if self.take(&["SEQUENCE"]) {
            Owned::Sequence
        } else {
            return Ok(None);
        };
        let if_exists = self.take(&["IF", "EXISTS"]);
        self.take(&["ONLY"]);
        let Ok(name) = self.table() else {
            return Ok(None);
        };
        if !self.take(&["OWNER", "TO"]) {
            return Ok(None);
        }
        let owner = self.role()?;
        Ok(Some(AccessStatement::Own {
            name,
            of,
            if_exists,
            owner,
        }))
    }
}

/// A statement's text without what stands behind the word PASSWORD, for logs and status: whatever
/// shows statements shows them so.
pub fn redacted(sql: &str) -> std::borrow::Cow<'_, str> {
    let lower = sql.to_ascii_lowercase();
    match lower.find("password") {
        Some(at) => {
            let end = at + "password".len();
            format!("{} ...", &sql[..end]).into()
        }
        None => sql.into(),
    }
}
