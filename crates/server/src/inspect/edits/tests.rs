//! Tests of `edits`: among the golden files of the manifest is every kind of edit.

use std::path::{Path, PathBuf};

use lazybase_engine::manifest::file::{Content, FileKind, decode};

use super::edit_text;

fn folder(format: u32) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/manifest");
    golden.join(format!("format-{format}"))
}

/// A golden edit in words.
fn golden(format: u32, number: u64) -> String {
    let name = FileKind::Edit.file_name(number);
    let path = folder(format).join(name.trim_start_matches("manifest/"));
    let bytes = std::fs::read(path).unwrap();
    match decode(&name, &bytes).unwrap() {
        (_, Content::Edit(edit)) => edit_text(&edit),
        (_, Content::Checkpoint(_)) => panic!("{name} is an edit"),
    }
}

#[test]
fn every_golden_edit_has_words() {
    let mut told = 0;
    for format in 1..=7 {
        for entry in std::fs::read_dir(folder(format)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(number) = name.strip_suffix(".edit") else {
                continue;
            };
            let text = golden(format, number.parse().unwrap());
            assert!(text.len() > 10 && text.ends_with('\n'), "{name}: {text}");
            assert!(!text.contains('{'), "{name}: {text}");
            told += 1;
        }
    }
    assert!(told > 200, "{told}");
}

#[test]
fn the_stages_tell_their_work() {
    assert_eq!(
        golden(7, 6),
        "SCU 1 is sealed: 3 batches, 30 rows, 2.9 KiB\n  \
         acknowledged from 1970-01-01 00:00:04 UTC to 1970-01-01 00:00:04 UTC; the database has \
         3 batches by its end\n  \
         table t1: 30 stored rows\n  \
         committed in log/0000000000000001.log, bytes 0 to 4096\n  \
         producer \"loader\": last batch 1\n"
    );
    assert_eq!(
        golden(7, 11),
        "SCU 2 is sorted\n  \
         view v1\n    \
         run 5: sorted, SCU 2, 10 stored rows, 1000 B\n      \
         segments/r5.ext: extents, 10 stored rows, 1000 B\n    \
         run 6: sorted, SCU 2, 10 stored rows, 1000 B\n      \
         segments/r6.ext: extents, 10 stored rows, 1000 B\n"
    );
    assert_eq!(golden(7, 18), "SCU 4 is sorted: it changes no table\n");
    assert_eq!(
        golden(7, 13),
        "the first range of view v1 is cut in two at 0164\n"
    );
    assert_eq!(
        golden(7, 15),
        "runs 3, 5, 6 of the range from 0164 of view v1 are joined, at 1970-01-01 00:00:13 UTC\n  \
         into\n    \
         run 9: merged, SCUs 1 to 3, 10 stored rows, 1000 B\n      \
         segments/r9.ext: extents, 10 stored rows, 1000 B\n"
    );
    let text = golden(7, 17);
    let end = "  run 6 of the range from 0164 of view v1\n  logs of 2 SCUs, from 1 to 2\n";
    assert!(text.ends_with(end), "{text}");
    assert_eq!(
        golden(7, 33),
        "view v8 comes from the end of SCU 0 to that of SCU 7\n  \
         with all rows that there are then\n    \
         run 19: sorted, SCUs 1 to 7, 10 stored rows, 1000 B\n      \
         segments/view.ext: extents, 10 stored rows, 1000 B\n"
    );
    assert_eq!(
        golden(7, 42),
        "natural keys have numbers up to SCU 8\n  new ones in SCU 8, of key map t11\n"
    );
}

#[test]
fn definitions_and_rights_are_told() {
    let text = golden(7, 24);
    for line in [
        "a transaction is committed, at 1970-01-01 00:00:22 UTC\n  table t6 ends\n",
        "  all rows of table t3 end\n",
        "  table fourth (t4, primary view v4) begins\n    columns id bigint key, value bigint\n",
        "  its batch is the first of the next SCU\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let text = golden(7, 45);
    assert!(
        text.contains("  role \"anna\" (2) begins, may connect\n"),
        "{text}"
    );
    assert!(!text.contains("SCRAM"), "{text}");
    let text = golden(7, 46);
    let gone = "  role 2 is no member of role 1\n  role 2 ends\n";
    assert!(text.contains(gone), "{text}");
    assert_eq!(
        golden(7, 49),
        "producer \"feed\" opens a session: epoch 1, of role 3\n"
    );
}
