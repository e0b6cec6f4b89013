//! `load` and `export`: what files of other programs hold, what streams bring, what is guessed.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DurationSecondArray, FixedSizeBinaryArray, FixedSizeListArray, Float64Array,
    Int32Array, Int64Array, MapBuilder, RecordBatch, StringBuilder, TimestampMicrosecondArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::Int32Type;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel};
use parquet::file::properties::WriterProperties;

use crate::run::{Place, text};

/// Writes a Parquet file and gives its path as text.
fn parquet(place: &Place, name: &str, columns: &[(&str, ArrayRef)], how: Compression) -> String {
    let columns = columns
        .iter()
        .map(|(name, values)| (*name, Arc::clone(values)));
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let path = place.path(name);
    let properties = WriterProperties::builder().set_compression(how).build();
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    text(&path).to_owned()
}

fn numbers() -> ArrayRef {
    Arc::new(Int64Array::from(vec![1, 2]))
}

/// The type of each column of table `t`.
fn types(place: &Place) -> String {
    let sql = "SELECT string_agg(column_name || ' ' || lower(type), ', ' \
               ORDER BY position) FROM lazybase.columns WHERE table_name = 't'";
    place.rows(sql).trim().trim_matches('"').to_owned()
}

#[test]
fn parquet_comes_compressed_in_every_usual_way() {
    let place = Place::new();
    for (at, how) in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
    ]
    .into_iter()
    .enumerate()
    {
        let file = parquet(&place, &format!("{at}.parquet"), &[("n", numbers())], how);
        place.ok(&["load", "t", &file]);
        let copied = format!("COPY t FROM '{file}'");
        place.ok(&["sql", "-c", &copied]);
    }
    assert_eq!(place.rows("SELECT count(*), sum(n) FROM t"), "24,36\n");
}

/// Columns get types that SQL can write, whatever a file has.
#[test]
fn types_of_other_programs_become_those_of_sql() {
    let place = Place::new();
    let berlin = TimestampMicrosecondArray::from(vec![1_700_000_000_000_000, 0]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.keys().append_value("k");
    map.values().append_value("v");
    map.append(true).unwrap();
    map.append(true).unwrap();
    let pairs = [Some(vec![Some(1), Some(2)]), None];
    let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(pairs, 2);
    let bytes = FixedSizeBinaryArray::try_from_iter([*b"abc", *b"xyz"].into_iter()).unwrap();
    let file = parquet(
        &place,
        "a.parquet",
        &[
            ("n", numbers()),
            ("berlin", Arc::new(berlin.with_timezone("Europe/Berlin"))),
            (
                "nanos",
                Arc::new(TimestampNanosecondArray::from(vec![1, -1])),
            ),
            ("took", Arc::new(DurationSecondArray::from(vec![3600, 1]))),
            ("map", Arc::new(map.finish())),
            ("pairs", Arc::new(pairs)),
            ("bytes", Arc::new(bytes)),
        ],
        Compression::SNAPPY,
    );
    place.ok(&["load", "t", &file, "--key", "n"]);
    let insert = "INSERT INTO t VALUES (3, '2024-07-01 12:00:00+00', \
        '2024-07-01 12:00:00.123456789', '2 hours', NULL, ARRAY[1], '\\x00'::BYTEA); SETTLE";
    place.ok(&["sql", "-c", insert]);
    let rows = "SELECT n, berlin, nanos, took, pairs, bytes FROM t \
        WHERE berlin >= '1970-01-01 00:00:00+00' ORDER BY n";
    assert_eq!(
        place.rows(rows),
        "1,2023-11-14 22:13:20+00:00,1970-01-01 00:00:00.000000001,01:00:00,\"[1,2]\",\\x616263\n\
         2,1970-01-01 00:00:00+00:00,1969-12-31 23:59:59.999999999,00:00:01,,\\x78797a\n\
         3,2024-07-01 12:00:00+00:00,2024-07-01 12:00:00.123456789,02:00:00,[1],\\x00\n"
    );
    assert_eq!(
        place.rows("SELECT map[1]['keys'], map[1]['values'] FROM t WHERE n = 1"),
        "k,v\n"
    );
    for ending in ["csv", "tsv", "jsonl", "parquet"] {
        let path = place.path(&format!("b.{ending}"));
        place.ok(&["export", "t", text(&path)]);
        place.ok(&["load", "t", text(&path)]);
        assert!(
            place.rows(rows).starts_with("1,2023-11-14 22:13:20+00:00,"),
            "{ending}"
        );
    }
    place.ok(&["sql", "-c", "CREATE TABLE u AS SELECT * FROM t; SETTLE"]);
    let same = "SELECT count(*) FROM t JOIN u USING (n) WHERE t.nanos = u.nanos";
    assert_eq!(place.rows(same), "3\n");
}

/// What a cast would change is refused by every way in.
#[test]
fn parquet_is_not_rounded() {
    let place = Place::new();
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 6.5]));
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1, 2]));
    let held: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_000, -1_000]));
    let file = parquet(&place, "b.parquet", &[("x", held)], Compression::SNAPPY);
    place.ok(&["sql", "-c", "CREATE TABLE t (x TIMESTAMP)"]);
    place.ok(&["load", "t", &file]);
    place.ok(&["sql", "-c", &format!("COPY t FROM '{file}'")]);
    assert_eq!(
        place.rows("SELECT count(DISTINCT x), count(*) FROM t"),
        "2,4\n"
    );
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![1, 1 << 40]));
    for (declared, values, said) in [
        ("INT", floats, "loss"),
        ("TIMESTAMP", nanos, "row 1"),
        ("INT", wide, "row 2"),
    ] {
        let file = parquet(&place, "a.parquet", &[("x", values)], Compression::SNAPPY);
        let made = format!("DROP TABLE IF EXISTS t; CREATE TABLE t (x {declared})");
        place.ok(&["sql", "-c", &made]);
        let copied = place.fails(&["sql", "-c", &format!("COPY t FROM '{file}'")]);
        assert!(copied.contains(said), "{declared}: {copied}");
        let loaded = place.fails(&["load", "t", &file]);
        assert!(
            loaded.contains(said) || loaded.contains("could be changed"),
            "{loaded}"
        );
        assert_eq!(place.rows("SELECT count(*) FROM t"), "0\n");
    }
}

