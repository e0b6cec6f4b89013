//! What may be forgotten: literal states, and random histories with a retention.

use lazybase_model::error::UNREADABLE;
use proptest::prelude::*;

use super::*;
use crate::manifest::graph::Paths;
use crate::manifest::testing::{Draw, Story, key};

const SECOND: i64 = 1_000_000;

fn all_verified() -> Verified<'static> {
    Verified {
        sorted_through: ScuNumber(u64::MAX),
        ..Verified::default()
    }
}

fn retired(edit: Option<Edit>) -> (Vec<u64>, Vec<u64>, u64) {
    match edit {
        Some(Edit::Retire {
            runs,
            scus,
            times_before,
        }) => (
            runs.iter().map(|run| run.run.0).collect(),
            scus.iter().map(|scu| scu.0).collect(),
            times_before.0,
        ),
        None => (vec![], vec![], 0),
        Some(other) => panic!("{other:?}"),
    }
}

/// One table with six sorted SCUs and two ranges.
fn story() -> (Story, ViewId) {
    let mut story = Story::new();
    let view = story.create_table("t");
    for _ in 0..6 {
        story.seal();
        story.sort(&[view], 1);
    }
    let at = key(9);
    story.apply(Edit::SplitRange {
        view,
        low: None,
        at,
    });
    (story, view)
}

#[test]
fn superseded_runs_stay_for_the_retention_and_while_other_ranges_lag() {
    let (mut story, view) = story();
    let retention = Duration::from_secs(10);
    story.merge(view, 0, 0, 7);
    let superseded = story.now_micros - SECOND;
    let at = |story: &Story, micros: i64| {
        let edit = retirable(&story.manifest, micros, retention, all_verified());
        retired(edit).0
    };
    assert!(at(&story, superseded + 10 * SECOND - 1).is_empty());
    // Best effort reads at boundary 4 (four sorted runs; the base is empty) until the right range
    // is merged, too.
    assert_eq!(at(&story, superseded + 10 * SECOND), [1, 6, 7]);
    story.merge(view, 1, 0, 7);
    let later = story.now_micros + 10 * SECOND;
    assert_eq!(
        at(&story, later),
        [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7]
    );
    let edit = retirable(&story.manifest, later, retention, all_verified()).unwrap();
    story.apply(edit);
    assert_eq!(story.current(view, 0), "1..=6");
    assert_eq!(story.superseded(view, 1), "");
    assert_eq!(story.manifest.runs.len(), 2);
    assert_eq!(
        retirable(&story.manifest, later, retention, all_verified()),
        None
    );
}

