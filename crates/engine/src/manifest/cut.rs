//! A manifest as of an earlier boundary: what `restore --as-of` opens.
//!
//! ```text
//!   each range: a path of runs to the boundary -> runs of its own, trimmed so that they adjoin
//!   tables: as they were defined then; secondary views: to be built anew
//!   plain views: those of now whose tables were there; sequences: those whose columns were
//! ```
//!
//! Pure. The result keeps every invariant (`check.rs`) or is an error.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_model::{Error, Result, ScuNumber, Span, ViewId};

use super::apply::{has_names_of, view_fits};
use super::check::check_loaded;
use super::edit::Edit;
use super::state::{KeyRange, Manifest, RangeState, Run, RunId, RunKind, RunRef, TableState};
use crate::key::{Key, Partitioner};
use crate::read::damaged::DamagedFiles;
use crate::read::paths::{RangePaths, ReadIndex, segments_in};

#[cfg(test)]
mod tests;

impl Manifest {
    /// The oldest boundary from which on all tables can be read at every boundary.
    pub fn oldest_readable(&self) -> ScuNumber {
        let index = ReadIndex::new(self);
        let known = self.times.range(..=self.sorted_through).rev();
        let readable = known.take_while(|(scu, _)| self.is_readable_in(&index, **scu));
        let mut oldest = self.sorted_through;
        for (scu, _) in readable {
            if scu.next() < oldest {
                break;
            }
            oldest = *scu;
        }
        oldest
    }

    /// Whether all tables that were there can be read at a boundary.
    pub fn is_readable_at(&self, boundary: ScuNumber) -> bool {
        boundary == self.sorted_through || self.is_readable_in(&ReadIndex::new(self), boundary)
    }

    fn is_readable_in(&self, index: &ReadIndex, boundary: ScuNumber) -> bool {
        self.tables.iter().all(|(id, state)| {
            let mut ranges = index.ranges(*id).unwrap_or_default().iter();
            // What was made right at the boundary came after it.
            state.created_after >= boundary
                || ranges.all(|range| range.least_work(boundary).is_some())
        })
    }

    /// The database as it was at the end of SCU `boundary`: nothing of what came after it is there.
    /// Tables that are gone by now stay away; secondary views begin again from nothing, and those
    /// that do not fit their table as it was are left out, as are plain views that read what was
    /// not there or have the name of a table of then. Sequences are those of now, and stand where
    /// they do now, but for those of columns that were not there; a column whose sequence is gone
    /// has no default. Roles are those of now, and so is what they may do with what is there.
    ///
    /// # Errors
    /// `NotFound` when the boundary lies outside what is kept; `Corrupt` when the rows that lead
    /// there can't be told.
    pub fn cut_at(&self, boundary: ScuNumber) -> Result<Manifest> {
        if !self.times.contains_key(&boundary) || boundary > self.sorted_through {
            return Err(self.not_kept(boundary));
        }
        let mut cut = self.clone();
        cut.scus.clear();
        cut.sealed_through = boundary;
        cut.sorted_through = boundary;
        cut.times.retain(|scu, _| *scu <= boundary);
        cut.ddl_batch = self.ddl_batch.filter(|batch| batch.scu <= boundary);
        // What was made right at the boundary came after it, as what was altered there did.
        cut.tables.retain(|_, state| state.created_after < boundary);
        cut.runs.clear();
        cut.cut_ids(boundary);
        let mut tables = std::mem::take(&mut cut.tables);
        for state in tables.values_mut() {
            *state = Arc::new(self.table_at(&mut cut, state, boundary)?);
        }
        cut.tables = tables;
        cut.prune_sequences();
        let mut views = std::mem::take(&mut cut.views);
        views.retain(|_, view| {
            let table = view.table.view_of.and_then(|of| cut.tables.get(&of));
            let mut tables = cut.tables.values();
            // A view that came later may have a name that a table had then.
            let is_taken = tables.any(|table| table.table.name == view.table.name);
            let fits = |table: &Arc<TableState>| {
                view_fits(&table.table, &view.table) && has_names_of(&table.table, &view.table)
            };
            !is_taken && table.is_some_and(fits)
        });
        let ids: Vec<ViewId> = views.values().map(|view| view.table.primary.id).collect();
        cut.views = views;
        for view in ids {
            cut = cut.into_next(&Edit::ResetView { view })?;
        }
        let names = cut.tables.values().map(|state| state.table.name.as_str());
        let names: BTreeSet<&str> = names.collect();
        cut.plain_views
            .retain(|_, view| !names.contains(view.name.as_str()));
        cut.prune_plain_views();
        cut.prune_access();
        check_loaded(&cut)?;
        Ok(cut)
    }

