//! The tables that a statement sees: the manifest's, as the session's transaction has changed them.
//!
//! ```text
//!   tables of the manifest - dropped + created    what names mean
//!   created, emptied                              of these, only the transaction's rows are read
//! ```
//!
//! Reads and writes memory only. Invariant VIS-1: every name of a statement is looked up here, so
//! that nothing sees a table which the transaction has dropped, or misses one that it has made.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_engine::manifest::{Ddl, KeyRange, Manifest, VersionStep};
use lazybase_engine::read::OwnTable;
use lazybase_model::access::{Access, AccessChange};
use lazybase_model::{Error, PartitionChange, Result, Sequence, Table, TableId};

use crate::error::unknown_table;
use crate::sequences::own::OwnSequence;
use crate::temporary::{self, Temporary};

mod plain;
mod sequences;

pub(crate) use plain::uses;
pub(crate) use sequences::SeenSequence;

/// What DDL does to one table.
#[derive(Debug, Clone)]
pub(crate) enum TableChange {
    Create(Arc<Table>),
    /// It goes on under another definition.
    Alter {
        before: Arc<Table>,
        after: Arc<Table>,
    },
    Drop(Arc<Table>),
    Truncate(Arc<Table>),
    /// A range partition begins or ends.
    Partition {
        before: Arc<Table>,
        after: Arc<Table>,
        change: PartitionChange,
        /// Where the keys of the rows lie that end.
        emptied: Vec<KeyRange>,
    },
    CreateView(Arc<Table>),
    DropView(Arc<Table>),
    CreatePlainView(Arc<Table>),
    /// It goes on under another name, query or comment.
    AlterPlainView {
        before: Arc<Table>,
        after: Arc<Table>,
    },
    DropPlainView(Arc<Table>),
    /// Who may do what.
    Access(AccessChange),
    CreateSequence(Arc<OwnSequence>),
    /// It goes on under another definition, or from elsewhere.
    AlterSequence(Arc<OwnSequence>),
    DropSequence(Arc<Sequence>),
}

impl TableChange {
    /// What is asked of the cluster.
    pub(crate) fn ddl(&self) -> Ddl {
        match self {
            TableChange::Create(table) => Ddl::Create {
                table: table.as_ref().clone(),
            },
            TableChange::Alter { before, after } => Ddl::Alter {
                base: before.version,
                table: after.as_ref().clone(),
            },
            TableChange::Drop(table) => Ddl::Drop { table: table.id },
            TableChange::Truncate(table) => Ddl::Truncate { table: table.id },
            TableChange::Partition {
                before,
                after,
                change,
                ..
            } => Ddl::Partition {
                table: after.id,
                change: change.clone(),
                versions: Some(VersionStep {
                    base: before.version,
                    next: after.version,
                }),
            },
            TableChange::CreateView(view) => Ddl::CreateView {
                view: view.as_ref().clone(),
            },
            TableChange::DropView(view) => Ddl::DropView { view: view.id },
            TableChange::CreatePlainView(view) => Ddl::CreatePlainView {
                view: view.as_ref().clone(),
            },
            TableChange::AlterPlainView { before, after } => Ddl::AlterPlainView {
                base: before.version,
                view: after.as_ref().clone(),
            },
            TableChange::DropPlainView(view) => Ddl::DropPlainView { view: view.id },
            TableChange::Access(change) => Ddl::Access {
                change: change.clone(),
            },
            TableChange::CreateSequence(own) => Ddl::CreateSequence {
                sequence: own.sequence.clone(),
                counter: own.counter().unwrap_or(own.sequence.begin()),
            },
            TableChange::AlterSequence(own) => Ddl::AlterSequence {
                sequence: own.sequence.clone(),
                counter: own.counter(),
            },
            TableChange::DropSequence(sequence) => Ddl::DropSequence {
                sequence: sequence.id,
            },
        }
    }
}

/// What a transaction has done to tables, in its order; what cancels out is left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableChanges(Vec<TableChange>);

