//! Edits of plain views: queries under names, of which nothing is kept but their definitions.
//!
//! What such a query names is kept by ids, so a change of names changes no view; what it reads must
//! be there as long as the view is (MAN-20). DDL in the middle of a transaction may leave one
//! without what it reads, if the transaction drops it too.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_model::table::Table;
use lazybase_model::{Error, Result, SchemaVersion, TableId, UsedTable};

use crate::manifest::state::Manifest;

/// What there is.
impl Manifest {
    /// A plain view by its name.
    pub fn plain_view_named(&self, name: &str) -> Option<&Arc<Table>> {
        self.plain_views.values().find(|view| view.name == name)
    }

    /// The first of what a plain view reads that is not there, or lacks a column that it reads.
    pub fn missing_for<'v>(&self, view: &'v Table) -> Option<&'v UsedTable> {
        let mut uses = view.query.iter().flat_map(|query| &query.uses);
        uses.find(|used| {
            let mut read = used.columns.iter().filter(|column| column.read);
            !self.has(used.table, None) || read.any(|column| !self.has(used.table, Some(column.id)))
        })
    }

    /// Whether a plain view is among what it reads, be it through others.
    pub fn reads_itself(&self, view: TableId) -> bool {
        let mut known = BTreeSet::new();
        let mut next = vec![view];
        while let Some(reader) = next.pop() {
            let query = self.plain_views.get(&reader);
            let query = query.and_then(|view| view.query.as_ref());
            for used in query.into_iter().flat_map(|query| &query.uses) {
                if used.table == view {
                    return true;
                }
                if known.insert(used.table) {
                    next.push(used.table);
                }
            }
        }
        false
    }
}

/// What happens to them.
impl Manifest {
    pub(super) fn create_plain_view(&mut self, view: &Table) -> Result<()> {
        if self.is_named(&view.name) {
            let message = format!("{:?} exists already", view.name);
            return Err(Error::conflict(message).with_sqlstate("42P07"));
        }
        self.take_ids(view)?;
        self.plain_views.insert(view.id, Arc::new(view.clone()));
        Ok(())
    }

    /// The view goes on under another name, query or comment.
    pub(super) fn alter_plain_view(&mut self, base: SchemaVersion, view: &Table) -> Result<()> {
        let Some(before) = self.plain_views.get(&view.id) else {
            return Err(view_gone(view.id));
        };
        if before.version != base || view.version <= base {
            let message = format!("view {:?} was changed by another session", before.name);
            return Err(Error::conflict(message).with_sqlstate("40001"));
        }
        if before.name != view.name && self.is_named(&view.name) {
            let message = format!("{:?} exists already", view.name);
            return Err(Error::conflict(message).with_sqlstate("42P07"));
        }
        self.plain_views.insert(view.id, Arc::new(view.clone()));
        match self.reads_itself(view.id) {
            false => Ok(()),
            true => Err(Error::conflict(format!(
                "view {:?} would read itself, through views that were changed meanwhile",
                view.name
            ))
            .with_sqlstate("40001")),
        }
    }

    pub(super) fn drop_plain_view(&mut self, id: TableId) -> Result<()> {
        if self.plain_views.remove(&id).is_none() {
            return Err(view_gone(id));
        }
        self.forget_access(id);
        Ok(())
    }

    /// Leaves out the plain views that read what is not there, and those that read these.
    pub fn prune_plain_views(&mut self) {
        loop {
            let views = self.plain_views.values();
            let lacking = views.filter(|view| self.missing_for(view).is_some());
            let lacking: Vec<TableId> = lacking.map(|view| view.id).collect();
            if lacking.is_empty() {
                return;
            }
            for view in lacking {
                self.plain_views.remove(&view);
                self.forget_access(view);
            }
        }
    }
}

fn view_gone(view: TableId) -> Error {
    Error::not_found(format!("view {view} is gone")).with_sqlstate("42P01")
}
