//! The settings of a session: `lazybase.*`, and DataFusion's own by their names.
//!
//! Reads and writes values in the session only. Invariant SET-1: an unknown name is an error with
//! the nearest known one, never ignored.

use datafusion::common::format::MetricType;
use datafusion::prelude::SessionConfig;
use lazybase_model::{Error, Freshness, OnMiss, Result};

use crate::error::{from_datafusion, nearest};
use crate::parse::{CATALOG, SCHEMA};

#[cfg(test)]
mod tests;

/// A setting as SHOW gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) description: String,
}

/// Our own settings, with what they do. Those that only tell something are told by the session.
const OURS: [(&str, &str); 8] = [
    (
        "lazybase.freshness",
        "how stale answers may be: seconds, '500 ms', or 'best effort'",
    ),
    (
        "lazybase.on_miss",
        "when the bound can't be met at once: dig, wait 2 s, error or stale",
    ),
    (
        "lazybase.monotonic",
        "never answer from before what this session has seen or written",
    ),
    (
        "lazybase.read_modify_write",
        "allow SET n = n + 1; updates of others can be lost",
    ),
    (
        "lazybase.last_answer",
        "the stamp of the last answer (read only)",
    ),
    (
        "lazybase.last_token",
        "the token of the last write, for AFTER (read only)",
    ),
    (
        "lazybase.retention",
        "how long horizons stay readable: LAZYBASE_RETENTION at the opening (read only)",
    ),
    (
        "application_name",
        "who holds this session's snapshots, for the status",
    ),
];

/// Names that PostgreSQL's tools set as they connect, and that change nothing here.
const ACCEPTED: [&str; 7] = [
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "extra_float_digits",
    "intervalstyle",
    "search_path",
    "standard_conforming_strings",
];

/// The values of one session.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) freshness: Freshness,
    pub(crate) on_miss: OnMiss,
    pub(crate) monotonic: bool,
    pub(crate) read_modify_write: bool,
    pub(crate) application_name: String,
    /// DataFusion's.
    pub(crate) config: SessionConfig,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            freshness: Freshness::ZERO,
            on_miss: OnMiss::Dig,
            monotonic: true,
            read_modify_write: false,
            application_name: "session".to_owned(),
            config: default_config(),
        }
    }
}

fn default_config() -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true);
    // Texts are kept as Utf8: literals of another layout would be cast row by row.
    config.options_mut().sql_parser.map_string_types_to_utf8view = false;
    // What EXPLAIN ANALYZE shows is for users of the database.
    config.options_mut().explain.analyze_level = MetricType::Summary;
    config
}

