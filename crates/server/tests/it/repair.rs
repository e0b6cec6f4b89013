//! `repair`: what it says of damaged folders, and by its status.

use crate::commands::filled;
use crate::run::Place;

/// The exit status of a run.
fn status(place: &Place, args: &[&str]) -> Option<i32> {
    place.command(args).output().unwrap().status.code()
}

#[test]
fn repair_says_by_its_status_what_is_healed_and_what_is_lost() {
    let place = filled();
    place.ok(&["sql", "-c", "SETTLE"]);
    assert_eq!(status(&place, &["repair", "--dry-run"]), Some(0));
    let damage = || {
        let segments = place.path("db/segments");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(segments).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "parquet") {
                let bytes = std::fs::read(&path).unwrap();
                std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
                found.push(path);
            }
        }
        assert!(!found.is_empty());
    };
    damage();
    assert_eq!(status(&place, &["repair", "--dry-run"]), Some(3));
    let said = place.run(&["repair"]);
    assert!(said.ok, "{}{}", said.out, said.err);
    assert!(
        said.out
            .contains("healed: table \"t\", SCUs 1..=1, keys (1) to (3)"),
        "{}",
        said.out
    );
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
    // Without a retention nothing is left to heal it from.
    let mut run = place.command(&["sql", "-c", "SETTLE; SELECT count(*) FROM t"]);
    assert!(
        run.env("LAZYBASE_RETENTION", "0")
            .status()
            .unwrap()
            .success()
    );
    for _ in 0..2 {
        let mut run = place.command(&["sql", "-c", "SELECT count(*) FROM t"]);
        assert!(
            run.env("LAZYBASE_RETENTION", "0")
                .status()
                .unwrap()
                .success()
        );
    }
    let inspected = place.ok(&["inspect", "--all"]);
    damage();
    let dry = place.run(&["repair", "--dry-run"]);
    let lost = status(&place, &["repair", "--format", "json"]);
    assert_eq!(lost, Some(4), "{}{inspected}", dry.out);
    assert!(
        dry.out.contains("lost: table \"t\""),
        "{}{inspected}",
        dry.out
    );
    let err = place.fails(&["sql", "-c", "SELECT count(*), max(name) FROM t"]);
    assert!(err.contains("no earlier stage holds these rows"), "{err}");
    let err = place.fails(&["sql", "-c", "VERIFY TABLE t"]);
    for part in [
        "segments/",
        "table \"t\"",
        "SCUs ",
        "no earlier stage holds",
    ] {
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn repair_tells_of_the_past_that_nothing_holds_any_more() {
    let place = Place::new();
    let create = "CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)";
    let first = "INSERT INTO t VALUES (1, 'a'), (2, 'b'); SETTLE";
    let second = "INSERT INTO t VALUES (2, 'c'), (3, 'd'); SETTLE";
    place.ok(&["sql", "-c", &format!("{create}; {first}; {second}")]);
    // What only SCU 1 is read from: its runs, and its frame of the log.
    let named = place.ok(&["inspect"]);
    for entry in std::fs::read_dir(place.path("db/segments")).unwrap() {
        let path = entry.unwrap().path();
        if !named.contains(path.file_name().unwrap().to_str().unwrap()) {
            std::fs::remove_file(path).unwrap();
        }
    }
    let log = place.path("db/log/0000000000000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let lost = "lost: table \"t\", SCUs 1..=1, keys (1) to (2), of the past only: ";
    let dry = place.run(&["repair", "--dry-run"]).out;
    assert!(dry.contains(lost), "{dry}");
    let done = place.command(&["repair"]).output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(4), "{out}");
    assert!(out.contains(lost), "{out}");
    assert!(out.ends_with(": all that is left is whole\n"), "{out}");
    // It is told once; the newest rows never were in danger.
    let again = place.ok(&["repair"]);
    assert!(again.ends_with(": all of it is whole\n"), "{again}");
    assert_eq!(place.rows("SELECT count(*), max(name) FROM t"), "3,d\n");
    let err = place.fails(&["sql", "-c", "SELECT * FROM t AS OF SCU 1"]);
    assert!(err.contains("no longer kept"), "{err}");
}

#[test]
fn a_database_that_does_not_open_is_opened_by_setting_aside() {
    let place = filled();
    place.kill_after("SELECT 1");
    let name = edits(&place).pop().unwrap();
    let name = name.as_str();
    std::fs::write(place.path("db/manifest").join(name), b"nothing").unwrap();
    let refused = place.fails(&["status"]);
    assert!(refused.contains(name), "{refused}");
    assert!(
        refused.contains("hint: `lazybase repair --dry-run`"),
        "{refused}"
    );
    let dry = place.run(&["repair", "--dry-run"]);
    assert!(
        dry.out.contains("does not open") && dry.out.contains(name),
        "{}",
        dry.out
    );
    assert!(dry.out.contains("--set-aside"), "{}", dry.out);
    assert_eq!(status(&place, &["repair"]), Some(4));
    assert_eq!(status(&place, &["repair", "--set-aside"]), Some(4));
    let kept = place
        .path("db/set-aside/manifest")
        .join(format!("{name}.kept"));
    assert_eq!(std::fs::read(kept).unwrap(), b"nothing");
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
    assert_eq!(status(&place, &["repair"]), Some(0));
}

#[test]
fn repair_names_a_log_once_and_does_not_send_to_itself() {
    let place = filled();
    place.ok(&["sql", "-c", "SETTLE"]);
    let log = "log/0000000000000001.log";
    std::fs::remove_file(place.path("db").join(log)).unwrap();
    let dry = place.run(&["repair", "--dry-run"]);
    let line = dry.out.lines().next().unwrap_or_default();
    assert!(line.starts_with("can be healed: SCUs 1..=1: "), "{line}");
    assert!(line.ends_with(": no such file"), "{line}");
    assert_eq!(line.matches(log).count(), 1, "{line}");
}

/// The names of the manifest's files, oldest first; not what a killed process has left of one that
/// it was about to write.
fn edits(place: &Place) -> Vec<String> {
    let listed = std::fs::read_dir(place.path("db/manifest")).unwrap();
    let mut names: Vec<String> = listed
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".edit") || name.ends_with(".checkpoint"))
        .collect();
    names.sort();
    names
}

