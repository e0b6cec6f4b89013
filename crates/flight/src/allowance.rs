//! How much is read of connections by which nobody was let in yet.
//!
//! HTTP/2 takes what a client sends of its calls before anybody hears them, as far as its windows
//! go, and these are wide, for those who ingest. So what is read of a connection is bounded until
//! somebody is let in by it, and so is what is read of all such connections together:
//!
//! ```text
//!   the first OWN_BYTES   read at once: more than it takes to log in
//!   up to BYTES_MAX       in pieces of a pool, for which connections wait in turn
//!   beyond                not read until somebody is let in by the connection
//! ```
//!
//! A connection gives its pieces back when somebody is let in by it, and when it ends. Reads and
//! writes nothing itself.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::peer::Peer;

/// What is read of each connection, whatever others send.
const OWN_BYTES: usize = 64 << 10;
/// The most that is read of a connection: a message of a call that is heard, and more.
const BYTES_MAX: usize = 4 << 20;
/// What a connection takes of the pool at a time.
const PIECE_BYTES: usize = 64 << 10;
/// What there is for all connections together, beyond what is each one's own.
const POOL_BYTES: usize = 64 << 20;

const PIECES_MAX: usize = (BYTES_MAX - OWN_BYTES) / PIECE_BYTES;

/// What connections share.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Arc<Semaphore>);

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool(Arc::new(Semaphore::new(POOL_BYTES / PIECE_BYTES)))
    }
}

/// How much may still be read of a connection.
pub(crate) struct Allowance {
    peer: Peer,
    pool: Pool,
    /// Somebody was let in: there is no limit any more.
    is_over: bool,
    left: usize,
    pieces: Vec<OwnedSemaphorePermit>,
    /// For a piece, or for somebody to be let in: then there is none.
    waiting: Option<BoxFuture<'static, Option<OwnedSemaphorePermit>>>,
}

impl Allowance {
    pub(crate) fn new(peer: Peer, pool: Pool) -> Allowance {
        Allowance {
            peer,
            pool,
            is_over: false,
            left: OWN_BYTES,
            pieces: Vec::new(),
            waiting: None,
        }
    }

    /// Waits until something may be read.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_over && self.left == 0 {
            if self.peer.is_known() {
                self.end();
                break;
            }
            let waiting = match self.waiting.take() {
                Some(waiting) => waiting,
                None => self.wait(),
            };
            let waiting = self.waiting.insert(waiting);
            let Poll::Ready(piece) = waiting.as_mut().poll(cx) else {
                return Poll::Pending;
            };
            self.waiting = None;
            if let Some(piece) = piece {
                self.pieces.push(piece);
                self.left = PIECE_BYTES;
            }
        }
        Poll::Ready(())
    }

    /// So many bytes were read.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        if !self.is_over && self.peer.is_known() {
            self.end();
        }
    }

    fn wait(&self) -> BoxFuture<'static, Option<OwnedSemaphorePermit>> {
        let known = self.peer.becomes_known();
        if self.pieces.len() >= PIECES_MAX {
            return Box::pin(async move {
                known.await;
                None
            });
        }
        let pool = Arc::clone(&self.pool.0);
        Box::pin(async move {
            tokio::select! {
                () = known => None,
                piece = pool.acquire_owned() => piece.ok(),
            }
        })
    }

    fn end(&mut self) {
        self.is_over = true;
        self.pieces = Vec::new();
        self.waiting = None;
    }
}

#[cfg(test)]
mod tests;
