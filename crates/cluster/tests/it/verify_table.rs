//! `VERIFY TABLE`: files that are whole and wrong are found where an earlier stage is kept, and
//! made again; where none is, that is said.

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use futures::executor::block_on;
use lazybase_cluster::{
    DamageState, Instance, Outcome, Settings, SettleTo, StageCheck, StageName, TableReport,
};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_engine::env::{Env, Store};
use lazybase_engine::manifest::{Edit, HealedRun, ManifestStore, RunKind};
use lazybase_engine::segment::{ReadCounters, RowLayout, Segment, SegmentWriter, WriteOptions};
use lazybase_model::{Freshness, Table};

use crate::damage::{assert_names, wait_for};
use crate::harness::{Change, commit, create, fresh, keeping, open, pause, scan, settings};
use crate::heal::{batch, create_view, entries, files_of, shown};
use crate::model::Model;
use crate::world::{World, uncached};

/// Adds a thousand to the counts of a file.
fn make_wrong(store: &MemoryStore, table: &Arc<Table>, file: &str) {
    make_wrong_in(store, table, file, &|_| true);
}

/// The same in these of its extents.
fn make_wrong_in(
    store: &MemoryStore,
    table: &Arc<Table>,
    file: &str,
    extents: &dyn Fn(usize) -> bool,
) {
    let mut columns = table.columns.iter();
    let count = columns.position(|column| column.name == "count").unwrap();
    let next = Cell::new(0);
    rewrite(store, table, file, &|rows| {
        let extent = next.replace(next.get() + 1);
        match extents(extent) {
            true => wrong(rows, count),
            false => rows.clone(),
        }
    });
}

/// Changes the rows of a file, extent by extent, and gives it a name and checksums of its own: what
/// a wrong kernel would have written. The name.
pub(crate) fn rewrite(
    store: &MemoryStore,
    table: &Arc<Table>,
    file: &str,
    change: &dyn Fn(&ChangeBatch) -> ChangeBatch,
) -> String {
    let env = Env::system(Arc::new(store.clone()) as Arc<dyn Store>);
    block_on(async {
        let manifests = ManifestStore::open(&env).await.unwrap();
        let manifest = manifests.current();
        let mut runs = manifest.runs.values();
        let run = runs
            .find(|run| run.segments.iter().any(|segment| segment.file == file))
            .unwrap();
        let at = run.segments.iter().position(|segment| segment.file == file);
        let at = at.unwrap();
        let layout = Arc::new(RowLayout::primary(table).unwrap());
        let counters = ReadCounters::default();
        let meta = Arc::clone(&run.segments[at]);
        let format = meta.format;
        let segment = Segment::open(&env, &layout, meta, &counters).await.unwrap();
        let options = WriteOptions::default();
        let mut writer = SegmentWriter::create(&env, &layout, format, options).unwrap();
        for extent in 0..segment.extents().len() {
            let rows = segment.read_extent(extent, &counters).await.unwrap();
            writer.push(change(&rows)).await.unwrap();
        }
        let made = writer.finish().await.unwrap();
        let name = made[0].file.clone();
        let mut segments = run.segments.clone();
        segments.splice(at..=at, made.into_iter().map(Arc::new));
        let run = run.id;
        let runs = vec![HealedRun { run, segments }];
        manifests.commit(Edit::Heal { runs }).await.unwrap();
        name
    })
}

fn wrong(rows: &ChangeBatch, count: usize) -> ChangeBatch {
    let counts = rows.data.column(count).as_primitive::<Int64Type>();
    let counts: Int64Array = counts.iter().map(|value| Some(value? + 1000)).collect();
    let mut columns = rows.data.columns().to_vec();
    columns[count] = Arc::new(counts);
    ChangeBatch {
        data: RecordBatch::try_new(rows.data.schema(), columns).unwrap(),
        ..rows.clone()
    }
}

/// A database with sorted, merged and base runs whose earlier forms are kept.
fn story(store: &MemoryStore) -> (Arc<Table>, Arc<Table>, Model) {
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    let table = create(&instance, "t");
    let view = create_view(&instance, &table);
    let mut model = Model::default();
    for round in 0..9 {
        commit(&instance, &[(&table, &batch(round))]).unwrap();
        model.apply(&batch(round));
        match round {
            3 => block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap(),
            4 => pause(&instance, &[StageName::Authority]),
            _ => block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap(),
        }
    }
    block_on(instance.close()).unwrap();
    (table, view, model)
}

