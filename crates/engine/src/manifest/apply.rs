//! `Manifest::apply`: the manifest after one edit; pure, so that replaying the log gives the same
//! value on every machine.
//!
//! An edit that can't be applied changes nothing. Its error is `Conflict` when the world has moved
//! on since the edit was made (a merge whose inputs were superseded meanwhile: drop the attempt),
//! `NotFound` when its table, view or range is gone, and `Internal` when it could never have been
//! right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::access::{AccessChange, RoleId};
use lazybase_model::table::Table;
use lazybase_model::{
    DatabaseId, Error, NextIds, Result, SchemaVersion, ScuNumber, Span, TableId, ViewId,
};

use super::edit::{Ddl, Edit, HealedRun, RetiredRun, VersionStep};
use super::history::ScuHistory;
use super::partitions::first_ranges;
use super::state::{
    DdlBatch, KeyRange, Manifest, OlderTable, ProducerMark, RangeState, Run, RunId, RunKind,
    RunRef, ScuEntry, ScuTime, TableState,
};
use crate::key::Key;
use crate::schema::check_succession;

mod access;
mod merges;
mod plain_views;
mod sequences;
mod views;

use merges::{joined_span, share_segments};
pub(crate) use views::{has_names_of, view_fits};

impl Manifest {
    /// The manifest after [`Edit::Create`]: number 1, nothing in it.
    pub fn created(database: DatabaseId, clock_micros: i64) -> Manifest {
        Manifest {
            number: 1,
            database,
            epoch: 0,
            clock_micros,
            next_table: 1,
            next_view: 1,
            next_run: 1,
            sealed_through: ScuNumber::ZERO,
            sorted_through: ScuNumber::ZERO,
            last_remapped: ScuNumber::ZERO,
            next_ids: BTreeMap::new(),
            ddl_batch: None,
            access: Arc::default(),
            tables: BTreeMap::new(),
            views: BTreeMap::new(),
            sequences: BTreeMap::new(),
            plain_views: BTreeMap::new(),
            scus: BTreeMap::new(),
            times: BTreeMap::new(),
            history: ScuHistory::default(),
            runs: BTreeMap::new(),
            producers: BTreeMap::new(),
        }
    }

    /// The manifest that the first edit of a database makes.
    ///
    /// # Errors
    /// `Internal` when that edit is not [`Edit::Create`].
    pub fn first(edit: &Edit) -> Result<Manifest> {
        match edit {
            Edit::Create {
                database,
                clock_micros,
            } => Ok(Manifest::created(*database, *clock_micros)),
            _ => Err(Error::internal(format!(
                "a database begins with create, not with {}",
                edit.name()
            ))),
        }
    }

    /// The manifest after `edit`.
    ///
    /// # Errors
    /// `Conflict` or `NotFound` when the edit came too late, `Internal` when it is wrong.
    pub fn apply(&self, edit: &Edit) -> Result<Manifest> {
        self.clone().into_next(edit)
    }

    /// The manifest after `edit`, in place of this one: replaying many edits copies nothing.
    ///
    /// # Errors
    /// As [`Manifest::apply`].
    pub fn into_next(mut self, edit: &Edit) -> Result<Manifest> {
        self.number += 1;
        match self.change(edit) {
            Ok(()) => Ok(self),
            Err(error) => Err(error.within(format_args!("edit {} ({})", self.number, edit.name()))),
        }
    }

