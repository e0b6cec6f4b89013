//! What is refused as a whole: folders in use by another process or written by a newer version,
//! batches beyond the limit. The error says why, and nothing in the folder changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::run::Place;

const INSERT: &str = "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)";

fn filled() -> Place {
    let place = Place::new();
    place.ok(&["sql", "-c", INSERT]);
    place
}

/// A process that has the folder open, and waits.
fn owner(place: &Place) -> Child {
    let mut command = place.command(&["sql", "--quiet", "--format", "csv"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut owner = command.spawn().unwrap();
    let input = owner.stdin.as_mut().unwrap();
    input.write_all(b"SELECT count(*) AS n FROM t;\n").unwrap();
    input.flush().unwrap();
    let mut lines = BufReader::new(owner.stdout.as_mut().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "n");
    assert_eq!(lines.next().unwrap().unwrap(), "2");
    owner
}

#[test]
fn a_second_process_is_told_who_has_the_folder() {
    let place = filled();
    let mut owner = owner(&place);
    let whom = format!("in use by process {} (lazybase)", owner.id());
    let csv = place.file("a.csv", "id\n3\n");
    for args in [
        &["sql", "-c", "DELETE FROM t"][..],
        &["load", "t", &csv],
        &["status"],
        &["verify"],
    ] {
        let error = place.fails(args);
        assert!(error.contains(&whom), "{args:?}: {error}");
        assert!(error.contains("hint: "), "{args:?}: {error}");
    }
    // The owner goes on as if nothing had been.
    let input = owner.stdin.as_mut().unwrap();
    input.write_all(b"INSERT INTO t VALUES (3);\n").unwrap();
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
}

#[test]
fn a_killed_owner_keeps_nobody_out() {
    let place = filled();
    let mut owner = owner(&place);
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(place.rows("SELECT count(*) FROM t"), "2\n");
    assert!(place.ok(&["verify"]).contains("whole"));
}

/// All files of a database with their bytes, but for those that only say who has it open.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for part in ["manifest", "segments", "log"] {
        let Ok(entries) = std::fs::read_dir(folder.join(part)) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.to_str().unwrap().to_owned();
            // What a killed process had half written goes when the folder is opened.
            if !name.contains(".tmp-") {
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// No file.
const NOTHING: [&String; 0] = [];

/// The files that were made, changed or removed.
fn touched<'f>(
    before: &'f BTreeMap<String, Vec<u8>>,
    after: &'f BTreeMap<String, Vec<u8>>,
) -> Vec<&'f String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = |name: &&String| before.get(*name) != after.get(*name);
    names.into_iter().filter(changed).collect()
}

/// CRC-32C, bit by bit.
fn checksum<'b>(bytes: impl Iterator<Item = &'b u8>) -> u32 {
    !bytes.fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(sum & 1))
        })
    })
}

/// Gives a manifest file a format number so much higher, and the checksum that goes with it.
fn with_format(bytes: &[u8], more: u32) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (before, rest) = text.split_once("\"format\":").unwrap();
    let (format, rest) = rest.split_once(',').unwrap();
    let format = format.parse::<u32>().unwrap() + more;
    let mut bytes = format!("{before}\"format\":{format},{rest}").into_bytes();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let digits = end - 10..end - 2;
    let sum = checksum(bytes[..digits.start].iter().chain(&bytes[digits.end..]));
    bytes[digits].copy_from_slice(format!("{sum:08x}").as_bytes());
    bytes
}

#[test]
fn a_folder_of_a_newer_version_is_refused_and_left_alone() {
    let place = filled();
    // The newest edit is one that no checkpoint tells.
    let mut owner = owner(&place);
    owner.kill().unwrap();
    owner.wait().unwrap();
    let database = place.path("db");
    let files = content(&database);
    for kind in [".edit", ".checkpoint"] {
        let newest = files.keys().rfind(|name| name.ends_with(kind)).unwrap();
        let same = with_format(&files[newest], 0);
        assert!(same == files[newest], "the checksum is the format's own");
        std::fs::write(newest, with_format(&files[newest], 1)).unwrap();
        let before = content(&database);
        for args in [&["sql", "-c", "SELECT 1"][..], &["status"], &["verify"]] {
            let error = place.fails(args);
            assert!(error.contains("newer version"), "{args:?}: {error}");
            assert!(error.contains(kind), "{args:?}: {error}");
        }
        // Repair sends nobody to giving up what is whole.
        let repair = place.run(&["repair", "--dry-run"]);
        assert!(repair.out.contains("newer version"), "{}", repair.out);
        assert!(!repair.out.contains("--set-aside"), "{}", repair.out);
        let told = "open the database with the version that wrote it\n";
        assert!(repair.out.ends_with(told), "{}", repair.out);
        place.fails(&["repair", "--set-aside"]);
        assert_eq!(touched(&before, &content(&database)), NOTHING);
        std::fs::write(newest, same).unwrap();
    }
    assert_eq!(place.rows("SELECT count(*) FROM t"), "2\n");
}

