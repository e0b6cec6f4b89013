//! What the operating system allows the process: open files, how many of them are for connections,
//! and files of any size.

use lazybase_model::{Error, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Open files without which no database runs: `crates/server/tests/it/limits.rs` holds it to this.
const OPEN_FILES_MIN: u64 = 64;
/// Of all that may be open, a quarter is for files that are kept open for reads, as the store
/// counts them: this many at most.
const KEPT_SHARE: u64 = 4;
const KEPT_MAX: u64 = 512;
/// Half is for everything else that is no connection (logs, what stages write, what queries
/// spill, where clients come in): this many at most.
const WORK_SHARE: u64 = 2;
const WORK_MAX: u64 = 128;
/// Of connections a quarter is HTTP's, this many at most: others do not keep out whoever watches.
const HTTP_SHARE: usize = 4;
const HTTP_MAX: usize = 64;
/// Of all others, a quarter is for those that are not let in yet, or come to cancel a statement.
const BEGINNING_SHARE: usize = 4;
const BEGINNING_MAX: usize = 16;
/// As many connections need no limit.
const CONNECTIONS_MAX: usize = 1 << 20;

/// The signal that ends a process whose file grows over the limit, unless it is taken.
const FILE_TOO_LARGE: i32 = 25;

/// Asks for as many open files as the system lets the process have, and lets a write that is too
/// large for the system fail as others do. Within a runtime.
///
/// # Errors
/// `Unavailable` when too few files can be open at once.
pub(crate) fn prepare() -> Result<()> {
    let files = open_files();
    if files < OPEN_FILES_MIN {
        let said = format!("the system lets this process open only {files} files at once");
        return Err(Error::unavailable(said)
            .with_detail(format!("a database needs {OPEN_FILES_MIN}"))
            .with_hint("raise the limit: ulimit -n 1024")
            .with_sqlstate("53000"));
    }
    // Once taken, a signal stays so: the write's own error says what happened.
    let taken = signal(SignalKind::from_raw(FILE_TOO_LARGE));
    taken
        .map(drop)
        .map_err(|error| Error::unavailable(format!("can't take a signal: {error}")))
}

/// How many files may be open at once, once the limit is as high as the system lets it be.
fn open_files() -> u64 {
    // Where the system has no such limit, there is nothing to raise.
    rlimit::increase_nofile_limit(u64::MAX).unwrap_or(u64::MAX)
}

/// How many connections may be open, so that the database has the files that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connections {
    /// All files that may be open.
    pub(crate) files: u64,
    /// Connections of all protocols but HTTP.
    pub(crate) clients: usize,
    /// Connections of HTTP.
    pub(crate) http: usize,
}

impl Connections {
    /// As many as this process may have.
    pub(crate) fn allowed() -> Connections {
        Connections::of(open_files())
    }

    /// As many as fit beside the database into so many open files, which are enough for one.
    fn of(files: u64) -> Connections {
        let kept = (files / KEPT_SHARE).min(KEPT_MAX);
        let work = (files / WORK_SHARE).min(WORK_MAX);
        let all = usize::try_from(files - kept - work).unwrap_or(usize::MAX);
        let all = all.min(CONNECTIONS_MAX);
        let http = (all / HTTP_SHARE).min(HTTP_MAX);
        Connections {
            files,
            clients: all - http,
            http,
        }
    }

    /// How many clients of one protocol can be let in, of those that are wanted.
    pub(crate) fn let_in(&self, wanted: usize) -> usize {
        let beginning = (self.clients / BEGINNING_SHARE).min(BEGINNING_MAX);
        wanted.min(self.clients - beginning)
    }
}

#[cfg(test)]
mod tests {
    use super::{Connections, OPEN_FILES_MIN};

    #[test]
    fn connections_leave_files_for_the_database() {
        let least = Connections::of(OPEN_FILES_MIN);
        assert_eq!((least.clients, least.http), (12, 4));
        assert_eq!(least.let_in(500), 9);
        assert_eq!(least.let_in(5), 5);
        // The limit that many systems have holds what is configured where nobody says otherwise.
        let usual = Connections::of(1024);
        assert_eq!(usual.let_in(500), 500);
        for files in OPEN_FILES_MIN..10_000 {
            let of = Connections::of(files);
            let left = files - (of.clients + of.http) as u64;
            assert!(
                left >= 48 && left >= (files / 4).min(512) + 32,
                "{files}: {of:?}"
            );
            assert!(of.http > 0 && of.let_in(usize::MAX) > 0, "{files}: {of:?}");
        }
        assert_eq!(Connections::of(u64::MAX).let_in(5_000), 5_000);
    }
}
