//! `sql`, `export`, `status`, `inspect`, `verify`.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::{Place, alone, text};
use crate::server::PATIENCE;

const CREATE: &str = "CREATE TABLE t (id BIGINT, name TEXT, PRIMARY KEY (id))";

/// A folder whose database has a table of three rows.
pub(crate) fn filled() -> Place {
    let place = Place::new();
    let insert = "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c')";
    place.ok(&["sql", "-c", &format!("{CREATE}; {insert}")]);
    place
}

#[test]
fn data_goes_to_standard_output_and_stamps_to_standard_error() {
    let place = filled();
    let said = place.run(&[
        "sql",
        "--format",
        "csv",
        "-c",
        "SELECT * FROM t ORDER BY id",
    ]);
    assert_eq!(said.out, "id,name\n1,a\n2,\n3,c\n");
    assert!(said.err.contains("horizon"), "{}", said.err);
    assert!(said.err.contains("(asked 0), as of 2"), "{}", said.err);
    let json = place.ok(&[
        "sql",
        "--format",
        "json",
        "-c",
        "SELECT * FROM t WHERE id = 2",
    ]);
    assert_eq!(json, "{\"id\":2,\"name\":null}\n");
    let table = place.ok(&["sql", "-c", "SELECT count(*) AS n FROM t"]);
    assert_eq!(table, " n\n---\n 3\n(1 row)\n");
    let nested = "SELECT ARRAY['', NULL, 'NULL', 'a, b'] AS l, named_struct('x', NULL) AS s";
    let table = place.ok(&["sql", "-c", nested]);
    let row = "\n [\"\",null,\"NULL\",\"a, b\"] | {\"x\":null}\n";
    assert!(table.contains(row), "{table}");
}

#[test]
fn scripts_stream_from_standard_input_and_files() {
    let place = filled();
    let script = "\\format csv\nSELECT\n  count(*) AS n\nFROM t;\nDELETE FROM t WHERE id = 1;\n\
        SELECT count(*) AS n FROM t";
    let said = place.run_with(&["sql"], script);
    assert!(said.ok, "{}", said.err);
    assert_eq!(said.out, "n\n3\nn\n2\n");
    let file = place.file("a.sql", "SELECT count(*) AS n FROM t;\n");
    assert_eq!(place.ok(&["sql", "--format", "csv", "-f", &file]), "n\n2\n");
}

#[test]
fn the_first_error_ends_a_script_with_a_failing_status() {
    let place = filled();
    let err = place.fails(&["sql", "-c", "SELECT nothing FROM t; DELETE FROM t"]);
    assert!(err.contains("nothing"), "{err}");
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
    let err = place.fails(&["sql", "-c", "BEGIN; DELETE FROM t"]);
    assert!(err.contains("not committed"), "{err}");
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
}

#[test]
fn a_database_must_be_named_and_there() {
    let said = alone(&["status"]);
    assert!(!said.ok && said.err.contains("LAZYBASE_DB"), "{}", said.err);
    Place::new().fails(&["status"]);
    assert!(!Place::new().run(&["nonsense"]).ok);
}

#[test]
fn what_is_exported_can_be_loaded() {
    let place = filled();
    for ending in ["parquet", "csv", "jsonl"] {
        let path = place.path(&format!("t.{ending}"));
        place.ok(&["export", "T", text(&path)]);
        let table = format!("t_{ending}");
        place.ok(&["load", &table, text(&path), "--key", "id"]);
        let rows = place.rows(&format!("SELECT id, name FROM {table} ORDER BY id"));
        assert_eq!(rows, "1,a\n2,\n3,c\n", "{ending}");
    }
    let path = place.path("q.csv");
    place.ok(&[
        "export",
        "--query",
        "SELECT 1 AS one WHERE false",
        text(&path),
    ]);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "one\n");
    place.fails(&["export", "absent", text(&place.path("x.csv"))]);
    assert!(!place.path("x.csv").exists());
}

