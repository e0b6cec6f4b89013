//! Labels of rows and cells: by random stories against a database that was loaded without what is
//! hidden, by roles, and by all that could tell of it.
//!
//! A story asks a few of the queries at each of its checks, chosen by its seed, so that a few
//! stories ask all of all tables many times. `SEED=7` runs one story, `LAZYBASE_LABEL_STORIES=50`
//! so many. In every second one the labels come later than the table, which has a key, partitions,
//! rows that end, one session alone, or none of these; some of the changes are transactions.

use std::sync::Arc;

use lazybase_engine::env::memory::MemoryStore;
use lazybase_query::{Database, Session};

use crate::stages::{Mix, Pipeline};
use crate::views::{Dice, open};
use crate::{open_in, rows};

mod leaks;
mod model;
mod roles;
mod shape;

use model::{AUTHORIZATIONS, LABELS, Model, Row};
use shape::{SHAPES, Shape};

const LATER: &str = "ALTER TABLE t ALTER COLUMN a SET WITH LABELS, \
    ALTER COLUMN b SET WITH LABELS, SET (row_labels = true)";

/// How many stories there are unless somebody says: one of each shape, on all mixes.
const STORIES: u64 = SHAPES.len() as u64;
const ROUNDS: usize = 24;
/// The round before which labels come to a table that has none.
const LATE_ROUND: usize = 6;
/// One in so many queries is asked at a check.
const ASKED: u64 = 3;

const MIXES: [Mix; 5] = [
    Mix::Open,
    Mix::Unsorted,
    Mix::HalfSorted,
    Mix::PartlyMerged,
    Mix::Authority,
];

/// Queries of a table `{t}`; `{c}` is some number, `{order}` an order in which no two rows stand in
/// each other's place. The first ones read no `b`.
const QUERIES: [&str; 22] = [
    "SELECT k, g, a FROM {t}",
    "SELECT count(*), count(a), sum(a), min(a), max(a), max(k) FROM {t}",
    "SELECT count(*) FROM {t}",
    "SELECT k, a FROM {t} WHERE a = {c}",
    "SELECT k FROM {t} WHERE a IS NULL",
    "SELECT k FROM {t} WHERE coalesce(a, -1) < {c}",
    "SELECT k, g, a FROM {t} WHERE k = {c}",
    "SELECT a FROM {t} WHERE k IN ({c}, 1, 2)",
    "SELECT k, a FROM {t} WHERE g = {c}",
    "SELECT k, a FROM {t} WHERE k > {c} ORDER BY {order} LIMIT 2",
    "SELECT k FROM {t} ORDER BY k DESC LIMIT 3",
    "SELECT a, k FROM {t} ORDER BY a, k LIMIT 4",
    "SELECT a, k FROM {t} ORDER BY a DESC NULLS LAST, k LIMIT 4",
    "SELECT g, k FROM {t} ORDER BY g, k LIMIT 3 OFFSET 1",
    "SELECT g, count(*), sum(a) FROM {t} GROUP BY g",
    "SELECT DISTINCT a FROM {t}",
    "SELECT k FROM {t} WHERE a = (SELECT max(a) FROM {t})",
    "SELECT k, g, a, b FROM {t}",
    "SELECT k FROM {t} WHERE a >= {c} AND b IS NULL",
    "SELECT k, a + b FROM {t} WHERE b <> {c} OR a = {c}",
    "SELECT x.k, y.k FROM {t} AS x JOIN {t} AS y ON x.a = y.b",
    "SELECT min(b), max(b), count(b) FROM {t} WHERE k < {c}",
];
const WITHOUT_B: usize = 17;

/// One story: the database with labels, and one without.
struct World {
    labelled: Database,
    plain: Session,
    session: Session,
    pipeline: Pipeline,
    dice: Dice,
    shape: Shape,
    model: Model,
    /// Whether there are labels, and views.
    has_labels: bool,
    /// What there was at the ends of SCUs.
    past: Vec<(u64, Model)>,
    trace: Vec<String>,
}

