//! Damage where it is met late: by merges, in secondary views, in logs of what was not sorted when
//! the database was closed, and in what housekeeping reads.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use futures::{StreamExt, TryStreamExt, stream};
use lazybase_cluster::{
    DamageState, Instance, Outcome, PartitionSpec, Settings, SettleTo, SnapshotRequest, StageName,
    TableSpec, ViewSpec, range_bounds,
};
use lazybase_engine::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::env::{Env, Store};
use lazybase_engine::manifest::file::{FileKind, encode_checkpoint};
use lazybase_engine::manifest::history::TimesTail;
use lazybase_engine::manifest::{Ddl, RunKind, ScuTime};
use lazybase_engine::read::{ScanRequest, Snapshot};
use lazybase_model::partition::PartitionChange;
use lazybase_model::{Freshness, Result, ScuNumber, Table};

use crate::damage::{Harm, files, wait_for};
use crate::hang::{partition, repartition};
use crate::harness::{
    Change, Row, at, commit, create, fresh, keeping, open, pause, scan, settings, spec,
};
use crate::model::Model;
use crate::world::{World, uncached};

/// Nothing is cached, and logs are short.
fn short_logs() -> Settings {
    Settings {
        log_file_bytes: 4096,
        ..uncached(keeping())
    }
}

pub(crate) fn batch(round: i64) -> Vec<Change> {
    (0..40)
        .map(|at| (at * 7 + round * 3) % 60)
        .map(|id| match (round + id) % 4 {
            0 => Change::Delete(id),
            1 => Change::Update(id, Some(round)),
            2 => Change::UpsertValue(id, Some(round * 2)),
            _ => Change::Upsert((id, Some(round), Some(format!("round {round}")))),
        })
        .collect()
}

/// The current runs of a table or view that are of a kind.
pub(crate) fn files_of(instance: &Instance, table: &Table, kind: RunKind) -> Vec<String> {
    let manifest = instance.manifest();
    let current = manifest.current_runs();
    let of_table = manifest.runs.values().filter(|run| {
        run.view == table.primary.id && run.kind == kind && current.contains(&run.id)
    });
    let segments = of_table.flat_map(|run| &run.segments);
    segments.map(|segment| segment.file.clone()).collect()
}

fn wait_until_healed(instance: &Instance) {
    wait_for(instance, "healing", |instance| {
        let damage = instance.status().damage;
        let mut states = damage.values().map(|damage| damage.state);
        !damage.is_empty() && states.all(|state| state == DamageState::Healed)
    });
}

#[test]
fn a_merge_that_meets_damage_goes_on_when_its_input_was_made_again() {
    for harm in [
        Harm::Flip { tenths: 4 },
        Harm::Flip { tenths: 9 },
        Harm::Delete,
    ] {
        let world = World::new();
        let instance = world.open(short_logs());
        let (table, other) = (create(&instance, "t"), create(&instance, "u"));
        let mut model = Model::default();
        pause(&instance, &[StageName::Merge, StageName::Authority]);
        for round in 0..4 {
            commit(
                &instance,
                &[(&table, &batch(round)), (&other, &batch(round))],
            )
            .unwrap();
            model.apply(&batch(round));
            block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
        }
        let sorted = files_of(&instance, &table, RunKind::Sorted);
        assert!(sorted.len() > 2, "{sorted:?}");
        world.harm(&sorted[1], harm);
        pause(&instance, &[]);
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        for table in [&table, &other] {
            let rows = scan(&fresh(&instance, Freshness::BestEffort), table).unwrap();
            assert_eq!(rows, model.rows(), "{harm:?}");
        }
        wait_until_healed(&instance);
        // The authority is made again from what it was made of, now found by the next merge.
        let base = files_of(&instance, &table, RunKind::Base);
        world.harm(&base[0], harm);
        commit(&instance, &[(&table, &batch(9))]).unwrap();
        model.apply(&batch(9));
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
        assert_eq!(rows, model.rows(), "{harm:?}");
        let report = block_on(instance.verify(&|_| {})).unwrap();
        assert!(report.is_whole(), "{report:?}");
        block_on(instance.close()).unwrap();
    }
}

