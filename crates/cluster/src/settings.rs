//! Settings of one running database; each default is a limit of `lazybase_model::limits`.

use std::time::Duration;

use lazybase_engine::segment::WriteOptions;
use lazybase_engine::stages::ingest::LogCompression;
use lazybase_engine::stages::merge::plan::SPARSE_PART;
use lazybase_model::limits;

/// A range at the size at which it is split has so many files: it is cut where one of them begins.
const RANGE_FILES: u64 = 4;

/// A file that has this part of what merges make files of, or more, is large.
const LARGE_FILE_PART: u64 = 4;

/// How a database runs. Nothing here changes what an answer is, only what it costs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The age at which the open SCU is sealed.
    pub seal_age: Duration,
    /// The size at which the open SCU is sealed, in bytes of its log.
    pub seal_bytes: u64,
    /// How long horizons stay readable.
    pub retention: Duration,
    /// The bytes that superseded files may take: half of them what the retention keeps, all of them
    /// that and what snapshots keep. Beyond, the oldest of each goes before its time. The greatest
    /// number sets no limit.
    pub superseded_bytes_max: u64,
    /// The uncompressed bytes that one sort holds in memory.
    pub sort_memory: u64,
    /// The bytes of decoded extents and open indexes that are kept.
    pub cache_bytes: u64,
    /// The largest batch, in bytes of uncompressed Arrow data.
    pub batch_bytes_max: u64,
    /// The bytes of unsorted batches that are held in memory beside the log.
    pub unsorted_memory: u64,
    /// The unsorted bytes beyond which writers wait.
    pub unsorted_bytes_max: u64,
    /// The bytes that one merge task reads at most, where the key range can still be split.
    pub merge_task_bytes: u64,
    /// How many runs a merge joins.
    pub merge_fan_in: usize,
    /// The size of a key range's base at which the range is split.
    pub range_split_bytes: u64,
    /// The size of one log file.
    pub log_file_bytes: u64,
    /// The uncompressed bytes that one frame of the log aims at: what of a batch fills one leaves
    /// memory before the batch is committed.
    pub frame_bytes: usize,
    /// The bytes that may wait for the log before writers wait.
    pub log_queue_bytes: u64,
    /// How many attempts run at once.
    pub workers: usize,
    /// How long an attempt may show no sign of life before its work is given to another one.
    pub attempt_silence: Duration,
    /// The memory of all running queries together for what they sort, group and join, in bytes; the
    /// greatest number sets no limit. What one query can't spill may take half of it.
    pub query_memory: u64,
    /// The bytes of temporary files that all running queries may have.
    pub query_spill_bytes: u64,
    /// How many heavy statements run at a time; the others wait for their turn.
    pub heavy_statements: usize,
    /// How many heavy statements may wait; others are refused.
    pub heavy_waiting: usize,
    /// Whether the log is compressed.
    pub log_compression: LogCompression,
    /// How large extents, row groups and their files become, and how they are compressed.
    pub write_options: WriteOptions,
    /// How many times as many rows as newer runs the authority must have where its row groups are
    /// gone through one by one.
    pub sparse_part: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            seal_age: limits::SEAL_AGE,
            seal_bytes: limits::SEAL_BYTES,
            retention: limits::RETENTION,
            superseded_bytes_max: limits::SUPERSEDED_BYTES_MAX,
            sort_memory: limits::SORT_MEMORY_BYTES,
            cache_bytes: limits::CACHE_BYTES,
            batch_bytes_max: limits::BATCH_BYTES_MAX,
            unsorted_memory: limits::UNSORTED_MEMORY_BYTES,
            unsorted_bytes_max: limits::UNSORTED_BYTES_MAX,
            merge_task_bytes: limits::MERGE_TASK_BYTES,
            merge_fan_in: limits::MERGE_FAN_IN,
            range_split_bytes: limits::RANGE_SPLIT_BYTES,
            log_file_bytes: limits::LOG_FILE_BYTES,
            frame_bytes: limits::FRAME_BYTES_MAX,
            log_queue_bytes: limits::COMMIT_QUEUE_BYTES_MAX,
            workers: limits::WORKERS,
            attempt_silence: limits::ATTEMPT_SILENCE,
            query_memory: limits::QUERY_MEMORY_BYTES,
            query_spill_bytes: limits::QUERY_SPILL_BYTES,
            heavy_statements: limits::HEAVY_STATEMENTS,
            heavy_waiting: limits::HEAVY_WAITING,
            log_compression: LogCompression::None,
            write_options: WriteOptions::default(),
            sparse_part: SPARSE_PART,
        }
    }
}

impl Settings {
    /// How large what merges write becomes: so large that a range can be cut between its files,
    /// which have an extent or the least rows of a row group all the same.
    pub(crate) fn merge_options(&self) -> WriteOptions {
        let file = self.range_split_bytes.min(self.merge_task_bytes) / RANGE_FILES;
        let file = file.max(limits::EXTENT_BYTES as u64);
        let group = usize::try_from(file).unwrap_or(usize::MAX);
        let options = self.write_options;
        WriteOptions {
            segment_bytes: options.segment_bytes.min(file),
            group_bytes: options.group_bytes.min(group),
            ..options
        }
    }

    /// The bytes from which on a file that nothing overlaps stays as it is in a merge: smaller ones
    /// are written anew with what is beside them, or small files would live for ever.
    pub(crate) fn move_bytes_min(&self) -> u64 {
        self.merge_options().segment_bytes / LARGE_FILE_PART
    }
}
