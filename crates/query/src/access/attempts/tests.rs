//! How failures slow down the next attempt.

use std::net::IpAddr;
use std::time::Duration;

use futures::FutureExt;

use super::{ADDRESSES_MAX, Attempts, DELAY_MAX, FREE, LINE_MAX, REMEMBERED_MICROS};

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

#[tokio::test]
async fn attempts_from_an_address_take_turns_and_each_counts_before_the_next() {
    let attempts = Attempts::default();
    let (address, other): (IpAddr, IpAddr) =
        ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    for at in 0..i64::from(FREE) + 1 {
        let turn = attempts.turn(address).await.unwrap();
        assert_eq!(turn.delay(at), Duration::ZERO);
        assert!(attempts.turn(address).now_or_never().is_none());
        assert!(attempts.turn(other).now_or_never().flatten().is_some());
        turn.end(false, at);
    }
    let turn = attempts.turn(address).await.unwrap();
    assert_eq!(turn.delay(3), Duration::from_millis(100));
    turn.end(true, 3);
    let turn = attempts.turn(address).await.unwrap();
    assert_eq!(turn.delay(3), Duration::ZERO);
    drop(turn);
    assert!(attempts.lines.lock().is_empty());
}

#[tokio::test]
async fn lines_are_bounded_and_those_that_leave_them_make_room() {
    let attempts = Attempts::default();
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    let first = attempts.turn(address).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 1..LINE_MAX {
        let mut turn = attempts.turn(address);
        assert!((&mut turn).now_or_never().is_none());
        waiting.push(turn);
    }
    assert!(matches!(attempts.turn(address).now_or_never(), Some(None)));
    waiting.pop();
    assert!(attempts.turn(address).now_or_never().is_none());
    drop(first);
    drop(waiting);
    assert!(attempts.lines.lock().is_empty());
}
