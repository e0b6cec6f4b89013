//! A connection that speaks as YCSB's client for PostgreSQL does: statements prepared once, no
//! types of parameters, texts there and back, one Sync a call.
//!
//! Reads and writes a socket, and blocks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::message::{backend, frontend};

use crate::Outcome;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The rows of an answer as texts, and its tag.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) rows: Vec<Vec<Option<String>>>,
    pub(super) tag: String,
    /// The types of the parameters of a statement that was described.
    pub(super) parameters: Vec<u32>,
}

/// A connection.
pub(super) struct Wire {
    socket: TcpStream,
    input: BytesMut,
}

impl Wire {
    /// Connects to `postgresql://user@host:port/database`.
    pub(super) fn connect(url: &str) -> Outcome<Wire> {
        let wrong = || format!("{url:?} is not postgresql://user@host:port/database");
        let rest = url.strip_prefix("postgresql://").ok_or_else(wrong)?;
        let (user, rest) = rest.split_once('@').ok_or_else(wrong)?;
        let (address, database) = rest.split_once('/').ok_or_else(wrong)?;
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut wire = Wire {
            socket,
            input: BytesMut::new(),
        };
        let mut out = BytesMut::new();
        frontend::startup_message([("user", user), ("database", database)], &mut out)?;
        wire.call(&out)?;
        Ok(wire)
    }

    /// Runs a text of statements.
    pub(super) fn query(&mut self, sql: &str) -> Outcome<Told> {
        let mut out = BytesMut::new();
        frontend::query(sql, &mut out)?;
        self.call(&out)
    }

    /// Prepares a statement, and gives the types that the server found for its parameters.
    pub(super) fn prepare(&mut self, name: &str, sql: &str) -> Outcome<Vec<u32>> {
        let mut out = BytesMut::new();
        frontend::parse(name, sql, [], &mut out)?;
        frontend::describe(b'S', name, &mut out)?;
        frontend::sync(&mut out);
        Ok(self.call(&out)?.parameters)
    }

    /// Runs a prepared statement.
    pub(super) fn execute(&mut self, name: &str, values: &[&str]) -> Outcome<Told> {
        let mut out = BytesMut::new();
        let write = |value: &&str, buffer: &mut BytesMut| {
            buffer.extend_from_slice(value.as_bytes());
            Ok(IsNull::No)
        };
        frontend::bind("", name, [], values, write, [], &mut out)
            .map_err(|_| "a value does not fit into a message")?;
        frontend::execute("", 0, &mut out)?;
        frontend::sync(&mut out);
        self.call(&out)
    }

    /// Sends messages, and reads until the server is ready again.
    fn call(&mut self, messages: &[u8]) -> Outcome<Told> {
        use backend::Message as M;
        self.socket.write_all(messages)?;
        let mut told = Told::default();
        let mut failed = None;
        loop {
            match self.receive()? {
                M::ReadyForQuery(_) => break,
                M::DataRow(row) => {
                    let ranges: Vec<_> = row.ranges().collect()?;
                    let cell = |range: Option<std::ops::Range<usize>>| {
                        range.map(|at| String::from_utf8_lossy(&row.buffer()[at]).into_owned())
                    };
                    told.rows.push(ranges.into_iter().map(cell).collect());
                }
                M::CommandComplete(done) => told.tag = done.tag()?.to_owned(),
                M::ParameterDescription(types) => {
                    told.parameters = types.parameters().collect()?;
                }
                M::ErrorResponse(error) => {
                    let fields: Vec<String> = error
                        .fields()
                        .map(|field| {
                            let text = String::from_utf8_lossy(field.value_bytes());
                            Ok(format!("{}: {text}", char::from(field.type_())))
                        })
                        .collect()?;
                    failed = Some(fields.join(", "));
                }
                _ => {}
            }
        }
        match failed {
            None => Ok(told),
            Some(error) => Err(error.into()),
        }
    }

    fn receive(&mut self) -> Outcome<backend::Message> {
        loop {
            if let Some(message) = backend::Message::parse(&mut self.input)? {
                return Ok(message);
            }
            let mut block = [0_u8; 16 << 10];
            match self.socket.read(&mut block)? {
                0 => return Err("the server closed the connection".into()),
                count => self.input.extend_from_slice(&block[..count]),
            }
        }
    }
}
