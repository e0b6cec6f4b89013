//! Who is shown the pages: everybody, or who shows a certificate of a role that may log in.
//!
//! Asked at each request, so that a role that is dropped, or may no longer connect, is refused on
//! connections that are open too. Reads what was shown at the handshake and the roles; writes
//! nothing.

use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use lazybase_tls::is_local;

use super::Health;
use super::door::Door;

/// What a client has shown of itself.
#[derive(Debug, Clone)]
pub struct Peer {
    /// It is on this machine.
    pub(super) is_local: bool,
    /// The name in its certificate, which was verified.
    pub(super) certified: Option<String>,
}

impl Connected<IncomingStream<'_, Door>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Peer {
        Peer {
            is_local: is_local(stream.remote_addr()),
            certified: stream.io().certified(),
        }
    }
}

/// Whom the pages are for.
#[derive(Clone)]
pub struct Guard {
    /// Tells how the server is, and has the database, once that is open.
    pub health: Health,
    /// Certificates are asked for.
    pub asks: bool,
    /// But not of this machine.
    pub trusts_loopback: bool,
}

impl Guard {
    /// Why somebody is shown nothing, if so.
    fn refuses(&self, peer: &Peer) -> Option<String> {
        if !self.asks || (self.trusts_loopback && peer.is_local) {
            return None;
        }
        let Some(name) = &peer.certified else {
            return Some("a client certificate is needed".to_owned());
        };
        // Before the database is open nobody knows its roles, and the pages tell nothing of it.
        let database = self.health.database()?;
        if database.is_open(true) {
            return None;
        }
        let trusted = database.trust_certificate(name);
        trusted.err().map(|error| error.message().to_owned())
    }
}

/// Shows a page, or says why not.
pub(super) async fn admit(
    State(guard): State<Guard>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    match guard.refuses(&peer) {
        None => next.run(request).await,
        Some(why) => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
    }
}
