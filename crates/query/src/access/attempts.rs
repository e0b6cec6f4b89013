//! Passwords that are tried one after the other: each failure makes the next attempt wait longer.
//!
//! Reads and writes its own memory, which is bounded; whoever speaks with clients does the waiting.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;

/// Failed attempts to be let in, by the address that they came from.
#[derive(Debug, Default)]
pub struct Attempts {
    failed: Mutex<HashMap<IpAddr, (u32, i64)>>,
}

/// How many addresses are remembered.
const ADDRESSES_MAX: usize = 4096;
/// How long a failure is remembered.
const REMEMBERED_MICROS: i64 = 60_000_000;
/// So many failures cost nothing: fingers slip.
const FREE: u32 = 2;
const DELAY_MAX: Duration = Duration::from_secs(3);

impl Attempts {
    /// How long the next attempt from an address is kept waiting; `now` is in microseconds, as
    /// with the others.
    pub fn delay(&self, address: IpAddr, now: i64) -> Duration {
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
    pub fn failed(&self, address: IpAddr, now: i64) {
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
    pub fn succeeded(&self, address: IpAddr) {
        self.failed.lock().remove(&whose(address));
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
