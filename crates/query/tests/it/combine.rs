//! Random counters, written in every way there is, against a map, at every mix of stages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Int16Type, Int64Type};
use lazybase_cluster::{Settings, SettleTo};
use lazybase_query::{Database, Op, Session};

use crate::in_memory;
use crate::stages::{Mix, Pipeline};

/// A row of the naive model: hits (SUM), low (MIN), first (FIRST), last.
type Row = [Option<i64>; 4];
type Model = BTreeMap<i64, Row>;

const COLUMNS: [&str; 4] = ["hits", "low", "first", "last"];
const KEYS: u64 = 12;
const TURNS: u64 = 30;

/// Numbers that a seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn value(&mut self) -> Option<i64> {
        (self.below(5) > 0).then(|| self.below(100) as i64 - 50)
    }

    fn rows(&mut self) -> Vec<(i64, Row)> {
        let count = 1 + self.below(6);
        let row = |random: &mut Random| [(); 4].map(|()| random.value());
        (0..count)
            .map(|_| (self.below(KEYS) as i64, row(self)))
            .collect()
    }
}

/// What an INSERT of these columns leaves.
fn insert(model: &mut Model, key: i64, given: Row, columns: &[usize]) {
    let mut values: Row = [None; 4];
    columns.iter().for_each(|at| values[*at] = given[*at]);
    let Some(row) = model.get_mut(&key) else {
        model.insert(key, values);
        return;
    };
    let known = |both: [Option<i64>; 2]| both.into_iter().flatten();
    for &at in columns.iter().filter(|at| **at < 3) {
        let both = [row[at], values[at]];
        row[at] = match at {
            _ if known(both).count() == 0 => None,
            0 => Some(known(both).sum()),
            1 => known(both).min(),
            _ => known(both).next(),
        };
    }
    row[3] = values[3];
}

