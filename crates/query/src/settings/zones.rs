//! The zone that moments are read and shown in, which is UTC. Drivers and scripts set the zone of
//! their machine without being asked to: another one is taken, and who sets it is told.
//!
//! Pure.

use lazybase_model::{Error, Result};

use crate::notice::Notice;
use crate::planner::time_zones::is_zone;

/// Names of UTC, in small letters.
const OF_UTC: [&str; 14] = [
    "utc",
    "etc/utc",
    "uct",
    "etc/uct",
    "universal",
    "zulu",
    "etc/zulu",
    "gmt",
    "etc/gmt",
    "z",
    "+00:00",
    "+00",
    "0",
    "local",
];

fn is_utc(zone: &str) -> bool {
    OF_UTC.contains(&zone.trim().to_lowercase().as_str())
}

/// Refuses what is no zone.
pub(super) fn check(zone: &str) -> Result<()> {
    let hours: Option<f64> = zone.trim().parse().ok();
    let is_known = is_utc(zone) || is_zone(zone) || hours.is_some_and(|hours| hours.abs() < 168.0);
    match is_known {
        true => Ok(()),
        false => Err(Error::invalid(format!("time zone {zone:?} not recognized"))
            .with_hint("pg_timezone_names lists the zones")
            .with_sqlstate("22023")),
    }
}

/// What who sets the zone is told, where moments are shown in another one.
pub fn notice(zone: &str) -> Option<Notice> {
    (!is_utc(zone)).then(|| {
        Notice::note(format!(
            "TimeZone {zone:?} is not followed: moments are read and shown in UTC; \
             x AT TIME ZONE '...' shows one in another zone"
        ))
    })
}
