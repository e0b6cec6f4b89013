//! `load`: formats, producers' marks, op columns, bad files.

use crate::run::Place;

#[test]
fn a_table_is_made_or_checked() {
    let place = Place::new();
    let first = place.file("a.csv", "Id,name\n1,a\n2,\n");
    let out = place.ok(&["load", "t", &first, "--key", "id"]);
    assert!(out.contains("loaded 2 rows"), "{out}");
    let second = place.file(
        "b.jsonl",
        "{\"id\":2,\"name\":\"b\"}\n{\"id\":3,\"name\":\"c\"}\n",
    );
    place.ok(&["load", "t", &second]);
    assert_eq!(
        place.rows("SELECT id, name FROM t ORDER BY id"),
        "1,a\n2,b\n3,c\n"
    );
    let wrong = place.file("c.csv", "id,other\n1,x\n");
    assert!(place.fails(&["load", "t", &wrong]).contains("\"other\""));
    let wrong = place.file("d.csv", "id,name\nx,y\n");
    assert!(place.fails(&["load", "t", &wrong]).contains("d.csv"));
}

#[test]
fn a_table_of_json_lines_has_their_columns_in_their_order() {
    let place = Place::new();
    let lines = "{\"id\":1,\"name\":\"a\",\"at\":2.5}\n{\"id\":2,\"more\":true,\"at\":3}\n";
    let file = place.file("a.jsonl", lines);
    place.ok(&["load", "t", &file, "--key", "id"]);
    assert_eq!(place.rows("SELECT * FROM t"), "1,a,2.5,\n2,,3.0,true\n");
}

/// A number that its column can't hold is refused, not cut.
#[test]
fn numbers_of_json_are_whole_or_refused() {
    let place = Place::new();
    let made = "CREATE TABLE t (id INT PRIMARY KEY, n INT, d DECIMAL(4,1))";
    place.ok(&["sql", "-c", made]);
    let file = place.file("a.jsonl", "{\"id\":1,\"d\":1.25}\n{\"id\":2,\"n\":7}\n");
    place.ok(&["load", "t", &file]);
    assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), "1,,1.3\n2,7,\n");
    let file = place.file("b.jsonl", "{\"id\":3,\"n\":1}\n{\"id\":4,\"n\":1.5}\n");
    let said = place.fails(&["load", "t", &file]);
    assert!(said.contains("b.jsonl"), "{said}");
    assert!(
        said.contains("column \"n\", row 2: \"1.5\" is not of type INT"),
        "{said}"
    );
}

/// What has a zone is an instant; what has one now and then is text, and loses nothing.
#[test]
fn zones_of_inferred_moments_are_kept() {
    let place = Place::new();
    let zoned = "i,at,some,local\n\
        1,2024-01-01 10:00:00+02,2024-01-01 10:00:00+02,2024-01-01T10:00:00.5\n\
        2,2024-01-01 10:00:00Z,2024-01-01 10:00:00,2024-01-01T10:00:00\n";
    let file = place.file("z.csv", zoned);
    place.ok(&["load", "z", &file]);
    let types = "SELECT data_type FROM information_schema.columns WHERE table_name = 'z' \
        ORDER BY ordinal_position";
    let named = "bigint\ntimestamp with time zone\ntext\ntimestamp without time zone\n";
    assert_eq!(place.rows(types), named);
    let rows = "SELECT at AT TIME ZONE 'UTC', some, local FROM z ORDER BY i";
    assert_eq!(
        place.rows(rows),
        "2024-01-01 08:00:00,2024-01-01 10:00:00+02,2024-01-01 10:00:00.500\n\
         2024-01-01 10:00:00,2024-01-01 10:00:00,2024-01-01 10:00:00\n"
    );
}

/// A table without rows goes through JSON lines as through the other formats.
#[test]
fn json_lines_without_a_record_add_nothing() {
    let place = Place::new();
    place.ok(&[
        "sql",
        "-c",
        "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)",
    ]);
    let file = place.path("none.jsonl");
    let file = file.to_str().unwrap();
    place.ok(&["export", "t", file]);
    let out = place.ok(&["load", "t", file]);
    assert!(out.contains("loaded 0 rows"), "{out}");
    assert!(place.fails(&["load", "other", file]).contains("no columns"));
}

