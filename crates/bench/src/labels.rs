//! What labels cost: the same rows with and without them, taken in, settled, and scanned by who
//! sees all and by who sees half of the labels.
//!
//! ```text
//!   tables:  plain | labels declared and left empty | labels of cells | labels of rows
//!   round:   each table, in turns:  append -> settle
//!            each reader:           a SELECT over each table, warm, in turns, several times
//!            all tables are dropped
//! ```
//!
//! Rows and labels come from a seed and are made before any clock runs. The first round warms up,
//! and each begins with another table. A ratio is to the table without labels in the same round,
//! so that what befalls the machine for longer than a round is in both; the median of the rounds
//! counts. Scans are measured only where they see what they should.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use clap::Args;
use lazybase_query::{Database, Op, OpenOptions, Session};
use serde_json::{Map, Value};

use crate::Outcome;
use crate::base::settings;
use crate::report::{median, rounded};

#[cfg(test)]
mod tests;

/// What `labels` is asked for.
#[derive(Debug, Args)]
pub(crate) struct LabelsArgs {
    /// A short run over few rows: shows that everything works, and rough figures.
    #[arg(long)]
    quick: bool,
    /// Rows of each table [default: 10000000].
    #[arg(long)]
    rows: Option<usize>,
    /// Rounds that count; of four, each table comes first once [default: 8].
    #[arg(long)]
    rounds: Option<usize>,
    /// How often each reader scans each table in a round [default: 15].
    #[arg(long)]
    scans: Option<usize>,
    /// How many labels there are.
    #[arg(long, default_value_t = 16)]
    labels: usize,
    /// Where to write; the data goes into a folder of its own there, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The last line is one JSON object with all figures.
    #[arg(long)]
    json: bool,
}

impl LabelsArgs {
    fn rows(&self) -> usize {
        let rows = if self.quick { 50_000 } else { 10_000_000 };
        self.rows.unwrap_or(rows)
    }

    fn rounds(&self) -> usize {
        let rounds = if self.quick { 1 } else { 8 };
        self.rounds.unwrap_or(rounds).max(1)
    }

    fn scans(&self) -> usize {
        let scans = if self.quick { 3 } else { 15 };
        self.scans.unwrap_or(scans).max(1)
    }
}

/// Rows of one batch.
const BATCH_ROWS: usize = 65_536;

/// A table of the comparison.
struct Table {
    name: &'static str,
    /// What is declared of the column.
    of_column: &'static str,
    /// What is declared of the table.
    of_table: &'static str,
    /// The column that labels are written to, if any are.
    labels: Option<&'static str>,
}

/// The first one is what the others are compared with.
const TABLES: [Table; 4] = [
    Table {
        name: "plain",
        of_column: "",
        of_table: "",
        labels: None,
    },
    Table {
        name: "unused",
        of_column: "WITH LABELS",
        of_table: "WITH (row_labels = true)",
        labels: None,
    },
    Table {
        name: "cells",
        of_column: "WITH LABELS",
        of_table: "",
        labels: Some("_label(value)"),
    },
    Table {
        name: "rows",
        of_column: "",
        of_table: "WITH (row_labels = true)",
        labels: Some("_label"),
    },
];

/// What was measured of a table in a round: seconds, and what it takes on disk.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    append: f64,
    /// From the first append until all is in the authority.
    settled: f64,
    scan_all: f64,
    scan_half: f64,
    mib: f64,
}

/// A figure of what a table took in a round.
type Figure = fn(&Took) -> f64;

/// Its parts: how their figures are called, in which unit, and what they are.
const PARTS: [(&str, &str, Figure); 5] = [
    ("append", "s", |took| took.append),
    ("settled", "s", |took| took.settled),
    ("scan_all", "s", |took| took.scan_all),
    ("scan_half", "s", |took| took.scan_half),
    ("size", "mib", |took| took.mib),
];

/// What was measured of all tables in a round.
type Round = [Took; TABLES.len()];

