//! Log files that nothing needs go, and nobody misses them after a crash; one that somebody takes
//! is missed (LOG-9).

use futures::executor::block_on;
use lazybase_model::{Horizon, ScuNumber};
use proptest::prelude::*;

use super::world::{World, keyed, no_manifest, seal_in, small, store_of, upserts};
use crate::env::memory::{MemoryStore, Unsynced};
use crate::env::{Env, Store};
use crate::manifest::state::Manifest;
use crate::stages::ingest::BatchWriter;
use crate::stages::ingest::frame::log_name;

/// A database through several lives, opened as it would be after a power cut at each moment.
struct Story {
    world: World,
    manifest: Manifest,
    /// Batches that are not committed, the oldest first.
    open: Vec<BatchWriter>,
    next_id: i64,
    /// Where the batches stand that were acknowledged, and the first id of each.
    acknowledged: Vec<(Horizon, i64)>,
    /// How many of them were, and how many operations the store had seen, when it was looked last.
    looked: (usize, usize),
    lives: u64,
}

impl Story {
    fn new() -> Story {
        Story {
            world: World::new(small()),
            manifest: no_manifest(),
            open: Vec::new(),
            next_id: 1,
            acknowledged: Vec::new(),
            looked: (0, 0),
            lives: 1,
        }
    }

    fn image(&self, operations: usize, unsynced: Unsynced) -> MemoryStore {
        store_of(&self.world).crash_image(operations, unsynced)
    }

    /// Opens what a power cut leaves at every moment since it was looked last.
    fn look(&mut self) {
        let (known, since) = self.looked;
        let now = store_of(&self.world).operations();
        for moment in since..=now {
            let seed = moment as u64;
            for unsynced in [Unsynced::Everything, Unsynced::Scattered(seed)] {
                let test = Env::test_over(7, self.image(moment, unsynced));
                let opened = World::open(test, &self.manifest, small());
                let opened = opened.unwrap_or_else(|error| {
                    let operation = store_of(&self.world).describe(moment);
                    panic!("after operation {moment}, {operation:?}, {unsynced:?}: {error}")
                });
                let ids = opened.ids();
                let sorted = self.manifest.sorted_through;
                let unsorted = self.acknowledged[..known].iter();
                for (horizon, id) in unsorted.filter(|(horizon, _)| horizon.scu > sorted) {
                    assert!(ids.contains(id), "batch {id} at {horizon}, moment {moment}");
                }
            }
        }
        self.looked = (self.acknowledged.len(), now);
    }

    /// A batch that is not committed, all of its full frames in the log.
    fn write(&mut self, rows: i64, bytes: usize) {
        let ids = self.next_id..self.next_id + rows;
        self.next_id += rows;
        let batch = self.world.write(vec![(keyed(1), upserts(ids, bytes))]);
        self.open.push(batch.unwrap());
        self.world.spawner.run();
        self.look();
    }

    fn drop_batch(&mut self, index: usize) {
        if index < self.open.len() {
            drop(self.open.remove(index));
            self.world.spawner.run();
            self.look();
        }
    }

    fn upload(&mut self, rows: i64, bytes: usize) {
        let first = self.next_id;
        self.next_id += rows;
        let answer = self.world.upload(first..first + rows, bytes).unwrap();
        self.world.spawner.run();
        self.acknowledged.push((answer.horizon, first));
        self.look();
    }

    /// The manifest names what was sealed.
    fn name_sealed(&mut self) {
        while let Ok(sealed) = self.world.sealed.try_recv() {
            seal_in(&mut self.manifest, &sealed);
        }
        self.look();
    }

    /// All that is committed is sealed and sorted; its log is given up, or kept for the retention.
    fn sort(&mut self, retires: bool) {
        self.world.seal();
        self.look();
        self.name_sealed();
        let through = self.manifest.sealed_through;
        self.manifest.sorted_through = through;
        self.look();
        self.world.ingest.forget_through(through);
        if retires {
            let scus: Vec<ScuNumber> = self.manifest.scus.keys().copied().collect();
            self.manifest.scus.clear();
            self.look();
            self.world.ingest.retire(scus);
        }
        self.world.spawner.run();
        self.look();
    }

