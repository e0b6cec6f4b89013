//! Attempts that hang: their work is given to others, and what they bring later is refused.
//!
//! ```text
//!   attempt A     starts --writes a file-- hangs .............. goes on, writes, reports: refused
//!   coordinator                              | silent for too long: A is given up
//!   attempt B                                starts ------ reports: adopted
//!   files of A    ...................... named by nobody: removed after a while
//! ```
//!
//! Invariant ATT-1: what an attempt reports counts only while the work is its own. The files of one
//! that was given up may be gone by the time it reports, and the runs that it read as well; that
//! another attempt's edit came first would be no protection where there is none yet.
//!
//! With the attempt goes the turn to give numbers to natural keys, which it may have: others would
//! wait for it as for nothing else that an attempt holds (ID-5).
//!
//! A worker can't be told from its attempt: another one takes its place, and it ends after what it
//! is doing. Silence is counted while the coordinator itself looks on: a process that was stopped
//! as a whole gives nobody up.

use std::time::Duration;

use lazybase_engine::env::planted::{Planted, is_planted};
use lazybase_model::{Error, limits};

use super::policy::RunningTask;
use super::run::Coordinator;
use crate::task::{Pulse, Report, TaskId};
use crate::worker::WorkerHandle;

/// Of the time between two looks no more counts as silence.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// How often the silence that is borne doubles, for work of which attempts were given up.
const DOUBLED_MAX: u32 = 6;

/// How long an attempt has shown no sign of life.
#[derive(Debug)]
pub(super) struct Watch {
    pulse: Pulse,
    beats: u64,
    silent: Duration,
    silence_max: Duration,
}

impl Watch {
    /// Watches an attempt at work of which so many attempts were given up.
    pub(super) fn new(pulse: Pulse, silence: Duration, given_up: u32) -> Watch {
        Watch {
            pulse,
            beats: 0,
            silent: Duration::ZERO,
            silence_max: silence.saturating_mul(1 << given_up.min(DOUBLED_MAX)),
        }
    }

    /// Looks after so much time; whether the silence has lasted for too long.
    fn is_silent(&mut self, passed: Duration) -> bool {
        let beats = self.pulse.beats();
        self.silent = match std::mem::replace(&mut self.beats, beats) == beats {
            true => self.silent + passed,
            false => Duration::ZERO,
        };
        self.silent > self.silence_max
    }
}

impl Coordinator {
    /// Gives up attempts that have been silent for too long.
    pub(super) fn give_up_silent(&mut self) {
        let now = self.shared.env.clock.monotonic();
        let passed = now.saturating_sub(self.looked).min(LOOK_MAX);
        self.looked = now;
        let mut silent = Vec::new();
        for (id, running) in &mut self.running {
            if running.watch.is_silent(passed) {
                silent.push(*id);
            }
        }
        let room = match self.stopping {
            // Nothing is begun any more: who closes waits for nobody.
            Some(_) => silent.len(),
            None => limits::ATTEMPTS_GIVEN_UP_MAX.saturating_sub(self.given_up.len()),
        };
        for id in silent.into_iter().take(room) {
            self.give_up(id);
        }
    }

    fn give_up(&mut self, id: TaskId) {
        let Some(running) = self.running.remove(&id) else {
            return;
        };
        self.outdated.remove(&id);
        running.watch.pulse.give_up();
        let fresh = WorkerHandle::spawn(self.next_worker, self.context.clone());
        self.next_worker += 1;
        std::mem::replace(&mut self.workers[running.worker], fresh).dismiss();
        self.note_given_up(&running.policy);
        match &running.policy {
            RunningTask::Check { files } => self.check_apart(files),
            RunningTask::Merge { .. } => {}
            // It may have the turn to give numbers to natural keys, or wait for whoever hangs.
            _ => self.shared.reader.pass_on_remapping(),
        }
        self.shared.tasks.lock().silent.given_up += 1;
        let status = &running.status;
        let what = format!(
            "{} of SCUs {} hangs: another attempt begins",
            status.stage.name(),
            status.span
        );
        self.shared.report_trouble(&Error::unavailable(what));
        self.given_up.insert(id, running.policy);
    }

    /// A report of an attempt that was given up counts for nothing (ATT-1).
    pub(super) fn refuse(&mut self, report: Report) {
        let Some(work) = self.given_up.remove(&report.task) else {
            return;
        };
        let is_done_again = self.running.values().any(|running| running.policy == work);
        {
            let silent = &mut self.shared.tasks.lock().silent;
            silent.came_back += 1;
            silent.came_first += u64::from(is_done_again);
            let files = report
                .outcome
                .as_ref()
                .map_or(0, |made| made.segments().len());
            silent.files_refused += files as u64;
        }
        if let Ok(output) = report.outcome
            && is_planted(Planted::ZombieAdopted)
        {
            self.take_output(output);
        }
    }
}
