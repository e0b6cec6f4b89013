//! Every bound of the system, in one place: a queue, a loop or a buffer without a name here is a
//! mistake. Settings may lower or raise those that say so.

use std::time::Duration;

/// The largest value of one cell, in bytes.
pub const CELL_BYTES_MAX: usize = 16 << 20;
/// The most columns of a table.
pub const COLUMNS_MAX: usize = 4096;
/// The longest name of a table or column, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest encoded primary key, in bytes: keys stand in indexes and manifests.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The largest batch, in bytes of uncompressed Arrow data (setting `batch_bytes_max`).
pub const BATCH_BYTES_MAX: u64 = 16 << 30;

/// The natural keys of one batch that its writer remembers so as to write each once, in bytes.
pub const BATCH_KEYS_BYTES_MAX: usize = 64 << 20;

/// How many numbers of a sequence are reserved at first; each time twice as many as before.
pub const NUMBERS_RESERVED_AT_FIRST: u64 = 32;
/// The most numbers of a sequence that are reserved beyond those that are needed at once.
pub const NUMBERS_RESERVED_MAX: u64 = 8192;

/// The most bytes that a transaction's own changes may take in memory until it commits.
pub const TRANSACTION_BYTES_MAX: u64 = 1 << 30;

/// The age at which the open SCU is sealed (setting `seal_age`).
pub const SEAL_AGE: Duration = Duration::from_secs(1);
/// The size at which the open SCU is sealed, in bytes of its log (setting `seal_bytes`).
pub const SEAL_BYTES: u64 = 256 << 20;
/// The size of one log file, preallocated (setting `log_file_bytes`).
pub const LOG_FILE_BYTES: u64 = 64 << 20;
/// The most that a server takes for it: the next file is filled with zeros ahead of time.
pub const LOG_FILE_BYTES_MAX: u64 = 4 << 30;
/// The most uncompressed bytes in one log frame: larger batches take several frames.
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// The bytes that may wait for the next group commit before writers wait.
pub const COMMIT_QUEUE_BYTES_MAX: u64 = 64 << 20;
/// The unsorted bytes beyond which writers wait (setting `unsorted_bytes_max`).
pub const UNSORTED_BYTES_MAX: u64 = 1 << 30;
/// The bytes of unsorted batches that are held in memory beside the log (setting
/// `unsorted_memory`); the rest is read back from the log.
pub const UNSORTED_MEMORY_BYTES: u64 = 192 << 20;
/// The sorted runs over one key range beyond which writers wait.
pub const RUNS_PER_RANGE_MAX: usize = 256;

/// The uncompressed bytes of rows that one extent aims at (section 3.8 of the paper: 64 KiB).
pub const EXTENT_BYTES: usize = 64 << 10;
/// The bytes that one extent segment aims at.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// The uncompressed bytes that one sort holds in memory (setting `sort_memory`).
pub const SORT_MEMORY_BYTES: u64 = 192 << 20;
/// The bytes of decoded extents that are kept (setting `cache_bytes`).
pub const CACHE_BYTES: u64 = 256 << 20;

/// How many runs a merge joins (section 3.3 of the paper: the fan-in of the merge tree;
/// setting `merge_fan_in`).
pub const MERGE_FAN_IN: usize = 8;
/// The bytes that one merge task reads at most, where the key range can still be split.
pub const MERGE_TASK_BYTES: u64 = 256 << 20;
/// The size of a key range's base at which the range is split (setting `range_split_bytes`).
pub const RANGE_SPLIT_BYTES: u64 = 256 << 20;
/// The most runs that a best-effort read meets in one key range.
pub const BEST_EFFORT_RUNS_MAX: usize = 4;

/// The memory of all running queries together for what they sort, group and join (setting
/// `query_memory`).
pub const QUERY_MEMORY_BYTES: u64 = 1 << 30;
/// The least of it that a server takes, however small its machine.
pub const QUERY_MEMORY_BYTES_MIN: u64 = 256 << 20;
/// The bytes of temporary files of all running queries (setting `query_spill_bytes`).
pub const QUERY_SPILL_BYTES: u64 = 64 << 30;
/// The values, rows times columns, through which a statement may go that is not called heavy.
pub const LIGHT_VALUES_MAX: u64 = 4 << 20;
/// The heavy statements that run at a time (setting `heavy_statements`).
pub const HEAVY_STATEMENTS: usize = 8;
/// The heavy statements that wait for their turn (setting `heavy_waiting`).
pub const HEAVY_WAITING: usize = 200;

/// How long horizons stay readable (setting `retention`).
pub const RETENTION: Duration = Duration::from_secs(600);
/// The uncompressed bytes of the newest SCUs whose log is kept, within the retention, to sort them
/// again if a file is damaged that only the past needs. What is not merged keeps its log, whatever
/// that takes of the bytes for superseded files.
pub const LOG_KEPT_BYTES_MAX: u64 = 256 << 20;
/// What superseded files may take: those that the retention and snapshots keep (setting
/// `superseded_bytes_max`).
pub const SUPERSEDED_BYTES_MAX: u64 = 64 << 30;
/// How long a reader's snapshot is left alone, whatever superseded files it keeps: statements that
/// take no longer never meet that bound.
pub const SNAPSHOT_LEFT_ALONE: Duration = Duration::from_secs(10);
/// How long a file that nothing names is kept, in case a reader's pin was slow to arrive.
pub const DELETE_GRACE: Duration = Duration::from_secs(2);
/// How many manifest edits are replayed at most: a checkpoint follows.
pub const EDITS_PER_CHECKPOINT: u64 = 256;
/// From how many replayed edits on an opening is followed by a checkpoint.
pub const EDITS_PER_OPENING: u64 = 32;
/// How many stage attempts run at once (setting `workers`).
pub const WORKERS: usize = 2;
/// How long an attempt may show no sign of life before its work is given to another one. Nothing
/// that an attempt does between two signs takes nearly as long.
pub const ATTEMPT_SILENCE: Duration = Duration::from_secs(300);
/// How many attempts that were given up may be waited for: beyond, the disk itself hangs.
pub const ATTEMPTS_GIVEN_UP_MAX: usize = 16;
/// How many of them may be checks of suspected files: nobody waits for those, and what else hangs
/// is to be given up too.
pub const CHECKS_GIVEN_UP_MAX: usize = ATTEMPTS_GIVEN_UP_MAX / 2;
/// How often the coordinator looks at its work when nothing happens.
pub const COORDINATOR_TICK: Duration = Duration::from_millis(50);
/// How long a reader's pin lasts without a renewal: a reader that is idle for longer has to start
/// again.
pub const PIN_LIFETIME: Duration = Duration::from_secs(300);
/// The most hash rules of a table.
pub const HASH_RULES_MAX: usize = 4;
/// The most buckets of one hash rule.
pub const HASH_BUCKETS_MAX: u16 = 1024;
/// The most partitions of a table: each has merge work of its own.
pub const PARTITIONS_MAX: usize = 1024;
