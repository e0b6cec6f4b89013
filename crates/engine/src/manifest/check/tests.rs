//! Each invariant broken once, and found by its name.

use lazybase_model::{ScuNumber, TableId};

use super::*;
use crate::manifest::state::{DdlBatch, RunId, RunRef};
use crate::manifest::testing::{Story, key, segment};
use crate::manifest::{Edit, ProducerMark};

/// Two ranges; the left one with a base over 1..=2, the right one with three sorted runs.
fn sample() -> Manifest {
    let mut story = Story::new();
    let view = story.create_table("t");
    for _ in 0..3 {
        story.seal();
    }
    for _ in 0..2 {
        story.sort(&[view], 1);
    }
    story.apply(Edit::SplitRange {
        view,
        low: None,
        at: key(100),
    });
    story.merge(view, 0, 0, 3);
    story.manifest
}

fn broken(change: impl FnOnce(&mut Manifest)) -> &'static str {
    let mut manifest = sample();
    assert_eq!(violation(&manifest), None);
    change(&mut manifest);
    violation(&manifest).map_or("none", |violation| violation.invariant)
}

fn table(manifest: &mut Manifest) -> &mut TableState {
    Arc::make_mut(manifest.tables.get_mut(&TableId(1)).unwrap())
}

fn run(manifest: &mut Manifest, id: u64) -> &mut Run {
    Arc::make_mut(manifest.runs.get_mut(&RunId(id)).unwrap())
}

fn batch(scu: u64, number: u64) -> Option<DdlBatch> {
    let scu = ScuNumber(scu);
    Some(DdlBatch { scu, number })
}

#[test]
fn each_invariant_is_found_by_its_name() {
    type Change = fn(&mut Manifest);
    let cases: [(&str, Change); 21] = [
        ("MAN-1", |m| drop(table(m).ranges.remove(0))),
        ("MAN-1", |m| table(m).ranges[0].range.high = Some(key(99))),
        ("MAN-1", |m| table(m).ranges.swap(0, 1)),
        ("MAN-2", |m| table(m).ranges[1].runs.truncate(2)),
        ("MAN-2", |m| {
            table(m).ranges[1].runs[1].superseded_micros = Some(1)
        }),
        ("MAN-2", |m| m.sorted_through = ScuNumber(3)),
        ("MAN-3", |m| run(m, 3).span.last = ScuNumber(3)),
        ("MAN-3", |m| run(m, 2).changes_through = ScuNumber(2)),
        ("MAN-4", |m| {
            table(m).ranges[1].runs[0].superseded_micros = Some(1)
        }),
        ("MAN-4", |m| {
            Arc::make_mut(&mut run(m, 4).segments[0]).all_upserts = false;
        }),
        ("MAN-5", |m| {
            run(m, 4).segments.push(segment("more", 200, 201, 1))
        }),
        ("MAN-5", |m| {
            run(m, 4).segments = vec![segment("turned", 2, 1, 1)]
        }),
        ("MAN-8", |m| drop(m.scus.remove(&ScuNumber(3)))),
        ("MAN-9", |m| drop(m.runs.remove(&RunId(2)))),
        ("MAN-9", |m| {
            table(m).ranges[1].runs.push(RunRef::current(RunId(2)))
        }),
        ("MAN-10", |m| m.times.retain(|scu, _| scu.0 != 2)),
        ("MAN-10", |m| m.times = m.times.split_off(&ScuNumber(3))),
        ("MAN-11", |m| m.next_run = 4),
        ("MAN-12", |m| m.ddl_batch = batch(5, 7)),
        ("MAN-12", |m| m.ddl_batch = batch(4, 0)),
        ("MAN-12", |m| m.ddl_batch = batch(3, 7)),
    ];
    for (at, (name, change)) in cases.into_iter().enumerate() {
        let found = broken(change);
        assert_eq!(found, name, "case {at}");
    }
}

#[test]
fn a_run_that_no_range_names_is_found() {
    let found = broken(|manifest| {
        let mut orphan = Run::clone(&manifest.runs[&RunId(2)]);
        orphan.id = RunId(5);
        manifest.next_run = 6;
        manifest.runs.insert(orphan.id, Arc::new(orphan));
    });
    assert_eq!(found, "MAN-9");
}

#[test]
fn numbers_and_marks_only_grow() {
    let old = sample();
    let mut story_next = old
        .apply(&Edit::Barrier {
            epoch: 1,
            clock_micros: 0,
        })
        .unwrap();
    check_commit(&old, &story_next).unwrap();
    story_next.number += 1;
    let error = check_commit(&old, &story_next).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.message().contains("MAN-6"), "{error}");
    let mut forgets = old.clone();
    forgets.number += 1;
    forgets.producers.clear();
    assert!(
        check_commit(&old, &forgets)
            .unwrap_err()
            .message()
            .contains("MAN-7")
    );
    let mut falls = old.clone();
    falls.number += 1;
    let mark: &mut ProducerMark = falls.producers.get_mut("loader").unwrap();
    mark.number -= 1;
    assert!(
        check_commit(&old, &falls)
            .unwrap_err()
            .message()
            .contains("MAN-7")
    );
}

#[test]
fn a_loaded_manifest_that_breaks_an_invariant_is_corrupt() {
    let mut manifest = sample();
    manifest.next_view = 1;
    let error = check_loaded(&manifest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("MAN-11"), "{error}");
}
