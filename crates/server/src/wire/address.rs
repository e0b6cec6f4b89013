//! Where a server is, how it is spoken to, and as whom: an URL or `key=value` pairs, and the
//! variables that PostgreSQL's clients know.
//!
//! ```text
//!   --url  ->  sslmode, sslrootcert, or PGSSLMODE, PGSSLROOTCERT   ->  Tls
//!          ->  sslcert, sslkey, or PGSSLCERT, PGSSLKEY             ->  Tls
//!          ->  everything else; PGPASSWORD, USER                   ->  tokio-postgres' Config
//! ```
//!
//! Invariant ADR-1: a mode that asks for a server to be verified is never read as a weaker one.

use std::error::Error as _;
use std::path::{Path, PathBuf};

use lazybase_model::{Error, Result};
use lazybase_tls::{ClientFiles, Trust};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::Tls;

/// What is read here, for tokio-postgres knows less of it.
const MODE: &str = "sslmode";
const ROOTS: &str = "sslrootcert";
const CERTIFICATE: &str = "sslcert";
const KEY: &str = "sslkey";

/// A server, and how it is spoken to.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: Tls,
}

impl Address {
    /// Reads an address, with the variables of the environment.
    ///
    /// # Errors
    /// `Invalid` for one that is none, and for a file of certificates that can't be used.
    pub(super) fn read(text: &str) -> Result<Address> {
        Address::of(text, &|name| std::env::var(name).ok())
    }

    fn of(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Address> {
        let parts = Parts::of(text);
        let mut config: Config = parts.rest.parse().map_err(|error| no_address(&error))?;
        let mode = parts.mode.or_else(|| variable("PGSSLMODE"));
        let roots = parts.roots.or_else(|| variable("PGSSLROOTCERT"));
        let (mode, trust) = encryption(mode.as_deref(), roots.as_deref())?;
        config.ssl_mode(mode);
        let roots = roots.filter(|roots| roots != SYSTEM).map(PathBuf::from);
        let certificate = parts.certificate.or_else(|| variable("PGSSLCERT"));
        let key = parts.key.or_else(|| variable("PGSSLKEY"));
        let own = own_files(certificate.as_deref(), key.as_deref())?;
        let tls = Tls::new(trust, roots.as_deref(), own)?;
        if config.get_user().is_none() {
            config.user(variable("USER").unwrap_or_else(|| "lazybase".to_owned()));
        }
        if config.get_password().is_none()
            && let Some(password) = variable("PGPASSWORD")
        {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("lazybase sql");
        }
        Ok(Address { config, tls })
    }

    /// Who speaks to which server: for people, and so without a password.
    pub(super) fn shown(&self) -> String {
        let user = self.config.get_user().unwrap_or_default();
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(folder)) => folder.display().to_string(),
            None => {
                let first = self.config.get_hostaddrs().first();
                first.map_or_else(String::new, ToString::to_string)
            }
        };
        match self.config.get_ports().first() {
            Some(port) => format!("{user} at {host}:{port}"),
            None => format!("{user} at {host}"),
        }
    }
}

fn no_address(error: &tokio_postgres::Error) -> Error {
    let why = match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    Error::invalid(format!("--url is no address of a server: {why}"))
        .with_hint("write postgresql://127.0.0.1:5432/lazybase")
}

/// What the client shows of its own; the one is nothing without the other.
fn own_files<'a>(
    certificate: Option<&'a str>,
    key: Option<&'a str>,
) -> Result<Option<ClientFiles<'a>>> {
    let alone = |given: &str, missing: &str| {
        Err(
            Error::invalid(format!("{given} is given without {missing}"))
                .with_hint("a client shows a certificate with the private key that belongs to it")
                .with_sqlstate("22023"),
        )
    };
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(ClientFiles {
            certificate: Path::new(certificate),
            key: Path::new(key),
        })),
        (Some(_), None) => alone(CERTIFICATE, KEY),
        (None, Some(_)) => alone(KEY, CERTIFICATE),
    }
}

/// Roots that stand for those of the system.
const SYSTEM: &str = "system";

/// Whether there is encryption, and what is checked of the server.
fn encryption(mode: Option<&str>, roots: Option<&str>) -> Result<(SslMode, Trust)> {
    let system = roots == Some(SYSTEM);
    match mode {
        Some("verify-full") => Ok((SslMode::Require, Trust::VouchedForByName)),
        None if system => Ok((SslMode::Require, Trust::VouchedForByName)),
        Some(weak @ ("disable" | "allow" | "prefer" | "require" | "verify-ca")) if system => Err(
            Error::invalid(format!("sslmode={weak} is too weak for sslrootcert=system"))
                .with_detail("everybody can get a certificate that a system trusts")
                .with_hint("sslmode=verify-full asks for the server's name too")
                .with_sqlstate("22023"),
        ),
        Some("disable") => Ok((SslMode::Disable, Trust::Anybody)),
        None | Some("allow" | "prefer") => Ok((SslMode::Prefer, Trust::Anybody)),
        // Who names those that are trusted wants it to count, as with PostgreSQL's own clients.
        Some("require") if roots.is_some() => Ok((SslMode::Require, Trust::VouchedFor)),
        Some("require") => Ok((SslMode::Require, Trust::Anybody)),
        Some("verify-ca") => Ok((SslMode::Require, Trust::VouchedFor)),
        Some(other) => Err(Error::invalid(format!("there is no sslmode {other:?}"))
            .with_hint("it is disable, prefer, require, verify-ca or verify-full")
            .with_sqlstate("22023")),
    }
}