/// A base whose rows earlier runs hold too, found damaged while nothing can be made again; closed.
fn leave_unhealed(world: &World, harm: Harm) -> (Arc<Table>, Model) {
    let instance = world.open(short_logs());
    let table = create(&instance, "t");
    let mut model = Model::default();
    for round in 0..4 {
        commit(&instance, &[(&table, &batch(round))]).unwrap();
        model.apply(&batch(round));
        block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    }
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let base = files_of(&instance, &table, RunKind::Base);
    world.harm(&base[0], harm);
    world.refuse_to_make("segments/");
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows(), "{harm:?}");
    wait_for(&instance, "the mark", |_| world.is_marked());
    block_on(instance.close()).unwrap();
    (table, model)
}

/// Opened with a retention that is over: what nothing is to be made of goes at once.
fn open_forgetting(world: &World) -> Instance {
    world.open(uncached(settings()))
}

#[test]
fn what_a_damaged_run_is_made_of_is_kept_until_then_also_by_the_next_process() {
    let world = World::new();
    let (table, model) = leave_unhealed(&world, Harm::Delete);
    let instance = open_forgetting(&world);
    // Longer than housekeeping rests.
    block_on(instance.env().clock.sleep(Duration::from_millis(1500)));
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    world.faults.clear();
    wait_for(&instance, "the mark to go", |_| !world.is_marked());
    wait_for(&instance, "earlier forms to be retired", |instance| {
        instance.manifest().runs.len() == 1
    });
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(report.is_whole(), "{report:?}");
    block_on(instance.close()).unwrap();
}

#[test]
fn what_a_damaged_run_is_made_of_is_kept_while_the_disk_refuses_to_read_it() {
    let world = World::new();
    let (table, model) = leave_unhealed(&world, Harm::Delete);
    let instance = open_forgetting(&world);
    // No log but the first one is kept, which the damaged run begins with.
    wait_for(&instance, "the other logs to be retired", |instance| {
        instance.manifest().scus.len() <= 1
    });
    for operation in [Operation::Read, Operation::Len] {
        let rule = Rule::every(operation, Fault::Refused { full: false });
        world.faults.add(rule.named("segments/"));
    }
    let request = SnapshotRequest {
        freshness: Freshness::ZERO,
        ..SnapshotRequest::default()
    };
    let found = block_on(instance.snapshot(request)).and_then(|held| scan(&held, &table));
    let error = found.unwrap_err();
    assert!(error.damaged_file().is_some(), "{error}");
    wait_for(&instance, "nothing to be left", |instance| {
        let damage = instance.status().damage;
        let mut needed = damage.values().filter(|damage| damage.table.is_some());
        needed.any(|damage| damage.state == DamageState::Lost)
    });
    // Longer than housekeeping rests.
    block_on(instance.env().clock.sleep(Duration::from_millis(1500)));
    world.faults.clear();
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(report.is_whole(), "{report:?}");
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    block_on(instance.close()).unwrap();
}

/// What a disk refuses to read may be read the next time: it has no mark. Once it is known to be
/// damaged it has one.
#[test]
fn a_file_that_was_refused_and_is_damaged_after_all_is_marked() {
    let world = World::new();
    let disk = Faults::none();
    let store = FaultyStore::over(Arc::clone(&world.store) as _, disk.clone());
    let instance = open(Arc::new(store), uncached(keeping())).unwrap();
    let table = create(&instance, "t");
    let mut model = Model::default();
    for round in 0..4 {
        commit(&instance, &[(&table, &batch(round))]).unwrap();
        model.apply(&batch(round));
        block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    }
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let base = files_of(&instance, &table, RunKind::Base)[0].clone();
    world.refuse_to_make("segments/");
    for operation in [Operation::Read, Operation::Len] {
        let rule = Rule::every(operation, Fault::Refused { full: false });
        disk.add(rule.named(&base));
    }
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    wait_for(&instance, "attempts to make it again", |instance| {
        let damage = instance.status().damage;
        let damage = damage.get(&base);
        damage.is_some_and(|damage| damage.state == DamageState::Healing)
    });
    assert!(!world.is_marked());
    block_on(world.memory.delete(&base)).unwrap();
    disk.clear();
    world.until_marked(&instance, instance.verify(&|_| {}));
    assert!(world.is_marked());
    world.faults.clear();
    wait_until_healed(&instance);
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(report.is_whole(), "{report:?}");
    block_on(instance.close()).unwrap();
}