#[test]
fn edits_that_are_gone_are_given_up_and_not_said_to_be_healed() {
    let remove = |place: &Place, edit: &str| {
        std::fs::remove_file(place.path("db/manifest").join(edit)).unwrap();
    };
    let more = "CREATE TABLE u (a INT); CREATE TABLE v (a INT); CREATE TABLE w (a INT)";
    // One of which a newer one is there, which is moved. There is a checkpoint before them.
    let place = filled();
    place.kill_after(&format!("{more}; INSERT INTO t VALUES (1, 'b')"));
    let all = edits(&place);
    assert!(all.iter().any(|name| name.ends_with(".checkpoint")));
    let newest = &all[all.len() - 1];
    remove(&place, &all[all.len() - 2]);
    let out = given_up(&place, &all[all.len() - 2..]);
    let moved = format!("set aside: manifest/{newest}\n");
    assert!(out.contains(&moved), "{out}");
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
    // Two of them: what is left of the one does not open for the other.
    let place = filled();
    place.kill_after(&format!("{more}; INSERT INTO t VALUES (4, 'd')"));
    let all = edits(&place);
    let (older, gone) = (&all[all.len() - 3], &all[all.len() - 2]);
    remove(&place, gone);
    std::fs::write(place.path("db/manifest").join(older), b"nothing").unwrap();
    let out = given_up(&place, &all[all.len() - 2..]);
    let moved = format!("set aside: manifest/{older}\n");
    assert!(out.contains(&moved), "{out}");
    assert_eq!(place.rows("SELECT count(*) FROM t"), "4\n");
    // The newest ones, of which the log alone tells: there is nothing to move.
    let place = filled();
    let before = edits(&place);
    place.kill_after("INSERT INTO t VALUES (4, 'd')");
    let mut gone = edits(&place);
    gone.retain(|edit| !before.contains(edit));
    gone.iter().for_each(|edit| remove(&place, edit));
    let out = given_up(&place, &gone);
    assert!(!out.contains("set aside: "), "{out}");
    assert_eq!(place.rows("SELECT count(*) FROM t"), "4\n");
}

/// A closed database tells its manifest twice.
#[test]
fn no_single_file_of_a_closed_databases_manifest_is_missed() {
    for kind in [".edit", ".checkpoint"] {
        let place = filled();
        let newest = edits(&place)
            .into_iter()
            .rfind(|name| name.ends_with(kind))
            .unwrap();
        std::fs::write(place.path("db/manifest").join(&newest), b"nothing").unwrap();
        assert_eq!(status(&place, &["repair", "--dry-run"]), Some(3));
        let dry = place.run(&["repair", "--dry-run"]).out;
        assert!(
            dry.contains(&format!("can be healed: manifest/{newest}: ")),
            "{dry}"
        );
        let verified = place.ok(&["verify"]);
        assert!(
            verified.contains(&format!("healed: manifest/{newest}: ")),
            "{verified}"
        );
        assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
        assert!(!place.ok(&["verify"]).contains("healed"));
        assert_eq!(status(&place, &["repair"]), Some(0));
    }
}

/// Sets aside what keeps a database from opening: one of the edits `gone` is missing. What repair
/// says.
fn given_up(place: &Place, gone: &[String]) -> String {
    let dry = place.run(&["repair", "--dry-run"]).out;
    let missing = gone
        .iter()
        .map(|edit| format!("manifest/{edit}: the file is missing"))
        .find(|missing| dry.contains(&format!("does not open: {missing}")))
        .expect(&dry);
    assert!(!dry.contains("hint: "), "{dry}");
    let done = place.command(&["repair", "--set-aside"]).output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(4), "{out}");
    assert!(out.contains(&format!("did not open: {missing}")), "{out}");
    assert!(out.contains("all that is left is whole"), "{out}");
    assert!(!out.contains("healed: manifest/"), "{out}");
    assert_eq!(status(place, &["repair"]), Some(0));
    out
}

#[test]
fn repair_names_who_has_the_database_and_looks_at_nothing() {
    let place = filled();
    let store = lazybase_engine::env::local::LocalStore::open(&place.path("db")).unwrap();
    for args in [&["repair"][..], &["repair", "--dry-run"]] {
        let said = place.fails(args);
        let process = format!("is in use by process {}", std::process::id());
        assert!(said.contains(&process), "{said}");
    }
    drop(store);
    assert_eq!(status(&place, &["repair", "--dry-run"]), Some(0));
}
