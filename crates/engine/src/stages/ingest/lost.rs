//! Sealed SCUs of which the log no longer tells which batches they held.
//!
//! The manifest still says how many batches an SCU had and which tables they changed. So the
//! database opens: those tables can't be read from this SCU on, all others can. Nothing is read
//! in the place of what is lost, and no batch of it takes part in anything but as an error.

use lazybase_model::{Error, SchemaVersion, TableId};

use super::accepted::{AcceptedBatch, BatchPart, UnsortedScu};
use super::frame::{FRAME_HEADER_BYTES, FramePlace, log_number};
use super::recover::open_sealed;
use crate::env::{Store, StoreError};
use crate::manifest::state::{ScuEntry, ScuTime};

/// How often a log is read before what it holds is given up: a read may fail where the file is
/// whole.
const READS: usize = 4;

/// Whether an SCU can't be opened because its log is gone, too short, or holds other bytes; not
/// where the store only refuses to read it.
pub(super) async fn is_lost(store: &dyn Store, entry: &ScuEntry, error: &Error) -> bool {
    if error.damaged_file().is_none() {
        return false;
    }
    for _ in 0..READS {
        if open_sealed(store, entry).await.is_ok() {
            return false;
        }
    }
    for piece in &entry.log {
        match store.len(&piece.file).await {
            Err(StoreError::NotFound(_)) => return true,
            Err(_) => return false,
            Ok(bytes) if bytes < piece.end => return true,
            Ok(_) => {}
        }
        if store
            .read(&piece.file, piece.start..piece.end)
            .await
            .is_err()
        {
            return false;
        }
    }
    true
}

/// The SCU of an entry whose log met `error`: every read of what it held fails with that.
pub(super) fn lost_scu(entry: &ScuEntry, time: Option<&ScuTime>, error: &Error) -> UnsortedScu {
    let piece = entry.log.first();
    let commit = FramePlace {
        file: piece
            .and_then(|piece| log_number(&piece.file))
            .unwrap_or_default(),
        identity: piece.map_or(0, |piece| piece.identity),
        offset: piece.map_or(0, |piece| piece.start),
        length: FRAME_HEADER_BYTES as u64,
    };
    let raw_bytes = entry.raw_bytes / (entry.tables.len() as u64).max(1);
    let part = |(table, rows): (&TableId, &u64)| BatchPart {
        table: *table,
        version: SchemaVersion(0),
        rows: *rows,
        raw_bytes,
        first_row: 0,
        place: commit,
        held: None,
        lost: Some(error.clone()),
    };
    // Which batch changed which table is not known: the first stands for all of them.
    let batch = |position: u32| AcceptedBatch {
        position,
        written_micros: time.map_or(0, |time| time.first_ack_micros),
        ack_micros: time.map_or(0, |time| match position {
            1 => time.first_ack_micros,
            _ => time.last_ack_micros,
        }),
        rows: if position == 1 { entry.rows } else { 0 },
        raw_bytes: if position == 1 { entry.raw_bytes } else { 0 },
        parts: match position {
            1 => entry.tables.iter().map(part).collect(),
            _ => Vec::new(),
        },
        commit,
        ddl_batch: entry.ddl_batch.filter(|_| position == 1),
    };
    let scu = UnsortedScu::open(entry.scu);
    scu.publish((1..=entry.batches).map(batch).collect());
    scu.seal();
    scu
}
