//! The settings of a session: `lazybase.*`, and DataFusion's own by their names.
//!
//! Reads and writes values in the session only. Invariant SET-1: an unknown name is an error with
//! the nearest known one, never ignored; one with a point, that is nobody's here, is kept.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::format::MetricType;
use datafusion::prelude::SessionConfig;
use lazybase_model::freshness::{DisplayDuration, parse_duration};
use lazybase_model::label::{Authorizations, parse_authorizations, show_authorizations};
use lazybase_model::{Error, Freshness, OnMiss, Result, Token};
use parking_lot::Mutex;

use crate::database::SessionDefaults;
use crate::error::{from_datafusion, nearest};
use crate::notice::{CLIENT_MIN_MESSAGES, Notice, level};
use crate::parse::{CATALOG, SCHEMA};
use crate::settings::placeholders::Placeholders;
use crate::text_form::IntervalStyle;
use crate::told::Told;

pub(crate) mod listed;
mod of_planner;
mod of_postgres;
mod placeholders;
#[cfg(test)]
mod tests;
mod without_effect;
mod zones;

pub(crate) use of_postgres::SERVER_VERSION;
pub use zones::notice as zone_notice;

/// A setting as SHOW gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) description: String,
}

/// The names of LazyBase's own settings, for SET, SHOW and RESET.
pub fn own_settings() -> impl Iterator<Item = &'static str> {
    OURS.iter().map(|(name, _)| *name)
}

/// How the names of LazyBase's own settings begin, but for those that PostgreSQL has too.
const PREFIX: &str = "lazybase.";

/// Our own settings, with what they do. Those that only tell something are told by the session.
const OURS: [(&str, &str); 20] = [
    (
        "lazybase.freshness",
        "how stale answers may be: seconds, '500 ms', or 'best effort'",
    ),
    (
        "lazybase.on_miss",
        "when the bound can't be met at once: dig, wait 2 s, error or stale",
    ),
    (
        "lazybase.after",
        "a token: answers contain its write; empty for none",
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
        "lazybase.authorizations",
        "which authorizations of the role the session uses, by names with commas; * is all",
    ),
    (
        "lazybase.producer",
        "the producer under whose numbers this session writes",
    ),
    (
        "lazybase.batch_number",
        "the number of the next write, which counts once; empty for none",
    ),
    (
        "lazybase.notices",
        "over the wire, a notice with each answer's stamp and each write's token",
    ),
    (
        "lazybase.copy_format",
        "the format of COPY FROM STDIN and TO STDOUT that name none: csv or text",
    ),
    (
        "lazybase.slow_query",
        "statements that take longer are logged: seconds, '500 ms', or off",
    ),
    (
        "statement_timeout",
        "over the wire, the milliseconds that a statement may take; 0 is no limit",
    ),
    (
        "idle_in_transaction_session_timeout",
        "over the wire, the milliseconds that a transaction may wait for its client; 0 is no limit",
    ),
    (
        CLIENT_MIN_MESSAGES,
        "which notices are told: those of this severity, and graver ones",
    ),
    (
        INTERVAL_STYLE,
        "over the wire, how intervals are written as text: postgres or iso_8601",
    ),
    (
        READ_ONLY,
        "whether transactions, and statements outside of one, only read by default",
    ),
    (
        "application_name",
        "who holds this session's snapshots, for the status",
    ),
];

/// What nobody sets in a session.
const ONLY_SHOWN: [&str; 5] = [
    "lazybase.last_answer",
    "lazybase.last_token",
    "lazybase.retention",
    "max_connections",
    "superuser_reserved_connections",
];

/// The setting that makes a session one that reads.
pub(crate) const READ_ONLY: &str = "default_transaction_read_only";

/// The setting of how intervals are written.
const INTERVAL_STYLE: &str = "intervalstyle";

/// DataFusion's own name of the setting of the zone.
const ZONE: &str = "datafusion.execution.time_zone";