    fn change(&mut self, edit: &Edit) -> Result<()> {
        match edit {
            Edit::Create { .. } => Err(Error::internal("the database exists already")),
            Edit::Barrier {
                epoch,
                clock_micros,
            } => self.raise_epoch(*epoch, *clock_micros),
            Edit::Transaction {
                ddl,
                batch,
                own_scu,
                clock_micros,
            } => {
                if *own_scu {
                    self.seal_alone(*clock_micros)?;
                }
                self.transaction(ddl, *batch, *clock_micros)
            }
            Edit::CreateTable { table } => self.create_table(table),
            Edit::DropTable { table } => self.drop_table(*table),
            Edit::TruncateTable {
                table,
                clock_micros,
            } => self.truncate_all(*table, *clock_micros),
            Edit::Seal {
                entry,
                time,
                producers,
            } => self.seal(entry, *time, producers),
            Edit::Remapped { through, next_ids } => self.remapped(*through, next_ids),
            Edit::Sorted { scu, runs } => self.sorted(*scu, runs),
            Edit::Merged {
                view,
                low,
                inputs,
                output,
                clock_micros,
            } => {
                let moment = *clock_micros;
                self.merged(*view, low.as_ref(), inputs, output.clone(), moment)
            }
            Edit::SplitRange { view, low, at } => self.split_range(*view, low.as_ref(), at),
            Edit::Retire {
                runs,
                scus,
                times_before,
            } => self.retire(runs, scus, *times_before),
            Edit::ArchiveTimes { file, replaces } => self.history.adopt(file, *replaces),
            Edit::OpenProducer { name, epoch, owner } => self.open_producer(name, *epoch, *owner),
            Edit::Heal { runs } => self.heal(runs),
            Edit::ReserveNumbers { sequence, through } => self.reserve(*sequence, *through),
            Edit::SetSequence { sequence, counter } => self.set_sequence(*sequence, *counter),
            Edit::Advanced {
                view,
                from,
                to,
                runs,
                whole,
            } => self.advanced(*view, (*from, *to), runs, *whole),
            Edit::ResetView { view } => self.reset_view(*view),
        }
    }

    fn raise_epoch(&mut self, epoch: u64, clock_micros: i64) -> Result<()> {
        if epoch <= self.epoch {
            let message = format!("epoch {epoch} does not come after {}", self.epoch);
            return Err(Error::conflict(message));
        }
        self.epoch = epoch;
        self.see_clock(clock_micros);
        Ok(())
    }

    pub(super) fn see_clock(&mut self, clock_micros: i64) {
        self.clock_micros = self.clock_micros.max(clock_micros);
    }
}

/// Tables.
impl Manifest {
    fn transaction(&mut self, ddl: &[Ddl], batch: Option<u64>, clock_micros: i64) -> Result<()> {
        let next = self.sealed_through.next();
        if self.ddl_batch.is_some_and(|known| known.scu >= next) {
            let message = format!("SCU {next} holds a batch already, but is not sealed");
            return Err(Error::internal(message));
        }
        for ddl in ddl {
            match ddl {
                Ddl::Create { table } => self.create_table(table)?,
                Ddl::Drop { table } => self.drop_table(*table)?,
                Ddl::Alter { base, table } => self.alter_table(*base, table, clock_micros)?,
                Ddl::Truncate { table } => self.truncate_all(*table, clock_micros)?,
                Ddl::Partition {
                    table,
                    change,
                    versions,
                } => {
                    let version = self.next_version(*table, *versions)?;
                    self.change_partitions(*table, change, version, clock_micros)?;
                    self.reset_views_of(*table, change)?;
                }
                Ddl::CreateView { view } => self.create_view(view)?,
                Ddl::DropView { view } => self.drop_view(*view)?,
                Ddl::CreatePlainView { view } => self.create_plain_view(view)?,
                Ddl::AlterPlainView { base, view } => self.alter_plain_view(*base, view)?,
                Ddl::DropPlainView { view } => self.drop_plain_view(*view)?,
                Ddl::Access { change } => self.change_access(change)?,
                Ddl::CreateSequence { sequence, counter } => {
                    self.create_sequence(sequence, *counter)?;
                }
                Ddl::AlterSequence { sequence, counter } => {
                    self.alter_sequence(sequence, *counter)?;
                }
                Ddl::DropSequence { sequence } => self.drop_sequence(*sequence)?,
            }
        }
        if let Some(number) = batch {
            self.ddl_batch = Some(DdlBatch { scu: next, number });
        }
        self.see_clock(clock_micros);
        Ok(())
    }