/// Opened so that nothing moves but what is healed.
fn open_still(store: &MemoryStore) -> Instance {
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    instance
}

/// The same, once merges have ended that were quicker than the pause.
fn open_at_rest(store: &MemoryStore) -> Instance {
    let instance = open_still(store);
    wait_for(&instance, "merges to end", |instance| {
        instance.status().running.is_empty()
    });
    instance
}

fn verify(instance: &Instance, share: f64) -> TableReport {
    block_on(instance.verify_table("t", share, &|_| {})).unwrap()
}

#[test]
fn what_earlier_stages_make_is_what_later_ones_hold() {
    let store = MemoryStore::without_history();
    story(&store);
    let instance = open_still(&store);
    let report = verify(&instance, 1.0);
    assert_eq!(report.differing().count(), 0, "{report:?}");
    for stage in ["sorted", "authority"] {
        let mut checks = report.checks.iter();
        let same = checks
            .any(|check| check.stage == stage && check.outcome == Outcome::Same && check.rows > 0);
        assert!(same, "{stage}: {report:?}");
    }
    let all: u64 = report.checks.iter().map(|check| check.rows).sum();
    let report = verify(&instance, 0.2);
    assert_eq!(report.differing().count(), 0, "{report:?}");
    let some: u64 = report.checks.iter().map(|check| check.rows).sum();
    assert!(some > 0 && some <= all);
    block_on(instance.close()).unwrap();
}

#[test]
fn a_file_that_is_whole_and_wrong_is_found_and_made_again() {
    for kind in [RunKind::Sorted, RunKind::Merged, RunKind::Base] {
        let store = MemoryStore::without_history();
        let (table, view, model) = story(&store);
        let instance = open_at_rest(&store);
        let files = files_of(&instance, &table, kind);
        block_on(instance.close()).unwrap();
        let Some(file) = files.first() else {
            // Merges may have been quicker than the pause.
            assert_ne!(kind, RunKind::Base, "there is an authority");
            continue;
        };
        make_wrong(&store, &table, file);
        let instance = open_still(&store);
        // Nothing else can tell.
        let whole = block_on(instance.verify(&|_| {})).unwrap();
        let wrong = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
        check_once(&instance, (&table, &view), &model, &format!("{kind:?}"));
        let context = format!("{kind:?}, before {wrong:?}, {whole:?}");
        let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
        assert_eq!(rows, model.rows(), "{context}");
        block_on(instance.close()).unwrap();
    }
}

/// A sample looks at some stretches of the keys alone: what is wrong is found once it lies in them.
#[test]
fn samples_find_a_wrong_stretch_once_they_draw_it() {
    let store = MemoryStore::without_history();
    // Its rows are one run, of a dozen extents.
    let settings = Settings {
        sort_memory: 16 << 20,
        ..keeping()
    };
    let instance = open(Arc::new(store.clone()), settings.clone()).unwrap();
    let table = create(&instance, "t");
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let rows = (0..10_000).map(|id| (id, Some(id), Some(format!("{id:0>60}"))));
    let changes: Vec<Change> = rows.map(Change::Upsert).collect();
    let mut model = Model::default();
    commit(&instance, &[(&table, &changes)]).unwrap();
    model.apply(&changes);
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    let files = files_of(&instance, &table, RunKind::Sorted);
    block_on(instance.close()).unwrap();
    let [file] = &files[..] else {
        panic!("{files:?}");
    };
    make_wrong_in(&store, &table, file, &|extent| extent == 3);
    let instance = open(Arc::new(store.clone()), settings).unwrap();
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let mut fewest = u64::MAX;
    // That all of them miss it has a chance of one in many millions.
    let found = (0..100).find_map(|_| {
        let report = verify(&instance, 0.2);
        let sorted = report.checks.iter().filter(|check| check.stage == "sorted");
        fewest = sorted.fold(fewest, |fewest, check| fewest.min(check.rows));
        (report.differing().count() > 0).then_some(report)
    });
    let report = found.expect("no sample found it");
    assert!(fewest < 10_000, "{fewest} of 10,000 rows");
    let mut differing = report.differing();
    let of_run = differing.find(|check| check.stage == "sorted");
    let Some(Outcome::Differs { told, healed, .. }) = of_run.map(|check| &check.outcome) else {
        panic!("{report:?}");
    };
    assert!(*healed && told[0].contains("count="), "{report:?}");
    let report = verify(&instance, 1.0);
    assert_eq!(report.differing().count(), 0, "{report:?}");
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    block_on(instance.close()).unwrap();
}

