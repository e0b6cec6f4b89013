//! Where best effort stands, on manifests written as text.

use super::*;
use crate::manifest::literal;

#[track_caller]
fn check(text: &str, expected: u64) {
    let manifest = literal::manifest(text).unwrap();
    assert_eq!(common_horizon(&manifest).0, expected, "{text}");
}

#[test]
fn it_is_the_newest_boundary_with_few_runs_in_every_range_of_every_table() {
    check(
        "sealed 110 sorted 109
         table t
           range ..m
             base 1..=100 64M
             merged 101..=105 5M
             sorted 106 1M
             sorted 107 1M
             sorted 108 1M
             sorted 109 1M
           range m..
             base 1..=109 64M ct=90
         table u
           range ..
             base 1..=106 1M
             sorted 107..=109 1M ct=107",
        107,
    );
}

#[test]
fn ranges_merged_to_different_boundaries_meet_at_an_older_one() {
    // The first range is at 108 already, the second still needs the boundaries before it.
    check(
        "sealed 109 sorted 109
         table t
           range ..m
             base 1..=100 64M
             sorted 101 1M old=110
             sorted 102 1M old=110
             sorted 103 1M old=110
             sorted 104 1M old=110
             merged 101..=104 4M
             sorted 105 1M
             sorted 106 1M
           range m..
             base 1..=100 64M
             sorted 101 1M
             sorted 102 1M
             sorted 103 1M
             sorted 104 1M
             sorted 105 1M
             sorted 106 1M",
        103,
    );
}

#[test]
fn an_empty_database_and_one_far_behind_have_one_too() {
    check("sealed 0 sorted 0", 0);
    check(
        "sealed 5 sorted 5\ntable t after 5\nrange ..\nbase 1..=5 none",
        5,
    );
    check(
        "sealed 5 sorted 4\ntable t after 5\nrange ..\nbase 1..=5 none ct=0",
        4,
    );
    let far_behind = "sealed 6 sorted 6
         table t
           range ..
             sorted 1 1M part=0
             sorted 1 1M part=1
             sorted 1 1M part=2
             sorted 1 1M part=3
             sorted 1 1M part=4
             sorted 2..=6 1M ct=6";
    check(far_behind, 1);
}

#[test]
fn the_runs_of_a_best_effort_read_are_known_with_those_that_only_lead_on() {
    let manifest = literal::manifest(
        "sealed 107 sorted 107
         table t
           range ..m
             base 1..=100 64M old=50
             merged 101..=104 1M old=50
             sorted 105 none old=50
             base 1..=107 64M
           range m..
             base 1..=100 64M
             merged 101..=104 1M
             sorted 105 1M
             sorted 106 1M part=0
             sorted 106 1M part=1
             sorted 107 1M",
    )
    .unwrap();
    let index = ReadIndex::new(&manifest);
    assert_eq!(index.common_horizon().0, 105);
    let view = manifest.all_ranges().next().unwrap().0;
    let runs = |at: usize| {
        let range = &manifest.tables.values().next().unwrap().ranges[at];
        let runs = index.best_effort_runs(view, range.range.low.as_ref());
        runs.iter().map(|run| run.0).collect::<Vec<_>>()
    };
    assert_eq!(runs(0), [1, 2, 3]);
    assert_eq!(runs(1), [5, 6, 7]);
}
