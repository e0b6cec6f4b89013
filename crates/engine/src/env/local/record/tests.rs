//! What the local store promises to last, against what power cuts can leave: stories are recorded,
//! and after each of their calls the disk is compared with a naive model.

use std::collections::BTreeSet;
use std::mem;
use std::ops::RangeInclusive;

use futures::executor::block_on;
use proptest::prelude::{ProptestConfig, Strategy, prop, prop_assert_eq, prop_oneof, proptest};
use tempfile::TempDir;

use super::*;
use crate::env::local::LocalStore;
use crate::env::memory::Unsynced;
use crate::env::name::TEMP_MARK;
use crate::env::{LogFile, Store, StoreError, StoreResult};

/// The store's folder below the base.
const ROOT: &str = "new/db";

const FILES: [&str; 4] = ["manifest/1", "manifest/2", "segments/a", "backups/x/y"];
const LOGS: [&str; 4] = ["log/1.log", "log/2.log", "log/3.log", "condemned/4.log"];
const ASIDE: [&str; 2] = ["set-aside/a", "set-aside/log/b"];

/// Of how many cuts of a story one is opened with a store.
const OPENED_SHARE: usize = 7;

/// Whether all cases are wanted, where time does not matter.
fn every_case() -> bool {
    std::env::var("LAZYBASE_EVERY_CASE").is_ok()
}

/// What is left of the names, and of the bytes, that were not synced.
fn cuts(seed: u64) -> [(Unsynced, Unsynced); 6] {
    use Unsynced::{Everything, Nothing, Prefix, Scattered};
    [
        (Nothing, Nothing),
        (Nothing, Everything),
        (Everything, Nothing),
        (Everything, Everything),
        (Prefix(seed), Prefix(!seed)),
        (Scattered(seed), Scattered(!seed)),
    ]
}

/// What a file may hold.
#[derive(Debug, Clone)]
struct Content {
    /// Its bytes, as far as they were synced.
    bytes: Vec<u8>,
    /// What was written since.
    unsynced: Vec<(usize, Vec<u8>)>,
    /// How long it may be.
    lengths: RangeInclusive<usize>,
}

impl Content {
    fn of(bytes: Vec<u8>) -> Content {
        Content {
            lengths: bytes.len()..=bytes.len(),
            bytes,
            unsynced: Vec::new(),
        }
    }

