//! What the operating system allows the process: open files, and files of any size.

use lazybase_model::{Error, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Open files without which no database runs: `crates/server/tests/it/limits.rs` holds it to this.
const OPEN_FILES_MIN: u64 = 64;
/// The signal that ends a process whose file grows over the limit, unless it is taken.
const FILE_TOO_LARGE: i32 = 25;

/// Asks for as many open files as the system lets the process have, and lets a write that is too
/// large for the system fail as others do. Within a runtime.
///
/// # Errors
/// `Unavailable` when too few files can be open at once.
pub(crate) fn prepare() -> Result<()> {
    // Where the system has no such limit, there is nothing to raise.
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(u64::MAX);
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
