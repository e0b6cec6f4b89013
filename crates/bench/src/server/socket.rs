//! A client of PostgreSQL's protocol that does as little as it can: what it sends is written once,
//! and of what it gets it looks at the kinds and lengths of messages. So a rate is the server's.
//!
//! Reads and writes a socket, and blocks.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

use super::hosts::{DATABASE, USER};
use crate::Outcome;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// What is read at a time.
const BLOCK: usize = 128 << 10;
/// The bytes of COPY's data in a message.
const COPY_BLOCK: usize = 64 << 10;

/// What an answer had.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) rows: u64,
    /// The bytes of its rows, as messages.
    pub(super) bytes: u64,
}

/// A connection.
pub(super) struct Socket {
    stream: TcpStream,
    input: BytesMut,
    block: Vec<u8>,
    out: BytesMut,
}

impl Socket {
    /// Connects to the database of all measurements.
    pub(super) fn connect(address: &SocketAddr) -> Outcome<Socket> {
        Socket::connect_to(address, DATABASE)
    }

    /// Connects to a database.
    pub(super) fn connect_to(address: &SocketAddr, database: &str) -> Outcome<Socket> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut socket = Socket {
            stream,
            input: BytesMut::new(),
            block: Vec::new(),
            out: BytesMut::new(),
        };
        let words = [("user", USER), ("database", database)];
        frontend::startup_message(words, &mut socket.out)?;
        socket.call()?;
        Ok(socket)
    }

    /// Runs a text of statements, and counts its rows.
    pub(super) fn query(&mut self, sql: &str) -> Outcome<Tally> {
        frontend::query(sql, &mut self.out)?;
        self.call()
    }

    /// The first value of the first row.
    pub(super) fn value(&mut self, sql: &str) -> Outcome<String> {
        frontend::query(sql, &mut self.out)?;
        self.send()?;
        let mut found = None;
        self.until_ready(|kind, mut body| {
            if kind == b'D' && body.len() >= 6 && found.is_none() {
                body.advance(2);
                let length = usize::try_from(body.get_i32()).unwrap_or(0);
                let value = body.get(..length).unwrap_or_default();
                found = Some(String::from_utf8_lossy(value).into_owned());
            }
        })?;
        found.ok_or_else(|| format!("{sql} gave nothing").into())
    }

    /// Prepares a statement under a name.
    pub(super) fn prepare(&mut self, name: &str, sql: &str) -> Outcome<()> {
        frontend::parse(name, sql, [], &mut self.out)?;
        frontend::sync(&mut self.out);
        self.call()?;
        Ok(())
    }

    /// Runs a prepared statement with numbers.
    pub(super) fn execute(&mut self, name: &str, values: &[i64]) -> Outcome<Tally> {
        let write = |value: &i64, buffer: &mut BytesMut| {
            buffer.extend_from_slice(value.to_string().as_bytes());
            Ok(IsNull::No)
        };
        frontend::bind("", name, [], values, write, [], &mut self.out)
            .map_err(|_| "a value does not fit into a message")?;
        frontend::execute("", 0, &mut self.out)?;
        frontend::sync(&mut self.out);
        self.call()
    }

    /// Sends the data of a COPY FROM STDIN.
    pub(super) fn copy_in(&mut self, sql: &str, data: &[u8]) -> Outcome<()> {
        frontend::query(sql, &mut self.out)?;
        self.send()?;
        self.until(b'G', |_, _| {})?;
        for block in data.chunks(COPY_BLOCK) {
            frontend::CopyData::new(block)?.write(&mut self.out);
            self.send()?;
        }
        frontend::copy_done(&mut self.out);
        self.call()?;
        Ok(())
    }

    fn call(&mut self) -> Outcome<Tally> {
        self.send()?;
        let mut tally = Tally::default();
        self.until_ready(|kind, body| {
            if kind == b'D' {
                tally.rows += 1;
                tally.bytes += body.len() as u64 + 5;
            }
        })?;
        Ok(tally)
    }

    fn send(&mut self) -> Outcome<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn until_ready(&mut self, see: impl FnMut(u8, &[u8])) -> Outcome<()> {
        self.until(b'Z', see)
    }

    /// Shows messages until one of a kind has come.
    fn until(&mut self, last: u8, mut see: impl FnMut(u8, &[u8])) -> Outcome<()> {
        let mut failed = None;
        loop {
            let kind = self.message(|kind, body| {
                if kind == b'E' {
                    failed = Some(String::from_utf8_lossy(body).replace('\0', " "));
                }
                see(kind, body);
            })?;
            match failed.take() {
                // Where a copy was to begin, what is ready is the server, after its refusal.
                Some(error) if kind == b'Z' => return Err(error.into()),
                None if kind == last => return Ok(()),
                other => failed = other,
            }
        }
    }

    /// Shows the next message.
    fn message(&mut self, see: impl FnOnce(u8, &[u8])) -> Outcome<u8> {
        loop {
            let whole = match self.input.get(1..5) {
                Some(length) => {
                    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]);
                    Some(1 + length as usize).filter(|whole| self.input.len() >= *whole)
                }
                None => None,
            };
            if let Some(whole) = whole {
                let kind = self.input[0];
                see(kind, &self.input[5..whole]);
                self.input.advance(whole);
                return Ok(kind);
            }
            // Connections that only ask for a row need no large block.
            let wanted = if self.input.is_empty() {
                8 << 10
            } else {
                BLOCK
            };
            if self.block.len() < wanted {
                self.block.resize(wanted, 0);
            }
            match self.stream.read(&mut self.block)? {
                0 => return Err("the server closed the connection".into()),
                count => self.input.extend_from_slice(&self.block[..count]),
            }
        }
    }
}
