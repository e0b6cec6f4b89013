//! Copies the batches of the last group to a fresh file, so that they are durable before anybody
//! reads them.
//!
//! Reads the end of the last log file; writes one new file. The process may have died between a
//! write and its sync, or after a sync that failed: what a read shows may then be in the machine's
//! memory only, and syncing the old file again could not be trusted. So it is never done.
//!
//! The new file's header comes last: as long as it is not there the file counts for nothing, and
//! from then on the old file ends where it is known to be durable.

use lazybase_model::{Result, ScuNumber};

use super::super::files::LogStart;
use super::super::frame::{
    EncodedFrame, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FramePlace, FrameStamp,
    LogEnd, log_name, read_frame,
};
use super::super::gather::Gather;
use super::FoundCommit;
use crate::env::Env;

/// Copies what lies behind the durable end of the log, and has `commits` name the copies: all that
/// were found after the SCU `sealed_through`.
pub(super) async fn relocate(
    env: &Env,
    log: &mut LogStart,
    commits: &mut [FoundCommit],
    sealed_through: ScuNumber,
) -> Result<()> {
    let Some(previous) = log.previous else {
        return Ok(());
    };
    let behind =
        |place: &FramePlace| place.identity == previous.identity && place.offset >= previous.end;
    let moving = || |found: &&mut FoundCommit| behind(&found.place);
    let bytes: u64 = commits
        .iter_mut()
        .filter(moving())
        .map(|found| moved_bytes(found, behind))
        .sum();
    if bytes == 0 {
        return Ok(());
    }
    let staying = commits.iter().rev().find(|found| !behind(&found.place));
    let before = staying.map_or(sealed_through, |found| found.scu);
    let number = log.next_number;
    let header = FileHeader {
        number,
        identity: env.random.next_u64().max(1),
        previous: Some(previous),
        durable: FILE_HEADER_BYTES + bytes,
    };
    let capacity = (FILE_HEADER_BYTES + bytes).next_multiple_of(4096);
    let name = log_name(number);
    let mut file = env.store.create_log(&name, capacity, None).await?;
    file.write_at(0, &FileHeader::PLACEHOLDER).await?;
    let mut buffer = Vec::new();
    let mut gather = Gather::new(&mut *file, &mut buffer, FILE_HEADER_BYTES);
    let mut offset = FILE_HEADER_BYTES;
    for found in commits.iter_mut().filter(moving()) {
        let place = (&header, before, offset);
        offset = copy_batch(env, &mut gather, place, found, behind).await?;
    }
    gather.flush().await?;
    file.sync().await?;
    file.write_at(0, &header.encode()).await?;
    file.sync().await?;
    log.next_number += 1;
    log.files.push((number, capacity));
    log.begun.insert(number);
    log.previous = Some(LogEnd {
        number,
        identity: header.identity,
        end: header.durable,
    });
    Ok(())
}

/// The bytes of a batch's frames that are copied.
fn moved_bytes(found: &FoundCommit, behind: impl Fn(&FramePlace) -> bool) -> u64 {
    let parts = found.commit.parts.iter().map(|part| part.place);
    let data: u64 = parts
        .filter(|place| behind(place))
        .map(|place| place.length)
        .sum();
    data + found.place.length
}

async fn copy_batch(
    env: &Env,
    gather: &mut Gather<'_>,
    (file, before, start): (&FileHeader, ScuNumber, u64),
    found: &mut FoundCommit,
    behind: impl Fn(&FramePlace) -> bool,
) -> Result<u64> {
    let mut offset = start;
    let stamp = FrameStamp {
        identity: file.identity,
        scu: found.scu,
        before: Some(before),
        batch: found.batch,
        durable: FILE_HEADER_BYTES,
    };
    let placed = |offset: u64, length: u64| FramePlace {
        file: file.number,
        identity: file.identity,
        offset,
        length,
    };
    for part in &mut found.commit.parts {
        if !behind(&part.place) {
            continue;
        }
        let frame = stored_frame(env, part.place).await?;
        let header = frame.header(stamp).encode(file.number, offset);
        gather.frame(&header, &frame).await?;
        part.place = placed(offset, frame.frame_length());
        offset += frame.frame_length();
    }
    let frame = found.commit.encode();
    let header = frame.header(stamp).encode(file.number, offset);
    gather.frame(&header, &frame).await?;
    found.place = placed(offset, frame.frame_length());
    Ok(offset + frame.frame_length())
}

/// A frame as it is stored, to be written to another place.
async fn stored_frame(env: &Env, place: FramePlace) -> Result<EncodedFrame> {
    // Reading it checks it.
    let (header, _) = read_frame(&*env.store, place).await?;
    let name = place.file_name();
    let bytes = env.store.read(&name, place.offset..place.end()).await?;
    let body = bytes.slice(FRAME_HEADER_BYTES..);
    Ok(EncodedFrame {
        kind: header.kind,
        lz4: header.lz4,
        head: Vec::new(),
        body,
        payload_crc: header.payload_crc,
        length: header.length,
        raw_length: header.raw_length,
    })
}