    /// The database is closed, with all that was sealed in the manifest, and opened again.
    fn close_and_open(&mut self) {
        self.close();
        self.open_again(Unsynced::Everything);
    }

    fn close(&mut self) {
        let ingest = self.world.ingest.clone();
        let closing = self.world.run(async move { ingest.close().await }).unwrap();
        self.look();
        self.name_sealed();
        self.world.run(closing.finish(true));
        self.look();
    }

    /// The process dies, or the power goes, and the database is opened again.
    fn open_again(&mut self, unsynced: Unsynced) {
        self.lives += 1;
        let image = self.image(store_of(&self.world).operations(), unsynced);
        let test = Env::test_over(10 + self.lives, image);
        self.world = World::open(test, &self.manifest, small()).unwrap();
        self.open.clear();
        self.looked = (self.acknowledged.len(), 0);
        self.look();
        for sealed in std::mem::take(&mut self.world.recovered) {
            seal_in(&mut self.manifest, &sealed);
        }
        self.world.spawner.run();
        self.look();
    }
}

fn log_files(world: &World) -> usize {
    block_on(store_of(world).list("log/")).unwrap().len()
}

/// A database that is not written for a while takes no room for files to be written again, but for
/// the one that the next opening begins with.
#[test]
fn closing_keeps_one_file_to_be_written_again() {
    let mut story = Story::new();
    story.upload(1, 5);
    story.sort(true);
    story.write(1_000, 40);
    story.drop_batch(0);
    assert!(log_files(&story.world) > 3);
    story.close();
    let listed = block_on(store_of(&story.world).list("log/")).unwrap();
    let usual = small().log_file_bytes;
    let whole = listed.iter().filter(|(_, bytes)| *bytes == usual);
    assert_eq!(whole.count(), 1, "{listed:?}");
    story.open_again(Unsynced::Everything);
}

/// Closing cuts the newest file, which goes at the next opening; files of a dropped batch before it
/// are of the usual length, and go one by one.
#[test]
fn a_file_that_was_cut_is_not_missed_for_frames_of_dropped_batches_before_it() {
    for bytes in [40, 700, 1500] {
        let mut story = Story::new();
        story.upload(1, 5);
        story.sort(true);
        story.write(60_000 / bytes as i64, bytes);
        story.drop_batch(0);
        story.close_and_open();
        story.write(9_000 / bytes as i64, bytes);
        story.open_again(Unsynced::Everything);
    }
}

/// A file of another length than the usual one goes while an open batch keeps one before it.
#[test]
fn a_file_of_a_dropped_batch_is_not_missed_for_those_of_one_that_goes_on() {
    let mut story = Story::new();
    story.write(60, 40);
    story.write(1, 12 << 10);
    story.drop_batch(1);
    story.write(400, 40);
    story.drop_batch(1);
    story.write(100, 40);
    story.open_again(Unsynced::Everything);
}

/// The log of what is sorted is kept for a while: behind its last batch others may have begun.
#[test]
fn a_file_is_not_missed_for_frames_behind_those_of_a_sorted_scu() {
    let mut story = Story::new();
    story.upload(1, 5);
    story.sort(false);
    story.write(1_000, 40);
    story.drop_batch(0);
    story.close_and_open();
    story.write(200, 40);
    story.open_again(Unsynced::Everything);
}

/// As many files as are kept to be written again, the current one and the next one.
#[test]
fn files_of_a_dropped_batch_go_with_it() {
    for (rows, bytes) in [(2_000, 40), (8, 12 << 10)] {
        let world = World::new(small());
        let batch = world.write(vec![(keyed(1), upserts(0..rows, bytes))]);
        world.spawner.run();
        let before = log_files(&world);
        assert!(before > 8, "{before}");
        drop(batch.unwrap());
        world.spawner.run();
        assert!(log_files(&world) <= 6, "{} of {before}", log_files(&world));
    }
}

