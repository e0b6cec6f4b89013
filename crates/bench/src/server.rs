//! The benchmark of the server: `lazybase serve` as its clients meet it, beside PostgreSQL where
//! there is one, and beside what the same work costs without a network.
//!
//! ```text
//!   this process --- sockets ---> lazybase serve     point reads, COPY, large answers, load
//!       |        \-- sockets ---> postgres           the same, with the same client
//!       |-- in process ---------> the engine         its log alone, and parsing alone
//!       '-- sockets ------------> a bare Flight server that sends batches from memory
//! ```
//!
//! All of them share the same two cores, one works at a time, and every ratio is of one run.
//! Writes folders of its own, removed at the end. Figures and goals: `docs/benchmarks/server.md`.

mod connections;
mod copying;
mod flight;
mod goals;
mod hosts;
mod mixed;
mod parsing;
pub(crate) mod reopen;
mod results;
mod rows;
mod shares;
mod socket;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::Outcome;
use goals::Goals;
use hosts::{LazyBase, Postgres, binary, postgres_folder};
use rows::Rows;
use socket::Socket;

/// What `server` is asked for.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// A short run over few rows: shows that everything works, and rough figures.
    #[arg(long)]
    quick: bool,
    /// Rows of the table [default: 300000].
    #[arg(long)]
    rows: Option<u64>,
    /// Rows a second that come in while others read [default: 50000].
    #[arg(long)]
    rate: Option<u64>,
    /// How long each rate of reads is measured, in seconds; reads while rows come in six times as
    /// long [default: 20].
    #[arg(long)]
    seconds: Option<u64>,
    /// Only these measurements.
    #[arg(long, value_enum, value_delimiter = ',')]
    measure: Vec<Part>,
    /// The server's program [default: `lazybase` beside this one].
    #[arg(long)]
    lazybase: Option<PathBuf>,
    /// The folder of PostgreSQL's programs (initdb, postgres) [default: where `pg_config` or PATH
    /// have them].
    #[arg(long, env = "LAZYBASE_BENCH_POSTGRES")]
    postgres: Option<PathBuf>,
    /// Measures nothing of PostgreSQL.
    #[arg(long)]
    no_postgres: bool,
    /// Where to write; the data goes into folders of its own there, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The last line is one JSON object with all figures.
    #[arg(long)]
    json: bool,
    /// Fail when a figure misses its goal.
    #[arg(long)]
    pub(crate) check: bool,
}

/// The parts of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// COPY FROM of wide rows.
    Copy,
    /// Point reads by prepared statement.
    Points,
    /// Flight ingest.
    Ingest,
    /// Large answers.
    Results,
    /// Ingest, stages and queries, each beside the others.
    Shares,
    /// Many connections, idle and busy.
    Connections,
    /// Reads while rows come in.
    Mixed,
}

impl ServerArgs {
    fn wants(&self, part: Part) -> bool {
        self.measure.is_empty() || self.measure.contains(&part)
    }

    fn rows(&self) -> u64 {
        self.rows
            .unwrap_or(if self.quick { 20_000 } else { 300_000 })
    }

    /// Rows of a large answer: a gibibyte.
    fn result_rows(&self) -> u64 {
        let least = if self.quick { 0 } else { 1_000_000 };
        self.rows().max(least)
    }

    fn rate(&self) -> u64 {
        self.rate.unwrap_or(if self.quick { 2_000 } else { 50_000 })
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(if self.quick { 1 } else { 20 }))
    }

    /// How often what takes long is taken; the median counts.
    fn times(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }
}

/// What all measurements share.
struct World<'a> {
    args: &'a ServerArgs,
    goals: Goals,
    rows: Rows,
    folder: PathBuf,
    lazybase: LazyBase,
    postgres: Option<Postgres>,
}

/// Runs what is asked for; whether every figure meets its goal.
pub(crate) fn run(args: &ServerArgs) -> Outcome<bool> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new()
        .prefix("lazybase-server-")
        .tempdir_in(&parent)?;
    let goals = Goals::new(goals::OF_SERVER);
    goals.note(&hosts::pin_to_two_cores());
    let program = binary(args.lazybase.as_deref())?;
    let lazybase = LazyBase::start(&program, &folder.path().join("served"))?;
    let postgres = match args.no_postgres {
        true => Err("it was not asked for".to_owned()),
        false => postgres_folder(args.postgres.as_deref()),
    };
    let postgres = match postgres {
        Ok(programs) => Some(Postgres::start(&programs, &parent)?),
        Err(why) => {
            goals.note(&format!("nothing is compared with PostgreSQL: {why}"));
            None
        }
    };
    let mut world = World {
        args,
        goals,
        rows: Rows::new(args.rows())?,
        folder: folder.path().to_owned(),
        lazybase,
        postgres,
    };
    if let Some(postgres) = &world.postgres {
        world.goals.note(&format!(
            "beside {} with its defaults",
            Socket::connect(&postgres.address)?.value("SELECT version()")?
        ));
    }
    // The table of all that follows.
    copying::measure(&mut world)?;
    if args.wants(Part::Points) {
        connections::points(&world)?;
    }
    if args.wants(Part::Ingest) {
        flight::ingest(&world)?;
    }
    if args.wants(Part::Results) {
        results::measure(&world)?;
    }
    if args.wants(Part::Shares) {
        shares::measure(&world)?;
    }
    if args.wants(Part::Mixed) {
        mixed::measure(&world)?;
    }
    // Last: rows come into the table meanwhile.
    if args.wants(Part::Connections) {
        connections::many(&world)?;
    }
    world.lazybase.stop()?;
    if let Some(postgres) = world.postgres {
        postgres.stop()?;
    }
    world.goals.tell(args.json);
    Ok(world.goals.all_met())
}