#[test]
fn system_tables_are_exported_and_not_loaded() {
    let place = filled();
    let path = place.path("tables.csv");
    place.ok(&["export", "lazybase.tables", text(&path)]);
    let written = std::fs::read_to_string(&path).unwrap();
    let mut lines = written.lines();
    let header = lines.next().unwrap();
    assert!(header.split(',').any(|name| name == "name"), "{header}");
    let row = lines.next().unwrap();
    assert!(row.split(',').any(|value| value == "t"), "{row}");
    assert_eq!(lines.next(), None);
    place.ok(&["export", "lazybase.runs", text(&place.path("runs.parquet"))]);
    let said = place.fails(&["load", "LazyBase.tables", text(&path)]);
    assert!(said.contains("can only be read"), "{said}");
    let said = place.fails(&["export", "lazybase.nothing", text(&path)]);
    assert!(said.contains("nothing"), "{said}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
}

#[cfg(unix)]
#[test]
fn an_export_writes_to_what_is_no_file_and_where_links_lead() {
    let place = filled();
    let out = place.ok(&["export", "t", "/dev/stdout", "--format", "csv"]);
    assert_eq!(out, "id,name\n1,a\n2,\n3,c\n");
    let said = place.fails(&["export", "t", "/dev/full", "--format", "csv"]);
    assert!(said.contains("/dev/full"), "{said}");
    let link = place.path("link.csv");
    std::os::unix::fs::symlink("target.csv", &link).unwrap();
    for _ in 0..2 {
        place.ok(&["export", "t", text(&link)]);
        assert!(link.is_symlink());
        let written = std::fs::read_to_string(place.path("target.csv")).unwrap();
        assert_eq!(written, out);
    }
}

#[test]
fn an_export_changes_nothing() {
    let place = filled();
    let path = place.path("q.csv");
    for sql in ["DELETE FROM t", "DROP TABLE t", "SETTLE"] {
        let said = place.fails(&["export", "--query", sql, text(&path)]);
        assert!(said.contains("this is no query"), "{said}");
    }
    assert!(!path.exists());
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
}

/// Nothing is printed in halves, and no panic shown, where nobody reads.
#[cfg(target_os = "linux")]
#[test]
fn standard_output_that_is_full_is_an_error() {
    let place = filled();
    let rows = place.file("more.csv", "id,name\n9,x\n");
    for args in [&["load", "t", &rows][..], &["load", "t", &rows, "--json"]] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let done = place.command(args).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(said.contains("error: standard output"), "{said}");
    }
    assert_eq!(place.rows("SELECT count(*) FROM t"), "4\n");
}

/// As in `lazybase ... | head -1`.
#[cfg(unix)]
#[test]
fn data_that_nobody_reads_any_more_end_without_a_word() {
    use std::io::Read;
    let place = filled();
    let query = "SELECT x, x * 7 FROM generate_series(1, 1000000) AS s (x)";
    let copy = format!("COPY ({query}) TO '/dev/stdout'");
    let mut runs = vec![vec!["sql", "-c", query], vec!["sql", "-c", &copy]];
    for format in ["csv", "json"] {
        runs.push(vec!["sql", "--format", format, "-c", query]);
    }
    for format in ["csv", "jsonl", "parquet"] {
        runs.push(vec!["export", "--query", query, "-", "--format", format]);
    }
    for args in &runs {
        let mut command = place.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut read = child.stdout.take().unwrap();
        read.read_exact(&mut [0; 4]).unwrap();
        drop(read);
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(141), "{args:?}: {said}");
        assert_eq!(said, "", "{args:?}");
    }
    for args in [&["status"][..], &["inspect"], &["verify"]] {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let done = place.command(args).stdout(write).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(141), "{args:?}: {said}");
        assert_eq!(said, "", "{args:?}");
    }
}

#[test]
fn verify_says_which_views_it_compared() {
    let place = filled();
    let view = "CREATE MATERIALIZED VIEW by_name AS SELECT name, id FROM t ORDER BY name, id";
    place.ok(&["sql", "-c", &format!("{view}; SETTLE")]);
    let said = place.ok(&["verify"]);
    let line = "view \"by_name\" shows the 3 rows of its table, through SCU ";
    assert!(said.contains(line), "{said}");
    let said = place.ok(&["verify", "--format", "json"]);
    assert!(said.contains("\"outcome\":\"the same\""), "{said}");
}

