//! The index of a segment's extents: where each lies, what keys it spans, which keys it may hold.
//!
//! Kept as it is stored: one vector of fixed-size entries, and the keys and filters inside the
//! loaded bytes, so that a segment of many extents costs no allocation for each. The bytes are
//! described in `docs/formats/segment-extent.md`. Invariant SEG-2 is checked when it is loaded.

use std::ops::Range;

use bytes::Bytes;
use lazybase_model::{Error, Result};

use super::key_filter;
use super::le::{Front, put_u32, put_u64};

/// What the index says about one extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentInfo<'i> {
    /// The least encoded key.
    pub min_key: &'i [u8],
    /// The greatest encoded key.
    pub max_key: &'i [u8],
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// How many bytes it takes in the file.
    pub stored_len: u32,
    /// How many bytes its rows take before compression.
    pub raw_len: u32,
    /// Its stored rows.
    pub rows: u32,
    /// CRC-32C of its stored bytes; 0 in Parquet, whose pages have their own.
    pub crc32c: u32,
    /// The newest SCU of its rows.
    pub newest_scu: u64,
    /// Whether every row is a whole-row upsert.
    pub all_upserts: bool,
    /// The filter over its keys.
    pub filter: &'i [u8],
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    offset: u64,
    newest_scu: u64,
    stored_len: u32,
    raw_len: u32,
    rows: u32,
    crc32c: u32,
    min_len: u32,
    max_len: u32,
    filter_len: u32,
    flags: u32,
    /// Where its least key begins in the keys; the greatest follows.
    key_at: u64,
    filter_at: u64,
}

const ALL_UPSERTS: u32 = 1;
const ENTRY_BYTES: usize = 48;

/// Collects the entries of a new segment.
#[derive(Debug, Default)]
pub(super) struct ExtentIndexBuilder {
    count: u32,
    entries: Vec<u8>,
    keys: Vec<u8>,
    filters: Vec<u8>,
}

impl ExtentIndexBuilder {
    pub(super) fn push(&mut self, info: &ExtentInfo<'_>) {
        self.count += 1;
        let out = &mut self.entries;
        put_u64(out, info.offset);
        put_u64(out, info.newest_scu);
        put_u32(out, info.stored_len);
        put_u32(out, info.raw_len);
        put_u32(out, info.rows);
        put_u32(out, info.crc32c);
        put_u32(out, info.min_key.len() as u32);
        put_u32(out, info.max_key.len() as u32);
        put_u32(out, info.filter.len() as u32);
        put_u32(out, if info.all_upserts { ALL_UPSERTS } else { 0 });
        self.keys.extend_from_slice(info.min_key);
        self.keys.extend_from_slice(info.max_key);
        self.filters.extend_from_slice(info.filter);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The index as stored.
    pub(super) fn finish(self) -> Vec<u8> {
        let length = self.entries.len() + self.keys.len() + self.filters.len() + 4;
        let mut out = Vec::with_capacity(length);
        put_u32(&mut out, self.count);
        out.extend_from_slice(&self.entries);
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&self.filters);
        out
    }
}

/// The extents of a segment in key order.
#[derive(Debug)]
pub struct ExtentIndex {
    entries: Vec<Entry>,
    keys: Bytes,
    filters: Bytes,
}

impl ExtentIndex {
    /// Reads an index as stored.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not an index, or its extents are not in key order.
    pub fn parse(bytes: &Bytes) -> Result<ExtentIndex> {
        let mut front = Front(bytes);
        let count = front.length()?;
        if front.0.len() / ENTRY_BYTES < count {
            return Err(Error::corrupt("the extent index ends too early"));
        }
        let mut entries = Vec::with_capacity(count);
        let (mut key_at, mut filter_at) = (0u64, 0u64);
        for _ in 0..count {
            let entry = Entry {
                offset: front.u64()?,
                newest_scu: front.u64()?,
                stored_len: front.u32()?,
                raw_len: front.u32()?,
                rows: front.u32()?,
                crc32c: front.u32()?,
                min_len: front.u32()?,
                max_len: front.u32()?,
                filter_len: front.u32()?,
                flags: front.u32()?,
                key_at,
                filter_at,
            };
            key_at += u64::from(entry.min_len) + u64::from(entry.max_len);
            filter_at += u64::from(entry.filter_len);
            entries.push(entry);
        }
        let keys = bytes.slice_ref(front.take(key_at as usize)?);
        let filters = bytes.slice_ref(front.take(filter_at as usize)?);
        if !front.0.is_empty() {
            return Err(Error::corrupt("the extent index has bytes after its end"));
        }
        let index = ExtentIndex {
            entries,
            keys,
            filters,
        };
        index.check_order()?;
        Ok(index)
    }

