//! Settings of PostgreSQL's that tools and scripts set to make it faster, safer or more patient,
//! and that have nothing to do here: no answer depends on them. They are taken, and who sets one is
//! told so.
//!
//! What would change an answer does not belong here: it is followed, or refused.

use crate::notice::Notice;

/// Their names, and PostgreSQL's values, which are shown; and that any other value is taken, as the
/// list of PostgreSQL's other settings says it.
pub(super) const ALL: [(&str, &str, bool); 68] = [
    ("autovacuum", "on", true),
    ("commit_delay", "0", true),
    ("commit_siblings", "5", true),
    ("constraint_exclusion", "partition", true),
    ("cpu_index_tuple_cost", "0.005", true),
    ("cpu_operator_cost", "0.0025", true),
    ("cpu_tuple_cost", "0.01", true),
    ("cursor_tuple_fraction", "0.1", true),
    ("deadlock_timeout", "1s", true),
    ("default_statistics_target", "100", true),
    ("effective_cache_size", "4GB", true),
    ("effective_io_concurrency", "1", true),
    ("enable_async_append", "on", true),
    ("enable_bitmapscan", "on", true),
    ("enable_gathermerge", "on", true),
    ("enable_hashagg", "on", true),
    ("enable_hashjoin", "on", true),
    ("enable_incremental_sort", "on", true),
    ("enable_indexonlyscan", "on", true),
    ("enable_indexscan", "on", true),
    ("enable_material", "on", true),
    ("enable_memoize", "on", true),
    ("enable_mergejoin", "on", true),
    ("enable_nestloop", "on", true),
    ("enable_parallel_append", "on", true),
    ("enable_parallel_hash", "on", true),
    ("enable_partition_pruning", "on", true),
    ("enable_partitionwise_aggregate", "off", true),
    ("enable_partitionwise_join", "off", true),
    ("enable_seqscan", "on", true),
    ("enable_sort", "on", true),
    ("enable_tidscan", "on", true),
    ("from_collapse_limit", "8", true),
    ("geqo", "on", true),
    ("geqo_threshold", "12", true),
    ("hash_mem_multiplier", "2", true),
    ("jit_above_cost", "100000", true),
    ("join_collapse_limit", "8", true),
    ("lc_messages", "C", true),
    ("lc_monetary", "C", true),
    ("lc_numeric", "C", true),
    ("lc_time", "C", true),
    ("lock_timeout", "0", true),
    ("log_duration", "off", true),
    ("log_error_verbosity", "default", true),
    ("log_lock_waits", "off", true),
    ("log_min_duration_statement", "-1", true),
    ("log_min_error_statement", "error", true),
    ("log_min_messages", "warning", true),
    ("log_statement", "none", true),
    ("logical_decoding_work_mem", "64MB", true),
    ("maintenance_io_concurrency", "10", true),
    ("maintenance_work_mem", "64MB", true),
    ("max_parallel_maintenance_workers", "2", true),
    ("max_parallel_workers", "8", true),
    ("max_parallel_workers_per_gather", "2", true),
    ("max_stack_depth", "2MB", true),
    ("min_parallel_index_scan_size", "512kB", true),
    ("min_parallel_table_scan_size", "8MB", true),
    ("parallel_leader_participation", "on", true),
    ("parallel_setup_cost", "1000", true),
    ("parallel_tuple_cost", "0.1", true),
    ("plan_cache_mode", "auto", true),
    ("random_page_cost", "4", true),
    ("seq_page_cost", "1", true),
    ("synchronous_commit", "on", true),
    ("temp_buffers", "8MB", true),
    ("work_mem", "4MB", true),
];

/// What who sets one of them to something else is told.
pub(super) fn notice(name: &str, value: &str) -> Option<Notice> {
    let (_, shown, _) = ALL.iter().find(|(known, ..)| *known == name)?;
    let given = value.trim().trim_matches('\'');
    if given.eq_ignore_ascii_case(shown) {
        return None;
    }
    let why = match name {
        "synchronous_commit" => ": what is acknowledged is durable",
        _ => "",
    };
    Some(Notice::note(format!("{name} has no effect here{why}")))
}
