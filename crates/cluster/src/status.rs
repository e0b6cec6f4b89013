//! What the status shows: how much of the data is in which stage, how far each stage lags, what
//! runs, what went wrong.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use lazybase_engine::env::FailedSync;
use lazybase_engine::manifest::superseded::superseded_bytes;
use lazybase_engine::manifest::{Manifest, PinStatus, RangeState, Run, RunId, RunKind, RunRef};
use lazybase_engine::read::freshness::{FreshnessInput, choose};
use lazybase_engine::read::summary;
use lazybase_engine::segment::CacheUsage;
use lazybase_engine::stages::ingest::{IngestStatus, WaitingWriter};
use lazybase_model::{Freshness, Horizon, OnMiss, ScuNumber};

use crate::shared::{
    DamageStatus, FinishedTask, Shared, SilentAttempts, StageTotals, StageWork, TaskBoard, Trouble,
};
use crate::task::{StageName, TaskStatus};

/// A running database at one moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// The newest manifest's number.
    pub manifest: u64,
    /// The coordinator's clock, microseconds since 1970.
    pub now_micros: i64,
    /// The open SCU and how many batches it has.
    pub open_scu: ScuNumber,
    /// Its acknowledged batches.
    pub open_batches: u32,
    /// Sealed up to here.
    pub sealed_through: ScuNumber,
    /// Sorted up to here.
    pub sorted_through: ScuNumber,
    /// Best effort answers up to here.
    pub common_horizon: ScuNumber,
    /// The authority alone answers up to here, in every range.
    pub authority_through: ScuNumber,
    /// How stale an answer is, in microseconds, that reads no stage before: sorted, best effort,
    /// authority.
    pub lag_micros: BTreeMap<&'static str, i64>,
    /// What each stage holds.
    pub stages: BTreeMap<&'static str, StageHoldings>,
    /// Why writers wait, if they do.
    pub throttle: Option<String>,
    /// The writers that wait at this moment, with why.
    pub waiting: Vec<WaitingWriter>,
    /// The snapshot that holds the oldest manifest.
    pub oldest_pin: Option<HeldPin>,
    /// Tasks that run.
    pub running: Vec<TaskStatus>,
    /// The last tasks that ended.
    pub finished: Vec<FinishedTask>,
    /// The last things that went wrong.
    pub troubles: Vec<Trouble>,
    /// Stages that are paused.
    pub paused: Vec<StageName>,
    /// Files that were seen damaged since the database was opened, by name.
    pub damage: BTreeMap<String, DamageStatus>,
    /// Bytes written by stage since the database was opened.
    pub totals: StageTotals,
    /// Bytes written to the log since the database was opened.
    pub log_bytes_written: u64,
    /// What the attempts of each stage have done since the database was opened.
    pub work: BTreeMap<&'static str, StageWork>,
    /// How ingest is doing.
    pub ingest: IngestStatus,
    /// The sync that failed and after which nothing becomes durable until the database is opened
    /// again, if there was one. What is there can be read.
    pub failed_sync: Option<FailedSync>,
    /// How the cache of segments is used.
    pub cache: CacheUsage,
    /// Attempts that hung.
    pub silent: SilentAttempts,
    /// Files that were deleted, since the opening, because nothing names them.
    pub files_collected: u64,
    /// How often something went wrong in the background since the opening.
    pub troubles_seen: u64,
    /// What superseded files take, and what that costs.
    pub superseded: SupersededStatus,
}

/// Files that the newest answers don't need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupersededStatus {
    /// What they take: what the retention and snapshots keep, and what lags behind.
    pub bytes: u64,
    /// What may be kept of them: the setting `superseded_bytes_max`.
    pub bytes_max: u64,
    /// How far back the past is kept, in microseconds: the retention, or less where that was
    /// shortened.
    pub kept_micros: u64,
    /// Snapshots that were ended since the opening, as they kept too much.
    pub snapshots_ended: u64,
}

/// What a stage holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct StageHoldings {
    /// SCUs whose newest form is this one.
    pub scus: u64,
    /// Stored rows.
    pub rows: u64,
    /// Bytes, as stored (of the open SCU: uncompressed).
    pub bytes: u64,
    /// Current runs (merged and sorted: over all ranges).
    pub runs: u64,
}

