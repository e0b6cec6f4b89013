//! The headers of a call, and what is told beside its answer.
//!
//! | header                  | sets for the call, as SET would           |
//! | ----------------------- | ----------------------------------------- |
//! | `lazybase-freshness`    | `lazybase.freshness`                      |
//! | `lazybase-on-miss`      | `lazybase.on_miss`                        |
//! | `lazybase-after`        | `lazybase.after`: a token                 |
//! | `lazybase-producer`     | `lazybase.producer`                       |
//! | `lazybase-batch-number` | `lazybase.batch_number`                   |
//! | `lazybase-timeout`      | `statement_timeout`                       |

use bytes::Bytes;
use lazybase_model::{Error, Result, Stamp, Token};
use lazybase_query::{AnswerStream, Op, Session, nearest};
use serde_json::{Value as Json, json};
use tonic::metadata::{KeyRef, MetadataMap, MetadataValue};

/// The header, and the setting, in the order that they are set.
const SETTINGS: [(&str, &str); 6] = [
    ("lazybase-freshness", "lazybase.freshness"),
    ("lazybase-on-miss", "lazybase.on_miss"),
    ("lazybase-after", "lazybase.after"),
    ("lazybase-producer", "lazybase.producer"),
    ("lazybase-batch-number", "lazybase.batch_number"),
    ("lazybase-timeout", "statement_timeout"),
];

/// What other headers there are.
const OTHERS: [&str; 4] = [
    "lazybase-op",
    "lazybase-primary-key",
    "lazybase-rows",
    "lazybase-session",
];

/// Refuses a header that has the name of none of ours, and looks like one: what it was to say would
/// not be done.
///
/// # Errors
/// `Invalid` (42704) for the first.
pub(crate) fn check(metadata: &MetadataMap) -> Result<()> {
    let known = || SETTINGS.iter().map(|(name, _)| *name).chain(OTHERS);
    for name in metadata.keys() {
        let name = match name {
            KeyRef::Ascii(name) => name.as_str(),
            KeyRef::Binary(name) => name.as_str(),
        };
        if name.starts_with("lazybase-") && !known().any(|known| known == name) {
            let error = Error::invalid(format!("there is no header {name:?}"));
            let hint = match nearest(name, known()) {
                Some(near) => format!("perhaps {near} is meant"),
                None => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
            };
            return Err(error.with_hint(hint).with_sqlstate("42704"));
        }
    }
    Ok(())
}

/// The text of a header, if the call has it.
///
/// # Errors
/// `Invalid` (22023) for bytes that are no text.
pub(crate) fn header<'m>(metadata: &'m MetadataMap, name: &str) -> Result<Option<&'m str>> {
    let value = metadata.get(name).map(|value| value.to_str());
    value
        .transpose()
        .map_err(|_| Error::invalid(format!("header {name} is no text")).with_sqlstate("22023"))
}

/// Whether a call sets something for itself.
pub(crate) fn sets(metadata: &MetadataMap) -> bool {
    SETTINGS
        .iter()
        .any(|(name, _)| metadata.contains_key(*name))
}

/// Sets what the headers of a call say.
///
/// # Errors
/// `Invalid` (22023) for a value that is none, naming the header.
pub(crate) fn apply(session: &Session, metadata: &MetadataMap) -> Result<()> {
    for (name, setting) in SETTINGS {
        if let Some(value) = header(metadata, name)? {
            session
                .set(setting, value)
                .map_err(|error| error.within(format_args!("header {name}")))?;
        }
    }
    Ok(())
}

/// What the rows of an ingest do, by the header `lazybase-op`.
///
/// # Errors
/// `Invalid` (22023) for another word.
pub(crate) fn op(metadata: &MetadataMap) -> Result<Op> {
    match header(metadata, "lazybase-op")? {
        None | Some("upsert") => Ok(Op::Upsert),
        Some("insert") => Ok(Op::Insert),
        Some("update") => Ok(Op::Update),
        Some("delete") => Ok(Op::Delete),
        Some(other) => Err(
            Error::invalid(format!("header lazybase-op: {other:?} is no word"))
                .with_hint("upsert, insert, update or delete")
                .with_sqlstate("22023"),
        ),
    }
}

