//! The tables of the complex schema in a database whose stages run one at a time, and their rows.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use futures::executor::block_on;
use lazybase_cluster::{Instance, SettleTo, StageName, TableSpec, ViewSpec};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::manifest::Ddl;
use lazybase_engine::segment::RowLayout;
use lazybase_engine::stages::remap::{KeyedChanges, MentionedKeys};
use lazybase_model::id_key::temporary_id;
use lazybase_model::{Column, IdKeyColumn, Layout, Table};

use crate::Outcome;
use crate::base;
use crate::data::Seeded;
use crate::machine::{process_cpu, threads_cpu};

/// Rows of a key: one of TestID, one of TestOne, six of TestTwo.
pub(super) const ROWS_PER_KEY: u64 = 8;
/// Attributes of a key in TestTwo.
pub(super) const ATTRIBUTES: u64 = 6;
/// Keys of a batch: 65,536 rows.
pub(super) const BATCH_KEYS: u64 = 8_192;

/// Wall time, and the processor time of the whole process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Took {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

impl std::fmt::Display for Took {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (wall, cpu) = (self.wall.as_secs_f64(), self.cpu.as_secs_f64());
        write!(f, "{wall:.3} s ({cpu:.3} s of cpu)")
    }
}

impl std::ops::Add for Took {
    type Output = Took;

    fn add(self, other: Took) -> Took {
        Took {
            wall: self.wall + other.wall,
            cpu: self.cpu + other.cpu,
        }
    }
}

/// Does something, and tells what it took.
pub(super) fn took<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Took)> {
    let before = (process_cpu(), threads_cpu());
    let start = Instant::now();
    let done = work()?;
    let wall = start.elapsed();
    let spent = |before: Option<Duration>, after: Option<Duration>| match (before, after) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => Duration::ZERO,
    };
    let process = spent(before.0, process_cpu());
    let threads = spent(before.1, threads_cpu());
    // Threads that ended meanwhile count in the former alone, which is coarse.
    let cpu = match process > threads + 2 * TICK {
        true => process,
        false => threads,
    };
    Ok((done, Took { wall, cpu }))
}

/// What the process's time is counted in.
const TICK: Duration = Duration::from_millis(10);

/// A database, and the tables in it.
#[derive(Clone)]
pub(super) struct World {
    pub(super) instance: Instance,
    pub(super) tables: Tables,
}

impl World {
    /// A new one, its stages paused.
    pub(super) fn create(folder: &Path, views: bool) -> Outcome<World> {
        std::fs::create_dir_all(folder)?;
        let instance = base::open(folder, base::settings())?;
        let tables = Tables::create(&instance)?;
        if views {
            tables.create_views(&instance)?;
        }
        let world = World { instance, tables };
        world.pause(true)?;
        Ok(world)
    }

    /// The tables of a database that has them.
    pub(super) fn open(instance: &Instance) -> Outcome<World> {
        let id = instance.table("test_id")?;
        let (_, map) = id.owned_id().ok_or("the owner owns an ID key")?;
        let tables = Tables {
            map: Arc::clone(&instance.manifest().tables[&map].table),
            id,
            one: instance.table("test_one")?,
            two: instance.table("test_two")?,
        };
        let instance = instance.clone();
        Ok(World { instance, tables })
    }

    /// Pauses all stages, or lets them go on.
    pub(super) fn pause(&self, paused: bool) -> Outcome<()> {
        for stage in StageName::ALL {
            match paused {
                true => block_on(self.instance.pause(stage))?,
                false => block_on(self.instance.resume(stage))?,
            }
        }
        Ok(())
    }

    /// Lets one stage run until it has done what it can; what that took.
    pub(super) fn run(&self, stage: StageName, done: impl Fn() -> bool) -> Outcome<Took> {
        let ((), took) = took(|| {
            block_on(self.instance.resume(stage))?;
            while !done() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })?;
        block_on(self.instance.pause(stage))?;
        Ok(took)
    }

    /// Seals the open SCU and gives out its numbers.
    pub(super) fn remap(&self) -> Outcome<Took> {
        let sealed = block_on(self.instance.seal())?;
        self.run(StageName::Remap, || {
            self.instance.manifest().remapped_through() >= sealed
        })
    }

    /// Sorts what is remapped.
    pub(super) fn sort(&self) -> Outcome<Took> {
        let sealed = self.instance.manifest().sealed_through;
        self.run(StageName::Sort, || {
            self.instance.manifest().sorted_through >= sealed
        })
    }

