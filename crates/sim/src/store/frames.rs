//! The frames of the log, by their headers, as `docs/formats/log.md` lays them out: which batches
//! they are of, under which SCU they were written, and what they say was durable.
//!
//! Pure, and apart from the database's own reading of them. Checksums are looked at only by who
//! asks whether a crash cut a write short: this reads what was written, below all damage.

/// The bytes of a file's header, and of a frame's.
pub(crate) const HEADER_BYTES: usize = 64;
/// Frames begin at multiples of this.
const ALIGNMENT: u64 = 16;
const FILE_MAGIC: &[u8] = b"LAZYLOG\n";
const READY_MAGIC: &[u8] = b"LAZYRDY\n";
const FRAME_MAGIC: &[u8] = b"LBFR";
/// The bytes of a commit frame's payload before its parts, and of each of these.
const COMMIT_BYTES: usize = 48;
const PART_BYTES: usize = 64;
/// What a commit frame says beside its parts: the number of a manifest.
const NAMES_MANIFEST: u32 = 2;

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where it begins.
    pub(crate) from: u64,
    /// Where it ends.
    pub(crate) to: u64,
    /// Whether it commits its batch.
    pub(crate) commits: bool,
    /// The SCU that was open when it was written.
    pub(crate) scu: u64,
    /// The newest SCU of which an acknowledged batch stands before its file, where it says so.
    pub(crate) before: Option<u64>,
    /// How much of its file was durable then.
    pub(crate) durable: u64,
    /// The batch.
    pub(crate) batch: u64,
    identity: u64,
}

/// A log file that was begun.
#[derive(Debug, Clone)]
pub(crate) struct LogImage {
    /// Its name.
    pub(crate) name: String,
    /// Its number.
    pub(crate) number: u64,
    /// The number of the file before it, and where that ends: 0 where there is none.
    pub(crate) previous: (u64, u64),
    /// Its identity, and that of the file before it.
    pub(crate) identities: (u64, u64),
    /// What it holds.
    pub(crate) bytes: Vec<u8>,
    /// Its frames, in order.
    pub(crate) frames: Vec<Frame>,
}

impl LogImage {
    /// The file of this name and content; nothing where it was not begun.
    pub(crate) fn of(name: &str, bytes: &[u8]) -> Option<LogImage> {
        let number = file_number(name)?;
        let header = bytes.get(..HEADER_BYTES)?;
        if !header.starts_with(FILE_MAGIC) || number_at(header, 16) != number {
            return None;
        }
        let identity = number_at(header, 24);
        let mut frames = frames_from(bytes, HEADER_BYTES as u64);
        let own = frames.iter().take_while(|frame| frame.identity == identity);
        let own = own.count();
        frames.truncate(own);
        Some(LogImage {
            name: name.to_owned(),
            number,
            previous: (number_at(header, 32), number_at(header, 48)),
            identities: (identity, number_at(header, 40)),
            bytes: bytes.to_vec(),
            frames,
        })
    }

    /// The bytes of a frame.
    pub(crate) fn bytes_of(&self, frame: &Frame) -> &[u8] {
        &self.bytes[frame.from as usize..frame.to as usize]
    }

    /// Whether its header is whole: a crash may have cut its write short.
    pub(crate) fn has_whole_header(&self) -> bool {
        is_whole_header(&self.bytes)
    }

    /// Whether a frame's header is whole.
    pub(crate) fn is_headed(&self, frame: &Frame) -> bool {
        let bytes = self.bytes_of(frame);
        let number = crc32c::crc32c(&self.number.to_le_bytes());
        let place = crc32c::crc32c_append(number, &frame.from.to_le_bytes());
        short_at(bytes, 4) == crc32c::crc32c_append(place, &bytes[8..HEADER_BYTES])
    }

    /// Whether a frame is whole.
    pub(crate) fn is_whole(&self, frame: &Frame) -> bool {
        let bytes = self.bytes_of(frame);
        self.is_headed(frame) && short_at(bytes, 12) == crc32c::crc32c(&bytes[HEADER_BYTES..])
    }

    /// The newest manifest that was durable when a commit frame was made, where it says so.
    pub(crate) fn manifest_of(&self, frame: &Frame) -> Option<u64> {
        let bytes = self.bytes_of(frame);
        let payload = &bytes[HEADER_BYTES..];
        let is_packed = bytes[9] & 1 == 1;
        let names = payload.len() >= COMMIT_BYTES && short_at(payload, 32) & NAMES_MANIFEST != 0;
        if !frame.commits || is_packed || !names {
            return None;
        }
        let parts = short_at(payload, 28) as usize;
        Some(number_at(payload, COMMIT_BYTES + PART_BYTES * parts))
    }
}

/// The number of the file that was being written when a file was made ready, if this is one that is
/// ready.
pub(crate) fn begun_before(name: &str, bytes: &[u8]) -> Option<u64> {
    let is_ready = bytes.len() >= HEADER_BYTES && bytes.starts_with(READY_MAGIC);
    let is_own = is_ready && Some(number_at(bytes, 16)) == file_number(name);
    (is_own && is_whole_header(bytes)).then(|| number_at(bytes, 24))
}

/// The number in a log file's name.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log/")?.strip_suffix(".log")?;
    u64::from_str_radix(digits, 16).ok()
}

/// Whether the checksum of a file's header holds, of one that is begun or ready.
fn is_whole_header(bytes: &[u8]) -> bool {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..HEADER_BYTES]);
    short_at(bytes, 12) == checksum
}

/// The frames of what is written to a file at once, with its header or behind that.
pub(super) fn frames_in(bytes: &[u8]) -> Vec<Frame> {
    let begin = match bytes.starts_with(FRAME_MAGIC) {
        true => 0,
        false => HEADER_BYTES as u64,
    };
    frames_from(bytes, begin)
}

/// The frames that stand one after the other from `offset` on.
fn frames_from(bytes: &[u8], mut offset: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(frame) = frame_at(bytes, offset) {
        offset = frame.to;
        frames.push(frame);
    }
    frames
}

fn frame_at(bytes: &[u8], from: u64) -> Option<Frame> {
    let rest = bytes.get(from as usize..)?;
    let header = rest.get(..HEADER_BYTES)?;
    let commits = match header[8] {
        1 => false,
        2 => true,
        _ => return None,
    };
    let payload = number_at(header, 16).checked_next_multiple_of(ALIGNMENT)?;
    let length = payload.checked_add(HEADER_BYTES as u64)?;
    let is_whole = header.starts_with(FRAME_MAGIC) && length <= rest.len() as u64;
    let scu = number_at(header, 32);
    let back = u64::from(u16::from_le_bytes([header[10], header[11]]));
    is_whole.then(|| Frame {
        from,
        to: from + length,
        commits,
        scu,
        before: back.checked_sub(1).and_then(|back| scu.checked_sub(back)),
        durable: number_at(header, 40),
        batch: number_at(header, 56),
        identity: number_at(header, 24),
    })
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let number = bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok());
    number.map_or(0, u64::from_le_bytes)
}

fn short_at(bytes: &[u8], at: usize) -> u32 {
    let number = bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok());
    number.map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests;
