//! The power goes after every single operation of the store, and unsynced writes are lost in every
//! way that a disk may lose them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::{ErrorKind, Horizon, ScuNumber};

use super::world::{
    World, ids_of, keyed, no_manifest, read_scu, seal_in, small, store_of, upserts,
};
use crate::change_batch::ChangeBatch;
use crate::env::Env;
use crate::env::manual::TestEnv;
use crate::env::memory::{MemoryStore, Unsynced};
use crate::manifest::state::{DdlBatch, Manifest};
use crate::stages::ingest::frame::{
    FILE_HEADER_BYTES, FileHeader, HeaderState, LOG_FOLDER, log_number,
};
use crate::stages::ingest::writer::BatchWriter;

/// What a run did, and when: moments are counts of the store's operations.
struct Run {
    store: MemoryStore,
    /// Batches by label: their ids in `keyed(1)`.
    sent: BTreeMap<i64, Vec<i64>>,
    /// When each batch was acknowledged, and where it stands.
    acknowledged: Vec<(usize, i64, Horizon)>,
    /// Batches that were prepared and not published.
    given_up: BTreeSet<i64>,
    /// The manifests, and when each was in force.
    manifests: Vec<(usize, Manifest)>,
}

struct Runner {
    world: World,
    run: Run,
    next: i64,
}

impl Runner {
    fn new() -> Runner {
        let world = World::new(small());
        let run = Run {
            store: store_of(&world).clone(),
            sent: BTreeMap::new(),
            acknowledged: Vec::new(),
            given_up: BTreeSet::new(),
            manifests: vec![(0, no_manifest())],
        };
        Runner {
            world,
            run,
            next: 0,
        }
    }

    fn write(&mut self, rows: i64, bytes: usize) -> (i64, BatchWriter) {
        self.next += 1;
        let label = self.next;
        let ids: Vec<i64> = (0..rows).map(|row| label * 10_000 + row).collect();
        self.run.sent.insert(label, ids.clone());
        let changes = vec![
            (keyed(1), upserts(ids, bytes)),
            (keyed(2), upserts([label], 3)),
        ];
        (label, self.world.write(changes).unwrap())
    }

    fn commit(&mut self, batches: Vec<(i64, BatchWriter)>) {
        let (labels, writers): (Vec<_>, Vec<_>) = batches.into_iter().unzip();
        let answers = self.world.commit_all(writers);
        let now = self.run.store.operations();
        for (label, answer) in labels.into_iter().zip(answers) {
            let horizon = answer.unwrap().horizon;
            self.run.acknowledged.push((now, label, horizon));
        }
    }

    fn upload(&mut self, rows: i64, bytes: usize) {
        let batch = self.write(rows, bytes);
        self.commit(vec![batch]);
    }

    /// A batch that comes with DDL: prepared, and published unless it is given up.
    fn transaction(&mut self, rows: i64, bytes: usize, publish: bool) {
        let (label, writer) = self.write(rows, bytes);
        let hold = self.world.hold();
        let mut manifest = self.manifest_now();
        let number = 0xdd1 + label as u64;
        let (hold, prepared) = self.world.prepare(hold, writer, number);
        let prepared = prepared.unwrap();
        if publish {
            let scu = manifest.sealed_through.next();
            manifest.ddl_batch = Some(DdlBatch { scu, number });
            let now = self.run.store.operations();
            self.run.manifests.push((now, manifest));
            let horizon = prepared.publish().horizon;
            assert_eq!(horizon, Horizon::inside(scu, 1));
            self.run.acknowledged.push((now, label, horizon));
        } else {
            drop(prepared);
            self.run.given_up.insert(label);
        }
        drop(hold);
        self.world.spawner.run();
    }

    /// The newest manifest, with everything named that was sealed.
    fn manifest_now(&mut self) -> Manifest {
        let mut manifest = self.run.manifests.last().unwrap().1.clone();
        while let Ok(sealed) = self.world.sealed.try_recv() {
            seal_in(&mut manifest, &sealed);
        }
        let now = self.run.store.operations();
        self.run.manifests.push((now, manifest.clone()));
        manifest
    }

    /// Names what was sealed in the manifest; retires the SCUs up to `through`.
    fn manifest(&mut self, through: u64) {
        let mut manifest = self.manifest_now();
        let retired: Vec<ScuNumber> = manifest
            .scus
            .keys()
            .copied()
            .filter(|scu| scu.0 <= through)
            .collect();
        retired
            .iter()
            .for_each(|scu| drop(manifest.scus.remove(scu)));
        manifest.sorted_through = ScuNumber(through);
        self.run
            .manifests
            .push((self.run.store.operations(), manifest));
        self.world.ingest.forget_through(ScuNumber(through));
        self.world.ingest.retire(retired);
        self.world.spawner.run();
    }
}

