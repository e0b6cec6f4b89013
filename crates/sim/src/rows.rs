//! Between the model's numbers and the engine's batches: changes as they are written, rows as they
//! are read.
//!
//! Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch};
use lazybase_engine::change_batch::{ChangeBatch, Kinds, Scus, masks};
use lazybase_engine::segment::RowLayout;
use lazybase_engine::stages::remap::{KeyedChanges, MentionedKeys};
use lazybase_model::change::StoredKind;
use lazybase_model::id_key::temporary_id;
use lazybase_model::{MergeOperator, Table};

use crate::model::{Cell, Change, Key, OnRow, Row};
use crate::schema::{Kind, TableDraw, Version, key_of_code};

/// A table as the database knows it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// Its definition.
    pub table: Arc<Table>,
    /// How its rows are stored.
    pub layout: Arc<RowLayout>,
    /// Its columns among those that were drawn.
    pub version: Version,
}

impl Known {
    /// What is known of a table.
    ///
    /// # Errors
    /// What is wrong with the definition.
    pub(crate) fn of(table: Arc<Table>, draw: &TableDraw) -> Result<Known, String> {
        let layout = RowLayout::primary(&table).map_err(|error| error.to_string())?;
        Ok(Known {
            version: Version::of(&table, draw)?,
            layout: Arc::new(layout),
            table,
        })
    }
}

impl Known {
    /// What is known of the ledger, which nobody drew.
    ///
    /// # Errors
    /// What is wrong with the definition.
    pub(crate) fn ledger(table: Arc<Table>) -> Result<Known, String> {
        let layout = RowLayout::primary(&table).map_err(|error| error.to_string())?;
        Ok(Known {
            version: Version::default(),
            layout: Arc::new(layout),
            table,
        })
    }
}

/// The key of a row.
pub(crate) fn key_of(table: &TableDraw, row: &[Cell]) -> Key {
    let cell = |at: usize| match at < table.keys {
        true => row[at].unwrap_or_default(),
        false => 0,
    };
    [cell(0), cell(1)]
}

/// The stored rows of some changes, with the columns of a version.
struct Stored {
    cells: Vec<Vec<Cell>>,
    kinds: Vec<u8>,
    masks: Vec<Option<Vec<u8>>>,
}

/// Changes as a batch. `id_of` tells what stands in ID columns for a key of an owner.
///
/// # Errors
/// What Arrow says; a mistake of the simulator.
pub(crate) fn encode(
    draw: &TableDraw,
    known: &Known,
    changes: &[Change],
    mut id_of: impl FnMut(usize, i64) -> i64,
) -> Result<ChangeBatch, String> {
    let mut stored = Stored {
        cells: Vec::new(),
        kinds: Vec::new(),
        masks: Vec::new(),
    };
    for change in changes {
        stored.push(draw, &known.version, change);
    }
    let columns = known
        .version
        .columns()
        .enumerate()
        .map(|(at, (from, kind))| {
            let wide = draw.columns[from].merge == Some(MergeOperator::Sum);
            let cells = stored.cells.iter().map(|row| row[at]);
            match kind.owner() {
                None => kind.array(wide, cells),
                Some(owner) => {
                    let ids = cells.map(|cell| cell.map(|code| id_of(owner, code)));
                    kind.array(false, ids.collect::<Vec<_>>().into_iter())
                }
            }
        });
    let columns: Vec<ArrayRef> = columns.collect();
    let data = RecordBatch::try_new(Arc::clone(&known.layout.schema), columns);
    let masked = stored.masks.iter().any(Option::is_some);
    let first = stored
        .kinds
        .first()
        .copied()
        .unwrap_or(StoredKind::UPSERT.bits());
    let uniform = stored.kinds.iter().all(|kind| *kind == first);
    Ok(ChangeBatch {
        data: data.map_err(|error| error.to_string())?,
        kinds: match StoredKind::try_from(first) {
            Ok(kind) if uniform => Kinds::Uniform(kind),
            _ => Kinds::Each(stored.kinds.into()),
        },
        masks: masked.then(|| {
            let masks = stored.masks.iter().map(Option::as_deref);
            masks.collect::<BinaryArray>()
        }),
        scus: Scus::Uniform(0),
        column_scus: None,
    })
}

