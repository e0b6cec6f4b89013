//! Where the changes of one statement go, to rows and to tables: a transaction of its own, or the
//! session's buffer. It asks the session's gate for each table that is changed.
//!
//! Invariant SNK-1: a statement that fails leaves nothing: a batch that is dropped is rolled
//! back, and what is staged reaches the buffer only at the end.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::filter;
use lazybase_cluster::{BatchNumber, BatchWriter, Instance, Unchanged};
use lazybase_engine::manifest::Ddl;
use lazybase_engine::stages::remap::{KeyedChanges, MentionedKeys};
use lazybase_model::access::{Access, AccessChange, Object, Privilege, RoleId};
use lazybase_model::sequence::SequenceOwner;
use lazybase_model::{Error, Result, Sequence, Table, TableId, Token};

use super::returning::Returning;
use crate::access::Gate;
use crate::changes::{deletes, labelled, updates};
use crate::sequences::own::OwnSequence;
use crate::session::Shared;
use crate::temporary;
use crate::transaction::{RowId, Staged, check_bytes, is_own};
use crate::visible::{TableChange, Visible};

/// Takes the changes of one statement.
pub(crate) struct Sink {
    to: Destination,
    gate: Gate,
    /// What the session sees before the statement.
    visible: Visible,
    /// Whose tables are that the statement makes.
    creator: Option<RoleId>,
    /// Tables whose rows the gate lets the statement write.
    permitted: BTreeSet<TableId>,
    /// Tables that the statement makes.
    made: BTreeSet<TableId>,
    /// Whether a producer numbers the batch that the changes are a part of.
    numbered: bool,
    /// What an INSERT tells of the rows that it writes.
    pub(crate) returning: Option<Box<Returning>>,
}

/// Where changes go.
#[expect(clippy::large_enum_variant, reason = "there is one a statement")]
enum Destination {
    Batch {
        instance: Instance,
        /// What happens to tables, together with the batch.
        ddl: Vec<Ddl>,
        /// Begun by the first changes.
        writer: Option<BatchWriter>,
        /// What a producer calls the batch.
        number: Option<BatchNumber>,
        /// What it was made of, where that must be the same still.
        unchanged: Option<Unchanged>,
    },
    Transaction {
        staged: Vec<Staged>,
        /// What the transaction holds in memory, with what is staged.
        bytes: u64,
    },
}

impl Sink {
    /// The transaction's buffer, if there is a transaction; a batch otherwise.
    pub(crate) fn of(session: &Shared) -> Sink {
        let (gate, visible) = (session.gate_now(), session.visible());
        let state = session.state.lock();
        let to = match &state.transaction {
            Some(transaction) => Destination::Transaction {
                staged: Vec::new(),
                bytes: transaction.bytes(),
            },
            None => Destination::Batch {
                instance: session.instance().clone(),
                ddl: Vec::new(),
                writer: None,
                number: state.batch_number(),
                unchanged: None,
            },
        };
        Sink {
            to,
            gate,
            visible,
            creator: state.identity.current,
            permitted: BTreeSet::new(),
            made: BTreeSet::new(),
            numbered: state.settings.batch_number.is_some(),
            returning: None,
        }
    }

    /// Whether a producer numbers the batch that the changes are a part of.
    pub(crate) fn is_numbered(&self) -> bool {
        self.numbered
    }

    /// Whether anything happens to tables.
    pub(crate) fn changes_tables(&self) -> bool {
        matches!(&self.to, Destination::Batch { ddl, .. } if !ddl.is_empty())
    }

    /// Whether the changes go to the transaction's buffer.
    pub(crate) fn in_transaction(&self) -> bool {
        matches!(self.to, Destination::Transaction { .. })
    }

    /// Whether the statement makes the table itself.
    pub(crate) fn makes(&self, table: TableId) -> bool {
        self.made.contains(&table)
    }

