//! The folder between two looks at it.

use std::time::Duration;

use futures::future::join;
use lazybase_engine::env::local::LocalStore;

use super::once_free;
use crate::wall;

#[test]
fn a_folder_is_waited_for_that_this_process_still_has() {
    let folder = tempfile::tempdir().unwrap();
    let held = LocalStore::open(folder.path()).unwrap();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let ending = async {
        wall::sleep(Duration::from_millis(50)).await;
        drop(held);
    };
    let taking = once_free(|| LocalStore::open(folder.path()));
    let ((), taken) = runtime.block_on(join(ending, taking));
    taken.unwrap();
}
