//! The binary `lazybase`: one shape for all commands, `lazybase --db DIR COMMAND`.
//!
//! Reads the arguments, opens the database, runs the command. Data goes to standard output;
//! progress, stamps and errors go to standard error. Invariant CLI-1: the exit status is 0 only
//! when everything that was asked has been done.

#![recursion_limit = "256"]

mod backup;
mod cli;
mod demo;
mod export;
mod figures;
mod http;
mod inspect;
mod load;
mod logs;
mod measure;
mod metrics;
mod names;
mod open;
mod pipeline;
mod process;
mod render;
mod repair;
mod role;
mod serve;
mod shell;
mod status;
mod traces;
mod verify;
mod wire;

use std::process::ExitCode;

use clap::Parser;
use lazybase_engine::env::planted::can_be_planted;
use lazybase_model::{Error, Result};
use lazybase_server::{config, failure, pages, source, wall};
use mimalloc::MiMalloc;
use tokio::runtime::{Builder, Runtime};

/// Batches and messages are made on one thread and dropped on another, and most are small.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

// No build that makes mistakes on purpose is let near anybody's data.
const _: () = assert!(!can_be_planted());

use crate::cli::{Cli, Command};
use crate::config::Config;

/// The stack of a thread, in bytes: what a statement of the greatest depth takes, and room; twice
/// that where nothing is optimised.
const STACK_BYTES: usize = if cfg!(debug_assertions) {
    16 << 20
} else {
    8 << 20
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match wall::on_a_stack(STACK_BYTES, || run(cli)) {
        Ok(code) => code,
        Err(error) => {
            // Whoever reads no more data wants no words either.
            if !failure::is_unread(&error) {
                failure::print(&error);
            }
            failure::exit_code(&error)
        }
    }
}

/// As many threads as there are cores, for tasks that may use what is enabled.
fn threads(name: &str, enable: fn(&mut Builder) -> &mut Builder) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    enable(&mut builder)
        .thread_name(name)
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|error| Error::unavailable(format!("can't start threads: {error}")))
}

fn run(cli: Cli) -> Result<ExitCode> {
    let runtime = threads("lazybase", Builder::enable_all)?;
    runtime.block_on(async { process::prepare() })?;
    let given = match &cli.command {
        Command::Serve(args) => Some(&args.given),
        _ => None,
    };
    let config = Config::read(cli.db, cli.config, given)?;
    let db = config.db.clone();
    let done = match cli.command {
        Command::Demo(args) => runtime.block_on(demo::run(db, args)),
        Command::Sql(args) => shell::run(&runtime, db, args),
        Command::Serve(args) => {
            let heavy = threads("lazybase-heavy", Builder::enable_time)?;
            let threads = heavy.handle().clone();
            let served = runtime.block_on(serve::run(config, args.print_config, threads));
            heavy.shutdown_background();
            served
        }
        Command::Role(args) => runtime.block_on(role::run(db, args)),
        Command::Load(args) => runtime.block_on(load::run(db, args)),
        Command::Export(args) => runtime.block_on(export::run(db, args)),
        Command::Status(args) => runtime.block_on(status::run(db, args)),
        Command::Inspect(args) => runtime.block_on(inspect::run(db, args)),
        Command::Verify(args) => runtime.block_on(verify::run(db, args)),
        Command::Repair(args) => return runtime.block_on(repair::run(db, args)),
        Command::Backup(args) => runtime.block_on(backup::run(db, args)),
        Command::Restore(args) => runtime.block_on(backup::restore(db, args)),
        Command::Bench(args) => runtime.block_on(measure::run(db, args)),
    };
    // A thread that waits for a pipe would keep the process from its end.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}
