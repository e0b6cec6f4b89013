//! Passwords that are tried: each failure makes the next attempt from its address wait longer.
//!
//! Attempts from an address take turns, so that those that come together take as long as those
//! that come one after the other:
//!
//! ```text
//!   turn -> delay, as the failures so far want it -> the password is tested -> end: right, wrong
//! ```
//!
//! Who does not get a turn in time is refused, and nothing was tested: then a right password waits
//! for a few seconds at most, whatever others send.
//! Reads and writes its own memory, which is bounded; whoever speaks with clients does the waiting.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use lazybase_model::Error;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

/// Attempts to be let in, by the address that they come from.
#[derive(Debug, Default)]
pub struct Attempts {
    failed: Mutex<HashMap<IpAddr, (u32, i64)>>,
    lines: Mutex<HashMap<IpAddr, Line>>,
}

/// The attempts that go on at an address, all but one waiting for their turn.
#[derive(Debug, Default)]
struct Line {
    turns: Arc<Turns<()>>,
    count: usize,
}

/// The turn of one attempt: until this is dropped, no other one from its address goes on.
#[derive(Debug)]
pub struct Turn<'a> {
    _turn: OwnedMutexGuard<()>,
    place: Place<'a>,
}

/// A place in a line.
#[derive(Debug)]
struct Place<'a> {
    attempts: &'a Attempts,
    client: IpAddr,
}

/// How many addresses are remembered.
const ADDRESSES_MAX: usize = 4096;
/// How long a failure is remembered.
const REMEMBERED_MICROS: i64 = 60_000_000;
/// So many failures cost nothing: fingers slip.
const FREE: u32 = 2;
const DELAY_MAX: Duration = Duration::from_secs(3);
/// How many attempts from an address go on at a time.
const LINE_MAX: usize = 1024;

impl Attempts {
    /// How long an attempt waits for its turn, before it is refused.
    pub const PATIENCE: Duration = Duration::from_secs(5);

    /// Waits for the turn of an attempt from an address; `None` where very many wait already.
    pub fn turn(&self, address: IpAddr) -> BoxFuture<'_, Option<Turn<'_>>> {
        Box::pin(async move {
            let (place, turns) = self.line_up(whose(address))?;
            let turn = turns.lock_owned().await;
            Some(Turn { _turn: turn, place })
        })
    }

    /// The error of an attempt that did not get its turn.
    pub fn too_many() -> Error {
        Error::unavailable("too many attempts to log in from this address")
            .with_detail("they wait for one another, and longer after each wrong password")
            .with_hint("try again in some seconds")
            .with_sqlstate("53300")
    }

    fn line_up(&self, client: IpAddr) -> Option<(Place<'_>, Arc<Turns<()>>)> {
        let mut lines = self.lines.lock();
        let line = lines.entry(client).or_default();
        if line.count >= LINE_MAX {
            return None;
        }
        line.count += 1;
        let place = Place {
            attempts: self,
            client,
        };
        Some((place, Arc::clone(&line.turns)))
    }

    /// How long the next attempt from an address is kept waiting; `now` is in microseconds, as
    /// with the others.
    fn delay(&self, address: IpAddr, now: i64) -> Duration {
        let failed = self.failed.lock();
        let (count, last) = match failed.get(&whose(address)) {
            Some(known) => *known,
            // So many addresses fail at once that this may be one of them.
            None if failed.len() >= ADDRESSES_MAX => (FREE + 2, now),
            None => return Duration::ZERO,
        };
        if now - last > REMEMBERED_MICROS {
            return Duration::ZERO;
        }
        let doubled = count.saturating_sub(FREE).min(10);
        match doubled {
            0 => Duration::ZERO,
            doubled => Duration::from_millis(100 << (doubled - 1)).min(DELAY_MAX),
        }
    }

    /// Somebody at an address was not let in.
    fn failed(&self, address: IpAddr, now: i64) {
        let mut failed = self.failed.lock();
        if failed.len() >= ADDRESSES_MAX {
            failed.retain(|_, (_, last)| now - *last <= REMEMBERED_MICROS);
        }
        if failed.len() < ADDRESSES_MAX || failed.contains_key(&whose(address)) {
            let (count, last) = failed.entry(whose(address)).or_default();
            *count = count.saturating_add(1);
            *last = now;
        }
    }

    /// Somebody at an address was let in.
    fn succeeded(&self, address: IpAddr) {
        self.failed.lock().remove(&whose(address));
    }
}

impl Turn<'_> {
    /// How long the attempt is kept waiting before its password is tested; `now` is in
    /// microseconds.
    pub fn delay(&self, now: i64) -> Duration {
        self.place.attempts.delay(self.place.client, now)
    }

    /// The password was tested, and the client let in or not.
    pub fn end(self, is_let_in: bool, now: i64) {
        let Place { attempts, client } = &self.place;
        match is_let_in {
            true => attempts.succeeded(*client),
            false => attempts.failed(*client, now),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.attempts.lines.lock();
        if let Some(line) = lines.get_mut(&self.client) {
            line.count -= 1;
            if line.count == 0 {
                lines.remove(&self.client);
            }
        }
    }
}

/// The address that stands for a client: one client has a whole network of version 6 for itself.
fn whose(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests;
