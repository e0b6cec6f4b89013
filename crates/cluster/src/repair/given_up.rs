//! What files of the manifest said that are set aside: definitions, and rows that nothing leads to
//! without them, as far as files can be read. Of the damaged one itself others tell, or nothing.
//!
//! Reads the files before they are moved, the log for batches that came with DDL, and what is left
//! at the end; writes nothing.

use std::collections::BTreeMap;

use lazybase_engine::env::Store;
use lazybase_engine::manifest::file::{Content, decode};
use lazybase_engine::manifest::{Ddl, Edit, Manifest};
use lazybase_engine::stages::ingest::{NumberedBatch, numbered_batches};
use lazybase_model::partition::PartitionChange;
use lazybase_model::{ScuNumber, Span, TableId, TableName, ViewId};

use super::Damage;

/// Stored rows by the SCU and the table that they are of.
pub(super) type Rows = BTreeMap<(ScuNumber, TableId), u64>;

/// What was given up with files of the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GivenUp {
    /// The file that the manifest is read up to, damaged or missing; none where it is read whole.
    file: Option<String>,
    /// Tables from this id on began in files that were set aside.
    next_table: u32,
    /// SCUs up to here were sealed before the edit that is looked at; later ones that DDL has for
    /// itself hold no rows.
    sealed_through: ScuNumber,
    names: BTreeMap<TableId, TableName>,
    tables: BTreeMap<ViewId, TableId>,
    definitions: Vec<Damage>,
    /// What SCUs held when they were sealed.
    sealed: Rows,
    /// What was left of them once sorted: one change a key.
    sorted: Rows,
    /// Of batches that came with DDL: without it they count for nothing.
    with_ddl: Rows,
}

impl GivenUp {
    /// Takes note of the files, the newest first, that go with one that is damaged or missing, and
    /// of the manifest before it.
    pub(super) async fn note(
        &mut self,
        store: &dyn Store,
        manifest: &Manifest,
        (damaged, files): (&str, &[String]),
    ) {
        self.file = Some(damaged.to_owned());
        self.next_table = manifest.next_table;
        self.sealed_through = manifest.sealed_through;
        for state in manifest.tables.values() {
            let table = &state.table;
            self.names.insert(table.id, table.name.clone());
            self.tables.insert(table.primary.id, table.id);
        }
        // Where the log can't be listed, the edits alone tell.
        let batches = numbered_batches(store).await.unwrap_or_default();
        for file in files.iter().rev() {
            if let Some(edit) = read_edit(store, file).await {
                self.take(file, &edit, &batches);
            }
        }
    }

    fn take(&mut self, file: &str, edit: &Edit, batches: &BTreeMap<u64, NumberedBatch>) {
        match edit {
            Edit::Transaction { ddl, batch, .. } => {
                ddl.iter().for_each(|ddl| self.take_ddl(file, ddl));
                if let Some(batch) = batch.and_then(|number| batches.get(&number)) {
                    let rows = batch.rows.iter();
                    let rows = rows.map(|(table, rows)| ((batch.scu, *table), *rows));
                    self.with_ddl.extend(rows);
                }
            }
            Edit::Seal { entry, .. } => {
                self.sealed_through = entry.scu;
                let rows = entry.tables.iter();
                let rows = rows.map(|(table, rows)| ((entry.scu, *table), *rows));
                self.sealed.extend(rows);
            }
            Edit::Sorted { scu, runs } => {
                for run in runs {
                    if let Some(table) = self.tables.get(&run.view) {
                        let rows: u64 = run.segments.iter().map(|segment| segment.rows).sum();
                        *self.sorted.entry((*scu, *table)).or_default() += rows;
                    }
                }
            }
            _ => {}
        }
    }

    fn take_ddl(&mut self, file: &str, ddl: &Ddl) {
        let mut ends_rows = false;
        let (name, what) = match ddl {
            Ddl::Create { table } => {
                self.names.insert(table.id, table.name.clone());
                self.tables.insert(table.primary.id, table.id);
                (Some(table.name.clone()), "made the table")
            }
            Ddl::Alter { table, .. } => (Some(self.name(table.id)), "changed its definition"),
            Ddl::Drop { table } => {
                self.forget(*table);
                ends_rows = true;
                (Some(self.name(*table)), "dropped the table")
            }
            Ddl::Truncate { table } => {
                self.forget(*table);
                ends_rows = true;
                (Some(self.name(*table)), "emptied the table")
            }
            Ddl::Partition { table, change, .. } => {
                ends_rows = matches!(change, PartitionChange::Drop(_));
                let what = match ends_rows {
                    true => "dropped a partition of it",
                    false => "added a partition to it",
                };
                (Some(self.name(*table)), what)
            }
            Ddl::CreateView { view } => (Some(view.name.clone()), "made the view"),
            Ddl::CreatePlainView { view } => (Some(view.name.clone()), "made the view"),
            Ddl::AlterPlainView { view, .. } => (Some(view.name.clone()), "changed the view"),
            Ddl::DropView { .. } | Ddl::DropPlainView { .. } => (None, "dropped a view"),
            Ddl::Access { .. } => (None, "changed who may do what"),
            Ddl::CreateSequence { .. } | Ddl::DropSequence { .. } => {
                (None, "made or dropped a sequence")
            }
            Ddl::AlterSequence { .. } => (None, "changed a sequence"),
        };
        // Rows of these SCUs ended then.
        let ended = Span::base(self.sealed_through);
        let scus = Some(ended).filter(|span| ends_rows && !span.is_empty());
        self.definitions.push(Damage {
            file: file.to_owned(),
            table: name,
            scus,
            keys: None,
            current: true,
            what: match scus {
                Some(_) => format!("{file}, which {what}, with its rows of these SCUs"),
                None => format!("{file}, which {what}"),
            },
        });
    }

