//! The bytes of the manifest's files: one line of JSON that says what the file is, then the body
//! as JSON. `docs/formats/manifest.md` describes them; golden files pin them.
//!
//! ```text
//!   manifest/00000000000000000012.edit          the edit that made manifest 12 of manifest 11
//!   manifest/00000000000000000256.checkpoint    manifest 256, whole
//! ```
//!
//! Invariant MF-1: the checksum covers every byte of the file but its own digits, and is compared
//! before anything else in the file is believed. Pure.

use bytes::Bytes;
use lazybase_model::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::edit::Edit;
use super::state::Manifest;
use crate::framed_json;

/// The version of the format that this program writes, and the newest that it reads. Version 1
/// knew no transactions with DDL, version 2 no schema changes, partitions, views, ID keys and merge
/// operators, version 4 nothing of who may do what, version 8 no sequences and no plain views.
pub const FORMAT: u32 = 9;

/// The folder of the manifest's files.
pub const FOLDER: &str = "manifest/";
/// The digits of a number in a file's name: as many as the largest has.
const DIGITS: usize = 20;

/// What a file of the manifest holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FileKind {
    /// One edit.
    #[serde(rename = "manifest edit")]
    Edit,
    /// A whole manifest.
    #[serde(rename = "manifest checkpoint")]
    Checkpoint,
}

impl FileKind {
    fn suffix(self) -> &'static str {
        match self {
            FileKind::Edit => ".edit",
            FileKind::Checkpoint => ".checkpoint",
        }
    }

    /// The name of the file of that kind and number.
    pub fn file_name(self, number: u64) -> String {
        format!("{FOLDER}{number:0DIGITS$}{}", self.suffix())
    }

    /// Kind and number of a file by its name; `None` for files of others.
    pub fn of_name(name: &str) -> Option<(FileKind, u64)> {
        let stem = name.strip_prefix(FOLDER)?;
        let (digits, suffix) = stem.split_at_checked(DIGITS)?;
        let mut kinds = [FileKind::Edit, FileKind::Checkpoint].into_iter();
        let kind = kinds.find(|kind| suffix == kind.suffix())?;
        let all_digits = digits.bytes().all(|digit| digit.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| all_digits)?;
        Some((kind, number))
    }
}

/// The first line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// What the file is.
    pub lazybase: FileKind,
    /// The version of its format.
    pub format: u32,
    /// Its number, as in its name.
    pub number: u64,
    /// Drawn by its writer, who knows his own write by it: 16 hexadecimal digits.
    pub nonce: String,
    /// CRC-32C of the file without these eight digits.
    pub crc32c: String,
}

/// A file that was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// An edit.
    Edit(Box<Edit>),
    /// A checkpoint.
    Checkpoint(Box<Manifest>),
}

/// Why a file can't be read.
#[derive(Debug, Clone)]
pub enum Unreadable {
    /// Its bytes are not those that were written.
    Damaged(Error),
    /// A newer version wrote it: nothing of it may be passed over.
    Newer(Error),
}

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Error {
        match unreadable {
            Unreadable::Damaged(error) | Unreadable::Newer(error) => error,
        }
    }
}

/// The nonce as files spell it.
pub(crate) fn spell_nonce(nonce: u64) -> String {
    format!("{nonce:016x}")
}

/// The bytes of an edit's file.
///
/// # Errors
/// `Internal` when a value has no JSON form.
pub fn encode_edit(number: u64, nonce: u64, edit: &Edit) -> Result<Bytes> {
    encode(FileKind::Edit, number, nonce, edit)
}

/// The bytes of a checkpoint's file.
///
/// # Errors
/// `Internal` when a value has no JSON form.
pub fn encode_checkpoint(nonce: u64, manifest: &Manifest) -> Result<Bytes> {
    encode(FileKind::Checkpoint, manifest.number, nonce, manifest)
}

/// A file with this body, whatever that is, and a good checksum.
pub(crate) fn framed(kind: FileKind, number: u64, body: &[u8]) -> Vec<u8> {
    let header = Header::new(kind, number, 1);
    let framed = framed_json::encode(&header, |bytes| {
        bytes.extend_from_slice(body);
        Ok(())
    });
    framed.unwrap_or_default()
}

fn encode(kind: FileKind, number: u64, nonce: u64, body: &impl Serialize) -> Result<Bytes> {
    let unwritable = |error| Error::internal(format!("a manifest can't be written: {error}"));
    let framed = framed_json::encode(&Header::new(kind, number, nonce), |bytes| {
        serde_json::to_writer(&mut *bytes, body)?;
        bytes.push(b'\n');
        Ok(())
    });
    framed.map(Bytes::from).map_err(unwritable)
}

impl Header {
    fn new(kind: FileKind, number: u64, nonce: u64) -> Header {
        Header {
            lazybase: kind,
            format: FORMAT,
            number,
            nonce: spell_nonce(nonce),
            crc32c: framed_json::NO_CHECKSUM.to_owned(),
        }
    }
}

/// Reads a file's first line and compares its checksum; the body follows.
///
/// # Errors
/// When the bytes are damaged, are not what the name says, or were written by a newer version;
/// as an [`Error`] it is `Corrupt` and names the file.
pub fn decode_header<'b>(name: &str, bytes: &'b [u8]) -> Result<(Header, &'b [u8]), Unreadable> {
    let damaged = |what: &str| {
        let error = Error::corrupt(format!("{name}: {what}"));
        Unreadable::Damaged(error.with_file(name))
    };
    let (first, body) = framed_json::split(bytes).map_err(damaged)?;
    let header: Header = serde_json::from_slice(first)
        .map_err(|error| damaged(&format!("the first line can't be read: {error}")))?;
    if header.format > FORMAT {
        let message = format!("{name}: written by a newer version of LazyBase");
        return Err(Unreadable::Newer(
            Error::corrupt(message)
                .with_detail(format!("format {}, this reads {FORMAT}", header.format))
                .with_hint("open the database with the version that wrote it"),
        ));
    }
    if FileKind::of_name(name) != Some((header.lazybase, header.number)) {
        return Err(damaged("the file stands under a wrong name"));
    }
    Ok((header, body))
}

/// Reads a file whole.
///
/// # Errors
/// As [`decode_header`], and when the body can't be read.
pub fn decode(name: &str, bytes: &[u8]) -> Result<(Header, Content), Unreadable> {
    let (header, body) = decode_header(name, bytes)?;
    let content = match header.lazybase {
        FileKind::Edit => Content::Edit(Box::new(decode_body(name, body)?)),
        FileKind::Checkpoint => {
            let manifest: Manifest = decode_body(name, body)?;
            if manifest.number != header.number {
                let message = format!("{name}: holds manifest {}", manifest.number);
                let error = Error::corrupt(message).with_file(name);
                return Err(Unreadable::Damaged(error));
            }
            Content::Checkpoint(Box::new(manifest))
        }
    };
    Ok((header, content))
}

fn decode_body<T: DeserializeOwned>(name: &str, body: &[u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("{name}: the body can't be read: {error}");
        Unreadable::Damaged(Error::corrupt(message).with_file(name))
    })
}

#[cfg(test)]
mod tests;
