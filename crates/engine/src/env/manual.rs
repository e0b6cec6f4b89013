//! A world for tests: time that moves when it is told to, numbers from a seed, bytes in memory.
//!
//! Reads and writes nothing outside itself; the same seed and the same calls give the same world.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::memory::MemoryStore;
use super::planted::Chosen;
use super::system::ThreadSpawner;
use super::{Clock, Env, Random};

/// What a [`ManualClock`] says at first: the first second of the year 2020.
const WALL_MICROS_AT_START: i64 = 1_577_836_800_000_000;

/// An environment and the handles by which a test moves it.
#[derive(Debug, Clone)]
pub struct TestEnv {
    /// What the engine is given.
    pub env: Env,
    /// Its clock.
    pub clock: ManualClock,
    /// Its store.
    pub store: MemoryStore,
}

impl Env {
    /// A world of its own: time by hand, numbers from `seed`, an empty store in memory, and a
    /// thread for each actor.
    pub fn test(seed: u64) -> TestEnv {
        Env::test_over(seed, MemoryStore::new())
    }

    /// The same over a store that is there already, such as one after a crash.
    pub fn test_over(seed: u64, store: MemoryStore) -> TestEnv {
        let clock = ManualClock::new();
        let env = Env {
            clock: Arc::new(clock.clone()),
            random: Arc::new(SeededRandom::new(seed)),
            store: Arc::new(store.clone()),
            spawner: Arc::new(ThreadSpawner),
            planted: Chosen::NONE,
        };
        TestEnv { env, clock, store }
    }
}

/// A clock that moves only when it is told to. Clones are the same clock.
#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<State>>);

struct State {
    wall_micros: i64,
    monotonic: Duration,
    /// Sleepers by deadline, told apart by a number.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    numbers: u64,
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("ManualClock")
            .field("monotonic", &state.monotonic)
            .field("sleepers", &state.sleepers.len())
            .finish_non_exhaustive()
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// A clock whose monotonic time is zero.
    pub fn new() -> ManualClock {
        ManualClock(Arc::new(Mutex::new(State {
            wall_micros: WALL_MICROS_AT_START,
            monotonic: Duration::ZERO,
            sleepers: BTreeMap::new(),
            numbers: 0,
        })))
    }

    /// Lets time pass, on both clocks, and wakes those whose time has come.
    pub fn advance(&self, duration: Duration) {
        let mut state = self.0.lock();
        state.monotonic += duration;
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        state.wall_micros = state.wall_micros.saturating_add(micros);
        let mut due = Vec::new();
        let now = state.monotonic;
        while let Some(first) = state.sleepers.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        drop(state);
        due.into_iter().for_each(Waker::wake);
    }

    /// Lets time pass until the first sleeper's deadline; false if nobody sleeps.
    pub fn advance_to_next(&self) -> bool {
        let Some(next) = self.next_deadline() else {
            return false;
        };
        self.advance(next.saturating_sub(self.monotonic()));
        true
    }

    /// The monotonic time at which the first sleeper wakes.
    pub fn next_deadline(&self) -> Option<Duration> {
        let state = self.0.lock();
        let first = state.sleepers.first_key_value();
        first.map(|((deadline, _), _)| *deadline)
    }

    /// How many sleep.
    pub fn sleepers(&self) -> usize {
        self.0.lock().sleepers.len()
    }

    /// Sets the wall clock alone: a machine's clock may jump either way.
    pub fn set_wall_micros(&self, micros: i64) {
        self.0.lock().wall_micros = micros;
    }
}

/// Takes a sleeper off the list, however its sleep ends.
struct Asleep {
    clock: ManualClock,
    key: (Duration, u64),
}

impl Drop for Asleep {
    fn drop(&mut self) {
        self.clock.0.lock().sleepers.remove(&self.key);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn wall_micros(&self) -> i64 {
        self.0.lock().wall_micros
    }

    fn monotonic(&self) -> Duration {
        self.0.lock().monotonic
    }

    async fn sleep(&self, duration: Duration) {
        let key = {
            let mut state = self.0.lock();
            state.numbers += 1;
            (state.monotonic.saturating_add(duration), state.numbers)
        };
        let asleep = Asleep {
            clock: self.clone(),
            key,
        };
        poll_fn(|context| {
            let mut state = asleep.clock.0.lock();
            if key.0 <= state.monotonic {
                return Poll::Ready(());
            }
            state.sleepers.insert(key, context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Numbers from a seed (SplitMix64): the same seed gives the same numbers.
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The numbers of `seed`.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(AtomicU64::new(seed))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        let state = self.0.fetch_add(Self::STEP, Ordering::Relaxed);
        let mut mixed = state.wrapping_add(Self::STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests;
