//! The bound that a query sets on the staleness of its answer (section 3.1 and 3.7 of the paper).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How fresh an answer must be: everything acknowledged before now minus the bound is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Freshness {
    /// The least work: the common horizon, whatever its age.
    BestEffort,
    /// Everything acknowledged at least this long ago. Zero means everything acknowledged, and is
    /// decided by order, never by a clock.
    Within(Duration),
}

impl Freshness {
    /// Everything acknowledged before the query began: the shipped default.
    pub const ZERO: Freshness = Freshness::Within(Duration::ZERO);
}

impl Default for Freshness {
    fn default() -> Self {
        Freshness::ZERO
    }
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Freshness::BestEffort => f.write_str("best effort"),
            Freshness::Within(bound) if bound.is_zero() => f.write_str("0"),
            Freshness::Within(bound) => write!(f, "{}", DisplayDuration(*bound)),
        }
    }
}

impl FromStr for Freshness {
    type Err = Error;

    /// Reads `best effort`, a number of seconds, or a duration with a unit such as `500 ms`.
    fn from_str(text: &str) -> Result<Self> {
        let words = text.trim().to_ascii_lowercase();
        // Only in names do these stand for blanks: before a number, a minus is its sign.
        match words.replace(['_', '-'], " ").as_str() {
            "best effort" | "best" => Ok(Freshness::BestEffort),
            _ => parse_duration(&words).map(Freshness::Within),
        }
    }
}

/// What to do when a freshness bound can't be met from what is cheap to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnMiss {
    /// Read earlier stages: dearer, but at once.
    #[default]
    Dig,
    /// Wait up to this long for the pipeline to get there, then dig.
    Wait(Duration),
    /// Refuse with an error that says how stale the best answer would have been.
    Error,
    /// Answer from sorted data, staler than asked, and say so in the stamp.
    Stale,
}

impl fmt::Display for OnMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnMiss::Dig => f.write_str("dig"),
            OnMiss::Wait(limit) => write!(f, "wait {}", DisplayDuration(*limit)),
            OnMiss::Error => f.write_str("error"),
            OnMiss::Stale => f.write_str("stale"),
        }
    }
}

impl FromStr for OnMiss {
    type Err = Error;

    /// Reads `dig`, `error`, `stale` or `wait` with a duration, as the setting writes it.
    fn from_str(text: &str) -> Result<Self> {
        let words = text.trim().to_ascii_lowercase();
        match words.as_str() {
            "dig" => Ok(OnMiss::Dig),
            "error" => Ok(OnMiss::Error),
            "stale" => Ok(OnMiss::Stale),
            _ => match words.strip_prefix("wait") {
                Some("") => Err(Error::invalid("wait needs a duration")
                    .with_hint("such as 'wait 2 s': for how long at most")),
                Some(limit) => parse_duration(limit).map(OnMiss::Wait),
                None => Err(Error::invalid(format!("unknown ON MISS choice {text:?}"))
                    .with_hint("use DIG, WAIT '2 s', ERROR or STALE")),
            },
        }
    }
}

/// A duration as people write it: `0`, `30` (seconds), `1.5`, `1e-3`, `500 ms`, `30s`, `5 min`,
/// `1 hour`.
///
/// # Errors
/// `Invalid` for anything else, with a hint at the units.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let text = text.trim();
    let (number, unit) = text.split_at(number_end(text));
    let seconds_per_unit = match unit.trim() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "us" | "micros" | "microsecond" | "microseconds" => 1e-6,
        "ms" | "millis" | "millisecond" | "milliseconds" => 1e-3,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return Err(not_a_duration(text)),
    };
    let number: f64 = number.parse().map_err(|_| not_a_duration(text))?;
    Duration::try_from_secs_f64(number * seconds_per_unit)
        .map_err(|_| Error::invalid(format!("{text:?} is too long for a duration")))
}

/// Where the number ends that begins a text, its exponent taken with it.
fn number_end(text: &str) -> usize {
    let digits_end = |text: &str, point: &str| {
        let is_part = |c: char| c.is_ascii_digit() || point.contains(c);
        text.find(|c: char| !is_part(c)).unwrap_or(text.len())
    };
    let end = digits_end(text, ".");
    let Some(exponent) = text[end..].strip_prefix(['e', 'E']) else {
        return end;
    };
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    match digits_end(exponent, "") {
        0 => end,
        digits => text.len() - exponent.len() + digits,
    }
}

fn not_a_duration(text: &str) -> Error {
    Error::invalid(format!("{text:?} is not a duration"))
        .with_hint("write seconds, or a number with us, ms, s, min, h or d, such as '500 ms'")
}

/// A duration in the largest unit that keeps it readable, e.g. `1.2s`, `35ms`.
pub struct DisplayDuration(pub Duration);

impl fmt::Display for DisplayDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match micros {
            0..1_000 => write!(f, "{micros}us"),
            1_000..1_000_000 if micros.is_multiple_of(1_000) => write!(f, "{}ms", micros / 1_000),
            1_000..1_000_000 => write!(f, "{:.1}ms", micros as f64 / 1e3),
            _ if micros.is_multiple_of(1_000_000) => write!(f, "{}s", micros / 1_000_000),
            _ => write!(f, "{:.2}s", micros as f64 / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_and_without_units() {
        for (text, micros) in [
            ("30", 30_000_000),
            ("0", 0),
            ("1.5", 1_500_000),
            ("500 ms", 500_000),
            ("500ms", 500_000),
            ("2 min", 120_000_000),
            ("1 hour", 3_600_000_000),
            ("1e-3", 1_000),
            ("2.5E+1", 25_000_000),
            ("1e2ms", 100_000),
        ] {
            assert_eq!(
                parse_duration(text).unwrap(),
                Duration::from_micros(micros),
                "{text}"
            );
        }
        for text in [
            "",
            "x",
            "-1",
            "1 fortnight",
            "1 2",
            ".",
            "1e",
            "1e-",
            "e3",
            "1e3.5",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let error = parse_duration("1e400").unwrap_err();
        assert_eq!(error.message(), "\"1e400\" is too long for a duration");
    }

    #[test]
    fn freshness_reads_what_it_shows() {
        for text in ["best effort", "0", "30s", "500ms", "1.50s"] {
            let freshness: Freshness = text.parse().unwrap();
            assert_eq!(freshness.to_string(), text);
        }
        for text in ["best_effort", "Best-Effort"] {
            assert_eq!(text.parse::<Freshness>().unwrap(), Freshness::BestEffort);
        }
        let milli = Freshness::Within(Duration::from_millis(1));
        assert_eq!("1e-3".parse::<Freshness>().unwrap(), milli);
        let error = "-5".parse::<Freshness>().unwrap_err();
        assert_eq!(error.message(), "\"-5\" is not a duration");
        assert_eq!(
            "wait 2 s".parse::<OnMiss>().unwrap(),
            OnMiss::Wait(Duration::from_secs(2))
        );
        let error = " WAIT ".parse::<OnMiss>().unwrap_err();
        assert_eq!(error.message(), "wait needs a duration");
    }
}