#[test]
fn a_log_of_a_newer_version_is_refused_and_left_alone() {
    let place = filled();
    let mut owner = owner(&place);
    owner
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"INSERT INTO t VALUES (3); SELECT 'done' AS x;\n")
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "done"));
    owner.kill().unwrap();
    owner.wait().unwrap();
    let database = place.path("db");
    let mut changed = 0;
    for (name, mut bytes) in content(&database) {
        if name.ends_with(".log") && bytes.starts_with(b"LAZYLOG\n") {
            bytes[8] += 1;
            let sum = checksum(bytes[..12].iter().chain(&bytes[16..64]));
            bytes[12..16].copy_from_slice(&sum.to_le_bytes());
            std::fs::write(&name, bytes).unwrap();
            changed += 1;
        }
    }
    assert!(changed > 0, "the log was written");
    let error = place.fails(&["sql", "-c", "SELECT 1"]);
    assert!(error.contains("newer version"), "{error}");
    assert!(error.contains(".log"), "{error}");
}

#[test]
fn what_is_no_database_is_refused() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("db/segments")).unwrap();
    std::fs::write(place.path("db/segments/a.ext"), "x").unwrap();
    let error = place.fails(&["sql", "-c", "SELECT 1"]);
    assert!(error.contains("no manifest"), "{error}");
    let place = Place::new();
    place.file("db", "a file");
    let error = place.fails(&["sql", "-c", "SELECT 1"]);
    assert!(error.contains("not a folder"), "{error}");
}

#[test]
fn no_database_is_made_among_other_files() {
    let place = Place::new();
    let folder = place.path("db");
    std::fs::create_dir_all(folder.join("tmp")).unwrap();
    std::fs::write(folder.join("tmp/mine"), "kept").unwrap();
    std::fs::write(folder.join("notes.txt"), "kept").unwrap();
    let file = place.file("a.csv", "n\n1\n");
    for args in [&["sql", "-c", "SELECT 1"][..], &["load", "t", &file]] {
        let error = place.fails(args);
        let fact = format!("{} is not empty, and is no database", folder.display());
        assert!(error.contains(&fact), "{error}");
        assert!(error.contains("\"notes.txt\" and 1 more"), "{error}");
        assert!(error.contains("hint: name the folder"), "{error}");
    }
    let left = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(left, 2, "nothing was made or removed");

    std::fs::remove_file(folder.join("notes.txt")).unwrap();
    let error = place.fails(&["sql", "-c", "SELECT 1"]);
    assert!(error.contains("it holds \"tmp\"\n"), "{error}");
    assert!(folder.join("tmp/mine").exists());
}

#[test]
fn a_database_is_made_where_nothing_is_or_an_earlier_attempt_broke_off() {
    let place = Place::new();
    let folder = place.path("db");
    std::fs::create_dir(&folder).unwrap();
    place.ok(&["sql", "-c", "CREATE TABLE t (k INT PRIMARY KEY)"]);
    // What users put beside a database's files keeps nobody out.
    std::fs::write(folder.join("notes.txt"), "mine").unwrap();
    assert_eq!(place.rows("SELECT count(*) FROM t"), "0\n");

    let place = Place::new();
    let folder = place.path("db");
    std::fs::create_dir_all(folder.join("tmp")).unwrap();
    std::fs::create_dir_all(folder.join("log")).unwrap();
    for left in ["LOCK", "OWNER", "OWNER.tmp-0"] {
        std::fs::write(folder.join(left), "").unwrap();
    }
    place.ok(&["sql", "-c", "CREATE TABLE t (k INT PRIMARY KEY)"]);
}

#[test]
fn a_file_beyond_the_largest_batch_is_refused_and_the_limit_can_be_raised() {
    let place = Place::new();
    let lines: String = (0..1000).map(|n| format!("{n}\n")).collect();
    let file = place.file("a.csv", &format!("n\n{lines}"));
    let load = |limit: &str| {
        let mut command = place.command(&["load", "t", &file, "--on-error", "reject-file"]);
        command.env("LAZYBASE_BATCH_BYTES_MAX", limit);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let (done, said) = load("1000");
    assert!(!done && said.contains("larger than 1000 bytes"), "{said}");
    assert!(
        said.contains("hint: ") && said.contains("batch_bytes_max"),
        "{said}"
    );
    assert_eq!(
        place.rows("SELECT count(*) FROM lazybase.tables WHERE name = 't'"),
        "0\n"
    );
    let (done, said) = load("many");
    assert!(!done && said.contains("not a number of bytes"), "{said}");
    let (done, said) = load("100000");
    assert!(done, "{said}");
    assert_eq!(place.rows("SELECT count(*) FROM t"), "1000\n");
}