/// Runs that end where a partition is dropped have copies for it, over the same files.
#[test]
fn a_sort_that_a_dropped_partition_shares_is_made_again_for_both() {
    let world = World::new();
    let settings = Settings {
        sort_memory: 1,
        ..uncached(keeping())
    };
    let instance = world.open(settings);
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let by_id = PartitionSpec {
        hash: Vec::new(),
        range: Some((
            vec!["id".to_owned()],
            vec![partition(0, 10), partition(10, 20)],
        )),
    };
    let of_two = TableSpec {
        partitioning: Some(by_id),
        ..spec("t", &["id"])
    };
    let table = block_on(instance.create_table(of_two, false));
    let table = table.unwrap().unwrap();
    // One SCU in two parts, each with rows of both partitions.
    let row = |id: i64| (id, Some(id), None);
    for id in [1, 2] {
        let rows = [row(id), row(id + 10)].map(Change::Upsert);
        commit(&instance, &[(&table, &rows)]).unwrap();
    }
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    let before = instance.manifest().sorted_through;
    let parts = files_of(&instance, &table, RunKind::Sorted);
    assert_eq!(parts.len(), 2, "{parts:?}");
    let bounds = range_bounds(&table, &partition(10, 20)).unwrap();
    repartition(&instance, &table, PartitionChange::Drop(bounds));
    world.harm(&parts[1], Harm::Delete);
    for _ in 0..2 {
        let newest = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
        assert_eq!(newest, [1, 2].map(row));
        let past = scan(&at(&instance, before).unwrap(), &table).unwrap();
        assert_eq!(past, [1, 2, 11, 12].map(row));
        wait_until_healed(&instance);
    }
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(report.is_whole(), "{report:?}");
    block_on(instance.close()).unwrap();
}

#[test]
fn a_damaged_file_that_was_restored_while_the_database_was_closed_is_as_good_as_any() {
    let world = World::new();
    let (table, model) = leave_unhealed(&world, Harm::Truncate);
    world.faults.clear();
    let instance = open_forgetting(&world);
    wait_for(&instance, "the mark to go", |_| !world.is_marked());
    assert!(instance.status().damage.is_empty());
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    block_on(instance.close()).unwrap();
}

#[test]
fn a_snapshot_that_reads_a_log_for_a_damaged_run_keeps_it_though_the_run_was_made_again() {
    let world = World::new();
    let retention = Duration::from_secs(3);
    let settings = Settings {
        retention,
        ..uncached(settings())
    };
    let instance = world.open(settings);
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let table = create(&instance, "t");
    let mut model = Model::default();
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    model.apply(&batch(0));
    // It keeps the log until that is read for the damaged run, however long that takes.
    let unsorted = fresh(&instance, Freshness::ZERO);
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    let held = fresh(&instance, Freshness::ZERO);
    world.harm(
        &files_of(&instance, &table, RunKind::Sorted)[0],
        Harm::Delete,
    );
    assert_eq!(scan(&held, &table).unwrap(), model.rows());
    drop(unsorted);
    wait_until_healed(&instance);
    // Longer than logs are kept, and than housekeeping rests.
    block_on(
        instance
            .env()
            .clock
            .sleep(retention + Duration::from_millis(1500)),
    );
    assert_eq!(scan(&held, &table).unwrap(), model.rows());
    drop(held);
    wait_for(&instance, "the log to be retired", |instance| {
        instance.manifest().scus.is_empty()
    });
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    block_on(instance.close()).unwrap();
}

/// The view `by_count` of a table, sorted by count and id.
pub(crate) fn create_view(instance: &Instance, table: &Table) -> Arc<Table> {
    let spec = ViewSpec {
        name: "by_count".to_owned(),
        columns: Some(vec!["count".to_owned(), "id".to_owned()]),
        key: vec!["count".to_owned(), "id".to_owned()],
    };
    let view = instance.define_view(table, &spec).unwrap();
    let ddl = Ddl::CreateView {
        view: view.as_ref().clone(),
    };
    block_on(instance.commit(vec![ddl], None)).unwrap();
    view
}

