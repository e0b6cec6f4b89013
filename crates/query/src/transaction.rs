//! Transactions: one snapshot for all reads, and a buffer of changes that becomes one batch.
//!
//! ```text
//!   BEGIN -> first read pins a snapshot -> reads see it and the buffer
//!         -> writes go to the buffer    -> SAVEPOINT keeps a copy, ROLLBACK TO takes it back
//!         -> so does DDL                -> names mean what the buffer says
//!         -> COMMIT writes the buffer as one batch, together with its DDL
//! ```
//!
//! Reads and writes memory only, until COMMIT. Invariant TXN-1: an error leaves the transaction
//! failed, and nothing of it is ever written. There is no detection of conflicts, but for names:
//! a table that was made or dropped meanwhile by somebody else is an error of COMMIT, and then
//! nothing of the transaction is kept.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryBuilder, RecordBatch};
use arrow::compute::{filter_record_batch, interleave};
use lazybase_cluster::BatchWriter;
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_engine::manifest::KeyRange;
use lazybase_engine::read::{OwnChanges, Snapshot};
use lazybase_engine::schema::Adapter;
use lazybase_engine::segment::RowLayout;
use lazybase_engine::stages::remap::{KeyedChanges, MentionedKeys};
use lazybase_model::limits::TRANSACTION_BYTES_MAX;
use lazybase_model::{Error, Result, Table, TableId};

use crate::access::Identity;
use crate::advisory::TransactionLocks;
use crate::changes::{change_schema, upserts};
use crate::clauses::Clauses;
use crate::settings::Settings;
use crate::visible::{TableChange, TableChanges};

#[cfg(test)]
mod tests;

/// A transaction of one session.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) read_only: bool,
    pub(crate) failed: bool,
    /// It was opened for statements that a client sent together, and ends with them.
    pub(crate) implicit: bool,
    /// A statement of it wrote, be it no rows.
    pub(crate) wrote: bool,
    /// Pinned by the first read.
    pub(crate) snapshot: Option<Snapshot>,
    /// What the statement asked for that has pinned it, until the next one begins.
    pub(crate) pinned_by: Option<Clauses>,
    pub(crate) buffer: Buffer,
    pub(crate) savepoints: Vec<Savepoint>,
    /// How many it has set, those included that it has forgotten.
    pub(crate) savepoints_set: u64,
    /// The session's settings as they were at its beginning.
    pub(crate) before: Settings,
    /// The same as COMMIT leaves them: without what was SET LOCAL.
    pub(crate) lasting: Settings,
    /// As whom the session acted at its beginning: a role of its own goes with it.
    pub(crate) acted_as: Identity,
    /// What it has locked.
    pub(crate) locks: Option<TransactionLocks>,
}

/// What ROLLBACK TO goes back to.
#[derive(Debug)]
pub(crate) struct Savepoint {
    name: String,
    /// Counted from 1; no other one of the transaction ever has it.
    number: u64,
    buffer: Buffer,
    /// What savepoints before it keep in memory, and nothing else any more.
    kept_bytes: u64,
    wrote: bool,
    settings: Settings,
    lasting: Settings,
    acts_as: Identity,
}

impl Transaction {
    /// Keeps all as it is now, with the settings that hold now, and as whom the session acts.
    pub(crate) fn savepoint(&mut self, name: String, settings: Settings, acts_as: Identity) {
        self.savepoints_set += 1;
        self.savepoints.push(Savepoint {
            name,
            number: self.savepoints_set,
            buffer: self.buffer.clone(),
            kept_bytes: self.kept_bytes(),
            wrote: self.wrote,
            settings,
            lasting: self.lasting.clone(),
            acts_as,
        });
    }

