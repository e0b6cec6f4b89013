//! Figures of the process, as Linux tells them; elsewhere they are left out.

use std::fs;

use metrics::gauge;

/// Ticks of CPU time a second, on every Linux.
const TICKS: f64 = 100.0;

/// Reads them into the current recorder.
pub(super) fn read(started_micros: i64) {
    gauge!("lazybase_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    gauge!("process_start_time_seconds").set(started_micros as f64 / 1e6);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(bytes) = resident(&status) {
        gauge!("process_resident_memory_bytes").set(bytes as f64);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        gauge!("process_open_fds").set(files.count() as f64);
    }
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(seconds) = cpu_seconds(&stat) {
        gauge!("process_cpu_seconds_total").set(seconds);
    }
}

/// The bytes in RAM.
fn resident(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// User and system time. The program's name, in parentheses, may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}
