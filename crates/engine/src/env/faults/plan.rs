//! What is to go wrong, when, and where; and how often each operation was asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use crate::env::{StoreError, StoreResult};

/// What a store is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Put a small file if absent.
    Put,
    /// Begin a file.
    Create,
    /// Append to a file that was begun.
    Write,
    /// Finish it.
    Finish,
    /// Read a range.
    Read,
    /// Tell a length.
    Len,
    /// List a folder.
    List,
    /// Create or recycle a log.
    CreateLog,
    /// Write into a log.
    LogWrite,
    /// Sync a log.
    LogSync,
    /// Remove a file.
    Delete,
}

impl Operation {
    /// Whether it leaves the store as it was.
    fn is_read(self) -> bool {
        matches!(self, Operation::Read | Operation::Len | Operation::List)
    }
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not happen, and says so.
    Refused {
        /// Whether for want of space.
        full: bool,
    },
    /// It happens, and says that it may have.
    HappensAnyway,
    /// It says that it may have happened, and did not.
    Lost,
    /// Of a log write the first half happens; any other operation happens whole. It says that it
    /// may have happened.
    Torn,
}

/// Which operations fail, and how.
#[derive(Debug, Clone)]
pub struct Rule {
    operation: Operation,
    name_part: String,
    skip: u64,
    times: u64,
    fault: Fault,
}

impl Rule {
    /// Every `operation` fails with `fault`.
    pub fn every(operation: Operation, fault: Fault) -> Rule {
        Rule {
            operation,
            name_part: String::new(),
            skip: 0,
            times: u64::MAX,
            fault,
        }
    }

    /// The `n`-th (from 1 on) such operation from now fails with `fault`; once.
    pub fn nth(operation: Operation, n: u64, fault: Fault) -> Rule {
        Rule {
            skip: n.saturating_sub(1),
            times: 1,
            ..Rule::every(operation, fault)
        }
    }

    /// Only files whose name contains `part` count.
    #[must_use]
    pub fn named(mut self, part: &str) -> Rule {
        self.name_part = part.to_owned();
        self
    }