/// One VERIFY TABLE finds the difference, and leaves nothing that a second one would find.
fn check_once(
    instance: &Instance,
    (table, view): (&Arc<Table>, &Table),
    model: &Model,
    context: &str,
) {
    let report = verify(instance, 1.0);
    assert!(report.differing().count() > 0, "{context}: {report:?}");
    let of_runs = report.differing().filter(|check| check.stage != "view");
    let mut told_rows = 0;
    for check in of_runs {
        let Outcome::Differs { rows, told, healed } = &check.outcome else {
            unreachable!("it differs");
        };
        assert!(*healed && !told.is_empty(), "{context}: {report:?}");
        let is_told = told[0].contains("count=") || told[0].contains("was made of");
        assert!(is_told, "{context}: {told:?}");
        told_rows += rows;
    }
    assert!(told_rows > 0, "{context}: {report:?}");
    let snapshot = fresh(instance, Freshness::ZERO);
    assert_eq!(scan(&snapshot, table).unwrap(), model.rows(), "{context}");
    // Where it can't be read by itself yet, its table answers.
    if let Some(shown) = shown(&snapshot, view).unwrap() {
        assert_eq!(shown, entries(model), "{context}");
    }
    let report = verify(instance, 1.0);
    assert_eq!(report.differing().count(), 0, "{context}: {report:?}");
}

#[test]
fn what_was_made_of_wrong_rows_is_made_again_with_them() {
    let mut shown_wrong = 0;
    // From the newest back: of the oldest, all that is wrong may have been written over.
    for (back, settled) in [
        (1, SettleTo::Authority),
        (2, SettleTo::Authority),
        (3, SettleTo::Authority),
        (1, SettleTo::Sorted),
    ] {
        let store = MemoryStore::without_history();
        let instance = open(Arc::new(store.clone()), keeping()).unwrap();
        let table = create(&instance, "t");
        let view = create_view(&instance, &table);
        pause(&instance, &[StageName::Merge, StageName::Authority]);
        let mut model = Model::default();
        for round in 0..5 {
            commit(&instance, &[(&table, &batch(round))]).unwrap();
            model.apply(&batch(round));
            block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
        }
        let sorted = files_of(&instance, &table, RunKind::Sorted);
        block_on(instance.close()).unwrap();
        make_wrong(&store, &table, &sorted[sorted.len() - back]);
        let instance = open(Arc::new(store.clone()), keeping()).unwrap();
        block_on(instance.settle(None, settled, &|_| {})).unwrap();
        // Nothing else can tell.
        let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
        shown_wrong += usize::from(rows != model.rows());
        let context = format!("sorted file {back} from the newest, {settled:?}");
        check_once(&instance, (&table, &view), &model, &context);
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert_eq!(
            shown(&snapshot, &view).unwrap(),
            Some(entries(&model)),
            "{context}"
        );
        assert_eq!(scan(&snapshot, &table).unwrap(), model.rows(), "{context}");
        block_on(instance.close()).unwrap();
    }
    assert!(shown_wrong > 1, "{shown_wrong}");
}

