//! What is on a disk when the power goes: the calls of a record, done by a file system that does
//! the least that may be relied on.
//!
//! - The bytes of a file, and its length, are on the disk once it was synced; of what was written
//!   since, any of the sectors.
//! - That a name was given or taken is on the disk once its folder was synced; until then it may
//!   be, whatever becomes of other names. A folder that has no name there is lost with all in it.
//! - A file that got another name has the old one or the new one; both, perhaps, if they are of two
//!   folders.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::iter;
use std::path::Path;

use bytes::Bytes;

use super::Step;
use crate::env::Random;
use crate::env::manual::SeededRandom;
use crate::env::memory::Unsynced;

/// The least that a disk writes whole.
const SECTOR_BYTES: usize = 512;

/// The number of the folder that the record is of.
const BASE: usize = 0;

type Names = BTreeMap<String, Entry>;

/// A disk after some calls.
pub struct DiskReplay {
    ahead: std::vec::IntoIter<Step>,
    calls: usize,
    folders: Vec<Folder>,
    files: Vec<Contents>,
    /// Files by the numbers that they were opened under.
    opened: BTreeMap<u64, usize>,
    /// What was done to names and is not durable, in order.
    changes: Vec<NameChange>,
}

/// What a name stands for, by number.
#[derive(Clone, Copy)]
enum Entry {
    Folder(usize),
    File(usize),
}

#[derive(Default)]
struct Folder {
    now: Names,
    durable: Names,
}

/// A name in a folder.
struct Place {
    folder: usize,
    name: String,
}

/// Names that changed together.
struct NameChange {
    given: Option<(Place, Entry)>,
    taken: Option<Place>,
    /// Whether the folder of the name taken was synced: it goes with the other one's becoming
    /// durable, and no sooner, or the file would have none.
    taken_is_synced: bool,
}

impl NameChange {
    fn of(given: Option<(Place, Entry)>, taken: Option<Place>) -> NameChange {
        NameChange {
            given,
            taken,
            taken_is_synced: false,
        }
    }
}

/// A file's bytes.
#[derive(Default)]
struct Contents {
    durable: Vec<u8>,
    unsynced: Vec<Unwritten>,
}

/// A change of a file that is not durable.
enum Unwritten {
    Bytes { offset: usize, bytes: Bytes },
    Length(usize),
}

/// What a power cut left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskImage {
    /// Each one after the one that it lies in.
    folders: Vec<String>,
    files: BTreeMap<String, Bytes>,
}

impl DiskImage {
    /// The files by their paths.
    pub fn files(&self) -> &BTreeMap<String, Bytes> {
        &self.files
    }

    /// Writes all of it below a folder.
    ///
    /// # Errors
    /// Those of the system.
    #[expect(clippy::disallowed_methods, reason = "what it writes is no store yet")]
    pub fn write_to(&self, base: &Path) -> io::Result<()> {
        for folder in &self.folders {
            fs::create_dir(base.join(folder))?;
        }
        for (name, bytes) in &self.files {
            fs::write(base.join(name), bytes)?;
        }
        Ok(())
    }
}

