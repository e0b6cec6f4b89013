//! The limits of one connection, and of all of them.

use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::{Allowance, BYTES_MAX, OWN_BYTES, PIECE_BYTES, POOL_BYTES, Pool};
use crate::peer::Peer;

fn peer() -> Peer {
    Peer::new(SocketAddr::from(([127, 0, 0, 1], 1)), None)
}

fn is_ready(allowance: &mut Allowance) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    allowance.poll_ready(&mut cx).is_ready()
}

/// Reads as much as may be read, and gives how much that was.
fn exhaust(allowance: &mut Allowance) -> usize {
    let mut read = 0;
    while is_ready(allowance) {
        read += PIECE_BYTES;
        assert!(read <= 2 * BYTES_MAX, "there is no limit");
        allowance.spend(PIECE_BYTES);
    }
    read
}

#[test]
fn a_connection_is_read_up_to_its_limit_until_somebody_is_let_in() {
    let (peer, pool) = (peer(), Pool::new());
    let mut allowance = Allowance::new(peer.clone(), pool.clone());
    assert_eq!(exhaust(&mut allowance), BYTES_MAX);
    peer.let_in();
    for _ in 0..1000 {
        assert!(is_ready(&mut allowance));
        allowance.spend(BYTES_MAX);
    }
    assert_eq!(pool.0.available_permits(), POOL_BYTES / PIECE_BYTES);
}

#[test]
fn connections_together_take_no_more_than_there_is_and_give_it_back() {
    let pool = Pool::new();
    let mut all: Vec<Allowance> = (0..POOL_BYTES / BYTES_MAX + 2)
        .map(|_| Allowance::new(peer(), pool.clone()))
        .collect();
    let own = all.len() * OWN_BYTES;
    let read: usize = all.iter_mut().map(exhaust).sum();
    assert_eq!(read, own + POOL_BYTES);
    // Somebody who comes now can still log in.
    let mut late = Allowance::new(peer(), pool.clone());
    assert_eq!(exhaust(&mut late), OWN_BYTES);
    // Those who wait get in turn what one that ends has had.
    drop(late);
    all.remove(0);
    let last = all.last_mut().unwrap();
    assert!(is_ready(last));
}

#[test]
fn who_waits_is_woken_when_somebody_is_let_in() {
    let peer = peer();
    let known = peer.becomes_known();
    let mut known = pin!(known);
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(known.as_mut().poll(&mut cx), Poll::Pending);
    peer.let_in();
    assert_eq!(known.as_mut().poll(&mut cx), Poll::Ready(()));
    assert!(peer.is_known());
}
