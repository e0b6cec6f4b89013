//! Re-reading every file of the database, against checksums and invariants; what is damaged is
//! handed over to be healed.
//!
//! ```text
//!   segments of all runs, logs of all SCUs, manifest files --damage--> coordinator heals
//!                                                   report: healed, healable, lost
//!   views, each with its table at one horizon ------> report: the same, differs, not compared
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::key::{PartitionId, Partitioner};
use lazybase_engine::manifest::{
    KeyRange, Manifest, Pin, RunKind, SegmentMeta, TableState, check, verify_files,
};
use lazybase_engine::read::paths::segments_in;
use lazybase_engine::read::{AsOf, SnapshotAsk, ViewCheck, read_times};
use lazybase_engine::segment::{RowLayout, verify_segment};
use lazybase_engine::stages::ingest::{UnsortedScu, open_sealed};
use lazybase_model::{Error, ErrorKind, Freshness, Horizon, OnMiss, Result, Span, TableId};

use crate::parts::{SegmentPart, segments_of};
use crate::shared::{DamageState, Shared, is_log};
use crate::verify_table::{Outcome, StageCheck, not_read};

/// How long a verification or a backup waits for damaged files to be made again.
pub(crate) const HEALING_MAX: Duration = Duration::from_secs(60);
/// How often it looks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a verification found.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// Segments, logs and manifest files that were read back in full.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Stored rows seen.
    pub rows: u64,
    /// What is wrong and can't be made good, a line each; empty when all is well.
    pub problems: Vec<String>,
    /// What was wrong, and is made again from an earlier stage.
    pub healed: Vec<String>,
    /// What is wrong and will be healed, but was not yet.
    pub healable: Vec<String>,
    /// The secondary views, and what came of comparing each with its table: one that could not be
    /// compared is no problem, and no proof.
    pub views: Vec<StageCheck>,
}

impl VerifyReport {
    /// Whether everything is whole now.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty() && self.healable.is_empty()
    }
}

/// Damage found: a line for each file.
type Found = BTreeMap<String, String>;

