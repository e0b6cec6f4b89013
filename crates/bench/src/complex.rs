//! The benchmark of the complex schema (section 4.5 of the paper): TestID, TestOne and TestTwo,
//! joined by a 64-bit ID key, each with a secondary view.
//!
//! ```text
//!   stages:  two SCUs, one after the other: ingest | seal | remap | sort | settle
//!            with the views and without them, in turns, each in a database of its own
//!   lookups: a map of many keys, then SCUs that mention them: remap alone
//!   queries: by a view's key, settled, then with some rows updated and not merged
//! ```
//!
//! All other stages are paused while one is measured. Rows come from a seed and are made while no
//! clock runs. A figure is the median of its times; processor time is that of the whole process.

mod lookups;
mod queries;
mod stages;
mod world;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use crate::Outcome;
use crate::machine::Watch;
use crate::report::median;
use world::Took;

#[cfg(test)]
mod tests;

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
    /// Rows of the tables that are queried by their views' keys.
    #[arg(long, default_value_t = 8_000_000)]
    query_rows: u64,
    /// How often each figure is taken.
    #[arg(long, default_value_t = 3)]
    times: usize,
    /// Only these measurements.
    #[arg(long, value_enum, value_delimiter = ',')]
    measure: Vec<Part>,
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

/// The parts of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The paper's data set, stage after stage.
    Stages,
    /// Remap over a large key map.
    Lookups,
    /// Queries by views' keys.
    Queries,
}

impl ComplexArgs {
    fn wants(&self, part: Part) -> bool {
        self.measure.is_empty() || self.measure.contains(&part)
    }
}

/// Runs what is asked for; the figures at the end.
pub(crate) fn run(args: &ComplexArgs) -> Outcome<()> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new()
        .prefix("lazybase-complex-")
        .tempdir_in(&parent)?;
    let mut figures = Figures::default();
    let watch = Watch::start(folder.path());
    if args.wants(Part::Lookups) {
        lookups::measure(args, &folder.path().join("lookups"), &mut figures)?;
    }
    if args.wants(Part::Queries) {
        queries::measure(args, &folder.path().join("queries"), &mut figures)?;
    }
    if args.wants(Part::Stages) {
        for rows in &args.scu_rows {
            stages::measure(args, *rows, folder.path(), &mut figures)?;
        }
    }
    figures.add("memory_max_mib", watch.memory_mib());
    figures.add(
        "disk_max_mib",
        watch.disk_bytes() as f64 / f64::from(1 << 20),
    );
    if args.json {
        println!("{}", Value::Object(figures.0));
    }
    Ok(())
}

/// Figures by name; the last value of a name counts.
#[derive(Default)]
struct Figures(Map<String, Value>);

impl Figures {
    fn add(&mut self, name: &str, value: f64) {
        let digits = if value.abs() < 100.0 { 1e3 } else { 1.0 };
        let value = (value * digits).round() / digits;
        eprintln!("{name:<44} {value:>14}");
        self.0.insert(name.to_owned(), value.into());
    }

    /// A figure of a run of this size, which also stands for all smaller ones.
    fn add_of(&mut self, name: &str, of: u64, value: f64) {
        self.add(&format!("{name}_{of}"), value);
        self.0
            .insert(name.to_owned(), self.0[&format!("{name}_{of}")].clone());
    }
}

/// The median seconds that something took, on the wall and of the processors.
fn medians(times: &[Took]) -> (f64, f64) {
    let of = |seconds: fn(&Took) -> f64| median(&mut times.iter().map(seconds).collect::<Vec<_>>());
    (
        of(|took| took.wall.as_secs_f64()),
        of(|took| took.cpu.as_secs_f64()),
    )
}
