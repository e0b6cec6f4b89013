//! The listener: one task a connection, a limit on how many, and a graceful end.
//!
//! Invariant SRV-1: it listens on loopback only, for it lets in every user by name alone.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use lazybase_model::{Error, Result};
use lazybase_query::Database;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::failure::{self, Severity};
use crate::input::{Gone, Wire};
use crate::startup::{self, Wish};

/// How long a connection may take until it has said what it wants.
const STARTUP: Duration = Duration::from_secs(10);

/// How a server serves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most connections at a time; others are refused with SQLSTATE 53300.
    pub connections_max: usize,
    /// How long statements that run may go on after the server was told to stop.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connections_max: 500,
            grace: Duration::from_secs(10),
        }
    }
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What connections share.
pub(crate) struct Shared {
    database: Database,
    options: Options,
    connections: Mutex<HashMap<i32, Entry>>,
    next_pid: AtomicI32,
    stop: watch::Sender<bool>,
}

/// A connection as others see it.
struct Entry {
    key: u32,
    cancel: watch::Sender<u64>,
}

/// A connection's place; it is given back when this is dropped.
pub(crate) struct Place {
    shared: Arc<Shared>,
    pub(crate) pid: i32,
    pub(crate) key: u32,
    pub(crate) cancel: watch::Receiver<u64>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.connections.lock().remove(&self.pid);
    }
}

impl Server {
    /// Listens on an address of this machine alone.
    ///
    /// # Errors
    /// `Invalid` for an address that others can reach; `Unavailable` when it can't be had.
    pub async fn bind(database: Database, address: SocketAddr, options: Options) -> Result<Server> {
        if !address.ip().is_loopback() {
            return Err(
                Error::invalid(format!("{address} can be reached from other machines"))
                    .with_detail("every user is let in without a password: loopback only")
                    .with_hint(
                        "listen on 127.0.0.1, and let others come through a tunnel: \
                     ssh -L 5432:127.0.0.1:5432 THIS-MACHINE",
                    ),
            );
        }
        let unavailable = |error: std::io::Error| {
            Error::unavailable(format!("can't listen on {address}: {error}"))
                .with_hint("choose another port: --pg-listen 127.0.0.1:5433")
        };
        let listener = TcpListener::bind(address).await.map_err(unavailable)?;
        let address = listener.local_addr().map_err(unavailable)?;
        Ok(Server {
            listener,
            address,
            shared: Arc::new(Shared {
                database,
                options,
                connections: Mutex::default(),
                next_pid: AtomicI32::new(1),
                stop: watch::Sender::new(false),
            }),
        })
    }

    /// Where it listens: with the port that was found, where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` ends. Then nobody new is let in, idle connections end, and statements
    /// that run have the time of [`Options::grace`]; what was acknowledged stays.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = self.listener.accept() => {
                    // A connection that failed before it was one concerns nobody else.
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(connect(Arc::clone(&self.shared), stream));
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
        drop(self.listener);
        self.shared.stop.send_replace(true);
        let all = async { while connections.join_next().await.is_some() {} };
        within(self.shared.options.grace, all).await;
        connections.shutdown().await;
    }
}

/// What a future gives, unless it takes longer.
#[expect(
    clippy::disallowed_methods,
    reason = "how long people on a network are waited for is no part of what is simulated"
)]
async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()
}

/// One connection from its beginning to its end.
async fn connect(shared: Arc<Shared>, stream: TcpStream) {
    // Answers are sent in large pieces: waiting for more only delays them.
    drop(stream.set_nodelay(true));
    let mut wire = Wire::new(stream);
    let Some(Ok(wish)) = within(STARTUP, startup::wish(&mut wire)).await else {
        return;
    };
    let begun = match wish {
        Ok(Wish::Cancel { pid, key }) => return shared.cancel(pid, key),
        Ok(Wish::Session(parameters)) => {
            let session = shared.database.session();
            startup::apply(&session, &parameters)
                .and_then(|()| shared.place())
                .map(|place| (session, parameters, place))
        }
        Err(error) => Err(error),
    };
    match begun {
        Ok((session, parameters, place)) => {
            let user = parameters.get("user").cloned().unwrap_or_default();
            Connection::new(wire, session, place, user).run().await;
        }
        Err(error) => {
            wire.put(failure::error(&error, Severity::Fatal, "", 0));
            wire.close().await;
        }
    }
}

impl Shared {
    /// A place for one more connection.
    fn place(self: &Arc<Self>) -> Result<Place> {
        let key = getrandom::u32()
            .map_err(|error| Error::unavailable(format!("no random numbers: {error}")))?;
        let limit = self.options.connections_max;
        let mut connections = self.connections.lock();
        if connections.len() >= limit {
            return Err(Error::unavailable("too many connections")
                .with_detail(format!("the limit is {limit}"))
                .with_hint("close some, use a pool, or start the server with --max-connections")
                .with_sqlstate("53300"));
        }
        let pid = loop {
            let pid = self.next_pid.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if !connections.contains_key(&pid) {
                break pid;
            }
        };
        let cancel = watch::Sender::new(0);
        let heard = cancel.subscribe();
        connections.insert(pid, Entry { key, cancel });
        Ok(Place {
            shared: Arc::clone(self),
            pid,
            key,
            cancel: heard,
            stop: self.stop.subscribe(),
        })
    }

    /// Ends the statement of a connection, if the key is its own.
    fn cancel(&self, pid: i32, key: u32) {
        let connections = self.connections.lock();
        if let Some(entry) = connections.get(&pid).filter(|entry| entry.key == key) {
            entry.cancel.send_modify(|count| *count += 1);
        }
    }
}

impl From<std::io::Error> for Gone {
    fn from(_: std::io::Error) -> Gone {
        Gone
    }
}