    /// Asks the gate whether columns of a table's rows may be written, or its rows deleted; rows
    /// that nobody asked for are not written (GATE-1).
    ///
    /// # Errors
    /// `Invalid` (42501) if not.
    pub(crate) fn permit(
        &mut self,
        does: Privilege,
        table: &Table,
        columns: &[usize],
    ) -> Result<()> {
        match does {
            Privilege::Insert | Privilege::Update => self.gate.write(does, table, columns)?,
            _ => self.gate.table(does, table)?,
        }
        self.permitted.insert(table.id);
        Ok(())
    }

    /// Does something to a table; what is appended later is for the table as it is then.
    ///
    /// # Errors
    /// `Invalid` (42501) when the session may not.
    pub(crate) fn change_table(&mut self, change: TableChange) -> Result<()> {
        let (mut made, mut owned) = (None, None);
        match &change {
            TableChange::Create(table) => {
                self.gate.create()?;
                self.permitted.insert(table.id);
                self.made.insert(table.id);
                made = Some(table.id).filter(|_| table.key_map.is_none());
            }
            TableChange::CreateView(view) if self.is_temporary(view.view_of) => {
                return Err(temporary::refused("a materialized view"));
            }
            TableChange::CreateView(view) => {
                // It is work for the pipeline with each row of its table.
                self.gate.own(view)?;
                made = Some(view.id);
            }
            TableChange::CreatePlainView(view) => {
                self.gate.create()?;
                made = Some(view.id);
            }
            TableChange::AlterPlainView { before, .. } => self.gate.own(before)?,
            TableChange::Alter { before, .. } | TableChange::Partition { before, .. } => {
                self.gate.own(before)?;
            }
            TableChange::Drop(table) | TableChange::DropView(table) => self.gate.own(table)?,
            TableChange::Truncate(table) => self.gate.table(Privilege::Truncate, table)?,
            TableChange::CreateSequence(_) => self.gate.create()?,
            TableChange::AlterSequence(own) => {
                // The column that it comes to does not say whose it is now.
                let known = self.visible.sequence(own.sequence.id);
                let before = known.map_or_else(|| own.sequence.clone(), |seen| seen.sequence);
                self.gate.own_sequence(&before)?;
                owned = owned_on(self.gate.access(), &before, &own.sequence);
            }
            TableChange::DropSequence(sequence) => self.gate.own_sequence(sequence)?,
            // Whoever made it asked: views go with what they read, whoever owns them.
            TableChange::Access(_) | TableChange::DropPlainView(_) => {}
        }
        let own_sequence = match &change {
            TableChange::CreateSequence(own) if own.sequence.owner.is_none() => Some(own),
            _ => None,
        };
        let own_sequence = own_sequence.map(|own| own.sequence.id.as_object());
        self.push(self.as_stored(change));
        if let (Some(table), Some(owner)) = (own_sequence, self.creator) {
            let owner = Some(owner);
            self.push(TableChange::Access(AccessChange::Own { table, owner }));
        }
        if let Some(owned) = owned {
            self.push(TableChange::Access(owned));
        }
        if let (Some(table), Some(owner)) = (made, self.creator) {
            let defaults = self.gate.access().defaults.get(&owner).cloned();
            let owner = Some(owner);
            self.push(TableChange::Access(AccessChange::Own { table, owner }));
            for (to, privileges) in defaults.unwrap_or_default() {
                let on = Object::Table(table);
                let change = AccessChange::Grant { on, to, privileges };
                self.push(TableChange::Access(change));
            }
        }
        Ok(())
    }

    /// Puts a table in the place of another that ends, under its name, with the owner and the
    /// grants of that one. Nothing happens if `unchanged` is not so at the commit; a transaction,
    /// whose own table it must be, has nobody to fear.
    ///
    /// # Errors
    /// `Invalid` (42501) when the session may not.
    pub(crate) fn replace_table(
        &mut self,
        before: &Arc<Table>,
        after: &Arc<Table>,
        made_of: Option<Unchanged>,
    ) -> Result<()> {
        self.gate.own(before)?;
        if let Destination::Batch { unchanged, .. } = &mut self.to {
            *unchanged = made_of;
        }
        self.permitted.insert(after.id);
        self.made.insert(after.id);
        let access = granted_anew(self.gate.access(), before, after);
        // What numbers its columns goes on, and must not end with it.
        for own in own_anew(&self.visible, before, after) {
            self.push(TableChange::AlterSequence(Arc::new(own)));
        }
        self.push(TableChange::Drop(Arc::clone(before)));
        self.push(TableChange::Create(Arc::clone(after)));
        for change in access {
            self.push(TableChange::Access(change));
        }
        Ok(())
    }

