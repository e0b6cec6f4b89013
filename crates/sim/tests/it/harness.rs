//! A database of one table in a simulated world, and what it has acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use futures::TryStreamExt;
use lazybase_cluster::{Instance, Settings, SettleTo, SnapshotRequest, TableSpec};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::planted::Chosen;
use lazybase_engine::env::{Env, Store};
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_engine::read::{ScanRequest, Snapshot};
use lazybase_engine::segment::RowLayout;
use lazybase_model::{Column, Freshness, Horizon, Result, Table};
use lazybase_sim::world::{Stopped, World};

/// More polls than any story takes.
const STEPS_MAX: u64 = 20_000_000;
/// Longer than anything takes that is waited for.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Rows to be written: keys with their values.
pub(crate) type Rows = Vec<(i64, i64)>;

/// What the table holds: values by key.
pub(crate) type Held = BTreeMap<i64, i64>;

/// Tells a story in a world of its own, in which the seed says whose turn it is; what comes of it.
pub(crate) fn tell<T, F: Future<Output = T>>(seed: u64, story: impl FnOnce(World) -> F) -> T {
    // Shown where the story fails.
    println!("seed {seed}");
    let world = World::new(seed, false);
    world.limit_steps(STEPS_MAX);
    let story = story(world.clone());
    let mut told = None;
    let stopped = world.run(async { told = Some(story.await) });
    assert_eq!(stopped, Stopped::Done, "{:?}", world.tasks());
    // What did not end holds the world.
    world.crash();
    told.expect("the story is done")
}

/// Lets time pass until something is so.
pub(crate) async fn wait_until(world: &World, what: &str, is_so: impl Fn() -> bool) {
    let deadline = world.now() + WAIT_MAX;
    while !is_so() {
        assert!(world.now() < deadline, "{what}: not within {WAIT_MAX:?}");
        world.sleep(Duration::from_millis(5)).await;
    }
}

/// A database that is open.
pub(crate) struct Database {
    pub(crate) instance: Instance,
    table: Arc<Table>,
}

impl Database {
    /// Opens the database of a store; its table is made where it is not there.
    pub(crate) async fn open(
        world: &World,
        store: &Arc<dyn Store>,
        settings: &Settings,
    ) -> Result<Database> {
        let env = Env {
            clock: Arc::new(world.clone()),
            random: Arc::new(world.clone()),
            store: Arc::clone(store),
            spawner: Arc::new(world.clone()),
            planted: Chosen::NONE,
        };
        let instance = Instance::open(env, settings.clone()).await?;
        let columns = vec![
            Column::new("id", DataType::Int64),
            Column::new("value", DataType::Int64),
            Column::new("note", DataType::Utf8),
        ];
        let spec = TableSpec::new("t", columns, &["id"]);
        instance.create_table(spec, true).await?;
        let table = instance.table("t")?;
        Ok(Database { instance, table })
    }

    /// Rows as the table stores them; a note makes each some hundred bytes long.
    fn stored(&self, rows: &[(i64, i64)]) -> RecordBatch {
        let schema = RowLayout::primary(&self.table).unwrap().schema;
        let (ids, values): (Vec<i64>, Vec<i64>) = rows.iter().copied().unzip();
        let note = "note ".repeat(24);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids)),
            Arc::new(Int64Array::from(values)),
            Arc::new(StringArray::from(vec![note.as_str(); rows.len()])),
        ];
        RecordBatch::try_new(schema, columns).unwrap()
    }

    /// Commits whole rows as one batch.
    pub(crate) async fn commit(&self, rows: &[(i64, i64)]) -> Result<Horizon> {
        let changes = ChangeBatch::upserts(self.stored(rows), 0);
        let mut writer = self.instance.begin(None);
        writer.append(&self.table, changes).await?;
        let done = writer.commit().await?;
        Ok(done.token.horizon)
    }

    pub(crate) async fn snapshot(&self, freshness: Freshness) -> Snapshot {
        let request = SnapshotRequest {
            freshness,
            ..SnapshotRequest::default()
        };
        self.instance.snapshot(request).await.unwrap()
    }

    /// All rows.
    pub(crate) async fn scan(&self, snapshot: &Snapshot) -> Held {
        let request = ScanRequest {
            table: self.table.id,
            projection: vec![0, 1],
            range: Default::default(),
            buffered: Vec::new(),
            batch_rows: 100,
            parts: 2,
        };
        let plan = snapshot.plan_scan(request).await.unwrap();
        let mut held = Held::new();
        for part in &plan.parts {
            let batches: Vec<RecordBatch> = part.stream().try_collect().await.unwrap();
            for batch in &batches {
                let ids = batch.column(0).as_primitive::<Int64Type>();
                let values = batch.column(1).as_primitive::<Int64Type>();
                for (id, value) in ids.values().iter().zip(values.values().iter()) {
                    let before = held.insert(*id, *value);
                    assert_eq!(before, None, "row {id} came twice");
                }
            }
        }
        held
    }

    /// The value of a key.
    pub(crate) async fn get(&self, snapshot: &Snapshot, id: i64) -> Option<i64> {
        let codec = KeyCodec::primary(&self.table).unwrap();
        let keys = codec.encode(&self.stored(&[(id, 0)])).unwrap();
        let key = Key::new(keys.row(0).data());
        let keys = [key];
        let found = snapshot.get(self.table.id, &keys, &[1], &[]).await.unwrap();
        let values = found.column(0).as_primitive::<Int64Type>();
        values.values().first().copied()
    }

    /// Waits until all is in the authority.
    pub(crate) async fn settle(&self) {
        let progress = |_: f64| {};
        let settled = self.instance.settle(None, SettleTo::Authority, &progress);
        settled.await.unwrap();
    }

    /// Closes a database of which every file is whole.
    pub(crate) async fn close_whole(&self) {
        let report = self.instance.verify(&|_| {}).await.unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        self.instance.close().await.unwrap();
    }
}

/// The batches that were acknowledged, by where they stand.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged(BTreeMap<Horizon, Rows>);

impl Acknowledged {
    pub(crate) fn add(&mut self, horizon: Horizon, rows: Rows) {
        let before = self.0.insert(horizon, rows);
        assert_eq!(before, None, "another batch stands at {horizon}, too");
    }

    /// Where the newest one stands.
    pub(crate) fn newest(&self) -> Horizon {
        let newest = self.0.last_key_value();
        newest.map_or(Horizon::ZERO, |(horizon, _)| *horizon)
    }

    /// What the table holds at a horizon.
    pub(crate) fn at(&self, horizon: Horizon) -> Held {
        let mut held = Held::new();
        for rows in self.0.range(..=horizon).map(|(_, rows)| rows) {
            held.extend(rows.iter().copied());
        }
        held
    }

    /// What the newest answer and the cheapest one must say, by a scan and by the keys `ids`.
    pub(crate) async fn check(&self, database: &Database, ids: &[i64]) {
        let newest = database.snapshot(Freshness::ZERO).await;
        assert!(newest.horizon() >= self.newest(), "{}", newest.stamp());
        let held = self.at(newest.horizon());
        assert_eq!(database.scan(&newest).await, held);
        for id in ids {
            let found = database.get(&newest, *id).await;
            assert_eq!(found, held.get(id).copied(), "row {id}");
        }
        let cheapest = database.snapshot(Freshness::BestEffort).await;
        let held = self.at(cheapest.horizon());
        assert_eq!(database.scan(&cheapest).await, held);
    }
}
