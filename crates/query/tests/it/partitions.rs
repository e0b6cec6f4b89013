//! Partitioned tables against a map of rows: random rules, rows, predicates and changes of
//! partitions at every mix of stages, with every horizon that was seen read again at the end.

use std::collections::{BTreeMap, BTreeSet};

use lazybase_cluster::Settings;
use lazybase_query::{Database, Session};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::in_memory;
use crate::stages::{Mix, Pipeline};

/// Rows by key: two numbers and a text between them.
type Rows = BTreeMap<(i64, String, i64), i64>;

/// What a transaction does: it drops a partition, and inserts rows before and after.
type Changed = (i64, Vec<(i64, String, i64, i64)>);

/// What happens to the table.
#[derive(Debug, Clone)]
enum Op {
    Insert(Vec<(i64, String, i64, i64)>),
    DeleteKey(i64, String, i64),
    DeleteWhere(i64, i64),
    Update(i64, i64),
    Drop(i64),
    Add(i64),
    /// Drops a partition and inserts into others, as one transaction; kept or not.
    Transaction(i64, Vec<(i64, String, i64, i64)>, bool),
}

/// What a SELECT asks for.
#[derive(Debug, Clone)]
enum Ask {
    All,
    First(usize),
    Host(i64),
    Range(i64, i64),
    Some(Vec<i64>, String),
    Key(i64, String, i64),
}

/// Rules; those with `RANGE (r)` begin with the partitions 0 to 2 of ten values each.
const RULES: [&str; 7] = [
    "HASH (h) PARTITIONS 3, RANGE (r)",
    "HASH (h, n) PARTITIONS 4",
    "RANGE (r)",
    "HASH (n) PARTITIONS 2, HASH (h) PARTITIONS 3, RANGE (r)",
    "RANGE (h) SPLIT AT (2, 5)",
    "HASH PARTITIONS 5",
    "HASH (n) PARTITIONS 2, RANGE (r, h) SPLIT AT ((10, 3), (20, 0))",
];

fn row() -> impl Strategy<Value = (i64, String, i64, i64)> {
    let name = prop::sample::select(vec!["", "a", "ab", "zz"]);
    let range = prop_oneof![20 => 0..30_i64, 1 => 30..40_i64];
    (0..8_i64, name, range, 0..100_i64).prop_map(|(h, n, r, v)| (h, n.to_owned(), r, v))
}

fn op() -> impl Strategy<Value = Op> {
    let rows = || prop::collection::vec(row(), 1..12);
    prop_oneof![
        6 => rows().prop_map(Op::Insert),
        1 => row().prop_map(|(h, n, r, _)| Op::DeleteKey(h, n, r)),
        1 => (0..8_i64, 0..40_i64).prop_map(|(h, r)| Op::DeleteWhere(h, r)),
        1 => (0..40_i64, 0..100_i64).prop_map(|(r, v)| Op::Update(r, v)),
        2 => (0..4_i64).prop_map(Op::Drop),
        2 => (0..4_i64).prop_map(Op::Add),
        1 => (0..4_i64, rows(), any::<bool>()).prop_map(|(p, rows, kept)| {
            Op::Transaction(p, rows, kept)
        }),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        Just(Ask::All),
        (0..9_usize).prop_map(Ask::First),
        (0..8_i64).prop_map(Ask::Host),
        (0..40_i64, 0..40_i64).prop_map(|(a, b)| Ask::Range(a.min(b), a.max(b))),
        (prop::collection::vec(0..8_i64, 1..4), row()).prop_map(|(h, row)| Ask::Some(h, row.1)),
        row().prop_map(|(h, n, r, _)| Ask::Key(h, n, r)),
    ]
}

fn mix() -> impl Strategy<Value = Mix> {
    prop::sample::select(vec![
        Mix::Open,
        Mix::Unsorted,
        Mix::HalfSorted,
        Mix::PartlyMerged,
        Mix::Authority,
    ])
}

/// The database beside the map.
struct World {
    database: Database,
    session: Session,
    pipeline: Pipeline,
    /// The statement that makes the table.
    create: String,
    rows: Rows,
    /// Numbers of the range partitions that are there; `None` where all rows are taken.
    partitions: Option<BTreeSet<i64>>,
    /// What the table held at the ends of SCUs.
    seen: BTreeMap<u64, Rows>,
}

fn bounds(partition: i64) -> String {
    format!(
        "PARTITION {} <= VALUES < {}",
        partition * 10,
        partition * 10 + 10
    )
}