/// A row of the view: count and id.
pub(crate) type Entry = (Option<i64>, i64);

/// What a view shows; nothing where its table must answer.
pub(crate) fn shown(snapshot: &Snapshot, view: &Table) -> Result<Option<Vec<Entry>>> {
    let request = ScanRequest {
        table: view.id,
        projection: vec![1, 0, 0],
        range: Default::default(),
        buffered: Vec::new(),
        batch_rows: 100,
        parts: 1,
    };
    block_on(async {
        let Some(plan) = snapshot.plan_view_scan(&request).await? else {
            return Ok(None);
        };
        let parts = stream::iter(plan.parts).flat_map(|part| part.stream());
        let batches: Vec<_> = parts.try_collect().await?;
        let entry = |batch: &arrow::array::RecordBatch, row: usize| {
            let column = |at: usize| {
                use arrow::array::{Array, AsArray};
                let values = batch
                    .column(at)
                    .as_primitive::<arrow::datatypes::Int64Type>();
                values.is_valid(row).then(|| values.value(row))
            };
            (column(1), column(0).unwrap())
        };
        let rows = batches
            .iter()
            .flat_map(|batch| (0..batch.num_rows()).map(move |row| entry(batch, row)));
        Ok(Some(rows.collect()))
    })
}

pub(crate) fn entries(model: &Model) -> Vec<Entry> {
    let mut entries: Vec<_> = model.rows().into_iter().map(|row| (row.1, row.0)).collect();
    entries.sort();
    entries
}

#[test]
fn a_damaged_view_is_answered_by_its_table_and_built_again() {
    for (closed, harm) in [
        (false, Harm::Flip { tenths: 4 }),
        (true, Harm::Flip { tenths: 8 }),
        (true, Harm::Delete),
    ] {
        let world = World::new();
        let mut instance = world.open(short_logs());
        let table = create(&instance, "t");
        let view = create_view(&instance, &table);
        let mut model = Model::default();
        for round in 0..3 {
            commit(&instance, &[(&table, &batch(round))]).unwrap();
            model.apply(&batch(round));
            block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        }
        let damaged = files_of(&instance, &view, RunKind::Base);
        assert!(!damaged.is_empty());
        if closed {
            block_on(instance.close()).unwrap();
        }
        damaged.iter().for_each(|file| world.harm(file, harm));
        if closed {
            instance = world.open(short_logs());
        }
        let show = |instance: &Instance| shown(&fresh(instance, Freshness::ZERO), &view).unwrap();
        for _ in 0..3 {
            if let Some(shown) = show(&instance) {
                assert_eq!(shown, entries(&model), "{closed} {harm:?}");
            }
        }
        block_on(instance.verify(&|_| {})).unwrap();
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        assert_eq!(show(&instance), Some(entries(&model)), "{closed} {harm:?}");
        // And met by the next merge of the view alone.
        for file in files_of(&instance, &view, RunKind::Base) {
            world.harm(&file, harm);
        }
        commit(&instance, &[(&table, &batch(7))]).unwrap();
        model.apply(&batch(7));
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        assert_eq!(show(&instance), Some(entries(&model)), "{closed} {harm:?}");
        block_on(instance.close()).unwrap();
    }
}

#[test]
fn a_view_whose_table_is_lost_was_not_compared_and_verification_says_why() {
    let world = World::new();
    let instance = world.open(uncached(settings()));
    let table = create(&instance, "t");
    create_view(&instance, &table);
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    wait_for(&instance, "earlier forms to be retired", |instance| {
        let manifest = instance.manifest();
        manifest.runs.len() == 2 && manifest.scus.is_empty()
    });
    let base = files_of(&instance, &table, RunKind::Base);
    world.harm(&base[0], Harm::Delete);
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(!report.problems.is_empty(), "{report:?}");
    let [check] = &report.views[..] else {
        panic!("{report:?}");
    };
    assert!(
        matches!(&check.outcome, Outcome::NotCompared(why) if why.contains(&base[0])),
        "{report:?}"
    );
    block_on(instance.close()).unwrap();
}