impl TableChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What COMMIT asks for.
    pub(crate) fn ddl(&self) -> Vec<Ddl> {
        self.0.iter().map(TableChange::ddl).collect()
    }

    pub(crate) fn push(&mut self, change: TableChange) {
        match &change {
            TableChange::Create(_)
            | TableChange::Alter { .. }
            | TableChange::Partition { .. }
            | TableChange::CreateView(_)
            | TableChange::CreatePlainView(_)
            | TableChange::AlterPlainView { .. }
            | TableChange::Access(_) => {}
            TableChange::CreateSequence(_)
            | TableChange::AlterSequence(_)
            | TableChange::DropSequence(_) => return self.push_sequence(change),
            TableChange::DropPlainView(view) => {
                if self.forget_plain_view(view.id) {
                    return;
                }
            }
            TableChange::DropView(view) => {
                let before = self.0.len();
                self.0.retain(
                    |change| !matches!(change, TableChange::CreateView(made) if made.id == view.id),
                );
                if self.0.len() < before {
                    self.forget_access(view.id);
                    return;
                }
            }
            TableChange::Drop(table) => {
                let was_made = self.created().any(|made| made.id == table.id);
                self.0.retain(|change| match change {
                    TableChange::Create(of) | TableChange::Truncate(of) => of.id != table.id,
                    // What others take the name of must be renamed before it is dropped.
                    TableChange::Alter { after: of, .. }
                    | TableChange::Partition { after: of, .. } => !was_made || of.id != table.id,
                    _ => true,
                });
                if was_made {
                    self.forget_access(table.id);
                    self.drop_owned(table.id);
                    return;
                }
            }
            TableChange::Truncate(table) => {
                if self.is_emptied(table.id) {
                    return;
                }
            }
        }
        self.0.push(change);
    }

    /// What was granted on a table that is there no more, because it never was for others.
    fn forget_access(&mut self, table: TableId) {
        self.0.retain(|change| match change {
            TableChange::Access(change) => !Access::is_about(change, table),
            _ => true,
        });
    }

    /// The tables that it has changed and not dropped, each once, as it has left them: of those
    /// that it has made or emptied, only its own rows count.
    pub(crate) fn own(&self) -> Vec<OwnTable> {
        let mut own: Vec<OwnTable> = Vec::new();
        for change in &self.0 {
            let table = match change {
                TableChange::Create(table) | TableChange::Truncate(table) => table,
                TableChange::Alter { after, .. } | TableChange::Partition { after, .. } => after,
                _ => continue,
            };
            if self.has_dropped(table.id) || own.iter().any(|known| known.table.id == table.id) {
                continue;
            }
            own.push(OwnTable {
                table: self.definition(table),
                is_emptied: self.is_emptied(table.id),
                emptied: self.emptied_ranges(table.id),
            });
        }
        own
    }

    /// Where the keys of a table lie whose partitions it has dropped.
    fn emptied_ranges(&self, id: TableId) -> Vec<KeyRange> {
        let ranges = self.0.iter().filter_map(|change| match change {
            TableChange::Partition { after, emptied, .. } if after.id == id => Some(emptied),
            _ => None,
        });
        ranges.flatten().cloned().collect()
    }

    /// Whether it has made a table.
    pub(crate) fn makes(&self, id: TableId) -> bool {
        self.created().any(|table| table.id == id)
    }

    /// Whether it has made or emptied a table.
    fn is_emptied(&self, id: TableId) -> bool {
        self.0.iter().any(|change| match change {
            TableChange::Create(table) | TableChange::Truncate(table) => table.id == id,
            _ => false,
        })
    }

    /// A table's definition, as it has left it.
    fn definition(&self, table: &Arc<Table>) -> Arc<Table> {
        let newest = self.0.iter().rev().find_map(|change| match change {
            TableChange::Alter { after: of, .. } | TableChange::Partition { after: of, .. }
                if of.id == table.id =>
            {
                Some(of)
            }
            _ => None,
        });
        Arc::clone(newest.unwrap_or(table))
    }

    fn created(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.0.iter().filter_map(|change| match change {
            TableChange::Create(table) => Some(table),
            _ => None,
        })
    }

    fn created_views(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.0.iter().filter_map(|change| match change {
            TableChange::CreateView(view) => Some(view),
            _ => None,
        })
    }

    fn has_dropped_view(&self, id: TableId) -> bool {
        let mut changes = self.0.iter();
        changes.any(|change| matches!(change, TableChange::DropView(view) if view.id == id))
    }

    fn has_dropped(&self, id: TableId) -> bool {
        let mut changes = self.0.iter();
        changes.any(|change| matches!(change, TableChange::Drop(table) if table.id == id))
    }
}

/// What names mean to one statement.
#[derive(Debug, Clone)]
pub(crate) struct Visible {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) changes: TableChanges,
    /// Whose temporary tables are seen.
    pub(crate) temporary: Option<Temporary>,
}