/// What is in the table says how text is read, and not what text looks like.
#[test]
fn what_was_exported_as_json_is_loaded_into_its_table() {
    let place = Place::new();
    let made = "CREATE TABLE t (k INT PRIMARY KEY, s STRUCT<a INT>[], l BIGINT[][], e INT[], \
        d DECIMAL(30, 2), at TIME, note TEXT);
        INSERT INTO t VALUES (1, ARRAY[{a: 1}, NULL], ARRAY[ARRAY[1], NULL], ARRAY[]::INT[], \
            12345678901234567890.25, '12:30:00', '7'),
            (2, NULL, NULL, NULL, NULL, NULL, NULL)";
    place.ok(&["sql", "-c", made]);
    let path = place.path("t.jsonl");
    place.ok(&["export", "t", text(&path)]);
    let before = place.rows("SELECT * FROM t ORDER BY k");
    let lines = std::fs::read_to_string(&path).unwrap();
    for start in ["", "\u{feff}"] {
        std::fs::write(&path, format!("{start}{lines}")).unwrap();
        place.ok(&["sql", "-c", "TRUNCATE t"]);
        place.ok(&["load", "t", text(&path)]);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY k"), before);
        let copied = format!("TRUNCATE t; COPY t FROM '{}'", path.display());
        place.ok(&["sql", "-c", &copied]);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY k"), before);
    }
}

#[test]
fn what_no_type_holds_is_kept_as_json() {
    let place = Place::new();
    let lines = "{\"a\":{},\"b\":[],\"c\":1,\"d\":12345678901234567890,\"e\":[{}]}\n\
                 {\"a\":{\"x\":1},\"b\":null,\"c\":\"one\",\"d\":-1,\"e\":null}\n";
    let file = place.file("a.jsonl", lines);
    place.ok(&["load", "t", &file]);
    assert_eq!(
        types(&place),
        "a struct<x bigint>, b text, c text, d decimal(38, 0), e text"
    );
    place.ok(&["sql", "-c", "SETTLE"]);
    assert_eq!(
        place.rows("SELECT b, c, d, e FROM t ORDER BY d DESC"),
        "[],1,12345678901234567890,[{}]\n,one,-1,\n"
    );
    let file = place.file("b.jsonl", "{\"a\":{}}\n");
    place.ok(&["load", "u", &file]);
    place.ok(&["sql", "-c", "SETTLE"]);
    assert_eq!(place.rows("SELECT a FROM u"), "{}\n");
    let file = place.file(
        "c.csv",
        "at,big\n08:30:00,1\n23:59:59,123456789012345678901\n",
    );
    place.ok(&["sql", "-c", "DROP TABLE t"]);
    place.ok(&["load", "t", &file]);
    assert!(
        types(&place).starts_with("at time, big decimal(38, 0)"),
        "{}",
        types(&place)
    );
}

