//! Who may do what, as edits change it. What was granted on a table, a view or a column goes with
//! it.

use std::sync::Arc;

use lazybase_model::access::{Access, AccessChange, Object};
use lazybase_model::table::Table;
use lazybase_model::{ColumnId, Error, Result, SequenceId, TableId};

use crate::manifest::state::Manifest;

impl Manifest {
    pub(super) fn change_access(&mut self, change: &AccessChange) -> Result<()> {
        let (table, column) = match change {
            AccessChange::Grant { on, .. } | AccessChange::Revoke { on, .. } => match on {
                Object::Database => (None, None),
                Object::Table(table) => (Some(*table), None),
                Object::Column(table, column) => (Some(*table), Some(*column)),
            },
            AccessChange::Own { table, .. } | AccessChange::Option { table, .. } => {
                (Some(*table), None)
            }
            _ => (None, None),
        };
        if let Some(table) = table.filter(|table| !self.has(*table, column)) {
            let message = format!("table {table}, or its column, is gone");
            return Err(Error::not_found(message).with_sqlstate("42P01"));
        }
        let mut access = Access::clone(&self.access);
        access.change(change)?;
        self.access = Arc::new(access);
        Ok(())
    }

    /// Whether there is a table, a view or a sequence of this id, with this column.
    pub(in crate::manifest) fn has(&self, table: TableId, column: Option<ColumnId>) -> bool {
        if column.is_none() && self.sequences.contains_key(&SequenceId(table.0)) {
            return true;
        }
        let kept = self.state_of(table).map(|state| &state.table);
        let found = kept.or_else(|| self.plain_views.get(&table));
        found.is_some_and(|table| {
            let mut columns = table.columns.iter();
            column.is_none_or(|id| columns.any(|column| column.id == id))
        })
    }

    /// Forgets what was granted on what is not there.
    pub(in crate::manifest) fn prune_access(&mut self) {
        let mut access = Access::clone(&self.access);
        for table in self.access.objects.keys() {
            match self.has(*table, None) {
                true => access.forget_columns(*table, |column| self.has(*table, Some(column))),
                false => access.forget_table(*table),
            }
        }
        self.access = Arc::new(access);
    }

    pub(super) fn forget_access(&mut self, table: TableId) {
        if self.access.objects.contains_key(&table) {
            Arc::make_mut(&mut self.access).forget_table(table);
        }
    }

    pub(super) fn forget_columns(&mut self, table: &Table) {
        if self.access.objects.contains_key(&table.id) {
            let is_there = |id| table.columns.iter().any(|column| column.id == id);
            Arc::make_mut(&mut self.access).forget_columns(table.id, is_there);
        }
    }
}
