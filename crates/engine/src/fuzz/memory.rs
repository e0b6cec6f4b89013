//! How much memory the reading of some bytes takes: an allocator that counts, for the binaries in
//! `fuzz` and for tests. What claims gigabytes in few bytes must be refused before any are taken,
//! and nothing else would notice: a number that is only reserved costs no time.
//!
//! The one place with `unsafe`: an allocator can't be written without. It passes every call on to
//! the system's as it came, and counts beside it. Only tests and fuzzing compile it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::abort;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Target;

#[cfg(test)]
mod tests;

/// The system's allocator, counted.
#[derive(Debug)]
pub struct Counted;

/// What any input may take.
const FREE_BYTES: usize = 64 << 20;
/// What an input may take for each byte of its own, beside that.
const BYTES_PER_BYTE: usize = 1 << 10;

/// All that is allocated now.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// More than this ends the process.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

thread_local! {
    /// What this thread has allocated and not freed, and the most that was so; freeing what another
    /// thread has allocated counts too.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// Reads an input; the process ends where that takes far more memory than the input is long.
pub fn bounded(bytes: &[u8], target: Target) {
    let free = FREE_BYTES.saturating_add(bytes.len().saturating_mul(BYTES_PER_BYTE));
    let limit = LIVE.load(Ordering::Relaxed).saturating_add(free);
    LIMIT.store(limit, Ordering::Relaxed);
    target(bytes);
    LIMIT.store(usize::MAX, Ordering::Relaxed);
}

/// The most bytes that this thread holds at once while it does something, with those that it asks
/// for in vain.
pub fn most_held(what: impl FnOnce()) -> usize {
    let before = HELD.get();
    MOST.set(before);
    what();
    usize::try_from(MOST.get() - before).unwrap_or(0)
}

fn took(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if live > LIMIT.load(Ordering::Relaxed) {
        LIMIT.store(usize::MAX, Ordering::Relaxed);
        eprintln!("an input takes far more memory than it is long");
        abort();
    }
    let signed = isize::try_from(bytes).unwrap_or(isize::MAX);
    // A thread that ends frees without its counters.
    let _ = HELD.try_with(|held| {
        let now = held.get().saturating_add(signed);
        held.set(now);
        MOST.with(|most| most.set(most.get().max(now)));
    });
}

fn gave(bytes: usize) {
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
    let signed = isize::try_from(bytes).unwrap_or(isize::MAX);
    let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(signed)));
}

/// The place of an allocation; one that was refused no longer counts.
fn counted(place: *mut u8, bytes: usize) -> *mut u8 {
    if place.is_null() {
        gave(bytes);
    }
    place
}

// SAFETY: every call goes to the system's allocator with the arguments that it came with, and gives
// what that gave.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller keeps the contract of the same function.
        counted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller keeps the contract of the same function.
        counted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        took(size);
        // SAFETY: the caller keeps the contract of the same function.
        let moved = unsafe { System.realloc(place, layout, size) };
        if !moved.is_null() {
            gave(layout.size());
        }
        counted(moved, size)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        gave(layout.size());
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { System.dealloc(place, layout) }
    }
}