impl Visible {
    /// The tables of a manifest as they are.
    pub(crate) fn stored(manifest: Arc<Manifest>) -> Visible {
        Visible {
            manifest,
            changes: TableChanges::default(),
            temporary: None,
        }
    }

    /// The table of a name: the session's temporary one, before others.
    pub(crate) fn table(&self, name: &str) -> Option<Arc<Table>> {
        if let Some(name) = temporary::named_in_public(name) {
            return match self.is_taken(name) {
                true => self.in_public(name),
                false => self.of_session(name),
            };
        }
        if let Some(name) = temporary::named(name) {
            return self.of_session(name);
        }
        self.of_session(name).or_else(|| self.in_public(name))
    }

    /// The session's temporary table of a name.
    fn of_session(&self, name: &str) -> Option<Arc<Table>> {
        self.temporary?;
        let mut tables = self.tables().into_iter();
        tables.find(|table| table.name == name && self.is_temporary(table.id))
    }

    /// The table of a name that is no temporary one.
    pub(crate) fn in_public(&self, name: &str) -> Option<Arc<Table>> {
        if self.changes.is_empty() {
            let table = &self.manifest.table_named(name)?.table;
            let is_seen = is_shown(table) && !temporary::is_stored(name);
            return is_seen.then(|| Arc::clone(table));
        }
        let mut tables = self.tables().into_iter();
        tables.find(|table| table.name == name && !self.is_temporary(table.id))
    }

