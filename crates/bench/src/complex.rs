//! The benchmark of the complex schema (section 4.5 of the paper): TestID, TestOne and TestTwo,
//! joined by a 64-bit ID key, one stage after the other over SCUs of one size.
//!
//! ```text
//!   two SCUs, one after the other: ingest | seal | remap (assign, rewrite) | sort | settle
//!   a map of many keys, then an SCU that mentions them by Zipf's law: remap alone
//! ```
//!
//! All other stages are paused while one is measured. Rows come from a seed and are made while no
//! clock runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use arrow::datatypes::DataType;
use clap::Args;
use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo, StageName, TableSpec};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::read::Identifier;
use lazybase_engine::segment::RowLayout;
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_engine::stages::remap::{KeyedChanges, MentionedKeys};
use lazybase_model::id_key::temporary_id;
use lazybase_model::{Column, IdKeyColumn, Table};
use serde_json::{Map, Value};

use crate::Outcome;
use crate::base;
use crate::data::Seeded;

/// What `complex` is asked for.
#[derive(Debug, Args)]
pub(crate) struct ComplexArgs {
    /// Rows of an SCU, for each run.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 8_000_000])]
    scu_rows: Vec<u64>,
    /// Keys in the map before lookups are measured.
    #[arg(long, default_value_t = 50_000_000)]
    map_keys: u64,
    /// Mentions in an SCU of lookups.
    #[arg(long, default_value_t = 2_000_000)]
    mentions: u64,
    /// Seeds the rows.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to write; the data goes into a folder of its own there, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The last line is one JSON object with all figures.
    #[arg(long)]
    json: bool,
}

/// Rows of a key: one of TestID, one of TestOne, six of TestTwo.
const ROWS_PER_KEY: u64 = 8;
/// Attributes of a key in TestTwo.
const ATTRIBUTES: i32 = 6;
/// Keys of a batch.
const BATCH_KEYS: u64 = 8_192;
/// Keys of a batch that loads the map.
const LOAD_KEYS: u64 = 65_536;
/// Of a hundred mentions in an SCU of lookups, those of keys that the map holds.
const KNOWN_PERCENT: u64 = 90;

/// Runs everything; the figures at the end.
pub(crate) fn run(args: &ComplexArgs) -> Outcome<()> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent)?;
    let folder = tempfile::tempdir_in(&parent)?;
    let mut figures = Figures::default();
    for rows in &args.scu_rows {
        let at = folder.path().join(format!("stages-{rows}"));
        stages(args, *rows, &at, &mut figures)?;
        std::fs::remove_dir_all(&at)?;
    }
    lookups(args, &folder.path().join("lookups"), &mut figures)?;
    if args.json {
        println!("{}", Value::Object(figures.0));
    }
    Ok(())
}

/// Figures by name; the last value of a name counts.
#[derive(Default)]
struct Figures(Map<String, Value>);

impl Figures {
    fn add(&mut self, name: &str, of: u64, count: u64, took: Duration) {
        let rate = count as f64 / took.as_secs_f64();
        let seconds = took.as_secs_f64();
        eprintln!("{name} of {of}: {rate:.0} ({count} in {seconds:.2} s)");
        self.0.insert(name.to_owned(), rate.round().into());
        self.0.insert(format!("{name}_{of}"), rate.round().into());
    }
}

/// The tables, and the key map of the first.
struct Tables {
    id: Arc<Table>,
    map: Arc<Table>,
    one: Arc<Table>,
    two: Arc<Table>,
}

impl Tables {
    fn create(instance: &Instance) -> Outcome<Tables> {
        let made = |name: &str, columns: Vec<Column>, key: &[&str]| -> Outcome<Arc<Table>> {
            let spec = TableSpec::new(name, columns, key);
            let table = block_on(instance.create_table(spec, false))?;
            table.ok_or_else(|| "the table was there already".into())
        };
        let own = Column {
            id_key: Some(IdKeyColumn::OWN),
            nullable: false,
            ..Column::new("id", DataType::Int64)
        };
        let name = Column::new("name", DataType::Utf8);
        let id = made("test_id", vec![own, name], &["name"])?;
        let (_, map) = id.owned_id().ok_or("the owner owns an ID key")?;
        let map = Arc::clone(&instance.manifest().tables[&map].table);
        let reference = Column {
            id_key: Some(IdKeyColumn {
                map: map.id,
                owner: id.id,
            }),
            ..Column::new("id", DataType::Int64)
        };
        let text = Column::new("string_data", DataType::Utf8);
        let number = |name: &str| Column::new(name, DataType::Int32);
        let columns = vec![reference.clone(), text, number("int_data")];
        let one = made("test_one", columns, &["id"])?;
        let columns = vec![reference, number("attribute"), number("value")];
        let two = made("test_two", columns, &["id", "attribute"])?;
        Ok(Tables { id, map, one, two })
    }
}

/// The rows of some keys, ready to be appended.
struct Rows {
    changes: Vec<(Arc<Table>, KeyedChanges)>,
}

