//! Partitions of tables in the manifest: the ranges that they begin with, and what adding and
//! dropping a range partition makes of them.
//!
//! ```text
//!   range partition 2 is dropped at boundary 7        after it
//!   buckets 0: | 1 | 2 | 3 |                          | 1 | 2: empty base 1..=7          | 3 |
//!   buckets 1: | 1 | 2 | 3 |                          | 1 | (older runs end before 7)    | 3 |
//! ```
//!
//! Runs are shared by ranges, so a dropped range gets copies of those that could lead to the
//! boundary, cut by one SCU, over the same files. A dropped partition is remembered while any run
//! may hold its rows; then it is forgotten, and its ranges join their neighbours. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_model::partition::{PartitionChange, RangeRule};
use lazybase_model::table::Table;
use lazybase_model::{Error, Result, SchemaVersion, ScuNumber, Span, TableId};

use super::apply::order;
use super::check::{Checked, Violation, require};
use super::state::{KeyRange, Manifest, RangeState, Run, RunId, RunRef};
use crate::key::{Key, PartitionId, Partitioner};
use crate::read::paths::segments_in;

/// The ranges that a new table begins with.
pub(super) fn first_ranges(table: &Table) -> Result<Vec<KeyRange>> {
    let partitioner = Partitioner::of(table)?;
    let cuts = partitioner.map_or_else(Vec::new, |partitioner| partitioner.cuts());
    let lows = std::iter::once(None).chain(cuts.iter().cloned().map(Some));
    let highs = cuts.iter().cloned().map(Some).chain([None]);
    Ok(lows
        .zip(highs)
        .map(|(low, high)| KeyRange { low, high })
        .collect())
}

/// A table after a change of its partitions.
#[derive(Debug)]
pub struct Repartitioned {
    /// Its definition, under a new version.
    pub table: Table,
    /// The partition that began or ended, once for each combination of buckets.
    pub partitions: Vec<PartitionId>,
    /// Partitions that nothing holds rows of any more, and that the definition forgets.
    forgotten: Vec<PartitionId>,
}

fn rule_of(table: &mut Table) -> Result<&mut RangeRule> {
    let rules = table.partitioning.as_mut();
    rules.and_then(|rules| rules.range.as_mut()).ok_or_else(|| {
        Error::invalid(format!("table {:?} has no range partitions", table.name))
            .with_hint("PARTITION BY RANGE (columns) is chosen by CREATE TABLE")
            .with_sqlstate("42809")
    })
}

impl Manifest {
    /// What a change of its range partitions makes of a table, under `version`: the manifest's, or
    /// that of a transaction that has changed it before.
    ///
    /// # Errors
    /// `Conflict` when the partition overlaps another one, `NotFound` when it is not there,
    /// `Invalid` when the table has no range partitions.
    pub fn repartitioned(
        &self,
        table: &Table,
        change: &PartitionChange,
        version: SchemaVersion,
    ) -> Result<Repartitioned> {
        let mut changed = table.clone();
        let forgotten = self.forgettable(table)?;
        let rule = rule_of(&mut changed)?;
        rule.partitions.retain(|of| !forgotten.contains(&of.number));
        let number = match change {
            PartitionChange::Add(bounds) => rule.add(bounds),
            PartitionChange::Drop(bounds) => rule.drop(bounds),
        };
        let within = |error: Error| error.within(format_args!("table {:?}", table.name));
        let number = number.map_err(within)?;
        if let Some(rules) = &changed.partitioning {
            rules.check().map_err(within)?;
        }
        changed.version = version;
        let buckets = match Partitioner::of(table)? {
            Some(partitioner) => partitioner.bucket_combinations(),
            None => Vec::new(),
        };
        let ids = |number: u32| {
            let id = move |buckets: &Vec<u16>| PartitionId {
                buckets: buckets.clone(),
                range: Some(number),
            };
            buckets.iter().map(id).collect::<Vec<_>>()
        };
        Ok(Repartitioned {
            table: changed,
            partitions: ids(number),
            forgotten: forgotten.into_iter().flat_map(ids).collect(),
        })
    }

    /// The numbers of dropped partitions that no run holds rows of. What a transaction alone has
    /// dropped keeps its number: unsorted rows may lie there, and their keys begin with it.
    fn forgettable(&self, table: &Table) -> Result<Vec<u32>> {
        let Some(partitioner) = Partitioner::of(table)? else {
            return Ok(Vec::new());
        };
        let stored = self.tables.get(&table.id);
        let stored = stored.and_then(|state| state.table.partitioning.as_ref()?.range.as_ref());
        let takes_rows = |number: u32| stored.is_some_and(|rule| rule.is_live(number));
        let dropped = table.partitioning.iter().flat_map(|rules| &rules.range);
        let dropped = dropped.flat_map(|rule| &rule.partitions);
        let mut numbers: BTreeSet<u32> = dropped
            .filter(|partition| partition.dropped && !takes_rows(partition.number))
            .map(|partition| partition.number)
            .collect();
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let of_view = |run: &&Arc<Run>| run.view == table.primary.id;
        let runs: Vec<&Arc<Run>> = self.runs.values().filter(of_view).collect();
        for id in partitioner.partitions() {
            let Some(number) = id.range.filter(|number| numbers.contains(number)) else {
                continue;
            };
            let range = id.key_range();
            if runs.iter().any(|run| !segments_in(run, &range).is_empty()) {
                numbers.remove(&number);
            }
        }
        Ok(numbers.into_iter().collect())
    }

