//! What a damaged run is made of, in small manifests.

use std::sync::Arc;

use lazybase_model::Error;

use super::*;
use crate::manifest::literal;

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
