//! A backup's file reads back; damage and newer versions are told; the golden file pins the bytes.

#![allow(
    clippy::disallowed_methods,
    reason = "the golden file is written by the test that compares it, when it is asked to"
)]

use std::path::PathBuf;

use lazybase_model::ErrorKind;

use super::*;
use crate::manifest::testing::Story;

fn sample() -> Backup {
    let mut story = Story::new();
    let view = story.create_table("t");
    story.seal();
    story.sort(&[view], 1);
    let mut manifest = story.manifest.clone();
    manifest.scus.clear();
    let segments = manifest.runs.values().flat_map(|run| run.segments.clone());
    let copied = |bytes| CopiedFile {
        bytes,
        crc32c: 0x1234_5678,
    };
    let files = segments.map(|segment| (segment.file.clone(), copied(segment.bytes)));
    Backup {
        number: 3,
        taken_micros: 1_700_000_000_000_000,
        oldest: ScuNumber(1),
        files: files.collect(),
        absent: Vec::new(),
        manifest: manifest.clone(),
    }
}

#[test]
fn a_backup_reads_back_and_any_damage_is_named() {
    let (name, backup) = (Backup::file_name(3), sample());
    let bytes = backup.encode().unwrap();
    assert_eq!(Backup::decode(&name, &bytes).unwrap(), backup);
    for byte in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[byte] ^= 1 << (byte % 8);
        let error = Backup::decode(&name, &damaged).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.damaged_file(), Some(name.as_str()), "byte {byte}");
        assert!(Backup::decode(&name, &bytes[..byte]).is_err());
    }
    assert!(Backup::decode(&Backup::file_name(4), &bytes).is_err());
}

#[test]
fn numbers_stand_in_names() {
    assert_eq!(Backup::file_name(3), "backups/00000003.backup");
    assert_eq!(Backup::number_of("backups/00000003.backup"), Some(3));
    for name in [
        "backups/3.backup",
        "backups/00000003.tmp",
        "00000003.backup",
    ] {
        assert_eq!(Backup::number_of(name), None, "{name}");
    }
}

#[test]
fn files_of_a_database_are_known_by_their_names() {
    let drawn = "0123456789abcdef0123456789abcdef";
    for extension in ["ext", "parquet", "times"] {
        assert!(is_copied_name(&format!("segments/{drawn}.{extension}")));
    }
    for name in [
        RESTORE_MARK.to_owned(),
        format!("backups/{drawn}.ext"),
        format!("{drawn}.ext"),
        format!("segments/deep/{drawn}.ext"),
        format!("segments/{drawn}"),
        format!("segments/{drawn}.ext.txt"),
        format!("segments/{}.ext", &drawn[1..]),
        format!("segments/{}.ext", drawn.to_uppercase()),
    ] {
        assert!(!is_copied_name(&name), "{name}");
    }
}

#[test]
fn the_golden_file_is_read_as_it_was_written() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/backup");
    let path = root.join("format-1/00000003.backup");
    if std::env::var("LAZYBASE_GOLDEN").is_ok() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, sample().encode().unwrap()).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(
        Backup::decode(&Backup::file_name(3), &bytes).unwrap(),
        sample()
    );
    assert_eq!(sample().encode().unwrap(), bytes, "the format changed");
}