    pub(super) fn change_partitions(
        &mut self,
        id: TableId,
        change: &PartitionChange,
        version: SchemaVersion,
        clock_micros: i64,
    ) -> Result<()> {
        let table = Arc::clone(&self.table_mut(id)?.table);
        let Repartitioned {
            table,
            partitions,
            forgotten,
        } = self.repartitioned(&table, change, version)?;
        let view = table.primary.id;
        self.define(&table, clock_micros)?;
        self.forget_ranges(id, &forgotten)?;
        match change {
            PartitionChange::Add(_) => {
                for partition in &partitions {
                    let cut = Key::new(partition.prefix());
                    let ranges = &self.table_mut(id)?.ranges;
                    let holds = |range: &&Arc<RangeState>| range.range.contains(&cut);
                    let low = ranges.iter().find(holds).map(|state| &state.range.low);
                    if let Some(low) = low.cloned().filter(|low| low.as_ref() != Some(&cut)) {
                        self.split_range(view, low.as_ref(), &cut)?;
                    }
                }
                Ok(())
            }
            PartitionChange::Drop(_) => self.empty_partitions(id, &partitions, clock_micros),
        }
    }

    /// Ranges of forgotten partitions join the ranges before them: they hold nothing.
    fn forget_ranges(&mut self, id: TableId, forgotten: &[PartitionId]) -> Result<()> {
        if forgotten.is_empty() {
            return Ok(());
        }
        let prefixes: Vec<Vec<u8>> = forgotten.iter().map(PartitionId::prefix).collect();
        let ranges = std::mem::take(&mut self.table_mut(id)?.ranges);
        let mut kept: Vec<Arc<RangeState>> = Vec::with_capacity(ranges.len());
        for state in ranges {
            let of_forgotten = |low: &Key| {
                let starts = |prefix: &Vec<u8>| low.as_bytes().starts_with(prefix);
                prefixes.iter().any(starts)
            };
            match kept.last_mut() {
                Some(before) if state.range.low.as_ref().is_some_and(of_forgotten) => {
                    Arc::make_mut(before).range.high = state.range.high.clone();
                }
                _ => kept.push(state),
            }
        }
        self.table_mut(id)?.ranges = kept;
        self.drop_unnamed(self.runs.keys().copied().collect());
        Ok(())
    }

    /// Of runs that left ranges, those go that no range names any more.
    pub(super) fn drop_unnamed(&mut self, mut left: BTreeSet<RunId>) {
        for (_, range) in self.all_ranges() {
            for entry in &range.runs {
                left.remove(&entry.id);
            }
        }
        self.runs.retain(|run, _| !left.contains(run));
    }

    /// As truncating a table, for the ranges of some partitions: an answer at the boundary itself
    /// must see the new base alone.
    fn empty_partitions(
        &mut self,
        id: TableId,
        partitions: &[PartitionId],
        clock_micros: i64,
    ) -> Result<()> {
        let boundary = self.sorted_boundary()?;
        let view = self.table_mut(id)?.table.primary.id;
        let stretches: Vec<KeyRange> = partitions.iter().map(PartitionId::key_range).collect();
        let base = self.add_empty_base(view, Span::base(boundary), boundary);
        let mut ranges = std::mem::take(&mut self.table_mut(id)?.ranges);
        for state in &mut ranges {
            if stretches.iter().any(|stretch| stretch.meets(&state.range)) {
                let state = Arc::make_mut(state);
                self.empty_range(state, boundary, clock_micros);
                state.runs.push(RunRef::current(base));
                order(&self.runs, &mut state.runs);
            }
        }
        self.table_mut(id)?.ranges = ranges;
        self.drop_unnamed(self.runs.keys().copied().collect());
        self.see_clock(clock_micros);
        Ok(())
    }

    /// All runs of a range are superseded, and none leads to the boundary any more.
    fn empty_range(&mut self, state: &mut RangeState, boundary: ScuNumber, clock_micros: i64) {
        let entries = std::mem::take(&mut state.runs);
        for entry in entries {
            let run = &self.runs[&entry.id];
            let superseded_micros = Some(entry.superseded_micros.unwrap_or(clock_micros));
            if run.changes_through == boundary {
                continue;
            }
            let id = match run.span.last == boundary {
                false => entry.id,
                true => {
                    let mut cut = Run::clone(run);
                    cut.segments = segments_in(run, &state.range).to_vec();
                    cut.id = RunId(self.next_run);
                    cut.span.last = boundary.previous();
                    self.next_run += 1;
                    let id = cut.id;
                    self.runs.insert(id, Arc::new(cut));
                    id
                }
            };
            state.runs.push(RunRef {
                id,
                superseded_micros,
            });
        }
    }
}

/// MAN-14; what is the same as in `old` was checked with it.
pub(super) fn check_partitions(new: &Manifest, old: Option<&Manifest>) -> Checked {
    for (id, state) in &new.tables {
        let same = |old: &Manifest| {
            old.tables.get(id).is_some_and(|before| {
                let stretches = before.ranges.iter().map(|range| &range.range);
                Arc::ptr_eq(before, state)
                    || Arc::ptr_eq(&before.table, &state.table)
                        && stretches.eq(state.ranges.iter().map(|range| &range.range))
            })
        };
        if old.is_some_and(same) {
            continue;
        }
        let broken = |what: String| Violation {
            invariant: "MAN-14",
            what: format!("table {:?}: {what}", state.table.name),
        };
        let partitioner = Partitioner::of(&state.table);
        let partitioner = partitioner.map_err(|error| broken(error.to_string()))?;
        for cut in partitioner.iter().flat_map(Partitioner::cuts) {
            let lows = &state.ranges;
            let found = lows.binary_search_by(|range| range.range.low.as_ref().cmp(&Some(&cut)));
            require(found.is_ok(), "MAN-14", || {
                format!(
                    "table {:?}: no range begins at partition {cut:?}",
                    state.table.name
                )
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
