//! Reads a segment back in full and checks everything that a reader may rely on.
//!
//! Inputs of a stage are retired only after its outputs passed here; `lazybase verify` runs it
//! over a whole database.

use std::sync::Arc;

use lazybase_model::{Error, Result};

use super::RowLayout;
use super::cache::ReadCounters;
use super::encode::newest_scu;
use super::extent_format::{FILE_END_BYTES, FILE_HEADER_BYTES, is_file_header};
use super::key_filter::{key_hash, may_contain};
use super::reader::{Segment, named};
use crate::change_batch::ChangeBatch;
use crate::env::Env;
use crate::manifest::{SegmentFormat, SegmentMeta};

/// Reads the whole file and checks every checksum, the order of keys, their limits, filters,
/// counts, kinds and versions against the index and the manifest.
///
/// # Errors
/// `Corrupt`, naming the file and what is wrong; the store's errors.
pub async fn verify_segment(
    env: &Env,
    layout: &Arc<RowLayout>,
    meta: &Arc<SegmentMeta>,
) -> Result<()> {
    let counters = ReadCounters::default();
    let segment = Segment::open_stored(env, layout, Arc::clone(meta), &counters).await?;
    let length = match meta.format {
        SegmentFormat::Extent => FILE_HEADER_BYTES,
        SegmentFormat::Parquet => 4,
    };
    let read = async |bytes| {
        let read = env.store.read(&meta.file, bytes).await;
        read.map_err(|error| named(error.into(), layout, meta))
    };
    let header = read(0..length).await?;
    let known = match meta.format {
        SegmentFormat::Extent => {
            let end = meta.bytes.saturating_sub(FILE_END_BYTES);
            is_file_header(&header, &read(end..meta.bytes).await?)
        }
        SegmentFormat::Parquet => header == b"PAR1"[..],
    };
    if !known {
        return Err(named(Error::corrupt("its header is damaged"), layout, meta));
    }
    let (mut all_upserts, mut newest, mut raw_bytes) = (true, 0, 0);
    for extent in 0..segment.extents().len() {
        let rows = segment.read_extent(extent, &counters).await?;
        verify_extent(&segment, extent, &rows)
            .map_err(|error| named(error.within(format_args!("extent {extent}")), layout, meta))?;
        let info = segment.extents().info(extent);
        all_upserts &= info.all_upserts;
        newest = newest.max(info.newest_scu);
        raw_bytes += u64::from(info.raw_len);
    }
    let same = all_upserts == meta.all_upserts
        && newest == meta.newest_scu.0
        && raw_bytes == meta.raw_bytes;
    match same {
        true => Ok(()),
        false => {
            let error = Error::corrupt("its extents are not those that the manifest counts");
            Err(named(error, layout, meta))
        }
    }
}

fn verify_extent(segment: &Segment, extent: usize, rows: &ChangeBatch) -> Result<()> {
    let info = segment.extents().info(extent);
    if rows.all_upserts() != info.all_upserts || newest_scu(rows) != info.newest_scu {
        return Err(Error::corrupt(
            "its kinds or versions are not those of its index",
        ));
    }
    let keys = segment.layout().codec.encode(&rows.data)?;
    segment.check_first_keys(extent, &keys)?;
    let key = |row: usize| keys.row(row).data();
    if key(0) != info.min_key || key(rows.rows() - 1) != info.max_key {
        return Err(Error::corrupt(
            "its first or last key is not that of its index",
        ));
    }
    for row in 0..rows.rows() {
        let follows = row == 0
            || match rows.kind(row - 1).is_split() {
                true => key(row - 1) == key(row),
                false => key(row - 1) < key(row),
            };
        let partitioner = segment.layout().codec.partitioner();
        if partitioner.is_some_and(|partitioner| partitioner.is_nowhere(key(row))) {
            return Err(Error::corrupt(format!("row {row} lies in no partition")));
        }
        if !follows {
            return Err(Error::corrupt(format!("row {row} is out of key order")));
        }
        if !may_contain(info.filter, key_hash(key(row))) {
            return Err(Error::corrupt(format!(
                "its filter denies the key of row {row}"
            )));
        }
    }
    Ok(())
}
