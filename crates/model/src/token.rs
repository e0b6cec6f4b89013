//! Tokens: an acknowledgement's horizon, with the database's identity and history.
//!
//! A token says "my write is at or before this horizon". It can be carried to another client,
//! which then reads `AFTER 'token'`. A restore starts a new history; a token of another history is
//! an error, never a wait.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::scu::{BatchCount, Horizon, ScuNumber};

/// The identity of a database and of its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DatabaseId {
    /// Drawn at random when the database was made.
    pub database: u64,
    /// Drawn at random when the database was made or restored.
    pub history: u32,
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:08x}", self.database, self.history)
    }
}

/// A horizon of one database and history. Tokens of one history combine by maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token {
    /// Whose horizon it is.
    pub database: DatabaseId,
    /// Everything up to here is covered.
    pub horizon: Horizon,
}

impl Token {
    /// The horizon, if the token belongs to `database`.
    ///
    /// # Errors
    /// `Invalid` when the token is of another database or history.
    pub fn horizon_in(&self, database: DatabaseId) -> Result<Horizon> {
        if self.database == database {
            return Ok(self.horizon);
        }
        Err(
            Error::invalid("the token belongs to another database or history")
                .with_detail(format!("token of {}, this is {database}", self.database))
                .with_hint("use the token that this database returned for the write"),
        )
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Horizon { scu, batches } = self.horizon;
        write!(f, "lb1-{}-{:x}-{:x}", self.database, scu.0, batches.0)
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || Error::invalid(format!("{text:?} is not a token"));
        let parts: Vec<&str> = text.trim().split('-').collect();
        let ["lb1", database, history, scu, batches] = parts[..] else {
            return Err(malformed());
        };
        let number = |digits: &str| u64::from_str_radix(digits, 16).map_err(|_| malformed());
        let small = |digits: &str| u32::from_str_radix(digits, 16).map_err(|_| malformed());
        Ok(Token {
            database: DatabaseId {
                database: number(database)?,
                history: small(history)?,
            },
            horizon: Horizon {
                scu: ScuNumber(number(scu)?),
                batches: BatchCount(small(batches)?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_is_bound_to_its_history() {
        let database = DatabaseId {
            database: 0xfeed_beef,
            history: 7,
        };
        let token = Token {
            database,
            horizon: Horizon::inside(ScuNumber(300), 12),
        };
        let read: Token = token.to_string().parse().unwrap();
        assert_eq!(read, token);
        assert_eq!(read.horizon_in(database).unwrap(), token.horizon);
        let restored = DatabaseId {
            history: 8,
            ..database
        };
        assert_eq!(
            read.horizon_in(restored).unwrap_err().kind(),
            crate::ErrorKind::Invalid
        );
        for text in ["", "lb1", "lb2-0-0-0-0", "lb1-x-0-0-0", "lb1-0-0-0-0-0"] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
