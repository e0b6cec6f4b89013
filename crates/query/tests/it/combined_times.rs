//! Hidden columns of tables with merge operators: after random writes, at every stage and horizon,
//! each cell has the value and the time of a naive model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lazybase_cluster::{SettleTo, StageName};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_query::{Database, Session};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::rows;

/// The columns but the key: SUM, MIN, MAX, FIRST, and one without an operator.
const COLUMNS: [&str; 5] = ["hits", "low", "high", "since", "latest"];
const LATEST: usize = 4;

/// The stages that go on only where the story says so.
const STAGES: [StageName; 3] = [StageName::Sort, StageName::Merge, StageName::Authority];

/// A row of the model: the SCU that made or replaced it, and each cell with the SCU that last wrote
/// to it.
#[derive(Debug, Clone)]
struct Row {
    made: u64,
    cells: Vec<(Option<i64>, u64)>,
}

impl Row {
    /// The SCU that last changed it.
    fn newest(&self) -> u64 {
        let scus = self.cells.iter().map(|(_, scu)| *scu);
        scus.fold(self.made, u64::max)
    }
}

type Model = BTreeMap<i64, Row>;

/// The time of each SCU that was seen.
type Times = BTreeMap<u64, String>;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Insert,
    Update,
    Delete,
    /// ON CONFLICT DO NOTHING.
    Keep,
    /// ON CONFLICT DO UPDATE.
    Set,
}

#[derive(Debug, Clone)]
struct Write {
    kind: Kind,
    rows: Vec<(i64, [Option<i64>; 5])>,
    /// A bit for each column that is given, or set.
    columns: u8,
}

#[derive(Debug, Clone)]
enum Act {
    Write(Write),
    Seal,
    Sorted,
    Authority,
    Reopen,
}

