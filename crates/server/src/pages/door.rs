//! Where connections of HTTP come in: so many at a time, each with a time for what it asks.
//!
//! ```text
//!   a place is free -> accept -> the time begins
//!                                  bytes are answered     it begins anew
//!                                  it is over             closed, and the place is given back
//! ```
//!
//! The pages take no bodies and are made at once, so that one time is enough for a request to come,
//! for its answer to be read, and for a connection that is kept to be used again. Invariant HTTP-2:
//! whoever says nothing, or half a request, or does not read, keeps a place for that time alone.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lazybase_tls::{Connection, Descriptors, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::wall::{self, Timer};

/// How long a connection may be silent, or leave unread what it is sent.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// The same for those that come while half of the places are taken.
const SILENT_CROWDED_MAX: Duration = Duration::from_secs(2);

/// How long nobody is let in after that has failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Where connections come in, encrypted where there is TLS.
pub struct Door {
    listener: Listener,
    places: Arc<Semaphore>,
    places_max: usize,
}

impl Door {
    /// With so many open files; half are for those who are let in, and half for TLS that begins.
    /// Who finds no place waits.
    pub fn new(listener: Listener, descriptors: usize) -> Door {
        let places_max = descriptors.div_ceil(2);
        Door {
            listener: listener.within(Descriptors::new(descriptors)),
            places: Arc::new(Semaphore::new(places_max)),
            places_max,
        }
    }
}

impl axum::serve::Listener for Door {
    type Io = Held;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Held, SocketAddr) {
        // Nobody closes the semaphore.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((connection, peer)) => {
                    let crowded = self.places.available_permits() < self.places_max / 2;
                    let silent_max = match crowded {
                        true => SILENT_CROWDED_MAX,
                        false => SILENT_MAX,
                    };
                    let held = Held {
                        connection,
                        silence: Timer::of(silent_max),
                        _place: place,
                    };
                    return (held, peer);
                }
                // Without files for a connection, others must end first.
                Err(_) => wall::sleep(ACCEPT_AGAIN).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that has a place, and a time.
pub struct Held {
    connection: Connection,
    silence: Timer,
    _place: Option<OwnedSemaphorePermit>,
}

impl Held {
    /// As [`Connection::certified`].
    pub(super) fn certified(&self) -> Option<String> {
        self.connection.certified()
    }

    /// What waits for the client waits no longer than there is time.
    fn in_time<T>(
        &mut self,
        done: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        match done {
            Poll::Pending if self.silence.is_over(cx) => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            done => done,
        }
    }
}

impl AsyncRead for Held {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let held = self.get_mut();
        // Bytes that drip in give a request no more time.
        let read = Pin::new(&mut held.connection).poll_read(cx, buffer);
        held.in_time(read, cx)
    }
}

impl AsyncWrite for Held {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let held = self.get_mut();
        let written = Pin::new(&mut held.connection).poll_write(cx, bytes);
        if let Poll::Ready(Ok(_)) = written {
            held.silence.begin_again();
        }
        held.in_time(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let held = self.get_mut();
        let written = Pin::new(&mut held.connection).poll_write_vectored(cx, bytes);
        if let Poll::Ready(Ok(_)) = written {
            held.silence.begin_again();
        }
        held.in_time(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let held = self.get_mut();
        let flushed = Pin::new(&mut held.connection).poll_flush(cx);
        held.in_time(flushed, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let held = self.get_mut();
        let closed = Pin::new(&mut held.connection).poll_shutdown(cx);
        held.in_time(closed, cx)
    }
}