#[test]
fn a_view_is_kept_while_its_table_is_lost_and_goes_on_with_the_file_that_is_restored() {
    let world = World::new();
    let instance = world.open(uncached(settings()));
    let table = create(&instance, "t");
    let view = create_view(&instance, &table);
    let mut model = Model::default();
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    model.apply(&batch(0));
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    wait_for(&instance, "earlier forms to be retired", |instance| {
        let manifest = instance.manifest();
        manifest.runs.len() == 2 && manifest.scus.is_empty()
    });
    let entries_before = files_of(&instance, &view, RunKind::Base);
    assert!(!entries_before.is_empty());
    world.harm(
        &files_of(&instance, &table, RunKind::Base)[0],
        Harm::Truncate,
    );
    scan(&fresh(&instance, Freshness::ZERO), &table).unwrap_err();
    wait_for(&instance, "the loss to be known", |instance| {
        let damage = instance.status().damage;
        let mut states = damage.values().map(|damage| damage.state);
        states.any(|state| state == DamageState::Lost)
    });
    commit(&instance, &[(&table, &batch(1))]).unwrap();
    model.apply(&batch(1));
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    // Longer than it takes until an idle database brings its views on.
    block_on(instance.env().clock.sleep(Duration::from_millis(1500)));
    let entries_after = files_of(&instance, &view, RunKind::Base);
    assert_eq!(entries_after, entries_before);
    world.faults.clear();
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(report.is_whole(), "{report:?}");
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert_eq!(shown(&snapshot, &view).unwrap(), Some(entries(&model)));
    assert_eq!(scan(&snapshot, &table).unwrap(), model.rows());
    drop(snapshot);
    block_on(instance.close()).unwrap();
}

/// What a database says of `t` and `u` after the log of an SCU of both was damaged.
fn check_lost(instance: &Instance, lost: (&str, ScuNumber), other: &[Row], context: &str) {
    let (t, u) = (instance.table("t").unwrap(), instance.table("u").unwrap());
    let tables = |table: &Arc<Table>| {
        let request = lazybase_cluster::SnapshotRequest {
            tables: Some(vec![table.id]),
            ..Default::default()
        };
        block_on(instance.snapshot(request)).and_then(|snapshot| scan(&snapshot, table))
    };
    assert_eq!(tables(&u).unwrap(), other, "{context}");
    let error = tables(&t).unwrap_err();
    let (file, scu) = lost;
    let text = error.to_string();
    assert_eq!(error.sqlstate(), "XX001", "{context}: {text}");
    assert!(
        text.contains(file) || text.contains("lost/"),
        "{context}: {text}"
    );
    let named = text.contains(&format!("SCU {scu}")) || text.contains(&format!("SCUs {scu}"));
    assert!(text.contains("\"t\"") && named, "{context}: {text}");
}

