//! Where a demo's database lives, and whether a later demo may replace it.
//!
//! ```text
//!   marked by a demo -> locked -> nothing but a demo's tables -> emptied -> unlocked
//! ```
//!
//! Invariant DEMO-3: nothing is removed but what an earlier demo left, nobody asked to keep, no
//! process has open, and nobody has added tables or views to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lazybase_engine::env::local::LocalStore;
use lazybase_engine::env::{Env, LOCK_FILE};
use lazybase_engine::manifest::ManifestStore;
use lazybase_model::{Error, ErrorKind, Result};

use super::tables::TABLES;
use crate::failure;
use crate::wall;

/// Stands in a folder that the next demo may replace.
const REPLACEABLE: &str = "demo-may-replace-this-folder";
/// The numbers that are tried for a folder of its own.
const NUMBERS: std::ops::Range<u32> = 1..10_000;

/// Chooses and empties the folder: the one that was named, or one among temporary files.
pub(super) async fn prepare(named: Option<PathBuf>) -> Result<PathBuf> {
    let folder = match named {
        Some(folder) => take(&folder).await.map(|()| folder)?,
        None => unnamed(&std::env::temp_dir()).await?,
    };
    wall::create_folder(&folder)?;
    Ok(folder)
}

/// Lets the next demo replace the folder; called once the database is in it, which wants the
/// folder for itself.
pub(super) fn mark_replaceable(folder: &Path) -> Result<()> {
    wall::write_file(&folder.join(REPLACEABLE), b"")
}

/// The first of `lazybase-demo`, `lazybase-demo-2` and so on that may be used.
async fn unnamed(parent: &Path) -> Result<PathBuf> {
    for number in NUMBERS {
        let folder = parent.join(match number {
            1 => "lazybase-demo".to_owned(),
            number => format!("lazybase-demo-{number}"),
        });
        match take(&folder).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            taken => return taken.map(|()| folder),
        }
    }
    Err(Error::conflict(format!(
        "{} holds too many demos that are kept",
        parent.display()
    ))
    .with_hint("remove some, or give --dir"))
}

/// Makes sure that the folder is not there, or that nothing is in it but the file of its lock.
///
/// # Errors
/// `Conflict` where a demo may not have it: then nothing of it was touched.
async fn take(folder: &Path) -> Result<()> {
    let is_empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => {
            entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == LOCK_FILE))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(failure::io(folder.display(), &error)),
    };
    match folder.join(REPLACEABLE).exists() {
        _ if is_empty => Ok(()),
        true => replace(folder).await,
        false => Err(
            Error::conflict(format!("{} is not empty", folder.display()))
                .with_detail("it is not the replaceable folder of an earlier demo")
                .with_hint("give --dir a folder that is empty or not there"),
        ),
    }
}

/// Empties what an earlier demo left, while nobody else can open it. The file of the lock stays:
/// whoever waits for it would hold the lock of a file that is not there any more.
async fn replace(folder: &Path) -> Result<()> {
    let store = LocalStore::open_to_look(folder)?;
    let others = others(store.clone()).await.map_err(|error| {
        let fact = format!("{} holds what can't be read", folder.display());
        Error::conflict(fact)
            .with_detail(error.message())
            .with_hint("give --dir another folder, or remove this one")
    })?;
    if !others.is_empty() {
        let fact = format!("{} holds what no demo has made", folder.display());
        return Err(Error::conflict(fact)
            .with_detail(format!("tables and views: {}", others.join(", ")))
            .with_hint("give --dir another folder; or drop them, or remove the folder"));
    }
    wall::empty_folder(folder, LOCK_FILE, REPLACEABLE)
}

/// The tables and views of a database that are not a demo's.
async fn others(store: LocalStore) -> Result<Vec<String>> {
    let manifest = match ManifestStore::open_read_only(&Env::system(Arc::new(store))).await {
        Ok(manifests) => manifests.current(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let states = manifest.tables.values().chain(manifest.views.values());
    let tables = states.map(|state| &state.table);
    let tables = tables.chain(manifest.plain_views.values());
    let names = tables.map(|table| table.name.as_str());
    let others = names.filter(|name| !TABLES.contains(name));
    Ok(others.map(|name| format!("{name:?}")).collect())
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use lazybase_engine::env::local::LocalStore;

    use super::{REPLACEABLE, mark_replaceable, prepare, unnamed};
    use crate::wall;

    #[test]
    fn only_a_replaceable_folder_is_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("d");
        block_on(prepare(Some(folder.clone()))).unwrap();
        mark_replaceable(&folder).unwrap();
        wall::write_file(&folder.join("data"), b"x").unwrap();
        block_on(prepare(Some(folder.clone()))).unwrap();
        assert!(!folder.join("data").exists());
        wall::write_file(&folder.join("data"), b"x").unwrap();
        assert!(block_on(prepare(Some(folder.clone()))).is_err());
        assert!(folder.join("data").exists());
    }

    #[test]
    fn kept_demos_push_later_ones_aside() {
        let parent = tempfile::tempdir().unwrap();
        let first = block_on(unnamed(parent.path())).unwrap();
        assert!(first.ends_with("lazybase-demo"));
        block_on(prepare(Some(first.clone()))).unwrap();
        wall::write_file(&first.join("data"), b"x").unwrap();
        let second = block_on(unnamed(parent.path())).unwrap();
        assert!(second.ends_with("lazybase-demo-2"));
    }

    #[test]
    fn a_folder_in_use_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let first = block_on(unnamed(parent.path())).unwrap();
        let store = LocalStore::open(&first).unwrap();
        mark_replaceable(&first).unwrap();
        let refused = block_on(prepare(Some(first.clone()))).unwrap_err();
        assert!(refused.message().contains("in use by"), "{refused}");
        assert!(first.join(REPLACEABLE).exists());
        let second = block_on(unnamed(parent.path())).unwrap();
        assert!(second.ends_with("lazybase-demo-2"));
        drop(store);
        for _ in 0..2 {
            assert_eq!(block_on(unnamed(parent.path())).unwrap(), first);
            assert!(!first.join(REPLACEABLE).exists());
        }
    }
}
