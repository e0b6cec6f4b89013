//! The listener: a limit of connections, and a graceful end.
//!
//! Invariant FLS-2: it listens where other machines reach it only with TLS, and only once a role
//! has a password; what comes from other machines is encrypted.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::{self, Stream};
use lazybase_model::{Error, Result};
use lazybase_query::Database;
use lazybase_tls::{Descriptors, Listener, Tls};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::transport::server::{Connected, Router};

use crate::admission::Admission;
use crate::allowance::{Allowance, Pool};
use crate::clock::{pause, within};
use crate::peer::Peer;
use crate::service::Service;
use crate::sessions::{Known, Sessions};
use crate::statements::Statements;

/// The name of gRPC's protocol in TLS.
const HTTP2: &str = "h2";
/// What a client that was let in may send before it is read: of one call, and of a connection.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// The most calls of a connection at a time.
const CALLS_MAX: u32 = 256;
/// The most connections beyond the limit that are told so at a time, and for how long: a client
/// learns from its first call why it has no place, and holds nothing for longer.
const BEYOND_MAX: usize = 16;
const BEYOND: Duration = Duration::from_secs(2);
/// There are not more of them than this part of the limit: other protocols want open files too.
const BEYOND_SHARE: usize = 8;
/// How long a connection may take until somebody who is let in has called by it.
const UNKNOWN: Duration = Duration::from_secs(30);
/// The most statements and transactions that clients have handles of.
const HANDLES_MAX: usize = 100_000;
/// How often a silent client is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// How a server serves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most connections at a time; calls of some others are refused with SQLSTATE 53300, and
    /// their connections closed soon, and all beyond these are closed at once.
    pub connections_max: usize,
    /// The most sessions that are kept for clients; no other begins, with SQLSTATE 53300.
    pub sessions_max: usize,
    /// How long statements that run may go on after the server was told to stop.
    pub grace: Duration,
    /// How long a session, a prepared statement or a transaction that nobody uses is kept.
    pub idle: Duration,
    /// How long a connection is kept by which nobody has called who is let in.
    pub unknown: Duration,
    /// Encryption; without it, connections are not encrypted.
    pub tls: Option<Arc<Tls>>,
    /// Whether roles are let in by name alone from this machine.
    pub trusts_loopback: bool,
    /// The open files that are left for connections, also of other protocols; beyond them,
    /// connections are closed at once.
    pub descriptors: Descriptors,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connections_max: 500,
            sessions_max: 10_000,
            grace: Duration::from_secs(10),
            idle: Duration::from_secs(30 * 60),
            unknown: UNKNOWN,
            tls: None,
            trusts_loopback: false,
            descriptors: Descriptors::default(),
        }
    }
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    database: Database,
    options: Options,
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
        let unavailable = |error: io::Error| {
            Error::unavailable(format!("can't listen on {address}: {error}"))
                .with_hint("choose another port, --flight-listen 127.0.0.1:31338, or off")
        };
        let listener = TcpListener::bind(address).await.map_err(unavailable)?;
        let address = listener.local_addr().map_err(unavailable)?;
        Ok(Server {
            listener,
            address,
            database,
            options,
        })
    }

    /// Where it listens: with the port that was found, where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` ends. Then nobody new is let in, and calls that run have the time of
    /// [`Options::grace`]; what was acknowledged stays.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Server {
            listener,
            database,
            options,
            ..
        } = self;
        let (ending, ended) = (watch::Sender::new(false), watch::Sender::new(false));
        let statements = Arc::new(Statements::new(options.idle, HANDLES_MAX));
        let tls = options.tls.as_deref();
        let known = Known {
            by_name: options.trusts_loopback,
            by_certificate: tls.is_some_and(Tls::takes_certificates),
        };
        let sessions = Arc::new(Sessions::new(
            database,
            options.idle,
            options.sessions_max,
            known,
            Arc::clone(&statements),
        ));
        let service = Service {
            sessions: Arc::clone(&sessions),
            statements: Arc::clone(&statements),
            stop: ended.subscribe(),
        };
        let mut told = ending.subscribe();
        let draining = async move {
            // Whoever would tell has gone: then the end has come too.
            drop(told.wait_for(|on| *on).await);
        };
        let listener = Listener::new(listener, options.tls, &[HTTP2]);
        let listener = listener.within(options.descriptors);
        let places = Places::new(options.connections_max, options.unknown);
        let incoming = Box::pin(connections(listener, places));
        let serving = router(service).serve_with_incoming_shutdown(incoming, draining);
        let sweeping = async {
            let every =
                (options.idle / 4).clamp(Duration::from_millis(20), Duration::from_secs(30));
            loop {
                pause(every).await;
                sessions.sweep(&statements.sweep());
            }
        };
        tokio::pin!(serving);
        tokio::select! {
            _ = &mut serving => return,
            () = stop => {}
            () = sweeping => {}
        }
        ending.send_replace(true);
        if within(options.grace, &mut serving).await.is_none() {
            // What runs is told to end, and has a moment to tell its client.
            ended.send_replace(true);
            within(Duration::from_secs(2), &mut serving).await;
        }
    }
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
                 ssh -L 31337:127.0.0.1:31337 THIS-MACHINE",
            ),
    )
}

