//! Manifests as text, and what holds the rows of their files.

use std::sync::Arc;

use lazybase_engine::manifest::literal::manifest;
use lazybase_engine::manifest::{Manifest, ScuEntry};
use lazybase_model::ScuNumber;

use super::{holder, unlogged};

/// What holds the rows of the first file of a run, where some files can't be read.
fn held(manifest: &Manifest, run: u64, damaged: &[&str]) -> Option<String> {
    let file = format!("segments/{run}-0.ext");
    let is_whole = |name: &str| name != file && !damaged.contains(&name);
    holder(manifest, &file, &is_whole)
}

/// The runs 1 to 4: an old base, two SCUs sorted, and the base that they were merged into.
const MERGED: &str = "
    sealed 12 sorted 12
    table t
      range ..
        base 1..=10 a..f:4K old=3
        sorted 11 b..c:1K old=3
        sorted 12 d..e:1K old=3
        base 1..=12 a..f:6K
";

#[test]
fn the_log_of_a_sorted_scu_holds_it_while_it_is_kept() {
    let mut manifest = manifest(MERGED).unwrap();
    assert_eq!(held(&manifest, 2, &[]), None);
    let entry = ScuEntry {
        files: vec!["log/1".to_owned()],
        ..ScuEntry::without_batches(ScuNumber(11))
    };
    manifest.scus.insert(ScuNumber(11), Arc::new(entry));
    let log = Some("the log of SCU 11".to_owned());
    assert_eq!(held(&manifest, 2, &[]), log);
    assert_eq!(held(&manifest, 2, &["log/1"]), None);
    assert_eq!(held(&manifest, 3, &[]), None);
}

/// SCU n came to its end right before second n + 1.
#[test]
fn a_log_is_missed_while_rows_of_its_scu_are_sorted_and_not_merged() {
    let text = "
        sealed 12 sorted 12
        table t
          range ..m
            base 1..=12 a..f:6K
          range m..
            base 1..=10 n..o:4K
            sorted 11 b..p:1K
            sorted 12 b..c:1K
    ";
    let manifest = manifest(text).unwrap();
    assert_eq!(unlogged(&manifest, 11_000_000), Some(ScuNumber(11)));
    // It lies behind the retention.
    assert_eq!(unlogged(&manifest, 11_900_000), None);
    let mut logged = manifest;
    let entry = ScuEntry::without_batches(ScuNumber(11));
    logged.scus.insert(ScuNumber(11), Arc::new(entry));
    // Of SCU 12 the right range has no rows.
    assert_eq!(unlogged(&logged, 0), None);
    let merged = self::manifest(MERGED).unwrap();
    assert_eq!(unlogged(&merged, 0), None);
}

#[test]
fn what_a_base_was_merged_of_holds_it_while_all_of_it_is_whole() {
    let manifest = manifest(MERGED).unwrap();
    let inputs = held(&manifest, 4, &[]).unwrap();
    for run in [1, 2, 3] {
        assert!(inputs.contains(&format!("RunId({run})")), "{inputs}");
        let file = format!("segments/{run}-0.ext");
        assert_eq!(held(&manifest, 4, &[&file]), None);
    }
}

#[test]
fn runs_that_leave_an_scu_out_hold_nothing() {
    let text = MERGED.replace("sorted 12 d..e:1K old=3", "");
    let manifest = manifest(&text).unwrap();
    // Without the run of SCU 12 the base has the number 3.
    assert_eq!(held(&manifest, 3, &[]), None);
    assert_eq!(held(&manifest, 9, &[]), None);
}

/// What a damaged file held is of its keys alone.
#[test]
fn damage_of_other_keys_does_not_matter() {
    let text = "
        sealed 12 sorted 12
        table t after 10
          range ..
            sorted 11 a..c:1K x..z:1K old=3
            sorted 12 d..e:1K old=3
            merged 11..=12 a..e:2K x..z:1K
    ";
    let manifest = manifest(text).unwrap();
    assert!(held(&manifest, 3, &["segments/1-1.ext"]).is_some());
    assert_eq!(held(&manifest, 3, &["segments/1-0.ext"]), None);
}

/// Each part of a sort has other rows.
#[test]
fn all_parts_of_a_sort_are_needed() {
    let text = "
        sealed 2 sorted 2
        table t
          range ..
            sorted 1 part=0 a..f:1K old=3
            sorted 1 part=1 a..f:1K old=3
            sorted 2 a..f:1K old=3
            base 1..=2 a..f:2K
    ";
    let manifest = manifest(text).unwrap();
    assert!(held(&manifest, 4, &[]).is_some());
    assert_eq!(held(&manifest, 4, &["segments/2-0.ext"]), None);
}