    fn create_table(&mut self, table: &Table) -> Result<()> {
        if self.is_named(&table.name) {
            let message = format!("table {:?} exists already", table.name);
            return Err(Error::conflict(message).with_sqlstate("42P07"));
        }
        let view = table.primary.id;
        // Ids are given out when a table is defined, and its transaction may take long: another
        // one with higher ids may have been quicker.
        self.take_ids(table)?;
        // SCUs that are sealed but not sorted know nothing of the table: sorting them extends its
        // base, as any run of a view that they leave alone.
        let base = self.add_empty_base(view, Span::base(self.sorted_through), ScuNumber::ZERO);
        let range = |range| RangeState {
            range,
            runs: vec![RunRef::current(base)],
        };
        let ranges = first_ranges(table)?.into_iter().map(range).map(Arc::new);
        let state = TableState {
            table: Arc::new(table.clone()),
            older: Vec::new(),
            created_after: self.sealed_through,
            ranges: ranges.collect(),
        };
        self.tables.insert(table.id, Arc::new(state));
        Ok(())
    }

    /// The ids of a new table or view are its own from here on.
    fn take_ids(&mut self, table: &Table) -> Result<()> {
        let (id, view) = (table.id, table.primary.id);
        if self.has(id, None) || self.table_of_view(view).is_some() {
            let message = format!("the ids {id} and {view} are in use");
            return Err(Error::conflict(message));
        }
        self.next_table = self.next_table.max(id.0 + 1);
        self.next_view = self.next_view.max(view.0 + 1);
        Ok(())
    }

    pub(super) fn add_empty_base(
        &mut self,
        view: ViewId,
        span: Span,
        changes_through: ScuNumber,
    ) -> RunId {
        let id = RunId(self.next_run);
        self.next_run += 1;
        let base = Run {
            id,
            view,
            kind: RunKind::Base,
            span,
            changes_through,
            segments: Vec::new(),
            part: 0,
        };
        self.runs.insert(id, Arc::new(base));
        id
    }

    pub(super) fn table_mut(&mut self, id: TableId) -> Result<&mut TableState> {
        let state = match self.tables.get_mut(&id) {
            Some(state) => Some(state),
            None => self.views.get_mut(&id),
        };
        match state {
            Some(state) => Ok(Arc::make_mut(state)),
            None => Err(Error::not_found(format!("table {id} is gone"))),
        }
    }

    fn drop_table(&mut self, id: TableId) -> Result<()> {
        let view = self.table_mut(id)?.table.primary.id;
        let views: Vec<TableId> = self.views_of(id).map(|state| state.table.id).collect();
        for view in views {
            self.drop_view(view)?;
        }
        self.tables.remove(&id);
        self.forget_owned(id, |_| true);
        self.forget_access(id);
        self.forget_next_ids();
        self.runs.retain(|_, run| run.view != view);
        Ok(())
    }

    /// Batches after the boundary are written under the new definition. That before stays known,
    /// unless no batch can have been written under it.
    fn alter_table(&mut self, base: SchemaVersion, table: &Table, clock_micros: i64) -> Result<()> {
        let named = self.table_named(&table.name);
        let is_other = named.is_some_and(|state| state.table.id != table.id);
        let of_sequence = self.sequence_named(&table.name).is_some();
        if is_other || of_sequence || self.plain_view_named(&table.name).is_some() {
            let message = format!("table {:?} exists already", table.name);
            return Err(Error::conflict(message).with_sqlstate("42P07"));
        }
        let next = table.version;
        self.next_version(table.id, Some(VersionStep { base, next }))?;
        let before = Arc::clone(&self.table_mut(table.id)?.table);
        check_succession(&before, table)?;
        // Partitions have DDL of their own: a transaction may know them by other numbers.
        let mut table = table.clone();
        table.partitioning.clone_from(&before.partitioning);
        self.define(&table, clock_micros)
    }

