//! Which files hold wrong rows under right checksums, kept beside them: reading such a file back
//! proves nothing, so a restart must not forget it while the newest answers would need it. And
//! which files are damaged and wait to be made again: a restart that forgot them would retire what
//! they are to be made of.
//!
//! ```text
//!   condemned/{name of the file, '/' as '+'}             why, in one line of text
//!   condemned/damaged+{name of the file, '/' as '+'}     what was seen of the damage
//! ```
//!
//! Written when a file is condemned, or was read back in full and is damaged; read when the
//! database is opened; deleted when no manifest names the file any more, and those of damage also
//! when the file is whole again, or lost. To who knows only the first kind, the second names a
//! file that nobody has, and such marks are deleted.

use std::collections::BTreeSet;

use bytes::Bytes;
use lazybase_engine::env::Store;
use lazybase_engine::manifest::{Edit, ManifestStore};
use lazybase_model::{Error, Result, ViewId};

const FOLDER: &str = "condemned/";
/// How the names of marks of damage go on. No file is in a folder of this name.
const DAMAGED: &str = "damaged+";

/// The files that are remembered, as errors that name them.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Those that hold wrong rows.
    pub(crate) condemned: Vec<Error>,
    /// Those that wait to be made again. Somebody may have restored one: that is to be seen.
    pub(crate) damaged: Vec<Error>,
}

fn name_of(file: &str) -> String {
    format!("{FOLDER}{}", file.replace('/', "+"))
}

fn name_of_damaged(file: &str) -> String {
    format!("{FOLDER}{DAMAGED}{}", file.replace('/', "+"))
}

/// Remembers a file that an error names as one that holds wrong rows.
pub(crate) async fn keep(store: &dyn Store, error: &Error) -> Result<()> {
    match error.damaged_file() {
        Some(file) => put(store, &name_of(file), error).await,
        None => Ok(()),
    }
}

/// Remembers a file as one that is damaged.
pub(crate) async fn keep_damaged(store: &dyn Store, file: &str, error: &Error) -> Result<()> {
    put(store, &name_of_damaged(file), error).await
}

async fn put(store: &dyn Store, name: &str, error: &Error) -> Result<()> {
    if store.list(name).await?.is_empty() {
        let why = Bytes::from(error.message().to_owned());
        store.put_if_absent(name, why).await?;
    }
    Ok(())
}

/// Forgets a file.
pub(crate) async fn forget(store: &dyn Store, file: &str) -> Result<()> {
    Ok(store.delete(&name_of(file)).await?)
}

/// Forgets that a file is damaged.
pub(crate) async fn forget_damaged(store: &dyn Store, file: &str) -> Result<()> {
    Ok(store.delete(&name_of_damaged(file)).await?)
}

/// All files that are remembered.
pub(crate) async fn load(store: &dyn Store) -> Result<Marks> {
    let mut marks = Marks::default();
    for (name, bytes) in store.list(FOLDER).await? {
        let marked = name.trim_start_matches(FOLDER);
        let (list, marked, is_what) = match marked.strip_prefix(DAMAGED) {
            Some(damaged) => (&mut marks.damaged, damaged, "is damaged"),
            None => (&mut marks.condemned, marked, "holds wrong rows"),
        };
        let file = marked.replace('+', "/");
        // That the mark is there says what matters; why is for people.
        let why = store.read(&name, 0..bytes).await.unwrap_or_default();
        let why = match String::from_utf8_lossy(&why) {
            why if why.is_empty() => format!("{file} {is_what}"),
            why => why.into_owned(),
        };
        list.push(Error::corrupt(why).with_file(file));
    }
    Ok(marks)
}

/// Has the views of tables with condemned files begin again: they may hold what was made of those,
/// and the process that found them may have ended before it came to the views.
pub(crate) async fn reset_views(manifests: &ManifestStore, condemned: &[Error]) -> Result<()> {
    let manifest = manifests.current();
    let files: BTreeSet<&str> = condemned.iter().filter_map(Error::damaged_file).collect();
    let is_wrong = |view: ViewId| {
        let mut runs = manifest.runs.values().filter(|run| run.view == view);
        runs.any(|run| {
            let mut segments = run.segments.iter();
            segments.any(|segment| files.contains(segment.file.as_str()))
        })
    };
    for state in manifest.views.values() {
        let table = state.table.view_of.and_then(|of| manifest.tables.get(&of));
        if table.is_some_and(|table| is_wrong(table.table.primary.id)) {
            let view = state.table.primary.id;
            manifests.commit(Edit::ResetView { view }).await?;
        }
    }
    Ok(())
}
