//! The writer's half of ingest: checks, cuts and encodes a batch in the caller's own thread.
//!
//! Reads batches of changes; hands frames to the committer. A batch of any size takes bounded
//! memory: full frames leave as soon as there is room in the queue, and only small ones wait for
//! the commit.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, OnceLock};

use arrow::array::{BinaryArray, BinaryBuilder, UInt8Array};
use arrow::compute::concat_batches;
use lazybase_model::change::StoredKind;
use lazybase_model::table::Table;
use lazybase_model::{Error, ErrorKind, Horizon, Result, SchemaVersion, TableId};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::accepted::HeldChanges;
use super::check::accept;
use super::committer::{CommitRequest, DataFrame, Event, FrameRows};
use super::content::ContentHasher;
use super::frame::commit::ProducerStamp;
use super::frame::data::{BatchSchemas, DataEncoder, decode_parts, raw_bytes};
use super::frame::{EncodedFrame, commit};
use super::waiting::{Entered, WaitsFor};
use super::{HeldBack, LogCompression, Shared, stopped};
use crate::change_batch::{ChangeBatch, Kinds, Scus};
use crate::stages::remap::{BatchKeys, KeyedChanges};

/// How many frames' worth of small changes, of all tables together, wait to become frames.
const PENDING_FRAMES_MAX: u64 = 4;

/// Which batch of a named producer this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchNumber {
    /// The producer's name.
    pub name: String,
    /// The session's epoch.
    pub epoch: u64,
    /// The batch's number: higher than the producer's last, from 1.
    pub number: u64,
}

/// The batch is durable and visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement {
    /// A horizon that contains the batch.
    pub horizon: Horizon,
    /// When it was acknowledged, microseconds since 1970 on the coordinator's clock; of an empty
    /// batch or a duplicate, 0.
    pub ack_micros: i64,
    /// Whether the batch was there already, under its producer's number.
    pub duplicate: bool,
    /// The stored rows that were given.
    pub rows: u64,
}

/// Small changes of one table that wait to become one frame.
#[derive(Debug)]
struct Pending {
    table: Arc<Table>,
    changes: Vec<ChangeBatch>,
    bytes: u64,
}

impl Pending {
    fn columns(&self) -> usize {
        self.changes
            .first()
            .map_or(0, |changes| changes.data.num_columns())
    }
}

/// A batch that is being written. Dropped without [`BatchWriter::commit`], it never was.
#[derive(Debug)]
pub struct BatchWriter {
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Event>,
    id: u64,
    producer: Option<(BatchNumber, ContentHasher)>,
    encoder: DataEncoder,
    pending: BTreeMap<(TableId, SchemaVersion), Pending>,
    pending_bytes: u64,
    ready: Vec<DataFrame>,
    ready_bytes: u64,
    handed_over: bool,
    /// Why the batch can't be committed, as the committer found out.
    fate: Arc<OnceLock<Error>>,
    rows: u64,
    raw_bytes: u64,
    keys: BatchKeys,
}

impl BatchWriter {
    pub(super) fn new(
        shared: Arc<Shared>,
        events: mpsc::UnboundedSender<Event>,
        id: u64,
        producer: Option<BatchNumber>,
    ) -> BatchWriter {
        BatchWriter {
            shared,
            events,
            id,
            producer: producer.map(|number| (number, ContentHasher::default())),
            encoder: DataEncoder::default(),
            pending: BTreeMap::new(),
            pending_bytes: 0,
            ready: Vec::new(),
            ready_bytes: 0,
            handed_over: false,
            fate: Arc::default(),
            rows: 0,
            raw_bytes: 0,
            keys: BatchKeys::default(),
        }
    }

    /// The stored rows appended so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The uncompressed bytes appended so far.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Adds changes of one table whose ID columns may hold places of natural keys, after those
    /// that were added before. Each key is written once a batch. Where a producer numbers it, the
    /// values that the database generated do not tell it from another batch of the number.
    ///
    /// # Errors
    /// As [`BatchWriter::append`]; `Invalid` also when an ID column holds neither a number nor the
    /// place of a key.
    pub async fn append_keyed(
        &mut self,
        table: &Arc<Table>,
        mut keyed: KeyedChanges,
    ) -> Result<()> {
        if table.id_keys().next().is_none() {
            return self
                .append_placed(table, keyed.changes, &keyed.generated)
                .await;
        }
        let generated = mem::take(&mut keyed.generated);
        let (mentions, changes) = self.keys.place(table, keyed)?;
        let given = self.rows;
        for of_map in mentions {
            self.append_placed(&of_map.map, of_map.rows, &of_map.generated)
                .await?;
        }
        // Mentions are no rows that anybody gave.
        self.rows = given;
        self.append_placed(table, changes, &generated).await
    }