/// Runs the measurement; the figures at the end.
pub(crate) fn run(args: &LabelsArgs) -> Outcome<()> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new()
        .prefix("lazybase-labels-")
        .tempdir_in(&parent)?;
    let given = Given::new(args.rows(), args.labels.max(1));
    let runtime = tokio::runtime::Runtime::new()?;
    let rounds = runtime.block_on(async {
        let options = OpenOptions {
            settings: settings(),
            ..OpenOptions::default()
        };
        let database = Database::open_with(folder.path().join("db"), options).await?;
        let world = World {
            session: database.session(),
            database,
            given: &given,
            scans: args.scans(),
        };
        let mut rounds = Vec::with_capacity(args.rounds());
        for round in 0..=args.rounds() {
            let took = world.round(round).await?;
            if round > 0 {
                rounds.push(took);
            }
            eprintln!("# round {round} of {}", args.rounds());
        }
        world.database.close().await?;
        Outcome::Ok(rounds)
    })?;
    let figures = figures(&rounds);
    if args.json {
        println!("{}", Value::Object(figures));
    }
    Ok(())
}

/// The median figures: of the first table what was measured, of the others over that. Each is told
/// with the least and the greatest of its rounds.
fn figures(rounds: &[Round]) -> Map<String, Value> {
    let mut figures = Map::new();
    for (at, table) in TABLES.iter().enumerate() {
        for (part, unit, of) in PARTS {
            let (name, mut values): (String, Vec<f64>) = match at {
                0 => (
                    format!("{}_{part}_{unit}", table.name),
                    rounds.iter().map(|round| of(&round[0])).collect(),
                ),
                _ => (
                    format!("{}_{part}_ratio", table.name),
                    rounds
                        .iter()
                        .map(|round| of(&round[at]) / of(&round[0]))
                        .collect(),
                ),
            };
            let middle = median(&mut values);
            // They are in order now.
            let (least, most) = (values.first(), values.last());
            let (least, most) = (least.unwrap_or(&middle), most.unwrap_or(&middle));
            eprintln!("{name:<28} {middle:>10.3}   {least:.3} to {most:.3}");
            figures.insert(name, rounded(middle));
        }
    }
    figures
}

/// The rows of all tables, and what is to be seen of them.
struct Given {
    rows: usize,
    /// Batches of ids, parts, values, and labels for those tables that have some.
    batches: Vec<[ArrayRef; 4]>,
    /// The authorizations of who reads half of the labels.
    half: String,
    /// How many rows have one of these.
    of_half: usize,
}

impl Given {
    fn new(rows: usize, labels: usize) -> Given {
        let label_of = |row: usize| scattered(row) as usize % labels;
        let numbers = |rows: Range<usize>, of: fn(usize) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.map(of)))
        };
        let batch = |first: usize| -> [ArrayRef; 4] {
            let rows = first..(first + BATCH_ROWS).min(rows);
            let labels = rows.clone().map(|row| label(label_of(row)));
            [
                numbers(rows.clone(), |row| row as i64),
                numbers(rows.clone(), |row| (row % 1000) as i64),
                numbers(rows, |row| (scattered(row) >> 13) as i64),
                Arc::new(StringArray::from_iter_values(labels)),
            ]
        };
        let half: Vec<String> = (0..labels / 2).map(label).collect();
        Given {
            rows,
            batches: (0..rows).step_by(BATCH_ROWS).map(batch).collect(),
            half: half.join(","),
            of_half: (0..rows).filter(|row| label_of(*row) < labels / 2).count(),
        }
    }

    /// The batches of a table.
    fn batches_of(&self, table: &Table) -> Outcome<Vec<RecordBatch>> {
        let batches = self.batches.iter().map(|columns| {
            let names = ["id", "part", "value"].into_iter().chain(table.labels);
            RecordBatch::try_from_iter(names.zip(columns.iter().cloned()))
        });
        Ok(batches.collect::<Result<Vec<_>, _>>()?)
    }
}

/// The database of all rounds.
struct World<'g> {
    database: Database,
    session: Session,
    given: &'g Given,
    scans: usize,
}

