//! What faults explain.

use std::time::Duration;

use super::{FAULTS_ECHO, TOLD_LATE, explaining_from};

#[test]
fn faults_explain_what_fails_for_a_while() {
    let (since, now) = (FAULTS_ECHO * 2, FAULTS_ECHO * 3);
    assert_eq!(explaining_from(now, since, None), Some(FAULTS_ECHO));
    let soon = Duration::from_secs(1);
    assert_eq!(explaining_from(now, soon, None), Some(Duration::ZERO));
}

/// However shortly before that a fault was.
#[test]
fn faults_explain_nothing_at_rest_but_what_hung_until_then() {
    let rest = FAULTS_ECHO;
    let late = rest + TOLD_LATE - Duration::from_micros(1);
    assert_eq!(
        explaining_from(late, rest, Some(rest)),
        Some(Duration::ZERO)
    );
    assert_eq!(explaining_from(rest + TOLD_LATE, rest, Some(rest)), None);
}
