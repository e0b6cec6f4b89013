//! Acknowledged batches that are not sorted yet: the open SCU and the sealed ones before it.
//!
//! Holds where each batch's data stands in the log and, while memory allows, the data itself.
//! Invariant ACC-1: a batch is in the list only after the sync of its commit frame returned, and
//! the list only grows at its end, so that the first k batches are the same for every reader at
//! any time; those that nobody could read, since their log was damaged, are there again once it is
//! restored. Invariant ACC-2: the data held in memory stays within its budget, whatever comes in.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, FixedSizeBinaryBuilder, RecordBatch};
use arrow::datatypes::DataType;
use lazybase_model::table::Table;
use lazybase_model::{Error, Horizon, Result, SchemaVersion, ScuNumber, TableId};
use parking_lot::RwLock;

use super::frame::commit::{Commit, CommitPart};
use super::frame::data::{BatchSchemas, decode_data};
use super::frame::{FrameKind, FramePlace, at, check_header, damaged, log_name, read_frame};
use crate::change_batch::{ChangeBatch, Scus};
use crate::env::Store;
use crate::manifest::state::{LogPiece, ScuEntry, ScuTime};
use crate::schema::Adapter;
use crate::segment::RowLayout;
use crate::stages::remap::RemapState;

/// Counts the memory that accepted data may take.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes_max: u64,
    used: AtomicU64,
}

impl MemoryBudget {
    pub(crate) fn new(bytes_max: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget {
            bytes_max,
            used: AtomicU64::new(0),
        })
    }

    /// The bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if they are left, until the reservation is dropped.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let take = |used: u64| (used + bytes <= self.bytes_max).then_some(used + bytes);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.ok().map(|_| Reservation {
            budget: Arc::clone(self),
            bytes,
        })
    }
}

/// Memory taken from a budget.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Changes that are kept in memory beside the log.
#[derive(Debug)]
pub(crate) struct HeldChanges {
    pub(crate) changes: ChangeBatch,
    pub(crate) _reservation: Reservation,
}

/// The changes of one table in a batch: one data frame.
#[derive(Debug)]
pub struct BatchPart {
    /// The table that it changes.
    pub table: TableId,
    /// The schema that it was written under.
    pub version: SchemaVersion,
    /// Its stored rows.
    pub rows: u64,
    /// Its uncompressed bytes.
    pub raw_bytes: u64,
    /// How many stored rows of the table came before it in the SCU.
    pub first_row: u64,
    /// Where its data stands in the log.
    pub place: FramePlace,
    pub(crate) held: Option<HeldChanges>,
    /// Why it can't be read, where the log no longer tells what the SCU held.
    pub(crate) lost: Option<Error>,
}

/// A batch that was acknowledged.
#[derive(Debug)]
pub struct AcceptedBatch {
    /// Its place in the SCU, from 1.
    pub position: u32,
    /// When its commit frame was made, which tells it: the same after every crash, and at most
    /// `ack_micros`.
    pub written_micros: i64,
    /// When it was acknowledged, microseconds since 1970 on the coordinator's clock.
    pub ack_micros: i64,
    /// Its stored rows.
    pub rows: u64,
    /// Its uncompressed bytes.
    pub raw_bytes: u64,
    /// Its changes, table by table in the order of arrival.
    pub parts: Vec<BatchPart>,
    /// Where its commit frame stands.
    pub commit: FramePlace,
    /// The number that the frame carries, of a batch that came with DDL.
    pub ddl_batch: Option<u64>,
}

/// What an SCU holds of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableTotals {
    /// Stored rows.
    pub rows: u64,
    /// Uncompressed bytes.
    pub raw_bytes: u64,
}

/// An SCU that is open, or sealed and not sorted.
#[derive(Debug)]
pub struct UnsortedScu {
    scu: ScuNumber,
    acknowledged: AtomicU32,
    state: RwLock<ScuState>,
    /// The numbers of the natural keys that it mentions, as far as somebody needed them: kept with
    /// it, so that all who hold it have them.
    pub(crate) remap: RemapState,
}

