//! Limits that hold: a query that wants more memory than there is fails alone; a reader
//! that stands still stops nobody, and one that lost its pin is told so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use lazybase_cluster::{Settings, SettleTo, Trouble};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::env::{Clock, Env, Store};
use lazybase_engine::manifest::collect::files_of;
use lazybase_engine::segment::WriteOptions;
use lazybase_model::ErrorKind;
use lazybase_model::limits::{DELETE_GRACE, PIN_LIFETIME, SNAPSHOT_LEFT_ALONE};
use lazybase_query::{AnswerStream, Database, OpenOptions};

use crate::{in_memory, rows};

/// 200,000 rows, about 20 MB of texts that are all different.
const BIG: &str = "CREATE TABLE big (k INT PRIMARY KEY, v TEXT);
    INSERT INTO big SELECT x, concat(repeat('v', 90), CAST(x AS TEXT))
        FROM generate_series(1, 200000) AS s (x)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_tells_more_than_there_is_memory_for_writes_nothing() {
    let database = in_memory(Settings {
        query_memory: 24 << 20,
        ..Settings::default()
    })
    .await;
    let session = database.session();
    session.execute(BIG).await.unwrap();
    let copies = "INSERT INTO big SELECT k + 1000000, v FROM big";
    let telling = format!("{copies} RETURNING concat(v, 'x'), concat(v, 'y')");
    let refused = session.execute(&telling).await.unwrap_err();
    assert_eq!(refused.sqlstate(), "53200", "{refused:?}");
    let count = "SELECT count(*) FROM big";
    assert_eq!(rows(&session, count).await, [["200000"]]);
    session.execute(copies).await.unwrap();
    assert_eq!(rows(&session, count).await, [["400000"]]);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_tells_more_than_there_is_memory_for_changes_nothing() {
    let database = in_memory(Settings {
        query_memory: 24 << 20,
        ..Settings::default()
    })
    .await;
    let session = database.session();
    session.execute(BIG).await.unwrap();
    for telling in [
        "UPDATE big SET v = 'w' RETURNING concat(repeat('v', 90), k), concat(repeat('w', 90), k)",
        "DELETE FROM big RETURNING concat(v, 'x'), concat(v, 'y')",
    ] {
        let refused = session.execute(telling).await.unwrap_err();
        assert_eq!(refused.sqlstate(), "53200", "{refused:?}");
        let same = "SELECT count(*) FROM big WHERE v <> 'w'";
        assert_eq!(rows(&session, same).await, [["200000"]]);
    }
    let telling = "DELETE FROM big WHERE k > 190000 RETURNING k";
    assert_eq!(rows(&session, telling).await.len(), 10_000);
    let count = "SELECT count(*) FROM big";
    assert_eq!(rows(&session, count).await, [["190000"]]);
    database.close().await.unwrap();
}

/// Values that differ each time are told as they are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_update_draws_is_what_it_tells() {
    let database = in_memory(Settings::default()).await;
    let session = database.session();
    session
        .execute("CREATE TABLE drawn (k INT PRIMARY KEY, r DOUBLE, d DOUBLE DEFAULT random())")
        .await
        .unwrap();
    let fill = "INSERT INTO drawn (k) SELECT value FROM generate_series(1, 50) AS s (value)";
    session.execute(fill).await.unwrap();
    let draw = "UPDATE drawn SET r = random(), d = DEFAULT RETURNING k, r, d";
    let mut told = rows(&session, draw).await;
    let mut kept = rows(&session, "SELECT k, r, d FROM drawn").await;
    told.sort();
    kept.sort();
    assert_eq!((told.len(), &told), (50, &kept));
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_past_its_memory_fails_alone() {
    let database = in_memory(Settings {
        query_memory: 24 << 20,
        ..Settings::default()
    })
    .await;
    // Each part of a plan takes memory of its own: as many, on however many cores.
    let parts = "SET datafusion.execution.target_partitions = 2";
    let session = database.session();
    session.execute(parts).await.unwrap();
    session.execute(BIG).await.unwrap();
    let over = AtomicBool::new(false);
    // The build side of a join can't be spilt.
    let greedy = async {
        for _ in 0..3 {
            let sql = "SELECT count(*) FROM big AS a JOIN big AS b ON a.v = b.v";
            let refused = session.execute(sql).await.unwrap_err();
            assert_eq!(refused.sqlstate(), "53200", "{refused:?}");
            assert_eq!(refused.kind(), ErrorKind::Unavailable);
            assert!(refused.hint().is_some(), "{refused:?}");
            // The detail names what wanted it.
            let detail = refused.detail().unwrap_or_default();
            assert!(detail.contains("HashJoin"), "{refused:?}");
        }
        over.store(true, Ordering::SeqCst);
    };
    // One that sorts takes of the same memory, all the while.
    let other = database.session();
    other.execute(parts).await.unwrap();
    let modest = async {
        let mut answered = 0;
        while !over.load(Ordering::SeqCst) || answered == 0 {
            let sql = "SELECT k FROM big WHERE k <= 4000 ORDER BY v DESC, k OFFSET 3999";
            assert_eq!(rows(&other, sql).await, [["1"]]);
            answered += 1;
        }
        answered
    };
    let ((), answered) = tokio::join!(greedy, modest);
    assert!(answered > 0);
    // Nothing of it is left: the same session goes on.
    let after = rows(&session, "SELECT max(k) FROM big WHERE v LIKE '%7'");
    assert_eq!(after.await, [["199997"]]);
    database.close().await.unwrap();
}

/// A few rows of a large batch in memory are counted as what they are, not as what they lie in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_part_of_a_large_batch_takes_little_memory() {
    let database = in_memory(Settings {
        seal_age: Duration::from_secs(3600),
        ..Settings::default()
    })
    .await;
    let session = database.session();
    session.execute(BIG).await.unwrap();
    // 4,000 rows of 100 bytes, of a batch of 20 MB that is cut into stretches of 3 MB.
    let sql = "EXPLAIN ANALYZE SELECT v FROM big WHERE k <= 4000";
    let plan = rows(&session, sql).await;
    let scan = plan.iter().find(|line| line[0].contains("LazyScanExec"));
    let scan = &scan.unwrap()[0];
    let (_, taken) = scan.split_once("output_bytes=").unwrap();
    assert!(taken.contains(" KB"), "{scan}");
    database.close().await.unwrap();
}

