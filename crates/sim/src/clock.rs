//! The judge's clock: simulated time, and how far a life of the database is ahead of it.
//!
//! ```text
//!   opening: the machine's clock <= what the database says <= that, or what was persisted
//!   from then on: simulated time + what the database was ahead
//! ```
//!
//! What the database says is looked at once for each opening, and must be explained there by the
//! machine's clock or, where that was set back, by a clock of before (CLK-1). All else is judged by
//! simulated time.

use std::time::Duration;

/// Simulated time in microseconds.
pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// What is known of the database's clocks through all lives. All in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// No time was ever persisted by a clock that is further ahead of simulated time, from where
    /// the last one stood; nothing before the first opening.
    ahead_most: Option<i64>,
    /// No clock of an earlier opening came further.
    latest: Option<i64>,
}

impl Clocks {
    /// An opening begins on a machine whose clock is so far ahead. If it fails, it may have
    /// persisted a time all the same.
    pub(crate) fn begin(&mut self, now: Duration, wall_ahead: i64) {
        let came_to = self.ahead_most.map(|most| most + micros(now));
        self.latest = self.latest.max(came_to);
        self.ahead_most = self.ahead_most.max(Some(wall_ahead));
    }

    /// The database is open, and says what time it is: how far it is ahead. The machine's clock may
    /// have stood meanwhile; `acknowledged` is the latest time that a batch was sent at which the
    /// database had acknowledged.
    pub(crate) fn opened(
        &mut self,
        now: Duration,
        said_micros: i64,
        wall_ahead: i64,
        acknowledged: Option<i64>,
    ) -> Result<i64, String> {
        let ahead = said_micros - micros(now);
        let said = format!("the database's clock begins at {said_micros}");
        if Some(ahead) > self.ahead_most {
            let most = self.ahead_most.map(|most| most + micros(now));
            return Err(format!(
                "{said}, after all clocks that there were: {most:?}"
            ));
        }
        if ahead < wall_ahead {
            let wall = wall_ahead + micros(now);
            return Err(format!("{said}, before the machine's, which says {wall}"));
        }
        if let Some(sent) = acknowledged.filter(|sent| *sent > said_micros) {
            return Err(format!(
                "{said}, before a batch was sent that is acknowledged, at {sent}"
            ));
        }
        self.ahead_most = Some(ahead);
        Ok(ahead)
    }

    /// The latest that the database's clock may ever have said, in this life at `now_micros`: what
    /// was let go by then stays so.
    pub(crate) fn latest(&self, now_micros: i64) -> i64 {
        self.latest
            .map_or(now_micros, |latest| latest.max(now_micros))
    }

    /// No clock of an earlier opening came further; nothing in the first one.
    pub(crate) fn before(&self) -> Option<i64> {
        self.latest
    }
}

#[cfg(test)]
mod tests;
