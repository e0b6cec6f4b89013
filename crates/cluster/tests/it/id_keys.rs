//! ID keys against a naive model that gives out numbers by the same rule, one mention after the
//! other: exact numbers at every stage, horizon and crash.

mod damaged;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use futures::executor::block_on;
use lazybase_cluster::{
    AsOf, BatchWriter, Instance, Outcome, RestoreRequest, Settings, SettleTo, StageName, TableSpec,
    restore,
};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_engine::env::{Env, Store};
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_engine::read::Snapshot;
use lazybase_engine::segment::{RowLayout, key_hash};
use lazybase_engine::stages::remap::{KeyedChanges, MentionedKeys};
use lazybase_model::change::StoredKind;
use lazybase_model::id_key::{PARTITIONS, assign_one_by_one, temporary_id};
use lazybase_model::{Column, Freshness, IdKeyColumn, NextIds, ScuNumber, Table};
use proptest::prelude::*;

use crate::harness::{at, batches, close_whole, fresh, keeping, open, pause, settings};

/// A natural key of files (a host and a number) or of users (a number).
type FileKey = (String, i64);

/// What a batch does to one row.
#[derive(Debug, Clone)]
enum Change {
    /// A size of a file, as a user saw it.
    Size(FileKey, i64, Option<i64>),
    DeleteSize(FileKey, i64),
    /// The owner's own row.
    File(FileKey, i64),
    DeleteFile(FileKey),
}

/// Rows of `files`: the number and a note; of `sizes`: by file and n, the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rows {
    files: BTreeMap<FileKey, (i64, Option<i64>)>,
    users: BTreeMap<i64, i64>,
    sizes: BTreeMap<(i64, i64), Option<i64>>,
}

/// The naive model.
#[derive(Debug, Clone)]
struct Model {
    rows: Rows,
    file_ids: BTreeMap<FileKey, i64>,
    next_file: NextIds,
    user_ids: BTreeMap<i64, i64>,
    next_user: NextIds,
}

/// The tables of the tests, with their key maps.
struct Tables {
    files: Arc<Table>,
    file_map: Arc<Table>,
    users: Arc<Table>,
    user_map: Arc<Table>,
    sizes: Arc<Table>,
}

fn own_id() -> Column {
    Column {
        nullable: false,
        id_key: Some(IdKeyColumn::OWN),
        ..Column::new("id", DataType::Int64)
    }
}

impl Tables {
    fn create(instance: &Instance) -> Tables {
        let made = |spec| {
            block_on(instance.create_table(spec, false))
                .unwrap()
                .unwrap()
        };
        let columns = vec![
            own_id(),
            Column::new("host", DataType::Utf8),
            Column::new("number", DataType::Int64),
            Column::new("note", DataType::Int64),
        ];
        let files = made(TableSpec::new("files", columns, &["host", "number"]));
        let columns = vec![Column::new("user", DataType::Int64), own_id()];
        let users = made(TableSpec::new("users", columns, &["user"]));
        let reference = |name: &str, owner: &Table| Column {
            id_key: owner.columns.iter().find_map(|column| column.id_key),
            ..Column::new(name, DataType::Int64)
        };
        let columns = vec![
            Column::new("n", DataType::Int64),
            reference("file", &files),
            reference("seen_by", &users),
        ];
        made(TableSpec::new("sizes", columns, &["file", "n"]));
        Tables::of(instance)
    }

    fn of(instance: &Instance) -> Tables {
        let table = |name| instance.table(name).unwrap();
        let map = |owner: &Table| {
            let (_, map) = owner.owned_id().unwrap();
            Arc::clone(&instance.manifest().tables[&map].table)
        };
        let (files, users) = (table("files"), table("users"));
        Tables {
            file_map: map(&files),
            user_map: map(&users),
            files,
            users,
            sizes: table("sizes"),
        }
    }
}

