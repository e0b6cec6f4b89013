//! How much memory a machine, or the group of processes that it is shared with, leaves to the cache
//! and to queries.
//!
//! Reads what Linux says in `/proc` and `/sys/fs/cgroup`, and the process's own limits; elsewhere
//! the budgets as shipped stay.

use std::path::Path;

use lazybase_cluster::Settings;
use lazybase_model::limits::{
    CACHE_BYTES, COMMIT_QUEUE_BYTES_MAX, QUERY_MEMORY_BYTES, QUERY_MEMORY_BYTES_MIN,
};
use rlimit::Resource;

#[cfg(test)]
mod tests;

/// The cache has one part in so many of the memory.
const CACHE_SHARE: u64 = 8;

/// What the cache may hold: an eighth of the memory, and not less than as shipped.
pub(crate) fn of_cache() -> u64 {
    of_process().map_or(CACHE_BYTES, |bytes| (bytes / CACHE_SHARE).max(CACHE_BYTES))
}

/// What queries may hold together: of six tenths of the memory, what other budgets leave.
pub(crate) fn of_queries(settings: &Settings) -> u64 {
    of_process().map_or(QUERY_MEMORY_BYTES, |bytes| left_of(bytes, settings))
}

/// The memory that this process can have.
fn of_process() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo");
    let machine = machine.ok().and_then(|text| total_of(&text));
    let own = [Resource::DATA, Resource::AS].map(|resource| resource.get_soft().ok());
    let limits = [machine, of_group()].into_iter().chain(own);
    limits.flatten().min()
}

fn left_of(bytes: u64, settings: &Settings) -> u64 {
    let others = settings
        .sort_memory
        .saturating_mul(settings.workers as u64)
        .saturating_add(settings.unsorted_memory)
        .saturating_add(settings.cache_bytes)
        .saturating_add(COMMIT_QUEUE_BYTES_MAX);
    let share = (bytes / 10 * 6).saturating_sub(others);
    share.max(QUERY_MEMORY_BYTES_MIN)
}

/// The machine's memory, as `/proc/meminfo` says it.
fn total_of(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// The limit of the group of processes, or of those around it: the least.
fn of_group() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let root = Path::new("/sys/fs/cgroup");
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kind, group) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        match kind {
            "" => least(root, group, "memory.max"),
            "memory" => least(&root.join("memory"), group, "memory.limit_in_bytes"),
            _ => None,
        }
    });
    limits.min()
}

fn least(root: &Path, group: &str, file: &str) -> Option<u64> {
    let folder = root.join(group);
    let around = folder
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    let limits = around.filter_map(|folder| {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        text.trim().parse().ok()
    });
    limits.min()
}