pub(crate) fn status(shared: &Shared) -> Status {
    let unsorted = shared.ingest.unsorted();
    let manifest = shared.manifests.current();
    let now_micros = shared.now();
    let ingest = shared.ingest.status();
    let authority = authority_through(&manifest);
    let summaries: Vec<_> = unsorted
        .iter()
        .filter(|scu| scu.scu() > manifest.sorted_through)
        .map(|scu| summary(scu))
        .collect();
    let index = shared.reader.index(&manifest);
    let common = index.common_horizon();
    let lag = |through: ScuNumber| {
        let input = FreshnessInput {
            index: &index,
            unsorted: &summaries,
            now_micros,
            freshness: Freshness::BestEffort,
            floor: Horizon::ZERO,
            on_miss: OnMiss::Dig,
            at: Some(Horizon::end_of(through)),
            tables: Some(&[]),
        };
        choose(&input).map_or(0, |choice| choice.staleness.as_micros() as i64)
    };
    let superseded = superseded_bytes(&manifest, &shared.reader.pins.manifests());
    let board = shared.tasks.lock();
    Status {
        manifest: manifest.number,
        now_micros,
        open_scu: manifest.sealed_through.next(),
        open_batches: ingest.open_batches,
        sealed_through: manifest.sealed_through,
        sorted_through: manifest.sorted_through,
        common_horizon: common,
        authority_through: authority,
        lag_micros: BTreeMap::from([
            ("sorted", lag(manifest.sorted_through)),
            ("best effort", lag(common)),
            ("authority", lag(authority)),
        ]),
        stages: holdings(&manifest, authority, ingest.open_batches, ingest.open_bytes),
        throttle: ingest.throttled.clone().or(ingest.held.clone()),
        waiting: ingest.waiting.clone(),
        oldest_pin: pins(shared)
            .into_iter()
            .min_by_key(|held| held.pin.manifest),
        running: board.running.clone(),
        finished: board.finished.iter().cloned().collect(),
        troubles: board.troubles.iter().cloned().collect(),
        paused: board.paused.clone(),
        damage: board.damage.clone(),
        totals: board.totals,
        log_bytes_written: ingest.log_bytes_written,
        work: board.work.clone(),
        silent: board.silent,
        files_collected: board.files_collected,
        troubles_seen: board.troubles_seen,
        superseded: told_superseded(shared, superseded, &board),
        cache: shared.reader.cache.usage(),
        failed_sync: shared.env.store.failed_sync(),
        ingest,
    }
}

fn told_superseded(shared: &Shared, bytes: u64, board: &TaskBoard) -> SupersededStatus {
    let retention = shared.settings.retention.as_micros();
    let retention = u64::try_from(retention).unwrap_or(u64::MAX);
    let since = |gone: i64| u64::try_from(shared.now().saturating_sub(gone)).unwrap_or(0);
    SupersededStatus {
        bytes,
        bytes_max: shared.settings.superseded_bytes_max,
        kept_micros: board
            .past_gone_micros
            .map_or(retention, |gone| since(gone).min(retention)),
        snapshots_ended: board.snapshots_ended,
    }
}

/// A reader's snapshot, and what it keeps from being removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPin {
    /// Who holds it, since when, at which horizon.
    pub pin: PinStatus,
    /// The bytes of segments that the newest manifest no longer names.
    pub held_bytes: u64,
}

/// The snapshots that readers hold, the oldest first.
pub(crate) fn pins(shared: &Shared) -> Vec<HeldPin> {
    let pins = &shared.reader.pins;
    let manifests: BTreeMap<u64, Arc<Manifest>> = pins
        .manifests()
        .into_iter()
        .map(|manifest| (manifest.number, manifest))
        .collect();
    let current = shared.manifests.current();
    let held: BTreeMap<u64, u64> = manifests
        .iter()
        .map(|(number, manifest)| (*number, held_bytes(manifest, &current)))
        .collect();
    let with_bytes = |pin: PinStatus| HeldPin {
        held_bytes: held.get(&pin.manifest).copied().unwrap_or(0),
        pin,
    };
    pins.list().into_iter().map(with_bytes).collect()
}

