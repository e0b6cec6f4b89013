//! Edits of the manifest that can't be read are set aside, with all that came after them: what goes
//! with them is named by table and SCU, and nobody gets rows of another table or definition.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use lazybase_cluster::{Damage, Instance, SetAside, SettleTo, SnapshotRequest, set_aside};
use lazybase_engine::env::Store;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::manifest::Ddl;
use lazybase_engine::schema::Alteration;
use lazybase_model::{Freshness, ScuNumber, Table};

use super::{env, killed, looked_at, write_story};
use crate::damage::files;
use crate::harness::{Change, Row, commit, commit_with, create, fresh, keeping, open, scan, spec};
use crate::heal::batch;
use crate::model::Model;

/// A bit of a file of the manifest flips.
fn flip_edit(store: &MemoryStore, file: &str) {
    block_on(async {
        let length = store.len(file).await.unwrap();
        let mut bytes = store.read(file, 0..length).await.unwrap().to_vec();
        bytes[length as usize / 2] ^= 1;
        store.delete(file).await.unwrap();
        store.put_if_absent(file, bytes.into()).await.unwrap();
    });
}

/// What is left when the process dies now and that edit is damaged: it is set aside.
fn killed_and_set_aside(
    instance: &Instance,
    store: &MemoryStore,
    edit: &str,
) -> (MemoryStore, SetAside) {
    let image = killed(store);
    block_on(instance.close()).unwrap();
    flip_edit(&image, edit);
    let aside = block_on(set_aside(&env(&image))).unwrap();
    (image, aside)
}

/// The SCUs of a table that are said to be lost.
fn lost_scus(lost: &[Damage], names: &[&str]) -> BTreeSet<ScuNumber> {
    let of_table = lost.iter().filter(|damage| {
        let table = damage.table.as_deref();
        table.is_some_and(|table| names.contains(&table))
    });
    let spans = of_table.filter_map(|damage| damage.scus);
    let numbers = spans.flat_map(|span| span.first.0..=span.last.0);
    numbers.map(ScuNumber).collect()
}

/// The edit that says this.
fn edit_with(store: &MemoryStore, text: &str) -> String {
    let mut edits = files(store, "manifest/").into_iter();
    let says = |edit: &String| {
        let length = block_on(store.len(edit)).unwrap();
        let bytes = block_on(store.read(edit, 0..length)).unwrap();
        String::from_utf8_lossy(&bytes).contains(text)
    };
    edits.find(says).unwrap()
}

/// The newest rows that are there of a table, none where it is gone, and the SCU that they end at.
/// `None` where they can't be read.
fn newest(opened: &Instance, name: &str) -> Option<(Vec<Row>, ScuNumber)> {
    let Ok(table) = opened.table(name) else {
        return Some((Vec::new(), ScuNumber::ZERO));
    };
    let request = SnapshotRequest {
        freshness: Freshness::ZERO,
        tables: Some(vec![table.id]),
        ..SnapshotRequest::default()
    };
    let snapshot = block_on(opened.snapshot(request)).ok()?;
    let rows = scan(&snapshot, &table).ok()?;
    Some((rows, snapshot.horizon().scu))
}

#[test]
fn what_goes_with_an_edit_is_named_by_table_and_scu() {
    let step = match std::env::var("LAZYBASE_EVERY_CASE").is_ok() {
        true => 1,
        false => 3,
    };
    let (mut named, mut unread) = (0, 0);
    for retention in [3600, 0] {
        let story = write_story(Duration::from_secs(retention)).killed();
        let edits = files(&story.store, "manifest/");
        // The first one has nothing before it.
        for edit in edits.iter().skip(1).step_by(step) {
            let store = killed(&story.store);
            flip_edit(&store, edit);
            let aside = block_on(set_aside(&env(&store))).unwrap();
            let found = looked_at(&store);
            let context = format!("{retention} s, {edit}: {:?} {:?}", aside.lost, found.lost);
            let opened = open(Arc::new(store.clone()), story.settings.clone()).unwrap();
            for (name, id) in [("t", "t1"), ("u", "t2")] {
                let nameless = format!("{id}, whose name is lost");
                let told = lost_scus(&aside.lost, &[name, &nameless]);
                let Some((rows, there)) = newest(&opened, name) else {
                    unread += 1;
                    assert!(!lost_scus(&found.lost, &[name]).is_empty(), "{context}");
                    continue;
                };
                let known = story.models.get(&there);
                let known = known.map(Model::rows).unwrap_or_default();
                assert_eq!(rows, known, "{context}: {name}");
                let after = story.models.keys().filter(|scu| **scu > there);
                let after: BTreeSet<ScuNumber> = after.copied().collect();
                named += after.len();
                assert_eq!(told, after, "{context}: {name}");
            }
            match found.lost.is_empty() {
                true => crate::harness::close_whole(&opened),
                false => block_on(opened.close()).unwrap(),
            }
        }
    }
    assert!(named > 10, "{named} {unread}");
}

