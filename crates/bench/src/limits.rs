//! The machine's own limits, taken in the same run as everything else: what a figure can be at
//! best on this disk, this memory and these codecs.
//!
//! Writes two files in the folder given and removes them.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::segment::encode::{EXTENT_HEADER_BYTES, ExtentEncoder};
use lazybase_engine::segment::{Codec, RowLayout};
use lazybase_model::limits::EXTENT_BYTES;

use crate::Outcome;
use crate::data::{Pool, Seeded, Shape};
use crate::machine::spent;
use crate::report::{Report, median};

const MIB: usize = 1 << 20;
/// Extents that the codecs are measured on.
const EXTENTS: usize = 512;
/// What wide rows must compress to with LZ4, in extents: else other figures mean nothing.
const WIDE_RATIO: std::ops::RangeInclusive<f64> = 0.45..=0.55;

/// Disk and memory.
pub(crate) fn machine(report: &Report, folder: &Path, quick: bool) -> Outcome<()> {
    report.limit("cores", std::thread::available_parallelism()?.get() as f64);
    let mut block = vec![0_u8; 4 * MIB];
    fill(&mut block);
    let blocks = if quick { 64 } else { 256 };
    report.limit("write_mb_s", sequential_write(folder, &block, blocks)?);
    report.limit(
        "fdatasync_median_us",
        small_syncs(folder, if quick { 100 } else { 500 })?,
    );
    report.limit(
        "memcpy_gb_s",
        memory_copy(if quick { 64 } else { 256 }) / 1e3,
    );
    Ok(())
}

fn fill(bytes: &mut [u8]) {
    let mut seeded = Seeded::new(1);
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&seeded.next().to_le_bytes());
    }
}