/// Natural keys go into ID columns from every format, and owners' rows without their IDs.
#[test]
fn natural_keys_are_loaded() {
    let place = Place::new();
    let made = "CREATE TABLE files (id IDKEY, host TEXT, n INT, note TEXT, PRIMARY KEY (host, n));
        CREATE TABLE sizes (f IDKEY REFERENCES files, at INT, bytes INT, PRIMARY KEY (f, at))";
    place.ok(&["sql", "-c", made]);
    let owners = place.file("a.csv", "host,n,note\nweb1,1,one\nweb2,2,two\n");
    place.ok(&["load", "files", &owners]);
    let owners = place.file(
        "a.jsonl",
        "{\"host\":\"web3\",\"n\":3,\"note\":\"three\"}\n",
    );
    place.ok(&["load", "files", &owners]);

    let keys = "f,at,bytes\n\"(web1,1)\",1,10\n\"(\"\"a,b\"\",4)\",1,20\n";
    let keys = place.file("b.csv", keys);
    place.ok(&["load", "sizes", &keys]);
    let keys = "{\"f\":{\"n\":3,\"host\":\"web3\"},\"at\":1,\"bytes\":30}\n\
                {\"f\":{\"n\":1,\"host\":\"web1\"},\"at\":2,\"bytes\":40}\n";
    let keys = place.file("b.jsonl", keys);
    place.ok(&["load", "sizes", &keys]);
    let keys = place.path("b.parquet");
    let keys = keys.to_str().unwrap();
    let query = "SELECT named_struct('host', 'web2', 'n', 2) AS f, 1 AS at, 50 AS bytes";
    place.ok(&["export", "--query", query, keys]);
    place.ok(&["load", "sizes", keys]);

    let joined = "SELECT host, n, note, at, bytes FROM sizes JOIN files ON id = f ORDER BY bytes";
    let expected = "web1,1,one,1,10\n\"a,b\",4,,1,20\nweb3,3,three,1,30\nweb1,1,one,2,40\n\
                    web2,2,two,1,50\n";
    assert_eq!(place.rows(joined), expected);

    // Numbers that were given out come back as they went out.
    for format in ["csv", "jsonl", "parquet"] {
        let numbers = place.path(&format!("c.{format}"));
        let numbers = numbers.to_str().unwrap();
        place.ok(&["export", "sizes", numbers]);
        place.ok(&["load", "sizes", numbers]);
        assert_eq!(place.rows(joined), expected, "{format}");
    }

    let wrong = place.file("d.csv", "f,at,bytes\nweb1,1,10\n");
    let said = place.fails(&["load", "sizes", &wrong]);
    assert!(said.contains("no natural key"), "{said}");
    let wrong = place.file("d.jsonl", "{\"f\":{\"hosts\":1},\"at\":1,\"bytes\":1}\n");
    let said = place.fails(&["load", "sizes", &wrong]);
    assert!(said.contains("\"hosts\" is no column"), "{said}");
    let wrong = place.file("e.csv", "id,host,n\n1,web1,1\n");
    let said = place.fails(&["load", "files", &wrong]);
    assert!(said.contains("given out by the database"), "{said}");
}

