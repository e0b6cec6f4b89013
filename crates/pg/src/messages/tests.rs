//! Tests of `messages`.

use super::*;

fn framed(kind: u8, body: &[u8]) -> BytesMut {
    let length = u32::try_from(body.len() + 4).unwrap();
    let mut bytes = BytesMut::from(&[kind][..]);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn a_message_waits_until_it_is_whole() {
    let whole = framed(b'Q', b"SELECT 1\0");
    for cut in 0..whole.len() {
        let mut part = BytesMut::from(&whole[..cut]);
        assert_eq!(take(&mut part).unwrap(), None, "{cut}");
        assert_eq!(part.len(), cut, "nothing is taken");
    }
    let mut two = whole.clone();
    two.extend_from_slice(&framed(b'S', b""));
    assert_eq!(
        take(&mut two).unwrap(),
        Some(Message::Query("SELECT 1".to_owned()))
    );
    assert_eq!(take(&mut two).unwrap(), Some(Message::Sync));
    assert!(two.is_empty());
}

#[test]
fn values_are_bound_with_their_formats() {
    let mut body = b"p\0s\0".to_vec();
    body.extend_from_slice(&[0, 1, 0, 1, 0, 2]);
    body.extend_from_slice(&(-1_i32).to_be_bytes());
    body.extend_from_slice(&2_i32.to_be_bytes());
    body.extend_from_slice(b"ab\0\0");
    let message = take(&mut framed(b'B', &body)).unwrap().unwrap();
    let Message::Bind(bind) = message else {
        panic!("{message:?}");
    };
    assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("p", "s"));
    assert_eq!(bind.formats, [1]);
    assert_eq!(bind.values, [None, Some(Bytes::from_static(b"ab"))]);
    assert!(bind.result_formats.is_empty());
}

#[test]
fn every_cut_or_twisted_message_is_an_error_and_no_panic() {
    let parse = framed(b'P', b"n\0SELECT $1\0\0\x02\0\0\0\x17\0\0\0\x19");
    let bind = framed(b'B', b"\0\0\0\x01\0\x01\0\x01\0\0\0\x02ab\0\x01\0\x01");
    for whole in [
        parse,
        bind,
        framed(b'D', b"Sx\0"),
        framed(b'E', b"\0\0\0\0\x05"),
    ] {
        assert!(take(&mut whole.clone()).unwrap().is_some());
        for at in 1..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut twisted = whole.clone();
                twisted[at] = byte;
                // Whatever it says, it says so without reading past its end.
                drop(take(&mut twisted));
            }
            let mut cut = framed(whole[0], &whole[5..at.max(5)]);
            drop(take(&mut cut));
        }
    }
    for (kind, body) in [
        (b'Q', &b"no end"[..]),
        (b'Q', b"two\0texts\0"),
        (b'E', b"\0\0\0"),
        (b'D', b"Xname\0"),
        (b'Z', b""),
        (0, b""),
    ] {
        assert!(take(&mut framed(kind, body)).is_err(), "{body:?}");
    }
    for kind in *b"QPS" {
        let mut bytes = framed(kind, b"\xff\xfe\0\0\0");
        if kind == b'Q' {
            bytes = framed(kind, b"\xff\xfe\0");
        }
        let told = take(&mut bytes);
        match kind {
            b'S' => assert!(told.is_err(), "Sync has no text"),
            _ => assert_eq!(
                told.unwrap(),
                Some(Message::Unreadable {
                    query: kind == b'Q'
                })
            ),
        }
    }
    let mut long = BytesMut::from(&b"Q\x7f\xff\xff\xff"[..]);
    assert!(take(&mut long).is_err());
}
