//! One group commit: place the frames, write them, sync once, publish, answer.
//!
//! Reads the frames that were queued; writes the current log file and the open SCU. Invariant
//! GRP-1: a group lies in one file, and everything before it in the log is durable, so that a
//! failure can only concern the group itself.
//!
//! # When the store fails
//!
//! - A write that definitely did not happen: what was written before it goes on; the batches that
//!   miss a frame fail, and the next group overwrites the place.
//! - A write or a sync that may have happened: the file is given up at the point up to which it is
//!   known to be durable. The group is written again to a fresh file, whose header says where the
//!   old one ends; whatever the old one holds behind that point never counts. If that fails too,
//!   the batches fail with `MaybeHappened`, and later groups try a fresh file again. Nothing is
//!   sealed until one of them, or its header alone, is durable: recovery may find the batches.
//!
//! Whether a fresh file can become durable after a sync that failed (LOG-4) is the store's to say.
//! A disk that lacked space, and a store whose files fail each for itself, as those of tests and of
//! the simulator do, believe its sync. A folder's disk whose sync failed otherwise believes none
//! until it is opened again (LOCAL-4): then the fresh file fails like the first, and so does each
//! one after it. No batch waits for that, and readers are served.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lazybase_model::{Error, ErrorKind, Horizon, Result};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::super::accepted::accept_commit;
use super::super::files::CurrentFile;
use super::super::frame::commit::{Commit, CommitPart, ProducerStamp};
use super::super::frame::{EncodedFrame, FramePlace, FrameStamp};
use super::super::gather::Gather;
use super::super::prepared::Prepared;
use super::super::writer::Acknowledgement;
use super::{Committer, Event};
use crate::env::StoreError;
use crate::env::planted::{Planted, is_planted};

/// A frame that waits to be written.
#[derive(Debug)]
pub(super) enum Item {
    /// A data frame of a batch.
    Data {
        batch: u64,
        part: usize,
        frame: EncodedFrame,
    },
    /// The end of a batch.
    Commit(Box<PendingCommit>),
}

/// A batch whose commit frame waits to be written.
#[derive(Debug)]
pub(super) struct PendingCommit {
    pub(super) batch: u64,
    pub(super) producer: Option<ProducerStamp>,
    answer: Answer,
    /// Made when the places of the data frames are known.
    commit: Option<(Commit, EncodedFrame)>,
    place: Option<FramePlace>,
}

/// Who waits for a commit frame to be durable, and for what.
#[derive(Debug)]
pub(super) enum Answer {
    /// A writer, for its batch to be read.
    Published(oneshot::Sender<Result<Acknowledgement>>),
    /// The coordinator, before it names the batch in the manifest. Such a frame is alone in its
    /// group.
    Prepared {
        number: u64,
        events: mpsc::UnboundedSender<Event>,
        answer: oneshot::Sender<Result<Prepared>>,
    },
}

impl Answer {
    /// What the commit frame carries.
    fn number(&self) -> Option<u64> {
        match self {
            Answer::Published(_) => None,
            Answer::Prepared { number, .. } => Some(*number),
        }
    }

    fn fail(self, error: &Error) {
        // Whoever asked may have stopped waiting.
        match self {
            Answer::Published(answer) => drop(answer.send(Err(error.clone()))),
            // Nothing will name the frame, durable or not: the batch certainly is not there.
            Answer::Prepared { answer, .. } => {
                let error = Error::unavailable(error.message()).with_sqlstate(error.sqlstate());
                drop(answer.send(Err(error)));
            }
        }
    }
}

impl PendingCommit {
    pub(super) fn new(
        batch: u64,
        producer: Option<ProducerStamp>,
        answer: Answer,
    ) -> PendingCommit {
        PendingCommit {
            batch,
            producer,
            answer,
            commit: None,
            place: None,
        }
    }
}

impl Item {
    fn batch(&self) -> u64 {
        match self {
            Item::Data { batch, .. } => *batch,
            Item::Commit(commit) => commit.batch,
        }
    }

