//! The simulated world: tasks in one thread, whose order is drawn from the seed, and a clock that
//! moves when they have nothing to do.
//!
//! ```text
//!   spawn -> ready --drawn--> polled -> asleep --woken--> ready
//!                                  \-> done
//!   nobody ready: time passes to the next sleeper
//! ```
//!
//! Each poll costs a little time, drawn too. A crash drops every task where it stands. The order of
//! ready tasks depends on which they are and not on who woke first, so that it is the same for the
//! same seed whatever primitive did the waking.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use lazybase_engine::env::{ActorHandle, Clock, Random, Spawner};
use parking_lot::{Mutex, MutexGuard};

use crate::dice::{Dice, mixed};
use crate::marks::{Mark, Marks};

/// What the machine's clock says when a run begins: the first second of the year 2020.
pub const WALL_MICROS_AT_START: i64 = 1_577_836_800_000_000;

/// A poll takes less than this many microseconds.
const POLL_MICROS: u64 = 24;

/// What stands for the main future among the tasks.
const MAIN: u32 = u32::MAX;

/// What the names of workers begin with.
const WORKER: &str = "worker-";

/// More turns than an actor takes that was told to end.
const JOIN_TURNS_MAX: u32 = 10_000;

/// Why nothing goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The main future has ended.
    Done,
    /// The processes crashed.
    Crashed,
    /// Nobody is ready, and nobody sleeps.
    Stuck,
    /// The run takes longer than any run should.
    Endless,
    /// An answer was wrong.
    Violated,
}

/// A simulated world. Clones are the same.
#[derive(Clone)]
pub struct World(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    ready: Arc<Ready>,
    recording: bool,
}

/// The tasks that can go on, by number, rising.
#[derive(Default)]
struct Ready(Mutex<Vec<u32>>);

struct State {
    order: Dice,
    numbers: Dice,
    now: Duration,
    wall_offset_micros: i64,
    /// From when until when the machine's clock stands still.
    stands: Option<(Duration, Duration)>,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    slept: u64,
    tasks: Vec<Task>,
    /// Whether a worker is being polled.
    in_worker: bool,
    steps: u64,
    steps_max: u64,
    crash: Crash,
    marks: Marks,
    log: EventLog,
    violation: Option<String>,
}

/// When the processes crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    Never,
    /// After so many more polls.
    In(u64),
    Now,
}

struct Task {
    name: String,
    is_worker: bool,
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
    alive: bool,
}

/// What happened, as a hash, and as lines where somebody wants to read them.
#[derive(Default)]
struct EventLog {
    hash: u64,
    lines: Vec<String>,
}

struct Woken {
    ready: Arc<Ready>,
    task: u32,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut ready = self.ready.0.lock();
        if let Err(at) = ready.binary_search(&self.task) {
            ready.insert(at, self.task);
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("now", &self.0.state.lock().now)
            .finish_non_exhaustive()
    }
}

impl World {
    /// The world of a seed; `recording` keeps what happens as text.
    pub fn new(seed: u64, recording: bool) -> World {
        World(Arc::new(Shared {
            state: Mutex::new(State {
                order: Dice::of(seed, 1),
                numbers: Dice::of(seed, 2),
                now: Duration::from_secs(1),
                wall_offset_micros: WALL_MICROS_AT_START,
                stands: None,
                sleepers: BTreeMap::new(),
                slept: 0,
                tasks: Vec::new(),
                in_worker: false,
                steps: 0,
                steps_max: u64::MAX,
                crash: Crash::Never,
                marks: Marks::default(),
                log: EventLog {
                    hash: seed,
                    lines: Vec::new(),
                },
                violation: None,
            }),
            ready: Arc::default(),
            recording,
        }))
    }

    /// Time since the run began.
    pub fn now(&self) -> Duration {
        self.0.state.lock().now
    }

    /// How many polls there were.
    pub fn steps(&self) -> u64 {
        self.0.state.lock().steps
    }

