//! Paths of small graphs, and all graphs of a few runs against trying every chain.

use super::*;
use crate::manifest::literal;

mod reused;

fn index(text: &str) -> (Manifest, ReadIndex) {
    let manifest = literal::manifest(text).unwrap();
    let index = ReadIndex::new(&manifest);
    (manifest, index)
}

fn ids(runs: Option<Vec<RunId>>) -> Option<Vec<u64>> {
    runs.map(|runs| runs.iter().map(|run| run.0).collect())
}

#[test]
fn a_merged_run_leads_only_to_its_end_and_its_inputs_to_each_boundary() {
    let (_, index) = index(
        "sealed 108 sorted 108
         table t
           range ..
             base 1..=100 64M
             sorted 101 1M old=109
             sorted 102 1M old=109
             sorted 103 1M old=109
             merged 101..=103 3M
             sorted 104 1M",
    );
    let range = &index.ranges(TableId(1)).unwrap()[0];
    let expect = [
        (100, Some(vec![1])),
        (101, Some(vec![1, 2])),
        (102, Some(vec![1, 2, 3])),
        (103, Some(vec![1, 5])),
        (104, Some(vec![1, 5, 6])),
        (105, None),
        (99, None),
    ];
    for (boundary, runs) in expect {
        assert_eq!(ids(range.cheapest(ScuNumber(boundary))), runs, "{boundary}");
    }
}

#[test]
fn an_extended_run_ends_at_any_boundary_after_its_newest_change() {
    let (_, index) = index(
        "sealed 120 sorted 120
         table t
           range ..
             base 1..=110 64M ct=100
             sorted 111 1M
             merged 106..=120 2M ct=115
             sorted 105..=120 1M ct=105",
    );
    let range = &index.ranges(TableId(1)).unwrap()[0];
    assert_eq!(ids(range.cheapest(ScuNumber(104))), Some(vec![1]));
    assert_eq!(ids(range.cheapest(ScuNumber(111))), Some(vec![1, 4]));
    assert_eq!(ids(range.cheapest(ScuNumber(117))), Some(vec![1, 4]));
    let stretches: Vec<(u64, u64, u32)> = range
        .boundaries()
        .iter()
        .map(|stretch| (stretch.first.0, stretch.last.0, stretch.runs))
        .collect();
    let first = stretches.first().unwrap();
    assert_eq!((first.0, first.1), (0, 0), "nothing leads to the start");
    assert!(stretches.contains(&(100, 104, 1)), "{stretches:?}");
}

#[test]
fn parts_of_one_scu_are_one_edge() {
    let (_, index) = index(
        "sealed 3 sorted 3
         table t
           range ..
             base 1..=0 none
             sorted 1 1M
             sorted 2 1M part=0
             sorted 2 1M part=1
             sorted 2 1M part=2
             sorted 3 1M",
    );
    let range = &index.ranges(TableId(1)).unwrap()[0];
    assert_eq!(ids(range.cheapest(ScuNumber(3))), Some(vec![2, 3, 4, 5, 6]));
    assert_eq!(range.fewest_runs(ScuNumber(2)), Some(4));
}

#[test]
fn runs_without_data_in_a_range_cost_nothing_and_end_anywhere() {
    let (_, index) = index(
        "sealed 109 sorted 109
         table t
           sorted 109 p..q:1M
           range ..m
             base 1..=100 64M
             merged 101..=108 none
           range m..
             base 1..=100 64M
             merged 101..=108 p..q:5M",
    );
    let ranges = index.ranges(TableId(1)).unwrap();
    assert_eq!(ids(ranges[0].cheapest(ScuNumber(109))), Some(vec![2]));
    assert_eq!(ids(ranges[0].cheapest(ScuNumber(104))), Some(vec![2]));
    assert_eq!(ids(ranges[1].cheapest(ScuNumber(109))), Some(vec![4, 5, 1]));
    assert_eq!(ids(ranges[1].cheapest(ScuNumber(104))), None);
}

#[test]
fn current_runs_are_preferred_to_superseded_ones() {
    let (_, index) = index(
        "sealed 101 sorted 101
         table t
           range ..
             base 1..=100 60M old=105
             sorted 101 1K old=105
             base 1..=101 80M",
    );
    let range = &index.ranges(TableId(1)).unwrap()[0];
    assert_eq!(ids(range.cheapest(ScuNumber(101))), Some(vec![3]));
    assert_eq!(ids(range.cheapest(ScuNumber(100))), Some(vec![1]));
}

#[test]
fn a_segment_over_several_ranges_counts_in_parts() {
    let manifest = literal::manifest(
        "sealed 1 sorted 1
         table t
           sorted 1 b..p:90K
           sorted 1 b..m:60K part=1
           range ..d
           range d..m
           range m..",
    )
    .unwrap();
    let ranges = &manifest.tables[&TableId(1)].ranges;
    let bytes = |run: u64| -> Vec<u64> {
        let run = &manifest.runs[&RunId(run)];
        (0..3)
            .map(|at| share_of(run, ranges, at).bytes >> 10)
            .collect()
    };
    assert_eq!(bytes(1), [30, 30, 30]);
    assert_eq!(bytes(2), [30, 30, 0], "one row of it lies in the last");
}