/// How many rows hold the text that they had first.
fn rows_of(batch: &arrow::array::RecordBatch) -> usize {
    let texts = batch.column(1);
    let texts = arrow::array::AsArray::as_string::<i32>(texts.as_ref());
    texts
        .iter()
        .filter(|text| text.is_some_and(|text| text.starts_with("vvv")))
        .count()
}

/// A clock that can be moved on.
struct Hurried {
    inner: Arc<dyn Clock>,
    ahead_ms: AtomicU64,
}

#[async_trait]
impl Clock for Hurried {
    fn wall_micros(&self) -> i64 {
        self.inner.wall_micros()
    }

    fn monotonic(&self) -> Duration {
        self.inner.monotonic() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }

    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }
}

/// A database whose files can be listed, whose clock can be moved on, and that keeps little in
/// memory and nothing for later.
pub(crate) struct World {
    pub(crate) database: Database,
    store: MemoryStore,
    clock: Arc<Hurried>,
}

impl World {
    async fn open() -> World {
        World::with(World::settings()).await
    }

    fn settings() -> Settings {
        Settings {
            retention: Duration::ZERO,
            cache_bytes: 1 << 20,
            ..Settings::default()
        }
    }

    pub(crate) async fn with(settings: Settings) -> World {
        let store = MemoryStore::without_history();
        let system = Env::system(Arc::new(store.clone()));
        let clock = Arc::new(Hurried {
            inner: Arc::clone(&system.clock),
            ahead_ms: AtomicU64::new(0),
        });
        let env = Env {
            clock: clock.clone(),
            ..system
        };
        World {
            database: Database::open_env(env, settings).await.unwrap(),
            store,
            clock,
        }
    }

    async fn settle(&self) {
        let instance = self.database.instance();
        instance
            .settle(None, SettleTo::Authority, &|_| {})
            .await
            .unwrap();
    }

    /// The segments that are there.
    async fn segments(&self) -> BTreeSet<String> {
        let listed = self.store.list("segments/").await.unwrap();
        listed.into_iter().map(|(name, _)| name).collect()
    }