    /// Invariant SEG-2.
    fn check_order(&self) -> Result<()> {
        for at in 0..self.len() {
            let follows = at == 0 || self.max_key(at - 1) < self.min_key(at);
            if !follows || self.min_key(at) > self.max_key(at) || self.entries[at].rows == 0 {
                return Err(Error::corrupt(format!("extent {at} is out of key order")));
            }
        }
        Ok(())
    }

    /// How many extents there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no extent.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is known about extent `at`.
    ///
    /// # Panics
    /// If there is no such extent.
    pub fn info(&self, at: usize) -> ExtentInfo<'_> {
        let entry = &self.entries[at];
        ExtentInfo {
            min_key: self.min_key(at),
            max_key: self.max_key(at),
            offset: entry.offset,
            stored_len: entry.stored_len,
            raw_len: entry.raw_len,
            rows: entry.rows,
            crc32c: entry.crc32c,
            newest_scu: entry.newest_scu,
            all_upserts: entry.flags & ALL_UPSERTS != 0,
            filter: self.filter(at),
        }
    }

    /// All extents in key order.
    pub fn iter(&self) -> impl Iterator<Item = ExtentInfo<'_>> {
        (0..self.len()).map(|at| self.info(at))
    }

    /// The least key of extent `at`.
    pub fn min_key(&self, at: usize) -> &[u8] {
        let entry = &self.entries[at];
        let start = entry.key_at as usize;
        &self.keys[start..start + entry.min_len as usize]
    }

    /// The greatest key of extent `at`.
    pub fn max_key(&self, at: usize) -> &[u8] {
        let entry = &self.entries[at];
        let start = entry.key_at as usize + entry.min_len as usize;
        &self.keys[start..start + entry.max_len as usize]
    }

    fn filter(&self, at: usize) -> &[u8] {
        let entry = &self.entries[at];
        let start = entry.filter_at as usize;
        &self.filters[start..start + entry.filter_len as usize]
    }

    /// The extents that hold keys from `low` (included) to `high` (excluded); `None` is open.
    pub fn extents_overlapping(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Range<usize> {
        let start = low.map_or(0, |low| self.first_where(|at| self.max_key(at) >= low));
        let end = high.map_or(self.len(), |high| {
            self.first_where(|at| self.min_key(at) >= high)
        });
        start..end.max(start)
    }

    /// The extent whose least and greatest key enclose `key`.
    pub fn extent_of(&self, key: &[u8]) -> Option<usize> {
        let at = self.first_where(|at| self.max_key(at) >= key);
        (at < self.len() && self.min_key(at) <= key).then_some(at)
    }

    /// The extent that may hold the key of this hash, if any does.
    pub fn may_contain(&self, key: &[u8], hash: u64) -> Option<usize> {
        self.extent_of(key)
            .filter(|at| key_filter::may_contain(self.filter(*at), hash))
    }

    /// Whether an extent may hold a key, which is not greater than its greatest.
    pub(crate) fn may_hold(&self, at: usize, key: &[u8], hash: u64) -> bool {
        self.min_key(at) <= key && key_filter::may_contain(self.filter(at), hash)
    }

    /// The first extent for which `holds`, which is false up to some extent and true from it on.
    fn first_where(&self, holds: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match holds(middle) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    }

    /// The memory that the index takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.keys.len() + self.filters.len()
    }
}