fn rows_of(table: &Arc<Table>, columns: Vec<ArrayRef>) -> RecordBatch {
    let schema = RowLayout::primary(table).unwrap().schema;
    RecordBatch::try_new(schema, columns).unwrap()
}

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn file_keys(tables: &Tables, keys: &[FileKey]) -> MentionedKeys {
    let hosts = keys.iter().map(|(host, _)| host.as_str());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(hosts)),
        numbers(keys.iter().map(|(_, number)| *number)),
        numbers(keys.iter().map(|_| 0)),
    ];
    MentionedKeys {
        map: Arc::clone(&tables.file_map),
        rows: rows_of(&tables.file_map, columns),
        generated: Vec::new(),
    }
}

fn user_keys(tables: &Tables, keys: &[i64]) -> MentionedKeys {
    let columns = vec![
        numbers(keys.iter().copied()),
        numbers(keys.iter().map(|_| 0)),
    ];
    MentionedKeys {
        map: Arc::clone(&tables.user_map),
        rows: rows_of(&tables.user_map, columns),
        generated: Vec::new(),
    }
}

impl Change {
    /// The table and the change of one row, with its keys.
    fn keyed(&self, tables: &Tables) -> (Arc<Table>, KeyedChanges) {
        let file_id = numbers([temporary_id(0)]);
        let null = || Arc::new(Int64Array::from(vec![None])) as ArrayRef;
        match self {
            Change::Size(file, n, user) => {
                let user_id = user.map_or_else(null, |_| numbers([temporary_id(0)]));
                let data = rows_of(&tables.sizes, vec![numbers([*n]), file_id, user_id]);
                let files = file_keys(tables, std::slice::from_ref(file));
                let users = user.map(|user| user_keys(tables, &[user]));
                let keyed = KeyedChanges {
                    changes: ChangeBatch::upserts(data, 0),
                    keys: [files].into_iter().chain(users).collect(),
                    generated: Vec::new(),
                };
                (Arc::clone(&tables.sizes), keyed)
            }
            Change::DeleteSize(file, n) => {
                let data = rows_of(&tables.sizes, vec![numbers([*n]), file_id, null()]);
                let keyed = KeyedChanges {
                    changes: ChangeBatch::alike(data, StoredKind::DELETE, None, 0),
                    keys: vec![file_keys(tables, std::slice::from_ref(file))],
                    generated: Vec::new(),
                };
                (Arc::clone(&tables.sizes), keyed)
            }
            Change::File(key, note) => {
                let (host, number) = key;
                let host = Arc::new(StringArray::from_iter_values([host])) as ArrayRef;
                let cells = vec![file_id, host, numbers([*number]), numbers([*note])];
                let keyed = KeyedChanges {
                    changes: ChangeBatch::upserts(rows_of(&tables.files, cells), 0),
                    keys: vec![file_keys(tables, std::slice::from_ref(key))],
                    generated: Vec::new(),
                };
                (Arc::clone(&tables.files), keyed)
            }
            Change::DeleteFile((host, number)) => {
                let host = Arc::new(StringArray::from_iter_values([host])) as ArrayRef;
                let cells = vec![null(), host, numbers([*number]), null()];
                let data = rows_of(&tables.files, cells);
                let changes = ChangeBatch::alike(data, StoredKind::DELETE, None, 0);
                (Arc::clone(&tables.files), KeyedChanges::plain(changes))
            }
        }
    }
}

async fn write(writer: &mut BatchWriter, tables: &Tables, batch: &[Change]) {
    for change in batch {
        let (table, keyed) = change.keyed(tables);
        writer.append_keyed(&table, keyed).await.unwrap();
    }
}

fn commit(instance: &Instance, tables: &Tables, batch: &[Change]) {
    block_on(async {
        let mut writer = instance.begin(None);
        write(&mut writer, tables, batch).await;
        writer.commit().await.unwrap();
    });
}