    fn frame(&self) -> &EncodedFrame {
        match self {
            Item::Data { frame, .. } => frame,
            Item::Commit(commit) => {
                let (_, frame) = commit.commit.as_ref().expect("frames are made when placed");
                frame
            }
        }
    }
}

/// The frames that are written and synced together.
#[derive(Debug, Default)]
pub(super) struct Group {
    items: Vec<Item>,
    /// The bytes of their frames.
    pub(super) bytes: u64,
    /// Room in the queue, given back when the group is done.
    pub(super) permits: Vec<OwnedSemaphorePermit>,
}

impl Group {
    pub(super) fn push(&mut self, item: Item, bytes: u64) {
        self.items.push(item);
        self.bytes += bytes;
    }

    /// Whether a batch of this producer waits to be committed.
    pub(super) fn names_producer(&self, name: &str) -> bool {
        self.items.iter().any(|item| match item {
            Item::Data { .. } => false,
            Item::Commit(commit) => commit
                .producer
                .as_ref()
                .is_some_and(|stamp| stamp.name == name),
        })
    }

    /// Leaves out the frames of a batch that will not be completed.
    pub(super) fn forget(&mut self, batch: u64) {
        let bytes = &mut self.bytes;
        self.items.retain(|item| {
            let stays = item.batch() != batch;
            if !stays {
                *bytes -= item.frame().frame_length();
            }
            stays
        });
    }
}

/// How writing a group's frames ended.
enum Written {
    All,
    /// Only so many items were written whole; the rest definitely were not.
    Some(usize, StoreError),
    /// It can't be told.
    Unknown(StoreError),
}

impl Committer {
    /// Makes the group durable, publishes its batches and answers their writers.
    pub(super) async fn settle(&mut self) {
        let mut group = std::mem::take(&mut self.group);
        if group.items.is_empty() {
            return;
        }
        let failed = match self.write_group(&mut group).await {
            Written::All => None,
            Written::Some(count, error) => {
                self.note_failure(&error.to_string());
                self.fail_items(group.items.split_off(count), &error.into());
                if group.items.is_empty() {
                    return;
                }
                None
            }
            Written::Unknown(error) => Some(error),
        };
        let failed = match failed {
            Some(error) => Some(error),
            None => self.sync_group(&group).await.err(),
        };
        match failed {
            None => self.publish(group).await,
            Some(_) if is_planted(Planted::GroupNotMoved) => self.publish(group).await,
            Some(error) => self.move_group(group, error).await,
        }
    }

    /// Writes the group once more, to a fresh file.
    async fn move_group(&mut self, mut group: Group, first: StoreError) {
        self.note_failure(&first.to_string());
        self.files.abandon();
        let before = self.newest_acknowledged();
        let moved = match self.files.rotate(group.bytes, before).await {
            Err(error) => Err(error),
            Ok(()) => match self.write_group(&mut group).await {
                Written::All => self.sync_group(&group).await,
                Written::Some(_, error) | Written::Unknown(error) => Err(error),
            },
        };
        match moved {
            Ok(()) => self.publish(group).await,
            Err(second) => {
                self.note_failure(&second.to_string());
                self.files.abandon();
                let error = Error::new(
                    ErrorKind::MaybeHappened,
                    "the log could not be made durable",
                )
                .with_detail(format!("{first}; then {second}"))
                .with_hint("nobody has read the batch; send it again under a producer's number");
                self.fail_items(group.items, &error);
            }
        }
    }

    /// Makes the log's end certain after a failure: what is in doubt behind it does not count once
    /// another file's header is durable.
    ///
    /// # Errors
    /// `Unavailable` while the store fails: nothing happened.
    pub(super) async fn settle_end(&mut self) -> Result<()> {
        debug_assert!(self.group.items.is_empty(), "the group was settled before");
        if !self.files.end_in_doubt {
            return Ok(());
        }
        if self.files.current.is_none() {
            let before = self.newest_acknowledged();
            self.files.rotate(0, before).await?;
        }
        let file = self.files.current.as_mut();
        let file = file.expect("a file was begun");
        let header = file.header.encode();
        let durable = match file.file.write_at(0, &header).await {
            Ok(()) => file.file.sync().await,
            Err(error) => Err(error),
        };
        match durable {
            Ok(()) => {
                self.files.note_begun();
                Ok(())
            }
            Err(error) => {
                self.note_failure(&error.to_string());
                self.files.abandon();
                // Whatever became of the header: nothing depends on it yet.
                let what = format!("the log's end is in doubt: {error}");
                Err(Error::unavailable(what).with_hint("try again; nothing has changed"))
            }
        }
    }

