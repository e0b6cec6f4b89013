//! Which backups stay.

use super::*;

/// Backups 1, 2, ...: what each was taken at, in microseconds; `?` where it can't be read, and `!`
/// behind the time where a file is missing.
fn found(text: &str) -> Vec<Found> {
    let words = text.split_whitespace().zip(1..);
    let found = words.map(|(word, number)| Found {
        number,
        taken_micros: word.trim_end_matches('!').parse().ok(),
        lack: word.ends_with(['?', '!']).then(|| "a file".to_owned()),
    });
    found.collect()
}

#[test]
fn the_newest_stay_and_all_that_are_newer_than_one_that_stays() {
    for (backups, keep, from, oldest) in [
        // Nothing was asked for.
        ("10 20 30", None, None, 1),
        ("10 20 30", Some(1), None, 3),
        ("10 20 30", Some(2), None, 2),
        ("10 20 30", Some(3), None, 1),
        ("10 20 30", Some(u64::MAX), None, 1),
        // The newest stays in any case.
        ("10 20 30", Some(0), None, 3),
        ("10 20 30", None, Some(99), 3),
        ("10 20 30", None, Some(20), 2),
        ("10 20 30", None, Some(21), 3),
        ("10 20 30", None, Some(0), 1),
        // Both must let it go.
        ("10 20 30 40", Some(3), Some(35), 2),
        ("10 20 30 40", Some(1), Some(25), 3),
        // What is not whole does not count, and stays where it is newer.
        ("10 20 30! 40", Some(2), None, 2),
        ("10 20 ? 40", Some(2), None, 2),
        ("10 20 30 40!", Some(1), None, 3),
        ("10 20 30 40!", None, Some(99), 3),
        ("10 ? 30 40", Some(2), None, 3),
        ("10 20! ?", Some(1), None, 1),
        ("10! 20! ?", Some(1), Some(99), 1),
        ("10! 20 30", None, Some(10), 1),
        // A clock that went back lets none go between two that stay.
        ("10 50 30 40", None, Some(45), 2),
    ] {
        let request = PruneRequest {
            keep,
            taken_from_micros: from,
            dry_run: false,
        };
        let kept = oldest_kept(&found(backups), &request);
        assert_eq!(kept, oldest, "{backups}: keep {keep:?}, from {from:?}");
    }
    assert_eq!(oldest_kept(&[], &PruneRequest::default()), 0);
}