#[test]
fn null_is_null_without_a_type() {
    let place = filled();
    assert_eq!(place.rows("SELECT NULL, 1, ''"), ",1,\"\"\n");
}

/// The names of the files in a folder.
#[cfg(unix)]
fn names_in(folder: &std::path::Path) -> Vec<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<Vec<u8>> = entries
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect();
    names.sort();
    names
}

#[cfg(unix)]
#[test]
fn an_export_takes_any_name_and_leaves_what_others_have() {
    use std::os::unix::ffi::OsStrExt;
    let place = filled();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.csv");
    let folder = place.path("names");
    std::fs::create_dir(&folder).unwrap();
    let export = |query: &str| {
        let mut command = place.command(&["export", "--query", query]);
        command.arg(folder.join(name)).output().unwrap()
    };
    let done = export("SELECT 1 AS one");
    assert!(done.status.success(), "{done:?}");
    assert_eq!(names_in(&folder), [b"caf\xe9.csv".to_vec()]);

    let partial = std::ffi::OsStr::from_bytes(b"caf\xe9.csv.partial");
    std::fs::write(folder.join(partial), "of somebody else").unwrap();
    assert!(export("SELECT 2 AS two").status.success());
    assert!(
        !export("SELECT 1 / x FROM generate_series(0, 0) AS s (x)")
            .status
            .success()
    );
    let left = [b"caf\xe9.csv".to_vec(), b"caf\xe9.csv.partial".to_vec()];
    assert_eq!(names_in(&folder), left);
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read(name), "two\n2\n");
    assert_eq!(read(partial), "of somebody else");
}

#[test]
fn the_inside_can_be_looked_at() {
    let place = filled();
    place.ok(&["sql", "-c", "SETTLE"]);
    assert!(place.ok(&["status"]).contains("authority"));
    assert!(place.ok(&["status", "--format", "json"]).starts_with('{'));
    assert!(place.ok(&["inspect"]).contains("table t "));
    assert!(place.ok(&["verify"]).contains("whole"));
    let system = place.ok(&["sql", "-c", "\\d lazybase.lag"]);
    assert!(system.contains("seconds_behind"), "{system}");
    let described = place.ok(&["sql", "-c", "\\d t"]);
    assert!(described.contains("primary key: id"), "{described}");
    let mut files = 0;
    for folder in ["manifest", "segments", "log"] {
        for entry in std::fs::read_dir(place.path("db").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            assert!(!place.ok(&["inspect", text(&path)]).is_empty());
            files += 1;
        }
    }
    assert!(files >= 3, "{files}");
    let lock = place.path("db").join("LOCK");
    assert!(
        place
            .ok(&["inspect", text(&lock)])
            .contains("lock of the folder")
    );
    for (mark, said) in [
        (
            "segments+a.ext",
            "mark that segments/a.ext holds wrong rows:\n",
        ),
        (
            "damaged+segments+a.ext",
            "mark that segments/a.ext was seen damaged, and waits to be made again:\n",
        ),
    ] {
        let path = place.file(mark, "why");
        let described = place.ok(&["inspect", &path]);
        assert!(described.contains(said), "{described}");
    }
    // What takes rows away has an SCU of its own, without a log.
    place.ok(&["sql", "-c", "TRUNCATE t"]);
    let inspected = place.ok(&["inspect"]);
    assert!(
        inspected.contains(": 0 batches, 0 rows, 0 B, sorted\n"),
        "{inspected}"
    );
    let backups = place.path("copies");
    place.ok(&["backup", "--to", text(&backups)]);
    let backup = backups.join("backups/00000001.backup");
    let described = place.ok(&["inspect", text(&backup)]);
    assert!(described.contains("backup 1, "), "{described}");
}