/// Labels come in the columns of a file that have their names, in every format. A row without them
/// is for everybody to read, and one whose label is none is refused with all of its file.
#[test]
fn labels_are_loaded_with_their_rows_and_cells() {
    let place = Place::new();
    let all = |table: &str| {
        let columns = "id, pay, \"_label(pay)\", _label";
        place.rows(&format!("SELECT {columns} FROM {table} ORDER BY id"))
    };
    let seen = |table: &str, authorizations: &str| {
        let set = format!("SET lazybase.authorizations = '{authorizations}'");
        place.rows(&format!("{set}; SELECT * FROM {table} ORDER BY id"))
    };
    let csv = "id,pay,_label(pay),_Label\n\
        1,10,\"hr&(boss|\"\"top secret\"\")\",\n2,20,,hr\n3,30,\"\",\"\"\n";
    let csv = place.file("a.csv", csv);
    let lines = r#"{"id":1,"pay":10,"_label(pay)":"hr&(boss|\"top secret\")"}
{"id":2,"pay":20,"_label":"hr"}
{"id":3,"pay":30,"_label(pay)":"","_label":""}
"#;
    let lines = place.file("a.jsonl", lines);
    let parquet = place.path("a.parquet");
    let parquet = parquet.to_str().unwrap();

    // Names of labels are no names of columns, and nothing makes a table that shows what they hide.
    let said = place.fails(&["load", "of_csv", &csv]);
    assert!(said.contains("\"_label(pay)\" is reserved"), "{said}");
    let made = |table: &str| {
        let columns = "id INT PRIMARY KEY, pay INT WITH LABELS";
        let made = format!("CREATE TABLE {table} ({columns}) WITH (row_labels = true)");
        place.ok(&["sql", "-c", &made]);
    };
    for (table, file) in [
        ("of_csv", csv.as_str()),
        ("of_jsonl", lines.as_str()),
        ("of_parquet", parquet),
    ] {
        made(table);
        place.ok(&["load", table, file]);
        assert_eq!(
            all(table),
            "1,10,\"hr&(boss|\"\"top secret\"\")\",\n2,20,,hr\n3,30,\"\",\"\"\n",
            "{table}"
        );
        assert_eq!(seen(table, ""), "1,\n3,30\n", "{table}");
        assert_eq!(seen(table, "hr"), "1,\n2,20\n3,30\n", "{table}");
        let both = seen(table, "hr,\"top secret\"");
        assert_eq!(both, "1,10\n2,20\n3,30\n", "{table}");
        // For the last of them, and for COPY.
        let query = format!("SELECT id, pay, \"_label(pay)\", _label FROM {table}");
        place.ok(&["export", "--query", &query, parquet]);
    }
    // COPY goes by the names that the file gives, or by its own list.
    made("copied");
    let copied = format!("COPY copied FROM '{parquet}'");
    place.ok(&["sql", "-c", &copied]);
    assert_eq!(all("copied"), all("of_csv"));
    let copied = format!("COPY copied (id, pay, \"_label(pay)\", _label) FROM '{lines}'");
    place.ok(&["sql", "-c", &copied]);
    assert_eq!(all("copied"), all("of_csv"));

    let wrong = place.file("wrong.csv", "id,pay,_label(pay)\n4,40,hr\n5,50,hr&\n");
    let said = place.fails(&["load", "of_csv", &wrong]);
    let fact = "column \"_label(pay)\", row 2: \"hr&\" is no label";
    assert!(said.contains(fact), "{said}");
    assert_eq!(all("of_csv"), all("copied"));
    let ops = place.file(
        "ops.csv",
        "id,pay,_label(pay),op\n3,,,D\n4,40,hr,U\n2,22,boss,U\n",
    );
    place.ok(&["load", "of_csv", &ops, "--op-column", "op"]);
    assert_eq!(seen("of_csv", "boss"), "1,\n2,22\n4,\n");
    let bare = place.file("bare.csv", "id,pay\n1,11\n");
    place.ok(&["load", "of_csv", &bare]);
    assert_eq!(all("of_csv"), "1,11,,\n2,22,boss,\n4,40,hr,\n");
}

#[test]
fn a_text_longer_than_its_column_takes_is_named() {
    let place = Place::new();
    place.ok(&[
        "sql",
        "-c",
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(3))",
    ]);
    // Another process knows the length.
    let described = place.ok(&["sql", "-c", "\\d t"]);
    assert!(described.contains("varchar(3)"), "{described}");
    let long = place.file("a.csv", "id,name\n1,abc\n2,abcd\n");
    let said = place.fails(&["load", "t", &long]);
    assert!(
        said.contains("column \"name\", row 2: \"abcd\" is too long for VARCHAR(3)"),
        "{said}"
    );
    assert_eq!(place.rows("SELECT count(*) FROM t"), "0\n");
    let fits = place.file("b.csv", "id,name\n1,abc\n");
    place.ok(&["load", "t", &fits]);
}

