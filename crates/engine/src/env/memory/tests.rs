//! The store in memory, and what its crash images keep and lose.

use bytes::Bytes;
use futures::executor::block_on;

use super::{MemoryStore, Unsynced};
use crate::env::{LogFile, Store};

fn put(store: &MemoryStore, name: &str) {
    block_on(store.put_if_absent(name, Bytes::from_static(b"x"))).unwrap();
}

fn write(log: &mut dyn LogFile, offset: u64, bytes: &[u8]) {
    block_on(log.write_at(offset, bytes)).unwrap();
}

fn names(store: &MemoryStore) -> Vec<String> {
    let files = block_on(store.list("")).unwrap();
    files.into_iter().map(|(name, _)| name).collect()
}

fn read(store: &MemoryStore, name: &str) -> Vec<u8> {
    let length = block_on(store.len(name)).unwrap();
    block_on(store.read(name, 0..length)).unwrap().to_vec()
}

#[test]
fn conforms() {
    block_on(crate::env::conformance::check(&MemoryStore::new()));
    block_on(crate::env::conformance::check(
        &MemoryStore::without_history(),
    ));
}

#[test]
fn every_prefix_of_puts() {
    let store = MemoryStore::new();
    let mut writer = block_on(store.create("b")).unwrap();
    put(&store, "a");
    block_on(writer.write(Bytes::from_static(b"bb"))).unwrap();
    assert_eq!(store.operations(), 1);
    block_on(writer.finish()).unwrap();
    assert!(block_on(store.put_if_absent("a", Bytes::new())).is_err());
    block_on(store.delete("none")).unwrap();
    assert_eq!(store.operations(), 2);
    assert_eq!(store.describe(2).unwrap(), "put b: 2 bytes");
    assert_eq!(store.describe(0), None);

    let expected: [&[&str]; 3] = [&[], &["a"], &["a", "b"]];
    for (operations, expected) in expected.into_iter().enumerate() {
        let image = store.crash_image(operations, Unsynced::Nothing);
        assert_eq!(names(&image), expected);
    }
    // An image lives apart from its origin, and has images of its own.
    let image = store.crash_image(1, Unsynced::Nothing);
    put(&image, "c");
    assert_eq!(names(&store), ["a", "b"]);
    assert_eq!(names(&image.crash_image(0, Unsynced::Nothing)), ["a"]);
    assert_eq!(names(&image.crash_image(1, Unsynced::Nothing)), ["a", "c"]);
}

#[test]
fn log_writes_before_a_sync_may_go() {
    let store = MemoryStore::new();
    let mut log = block_on(store.create_log("1.log", 8, None)).unwrap();
    write(&mut *log, 0, b"ab");
    block_on(log.sync()).unwrap();
    write(&mut *log, 1, b"XY");
    write(&mut *log, 2, b"cd");
    assert_eq!(read(&store, "1.log"), b"aXcd\0\0\0\0");

    let now = store.operations();
    let crash = |operations, unsynced| read(&store.crash_image(operations, unsynced), "1.log");
    assert_eq!(crash(now, Unsynced::Nothing), b"ab\0\0\0\0\0\0");
    assert_eq!(crash(now, Unsynced::Everything), b"aXcd\0\0\0\0");
    assert_eq!(crash(2, Unsynced::Nothing), [0; 8]);
    assert_eq!(crash(2, Unsynced::Everything), b"ab\0\0\0\0\0\0");
    block_on(log.sync()).unwrap();
    assert_eq!(crash(now + 1, Unsynced::Nothing), b"aXcd\0\0\0\0");

    let mut seen = Vec::new();
    for seed in 0..100 {
        let bytes = crash(now, Unsynced::Prefix(seed));
        assert_eq!(
            bytes,
            crash(now, Unsynced::Prefix(seed)),
            "the seed decides"
        );
        seen.push(bytes[..4].to_vec());
    }
    seen.sort();
    seen.dedup();
    let possible: [&[u8]; 5] = [b"ab\0\0", b"aX\0\0", b"aXY\0", b"aXc\0", b"aXcd"];
    assert!(
        seen.iter().all(|seen| possible.contains(&&seen[..])),
        "{seen:?}"
    );
    assert!(seen.len() >= 3, "{seen:?}");
}

#[test]
fn scattered_sectors_leave_holes() {
    let store = MemoryStore::new();
    let mut log = block_on(store.create_log("1.log", 4096, None)).unwrap();
    write(&mut *log, 100, &[1; 3000]);
    let mut holes = 0;
    for seed in 0..50 {
        let image = store.crash_image(store.operations(), Unsynced::Scattered(seed));
        let bytes = read(&image, "1.log");
        assert!(bytes[..100].iter().all(|byte| *byte == 0));
        let sectors: Vec<bool> = bytes[512..2560]
            .chunks(512)
            .map(|part| part[0] == 1)
            .collect();
        for (index, sector) in bytes[512..2560].chunks(512).enumerate() {
            assert!(
                sector.iter().all(|byte| (*byte == 1) == sectors[index]),
                "{seed}"
            );
        }
        holes += usize::from(sectors.windows(2).any(|pair| pair == [false, true]));
    }
    assert!(holes > 0);
}

#[test]
fn a_removal_lasts_from_the_next_durable_file_on() {
    let store = MemoryStore::new();
    for name in ["a/1", "a/2", "b/1"] {
        put(&store, name);
    }
    block_on(store.delete("a/1")).unwrap();
    block_on(store.delete("b/1")).unwrap();
    let crash = |operations, unsynced| names(&store.crash_image(operations, unsynced));
    assert_eq!(crash(5, Unsynced::Nothing), ["a/1", "a/2", "b/1"]);
    assert_eq!(crash(5, Unsynced::Everything), ["a/2"]);
    put(&store, "a/3");
    assert_eq!(crash(6, Unsynced::Nothing), ["a/2", "a/3", "b/1"]);
}

#[test]
fn a_removed_log_comes_back_as_it_was_synced() {
    let store = MemoryStore::new();
    let mut log = block_on(store.create_log("1.log", 2, None)).unwrap();
    write(&mut *log, 0, b"a");
    block_on(log.sync()).unwrap();
    write(&mut *log, 0, b"b");
    block_on(store.delete("1.log")).unwrap();
    let image = store.crash_image(store.operations(), Unsynced::Nothing);
    assert_eq!(read(&image, "1.log"), b"a\0");
    put(&store, "2");
    write(&mut *log, 0, b"c");
    block_on(log.sync()).unwrap();
    assert_eq!(
        names(&store.crash_image(store.operations(), Unsynced::Nothing)),
        ["2"]
    );
}

#[test]
fn a_recycled_log_keeps_its_writes_and_their_fate() {
    let store = MemoryStore::new();
    let mut log = block_on(store.create_log("1.log", 4, None)).unwrap();
    write(&mut *log, 0, b"ab");
    block_on(log.sync()).unwrap();
    let mut log = block_on(store.create_log("2.log", 4, Some("1.log"))).unwrap();
    write(&mut *log, 0, b"xy");
    let image = store.crash_image(store.operations(), Unsynced::Nothing);
    assert_eq!(names(&image), ["2.log"]);
    assert_eq!(read(&image, "2.log"), b"ab\0\0");
}