    fn not_kept(&self, boundary: ScuNumber) -> Error {
        let (oldest, newest) = (self.oldest_readable(), self.sorted_through);
        Error::not_found(format!("the end of SCU {boundary} is not kept"))
            .with_detail(format!(
                "what is kept reaches from SCU {oldest} to {newest}"
            ))
            .with_sqlstate("72000")
    }

    /// Numbers that were given out stay given out: none of them is ever given to another key.
    fn cut_ids(&mut self, boundary: ScuNumber) {
        let given = std::mem::take(&mut self.next_ids);
        self.last_remapped = boundary;
        let mut newest = std::collections::BTreeMap::new();
        for of_maps in given.into_values() {
            newest.extend(of_maps);
        }
        newest.retain(|map, _| self.tables.contains_key(map));
        if !newest.is_empty() {
            self.next_ids.insert(boundary, newest);
        }
    }

    fn table_at(
        &self,
        cut: &mut Manifest,
        state: &TableState,
        boundary: ScuNumber,
    ) -> Result<TableState> {
        // A partition may have been there that is forgotten by now, and its range with it.
        let partitioner = Partitioner::of(state.at(boundary))?;
        let begins = partitioner.map_or_else(Vec::new, |partitioner| partitioner.cuts());
        let mut ranges = Vec::with_capacity(state.ranges.len());
        for (at, known) in state.ranges.iter().enumerate() {
            for range in pieces(&known.range, &begins) {
                ranges.push(Arc::new(self.range_at(
                    cut,
                    state,
                    (at, range),
                    boundary,
                )?));
            }
        }
        let older = state.older.iter().filter(|older| older.through < boundary);
        Ok(TableState {
            table: Arc::clone(state.at(boundary)),
            older: older.cloned().collect(),
            created_after: state.created_after,
            ranges,
        })
    }

    /// One range, which is that of a number or lies in it, with runs of its own that lead to the
    /// boundary.
    fn range_at(
        &self,
        cut: &mut Manifest,
        state: &TableState,
        (at, range): (usize, KeyRange),
        boundary: ScuNumber,
    ) -> Result<RangeState> {
        let paths = RangePaths::new(self, state, at, &DamagedFiles::new());
        let ids = paths
            .all_runs(boundary)
            .ok_or_else(|| self.not_kept(boundary).within(&state.table.name))?;
        let mut runs: Vec<Run> = ids
            .iter()
            .map(|id| self.run(*id).as_ref().clone())
            .collect();
        runs.sort_by_key(Run::order);
        let view = state.table.primary.id;
        let starts_late = runs.first().map(|run| run.span.first.previous());
        let is_based = runs.first().is_some_and(|run| run.kind == RunKind::Base);
        if !is_based {
            let span = Span::base(starts_late.unwrap_or(boundary));
            runs.insert(0, empty_base(view, span));
        }
        let firsts: Vec<ScuNumber> = runs.iter().map(|run| run.span.first).collect();
        number_parts(&mut runs);
        for (at, run) in runs.iter_mut().enumerate() {
            // The base comes first, and alone; it may be empty and begin where the next run does.
            let later = firsts[at + 1..].iter();
            let mut later = later.filter(|first| at == 0 || **first > run.span.first);
            let end = later.next().map_or(boundary, |first| first.previous());
            run.span.last = end;
            run.changes_through = run.changes_through.min(end);
            run.segments = segments_in(run, &range).to_vec();
        }
        let mut entries = Vec::with_capacity(runs.len());
        for mut run in runs {
            run.id = RunId(cut.next_run);
            cut.next_run += 1;
            entries.push(RunRef::current(run.id));
            cut.runs.insert(run.id, Arc::new(run));
        }
        Ok(RangeState {
            range,
            runs: entries,
        })
    }
}

/// A range, cut at those of the keys that lie inside; these rise.
fn pieces(range: &KeyRange, cuts: &[Key]) -> Vec<KeyRange> {
    let is_inside = |cut: &&Key| range.contains(cut) && range.low.as_ref() != Some(*cut);
    let inside = || cuts.iter().filter(is_inside).cloned().map(Some);
    let lows = std::iter::once(range.low.clone()).chain(inside());
    let highs = inside().chain([range.high.clone()]);
    let pieces = lows.zip(highs);
    pieces.map(|(low, high)| KeyRange { low, high }).collect()
}

/// Numbers the parts of each sort from 0: some may have left the range before.
fn number_parts(runs: &mut [Run]) {
    let mut before = None;
    for run in runs.iter_mut().filter(|run| run.kind == RunKind::Sorted) {
        run.part = match before {
            Some((first, part)) if first == run.span.first => part + 1,
            _ => 0,
        };
        before = Some((run.span.first, run.part));
    }
}

fn empty_base(view: ViewId, span: Span) -> Run {
    Run {
        id: RunId(0),
        view,
        kind: RunKind::Base,
        span,
        changes_through: span.start(),
        segments: Vec::new(),
        part: 0,
    }
}