#[test]
fn a_producer_adds_each_file_once() {
    let place = Place::new();
    let path = place.file("a.csv", "n\n1\n2\n");
    let other = place.file("b.csv", "n\n1\n2\n");
    let load = |path: &str| place.run(&["load", "t", path, "--producer", "p"]);
    let count = || place.rows("SELECT count(*) FROM t");
    assert!(load(&path).ok);
    assert!(load(&path).out.contains("loaded 0 rows"));
    assert_eq!(count(), "2\n");
    assert!(load(&other).ok);
    assert_eq!(count(), "4\n");
    place.file("a.csv", "n\n1\n2\n3\n");
    assert!(load(&path).out.contains("loaded 1 row "));
    assert_eq!(count(), "5\n");
    place.file("a.csv", "n\n1\n9\n3\n");
    let said = load(&path);
    assert!(!said.ok && said.err.contains("was changed"), "{}", said.err);
    assert_eq!(count(), "5\n");
}

/// Marks are a table's own: one that is renamed goes on, one that is made anew begins anew.
#[test]
fn marks_go_with_their_table() {
    let place = Place::new();
    let path = place.file("a.csv", "n\n1\n2\n");
    let load = |table: &str| place.ok(&["load", table, &path, "--producer", "p"]);
    let run = |sql: &str| place.ok(&["sql", "-c", sql]);
    assert!(load("t").contains("loaded 2 rows"));
    run("ALTER TABLE t RENAME TO u");
    assert!(load("u").contains("loaded 0 rows"));
    assert!(load("t").contains("loaded 2 rows"));
    run("DROP TABLE u");
    assert!(load("t").contains("loaded 0 rows"));
    run("DROP TABLE t; CREATE TABLE t (n BIGINT)");
    assert!(load("t").contains("loaded 2 rows"));
    assert_eq!(place.rows("SELECT count(*) FROM t"), "2\n");

    // Marks by the table's name count for the table that was there when they were written.
    let by_name = "INSERT INTO lazybase_load_marks
            SELECT producer, 't', source, rows, bytes, hash, footer FROM lazybase_load_marks;
        DELETE FROM lazybase_load_marks WHERE loaded_table <> 't'";
    run(by_name);
    assert!(load("t").contains("loaded 0 rows"));
    run("DROP TABLE t");
    assert!(load("t").contains("loaded 2 rows"));
}

/// What a user has under the marks' name is told, and not blamed on the file.
#[test]
fn a_table_of_another_shape_is_no_table_of_marks() {
    let place = Place::new();
    let path = place.file("a.csv", "n\n1\n");
    let columns = "producer TEXT, loaded_table TEXT, source TEXT, rows BIGINT, bytes BIGINT, \
        hash TEXT, footer TEXT";
    for (made, detail) in [
        ("n INT", "no column \"producer\" of type text"),
        (columns, "its key is not producer, loaded_table, source"),
    ] {
        let made = format!("CREATE TABLE lazybase_load_marks ({made})");
        place.ok(&["sql", "-c", &made]);
        let said = place.fails(&["load", "t", &path, "--producer", "p"]);
        for told in ["is not the table of marks", detail, "RENAME TO"] {
            assert!(said.contains(told), "{told}: {said}");
        }
        assert!(!said.contains("a.csv"), "{said}");
        place.ok(&["sql", "-c", "DROP TABLE lazybase_load_marks"]);
    }
    // One that a dump has made anew is one of marks.
    let made = format!(
        "CREATE TABLE lazybase_load_marks ({columns}, \
         PRIMARY KEY (producer, loaded_table, source))"
    );
    place.ok(&["sql", "-c", &made]);
    place.ok(&["load", "t", &path, "--producer", "p"]);
    let again = place.ok(&["load", "t", &path, "--producer", "p"]);
    assert!(again.contains("loaded 0 rows"), "{again}");
}

