//! SHOW CREATE TABLE: dropped and run again, its statements make a table that gives the same ones.

use lazybase_query::{Database, Session};

use crate::rows;
use crate::views::{Dice, open};

/// A type, an encoding and a default that it can have, and a bound where it may be partitioned.
type Typed = (&'static str, &'static str, &'static str, &'static str);

const TYPES: [Typed; 31] = [
    ("BOOLEAN", "rle", "true", ""),
    ("TINYINT", "delta", "-1", "-5"),
    ("SMALLINT", "dictionary", "1 + 1", "7"),
    ("INT", "delta", "7 * 2", "-100"),
    (
        "BIGINT",
        "plain",
        "-9223372036854775808",
        "9223372036854775807",
    ),
    ("TINYINT UNSIGNED", "", "255", "8"),
    ("SMALLINT UNSIGNED", "", "1", "9"),
    ("INT UNSIGNED", "", "abs(-4)", "10"),
    (
        "BIGINT UNSIGNED",
        "delta",
        "18446744073709551615",
        "18446744073709551615",
    ),
    ("REAL", "byte_stream_split", "0.5", "-0.25"),
    ("DOUBLE PRECISION", "byte_stream_split", "1e300", "'NaN'"),
    ("DECIMAL(10, 2)", "dictionary", "-1.50", "12.30"),
    (
        "DECIMAL(50, 5)",
        "plain",
        "1",
        "123456789012345678901234567890.5",
    ),
    ("TEXT", "prefix", "'it''s \"so\"'", "'it''s'"),
    ("VARCHAR(20)", "dictionary", "concat('a', 'b')", "'ß'"),
    ("BYTEA", "delta", "X'00ff'", "X'00FF'"),
    (
        "UUID",
        "plain",
        "uuid()",
        "'00000000-0000-0000-0000-0000000000ff'",
    ),
    ("DATE", "delta", "DATE '2026-01-01'", "'2026-01-01'"),
    ("TIME", "delta", "'12:00:00.5'", "'12:00:00.000001'"),
    ("TIME(0)", "", "'12:00:00'", "'12:00:01'"),
    ("TIME(9)", "", "'12:00:00'", "'12:00:00.000000001'"),
    (
        "TIMESTAMP",
        "delta",
        "now()",
        "'2026-01-01 12:00:00.000001'",
    ),
    ("TIMESTAMP(0)", "", "'2026-01-01'", "'1960-01-01'"),
    (
        "TIMESTAMP(9)",
        "",
        "TIMESTAMP '2026-01-01 00:00:00'",
        "'2026-01-01 00:00:00.000000001'",
    ),
    (
        "TIMESTAMP WITH TIME ZONE",
        "delta",
        "now()",
        "'2026-01-01 12:00:00+02'",
    ),
    (
        "TIMESTAMP(3) WITH TIME ZONE",
        "",
        "now()",
        "'2026-01-01T12:00:00.123Z'",
    ),
    ("INTERVAL", "plain", "INTERVAL '1 day'", ""),
    ("INT[]", "", "ARRAY[1, 2]", ""),
    ("TEXT[]", "", "'[\"a\"]'", ""),
    ("STRUCT<a INT, \"b C\" TEXT>", "", "'{\"a\": 1}'", ""),
    ("STRUCT<a INT[]>", "", "", ""),
];
/// The last ones have no order.
const KEY_TYPES: u64 = 26;
const NAMES: [&str; 8] = [
    "a",
    "at",
    "value",
    "\"Order\"",
    "\"select\"",
    "\"x y\"",
    "\"q\"\"q\"",
    "name",
];

struct Made<'d> {
    dice: &'d mut Dice,
    names: Vec<&'static str>,
    columns: Vec<String>,
    key: Vec<(&'static str, Typed)>,
    others: Vec<&'static str>,
    options: Vec<String>,
}

