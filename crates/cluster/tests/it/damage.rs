//! Every file of a database damaged in every way: answers stay right or name the file, what an
//! earlier stage holds is made again, what nothing holds is lost by name, and nothing else is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use futures::executor::block_on;
use lazybase_cluster::{DamageState, Instance, Settings, SettleTo, StageName};
use lazybase_engine::env::Store;
use lazybase_engine::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_engine::manifest::RunKind;
use lazybase_engine::manifest::file::FileKind;
use lazybase_engine::read::ScanRequest;
use lazybase_model::{Error, ErrorKind, Freshness, Result, ScuNumber, Table};

use crate::harness::{
    Change, Row, at, changes, commit, create, fresh, open, rows_of, scan, settings,
};
use crate::model::Model;
use crate::world::{World, uncached};

/// What happens to a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Harm {
    /// A bit, at so many tenths of the file.
    Flip {
        tenths: u64,
    },
    /// A bit near the file's beginning, where a log holds its frames.
    FlipByte {
        byte: u64,
    },
    Truncate,
    Delete,
}

const HARMS: [Harm; 6] = [
    Harm::Flip { tenths: 0 },
    Harm::Flip { tenths: 3 },
    Harm::Flip { tenths: 6 },
    Harm::Flip { tenths: 9 },
    Harm::Truncate,
    Harm::Delete,
];

const LOG_HARMS: [Harm; 7] = [
    Harm::FlipByte { byte: 10 },
    Harm::FlipByte { byte: 70 },
    Harm::FlipByte { byte: 150 },
    Harm::FlipByte { byte: 900 },
    Harm::FlipByte { byte: 7000 },
    Harm::Truncate,
    Harm::Delete,
];

/// All of them, where time does not matter; else two.
fn some_of(harms: &[Harm], number: usize) -> Vec<Harm> {
    let all = std::env::var("LAZYBASE_EVERY_CASE").is_ok();
    let chosen = |at: &usize| all || (at + number).is_multiple_of(3);
    let places = (0..harms.len()).filter(chosen);
    places.map(|at| harms[at]).collect()
}

/// A closed database, and what each of its SCUs left in the table `t`.
struct Story {
    store: MemoryStore,
    newest: Model,
    models: BTreeMap<ScuNumber, Model>,
}

fn keeping(retention: Duration) -> Settings {
    Settings {
        retention,
        sort_memory: 1_000,
        ..settings()
    }
}

fn batch(round: i64) -> Vec<Change> {
    (0..40)
        .map(|at| (at * 7 + round * 3) % 60)
        .map(|id| match (round + id) % 5 {
            0 => Change::Delete(id),
            1 => Change::Update(id, Some(round)),
            2 => Change::UpsertValue(id, Some(round * 2)),
            3 => Change::InsertIfAbsent((id, Some(-round), None)),
            _ => Change::Upsert((id, Some(round), Some(format!("round {round}")))),
        })
        .collect()
}

/// Rows that compress badly.
fn bulk(first: i64, step: i64, rows: i64) -> Vec<Change> {
    let note = |id: i64| {
        let word = |n: i64| (id + n).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64);
        format!("{:x}{:x}{:x}", word(1), word(1_000_000), word(77_777_777))
    };
    let row = |id: i64| (id, Some(id), Some(note(id)));
    let ids = (0..rows).map(|at| 1_000 + first + at * step);
    ids.map(|id| Change::Upsert(row(id))).collect()
}

