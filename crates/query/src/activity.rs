//! Who is connected and what they do: what `pg_stat_activity` shows, and how a connection or its
//! statement is ended from another one.
//!
//! ```text
//!   server -> Session::attend(Peer) -> Attended           listed for as long as that lives
//!   server -> Session::attend_while_there(Peer)           listed for as long as the session lives
//!   statement -> Watch -> Activity::begins, ends          text and times of the last one
//!   pg_cancel_backend, pg_terminate_backend
//!        -> Session::ended                                told to what runs
//!        -> Peer::end                                     done by the server
//! ```
//!
//! Keeps memory only. Invariant ACT-1: texts of statements are shown with their constants masked,
//! as in logs, and only to superusers and to members of the role that runs them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};

use futures::future::{self, BoxFuture};
use lazybase_engine::env::Clock;
use lazybase_model::access::RoleId;
use lazybase_model::{Error, Result};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::access::{Gate, Identity, name_of};
use crate::observe::masked;
use crate::parse::CATALOG;
use crate::pg_catalog::{Cell, DATABASE, Row, role_oid};
use crate::session::{Session, Shared, TransactionStatus};

/// What is to be ended of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The statement that runs, if one does.
    Statement,
    /// The connection, or the session of a protocol that has sessions apart from connections.
    Connection,
}

/// A client as its server knows it.
pub struct Peer {
    /// The number of its connection, which no other has: [`Database::connection_number`].
    ///
    /// [`Database::connection_number`]: crate::Database::connection_number
    pub pid: i32,
    /// Where it comes from.
    pub address: SocketAddr,
    /// Where it has come to, where the system says it.
    pub server: Option<SocketAddr>,
    /// Whether nobody between can read what is sent.
    pub encrypted: bool,
    /// Ends something of the connection; it returns at once.
    pub end: Box<dyn Fn(End) + Send + Sync>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("pid", &self.pid)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The connections of a database's servers.
#[derive(Debug, Default)]
pub(crate) struct Activities {
    listed: Mutex<BTreeMap<i32, Arc<Activity>>>,
    /// The last number that a connection was given.
    last: AtomicI32,
    /// Once a server of PostgreSQL's protocol is there.
    places: Mutex<Option<Places>>,
    /// When the database was opened.
    since_micros: i64,
}

/// How many connections a server of PostgreSQL's protocol takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// All of them.
    pub all: usize,
    /// Those of them that are kept for superusers.
    pub of_superusers: usize,
}

/// A connection that is listed; no longer once this is dropped.
#[derive(Debug)]
pub struct Attended {
    of: Arc<Activities>,
    pid: i32,
}

impl Drop for Attended {
    fn drop(&mut self) {
        let removed = self.of.listed.lock().remove(&self.pid);
        drop(removed);
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Activity {
    peer: Peer,
    session: Weak<Shared>,
    /// Branches of the session whose transactions are its own.
    branches: Mutex<Vec<Weak<Shared>>>,
    began_micros: i64,
    doing: Mutex<Doing>,
    /// What somebody else has ended last.
    ended: watch::Sender<End>,
}

/// What a connection does, or did last.
#[derive(Debug, Clone, Default)]
struct Doing {
    statement: Arc<str>,
    /// When that began; `None` before the first one.
    query_micros: Option<i64>,
    /// When it began or ended.
    changed_micros: i64,
    /// Statements that run: their rows may be taken while the next one begins.
    running: usize,
    /// How many of them stand in line, to run beside few others.
    waiting: usize,
    /// Why the server gives up the one that runs.
    given_up: Option<&'static str>,
}

impl Activity {
    /// The number of the connection.
    pub(crate) fn pid(&self) -> i32 {
        self.peer.pid
    }

    /// A statement begins.
    pub(crate) fn begins(&self, statement: Arc<str>, now_micros: i64) {
        let mut doing = self.doing.lock();
        doing.statement = statement;
        doing.query_micros = Some(now_micros);
        doing.changed_micros = now_micros;
        doing.running += 1;
        doing.given_up = None;
    }

    /// Why the server gives up the statement that runs, if it does.
    pub(crate) fn given_up(&self) -> Option<&'static str> {
        self.doing.lock().given_up
    }

    /// A statement has ended.
    pub(crate) fn ends(&self, now_micros: i64) {
        let mut doing = self.doing.lock();
        doing.changed_micros = now_micros;
        doing.running = doing.running.saturating_sub(1);
    }

    /// How the transactions of the session's branches stand: the first that is open, or has failed.
    fn of_branches(&self) -> TransactionStatus {
        let branches: Vec<Arc<Shared>> = {
            let branches = self.branches.lock();
            branches.iter().filter_map(Weak::upgrade).collect()
        };
        let statuses = branches.iter();
        let mut statuses = statuses.map(|branch| TransactionStatus::of(&branch.state.lock()));
        let open = statuses.find(|status| *status != TransactionStatus::None);
        open.unwrap_or(TransactionStatus::None)
    }
}

/// A statement that others see wait for its turn, until this is dropped.
pub(crate) struct ShownWait(Arc<Activity>);

impl ShownWait {
    pub(crate) fn new(activity: &Arc<Activity>) -> ShownWait {
        activity.doing.lock().waiting += 1;
        ShownWait(Arc::clone(activity))
    }
}

impl Drop for ShownWait {
    fn drop(&mut self) {
        let mut doing = self.0.doing.lock();
        doing.waiting = doing.waiting.saturating_sub(1);
    }
}

impl Session {
    /// The statement that runs is given up by its server, with this SQLSTATE: logs show it.
    pub fn gives_up(&self, sqlstate: &'static str) {
        if let Some(activity) = self.shared().activity() {
            activity.doing.lock().given_up = Some(sqlstate);
        }
    }