impl Made<'_> {
    fn some(&mut self, sides: u64) -> bool {
        self.dice.roll(sides) == 0
    }

    fn name(&mut self) -> &'static str {
        let at = self.dice.roll(self.names.len() as u64) as usize;
        self.names.remove(at)
    }

    fn column(&mut self, name: &str, typed: Typed, in_key: bool, point: bool) -> String {
        let (data_type, encoding, default, _) = typed;
        let mut words = vec![name.to_owned(), data_type.to_owned()];
        let sums = data_type == "BIGINT" && !in_key && !self.key.is_empty() && self.some(2);
        if sums {
            words.push("MERGE SUM".to_owned());
        }
        if !default.is_empty() && !sums && self.some(2) {
            words.push(format!("DEFAULT {default}"));
        }
        if self.some(3) {
            words.push("NOT NULL".to_owned());
        }
        if self.some(3) {
            words.push("COMMENT 'it''s; a \"comment\"'".to_owned());
        }
        if !point && !encoding.is_empty() && !sums && self.some(2) {
            words.push(format!("ENCODING {encoding}"));
        }
        let nested = data_type.contains(['<', '[']);
        if !point && !nested && self.some(2) {
            let codecs = ["zstd(7)", "lz4", "snappy", "none"];
            words.push(format!("CODEC {}", codecs[self.dice.roll(4) as usize]));
        }
        words.join(" ")
    }

    fn add(&mut self, point: bool) {
        let name = self.name();
        let typed = TYPES[self.dice.roll(TYPES.len() as u64) as usize];
        let column = self.column(name, typed, false, point);
        self.columns.push(column);
        self.others.push(name);
    }

    fn partitions(&mut self) -> String {
        if self.key.is_empty() {
            return String::new();
        }
        let (name, (.., bound)) = self.key[0];
        match self.dice.roll(4) {
            0 => "PARTITION BY HASH PARTITIONS 3".to_owned(),
            1 if self.key.len() > 1 && !bound.is_empty() => {
                let other = self.key[1].0;
                format!(
                    "PARTITION BY HASH ({other}) PARTITIONS 2, RANGE ({name}) SPLIT AT ({bound})"
                )
            }
            2 if !bound.is_empty() => {
                let partitions = format!("PARTITION VALUES < {bound}, PARTITION VALUE = {bound}");
                format!("PARTITION BY RANGE ({name}) ({partitions})")
            }
            _ => String::new(),
        }
    }
}

/// A random table with its views, and changes of it.
fn statements(dice: &mut Dice) -> Vec<String> {
    let point = dice.roll(3) == 0;
    let mut made = Made {
        dice,
        names: NAMES.to_vec(),
        columns: Vec::new(),
        key: Vec::new(),
        others: Vec::new(),
        options: Vec::new(),
    };
    for _ in 0..made.dice.roll(3) {
        let name = made.name();
        let typed = TYPES[made.dice.roll(KEY_TYPES) as usize];
        let column = made.column(name, typed, true, point);
        made.columns.push(column);
        made.key.push((name, typed));
    }
    for _ in 0..2 {
        made.add(point);
    }
    if !made.key.is_empty() && made.some(3) {
        made.columns
            .push("owner IDKEY REFERENCES owners".to_owned());
    }
    if point {
        made.options.push("layout = 'point'".to_owned());
    }
    if made.some(3) {
        made.options.push("comment = 'it''s'".to_owned());
    }
    let sums = made.columns.iter().any(|column| column.contains("MERGE"));
    if !sums && made.some(3) {
        made.columns.push("\"Ends\" DATE".to_owned());
        made.options
            .push("ttl = '36 hours', ttl_column = 'Ends'".to_owned());
    }
    let key: Vec<&str> = made.key.iter().map(|(name, _)| *name).collect();
    if !key.is_empty() {
        made.columns
            .push(format!("PRIMARY KEY ({})", key.join(", ")));
    }
    let options = match made.options.is_empty() {
        true => String::new(),
        false => format!("WITH ({})", made.options.join(", ")),
    };
    let partitions = made.partitions();
    let columns = made.columns.join(", ");
    let mut statements = vec![format!(
        "CREATE TABLE \"T 1\" ({columns}) {options} {partitions}"
    )];
    let other = made.others[0];
    if made.some(2) {
        let name = made.name();
        statements.push(format!(
            "ALTER TABLE \"T 1\" RENAME COLUMN {other} TO {name}"
        ));
        made.others[0] = name;
    }
    if made.some(2) {
        let typed = TYPES[made.dice.roll(5) as usize];
        let column = made.column("added", (typed.0, typed.1, "", ""), false, point);
        let column = column.replace("NOT NULL", "");
        statements.push(format!("ALTER TABLE \"T 1\" ADD COLUMN {column}"));
    }
    let ends = if options.contains("Ends") {
        ", \"Ends\""
    } else {
        ""
    };
    if made.some(2) && (!key.is_empty() || !ends.is_empty()) {
        let mut order = key.clone();
        order.reverse();
        let order = match order.is_empty() {
            true => "\"Ends\"".to_owned(),
            false => order.join(", "),
        };
        let shown = key
            .iter()
            .map(|name| format!("{name}, "))
            .collect::<String>();
        let other = made.others[0];
        let query = format!("SELECT {shown}{other}{ends} FROM \"T 1\" ORDER BY {order}");
        statements.push(format!("CREATE MATERIALIZED VIEW \"by K\" AS {query}"));
    }
    statements
}

