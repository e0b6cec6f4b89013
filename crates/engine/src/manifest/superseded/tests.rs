//! What goes before its time: literal files, and manifests with snapshots.

use std::time::Duration;

use lazybase_model::ViewId;

use super::super::collect::retirable;
use super::*;
use crate::manifest::Edit;
use crate::manifest::testing::{Story, key};

const SECOND: i64 = 1_000_000;

/// A file of so many bytes that the retention keeps since a moment, or no longer, and snapshots.
fn file(bytes: u64, retained: Option<i64>, holders: &[usize]) -> SupersededFile {
    SupersededFile {
        bytes,
        retained,
        holders: holders.to_vec(),
    }
}

/// The moment up to which the past goes, and the places whose snapshots end.
fn decided(
    files: &[SupersededFile],
    may_end: &[bool],
    bytes_max: u64,
) -> (Option<i64>, Vec<usize>) {
    let decided = shorten(files, may_end, bytes_max);
    (decided.before_micros, decided.ended.into_iter().collect())
}

#[test]
fn what_stays_within_the_bound_stays() {
    assert_eq!(decided(&[], &[], 0), (None, vec![]));
    let files = [
        file(10, Some(5), &[]),
        file(40, Some(6), &[]),
        file(50, None, &[0]),
    ];
    assert_eq!(decided(&files, &[true], 100), (None, vec![]));
    assert_eq!(decided(&files, &[true], u64::MAX), (None, vec![]));
}

#[test]
fn the_oldest_past_goes_first_and_no_more_than_must() {
    let files = [
        file(30, Some(7), &[]),
        file(10, Some(5), &[]),
        file(20, Some(6), &[]),
    ];
    assert_eq!(decided(&files, &[], 120), (None, vec![]));
    assert_eq!(decided(&files, &[], 119), (Some(5), vec![]));
    assert_eq!(decided(&files, &[], 100), (Some(5), vec![]));
    assert_eq!(decided(&files, &[], 60), (Some(6), vec![]));
    assert_eq!(decided(&files, &[], 0), (Some(7), vec![]));
    // What the retention gave up already counts only where a snapshot holds it.
    let files = [file(30, Some(7), &[]), file(900, None, &[])];
    assert_eq!(decided(&files, &[], 60), (None, vec![]));
}

#[test]
fn the_oldest_snapshot_ends_first_and_takes_no_past_from_anybody() {
    // Three snapshots; what the first holds was superseded soon after it.
    let files = [
        file(40, None, &[0]),
        file(30, None, &[0, 1]),
        file(20, None, &[0, 1, 2]),
        file(10, Some(9), &[2]),
    ];
    let all = [true, true, true];
    assert_eq!(decided(&files, &all, 100), (None, vec![]));
    assert_eq!(decided(&files, &all, 99), (None, vec![0]));
    assert_eq!(decided(&files, &all, 60), (None, vec![0]));
    // Nothing goes of what two hold before both have ended.
    assert_eq!(decided(&files, &all, 59), (None, vec![0, 1]));
    assert_eq!(decided(&files, &all, 29), (None, vec![0, 1, 2]));
    assert_eq!(decided(&files, &all, 0), (Some(9), vec![0, 1, 2]));
}

#[test]
fn a_snapshot_ends_only_where_that_frees_something() {
    // The first holds nothing that the retention does not keep as well.
    let files = [file(10, Some(5), &[0]), file(90, None, &[1])];
    assert_eq!(decided(&files, &[true, true], 50), (None, vec![1]));
    // The second may not end, and keeps what the first holds too.
    let files = [file(60, None, &[0, 1]), file(40, None, &[0])];
    assert_eq!(decided(&files, &[true, false], 99), (None, vec![0]));
    let files = [file(60, None, &[0, 1]), file(40, None, &[1])];
    assert_eq!(decided(&files, &[true, false], 50), (None, vec![]));
}

#[test]
fn what_the_past_gave_up_counts_while_a_snapshot_holds_it() {
    let files = [file(60, Some(5), &[0]), file(40, Some(6), &[])];
    assert_eq!(decided(&files, &[true], 120), (Some(5), vec![]));
    assert_eq!(decided(&files, &[true], 99), (Some(5), vec![0]));
}

/// One table with six sorted SCUs; the snapshot is of that moment.
fn story() -> (Story, ViewId, Arc<Manifest>) {
    let mut story = Story::new();
    let view = story.create_table("t");
    for _ in 0..6 {
        story.seal();
        story.sort(&[view], 1);
    }
    let pinned = Arc::new(story.manifest.clone());
    (story, view, pinned)
}

