//! Each invariant broken once, and found by its name.

use std::collections::BTreeMap;

use lazybase_model::partition::{BoundBytes, RangeBound, RangeRule};
use lazybase_model::{
    NextIds, Partitioning, RangeBounds, ScuNumber, Table, TableId, UsedTable, ViewQuery,
};
use proptest::prelude::*;

use super::*;
use crate::manifest::state::{DdlBatch, RangeState, RunId};
use crate::manifest::testing::{Draw, Story, key, segment, table as table_of};
use crate::manifest::{Ddl, Edit, ProducerMark};

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

fn range(manifest: &mut Manifest, at: usize) -> &mut RangeState {
    Arc::make_mut(&mut table(manifest).ranges[at])
}

fn run(manifest: &mut Manifest, id: u64) -> &mut Run {
    Arc::make_mut(manifest.runs.get_mut(&RunId(id)).unwrap())
}

/// A plain view of number 2, which reads something.
fn read_by_plain_view(manifest: &mut Manifest, table: TableId) {
    let query = ViewQuery {
        text: "SELECT 1 FROM it".to_owned(),
        renamed: false,
        uses: vec![UsedTable {
            name: "it".to_owned(),
            table,
            columns: Vec::new(),
        }],
    };
    let view = Table::plain_view(TableId(2), "v", Vec::new(), query);
    manifest.plain_views.insert(view.id, Arc::new(view));
    manifest.next_table = 3;
}

fn batch(scu: u64, number: u64) -> Option<DdlBatch> {
    let scu = ScuNumber(scu);
    Some(DdlBatch { scu, number })
}