    /// Rows of a table that ended are not missed.
    fn forget(&mut self, table: TableId) {
        self.sealed.retain(|(_, of), _| *of != table);
        self.sorted.retain(|(_, of), _| *of != table);
        self.with_ddl.retain(|(_, of), _| *of != table);
    }

    /// The name of a table, if it was there or a file that was set aside tells it.
    pub(super) fn name(&self, table: TableId) -> TableName {
        match self.names.get(&table) {
            Some(name) => name.clone(),
            None if self.file.is_some() && table.0 >= self.next_table => {
                format!("{table}, whose name is lost")
            }
            None => format!("dropped table {table}"),
        }
    }

    /// What is lost with the files, where this manifest is left, and a log that holds some rows
    /// and was cut before others, which are told already.
    pub(super) fn lost(&self, manifest: &Manifest, held: &Rows, cut: &Rows) -> Vec<Damage> {
        let Some(file) = &self.file else {
            return Vec::new();
        };
        let mut lost = self.definitions.clone();
        let mut open: Option<(TableId, Span, u64)> = None;
        let mut tell = |told: Option<(TableId, Span, u64)>| {
            lost.extend(told.map(|(table, span, rows)| Damage {
                file: file.clone(),
                table: Some(self.name(table)),
                scus: Some(span),
                keys: None,
                current: true,
                what: format!(
                    "stored rows that nothing leads to without {file} and the edits after it: \
                     {rows}"
                ),
            }));
        };
        for ((table, scu), rows) in self.lost_rows(manifest, held, cut) {
            open = match open {
                Some((of, span, sum)) if of == table && span.last.next() == scu => {
                    Some((of, Span::new(span.first, scu), sum + rows))
                }
                done => {
                    tell(done);
                    Some((table, Span::single(scu), rows))
                }
            };
        }
        tell(open);
        lost
    }

    fn lost_rows(
        &self,
        manifest: &Manifest,
        held: &Rows,
        cut: &Rows,
    ) -> BTreeMap<(TableId, ScuNumber), u64> {
        let is_gone =
            |table: &TableId| table.0 >= self.next_table && !manifest.tables.contains_key(table);
        let of = |rows: &Rows, at: &(ScuNumber, TableId)| rows.get(at).copied().unwrap_or(0);
        let mut lost = BTreeMap::new();
        for (at, rows) in &self.sealed {
            // What the log holds of a table that is gone, no reader finds.
            let there = if is_gone(&at.1) { 0 } else { of(held, at) };
            lost.insert((at.1, at.0), rows.saturating_sub(there + of(cut, at)));
        }
        for (at, rows) in held.iter().filter(|((_, table), _)| is_gone(table)) {
            lost.entry((at.1, at.0)).or_insert(*rows);
        }
        // What the log holds beside them counts, or is told above.
        for (at, rows) in &self.with_ddl {
            if !self.sealed.contains_key(at) {
                *lost.entry((at.1, at.0)).or_default() += rows;
            }
        }
        // Where the seal itself can't be read; what the manifest has sealed is looked at as ever.
        let is_sealed = |scu: ScuNumber| scu <= manifest.sealed_through;
        for (at, rows) in &self.sorted {
            if !is_sealed(at.0) && !held.contains_key(at) && !cut.contains_key(at) {
                lost.entry((at.1, at.0)).or_insert(*rows);
            }
        }
        lost.retain(|_, rows| *rows > 0);
        lost
    }
}

async fn read_edit(store: &dyn Store, file: &str) -> Option<Box<Edit>> {
    let length = store.len(file).await.ok()?;
    let bytes = store.read(file, 0..length).await.ok()?;
    match decode(file, &bytes).ok()?.1 {
        Content::Edit(edit) => Some(edit),
        Content::Checkpoint(_) => None,
    }
}
