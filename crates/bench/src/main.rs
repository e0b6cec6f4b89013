//! The benchmarks (`lazybase-bench`): what each figure means, and its target,
//! stand in `docs/benchmarks/README.md`.
//!
//! ```text
//!   stages: disk, memory             of the machine, once; then for each shape of rows:
//!           codecs                   one core
//!           load -> points -> scans -> rising -> uniform     one table, in its default layout
//!           load -> points           another one, in the layout for them
//!           ingest                   the log alone
//!           kernels                  one core
//! ```
//!
//! Reads nothing but its own seed; writes a folder of its own, removed at the end, and figures:
//! each as a line when it is known, all in a table or as one line of JSON at the end.

#![recursion_limit = "256"]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]

mod base;
mod complex;
mod data;
mod ingest;
mod kernels;
mod labels;
mod limits;
mod machine;
mod pipeline;
mod points;
mod report;
mod scans;
mod server;
mod stages;
mod ycsb;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

/// Batches and messages are made on one thread and dropped on another, and most are small.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What a measurement gives, or why it could not be taken.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(name = "lazybase-bench", about = "Measures LazyBase on this machine")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every stage by itself, the whole way, and reads, beside the machine's own limits.
    Stages(stages::StagesArgs),
    /// The paper's complex schema: three tables joined by an ID key, stage after stage.
    Complex(complex::ComplexArgs),
    /// What labels of rows and cells cost on the way in and in scans.
    Labels(labels::LabelsArgs),
    /// YCSB's workloads A to F, against a server that speaks PostgreSQL's protocol.
    Ycsb(ycsb::YcsbArgs),
    /// `lazybase serve` as its clients meet it, beside PostgreSQL where there is one.
    Server(server::ServerArgs),
    /// Opening again after a crash under load, with ten gigabytes in the database.
    Reopen(server::reopen::ReopenArgs),
}

fn main() -> ExitCode {
    let outcome = match &Cli::parse().command {
        Command::Stages(args) => stages::run(args).map(|met| met || !args.check),
        Command::Complex(args) => complex::run(args).map(|()| true),
        Command::Labels(args) => labels::run(args).map(|()| true),
        Command::Ycsb(args) => ycsb::run(args).map(|()| true),
        Command::Server(args) => server::run(args).map(|met| met || !args.check),
        Command::Reopen(args) => server::reopen::run(args).map(|met| met || !args.check),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("a figure misses its target");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("lazybase-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