#[derive(Debug, Default, Clone)]
struct ScuState {
    batches: Vec<Arc<AcceptedBatch>>,
    sealed: bool,
    tables: BTreeMap<TableId, TableTotals>,
    rows: u64,
    raw_bytes: u64,
    log_bytes: u64,
    pieces: Vec<LogPiece>,
    files: BTreeSet<u64>,
}

impl UnsortedScu {
    /// An SCU without batches.
    pub(crate) fn open(scu: ScuNumber) -> UnsortedScu {
        UnsortedScu {
            scu,
            acknowledged: AtomicU32::new(0),
            state: RwLock::default(),
            remap: RemapState::default(),
        }
    }

    /// An SCU that stays without batches: a transaction has it, once the manifest says so.
    pub(crate) fn reserved(scu: ScuNumber) -> UnsortedScu {
        let reserved = UnsortedScu::open(scu);
        reserved.seal();
        reserved
    }

    /// Whether it has no batches, and none can join any more.
    pub(crate) fn is_reserved(&self) -> bool {
        let state = self.state.read();
        state.sealed && state.batches.is_empty()
    }

    /// Adds batches at the end; readers see them from here on.
    pub(crate) fn publish(&self, batches: Vec<AcceptedBatch>) {
        let mut state = self.state.write();
        debug_assert!(!state.sealed, "nothing joins a sealed SCU");
        for batch in batches {
            debug_assert_eq!(batch.position as usize, state.batches.len() + 1);
            state.add(batch);
        }
        let count = u32::try_from(state.batches.len()).unwrap_or(u32::MAX);
        self.acknowledged.store(count, Ordering::Release);
    }

    pub(crate) fn seal(&self) {
        self.state.write().sealed = true;
    }

    /// Its number.
    pub fn scu(&self) -> ScuNumber {
        self.scu
    }

    /// How many batches were acknowledged.
    pub fn acknowledged(&self) -> u32 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// The horizon that contains all acknowledged batches.
    pub fn horizon(&self) -> Horizon {
        Horizon::inside(self.scu, self.acknowledged())
    }

    /// Whether no batch can join any more.
    pub fn is_sealed(&self) -> bool {
        self.state.read().sealed
    }

    /// Looks at what it is at one moment: whether it is sealed, its batches, and what it holds of
    /// each table.
    pub(crate) fn look<T>(
        &self,
        look: impl FnOnce(bool, &[Arc<AcceptedBatch>], &BTreeMap<TableId, TableTotals>) -> T,
    ) -> T {
        let state = self.state.read();
        look(state.sealed, &state.batches, &state.tables)
    }

    /// The first `count` batches, or all if there are fewer.
    pub fn prefix(&self, count: u32) -> Vec<Arc<AcceptedBatch>> {
        self.batches(0..count)
    }

    /// The batches before which so many others stand, as far as there are any.
    pub fn batches(&self, places: Range<u32>) -> Vec<Arc<AcceptedBatch>> {
        let state = self.state.read();
        let end = state.batches.len().min(places.end as usize);
        let start = end.min(places.start as usize);
        state.batches[start..end].to_vec()
    }

    /// Batch number `position`, counted from 1.
    pub fn batch(&self, position: u32) -> Option<Arc<AcceptedBatch>> {
        let index = (position as usize).checked_sub(1)?;
        self.state.read().batches.get(index).cloned()
    }

    /// The number of its first batch, if that came with DDL.
    pub fn ddl_batch(&self) -> Option<u64> {
        self.state.read().ddl_batch()
    }

    /// When the first batch was written, to be acknowledged once that is durable.
    pub fn first_written_micros(&self) -> Option<i64> {
        self.batch(1).map(|batch| batch.written_micros)
    }

