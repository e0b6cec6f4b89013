//! What the user should know beside an answer, and how much of it `client_min_messages` lets
//! through.
//!
//! | severity | says                                                           | is told         |
//! | -------- | -------------------------------------------------------------- | --------------- |
//! | INFO     | what was asked for, such as stamps                             | always          |
//! | NOTICE   | that something was skipped, or is done by itself               | up to `notice`  |
//! | WARNING  | that what was asked for did not come about as it was asked for | up to `warning` |
//!
//! Pure.

use std::fmt;

use lazybase_model::{Error, Result};

/// The setting of which severity a notice must have.
pub(crate) const CLIENT_MIN_MESSAGES: &str = "client_min_messages";

/// What it can be, from what lets most through on.
const LEVELS: [&str; 10] = [
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "info", "notice", "warning", "error",
];

/// How much a notice matters, in PostgreSQL's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It was asked for.
    Info,
    /// Good to know: something was skipped, or is so anyhow.
    Notice,
    /// What was asked for did not come about as it was asked for, or is seldom meant.
    Warning,
}

impl Severity {
    /// Its word in PostgreSQL's protocol.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }

    /// Whether it is told where `client_min_messages` is this level.
    pub(crate) fn is_told(self, level: &str) -> bool {
        match self {
            Severity::Info => true,
            Severity::Notice => !matches!(level, "warning" | "error"),
            Severity::Warning => level != "error",
        }
    }
}

/// What the user should know beside an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How much it matters.
    pub severity: Severity,
    /// What kind of thing it is, by PostgreSQL's numbers.
    pub sqlstate: &'static str,
    /// What it says.
    pub message: String,
}

impl Notice {
    /// Something that was asked for.
    pub fn info(message: impl Into<String>) -> Notice {
        Notice::new(Severity::Info, "00000", message.into())
    }

    /// Something that is good to know.
    pub fn note(message: impl Into<String>) -> Notice {
        Notice::new(Severity::Notice, "00000", message.into())
    }

    /// Something that did not come about as it was asked for, or is seldom meant.
    pub fn warning(message: impl Into<String>) -> Notice {
        Notice::new(Severity::Warning, "01000", message.into())
    }

    fn new(severity: Severity, sqlstate: &'static str, message: String) -> Notice {
        Notice {
            severity,
            sqlstate,
            message,
        }
    }

    pub(crate) fn with_sqlstate(self, sqlstate: &'static str) -> Notice {
        Notice { sqlstate, ..self }
    }
}

/// As a line of a terminal: `notice: there is no table "t": skipped`.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.severity.word().to_lowercase();
        write!(f, "{word}: {}", self.message)
    }
}

/// The level that `client_min_messages` is set to, as SHOW tells it.
///
/// # Errors
/// `Invalid` (22023) for what is none.
pub(crate) fn level(value: Option<&str>, default: &'static str) -> Result<&'static str> {
    let Some(value) = value else {
        return Ok(default);
    };
    let wanted = match value.trim().to_ascii_lowercase() {
        short if short == "debug" => "debug2".to_owned(),
        level => level,
    };
    let mut known = LEVELS.into_iter();
    known.find(|known| *known == wanted).ok_or_else(|| {
        Error::invalid(format!(
            "invalid value for parameter \"{CLIENT_MIN_MESSAGES}\": {value:?}"
        ))
        .with_hint(format!("it is one of {}", LEVELS.join(", ")))
        .with_sqlstate("22023")
    })
}
