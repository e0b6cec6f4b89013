//! The shell's own commands, which begin with a backslash, as values; no I/O.

use clap::ValueEnum;
use lazybase_model::{Error, Freshness, Result};

use crate::cli::Format;
use crate::names::{readable, system_table, table_name};

/// What `\?` shows.
pub(super) const HELP: &str = "\
\\d             list the tables, with key, rows and size (so does \\dt); \\d+ with comments
\\d TABLE       a table's columns, key and size; a view's columns, and what makes it
\\d+ TABLE      that, how its columns are stored, and the statements that make it
\\dv            list the views: of materialized ones table, key, rows and size, of others the query
\\l             the database, with what it holds
\\freshness     show the freshness that queries ask when they name none
\\freshness F   set it: seconds, 500ms, or best effort
\\format F      write results as table, csv or json
\\x [on|off]    write each row as lines of its own; otherwise only what is too wide
\\timing        show how long statements take, or stop
\\status        what is in which stage, who waits, and who holds snapshots
\\q             leave (so do Ctrl-D, exit and quit)
\\?             this list

Tab completes, Up and Ctrl-R find what was typed before, Ctrl-C stops a statement.

A statement ends with a semicolon. A query says how fresh its answer must be:
  SELECT count(*) FROM flights FRESHNESS 0;              -- everything acknowledged
  SELECT count(*) FROM flights FRESHNESS 10;             -- at most ten seconds old
  SELECT count(*) FROM flights FRESHNESS 'best effort';  -- whatever is cheap to read
The line under each answer is its stamp: as of when it is true, and what was read.
";

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meta {
    /// `\dt`, and `\d` alone; with a plus all that is known.
    Tables { all: bool },
    /// `\d TABLE`; with a plus all that is known.
    Describe { table: String, all: bool },
    /// `\d lazybase.TABLE`: the name as SQL takes it.
    DescribeSystem(String),
    /// `\dv`.
    Views,
    /// `\l`.
    Databases,
    /// `\timing [on|off]`.
    Timing(Option<bool>),
    /// `\x [on|off]`.
    Records(Option<bool>),
    /// `\format F`.
    Format(Format),
    /// `\freshness` alone.
    ShowFreshness,
    /// `\freshness F`.
    SetFreshness(Freshness),
    /// `\status`.
    Status,
    /// `\?`.
    Help,
    /// `\q`.
    Quit,
}

/// Reads a command.
///
/// # Errors
/// `Invalid` for one that is not known or has a wrong argument.
pub(super) fn parse(line: &str) -> Result<Meta> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match (name, rest) {
        ("\\dv", "") => Ok(Meta::Views),
        ("\\l", "") => Ok(Meta::Databases),
        ("\\d" | "\\d+", table) if system_table(table).is_some() => {
            Ok(Meta::DescribeSystem(readable(table)))
        }
        ("\\d" | "\\dt" | "\\d+" | "\\dt+", table) => {
            let all = name.ends_with('+');
            Ok(match table_name(table) {
                none if none.is_empty() => Meta::Tables { all },
                table => Meta::Describe { table, all },
            })
        }
        ("\\timing", "") => Ok(Meta::Timing(None)),
        ("\\timing", "on") => Ok(Meta::Timing(Some(true))),
        ("\\timing", "off") => Ok(Meta::Timing(Some(false))),
        ("\\x", "") => Ok(Meta::Records(None)),
        ("\\x", "on") => Ok(Meta::Records(Some(true))),
        ("\\x", "off" | "auto") => Ok(Meta::Records(Some(false))),
        ("\\format", format) => Format::from_str(format, true)
            .map(Meta::Format)
            .map_err(|_| {
                Error::invalid(format!("unknown format {format:?}")).with_hint("table, csv or json")
            }),
        ("\\freshness", "") => Ok(Meta::ShowFreshness),
        ("\\freshness", bound) => bound.trim_matches('\'').parse().map(Meta::SetFreshness),
        ("\\status", "") => Ok(Meta::Status),
        ("\\?" | "\\h" | "\\help", _) => Ok(Meta::Help),
        ("\\q" | "\\quit", _) => Ok(Meta::Quit),
        _ => {
            Err(Error::invalid(format!("unknown command {line}"))
                .with_hint("\\? lists the commands"))
        }
    }
}

/// What people type who look for a way out, or for help.
pub(super) fn plain_word(line: &str) -> Option<&'static str> {
    let word = line.trim().trim_end_matches(';').trim_end().to_lowercase();
    match word.as_str() {
        "exit" | "quit" => Some("\\q"),
        "help" => Some("\\?"),
        _ => None,
    }
}

/// The statement that sets the session's freshness.
pub(super) fn set_freshness(bound: Freshness) -> String {
    format!("SET lazybase.freshness = '{bound}'")
}

#[cfg(test)]
mod tests;