    /// When the last batch was acknowledged.
    pub fn last_ack_micros(&self) -> Option<i64> {
        let state = self.state.read();
        state.batches.last().map(|batch| batch.ack_micros)
    }

    /// The stored rows and bytes of each table that it changes.
    pub fn tables(&self) -> BTreeMap<TableId, TableTotals> {
        self.state.read().tables.clone()
    }

    /// The stored rows and bytes of one table.
    pub fn table_totals(&self, table: TableId) -> TableTotals {
        let state = self.state.read();
        state.tables.get(&table).copied().unwrap_or_default()
    }

    /// The uncompressed bytes of all batches.
    pub fn raw_bytes(&self) -> u64 {
        self.state.read().raw_bytes
    }

    /// The bytes of all batches' frames in the log.
    pub fn log_bytes(&self) -> u64 {
        self.state.read().log_bytes
    }

    /// The numbers of the log files that hold its frames.
    pub(crate) fn files(&self) -> BTreeSet<u64> {
        self.state.read().files.clone()
    }

    /// The log file that holds its first commit frame.
    pub(crate) fn first_commit_file(&self) -> Option<u64> {
        let state = self.state.read();
        state.batches.first().map(|batch| batch.commit.file)
    }

    /// The names of the log files that hold its frames.
    pub fn log_files(&self) -> Vec<String> {
        self.files().into_iter().map(log_name).collect()
    }

    /// Whether its log could not be opened, so that nothing of it can be read.
    pub fn is_lost(&self) -> bool {
        let state = self.state.read();
        let mut parts = state.batches.iter().flat_map(|batch| &batch.parts);
        parts.any(|part| part.lost.is_some())
    }

    /// Takes what its log tells now that somebody restored it, in the place of batches that nobody
    /// could read; nothing where there are not as many.
    pub fn found_again(&self, whole: &UnsortedScu) {
        let found = whole.state.read().clone();
        let mut state = self.state.write();
        if found.batches.len() == state.batches.len() {
            *state = found;
        }
    }

    /// Reads all its frames back from the log, whatever is held in memory.
    ///
    /// # Errors
    /// `Corrupt`, naming file, offset, table and SCU, when the log does not hold what was
    /// acknowledged.
    pub async fn check_log(&self, store: &dyn Store) -> Result<()> {
        let within = |error: Error| error.within(format!("SCU {}", self.scu));
        for number in self.files() {
            check_header(store, number).await.map_err(within)?;
        }
        for batch in self.prefix(u32::MAX) {
            if let Some(lost) = batch.parts.iter().find_map(|part| part.lost.as_ref()) {
                return Err(lost.clone());
            }
            read_frame(store, batch.commit).await.map_err(within)?;
            for part in &batch.parts {
                let read = read_frame(store, part.place).await;
                read.map_err(|error| within(error.within(format!("table {}", part.table))))?;
            }
        }
        Ok(())
    }

    /// What the manifest keeps of it.
    pub(crate) fn entry(&self) -> ScuEntry {
        let state = self.state.read();
        ScuEntry {
            scu: self.scu,
            batches: u32::try_from(state.batches.len()).unwrap_or(u32::MAX),
            rows: state.rows,
            raw_bytes: state.raw_bytes,
            tables: state
                .tables
                .iter()
                .map(|(table, totals)| (*table, totals.rows))
                .collect(),
            log: state.pieces.clone(),
            files: state.files.iter().map(|number| log_name(*number)).collect(),
            ddl_batch: state.ddl_batch(),
        }
    }

    /// Its times; `batches_before` is how many batches the database had before it.
    pub(crate) fn time(&self, batches_before: u64) -> ScuTime {
        let state = self.state.read();
        let (first, last) = (state.batches.first(), state.batches.last());
        ScuTime {
            first_ack_micros: first.map_or(0, |batch| batch.written_micros),
            last_ack_micros: last.map_or(0, |batch| batch.ack_micros),
            batches_through: batches_before + state.batches.len() as u64,
        }
    }