#[test]
fn what_the_manifest_says_is_told_in_words_or_as_json() {
    let place = Place::new();
    // Each time that the database is closed, edits of long ago go.
    let insert = "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c')";
    place.ok(&["sql", "-c", &format!("{CREATE}; {insert}; SETTLE")]);
    let mut words = String::new();
    for entry in std::fs::read_dir(place.path("db/manifest")).unwrap() {
        let path = entry.unwrap().path();
        let told = place.ok(&["inspect", text(&path)]);
        assert!(!told.contains('{'), "{told}");
        words += &told;
        assert!(
            place
                .ok(&["inspect", text(&path), "--json"])
                .starts_with("{\n")
        );
    }
    for told in [
        "checksum good\n",
        "SCU 1 is sealed: 1 batch, 3 rows, ",
        "SCU 1 is sorted\n",
    ] {
        assert!(words.contains(told), "{told}: {words}");
    }
    let whole = place.ok(&["inspect", "--json"]);
    assert!(
        whole.starts_with("{\n") && whole.contains("\"sealed_through\": 1"),
        "{whole}"
    );
    let lock = place.path("db").join("LOCK");
    let said = place.fails(&["inspect", text(&lock), "--json"]);
    assert!(said.contains("only what the manifest says"), "{said}");
}

#[test]
fn a_folder_is_not_inspected_as_a_file() {
    let place = filled();
    let database = place.path("db");
    let err = place.fails(&["inspect", text(&database)]);
    let expected = format!(
        "error: {} is a folder\ndetail: inspect shows a file of a database; without a FILE, the \
         manifest of the one that --db names\nhint: lazybase --db {} inspect\n",
        text(&database),
        text(&database)
    );
    assert_eq!(err, expected);
    let err = place.fails(&["inspect", "manifest"]);
    assert!(err.contains("manifest is a folder"), "{err}");
    assert!(err.contains("hint: name a file"), "{err}");
}

#[test]
fn a_damaged_segment_is_not_called_sound() {
    let place = filled();
    place.ok(&["sql", "-c", "SETTLE"]);
    let folder = place.path("db").join("segments");
    let entry = std::fs::read_dir(folder).unwrap().next();
    let path = entry
        .expect("settled rows lie in a segment")
        .unwrap()
        .path();
    assert!(place.ok(&["inspect", text(&path)]).contains("good"));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let err = place.fails(&["inspect", text(&path)]);
    assert!(err.contains("checksum"), "{err}");
}

#[test]
fn errors_show_the_place_and_the_way_out() {
    let place = filled();
    let err = place.fails(&["sql", "-c", "SELECT id\nFROM t WHERE id = = 2"]);
    assert!(
        err.contains("syntax error") && err.contains("\n  FROM t WHERE id = = 2\n"),
        "{err}"
    );
    assert!(!err.contains("Line:"), "{err}");
    let caret = err.lines().find(|line| line.trim() == "^");
    assert!(caret.is_some_and(|caret| caret.len() > 4), "{err}");
    for (text, place_told) in [
        (
            "SELECT id, nope FROM t",
            "line 1, column 12\n  SELECT id, nope FROM t\n             ^\n",
        ),
        (
            "SELECT 1;\n SELECT 'nope',\n* FROM nope",
            "line 3, column 8\n  * FROM nope\n         ^\n",
        ),
        (
            "SELECT id FROM",
            "line 1, column 15\n  SELECT id FROM\n                ^\n",
        ),
        (
            "INSERT INTO t (id, nope) VALUES (1, 2)",
            "line 1, column 20\n",
        ),
    ] {
        let err = place.fails(&["sql", "-c", text]);
        assert!(err.contains(place_told), "{err}");
    }
    // The shell's own statements are not the user's.
    let err = place.fails(&["sql", "-c", "\\d lazybase.nope"]);
    assert!(!err.contains('^'), "{err}");
    let err = place.fails(&["sql", "-c", "\\d absent"]);
    assert!(err.contains("hint: \\d lists the tables"), "{err}");
    let err = place.fails(&["sql", "-c", "\\nonsense"]);
    assert!(err.contains("unknown command \\nonsense\n"), "{err}");
    let absent = place.path("absent.csv");
    let err = place.fails(&["load", "t", text(&absent)]);
    assert_eq!(err.matches("absent.csv").count(), 1, "{err}");
}