impl Rows {
    /// All rows of the keys of these numbers.
    fn of_keys(tables: &Tables, keys: std::ops::Range<u64>, seeded: &mut Seeded) -> Outcome<Rows> {
        let names: Vec<String> = keys.clone().map(name).collect();
        let count = names.len() as u32;
        let ids = || -> ArrayRef {
            Arc::new(
                (0..count)
                    .map(|at| Some(temporary_id(at)))
                    .collect::<Int64Array>(),
            )
        };
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(&names));
        let data: Vec<String> = names
            .iter()
            .map(|_| format!("{:016x}", seeded.next()))
            .collect();
        let data: ArrayRef = Arc::new(StringArray::from_iter_values(&data));
        let numbers = |rows: u32, seeded: &mut Seeded| -> ArrayRef {
            let draw = |_| seeded.next() as i32;
            Arc::new(Int32Array::from_iter_values((0..rows).map(draw)))
        };
        let ints = numbers(count, seeded);
        let many = count * ATTRIBUTES as u32;
        let values = numbers(many, seeded);
        let of_each = |at: u32| (0..ATTRIBUTES).map(move |_| Some(temporary_id(at)));
        let repeated: ArrayRef = Arc::new((0..count).flat_map(of_each).collect::<Int64Array>());
        let attributes = (0..count).flat_map(|_| 0..ATTRIBUTES);
        let attributes: ArrayRef = Arc::new(Int32Array::from_iter_values(attributes));
        let keyed =
            |table: &Arc<Table>, columns: Vec<ArrayRef>| keyed(tables, table, columns, &texts);
        Ok(Rows {
            changes: vec![
                keyed(&tables.id, vec![ids(), Arc::clone(&texts)])?,
                keyed(&tables.one, vec![ids(), data, ints])?,
                keyed(&tables.two, vec![repeated, attributes, values])?,
            ],
        })
    }

    fn commit(self, instance: &Instance) -> Outcome<()> {
        block_on(async {
            let mut writer = instance.begin(None);
            for (table, changes) in self.changes {
                writer.append_keyed(&table, changes).await?;
            }
            writer.commit().await?;
            Ok(())
        })
    }
}