/// A database with base, merged, sorted and unsorted SCUs, and their earlier forms.
fn write_story() -> Story {
    let store = MemoryStore::new();
    let keep = keeping(Duration::from_secs(3600));
    let instance = open(Arc::new(store.clone()), keep).unwrap();
    let (table, other) = (create(&instance, "t"), create(&instance, "u"));
    let mut newest = Model::default();
    let mut models = BTreeMap::new();
    for round in 0..16_i64 {
        let mut batches = vec![batch(round)];
        match round {
            // So large that merges leave it alone for a while.
            0 => batches.push(bulk(0, 2, 3_000)),
            // So large that memory sorts it in parts.
            4 | 9 | 13 => batches.push(batch(round + 100)),
            _ => {}
        }
        for changes in batches {
            let marker = [Change::Upsert((round, None, None))];
            commit(&instance, &[(&table, &changes), (&other, &marker)]).unwrap();
            newest.apply(&changes);
        }
        if round < 15 {
            models.insert(block_on(instance.seal()).unwrap(), newest.clone());
        }
        match round {
            2 | 5 => block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap(),
            6 => block_on(instance.pause(StageName::Authority)).unwrap(),
            7..14 => block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap(),
            14 => block_on(instance.pause(StageName::Sort)).unwrap(),
            _ => {}
        }
        if round == 13 {
            wait_for(&instance, "a merged run", |instance| {
                let manifest = instance.manifest();
                let current = manifest.current_runs();
                let mut runs = manifest.runs.values();
                runs.any(|run| run.kind == RunKind::Merged && current.contains(&run.id))
            });
        }
    }
    block_on(instance.close()).unwrap();
    Story {
        store,
        newest,
        models,
    }
}

/// Waits until something has come about, far longer than it takes on a machine that is busy.
pub(crate) fn wait_for(instance: &Instance, what: &str, reached: impl Fn(&Instance) -> bool) {
    for _ in 0..3000 {
        if reached(instance) {
            return;
        }
        block_on(instance.env().clock.sleep(Duration::from_millis(20)));
    }
    panic!("waited for {what} for too long: {:#?}", instance.status());
}

/// What a closed database would be had its process been killed right before the end: no checkpoint
/// tells once more what the edits tell.
pub(crate) fn killed_while_it_closed(store: &MemoryStore) -> MemoryStore {
    let copy = store.crash_image(store.operations(), Unsynced::Everything);
    let mut manifest = files(&copy, "manifest/").into_iter();
    let checkpoint = manifest.rfind(|file| file.ends_with(".checkpoint"));
    block_on(copy.delete(&checkpoint.unwrap())).unwrap();
    copy
}

/// A copy of a store, a file of it damaged.
pub(crate) fn harmed(store: &MemoryStore, file: &str, harm: Harm) -> (Arc<FaultyStore>, Faults) {
    let copy = store.crash_image(store.operations(), Unsynced::Everything);
    let faults = Faults::none();
    harm_file(&copy, &faults, file, harm);
    let faulty = FaultyStore::over(Arc::new(copy), faults.clone());
    (Arc::new(faulty), faults)
}

pub(crate) fn harm_file(store: &dyn Store, faults: &Faults, file: &str, harm: Harm) {
    let bytes = block_on(store.len(file)).unwrap();
    match harm {
        Harm::Flip { tenths } => faults.flip_bit(file, bytes * 8 * tenths / 10 + tenths),
        Harm::FlipByte { byte } => faults.flip_bit(file, byte * 8 + byte % 8),
        Harm::Truncate => faults.truncate(file, bytes / 2),
        Harm::Delete => block_on(store.delete(file)).unwrap(),
    }
}

pub(crate) fn assert_names(error: &Error, file: &str, context: &str) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}: {error}");
    assert!(error.message().contains(file), "{context}: {error}");
}

/// The rows of keys, read one by one.
pub(crate) fn points(instance: &Instance, table: &Arc<Table>, ids: &[i64]) -> Result<Vec<Row>> {
    let snapshot = fresh(instance, Freshness::ZERO);
    let codec = KeyCodec::primary(table).unwrap();
    let mut rows = Vec::new();
    for id in ids {
        let asked = changes(table, &[Change::Delete(*id)]);
        let keys = codec.encode(&asked.data).unwrap();
        let key = Key::new(keys.row(0).data());
        rows.extend(rows_of(&block_on(snapshot.get(
            table.id,
            &[key],
            &[0, 1, 2],
            &[],
        ))?));
    }
    Ok(rows)
}

