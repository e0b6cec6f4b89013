//! A database's ingest in a world of its own, and batches whose rows tell what they are.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt8Array};
use arrow::datatypes::{DataType, Int64Type};
use lazybase_model::change::StoredKind;
use lazybase_model::table::{Column, HIDDEN_KEY_COLUMN, Table};
use lazybase_model::{DatabaseId, Result, SchemaVersion, ScuNumber, TableId, ViewId};
use tokio::sync::mpsc;

use crate::change_batch::{ChangeBatch, Kinds, Scus};
use crate::env::Env;
use crate::env::inline::InlineSpawner;
use crate::env::manual::TestEnv;
use crate::env::memory::MemoryStore;
use crate::manifest::state::Manifest;
use crate::stages::ingest::{
    Acknowledgement, BatchNumber, BatchWriter, CoordinatorClock, Hold, Ingest, IngestOptions,
    Prepared, Sealed, TableVersions, UnsortedScu, open_log,
};

/// Settings that make everything happen with few bytes.
pub(crate) fn small() -> IngestOptions {
    IngestOptions {
        log_file_bytes: 8 << 10,
        frame_bytes_max: 2 << 10,
        seal_bytes: 24 << 10,
        ..IngestOptions::default()
    }
}

/// (id BIGINT PRIMARY KEY, name TEXT).
pub(crate) fn keyed(id: u32) -> Arc<Table> {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("name", DataType::Utf8),
    ];
    Arc::new(table(id, format!("keyed{id}"), columns, 0))
}

/// (name TEXT), without a key.
pub(crate) fn keyless(id: u32) -> Arc<Table> {
    let columns = vec![
        Column::new("name", DataType::Utf8),
        Column::new(HIDDEN_KEY_COLUMN, DataType::FixedSizeBinary(16)),
    ];
    Arc::new(Table {
        hidden_key: true,
        ..table(id, format!("keyless{id}"), columns, 1)
    })
}

fn table(id: u32, name: String, columns: Vec<Column>, key: usize) -> Table {
    Table {
        version: SchemaVersion(1),
        ..Table::new(TableId(id), ViewId(id), name, columns, &[key])
    }
}

/// Upserts of these ids into a keyed table; the name says the id, `bytes` long.
pub(crate) fn upserts(ids: impl IntoIterator<Item = i64>, bytes: usize) -> ChangeBatch {
    let ids: Vec<i64> = ids.into_iter().collect();
    let names = ids.iter().map(|id| format!("{id:0>bytes$}"));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let ids: ArrayRef = Arc::new(Int64Array::from(ids));
    let columns = vec![("id", ids), ("name", names)];
    ChangeBatch::upserts(RecordBatch::try_from_iter(columns).unwrap(), 0)
}

/// A delete between two upserts, so that kinds are stored row by row.
pub(crate) fn mixed(first: i64) -> ChangeBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![first, first + 1, first + 2]));
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
    let data = RecordBatch::try_from_iter(vec![("id", ids), ("name", names)]).unwrap();
    let kinds = [StoredKind::UPSERT, StoredKind::DELETE, StoredKind::UPSERT];
    ChangeBatch {
        data,
        kinds: Kinds::Each(UInt8Array::from_iter_values(kinds.map(StoredKind::bits))),
        masks: None,
        scus: Scus::Uniform(0),
        column_scus: None,
    }
}

/// Names into a keyless table.
pub(crate) fn names(names: &[&str]) -> ChangeBatch {
    let names: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
    ChangeBatch::upserts(
        RecordBatch::try_from_iter(vec![("name", names)]).unwrap(),
        0,
    )
}

/// The ids of a keyed table's changes, in order.
pub(crate) fn ids_of(changes: &[ChangeBatch]) -> Vec<i64> {
    let column = |changes: &ChangeBatch| {
        let ids = changes.data.column(0).as_primitive::<Int64Type>();
        ids.values().to_vec()
    };
    changes.iter().flat_map(column).collect()
}

/// A manifest without SCUs.
pub(crate) fn no_manifest() -> Manifest {
    let database = DatabaseId {
        database: 1,
        history: 1,
    };
    Manifest {
        epoch: 1,
        ..Manifest::created(database, 0)
    }
}

/// The manifest after the Seal edit of an SCU.
pub(crate) fn seal_in(manifest: &mut Manifest, sealed: &Sealed) {
    let scu = sealed.entry.scu;
    assert_eq!(scu, manifest.sealed_through.next());
    manifest.sealed_through = scu;
    manifest.scus.insert(scu, Arc::new(sealed.entry.clone()));
    manifest.times.insert(scu, sealed.time);
    manifest.producers.extend(sealed.producers.clone());
}

/// Ingest over a store, with actors that run when the test lets them.
pub(crate) struct World {
    pub(crate) test: TestEnv,
    pub(crate) env: Env,
    pub(crate) spawner: InlineSpawner,
    pub(crate) ingest: Ingest,
    pub(crate) sealed: mpsc::UnboundedReceiver<Sealed>,
    /// SCUs that recovery found.
    pub(crate) recovered: Vec<Sealed>,
}

