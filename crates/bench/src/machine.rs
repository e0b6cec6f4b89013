//! What the system says about a process, mostly this one: processor time, memory, and the bytes of
//! a folder.
//!
//! Reads `/proc` and the folder's metadata; writes nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The processor time of this thread, as the scheduler counts it.
pub(crate) fn thread_cpu() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: u64 = text.split_whitespace().next()?.parse().ok()?;
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// The processor time of this whole process, of threads that ended too.
pub(crate) fn process_cpu() -> Option<Duration> {
    process_cpu_of(std::process::id())
}

/// The processor time of a whole process, of threads that ended too.
pub(crate) fn process_cpu_of(process: u32) -> Option<Duration> {
    // Times in `stat` are in ticks of USER_HZ, which is 100 on every Linux that Rust runs on.
    const TICK: Duration = Duration::from_millis(10);
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let after_name = text.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * (user + system))
}

/// The processor time of all threads of this process that live, as the scheduler counts it: finer
/// than [`process_cpu`] between two moments at which the same threads live.
pub(crate) fn threads_cpu() -> Option<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        // A thread may end while its folder is looked at.
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat"));
        let text = text.unwrap_or_default();
        nanos += text
            .split_whitespace()
            .next()
            .and_then(|first| first.parse::<u64>().ok())
            .unwrap_or(0);
    }
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// The bytes that this process has given to the system to write, whatever for; NaN where the system
/// does not count them.
pub(crate) fn process_written() -> f64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let given = text.lines().find_map(|line| line.strip_prefix("wchar:"));
    let given = given.and_then(|number| number.trim().parse().ok());
    given.unwrap_or(f64::NAN)
}

/// The anonymous memory of this process, in KiB.
fn anonymous_kib() -> u64 {
    anonymous_kib_of(std::process::id())
}

/// The anonymous memory of a process, in KiB.
pub(crate) fn anonymous_kib_of(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// The bytes that a folder takes on its disk; preallocated space counts.
pub(crate) fn disk_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    bytes.sum()
}

/// Wall time, and the processor time of the thread where the system counts it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    /// From the start to the end.
    pub(crate) wall: Duration,
    /// What of it the thread computed.
    pub(crate) cpu: Duration,
}

/// Runs some work of this thread alone.
pub(crate) fn spent<T>(work: impl FnOnce() -> T) -> (T, Spent) {
    let cpu = thread_cpu();
    let start = Instant::now();
    let done = work();
    let wall = start.elapsed();
    let cpu = match (cpu, thread_cpu()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => wall,
    };
    (done, Spent { wall, cpu })
}

/// Watches memory and disk beside a measurement, ten times a second and once a second.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    memory_kib: Arc<AtomicU64>,
    disk: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to watch.
    pub(crate) fn start(folder: &Path) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let memory_kib = Arc::new(AtomicU64::new(0));
        let disk = Arc::new(AtomicU64::new(0));
        let folder = folder.to_owned();
        let shared = (
            Arc::clone(&stop),
            Arc::clone(&memory_kib),
            Arc::clone(&disk),
        );
        let thread = std::thread::spawn(move || {
            let (stop, memory_kib, disk) = shared;
            for turn in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                memory_kib.fetch_max(anonymous_kib(), Ordering::Relaxed);
                if turn.is_multiple_of(10) {
                    disk.fetch_max(disk_bytes(&folder), Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Watch {
            stop,
            memory_kib,
            disk,
            thread: Some(thread),
        }
    }

    /// The most anonymous memory so far, in MiB.
    pub(crate) fn memory_mib(&self) -> f64 {
        self.memory_kib.load(Ordering::Relaxed) as f64 / 1024.0
    }

    /// The most bytes on disk so far.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A watcher that panicked has told why on standard error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