    fn applies(&mut self, operation: Operation, name: &str) -> bool {
        if self.operation != operation || !name.contains(&self.name_part) || self.times == 0 {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.times -= 1;
        true
    }
}

/// What is to go wrong. Clones are the same plan.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    rules: Vec<Rule>,
    counts: BTreeMap<Operation, u64>,
    /// Bits of files that read as their opposites: part of the name, number of the bit.
    flips: Vec<(String, u64)>,
    /// Files that seem cut off: part of the name, bytes left.
    cuts: Vec<(String, u64)>,
    /// Bytes that may still be written; None for no limit.
    space: Option<u64>,
    read_only: bool,
    changes_until_read_only: Option<u64>,
    crashed: bool,
    changes_until_crash: Option<u64>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lock().fmt(f)
    }
}

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Faults {
        Faults::default()
    }

    /// Adds a rule. Of several that apply the first added counts; each counts its own operations.
    pub fn add(&self, rule: Rule) {
        self.0.lock().rules.push(rule);
    }

    /// Lifts everything: rules, damage, limits, read-only, the crash. Counts stay.
    pub fn clear(&self) {
        let mut plan = self.0.lock();
        let counts = std::mem::take(&mut plan.counts);
        *plan = Plan {
            counts,
            ..Plan::default()
        };
    }

    /// How often an operation was asked for, failed or not.
    pub fn count(&self, operation: Operation) -> u64 {
        self.0.lock().counts.get(&operation).copied().unwrap_or(0)
    }

    /// Lets bit `bit` (of the file, from its first byte's lowest on) read as its opposite in files
    /// whose name contains `part`.
    pub fn flip_bit(&self, part: &str, bit: u64) {
        self.0.lock().flips.push((part.to_owned(), bit));
    }

    /// Lets files whose name contains `part` seem to end after `bytes`.
    pub fn truncate(&self, part: &str, bytes: u64) {
        self.0.lock().cuts.push((part.to_owned(), bytes));
    }

    /// Lets the disk be full once `bytes` more are written. Removing files frees none.
    pub fn limit_space(&self, bytes: u64) {
        self.0.lock().space = Some(bytes);
    }

    /// Gives back space; nothing happens where there is no limit.
    pub fn give_space(&self, bytes: u64) {
        if let Some(space) = &mut self.0.lock().space {
            *space = space.saturating_add(bytes);
        }
    }

    /// Takes the limit of space away.
    pub fn lift_space_limit(&self) {
        self.0.lock().space = None;
    }

    /// Refuses every change, or no longer.
    pub fn set_read_only(&self, read_only: bool) {
        let mut plan = self.0.lock();
        plan.read_only = read_only;
        plan.changes_until_read_only = None;
    }

    /// After `changes` more operations that change the store, every change is refused.
    pub fn read_only_after(&self, changes: u64) {
        self.0.lock().changes_until_read_only = Some(changes);
    }

    /// From now on nothing works.
    pub fn crash(&self) {
        self.0.lock().crashed = true;
    }

    /// After `changes` more operations that change the store, nothing works.
    pub fn crash_after(&self, changes: u64) {
        self.0.lock().changes_until_crash = Some(changes);
    }

    /// Whether the store has crashed.
    pub fn is_crashed(&self) -> bool {
        self.0.lock().crashed
    }

    /// Called before an operation: what is to be reported after it, or why it is not done at all.
    pub(super) fn before(&self, operation: Operation, name: &str) -> StoreResult<After> {
        let mut plan = self.0.lock();
        *plan.counts.entry(operation).or_default() += 1;
        plan.count_down(operation);
        if plan.crashed {
            return Err(not_done(operation, name, "the store has crashed", false));
        }
        if plan.read_only && !operation.is_read() {
            return Err(not_done(operation, name, "the store is read-only", false));
        }
        // All rules count, though the first that applies decides.
        let mut fault = None;
        for rule in &mut plan.rules {
            if rule.applies(operation, name) {
                fault = fault.or(Some(rule.fault));
            }
        }
        match fault {
            Some(Fault::Refused { full }) => {
                Err(not_done(operation, name, "refused by a test", full))
            }
            Some(Fault::Lost) => Err(in_doubt(operation, name)),
            _ => Ok(After {
                fault,
                operation,
                name: name.to_owned(),
            }),
        }
    }

    /// Takes space for bytes that are to be written.
    pub(super) fn take_space(&self, name: &str, bytes: u64) -> StoreResult<()> {
        let mut plan = self.0.lock();
        if let Some(space) = &mut plan.space {
            match space.checked_sub(bytes) {
                Some(left) => *space = left,
                None => return Err(not_done(Operation::Write, name, "no space left", true)),
            }
        }
        Ok(())
    }

    /// Where `name` is to seem cut off.
    pub(super) fn cut(&self, name: &str) -> Option<u64> {
        let plan = self.0.lock();
        let cuts = plan.cuts.iter().filter(|(part, _)| name.contains(part));
        cuts.map(|(_, bytes)| *bytes).min()
    }

    /// Flips bits in what was read from byte `start` of a file on.
    pub(super) fn damage(&self, name: &str, start: u64, bytes: Bytes) -> Bytes {
        let plan = self.0.lock();
        let flips = plan.flips.iter().filter(|(part, _)| name.contains(part));
        let places = flips.filter_map(|(_, bit)| {
            let place = usize::try_from((bit / 8).checked_sub(start)?).ok()?;
            (place < bytes.len()).then_some((place, 1 << (bit % 8)))
        });
        let places: Vec<(usize, u8)> = places.collect();
        if places.is_empty() {
            return bytes;
        }
        let mut damaged = BytesMut::from(&bytes[..]);
        for (place, mask) in places {
            damaged[place] ^= mask;
        }
        damaged.freeze()
    }
}

impl Plan {
    fn count_down(&mut self, operation: Operation) {
        if operation.is_read() {
            return;
        }
        self.crashed |= is_due(&mut self.changes_until_crash);
        self.read_only |= is_due(&mut self.changes_until_read_only);
    }
}

/// Whether what was to happen after so many changes is due with this one.
fn is_due(left: &mut Option<u64>) -> bool {
    match left {
        Some(0) => true,
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

/// What is to be reported after an operation that was done.
pub(super) struct After {
    fault: Option<Fault>,
    operation: Operation,
    name: String,
}

impl After {
    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    pub(super) fn report(self) -> StoreResult<()> {
        match self.fault {
            None => Ok(()),
            Some(_) => Err(in_doubt(self.operation, &self.name)),
        }
    }
}

fn not_done(operation: Operation, name: &str, reason: &str, full: bool) -> StoreError {
    let (name, reason) = (name.to_owned(), reason.to_owned());
    if operation.is_read() {
        return StoreError::Read { name, reason };
    }
    StoreError::DefinitelyNot { name, reason, full }
}

fn in_doubt(operation: Operation, name: &str) -> StoreError {
    let (name, reason) = (name.to_owned(), "left in doubt by a test".to_owned());
    if operation.is_read() {
        return StoreError::Read { name, reason };
    }
    StoreError::Maybe { name, reason }
}
