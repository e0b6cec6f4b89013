//! What a client sends and is sent: bytes in, messages out, and nothing read ahead without bound.

use bytes::BytesMut;
use lazybase_model::Result;
use pgwire::messages::Message as Encode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::messages::{self, Message};

/// What is read at once, and the most that is read while a statement runs.
const READ_BYTES: usize = 16 << 10;
/// What is kept back before it is sent: answers of many rows go out in such pieces.
pub(crate) const SEND_BYTES: usize = 64 << 10;

/// The connection is over: the client left, or can't be reached.
#[derive(Debug)]
pub(crate) struct Gone;

/// A connection's two ways.
pub(crate) struct Wire {
    stream: TcpStream,
    pub(crate) input: BytesMut,
    pub(crate) out: BytesMut,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        Wire {
            stream,
            input: BytesMut::new(),
            out: BytesMut::new(),
        }
    }

    /// Appends a message to what will be sent.
    pub(crate) fn put(&mut self, message: impl Encode) {
        // It fails only for texts longer than any that is made here.
        drop(message.encode(&mut self.out));
    }

    /// Sends what was put.
    pub(crate) async fn flush(&mut self) -> Result<(), Gone> {
        if self.out.is_empty() {
            return Ok(());
        }
        let sent = self.stream.write_all(&self.out).await;
        self.out.clear();
        if self.out.capacity() > 4 * SEND_BYTES {
            self.out = BytesMut::new();
        }
        sent.map_err(|_| Gone)
    }

    /// Reads more.
    pub(crate) async fn fill(&mut self) -> Result<(), Gone> {
        self.input.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.input).await {
            Ok(0) | Err(_) => Err(Gone),
            Ok(_) => Ok(()),
        }
    }

    /// Ends when the client has left; until then it keeps a little of what the client sends.
    pub(crate) async fn left(&mut self) -> Gone {
        loop {
            if self.input.len() >= READ_BYTES {
                // It has sent more than is read ahead: whether it is still there shows later.
                std::future::pending::<()>().await;
            }
            if self.fill().await.is_err() {
                return Gone;
            }
        }
    }

    /// The next message that is there whole.
    ///
    /// # Errors
    /// `Invalid` (08P01) when nothing can be read any more.
    pub(crate) fn take(&mut self) -> Result<Option<Message>> {
        messages::take(&mut self.input)
    }

    /// Says goodbye.
    pub(crate) async fn close(mut self) {
        drop(self.flush().await);
        drop(self.stream.shutdown().await);
    }
}
