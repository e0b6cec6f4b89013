//! A sync after which a store believes none, for those who are to be told of it.

use std::fmt;

use arrow::temporal_conversions::timestamp_s_to_datetime;

/// A sync that failed, and may have lost what it was to keep. Its store believes none since, so
/// that nothing becomes durable until it is opened again; what is there can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedSync {
    /// When it failed: microseconds since 1970, as the machine believes.
    pub micros: i64,
    /// The file or the folder, by its name in the store.
    pub name: String,
    /// What the system said.
    pub reason: String,
}

impl fmt::Display for FailedSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedSync {
            micros,
            name,
            reason,
        } = self;
        f.write_str("a sync failed")?;
        if let Some(moment) = timestamp_s_to_datetime(micros.div_euclid(1_000_000)) {
            write!(f, " at {moment} UTC")?;
        }
        write!(
            f,
            ": {name}: {reason}; nothing is acknowledged until the database is opened again: \
             restart the server"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_when_which_why_and_what_to_do() {
        let failed = FailedSync {
            micros: 1_000_000_000_999_999,
            name: "log/7.log".to_owned(),
            reason: "Input/output error (os error 5)".to_owned(),
        };
        assert_eq!(
            failed.to_string(),
            "a sync failed at 2001-09-09 01:46:40 UTC: log/7.log: Input/output error (os error 5); \
             nothing is acknowledged until the database is opened again: restart the server"
        );
    }
}
