//! The policy alone against a modelled pipeline: SCUs of given sizes at given rates, workers of
//! given speeds, the real manifest with its edits and invariants, and no data.
//!
//! What a run holds is a density of rows over keys: rows that are new, and changes to rows that
//! are there. Merging adds densities; in the authority changes vanish into the rows they change.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_engine::key::Key;
use lazybase_engine::manifest::check::check_commit;
use lazybase_engine::manifest::collect::{Verified, retirable};
use lazybase_engine::manifest::{
    Edit, KeyRange, Manifest, Run, RunId, RunKind, ScuEntry, ScuTime, SegmentFormat, SegmentMeta,
    literal,
};
use lazybase_engine::read::paths::{ReadIndex, segments_in};
use lazybase_model::limits::{SEAL_BYTES, SEGMENT_BYTES};
use lazybase_model::{Span, TableId};

use super::*;

const STEP_MICROS: i64 = 10_000;
const SECOND: i64 = 1_000_000;
/// Stored bytes that one worker sorts or merges in a second.
const SPEED: u64 = 100 << 20;
/// What a task costs whatever its size.
const TASK_MICROS: i64 = 15_000;
/// Uncompressed bytes for one stored byte.
const RATIO: u64 = 2;

/// A stretch of keys with evenly spread rows.
#[derive(Debug, Clone, Copy)]
struct Piece {
    low: u64,
    high: u64,
    /// Bytes of rows that are new here.
    rows: f64,
    /// Bytes of changes to rows that are there.
    changes: f64,
}

impl Piece {
    fn part(&self, low: u64, high: u64) -> Option<Piece> {
        let (from, to) = (self.low.max(low), self.high.min(high));
        let share = to.checked_sub(from).filter(|width| *width > 0)? as f64;
        let share = share / (self.high - self.low) as f64;
        Some(Piece {
            low: from,
            high: to,
            rows: self.rows * share,
            changes: self.changes * share,
        })
    }

    fn bytes(&self) -> f64 {
        self.rows + self.changes
    }
}

fn join(contents: &[&[Piece]], low: u64, high: u64, base: bool) -> Vec<Piece> {
    let mut cuts: Vec<u64> = contents
        .iter()
        .flat_map(|pieces| pieces.iter())
        .flat_map(|piece| [piece.low, piece.high])
        .map(|key| key.clamp(low, high))
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut joined: Vec<Piece> = Vec::new();
    for cut in cuts.windows(2) {
        let mut sum = Piece {
            low: cut[0],
            high: cut[1],
            rows: 0.0,
            changes: 0.0,
        };
        for piece in contents.iter().flat_map(|pieces| pieces.iter()) {
            if let Some(part) = piece.part(cut[0], cut[1]) {
                sum.rows += part.rows;
                sum.changes += part.changes;
            }
        }
        if base {
            sum.rows = if sum.rows > 0.0 {
                sum.rows
            } else {
                sum.changes
            };
            sum.changes = 0.0;
        }
        if sum.bytes() > 0.0 {
            joined.push(sum);
        }
    }
    // Neighbours are made one where there are many: what is lost is only where exactly rows lie.
    while joined.len() > 64 {
        joined = joined
            .chunks(2)
            .map(|pair| match pair {
                [left, right] if left.high == right.low => Piece {
                    low: left.low,
                    high: right.high,
                    rows: left.rows + right.rows,
                    changes: left.changes + right.changes,
                },
                _ => pair[0],
            })
            .collect();
    }
    joined
}

fn encoded(key: u64) -> Key {
    Key::new(key.to_be_bytes().as_slice())
}

fn decoded(key: Option<&Key>, open: u64) -> u64 {
    key.map_or(open, |key| {
        u64::from_be_bytes(
            key.as_bytes()
                .try_into()
                .expect("keys here have eight bytes"),
        )
    })
}

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

struct Pipeline {
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
    accepted: u64,
    log: u64,
    sorting: u64,
    merging: u64,
    /// Worst seen since the last reset.
    stalest_micros: i64,
    runs_max: usize,
    tasks: u64,
}

