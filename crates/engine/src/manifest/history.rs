//! When SCUs came to be, long after no horizon asks for them: rows name their SCU for as long as
//! they live, and the column `_time` tells its time (section 3.2 of the paper: a time stamp for
//! each row).
//!
//! ```text
//!   times of the manifest --retire--> tail: two bytes an SCU --archive--> files, joined by and by
//! ```
//!
//! What a retirement forgets of the manifest's times goes to a tail of delta-coded milliseconds. A
//! tail that has grown long moves into a file of its own, and files of like size are joined; so
//! years of SCUs of a second cost the manifest some hundred entries, and the disk less than two
//! bytes an SCU. Invariant HIST-1: files and tail adjoin, and end right before the first SCU whose
//! times the manifest still has. Pure.

use lazybase_model::{Error, Result, ScuNumber};
use serde::{Deserialize, Serialize};
use std::io::Read;

use super::state::ScuTime;

/// The first bytes of a file of times.
pub const MAGIC: [u8; 8] = *b"LAZYTIM\n";
/// The version that this code writes and reads.
pub const VERSION: u32 = 1;
/// Magic, version, count, first SCU, first time, length of what was compressed.
const HEADER_BYTES: usize = 36;

/// A tail that is longer moves into a file.
pub const TAIL_SCUS: u64 = 1024;
/// So many files of like size become one.
const JOINED_FILES: usize = 16;
/// A file with more SCUs is joined with no other.
const FILE_SCUS_MAX: u64 = 1 << 19;

/// The times of SCUs that no horizon asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScuHistory {
    /// Older ones, in files that adjoin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<TimesFile>,
    /// The newest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TimesTail>,
}

/// A file of times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimesFile {
    /// Its name.
    pub file: String,
    /// The first SCU.
    pub first: ScuNumber,
    /// The last SCU.
    pub last: ScuNumber,
    /// Its length in bytes.
    pub bytes: u64,
    /// CRC-32C of all its bytes.
    pub crc32c: u32,
}

/// Times that follow each other, as deltas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimesTail {
    /// The first SCU.
    pub first: ScuNumber,
    /// The last SCU.
    pub last: ScuNumber,
    /// The time of the first, in milliseconds since 1970.
    pub first_millis: i64,
    /// The time of the last.
    pub last_millis: i64,
    /// For each SCU after the first, how much later it came to be: zigzag, LEB128; hexadecimal.
    #[serde(with = "hexadecimal")]
    pub deltas: Vec<u8>,
}

mod hexadecimal {
    use lazybase_model::CellBytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        CellBytes(bytes.to_vec()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        CellBytes::deserialize(from).map(|bytes| bytes.0)
    }
}

/// The time that the columns `_time` show for an SCU: when its first batch was written to the log,
/// in whole milliseconds. It is the same from then on, wherever the SCU's rows are, and after every
/// crash, for the log tells it.
pub fn shown_millis(first_ack_micros: i64) -> i64 {
    first_ack_micros.div_euclid(1000)
}

impl ScuHistory {
    /// Whether nothing was ever forgotten.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.tail.is_none()
    }

    /// The last SCU that it knows.
    pub fn last(&self) -> Option<ScuNumber> {
        let tail = self.tail.as_ref().map(|tail| tail.last);
        tail.or(self.files.last().map(|file| file.last))
    }

    /// The file that knows an SCU.
    pub fn file_of(&self, scu: ScuNumber) -> Option<&TimesFile> {
        let at = self.files.partition_point(|file| file.last < scu);
        self.files.get(at).filter(|file| file.first <= scu)
    }

    /// Takes the times of the next SCU.
    ///
    /// # Errors
    /// `Internal` when it is not the next.
    pub(super) fn push(&mut self, scu: ScuNumber, time: ScuTime) -> Result<()> {
        if self.last().is_some_and(|last| last.next() != scu) {
            let message = format!("the times of SCU {scu} don't follow {:?}", self.last());
            return Err(Error::internal(message));
        }
        let millis = shown_millis(time.first_ack_micros);
        match &mut self.tail {
            Some(tail) => tail.push(millis),
            None => self.tail = Some(TimesTail::of(scu, &[millis])?),
        }
        Ok(())
    }

    /// Takes a file that holds what the newest `replaces` files and the tail up to its last SCU
    /// held.
    ///
    /// # Errors
    /// `Conflict` when it does not.
    pub(super) fn adopt(&mut self, file: &TimesFile, replaces: usize) -> Result<()> {
        let wrong = || {
            let message = format!("{} does not hold what it replaces", file.file);
            Error::conflict(message)
        };
        let kept = self.files.len().checked_sub(replaces).ok_or_else(wrong)?;
        let tail = self.tail.take().ok_or_else(wrong)?;
        let first = self.files.get(kept).map_or(tail.first, |file| file.first);
        let holds = file.first == first && tail.first <= file.last && file.last <= tail.last;
        if !holds {
            return Err(wrong());
        }
        self.files.truncate(kept);
        self.files.push(file.clone());
        if file.last < tail.last {
            let moved = (file.last.0 - tail.first.0 + 1) as usize;
            self.tail = Some(TimesTail::of(file.last.next(), &tail.millis()?[moved..])?);
        }
        Ok(())
    }

    /// How many of the newest files the next file joins, if the tail is long enough for one.
    pub fn due(&self) -> Option<usize> {
        let tail = self.tail.as_ref()?;
        let mut scus = tail.last.0 - tail.first.0 + 1;
        if scus < TAIL_SCUS {
            return None;
        }
        let mut joined = 0;
        loop {
            // Those of the size of what is at hand: at most twice as long.
            let left = &self.files[..self.files.len() - joined];
            let alike = left.iter().rev().take_while(|file| file.scus() <= 2 * scus);
            let alike: Vec<u64> = alike.map(TimesFile::scus).collect();
            let all = scus + alike.iter().sum::<u64>();
            if alike.len() + 1 < JOINED_FILES || all > FILE_SCUS_MAX {
                return Some(joined);
            }
            joined += alike.len();
            scus = all;
        }
    }
}