fn hash_of(map: &MentionedKeys) -> u64 {
    let keys = KeyCodec::primary(&map.map)
        .unwrap()
        .encode(&map.rows)
        .unwrap();
    key_hash(keys.row(0).data())
}

impl Model {
    fn new() -> Model {
        Model {
            rows: Rows::default(),
            file_ids: BTreeMap::new(),
            next_file: NextIds::first(PARTITIONS),
            user_ids: BTreeMap::new(),
            next_user: NextIds::first(PARTITIONS),
        }
    }

    /// Numbers for the keys of a batch first, and rows for new keys that a reference mentions
    /// first; then row by row.
    fn apply(&mut self, tables: &Tables, batch: &[Change]) {
        for change in batch {
            match change {
                Change::Size(file, _, user) => {
                    self.mention_file(tables, file, true);
                    if let Some(user) = user {
                        let key = (*user, hash_of(&user_keys(tables, &[*user])));
                        let known = self.user_ids.contains_key(user);
                        let ids = &mut self.user_ids;
                        let id = assign_one_by_one(ids, &mut self.next_user, [key])[0];
                        if !known {
                            self.rows.users.insert(*user, id);
                        }
                    }
                }
                Change::File(file, _) => self.mention_file(tables, file, false),
                Change::DeleteSize(..) | Change::DeleteFile(_) => {}
            }
        }
        for change in batch {
            match change {
                Change::Size(file, n, user) => {
                    let user = user.map(|user| self.user_ids[&user]);
                    self.rows.sizes.insert((self.file_ids[file], *n), user);
                }
                Change::DeleteSize(file, n) => {
                    if let Some(id) = self.file_ids.get(file) {
                        self.rows.sizes.remove(&(*id, *n));
                    }
                }
                Change::File(file, note) => {
                    let row = (self.file_ids[file], Some(*note));
                    self.rows.files.insert(file.clone(), row);
                }
                Change::DeleteFile(file) => {
                    self.rows.files.remove(file);
                }
            }
        }
    }

    fn mention_file(&mut self, tables: &Tables, file: &FileKey, by_reference: bool) {
        let key = (
            file.clone(),
            hash_of(&file_keys(tables, std::slice::from_ref(file))),
        );
        let known = self.file_ids.contains_key(file);
        let id = assign_one_by_one(&mut self.file_ids, &mut self.next_file, [key])[0];
        if !known && by_reference {
            self.rows.files.insert(file.clone(), (id, None));
        }
    }
}

fn scan(snapshot: &Snapshot, table: &Table) -> Vec<RecordBatch> {
    batches(snapshot, table.id, (0..table.columns.len()).collect()).unwrap()
}

fn number_at(column: &ArrayRef, row: usize) -> Option<i64> {
    let cells = column.as_primitive::<Int64Type>();
    cells.is_valid(row).then(|| cells.value(row))
}

fn read(snapshot: &Snapshot, tables: &Tables) -> Rows {
    let mut rows = Rows::default();
    for batch in scan(snapshot, &tables.files) {
        let hosts = batch.column(1).as_string::<i32>();
        for row in 0..batch.num_rows() {
            let cell = |column: usize| number_at(batch.column(column), row);
            let key = (hosts.value(row).to_owned(), cell(2).unwrap());
            rows.files.insert(key, (cell(0).unwrap(), cell(3)));
        }
    }
    for batch in scan(snapshot, &tables.users) {
        for row in 0..batch.num_rows() {
            let cell = |column: usize| number_at(batch.column(column), row).unwrap();
            rows.users.insert(cell(0), cell(1));
        }
    }
    let mut before = None;
    for batch in scan(snapshot, &tables.sizes) {
        for row in 0..batch.num_rows() {
            let cell = |column: usize| number_at(batch.column(column), row);
            let key = (cell(1).unwrap(), cell(0).unwrap());
            assert!(before < Some(key), "rows come in the order of numbers");
            before = Some(key);
            rows.sizes.insert(key, cell(2));
        }
    }
    rows
}

