//! Frames as bytes; golden files pin those of a log.

#![allow(
    clippy::disallowed_methods,
    reason = "the golden files are written by the test that compares them, when it is asked to"
)]

use bytes::Bytes;
use lazybase_model::{SchemaVersion, ScuNumber, TableId};

use super::commit::{Commit, CommitPart, ProducerStamp};
use super::{
    EncodedFrame, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind,
    FramePlace, FrameStamp, HeaderState, LogEnd, ReadyHeader, flip_in_header, flip_in_payload,
    log_name, log_number, payload_of, verify_frame,
};

fn header() -> FileHeader {
    FileHeader {
        number: 7,
        identity: 0xc0ff_ee00_dead_beef,
        previous: Some(LogEnd {
            number: 6,
            identity: 5,
            end: 4096,
        }),
        durable: 64,
    }
}

#[test]
fn names_have_numbers() {
    assert_eq!(log_name(255), "log/00000000000000ff.log");
    assert_eq!(log_number("log/00000000000000ff.log"), Some(255));
    for name in [
        "log/ff.log",
        "log/00000000000000ff",
        "log/000000000000zzzz.log",
    ] {
        assert_eq!(log_number(name), None, "{name}");
    }
}

#[test]
fn a_file_header_belongs_to_its_file() {
    let bytes = header().encode();
    assert_eq!(FileHeader::decode(&bytes, 7), HeaderState::Valid(header()));
    assert_eq!(FileHeader::decode(&bytes, 8), HeaderState::Absent);
    assert_eq!(FileHeader::decode(&[0; 64], 7), HeaderState::Absent);
    assert_eq!(FileHeader::decode(&bytes[..63], 7), HeaderState::Absent);
    assert_eq!(
        FileHeader::decode(&FileHeader::PLACEHOLDER, 7),
        HeaderState::Absent
    );
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            FileHeader::decode(&flipped, 7),
            HeaderState::Damaged,
            "bit {bit}"
        );
        assert!(FileHeader::is_one_bit_off(&flipped, 7));
    }
}

fn frame(lz4: bool) -> EncodedFrame {
    let head: Vec<u8> = (0..48).collect();
    let frame = EncodedFrame::new(FrameKind::Data, head, Bytes::from(vec![9u8; 160]));
    if lz4 { frame.compressed() } else { frame }
}

fn stored(frame: &EncodedFrame, number: u64, offset: u64) -> Vec<u8> {
    let stamp = FrameStamp {
        identity: 11,
        scu: ScuNumber(3),
        before: Some(ScuNumber(2)),
        batch: 0x1234_5678_9abc_def0,
        durable: 64,
    };
    let mut bytes = frame.header(stamp).encode(number, offset).to_vec();
    bytes.extend_from_slice(&frame.head);
    bytes.extend_from_slice(&frame.body);
    bytes
}

#[test]
fn a_frame_reads_back_only_at_its_place() {
    for lz4 in [false, true] {
        let frame = frame(lz4);
        let bytes = stored(&frame, 7, 128);
        assert_eq!(bytes.len() as u64, frame.frame_length());
        let header = verify_frame(&bytes, 7, 11, 128).unwrap();
        assert_eq!(
            (header.kind, header.lz4, header.scu),
            (FrameKind::Data, lz4, ScuNumber(3))
        );
        let payload = payload_of(&Bytes::from(bytes.clone()), &header).unwrap();
        assert_eq!(payload.len(), 208);
        assert!(verify_frame(&bytes, 8, 11, 128).is_err());
        assert!(verify_frame(&bytes, 7, 12, 128).is_err());
        assert!(verify_frame(&bytes, 7, 11, 144).is_err());
        assert!(verify_frame(&bytes[..bytes.len() - 1], 7, 11, 128).is_err());
    }
}

#[test]
fn a_frame_says_what_stands_before_its_file_unless_that_is_too_far_back() {
    let far = u64::from(u16::MAX);
    for (scu, before, said) in [
        (far, 0, None),
        (far, 1, Some(1)),
        (far, far, Some(far)),
        (0, 0, Some(0)),
        (1, 2, None),
    ] {
        let stamp = FrameStamp {
            identity: 11,
            scu: ScuNumber(scu),
            before: Some(ScuNumber(before)),
            batch: 1,
            durable: 64,
        };
        let bytes = frame(false).header(stamp).encode(7, 128);
        let header = FrameHeader::decode(&bytes, 7, 128).unwrap();
        assert_eq!(header.before, said.map(ScuNumber), "{scu}, {before}");
    }
}

#[test]
fn every_flipped_bit_of_a_frame_is_found_and_located() {
    let bytes = stored(&frame(false), 7, 128);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let damage = verify_frame(&flipped, 7, 11, 128).unwrap_err();
        match damage {
            super::FrameDamage::Payload { expected, actual } => {
                let payload = bytes.len() - FRAME_HEADER_BYTES;
                let byte = flip_in_payload(expected, actual, payload).unwrap();
                assert_eq!(byte + FRAME_HEADER_BYTES, bit / 8);
            }
            super::FrameDamage::Header => {
                let (byte, header) = flip_in_header(&flipped, 7, 11, 128).unwrap();
                assert_eq!(byte, bit / 8);
                assert_eq!(Some(header), FrameHeader::decode(&bytes, 7, 128));
            }
        }
    }
}

