//! Reading one log file from its first frame to its end.
//!
//! Reads a file whole; writes nothing. Decides what is damage and what is where the log ends: see
//! `recover.rs`.

use std::collections::BTreeMap;

use bytes::Bytes;
use lazybase_model::{Result, ScuNumber};

use super::super::frame::commit::Commit;
use super::super::frame::{
    FILE_HEADER_BYTES, FRAME_ALIGNMENT, FRAME_HEADER_BYTES, FileHeader, FrameDamage, FrameHeader,
    FrameKind, FramePlace, LogEnd, at, damaged, flip_in_header, flip_in_payload, log_name,
    payload_of, verify_frame,
};
use super::{ChainFile, FoundCommit, unreadable};
use crate::env::Store;
use crate::env::planted::{Planted, is_planted};
use crate::manifest::state::Manifest;

/// A torn payload of up to this size looks like a flipped bit by chance once in a thousand times;
/// larger ones must also have a good frame behind them to count as damage.
const LONE_FLIP_BYTES: u64 = 512 << 10;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What a file holds.
#[derive(Debug)]
pub(super) struct FileScan {
    pub(super) header: FileHeader,
    /// Everything before this was durable.
    durable: u64,
    /// Lengths of the good data frames by offset.
    pub(super) data: BTreeMap<u64, u64>,
    /// The commit frames of SCUs that the manifest does not have, but for those of transactions
    /// that it does not know.
    pub(super) commits: Vec<FoundCommit>,
    /// The newest manifest that any of the file's batches was written under.
    pub(super) manifest: u64,
    /// The newest SCU of which an acknowledged batch stands before the file, as its frames say.
    pub(super) before: Option<ScuNumber>,
}

impl FileScan {
    /// The point up to which the file counts without being copied.
    pub(super) fn durable_end(&self) -> LogEnd {
        LogEnd {
            number: self.header.number,
            identity: self.header.identity,
            end: self.durable,
        }
    }
}

/// One frame, or a stretch without one.
pub(super) enum Found {
    Good(u64, FrameHeader),
    /// A good header with a payload that is not.
    BadPayload(u64, FrameHeader, FrameDamage),
    /// No good header here; the next one is at the second offset, if there is one.
    Gap(u64, Option<(u64, FrameHeader)>),
}

/// Reads a file of the chain.
pub(super) async fn scan_file(
    store: &dyn Store,
    manifest: &Manifest,
    file: &ChainFile,
) -> Result<FileScan> {
    let name = log_name(file.header.number);
    let end = file.end.filter(|_| !is_planted(Planted::StaleFrames));
    let end = end.unwrap_or(file.bytes);
    if end > file.bytes {
        return Err(damaged(
            &name,
            file.bytes,
            "the file is shorter than it was",
        ));
    }
    let content = store.read(&name, 0..end).await;
    let content = content.map_err(|error| unreadable(&name, error))?;
    let sealed_end = sealed_end(manifest, &name, &file.header);
    let found = walk(&content, &file.header, sealed_end);
    let durable = match file.end {
        Some(end) => end,
        None => durable_point(&file.header, sealed_end, &found),
    };
    let mut scan = FileScan {
        header: file.header,
        durable,
        data: BTreeMap::new(),
        commits: Vec::new(),
        manifest: 0,
        before: None,
    };
    // In the file that no later one ends.
    let is_end = file.end.is_none() && is_planted(Planted::DamageIsEnd);
    for found in &found {
        let unneeded = |scu: ScuNumber| scu <= manifest.sealed_through;
        match found {
            Found::Good(offset, header) => scan.take(&content, *offset, header, manifest)?,
            // What nothing needs keeps no database from opening.
            Found::BadPayload(_, header, _)
                if header.kind == FrameKind::Commit && unneeded(header.scu) => {}
            Found::Gap(offset, _) if *offset < sealed_end => {}
            Found::BadPayload(offset, header, damage) => {
                let what = damage.describe();
                let flipped = || flipped(&content, file, *offset, Some((header, damage)));
                if is_end || (*offset >= durable && !flipped()) {
                    break;
                }
                // A data frame is missed when a batch names it.
                let counts = header.kind == FrameKind::Commit || *offset >= durable;
                if counts && !unneeded(header.scu) {
                    return Err(damaged(&name, *offset, what));
                }
            }
            Found::Gap(offset, next) => {
                if is_end || (*offset >= durable && !flipped(&content, file, *offset, None)) {
                    break;
                }
                let lost = flip_in_header(
                    &content[*offset as usize..],
                    file.header.number,
                    file.header.identity,
                    *offset,
                );
                let lost = lost.map(|(_, header)| header);
                let mut headers = lost.into_iter().chain(next.map(|(_, header)| header));
                if !headers.any(|header| unneeded(header.scu)) {
                    return Err(damaged(&name, *offset, FrameDamage::Header.describe()));
                }
            }
        }
    }
    Ok(scan)
}

impl FileScan {
    fn take(
        &mut self,
        content: &Bytes,
        offset: u64,
        header: &FrameHeader,
        manifest: &Manifest,
    ) -> Result<()> {
        let length = header.frame_length();
        self.before = self.before.or(header.before);
        if header.kind == FrameKind::Data {
            self.data.insert(offset, length);
            return Ok(());
        }
        let name = log_name(self.header.number);
        let frame = content.slice(offset as usize..(offset + length) as usize);
        let payload = payload_of(&frame, header).map_err(|error| at(error, &name, offset));
        let commit = payload
            .and_then(|payload| Commit::decode(&payload).map_err(|error| at(error, &name, offset)));
        if let Ok(commit) = &commit {
            self.manifest = self.manifest.max(commit.manifest.unwrap_or(0));
        }
        if header.scu <= manifest.sealed_through {
            return Ok(());
        }
        let commit = commit?;
        if !manifest.counts(header.scu, commit.ddl_batch) {
            return Ok(());
        }
        self.commits.push(FoundCommit {
            scu: header.scu,
            batch: header.batch,
            place: FramePlace {
                file: self.header.number,
                identity: self.header.identity,
                offset,
                length,
            },
            commit,
        });
        Ok(())
    }
}

