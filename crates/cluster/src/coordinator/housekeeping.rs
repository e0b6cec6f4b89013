//! Retiring what neither the newest answers nor the retention need, and deleting files.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::env::planted::{Planted, is_planted};
use lazybase_engine::manifest::collect::Verified;
use lazybase_engine::manifest::history::TimesTail;
use lazybase_engine::manifest::superseded::{shorten, superseded_at_most, superseded_files};
use lazybase_engine::manifest::{Edit, Manifest, RunKind, collect};
use lazybase_engine::read::remedy::damaged_files;
use lazybase_engine::read::{DamagedFiles, read_times};
use lazybase_model::error::DISK_FULL;
use lazybase_model::{Error, ErrorKind, Result, ScuNumber, limits};

use super::run::Coordinator;
use crate::task::Output;

/// How often files are looked over.
const HOUSEKEEPING_EVERY: Duration = Duration::from_millis(500);
/// Why something of the past goes before its time.
const TOO_MUCH: &str = "superseded files would take more than superseded_bytes_max";
/// Where segments are.
const SEGMENTS: &str = "segments/";

impl Coordinator {
    /// Once in a while: retires runs, logs and times; deletes files that nothing names. The first
    /// time also what opening did not wait for.
    pub(super) async fn housekeep(&mut self) -> Result<()> {
        if !self.is_due() {
            return Ok(());
        }
        self.shared.tend_manifest().await;
        self.retire(self.shared.now()).await?;
        self.archive_times().await?;
        self.sweep_files().await
    }

    /// On a full disk no edit is written, and nothing is done that comes after one. What nobody
    /// names goes all the same, and makes room for them.
    pub(super) async fn make_room(&mut self, error: &Error) {
        if error.sqlstate() != DISK_FULL || !self.is_due() {
            return;
        }
        // An edit in doubt may name files that nothing else does.
        if self.shared.manifests.settle_pending().await.is_err() {
            return;
        }
        if let Err(error) = self.sweep_files().await {
            self.shared.report_trouble(&error);
        }
    }

    /// Whether it is time to look over files again.
    fn is_due(&mut self) -> bool {
        let now = self.shared.now();
        let is_due = now - self.housekept_micros >= HOUSEKEEPING_EVERY.as_micros() as i64;
        if is_due {
            self.housekept_micros = now;
        }
        is_due
    }

    async fn retire(&self, now_micros: i64) -> Result<()> {
        let manifest = self.shared.manifests.current();
        // A snapshot reads the log of what was not sorted when it was taken.
        let pinned = self.shared.reader.pins.manifests();
        let sorted = pinned.iter().map(|pinned| pinned.sorted_through);
        let sorted = sorted.min().filter(|_| !is_planted(Planted::LogPinIgnored));
        let sorted_through = sorted.unwrap_or(manifest.sorted_through);
        let (version, damaged) = self.shared.reader.damaged.files();
        let (avoids, index) = self.shared.reader.index_avoiding(&manifest);
        if version != self.healing.looked_at || version != avoids {
            // What was found since then may be made of what would go now (HEAL-2).
            return Ok(());
        }
        let views = self.views_on_their_way();
        let read_instead = read_instead(&pinned, &damaged);
        // Attempts read back what they wrote before they report.
        let verified = Verified {
            views: &views,
            index: Some(&index),
            unhealed_runs: &self.healing.unhealed,
            damaged: &damaged,
            read_instead: &read_instead,
            sorted_through,
            ..Verified::default()
        };
        let retention = self.kept_for(&manifest, now_micros, verified);
        let Some(edit) = collect::retirable(&manifest, now_micros, retention, verified) else {
            return Ok(());
        };
        let scus = match &edit {
            Edit::Retire { scus, .. } => scus.clone(),
            _ => Vec::new(),
        };
        let ingest = self.shared.ingest.clone();
        // Also where the edit was in doubt, and a later one finds it in the log: nothing else gives
        // the files up.
        let given_up = Box::new(move || ingest.retire(scus));
        let manifest = self.shared.manifests.commit_then(edit, given_up).await?;
        self.note_committed(&manifest);
        Ok(())
    }

    /// For how long the past stays readable from now on: for the retention, or less where
    /// superseded files would take too much. Where that does not do, the oldest snapshots end.
    fn kept_for(&self, manifest: &Manifest, now_micros: i64, verified: Verified<'_>) -> Duration {
        let retention = self.shared.settings.retention;
        let bytes_max = self.shared.settings.superseded_bytes_max;
        let pinned = self.shared.reader.pins.held();
        let of_pins: Vec<Arc<Manifest>> = pinned
            .iter()
            .map(|held| Arc::clone(&held.manifest))
            .collect();
        let (retained, all) = superseded_at_most(manifest, &of_pins);
        if retained <= bytes_max / 2 && all <= bytes_max {
            return retention;
        }
        let kept_micros = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        let before_micros = now_micros.saturating_sub(kept_micros);
        let files = superseded_files(manifest, &of_pins, now_micros, before_micros, verified);
        let least_age = limits::SNAPSHOT_LEFT_ALONE;
        let may_end: Vec<bool> = pinned
            .iter()
            .map(|held| held.may_end && held.age >= least_age)
            .collect();
        let shortened = shorten(&files, &may_end, bytes_max);
        for place in &shortened.ended {
            let pins = &self.shared.reader.pins;
            let owners = pins.end(pinned[*place].manifest.number, least_age);
            self.note_ended(&owners);
        }
        match shortened.before_micros {
            None => retention,
            Some(before) => {
                self.note_shortened(before, before_micros);
                let left = u64::try_from(now_micros.saturating_sub(before)).unwrap_or(0);
                retention.min(Duration::from_micros(left))
            }
        }
    }