    async fn write_group(&mut self, group: &mut Group) -> Written {
        self.place(group);
        let mut buffer = std::mem::take(&mut self.buffer);
        let file = self.files.current.as_mut();
        let file = file.expect("room was made before an item joined the group");
        let scu = self.shared.open_scu().scu();
        file.newest_scu = file.newest_scu.max(scu);
        let mut gather = Gather::new(&mut *file.file, &mut buffer, file.end);
        if !file.header_written {
            gather.start = 0;
            gather.buffer.extend_from_slice(&file.header.encode());
        }
        let mut offset = file.end;
        let mut whole = 0;
        let mut failed = None;
        for (index, item) in group.items.iter().enumerate() {
            let frame = item.frame();
            let stamp = FrameStamp {
                identity: file.header.identity,
                scu,
                before: Some(file.before),
                batch: item.batch(),
                durable: file.end,
            };
            if gather.is_full(frame) {
                if let Err(error) = gather.flush().await {
                    failed = Some(error);
                    break;
                }
                whole = index;
            }
            let header = frame.header(stamp).encode(file.header.number, offset);
            if let Err(error) = gather.frame(&header, frame).await {
                failed = Some(error);
                break;
            }
            offset += frame.frame_length();
        }
        if failed.is_none() {
            failed = gather.flush().await.err();
        }
        let written = gather.written;
        self.shared
            .log_bytes_written
            .fetch_add(written, Ordering::Relaxed);
        self.buffer = buffer;
        match failed {
            None => Written::All,
            Some(error @ StoreError::Maybe { .. }) => Written::Unknown(error),
            Some(error) => {
                self.note_failure(&error.to_string());
                Written::Some(whole, error)
            }
        }
    }

    /// Gives every frame its place, and makes the commit frames, which name places.
    fn place(&mut self, group: &mut Group) {
        let file = self.files.current.as_ref();
        let file = file.expect("room was made before an item joined the group");
        let open = self.shared.open_scu();
        let mut position = open.acknowledged();
        let mut first_rows = std::collections::BTreeMap::new();
        let ack_micros = self.clock.now_micros().max(self.last_ack_micros);
        let mut offset = file.end;
        for item in &mut group.items {
            let length = match item {
                Item::Data { batch, part, frame } => {
                    let length = frame.frame_length();
                    if let Some(batch) = self.batches.get_mut(batch) {
                        batch.parts[*part].place = Some(place_in(file, offset, length));
                    }
                    length
                }
                Item::Commit(pending) => {
                    position += 1;
                    let mut parts = Vec::new();
                    let batch = self.batches.get(&pending.batch);
                    for part in batch.iter().flat_map(|batch| &batch.parts) {
                        let rows = part.rows;
                        let first_row = first_rows
                            .entry(rows.table)
                            .or_insert_with(|| open.table_totals(rows.table).rows);
                        parts.push(CommitPart {
                            table: rows.table,
                            version: rows.version,
                            rows: rows.rows,
                            raw_bytes: rows.raw_bytes,
                            first_row: *first_row,
                            place: part.place.expect("data frames come before their commit"),
                        });
                        *first_row += rows.rows;
                    }
                    let commit = Commit {
                        ack_micros,
                        position,
                        producer: pending.producer.clone(),
                        ddl_batch: pending.answer.number(),
                        manifest: Some(self.shared.manifest.load(Ordering::Relaxed)),
                        parts,
                    };
                    let frame = commit.encode();
                    let length = frame.frame_length();
                    pending.place = Some(place_in(file, offset, length));
                    pending.commit = Some((commit, frame));
                    length
                }
            };
            offset += length;
        }
    }