/// Whoever asked goes before what is wrong was made again; its table's view was made of it.
#[test]
fn a_view_of_wrong_rows_is_built_again_though_nobody_waits_for_it() {
    let world = World::new();
    let instance = world.open(keeping());
    let table = create(&instance, "t");
    let view = create_view(&instance, &table);
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let mut model = Model::default();
    for round in 0..5 {
        commit(&instance, &[(&table, &batch(round))]).unwrap();
        model.apply(&batch(round));
        block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    }
    let sorted = files_of(&instance, &table, RunKind::Sorted);
    block_on(instance.close()).unwrap();
    make_wrong(&world.memory, &table, &sorted[sorted.len() - 1]);
    let instance = world.open(keeping());
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let wrong = shown(&fresh(&instance, Freshness::ZERO), &view).unwrap();
    assert_ne!(wrong.expect("the view is built"), entries(&model));
    // Nothing can be made again.
    world.refuse_to_make("segments/");
    world.verify_until_marked(&instance, "t");
    world.faults.clear();
    world.wait_until_unmarked(&instance);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert_eq!(scan(&snapshot, &table).unwrap(), model.rows());
    let right = shown(&snapshot, &view).unwrap();
    assert_eq!(right.expect("the view is built"), entries(&model));
    block_on(instance.close()).unwrap();
}

#[test]
fn a_view_that_is_whole_and_wrong_is_built_again() {
    let store = MemoryStore::without_history();
    let (table, view, model) = story(&store);
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let files = files_of(&instance, &view, RunKind::Base);
    block_on(instance.close()).unwrap();
    make_wrong(&store, &view, &files[0]);
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    let wrong = shown(&fresh(&instance, Freshness::ZERO), &view).unwrap();
    assert_ne!(wrong, Some(entries(&model)));
    let report = verify(&instance, 1.0);
    let of_view = report.differing().find(|check| check.stage == "view");
    let Some(Outcome::Differs { rows, healed, .. }) = of_view.map(|check| &check.outcome) else {
        panic!("{report:?}");
    };
    // It was told to be made again when it was, and how many rows differed, though few are named.
    assert!(*healed, "{report:?}");
    assert_eq!(*rows, model.rows().len() as u64, "{report:?}");
    let right = shown(&fresh(&instance, Freshness::ZERO), &view).unwrap();
    assert_eq!(right, Some(entries(&model)));
    let report = verify(&instance, 1.0);
    assert_eq!(report.differing().count(), 0, "{report:?}");
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    block_on(instance.close()).unwrap();
}

#[test]
fn verification_of_all_files_compares_the_views_and_finds_a_wrong_one() {
    let store = MemoryStore::without_history();
    let (_, view, _) = story(&store);
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let sorted = instance.manifest().sorted_through;
    let report = block_on(instance.verify(&|_| {})).unwrap();
    let [check] = &report.views[..] else {
        panic!("{report:?}");
    };
    assert!(
        report.is_whole() && check.outcome == Outcome::Same,
        "{report:?}"
    );
    assert_eq!((check.of.as_str(), check.span.last), ("by_count", sorted));
    assert!(check.rows > 0, "{report:?}");
    let files = files_of(&instance, &view, RunKind::Base);
    block_on(instance.close()).unwrap();
    make_wrong(&store, &view, &files[0]);
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    let report = block_on(instance.verify(&|_| {})).unwrap();
    let ([problem], [check]) = (&report.problems[..], &report.views[..]) else {
        panic!("{report:?}");
    };
    assert!(
        problem.contains("\"by_count\"") && problem.contains("VERIFY TABLE t"),
        "{problem}"
    );
    assert!(
        matches!(check.outcome, Outcome::Differs { rows: 1.., .. }),
        "{report:?}"
    );
    assert!(!report.is_whole(), "{report:?}");
    // What the problem says to do, helps.
    assert_eq!(verify(&instance, 1.0).differing().count(), 1);
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert!(
        report.is_whole() && report.views[0].outcome == Outcome::Same,
        "{report:?}"
    );
    block_on(instance.close()).unwrap();
}

