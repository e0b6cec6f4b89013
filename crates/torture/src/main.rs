//! `lazybase-torture`: the real binary with real clients, on a real disk, through kills, freezes,
//! full disks and damaged files; and a judge that trusts nothing but what the clients saw.
//!
//! ```text
//!   round: start -> writers, readers, stages held and let go
//!          -> kill | freeze | full disk | read-only disk | failing disk | stop
//!   between rounds: damage a file, start, ask, put all back | no start on a read-only disk
//!   at the end: all that is there -> the history's violations
//! ```
//!
//! Reads nothing but its seed; writes a folder of its own, which is kept with all that the server
//! said when anything is found. What it promises to find stands in `history.rs`; less than was
//! asked for is a failure.

#![expect(
    clippy::disallowed_methods,
    reason = "processes, clocks and files are real here"
)]

mod clients;
mod damage;
mod damaged;
mod disk;
mod ends;
mod history;
mod readers;
mod report;
mod rounds;
mod server;
mod tables;
mod trouble;
mod whole;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// What goes wrong in the torture itself.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Tortures a LazyBase binary, and checks what its clients saw.
#[derive(Debug, Parser)]
#[command(name = "lazybase-torture", version)]
pub(crate) struct Args {
    /// The program.
    #[arg(long, default_value = "target/debug/lazybase")]
    binary: PathBuf,
    /// How many rounds: each ends by a kill, a freeze, a disk that refuses or fails, or a stop.
    #[arg(long, default_value_t = 30)]
    rounds: u32,
    /// How many files are damaged, one at a time, between rounds: after a stop, or after a kill.
    #[arg(long, default_value_t = 15)]
    corruptions: u32,
    /// What the choices are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ends after so many seconds, and fails if anything is left.
    #[arg(long, default_value_t = 900)]
    seconds: u64,
    /// Where the database is made; a temporary folder if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Fails where no file system can be mounted, or none was full, read-only and failing.
    #[arg(long)]
    require_disk: bool,
    /// One line of JSON at the end, and nothing else on standard output.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(rounds::torture(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