/// The tables of a story, as a writer needs them: what was drawn, and their key maps.
#[derive(Clone, Copy)]
pub(crate) struct Maps<'m> {
    /// What was drawn.
    pub draws: &'m [TableDraw],
    /// The key maps of those that own an ID.
    pub maps: &'m [Option<Known>],
}

impl Maps<'_> {
    /// Changes as a batch that names keys, but for those whose numbers are given.
    ///
    /// # Errors
    /// What Arrow says; a mistake of the simulator.
    pub(crate) fn encode(
        self,
        table: usize,
        known: &Known,
        changes: &[Change],
        given: &BTreeMap<(usize, i64), i64>,
    ) -> Result<KeyedChanges, String> {
        let mut mentioned: BTreeMap<usize, BTreeMap<i64, u32>> = BTreeMap::new();
        let changes = encode(&self.draws[table], known, changes, |owner, code| {
            let number = given.get(&(owner, code)).filter(|_| owner != table);
            number.copied().unwrap_or_else(|| {
                let codes = mentioned.entry(owner).or_default();
                let next = codes.len() as u32;
                temporary_id(*codes.entry(code).or_insert(next))
            })
        })?;
        let keys = mentioned.into_iter().map(|(owner, places)| {
            let mut codes = vec![0; places.len()];
            for (code, place) in places {
                codes[place as usize] = code;
            }
            self.keys(owner, &codes)
        });
        Ok(KeyedChanges {
            changes,
            keys: keys.collect::<Result<_, _>>()?,
            generated: Vec::new(),
        })
    }

    /// Rows of the key map of an owner, without numbers.
    fn keys(self, owner: usize, codes: &[i64]) -> Result<MentionedKeys, String> {
        let draw = &self.draws[owner];
        let map = self.maps[owner].as_ref().ok_or("an owner has a key map")?;
        let columns = map.version.columns().map(|(from, kind)| {
            let cell = |code: &i64| match from {
                of_key if of_key < draw.keys => Some(key_of_code(*code)[of_key]),
                id if Some(id) == draw.owned => Some(0),
                other => draw.columns[other].default,
            };
            kind.array(false, codes.iter().map(cell))
        });
        let rows = RecordBatch::try_new(Arc::clone(&map.layout.schema), columns.collect());
        Ok(MentionedKeys {
            map: Arc::clone(&map.table),
            rows: rows.map_err(|error| error.to_string())?,
            generated: Vec::new(),
        })
    }
}

impl Stored {
    fn push(&mut self, draw: &TableDraw, version: &Version, change: &Change) {
        let row_of = |cell: &dyn Fn(usize) -> Cell| -> Vec<Cell> {
            version.columns().map(|(from, _)| cell(from)).collect()
        };
        let whole = |row: &[Cell]| row_of(&|from| row[from]);
        let key_only = |from: usize| (from < draw.keys).then(|| change.key[from.min(1)]);
        let set_only = |sets: &[(usize, Cell, bool)]| {
            row_of(
                &|from| match sets.iter().find(|(column, ..)| *column == from) {
                    Some((_, cell, _)) => *cell,
                    None => key_only(from),
                },
            )
        };
        match (&change.on_row, &change.on_absent) {
            (OnRow::Replace, None) => self.row(row_of(&key_only), StoredKind::DELETE, None),
            (OnRow::Replace, Some(row)) => self.row(whole(row), StoredKind::UPSERT, None),
            (OnRow::Keep(sets), None) => {
                self.row(
                    set_only(sets),
                    StoredKind::UPDATE,
                    Some(mask(sets, version)),
                );
            }
            (OnRow::Keep(sets), Some(row)) => {
                if agrees(sets, row, version) {
                    let mask = mask(sets, version);
                    return self.row(whole(row), StoredKind::BOTH, Some(mask));
                }
                self.row(whole(row), StoredKind::SPLIT, None);
                self.row(
                    set_only(sets),
                    StoredKind::UPDATE,
                    Some(mask(sets, version)),
                );
            }
        }
    }

