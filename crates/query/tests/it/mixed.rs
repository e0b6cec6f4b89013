//! What a table can have, together, against a naive model: merge operators, time to live,
//! partitions, ID keys, secondary views and schema changes, drawn by a seed. Random statements,
//! stages and restarts; the same rows from the table and its views, now, in transactions, and as
//! of the past with the columns of then.
//!
//! `SEED=7` runs one story, `LAZYBASE_FEATURE_STORIES=40` as many.

use std::collections::BTreeMap;

use lazybase_cluster::{SettleTo, StageName};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_query::{Database, Session};

use crate::rows;
use crate::views::{Dice, open};

mod model;

use model::{Column, Kind, Mode, Model, Row, RowKey};

/// How the key space is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    None,
    Hash,
    /// Ten keys a partition.
    Range,
}

/// Where something stands in the table, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Key,
    Value,
}

/// What the table of a story has.
#[derive(Debug, Clone, Copy)]
struct Shape {
    cut: Cut,
    /// The moment that rows end by.
    moment: Place,
    /// An ID key that refers to `files`.
    file: Place,
    operators: bool,
    point: bool,
}

/// Rows with the first moment have ended, those with the second never do.
const MOMENTS: [&str; 2] = ["2000-01-01 00:00:00", "2999-01-01 00:00:00"];
/// Paths that are known before the story begins, and all that there are.
const PATHS: (u64, u64) = (6, 12);

impl Shape {
    fn new(dice: &mut Dice) -> Shape {
        let places = [Place::Nowhere, Place::Key, Place::Value];
        let mut place = || places[dice.roll(3) as usize];
        let (moment, file) = (place(), place());
        Shape {
            cut: [Cut::None, Cut::Hash, Cut::Range][dice.roll(3) as usize],
            moment,
            file,
            // Such a table takes whole rows alone.
            operators: moment != Place::Value && dice.roll(3) > 0,
            point: dice.roll(4) == 0,
        }
    }

    /// Whether changes of some columns are refused.
    fn takes_whole_rows_only(self) -> bool {
        self.moment == Place::Value
    }

    fn key(self) -> Vec<&'static str> {
        let mut key = vec!["k"];
        key.extend((self.file == Place::Key).then_some("f"));
        key.extend((self.moment == Place::Key).then_some("at"));
        key
    }

    fn columns(self) -> Vec<Column> {
        let mut kinds = vec![("a", Kind::Last), ("b", Kind::Last)];
        kinds.extend((self.file == Place::Value).then_some(("f", Kind::File)));
        if self.operators {
            kinds.push(("hits", Kind::Sum));
            kinds.push(("low", Kind::Min));
            kinds.push(("begun", Kind::First));
        }
        let column = |(id, (name, kind)): (usize, (&str, Kind))| Column {
            id: id as u32,
            name: name.to_owned(),
            kind,
            default: None,
        };
        kinds.into_iter().enumerate().map(column).collect()
    }

    fn create(self) -> String {
        let mut columns = vec!["k INT".to_owned()];
        if self.file == Place::Key {
            columns.push("f IDKEY REFERENCES files".to_owned());
        }
        if self.moment != Place::Nowhere {
            columns.push("at TIMESTAMP".to_owned());
        }
        columns.extend(self.columns().iter().map(Column::declared));
        columns.push(format!("PRIMARY KEY ({})", self.key().join(", ")));
        let mut options = Vec::new();
        if self.moment != Place::Nowhere {
            options.push("ttl = '1 day', ttl_column = 'at'");
        }
        options.extend(self.point.then_some("layout = 'point'"));
        let options = match options.is_empty() {
            true => String::new(),
            false => format!("WITH ({})", options.join(", ")),
        };
        let cut = match self.cut {
            Cut::None => String::new(),
            Cut::Hash => "PARTITION BY HASH PARTITIONS 3".to_owned(),
            Cut::Range => {
                let bounds = [0, 1].map(bounds).join(", ");
                format!("PARTITION BY RANGE (k) ({bounds})")
            }
        };
        format!("CREATE TABLE t ({}) {options} {cut}", columns.join(", "))
    }
}

