//! Files of JSON that know their own checksum: one line that says what the file is, whose last
//! field is the checksum, then a body. The manifest's files and those of backups are such files.
//!
//! ```text
//!   {...,"crc32c":"a3f40692"}\n      CRC-32C of every byte of the file but these eight digits
//!   {...}\n
//! ```
//!
//! Pure. Invariant MF-1 (`manifest/file.rs`): the checksum is compared before anything else in the
//! file is believed.

use std::ops::Range;

use serde::Serialize;

/// What a header's checksum is before it is known.
pub(crate) const NO_CHECKSUM: &str = "00000000";

/// The longest first line.
const HEADER_BYTES_MAX: usize = 256;
/// Eight digits, a quotation mark and a brace end the first line.
const TAIL_BYTES: usize = 10;

/// A file of this header, whose last field is [`NO_CHECKSUM`], and what `body` writes.
pub(crate) fn encode(
    header: &impl Serialize,
    body: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>,
) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(header)?;
    let digits = bytes.len() - TAIL_BYTES..bytes.len() - 2;
    bytes.push(b'\n');
    body(&mut bytes)?;
    let sum = checksum(&bytes, &digits);
    bytes[digits].copy_from_slice(sum.as_bytes());
    Ok(bytes)
}

/// The first line of a file, and its body, once the checksum was compared.
///
/// # Errors
/// What is wrong.
pub(crate) fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let start = &bytes[..bytes.len().min(HEADER_BYTES_MAX)];
    let end = start.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or("the first line is damaged")?;
    let digits = end.saturating_sub(TAIL_BYTES)..end.saturating_sub(2);
    if digits.len() != 8 || checksum(bytes, &digits).as_bytes() != &bytes[digits] {
        return Err("the checksum does not match");
    }
    Ok((&bytes[..end], &bytes[end + 1..]))
}

fn checksum(bytes: &[u8], digits: &Range<usize>) -> String {
    let before = crc32c::crc32c(&bytes[..digits.start]);
    let sum = crc32c::crc32c_append(before, &bytes[digits.end..]);
    format!("{sum:08x}")
}