#[test]
fn options_of_csv_are_refused_for_other_files() {
    let place = Place::new();
    let csv = place.file("a.csv", "n;m\n1;-\n");
    let lines = place.file("a.jsonl", "{\"n\":1}\n");
    for (option, value) in [("--delimiter", ";"), ("--null", "-")] {
        let said = place.fails(&["load", "t", &lines, option, value]);
        let fact = format!("{option} is for CSV: {lines} is none");
        assert!(said.contains(&fact), "{said}");
    }
    let loaded = place.ok(&["load", "t", &csv, "--delimiter", ";", "--null", "-"]);
    assert!(loaded.contains("loaded 1 row"), "{loaded}");
    assert_eq!(place.rows("SELECT n, m FROM t"), "1,\n");
    // Beside a file of CSV the option is of use.
    let given = ["--delimiter", ";", "--null", "-"];
    let both = place.ok(&[&["load", "t", &csv, &lines], &given[..]].concat());
    assert!(both.contains("loaded 2 rows"), "{both}");
}

/// What is not loaded again is told, for nothing tells that its rows are gone.
#[test]
fn what_a_producer_skips_is_told() {
    let place = Place::new();
    let path = place.file("a.csv", "n\n1\n2\n");
    let load = |args: &[&str]| place.run(&[&["load", "t", &path], args].concat());
    let first = load(&["--producer", "p"]);
    assert!(first.ok && !first.err.contains("skipped"), "{}", first.err);
    place.ok(&["sql", "-c", "TRUNCATE t"]);
    let again = load(&["--producer", "p"]);
    assert!(again.ok && again.out.contains("loaded 0 rows"));
    for told in [" bytes skipped", "\"p\"", "TRUNCATE", "--producer"] {
        assert!(again.err.contains(told), "{told}: {}", again.err);
    }
    let figures = load(&["--producer", "p", "--json"]);
    let skipped = figures.out.split_once("\"bytes_skipped\":").unwrap().1;
    assert!(!skipped.starts_with('0'), "{}", figures.out);
    let other = load(&["--producer", "q"]);
    assert!(other.ok && other.out.contains("loaded 2 rows"));
    assert_eq!(place.rows("SELECT count(*) FROM t"), "2\n");
}

#[test]
fn a_table_is_made_under_a_name_that_sql_can_give() {
    let place = Place::new();
    let file = place.file("a.csv", "n\n1\n");
    let long = "n".repeat(256);
    for (name, fact) in [
        ("", "a name can't be empty"),
        (long.as_str(), "the name is too long"),
        // That of a session which ends: the rows would be gone when the database is next opened.
        ("pg_temp_1.t", "the name \"pg_temp_1.t\" is reserved"),
        ("pg_temp.t", "the name \"pg_temp.t\" is reserved"),
    ] {
        let err = place.fails(&["load", name, &file]);
        assert!(err.contains(fact), "{name:?}: {err}");
    }
    assert_eq!(place.rows("SELECT count(*) FROM lazybase.tables"), "0\n");
}

#[test]
fn an_interrupted_load_goes_on() {
    let place = Place::new();
    let lines: String = (0..200_000)
        .map(|n| format!("{n},{}\n", "x".repeat(50)))
        .collect();
    let bad = place.file("a.csv", &format!("n,text\n{lines}bad,row\n"));
    let args = [
        "load",
        "t",
        &bad,
        "--producer",
        "p",
        "--batch-bytes",
        "1000000",
    ];
    let made = "CREATE TABLE t (n BIGINT, text TEXT)";
    place.ok(&["sql", "-c", made]);
    place.fails(&args);
    let some: u64 = place.rows("SELECT count(*) FROM t").trim().parse().unwrap();
    assert!(some > 0 && some < 200_000, "{some}");
    place.file("a.csv", &format!("n,text\n{lines}"));
    place.ok(&args);
    assert_eq!(
        place.rows("SELECT count(*), count(DISTINCT n) FROM t"),
        "200000,200000\n"
    );
}

#[test]
fn an_op_column_deletes() {
    let place = Place::new();
    place.ok(&[
        "sql",
        "-c",
        "CREATE TABLE t (id BIGINT, v INT, PRIMARY KEY (id))",
    ]);
    place.ok(&["sql", "-c", "INSERT INTO t VALUES (1, 1), (2, 2)"]);
    let file = place.file("a.csv", "id,v,op\n1,,D\n3,3,U\n2,5,U\n3,,D\n");
    place.ok(&["load", "t", &file, "--op-column", "op"]);
    assert_eq!(place.rows("SELECT id, v FROM t ORDER BY id"), "2,5\n");
    let file = place.file("b.csv", "id,v,op\n1,1,X\n");
    assert!(
        place
            .fails(&["load", "t", &file, "--op-column", "op"])
            .contains("row 1")
    );
}

