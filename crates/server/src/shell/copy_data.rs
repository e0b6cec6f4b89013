//! Scripts, and the data that follow a `COPY ... FROM STDIN` in them.
//!
//! ```text
//!   COPY t FROM STDIN;      <- a statement
//!   1,one                   <- data
//!   2,two
//!   \.                      <- ends the data; so does the end of the script
//!   SELECT count(*) FROM t; <- a statement again
//! ```
//!
//! Reads lines; memory holds one at a time. Invariant COPY-1: after Ctrl-C data have no end but an
//! error, so that nothing of them is kept.

use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lazybase_model::{Error, Result};
use lazybase_query::CopyInput;

use super::interrupt::Interrupt;
use crate::failure;

/// The line that ends the data.
const END_OF_DATA: &[u8] = b"\\.";

/// A text that is read line by line. Clones read on where the others are.
#[derive(Clone)]
pub(super) struct Script {
    input: Arc<Mutex<Input>>,
    standard_input: bool,
}

struct Input {
    bytes: Box<dyn BufRead + Send>,
    /// Lines that were read, those of data among them.
    lines: usize,
}

impl Script {
    /// A text from its beginning.
    pub(super) fn new(input: impl BufRead + Send + 'static) -> Script {
        Script {
            input: Arc::new(Mutex::new(Input {
                bytes: Box::new(input),
                lines: 0,
            })),
            standard_input: false,
        }
    }

    /// Standard input.
    pub(super) fn standard_input() -> Script {
        Script {
            standard_input: true,
            ..Script::new(BufReader::with_capacity(64 << 10, io::stdin()))
        }
    }

    /// Whether somebody types it.
    pub(super) fn is_terminal(&self) -> bool {
        self.standard_input && io::stdin().is_terminal()
    }

    /// The next line, without its end, and its number from 1; `None` at the end of the text.
    pub(super) fn line(&self) -> Result<Option<(String, usize)>> {
        let mut line = String::new();
        let mut input = self.lock();
        let read = input.bytes.read_line(&mut line);
        if read.map_err(|error| failure::io("script", &error))? == 0 {
            return Ok(None);
        }
        input.lines += 1;
        let end = line.trim_end_matches(['\n', '\r']).len();
        line.truncate(end);
        Ok(Some((line, input.lines)))
    }

    /// The data that follow a statement, up to their end or an interrupt.
    ///
    /// # Errors
    /// `Invalid` for data that are no lines amid a script.
    pub(super) fn copy_data(&self, kind: CopyInput, interrupt: &Interrupt) -> Result<CopyData> {
        if kind == CopyInput::Bytes && !self.standard_input {
            return Err(
                Error::invalid("Parquet and Arrow data can't stand in a script")
                    .with_hint("name the file: COPY t FROM 'file', or pipe it into sql -c"),
            );
        }
        Ok(CopyData {
            script: self.clone(),
            interrupt: interrupt.clone(),
            lines: kind == CopyInput::Lines,
            buffer: Vec::new(),
            at: 0,
            ended: false,
        })
    }

    /// Leaves out what is left of the data.
    pub(super) fn skip_copy_data(&self, kind: CopyInput, interrupt: &Interrupt) -> Result<()> {
        let mut data = self.copy_data(kind, interrupt)?;
        match io::copy(&mut data, &mut io::sink()) {
            Err(error) if !interrupt.is_set() => Err(failure::io("script", &error)),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Input> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The data of one `COPY ... FROM STDIN`.
pub(super) struct CopyData {
    script: Script,
    interrupt: Interrupt,
    /// Whether a line may end them.
    lines: bool,
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
}

impl CopyData {
    /// Takes the next line or stretch of bytes.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.clear();
        self.at = 0;
        self.uninterrupted()?;
        self.interrupt.waits(true);
        let taken = self.next_stretch();
        self.interrupt.waits(false);
        taken?;
        // What came since is the line that was waited for, or an end that nobody meant.
        self.uninterrupted().inspect_err(|_| self.buffer.clear())?;
        self.ended = self.buffer.is_empty();
        Ok(())
    }

    fn uninterrupted(&self) -> io::Result<()> {
        match self.interrupt.is_set() {
            true => Err(io::Error::other("cancelled by the user")),
            false => Ok(()),
        }
    }

    fn next_stretch(&mut self) -> io::Result<()> {
        let mut input = self.script.lock();
        if self.lines {
            input.bytes.read_until(b'\n', &mut self.buffer)?;
            input.lines += 1;
            let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line == END_OF_DATA {
                self.buffer.clear();
            }
        } else {
            let stretch = input.bytes.fill_buf()?;
            self.buffer.extend_from_slice(stretch);
            let taken = stretch.len();
            input.bytes.consume(taken);
        }
        Ok(())
    }
}

impl Read for CopyData {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let stretch = self.fill_buf()?;
        let taken = stretch.len().min(into.len());
        into[..taken].copy_from_slice(&stretch[..taken]);
        self.consume(taken);
        Ok(taken)
    }
}

impl BufRead for CopyData {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.buffer.len() && !self.ended {
            self.fill()?;
        }
        Ok(&self.buffer[self.at..])
    }

    fn consume(&mut self, taken: usize) {
        self.at += taken;
    }
}

#[cfg(test)]
mod tests;
