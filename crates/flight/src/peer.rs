//! Who calls, as far as the connection tells: from where, and with which certificate.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use lazybase_model::{Error, Result};
use lazybase_tls::is_local;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::Extensions;

/// The most calls of a connection that are heard at a time until one of them was let in.
const UNKNOWN_CALLS_MAX: usize = 16;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    address: SocketAddr,
    certified: Option<String>,
    /// Where it has come to.
    server: Option<SocketAddr>,
    encrypted: bool,
    /// The limit of connections, where there was no place for this one.
    beyond: Option<usize>,
    /// Whether a call of the connection was let in.
    known: Arc<watch::Sender<bool>>,
    /// The places of calls that were not let in; none are given any more once one was.
    unknown_calls: Arc<Semaphore>,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, certified: Option<String>) -> Peer {
        Peer {
            address,
            certified,
            server: None,
            encrypted: false,
            beyond: None,
            known: Arc::new(watch::Sender::new(false)),
            unknown_calls: Arc::new(Semaphore::new(UNKNOWN_CALLS_MAX)),
        }
    }

    /// Somebody who was let in calls by the connection.
    pub(crate) fn let_in(&self) {
        let is_first = |known: &mut bool| !std::mem::replace(known, true);
        if self.known.send_if_modified(is_first) {
            self.unknown_calls.close();
        }
    }

    /// A place for a call of which nobody knows whose it is; `None` once one of the connection was
    /// let in.
    pub(crate) async fn unknown_call(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.unknown_calls).acquire_owned().await.ok()
    }

    /// Whether anybody who was let in has called by the connection.
    pub(crate) fn is_known(&self) -> bool {
        *self.known.borrow()
    }

    /// Ends once somebody who was let in has called by the connection.
    pub(crate) fn becomes_known(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut known = self.known.subscribe();
        async move {
            // Whoever would tell has gone: then nobody waits either.
            drop(known.wait_for(|known| *known).await);
        }
    }

    /// The same, of a connection that has come to an address of the server, encrypted or not.
    pub(crate) fn served_at(self, server: Option<SocketAddr>, encrypted: bool) -> Peer {
        Peer {
            server,
            encrypted,
            ..self
        }
    }

    /// The same, of a connection beyond the limit: its calls are told so.
    pub(crate) fn beyond(self, limit: usize) -> Peer {
        Peer {
            beyond: Some(limit),
            ..self
        }
    }

    /// Whether the connection has a place.
    ///
    /// # Errors
    /// `Unavailable` (53300) for one beyond the limit.
    pub(crate) fn check_place(&self) -> Result<()> {
        match self.beyond {
            None => Ok(()),
            Some(limit) => Err(Error::unavailable("too many connections")
                .with_detail(format!("the limit is {limit}"))
                .with_hint("close some, or start the server with --max-connections")
                .with_sqlstate("53300")),
        }
    }

    /// The peer of a call; a call without one is of somebody elsewhere.
    pub(crate) fn of(extensions: &Extensions) -> Peer {
        let known = extensions.get::<Peer>().cloned();
        known.unwrap_or_else(|| Peer::new(SocketAddr::from(([0, 0, 0, 0], 0)), None))
    }

    /// Whether it is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        is_local(&self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn server(&self) -> Option<SocketAddr> {
        self.server
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    pub(crate) fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    /// The common name of the certificate that it has shown, and that was verified.
    pub(crate) fn certified(&self) -> Option<&str> {
        self.certified.as_deref()
    }
}