    /// Lists the connection that the session serves among those that others can see and end.
    pub fn attend(&self, peer: Peer) -> Attended {
        let shared = self.shared();
        let of = Arc::clone(shared.database.activities());
        let now = shared.instance().env().clock.wall_micros();
        let pid = peer.pid;
        let activity = Arc::new(Activity {
            peer,
            session: Arc::downgrade(shared),
            branches: Mutex::default(),
            began_micros: now,
            doing: Mutex::new(Doing {
                changed_micros: now,
                ..Doing::default()
            }),
            ended: watch::Sender::new(End::Statement),
        });
        *shared.activity.lock() = Some(Arc::clone(&activity));
        of.listed.lock().insert(pid, activity);
        Attended { of, pid }
    }

    /// The same for as long as anything of the session is there, its branches and answers too.
    pub fn attend_while_there(&self, peer: Peer) {
        let attended = self.attend(peer);
        *self.shared().attended.lock() = Some(attended);
    }

    /// Whoever sees the session that this one is a branch of sees the transactions of this one as
    /// that one's.
    pub fn shows_transactions(&self) {
        if let Some(activity) = self.shared().activity() {
            let mut branches = activity.branches.lock();
            branches.retain(|branch| branch.strong_count() > 0);
            branches.push(Arc::downgrade(self.shared()));
        }
    }

    /// Waits until somebody else ends, from now on, what the session runs, or all of it: what a
    /// server that attends to it gives up then. Whoever nobody sees is ended by nobody.
    pub fn ended(&self) -> BoxFuture<'static, End> {
        let activity = self.shared().activity();
        let told = activity.map(|activity| activity.ended.subscribe());
        Box::pin(async move {
            if let Some(mut told) = told
                && told.changed().await.is_ok()
            {
                return *told.borrow();
            }
            future::pending().await
        })
    }
}

impl Activities {
    /// Those of a database that is opened now.
    pub(crate) fn new(clock: &dyn Clock) -> Activities {
        Activities {
            since_micros: clock.wall_micros(),
            ..Activities::default()
        }
    }

    /// When the database was opened, in microseconds since 1970.
    pub(crate) fn since_micros(&self) -> i64 {
        self.since_micros
    }

    /// Says how many connections the server takes.
    pub(crate) fn set_places(&self, places: Places) {
        *self.places.lock() = Some(places);
    }

    /// How many connections the server takes, where there is one.
    pub(crate) fn places(&self) -> Option<Places> {
        *self.places.lock()
    }

    /// A number for a connection, which none that is listed has.
    pub(crate) fn number(&self) -> i32 {
        loop {
            let next = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let number = next & i32::MAX;
            if number != 0 && !self.listed.lock().contains_key(&number) {
                return number;
            }
        }
    }

    /// All that are listed. A session that ends while it is looked at takes itself off the list,
    /// so nobody looks at one under the list's lock.
    fn all(&self) -> Vec<Arc<Activity>> {
        self.listed.lock().values().cloned().collect()
    }

    /// The rows of `pg_stat_activity`, as somebody behind a gate may see them.
    pub(crate) fn rows(&self, gate: &Gate) -> Vec<Row> {
        let all = self.all();
        all.iter().filter_map(|one| row(one, gate)).collect()
    }

