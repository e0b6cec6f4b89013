//! Tasks run in an order that the seed alone decides, and time passes only when nobody is ready.

use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::env::Clock;
use parking_lot::Mutex;

use super::{Stopped, World};

/// In what order three tasks take their turns.
fn order(seed: u64) -> (Vec<u32>, u64) {
    let world = World::new(seed, false);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for task in 0..3 {
        let (within, seen) = (world.clone(), Arc::clone(&seen));
        let future = async move {
            for turn in 0..5 {
                seen.lock().push(task);
                match turn % 2 {
                    0 => within.pause().await,
                    _ => within.sleep(Duration::from_millis(3)).await,
                }
            }
        };
        world.start("task", Box::pin(future));
    }
    assert_eq!(world.run(std::future::pending()), Stopped::Stuck);
    let seen = seen.lock().clone();
    (seen, world.hash())
}

#[test]
fn a_seed_decides_the_order() {
    assert_eq!(order(7), order(7));
    assert!((0..9).any(|seed| order(seed).0 != order(7).0));
}

#[test]
fn a_crash_drops_every_task() {
    let world = World::new(1, false);
    let within = world.clone();
    let forever = async move {
        loop {
            within.sleep(Duration::from_secs(1)).await;
        }
    };
    world.start("forever", Box::pin(forever));
    world.crash_in(20);
    assert_eq!(world.run(std::future::pending()), Stopped::Crashed);
    world.crash();
    assert_eq!(world.tasks(), Vec::<String>::new());
}

/// A task that has ended is woken at the moment at which another one is to wake.
#[test]
fn nobody_sleeps_on_because_a_task_has_ended() {
    for seed in 0..20 {
        let world = World::new(seed, false);
        let kept = Arc::new(Mutex::new(None));
        let keeper = Arc::clone(&kept);
        let ended = std::future::poll_fn(move |context| {
            *keeper.lock() = Some(context.waker().clone());
            std::task::Poll::Ready(())
        });
        world.start("ended", Box::pin(ended));
        for sleep in 1..30 {
            let (within, kept) = (world.clone(), Arc::clone(&kept));
            let future = async move {
                within.sleep(Duration::from_micros(sleep)).await;
                let waker: Option<std::task::Waker> = kept.lock().clone();
                waker.into_iter().for_each(|waker| waker.wake());
            };
            world.start("sleeper", Box::pin(future));
        }
        assert_eq!(world.run(std::future::pending()), Stopped::Stuck);
        assert_eq!(world.tasks(), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn the_machines_clock_stands_still_and_goes_on_from_there() {
    let world = World::new(1, false);
    let second = Duration::from_secs(1);
    let pass = |time: Duration| {
        assert_eq!(world.run(world.sleep(time)), Stopped::Done);
        (world.now(), world.wall_micros())
    };
    let (began, wall) = pass(second);
    world.stand_wall(second * 3);
    assert_eq!(pass(second), (began + second, wall));
    // Who crashes finds it as it was.
    world.crash();
    assert!(world.wall_stands());
    world.move_wall(-7);
    assert_eq!(pass(second), (began + second * 2, wall - 7));
    assert_eq!(pass(second * 2), (began + second * 4, wall - 7 + 1_000_000));
    assert!(!world.wall_stands());
    // Once more, before the last time is forgotten.
    world.stand_wall(second);
    assert_eq!(pass(second * 2), (began + second * 6, wall - 7 + 2_000_000));
}