#[test]
fn a_rejected_file_adds_nothing_and_the_next_goes_on() {
    let place = Place::new();
    let good = place.file("a.csv", "n\n1\n");
    let bad = place.file("b.csv", "n\n2\nx\n");
    let last = place.file("c.csv", "n\n3\n");
    let err = place.fails(&["load", "t", &good, &bad, &last, "--on-error", "reject-file"]);
    assert!(err.contains("b.csv"), "{err}");
    assert_eq!(place.rows("SELECT n FROM t ORDER BY n"), "1\n3\n");
}

#[test]
fn a_file_that_is_not_what_its_name_says_is_refused_in_plain_words() {
    let place = Place::new();
    let file = place.file("a.parquet", "no rows");
    let err = place.fails(&["load", "t", &file]);
    let fact = "a.parquet: not a whole Parquet file: Parquet file too small. Size is 7 but need 8";
    assert!(err.contains(fact), "{err}");
    let file = place.file("a.csv", "n,m\n1,2\n3\n");
    let err = place.fails(&["load", "t", &file]);
    let fact = "a.csv: row 2 (line 3) has 1 values for 2 columns";
    assert!(err.contains(fact), "{err}");
    for (begin, fact) in [
        (
            &b"\x1f\x8b\x08\0"[..],
            "a.csv: the file is compressed by gzip",
        ),
        (&b"\xff\xfen\0,\0m\0\n\0"[..], "a.csv: the file is UTF-16"),
        (&b"n,\xe4\n1,2\n"[..], "a.csv: the header is not UTF-8"),
    ] {
        let path = place.path("a.csv");
        std::fs::write(&path, begin).unwrap();
        let err = place.fails(&["load", "t", &file]);
        assert!(err.contains(fact), "{err}");
    }
}

#[test]
fn a_file_without_a_header_is_refused_in_few_words() {
    let place = Place::new();
    place.ok(&[
        "sql",
        "-c",
        "CREATE TABLE t (id INT PRIMARY KEY, name TEXT)",
    ]);
    let value = "x".repeat(100_000);
    let cells = place.file("cells.csv", &format!("1,{value}\n2,{value}\n"));
    let err = place.fails(&["load", "made", &cells, "--key", "id"]);
    assert!(err.contains("no column \"id\" for the key"), "{err}");
    assert!(err.len() < 1_000, "{} bytes", err.len());
    let err = place.fails(&["load", "t", &cells]);
    assert!(err.contains("table \"t\" has no column \"1\""), "{err}");
    assert!(err.len() < 1_000, "{} bytes", err.len());
    let twice = place.file("twice.csv", "id,name,ID\n1,a,2\n");
    let err = place.fails(&["load", "t", &twice]);
    assert!(err.contains("the second is \"ID\""), "{err}");
}

#[test]
fn an_error_says_where_in_the_file_it_is() {
    let place = Place::new();
    place.ok(&["sql", "-c", "CREATE TABLE t (n BIGINT, text TEXT)"]);
    let load = |broken: &str| {
        // More than is read at once; each record has two lines.
        let good = format!(",\"{}\n{}\"\n", "x".repeat(40), "y".repeat(40));
        let records: String = (1..=60_000).map(|n| format!("{n}{good}")).collect();
        let file = place.file("a.csv", &format!("n,text\n{records}{broken}\n"));
        place.fails(&["load", "t", &file])
    };
    let err = load("60001");
    let fact = "a.csv: row 60001 (line 120002) has 1 values for 2 columns";
    assert!(err.contains(fact), "{err}");
    let err = load("60001,\"open");
    assert!(
        err.contains("a.csv: a quoted value is never closed"),
        "{err}"
    );
    assert!(err.contains("record of line 120002"), "{err}");
    let err = load("many,a");
    assert!(err.contains("a.csv: column \"n\", row 60001: "), "{err}");
}