/// Behind frames of the open SCU, in a file that is kept, they wait until that is sealed.
#[test]
fn files_of_a_dropped_batch_go_once_what_they_wait_for_is_sealed() {
    let world = World::new(small());
    world.upload([1], 5).unwrap();
    // It is sorted, and its log is kept.
    let sealed = world.seal();
    world.ingest.forget_through(sealed);
    let batch = world.write(vec![(keyed(1), upserts(10..2_010, 40))]);
    world.spawner.run();
    let before = log_files(&world);
    assert!(before > 9, "{before}");
    drop(batch.unwrap());
    world.spawner.run();
    world.upload([2], 5).unwrap();
    world.seal();
    world.spawner.run();
    // The file that is kept is one more.
    assert!(log_files(&world) <= 7, "{} of {before}", log_files(&world));
}

/// A lost file may hold the commit frame of a batch alone: what is left of the batch tells.
#[test]
fn a_file_with_nothing_but_a_commit_frame_is_missed() {
    let world = World::new(small());
    world.upload(0..400, 40).unwrap();
    let commit = world.ingest.unsorted()[0].prefix(1)[0].commit.file;
    let behind = world.write(vec![(keyed(1), upserts(1_000..1_400, 40))]);
    world.spawner.run();
    let store = store_of(&world);
    let image = store.crash_image(store.operations(), Unsynced::Everything);
    let lost = log_name(commit);
    block_on(image.delete(&lost)).unwrap();
    let missed = World::open(Env::test_over(2, image), &no_manifest(), small()).err();
    let missed = missed.unwrap();
    assert_eq!(missed.damaged_file(), Some(lost.as_str()), "{missed}");
    drop(behind);
}

/// A lost file may hold all frames of all batches: the one behind it, which holds none that was
/// committed, tells.
#[test]
fn a_file_with_all_that_was_acknowledged_is_missed() {
    for seals in [false, true] {
        let world = World::new(small());
        world.upload([1], 5).unwrap();
        let lost = log_name(world.ingest.unsorted()[0].prefix(1)[0].commit.file);
        if seals {
            // The manifest does not have it yet.
            world.seal();
        }
        let behind = world.write(vec![(keyed(1), upserts(1_000..1_400, 40))]);
        world.spawner.run();
        let store = store_of(&world);
        let image = store.crash_image(store.operations(), Unsynced::Everything);
        block_on(image.delete(&lost)).unwrap();
        let missed = World::open(Env::test_over(2, image), &no_manifest(), small()).err();
        let missed = missed.expect("the batch is missed");
        // By what stands before the next file, not by the header of one that is ready.
        let told = missed.detail().unwrap_or_default();
        assert!(told.contains("begins where it ended"), "{told}");
        assert_eq!(missed.damaged_file(), Some(lost.as_str()), "{missed}");
        drop(behind);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn what_goes_is_never_missed(
        steps in prop::collection::vec((0..10u8, 1..150i64, any::<bool>()), 3..10),
    ) {
        let mut story = Story::new();
        for (step, size, flag) in steps {
            let seed = size as u64;
            match step {
                0..=2 => story.write(size, if flag { 40 } else { 250 }),
                3 => story.write(1 + size % 3, 12 << 10),
                4 => story.drop_batch(if flag { 0 } else { story.open.len().saturating_sub(1) }),
                5 => story.upload(size, 30),
                6 => story.sort(flag),
                7 | 8 => story.close_and_open(),
                _ if flag => story.open_again(Unsynced::Everything),
                _ => story.open_again(Unsynced::Scattered(seed)),
            }
        }
        story.write(100, 40);
    }
}
