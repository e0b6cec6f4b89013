//! Commits, openings, faults and power cuts over a store in memory.

use std::sync::Arc;

use futures::FutureExt;
use futures::executor::block_on;
use lazybase_model::ScuNumber;
use proptest::prelude::*;

use super::*;
use crate::env::Clock;
use crate::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use crate::env::manual::TestEnv;
use crate::env::memory::{MemoryStore, Unsynced};
use crate::manifest::testing::{Draw, Story};
use crate::manifest::verify_files;

mod golden;
mod twice;

fn open(env: &Env) -> Result<ManifestStore> {
    block_on(ManifestStore::open(env))
}

fn look(store: &MemoryStore) -> Result<Manifest> {
    let world = Env::test_over(1, store.clone());
    let opened = block_on(ManifestStore::open_read_only(&world.env))?;
    Ok((*opened.current()).clone())
}

fn faulty(world: &TestEnv) -> (Env, Faults) {
    let faults = Faults::none();
    let store = FaultyStore::over(Arc::new(world.store.clone()), faults.clone());
    let env = Env {
        store: Arc::new(store),
        ..world.env.clone()
    };
    (env, faults)
}

/// A story that goes on where a store stands.
fn story_of(store: &ManifestStore) -> Story {
    Story {
        manifest: (*store.current()).clone(),
        edits: Vec::new(),
        now_micros: store.current().clock_micros,
    }
}

#[test]
fn a_new_database_is_created_once_and_opens_again() {
    let world = Env::test(3);
    assert_eq!(look(&world.store).unwrap_err().kind(), ErrorKind::NotFound);
    let store = open(&world.env).unwrap();
    let first = store.current();
    assert_eq!((first.number, first.epoch), (2, 1));
    assert_eq!(first.clock_micros, world.clock.wall_micros());
    let mut story = story_of(&store);
    story.create_table("t");
    story.seal();
    for edit in &story.edits {
        block_on(store.commit(edit.clone())).unwrap();
    }
    drop(store);
    // A clock set back does not turn the database's clock back.
    world.clock.set_wall_micros(0);
    let again = open(&world.env).unwrap().current();
    assert_eq!(again.database, first.database);
    assert_eq!((again.number, again.epoch), (5, 2));
    assert_eq!(again.clock_micros, story.manifest.clock_micros);
    assert_eq!(again.tables, story.manifest.tables);
}

