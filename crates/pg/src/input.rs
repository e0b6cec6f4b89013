//! What a client sends and is sent: bytes in, messages out, and nothing read ahead without bound.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use lazybase_model::Result;
use lazybase_tls::{HANDSHAKE, Tls, common_name};
use pgwire::messages::Message as Encode;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::messages::{self, Message};
use crate::server::{pause, within};
use crate::startup::PROTOCOL;

/// What is read at once, and the most that is read while a statement runs.
const READ_BYTES: usize = 16 << 10;
/// How often is looked whether a client is still there that has sent more than that.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// How long a connection that ends waits for its client to take what it was told last.
const GOODBYE_MAX: Duration = Duration::from_secs(3);
/// What is kept back before it is sent: answers of many rows go out in such pieces.
pub(crate) const SEND_BYTES: usize = 64 << 10;

/// The connection is over: the client left, or can't be reached.
#[derive(Debug)]
pub(crate) struct Gone;

/// What bytes come and go through.
enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
    /// A handshake failed.
    Broken,
}

/// Does something with whichever stream there is.
macro_rules! on_stream {
    ($stream:expr, $name:ident => $does:expr) => {
        match $stream {
            Stream::Plain($name) => $does,
            Stream::Encrypted($name) => $does,
            Stream::Broken => Err(std::io::ErrorKind::NotConnected.into()),
        }
    };
}

/// A connection's two ways.
pub(crate) struct Wire {
    stream: Stream,
    /// The server's certificate, once the connection is encrypted with it.
    certificate: Option<Arc<[u8]>>,
    pub(crate) input: BytesMut,
    pub(crate) out: BytesMut,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        Wire {
            stream: Stream::Plain(stream),
            certificate: None,
            input: BytesMut::new(),
            out: BytesMut::new(),
        }
    }

    /// Encrypts the connection from here on. What a client has sent before is none of it: somebody
    /// between may have put it there.
    ///
    /// # Errors
    /// `Gone` when the client does not agree, or has sent something already.
    pub(crate) async fn encrypt(&mut self, tls: &Tls) -> Result<(), Gone> {
        if !self.input.is_empty() || !self.out.is_empty() {
            return Err(Gone);
        }
        match std::mem::replace(&mut self.stream, Stream::Broken) {
            Stream::Plain(stream) => {
                let (stream, certificate) = tls.accept(stream, &[PROTOCOL]).await?;
                self.stream = Stream::Encrypted(Box::new(stream));
                self.certificate = Some(certificate);
                Ok(())
            }
            _ => Err(Gone),
        }
    }

    /// Whether the first byte that the client sends begins a handshake; waits for it.
    pub(crate) async fn begins_encrypted(&mut self) -> Result<bool, Gone> {
        let Stream::Plain(stream) = &self.stream else {
            return Ok(false);
        };
        let mut first = [0];
        match stream.peek(&mut first).await? {
            0 => Err(Gone),
            _ => Ok(first == HANDSHAKE),
        }
    }

    /// Whether nobody between reads what is sent.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.stream, Stream::Encrypted(_))
    }

    /// The text of the certificate that the connection is encrypted with.
    pub(crate) fn certificate(&self) -> Option<Arc<[u8]>> {
        self.certificate.clone()
    }

    /// The protocol that was agreed on when the connection was encrypted.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        match &self.stream {
            Stream::Encrypted(stream) => stream.get_ref().1.alpn_protocol(),
            _ => None,
        }
    }

    /// The common name of the certificate that the client has shown, and that was verified.
    pub(crate) fn certified(&self) -> Option<String> {
        let Stream::Encrypted(stream) = &self.stream else {
            return None;
        };
        let shown = stream.get_ref().1.peer_certificates()?.first()?;
        // Who has a name that can't be read is nobody that a role is called.
        Some(common_name(shown).unwrap_or_default())
    }

    /// Appends a message to what will be sent.
    pub(crate) fn put(&mut self, message: impl Encode) {
        // It fails only for texts longer than any that is made here.
        drop(message.encode(&mut self.out));
    }

    /// Sends what was put. Where this is dropped before it is done, what was sent is not sent
    /// again.
    pub(crate) async fn flush(&mut self) -> Result<(), Gone> {
        if self.out.is_empty() {
            return Ok(());
        }
        let is_large = self.out.capacity() > 4 * SEND_BYTES;
        let out = &mut self.out;
        let sent = on_stream!(&mut self.stream, stream => send_all(stream, out).await);
        self.out.clear();
        if is_large {
            self.out = BytesMut::new();
        }
        sent.map_err(|_| Gone)
    }

    /// Reads more.
    pub(crate) async fn fill(&mut self) -> Result<(), Gone> {
        self.input.reserve(READ_BYTES);
        let read = on_stream!(&mut self.stream, stream => stream.read_buf(&mut self.input).await);
        match read {
            Ok(0) | Err(_) => Err(Gone),
            Ok(_) => Ok(()),
        }
    }

    /// Ends when the client has left; until then it keeps a little of what the client sends.
    pub(crate) async fn left(&mut self) -> Gone {
        while self.input.len() < READ_BYTES {
            if self.fill().await.is_err() {
                return Gone;
            }
        }
        // It has sent more than is read ahead. That it has left stands behind what nobody reads
        // yet, and the system tells of it without.
        loop {
            let Some(stream) = self.socket() else {
                return Gone;
            };
            match stream.ready(Interest::READABLE).await {
                Ok(ready) if ready.is_read_closed() => return Gone,
                Ok(_) => pause(LOOK_AGAIN).await,
                Err(_) => return Gone,
            }
        }
    }

    /// What the bytes come and go through in the end.
    fn socket(&self) -> Option<&TcpStream> {
        match &self.stream {
            Stream::Plain(stream) => Some(stream),
            Stream::Encrypted(stream) => Some(stream.get_ref().0),
            Stream::Broken => None,
        }
    }

    /// The next message that is there whole.
    ///
    /// # Errors
    /// `Invalid` (08P01) when nothing can be read any more.
    pub(crate) fn take(&mut self) -> Result<Option<Message>> {
        messages::take(&mut self.input)
    }

    /// Says goodbye. A client that does not read is not waited for longer than a while: what is
    /// the connection's would stay as long as it likes.
    pub(crate) async fn close(mut self) {
        let goodbye = async {
            drop(self.flush().await);
            drop(on_stream!(&mut self.stream, stream => stream.shutdown().await));
        };
        within(GOODBYE_MAX, goodbye).await;
    }
}

/// Sends bytes, and takes them off as far as they were sent. As one slice: as a list of slices,
/// which there would be one of, they take the system longer.
async fn send_all(
    stream: &mut (impl AsyncWrite + Unpin),
    bytes: &mut BytesMut,
) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes).await? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            sent => bytes.advance(sent),
        }
    }
    stream.flush().await
}
