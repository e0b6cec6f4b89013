//! `lazybase sql --url` and `lazybase status --url`: the same shell over the wire.

use crate::run::{Place, alone};
use crate::server::Server;

const TABLE: &str = "CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, price DECIMAL(10, 2),
    at TIMESTAMP, day DATE, ok BOOLEAN, tags TEXT[], u UUID, span INTERVAL, real DOUBLE)";
const ROWS: &str = "INSERT INTO t VALUES
    (1, 'a', 12.34, '2026-01-31 12:00:00.5', '2026-01-31', true, ['x', 'y'],
     '1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f', INTERVAL '1 day 2 hours', 0.5),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";

#[test]
fn answers_look_as_they_do_without_a_server() {
    let place = Place::new();
    place.ok(&["sql", "-c", &format!("{TABLE}; {ROWS}")]);
    let query = "SELECT *, id * 2 AS twice FROM t ORDER BY id; SELECT count(*) AS n FROM t;
        SELECT id FROM t WHERE false";
    let formats = ["table", "csv", "json"];
    let said = |run: &dyn Fn(&[&str]) -> crate::run::Said, format: &str| {
        let said = run(&["--format", format, "-c", query]);
        assert!(said.ok, "{format}: {}", said.err);
        let stamps = said
            .err
            .lines()
            .filter(|line| line.contains("horizon"))
            .count();
        (said.out, stamps)
    };
    let here = |args: &[&str]| place.run(&[&["sql"], args].concat());
    let expected = formats.map(|format| said(&here, format));
    let server = Server::start(&place, &[]);
    let there = |args: &[&str]| server.sql(args);
    for (format, expected) in formats.iter().zip(expected) {
        assert_eq!(said(&there, format), expected, "{format}");
    }
}

#[test]
fn writes_scripts_and_copy_work_over_the_wire() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let said = server.sql(&["-c", "CREATE TABLE t (k INT PRIMARY KEY, v TEXT)"]);
    assert!(
        said.ok && said.err.starts_with("CREATE TABLE\n"),
        "{}",
        said.err
    );
    let said = server.sql(&["-c", "INSERT INTO t VALUES (1, 'one'), (2, 'two')"]);
    assert!(said.err.starts_with("INSERT 0 2, token "), "{}", said.err);
    let script = "COPY t FROM STDIN;\n3,three\n4,\"\"\n\\.\nSELECT count(*) AS n FROM t;\n";
    let file = place.file("a.sql", script);
    let said = server.sql(&["--format", "csv", "-f", &file]);
    assert!(said.ok && said.out == "n\n4\n", "{}{}", said.out, said.err);
    assert!(said.err.starts_with("COPY 2, token "), "{}", said.err);
    let out = server.rows("COPY t TO STDOUT");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1,one", "2,two", "3,three", "4,\"\""]);
    let said = server.sql(&["-c", "BEGIN; DELETE FROM t"]);
    assert!(
        !said.ok && said.err.contains("not committed"),
        "{}",
        said.err
    );
    assert_eq!(server.rows("SELECT count(*) AS n FROM t"), "n\n4\n");
    let meta = place.file(
        "b.sql",
        "\\d\n\\d t\n\\d+\n\\d+ t\n\\dv\n\\l\n\\freshness best effort\n\\freshness\n\\status\n",
    );
    let said = server.sql(&["-f", &meta]);
    assert!(said.ok, "{}", said.err);
    for told in [
        "stored rows",
        "v",
        "best effort",
        "writers are not held back",
        "comment",
        "codec",
        "CREATE TABLE t (",
        "view",
        "lazybase |",
    ] {
        assert!(said.out.contains(told), "{told}: {}", said.out);
    }
}

#[test]
fn errors_are_those_of_the_server() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let said = server.sql(&["-c", "SELECT * FROM absent"]);
    assert!(!said.ok && said.err.contains("error: there is no table \"absent\""));
    assert!(said.err.contains("hint: "), "{}", said.err);
    let said = server.sql(&["-c", "SELECT id\nFROM t WHERE id = = 2"]);
    assert!(
        said.err.contains("\n  FROM t WHERE id = = 2\n"),
        "{}",
        said.err
    );
    let absent = "absent FROM (SELECT 1 AS one) AS o";
    let said = server.sql(&["-c", &format!("SELECT 'ä',\n {absent}")]);
    let shown = format!("line 2, column 2\n   {absent}\n   ^\n");
    assert!(said.err.contains(&shown), "{}", said.err);
    let said = server.sql(&["-c", "SELECT $1"]);
    assert!(said.err.contains("needs 1 value:"), "{}", said.err);
    let nobody = alone(&[
        "sql",
        "--url",
        "postgresql://127.0.0.1:1/x",
        "-c",
        "SELECT 1",
    ]);
    assert!(
        !nobody.ok && nobody.err.contains("no server answers"),
        "{}",
        nobody.err
    );
    let wrong = alone(&["sql", "--url", "postgresql://[", "-c", "SELECT 1"]);
    assert!(wrong.err.contains("--url is no address"), "{}", wrong.err);
}

#[test]
fn the_status_of_a_server_is_a_page() {
    let place = Place::new();
    place.ok(&[
        "sql",
        "-c",
        "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)",
    ]);
    let server = Server::start(&place, &[]);
    server.rows("SETTLE");
    let page = alone(&["status", "--url", &server.url(), "--once"]);
    assert!(page.ok, "{}", page.err);
    for told in [
        "authority",
        "no task runs",
        "no snapshot is held",
        "nothing went wrong",
    ] {
        assert!(page.out.contains(told), "{told}: {}", page.out);
    }
    let json = alone(&["status", "--url", &server.url(), "--format", "json"]);
    let page: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(page["tables"][0]["table"], "t");
    assert_eq!(page["tables"][0]["rows"], 1);
    assert_eq!(page["lag"].as_array().unwrap().len(), 4);
}

#[test]
fn a_role_sees_the_parts_of_the_page_that_it_may_read() {
    let place = Place::new();
    place.ok(&[
        "sql",
        "-c",
        "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1);
         CREATE ROLE boss LOGIN SUPERUSER; CREATE ROLE anna LOGIN; GRANT SELECT ON t TO anna",
    ]);
    let server = Server::start(&place, &["--trust-loopback"]);
    server
        .line("(roles; from this machine without a password, also lazybase, who owns the folder)");
    let url = format!("postgresql://anna@{}/lazybase", server.pg);
    let page = alone(&["status", "--url", &url, "--once"]);
    assert!(page.ok, "{}", page.err);
    for told in [
        "authority",
        "writers are not held back",
        "stages: only superusers",
    ] {
        assert!(page.out.contains(told), "{told}: {}", page.out);
    }
    let json = alone(&["status", "--url", &url, "--format", "json"]);
    let page: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(page["tables"][0]["table"], "t");
    assert!(
        page["stages"].is_null() && page["troubles"].is_null(),
        "{page}"
    );
}