    /// The rows of `pg_stat_ssl`, as somebody behind a gate may see them.
    pub(crate) fn encryption(&self, gate: &Gate) -> Vec<Row> {
        let all = self.all();
        let rows = all.iter().filter_map(|one| {
            let identity = one.session.upgrade()?.state.lock().identity;
            let mut row: Row = vec![("pid", i64::from(one.peer.pid).into())];
            if is_let(gate, identity) {
                row.push(("ssl", one.peer.encrypted.into()));
            }
            Some(row)
        });
        rows.collect()
    }

    /// The row of `pg_stat_database`: of what it counts, connections are what is known.
    pub(crate) fn of_database(&self) -> Row {
        let connections = self.listed.lock().len() as i64;
        vec![
            ("datid", DATABASE.into()),
            ("datname", CATALOG.into()),
            ("numbackends", connections.into()),
        ]
    }

    /// Where a connection comes from, and where it has come to.
    pub(crate) fn addresses(&self, pid: i32) -> Option<(SocketAddr, Option<SocketAddr>)> {
        let listed = self.listed.lock();
        let one = listed.get(&pid)?;
        Some((one.peer.address, one.peer.server))
    }

    /// The numbers of connections by those that their sessions lock under.
    pub(crate) fn pids(&self) -> BTreeMap<u64, i32> {
        let all = self.all();
        let pids = all.iter().filter_map(|one| {
            let session = one.session.upgrade()?;
            Some((session.locks.session(), one.peer.pid))
        });
        pids.collect()
    }

    /// Ends something of a connection; whether there is one of that number.
    ///
    /// # Errors
    /// `Invalid` (42501) for a connection of a role that the caller is no member of, and for one of
    /// a superuser where the caller is none.
    pub(crate) fn end(&self, pid: i32, what: End, gate: &Gate) -> Result<bool> {
        let found = self.listed.lock().get(&pid).cloned();
        let Some(one) = found else {
            return Ok(false);
        };
        let Some(session) = one.session.upgrade() else {
            return Ok(false);
        };
        let identity = session.state.lock().identity;
        let of = gate.access().rights_of(identity.session);
        if of.superuser && !gate.rights().superuser {
            return Err(
                Error::invalid("permission denied for the connections of a superuser")
                    .with_hint("only a superuser may end one")
                    .with_sqlstate("42501"),
            );
        }
        if !is_let(gate, identity) {
            return Err(
                Error::invalid("permission denied for the connections of another role")
                    .with_hint("its own role, a member of that, or a superuser may end one")
                    .with_sqlstate("42501"),
            );
        }
        one.ended.send_replace(what);
        (one.peer.end)(what);
        Ok(true)
    }
}

/// Whether somebody behind a gate may know what a session does.
fn is_let(gate: &Gate, of: Identity) -> bool {
    let rights = gate.rights();
    rights.superuser || of.session.is_some_and(|role| rights.roles.contains(&role))
}

fn row(one: &Activity, gate: &Gate) -> Option<Row> {
    let session = one.session.upgrade()?;
    let (identity, application, transaction) = {
        let state = session.state.lock();
        let status = TransactionStatus::of(&state);
        let application = state.settings.application_name.clone();
        (state.identity, application, status)
    };
    let role: Option<RoleId> = identity.session;
    let mut row: Row = vec![
        ("datid", DATABASE.into()),
        ("datname", CATALOG.into()),
        ("pid", i64::from(one.peer.pid).into()),
        ("usesysid", role_oid(role).into()),
        ("usename", name_of(gate.access(), role).into()),
        ("backend_type", "client backend".into()),
    ];
    if !is_let(gate, identity) {
        row.push(("query", "<insufficient privilege>".into()));
        return Some(row);
    }
    let doing = one.doing.lock().clone();
    let transaction = match transaction {
        TransactionStatus::None => one.of_branches(),
        own => own,
    };
    let state = match (doing.running > 0, transaction) {
        (true, _) => "active",
        (false, TransactionStatus::None) => "idle",
        (false, TransactionStatus::Open) => "idle in transaction",
        (false, TransactionStatus::Failed) => "idle in transaction (aborted)",
    };
    row.extend([
        ("application_name", application.into()),
        ("client_addr", one.peer.address.ip().to_string().into()),
        ("client_port", i64::from(one.peer.address.port()).into()),
        ("backend_start", Cell::Moment(one.began_micros)),
        ("state_change", Cell::Moment(doing.changed_micros)),
        ("state", state.into()),
        ("query", masked(&doing.statement).into()),
    ]);
    let began = doing.query_micros.map(Cell::Moment);
    row.extend(began.map(|began| ("query_start", began)));
    if doing.waiting > 0 {
        row.extend([
            ("wait_event_type", "Admission".into()),
            ("wait_event", "HeavyStatements".into()),
        ]);
    }
    Some(row)
}
