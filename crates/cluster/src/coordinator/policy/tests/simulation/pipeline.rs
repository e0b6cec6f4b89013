//! The modelled pipeline: SCUs that are sealed, tasks that take time, and the manifest's edits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::key::Key;
use lazybase_engine::manifest::check::check_commit;
use lazybase_engine::manifest::collect::{Verified, retirable};
use lazybase_engine::manifest::{
    Edit, Manifest, Run, RunId, RunKind, ScuEntry, ScuTime, SegmentMeta, literal,
};
use lazybase_engine::read::paths::{ReadIndex, segments_in};
use lazybase_model::limits::SEAL_BYTES;
use lazybase_model::{ScuNumber, Span, TableId, ViewId};

use super::pieces::{Piece, decoded, join, moved, segments};
use super::{RATIO, SECOND, STEP_MICROS};
use crate::coordinator::policy::{Load, Look, PolicySettings, Proposal, RunningTask, propose};

/// Stored bytes that one worker sorts or merges in a second.
const SPEED: u64 = 100 << 20;
/// What a task costs whatever its size.
const TASK_MICROS: i64 = 15_000;

enum Task {
    Sort(ScuNumber),
    Merge {
        view: ViewId,
        low: Option<Key>,
        inputs: Vec<RunId>,
    },
}

struct Worker {
    task: Task,
    done_micros: i64,
    run: Run,
    content: Vec<Piece>,
    written: u64,
}

pub(super) struct Pipeline {
    manifest: Manifest,
    contents: BTreeMap<RunId, Vec<Piece>>,
    unsorted: BTreeMap<ScuNumber, Vec<Piece>>,
    open: Vec<Piece>,
    open_since: Option<i64>,
    last_ack: i64,
    running: Vec<Worker>,
    sorted: BTreeMap<ScuNumber, Worker>,
    settings: PolicySettings,
    look: Option<Look>,
    now: i64,
    files: u64,
    pub(super) accepted: u64,
    log: u64,
    sorting: u64,
    merging: u64,
    /// Worst seen since the last reset.
    pub(super) stalest_micros: i64,
    pub(super) runs_max: usize,
    pub(super) tasks: u64,
}

impl Pipeline {
    /// A table with `bytes` in its authority, keys from 0 to `keys`, in ranges as large as allowed.
    pub(super) fn new(bytes: u64, keys: u64) -> Pipeline {
        let mut manifest =
            literal::manifest("sealed 0 sorted 0\ntable t\nrange ..\nbase 1..=0 none").unwrap();
        let mut contents = BTreeMap::new();
        let mut pipeline_files = 0;
        let mut base = (*manifest.runs[&RunId(1)]).clone();
        if bytes > 0 {
            let piece = Piece {
                low: 0,
                high: keys,
                rows: bytes as f64,
                changes: 0.0,
            };
            base.segments = segments(&[piece], &base, ScuNumber::ZERO, &mut pipeline_files);
            contents.insert(base.id, vec![piece]);
            manifest.runs.insert(base.id, Arc::new(base));
        }
        Pipeline {
            manifest,
            contents,
            unsorted: BTreeMap::new(),
            open: Vec::new(),
            open_since: None,
            last_ack: 0,
            running: Vec::new(),
            sorted: BTreeMap::new(),
            settings: PolicySettings::default(),
            look: None,
            now: 0,
            files: pipeline_files,
            accepted: 0,
            log: 0,
            sorting: 0,
            merging: 0,
            stalest_micros: 0,
            runs_max: 0,
            tasks: 0,
        }
    }

    fn commit(&mut self, edit: Edit) {
        let next = self
            .manifest
            .apply(&edit)
            .unwrap_or_else(|error| panic!("{error}: {edit:?}"));
        check_commit(&self.manifest, &next).unwrap();
        self.manifest = next;
    }