const KEPT: &str = "CREATE TABLE kept (id BIGINT PRIMARY KEY, name TEXT CODEC zstd(5)) \
    WITH (freshness_target = '10 s', comment = 'of all times');
    CREATE MATERIALIZED VIEW by_name AS SELECT name, id FROM kept ORDER BY name, id;";

#[test]
fn a_plus_tells_all_that_is_known_of_tables() {
    let place = filled();
    place.ok(&["sql", "-c", KEPT]);
    let plain = place.ok(&["sql", "-c", "\\d kept"]);
    let all = place.ok(&["sql", "-c", "\\d+ kept"]);
    for told in [
        "codec",
        "zstd(5)",
        "1 key range\n",
        "made by:\n  CREATE TABLE kept (",
        "freshness_target = '10 s'",
        "  CREATE MATERIALIZED VIEW by_name AS SELECT",
    ] {
        assert!(all.contains(told), "{told}: {all}");
        assert!(!plain.contains(told), "{told}: {plain}");
    }
    assert!(all.contains("of all times\n"), "{all}");
    assert!(!place.ok(&["sql", "-c", "\\d"]).contains("of all times"));
    assert!(place.ok(&["sql", "-c", "\\d+"]).contains("of all times"));
}

/// Rows that are acknowledged and not sorted are no stored rows yet: they are told beside them.
#[test]
fn rows_that_are_not_sorted_yet_are_told() {
    let place = Place::new();
    let write = "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)";
    let run = |statements: &[&str]| {
        let each = statements.iter().flat_map(|text| ["-c", *text]);
        place.ok(&["sql", "-q"].into_iter().chain(each).collect::<Vec<_>>())
    };
    for list in ["\\d", "\\d t"] {
        let told = run(&["PAUSE STAGE sort", write, list]);
        assert!(told.contains("2 rows not sorted yet"), "{told}");
        let told = run(&["SETTLE TO SORTED", list]);
        assert!(!told.contains("not sorted yet"), "{told}");
        run(&["DROP TABLE t"]);
    }
}

#[test]
fn views_and_the_database_are_listed() {
    let place = filled();
    assert_eq!(place.ok(&["sql", "-c", "\\dv"]), "no materialized views\n");
    place.ok(&["sql", "-c", KEPT]);
    let views = place.ok(&["sql", "-c", "\\dv"]);
    let expected = "view     table  key       stored rows  size\n\
                    -------  -----  --------  -----------  ----\n\
                    by_name  kept   name, id            0   0 B\n";
    assert_eq!(views, expected);
    let listed = place.ok(&["sql", "-c", "\\l"]);
    let row: Vec<&str> = listed.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(row[..3], ["lazybase", "2", "1"], "{listed}");
    let query = "SELECT id FROM kept WHERE id < 3";
    place.ok(&["sql", "-c", &format!("CREATE VIEW few AS {query}")]);
    let views = place.ok(&["sql", "-c", "\\dv"]);
    assert!(views.starts_with(expected), "{views}");
    assert!(views.contains(&format!("few   {query}")), "{views}");
    let told = place.ok(&["sql", "-c", "\\d few"]);
    assert!(told.starts_with("view few\n"), "{told}");
    let made = format!("made by:\n  CREATE VIEW few AS {query};\n");
    assert!(told.ends_with(&made), "{told}");
    let listed = place.ok(&["sql", "-c", "\\l"]);
    let row: Vec<&str> = listed.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(row[..3], ["lazybase", "2", "2"], "{listed}");
    place.ok(&["sql", "-c", "DROP VIEW few"]);
}

#[test]
fn columns_that_number_themselves_are_told() {
    let place = filled();
    let columns = "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \"N\" SERIAL";
    place.ok(&["sql", "-c", &format!("CREATE TABLE numbered ({columns})")]);
    let told = place.ok(&["sql", "-c", "\\d numbered"]);
    assert!(told.contains("GENERATED ALWAYS AS IDENTITY"), "{told}");
    let default = "nextval('\"numbered_N_seq\"'::regclass)";
    assert!(told.contains(default), "{told}");
}