    /// Ends the run after so many more polls.
    pub fn limit_steps(&self, more: u64) {
        let mut state = self.0.state.lock();
        state.steps_max = state.steps + more;
    }

    /// How far the machine's clock is ahead of the time since the run began, in microseconds.
    pub fn wall_ahead(&self) -> i64 {
        self.0.state.lock().wall_ahead()
    }

    /// Whether the machine's clock stands still.
    pub fn wall_stands(&self) -> bool {
        let state = self.0.state.lock();
        state.stands.is_some_and(|(_, until)| state.now < until)
    }

    /// Lets the machine's clock stand still for so long, and then go on from there.
    pub fn stand_wall(&self, lasting: Duration) {
        let mut state = self.0.state.lock();
        state.wall_offset_micros = state.wall_ahead();
        state.stands = Some((state.now, state.now + lasting));
    }

    /// Moves the machine's clock, and nothing else.
    pub fn move_wall(&self, micros: i64) {
        self.0.state.lock().wall_offset_micros += micros;
    }

    /// Lets the processes crash after so many more polls.
    pub fn crash_in(&self, polls: u64) {
        self.0.state.lock().crash = Crash::In(polls);
    }

    /// Lets the processes crash before anything else happens.
    pub fn crash_now(&self) {
        self.0.state.lock().crash = Crash::Now;
    }

    /// Notes that a mark was met.
    pub fn meet(&self, mark: Mark) {
        self.0.state.lock().marks.meet(mark);
    }

    /// The marks that were met.
    pub fn marks(&self) -> Marks {
        self.0.state.lock().marks.clone()
    }

    /// Something was wrong: the run ends. The first one counts.
    pub fn violate(&self, what: String) {
        self.note("violation", 0, 0, || what.clone());
        let mut state = self.0.state.lock();
        state.violation.get_or_insert(what);
    }

    /// What was wrong.
    pub fn violation(&self) -> Option<String> {
        self.0.state.lock().violation.clone()
    }

    /// Notes something that happened: a word, two numbers, and text for those who read it.
    pub fn note(&self, what: &'static str, one: u64, two: u64, text: impl FnOnce() -> String) {
        let text = self.0.recording.then(text);
        let mut state = self.0.state.lock();
        let now = state.now;
        state.log.note(now, what, (one, two), text);
    }

    /// The hash of everything that happened.
    pub fn hash(&self) -> u64 {
        self.0.state.lock().log.hash
    }

