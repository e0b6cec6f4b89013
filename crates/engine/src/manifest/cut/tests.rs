//! Cuts of random stories keep every invariant, and name the segments of a path to their boundary.

use lazybase_model::{ErrorKind, ScuNumber};

use crate::manifest::testing::{Draw, Story};

#[test]
fn a_cut_keeps_every_invariant_or_says_what_is_kept() {
    let (mut cuts, mut refused) = (0, 0);
    for seed in 0..60 {
        let mut story = Story::new();
        story.create_table("t");
        let mut draw = Draw(seed);
        for _ in 0..60 {
            if let Some(edit) = story.random_edit(&mut draw) {
                let _ = story.try_apply(edit);
            }
        }
        let manifest = &story.manifest;
        for scu in 0..=manifest.sealed_through.0 + 1 {
            let boundary = ScuNumber(scu);
            match manifest.cut_at(boundary) {
                Ok(cut) => {
                    cuts += 1;
                    assert_eq!(cut.sealed_through, boundary, "seed {seed}");
                    let named = |manifest: &crate::manifest::Manifest| {
                        let runs = manifest.runs.values();
                        let segments = runs.flat_map(|run| run.segments.clone());
                        segments
                            .map(|segment| segment.file.clone())
                            .collect::<std::collections::BTreeSet<_>>()
                    };
                    assert!(named(&cut).is_subset(&named(manifest)), "seed {seed}");
                    assert!(cut.runs.values().all(|run| run.span.last <= boundary));
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.kind(), ErrorKind::NotFound, "seed {seed}: {error}");
                }
            }
        }
    }
    assert!(cuts > 100 && refused > 10, "{cuts} cuts, {refused} refused");
}
