//! What clients send once they are connected, read from bytes.
//!
//! Invariant MSG-1: no byte outside of a message's own length is looked at for it, and what is too
//! short, too long or no UTF-8 is an error, never a panic: everything here is hostile until read.

use bytes::{Buf, Bytes, BytesMut};
use lazybase_model::{Error, Result};

#[cfg(test)]
mod tests;

/// The longest message. Cells go up to 16 MiB, and a message holds a row of them or a statement.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The SQLSTATE of bytes that are no UTF-8.
const NOT_UTF8: &str = "22021";

/// A message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Named),
    Execute {
        portal: String,
        /// No limit where it is not positive.
        rows_max: i32,
    },
    Close(Named),
    Sync,
    Flush,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    Terminate,
    /// A whole message with a text that is not UTF-8: what comes after it can be read.
    Unreadable {
        /// Whether it was a Query, which ends by itself.
        query: bool,
    },
}

/// A prepared statement or a portal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Statement(String),
    Portal(String),
}

/// Values for a prepared statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) portal: String,
    pub(crate) statement: String,
    pub(crate) formats: Vec<i16>,
    pub(crate) values: Vec<Option<Bytes>>,
    pub(crate) result_formats: Vec<i16>,
}

/// Takes the first message off the bytes; `None` until it is whole.
///
/// # Errors
/// `Invalid` (08P01) for what is no message: nothing after it can be read any more.
pub(crate) fn take(bytes: &mut BytesMut) -> Result<Option<Message>> {
    let Some(header) = bytes.get(..5) else {
        return Ok(None);
    };
    let kind = header[0];
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if !b"QPBDECSHdcfXpF".contains(&kind) {
        return Err(broken(format!(
            "a message can't begin with byte {kind:#04x}"
        )));
    }
    if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(broken(format!("a message of {length} bytes"))
            .with_detail(format!("the limit is {MESSAGE_BYTES_MAX} bytes")));
    }
    if bytes.len() < length + 1 {
        return Ok(None);
    }
    let mut body = bytes.split_to(length + 1).freeze();
    body.advance(5);
    let mut body = Body(body);
    let message = match read(kind, &mut body) {
        Err(error) if error.sqlstate() == NOT_UTF8 => {
            let query = kind == b'Q';
            return Ok(Some(Message::Unreadable { query }));
        }
        read => read?,
    };
    match body.0.is_empty() {
        true => Ok(Some(message)),
        false => Err(broken(format!(
            "{} bytes are left over in message {:?}",
            body.0.len(),
            char::from(kind)
        ))),
    }
}

fn read(kind: u8, body: &mut Body) -> Result<Message> {
    Ok(match kind {
        b'Q' => Message::Query(body.text()?),
        b'P' => Message::Parse {
            name: body.text()?,
            sql: body.text()?,
            types: body.many(|body| body.number().map(u32::from_be_bytes))?,
        },
        b'B' => Message::Bind(Bind {
            portal: body.text()?,
            statement: body.text()?,
            formats: body.many(|body| body.number().map(i16::from_be_bytes))?,
            values: body.many(Body::value)?,
            result_formats: body.many(|body| body.number().map(i16::from_be_bytes))?,
        }),
        b'D' => Message::Describe(body.named()?),
        b'C' => Message::Close(body.named()?),
        b'E' => Message::Execute {
            portal: body.text()?,
            rows_max: i32::from_be_bytes(body.number()?),
        },
        b'S' => Message::Sync,
        b'H' => Message::Flush,
        b'd' => Message::CopyData(std::mem::take(&mut body.0)),
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(body.text()?),
        b'X' => Message::Terminate,
        other => {
            return Err(broken(format!(
                "message {:?} has no place here",
                char::from(other)
            )));
        }
    })
}

/// What is left of a message.
struct Body(Bytes);

impl Body {
    fn number<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.0.first_chunk::<N>() {
            Some(number) => {
                let number = *number;
                self.0.advance(N);
                Ok(number)
            }
            None => Err(broken("a message is too short")),
        }
    }

    fn text(&mut self) -> Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| broken("a text has no end"))?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        match std::str::from_utf8(&text) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(not_utf8()),
        }
    }

    /// A count, and so many of something.
    fn many<T>(&mut self, one: impl Fn(&mut Body) -> Result<T>) -> Result<Vec<T>> {
        let count = u16::from_be_bytes(self.number()?);
        (0..count).map(|_| one(self)).collect()
    }

    fn value(&mut self) -> Result<Option<Bytes>> {
        let length = i32::from_be_bytes(self.number()?);
        match usize::try_from(length) {
            Ok(length) if length <= self.0.len() => Ok(Some(self.0.split_to(length))),
            Ok(_) => Err(broken("a value is cut off")),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(broken("a value has a negative length")),
        }
    }

    fn named(&mut self) -> Result<Named> {
        let [kind] = self.number::<1>()?;
        match kind {
            b'S' => Ok(Named::Statement(self.text()?)),
            b'P' => Ok(Named::Portal(self.text()?)),
            _ => Err(broken("neither a statement nor a portal")),
        }
    }
}

/// The refusal of bytes that are no text.
pub(crate) fn not_utf8() -> Error {
    Error::invalid("a text is not UTF-8").with_sqlstate(NOT_UTF8)
}

/// A violation of the protocol.
pub(crate) fn broken(message: impl Into<String>) -> Error {
    Error::invalid(message).with_sqlstate("08P01")
}
