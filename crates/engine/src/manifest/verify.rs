//! Verifying the manifest's files: all of them, not only those that opening reads.
//!
//! Follows the chain of edits from the oldest file to the newest and compares each checkpoint
//! with what the edits make. Reads the manifest's files, writes nothing.

use lazybase_model::{Error, Result};

use super::check;
use super::file::FileKind;
use super::load::{self, Listing};
use super::state::Manifest;
use crate::env::Store;

/// Reads and compares every file of the manifest. Returns what is wrong, each error naming its
/// file; nothing when all is well. `newest` is a number that the files reach, as far as is known
/// (or 0): that the newest of them are gone shows in nothing that is left.
///
/// # Errors
/// When the files can't be listed.
pub async fn verify_files(store: &dyn Store, newest: u64) -> Result<Vec<Error>> {
    let listing = Listing::of(store).await?;
    let mut chain = Chain {
        store,
        manifest: None,
        found: Vec::new(),
    };
    let checkpoints = &listing.checkpoints;
    // Edits up to the oldest checkpoint are no longer needed: a crash may have left some.
    let needed_after = checkpoints
        .first_key_value()
        .map_or(0, |(number, _)| *number);
    let numbers = listing.edits.keys().chain(checkpoints.keys());
    let first = numbers
        .clone()
        .min()
        .copied()
        .unwrap_or(1)
        .min(needed_after + 1);
    let last = numbers.max().copied().unwrap_or(0).max(newest);
    for number in first..=last {
        match listing.edits.get(&number) {
            Some(bytes) => chain.follow(number, *bytes).await,
            None if number > needed_after => chain.miss(number),
            None => chain.manifest = None,
        }
        if let Some(bytes) = checkpoints.get(&number) {
            chain.compare(number, *bytes).await;
        }
    }
    if let Some(violation) = chain.manifest.as_ref().and_then(check::violation) {
        let message = format!("the manifest breaks {}", violation.invariant);
        let error = Error::corrupt(message).with_detail(violation.what);
        chain.found.push(error);
    }
    Ok(chain.found)
}

/// Where the verification stands.
struct Chain<'s> {
    store: &'s dyn Store,
    /// What the files read so far make; `None` after something that could not be read.
    manifest: Option<Manifest>,
    found: Vec<Error>,
}

impl Chain<'_> {
    fn miss(&mut self, number: u64) {
        let name = FileKind::Edit.file_name(number);
        let error = Error::corrupt(format!("{name}: the file is missing"));
        self.found.push(error.with_file(name));
        self.manifest = None;
    }

    async fn follow(&mut self, number: u64, bytes: u64) {
        let before = self.manifest.take();
        let edit = match load::read_edit(self.store, number, bytes).await {
            Ok((_, edit)) => edit,
            Err(failure) => return self.found.push(failure.into()),
        };
        let next = match before {
            Some(before) => before.into_next(&edit),
            None if number == 1 => Manifest::first(&edit),
            None => return,
        };
        match next {
            Ok(next) => self.manifest = Some(next),
            Err(error) => {
                let name = FileKind::Edit.file_name(number);
                self.found.push(load::damaged(error, name));
            }
        }
    }

    async fn compare(&mut self, number: u64, bytes: u64) {
        match load::read_checkpoint(self.store, number, bytes).await {
            Ok(checkpoint) => {
                let made = self.manifest.as_ref();
                if made.is_some_and(|made| *made != checkpoint) {
                    let name = FileKind::Checkpoint.file_name(number);
                    let message = format!("{name}: differs from what the edits make");
                    self.found.push(Error::corrupt(message).with_file(name));
                }
                self.manifest = Some(checkpoint);
            }
            Err(failure) => self.found.push(failure.into()),
        }
    }
}