#[test]
fn each_invariant_is_found_by_its_name() {
    type Change = fn(&mut Manifest);
    let cases: [(&str, Change); 24] = [
        ("MAN-20", |m| read_by_plain_view(m, TableId(9))),
        ("MAN-20", |m| read_by_plain_view(m, TableId(2))),
        ("none", |m| read_by_plain_view(m, TableId(1))),
        ("MAN-1", |m| drop(table(m).ranges.remove(0))),
        ("MAN-1", |m| range(m, 0).range.high = Some(key(99))),
        ("MAN-1", |m| table(m).ranges.swap(0, 1)),
        ("MAN-2", |m| range(m, 1).runs.truncate(2)),
        ("MAN-2", |m| range(m, 1).runs[1].superseded_micros = Some(1)),
        ("MAN-2", |m| m.sorted_through = ScuNumber(3)),
        ("MAN-3", |m| run(m, 3).span.last = ScuNumber(3)),
        ("MAN-3", |m| run(m, 2).changes_through = ScuNumber(2)),
        ("MAN-4", |m| range(m, 1).runs[0].superseded_micros = Some(1)),
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
            range(m, 1).runs.push(RunRef::current(RunId(2)))
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

/// Tables, one that owns an ID key, one in partitions, a view; SCUs that mention keys.
fn story_of_all() -> Story {
    let mut story = Story::new();
    story.create_table("t");
    let map = story.create_owner();
    let (id, view) = (story.manifest.next_table, story.manifest.next_view);
    let mut by_value = table_of("by_value", id, view);
    by_value.primary.key = by_value.columns.iter().rev().map(|of| of.id).collect();
    by_value.view_of = Some(TableId(1));
    let mut partitioned = table_of("partitioned", id + 1, view + 1);
    let at = |value: &[u8]| RangeBound {
        value: BoundBytes(value.to_vec()),
        after: false,
    };
    let halves = vec![
        RangeBounds {
            low: None,
            high: Some(at(&[1, 128])),
        },
        RangeBounds {
            low: Some(at(&[1, 128])),
            high: None,
        },
    ];
    let by_range = partitioned.primary.key.clone();
    partitioned.partitioning = Some(Partitioning {
        hash: Vec::new(),
        range: Some(RangeRule::new(by_range, halves).unwrap()),
    });
    story.apply(Edit::Transaction {
        ddl: vec![
            Ddl::CreateView { view: by_value },
            Ddl::Create { table: partitioned },
        ],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    let mut next = NextIds::first(16);
    for _ in 0..2 {
        let scu = story.seal_keys(map);
        next.give(scu.0);
        story.apply(Edit::Remapped {
            through: scu,
            next_ids: [(scu, [(map, next.clone())].into())].into(),
        });
    }
    story
}

/// One of those that a map holds.
fn drawn<'m, K: Ord + Copy, V: Clone>(
    map: &'m mut BTreeMap<K, Arc<V>>,
    draw: &mut Draw,
) -> Option<&'m mut V> {
    let keys: Vec<K> = map.keys().copied().collect();
    let key = *draw.pick(&keys)?;
    map.get_mut(&key).map(Arc::make_mut)
}

/// Changes one thing of a manifest, as no edit or as a wrong one would.
fn harm(m: &mut Manifest, draw: &mut Draw) -> Option<()> {
    let states = match draw.below(4) {
        0 => &mut m.views,
        _ => &mut m.tables,
    };
    let other = |scu: ScuNumber, draw: &mut Draw| match draw.below(2) {
        0 => scu.next(),
        _ => scu.previous(),
    };
    match draw.below(27) {
        0 => drawn(&mut m.runs, draw)?.span.last = ScuNumber(draw.below(6)),
        1 => drawn(&mut m.runs, draw)?.span.first = ScuNumber(draw.below(4)),
        2 => drawn(&mut m.runs, draw)?.changes_through = ScuNumber(draw.below(6)),
        3 => {
            let kinds = [RunKind::Base, RunKind::Merged, RunKind::Sorted];
            drawn(&mut m.runs, draw)?.kind = *draw.pick(&kinds)?;
        }
        4 => drawn(&mut m.runs, draw)?.view.0 = draw.below(5) as u32,
        5 => drawn(&mut m.runs, draw)?.part = draw.below(3) as u32,
        6 => {
            let segments = &mut drawn(&mut m.runs, draw)?.segments;
            let segment = Arc::make_mut(segments.first_mut()?);
            match draw.below(3) {
                0 => segment.all_upserts = false,
                1 => segment.newest_scu = ScuNumber(9),
                _ => segment.rows = 0,
            }
        }
        7 => drawn(&mut m.runs, draw)?.segments.clear(),
        8 => {
            let ids: Vec<RunId> = m.runs.keys().copied().collect();
            drop(m.runs.remove(draw.pick(&ids)?));
        }
        9 => {
            let mut more = drawn(&mut m.runs, draw)?.clone();
            more.id = RunId(m.next_run);
            m.next_run += draw.below(2);
            m.runs.insert(more.id, Arc::new(more));
        }
        10 => {
            let ranges = &mut drawn(states, draw)?.ranges;
            let at = draw.below(ranges.len() as u64) as usize;
            drop(ranges.remove(at));
        }
        11 => {
            let ranges = &mut drawn(states, draw)?.ranges;
            let at = draw.below(ranges.len() as u64) as usize;
            let bound = Some(key(draw.below(200) as u8));
            match draw.below(2) {
                0 => Arc::make_mut(&mut ranges[at]).range.low = bound,
                _ => Arc::make_mut(&mut ranges[at]).range.high = bound,
            }
        }
        12..=15 => {
            let ranges = &mut drawn(states, draw)?.ranges;
            let at = draw.below(ranges.len() as u64) as usize;
            let runs = &mut Arc::make_mut(&mut ranges[at]).runs;
            let entry = draw.below(runs.len() as u64 + 1) as usize;
            match draw.below(4) {
                0 => runs.get_mut(entry)?.superseded_micros = None,
                1 => runs.get_mut(entry)?.superseded_micros = Some(1),
                2 if entry < runs.len() => drop(runs.remove(entry)),
                _ => runs.insert(entry, RunRef::current(RunId(draw.below(m.next_run)))),
            }
        }
        16 => m.sorted_through = other(m.sorted_through, draw),
        17 => m.sealed_through = other(m.sealed_through, draw),
        18 => {
            let at = ScuNumber(draw.below(6));
            drop(m.scus.remove(&at));
        }
        19 => {
            let at = ScuNumber(draw.below(6));
            m.times.remove(&at);
        }
        20 => m.next_run = m.next_run.saturating_sub(draw.below(2)),
        21 => match draw.below(2) {
            0 => m.next_table = m.next_table.saturating_sub(draw.below(2) as u32),
            _ => m.next_view = m.next_view.saturating_sub(draw.below(2) as u32),
        },
        22 => drop(m.tables.remove(&TableId(draw.below(6) as u32))),
        23 => {
            let state = drawn(states, draw)?;
            let table = Arc::make_mut(&mut state.table);
            match draw.below(4) {
                0 => table.name = "t".to_owned(),
                1 => table.primary.id.0 = draw.below(5) as u32,
                2 => table.view_of = [None, Some(TableId(1))][draw.below(2) as usize],
                _ => drop(table.columns.pop()),
            }
        }
        24 => {
            let (_, of_maps) = m.next_ids.iter_mut().next_back()?;
            let map = *of_maps.keys().next()?;
            of_maps.insert(map, NextIds::first(16));
        }
        25 => m.last_remapped = other(m.last_remapped, draw),
        _ => m.ddl_batch = batch(draw.below(6), draw.below(3)),
    }
    Some(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// What the check of a commit leaves out would not have been refused: edits as they are made,
    /// and manifests that no edit would make.
    #[test]
    fn the_check_of_a_commit_refuses_what_the_check_of_everything_does(seed: u64) {
        let (mut story, mut draw) = (story_of_all(), Draw(seed));
        for _ in 0..80 {
            let edit = story.random_edit(&mut draw);
            let Some(next) = edit.as_ref().and_then(|edit| story.manifest.apply(edit).ok()) else {
                continue;
            };
            for _ in 0..8 {
                let mut harmed = next.clone();
                let harms = 1 + draw.below(2);
                if (0..harms).all(|_| harm(&mut harmed, &mut draw).is_none()) {
                    continue;
                }
                let found = violation_of_commit(&story.manifest, &harmed);
                let grows = check_growth(&story.manifest, &harmed).err();
                let all = grows.or_else(|| violation(&harmed));
                prop_assert_eq!(found.is_some(), all.is_some(), "{:?}, {:?}", found, all);
            }
            if let Some(edit) = edit {
                story.apply(edit);
            }
        }
    }
}

/// The property above is about refusals of all kinds, and about harmless changes too.
#[test]
fn harms_break_most_invariants_and_some_break_none() {
    let (mut story, mut draw) = (story_of_all(), Draw(7));
    let mut met = BTreeMap::new();
    for _ in 0..150 {
        let Some(edit) = story.random_edit(&mut draw) else {
            continue;
        };
        if story.try_apply(edit).is_err() {
            continue;
        }
        for _ in 0..20 {
            let mut harmed = story.manifest.clone();
            harmed.number += 1;
            if harm(&mut harmed, &mut draw).is_some() {
                let found = violation_of_commit(&story.manifest, &harmed);
                *met.entry(found.map_or("none", |found| found.invariant))
                    .or_insert(0) += 1;
            }
        }
    }
    for name in [
        "none", "MAN-1", "MAN-2", "MAN-3", "MAN-4", "MAN-5", "MAN-6", "MAN-8", "MAN-9", "MAN-10",
        "MAN-11", "MAN-12", "MAN-13", "MAN-14", "MAN-15", "MAN-16",
    ] {
        assert!(met.contains_key(name), "{name} was not met: {met:?}");
    }
}
