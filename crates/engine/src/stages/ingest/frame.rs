//! Frames: how the log's bytes are laid out, checked and named (`docs/formats/log.md`).
//!
//! Reads and writes byte slices only. A log file is a header and then frames, back to back, each a
//! header of 64 bytes and a payload padded to sixteen. A frame's own checksum covers the file's
//! number and identity, its offset, its SCU and its kind, so that no frame can be taken for one of
//! another file, of the file's earlier life, or of another place.
//!
//! Invariant LOG-1: nothing of a frame is acted on before both its checksums were verified.

pub(crate) mod commit;
pub(crate) mod data;

use std::ops::Range;

use bytes::Bytes;
use lazybase_model::{Error, Result, ScuNumber};

use crate::env::planted::{Planted, is_planted};
use crate::env::{Store, StoreError, StoreResult};
use crate::ipc::lz4_raw_bytes_max;

#[cfg(test)]
mod tests;

/// The bytes of a file's header; the first frame begins after them.
pub(crate) const FILE_HEADER_BYTES: u64 = 64;
/// The bytes of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 64;
/// Frames and the bodies in them begin at multiples of this.
pub(crate) const FRAME_ALIGNMENT: usize = 16;
/// The folder of the log.
pub(crate) const LOG_FOLDER: &str = "log/";

const FILE_MAGIC: [u8; 8] = *b"LAZYLOG\n";
const READY_MAGIC: [u8; 8] = *b"LAZYRDY\n";
/// Version 1 knew no commit frames that carry a number, version 2 none that name a manifest, and no
/// headers of files that are ready, version 3 no frames that say what stands before their file.
const FORMAT_VERSION: u32 = 4;
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"LBFR");
const FLAG_LZ4: u8 = 1;
/// The reversed polynomial of CRC-32C.
const CRC32C_POLYNOMIAL: u32 = 0x82f6_3b78;

/// The name of log file `number`.
pub(crate) fn log_name(number: u64) -> String {
    format!("{LOG_FOLDER}{number:016x}.log")
}

/// The number in a log file's name.
pub(crate) fn log_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(LOG_FOLDER)?.strip_suffix(".log")?;
    match digits.len() {
        16 => u64::from_str_radix(digits, 16).ok(),
        _ => None,
    }
}

/// `bytes` rounded up to the frames' alignment.
pub(crate) fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(FRAME_ALIGNMENT)
}

/// A point in one life of one log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The file's number.
    pub(crate) number: u64,
    /// Its identity.
    pub(crate) identity: u64,
    /// The offset.
    pub(crate) end: u64,
}

/// The header of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// The file's number, as in its name: a recycled file's old header has another.
    pub(crate) number: u64,
    /// Drawn at random for each life of the file.
    pub(crate) identity: u64,
    /// The file before this one and where it ends: nothing behind that point counts, nor does any
    /// file whose number lies between.
    pub(crate) previous: Option<LogEnd>,
    /// Frames up to here were durable before this header was written.
    pub(crate) durable: u64,
}

/// The header of a file that was made ready while another one was being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadyHeader {
    /// The file's number.
    pub(crate) number: u64,
    /// The number of the file that was being written: it is there as long as this header is.
    pub(crate) begun: u64,
    /// Its length.
    pub(crate) begun_bytes: u64,
}

impl ReadyHeader {
    /// The header as stored.
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER_BYTES as usize] {
        let mut bytes = [0; FILE_HEADER_BYTES as usize];
        bytes[0..8].copy_from_slice(&READY_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.begun.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.begun_bytes.to_le_bytes());
        let crc = file_header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of file `number`, if it has one of this kind.
    pub(crate) fn decode(bytes: &[u8], number: u64) -> Option<ReadyHeader> {
        let bytes = bytes.get(..FILE_HEADER_BYTES as usize)?;
        let header = ReadyHeader {
            number: u64_at(bytes, 16),
            begun: u64_at(bytes, 24),
            begun_bytes: u64_at(bytes, 32),
        };
        let is_whole = bytes[0..8] == READY_MAGIC && u32_at(bytes, 12) == file_header_crc(bytes);
        (is_whole && header.number == number).then_some(header)
    }
}