    /// Whether a table that is no temporary one, a view of either kind, or a sequence of no
    /// temporary one, has a name.
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        self.taken_by(name).is_some()
    }

    /// What has a name, as people call it; nothing where it is free, be it but for a temporary
    /// table.
    pub(crate) fn taken_by(&self, name: &str) -> Option<&'static str> {
        let has_name = |views: Vec<Arc<Table>>| views.iter().any(|view| view.name == name);
        if self.in_public(name).is_some() {
            Some("table")
        } else if has_name(self.views()) {
            Some("materialized view")
        } else if has_name(self.plain_views()) {
            Some("view")
        } else if self.has_sequence_named(name) {
            Some("sequence")
        } else {
            None
        }
    }

    /// The names of the session's temporary tables.
    pub(crate) fn temporary_names(&self) -> BTreeSet<String> {
        let tables = self.tables().into_iter();
        let own = tables.filter(|table| self.is_temporary(table.id));
        own.map(|table| table.name.clone()).collect()
    }

    /// Whether this very definition is stored, and seen as it is: then its name means it.
    pub(crate) fn has_stored(&self, table: &Arc<Table>) -> bool {
        let stored = self.manifest.tables.get(&table.id);
        self.changes.is_empty()
            && self.temporary.is_none()
            && stored.is_some_and(|stored| Arc::ptr_eq(&stored.table, table))
    }

    /// Whether a table is a temporary one.
    pub(crate) fn is_temporary(&self, id: TableId) -> bool {
        let stored = || self.manifest.tables.get(&id).map(|state| &state.table);
        let created = self.changes.created().find(|table| table.id == id);
        let table = created.or_else(stored);
        self.temporary.is_some() && table.is_some_and(|table| temporary::is_stored(&table.name))
    }

    /// Who may do what, as the transaction has changed it. What it can't change any more, because
    /// others were quicker, is an error of its COMMIT. Until then a role that it made is nobody:
    /// another one has its number, whose rights are not the transaction's.
    pub(crate) fn access(&self) -> Arc<Access> {
        let changes = self.changes.0.iter().filter_map(|change| match change {
            TableChange::Access(change) => Some(change),
            _ => None,
        });
        let mut access = Arc::clone(&self.manifest.access);
        for change in changes {
            let mut next = Access::clone(&access);
            match (next.change(change), change) {
                (Ok(()), _) => access = Arc::new(next),
                (Err(_), AccessChange::CreateRole { role }) => {
                    Arc::make_mut(&mut access).roles.remove(&role.id);
                }
                (Err(_), _) => {}
            }
        }
        access
    }

    /// The table of an id, be it a key map.
    pub(crate) fn by_id(&self, id: TableId) -> Option<Arc<Table>> {
        let stored = self.manifest.tables.get(&id).map(|state| &state.table);
        let stored = stored.filter(|_| !self.changes.has_dropped(id));
        let created = || self.changes.created().find(|table| table.id == id);
        stored
            .or_else(created)
            .map(|table| self.changes.definition(table))
    }

    /// The table of a name.
    ///
    /// # Errors
    /// `NotFound` (42P01) when there is none, with the nearest name that there is.
    pub(crate) fn require(&self, name: &str) -> Result<Arc<Table>> {
        self.table(name).ok_or_else(|| {
            if let Some(view) = self.view(name) {
                return view_not_table(&view, self.table_of(&view));
            }
            if let Some(view) = self.plain_view(name) {
                return plain_view_not_table(&view);
            }
            let tables = self.tables();
            unknown_table(name, tables.iter().map(|table| table.name.as_str()))
        })
    }

    /// All tables, by id.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        let stored = self.manifest.tables.values().map(|state| &state.table);
        let stored = stored.filter(|table| !self.changes.has_dropped(table.id));
        let mut tables: Vec<Arc<Table>> = stored
            .chain(self.changes.created())
            .filter(|table| is_shown(table))
            .filter_map(|table| temporary::seen(self.changes.definition(table), self.temporary))
            .collect();
        tables.sort_by_key(|table| table.id);
        tables
    }

    /// All secondary views, by id.
    pub(crate) fn views(&self) -> Vec<Arc<Table>> {
        let stored = self.manifest.views.values().map(|state| &state.table);
        let there = |view: &&Arc<Table>| {
            let of_dropped = view.view_of.is_some_and(|of| self.changes.has_dropped(of));
            !of_dropped && !self.changes.has_dropped_view(view.id)
        };
        let views = stored.filter(there).chain(self.changes.created_views());
        let mut views: Vec<Arc<Table>> = views.map(|view| self.with_texts(view)).collect();
        views.sort_by_key(|view| view.id);
        views
    }

    /// A view with what its table says of texts now: a longer VARCHAR, and TEXT in the place of
    /// JSON, leave views as they are stored.
    fn with_texts(&self, view: &Arc<Table>) -> Arc<Table> {
        let mut columns = view.columns.iter();
        let table = match columns.any(|column| column.characters_max.is_some() || column.json) {
            true => view.view_of.and_then(|table| self.by_id(table)),
            false => None,
        };
        let Some(table) = table else {
            return Arc::clone(view);
        };
        let mut view = Table::clone(view);
        for column in &mut view.columns {
            if let Some(now) = table.columns.iter().find(|now| now.id == column.id) {
                column.characters_max = now.characters_max;
                column.json = now.json;
            }
        }
        Arc::new(view)
    }

    /// The secondary view of a name; a temporary table of the same name stands before it.
    pub(crate) fn view(&self, name: &str) -> Option<Arc<Table>> {
        let own_name = temporary::own_name(name);
        let view = self.views().into_iter().find(|view| view.name == own_name);
        view.filter(|_| self.table(name).is_none())
    }

    /// The table whose rows are meant where a name is read: its own, or that of its view.
    pub(crate) fn readable(&self, name: &str) -> Option<Arc<Table>> {
        let of_view = || self.table_of(&*self.view(name)?);
        self.table(name).or_else(of_view)
    }

    /// The secondary views of a table.
    pub(crate) fn views_of(&self, table: TableId) -> Vec<Arc<Table>> {
        let mut views = self.views();
        views.retain(|view| view.view_of == Some(table));
        views
    }

    /// The table whose rows a secondary view shows.
    pub(crate) fn table_of(&self, view: &Table) -> Option<Arc<Table>> {
        let mut tables = self.tables().into_iter();
        tables.find(|table| Some(table.id) == view.view_of)
    }
}

/// A view stands where a table is needed.
fn view_not_table(view: &Table, table: Option<Arc<Table>>) -> Error {
    let table = table.map_or_else(String::new, |table| format!(" {:?}", table.name));
    Error::invalid(format!("{:?} is a materialized view", view.name))
        .with_detail("its rows are those of its table, and change with them")
        .with_hint(format!("name its table{table}"))
        .with_sqlstate("42809")
}

/// A plain view stands where a table is needed.
fn plain_view_not_table(view: &Table) -> Error {
    Error::invalid(format!("{:?} is a view", view.name))
        .with_detail("its rows are those that its query gives: it can only be read")
        .with_hint("name the tables that it reads")
        .with_sqlstate("42809")
}

/// Whether a name may mean a table: key maps are seen through ID columns alone.
fn is_shown(table: &Table) -> bool {
    table.key_map.is_none()
}
