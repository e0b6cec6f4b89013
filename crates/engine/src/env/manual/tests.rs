//! Time by hand and numbers from a seed.

use std::time::Duration;

use futures::FutureExt;
use futures::executor::block_on;

use super::{ManualClock, SeededRandom};
use crate::env::{Clock, Env, Random};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn sleepers_wake_when_time_is_moved() {
    let clock = ManualClock::new();
    let mut short = clock.sleep(SECOND);
    let mut long = clock.sleep(3 * SECOND);
    assert_eq!(clock.sleepers(), 0);
    assert!((&mut short).now_or_never().is_none());
    assert!((&mut long).now_or_never().is_none());
    assert_eq!((clock.sleepers(), clock.next_deadline()), (2, Some(SECOND)));

    let wall = clock.wall_micros();
    assert!(clock.advance_to_next());
    assert_eq!(clock.wall_micros() - wall, 1_000_000);
    assert!((&mut short).now_or_never().is_some());
    assert!((&mut long).now_or_never().is_none());
    drop(long);
    assert_eq!(clock.sleepers(), 0);
    assert!(!clock.advance_to_next());
    clock.set_wall_micros(5);
    clock.advance(SECOND);
    assert_eq!(
        (clock.wall_micros(), clock.monotonic()),
        (1_000_005, 2 * SECOND)
    );
    block_on(clock.sleep(Duration::ZERO));
}

#[test]
fn a_seed_gives_its_numbers() {
    // The first numbers of SplitMix64 for the seed 0, as published with it.
    let random = SeededRandom::new(0);
    let numbers = [random.next_u64(), random.next_u64(), random.next_u64()];
    let expected = [
        0xe220_a839_7b1d_cdaf,
        0x6e78_9e6a_a1b9_65f4,
        0x06c4_5d18_8009_454f,
    ];
    assert_eq!(numbers, expected);
}

#[test]
fn a_test_world_hangs_together() {
    let world = Env::test(7);
    let env = world.env.clone();
    world.clock.advance(SECOND);
    assert_eq!(env.clock.monotonic(), SECOND);
    block_on(env.store.put_if_absent("a", bytes::Bytes::new())).unwrap();
    assert_eq!(world.store.operations(), 1);
    assert_eq!(env.random.next_u64(), SeededRandom::new(7).next_u64());
}
