//! Where the changes of one statement go, to rows and to tables: a transaction of its own, or the
//! session's buffer.
//!
//! Invariant SNK-1: a statement that fails leaves nothing: a batch that is dropped is rolled
//! back, and what is staged reaches the buffer only at the end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::filter;
use lazybase_cluster::{BatchNumber, BatchWriter, Instance};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::manifest::Ddl;
use lazybase_engine::stages::remap::{KeyedChanges, MentionedKeys};
use lazybase_model::{Error, Result, Table, Token};

use crate::changes::{deletes, updates};
use crate::session::Shared;
use crate::transaction::{RowId, Staged, is_own};
use crate::visible::TableChange;

/// Takes the changes of one statement.
#[expect(clippy::large_enum_variant, reason = "there is one a statement")]
pub(crate) enum Sink {
    Batch {
        instance: Instance,
        /// What happens to tables, together with the batch.
        ddl: Vec<Ddl>,
        /// Begun by the first changes.
        writer: Option<BatchWriter>,
        /// What a producer calls the batch.
        number: Option<BatchNumber>,
    },
    Transaction(Vec<Staged>),
}

impl Sink {
    /// The transaction's buffer, if there is a transaction; a batch otherwise.
    pub(crate) fn of(session: &Shared) -> Sink {
        let state = session.state.lock();
        match state.transaction.is_some() {
            true => Sink::Transaction(Vec::new()),
            false => Sink::Batch {
                instance: session.instance().clone(),
                ddl: Vec::new(),
                writer: None,
                number: state.batch_number(),
            },
        }
    }

    /// Does something to a table; what is appended later is for the table as it is then.
    pub(crate) fn change_table(&mut self, change: TableChange) {
        match self {
            Sink::Batch { ddl, .. } => ddl.push(change.ddl()),
            Sink::Transaction(staged) => staged.push(Staged::Table(change)),
        }
    }

    pub(crate) async fn append(&mut self, table: &Arc<Table>, changes: ChangeBatch) -> Result<()> {
        self.append_keyed(table, KeyedChanges::plain(changes)).await
    }

    /// The same with natural keys.
    pub(crate) async fn append_keyed(
        &mut self,
        table: &Arc<Table>,
        changes: KeyedChanges,
    ) -> Result<()> {
        if changes.changes.rows() == 0 {
            return Ok(());
        }
        match self {
            Sink::Batch {
                instance,
                writer,
                number,
                ..
            } => {
                let writer = writer.get_or_insert_with(|| instance.begin(number.take()));
                writer.append_keyed(table, changes).await
            }
            Sink::Transaction(staged) => {
                staged.push(Staged::Changes(Arc::clone(table), changes));
                Ok(())
            }
        }
    }

    /// Deletes the rows of keys.
    pub(crate) async fn delete(&mut self, table: &Arc<Table>, keys: &[ArrayRef]) -> Result<()> {
        let keys = match (&mut *self, table.hidden_key) {
            (Sink::Transaction(staged), true) => {
                let own: HashSet<RowId> = own_rows(&keys[0]).map(|(_, id)| id).collect();
                let stored = stored_rows(&keys[0]);
                staged.push(Staged::RemoveOwn(Arc::clone(table), own));
                vec![kept(&keys[0], &stored)?]
            }
            _ => keys.to_vec(),
        };
        self.append(table, deletes(table, &keys)?).await
    }

    /// Sets columns of the rows of keys.
    pub(crate) async fn update(
        &mut self,
        table: &Arc<Table>,
        keys: &[ArrayRef],
        set: &[(usize, ArrayRef)],
        mentioned: Vec<MentionedKeys>,
    ) -> Result<()> {
        let changes = match (&mut *self, table.hidden_key) {
            (Sink::Transaction(staged), true) => {
                let own: HashMap<RowId, usize> =
                    own_rows(&keys[0]).map(|(row, id)| (id, row)).collect();
                staged.push(Staged::UpdateOwn(Arc::clone(table), own, set.to_vec()));
                let stored = stored_rows(&keys[0]);
                let set: Result<Vec<(usize, ArrayRef)>> = set
                    .iter()
                    .map(|(column, values)| Ok((*column, kept(values, &stored)?)))
                    .collect();
                updates(table, &[kept(&keys[0], &stored)?], &set?)?
            }
            _ => updates(table, keys, set)?,
        };
        let keys = mentioned;
        self.append_keyed(table, KeyedChanges { changes, keys })
            .await
    }

    /// Commits the batch, or hands what is staged to the transaction.
    pub(crate) async fn finish(self, session: &Shared) -> Result<Option<Token>> {
        match self {
            Sink::Batch { ddl, writer, .. } => session.write(ddl, writer).await,
            Sink::Transaction(staged) => {
                let mut state = session.state.lock();
                let transaction = state.transaction.as_mut().ok_or_else(|| {
                    Error::internal("a transaction ended while its statement ran")
                })?;
                // A buffer that grew too large must not keep half of a statement.
                let mut buffer = transaction.buffer.clone();
                buffer.apply(staged)?;
                transaction.buffer = buffer;
                Ok(None)
            }
        }
    }
}

/// Rows that the transaction itself inserted, with their places.
fn own_rows(ids: &ArrayRef) -> impl Iterator<Item = (usize, RowId)> {
    let ids = ids.as_fixed_size_binary();
    (0..ids.len())
        .filter(|row| is_own(ids.value(*row)))
        .map(|row| (row, ids.value(row).to_vec()))
}

/// Which rows are stored already.
fn stored_rows(ids: &ArrayRef) -> BooleanArray {
    let ids = ids.as_fixed_size_binary();
    (0..ids.len())
        .map(|row| Some(!is_own(ids.value(row))))
        .collect()
}

fn kept(values: &ArrayRef, rows: &BooleanArray) -> Result<ArrayRef> {
    filter(values, rows).map_err(|error| Error::internal(error.to_string()))
}