/// Reads back all files; `progress` hears the share that is done, from 0 to 1.
pub(crate) async fn verify(
    shared: &Shared,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<VerifyReport> {
    let pin = shared
        .reader
        .pins
        .pin("verify", || shared.manifests.current());
    let manifest = Arc::clone(pin.manifest());
    let mut report = VerifyReport::default();
    if let Err(error) = check::check_loaded(&manifest) {
        report.problems.push(error.to_string());
    }
    report.problems.extend(outside_partitions(&manifest)?);
    let mut found = Found::new();
    // A log that was restored gives back what was lost with it.
    verify_logs(shared, &manifest, &mut report, &mut found).await;
    let segments = segments_of(&manifest)?;
    let total: u64 = segments.iter().map(|part| part.meta.bytes).sum();
    for SegmentPart {
        layout,
        meta,
        place,
        ..
    } in &segments
    {
        let checked = read_back(shared, layout, meta).await;
        // Without the pin the file may be gone by right.
        pin.check()?;
        note(shared, &mut report, &mut found, checked, place);
        report.files += 1;
        report.rows += meta.rows;
        report.bytes += meta.bytes;
        progress(report.bytes as f64 / total.max(1) as f64);
    }
    for file in &manifest.history.files {
        let read = read_times(&*shared.env.store, file).await;
        pin.check()?;
        // Nothing else tells these times: there is nothing to make the file again from.
        if let Err(error) = read {
            let lost = format!("times of SCUs {}..={}: {error}", file.first, file.last);
            report.problems.push(lost);
        }
        report.files += 1;
        report.bytes += file.bytes;
    }
    verify_views(shared, &mut report, &mut found).await?;
    verify_manifest(shared, &mut report).await?;
    // What is pinned is not replaced.
    drop(pin);
    wait_for_healing(shared, &found, &mut report).await;
    Ok(report)
}

/// Reads a file back in full. One that was damaged, and is whole after all, is of use again.
pub(crate) async fn read_back(
    shared: &Shared,
    layout: &Arc<RowLayout>,
    meta: &Arc<SegmentMeta>,
) -> Result<()> {
    verify_segment(&shared.env, layout, meta).await?;
    if shared.reader.damaged.files().1.contains_key(&meta.file) {
        // Somebody restored it, or what failed was the read; or it is whole and wrong.
        match condemned(shared, &meta.file) {
            Some(error) => return Err(error),
            None => found_whole(shared, &meta.file),
        }
    }
    Ok(())
}

/// A file that was damaged is whole. What was lost for the want of it is looked at again.
fn found_whole(shared: &Shared, file: &str) {
    shared.reader.damaged.found_whole([file]);
    let mut board = shared.tasks.lock();
    board.damage.remove(file);
    board
        .damage
        .retain(|_, damage| damage.state != DamageState::Lost);
}

/// Why a file with right checksums is not to be trusted, if it is not.
pub(crate) fn condemned(shared: &Shared, file: &str) -> Option<Error> {
    let damaged = &shared.reader.damaged;
    let is_condemned = damaged.is_condemned(file);
    is_condemned.then(|| damaged.files().1.get(file).cloned())?
}

fn note(
    shared: &Shared,
    report: &mut VerifyReport,
    found: &mut Found,
    checked: Result<()>,
    place: &str,
) {
    let Err(error) = checked else {
        return;
    };
    // Of a log the hint is to ask repair, which tells no more than this.
    let told = match error.damaged_file().is_some_and(is_log) {
        true => error.fact(),
        false => error.to_string(),
    };
    let line = format!("{place}: {told}");
    match error.damaged_file() {
        Some(file) => {
            shared.reader.damaged.note(&error);
            found.entry(file.to_owned()).or_insert(line);
        }
        None => report.problems.push(line),
    }
}

/// Compares what secondary views show with what their tables hold: each in the newest manifest, for
/// what an older one names may be gone.
async fn verify_views(shared: &Shared, report: &mut VerifyReport, found: &mut Found) -> Result<()> {
    let views: Vec<TableId> = shared.manifests.current().views.keys().copied().collect();
    for view in views {
        let unsorted = shared.ingest.unsorted();
        let pins = &shared.reader.pins;
        let pin = pins.pin("verify of views", || shared.manifests.current());
        let manifest = Arc::clone(pin.manifest());
        let Some(state) = manifest.views.get(&view) else {
            continue;
        };
        let sorted = manifest.sorted_through;
        let unsorted = unsorted.iter().filter(|scu| scu.scu() > sorted);
        let unsorted: Vec<_> = unsorted.cloned().collect();
        let name = &state.table.name;
        let mut check = StageCheck {
            of: name.clone(),
            stage: "view",
            span: Span::base(sorted),
            rows: 0,
            outcome: Outcome::Same,
        };
        match check_view(shared, pin, unsorted, state).await {
            Ok(ViewCheck::Same { rows }) => check.rows = rows,
            Ok(ViewCheck::Differs { rows, told }) => {
                let of = state.table.view_of.and_then(|of| manifest.tables.get(&of));
                let of = of.map_or("", |of| of.table.name.as_str());
                report.problems.push(format!(
                    "{told}, through SCU {sorted}; VERIFY TABLE {of} has it built again"
                ));
                check.outcome = Outcome::Differs {
                    rows,
                    told: vec![told],
                    healed: false,
                };
            }
            Ok(ViewCheck::Unread(why)) => check.outcome = Outcome::NotCompared(not_read(why)),
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => return Err(error),
            Err(error) => {
                check.outcome = Outcome::NotCompared(error.to_string());
                note(shared, report, found, Err(error), &format!("view {name:?}"));
            }
        }
        report.views.push(check);
    }
    Ok(())
}

/// Compares what a view shows with what its table holds, at the end of what is sorted.
async fn check_view(
    shared: &Shared,
    pin: Pin,
    unsorted: Vec<Arc<UnsortedScu>>,
    state: &TableState,
) -> Result<ViewCheck> {
    let sorted = pin.manifest().sorted_through;
    // A view of its own table alone: what another one lost is no matter here.
    let snapshot = shared.reader.snapshot(SnapshotAsk {
        pin,
        unsorted,
        now_micros: shared.now(),
        freshness: Freshness::BestEffort,
        floor: Horizon::ZERO,
        on_miss: OnMiss::Dig,
        at: Some(AsOf::Scu(sorted)),
        tables: state.table.view_of.map(|table| vec![table]),
    })?;
    let checked = snapshot.check_view(state.table.id).await;
    if checked.is_err() {
        // Without its pin a file may be gone by right.
        snapshot.check_pin()?;
    }
    checked
}

/// Reads back the logs of all SCUs that are kept, whatever of them is held in memory.
async fn verify_logs(
    shared: &Shared,
    manifest: &Manifest,
    report: &mut VerifyReport,
    found: &mut Found,
) {
    let store = &*shared.env.store;
    let mut files = BTreeSet::new();
    for entry in manifest
        .scus
        .range(..=manifest.sorted_through)
        .map(|(_, entry)| entry)
    {
        let checked = match open_sealed(store, entry).await {
            Ok(scu) => scu.check_log(store).await,
            Err(error) => Err(error),
        };
        let kept = shared.manifests.current().scus.contains_key(&entry.scu);
        // It may have been forgotten, and its files written again, while it was read.
        if kept || checked.is_ok() {
            files.extend(entry.files.iter().cloned());
            note(
                shared,
                report,
                found,
                checked,
                &format!("log of SCU {}", entry.scu),
            );
        }
    }
    for scu in shared.ingest.unsorted().iter() {
        let entry = manifest.scus.get(&scu.scu());
        if let Some(entry) = entry.filter(|_| scu.is_lost())
            && let Ok(whole) = open_sealed(store, entry).await
        {
            scu.found_again(&whole);
        }
        let checked = scu.check_log(store).await;
        let current = shared.manifests.current();
        let kept = scu.scu() > current.sorted_through || current.scus.contains_key(&scu.scu());
        if kept || checked.is_ok() {
            files.extend(scu.log_files());
            note(
                shared,
                report,
                found,
                checked,
                &format!("log of SCU {}", scu.scu()),
            );
        }
    }
    report.files += files.len() as u64;
    let (_, damaged) = shared.reader.damaged.files();
    for file in files.iter().filter(|file| damaged.contains_key(*file)) {
        // Somebody restored it, or what failed was the read.
        if !found.contains_key(file) {
            found_whole(shared, file);
        }
    }
}

/// Reads back the manifest's files. What they say is in memory: damaged ones are replaced.
async fn verify_manifest(shared: &Shared, report: &mut VerifyReport) -> Result<()> {
    let store = &*shared.env.store;
    // What is damaged since before the opening may be replaced by now.
    shared.tend_manifest().await;
    let newest = shared.manifests.current().number;
    report.healed.append(&mut shared.tasks.lock().replaced);
    let listed = store.list("manifest/").await?;
    report.files += listed.len() as u64;
    report.bytes += listed.iter().map(|(_, bytes)| bytes).sum::<u64>();
    if verify_files(store, newest).await?.is_empty() {
        return Ok(());
    }
    // Files that were being replaced are no damage: what is still there at a second look is.
    let found = verify_files(store, newest).await?;
    if found.is_empty() {
        return Ok(());
    }
    let replaced = shared.manifests.replace_files().await;
    let left: BTreeSet<String> = match replaced {
        Ok(()) => verify_files(store, newest)
            .await?
            .iter()
            .map(Error::to_string)
            .collect(),
        Err(error) => {
            report
                .problems
                .push(format!("manifest files can't be replaced: {error}"));
            found.iter().map(Error::to_string).collect()
        }
    };
    for error in found {
        let line = error.to_string();
        match left.contains(&line) {
            true => report.problems.push(line),
            false => report.healed.push(line),
        }
    }
    Ok(())
}

/// Waits until the coordinator has settled what becomes of each damaged file.
async fn wait_for_healing(shared: &Shared, found: &Found, report: &mut VerifyReport) {
    let begin = shared.env.clock.monotonic();
    for (file, line) in found {
        let lines = match fate_of(shared, file, begin).await {
            Fate::Whole => &mut report.healed,
            Fate::Lost => &mut report.problems,
            Fate::Waits => &mut report.healable,
        };
        lines.push(line.clone());
    }
}

/// What became of a damaged file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// It was made again, or what failed was the read.
    Whole,
    /// Nothing holds what was in it.
    Lost,
    /// It is not made again yet.
    Waits,
}

