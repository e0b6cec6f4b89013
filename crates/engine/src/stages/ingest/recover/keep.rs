//! What of a damaged log file is kept when it is set aside: a copy in its place, with the frames
//! before the damage, and behind it those of sealed SCUs, at the places where they stood.
//!
//! Reads the damaged file and writes the copy. In the log that begins again behind the copy nothing
//! counts that stood behind the damage; what the manifest has sealed stays readable by its places.

use std::collections::BTreeSet;

use lazybase_model::Result;

use super::super::frame::{
    FILE_HEADER_BYTES, FRAME_ALIGNMENT, FileHeader, FrameHeader, HeaderState, log_number,
};
use super::scan::{Found, walk};
use crate::env::Store;
use crate::manifest::state::Manifest;

/// Writes to `copy` what is to be kept of a log file whose frames count up to the offset `cut`;
/// where nothing of it counts, `None`, only frames of sealed SCUs. Whether there is anything.
///
/// # Errors
/// The store's: a file that can't be read can't be cut.
pub async fn keep_whole_frames(
    store: &dyn Store,
    manifest: &Manifest,
    (file, cut): (&str, Option<u64>),
    copy: &str,
) -> Result<bool> {
    let Some(number) = log_number(file) else {
        return Ok(false);
    };
    let length = store.len(file).await?;
    if length < FILE_HEADER_BYTES {
        return Ok(false);
    }
    let content = store.read(file, 0..length).await?;
    let valid = match FileHeader::decode(&content, number) {
        HeaderState::Valid(header) => Some(header),
        HeaderState::Absent | HeaderState::Damaged | HeaderState::Newer(_) => None,
    };
    let counts = valid.filter(|_| cut.is_some());
    let cut = cut
        .filter(|_| valid.is_some())
        .unwrap_or(0)
        .clamp(FILE_HEADER_BYTES, length);
    let mut kept = Vec::new();
    for identity in identities(&content, number) {
        let header = FileHeader {
            number,
            identity,
            previous: None,
            durable: FILE_HEADER_BYTES,
        };
        for found in walk(&content, &header, 0) {
            if let Found::Good(offset, frame) = found
                && offset >= cut
                && frame.scu <= manifest.sealed_through
            {
                kept.push(offset..offset + frame.frame_length());
            }
        }
    }
    if counts.is_none() && kept.is_empty() {
        return Ok(false);
    }
    let mut log = store.create_log(copy, length, None).await?;
    if let Some(header) = counts {
        log.write_at(0, &header.encode()).await?;
        log.write_at(
            FILE_HEADER_BYTES,
            &content[FILE_HEADER_BYTES as usize..cut as usize],
        )
        .await?;
    }
    for range in kept {
        let bytes = &content[range.start as usize..range.end as usize];
        log.write_at(range.start, bytes).await?;
    }
    log.sync().await?;
    Ok(true)
}

/// The identities that frames of file `number` carry, whatever its header says.
fn identities(content: &[u8], number: u64) -> BTreeSet<u64> {
    let offsets = (FILE_HEADER_BYTES as usize..content.len()).step_by(FRAME_ALIGNMENT);
    let headers = offsets.filter_map(|at| FrameHeader::decode(&content[at..], number, at as u64));
    headers.map(|header| header.identity).collect()
}
