//! Which files hold wrong rows under right checksums, kept beside them: reading such a file back
//! proves nothing, so a restart must not forget it while the newest answers would need it.
//!
//! ```text
//!   condemned/{name of the file, '/' as '+'}     why, in one line of text
//! ```
//!
//! Written when a file is condemned, read when the database is opened, deleted when no manifest
//! names the file any more.

use std::collections::BTreeSet;

use bytes::Bytes;
use lazybase_engine::env::Store;
use lazybase_engine::manifest::{Edit, ManifestStore};
use lazybase_model::{Error, Result, ViewId};

const FOLDER: &str = "condemned/";

fn name_of(file: &str) -> String {
    format!("{FOLDER}{}", file.replace('/', "+"))
}

/// Remembers a file that an error names.
pub(crate) async fn keep(store: &dyn Store, error: &Error) -> Result<()> {
    let Some(file) = error.damaged_file() else {
        return Ok(());
    };
    let name = name_of(file);
    if store.list(&name).await?.is_empty() {
        let why = Bytes::from(error.message().to_owned());
        store.put_if_absent(&name, why).await?;
    }
    Ok(())
}

/// Forgets a file.
pub(crate) async fn forget(store: &dyn Store, file: &str) -> Result<()> {
    Ok(store.delete(&name_of(file)).await?)
}

/// All files that are remembered, as errors that name them.
pub(crate) async fn load(store: &dyn Store) -> Result<Vec<Error>> {
    let mut errors = Vec::new();
    for (name, bytes) in store.list(FOLDER).await? {
        let file = name.trim_start_matches(FOLDER).replace('+', "/");
        // That the mark is there says what matters; why is for people.
        let why = store.read(&name, 0..bytes).await.unwrap_or_default();
        let why = match String::from_utf8_lossy(&why) {
            why if why.is_empty() => format!("{file} holds wrong rows"),
            why => why.into_owned(),
        };
        errors.push(Error::corrupt(why).with_file(file));
    }
    Ok(errors)
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
