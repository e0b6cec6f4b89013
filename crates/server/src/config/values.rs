//! The kinds of values that options have: how each is read, and shown so that it reads back.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lazybase_cluster::LogCompression;
use lazybase_model::freshness::parse_duration;
use tracing_subscriber::EnvFilter;

use super::{Config, LogFormat};

/// A part of the configuration, by its kind.
pub(crate) enum Field {
    /// A folder or a file.
    Path(fn(&mut Config) -> &mut Option<PathBuf>),
    /// An address, or none.
    Address(fn(&mut Config) -> &mut Option<SocketAddr>),
    /// On or off.
    Switch(fn(&mut Config) -> &mut bool),
    /// A number, and the least that it may be.
    Count(fn(&mut Config) -> &mut usize, usize),
    /// A number of bytes; the greatest number is no limit.
    Bytes(fn(&mut Config) -> &mut u64),
    /// A number of bytes, and the most that it may be.
    BytesUpTo(fn(&mut Config) -> &mut u64, u64),
    /// A time.
    Time(fn(&mut Config) -> &mut Duration),
    /// A time, or none.
    TimeOrOff(fn(&mut Config) -> &mut Option<Duration>),
    /// Directives of log levels.
    Filter(fn(&mut Config) -> &mut String),
    /// How log lines look.
    LogFormat(fn(&mut Config) -> &mut LogFormat),
    /// How the log of batches is compressed.
    Compression(fn(&mut Config) -> &mut LogCompression),
    /// An address with its scheme, or none.
    UrlOrOff(fn(&mut Config) -> &mut Option<String>),
}

/// Why a text is no value: what it is instead, and what could be written.
pub(super) struct Wrong {
    pub(super) what: &'static str,
    pub(super) hint: String,
}

fn wrong(what: &'static str, hint: impl Into<String>) -> Wrong {
    let hint = hint.into();
    Wrong { what, hint }
}

const ON: &str = "on";
const OFF: &str = "off";
const NONE: &str = "none";

impl Field {
    pub(super) fn set(&self, config: &mut Config, text: &str) -> Result<(), Wrong> {
        let text = text.trim();
        match self {
            Field::Path(of) => *of(config) = Some(PathBuf::from(text)),
            Field::Address(of) => *of(config) = unless_off(text, address)?,
            Field::Switch(of) => *of(config) = switch(text)?,
            Field::Count(of, least) => *of(config) = count(text, *least)?,
            Field::Bytes(of) => *of(config) = bytes(text)?,
            Field::BytesUpTo(of, most) => *of(config) = bytes_up_to(text, *most)?,
            Field::Time(of) => *of(config) = time(text)?,
            Field::TimeOrOff(of) => *of(config) = unless_off(text, time)?,
            Field::Filter(of) => *of(config) = filter(text)?,
            Field::LogFormat(of) => *of(config) = log_format(text)?,
            Field::Compression(of) => *of(config) = compression(text)?,
            Field::UrlOrOff(of) => *of(config) = unless_off(text, url)?,
        }
        Ok(())
    }

    pub(super) fn show(&self, config: &mut Config) -> Option<String> {
        let or_off = |text: Option<String>| Some(text.unwrap_or_else(|| OFF.to_owned()));
        match self {
            Field::Path(of) => of(config).as_ref().map(|path| path.display().to_string()),
            Field::Address(of) => or_off(of(config).map(|address| address.to_string())),
            Field::Switch(of) => Some(if *of(config) { ON } else { OFF }.to_owned()),
            Field::Count(of, _) => Some(of(config).to_string()),
            Field::Bytes(of) | Field::BytesUpTo(of, _) => Some(shown_bytes(*of(config))),
            Field::Time(of) => Some(shown_time(*of(config))),
            Field::TimeOrOff(of) => or_off(of(config).map(shown_time)),
            Field::Filter(of) => Some(of(config).clone()),
            Field::LogFormat(of) => Some(match of(config) {
                LogFormat::Text => "text".to_owned(),
                LogFormat::Json => "json".to_owned(),
            }),
            Field::Compression(of) => Some(match of(config) {
                LogCompression::None => NONE.to_owned(),
                LogCompression::Lz4 => "lz4".to_owned(),
            }),
            Field::UrlOrOff(of) => or_off(of(config).clone()),
        }
    }
}

