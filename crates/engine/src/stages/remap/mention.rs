//! Natural keys on their way into a batch: each is written once, and what refers to it holds its
//! place.
//!
//! Pure. Invariant ID-3: places follow the order of rows, and of columns in a row, so they do not
//! depend on how a batch was cut into pieces (a producer's repeated batch must look the same).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::Int64Type;
use lazybase_model::id_key::{Mention, place_of, temporary_id};
use lazybase_model::limits::BATCH_KEYS_BYTES_MAX;
use lazybase_model::table::Table;
use lazybase_model::{Error, IdKeyColumn, Result, TableId};

use super::key_table::KeyTable;
use crate::change_batch::ChangeBatch;
use crate::key::KeyCodec;
use crate::segment::key_hash;

/// Natural keys of one key map that changes refer to.
#[derive(Debug, Clone)]
pub struct MentionedKeys {
    /// The key map.
    pub map: Arc<Table>,
    /// Its columns; what stands for the number says nothing.
    pub rows: RecordBatch,
    /// As [`KeyedChanges::generated`], of the map's columns.
    pub generated: Vec<usize>,
}

/// Changes whose ID columns hold numbers, or temporary IDs: places in `keys`, by key map.
#[derive(Debug, Clone)]
pub struct KeyedChanges {
    /// The changes.
    pub changes: ChangeBatch,
    /// The keys that they refer to: one entry a key map.
    pub keys: Vec<MentionedKeys>,
    /// The places of the columns whose values the database generated, as it does for
    /// `DEFAULT now()`, where the writer gave none. A producer that sends a batch again sends what
    /// it gave, and gets new values for these: so they say nothing about whether it is the same
    /// batch.
    pub generated: Vec<usize>,
}

impl KeyedChanges {
    /// Changes without ID columns, or with numbers in them.
    pub fn plain(changes: ChangeBatch) -> KeyedChanges {
        KeyedChanges {
            changes,
            keys: Vec::new(),
            generated: Vec::new(),
        }
    }
}

/// Rows of a key map.
#[derive(Debug)]
pub(crate) struct OfMap {
    pub(crate) map: Arc<Table>,
    pub(crate) rows: ChangeBatch,
    /// As [`KeyedChanges::generated`].
    pub(crate) generated: Vec<usize>,
}

/// The natural keys that a batch mentioned so far.
#[derive(Debug, Default)]
pub(crate) struct BatchKeys {
    maps: BTreeMap<TableId, MapKeys>,
}

#[derive(Debug)]
struct MapKeys {
    codec: KeyCodec,
    /// The keys whose places are known: all, unless they took too much memory.
    keys: KeyTable,
    places: Vec<u32>,
    /// Which of them were only looked for so far.
    lookups: Vec<bool>,
    count: u32,
}

/// The keys of one map in the changes at hand.
struct Given<'k> {
    rows: &'k RecordBatch,
    encoded: crate::key::Keys,
    /// The place in the batch of each of them, once a row refers to it, and whether rows have only
    /// looked for it so far.
    places: Vec<Option<(u32, bool)>>,
    /// Those that the batch did not mention before, in the order of their places, and by whom.
    new: Vec<(u32, Mention)>,
}

impl BatchKeys {
    /// The rows of key maps that come before the changes, and the changes with the places of their
    /// keys in the batch.
    ///
    /// # Errors
    /// `Invalid` when a temporary ID stands for no key, or a number is none.
    pub(crate) fn place(
        &mut self,
        table: &Table,
        keyed: KeyedChanges,
    ) -> Result<(Vec<OfMap>, ChangeBatch)> {
        let KeyedChanges { changes, keys, .. } = keyed;
        let mut given: BTreeMap<TableId, Given<'_>> = BTreeMap::new();
        for mentioned in &keys {
            let encoded = self.map(&mentioned.map)?.codec.encode(&mentioned.rows)?;
            let places = vec![None; mentioned.rows.num_rows()];
            let of_map = Given {
                rows: &mentioned.rows,
                encoded,
                places,
                new: Vec::new(),
            };
            given.insert(mentioned.map.id, of_map);
        }
        let columns = self.placed_columns(table, &changes, &mut given)?;
        let mut mentions = Vec::new();
        for mentioned in &keys {
            let of_map = &given[&mentioned.map.id];
            if !of_map.new.is_empty() {
                mentions.push(OfMap {
                    map: Arc::clone(&mentioned.map),
                    rows: mention_rows(&mentioned.map, of_map)?,
                    generated: mentioned.generated.clone(),
                });
            }
        }
        Ok((mentions, with_columns(changes, columns)?))
    }

    fn map(&mut self, map: &Table) -> Result<&mut MapKeys> {
        match self.maps.entry(map.id) {
            Entry::Occupied(keys) => Ok(keys.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(MapKeys {
                codec: KeyCodec::primary(map)?,
                keys: KeyTable::default(),
                places: Vec::new(),
                lookups: Vec::new(),
                count: 0,
            })),
        }
    }

