//! Secondary views against a naive model: random changes, stages and restarts, and the same rows
//! through every view, by name and by the planner's choice, at every horizon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use lazybase_cluster::{Settings, SettleTo, StageName};
use lazybase_engine::env::faults::{Faults, FaultyStore};
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_engine::env::{Env, Store};
use lazybase_query::{Database, Session};

/// The rows of `t` by their key, as SQL text.
type Model = BTreeMap<(i64, String), [Option<i64>; 3]>;

/// A small generator: the seed is all that a failing run needs.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % sides
    }

    fn key(&mut self) -> (i64, String) {
        let text = ["x", "yy", "zzz"][self.roll(3) as usize];
        (self.roll(12) as i64, text.to_owned())
    }

    fn value(&mut self) -> Option<i64> {
        let value = self.roll(8) as i64;
        (value > 0).then_some(value)
    }
}

fn sql(value: Option<i64>) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

const TABLE: &str = "CREATE TABLE t (k INT, s TEXT, a INT, b INT, c INT, PRIMARY KEY (k, s))";
/// Each view's name, columns, key, and a column that its ranges are of.
const VIEWS: [(&str, &str, &str, &str); 3] = [
    ("by_a", "a, k, s", "a, k, s", "a"),
    ("by_b", "k, s, a, b, c", "b, s, k", "b"),
    ("by_c", "c, s, b, k", "c, k, s", "c"),
];

struct World {
    store: MemoryStore,
    database: Database,
    session: Session,
    dice: Dice,
    model: Model,
    /// What the table held at the ends of SCUs.
    past: Vec<(u64, Model)>,
    there: [bool; 3],
    trace: Vec<String>,
    /// How many queries a view answered.
    through_views: usize,
}

pub(crate) async fn open(store: &MemoryStore) -> Database {
    let settings = Settings {
        seal_age: Duration::from_secs(3600),
        ..Settings::default()
    };
    let env = Env::system(Arc::new(store.clone()));
    Database::open_env(env, settings).await.unwrap()
}

impl World {
    async fn new(seed: u64) -> World {
        let store = MemoryStore::new();
        let database = open(&store).await;
        let session = database.session();
        session.execute(TABLE).await.unwrap();
        World {
            store,
            database,
            session,
            dice: Dice::new(seed),
            model: Model::new(),
            past: Vec::new(),
            there: [false; 3],
            trace: vec![format!("seed {seed}")],
            through_views: 0,
        }
    }

    async fn run(&mut self, sql: &str) {
        self.trace.push(sql.to_owned());
        if let Err(error) = self.session.execute(sql).await {
            panic!("{error:?}\n{}", self.trace.join(";\n"));
        }
    }

    /// One random statement, and what it makes of the model.
    async fn change(&mut self) {
        let dice = &mut self.dice;
        let (key, row) = (dice.key(), [dice.value(), dice.value(), dice.value()]);
        let (k, s) = &key;
        let column = dice.roll(3) as usize;
        let name = ["a", "b", "c"][column];
        let values = format!(
            "({k}, '{s}', {}, {}, {})",
            sql(row[0]),
            sql(row[1]),
            sql(row[2])
        );
        let text = match dice.roll(9) {
            0..=2 => {
                self.model.insert(key, row);
                format!("INSERT INTO t VALUES {values}")
            }
            3 | 4 => {
                let text = format!(
                    "UPDATE t SET {name} = {} WHERE k = {k} AND s = '{s}'",
                    sql(row[column])
                );
                self.model
                    .entry(key)
                    .and_modify(|old| old[column] = row[column]);
                text
            }
            5 => {
                self.model.entry(key).or_insert(row);
                format!("INSERT INTO t VALUES {values} ON CONFLICT DO NOTHING")
            }
            6 => {
                let text = format!(
                    "INSERT INTO t VALUES {values} ON CONFLICT (k, s) DO UPDATE \
                     SET {name} = EXCLUDED.{name}"
                );
                let merged = self.model.get(&key).map_or(row, |old| {
                    let mut merged = *old;
                    merged[column] = row[column];
                    merged
                });
                self.model.insert(key, merged);
                text
            }
            7 => {
                self.model.remove(&key);
                format!("DELETE FROM t WHERE k = {k} AND s = '{s}'")
            }
            _ => {
                let bound = row[column].unwrap_or(7);
                self.model
                    .retain(|_, row| row[column].is_none_or(|value| value != bound));
                format!("DELETE FROM t WHERE {name} = {bound}")
            }
        };
        self.run(&text).await;
    }

