//! What a damaged run is made of, in small manifests.

use std::sync::Arc;

use lazybase_model::Error;

use super::*;
use crate::manifest::{ScuEntry, literal};

/// The remedy of run `id` when the files of `also` are damaged too.
fn remedy_of(text: &str, id: u64, also: &[u64]) -> Option<Remedy> {
    let manifest = literal::manifest(text).unwrap();
    let run = |id: u64| -> &Arc<Run> { &manifest.runs[&RunId(id)] };
    let mut damaged = DamagedFiles::new();
    for id in also.iter().chain([&id]) {
        for segment in &run(*id).segments {
            let error = Error::corrupt("damaged").with_file(&segment.file);
            damaged.insert(segment.file.clone(), error);
        }
    }
    remedy(&manifest, run(id), &damaged)
}

fn inputs_of(text: &str, id: u64, also: &[u64]) -> Option<Vec<u64>> {
    match remedy_of(text, id, also)? {
        Remedy::Merge(pieces) => {
            let inputs = pieces.iter().flat_map(|piece| &piece.inputs);
            Some(inputs.map(|run| run.0).collect())
        }
        Remedy::Sort { .. } => panic!("a merged run is not sorted"),
    }
}

const STORY: &str = "sealed 104 sorted 104
    table t
      range ..
        base 1..=100 64M old=105
        base 1..=103 64M
        sorted 101 1M old=104
        sorted 102 1M old=104
        merged 101..=102 2M old=105
        sorted 103 1M old=105
        sorted 104 1M";

#[test]
fn a_merged_run_is_made_again_from_what_it_joined() {
    assert_eq!(inputs_of(STORY, 5, &[]), Some(vec![3, 4]));
    assert_eq!(inputs_of(STORY, 5, &[4]), None);
}

#[test]
fn the_base_is_made_again_from_the_older_base_and_what_came_after() {
    assert_eq!(inputs_of(STORY, 2, &[]), Some(vec![1, 5, 6]));
    assert_eq!(inputs_of(STORY, 2, &[5]), Some(vec![1, 3, 4, 6]));
    assert_eq!(inputs_of(STORY, 2, &[1]), None);
    assert_eq!(inputs_of(STORY, 2, &[6]), None);
}

#[test]
fn nothing_newer_replaces_the_oldest() {
    assert_eq!(inputs_of(STORY, 1, &[]), None);
}

#[test]
fn a_sorted_run_needs_its_log() {
    assert_eq!(remedy_of(STORY, 7, &[]), None);
}

#[test]
fn a_stretch_without_rows_between_those_of_a_file_needs_nothing() {
    // The range was cut on both sides of keys that came later.
    let cut = "sealed 101 sorted 101
        table t
          sorted 101 d..e:1M old=105
          base 1..=100 a..c:32M x..z:32M old=105
          base 1..=101 a..z:64M
          range ..m
          range m..p
          range p..";
    assert_eq!(inputs_of(cut, 3, &[]), Some(vec![2, 1, 2]));
    // Rows there are at its ends: without what holds them they are lost.
    assert_eq!(inputs_of(cut, 3, &[2]), None);
    let without = cut.replace(" x..z:32M", "");
    assert_eq!(inputs_of(&without, 3, &[]), None);
}

#[test]
fn a_file_of_keys_that_the_run_is_not_read_for_any_more_just_goes() {
    let story = "sealed 101 sorted 101
        table t
          range ..m
            base 1..=101 a..c:1M x..z:1M
          range m..
            base 1..=101 x..z:2M";
    let manifest = literal::manifest(story).unwrap();
    let run = &manifest.runs[&RunId(1)];
    let file = &run.segments[1].file;
    let error = Error::corrupt("damaged").with_file(file);
    let damaged = DamagedFiles::from([(file.clone(), error)]);
    let nothing = Some(Remedy::Merge(Vec::new()));
    assert_eq!(remedy(&manifest, run, &damaged), nothing);
    assert!(outlook(&manifest, &damaged).lost.is_empty());
}

/// An SCU in two parts. The second range is of a partition that was dropped: its runs are copies.
const DROPPED: &str = "sealed 103 sorted 103
    table t
      range ..m
        base 1..=101 none ct=0
        sorted 102 a..z:1M
        sorted 102 a..z:1M part=1
      range m..
        base 1..=101 none ct=0 old=104
        sorted 102 a..z:1M old=104
        sorted 102 a..z:1M old=104 part=1
        base 1..=103 none";