fn write() -> impl Strategy<Value = Write> {
    let kind = prop_oneof![
        5 => Just(Kind::Insert),
        2 => Just(Kind::Update),
        1 => Just(Kind::Delete),
        1 => Just(Kind::Keep),
        2 => Just(Kind::Set),
    ];
    let values = prop::array::uniform5(prop::option::weighted(0.8, -9..10_i64));
    let rows = prop::collection::vec((0..6_i64, values), 1..4);
    // All of the columns as often as any of them.
    let columns = prop_oneof![Just(u8::MAX), any::<u8>()];
    (kind, rows, columns).prop_map(|(kind, rows, columns)| Write {
        kind,
        rows,
        columns,
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => write().prop_map(Act::Write),
        3 => Just(Act::Seal),
        2 => Just(Act::Sorted),
        2 => Just(Act::Authority),
        1 => Just(Act::Reopen),
    ]
}

fn literal(value: Option<i64>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

/// What a column holds that held one value and is combined with another.
fn combined(at: usize, before: Option<i64>, given: Option<i64>) -> Option<i64> {
    match (before, given) {
        (None, value) | (value, None) => value,
        (Some(before), Some(given)) => Some(match at {
            0 => before + given,
            1 => before.min(given),
            2 => before.max(given),
            _ => before,
        }),
    }
}

impl Write {
    /// The columns that it names, of so many.
    fn columns(&self, width: usize) -> Vec<usize> {
        let named: Vec<usize> = (0..width)
            .filter(|at| self.columns >> at & 1 == 1)
            .collect();
        match self.kind {
            Kind::Update if named.is_empty() => vec![0],
            _ => named,
        }
    }

    /// `INSERT INTO t (k, ...) VALUES ...` with these columns.
    fn insert(&self, columns: &[usize]) -> String {
        let names: String = columns
            .iter()
            .map(|at| format!(", {}", COLUMNS[*at]))
            .collect();
        let rows = self.rows.iter().map(|(key, values)| {
            let values = columns
                .iter()
                .map(|at| format!(", {}", literal(values[*at])));
            format!("({key}{})", values.collect::<String>())
        });
        let rows: Vec<String> = rows.collect();
        format!("INSERT INTO t (k{names}) VALUES {}", rows.join(", "))
    }

    fn sql(&self, width: usize) -> String {
        let columns = self.columns(width);
        match self.kind {
            Kind::Insert => self.insert(&columns),
            Kind::Keep => format!("{} ON CONFLICT DO NOTHING", self.insert(&columns)),
            Kind::Set => {
                let all: Vec<usize> = (0..width).collect();
                let set = columns.iter().map(|at| COLUMNS[*at]);
                let set = set.map(|name| format!(", {name} = EXCLUDED.{name}"));
                // Setting the key to itself changes nothing.
                let set = format!("k = EXCLUDED.k{}", set.collect::<String>());
                let insert = self.insert(&all);
                format!("{insert} ON CONFLICT (k) DO UPDATE SET {set}")
            }
            Kind::Update => {
                let (key, values) = &self.rows[0];
                let set = columns
                    .iter()
                    .map(|at| (COLUMNS[*at], literal(values[*at])));
                let set: Vec<String> = set
                    .map(|(name, value)| format!("{name} = {value}"))
                    .collect();
                format!("UPDATE t SET {} WHERE k = {key}", set.join(", "))
            }
            Kind::Delete => {
                let keys: Vec<String> = self.rows.iter().map(|(key, _)| key.to_string()).collect();
                format!("DELETE FROM t WHERE k IN ({})", keys.join(", "))
            }
        }
    }

    /// What it leaves, as part of an SCU.
    fn apply(&self, model: &mut Model, scu: u64, width: usize) {
        let named = self.columns(width);
        let count = match self.kind {
            Kind::Update => 1,
            _ => self.rows.len(),
        };
        for (key, values) in &self.rows[..count] {
            let Some(row) = model.get_mut(key) else {
                let given = |at: usize| match self.kind {
                    Kind::Set => values[at],
                    _ => values[at].filter(|_| named.contains(&at)),
                };
                let cells = (0..width).map(|at| (given(at), scu)).collect();
                if !matches!(self.kind, Kind::Update | Kind::Delete) {
                    model.insert(*key, Row { made: scu, cells });
                }
                continue;
            };
            match self.kind {
                Kind::Keep => {}
                Kind::Delete => drop(model.remove(key)),
                Kind::Insert => {
                    for at in named.iter().copied().filter(|at| *at != LATEST) {
                        row.cells[at] = (combined(at, row.cells[at].0, values[at]), scu);
                    }
                    // Without an operator it is set, to NULL where no value is given.
                    if let Some(cell) = row.cells.get_mut(LATEST) {
                        *cell = (values[LATEST].filter(|_| named.contains(&LATEST)), scu);
                    }
                }
                Kind::Update | Kind::Set => {
                    named
                        .iter()
                        .for_each(|at| row.cells[*at] = (values[*at], scu));
                    if matches!(self.kind, Kind::Set) && named.len() == width {
                        row.made = scu;
                    }
                }
            }
        }
    }
}

/// A predicate, and what it means in the model.
type Filter = (&'static str, fn(i64, &Row) -> bool);

const FILTERS: [Filter; 4] = [
    ("", |_, _| true),
    (" WHERE k = 3", |key, _| key == 3),
    (" WHERE _time(hits) > _time(k)", |_, row| {
        row.cells[0].1 > row.made
    }),
    (" WHERE high > 2 AND _scu > 1", |_, row| {
        row.cells[2].0.is_some_and(|high| high > 2) && row.newest() > 1
    }),
];

/// The rows with their hidden columns, as of what `clause` says, are those of the model.
async fn check(
    session: &Session,
    model: &Model,
    (width, times): (usize, &mut Times),
    clause: &str,
) -> Result<(), TestCaseError> {
    let names = &COLUMNS[..width];
    let of_columns: Vec<String> = names.iter().map(|name| format!("_time({name})")).collect();
    let shown = format!(
        "k, {}, _scu, _time, _time(k), {}",
        names.join(", "),
        of_columns.join(", ")
    );
    for (filter, holds) in FILTERS {
        let sql = format!("SELECT {shown} FROM t{filter} ORDER BY k{clause}");
        let found = rows(session, &sql).await;
        let expected = model.iter().filter(|(key, row)| holds(**key, row));
        let expected: Vec<(&i64, &Row)> = expected.collect();
        prop_assert_eq!(found.len(), expected.len(), "{}: {:?}", sql, found);
        for (found, (key, row)) in found.iter().zip(expected) {
            let mut values = vec![key.to_string()];
            values.extend(row.cells.iter().map(|(value, _)| literal(*value)));
            values.push(row.newest().to_string());
            let (shown, of_times) = found.split_at(values.len());
            prop_assert_eq!(shown, values.as_slice(), "{}", sql);
            let mut scus = vec![row.newest(), row.made];
            scus.extend(row.cells.iter().map(|(_, scu)| *scu));
            prop_assert_eq!(of_times.len(), scus.len(), "{}", sql);
            for (scu, time) in scus.into_iter().zip(of_times) {
                prop_assert!(time != "NULL", "{}, key {}: SCU {}", sql, key, scu);
                let known = times.entry(scu).or_insert_with(|| time.clone());
                prop_assert_eq!(&*known, time, "{}, key {}: SCU {}", sql, key, scu);
            }
        }
    }
    Ok(())
}

async fn open(store: &MemoryStore) -> (Database, Session) {
    let database = crate::views::open(store).await;
    for stage in STAGES {
        database.instance().pause(stage).await.unwrap();
    }
    let session = database.session();
    (database, session)
}

async fn settle(database: &Database, stages: &[StageName], to: SettleTo) {
    let instance = database.instance();
    for stage in stages {
        instance.resume(*stage).await.unwrap();
    }
    instance.settle(None, to, &|_| {}).await.unwrap();
    for stage in stages {
        instance.pause(*stage).await.unwrap();
    }
}

async fn story(acts: &[Act], width: usize, layout: &str) -> Result<(), TestCaseError> {
    let store = MemoryStore::without_history();
    let (mut database, mut session) = open(&store).await;
    let operators = ["MERGE SUM", "MERGE MIN", "MERGE MAX", "MERGE FIRST", ""];
    let columns = COLUMNS[..width].iter().zip(operators);
    let columns: String = columns
        .map(|(name, operator)| format!(", {name} BIGINT {operator}"))
        .collect();
    let create =
        format!("CREATE TABLE t (k BIGINT PRIMARY KEY{columns}) WITH (layout = '{layout}')");
    rows(&session, &create).await;
    let (mut model, mut times) = (Model::new(), Times::new());
    let mut past: Vec<(u64, Model)> = Vec::new();
    for act in acts {
        // The manifest may learn of a seal later than whoever asked for it.
        let mut sealed = None;
        match act {
            Act::Write(write) => {
                let sql = write.sql(width);
                let answer = session.execute(&sql).await.unwrap().pop().unwrap();
                let token = answer.token.expect("what was written is acknowledged");
                write.apply(&mut model, token.horizon.scu.0, width);
            }
            Act::Seal => sealed = Some(database.instance().seal().await.unwrap()),
            Act::Sorted => settle(&database, &[StageName::Sort], SettleTo::Sorted).await,
            Act::Authority => settle(&database, &STAGES, SettleTo::Authority).await,
            Act::Reopen => {
                database.close().await.unwrap();
                (database, session) = open(&store).await;
            }
        }
        if matches!(act, Act::Seal | Act::Sorted | Act::Authority) {
            let settled = || database.instance().manifest().sealed_through;
            let sealed = sealed.unwrap_or_else(settled).0;
            if past.last().map_or(0, |(scu, _)| *scu) < sealed {
                past.push((sealed, model.clone()));
            }
        }
        if !matches!(act, Act::Write(_)) {
            // The next SCU begins in another millisecond, which tells its cells from those before.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        check(&session, &model, (width, &mut times), "").await?;
    }
    for (scu, model) in &past {
        let clause = format!(" AS OF SCU {scu}");
        check(&session, model, (width, &mut times), &clause).await?;
    }
    let distinct: BTreeSet<&String> = times.values().collect();
    prop_assert_eq!(distinct.len(), times.len(), "{:?}", times);
    let report = database.instance().verify(&|_| {}).await.unwrap();
    prop_assert!(report.is_whole(), "{:?}", report);
    database.close().await.unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn cells_have_the_times_at_which_they_were_last_written_to(
        acts in prop::collection::vec(act(), 1..20),
        width in LATEST..=COLUMNS.len(),
        layout in prop::sample::select(vec!["scan", "point"]),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(story(&acts, width, layout))?;
    }
}