    fn row(&mut self, cells: Vec<Cell>, kind: StoredKind, mask: Option<Vec<u8>>) {
        self.cells.push(cells);
        self.kinds.push(kind.bits());
        self.masks.push(mask);
    }
}

/// Whether the columns that are set get what the row holds that is made where there is none.
pub(crate) fn agrees(sets: &[(usize, Cell, bool)], row: &[Cell], version: &Version) -> bool {
    let mut there = sets
        .iter()
        .filter(|(column, ..)| version.place(*column).is_some());
    there.all(|(column, cell, _)| row[*column] == *cell)
}

fn mask(sets: &[(usize, Cell, bool)], version: &Version) -> Vec<u8> {
    let places = |combined: bool| -> Vec<usize> {
        let some = sets.iter().filter(|(_, _, combine)| *combine || !combined);
        some.filter_map(|(column, ..)| version.place(*column))
            .collect()
    };
    masks::mask_combining(&places(false), &places(true), version.columns().count())
}

/// A row of the ledger.
///
/// # Errors
/// What Arrow says; a mistake of the simulator.
pub(crate) fn ledger_row(known: &Known, batch: usize) -> Result<ChangeBatch, String> {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![batch as i64]));
    let columns = known
        .layout
        .schema
        .project(&[0])
        .map_err(|error| error.to_string())?;
    let data = RecordBatch::try_new(Arc::new(columns), vec![number]);
    Ok(ChangeBatch::upserts(
        data.map_err(|error| error.to_string())?,
        0,
    ))
}

/// The ledger's rows: SCU, row in it, number of the batch.
///
/// # Errors
/// What is wrong with a row.
pub(crate) fn ledger_rows(batch: &RecordBatch) -> Result<Vec<(u64, u64, i64)>, String> {
    let numbers = batch.column(0).as_any().downcast_ref::<Int64Array>();
    let numbers = numbers.ok_or("the ledger's numbers are no numbers")?;
    let keys = hidden_keys(batch.column(1))?;
    let half = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let row = |(at, key): (usize, &[u8])| match key.len() {
        16 => Ok((half(&key[..8]), half(&key[8..]), numbers.value(at))),
        other => Err(format!("a hidden key has {other} bytes")),
    };
    keys.into_iter().enumerate().map(row).collect()
}

fn hidden_keys(column: &ArrayRef) -> Result<Vec<&[u8]>, String> {
    use arrow::array::FixedSizeBinaryArray;
    let any = column.as_any();
    if let Some(keys) = any.downcast_ref::<BinaryArray>() {
        return Ok((0..keys.len()).map(|at| keys.value(at)).collect());
    }
    if let Some(keys) = any.downcast_ref::<FixedSizeBinaryArray>() {
        return Ok((0..keys.len()).map(|at| keys.value(at)).collect());
    }
    Err(format!("hidden keys are of type {}", column.data_type()))
}

/// Rows as they were read: of each column the drawn one, and how it is spelt. IDs are numbers as
/// they were given out.
///
/// # Errors
/// The first cell that spells no number.
pub(crate) fn decode(
    columns: &[(usize, Kind)],
    batch: &RecordBatch,
    into: &mut Vec<Vec<Cell>>,
) -> Result<(), String> {
    if batch.num_columns() != columns.len() {
        return Err(format!(
            "{} columns were asked for, {} came",
            columns.len(),
            batch.num_columns()
        ));
    }
    for row in 0..batch.num_rows() {
        let cells = columns.iter().zip(batch.columns());
        let cells = cells.map(|((_, kind), column)| kind.number(column, row));
        into.push(cells.collect::<Result<_, _>>()?);
    }
    Ok(())
}

/// The columns of rows, in another order.
pub(crate) fn project(row: &Row, columns: &[(usize, Kind)]) -> Vec<Cell> {
    columns.iter().map(|(from, _)| row[*from]).collect()
}