/// An address, and what was taken out of it.
struct Parts {
    rest: String,
    mode: Option<String>,
    roots: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

impl Parts {
    fn of(text: &str) -> Parts {
        let mut parts = Parts {
            rest: text.to_owned(),
            mode: None,
            roots: None,
            certificate: None,
            key: None,
        };
        let is_url = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        if !is_url {
            for word in text.split_whitespace() {
                let pair = word.split_once('=');
                if pair.is_some_and(|(key, value)| parts.take(key, value.trim_matches('\''))) {
                    parts.rest = parts.rest.replacen(word, "", 1);
                }
            }
            return parts;
        }
        if let Some((before, query)) = text.split_once('?') {
            let mut others = Vec::new();
            for word in query.split('&') {
                let pair = word.split_once('=');
                if !pair.is_some_and(|(key, value)| parts.take(key, &decoded(value))) {
                    others.push(word);
                }
            }
            parts.rest = match others.is_empty() {
                true => before.to_owned(),
                false => format!("{before}?{}", others.join("&")),
            };
        }
        parts
    }

    fn take(&mut self, key: &str, value: &str) -> bool {
        let place = match key {
            MODE => &mut self.mode,
            ROOTS => &mut self.roots,
            CERTIFICATE => &mut self.certificate,
            KEY => &mut self.key,
            _ => return false,
        };
        *place = Some(value.to_owned());
        true
    }
}

/// A value of an URL, without its `%2F`.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|_| *first == b'%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn addresses_are_read_with_what_they_say_of_encryption() {
        for (text, mode, roots) in [
            ("postgresql://me@h:1/lazybase", None, None),
            (
                "postgresql://me@h:1/lazybase?sslmode=require",
                Some("require"),
                None,
            ),
            (
                "postgresql://me@h:1/lazybase?connect_timeout=3&sslmode=verify-full\
                 &sslrootcert=%2Fa%20b%2Fca.crt",
                Some("verify-full"),
                Some("/a b/ca.crt"),
            ),
            (
                "host=h port=1 user=me dbname=lazybase sslrootcert='ca.crt' sslmode=verify-ca",
                Some("verify-ca"),
                Some("ca.crt"),
            ),
        ] {
            let parts = Parts::of(text);
            assert_eq!(parts.mode.as_deref(), mode, "{text}");
            assert_eq!(parts.roots.as_deref(), roots, "{text}");
            let config: Config = parts.rest.parse().unwrap();
            assert_eq!(config.get_user(), Some("me"), "{text}");
            assert_eq!(config.get_dbname(), Some("lazybase"), "{text}");
        }
    }

    #[test]
    fn modes_are_those_of_other_clients_and_never_weaker() {
        use Trust::{Anybody, VouchedFor, VouchedForByName};

        for (mode, roots, means) in [
            (None, None, Some((SslMode::Prefer, Anybody))),
            (Some("disable"), None, Some((SslMode::Disable, Anybody))),
            (Some("prefer"), None, Some((SslMode::Prefer, Anybody))),
            (Some("require"), None, Some((SslMode::Require, Anybody))),
            (
                Some("require"),
                Some("f"),
                Some((SslMode::Require, VouchedFor)),
            ),
            (
                Some("verify-ca"),
                None,
                Some((SslMode::Require, VouchedFor)),
            ),
            (
                Some("verify-full"),
                None,
                Some((SslMode::Require, VouchedForByName)),
            ),
            (
                None,
                Some("system"),
                Some((SslMode::Require, VouchedForByName)),
            ),
            (Some("verify-ca"), Some("system"), None),
            (Some("verify_full"), None, None),
        ] {
            assert_eq!(encryption(mode, roots).ok(), means, "{mode:?} {roots:?}");
        }
    }

    #[test]
    fn variables_fill_in_what_an_address_leaves_out() {
        let variable = |name: &str| match name {
            "USER" => Some("anna".to_owned()),
            "PGPASSWORD" => Some("secret".to_owned()),
            "PGSSLMODE" => Some("require".to_owned()),
            _ => None,
        };
        let read = Address::of("postgresql://h/lazybase", &variable).unwrap();
        assert_eq!(read.config.get_user(), Some("anna"));
        assert_eq!(read.config.get_password(), Some(&b"secret"[..]));
        assert_eq!(read.config.get_ssl_mode(), SslMode::Require);
        let url = "postgresql://bob:other@h/lazybase?sslmode=disable";
        let read = Address::of(url, &variable).unwrap();
        assert_eq!(read.config.get_user(), Some("bob"));
        assert_eq!(read.shown(), "bob at h:5432");
        assert_eq!(read.config.get_password(), Some(&b"other"[..]));
        assert_eq!(read.config.get_ssl_mode(), SslMode::Disable);
        let read = Address::of("host=::1 port=7 user=u password=secret", &variable).unwrap();
        assert_eq!(read.shown(), "u at ::1:7");
        let error = Address::of("postgresql://h/x?sslmode=strict", &nothing);
        assert!(error.err().unwrap().hint().unwrap().contains("verify-full"));
        for (text, said) in [
            (
                "postgresql://h/x?sslcert=a.crt",
                "sslcert is given without sslkey",
            ),
            ("host=h sslkey=a.key", "sslkey is given without sslcert"),
            ("postgresql://h/x?sslcrt=a.crt", "sslcrt"),
        ] {
            let error = Address::of(text, &nothing).err().unwrap();
            assert!(error.message().contains(said), "{text}: {error}");
        }
    }
}
