//! The calls of one client, from bytes: actions, descriptors, tickets and headers.
//!
//! ```text
//!   what  length   message      what is called; two bytes, little-endian; so many bytes
//!   ---- ------- ---------...
//!   a handle of 32 zeros in a message stands for the one that the server gave last
//! ```
//!
//! No statement is run, for it might be any, and COPY and BACKUP write files: statements of SQL are
//! prepared, and told what columns they have.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Command, CommandStatementQuery, ProstMessageExt};
use arrow_flight::{Action, FlightDescriptor, Ticket};
use bytes::{Buf, Bytes};
use futures::StreamExt;
use lazybase_query::fuzz::world;
use prost::Message;
use tokio::sync::watch;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::{Code, Request};

use crate::actions::KNOWN;
use crate::input::command;
use crate::peer::Peer;
use crate::service::Service;
use crate::sessions::{Known, Sessions};
use crate::statements::Statements;

/// The most calls of an input.
const CALLS_MAX: usize = 16;
/// Stands for the handle that the server gave last.
const HANDLE: [u8; HANDLE_BYTES] = [b'0'; HANDLE_BYTES];
const HANDLE_BYTES: usize = 32;
/// The session of all calls but those with headers of their own.
const SESSION: &str = "f0123456789abcdef0123456789abcdef";
/// Longer than an input is read.
const IDLE: Duration = Duration::from_secs(600);

/// The calls of a client that has a session.
pub fn read_calls(bytes: &[u8]) {
    let _ = answered(bytes);
}

/// How many calls there are, and how many of them were no error.
pub(super) fn answered(bytes: &[u8]) -> (usize, usize) {
    let Some(world) = world() else {
        return (0, 0);
    };
    let stopped = watch::Sender::new(false);
    let statements = Arc::new(Statements::new(IDLE, CALLS_MAX));
    let known = Known {
        by_name: false,
        by_certificate: false,
    };
    let service = Service {
        sessions: Arc::new(Sessions::new(
            world.database.clone(),
            IDLE,
            CALLS_MAX,
            known,
            Arc::clone(&statements),
        )),
        statements,
        stop: stopped.subscribe(),
    };
    let mut left = Bytes::copy_from_slice(bytes);
    let mut handle = None;
    let (mut calls, mut well) = (0, 0);
    while calls < CALLS_MAX && left.len() >= 3 {
        let what = left.get_u8();
        let length = usize::from(left.get_u16_le());
        let message = left.split_to(length.min(left.len()));
        let message = with_handle(&message, handle);
        calls += 1;
        if let Some(answer) = world.runtime.block_on(called(&service, what, message)) {
            well += 1;
            handle = handle_in(&answer).or(handle);
        }
    }
    (calls, well)
}

/// What a call answers, as far as it may hold a handle; `None` for an error.
async fn called(service: &Service, what: u8, message: Bytes) -> Option<Bytes> {
    match what {
        0..=127 => {
            let (name, _) = KNOWN[usize::from(what) % KNOWN.len()];
            let action = Action {
                r#type: name.to_owned(),
                body: message,
            };
            let results = service.do_action(of_session(action)).await.ok()?;
            match results.into_inner().next().await {
                None => Some(Bytes::new()),
                Some(result) => Some(result.ok()?.body),
            }
        }
        128..=159 if !would_run(&message) => {
            let descriptor = of_session(FlightDescriptor::new_cmd(message));
            let info = service.get_flight_info(descriptor).await.ok()?.into_inner();
            let ticket = info.endpoint.into_iter().next()?.ticket;
            ticket.map(|ticket| ticket.ticket)
        }
        128..=191 => {
            let descriptor = of_session(FlightDescriptor::new_cmd(message));
            let schema = service.get_schema(descriptor).await.ok()?.into_inner();
            Some(schema.schema)
        }
        192..=223 => {
            let ticket = of_session(Ticket { ticket: message });
            let mut messages = service.do_get(ticket).await.ok()?.into_inner();
            while let Some(data) = messages.next().await {
                match data {
                    // What ends well says so in its trailers, which come as a status.
                    Err(status) if status.code() != Code::Ok => return None,
                    _ => {}
                }
            }
            Some(Bytes::new())
        }
        _ => {
            let schema = service.get_schema(with_headers(&message)).await.ok()?;
            Some(schema.into_inner().schema)
        }
    }
}

/// Whether GetFlightInfo runs what a descriptor asks for, where that gives no rows.
fn would_run(descriptor: &[u8]) -> bool {
    matches!(
        command(descriptor),
        Ok(Command::CommandStatementQuery(_) | Command::CommandPreparedStatementQuery(_))
    )
}

/// A call of a client on this machine.
fn of_client<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    request.extensions_mut().insert(Peer::new(address, None));
    request
}

/// The same, in the session of the others.
fn of_session<T>(message: T) -> Request<T> {
    let mut request = of_client(message);
    let session = AsciiMetadataValue::from_static(SESSION);
    request.metadata_mut().insert("lazybase-session", session);
    request
}

/// A call with headers, of which each stands in a line, with a colon behind its name.
fn with_headers(lines: &[u8]) -> Request<FlightDescriptor> {
    let query = CommandStatementQuery {
        query: "SELECT 1".to_owned(),
        transaction_id: None,
    };
    let mut request = of_client(FlightDescriptor::new_cmd(query.as_any().encode_to_vec()));
    for line in lines.split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            continue;
        };
        if let (Ok(name), Ok(value)) = (
            AsciiMetadataKey::from_bytes(name),
            AsciiMetadataValue::try_from(value.trim_ascii()),
        ) {
            request.metadata_mut().append(name, value);
        }
    }
    request
}

/// A message in which the handle stands where it is meant.
fn with_handle(message: &[u8], handle: Option<[u8; HANDLE_BYTES]>) -> Bytes {
    let mut message = message.to_vec();
    let Some(handle) = handle else {
        return message.into();
    };
    let mut rest = &mut message[..];
    while let Some(at) = rest.windows(HANDLE_BYTES).position(|part| part == HANDLE) {
        let (meant, behind) = rest[at..].split_at_mut(HANDLE_BYTES);
        meant.copy_from_slice(&handle);
        rest = behind;
    }
    message.into()
}

/// The first handle in an answer.
fn handle_in(answer: &[u8]) -> Option<[u8; HANDLE_BYTES]> {
    let mut parts = answer.windows(HANDLE_BYTES);
    let found = parts.find(|part| part.iter().all(u8::is_ascii_hexdigit))?;
    found.try_into().ok()
}