#[test]
fn what_no_earlier_stage_holds_is_said_and_not_called_right() {
    let store = MemoryStore::without_history();
    let instance = open(Arc::new(store.clone()), settings()).unwrap();
    let table = create(&instance, "t");
    commit(
        &instance,
        &[(&table, &[Change::Upsert((1, Some(1), None))])],
    )
    .unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    crate::damage::wait_for(&instance, "everything to be retired", |instance| {
        let manifest = instance.manifest();
        manifest.runs.len() == 1 && manifest.scus.is_empty()
    });
    let report = verify(&instance, 1.0);
    let [check] = &report.checks[..] else {
        panic!("{report:?}");
    };
    assert!(
        matches!(&check.outcome, Outcome::NotCompared(why) if why.contains("no longer kept")),
        "{report:?}"
    );
    let missing = block_on(instance.verify_table("nothing", 1.0, &|_| {}));
    assert_eq!(missing.unwrap_err().sqlstate(), "42P01");
    block_on(instance.close()).unwrap();
}

#[test]
fn what_was_found_wrong_stays_out_of_use_after_a_restart() {
    let store = MemoryStore::new();
    let (table, view, model) = story(&store);
    let instance = open_at_rest(&store);
    let file = files_of(&instance, &table, RunKind::Base).remove(0);
    block_on(instance.close()).unwrap();
    make_wrong(&store, &table, &file);
    let instance = open_still(&store);
    let begun = store.operations();
    check_once(&instance, (&table, &view), &model, "before the crash");
    wait_for(&instance, "the mark to go", |_| {
        crate::damage::files(&store, "condemned/").is_empty()
    });
    block_on(instance.close()).unwrap();
    let marked = (begun..=store.operations())
        .rfind(|operation| {
            let what = store.describe(*operation).unwrap_or_default();
            what.contains("condemned/") && what.contains("put")
        })
        .expect("what is condemned is marked");
    // The power goes right after that: the file is whole, and nothing was made again.
    let image = store.crash_image(marked, Unsynced::Everything);
    let instance = open_still(&image);
    for _ in 0..2 {
        let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
        assert_eq!(rows, model.rows());
        // Reading files back proves nothing of this one.
        let report = block_on(instance.verify(&|_| {})).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
    }
    wait_for(&instance, "the mark to go", |_| {
        crate::damage::files(&image, "condemned/").is_empty()
    });
    let report = verify(&instance, 1.0);
    let of_runs = report.differing().filter(|check| check.stage != "view");
    assert_eq!(of_runs.count(), 0, "{report:?}");
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    block_on(instance.close()).unwrap();
}

#[test]
fn a_table_whose_only_file_is_missing_does_not_end_well() {
    let store = MemoryStore::without_history();
    let instance = open(Arc::new(store.clone()), uncached(settings())).unwrap();
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    wait_for(&instance, "everything to be retired", |instance| {
        let manifest = instance.manifest();
        manifest.runs.len() == 1 && manifest.scus.is_empty()
    });
    let files = files_of(&instance, &table, RunKind::Base);
    let [file] = &files[..] else {
        panic!("{files:?}");
    };
    let span = instance.manifest().runs.values().next().unwrap().span;
    block_on(store.delete(file)).unwrap();
    for share in [0.05, 1.0] {
        let report = verify(&instance, share);
        let [error] = &report.damage[..] else {
            panic!("{share}: {report:?}");
        };
        assert_names(error, file, "the file is gone");
        let place = format!("table \"t\", view {}, SCUs {span}: ", table.primary.id);
        let detail = error.detail().unwrap_or_default();
        assert!(detail.starts_with(&place), "{detail}");
        assert!(detail.contains("no earlier stage holds"), "{detail}");
    }
    block_on(instance.close()).unwrap();
}

#[test]
fn a_file_that_is_missing_is_made_again_where_an_earlier_stage_is_kept() {
    let store = MemoryStore::without_history();
    let (table, _, model) = story(&store);
    let instance = open_at_rest(&store);
    let file = files_of(&instance, &table, RunKind::Base).remove(0);
    block_on(store.delete(&file)).unwrap();
    let report = verify(&instance, 1.0);
    assert_eq!(report.differing().count(), 0, "{report:?}");
    assert!(report.damage.is_empty(), "{report:?}");
    let again = |check: &StageCheck| match &check.outcome {
        Outcome::NotCompared(why) => why.contains(&file) && why.contains("whole again"),
        _ => false,
    };
    assert!(report.checks.iter().any(again), "{report:?}");
    let damage = instance.status().damage;
    assert_eq!(damage[&file].state, DamageState::Healed);
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    block_on(instance.close()).unwrap();
}