impl World {
    async fn new(seed: u64) -> World {
        let labelled = open(&MemoryStore::new()).await;
        let plain = open(&MemoryStore::new()).await.session();
        let session = labelled.session();
        let has_labels = seed.is_multiple_of(2);
        let shape = SHAPES[seed as usize % SHAPES.len()];
        let table = shape.create(has_labels);
        session.execute(&table).await.unwrap();
        plain.execute(shape.plain()).await.unwrap();
        let pipeline = Pipeline::new(labelled.clone(), MIXES[seed as usize % MIXES.len()]);
        pipeline.start().await.unwrap();
        let mut world = World {
            labelled,
            plain,
            session,
            pipeline,
            dice: Dice::new(seed),
            shape,
            model: Model::default(),
            has_labels,
            past: Vec::new(),
            trace: vec![table],
        };
        if has_labels {
            world.add_views().await;
        }
        world
    }

    async fn add_views(&mut self) {
        for view in self.shape.views() {
            self.run("*", &view).await;
        }
    }

    /// From here on there are labels, if there were none.
    async fn add_labels(&mut self) {
        if !self.has_labels {
            self.has_labels = true;
            self.run("*", LATER).await;
            self.add_views().await;
        }
    }

    fn number(&mut self) -> i64 {
        self.dice.roll(8) as i64
    }