    /// The changes of one table in the first `count` batches, in commit order: from memory where
    /// they are held, else from the log with their checksums verified.
    ///
    /// # Errors
    /// `Corrupt`, naming file, table and SCU, when the log does not hold what was acknowledged.
    pub async fn read_table(
        &self,
        store: &dyn Store,
        table: &Table,
        count: u32,
    ) -> Result<Vec<ChangeBatch>> {
        let schemas = BatchSchemas::of(table);
        let mut changes = Vec::new();
        for batch in self.prefix(count) {
            for part in batch.parts.iter().filter(|part| part.table == table.id) {
                let read = part.read_stored(store, table, &schemas, self.scu).await;
                changes.push(read.map_err(|error| {
                    error.within(format!("SCU {}, table {:?}", self.scu, table.name))
                })?);
            }
        }
        Ok(changes)
    }
}

impl ScuState {
    fn ddl_batch(&self) -> Option<u64> {
        self.batches.first().and_then(|batch| batch.ddl_batch)
    }

    fn add(&mut self, batch: AcceptedBatch) {
        for part in &batch.parts {
            let totals = self.tables.entry(part.table).or_default();
            totals.rows += part.rows;
            totals.raw_bytes += part.raw_bytes;
            self.log_bytes += part.place.length;
            self.files.insert(part.place.file);
        }
        self.rows += batch.rows;
        self.raw_bytes += batch.raw_bytes;
        self.log_bytes += batch.commit.length;
        self.files.insert(batch.commit.file);
        let commit = batch.commit;
        match self.pieces.last_mut() {
            Some(piece) if piece.identity == commit.identity => piece.end = commit.end(),
            _ => self.pieces.push(LogPiece {
                file: commit.file_name(),
                identity: commit.identity,
                start: commit.offset,
                end: commit.end(),
            }),
        }
        self.batches.push(Arc::new(batch));
    }
}

/// The batch that a commit frame stands for.
pub(super) fn accept_commit(
    commit: Commit,
    place: FramePlace,
    ack_micros: i64,
    held: impl Iterator<Item = Option<HeldChanges>>,
) -> AcceptedBatch {
    let (rows, raw_bytes) = (commit.rows(), commit.raw_bytes());
    let held = held.chain(std::iter::repeat_with(|| None));
    let part = |(part, held): (CommitPart, Option<HeldChanges>)| BatchPart {
        table: part.table,
        version: part.version,
        rows: part.rows,
        raw_bytes: part.raw_bytes,
        first_row: part.first_row,
        place: part.place,
        held,
        lost: None,
    };
    AcceptedBatch {
        position: commit.position,
        written_micros: commit.ack_micros,
        ack_micros,
        rows,
        raw_bytes,
        parts: commit.parts.into_iter().zip(held).map(part).collect(),
        commit: place,
        ddl_batch: commit.ddl_batch,
    }
}

impl BatchPart {
    /// Whether its data is in memory.
    pub fn in_memory(&self) -> bool {
        self.held.is_some()
    }