/// Every question about the story; the first error.
fn ask_everything(instance: &Instance, story: &Story, context: &str) -> Result<()> {
    let table = instance.table("t")?;
    let newest = story.newest.rows();
    let ids: Vec<i64> = (0..60).step_by(7).collect();
    let found = points(instance, &table, &ids);
    let rows = scan(&fresh(instance, Freshness::ZERO), &table);
    let best = fresh(instance, Freshness::BestEffort);
    let of_best = scan(&best, &table);
    for (scu, model) in &story.models {
        let past = at(instance, *scu).and_then(|snapshot| scan(&snapshot, &table));
        assert_eq!(past?, model.rows(), "{context}: as of SCU {scu}");
    }
    assert_eq!(rows?, newest, "{context}");
    let horizon = best.horizon();
    let of_horizon = match story.models.get(&horizon.scu) {
        Some(model) if horizon.is_boundary() => model.rows(),
        _ => newest.clone(),
    };
    assert_eq!(of_best?, of_horizon, "{context}: best effort at {horizon}");
    let wanted: Vec<Row> = newest
        .iter()
        .filter(|row| ids.contains(&row.0))
        .cloned()
        .collect();
    assert_eq!(found?, wanted, "{context}: points");
    Ok(())
}

pub(crate) fn files(store: &dyn Store, folder: &str) -> Vec<String> {
    let listed = block_on(store.list(folder)).unwrap();
    listed.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_damaged_segment_within_the_retention_is_read_around_and_made_again() {
    let story = write_story();
    let segments = files(&story.store, "segments/");
    assert!(segments.len() > 15, "{segments:?}");
    for (number, file) in segments.iter().enumerate() {
        for (kind, harm) in some_of(&HARMS, number).into_iter().enumerate() {
            // Half of them without the help of verify.
            let verified = (number + kind) % 2 == 0;
            let context = format!("{file}: {harm:?}");
            let (store, _) = harmed(&story.store, file, harm);
            let instance = open(store, keeping(Duration::from_secs(3600))).unwrap();
            ask_everything(&instance, &story, &context).expect(&context);
            if verified {
                let report = block_on(instance.verify(&|_| {})).unwrap();
                assert!(report.is_whole(), "{context}: {report:?}");
            }
            wait_for(&instance, &context, |instance| {
                let damage = instance.status().damage;
                damage
                    .values()
                    .all(|damage| damage.state == DamageState::Healed)
            });
            let report = block_on(instance.verify(&|_| {})).unwrap();
            assert!(report.is_whole(), "{context}: {report:?}");
            if verified {
                assert_eq!(report.healed, Vec::<String>::new(), "{context}");
            }
            ask_everything(&instance, &story, &context).expect(&context);
            block_on(instance.close()).unwrap();
        }
    }
}

#[test]
fn a_damaged_log_or_manifest_file_is_named_or_made_needless() {
    let story = write_story();
    let killed = killed_while_it_closed(&story.store);
    let mut healed = 0;
    // Of a closed database the manifest is told twice: of that some files are enough.
    for (whole, folder, harms, step) in [
        (&story.store, "manifest/", &HARMS[..], 16),
        (&killed, "manifest/", &HARMS, 1),
        (&story.store, "log/", &LOG_HARMS, 1),
    ] {
        let is_twice = step > 1;
        let all = files(whole, folder);
        let newest = all.len().saturating_sub(3);
        let chosen = |at: usize| at >= newest || at.is_multiple_of(step);
        for (number, file) in all.into_iter().enumerate().filter(|(at, _)| chosen(*at)) {
            for harm in some_of(harms, number) {
                let context = format!("{file}: {harm:?}");
                let (store, _) = harmed(whole, &file, harm);
                let instance = match open(store, keeping(Duration::from_secs(3600))) {
                    Ok(instance) => instance,
                    Err(error) => {
                        assert!(!is_twice, "{context}: {error}");
                        assert_names(&error, &file, &context);
                        continue;
                    }
                };
                if let Err(error) = ask_everything(&instance, &story, &context) {
                    assert!(!is_twice, "{context}: {error}");
                    assert_names(&error, &file, &context);
                }
                let report = block_on(instance.verify(&|_| {})).unwrap();
                assert!(!is_twice || report.is_whole(), "{context}: {report:?}");
                let all = report.problems.iter().chain(&report.healed);
                for line in all {
                    assert!(line.contains(&file), "{context}: {line}");
                }
                healed += report.healed.len();
                if report.is_whole() {
                    let report = block_on(instance.verify(&|_| {})).unwrap();
                    assert!(report.is_whole(), "{context}: {report:?}");
                    assert_eq!(report.healed, Vec::<String>::new(), "{context}");
                    ask_everything(&instance, &story, &context).expect(&context);
                }
                // A lost log leaves the last seal to the next opening.
                let _ = block_on(instance.close());
            }
        }
    }
    assert!(healed > 0);
}

#[test]
fn a_damaged_file_of_a_closed_manifest_is_in_the_status_and_replaced() {
    let mut model = Model::default();
    model.apply(&batch(1));
    for kind in [".edit", ".checkpoint"] {
        let closed = MemoryStore::new();
        let instance = open(Arc::new(closed.clone()), keeping(Duration::ZERO)).unwrap();
        let table = create(&instance, "t");
        commit(&instance, &[(&table, &batch(1))]).unwrap();
        block_on(instance.close()).unwrap();
        let mut named = files(&closed, "manifest/").into_iter();
        let file = named.rfind(|file| file.ends_with(kind)).unwrap();
        let (store, _) = harmed(&closed, &file, Harm::Flip { tenths: 5 });
        let instance = open(Arc::clone(&store) as _, keeping(Duration::ZERO)).unwrap();
        wait_for(&instance, "the file to be replaced", |instance| {
            let damage = instance.status().damage;
            let state = damage.get(&file).map(|damage| damage.state);
            state == Some(DamageState::Healed)
        });
        assert!(!files(&*store, "manifest/").contains(&file));
        let troubles = instance.status().troubles;
        let told = troubles.iter().filter(|told| told.message.contains(&file));
        assert_eq!(told.map(|told| told.times).sum::<u64>(), 1, "{troubles:?}");
        let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
        assert_eq!(rows, model.rows());
        // A verification tells of it once.
        let report = block_on(instance.verify(&|_| {})).unwrap();
        assert!(report.is_whole() && report.healed[0].contains(&file));
        let report = block_on(instance.verify(&|_| {})).unwrap();
        assert!(report.is_whole() && report.healed.is_empty(), "{report:?}");
        block_on(instance.close()).unwrap();
    }
}

#[test]
fn a_close_that_finds_no_room_for_a_checkpoint_says_so_and_closes() {
    let world = World::new();
    let instance = world.open(keeping(Duration::ZERO));
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &batch(1))]).unwrap();
    let full = Fault::Refused { full: true };
    let rule = Rule::every(Operation::Put, full).named(".checkpoint");
    world.faults.add(rule);
    block_on(instance.close()).unwrap();
    let troubles = instance.status().troubles;
    let newest = &troubles.last().unwrap().message;
    assert!(newest.contains(".checkpoint"), "{troubles:?}");
    world.faults.clear();
    let mut model = Model::default();
    model.apply(&batch(1));
    let instance = world.open(keeping(Duration::ZERO));
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    block_on(instance.close()).unwrap();
    let mut manifest = files(&world.memory, "manifest/").into_iter();
    assert!(manifest.any(|file| file.ends_with(".checkpoint")));
}

