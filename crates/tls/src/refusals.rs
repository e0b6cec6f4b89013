//! What is logged of clients that encryption was not agreed on with: their certificate was refused,
//! they refused the server's, or they speak something else. Whoever reaches the server can make
//! such lines, so there are only so many of them in a minute.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

const MINUTE: Duration = Duration::from_secs(60);
/// The most lines in a minute. How many were left out is told with the next one.
const LINES_MAX: u32 = 10;

/// What was refused of late.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    begun: Option<Instant>,
    lines: u32,
    /// Since the last line.
    left_out: u64,
}

impl Refusals {
    /// A handshake has failed. Who only left, as those do that look whether the port is open, is no
    /// news.
    pub(crate) fn note(&self, peer: Option<SocketAddr>, error: &io::Error) {
        let peer = peer.map(tracing::field::display);
        if error.kind() != io::ErrorKind::InvalidData {
            tracing::debug!(peer, "TLS handshake ended: {error}");
            return;
        }
        let line = self.0.lock().line(now());
        if let Some(left_out) = line {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::info!(peer, left_out, "TLS handshake refused: {error}");
        }
    }
}

impl Minute {
    /// Whether there is a line for one more, and how many had none since the last line.
    fn line(&mut self, now: Instant) -> Option<u64> {
        let is_over = |begun: Instant| now.duration_since(begun) >= MINUTE;
        if self.begun.is_none_or(is_over) {
            self.begun = Some(now);
            self.lines = 0;
        }
        if self.lines == LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "when people on a network are refused is no part of what is simulated"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_so_many_lines_and_the_next_one_tells_how_many_were_left_out() {
        let (mut minute, begun) = (Minute::default(), now());
        for _ in 0..LINES_MAX {
            assert_eq!(minute.line(begun), Some(0));
        }
        for _ in 0..3 {
            assert_eq!(minute.line(begun + MINUTE / 2), None);
        }
        assert_eq!(minute.line(begun + MINUTE), Some(3));
        assert_eq!(minute.line(begun + MINUTE), Some(0));
    }
}