#[test]
fn rows_can_be_written_as_lines_of_their_own() {
    let script = "\\x on\nSELECT * FROM t WHERE id = 2;\n\\x off\nSELECT count(*) AS n FROM t;\n";
    let said = filled().run_with(&["sql"], script);
    let expected = "-- row 1\n id   | 2\n name | NULL\n(1 row)\n n\n---\n 3\n(1 row)\n";
    assert_eq!(said.out, expected, "{}", said.err);
    let plan = filled().ok(&["sql", "-c", "EXPLAIN SELECT count(*) FROM t"]);
    assert!(
        plan.contains("\n horizon 1, complete (asked 0)\n"),
        "{plan}"
    );
    assert!(!plan.contains("\\n"), "{plan}");
}

#[test]
fn inspect_leaves_out_what_is_superseded() {
    let place = filled();
    place.ok(&["sql", "-c", "SETTLE; INSERT INTO t VALUES (4, 'd'); SETTLE"]);
    let short = place.ok(&["inspect"]);
    assert!(
        short.contains("superseded, ") && short.contains("--all"),
        "{short}"
    );
    let all = place.ok(&["inspect", "--all"]);
    assert!(all.lines().count() > short.lines().count(), "{all}");
    assert!(!all.contains("..="), "{all}");
}

#[test]
fn a_bench_has_its_figures_and_leaves_the_database_alone() {
    let place = filled();
    let said = place.ok(&["bench", "--rows", "1000", "--reads", "10", "--json"]);
    let figures: serde_json::Value = serde_json::from_str(&said).unwrap();
    for figure in ["write_rows_s", "settle_s", "scan_rows_s", "point_median_us"] {
        assert!(
            figures[figure].as_f64().is_some_and(|value| value > 0.0),
            "{said}"
        );
    }
    assert_eq!(place.rows("SELECT name FROM lazybase.tables"), "t\n");
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 1);
}

#[test]
fn the_help_shows_where_to_begin() {
    let said = alone(&["--help"]);
    assert!(
        said.ok && said.out.contains("lazybase demo"),
        "{}",
        said.out
    );
}

#[test]
fn data_follow_copy_from_stdin() {
    let place = Place::new();
    place.ok(&["sql", "-c", CREATE]);
    let script = "COPY t FROM STDIN;\n1,a\n2,\"\"\n\\.\nSELECT count(*) AS n FROM t;\n\
        COPY t (id) FROM STDIN WITH (FORMAT json);\n{\"id\":3}\n";
    let said = place.run_with(&["sql", "--format", "csv"], script);
    assert!(said.ok, "{}", said.err);
    assert_eq!(said.out, "n\n2\n");
    assert!(said.err.contains("COPY 2, token"), "{}", said.err);
    let copy = "COPY t FROM STDIN; SELECT count(*) AS n FROM t";
    let said = place.run_with(&["sql", "--format", "csv", "-c", copy], "4,d\n5,\n");
    assert!(said.ok, "{}", said.err);
    assert_eq!(said.out, "n\n5\n");
    let rows = place.rows("SELECT id, name IS NULL FROM t ORDER BY id");
    assert_eq!(rows, "1,false\n2,false\n3,true\n4,false\n5,true\n");
    // One batch: nothing of broken data stays.
    let said = place.run_with(&["sql", "-c", "COPY t FROM STDIN"], "6,x\nseven,y\n");
    assert!(
        !said.ok && said.err.contains("standard input"),
        "{}",
        said.err
    );
    assert!(said.err.contains("row 2"), "{}", said.err);
    assert_eq!(place.rows("SELECT count(*) FROM t"), "5\n");
    let file = place.file(
        "a.sql",
        "COPY t FROM STDIN;\n8,h\n\\.\nDELETE FROM t WHERE id < 8;\n",
    );
    place.ok(&["sql", "-f", &file]);
    assert_eq!(place.rows("SELECT id, name FROM t"), "8,h\n");
}

