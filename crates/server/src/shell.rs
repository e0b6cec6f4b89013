//! `lazybase sql`: statements from `-c`, files, standard input, or a terminal.
//!
//! ```text
//!   -c, -f, stdin --feed--> statements and commands --> execute --> render to stdout
//!   terminal  --reedline--^                              stamps, tags, notices to stderr
//! ```
//!
//! Invariant SHELL-1: outside a terminal the first error ends the run with a failing status, and
//! a transaction that is still open at the end is an error, since it was not done.

mod commands;
mod complete;
mod copy_data;
mod execute;
mod feed;
mod interactive;
mod interrupt;
mod meta;
mod pointer;
mod target;
mod waiting;

use std::fs::File;
use std::io::{self, BufReader, Cursor, IsTerminal};
use std::path::PathBuf;

use lazybase_model::{Error, Freshness, Result};
use tokio::runtime::Runtime;

use crate::cli::{Format, SqlArgs};
use crate::failure;
use crate::open::{self, Missing};
use crate::wire::Wire;
use copy_data::Script;
use feed::{Feed, Item};
use target::{Here, Target};
use waiting::WaitBar;

/// One user's shell: a session and how its results are shown.
pub(crate) struct Shell {
    target: Target,
    format: Format,
    timing: bool,
    /// Whether each row is written as lines of its own, however narrow.
    records: bool,
    quiet: bool,
    colour_out: bool,
    colour_err: bool,
    wait: WaitBar,
    /// Whether an error says on which line of the script its statement or command begins.
    tells_lines: bool,
    /// The troubles of the database that the user has been told of.
    troubles_told: Vec<String>,
    /// What follows a `COPY ... FROM STDIN`: the script itself, or standard input.
    data: Script,
}

/// What to do after a statement or command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Quit,
}

/// Runs the command.
pub(crate) fn run(runtime: &Runtime, db: Option<PathBuf>, args: SqlArgs) -> Result<()> {
    if let Some(url) = &args.url {
        let wire = runtime.block_on(Wire::connect(url))?;
        return serve(runtime, Target::There(Box::new(wire)), args);
    }
    let database = runtime.block_on(open::database(db, Missing::Create))?;
    let here = Here {
        database: database.clone(),
        session: database.session(),
    };
    let outcome = serve(runtime, Target::Here(Box::new(here)), args);
    runtime.block_on(open::close(&database, outcome))
}

fn serve(runtime: &Runtime, target: Target, args: SqlArgs) -> Result<()> {
    let colour = std::env::var_os("NO_COLOR").is_none();
    let mut shell = Shell {
        target,
        format: args.format,
        timing: false,
        records: false,
        quiet: args.quiet,
        colour_out: colour && io::stdout().is_terminal(),
        colour_err: colour && io::stderr().is_terminal(),
        wait: WaitBar::default(),
        tells_lines: false,
        troubles_told: Vec::new(),
        data: Script::standard_input(),
    };
    if let (Target::Here(here), false) = (&shell.target, args.quiet) {
        let wait = shell.wait.clone();
        here.session.on_progress(move |share| wait.show(share));
    }
    if let Some(bound) = &args.freshness {
        let bound: Freshness = bound.parse()?;
        runtime.block_on(shell.set(&meta::set_freshness(bound)))?;
    }
    if !args.command.is_empty() {
        for text in &args.command {
            let statements = Script::new(Cursor::new(text.clone().into_bytes()));
            runtime.block_on(shell.run_script(&statements))?;
        }
        return shell.end();
    }
    if !args.file.is_empty() {
        for path in &args.file {
            let opened = File::open(path).map_err(|error| failure::io(path.display(), &error))?;
            shell.data = Script::new(BufReader::new(opened));
            shell.tells_lines = true;
            let run = runtime.block_on(shell.run_script(&shell.data.clone()));
            run.map_err(|error| error.within(path.display()))?;
        }
        return shell.end();
    }
    if io::stdin().is_terminal() {
        return interactive::run(runtime, shell);
    }
    shell.tells_lines = true;
    runtime.block_on(shell.run_script(&shell.data.clone()))?;
    shell.end()
}

impl Shell {
    /// Runs statements and commands line by line, so that a script of any length streams.
    async fn run_script(&mut self, script: &Script) -> Result<()> {
        let mut feed = Feed::new(lazybase_query::is_complete);
        while let Some((line, number)) = script.line()? {
            if let Some(item) = feed.line(&line, number)
                && self.run_item(item).await? == Next::Quit
            {
                return Ok(());
            }
        }
        match feed.rest() {
            Some(item) => self.run_item(item).await.map(drop),
            None => Ok(()),
        }
    }

    async fn run_item(&mut self, item: Item) -> Result<Next> {
        match item {
            Item::Command { text, line } => {
                let run = self.run_command(&text).await;
                run.map_err(|error| self.at_line(error, line))
            }
            Item::Sql { text, line } => {
                self.run_statements(&text, line).await?;
                Ok(Next::Continue)
            }
        }
    }

    /// Tells what went wrong in the background since the last time, such as damage that was healed.
    fn tell_troubles(&mut self) {
        let Target::Here(here) = &self.target else {
            return;
        };
        let troubles = here.database.instance().status().troubles;
        let messages: Vec<String> = troubles
            .into_iter()
            .map(|trouble| trouble.message)
            .collect();
        for message in &messages {
            if !self.troubles_told.contains(message) {
                self.remark(&format!("trouble: {message}"));
            }
        }
        self.troubles_told = messages;
    }

    /// The end of a run that nobody watched.
    fn end(mut self) -> Result<()> {
        self.tell_troubles();
        if self.target.in_transaction() {
            return Err(Error::invalid("the last transaction was not committed")
                .with_detail("the statements ended inside it, so it was rolled back")
                .with_hint("end with COMMIT"));
        }
        Ok(())
    }
}