/// What who sets a setting to a value is told.
pub(crate) fn notice(name: &str, value: &str) -> Option<Notice> {
    match name {
        "timezone" | ZONE => zone_notice(value),
        _ => without_effect::notice(name, value),
    }
}

/// How many bytes there are of what one query has asked to be set: a name with a point may be any.
const ASKED_BYTES_MAX: usize = 2 << 20;

/// A setting and the value that a query has asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) name: String,
    /// `None` stands for its default.
    pub(crate) value: Option<String>,
    /// Whether it holds to the end of the transaction only.
    pub(crate) local: bool,
}

impl Asked {
    fn bytes(&self) -> usize {
        size_of::<Asked>() + self.name.len() + self.value.as_ref().map_or(0, String::len)
    }
}

/// The values of one session.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) freshness: Freshness,
    pub(crate) on_miss: OnMiss,
    pub(crate) after: Option<Token>,
    pub(crate) monotonic: bool,
    pub(crate) read_modify_write: bool,
    /// Whether transactions that don't say, and statements outside of one, only read.
    pub(crate) read_only: bool,
    pub(crate) interval_style: IntervalStyle,
    pub(crate) application_name: String,
    pub(crate) producer: Option<String>,
    pub(crate) batch_number: Option<u64>,
    pub(crate) notices: bool,
    /// The level of `client_min_messages`.
    pub(crate) min_messages: &'static str,
    pub(crate) copy_format: &'static str,
    pub(crate) statement_timeout_ms: u32,
    pub(crate) idle_in_transaction_ms: u32,
    pub(crate) slow_query: Option<Duration>,
    /// The authorisations of the role that are used; `None` is all.
    pub(crate) authorizations: Option<Arc<Authorizations>>,
    /// DataFusion's.
    pub(crate) config: SessionConfig,
    /// Those that mean nothing here.
    placeholders: Placeholders,
    /// What a query has asked to be set, by set_config: it holds from the next statement on.
    asked: Arc<Mutex<Vec<Asked>>>,
    /// What only the session can tell, where a statement is to see it.
    told: Option<Arc<Told>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings::with(SessionDefaults::default())
    }
}

impl Settings {
    /// Those of a session that begins with `base`.
    pub(crate) fn with(base: SessionDefaults) -> Settings {
        let timeout = base.statement_timeout.as_millis();
        Settings {
            freshness: Freshness::ZERO,
            on_miss: OnMiss::Dig,
            after: None,
            monotonic: true,
            read_modify_write: false,
            read_only: false,
            interval_style: IntervalStyle::default(),
            application_name: "session".to_owned(),
            producer: None,
            batch_number: None,
            notices: false,
            min_messages: "notice",
            copy_format: "csv",
            statement_timeout_ms: u32::try_from(timeout).unwrap_or(u32::MAX),
            idle_in_transaction_ms: 0,
            slow_query: base.slow_query,
            authorizations: None,
            config: default_config(),
            placeholders: Placeholders::default(),
            asked: Arc::default(),
            told: None,
        }
    }

    /// These, and what only the session can tell.
    pub(crate) fn with_told(self, told: Told) -> Settings {
        Settings {
            told: Some(Arc::new(told)),
            ..self
        }
    }
}

const SORT_RESERVE_BYTES: usize = 1 << 20;

fn default_config() -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        // Ours stands in the catalogue, with DataFusion's behind it.
        .with_information_schema(false);
    // Texts are kept as Utf8: literals of another layout would be cast row by row.
    config.options_mut().sql_parser.map_string_types_to_utf8view = false;
    // What it says of names comes with their places.
    config.options_mut().sql_parser.collect_spans = true;
    // Lists are in the order of a subquery (`planner/ordered_inputs.rs`).
    config
        .options_mut()
        .sql_parser
        .enable_subquery_sort_elimination = false;
    // The planner's own sessions have no zone: now() and to_timestamp() would be no moments.
    config.options_mut().execution.time_zone = Some("UTC".to_owned());
    // What each sort keeps for merging what it spills: it counts before anything is spilt.
    config.options_mut().execution.sort_spill_reservation_bytes = SORT_RESERVE_BYTES;
    // Whether `a IS TRUE` can be NULL is another thing to plans of either kind: the check would
    // refuse SELECT DISTINCT of it.
    config
        .options_mut()
        .execution
        .skip_physical_aggregate_schema_check = true;
    // What EXPLAIN ANALYZE shows is for users of the database.
    config.options_mut().explain.analyze_level = MetricType::Summary;
    config
}

