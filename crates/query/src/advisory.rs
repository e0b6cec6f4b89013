//! Advisory locks: numbers that sessions keep from one another, as PostgreSQL has them. Tools that
//! migrate schemas see to it with them that one of them does at a time.
//!
//! ```text
//!   session --- SessionLocks ------------- held until unlocked, or until the session ends
//!      |           ^
//!      |        SpanLocks of a transaction --- held until that ends
//!      `------- SpanLocks of a statement ----- the same, where there is no transaction
//! ```
//!
//! Keeps memory only: all sessions of an opened database share the locks, and nothing of them
//! outlives it. Invariant ADV-1: of two sessions that hold one number, both share it. Invariant
//! ADV-2: what is held is given back when its session, transaction or statement is dropped, however
//! that ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lazybase_model::{Error, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::pg_catalog::{Cell, Row};
use crate::session::Session;

pub(crate) mod functions;

/// The most numbers that are held at a time.
const LOCKS_MAX: usize = 100_000;

/// What is locked: a number, or a pair of numbers, which is never the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    One(i64),
    Two(i32, i32),
}

/// How it is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    /// Together with others that share it.
    shared: bool,
    /// To the end of the transaction, or of a statement outside of one.
    spans: bool,
}

/// Who holds a lock: a session, or with the number of its span a transaction or a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    session: u64,
    span: Option<u64>,
}

/// What a holder has of a number.
#[derive(Debug)]
struct Grant {
    holder: Holder,
    shared: bool,
    /// How often it was locked.
    times: usize,
}

/// Who waits for a number.
#[derive(Debug)]
struct Wanted {
    key: Key,
    session: u64,
    shared: bool,
}

#[derive(Debug, Default)]
struct Held {
    granted: BTreeMap<Key, Vec<Grant>>,
    /// By the numbers of those who wait.
    wanted: BTreeMap<u64, Wanted>,
}

/// The locks of an opened database.
#[derive(Debug, Default)]
pub(crate) struct AdvisoryLocks {
    held: Mutex<Held>,
    /// Told whenever something is given back.
    freed: Notify,
    /// The last number of a session, a span, or somebody who waits.
    last: AtomicU64,
}

impl AdvisoryLocks {
    fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Locks a number unless another session keeps it; whether that was so.
    fn try_lock(&self, key: Key, holder: Holder, shared: bool) -> Result<bool> {
        let mut held = self.held.lock();
        if held.granted.len() >= LOCKS_MAX && !held.granted.contains_key(&key) {
            return Err(too_many());
        }
        let grants = held.granted.entry(key).or_default();
        let others =
            |grant: &Grant| grant.holder.session != holder.session && !(grant.shared && shared);
        if grants.iter().any(others) {
            return Ok(false);
        }
        let mut own = grants.iter_mut();
        match own.find(|grant| grant.holder == holder && grant.shared == shared) {
            Some(grant) => grant.times += 1,
            None => grants.push(Grant {
                holder,
                shared,
                times: 1,
            }),
        }
        Ok(true)
    }

    /// Waits until a number can be locked. Whoever stops waiting leaves nothing.
    async fn lock(&self, key: Key, holder: Holder, shared: bool) -> Result<()> {
        let mut waiting = None;
        loop {
            // From here on it is told, so that nothing is given back unseen.
            let freed = self.freed.notified();
            if self.try_lock(key, holder, shared)? {
                return Ok(());
            }
            waiting.get_or_insert_with(|| Waiting::of(self, key, holder, shared));
            freed.await;
        }
    }

    /// Gives back once what the session itself holds of a number; whether it held any.
    fn unlock(&self, key: Key, session: u64, shared: bool) -> bool {
        let holder = Holder {
            session,
            span: None,
        };
        let mut held = self.held.lock();
        let Some(grants) = held.granted.get_mut(&key) else {
            return false;
        };
        let own = |grant: &Grant| grant.holder == holder && grant.shared == shared;
        let Some(at) = grants.iter().position(own) else {
            return false;
        };
        grants[at].times -= 1;
        if grants[at].times == 0 {
            grants.swap_remove(at);
        }
        if grants.is_empty() {
            held.granted.remove(&key);
        }
        drop(held);
        self.freed.notify_waiters();
        true
    }

    /// Gives back all that some holders have.
    fn release(&self, is_meant: impl Fn(&Holder) -> bool) {
        self.held.lock().granted.retain(|_, grants| {
            grants.retain(|grant| !is_meant(&grant.holder));
            !grants.is_empty()
        });
        self.freed.notify_waiters();
    }

    /// The rows of `pg_locks`; `pids` has the connections of sessions by their numbers.
    pub(crate) fn rows(&self, pids: &BTreeMap<u64, i32>) -> Vec<Row> {
        let held = self.held.lock();
        let granted = held.granted.iter().flat_map(|(key, grants)| {
            let grants = grants.iter();
            grants.map(move |grant| row(*key, grant.holder.session, grant.shared, true, pids))
        });
        let wanted = held.wanted.values();
        let wanted = wanted.map(|one| row(one.key, one.session, one.shared, false, pids));
        granted.chain(wanted).collect()
    }
}