    /// Those that the newest manifest names.
    fn named(&self) -> BTreeSet<String> {
        let manifest = self.database.instance().manifest();
        files_of(&manifest).map(str::to_owned).collect()
    }

    pub(crate) fn hurry(&self, by: Duration) {
        let by = by.as_millis() as u64;
        self.clock.ahead_ms.fetch_add(by, Ordering::SeqCst);
    }

    /// Moves the clock on, in steps of `step`, until the collector has done something.
    async fn until(&self, what: &str, step: Duration, done: impl Fn(&BTreeSet<String>) -> bool) {
        for _ in 0..200 {
            if done(&self.segments().await) {
                return;
            }
            self.hurry(step);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{what}: {:?}", self.segments().await);
    }

    /// The table, once nothing but what it needs is there; and a reader that has begun to read it.
    async fn with_reader(&self) -> (BTreeSet<String>, AnswerStream) {
        let session = self.database.session();
        session.execute(BIG).await.unwrap();
        self.settle().await;
        let whole = |there: &BTreeSet<String>| *there == self.named();
        self.until("only the base is kept", DELETE_GRACE, whole)
            .await;
        let reader = self.database.session();
        let sql = "SET datafusion.execution.batch_size = 1000;
            SET datafusion.execution.target_partitions = 1";
        reader.execute(sql).await.unwrap();
        let standing = reader.query("SELECT k, v FROM big").await.unwrap();
        (self.segments().await, standing)
    }

    /// Writes everything anew, in so many parts, each brought to the authority.
    async fn write_anew(&self, parts: u32) -> BTreeSet<String> {
        let session = self.database.session();
        let mut seen = BTreeSet::new();
        let rows = 200_000 / parts;
        for part in 0..parts {
            let from = part * rows;
            let sql = format!(
                "UPDATE big SET v = 'new' WHERE k > {from} AND k <= {}",
                from + rows
            );
            session.execute(&sql).await.unwrap();
            self.settle().await;
            seen.append(&mut self.segments().await);
        }
        seen
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stands_still_stops_nobody() {
    let world = World::open().await;
    let (pinned, mut standing) = world.with_reader().await;
    let first = standing.next().await.unwrap().unwrap();
    let mut seen = first.num_rows();
    // Everything is written anew, comes to the authority, and is collected, while it stands.
    let written = world.write_anew(4).await;
    let loose = |there: &BTreeSet<String>| {
        let named = world.named();
        let kept = |file: &&String| named.contains(*file) || pinned.contains(*file);
        written
            .iter()
            .filter(|file| !kept(file))
            .all(|file| !there.contains(file))
    };
    // What a merge superseded is named until the coordinator's next look.
    let superseded = |_: &BTreeSet<String>| pinned.is_disjoint(&world.named());
    world
        .until("the base is another one", DELETE_GRACE, superseded)
        .await;
    let now = world.named();
    assert!(
        !written.is_subset(&(&pinned | &now)),
        "something is to be collected"
    );
    world
        .until("what nobody needs goes", DELETE_GRACE, loose)
        .await;
    let there = world.segments().await;
    assert!(pinned.is_subset(&there), "what is pinned stays: {there:?}");
    let session = world.database.session();
    assert_eq!(
        rows(&session, "SELECT count(*) FROM big WHERE v = 'new'").await,
        [["200000"]]
    );
    // It reads on at its own horizon: all rows, and none of the new.
    let mut texts = rows_of(&first);
    while let Some(batch) = standing.next().await {
        let batch = batch.unwrap();
        seen += batch.num_rows();
        texts += rows_of(&batch);
    }
    assert_eq!((seen, texts), (200_000, 200_000));
    // The pin alone kept them.
    drop(standing);
    let gone = |there: &BTreeSet<String>| pinned.is_disjoint(there);
    world
        .until("what was pinned goes", DELETE_GRACE, gone)
        .await;
    world.database.close().await.unwrap();
}

/// It reads for several times as long as a pin lasts, and is never idle for that long: with each
/// row group that it comes to its pin lasts anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_reads_on_keeps_its_pin() {
    let small_groups = WriteOptions {
        group_bytes: 1,
        ..WriteOptions::default()
    };
    let world = World::with(Settings {
        write_options: small_groups,
        ..World::settings()
    })
    .await;
    let (pinned, mut standing) = world.with_reader().await;
    // From here on nobody else needs what it reads.
    world.write_anew(1).await;
    let superseded = |_: &BTreeSet<String>| pinned.is_disjoint(&world.named());
    world
        .until("the base is another one", DELETE_GRACE, superseded)
        .await;
    let writer = world.database.session();
    let made = "CREATE TABLE other (k INT PRIMARY KEY)";
    writer.execute(made).await.unwrap();
    let collected = || world.database.instance().status().files_collected;
    let (mut seen, mut texts) = (0, 0);
    for stretch in 1..=5 {
        // Some row groups.
        while seen < stretch * 20_000 {
            let batch = standing.next().await.unwrap().unwrap();
            seen += batch.num_rows();
            texts += rows_of(&batch);
        }
        world.hurry(PIN_LIFETIME * 4 / 5);
        // The collector looks at pins before it removes what merges of this have replaced.
        let before = collected();
        let insert = format!("INSERT INTO other VALUES ({stretch})");
        writer.execute(&insert).await.unwrap();
        world.settle().await;
        let removes = |_: &BTreeSet<String>| collected() > before;
        world
            .until(
                "something is collected",
                Duration::from_millis(500),
                removes,
            )
            .await;
        let there = world.segments().await;
        assert!(pinned.is_subset(&there), "after {stretch} stretches");
    }
    assert!(seen < 200_000, "it ended before its time: {seen}");
    while let Some(batch) = standing.next().await {
        let batch = batch.unwrap();
        seen += batch.num_rows();
        texts += rows_of(&batch);
    }
    assert_eq!((seen, texts), (200_000, 200_000));
    drop(standing);
    let gone = |there: &BTreeSet<String>| pinned.is_disjoint(there);
    world
        .until("what was pinned goes", DELETE_GRACE, gone)
        .await;
    world.database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_lost_its_pin_is_told_so() {
    let world = World::open().await;
    let (pinned, mut standing) = world.with_reader().await;
    let mut seen = standing.next().await.unwrap().unwrap().num_rows();
    world.write_anew(1).await;
    // It stands for so long that its pin is taken away, and the files with it.
    world.hurry(PIN_LIFETIME * 3);
    let gone = |there: &BTreeSet<String>| pinned.is_disjoint(there);
    world
        .until("what was pinned goes", DELETE_GRACE, gone)
        .await;
    let lost = loop {
        match standing.next().await {
            None => break None,
            Some(Ok(batch)) => seen += batch.num_rows(),
            Some(Err(error)) => break Some(error),
        }
    };
    let lost = lost.unwrap_or_else(|| panic!("an answer of {seen} rows ends without an error"));
    assert_eq!(lost.kind(), ErrorKind::SnapshotTooOld, "{lost:?}");
    assert!(seen < 200_000, "{seen}");
    // Asked again, it gets all.
    let session = world.database.session();
    assert_eq!(
        rows(&session, "SELECT count(*) FROM big").await,
        [["200000"]]
    );
    world.database.close().await.unwrap();
}

/// So is one whose snapshot keeps more than superseded files may take, though it has not stood for
/// long; the newest answers are as they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_keeps_too_much_is_told_so() {
    let world = World::with(Settings {
        superseded_bytes_max: 64 << 10,
        ..World::settings()
    })
    .await;
    let (pinned, mut standing) = world.with_reader().await;
    let mut seen = standing.next().await.unwrap().unwrap().num_rows();
    world.write_anew(1).await;
    world.hurry(SNAPSHOT_LEFT_ALONE);
    let gone = |there: &BTreeSet<String>| pinned.is_disjoint(there);
    world
        .until("what was pinned goes", DELETE_GRACE, gone)
        .await;
    let lost = loop {
        match standing.next().await {
            None => break None,
            Some(Ok(batch)) => seen += batch.num_rows(),
            Some(Err(error)) => break Some(error),
        }
    };
    let lost = lost.unwrap_or_else(|| panic!("an answer of {seen} rows ends without an error"));
    assert_eq!(lost.kind(), ErrorKind::SnapshotTooOld, "{lost:?}");
    // It was not idle for too long.
    let detail = lost.detail().unwrap_or_default();
    assert!(detail.contains("superseded_bytes_max"), "{lost:?}");
    let status = world.database.instance().status();
    assert!(status.superseded.snapshots_ended > 0, "{status:?}");
    let told = |trouble: &Trouble| trouble.message.contains("was ended");
    assert!(status.troubles.iter().any(told), "{:?}", status.troubles);
    assert!(status.damage.is_empty(), "{:?}", status.damage);
    let session = world.database.session();
    let count = "SELECT count(*) FROM big WHERE v = 'new'";
    assert_eq!(rows(&session, count).await, [["200000"]]);
    world.database.close().await.unwrap();
}

/// Files that are gone by right are nobody's damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_a_reader_lost_with_its_pin_is_not_called_damaged() {
    let world = World::with(Settings {
        unsorted_memory: 0,
        ..World::settings()
    })
    .await;
    let writer = world.database.session();
    let sql = "CREATE TABLE t (k INT PRIMARY KEY); CREATE TABLE u (k INT PRIMARY KEY);
        PAUSE STAGE SORT; INSERT INTO t VALUES (1)";
    writer.execute(sql).await.unwrap();
    let reader = world.database.session();
    let sql = "BEGIN READ ONLY; SELECT count(*) FROM u";
    reader.execute(sql).await.unwrap();
    world.hurry(PIN_LIFETIME * 3);
    // As if all was sorted long ago, and its log not needed by anybody.
    for (log, _) in world.store.list("log/").await.unwrap() {
        world.store.delete(&log).await.unwrap();
    }
    let lost = reader.execute("SELECT * FROM t").await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::SnapshotTooOld, "{lost:?}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let damage = world.database.instance().status().damage;
    assert!(damage.is_empty(), "{damage:?}");
}

/// What sorts past its memory spills into the database's folder, and nothing stays there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_spilt_lies_in_the_databases_folder_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let options = OpenOptions {
        create: true,
        settings: Settings {
            query_memory: 32 << 20,
            ..Settings::default()
        },
        ..OpenOptions::default()
    };
    let database = Database::open_with(&path, options.clone()).await.unwrap();
    let session = database.session();
    // One sort alone: several, and what merges them, would have parts of the memory each.
    let alone = "SET datafusion.execution.target_partitions = 1;
                 SET datafusion.explain.analyze_level = 'dev'";
    session.execute(alone).await.unwrap();
    session.execute(BIG).await.unwrap();
    // As much again: twice what the sort may hold, beside what it may not spill.
    let more = "INSERT INTO big SELECT k + 200000, concat(v, 'more') FROM big";
    session.execute(more).await.unwrap();
    let sql = "EXPLAIN ANALYZE SELECT k FROM big ORDER BY v OFFSET 399999";
    let plan = rows(&session, sql).await.concat().join("\n");
    assert!(
        plan.contains("spill_count=") && !plan.contains("spill_count=0,"),
        "{plan}"
    );
    database.close().await.unwrap();
    drop((session, database));
    // What a process left that was killed.
    let left = path.join("tmp/datafusion-left");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("spilt"), "rows").unwrap();
    let database = Database::open_with(&path, options).await.unwrap();
    assert!(!left.exists());
    database.close().await.unwrap();
}

/// A transaction that empties a table and fills it again may fill an SCU while its own is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_scu_that_is_sealed_behind_a_held_one_stays_sealed() {
    let database = in_memory(Settings {
        seal_bytes: 1024,
        seal_age: Duration::from_secs(3600),
        ..Settings::default()
    })
    .await;
    let session = database.session();
    let script = "CREATE TABLE t (k INT PRIMARY KEY, v TEXT);
        INSERT INTO t VALUES (1, 'a');
        BEGIN;
        TRUNCATE t;
        INSERT INTO t SELECT x, repeat('v', 100) FROM generate_series(1, 1000) AS s (x);
        COMMIT;
        TRUNCATE t;
        INSERT INTO t VALUES (2, 'b');
        SETTLE";
    session.execute(script).await.unwrap();
    let settled = rows(&session, "SELECT k FROM t FRESHNESS 'best effort'").await;
    assert_eq!(settled, [["2"]]);
    database.close().await.unwrap();
}
