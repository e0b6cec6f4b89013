//! Commits, openings, faults and power cuts over a store in memory; the golden files.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::DataType;
use futures::FutureExt;
use futures::executor::block_on;
use lazybase_model::access::{
    AccessChange, Object, Privilege, Role, RoleAttribute, RoleId, Verifier,
};
use lazybase_model::partition::{
    BoundBytes, PartitionChange, Partitioning, RangeBound, RangeBounds, RangeRule,
};
use lazybase_model::{Column, NextIds, ScuNumber, Span, TableId};
use proptest::prelude::*;

use super::*;
use crate::env::Clock;
use crate::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use crate::env::manual::TestEnv;
use crate::env::memory::{MemoryStore, Unsynced};
use crate::manifest::history::TimesFile;
use crate::manifest::testing::{Draw, Story};
use crate::manifest::{Ddl, Run, RunId, RunKind, verify_files};
use crate::schema::{Alteration, encode_cell};

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
        let found = block_on(verify_files(&*world.env.store)).unwrap();
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
            let found = block_on(verify_files(&*env.store)).unwrap();
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
    assert!(store.healed()[0].message().contains(&damaged));
    assert!(block_on(store.checkpoint_error()).is_none());
    assert_eq!(store.current().scus, expected.scus);
    assert_eq!(block_on(verify_files(&*world.env.store)).unwrap().len(), 0);
    assert!(open(&world.env).unwrap().healed().is_empty());
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
    let found = block_on(verify_files(&*world.env.store)).unwrap();
    assert!(found[0].message().contains(&missing));
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

/// Every edit there is, once at least; the bytes of each version's files stay readable.
fn golden_story() -> Story {
    let mut story = Story::new();
    story.apply(Edit::Barrier {
        epoch: 1,
        clock_micros: 1,
    });
    let (first, second) = (story.create_table("first"), story.create_table("second"));
    story.apply(Edit::OpenProducer {
        name: "loader".to_owned(),
        epoch: 1,
    });
    for _ in 0..4 {
        story.seal();
    }
    story.sort(&[first, second], 1);
    story.sort(&[first], 2);
    story.sort(&[second], 1);
    let at = crate::manifest::testing::key(100);
    story.apply(Edit::SplitRange {
        view: first,
        low: None,
        at,
    });
    story.merge(first, 0, 0, 2);
    story.merge(first, 1, 1, 3);
    let healed = crate::manifest::testing::segment("healed", 0, 200, 1);
    story.apply(Edit::Heal {
        runs: vec![crate::manifest::HealedRun {
            run: crate::manifest::RunId(3),
            segments: vec![healed],
        }],
    });
    let retire = crate::manifest::collect::retirable(
        &story.manifest,
        story.now_micros,
        std::time::Duration::ZERO,
        crate::manifest::collect::Verified {
            sorted_through: ScuNumber(2),
            ..crate::manifest::collect::Verified::default()
        },
    );
    story.apply(retire.unwrap());
    story.sort(&[], 1);
    let second = story.manifest.table_of_view(second).unwrap().table.id;
    story.apply(Edit::TruncateTable {
        table: second,
        clock_micros: story.now_micros,
    });
    story.apply(Edit::DropTable { table: second });
    story.seal();
    story
}