fn row(key: Key, session: u64, shared: bool, granted: bool, pids: &BTreeMap<u64, i32>) -> Row {
    // The numbers are shown without their signs, as PostgreSQL does.
    let (high, low, kind) = match key {
        Key::One(number) => ((number >> 32) as u32, number as u32, 1),
        Key::Two(first, second) => (first as u32, second as u32, 2),
    };
    let mode = if shared { "ShareLock" } else { "ExclusiveLock" };
    let mut row: Row = vec![
        ("locktype", "advisory".into()),
        ("database", Cell::Int(1)),
        ("classid", i64::from(high).into()),
        ("objid", i64::from(low).into()),
        ("objsubid", Cell::Int(kind)),
        ("mode", mode.into()),
        ("granted", granted.into()),
    ];
    let pid = pids.get(&session);
    row.extend(pid.map(|pid| ("pid", Cell::Int((*pid).into()))));
    row
}

fn too_many() -> Error {
    Error::unavailable("too many advisory locks")
        .with_detail(format!("{LOCKS_MAX} are held"))
        .with_sqlstate("53200")
}

/// Somebody who waits is listed; no longer once this is dropped.
struct Waiting<'l> {
    of: &'l AdvisoryLocks,
    number: u64,
}

impl<'l> Waiting<'l> {
    fn of(locks: &'l AdvisoryLocks, key: Key, holder: Holder, shared: bool) -> Waiting<'l> {
        let number = locks.number();
        let wanted = Wanted {
            key,
            session: holder.session,
            shared,
        };
        locks.held.lock().wanted.insert(number, wanted);
        Waiting { of: locks, number }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.of.held.lock().wanted.remove(&self.number);
    }
}

/// The locks of one session, given back when it ends.
#[derive(Debug)]
pub(crate) struct SessionLocks {
    all: Arc<AdvisoryLocks>,
    session: u64,
    /// Whether it has ever locked anything.
    used: AtomicBool,
}

impl SessionLocks {
    pub(crate) fn new(all: Arc<AdvisoryLocks>) -> Arc<SessionLocks> {
        Arc::new(SessionLocks {
            session: all.number(),
            all,
            used: AtomicBool::new(false),
        })
    }

    /// The number of the session.
    pub(crate) fn session(&self) -> u64 {
        self.session
    }

    fn release(&self, is_meant: impl Fn(Option<u64>) -> bool) {
        let session = self.session;
        self.all
            .release(|holder| holder.session == session && is_meant(holder.span));
    }

    /// Gives back what the session itself holds.
    fn unlock_all(&self) {
        self.release(|span| span.is_none());
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        if self.used.load(Ordering::Relaxed) {
            self.release(|_| true);
        }
    }
}

/// The locks of a transaction, or of a statement outside of one.
#[derive(Debug)]
pub(crate) struct SpanLocks {
    of: Arc<SessionLocks>,
    span: u64,
    /// Whether anything was locked for it.
    used: AtomicBool,
}

impl SpanLocks {
    pub(crate) fn new(of: &Arc<SessionLocks>) -> Arc<SpanLocks> {
        Arc::new(SpanLocks {
            span: of.all.number(),
            of: Arc::clone(of),
            used: AtomicBool::new(false),
        })
    }

    /// The locks of the database.
    pub(crate) fn all(&self) -> &AdvisoryLocks {
        &self.of.all
    }

    fn holder(&self, mode: Mode) -> Holder {
        let session = self.of.session;
        let used = if mode.spans {
            &self.used
        } else {
            &self.of.used
        };
        used.store(true, Ordering::Relaxed);
        Holder {
            session,
            span: mode.spans.then_some(self.span),
        }
    }

    fn try_lock(&self, key: Key, mode: Mode) -> Result<bool> {
        self.of.all.try_lock(key, self.holder(mode), mode.shared)
    }

    async fn lock(&self, key: Key, mode: Mode) -> Result<()> {
        self.of.all.lock(key, self.holder(mode), mode.shared).await
    }

    fn unlock(&self, key: Key, shared: bool) -> bool {
        self.of.all.unlock(key, self.of.session, shared)
    }

    fn unlock_all(&self) {
        self.of.unlock_all();
    }

    /// Gives back what was locked for the transaction, or the statement.
    fn end(&self) {
        if self.used.load(Ordering::Relaxed) {
            self.of.release(|span| span == Some(self.span));
        }
    }
}

impl Drop for SpanLocks {
    fn drop(&mut self) {
        self.end();
    }
}

/// The locks of a transaction: given back with it, also where a cursor of it goes on.
#[derive(Debug)]
pub(crate) struct TransactionLocks(Arc<SpanLocks>);

impl TransactionLocks {
    pub(crate) fn new(of: &Arc<SessionLocks>) -> TransactionLocks {
        TransactionLocks(SpanLocks::new(of))
    }

    pub(crate) fn span(&self) -> Arc<SpanLocks> {
        Arc::clone(&self.0)
    }
}

impl Drop for TransactionLocks {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Session {
    /// Gives back the advisory locks that the session itself holds, as `pg_advisory_unlock_all`
    /// does.
    pub fn unlock_all(&self) {
        self.shared().locks.unlock_all();
    }
}
