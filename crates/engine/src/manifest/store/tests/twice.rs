//! A closed database tells its manifest twice: any one of its files may be damaged or gone. What
//! is told once is missed.

use lazybase_model::limits::EDITS_PER_OPENING;
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use super::*;

/// A store that was closed, and the manifest that it told then.
fn closed(seed: u64, edits: usize) -> (TestEnv, Manifest) {
    let world = Env::test(seed);
    let store = open(&world.env).unwrap();
    let all = run(&store, &mut Draw(seed), edits);
    block_on(store.close()).unwrap();
    (world, all.last().unwrap().clone())
}

fn copy_of(store: &MemoryStore) -> MemoryStore {
    store.crash_image(store.operations(), Unsynced::Everything)
}

fn names(store: &MemoryStore) -> Vec<String> {
    let files = block_on(store.list("manifest/")).unwrap();
    files.into_iter().map(|(name, _)| name).collect()
}

/// Really changes a file.
fn flip(store: &MemoryStore, name: &str, bit: u64) {
    block_on(async {
        let length = store.len(name).await.unwrap();
        let mut bytes = store.read(name, 0..length).await.unwrap().to_vec();
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        store.delete(name).await.unwrap();
        store.put_if_absent(name, bytes.into()).await.unwrap();
    });
}

fn delete(store: &MemoryStore, name: &str) {
    block_on(store.delete(name)).unwrap();
}

/// An edit that changes nothing that readers see.
fn barrier(manifest: &Manifest, clock_micros: i64) -> Edit {
    Edit::Barrier {
        epoch: manifest.epoch + 1,
        clock_micros,
    }
}

/// Opens a store that tells `told`; the files that were met damaged.
fn opened_whole(image: &MemoryStore, told: &Manifest) -> Vec<String> {
    assert_eq!(&look(image).unwrap(), told);
    let world = Env::test_over(77, image.clone());
    let operations = image.operations();
    let store = open(&world.env).unwrap();
    assert_eq!(
        image.operations(),
        operations + 1,
        "opening writes its edit alone"
    );
    let opened = store.current();
    let edit = barrier(told, opened.clock_micros);
    assert_eq!(*opened, told.apply(&edit).unwrap());
    let tended = block_on(store.tend());
    assert!(tended.refused.is_none(), "{tended:?}");
    let files = tended.damaged.iter().filter_map(Error::damaged_file);
    files.map(str::to_owned).collect()
}

/// What keeps a store from opening.
fn refused(image: &MemoryStore) -> Error {
    let error = look(image).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let operations = image.operations();
    let world = Env::test_over(77, image.clone());
    let writing = open(&world.env).unwrap_err();
    assert_eq!(writing.to_string(), error.to_string());
    assert_eq!(image.operations(), operations);
    error
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_flipped_bit_in_a_closed_store_is_named_and_made_good(seed: u64) {
        let mut draw = Draw(seed ^ 1);
        let (world, told) = closed(seed, 5 + draw.below(30) as usize);
        for name in names(&world.store) {
            let image = copy_of(&world.store);
            let bytes = block_on(image.len(&name)).unwrap();
            flip(&image, &name, draw.below(bytes * 8));
            prop_assert_eq!(opened_whole(&image, &told), [name.clone()]);
            // It is gone, and what is left tells all: now, and once it was closed.
            prop_assert!(!names(&image).contains(&name));
            for _ in 0..2 {
                let found = block_on(verify_files(&image, 0)).unwrap();
                prop_assert!(found.is_empty(), "{:?}", found);
                let store = open(&Env::test_over(78, image.clone()).env).unwrap();
                prop_assert!(block_on(store.tend()).damaged.is_empty());
                block_on(store.close()).unwrap();
            }
        }
    }

    #[test]
    fn a_file_that_goes_from_a_closed_store_is_not_missed(seed: u64) {
        let (world, told) = closed(seed, 25);
        for name in names(&world.store) {
            let image = copy_of(&world.store);
            delete(&image, &name);
            prop_assert_eq!(opened_whole(&image, &told), Vec::<String>::new());
        }
    }
}

/// A young database has nothing but its first edits when it is closed.
#[test]
fn a_database_that_was_closed_at_once_is_told_twice() {
    let (world, told) = closed(3, 0);
    assert_eq!(names(&world.store).len(), 3, "{:?}", names(&world.store));
    for name in names(&world.store) {
        let image = copy_of(&world.store);
        flip(&image, &name, 100);
        assert_eq!(opened_whole(&image, &told), [name]);
    }
}

#[test]
fn what_no_checkpoint_tells_is_missed() {
    let (world, told) = closed(9, 20);
    let store = open(&world.env).unwrap();
    block_on(store.commit(barrier(&store.current(), 0))).unwrap();
    drop(store);
    let [first, second] = [1, 2].map(|more| FileKind::Edit.file_name(told.number + more));
    for name in [&first, &second] {
        let image = copy_of(&world.store);
        flip(&image, name, 200);
        assert_eq!(refused(&image).damaged_file(), Some(name.as_str()));
    }
    delete(&world.store, &first);
    assert_eq!(refused(&world.store).damaged_file(), Some(first.as_str()));
}