    /// Brings everything into the authority, views included.
    pub(super) fn settle(&self) -> Outcome<Took> {
        let ((), took) = took(|| {
            self.pause(false)?;
            block_on(self.instance.settle(None, SettleTo::Authority, &|_| {}))?;
            Ok(())
        })?;
        self.pause(true)?;
        Ok(took)
    }

    /// Commits the rows as one batch.
    pub(super) fn commit(&self, rows: Rows) -> Outcome<()> {
        block_on(async {
            let mut writer = self.instance.begin(None);
            for (table, changes) in rows.0 {
                writer.append_keyed(&table, changes).await?;
            }
            writer.commit().await?;
            Ok(())
        })
    }

    /// Commits all rows of these keys in batches, which are made before the clock runs.
    pub(super) fn ingest(&self, keys: Range<u64>, seeded: &mut Seeded) -> Outcome<Took> {
        let mut batches = Vec::new();
        let mut next = keys.start;
        while next < keys.end {
            let end = (next + BATCH_KEYS).min(keys.end);
            batches.push(self.tables.rows_of(next..end, seeded)?);
            next = end;
        }
        let commit = || batches.into_iter().try_for_each(|rows| self.commit(rows));
        took(commit).map(|((), took)| took)
    }

    pub(super) fn close(self) -> Outcome<()> {
        Ok(block_on(self.instance.close())?)
    }
}

/// The tables, and the key map of the first.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) id: Arc<Table>,
    pub(super) map: Arc<Table>,
    pub(super) one: Arc<Table>,
    pub(super) two: Arc<Table>,
}

/// The rows of a batch, ready to be appended.
pub(super) struct Rows(Vec<(Arc<Table>, KeyedChanges)>);