/// What the first bytes of a log file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderState {
    /// A header of this file.
    Valid(FileHeader),
    /// Never written in this life of the file.
    Absent,
    /// Neither.
    Damaged,
    /// Of a newer format.
    Newer(u32),
}

impl FileHeader {
    /// The header as stored.
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER_BYTES as usize] {
        let mut bytes = [0; FILE_HEADER_BYTES as usize];
        bytes[0..8].copy_from_slice(&FILE_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.identity.to_le_bytes());
        if let Some(previous) = self.previous {
            bytes[32..40].copy_from_slice(&previous.number.to_le_bytes());
            bytes[40..48].copy_from_slice(&previous.identity.to_le_bytes());
            bytes[48..56].copy_from_slice(&previous.end.to_le_bytes());
        }
        bytes[56..64].copy_from_slice(&self.durable.to_le_bytes());
        let crc = file_header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Stands in a header's place while the frames behind it are written. The end of every header
    /// is many bits away from it, so a write over it that a crash cut short is never one bit away
    /// from a whole header, as it can be over zeros.
    pub(crate) const PLACEHOLDER: [u8; FILE_HEADER_BYTES as usize] =
        [u8::MAX; FILE_HEADER_BYTES as usize];

    /// Reads the header of file `number` from its first bytes.
    pub(crate) fn decode(bytes: &[u8], number: u64) -> HeaderState {
        let Some(bytes) = bytes.get(..FILE_HEADER_BYTES as usize) else {
            return HeaderState::Absent;
        };
        if bytes.iter().all(|byte| *byte == 0) || bytes == Self::PLACEHOLDER {
            return HeaderState::Absent;
        }
        if bytes[0..8] == READY_MAGIC && u32_at(bytes, 12) == file_header_crc(bytes) {
            return HeaderState::Absent;
        }
        if bytes[0..8] != FILE_MAGIC || u32_at(bytes, 12) != file_header_crc(bytes) {
            return HeaderState::Damaged;
        }
        let version = u32_at(bytes, 8);
        if version > FORMAT_VERSION {
            return HeaderState::Newer(version);
        }
        let previous = LogEnd {
            number: u64_at(bytes, 32),
            identity: u64_at(bytes, 40),
            end: u64_at(bytes, 48),
        };
        let header = FileHeader {
            number: u64_at(bytes, 16),
            identity: u64_at(bytes, 24),
            previous: (previous.end != 0).then_some(previous),
            durable: u64_at(bytes, 56),
        };
        match header.number == number {
            true => HeaderState::Valid(header),
            false => HeaderState::Absent,
        }
    }
}

impl FileHeader {
    /// Whether one flipped bit in these bytes would make a file's header of them.
    pub(crate) fn is_one_bit_off(bytes: &[u8], number: u64) -> bool {
        let mut flipped = bytes.to_vec();
        (0..flipped.len() * 8).any(|bit| {
            flipped[bit / 8] ^= 1 << (bit % 8);
            let state = FileHeader::decode(&flipped, number);
            flipped[bit / 8] ^= 1 << (bit % 8);
            matches!(state, HeaderState::Valid(_) | HeaderState::Newer(_))
        })
    }
}

fn file_header_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[0..12]), &bytes[16..64])
}

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Changes of one table.
    Data,
    /// The end of a batch: names its data frames.
    Commit,
}

/// Where a frame stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramePlace {
    /// The number of the log file.
    pub file: u64,
    /// The identity that its frames carry.
    pub identity: u64,
    /// The offset of the frame's header.
    pub offset: u64,
    /// The bytes of header, payload and padding.
    pub length: u64,
}

impl FramePlace {
    /// The offset after the frame.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// The name of the log file.
    pub fn file_name(&self) -> String {
        log_name(self.file)
    }
}

/// The header of a frame, but for what its place says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    /// Whether the payload is one LZ4 block.
    pub(crate) lz4: bool,
    /// The checksum of the stored payload and its padding.
    pub(crate) payload_crc: u32,
    /// The stored payload's bytes without padding.
    pub(crate) length: u64,
    /// The identity of the file.
    pub(crate) identity: u64,
    /// The SCU that was open when the frame was written; a commit frame's batch stands in it.
    pub(crate) scu: ScuNumber,
    /// The newest SCU of which an acknowledged batch stands in the files before this one, or a
    /// newer one without batches that the manifest has; not said in version 3, nor where it is far
    /// back.
    pub(crate) before: Option<ScuNumber>,
    /// The batch.
    pub(crate) batch: u64,
    /// How much of this file was durable when the frame was written: a bad frame before that point
    /// is damage, one behind it may be a write that a crash cut short.
    pub(crate) durable: u64,
    /// The payload's bytes before compression.
    pub(crate) raw_length: u64,
}