    /// The ID columns with places in the batch.
    fn placed_columns(
        &mut self,
        table: &Table,
        changes: &ChangeBatch,
        given: &mut BTreeMap<TableId, Given<'_>>,
    ) -> Result<Vec<(usize, ArrayRef)>> {
        let width = changes.data.num_columns();
        let id_keys: Vec<(usize, IdKeyColumn)> =
            table.id_keys().filter(|(at, _)| *at < width).collect();
        let in_key = table.key_indices();
        let mut cells = Vec::with_capacity(id_keys.len());
        for (at, _) in &id_keys {
            let column = changes.data.column(*at).as_primitive_opt::<Int64Type>();
            let column = column.ok_or_else(|| not_ids(table, *at))?;
            cells.push((column, column.values().to_vec()));
        }
        for row in 0..changes.rows() {
            for ((at, id_key), (column, values)) in id_keys.iter().zip(&mut cells) {
                if column.is_null(row) {
                    continue;
                }
                let Some(local) = place_of(values[row]) else {
                    match values[row] {
                        0 => return Err(no_such_id(table, *at, 0)),
                        _ => continue,
                    }
                };
                let finds = !changes.kind(row).makes_row();
                let mention = match id_key.owner == table.id {
                    true => Mention::Owner,
                    false if finds && in_key.contains(at) => Mention::Lookup,
                    false => Mention::Reference,
                };
                let known = given.get_mut(&id_key.map);
                let known = known.filter(|given| local < given.places.len());
                let known = known.ok_or_else(|| no_such_id(table, *at, values[row]))?;
                let map = self.maps.get_mut(&id_key.map);
                let map = map.expect("the keys that are given were encoded by it");
                values[row] = temporary_id(map.place(known, local, mention)?);
            }
        }
        let made = id_keys
            .iter()
            .zip(cells)
            .map(|((at, _), (column, values))| {
                let cells = Int64Array::new(values.into(), column.nulls().cloned());
                (*at, Arc::new(cells) as ArrayRef)
            });
        Ok(made.collect())
    }
}

impl MapKeys {
    /// The place in the batch of one of the given keys.
    fn place(&mut self, given: &mut Given<'_>, local: usize, by: Mention) -> Result<u32> {
        let finds = by == Mention::Lookup;
        if let Some((place, _)) = given.places[local].filter(|(_, found)| finds || !found) {
            return Ok(place);
        }
        let row = given.encoded.row(local);
        let (at, new) = self.keys.insert(key_hash(row.data()), row.data());
        let at = at as usize;
        if new {
            self.places.push(self.count);
            self.lookups.push(finds);
        } else if self.lookups[at] && !finds {
            // Now it is more than looked for.
            self.places[at] = self.count;
            self.lookups[at] = false;
        }
        if self.places[at] == self.count {
            given.new.push((local as u32, by));
            let next = self.count.checked_add(1);
            self.count = next.ok_or_else(|| Error::invalid("a batch mentions too many keys"))?;
        }
        let place = self.places[at];
        given.places[local] = Some((place, self.lookups[at]));
        if self.keys.memory_bytes() > BATCH_KEYS_BYTES_MAX {
            // Keys that come again are written again: that costs bytes of the log, nothing else.
            self.keys = KeyTable::default();
            self.places.clear();
            self.lookups.clear();
        }
        Ok(place)
    }
}

/// The rows of a key map for keys that the batch did not mention before.
fn mention_rows(map: &Table, given: &Given<'_>) -> Result<ChangeBatch> {
    let rows = UInt32Array::from_iter_values(given.new.iter().map(|(local, _)| *local));
    let taken = take_record_batch(given.rows, &rows);
    let taken = taken.map_err(|error| Error::internal(error.to_string()))?;
    let codes = given.new.iter().map(|(_, by)| by.code());
    let codes = Arc::new(Int64Array::from_iter_values(codes)) as ArrayRef;
    with_columns(
        ChangeBatch::upserts(taken, 0),
        vec![(map.key_map_id(), codes)],
    )
}

/// The changes with other cells in some columns.
pub(crate) fn with_columns(
    changes: ChangeBatch,
    columns: Vec<(usize, ArrayRef)>,
) -> Result<ChangeBatch> {
    if columns.is_empty() {
        return Ok(changes);
    }
    let mut cells = changes.data.columns().to_vec();
    for (at, column) in columns {
        cells[at] = column;
    }
    let data = RecordBatch::try_new(changes.data.schema(), cells)
        .map_err(|error| Error::internal(error.to_string()))?;
    Ok(ChangeBatch { data, ..changes })
}

fn not_ids(table: &Table, at: usize) -> Error {
    let name = &table.columns[at].name;
    Error::invalid(format!(
        "table {:?}, column {name:?}: an ID key holds BIGINT",
        table.name
    ))
}

fn no_such_id(table: &Table, at: usize, id: i64) -> Error {
    let name = &table.columns[at].name;
    Error::invalid(format!(
        "table {:?}, column {name:?}: the ID {id} was never given out",
        table.name
    ))
    .with_hint("give the natural key: IDKEY(...)")
    .with_sqlstate("23503")
}