    /// Adds changes of one table, after those that were added before. ID columns hold numbers.
    ///
    /// # Errors
    /// `Invalid`, naming table, column and row, when the changes are not acceptable or the batch
    /// grows too large; `Unavailable` when the log can't take them. The batch is then lost: drop
    /// it.
    pub async fn append(&mut self, table: &Arc<Table>, changes: ChangeBatch) -> Result<()> {
        self.append_keyed(table, KeyedChanges::plain(changes)).await
    }

    async fn append_placed(
        &mut self,
        table: &Arc<Table>,
        changes: ChangeBatch,
        generated: &[usize],
    ) -> Result<()> {
        self.check_fate()?;
        let changes = accept(table, changes)?;
        if changes.rows() == 0 {
            return Ok(());
        }
        let bytes = raw_bytes(&changes)?;
        let bytes_max = self.shared.options.batch_bytes_max;
        if self.raw_bytes.saturating_add(bytes) > bytes_max {
            return Err(
                Error::invalid(format!("the batch is larger than {bytes_max} bytes"))
                    .with_hint("send it as several batches, or raise `batch_bytes_max`")
                    .with_sqlstate("54000"),
            );
        }
        if let Some((_, hasher)) = &mut self.producer {
            hasher.add(table.id, table.version, &changes, generated)?;
        }
        self.rows += changes.rows() as u64;
        self.raw_bytes += bytes;
        self.take(table, changes, bytes)?;
        match self.ready_bytes >= self.shared.options.frame_bytes_max as u64 {
            true => self.hand_over().await,
            false => Ok(()),
        }
    }

    /// Hands everything to the log, so that nothing is left to write but the commit frame.
    ///
    /// # Errors
    /// As [`BatchWriter::append`].
    pub async fn write_ahead(&mut self) -> Result<()> {
        self.check_fate()?;
        self.encode_all_pending()?;
        match self.ready.is_empty() {
            true => Ok(()),
            false => self.hand_over().await,
        }
    }

    /// Whether a producer numbers the batch.
    pub(super) fn is_numbered(&self) -> bool {
        self.producer.is_some()
    }

    /// The batch's id and its fate, for a request to prepare it.
    pub(super) fn identity(&self) -> (u64, Arc<OnceLock<Error>>) {
        (self.id, Arc::clone(&self.fate))
    }

    /// Makes the batch durable and visible, whole.
    ///
    /// # Errors
    /// `Conflict` when a table changed meanwhile, or a newer session of the producer was opened;
    /// `Invalid` when the producer's number was used for other content; `Unavailable` when the log
    /// can't take the batch; `MaybeHappened` when it may or may not have been made durable.
    pub async fn commit(mut self) -> Result<Acknowledgement> {
        self.check_fate()?;
        self.encode_all_pending()?;
        if self.rows == 0 && self.producer.is_none() {
            return Ok(Acknowledgement {
                horizon: self.shared.acknowledged(),
                ack_micros: 0,
                duplicate: false,
                rows: 0,
            });
        }
        let rows = self.rows;
        let producer = self.producer.take().map(|(number, hasher)| ProducerStamp {
            name: number.name,
            number: number.number,
            content_hash: hasher.finish(),
            epoch: number.epoch,
        });
        let commit_bytes = commit::commit_payload_bytes(self.ready.len(), producer.as_ref());
        let permit = self.room(self.ready_bytes + commit_bytes as u64).await?;
        let (answer, receiver) = oneshot::channel();
        let request = CommitRequest {
            batch: self.id,
            frames: mem::take(&mut self.ready),
            fate: Arc::clone(&self.fate),
            producer,
            permit,
            answer,
        };
        // From here on the committer decides.
        self.handed_over = false;
        self.events
            .send(Event::Commit(Box::new(request)))
            .map_err(|_| stopped())?;
        let answered = receiver.await.map_err(|_| {
            Error::new(
                ErrorKind::MaybeHappened,
                "the database closed during a commit",
            )
        })?;
        answered.map(|acknowledgement| Acknowledgement {
            rows,
            ..acknowledgement
        })
    }