    /// Goes back to a savepoint, which stays; gives the settings that held there, and as whom the
    /// session acted.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<(Settings, Identity)> {
        let at = self.find(name)?;
        self.savepoints.truncate(at + 1);
        let savepoint = &self.savepoints[at];
        self.buffer = savepoint.buffer.clone();
        self.wrote = savepoint.wrote;
        self.lasting = savepoint.lasting.clone();
        self.failed = false;
        Ok((savepoint.settings.clone(), savepoint.acts_as))
    }

    /// Forgets a savepoint and those after it; what was written stays.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let at = self.find(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    /// The number of the last savepoint that it has; 0 where it has none.
    pub(crate) fn last_savepoint(&self) -> u64 {
        self.savepoints.last().map_or(0, |last| last.number)
    }

    /// Does what a statement staged.
    ///
    /// # Errors
    /// `Unavailable` (53200) when the transaction would grow above its limit: it has failed then.
    pub(crate) fn apply(&mut self, staged: Vec<Staged>) -> Result<()> {
        let before = self.bytes();
        self.buffer.apply(staged)?;
        let bytes = self.bytes();
        if bytes > before {
            check_bytes(bytes).inspect_err(|_| self.failed = true)?;
        }
        Ok(())
    }

    /// What it takes in memory: its changes, and what its savepoints keep beside them.
    pub(crate) fn bytes(&self) -> u64 {
        self.buffer.bytes + self.kept_bytes()
    }

    /// What nothing but savepoints keeps: changes that were joined, or made anew, later.
    fn kept_bytes(&self) -> u64 {
        self.savepoints.last().map_or(0, |last| {
            last.kept_bytes + last.buffer.bytes_without(&self.buffer)
        })
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.savepoints
            .iter()
            .rposition(|savepoint| savepoint.name == name)
            .ok_or_else(|| {
                Error::not_found(format!("there is no savepoint {name:?}")).with_sqlstate("3B001")
            })
    }
}

/// A row of a table with a hidden key, named by the key.
pub(crate) type RowId = Vec<u8>;

/// What a statement does to the buffer, all of it or nothing.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large variant is the common one"
)]
pub(crate) enum Staged {
    Table(TableChange),
    Changes(Arc<Table>, KeyedChanges),
    /// Rows that the transaction itself inserted into a table with a hidden key.
    RemoveOwn(Arc<Table>, HashSet<RowId>),
    /// The same, with new values for some columns: one a row of the map's places.
    UpdateOwn {
        table: Arc<Table>,
        rows: HashMap<RowId, usize>,
        set: Vec<(usize, ArrayRef)>,
        /// Which of these columns the database generated.
        generated: Vec<usize>,
    },
}

/// A transaction's own changes, oldest first. Cheap to clone: arrays are shared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffer {
    /// What it did to tables.
    pub(crate) tables: TableChanges,
    entries: Vec<Entry>,
    bytes: u64,
    next_row: u64,
}

/// Changes of one table.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) table: Arc<Table>,
    pub(crate) changes: OwnChanges,
    /// The natural keys that ID columns of the changes name by their places.
    pub(crate) keys: Vec<MentionedKeys>,
    /// The columns whose values the database generated, where a producer numbers the batch.
    generated: Vec<usize>,
    /// Rows of a table with a hidden key, under keys that ingest will replace.
    own: bool,
}

/// Changes join older ones of at most so many times their rows.
const JOINED_RATIO: usize = 2;
/// Larger batches are not made by joining: a SAVEPOINT keeps what was there before.
const JOINED_ROWS_MAX: usize = 8192;
/// Nor are those of so many bytes.
const JOINED_BYTES_MAX: usize = 8 << 20;
/// So many batches of other tables may stand between those that are joined.
const JOINED_WITHIN: usize = 64;

/// The first bytes of the hidden keys of rows that are not committed: after every SCU.
const OWN_SCU: [u8; 8] = u64::MAX.to_be_bytes();

/// Whether a hidden key is of a row that the transaction itself inserted.
pub(crate) fn is_own(row: &[u8]) -> bool {
    row.starts_with(&OWN_SCU)
}

