//! Writing frames to a log file in few writes.
//!
//! Writes through the environment's log file. Small frames are gathered; large bodies go straight
//! from where they lie, so that they are never copied.

use super::frame::EncodedFrame;
use crate::env::{LogFile, StoreError};

/// Smaller bodies are gathered into one write.
const DIRECT_BYTES: usize = 128 << 10;
/// What is gathered at most.
const GATHER_BYTES: usize = 1 << 20;

/// Gathers small frames into one write; large bodies go straight from where they lie.
pub(super) struct Gather<'a> {
    file: &'a mut dyn LogFile,
    pub(super) buffer: &'a mut Vec<u8>,
    /// Where the buffer's first byte goes.
    pub(super) start: u64,
    /// The bytes written so far.
    pub(super) written: u64,
}

impl<'a> Gather<'a> {
    pub(super) fn new(
        file: &'a mut dyn LogFile,
        buffer: &'a mut Vec<u8>,
        start: u64,
    ) -> Gather<'a> {
        buffer.clear();
        Gather {
            file,
            buffer,
            start,
            written: 0,
        }
    }

    /// Whether what was gathered is to be written before this frame: it is much, or the frame's
    /// body goes by itself.
    pub(super) fn is_full(&self, frame: &EncodedFrame) -> bool {
        self.buffer.len() >= GATHER_BYTES || frame.body.len() >= DIRECT_BYTES
    }

    /// Takes a frame; writes it if its body is large.
    pub(super) async fn frame(
        &mut self,
        header: &[u8],
        frame: &EncodedFrame,
    ) -> Result<(), StoreError> {
        self.buffer.extend_from_slice(header);
        self.buffer.extend_from_slice(&frame.head);
        if frame.body.len() < DIRECT_BYTES {
            self.buffer.extend_from_slice(&frame.body);
            return Ok(());
        }
        self.flush().await?;
        self.file.write_at(self.start, &frame.body).await?;
        self.start += frame.body.len() as u64;
        self.written += frame.body.len() as u64;
        Ok(())
    }

    /// Writes what was gathered.
    pub(super) async fn flush(&mut self) -> Result<(), StoreError> {
        if !self.buffer.is_empty() {
            self.file.write_at(self.start, self.buffer).await?;
            self.start += self.buffer.len() as u64;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}