/// All frames of one life of a file, in order, and what lies between them. A frame begins at
/// `known`, or the file ends there: no gap reaches over it.
pub(super) fn walk(content: &Bytes, file: &FileHeader, known: u64) -> Vec<Found> {
    let mut found = Vec::new();
    let mut offset = FILE_HEADER_BYTES;
    while offset < content.len() as u64 {
        let rest = &content[offset as usize..];
        let verified = verify_frame(rest, file.number, file.identity, offset);
        let header = FrameHeader::decode(rest, file.number, offset);
        offset = match (verified, header) {
            (Ok(header), _) => {
                found.push(Found::Good(offset, header));
                offset + header.frame_length()
            }
            (Err(damage @ FrameDamage::Payload { .. }), Some(header)) => {
                found.push(Found::BadPayload(offset, header, damage));
                offset + header.frame_length()
            }
            _ => {
                let next = next_header(content, file, offset + FRAME_ALIGNMENT as u64);
                found.push(Found::Gap(offset, next));
                match next.map(|(next, _)| next) {
                    Some(next) if offset >= known => next,
                    Some(next) => next.min(known),
                    None if offset < known => known,
                    None => break,
                }
            }
        };
    }
    found
}

/// The first good header of this life of the file from `start` on.
fn next_header(content: &Bytes, file: &FileHeader, start: u64) -> Option<(u64, FrameHeader)> {
    let mut offset = start;
    while offset + FRAME_HEADER_BYTES as u64 <= content.len() as u64 {
        let header = FrameHeader::decode(&content[offset as usize..], file.number, offset);
        if let Some(header) = header.filter(|header| header.identity == file.identity) {
            return Some((offset, header));
        }
        offset += FRAME_ALIGNMENT as u64;
    }
    None
}

/// Where the frames of sealed SCUs end in a file, as far as the manifest still says: every commit
/// frame before that point is of a sealed SCU, whose frames are read by their places.
fn sealed_end(manifest: &Manifest, name: &str, file: &FileHeader) -> u64 {
    let pieces = manifest.scus.values().flat_map(|entry| &entry.log);
    let here = pieces.filter(|piece| piece.file == name && piece.identity == file.identity);
    here.map(|piece| piece.end).max().unwrap_or(0)
}

/// How much of the last file is known to have been durable.
fn durable_point(file: &FileHeader, sealed_end: u64, found: &[Found]) -> u64 {
    let said = found.iter().map(|found| match found {
        Found::Good(_, header) | Found::BadPayload(_, header, _) => header.durable,
        Found::Gap(_, next) => next.map_or(0, |(_, header)| header.durable),
    });
    said.fold(file.durable.max(sealed_end), u64::max)
}

/// Whether one flipped bit explains a bad frame behind the durable point, and a write that was cut
/// short does not.
fn flipped(
    content: &Bytes,
    file: &ChainFile,
    offset: u64,
    payload: Option<(&FrameHeader, &FrameDamage)>,
) -> bool {
    let rest = &content[offset as usize..];
    let FileHeader {
        number, identity, ..
    } = file.header;
    let (byte, header) = match payload {
        Some((header, FrameDamage::Payload { expected, actual })) => {
            let behind = offset + header.frame_length();
            let alone = next_header(content, &file.header, behind).is_none();
            if alone && header.length > LONE_FLIP_BYTES {
                return false;
            }
            let bytes = header.frame_length() as usize - FRAME_HEADER_BYTES;
            match flip_in_payload(*expected, *actual, bytes) {
                Some(byte) => (FRAME_HEADER_BYTES + byte, *header),
                None => return false,
            }
        }
        _ => match flip_in_header(rest, number, identity, offset) {
            Some(found) => found,
            None => return false,
        },
    };
    let length = usize::try_from(header.frame_length()).unwrap_or(usize::MAX);
    let frame = &rest[..rest.len().min(length)];
    !looks_unwritten(frame, offset as usize, byte)
}

/// Whether a frame's stored bytes look as if the stretch around `byte` was never written: zeros
/// from there to the end, or in the whole sector.
fn looks_unwritten(frame: &[u8], offset: usize, byte: usize) -> bool {
    let sector = (offset + byte) / SECTOR_BYTES * SECTOR_BYTES;
    let start = sector.saturating_sub(offset);
    let end = (sector + SECTOR_BYTES - offset).min(frame.len());
    let zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    zeros(&frame[byte..]) || zeros(&frame[start..end])
}

/// What a file whose header is lost still says.
pub(super) struct AnyLife {
    /// The newest SCU of any frame that was written to the file under its number.
    pub(super) newest_scu: ScuNumber,
    /// Whether a frame says that the file was synced before.
    pub(super) synced: bool,
}

/// Looks for good frames of file `number`, whatever their identity.
pub(super) fn any_life(content: &[u8], number: u64) -> AnyLife {
    let mut life = AnyLife {
        newest_scu: ScuNumber::ZERO,
        synced: false,
    };
    let mut offset = FILE_HEADER_BYTES as usize;
    while offset + FRAME_HEADER_BYTES <= content.len() {
        if let Some(header) = FrameHeader::decode(&content[offset..], number, offset as u64) {
            life.newest_scu = life.newest_scu.max(header.scu);
            life.synced |= header.durable > FILE_HEADER_BYTES;
        }
        offset += FRAME_ALIGNMENT;
    }
    life
}