    /// The version that a table gets, if it has the one that it is changed from.
    fn next_version(&mut self, id: TableId, step: Option<VersionStep>) -> Result<SchemaVersion> {
        let table = &self.table_mut(id)?.table;
        match step {
            None => Ok(SchemaVersion(table.version.0 + 1)),
            Some(step) if step.base == table.version && step.base < step.next => Ok(step.next),
            Some(_) => {
                let message = format!("table {:?} was changed by another session", table.name);
                Err(Error::conflict(message).with_sqlstate("40001"))
            }
        }
    }

    /// Gives a table its next definition.
    pub(super) fn define(&mut self, table: &Table, clock_micros: i64) -> Result<()> {
        let boundary = self.sealed_through;
        let state = self.table_mut(table.id)?;
        let newest = state
            .older
            .last()
            .map_or(state.created_after, |older| older.through);
        let before = std::mem::replace(&mut state.table, Arc::new(table.clone()));
        if newest < boundary {
            state.older.push(OlderTable {
                through: boundary,
                until_micros: clock_micros,
                table: before,
            });
        }
        self.forget_columns(table);
        let is_there = |id| table.columns.iter().any(|column| column.id == id);
        self.forget_owned(table.id, |column| !is_there(column));
        Ok(())
    }

    /// Earlier definitions go that neither a horizon nor a log which is kept can ask for. The
    /// oldest horizon ends right before the first SCU whose time is known.
    fn forget_definitions(&mut self) {
        let horizon = self.times.first_key_value().map(|(scu, _)| scu.previous());
        let log = self.scus.first_key_value().map(|(scu, _)| *scu);
        let oldest = horizon.into_iter().chain(log).min();
        let oldest = oldest.unwrap_or(self.sealed_through.next());
        for state in self.tables.values_mut() {
            if state.older.iter().any(|older| older.through < oldest) {
                let state = Arc::make_mut(state);
                state.older.retain(|older| oldest <= older.through);
            }
        }
    }

    /// The boundary that everything sealed is sorted to: what empties views begins there.
    pub(super) fn sorted_boundary(&self) -> Result<ScuNumber> {
        let (boundary, sorted) = (self.sealed_through, self.sorted_through);
        match sorted == boundary {
            true => Ok(boundary),
            false => Err(Error::conflict(format!(
                "SCUs up to {boundary} are sealed, but sorted only to {sorted}"
            ))),
        }
    }

    /// An answer at the boundary itself must see the new base alone, so older runs end before it:
    /// those that changed something there go, those that did not are cut by one SCU.
    fn truncate_table(&mut self, id: TableId, clock_micros: i64) -> Result<()> {
        let boundary = self.sorted_boundary()?;
        let view = self.table_mut(id)?.table.primary.id;
        let mut gone = BTreeSet::new();
        for run in self.runs.values_mut().filter(|run| run.view == view) {
            if run.changes_through == boundary {
                gone.insert(run.id);
            } else if run.span.last == boundary {
                Arc::make_mut(run).span.last = boundary.previous();
            }
        }
        let base = self.add_empty_base(view, Span::base(boundary), boundary);
        let runs = std::mem::take(&mut self.runs);
        for range in &mut self.table_mut(id)?.ranges {
            let range = Arc::make_mut(range);
            range.runs.retain(|entry| !gone.contains(&entry.id));
            for entry in &mut range.runs {
                entry.superseded_micros.get_or_insert(clock_micros);
            }
            range.runs.push(RunRef::current(base));
            order(&runs, &mut range.runs);
        }
        self.runs = runs;
        self.runs.retain(|run, _| !gone.contains(run));
        self.see_clock(clock_micros);
        Ok(())
    }
}