    fn acknowledge(&mut self, pieces: Vec<Piece>) {
        let raw: f64 = pieces.iter().map(Piece::bytes).sum::<f64>() * RATIO as f64;
        self.accepted += raw as u64;
        self.log += raw as u64;
        self.open.extend(pieces);
        self.open_since.get_or_insert(self.now);
        self.last_ack = self.now;
    }

    fn open_bytes(&self) -> u64 {
        self.open.iter().map(Piece::bytes).sum::<f64>() as u64 * RATIO
    }

    fn seal(&mut self) {
        let Some(since) = self.open_since else { return };
        if self.now - since < SECOND && self.open_bytes() < SEAL_BYTES {
            return;
        }
        let scu = self.manifest.sealed_through.next();
        let entry = ScuEntry {
            scu,
            batches: 1,
            rows: 1,
            raw_bytes: self.open_bytes(),
            tables: BTreeMap::from([(TableId(1), 1)]),
            log: Vec::new(),
            files: Vec::new(),
            ddl_batch: None,
        };
        let time = ScuTime {
            first_ack_micros: since,
            last_ack_micros: self.last_ack,
            batches_through: scu.0,
        };
        let producers = BTreeMap::new();
        self.commit(Edit::Seal {
            entry,
            time,
            producers,
        });
        self.unsorted.insert(scu, std::mem::take(&mut self.open));
        self.open_since = None;
    }

    fn running_tasks(&self) -> Vec<RunningTask> {
        let tasks = self.running.iter().chain(self.sorted.values());
        tasks
            .map(|worker| match &worker.task {
                Task::Sort(scu) => RunningTask::Sort { scu: *scu },
                Task::Merge { view, low, inputs } => RunningTask::Merge {
                    view: *view,
                    low: low.clone(),
                    inputs: inputs.clone(),
                },
            })
            .collect()
    }

    /// What the policy says, with what it knows from the look before: the same as without.
    fn proposals(&mut self) -> Vec<Proposal> {
        let unsorted = self.unsorted.values().flatten().map(Piece::bytes);
        let unsorted = unsorted.sum::<f64>() as u64;
        let running = self.running_tasks();
        let load = Load {
            running: &running,
            idle_for: Duration::from_micros((self.now - self.last_ack) as u64),
            now_micros: self.now,
            open_batches: u64::from(self.open_since.is_some()),
            unsorted_bytes: unsorted * RATIO + self.open_bytes(),
            awaited_through: ScuNumber::ZERO,
            settings: &self.settings,
        };
        let manifest = Arc::new(self.manifest.clone());
        let mut look = Look::at(&manifest, &running, self.look.take());
        let proposals = look.proposals(&load).to_vec();
        assert_eq!(proposals, propose(&manifest, &load));
        let none_may_wait = PolicySettings {
            runs_per_range_max: 0,
            ..self.settings
        };
        let why = look.too_many_runs(&none_may_wait, &BTreeSet::new());
        let most = most_runs(&manifest);
        let counted = format!("has {most} runs to be merged");
        assert_eq!(most > 0, why.is_some_and(|why| why.contains(&counted)));
        self.look = Some(look);
        proposals
    }

    /// Hands out work until both workers are busy.
    fn hand_out(&mut self) {
        for _ in 0..1000 {
            if self.running.len() == 2 {
                return;
            }
            match self.proposals().into_iter().next() {
                None => return,
                Some(Proposal::Split { view, low, at }) => {
                    self.commit(Edit::SplitRange { view, low, at });
                }
                Some(Proposal::Remap { .. }) => panic!("no table of these tests has an ID key"),
                Some(Proposal::Sort { scu }) => self.sort(scu),
                Some(Proposal::Advance { view, .. }) => panic!("{view} is no secondary view"),
                Some(Proposal::Merge {
                    view,
                    low,
                    inputs,
                    output,
                    ..
                }) => self.merge(view, low, inputs, output),
            }
        }
        panic!("no end of edits: {:?}", self.proposals());
    }