impl Settings {
    /// Sets what a session begins with. What can't be set any more is left out; gives what is to
    /// be said of that.
    pub(crate) fn begin(&mut self, begun: &[(String, String)]) -> Vec<String> {
        let defaults = self.clone();
        let refused = begun.iter().filter_map(|(name, value)| {
            let why = self.set(name, Some(value), &defaults).err()?;
            Some(format!(
                "{name} = {value:?} of the role or the database is not followed: {why}"
            ))
        });
        refused.collect()
    }

    /// Sets `name`; no value stands for what it is in `defaults`.
    ///
    /// # Errors
    /// `NotFound` (42704) for an unknown name, `Invalid` for a value that is not one (22023) and
    /// for a setting that is only shown (55P02).
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
        defaults: &Settings,
    ) -> Result<()> {
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
            "lazybase.after" => {
                let token = value.filter(|token| !token.is_empty());
                self.after = token.map(str::parse).transpose().map_err(wrong_value)?;
            }
            "lazybase.monotonic" => self.monotonic = switch(name, value, defaults.monotonic)?,
            "lazybase.read_modify_write" => {
                self.read_modify_write = switch(name, value, defaults.read_modify_write)?;
            }
            READ_ONLY => self.read_only = switch(name, value, defaults.read_only)?,
            INTERVAL_STYLE => {
                let style = value.map(interval_style).transpose()?;
                self.interval_style = style.unwrap_or(defaults.interval_style);
            }
            name if ONLY_SHOWN.contains(&name) => {
                return Err(
                    Error::invalid(format!("{name} can only be shown")).with_sqlstate("55P02")
                );
            }
            "application_name" => {
                let name = value.unwrap_or(&defaults.application_name);
                self.application_name = name.to_owned();
            }
            // It stays UTC, whichever is asked for.
            "timezone" | ZONE => value.map_or(Ok(()), zones::check)?,
            "lazybase.producer" => {
                self.producer = match value {
                    Some(name) => Some(name.to_owned()).filter(|name| !name.is_empty()),
                    None => defaults.producer.clone(),
                };
                self.batch_number = None;
            }
            "lazybase.batch_number" => self.batch_number = batch_number(name, value)?,
            "lazybase.notices" => self.notices = switch(name, value, defaults.notices)?,
            CLIENT_MIN_MESSAGES => self.min_messages = level(value, defaults.min_messages)?,
            "lazybase.copy_format" => {
                let format = value.map(|value| copy_format(name, value)).transpose()?;
                self.copy_format = format.unwrap_or(defaults.copy_format);
            }
            "lazybase.authorizations" => {
                let given = value.map(authorizations).transpose()?;
                self.authorizations = given.unwrap_or_else(|| defaults.authorizations.clone());
            }
            "lazybase.slow_query" => {
                self.slow_query = match value {
                    None => defaults.slow_query,
                    Some(off) if off.eq_ignore_ascii_case("off") => None,
                    Some(time) => Some(parse_duration(time).map_err(wrong_value)?),
                };
            }
            "statement_timeout" | "idle_in_transaction_session_timeout" => {
                self.set_timeout(name, value, defaults)?;
            }
            _ => self.set_other(name, value, defaults)?,
        }
        Ok(())
    }

    /// Sets one that is none of ours.
    fn set_other(&mut self, name: &str, value: Option<&str>, defaults: &Settings) -> Result<()> {
        if of_postgres::known(name).is_some() {
            of_postgres::check(name, value)
        } else if name.starts_with("datafusion.") {
            self.set_datafusion(name, value, defaults)
        } else if placeholders::may_be(name) {
            let before = &defaults.placeholders;
            self.placeholders.set(name, value, before)
        } else {
            Err(self.unknown(name))
        }
    }

    fn set_timeout(&mut self, name: &str, value: Option<&str>, defaults: &Settings) -> Result<()> {
        let asked = value.map(|value| milliseconds(name, value)).transpose()?;
        match name {
            "statement_timeout" => {
                self.statement_timeout_ms = asked.unwrap_or(defaults.statement_timeout_ms);
            }
            _ => self.idle_in_transaction_ms = asked.unwrap_or(defaults.idle_in_transaction_ms),
        }
        Ok(())
    }

    fn set_datafusion(
        &mut self,
        name: &str,
        value: Option<&str>,
        defaults: &Settings,
    ) -> Result<()> {
        let known = defaults.config.options().entries();
        let Some(entry) = known.iter().find(|entry| entry.key == name) else {
            return Err(self.unknown(name));
        };
        of_planner::check(name, value)?;
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

    /// Asks from within a query that a setting be set; gives its value. With `local`, it holds to
    /// the end of the transaction.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn ask(&self, name: &str, value: Option<&str>, local: bool) -> Result<String> {
        let mut tried = self.clone();
        tried.set(name, value, &Settings::default())?;
        // Outside of a transaction it ends with the query.
        let is_kept = !local || self.told.as_ref().is_some_and(|told| told.in_transaction);
        if is_kept {
            self.keep(Asked {
                name: name.to_owned(),
                value: value.map(str::to_owned),
                local,
            })?;
        }
        match tried.show(name) {
            // It was taken back, and nobody else has it.
            Err(_) if value.is_none() => Ok(String::new()),
            shown => shown,
        }
    }

    /// Keeps what is asked in the place of what was asked of the same setting before.
    fn keep(&self, new: Asked) -> Result<()> {
        let mut asked = self.asked.lock();
        asked.retain(|old| old.name != new.name || old.local != new.local);
        let bytes: usize = asked.iter().map(Asked::bytes).sum();
        if bytes + new.bytes() > ASKED_BYTES_MAX {
            return Err(Error::invalid("the query sets too many settings")
                .with_detail(format!("what it sets has at most {ASKED_BYTES_MAX} bytes"))
                .with_sqlstate("54000"));
        }
        asked.push(new);
        Ok(())
    }

    /// What queries have asked to be set.
    pub(crate) fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock())
    }

    /// Forgets what the transaction's queries have asked to be set to its end.
    pub(crate) fn forget_local(&self) {
        self.asked.lock().retain(|asked| !asked.local);
    }

    /// The value of a setting; that of one which only the session can tell as far as it was told.
    ///
    /// # Errors
    /// `NotFound` (42704) for an unknown name.
    pub(crate) fn show(&self, name: &str) -> Result<String> {
        if let Some(told) = self.told.as_ref().and_then(|told| told.value(name)) {
            return Ok(told);
        }
        Ok(match name {
            "lazybase.freshness" => self.freshness.to_string(),
            "lazybase.on_miss" => self.on_miss.to_string(),
            "lazybase.after" => {
                let token = self.after.map(|token| token.to_string());
                token.unwrap_or_default()
            }
            "lazybase.monotonic" => on_off(self.monotonic),
            "lazybase.read_modify_write" => on_off(self.read_modify_write),
            "application_name" => self.application_name.clone(),
            READ_ONLY => on_off(self.read_only),
            INTERVAL_STYLE => self.interval_style.name().to_owned(),
            "lazybase.producer" => self.producer.clone().unwrap_or_default(),
            "lazybase.batch_number" => {
                let number = self.batch_number.map(|number| number.to_string());
                number.unwrap_or_default()
            }
            "lazybase.notices" => on_off(self.notices),
            CLIENT_MIN_MESSAGES => self.min_messages.to_owned(),
            "lazybase.copy_format" => self.copy_format.to_owned(),
            "lazybase.authorizations" => match &self.authorizations {
                None => "*".to_owned(),
                Some(terms) => show_authorizations(terms),
            },
            "statement_timeout" => self.statement_timeout_ms.to_string(),
            "idle_in_transaction_session_timeout" => self.idle_in_transaction_ms.to_string(),
            "lazybase.slow_query" => match self.slow_query {
                None => "off".to_owned(),
                Some(time) => DisplayDuration(time).to_string(),
            },
            "timezone" => return self.show(ZONE),
            _ => {
                if let Some((_, value, _)) = of_postgres::known(name) {
                    return Ok((*value).to_owned());
                }
                if let Some(value) = self.placeholders.get(name) {
                    return Ok(value.to_owned());
                }
                let entries = self.config.options().entries();
                let entry = entries.into_iter().find(|entry| entry.key == name);
                match entry {
                    Some(entry) => entry.value.unwrap_or_default(),
                    None => return Err(self.unknown(name)),
                }
            }
        })
    }

    /// Every setting of ours and of DataFusion's.
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
        let ours = || {
            OURS.iter()
                .filter_map(|(name, _)| name.strip_prefix(PREFIX))
        };
        let near = match name.strip_prefix(PREFIX) {
            // The prefix, which they share, does not make them alike.
            Some(rest) => nearest(rest, ours()).map(|near| format!("{PREFIX}{near}")),
            None if ours().any(|known| known == name) => Some(format!("{PREFIX}{name}")),
            None => nearest(name, known).map(str::to_owned),
        };
        match near {
            Some(near) => error.with_hint(format!("perhaps {near} is meant")),
            None => error.with_hint("SHOW ALL lists the settings"),
        }
    }
}

