//! `backup` and `restore`, from the command line.

use lazybase_engine::env::local::LocalStore;
use serde_json::{Value, json};

use crate::commands::filled;
use crate::run::{alone, text};

#[test]
fn a_backup_goes_into_a_folder_of_its_own() {
    let place = filled();
    let foreign = place.path("photos");
    std::fs::create_dir_all(&foreign).unwrap();
    let photo = foreign.join("photo.tmp-1-2");
    std::fs::write(&photo, b"x").unwrap();
    for folder in ["db", "db/backups", "db/../db/segments/deep", "photos", ""] {
        let folder = place.path(folder);
        let folder = text(&folder);
        place.fails(&["backup", "--to", folder]);
        place.fails(&["sql", "-c", &format!("BACKUP TO '{folder}'")]);
        let said = alone(&["--db", folder, "restore", "--from", text(&place.path("db"))]);
        assert!(!said.ok, "{folder}");
    }
    assert!(photo.exists());
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1);
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
}

#[test]
fn a_table_with_ids_is_left_out_with_the_one_that_they_are_of() {
    let place = filled();
    let owner = "CREATE TABLE owners (id IDKEY, host TEXT, PRIMARY KEY (host))";
    let sizes = "CREATE TABLE sizes (host IDKEY REFERENCES owners, n BIGINT, PRIMARY KEY (host))";
    let insert = "INSERT INTO sizes VALUES (IDKEY('a'), 1)";
    place.ok(&["sql", "-c", &format!("{owner}; {sizes}; {insert}")]);
    let backups = place.path("backups");
    let backups = text(&backups);
    let without = ["backup", "--to", backups, "--without", "owners"];
    let refused = place.fails(&without);
    assert!(refused.contains("--without \"sizes\""), "{refused}");
    let both = [&without[..], &["--without", "sizes"]].concat();
    place.ok(&both);
    let folder = place.path("restored");
    let folder = text(&folder);
    let restored = alone(&["--db", folder, "restore", "--from", backups]);
    assert!(restored.ok, "{}", restored.err);
    // Tables can be made and read there.
    let sql = "CREATE TABLE more (k INT PRIMARY KEY); SELECT count(*) AS n FROM t";
    let said = alone(&["--db", folder, "sql", "--format", "csv", "-c", sql]);
    assert!(
        said.ok && said.out.ends_with("n\n3\n"),
        "{}{}",
        said.out,
        said.err
    );
}

#[test]
fn a_backup_is_restored_to_an_scu_and_to_a_time() {
    let place = filled();
    place.ok(&["sql", "-c", "SETTLE"]);
    let backups = place.path("backups");
    let backups = text(&backups);
    assert!(
        place
            .ok(&["backup", "--to", backups])
            .starts_with("backup 1:")
    );
    place.ok(&["sql", "-c", "INSERT INTO t VALUES (4, 'd')"]);
    place.ok(&["sql", "-c", &format!("BACKUP TO '{backups}'")]);
    let listed = alone(&["backup", "list", "--from", backups]);
    assert!(
        listed.ok && listed.out.lines().count() == 2,
        "{}{}",
        listed.out,
        listed.err
    );
    assert!(alone(&["backup", "verify", "--from", backups]).ok);
    // A folder without backups is no folder whose backups are whole.
    let database = place.path("db");
    let none = alone(&["backup", "verify", "--from", text(&database)]);
    assert!(
        !none.ok && none.err.contains("no backup in the folder"),
        "{}",
        none.err
    );
    let counts = |name: &str, more: &[&str]| {
        let folder = place.path(name);
        let folder = text(&folder);
        let args = [&["--db", folder, "restore", "--from", backups], more].concat();
        let said = alone(&args);
        assert!(said.ok, "{more:?}: {}", said.err);
        let count = [
            "--db",
            folder,
            "sql",
            "--format",
            "csv",
            "-c",
            "SELECT count(*) AS n FROM t",
        ];
        alone(&count).out
    };
    assert_eq!(counts("newest", &[]), "n\n4\n");
    assert_eq!(counts("first", &["--number", "1"]), "n\n3\n");
    assert_eq!(counts("scu", &["--as-of", "1"]), "n\n3\n");
    // The times that `list` shows are those that can be asked for.
    let first = listed.out.lines().next().unwrap();
    let (times, _) = first.split_once(" UTC").expect(first);
    let (from, to) = times.rsplit_once(" to ").expect(first);
    let (_, from) = from.split_once("from ").expect(first);
    assert_eq!(counts("from", &["--as-of", from]), "n\n3\n");
    assert_eq!(counts("to", &["--as-of", to]), "n\n3\n");
    let folder = place.path("newest");
    let again = alone(&["--db", text(&folder), "restore", "--from", backups]);
    assert!(
        !again.ok && again.err.contains("empty folder"),
        "{}",
        again.err
    );
    let folder = place.path("never");
    let never = alone(&[
        "--db",
        text(&folder),
        "restore",
        "--from",
        backups,
        "--as-of",
        "1999-01-01",
    ]);
    assert!(
        !never.ok && never.err.contains("no backup reaches") && never.err.contains(from),
        "{}",
        never.err
    );
}

