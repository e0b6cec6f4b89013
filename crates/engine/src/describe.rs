//! Any file of a database in words: what `lazybase inspect` shows. Reads the bytes of one file
//! and its name; each format's own module decodes, with its checksums.

use bytes::Bytes;
use lazybase_model::{Error, Result};

use crate::manifest::SegmentFormat;
use crate::manifest::file::{self, Content, Unreadable};
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
        _ => Err(Error::invalid(format!("{name:?} is no file of a database"))
            .with_hint("files end in .edit, .checkpoint, .log, .ext or .parquet")),
    }
}

fn manifest_file(name: &str, bytes: &[u8]) -> Result<String> {
    let (header, content) = file::decode(name, bytes).map_err(|unreadable| match unreadable {
        Unreadable::Damaged(error) | Unreadable::Newer(error) => error,
    })?;
    let text = |error: serde_json::Error| Error::internal(error.to_string());
    let body = match &content {
        Content::Edit(edit) => serde_json::to_string_pretty(edit).map_err(text)?,
        Content::Checkpoint(manifest) => serde_json::to_string_pretty(manifest).map_err(text)?,
    };
    Ok(format!(
        "manifest {} {}, format {}, checksum good\n{body}\n",
        match content {
            Content::Edit(_) => "edit",
            Content::Checkpoint(_) => "checkpoint",
        },
        header.number,
        header.format
    ))
}