/// Small and large batches, groups, a batch over files and SCUs, one that is dropped, a frame
/// larger than a file, recycling.
fn busy_run(with_manifest: bool) -> Run {
    let mut runner = Runner::new();
    runner.upload(1, 5);
    let early = runner.write(150, 40);
    let group = (0..3).map(|_| runner.write(4, 30)).collect();
    runner.commit(group);
    runner.world.seal();
    runner.upload(60, 40);
    let dropped = runner.write(100, 40);
    runner.commit(vec![early]);
    drop(dropped);
    if with_manifest {
        runner.manifest(0);
    }
    for round in 0..4 {
        runner.upload(100, 40);
        if round == 1 {
            // A frame that takes a file of its own, while a file of the usual size is ready.
            runner.upload(1, 12 << 10);
        }
        if round == 2 {
            // Files that hold nothing but frames of a batch that is dropped, between others.
            let dropped = runner.write(600, 40);
            runner.upload(2, 5);
            drop(dropped);
            runner.upload(2, 5);
        }
        let group = (0..2).map(|_| runner.write(round + 1, 10)).collect();
        runner.commit(group);
        runner.world.seal();
        if with_manifest {
            runner.manifest(2 + round as u64);
        }
    }
    let group = (0..4).map(|_| runner.write(20, 40)).collect();
    runner.commit(group);
    runner.run
}

/// What recovery brought back: labels by SCU and position.
fn labels_of(world: &World, run: &Run) -> BTreeMap<(u64, u32), i64> {
    let mut labels = BTreeMap::new();
    for scu in world.ingest.unsorted().iter() {
        let read = |id: u32| -> Vec<ChangeBatch> { read_scu(&world.env, scu, &keyed(id)).unwrap() };
        let found = ids_of(&read(2));
        assert_eq!(
            found.len(),
            scu.acknowledged() as usize,
            "one label a batch"
        );
        let ids: Vec<i64> = found
            .iter()
            .flat_map(|label| run.sent[label].clone())
            .collect();
        assert_eq!(ids_of(&read(1)), ids, "batches are whole and in order");
        for (index, label) in found.into_iter().enumerate() {
            labels.insert((scu.scu().0, index as u32 + 1), label);
        }
    }
    labels
}

fn check(
    world: &World,
    run: &Run,
    moment: usize,
    manifest: &Manifest,
) -> BTreeMap<(u64, u32), i64> {
    let labels = labels_of(world, run);
    let acknowledged = run.acknowledged.iter().filter(|(when, ..)| *when <= moment);
    for (_, label, horizon) in acknowledged {
        if horizon.scu <= manifest.sorted_through {
            continue;
        }
        let place = (horizon.scu.0, horizon.batches.0);
        assert_eq!(
            labels.get(&place),
            Some(label),
            "batch {label} at {horizon}"
        );
    }
    for (place, label) in &labels {
        assert!(!run.given_up.contains(label), "batch {label} at {place:?}");
    }
    let mut once: Vec<i64> = labels.values().copied().collect();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), labels.len(), "every batch once");
    labels
}

fn manifest_at(run: &Run, moment: usize) -> &Manifest {
    let in_force = run.manifests.iter().rfind(|(when, _)| *when <= moment);
    &in_force.unwrap().1
}

fn images(moment: usize) -> [Unsynced; 6] {
    let seed = moment as u64;
    [
        Unsynced::Nothing,
        Unsynced::Everything,
        Unsynced::Prefix(seed),
        Unsynced::Prefix(seed + 1_000_000),
        Unsynced::Scattered(seed),
        Unsynced::Scattered(seed + 1_000_000),
    ]
}

fn crash_everywhere(run: &Run) {
    for moment in 0..=run.store.operations() {
        let manifest = manifest_at(run, moment);
        for unsynced in images(moment) {
            let image = run.store.crash_image(moment, unsynced);
            let context = format!("after operation {moment}, {unsynced:?}");
            let test = Env::test_over(7, image.clone());
            let world = World::open(test, manifest, small()).expect(&context);
            let labels = check(&world, run, moment, manifest);
            drop(world);
            if moment % 5 == 0 {
                crash_again(run, &image, moment, manifest, &labels);
            }
        }
    }
}

