//! What of a damaged log file is kept when it is set aside: a copy in its place, with the frames
//! before the damage, and behind it those of sealed SCUs, at the places where they stood.
//!
//! Reads the damaged file and writes the copy. In the log that begins again behind the copy nothing
//! counts that stood behind the damage, and it is told whose rows that were; what the manifest has
//! sealed stays readable by its places.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use lazybase_model::{Result, ScuNumber, TableId};

use super::super::frame::commit::Commit;
use super::super::frame::{
    FILE_HEADER_BYTES, FRAME_ALIGNMENT, FileHeader, FrameHeader, FrameKind, HeaderState,
    LOG_FOLDER, log_number, payload_of,
};
use super::scan::{Found, walk};
use crate::env::Store;
use crate::manifest::state::Manifest;

/// What becomes of a log file that is set aside.
#[derive(Debug, Default)]
pub struct KeptFrames {
    /// Whether there is a copy: something of the file counts.
    pub is_copied: bool,
    /// The stored rows of batches that count no more, as far as their commit frames are whole.
    pub given_up: BTreeMap<(ScuNumber, TableId), u64>,
}

/// Writes to `copy` what is to be kept of a log file whose frames count up to the offset `cut`;
/// where nothing of it counts, `None`, only frames of sealed SCUs. What it holds beside that is
/// given up.
///
/// # Errors
/// The store's: a file that can't be read can't be cut.
pub async fn keep_whole_frames(
    store: &dyn Store,
    manifest: &Manifest,
    (file, cut): (&str, Option<u64>),
    copy: &str,
) -> Result<KeptFrames> {
    let mut told = KeptFrames::default();
    let Some(number) = log_number(file) else {
        return Ok(told);
    };
    let length = store.len(file).await?;
    if length < FILE_HEADER_BYTES {
        return Ok(told);
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
        let header = header_of(number, identity);
        for found in walk(&content, &header, 0) {
            let Found::Good(offset, frame) = found else {
                continue;
            };
            match offset >= cut {
                true if frame.scu <= manifest.sealed_through => {
                    kept.push(offset..offset + frame.frame_length());
                }
                true if frame.kind == FrameKind::Commit => {
                    told.give_up(&content, offset, &frame, manifest);
                }
                _ => {}
            }
        }
    }
    if counts.is_none() && kept.is_empty() {
        return Ok(told);
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
    told.is_copied = true;
    Ok(told)
}

impl KeptFrames {
    /// Counts the rows of a batch, if the frame at `offset` is a commit that would count.
    fn give_up(&mut self, content: &Bytes, offset: u64, frame: &FrameHeader, manifest: &Manifest) {
        // One that can't be read tells nothing: the file itself is named.
        let Some(commit) = commit_of(content, offset, frame) else {
            return;
        };
        if manifest.counts(frame.scu, commit.ddl_batch) {
            for part in &commit.parts {
                *self.given_up.entry((frame.scu, part.table)).or_default() += part.rows;
            }
        }
    }
}

/// The greatest id of a table that commit frames of the log name, whether they count or not; none
/// without such frames. Files that can't be read have none that will ever count.
///
/// # Errors
/// The store's, where it can't list the log.
pub async fn newest_table(store: &dyn Store) -> Result<Option<TableId>> {
    let mut newest: Option<TableId> = None;
    each_commit(store, |_, commit| {
        newest = newest.max(commit.parts.iter().map(|part| part.table).max());
    })
    .await?;
    Ok(newest)
}

/// A batch that came with DDL, as its commit frame tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedBatch {
    /// The SCU that it stands in.
    pub scu: ScuNumber,
    /// Its stored rows by the table that they are of.
    pub rows: BTreeMap<TableId, u64>,
}

/// The batches of the log that came with DDL, by the numbers that their commit frames carry,
/// whether they count or not, as far as files can be read.
///
/// # Errors
/// The store's, where it can't list the log.
pub async fn numbered_batches(store: &dyn Store) -> Result<BTreeMap<u64, NumberedBatch>> {
    let mut batches = BTreeMap::new();
    each_commit(store, |frame, commit| {
        let Some(number) = commit.ddl_batch else {
            return;
        };
        let mut rows = BTreeMap::new();
        for part in &commit.parts {
            *rows.entry(part.table).or_default() += part.rows;
        }
        // Where a file was begun again with a copy of a batch, both frames say the same.
        let scu = frame.scu;
        batches.insert(number, NumberedBatch { scu, rows });
    })
    .await?;
    Ok(batches)
}

/// Shows each commit frame of the log that is whole, whether it counts or not.
async fn each_commit(store: &dyn Store, mut show: impl FnMut(&FrameHeader, &Commit)) -> Result<()> {
    for (file, length) in store.list(LOG_FOLDER).await? {
        let Some(number) = log_number(&file).filter(|_| length >= FILE_HEADER_BYTES) else {
            continue;
        };
        let Ok(content) = store.read(&file, 0..length).await else {
            continue;
        };
        for identity in identities(&content, number) {
            for found in walk(&content, &header_of(number, identity), 0) {
                let Found::Good(offset, frame) = found else {
                    continue;
                };
                let is_commit = frame.kind == FrameKind::Commit;
                let commit = is_commit.then(|| commit_of(&content, offset, &frame));
                if let Some(commit) = commit.flatten() {
                    show(&frame, &commit);
                }
            }
        }
    }
    Ok(())
}

/// The header under which the frames of one life of a file are walked, whatever its own says.
fn header_of(number: u64, identity: u64) -> FileHeader {
    FileHeader {
        number,
        identity,
        previous: None,
        durable: FILE_HEADER_BYTES,
    }
}

/// What the commit frame at `offset` says; none if that can't be read.
fn commit_of(content: &Bytes, offset: u64, frame: &FrameHeader) -> Option<Commit> {
    let end = offset + frame.frame_length();
    let whole = content.slice(offset as usize..end as usize);
    let payload = payload_of(&whole, frame).ok()?;
    Commit::decode(&payload).ok()
}

/// The identities that frames of file `number` carry, whatever its header says.
fn identities(content: &[u8], number: u64) -> BTreeSet<u64> {
    let offsets = (FILE_HEADER_BYTES as usize..content.len()).step_by(FRAME_ALIGNMENT);
    let headers = offsets.filter_map(|at| FrameHeader::decode(&content[at..], number, at as u64));
    headers.map(|header| header.identity).collect()
}