    /// A transaction reads its own changes, through views too.
    async fn transaction(&mut self) {
        let before = self.model.clone();
        self.run("BEGIN").await;
        for _ in 0..3 {
            self.change().await;
            self.check(true).await;
        }
        match self.dice.roll(2) {
            0 => self.run("COMMIT").await,
            _ => {
                self.run("ROLLBACK").await;
                self.model = before;
            }
        }
    }

    async fn views(&mut self) {
        let at = self.dice.roll(3) as usize;
        let (name, columns, key, _) = VIEWS[at];
        match self.there[at] {
            true if self.dice.roll(3) == 0 => {
                self.run(&format!("DROP MATERIALIZED VIEW {name}")).await;
                self.there[at] = false;
            }
            true => {}
            false => {
                let query = format!("SELECT {columns} FROM t ORDER BY {key}");
                self.run(&format!("CREATE MATERIALIZED VIEW {name} AS {query}"))
                    .await;
                self.there[at] = true;
            }
        }
    }

    async fn pipeline(&mut self) {
        let instance = self.database.instance().clone();
        let what = self.dice.roll(10);
        self.trace.push(format!("pipeline {what}"));
        match what {
            0..=3 => {
                let scu = instance.seal().await.unwrap();
                self.past.push((scu.0, self.model.clone()));
            }
            4 | 5 => instance
                .settle(None, SettleTo::Sorted, &|_| {})
                .await
                .unwrap(),
            6 => {
                for stage in [StageName::Sort, StageName::Merge, StageName::Authority] {
                    instance.resume(stage).await.unwrap();
                }
                instance
                    .settle(None, SettleTo::Authority, &|_| {})
                    .await
                    .unwrap();
            }
            7 => instance.pause(StageName::Authority).await.unwrap(),
            8 => {
                self.database.close().await.unwrap();
                self.database = open(&self.store).await;
                self.session = self.database.session();
            }
            _ => {
                self.run("TRUNCATE t").await;
                self.model.clear();
                // The table is empty from this boundary on.
                let boundary = instance.manifest().sealed_through.0;
                self.past.retain(|(scu, _)| *scu < boundary);
            }
        }
    }

    /// Asks once, now or as of the past.
    async fn check(&mut self, in_transaction: bool) {
        let which = self.dice.roll(3) as usize;
        let (view, columns, key, range) = VIEWS[which];
        let from = match self.there[which] && self.dice.roll(3) > 0 {
            true => view,
            false => "t",
        };
        let (low, high) = (self.dice.roll(8) as i64, self.dice.roll(10) as i64);
        let bounds = (self.dice.roll(3) > 0).then_some((low, high));
        let filter = bounds.map_or(String::new(), |(low, high)| {
            format!(" WHERE {range} >= {low} AND {range} < {high}")
        });
        let past = match self.past.len() as u64 {
            0 => None,
            _ if in_transaction => None,
            kept if self.dice.roll(3) == 0 => Some(self.dice.roll(kept) as usize),
            _ => None,
        };
        let (clause, model) = match past {
            Some(at) => (format!(" AS OF SCU {}", self.past[at].0), &self.past[at].1),
            None => (String::new(), &self.model),
        };
        let expected = rows_of(model, columns, range, bounds);
        let order = key
            .split(", ")
            .map(|column| format!("{column} NULLS FIRST"));
        let order: Vec<String> = order.collect();
        let text = format!(
            "SELECT {columns} FROM {from}{filter} ORDER BY {}{clause}",
            order.join(", ")
        );
        self.trace.push(text.clone());
        let plan = self.lines(&format!("EXPLAIN {text}")).await;
        self.through_views += usize::from(plan.iter().any(|line| line.contains("of view")));
        let mut got = self.lines(&text).await;
        got.sort();
        assert_eq!(
            got,
            expected,
            "{}\n{}",
            self.trace.join(";\n"),
            plan.join("\n")
        );
    }

    async fn lines(&self, sql: &str) -> Vec<String> {
        let answers = match self.session.execute(sql).await {
            Ok(answers) => answers,
            Err(error) => panic!("{error:?}\n{}", self.trace.join(";\n")),
        };
        lines_of(&answers[0].batches)
    }
}

/// Rows as text, a line each.
fn lines_of(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        lines.extend((0..batch.num_rows()).map(|row| {
            let cells = columns.iter().map(|column| column.value(row).to_string());
            cells.collect::<Vec<_>>().join(", ")
        }));
    }
    lines
}

