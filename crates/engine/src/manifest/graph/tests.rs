//! Paths and common boundaries of literal states.

use super::*;
use crate::manifest::Edit;
use crate::manifest::testing::{Story, key};

#[test]
fn the_cheapest_path_takes_the_fewest_runs_and_counts_parts() {
    let mut story = Story::new();
    let view = story.create_table("t");
    for parts in [1, 2, 1, 1] {
        story.seal();
        story.sort(&[view], parts);
    }
    let edges = story.manifest.edges(story.range(view, 0));
    assert_eq!(edges.len(), 5);
    assert_eq!(edges[2].runs.len(), 2);
    let paths = Paths::new(&edges);
    let runs: Vec<_> = (1..=5).map(|scu| paths.runs_at(ScuNumber(scu))).collect();
    assert_eq!(runs, [Some(1), Some(3), Some(4), Some(5), None]);
    story.merge(view, 0, 0, 3);
    let edges = story.manifest.edges(story.range(view, 0));
    let paths = Paths::new(&edges);
    let runs: Vec<_> = (1..=4).map(|scu| paths.runs_at(ScuNumber(scu))).collect();
    assert_eq!(runs, [Some(1), Some(1), Some(2), Some(3)]);
    let path = paths.path_to(ScuNumber(4)).unwrap();
    assert!(path.iter().all(|edge| edges[*edge].is_current()));
}

#[test]
fn the_common_boundary_is_one_that_every_range_reaches_with_few_runs() {
    let mut story = Story::new();
    let view = story.create_table("t");
    for _ in 0..6 {
        story.seal();
        story.sort(&[view], 1);
    }
    story.apply(Edit::SplitRange {
        view,
        low: None,
        at: key(9),
    });
    assert_eq!(common_boundary(&story.manifest, 4), Some(ScuNumber(4)));
    assert_eq!(common_boundary(&story.manifest, 6), Some(ScuNumber(6)));
    // One range alone gains nothing.
    story.merge(view, 0, 0, 6);
    assert_eq!(common_boundary(&story.manifest, 4), Some(ScuNumber(4)));
    story.merge(view, 1, 1, 6);
    assert_eq!(common_boundary(&story.manifest, 4), Some(ScuNumber(6)));
    assert_eq!(common_boundary(&story.manifest, 1), Some(ScuNumber(5)));
}