impl DiskReplay {
    pub(super) fn of(steps: Vec<Step>) -> DiskReplay {
        DiskReplay {
            ahead: steps.into_iter(),
            calls: 0,
            folders: vec![Folder::default()],
            files: Vec::new(),
            opened: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Makes the next call; false if there is none.
    pub fn step(&mut self) -> bool {
        let Some(step) = self.ahead.next() else {
            return false;
        };
        self.apply(step);
        self.calls += 1;
        true
    }

    /// Goes on until so many calls were made, or all of them.
    pub fn go_to(&mut self, calls: usize) {
        while self.calls < calls && self.step() {}
    }

    /// What is left of the disk if the power goes now, with this of the names that are not durable,
    /// and this of the bytes.
    pub fn image(&self, names: Unsynced, bytes: Unsynced) -> DiskImage {
        let folders = self.names_left(names);
        let random = random(bytes);
        let mut contents: BTreeMap<usize, Bytes> = BTreeMap::new();
        let mut image = DiskImage::default();
        let mut ahead = vec![(String::new(), BASE)];
        while let Some((path, folder)) = ahead.pop() {
            for (name, entry) in &folders[folder] {
                let name = format!("{path}{name}");
                match entry {
                    Entry::Folder(number) => {
                        ahead.push((format!("{name}/"), *number));
                        image.folders.push(name);
                    }
                    Entry::File(number) => {
                        let left = || self.files[*number].left(bytes, &random);
                        let left = contents.entry(*number).or_insert_with(left);
                        image.files.insert(name, left.clone());
                    }
                }
            }
        }
        image
    }

    fn names_left(&self, unsynced: Unsynced) -> Vec<Names> {
        let durable = self.folders.iter().map(|folder| folder.durable.clone());
        let mut folders: Vec<Names> = durable.collect();
        let random = random(unsynced);
        let choice = Choice::among(self.changes.len(), unsynced, &random);
        for (index, change) in self.changes.iter().enumerate() {
            if !choice.keeps(index) {
                continue;
            }
            let mut takes = true;
            if let Some((place, entry)) = &change.given {
                folders[place.folder].insert(place.name.clone(), *entry);
                let other = change.taken.as_ref().map(|taken| taken.folder);
                let together = other == Some(place.folder) || change.taken_is_synced;
                takes = together || choice.keeps(index);
            }
            if let (Some(taken), true) = (&change.taken, takes) {
                folders[taken.folder].remove(&taken.name);
            }
        }
        folders
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::MakeFolders { folder } => self.make_folders(&folder),
            Step::Create { name, file } => {
                let number = self.files.len();
                self.files.push(Contents::default());
                self.opened.insert(file, number);
                self.give(&name, Entry::File(number));
            }
            Step::Open { name, file } => {
                if let Entry::File(number) = self.entry(&name) {
                    self.opened.insert(file, number);
                }
            }
            Step::Write {
                file,
                offset,
                bytes,
            } => {
                let offset = offset as usize;
                self.change_file(file, Unwritten::Bytes { offset, bytes });
            }
            Step::SetLength { file, bytes } => {
                self.change_file(file, Unwritten::Length(bytes as usize));
            }
            Step::SyncFile { file } => self.files[self.opened[&file]].sync(),
            Step::Link { name, other } => self.give(&other, self.entry(&name)),
            Step::Rename { old, new } => {
                let given = Some((self.place(&new), self.entry(&old)));
                let taken = Some(self.place(&old));
                self.change_names(NameChange::of(given, taken));
            }
            Step::Remove { name } => {
                let taken = Some(self.place(&name));
                self.change_names(NameChange::of(None, taken));
            }
            Step::SyncFolder { folder } => self.sync_folder(self.folder(&folder)),
            Step::Nothing => {}
        }
    }

    fn make_folders(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            let path = &path[..end];
            if self.find(path).is_none() {
                let number = self.folders.len();
                self.folders.push(Folder::default());
                self.give(path, Entry::Folder(number));
            }
        }
    }

    fn give(&mut self, name: &str, entry: Entry) {
        let given = Some((self.place(name), entry));
        self.change_names(NameChange::of(given, None));
    }

    fn change_names(&mut self, change: NameChange) {
        if let Some(place) = &change.taken {
            self.folders[place.folder].now.remove(&place.name);
        }
        if let Some((place, entry)) = &change.given {
            let names = &mut self.folders[place.folder].now;
            names.insert(place.name.clone(), *entry);
        }
        self.changes.push(change);
    }

    fn change_file(&mut self, file: u64, change: Unwritten) {
        self.files[self.opened[&file]].unsynced.push(change);
    }

