//! A database over a store of the test's choice, and rows as plain values.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use futures::TryStreamExt;
use futures::executor::block_on;
use lazybase_cluster::{
    Acknowledgement, AsOf, Instance, Settings, SnapshotRequest, StageName, TableSpec,
};
use lazybase_engine::change_batch::{ChangeBatch, Kinds, Scus};
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_engine::env::{Env, Store};
use lazybase_engine::manifest::Ddl;
use lazybase_engine::read::{ScanRequest, Snapshot};
use lazybase_model::change::StoredKind;
use lazybase_model::{Column, Freshness, Horizon, Result, ScuNumber, Table, TableId};

/// A row of the test's table: key, and two values.
pub(crate) type Row = (i64, Option<i64>, Option<String>);

/// A change to a row of the test's table.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Upsert(Row),
    Delete(i64),
    /// Sets the first value of a row that is there.
    Update(i64, Option<i64>),
    /// Sets the first value; makes the row if it is not there.
    UpsertValue(i64, Option<i64>),
    InsertIfAbsent(Row),
}

/// Settings under which nothing happens by itself soon, and little memory makes many parts.
pub(crate) fn settings() -> Settings {
    Settings {
        seal_age: Duration::from_secs(3600),
        retention: Duration::ZERO,
        sort_memory: 4 << 10,
        cache_bytes: 4 << 20,
        ..Settings::default()
    }
}

/// The same, but the past is kept.
pub(crate) fn keeping() -> Settings {
    Settings {
        retention: Duration::from_secs(3600),
        ..settings()
    }
}

pub(crate) fn open(store: Arc<dyn Store>, settings: Settings) -> Result<Instance> {
    block_on(Instance::open(Env::system(store), settings))
}

/// The test's table; without a key its rows get the hidden one.
pub(crate) fn spec(name: &str, key: &[&str]) -> TableSpec {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("count", DataType::Int64),
        Column::new("note", DataType::Utf8),
    ];
    TableSpec::new(name, columns, key)
}

pub(crate) fn create(instance: &Instance, name: &str) -> Arc<Table> {
    let created = block_on(instance.create_table(spec(name, &["id"]), false));
    created
        .expect("the table is created")
        .expect("it was not there before")
}

/// One batch of changes in the stored form.
pub(crate) fn changes(table: &Table, changes: &[Change]) -> ChangeBatch {
    let mut ids = Vec::new();
    let mut counts = Vec::new();
    let mut notes: Vec<Option<String>> = Vec::new();
    let mut kinds = Vec::new();
    let mut masks: Vec<Option<Vec<u8>>> = Vec::new();
    for change in changes {
        let (id, count, note, kind, mask) = match change.clone() {
            Change::Upsert((id, count, note)) => (id, count, note, StoredKind::UPSERT, None),
            Change::Delete(id) => (id, None, None, StoredKind::DELETE, None),
            Change::Update(id, count) => (id, count, None, StoredKind::UPDATE, Some(vec![0b10])),
            Change::UpsertValue(id, count) => (id, count, None, StoredKind::BOTH, Some(vec![0b10])),
            Change::InsertIfAbsent((id, count, note)) => {
                (id, count, note, StoredKind::BOTH, Some(vec![0]))
            }
        };
        ids.push(id);
        counts.push(count);
        notes.push(note);
        kinds.push(kind.bits());
        masks.push(mask);
    }
    let schema = lazybase_engine::segment::RowLayout::primary(&Arc::new(table.clone()))
        .expect("the table has a layout")
        .schema;
    let data = RecordBatch::try_new(
        schema,
        vec![
            Arc::new(Int64Array::from(ids)),
            Arc::new(Int64Array::from(counts)),
            Arc::new(StringArray::from(notes)),
        ],
    );
    let masked = masks.iter().any(Option::is_some);
    ChangeBatch {
        data: data.expect("columns follow the schema"),
        kinds: Kinds::Each(kinds.into()),
        masks: masked.then(|| masks.iter().map(Option::as_deref).collect()),
        scus: Scus::Uniform(0),
        column_scus: None,
    }
}

