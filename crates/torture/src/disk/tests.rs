//! What is done to the disk is what its name says; where nothing can be mounted, that is said.

use std::io::Write;

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
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
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
    let kind = std::io::ErrorKind::ReadOnlyFilesystem;
    assert_eq!(error.kind(), kind, "{error}");
    disk.set_writable(true).unwrap();
    std::fs::write(&file, "a").unwrap();
}
