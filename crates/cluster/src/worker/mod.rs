//! Workers: each takes one task at a time, runs an attempt and reports (section 3.4 of the paper).
//!
//! An attempt fetches its inputs, runs the stage's kernel, writes files under fresh names, reads
//! them back in full, and reports. It changes nothing that anybody can see; running it twice is
//! harmless. As it goes it shows that it is alive: one that does not is given up, and what it
//! reports later is refused.

mod advance;
mod heal;
mod merge;
mod remap;
mod sort;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lazybase_engine::env::{ActorHandle, Env};
use lazybase_engine::read::Damaged;
use lazybase_engine::segment::SegmentCache;
use lazybase_model::{Error, Result};
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::coordinator::Event;
use crate::settings::Settings;
use crate::shared::SparseWork;
use crate::task::{Output, Pulse, Report, Task, Work};

/// What an attempt works with.
#[derive(Clone)]
pub(crate) struct WorkerContext {
    pub(crate) env: Env,
    pub(crate) settings: Settings,
    pub(crate) cache: Arc<SegmentCache>,
    pub(crate) damaged: Damaged,
    pub(crate) reports: mpsc::UnboundedSender<Event>,
}

/// Counts what an attempt moved, and shows that it goes on. Clones count together.
#[derive(Clone)]
pub(crate) struct Traffic {
    moved: Arc<Moved>,
    pulse: Pulse,
}

/// Bytes that an attempt moved, and row groups that a merge went through one by one.
#[derive(Default)]
struct Moved {
    read: AtomicU64,
    written: AtomicU64,
    groups_copied: AtomicU64,
    groups_patched: AtomicU64,
    groups_merged: AtomicU64,
}

impl Moved {
    fn sparse(&self) -> SparseWork {
        SparseWork {
            copied: self.groups_copied.load(Ordering::Relaxed),
            patched: self.groups_patched.load(Ordering::Relaxed),
            merged: self.groups_merged.load(Ordering::Relaxed),
        }
    }
}

impl Traffic {
    fn new(pulse: Pulse) -> Traffic {
        Traffic {
            moved: Arc::default(),
            pulse,
        }
    }

    /// Bytes were fetched.
    pub(crate) fn read(&self, bytes: u64) {
        self.moved.read.fetch_add(bytes, Ordering::Relaxed);
        self.pulse.beat();
    }

    /// Bytes were written.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.moved.written.fetch_add(bytes, Ordering::Relaxed);
        self.pulse.beat();
    }

    /// A step was done.
    pub(crate) fn went_on(&self) {
        self.pulse.beat();
    }

    /// A row group was copied as it is.
    pub(crate) fn copied_group(&self) {
        self.moved.groups_copied.fetch_add(1, Ordering::Relaxed);
    }

    /// Columns of a row group were patched.
    pub(crate) fn patched_group(&self) {
        self.moved.groups_patched.fetch_add(1, Ordering::Relaxed);
    }

    /// The rows of a row group were merged by themselves.
    pub(crate) fn merged_group(&self) {
        self.moved.groups_merged.fetch_add(1, Ordering::Relaxed);
    }

    /// Remembers a file that was met damaged; what is given up says nothing of files that went
    /// meanwhile.
    pub(crate) fn note_damage(&self, damaged: &Damaged, error: &Error) {
        if !self.pulse.is_given_up() {
            damaged.note(error);
        }
    }
}

/// The coordinator's end of a worker.
pub(crate) struct WorkerHandle {
    pub(crate) busy: bool,
    tasks: Option<mpsc::UnboundedSender<Task>>,
    actor: Option<Box<dyn ActorHandle>>,
}

impl WorkerHandle {
    /// Starts a worker.
    pub(crate) fn spawn(number: usize, context: WorkerContext) -> WorkerHandle {
        let (tasks, inbox) = mpsc::unbounded_channel();
        let env = context.env.clone();
        let actor = env
            .spawner
            .spawn(&format!("worker-{number}"), Box::pin(work(context, inbox)));
        WorkerHandle {
            busy: false,
            tasks: Some(tasks),
            actor: Some(actor),
        }
    }

    /// Gives the worker a task; it is busy until it reports.
    pub(crate) fn start(&mut self, task: Task) {
        self.busy = true;
        if let Some(tasks) = &self.tasks {
            // A worker ends only after this sender is dropped.
            let _ = tasks.send(task);
        }
    }

    /// Ends the worker after what it is doing, without waiting for that.
    pub(crate) fn dismiss(self) {}

    /// Ends the worker after what it is doing.
    pub(crate) fn stop(mut self) {
        self.tasks = None;
        if let Some(actor) = self.actor.take() {
            actor.join();
        }
    }
}

async fn work(context: WorkerContext, mut inbox: mpsc::UnboundedReceiver<Task>) {
    while let Some(task) = inbox.recv().await {
        let started = context.env.clock.monotonic();
        let traffic = Traffic::new(task.pulse.clone());
        let outcome = {
            let attempt = attempt(&context, &traffic, &task.work);
            let mut attempt = pin!(attempt.instrument(task.span.clone()));
            poll_fn(|waker| {
                traffic.went_on();
                attempt.as_mut().poll(waker)
            })
            .await
        };
        if let Err(error) = &outcome {
            traffic.note_damage(&context.damaged, error);
            task.span.record("failed", error.message());
        }
        let elapsed = context.env.clock.monotonic().saturating_sub(started);
        let report = Report {
            task: task.id,
            outcome,
            bytes_read: traffic.moved.read.load(Ordering::Relaxed),
            bytes_written: traffic.moved.written.load(Ordering::Relaxed),
            sparse: traffic.moved.sparse(),
            elapsed_micros: elapsed.as_micros() as u64,
        };
        drop(task);
        if context.reports.send(Event::Reported(report)).is_err() {
            break;
        }
    }
}

async fn attempt(context: &WorkerContext, traffic: &Traffic, work: &Work) -> Result<Output> {
    match work {
        Work::Remap { ids, scus } => remap::attempt(traffic, ids, scus).await,
        Work::Sort {
            ids,
            scu,
            layouts,
            give_up,
        } => sort::attempt(context, traffic, ids, scu, (layouts, *give_up)).await,
        Work::Merge {
            layout,
            range,
            inputs,
            output,
            expiry,
        } => {
            let expiry = expiry.as_ref();
            merge::attempt(context, traffic, layout, range, inputs, (*output, expiry)).await
        }
        Work::Advance(advance) => advance::attempt(context, traffic, advance).await,
        Work::Check { segments } => heal::check(context, traffic, segments).await,
        Work::Heal { layout, ids, heal } => {
            heal::attempt(context, traffic, layout, ids, heal).await
        }
    }
}