/// No value for `off`, else what the text says.
fn unless_off<T>(text: &str, read: impl Fn(&str) -> Result<T, Wrong>) -> Result<Option<T>, Wrong> {
    match text.eq_ignore_ascii_case(OFF) {
        true => Ok(None),
        false => read(text).map(Some),
    }
}

fn address(text: &str) -> Result<SocketAddr, Wrong> {
    text.parse()
        .map_err(|_| wrong("no address", "write 127.0.0.1:5432, or off"))
}

fn switch(text: &str) -> Result<bool, Wrong> {
    match text.to_ascii_lowercase().as_str() {
        ON | "true" => Ok(true),
        OFF | "false" => Ok(false),
        _ => Err(wrong("neither on nor off", "write on or off")),
    }
}

fn count(text: &str, least: usize) -> Result<usize, Wrong> {
    let number = text.parse().ok().filter(|number| *number >= least);
    number.ok_or_else(|| {
        let hint = format!("write a whole number from {least} on");
        wrong("no number that it can be", hint)
    })
}

/// The units of bytes, the largest first.
const UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

fn bytes(text: &str) -> Result<u64, Wrong> {
    if text.eq_ignore_ascii_case(NONE) {
        return Ok(u64::MAX);
    }
    let split = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let unit = match unit.trim() {
        "" | "B" => Some(1),
        unit => UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|(_, bytes)| *bytes),
    };
    let number: Option<u64> = number.parse().ok();
    number
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| {
            wrong(
                "not a number of bytes",
                "write bytes, or a number with KiB, MiB, GiB or TiB; none for no limit",
            )
        })
}

fn bytes_up_to(text: &str, most: u64) -> Result<u64, Wrong> {
    match bytes(text)? {
        given if given <= most => Ok(given),
        _ => {
            let hint = format!("write {} at most", shown_bytes(most));
            Err(wrong("too much", hint))
        }
    }
}

fn shown_bytes(bytes: u64) -> String {
    if bytes == u64::MAX {
        return NONE.to_owned();
    }
    let unit = UNITS.iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) if bytes > 0 => format!("{} {name}", bytes / unit),
        _ => bytes.to_string(),
    }
}

fn time(text: &str) -> Result<Duration, Wrong> {
    parse_duration(&text.to_ascii_lowercase()).map_err(|_| {
        wrong(
            "not a duration",
            "give seconds, or a number and a unit, such as '2 h' or '500 ms'",
        )
    })
}

/// In the largest unit that leaves no fraction.
fn shown_time(time: Duration) -> String {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let units = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let unit = units.iter().find(|(unit, _)| micros.is_multiple_of(*unit));
    match unit {
        Some((unit, name)) if micros > 0 => format!("{} {name}", micros / unit),
        _ => "0".to_owned(),
    }
}

/// The levels of log lines.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A level, or directives of levels. A word that is no level would be the name of a part of the
/// program, and only lines of that part would be logged.
fn filter(text: &str) -> Result<String, Wrong> {
    let level = text.to_ascii_lowercase();
    if LEVELS.contains(&level.as_str()) {
        return Ok(level);
    }
    match text.contains(['=', ',']) && EnvFilter::builder().parse(text).is_ok() {
        true => Ok(text.to_owned()),
        false => Err(wrong(
            "no log level",
            "write off, error, warn, info, debug or trace",
        )),
    }
}

fn log_format(text: &str) -> Result<LogFormat, Wrong> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(wrong("no log format", "write text or json")),
    }
}

fn compression(text: &str) -> Result<LogCompression, Wrong> {
    match text {
        NONE => Ok(LogCompression::None),
        "lz4" => Ok(LogCompression::Lz4),
        _ => Err(wrong("no compression", "write none or lz4")),
    }
}

fn url(text: &str) -> Result<String, Wrong> {
    match text.starts_with("http://") {
        true => Ok(text.to_owned()),
        false => Err(wrong(
            "no address of a collector",
            "write http://127.0.0.1:4317, or off; it is spoken to without TLS",
        )),
    }
}