    /// Its changes as rows of a layout, whose table had the definition that they were written under
    /// by now or before.
    ///
    /// # Errors
    /// `Corrupt` when the log does not hold what was acknowledged.
    pub async fn read(
        &self,
        store: &dyn Store,
        layout: &RowLayout,
        scu: ScuNumber,
    ) -> Result<ChangeBatch> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        if self.version == layout.table.version {
            let schemas = layout.batch_schemas();
            return self.read_stored(store, &layout.table, schemas, scu).await;
        }
        let table = layout.definition(self.version)?;
        let schemas = BatchSchemas::of(table);
        let stored = self.read_stored(store, table, &schemas, scu).await?;
        Adapter::under(table, layout, stored)
    }

    /// Its changes under the definition that they were written under, from memory or from the log
    /// with their checksums verified; the hidden key and the SCU are filled in.
    async fn read_stored(
        &self,
        store: &dyn Store,
        table: &Table,
        schemas: &BatchSchemas,
        scu: ScuNumber,
    ) -> Result<ChangeBatch> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let changes = match &self.held {
            Some(held) => ChangeBatch {
                scus: Scus::Uniform(scu.0),
                ..held.changes.clone()
            },
            // Boxed: of what is held nothing is waited for, and futures around it stay small.
            None => Box::pin(self.read_from_log(store, table, schemas, scu)).await?,
        };
        with_hidden_key(table, schemas, changes, self.first_row)
    }

    async fn read_from_log(
        &self,
        store: &dyn Store,
        table: &Table,
        schemas: &BatchSchemas,
        scu: ScuNumber,
    ) -> Result<ChangeBatch> {
        let place = self.place;
        let (header, payload) = read_frame(store, place).await?;
        let damaged = |what: &str| damaged(&place.file_name(), place.offset, what);
        if header.kind != FrameKind::Data {
            return Err(damaged("not a data frame"));
        }
        let changes = decode_data(&payload, table, schemas, scu.0)
            .map_err(|error| at(error, &place.file_name(), place.offset))?;
        match changes.rows() as u64 == self.rows {
            true => Ok(changes),
            false => Err(damaged("a frame has other rows")),
        }
    }
}

/// Gives every row of a table without a declared key its `_row`: SCU, then position in the SCU,
/// both big-endian. Rows that name an older row (an update, a delete) keep what they say.
fn with_hidden_key(
    table: &Table,
    schemas: &BatchSchemas,
    changes: ChangeBatch,
    first_row: u64,
) -> Result<ChangeBatch> {
    if !table.hidden_key {
        return Ok(changes);
    }
    let index = table.columns.len() - 1;
    let given =
        (changes.data.num_columns() > index).then(|| Arc::clone(changes.data.column(index)));
    let Scus::Uniform(scu) = changes.scus else {
        return Err(Error::internal("ingested changes are of one SCU"));
    };
    let rows = changes.rows();
    let keys = hidden_keys(
        &table.columns[index].data_type,
        given.as_ref(),
        rows,
        scu,
        first_row,
    )?;
    let mut columns = changes.data.columns()[..index].to_vec();
    columns.push(keys);
    let data = RecordBatch::try_new(Arc::clone(&schemas.whole), columns)
        .map_err(|error| Error::internal(error.to_string()))?;
    Ok(ChangeBatch { data, ..changes })
}

fn hidden_keys(
    data_type: &DataType,
    given: Option<&ArrayRef>,
    rows: usize,
    scu: u64,
    first_row: u64,
) -> Result<ArrayRef> {
    if let Some(given) = given.filter(|given| given.null_count() == 0) {
        return Ok(Arc::clone(given));
    }
    let key = |row: usize| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&scu.to_be_bytes());
        key[8..].copy_from_slice(&(first_row + row as u64).to_be_bytes());
        key
    };
    match data_type {
        DataType::FixedSizeBinary(16) => {
            let given = given.map(|given| given.as_fixed_size_binary());
            let mut keys = FixedSizeBinaryBuilder::with_capacity(rows, 16);
            for row in 0..rows {
                let appended = match given.filter(|given| given.is_valid(row)) {
                    Some(given) => keys.append_value(given.value(row)),
                    None => keys.append_value(key(row)),
                };
                appended.expect("hidden keys have sixteen bytes");
            }
            Ok(Arc::new(keys.finish()))
        }
        DataType::Binary => {
            let given = given.map(|given| given.as_binary::<i32>());
            let mut keys = BinaryBuilder::with_capacity(rows, rows * 16);
            for row in 0..rows {
                match given.filter(|given| given.is_valid(row)) {
                    Some(given) => keys.append_value(given.value(row)),
                    None => keys.append_value(key(row)),
                }
            }
            Ok(Arc::new(keys.finish()))
        }
        other => Err(Error::internal(format!("a hidden key of type {other}"))),
    }
}
