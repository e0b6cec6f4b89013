//! Errors as gRPC spells them: a status code by what the caller can do, the SQLSTATE in front of
//! the message, and everything in metadata for programs.

use arrow::error::ArrowError;
use arrow_flight::error::FlightError;
use lazybase_model::{Error, ErrorKind, TextPlace};
use serde_json::json;
use tonic::metadata::{BinaryMetadataValue, MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// The SQLSTATE of a session that has ended.
pub(crate) const SESSION_GONE: &str = "08003";

/// The longest message: headers have their limits.
const MESSAGE_BYTES_MAX: usize = 4096;

/// An error as a status.
pub(crate) fn status(error: &Error) -> Status {
    let (sqlstate, mut message) = (error.sqlstate(), cut(&error.to_string()));
    if let Some(TextPlace { line, column }) = error.place() {
        message += &format!(" (line {line}, column {column})");
    }
    let mut metadata = MetadataMap::new();
    if let Ok(value) = MetadataValue::try_from(sqlstate) {
        metadata.insert("lazybase-sqlstate", value);
    }
    let parts = json!({
        "kind": format!("{:?}", error.kind()),
        "sqlstate": sqlstate,
        "message": cut(error.message()),
        "detail": error.detail().map(cut),
        "hint": error.hint().map(cut),
        "line": error.place().map(|place| place.line),
        "column": error.place().map(|place| place.column),
    });
    let parts = BinaryMetadataValue::from_bytes(parts.to_string().as_bytes());
    metadata.insert_bin("lazybase-error-bin", parts);
    if sqlstate == SESSION_GONE || sqlstate == "28000" {
        crate::sessions::forget(&mut metadata);
    }
    Status::with_metadata(code(error), format!("[{sqlstate}] {message}"), metadata)
}

fn cut(text: &str) -> String {
    match text.len() > MESSAGE_BYTES_MAX {
        false => text.to_owned(),
        true => {
            let end = text.floor_char_boundary(MESSAGE_BYTES_MAX);
            format!("{}...", &text[..end])
        }
    }
}

/// The code that tells a client what it can do.
fn code(error: &Error) -> Code {
    let sqlstate = error.sqlstate();
    match error.kind() {
        _ if sqlstate == "0A000" => Code::Unimplemented,
        _ if sqlstate == SESSION_GONE || sqlstate.starts_with("28") => Code::Unauthenticated,
        _ if sqlstate == "42501" => Code::PermissionDenied,
        _ if sqlstate == "25P02" || sqlstate.starts_with("55") => Code::FailedPrecondition,
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Conflict if sqlstate.starts_with("42") => Code::AlreadyExists,
        ErrorKind::Conflict | ErrorKind::SnapshotTooOld => Code::Aborted,
        ErrorKind::Unavailable if sqlstate.starts_with("53") => Code::ResourceExhausted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::MaybeHappened => Code::Unknown,
        ErrorKind::Corrupt => Code::DataLoss,
        ErrorKind::Cancelled if sqlstate == TIMED_OUT.0 && error.message() == TIMED_OUT.1 => {
            Code::DeadlineExceeded
        }
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::Internal => Code::Internal,
    }
}

/// The SQLSTATE and the message of a statement that took too long.
const TIMED_OUT: (&str, &str) = ("57014", "the statement took longer than statement_timeout");

/// A statement that took too long.
pub(crate) fn timed_out() -> Error {
    Error::new(ErrorKind::Cancelled, TIMED_OUT.1).with_sqlstate(TIMED_OUT.0)
}

/// A message that Flight SQL does not know that way.
pub(crate) fn broken(message: impl Into<String>) -> Error {
    Error::invalid(message).with_sqlstate("08P01")
}

/// What Flight's own code finds wrong with what a client sent.
pub(crate) fn of_flight(error: FlightError) -> Error {
    match error {
        FlightError::Arrow(ArrowError::ExternalError(source)) => match source.downcast::<Error>() {
            Ok(error) => *error,
            Err(source) => broken(source.to_string()),
        },
        FlightError::Tonic(status) if status.code() == Code::OutOfRange => {
            broken(status.message()).with_hint("send smaller batches")
        }
        FlightError::Tonic(status) => {
            Error::new(ErrorKind::Cancelled, format!("the client left: {status}"))
        }
        other => broken(other.to_string()),
    }
}

/// An error inside of a stream of Arrow batches.
pub(crate) fn in_stream(error: &Error) -> FlightError {
    FlightError::from(status(error))
}