pub(crate) fn commit(instance: &Instance, parts: &[(&Arc<Table>, &[Change])]) -> Result<Horizon> {
    block_on(async {
        let mut writer = instance.begin(None);
        for (table, part) in parts {
            writer.append(table, changes(table, part)).await?;
        }
        writer.commit().await.map(|done| done.token.horizon)
    })
}

/// One transaction of DDL and rows.
pub(crate) fn commit_with(
    instance: &Instance,
    ddl: Vec<Ddl>,
    parts: &[(&Arc<Table>, &[Change])],
) -> Result<Option<Acknowledgement>> {
    block_on(async {
        let mut writer = instance.begin(None);
        for (table, part) in parts {
            writer.append(table, changes(table, part)).await?;
        }
        instance.commit(ddl, Some(writer)).await
    })
}

pub(crate) fn fresh(instance: &Instance, freshness: Freshness) -> Snapshot {
    let request = SnapshotRequest {
        freshness,
        ..SnapshotRequest::default()
    };
    block_on(instance.snapshot(request)).expect("a snapshot")
}

pub(crate) fn at(instance: &Instance, scu: ScuNumber) -> Result<Snapshot> {
    let request = SnapshotRequest {
        at: Some(AsOf::Scu(scu)),
        ..SnapshotRequest::default()
    };
    block_on(instance.snapshot(request))
}

/// The columns `projection` of a table, in key order, scanned in parts.
pub(crate) fn batches(
    snapshot: &Snapshot,
    table: TableId,
    projection: Vec<usize>,
) -> Result<Vec<RecordBatch>> {
    block_on(async {
        let plan = snapshot
            .plan_scan(ScanRequest {
                table,
                projection,
                range: Default::default(),
                buffered: Vec::new(),
                batch_rows: 20,
                parts: 3,
            })
            .await?;
        let mut batches: Vec<RecordBatch> = Vec::new();
        for part in &plan.parts {
            let of_part: Vec<RecordBatch> = part.stream().try_collect().await?;
            batches.extend(of_part);
        }
        if let Some(exact) = plan.exact_rows {
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(exact, rows as u64, "an exact count is exact");
        }
        Ok(batches)
    })
}

/// All rows of a table, in key order.
pub(crate) fn scan(snapshot: &Snapshot, table: &Table) -> Result<Vec<Row>> {
    let batches = batches(snapshot, table.id, vec![0, 1, 2])?;
    Ok(batches.iter().flat_map(rows_of).collect())
}

/// Pauses these stages, and lets all others run.
pub(crate) fn pause(instance: &Instance, stages: &[StageName]) {
    for stage in StageName::ALL {
        let done = match stages.contains(&stage) {
            true => block_on(instance.pause(stage)),
            false => block_on(instance.resume(stage)),
        };
        done.unwrap();
    }
}

/// Closes a database in which nothing is damaged and every invariant holds.
pub(crate) fn close_whole(instance: &Instance) {
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    block_on(instance.close()).unwrap();
}

/// What a power cut can leave of a store, after each operation from `begun` on: the number of
/// operations before it, and the store.
pub(crate) fn crash_images(
    store: &MemoryStore,
    begun: usize,
) -> impl Iterator<Item = (usize, Arc<MemoryStore>)> {
    (begun..=store.operations()).flat_map(|cut| {
        [
            Unsynced::Nothing,
            Unsynced::Everything,
            Unsynced::Scattered(cut as u64),
        ]
        .map(|unsynced| (cut, Arc::new(store.crash_image(cut, unsynced))))
    })
}

pub(crate) fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let ids = batch.column(0).as_primitive::<Int64Type>();
    let counts = batch.column(1).as_primitive::<Int64Type>();
    let notes = batch.column(2).as_string::<i32>();
    (0..batch.num_rows())
        .map(|row| {
            let count = counts.is_valid(row).then(|| counts.value(row));
            let note = notes.is_valid(row).then(|| notes.value(row).to_owned());
            (ids.value(row), count, note)
        })
        .collect()
}