fn bounds(partition: i64) -> String {
    let low = partition * 10;
    format!("PARTITION {low} <= VALUES < {}", low + 10)
}

/// A secondary view, with the columns that it has beside the key.
#[derive(Debug, Clone)]
struct View {
    name: String,
    columns: Vec<u32>,
}

/// What the table held at a moment.
struct Past {
    /// The SCU that it ended, unless DDL took effect at its end since.
    scu: Option<u64>,
    /// The newest SCU then.
    boundary: u64,
    moment: String,
    model: Model,
}

struct World {
    store: MemoryStore,
    database: Database,
    session: Session,
    dice: Dice,
    shape: Shape,
    model: Model,
    /// Range partitions that take rows.
    partitions: [bool; 2],
    views: Vec<View>,
    past: Vec<Past>,
    made: u32,
    in_transaction: bool,
    /// Whether rows were thrown away that what was recorded at the boundary has.
    emptied: bool,
    /// Where DDL took effect last.
    changed_at: u64,
    trace: Vec<String>,
    through_views: usize,
}

impl World {
    async fn new(seed: u64) -> World {
        let store = MemoryStore::new();
        let database = open(&store).await;
        let mut dice = Dice::new(seed);
        let shape = Shape::new(&mut dice);
        let mut world = World {
            session: database.session(),
            store,
            database,
            dice,
            shape,
            model: Model::new(shape.columns()),
            partitions: [true; 2],
            views: Vec::new(),
            past: Vec::new(),
            made: 0,
            in_transaction: false,
            emptied: false,
            changed_at: 0,
            trace: vec![format!("seed {seed}: {shape:?}")],
            through_views: 0,
        };
        world
            .run("CREATE TABLE files (id IDKEY, path TEXT PRIMARY KEY)")
            .await;
        let paths: Vec<String> = (0..PATHS.0).map(|path| format!("('p{path}')")).collect();
        world
            .run(&format!("INSERT INTO files VALUES {}", paths.join(", ")))
            .await;
        world.run(&shape.create()).await;
        world.note_boundary();
        world
    }

    async fn run(&mut self, sql: &str) {
        self.trace.push(sql.to_owned());
        if let Err(error) = self.session.execute(sql).await {
            panic!("{error:?}\n{}", self.trace.join(";\n"));
        }
    }

    async fn refused(&mut self, sql: &str, sqlstate: &str) {
        self.trace.push(sql.to_owned());
        match self.session.execute(sql).await {
            Err(error) if error.sqlstate() == sqlstate => {}
            done => panic!("{:?}\n{}", done.map(|_| ()), self.trace.join(";\n")),
        }
    }

    /// A path; one that may be new only where it gets its number at once.
    fn path(&mut self) -> i64 {
        let bound = match self.in_transaction {
            true => PATHS.0,
            false => PATHS.1,
        };
        self.dice.roll(bound) as i64
    }

    fn key(&mut self) -> RowKey {
        let k = self.dice.roll(6) as i64 + 10 * self.dice.roll(2) as i64;
        let file = (self.shape.file == Place::Key).then(|| self.path());
        let alive = self.shape.moment == Place::Nowhere || self.dice.roll(5) > 0;
        RowKey { k, file, alive }
    }

    fn takes(&self, key: &RowKey) -> bool {
        self.shape.cut != Cut::Range || self.partitions[(key.k / 10) as usize]
    }

    fn value(&mut self, column: &Column) -> Option<i64> {
        match column.kind {
            Kind::File => (self.dice.roll(4) > 0).then(|| self.path()),
            _ => {
                let value = self.dice.roll(8) as i64;
                (value > 0).then_some(value)
            }
        }
    }

    /// The key's columns as VALUES has them, and as predicates name them.
    fn key_cells(&self, key: &RowKey) -> Vec<(&'static str, String)> {
        let mut cells = vec![("k", key.k.to_string())];
        cells.extend(key.file.map(|path| ("f", format!("IDKEY('p{path}')"))));
        if self.shape.moment != Place::Nowhere {
            cells.push(("at", format!("'{}'", MOMENTS[usize::from(key.alive)])));
        }
        cells
    }

