//! Carrying out a plan on lists in memory gives what merging everything gives.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A row: its key, and whether it is an upsert (or else a delete).
type Entry = (u8, bool);

/// A run: segments of extents of rows.
#[derive(Debug, Clone)]
struct Run {
    segments: Vec<Vec<Vec<Entry>>>,
    format: SegmentFormat,
    indexed: bool,
    /// Extents with fewer rows are small.
    small_below: usize,
}

fn key(number: u8) -> Key {
    Key::new([number])
}

fn any_run() -> impl Strategy<Value = Run> {
    let entries = prop::collection::btree_map(0u8..60, prop::bool::weighted(0.8), 0..40);
    let cuts = prop::collection::vec(1usize..6, 1..4);
    let format = prop::sample::select(vec![SegmentFormat::Extent, SegmentFormat::Parquet]);
    let small_below = 0usize..5;
    let run = (
        entries,
        cuts.clone(),
        cuts,
        format,
        any::<bool>(),
        small_below,
    );
    run.prop_map(
        |(entries, extents, segments, format, indexed, small_below)| {
            let entries: Vec<Entry> = entries.into_iter().collect();
            Run {
                segments: cut(&cut(&entries, &extents), &segments),
                format,
                indexed,
                small_below,
            }
        },
    )
}

fn cut<T: Clone>(items: &[T], lengths: &[usize]) -> Vec<Vec<T>> {
    let (mut rest, mut lengths, mut pieces) = (items, lengths.iter().cycle(), Vec::new());
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(*lengths.next().unwrap()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces
}

fn extent(entries: &[Entry]) -> ExtentSummary {
    ExtentSummary {
        min: key(entries[0].0),
        max: key(entries[entries.len() - 1].0),
        all_upserts: entries.iter().all(|entry| entry.1),
        bytes: entries.len() as u64,
        rows: entries.len() as u64,
        is_small: false,
    }
}

fn summary(run: &Run) -> InputRun {
    let of_extent = |entries: &Vec<Entry>| ExtentSummary {
        is_small: entries.len() < run.small_below,
        ..extent(entries)
    };
    let segments = run.segments.iter().map(|segment| {
        let all = extent(&segment.concat());
        SegmentSummary {
            same_columns: true,
            min: all.min,
            max: all.max,
            all_upserts: all.all_upserts,
            format: run.format,
            bytes: all.bytes,
            extents: run.indexed.then(|| segment.iter().map(of_extent).collect()),
        }
    });
    InputRun {
        segments: segments.collect(),
    }
}

fn inside(range: &KeyRange, entry: &Entry) -> bool {
    let key = key(entry.0);
    range.low.as_ref().is_none_or(|low| key >= *low)
        && range.high.as_ref().is_none_or(|high| key < *high)
}

/// The result's rows: all that was composed into each, in order.
type Composed = Vec<(u8, Vec<(usize, bool)>)>;

fn merged(
    parts: impl IntoIterator<Item = (usize, Vec<Entry>)>,
    mode: MergeMode,
    range: &KeyRange,
) -> Composed {
    let mut rows: BTreeMap<u8, Vec<(usize, bool)>> = BTreeMap::new();
    for (input, entries) in parts {
        for entry in entries.iter().filter(|entry| inside(range, entry)) {
            rows.entry(entry.0).or_default().push((input, entry.1));
        }
    }
    let newest = |changes: &[(usize, bool)]| changes[changes.len() - 1];
    let rows = rows
        .into_iter()
        .map(|(key, changes)| match mode.makes_rows() {
            false => (key, changes),
            true => (key, vec![newest(&changes)]),
        });
    let stays = |row: &(u8, Vec<(usize, bool)>)| mode == MergeMode::Changes || newest(&row.1).1;
    rows.filter(stays).collect()
}

fn carried_out(runs: &[Run], step: &PlanStep, target: &PlanTarget, range: &KeyRange) -> Composed {
    let copied = |input: usize, entries: Vec<Entry>| -> Composed {
        assert!(runs[input].format == target.format);
        assert!(entries.iter().all(|entry| inside(range, entry)));
        let upserts = entries.iter().all(|entry| entry.1);
        assert!(target.mode == MergeMode::Changes || upserts);
        let rows = entries.into_iter();
        rows.map(|(key, upsert)| (key, vec![(input, upsert)]))
            .collect()
    };
    match step.clone() {
        PlanStep::MoveSegment { input, segment } => {
            let entries = runs[input].segments[segment].concat();
            assert!(entries.len() as u64 >= target.move_bytes_min);
            copied(input, entries)
        }
        PlanStep::CopyExtents {
            input,
            segment,
            extents,
        } => {
            assert!(target.copies_extents && runs[input].indexed);
            copied(input, runs[input].segments[segment][extents].concat())
        }
        PlanStep::Merge {
            parts,
            range,
            sparse,
        } => {
            for part in parts.iter().filter(|part| sparse && part.input == 0) {
                let run = &runs[0];
                let segment = run.segments[part.segment].concat();
                assert!(run.format == target.format && segment.iter().all(|entry| entry.1));
                assert!(part.extents.is_some());
            }
            let read = parts.into_iter().map(|part| {
                let segment = &runs[part.input].segments[part.segment];
                let extents = part.extents.unwrap_or(0..segment.len());
                (part.input, segment[extents].concat())
            });
            merged(read, target.mode, &range)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_plan_gives_what_merging_everything_gives(
        runs in prop::collection::vec(any_run(), 0..4),
        rows in any::<bool>(),
        copies_extents in any::<bool>(),
        move_bytes_min in 0u64..9,
        low in prop::option::of(0u8..40),
        high in prop::option::of(20u8..60),
    ) {
        let target = PlanTarget {
            mode: if rows { MergeMode::Rows } else { MergeMode::Changes },
            format: SegmentFormat::Extent,
            copies_extents,
            move_bytes_min,
            sparse_part: rows.then_some(SPARSE_PART),
        };
        let range = KeyRange { low: low.map(key), high: high.map(key) };
        let inputs: Vec<InputRun> = runs.iter().map(summary).collect();
        let steps = plan_merge(&inputs, &target, &range);
        let steps = steps.iter().map(|step| carried_out(&runs, step, &target, &range));
        let got: Composed = steps.flatten().collect();
        let all = runs.iter().map(|run| run.segments.concat().concat());
        prop_assert_eq!(got, merged(all.enumerate(), target.mode, &range));
    }
}

fn run(extents: &[&[u8]]) -> Run {
    let upserts = |keys: &&[u8]| keys.iter().map(|key| (*key, true)).collect();
    Run {
        segments: vec![extents.iter().map(upserts).collect()],
        format: SegmentFormat::Extent,
        indexed: true,
        small_below: 0,
    }
}

fn steps(runs: &[Run]) -> Vec<PlanStep> {
    let target = PlanTarget {
        mode: MergeMode::Changes,
        format: SegmentFormat::Extent,
        copies_extents: true,
        move_bytes_min: 0,
        sparse_part: None,
    };
    let inputs: Vec<InputRun> = runs.iter().map(summary).collect();
    plan_merge(&inputs, &target, &KeyRange::default())
}

#[test]
fn what_touches_nothing_moves() {
    let move_of = |input| PlanStep::MoveSegment { input, segment: 0 };
    let runs = [run(&[&[40, 50], &[55]]), run(&[&[1, 9], &[20, 30]])];
    assert_eq!(steps(&runs), [move_of(1), move_of(0)]);
}

#[test]
fn an_extent_in_a_gap_keeps_a_segment_from_moving() {
    let copy = |input, extents| PlanStep::CopyExtents {
        input,
        segment: 0,
        extents,
    };
    let runs = [run(&[&[1, 9], &[20, 30], &[35]]), run(&[&[10, 11]])];
    let moved = PlanStep::MoveSegment {
        input: 1,
        segment: 0,
    };
    assert_eq!(steps(&runs), [copy(0, 0..1), moved, copy(0, 1..3)]);
}

#[test]
fn only_extents_that_touch_are_merged() {
    let runs = [run(&[&[1, 9], &[20, 30], &[35]]), run(&[&[30, 31], &[50]])];
    let part = |input, extents| MergePart {
        input,
        segment: 0,
        extents: Some(extents),
    };
    let steps = steps(&runs);
    let merge = PlanStep::Merge {
        parts: vec![part(0, 1..2), part(1, 0..1)],
        range: KeyRange {
            low: Some(key(20)),
            high: Some(key(35)),
        },
        sparse: false,
    };
    assert_eq!(steps.len(), 4);
    assert_eq!(steps[1], merge);
}

#[test]
fn small_extents_are_joined_with_what_is_merged_or_small_beside_them() {
    let copy = |extents| PlanStep::CopyExtents {
        input: 0,
        segment: 0,
        extents,
    };
    let merge = |base, newer: Option<Range<usize>>, low, high| {
        let parts = [(0, Some(base)), (1, newer)];
        let part = |(input, extents): (usize, Option<Range<usize>>)| MergePart {
            input,
            segment: 0,
            extents,
        };
        PlanStep::Merge {
            parts: parts
                .into_iter()
                .filter(|(_, extents)| extents.is_some())
                .map(part)
                .collect(),
            range: KeyRange {
                low: Some(key(low)),
                high: Some(key(high)),
            },
            sparse: false,
        }
    };
    let extents: &[&[u8]] = &[
        &[1, 2],
        &[5],
        &[10, 11],
        &[15, 16],
        &[20],
        &[25],
        &[30, 31],
        &[35],
        &[40, 41],
    ];
    let base = Run {
        small_below: 2,
        ..run(extents)
    };
    let steps = steps(&[base, run(&[&[10]])]);
    let wanted = [
        copy(0..1),
        merge(1..3, Some(0..1), 5, 15),
        copy(3..4),
        merge(4..6, None, 20, 30),
        copy(6..9),
    ];
    assert_eq!(steps, wanted);
}

#[test]
fn few_changes_of_many_rows_are_sparse() {
    let base: &[&[u8]] = &[&[1, 2, 3, 4, 5, 6, 7, 8], &[20, 21, 22, 23, 24, 25, 26, 27]];
    let is_sparse = |changes: &[u8], sparse_part| {
        let target = PlanTarget {
            mode: MergeMode::Rows,
            format: SegmentFormat::Extent,
            copies_extents: true,
            move_bytes_min: 0,
            sparse_part,
        };
        let inputs = [summary(&run(base)), summary(&run(&[changes]))];
        let steps = plan_merge(&inputs, &target, &KeyRange::default());
        assert_eq!(steps.len(), 1);
        matches!(&steps[0], PlanStep::Merge { sparse: true, .. })
    };
    assert!(is_sparse(&[3, 21], Some(8)));
    assert!(!is_sparse(&[3, 21], None));
    assert!(!is_sparse(&[3, 10, 21], Some(8)));
    assert!(is_sparse(&[3, 10, 21], Some(5)));
}