fn values(rows: &[(i64, String, i64, i64)]) -> String {
    let rows = rows
        .iter()
        .map(|(h, n, r, v)| format!("({h}, '{n}', {r}, {v})"));
    rows.collect::<Vec<_>>().join(", ")
}

impl World {
    async fn new(rule: &str, mix: Mix) -> World {
        let database = in_memory(Settings::default()).await;
        let pipeline = Pipeline::new(database.clone(), mix);
        pipeline.start().await.unwrap();
        let session = database.session();
        let by_range = rule.ends_with("RANGE (r)");
        let partitions = match by_range {
            true => format!("({})", [0, 1, 2].map(bounds).join(", ")),
            false => String::new(),
        };
        let create = format!(
            "CREATE TABLE t (h BIGINT, n TEXT, r BIGINT, v BIGINT, PRIMARY KEY (h, n, r)) \
             PARTITION BY {rule} {partitions}"
        );
        World {
            database,
            session,
            pipeline,
            create,
            rows: Rows::new(),
            partitions: by_range.then(|| BTreeSet::from([0, 1, 2])),
            seen: BTreeMap::new(),
        }
    }

    fn takes(&self, r: i64) -> bool {
        self.partitions
            .as_ref()
            .is_none_or(|known| known.contains(&(r / 10)))
    }

    /// Runs a statement that must go well or be refused with this SQLSTATE.
    async fn run(&self, sql: &str, refused: Option<&str>) -> Result<(), TestCaseError> {
        let done = self.session.execute(sql).await;
        match (done, refused) {
            (Ok(_), None) => Ok(()),
            (Err(error), Some(state)) if error.sqlstate() == state => Ok(()),
            (done, refused) => Err(TestCaseError::fail(format!(
                "{sql}: expected {refused:?}, got {:?}",
                done.map(|_| ())
            ))),
        }
    }

