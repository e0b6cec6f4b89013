//! Actors without threads.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use parking_lot::Mutex;

use super::InlineSpawner;
use crate::env::manual::ManualClock;
use crate::env::{Clock, Spawner};

#[test]
fn actors_run_when_let() {
    let (spawner, clock) = (InlineSpawner::new(), ManualClock::new());
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut handles = Vec::new();
    for (name, seconds) in [("slow", 2), ("fast", 1)] {
        let (clock, told) = (clock.clone(), Arc::clone(&told));
        let actor = async move {
            told.lock().push(format!("{name} begins"));
            clock.sleep(Duration::from_secs(seconds)).await;
            told.lock().push(format!("{name} ends"));
        };
        handles.push(spawner.spawn(name, Box::pin(actor)));
    }
    assert!(told.lock().is_empty());
    spawner.run();
    assert_eq!(spawner.actors(), ["slow", "fast"]);
    while clock.advance_to_next() {
        spawner.run();
    }
    assert_eq!(
        *told.lock(),
        ["slow begins", "fast begins", "fast ends", "slow ends"]
    );
    assert!(spawner.actors().is_empty());
    handles.into_iter().for_each(|handle| handle.join());
}

#[test]
fn a_task_s_value_comes_back() {
    let spawner = InlineSpawner::new();
    let (sender, receiver) = oneshot::channel();
    let actor = async move { sender.send(5).unwrap() };
    let _handle = spawner.spawn("sender", Box::pin(actor));
    assert_eq!(
        spawner.run_until(async move { receiver.await.unwrap() + 1 }),
        6
    );
}

#[test]
fn a_wake_during_an_inner_run_is_not_lost() {
    let spawner = InlineSpawner::new();
    let (sender, receiver) = oneshot::channel();
    let inner = spawner.clone();
    let outer = async move {
        let mut receiver = receiver;
        assert!(futures::poll!(&mut receiver).is_pending());
        let wake = async move { sender.send(1).unwrap() };
        inner.spawn("inner", Box::pin(wake)).join();
        receiver.await.unwrap()
    };
    assert_eq!(spawner.run_until(outer), 1);
}

#[test]
#[should_panic(expected = "no actor can go on")]
fn a_deadlock_is_told() {
    let spawner = InlineSpawner::new();
    spawner.run_until(std::future::pending::<()>());
}
