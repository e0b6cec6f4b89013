//! What the database reads from disk, as functions over bytes: for fuzzing, and for the corpus that
//! tests read. No bytes make one of them panic, hang, or take memory that they do not pay for.
//!
//! ```text
//!   bytes -> as a file                -> the checksum refuses nearly all of them
//!         -> as what a checksum covers -> the checksum is put right, so that parsers see the bytes
//! ```
//!
//! Reads nothing but its argument, and writes to stores in memory. Nothing else calls it.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use bytes::Bytes;
use futures::executor::block_on;
use lazybase_model::{Column, DatabaseId, ScuNumber, Table, TableId, ViewId};

use crate::backup::Backup;
use crate::describe::describe_file;
use crate::env::memory::MemoryStore;
use crate::env::{Env, Store, StoreResult};
use crate::key::Key;
use crate::manifest::file::{Content, FileKind, decode, encode_checkpoint, framed};
use crate::manifest::history::TimesTail;
use crate::manifest::{Manifest, SegmentFormat, SegmentMeta, check};
use crate::segment::encode::decode_extent;
use crate::segment::parquet_format::MAGIC as PARQUET_BLOCK;
use crate::segment::{ExtentIndex, RowLayout, verify_segment};
use crate::stages::ingest::{log_of_payloads, read_payload, recover};

pub mod corpus;
#[cfg(any(test, fuzzing))]
pub mod memory;
#[cfg(test)]
mod tests;

/// What reads bytes.
pub type Target = fn(&[u8]);

/// Every target with its name, as the corpus and the binaries in `fuzz` have it.
pub const TARGETS: [(&str, Target); 6] = [
    ("manifest", read_manifest),
    ("backup", read_backup),
    ("times", read_times),
    ("log", read_log),
    ("extents", read_extents),
    ("parquet", read_parquet),
];

/// What `lazybase inspect` says of a file: for segments, after reading all of it back.
fn describe(name: &str, bytes: &[u8]) {
    let _ = block_on(describe_file(name, &Bytes::copy_from_slice(bytes)));
}

/// A manifest's edit or checkpoint: whole, or the body of one, by its first byte. What can be read
/// is applied and checked.
pub fn read_manifest(bytes: &[u8]) {
    let number = 1;
    for kind in [FileKind::Edit, FileKind::Checkpoint] {
        let name = kind.file_name(number);
        describe(&name, bytes);
        let framed = framed(kind, number, bytes);
        describe(&name, &framed);
        match decode(&name, &framed) {
            Ok((_, Content::Edit(edit))) => {
                if let Ok(first) = Manifest::first(&edit) {
                    let _ = check::check_loaded(&first);
                }
                let empty = nothing();
                if let Ok(next) = empty.apply(&edit) {
                    let _ = check::check_commit(&empty, &next);
                }
            }
            Ok((_, Content::Checkpoint(read))) => {
                if check::check_loaded(&read).is_ok() {
                    let again = encode_checkpoint(1, &read);
                    assert!(again.is_ok(), "what was read can be written");
                }
            }
            Err(_) => {}
        }
    }
}

/// A backup's file: whole, or the body of one. What can be read is checked, and can be written.
pub fn read_backup(bytes: &[u8]) {
    let name = Backup::file_name(1);
    describe(&name, bytes);
    let Ok(framed) = Backup::framed(1, bytes) else {
        return;
    };
    describe(&name, &framed);
    if let Ok(backup) = Backup::decode(&name, &framed) {
        let _ = check::check_loaded(&backup.manifest);
        assert!(backup.encode().is_ok(), "what was read can be written");
    }
}

/// A file of times of old SCUs.
pub fn read_times(bytes: &[u8]) {
    if let Ok(tail) = TimesTail::decode(bytes) {
        let again = tail.millis();
        assert!(again.is_ok(), "what was read can be read again");
        assert!(tail.first <= tail.last, "times of no SCU");
    }
}

/// A log: as a file, as frames with good checksums, and each of them alone.
pub fn read_log(bytes: &[u8]) {
    describe("00000000000000000001.log", bytes);
    let table = every_type();
    read_payload(&Bytes::copy_from_slice(bytes), &table);
    for log in [bytes.to_vec(), log_of_payloads(bytes)] {
        let store = MemoryStore::new();
        let Ok(()) = block_on(store_log(&store, &log)) else {
            continue;
        };
        let env = Env::test_over(0, store).env;
        let empty = nothing();
        let _ = block_on(recover(&env, &empty));
    }
}

/// The manifest of an empty database.
fn nothing() -> Manifest {
    let database = DatabaseId {
        database: 1,
        history: 1,
    };
    Manifest::created(database, 0)
}

