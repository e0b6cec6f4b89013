//! What adding and dropping partitions makes of ranges and of the answers at each boundary.

use lazybase_model::partition::{BoundBytes, HashRule, Partitioning, RangeBound, RangeBounds};
use lazybase_model::{ColumnId, ViewId};

use super::*;
use crate::manifest::testing::{Story, segment, table};
use crate::manifest::{Ddl, Edit, RetiredRun, RunKind, SegmentMeta, VersionStep};
use crate::read::paths::ReadIndex;

const TABLE: TableId = TableId(1);
const VIEW: ViewId = ViewId(1);

fn bounds(low: u8, high: u8) -> RangeBounds {
    let bound = |value: u8| {
        Some(RangeBound {
            value: BoundBytes(vec![value]),
            after: false,
        })
    };
    RangeBounds {
        low: bound(low),
        high: bound(high),
    }
}

/// Two buckets, range partitions 10..20 and 20..30. (The rules' columns are not looked at here.)
fn story() -> Story {
    let mut story = Story::new();
    let mut table = table("t", TABLE.0, VIEW.0);
    table.columns[1].nullable = false;
    table.primary.key.push(ColumnId(2));
    table.partitioning = Some(Partitioning {
        hash: vec![HashRule {
            columns: vec![ColumnId(1)],
            buckets: 2,
        }],
        range: Some(
            RangeRule::new(vec![ColumnId(2)], vec![bounds(10, 20), bounds(20, 30)]).unwrap(),
        ),
    });
    story.apply(ddl(vec![Ddl::Create { table }], 0));
    story
}

fn ddl(ddl: Vec<Ddl>, clock_micros: i64) -> Edit {
    Edit::Transaction {
        ddl,
        batch: None,
        own_scu: false,
        clock_micros,
    }
}

fn change(story: &mut Story, change: PartitionChange) -> Result<()> {
    let edit = ddl(
        vec![Ddl::Partition {
            table: TABLE,
            change,
            versions: None,
        }],
        story.now_micros,
    );
    story.try_apply(edit).map(|_| ())
}

fn prefix(bucket: u16, number: u32) -> Vec<u8> {
    PartitionId {
        buckets: vec![bucket],
        range: Some(number),
    }
    .prefix()
}

/// A sorted SCU with rows in all of the key space.
fn sort(story: &mut Story) {
    story.seal();
    let mut edit = story.sort_edit(&[VIEW], 1);
    if let Edit::Sorted { runs, .. } = &mut edit {
        for run in runs {
            let all: SegmentMeta = SegmentMeta {
                min_key: Key::new(prefix(0, 1)),
                max_key: Key::new([prefix(1, 2), vec![9]].concat()),
                ..(*segment(&format!("{}", run.id), 0, 1, run.span.last.0)).clone()
            };
            run.segments = vec![Arc::new(all)];
        }
    }
    story.apply(edit);
}

fn lows(story: &Story) -> Vec<Option<Key>> {
    let ranges = &story.manifest.tables[&TABLE].ranges;
    ranges.iter().map(|state| state.range.low.clone()).collect()
}

/// The SCUs that an answer at a boundary reads in the range of a partition.
fn read_at(story: &Story, partition: (u16, u32), boundary: u64) -> Option<Vec<u64>> {
    let index = ReadIndex::new(&story.manifest);
    let state = &story.manifest.tables[&TABLE];
    let key = Key::new(prefix(partition.0, partition.1));
    let at = state
        .ranges
        .iter()
        .position(|of| of.range.contains(&key))
        .unwrap();
    let path = index.ranges(TABLE).unwrap()[at].cheapest(ScuNumber(boundary))?;
    let runs = path.iter().map(|id| story.manifest.run(*id));
    let with_data = runs.filter(|run| !run.segments.is_empty());
    Some(with_data.map(|run| run.span.first.0).collect())
}

#[test]
fn a_table_begins_with_a_range_for_each_partition() {
    let story = story();
    let expected = [
        None,
        Some(Key::new(prefix(0, 2))),
        Some(Key::new(prefix(1, 1))),
        Some(Key::new(prefix(1, 2))),
    ];
    assert_eq!(lows(&story), expected);
}

#[test]
fn a_dropped_partition_is_empty_from_its_boundary_on() {
    let mut story = story();
    for _ in 0..3 {
        sort(&mut story);
    }
    change(&mut story, PartitionChange::Drop(bounds(10, 20))).unwrap();
    sort(&mut story);
    for bucket in 0..2 {
        assert_eq!(read_at(&story, (bucket, 1), 2), Some(vec![1, 2]));
        assert_eq!(read_at(&story, (bucket, 1), 3), Some(vec![]));
        assert_eq!(read_at(&story, (bucket, 1), 4), Some(vec![4]));
        assert_eq!(read_at(&story, (bucket, 2), 3), Some(vec![1, 2, 3]));
        assert_eq!(read_at(&story, (bucket, 2), 4), Some(vec![1, 2, 3, 4]));
    }
    assert_eq!(story.manifest.tables[&TABLE].table.version.0, 1);
}

