//! How failures slow down the next attempt.

use std::net::IpAddr;
use std::time::Duration;

use super::{ADDRESSES_MAX, Attempts, DELAY_MAX, REMEMBERED_MICROS};

#[test]
fn failures_slow_down_the_next_attempt_for_a_while() {
    let attempts = Attempts::default();
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    let delay = |now| attempts.delay(address, now);
    assert_eq!(delay(0), Duration::ZERO);
    let mut before = Duration::ZERO;
    for at in 0..20 {
        attempts.failed(address, at);
        assert!(delay(at) >= before);
        before = delay(at);
    }
    assert_eq!(before, DELAY_MAX);
    assert_eq!(delay(20 + REMEMBERED_MICROS), Duration::ZERO);
    assert_eq!(
        attempts.delay("192.0.2.2".parse().unwrap(), 20),
        Duration::ZERO
    );
    attempts.succeeded(address);
    assert_eq!(delay(20), Duration::ZERO);
}

#[test]
fn a_network_of_addresses_is_one_client_and_their_number_is_bounded() {
    let attempts = Attempts::default();
    for host in 0..10_u32 {
        attempts.failed(format!("2001:db8::{host:x}").parse().unwrap(), 0);
    }
    let other: IpAddr = "2001:db8::ffff".parse().unwrap();
    assert!(attempts.delay(other, 0) > Duration::ZERO);
    for host in 0..2 * ADDRESSES_MAX as u32 {
        attempts.failed(IpAddr::from((0x0a00_0000 + host).to_be_bytes()), 0);
    }
    assert!(attempts.failed.lock().len() <= ADDRESSES_MAX);
    let unknown: IpAddr = "192.0.2.1".parse().unwrap();
    assert!(attempts.delay(unknown, 0) > Duration::ZERO);
}