fn router(service: Service) -> Router {
    tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(CALLS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .add_service(Admission::new(service))
}

/// The connections that come, as long as there is a place for them, and some that are told that
/// there is none.
fn connections(listener: Listener, places: Places) -> impl Stream<Item = io::Result<Connection>> {
    stream::unfold((listener, places), |(mut listener, places)| async move {
        loop {
            match listener.accept().await {
                // A client without any place sees that the connection is closed.
                Ok((stream, address)) => {
                    if let Some(connection) = places.connection(stream, address) {
                        return Some((Ok(connection), (listener, places)));
                    }
                }
                // Without files for a connection, others must end first.
                Err(_) => pause(Duration::from_millis(20)).await,
            }
        }
    })
}

/// How many connections are told that they are beyond the limit.
fn beyond_max(connections_max: usize) -> usize {
    (connections_max / BEYOND_SHARE).clamp(1, BEYOND_MAX)
}

/// Where connections are.
struct Places {
    limit: usize,
    within: Arc<Semaphore>,
    beyond: Arc<Semaphore>,
    /// What is read of those who have not shown who they are.
    pool: Pool,
    /// How long one is kept by somebody who does not show who it is.
    unknown: Duration,
}

impl Places {
    fn new(limit: usize, unknown: Duration) -> Places {
        Places {
            limit,
            within: Arc::new(Semaphore::new(limit)),
            beyond: Arc::new(Semaphore::new(beyond_max(limit))),
            pool: Pool::new(),
            unknown,
        }
    }

    fn connection(
        &self,
        stream: lazybase_tls::Connection,
        address: SocketAddr,
    ) -> Option<Connection> {
        let peer = Peer::new(address, stream.certified());
        let peer = peer.served_at(stream.local_address(), stream.is_encrypted());
        let (peer, end, place) = match Arc::clone(&self.within).try_acquire_owned() {
            Ok(place) => (peer, End::Unless(Box::pin(pause(self.unknown))), place),
            Err(_) => {
                let place = Arc::clone(&self.beyond).try_acquire_owned().ok()?;
                let end = End::After(Box::pin(pause(BEYOND)));
                (peer.beyond(self.limit), end, place)
            }
        };
        Some(Connection {
            stream,
            allowance: Allowance::new(peer.clone(), self.pool.clone()),
            peer,
            end,
            _place: place,
        })
    }
}

/// A connection with its place.
struct Connection {
    stream: lazybase_tls::Connection,
    peer: Peer,
    allowance: Allowance,
    end: End,
    _place: OwnedSemaphorePermit,
}

/// When the server ends a connection by itself.
enum End {
    /// It does not.
    Open,
    /// Once this is done, unless somebody who is let in has called until then.
    Unless(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// Once this is done.
    After(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// It has: nothing more is read.
    Over,
}

impl End {
    fn has_come(&mut self, peer: &Peer, cx: &mut Context<'_>) -> bool {
        let (wait, is_kept) = match self {
            End::Open => return false,
            End::Unless(wait) => (wait, peer.is_known()),
            End::After(wait) => (wait, false),
            End::Over => return true,
        };
        if wait.as_mut().poll(cx).is_pending() {
            return false;
        }
        *self = match is_kept {
            true => End::Open,
            false => End::Over,
        };
        !is_kept
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        if connection.end.has_come(&connection.peer, cx) {
            // Without a byte: as if the client had closed it.
            return Poll::Ready(Ok(()));
        }
        ready!(connection.allowance.poll_ready(cx));
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut connection.stream).poll_read(cx, buffer));
        connection.allowance.spend(buffer.filled().len() - before);
        Poll::Ready(read)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