    fn sort(&mut self, scu: ScuNumber) {
        let content = join(&[&self.unsorted[&scu]], 0, u64::MAX, false);
        let run = Run {
            id: RunId(0),
            view: ViewId(1),
            kind: RunKind::Sorted,
            span: Span::single(scu),
            changes_through: scu,
            segments: Vec::new(),
            part: 0,
        };
        self.start(Task::Sort(scu), run, content, 0, Vec::new(), scu);
    }

    fn merge(&mut self, view: ViewId, low: Option<Key>, inputs: Vec<RunId>, kind: RunKind) {
        let state = &self.manifest.tables[&TableId(1)];
        let range = state
            .ranges
            .iter()
            .find(|range| range.range.low == low)
            .unwrap();
        let range = range.range.clone();
        let runs: Vec<Arc<Run>> = inputs
            .iter()
            .map(|input| Arc::clone(&self.manifest.runs[input]))
            .collect();
        let (from, to) = (
            decoded(low.as_ref(), 0),
            decoded(range.high.as_ref(), u64::MAX),
        );
        let none = Vec::new();
        let contents: Vec<&[Piece]> = inputs
            .iter()
            .map(|input| self.contents.get(input).unwrap_or(&none).as_slice())
            .collect();
        let content = join(&contents, from, to, kind == RunKind::Base);
        let read: f64 = contents
            .iter()
            .flat_map(|pieces| pieces.iter())
            .filter_map(|piece| piece.part(from, to))
            .map(|piece| piece.bytes())
            .sum();
        let moved = moved(&runs, &range, (kind, self.settings.move_bytes_min));
        let run = Run {
            id: RunId(0),
            view,
            kind,
            span: Span {
                first: runs[0].span.first,
                last: runs[runs.len() - 1].span.last,
            },
            changes_through: runs.iter().map(|run| run.changes_through).max().unwrap(),
            segments: Vec::new(),
            part: 0,
        };
        let task = Task::Merge { view, low, inputs };
        let met = runs.iter().flat_map(|run| segments_in(run, &range));
        let newest = met.map(|segment| segment.newest_scu).max();
        self.start(
            task,
            run,
            content,
            read as u64,
            moved,
            newest.unwrap_or_default(),
        );
    }

    fn start(
        &mut self,
        task: Task,
        mut run: Run,
        content: Vec<Piece>,
        read: u64,
        moved: Vec<Arc<SegmentMeta>>,
        newest: ScuNumber,
    ) {
        // What lies between the segments that are moved is written.
        let mut between: Vec<Piece> = Vec::new();
        let mut from = 0;
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for segment in &moved {
            stretches.push((from, decoded(Some(&segment.min_key), 0)));
            from = decoded(Some(&segment.max_key), 0) + 1;
        }
        stretches.push((from, u64::MAX));
        for (low, high) in stretches {
            let pieces: Vec<Piece> = content
                .iter()
                .filter_map(|piece| piece.part(low, high))
                .collect();
            between.extend(&pieces);
            run.segments
                .extend(segments(&pieces, &run, newest, &mut self.files));
        }
        let written: u64 = between.iter().map(Piece::bytes).sum::<f64>() as u64;
        run.segments.extend(moved.iter().cloned());
        run.segments
            .sort_by(|left, right| left.min_key.cmp(&right.min_key));
        let moved: u64 = moved.iter().map(|segment| segment.bytes).sum();
        let work = written.max(read.saturating_sub(moved));
        self.tasks += 1;
        self.running.push(Worker {
            task,
            done_micros: self.now + TASK_MICROS + (work as i64 * SECOND) / SPEED as i64,
            run,
            content,
            written,
        });
    }