async fn store_log(store: &MemoryStore, bytes: &[u8]) -> StoreResult<()> {
    let mut file = store
        .create_log("log/00000000000000000001.log", bytes.len() as u64, None)
        .await?;
    file.write_at(0, bytes).await?;
    file.sync().await
}

/// A file of extents: as it is, as an index, and as one extent.
pub fn read_extents(bytes: &[u8]) {
    describe("a.ext", bytes);
    let copied = Bytes::copy_from_slice(bytes);
    if let Ok(index) = ExtentIndex::parse(&copied) {
        for extent in index.iter() {
            let _ = index.may_contain(extent.min_key, u64::from(extent.crc32c));
        }
    }
    let table = every_type();
    let Ok(layout) = RowLayout::primary(&table) else {
        return;
    };
    let _ = decode_extent(bytes, &layout.schema, None);
    let _ = decode_extent(bytes, &layout.schema, Some(&[1, 0]));
    verify(bytes, SegmentFormat::Extent, layout);
}

/// A Parquet segment.
pub fn read_parquet(bytes: &[u8]) {
    describe("a.parquet", bytes);
    if let Ok(layout) = RowLayout::primary(&every_type()) {
        verify(bytes, SegmentFormat::Parquet, layout);
    }
}

/// Checks a segment of which the manifest says what it says itself.
fn verify(bytes: &[u8], format: SegmentFormat, layout: RowLayout) {
    let Some(meta) = claimed(bytes, format) else {
        return;
    };
    let store = MemoryStore::new();
    let put = store.put_if_absent(&meta.file, Bytes::copy_from_slice(bytes));
    if block_on(put).is_ok() {
        let env = Env::test_over(0, store).env;
        let _ = block_on(verify_segment(&env, &Arc::new(layout), &Arc::new(meta)));
    }
}

/// What a manifest would say of a file, by the file's own words.
fn claimed(bytes: &[u8], format: SegmentFormat) -> Option<SegmentMeta> {
    let number = |at: usize| {
        let bytes: [u8; 8] = bytes.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let (index_offset, rows) = match format {
        SegmentFormat::Extent => {
            let footer = bytes.len().checked_sub(EXTENT_FOOTER_BYTES)?;
            (number(footer)?, number(footer + 24)?)
        }
        SegmentFormat::Parquet => {
            let mut windows = bytes.windows(PARQUET_BLOCK.len());
            (
                windows.position(|window| window == PARQUET_BLOCK)? as u64,
                40,
            )
        }
    };
    let part = bytes.get(usize::try_from(index_offset).ok()?..)?;
    let ends = index_in(part).map(|index| {
        let last = index.len() - 1;
        (
            Key::new(index.min_key(0).to_vec()),
            Key::new(index.max_key(last).to_vec()),
        )
    });
    let (min_key, max_key) = ends.unwrap_or((Key::new(Vec::new()), Key::new(Vec::new())));
    Some(SegmentMeta {
        file: "segments/a.ext".to_owned(),
        format,
        rows,
        bytes: bytes.len() as u64,
        raw_bytes: 0,
        index_offset,
        index_crc: crc32c::crc32c(part),
        min_key,
        max_key,
        all_upserts: false,
        newest_scu: ScuNumber(0),
        moments_through: None,
    })
}

/// The index in the last part of an extent file, if there is one that holds an extent.
fn index_in(part: &[u8]) -> Option<ExtentIndex> {
    let footer = part.len().checked_sub(EXTENT_FOOTER_BYTES)?;
    let length: [u8; 8] = part.get(footer + 8..footer + 16)?.try_into().ok()?;
    let begin = usize::try_from(u64::from_le_bytes(length)).ok()?;
    let index = Bytes::copy_from_slice(part.get(begin..footer)?);
    ExtentIndex::parse(&index)
        .ok()
        .filter(|index| !index.is_empty())
}

/// The last bytes of an extent file, which say where its index begins.
const EXTENT_FOOTER_BYTES: usize = 48;

/// A table with columns of most types; the key is the second column, then the first.
fn every_type() -> Arc<Table> {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let fields = vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
    ];
    let columns = [
        ("key", DataType::Utf8),
        ("id", DataType::Int64),
        ("bool", DataType::Boolean),
        ("i8", DataType::Int8),
        ("u64", DataType::UInt64),
        ("f64", DataType::Float64),
        ("decimal", DataType::Decimal128(20, 3)),
        ("binary", DataType::Binary),
        ("uuid", DataType::FixedSizeBinary(16)),
        ("date", DataType::Date32),
        ("time", DataType::Time64(TimeUnit::Microsecond)),
        ("at", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("list", DataType::List(item)),
        ("struct", DataType::Struct(fields.into())),
    ];
    let columns = columns.map(|(name, data_type)| Column::new(name, data_type));
    let table = Table::new(TableId(7), ViewId(7), "flights", columns.to_vec(), &[1, 0]);
    Arc::new(table)
}
