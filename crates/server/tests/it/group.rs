//! A group of processes whose memory the system bounds: a cgroup, of either version, where a test
//! may make one, as root may, and others below a group that was handed over to them.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::skips::skip;

/// With this variable it is a failure where no group can be made.
const REQUIRED: &str = "LAZYBASE_REQUIRE_CGROUP";
/// Tests that run at a time have groups of their own.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The group, until it is dropped.
pub(crate) struct Group {
    folder: PathBuf,
}

impl Group {
    /// One that may hold so much, the pages of files included; none where this system lets none be
    /// made, which is said.
    pub(crate) fn with_memory(bytes: u64) -> Option<Group> {
        let made = Group::make(bytes);
        if made.is_none() {
            let why = "this system bounds the memory of no group of processes for tests";
            assert!(std::env::var_os(REQUIRED).is_none(), "{REQUIRED}: {why}");
            skip(&format!("{why}: what the process holds is watched"));
        }
        made
    }

    /// Below this process's own group, or one around it.
    fn make(bytes: u64) -> Option<Group> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (kind, own) = (parts.next()?, parts.next()?.trim_start_matches('/'));
            let (root, limit) = match kind {
                "" => ("/sys/fs/cgroup", "memory.max"),
                "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                _ => return None,
            };
            let own = Path::new(root).join(own);
            let mut around = own.ancestors().filter(|folder| folder.starts_with(root));
            around.find_map(|folder| Group::below(folder, limit, bytes))
        })
    }

    fn below(folder: &Path, limit: &str, bytes: u64) -> Option<Group> {
        let (process, number) = (std::process::id(), MADE.fetch_add(1, Ordering::SeqCst));
        let folder = folder.join(format!("lazybase-test-{process}-{number}"));
        std::fs::create_dir(&folder).ok()?;
        let group = Group { folder };
        let limit = group.folder.join(limit);
        // A folder that is none of a group, or of one without a bound on memory, is empty.
        let is_one = limit.exists() && group.processes().exists();
        (is_one && std::fs::write(limit, bytes.to_string()).is_ok()).then_some(group)
    }

    fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Words of the shell that enter the group, if there is one.
    pub(crate) fn enter(group: Option<&Group>) -> String {
        match group {
            Some(group) => format!("echo $$ > '{}'", group.processes().display()),
            None => "true".to_owned(),
        }
    }

    /// How many processes were ended since there was no memory for them.
    pub(crate) fn ended(&self) -> u64 {
        let told = ["memory.events", "memory.oom_control"].map(|file| {
            let text = std::fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            let mut lines = text
                .lines()
                .filter_map(|line| line.strip_prefix("oom_kill "));
            lines
                .next()
                .map_or(0, |count| count.parse::<u64>().unwrap())
        });
        told.into_iter().sum()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended is in it for a moment.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