fn literal(value: Option<i64>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

fn insert_text(rows: &[(i64, Row)], columns: &[usize]) -> String {
    let names: String = columns
        .iter()
        .map(|at| format!(", {}", COLUMNS[*at]))
        .collect();
    let rows = rows.iter().map(|(key, row)| {
        let values = columns.iter().map(|at| format!(", {}", literal(row[*at])));
        format!("({key}{})", values.collect::<String>())
    });
    let rows: Vec<String> = rows.collect();
    format!("INSERT INTO counters (k{names}) VALUES {}", rows.join(", "))
}

fn batch(rows: &[(i64, Row)]) -> RecordBatch {
    let keys: Int64Array = rows.iter().map(|(key, _)| Some(*key)).collect();
    let mut columns = vec![("k", Arc::new(keys) as ArrayRef)];
    for (at, name) in COLUMNS.into_iter().enumerate() {
        let values: Int64Array = rows.iter().map(|(_, row)| row[at]).collect();
        columns.push((name, Arc::new(values)));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Does something random to the table and to the model.
async fn turn(
    random: &mut Random,
    database: &Database,
    session: &Session,
    folder: &std::path::Path,
    model: &mut Model,
) {
    const ALL: [usize; 4] = [0, 1, 2, 3];
    let rows = random.rows();
    let mut text = String::new();
    let mut columns = ALL.to_vec();
    match random.below(9) {
        0 => {
            let mut appender = database.appender();
            appender
                .append("counters", &batch(&rows), Op::Upsert)
                .await
                .unwrap();
            appender.commit().await.unwrap();
        }
        1 => {
            let path = folder.join("rows.csv");
            let mut csv = "k,hits,low,first,last\n".to_owned();
            for (key, row) in &rows {
                let values = row.map(|value| value.map_or_else(String::new, |v| v.to_string()));
                writeln!(csv, "{key},{}", values.join(",")).unwrap();
            }
            std::fs::write(&path, csv).unwrap();
            text = format!(
                "COPY counters FROM '{}' WITH (FORMAT csv, HEADER true)",
                path.display()
            );
        }
        2 => {
            columns = ALL.into_iter().filter(|_| random.below(2) == 0).collect();
            text = insert_text(&rows, &columns);
        }
        3 => {
            let (key, row) = rows[0];
            let (hits, low) = (literal(row[0]), literal(row[1]));
            text = format!("UPDATE counters SET hits = {hits}, low = {low} WHERE k = {key}");
            if let Some(stored) = model.get_mut(&key) {
                stored[..2].copy_from_slice(&row[..2]);
            }
            columns.clear();
        }
        4 => {
            text = format!("DELETE FROM counters WHERE k = {}", rows[0].0);
            model.remove(&rows[0].0);
            columns.clear();
        }
        5 => {
            let (key, row) = rows[0];
            text = format!(
                "{} ON CONFLICT (k) DO UPDATE SET hits = EXCLUDED.hits, low = 7",
                insert_text(&rows[..1], &ALL)
            );
            match model.get_mut(&key) {
                Some(stored) => (stored[0], stored[1]) = (row[0], Some(7)),
                None => drop(model.insert(key, row)),
            }
            columns.clear();
        }
        6 => {
            text = format!("{} ON CONFLICT DO NOTHING", insert_text(&rows, &ALL));
            for (key, row) in &rows {
                model.entry(*key).or_insert(*row);
            }
            columns.clear();
        }
        7 => {
            for sql in ["BEGIN", &insert_text(&rows, &ALL), "COMMIT"] {
                session.execute(sql).await.unwrap();
            }
        }
        _ => text = insert_text(&rows, &ALL),
    }
    if !text.is_empty() {
        session.execute(&text).await.unwrap();
    }
    let inserts = !columns.is_empty() || text.starts_with("INSERT INTO counters (k) VALUES");
    for (key, row) in rows.iter().filter(|_| inserts) {
        insert(model, *key, *row, &columns);
    }
}

async fn answer(session: &Session, sql: &str) -> Model {
    let answer = session.execute(sql).await.unwrap().pop().unwrap();
    let mut rows = Model::new();
    for batch in &answer.batches {
        let columns: Vec<&Int64Array> = batch
            .columns()
            .iter()
            .map(|c| c.as_primitive::<Int64Type>())
            .collect();
        for row in 0..batch.num_rows() {
            let cell = |at: usize| columns[at].iter().nth(row).unwrap();
            rows.insert(cell(0).unwrap(), [1, 2, 3, 4].map(cell));
        }
    }
    rows
}

async fn check(session: &Session, model: &Model, note: &str) {
    let all = answer(session, "SELECT k, hits, low, first, last FROM counters").await;
    assert_eq!(all, *model, "{note}");
    let filter = |row: &Row| row[0].is_some_and(|hits| hits > 10);
    let kept: Model = model
        .iter()
        .filter(|(_, row)| filter(row))
        .map(|(k, r)| (*k, *r))
        .collect();
    let sql = "SELECT k, hits, low, first, last FROM counters WHERE hits > 10";
    assert_eq!(answer(session, sql).await, kept, "{note}: hits > 10");
    let one: Model = model
        .get_key_value(&3)
        .map(|(k, r)| (*k, *r))
        .into_iter()
        .collect();
    let sql = "SELECT k, hits, low, first, last FROM counters WHERE k = 3";
    assert_eq!(answer(session, sql).await, one, "{note}: k = 3");
    let sums = session
        .execute("SELECT sum(hits) FROM counters")
        .await
        .unwrap()
        .pop()
        .unwrap();
    let sum = sums.batches[0].column(0).as_primitive::<Int64Type>();
    let wanted: Vec<i64> = model.values().filter_map(|row| row[0]).collect();
    let wanted = (!wanted.is_empty()).then(|| wanted.iter().sum::<i64>());
    assert_eq!(sum.iter().next().unwrap(), wanted, "{note}: sum(hits)");
}

async fn run(mix: Mix, layout: &str, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let database = in_memory(Settings::default()).await;
    let pipeline = Pipeline::new(database.clone(), mix);
    pipeline.start().await.unwrap();
    let session = database.session();
    let create = format!(
        "CREATE TABLE counters (k BIGINT PRIMARY KEY, hits BIGINT MERGE SUM, low BIGINT MERGE MIN, \
         first BIGINT MERGE FIRST, last BIGINT) WITH (layout = '{layout}')"
    );
    session.execute(&create).await.unwrap();
    let mut random = Random(seed);
    let mut model = Model::new();
    for number in 0..TURNS {
        pipeline.before(false).await.unwrap();
        turn(&mut random, &database, &session, folder.path(), &mut model).await;
        pipeline.after(false).await.unwrap();
        check(
            &session,
            &model,
            &format!("{mix:?}, {layout}, seed {seed}, turn {number}"),
        )
        .await;
    }
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_in_every_way_and_stage_are_those_of_a_map() {
    for (seed, mix) in (1..).zip([
        Mix::Open,
        Mix::Unsorted,
        Mix::HalfSorted,
        Mix::PartlyMerged,
        Mix::Authority,
    ]) {
        run(mix, "scan", seed).await;
        run(mix, "point", 10 * seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_arrow_may_leave_out_what_is_combined() {
    let database = in_memory(Settings::default()).await;
    let session = database.session();
    let create = "CREATE TABLE t (k TEXT PRIMARY KEY, n SMALLINT DEFAULT 5 MERGE SUM, v TEXT)";
    session.execute(create).await.unwrap();
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let whole = RecordBatch::try_from_iter([("k", Arc::clone(&keys)), ("n", numbers)]).unwrap();
    let part = RecordBatch::try_from_iter([("k", Arc::clone(&keys)), ("v", keys)]).unwrap();
    for rows in [&part, &whole, &part] {
        let mut appender = database.appender();
        appender.append("t", rows, Op::Upsert).await.unwrap();
        appender.commit().await.unwrap();
    }
    let sql = "SELECT k, n, v FROM t ORDER BY k";
    let rows = session.execute(sql).await.unwrap().pop().unwrap().batches;
    let numbers = rows[0].column(1).as_primitive::<Int16Type>();
    assert_eq!(numbers.values()[..], [9, 7]);
    let values: Vec<_> = rows[0].column(2).as_string::<i32>().iter().collect();
    assert_eq!(values, [Some("a"), Some("b")]);
    database.close().await.unwrap();
}

/// A sum out of range is an error of the queries that read it: its views go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_follow_whatever_a_sum_comes_to() {
    let store = lazybase_engine::env::memory::MemoryStore::new();
    let database = crate::views::open(&store).await;
    let session = database.session();
    let run = async |sql: &str| crate::rows(&session, sql).await;
    let settle = async || {
        let settled = database
            .instance()
            .settle(None, SettleTo::Authority, &|_| {});
        settled.await.unwrap();
        let sealed = database.instance().manifest().sealed_through.0.to_string();
        let views = run("SELECT DISTINCT state, through_scu FROM lazybase.views").await;
        assert_eq!(views, [["ready".to_owned(), sealed]]);
        assert_eq!(
            run("SELECT * FROM lazybase.troubles").await,
            Vec::<Vec<String>>::new()
        );
    };
    let out_of_range = async |sql: &str| {
        let error = session.execute(sql).await.unwrap_err();
        let text = error.to_string();
        let named = text.contains("table \"c\", column \"n\": the sum 60000 of key (1)");
        assert!(error.sqlstate() == "22003" && named, "{sql}: {text}");
    };
    run("CREATE TABLE c (k INT PRIMARY KEY, g INT, n SMALLINT MERGE SUM)").await;
    run("CREATE MATERIALIZED VIEW by_g AS SELECT g, n, k FROM c ORDER BY g, k").await;
    run("INSERT INTO c VALUES (1, 1, 30000), (2, 2, 5)").await;
    settle().await;
    run("INSERT INTO c VALUES (1, 1, 30000), (2, 2, 5)").await;
    for settled in [false, true] {
        if settled {
            settle().await;
        }
        out_of_range("SELECT n FROM by_g WHERE g = 1").await;
        out_of_range("SELECT g, n FROM by_g").await;
        out_of_range("SELECT n FROM c WHERE k = 1").await;
        assert_eq!(run("SELECT n FROM by_g WHERE g = 2").await, [["10"]]);
        assert_eq!(
            run("SELECT g, k FROM by_g ORDER BY g").await,
            [["1", "1"], ["2", "2"]]
        );
    }
    // A view that is made from such a table is built, and one that lags follows.
    run("CREATE MATERIALIZED VIEW by_k AS SELECT k, n FROM c ORDER BY k").await;
    run("UPDATE c SET g = 3 WHERE k = 1").await;
    settle().await;
    out_of_range("SELECT n FROM by_g WHERE g = 3").await;
    assert!(
        database
            .instance()
            .verify(&|_| {})
            .await
            .unwrap()
            .is_whole()
    );
    run("INSERT INTO c (k, n) VALUES (1, -30000)").await;
    for settled in [false, true] {
        if settled {
            settle().await;
        }
        assert_eq!(run("SELECT n FROM by_g WHERE k = 1").await, [["30000"]]);
        assert_eq!(
            run("SELECT n FROM by_k ORDER BY k").await,
            [["30000"], ["10"]]
        );
    }
    assert!(
        database
            .instance()
            .verify(&|_| {})
            .await
            .unwrap()
            .is_whole()
    );
    let by_sum = "CREATE MATERIALIZED VIEW by_n AS SELECT n, k FROM c ORDER BY n, k";
    let error = session.execute(by_sum).await.unwrap_err();
    assert_eq!(error.sqlstate(), "42P16", "{error}");
    database.close().await.unwrap();
}
