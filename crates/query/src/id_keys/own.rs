//! A transaction's own changes as its reads see them: natural keys whose numbers are known have
//! them; a key that is new has none before COMMIT.
//!
//! Reads the buffer, and key maps at the transaction's snapshot. Invariant IDO-1: a number that a
//! transaction shows is the one that COMMIT keeps: rows of new keys are there, and meet each
//! other under numbers that no answer may hold; an answer that would is refused.

use std::collections::btree_map::Entry as Of;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::Int64Type;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_engine::read::{OwnChanges, Snapshot};
use lazybase_engine::segment::key_hash;
use lazybase_engine::stages::remap::key_table::KeyTable;
use lazybase_engine::stages::remap::{MentionedKeys, rows_of_owner};
use lazybase_model::id_key::{place_of, temporary_id};
use lazybase_model::{Error, Result, Table, TableId};

use crate::session::Shared;
use crate::transaction::Entry;
use crate::walk::plans::exists;

/// What a transaction's reads see of its own changes, by table.
pub(crate) type Buffered = HashMap<TableId, Vec<OwnChanges>>;

/// The transaction's own changes, over its snapshot.
///
/// # Errors
/// `Conflict` (40001) when another session altered a table that the transaction changed; what
/// reading a key map meets.
pub(crate) async fn buffered(session: &Shared, snapshot: &Snapshot) -> Result<Buffered> {
    let entries = entries(session);
    if entries.is_empty() {
        return Ok(Buffered::new());
    }
    for Entry { table, .. } in &entries {
        if snapshot.definition(table.id)?.version != table.version {
            let what = format!("table {:?} was changed by another session", table.name);
            let error = Error::conflict(what).with_sqlstate("40001");
            return Err(error.with_hint("ROLLBACK, and run the transaction again"));
        }
    }
    let numbers = numbers(snapshot, &entries).await?;
    let mut tables = Buffered::new();
    let visible = session.visible();
    for (map, of_map) in &numbers {
        let owner = of_map.map.key_map.and_then(|map| visible.by_id(map.owner));
        let owner = owner.ok_or_else(|| Error::internal(format!("{map} has no owner")))?;
        let made = of_map.rows_of_owner(&owner)?;
        if made.rows() > 0 {
            tables.entry(owner.id).or_default().push(made.into());
        }
    }
    for entry in entries {
        // Those without keys go on as they are, with their index.
        let changes = match entry.keys.is_empty() {
            true => entry.changes,
            false => with_numbers(&entry, &numbers)?.into(),
        };
        tables.entry(entry.table.id).or_default().push(changes);
    }
    Ok(tables)
}

/// The number under which the transaction's own rows have a key that is new.
pub(crate) async fn provisional(
    session: &Shared,
    snapshot: &Snapshot,
    map: TableId,
    key: &Key,
) -> Result<Option<i64>> {
    let numbers = numbers(snapshot, &entries(session)).await?;
    let of_map = numbers.get(&map);
    Ok(of_map.and_then(|of_map| {
        let at = of_map.keys.get(key_hash(key.as_bytes()), key.as_bytes())?;
        Some(of_map.ids[at as usize])
    }))
}

fn entries(session: &Shared) -> Vec<Entry> {
    let state = session.state.lock();
    let transaction = state.transaction.as_ref();
    transaction.map_or(Vec::new(), |transaction| transaction.buffer.entries())
}

/// The keys of one map that a transaction mentions.
struct OfMap {
    map: Arc<Table>,
    codec: KeyCodec,
    keys: KeyTable,
    ids: Vec<i64>,
    /// Rows of the map, and of each key the row, where a reference mentions it first.
    mentioned: Vec<RecordBatch>,
    by_reference: Vec<Option<(u32, u32)>>,
}

impl OfMap {
    fn new(map: &Arc<Table>) -> Result<OfMap> {
        Ok(OfMap {
            map: Arc::clone(map),
            codec: KeyCodec::primary(map)?,
            keys: KeyTable::default(),
            ids: Vec::new(),
            mentioned: Vec::new(),
            by_reference: Vec::new(),
        })
    }