/// Keys are found one by one, in the owner and in its map.
fn check_points(snapshot: &Snapshot, tables: &Tables, model: &Model) {
    for number in 0..4_i64 {
        let file = (format!("host{}", number % 2), number);
        let mentioned = file_keys(tables, std::slice::from_ref(&file));
        let codec = KeyCodec::primary(&tables.file_map).unwrap();
        let key = Key::new(codec.encode(&mentioned.rows).unwrap().row(0).data());
        let keys = [key];
        let found = block_on(snapshot.get(tables.file_map.id, &keys, &[2], &[])).unwrap();
        let id = (found.num_rows() > 0).then(|| number_at(found.column(0), 0).unwrap());
        assert_eq!(id, model.file_ids.get(&file).copied(), "{file:?}");
        let found = block_on(snapshot.get(tables.files.id, &keys, &[0], &[])).unwrap();
        let id = (found.num_rows() > 0).then(|| number_at(found.column(0), 0).unwrap());
        assert_eq!(
            id,
            model.rows.files.get(&file).map(|(id, _)| *id),
            "{file:?}"
        );
    }
}

fn file_key() -> impl Strategy<Value = FileKey> {
    (0..12_i64).prop_map(|number| (format!("host{}", number % 2), number))
}

fn change() -> impl Strategy<Value = Change> {
    let user = || proptest::option::of(0..9_i64);
    prop_oneof![
        6 => (file_key(), 0..4_i64, user()).prop_map(|(file, n, user)| Change::Size(file, n, user)),
        1 => (file_key(), 0..4_i64).prop_map(|(file, n)| Change::DeleteSize(file, n)),
        2 => (file_key(), 0..9_i64).prop_map(|(file, note)| Change::File(file, note)),
        1 => file_key().prop_map(Change::DeleteFile),
    ]
}

/// What a story does between batches.
#[derive(Debug, Clone)]
enum Act {
    Batch(Vec<Change>),
    Seal,
    Sorted,
    Authority,
    /// Which stage stands still, if any.
    Pause(Option<StageName>),
    Reopen,
    /// A read that pins what there is, and is looked at again at the end.
    Hold,
}

fn act() -> impl Strategy<Value = Act> {
    let stage = prop_oneof![
        Just(None),
        Just(Some(StageName::Remap)),
        Just(Some(StageName::Sort)),
        Just(Some(StageName::Merge)),
    ];
    prop_oneof![
        8 => proptest::collection::vec(change(), 1..10).prop_map(Act::Batch),
        4 => Just(Act::Seal),
        2 => Just(Act::Sorted),
        1 => Just(Act::Authority),
        2 => stage.prop_map(Act::Pause),
        1 => Just(Act::Reopen),
        1 => Just(Act::Hold),
    ]
}

