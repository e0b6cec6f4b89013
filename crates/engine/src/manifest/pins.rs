//! Pins: which manifests living readers still read, so that no file of theirs is removed.
//!
//! ```text
//!   reader     pin(load) ---- check() ... check() ---- drop
//!   collector        manifests() -> files to keep      expire() -> a reader that did not renew
//! ```
//!
//! A pin is good until its deadline on the environment's monotonic clock, and every
//! [`Pin::check`] moves the deadline on. A reader whose pin ran out fails with `SnapshotTooOld`:
//! it never sees rows missing because a file is gone. So does one whose pin was ended, since what
//! it kept took more disk than it may; what the stages read is not ended.
//!
//! Invariant PIN-1: the manifest is loaded while the registry is locked. A collector that takes
//! the current manifest first and [`Pins::manifests`] second therefore keeps all that any reader
//! has pinned or will pin from a manifest older than that current one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lazybase_model::{Error, ErrorKind, Horizon, Result};
use parking_lot::Mutex;

use super::state::Manifest;
use crate::env::Clock;
use crate::env::planted::{Planted, is_planted};

/// The registry of pins. Clones are the same registry.
#[derive(Clone)]
pub struct Pins(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    lifetime: Duration,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    next: u64,
    pins: BTreeMap<u64, Arc<Entry>>,
}

/// What a pin and the registry both hold.
struct Entry {
    owner: String,
    /// Whether it may be ended for the disk that it keeps.
    may_end: bool,
    since: Duration,
    manifest: Arc<Manifest>,
    horizon: Mutex<Horizon>,
    deadline: Deadline,
}

/// When a pin runs out, in microseconds of the monotonic clock; [`Deadline::LOST`] once it has, and
/// [`Deadline::ENDED`] once it was ended.
struct Deadline(AtomicU64);

impl Deadline {
    const LOST: u64 = 0;
    const ENDED: u64 = 1;

    /// Moves the deadline to `later`; false when it has passed.
    fn renew(&self, now: u64, later: u64) -> bool {
        let old = self.0.load(Ordering::Acquire);
        // A collector may take the pin between the two: then the exchange fails.
        old > Self::ENDED
            && now <= old
            && (old >= later || self.exchange(old, later) || self.0.load(Ordering::Acquire) > old)
    }

    /// Takes the pin away if its deadline has passed.
    fn expire(&self, now: u64) -> bool {
        let old = self.0.load(Ordering::Acquire);
        old <= Self::ENDED || (old < now && self.exchange(old, Self::LOST))
    }

    /// Takes the pin away whatever its deadline is.
    fn end(&self) {
        self.0.store(Self::ENDED, Ordering::Release);
    }

    fn is_ended(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::ENDED
    }

    fn exchange(&self, old: u64, new: u64) -> bool {
        let exchanged = self
            .0
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
        exchanged.is_ok()
    }
}

/// One pin, for the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinStatus {
    /// Who holds it.
    pub owner: String,
    /// How long ago it was taken.
    pub age: Duration,
    /// The manifest that it holds.
    pub manifest: u64,
    /// The horizon that its reader reads at.
    pub horizon: Horizon,
    /// How long it lasts without a renewal.
    pub remaining: Duration,
}

/// A manifest that is pinned, by one pin or several.
#[derive(Debug, Clone)]
pub struct PinnedManifest {
    /// The manifest.
    pub manifest: Arc<Manifest>,
    /// How long ago the youngest of its pins was taken.
    pub age: Duration,
    /// Whether all of its pins may be ended for the disk that they keep.
    pub may_end: bool,
}

impl fmt::Debug for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pins")
            .field("pins", &self.0.entries.lock().pins.len())
            .finish_non_exhaustive()
    }
}

impl Pins {
    /// A registry of pins that last `lifetime` from their last renewal.
    pub fn new(clock: Arc<dyn Clock>, lifetime: Duration) -> Pins {
        Pins(Arc::new(Shared {
            clock,
            lifetime,
            entries: Mutex::default(),
        }))
    }

    /// Pins the manifest that `load` gives (the store's current one), until the pin is dropped or
    /// runs out. `owner` is what the status shows: the session, the query.
    pub fn pin(&self, owner: impl Into<String>, load: impl FnOnce() -> Arc<Manifest>) -> Pin {
        self.pin_as(owner.into(), true, load)
    }

    /// As [`Pins::pin`], for a stage: it is not ended for the disk that it keeps, since the work
    /// would have to be done again.
    pub fn pin_for_work(
        &self,
        owner: impl Into<String>,
        load: impl FnOnce() -> Arc<Manifest>,
    ) -> Pin {
        self.pin_as(owner.into(), false, load)
    }

    fn pin_as(&self, owner: String, may_end: bool, load: impl FnOnce() -> Arc<Manifest>) -> Pin {
        let since = self.0.clock.monotonic();
        let deadline = Deadline(AtomicU64::new(self.0.deadline(since)));
        let mut entries = self.0.entries.lock();
        let manifest = load();
        entries.next += 1;
        let id = entries.next;
        let entry = Arc::new(Entry {
            owner,
            may_end,
            since,
            horizon: Mutex::new(Horizon::end_of(manifest.sealed_through)),
            manifest,
            deadline,
        });
        entries.pins.insert(id, Arc::clone(&entry));
        drop(entries);
        Pin {
            pins: self.clone(),
            id,
            entry,
        }
    }