#[test]
fn data_without_a_manifest_is_not_taken_for_a_new_database() {
    let world = Env::test(3);
    let stray = world
        .env
        .store
        .put_if_absent("segments/ab.ext", Bytes::new());
    block_on(stray).unwrap();
    assert_eq!(open(&world.env).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn the_older_of_two_writers_is_fenced() {
    let world = Env::test(3);
    let old = open(&world.env).unwrap();
    let new = open(&world.env).unwrap();
    let mut story = story_of(&old);
    story.create_table("t");
    let edit = story.edits[0].clone();
    for _ in 0..2 {
        let error = block_on(old.commit(edit.clone())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("taken over"), "{error}");
    }
    assert!(block_on(old.stopped()).is_some());
    block_on(new.commit(edit)).unwrap();
    assert_eq!(look(&world.store).unwrap(), *new.current());
}

#[test]
fn a_reader_never_writes() {
    let world = Env::test(3);
    drop(open(&world.env).unwrap());
    let operations = world.store.operations();
    let reader = block_on(ManifestStore::open_read_only(&world.env)).unwrap();
    let edit = story_of(&reader).seal_edit();
    let error = block_on(reader.commit(edit)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(world.store.operations(), operations);
}

#[test]
fn an_edit_that_breaks_an_invariant_is_not_written() {
    let world = Env::test(3);
    let store = open(&world.env).unwrap();
    let operations = world.store.operations();
    let Edit::Seal {
        entry,
        mut time,
        producers,
    } = story_of(&store).seal_edit()
    else {
        unreachable!()
    };
    time.first_ack_micros = 1;
    let mut marks = producers.clone();
    block_on(store.commit(Edit::Seal {
        entry: entry.clone(),
        time,
        producers,
    }))
    .unwrap();
    let mut entry = entry;
    entry.scu = ScuNumber(2);
    marks.get_mut("loader").unwrap().number = 0;
    let falls = Edit::Seal {
        entry,
        time,
        producers: marks,
    };
    let error = block_on(store.commit(falls)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.message().contains("MAN-7"), "{error}");
    assert_eq!(world.store.operations(), operations + 1);
    assert_eq!(store.current().sealed_through, ScuNumber(1));
}

#[test]
fn refused_writes_change_nothing_and_service_goes_on() {
    let world = Env::test(3);
    let (env, faults) = faulty(&world);
    let store = open(&env).unwrap();
    let edit = story_of(&store).seal_edit();
    faults.limit_space(10);
    let error = block_on(store.commit(edit.clone())).unwrap_err();
    assert_eq!(
        (error.kind(), error.sqlstate()),
        (ErrorKind::Unavailable, "53100")
    );
    assert_eq!(*store.current(), look(&world.store).unwrap());
    faults.lift_space_limit();
    block_on(store.commit(edit)).unwrap();
    assert_eq!(*store.current(), look(&world.store).unwrap());
}

#[test]
fn a_write_whose_fate_is_unknown_is_settled() {
    for fault in [Fault::HappensAnyway, Fault::Lost] {
        let world = Env::test(3);
        let (env, faults) = faulty(&world);
        let store = open(&env).unwrap();
        faults.add(Rule::nth(Operation::Put, 1, fault));
        let edit = story_of(&store).seal_edit();
        block_on(store.commit(edit)).unwrap();
        assert_eq!(*store.current(), look(&world.store).unwrap());
        // While nobody can tell, the caller hears so; the next commit finds out first.
        faults.add(Rule::every(Operation::Put, fault));
        faults.add(Rule::every(Operation::Read, Fault::Refused { full: false }));
        let edit = story_of(&store).seal_edit();
        let error = block_on(store.commit(edit.clone())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MaybeHappened);
        assert_eq!(store.current().sealed_through, ScuNumber(1));
        faults.clear();
        let late = block_on(store.commit(edit)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
        assert_eq!(store.current().sealed_through, ScuNumber(2));
        block_on(store.commit(story_of(&store).seal_edit())).unwrap();
        assert_eq!(*store.current(), look(&world.store).unwrap());
    }
}

#[test]
fn a_commit_whose_caller_went_away_is_settled_by_the_next() {
    let world = Env::test(3);
    let store = open(&world.env).unwrap();
    let edit = story_of(&store).seal_edit();
    // The write was done, but nobody took note of it.
    let next = Arc::new(store.current().apply(&edit).unwrap());
    let bytes = file::encode_edit(next.number, 99, &edit).unwrap();
    let name = FileKind::Edit.file_name(next.number);
    block_on(world.env.store.put_if_absent(&name, bytes.clone())).unwrap();
    block_on(store.writer.lock()).pending = Some(Pending {
        next,
        nonce: 99,
        bytes,
        uncertain: true,
        then: None,
        twice: None,
    });
    block_on(store.commit_with(|manifest| {
        assert_eq!(manifest.sealed_through, ScuNumber(1));
        let story = Story {
            manifest: manifest.clone(),
            edits: vec![],
            now_micros: 0,
        };
        Ok(story.seal_edit())
    }))
    .unwrap();
    assert_eq!(*store.current(), look(&world.store).unwrap());
}

/// Commits `edits` random edits, with checkpoints between; returns every manifest by number.
fn run(store: &ManifestStore, draw: &mut Draw, edits: usize) -> Vec<Manifest> {
    let mut story = story_of(store);
    let mut all = vec![story.manifest.clone()];
    while all.len() <= edits {
        let Some(edit) = story.random_edit(draw) else {
            continue;
        };
        block_on(store.commit(edit.clone())).unwrap();
        story.apply(edit);
        all.push(story.manifest.clone());
        if draw.below(7) == 0 {
            block_on(store.checkpoint()).unwrap();
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn checkpoints_and_replay_give_what_the_edits_gave(seed: u64) {
        let world = Env::test(seed);
        let store = open(&world.env).unwrap();
        let all = run(&store, &mut Draw(seed), 60);
        prop_assert_eq!(&look(&world.store).unwrap(), all.last().unwrap());
        prop_assert_eq!(&*store.current(), all.last().unwrap());
        let found = block_on(verify_files(&*world.env.store, 0)).unwrap();
        prop_assert!(found.is_empty(), "{:?}", found);
        let files = world.env.store.list("manifest/").now_or_never().unwrap().unwrap();
        let checkpoints = files.iter().filter(|(name, _)| name.ends_with("checkpoint"));
        prop_assert!(checkpoints.count() <= 2);
    }

    #[test]
    fn a_power_cut_after_any_operation_leaves_the_old_or_the_new(seed: u64) {
        let world = Env::test(seed);
        let store = open(&world.env).unwrap();
        let (mut story, mut draw) = (story_of(&store), Draw(seed));
        let mut after = vec![(world.store.operations(), story.manifest.clone())];
        while after.len() < 25 {
            let Some(edit) = story.random_edit(&mut draw) else { continue };
            block_on(store.commit(edit.clone())).unwrap();
            story.apply(edit);
            after.push((world.store.operations(), story.manifest.clone()));
            if draw.below(4) == 0 {
                block_on(store.checkpoint()).unwrap();
            }
        }
        for operations in after[0].0..=world.store.operations() {
            let committed = after.iter().rev().find(|(at, _)| *at <= operations).unwrap();
            for unsynced in [Unsynced::Nothing, Unsynced::Everything, Unsynced::Scattered(seed)] {
                let image = world.store.crash_image(operations, unsynced);
                let found = look(&image).unwrap();
                prop_assert_eq!(&found, &committed.1);
                let world = Env::test_over(seed ^ 1, image);
                let opened = open(&world.env).unwrap().current();
                prop_assert_eq!(opened.number, found.number + 1);
                prop_assert_eq!(&opened.runs, &found.runs);
            }
        }
    }

    #[test]
    fn a_flipped_bit_in_any_file_is_named_or_healed(seed: u64) {
        let world = Env::test(seed);
        let store = open(&world.env).unwrap();
        let mut draw = Draw(seed);
        let all = run(&store, &mut draw, 40);
        drop(store);
        let (env, faults) = faulty(&world);
        for (name, bytes) in block_on(env.store.list("manifest/")).unwrap() {
            faults.flip_bit(&name, draw.below(bytes * 8));
            let found = block_on(verify_files(&*env.store, 0)).unwrap();
            prop_assert!(found.iter().any(|error| error.message().contains(&name)));
            match block_on(ManifestStore::open_read_only(&env)) {
                Ok(opened) => prop_assert_eq!(&*opened.current(), all.last().unwrap()),
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
                    prop_assert!(error.message().contains(&name));
                }
            }
            faults.clear();
        }
    }
}

#[test]
fn a_damaged_checkpoint_is_replaced_when_an_older_one_is_there() {
    let world = Env::test(8);
    let store = open(&world.env).unwrap();
    for _ in 0..3 {
        for _ in 0..4 {
            block_on(store.commit(story_of(&store).seal_edit())).unwrap();
        }
        block_on(store.checkpoint()).unwrap();
    }
    let expected = store.current();
    drop(store);
    let damaged = FileKind::Checkpoint.file_name(expected.number);
    let put = async {
        world.env.store.delete(&damaged).await.unwrap();
        let bytes = Bytes::from_static(b"not a checkpoint");
        world
            .env
            .store
            .put_if_absent(&damaged, bytes)
            .await
            .unwrap();
    };
    block_on(put);
    let store = open(&world.env).unwrap();
    let tended = block_on(store.tend());
    assert!(tended.damaged[0].message().contains(&damaged));
    assert!(tended.refused.is_none(), "{tended:?}");
    assert_eq!(store.current().scus, expected.scus);
    assert_eq!(
        block_on(verify_files(&*world.env.store, 0)).unwrap().len(),
        0
    );
    let again = open(&world.env).unwrap();
    assert!(block_on(again.tend()).damaged.is_empty());
}

#[test]
fn a_missing_edit_is_named() {
    let world = Env::test(8);
    let store = open(&world.env).unwrap();
    for _ in 0..4 {
        block_on(store.commit(story_of(&store).seal_edit())).unwrap();
    }
    let missing = FileKind::Edit.file_name(4);
    block_on(world.env.store.delete(&missing)).unwrap();
    let error = open(&world.env).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains(&missing), "{error}");
    let found = block_on(verify_files(&*world.env.store, 0)).unwrap();
    assert!(found[0].message().contains(&missing));
}

/// No file that is left tells of it: an open database does.
#[test]
fn the_newest_edit_is_missed_by_who_knows_of_it() {
    let world = Env::test(8);
    let store = open(&world.env).unwrap();
    block_on(store.commit(story_of(&store).seal_edit())).unwrap();
    let number = store.current().number;
    let newest = FileKind::Edit.file_name(number);
    block_on(world.env.store.delete(&newest)).unwrap();
    let verified = |known| block_on(verify_files(&*world.env.store, known)).unwrap();
    assert!(verified(0).is_empty());
    let found = verified(number);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].damaged_file(), Some(newest.as_str()));
    block_on(store.replace_files()).unwrap();
    assert!(verified(number).is_empty());
    assert_eq!(look(&world.store).unwrap(), *store.current());
}

#[test]
fn checkpoints_come_by_themselves_and_replace_old_files() {
    let world = Env::test(8);
    let store = open(&world.env).unwrap();
    for epoch in 2..900 {
        let edit = Edit::Barrier {
            epoch,
            clock_micros: 0,
        };
        block_on(store.commit(edit)).unwrap();
    }
    let files = block_on(world.env.store.list("manifest/")).unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let checkpoints: Vec<_> = names.iter().filter(|name| name.ends_with("t")).collect();
    assert!(
        checkpoints
            .iter()
            .any(|name| name.ends_with("00512.checkpoint")),
        "{checkpoints:?}"
    );
    assert!(
        checkpoints
            .iter()
            .any(|name| name.ends_with("00768.checkpoint")),
        "{checkpoints:?}"
    );
    assert_eq!(
        names.first().map(|name| &name[24..]),
        Some("00512.checkpoint"),
        "{names:?}"
    );
    assert_eq!(*store.current(), look(&world.store).unwrap());
}