#[test]
fn a_restore_that_fails_leaves_the_folder_for_the_next() {
    let place = filled();
    place.ok(&["sql", "-c", "SETTLE"]);
    let backups = place.path("backups");
    place.ok(&["backup", "--to", text(&backups)]);
    let entry = std::fs::read_dir(backups.join("segments")).unwrap().next();
    let path = entry
        .expect("settled rows lie in a segment")
        .unwrap()
        .path();
    let sound = std::fs::read(&path).unwrap();
    let mut damaged = sound.clone();
    damaged[40] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let folder = place.path("restored");
    let restore = ["--db", text(&folder), "restore", "--from", text(&backups)];
    let failed = alone(&restore);
    assert!(
        !failed.ok && failed.err.contains("segments/"),
        "{}",
        failed.err
    );
    std::fs::write(&path, sound).unwrap();
    let restored = alone(&restore);
    assert!(restored.ok, "{}", restored.err);
}

#[test]
fn old_backups_are_removed_with_the_files_that_no_other_needs() {
    let place = filled();
    let backups = place.path("backups");
    let folder = text(&backups);
    for sql in [
        "CREATE TABLE gone (k INT PRIMARY KEY); INSERT INTO gone VALUES (1)",
        "DROP TABLE gone; INSERT INTO t VALUES (4, 'd')",
        "INSERT INTO t VALUES (5, 'e')",
    ] {
        place.ok(&["sql", "-c", sql]);
        place.ok(&["backup", "--to", folder]);
    }
    let said = |command: &str, more: &[&str]| {
        alone(&[&["backup", command, "--from", folder][..], more].concat())
    };
    let json_of = |command: &str, more: &[&str]| -> Value {
        let said = said(command, &[more, &["--format", "json"]].concat());
        assert!(said.ok, "{}", said.err);
        serde_json::from_str(&said.out).unwrap()
    };
    let segments = || std::fs::read_dir(backups.join("segments")).unwrap().count();
    let (before, files) = (json_of("list", &[]), segments());
    assert_eq!(before["backups"].as_array().unwrap().len(), 3);
    let own = before["backups"][0]["own_bytes"].as_u64().unwrap();
    assert!(own > 0, "{before}");
    for wrong in [&["--keep", "0"], &["--keep", "-1"], &["--older-than", "30"]] {
        let refused = said("prune", wrong);
        assert!(!refused.ok && refused.err.contains("error: "), "{wrong:?}");
    }
    let none: [&[&str]; 5] = [
        &[],
        &["--keep", "3"],
        &["--older-than", "30d"],
        &["--older-than", "0s", "--keep", "3"],
        &["--older-than", "30d", "--keep", "1"],
    ];
    for limits in none {
        let said = said("prune", limits);
        let told = "removed 0 backups, 0 files, 0 B; 3 backups, ";
        let is_told = said.out.starts_with(told);
        assert!(said.ok && is_told, "{limits:?}: {}{}", said.out, said.err);
    }
    let dry = json_of("prune", &["--keep", "1", "--dry-run"]);
    assert_eq!(
        (&dry["removed"], &dry["kept"]),
        (&json!([1, 2]), &json!([3]))
    );
    assert!(dry["bytes"].as_u64().unwrap() > own, "{dry}");
    let taken = LocalStore::open(&backups).unwrap();
    let busy = said("prune", &["--keep", "1"]);
    assert!(
        !busy.ok && busy.err.contains("another backup"),
        "{}",
        busy.err
    );
    drop(taken);
    assert_eq!((json_of("list", &[]), segments()), (before, files));
    let pruned = said("prune", &["--older-than", "0s"]);
    assert!(pruned.ok, "{}", pruned.err);
    let lines: Vec<&str> = pruned.out.lines().collect();
    assert!(lines[0].starts_with("removed backup 1: SCUs "), "{lines:?}");
    assert!(lines[2].starts_with("removed 2 backups, "), "{lines:?}");
    assert!(lines[2].contains("; 1 backup, "), "{lines:?}");
    assert!(segments() < files);
    assert_eq!(json_of("list", &[])["backups"][0]["number"], 3);
    assert!(said("verify", &[]).ok);
    let restored = place.path("restored");
    let restore = ["--db", text(&restored), "restore", "--from", folder];
    assert!(alone(&restore).ok);
    let next = place.ok(&["backup", "--to", folder]);
    assert!(next.starts_with("backup 4:"), "{next}");
}

#[test]
fn nothing_is_removed_where_no_backups_are() {
    let place = filled();
    let missing = place.path("missing");
    for folder in [&missing, &place.path("db")] {
        let refused = alone(&["backup", "prune", "--from", text(folder), "--keep", "1"]);
        assert!(
            !refused.ok && refused.err.contains("error: "),
            "{}",
            refused.err
        );
    }
    assert!(!missing.exists());
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
}
