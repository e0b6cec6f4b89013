//! The bytes of a COPY FROM STDIN, from the connection to the thread that reads rows from them.
//!
//! ```text
//!   connection: push -> | at most a few MiB | -> fill_buf: thread
//!               waits when it is full             waits when it is empty
//! ```

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

/// The most bytes that wait to be read.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// The side that bytes go in.
pub(crate) struct PipeIn(Arc<Pipe>);

/// The side that they come out of.
pub(crate) struct PipeOut {
    pipe: Arc<Pipe>,
    current: Bytes,
}

#[derive(Default)]
struct Pipe {
    state: Mutex<State>,
    /// There is something to read.
    filled: Condvar,
    /// There is room again, or nobody reads any more.
    drained: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Bytes>,
    bytes: usize,
    /// No more come; with the reason, where that is not their end.
    ended: Option<Result<(), String>>,
    abandoned: bool,
}

/// A pipe's two ends.
pub(crate) fn pipe() -> (PipeIn, PipeOut) {
    let pipe = Arc::new(Pipe::default());
    let out = PipeOut {
        pipe: Arc::clone(&pipe),
        current: Bytes::new(),
    };
    (PipeIn(pipe), out)
}

impl PipeIn {
    /// Puts bytes in; waits while too many are there. False when nobody reads them any more.
    pub(crate) async fn push(&self, bytes: Bytes) -> bool {
        loop {
            let room = self.0.drained.notified();
            if let Some(taken) = self.offer(&bytes) {
                return taken;
            }
            room.await;
        }
    }

    /// The same without waiting: nothing where too many are there.
    pub(crate) fn offer(&self, bytes: &Bytes) -> Option<bool> {
        // An empty piece would be taken for the end.
        if bytes.is_empty() {
            return Some(true);
        }
        let mut state = self.0.state.lock();
        if state.abandoned {
            return Some(false);
        }
        if state.bytes >= WAITING_BYTES_MAX {
            return None;
        }
        state.bytes += bytes.len();
        state.waiting.push_back(bytes.clone());
        self.0.filled.notify_one();
        Some(true)
    }

    /// No more come. What is there is read; after a reason, reading fails.
    pub(crate) fn end(&self, reason: Result<(), String>) {
        let mut state = self.0.state.lock();
        state.ended.get_or_insert(reason);
        self.0.filled.notify_one();
    }
}

impl Drop for PipeIn {
    fn drop(&mut self) {
        self.end(Err("the client has left".to_owned()));
    }
}

impl PipeOut {
    fn fill(&mut self) -> io::Result<()> {
        let mut state = self.pipe.state.lock();
        loop {
            if let Some(Err(reason)) = &state.ended {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    reason.clone(),
                ));
            }
            if let Some(next) = state.waiting.pop_front() {
                state.bytes -= next.len();
                self.pipe.drained.notify_one();
                self.current = next;
                return Ok(());
            }
            if state.ended.is_some() {
                return Ok(());
            }
            self.pipe.filled.wait(&mut state);
        }
    }
}

impl Drop for PipeOut {
    fn drop(&mut self) {
        self.pipe.state.lock().abandoned = true;
        self.pipe.drained.notify_one();
    }
}

impl Read for PipeOut {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let there = self.fill_buf()?;
        let taken = there.len().min(into.len());
        into[..taken].copy_from_slice(&there[..taken]);
        self.consume(taken);
        Ok(taken)
    }
}

impl BufRead for PipeOut {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.current.is_empty() {
            self.fill()?;
        }
        Ok(&self.current)
    }

    fn consume(&mut self, taken: usize) {
        self.current.advance(taken);
    }
}
