//! The real world: the machine's clock and randomness, and a thread for each actor.
//!
//! Reads and writes no file; the store is given. Sleeping needs no runtime: one thread wakes all
//! sleepers, to some fifty microseconds, where a runtime's timer would round a group commit's half
//! millisecond up to two.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the production clock, randomness and spawner of `Env`"
)]

mod timer;

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use futures::future::BoxFuture;

use super::planted::Chosen;
use super::{ActorHandle, Clock, Env, Random, Spawner, Store};
use timer::Timer;

impl Env {
    /// The real world, keeping its bytes in `store`.
    pub fn system(store: Arc<dyn Store>) -> Env {
        Env {
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            store,
            spawner: Arc::new(ThreadSpawner),
            planted: Chosen::NONE,
        }
    }
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    timer: Timer,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    pub fn new() -> SystemClock {
        SystemClock {
            start: Instant::now(),
            timer: Timer::default(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Microseconds since 1970, as the machine believes.
pub(super) fn wall_micros() -> i64 {
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn wall_micros(&self) -> i64 {
        wall_micros()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        self.timer.sleep(duration).await;
    }
}

/// The system's randomness.
#[derive(Debug)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the system has a source of randomness");
        u64::from_le_bytes(bytes)
    }
}

/// Runs each actor on a thread of its own, with a single-threaded runtime, so that what needs its
/// timers works there. It has none for sockets: that would take four open files for each actor.
#[derive(Debug)]
pub struct ThreadSpawner;

impl Spawner for ThreadSpawner {
    /// # Panics
    /// If the system refuses a thread.
    fn spawn(&self, name: &str, actor: BoxFuture<'static, ()>) -> Box<dyn ActorHandle> {
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .expect("a runtime of one thread without sockets takes nothing of the system");
            runtime.block_on(actor);
        };
        let thread = thread::Builder::new()
            .name(name.replace('\0', " "))
            .spawn(run)
            .expect("the system gives a thread for a long-lived actor");
        Box::new(ThreadHandle(thread))
    }
}

struct ThreadHandle(JoinHandle<()>);

impl ActorHandle for ThreadHandle {
    /// Goes on with the panic of an actor that panicked. An actor that joins itself returns at
    /// once: it may hold the last handle of what it is part of.
    fn join(self: Box<Self>) {
        if self.0.thread().id() == thread::current().id() {
            return;
        }
        if let Err(panic) = self.0.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests;