impl Tables {
    fn create(instance: &Instance) -> Outcome<Tables> {
        let made = |name: &str, columns: Vec<Column>, key: &[&str]| -> Outcome<Arc<Table>> {
            let spec = TableSpec {
                name: name.to_owned(),
                columns,
                key: key.iter().map(|name| (*name).to_owned()).collect(),
                layout: Layout::Scan,
                comment: None,
                partitioning: None,
                ttl: None,
                freshness_target_micros: None,
                row_labels: false,
            };
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

    /// TestID by its number, TestOne by its text, TestTwo by its values; all columns.
    fn create_views(&self, instance: &Instance) -> Outcome<()> {
        let views: [(&Arc<Table>, &str, &[&str]); 3] = [
            (&self.id, "test_id_by_id", &["id", "name"]),
            (&self.one, "test_one_by_text", &["string_data", "id"]),
            (
                &self.two,
                "test_two_by_value",
                &["value", "id", "attribute"],
            ),
        ];
        for (table, name, key) in views {
            let spec = ViewSpec {
                name: name.to_owned(),
                columns: None,
                key: key.iter().map(|name| (*name).to_owned()).collect(),
            };
            let view = instance.define_view(table, &spec)?.as_ref().clone();
            block_on(instance.commit(vec![Ddl::CreateView { view }], None))?;
        }
        Ok(())
    }

    /// All rows of the keys of these numbers.
    pub(super) fn rows_of(&self, keys: Range<u64>, seeded: &mut Seeded) -> Outcome<Rows> {
        let count = (keys.end - keys.start) as u32;
        let names = names(keys);
        let ids = || temporary_ids(0..count);
        let repeated = temporary_ids((0..count).flat_map(|at| [at; ATTRIBUTES as usize]));
        let attributes = (0..count).flat_map(|_| 0..ATTRIBUTES as i32);
        let attributes: ArrayRef = Arc::new(Int32Array::from_iter_values(attributes));
        let (one, two) = (count as usize, (u64::from(count) * ATTRIBUTES) as usize);
        let of_id = vec![ids(), Arc::clone(&names)];
        let of_one = vec![ids(), texts(one, seeded), numbers(one, seeded)];
        let of_two = vec![repeated, attributes, numbers(two, seeded)];
        Ok(Rows(vec![
            self.keyed(&self.id, of_id, &names)?,
            self.keyed(&self.one, of_one, &names)?,
            self.keyed(&self.two, of_two, &names)?,
        ]))
    }

    /// Rows of the owner alone.
    pub(super) fn owners(&self, names: &ArrayRef) -> Outcome<Rows> {
        let ids = temporary_ids(0..names.len() as u32);
        let rows = self.keyed(&self.id, vec![ids, Arc::clone(names)], names)?;
        Ok(Rows(vec![rows]))
    }

    /// One row of TestTwo for each of these keys.
    pub(super) fn mentions(&self, names: &ArrayRef, seeded: &mut Seeded) -> Outcome<Rows> {
        let count = names.len();
        let ids = temporary_ids(0..count as u32);
        let columns = vec![ids, numbers(count, seeded), numbers(count, seeded)];
        Ok(Rows(vec![self.keyed(&self.two, columns, names)?]))
    }

    /// Whole rows of TestOne and TestTwo, with other values: of TestTwo these attributes.
    pub(super) fn upserts(
        &self,
        ones: &[u64],
        twos: &[(u64, i32)],
        seeded: &mut Seeded,
    ) -> Outcome<Rows> {
        let (count, names_one) = (ones.len(), names(ones.iter().copied()));
        let ids = temporary_ids(0..count as u32);
        let of_one = vec![ids, texts(count, seeded), numbers(count, seeded)];
        let (count, names_two) = (twos.len(), names(twos.iter().map(|(key, _)| *key)));
        let ids = temporary_ids(0..count as u32);
        let attributes = Int32Array::from_iter_values(twos.iter().map(|(_, at)| *at));
        let of_two = vec![ids, Arc::new(attributes), numbers(count, seeded)];
        Ok(Rows(vec![
            self.keyed(&self.one, of_one, &names_one)?,
            self.keyed(&self.two, of_two, &names_two)?,
        ]))
    }

    /// Updates of TestOne's integer and nothing else.
    pub(super) fn updates(&self, ones: &[u64], seeded: &mut Seeded) -> Outcome<Rows> {
        let (count, names) = (ones.len(), names(ones.iter().copied()));
        let ids = temporary_ids(0..count as u32);
        let nothing: ArrayRef = Arc::new(StringArray::new_null(count));
        let columns = vec![ids, nothing, numbers(count, seeded)];
        let (table, mut keyed) = self.keyed(&self.one, columns, &names)?;
        let data = keyed.changes.data;
        let kind = lazybase_model::change::StoredKind::UPDATE;
        keyed.changes = ChangeBatch::alike(data, kind, Some(&[2]), 0);
        Ok(Rows(vec![(table, keyed)]))
    }

    fn keyed(
        &self,
        table: &Arc<Table>,
        columns: Vec<ArrayRef>,
        names: &ArrayRef,
    ) -> Outcome<(Arc<Table>, KeyedChanges)> {
        let batch = |table: &Arc<Table>, columns| -> Outcome<RecordBatch> {
            let layout = RowLayout::primary(table)?;
            Ok(RecordBatch::try_new(layout.schema, columns)?)
        };
        let places: ArrayRef = Arc::new(Int64Array::from(vec![0; names.len()]));
        let keys = MentionedKeys {
            map: Arc::clone(&self.map),
            rows: batch(&self.map, vec![Arc::clone(names), places])?,
            generated: Vec::new(),
        };
        let changes = KeyedChanges {
            changes: ChangeBatch::upserts(batch(table, columns)?, 0),
            keys: vec![keys],
            generated: Vec::new(),
        };
        Ok((Arc::clone(table), changes))
    }
}

/// The natural keys of these numbers, which scatter in the order of keys.
pub(super) fn names(keys: impl IntoIterator<Item = u64>) -> ArrayRef {
    names_of(keys.into_iter().map(scattered))
}

/// Where a key of this number stands in the order of keys.
pub(super) fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The natural keys at these places in their order: 20 bytes.
pub(super) fn names_of(places: impl IntoIterator<Item = u64>) -> ArrayRef {
    let name = |place: u64| format!("key/{place:016x}");
    Arc::new(StringArray::from_iter_values(places.into_iter().map(name)))
}

fn temporary_ids(places: impl IntoIterator<Item = u32>) -> ArrayRef {
    let ids = places.into_iter().map(temporary_id);
    Arc::new(Int64Array::from_iter_values(ids))
}

fn texts(count: usize, seeded: &mut Seeded) -> ArrayRef {
    let texts = (0..count).map(|_| format!("{:016x}", seeded.next()));
    Arc::new(StringArray::from_iter_values(texts))
}

fn numbers(count: usize, seeded: &mut Seeded) -> ArrayRef {
    let numbers = (0..count).map(|_| seeded.next() as i32);
    Arc::new(Int32Array::from_iter_values(numbers))
}