/// What a query for some columns gives, sorted as text.
fn rows_of(model: &Model, columns: &str, range: &str, bounds: Option<(i64, i64)>) -> Vec<String> {
    let cell = |name: &str, key: &(i64, String), row: &[Option<i64>; 3]| match name {
        "k" => key.0.to_string(),
        "s" => key.1.clone(),
        "a" => sql(row[0]),
        "b" => sql(row[1]),
        _ => sql(row[2]),
    };
    let of = |name: &str, row: &[Option<i64>; 3]| match name {
        "a" => row[0],
        "b" => row[1],
        _ => row[2],
    };
    let inside = |row: &[Option<i64>; 3]| match bounds {
        None => true,
        Some((low, high)) => of(range, row).is_some_and(|value| low <= value && value < high),
    };
    let rows = model.iter().filter(|(_, row)| inside(row));
    let mut rows: Vec<String> = rows
        .map(|(key, row)| {
            let cells = columns.split(", ").map(|name| cell(name, key, row));
            cells.collect::<Vec<_>>().join(", ")
        })
        .collect();
    rows.sort();
    rows
}

async fn story(seed: u64, steps: usize) -> usize {
    let mut world = World::new(seed).await;
    for _ in 0..steps {
        match world.dice.roll(11) {
            0 => world.views().await,
            10 => world.transaction().await,
            1 | 2 => world.pipeline().await,
            3..=5 => world.check(false).await,
            _ => world.change().await,
        }
    }
    for _ in 0..6 {
        world.check(false).await;
    }
    let report = world.database.instance().verify(&|_| {}).await.unwrap();
    assert!(report.is_whole(), "{report:?}\n{}", world.trace.join(";\n"));
    world.database.close().await.unwrap();
    world.through_views
}

#[tokio::test(flavor = "multi_thread")]
async fn views_show_what_their_table_holds() {
    let mut through_views = 0;
    let seeds: Vec<u64> = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..12).collect(),
    };
    for seed in &seeds {
        through_views += story(*seed, 90).await;
    }
    assert!(
        through_views > seeds.len(),
        "{through_views} queries through views"
    );
}

/// Posts of users who are spread over all keys, with a view by user, all in the authority.
async fn posts(store: &MemoryStore) -> Database {
    let database = open(store).await;
    let session = database.session();
    let setup = "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT NOT NULL, body TEXT);
        INSERT INTO posts
            SELECT x, (x * 7919) % 100000, 'post ' || ((x * 48271) % 65537 * 7919)::text
            FROM generate_series(0, 99999) AS s (x);
        CREATE MATERIALIZED VIEW by_author AS
            SELECT author, id, body FROM posts ORDER BY author, id";
    session.execute(setup).await.unwrap();
    let settled = database
        .instance()
        .settle(None, SettleTo::Authority, &|_| {});
    settled.await.unwrap();
    database
}