    fn sync_folder(&mut self, folder: usize) {
        for mut change in std::mem::take(&mut self.changes) {
            let taken = change.taken.as_ref();
            if taken.is_some_and(|place| place.folder == folder) {
                change.taken_is_synced = true;
            }
            let given = change.given.take_if(|(place, _)| place.folder == folder);
            if let Some((place, entry)) = given {
                let durable = &mut self.folders[folder].durable;
                durable.insert(place.name, entry);
            }
            if change.given.is_none()
                && change.taken_is_synced
                && let Some(place) = change.taken.take()
            {
                let durable = &mut self.folders[place.folder].durable;
                durable.remove(&place.name);
            }
            if change.given.is_some() || change.taken.is_some() {
                self.changes.push(change);
            }
        }
    }

    fn find(&self, path: &str) -> Option<Entry> {
        let mut found = Entry::Folder(BASE);
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let Entry::Folder(folder) = found else {
                return None;
            };
            found = *self.folders[folder].now.get(part)?;
        }
        Some(found)
    }

    fn entry(&self, path: &str) -> Entry {
        let found = self.find(path);
        found.expect("a record has the making of all that its calls name")
    }

    fn folder(&self, path: &str) -> usize {
        match self.entry(path) {
            Entry::Folder(number) => number,
            Entry::File(_) => panic!("{path} is a file, and named as a folder"),
        }
    }

    fn place(&self, path: &str) -> Place {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        Place {
            folder: self.folder(folder),
            name: name.to_owned(),
        }
    }
}

impl Contents {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Unwritten::Length(length) => self.durable.resize(length, 0),
                Unwritten::Bytes { offset, bytes } => put(&mut self.durable, offset, &bytes),
            }
        }
    }

    fn left(&self, unsynced: Unsynced, random: &SeededRandom) -> Bytes {
        let mut left = self.durable.clone();
        let choice = Choice::among(self.unsynced.len(), unsynced, random);
        for (index, change) in self.unsynced.iter().enumerate() {
            match change {
                Unwritten::Length(length) if choice.keeps(index) => left.resize(*length, 0),
                Unwritten::Length(_) => {}
                Unwritten::Bytes { offset, bytes } => {
                    let kept = sectors(*offset, bytes).filter(|_| choice.keeps(index));
                    kept.for_each(|(offset, sector)| put(&mut left, offset, sector));
                }
            }
        }
        left.into()
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if new.is_empty() {
        return;
    }
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

/// The parts of bytes at an offset that lie in one sector each, with theirs.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let in_first = SECTOR_BYTES - offset % SECTOR_BYTES;
    let (first, others) = bytes.split_at(in_first.min(bytes.len()));
    let others = others.chunks(SECTOR_BYTES).enumerate();
    let others = others.map(move |(index, sector)| {
        let offset = offset + in_first + index * SECTOR_BYTES;
        (offset, sector)
    });
    iter::once((offset, first)).chain(others)
}

/// Which of some changes that are not durable are on the disk.
struct Choice<'a> {
    unsynced: Unsynced,
    random: &'a SeededRandom,
    /// Of a prefix, the first that may be there in part.
    torn: usize,
}

impl Choice<'_> {
    fn among(changes: usize, unsynced: Unsynced, random: &SeededRandom) -> Choice<'_> {
        Choice {
            unsynced,
            random,
            torn: (random.next_u64() % (changes as u64 + 1)) as usize,
        }
    }

    /// Whether a change is, or a part of it: each is asked for.
    fn keeps(&self, index: usize) -> bool {
        let by_chance = || self.random.next_u64().is_multiple_of(2);
        match self.unsynced {
            Unsynced::Nothing => false,
            Unsynced::Everything => true,
            Unsynced::Prefix(_) => index < self.torn || (index == self.torn && by_chance()),
            Unsynced::Scattered(_) => by_chance(),
        }
    }
}

fn random(unsynced: Unsynced) -> SeededRandom {
    SeededRandom::new(match unsynced {
        Unsynced::Nothing | Unsynced::Everything => 0,
        Unsynced::Prefix(seed) | Unsynced::Scattered(seed) => seed,
    })
}
