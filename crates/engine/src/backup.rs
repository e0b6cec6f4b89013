//! What a backup's own file says (`docs/formats/backup.md`): which manifest it holds, and which
//! files belong to it, each with its length and checksum.
//!
//! ```text
//!   backups/00000003.backup     the manifest of a boundary, and its files
//!   segments/...                as in a database: immutable, so each is there once for all backups
//! ```
//!
//! Bytes only; who copies is `crates/cluster/src/backup.rs`. Invariant BKP-1: a backup's file is
//! written when all files that it names are durable in the folder.

use std::collections::BTreeMap;

use arrow::temporal_conversions::timestamp_us_to_datetime;
use bytes::Bytes;
use lazybase_model::{Error, Result, ScuNumber};
use serde::{Deserialize, Serialize};

use crate::env::Store;
use crate::framed_json;
use crate::manifest::Manifest;

#[cfg(test)]
mod tests;

/// The version that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;
/// The folder of the backups' own files.
pub const FOLDER: &str = "backups/";
const SUFFIX: &str = ".backup";
/// Stands in a folder while a backup is restored into it, so that one that broke off is not taken
/// for a place of a new database.
pub const RESTORE_MARK: &str = "segments/restore-begun";
/// Is put when backups were removed, and taken away when their files are gone: what is put in a
/// folder makes the removals before it durable.
pub const PRUNE_MARK: &str = "backups/pruning";

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    lazybase: String,
    format: u32,
    number: u64,
    crc32c: String,
}

/// A copy of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedFile {
    /// Its length in bytes.
    pub bytes: u64,
    /// CRC-32C of all its bytes.
    pub crc32c: u32,
}

/// One backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Its number, from 1.
    pub number: u64,
    /// When it was taken, on the database's clock: microseconds since 1970.
    pub taken_micros: i64,
    /// The oldest SCU that it can be restored to.
    pub oldest: ScuNumber,
    /// The files that belong to it, by name.
    pub files: BTreeMap<String, CopiedFile>,
    /// Files of old times that the manifest names and nothing held any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// What they hold: a manifest in which everything is sorted, so that no log belongs to it.
    pub manifest: Manifest,
}

/// Whether a name is such as a database gives its segments and files of times, and a backup copies:
/// anything else beside them is a stranger's.
pub fn is_copied_name(name: &str) -> bool {
    let parts = name
        .strip_prefix("segments/")
        .and_then(|name| name.split_once('.'));
    parts.is_some_and(|(drawn, extension)| {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        drawn.len() == 32
            && drawn.bytes().all(is_hex)
            && ["ext", "parquet", "times"].contains(&extension)
    })
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::internal(format!("a backup can't be written: {error}"))
}

impl Backup {
    /// The name of its file.
    pub fn file_name(number: u64) -> String {
        format!("{FOLDER}{number:08}{SUFFIX}")
    }

    /// The number in the name of a backup's file.
    pub fn number_of(name: &str) -> Option<u64> {
        let digits = name.strip_prefix(FOLDER)?.strip_suffix(SUFFIX)?;
        let number = digits.parse().ok()?;
        (Backup::file_name(number) == name).then_some(number)
    }

    /// The newest SCU: everything acknowledged up to its end is there.
    pub fn newest(&self) -> ScuNumber {
        self.manifest.sorted_through
    }

    /// The SCUs and the times that it can be restored to, in words.
    pub fn reach(&self) -> String {
        let moment = |micros| match timestamp_us_to_datetime(micros) {
            Some(moment) => moment.to_string(),
            None => format!("{micros} us since 1970"),
        };
        // By then all of the oldest SCU had been acknowledged; without batches it has no time.
        let oldest = self.manifest.times.get(&self.oldest);
        let from = oldest.map(|time| format!("from {} ", moment(time.last_ack_micros)));
        format!(
            "SCUs {} to {}, {}to {} UTC",
            self.oldest,
            self.newest(),
            from.unwrap_or_default(),
            moment(self.taken_micros),
        )
    }

    /// The bytes of its file.
    ///
    /// # Errors
    /// `Internal` when a value has no JSON form.
    pub fn encode(&self) -> Result<Bytes> {
        let mut body = serde_json::to_vec(self).map_err(unwritable)?;
        body.push(b'\n');
        Backup::framed(self.number, &body)
    }

    /// A file with this body, whatever that is, and a good checksum.
    pub(crate) fn framed(number: u64, body: &[u8]) -> Result<Bytes> {
        let header = Header {
            lazybase: "backup".to_owned(),
            format: FORMAT,
            number,
            crc32c: framed_json::NO_CHECKSUM.to_owned(),
        };
        let framed = framed_json::encode(&header, |bytes| {
            bytes.extend_from_slice(body);
            Ok(())
        });
        framed.map(Bytes::from).map_err(unwritable)
    }

    /// Reads a backup's file.
    ///
    /// # Errors
    /// `Corrupt`, naming the file, when its bytes are damaged or of a newer version.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Backup> {
        let damaged = |what: &str| Error::corrupt(format!("{name}: {what}")).with_file(name);
        let (first, body) = framed_json::split(bytes).map_err(damaged)?;
        let header: Header = serde_json::from_slice(first)
            .map_err(|error| damaged(&format!("the first line can't be read: {error}")))?;
        if header.format > FORMAT {
            return Err(damaged("written by a newer version of LazyBase")
                .with_detail(format!("format {}, this reads {FORMAT}", header.format)));
        }
        let backup: Backup = serde_json::from_slice(body)
            .map_err(|error| damaged(&format!("it can't be read: {error}")))?;
        let known = (header.lazybase.as_str(), header.number, backup.number);
        match known == ("backup", backup.number, header.number)
            && Backup::number_of(name) == Some(backup.number)
        {
            true => Ok(backup),
            false => Err(damaged("the file stands under a wrong name")),
        }
    }

    /// Reads one backup of a folder.
    ///
    /// # Errors
    /// `NotFound` when there is none; `Corrupt`, naming the file, when it is damaged.
    pub async fn read(store: &dyn Store, number: u64) -> Result<Backup> {
        let name = Backup::file_name(number);
        let listed = store.list(FOLDER).await?;
        let Some((_, bytes)) = listed.iter().find(|(listed, _)| *listed == name) else {
            return Err(Error::not_found(format!("there is no backup {number}")));
        };
        let read = store.read(&name, 0..*bytes).await;
        let read = read.map_err(|error| Error::from(error).with_file(&name))?;
        Backup::decode(&name, &read)
    }

    /// The numbers of a folder's backups, oldest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn numbers(store: &dyn Store) -> Result<Vec<u64>> {
        let listed = store.list(FOLDER).await?;
        let numbers = listed
            .iter()
            .filter_map(|(name, _)| Backup::number_of(name));
        Ok(numbers.collect())
    }
}
