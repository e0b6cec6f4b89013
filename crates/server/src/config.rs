//! The configuration: one table of options, and four ways to set each.
//!
//! ```text
//!   --flag  >  LAZYBASE_VARIABLE  >  a TOML file (--config, LAZYBASE_CONFIG)  >  the default
//! ```
//!
//! Reads the environment and the file; writes nothing. Invariant CFG-1: an option has the same
//! name through every door, and one that is not known is an error, never ignored; of variables,
//! which may be somebody else's, those are told of that are nearly an option's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::Duration;

use lazybase_cluster::Settings;
use lazybase_model::{Error, Result};

use crate::{failure, memory};

mod flags;
mod options;
mod print;
mod values;

pub use flags::Given;
pub(crate) use options::OPTIONS;
pub use options::misspelt;
pub use print::printed;

/// The environment variable that names the file; behind a `-`, one that need not be there.
const FILE: &str = "LAZYBASE_CONFIG";

/// The options whose defaults depend on the machine.
const CACHE_BYTES: &str = "cache_bytes";
/// See [`CACHE_BYTES`].
const QUERY_MEMORY: &str = "query_memory";
/// See [`CACHE_BYTES`].
const HEAVY_STATEMENTS: &str = "heavy_statements";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

/// Everything that can be configured.
#[derive(Debug, Clone)]
pub struct Config {
    /// The database's folder.
    pub db: Option<PathBuf>,
    /// Where PostgreSQL clients connect; `None` where that is off.
    pub pg_listen: Option<SocketAddr>,
    /// Where Arrow Flight SQL clients connect; `None` where that is off.
    pub flight_listen: Option<SocketAddr>,
    /// Where health and metrics are served; `None` where that is off.
    pub http_listen: Option<SocketAddr>,
    /// The server's certificate and its chain.
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key.
    pub tls_key: Option<PathBuf>,
    /// Certificates that vouch for clients.
    pub tls_client_ca: Option<PathBuf>,
    /// Whether HTTP asks for certificates.
    pub http_client_cert: bool,
    /// Whether roles of this machine need no password.
    pub trust_loopback: bool,
    /// The most connections at a time.
    pub max_connections: usize,
    /// How many of these are kept for superusers.
    pub superuser_reserved_connections: usize,
    /// How long statements may go on once the server was told to stop.
    pub grace: Duration,
    /// How long a statement may take over the wire; zero is no limit.
    pub statement_timeout: Duration,
    /// Which events are logged, as `tracing` filters them.
    pub log_level: String,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Statements that take longer are logged with what they read.
    pub slow_query: Option<Duration>,
    /// Where traces go, over OTLP.
    pub trace_endpoint: Option<String>,
    /// How the database itself runs.
    pub settings: Settings,
    /// Where each value comes from that is no default.
    sources: BTreeMap<&'static str, Source>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Flag,
    Variable,
    File(PathBuf),
}

impl Default for Config {
    fn default() -> Self {
        let here = |port| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        Config {
            db: None,
            pg_listen: here(5432),
            flight_listen: here(31337),
            http_listen: here(8088),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            http_client_cert: false,
            trust_loopback: false,
            max_connections: 500,
            superuser_reserved_connections: 3,
            grace: Duration::from_secs(10),
            statement_timeout: Duration::ZERO,
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
            slow_query: Some(Duration::from_secs(10)),
            trace_endpoint: None,
            settings: Settings::default(),
            sources: BTreeMap::new(),
        }
    }
}

/// The configuration of this process, once `main` has read it.
static IN_FORCE: OnceLock<Config> = OnceLock::new();

/// The configuration of this process.
pub fn in_force() -> Config {
    IN_FORCE.get().cloned().unwrap_or_default()
}