impl FrameHeader {
    /// The header as stored at `offset` of file `number`.
    pub(crate) fn encode(&self, number: u64, offset: u64) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
        bytes[8] = match self.kind {
            FrameKind::Data => 1,
            FrameKind::Commit => 2,
        };
        bytes[9] = if self.lz4 { FLAG_LZ4 } else { 0 };
        bytes[10..12].copy_from_slice(&self.scus_back().to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.identity.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.scu.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.durable.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.raw_length.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.batch.to_le_bytes());
        let crc = frame_header_crc(&bytes, number, offset);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// How many SCUs `before` lies back, counted from 1; 0 where it is not said.
    fn scus_back(&self) -> u16 {
        let back = |before: ScuNumber| {
            let back = self.scu.0.checked_sub(before.0)?;
            u16::try_from(back).ok()?.checked_add(1)
        };
        self.before.and_then(back).unwrap_or(0)
    }

    /// Reads a header that stands at `offset` of file `number`; `None` if there is none.
    pub(crate) fn decode(bytes: &[u8], number: u64, offset: u64) -> Option<FrameHeader> {
        let bytes = bytes.get(..FRAME_HEADER_BYTES)?;
        if u32_at(bytes, 0) != FRAME_MAGIC
            || u32_at(bytes, 4) != frame_header_crc(bytes, number, offset)
        {
            return None;
        }
        let scu = u64_at(bytes, 32);
        let back = u64::from(u16::from_le_bytes([bytes[10], bytes[11]]));
        let before = back.checked_sub(1).and_then(|back| scu.checked_sub(back));
        Some(FrameHeader {
            kind: match bytes[8] {
                1 => FrameKind::Data,
                2 => FrameKind::Commit,
                _ => return None,
            },
            lz4: bytes[9] & FLAG_LZ4 != 0,
            payload_crc: u32_at(bytes, 12),
            length: u64_at(bytes, 16),
            identity: u64_at(bytes, 24),
            scu: ScuNumber(scu),
            before: before.map(ScuNumber),
            batch: u64_at(bytes, 56),
            durable: u64_at(bytes, 40),
            raw_length: u64_at(bytes, 48),
        })
    }

    /// The bytes of the whole frame.
    pub(crate) fn frame_length(&self) -> u64 {
        let padded = self.length.checked_next_multiple_of(FRAME_ALIGNMENT as u64);
        padded.map_or(u64::MAX, |bytes| {
            bytes.saturating_add(FRAME_HEADER_BYTES as u64)
        })
    }
}

fn frame_header_crc(bytes: &[u8], number: u64, offset: u64) -> u32 {
    let place = crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), &offset.to_le_bytes());
    crc32c::crc32c_append(place, &bytes[8..FRAME_HEADER_BYTES])
}

/// The byte whose one flipped bit explains that these first 64 bytes are no frame's header, and
/// the header that they would be.
pub(crate) fn flip_in_header(
    bytes: &[u8],
    number: u64,
    identity: u64,
    offset: u64,
) -> Option<(usize, FrameHeader)> {
    let mut flipped = bytes.get(..FRAME_HEADER_BYTES)?.to_vec();
    (0..FRAME_HEADER_BYTES * 8).find_map(|bit| {
        flipped[bit / 8] ^= 1 << (bit % 8);
        let header = FrameHeader::decode(&flipped, number, offset);
        flipped[bit / 8] ^= 1 << (bit % 8);
        let header = header.filter(|header| header.identity == identity);
        header.map(|header| (bit / 8, header))
    })
}