    fn is_temporary(&self, table: Option<TableId>) -> bool {
        table.is_some_and(|table| self.visible.is_temporary(table))
    }

    /// A change with the stored name of a temporary table.
    fn as_stored(&self, change: TableChange) -> TableChange {
        match change {
            TableChange::Alter { before, after } if self.is_temporary(Some(before.id)) => {
                let after = temporary::as_stored(&after, self.visible.temporary);
                TableChange::Alter { before, after }
            }
            other => other,
        }
    }

    fn push(&mut self, change: TableChange) {
        match &mut self.to {
            Destination::Batch { ddl, .. } => ddl.push(change.ddl()),
            Destination::Transaction { staged, .. } => staged.push(Staged::Table(change)),
        }
    }

    /// Adds changes of a table's rows, and the natural keys that they name.
    ///
    /// # Errors
    /// `Unavailable` (53200) when the transaction would hold more than its limit.
    pub(crate) async fn append_keyed(
        &mut self,
        table: &Arc<Table>,
        changes: KeyedChanges,
    ) -> Result<()> {
        if !self.permitted.contains(&table.id) {
            let message = format!("rows of {:?} are written past the gate", table.name);
            return Err(Error::internal(message));
        }
        if changes.changes.rows() == 0 {
            return Ok(());
        }
        match &mut self.to {
            Destination::Batch {
                instance,
                writer,
                number,
                ..
            } => {
                let writer = writer.get_or_insert_with(|| instance.begin(number.take()));
                writer.append_keyed(table, changes).await
            }
            Destination::Transaction { staged, bytes } => {
                // A statement may write more than fits, and must not hold it until its end.
                *bytes += changes.changes.memory_bytes() as u64;
                check_bytes(*bytes)?;
                staged.push(Staged::Changes(Arc::clone(table), changes));
                Ok(())
            }
        }
    }

    /// Deletes the rows of keys.
    pub(crate) async fn delete(
        &mut self,
        table: &Arc<Table>,
        keys: &[ArrayRef],
        mentioned: Vec<MentionedKeys>,
    ) -> Result<()> {
        let keys = match (&mut self.to, table.hidden_key) {
            (Destination::Transaction { staged, .. }, true) => {
                let own: HashSet<RowId> = own_rows(&keys[0]).map(|(_, id)| id).collect();
                let stored = stored_rows(&keys[0]);
                staged.push(Staged::RemoveOwn(Arc::clone(table), own));
                vec![kept(&keys[0], &stored)?]
            }
            _ => keys.to_vec(),
        };
        let keyed = KeyedChanges {
            changes: deletes(table, &keys)?,
            keys: mentioned,
            generated: Vec::new(),
        };
        self.append_keyed(table, keyed).await
    }

    /// Sets columns of the rows of keys, those at the places `generated` to values that the
    /// database made.
    pub(crate) async fn update(
        &mut self,
        table: &Arc<Table>,
        keys: &[ArrayRef],
        set: &[(usize, ArrayRef)],
        generated: &[usize],
        mentioned: Vec<MentionedKeys>,
    ) -> Result<()> {
        let changes = match (&mut self.to, table.hidden_key) {
            (Destination::Transaction { staged, bytes }, true) => {
                let own: HashMap<RowId, usize> =
                    own_rows(&keys[0]).map(|(row, id)| (id, row)).collect();
                let set = labelled(table, set)?;
                if !own.is_empty() {
                    let taken = set.iter().map(|(_, values)| values.get_array_memory_size());
                    *bytes += taken.sum::<usize>() as u64;
                    check_bytes(*bytes)?;
                }
                staged.push(Staged::UpdateOwn {
                    table: Arc::clone(table),
                    rows: own,
                    set: set.clone(),
                    generated: generated.to_vec(),
                });
                let stored = stored_rows(&keys[0]);
                let set: Result<Vec<(usize, ArrayRef)>> = set
                    .iter()
                    .map(|(column, values)| Ok((*column, kept(values, &stored)?)))
                    .collect();
                updates(table, &[kept(&keys[0], &stored)?], &set?)?
            }
            _ => updates(table, keys, set)?,
        };
        let keyed = KeyedChanges {
            changes,
            keys: mentioned,
            generated: generated.to_vec(),
        };
        self.append_keyed(table, keyed).await
    }

