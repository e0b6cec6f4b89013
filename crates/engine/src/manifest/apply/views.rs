//! Edits of secondary views. A view ends at a boundary of its own, the same in all its ranges, and
//! comes to a newer one by an edit that adds the changes of its entries between the two. What
//! reads it there takes the later changes from its table.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_model::table::Table;
use lazybase_model::{
    Column, ColumnId, Error, LabelRole, PartitionChange, Result, ScuNumber, Span, TableId, ViewId,
};

use super::{join, order};
use crate::manifest::state::{KeyRange, Manifest, RangeState, Run, RunKind, RunRef, TableState};

/// What there is.
impl Manifest {
    /// A secondary view by its name.
    pub fn view_named(&self, name: &str) -> Option<&Arc<TableState>> {
        self.views.values().find(|state| state.table.name == name)
    }

    /// The secondary views of a table.
    pub fn views_of(&self, table: TableId) -> impl Iterator<Item = &Arc<TableState>> {
        let of = move |state: &&Arc<TableState>| state.table.view_of == Some(table);
        self.views.values().filter(of)
    }

    /// Whether a view is a secondary one.
    pub fn is_view(&self, view: ViewId) -> bool {
        let mut views = self.views.values();
        views.any(|state| state.table.primary.id == view)
    }

    /// The boundary that the current runs of a secondary view end at, in all its ranges.
    pub fn view_end(&self, view: &TableState) -> ScuNumber {
        let ends = view.ranges.iter().filter_map(|range| {
            let current = range.runs.iter().filter(|entry| entry.is_current());
            current
                .filter_map(|entry| self.runs.get(&entry.id))
                .map(|run| run.span.last)
                .max()
        });
        ends.min().unwrap_or(ScuNumber::ZERO)
    }

    /// Whether a table, a view or a sequence has this name.
    pub fn is_named(&self, name: &str) -> bool {
        self.table_named(name).is_some()
            || self.view_named(name).is_some()
            || self.sequence_named(name).is_some()
            || self.plain_view_named(name).is_some()
    }

    /// The secondary views of the tables whose primary views `which` chooses.
    pub(super) fn views_on(&self, which: impl Fn(ViewId) -> bool) -> BTreeSet<ViewId> {
        let chosen = |state: &&Arc<TableState>| {
            let table = state
                .table
                .view_of
                .and_then(|table| self.tables.get(&table));
            table.is_some_and(|table| which(table.table.primary.id))
        };
        let views = self.views.values().filter(chosen);
        views.map(|state| state.table.primary.id).collect()
    }
}

/// What happens to them.
impl Manifest {
    pub(super) fn create_view(&mut self, view: &Table) -> Result<()> {
        if self.is_named(&view.name) {
            let message = format!("{:?} exists already", view.name);
            return Err(Error::conflict(message).with_sqlstate("42P07"));
        }
        let table = view.view_of.and_then(|table| self.tables.get(&table));
        let Some(table) = table else {
            let message = format!("the table of view {:?} is gone", view.name);
            return Err(Error::not_found(message).with_sqlstate("42P01"));
        };
        check_definition(&table.table, view)?;
        self.take_ids(view)?;
        let state = TableState {
            table: Arc::new(view.clone()),
            older: Vec::new(),
            created_after: ScuNumber::ZERO,
            ranges: Vec::new(),
        };
        self.views.insert(view.id, Arc::new(state));
        self.reset_view(view.primary.id)
    }

    pub(super) fn drop_view(&mut self, id: TableId) -> Result<()> {
        let Some(state) = self.views.remove(&id) else {
            return Err(Error::not_found(format!("view {id} is gone")).with_sqlstate("42P01"));
        };
        let view = state.table.primary.id;
        self.runs.retain(|_, run| run.view != view);
        self.forget_access(id);
        Ok(())
    }

    /// A table and its views are emptied at the same boundary.
    pub(super) fn truncate_all(&mut self, id: TableId, clock_micros: i64) -> Result<()> {
        let views: Vec<TableId> = self.views_of(id).map(|state| state.table.id).collect();
        self.truncate_table(id, clock_micros)?;
        for view in views {
            self.truncate_table(view, clock_micros)?;
        }
        Ok(())
    }

