//! What is done to the disk is what its name says; where nothing can be mounted, that is said.

use std::fs::File;
use std::io::{ErrorKind, Write};

use super::Disk;

/// A folder of the test's own, and the disk in it, which goes first.
fn mounted() -> Option<(tempfile::TempDir, Disk)> {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::mount(&folder.path().join("disk")).unwrap();
    if disk.is_none() {
        // Around the test harness, which keeps what passing tests print.
        let word = b"SKIPPED: this system mounts nothing for tests\n";
        std::io::stderr().write_all(word).unwrap();
    }
    disk.map(|disk| (folder, disk))
}

#[test]
fn a_disk_is_full_until_its_filler_goes() {
    let Some((_folder, disk)) = mounted() else {
        return;
    };
    let file = disk.place.join("file");
    let filler = disk.fill().unwrap();
    let error = std::fs::write(&file, [7; 9_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    drop(filler);
    std::fs::write(&file, [7; 9_000]).unwrap();
    disk.sync().unwrap();
}

#[test]
fn a_disk_can_be_made_to_be_read_alone() {
    let Some((_folder, disk)) = mounted() else {
        return;
    };
    let file = disk.place.join("file");
    disk.set_writable(false).unwrap();
    let error = std::fs::write(&file, "a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{error}");
    disk.set_writable(true).unwrap();
    std::fs::write(&file, "a").unwrap();
}

#[test]
fn a_cover_keeps_files_from_being_made_while_others_are_written() {
    let Some((_folder, disk)) = mounted() else {
        return;
    };
    let (log, file) = (disk.place.join("log"), disk.place.join("file"));
    let mut open = File::create(&log).unwrap();
    assert!(disk.set_writable(false).is_err());
    let cover = disk.cover().unwrap();
    let error = std::fs::write(&file, "a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{error}");
    open.write_all(b"written").unwrap();
    open.sync_data().unwrap();
    let read = File::open(&log).unwrap();
    drop(cover);
    assert_eq!(std::io::read_to_string(read).unwrap(), "written");
    std::fs::write(&file, "a").unwrap();
}

#[tokio::test]
async fn a_disk_that_failed_keeps_what_was_synced() {
    let Some((_folder, disk)) = mounted() else {
        return;
    };
    if !disk.can_fail() {
        return;
    }
    let log = disk.place.join("log");
    for round in 0..2 {
        let mut open = File::create(&log).unwrap();
        open.write_all(b"synced").unwrap();
        open.sync_all().unwrap();
        disk.fail().unwrap();
        let written = open.write_all(b"lost").and_then(|()| open.sync_all());
        assert!(written.is_err(), "{round}");
        assert!(File::create(disk.place.join("file")).is_err(), "{round}");
        assert!(std::fs::read_to_string(&log).is_ok(), "{round}");
        drop(open);
        disk.mend().await.unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "synced");
    }
}