    /// Commits the batch, or hands what is staged to the transaction.
    pub(crate) async fn finish(self, session: &Shared) -> Result<Option<Token>> {
        match self.to {
            Destination::Batch {
                instance,
                ddl,
                writer,
                number,
                unchanged,
            } => {
                // A number is used up by a batch of no rows, too.
                let none = || match number {
                    Some(number) if ddl.is_empty() => Some(instance.begin(Some(number))),
                    _ => None,
                };
                let writer = writer.or_else(none);
                session.write(ddl, writer, unchanged).await
            }
            Destination::Transaction { staged, .. } => {
                let mut state = session.state.lock();
                let transaction = state.transaction.as_mut().ok_or_else(|| {
                    Error::internal("a transaction ended while its statement ran")
                })?;
                transaction.wrote = true;
                transaction.apply(staged)?;
                Ok(None)
            }
        }
    }
}

/// What keeps a sequence its owner's that leaves its column: until then it was whose the table is.
/// One that comes to a column has no owner of its own any more.
fn owned_on(access: &Access, before: &Sequence, after: &Sequence) -> Option<AccessChange> {
    let table = after.id.as_object();
    let owner = match (before.owner, after.owner) {
        (Some(_), None) => access.owner_of(before.owned_with()),
        (None, Some(_)) => None,
        _ => return None,
    };
    let is_other = owner != access.owner_of(table);
    is_other.then_some(AccessChange::Own { table, owner })
}

/// The sequences of a table's columns, as those of the columns of these names of another one.
fn own_anew(visible: &Visible, before: &Table, after: &Table) -> Vec<OwnSequence> {
    let owned = visible.sequences_of(before).into_iter();
    let anew = owned.filter_map(|seen| {
        let owner = seen.sequence.owner?;
        let mut columns = before.columns.iter();
        let column = columns.find(|column| column.id == owner.column)?;
        let at = after.column_index(&column.name)?;
        let mut sequence = seen.sequence;
        sequence.owner = Some(SequenceOwner {
            table: after.id,
            column: after.columns[at].id,
        });
        if let Some(temporary) = visible.temporary.filter(|_| seen.is_temporary) {
            sequence.name = temporary.stored(&sequence.name);
        }
        let own = visible.changes.own_sequence(sequence.id);
        let counter = own.and_then(|own| own.counter());
        Some(OwnSequence::new(sequence, counter))
    });
    anew.collect()
}

/// What gives `after` the owner and the grants of `before`, those of columns by their names.
fn granted_anew(access: &Access, before: &Table, after: &Table) -> Vec<AccessChange> {
    let Some(known) = access.objects.get(&before.id) else {
        return Vec::new();
    };
    let table = after.id;
    let mut changes = vec![AccessChange::Own {
        table,
        owner: known.owner,
    }];
    let of_columns = known.columns.iter().filter_map(|(column, grants)| {
        let mut columns = before.columns.iter();
        let named = columns.find(|known| known.id == *column)?;
        let at = after.column_index(&named.name)?;
        Some((Object::Column(table, after.columns[at].id), grants))
    });
    let grants = std::iter::once((Object::Table(table), &known.grants)).chain(of_columns);
    for (on, grants) in grants {
        changes.extend(grants.iter().map(|(to, privileges)| AccessChange::Grant {
            on,
            to: *to,
            privileges: privileges.clone(),
        }));
    }
    let options = known.options.iter();
    changes.extend(options.map(|(role, privileges)| AccessChange::Option {
        table,
        role: *role,
        privileges: privileges.clone(),
        gives: true,
    }));
    changes
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
