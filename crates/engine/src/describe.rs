//! Any file of a database in words: what `lazybase inspect` shows. Reads the bytes of one file
//! and its name; each format's own module decodes, with its checksums.

use arrow::temporal_conversions::timestamp_ms_to_datetime;
use bytes::Bytes;
use lazybase_model::{Error, Result};

use crate::backup::Backup;
use crate::env::{LOCK_FILE, OWNER_FILE};
use crate::manifest::SegmentFormat;
use crate::manifest::file::{self, Content, Header, Unreadable};
use crate::manifest::history::TimesTail;
use crate::{segment, stages};

const SOUND: &str = "checksums of all rows good; the index's own is in the manifest\n";

/// What a file of this name holds, in words, after all of it was checked that can be without a
/// manifest; folders before the name don't matter.
///
/// # Errors
/// `Corrupt` when it is not what its name says, `Invalid` when no file of a database has such a
/// name.
pub async fn describe_file(name: &str, bytes: &Bytes) -> Result<String> {
    let name = name.rsplit('/').next().unwrap_or(name);
    let text = || String::from_utf8_lossy(bytes);
    match name {
        LOCK_FILE => {
            return Ok("lock of the folder: who has the database open holds it\n".to_owned());
        }
        OWNER_FILE => {
            return Ok(format!(
                "who has the database open, or ended without closing it:\n{}\n",
                text()
            ));
        }
        // As `lazybase_cluster` names its marks.
        _ if name.contains('+') => {
            let (file, what) = match name.strip_prefix("damaged+") {
                Some(file) => (file, "was seen damaged, and waits to be made again"),
                None => (name, "holds wrong rows"),
            };
            let file = file.replace('+', "/");
            return Ok(format!("mark that {file} {what}:\n{}\n", text()));
        }
        _ => {}
    }
    match name.rsplit('.').next() {
        Some("edit") => manifest_file(&format!("manifest/{name}"), bytes),
        Some("checkpoint") => manifest_file(&format!("manifest/{name}"), bytes),
        Some("log") => stages::ingest::describe_log(&format!("log/{name}"), bytes),
        Some("ext") => {
            segment::verify_alone(name, bytes, SegmentFormat::Extent).await?;
            Ok(segment::describe_extents(name, bytes)? + SOUND)
        }
        Some("parquet") => {
            segment::verify_alone(name, bytes, SegmentFormat::Parquet).await?;
            Ok(segment::describe_parquet(name, bytes)? + SOUND)
        }
        Some("times") => times_file(bytes),
        Some("backup") => backup_file(&format!("backups/{name}"), bytes),
        _ => Err(Error::invalid(format!("{name:?} is no file of a database"))
            .with_hint("files end in .edit, .checkpoint, .log, .ext, .parquet, .times or .backup")),
    }
}

fn times_file(bytes: &[u8]) -> Result<String> {
    let times = TimesTail::decode(bytes)?;
    let millis = times.millis()?;
    let moment = |millis: Option<&i64>| {
        let moment = millis.and_then(|millis| timestamp_ms_to_datetime(*millis));
        moment.map_or_else(|| "?".to_owned(), |moment| format!("{moment} UTC"))
    };
    Ok(format!(
        "times of SCUs {}..={}, from {} to {}; their checksum is in the manifest\n",
        times.first,
        times.last,
        moment(millis.first()),
        moment(millis.last()),
    ))
}

fn backup_file(name: &str, bytes: &[u8]) -> Result<String> {
    let backup = Backup::decode(name, bytes)?;
    let body = serde_json::to_string_pretty(&backup)
        .map_err(|error| Error::internal(error.to_string()))?;
    Ok(format!(
        "backup {}, {} files, checksum good\n{body}\n",
        backup.number,
        backup.files.len()
    ))
}

fn manifest_file(name: &str, bytes: &[u8]) -> Result<String> {
    let (header, content) = file::decode(name, bytes).map_err(|unreadable| match unreadable {
        Unreadable::Damaged(error) | Unreadable::Newer(error) => error,
    })?;
    Ok(manifest_line(&header, &content))
}

/// What a file of the manifest is, in a line: who shows what it says has words of his own for that.
pub fn manifest_line(header: &Header, content: &Content) -> String {
    format!(
        "manifest {} {}, format {}, checksum good\n",
        match content {
            Content::Edit(_) => "edit",
            Content::Checkpoint(_) => "checkpoint",
        },
        header.number,
        header.format
    )
}