/// The pipeline.
impl Manifest {
    fn seal(
        &mut self,
        entry: &ScuEntry,
        time: ScuTime,
        producers: &BTreeMap<String, ProducerMark>,
    ) -> Result<()> {
        let expected = self.sealed_through.next();
        if entry.scu != expected {
            let message = format!("SCU {} is sealed where {expected} is next", entry.scu);
            return Err(Error::conflict(message));
        }
        self.sealed_through = entry.scu;
        self.scus.insert(entry.scu, Arc::new(entry.clone()));
        self.times.insert(entry.scu, time);
        self.see_clock(time.last_ack_micros);
        for (name, mark) in producers {
            let epoch = self.producers.get(name).map_or(0, |old| old.epoch);
            let mark = ProducerMark {
                // A newer session may have opened while the SCU was open.
                epoch: mark.epoch.max(epoch),
                ..mark.clone()
            };
            self.producers.insert(name.clone(), mark);
        }
        Ok(())
    }

    /// An SCU without batches, sealed and sorted at once: a transaction has it for itself.
    fn seal_alone(&mut self, clock_micros: i64) -> Result<()> {
        let scu = self.sorted_boundary()?.next();
        let newest = self.times.values().next_back();
        let moment = newest.map_or(i64::MIN, |time| time.last_ack_micros);
        let time = ScuTime {
            first_ack_micros: clock_micros.max(moment),
            last_ack_micros: clock_micros.max(moment),
            batches_through: newest.map_or(0, |time| time.batches_through),
        };
        self.seal(&ScuEntry::without_batches(scu), time, &BTreeMap::new())?;
        self.sorted(scu, &[])
    }

    fn remapped(
        &mut self,
        through: ScuNumber,
        next_ids: &BTreeMap<ScuNumber, BTreeMap<TableId, NextIds>>,
    ) -> Result<()> {
        let known = self.remapped_through();
        let outside = next_ids.keys().any(|scu| *scu <= known || *scu > through);
        if through <= known || through > self.sealed_through || outside {
            let message = format!("SCUs up to {through} are remapped, known is {known}");
            return Err(Error::conflict(message));
        }
        for (scu, of_maps) in next_ids {
            let there = (of_maps.iter()).filter(|(map, _)| self.is_key_map(**map));
            let there = there.map(|(map, next)| (*map, next.clone())).collect();
            self.next_ids.insert(*scu, there);
        }
        self.last_remapped = through;
        Ok(())
    }

    /// Forgets next numbers that no SCU whose log is kept begins with, and those of maps that are
    /// gone.
    fn forget_next_ids(&mut self) {
        let kept = self.scus.keys().next().copied();
        let oldest = kept.unwrap_or(self.sealed_through.next());
        let mut known: BTreeSet<TableId> = BTreeSet::new();
        let maps = self
            .tables
            .values()
            .filter(|state| state.table.key_map.is_some());
        let maps: BTreeSet<TableId> = maps.map(|state| state.table.id).collect();
        for (scu, of_maps) in self.next_ids.iter_mut().rev() {
            of_maps.retain(|map, _| maps.contains(map) && (*scu >= oldest || known.insert(*map)));
        }
        self.next_ids.retain(|_, of_maps| !of_maps.is_empty());
    }

    fn sorted(&mut self, scu: ScuNumber, runs: &[Run]) -> Result<()> {
        let remapped = self.remapped_through();
        if scu > remapped {
            let message = format!("SCU {scu} is sorted, but remapped are those through {remapped}");
            return Err(Error::conflict(message));
        }
        let expected = self.sorted_through.next();
        if scu != expected || scu > self.sealed_through {
            let message = format!("SCU {scu} is sorted where {expected} is next");
            let sealed = format!("SCUs up to {} are sealed", self.sealed_through);
            return Err(Error::conflict(message).with_detail(sealed));
        }
        let mut touched: BTreeMap<ViewId, Vec<RunRef>> = BTreeMap::new();
        for run in runs {
            let alone = run.kind == RunKind::Sorted
                && run.span == Span::single(scu)
                && run.changes_through == scu;
            if !alone {
                let message = format!("{} is not a sorted run of SCU {scu} alone", run.id);
                return Err(Error::internal(message));
            }
            self.take_run_id(run.id)?;
            if self.is_view(run.view) {
                let message = format!("{} is of the secondary view {}", run.id, run.view);
                return Err(Error::internal(message));
            }
            if self.table_of_view(run.view).is_some() {
                self.runs.insert(run.id, Arc::new(run.clone()));
                let parts = touched.entry(run.view).or_default();
                parts.push(RunRef::current(run.id));
            } else if run.view.0 >= self.next_view {
                let message = format!("{} is of {}, which never was", run.id, run.view);
                return Err(Error::internal(message));
            }
            // The table was dropped while its rows were sorted: they go with it.
        }
        self.extend_untouched(scu, &touched);
        let (tables, runs) = (&mut self.tables, &self.runs);
        for state in tables.values_mut() {
            if let Some(parts) = touched.get(&state.table.primary.id) {
                for range in &mut Arc::make_mut(state).ranges {
                    let entries = &mut Arc::make_mut(range).runs;
                    parts.iter().for_each(|part| join(runs, entries, *part));
                }
            }
        }
        self.sorted_through = scu;
        Ok(())
    }

