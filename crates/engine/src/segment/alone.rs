//! A segment without its manifest: the file says itself what a manifest would say of it.
//!
//! All that a reader relies on is checked but the checksum of the index part, which the manifest
//! alone keeps.

use std::sync::Arc;

use bytes::Bytes;
use lazybase_model::{Error, Result, ScuNumber};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::extent_format::{self, RowsOf};
use super::extent_index::ExtentIndex;
use super::parquet_format::Block;
use super::verify_segment;
use crate::env::memory::MemoryStore;
use crate::env::{Env, Store};
use crate::key::Key;
use crate::manifest::{SegmentFormat, SegmentMeta};

/// Reads a file's bytes in full and checks every checksum, the order of keys, their limits,
/// filters, counts and versions against the file's own index.
///
/// # Errors
/// `Corrupt`, naming the part of the file that is damaged.
pub async fn verify_alone(name: &str, bytes: &Bytes, format: SegmentFormat) -> Result<()> {
    let claimed = match format {
        SegmentFormat::Extent => extent_format::open_alone(bytes),
        SegmentFormat::Parquet => open_parquet(bytes),
    };
    let (rows_of, index, index_offset) = claimed.map_err(|error| error.within(name))?;
    let layout = RowsOf::layout_alone(&rows_of).map_err(|error| error.within(name))?;
    let meta = claimed_meta(name, bytes, format, &index, index_offset)?;
    let store = MemoryStore::without_history();
    store.put_if_absent(name, bytes.clone()).await?;
    let env = Env::system(Arc::new(store));
    verify_segment(&env, &Arc::new(layout), &Arc::new(meta)).await
}

/// What a manifest would say of the file.
fn claimed_meta(
    name: &str,
    bytes: &Bytes,
    format: SegmentFormat,
    index: &ExtentIndex,
    index_offset: u64,
) -> Result<SegmentMeta> {
    let no_index = || Error::corrupt(format!("{name}: its index has no extent"));
    let last = index.len().checked_sub(1).ok_or_else(no_index)?;
    let part = usize::try_from(index_offset).ok();
    let part = part.and_then(|at| bytes.get(at..)).ok_or_else(no_index)?;
    Ok(SegmentMeta {
        file: name.to_owned(),
        format,
        rows: index.iter().map(|extent| u64::from(extent.rows)).sum(),
        bytes: bytes.len() as u64,
        raw_bytes: index.iter().map(|extent| u64::from(extent.raw_len)).sum(),
        index_offset,
        index_crc: crc32c::crc32c(part),
        min_key: Key::new(index.min_key(0)),
        max_key: Key::new(index.max_key(last)),
        all_upserts: index.iter().all(|extent| extent.all_upserts),
        newest_scu: ScuNumber(
            index
                .iter()
                .map(|extent| extent.newest_scu)
                .max()
                .unwrap_or(0),
        ),
        moments_through: None,
    })
}

/// The rows as stored, the index, and where our block begins: behind the last row group.
fn open_parquet(bytes: &Bytes) -> Result<(Bytes, ExtentIndex, u64)> {
    let reader = SerializedFileReader::new(bytes.clone())
        .map_err(|error| Error::corrupt(error.to_string()))?;
    let mut begin = None;
    for group in reader.metadata().row_groups() {
        for chunk in group.columns() {
            begin = begin.max(Some(chunk_end(chunk)?));
        }
    }
    let begin = begin.ok_or_else(|| Error::corrupt("it has no row group"))?;
    let at = usize::try_from(begin).ok().filter(|at| *at <= bytes.len());
    let at = at.ok_or_else(|| Error::corrupt("its row groups end behind its end"))?;
    let (rows_of, block) = Block::parse_alone(&bytes.slice(at..))?;
    Ok((rows_of, block.index, begin))
}

/// Where a column of a row group ends. Parquet's own accessor takes the numbers for sound.
fn chunk_end(chunk: &ColumnChunkMetaData) -> Result<u64> {
    let first = chunk.dictionary_page_offset();
    let first = first.unwrap_or_else(|| chunk.data_page_offset());
    let end = u64::try_from(first)
        .ok()
        .zip(u64::try_from(chunk.compressed_size()).ok());
    let end = end.and_then(|(first, length)| first.checked_add(length));
    end.ok_or_else(|| Error::corrupt("a column begins before the file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_segment_is_refused() {
        for format in [SegmentFormat::Extent, SegmentFormat::Parquet] {
            for bytes in [Bytes::new(), Bytes::from(vec![7; 200])] {
                let checked = futures::executor::block_on(verify_alone("x", &bytes, format));
                assert!(checked.is_err(), "{format:?}");
            }
        }
    }

    #[test]
    fn the_layout_of_a_file_needs_no_table() {
        let described = br#"{"table":3,"view":4,"columns":[[0,"Int64"],[2,"Utf8"]],"key":[2]}"#;
        let layout = RowsOf::layout_alone(described).unwrap();
        assert_eq!(layout.schema.fields().len(), 2);
        assert_eq!(layout.codec.indices(), [1]);
    }
}
