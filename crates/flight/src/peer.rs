//! Who calls, as far as the connection tells: from where, and with which certificate.

use std::net::{IpAddr, SocketAddr};

use lazybase_tls::is_local;
use tonic::Extensions;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    address: SocketAddr,
    certified: Option<String>,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, certified: Option<String>) -> Peer {
        Peer { address, certified }
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

    pub(crate) fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    /// The common name of the certificate that it has shown, and that was verified.
    pub(crate) fn certified(&self) -> Option<&str> {
        self.certified.as_deref()
    }
}