impl World<'_> {
    async fn round(&self, round: usize) -> Outcome<Round> {
        let mut took = Round::default();
        for at in turn(round) {
            (took[at].append, took[at].settled) = self.load(&TABLES[at]).await?;
        }
        let of_all = self.scan_each("*", round).await?;
        let of_half = self.scan_each(&self.given.half, round).await?;
        self.session
            .execute("RESET lazybase.authorizations")
            .await?;
        for (at, table) in TABLES.iter().enumerate() {
            took[at].scan_all = of_all[at];
            took[at].scan_half = of_half[at];
            let name = table.name;
            let bytes =
                format!("SELECT CAST(bytes AS BIGINT) FROM lazybase.tables WHERE name = '{name}'");
            took[at].mib = self.number(&bytes).await? as f64 / f64::from(1 << 20);
            self.session.execute(&format!("DROP TABLE {name}")).await?;
        }
        Ok(took)
    }

    /// Makes a table of its rows: the seconds until all are acknowledged, and until they are
    /// settled.
    async fn load(&self, table: &Table) -> Outcome<(f64, f64)> {
        let Table {
            name,
            of_column,
            of_table,
            ..
        } = table;
        let create = format!(
            "CREATE TABLE {name} (id BIGINT PRIMARY KEY, part BIGINT, value BIGINT {of_column}) \
             {of_table}"
        );
        self.session.execute(&create).await?;
        let batches = self.given.batches_of(table)?;
        let started = Instant::now();
        for batch in &batches {
            let mut appender = self.database.appender();
            appender.append(name, batch, Op::Upsert).await?;
            appender.commit().await?;
        }
        let appended = started.elapsed().as_secs_f64();
        self.session.execute("SETTLE").await?;
        Ok((appended, started.elapsed().as_secs_f64()))
    }

    /// The median seconds of a scan of each table by whoever uses these authorizations.
    async fn scan_each(&self, authorizations: &str, round: usize) -> Outcome<[f64; TABLES.len()]> {
        let set = format!("SET lazybase.authorizations = '{authorizations}'");
        self.session.execute(&set).await?;
        for table in &TABLES {
            let sees_all = authorizations == "*" || table.labels.is_none();
            let wanted = match sees_all {
                true => self.given.rows,
                false => self.given.of_half,
            };
            // It warms up the table as well.
            let seen = self.number(&scan_of(table)).await?;
            if seen != wanted as i64 {
                let name = table.name;
                return Err(format!("{seen} values of {name} are seen, not {wanted}").into());
            }
        }
        let mut times: [Vec<f64>; TABLES.len()] = Default::default();
        for scan in 0..self.scans {
            for at in turn(round + scan) {
                let sql = scan_of(&TABLES[at]);
                let started = Instant::now();
                self.session.execute(&sql).await?;
                times[at].push(started.elapsed().as_secs_f64());
            }
        }
        Ok(times.map(|mut times| median(&mut times)))
    }

    /// The first value of the only row of a query.
    async fn number(&self, sql: &str) -> Outcome<i64> {
        let answers = self.session.execute(sql).await?;
        let batches = answers.iter().flat_map(|answer| &answer.batches);
        let mut rows = batches.filter(|batch| batch.num_rows() > 0);
        let numbers = rows.next().and_then(|batch| {
            let column = batch.column(0);
            column.as_primitive_opt::<Int64Type>()
        });
        match numbers {
            Some(numbers) => Ok(numbers.value(0)),
            None => Err(format!("no number is the answer of {sql}").into()),
        }
    }
}

/// The tables, from another one on each time.
fn turn(turn: usize) -> impl Iterator<Item = usize> {
    (0..TABLES.len()).map(move |at| (at + turn) % TABLES.len())
}

fn scan_of(table: &Table) -> String {
    let name = table.name;
    format!("SELECT count(value), sum(value), max(part) FROM {name}")
}

fn label(number: usize) -> String {
    format!("group{number}")
}

/// A number that looks like chance, the same for each run.
fn scattered(row: usize) -> u64 {
    let mixed = (row as u64 ^ 0x9E37_79B9).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 31)) >> 20
}
