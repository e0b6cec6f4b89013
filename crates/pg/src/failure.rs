//! Errors and notices as the protocol spells them.

use lazybase_model::Error;
use lazybase_query::Notice;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
}

/// What a prepared statement gives is no longer what the client was told.
const CHANGED: &str = "cached plan must not change result type";

/// The refusal to give rows of other columns than the client was told.
pub(crate) fn changed() -> Error {
    Error::invalid(CHANGED)
        .with_detail("a table of the statement was altered since it was prepared")
        .with_hint("prepare it again")
        .with_sqlstate("0A000")
}

/// An error with fact, detail, hint and, where it is known, the place in `text`, which is what the
/// client sent.
pub(crate) fn error(error: &Error, severity: Severity, text: &str) -> ErrorResponse {
    let word = match severity {
        Severity::Error => "ERROR",
        Severity::Fatal => "FATAL",
    };
    let mut fields = vec![
        (b'S', word.to_owned()),
        (b'V', word.to_owned()),
        (b'C', error.sqlstate().to_owned()),
        (b'M', plain(error.message())),
    ];
    fields.extend(error.detail().map(|detail| (b'D', plain(detail))));
    fields.extend(error.hint().map(|hint| (b'H', plain(hint))));
    if error.message() == CHANGED {
        // By this routine of PostgreSQL's, drivers know that they must prepare again.
        fields.push((b'R', "RevalidateCachedQuery".to_owned()));
    }
    if let Some(character) = error.place().and_then(|place| place.character_in(text)) {
        fields.push((b'P', character.to_string()));
    }
    ErrorResponse::new(fields)
}

/// A notice.
pub(crate) fn notice(notice: &Notice) -> NoticeResponse {
    let word = notice.severity.word();
    NoticeResponse::new(vec![
        (b'S', word.to_owned()),
        (b'V', word.to_owned()),
        (b'C', notice.sqlstate.to_owned()),
        (b'M', plain(&notice.message)),
    ])
}

/// Texts of the protocol end at a zero.
fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests;
