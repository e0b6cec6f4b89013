//! Connections that are encrypted from their first byte on, as HTTP/1 and HTTP/2 have it.
//!
//! ```text
//!   accept -> from this machine, and the first byte begins no handshake -> as it is
//!          -> else a handshake, beside others, with a limit of time      -> encrypted
//!                                                       it fails         -> closed
//! ```
//!
//! Without certificates every connection is as it is. One that there is no descriptor for is closed
//! as soon as it was accepted. Invariant TLS-2: with them, what comes from
//! another machine is encrypted.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::server::TlsStream;

use crate::{Descriptor, Descriptors, HANDSHAKE, Tls, common_name};

/// How long a client may take to agree on encryption.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// The most connections at a time that do not agree yet; others are closed.
const BEGINNING_MAX: usize = 512;

/// Listens, and encrypts what it accepts.
pub struct Listener {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    /// The names, in TLS, of the protocols that are spoken.
    protocols: &'static [&'static str],
    beginning: JoinSet<io::Result<(Connection, SocketAddr)>>,
    descriptors: Descriptors,
}

impl Listener {
    /// Encrypts what comes to a listener, where there is something to encrypt it with.
    pub fn new(
        listener: TcpListener,
        tls: Option<Arc<Tls>>,
        protocols: &'static [&'static str],
    ) -> Listener {
        Listener {
            listener,
            tls,
            protocols,
            beginning: JoinSet::new(),
            descriptors: Descriptors::default(),
        }
    }

    /// The same, within the open files that are left for connections.
    pub fn within(self, descriptors: Descriptors) -> Listener {
        Listener {
            descriptors,
            ..self
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next connection. Nothing is lost when this is dropped before it is done.
    ///
    /// # Errors
    /// Those of the system, which concern no connection; the next one may fail at once too.
    pub async fn accept(&mut self) -> io::Result<(Connection, SocketAddr)> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, peer) = accepted?;
                    let Some(descriptor) = self.descriptors.take() else {
                        continue;
                    };
                    // Answers are sent in large pieces: waiting for more only delays them.
                    drop(stream.set_nodelay(true));
                    match &self.tls {
                        None => return Ok((Connection::plain(stream, descriptor), peer)),
                        Some(_) if self.beginning.len() >= BEGINNING_MAX => {}
                        Some(tls) => {
                            let (tls, protocols) = (Arc::clone(tls), self.protocols);
                            let agreed = agreed(stream, peer, descriptor, tls, protocols);
                            self.beginning.spawn(agreed);
                        }
                    }
                }
                Some(begun) = self.beginning.join_next() => {
                    // A handshake that failed concerns nobody but its client, and was logged.
                    if let Ok(Ok(connection)) = begun {
                        return Ok(connection);
                    }
                }
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long people on a network are waited for is no part of what is simulated"
)]
async fn agreed(
    stream: TcpStream,
    peer: SocketAddr,
    descriptor: Descriptor,
    tls: Arc<Tls>,
    protocols: &'static [&'static str],
) -> io::Result<(Connection, SocketAddr)> {
    let agreed = async {
        let mut first = [0];
        if is_local(&peer) && (stream.peek(&mut first).await? == 0 || first != HANDSHAKE) {
            return Ok(Connection::plain(stream, descriptor));
        }
        let (stream, _) = tls.accept(stream, protocols).await?;
        Ok(Connection {
            stream: Stream::Encrypted(Box::new(stream)),
            _descriptor: descriptor,
        })
    };
    let agreed = tokio::time::timeout(HANDSHAKE_MAX, agreed).await;
    let connection = agreed.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    connection.map(|connection| (connection, peer))
}

/// Whether an address is one of this machine alone.
pub fn is_local(peer: &SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

/// What bytes come and go through.
pub struct Connection {
    stream: Stream,
    _descriptor: Descriptor,
}

enum Stream {
    /// Others could read it.
    Plain(TcpStream),
    /// Nobody between reads it.
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Connection {
    fn plain(stream: TcpStream, descriptor: Descriptor) -> Connection {
        Connection {
            stream: Stream::Plain(stream),
            _descriptor: descriptor,
        }
    }

    /// Whether nobody between can read what is sent.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.stream, Stream::Encrypted(_))
    }

    /// The address that the client has come to, where the system says it.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let stream = match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Encrypted(stream) => stream.get_ref().0,
        };
        stream.local_addr().ok()
    }

    /// The common name of the certificate that the client has shown, and that was verified. Who has
    /// a name that can't be read is nobody that a role is called.
    pub fn certified(&self) -> Option<String> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Encrypted(stream) => {
                let shown = stream.get_ref().1.peer_certificates()?.first()?;
                Some(common_name(shown).unwrap_or_default())
            }
        }
    }
}

/// Does something with whichever stream there is.
macro_rules! on_stream {
    ($stream:expr, $name:ident => $does:expr) => {
        match $stream {
            Stream::Plain($name) => $does,
            Stream::Encrypted($name) => $does,
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(&mut self.get_mut().stream, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_stream!(&mut self.get_mut().stream, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = &mut self.get_mut().stream;
        on_stream!(stream, stream => Pin::new(stream).poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        on_stream!(&self.stream, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(&mut self.get_mut().stream, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(&mut self.get_mut().stream, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
