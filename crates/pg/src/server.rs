//! The listener: one task a connection, a limit on how many, and a graceful end.
//!
//! Invariant SRV-1: it listens where other machines reach it only with TLS, and only once a role
//! has a password; before, it lets in whoever is on this machine, by name alone.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lazybase_model::{Error, Result};
use lazybase_query::observe::{self, Connected};
use lazybase_query::{Attempts, Authenticated, Database, End, Notice, Peer, Places, Session};
use lazybase_tls::{Descriptor, Descriptors, Tls};
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::entry::Door;
use crate::failure::{self, Severity};
use crate::input::{Gone, Wire};
use crate::startup::{self, Wish};

/// What connections and errors of this protocol are counted under.
pub(crate) const PROTOCOL: &str = "postgresql";

/// How long a connection may take until it has said what it wants.
const STARTUP: Duration = Duration::from_secs(10);

/// How long it may take to tell somebody that there is no open file for its connection.
const REFUSAL: Duration = Duration::from_millis(100);

/// How long clients have to hear that the server gives up their statements.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long nobody is let in after that has failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How long a connection is silent before the client's machine is asked whether it is there.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// How long after that it is asked again, and how often before the connection is over.
const ASK_AGAIN: Duration = Duration::from_secs(10);
const ASKED_MAX: u32 = 6;

/// How a server serves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most connections at a time; others are refused with SQLSTATE 53300.
    pub connections_max: usize,
    /// How many of these are kept for superusers, half at most.
    pub superuser_reserved: usize,
    /// How long statements that run may go on after the server was told to stop.
    pub grace: Duration,
    /// Encryption; without it, it is declined.
    pub tls: Option<Arc<Tls>>,
    /// Whether roles are let in by name alone from this machine.
    pub trusts_loopback: bool,
    /// The open files that are left for connections, also of other protocols. Some more than
    /// `connections_max` leave room for those who ask to cancel, and those who are to be refused.
    pub descriptors: Descriptors,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connections_max: 500,
            superuser_reserved: 3,
            grace: Duration::from_secs(10),
            tls: None,
            trusts_loopback: false,
            descriptors: Descriptors::default(),
        }
    }
}

impl Options {
    /// How many connections are kept for superusers: never more than half of them.
    fn reserved(&self) -> usize {
        self.superuser_reserved.min(self.connections_max / 2)
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
    stop: watch::Sender<Stop>,
    attempts: Attempts,
    /// Connections that have not shown yet who they are.
    beginning: AtomicUsize,
}

/// How far the server has come with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    NotYet,
    /// Statements that run may go on, and nothing else.
    Idle,
    /// Nothing may.
    All,
}

/// A connection as others see it.
struct Entry {
    key: u32,
    user: String,
    cancel: watch::Sender<u64>,
    end: watch::Sender<bool>,
}

/// A connection's place; it is given back when this is dropped.
pub(crate) struct Place {
    shared: Arc<Shared>,
    pub(crate) pid: i32,
    pub(crate) key: u32,
    pub(crate) user: String,
    pub(crate) cancel: watch::Receiver<u64>,
    /// Whether somebody else has ended the connection.
    pub(crate) end: watch::Receiver<bool>,
    pub(crate) stop: watch::Receiver<Stop>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.connections.lock().remove(&self.pid);
    }
}

impl Server {
    /// Listens on an address.
    ///
    /// # Errors
    /// `Invalid` for an address that others can reach, without TLS or a role with a password;
    /// `Unavailable` when it can't be had.
    pub async fn bind(database: Database, address: SocketAddr, options: Options) -> Result<Server> {
        if !address.ip().is_loopback() {
            check_reachable(&database, address, &options)?;
        }
        let unavailable = |error: std::io::Error| {
            Error::unavailable(format!("can't listen on {address}: {error}"))
                .with_hint("choose another port: --pg-listen 127.0.0.1:5433")
        };
        let listener = TcpListener::bind(address).await.map_err(unavailable)?;
        let address = listener.local_addr().map_err(unavailable)?;
        database.set_places(Places {
            all: options.connections_max,
            of_superusers: options.reserved(),
        });
        Ok(Server {
            listener,
            address,
            shared: Arc::new(Shared {
                database,
                options,
                connections: Mutex::default(),
                stop: watch::Sender::new(Stop::NotYet),
                attempts: Attempts::default(),
                beginning: AtomicUsize::new(0),
            }),
        })
    }

