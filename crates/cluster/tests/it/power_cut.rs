//! Power cuts under a database in a folder: of the system's calls only what was synced is sure to
//! be on the disk, and after each of them it opens with all that was acknowledged.

use std::sync::Arc;

use lazybase_cluster::Settings;
use lazybase_engine::env::local::{DiskImage, DiskRecord, LocalStore};
use lazybase_engine::env::memory::Unsynced;

use crate::crash::{open_image, write_story};
use crate::harness::settings;
use crate::model::Model;

/// The database's folder below the base.
const ROOT: &str = "db";

/// After how many calls `cargo test` cuts the power once.
const STRIDE: usize = 41;

/// Log files are soon full, and used again.
fn small() -> Settings {
    Settings {
        log_file_bytes: 8 << 10,
        ..settings()
    }
}

/// What is left of the names, and of the bytes, that were not synced.
fn cuts(seed: u64) -> [(Unsynced, Unsynced); 3] {
    use Unsynced::{Everything, Nothing, Scattered};
    [
        (Nothing, Nothing),
        (Everything, Nothing),
        (Scattered(seed), Scattered(!seed)),
    ]
}

/// A story over a folder of its own, and all calls that changed it.
fn recorded_story() -> (DiskRecord, Vec<(usize, Model)>) {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let record = DiskRecord::below(&base);
    let store = LocalStore::open_recorded(&base.join(ROOT), &record).unwrap();
    let acknowledged = write_story(Arc::new(store), small(), || record.calls());
    (record, acknowledged)
}

fn open_left(image: &DiskImage, acknowledged: &[(usize, Model)], cut: usize) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    image.write_to(folder.path()).unwrap();
    let store = LocalStore::open(&folder.path().join(ROOT)).unwrap();
    open_image(Arc::new(store), small(), acknowledged, cut)
}

#[test]
fn a_database_opens_with_what_was_acknowledged_after_any_call() {
    let (record, acknowledged) = recorded_story();
    let calls = record.describe();
    let every_case = std::env::var("LAZYBASE_EVERY_CASE").is_ok();
    let stride = if every_case { 1 } else { STRIDE };
    let mut disk = record.replay();
    for cut in (acknowledged[0].0..=calls.len()).step_by(stride) {
        disk.go_to(cut);
        let all = cuts(cut as u64);
        let some = match every_case {
            true => &all[..],
            false => &all[cut % all.len()..][..1],
        };
        for (names, bytes) in some {
            let opened = open_left(&disk.image(*names, *bytes), &acknowledged, cut);
            let call = &calls[cut - 1];
            let left = format!("of names {names:?} and of bytes {bytes:?}");
            assert_eq!(opened, Ok(()), "after {cut} ({call}), {left}");
        }
    }
}

#[test]
fn without_the_syncs_of_logs_or_of_names_batches_are_lost() {
    let (record, acknowledged) = recorded_story();
    let is_lost = |left_out: &str, acknowledgement: usize| {
        let mut disk = record
            .without(|_, call| call.starts_with(left_out))
            .replay();
        let cut = acknowledged[acknowledgement].0;
        disk.go_to(cut);
        let cuts = cuts(cut as u64);
        cuts[..2].iter().any(|(names, bytes)| {
            open_left(&disk.image(*names, *bytes), &acknowledged, cut).is_err()
        })
    };
    assert!(!is_lost("nothing is left out", 1));
    assert!(is_lost(&format!("sync file {ROOT}/log/"), 1));
    assert!(is_lost(&format!("sync folder {ROOT}/log"), 1));
    assert!(is_lost(&format!("sync folder {ROOT}/manifest"), 0));
}