impl Config {
    /// The configuration that arguments, environment and file make together; it is in force from
    /// here on.
    ///
    /// # Errors
    /// `Invalid` for a value that is not one and for an unknown option, naming where it stands;
    /// `NotFound` for a file that is not there.
    pub fn read(
        db: Option<PathBuf>,
        file: Option<PathBuf>,
        given: Option<&Given>,
    ) -> Result<Config> {
        let file = file.or_else(|| std::env::var_os(FILE).and_then(named_file));
        let text = match &file {
            None => None,
            Some(path) => Some((path.as_path(), read_file(path)?)),
        };
        let text = text.as_ref().map(|(path, text)| (*path, text.as_str()));
        let mut config = Config::of(given, &|name| std::env::var_os(name), text)?;
        if let Some(db) = db {
            let by_variable = std::env::var_os("LAZYBASE_DB").is_some_and(|value| *value == *db);
            let source = match by_variable {
                true => Source::Variable,
                false => Source::Flag,
            };
            config.db = Some(db);
            config.sources.insert("db", source);
        }
        if !config.is_given(CACHE_BYTES) {
            config.settings.cache_bytes = memory::of_cache();
        }
        if !config.is_given(QUERY_MEMORY) {
            config.settings.query_memory = memory::of_queries(&config.settings);
        }
        if !config.is_given(HEAVY_STATEMENTS) {
            let cores = available_parallelism().map_or(1, NonZeroUsize::get);
            config.settings.heavy_statements = config.settings.heavy_statements.max(cores);
        }
        // There is one `main`, which reads it once.
        let _ = IN_FORCE.set(config.clone());
        Ok(config)
    }

    /// The same from what is given alone: flags, variables, and the text of a file.
    pub(crate) fn of(
        given: Option<&Given>,
        variable: &dyn Fn(&str) -> Option<OsString>,
        file: Option<(&Path, &str)>,
    ) -> Result<Config> {
        let mut config = Config::default();
        if let Some((path, text)) = file {
            config.take_file(path, text)?;
        }
        for option in OPTIONS {
            let name = option.variable();
            if let Some(value) = variable(&name) {
                let value = value.into_string().map_err(|value| {
                    Error::invalid(format!("{name} is not readable: {}", value.display()))
                })?;
                option.set(&mut config, &value, &name)?;
                config.sources.insert(option.key, Source::Variable);
            }
        }
        for (key, value) in given.into_iter().flat_map(Given::each) {
            let option = options::named(key).expect("flags are made of options");
            option.set(&mut config, value, option.flag())?;
            config.sources.insert(option.key, Source::Flag);
        }
        Ok(config)
    }

    fn take_file(&mut self, path: &Path, text: &str) -> Result<()> {
        let table: toml::Table = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text[..at.min(text.len())].matches('\n').count();
            let message = error.message().lines().next().unwrap_or_default();
            Error::invalid(format!("{}, line {line}: {message}", path.display()))
                .with_hint("texts stand in double quotes: pg_listen = \"127.0.0.1:5432\"")
        })?;
        for (key, value) in &table {
            let place = format!("{}: {key}", path.display());
            let Some(option) = options::named(key) else {
                return Err(options::unknown(key, &path.display().to_string()));
            };
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(on) if option.is_switch() => on.to_string(),
                _ => {
                    return Err(Error::invalid(format!("{place} is no text and no number"))
                        .with_hint(format!("write {key} = \"{}\"", option.value)));
                }
            };
            option.set(self, &value, &place)?;
            let source = Source::File(path.to_owned());
            self.sources.insert(option.key, source);
        }
        Ok(())
    }

    /// Whether somebody chose the value, be it the default or not.
    pub fn is_given(&self, key: &str) -> bool {
        self.sources.contains_key(key)
    }
}

/// The file that a variable names; none where it says that there need not be one, and there is
/// none. Where that can't be known, reading it says why.
fn named_file(value: OsString) -> Option<PathBuf> {
    let Some(optional) = value.to_str().and_then(|text| text.strip_prefix('-')) else {
        return Some(PathBuf::from(value));
    };
    let path = PathBuf::from(optional);
    path.try_exists().unwrap_or(true).then_some(path)
}

fn read_file(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        failure::io(path.display(), &error)
            .with_hint("--config, or LAZYBASE_CONFIG, names a TOML file")
    })
}

#[cfg(test)]
mod tests;