impl TimesFile {
    /// How many SCUs it knows.
    pub fn scus(&self) -> u64 {
        self.last.0 - self.first.0 + 1
    }
}

impl TimesTail {
    /// Times that begin with SCU `first`.
    ///
    /// # Errors
    /// `Internal` when there are none.
    pub fn of(first: ScuNumber, millis: &[i64]) -> Result<TimesTail> {
        let [begin, rest @ ..] = millis else {
            return Err(Error::internal("times of no SCU"));
        };
        let mut tail = TimesTail {
            first,
            last: first,
            first_millis: *begin,
            last_millis: *begin,
            deltas: Vec::with_capacity(rest.len() * 2),
        };
        rest.iter().for_each(|millis| tail.push(*millis));
        Ok(tail)
    }

    fn push(&mut self, millis: i64) {
        let delta = millis.wrapping_sub(self.last_millis);
        let mut rest = ((delta << 1) ^ (delta >> 63)) as u64;
        while rest >= 0x80 {
            self.deltas.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.deltas.push(rest as u8);
        self.last_millis = millis;
        self.last = self.last.next();
    }

    /// The times, one an SCU.
    ///
    /// # Errors
    /// `Corrupt` when the deltas are not those of so many SCUs.
    pub fn millis(&self) -> Result<Vec<i64>> {
        let mut millis = vec![self.first_millis];
        let (mut value, mut shift) = (0_u64, 0_u32);
        for byte in &self.deltas {
            if shift > 63 {
                return Err(Error::corrupt("a time is longer than 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                let delta = (value >> 1) as i64 ^ -((value & 1) as i64);
                let last = millis.last().copied().unwrap_or_default();
                millis.push(last.wrapping_add(delta));
                (value, shift) = (0, 0);
            }
        }
        let after_first = self.last.0.checked_sub(self.first.0);
        match shift == 0 && after_first == Some(millis.len() as u64 - 1) {
            true => Ok(millis),
            false => Err(Error::corrupt("times are not those of their SCUs")),
        }
    }

    /// The file of these times, and its bytes.
    ///
    /// # Errors
    /// `Internal` when they can't be compressed.
    pub fn into_file(self, file: String) -> Result<(TimesFile, Vec<u8>)> {
        let bytes = self.encode()?;
        let file = TimesFile {
            file,
            first: self.first,
            last: self.last,
            bytes: bytes.len() as u64,
            crc32c: crc32c::crc32c(&bytes),
        };
        Ok((file, bytes))
    }

    /// The bytes of a file of these times.
    fn encode(&self) -> Result<Vec<u8>> {
        let block = zstd::bulk::compress(&self.deltas, 3)
            .map_err(|error| Error::internal(format!("times can't be compressed: {error}")))?;
        let count = self.last.0 - self.first.0 + 1;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + block.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(count as u32).to_le_bytes());
        bytes.extend_from_slice(&self.first.0.to_le_bytes());
        bytes.extend_from_slice(&self.first_millis.to_le_bytes());
        bytes.extend_from_slice(&(self.deltas.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&block);
        Ok(bytes)
    }

    /// The times of a file whose checksum was compared.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no such file.
    pub fn decode(bytes: &[u8]) -> Result<TimesTail> {
        let wrong = || Error::corrupt("it is no file of times");
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return Err(wrong());
        }
        let four = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
        if four(8) != VERSION {
            let message = format!("it has version {} of the format", four(8));
            return Err(Error::corrupt(message));
        }
        let length = four(32) as usize;
        let broken = |error: std::io::Error| Error::corrupt(format!("its times: {error}"));
        let mut deltas = Vec::new();
        // What the length claims is taken only as it comes.
        zstd::stream::read::Decoder::new(&bytes[HEADER_BYTES..])
            .map_err(broken)?
            .take(length as u64 + 1)
            .read_to_end(&mut deltas)
            .map_err(broken)?;
        if deltas.len() != length {
            return Err(wrong());
        }
        let first = ScuNumber(eight(16));
        let mut tail = TimesTail {
            first,
            last: ScuNumber(first.0.wrapping_add(u64::from(four(12))).wrapping_sub(1)),
            first_millis: eight(24) as i64,
            last_millis: 0,
            deltas,
        };
        let millis = tail.millis()?;
        tail.last_millis = millis.last().copied().ok_or_else(wrong)?;
        Ok(tail)
    }
}

#[cfg(test)]
mod tests;