    fn mention(&mut self, rows: &RecordBatch, by_reference: bool) -> Result<()> {
        let batch = self.mentioned.len() as u32;
        for (row, key) in (0..).zip(&self.codec.encode(rows)?) {
            let (_, new) = self.keys.insert(key_hash(key.data()), key.data());
            if new {
                self.by_reference.push(by_reference.then_some((batch, row)));
            }
        }
        self.mentioned.push(rows.clone());
        Ok(())
    }

    /// Numbers from the snapshot; those that it has none for get one that no answer may hold.
    async fn number(&mut self, snapshot: &Snapshot) -> Result<()> {
        let count = self.keys.len();
        let keys: Vec<Key> = (0..count).map(|at| Key::new(self.keys.key(at))).collect();
        let width = self.map.key_map_id();
        let projection: Vec<usize> = (0..=width).collect();
        let found = snapshot.get(self.map.id, &keys, &projection, &[]).await?;
        self.ids = (0..count as u32).map(temporary_id).collect();
        let ids = found.column(width).as_primitive::<Int64Type>();
        let keys = self.codec.encode_columns(&found.columns()[..width])?;
        for (row, key) in keys.iter().enumerate() {
            if let Some(at) = self.keys.get(key_hash(key.data()), key.data()) {
                self.ids[at as usize] = ids.value(row);
            }
        }
        Ok(())
    }

    /// The rows that references to new keys make.
    fn rows_of_owner(&self, owner: &Table) -> Result<ChangeBatch> {
        let mut made = Vec::new();
        for (batch, rows) in (0..).zip(&self.mentioned) {
            let of_batch = self.by_reference.iter().zip(&self.ids);
            let new: Vec<(u32, i64)> = of_batch
                .filter_map(|(by, id)| match by {
                    Some((from, row)) if *from == batch && *id < 0 => Some((*row, *id)),
                    _ => None,
                })
                .collect();
            let places = UInt32Array::from_iter_values(new.iter().map(|(row, _)| *row));
            let rows = take_record_batch(rows, &places);
            let rows = rows.map_err(|error| Error::internal(error.to_string()))?;
            let ids = Int64Array::from_iter_values(new.iter().map(|(_, id)| *id));
            made.push(rows_of_owner(owner, &self.map, &rows, ids)?);
        }
        ChangeBatch::concat(&made.iter().collect::<Vec<_>>())
    }

    /// The numbers of given keys.
    fn of_keys(&self, given: &MentionedKeys) -> Result<Vec<i64>> {
        let keys = self.codec.encode(&given.rows)?;
        let numbers: Option<Vec<i64>> = keys
            .iter()
            .map(|key| {
                let at = self.keys.get(key_hash(key.data()), key.data());
                at.map(|at| self.ids[at as usize])
            })
            .collect();
        numbers.ok_or_else(|| Error::internal("a key of the transaction was not mentioned"))
    }
}

type Numbers = BTreeMap<TableId, OfMap>;

/// The columns of the natural keys under whose numbers a transaction's own rows are, for keys of a
/// map that are new.
///
/// # Errors
/// `Internal` for numbers of no key.
pub(crate) fn keys_of_numbers(
    session: &Shared,
    map: TableId,
    numbers: &[i64],
) -> Result<Vec<ArrayRef>> {
    let none = || Error::internal(format!("a number of no key of {map}"));
    let all = mentioned(&entries(session))?;
    let of_map = all.get(&map).ok_or_else(none)?;
    let key = |number: &i64| {
        let at = place_of(*number).filter(|at| *at < of_map.keys.len())?;
        Some(of_map.keys.key(at))
    };
    let keys: Option<Vec<&[u8]>> = numbers.iter().map(key).collect();
    of_map.codec.decode_bytes(keys.ok_or_else(none)?)
}

async fn numbers(snapshot: &Snapshot, entries: &[Entry]) -> Result<Numbers> {
    let mut numbers = mentioned(entries)?;
    for of_map in numbers.values_mut() {
        of_map.number(snapshot).await?;
    }
    Ok(numbers)
}

