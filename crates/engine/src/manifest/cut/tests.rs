//! Cuts of random stories keep every invariant, and name the segments of a path to their boundary.

use lazybase_model::{ErrorKind, ScuNumber, Table, TableId, UsedTable, ViewQuery};

use crate::manifest::testing::{Draw, Story};
use crate::manifest::{Ddl, Edit, literal};

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

#[test]
fn a_cut_has_the_plain_views_of_what_was_there() {
    let mut story = Story::new();
    story.create_table("old");
    for _ in 0..2 {
        story.seal();
        story.sort(&[], 1);
    }
    story.create_table("new");
    story.seal();
    story.sort(&[], 1);
    let number = |story: &Story, name| story.manifest.table_named(name).unwrap().table.id;
    let (old, new) = (number(&story, "old"), number(&story, "new"));
    let view = |id: u32, name: &str, read: TableId| {
        let query = ViewQuery {
            text: format!("SELECT 1 FROM {name}"),
            renamed: false,
            uses: vec![UsedTable {
                name: name.to_owned(),
                table: read,
                columns: Vec::new(),
            }],
        };
        Ddl::CreatePlainView {
            view: Table::plain_view(TableId(id), name, Vec::new(), query),
        }
    };
    let next = story.manifest.next_table;
    story.apply(Edit::Transaction {
        ddl: vec![
            view(next, "of_old", old),
            view(next + 1, "of_new", new),
            view(next + 2, "of_view", TableId(next + 1)),
        ],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    let cut = story.manifest.cut_at(ScuNumber(1)).unwrap();
    let names: Vec<&str> = (cut.plain_views.values())
        .map(|view| view.name.as_str())
        .collect();
    assert_eq!(names, ["of_old"]);
    let now = story
        .manifest
        .cut_at(story.manifest.sorted_through)
        .unwrap();
    assert_eq!(now.plain_views, story.manifest.plain_views);
}

#[test]
fn what_is_restorable_is_one_stretch_up_to_the_newest() {
    let oldest = |text: &str| literal::manifest(text).unwrap().oldest_readable().0;
    // The old base leads to its own end alone: between it and the new one there is a gap.
    let gap = "sealed 112 sorted 112
        table t
          range ..
            base 1..=100 64M old=105
            base 1..=110 64M
            sorted 111 1M
            sorted 112 1M";
    assert_eq!(oldest(gap), 110);
    let manifest = literal::manifest(gap).unwrap();
    assert!(manifest.is_readable_at(ScuNumber(100)));
    assert!(!manifest.is_readable_at(ScuNumber(105)));
    let whole = "sealed 103 sorted 103
        table t
          range ..
            base 1..=100 64M old=105
            base 1..=103 64M
            sorted 101 1M old=104
            sorted 102 1M old=104
            sorted 103 1M old=105";
    assert_eq!(oldest(whole), 100);
    // A table that came later holds nothing back.
    let later = "sealed 103 sorted 103
        table t
          range ..
            base 1..=100 64M old=105
            base 1..=103 64M
            sorted 101 1M old=104
            sorted 102 1M old=104
            sorted 103 1M old=105
        table u after 102
          range ..
            base 1..=103 64M";
    assert_eq!(oldest(later), 100);
}