/// The same, and what version 2 adds.
fn golden_story_2() -> Story {
    let mut story = golden_story();
    let id = story.manifest.next_table;
    let table = crate::manifest::testing::table;
    let create = |name: &str, id| Ddl::Create {
        table: table(name, id, id),
    };
    story.apply(Edit::Transaction {
        ddl: vec![create("third", id), create("fourth", id + 3)],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    story.sort(&[], 1);
    story.apply(Edit::Transaction {
        ddl: vec![
            Ddl::Drop {
                table: TableId(id + 3),
            },
            Ddl::Truncate { table: TableId(id) },
            create("fourth", id + 1),
        ],
        batch: Some(0xdd10_ba7c),
        own_scu: false,
        clock_micros: story.now_micros,
    });
    story.seal();
    story
}

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/manifest");

#[test]
fn files_of_earlier_versions_are_read() {
    let stories = [
        (1, golden_story()),
        (2, golden_story_2()),
        (3, golden_story_3()),
        (4, golden_story_4()),
    ];
    for (version, story) in stories {
        let world = Env::test(1);
        let folder = std::fs::read_dir(format!("{GOLDEN}/format-{version}")).unwrap();
        for file in folder.map(Result::unwrap) {
            let name = format!("manifest/{}", file.file_name().to_str().unwrap());
            let bytes = std::fs::read(file.path()).unwrap();
            block_on(world.env.store.put_if_absent(&name, bytes.into())).unwrap();
        }
        // The first two versions forgot times for good.
        let without = |manifest: Manifest| match version {
            1 | 2 => Manifest {
                history: Default::default(),
                ..manifest
            },
            _ => manifest,
        };
        let read = look(&world.store).unwrap();
        assert_eq!(without(read), without(story.manifest));
        assert_eq!(block_on(verify_files(&*world.env.store)).unwrap().len(), 0);
    }
}

/// What version 3 knows besides: definitions that follow each other, partitions, views, merge
/// operators and ID keys.
fn golden_story_3() -> Story {
    let mut story = golden_story_2();
    let table = |story: &Story| {
        let state = story.manifest.tables.values().next().unwrap();
        Arc::clone(&state.table)
    };
    let older = encode_cell(&(Arc::new(Int64Array::from(vec![7])) as ArrayRef)).unwrap();
    let added = Column {
        older,
        ..Column::new("added", DataType::Int64)
    };
    let changes = [
        Alteration::AddColumn(added),
        Alteration::Rename("altered".to_owned()),
    ];
    let edit = story.alter_edit(&table(&story), &changes);
    story.apply(edit);
    story.seal();
    let edit = story.alter_edit(
        &table(&story),
        &[Alteration::DropColumn("added".to_owned())],
    );
    story.apply(edit);
    golden_partitions(&mut story);
    golden_views(&mut story);
    golden_operators(&mut story);
    golden_times(&mut story);
    golden_ids(&mut story);
    story
}

/// And a transaction with an SCU of its own.
fn golden_story_4() -> Story {
    let mut story = golden_story_3();
    while story.manifest.sorted_through < story.manifest.sealed_through {
        story.sort(&[], 1);
    }
    let tables = story.manifest.tables.values();
    let ddl = tables.map(|state| Ddl::Truncate {
        table: state.table.id,
    });
    story.apply(Edit::Transaction {
        ddl: ddl.collect(),
        batch: None,
        own_scu: true,
        clock_micros: story.now_micros,
    });
    story
}

/// And who may do what.
fn golden_story_5() -> Story {
    let mut story = golden_story_4();
    let table = Arc::clone(&story.manifest.tables.values().next().unwrap().table);
    let (staff, anna) = (RoleId(1), RoleId(2));
    let member = Role {
        login: true,
        inherit: false,
        connection_limit: Some(3),
        valid_until_micros: Some(1_700_000_000_000_000),
        password: Some(Verifier::new(
            "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy",
        )),
        settings: [("lazybase.freshness".to_owned(), "best effort".to_owned())].into(),
        ..Role::new(anna, "anna")
    };
    let grant = |on, to, privileges: &[Privilege]| AccessChange::Grant {
        on,
        to,
        privileges: privileges.iter().copied().collect(),
    };
    let column = Object::Column(table.id, table.columns[0].id);
    let attributes = [
        RoleAttribute::Superuser(true),
        RoleAttribute::CreateRole(true),
        RoleAttribute::Name("operators".to_owned()),
    ];
    let alter = |attribute| AccessChange::AlterRole {
        role: staff,
        attribute,
    };
    let mut changes = vec![
        AccessChange::CreateRole {
            role: Role::new(staff, "staff"),
        },
        AccessChange::CreateRole { role: member },
        AccessChange::Join {
            member: anna,
            role: staff,
            admin: true,
        },
        grant(Object::Database, staff, &[Privilege::Create]),
        grant(
            Object::Table(table.id),
            RoleId::PUBLIC,
            &Privilege::OF_TABLES,
        ),
        grant(column, anna, &Privilege::OF_COLUMNS),
        AccessChange::Own {
            table: table.id,
            owner: Some(staff),
        },
        AccessChange::Revoke {
            on: column,
            from: anna,
            privileges: [Privilege::Insert].into(),
        },
        AccessChange::Setting {
            name: Some("lazybase.on_miss".to_owned()),
            value: Some("stale".to_owned()),
        },
    ];
    changes.extend(attributes.map(alter));
    let access = |change| Ddl::Access { change };
    story.apply(Edit::Transaction {
        ddl: changes.into_iter().map(access).collect(),
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    let left = [
        AccessChange::Leave {
            member: anna,
            role: staff,
            only_admin: false,
        },
        AccessChange::DropRole { role: anna },
    ];
    story.apply(Edit::Transaction {
        ddl: left.into_iter().map(access).collect(),
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    story
}

fn golden_times(story: &mut Story) {
    // Without tables no horizon asks for old times.
    let views = story.manifest.views.keys();
    let views = views.map(|view| Ddl::DropView { view: *view });
    let tables = story.manifest.tables.keys();
    let tables = tables.map(|table| Ddl::Drop { table: *table });
    let ddl = views.chain(tables).collect();
    story.apply(Edit::Transaction {
        ddl,
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    while story.manifest.sorted_through < story.manifest.sealed_through {
        story.sort(&[], 1);
    }
    story.apply(Edit::Retire {
        runs: Vec::new(),
        scus: Vec::new(),
        times_before: story.manifest.sorted_through,
    });
    let tail = story.manifest.history.tail.clone().unwrap();
    story.apply(Edit::ArchiveTimes {
        file: TimesFile {
            file: "segments/times.times".to_owned(),
            first: tail.first,
            last: tail.last,
            bytes: 50,
            crc32c: 7,
        },
        replaces: 0,
    });
}

fn golden_ids(story: &mut Story) {
    let map = story.create_owner();
    let through = story.seal_keys(map);
    let mut next = NextIds::first(16);
    next.give(7);
    let next_ids = BTreeMap::from([(through, BTreeMap::from([(map, next)]))]);
    story.apply(Edit::Remapped { through, next_ids });
}

fn golden_operators(story: &mut Story) {
    let (table, view) = (story.manifest.next_table, story.manifest.next_view);
    let mut counters = crate::manifest::testing::table("counters", table, view);
    let value = counters.columns.last_mut().unwrap();
    value.merge = Some(lazybase_model::MergeOperator::Sum);
    story.apply(Edit::Transaction {
        ddl: vec![Ddl::Create { table: counters }],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
}

/// And partitions.
fn golden_partitions(story: &mut Story) {
    let (table, view) = (story.manifest.next_table, story.manifest.next_view);
    let bound = |value: &[u8]| RangeBound {
        value: BoundBytes(value.to_vec()),
        after: false,
    };
    let low = RangeBounds {
        low: None,
        high: Some(bound(&[1, 128])),
    };
    let high = RangeBounds {
        low: Some(bound(&[1, 128])),
        high: None,
    };
    let mut partitioned = crate::manifest::testing::table("partitioned", table, view);
    let key = partitioned.primary.key.clone();
    partitioned.partitioning = Some(Partitioning {
        hash: Vec::new(),
        range: Some(RangeRule::new(key, vec![low.clone()]).unwrap()),
    });
    while story.manifest.sorted_through < story.manifest.sealed_through {
        story.sort(&[], 1);
    }
    let partition = |change| Ddl::Partition {
        table: TableId(table),
        change,
        versions: None,
    };
    story.apply(Edit::Transaction {
        ddl: vec![
            Ddl::Create { table: partitioned },
            partition(PartitionChange::Add(high)),
            partition(PartitionChange::Drop(low)),
        ],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
}

/// And secondary views.
fn golden_views(story: &mut Story) {
    let (id, view) = (story.manifest.next_table, story.manifest.next_view);
    let table = &story.manifest.tables.values().next().unwrap().table;
    let mut of = crate::manifest::testing::table("by_value", id, view);
    of.columns = table.columns.clone();
    of.primary.key = of.columns.iter().rev().map(|column| column.id).collect();
    of.view_of = Some(table.id);
    let transaction = |ddl, story: &Story| Edit::Transaction {
        ddl: vec![ddl],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    };
    let create = transaction(Ddl::CreateView { view: of.clone() }, story);
    story.apply(create);
    let view = of.primary.id;
    let (from, to) = (ScuNumber::ZERO, story.manifest.sorted_through);
    story.apply(Edit::Advanced {
        view,
        from,
        to,
        runs: vec![Run {
            id: RunId(story.manifest.next_run),
            view,
            kind: RunKind::Sorted,
            span: Span::new(from.next(), to),
            changes_through: to,
            segments: vec![crate::manifest::testing::segment("view", 0, 50, to.0)],
            part: 0,
        }],
        whole: true,
    });
    story.apply(Edit::ResetView { view });
    let drop = transaction(Ddl::DropView { view: of.id }, story);
    story.apply(drop);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the golden files are written when asked for"
)]
fn golden_files_read_and_are_written_the_same() {
    const CHECKPOINTS: [u64; 10] = [10, 24, 28, 31, 33, 34, 37, 40, 44, 45];
    let folder = format!("{GOLDEN}/format-{}", file::FORMAT);
    let story = golden_story_5();
    let mut files = Vec::new();
    let mut manifest = None;
    for (number, edit) in (1..).zip(&story.edits) {
        let bytes = file::encode_edit(number, number * 0x1111, edit).unwrap();
        files.push((FileKind::Edit.file_name(number), bytes));
        let next = match manifest {
            None => Manifest::first(edit),
            Some(before) => Manifest::into_next(before, edit),
        };
        let next = next.unwrap();
        if CHECKPOINTS.contains(&number) {
            let bytes = file::encode_checkpoint(0xc0ffee, &next).unwrap();
            files.push((FileKind::Checkpoint.file_name(number), bytes));
        }
        manifest = Some(next);
    }
    let path = |name: &str| format!("{folder}/{}", &name["manifest/".len()..]);
    if std::env::var_os("LAZYBASE_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        files
            .iter()
            .for_each(|(name, bytes)| std::fs::write(path(name), bytes).unwrap());
    }
    let kinds: std::collections::BTreeSet<_> = story.edits.iter().map(Edit::name).collect();
    assert_eq!(kinds.len(), 17, "{kinds:?}");
    let world = Env::test(1);
    for (name, expected) in &files {
        let golden = std::fs::read(path(name)).unwrap();
        assert!(
            golden == *expected,
            "{name} is written otherwise than in its golden file"
        );
        block_on(world.env.store.put_if_absent(name, golden.into())).unwrap();
    }
    assert_eq!(look(&world.store).unwrap(), story.manifest);
    assert_eq!(block_on(verify_files(&*world.env.store)).unwrap().len(), 0);
}
