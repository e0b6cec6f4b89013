//! Runs statements and shows their answers: rows to standard output, all else to standard error.

use std::future::Future;
use std::io::{self, BufWriter, IsTerminal, Write};

use lazybase_model::{Error, ErrorKind, Result};
use lazybase_query::{CopyInput, split_script};

use super::interrupt::Interrupt;
use super::target::Answered;
use super::{Shell, Target, pointer};
use crate::cli::Format;
use crate::failure;
use crate::figures;
use crate::render::{ResultWriter, TableStyle};
use crate::wall::Stopwatch;
use crate::wire::may_be_kept;

impl Shell {
    /// Runs a text that the shell itself has written, which has no lines in a script.
    pub(super) async fn run_sql(&mut self, text: &str) -> Result<()> {
        let tells_lines = std::mem::replace(&mut self.tells_lines, false);
        let run = self.run_each(text, 1, false).await;
        self.tells_lines = tells_lines;
        run
    }

    /// Runs every statement of a user's text, up to the first error; it begins on `line` of a
    /// script.
    pub(super) async fn run_statements(&mut self, text: &str, line: usize) -> Result<()> {
        self.run_each(text, line, true).await
    }

    async fn run_each(&mut self, text: &str, line: usize, points: bool) -> Result<()> {
        let statements = split_script(text, line);
        let statements = statements.map_err(|error| self.at_line(error, line))?;
        for statement in statements {
            let stopwatch = Stopwatch::start();
            let run = until_interrupted(self.run_statement(&statement.text)).await;
            let run = run.unwrap_or_else(|| Err(self.given_up(&statement.text)));
            self.wait.clear();
            if run
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::Cancelled)
            {
                self.target.cancel().await;
            }
            run.map_err(|error| {
                let error = match points {
                    true => pointer::pointed(error, &statement),
                    false => error,
                };
                self.at_line(error, statement.line)
            })?;
            if self.timing {
                self.remark(&format!("time {}", figures::micros(stopwatch.micros())));
            }
        }
        Ok(())
    }

    /// The error of a statement that the user gave up.
    fn given_up(&self, statement: &str) -> Error {
        // A COMMIT that has begun has taken its transaction with it.
        match may_be_kept(statement, self.target.in_transaction()) {
            true => failure::cancelled_in_doubt(),
            false => failure::cancelled(),
        }
    }

    /// The error with the line of the script where its statement or command begins.
    pub(super) fn at_line(&self, error: Error, line: usize) -> Error {
        match self.tells_lines {
            true => error.within(format_args!("line {line}")),
            false => error,
        }
    }

    /// Writes rows as they come: a result may be larger than memory.
    async fn run_statement(&self, statement: &str) -> Result<()> {
        let mut answer = match lazybase_query::copy_input(statement) {
            Some(kind) => self.copy_from(statement, kind).await?,
            None => match &self.target {
                Target::There(wire) if sends_copy(statement) => {
                    let mut out = BufWriter::with_capacity(64 << 10, io::stdout());
                    Answered::There(wire.copy_out(statement, &mut out).await?)
                }
                target => target.query(statement).await?,
            },
        };
        if answer.returns_rows() {
            let mut writer = self.result_writer(answer.schema());
            while let Some(batch) = answer.next().await {
                writer.write(&batch?)?;
            }
            writer.finish()?;
        } else {
            while let Some(batch) = answer.next().await {
                batch?;
            }
            let told = answer.told();
            match told.token {
                Some(token) => self.remark(&format!("{}, token {token}", told.tag)),
                None => self.remark(&told.tag),
            }
        }
        let told = answer.told();
        for notice in told.notices {
            self.remark(&notice);
        }
        if let Some(stamp) = told.stamp {
            self.remark(&stamp);
        }
        Ok(())
    }

    /// Runs a statement whose answer nobody needs to see.
    pub(super) async fn set(&self, statement: &str) -> Result<()> {
        let mut answer = self.target.query(statement).await?;
        while let Some(batch) = answer.next().await {
            batch?;
        }
        Ok(())
    }

    /// Sends what follows the statement, up to the line that ends it.
    async fn copy_from(&self, statement: &str, kind: CopyInput) -> Result<Answered> {
        let typed = self.data.is_terminal();
        if typed {
            self.remark("give the rows, a line each; a line with \\. alone ends them");
        }
        let interrupt = Interrupt::default();
        let _listening = interrupt.listen(typed)?;
        let data = self.data.copy_data(kind, &interrupt)?;
        let copied = self.target.copy_from(statement, data).await;
        let in_doubt = |error: &Error| error.kind() == ErrorKind::MaybeHappened;
        if copied.as_ref().is_err_and(|error| !in_doubt(error)) && interrupt.is_set() {
            return Err(failure::cancelled());
        }
        if copied.is_err() && typed {
            // What is still to come are rows, and no statements.
            self.data.skip_copy_data(kind, &interrupt)?;
        }
        copied
    }

    fn result_writer(
        &self,
        schema: arrow::datatypes::SchemaRef,
    ) -> ResultWriter<BufWriter<io::Stdout>> {
        let style = TableStyle {
            colour: self.colour_out && self.format == Format::Table,
            width: terminal_width(),
            records: self.records,
        };
        let out = BufWriter::with_capacity(64 << 10, io::stdout());
        ResultWriter::new(self.format, schema, style, out)
    }

    /// A line about an answer: to standard error, dim where it is a terminal.
    pub(super) fn remark(&self, text: &str) {
        if self.quiet {
            return;
        }
        let line = match self.colour_err {
            true => format!("\u{1b}[2m{text}\u{1b}[0m\n"),
            false => format!("{text}\n"),
        };
        // Nobody can be told that standard error is gone.
        drop(io::stderr().lock().write_all(line.as_bytes()));
    }
}

/// Whether a statement is a COPY whose data come here.
fn sends_copy(statement: &str) -> bool {
    let words: Vec<String> = statement
        .split_whitespace()
        .map(str::to_ascii_uppercase)
        .collect();
    words.first().is_some_and(|word| word == "COPY")
        && words.windows(2).any(|pair| pair == ["TO", "STDOUT"])
}

/// The columns of the terminal that results go to, if they do.
fn terminal_width() -> Option<usize> {
    let terminal = io::stdout().is_terminal();
    let (columns, _) = terminal.then(crossterm::terminal::size)?.ok()?;
    (columns > 0).then_some(usize::from(columns))
}

/// Ends the statement when the user presses Ctrl-C, unless it is done: dropping it cancels it.
async fn until_interrupted<T>(statement: impl Future<Output = Result<T>>) -> Option<Result<T>> {
    tokio::select! {
        biased;
        outcome = statement => Some(outcome),
        _ = tokio::signal::ctrl_c() => None,
    }
}
