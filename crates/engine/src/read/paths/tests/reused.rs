//! Reused paths against those made anew, after random edits.

use proptest::prelude::*;

use super::*;
use crate::manifest::testing::{Draw, Story};

/// The index of `manifest` with what that of an earlier one knows of it, once it is the same as a
/// new one.
fn checked(earlier: (&Manifest, &ReadIndex), manifest: &Manifest) -> ReadIndex {
    let reused = ReadIndex::after(Some(earlier), manifest, &DamagedFiles::new());
    let new = ReadIndex::new(manifest);
    assert_eq!(reused.common_horizon(), new.common_horizon());
    for table in manifest.tables.keys() {
        let [reused, new] = [&reused, &new].map(|index| format!("{:?}", index.ranges(*table)));
        assert_eq!(reused, new);
    }
    reused
}

/// The files of one run hold more than was known, as when they were made again.
fn healed(manifest: &Manifest, draw: &mut Draw) -> Manifest {
    let mut healed = manifest.clone();
    let runs: Vec<RunId> = healed.runs.keys().copied().collect();
    if let Some(id) = draw.pick(&runs) {
        let run = Arc::make_mut(healed.runs.get_mut(id).unwrap());
        for segment in &mut run.segments {
            Arc::make_mut(segment).bytes += 1 << 20;
        }
    }
    healed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reused_paths_are_those_made_anew(seed: u64) {
        let (mut story, mut draw) = (Story::new(), Draw(seed));
        story.create_table("first");
        let mut seen = story.manifest.clone();
        let mut index = ReadIndex::new(&seen);
        for _ in 0..100 {
            let Some(edit) = story.random_edit(&mut draw) else { continue };
            story.apply(edit);
            // Several edits may pass between two looks.
            match draw.below(4) {
                0 => continue,
                1 => {
                    let healed = healed(&story.manifest, &mut draw);
                    index = checked((&seen, &index), &healed);
                    seen = healed;
                }
                _ => {}
            }
            index = checked((&seen, &index), &story.manifest);
            seen = story.manifest.clone();
        }
    }
}

#[test]
fn a_range_that_an_edit_leaves_alone_keeps_its_paths() {
    let text = |merged: &str| {
        format!(
            "sealed 102 sorted 102
             table t
               range ..m
                 base 1..=100 64M
                 sorted 101 1M
                 sorted 102 1M
               range m..
                 base 1..=100 64M
                 sorted 101 1M
                 sorted 102 1M
                 {merged}"
        )
    };
    let before = literal::manifest(&text("")).unwrap();
    let mut after = literal::manifest(&text("merged 101..=102 2M")).unwrap();
    // An edit leaves the runs that it does not touch in place.
    after.runs.extend(before.runs.clone());
    let index = ReadIndex::new(&before);
    let next = checked((&before, &index), &after);
    let kept = |at: usize| {
        let [before, after] = [&index, &next].map(|index| &index.ranges(TableId(1)).unwrap()[at]);
        Arc::ptr_eq(before, after)
    };
    assert_eq!([kept(0), kept(1)], [true, false]);
}

/// Runs that lead only to boundaries behind all others go on from the paths to those.
#[test]
fn a_sorted_scu_goes_on_from_the_paths_that_were_there() {
    let text = |sorted: u64, more: &str| {
        format!(
            "sealed 104 sorted {sorted}
             table t
               range ..
                 base 1..=100 64M
                 sorted 101 1M
                 merged 101..=102 2M
                 sorted 102 1M
                 {more}"
        )
    };
    let (_, before) = index(&text(102, ""));
    let paths = &before.ranges(TableId(1)).unwrap()[0];
    let parts = "sorted 103 1M part=0
                 sorted 103 none part=1";
    for (more, goes_on) in [
        ("sorted 103 1M", true),
        ("sorted 103 none", true),
        (parts, true),
        ("merged 102..=103 2M ct=102", false),
    ] {
        let (manifest, new) = index(&text(103, more));
        let state = &manifest.tables[&TableId(1)];
        let longer = paths.longer(&manifest, state, 0, 4);
        assert_eq!(longer.is_some(), goes_on, "{more}");
        if let Some(longer) = longer {
            let new = &new.ranges(TableId(1)).unwrap()[0];
            assert_eq!(format!("{longer:?}"), format!("{new:?}"), "{more}");
        }
    }
}