    /// What happened, in words, where that was recorded.
    pub fn take_lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.state.lock().log.lines)
    }

    /// Sleeps.
    pub async fn sleep(&self, duration: Duration) {
        let key = {
            let mut state = self.0.state.lock();
            state.slept += 1;
            (state.now.saturating_add(duration), state.slept)
        };
        let asleep = Asleep { world: self, key };
        poll_fn(|context| {
            let mut state = asleep.world.0.state.lock();
            if key.0 <= state.now {
                return Poll::Ready(());
            }
            state.sleepers.insert(key, context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Lets others go first.
    pub async fn pause(&self) {
        let mut passed = false;
        poll_fn(|context| {
            if passed {
                return Poll::Ready(());
            }
            passed = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Runs a task beside the others.
    pub fn start(&self, name: &str, future: BoxFuture<'static, ()>) -> u32 {
        let mut state = self.0.state.lock();
        let number = state.tasks.len() as u32;
        let waker = self.waker(number);
        waker.wake_by_ref();
        state.tasks.push(Task {
            name: name.to_owned(),
            is_worker: name.starts_with(WORKER),
            future: Some(future),
            waker,
            alive: true,
        });
        number
    }

    /// Whether it is a worker that asks.
    pub fn in_worker(&self) -> bool {
        self.0.state.lock().in_worker
    }

    /// Whether a task has not ended.
    pub fn is_alive(&self, task: u32) -> bool {
        let state = self.0.state.lock();
        state
            .tasks
            .get(task as usize)
            .is_some_and(|task| task.alive)
    }

    /// Runs `main` and all tasks until `main` has ended, or the processes have crashed.
    pub fn run(&self, main: impl Future<Output = ()>) -> Stopped {
        let mut main = pin!(main);
        let waker = self.waker(MAIN);
        waker.wake_by_ref();
        loop {
            if self.0.state.lock().violation.is_some() {
                return Stopped::Violated;
            }
            match self.turn() {
                Turn::Polled => {}
                Turn::Main => {
                    if main
                        .as_mut()
                        .poll(&mut Context::from_waker(&waker))
                        .is_ready()
                    {
                        return Stopped::Done;
                    }
                }
                Turn::Stopped(why) => return why,
            }
        }
    }

    fn waker(&self, task: u32) -> Waker {
        Waker::from(Arc::new(Woken {
            ready: Arc::clone(&self.0.ready),
            task,
        }))
    }

    /// Lets one task go on, or time pass.
    fn turn(&self) -> Turn {
        let number = {
            let mut state = self.0.state.lock();
            match &mut state.crash {
                Crash::Never => {}
                Crash::In(polls) if *polls > 0 => *polls -= 1,
                Crash::In(_) | Crash::Now => return Turn::Stopped(Stopped::Crashed),
            }
            if state.steps >= state.steps_max {
                return Turn::Stopped(Stopped::Endless);
            }
            state.steps += 1;
            let mut ready = self.0.ready.0.lock();
            if ready.is_empty() {
                drop(ready);
                let Some(next) = state.next_moment() else {
                    return Turn::Stopped(Stopped::Stuck);
                };
                state.now = next;
                wake_sleepers(state);
                return Turn::Polled;
            }
            let at = state.order.index(ready.len());
            ready.remove(at)
        };
        if number == MAIN {
            return Turn::Main;
        }
        self.poll(number);
        Turn::Polled
    }

    /// A task is polled, beside those whose polls wait for it; whether one of them is a worker.
    fn enter(&self, number: u32) -> bool {
        let mut state = self.0.state.lock();
        let is_worker = state.tasks[number as usize].is_worker;
        std::mem::replace(&mut state.in_worker, is_worker)
    }

    /// Polls a task; true once it has ended.
    fn poll(&self, number: u32) -> bool {
        let (future, alive, waker) = {
            let mut state = self.0.state.lock();
            let micros = state.order.below(POLL_MICROS);
            state.now += Duration::from_micros(micros);
            let task = &mut state.tasks[number as usize];
            let polled = (task.future.take(), task.alive, task.waker.clone());
            // Time has passed for the others, even if this task has ended.
            wake_sleepers(state);
            polled
        };
        let Some(mut future) = future else {
            return !alive;
        };
        let before = self.enter(number);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.0.state.lock();
        state.in_worker = before;
        let log = &mut state.log;
        log.mix(u64::from(number));
        match polled {
            Poll::Pending => {
                state.tasks[number as usize].future = Some(future);
                false
            }
            Poll::Ready(()) => {
                state.tasks[number as usize].alive = false;
                drop(state);
                // What the task held may wake others as it goes.
                drop(future);
                true
            }
        }
    }

    /// Drops every task where it stands, as a crash does.
    pub fn crash(&self) {
        let (tasks, sleepers) = {
            let mut state = self.0.state.lock();
            state.crash = Crash::Never;
            let sleepers = std::mem::take(&mut state.sleepers);
            (std::mem::take(&mut state.tasks), sleepers)
        };
        drop(sleepers);
        drop(tasks);
        // What was dropped last may have slept, or woken others.
        let mut state = self.0.state.lock();
        let sleepers = std::mem::take(&mut state.sleepers);
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        drop((sleepers, tasks));
        self.0.ready.0.lock().clear();
    }

    /// The names of the tasks that have not ended.
    pub fn tasks(&self) -> Vec<String> {
        let state = self.0.state.lock();
        let alive = state.tasks.iter().filter(|task| task.alive);
        alive.map(|task| task.name.clone()).collect()
    }
}

enum Turn {
    Polled,
    /// It is the turn of what is no task.
    Main,
    Stopped(Stopped),
}

/// Wakes those who have slept enough, each without the lock: what a waker holds may go with it.
fn wake_sleepers(mut state: MutexGuard<'_, State>) {
    while let Some(waker) = state.next_woken() {
        MutexGuard::unlocked(&mut state, || waker.wake());
    }
}

impl State {
    /// How far the machine's clock is ahead of the time since the run began, in microseconds.
    fn wall_ahead(&self) -> i64 {
        let stood = self.stands.map_or(Duration::ZERO, |(since, until)| {
            self.now.min(until).saturating_sub(since)
        });
        self.wall_offset_micros - stood.as_micros() as i64
    }

    /// When the next sleeper wakes; nothing if nobody sleeps.
    fn next_moment(&self) -> Option<Duration> {
        let ((next, _), _) = self.sleepers.first_key_value()?;
        Some(self.now.max(*next))
    }

    /// A sleeper who has slept enough.
    fn next_woken(&mut self) -> Option<Waker> {
        let first = self.sleepers.first_entry()?;
        (first.key().0 <= self.now).then(|| first.remove())
    }
}

impl EventLog {
    fn mix(&mut self, word: u64) {
        self.hash = mixed(self.hash ^ word).wrapping_add(word);
    }

    fn note(
        &mut self,
        now: Duration,
        what: &'static str,
        (one, two): (u64, u64),
        text: Option<String>,
    ) {
        let word = what
            .bytes()
            .fold(0, |word: u64, byte| word.rotate_left(7) ^ u64::from(byte));
        self.mix(word);
        self.mix(one);
        self.mix(two);
        self.mix(now.as_micros() as u64);
        if let Some(text) = text {
            let micros = now.as_micros();
            let (millis, rest) = (micros / 1000, micros % 1000);
            self.lines
                .push(format!("{millis:>7}.{rest:03} ms  {what} {text}"));
        }
    }
}

/// Takes a sleeper off the list, however its sleep ends.
struct Asleep<'a> {
    world: &'a World,
    key: (Duration, u64),
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        let waker = self.world.0.state.lock().sleepers.remove(&self.key);
        drop(waker);
    }
}

/// The clock of one life of the processes.
#[async_trait]
impl Clock for World {
    fn wall_micros(&self) -> i64 {
        let state = self.0.state.lock();
        state.wall_ahead() + state.now.as_micros() as i64
    }

    fn monotonic(&self) -> Duration {
        self.now()
    }

    async fn sleep(&self, duration: Duration) {
        World::sleep(self, duration).await;
    }
}

impl Random for World {
    fn next_u64(&self) -> u64 {
        self.0.state.lock().numbers.bits()
    }
}

impl Spawner for World {
    fn spawn(&self, name: &str, actor: BoxFuture<'static, ()>) -> Box<dyn ActorHandle> {
        let task = self.start(name, actor);
        Box::new(Handle {
            world: self.clone(),
            task,
        })
    }
}

struct Handle {
    world: World,
    task: u32,
}

impl ActorHandle for Handle {
    /// Lets the actor go on until it has ended: whoever joins one has told it to end before.
    fn join(self: Box<Self>) {
        let mut turns = 0;
        while self.world.is_alive(self.task) {
            let polling = {
                let state = self.world.0.state.lock();
                state.tasks[self.task as usize].future.is_none()
            };
            // An actor that joins itself is ending.
            if polling {
                return;
            }
            let ready = {
                let mut ready = self.world.0.ready.0.lock();
                let at = ready.binary_search(&self.task);
                at.map(|at| ready.remove(at)).is_ok()
            };
            turns += 1;
            if ready {
                self.world.poll(self.task);
                continue;
            }
            match self.world.turn() {
                Turn::Polled if turns < JOIN_TURNS_MAX => {}
                // Its turn comes again after this.
                Turn::Main => self.world.waker(MAIN).wake(),
                Turn::Polled | Turn::Stopped(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