/// The power goes again, during or after the recovery.
fn crash_again(
    run: &Run,
    image: &MemoryStore,
    moment: usize,
    manifest: &Manifest,
    labels: &BTreeMap<(u64, u32), i64>,
) {
    let operations = image.operations();
    for step in 0..=operations {
        for unsynced in images(moment * 1000 + step) {
            let second = Env::test_over(8, image.crash_image(step, unsynced));
            let world = World::open(second, manifest, small()).expect("a second crash");
            let again = check(&world, run, moment, manifest);
            if step == operations {
                assert_eq!(&again, labels, "what was once read stays");
            }
        }
    }
}

#[test]
fn every_acknowledged_batch_survives_a_crash_at_any_moment() {
    crash_everywhere(&busy_run(false));
}

#[test]
fn and_so_with_a_manifest_and_recycled_files() {
    crash_everywhere(&busy_run(true));
}

/// Transactions that are committed and given up, small and over files, one after another and
/// between other batches; some SCUs in the manifest, sorted or not.
#[test]
fn a_batch_with_ddl_is_there_once_the_manifest_names_it() {
    let mut runner = Runner::new();
    runner.transaction(3, 10, false);
    runner.transaction(3, 10, true);
    runner.upload(1, 5);
    let early = runner.write(150, 40);
    runner.transaction(200, 40, false);
    runner.transaction(200, 40, false);
    runner.commit(vec![early]);
    runner.transaction(200, 40, true);
    runner.transaction(1, 5, true);
    runner.upload(60, 40);
    runner.manifest(2);
    runner.transaction(2, 5, true);
    runner.world.seal();
    runner.manifest(3);
    runner.transaction(2, 5, false);
    runner.upload(4, 40);
    runner.manifest(3);
    crash_everywhere(&runner.run);
}

#[test]
fn work_goes_on_after_a_crash_and_survives_the_next() {
    let first = busy_run(true);
    for (moment, unsynced) in [(20, Unsynced::Scattered(1)), (40, Unsynced::Prefix(2))] {
        let manifest = manifest_at(&first, moment).clone();
        let test = Env::test_over(9, first.store.crash_image(moment, unsynced));
        let store = test.store.clone();
        let world = World::open(test, &manifest, small()).unwrap();
        let before = labels_of(&world, &first);
        let mut runner = Runner {
            next: 1000,
            run: Run {
                store,
                sent: first.sent.clone(),
                acknowledged: Vec::new(),
                given_up: BTreeSet::new(),
                manifests: vec![(0, manifest)],
            },
            world,
        };
        runner.upload(50, 40);
        runner.upload(2, 4);
        runner.world.seal();
        runner.upload(150, 40);
        let run = runner.run;
        for moment in 0..=run.store.operations() {
            for unsynced in images(moment) {
                let test = Env::test_over(10, run.store.crash_image(moment, unsynced));
                let world = World::open(test, &run.manifests[0].1, small()).unwrap();
                let labels = check(&world, &run, moment, &run.manifests[0].1);
                if run.acknowledged[0].0 <= moment {
                    assert!(
                        before
                            .iter()
                            .all(|(place, label)| labels.get(place) == Some(label))
                    );
                }
            }
        }
    }
}

/// The header of a copy ends in the offset up to which the copy is durable: cut off behind the
/// last byte but one, a header whose offset is a power of two is one bit away from a whole one.
#[test]
fn a_copy_whose_header_is_cut_short_anywhere_is_no_damage() {
    let mut powers_of_two = 0;
    for bytes in 1..=96 {
        let mut runner = Runner::new();
        runner.upload(1, bytes);
        let run = runner.run;
        let killed = run
            .store
            .crash_image(run.store.operations(), Unsynced::Everything);
        let test = Env::test_over(7, killed.clone());
        let labels = labels_of(&World::open(test, &no_manifest(), small()).unwrap(), &run);
        assert_eq!(labels.len(), 1);
        powers_of_two += copies_of_a_power_of_two(&killed);
        for step in (0..=killed.operations()).filter(|step| writes_a_header(&killed, *step)) {
            for seed in 0..200 {
                let cut = Env::test_over(8, killed.crash_image(step, Unsynced::Prefix(seed)));
                let world = World::open(cut, &no_manifest(), small());
                let world = world.unwrap_or_else(|error| panic!("{bytes} bytes, {seed}: {error}"));
                assert_eq!(labels_of(&world, &run), labels);
            }
        }
    }
    assert!(powers_of_two > 0, "no header ends in a single bit");
}

