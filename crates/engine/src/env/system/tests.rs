//! The real clock and threads, as far as a test can tell them from false ones.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use futures::FutureExt;
use futures::executor::block_on;
use futures::future::{join_all, select};

use super::{SystemClock, SystemRandom, ThreadSpawner};
use crate::env::memory::MemoryStore;
use crate::env::{Clock, Env, Random, Spawner};

const SHORT: Duration = Duration::from_millis(3);

async fn sleep_is_long_enough(clock: &SystemClock) {
    let before = clock.monotonic();
    clock.sleep(SHORT).await;
    let slept = clock.monotonic() - before;
    assert!(slept >= SHORT, "{slept:?}");
}

#[test]
fn sleeps_under_any_executor() {
    let clock = SystemClock::new();
    block_on(sleep_is_long_enough(&clock));
    let mut one_thread = tokio::runtime::Builder::new_current_thread();
    one_thread
        .build()
        .unwrap()
        .block_on(sleep_is_long_enough(&clock));
    let mut many_threads = tokio::runtime::Builder::new_multi_thread();
    let many_threads = many_threads.worker_threads(2).enable_all().build().unwrap();
    many_threads.block_on(sleep_is_long_enough(&clock));
    block_on(clock.sleep(Duration::ZERO));
}

/// In which order those wake who are due is the machine's affair, when it is busy.
#[test]
fn many_sleepers_all_wake_and_none_too_soon() {
    let clock = SystemClock::new();
    let (sender, receiver) = mpsc::channel();
    let sleeps = (1..=20).rev().map(|millis| {
        let (clock, sender) = (&clock, sender.clone());
        async move {
            let (began, length) = (clock.monotonic(), Duration::from_millis(millis * 5));
            clock.sleep(length).await;
            assert!(clock.monotonic() - began >= length);
            sender.send(millis).unwrap();
        }
    });
    block_on(join_all(sleeps));
    drop(sender);
    let woken: BTreeSet<u64> = receiver.into_iter().collect();
    assert_eq!(woken, (1..=20).collect::<BTreeSet<u64>>());
}

#[test]
fn the_sooner_of_two_sleeps_wins_and_the_other_goes() {
    let clock = SystemClock::new();
    let long = clock.sleep(Duration::MAX);
    let short = clock.sleep(SHORT);
    block_on(select(long, short)).factor_first();
    assert!(clock.monotonic() < Duration::from_secs(60));
    assert!(block_on(clock.sleep(SHORT).map(|()| true)));
}

#[test]
fn actors_run_on_threads_of_their_names() {
    let (sender, receiver) = mpsc::channel();
    let actor = async move {
        let name = thread::current().name().map(str::to_owned);
        tokio::time::sleep(Duration::from_millis(1)).await;
        sender.send(name).unwrap();
    };
    ThreadSpawner.spawn("merge 1", Box::pin(actor)).join();
    assert_eq!(receiver.recv().unwrap().as_deref(), Some("merge 1"));
}

#[test]
fn joining_waits_and_hands_on_a_panic() {
    let done = Arc::new(AtomicBool::new(false));
    let (env, set) = (Env::system(Arc::new(MemoryStore::new())), Arc::clone(&done));
    let clock = Arc::clone(&env.clock);
    let actor = async move {
        clock.sleep(SHORT).await;
        set.store(true, Ordering::SeqCst);
    };
    env.spawner.spawn("slow", Box::pin(actor)).join();
    assert!(done.load(Ordering::SeqCst));

    let panics = ThreadSpawner.spawn("panics", Box::pin(async { panic!("as asked") }));
    let joined = thread::spawn(move || panics.join()).join();
    assert_eq!(joined.unwrap_err().downcast_ref(), Some(&"as asked"));
}

#[test]
fn wall_clock_and_randomness() {
    let after_2020 = 1_577_836_800_000_000;
    assert!(SystemClock::new().wall_micros() > after_2020);
    assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
}
