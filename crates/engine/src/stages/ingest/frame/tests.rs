//! Frames as bytes.

use bytes::Bytes;
use lazybase_model::{SchemaVersion, ScuNumber, TableId};

use super::commit::{Commit, CommitPart, ProducerStamp};
use super::{
    EncodedFrame, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, FramePlace, FrameStamp,
    HeaderState, LogEnd, flip_in_header, flip_in_payload, log_name, log_number, payload_of,
    verify_frame,
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
                parts: vec![part; parts],
            };
            let bytes = commit.encode().head;
            assert_eq!(Commit::decode(&bytes).unwrap(), commit);
            assert!(Commit::decode(&bytes[..bytes.len() - 16]).is_err());
        }
    }
}