    /// Where it listens: with the port that was found, where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` ends. Then nobody new is let in, idle connections end, and statements
    /// that run have the time of [`Options::grace`]; those that are not done then are given up, and
    /// their clients told so. What was acknowledged stays.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = self.listener.accept() => {
                    match accepted {
                        Ok((stream, peer)) => match self.shared.options.descriptors.take() {
                            Some(descriptor) => {
                                let shared = Arc::clone(&self.shared);
                                connections.spawn(connect(shared, stream, peer, descriptor));
                            }
                            // Before the next one is accepted, so that one at most is open beside
                            // those that there are descriptors for.
                            None => {
                                within(REFUSAL, refuse(stream)).await;
                            }
                        },
                        // A connection that failed before it was one concerns nobody else; but
                        // where there are no more files to be had, the next one fails at once too.
                        Err(_) => pause(ACCEPT_AGAIN).await,
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
        drop(self.listener);
        for (stop, time) in [
            (Stop::Idle, self.shared.options.grace),
            (Stop::All, FAREWELL),
        ] {
            self.shared.stop.send_replace(stop);
            let all = async { while connections.join_next().await.is_some() {} };
            within(time, all).await;
        }
        connections.shutdown().await;
    }
}

/// What a future gives, unless it takes longer.
#[expect(
    clippy::disallowed_methods,
    reason = "how long people on a network are waited for is no part of what is simulated"
)]
pub(crate) async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()
}

/// Waits.
#[expect(
    clippy::disallowed_methods,
    reason = "how long machine and network are given is no part of what is simulated"
)]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Whether a server may listen where other machines reach it.
fn check_reachable(database: &Database, address: SocketAddr, options: &Options) -> Result<()> {
    let detail = match (&options.tls, database.has_password()) {
        (Some(_), true) => return Ok(()),
        (None, true) => "passwords and rows would be sent for everybody to read: TLS is needed",
        (Some(_), false) => "no role can log in with a password",
        (None, false) => "no role can log in with a password, and there is no TLS",
    };
    Err(
        Error::invalid(format!("{address} can be reached from other machines"))
            .with_detail(detail)
            .with_hint(
                "make a role (lazybase role create NAME --superuser), give --tls-cert and \
                 --tls-key; or listen on 127.0.0.1, and let others come through a tunnel: \
                 ssh -L 5432:127.0.0.1:5432 THIS-MACHINE",
            ),
    )
}

/// Tells a client that there is no open file for its connection.
async fn refuse(stream: TcpStream) {
    let error = Error::unavailable("too many connections")
        .with_detail("together, those of all protocols have the open files that are left for them")
        .with_hint("close some, use a pool, or raise the limit of open files: ulimit -n")
        .with_sqlstate("53300");
    let peer = stream.peer_addr().ok();
    tell(Wire::new(stream), &error, peer).await;
}

/// Tells a client why it is not let in.
async fn tell(mut wire: Wire, error: &Error, peer: Option<SocketAddr>) {
    observe::failed(PROTOCOL, error);
    let (sqlstate, peer) = (error.sqlstate(), peer.map(tracing::field::display));
    tracing::info!(peer, sqlstate, "connection refused: {error}");
    wire.put(failure::error(error, Severity::Fatal, ""));
    wire.close().await;
}

/// One connection from its beginning to its end.
async fn connect(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    _descriptor: Descriptor,
) {
    // Answers are sent in large pieces: waiting for more only delays them.
    drop(stream.set_nodelay(true));
    drop(keep_alive(&stream));
    let server = stream.local_addr().ok();
    let mut wire = Wire::new(stream);
    let beginning = Beginning::of(&shared);
    let mut stop = shared.stop.subscribe();
    let begun = match &beginning {
        None => Err(too_many(shared.options.connections_max)),
        Some(_) => {
            let begun = tokio::select! {
                begun = within(STARTUP, begin(&shared, &mut wire, peer)) => begun,
                // Who has not begun runs nothing that could be waited for.
                _ = stop.wait_for(|stop| *stop != Stop::NotYet) => None,
            };
            match begun {
                Some(Ok(begun)) => begun,
                Some(Err(Gone)) | None => return,
            }
        }
    };
    drop(beginning);
    match begun {
        Ok(Some(Begun {
            session,
            place,
            unfollowed,
        })) => {
            let user = place.user.clone();
            let _connected = Connected::new(PROTOCOL);
            tracing::debug!(pid = place.pid, user, "connection opened");
            let pid = place.pid;
            let ends = Arc::downgrade(&shared);
            let _attended = session.attend(Peer {
                pid,
                address: peer,
                server,
                encrypted: wire.is_encrypted(),
                end: Box::new(move |what| {
                    if let Some(shared) = ends.upgrade() {
                        shared.end(pid, what);
                    }
                }),
            });
            let connection = Connection::new(wire, session, place, user);
            connection.run(unfollowed).await;
            tracing::debug!(pid, "connection closed");
        }
        Ok(None) => {}
        Err(error) => tell(wire, &error, Some(peer)).await,
    }
}

