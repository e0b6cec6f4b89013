//! What those that are left tell of a file of the log or of the manifest that is gone as a whole:
//! whether it is missed, and by what.
//!
//! ```text
//!   log, the newest file       by the one that was ready behind it, which names it
//!   log, one before another    by the frames of that one: of which SCU a batch stands before them
//!   manifest, an edit          by the number between others, or by a batch that names it
//!   else                       it looks as after a crash: nobody can miss it
//! ```
//!
//! Pure, and strict: what it says is told is told whatever else a crash may have left. All that
//! counts is whole, down to its checksums. Other damage must be away from what tells.

use std::collections::BTreeSet;

use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::manifest::file::FileKind;

use super::records::listed;
use crate::store::Harm;
use crate::store::frames::{Frame, LogImage, begun_before, file_number};

/// A file of the log that is on the disk, whatever else is said of it.
#[derive(Debug, Clone)]
pub(crate) struct LogFile {
    number: u64,
    /// What it holds, if it was begun.
    pub(crate) begun: Option<LogImage>,
    /// Of one that is ready: which file was being written when it was made so.
    begun_before: Option<u64>,
}

impl LogFile {
    /// The file of this name and content.
    pub(crate) fn of(name: &str, bytes: &[u8]) -> Option<LogFile> {
        Some(LogFile {
            number: file_number(name)?,
            begun: LogImage::of(name, bytes),
            begun_before: begun_before(name, bytes),
        })
    }

    /// What it holds, if it has the header of a file that was begun.
    fn headed(&self) -> Option<&LogImage> {
        self.begun.as_ref().filter(|image| image.has_whole_header())
    }
}

/// The files of the log, in the order of their numbers.
pub(crate) fn log_files(disk: &MemoryStore) -> Vec<LogFile> {
    let file = |(name, length): (String, u64)| {
        let bytes = disk.read_now(&name, 0..length).ok()?;
        LogFile::of(&name, &bytes)
    };
    let mut files: Vec<LogFile> = listed(disk, "log/").into_iter().filter_map(file).collect();
    files.sort_by_key(|file| file.number);
    files
}

/// What tells that a file is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Teller {
    /// The log file that was ready behind it.
    Ready,
    /// The frames of the next log file.
    Next,
    /// A batch that was written after it.
    Batch,
}

/// What an opening does that lacks a file of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// It opens: the file holds frames of sealed SCUs alone.
    No,
    /// The file holds frames of a batch that was committed later, which misses them if it counts.
    Maybe,
    /// It is refused.
    By(Teller),
    /// It is as after a crash, so far as anybody can tell; or the file can't come back as it was.
    Untold,
}

/// What an opening does that lacks log file `gone` alone, where all SCUs up to `sealed` are sealed.
pub(crate) fn missed(files: &[LogFile], gone: &str, sealed: u64) -> Missed {
    let mut headed = files.iter().filter_map(LogFile::headed);
    let Some(image) = headed.find(|image| image.name == gone) else {
        return Missed::Untold;
    };
    if is_claimed(files, image.number) {
        return Missed::By(Teller::Ready);
    }
    let is_open = |frame: &Frame| frame.scu > sealed;
    let all = || files.iter().filter_map(|file| file.begun.as_ref());
    let mut until = all().filter(|other| other.number <= image.number);
    if image.frames.is_empty() || until.any(|other| other.frames.iter().any(is_open)) {
        return match is_told_by_next(files, image, sealed) {
            true => Missed::By(Teller::Next),
            false => Missed::Untold,
        };
    }
    // One that was the newest may lend its number to another one, and stand in its way as it comes
    // back.
    if files.iter().all(|file| file.number <= image.number) {
        return Missed::Untold;
    }
    let committed = all().flat_map(|image| &image.frames);
    let committed = committed.filter(|frame| frame.commits && frame.scu > sealed);
    let committed: BTreeSet<u64> = committed.map(|frame| frame.batch).collect();
    let mut frames = image.frames.iter();
    match frames.any(|frame| committed.contains(&frame.batch)) {
        true => Missed::Maybe,
        false => Missed::No,
    }
}