fn run_story(acts: Vec<Act>) {
    let store = Arc::new(MemoryStore::without_history());
    let keep = keeping();
    let mut instance = open(Arc::clone(&store) as _, keep.clone()).unwrap();
    let tables = Tables::create(&instance);
    let mut model = Model::new();
    let mut boundaries: Vec<(ScuNumber, Rows)> = Vec::new();
    let mut held: Vec<(Snapshot, Rows)> = Vec::new();
    let mut paused = None;
    for act in acts {
        match act {
            Act::Batch(batch) => {
                commit(&instance, &tables, &batch);
                model.apply(&tables, &batch);
            }
            Act::Seal => {
                let sealed = block_on(instance.seal()).unwrap();
                if boundaries.last().is_none_or(|(scu, _)| *scu < sealed) {
                    boundaries.push((sealed, model.rows.clone()));
                }
            }
            Act::Sorted if paused.is_none() => {
                block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
            }
            Act::Authority if paused.is_none() => {
                block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
                let snapshot = fresh(&instance, Freshness::BestEffort);
                assert_eq!(read(&snapshot, &tables), model.rows);
            }
            Act::Sorted | Act::Authority => {}
            Act::Pause(stage) => {
                pause(&instance, stage.as_slice());
                paused = stage;
            }
            Act::Reopen => {
                held.clear();
                block_on(instance.close()).unwrap();
                instance = open(Arc::clone(&store) as _, keep.clone()).unwrap();
                paused = None;
            }
            Act::Hold => held.push((fresh(&instance, Freshness::ZERO), model.rows.clone())),
        }
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert_eq!(read(&snapshot, &tables), model.rows);
        check_points(&snapshot, &tables, &model);
    }
    for (snapshot, rows) in &held {
        assert_eq!(read(snapshot, &tables), *rows, "a snapshot that was held");
    }
    for (scu, rows) in &boundaries {
        let snapshot = at(&instance, *scu).unwrap();
        assert_eq!(read(&snapshot, &tables), *rows, "as of SCU {scu}");
    }
    pause(&instance, &[]);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let manifest = instance.manifest();
    for (map, next) in [
        (&tables.file_map, &model.next_file),
        (&tables.user_map, &model.next_user),
    ] {
        assert_eq!(
            manifest.next_ids_at(map.id, manifest.sealed_through),
            Some(next.clone())
        );
    }
    close_whole(&instance);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_stage_and_horizon_gives_the_naive_models_numbers(
        acts in proptest::collection::vec(act(), 1..24),
    ) {
        run_story(acts);
    }
}

/// Batches of a fixed story.
fn batch(round: i64) -> Vec<Change> {
    let file = |number: i64| (format!("host{}", number % 2), number % 12);
    (0..8)
        .map(|at| match (round + at) % 5 {
            0 => Change::File(file(round + at), round),
            1 => Change::DeleteFile(file(round * at)),
            2 => Change::DeleteSize(file(round * at), at % 4),
            _ => Change::Size(file(round * 3 + at), at % 4, Some((round * at) % 9)),
        })
        .collect()
}

#[test]
fn after_a_power_cut_the_numbers_are_those_that_were_told() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), settings()).unwrap();
    let tables = Tables::create(&instance);
    let mut model = Model::new();
    let mut acknowledged = vec![(store.operations(), model.rows.clone())];
    for round in 0..10 {
        commit(&instance, &tables, &batch(round));
        model.apply(&tables, &batch(round));
        acknowledged.push((store.operations(), model.rows.clone()));
        assert_eq!(
            read(&fresh(&instance, Freshness::ZERO), &tables),
            model.rows
        );
        match round % 4 {
            3 => block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap(),
            1 => block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap(),
            _ => drop(block_on(instance.seal()).unwrap()),
        }
    }
    block_on(instance.close()).unwrap();
    let operations = store.operations();
    let stride = match std::env::var("LAZYBASE_EVERY_CASE").is_ok() {
        true => 1,
        false => 9,
    };
    for cut in (acknowledged[0].0..operations).step_by(stride) {
        let image = store.crash_image(cut, Unsynced::Prefix(cut as u64));
        let instance = open(Arc::new(image) as Arc<dyn Store>, settings()).unwrap();
        let tables = Tables::of(&instance);
        let sure = acknowledged.iter().rposition(|(after, _)| *after <= cut);
        let sure = sure.unwrap();
        let possible = &acknowledged[sure..acknowledged.len().min(sure + 2)];
        let first = read(&fresh(&instance, Freshness::ZERO), &tables);
        let told = possible.iter().any(|(_, rows)| *rows == first);
        assert!(told, "after operation {cut}");
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        let settled = read(&fresh(&instance, Freshness::ZERO), &tables);
        assert_eq!(settled, first, "after operation {cut}");
        block_on(instance.close()).unwrap();
    }
}

