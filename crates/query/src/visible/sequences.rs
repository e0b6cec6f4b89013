//! The sequences that a statement sees: the manifest's, as the session's transaction has changed
//! them. Those of temporary tables are their session's, under a name without its prefix.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_model::sequence::{Counter, Sequence};
use lazybase_model::{Error, Result, SequenceId, Table, TableId};

use super::{TableChange, TableChanges, Visible};
use crate::sequences::own::OwnSequence;
use crate::temporary;

/// A sequence that a statement sees.
#[derive(Debug, Clone)]
pub(crate) struct SeenSequence {
    /// Its definition, under the name that the session sees.
    pub(crate) sequence: Sequence,
    /// Where it stands, with what is reserved.
    pub(crate) counter: Counter,
    pub(crate) is_temporary: bool,
}

impl TableChanges {
    /// A sequence that the transaction has made or changed, as it has left it.
    pub(crate) fn own_sequence(&self, id: SequenceId) -> Option<&Arc<OwnSequence>> {
        let mut changes = self.0.iter().rev();
        changes.find_map(|change| match change {
            TableChange::CreateSequence(own) | TableChange::AlterSequence(own)
                if own.sequence.id == id =>
            {
                Some(own)
            }
            _ => None,
        })
    }

    /// Adds a change of a sequence: what cancels out is left out.
    pub(super) fn push_sequence(&mut self, change: TableChange) {
        match &change {
            TableChange::AlterSequence(own) => {
                let known = self.0.iter_mut().find_map(|change| match change {
                    TableChange::CreateSequence(known) | TableChange::AlterSequence(known)
                        if known.sequence.id == own.sequence.id =>
                    {
                        Some(known)
                    }
                    _ => None,
                });
                if let Some(known) = known {
                    *known = Arc::clone(own);
                    return;
                }
            }
            TableChange::DropSequence(sequence) => {
                let id = sequence.id;
                let was_made = self.created_sequences().any(|own| own.sequence.id == id);
                self.0.retain(|change| match change {
                    TableChange::CreateSequence(own) | TableChange::AlterSequence(own) => {
                        own.sequence.id != id
                    }
                    _ => true,
                });
                if was_made {
                    self.forget_access(id.as_object());
                    return;
                }
            }
            _ => {}
        }
        self.0.push(change);
    }

    /// Ends the sequences that are of a table which was never there for others.
    pub(super) fn drop_owned(&mut self, table: TableId) {
        let is_of = |own: &OwnSequence| {
            let owner = own.sequence.owner;
            owner.is_some_and(|owner| owner.table == table)
        };
        let (mut ended, mut forgotten) = (Vec::new(), Vec::new());
        self.0.retain(|change| match change {
            TableChange::CreateSequence(own) if is_of(own) => {
                forgotten.push(own.sequence.id.as_object());
                false
            }
            TableChange::AlterSequence(own) if is_of(own) => {
                ended.push(TableChange::DropSequence(Arc::new(own.sequence.clone())));
                false
            }
            _ => true,
        });
        self.0.extend(ended);
        for sequence in forgotten {
            self.forget_access(sequence);
        }
    }

    fn created_sequences(&self) -> impl Iterator<Item = &Arc<OwnSequence>> {
        self.0.iter().filter_map(|change| match change {
            TableChange::CreateSequence(own) => Some(own),
            _ => None,
        })
    }

    fn has_dropped_sequence(&self, id: SequenceId) -> bool {
        let mut changes = self.0.iter();
        changes.any(|change| matches!(change, TableChange::DropSequence(of) if of.id == id))
    }
}

impl Visible {
    /// All sequences, by id.
    pub(crate) fn sequences(&self) -> Vec<SeenSequence> {
        let stored = self.manifest.sequences.keys().copied();
        let made = self.changes.created_sequences().map(|own| own.sequence.id);
        let ids: BTreeSet<SequenceId> = stored.chain(made).collect();
        ids.into_iter().filter_map(|id| self.sequence(id)).collect()
    }

