//! What is told of files that are gone, of logs that are laid out by hand.

use super::{Harm, LogFile, Missed, Teller, missed, names_edit, newest_of, told_through};

fn put(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

fn put_checksum(bytes: &mut [u8], at: usize, checksum: u32) {
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

fn name(number: u64) -> String {
    format!("log/{number:016x}.log")
}

/// A frame: whether it commits its batch, that, its SCU, and the SCU that stands before its file.
type Told = (bool, u64, u64, u64);

/// A frame at its place in a file; a commit frame names manifest 30.
fn frame(number: u64, offset: u64, (commits, batch, scu, before): Told) -> Vec<u8> {
    let mut payload = vec![5; 64];
    if commits {
        payload.fill(0);
        payload[32] = 2;
        payload[48] = 30;
    }
    let mut bytes = vec![0; 64];
    bytes[..4].copy_from_slice(b"LBFR");
    bytes[8] = if commits { 2 } else { 1 };
    bytes[10] = (scu - before) as u8 + 1;
    put_checksum(&mut bytes, 12, crc32c::crc32c(&payload));
    put(&mut bytes, 16, 64);
    put(&mut bytes, 24, number * 100);
    put(&mut bytes, 32, scu);
    put(&mut bytes, 56, batch);
    let place = [number.to_le_bytes(), offset.to_le_bytes()].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&place), &bytes[8..]);
    put_checksum(&mut bytes, 4, checksum);
    bytes.extend(payload);
    bytes
}

