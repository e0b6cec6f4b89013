//! The coordinator's clock: what staleness and ages are measured by.
//!
//! Reads the environment's clocks. Invariant CLK-1: it begins at the greater of the machine's wall
//! time and the greatest time ever persisted, and then goes on with elapsed monotonic time: it
//! never jumps and never stands, whatever happens to the machine's clock.

use std::sync::Arc;
use std::time::Duration;

use crate::env::Clock;
use crate::env::planted::{Planted, is_planted};

#[cfg(test)]
mod tests;

/// Microseconds since 1970 that never go back. Clones are the same clock.
#[derive(Clone)]
pub struct CoordinatorClock {
    clock: Arc<dyn Clock>,
    base_micros: i64,
    base: Duration,
}

impl std::fmt::Debug for CoordinatorClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoordinatorClock")
            .field("base_micros", &self.base_micros)
            .finish_non_exhaustive()
    }
}

impl CoordinatorClock {
    /// A clock that begins now, or at `persisted_micros` if the machine's clock was set back.
    pub fn start(clock: Arc<dyn Clock>, persisted_micros: i64) -> CoordinatorClock {
        let base = clock.monotonic();
        CoordinatorClock {
            base_micros: clock.wall_micros().max(persisted_micros),
            base,
            clock,
        }
    }

    /// The time, in microseconds since 1970.
    pub fn now_micros(&self) -> i64 {
        if is_planted(Planted::ClockByWall) {
            return self.clock.wall_micros().max(self.base_micros);
        }
        let elapsed = self.clock.monotonic().saturating_sub(self.base);
        let micros = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
        self.base_micros.saturating_add(micros)
    }
}
