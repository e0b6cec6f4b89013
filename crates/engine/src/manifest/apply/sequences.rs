//! Sequences, as edits change them. One that is of a column goes with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_model::sequence::{Counter, Sequence};
use lazybase_model::{ColumnDefault, ColumnId, Error, Result, SequenceId, TableId};

use crate::manifest::state::{Manifest, SequenceState};

impl Manifest {
    /// A sequence by its name.
    pub fn sequence_named(&self, name: &str) -> Option<&Arc<SequenceState>> {
        let mut sequences = self.sequences.values();
        sequences.find(|state| state.sequence.name == name)
    }

    /// A sequence by its id.
    ///
    /// # Errors
    /// `NotFound` (42P01) when it is gone.
    pub fn sequence(&self, id: SequenceId) -> Result<&Arc<SequenceState>> {
        let found = self.sequences.get(&id);
        found.ok_or_else(|| {
            Error::not_found(format!("sequence {id} is gone: another session dropped it"))
                .with_sqlstate("42P01")
        })
    }

    pub(super) fn create_sequence(&mut self, sequence: &Sequence, counter: Counter) -> Result<()> {
        if self.is_named(&sequence.name) {
            let message = format!("{:?} exists already", sequence.name);
            return Err(Error::conflict(message).with_sqlstate("42P07"));
        }
        if self.has(sequence.id.as_object(), None) {
            let message = format!("the id {} is in use", sequence.id);
            return Err(Error::conflict(message));
        }
        self.next_table = self.next_table.max(sequence.id.0 + 1);
        let state = SequenceState {
            sequence: sequence.clone(),
            counter,
            set_in: self.number,
        };
        self.sequences.insert(sequence.id, Arc::new(state));
        Ok(())
    }

    pub(super) fn alter_sequence(
        &mut self,
        sequence: &Sequence,
        counter: Option<Counter>,
    ) -> Result<()> {
        let before = Arc::clone(self.sequence(sequence.id)?);
        if before.sequence.name != sequence.name && self.is_named(&sequence.name) {
            let message = format!("{:?} exists already", sequence.name);
            return Err(Error::conflict(message).with_sqlstate("42P07"));
        }
        // Numbers that were reserved under other bounds, or in other steps, are left out.
        let is_same = before.sequence.numbers() == sequence.numbers() && counter.is_none();
        let Counter { last, called } = counter.unwrap_or(before.counter);
        let counter = sequence.counter(last, called).map_err(|error| {
            error.with_hint("numbers are reserved ahead: say RESTART WITH where it is to go on")
        })?;
        let state = SequenceState {
            sequence: sequence.clone(),
            counter,
            set_in: match is_same {
                true => before.set_in,
                false => self.number,
            },
        };
        self.sequences.insert(sequence.id, Arc::new(state));
        Ok(())
    }

    pub(super) fn drop_sequence(&mut self, id: SequenceId) -> Result<()> {
        self.sequence(id)?;
        self.sequences.remove(&id);
        self.forget_access(id.as_object());
        Ok(())
    }

    /// Numbers of a sequence up to this one are reserved.
    pub(super) fn reserve(&mut self, id: SequenceId, through: i64) -> Result<()> {
        let state = self.sequence(id)?;
        let counter = state.sequence.counter(through, true)?;
        if !state.sequence.goes_on(state.counter, counter) {
            let message = format!("numbers of sequence {id} are reserved beyond {through} already");
            return Err(Error::conflict(message));
        }
        let state = SequenceState {
            counter,
            ..SequenceState::clone(state)
        };
        self.sequences.insert(id, Arc::new(state));
        Ok(())
    }

    pub(super) fn set_sequence(&mut self, id: SequenceId, counter: Counter) -> Result<()> {
        let state = self.sequence(id)?;
        let state = SequenceState {
            counter: state.sequence.counter(counter.last, counter.called)?,
            set_in: self.number,
            ..SequenceState::clone(state)
        };
        self.sequences.insert(id, Arc::new(state));
        Ok(())
    }

    /// Forgets the sequences that are of columns of a table which are gone.
    pub(super) fn forget_owned(&mut self, table: TableId, is_gone: impl Fn(ColumnId) -> bool) {
        let of_gone = |state: &&Arc<SequenceState>| {
            let owner = state.sequence.owner;
            owner.is_some_and(|owner| owner.table == table && is_gone(owner.column))
        };
        let gone = self.sequences.values().filter(of_gone);
        let gone: Vec<SequenceId> = gone.map(|state| state.sequence.id).collect();
        for id in gone {
            self.sequences.remove(&id);
            self.forget_access(id.as_object());
        }
    }

    /// Leaves out the sequences whose columns are not there, or whose name a table has. A column
    /// that took numbers of a sequence which is not there has no default any more: these columns,
    /// with their tables.
    pub fn prune_sequences(&mut self) -> Vec<String> {
        let tables = self.tables.values();
        let names: BTreeSet<&str> = tables.map(|state| state.table.name.as_str()).collect();
        let is_left_out = |state: &&Arc<SequenceState>| {
            let sequence = &state.sequence;
            let owner = sequence.owner;
            let has_owner = owner.is_none_or(|of| self.has(of.table, Some(of.column)));
            !has_owner || names.contains(sequence.name.as_str())
        };
        let left_out = self.sequences.values().filter(is_left_out);
        let left_out: Vec<SequenceId> = left_out.map(|state| state.sequence.id).collect();
        for id in left_out {
            self.sequences.remove(&id);
            self.forget_access(id.as_object());
        }
        let sequences = &self.sequences;
        let is_gone = |id: SequenceId| !sequences.contains_key(&id);
        let mut unnumbered = Vec::new();
        for state in self.tables.values_mut() {
            let mut defaults = state.table.columns.iter().map(|column| &column.default);
            if !defaults.any(|default| default.sequence().is_some_and(is_gone)) {
                continue;
            }
            let table = Arc::make_mut(&mut Arc::make_mut(state).table);
            for column in &mut table.columns {
                if column.default.sequence().is_some_and(is_gone) {
                    (column.default, column.identity) = (ColumnDefault::Null, None);
                    unnumbered.push(format!("{}.{}", table.name, column.name));
                }
            }
        }
        unnumbered
    }
}

#[cfg(test)]
mod tests;