/// The authorisations that a session uses; `None` where it uses all that it has.
fn authorizations(value: &str) -> Result<Option<Arc<Authorizations>>> {
    match value.trim() {
        "*" => Ok(None),
        terms => parse_authorizations(terms).map(Arc::new).map(Some),
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

fn interval_style(value: &str) -> Result<IntervalStyle> {
    let known = [IntervalStyle::Postgres, IntervalStyle::Iso8601];
    let mut known = known.into_iter();
    let found = known.find(|style| style.name().eq_ignore_ascii_case(value));
    found.ok_or_else(|| {
        Error::invalid(format!(
            "{INTERVAL_STYLE} is postgres or iso_8601, not {value:?}"
        ))
        .with_sqlstate("0A000")
    })
}

fn copy_format(name: &str, value: &str) -> Result<&'static str> {
    match value.to_ascii_lowercase().as_str() {
        "csv" => Ok("csv"),
        "text" => Ok("text"),
        other => Err(
            Error::invalid(format!("{name} is csv or text, not {other:?}")).with_sqlstate("22023"),
        ),
    }
}

/// A time as PostgreSQL writes it: a number of milliseconds, or a number with its unit.
fn milliseconds(name: &str, value: &str) -> Result<u32> {
    let text = value.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let unit: u32 = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let number: Option<u32> = text[..digits].parse().ok();
    let known = number.filter(|_| unit > 0);
    known
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| {
            Error::invalid(format!("{name}: {text:?} is no time"))
                .with_hint("write milliseconds, or a number with ms, s, min or h")
                .with_sqlstate("22023")
        })
}

/// The number of a producer's batch; none where no text is given.
fn batch_number(name: &str, value: Option<&str>) -> Result<Option<u64>> {
    let text = value.filter(|number| !number.is_empty());
    match text.map(str::parse::<u64>) {
        None => Ok(None),
        Some(Ok(number)) if number > 0 => Ok(Some(number)),
        Some(_) => Err(
            Error::invalid(format!("{name} is a whole number from 1 on")).with_sqlstate("22023"),
        ),
    }
}
