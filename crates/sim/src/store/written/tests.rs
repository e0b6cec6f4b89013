//! Batches whose frames are laid out by hand.

use super::Written;
use crate::marks::Mark;

/// A frame of a batch without a payload.
fn frame(commits: bool, batch: u8, scu: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..4].copy_from_slice(b"LBFR");
    bytes[8] = if commits { 2 } else { 1 };
    bytes[32] = scu;
    bytes[56] = batch;
    bytes
}

#[test]
fn a_batch_is_told_by_all_of_its_frames() {
    let mut written = Written::default();
    let early = [frame(false, 1, 3), frame(false, 2, 3)].concat();
    assert!(written.note("log/1", &early).is_empty());
    assert!(written.note("log/1", &frame(true, 2, 3)).is_empty());
    assert!(written.has_open_batches());
    let header = vec![1; 64];
    let late = [header, frame(false, 1, 4), frame(true, 1, 4)].concat();
    let met = [Mark::FramesSeveral, Mark::FramesOfScus, Mark::FramesInFiles];
    assert_eq!(written.note("log/2", &late), met);
    assert!(!written.has_open_batches());
}