#[test]
fn inputs_stay_until_their_outputs_are_checked() {
    let (mut story, view) = story();
    story.merge(view, 0, 0, 7);
    let merged = story.merge(view, 1, 0, 7);
    let unchecked = BTreeSet::from([merged]);
    let verified = Verified {
        sorted_through: ScuNumber(4),
        unchecked_runs: &unchecked,
        ..Verified::default()
    };
    let now = story.now_micros;
    let edit = retirable(&story.manifest, now, Duration::ZERO, verified);
    let (runs, scus, times_before) = retired(edit);
    assert_eq!(runs, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(scus, [1, 2, 3, 4]);
    assert_eq!(times_before, 6);
}

/// One table with four sorted SCUs, each as large as all logs that are kept of what is merged, and
/// two ranges that meet at `at`.
fn large_story(at: u8) -> (Story, ViewId) {
    let mut story = Story::new();
    let view = story.create_table("t");
    for _ in 0..4 {
        let mut edit = story.seal_edit();
        if let Edit::Seal { entry, .. } = &mut edit {
            entry.raw_bytes = LOG_KEPT_BYTES_MAX;
        }
        story.apply(edit);
        story.sort(&[view], 1);
    }
    let at = key(at);
    story.apply(Edit::SplitRange {
        view,
        low: None,
        at,
    });
    (story, view)
}

#[test]
fn a_log_stays_until_what_was_sorted_of_it_is_merged() {
    let logs = |story: &Story, retention: u64| {
        let retention = Duration::from_secs(retention);
        let edit = retirable(&story.manifest, story.now_micros, retention, all_verified());
        retired(edit).1
    };
    let (mut story, view) = large_story(9);
    assert!(logs(&story, 1_000).is_empty());
    // The right range still needs all of them.
    story.merge(view, 0, 0, 5);
    assert!(logs(&story, 1_000).is_empty());
    story.merge(view, 1, 1, 3);
    assert_eq!(logs(&story, 1_000), [1, 2]);
    // The newest one is as large as may be kept.
    story.merge(view, 1, 0, 4);
    assert_eq!(logs(&story, 1_000), [1, 2, 3]);
    // There are no rows in the right range.
    let (mut story, view) = large_story(201);
    assert!(logs(&story, 1_000).is_empty());
    story.merge(view, 0, 0, 5);
    assert_eq!(logs(&story, 1_000), [1, 2, 3]);
    // None outlives the retention, or what superseded files leave of it.
    let (story, _) = large_story(9);
    assert_eq!(logs(&story, 0), [1, 2, 3, 4]);
}

#[test]
fn a_damaged_log_is_of_no_use_and_one_that_is_only_refused_may_be() {
    let (story, _) = story();
    let file = story.manifest.scus[&ScuNumber(3)].files[0].clone();
    let forgotten = |error: Error| {
        let damaged = DamagedFiles::from([(file.clone(), error)]);
        let verified = Verified {
            damaged: &damaged,
            ..all_verified()
        };
        let retention = Duration::from_secs(1_000);
        let edit = retirable(&story.manifest, story.now_micros, retention, verified);
        retired(edit).1
    };
    assert_eq!(forgotten(Error::corrupt("a bit")), [3]);
    let refused = Error::unavailable("the disk").with_sqlstate(UNREADABLE);
    assert!(forgotten(refused).is_empty());
}

#[test]
fn times_stay_for_what_the_retention_and_the_oldest_base_may_name() {
    let (mut story, view) = story();
    story.merge(view, 0, 0, 7);
    story.merge(view, 1, 0, 4);
    let now = story.now_micros;
    let before = |retention: u64| {
        let retention = Duration::from_secs(retention);
        let edit = retirable(&story.manifest, now, retention, all_verified());
        retired(edit).2
    };
    assert_eq!(before(0), 3);
    // Sealed one every two seconds, the last one five edits ago.
    assert_eq!(before(12), 2);
    assert_eq!(before(1000), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever is retired: nothing current goes, best effort does not fall back, and every state
    /// that the database had in the retention can still be read.
    #[test]
    fn retiring_keeps_every_state_of_the_retention(seed: u64, retention in 0_u64..40) {
        let (mut story, mut draw) = (Story::new(), Draw(seed));
        story.create_table("first");
        // For each moment: the boundary that was sorted then.
        let mut states: Vec<(i64, ScuNumber)> = Vec::new();
        let mut truncated = ScuNumber::ZERO;
        for _ in 0..120 {
            let now = story.now_micros;
            let retention = Duration::from_secs(retention);
            let edit = match draw.below(6) {
                0 => retirable(&story.manifest, now, retention, all_verified()),
                // A retirement of the random edits knows no retention.
                _ => story
                    .random_edit(&mut draw)
                    .filter(|edit| !matches!(edit, Edit::Retire { .. })),
            };
            let Some(edit) = edit else { continue };
            match &edit {
                // Truncation takes the boundary itself back; new tables have no past.
                Edit::TruncateTable { .. } | Edit::CreateTable { .. } => {
                    truncated = story.manifest.sealed_through;
                    states.clear();
                }
                _ => {}
            }
            let common = ReadIndex::new(&story.manifest).common_horizon();
            let by_us = matches!(edit, Edit::Retire { .. });
            story.apply(edit);
            if by_us {
                prop_assert!(common <= ReadIndex::new(&story.manifest).common_horizon());
            }
            states.push((story.now_micros, story.manifest.sorted_through));
            let oldest = story.now_micros - retention.as_micros() as i64;
            for (moment, boundary) in &states {
                if *moment < oldest || *boundary < truncated {
                    continue;
                }
                for (_, range) in story.manifest.all_ranges() {
                    let edges = story.manifest.edges(range);
                    let runs = Paths::new(&edges).runs_at(*boundary);
                    prop_assert!(runs.is_some(), "{} of {:?}", boundary, range);
                }
            }
        }
    }
}

#[test]
fn a_file_goes_when_nobody_names_it_and_the_grace_is_over() {
    let (mut story, view) = story();
    let pinned = Arc::new(story.manifest.clone());
    for range in 0..2 {
        story.merge(view, range, 0, 7);
    }
    let now = story.now_micros;
    let edit = retirable(&story.manifest, now, Duration::ZERO, all_verified()).unwrap();
    let current = Arc::new(story.apply(edit).clone());
    let mut listing: Vec<(String, u64)> = files_of(&pinned)
        .chain(files_of(&current))
        .map(|name| (name.to_owned(), 1000))
        .collect();
    listing.push(("segments/running.ext".to_owned(), 1));
    listing.push(("segments/failed.ext".to_owned(), 1));
    let running = BTreeSet::from(["segments/running.ext".to_owned()]);
    let both = [Arc::clone(&current), Arc::clone(&pinned)];
    let (mut sweep, grace) = (Sweep::new(), Duration::from_secs(2));
    let mut at = |seconds: u64, manifests: &[Arc<Manifest>]| {
        let now = Duration::from_secs(seconds);
        sweep.unreferenced(&listing, &running, manifests, now, grace)
    };
    assert!(at(1, &both).is_empty());
    assert_eq!(at(3, &both), ["segments/failed.ext"]);
    assert_eq!(at(4, &both[..1]), ["segments/failed.ext"]);
    let gone = at(6, &both[..1]);
    // Six sorted segments and six logs of the pinned manifest, and the failed attempt's file.
    assert_eq!(gone.len(), 13);
    assert!(
        gone.iter()
            .all(|name| !files_of(&current).any(|file| file == name))
    );
}
