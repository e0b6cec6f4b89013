//! Who is let in: names and passwords become roles.
//!
//! While no role can show who it is, whoever is on this machine is let in by name alone: as the
//! role of the name, or as the folder's owner. Roles show who they are by passwords, and some
//! servers know them otherwise too: by certificates, or because this machine is trusted, where
//! names are enough, and the owner's is one of them. So a role that can't come in itself keeps
//! nobody else out.
//! Invariant AUTH-1: who asks can't tell a wrong password from a name that is not there, that may
//! not log in, or that has no password (any more).

use std::net::SocketAddr;
use std::sync::OnceLock;

use futures::future::BoxFuture;
use lazybase_model::access::{Access, Logins, Object, Privilege, Role, RoleId};
use lazybase_model::{Error, Result};
use pgwire::api::auth::sasl::scram::ScramSecret;

use super::gate::denied;
use super::scram::{self, Parts};
use crate::database::Database;
use crate::parse::CATALOG;
use crate::session::Session;

/// A role that showed who it is. Only what authenticates makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    role: Option<RoleId>,
    name: String,
    connection_limit: Option<u32>,
    superuser: bool,
}

impl Authenticated {
    /// The role's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The most connections that it may have at a time; `None` is no limit.
    pub fn connection_limit(&self) -> Option<u32> {
        self.connection_limit
    }

    /// Whether it may do everything, as the folder's owner may.
    pub fn is_superuser(&self) -> bool {
        self.superuser
    }
}

/// What a SCRAM exchange is made with, and whom it lets in at its end.
pub struct Challenge {
    /// For the exchange; made up where there is nobody to let in.
    pub secret: ScramSecret,
    user: String,
    lets_in: bool,
}

impl Challenge {
    /// Whom the exchange lets in, once the client has proved that it knows the password.
    ///
    /// # Errors
    /// `Invalid` (28P01) where nobody is: also where a made-up secret was met by chance.
    pub fn passed(&self, database: &Database) -> Result<Authenticated> {
        match self.lets_in {
            true => database.role_of(&self.user),
            false => Err(wrong_password(&self.user)),
        }
    }
}

impl Database {
    /// Whether everybody on this machine is let in, for no role can show who it is: none that may
    /// log in has a password, nor, where the server knows roles `without_passwords` too, by
    /// certificates or because it trusts this machine, may any log in at all.
    pub fn is_open(&self, without_passwords: bool) -> bool {
        let logins = self.instance().manifest().access.logins();
        match without_passwords {
            true => logins == Logins::None,
            false => logins != Logins::WithPassword,
        }
    }

    /// Whether some role can log in with a password: what servers that others reach need.
    pub fn has_password(&self) -> bool {
        !self.is_open(false)
    }

    /// Lets in by name alone somebody on this machine, while that is open ([`Database::is_open`]):
    /// as the role of that name, if it may log in, or else as the folder's owner.
    ///
    /// # Errors
    /// `Invalid`: 28000 where a role that may log in has a password, and none that may has this
    /// name; 42501 without CONNECT.
    pub fn trust(&self, user: &str) -> Result<Authenticated> {
        let manifest = self.instance().manifest();
        let role = manifest.access.role_named(user);
        let is_role = role.is_some_and(|role| role.login);
        match is_role || manifest.access.logins() == Logins::WithPassword {
            true => self.role_of(user),
            false => Ok(owner(user)),
        }
    }

    /// Lets in by name alone somebody on this machine, where that is trusted: the roles that may
    /// log in, and `lazybase`, who owns the folder.
    ///
    /// # Errors
    /// `Invalid` (28000) for other names; 42501 without CONNECT.
    pub fn trust_here(&self, user: &str) -> Result<Authenticated> {
        if user == CATALOG {
            return Ok(owner(user));
        }
        self.role_of(user).map_err(|error| match error.sqlstate() {
            "28000" => error.with_hint(format!(
                "connect as a role with LOGIN, or as {CATALOG}, who owns the folder"
            )),
            _ => error,
        })
    }

    /// Lets in the role of the name in a certificate that was verified.
    ///
    /// # Errors
    /// `Invalid`: 28000 where no role that may log in has this name; 42501 without CONNECT.
    pub fn trust_certificate(&self, name: &str) -> Result<Authenticated> {
        self.role_of(name)
    }