/// The byte, of `bytes` many, whose one flipped bit explains that their checksum is `actual` and
/// not `expected`. A checksum is linear, so the flip's place shows in the difference alone.
pub(crate) fn flip_in_payload(expected: u32, actual: u32, bytes: usize) -> Option<usize> {
    let difference = expected ^ actual;
    let mut flip = CRC32C_POLYNOMIAL;
    for bit in (0..bytes * 8).rev() {
        if flip == difference {
            return Some(bit / 8);
        }
        flip = (flip >> 1) ^ (CRC32C_POLYNOMIAL & 0u32.wrapping_sub(flip & 1));
    }
    None
}

/// A frame that is ready but for its place: the payload in two parts, so that a large body is
/// never copied.
#[derive(Debug, Clone)]
pub(crate) struct EncodedFrame {
    pub(crate) kind: FrameKind,
    pub(crate) lz4: bool,
    /// The payload's first part, a multiple of the alignment long unless the body is empty.
    pub(crate) head: Vec<u8>,
    /// The rest, padding included.
    pub(crate) body: Bytes,
    pub(crate) payload_crc: u32,
    pub(crate) length: u64,
    pub(crate) raw_length: u64,
}

impl EncodedFrame {
    /// A frame of a payload that lies in two parts, each a multiple of the alignment long.
    pub(crate) fn new(kind: FrameKind, head: Vec<u8>, body: Bytes) -> EncodedFrame {
        debug_assert_eq!(head.len() % FRAME_ALIGNMENT, 0, "heads are padded");
        debug_assert_eq!(body.len() % FRAME_ALIGNMENT, 0, "bodies are padded");
        let length = (head.len() + body.len()) as u64;
        EncodedFrame {
            kind,
            lz4: false,
            payload_crc: crc32c::crc32c_append(crc32c::crc32c(&head), &body),
            head,
            body,
            length,
            raw_length: length,
        }
    }

    /// The same frame with its payload as one LZ4 block, where that is smaller.
    pub(crate) fn compressed(self) -> EncodedFrame {
        let raw = [&self.head[..], &self.body[..]].concat();
        let mut block = lz4_flex::block::compress(&raw);
        if block.len() >= raw.len() {
            return self;
        }
        let length = block.len() as u64;
        block.resize(aligned(block.len()), 0);
        EncodedFrame {
            kind: self.kind,
            lz4: true,
            payload_crc: crc32c::crc32c(&block),
            head: Vec::new(),
            body: Bytes::from(block),
            length,
            raw_length: raw.len() as u64,
        }
    }

    /// The bytes of the whole frame.
    pub(crate) fn frame_length(&self) -> u64 {
        (FRAME_HEADER_BYTES + self.head.len() + self.body.len()) as u64
    }

    /// The frame's header for its place.
    pub(crate) fn header(&self, stamp: FrameStamp) -> FrameHeader {
        FrameHeader {
            kind: self.kind,
            lz4: self.lz4,
            payload_crc: self.payload_crc,
            length: self.length,
            identity: stamp.identity,
            scu: stamp.scu,
            before: stamp.before,
            batch: stamp.batch,
            durable: stamp.durable,
            raw_length: self.raw_length,
        }
    }
}

/// What the committer adds to a frame's header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameStamp {
    pub(crate) identity: u64,
    pub(crate) scu: ScuNumber,
    pub(crate) before: Option<ScuNumber>,
    pub(crate) batch: u64,
    pub(crate) durable: u64,
}

/// Why a frame's bytes are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameDamage {
    /// There is no header of this place.
    Header,
    /// The header is good; the payload's checksum is not the expected one.
    Payload {
        /// What the header says.
        expected: u32,
        /// What the bytes give.
        actual: u32,
    },
}

/// Verifies the frame that begins `bytes` at `offset` of one life of a file.
pub(crate) fn verify_frame(
    bytes: &[u8],
    number: u64,
    identity: u64,
    offset: u64,
) -> Result<FrameHeader, FrameDamage> {
    let header = FrameHeader::decode(bytes, number, offset).ok_or(FrameDamage::Header)?;
    let length = usize::try_from(header.frame_length()).map_err(|_| FrameDamage::Header)?;
    if header.identity != identity || bytes.len() < length {
        return Err(FrameDamage::Header);
    }
    let actual = crc32c::crc32c(&bytes[FRAME_HEADER_BYTES..length]);
    match actual == header.payload_crc || is_planted(Planted::TornBatchAccepted) {
        true => Ok(header),
        false => Err(FrameDamage::Payload {
            expected: header.payload_crc,
            actual,
        }),
    }
}

