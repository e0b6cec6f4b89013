//! The binary `lazybase`: one shape for all commands, `lazybase --db DIR COMMAND`.
//!
//! Reads the arguments, opens the database, runs the command. Data goes to standard output;
//! progress, stamps and errors go to standard error. Invariant CLI-1: the exit status is 0 only
//! when everything that was asked has been done.

mod backup;
mod cli;
mod demo;
mod export;
mod failure;
mod figures;
mod inspect;
mod load;
mod measure;
mod names;
mod open;
mod pipeline;
mod render;
mod repair;
mod serve;
mod shell;
mod status;
mod verify;
mod wall;

use std::process::ExitCode;

use clap::Parser;
use lazybase_model::{Error, Result};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            failure::print(&error);
            failure::exit_code(&error)
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("lazybase")
        .build()
        .map_err(|error| Error::unavailable(format!("can't start threads: {error}")))?;
    let db = cli.db;
    let done = match cli.command {
        Command::Demo(args) => runtime.block_on(demo::run(db, args)),
        Command::Sql(args) => shell::run(&runtime, db, args),
        Command::Serve(args) => runtime.block_on(serve::run(db, args)),
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
    done.map(|()| ExitCode::SUCCESS)
}