/// Refuses what a transaction can't hold.
///
/// # Errors
/// `Unavailable` (53200) above the limit.
pub(crate) fn check_bytes(bytes: u64) -> Result<()> {
    match bytes > TRANSACTION_BYTES_MAX {
        false => Ok(()),
        true => Err(
            Error::unavailable("the transaction's changes take too much memory")
                .with_detail(format!("the limit is {TRANSACTION_BYTES_MAX} bytes"))
                .with_hint("outside of a transaction, each statement is a batch of any size")
                .with_sqlstate("53200"),
        ),
    }
}

impl Buffer {
    /// Does what a statement staged, all of it or nothing.
    ///
    /// # Errors
    /// `Unavailable` (53200) when the buffer would grow above its limit.
    pub(crate) fn apply(&mut self, staged: Vec<Staged>) -> Result<()> {
        let appends = |staged: &Staged| matches!(staged, Staged::Changes(..));
        if !staged.iter().all(appends) {
            let mut changed = self.clone();
            changed.do_each(staged)?;
            if changed.bytes > self.bytes {
                check_bytes(changed.bytes)?;
            }
            *self = changed;
            return Ok(());
        }
        // Most statements append: a copy for each would make many of them slow.
        let (entries, bytes, next_row) = (self.entries.len(), self.bytes, self.next_row);
        let done = self.do_each(staged);
        match done {
            Ok(()) => {
                self.join_small();
                Ok(())
            }
            Err(error) => {
                self.entries.truncate(entries);
                (self.bytes, self.next_row) = (bytes, next_row);
                Err(error)
            }
        }
    }

    fn do_each(&mut self, staged: Vec<Staged>) -> Result<()> {
        for staged in staged {
            match staged {
                Staged::Table(change) => self.change_table(change)?,
                Staged::Changes(table, changes) => self.push(table, changes)?,
                Staged::RemoveOwn(table, rows) => {
                    self.remove_own(table.id, &rows)?;
                    self.count_bytes();
                }
                Staged::UpdateOwn {
                    table,
                    rows,
                    set,
                    generated,
                } => {
                    self.update_own(table.id, &rows, &set, &generated)?;
                    self.count_bytes();
                }
            }
        }
        Ok(())
    }

    /// Rows that were written before a table is dropped or emptied go with those that are stored;
    /// those written before it is altered are rows of its new definition from here on.
    fn change_table(&mut self, change: TableChange) -> Result<()> {
        match &change {
            TableChange::Create(_)
            | TableChange::CreateView(_)
            | TableChange::DropView(_)
            | TableChange::CreatePlainView(_)
            | TableChange::AlterPlainView { .. }
            | TableChange::DropPlainView(_)
            | TableChange::CreateSequence(_)
            | TableChange::AlterSequence(_)
            | TableChange::DropSequence(_)
            | TableChange::Access(_) => {}
            TableChange::Alter { after, .. } => {
                let layout = RowLayout::primary(after)?;
                for entry in &mut self.entries {
                    if entry.table.id == after.id {
                        let changes = entry.changes.changes().clone();
                        entry.changes = Adapter::under(&entry.table, &layout, changes)?.into();
                        entry.table = Arc::clone(after);
                        // Its columns may have moved; nothing with DDL has a number.
                        entry.generated.clear();
                    }
                }
            }
            TableChange::Drop(table) | TableChange::Truncate(table) => {
                self.entries.retain(|entry| entry.table.id != table.id);
            }
            TableChange::Partition { after, emptied, .. } => {
                self.remove_keys(after, emptied)?;
            }
        }
        self.count_bytes();
        self.tables.push(change);
        Ok(())
    }

    fn count_bytes(&mut self) {
        let entries = self.entries.iter();
        let bytes = entries.map(|entry| entry.changes.changes().memory_bytes() as u64);
        self.bytes = bytes.sum();
    }