    /// Begins a SCRAM-SHA-256 exchange. Everybody gets one, whoever they say they are.
    pub fn challenge(&self, user: &str) -> Result<Challenge> {
        let manifest = self.instance().manifest();
        let role = manifest.access.role_named(user);
        // The salt of a role stays what it was while the role may not log in.
        let parts = role.and_then(|role| Parts::read(role.password.as_ref()?.as_text()));
        let may = role.is_some_and(|role| role.login && self.is_valid(role));
        let lets_in = may && parts.is_some();
        let parts = match parts {
            Some(parts) => parts,
            None => scram::nobodys(user, seed()?),
        };
        Ok(Challenge {
            secret: parts.secret(),
            user: user.to_owned(),
            lets_in,
        })
    }

    /// Lets in by a password that the client has sent itself, over a connection that nobody else
    /// reads.
    ///
    /// # Errors
    /// `Invalid`: 28P01 for whatever is not right, 42501 without CONNECT.
    pub fn authenticate_password<'a>(
        &'a self,
        user: &'a str,
        password: &'a str,
    ) -> BoxFuture<'a, Result<Authenticated>> {
        Box::pin(async move {
            let manifest = self.instance().manifest();
            let role = manifest.access.role_named(user);
            let found = role.filter(|role| role.login && self.is_valid(role));
            let parts = found.and_then(|role| Parts::read(role.password.as_ref()?.as_text()));
            let there = parts.is_some();
            let parts = match parts {
                Some(parts) => parts,
                None => scram::nobodys(user, seed()?),
            };
            // The password of nobody is tested too: it takes as long.
            let right = scram::is_password(&parts, password)?;
            match right && there {
                true => self.role_of(user),
                false => Err(wrong_password(user)),
            }
        })
    }

    /// Tells those who run the server why somebody was not let in by a password: whoever asks is
    /// told the same whatever it is.
    pub fn note_refused(&self, user: &str, peer: SocketAddr) {
        let manifest = self.instance().manifest();
        let why = match manifest.access.role_named(user) {
            None => "there is no such role",
            Some(role) if !role.login => "the role has no LOGIN",
            Some(role) if role.password.is_none() => "the role has no password",
            Some(role) if !self.is_valid(role) => "the role's VALID UNTIL is over",
            Some(_) => "the password is not the role's",
        };
        tracing::info!(user, %peer, "password refused: {why}");
    }

    /// A session of somebody who was let in, with the settings that are the role's.
    pub fn session_of(&self, who: &Authenticated) -> Session {
        Session::new(self.clone(), who.role)
    }

    /// The role of a name that has shown who it is, if it may connect.
    fn role_of(&self, user: &str) -> Result<Authenticated> {
        let manifest = self.instance().manifest();
        let access: &Access = &manifest.access;
        let found = access.role_named(user).filter(|role| role.login);
        let role = found.ok_or_else(|| {
            Error::invalid(format!("role {user:?} can't log in")).with_sqlstate("28000")
        })?;
        let rights = access.rights_of(Some(role.id));
        if !access.may(&rights, Privilege::Connect, Object::Database) {
            return Err(
                denied("permission denied for database lazybase").with_detail("CONNECT is needed")
            );
        }
        Ok(Authenticated {
            role: Some(role.id),
            name: role.name.clone(),
            connection_limit: role.connection_limit,
            superuser: rights.superuser,
        })
    }

    fn is_valid(&self, role: &Role) -> bool {
        let now = self.instance().now_micros();
        role.valid_until_micros.is_none_or(|until| now < until)
    }
}

/// Whoever owns the folder, by the name that was given.
fn owner(user: &str) -> Authenticated {
    Authenticated {
        role: None,
        name: user.to_owned(),
        connection_limit: None,
        superuser: true,
    }
}

/// What made-up salts are made of: the process's own.
fn seed() -> Result<&'static [u8; 32]> {
    static SEED: OnceLock<[u8; 32]> = OnceLock::new();
    if let Some(seed) = SEED.get() {
        return Ok(seed);
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| Error::unavailable(format!("no random numbers: {error}")))?;
    Ok(SEED.get_or_init(|| seed))
}

/// Somebody is not let in.
pub fn wrong_password(user: &str) -> Error {
    let error = Error::invalid(format!("password authentication failed for user {user:?}"))
        .with_sqlstate("28P01");
    match user {
        // No role can have this name: that it has no password is known to everybody.
        CATALOG => error
            .with_detail(format!(
                "{CATALOG} is whoever owns the folder, and has no password"
            ))
            .with_hint(
                "connect as a role: lazybase role create makes one while no server runs; or serve \
                 with --trust-loopback",
            ),
        _ => error,
    }
}