#[test]
fn a_log_damaged_before_it_was_sorted_loses_its_tables_by_name_and_blocks_no_other() {
    // The data frame, the commit frame, the whole file.
    for (harm, context) in [(1, "data"), (2, "commit"), (3, "file")] {
        let world = World::new();
        let instance = world.open(short_logs());
        let (t, u) = (create(&instance, "t"), create(&instance, "u"));
        let (mut before, mut all) = (Model::default(), Model::default());
        commit(&instance, &[(&t, &batch(0)), (&u, &batch(0))]).unwrap();
        before.apply(&batch(0));
        all.apply(&batch(0));
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        let kept = instance.manifest().sealed_through;
        pause(&instance, &[StageName::Sort]);
        commit(&instance, &[(&t, &batch(1))]).unwrap();
        let lost = block_on(instance.seal()).unwrap();
        let named = |scu: ScuNumber| {
            wait_for(&instance, "the seal", |instance| {
                instance.manifest().sealed_through >= scu
            });
        };
        named(lost);
        let manifest = instance.manifest();
        let piece = manifest.scus[&lost].log[0].clone();
        let log = piece.file;
        let harm = match harm {
            1 => Harm::FlipByte {
                byte: piece.start - 100,
            },
            2 => Harm::FlipByte {
                byte: piece.start + 90,
            },
            _ => Harm::Delete,
        };
        // More of `t`, until what follows stands in another file.
        let mut rounds = vec![1];
        for round in 10..40 {
            commit(&instance, &[(&t, &batch(round))]).unwrap();
            rounds.push(round);
            let scu = block_on(instance.seal()).unwrap();
            named(scu);
            if !instance.manifest().scus[&scu].files.contains(&log) {
                break;
            }
        }
        commit(&instance, &[(&u, &batch(2))]).unwrap();
        all.apply(&batch(2));
        let next = block_on(instance.seal()).unwrap();
        named(next);
        assert!(!instance.manifest().scus[&next].files.contains(&log));
        block_on(instance.close()).unwrap();
        world.harm(&log, harm);
        for round in [3, 4] {
            let instance = world.open(short_logs());
            check_lost(&instance, (&log, lost), &all.rows(), context);
            commit(&instance, &[(&u, &batch(round)), (&t, &batch(round))]).unwrap();
            all.apply(&batch(round));
            block_on(instance.settle(Some(u.id), SettleTo::Authority, &|_| {})).unwrap();
            check_lost(&instance, (&log, lost), &all.rows(), context);
            let past = scan(&at(&instance, kept).unwrap(), &t).unwrap();
            assert_eq!(past, before.rows(), "{context}");
            let stuck = block_on(instance.settle(Some(t.id), SettleTo::Authority, &|_| {}));
            assert_eq!(stuck.unwrap_err().sqlstate(), "XX001", "{context}");
            block_on(instance.close()).unwrap();
        }
        let instance = world.open(short_logs());
        let report = block_on(instance.verify(&|_| {})).unwrap();
        assert!(!report.is_whole(), "{context}: {report:?}");
        if matches!(harm, Harm::Delete) {
            // Emptied, the table is of use again.
            block_on(instance.truncate_table("t")).unwrap();
            commit(&instance, &[(&t, &batch(0))]).unwrap();
            let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
            assert_eq!(rows, before.rows(), "{context}");
        } else {
            // Restored, the log gives the rows back.
            world.faults.clear();
            let report = block_on(instance.verify(&|_| {})).unwrap();
            assert!(report.is_whole(), "{context}: {report:?}");
            let mut model = before.clone();
            rounds.extend([3, 4]);
            rounds.iter().for_each(|round| model.apply(&batch(*round)));
            let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
            assert_eq!(rows, model.rows(), "{context}");
            block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
            let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
            assert_eq!(rows, model.rows(), "{context}");
        }
        block_on(instance.close()).unwrap();
    }
}

/// Before what an SCU held is given up, its log is opened again as soon as a verification finds it
/// restored.
#[test]
fn a_log_that_could_not_be_opened_is_once_it_is_restored() {
    let world = World::new();
    let instance = world.open(short_logs());
    let t = create(&instance, "t");
    pause(&instance, &[StageName::Sort]);
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    commit(&instance, &[(&t, &batch(1))]).unwrap();
    let scu = block_on(instance.seal()).unwrap();
    wait_for(&instance, "the seal", |instance| {
        instance.manifest().sealed_through >= scu
    });
    let piece = instance.manifest().scus[&scu].log[0].clone();
    block_on(instance.close()).unwrap();
    let byte = piece.start + 90;
    world.harm(&piece.file, Harm::FlipByte { byte });
    let instance = world.open(short_logs());
    pause(&instance, &[StageName::Sort]);
    let lost = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap_err();
    assert_eq!(lost.sqlstate(), "XX001", "{lost}");
    assert!(instance.manifest().sorted_through < scu);
    world.faults.clear();
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(report.is_whole(), "{report:?}");
    let mut model = Model::default();
    for round in [0, 1] {
        model.apply(&batch(round));
    }
    let rows = || scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows(), model.rows());
    pause(&instance, &[]);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    assert_eq!(rows(), model.rows());
    block_on(instance.close()).unwrap();
}

