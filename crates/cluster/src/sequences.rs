//! Numbers of sequences that this process has reserved and not given out yet.
//!
//! ```text
//!   a session        next_numbers --- from the stock: one lock, no waiting
//!                        |  the stock is empty: one session at a time
//!   coordinator      an edit that reserves a block, durable before any number of it is given out
//!                        |
//!   stock            the block; the next one is twice as large
//! ```
//!
//! Keeps memory only: what is left of a block when the process ends is given out by nobody.
//! Invariant NUM-1: a number is given out only after the edit that reserves it is durable, and
//! once. A stock whose sequence was set meanwhile, or dropped, is not used any more.

use std::collections::BTreeMap;

use lazybase_engine::manifest::Manifest;
use lazybase_model::limits::{NUMBERS_RESERVED_AT_FIRST, NUMBERS_RESERVED_MAX};
use lazybase_model::sequence::{Block, Counter};
use lazybase_model::{Result, SequenceId};
use parking_lot::Mutex;

/// A block of numbers of a sequence that an edit has reserved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved {
    pub(crate) block: Block,
    /// The number of the manifest that last set the sequence.
    pub(crate) set_in: u64,
    /// Where the sequence stood.
    pub(crate) before: Counter,
}

/// What is left of a block.
#[derive(Debug)]
struct Stock {
    reserved: Reserved,
    /// How many of its numbers were given out.
    given: u64,
    /// How many numbers are reserved next.
    next: u64,
}

impl Stock {
    fn left(&self) -> u64 {
        self.reserved.block.count - self.given
    }
}

/// The stocks of all sequences.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    stocks: Mutex<BTreeMap<SequenceId, Stock>>,
    /// Held by whoever has a block reserved: those who wait for the same one find it then.
    pub(crate) reserving: tokio::sync::Mutex<()>,
}

impl Sequences {
    /// Takes numbers of a sequence until there are `wanted`, or the stock is empty.
    ///
    /// # Errors
    /// `NotFound` (42P01) when the sequence is gone.
    pub(crate) fn take(
        &self,
        manifest: &Manifest,
        sequence: SequenceId,
        wanted: usize,
        taken: &mut Vec<i64>,
    ) -> Result<()> {
        let set_in = manifest.sequence(sequence)?.set_in;
        let mut stocks = self.stocks.lock();
        let stock = stocks.get_mut(&sequence);
        let Some(stock) = stock.filter(|stock| stock.reserved.set_in == set_in) else {
            return Ok(());
        };
        let missing = wanted.saturating_sub(taken.len()) as u64;
        let end = stock.given + missing.min(stock.left());
        let block = stock.reserved.block;
        taken.extend((stock.given..end).map(|place| block.at(place)));
        stock.given = end;
        Ok(())
    }

    /// Where a sequence stands, as far as numbers were given out.
    ///
    /// # Errors
    /// As [`Sequences::take`].
    pub(crate) fn counter(&self, manifest: &Manifest, sequence: SequenceId) -> Result<Counter> {
        let state = manifest.sequence(sequence)?;
        let stocks = self.stocks.lock();
        let stock = stocks.get(&sequence);
        let stock = stock.filter(|stock| stock.reserved.set_in == state.set_in);
        Ok(match stock {
            // What an earlier process had reserved is left out, and counts as given out.
            None => state.counter,
            Some(stock) => match stock.given.checked_sub(1) {
                None => stock.reserved.before,
                Some(place) => Counter {
                    last: stock.reserved.block.at(place),
                    called: true,
                },
            },
        })
    }

    /// How many numbers are to be reserved for somebody who needs so many.
    pub(crate) fn block_for(&self, sequence: SequenceId, missing: usize) -> u64 {
        let stocks = self.stocks.lock();
        let next = stocks.get(&sequence).map(|stock| stock.next);
        next.unwrap_or(NUMBERS_RESERVED_AT_FIRST)
            .max(missing as u64)
    }

    /// A block was reserved: its numbers are given out from now on.
    pub(crate) fn put(&self, sequence: SequenceId, reserved: Reserved) {
        let mut stocks = self.stocks.lock();
        let before = stocks.get(&sequence).map(|stock| stock.next);
        let before = before.unwrap_or(NUMBERS_RESERVED_AT_FIRST);
        let stock = Stock {
            reserved,
            given: 0,
            next: (before * 2).min(NUMBERS_RESERVED_MAX),
        };
        stocks.insert(sequence, stock);
    }

    /// Forgets the stocks of sequences that are gone.
    pub(crate) fn forget(&self, manifest: &Manifest) {
        let mut stocks = self.stocks.lock();
        stocks.retain(|sequence, _| manifest.sequences.contains_key(sequence));
    }
}
