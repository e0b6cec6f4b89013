//! How long a message may be while nobody knows who sends it.
//!
//! gRPC's server takes a unary call's message, and keeps room for its length, before the call is
//! heard, and so before anybody was let in by it. What a connection sends until then is short, and
//! of few calls at a time: then who has no password takes little memory.
//!
//! ```text
//!   connection by which somebody was let in, or a session's name -> MESSAGE_BYTES_MAX
//!   DoPut    its caller is let in before its first message is read -> MESSAGE_BYTES_MAX
//!   else     in line with UNKNOWN_CALLS_MAX of the connection      -> UNKNOWN_BYTES_MAX
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightServiceServer;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service as Serves, http};
use tonic::metadata::MetadataMap;
use tonic::server::NamedService;

use crate::peer::Peer;
use crate::service::Service;
use crate::sessions::Sessions;

/// The longest message that is taken.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// The longest one of somebody who was not let in yet.
const UNKNOWN_BYTES_MAX: usize = 1 << 20;
/// The call whose messages are read once its caller was let in.
const DO_PUT: &str = "/arrow.flight.protocol.FlightService/DoPut";

/// The service, with a limit of what it takes from whom.
#[derive(Clone)]
pub(crate) struct Admission {
    sessions: Arc<Sessions>,
    known: FlightServiceServer<Service>,
    unknown: FlightServiceServer<Service>,
}

impl Admission {
    pub(crate) fn new(service: Service) -> Admission {
        let sessions = Arc::clone(&service.sessions);
        let known = FlightServiceServer::new(service).max_encoding_message_size(usize::MAX);
        let unknown = known.clone().max_decoding_message_size(UNKNOWN_BYTES_MAX);
        Admission {
            sessions,
            known: known.max_decoding_message_size(MESSAGE_BYTES_MAX),
            unknown,
        }
    }

    /// Whether a call's messages may be long.
    fn takes_long(&self, request: &http::Request<Body>, peer: &Peer) -> bool {
        let is_read_late = request.uri().path() == DO_PUT;
        is_read_late || peer.is_known() || {
            let headers = MetadataMap::from_headers(request.headers().clone());
            self.sessions.is_let_in(&headers, peer)
        }
    }
}

impl Serves<http::Request<Body>> for Admission {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let peer = Peer::of(request.extensions());
        if self.takes_long(&request, &peer) {
            return self.known.call(request);
        }
        let (mut known, mut unknown) = (self.known.clone(), self.unknown.clone());
        Box::pin(async move {
            match peer.unknown_call().await {
                Some(_place) => unknown.call(request).await,
                // Another call was let in meanwhile.
                None => known.call(request).await,
            }
        })
    }
}

impl NamedService for Admission {
    const NAME: &'static str = <FlightServiceServer<Service> as NamedService>::NAME;
}