    /// Says that snapshots were ended.
    fn note_ended(&self, owners: &[String]) {
        self.shared.tasks.lock().snapshots_ended += owners.len() as u64;
        for owner in owners {
            let what = format!("the snapshot of {owner:?} was ended");
            let error = Error::new(ErrorKind::SnapshotTooOld, format!("{what}: {TOO_MUCH}"));
            self.shared.report_trouble(&error);
        }
    }

    /// Says that the past goes before its time, where it did not do so already.
    fn note_shortened(&self, before_micros: i64, retention_began: i64) {
        let known = {
            let mut board = self.shared.tasks.lock();
            let known = board.past_gone_micros;
            board.past_gone_micros = known.max(Some(before_micros));
            known
        };
        if known.is_none_or(|known| known <= retention_began) {
            let what = format!("the retention is shortened: {TOO_MUCH}");
            self.shared.report_trouble(&Error::unavailable(what));
        }
    }

    /// Moves times that no horizon asks for into a file, once there are many, joined with files of
    /// like size.
    async fn archive_times(&self) -> Result<()> {
        let manifest = self.shared.manifests.current();
        let history = &manifest.history;
        let (Some(replaces), Some(tail)) = (history.due(), &history.tail) else {
            return Ok(());
        };
        let store = &*self.shared.env.store;
        let joined = &history.files[history.files.len() - replaces..];
        let mut millis = Vec::new();
        for file in joined {
            match read_times(store, file).await {
                Ok(times) => millis.extend(times.millis()?),
                // It stays as it is, and what it tells no more is told by whoever asks for it.
                Err(error) if error.damaged_file().is_some() => {
                    self.shared.report_trouble(&error);
                    return self.commit_times(&tail.millis()?, tail.first, 0).await;
                }
                Err(error) => return Err(error),
            }
        }
        millis.extend(tail.millis()?);
        let first = joined.first().map_or(tail.first, |file| file.first);
        self.commit_times(&millis, first, replaces).await
    }

    /// Writes times from `first` on into a file, which takes the place of the newest `replaces`.
    async fn commit_times(&self, millis: &[i64], first: ScuNumber, replaces: usize) -> Result<()> {
        let store = &*self.shared.env.store;
        let times = TimesTail::of(first, millis)?;
        let random = &self.shared.env.random;
        let (high, low) = (random.next_u64(), random.next_u64());
        let (file, bytes) = times.into_file(format!("{SEGMENTS}{high:016x}{low:016x}.times"))?;
        let mut writer = store.create(&file.file).await?;
        writer.write(bytes.into()).await?;
        writer.finish().await?;
        read_times(store, &file).await?;
        self.commit(Edit::ArchiveTimes { file, replaces })
            .await
            .map(drop)
    }

    /// Deletes segments that no manifest in use names. What a running attempt wrote is younger
    /// than the attempt, and what waits to be adopted is named here. Another process may have taken
    /// the database over, and this one not have heard of it: then a newer manifest was there before
    /// any file of that one was listed, and nothing is deleted.
    async fn sweep_files(&mut self) -> Result<()> {
        let store = &self.shared.env.store;
        let listing = store.list(SEGMENTS).await?;
        let waiting: BTreeSet<String> = self
            .sorted
            .values()
            .chain(&self.merged)
            .chain(&self.healing.made)
            .flat_map(files_of)
            .collect();
        let current = self.shared.manifests.current();
        let mut manifests = vec![Arc::clone(&current)];
        if !is_planted(Planted::PinIgnored) {
            manifests.extend(self.shared.reader.pins.manifests());
        }
        let oldest = self
            .running
            .values()
            .map(|task| task.age(self.shared.now()))
            .max();
        let grace = limits::DELETE_GRACE + oldest.unwrap_or_default();
        let now = self.shared.env.clock.monotonic();
        let loose = self
            .sweep
            .unreferenced(&listing, &waiting, &manifests, now, grace);
        if loose.is_empty() || !self.shared.manifests.is_newest(&current).await? {
            return Ok(());
        }
        for file in loose {
            store.delete(&file).await?;
            self.shared.tasks.lock().files_collected += 1;
        }
        Ok(())
    }
}

/// The SCUs whose logs pinned snapshots read in the place of damaged runs: the runs may have been
/// made again since, the snapshots know the old ones.
fn read_instead(pinned: &[Arc<Manifest>], damaged: &DamagedFiles) -> BTreeSet<ScuNumber> {
    if damaged.is_empty() {
        return BTreeSet::new();
    }
    let runs = pinned.iter().flat_map(|manifest| manifest.runs.values());
    let sorted = runs.filter(|run| run.kind == RunKind::Sorted);
    let damaged = sorted.filter(|run| !damaged_files(run, damaged).is_empty());
    damaged.map(|run| run.span.first).collect()
}

/// The files that an output wrote or moved.
fn files_of(output: &Output) -> Vec<String> {
    let segments = output.segments().into_iter();
    segments.map(|segment| segment.file.clone()).collect()
}
