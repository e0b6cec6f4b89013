//! Frames as they are laid out by hand.

use super::{HEADER_BYTES, LogImage, begun_before};

fn put(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

fn frame(commits: bool, batch: u64, scu: u64, identity: u64) -> Vec<u8> {
    let payload = 20;
    let mut bytes = vec![7; HEADER_BYTES + 32];
    bytes[..4].copy_from_slice(b"LBFR");
    bytes[8] = if commits { 2 } else { 1 };
    put(&mut bytes, 16, payload);
    put(&mut bytes, 24, identity);
    put(&mut bytes, 32, scu);
    put(&mut bytes, 40, 64);
    put(&mut bytes, 56, batch);
    bytes
}

fn file(number: u64, identity: u64, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..8].copy_from_slice(b"LAZYLOG\n");
    put(&mut bytes, 16, number);
    put(&mut bytes, 24, identity);
    put(&mut bytes, 32, 4);
    put(&mut bytes, 48, 640);
    bytes.extend(frames.concat());
    bytes.extend([0; 200]);
    bytes
}

#[test]
fn frames_of_another_life_are_none_of_the_files() {
    let frames = [
        frame(false, 1, 3, 9),
        frame(true, 1, 4, 9),
        frame(true, 2, 4, 8),
    ];
    let bytes = file(5, 9, &frames);
    let log = LogImage::of("log/0000000000000005.log", &bytes).unwrap();
    assert_eq!((log.number, log.previous), (5, (4, 640)));
    let told: Vec<_> = log.frames.iter().map(|f| (f.from, f.to, f.scu)).collect();
    assert_eq!(told, [(64, 160, 3), (160, 256, 4)]);
    assert_eq!(log.bytes_of(&log.frames[1]), &frames[1][..]);
    assert!(LogImage::of("log/0000000000000006.log", &bytes).is_none());
    assert!(LogImage::of("log/0000000000000005.log", &bytes[..60]).is_none());
}

#[test]
fn a_frame_says_what_stands_before_its_file() {
    let mut told = frame(true, 1, 7, 9);
    told[10..12].copy_from_slice(&3_u16.to_le_bytes());
    let mut unsaid = frame(false, 2, 7, 9);
    unsaid[10..12].fill(0);
    let bytes = file(5, 9, &[told, unsaid]);
    let log = LogImage::of("log/0000000000000005.log", &bytes).unwrap();
    let before: Vec<_> = log.frames.iter().map(|frame| frame.before).collect();
    assert_eq!(before, [Some(5), None]);
    assert_eq!(log.identities, (9, 0));
}

#[test]
fn what_a_crash_cut_short_is_not_whole() {
    let mut bytes = file(5, 9, &[frame(true, 1, 7, 9)]);
    let name = "log/0000000000000005.log";
    let checked = |bytes: &[u8]| {
        let log = LogImage::of(name, bytes).unwrap();
        let first = &log.frames[0];
        (
            log.has_whole_header(),
            log.is_headed(first),
            log.is_whole(first),
        )
    };
    assert_eq!(checked(&bytes), (false, false, false));
    let header = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..64]);
    bytes[12..16].copy_from_slice(&header.to_le_bytes());
    let payload = crc32c::crc32c(&bytes[128..160]);
    bytes[76..80].copy_from_slice(&payload.to_le_bytes());
    let place = [5_u64.to_le_bytes(), 64_u64.to_le_bytes()].concat();
    let frame = crc32c::crc32c_append(crc32c::crc32c(&place), &bytes[72..128]);
    bytes[68..72].copy_from_slice(&frame.to_le_bytes());
    assert_eq!(checked(&bytes), (true, true, true));
    bytes[140] ^= 1;
    assert_eq!(checked(&bytes), (true, true, false));
    bytes[100] ^= 1;
    assert_eq!(checked(&bytes), (true, false, false));
}

#[test]
fn a_file_that_is_ready_names_the_one_that_was_being_written() {
    let mut bytes = vec![0; 200];
    bytes[..8].copy_from_slice(b"LAZYRDY\n");
    put(&mut bytes, 16, 5);
    put(&mut bytes, 24, 4);
    let name = "log/0000000000000005.log";
    assert_eq!(begun_before(name, &bytes), None);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..64]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(begun_before(name, &bytes), Some(4));
    assert_eq!(begun_before("log/0000000000000006.log", &bytes), None);
    assert_eq!(begun_before(name, &bytes[..63]), None);
}