/// Whether the newest files were ready, one behind the other, and the last of them names a file.
fn is_claimed(files: &[LogFile], number: u64) -> bool {
    let there = || files.iter().rev().filter(|file| file.number != number);
    let mut newest = there().next();
    while let Some(file) = newest {
        let Some(before) = file.begun_before.filter(|before| *before < file.number) else {
            return false;
        };
        if before == number {
            return true;
        }
        newest = there().find(|file| file.number == before);
    }
    false
}

/// Whether the headers lead from the newest file to the one that is gone, and the frames of the
/// file behind it say that a batch stands before them which is in no sealed SCU.
fn is_told_by_next(files: &[LogFile], gone: &LogImage, sealed: u64) -> bool {
    let mut next: Option<&LogImage> = None;
    let there = files.iter().filter(|file| file.number != gone.number);
    for file in there.rev() {
        // The file that comes before the one that was looked at last.
        let expected = next.map(|next| (next.previous.0, next.identities.1));
        match expected {
            Some((number, _)) if file.number > number => continue,
            Some((number, _)) if file.number < number => break,
            _ => {}
        }
        let Some(image) = file.headed() else {
            match expected {
                None => continue,
                Some(_) => return false,
            }
        };
        if expected.is_some_and(|(_, identity)| identity != image.identities.0) {
            return false;
        }
        let first = image.frames.first().filter(|first| image.is_headed(first));
        let is_oldest = first.is_some_and(|first| first.scu <= sealed);
        if is_oldest || image.previous.1 == 0 {
            return false;
        }
        next = Some(image);
    }
    let Some(next) = next.filter(|next| next.previous.0 == gone.number) else {
        return false;
    };
    let first = next.frames.first().filter(|first| next.is_whole(first));
    let before = first.and_then(|first| first.before);
    before.is_some_and(|before| before > sealed)
}

/// Whether a whole batch in the newest log file was written after an edit of the manifest.
pub(crate) fn names_edit(files: &[LogFile], number: u64) -> bool {
    let Some(newest) = files.iter().rev().find_map(LogFile::headed) else {
        return false;
    };
    let frames = newest.frames.iter();
    let whole = frames.take_while(|frame| newest.is_whole(frame));
    let mut named = whole.filter_map(|frame| newest.manifest_of(frame));
    named.any(|named| named >= number)
}

/// The newest number of any file of the manifest.
pub(crate) fn newest_of(files: &[(String, u64)]) -> u64 {
    let mut newest = 0;
    for (_, number) in files.iter().filter_map(|file| FileKind::of_name(&file.0)) {
        newest = newest.max(number);
    }
    newest
}

/// Up to where the files of the manifest that are whole tell all that there is: their newest
/// checkpoint, or the first edit, and all edits from there to the newest file that is there.
/// Nothing where they don't.
pub(crate) fn told_through(files: &[(String, u64)], damaged: &[(String, Harm)]) -> Option<u64> {
    let (mut newest, mut checkpoint) = (0, 0);
    let mut edits = BTreeSet::new();
    for (name, _) in files {
        let mut damaged = damaged.iter();
        let harm = damaged.find(|(other, _)| other == name);
        let harm = harm.map(|(_, harm)| *harm);
        let Some((kind, number)) = FileKind::of_name(name) else {
            continue;
        };
        if harm == Some(Harm::Gone) {
            continue;
        }
        newest = newest.max(number);
        match (kind, harm) {
            (FileKind::Edit, None) => {
                edits.insert(number);
            }
            (FileKind::Checkpoint, None) => checkpoint = checkpoint.max(number),
            (_, Some(_)) => {}
        }
    }
    let mut needed = checkpoint + 1..=newest;
    let is_told = needed.all(|number| edits.contains(&number));
    is_told.then_some(newest)
}

#[cfg(test)]
mod tests;
