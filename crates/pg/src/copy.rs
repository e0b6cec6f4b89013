//! COPY FROM STDIN and COPY TO STDOUT: rows past the planner in, and out as text, CSV or binary.
//!
//! ```text
//!   in    CopyData -> pipe -> a thread that reads rows and writes one batch
//!   out   rows of a query -> one CopyData a row
//! ```

use std::sync::Arc;

use arrow::datatypes::Schema;
use bytes::{BufMut, Bytes, BytesMut};
use lazybase_model::{Error, ErrorKind, Result};
use lazybase_query::{AnswerStream, CopyPlan, CopyStyle, RowFormat};
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::cells::{Rows, with_length};
use crate::connection::{Connection, Outcome};
use crate::input::Gone;
use crate::messages::{Message, broken};
use crate::pipe::{PipeIn, pipe};
use crate::words::Kind;

mod binary;

use binary::Binary;

/// How a binary COPY begins: its signature, flags, and the length of what else is in its head.
const BINARY_HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The rows of a binary COPY as an Arrow stream.
///
/// # Errors
/// `Invalid` for what is no such rows.
pub(crate) fn binary_rows(schema: &Schema, data: &[u8]) -> Result<Vec<Bytes>> {
    let mut binary = Binary::new(schema)?;
    Ok(vec![binary.push(data)?, binary.finish()?])
}

impl Connection {
    /// Does a COPY with the client; nothing where it is one between a table and a file.
    pub(crate) async fn copy(&mut self, sql: &str) -> Result<Option<Result<String>>, Gone> {
        match self.session.copy_plan(sql) {
            Ok(CopyPlan::FromClient { schema, format }) => {
                let binary = match format {
                    RowFormat::Binary => match Binary::new(&schema) {
                        Ok(binary) => Some(binary),
                        Err(error) => return Ok(Some(Err(error))),
                    },
                    _ => None,
                };
                let format = i16::from(binary.is_some());
                let columns = schema.fields().len();
                let formats = vec![format; columns];
                self.wire
                    .put(CopyInResponse::new(format as i8, columns as i16, formats));
                self.copy_in(sql, binary).await.map(Some)
            }
            Ok(CopyPlan::ToClient(style)) => self.copy_out(sql, &style).await.map(Some),
            Ok(CopyPlan::File) => Ok(None),
            Err(error) => Ok(Some(Err(error))),
        }
    }

    async fn copy_in(&mut self, sql: &str, binary: Option<Binary>) -> Outcome<String> {
        self.flush_in_time().await?;
        let (input, output) = pipe();
        let (going_on, given_up) = oneshot::channel::<()>();
        let mut reading = JoinSet::new();
        let (session, text) = (Arc::clone(&self.session), sql.to_owned());
        let handle = tokio::runtime::Handle::current();
        // It waits for the client, and must not keep a thread that serves others.
        reading.spawn_blocking(move || {
            handle.block_on(async move {
                tokio::select! {
                    biased;
                    read = session.copy_from(&text, output) => read.map(Some),
                    _ = given_up => Ok(None),
                }
            })
        });
        let sent = self.feed(&input, binary).await?;
        let reason = sent.as_ref().err().map(|error| error.message().to_owned());
        input.end(reason.map_or(Ok(()), Err));
        let mut outcome = sent;
        if outcome.is_ok() {
            let done = Box::pin(async { Ok(ended(&mut reading).await) });
            match self.watched(Kind::Copy, done).await? {
                Ok(read) => return Ok(read.and_then(|read| self.copied(read, Ok(())))),
                Err(error) => outcome = Err(error),
            }
        }
        // The thread hears of it too; but what it has done by then is done.
        drop(going_on);
        let read = ended(&mut reading).await;
        // Where it has failed, that is because the client's bytes ended as they did.
        Ok(self.copied(read.unwrap_or_default(), outcome))
    }

    /// What a COPY has come to: what was written is never called a failure.
    fn copied(&mut self, read: Option<AnswerStream>, outcome: Result<()>) -> Result<String> {
        match read {
            Some(answer) => {
                self.note(&answer);
                Ok(answer.tag())
            }
            None => Err(outcome.err().unwrap_or_else(no_thread)),
        }
    }

