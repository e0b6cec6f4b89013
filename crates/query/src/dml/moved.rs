//! UPDATE of columns of the key: where a row has no others, it goes to its new key without being
//! read.
//!
//! Takes the keys that a query found, and the new ones; writes deletes of the former at once, and
//! rows of the latter behind all of them. Invariant MOV-1: as many rows are written as are deleted:
//! two that would get one key are an error, and so is one that would get the key of a row that
//! stays, as far as the snapshot tells in which the query found the others.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_engine::read::Snapshot;
use lazybase_engine::stages::ingest::check_partitions;
use lazybase_engine::stages::remap::KeyedChanges;
use lazybase_model::{Error, Result, Table};

use super::sink::Sink;
use crate::changes::{deletes, upserts};
use crate::id_keys::own;
use crate::pg_catalog::key_name;
use crate::session::Shared;
use crate::transaction::check_bytes;

/// What a key that was met takes besides its own bytes: its place in the set and in memory.
const MET_BYTES: u64 = 80;

/// Whether rows of a table may go to other keys: whether all that they have are columns of the
/// key, without labels, and without numbers that others refer to.
pub(crate) fn can_move(table: &Table) -> bool {
    !table.hidden_key
        && !table.has_labels()
        && table.id_keys().next().is_none()
        && table.columns.len() == table.key_indices().len()
}

/// The rows of a statement that go to other keys.
pub(super) struct Moved<'m> {
    table: &'m Arc<Table>,
    codec: KeyCodec,
    /// The keys that rows leave.
    left: HashSet<Key>,
    /// The new keys.
    met: HashSet<Key>,
    /// The columns of the new rows, as often as some were found.
    rows: Vec<Vec<ArrayRef>>,
    bytes: u64,
}

impl<'m> Moved<'m> {
    /// No rows yet.
    ///
    /// # Errors
    /// `Invalid` for a table whose key has no order.
    pub(super) fn of(table: &'m Arc<Table>) -> Result<Moved<'m>> {
        Ok(Moved {
            table,
            codec: KeyCodec::primary(table)?,
            left: HashSet::new(),
            met: HashSet::new(),
            rows: Vec::new(),
            bytes: 0,
        })
    }

    /// Takes rows from where they are: `keys` are the key's columns in its order, `set` columns of
    /// the table with their new values.
    ///
    /// # Errors
    /// `Invalid` (23505) where a row would get the key of another one of the statement, or (23514)
    /// one that no partition takes; `Unavailable` (53200) when they take too much memory.
    pub(super) async fn take(
        &mut self,
        sink: &mut Sink,
        keys: &[ArrayRef],
        set: &[(usize, ArrayRef)],
    ) -> Result<()> {
        let new: Vec<ArrayRef> = self
            .table
            .key_indices()
            .into_iter()
            .zip(keys)
            .map(|(at, old)| {
                let given = set.iter().find(|(column, _)| *column == at);
                Arc::clone(given.map_or(old, |(_, values)| values))
            })
            .collect();
        let first_row = self.met.len() as u64 + 1;
        check_partitions(self.table, &self.in_place(new.clone()), first_row)?;
        let encoded = [
            self.codec.encode_columns(keys)?,
            self.codec.encode_columns(&new)?,
        ];
        for row in 0..encoded[0].num_rows() {
            let [left, met] = encoded
                .each_ref()
                .map(|all| Key::new(all.row(row).as_ref()));
            self.bytes += 2 * MET_BYTES + (left.as_bytes().len() + met.as_bytes().len()) as u64;
            self.left.insert(left);
            if !self.met.insert(met) {
                return Err(self.one_key());
            }
        }
        let taken = new.iter().map(|values| values.get_array_memory_size());
        self.bytes += taken.sum::<usize>() as u64;
        check_bytes(self.bytes)?;
        let old = KeyedChanges::plain(deletes(self.table, keys)?);
        sink.append_keyed(self.table, old).await?;
        self.rows.push(self.in_place(new));
        Ok(())
    }

    /// Looks whether rows have the new keys that don't go themselves, in the snapshot in which the
    /// others were found.
    ///
    /// # Errors
    /// `Invalid` (23505) where one has; what reading meets.
    pub(super) async fn check(&self, session: &Shared, snapshot: &Snapshot) -> Result<()> {
        let mut new: Vec<Key> = self.met.difference(&self.left).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        new.sort_unstable();
        let mut buffered = Box::pin(own::buffered(session, snapshot)).await?;
        let buffered = buffered.remove(&self.table.id).unwrap_or_default();
        let key = self.table.key_indices();
        let there = snapshot.get(self.table.id, &new, &key, &buffered).await?;
        match there.num_rows() {
            0 => Ok(()),
            _ => Err(Error::invalid(format!(
                "duplicate key value violates unique constraint {:?}",
                key_name(self.table)
            ))
            .with_detail("a row that the UPDATE leaves where it is has the new key")
            .with_hint("DELETE that one first")
            .with_sqlstate("23505")),
        }
    }

    /// Writes the rows under their new keys.
    pub(super) async fn finish(self, sink: &mut Sink) -> Result<()> {
        for columns in self.rows {
            let new = KeyedChanges::plain(upserts(self.table, columns)?);
            sink.append_keyed(self.table, new).await?;
        }
        Ok(())
    }

    /// Columns of the key as the table declares them.
    fn in_place(&self, new: Vec<ArrayRef>) -> Vec<ArrayRef> {
        let mut placed: Vec<(usize, ArrayRef)> =
            self.table.key_indices().into_iter().zip(new).collect();
        placed.sort_by_key(|(at, _)| *at);
        placed.into_iter().map(|(_, values)| values).collect()
    }

    fn one_key(&self) -> Error {
        Error::invalid(format!(
            "table {:?}: two rows would get the same key",
            self.table.name
        ))
        .with_detail("all columns of the table are its key, and a key has one row")
        .with_sqlstate("23505")
    }
}