/// Every boundary of every graph of up to four runs, against trying all chains.
#[test]
fn the_cheapest_path_is_that_of_trying_all() {
    let mut spans = Vec::new();
    for first in 1..=4u64 {
        for last in first..=4 {
            for newest in first..=last {
                spans.push((first, last, newest));
            }
        }
    }
    let mut seed = 7u64;
    for _ in 0..300 {
        let mut random = |below: usize| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        let runs: Vec<(u64, u64, u64, usize)> = (0..1 + random(6))
            .map(|_| {
                let (first, last, newest) = spans[random(spans.len())];
                (first, last, newest, 1 + random(9))
            })
            .collect();
        let mut text = String::from("sealed 4 sorted 4\ntable t\nrange ..\n");
        for (first, last, newest, size) in &runs {
            text += &format!("merged {first}..={last} {size}M ct={newest}\n");
        }
        let (_, index) = index(&text);
        let range = &index.ranges(TableId(1)).unwrap()[0];
        for boundary in 0..=4 {
            let expected = least_by_trying(&runs, boundary);
            assert_eq!(
                range.least_work(ScuNumber(boundary)),
                expected,
                "{boundary} of\n{text}"
            );
        }
    }
}

fn least_by_trying(runs: &[(u64, u64, u64, usize)], boundary: u64) -> Option<u64> {
    if boundary == 0 {
        return Some(0);
    }
    let ends_here = runs
        .iter()
        .filter(|run| run.2 <= boundary && boundary <= run.1);
    ends_here
        .filter_map(|(first, _, _, size)| {
            let work = RUN_OPEN_WORK + RECONCILE_WORK * ((*size as u64) << 20);
            Some(least_by_trying(runs, first - 1)? + work)
        })
        .min()
}

#[test]
fn a_damaged_run_gives_way_to_what_it_was_made_of() {
    let text = "sealed 103 sorted 103
         table t
           range ..
             base 1..=100 64M old=105
             base 1..=102 64M
             sorted 101 1M old=105
             sorted 102 1M old=105
             sorted 103 1M";
    let manifest = literal::manifest(text).unwrap();
    let damage = |runs: &[u64]| -> DamagedFiles {
        let files = runs
            .iter()
            .flat_map(|run| &manifest.runs[&RunId(*run)].segments);
        let error = |file: &str| Error::corrupt(format!("{file}: damaged")).with_file(file);
        files
            .map(|segment| (segment.file.clone(), error(&segment.file)))
            .collect()
    };
    let newest = ScuNumber(103);
    let range = |runs: &[u64]| {
        let state = &manifest.tables[&TableId(1)];
        RangePaths::new(&manifest, state, 0, &damage(runs))
    };
    assert_eq!(ids(range(&[]).cheapest(newest)), Some(vec![2, 5]));
    assert_eq!(ids(range(&[2]).cheapest(newest)), Some(vec![1, 3, 4, 5]));
    assert!(range(&[2]).damage_at(newest).is_none());
    for (lost, named) in [([5].as_slice(), 5), (&[2, 4], 2), (&[1, 2], 2)] {
        let range = range(lost);
        assert_eq!(range.cheapest(newest), None, "{lost:?}");
        let damage = range.damage_at(newest).unwrap();
        let file = &manifest.runs[&RunId(named)].segments[0].file;
        assert_eq!(damage.error.file(), Some(file.as_str()), "{lost:?}");
    }
    // What never was kept is not called damaged.
    assert!(range(&[2]).damage_at(ScuNumber(90)).is_none());
}

#[test]
fn the_other_parts_of_an_scu_do_not_stand_for_a_damaged_one() {
    let text = "sealed 102 sorted 102
         table t
           range ..
             base 1..=100 64M
             sorted 101 1M
             sorted 102 1M part=0
             sorted 102 1M part=1";
    let manifest = literal::manifest(text).unwrap();
    let since = |lost: Option<u64>| {
        let run = lost.map(|run| &manifest.runs[&RunId(run)]);
        let files = run.iter().flat_map(|run| &run.segments);
        let error = |file: &str| Error::corrupt(format!("{file}: damaged")).with_file(file);
        let damaged: DamagedFiles = files
            .map(|segment| (segment.file.clone(), error(&segment.file)))
            .collect();
        let state = &manifest.tables[&TableId(1)];
        let paths = RangePaths::since(&manifest, state, 0, ScuNumber(100), &damaged);
        ids(paths.cheapest(ScuNumber(102)))
    };
    assert_eq!(since(None), Some(vec![2, 3, 4]));
    assert_eq!(since(Some(3)), None);
    assert_eq!(since(Some(4)), None);
}
