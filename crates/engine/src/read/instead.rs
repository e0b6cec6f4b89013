//! What is read in place of damaged files: another covering set of runs at the same horizon, or
//! the log of an SCU whose sorted run is damaged.
//!
//! ```text
//!   choice at horizon h --reads--> damage: note the file --> paths to h without it --> go on
//!                                                       \--> none: the error names what is lost
//! ```
//!
//! Reads a pinned manifest and the set of damaged files; the log of sorted SCUs. Invariant READ-3:
//! the horizon never changes: what is read instead holds the same changes, so rows that were given
//! before stay right.

use std::sync::Arc;

use lazybase_model::{Error, Result, ScuNumber, Span, Stage, TableId};

use super::damaged::DamagedFiles;
use super::paths::{TablePath, TablePaths, damage_in, log_of};
use super::snapshot::{Inner, Snapshot};
use super::source::Source;
use crate::key::Key;
use crate::manifest::{KeyRange, RangeState, Run, RunId, RunKind, ScuEntry, TableState};
use crate::segment::RowLayout;
use crate::stages::ingest::{UnsortedScu, open_sealed};

/// Where the changes of a run are read.
#[derive(Debug, Clone)]
pub(super) enum Stored<'m> {
    /// In its segments.
    Run(&'m Arc<Run>),
    /// In the log of its SCU, for all its parts: one of their files is damaged.
    Log(&'m Arc<ScuEntry>),
}

/// The path that a snapshot takes through a table, and what it avoids.
pub(super) struct Covering {
    /// The version of the set of damaged files.
    pub(super) avoids: u64,
    damaged: Arc<DamagedFiles>,
    path: Arc<TablePath>,
}

/// A range of a table, and what is read of it, oldest first.
pub(super) type RangeSources<'m> = (&'m RangeState, Vec<Stored<'m>>);

impl Inner {
    fn state(&self, table: TableId) -> Result<&Arc<TableState>> {
        let state = self.manifest.tables.get(&table);
        state.ok_or_else(|| Error::not_found(format!("table {table} is not in the snapshot")))
    }

    /// The path of the choice, or another one to the same horizon if files of it were found
    /// damaged since.
    pub(super) fn covering(&self, table: TableId) -> Result<Covering> {
        let (avoids, damaged) = self.reader.damaged.files();
        let path = match avoids == self.avoids {
            true => self.chosen(table)?,
            false => self.detour(table, avoids, &damaged)?,
        };
        Ok(Covering {
            avoids,
            damaged,
            path,
        })
    }

    fn chosen(&self, table: TableId) -> Result<Arc<TablePath>> {
        let path = self.choice.paths.iter().find(|path| path.table == table);
        path.cloned().ok_or_else(|| not_chosen(table))
    }

    fn detour(
        &self,
        table: TableId,
        avoids: u64,
        damaged: &DamagedFiles,
    ) -> Result<Arc<TablePath>> {
        let chosen = self.chosen(table)?;
        let mut detours = self.detours.lock();
        if let Some((known, path)) = detours.get(&table)
            && *known == avoids
        {
            return Ok(Arc::clone(path));
        }
        let state = self.state(table)?;
        let path = if self.is_whole(state, &chosen, damaged) {
            chosen
        } else {
            let paths = TablePaths::new(&self.manifest, state, damaged);
            let lost = || paths.lost_at(self.choice.sorted);
            let path = paths.cheapest(self.choice.sorted);
            path.ok_or_else(|| lost().unwrap_or_else(|| not_chosen(table)))?
        };
        detours.insert(table, (avoids, Arc::clone(&path)));
        Ok(path)
    }

    /// Whether a path needs no damaged file.
    fn is_whole(&self, state: &TableState, path: &TablePath, damaged: &DamagedFiles) -> bool {
        let mut ranges = state.ranges.iter().zip(&path.ranges);
        ranges.all(|(range, chosen)| {
            let mut runs = chosen
                .runs
                .iter()
                .filter_map(|id| self.manifest.runs.get(id));
            runs.all(|run| damage_in(run, &range.range, damaged).is_none())
        })
    }

    /// The ranges of a table, in key order, with what is read of each.
    pub(super) fn ranges(
        &self,
        table: TableId,
        covering: &Covering,
    ) -> Result<Vec<RangeSources<'_>>> {
        let state = self.state(table)?;
        let ranges = state.ranges.iter().zip(&covering.path.ranges);
        ranges
            .map(|(range, chosen)| {
                let stored = self.stored(table, &range.range, &chosen.runs, &covering.damaged)?;
                Ok((&**range, stored))
            })
            .collect()
    }

    /// What is read for a key, oldest first.
    pub(super) fn stored_at(
        &self,
        table: TableId,
        key: &Key,
        covering: &Covering,
    ) -> Result<Vec<Stored<'_>>> {
        let state = self.state(table)?;
        let at = state
            .ranges
            .partition_point(|range| range.range.low.as_ref().is_none_or(|low| low <= key))
            .saturating_sub(1);
        let chosen = covering.path.ranges.get(at);
        let chosen = chosen.ok_or_else(|| not_chosen(table))?;
        let range = &state.ranges[at].range;
        self.stored(table, range, &chosen.runs, &covering.damaged)
    }

    fn stored(
        &self,
        table: TableId,
        range: &KeyRange,
        ids: &[RunId],
        damaged: &DamagedFiles,
    ) -> Result<Vec<Stored<'_>>> {
        let runs = ids.iter().map(|id| self.manifest.runs.get(id));
        if damaged.is_empty() {
            let stored: Option<Vec<Stored<'_>>> = runs.map(|run| run.map(Stored::Run)).collect();
            return stored.ok_or_else(|| not_chosen(table));
        }
        let runs: Option<Vec<&Arc<Run>>> = runs.collect();
        let runs = runs.ok_or_else(|| not_chosen(table))?;
        let parts = |a: &&Arc<Run>, b: &&Arc<Run>| a.kind == RunKind::Sorted && a.span == b.span;
        let mut stored = Vec::with_capacity(runs.len());
        for of_scu in runs.chunk_by(parts) {
            let mut parts = of_scu.iter();
            let is_damaged = parts.any(|run| damage_in(run, range, damaged).is_some());
            match log_of(&self.manifest, of_scu[0], damaged).filter(|_| is_damaged) {
                Some(entry) => stored.push(Stored::Log(entry)),
                None => stored.extend(of_scu.iter().map(|run| Stored::Run(run))),
            }
        }
        Ok(stored)
    }
}