#[test]
fn dropping_waits_for_the_sorting_of_what_came_before() {
    let mut story = story();
    story.seal();
    let error = change(&mut story, PartitionChange::Drop(bounds(10, 20))).unwrap_err();
    assert!(error.to_string().contains("sorted only to"), "{error}");
    change(&mut story, PartitionChange::Add(bounds(30, 40))).unwrap();
    assert!(lows(&story).contains(&Some(Key::new(prefix(0, 3)))));
    assert!(lows(&story).contains(&Some(Key::new(prefix(1, 3)))));
}

#[test]
fn a_partition_is_remembered_while_runs_may_hold_its_rows_and_forgotten_then() {
    let mut story = story();
    sort(&mut story);
    sort(&mut story);
    change(&mut story, PartitionChange::Drop(bounds(10, 20))).unwrap();
    assert!(change(&mut story, PartitionChange::Add(bounds(10, 15))).is_err());
    // The other partitions' rows go to the authority, and what is superseded is retired.
    for bucket in 0..2 {
        merge_all(&mut story, bucket, 2);
    }
    retire_all(&mut story);
    change(&mut story, PartitionChange::Add(bounds(10, 15))).unwrap();
    let rule = story.manifest.tables[&TABLE].table.partitioning.clone();
    let numbers: Vec<u32> = rule
        .unwrap()
        .range
        .unwrap()
        .live()
        .map(|of| of.number)
        .collect();
    assert_eq!(numbers, [3, 2]);
    let expected = [
        None,
        Some(Key::new(prefix(0, 2))),
        Some(Key::new(prefix(0, 3))),
        Some(Key::new(prefix(1, 2))),
        Some(Key::new(prefix(1, 3))),
    ];
    assert_eq!(
        lows(&story),
        expected,
        "the ranges of the forgotten one are gone"
    );
}

#[test]
fn a_cut_has_the_ranges_of_partitions_that_were_forgotten_since() {
    let mut story = story();
    for _ in 0..2 {
        story.seal();
        story.sort(&[], 0);
    }
    // Nothing holds rows of it, so the other partition in its place makes it forgotten.
    change(&mut story, PartitionChange::Drop(bounds(20, 30))).unwrap();
    change(&mut story, PartitionChange::Add(bounds(20, 25))).unwrap();
    assert!(!lows(&story).contains(&Some(Key::new(prefix(0, 2)))));
    story.manifest = story.manifest.cut_at(ScuNumber(1)).unwrap();
    assert!(lows(&story).contains(&Some(Key::new(prefix(0, 2)))));
    assert!(lows(&story).contains(&Some(Key::new(prefix(1, 2)))));
}

/// Merges the current runs of a partition's range to a base.
fn merge_all(story: &mut Story, bucket: u16, number: u32) {
    let key = Key::new(prefix(bucket, number));
    let state = Arc::clone(&story.manifest.tables[&TABLE]);
    let range = state
        .ranges
        .iter()
        .find(|of| of.range.contains(&key))
        .unwrap();
    let current = range.runs.iter().filter(|entry| entry.is_current());
    let inputs: Vec<RunId> = current.map(|entry| entry.id).collect();
    let mut output = Run::clone(story.manifest.run(*inputs.last().unwrap()));
    output.id = RunId(story.manifest.next_run);
    output.kind = RunKind::Base;
    output.span = Span::base(story.manifest.sorted_through);
    let meta = SegmentMeta {
        min_key: key.clone(),
        max_key: Key::new([key.as_bytes(), &[7]].concat()),
        ..(*segment(&format!("base{}", output.id), 0, 1, 1)).clone()
    };
    output.segments = vec![Arc::new(meta)];
    story.apply(Edit::Merged {
        view: VIEW,
        low: range.range.low.clone(),
        inputs,
        output,
        clock_micros: story.now_micros,
    });
}

fn retire_all(story: &mut Story) {
    let ranges = story.manifest.tables[&TABLE].ranges.clone();
    let superseded = ranges.iter().flat_map(|of| {
        let entries = of.runs.iter().filter(|entry| !entry.is_current());
        entries.map(|entry| RetiredRun {
            view: VIEW,
            low: of.range.low.clone(),
            run: entry.id,
        })
    });
    story.apply(Edit::Retire {
        runs: superseded.collect(),
        scus: Vec::new(),
        times_before: ScuNumber(0),
    });
}

#[test]
fn a_change_of_partitions_gives_the_version_that_was_taken_for_it() {
    let mut story = story();
    let drop = |base, next| Ddl::Partition {
        table: TABLE,
        change: PartitionChange::Drop(bounds(10, 20)),
        versions: Some(VersionStep {
            base: SchemaVersion(base),
            next: SchemaVersion(next),
        }),
    };
    let now = story.now_micros;
    for (base, next) in [(1, 7), (0, 0)] {
        let error = story
            .try_apply(ddl(vec![drop(base, next)], now))
            .unwrap_err();
        assert_eq!(error.sqlstate(), "40001");
    }
    story.try_apply(ddl(vec![drop(0, 7)], now)).unwrap();
    assert_eq!(story.manifest.tables[&TABLE].table.version.0, 7);
}
