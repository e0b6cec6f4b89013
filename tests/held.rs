//! What statements hold of a database, files pinned, memory and temporary files: waited for in the
//! tests of each protocol.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "what is beside the database is looked at from outside"
)]

use std::path::Path;
use std::time::Duration;

use lazybase_query::Database;
use tokio::time::{Instant, sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);

/// How many temporary files statements have, of the database in this folder.
fn spilt(folder: &Path) -> usize {
    let folders = std::fs::read_dir(folder.join("tmp")).unwrap();
    let files = folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    files.map(|files| files.count()).sum()
}

/// Waits until no statement holds files or memory, or has temporary files.
pub(crate) async fn until_nothing_is_held(database: &Database, folder: &Path) {
    let until = Instant::now() + PATIENCE;
    loop {
        let pins = database.instance().pins().len();
        let memory = database.query_memory_used();
        let spilt = spilt(folder);
        if (pins, memory, spilt) == (0, 0, 0) {
            return;
        }
        let held = format!("{pins} pins, {memory} bytes, {spilt} temporary files");
        assert!(Instant::now() < until, "{held}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until some statement has temporary files.
pub(crate) async fn until_spilt(folder: &Path) {
    let has_spilt = async {
        while spilt(folder) == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let has_spilt = timeout(PATIENCE, has_spilt).await;
    has_spilt.expect("the statement spills");
}