    fn label(&mut self) -> &'static str {
        LABELS[self.dice.roll(LABELS.len() as u64) as usize]
    }

    fn authorizations(&mut self) -> &'static str {
        AUTHORIZATIONS[self.dice.roll(AUTHORIZATIONS.len() as u64) as usize]
    }

    /// A cell that may be NULL, and its label.
    fn cell(&mut self) -> (Option<i64>, &'static str) {
        let value = Some(self.number()).filter(|value| *value > 0);
        (value, self.label())
    }

    /// Runs a statement of whoever has these authorizations; gives the SCU, if any, that it is of.
    async fn run(&mut self, authorizations: &str, sql: &str) -> Option<u64> {
        self.trace.push(format!("[{authorizations}] {sql}"));
        let in_transaction = self.session.in_transaction();
        self.pipeline.before(in_transaction).await.unwrap();
        let set = format!("SET lazybase.authorizations = '{authorizations}'");
        self.session.execute(&set).await.unwrap();
        let answers = self.session.execute(sql).await;
        let story = || self.trace.join("\n");
        let answers = answers.unwrap_or_else(|error| panic!("{}\n{error:?}", story()));
        let in_transaction = self.session.in_transaction();
        self.pipeline.after(in_transaction).await.unwrap();
        let token = answers.last().unwrap().token;
        token.map(|token| token.horizon.scu.0)
    }

    /// The changes that the table takes, by their numbers in [`World::change`].
    fn changes(&self) -> &'static [u64] {
        match (self.has_labels, self.shape) {
            (true, Shape::EndsByValue) => &[0, 1, 2, 3, 4, 8, 11],
            (true, Shape::Keyless) => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11],
            (true, _) => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            // Those that set no labels.
            (false, Shape::EndsByValue) => &[4, 4, 4, 8, 11],
            (false, _) => &[4, 4, 6, 6, 8, 10, 11],
        }
    }

    async fn change(&mut self) {
        let (k, g) = (self.number(), self.number());
        let (a, a_label) = self.cell();
        let (b, b_label) = self.cell();
        let row_label = self.label();
        let row = Row::new(g, (a, a_label), (b, b_label), row_label);
        let shape = self.shape;
        let is_alive = !shape.ends() || self.dice.roll(4) > 0;
        let insert = |is_alive: bool| {
            let columns = "k, g, a, \"_label(a)\", b, \"_label(b)\", _label";
            let columns = columns.to_owned() + shape.at();
            let (a, b, at) = (shown(a), shown(b), shape.moment(is_alive));
            format!(
                "INSERT INTO t ({columns}) VALUES \
                 ({k}, {g}, {a}, '{a_label}', {b}, '{b_label}', '{row_label}'{at})"
            )
        };
        let by_key = shape.by_key(k);
        let changes = self.changes();
        let (authorizations, sql) = match changes[self.dice.roll(changes.len() as u64) as usize] {
            0..=3 => {
                self.model.put(shape, k, is_alive, row);
                ("*", insert(is_alive))
            }
            4 => {
                // Without labels, whatever there was.
                let bare = Row::new(g, (a, ""), (b, ""), "");
                self.model.put(shape, k, is_alive, bare);
                let (a, b, at) = (shown(a), shown(b), shape.moment(is_alive));
                let values = format!("{k}, {g}, {a}, {b}{at}");
                ("*", format!("INSERT INTO t VALUES ({values})"))
            }
            5 => {
                self.model.set_a(k, a, a_label);
                let a = shown(a);
                let set = format!("a = {a}, \"_label(a)\" = '{a_label}'");
                ("*", format!("UPDATE t SET {set} WHERE {by_key}"))
            }
            6 => {
                self.model.set_a(k, a, "");
                let a = shown(a);
                ("*", format!("UPDATE t SET a = {a} WHERE {by_key}"))
            }
            7 => {
                self.model.set_label(k, g, row_label);
                let set = format!("g = {g}, _label = '{row_label}'");
                ("*", format!("UPDATE t SET {set} WHERE {by_key}"))
            }
            8 => {
                self.model.delete(k);
                ("*", format!("DELETE FROM t WHERE {by_key}"))
            }
            9 => {
                match self.model.has(k) {
                    true => self.model.set_a(k, a, a_label),
                    false => self.model.put(shape, k, true, row),
                }
                let (insert, key) = (insert(true), shape.key());
                let set = "DO UPDATE SET a = EXCLUDED.a";
                ("*", format!("{insert} ON CONFLICT ({key}) {set}"))
            }
            10 => {
                let authorizations = self.authorizations();
                self.model.update_g(authorizations, g, k);
                let sql = format!("UPDATE t SET g = {g} WHERE a >= {k}");
                (authorizations, sql)
            }
            _ => {
                let authorizations = self.authorizations();
                self.model.delete_by_b(authorizations, k);
                (authorizations, format!("DELETE FROM t WHERE b = {k}"))
            }
        };
        let scu = self.run(authorizations, &sql).await;
        self.note(scu);
    }

    /// What was changed last is of this SCU, if it is committed.
    fn note(&mut self, scu: Option<u64>) {
        if let Some(scu) = scu {
            self.model.stamp(scu);
            self.past.retain(|(known, _)| *known != scu);
            self.past.push((scu, self.model.clone()));
        }
    }

    /// Changes that are kept together, or not at all; each sees those before it.
    async fn transaction(&mut self) {
        let before = self.model.clone();
        self.run("*", "BEGIN").await;
        for _ in 0..1 + self.dice.roll(4) {
            self.change().await;
            self.check().await;
        }
        match self.dice.roll(3) {
            0 => {
                self.run("*", "ROLLBACK").await;
                self.model = before;
            }
            _ => {
                let scu = self.run("*", "COMMIT").await;
                self.note(scu);
            }
        }
    }

    /// Compares all queries for somebody, now or as of an earlier SCU.
    async fn check(&mut self) {
        let authorizations = self.authorizations();
        let number = self.number().to_string();
        let in_transaction = self.session.in_transaction();
        // The newest SCU may be open still.
        let ended = self.past.len().saturating_sub(1) as u64;
        let (model, as_of) = match ended > 0 && !in_transaction && self.dice.roll(2) == 0 {
            true => {
                let (scu, model) = &self.past[self.dice.roll(ended) as usize];
                (model.clone(), format!(" AS OF SCU {scu}"))
            }
            false => (self.model.clone(), String::new()),
        };
        self.load(&model, authorizations).await;
        let other = self.labelled.session();
        let session = match in_transaction || self.shape == Shape::Temporary {
            true => &self.session,
            false => &other,
        };
        let set = format!("SET lazybase.authorizations = '{authorizations}'");
        session.execute(&set).await.unwrap();
        let has_views = self.has_labels && as_of.is_empty() && self.shape != Shape::Temporary;
        for (at, query) in QUERIES.iter().enumerate() {
            let tables = match (has_views, at < WITHOUT_B) {
                (true, true) => &["t", "by_a", "by_g"][..],
                (true, false) => &["t", "by_a"],
                (false, _) => &["t"],
            };
            let asked = tables.iter().filter(|_| self.dice.roll(ASKED) == 0);
            let asked: Vec<&str> = asked.copied().collect();
            if asked.is_empty() {
                continue;
            }
            let query = query.replace("{c}", &number);
            let query = query.replace("{order}", self.shape.order());
            let wanted = answer(&self.plain, &query.replace("{t}", "p")).await;
            for table in asked {
                let asked = query.replace("{t}", table) + &as_of;
                let given = answer(session, &asked).await;
                self.compare(authorizations, &asked, &given, &wanted);
            }
        }
        let asked = format!("SELECT k, _scu FROM t{as_of}");
        let given = answer(session, &asked).await;
        let wanted = answer(&self.plain, "SELECT k, scu FROM p").await;
        self.compare(authorizations, &asked, &given, &wanted);
    }

    fn compare(&self, who: &str, sql: &str, given: &[Vec<String>], wanted: &[Vec<String>]) {
        if given != wanted {
            let story = self.trace.join("\n");
            panic!("{story}\n[{who}] {sql}\n  given {given:?}\n wanted {wanted:?}");
        }
    }

    /// Loads what somebody may read, and nothing else, into the table without labels.
    async fn load(&self, model: &Model, authorizations: &str) {
        let rows = model.visible(authorizations).into_iter().map(|(k, row)| {
            let (a, b) = (shown(row.a), shown(row.b));
            let scu = row.scu.map_or("NULL".to_owned(), |scu| scu.to_string());
            format!("({k}, {}, {a}, {b}, {scu})", row.g)
        });
        let rows: Vec<String> = rows.collect();
        let mut sql = String::from("DELETE FROM p");
        if !rows.is_empty() {
            sql += &format!("; INSERT INTO p VALUES {}", rows.join(", "));
        }
        self.plain.execute(&sql).await.unwrap();
    }
}