    fn by_key(&self, key: &RowKey) -> String {
        let whole = self.shape.key();
        let cells = self.key_cells(key).into_iter();
        let equal = cells.filter(|(name, _)| whole.contains(name));
        let equal: Vec<String> = equal
            .map(|(name, cell)| format!("{name} = {cell}"))
            .collect();
        equal.join(" AND ")
    }

    async fn insert(&mut self) {
        let all = self.model.columns.clone();
        let mode = match self.dice.roll(5) {
            _ if self.shape.takes_whole_rows_only() => Mode::Replace,
            0 => Mode::Nothing,
            1 => Mode::Set(all[self.dice.roll(all.len() as u64) as usize].id),
            _ => Mode::Replace,
        };
        let some = mode == Mode::Replace && self.dice.roll(2) == 0;
        let given: Vec<Column> = all
            .into_iter()
            .filter(|_| !some || self.dice.roll(2) == 0)
            .collect();
        let count = 1 + self.dice.roll(4);
        let (mut texts, mut changes) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let key = self.key();
            let cells: Row = given.iter().map(|c| (c.id, self.value(c))).collect();
            let mut text: Vec<String> = self.key_cells(&key).into_iter().map(|c| c.1).collect();
            text.extend(given.iter().map(|c| c.written(cells[&c.id])));
            texts.push(format!("({})", text.join(", ")));
            changes.push((key, cells));
        }
        let key = self
            .key_cells(&changes[0].0)
            .into_iter()
            .map(|c| c.0.to_owned());
        let names: Vec<String> = key.chain(given.iter().map(|c| c.name.clone())).collect();
        let conflict = match &mode {
            Mode::Replace => String::new(),
            Mode::Nothing => " ON CONFLICT DO NOTHING".to_owned(),
            Mode::Set(id) => {
                let name = &self.model.column(*id).name;
                let key = self.shape.key().join(", ");
                format!(" ON CONFLICT ({key}) DO UPDATE SET {name} = EXCLUDED.{name}")
            }
        };
        let sql = format!(
            "INSERT INTO t ({}) VALUES {}{conflict}",
            names.join(", "),
            texts.join(", ")
        );
        if !changes.iter().all(|(key, _)| self.takes(key)) {
            // A failed statement fails its transaction.
            if !self.in_transaction {
                self.refused(&sql, "23514").await;
            }
            return;
        }
        self.run(&sql).await;
        for (key, cells) in changes {
            self.model
                .insert(&key, &cells, &mode, self.shape.moment == Place::Value);
        }
    }

    async fn update(&mut self) {
        if self.shape.takes_whole_rows_only() {
            return self.delete().await;
        }
        let columns = self.model.columns.clone();
        let column = &columns[self.dice.roll(columns.len() as u64) as usize];
        let value = self.value(column);
        let set = format!("UPDATE t SET {} = {}", column.name, column.written(value));
        if self.dice.roll(3) > 0 {
            let key = self.key();
            self.run(&format!("{set} WHERE {}", self.by_key(&key)))
                .await;
            if let Some(row) = self.model.rows.get_mut(&key).filter(|_| key.alive) {
                row.insert(column.id, value);
            }
            return;
        }
        let (filter, passes) = self.filter();
        self.run(&format!("{set} WHERE {filter}")).await;
        for (key, row) in &mut self.model.rows {
            if passes.holds(key, row) {
                row.insert(column.id, value);
            }
        }
    }

    async fn delete(&mut self) {
        if self.dice.roll(3) > 0 {
            let mut key = self.key();
            key.alive |= self.shape.moment == Place::Value;
            self.run(&format!("DELETE FROM t WHERE {}", self.by_key(&key)))
                .await;
            self.model.rows.remove(&key);
            return;
        }
        let (filter, passes) = self.filter();
        self.run(&format!("DELETE FROM t WHERE {filter}")).await;
        self.model.rows.retain(|key, row| !passes.holds(key, row));
    }

    /// A predicate on something of the table as it is.
    fn filter(&mut self) -> (String, Passes) {
        let columns: Vec<Column> = self.model.columns.clone();
        self.filter_on(&columns)
    }

    fn filter_on(&mut self, columns: &[Column]) -> (String, Passes) {
        let low = self.dice.roll(8) as i64;
        let high = low + self.dice.roll(4) as i64;
        let at = self.dice.roll(columns.len() as u64 + 1) as usize;
        let Some(column) = columns.get(at) else {
            return (
                format!("k BETWEEN {low} AND {high}"),
                Passes::Key(low, high),
            );
        };
        if column.kind == Kind::File {
            let path = self.path();
            return (
                format!("{} = IDKEY('p{path}')", column.name),
                Passes::Cell(column.id, path, path),
            );
        }
        (
            format!("{} BETWEEN {low} AND {high}", column.name),
            Passes::Cell(column.id, low, high),
        )
    }

    async fn change(&mut self) {
        match self.dice.roll(8) {
            0..=3 => self.insert().await,
            4 | 5 => self.update().await,
            6 => self.delete().await,
            _ => self.ddl().await,
        }
    }

    /// DDL took effect at the newest boundary: what ends rows ends them there.
    fn note_boundary(&mut self) {
        if !self.in_transaction {
            let boundary = self.database.instance().manifest().sealed_through.0;
            self.changed_at = boundary;
            // Of several definitions at one boundary the last one stays.
            self.past
                .retain(|past| past.scu.is_some() || past.boundary < boundary);
            if std::mem::take(&mut self.emptied) {
                self.past.retain(|past| past.boundary < boundary);
            }
        }
    }

    async fn ddl(&mut self) {
        match self.dice.roll(8) {
            0 | 1 => self.add_column().await,
            2 | 3 => self.change_column().await,
            4 | 5 if self.shape.cut == Cut::Range => self.partition().await,
            6 if self.dice.roll(3) == 0 => {
                self.run("TRUNCATE t").await;
                self.model.rows.clear();
                self.emptied = true;
            }
            _ => self.view().await,
        }
        self.note_boundary();
    }

    async fn add_column(&mut self) {
        self.made += 1;
        let kinds = [Kind::Last, Kind::Sum, Kind::Min, Kind::First];
        let kind = match self.shape.takes_whole_rows_only() {
            true => Kind::Last,
            false => kinds[self.dice.roll(4) as usize],
        };
        let column = Column {
            id: 100 + self.made,
            name: format!("c{}", self.made),
            kind,
            default: (self.dice.roll(2) == 0).then_some(7),
        };
        let sql = format!("ALTER TABLE t ADD COLUMN {}", column.declared());
        self.run(&sql).await;
        self.model.add(column);
    }

    /// Drops or renames a column, if no view shows it.
    async fn change_column(&mut self) {
        let at = self.dice.roll(self.model.columns.len() as u64) as usize;
        let Column { id, name, .. } = self.model.columns[at].clone();
        let drops = self.dice.roll(2) == 0;
        let sql = match drops {
            true => format!("ALTER TABLE t DROP COLUMN {name}"),
            false => format!("ALTER TABLE t RENAME COLUMN {name} TO n{}", self.made + 1),
        };
        if self.views.iter().any(|view| view.columns.contains(&id)) {
            if !self.in_transaction {
                self.refused(&sql, "2BP01").await;
            }
            return;
        }
        if drops && self.model.columns.len() == 1 {
            return;
        }
        self.made += 1;
        self.run(&sql).await;
        match drops {
            true => self.model.drop_column(id),
            false => self.model.columns[at].name = format!("n{}", self.made),
        }
    }

    async fn partition(&mut self) {
        let partition = self.dice.roll(2);
        let there = &mut self.partitions[partition as usize];
        let word = if *there { "DROP" } else { "ADD" };
        *there = !*there;
        let partition = partition as i64;
        let sql = format!("ALTER TABLE t {word} RANGE {}", bounds(partition));
        self.run(&sql).await;
        self.model.rows.retain(|key, _| key.k / 10 != partition);
        self.emptied = true;
    }

    async fn view(&mut self) {
        if self.views.len() > 2 || !self.views.is_empty() && self.dice.roll(4) == 0 {
            let at = self.dice.roll(self.views.len() as u64) as usize;
            let view = self.views.remove(at);
            self.run(&format!("DROP MATERIALIZED VIEW {}", view.name))
                .await;
            return;
        }
        self.made += 1;
        let columns = self.model.columns.clone();
        let mut shown: Vec<&Column> = columns.iter().filter(|_| self.dice.roll(2) == 0).collect();
        let sorts = |column: &&&Column| matches!(column.kind, Kind::Last | Kind::File);
        let first = shown.iter().find(sorts).map(|column| column.name.as_str());
        let key = self.shape.key();
        let mut order: Vec<&str> = first.into_iter().chain(key.iter().copied()).collect();
        if self.dice.roll(2) == 0 {
            order.reverse();
        }
        shown.reverse();
        let mut names: Vec<&str> = shown.iter().map(|column| column.name.as_str()).collect();
        names.extend(&key);
        names.extend((self.shape.moment == Place::Value).then_some("at"));
        let view = View {
            name: format!("v{}", self.made),
            columns: shown.iter().map(|column| column.id).collect(),
        };
        let (names, order) = (names.join(", "), order.join(", "));
        let name = &view.name;
        let sql =
            format!("CREATE MATERIALIZED VIEW {name} AS SELECT {names} FROM t ORDER BY {order}");
        self.run(&sql).await;
        self.views.push(view);
    }

    async fn transaction(&mut self) {
        let before = (self.model.clone(), self.partitions, self.views.clone());
        self.run("BEGIN").await;
        self.in_transaction = true;
        for _ in 0..3 {
            self.change().await;
            self.check().await;
        }
        self.in_transaction = false;
        match self.dice.roll(3) {
            0 => {
                self.run("ROLLBACK").await;
                self.emptied = false;
                (self.model, self.partitions, self.views) = before;
            }
            _ => {
                self.run("COMMIT").await;
                self.note_boundary();
            }
        }
    }

    async fn pipeline(&mut self) {
        let instance = self.database.instance().clone();
        let what = self.dice.roll(10);
        self.trace.push(format!("pipeline {what}"));
        match what {
            0..=4 => {
                let scu = instance.seal().await.unwrap().0;
                let now = instance.now_micros();
                let now = format!("SELECT to_timestamp_micros({now})");
                let moment = rows(&self.session, &now).await.remove(0).remove(0);
                self.past.push(Past {
                    scu: (scu > self.changed_at).then_some(scu),
                    boundary: scu,
                    moment,
                    model: self.model.clone(),
                });
            }
            5 | 6 => settle(&self.database, SettleTo::Sorted).await,
            7 => {
                for stage in StageName::ALL {
                    instance.resume(stage).await.unwrap();
                }
                settle(&self.database, SettleTo::Authority).await;
            }
            8 => instance.pause(StageName::Authority).await.unwrap(),
            _ => {
                self.database.close().await.unwrap();
                self.database = open(&self.store).await;
                self.session = self.database.session();
            }
        }
    }

    /// Asks once, now or as of the past, the table or a view.
    async fn check(&mut self) {
        let kept = self.past.len() as u64;
        let past = (kept > 0 && !self.in_transaction && self.dice.roll(3) == 0)
            .then(|| self.dice.roll(kept) as usize);
        let (clause, model) = match past.map(|at| &self.past[at]) {
            None => (String::new(), self.model.clone()),
            Some(past) => {
                let clause = match past.scu.filter(|_| self.dice.roll(2) == 0) {
                    Some(scu) => format!(" AS OF SCU {scu}"),
                    None => format!(" AS OF TIMESTAMP '{}'", past.moment),
                };
                (clause, past.model.clone())
            }
        };
        let view = match self.views.len() as u64 {
            0 => None,
            views => self.views.get(self.dice.roll(views + 1) as usize).cloned(),
        };
        // A view shows columns that the table has had since then, under their names.
        let today = &self.model;
        let view = view.filter(|view| {
            let mut shown = view.columns.iter();
            shown.all(|id| {
                model
                    .find(*id)
                    .is_some_and(|c| c.name == today.column(*id).name)
            })
        });
        let columns: Vec<Column> = match &view {
            Some(view) => view
                .columns
                .iter()
                .map(|id| model.column(*id).clone())
                .collect(),
            None => model.columns.clone(),
        };
        let (filter, passes) = match self.dice.roll(3) {
            0 => (String::new(), Passes::All),
            _ => {
                let (filter, passes) = self.filter_on(&columns);
                (format!(" WHERE {filter}"), passes)
            }
        };
        let key = self.shape.key();
        let mut names: Vec<&str> = key.iter().copied().filter(|name| *name != "at").collect();
        names.extend(columns.iter().map(|column| column.name.as_str()));
        let from = view.as_ref().map_or("t", |view| view.name.as_str());
        let sql = format!("SELECT {} FROM {from}{filter}{clause}", names.join(", "));
        self.trace.push(sql.clone());
        let trace = || self.trace.join(";\n");
        let numbers = numbers(&self.session).await;
        let plan = self.session.execute(&format!("EXPLAIN {sql}")).await;
        let plan = plan.unwrap_or_else(|error| panic!("{error:?}\n{}", trace()));
        let plan: Vec<String> = plan[0]
            .batches
            .iter()
            .flat_map(crate::texts)
            .flatten()
            .collect();
        self.through_views += usize::from(plan.iter().any(|line| line.contains("of view")));
        let answer = self.session.execute(&sql).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error:?}\n{}", trace()));
        let mut got: Vec<String> = answer[0]
            .batches
            .iter()
            .flat_map(crate::texts)
            .map(|row| row.join(", "))
            .collect();
        got.sort();
        let expected = model.lines(&columns, &passes, &numbers);
        assert_eq!(got, expected, "{}\n{}", trace(), plan.join("\n"));
    }
}

