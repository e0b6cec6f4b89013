//! Where a demo's database lives, and whether a later demo may replace it.
//!
//! Invariant DEMO-3: nothing is removed but what an earlier demo left and nobody asked to keep.

use std::path::{Path, PathBuf};

use lazybase_model::{Error, Result};

use crate::failure;
use crate::wall;

/// Stands in a folder that the next demo may replace.
const REPLACEABLE: &str = "demo-may-replace-this-folder";
/// The numbers that are tried for a folder of its own.
const NUMBERS: std::ops::Range<u32> = 2..10_000;

/// Chooses and empties the folder: the one that was named, or one among temporary files.
pub(super) fn prepare(named: Option<PathBuf>) -> Result<PathBuf> {
    let folder = match named {
        Some(folder) => free(&folder)?.then_some(folder.clone()).ok_or_else(|| {
            Error::conflict(format!("{} is not empty", folder.display()))
                .with_detail("it is not the replaceable folder of an earlier demo")
                .with_hint("give --dir a folder that is empty or not there")
        })?,
        None => unnamed(&std::env::temp_dir())?,
    };
    if folder.join(REPLACEABLE).exists() {
        wall::remove_folder(&folder)?;
    }
    wall::create_folder(&folder)?;
    Ok(folder)
}

/// Lets the next demo replace the folder; called once the database is in it, which wants the
/// folder for itself.
pub(super) fn mark_replaceable(folder: &Path) -> Result<()> {
    wall::write_file(&folder.join(REPLACEABLE), b"")
}

/// The first of `lazybase-demo`, `lazybase-demo-2` and so on that may be used.
fn unnamed(parent: &Path) -> Result<PathBuf> {
    let first = parent.join("lazybase-demo");
    if free(&first)? {
        return Ok(first);
    }
    for number in NUMBERS {
        let next = parent.join(format!("lazybase-demo-{number}"));
        if free(&next)? {
            return Ok(next);
        }
    }
    Err(Error::conflict(format!(
        "{} holds too many demos that are kept",
        parent.display()
    ))
    .with_hint("remove some, or give --dir"))
}

/// Whether a demo may take the folder: it is not there, empty, or replaceable.
fn free(folder: &Path) -> Result<bool> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none() || folder.join(REPLACEABLE).exists()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(failure::io(folder.display(), &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::{mark_replaceable, prepare, unnamed};
    use crate::wall;

    #[test]
    fn only_a_replaceable_folder_is_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("d");
        prepare(Some(folder.clone())).unwrap();
        mark_replaceable(&folder).unwrap();
        wall::write_file(&folder.join("data"), b"x").unwrap();
        prepare(Some(folder.clone())).unwrap();
        assert!(!folder.join("data").exists());
        wall::write_file(&folder.join("data"), b"x").unwrap();
        assert!(prepare(Some(folder.clone())).is_err());
        assert!(folder.join("data").exists());
    }

    #[test]
    fn kept_demos_push_later_ones_aside() {
        let parent = tempfile::tempdir().unwrap();
        let first = unnamed(parent.path()).unwrap();
        assert!(first.ends_with("lazybase-demo"));
        prepare(Some(first.clone())).unwrap();
        wall::write_file(&first.join("data"), b"x").unwrap();
        assert!(unnamed(parent.path()).unwrap().ends_with("lazybase-demo-2"));
    }
}