/// The rows of a query, and the bytes that were read for it by a database that has
/// just been opened.
async fn cold(store: &MemoryStore, sql: &str) -> (Vec<String>, u64) {
    let database = open(store).await;
    let session = database.session();
    let answers = session.execute(sql).await.unwrap();
    let lines = lines_of(&answers[0].batches);
    let bytes = answers[0]
        .stamp
        .as_ref()
        .map_or(0, |stamp| stamp.sources.bytes_read);
    database.close().await.unwrap();
    (lines, bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_a_view_reads_about_as_much_as_a_range_of_the_table() {
    let store = MemoryStore::new();
    posts(&store).await.close().await.unwrap();
    let by_key = "SELECT count(body) FROM posts WHERE id BETWEEN 5000 AND 5099";
    let by_author = "SELECT count(body) FROM posts WHERE author BETWEEN 5000 AND 5099";
    let (rows, key_bytes) = cold(&store, by_key).await;
    assert_eq!(rows, ["100"]);
    let (rows, view_bytes) = cold(&store, by_author).await;
    assert_eq!(rows, ["100"]);
    let (plan, _) = cold(&store, &format!("EXPLAIN ANALYZE {by_author}")).await;
    let (rows, named_bytes) = cold(&store, &by_author.replace("posts", "by_author")).await;
    assert_eq!(rows, ["100"]);
    // The planner looks at the indexes of both.
    assert!(
        named_bytes <= 2 * key_bytes && view_bytes <= 3 * key_bytes,
        "{named_bytes}, {view_bytes} bytes, {key_bytes} by key\n{}",
        plan.join("\n")
    );
    let view = plan
        .iter()
        .any(|line| line.contains("a range of the key of view \"by_author\""));
    assert!(view, "{}", plan.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_the_order_of_a_view_are_read_from_it() {
    let store = MemoryStore::new();
    posts(&store).await.close().await.unwrap();
    let ordered = "SELECT id FROM posts ORDER BY author, id LIMIT 3";
    let (rows, _) = cold(&store, ordered).await;
    // Posts 0, 1 / 7919 and 2 / 7919 in the ring of 100000.
    let of = |author: i64| {
        (0..100000i64)
            .find(|id| (id * 7919) % 100000 == author)
            .unwrap()
    };
    assert_eq!(rows, [of(0), of(1), of(2)].map(|id| id.to_string()));
    let (plan, _) = cold(&store, &format!("EXPLAIN {ordered}")).await;
    let sorts = plan.iter().any(|line| line.contains("SortExec"));
    let view = plan
        .iter()
        .any(|line| line.contains("view \"by_author\", in its order"));
    assert!(view && !sorts, "{}", plan.join("\n"));
}

/// A view of several ranges in the place of a table of one: what sorted the table's rows merged
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_of_several_ranges_gives_rows_in_one_order() {
    let settings = Settings {
        range_split_bytes: 4 << 10,
        ..Settings::default()
    };
    let env = Env::system(Arc::new(MemoryStore::new()));
    let database = Database::open_env(env, settings).await.unwrap();
    let session = database.session();
    let run = async |sql: &str| crate::rows(&session, sql).await;
    run("CREATE TABLE t (k INT PRIMARY KEY, at INT NOT NULL, b TEXT)").await;
    run("INSERT INTO t SELECT x * 2, x, md5(x::TEXT) FROM generate_series(1, 55) AS s (x)").await;
    run("CREATE MATERIALIZED VIEW v AS SELECT at, k, b FROM t ORDER BY at, k").await;
    run("SETTLE").await;
    run("INSERT INTO t VALUES (9, 109, 'x'), (11, 111, 'x')").await;
    run("SETTLE").await;
    let plan = told(&session, "EXPLAIN SELECT at FROM t ORDER BY at LIMIT 3").await;
    let plan = plan.join("\n");
    assert!(plan.contains("view \"v\", in its order"), "{plan}");
    let first = told(&session, "SELECT at FROM t ORDER BY at LIMIT 3").await;
    assert_eq!(first, ["1", "2", "3"]);
    let all = told(&session, "SELECT at, k FROM t ORDER BY at").await;
    let through = told(&session, "SELECT at, k FROM v ORDER BY at").await;
    assert_eq!((all.len(), &all), (57, &through));
    run("CREATE TABLE top AS SELECT at FROM t ORDER BY at DESC LIMIT 3").await;
    assert_eq!(told(&session, "SELECT count(*) FROM top").await, ["3"]);
    let ranges = "SELECT count(*) FROM lazybase.runs WHERE table_name = 'v'";
    assert_ne!(
        told(&session, ranges).await,
        ["1"],
        "the view has one range"
    );
}

/// What a query gives.
async fn told(session: &Session, sql: &str) -> Vec<String> {
    let answers = session.execute(sql).await.unwrap();
    lines_of(&answers[0].batches)
}

#[tokio::test(flavor = "multi_thread")]
async fn views_survive_power_cuts() {
    let store = MemoryStore::new();
    let database = open(&store).await;
    let session = database.session();
    let setup = "CREATE TABLE t (k INT PRIMARY KEY, a INT NOT NULL, v TEXT);
        INSERT INTO t SELECT x, x % 17, 'v' FROM generate_series(1, 500) AS s (x)";
    session.execute(setup).await.unwrap();
    let begun = store.operations();
    let settle = || {
        database
            .instance()
            .settle(None, SettleTo::Authority, &|_| {})
    };
    let view = "CREATE MATERIALIZED VIEW by_a AS SELECT a, k FROM t ORDER BY a, k";
    session.execute(view).await.unwrap();
    settle().await.unwrap();
    session
        .execute("UPDATE t SET a = 3 WHERE k = 77")
        .await
        .unwrap();
    session.execute("DELETE FROM t WHERE k = 78").await.unwrap();
    settle().await.unwrap();
    session
        .execute("UPDATE t SET v = 'w' WHERE k = 79")
        .await
        .unwrap();
    database.close().await.unwrap();
    let mut built = 0;
    for cut in (begun..=store.operations()).step_by(3) {
        let database = open(&store.crash_image(cut, Unsynced::Prefix(cut as u64))).await;
        let session = database.session();
        let of_table = "SELECT a, k FROM t WHERE a BETWEEN 2 AND 4 ORDER BY a, k";
        let table = told(&session, of_table).await;
        let shown = session.execute("SELECT a, k FROM by_a WHERE a BETWEEN 2 AND 4 ORDER BY a, k");
        if shown.await.is_ok() {
            let of_view = of_table.replace("FROM t", "FROM by_a");
            assert_eq!(told(&session, &of_view).await, table, "at {cut}");
            let settled = database
                .instance()
                .settle(None, SettleTo::Authority, &|_| {});
            settled.await.unwrap();
            assert_eq!(told(&session, &of_view).await, table, "at {cut}");
            let report = database.instance().verify(&|_| {}).await.unwrap();
            assert!(report.is_whole(), "{report:?} at {cut}");
            built += 1;
        }
        database.close().await.unwrap();
    }
    assert!(built > 5, "{built} images had the view");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_of_a_view_is_read_around_and_the_view_is_built_anew() {
    let store = MemoryStore::new();
    let database = posts(&store).await;
    let manifest = database.instance().manifest();
    let views = manifest
        .runs
        .values()
        .filter(|run| manifest.is_view(run.view));
    let files = views
        .flat_map(|run| &run.segments)
        .map(|segment| segment.file.clone());
    let files: Vec<String> = files.collect();
    database.close().await.unwrap();
    assert!(!files.is_empty());
    for tenths in [1, 4, 9] {
        let copy = store.crash_image(store.operations(), Unsynced::Everything);
        let faults = Faults::none();
        for file in &files {
            let bytes = copy.len(file).await.unwrap();
            faults.flip_bit(file, bytes * 8 * tenths / 10);
        }
        let faulty = FaultyStore::over(Arc::new(copy), faults.clone());
        let env = Env::system(Arc::new(faulty));
        let database = Database::open_env(env, Settings::default()).await.unwrap();
        let session = database.session();
        let asked =
            "SELECT author, id, body FROM by_author WHERE author < 2000 ORDER BY author, id";
        let by_table = "SELECT (id * 7919) % 100000, id, body FROM posts
            WHERE (id * 7919) % 100000 < 2000 ORDER BY 1, 2";
        let expected = told(&session, by_table).await;
        assert_eq!(told(&session, asked).await, expected, "{tenths}");
        let report = database.instance().verify(&|_| {}).await.unwrap();
        assert!(report.is_whole(), "{report:?}");
        let settled = database
            .instance()
            .settle(None, SettleTo::Authority, &|_| {});
        settled.await.unwrap();
        assert_eq!(told(&session, asked).await, expected, "{tenths}");
        let plan = told(&session, &format!("EXPLAIN {asked}")).await.join("\n");
        assert!(plan.contains("of view"), "{plan}");
        database.close().await.unwrap();
    }
}

/// Files that are replaced while they are verified, for another of the same view was damaged too.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_that_is_replaced_before_it_is_read_back_counts_as_healed() {
    let store = MemoryStore::new();
    let database = posts(&store).await;
    let of_views = |database: &Database| -> BTreeSet<String> {
        let manifest = database.instance().manifest();
        let views = manifest.runs.values();
        let views = views.filter(|run| manifest.is_view(run.view));
        let files = views.flat_map(|run| &run.segments);
        files.map(|segment| segment.file.clone()).collect()
    };
    let files = of_views(&database);
    database.close().await.unwrap();
    assert!(files.len() > 1, "{files:?}");
    let faults = Faults::none();
    for file in &files {
        let bytes = store.len(file).await.unwrap();
        faults.flip_bit(file, bytes * 4);
    }
    let faulty = FaultyStore::over(Arc::new(store), faults);
    let env = Env::system(Arc::new(faulty));
    let database = Database::open_env(env, Settings::default()).await.unwrap();
    let is_replaced = || of_views(&database).is_disjoint(&files);
    let waited = AtomicBool::new(false);
    let progress = |_: f64| {
        // If what was read back is damaged, this is known soon, and some time later replaced.
        for looks in 0..1500 {
            let nothing = looks > 25 && database.instance().status().damage.is_empty();
            if waited.load(Ordering::Relaxed) || nothing {
                break;
            }
            waited.store(is_replaced(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let report = database.instance().verify(&progress).await.unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert!(
        waited.into_inner(),
        "no file was replaced during the verification"
    );
    database.close().await.unwrap();
}
