//! Labels of rows and cells: by random stories against a database that was loaded without what is
//! hidden, by roles, and by all that could tell of it.
//!
//! `SEED=7` runs one story.

use std::sync::Arc;

use lazybase_engine::env::memory::MemoryStore;
use lazybase_query::{Database, Session};

use crate::rows;
use crate::stages::{Mix, Pipeline};
use crate::views::{Dice, open};

mod leaks;
mod model;
mod roles;

use model::{AUTHORIZATIONS, LABELS, Model, Row};

const TABLES: &str = "
    CREATE TABLE t (k INT PRIMARY KEY, g INT, a INT WITH LABELS, b INT WITH LABELS)
        WITH (row_labels = true);
    CREATE MATERIALIZED VIEW by_a AS SELECT k, g, a, b FROM t ORDER BY a, k;
    CREATE MATERIALIZED VIEW by_g AS SELECT k, g, a FROM t ORDER BY g, k";

const MIXES: [Mix; 5] = [
    Mix::Open,
    Mix::Unsorted,
    Mix::HalfSorted,
    Mix::PartlyMerged,
    Mix::Authority,
];

/// Queries of a table `{t}`; `{c}` is some number. The first ones read no `b`.
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
    "SELECT k, a FROM {t} WHERE k > {c} ORDER BY k LIMIT 2",
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
    model: Model,
    /// What there was at the ends of SCUs.
    past: Vec<(u64, Model)>,
    trace: Vec<String>,
}

impl World {
    async fn new(seed: u64) -> World {
        let labelled = open(&MemoryStore::new()).await;
        let plain = open(&MemoryStore::new()).await.session();
        let session = labelled.session();
        session.execute(TABLES).await.unwrap();
        let table = "CREATE TABLE p (k INT PRIMARY KEY, g INT, a INT, b INT, scu BIGINT)";
        plain.execute(table).await.unwrap();
        let pipeline = Pipeline::new(labelled.clone(), MIXES[seed as usize % MIXES.len()]);
        pipeline.start().await.unwrap();
        World {
            labelled,
            plain,
            session,
            pipeline,
            dice: Dice::new(seed),
            model: Model::default(),
            past: Vec::new(),
            trace: Vec::new(),
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
        self.pipeline.before(false).await.unwrap();
        let set = format!("SET lazybase.authorizations = '{authorizations}'");
        self.session.execute(&set).await.unwrap();
        let answers = self.session.execute(sql).await;
        let answers = answers.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        self.pipeline.after(false).await.unwrap();
        let token = answers.last().unwrap().token;
        token.map(|token| token.horizon.scu.0)
    }

    async fn change(&mut self) {
        let (k, g) = (self.number(), self.number());
        let (a, a_label) = self.cell();
        let (b, b_label) = self.cell();
        let row_label = self.label();
        let row = Row::new(g, (a, a_label), (b, b_label), row_label);
        let insert = format!(
            "INSERT INTO t (k, g, a, \"_label(a)\", b, \"_label(b)\", _label) \
             VALUES ({k}, {}, {}, '{a_label}', {}, '{b_label}', '{row_label}')",
            g,
            shown(a),
            shown(b)
        );
        let dice = self.dice.roll(12);
        let (authorizations, sql) = match dice {
            0..=3 => {
                self.model.put(k, row);
                ("*", insert)
            }
            4 => {
                // Without labels, whatever there was.
                self.model.put(k, Row::new(g, (a, ""), (b, ""), ""));
                let (a, b) = (shown(a), shown(b));
                ("*", format!("INSERT INTO t VALUES ({k}, {g}, {a}, {b})"))
            }
            5 => {
                self.model.set_a(k, a, a_label);
                let a = shown(a);
                let set = format!("a = {a}, \"_label(a)\" = '{a_label}'");
                ("*", format!("UPDATE t SET {set} WHERE k = {k}"))
            }
            6 => {
                self.model.set_a(k, a, "");
                ("*", format!("UPDATE t SET a = {} WHERE k = {k}", shown(a)))
            }
            7 => {
                self.model.set_label(k, g, row_label);
                let set = format!("g = {g}, _label = '{row_label}'");
                ("*", format!("UPDATE t SET {set} WHERE k = {k}"))
            }
            8 => {
                self.model.rows.remove(&k);
                ("*", format!("DELETE FROM t WHERE k = {k}"))
            }
            9 => {
                match self.model.rows.contains_key(&k) {
                    true => self.model.set_a(k, a, a_label),
                    false => self.model.put(k, row),
                }
                let set = "ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.a";
                ("*", format!("{insert} {set}"))
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
        if let Some(scu) = self.run(authorizations, &sql).await {
            self.model.stamp(scu);
            self.past.retain(|(known, _)| *known != scu);
            self.past.push((scu, self.model.clone()));
        }
    }

    /// Compares all queries for somebody, now or as of an earlier SCU.
    async fn check(&mut self) {
        let authorizations = self.authorizations();
        let number = self.number().to_string();
        // The newest SCU may be open still.
        let ended = self.past.len().saturating_sub(1) as u64;
        let (model, as_of) = match ended > 0 && self.dice.roll(2) == 0 {
            true => {
                let (scu, model) = &self.past[self.dice.roll(ended) as usize];
                (model.clone(), format!(" AS OF SCU {scu}"))
            }
            false => (self.model.clone(), String::new()),
        };
        self.load(&model, authorizations).await;
        let session = self.labelled.session();
        let set = format!("SET lazybase.authorizations = '{authorizations}'");
        session.execute(&set).await.unwrap();
        let mut queries: Vec<(&str, String)> = Vec::new();
        for (at, query) in QUERIES.iter().enumerate() {
            queries.push(("t", (*query).to_owned()));
            if as_of.is_empty() {
                queries.push(("by_a", (*query).to_owned()));
            }
            if as_of.is_empty() && at < WITHOUT_B {
                queries.push(("by_g", (*query).to_owned()));
            }
        }
        for (table, query) in queries {
            let query = query.replace("{c}", &number);
            let asked = query.replace("{t}", table) + &as_of;
            let given = answer(&session, &asked).await;
            let wanted = answer(&self.plain, &query.replace("{t}", "p")).await;
            self.compare(authorizations, &asked, &given, &wanted);
        }
        let asked = format!("SELECT k, _scu FROM t{as_of}");
        let given = answer(&session, &asked).await;
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
        let mut sql = String::from("TRUNCATE p");
        for (k, row) in model.visible(authorizations) {
            let (a, b) = (shown(row.a), shown(row.b));
            sql += &format!(
                "; INSERT INTO p VALUES ({k}, {}, {a}, {b}, {})",
                row.g, row.scu
            );
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
    for _ in 0..24 {
        for _ in 0..1 + world.dice.roll(4) {
            world.change().await;
        }
        world.check().await;
    }
    world.labelled.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_answer_as_if_what_is_hidden_had_never_been_loaded() {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..10).collect(),
    };
    for seed in seeds {
        eprintln!("SEED={seed}");
        story(seed).await;
    }
}

/// A database of its own with the given statements run on it.
async fn world(setup: &str) -> (Arc<tempfile::TempDir>, Database, Session) {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let database = Database::open(folder.path().join("db")).await.unwrap();
    let session = database.session();
    session.execute(setup).await.unwrap();
    (folder, database, session)
}
