//! A spawner without threads: actors run when a test lets them, one at a time, in the order in
//! which they were woken. With [`super::manual::ManualClock`] a run repeats exactly.
//!
//! ```text
//!   spawn -> ready -> polled -> asleep -- woken --> ready
//!                          \-> done
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::{ActorHandle, Spawner};

/// Runs actors inside [`InlineSpawner::run`]. Clones are the same spawner.
#[derive(Clone, Default)]
pub struct InlineSpawner(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Actors that have not ended; None while one is polled.
    actors: BTreeMap<u64, Option<BoxFuture<'static, ()>>>,
    names: BTreeMap<u64, String>,
    ready: VecDeque<u64>,
    /// Actors whose turn came while they were polled further out.
    missed: BTreeSet<u64>,
    spawned: u64,
}

impl fmt::Debug for InlineSpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineSpawner")
            .field("actors", &self.actors())
            .finish_non_exhaustive()
    }
}

struct Woken {
    shared: Arc<Shared>,
    actor: u64,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let mut state = self.shared.state.lock();
        if !state.ready.contains(&self.actor) {
            state.ready.push_back(self.actor);
        }
    }
}

impl InlineSpawner {
    /// A spawner without actors.
    pub fn new() -> InlineSpawner {
        Self::default()
    }

    /// The names of the actors that have not ended, in the order of their spawning.
    pub fn actors(&self) -> Vec<String> {
        self.0.state.lock().names.values().cloned().collect()
    }

    /// Polls one actor that is ready; false if none is.
    pub fn step(&self) -> bool {
        let (number, mut actor) = {
            let mut state = self.0.state.lock();
            let Some(number) = state.ready.pop_front() else {
                return false;
            };
            match state.actors.get_mut(&number).map(Option::take) {
                Some(Some(actor)) => (number, actor),
                Some(None) => {
                    state.missed.insert(number);
                    return true;
                }
                // It ended since it was woken.
                None => return true,
            }
        };
        let waker = Waker::from(Arc::new(Woken {
            shared: Arc::clone(&self.0),
            actor: number,
        }));
        let polled = actor.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.0.state.lock();
        match polled {
            Poll::Pending => {
                state.actors.insert(number, Some(actor));
                if state.missed.remove(&number) {
                    state.ready.push_back(number);
                }
            }
            Poll::Ready(()) => {
                state.actors.remove(&number);
                state.names.remove(&number);
                state.missed.remove(&number);
                drop(state);
                // What the actor held may wake others as it goes.
                drop(actor);
            }
        }
        true
    }

    /// Polls until no actor is ready.
    pub fn run(&self) {
        while self.step() {}
    }

    /// Runs the actors until `task` has ended, and returns what it gave.
    ///
    /// # Panics
    /// If neither the task nor an actor can go on: what they wait for must be brought about
    /// first, by [`super::manual::ManualClock::advance`] for one.
    pub fn run_until<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let result = Arc::new(Mutex::new(None));
        let given = Arc::clone(&result);
        let task = Box::pin(async move {
            let value = task.await;
            *given.lock() = Some(value);
        });
        self.spawn("task", task).join();
        let value = result.lock().take();
        value.expect("a joined task has ended")
    }
}

impl Spawner for InlineSpawner {
    fn spawn(&self, name: &str, actor: BoxFuture<'static, ()>) -> Box<dyn ActorHandle> {
        let mut state = self.0.state.lock();
        state.spawned += 1;
        let number = state.spawned;
        state.actors.insert(number, Some(actor));
        state.names.insert(number, name.to_owned());
        state.ready.push_back(number);
        Box::new(InlineHandle {
            spawner: self.clone(),
            actor: number,
        })
    }
}

struct InlineHandle {
    spawner: InlineSpawner,
    actor: u64,
}

impl ActorHandle for InlineHandle {
    /// Runs all actors until this one has ended.
    fn join(self: Box<Self>) {
        loop {
            match self.spawner.0.state.lock().actors.get(&self.actor) {
                // Ended, or joined by itself.
                None | Some(None) => return,
                Some(Some(_)) => {}
            }
            let stuck = !self.spawner.step();
            assert!(!stuck, "no actor can go on: {:?}", self.spawner.actors());
        }
    }
}

#[cfg(test)]
mod tests;
