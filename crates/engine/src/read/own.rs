//! A transaction's own changes as its reads take them: batches with an index of their keys, which
//! the first point read makes and all later ones use.
//!
//! Memory only. The index is of one definition of the table: under another one it is not used.

use std::sync::{Arc, OnceLock};

use lazybase_model::{Result, SchemaVersion};

use super::key_places::{KeyChanges, KeyPlaces};
use crate::change_batch::ChangeBatch;
use crate::key::Key;
use crate::segment::{RowLayout, key_hash};
use crate::stages::merge::MergeShape;

#[cfg(test)]
mod tests;

/// Some of a transaction's own changes of one table. Cheap to clone: clones share the index.
#[derive(Debug, Clone)]
pub struct OwnChanges {
    changes: ChangeBatch,
    places: Arc<OnceLock<(SchemaVersion, KeyPlaces)>>,
}

impl From<ChangeBatch> for OwnChanges {
    fn from(changes: ChangeBatch) -> OwnChanges {
        OwnChanges {
            changes,
            places: Arc::default(),
        }
    }
}

impl OwnChanges {
    /// The changes.
    pub fn changes(&self) -> &ChangeBatch {
        &self.changes
    }

    /// Takes those of a key; whether one of them is total.
    fn take(&self, layout: &RowLayout, key: &Key, of_key: &mut KeyChanges<'_>) -> Result<bool> {
        let version = layout.table.version;
        if self.places.get().is_none() {
            let places = places_of(layout, &self.changes)?;
            // Another read may have been first, with the same.
            let _ = self.places.set((version, places));
        }
        let hash = key_hash(key.as_bytes());
        match self.places.get() {
            Some((known, places)) if *known == version => {
                let rows = places.with_hash(hash).map(|(_, row)| row);
                of_key.take(&self.changes, rows)
            }
            _ => {
                let places = places_of(layout, &self.changes)?;
                let rows = places.with_hash(hash).map(|(_, row)| row);
                of_key.take(&self.changes, rows)
            }
        }
    }
}

fn places_of(layout: &RowLayout, changes: &ChangeBatch) -> Result<KeyPlaces> {
    let mut places = KeyPlaces::default();
    places.add(&layout.codec, 0, changes)?;
    Ok(places)
}

/// What a transaction's own changes of a key come to, back to the first that is total.
///
/// # Errors
/// `Internal` when they are not of the layout.
pub(super) fn find_own(
    layout: &RowLayout,
    own: &[OwnChanges],
    key: &Key,
) -> Result<Option<ChangeBatch>> {
    if own.is_empty() {
        return Ok(None);
    }
    let shape = MergeShape::of(layout);
    let mut of_key = KeyChanges::new(&shape, &layout.codec, key.as_bytes());
    for changes in own.iter().rev() {
        if changes.take(layout, key, &mut of_key)? {
            break;
        }
    }
    of_key.composed()
}

/// The changes alone, oldest first.
pub(super) fn changes_of(own: &[OwnChanges]) -> Vec<ChangeBatch> {
    own.iter().map(|own| own.changes.clone()).collect()
}