    /// Passes on what the client sends, up to its end.
    async fn feed(&mut self, input: &PipeIn, mut binary: Option<Binary>) -> Outcome<()> {
        loop {
            let message = match self.wire.take() {
                Ok(Some(message)) => message,
                Ok(None) => match self.more().await? {
                    Ok(()) => continue,
                    Err(error) => return Ok(Err(error)),
                },
                Err(error) => return Ok(Err(error)),
            };
            let piece = match message {
                Message::CopyData(bytes) => match &mut binary {
                    None => Ok(bytes),
                    Some(binary) => binary.push(&bytes),
                },
                Message::CopyDone => {
                    let last = binary.take().map_or(Ok(Bytes::new()), Binary::finish);
                    return match last {
                        Ok(last) => Ok(self.push(input, last).await?.map(drop)),
                        Err(error) => Ok(Err(error)),
                    };
                }
                Message::CopyFail(reason) => Err(Error::new(
                    ErrorKind::Cancelled,
                    format!("the client gave up the COPY: {reason}"),
                )),
                // Clients that send ahead send them before their data.
                Message::Flush | Message::Sync => continue,
                _ => Err(broken("only data may come during a COPY")),
            };
            let pushed = match piece {
                Ok(piece) => self.push(input, piece).await?,
                Err(error) => Err(error),
            };
            match pushed {
                Ok(true) => {}
                // The rows were refused already: the reading side knows why.
                Ok(false) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Passes on a piece, unless the statement is given up meanwhile; false when nobody reads.
    async fn push(&mut self, input: &PipeIn, piece: Bytes) -> Outcome<bool> {
        match input.offer(&piece) {
            Some(taken) => Ok(Ok(taken)),
            None => {
                let pushing = Box::pin(async { Ok(input.push(piece).await) });
                self.watched(Kind::Read, pushing).await
            }
        }
    }

    async fn copy_out(&mut self, sql: &str, style: &CopyStyle) -> Outcome<String> {
        let session = Arc::clone(&self.session);
        let mut answer = match self.watched(Kind::Read, session.copy_to(sql)).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        let schema = answer.schema();
        let quoted = match style.force_quote.of_answer(&schema) {
            Ok(quoted) => quoted,
            Err(error) => return Ok(Err(error)),
        };
        let columns = schema.fields().len();
        let binary = style.format == RowFormat::Binary;
        let format = i16::from(binary);
        let formats = vec![format; columns];
        self.wire
            .put(CopyOutResponse::new(format as i8, columns as i16, formats));
        // It goes with the first row, as PostgreSQL sends it: ADBC's driver looks for both at once.
        let mut head = if binary { BINARY_HEAD } else { &[] };
        if !binary && style.header {
            let names: Vec<&str> = schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            self.put_data(|out| {
                for (at, name) in names.iter().enumerate() {
                    put_value(Some(name.as_bytes()), at, style, false, out);
                }
                out.put_u8(b'\n');
            });
        }
        let mut count = 0_u64;
        loop {
            let rows = match self.next_rows_as(&mut answer, None, &[format]).await? {
                Ok(Some(rows)) => rows,
                Ok(None) => break,
                Err(error) => return Ok(Err(error)),
            };
            for row in 0..rows.count {
                self.put_data(|out| {
                    out.put_slice(std::mem::take(&mut head));
                    put_row(&rows, row, style, &quoted, out);
                });
                count += 1;
                self.flush_full().await?;
            }
        }
        if binary {
            self.put_data(|out| {
                out.put_slice(head);
                out.put_i16(-1);
            });
        }
        self.wire.put(CopyDone::new());
        self.note(&answer);
        Ok(Ok(format!("COPY {count}")))
    }

    fn put_data(&mut self, put: impl FnOnce(&mut BytesMut)) {
        self.wire.out.put_u8(b'd');
        with_length(&mut self.wire.out, true, put);
    }
}

/// What the thread of a COPY has come to; nothing where it heard that it was given up.
async fn ended(
    reading: &mut JoinSet<Result<Option<AnswerStream>>>,
) -> Result<Option<AnswerStream>> {
    match reading.join_next().await {
        Some(Ok(read)) => read,
        _ => Err(no_thread()),
    }
}

fn no_thread() -> Error {
    Error::internal("the thread of a COPY has ended before its time")
}

/// Appends a row; `quoted` says of each column whether CSV has it in quotes, whatever it is.
fn put_row(rows: &Rows, row: usize, style: &CopyStyle, quoted: &[bool], out: &mut BytesMut) {
    if style.format == RowFormat::Binary {
        out.put_i16(quoted.len() as i16);
        rows.put_cells(row, out);
        return;
    }
    let mut at = 0;
    rows.each_text(row, |text| {
        put_value(text, at, style, quoted[at], out);
        at += 1;
    });
    out.put_u8(b'\n');
}

/// Appends a value as a line of text or CSV spells it.
fn put_value(
    text: Option<&[u8]>,
    at: usize,
    style: &CopyStyle,
    in_quotes: bool,
    out: &mut BytesMut,
) {
    if at > 0 {
        out.put_u8(style.delimiter);
    }
    let Some(text) = text else {
        out.put_slice(style.null.as_bytes());
        return;
    };
    match style.format {
        RowFormat::Csv => put_quoted(text, style, in_quotes, out),
        _ => put_escaped(text, style.delimiter, out),
    }
}

fn put_quoted(text: &[u8], style: &CopyStyle, in_quotes: bool, out: &mut BytesMut) {
    let special = |byte: &u8| {
        matches!(*byte, b'\n' | b'\r') || *byte == style.delimiter || *byte == style.quote
    };
    // What would be read as NULL, or as the end of the data, stands in quotes too.
    let quoted =
        in_quotes || text == style.null.as_bytes() || text == b"\\." || text.iter().any(special);
    if !quoted {
        out.put_slice(text);
        return;
    }
    out.put_u8(style.quote);
    for byte in text {
        if *byte == style.quote || *byte == style.escape {
            out.put_u8(style.escape);
        }
        out.put_u8(*byte);
    }
    out.put_u8(style.quote);
}

fn put_escaped(text: &[u8], delimiter: u8, out: &mut BytesMut) {
    for byte in text {
        let letter = match *byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0b => b'v',
            0x0c => b'f',
            other if other == delimiter => delimiter,
            other => {
                out.put_u8(other);
                continue;
            }
        };
        out.put_u8(b'\\');
        out.put_u8(letter);
    }
}
