//! Cuts a text file into chunks that end where a record ends; hashes what was taken, and counts its
//! lines.
//!
//! A CSV record may hold line ends inside quotes; a JSON record never holds a bare one. Reads in
//! steps and holds one chunk.

use std::io::Read;

use lazybase_model::{Error, Result};
use twox_hash::XxHash3_128;

use crate::failure;

/// The bytes that a chunk aims at.
pub(super) const CHUNK_BYTES: usize = 4 << 20;
/// The longest record.
const RECORD_BYTES_MAX: usize = 256 << 20;

/// Hashes the part of a file that was taken.
#[derive(Clone)]
pub(super) struct PrefixHash {
    hasher: XxHash3_128,
    bytes: u64,
    lines: u64,
}

impl PrefixHash {
    /// Of nothing.
    pub(super) fn new() -> PrefixHash {
        PrefixHash {
            hasher: XxHash3_128::with_seed(0),
            bytes: 0,
            lines: 0,
        }
    }

    /// Goes on by some bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.bytes += bytes.len() as u64;
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    }

    /// How many bytes were hashed.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many lines ended among them.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// The hash as 32 hex digits.
    pub(super) fn hex(&self) -> String {
        format!("{:032x}", self.hasher.finish_128())
    }

    /// Reads exactly `count` bytes of a file; gives the last one. `None` if the file is shorter.
    pub(super) fn read(&mut self, file: &mut impl Read, count: u64) -> Result<Option<u8>> {
        let mut buffer = vec![0; 1 << 20];
        let mut left = count;
        let mut last = b'\n';
        while left > 0 {
            let step = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
            let read = file.read(&mut buffer[..step]);
            let read = read.map_err(|error| failure::io("file", &error))?;
            if read == 0 {
                return Ok(None);
            }
            self.write(&buffer[..read]);
            last = buffer[read - 1];
            left -= read as u64;
        }
        Ok(Some(last))
    }
}

/// Gives whole records, about [`CHUNK_BYTES`] at a time.
pub(super) struct Chunks<R> {
    input: R,
    /// Whether quotes hide line ends.
    quotes: bool,
    chunk_bytes: usize,
    buffer: Vec<u8>,
    /// Up to here the buffer was searched.
    searched: usize,
    /// Whether the search stands inside quotes.
    inside: bool,
    /// The end of the last whole record seen.
    cut: usize,
    ended: bool,
}

impl<R: Read> Chunks<R> {
    /// Chunks of `input`, of CSV or of JSON lines.
    pub(super) fn new(input: R, quotes: bool, chunk_bytes: usize) -> Chunks<R> {
        Chunks {
            input,
            quotes,
            chunk_bytes,
            buffer: Vec::new(),
            searched: 0,
            inside: false,
            cut: 0,
            ended: false,
        }
    }

    /// The next whole records; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let full = self.buffer.len() >= self.chunk_bytes;
            if self.cut > 0 && (full || self.ended) {
                return Ok(Some(self.take(self.cut)));
            }
            if self.ended {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    // The last record needs no line end.
                    false => Ok(Some(self.take(self.buffer.len()))),
                };
            }
            if self.buffer.len() > RECORD_BYTES_MAX {
                return Err(Error::invalid("a record is longer than 256 MiB")
                    .with_hint("is a quote missing its end?"));
            }
            self.fill()?;
        }
    }

    /// What was read and not given out, and what is left to read.
    pub(super) fn into_inner(self) -> (Vec<u8>, R) {
        (self.buffer, self.input)
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(count);
        self.searched -= count;
        self.cut = 0;
        std::mem::replace(&mut self.buffer, rest)
    }

    fn fill(&mut self) -> Result<()> {
        let start = self.buffer.len();
        let step = (self.chunk_bytes as u64).max(1);
        let read = self.input.by_ref().take(step).read_to_end(&mut self.buffer);
        let read = read.map_err(|error| failure::io("file", &error))?;
        self.ended = (read as u64) < step;
        debug_assert_eq!(self.searched, start, "everything read was searched");
        for (at, byte) in self.buffer.iter().enumerate().skip(start) {
            match byte {
                b'"' if self.quotes => self.inside = !self.inside,
                b'\n' if !self.inside => self.cut = at + 1,
                _ => {}
            }
        }
        self.searched = self.buffer.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