/// What is exported is loaded as it was, whatever the types and the values.
#[test]
fn an_export_loads_back() {
    let place = Place::new();
    let columns = "(id BIGINT PRIMARY KEY, t TEXT, b BOOLEAN, f DOUBLE, r REAL, n DECIMAL(9,2), \
                   d DATE, at TIMESTAMP, z TIMESTAMPTZ, c TIME, y BYTEA, u UUID, i INTERVAL, \
                   l BIGINT[], w TEXT[])";
    place.ok(&["sql", "-c", &format!("CREATE TABLE t {columns}")]);
    place.ok(&[
        "sql",
        "-c",
        r#"INSERT INTO t VALUES
        (1, '', true, 'NaN', 1.5, 1.25, '2013-01-01', '2013-01-01 05:00:00.25',
         '2013-01-01 05:00+02', '10:00', '\x00ff', 'a0000000-0000-4000-8000-000000000001',
         '1 month 2 days 03:04:05', '{1,NULL,3}', '{"a,b",""}'),
        (2, 'say "so", or
not', false, '-Infinity', 0.1, -1, '1066-10-14', '1969-12-31 23:59:59', '1900-01-01',
         '23:59:59.999999', '', NULL, '-1 day', '{}', '{}'),
        (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (4, 'NULL', true, 1e300, 3e38, 0, '9999-12-31', '9999-12-31', '9999-12-31', '00:00',
         'text', 'ffffffff-ffff-4fff-bfff-ffffffffffff', '36:00', NULL, '{NULL}')"#,
    ]);
    let rows = |table: &str| place.rows(&format!("SELECT * FROM {table} ORDER BY id"));
    let expected = rows("t");
    for format in ["csv", "jsonl", "parquet"] {
        let file = place.path(&format!("t.{format}"));
        let file = file.to_str().unwrap();
        place.ok(&["export", "t", file]);
        let table = format!("of_{format}");
        place.ok(&["sql", "-c", &format!("CREATE TABLE {table} {columns}")]);
        place.ok(&["load", &table, file]);
        assert_eq!(rows(&table), expected, "{format}");
        let compared =
            format!("SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM {table}) AS other");
        assert_eq!(place.rows(&compared), "0\n", "{format}");
    }
}

/// Intervals, infinities and far moments have one text, in files as in answers and casts.
#[test]
fn csv_spells_values_as_casts_do() {
    let place = Place::new();
    let columns = "(id BIGINT PRIMARY KEY, f DOUBLE, r REAL, d DATE, at TIMESTAMP, z TIMESTAMPTZ, \
                   i INTERVAL)";
    place.ok(&["sql", "-c", &format!("CREATE TABLE t {columns}")]);
    let insert = "INSERT INTO t VALUES (1, 'Infinity', '-Infinity', '0044-03-15 BC', \
        '12024-05-06 07:08:09', '0044-03-15 10:00:00+00 BC', '1 month 2 days 03:00:01.5'), \
        (2, 1.5, 2.5, NULL, NULL, NULL, '-1 month 3 days -01:00:00')";
    place.ok(&["sql", "-c", insert]);
    let rows = |table: &str| place.rows(&format!("SELECT * FROM {table} ORDER BY id"));
    let expected = "1,Infinity,-Infinity,0044-03-15 BC,12024-05-06 07:08:09,\
        0044-03-15 10:00:00+00 BC,1 mon 2 days 03:00:01.5\n\
        2,1.5,2.5,,,,-1 mons +3 days -01:00:00\n";
    assert_eq!(rows("t"), expected);
    let casts =
        "SELECT id, f::TEXT, r::TEXT, d::TEXT, at::TEXT, z::TEXT, i::TEXT FROM t ORDER BY id";
    assert_eq!(place.rows(casts), expected);
    let file = place.path("t.csv");
    let file = file.to_str().unwrap();
    place.ok(&["export", "--query", "SELECT * FROM t ORDER BY id", file]);
    let written = std::fs::read_to_string(file).unwrap();
    assert_eq!(written.split_once('\n').unwrap().1, expected);
    place.ok(&["sql", "-c", &format!("CREATE TABLE u {columns}")]);
    place.ok(&["load", "u", file]);
    assert_eq!(rows("u"), expected);
    let other = "SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM u) AS other";
    assert_eq!(place.rows(other), "0\n");
}