/// MB/s of one long write that ends durable.
fn sequential_write(folder: &Path, block: &[u8], blocks: usize) -> Outcome<f64> {
    let path = folder.join("write");
    let mut file = File::create(&path)?;
    let start = Instant::now();
    for _ in 0..blocks {
        file.write_all(block)?;
    }
    file.sync_data()?;
    let rate = megabytes(block.len() * blocks) / start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

fn small_syncs(folder: &Path, times: usize) -> Outcome<f64> {
    let mut syncs = SmallSyncs::new(folder, times)?;
    let times: Outcome<Vec<f64>> = (0..times).map(|_| syncs.next_micros()).collect();
    Ok(median(&mut times?))
}

/// What durability costs by itself: 4 KiB written into a file that is there already, and a sync.
pub(crate) struct SmallSyncs {
    path: PathBuf,
    file: File,
    at: u64,
}

impl SmallSyncs {
    const STEP: usize = 4096;

    /// A file for so many syncs.
    pub(crate) fn new(folder: &Path, times: usize) -> Outcome<SmallSyncs> {
        let path = folder.join("sync");
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(&path)?;
        file.write_all_at(&vec![0; Self::STEP * times], 0)?;
        file.sync_all()?;
        Ok(SmallSyncs { path, file, at: 0 })
    }

    /// The microseconds until the next 4 KiB are durable.
    pub(crate) fn next_micros(&mut self) -> Outcome<f64> {
        let start = Instant::now();
        self.file.write_all_at(&[7; Self::STEP], self.at)?;
        self.file.sync_data()?;
        self.at += Self::STEP as u64;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }
}

impl Drop for SmallSyncs {
    fn drop(&mut self) {
        // It lies in a folder that is removed as a whole.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// MB/s of a copy that does not fit the caches.
fn memory_copy(mib: usize) -> f64 {
    let mut from = vec![0_u8; mib * MIB];
    fill(&mut from);
    let mut to = vec![0_u8; from.len()];
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            to.copy_from_slice(black_box(&from));
            black_box(&to);
            megabytes(from.len()) / start.elapsed().as_secs_f64()
        })
        .collect();
    median(&mut rates)
}

/// How small LZ4 makes the rows, in extents. It takes a moment, and every rate depends on it: each
/// run asks, as soon as it has made its rows.
///
/// # Errors
/// When wide rows compress to something else than what the targets assume.
pub(crate) fn lz4_ratio(pool: &Pool) -> Outcome<f64> {
    let extents = extents(pool)?;
    let blocks = extents.iter().map(|raw| lz4_flex::block::compress(raw));
    let ratio = blocks.map(|block| block.len()).sum::<usize>() as f64 / bytes(&extents) as f64;
    as_assumed(pool.shape(), ratio)?;
    Ok(ratio)
}

fn as_assumed(shape: Shape, ratio: f64) -> Outcome<()> {
    match shape == Shape::Wide && !WIDE_RATIO.contains(&ratio) {
        false => Ok(()),
        true => Err(format!(
            "wide rows compress to {ratio:.3} with LZ4 in extents, outside {WIDE_RATIO:?}: the \
             figures would not compare with their targets"
        )
        .into()),
    }
}

/// Codecs, on the very bytes of extents.
pub(crate) fn codecs(report: &Report, pool: &Pool) -> Outcome<()> {
    let extents = extents(pool)?;
    let raw_bytes = bytes(&extents);
    let rate = |spent: crate::machine::Spent| megabytes(raw_bytes) / spent.cpu.as_secs_f64();
    let name = |figure: &str| format!("{}_{figure}", pool.shape().name());

    let compress = |raw: &Vec<u8>| lz4_flex::block::compress(raw);
    let (lz4, lz4_in) = spent(|| extents.iter().map(compress).collect::<Vec<_>>());
    let (_, lz4_out) = spent(|| {
        for (block, raw) in lz4.iter().zip(&extents) {
            black_box(lz4_flex::block::decompress(block, raw.len())).expect("it was compressed");
        }
    });
    let zstd_of = |raw: &Vec<u8>| zstd::bulk::compress(raw, 1);
    let (zstd, zstd_in) = spent(|| extents.iter().map(zstd_of).collect::<Result<Vec<_>, _>>());
    let zstd = zstd?;
    let (_, zstd_out) = spent(|| {
        for (block, raw) in zstd.iter().zip(&extents) {
            black_box(zstd::bulk::decompress(block, raw.len())).expect("it was compressed");
        }
    });

    report.limit(
        &name("extent_bytes"),
        raw_bytes as f64 / extents.len() as f64,
    );
    report.limit(&name("lz4_compress_mb_s"), rate(lz4_in));
    report.limit(&name("lz4_decompress_mb_s"), rate(lz4_out));
    report.limit(&name("zstd1_ratio"), bytes(&zstd) as f64 / raw_bytes as f64);
    report.limit(&name("zstd1_compress_mb_s"), rate(zstd_in));
    report.limit(&name("zstd1_decompress_mb_s"), rate(zstd_out));
    Ok(())
}

fn bytes(blocks: &[Vec<u8>]) -> usize {
    blocks.iter().map(Vec::len).sum()
}

/// The uncompressed bytes of extents of the pool's rows.
fn extents(pool: &Pool) -> Outcome<Vec<Vec<u8>>> {
    let layout = RowLayout::primary(&pool.shape().table())?;
    let mut encoder = ExtentEncoder::new(&layout.schema, Codec::None)?;
    let per_extent = ((EXTENT_BYTES as f64 / pool.row_bytes()) as usize).max(1);
    let mut extents = Vec::with_capacity(EXTENTS);
    for number in 0.. {
        let rows = ChangeBatch::upserts(pool.batch(number, ids(pool.rows())), 1);
        for start in (0..rows.rows()).step_by(per_extent) {
            let slice = rows.slice(start, per_extent.min(rows.rows() - start));
            let (stored, _) = encoder.encode_rows(&slice)?;
            extents.push(stored[EXTENT_HEADER_BYTES..].to_vec());
            if extents.len() == EXTENTS {
                return Ok(extents);
            }
        }
    }
    Ok(extents)
}

fn ids(rows: usize) -> Vec<i64> {
    (0..rows as i64).collect()
}

/// Bytes as units of 10^6.
pub(crate) fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests;