#[test]
fn manifest_files_damaged_while_the_database_is_open_are_replaced() {
    let world = World::new();
    let instance = world.open(keeping(Duration::ZERO));
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &batch(1))]).unwrap();
    let edit = files(&world.memory, "manifest/").remove(2);
    world.harm(&edit, Harm::Flip { tenths: 5 });
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(
        report.is_whole() && report.healed[0].contains(&edit),
        "{report:?}"
    );
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(report.is_whole() && report.healed.is_empty(), "{report:?}");
    block_on(instance.close()).unwrap();
    let instance = world.open(keeping(Duration::ZERO));
    let mut model = Model::default();
    model.apply(&batch(1));
    assert_eq!(
        scan(&fresh(&instance, Freshness::ZERO), &table).unwrap(),
        model.rows()
    );
    block_on(instance.close()).unwrap();
}

/// The files that are left end with the edit before it, as if it had never been.
#[test]
fn the_newest_edit_that_goes_while_the_database_is_open_is_replaced() {
    let world = World::new();
    let instance = world.open(keeping(Duration::ZERO));
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &batch(1))]).unwrap();
    create(&instance, "u");
    let edit = FileKind::Edit.file_name(instance.manifest().number);
    world.harm(&edit, Harm::Delete);
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(
        report.is_whole() && report.healed[0].contains(&edit),
        "{report:?}"
    );
    // What a crash would leave now tells all.
    let image = world.memory.after_crash(Unsynced::Nothing);
    block_on(instance.close()).unwrap();
    let again = open(Arc::new(image), keeping(Duration::ZERO)).unwrap();
    let mut model = Model::default();
    model.apply(&batch(1));
    let rows = scan(&fresh(&again, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    assert!(again.table("u").is_ok());
    block_on(again.close()).unwrap();
}

#[test]
fn an_unsorted_log_damaged_while_its_rows_are_in_memory_is_healed_by_sorting() {
    let world = World::new();
    let instance = world.open(keeping(Duration::from_secs(3600)));
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &batch(4))]).unwrap();
    let log = files(&world.memory, "log/").remove(0);
    world.faults.flip_bit(&log, 200 * 8);
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(
        report.is_whole() && report.healed[0].contains(&log),
        "{report:?}"
    );
    let mut model = Model::default();
    model.apply(&batch(4));
    assert_eq!(
        scan(&fresh(&instance, Freshness::ZERO), &table).unwrap(),
        model.rows()
    );
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(report.is_whole() && report.healed.is_empty(), "{report:?}");
    block_on(instance.close()).unwrap();
}