fn files_at(
    story: &Story,
    pinned: &[Arc<Manifest>],
    retention: Duration,
    verified: Verified<'_>,
) -> Vec<SupersededFile> {
    let now = story.now_micros;
    let before = now - retention.as_micros() as i64;
    superseded_files(&story.manifest, pinned, now, before, verified)
}

/// The bytes of these, and how many of them the retention keeps, and snapshots.
fn summed(files: &[SupersededFile]) -> (u64, usize, usize) {
    (
        files.iter().map(|file| file.bytes).sum(),
        files.iter().filter(|file| file.retained.is_some()).count(),
        files.iter().filter(|file| !file.holders.is_empty()).count(),
    )
}

#[test]
fn what_the_newest_answers_need_is_not_counted() {
    let (mut story, view, pinned) = story();
    let (hour, pins) = (Duration::from_secs(3600), [pinned]);
    // Six logs of 3,000 bytes, which no snapshot of sorted SCUs reads; the runs are the newest.
    let files = files_at(&story, &pins, hour, Verified::default());
    assert_eq!(summed(&files), (18_000, 6, 0));
    story.merge(view, 0, 0, 7);
    let files = files_at(&story, &pins, hour, Verified::default());
    assert_eq!(summed(&files), (24_000, 12, 6));
    assert_eq!(superseded_bytes(&story.manifest, &pins), 24_000);
    assert_eq!(superseded_at_most(&story.manifest, &pins), (24_000, 24_000));
    // Once they are retired, the snapshot alone keeps the runs.
    let now = story.now_micros;
    let edit = retirable(&story.manifest, now, Duration::ZERO, Verified::default());
    story.apply(edit.unwrap());
    let files = files_at(&story, &pins, hour, Verified::default());
    assert_eq!(summed(&files), (6_000, 0, 6));
    assert_eq!(superseded_bytes(&story.manifest, &pins), 6_000);
    assert_eq!(superseded_at_most(&story.manifest, &pins), (0, 6_000));
    assert_eq!(superseded_bytes(&story.manifest, &[]), 0);
}

#[test]
fn what_may_not_go_is_not_counted() {
    let (mut story, view, _) = story();
    let at = key(9);
    story.apply(Edit::SplitRange {
        view,
        low: None,
        at,
    });
    let hour = Duration::from_secs(3600);
    let logs_only = (18_000, 6, 0);
    // The other range still needs the same runs.
    story.merge(view, 0, 0, 7);
    let files = files_at(&story, &[], hour, Verified::default());
    assert_eq!(summed(&files), logs_only);
    // And nothing read the new run back yet.
    let merged = story.merge(view, 1, 0, 7);
    let unchecked = BTreeSet::from([merged]);
    let verified = Verified {
        unchecked_runs: &unchecked,
        ..Verified::default()
    };
    let files = files_at(&story, &[], hour, verified);
    assert_eq!(summed(&files), logs_only);
    let files = files_at(&story, &[], hour, Verified::default());
    assert_eq!(summed(&files), (24_000, 12, 0));
}

/// A snapshot reads the logs of what was not sorted when it was taken.
#[test]
fn logs_count_for_the_snapshots_that_read_them() {
    let mut story = Story::new();
    let view = story.create_table("t");
    for _ in 0..4 {
        story.seal();
    }
    story.sort(&[view], 1);
    let pinned = Arc::new(story.manifest.clone());
    for _ in 0..3 {
        story.sort(&[view], 1);
    }
    let files = files_at(&story, &[pinned], Duration::ZERO, Verified::default());
    assert_eq!(summed(&files), (12_000, 0, 3));
}

#[test]
fn what_is_decided_is_what_goes() {
    let (mut story, view, _) = story();
    // Merged two by two: each pair was superseded a second after the one before.
    for at in 0..3 {
        story.merge(view, 0, at + 1, at + 3);
    }
    let retention = Duration::from_secs(3600);
    let files = files_at(&story, &[], retention, Verified::default());
    let newest = files.iter().filter_map(|file| file.retained).max().unwrap();
    let decided = shorten(&files, &[], 2 * 2_000);
    let before = decided.before_micros.unwrap();
    // Two runs of 1,000 bytes stay.
    assert_eq!(before, newest - SECOND);
    let kept = Duration::from_micros((story.now_micros - before) as u64);
    let now = story.now_micros;
    let edit = retirable(&story.manifest, now, kept, Verified::default()).unwrap();
    story.apply(edit);
    let files = files_at(&story, &[], retention, Verified::default());
    assert_eq!(summed(&files), (2_000, 2, 0));
    assert_eq!(shorten(&files, &[], 2 * 2_000), Shortening::default());
}