fn header(magic: &[u8], fields: &[(usize, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(magic);
    for (at, number) in fields {
        put(&mut bytes, *at, *number);
    }
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
    put_checksum(&mut bytes, 12, checksum);
    bytes
}

/// A file that was begun behind another one, with these frames.
fn begun(number: u64, previous: u64, frames: &[Told]) -> Vec<u8> {
    let end = if previous == 0 { 0 } else { 640 };
    let fields = [
        (16, number),
        (24, number * 100),
        (32, previous),
        (40, previous * 100),
        (48, end),
    ];
    let mut bytes = header(b"LAZYLOG\n", &fields);
    for told in frames {
        let offset = bytes.len() as u64;
        bytes.extend(frame(number, offset, *told));
    }
    bytes
}

fn ready(number: u64, before: u64) -> Vec<u8> {
    header(b"LAZYRDY\n", &[(16, number), (24, before), (32, 640)])
}

fn files(all: &[(u64, Vec<u8>)]) -> Vec<LogFile> {
    let file = |(number, bytes): &(u64, Vec<u8>)| LogFile::of(&name(*number), bytes).unwrap();
    all.iter().map(file).collect()
}

#[test]
fn the_newest_is_missed_by_the_one_that_is_ready() {
    let newest = begun(4, 0, &[(true, 1, 2, 1)]);
    let told = files(&[(4, newest.clone()), (5, ready(5, 4))]);
    assert_eq!(missed(&told, &name(4), 1), Missed::By(Teller::Ready));
    // Also where all in it is sealed: what it held can't be known.
    assert_eq!(missed(&told, &name(4), 2), Missed::By(Teller::Ready));
    let further = files(&[(4, newest.clone()), (5, ready(5, 4)), (7, ready(7, 5))]);
    assert_eq!(missed(&further, &name(4), 1), Missed::By(Teller::Ready));
    let alone = files(&[(4, newest.clone())]);
    assert_eq!(missed(&alone, &name(4), 1), Missed::Untold);
    // No greater number is left: its own could be another file's.
    assert_eq!(missed(&alone, &name(4), 2), Missed::Untold);
    let behind = files(&[(4, newest.clone()), (5, vec![0; 64])]);
    assert_eq!(missed(&behind, &name(4), 1), Missed::Untold);
    assert_eq!(missed(&behind, &name(4), 2), Missed::No);
    let mut torn = ready(5, 4);
    torn[36] ^= 1;
    let torn = files(&[(4, newest), (5, torn)]);
    assert_eq!(missed(&torn, &name(4), 1), Missed::Untold);
    // One that was never begun holds nothing that could be missed.
    assert_eq!(missed(&told, &name(5), 1), Missed::Untold);
}

#[test]
fn another_is_missed_by_what_the_next_one_says() {
    let first = begun(4, 0, &[(true, 1, 2, 1)]);
    let second = begun(6, 4, &[(true, 2, 2, 2)]);
    let told = files(&[(4, first.clone()), (6, second.clone()), (7, ready(7, 6))]);
    assert_eq!(missed(&told, &name(4), 1), Missed::By(Teller::Next));
    assert_eq!(missed(&told, &name(4), 2), Missed::No);
    // Nothing of the next one is whole, or no batch stands before it.
    let mut torn = second;
    torn[64 + 80] ^= 1;
    let torn = files(&[(4, first.clone()), (6, torn)]);
    assert_eq!(missed(&torn, &name(4), 1), Missed::Untold);
    let unsaid = begun(6, 4, &[(true, 2, 2, 1)]);
    let unsaid = files(&[(4, first.clone()), (6, unsaid)]);
    assert_eq!(missed(&unsaid, &name(4), 1), Missed::Untold);
    // The headers lead past it.
    let past = begun(6, 3, &[(true, 2, 2, 2)]);
    let past = files(&[(4, first), (6, past)]);
    assert_eq!(missed(&past, &name(4), 1), Missed::Untold);
}

#[test]
fn frames_of_a_batch_that_was_committed_later_may_be_missed() {
    let first = begun(4, 0, &[(true, 1, 2, 1), (false, 3, 2, 1)]);
    let second = begun(6, 4, &[(true, 3, 3, 2)]);
    let told = files(&[(4, first), (6, second)]);
    assert_eq!(missed(&told, &name(4), 2), Missed::Maybe);
    assert_eq!(missed(&told, &name(4), 3), Missed::No);
}

/// Its header leads no further back: what is sealed is not looked for.
#[test]
fn nothing_is_told_by_a_file_that_begins_with_what_is_sealed() {
    let first = begun(4, 0, &[(false, 1, 3, 1)]);
    let second = begun(6, 4, &[(true, 2, 2, 1), (true, 3, 3, 1)]);
    let told = files(&[(4, first), (6, second)]);
    assert_eq!(missed(&told, &name(4), 2), Missed::Untold);
}

#[test]
fn an_edit_is_named_by_a_batch_of_the_newest_file_that_was_begun() {
    let first = begun(4, 0, &[(true, 1, 2, 1)]);
    let data = begun(6, 4, &[(false, 2, 2, 1)]);
    let behind = ready(7, 6);
    assert!(names_edit(&files(&[(4, first.clone())]), 30));
    assert!(!names_edit(&files(&[(4, first.clone())]), 31));
    assert!(names_edit(
        &files(&[(4, first.clone()), (7, ready(7, 4))]),
        30
    ));
    assert!(!names_edit(
        &files(&[(4, first.clone()), (6, data), (7, behind)]),
        30
    ));
    let mut torn = first;
    torn[64 + 70] ^= 1;
    assert!(!names_edit(&files(&[(4, torn)]), 30));
}

#[test]
fn a_manifest_is_told_by_a_checkpoint_and_the_edits_after_it() {
    let name = |number: u64, kind: &str| format!("manifest/{number:020}.{kind}");
    let mut files: Vec<(String, u64)> = (1..=6).map(|at| (name(at, "edit"), 9)).collect();
    files.push((name(4, "checkpoint"), 9));
    assert_eq!(newest_of(&files), 6);
    for harm in [Harm::Flip { byte: 1, bit: 3 }, Harm::Gone] {
        let told = |damaged: &[String]| {
            let damaged: Vec<_> = damaged.iter().map(|name| (name.clone(), harm)).collect();
            told_through(&files, &damaged)
        };
        for unneeded in [name(4, "edit"), name(4, "checkpoint")] {
            assert_eq!(told(&[unneeded]), Some(6));
        }
        assert_eq!(told(&[name(5, "edit")]), None);
        assert_eq!(told(&[name(4, "checkpoint"), name(2, "edit")]), None);
        // The files that are left end before one that is gone.
        let without_newest = match harm {
            Harm::Gone => Some(5),
            _ => None,
        };
        assert_eq!(told(&[name(6, "edit")]), without_newest);
    }
}