/// What becomes of a damaged file, once the coordinator has settled it; this waits for it, for a
/// while from `begin` on.
pub(crate) async fn fate_of(shared: &Shared, file: &str, begin: Duration) -> Fate {
    let late = || shared.env.clock.monotonic().saturating_sub(begin) > HEALING_MAX;
    loop {
        let (_, damaged) = shared.reader.damaged.files();
        let state = {
            let board = shared.tasks.lock();
            board.damage.get(file).map(|damage| damage.state)
        };
        match state {
            Some(DamageState::Healed) => return Fate::Whole,
            Some(DamageState::Lost) => return Fate::Lost,
            // It was whole when it was read once more: what failed was the read.
            None if !damaged.contains_key(file) => return Fate::Whole,
            // It was replaced before anybody knew of it; only older snapshots still name it.
            None if !is_named(&shared.manifests.current(), file) => return Fate::Whole,
            _ if late() => return Fate::Waits,
            _ => shared.env.clock.sleep(LOOK_EVERY).await,
        }
    }
}

/// Whether a file is a log's, or the manifest names it.
pub(crate) fn is_named(manifest: &Manifest, file: &str) -> bool {
    let mut segments = manifest.runs.values().flat_map(|run| &run.segments);
    is_log(file) || segments.any(|segment| segment.file == file)
}

/// Segments of the authority that do not lie in one partition that takes rows, in words. (The rows
/// of other runs are looked at one by one: those may reach over partitions.)
fn outside_partitions(manifest: &Manifest) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for state in manifest.tables.values() {
        let Some(partitioner) = Partitioner::of(&state.table)? else {
            continue;
        };
        let rule = state
            .table
            .partitioning
            .iter()
            .flat_map(|rules| &rules.range);
        let is_live = |id: &PartitionId| {
            let number = id.range;
            rule.clone()
                .all(|rule| number.is_some_and(|number| rule.is_live(number)))
        };
        let partitions = partitioner.partitions().into_iter().filter(is_live);
        let stretches: Vec<KeyRange> = partitions.map(|id| id.key_range()).collect();
        for range in &state.ranges {
            let current = range.runs.iter().filter(|entry| entry.is_current());
            let runs = current.filter_map(|entry| manifest.runs.get(&entry.id));
            for run in runs.filter(|run| run.kind == RunKind::Base) {
                for meta in segments_in(run, &range.range) {
                    let (min, max) = (meta.min_key.as_bytes(), meta.max_key.as_bytes());
                    if !stretches.iter().any(|stretch| stretch.encloses(min, max)) {
                        problems.push(format!(
                            "table {:?}, view {}: segment {:?} lies in no partition",
                            state.table.name, run.view, meta.file
                        ));
                    }
                }
            }
        }
    }
    Ok(problems)
}
