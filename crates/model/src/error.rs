//! Errors, sorted by what the caller does next.
//!
//! An error is a short fact, then detail, then a hint. It is logged where it is handled, never
//! where it passes.

use std::fmt;

use crate::text_place::TextPlace;

/// The result of everything that can fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong: mend it and send it again. Nothing was changed.
    Invalid,
    /// The named thing is not there. Nothing was changed.
    NotFound,
    /// The named thing is there already, or another holds it (a folder, a producer's name).
    Conflict,
    /// The request can't be served now (disk full, memory, a stale bound): try later. Nothing was
    /// changed.
    Unavailable,
    /// A write whose fate is unknown: it may or may not have happened. Read back, or send it
    /// again under a producer number, which counts it once.
    MaybeHappened,
    /// Stored bytes are damaged, or were written by a newer version. Nothing false is returned;
    /// run `lazybase verify`, or restore.
    Corrupt,
    /// The snapshot that a reader held is gone. Start the query again.
    SnapshotTooOld,
    /// The reader or writer was told to stop.
    Cancelled,
    /// A bug: an invariant of the system did not hold.
    Internal,
}

/// The SQLSTATE of a read that the store refused.
pub const UNREADABLE: &str = "58030";

/// The SQLSTATE of a write that a full disk has refused.
pub const DISK_FULL: &str = "53100";

/// A short fact, with detail, hint and SQLSTATE where they help.
#[derive(Debug, Clone)]
pub struct Error(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    kind: ErrorKind,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    sqlstate: Option<&'static str>,
    file: Option<String>,
    offset: Option<u64>,
    name: Option<String>,
    place: Option<TextPlace>,
}

impl Error {
    /// An error of `kind` that says `message`: one line, no full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Parts {
            kind,
            message: message.into(),
            detail: None,
            hint: None,
            sqlstate: None,
            file: None,
            offset: None,
            name: None,
            place: None,
        }))
    }

    /// The request is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The named thing is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The named thing is there already, or somebody else holds it.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// Not now; nothing was changed.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Stored bytes can't be trusted.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// An invariant did not hold.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The same error with more about the case at hand.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// The same error with what the user could do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same error under the SQLSTATE that PostgreSQL's users know.
    #[must_use]
    pub fn with_sqlstate(mut self, sqlstate: &'static str) -> Self {
        self.0.sqlstate = Some(sqlstate);
        self
    }

    /// The same error, which concerns this stored file.
    #[must_use]
    pub fn with_file(mut self, file: impl Into<String>) -> Self {
        self.0.file = Some(file.into());
        self
    }

    /// The same error, which concerns its file from this offset on.
    #[must_use]
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// The same error, which concerns what a statement calls by this name: a table, a column, a
    /// function, a type. Names that come from anywhere else are not for this.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// The same error, which concerns this place of the statement's text.
    #[must_use]
    pub fn with_place(mut self, place: TextPlace) -> Self {
        self.0.place = Some(place);
        self
    }

    /// The same error of a statement that begins at `start` in another text, as an error of that.
    #[must_use]
    pub fn behind(mut self, start: TextPlace) -> Self {
        self.0.place = self.0.place.map(|place| place.behind(start));
        self
    }

    /// The same error for who has another text than the one that its place and its name stand in.
    #[must_use]
    pub fn elsewhere(mut self) -> Self {
        (self.0.name, self.0.place) = (None, None);
        self
    }

    /// The same error, its message preceded by where it happened.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The short fact.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// More about the case at hand.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// What the user could do.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The short fact with its detail in one line, and without the hint: for reports of many
    /// errors, which say themselves what can be done.
    pub fn fact(&self) -> String {
        match &self.0.detail {
            Some(detail) => format!("{} ({detail})", self.0.message),
            None => self.0.message.clone(),
        }
    }

    /// The stored file that it concerns, where one does.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// Where in its file, where that is known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// What it concerns, by the name that the statement has for it.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Where in the statement's text, where that is known.
    pub fn place(&self) -> Option<TextPlace> {
        self.0.place
    }

    /// The stored file whose bytes can't be had as they were written: damaged, missing, cut off,
    /// or refused by the disk.
    pub fn damaged_file(&self) -> Option<&str> {
        let unreadable = self.0.kind == ErrorKind::Corrupt || self.0.sqlstate == Some(UNREADABLE);
        self.file().filter(|_| unreadable)
    }

    /// The five-letter SQLSTATE; by kind where none was given.
    pub fn sqlstate(&self) -> &'static str {
        self.0.sqlstate.unwrap_or(match self.0.kind {
            ErrorKind::Invalid => "22000",
            ErrorKind::NotFound => "42704",
            ErrorKind::Conflict => "42710",
            ErrorKind::Unavailable => "53000",
            ErrorKind::MaybeHappened => "40003",
            ErrorKind::Corrupt => "XX001",
            ErrorKind::SnapshotTooOld => "72000",
            ErrorKind::Cancelled => "57014",
            ErrorKind::Internal => "XX000",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(detail) = &self.0.detail {
            write!(f, " ({detail})")?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "; hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