#[test]
fn an_interrupted_copy_keeps_nothing() {
    let place = filled();
    let mut command = place.command(&["sql", "-c", "COPY t FROM STDIN"]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // More than a pipe and a buffer hold: once they are taken, the next ones are waited for.
    let rows = (10..5_000).map(|id| format!("{id},{}\n", "x".repeat(40)));
    input
        .write_all(rows.collect::<String>().as_bytes())
        .unwrap();
    let id = child.id().to_string();
    let told = Command::new("kill").args(["-INT", &id]).status();
    assert!(told.unwrap().success());
    // It looks up with each row that comes, and reads no more once it has heard.
    let until = Instant::now() + PATIENCE;
    while input.write_all(b"5000,x\n").is_ok() {
        assert!(Instant::now() < until, "it does not hear");
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("error: cancelled by the user"), "{err}");
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
}

#[test]
fn parquet_comes_through_standard_input_but_not_amid_a_script() {
    let place = filled();
    let file = place.path("t.parquet");
    place.ok(&["export", "t", text(&file)]);
    let bytes = std::fs::read(&file).unwrap();
    place.ok(&["sql", "-c", "DELETE FROM t"]);
    let copy = "COPY t FROM STDIN WITH (FORMAT parquet)";
    let said = place.run_with_bytes(&["sql", "-c", copy], &bytes);
    assert!(said.ok, "{}", said.err);
    assert_eq!(place.rows("SELECT count(*) FROM t"), "3\n");
    let script = place.file("a.sql", &format!("{copy};\nPAR1\n"));
    let err = place.fails(&["sql", "-f", &script]);
    assert!(err.contains("can't stand in a script"), "{err}");
}

#[test]
fn an_error_of_a_script_names_its_line() {
    let place = filled();
    let copy = "COPY t FROM STDIN WITH (FORMAT csv);\n7,seven\n\\.";
    let script = format!("SELECT 1;\n\n{copy}\nSELECT 2; SELECT\n  FROM );\n");
    let file = place.file("lines.sql", &script);
    let err = place.fails(&["sql", "-f", &file]);
    assert!(err.contains("lines.sql: line 6: syntax error"), "{err}");
    assert!(err.contains("line 7, column 8"), "{err}");
    let file = place.file(
        "missing.sql",
        "SELECT 1;\n-- a word\nSELECT * FROM nothing;\n",
    );
    let err = place.fails(&["sql", "-f", &file]);
    assert!(err.contains("missing.sql: line 3: "), "{err}");
}

#[test]
fn an_error_of_standard_input_names_its_line() {
    let place = filled();
    let fails = |script: &str| {
        let said = place.run_with(&["sql"], script);
        assert!(!said.ok, "{}", said.out);
        said.err
    };
    let err = fails("SELECT 1;\n\nSELECT 2; SELECT *\nFROM nothing;\n");
    let missing = "error: line 3: there is no table \"nothing\"\n";
    assert!(err.contains(missing), "{err}");
    let err = fails("SELECT 1;\nSELECT\n  FROM );\n");
    assert!(err.contains("error: line 2: syntax error"), "{err}");
    assert!(err.contains("line 3, column 8"), "{err}");
    let err = fails("SELECT 1;\n\\d nothing\n");
    assert!(err.contains("error: line 2: there is no table"), "{err}");
    let err = fails("SELECT 1;\nSELECT\n'a;\n");
    assert!(err.contains("error: line 2: unterminated"), "{err}");
    assert!(err.contains("detail: it begins at line 3"), "{err}");
    let err = place.fails(&["sql", "-c", "SELECT * FROM nothing"]);
    assert!(err.contains("error: there is no table"), "{err}");
}

#[test]
fn the_status_says_who_waits_and_who_holds_snapshots() {
    let place = filled();
    let status = place.ok(&["status"]);
    assert!(status.contains("writers are not held back"), "{status}");
    assert!(status.contains("no snapshot is held"), "{status}");
    let script = "SET application_name = 'report'; BEGIN; SELECT count(*) FROM t;\n\
        \\status\nROLLBACK; PAUSE STAGE MERGE;\n\\status\n";
    let said = place.run_with(&["sql"], script);
    assert!(said.out.contains("held by \"report\""), "{}", said.out);
    assert!(said.out.contains("paused: merge"), "{}", said.out);
    // Nothing draws bars where nobody looks.
    let said = place.run(&["sql", "-c", "SETTLE"]);
    assert_eq!(said.err, "SETTLE\n");
}