#[test]
fn without_an_earlier_stage_the_error_names_what_is_lost_and_other_tables_work() {
    // The first byte of a segment is for people: no reader needs it.
    for harm in HARMS.into_iter().skip(1) {
        let world = World::new();
        let instance = world.open(keeping(Duration::ZERO));
        let (table, other) = (create(&instance, "t"), create(&instance, "u"));
        for round in 0..3 {
            commit(
                &instance,
                &[(&table, &batch(round)), (&other, &batch(round))],
            )
            .unwrap();
            block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        }
        wait_for(&instance, "everything to be retired", |instance| {
            let manifest = instance.manifest();
            manifest.runs.len() == 2 && manifest.scus.is_empty()
        });
        block_on(instance.close()).unwrap();
        let instance = world.open(keeping(Duration::ZERO));
        let manifest = instance.manifest();
        let view = table.primary.id;
        let run = manifest.runs.values().find(|run| run.view == view).unwrap();
        let file = &run.segments[0].file;
        world.harm(file, harm);
        let context = format!("{harm:?}");
        let error = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap_err();
        assert_names(&error, file, &context);
        let detail = error.detail().unwrap_or_default();
        for part in ["table \"t\"", &view.to_string(), &run.span.to_string()] {
            assert!(detail.contains(part), "{context}: {detail}");
        }
        wait_for(&instance, "the loss to be known", |instance| {
            let damage = instance.status().damage;
            damage
                .values()
                .any(|damage| damage.state == DamageState::Lost)
        });
        // Asked once more, the error is the same, though nothing is read.
        let found = block_on(async {
            let snapshot = instance.snapshot(Default::default()).await?;
            scan(&snapshot, &table)
        });
        let error: Error = Result::unwrap_err(found);
        assert_names(&error, file, &context);
        let tables = |table: &Arc<Table>| {
            let request = lazybase_cluster::SnapshotRequest {
                tables: Some(vec![table.id]),
                ..Default::default()
            };
            block_on(instance.snapshot(request))
        };
        let rows = scan(&tables(&other).unwrap(), &other).unwrap();
        let mut model = Model::default();
        (0..3).for_each(|round| model.apply(&batch(round)));
        assert_eq!(rows, model.rows());
        // The others go on to be written and merged.
        commit(&instance, &[(&other, &batch(3)), (&table, &batch(3))]).unwrap();
        model.apply(&batch(3));
        block_on(instance.settle(Some(other.id), SettleTo::Authority, &|_| {})).unwrap();
        assert_eq!(
            scan(&tables(&other).unwrap(), &other).unwrap(),
            model.rows()
        );
        let stuck = block_on(instance.settle(Some(table.id), SettleTo::Authority, &|_| {}));
        assert_names(&stuck.unwrap_err(), file, &context);
        let status = instance.status();
        let told = status
            .troubles
            .iter()
            .filter(|trouble| trouble.message.contains(file));
        assert!(
            told.map(|trouble| trouble.times).sum::<u64>() < 5,
            "{:?}",
            status.troubles
        );
        let report = block_on(instance.verify(&|_| {})).unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        assert!(report.problems[0].contains(file));
        // Restored, it is read again.
        if matches!(harm, Harm::Delete) {
            let all = || block_on(instance.settle(None, SettleTo::Authority, &|_| {}));
            assert_names(&all().unwrap_err(), file, &context);
            // Dropped, it keeps nobody waiting.
            block_on(instance.drop_table("t", false)).unwrap();
            all().expect(&context);
            block_on(instance.close()).unwrap();
            continue;
        }
        world.faults.clear();
        let report = block_on(instance.verify(&|_| {})).unwrap();
        assert!(report.is_whole(), "{report:?}");
        // What read it before may still tell of its damage: then it is checked once more.
        wait_for(&instance, &context, |_| {
            let rows = tables(&table).and_then(|snapshot| scan(&snapshot, &table));
            rows.is_ok_and(|rows| rows == model.rows())
        });
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        block_on(instance.close()).unwrap();
    }
}