    fn check_fate(&self) -> Result<()> {
        match self.fate.get() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Encodes changes that fill a frame, in pieces if need be; keeps smaller ones for later.
    fn take(&mut self, table: &Arc<Table>, changes: ChangeBatch, bytes: u64) -> Result<()> {
        let frame_bytes = self.shared.options.frame_bytes_max as u64;
        let key = (table.id, table.version);
        if let Some(pending) = self.pending.get(&key) {
            // Rows with and without their hidden key take different frames.
            let alike = pending.columns() == changes.data.num_columns();
            let full = pending.bytes + bytes > frame_bytes || bytes > frame_bytes / 4;
            if full || !alike {
                self.encode_pending(key)?;
            }
        }
        if bytes > frame_bytes / 4 {
            return self.encode_cut(table, changes, bytes);
        }
        let pending = self.pending.entry(key).or_insert_with(|| Pending {
            table: Arc::clone(table),
            changes: Vec::new(),
            bytes: 0,
        });
        pending.changes.push(changes);
        pending.bytes += bytes;
        self.pending_bytes += bytes;
        // A batch over very many tables takes bounded memory too.
        match self.pending_bytes > PENDING_FRAMES_MAX * frame_bytes {
            true => self.encode_all_pending(),
            false => Ok(()),
        }
    }

    fn encode_all_pending(&mut self) -> Result<()> {
        let keys: Vec<_> = self.pending.keys().copied().collect();
        keys.into_iter()
            .try_for_each(|key| self.encode_pending(key))
    }

    fn encode_pending(&mut self, key: (TableId, SchemaVersion)) -> Result<()> {
        let Some(mut pending) = self.pending.remove(&key) else {
            return Ok(());
        };
        self.pending_bytes -= pending.bytes;
        let changes = match pending.changes.len() {
            1 => pending.changes.remove(0),
            _ => concat_changes(&pending.changes)?,
        };
        self.encode(&pending.table, changes, pending.bytes)
    }

    fn encode_cut(&mut self, table: &Table, changes: ChangeBatch, bytes: u64) -> Result<()> {
        let frame_bytes = self.shared.options.frame_bytes_max as u64;
        if bytes <= frame_bytes {
            return self.encode(table, changes, bytes);
        }
        let pieces = bytes.div_ceil(frame_bytes) as usize;
        let rows = changes.rows().div_ceil(pieces).max(1);
        let mut start = 0;
        while start < changes.rows() {
            let mut end = (start + rows).min(changes.rows());
            if changes.kind(end - 1).is_split() {
                end += 1;
            }
            let piece = changes.slice(start, end - start);
            let piece_bytes = raw_bytes(&piece)?;
            // Rows of very different sizes: cut a piece again while that can help.
            if piece_bytes > 2 * frame_bytes && end - start < changes.rows() && end - start > 2 {
                self.encode_cut(table, piece, piece_bytes)?;
            } else {
                self.encode(table, piece, piece_bytes)?;
            }
            start = end;
        }
        Ok(())
    }

    fn encode(&mut self, table: &Table, changes: ChangeBatch, bytes: u64) -> Result<()> {
        let frame = self.encoder.encode(table, &changes, bytes)?;
        let rows = changes.rows() as u64;
        let held = self.hold_in_memory(table, changes, &frame)?;
        let frame = match self.shared.options.compression {
            LogCompression::None => frame,
            LogCompression::Lz4 => frame.compressed(),
        };
        self.ready_bytes += frame.frame_length();
        self.ready.push(DataFrame {
            rows: FrameRows {
                table: table.id,
                version: table.version,
                rows,
                raw_bytes: bytes,
            },
            frame,
            held,
        });
        Ok(())
    }

    /// Keeps the changes readable in memory while the budget lasts: the caller's own arrays if
    /// they hold little besides, else the frame's bytes.
    fn hold_in_memory(
        &self,
        table: &Table,
        changes: ChangeBatch,
        frame: &EncodedFrame,
    ) -> Result<Option<HeldChanges>> {
        const SLACK_BYTES: u64 = 64 << 10;
        let arrays = changes.memory_bytes() as u64;
        let encoded = frame.frame_length();
        let own = arrays <= 2 * encoded + SLACK_BYTES;
        let bytes = if own { arrays } else { encoded };
        let Some(reservation) = self.shared.memory.reserve(bytes) else {
            return Ok(None);
        };
        let changes = match own {
            true => changes,
            false => {
                let parts = (frame.head.as_slice(), &frame.body);
                decode_parts(parts, table, &BatchSchemas::of(table), 0)?
            }
        };
        Ok(Some(HeldChanges {
            changes,
            _reservation: reservation,
        }))
    }

    async fn hand_over(&mut self) -> Result<()> {
        let permit = self.room(self.ready_bytes).await?;
        let frames = mem::take(&mut self.ready);
        self.ready_bytes = 0;
        self.handed_over = true;
        self.events
            .send(Event::Frames {
                batch: self.id,
                frames,
                fate: Arc::clone(&self.fate),
                permit,
            })
            .map_err(|_| stopped())
    }

    /// Waits while writers are held back, then for room in the queue. Where waiting would be for
    /// nothing, it is refused.
    async fn room(&self, bytes: u64) -> Result<OwnedSemaphorePermit> {
        if self.shared.throttle.borrow().is_some() {
            let _waiting = self.waits(WaitsFor::Stages);
            let mut throttle = self.shared.throttle.subscribe();
            let goes_on = |held: &Option<HeldBack>| match held {
                Some(held) => held.refusal.is_some(),
                None => true,
            };
            let held = throttle.wait_for(goes_on).await.map_err(|_| stopped())?;
            if let Some(refusal) = held.as_ref().and_then(|held| held.refusal.clone()) {
                return Err(refusal);
            }
        }
        let share = self.shared.queue_share(bytes);
        let queue = Arc::clone(&self.shared.queue);
        if let Ok(permit) = Arc::clone(&queue).try_acquire_many_owned(share) {
            return Ok(permit);
        }
        let _waiting = self.waits(WaitsFor::Log);
        queue.acquire_many_owned(share).await.map_err(|_| stopped())
    }

    /// Shows this writer among those that wait, until the guard is dropped.
    fn waits(&self, what: WaitsFor) -> Entered {
        let producer = self.producer.as_ref();
        let producer = producer.map(|(number, _)| number.name.as_str());
        self.shared.waiting.enter(self.id, producer, what)
    }
}

impl Drop for BatchWriter {
    fn drop(&mut self) {
        if self.handed_over {
            // When the committer is gone its frames count for nothing anyway.
            let _ = self.events.send(Event::Abort { batch: self.id });
        }
    }
}

/// Several changes of one table as one.
fn concat_changes(parts: &[ChangeBatch]) -> Result<ChangeBatch> {
    let failed = |error: arrow::error::ArrowError| Error::invalid(error.to_string());
    let data = concat_batches(&parts[0].data.schema(), parts.iter().map(|part| &part.data));
    let first = parts[0].kind_if_uniform();
    let uniform = first.filter(|kind| {
        let same = |part: &ChangeBatch| part.kind_if_uniform() == Some(*kind);
        parts.iter().all(same)
    });
    Ok(ChangeBatch {
        data: data.map_err(failed)?,
        kinds: match uniform {
            Some(kind) => Kinds::Uniform(kind),
            None => Kinds::Each(concat_kinds(parts)),
        },
        masks: concat_masks(parts),
        scus: Scus::Uniform(0),
        column_scus: None,
    })
}

fn concat_kinds(parts: &[ChangeBatch]) -> UInt8Array {
    let mut bytes = Vec::new();
    for part in parts {
        match &part.kinds {
            Kinds::Uniform(kind) => bytes.resize(bytes.len() + part.rows(), kind.bits()),
            Kinds::Each(kinds) => bytes.extend_from_slice(kinds.values()),
        }
    }
    UInt8Array::from(bytes)
}

fn concat_masks(parts: &[ChangeBatch]) -> Option<BinaryArray> {
    if parts.iter().all(|part| part.masks.is_none()) {
        return None;
    }
    let mut masks = BinaryBuilder::new();
    for part in parts {
        match &part.masks {
            None => (0..part.rows()).for_each(|_| masks.append_null()),
            Some(given) => given.iter().for_each(|mask| masks.append_option(mask)),
        }
    }
    Some(masks.finish())
}

impl ChangeBatch {
    fn kind_if_uniform(&self) -> Option<StoredKind> {
        match &self.kinds {
            Kinds::Uniform(kind) => Some(*kind),
            Kinds::Each(_) => None,
        }
    }
}