fn name(number: u64) -> String {
    format!("key/{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn keyed(
    tables: &Tables,
    table: &Arc<Table>,
    columns: Vec<ArrayRef>,
    names: &ArrayRef,
) -> Outcome<(Arc<Table>, KeyedChanges)> {
    let batch = |table: &Arc<Table>, columns| -> Outcome<_> {
        let layout = RowLayout::primary(table)?;
        Ok(arrow::array::RecordBatch::try_new(layout.schema, columns)?)
    };
    let places: ArrayRef = Arc::new(Int64Array::from(vec![0; names.len()]));
    let keys = MentionedKeys {
        map: Arc::clone(&tables.map),
        rows: batch(&tables.map, vec![Arc::clone(names), places])?,
    };
    let changes = KeyedChanges {
        changes: ChangeBatch::upserts(batch(table, columns)?, 0),
        keys: vec![keys],
    };
    Ok((Arc::clone(table), changes))
}

/// A database whose SCUs are as large as they are made, with all stages but ingest paused.
fn open(folder: &Path) -> Outcome<Instance> {
    std::fs::create_dir_all(folder)?;
    let settings = Settings {
        unsorted_bytes_max: 1 << 40,
        ..base::settings()
    };
    let instance = base::open(folder, settings)?;
    pause(&instance, true)?;
    Ok(instance)
}

fn pause(instance: &Instance, paused: bool) -> Outcome<()> {
    for stage in StageName::ALL {
        match paused {
            true => block_on(instance.pause(stage))?,
            false => block_on(instance.resume(stage))?,
        }
    }
    Ok(())
}

/// Lets one stage run until it has nothing left to do; how long its attempts took.
fn let_run(instance: &Instance, stage: StageName, done: impl Fn() -> bool) -> Outcome<Duration> {
    let before = last_task(instance);
    block_on(instance.resume(stage))?;
    while !done() {
        std::thread::sleep(Duration::from_millis(5));
    }
    block_on(instance.pause(stage))?;
    let finished = instance.status().finished;
    let of_stage = finished
        .iter()
        .filter(|ended| ended.task.stage == stage && ended.task.id.0 > before);
    let micros: u64 = of_stage.map(|ended| ended.elapsed_micros).sum();
    Ok(Duration::from_micros(micros))
}

fn last_task(instance: &Instance) -> u64 {
    let finished = instance.status().finished;
    finished
        .iter()
        .map(|ended| ended.task.id.0)
        .max()
        .unwrap_or(0)
}

/// Seals, then remaps: the time of assignment, and of rewriting every row.
fn remap(instance: &Instance) -> Outcome<(Duration, Duration)> {
    let sealed = block_on(instance.seal())?;
    let assign = let_run(instance, StageName::Remap, || {
        instance.manifest().remapped_through() >= sealed
    })?;
    let (ids, unsorted) = instance.identifier("benchmark");
    let start = Instant::now();
    for scu in &unsorted {
        block_on(rewrite(instance, &ids, scu))?;
    }
    Ok((assign, start.elapsed()))
}

async fn rewrite(instance: &Instance, ids: &Identifier, scu: &UnsortedScu) -> Outcome<()> {
    let manifest = instance.manifest();
    for batch in scu.prefix(u32::MAX) {
        for state in manifest.tables.values() {
            let layout = RowLayout::primary(&state.table)?;
            for place in Identifier::places(&state.table, &batch) {
                ids.read(&layout, scu, &batch, place).await?;
            }
        }
    }
    Ok(())
}

/// Each stage over the second of two SCUs: half of its keys are known from the first.
fn stages(args: &ComplexArgs, rows: u64, folder: &Path, figures: &mut Figures) -> Outcome<()> {
    let instance = open(folder)?;
    let tables = Tables::create(&instance)?;
    let mut seeded = Seeded::new(args.seed);
    let keys = rows / ROWS_PER_KEY;
    for round in 0..2 {
        let mut ingest = Duration::ZERO;
        let first = round * keys / 2;
        let mut next = first;
        while next < first + keys {
            let end = (next + BATCH_KEYS).min(first + keys);
            let batch = Rows::of_keys(&tables, next..end, &mut seeded)?;
            let start = Instant::now();
            batch.commit(&instance)?;
            ingest += start.elapsed();
            next = end;
        }
        let (assign, rewrite) = remap(&instance)?;
        let sealed = instance.manifest().sealed_through;
        let sort = let_run(&instance, StageName::Sort, || {
            instance.manifest().sorted_through >= sealed
        })?;
        let start = Instant::now();
        pause(&instance, false)?;
        block_on(instance.settle(None, SettleTo::Authority, &|_| {}))?;
        let merge = start.elapsed();
        pause(&instance, true)?;
        if round == 1 {
            figures.add("ingest_rows_s", rows, rows, ingest);
            figures.add("remap_rows_s", rows, rows, assign + rewrite);
            figures.add("sort_rows_s", rows, rows, sort);
            figures.add("merge_rows_s", rows, rows, merge);
        }
    }
    block_on(instance.close())?;
    Ok(())
}

/// Mentions of known keys, drawn by Zipf's law or uniformly, over a large map.
fn lookups(args: &ComplexArgs, folder: &Path, figures: &mut Figures) -> Outcome<()> {
    let instance = open(folder)?;
    let tables = Tables::create(&instance)?;
    pause(&instance, false)?;
    let mut seeded = Seeded::new(args.seed);
    let mut next = 0;
    while next < args.map_keys {
        let end = (next + LOAD_KEYS).min(args.map_keys);
        mention(&instance, &tables, next..end, &mut seeded)?;
        next = end;
    }
    block_on(instance.settle(None, SettleTo::Authority, &|_| {}))?;
    eprintln!("{} keys are in the map", args.map_keys);
    pause(&instance, true)?;
    let mut fresh = args.map_keys;
    for (name, zipf, mentions) in [
        ("remap_keys_uniform_s_core", false, args.mentions),
        ("remap_keys_small_scu_s_core", true, args.mentions / 20),
        ("remap_keys_s_core", true, args.mentions),
    ] {
        let mut left = mentions;
        while left > 0 {
            let count = left.min(LOAD_KEYS);
            let draw = |_| {
                if seeded.below(100) >= KNOWN_PERCENT {
                    fresh += 1;
                    return fresh;
                }
                match zipf {
                    true => rank(&mut seeded, args.map_keys),
                    false => seeded.below(args.map_keys),
                }
            };
            let drawn: Vec<u64> = (0..count).map(draw).collect();
            mention(&instance, &tables, drawn, &mut seeded)?;
            left -= count;
        }
        let (assign, rewrite) = remap(&instance)?;
        figures.add(name, mentions, mentions, assign + rewrite);
        pause(&instance, false)?;
        block_on(instance.settle(None, SettleTo::Authority, &|_| {}))?;
        pause(&instance, true)?;
    }
    block_on(instance.close())?;
    Ok(())
}

/// A rank below `count` by Zipf's law of exponent 1.
fn rank(seeded: &mut Seeded, count: u64) -> u64 {
    let uniform = (seeded.next() >> 11) as f64 / (1_u64 << 53) as f64;
    ((count as f64).powf(uniform) as u64).min(count) - 1
}

/// One batch of TestTwo whose rows mention these keys.
fn mention(
    instance: &Instance,
    tables: &Tables,
    keys: impl IntoIterator<Item = u64>,
    seeded: &mut Seeded,
) -> Outcome<()> {
    let names: Vec<String> = keys.into_iter().map(name).collect();
    let count = names.len() as u32;
    let ids = (0..count).map(|at| Some(temporary_id(at)));
    let ids: ArrayRef = Arc::new(ids.collect::<Int64Array>());
    let mut numbers = || -> ArrayRef {
        let draw = |_| seeded.next() as i32;
        Arc::new(Int32Array::from_iter_values((0..count).map(draw)))
    };
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(&names));
    let columns = vec![ids, numbers(), numbers()];
    let changes = vec![keyed(tables, &tables.two, columns, &names)?];
    Rows { changes }.commit(instance)
}