#[test]
fn a_damaged_checkpoint_needs_every_edit_that_it_stands_for() {
    let (world, told) = closed(9, 5);
    let newest = FileKind::Checkpoint.file_name(told.number);
    let edit = FileKind::Edit.file_name(told.number);
    flip(&world.store, &newest, 300);
    let image = copy_of(&world.store);
    flip(&image, &edit, 200);
    assert_eq!(refused(&image).damaged_file(), Some(edit.as_str()));
    delete(&world.store, &edit);
    let error = refused(&world.store);
    assert_eq!(error.damaged_file(), Some(newest.as_str()));
    assert!(error.detail().unwrap().contains(&edit), "{error}");
}

/// Repair begins another history with a checkpoint that no edit leads to.
#[test]
fn older_files_never_stand_for_a_checkpoint_that_they_do_not_reach() {
    let (world, told) = closed(9, 20);
    let mut other = told;
    other.number += 3;
    other.database.history += 1;
    let name = FileKind::Checkpoint.file_name(other.number);
    let bytes = file::encode_checkpoint(5, &other).unwrap();
    block_on(world.store.put_if_absent(&name, bytes)).unwrap();
    assert_eq!(look(&world.store).unwrap(), other);
    flip(&world.store, &name, 300);
    assert_eq!(refused(&world.store).damaged_file(), Some(name.as_str()));
}

#[test]
fn a_full_disk_keeps_a_checkpoint_away_and_nothing_else() {
    let world = Env::test(3);
    let (env, faults) = faulty(&world);
    let store = open(&env).unwrap();
    block_on(store.commit(story_of(&store).seal_edit())).unwrap();
    faults.limit_space(10);
    let error = block_on(store.close()).unwrap_err();
    assert_eq!(error.sqlstate(), "53100", "{error}");
    assert!(block_on(store.checkpoint_error()).is_some());
    assert_eq!(*store.current(), look(&world.store).unwrap());
    faults.lift_space_limit();
    let before = names(&world.store).len();
    for _ in 0..2 {
        block_on(store.close()).unwrap();
        assert_eq!(names(&world.store).len(), before + 1);
    }
    assert!(block_on(store.checkpoint_error()).is_none());
    assert_eq!(*store.current(), look(&world.store).unwrap());
}

#[test]
fn damage_waits_for_room_to_be_made_good() {
    let (world, told) = closed(4, 12);
    let edit = FileKind::Edit.file_name(told.number);
    flip(&world.store, &edit, 200);
    let (env, faults) = faulty(&world);
    let store = open(&env).unwrap();
    faults.limit_space(10);
    for _ in 0..2 {
        let tended = block_on(store.tend());
        assert!(tended.refused.is_some());
        assert_eq!(tended.damaged[0].damaged_file(), Some(edit.as_str()));
    }
    faults.lift_space_limit();
    assert!(block_on(store.tend()).refused.is_none());
    assert!(!names(&world.store).contains(&edit));
    assert!(block_on(store.tend()).damaged.is_empty());
}

#[test]
fn an_opening_that_applied_many_edits_is_followed_by_a_checkpoint() {
    let world = Env::test(8);
    let store = open(&world.env).unwrap();
    for _ in 0..EDITS_PER_OPENING {
        block_on(store.commit(barrier(&store.current(), 0))).unwrap();
    }
    drop(store);
    // The next time there are few.
    for written in [1, 0] {
        let store = open(&world.env).unwrap();
        let operations = world.store.operations();
        for _ in 0..2 {
            let tended = block_on(store.tend());
            assert!(tended.damaged.is_empty() && tended.refused.is_none());
            assert_eq!(world.store.operations(), operations + written);
        }
        assert_eq!(*store.current(), look(&world.store).unwrap());
    }
}

#[test]
fn a_reader_of_damaged_files_writes_nothing() {
    let (world, told) = closed(5, 12);
    flip(
        &world.store,
        &FileKind::Checkpoint.file_name(told.number),
        300,
    );
    let operations = world.store.operations();
    let reader = block_on(ManifestStore::open_read_only(&world.env)).unwrap();
    assert_eq!(*reader.current(), told);
    assert!(block_on(reader.tend()).damaged.is_empty());
    block_on(reader.close()).unwrap();
    assert_eq!(world.store.operations(), operations);
}

/// The disk may read it when it is needed: a new checkpoint does not remove it for a damaged one.
#[test]
fn a_checkpoint_that_the_disk_refuses_to_read_stays() {
    let world = Env::test(8);
    let (env, faults) = faulty(&world);
    let store = open(&env).unwrap();
    block_on(store.close()).unwrap();
    let first = FileKind::Checkpoint.file_name(store.current().number);
    block_on(store.commit(story_of(&store).seal_edit())).unwrap();
    let unread = Fault::Refused { full: false };
    faults.add(Rule::every(Operation::Read, unread).named(&first));
    block_on(store.close()).unwrap();
    faults.clear();
    assert!(names(&world.store).contains(&first));
    let newest = FileKind::Checkpoint.file_name(store.current().number);
    flip(&world.store, &newest, 300);
    assert_eq!(opened_whole(&world.store, &store.current()), [newest]);
}
