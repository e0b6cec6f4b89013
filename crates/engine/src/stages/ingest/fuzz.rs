//! Doors for `crate::fuzz`: logs with good checksums around any payloads, and payloads alone.

use bytes::Bytes;
use lazybase_model::{ScuNumber, Table};

use super::frame::commit::Commit;
use super::frame::data::{BatchSchemas, decode_data};
use super::frame::{
    EncodedFrame, FILE_HEADER_BYTES, FileHeader, FrameKind, FrameStamp, aligned, payload_of,
    verify_frame,
};

/// A payload as what it may be.
pub(crate) fn read_payload(bytes: &Bytes, table: &Table) {
    let _ = Commit::decode(bytes);
    let _ = decode_data(bytes, table, &BatchSchemas::of(table), 1);
}

/// A log file with a header and frames whose checksums are good. Each payload is preceded by a
/// byte that says its kind and whether it claims to be compressed, and one for its length in
/// eights; a third says how many bytes it claims to have uncompressed, in two to that power.
pub(crate) fn log_of_payloads(mut bytes: &[u8]) -> Vec<u8> {
    const IDENTITY: u64 = 7;
    let header = FileHeader {
        number: 1,
        identity: IDENTITY,
        previous: None,
        durable: 0,
    };
    let mut log = header.encode().to_vec();
    debug_assert_eq!(log.len() as u64, FILE_HEADER_BYTES, "the header's length");
    while let [kind, eights, power, rest @ ..] = bytes {
        let length = (usize::from(*eights) * 8).min(rest.len());
        let (payload, after) = rest.split_at(length);
        bytes = after;
        let mut head = payload.to_vec();
        head.resize(aligned(length), 0);
        let kinds = [FrameKind::Data, FrameKind::Commit];
        let mut frame = EncodedFrame::new(kinds[usize::from(kind % 2)], head, Bytes::new());
        frame.lz4 = kind & 2 != 0;
        frame.raw_length = 1_u64.checked_shl(u32::from(*power)).unwrap_or(u64::MAX);
        let stamp = FrameStamp {
            identity: IDENTITY,
            scu: ScuNumber(1),
            before: None,
            batch: u64::from(kind / 4),
            durable: 0,
        };
        let header = frame.header(stamp);
        let offset = log.len() as u64;
        let begin = log.len();
        log.extend_from_slice(&header.encode(1, offset));
        log.extend_from_slice(&frame.head);
        let written = Bytes::copy_from_slice(&log[begin..]);
        if let Ok(header) = verify_frame(&written, 1, IDENTITY, offset) {
            let _ = payload_of(&written, &header);
        }
    }
    log
}