fn shown(value: Option<i64>) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

/// The rows of a query, sorted where it leaves their order open.
async fn answer(session: &Session, sql: &str) -> Vec<Vec<String>> {
    let mut rows = rows(session, sql).await;
    if !sql.contains("ORDER BY") {
        rows.sort();
    }
    rows
}

async fn story(seed: u64) {
    let mut world = World::new(seed).await;
    for round in 0..ROUNDS {
        if round == LATE_ROUND {
            world.add_labels().await;
        }
        match world.dice.roll(4) {
            0 => world.transaction().await,
            _ => {
                for _ in 0..1 + world.dice.roll(4) {
                    world.change().await;
                }
            }
        }
        world.check().await;
    }
    world.labelled.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_answer_as_if_what_is_hidden_had_never_been_loaded() {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LAZYBASE_LABEL_STORIES").unwrap_or(STORIES),
    };
    for seed in seeds {
        eprintln!("SEED={seed}");
        story(seed).await;
    }
}

/// A view that is made while its table gets labels would lack them, and show what they hide.
#[tokio::test]
async fn a_view_never_lacks_the_labels_of_its_table() {
    let setup = "CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT); INSERT INTO t VALUES (1, 1, 1)";
    let (_folder, database, session) = world(setup).await;
    let other = database.session();
    let labels = [
        "ALTER TABLE t ALTER COLUMN a SET WITH LABELS",
        "ALTER TABLE t SET (row_labels = true)",
    ];
    for alter in labels {
        let view = "BEGIN; CREATE MATERIALIZED VIEW v AS SELECT a, k FROM t ORDER BY a, k";
        session.execute(view).await.unwrap();
        other.execute(alter).await.unwrap();
        let late = session.execute("COMMIT").await.unwrap_err();
        assert_eq!(late.sqlstate(), "40001", "{alter}");
    }
    // The other way around, and both at once.
    let late = "BEGIN; ALTER TABLE t ALTER COLUMN b SET WITH LABELS";
    session.execute(late).await.unwrap();
    let view = "CREATE MATERIALIZED VIEW w AS SELECT b, k FROM t ORDER BY b, k";
    other.execute(view).await.unwrap();
    let late = session.execute("COMMIT").await.unwrap_err();
    assert_eq!(late.sqlstate(), "2BP01");
    other.execute("DROP MATERIALIZED VIEW w").await.unwrap();
    let both = format!("BEGIN; ALTER TABLE t ALTER COLUMN b SET WITH LABELS; {view}; COMMIT");
    session.execute(&both).await.unwrap();
    let secret = "INSERT INTO t (k, a, b, \"_label(b)\", _label) VALUES (2, 2, 2, 'x', NULL), \
        (3, 3, 3, NULL, 'x')";
    session.execute(secret).await.unwrap();
    let read = "SET lazybase.authorizations = ''; SELECT k, b FROM w WHERE k > 0";
    other.execute("SETTLE").await.unwrap();
    let found = rows(&other, read).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.contains(&vec!["2".to_owned(), "NULL".to_owned()]),
        "{found:?}"
    );
    database.close().await.unwrap();
}