async fn shown(session: &Session) -> Vec<Vec<String>> {
    rows(session, "SHOW CREATE TABLE \"T 1\"").await
}

async fn run(session: &Session, sql: &str, story: &[String]) {
    if let Err(error) = session.execute(sql).await {
        panic!("{error:?}\n{sql}\n{}", story.join(";\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_shown_makes_the_same_table_again() {
    let store = lazybase_engine::env::memory::MemoryStore::new();
    let database: Database = open(&store).await;
    let session = database.session();
    let owners = "CREATE TABLE owners (id IDKEY, name TEXT PRIMARY KEY)";
    session.execute(owners).await.unwrap();
    for seed in 0..150 {
        let mut dice = Dice::new(seed);
        let mut story = statements(&mut dice);
        for statement in story.clone() {
            run(&session, &statement, &story).await;
        }
        let made = shown(&session).await;
        run(&session, "DROP TABLE \"T 1\" CASCADE", &story).await;
        let texts: Vec<&str> = made.iter().map(|row| row[1].as_str()).collect();
        let text = texts.join(";\n");
        run(&session, &text, &story).await;
        story.push(text);
        assert_eq!(shown(&session).await, made, "{}", story.join(";\n"));
        run(&session, "DROP TABLE \"T 1\" CASCADE", &story).await;
    }
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_is_declared_is_shown() {
    let store = lazybase_engine::env::memory::MemoryStore::new();
    let database: Database = open(&store).await;
    let session = database.session();
    let made = "CREATE TABLE files (id IDKEY, host TEXT, path TEXT, PRIMARY KEY (host, path));
        CREATE TABLE sizes (
            file_id IDKEY REFERENCES files,
            at TIMESTAMP CODEC zstd ENCODING delta,
            hits BIGINT MERGE SUM DEFAULT 0 COMMENT 'it''s counted',
            PRIMARY KEY (file_id, at)
        ) WITH (ttl = '48 hours', ttl_column = 'at', comment = 'sizes')
        PARTITION BY HASH (file_id) PARTITIONS 2, RANGE (at) SPLIT AT ('2026-01-01');
        CREATE MATERIALIZED VIEW by_at AS SELECT at, file_id FROM sizes ORDER BY at, file_id";
    session.execute(made).await.unwrap();
    let files = "CREATE TABLE files (id IDKEY, host TEXT, path TEXT, PRIMARY KEY (host, path))";
    assert_eq!(
        rows(&session, "SHOW CREATE TABLE files").await,
        [["files", files]]
    );
    let sizes = "CREATE TABLE sizes (file_id IDKEY REFERENCES files, \
        at TIMESTAMP ENCODING delta CODEC zstd(3), \
        hits BIGINT MERGE SUM COMMENT 'it''s counted' DEFAULT 0, PRIMARY KEY (file_id, at)) \
        WITH (ttl = '2 days', ttl_column = 'at', comment = 'sizes') \
        PARTITION BY HASH (file_id) PARTITIONS 2, RANGE (at) \
        (PARTITION VALUES < '2026-01-01T00:00:00', PARTITION '2026-01-01T00:00:00' <= VALUES)";
    let view =
        "CREATE MATERIALIZED VIEW by_at AS SELECT at, file_id FROM sizes ORDER BY at, file_id";
    assert_eq!(
        rows(&session, "show create table public.SIZES").await,
        [["sizes", sizes], ["by_at", view]]
    );
    assert_eq!(
        rows(&session, "SHOW CREATE VIEW by_at").await,
        [["by_at", view]]
    );
    for (asked, sqlstate) in [
        ("SHOW CREATE TABLE by_at", "42809"),
        ("SHOW CREATE VIEW sizes", "42809"),
        ("SHOW CREATE TABLE nothing", "42P01"),
        ("SHOW CREATE TABLE", "42601"),
    ] {
        let error = session.execute(asked).await.unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate, "{asked}: {error}");
    }
    database.close().await.unwrap();
}