impl World {
    /// Ingest over an empty store.
    pub(crate) fn new(options: IngestOptions) -> World {
        World::open(Env::test(1), &no_manifest(), options).unwrap()
    }

    /// Ingest over what a store holds; the tables are `keyed(1)`, `keyed(2)` and `keyless(3)`.
    pub(crate) fn open(
        test: TestEnv,
        manifest: &Manifest,
        options: IngestOptions,
    ) -> Result<World> {
        let env = test.env.clone();
        World::open_env(test, env, manifest, options)
    }

    pub(crate) fn open_env(
        test: TestEnv,
        env: Env,
        manifest: &Manifest,
        options: IngestOptions,
    ) -> Result<World> {
        let spawner = InlineSpawner::new();
        let env = Env {
            spawner: Arc::new(spawner.clone()),
            ..env
        };
        let (sender, sealed) = mpsc::unbounded_channel();
        let tables = TableVersions::new([&*keyed(1), &*keyed(2), &*keyless(3)]);
        let clock = CoordinatorClock::start(Arc::clone(&env.clock), 0);
        let opened: Result<_> = {
            let (env, manifest) = (env.clone(), manifest.clone());
            spawner.run_until(async move {
                let (recovered, opening) = open_log(&env, &manifest).await?;
                let tables = Arc::new(tables);
                let ingest = Ingest::open(env, clock, options, tables, opening, sender).await;
                Ok((recovered, ingest))
            })
        };
        let (recovered, ingest) = opened?;
        Ok(World {
            test,
            env,
            spawner,
            ingest,
            sealed,
            recovered,
        })
    }

    /// The same store after the process died and the machine went on.
    pub(crate) fn reopen(self, manifest: &Manifest) -> Result<World> {
        let World { test, spawner, .. } = self;
        drop(spawner);
        World::open(test, manifest, small())
    }

    pub(crate) fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> T {
        self.spawner.run_until(task)
    }

    /// A batch with these changes, not committed.
    pub(crate) fn write(&self, changes: Vec<(Arc<Table>, ChangeBatch)>) -> Result<BatchWriter> {
        self.write_as(None, changes)
    }

    pub(crate) fn write_as(
        &self,
        number: Option<BatchNumber>,
        changes: Vec<(Arc<Table>, ChangeBatch)>,
    ) -> Result<BatchWriter> {
        let ingest = self.ingest.clone();
        self.run(async move {
            let mut batch = ingest.begin(number);
            for (table, changes) in changes {
                batch.append(&table, changes).await?;
            }
            Ok(batch)
        })
    }

    pub(crate) fn commit(&self, batch: BatchWriter) -> Result<Acknowledgement> {
        self.run(batch.commit())
    }

    /// Commits all of these in one group.
    pub(crate) fn commit_all(&self, batches: Vec<BatchWriter>) -> Vec<Result<Acknowledgement>> {
        let commits = batches.into_iter().map(BatchWriter::commit);
        self.run(futures::future::join_all(commits))
    }

    pub(crate) fn hold(&self) -> Hold {
        let ingest = self.ingest.clone();
        self.run(async move { ingest.seal_and_hold("a test".to_owned()).await })
            .unwrap()
    }

    /// Makes a batch durable under a number, for the tables that there are.
    pub(crate) fn prepare(
        &self,
        hold: Hold,
        mut batch: BatchWriter,
        number: u64,
    ) -> (Hold, Result<Prepared>) {
        let ingest = self.ingest.clone();
        self.run(async move {
            let tables = TableVersions::new([&*keyed(1), &*keyed(2), &*keyless(3)]);
            let prepared = match batch.write_ahead().await {
                Ok(()) => ingest.prepare(&hold, batch, number, Arc::new(tables)).await,
                Err(error) => Err(error),
            };
            (hold, prepared)
        })
    }

    /// One batch of upserts into `keyed(1)`.
    pub(crate) fn upload(
        &self,
        ids: impl IntoIterator<Item = i64>,
        bytes: usize,
    ) -> Result<Acknowledgement> {
        self.commit(self.write(vec![(keyed(1), upserts(ids, bytes))])?)
    }

    pub(crate) fn seal(&self) -> ScuNumber {
        let ingest = self.ingest.clone();
        self.run(async move { ingest.seal().await }).unwrap()
    }

    /// What the SCUs that are not forgotten hold of a table.
    pub(crate) fn read(&self, table: &Arc<Table>) -> Vec<ChangeBatch> {
        let scus: Vec<Arc<UnsortedScu>> = self.ingest.unsorted().to_vec();
        scus.iter()
            .flat_map(|scu| read_scu(&self.env, scu, table).unwrap())
            .collect()
    }

    pub(crate) fn ids(&self) -> Vec<i64> {
        ids_of(&self.read(&keyed(1)))
    }
}

/// All acknowledged changes of a table in an SCU.
pub(crate) fn read_scu(env: &Env, scu: &UnsortedScu, table: &Table) -> Result<Vec<ChangeBatch>> {
    futures::executor::block_on(scu.read_table(&*env.store, table, u32::MAX))
}

/// The store that a test world has.
pub(crate) fn store_of(world: &World) -> &MemoryStore {
    &world.test.store
}
