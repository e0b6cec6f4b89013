//! What the database's clock may say when it is opened.

use std::time::Duration;

use super::Clocks;

const SECOND: Duration = Duration::from_secs(1);
/// How far the machine's clock is ahead at first, in microseconds.
const AHEAD: i64 = 1_000_000_000;

/// What a clock says that is so far ahead after some seconds.
fn says(seconds: u32, ahead: i64) -> i64 {
    i64::from(seconds) * 1_000_000 + ahead
}

fn opened(clocks: &mut Clocks, seconds: u32, said: i64, wall_ahead: i64) -> Result<i64, String> {
    clocks.begin(SECOND * seconds, wall_ahead);
    clocks.opened(SECOND * seconds, said, wall_ahead, None)
}

#[test]
fn a_clock_begins_with_the_machines() {
    let mut clocks = Clocks::default();
    assert_eq!(opened(&mut clocks, 1, says(1, AHEAD), AHEAD), Ok(AHEAD));
    assert!(opened(&mut clocks, 2, says(2, AHEAD) + 1, AHEAD).is_err());
    assert!(opened(&mut clocks, 2, says(2, AHEAD) - 1, AHEAD).is_err());
    let forward = AHEAD + 1_500_000;
    assert_eq!(
        opened(&mut clocks, 3, says(3, forward), forward),
        Ok(forward)
    );
}

#[test]
fn where_the_machines_was_set_back_it_goes_on_from_a_time_that_was_persisted() {
    let mut clocks = Clocks::default();
    opened(&mut clocks, 1, says(1, AHEAD), AHEAD).unwrap();
    let back = AHEAD - 3_600_000_000;
    // Persisted half a second before the processes ended.
    let lag = AHEAD - 500_000;
    assert_eq!(opened(&mut clocks, 9, says(9, lag), back), Ok(lag));
    // Nothing says any more that it was further ahead once.
    assert!(opened(&mut clocks, 10, says(10, AHEAD), back).is_err());
    let acknowledged = Some(says(9, lag));
    assert!(
        clocks
            .opened(SECOND * 11, says(8, lag), back, acknowledged)
            .is_err()
    );
}

#[test]
fn an_opening_that_failed_may_have_persisted_the_machines_time() {
    let mut clocks = Clocks::default();
    clocks.begin(SECOND, AHEAD);
    let back = AHEAD - 2_000_000;
    assert_eq!(opened(&mut clocks, 2, says(2, AHEAD), back), Ok(AHEAD));
}

#[test]
fn what_an_earlier_clock_came_to_is_not_forgotten() {
    let mut clocks = Clocks::default();
    opened(&mut clocks, 1, says(1, AHEAD), AHEAD).unwrap();
    assert_eq!(clocks.latest(says(5, AHEAD)), says(5, AHEAD));
    assert_eq!(clocks.before(), None);
    let lag = AHEAD - 500_000;
    opened(&mut clocks, 9, says(9, lag), AHEAD - 3_600_000_000).unwrap();
    assert_eq!(clocks.latest(says(9, lag)), says(9, AHEAD));
    assert_eq!(clocks.before(), Some(says(9, AHEAD)));
    assert_eq!(clocks.latest(says(10, lag)), says(10, lag));
}