/// Has the system ask whether the client's machine is still there: one that lost its network or
/// its power says no goodbye, and would keep its connection, its transaction and its statement.
fn keep_alive(stream: &TcpStream) -> std::io::Result<()> {
    let asked = TcpKeepalive::new()
        .with_time(SILENT_MAX)
        .with_interval(ASK_AGAIN)
        .with_retries(ASKED_MAX);
    SockRef::from(stream).set_tcp_keepalive(&asked)
}

/// A connection that may send statements.
struct Begun {
    session: Session,
    place: Place,
    /// What its user should know of what it should have got and did not.
    unfollowed: Vec<Notice>,
}

/// Finds out what a new connection wants, and who it is; nothing is left of a cancel request.
async fn begin(
    shared: &Arc<Shared>,
    wire: &mut Wire,
    peer: SocketAddr,
) -> Result<Result<Option<Begun>>, Gone> {
    let tls = shared.options.tls.as_deref();
    let parameters = match startup::wish(wire, tls).await? {
        Ok(Wish::Cancel { pid, key }) => {
            shared.cancel(pid, key);
            return Ok(Ok(None));
        }
        Ok(Wish::Session(parameters)) => parameters,
        Err(error) => return Ok(Err(error)),
    };
    let user = match startup::user(&parameters) {
        Ok(user) => user,
        Err(error) => return Ok(Err(error)),
    };
    let door = Door {
        database: &shared.database,
        trusts_loopback: shared.options.trusts_loopback,
        takes_certificates: tls.is_some_and(Tls::takes_certificates),
        attempts: &shared.attempts,
        peer,
    };
    let who = match door.open(wire, user).await? {
        Ok(who) => who,
        Err(error) => return Ok(Err(error)),
    };
    let session = shared.database.session_of(&who);
    let begun = startup::apply(&session, &parameters).and_then(|unfollowed| {
        Ok(Begun {
            place: shared.place(&who)?,
            session,
            unfollowed,
        })
    });
    Ok(begun.map(Some))
}

/// A connection that has not shown yet who it is: there are not more of them than of others.
struct Beginning<'s>(&'s AtomicUsize);

impl Beginning<'_> {
    fn of(shared: &Shared) -> Option<Beginning<'_>> {
        let begun = Beginning(&shared.beginning);
        let others = shared.beginning.fetch_add(1, Ordering::Relaxed);
        // Beside those who are there already, some may ask to cancel what these do.
        (others < shared.options.connections_max + 16).then_some(begun)
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn too_many(limit: usize) -> Error {
    Error::unavailable("too many connections")
        .with_detail(format!("the limit is {limit}"))
        .with_hint("close some, use a pool, or start the server with --max-connections")
        .with_sqlstate("53300")
}

impl Shared {
    /// A place for one more connection.
    fn place(self: &Arc<Self>, who: &Authenticated) -> Result<Place> {
        let key = getrandom::u32()
            .map_err(|error| Error::unavailable(format!("no random numbers: {error}")))?;
        let limit = self.options.connections_max;
        let mut connections = self.connections.lock();
        if connections.len() >= limit {
            return Err(too_many(limit));
        }
        let reserved = self.options.reserved();
        if !who.is_superuser() && connections.len() + reserved >= limit {
            let detail = format!("the limit is {limit}, and {reserved} of them are for superusers");
            return Err(too_many(limit).with_detail(detail));
        }
        let own = connections
            .values()
            .filter(|entry| entry.user == who.name());
        let own = own.count();
        if who
            .connection_limit()
            .is_some_and(|most| own >= most as usize)
        {
            return Err(Error::unavailable(format!(
                "too many connections of role {:?}",
                who.name()
            ))
            .with_detail(format!("it has {own}, and may have no more"))
            .with_hint("ALTER ROLE ... CONNECTION LIMIT raises that")
            .with_sqlstate("53300"));
        }
        let pid = loop {
            let pid = self.database.connection_number();
            if !connections.contains_key(&pid) {
                break pid;
            }
        };
        let (cancel, end) = (watch::Sender::new(0), watch::Sender::new(false));
        let (cancel_heard, end_heard) = (cancel.subscribe(), end.subscribe());
        let user = who.name().to_owned();
        let entry = Entry {
            key,
            user: user.clone(),
            cancel,
            end,
        };
        connections.insert(pid, entry);
        Ok(Place {
            shared: Arc::clone(self),
            pid,
            key,
            user,
            cancel: cancel_heard,
            end: end_heard,
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

    /// Ends something of a connection, as another one asks that may.
    fn end(&self, pid: i32, what: End) {
        if let Some(entry) = self.connections.lock().get(&pid) {
            match what {
                End::Statement => entry.cancel.send_modify(|count| *count += 1),
                End::Connection => drop(entry.end.send_replace(true)),
            }
        }
    }
}

impl From<std::io::Error> for Gone {
    fn from(_: std::io::Error) -> Gone {
        Gone
    }
}