    async fn sync_group(&mut self, group: &Group) -> Result<(), StoreError> {
        let file = self.files.current.as_mut();
        let file = file.expect("a group was written to it");
        if !is_planted(Planted::SyncSkipped) {
            let synced = file.file.sync().await;
            match synced {
                Err(_) if is_planted(Planted::SyncRetried) => file.file.sync().await?,
                synced => synced?,
            }
        }
        let lengths = group.items.iter().map(|item| item.frame().frame_length());
        file.end += lengths.sum::<u64>();
        self.files.note_begun();
        Ok(())
    }

    /// The group is durable: readers see its batches, then their writers hear of it.
    async fn publish(&mut self, group: Group) {
        *self.shared.failing.lock() = None;
        let open = self.shared.open_scu();
        let before = open.acknowledged();
        let ack_micros = self.clock.now_micros().max(self.last_ack_micros);
        let mut accepted = Vec::new();
        let mut answers = Vec::new();
        for item in group.items {
            let Item::Commit(pending) = item else {
                continue;
            };
            let PendingCommit {
                batch: id,
                producer,
                answer,
                commit,
                place,
            } = *pending;
            let (commit, _) = commit.expect("frames are made when placed");
            let place = place.expect("frames are placed before they are written");
            let parts = self.batches.remove(&id).map(|batch| batch.parts);
            let held = parts.into_iter().flatten().map(|part| part.held);
            let horizon = Horizon::inside(open.scu(), commit.position);
            let batch = accept_commit(commit, place, ack_micros, held);
            let answer = match answer {
                Answer::Published(answer) => answer,
                Answer::Prepared { events, answer, .. } => {
                    let parts = batch.parts.iter().map(|part| part.place.file);
                    self.prepared = Some(parts.chain([place.file]).collect());
                    let clock = self.clock.clone();
                    let open = Arc::clone(&open);
                    // Dropped on its way, it tells that the batch was given up.
                    let _ = answer.send(Ok(Prepared::new(open, batch, clock, events)));
                    continue;
                }
            };
            if let Some(stamp) = producer {
                self.producers.advance(stamp, horizon);
            }
            answers.push((answer, horizon, batch.rows));
            accepted.push(batch);
        }
        if accepted.is_empty() {
            return;
        }
        self.last_ack_micros = ack_micros;
        open.publish(accepted);
        for (answer, horizon, rows) in answers {
            // Whoever asked may have stopped waiting.
            let _ = answer.send(Ok(Acknowledgement {
                horizon,
                ack_micros,
                duplicate: false,
                rows,
            }));
        }
        self.after_publishing(before).await;
    }

    /// Sees to it that the open SCU, which had `before` batches, is sealed in time.
    pub(super) async fn after_publishing(&mut self, before: u32) {
        let open = self.shared.open_scu();
        if before == 0 {
            self.start_age();
        }
        let full = open.log_bytes() >= self.shared.options.seal_bytes;
        if full && self.shared.sealing.load(Ordering::Relaxed) && self.seal().await.is_err() {
            self.start_age();
        }
    }

    /// The batches of these frames can't be completed.
    fn fail_items(&mut self, items: Vec<Item>, error: &Error) {
        for item in items {
            match item {
                // A batch without its commit frame is not there, whatever became of the rest.
                Item::Data { batch, .. } => {
                    let lost = Error::unavailable(error.message());
                    self.lose(
                        batch,
                        match error.detail() {
                            Some(detail) => lost.with_detail(detail),
                            None => lost,
                        },
                    );
                }
                Item::Commit(pending) => {
                    self.lose(pending.batch, error.clone());
                    pending.answer.fail(error);
                }
            }
        }
    }
}

fn place_in(file: &CurrentFile, offset: u64, length: u64) -> FramePlace {
    FramePlace {
        file: file.header.number,
        identity: file.header.identity,
        offset,
        length,
    }
}
