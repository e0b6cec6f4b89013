//! What is needed of a damaged log.

use super::{Harm, LogImage, draw_flip, draw_torn, is_needed};
use crate::dice::Dice;

const LOG: &str = "log/0000000000000001.log";

/// A file with a data and a commit frame of each of these batches, told by their SCUs. All before
/// the last frame was durable when that was written.
fn image(scus: &[u64]) -> LogImage {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(b"LAZYLOG\n");
    bytes[16] = 1;
    for (batch, scu) in scus.iter().enumerate() {
        for kind in [1, 2] {
            let durable = bytes.len() as u16;
            let mut frame = vec![5; 64 + 160];
            frame[..4].copy_from_slice(b"LBFR");
            frame[8] = kind;
            frame[16..64].fill(0);
            frame[16] = 160;
            frame[32] = *scu as u8;
            frame[40..42].copy_from_slice(&durable.to_le_bytes());
            frame[56] = batch as u8 + 1;
            bytes.extend(frame);
        }
    }
    LogImage::of(LOG, &bytes).unwrap()
}

fn flip(byte: u64) -> Harm {
    Harm::Flip { byte, bit: 3 }
}

#[test]
fn frames_of_sealed_scus_are_not_needed() {
    let images = [image(&[1, 1, 2])];
    let needed = |byte, sealed| is_needed(&images, LOG, flip(byte), sealed);
    let second = images[0].frames[2].from;
    let third = images[0].frames[4].from;
    assert!(!needed(second, 1) && needed(third, 1) && !needed(third, 2));
    // The header is needed for any frame, and what is not known may be.
    assert!(needed(20, 1) && !needed(20, 2));
    assert!(is_needed(&images, "log/0000000000000009.log", flip(70), 9));
}

#[test]
fn a_data_frame_is_needed_with_its_batch() {
    let mut log = image(&[1, 2]);
    // The second batch began under the first SCU.
    log.frames[2].scu = 1;
    let byte = log.frames[2].from + 70;
    assert!(is_needed(&[log], LOG, flip(byte), 1));
}

#[test]
fn a_torn_frame_is_told_by_what_stands_behind_it() {
    let images = [image(&[1, 1])];
    let needed = |frame: usize| {
        let from = images[0].frames[frame].from;
        let harm = Harm::Torn { from, to: from + 8 };
        is_needed(&images, LOG, harm, 1)
    };
    assert!(!needed(0) && !needed(2) && needed(3));
}

#[test]
fn only_what_was_durable_is_torn() {
    let images = [image(&[1, 1])];
    let [first, .., last] = &images[0].frames[..] else {
        panic!("four frames");
    };
    let torn = |frame| {
        let mut dice = (0..50).map(|seed| Dice::of(seed, 1));
        dice.any(|mut dice| draw_torn(&mut dice, &images, &images[0], frame).is_some())
    };
    assert!(torn(first) && !torn(last));
}

/// The last byte of a frame that is not zero must not become so.
#[test]
fn a_flip_never_makes_a_frame_look_unwritten() {
    let mut log = image(&[1]);
    let frame = log.frames[1];
    log.bytes[frame.from as usize..frame.to as usize].fill(0);
    log.bytes[frame.from as usize] = 1 << 3;
    for seed in 0..200 {
        let harm = draw_flip(&mut Dice::of(seed, 1), &log, &frame);
        assert_ne!(harm, Some(flip(frame.from)), "{seed}");
    }
}
