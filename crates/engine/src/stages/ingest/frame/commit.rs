//! The payload of a commit frame: which data frames make the batch, and who sent it.
//!
//! Reads and writes byte slices only. Invariant LOG-2: a batch counts exactly if its commit frame
//! is durable and, where the frame carries a number, the manifest names it; it stands at that
//! frame's SCU and position.

use bytes::Bytes;
use lazybase_model::{Error, Result, SchemaVersion, TableId};

use super::{EncodedFrame, FrameKind, FramePlace, aligned, u32_at, u64_at};

const FIXED_BYTES: usize = 48;
const PART_BYTES: usize = 64;
const PRODUCER_BYTES: usize = 24;
const MANIFEST_BYTES: usize = 8;
/// What follows the parts: a producer, and the number of a manifest.
const FLAG_PRODUCER: u32 = 1;
const FLAG_MANIFEST: u32 = 2;

/// One data frame of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitPart {
    /// The table that it changes.
    pub(crate) table: TableId,
    /// The schema that it was written under.
    pub(crate) version: SchemaVersion,
    /// Its stored rows.
    pub(crate) rows: u64,
    /// Its uncompressed Arrow bytes.
    pub(crate) raw_bytes: u64,
    /// How many stored rows of the table came before it in the SCU.
    pub(crate) first_row: u64,
    /// Where it stands.
    pub(crate) place: FramePlace,
}

/// Which batch of a named producer this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProducerStamp {
    /// The producer's name.
    pub(crate) name: String,
    /// The number that it gave the batch.
    pub(crate) number: u64,
    /// The hash of the batch's content.
    pub(crate) content_hash: u64,
    /// The session's epoch.
    pub(crate) epoch: u64,
}

/// A commit frame's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    /// The clock when the frame was written, microseconds since 1970.
    pub(crate) ack_micros: i64,
    /// The batch's place in its SCU, from 1.
    pub(crate) position: u32,
    /// Its producer, if it named itself.
    pub(crate) producer: Option<ProducerStamp>,
    /// The number of a batch that came with DDL: the frame counts only if the manifest names it.
    pub(crate) ddl_batch: Option<u64>,
    /// The newest manifest that was durable when the frame was made; none in frames of version 2.
    pub(crate) manifest: Option<u64>,
    /// Its data frames, in order.
    pub(crate) parts: Vec<CommitPart>,
}

/// The bytes of a commit frame's payload that names a manifest, before it is made.
pub(crate) fn commit_payload_bytes(parts: usize, producer: Option<&ProducerStamp>) -> usize {
    payload_bytes(parts, producer, true)
}

fn payload_bytes(parts: usize, producer: Option<&ProducerStamp>, has_manifest: bool) -> usize {
    let producer = producer.map_or(0, |stamp| PRODUCER_BYTES + stamp.name.len());
    let manifest = if has_manifest { MANIFEST_BYTES } else { 0 };
    aligned(FIXED_BYTES + parts * PART_BYTES + manifest + producer)
}

impl Commit {
    /// The stored rows of all parts.
    pub(crate) fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// The uncompressed bytes of all parts.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.raw_bytes).sum()
    }

    /// The commit frame.
    pub(crate) fn encode(&self) -> EncodedFrame {
        let has_manifest = self.manifest.is_some();
        let length = payload_bytes(self.parts.len(), self.producer.as_ref(), has_manifest);
        let flags = match self.producer {
            Some(_) => FLAG_PRODUCER,
            None => 0,
        } | if has_manifest { FLAG_MANIFEST } else { 0 };
        let mut bytes = Vec::with_capacity(length);
        let name_bytes = self.producer.as_ref().map_or(0, |stamp| stamp.name.len());
        bytes.extend_from_slice(&self.ack_micros.to_le_bytes());
        bytes.extend_from_slice(&self.rows().to_le_bytes());
        bytes.extend_from_slice(&self.raw_bytes().to_le_bytes());
        bytes.extend_from_slice(&self.position.to_le_bytes());
        bytes.extend_from_slice(&(self.parts.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&(name_bytes as u32).to_le_bytes());
        bytes.extend_from_slice(&self.ddl_batch.unwrap_or(0).to_le_bytes());
        for part in &self.parts {
            bytes.extend_from_slice(&part.table.0.to_le_bytes());
            bytes.extend_from_slice(&part.version.0.to_le_bytes());
            let place = part.place;
            let numbers = [
                part.rows,
                part.raw_bytes,
                part.first_row,
                place.file,
                place.identity,
                place.offset,
                place.length,
            ];
            numbers
                .iter()
                .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        }
        if let Some(manifest) = self.manifest {
            bytes.extend_from_slice(&manifest.to_le_bytes());
        }
        if let Some(stamp) = &self.producer {
            bytes.extend_from_slice(&stamp.number.to_le_bytes());
            bytes.extend_from_slice(&stamp.content_hash.to_le_bytes());
            bytes.extend_from_slice(&stamp.epoch.to_le_bytes());
            bytes.extend_from_slice(stamp.name.as_bytes());
        }
        bytes.resize(length, 0);
        EncodedFrame::new(FrameKind::Commit, bytes, Bytes::new())
    }

    /// Reads a verified payload.
    ///
    /// # Errors
    /// `Corrupt` when its counts do not fit its length.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Commit> {
        let malformed = || Error::corrupt("a commit frame is malformed");
        if bytes.len() < FIXED_BYTES {
            return Err(malformed());
        }
        let parts = u32_at(bytes, 28) as usize;
        let flags = u32_at(bytes, 32);
        let (has_producer, has_manifest) = (flags & FLAG_PRODUCER != 0, flags & FLAG_MANIFEST != 0);
        let name_bytes = u32_at(bytes, 36) as usize;
        let parts_end = FIXED_BYTES + parts * PART_BYTES;
        let producer_bytes = if has_producer {
            PRODUCER_BYTES + name_bytes
        } else {
            0
        };
        let manifest_bytes = if has_manifest { MANIFEST_BYTES } else { 0 };
        if bytes.len() != aligned(parts_end + manifest_bytes + producer_bytes) {
            return Err(malformed());
        }
        let manifest = has_manifest.then(|| u64_at(bytes, parts_end));
        let at = parts_end + manifest_bytes;
        let producer = match has_producer {
            true => Some(ProducerStamp {
                number: u64_at(bytes, at),
                content_hash: u64_at(bytes, at + 8),
                epoch: u64_at(bytes, at + 16),
                name: std::str::from_utf8(&bytes[at + 24..at + 24 + name_bytes])
                    .map_err(|_| malformed())?
                    .to_owned(),
            }),
            false => None,
        };
        Ok(Commit {
            ack_micros: u64_at(bytes, 0) as i64,
            position: u32_at(bytes, 24),
            producer,
            ddl_batch: Some(u64_at(bytes, 40)).filter(|number| *number != 0),
            manifest,
            parts: bytes[FIXED_BYTES..parts_end]
                .chunks_exact(PART_BYTES)
                .map(decode_part)
                .collect(),
        })
    }
}

fn decode_part(bytes: &[u8]) -> CommitPart {
    CommitPart {
        table: TableId(u32_at(bytes, 0)),
        version: SchemaVersion(u32_at(bytes, 4)),
        rows: u64_at(bytes, 8),
        raw_bytes: u64_at(bytes, 16),
        first_row: u64_at(bytes, 24),
        place: FramePlace {
            file: u64_at(bytes, 32),
            identity: u64_at(bytes, 40),
            offset: u64_at(bytes, 48),
            length: u64_at(bytes, 56),
        },
    }
}