/// Statements that were prepared, and snapshots that were pinned, before there were labels.
#[tokio::test]
async fn labels_that_come_later_count_for_what_was_prepared_before() {
    let setup = "CREATE TABLE t (k INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1), (2, 2)";
    let (_folder, database, owner) = world(setup).await;
    let limited = database.session();
    let set = "SET lazybase.authorizations = ''";
    limited.execute(set).await.unwrap();
    let point = limited.prepare("SELECT a FROM t WHERE k = $1");
    let point = point.await.unwrap();
    let scan = limited.prepare("SELECT k, a FROM t WHERE k < $1 ORDER BY k");
    let scan = scan.await.unwrap();
    let cells = |answer: lazybase_query::Answer| -> Vec<Vec<String>> {
        answer.batches.iter().flat_map(crate::texts).collect()
    };
    assert_eq!(cells(point.execute(&[1.into()]).await.unwrap()), [["1"]]);
    let pinned = database.session();
    pinned
        .execute("SET lazybase.authorizations = ''; BEGIN READ ONLY; SELECT * FROM t")
        .await
        .unwrap();
    owner
        .execute(
            "ALTER TABLE t ALTER COLUMN a SET WITH LABELS; ALTER TABLE t SET (row_labels = true); \
             UPDATE t SET a = 10, \"_label(a)\" = 'x' WHERE k = 1; \
             UPDATE t SET _label = 'x' WHERE k = 2",
        )
        .await
        .unwrap();
    assert_eq!(cells(point.execute(&[1.into()]).await.unwrap()), [["NULL"]]);
    let none: [[&str; 1]; 0] = [];
    assert_eq!(cells(point.execute(&[2.into()]).await.unwrap()), none);
    assert_eq!(
        cells(scan.execute(&[9.into()]).await.unwrap()),
        [["1", "NULL"]]
    );
    // What the snapshot holds was everybody's then.
    let all = rows(&pinned, "SELECT k, a FROM t ORDER BY k").await;
    assert_eq!(all, [["1", "1"], ["2", "2"]]);
    pinned.execute("COMMIT").await.unwrap();
    let all = rows(&pinned, "SELECT k, a FROM t ORDER BY k").await;
    assert_eq!(all, [["1", "NULL"]]);
    database.close().await.unwrap();
}

/// A database of its own with the given statements run on it.
async fn world(setup: &str) -> (Arc<tempfile::TempDir>, Database, Session) {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let database = open_in(folder.path()).await;
    let session = database.session();
    session.execute(setup).await.unwrap();
    (folder, database, session)
}