fn not_chosen(table: TableId) -> Error {
    Error::internal(format!("no runs were chosen for table {table}"))
}

impl Snapshot {
    /// Remembers the damage that a read met, if it is that; whether reading again, by what avoids
    /// more than `avoided`, may do better.
    pub(super) fn may_read_instead(&self, error: &Error, avoided: u64) -> bool {
        // Without its pin the file may be gone by right.
        if error.damaged_file().is_none() || self.check_pin().is_err() {
            return false;
        }
        let damaged = &self.inner.reader.damaged;
        damaged.note(error);
        damaged.version() > avoided
    }

    /// The error with the view and SCUs of the file that it names.
    pub(super) fn placed(&self, error: Error) -> Error {
        if let Err(too_old) = self.check_pin() {
            return too_old;
        }
        let manifest = &self.inner.manifest;
        let Some(file) = error.damaged_file().filter(|_| error.detail().is_none()) else {
            return error;
        };
        let names = |run: &&Arc<Run>| run.segments.iter().any(|segment| segment.file == file);
        let Some(run) = manifest.runs.values().find(names) else {
            return error;
        };
        let state = manifest.table_of_view(run.view);
        let table = state.map_or("", |state| state.table.name.as_str());
        let place = format!("table {table:?}, view {}, SCUs {}", run.view, run.span);
        error.with_detail(place)
    }

    /// The error with the view and SCU whose log it names.
    pub(super) fn of_scu(error: Error, layout: &RowLayout, scu: ScuNumber) -> Error {
        let table = &layout.table;
        let span = Span::single(scu);
        let place = format!(
            "table {:?}, view {}, SCUs {span}",
            table.name, table.primary.id
        );
        match error.damaged_file() {
            Some(_) => error.with_detail(place),
            None => error,
        }
    }

    /// The log of a sorted SCU, opened to be read in place of its damaged run.
    pub(super) async fn log_instead(
        &self,
        layout: &RowLayout,
        entry: &ScuEntry,
    ) -> Result<Arc<UnsortedScu>> {
        let opened = open_sealed(&*self.inner.reader.env.store, entry).await;
        opened.map_err(|error| {
            error.within(format_args!(
                "table {:?}, SCU {}",
                layout.table.name, entry.scu
            ))
        })
    }

    /// The changes of a sorted SCU, from its log.
    pub(super) async fn log_sources(
        &self,
        layout: &Arc<RowLayout>,
        entry: &ScuEntry,
    ) -> Result<Vec<Source>> {
        let scu = self.log_instead(layout, entry).await?;
        let logged = self.log_layout(layout)?;
        let reader = &self.inner.reader;
        let sorted = reader
            .unsorted
            .sorted(&self.inner.ids().of_log(), &logged, &scu, entry.batches)
            .await?;
        self.note_unsorted(entry.scu.0, entry.batches, true);
        let source = |chunks| Source::Memory {
            stage: Stage::Ingested,
            name: format!("SCU {}, from its log", entry.scu),
            chunks,
            own: false,
        };
        Ok(sorted.into_iter().map(source).collect())
    }
}
