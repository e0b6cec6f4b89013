//! Little-endian numbers of the persisted index parts: written to a vector, read with a check of
//! every length, so that bytes that lie give an error and never a panic.

use lazybase_model::{Error, Result};

pub(super) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Reads a byte slice from its front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Front<'b>(pub(super) &'b [u8]);

impl<'b> Front<'b> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'b [u8]> {
        if self.0.len() < length {
            return Err(Error::corrupt("the bytes end too early"));
        }
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// A count or length that is about to be used as one.
    pub(super) fn length(&mut self) -> Result<usize> {
        Ok(self.u32()? as usize)
    }
}
