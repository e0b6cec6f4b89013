//! Files read back; any flipped bit is found.

use lazybase_model::{ErrorKind, Table};

use super::*;
use crate::manifest::testing::{Story, table};

fn sample() -> (String, Bytes) {
    let story = Story::new();
    let edit = story.seal_edit();
    let bytes = encode_edit(7, 0xabc, &edit).unwrap();
    (FileKind::Edit.file_name(7), bytes)
}

#[test]
fn files_read_back() {
    let (name, bytes) = sample();
    let (header, content) = decode(&name, &bytes).unwrap();
    assert_eq!(header.nonce, "0000000000000abc");
    assert_eq!(content, Content::Edit(Box::new(Story::new().seal_edit())));
    let manifest = Story::new().manifest;
    let bytes = encode_checkpoint(1, &manifest).unwrap();
    let (_, content) = decode(&FileKind::Checkpoint.file_name(1), &bytes).unwrap();
    assert_eq!(content, Content::Checkpoint(Box::new(manifest)));
}

#[test]
fn a_limit_of_texts_is_kept_and_left_out_where_there_is_none() {
    let mut table = table("t", 1, 1);
    let create = |table: &Table| {
        let table = table.clone();
        encode_edit(7, 1, &Edit::CreateTable { table }).unwrap()
    };
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    // A file from before there were limits reads as one without.
    assert!(!text(&create(&table)).contains("characters_max"));
    table.columns[1].characters_max = Some(3);
    let bytes = create(&table);
    assert_eq!(text(&bytes).matches("\"characters_max\":3").count(), 1);
    let (_, content) = decode(&FileKind::Edit.file_name(7), &bytes).unwrap();
    assert_eq!(
        content,
        Content::Edit(Box::new(Edit::CreateTable { table }))
    );
}

#[test]
fn names_are_parsed_strictly() {
    let name = "manifest/00000000000000000012.checkpoint";
    assert_eq!(FileKind::of_name(name), Some((FileKind::Checkpoint, 12)));
    for name in [
        "manifest/12.edit",
        "manifest/00000000000000000012.edit.bak",
        "manifest/+0000000000000000012.edit",
        "other/00000000000000000012.edit",
    ] {
        assert_eq!(FileKind::of_name(name), None, "{name}");
    }
}

#[test]
fn any_flipped_bit_and_any_cut_is_found_and_named() {
    let (name, bytes) = sample();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = Error::from(decode(&name, &damaged).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().starts_with(&name), "bit {bit}: {error}");
    }
    for length in 0..bytes.len() {
        assert!(decode(&name, &bytes[..length]).is_err(), "{length}");
    }
    assert!(decode(&FileKind::Edit.file_name(8), &bytes).is_err());
    assert!(decode(&FileKind::Checkpoint.file_name(7), &bytes).is_err());
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let (name, _) = sample();
    let header = Header {
        format: FORMAT + 1,
        ..Header::new(FileKind::Edit, 7, 1)
    };
    let newer = framed_json::encode(&header, |bytes| {
        bytes.extend_from_slice(b"{}\n");
        Ok(())
    });
    let newer = newer.unwrap();
    let Err(Unreadable::Newer(error)) = decode(&name, &newer) else {
        panic!("it is newer");
    };
    assert!(
        error.message().contains("written by a newer version"),
        "{error}"
    );
}

#[test]
fn a_body_that_can_not_be_read_is_damage_of_its_file() {
    let name = FileKind::Edit.file_name(7);
    let bytes = framed(FileKind::Edit, 7, b"{\"nothing\":1}\n");
    let error = Error::from(decode(&name, &bytes).unwrap_err());
    assert_eq!(error.damaged_file(), Some(name.as_str()));
    // A checkpoint of another number than its header and its name say.
    let name = FileKind::Checkpoint.file_name(7);
    let manifest = serde_json::to_vec(&Story::new().manifest).unwrap();
    let bytes = framed(FileKind::Checkpoint, 7, &manifest);
    let error = Error::from(decode(&name, &bytes).unwrap_err());
    assert_eq!(error.damaged_file(), Some(name.as_str()));
}