    /// What columns take of which a buffer that came of this one has none any more.
    fn bytes_without(&self, later: &Buffer) -> u64 {
        // Mostly, entries were added at the end.
        let both = self.entries.iter().zip(&later.entries);
        let same = both.take_while(|(one, other)| one.has_columns_of(other));
        let same = same.count();
        let there = later.entries[same..].iter().flat_map(Entry::columns);
        let there: HashSet<*const ()> = there.map(place).collect();
        let gone = self.entries[same..].iter().map(|entry| {
            let columns = entry.columns();
            let gone: Vec<&ArrayRef> = columns
                .iter()
                .filter(|column| !there.contains(&place(column)))
                .collect();
            match gone.len() == columns.len() {
                true => entry.changes.changes().memory_bytes(),
                false => gone.iter().map(|gone| gone.get_array_memory_size()).sum(),
            }
        });
        gone.map(|bytes| bytes as u64).sum()
    }

    /// Rows of a table whose keys lie in these ranges go; the others are of its new definition.
    fn remove_keys(&mut self, table: &Arc<Table>, ranges: &[KeyRange]) -> Result<()> {
        let codec = KeyCodec::primary(table)?;
        let entries = std::mem::take(&mut self.entries);
        for mut entry in entries {
            if entry.table.id != table.id {
                self.entries.push(entry);
                continue;
            }
            entry.table = Arc::clone(table);
            let changes = entry.changes.changes();
            let keys = codec.encode(&changes.data)?;
            let stays = |row: &usize| {
                let key = Key::new(keys.row(*row).as_ref());
                !ranges.iter().any(|range| range.contains(&key))
            };
            let rows: Vec<usize> = (0..changes.rows()).filter(stays).collect();
            for stretch in rows.chunk_by(|row, next| row + 1 == *next) {
                self.entries.push(Entry {
                    changes: changes.slice(stretch[0], stretch.len()).into(),
                    ..entry.clone()
                });
            }
        }
        Ok(())
    }

    fn push(&mut self, table: Arc<Table>, keyed: KeyedChanges) -> Result<()> {
        let KeyedChanges {
            changes,
            keys,
            generated,
        } = keyed;
        let own = table.hidden_key && changes.data.num_columns() == table.written_columns();
        let changes = match own {
            true => self.with_row_ids(&table, changes)?,
            false => changes,
        };
        let bytes = self.bytes + changes.memory_bytes() as u64;
        check_bytes(bytes)?;
        self.bytes = bytes;
        self.entries.push(Entry {
            table,
            changes: changes.into(),
            keys,
            generated,
            own,
        });
        Ok(())
    }

    /// The rows with keys of their own, so that the transaction's reads can tell them apart.
    fn with_row_ids(&mut self, table: &Table, changes: ChangeBatch) -> Result<ChangeBatch> {
        let rows = changes.rows();
        let mut ids = FixedSizeBinaryBuilder::with_capacity(rows, 16);
        for _ in 0..rows {
            let id = [OWN_SCU, self.next_row.to_be_bytes()].concat();
            ids.append_value(id).expect("a hidden key has 16 bytes");
            self.next_row += 1;
        }
        let mut columns = changes.data.columns().to_vec();
        columns.push(Arc::new(ids.finish()));
        upserts(table, columns)
    }

    fn remove_own(&mut self, table: TableId, rows: &HashSet<RowId>) -> Result<()> {
        for entry in self.own_entries(table) {
            let data = &entry.changes.changes().data;
            let kept: BooleanArray = ids(data).map(|id| Some(!rows.contains(id))).collect();
            let data = filter_record_batch(data, &kept)
                .map_err(|error| Error::internal(error.to_string()))?;
            entry.changes = upserts(&entry.table, data.columns().to_vec())?.into();
        }
        self.entries
            .retain(|entry| entry.changes.changes().rows() > 0);
        Ok(())
    }

    fn update_own(
        &mut self,
        table: TableId,
        rows: &HashMap<RowId, usize>,
        set: &[(usize, ArrayRef)],
        generated: &[usize],
    ) -> Result<()> {
        for entry in self.own_entries(table) {
            let data = &entry.changes.changes().data;
            let order: Vec<(usize, usize)> = ids(data)
                .enumerate()
                .map(|(at, id)| rows.get(id).map_or((0, at), |place| (1, *place)))
                .collect();
            let mut columns = data.columns().to_vec();
            for (column, values) in set {
                columns[*column] =
                    interleave(&[columns[*column].as_ref(), values.as_ref()], &order)
                        .map_err(|error| Error::internal(error.to_string()))?;
            }
            entry.changes = upserts(&entry.table, columns)?.into();
            // What some rows have from the database counts for none of those written with them.
            for at in generated {
                if !entry.generated.contains(at) {
                    entry.generated.push(*at);
                }
            }
        }
        Ok(())
    }

