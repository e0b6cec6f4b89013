//! Files that are damaged for good: of the disk, and not of those who use it.
//!
//! What was written stays as it is below, and is read otherwise, until somebody restores the file
//! or another one is written under its name.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lazybase_engine::env::{StoreError, StoreResult};
use lazybase_model::ViewId;
use parking_lot::Mutex;

/// What stands in a run for rows that were lost with their log is named as a file of this folder.
const LOST: &str = "lost/";

/// What has become of a file, for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// A bit of it is flipped.
    Flip {
        /// In which byte.
        byte: u64,
        /// Which one.
        bit: u8,
    },
    /// Some of its bytes are zeros.
    Torn {
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
    },
    /// It ends here.
    Cut(u64),
    /// It is not there any more.
    Gone,
}

/// What a file is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The rows of a view, a primary one or another.
    View(ViewId),
    /// The log.
    Log,
    /// The manifest.
    Manifest,
}

/// The files that were ever damaged for good.
#[derive(Debug, Clone, Default)]
pub struct Wounds(Arc<Mutex<BTreeMap<String, Wound>>>);

/// What has become of a file, and what it is of.
#[derive(Debug, Clone, Copy)]
struct Wound {
    harm: Harm,
    of: Of,
    /// Since when it is whole again.
    whole_since: Option<Duration>,
}

impl Wounds {
    /// Damages a file.
    pub fn strike(&self, name: &str, harm: Harm, of: Of) {
        let wound = Wound {
            harm,
            of,
            whole_since: None,
        };
        self.0.lock().insert(name.to_owned(), wound);
    }

    /// Somebody restores a file, or another one is written under its name.
    pub fn restore(&self, name: &str, now: Duration) {
        if let Some(wound) = self.0.lock().get_mut(name) {
            wound.whole_since.get_or_insert(now);
        }
    }

    /// The damaged files of the log or of the manifest.
    pub fn of(&self, of: Of) -> Vec<(String, Harm)> {
        let wounds = self.0.lock();
        let damaged = wounds
            .iter()
            .filter(|(_, wound)| wound.of == of && wound.whole_since.is_none());
        damaged
            .map(|(name, wound)| (name.clone(), wound.harm))
            .collect()
    }

    /// The files that were ever damaged and that a text names, with what they are of.
    pub fn named(&self, text: &str) -> Vec<(String, Of)> {
        let wounds = self.0.lock();
        let named = wounds
            .iter()
            .filter(|(name, wound)| names(text, name, wound));
        named
            .map(|(name, wound)| (name.clone(), wound.of))
            .collect()
    }

    /// Whether a text names a file that was ever damaged.
    pub fn are_named(&self, text: &str) -> bool {
        !self.named(text).is_empty()
    }

    /// Whether a text names a file that is damaged.
    pub fn are_named_now(&self, text: &str) -> bool {
        let wounds = self.0.lock();
        let mut damaged = wounds
            .iter()
            .filter(|(_, wound)| wound.whole_since.is_none());
        damaged.any(|(name, wound)| names(text, name, wound))
    }

    /// The last moment at which a file became whole again, if none of those that a text names is
    /// damaged.
    pub fn whole_since(&self, text: &str) -> Option<Duration> {
        let wounds = self.0.lock();
        let named = wounds
            .iter()
            .filter(|(name, wound)| names(text, name, wound));
        let since: Option<Vec<Duration>> = named.map(|(_, wound)| wound.whole_since).collect();
        since?.into_iter().max()
    }

    /// The views of all files that were ever damaged.
    pub fn views(&self) -> Vec<ViewId> {
        let wounds = self.0.lock();
        let view = |wound: &Wound| match wound.of {
            Of::View(view) => Some(view),
            Of::Log | Of::Manifest => None,
        };
        wounds.values().filter_map(view).collect()
    }

    /// Whether a log file was ever damaged.
    pub fn has_log(&self) -> bool {
        self.0.lock().values().any(|wound| wound.of == Of::Log)
    }

    /// Whether no file was ever damaged.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// How many files were ever damaged.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether a file is not there.
    pub fn is_gone(&self, name: &str) -> bool {
        self.harm(name) == Some(Harm::Gone)
    }

    /// How many files of the log were ever taken away.
    pub fn logs_taken(&self) -> usize {
        let wounds = self.0.lock();
        let taken = wounds
            .values()
            .filter(|wound| wound.of == Of::Log && wound.harm == Harm::Gone);
        taken.count()
    }

    /// Leaves out of a listing what is not there.
    pub(super) fn hide(&self, listed: &mut Vec<(String, u64)>) {
        if !self.is_empty() {
            listed.retain(|(name, _)| !self.is_gone(name));
        }
    }

    /// What has become of a file.
    pub(super) fn harm(&self, name: &str) -> Option<Harm> {
        let wounds = self.0.lock();
        let wound = wounds.get(name)?;
        wound.whole_since.is_none().then_some(wound.harm)
    }

    /// How long a file is now.
    pub(super) fn length(&self, name: &str, length: u64) -> StoreResult<u64> {
        match self.harm(name) {
            Some(Harm::Gone) => Err(StoreError::NotFound(name.to_owned())),
            Some(Harm::Cut(end)) => Ok(length.min(end)),
            Some(Harm::Flip { .. } | Harm::Torn { .. }) | None => Ok(length),
        }
    }

    /// What of a file is read now.
    pub(super) fn read(&self, name: &str, range: &Range<u64>, bytes: Bytes) -> StoreResult<Bytes> {
        let Some(harm) = self.harm(name) else {
            return Ok(bytes);
        };
        if self.length(name, range.end)? < range.end {
            return Err(StoreError::TooShort {
                name: name.to_owned(),
                end: range.end,
            });
        }
        Ok(harm.done_to(range, bytes))
    }
}

impl Harm {
    /// What of a stretch of a file is read, of one that is as long as it was.
    pub fn done_to(self, range: &Range<u64>, bytes: Bytes) -> Bytes {
        let mut changed = BytesMut::from(&bytes[..]);
        let at = |place: u64| (place.clamp(range.start, range.end) - range.start) as usize;
        match self {
            Harm::Flip { byte, bit } if range.contains(&byte) => changed[at(byte)] ^= 1 << bit,
            Harm::Torn { from, to } => changed[at(from)..at(to)].fill(0),
            Harm::Flip { .. } | Harm::Cut(_) | Harm::Gone => return bytes,
        }
        changed.freeze()
    }
}

/// Whether a text names a file, or what stands for the rows that were lost with it.
fn names(text: &str, name: &str, wound: &Wound) -> bool {
    text.contains(name) || (wound.of == Of::Log && text.contains(LOST))
}

#[cfg(test)]
mod tests;
