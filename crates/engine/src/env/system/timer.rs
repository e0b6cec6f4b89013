//! Wakes sleepers: one thread, started by the first of them, that waits for the nearest deadline.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// A sleep longer than this (a century) is cut to it, so that deadlines can be added.
const SLEEP_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Sleepers by deadline, told apart by a number.
type Sleepers = BTreeMap<(Instant, u64), Waker>;

/// The sleepers and their thread, which ends when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Timer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    sleepers: Sleepers,
    numbers: u64,
    running: bool,
    closed: bool,
}

impl Timer {
    /// Ends after at least `duration`.
    pub(super) fn sleep(&self, duration: Duration) -> Sleep {
        Sleep {
            deadline: Instant::now() + duration.min(SLEEP_MAX),
            number: None,
            shared: Arc::clone(&self.0),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.changed.notify_one();
    }
}

/// A sleep under way.
pub(super) struct Sleep {
    deadline: Instant,
    number: Option<u64>,
    shared: Arc<Shared>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline <= Instant::now() {
            return Poll::Ready(());
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        if !state.running && !start(&shared, &mut state) {
            // No thread to be had: late is better than never.
            drop(state);
            thread::sleep(self.deadline.saturating_duration_since(Instant::now()));
            return Poll::Ready(());
        }
        let number = *self.number.get_or_insert_with(|| {
            state.numbers += 1;
            state.numbers
        });
        let key = (self.deadline, number);
        state.sleepers.insert(key, context.waker().clone());
        if state.sleepers.first_key_value().map(|(first, _)| *first) == Some(key) {
            shared.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.shared.state.lock();
            state.sleepers.remove(&(self.deadline, number));
        }
    }
}

/// Starts the thread; false if the system has none.
fn start(shared: &Arc<Shared>, state: &mut State) -> bool {
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name("timer".to_owned());
    state.running = thread.spawn(move || run(&shared)).is_ok();
    state.running
}

fn run(shared: &Shared) {
    let mut state = shared.state.lock();
    while !state.closed || !state.sleepers.is_empty() {
        let now = Instant::now();
        let due = due(&mut state.sleepers, now);
        if !due.is_empty() {
            parking_lot::MutexGuard::unlocked(&mut state, || due.into_iter().for_each(Waker::wake));
            continue;
        }
        match state.sleepers.first_key_value() {
            Some(((deadline, _), _)) => {
                let deadline = *deadline;
                shared.changed.wait_until(&mut state, deadline);
            }
            None => shared.changed.wait(&mut state),
        }
    }
    // A sleep that outlived its clock starts another thread.
    state.running = false;
}

/// Takes the sleepers whose time has come.
fn due(sleepers: &mut Sleepers, now: Instant) -> Vec<Waker> {
    let mut due = Vec::new();
    while let Some(first) = sleepers.first_entry()
        && first.key().0 <= now
    {
        due.push(first.remove());
    }
    due
}
