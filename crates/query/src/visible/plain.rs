//! Plain views as a statement sees them, what they read, and what reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::{Table, TableId, UsedTable};

use super::{TableChange, TableChanges, Visible};
use crate::temporary;

impl TableChanges {
    fn created_plain_views(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.0.iter().filter_map(|change| match change {
            TableChange::CreatePlainView(view) => Some(view),
            _ => None,
        })
    }

    fn has_dropped_plain_view(&self, id: TableId) -> bool {
        let mut changes = self.0.iter();
        changes.any(|change| matches!(change, TableChange::DropPlainView(view) if view.id == id))
    }

    /// A plain view's definition, as the transaction has left it.
    fn plain_definition(&self, view: &Arc<Table>) -> Arc<Table> {
        let newest = self.0.iter().rev().find_map(|change| match change {
            TableChange::AlterPlainView { after, .. } if after.id == view.id => Some(after),
            _ => None,
        });
        Arc::clone(newest.unwrap_or(view))
    }

    /// Forgets a plain view that the transaction itself has made; whether it has.
    pub(super) fn forget_plain_view(&mut self, id: TableId) -> bool {
        let was_made = self.created_plain_views().any(|view| view.id == id);
        if was_made {
            self.0.retain(|change| match change {
                TableChange::CreatePlainView(view)
                | TableChange::AlterPlainView { after: view, .. } => view.id != id,
                _ => true,
            });
            self.forget_access(id);
        }
        was_made
    }
}

/// What a plain view reads.
pub(crate) fn uses(view: &Table) -> impl Iterator<Item = &UsedTable> {
    view.query.iter().flat_map(|query| &query.uses)
}

impl Visible {
    /// All plain views, by id.
    pub(crate) fn plain_views(&self) -> Vec<Arc<Table>> {
        let stored = self.manifest.plain_views.values();
        let views = stored.chain(self.changes.created_plain_views());
        let views = views.filter(|view| !self.changes.has_dropped_plain_view(view.id));
        let mut views: Vec<_> = views
            .map(|view| self.changes.plain_definition(view))
            .collect();
        views.sort_by_key(|view| view.id);
        views
    }

    /// Whether there are any.
    pub(crate) fn has_plain_views(&self) -> bool {
        !self.manifest.plain_views.is_empty() || self.changes.created_plain_views().next().is_some()
    }

    /// The plain view of a name; a temporary table of the same name stands before it.
    pub(crate) fn plain_view(&self, name: &str) -> Option<Arc<Table>> {
        if !self.has_plain_views() {
            return None;
        }
        let own_name = temporary::own_name(name);
        let mut views = self.plain_views().into_iter();
        let view = views.find(|view| view.name == own_name);
        view.filter(|_| self.table(name).is_none())
    }

    /// The table, the secondary view or the plain view of a name.
    pub(crate) fn relation(&self, name: &str) -> Option<Arc<Table>> {
        let of_view = || self.view(name).or_else(|| self.plain_view(name));
        self.table(name).or_else(of_view)
    }

    /// All tables, and behind them all views of both kinds.
    pub(crate) fn relations(&self) -> Vec<Arc<Table>> {
        let mut all = self.tables();
        all.extend(self.views());
        all.extend(self.plain_views());
        all
    }

    /// The table, the secondary view or the plain view of an id.
    pub(crate) fn relation_of(&self, id: TableId) -> Option<Arc<Table>> {
        let find = |views: Vec<Arc<Table>>| views.into_iter().find(|view| view.id == id);
        let of_view = || find(self.views()).or_else(|| find(self.plain_views()));
        self.by_id(id).or_else(of_view)
    }

    /// The tables whose rows a plain view reads, be it through other views, each once.
    pub(crate) fn tables_below(&self, view: &Table) -> Vec<Arc<Table>> {
        let mut tables = BTreeMap::new();
        let mut known = BTreeSet::new();
        let mut next: Vec<TableId> = uses(view).map(|used| used.table).collect();
        while let Some(id) = next.pop() {
            if !known.insert(id) {
                continue;
            }
            match self.relation_of(id) {
                Some(table) if table.query.is_some() => {
                    next.extend(uses(&table).map(|used| used.table));
                }
                Some(table) => match table.view_of {
                    Some(of) => next.push(of),
                    None => drop(tables.insert(id, table)),
                },
                None => {}
            }
        }
        tables.into_values().collect()
    }

    /// Plain views, each behind those that it reads, and once. Where a transaction has given one
    /// another query, and another session meanwhile those that it reads, views may read each other
    /// in a circle, which COMMIT would refuse: then one of them stands before what it reads.
    pub(crate) fn with_read_before(&self, views: &[Arc<Table>]) -> Vec<Arc<Table>> {
        let all = self.plain_views();
        let (mut met, mut ordered) = (BTreeSet::new(), Vec::new());
        for view in views {
            place(view, &all, &mut met, &mut ordered);
        }
        ordered
    }

    /// The plain views that read one of some things, be it through others of them.
    pub(crate) fn readers_of(&self, ids: impl IntoIterator<Item = TableId>) -> Vec<Arc<Table>> {
        if !self.has_plain_views() {
            return Vec::new();
        }
        let all = self.plain_views();
        let mut read: BTreeSet<TableId> = ids.into_iter().collect();
        let mut readers: Vec<Arc<Table>> = Vec::new();
        loop {
            let is_new = |view: &&Arc<Table>| {
                !readers.iter().any(|known| known.id == view.id)
                    && uses(view).any(|used| read.contains(&used.table))
            };
            let found: Vec<Arc<Table>> = all.iter().filter(is_new).cloned().collect();
            if found.is_empty() {
                return readers;
            }
            read.extend(found.iter().map(|view| view.id));
            readers.extend(found);
        }
    }
}

fn place(
    view: &Arc<Table>,
    all: &[Arc<Table>],
    met: &mut BTreeSet<TableId>,
    ordered: &mut Vec<Arc<Table>>,
) {
    if !met.insert(view.id) {
        return;
    }
    for used in uses(view) {
        if let Some(read) = all.iter().find(|other| other.id == used.table) {
            place(read, all, met, ordered);
        }
    }
    ordered.push(Arc::clone(view));
}
