//! COPY reads what it wrote, for every type in every format; a row is sent the same, wherever it is
//! kept.

use bytes::BufMut;

use crate::copying::{copy_in, copy_out};
use crate::raw::Raw;
use crate::served::{Served, cells, sqlstate};

/// Types with some values, as SQL writes them.
const TYPES: [(&str, &[&str]); 36] = [
    ("BOOLEAN", &["true", "false"]),
    ("TINYINT", &["-128", "127"]),
    ("SMALLINT", &["-32768", "32767"]),
    ("INT", &["-2147483648", "7"]),
    ("BIGINT", &["-9223372036854775808", "9223372036854775807"]),
    ("TINYINT UNSIGNED", &["255"]),
    ("SMALLINT UNSIGNED", &["65535"]),
    ("INT UNSIGNED", &["4294967295"]),
    ("BIGINT UNSIGNED", &["18446744073709551615"]),
    ("REAL", &["0.1", "'NaN'", "'-Infinity'", "1e-30"]),
    ("DOUBLE PRECISION", &["0.1", "'NaN'", "'Infinity'", "1e300"]),
    ("DECIMAL(10, 2)", &["12345.67", "-0.05", "0"]),
    (
        "DECIMAL(38, 0)",
        &["99999999999999999999999999999999999999"],
    ),
    (
        "TEXT",
        &[
            "''",
            "'\\.'",
            "'\\N'",
            "'a,b'",
            "'say \"x\"'",
            "E'tab\\tline\\nend\\r'",
            "'NULL'",
        ],
    ),
    ("VARCHAR(5)", &["'abcde'"]),
    ("JSON", &["'{\"a\": [1, \"x\\n\"]}'", "'null'", "'\"\"'"]),
    ("BYTEA", &["X'00ff5c'", "X''"]),
    ("UUID", &["'0a0b0c0d-0e0f-1011-1213-141516171819'"]),
    (
        "DATE",
        &[
            "'2013-01-02'",
            "'0044-03-15 BC'",
            "'12345-06-07'",
            "'0001-01-01'",
        ],
    ),
    ("TIME", &["'00:00:00'", "'23:59:59.999999'"]),
    ("TIME(0)", &["'23:59:59'"]),
    ("TIME(3)", &["'23:59:59.999'"]),
    // Digits that binary formats have; with more of them below.
    ("TIME(9)", &["'23:59:59.999999'"]),
    (
        "TIMESTAMP",
        &[
            "'2013-01-02 03:04:05.000006'",
            "'0044-03-15 12:00:00 BC'",
            "'12345-06-07 01:02:03'",
        ],
    ),
    ("TIMESTAMP(0)", &["'1969-12-31 23:59:59'"]),
    ("TIMESTAMP(3)", &["'1969-12-31 23:59:59.999'"]),
    ("TIMESTAMP(9)", &["'1969-12-31 23:59:59.999999'"]),
    (
        "TIMESTAMP(9) WITH TIME ZONE",
        &["'2013-01-02 03:04:05.000006+00'"],
    ),
    (
        "TIMESTAMPTZ",
        &["'2013-01-02 03:04:05+00'", "'0044-03-15 12:00:00+00 BC'"],
    ),
    (
        "INTERVAL",
        &[
            "'1 mon 2 days 00:00:03'",
            "'-1 years -00:00:00.5'",
            "'36:00:00'",
            "'00:00:00'",
        ],
    ),
    ("INT[]", &["ARRAY[1, NULL, 3]", "'[]'"]),
    (
        "TEXT[]",
        &["ARRAY['a b', 'say \"x\"', '', 'NULL', '{}', 'a\\b', NULL]"],
    ),
    (
        "DOUBLE PRECISION[]",
        &["ARRAY[CAST('NaN' AS DOUBLE PRECISION), 1.5]"],
    ),
    ("DATE[]", &["ARRAY[DATE '2013-01-02', NULL]"]),
    ("INT[][]", &["ARRAY[ARRAY[1, NULL], ARRAY[3]]"]),
    (
        "STRUCT<a INT, b TEXT>",
        &["named_struct('a', 1, 'b', 'x\"y')"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_comes_back_as_it_went() {
    let served = Served::start().await;
    let client = served.client().await;
    for (at, (name, values)) in TYPES.into_iter().enumerate() {
        let define =
            |table: &str| format!("CREATE TABLE {table}{at} (k INT PRIMARY KEY, v {name})");
        let rows = values.iter().enumerate();
        let mut rows: Vec<String> = rows.map(|(k, value)| format!("({k}, {value})")).collect();
        rows.push("(99, NULL)".to_owned());
        let mut script = define("from");
        for row in rows {
            script += &format!("; INSERT INTO from{at} VALUES {row}");
        }
        let made = client.batch_execute(&script).await;
        made.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let select = |table: &str| format!("SELECT * FROM {table}{at} ORDER BY k");
        let expected = cells(&client, &select("from")).await;
        for format in ["text", "csv", "binary"] {
            let out = format!("COPY ({}) TO STDOUT (FORMAT {format})", select("from"));
            let data = copy_out(&client, &out).await;
            client.batch_execute(&define("into")).await.unwrap();
            let into = format!("COPY into{at} FROM STDIN (FORMAT {format})");
            let copied = copy_in(&client, &into, &data).await;
            let shown = String::from_utf8_lossy(&data);
            copied.unwrap_or_else(|error| panic!("{name}, {format}: {error:?}\n{shown}"));
            let found = cells(&client, &select("into")).await;
            assert_eq!(found, expected, "{name}, {format}:\n{shown}");
            let drop = format!("DROP TABLE into{at}");
            client.batch_execute(&drop).await.unwrap();
        }
    }
    served.stop().await;
}

/// PostgreSQL's binary formats have six digits of a second: what is finer is cut there alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nanoseconds_come_back_from_all_but_binary() {
    const COLUMNS: &str = "(t TIMESTAMP(9) PRIMARY KEY, z TIMESTAMP(9) WITH TIME ZONE, \
         c TIME(9), l TIMESTAMP(9)[])";
    const ROW: [&str; 4] = [
        "1969-12-31 23:59:59.999999999",
        "2024-01-01 00:00:00.123456789+00",
        "23:59:59.000000001",
        "{\"2024-01-01 00:00:00.000000001\",NULL}",
    ];
    const CUT: [&str; 4] = [
        "1969-12-31 23:59:59.999999",
        "2024-01-01 00:00:00.123456+00",
        "23:59:59",
        "{\"2024-01-01 00:00:00\",NULL}",
    ];
    let served = Served::start().await;
    let client = served.client().await;
    let made = format!("CREATE TABLE finer {COLUMNS}");
    client.batch_execute(&made).await.unwrap();
    let row = ROW.map(|value| format!("'{value}'")).join(", ");
    let insert = format!("INSERT INTO finer VALUES ({row})");
    client.batch_execute(&insert).await.unwrap();
    assert_eq!(cells(&client, "SELECT * FROM finer").await, [ROW]);
    for (format, expected) in [("text", ROW), ("csv", ROW), ("binary", CUT)] {
        let out = format!("COPY finer TO STDOUT (FORMAT {format})");
        let data = copy_out(&client, &out).await;
        let made = format!("CREATE TABLE {format}_copy {COLUMNS}");
        client.batch_execute(&made).await.unwrap();
        let into = format!("COPY {format}_copy FROM STDIN (FORMAT {format})");
        copy_in(&client, &into, &data).await.unwrap();
        let found = cells(&client, &format!("SELECT * FROM {format}_copy")).await;
        assert_eq!(found, [expected], "{format}");
    }
    served.stop().await;
}

/// What is sent for the row of a key: as texts, in binary formats, and with a limit of one row.
async fn sent(raw: &mut Raw, statement: &str, key: usize) -> Vec<String> {
    let mut sent = Vec::new();
    for (format, rows_max) in [(0, 0), (1, 0), (0, 1)] {
        let mut bind = format!("\0{statement}\0\0\0").into_bytes();
        bind.put_i16(1);
        let key = key.to_string();
        bind.put_i32(key.len() as i32);
        bind.put_slice(key.as_bytes());
        bind.put_i16(1);
        bind.put_i16(format);
        raw.put(b'B', &bind).execute("", rows_max);
        if rows_max > 0 {
            raw.execute("", rows_max);
        }
        sent.push(format!("{:?}", raw.sync().ready().await));
    }
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_read_often_is_sent_as_it_was_before() {
    let served = Served::start().await;
    let client = served.client().await;
    let mut raw = Raw::new(&served).await;
    for (at, (name, values)) in TYPES.into_iter().enumerate() {
        let create = format!("CREATE TABLE t{at} (k INT PRIMARY KEY, v {name}, w {name})");
        client.batch_execute(&create).await.unwrap();
        for (k, value) in values.iter().enumerate() {
            let insert = format!("INSERT INTO t{at} VALUES ({k}, {value}, NULL)");
            client.batch_execute(&insert).await.unwrap();
        }
        let statement = format!("find{at}");
        let select = format!("SELECT w, v, k FROM t{at} WHERE k = $1");
        raw.parse(&statement, &select).sync().ready().await;
        // Behind the last there is none.
        let keys = 0..=values.len();
        let mut expected = Vec::new();
        for key in keys.clone() {
            expected.push(sent(&mut raw, &statement, key).await);
        }
        client.batch_execute("SETTLE").await.unwrap();
        for _ in 0..3 {
            for key in keys.clone() {
                let found = sent(&mut raw, &statement, key).await;
                assert_eq!(found, expected[key], "{name}, {key}");
            }
        }
    }
    served.stop().await;
}

/// Whole binary COPYs of one value each, in a table of one column.
fn binary(flags: u32, values: &[&[u8]], after: &[u8]) -> Vec<u8> {
    let mut data = b"PGCOPY\n\xff\r\n\0".to_vec();
    data.extend_from_slice(&flags.to_be_bytes());
    data.extend_from_slice(&0_u32.to_be_bytes());
    for value in values {
        data.extend_from_slice(&1_i16.to_be_bytes());
        data.extend_from_slice(&(value.len() as u32).to_be_bytes());
        data.extend_from_slice(value);
    }
    data.extend_from_slice(&(-1_i16).to_be_bytes());
    data.extend_from_slice(after);
    data
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binary_values_that_are_none_are_refused() {
    let served = Served::start().await;
    let client = served.client().await;
    let day = 86_400_000_000_i64;
    let cases: [(&str, &[u8], &str); 9] = [
        ("TIME", &day.to_be_bytes(), "22008"),
        ("TIME", &(-1_i64).to_be_bytes(), "22008"),
        ("DATE", &i32::MIN.to_be_bytes(), "22008"),
        ("DATE", &i32::MAX.to_be_bytes(), "22008"),
        ("TIMESTAMP", &i64::MIN.to_be_bytes(), "22008"),
        ("TIMESTAMPTZ", &i64::MAX.to_be_bytes(), "22008"),
        ("INT", &[1], "22P03"),
        ("TEXT", b"\xff", "22021"),
        ("TEXT", b"a\0", "22021"),
    ];
    for (at, (name, value, state)) in cases.into_iter().enumerate() {
        let table = format!("CREATE TABLE b{at} (v {name})");
        client.batch_execute(&table).await.unwrap();
        let sql = format!("COPY b{at} FROM STDIN (FORMAT binary)");
        let refused = copy_in(&client, &sql, &binary(0, &[value], b"")).await;
        assert_eq!(sqlstate(refused), state, "{name} {value:?}");
    }
    let sql = "COPY b7 FROM STDIN (FORMAT binary)";
    for data in [
        binary(1 << 16, &[b"x"], b""),
        binary(0, &[b"x"], b"more"),
        b"PGCOPY nothing of the kind".to_vec(),
    ] {
        assert_eq!(sqlstate(copy_in(&client, sql, &data).await), "22P04");
    }
    let mut long = binary(0, &[], b"");
    long.truncate(19);
    long.extend_from_slice(&1_i16.to_be_bytes());
    long.extend_from_slice(&(100_u32 << 20).to_be_bytes());
    assert_eq!(sqlstate(copy_in(&client, sql, &long).await), "54000");
    assert_eq!(
        copy_in(&client, sql, &binary(7, &[b"x"], b""))
            .await
            .unwrap(),
        1
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_do_not_separate_values_of_text() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)").await;
    let client = served.client().await;
    for way in ["TO STDOUT", "FROM STDIN"] {
        let sql = format!("COPY t {way} (FORMAT text, DELIMITER 'n')");
        assert_eq!(sqlstate(client.simple_query(&sql).await), "22023", "{way}");
    }
    served.stop().await;
}