impl Settings {
    /// Sets `name`; no value stands for its default.
    ///
    /// # Errors
    /// `NotFound` (42704) for an unknown name, `Invalid` (22023) for a value that is not one.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let defaults = Settings::default();
        match name {
            "lazybase.freshness" => {
                self.freshness = match value {
                    Some(value) => value.parse().map_err(wrong_value)?,
                    None => defaults.freshness,
                };
            }
            "lazybase.on_miss" => {
                self.on_miss = match value {
                    Some(value) => value.parse().map_err(wrong_value)?,
                    None => defaults.on_miss,
                };
            }
            "lazybase.monotonic" => self.monotonic = switch(name, value, defaults.monotonic)?,
            "lazybase.read_modify_write" => {
                self.read_modify_write = switch(name, value, defaults.read_modify_write)?;
            }
            "lazybase.last_answer" | "lazybase.last_token" | "lazybase.retention" => {
                return Err(
                    Error::invalid(format!("{name} can only be shown")).with_sqlstate("55P02")
                );
            }
            "application_name" => {
                let name = value.map_or(defaults.application_name, str::to_owned);
                self.application_name = name;
            }
            "timezone" => return self.set("datafusion.execution.time_zone", value),
            _ if ACCEPTED.contains(&name) => {}
            _ if name.starts_with("datafusion.") => self.set_datafusion(name, value)?,
            _ => return Err(self.unknown(name)),
        }
        Ok(())
    }

    fn set_datafusion(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let defaults = default_config();
        let known = defaults.options().entries();
        let Some(entry) = known.iter().find(|entry| entry.key == name) else {
            return Err(self.unknown(name));
        };
        if name.starts_with("datafusion.catalog.") {
            return Err(Error::invalid(format!("{name} is fixed")).with_sqlstate("55P02"));
        }
        let value = match value {
            Some(value) => value.to_owned(),
            None => entry.value.clone().unwrap_or_default(),
        };
        let set = self.config.options_mut().set(name, &value);
        set.map_err(|error| {
            let error = from_datafusion(&error, "");
            error.within(name).with_sqlstate("22023")
        })
    }

    /// All settings back to their defaults.
    pub(crate) fn reset(&mut self) {
        *self = Settings::default();
    }

    /// The value of a setting that the session does not tell itself.
    ///
    /// # Errors
    /// `NotFound` (42704) for an unknown name.
    pub(crate) fn show(&self, name: &str) -> Result<String> {
        Ok(match name {
            "lazybase.freshness" => self.freshness.to_string(),
            "lazybase.on_miss" => self.on_miss.to_string(),
            "lazybase.monotonic" => on_off(self.monotonic),
            "lazybase.read_modify_write" => on_off(self.read_modify_write),
            "application_name" => self.application_name.clone(),
            "transaction_isolation" => "snapshot".to_owned(),
            "server_version" => env!("CARGO_PKG_VERSION").to_owned(),
            "client_encoding" | "server_encoding" => "UTF8".to_owned(),
            "standard_conforming_strings" => "on".to_owned(),
            "datestyle" => "ISO, YMD".to_owned(),
            "search_path" => SCHEMA.to_owned(),
            "timezone" => return self.show("datafusion.execution.time_zone"),
            _ if ACCEPTED.contains(&name) => String::new(),
            _ => {
                let entries = self.config.options().entries();
                let entry = entries.into_iter().find(|entry| entry.key == name);
                match entry {
                    Some(entry) => entry.value.unwrap_or_default(),
                    None => return Err(self.unknown(name)),
                }
            }
        })
    }

    /// Every setting, but for what only the session can tell.
    pub(crate) fn all(&self) -> Vec<Shown> {
        let ours = OURS.iter().map(|(name, description)| Shown {
            name: (*name).to_owned(),
            value: self.show(name).unwrap_or_default(),
            description: (*description).to_owned(),
        });
        let theirs = self
            .config
            .options()
            .entries()
            .into_iter()
            .map(|entry| Shown {
                name: entry.key,
                value: entry.value.unwrap_or_default(),
                description: entry.description.to_owned(),
            });
        let mut all: Vec<Shown> = ours.chain(theirs).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn unknown(&self, name: &str) -> Error {
        let entries = self.config.options().entries();
        let known = OURS
            .iter()
            .map(|(name, _)| *name)
            .chain(entries.iter().map(|entry| entry.key.as_str()));
        let error =
            Error::not_found(format!("there is no setting {name:?}")).with_sqlstate("42704");
        match nearest(name, known) {
            Some(near) => error.with_hint(format!("perhaps {near} is meant")),
            None => error.with_hint("SHOW ALL lists the settings"),
        }
    }
}

fn wrong_value(error: Error) -> Error {
    error.with_sqlstate("22023")
}

fn on_off(value: bool) -> String {
    match value {
        true => "on".to_owned(),
        false => "off".to_owned(),
    }
}

fn switch(name: &str, value: Option<&str>, default: bool) -> Result<bool> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None => Ok(default),
        Some("on" | "true" | "yes" | "1") => Ok(true),
        Some("off" | "false" | "no" | "0") => Ok(false),
        Some(other) => Err(
            Error::invalid(format!("{name} is on or off, not {other:?}")).with_sqlstate("22023"),
        ),
    }
}