#[test]
fn a_scan_that_meets_damage_on_its_way_goes_on_at_the_same_row() {
    let world = World::new();
    let instance = world.open(uncached(keeping(Duration::from_secs(3600))));
    let table = create(&instance, "t");
    let mut model = Model::default();
    for half in 0..2_i64 {
        let batch = bulk(half, 2, 30_000);
        commit(&instance, &[(&table, &batch)]).unwrap();
        model.apply(&batch);
        // One half in the authority, one sorted: both are damaged below.
        let to = match half {
            0 => SettleTo::Authority,
            _ => SettleTo::Sorted,
        };
        block_on(instance.settle(None, to, &|_| {})).unwrap();
        block_on(instance.pause(StageName::Authority)).unwrap();
    }
    let snapshot = fresh(&instance, Freshness::ZERO);
    let request = ScanRequest {
        table: table.id,
        projection: vec![0, 1, 2],
        range: Default::default(),
        buffered: Vec::new(),
        batch_rows: 1000,
        parts: 1,
    };
    let plan = block_on(snapshot.plan_scan(request)).unwrap();
    let mut rows: Vec<Row> = Vec::new();
    let mut harmed = Vec::new();
    block_on(async {
        for part in &plan.parts {
            let mut stream = part.stream();
            while let Some(batch) = stream.try_next().await.unwrap() {
                rows.extend(rows_of(&batch));
                if rows.len() > 10_000 && harmed.is_empty() {
                    let manifest = instance.manifest();
                    let current = manifest.current_runs();
                    for run in manifest
                        .runs
                        .values()
                        .filter(|run| current.contains(&run.id))
                    {
                        for segment in &run.segments {
                            world.faults.truncate(&segment.file, segment.bytes / 2);
                            harmed.push(segment.file.clone());
                        }
                    }
                }
            }
        }
    });
    assert!(!harmed.is_empty());
    assert_eq!(rows, model.rows());
    wait_for(&instance, "healing", |instance| {
        let damage = instance.status().damage;
        !damage.is_empty()
            && damage
                .values()
                .all(|damage| damage.state == DamageState::Healed)
    });
    assert_eq!(
        scan(&fresh(&instance, Freshness::ZERO), &table).unwrap(),
        model.rows()
    );
    block_on(instance.close()).unwrap();
}