    fn finish(&mut self) {
        let now = self.now;
        let (done, running): (Vec<Worker>, Vec<Worker>) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|worker| worker.done_micros <= now);
        self.running = running;
        for worker in done {
            match worker.task {
                Task::Sort(scu) => {
                    self.sorting += worker.written;
                    self.sorted.insert(scu, worker);
                }
                Task::Merge { view, low, inputs } => {
                    self.merging += worker.written;
                    let mut output = worker.run;
                    output.id = RunId(self.manifest.next_run);
                    self.contents.insert(output.id, worker.content);
                    let clock_micros = now;
                    self.commit(Edit::Merged {
                        view,
                        low,
                        inputs,
                        output,
                        clock_micros,
                    });
                }
            }
        }
        while let Some(mut worker) = self.sorted.remove(&self.manifest.sorted_through.next()) {
            let scu = self.manifest.sorted_through.next();
            worker.run.id = RunId(self.manifest.next_run);
            self.contents.insert(worker.run.id, worker.content);
            let runs = vec![worker.run];
            self.commit(Edit::Sorted { scu, runs });
            self.unsorted.remove(&scu);
        }
    }

    fn observe(&mut self) {
        let index = ReadIndex::new(&self.manifest);
        let after = index.common_horizon().next();
        let as_of = match self.manifest.times.get(&after) {
            Some(time) => time.first_ack_micros,
            None => self.open_since.unwrap_or(self.now),
        };
        self.stalest_micros = self.stalest_micros.max(self.now - as_of);
        self.runs_max = self.runs_max.max(most_runs(&self.manifest));
        let edit = retirable(
            &self.manifest,
            self.now,
            Duration::ZERO,
            Verified::default(),
        );
        if let Some(edit) = edit {
            self.commit(edit);
            self.contents
                .retain(|run, _| self.manifest.runs.contains_key(run));
        }
    }

    /// Lets time pass; `load` gives what is acknowledged in each hundredth of a second.
    pub(super) fn run(&mut self, seconds: f64, mut load: impl FnMut(i64) -> Vec<Piece>) {
        let end = self.now + (seconds * SECOND as f64) as i64;
        while self.now < end {
            self.now += STEP_MICROS;
            let pieces = load(self.now);
            if !pieces.is_empty() {
                self.acknowledge(pieces);
            }
            self.seal();
            self.finish();
            self.hand_out();
            if self.now % (SECOND / 5) == 0 {
                self.observe();
            }
        }
    }

    pub(super) fn write_amplification(&self) -> f64 {
        (self.log + self.sorting + self.merging) as f64 / self.accepted as f64
    }

    pub(super) fn report(&self, name: &str) {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        println!(
            "{name}: amplification {:.2} (accepted {:.2} GiB, sorted {:.2}, merged {:.2}), \
             stalest {:.1} s, runs at most {}, {} tasks, {} ranges",
            self.write_amplification(),
            gib(self.accepted),
            gib(self.sorting),
            gib(self.merging),
            self.stalest_micros as f64 / SECOND as f64,
            self.runs_max,
            self.tasks,
            self.manifest.all_ranges().count(),
        );
    }

    /// The bytes of all authorities.
    pub(super) fn in_authority(&self) -> u64 {
        let runs = self.manifest.runs.values();
        let bases = runs.filter(|run| run.kind == RunKind::Base);
        bases.map(|run| run.bytes()).sum()
    }

    #[track_caller]
    pub(super) fn is_settled(&mut self) {
        assert_eq!(self.proposals().first(), None);
        assert!(self.running.is_empty() && self.unsorted.is_empty());
        for (_, range) in self.manifest.all_ranges() {
            let current = range.runs.iter().filter(|entry| entry.is_current());
            let kinds: Vec<RunKind> = current
                .map(|entry| self.manifest.runs[&entry.id].kind)
                .collect();
            assert_eq!(kinds, [RunKind::Base]);
        }
        let common = ReadIndex::new(&self.manifest).common_horizon();
        assert_eq!(common, self.manifest.sealed_through);
    }
}

/// The most runs with data that stand in one range.
fn most_runs(manifest: &Manifest) -> usize {
    let counts = manifest.all_ranges().map(|(_, range)| {
        let current = range.runs.iter().filter(|entry| entry.is_current());
        let runs = current.map(|entry| &manifest.runs[&entry.id]);
        runs.filter(|run| !segments_in(run, &range.range).is_empty())
            .count()
    });
    counts.max().unwrap_or(0)
}
