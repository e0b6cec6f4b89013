//! Frames as they are laid out by hand.

use super::{HEADER_BYTES, LogImage};

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