/// The log of an SCU mentions keys of all ranges of their map, whichever range is compared.
#[test]
fn a_key_map_of_several_ranges_is_what_its_logs_make_of_it() {
    let settings = Settings {
        range_split_bytes: 512,
        ..keeping()
    };
    let instance = open(Arc::new(MemoryStore::without_history()), settings).unwrap();
    let tables = Tables::create(&instance);
    let mut model = Model::new();
    let sizes = |host: &str, numbers: std::ops::Range<i64>| -> Vec<Change> {
        let size = |number| Change::Size((host.to_owned(), number), 0, None);
        numbers.map(size).collect()
    };
    for host in ["a", "b"] {
        let keys = sizes(host, 0..150);
        commit(&instance, &tables, &keys);
        model.apply(&tables, &keys);
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    }
    let map = tables.file_map.id;
    let ranges = instance.manifest().tables[&map].ranges.len();
    assert!(ranges > 1, "the map is cut");
    // Keys of one range that are known, and then new ones of another.
    let mixed = [sizes("b", 0..150), sizes("a", 1000..1150)].concat();
    commit(&instance, &tables, &mixed);
    model.apply(&tables, &mixed);
    let scu = block_on(instance.seal()).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let report = block_on(instance.verify_table("files", 1.0, &|_| {})).unwrap();
    assert_eq!(report.differing().count(), 0, "{report:?}");
    let of_map = report.checks.iter().filter(|check| {
        check.of == tables.file_map.name && check.stage == "sorted" && check.span.last == scu
    });
    let mut rows = 0;
    for check in of_map {
        assert_eq!(check.outcome, Outcome::Same, "{report:?}");
        rows += check.rows;
    }
    assert!(rows > 0, "{report:?}");
    let rows = read(&fresh(&instance, Freshness::ZERO), &tables);
    assert_eq!(rows, model.rows);
    close_whole(&instance);
}

#[test]
fn numbers_that_were_given_out_stay_given_out_in_what_is_restored() {
    let target = MemoryStore::without_history();
    let env = |store: &MemoryStore| Env::system(Arc::new(store.clone()) as Arc<dyn Store>);
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let tables = Tables::create(&instance);
    let mut model = Model::new();
    let mut past = BTreeMap::new();
    for round in 0..6 {
        commit(&instance, &tables, &batch(round));
        model.apply(&tables, &batch(round));
        block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
        past.insert(instance.manifest().sorted_through, model.rows.clone());
        if round == 3 {
            block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        }
    }
    block_on(instance.backup(&env(&target), &|_| {})).unwrap();
    block_on(instance.close()).unwrap();
    let newest = *past.keys().next_back().unwrap();
    for (scu, rows) in &past {
        let store = MemoryStore::without_history();
        let request = RestoreRequest {
            at: Some(AsOf::Scu(*scu)),
            ..RestoreRequest::default()
        };
        block_on(restore(&target, &env(&store), request, &|_| {})).unwrap();
        let instance = open(Arc::new(store), keeping()).unwrap();
        let tables = Tables::of(&instance);
        let restored = read(&fresh(&instance, Freshness::ZERO), &tables);
        assert_eq!(restored, *rows, "SCU {scu}");
        commit(&instance, &tables, &batch(40));
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        let after = read(&fresh(&instance, Freshness::ZERO), &tables);
        if *scu == newest {
            let mut model = model.clone();
            model.apply(&tables, &batch(40));
            assert_eq!(after, model.rows);
        }
        // No number stands for two keys, and none of then stands for another key now.
        let ids: Vec<i64> = after.files.values().map(|(id, _)| *id).collect();
        let distinct: std::collections::BTreeSet<i64> = ids.iter().copied().collect();
        assert_eq!(ids.len(), distinct.len(), "SCU {scu}");
        for (key, (id, _)) in &after.files {
            let then = model.file_ids.iter().find(|(_, known)| *known == id);
            let same = then.is_none_or(|(known, _)| known == key);
            assert!(same, "SCU {scu}: {key:?} has number {id}");
        }
        close_whole(&instance);
    }
}