    fn own_entries(&mut self, table: TableId) -> impl Iterator<Item = &mut Entry> {
        self.entries
            .iter_mut()
            .filter(move |entry| entry.own && entry.table.id == table)
    }

    /// Joins the newest changes with those of their table before them as long as these are not
    /// many times as many: so any number of statements leaves few batches, and each row is copied
    /// a logarithmic number of times. Those that name natural keys stay as they are.
    fn join_small(&mut self) {
        while let Some((older, newer)) = self.joinable() {
            let both = [older, newer].map(|at| self.entries[at].changes.changes());
            let before: usize = both.iter().map(|changes| changes.memory_bytes()).sum();
            // What can't be joined is read as it is.
            let Ok(changes) = ChangeBatch::concat(&both) else {
                return;
            };
            let after = changes.memory_bytes();
            self.bytes = (self.bytes + after as u64).saturating_sub(before as u64);
            self.entries[older].changes = changes.into();
            self.entries.remove(newer);
        }
    }

    /// The newest changes and those that they join, if they do.
    fn joinable(&self) -> Option<(usize, usize)> {
        let (newest, before) = self.entries.split_last()?;
        let plain = before.iter().enumerate().rev().take(JOINED_WITHIN);
        let mut plain = plain.take_while(|(_, entry)| entry.keys.is_empty());
        let (at, older) = plain.find(|(_, entry)| entry.table.id == newest.table.id)?;
        let [one, other] = [older, newest].map(|entry| entry.changes.changes());
        let alike = newest.keys.is_empty()
            && older.own == newest.own
            && older.table.version == newest.table.version
            && older.generated == newest.generated
            && one.data.schema() == other.data.schema();
        let small = one.rows() <= JOINED_RATIO * other.rows()
            && one.rows() + other.rows() <= JOINED_ROWS_MAX
            && one.memory_bytes() + other.memory_bytes() <= JOINED_BYTES_MAX;
        (alike && small).then_some((at, before.len()))
    }

    /// All changes, oldest first.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.tables.is_empty()
    }

    /// Gives everything to a batch, in its order.
    pub(crate) async fn write(self, writer: &mut BatchWriter) -> Result<()> {
        for entry in self.entries {
            let changes = match entry.own {
                true => without_row_ids(&entry.table, &entry.changes.changes().data)?,
                false => entry.changes.changes().clone(),
            };
            let keyed = KeyedChanges {
                changes,
                keys: entry.keys,
                generated: entry.generated,
            };
            writer.append_keyed(&entry.table, keyed).await?;
        }
        Ok(())
    }
}

impl Entry {
    fn columns(&self) -> &[ArrayRef] {
        self.changes.changes().data.columns()
    }

    /// Whether its columns are those of another one, in memory.
    fn has_columns_of(&self, other: &Entry) -> bool {
        let mut both = self.columns().iter().zip(other.columns());
        self.columns().len() == other.columns().len()
            && both.all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

/// Where a column lies in memory.
fn place(column: &ArrayRef) -> *const () {
    Arc::as_ptr(column).cast()
}

/// The rows without their keys: ingest gives the ones that stay.
fn without_row_ids(table: &Table, data: &RecordBatch) -> Result<ChangeBatch> {
    let written = table.written_columns();
    debug_assert_eq!(data.schema(), change_schema(table, table.columns.len()));
    upserts(table, data.columns()[..written].to_vec())
}

fn ids(data: &RecordBatch) -> impl Iterator<Item = &[u8]> {
    let ids = data.column(data.num_columns() - 1).as_fixed_size_binary();
    (0..ids.len()).map(|row| ids.value(row))
}
