//! What is left out of a look would have said the same.

use std::time::Duration;

use lazybase_engine::manifest::literal;
use lazybase_model::ScuNumber;
use proptest::prelude::*;

use super::*;
use crate::coordinator::policy::propose;

const STATES: [&str; 2] = [
    "sealed 112 sorted 109
    table t
      range ..
        base 1..=100 64M
        merged 101..=104 4M
        sorted 105 1M
        sorted 106 1M
        sorted 107 1M
        sorted 108 1M
        sorted 109 1M
    table u target 20
      range ..
        base 1..=100 64M
        merged 101..=104 4M
        sorted 105 1M
        sorted 106 1M
        sorted 107 1M",
    "sealed 109 sorted 109
    table t
      range ..m
        base 1..=108 30M
        sorted 109 1M
      range m..
        base 1..=109 200M",
];

/// What a load is drawn from.
type Drawn = (u64, u64, u64, Option<u64>, i64, u64);

proptest! {
    #[test]
    fn a_look_that_is_left_out_would_have_said_the_same(
        state in 0_usize..2,
        loads in proptest::collection::vec(
            (0_u64..2000, 0_u64..3, 0_u64..40, proptest::option::of(110_u64..112), 112_i64..125,
                proptest::sample::select(vec![0_u64, 105, 109, 111])),
            2..20),
    ) {
        let manifest = Arc::new(literal::manifest(STATES[state]).unwrap());
        let settings = PolicySettings {
            unsorted_bytes_max: 20 << 20,
            ..PolicySettings::default()
        };
        let mut kept = None;
        for (idle_ms, open_batches, unsorted_mib, sorting, now, awaited) in loads as Vec<Drawn> {
            let sort = sorting.map(|scu| RunningTask::Sort { scu: ScuNumber(scu) });
            let running: Vec<RunningTask> = sort.into_iter().collect();
            let load = Load {
                running: &running,
                idle_for: Duration::from_millis(idle_ms),
                now_micros: now * 1_000_000,
                open_batches,
                unsorted_bytes: unsorted_mib << 20,
                awaited_through: ScuNumber(awaited),
                settings: &settings,
            };
            let mut look = Look::at(&manifest, &running, kept);
            prop_assert_eq!(look.proposals(&load).to_vec(), propose(&manifest, &load));
            kept = Some(look);
        }
    }
}

#[test]
fn nothing_new_is_not_looked_at_again() {
    let manifest = Arc::new(literal::manifest(STATES[0]).unwrap());
    let settings = PolicySettings::default();
    let load = |millis: u64, open_batches: u64| Load {
        running: &[],
        idle_for: Duration::from_millis(millis),
        now_micros: 0,
        open_batches,
        unsorted_bytes: 0,
        awaited_through: ScuNumber::ZERO,
        settings: &settings,
    };
    let mut look = Look::at(&manifest, &[], None);
    let mut said = look.proposals(&load(0, 1));
    let loads = [
        (50, 7, false),
        (0, 0, true),
        (900, 1, true),
        (950, 3, false),
    ];
    for (idle_ms, open_batches, is_again) in loads {
        let now = look.proposals(&load(idle_ms, open_batches));
        assert_eq!(!Arc::ptr_eq(&said, &now), is_again, "{idle_ms} ms");
        said = now;
    }
    let next = Arc::new(Manifest::clone(&manifest));
    let mut look = Look::at(&next, &[], Some(look));
    assert!(!Arc::ptr_eq(&said, &look.proposals(&load(950, 3))));
}