    /// A view with nothing in an SCU is extended by it: all that ended right before it, superseded
    /// or not, can also end right after it.
    /// Secondary views are touched with their tables: they follow later.
    fn extend_untouched(&mut self, scu: ScuNumber, touched: &BTreeMap<ViewId, Vec<RunRef>>) {
        let lagging = self.views_on(|primary| touched.contains_key(&primary));
        for run in self.runs.values_mut() {
            let is_touched = touched.contains_key(&run.view) || lagging.contains(&run.view);
            if run.span.last == scu.previous() && !is_touched {
                Arc::make_mut(run).span.last = scu;
            }
        }
    }

    fn take_run_id(&mut self, id: RunId) -> Result<()> {
        if id.0 < self.next_run {
            return Err(Error::conflict(format!("{id} was given out before")));
        }
        self.next_run = id.0 + 1;
        Ok(())
    }

    fn state_mut(&mut self, view: ViewId) -> Result<&mut TableState> {
        let states = self.tables.values_mut().chain(self.views.values_mut());
        let mut states = states.filter(|state| state.table.primary.id == view);
        match states.next() {
            Some(state) => Ok(Arc::make_mut(state)),
            None => Err(Error::not_found(format!("{view} is gone"))),
        }
    }

    pub(super) fn range_mut(&mut self, view: ViewId, low: Option<&Key>) -> Result<&mut RangeState> {
        let state = self.state_mut(view)?;
        let ranges = &mut state.ranges;
        match ranges.binary_search_by(|range| range.range.low.as_ref().cmp(&low)) {
            Ok(at) => Ok(Arc::make_mut(&mut ranges[at])),
            Err(_) => {
                let message = format!("no key range of {view} begins at {low:?}");
                Err(Error::not_found(message))
            }
        }
    }

    fn merged(
        &mut self,
        view: ViewId,
        low: Option<&Key>,
        inputs: &[RunId],
        mut output: Run,
        clock_micros: i64,
    ) -> Result<()> {
        self.take_run_id(output.id)?;
        let current: BTreeSet<RunId> = self
            .range_mut(view, low)?
            .runs
            .iter()
            .filter(|entry| entry.is_current())
            .map(|entry| entry.id)
            .collect();
        if let Some(input) = inputs.iter().find(|input| !current.contains(*input)) {
            let message = format!("{input} is no longer current in its range of {view}");
            return Err(Error::conflict(message));
        }
        let joined: Vec<&Arc<Run>> = inputs.iter().map(|input| &self.runs[input]).collect();
        output.span = joined_span(&joined, &output)?;
        share_segments(&joined, &mut output);
        let id = output.id;
        self.runs.insert(id, Arc::new(output));
        let mut entries = std::mem::take(&mut self.range_mut(view, low)?.runs);
        for entry in &mut entries {
            if inputs.contains(&entry.id) {
                entry.superseded_micros = Some(clock_micros);
            }
        }
        join(&self.runs, &mut entries, RunRef::current(id));
        self.range_mut(view, low)?.runs = entries;
        self.see_clock(clock_micros);
        Ok(())
    }

