//! The benchmark of the stages: every measurement in its order, for each shape of rows.
//!
//! The load comes first, while the process is fresh, because its memory is a figure; kernels come
//! last, because they hold their rows in memory.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lazybase_model::Layout;

use crate::Outcome;
use crate::base::Base;
use crate::data::{Pool, Shape};
use crate::pipeline::{FeedKind, Load};
use crate::report::Report;
use crate::{ingest, kernels, limits, pipeline, points, scans};

/// What `stages` is asked for.
#[derive(Debug, Args)]
pub(crate) struct StagesArgs {
    /// A short run over little data: shows that everything works, and rough figures.
    #[arg(long)]
    quick: bool,
    /// Only this shape of rows.
    #[arg(long, value_enum)]
    only: Option<ShapeName>,
    /// Only these measurements.
    #[arg(long, value_enum, value_delimiter = ',')]
    measure: Vec<Measurement>,
    /// Rows of the table that reads and the pipeline are measured on [default: 10 million].
    #[arg(long)]
    rows: Option<u64>,
    /// How long rows come in, for each kind of stream [default: 10].
    #[arg(long)]
    minutes: Option<f64>,
    /// Rows a second that the pipeline is offered, of each kind; 0 for as many as it admits
    /// [default: 92000 wide rising, 22500 wide uniform; of narrow rows five times as many].
    #[arg(long)]
    rate: Option<f64>,
    /// Where to write; the data goes into a folder of its own there, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The last line is one JSON object with all figures.
    #[arg(long)]
    json: bool,
    /// Fail when a figure misses its target.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShapeName {
    Wide,
    Narrow,
}

/// The parts of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Measurement {
    /// Disk, memory and codecs of the machine.
    Limits,
    /// Loading the table; opening it again.
    Load,
    /// Point reads in the default layout, and in the layout for them.
    Points,
    /// Ranges and SQL.
    Scans,
    /// The whole way under a steady stream of rising keys.
    Rising,
    /// The whole way under a steady stream of keys drawn uniformly from the table's.
    Uniform,
    /// The log alone.
    Ingest,
    /// Sort and merge on one core.
    Kernels,
}

impl StagesArgs {
    fn wants(&self, measurement: Measurement) -> bool {
        self.measure.is_empty() || self.measure.contains(&measurement)
    }

    fn rows(&self, shape: Shape) -> u64 {
        self.rows.unwrap_or(match (self.quick, shape) {
            (false, _) => 10_000_000,
            (true, Shape::Wide) => 200_000,
            (true, Shape::Narrow) => 2_000_000,
        })
    }

    fn load(&self, shape: Shape, kind: FeedKind) -> Load {
        let minutes = self.minutes.unwrap_or(if self.quick { 0.25 } else { 10.0 });
        let wide = match kind {
            FeedKind::Rising => 92_000.0,
            FeedKind::Uniform => 22_500.0,
        };
        let rate = match shape {
            Shape::Wide => wide,
            Shape::Narrow => 5.0 * wide,
        };
        Load {
            kind,
            minutes,
            rate: self.rate.unwrap_or(rate),
        }
    }

    fn shapes(&self) -> Vec<Shape> {
        match self.only {
            None => vec![Shape::Wide, Shape::Narrow],
            Some(ShapeName::Wide) => vec![Shape::Wide],
            Some(ShapeName::Narrow) => vec![Shape::Narrow],
        }
    }
}

/// Runs what is asked for; whether every figure meets its target.
pub(crate) fn run(args: &StagesArgs) -> Outcome<bool> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new()
        .prefix("lazybase-bench-")
        .tempdir_in(&parent)?;
    let report = Report::default();
    if args.wants(Measurement::Limits) || args.wants(Measurement::Ingest) {
        limits::machine(&report, folder.path(), args.quick)?;
    }
    for shape in args.shapes() {
        run_shape(args, &report, shape, folder.path())?;
    }
    match args.json {
        true => {
            eprintln!("\n{}", report.table());
            println!("{}", report.json());
        }
        false => println!("\n{}", report.table()),
    }
    Ok(report.all_met())
}

/// Rows of one batch: about four million bytes, which is one frame of the log.
fn pool(shape: Shape) -> Pool {
    match shape {
        Shape::Wide => Pool::new(shape, 42, 16, 3_500),
        Shape::Narrow => Pool::new(shape, 42, 8, 150_000),
    }
}

fn run_shape(args: &StagesArgs, report: &Report, shape: Shape, folder: &Path) -> Outcome<()> {
    report.note(&format!("{} rows", shape.name()));
    let pool = pool(shape);
    let ratio = limits::lz4_ratio(&pool)?;
    report.limit(&format!("{}_lz4_ratio", shape.name()), ratio);
    if args.wants(Measurement::Limits) {
        limits::codecs(report, &pool)?;
    }
    let on_table = [
        Measurement::Load,
        Measurement::Points,
        Measurement::Scans,
        Measurement::Rising,
        Measurement::Uniform,
    ];
    if on_table.iter().any(|measurement| args.wants(*measurement)) {
        in_folder(folder, "scan", |folder| {
            on_scan_table(args, report, &pool, folder)
        })?;
    }
    if args.wants(Measurement::Points) {
        in_folder(folder, "point", |folder| {
            let rows = args.rows(shape);
            report.note(&format!("loading {rows} rows for point reads"));
            let base = Base::load(report, &pool, folder, rows, Layout::Point)?;
            points::measure(report, &pool, &base, Layout::Point, args.quick)
        })?;
    }
    if args.wants(Measurement::Ingest) {
        in_folder(folder, "ingest", |folder| {
            ingest::measure(report, &pool, folder, args.quick)
        })?;
    }
    if args.wants(Measurement::Kernels) {
        in_folder(folder, "kernels", |folder| {
            kernels::measure(report, &pool, folder, args.quick)
        })?;
    }
    Ok(())
}

/// What is measured on the table in its default layout.
fn on_scan_table(args: &StagesArgs, report: &Report, pool: &Pool, folder: &Path) -> Outcome<()> {
    let rows = args.rows(pool.shape());
    report.note(&format!("loading {rows} rows"));
    let base = Base::load(report, pool, folder, rows, Layout::Scan)?;
    if args.wants(Measurement::Load) {
        base.measure_open(report)?;
    }
    if args.wants(Measurement::Points) {
        points::measure(report, pool, &base, Layout::Scan, args.quick)?;
    }
    if args.wants(Measurement::Scans) {
        scans::measure(report, pool, &base, args.quick)?;
    }
    let streams = [
        (Measurement::Rising, FeedKind::Rising),
        (Measurement::Uniform, FeedKind::Uniform),
    ];
    for (measurement, kind) in streams {
        if args.wants(measurement) {
            report.note(&format!("the whole way, {kind:?} keys"));
            pipeline::measure(report, pool, &base, &args.load(pool.shape(), kind))?;
        }
    }
    Ok(())
}

/// Works in a folder that is there meanwhile.
fn in_folder(parent: &Path, name: &str, work: impl FnOnce(&Path) -> Outcome<()>) -> Outcome<()> {
    let folder = parent.join(name);
    std::fs::create_dir_all(&folder)?;
    let done = work(&folder);
    let removed = std::fs::remove_dir_all(&folder);
    // What failed first says more: a database that is still at work may keep the folder from going.
    done?;
    Ok(removed?)
}