    fn refusal(&self, rows: &[(i64, String, i64, i64)]) -> Option<&'static str> {
        (!rows.iter().all(|row| self.takes(row.2))).then_some("23514")
    }

    fn insert(&mut self, rows: &[(i64, String, i64, i64)]) {
        for (h, n, r, v) in rows {
            self.rows.insert((*h, n.clone(), *r), *v);
        }
    }

    fn drop_rows(&mut self, partition: i64) {
        self.rows.retain(|key, _| key.2 / 10 != partition);
        if let Some(known) = &mut self.partitions {
            known.remove(&partition);
        }
    }

    async fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let missing = |partition: &i64| match &self.partitions {
            None => None,
            Some(known) => (!known.contains(partition)).then_some("42704"),
        };
        match op {
            Op::Insert(rows) => {
                let refused = self.refusal(rows);
                let sql = format!("INSERT INTO t VALUES {}", values(rows));
                self.run(&sql, refused).await?;
                if refused.is_none() {
                    self.insert(rows);
                }
            }
            Op::DeleteKey(h, n, r) => {
                let sql = format!("DELETE FROM t WHERE h = {h} AND n = '{n}' AND r = {r}");
                self.run(&sql, None).await?;
                self.rows.remove(&(*h, n.clone(), *r));
            }
            Op::DeleteWhere(h, r) => {
                self.run(&format!("DELETE FROM t WHERE h = {h} AND r < {r}"), None)
                    .await?;
                self.rows.retain(|key, _| key.0 != *h || key.2 >= *r);
            }
            Op::Update(r, v) => {
                self.run(&format!("UPDATE t SET v = {v} WHERE r >= {r}"), None)
                    .await?;
                let touched = self.rows.iter_mut().filter(|(key, _)| key.2 >= *r);
                touched.for_each(|(_, value)| *value = *v);
            }
            Op::Drop(_) | Op::Add(_) | Op::Transaction(..) if self.partitions.is_none() => {}
            Op::Drop(partition) => {
                let refused = missing(partition);
                let sql = format!("ALTER TABLE t DROP RANGE {}", bounds(*partition));
                self.run(&sql, refused).await?;
                if refused.is_none() {
                    self.drop_rows(*partition);
                    self.see_again();
                }
            }
            Op::Add(partition) => {
                let refused = match &self.partitions {
                    None => None,
                    Some(known) => known.contains(partition).then_some("42P17"),
                };
                let sql = format!("ALTER TABLE t ADD RANGE {}", bounds(*partition));
                self.run(&sql, refused).await?;
                if let (None, Some(known)) = (refused, &mut self.partitions) {
                    known.insert(*partition);
                }
            }
            Op::Transaction(partition, rows, kept) => {
                if missing(partition).is_some() {
                    return Ok(());
                }
                let before = (self.rows.clone(), self.partitions.clone());
                self.run("BEGIN", None).await?;
                self.in_transaction(*partition, rows).await?;
                match kept {
                    true => self.commit().await?,
                    false => {
                        self.run("ROLLBACK", None).await?;
                        (self.rows, self.partitions) = before;
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the table, alone or in a transaction that changes it further.
    async fn make(&mut self, changed: Option<&Changed>) -> Result<(), TestCaseError> {
        let Some((partition, rows)) = changed else {
            return self.run(&self.create, None).await;
        };
        self.run("BEGIN", None).await?;
        self.run(&self.create, None).await?;
        self.in_transaction(*partition, rows).await?;
        self.commit().await
    }

    async fn commit(&mut self) -> Result<(), TestCaseError> {
        self.run("COMMIT", None).await?;
        // The past of the boundary has the tables of today, but not the batch.
        self.seen.clear();
        Ok(())
    }

    /// Inserts, drops a partition if there are any by range, and inserts again.
    async fn in_transaction(
        &mut self,
        partition: i64,
        rows: &[(i64, String, i64, i64)],
    ) -> Result<(), TestCaseError> {
        let taken: Vec<_> = rows
            .iter()
            .filter(|row| self.takes(row.2))
            .cloned()
            .collect();
        let (early, late) = taken.split_at(taken.len() / 2);
        if !early.is_empty() {
            self.run(&format!("INSERT INTO t VALUES {}", values(early)), None)
                .await?;
            self.insert(early);
        }
        if self.partitions.is_some() {
            let sql = format!("ALTER TABLE t DROP RANGE {}", bounds(partition));
            self.run(&sql, None).await?;
            self.drop_rows(partition);
        }
        let late: Vec<_> = late
            .iter()
            .filter(|row| self.takes(row.2))
            .cloned()
            .collect();
        if !late.is_empty() {
            self.run(&format!("INSERT INTO t VALUES {}", values(&late)), None)
                .await?;
            self.insert(&late);
        }
        self.check(&Ask::All, "").await
    }

    fn sealed(&self) -> u64 {
        self.database.instance().manifest().sealed_through.0
    }

    /// What is dropped is dropped at the newest boundary.
    fn see_again(&mut self) {
        let (sealed, rows) = (self.sealed(), self.rows.clone());
        self.seen.entry(sealed).and_modify(|seen| *seen = rows);
    }

    async fn see(&mut self) {
        let sealed = self.database.instance().seal().await.unwrap();
        self.seen.insert(sealed.0, self.rows.clone());
    }

    async fn check(&self, ask: &Ask, clause: &str) -> Result<(), TestCaseError> {
        self.check_rows(ask, clause, &self.rows).await
    }

    async fn check_rows(&self, ask: &Ask, clause: &str, rows: &Rows) -> Result<(), TestCaseError> {
        let (filter, limit) = match ask {
            Ask::All => (String::new(), None),
            Ask::First(count) => (String::new(), Some(*count)),
            Ask::Host(h) => (format!("WHERE h = {h}"), None),
            Ask::Range(low, high) => (format!("WHERE r BETWEEN {low} AND {high}"), None),
            Ask::Some(h, n) => {
                let list: Vec<String> = h.iter().map(i64::to_string).collect();
                (
                    format!("WHERE n = '{n}' AND h IN ({})", list.join(", ")),
                    None,
                )
            }
            Ask::Key(h, n, r) => (format!("WHERE r = {r} AND h = {h} AND n = '{n}'"), None),
        };
        let passes = |key: &(i64, String, i64)| match ask {
            Ask::All | Ask::First(_) => true,
            Ask::Host(h) => key.0 == *h,
            Ask::Range(low, high) => (*low..=*high).contains(&key.2),
            Ask::Some(h, n) => h.contains(&key.0) && key.1 == *n,
            Ask::Key(h, n, r) => *key == (*h, n.clone(), *r),
        };
        let text = |text: &str| match text {
            "" => "(empty)".to_owned(),
            text => text.to_owned(),
        };
        let expected: Vec<Vec<String>> = rows
            .iter()
            .filter(|(key, _)| passes(key))
            .take(limit.unwrap_or(usize::MAX))
            .map(|((h, n, r), v)| vec![h.to_string(), text(n), r.to_string(), v.to_string()])
            .collect();
        let limit = limit.map_or_else(String::new, |count| format!("LIMIT {count}"));
        let sql = format!("SELECT h, n, r, v FROM t {filter} ORDER BY h, n, r {limit} {clause}");
        let got = crate::rows(&self.session, &sql).await;
        prop_assert_eq!(got, expected, "{}", sql);
        let sql = format!("SELECT count(*) FROM t {filter} {clause}");
        let all = rows.keys().filter(|key| passes(key)).count();
        let got = crate::rows(&self.session, &sql).await;
        prop_assert_eq!(got, vec![vec![all.to_string()]], "{}", sql);
        Ok(())
    }
}

async fn story(
    rule: &str,
    mix: Mix,
    made_with: Option<&Changed>,
    ops: &[(Op, Vec<Ask>)],
    past: &[Ask],
) -> Result<(), TestCaseError> {
    let mut world = World::new(rule, mix).await;
    world.make(made_with).await?;
    for (op, asks) in ops {
        world.pipeline.before(false).await.unwrap();
        world.apply(op).await?;
        world.pipeline.after(false).await.unwrap();
        for ask in asks {
            world.check(ask, "").await?;
        }
        if mix != Mix::Open {
            world.see().await;
        }
    }
    for (scu, rows) in &world.seen {
        for ask in past {
            world
                .check_rows(ask, &format!("AS OF SCU {scu}"), rows)
                .await?;
        }
    }
    let report = world.database.instance().verify(&|_| {}).await.unwrap();
    prop_assert!(report.is_whole(), "{:?}", report);
    world.database.close().await.unwrap();
    Ok(())
}

/// A range inside a partition that outgrows its size is cut, and dropped with its partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_are_cut_inside_their_partition() {
    let settings = Settings {
        range_split_bytes: 32 << 10,
        ..Settings::default()
    };
    let database = in_memory(settings).await;
    let session = database.session();
    let run = async |sql: &str| crate::rows(&session, sql).await;
    run(
        "CREATE TABLE t (k BIGINT, p INT, v TEXT, PRIMARY KEY (k, p)) \
         PARTITION BY HASH (k) PARTITIONS 2, RANGE (p) SPLIT AT (1, 2)",
    )
    .await;
    run("PAUSE STAGE SORT").await;
    for batch in 0..10 {
        let (first, last) = (batch * 2000 + 1, batch * 2000 + 2000);
        run(&format!(
            "INSERT INTO t SELECT x, 1, \
             concat(x * 7919 % 1000003, '-', x * 104729 % 999983, '-', x * 1299709 % 999979) \
             FROM generate_series({first}, {last}) AS t(x)"
        ))
        .await;
        database.instance().seal().await.unwrap();
    }
    run("RESUME STAGE SORT").await;
    run("INSERT INTO t VALUES (1, 0, 'a'), (1, 2, 'b')").await;
    run("SETTLE").await;
    run("INSERT INTO t SELECT x, 1, 'new' FROM generate_series(1, 20000, 100) AS t(x)").await;
    run("SETTLE").await;
    let ranges = "SELECT sum(key_ranges) FROM lazybase.partitions WHERE range = ";
    assert_eq!(run(&format!("{ranges} 'VALUES < 1'")).await, [["2"]]);
    let cut: u64 = run(&format!("{ranges} '1 <= VALUES < 2'")).await[0][0]
        .parse()
        .unwrap();
    assert!(cut > 2, "{cut} ranges");
    assert_eq!(
        run("SELECT count(*) FROM t WHERE v = 'new'").await,
        [["200"]]
    );
    assert_eq!(
        run("SELECT v FROM t WHERE k = 101 AND p = 1").await,
        [["new"]]
    );
    let report = database.instance().verify(&|_| {}).await.unwrap();
    assert!(report.is_whole(), "{report:?}");
    run("ALTER TABLE t DROP RANGE PARTITION 1 <= VALUES < 2").await;
    assert_eq!(
        run("SELECT k, p, v FROM t ORDER BY k, p").await,
        [["1", "0", "a"], ["1", "2", "b"]]
    );
    database.close().await.unwrap();
}

/// One batch makes a base of several times the size of a range.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_that_is_too_large_at_once_is_cut() {
    let settings = Settings {
        range_split_bytes: 256 << 10,
        ..Settings::default()
    };
    let database = in_memory(settings).await;
    let session = database.session();
    let run = async |sql: &str| crate::rows(&session, sql).await;
    run("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)").await;
    run("INSERT INTO t SELECT x, md5(x::TEXT) FROM generate_series(1, 60000) AS s (x)").await;
    run("SETTLE").await;
    // Cuts come before merges.
    run("INSERT INTO t VALUES (0, 'first'), (60001, 'last')").await;
    run("SETTLE").await;
    let ranges = run("SELECT ranges FROM lazybase.tables WHERE name = 't'").await;
    let ranges: u64 = ranges[0][0].parse().unwrap();
    assert!(ranges > 2, "{ranges} ranges");
    assert_eq!(run("SELECT count(*) FROM t").await, [["60002"]]);
    let report = database.instance().verify(&|_| {}).await.unwrap();
    assert!(report.is_whole(), "{report:?}");
    database.close().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_a_map(
        rule in prop::sample::select(RULES.to_vec()),
        mix in mix(),
        made_with in prop::option::of((0..3_i64, prop::collection::vec(row(), 1..12))),
        ops in prop::collection::vec((op(), prop::collection::vec(ask(), 1..3)), 1..16),
        past in prop::collection::vec(ask(), 1..3),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(story(rule, mix, made_with.as_ref(), &ops, &past))?;
    }
}

/// Also of the shortest lists, which the planner makes equalities of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_values_reads_their_partitions_alone() {
    let database = in_memory(Settings::default()).await;
    let session = database.session();
    let made = "CREATE TABLE p (h INT, r INT, k INT, v INT, PRIMARY KEY (h, r, k)) PARTITION BY
            HASH (h) PARTITIONS 16, RANGE (r) SPLIT AT (10, 20, 30);
        INSERT INTO p SELECT x % 50, x % 40, x, x FROM generate_series(1, 2000) AS s (x);
        SETTLE";
    session.execute(made).await.unwrap();
    for (list, values, of_table) in [
        ("h IN (3)", 1, 4),
        ("h IN (3, 17)", 2, 8),
        ("h IN (3, 17, 29)", 3, 12),
        ("h IN (3, 17, 29, 31, 40)", 5, 20),
        ("h = 3 OR h = 17 OR h IN (29)", 3, 12),
        ("h IN (3, 17) AND r IN (5, 25)", 2, 4),
        ("(h = 3 AND r = 33) OR (h = 17 AND r = 7)", 2, 4),
    ] {
        let explain = format!("EXPLAIN SELECT count(v) FROM p WHERE {list}");
        let lines = crate::rows(&session, &explain).await.concat();
        let words = lines.iter().find(|line| line.starts_with("scan of p"));
        let words = words.unwrap_or_else(|| panic!("{list}: {lines:#?}"));
        let read = words
            .split(", ")
            .find_map(|part| part.strip_suffix(" of 64 partitions"));
        let read: usize = read
            .unwrap_or_else(|| panic!("{list}: {words}"))
            .parse()
            .unwrap();
        // Values may share a bucket.
        assert!(
            read <= of_table && read >= of_table / values,
            "{list}: {words}"
        );
        let count = crate::rows(&session, &format!("SELECT count(v) FROM p WHERE {list}")).await;
        let all = format!("SELECT sum(CASE WHEN {list} THEN 1 ELSE 0 END) FROM p");
        assert_eq!(count, crate::rows(&session, &all).await, "{list}");
    }
    database.close().await.unwrap();
}

/// Groups of their own are for rows whose order is of use: others come in as many as are wanted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_an_order_come_in_as_few_groups_as_are_wanted() {
    let database = in_memory(Settings::default()).await;
    let session = database.session();
    let made = "CREATE TABLE p (k INT, v INT, PRIMARY KEY (k)) PARTITION BY HASH (k) PARTITIONS 6;
        INSERT INTO p SELECT x, x FROM generate_series(1, 600) AS s (x);
        SETTLE;
        SET datafusion.execution.target_partitions = 1";
    session.execute(made).await.unwrap();
    let scan = async |sql: &str| {
        let lines = crate::rows(&session, sql).await.concat();
        let scan = lines.into_iter().find(|line| line.contains("LazyScanExec"));
        scan.expect("the table is scanned")
    };
    let unordered = scan("EXPLAIN SELECT sum(v) FROM p WHERE v > 3").await;
    assert!(unordered.contains("partitions=1,"), "{unordered}");
    let ordered = scan("EXPLAIN SELECT k FROM p ORDER BY k LIMIT 3").await;
    assert!(ordered.contains("partitions=6,"), "{ordered}");
    database.close().await.unwrap();
}
