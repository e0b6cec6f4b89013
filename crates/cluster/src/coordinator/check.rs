//! Suspected files are read back in full: together, and from then on each by itself where one of
//! them hung or failed the others.
//!
//! ```text
//!   suspected --together--> whole: forgotten; damaged: confirmed
//!                  \--> one of them hangs: each apart, first those that hung least often
//! ```
//!
//! What hangs holds up one worker, now and then, and none of the files that can be told of. A file
//! whose own check was given up waits until that comes back. Where many hang, all wait: checks may
//! take no more than a part of the attempts that are given up, which others need too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_engine::manifest::{Manifest, Run, SegmentMeta};
use lazybase_engine::read::DamagedFiles;
use lazybase_engine::segment::RowLayout;
use lazybase_model::{Error, Result, ScuNumber, Span, limits};

use super::policy::RunningTask;
use super::run::Coordinator;
use crate::task::Work;

/// Suspected files by name, each with what reading it back needs.
type Suspects = BTreeMap<String, (Arc<RowLayout>, Arc<SegmentMeta>)>;

impl Coordinator {
    /// Has suspected files read back in full; which files are suspected.
    pub(super) fn check_suspects(
        &mut self,
        manifest: &Manifest,
        broken: &[Arc<Run>],
        damaged: &DamagedFiles,
    ) -> Result<BTreeSet<String>> {
        let suspects = self.suspects(manifest, broken, damaged)?;
        let apart = &mut self.healing.apart;
        apart.retain(|file, _| suspects.contains_key(file));
        for files in self.to_be_checked(&suspects) {
            let segments = files.iter().filter_map(|file| suspects.get(file));
            let segments: Vec<_> = segments.cloned().collect();
            let bytes = segments.iter().map(|(_, segment)| segment.bytes).sum();
            let status = self.heal_status(None, Span::base(ScuNumber::ZERO), bytes);
            let task = RunningTask::Check { files };
            self.launch(Work::Check { segments }, status, task);
        }
        Ok(suspects.into_keys().collect())
    }

    fn suspects(
        &self,
        manifest: &Manifest,
        broken: &[Arc<Run>],
        damaged: &DamagedFiles,
    ) -> Result<Suspects> {
        let mut suspects = Suspects::new();
        for run in broken {
            let Some(state) = manifest.table_of_view(run.view) else {
                continue;
            };
            let layout = self.shared.layout_at(state, run.changes_through)?;
            for segment in &run.segments {
                let file = &segment.file;
                let is_suspected = damaged.contains_key(file)
                    && self.shared.reader.damaged.confirmed_at(file).is_none()
                    && !self.shared.reader.damaged.is_condemned(file);
                if is_suspected && !suspects.contains_key(file) {
                    let read_with = (Arc::clone(&layout), Arc::clone(segment));
                    suspects.insert(file.clone(), read_with);
                }
            }
        }
        Ok(suspects)
    }

    /// The files that attempts may begin with now, by attempt.
    fn to_be_checked(&self, suspects: &Suspects) -> Vec<Vec<String>> {
        let hanging: Vec<&Vec<String>> = self.given_up.values().filter_map(checked).collect();
        if hanging.len() >= limits::CHECKS_GIVEN_UP_MAX {
            return Vec::new();
        }
        let is_apart = |file: &String| self.healing.apart.contains_key(file);
        let running = self.running.values().map(|running| &running.policy);
        let running: Vec<&Vec<String>> = running.filter_map(checked).collect();
        let one_apart = running.iter().any(|files| files.iter().all(is_apart));
        let some_together = running.iter().any(|files| !files.iter().all(is_apart));
        let waiting = suspects.keys();
        let waiting = waiting.filter(|file| !running.iter().any(|files| files.contains(file)));
        let (apart, together): (Vec<&String>, Vec<&String>) =
            waiting.partition(|file| is_apart(file));
        let mut begun: Vec<Vec<String>> = Vec::new();
        if !some_together && !together.is_empty() {
            begun.push(together.into_iter().cloned().collect());
        }
        if !one_apart {
            let alone = apart.into_iter().map(|file| vec![file.clone()]);
            let mut alone: Vec<Vec<String>> = alone.collect();
            alone.retain(|files| {
                let task = RunningTask::Check {
                    files: files.clone(),
                };
                !hanging.contains(&files) && !self.rests(&task)
            });
            let hung = |files: &Vec<String>| self.healing.apart.get(&files[0]).copied();
            begun.extend(alone.into_iter().min_by_key(hung));
        }
        begun
    }

    /// Reading these files back hung, or failed: each is read by itself from now on.
    pub(super) fn check_apart(&mut self, files: &[String]) {
        for file in files {
            *self.healing.apart.entry(file.clone()).or_default() += 1;
        }
    }

    /// What reading suspected files back in full showed.
    pub(super) fn take_checked(&mut self, whole: &[String], damaged: &[Error]) {
        let known = &self.shared.reader.damaged;
        known.found_whole(whole.iter().map(String::as_str));
        let mut board = self.shared.tasks.lock();
        for file in whole {
            board.damage.remove(file);
        }
        drop(board);
        let now = self.shared.now();
        for error in damaged {
            // What the disk refused to read may be read now, and is damaged.
            known.confirm(error, now);
        }
    }
}

/// The files that an attempt reads back, if that is what it does.
fn checked(task: &RunningTask) -> Option<&Vec<String>> {
    match task {
        RunningTask::Check { files } => Some(files),
        _ => None,
    }
}
