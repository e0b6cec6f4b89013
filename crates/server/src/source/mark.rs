//! How far a producer has loaded a source, and what that means for the file at hand; no I/O.

use lazybase_model::{Error, Result};

/// How far a source was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mark {
    /// Rows of the file that are in the table.
    pub rows: u64,
    /// The bytes of the file, from its beginning, that they were read from.
    pub bytes: u64,
    /// The hash of those bytes.
    pub hash: String,
    /// The hash of the footer, for Parquet: it speaks of the whole file. Empty for text.
    pub footer: String,
}

/// What is known of the file at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Evidence {
    /// The file's length in bytes.
    pub(super) length: u64,
    /// The hash of as many of its first bytes as the mark says; `None` if it is shorter.
    pub(super) prefix_hash: Option<String>,
    /// The hash of its footer, for Parquet.
    pub(super) footer: String,
    /// Whether a text file's marked part ends where a record ends, now that more follows.
    pub(super) ends_at_record: bool,
}

/// Whether the load may go on after the mark.
///
/// # Errors
/// `Conflict` when the part that was loaded is no longer what it was.
pub(super) fn check(mark: &Mark, file: &Evidence, source: &str) -> Result<()> {
    let changed = match &file.prefix_hash {
        None => Some(format!(
            "{} bytes of it were loaded, it has {} now",
            mark.bytes, file.length
        )),
        Some(hash) if *hash != mark.hash => Some(format!(
            "its first {} bytes are not those that were loaded",
            mark.bytes
        )),
        Some(_) if file.footer != mark.footer => Some("its footer is another".to_owned()),
        Some(_) if !file.ends_at_record => Some("its last loaded record goes on".to_owned()),
        Some(_) => None,
    };
    match changed {
        None => Ok(()),
        Some(how) => Err(Error::conflict(format!(
            "{source} was changed since this producer loaded it"
        ))
        .with_detail(how)
        .with_hint(
            "nothing of it was added; to load the new content, give the file another name, or \
             the load another --producer",
        )),
    }
}

#[cfg(test)]
mod tests;