    fn sync(&mut self) {
        for (offset, bytes) in mem::take(&mut self.unsynced) {
            self.bytes[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
    }

    fn set_length(&mut self, bytes: usize) {
        self.bytes.resize(bytes, 0);
        self.lengths = bytes..=bytes;
    }

    /// The same while its length is changed.
    fn between(&self, bytes: usize) -> Content {
        let (least, most) = (self.bytes.len().min(bytes), self.bytes.len().max(bytes));
        let mut between = self.clone();
        between.bytes.resize(most, 0);
        between.lengths = least..=most;
        between
    }

    fn allows(&self, found: &[u8]) -> bool {
        let may_be = |at: usize, byte: &u8| {
            let mut written = self.unsynced.iter();
            self.bytes.get(at) == Some(byte)
                || written.any(|(offset, bytes)| {
                    let at = at.checked_sub(*offset);
                    at.and_then(|at| bytes.get(at)) == Some(byte)
                })
        };
        self.lengths.contains(&found.len())
            && (self.bytes.get(..found.len()) == Some(found)
                || found.iter().enumerate().all(|(at, byte)| may_be(at, byte)))
    }
}

/// What the store promises.
#[derive(Clone, Default)]
struct Model {
    files: BTreeMap<String, Content>,
    /// What was removed, and may be back.
    removed: BTreeMap<String, Content>,
}

impl Model {
    /// A file became durable, and with it the removals in its folder.
    fn put(&mut self, name: &str, content: Content) {
        let folder = |name: &str| name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        self.removed
            .retain(|other, _| folder(other) != folder(name));
        self.files.insert(name.to_owned(), content);
    }

    fn allows(&self, name: &str, found: Option<&[u8]>) -> bool {
        match (self.files.get(name), found) {
            (Some(content), found) => found.is_some_and(|found| content.allows(found)),
            (None, None) => true,
            (None, Some(found)) => {
                let removed = self.removed.get(name);
                removed.is_some_and(|content| content.allows(found))
            }
        }
    }
}

/// What is done with the store.
#[derive(Debug, Clone)]
enum Act {
    Put(&'static str, usize),
    /// Writes a file in parts, and finishes it or not.
    Write(&'static str, usize, bool),
    CreateLog(&'static str, usize),
    /// The old name, the new one, and the length.
    Recycle(&'static str, &'static str, usize),
    /// Where, and how much.
    WriteLog(&'static str, usize, usize),
    SyncLog(&'static str),
    CutLog(&'static str, usize),
    Delete(&'static str),
    Rename(&'static str, &'static str),
}

/// The store after an act.
struct Moment {
    act: String,
    /// How many calls were made until it returned.
    calls: usize,
    model: Model,
    /// What a file may hold besides, until then.
    meanwhile: Option<(&'static str, Content)>,
    /// Names of which there is one throughout.
    moved: Option<[&'static str; 2]>,
}

impl Moment {
    fn of(act: String, model: Model) -> Moment {
        Moment {
            act,
            calls: 0,
            model,
            meanwhile: None,
            moved: None,
        }
    }

    /// A file that is not what it may be on the way here, or at the end of it.
    fn wrong_file(
        &self,
        before: &Moment,
        is_over: bool,
        files: &BTreeMap<String, Bytes>,
    ) -> Option<String> {
        let models = [&before.model, &self.model];
        let known = models.iter().flat_map(|model| {
            let names = model.files.keys().chain(model.removed.keys());
            names.map(String::as_str)
        });
        let names: BTreeSet<&str> = known.chain(files.keys().map(String::as_str)).collect();
        let is_right = |name: &str| {
            let found = files.get(name).map(Bytes::as_ref);
            let on_the_way = || {
                let meanwhile = self.meanwhile.as_ref().filter(|(file, _)| *file == name);
                let may_hold = |found| meanwhile.is_some_and(|(_, content)| content.allows(found));
                before.model.allows(name, found) || found.is_some_and(may_hold)
            };
            self.model.allows(name, found) || (!is_over && on_the_way())
        };
        if let Some(wrong) = names.into_iter().find(|name| !is_right(name)) {
            return Some(wrong.to_owned());
        }
        let moved = self.moved.filter(|_| !is_over)?;
        let is_lost = !moved.iter().any(|name| files.contains_key(*name));
        is_lost.then(|| moved.join(" and "))
    }
}

/// A store, what was done with it, and all calls that it made.
struct Story {
    _folder: TempDir,
    record: DiskRecord,
    store: LocalStore,
    logs: BTreeMap<&'static str, Box<dyn LogFile>>,
    moments: Vec<Moment>,
    fill: u8,
}

impl Story {
    fn new() -> Story {
        let (folder, base) = base();
        let record = DiskRecord::below(&base);
        let store = LocalStore::open_recorded(&base.join(ROOT), &record).unwrap();
        let mut opened = Moment::of("open".to_owned(), Model::default());
        opened.calls = record.calls();
        Story {
            _folder: folder,
            record,
            store,
            logs: BTreeMap::new(),
            moments: vec![Moment::of(String::new(), Model::default()), opened],
            fill: 0,
        }
    }

    fn told(acts: &[Act]) -> Story {
        let mut story = Story::new();
        acts.iter().for_each(|act| story.act(act));
        story
    }

    /// Does it, if it can be done.
    fn act(&mut self, act: &Act) {
        let last = self.moments.last().unwrap();
        let mut next = Moment::of(format!("{act:?}"), last.model.clone());
        let has = |name: &str| last.model.files.contains_key(name);
        match *act {
            Act::Put(name, bytes) => {
                let bytes = self.bytes(bytes);
                let put = block_on(self.store.put_if_absent(name, bytes.clone().into()));
                note_put(put, name, bytes, &mut next.model);
            }
            Act::Write(name, bytes, is_finished) => {
                let bytes = self.bytes(bytes);
                let mut writer = block_on(self.store.create(name)).unwrap();
                for part in bytes.chunks(700) {
                    block_on(writer.write(Bytes::copy_from_slice(part))).unwrap();
                }
                if is_finished {
                    note_put(block_on(writer.finish()), name, bytes, &mut next.model);
                }
            }
            Act::CreateLog(name, bytes) if !has(name) => {
                let log = block_on(self.store.create_log(name, bytes as u64, None));
                self.logs.insert(name, log.unwrap());
                next.model.put(name, Content::of(vec![0; bytes]));
            }
            Act::Recycle(old, name, bytes) if has(old) && !has(name) => {
                self.logs.remove(old);
                let log = block_on(self.store.create_log(name, bytes as u64, Some(old)));
                self.logs.insert(name, log.unwrap());
                let mut content = next.model.files.remove(old).unwrap();
                if content.bytes.len() != bytes {
                    next.meanwhile = Some((old, content.between(bytes)));
                    content.sync();
                    content.set_length(bytes);
                }
                next.model.put(name, content);
                next.moved = Some([old, name]);
            }
            Act::Delete(name) => {
                self.logs.remove(name);
                block_on(self.store.delete(name)).unwrap();
                if let Some(content) = next.model.files.remove(name) {
                    next.model.removed.insert(name.to_owned(), content);
                }
            }
            Act::Rename(old, new) if has(old) && !has(new) => {
                self.logs.remove(old);
                block_on(self.store.rename(old, new)).unwrap();
                let content = next.model.files.remove(old).unwrap();
                next.model.put(new, content);
                next.moved = Some([old, new]);
            }
            Act::WriteLog(name, ..) | Act::SyncLog(name) | Act::CutLog(name, _)
                if self.logs.contains_key(name) =>
            {
                self.act_on_log(name, act, &mut next);
            }
            _ => return,
        }
        next.calls = self.record.calls();
        self.moments.push(next);
    }

    fn act_on_log(&mut self, name: &'static str, act: &Act, next: &mut Moment) {
        let content = next.model.files.get_mut(name).unwrap();
        let length = content.bytes.len();
        let mut log = self.logs.remove(name).unwrap();
        match *act {
            Act::WriteLog(_, offset, bytes) => {
                let bytes = self.bytes(bytes.min(length));
                let offset = offset % (length - bytes.len() + 1);
                block_on(log.write_at(offset as u64, &bytes)).unwrap();
                content.unsynced.push((offset, bytes));
            }
            Act::SyncLog(_) => {
                block_on(log.sync()).unwrap();
                content.sync();
            }
            Act::CutLog(_, bytes) => {
                let bytes = bytes % (length + 1);
                block_on(log.cut(bytes as u64)).unwrap();
                next.meanwhile = Some((name, content.between(bytes)));
                content.sync();
                content.set_length(bytes);
                return;
            }
            _ => unreachable!("{act:?}"),
        }
        self.logs.insert(name, log);
    }

    /// Bytes that no other file has.
    fn bytes(&mut self, bytes: usize) -> Vec<u8> {
        self.fill += 1;
        vec![self.fill; bytes]
    }
}

fn note_put(put: StoreResult<()>, name: &str, bytes: Vec<u8>, model: &mut Model) {
    match put {
        Ok(()) => model.put(name, Content::of(bytes)),
        Err(error) => {
            assert!(matches!(error, StoreError::AlreadyExists(_)), "{error}");
            assert!(model.files.contains_key(name), "{error}");
        }
    }
}

/// A folder of the test's own, and its path without links.
fn base() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    (folder, base)
}

/// What an image holds of the store, without what its unfinished writers left.
fn files_in(image: &DiskImage) -> BTreeMap<String, Bytes> {
    let files = image.files().iter().map(|(path, bytes)| {
        let name = path
            .strip_prefix(ROOT)
            .and_then(|name| name.strip_prefix('/'));
        let name = name.expect("nothing is made outside of the store's folder");
        (name.to_owned(), bytes.clone())
    });
    files
        .filter(|(name, _)| !name.contains(TEMP_MARK))
        .collect()
}

/// What a store shows.
fn files_of(store: &LocalStore) -> BTreeMap<String, Bytes> {
    let names = block_on(store.list("")).unwrap().into_iter();
    let files = names.map(|(name, length)| {
        let bytes = block_on(store.read(&name, 0..length)).unwrap();
        (name, bytes)
    });
    files.collect()
}

/// Compares what is left after each call with what was promised; the first difference in words.
fn compare(record: &DiskRecord, moments: &[Moment]) -> Result<(), String> {
    let mut disk = record.replay();
    for pair in moments.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        while disk.calls() < after.calls {
            assert!(disk.step());
            let is_over = disk.calls() == after.calls;
            for (names, bytes) in cuts(disk.calls() as u64) {
                let files = files_in(&disk.image(names, bytes));
                if let Some(wrong) = after.wrong_file(before, is_over, &files) {
                    let call = &record.describe()[disk.calls() - 1];
                    let act = &after.act;
                    return Err(format!(
                        "{wrong} is wrong after \"{call}\" of {act}, of names {names:?} and of \
                         bytes {bytes:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// A store that is opened over an image shows what that holds, and nothing else.
fn open_over(image: &DiskImage) {
    let (_folder, base) = base();
    image.write_to(&base).unwrap();
    let store = LocalStore::open(&base.join(ROOT)).unwrap();
    assert_eq!(files_of(&store), files_in(image));
}

/// The record of a story has all that was done to the disk.
fn check_whole(story: &Story) {
    let mut disk = story.record.replay();
    disk.go_to(usize::MAX);
    let image = disk.image(Unsynced::Everything, Unsynced::Everything);
    assert_eq!(files_of(&story.store), files_in(&image));
}

/// Everything that a store does, each sync of it for a reason of its own.
fn script() -> Story {
    let acts = [
        Act::Put("manifest/1", 900),
        Act::Write("segments/a", 2000, true),
        Act::Write("segments/b", 2000, false),
        Act::CreateLog("log/1.log", 3000),
        Act::WriteLog("log/1.log", 400, 800),
        Act::SyncLog("log/1.log"),
        Act::WriteLog("log/1.log", 1100, 700),
        Act::CutLog("log/1.log", 2000),
        Act::Recycle("log/1.log", "log/2.log", 3000),
        Act::Recycle("log/2.log", "log/3.log", 1000),
        Act::Recycle("log/3.log", "log/4.log", 1000),
        Act::Delete("manifest/1"),
        Act::Put("manifest/2", 600),
        Act::Rename("segments/a", "set-aside/segments/a"),
    ];
    let story = Story::told(&acts);
    assert_eq!(story.moments.len(), acts.len() + 2, "all of it was done");
    story
}

#[test]
fn a_power_cut_after_any_call_leaves_what_was_promised() {
    let story = script();
    check_whole(&story);
    assert_eq!(compare(&story.record, &story.moments), Ok(()));
    let mut disk = story.record.replay();
    while disk.step() {
        let cuts = cuts(disk.calls() as u64);
        let cuts = match (every_case(), disk.calls() % OPENED_SHARE) {
            (true, _) => &cuts[..],
            (false, 0) => &cuts[5..],
            (false, _) => &[],
        };
        for (names, bytes) in cuts {
            open_over(&disk.image(*names, *bytes));
        }
    }
}

#[test]
fn without_any_one_sync_a_power_cut_breaks_a_promise() {
    let story = script();
    let calls = story.record.describe();
    let syncs = (1..)
        .zip(&calls)
        .filter(|(_, call)| call.starts_with("sync "));
    let unneeded = syncs.filter(|(number, _)| {
        let without = story.record.without(|call, _| call == *number);
        compare(&without, &story.moments).is_ok()
    });
    let unneeded: Vec<&str> = unneeded.map(|(_, call)| call.as_str()).collect();
    // When a store is opened, there may be something in its folder.
    assert_eq!(unneeded, [format!("sync folder {ROOT}")]);
}

/// A process that was killed after some calls of a story, and the next one, which opens the folder
/// with all that the system was given, and puts a file.
struct Killed {
    record: DiskRecord,
    calls: usize,
    /// How many were made until the folder was open.
    opened: usize,
    shown: BTreeMap<String, Bytes>,
    shown_later: BTreeMap<String, Bytes>,
}

impl Killed {
    fn after(calls: usize, record: &DiskRecord) -> Killed {
        let (_folder, base) = base();
        let mut disk = record.replay();
        disk.go_to(calls);
        let given = disk.image(Unsynced::Everything, Unsynced::Everything);
        given.write_to(&base).unwrap();
        let steps = record.0.steps.lock()[..calls].to_vec();
        let record = DiskRecord::of(&base, record.0.files.load(Ordering::Relaxed), steps);
        let store = LocalStore::open_recorded(&base.join(ROOT), &record).unwrap();
        let (opened, shown) = (record.calls(), files_of(&store));
        block_on(store.put_if_absent("manifest/later", Bytes::from_static(b"later"))).unwrap();
        Killed {
            calls,
            opened,
            shown,
            shown_later: files_of(&store),
            record,
        }
    }

    /// Whether a power cut leaves what was shown, if some calls of the opening, chosen by
    /// description, are not made.
    fn lasts_without(&self, is_left_out: impl Fn(&str) -> bool) -> bool {
        let opening = self.calls + 1..=self.opened;
        let record = self
            .record
            .without(|number, call| opening.contains(&number) && is_left_out(call));
        let mut disk = record.replay();
        disk.go_to(self.opened);
        let opened = disk.image(Unsynced::Nothing, Unsynced::Nothing);
        disk.go_to(usize::MAX);
        let later = disk.image(Unsynced::Nothing, Unsynced::Nothing);
        files_in(&opened) == self.shown && files_in(&later) == self.shown_later
    }
}

#[test]
fn what_is_shown_after_a_kill_is_there_after_a_power_cut() {
    let story = script();
    let killed = (0..=story.record.calls()).map(|calls| Killed::after(calls, &story.record));
    let killed: Vec<Killed> = killed.collect();
    for killed in &killed {
        let calls = &killed.record.describe()[..killed.calls];
        let last = calls.last();
        assert!(killed.lasts_without(|_| false), "killed after {last:?}");
    }
    // What the opening does for that is needed, as far as the folders above.
    let needed = [
        format!("sync file {ROOT}/log/1.log"),
        format!("sync folder {ROOT}/log"),
        "sync folder new".to_owned(),
        "sync folder ".to_owned(),
    ];
    for what in needed {
        let mut killed = killed.iter();
        let needs = |killed: &Killed| !killed.lasts_without(|call| call == what);
        assert!(killed.any(needs), "{what}");
    }
}

#[test]
fn what_is_said_to_exist_is_there_after_a_power_cut() {
    let asks: [fn(&LocalStore, &str) -> StoreResult<()>; 5] = [
        |store, name| block_on(store.put_if_absent(name, Bytes::new())),
        |store, name| block_on(block_on(store.create(name))?.finish()),
        |store, name| block_on(store.create_log(name, 500, None)).map(drop),
        |store, name| block_on(store.create_log(name, 500, Some("log/2.log"))).map(drop),
        |store, name| block_on(store.rename("log/2.log", name)),
    ];
    for (index, ask) in asks.iter().enumerate() {
        let made = [
            Act::CreateLog("log/1.log", 500),
            Act::CreateLog("log/2.log", 500),
        ];
        let story = Story::told(&made);
        // As a call leaves it whose sync of the folder failed.
        let folder = story.store.root().join("log");
        let (one, three) = (folder.join("1.log"), folder.join("3.log"));
        story.store.0.disk.hard_link(&one, &three).unwrap();
        let answer = ask(&story.store, "log/3.log");
        assert!(
            matches!(answer, Err(StoreError::AlreadyExists(_))),
            "{index}: {answer:?}"
        );
        let mut disk = story.record.replay();
        disk.go_to(usize::MAX);
        let left = files_in(&disk.image(Unsynced::Nothing, Unsynced::Nothing));
        assert!(left.contains_key("log/3.log"), "{index}: {left:?}");
    }
}

fn act() -> impl Strategy<Value = Act> {
    let file = || prop::sample::select(FILES.to_vec());
    let log = || prop::sample::select(LOGS.to_vec());
    let aside = || prop::sample::select(ASIDE.to_vec());
    let bytes = || 1..3000_usize;
    prop_oneof![
        3 => (file(), bytes()).prop_map(|(name, bytes)| Act::Put(name, bytes)),
        1 => (file(), bytes(), prop::bool::ANY)
            .prop_map(|(name, bytes, is_finished)| Act::Write(name, bytes, is_finished)),
        2 => (log(), bytes()).prop_map(|(name, bytes)| Act::CreateLog(name, bytes)),
        2 => (log(), log(), bytes()).prop_map(|(old, name, bytes)| Act::Recycle(old, name, bytes)),
        3 => (log(), bytes(), bytes())
            .prop_map(|(name, offset, bytes)| Act::WriteLog(name, offset, bytes)),
        2 => log().prop_map(Act::SyncLog),
        1 => (log(), bytes()).prop_map(|(name, bytes)| Act::CutLog(name, bytes)),
        2 => prop_oneof![file(), log(), aside()].prop_map(Act::Delete),
        1 => (prop_oneof![file(), log()], aside()).prop_map(|(old, new)| Act::Rename(old, new)),
    ]
}

fn stories() -> ProptestConfig {
    ProptestConfig::with_cases(if every_case() { 300 } else { 16 })
}

proptest! {
    #![proptest_config(stories())]

    #[test]
    fn a_power_cut_in_any_story_leaves_what_was_promised(
        acts in prop::collection::vec(act(), 1..20),
        calls in 0..200_usize,
    ) {
        let story = Story::told(&acts);
        check_whole(&story);
        prop_assert_eq!(compare(&story.record, &story.moments), Ok(()));
        let mut disk = story.record.replay();
        disk.go_to(calls);
        let (names, bytes) = cuts(calls as u64)[5];
        open_over(&disk.image(names, bytes));
    }
}