/// How many rows an ingest has, by the header `lazybase-rows`.
///
/// # Errors
/// `Invalid` (22023) for what is no number.
pub(crate) fn rows(metadata: &MetadataMap) -> Result<Option<u64>> {
    let rows = header(metadata, "lazybase-rows")?.map(str::parse);
    rows.transpose().map_err(|_| {
        Error::invalid("header lazybase-rows is no number of rows").with_sqlstate("22023")
    })
}

/// What is told beside an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) tag: String,
    pub(crate) rows: u64,
    pub(crate) stamp: Option<Stamp>,
    /// The acknowledgement of a write.
    pub(crate) token: Option<Token>,
    /// The horizon that the answer is of, for AFTER.
    pub(crate) seen: Option<Token>,
    pub(crate) notices: Vec<String>,
}

impl Told {
    /// What an answer tells, once it has come to its end.
    pub(crate) fn of(answer: &AnswerStream, session: &Session) -> Told {
        let database = session.floor().database;
        let seen = answer.stamp().map(|stamp| Token {
            database,
            horizon: stamp.horizon,
        });
        let notices = answer.notices().iter();
        Told {
            tag: answer.tag(),
            rows: answer.row_count(),
            stamp: answer.stamp().cloned(),
            token: answer.token(),
            seen,
            notices: notices.map(|notice| notice.message.clone()).collect(),
        }
    }

    /// The same as JSON, in ASCII.
    pub(crate) fn json(&self) -> String {
        let text = |token: &Option<Token>| token.map(|token| token.to_string());
        let stamp = self.stamp.as_ref().map(|stamp| {
            json!({
                "horizon": stamp.horizon.to_string(),
                "as_of_micros": stamp.as_of_micros,
                "freshness_asked": stamp.asked(),
                "staleness_ms": stamp.staleness.as_secs_f64() * 1000.0,
                "batches_left_out": stamp.batches_left_out,
                "sources": serde_json::to_value(stamp.sources).unwrap_or(Json::Null),
                "advice": stamp.advice,
                "text": stamp.to_string(),
            })
        });
        let told = json!({
            "tag": self.tag,
            "rows": self.rows,
            "stamp": stamp,
            "token": text(&self.token),
            "seen": text(&self.seen),
            "notices": self.notices,
        });
        ascii(&told.to_string())
    }

    /// Puts it into the metadata of a response, or the trailers of a stream.
    pub(crate) fn put(&self, metadata: &mut MetadataMap) {
        if let Ok(value) = MetadataValue::try_from(self.json()) {
            metadata.insert("lazybase-answer", value);
        }
        let token = self.token.map(|token| token.to_string());
        if let Some(Ok(value)) = token.map(MetadataValue::try_from) {
            metadata.insert("lazybase-token", value);
        }
    }

    /// The result of an update: Flight's own fields, and behind them what its clients skip.
    pub(crate) fn update_result(&self) -> Bytes {
        let result = UpdateResult {
            record_count: i64::try_from(self.rows).unwrap_or(i64::MAX),
            token: self.token.map(|token| token.to_string()),
            answer: Some(self.json()),
        };
        prost::Message::encode_to_vec(&result).into()
    }
}

/// `DoPutUpdateResult` of Flight SQL, with fields of our own.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct UpdateResult {
    #[prost(int64, tag = "1")]
    pub(crate) record_count: i64,
    #[prost(string, optional, tag = "1000")]
    pub(crate) token: Option<String>,
    #[prost(string, optional, tag = "1001")]
    pub(crate) answer: Option<String>,
}

/// JSON in which other characters are escaped: headers are ASCII.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        match c.is_ascii() && c != '\u{7f}' {
            true => text.push(c),
            false => {
                for unit in c.encode_utf16(&mut units) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_ascii_and_reads_back() {
        let told = Told {
            notices: vec!["table \"grün\" 🦀 is there".to_owned()],
            ..Told::default()
        };
        let json = told.json();
        assert!(json.is_ascii(), "{json}");
        let read: Json = serde_json::from_str(&json).unwrap();
        assert_eq!(read["notices"][0], told.notices[0]);
    }
}
