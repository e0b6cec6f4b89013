//! Errors as the command line shows them: the fact, then detail, then a hint, each on its line;
//! and the exit status that goes with each.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use arrow::error::ArrowError;
use lazybase_model::{Error, ErrorKind, Result};
use lazybase_query::{arrow_fact, parquet_fact};
use parquet::errors::ParquetError;

/// Writes an error to standard error, its first word red where that is a terminal.
pub fn print(error: &Error) {
    let mut text = text(error);
    if io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        text = text.replacen("error:", "\u{1b}[1;31merror:\u{1b}[0m", 1);
    }
    // Standard error that can't be written leaves nobody to tell.
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// Writes what is no error, in whole lines, to standard error.
pub fn note(text: &str) {
    // Standard error that can't be written leaves nobody to tell.
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// An error in up to three lines.
pub fn text(error: &Error) -> String {
    let mut text = format!("error: {}\n", error.message());
    if let Some(detail) = error.detail() {
        text += &format!("detail: {detail}\n");
    }
    if let Some(hint) = error.hint() {
        text += &format!("hint: {hint}\n");
    }
    text
}

/// The SQLSTATE by which what is given up for want of a reader differs from what somebody has
/// cancelled: that of a file that can't be written. `RowsFile` gives it too.
const UNREAD: &str = "58030";
/// The status of a program that the system ends because nobody reads what it writes.
const UNREAD_STATUS: u8 = 141;

/// 130 for what the user stopped and 141 for what nobody reads any more, as shells have it; 1 for
/// everything else.
pub fn exit_code(error: &Error) -> ExitCode {
    match error.kind() {
        _ if is_unread(error) => ExitCode::from(UNREAD_STATUS),
        ErrorKind::Cancelled => ExitCode::from(130),
        _ => ExitCode::FAILURE,
    }
}

/// What the user stopped with Ctrl-C.
pub fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled by the user")
}

/// The same of what may be kept all the same.
pub fn cancelled_in_doubt() -> Error {
    cancelled()
        .with_detail("whether what it wrote is kept is not known")
        .with_hint("look, or write under a producer's number, which counts once")
}

/// Whoever reads the data has ended, as `head` does once it has its lines: the work is given up.
pub fn unread() -> Error {
    Error::new(ErrorKind::Cancelled, "nobody reads the data any more").with_sqlstate(UNREAD)
}

/// Whether it is that of data that nobody reads any more.
pub fn is_unread(error: &Error) -> bool {
    error.kind() == ErrorKind::Cancelled && error.sqlstate() == UNREAD
}

/// A file of the user's that can't be read or written.
pub fn io(place: impl std::fmt::Display, error: &io::Error) -> Error {
    let message = format!("{place}: {error}");
    match error.kind() {
        io::ErrorKind::NotFound => Error::not_found(message),
        io::ErrorKind::AlreadyExists => Error::conflict(message),
        _ => Error::unavailable(message),
    }
}

/// Writes data to standard output, all of it.
///
/// # Errors
/// Where it can't be written.
pub fn write_data(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| stdout(&error))
}

/// Standard output that can't be written.
pub fn stdout(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => unread(),
        _ => io("standard output", error),
    }
}

/// A file of the user's that Arrow can't take or make.
pub fn arrow(place: impl std::fmt::Display, error: &ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) => io(place, source),
        _ => Error::invalid(format!("{place}: {}", arrow_fact(error))),
    }
}

/// A Parquet file of the user's that can't be taken or made.
pub fn parquet(place: impl std::fmt::Display, error: &ParquetError) -> Error {
    if let ParquetError::External(source) = error
        && let Some(source) = source.downcast_ref::<io::Error>()
    {
        return io(place, source);
    }
    Error::invalid(format!("{place}: {}", parquet_fact(error)))
}

#[cfg(test)]
mod tests;
