//! The frames of the log, by their headers, as `docs/formats/log.md` lays them out: which batches
//! they are of, under which SCU they were written, and what they say was durable.
//!
//! Pure, and apart from the database's own reading of them. Checksums are not looked at: this reads
//! what was written, below all damage.

/// The bytes of a file's header, and of a frame's.
pub(crate) const HEADER_BYTES: usize = 64;
/// Frames begin at multiples of this.
const ALIGNMENT: u64 = 16;
const FILE_MAGIC: &[u8] = b"LAZYLOG\n";
const FRAME_MAGIC: &[u8] = b"LBFR";

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
    /// The number of the file before it, and where that ends.
    pub(crate) previous: (u64, u64),
    /// What it holds.
    pub(crate) bytes: Vec<u8>,
    /// Its frames, in order.
    pub(crate) frames: Vec<Frame>,
}

impl LogImage {
    /// The file of this name and content; nothing where it was not begun.
    pub(crate) fn of(name: &str, bytes: &[u8]) -> Option<LogImage> {
        let digits = name.strip_prefix("log/")?.strip_suffix(".log")?;
        let number = u64::from_str_radix(digits, 16).ok()?;
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
            bytes: bytes.to_vec(),
            frames,
        })
    }

    /// The bytes of a frame.
    pub(crate) fn bytes_of(&self, frame: &Frame) -> &[u8] {
        &self.bytes[frame.from as usize..frame.to as usize]
    }
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
    is_whole.then(|| Frame {
        from,
        to: from + length,
        commits,
        scu: number_at(header, 32),
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

#[cfg(test)]
mod tests;