/// Which rows a predicate lets pass.
#[derive(Debug, Clone, Copy)]
enum Passes {
    All,
    Key(i64, i64),
    Cell(u32, i64, i64),
}

impl Passes {
    fn holds(self, key: &RowKey, row: &Row) -> bool {
        match self {
            Passes::All => true,
            Passes::Key(low, high) => (low..=high).contains(&key.k),
            Passes::Cell(id, low, high) => row[&id].is_some_and(|v| (low..=high).contains(&v)),
        }
    }
}

/// The numbers of all paths.
async fn numbers(session: &Session) -> BTreeMap<i64, String> {
    let files = rows(session, "SELECT path, id FROM files WHERE id > 0").await;
    let path = |row: &Vec<String>| row[0][1..].parse().unwrap();
    files
        .iter()
        .map(|row| (path(row), row[1].clone()))
        .collect()
}

async fn settle(database: &Database, to: SettleTo) {
    let settled = database.instance().settle(None, to, &|_| {});
    settled.await.unwrap();
}

async fn story(seed: u64, steps: usize) -> usize {
    let mut world = World::new(seed).await;
    for _ in 0..steps {
        match world.dice.roll(12) {
            0 => world.view().await,
            1..=3 => world.pipeline().await,
            4 => world.transaction().await,
            5 | 6 => world.check().await,
            _ => world.change().await,
        }
        world.check().await;
    }
    let report = world.database.instance().verify(&|_| {}).await.unwrap();
    assert!(report.is_whole(), "{report:?}\n{}", world.trace.join(";\n"));
    world.database.close().await.unwrap();
    world.through_views
}

#[tokio::test(flavor = "multi_thread")]
async fn features_stand_beside_each_other() {
    let seeds: Vec<u64> = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => {
            let stories = std::env::var("LAZYBASE_FEATURE_STORIES");
            (0..stories.map_or(5, |stories| stories.parse().unwrap())).collect()
        }
    };
    let mut through_views = 0;
    for seed in &seeds {
        through_views += story(*seed, 60).await;
    }
    assert!(through_views > 0, "no query went through a view");
}