    /// The manifests that are pinned, each once. Pins that ran out are taken away first, so what
    /// they alone held may be collected.
    pub fn manifests(&self) -> Vec<Arc<Manifest>> {
        let now = micros(self.0.clock.monotonic());
        let mut entries = self.0.entries.lock();
        entries.pins.retain(|_, entry| !entry.deadline.expire(now));
        let by_number: BTreeMap<u64, &Arc<Manifest>> = entries
            .pins
            .values()
            .map(|entry| (entry.manifest.number, &entry.manifest))
            .collect();
        by_number.into_values().cloned().collect()
    }

    /// The manifests that are pinned, each once, the oldest first. Pins that ran out are taken away
    /// first.
    pub fn held(&self) -> Vec<PinnedManifest> {
        let now = self.0.clock.monotonic();
        let mut entries = self.0.entries.lock();
        let of_now = micros(now);
        entries
            .pins
            .retain(|_, entry| !entry.deadline.expire(of_now));
        let mut held: BTreeMap<u64, PinnedManifest> = BTreeMap::new();
        for entry in entries.pins.values() {
            let age = now.saturating_sub(entry.since);
            let known = held.entry(entry.manifest.number);
            let known = known.or_insert_with(|| PinnedManifest {
                manifest: Arc::clone(&entry.manifest),
                age,
                may_end: true,
            });
            known.age = known.age.min(age);
            known.may_end &= entry.may_end;
        }
        held.into_values().collect()
    }

    /// Ends the pins of the manifest of this number that may be ended and are no younger than
    /// `least_age`: what they alone held may be collected, and their readers fail. Gives their
    /// owners.
    pub fn end(&self, manifest: u64, least_age: Duration) -> Vec<String> {
        let now = self.0.clock.monotonic();
        let mut entries = self.0.entries.lock();
        let mut owners = Vec::new();
        entries.pins.retain(|_, entry| {
            let is_spared = now.saturating_sub(entry.since) < least_age;
            let ends = entry.may_end && !is_spared && entry.manifest.number == manifest;
            if ends {
                if !is_planted(Planted::EndedUntold) {
                    entry.deadline.end();
                }
                owners.push(entry.owner.clone());
            }
            !ends
        });
        owners
    }

    /// All pins that have not run out, the oldest first.
    pub fn list(&self) -> Vec<PinStatus> {
        let now = self.0.clock.monotonic();
        let entries = self.0.entries.lock();
        let mut pins: Vec<PinStatus> = entries
            .pins
            .values()
            .filter_map(|entry| entry.status(now))
            .collect();
        pins.sort_by_key(|pin| std::cmp::Reverse(pin.age));
        pins
    }

    /// The pin that holds the oldest manifest.
    pub fn oldest(&self) -> Option<PinStatus> {
        self.list().into_iter().min_by_key(|pin| pin.manifest)
    }
}

impl Shared {
    fn deadline(&self, now: Duration) -> u64 {
        micros(now.saturating_add(self.lifetime)).max(Deadline::ENDED + 1)
    }
}

impl Entry {
    fn status(&self, now: Duration) -> Option<PinStatus> {
        let deadline = self.deadline.0.load(Ordering::Acquire);
        let deadline = Some(deadline).filter(|deadline| *deadline > Deadline::ENDED);
        let remaining = deadline?.checked_sub(micros(now))?;
        Some(PinStatus {
            owner: self.owner.clone(),
            age: now.saturating_sub(self.since),
            manifest: self.manifest.number,
            horizon: *self.horizon.lock(),
            remaining: Duration::from_micros(remaining),
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A pinned manifest; dropping it gives the manifest free.
pub struct Pin {
    pins: Pins,
    id: u64,
    entry: Arc<Entry>,
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin")
            .field("manifest", &self.entry.manifest.number)
            .finish_non_exhaustive()
    }
}

impl Pin {
    /// The pinned manifest.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.entry.manifest
    }

    /// Says which horizon is read, for the status.
    pub fn set_horizon(&self, horizon: Horizon) {
        *self.entry.horizon.lock() = horizon;
    }

    /// Renews the pin. To be called before files are opened and after each stretch of reading:
    /// what was read before a failed check may be incomplete.
    ///
    /// # Errors
    /// `SnapshotTooOld` when the pin ran out before, or was ended.
    pub fn check(&self) -> Result<()> {
        let shared = &self.pins.0;
        let now = shared.clock.monotonic();
        let deadline = &self.entry.deadline;
        if deadline.renew(micros(now), shared.deadline(now)) {
            return Ok(());
        }
        if deadline.is_ended() {
            let message = "snapshot too old: what it kept took more disk than it may";
            return Err(Error::new(ErrorKind::SnapshotTooOld, message)
                .with_detail("superseded files may take superseded_bytes_max")
                .with_hint("start the query again, or raise the option"));
        }
        let message = "snapshot too old: its reader was idle for too long";
        let lasted = format!("a snapshot lasts {:?} without use", shared.lifetime);
        Err(Error::new(ErrorKind::SnapshotTooOld, message)
            .with_detail(lasted)
            .with_hint("start the query again"))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.pins.0.entries.lock().pins.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