/// A table that was guessed from a file goes with the load that failed.
#[test]
fn a_failed_load_leaves_no_table() {
    let place = Place::new();
    let mut lines: String = (0..60_000).map(|n| format!("{n}\n")).collect();
    lines.push_str("many\n");
    let bad = place.file("a.csv", &format!("n\n{lines}"));
    let good = place.file("b.csv", "m\nx\n");
    let said = place.fails(&["load", "t", &bad]);
    assert!(
        said.contains("row 60001") && said.contains("CREATE TABLE"),
        "{said}"
    );
    let tables = "SELECT count(*) FROM lazybase.tables WHERE name = 't'";
    assert_eq!(place.rows(tables), "0\n");
    place.fails(&["load", "t", &bad, &good, "--on-error", "reject-file"]);
    assert_eq!(place.rows("SELECT m FROM t"), "x\n");
    // One that was made from a whole file stays, and so does one that has rows.
    let none = place.file("c.csv", "k\n");
    place.fails(&["load", "u", &none, &bad, "--on-error", "reject-file"]);
    assert_eq!(place.rows("SELECT count(k) FROM u"), "0\n");
    let wide = "x".repeat(100);
    let mut lines: String = (0..60_000).map(|n| format!("{n},{wide}\n")).collect();
    lines.push_str("many,x\n");
    let long = place.file("d.csv", &format!("n,x\n{lines}"));
    place.fails(&["load", "v", &long, "--batch-bytes", "1000000"]);
    let kept = place.rows("SELECT count(*) FROM v");
    assert!(
        (1..60_000).contains(&kept.trim().parse().unwrap()),
        "{kept}"
    );
}

#[test]
fn streams_are_loaded_and_written() {
    let place = Place::new();
    let csv = place.run_with(&["load", "public.t", "-", "--format", "csv"], "n,x\n1,a\n");
    assert!(csv.ok && csv.out.contains("loaded 1 row"), "{}", csv.err);
    let json = place.run_with(
        &["load", "t", "/dev/stdin", "--format", "json"],
        "{\"n\":2}\n",
    );
    assert!(json.ok, "{}", json.err);
    let file = parquet(
        &place,
        "a.parquet",
        &[("n", Arc::new(Int32Array::from(vec![3])) as ArrayRef)],
        Compression::SNAPPY,
    );
    let bytes = std::fs::read(file).unwrap();
    let args = ["load", "t", "-", "--format", "parquet"];
    assert!(place.run_with_bytes(&args, &bytes).ok);
    assert_eq!(place.rows("SELECT * FROM t ORDER BY n"), "1,a\n2,\n3,\n");
    assert!(place.run(&["load", "t", "-"]).err.contains("--format"));
    let marked = ["load", "t", "-", "--format", "csv", "--producer", "p"];
    assert!(place.run_with(&marked, "n\n1\n").err.contains("--producer"));

    let query = "SELECT * FROM t ORDER BY n";
    let out = place.ok(&["export", "--query", query, "-", "--format", "tsv"]);
    assert_eq!(out, "n\tx\n1\ta\n2\t\n3\t\n");
    let out = place.ok(&["export", "public.t", "-", "--format", "jsonl"]);
    assert_eq!(out.lines().count(), 3);
    assert!(!place.path("-").exists());
    let tabs = place.file("b.tsv", "n\tx\n4\tb,c\n");
    place.ok(&["load", "t", &tabs]);
    assert_eq!(place.rows("SELECT x FROM t WHERE n = 4"), "\"b,c\"\n");
    let missing = place.path("none/a.csv");
    let said = place.fails(&["export", "t", text(&missing)]);
    assert!(!said.contains(".partial"), "{said}");
}