#[test]
fn a_commit_reads_back() {
    let part = CommitPart {
        table: TableId(1),
        version: SchemaVersion(2),
        rows: 3,
        raw_bytes: 4,
        first_row: 5,
        place: FramePlace {
            file: 6,
            identity: 7,
            offset: 8,
            length: 9,
        },
    };
    let producer = ProducerStamp {
        name: "feed".to_owned(),
        number: 10,
        content_hash: 11,
        epoch: 12,
    };
    for producer in [None, Some(producer)] {
        for parts in [0, 1, 3] {
            let commit = Commit {
                ack_micros: -1,
                position: 2,
                producer: producer.clone(),
                ddl_batch: (parts > 0).then_some(13),
                manifest: (parts != 1).then_some(14),
                parts: vec![part; parts],
            };
            let bytes = commit.encode().head;
            assert_eq!(Commit::decode(&bytes).unwrap(), commit);
            assert!(Commit::decode(&bytes[..bytes.len() - 16]).is_err());
        }
    }
}

#[test]
fn a_header_of_a_ready_file_belongs_to_its_file_and_is_none_of_a_begun_one() {
    let ready = ReadyHeader {
        number: 8,
        begun: 7,
        begun_bytes: 4096,
    };
    let bytes = ready.encode();
    assert_eq!(ReadyHeader::decode(&bytes, 8), Some(ready));
    assert_eq!(ReadyHeader::decode(&bytes, 9), None);
    assert_eq!(FileHeader::decode(&bytes, 8), HeaderState::Absent);
    assert_eq!(ReadyHeader::decode(&header().encode(), 7), None);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(ReadyHeader::decode(&flipped, 8), None, "bit {bit}");
    }
}

/// A log file of one batch: header, data frame, commit frame, and the space behind them.
fn sample_log(manifest: Option<u64>) -> Vec<u8> {
    let header = FileHeader {
        number: 3,
        identity: 0x0123_4567_89ab_cdef,
        previous: Some(LogEnd {
            number: 2,
            identity: 0xfedc_ba98_7654_3210,
            end: 4160,
        }),
        durable: FILE_HEADER_BYTES,
    };
    let stamp = FrameStamp {
        identity: header.identity,
        scu: ScuNumber(5),
        before: Some(ScuNumber(4)),
        batch: 77,
        durable: FILE_HEADER_BYTES,
    };
    let mut bytes = header.encode().to_vec();
    let mut place = FramePlace {
        file: 3,
        identity: header.identity,
        offset: bytes.len() as u64,
        length: 0,
    };
    let push = |bytes: &mut Vec<u8>, frame: &EncodedFrame| {
        let offset = bytes.len() as u64;
        bytes.extend_from_slice(&frame.header(stamp).encode(3, offset));
        bytes.extend_from_slice(&frame.head);
        bytes.extend_from_slice(&frame.body);
    };
    let data = frame(false);
    place.length = data.frame_length();
    push(&mut bytes, &data);
    let commit = Commit {
        ack_micros: 1_700_000_000_000_000,
        position: 1,
        producer: Some(ProducerStamp {
            name: "feed".to_owned(),
            number: 10,
            content_hash: 11,
            epoch: 12,
        }),
        ddl_batch: None,
        manifest,
        parts: vec![CommitPart {
            table: TableId(1),
            version: SchemaVersion(2),
            rows: 3,
            raw_bytes: 4,
            first_row: 0,
            place,
        }],
    };
    push(&mut bytes, &commit.encode());
    bytes.resize(1024, 0);
    bytes
}

#[test]
fn the_golden_log_is_what_is_written() {
    let root = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/log");
    let ready = ReadyHeader {
        number: 4,
        begun: 3,
        begun_bytes: 1024,
    };
    let files = [
        ("format-4/0000000000000003.log", sample_log(Some(19))),
        ("format-4/0000000000000004.log", ready.encode().to_vec()),
    ];
    for (name, bytes) in files {
        let path = root.join(name);
        if std::env::var("LAZYBASE_GOLDEN").is_ok() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(
            std::fs::read(&path).unwrap(),
            bytes,
            "{name}: the format changed"
        );
    }
    // What version 3 wrote is read as it is: its frames don't say what stands before their file.
    let older = std::fs::read(root.join("format-3/0000000000000003.log")).unwrap();
    let header = FileHeader::decode(&older, 3);
    assert!(matches!(header, HeaderState::Valid(_)), "{header:?}");
    let (header, commit) = commit_in(&older);
    assert_eq!((header.before, commit.manifest), (None, Some(19)));
    let ready_before = std::fs::read(root.join("format-3/0000000000000004.log")).unwrap();
    assert_eq!(ReadyHeader::decode(&ready_before, 4), Some(ready));
    // Commit frames of version 2 name no manifest.
    let (header, commit) = commit_in(&sample_log(None));
    assert_eq!(header.before, Some(ScuNumber(4)));
    assert_eq!((commit.manifest, commit.parts.len()), (None, 1));
}

/// The commit frame of the sample.
fn commit_in(log: &[u8]) -> (FrameHeader, Commit) {
    let offset = (FILE_HEADER_BYTES + frame(false).frame_length()) as usize;
    let rest = Bytes::copy_from_slice(&log[offset..]);
    let header = FrameHeader::decode(&rest, 3, offset as u64).unwrap();
    let payload = payload_of(&rest.slice(..header.frame_length() as usize), &header).unwrap();
    (header, Commit::decode(&payload).unwrap())
}