    pub(super) fn split_range(&mut self, view: ViewId, low: Option<&Key>, at: &Key) -> Result<()> {
        let left = self.range_mut(view, low)?;
        if !left.range.contains(at) || left.range.low.as_ref() == Some(at) {
            let message = format!("{at:?} does not cut {}", left.range);
            return Err(Error::internal(message));
        }
        let right = RangeState {
            range: KeyRange {
                low: Some(at.clone()),
                high: left.range.high.replace(at.clone()),
            },
            runs: left.runs.clone(),
        };
        let ranges = &mut self.state_mut(view)?.ranges;
        let place = ranges.partition_point(|range| range.range.low < right.range.low);
        ranges.insert(place, Arc::new(right));
        Ok(())
    }
}

/// Keeping and forgetting.
impl Manifest {
    fn retire(
        &mut self,
        runs: &[RetiredRun],
        scus: &[ScuNumber],
        times_before: ScuNumber,
    ) -> Result<()> {
        for RetiredRun { view, low, run } in runs {
            let range = self.range_mut(*view, low.as_ref())?;
            let place = range.runs.iter().position(|entry| entry.id == *run);
            match place {
                Some(at) if !range.runs[at].is_current() => range.runs.remove(at),
                _ => {
                    let message = format!("{run} is not superseded in its range of {view}");
                    return Err(Error::conflict(message));
                }
            };
        }
        self.drop_unnamed(runs.iter().map(|retired| retired.run).collect());
        for scu in scus {
            if *scu > self.sorted_through || self.scus.remove(scu).is_none() {
                let message = format!("the log of SCU {scu} is needed, or forgotten already");
                return Err(Error::conflict(message));
            }
        }
        self.forget_next_ids();
        let last_before = self.times.range(..times_before).next_back();
        if let Some(keep_from) = last_before.map(|(scu, _)| *scu) {
            let kept = self.times.split_off(&keep_from);
            for (scu, time) in std::mem::replace(&mut self.times, kept) {
                self.history.push(scu, time)?;
            }
        }
        self.forget_definitions();
        Ok(())
    }

    fn open_producer(&mut self, name: &str, epoch: u64, owner: Option<RoleId>) -> Result<()> {
        let mark = self.producers.entry(name.to_owned());
        let mark = mark.or_insert(ProducerMark {
            number: 0,
            content_hash: 0,
            scu: ScuNumber::ZERO,
            batches: 0,
            epoch: 0,
        });
        if epoch <= mark.epoch {
            let message = format!("producer {name:?} has a newer session");
            let epochs = format!("its epoch is {}, not {epoch}", mark.epoch);
            return Err(Error::conflict(message).with_detail(epochs));
        }
        mark.epoch = epoch;
        match owner.filter(|_| !self.access.producers.contains_key(name)) {
            None => Ok(()),
            owner => self.change_access(&AccessChange::Producer {
                name: name.to_owned(),
                owner,
            }),
        }
    }

    fn heal(&mut self, healed: &[HealedRun]) -> Result<()> {
        for HealedRun { run: id, segments } in healed {
            let Some(run) = self.runs.get_mut(id) else {
                return Err(Error::not_found(format!("{id} is gone")));
            };
            Arc::make_mut(run).segments.clone_from(segments);
        }
        Ok(())
    }
}

/// Puts a range's entries into the order of their runs.
pub(super) fn order(runs: &BTreeMap<RunId, Arc<Run>>, entries: &mut [RunRef]) {
    entries.sort_by_key(|entry| runs[&entry.id].order());
}

/// Adds an entry to a range's, which are in order: most often it is the last.
fn join(runs: &BTreeMap<RunId, Arc<Run>>, entries: &mut Vec<RunRef>, new: RunRef) {
    let place = runs[&new.id].order();
    let after = entries
        .iter()
        .rev()
        .take_while(|entry| runs[&entry.id].order() > place)
        .count();
    entries.insert(entries.len() - after, new);
}

#[cfg(test)]
mod tests;