#[test]
fn a_sort_is_made_again_for_the_ranges_of_a_dropped_partition_by_itself() {
    let mut manifest = literal::manifest(DROPPED).unwrap();
    let scu = ScuNumber(102);
    let entry = ScuEntry::without_batches(scu);
    manifest.scus.insert(scu, Arc::new(entry));
    for (harmed, of_sort) in [(2, [2, 3]), (3, [2, 3]), (5, [5, 6]), (6, [5, 6])] {
        let damaged = damage_of(&manifest, &[harmed]);
        let run = &manifest.runs[&RunId(harmed)];
        let expected = Remedy::Sort {
            scu,
            parts: of_sort.map(RunId).to_vec(),
        };
        let found = remedy(&manifest, run, &damaged);
        assert_eq!(found, Some(expected), "run {harmed}");
    }
}

fn damage_of(manifest: &Manifest, ids: &[u64]) -> DamagedFiles {
    let runs = ids.iter().map(|id| &manifest.runs[&RunId(*id)]);
    let files = runs.flat_map(|run| &run.segments);
    files
        .map(|segment| {
            let error = Error::corrupt("damaged").with_file(&segment.file);
            (segment.file.clone(), error)
        })
        .collect()
}

#[test]
fn what_can_be_made_again_serves_to_make_others_again() {
    let story = "sealed 103 sorted 103
        table t
          range ..
            base 1..=100 64M old=105
            base 1..=103 64M
            merged 101..=102 2M old=104
            sorted 101 1M old=104
            sorted 102 1M old=104
            merged 101..=103 3M old=105
            sorted 103 1M old=104";
    let manifest = literal::manifest(story).unwrap();
    let ids = |runs: Vec<RunId>| runs.into_iter().map(|run| run.0).collect::<Vec<_>>();
    let of = |damaged: &[u64]| {
        let found = outlook(&manifest, &damage_of(&manifest, damaged));
        (ids(found.healable), ids(found.lost))
    };
    assert_eq!(of(&[2, 6]), (vec![2, 6], vec![]));
    // Alone, neither 2 nor 6 could be made again without 3 or what it was made of.
    assert_eq!(of(&[2, 3, 6]), (vec![2, 3, 6], vec![]));
    assert_eq!(of(&[3, 4, 6]), (vec![], vec![3, 4, 6]));
    assert_eq!(of(&[2, 7]), (vec![2], vec![7]));
    assert_eq!(of(&[1, 2]), (vec![], vec![1, 2]));
}

#[test]
fn what_was_made_of_a_file_are_newer_runs_of_its_keys_and_scus() {
    let story = "sealed 103 sorted 103
        table t
          sorted 101 a..z:1M old=104
          sorted 102 a..z:1M old=104
          range ..m
            base 1..=100 a..c:32M d..l:32M old=105
            merged 101..=102 a..l:1M
          range m..
            base 1..=100 m..p:32M q..z:32M old=105
            base 1..=101 m..p:32M q..z:32M
            sorted 103 m..z:1M";
    let manifest = literal::manifest(story).unwrap();
    let made = |id: u64, at: usize| -> Vec<(u64, String)> {
        let file = manifest.runs[&RunId(id)].segments[at].file.clone();
        let made = made_of(&manifest, &BTreeSet::from([file]));
        let runs = manifest.runs.values();
        let segments = runs.flat_map(|run| run.segments.iter().map(|segment| (run.id, segment)));
        segments
            .filter(|(_, segment)| made.contains_key(&segment.file))
            .map(|(run, segment)| {
                let key = String::from_utf8_lossy(segment.min_key.as_bytes());
                (run.0, key.into_owned())
            })
            .collect()
    };
    let of = |found: &[(u64, &str)]| -> Vec<(u64, String)> {
        let owned = |(id, key): &(u64, &str)| (*id, (*key).to_owned());
        found.iter().map(owned).collect()
    };
    assert_eq!(made(1, 0), of(&[(4, "a"), (6, "m"), (6, "q")]));
    assert_eq!(made(2, 0), of(&[(4, "a")]));
    assert_eq!(made(5, 1), of(&[(6, "q")]));
    assert_eq!(made(4, 0), of(&[]));
    assert_eq!(made(6, 0), of(&[]));
}