/// The keys that changes mention, without their numbers.
fn mentioned(entries: &[Entry]) -> Result<Numbers> {
    let mut numbers = Numbers::new();
    for entry in entries {
        for given in &entry.keys {
            let of_map = match numbers.entry(given.map.id) {
                Of::Occupied(known) => known.into_mut(),
                Of::Vacant(place) => place.insert(OfMap::new(&given.map)?),
            };
            let owner = given.map.key_map.map(|map| map.owner);
            of_map.mention(&given.rows, owner != Some(entry.table.id))?;
        }
    }
    Ok(numbers)
}

fn with_numbers(entry: &Entry, numbers: &Numbers) -> Result<ChangeBatch> {
    let (table, changes) = (&entry.table, entry.changes.changes().clone());
    let mut ids: BTreeMap<TableId, Vec<i64>> = BTreeMap::new();
    for given in &entry.keys {
        if let Some(of_map) = numbers.get(&given.map.id) {
            ids.insert(given.map.id, of_map.of_keys(given)?);
        }
    }
    let mut columns = changes.data.columns().to_vec();
    let width = columns.len();
    for (at, id_key) in table.id_keys().filter(|(at, _)| *at < width) {
        let Some(ids) = ids.get(&id_key.map) else {
            continue;
        };
        let cells = columns[at].as_primitive::<Int64Type>();
        let numbers = cells.iter().map(|cell| match cell.and_then(place_of) {
            Some(place) => ids.get(place).copied(),
            None => cell,
        });
        columns[at] = Arc::new(numbers.collect::<Int64Array>()) as ArrayRef;
    }
    let data = RecordBatch::try_new(changes.data.schema(), columns);
    let data = data.map_err(|error| Error::internal(error.to_string()))?;
    Ok(ChangeBatch { data, ..changes })
}

/// Refuses rows of a transaction that hold the number of a new key. `columns` are the positions
/// in the table of the rows' columns.
///
/// # Errors
/// `Invalid` (55000): the number is given out at COMMIT.
pub(crate) fn check_known(table: &Table, columns: &[usize], rows: &RecordBatch) -> Result<()> {
    for (values, at) in rows.columns().iter().zip(columns) {
        // Hidden columns have positions behind the table's.
        let Some(column) = table.columns.get(*at).filter(|of| of.id_key.is_some()) else {
            continue;
        };
        let ids = values.as_primitive::<Int64Type>();
        if (0..ids.len()).any(|row| ids.is_valid(row) && ids.value(row) < 0) {
            return Err(not_known_yet().with_detail(format!(
                "column {:?} of table {:?}",
                column.name, table.name
            )));
        }
    }
    Ok(())
}

/// Refuses a predicate that compares IDs of a table by their order, where some of a transaction's
/// own rows have none yet: a read by ranges would pass over them.
///
/// # Errors
/// `Invalid` (55000): the number is given out at COMMIT.
pub(crate) fn check_order(table: &Table, own: &[OwnChanges], filters: &[Expr]) -> Result<()> {
    for (at, _) in table.id_keys() {
        let is_new = |changes: &OwnChanges| {
            let columns = changes.changes().data.columns();
            let ids = columns.get(at).map(|ids| ids.as_primitive::<Int64Type>());
            ids.is_some_and(|ids| ids.iter().flatten().any(|id| id < 0))
        };
        let name = &table.columns[at].name;
        if filters.iter().any(|filter| orders_by(filter, name)) && own.iter().any(is_new) {
            return Err(not_known_yet()
                .with_detail(format!("column {name:?} of table {:?}", table.name))
                .with_hint("compare the ID with = and IDKEY alone, or COMMIT first"));
        }
    }
    Ok(())
}

/// Whether a condition compares a column by its order.
fn orders_by(filter: &Expr, column: &str) -> bool {
    let names = |of: &Expr| of.column_refs().iter().any(|known| known.name == column);
    let orders = exists(filter, &mut |part| {
        Ok(match part {
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq,
                ..
            })
            | Expr::Between(_) => names(part),
            _ => false,
        })
    });
    orders.unwrap_or(true)
}

/// The number of a new key, asked for too early.
pub(crate) fn not_known_yet() -> Error {
    Error::invalid("the IDs of natural keys that are new in this transaction are given at COMMIT")
        .with_hint("leave the ID column out of the query, or COMMIT first")
        .with_sqlstate("55000")
}