    /// The rows of a partition that ends are still in the views: they begin again from nothing.
    pub(super) fn reset_views_of(
        &mut self,
        table: TableId,
        change: &PartitionChange,
    ) -> Result<()> {
        if matches!(change, PartitionChange::Add(_)) {
            return Ok(());
        }
        let views = self.views_of(table).map(|state| state.table.primary.id);
        let views: Vec<ViewId> = views.collect();
        views.into_iter().try_for_each(|view| self.reset_view(view))
    }

    /// The view holds nothing: that is exact up to the boundary at which its table began.
    pub(super) fn reset_view(&mut self, view: ViewId) -> Result<()> {
        let table = self.state_mut(view)?.table.view_of;
        let began = table.and_then(|table| self.tables.get(&table));
        let began = began.map_or(ScuNumber::ZERO, |table| table.created_after);
        self.runs.retain(|_, run| run.view != view);
        let span = Span::base(began.min(self.sorted_through));
        let base = self.add_empty_base(view, span, ScuNumber::ZERO);
        let state = self.state_mut(view)?;
        state.created_after = ScuNumber::ZERO;
        state.ranges = vec![Arc::new(RangeState {
            range: KeyRange::default(),
            runs: vec![RunRef::current(base)],
        })];
        Ok(())
    }

    pub(super) fn advanced(
        &mut self,
        view: ViewId,
        (from, to): (ScuNumber, ScuNumber),
        runs: &[Run],
        whole: bool,
    ) -> Result<()> {
        let state = self.state_mut(view)?.clone();
        let end = self.view_end(&state);
        if end != from || to <= from || to > self.sorted_through || state.table.view_of.is_none() {
            let message = format!("{view} ends at {end}, and can't go from {from} to {to}");
            return Err(Error::conflict(message));
        }
        if whole {
            self.state_mut(view)?.created_after = to.previous();
        }
        if runs.is_empty() {
            for run in self.runs.values_mut() {
                if run.view == view && run.span.last == from {
                    Arc::make_mut(run).span.last = to;
                }
            }
            return Ok(());
        }
        for (run, part) in runs.iter().zip(0..) {
            let fits = run.kind == RunKind::Sorted
                && run.view == view
                && run.span == Span::new(from.next(), to)
                && run.changes_through == to
                && run.part == part;
            if !fits {
                let message = format!("{} does not bring {view} from {from} to {to}", run.id);
                return Err(Error::internal(message));
            }
            self.take_run_id(run.id)?;
            self.runs.insert(run.id, Arc::new(run.clone()));
        }
        let mut ranges = state.ranges;
        for range in &mut ranges {
            let entries = &mut Arc::make_mut(range).runs;
            for run in runs {
                join(&self.runs, entries, RunRef::current(run.id));
            }
            order(&self.runs, entries);
        }
        self.state_mut(view)?.ranges = ranges;
        Ok(())
    }
}

/// Whether a view's rows are rows of its table: MAN-15 says so of every manifest.
fn check_definition(table: &Table, view: &Table) -> Result<()> {
    match view_fits(table, view) {
        true => Ok(()),
        false => Err(Error::conflict(format!(
            "table {:?} changed while view {:?} was being made",
            table.name, view.name
        ))
        .with_sqlstate("40001")),
    }
}

/// Whether a view's columns are its table's, with the labels of what it shows, and its key holds
/// the table's.
pub(crate) fn view_fits(table: &Table, view: &Table) -> bool {
    let same = |column: &Column| {
        let mut columns = table.columns.iter();
        columns.any(|of| {
            of.id == column.id && of.data_type == column.data_type && of.label == column.label
        })
    };
    let shows = |id: ColumnId| view.columns.iter().any(|column| column.id == id);
    let labelled = |label: &Column| match label.label {
        Some(LabelRole::OfRows) => shows(label.id),
        Some(LabelRole::OfCells(cells)) => shows(label.id) || !shows(cells),
        Some(LabelRole::In(_)) | None => true,
    };
    let key = |id: &ColumnId| view.primary.key.contains(id);
    view.columns.iter().all(same)
        && table.columns.iter().all(labelled)
        && table.primary.key.iter().all(key)
}

/// Whether a view's columns have the names that they have in the table.
pub(crate) fn has_names_of(table: &Table, view: &Table) -> bool {
    view.columns.iter().all(|column| {
        let mut columns = table.columns.iter();
        columns.any(|of| of.id == column.id && of.name == column.name)
    })
}
