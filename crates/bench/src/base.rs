//! A database with one table of generated rows, driven to its authority: what reads and the
//! pipeline are measured on. Loading it is the first figure of the whole way.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array};
use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo, TableSpec};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::Env;
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_model::{Layout, Table};

use crate::Outcome;
use crate::data::{Pool, Shape};
use crate::limits::megabytes;
use crate::machine::{Watch, disk_bytes, process_cpu, process_written};
use crate::report::Report;

/// The table's name.
pub(crate) const TABLE: &str = "rows";

/// A table of `rows` rows whose ids are 0, 1, 2, ...
pub(crate) struct Base {
    pub(crate) folder: PathBuf,
    pub(crate) shape: Shape,
    pub(crate) rows: u64,
}

/// A running database and its table.
pub(crate) struct Running {
    pub(crate) instance: Instance,
    pub(crate) table: Arc<Table>,
}

impl Running {
    /// Closes it; the folder is free for the next one only when the last handle is gone.
    pub(crate) fn close(self) -> Outcome<()> {
        Ok(block_on(self.instance.close())?)
    }
}

/// Settings of a measurement: the defaults, but nothing kept for readers of the past, so that
/// disk figures are about the data alone.
pub(crate) fn settings() -> Settings {
    Settings {
        retention: Duration::ZERO,
        ..Settings::default()
    }
}

/// Opens the database of a folder, makes it where there is none.
pub(crate) fn open(folder: &Path, settings: Settings) -> Outcome<Instance> {
    let env = Env::system(Arc::new(LocalStore::open(folder)?));
    Ok(block_on(Instance::open(env, settings))?)
}

/// Makes the table.
pub(crate) fn create(instance: &Instance, shape: Shape, layout: Layout) -> Outcome<Arc<Table>> {
    let spec = TableSpec {
        layout,
        ..TableSpec::new(TABLE, shape.columns(), &["id"])
    };
    let table = block_on(instance.create_table(spec, false))?;
    table.ok_or_else(|| "the table was there already".into())
}

/// Appends whole rows as one batch, acknowledged.
pub(crate) async fn append(
    running: &Running,
    pool: &Pool,
    at: usize,
    ids: Vec<i64>,
) -> Outcome<()> {
    let mut batch = running.instance.begin(None);
    batch
        .append(&running.table, ChangeBatch::upserts(pool.batch(at, ids), 0))
        .await?;
    batch.commit().await?;
    Ok(())
}

/// The encoded keys of these ids.
pub(crate) fn keys(table: &Table, ids: &[i64]) -> Outcome<Vec<Key>> {
    let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let encoded = KeyCodec::primary(table)?.encode_columns(&[ids])?;
    Ok((0..encoded.num_rows())
        .map(|at| Key::new(encoded.row(at).data()))
        .collect())
}

/// Bytes written by the whole pipeline since the database was opened: frames of its log, and what
/// attempts of all stages wrote.
pub(crate) fn bytes_written(instance: &Instance) -> u64 {
    let status = instance.status();
    let stages = status.work.values().map(|work| work.bytes_written);
    status.log_bytes_written + stages.sum::<u64>()
}

impl Base {
    /// Loads the table as fast as back pressure lets one writer, until all of it is in the
    /// authority. The figures of the load are those of the default layout.
    pub(crate) fn load(
        report: &Report,
        pool: &Pool,
        folder: &Path,
        rows: u64,
        layout: Layout,
    ) -> Outcome<Base> {
        std::fs::create_dir_all(folder)?;
        let instance = open(folder, settings())?;
        let table = create(&instance, pool.shape(), layout)?;
        let running = Running { instance, table };
        let watch = Watch::start(folder);
        let (cpu, given) = (process_cpu(), process_written());
        let start = Instant::now();
        for (at, first) in (0..rows).step_by(pool.rows()).enumerate() {
            let end = rows.min(first + pool.rows() as u64);
            block_on(append(
                &running,
                pool,
                at,
                (first as i64..end as i64).collect(),
            ))?;
        }
        let accepted = start.elapsed();
        block_on(running.instance.settle(None, SettleTo::Authority, &|_| {}))?;
        let settled = start.elapsed();
        let given = process_written() - given;
        if layout == Layout::Scan {
            let base = rows as f64;
            let figure = |name: &str, value| report.figure(pool.shape(), name, value);
            figure("load_accepted_rows_s", base / accepted.as_secs_f64());
            figure("load_rows_s", base / settled.as_secs_f64());
            if let (Some(before), Some(after)) = (cpu, process_cpu()) {
                let used = after.saturating_sub(before).as_secs_f64();
                figure("load_cores_used", used / settled.as_secs_f64());
            }
            let accepted_bytes = base * pool.row_bytes();
            let written = bytes_written(&running.instance) as f64;
            figure("load_write_amplification", written / accepted_bytes);
            figure("load_process_write_amplification", given / accepted_bytes);
            wait_for_collection(&running.instance)?;
            let on_disk = disk_bytes(folder);
            figure("rss_max_mib", watch.memory_mib());
            let peak = watch.disk_bytes().max(on_disk);
            figure("disk_ratio", peak as f64 / on_disk as f64);
            figure("settled_size_ratio", on_disk as f64 / accepted_bytes);
            figure("settled_mb", megabytes(on_disk as usize));
        }
        running.close()?;
        Ok(Base {
            folder: folder.to_owned(),
            shape: pool.shape(),
            rows,
        })
    }

    /// Opens it again under these settings.
    pub(crate) fn open(&self, settings: Settings) -> Outcome<Running> {
        let instance = open(&self.folder, settings)?;
        let table = instance.table(TABLE)?;
        Ok(Running { instance, table })
    }

    /// The milliseconds until a database of this size can be asked.
    pub(crate) fn measure_open(&self, report: &Report) -> Outcome<()> {
        let mut millis = Vec::new();
        for _ in 0..3 {
            let start = Instant::now();
            let running = self.open(settings())?;
            millis.push(start.elapsed().as_secs_f64() * 1e3);
            running.close()?;
        }
        report.figure(self.shape, "open_ms", crate::report::median(&mut millis));
        Ok(())
    }

    /// Reads every segment file once, so that the page cache holds what it can.
    pub(crate) fn warm(&self) -> Outcome<()> {
        for entry in std::fs::read_dir(self.folder.join("segments"))? {
            let mut file = std::fs::File::open(entry?.path())?;
            std::io::copy(&mut file, &mut std::io::sink())?;
        }
        Ok(())
    }
}

/// Waits until files that nothing names are gone: their grace, and a while.
pub(crate) fn wait_for_collection(instance: &Instance) -> Outcome<()> {
    let grace = lazybase_model::limits::DELETE_GRACE + Duration::from_secs(2);
    block_on(instance.env().clock.sleep(grace));
    Ok(())
}
