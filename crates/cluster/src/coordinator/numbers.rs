//! Numbers of sequences: edits that reserve a block, or have a sequence go on from elsewhere; and
//! what has to hold of sequences where DDL changes them, or the tables that they are of.

use std::collections::{BTreeMap, BTreeSet};

use lazybase_engine::manifest::{Ddl, Edit, Manifest};
use lazybase_model::sequence::{Counter, Sequence};
use lazybase_model::{Error, Result, SequenceId, Table, TableId};

use super::run::Coordinator;
use crate::sequences::Reserved;

impl Coordinator {
    /// Reserves the next numbers of a sequence, at most so many, durably.
    pub(super) async fn reserve_numbers(
        &mut self,
        sequence: SequenceId,
        count: u64,
    ) -> Result<Reserved> {
        // Told when nothing is in doubt any more: an earlier reservation may be.
        let mut reserved = None;
        let next = |manifest: &Manifest| {
            let state = manifest.sequence(sequence)?;
            let block = state.sequence.block(state.counter, count)?;
            reserved = Some(Reserved {
                block,
                set_in: state.set_in,
                before: state.counter,
            });
            Ok(Edit::ReserveNumbers {
                sequence,
                through: block.last(),
            })
        };
        let manifest = self.shared.manifests.commit_with(next).await?;
        self.note_committed(&manifest);
        reserved.ok_or_else(|| Error::internal("numbers were reserved that nobody asked for"))
    }

    /// Has a sequence go on from elsewhere, durably.
    pub(super) async fn set_sequence(
        &mut self,
        sequence: SequenceId,
        counter: Counter,
    ) -> Result<()> {
        self.commit(Edit::SetSequence { sequence, counter })
            .await
            .map(drop)
    }
}

/// Whether sequences, as DDL leaves them, have names of their own, and are there where columns take
/// numbers of them; the tables are as the DDL leaves them.
pub(super) fn check_sequences(
    manifest: &Manifest,
    ddl: &[Ddl],
    tables: &BTreeMap<TableId, &Table>,
) -> Result<()> {
    let known = sequences_after(manifest, ddl)?;
    let mut names: BTreeSet<&str> = tables.values().map(|table| table.name.as_str()).collect();
    for sequence in known.values() {
        if !names.insert(&sequence.name) {
            let what = format!("{:?} is there already", sequence.name);
            return Err(Error::conflict(what).with_sqlstate("42P07"));
        }
        let has_owner = sequence.owner.is_none_or(|owner| {
            let table = tables.get(&owner.table);
            let mut columns = table.into_iter().flat_map(|table| &table.columns);
            columns.any(|column| column.id == owner.column)
        });
        if !has_owner {
            let what = format!("the column of sequence {:?} is gone", sequence.name);
            return Err(Error::not_found(what).with_sqlstate("42703"));
        }
    }
    // Views show what their tables have, and take no numbers.
    let mut tables = tables.values().filter(|table| table.view_of.is_none());
    tables.try_for_each(|table| check_taken(manifest, table, &known))
}

/// The sequences that there are after DDL.
fn sequences_after<'a>(
    manifest: &'a Manifest,
    ddl: &'a [Ddl],
) -> Result<BTreeMap<SequenceId, &'a Sequence>> {
    let known = manifest.sequences.values().map(|state| &state.sequence);
    let mut known: BTreeMap<SequenceId, &Sequence> =
        known.map(|sequence| (sequence.id, sequence)).collect();
    let gone = |id: SequenceId| {
        Error::not_found(format!("sequence {id} is gone: another session dropped it"))
            .with_sqlstate("42P01")
    };
    for ddl in ddl {
        match ddl {
            Ddl::CreateSequence { sequence, .. } => {
                known.insert(sequence.id, sequence);
            }
            Ddl::AlterSequence { sequence, .. } => {
                let before = known.insert(sequence.id, sequence);
                before.ok_or_else(|| gone(sequence.id))?;
            }
            Ddl::DropSequence { sequence } => {
                known.remove(sequence).ok_or_else(|| gone(*sequence))?;
            }
            Ddl::Drop { table } => {
                known.retain(|_, of| of.owner.is_none_or(|owner| owner.table != *table));
            }
            Ddl::Alter { table, .. } => known.retain(|_, of| {
                let owner = of.owner.filter(|owner| owner.table == table.id);
                let mut columns = table.columns.iter();
                owner.is_none_or(|owner| columns.any(|column| column.id == owner.column))
            }),
            _ => {}
        }
    }
    Ok(known)
}

/// Whether the sequences are there whose numbers are defaults of a table's columns.
fn check_taken(
    manifest: &Manifest,
    table: &Table,
    known: &BTreeMap<SequenceId, &Sequence>,
) -> Result<()> {
    let mut taken = table
        .columns
        .iter()
        .filter_map(|column| Some((column, column.default.sequence()?)));
    let Some((column, id)) = taken.find(|(_, id)| !known.contains_key(id)) else {
        return Ok(());
    };
    let before = manifest.sequences.get(&id);
    let name = before.map_or_else(|| id.to_string(), |state| state.sequence.name.clone());
    let (column, table) = (&column.name, &table.name);
    Err(
        Error::conflict(format!("sequence {name:?} can't be dropped"))
            .with_detail(format!(
                "column {column:?} of table {table:?} takes its numbers as default"
            ))
            .with_hint("ALTER TABLE ... ALTER COLUMN ... DROP DEFAULT first")
            .with_sqlstate("2BP01"),
    )
}
