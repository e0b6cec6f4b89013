//! A story is made small only as long as it fails in the same way, and each small one can be
//! written for the command.

use super::{RUNS_MAX, smaller, smallest};
use crate::story::Trim;
use crate::violation::kind_of;

const LOST: &str = "batch 3 is lost";
const STUCK: &str = "nothing goes on: 2 tasks";

/// Has little besides what goes wrong.
const PLAIN: &str = "shape=plain,tables=1,views=false,later=false,partitions=false,\
                     operators=false,ttl=false,ids=false,alters=false,writers=1,readers=0";

#[test]
fn another_violation_is_no_smaller_one() {
    let whole: Trim = PLAIN.parse().unwrap();
    let small = smallest(whole, &kind_of(LOST), |trim| {
        let is_lost = trim.faults && trim.operations >= 90;
        let violation = if is_lost { "batch 12 is lost" } else { STUCK };
        Some(violation.to_owned())
    });
    let left = "operator=false,strikes=false,records=false,gone=false,delays=false,hangs=false,\
                stands=false,truncates=false,replaces=false,remakes=false,frames=false,\
                sequences=false,bound=false,lives=1,operations=100";
    assert_eq!(small.to_string(), format!("{PLAIN},{left}"));
}

#[test]
fn what_never_fails_in_the_same_way_stays_whole() {
    let small = smallest(Trim::NOTHING, &kind_of(LOST), |_| Some(STUCK.to_owned()));
    assert_eq!(small, Trim::NOTHING);
}

#[test]
fn it_ends_whatever_fails() {
    let mut runs = 0;
    let small = smallest(Trim::NOTHING, &kind_of(LOST), |_| {
        runs += 1;
        Some(LOST.to_owned())
    });
    assert!(runs <= RUNS_MAX, "{runs}");
    assert_eq!((small.operations, small.faults), (0, false));
}

#[test]
fn each_smaller_story_can_be_written() {
    let smaller = smaller(&Trim::NOTHING);
    assert!(smaller.len() > 20);
    for trim in smaller {
        assert_eq!(trim.to_string().parse(), Ok(trim));
        assert_ne!(trim.to_string(), "");
    }
}