/// SCUs whose times stand in one file.
const IN_A_FILE: u64 = 1024;
/// As many files as the next one joins.
const FILES: u64 = 15;

#[test]
fn housekeeping_that_meets_damaged_old_times_keeps_the_rest_and_goes_on() {
    let world = World::new();
    let instance = world.open(short_logs());
    block_on(instance.close()).unwrap();
    let env = Env::system(Arc::clone(&world.store) as Arc<dyn Store>);
    let manifest = block_on(lazybase_engine::manifest::ManifestStore::open_read_only(
        &env,
    ));
    let mut manifest = manifest.unwrap().current().as_ref().clone();
    let scus = |at: u64| (1 + at * IN_A_FILE, (at + 1) * IN_A_FILE);
    let tail = |at: u64| {
        let (first, last) = scus(at);
        let millis: Vec<i64> = (first..=last).map(|scu| 1_000_000 + scu as i64).collect();
        TimesTail::of(ScuNumber(first), &millis).unwrap()
    };
    for number in 0..FILES {
        let (file, bytes) = tail(number)
            .into_file(format!("segments/{number:032x}.times"))
            .unwrap();
        block_on(world.store.put_if_absent(&file.file, bytes.into())).unwrap();
        manifest.history.files.push(file);
    }
    manifest.history.tail = Some(tail(FILES));
    let newest = ScuNumber(scus(FILES).1 + 1);
    manifest.number += 1;
    manifest.sealed_through = newest;
    manifest.sorted_through = newest;
    let time = ScuTime {
        first_ack_micros: 2_000_000_000,
        last_ack_micros: 2_000_000_000,
        batches_through: newest.0,
    };
    manifest.times.insert(newest, time);
    let name = FileKind::Checkpoint.file_name(manifest.number);
    let bytes = encode_checkpoint(7, &manifest).unwrap();
    block_on(world.store.put_if_absent(&name, bytes)).unwrap();
    let damaged = manifest.history.files[4].file.clone();
    world.harm(&damaged, Harm::Flip { tenths: 7 });
    let loose = "segments/00000000000000000000000000000bad.ext";
    block_on(world.store.put_if_absent(loose, vec![1].into())).unwrap();

    let settings = Settings {
        retention: Duration::ZERO,
        ..settings()
    };
    let instance = world.open(settings);
    wait_for(&instance, "the tail to be archived", |instance| {
        instance.manifest().history.tail.is_none()
    });
    let history = instance.manifest().history.clone();
    // The files before stay as they are: nothing that can be read is given up with the damaged one.
    assert_eq!(history.files.len() as u64, FILES + 1);
    assert_eq!(history.files[..FILES as usize], manifest.history.files[..]);
    assert_eq!(history.files.last().unwrap().last, ScuNumber(scus(FILES).1));
    let troubles = instance.status().troubles;
    assert!(
        troubles
            .iter()
            .any(|trouble| trouble.message.contains(&damaged)),
        "{troubles:?}"
    );
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(report.problems[0].contains(&damaged), "{report:?}");
    // A backup is made without the file, and says so; what is restored is as the database is.
    let target = MemoryStore::without_history();
    let env = Env::system(Arc::new(target.clone()) as Arc<dyn Store>);
    let taken = block_on(instance.backup(&env, &|_| {})).unwrap();
    assert!(
        taken.notes.iter().any(|note| note.contains(&damaged)),
        "{taken:?}"
    );
    let restored = Env::system(Arc::new(MemoryStore::without_history()) as Arc<dyn Store>);
    let request = lazybase_cluster::RestoreRequest::default();
    let done = lazybase_cluster::restore(&target, &restored, request, &|_| {});
    assert_eq!(
        block_on(done).unwrap().absent,
        std::slice::from_ref(&damaged)
    );
    let copy = open(Arc::clone(&restored.store), keeping()).unwrap();
    assert_eq!(copy.manifest().history, instance.manifest().history);
    block_on(copy.close()).unwrap();
    // And the housekeeping goes on: writes and merges do not wait for it.
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &batch(1))]).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    assert!(
        files(&world.memory, "segments/")
            .iter()
            .any(|file| file != loose)
    );
    block_on(instance.close()).unwrap();
}