impl Pipeline {
    /// A table with `bytes` in its authority, keys from 0 to `keys`, in ranges as large as allowed.
    fn new(bytes: u64, keys: u64) -> Pipeline {
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
    fn run(&mut self, seconds: f64, mut load: impl FnMut(i64) -> Vec<Piece>) {
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

    fn write_amplification(&self) -> f64 {
        (self.log + self.sorting + self.merging) as f64 / self.accepted as f64
    }

    fn report(&self, name: &str) {
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
    fn in_authority(&self) -> u64 {
        let runs = self.manifest.runs.values();
        let bases = runs.filter(|run| run.kind == RunKind::Base);
        bases.map(|run| run.bytes()).sum()
    }

    #[track_caller]
    fn is_settled(&mut self) {
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

/// Segments of at most the size that segments aim at, over pieces in the order of keys.
fn segments(
    pieces: &[Piece],
    run: &Run,
    newest: ScuNumber,
    files: &mut u64,
) -> Vec<Arc<SegmentMeta>> {
    let mut segments = Vec::new();
    let mut from = None;
    let mut bytes = 0.0;
    let mut close = |from: u64, to: u64, bytes: f64| {
        *files += 1;
        let bytes = (bytes as u64).max(1);
        segments.push(Arc::new(SegmentMeta {
            file: format!("segments/{files}.ext"),
            format: SegmentFormat::Extent,
            rows: 1 + bytes / 500,
            bytes,
            raw_bytes: bytes * RATIO,
            index_offset: 0,
            index_crc: 0,
            min_key: encoded(from),
            max_key: encoded(to - 1),
            all_upserts: run.kind == RunKind::Base,
            newest_scu: newest,
            moments_through: None,
        }));
    };
    for piece in pieces {
        let mut low = piece.low;
        from.get_or_insert(low);
        loop {
            let rest = piece.part(low, piece.high).map_or(0.0, |rest| rest.bytes());
            let room = SEGMENT_BYTES as f64 - bytes;
            if rest < room {
                bytes += rest;
                break;
            }
            let width = ((piece.high - low) as f64 * room / rest) as u64;
            let cut = (low + width.max(1)).min(piece.high);
            close(from.unwrap_or(low), cut, SEGMENT_BYTES as f64);
            (low, bytes) = (cut, 0.0);
            from = (cut < piece.high).then_some(cut);
            if from.is_none() {
                break;
            }
        }
    }
    if let (Some(from), Some(last)) = (from, pieces.last())
        && bytes > 0.0
    {
        close(from, last.high, bytes);
    }
    segments
}

/// Large segments that no other input overlaps and that lie in the range.
fn moved(
    runs: &[Arc<Run>],
    range: &KeyRange,
    (kind, bytes_min): (RunKind, u64),
) -> Vec<Arc<SegmentMeta>> {
    let within = |segment: &SegmentMeta| {
        range.low.as_ref().is_none_or(|low| *low <= segment.min_key)
            && range
                .high
                .as_ref()
                .is_none_or(|high| segment.max_key < *high)
    };
    let mut moved = Vec::new();
    for run in runs {
        let others = || {
            let others = runs.iter().filter(|other| other.id != run.id);
            others.flat_map(|other| other.segments.iter())
        };
        let alone = |segment: &&Arc<SegmentMeta>| {
            within(segment)
                && segment.bytes >= bytes_min
                && (kind != RunKind::Base || segment.all_upserts)
                && !others().any(|other| {
                    other.min_key <= segment.max_key && segment.min_key <= other.max_key
                })
        };
        moved.extend(run.segments.iter().filter(alone).cloned());
    }
    moved.sort_by(|left, right| left.min_key.cmp(&right.min_key));
    moved
}

/// Keys are numbered by time: `stride` a microsecond.
const STRIDE: u64 = 1 << 10;
/// The first key that the stream adds.
const FIRST: u64 = 1 << 40;

/// New rows with rising keys, `changed` of them changes to the rows of the last minute.
fn rising(rows_s: u64, row_bytes: u64, changed: f64) -> impl FnMut(i64) -> Vec<Piece> {
    let bytes = (rows_s * row_bytes / RATIO) as f64 / (SECOND / STEP_MICROS) as f64;
    let key = |micros: i64| FIRST + micros.max(0) as u64 * STRIDE;
    let mut start = None;
    move |now| {
        let start = *start.get_or_insert(now - STEP_MICROS);
        let new = Piece {
            low: key(now - STEP_MICROS),
            high: key(now),
            rows: bytes * (1.0 - changed),
            changes: 0.0,
        };
        let oldest = key((now - 60 * SECOND).max(start));
        let old = Piece {
            low: oldest,
            high: key(now),
            rows: 0.0,
            changes: bytes * changed,
        };
        let pieces = [new, old].into_iter();
        pieces.filter(|piece| piece.bytes() > 0.0).collect()
    }
}

fn uniform(rows_s: u64, row_bytes: u64, keys: u64) -> impl FnMut(i64) -> Vec<Piece> {
    let bytes = (rows_s * row_bytes / RATIO) as f64 / (SECOND / STEP_MICROS) as f64;
    move |_| {
        vec![Piece {
            low: 0,
            high: keys,
            rows: 0.0,
            changes: bytes,
        }]
    }
}

fn nothing(_: i64) -> Vec<Piece> {
    Vec::new()
}

#[test]
fn a_fast_stream_with_rising_keys_is_written_less_than_four_times() {
    let mut pipeline = Pipeline::new(10_000_000 * 1100 / RATIO, FIRST);
    let before = pipeline.in_authority();
    pipeline.run(180.0, rising(80_000, 1100, 0.05));
    pipeline.report("rising, 80,000 rows/s");
    let reached = pipeline.in_authority() - before;
    assert!(
        reached * RATIO > pipeline.accepted / 5,
        "the authority follows the stream: {reached}"
    );
    assert!(pipeline.write_amplification() < 4.0);
    assert!(pipeline.stalest_micros < 60 * SECOND);
    assert!(pipeline.runs_max < 32);
    pipeline.run(90.0, nothing);
    pipeline.is_settled();
    pipeline.report("and settled");
    assert!(
        pipeline.stalest_micros < 20 * SECOND,
        "settling makes nothing stale"
    );
    assert!(pipeline.write_amplification() < 4.0);
}

#[test]
fn a_slow_stream_is_never_staler_than_five_seconds() {
    let mut pipeline = Pipeline::new(0, FIRST);
    pipeline.run(300.0, rising(1000, 1100, 0.05));
    pipeline.report("rising, 1,000 rows/s");
    assert!(
        pipeline.stalest_micros < 5 * SECOND,
        "{}",
        pipeline.stalest_micros
    );
    assert!(pipeline.runs_max <= 9, "{}", pipeline.runs_max);
    assert!(pipeline.write_amplification() < 10.0);
}

#[test]
fn a_slow_stream_onto_a_large_table_is_fresh_too() {
    for keys in [FIRST, FIRST / 2] {
        let mut pipeline = Pipeline::new(10_000_000 * 1100 / RATIO, FIRST);
        pipeline.run(120.0, uniform(1000, 1100, keys));
        pipeline.report("uniform, 1,000 rows/s");
        assert!(
            pipeline.stalest_micros < 5 * SECOND,
            "{}",
            pipeline.stalest_micros
        );
        assert!(pipeline.runs_max <= 9, "{}", pipeline.runs_max);
    }
}

#[test]
fn uniform_changes_to_a_large_table_keep_up() {
    let mut pipeline = Pipeline::new(10_000_000 * 1100 / RATIO, FIRST);
    pipeline.run(180.0, uniform(20_000, 1100, FIRST));
    pipeline.report("uniform, 20,000 rows/s");
    let early = std::mem::take(&mut pipeline.stalest_micros);
    pipeline.runs_max = 0;
    pipeline.run(120.0, uniform(20_000, 1100, FIRST));
    pipeline.report("and later");
    assert!(pipeline.stalest_micros < 120 * SECOND);
    assert!(
        pipeline.stalest_micros < early + 60 * SECOND,
        "the lag grows"
    );
    assert!(pipeline.runs_max < 64);
}

#[test]
fn an_idle_database_has_everything_in_the_authority_three_seconds_later() {
    for (rows_s, seconds) in [(1000, 30.0), (10, 3.5), (5000, 60.0), (1, 0.01)] {
        let mut pipeline = Pipeline::new(0, FIRST);
        pipeline.run(seconds, rising(rows_s, 1100, 0.05));
        pipeline.run(3.0, nothing);
        pipeline.report(&format!("{rows_s} rows/s, then idle"));
        pipeline.is_settled();
        let tasks = pipeline.tasks;
        pipeline.run(30.0, nothing);
        assert_eq!(pipeline.tasks, tasks, "a settled state stays as it is");
    }
}

#[test]
fn a_writer_that_comes_and_goes_is_served_each_time() {
    let mut pipeline = Pipeline::new(100 << 20, FIRST);
    let mut load = uniform(200, 1100, FIRST);
    pipeline.run(120.0, |now| match now % (2 * SECOND) < SECOND * 6 / 10 {
        true => load(now),
        false => Vec::new(),
    });
    pipeline.report("a writer that comes and goes");
    assert!(pipeline.stalest_micros < 5 * SECOND);
    assert!(
        pipeline.write_amplification() < 20.0,
        "pauses are not worth the authority"
    );
    pipeline.run(3.0, nothing);
    pipeline.is_settled();
}
