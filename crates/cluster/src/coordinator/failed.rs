//! Attempts that failed: how long their work rests, what wakes it, and who is told.
//!
//! Work that failed is tried again soon, but for what damage failed: each time that it meets damage
//! it rests twice as long, until the file was made again.

use std::time::Duration;

use lazybase_model::Error;
use lazybase_model::error::DISK_FULL;

use super::policy::RunningTask;
use super::run::{Coordinator, Running};
use super::tasks::{SORT_FAILURES, work_name};
use crate::shared::FailingWork;

/// How long a piece of work that failed is left alone.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    until_micros: i64,
    /// How often it failed in a row.
    failures: u32,
    /// How often it was damage that failed it, among these.
    met_damage: u32,
    /// The file whose damage failed it last, if it was that.
    file: Option<String>,
    /// How many attempts at it hung, since one last ended.
    given_up: u32,
}

impl Default for Rest {
    fn default() -> Rest {
        Rest {
            until_micros: i64::MIN,
            failures: 0,
            met_damage: 0,
            file: None,
            given_up: 0,
        }
    }
}

/// The first rest; it doubles with each failure that damage caused.
const REST: Duration = Duration::from_millis(500);
/// How often it doubles at most.
const REST_DOUBLED_MAX: u32 = 7;

/// A rest that doubled so often.
fn rest_micros(doubled: u32) -> i64 {
    let rest = REST * (1 << doubled.min(REST_DOUBLED_MAX));
    rest.as_micros() as i64
}

impl Coordinator {
    /// An attempt failed at work that rested so before.
    pub(super) fn note_failed(&mut self, name: String, task: Running, before: Rest, error: Error) {
        let file = error.damaged_file().map(str::to_owned);
        let doubled = file.as_ref().map_or(0, |_| before.met_damage);
        let rest = Rest {
            until_micros: self.shared.now() + rest_micros(doubled),
            failures: before.failures + 1,
            met_damage: before.met_damage + u32::from(file.is_some()),
            file,
            given_up: 0,
        };
        self.resting.insert(name.clone(), rest);
        // A sort that fails again gives up what is damaged, and goes on.
        let is_lost = match task.policy {
            RunningTask::Remap => true,
            RunningTask::Sort { .. } => before.met_damage > SORT_FAILURES,
            _ => false,
        };
        if is_lost {
            self.lose_log(&error);
        }
        if let RunningTask::Check { files } = &task.policy {
            self.check_apart(files);
        }
        // Of several SCUs it may have been any.
        let span = task.status.span;
        let alone = span.first == span.last && before.met_damage >= SORT_FAILURES;
        if task.policy == RunningTask::Remap {
            let lost = error.damaged_file().filter(|_| alone);
            self.lost_mentions = lost.map(|_| error.clone());
        }
        if error.sqlstate() == DISK_FULL {
            self.refuse_ddl(&error);
        }
        let stage = task.status.stage.name();
        let error = error.within(format_args!("{stage} of SCUs {span}"));
        self.shared.report_trouble(&error);
        let failing = FailingWork {
            status: task.status,
            failures: before.failures + 1,
            failed: self.shared.env.clock.monotonic(),
            error,
        };
        self.shared.tasks.lock().note_failing(name, failing);
    }

    /// The next attempt at a piece of work is given more time.
    pub(super) fn note_given_up(&mut self, task: &RunningTask) {
        let now = self.shared.now();
        let rest = self.resting.entry(work_name(task)).or_default();
        rest.given_up += 1;
        if matches!(task, RunningTask::Check { .. }) {
            // Others wait for the worker, and nobody for this file alone.
            rest.until_micros = now + rest_micros(rest.given_up);
        }
    }

    /// Files were made again: what their damage failed is tried again at once.
    pub(super) fn wake(&mut self, files: &[String]) {
        for rest in self.resting.values_mut() {
            if rest.file.as_ref().is_some_and(|file| files.contains(file)) {
                rest.until_micros = i64::MIN;
                rest.met_damage = 0;
            }
        }
    }

    /// Whether a piece of work rests after a failure.
    pub(super) fn rests(&self, task: &RunningTask) -> bool {
        let rest = self.resting.get(&work_name(task));
        rest.is_some_and(|rest| rest.until_micros > self.shared.now())
    }

    /// How many attempts at a piece of work hung, since one last ended.
    pub(super) fn times_given_up(&self, task: &RunningTask) -> u32 {
        let rest = self.resting.get(&work_name(task));
        rest.map_or(0, |rest| rest.given_up)
    }

    /// How often a piece of work failed in a row.
    pub(super) fn failures(&self, task: &RunningTask) -> u32 {
        let rest = self.resting.get(&work_name(task));
        rest.map_or(0, |rest| rest.failures)
    }

    /// How often it was damage that failed it, among these.
    pub(super) fn met_damage(&self, task: &RunningTask) -> u32 {
        let rest = self.resting.get(&work_name(task));
        rest.map_or(0, |rest| rest.met_damage)
    }
}