/// The bytes of segments that a pinned manifest names and the current one does not.
fn held_bytes(pinned: &Manifest, current: &Manifest) -> u64 {
    let segments = |manifest: &'_ Manifest| -> Vec<(String, u64)> {
        let runs = manifest.runs.values().flat_map(|run| run.segments.iter());
        runs.map(|segment| (segment.file.clone(), segment.bytes))
            .collect()
    };
    let named: HashSet<String> = segments(current)
        .into_iter()
        .map(|(file, _)| file)
        .collect();
    let held: BTreeMap<String, u64> = segments(pinned).into_iter().collect();
    held.into_iter()
        .filter(|(file, _)| !named.contains(file))
        .map(|(_, bytes)| bytes)
        .sum()
}

/// The newest SCU that the base runs alone reach in every range.
pub(crate) fn authority_through(manifest: &Manifest) -> ScuNumber {
    manifest
        .all_ranges()
        .filter_map(|(_, range)| {
            let bases = bases_of(manifest, &range.runs);
            bases.map(|base| base.span.last).max()
        })
        .min()
        .unwrap_or(manifest.sorted_through)
}

/// Whether the base runs alone reach a boundary in every range.
pub(crate) fn authority_reaches(manifest: &Manifest, boundary: ScuNumber) -> bool {
    let reaches = |range: &RangeState| {
        let mut bases = bases_of(manifest, &range.runs);
        bases.any(|base| boundary <= base.span.last)
    };
    manifest.sorted_through >= boundary && manifest.all_ranges().all(|(_, range)| reaches(range))
}

/// The bases among some of a range's runs, which are in order: bases begin at the first SCU, so
/// they stand first (MAN-9), and the others are not looked at.
pub(crate) fn bases_of<'m>(
    manifest: &'m Manifest,
    runs: impl IntoIterator<Item = &'m RunRef>,
) -> impl Iterator<Item = &'m Run> {
    let runs = runs.into_iter();
    let runs = runs.filter_map(|entry| manifest.runs.get(&entry.id));
    runs.take_while(|run| run.span.first <= ScuNumber(1))
        .filter(|run| run.kind == RunKind::Base)
        .map(|run| &**run)
}

fn holdings(
    manifest: &Manifest,
    authority: ScuNumber,
    open_batches: u32,
    open_bytes: u64,
) -> BTreeMap<&'static str, StageHoldings> {
    let mut stages: BTreeMap<&'static str, StageHoldings> = BTreeMap::new();
    let open = stages.entry("open").or_default();
    open.scus = u64::from(open_batches > 0);
    open.bytes = open_bytes;
    stages.entry("ingested").or_default();
    let remapped = manifest.remapped_through();
    let unsorted = manifest.scus.range(manifest.sorted_through.next()..);
    for (scu, entry) in unsorted {
        let name = match *scu <= remapped && manifest.holds_keys(entry) {
            true => "remapped",
            false => "ingested",
        };
        let stage = stages.entry(name).or_default();
        stage.scus += 1;
        stage.rows += entry.rows;
        stage.bytes += entry.raw_bytes;
    }
    let mut sorted_scus: std::collections::BTreeSet<u64> = std::collections::BTreeSet::new();
    // A sorted run stands in every range of its table.
    let mut ranges_with: HashMap<RunId, u64> = HashMap::new();
    for (_, range) in manifest.all_ranges() {
        for current in range.runs.iter().filter(|run| run.is_current()) {
            *ranges_with.entry(current.id).or_default() += 1;
        }
    }
    for (id, ranges) in ranges_with {
        let Some(run) = manifest.runs.get(&id) else {
            continue;
        };
        let name = match run.kind {
            RunKind::Sorted => {
                sorted_scus.extend(run.span.first.0..=run.span.last.0);
                "sorted"
            }
            RunKind::Merged => "merged",
            RunKind::Base => "authority",
        };
        let stage = stages.entry(name).or_default();
        stage.runs += ranges;
        stage.rows += run.rows();
        stage.bytes += run.bytes();
    }
    sorted_scus.retain(|scu| *scu > authority.0);
    let after_authority = manifest.sorted_through.0.saturating_sub(authority.0);
    let sorted = sorted_scus.len() as u64;
    stages.entry("sorted").or_default().scus = sorted;
    stages.entry("merged").or_default().scus = after_authority.saturating_sub(sorted);
    stages.entry("authority").or_default().scus = authority.0;
    stages
}