/// The payload of a verified frame, decompressed.
pub(crate) fn payload_of(frame: &Bytes, header: &FrameHeader) -> Result<Bytes> {
    let length = header.length as usize;
    let stored = frame.slice(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + length);
    if !header.lz4 {
        return Ok(stored);
    }
    let raw_length = usize::try_from(header.raw_length)
        .ok()
        .filter(|length| *length <= lz4_raw_bytes_max(stored.len()))
        .ok_or_else(|| Error::corrupt("a log frame has an impossible length"))?;
    lz4_flex::block::decompress(&stored, raw_length)
        .map(Bytes::from)
        .map_err(|error| {
            Error::corrupt("a log frame does not decompress").with_detail(error.to_string())
        })
}

/// Reads a frame from the log, verified and decompressed.
///
/// # Errors
/// `Corrupt`, naming file and offset, when the frame is not there or its checksums do not hold.
pub(crate) async fn read_frame(
    store: &dyn Store,
    place: FramePlace,
) -> Result<(FrameHeader, Bytes)> {
    let name = place.file_name();
    let bytes = match read_again(store, &name, place.offset..place.end()).await {
        Ok(bytes) => bytes,
        Err(StoreError::NotFound(_)) => {
            return Err(damaged(&name, place.offset, "the file is gone"));
        }
        Err(error @ StoreError::TooShort { .. }) => {
            let what = "a frame can't be read";
            return Err(damaged(&name, place.offset, what).with_detail(error.reason()));
        }
        Err(StoreError::Read { reason, .. }) => {
            return Err(damaged(&name, place.offset, "a frame can't be read").with_detail(reason));
        }
        Err(error) => return Err(error.into()),
    };
    let header = verify_frame(&bytes, place.file, place.identity, place.offset)
        .map_err(|damage| damaged(&name, place.offset, damage.describe()))?;
    if header.frame_length() != place.length {
        return Err(damaged(&name, place.offset, "a frame has another length"));
    }
    let payload = payload_of(&bytes, &header).map_err(|error| at(error, &name, place.offset))?;
    Ok((header, payload))
}

/// How often bytes of the log are read before they count as damaged: where all of many frames are
/// needed, one read that fails for a moment must not make the whole of them unreadable.
const READS: usize = 3;

/// Bytes of the log, read again at once where the store could not read them.
///
/// # Errors
/// As the store's last try.
pub(crate) async fn read_again(
    store: &dyn Store,
    name: &str,
    range: Range<u64>,
) -> StoreResult<Bytes> {
    let mut reads = 1;
    loop {
        match store.read(name, range.clone()).await {
            Err(StoreError::Read { .. }) if reads < READS => reads += 1,
            read => return read,
        }
    }
}

impl FrameDamage {
    /// The damage in words.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            FrameDamage::Header => "there is no good frame header",
            FrameDamage::Payload { .. } => "a frame's checksum does not hold",
        }
    }
}

/// An error that names a place in the log.
pub(crate) fn damaged(file: &str, offset: u64, what: &str) -> Error {
    Error::corrupt(format!("{file} at offset {offset}: {what}"))
        .with_file(file)
        .with_offset(offset)
        .with_hint("`lazybase repair --dry-run` says what is whole and what is lost")
}

/// Reads a file's header back.
///
/// # Errors
/// `Corrupt`, naming the file, when it is damaged.
pub(crate) async fn check_header(store: &dyn Store, number: u64) -> Result<()> {
    let name = log_name(number);
    let first = match store.read(&name, 0..FILE_HEADER_BYTES).await {
        Ok(first) => first,
        Err(error) => return Err(damaged(&name, 0, &error.reason())),
    };
    match FileHeader::decode(&first, number) {
        HeaderState::Valid(_) => Ok(()),
        _ => Err(damaged(&name, 0, "the file's header is damaged")),
    }
}

/// An error with a place in the log before its message.
pub(crate) fn at(error: Error, file: &str, offset: u64) -> Error {
    error
        .within(format!("{file} at offset {offset}"))
        .with_file(file)
}

/// The little-endian number at `offset`, inside `bytes`.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

/// The little-endian number at `offset`, inside `bytes`.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}
