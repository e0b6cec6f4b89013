//! The benchmarks (`lazybase-bench`): what each figure means, and its target,
//! stand in `docs/benchmarks/README.md`.
//!
//! ```text
//!   stages: limits -> ingest -> kernels -> base table -> points, scans -> pipeline
//!           (the machine)      (one core)  (generated)   (reads, idle)    (the whole way)
//! ```
//!
//! Reads nothing but its own seed; writes a folder of its own, removed at the end, and figures:
//! each as a line when it is known, all in a table or as one line of JSON at the end.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]

mod base;
mod data;
mod ingest;
mod kernels;
mod limits;
mod machine;
mod pipeline;
mod points;
mod report;
mod scans;
mod stages;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

fn main() -> ExitCode {
    let Command::Stages(args) = Cli::parse().command;
    match stages::run(&args) {
        Ok(all_met) if all_met || !args.check => ExitCode::SUCCESS,
        Ok(_) => {
            eprintln!("a figure misses its target");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("lazybase-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