/// The log holds rows of a table whose edit is gone: they are those of no other table.
#[test]
fn a_table_gets_no_rows_of_one_whose_edit_was_set_aside() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    let t = create(&instance, "t");
    let u = create(&instance, "u");
    let edit = edit_with(&store, "\"name\":\"u\"");
    let mut model = Model::default();
    let horizon = commit(&instance, &[(&t, &batch(0)), (&u, &batch(1))]).unwrap();
    model.apply(&batch(0));
    let whole = killed(&store);
    block_on(instance.close()).unwrap();
    for is_there in [true, false] {
        let image = killed(&whole);
        match is_there {
            true => flip_edit(&image, &edit),
            false => block_on(image.delete(&edit)).unwrap(),
        }
        let aside = block_on(set_aside(&env(&image))).unwrap();
        let nameless = format!("{}, whose name is lost", u.id);
        let lost = lost_scus(&aside.lost, &[&nameless]);
        assert_eq!(lost, BTreeSet::from([horizon.scu]), "{aside:?}");
        let opened = open(Arc::new(image.clone()), keeping()).unwrap();
        let other = create(&opened, "u");
        for _ in 0..2 {
            let snapshot = fresh(&opened, Freshness::ZERO);
            assert_eq!(scan(&snapshot, &other).unwrap(), Vec::new());
            assert_eq!(scan(&snapshot, &t).unwrap(), model.rows());
            block_on(opened.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        }
        crate::harness::close_whole(&opened);
    }
}

/// Batches under a definition whose edit is gone are given up: the next definition has its version.
#[test]
fn a_batch_under_a_definition_that_was_set_aside_is_given_up() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    let t = create(&instance, "t");
    let mut model = Model::default();
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    model.apply(&batch(0));
    let alter = |instance: &Instance, table: &Arc<Table>, from: &str, to: &str| {
        let rename = Alteration::RenameColumn {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let next = instance.define_alteration(table, &[rename]).unwrap();
        let ddl = Ddl::Alter {
            base: table.version,
            table: next.as_ref().clone(),
        };
        block_on(instance.commit(vec![ddl], None)).unwrap();
        next
    };
    let altered = alter(&instance, &t, "count", "counted");
    let edit = edit_with(&store, "\"alter\"");
    let horizon = commit(&instance, &[(&altered, &batch(1))]).unwrap();
    let (image, aside) = killed_and_set_aside(&instance, &store, &edit);
    let lost = lost_scus(&aside.lost, &["t"]);
    assert_eq!(lost, BTreeSet::from([horizon.scu]), "{aside:?}");
    let opened = open(Arc::new(image.clone()), keeping()).unwrap();
    let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    let other = alter(&opened, &t, "note", "noted");
    assert_eq!(other.version, altered.version);
    let rows = scan(&fresh(&opened, Freshness::ZERO), &other).unwrap();
    assert_eq!(rows, model.rows());
    block_on(opened.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    crate::harness::close_whole(&opened);
}

/// Tables are there again with the rows that they had been rid of: which these are is said.
#[test]
fn a_drop_and_an_emptying_are_named_with_the_scus_whose_rows_they_ended() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    let (t, u) = (create(&instance, "t"), create(&instance, "u"));
    let mut model = Model::default();
    let mut ended = BTreeSet::new();
    for round in 0..2 {
        commit(&instance, &[(&t, &batch(round)), (&u, &batch(round))]).unwrap();
        model.apply(&batch(round));
        ended.insert(block_on(instance.seal()).unwrap());
    }
    create(&instance, "w");
    let edit = edit_with(&store, "\"name\":\"w\"");
    block_on(instance.truncate_table("t")).unwrap();
    block_on(instance.drop_table("u", false)).unwrap();
    let (image, aside) = killed_and_set_aside(&instance, &store, &edit);
    let opened = open(Arc::new(image), keeping()).unwrap();
    for (name, done) in [("t", "emptied the table"), ("u", "dropped the table")] {
        assert_eq!(lost_scus(&aside.lost, &[name]), ended, "{aside:?}");
        let told =
            |damage: &Damage| damage.table.as_deref() == Some(name) && damage.what.contains(done);
        assert!(aside.lost.iter().any(told), "{aside:?}");
        let table = opened.table(name).unwrap();
        let rows = scan(&fresh(&opened, Freshness::ZERO), &table).unwrap();
        assert_eq!(rows, model.rows(), "{name}");
    }
    crate::harness::close_whole(&opened);
}

/// Rows that came with DDL stand in the log alone until they are sealed, and count for nothing
/// without it.
#[test]
fn rows_that_came_with_ddl_are_named_where_it_is_set_aside() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    let t = create(&instance, "t");
    let mut model = Model::default();
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    model.apply(&batch(0));
    create(&instance, "w");
    let edit = edit_with(&store, "\"name\":\"w\"");
    let made = instance.define_table(&spec("made", &["id"])).unwrap();
    let ddl = Ddl::Create {
        table: made.as_ref().clone(),
    };
    let parts: [(&Arc<Table>, &[Change]); 2] = [(&made, &batch(1)), (&t, &batch(2))];
    let done = commit_with(&instance, vec![ddl], &parts).unwrap().unwrap();
    let (image, aside) = killed_and_set_aside(&instance, &store, &edit);
    for name in ["made", "t"] {
        let lost = lost_scus(&aside.lost, &[name]);
        assert_eq!(lost, BTreeSet::from([done.token.horizon.scu]), "{aside:?}");
    }
    let rows = |damage: &Damage| damage.what.ends_with(": 40");
    assert_eq!(aside.lost.iter().filter(|lost| rows(lost)).count(), 2);
    let opened = open(Arc::new(image), keeping()).unwrap();
    assert!(opened.table("made").is_err());
    let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    crate::harness::close_whole(&opened);
}