fn writes_a_header(store: &MemoryStore, operation: usize) -> bool {
    let described = store.describe(operation);
    described.is_some_and(|operation| operation.ends_with(": 64 bytes at 0"))
}

/// How many files have a header that says that a power of two of bytes was durable before it.
fn copies_of_a_power_of_two(store: &MemoryStore) -> usize {
    use crate::env::Store;
    futures::executor::block_on(async {
        let mut copies = 0;
        for (name, _) in store.list(LOG_FOLDER).await.unwrap() {
            let first = store.read(&name, 0..FILE_HEADER_BYTES).await.unwrap();
            let header = FileHeader::decode(&first, log_number(&name).unwrap());
            copies += usize::from(matches!(
                header,
                HeaderState::Valid(FileHeader { durable, .. })
                    if durable > FILE_HEADER_BYTES && durable.is_power_of_two()
            ));
        }
        copies
    })
}

/// A flipped bit is named wherever it is read, and never changes an answer.
#[test]
fn a_flipped_bit_anywhere_is_found() {
    let mut runner = Runner::new();
    runner.upload(3, 10);
    runner.upload(30, 40);
    let group = (0..2).map(|_| runner.write(2, 10)).collect();
    runner.commit(group);
    runner.world.seal();
    runner.upload(5, 10);
    runner.upload(100, 40);
    let run = runner.run;
    let whole = Env::test_over(
        3,
        run.store
            .crash_image(run.store.operations(), Unsynced::Everything),
    );
    let expected = labels_of(&World::open(whole, &no_manifest(), small()).unwrap(), &run);
    let places = futures::executor::block_on(written_places(&run));
    for (name, bit) in places {
        let (test, env) = with_flipped_bit(&run, &name, bit);
        match World::open_env(test, env, &no_manifest(), small()) {
            Err(error) => {
                assert_eq!(
                    error.kind(),
                    ErrorKind::Corrupt,
                    "{name} bit {bit}: {error}"
                );
                assert!(error.message().contains(&name), "{name} bit {bit}: {error}");
            }
            Ok(world) => {
                assert_eq!(
                    labels_of(&world, &run),
                    expected,
                    "{name} bit {bit} went unseen"
                );
            }
        }
    }
}

/// The store as the run left it, but for one bit.
fn with_flipped_bit(run: &Run, name: &str, bit: u64) -> (TestEnv, Env) {
    let now = run.store.operations();
    let test = Env::test_over(4, run.store.crash_image(now, Unsynced::Everything));
    let faults = crate::env::faults::Faults::none();
    faults.flip_bit(name, bit);
    let store = crate::env::faults::FaultyStore::over(Arc::clone(&test.env.store), faults);
    let env = Env {
        store: Arc::new(store),
        ..test.env.clone()
    };
    (test, env)
}

/// Damage keeps nothing from opening that the manifest holds already: as SCUs whose frames are
/// read by their places, or as runs.
#[test]
fn a_flipped_bit_in_sealed_frames_lets_the_log_open() {
    let mut runner = Runner::new();
    runner.upload(30, 40);
    let early = runner.write(20, 40);
    runner.world.seal();
    runner.upload(100, 40);
    runner.commit(vec![early]);
    runner.world.seal();
    let sealed = runner.manifest_now();
    runner.manifest(2);
    let retired = runner.run.manifests.last().unwrap().1.clone();
    assert!(sealed.scus.len() == 2 && retired.scus.is_empty());
    let mut unread = 0;
    for (name, bit) in futures::executor::block_on(written_places(&runner.run)) {
        for manifest in [&sealed, &retired] {
            let (test, env) = with_flipped_bit(&runner.run, &name, bit);
            let world = World::open_env(test, env, manifest, small())
                .unwrap_or_else(|error| panic!("{name} bit {bit}: {error}"));
            assert_eq!(world.recovered.len(), 0, "{name} bit {bit}");
            for scu in world.ingest.unsorted().iter() {
                let read = read_scu(&world.env, scu, &keyed(1));
                unread += u32::from(read.is_err_and(|error| error.kind() == ErrorKind::Corrupt));
            }
        }
    }
    assert!(unread > 100, "{unread}");
}

/// Bits of every byte that was written to the log.
async fn written_places(run: &Run) -> Vec<(String, u64)> {
    use crate::env::Store;
    let mut places = Vec::new();
    for (name, bytes) in run.store.list("log/").await.unwrap() {
        let content = run.store.read(&name, 0..bytes).await.unwrap();
        let written = content
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        for byte in (0..written as u64).step_by(3) {
            places.push((name.clone(), byte * 8 + byte % 8));
        }
    }
    places
}