    /// A sequence by its id.
    pub(crate) fn sequence(&self, id: SequenceId) -> Option<SeenSequence> {
        let stored = self.manifest.sequences.get(&id);
        let own = self.changes.own_sequence(id);
        let sequence = match (own, stored) {
            (Some(own), _) => own.sequence.clone(),
            (None, Some(state)) => state.sequence.clone(),
            (None, None) => return None,
        };
        let own = own.and_then(|own| own.counter());
        let counter = own.or_else(|| stored.map(|state| state.counter));
        let counter = counter.unwrap_or(sequence.begin());
        match self.has_sequence(&sequence) {
            true => self.seen_sequence(sequence, counter),
            false => None,
        }
    }

    /// Whether the transaction has left a sequence there, and the column that it is of.
    fn has_sequence(&self, sequence: &Sequence) -> bool {
        let is_there = sequence.owner.is_none_or(|owner| {
            let table = self.by_id(owner.table);
            let mut columns = table.iter().flat_map(|table| &table.columns);
            columns.any(|column| column.id == owner.column)
        });
        is_there && !self.changes.has_dropped_sequence(sequence.id)
    }

    fn seen_sequence(&self, mut sequence: Sequence, counter: Counter) -> Option<SeenSequence> {
        let is_temporary = temporary::is_stored(&sequence.name);
        if is_temporary {
            sequence.name = self.temporary?.shown(&sequence.name)?.to_owned();
        }
        Some(SeenSequence {
            sequence,
            counter,
            is_temporary,
        })
    }

    /// Whether a sequence of no temporary table has a name.
    pub(super) fn has_sequence_named(&self, name: &str) -> bool {
        let has_some = !self.manifest.sequences.is_empty() || !self.changes.is_empty();
        let is_named = |seen: &SeenSequence| !seen.is_temporary && seen.sequence.name == name;
        has_some && self.sequences().iter().any(is_named)
    }

    /// The sequence of a name: the session's own, of a temporary table, before others.
    pub(crate) fn sequence_named(&self, name: &str) -> Option<SeenSequence> {
        let mut all = self.sequences();
        if let Some(public) = temporary::named_in_public(name) {
            let mut others = all.into_iter().filter(|seen| !seen.is_temporary);
            return others.find(|seen| seen.sequence.name == public);
        }
        let own_name = temporary::named(name);
        all.retain(|seen| seen.sequence.name == own_name.unwrap_or(name));
        all.sort_by_key(|seen| !seen.is_temporary);
        let found = all.into_iter().next();
        found.filter(|seen| own_name.is_none() || seen.is_temporary)
    }

    /// The sequence of a name.
    ///
    /// # Errors
    /// `NotFound` (42P01) when there is none; `Invalid` (42809) for the name of something else.
    pub(crate) fn require_sequence(&self, name: &str) -> Result<SeenSequence> {
        self.sequence_named(name).ok_or_else(|| {
            let shown = temporary::own_name(name);
            match self.relation(name) {
                Some(_) => {
                    Error::invalid(format!("{shown:?} is not a sequence")).with_sqlstate("42809")
                }
                None => Error::not_found(format!("there is no sequence {shown:?}"))
                    .with_name(shown)
                    .with_sqlstate("42P01"),
            }
        })
    }

    /// The error of DROP TABLE, DROP VIEW and their like for the name of a sequence; nothing where
    /// no sequence has it.
    pub(crate) fn sequence_instead(&self, name: &str) -> Option<Error> {
        self.sequence_named(name)?;
        let shown = temporary::own_name(name);
        Some(
            Error::invalid(format!("{shown:?} is a sequence"))
                .with_hint("DROP SEQUENCE drops it")
                .with_sqlstate("42809"),
        )
    }

    /// The sequences that are of a table's columns.
    pub(crate) fn sequences_of(&self, table: &Table) -> Vec<SeenSequence> {
        let is_of = |seen: &SeenSequence| {
            let owner = seen.sequence.owner;
            owner.is_some_and(|owner| owner.table == table.id)
        };
        let mut all = self.sequences();
        all.retain(is_of);
        all
    }
}
