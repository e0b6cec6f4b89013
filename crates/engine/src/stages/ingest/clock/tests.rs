//! Time that is set back, and time that passes.

use std::sync::Arc;
use std::time::Duration;

use super::CoordinatorClock;
use crate::env::manual::ManualClock;

#[test]
fn it_begins_at_the_greater_time_and_ignores_jumps() {
    let manual = ManualClock::new();
    manual.set_wall_micros(1_000);
    let clock = CoordinatorClock::start(Arc::new(manual.clone()), 5_000);
    assert_eq!(clock.now_micros(), 5_000);
    manual.advance(Duration::from_micros(10));
    manual.set_wall_micros(0);
    assert_eq!(clock.now_micros(), 5_010);
    let later = CoordinatorClock::start(Arc::new(manual.clone()), -7);
    assert_eq!(later.now_micros(), 0);
}
