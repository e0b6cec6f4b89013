//! Whose session a call runs in.
//!
//! ```text
//!   no name            -> a session of its own; the answer's cookie names it, with its floor
//!   cookie f<id>.<floor> -> the same session, if anything of it is left, else one with that floor:
//!                           a client that comes back keeps it from here on, under k<id>
//!   cookie k<id>, header lazybase-session, Bearer k<id> -> the kept session, or an error
//! ```
//!
//! A client without cookies costs nothing that stays. Each session is listed in `pg_stat_activity`
//! for as long as it is there, those of one call too. Invariant FLS-1: a session that a client
//! knows of is the same with each call, or the call is refused; it never silently begins anew, nor
//! is it used by a call with another role's credentials.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, Engine};
use lazybase_model::limits::NAME_BYTES_MAX;
use lazybase_model::{Error, Result, Token};
use lazybase_query::{Attempts, Authenticated, Database, End, Peer as Client, Session};
use parking_lot::Mutex;
use tonic::metadata::{MetadataMap, MetadataValue};

use crate::calls;
use crate::clock::{now, pause, within};
use crate::failure::SESSION_GONE;
use crate::peer::Peer;
use crate::statements::Statements;

/// The name of the cookie, and of the header.
const NAME: &str = "lazybase-session";

/// A number that nobody guesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Id(u128);

impl Id {
    pub(crate) fn random() -> Result<Id> {
        let half = || {
            getrandom::u64()
                .map_err(|error| Error::unavailable(format!("no random numbers: {error}")))
        };
        Ok(Id((u128::from(half()?) << 64) | u128::from(half()?)))
    }

    pub(crate) fn text(self) -> String {
        format!("{:032x}", self.0)
    }

    /// The id that a text or the bytes of a handle are.
    pub(crate) fn read(text: &[u8]) -> Option<Id> {
        let text = std::str::from_utf8(text).ok()?;
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        digits.then(|| u128::from_str_radix(text, 16).ok().map(Id))?
    }
}

struct Entry {
    session: Weak<Session>,
    /// There once the client has shown that it comes back, or has something to lose.
    kept: Option<Arc<Session>>,
    used: Instant,
}

/// How roles are known without a password.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// By name alone, from this machine.
    pub(crate) by_name: bool,
    /// By the certificates of their clients.
    pub(crate) by_certificate: bool,
}

/// All sessions that clients know of.
pub(crate) struct Sessions {
    database: Database,
    idle: Duration,
    sessions_max: usize,
    known: Known,
    attempts: Attempts,
    entries: Mutex<HashMap<Id, Entry>>,
    /// What goes with them.
    statements: Arc<Statements>,
}

/// The session of a call.
pub(crate) struct Caller {
    pub(crate) session: Arc<Session>,
    pub(crate) id: Id,
    /// Whether the client named its session: it will find it again.
    pub(crate) named: bool,
    /// Whether the client is to be told the name under which it is kept.
    renamed: bool,
}

/// What a call says of its session.
enum Name {
    None,
    Kept(Id),
    Fresh(Id, Option<Token>),
}

impl Sessions {
    pub(crate) fn new(
        database: Database,
        idle: Duration,
        sessions_max: usize,
        known: Known,
        statements: Arc<Statements>,
    ) -> Sessions {
        Sessions {
            database,
            idle,
            sessions_max,
            known,
            attempts: Attempts::default(),
            entries: Mutex::default(),
            statements,
        }
    }

    /// The session that a call belongs to. Its name, which nobody guesses, shows who the caller
    /// is; one that begins needs credentials where the database has roles.
    ///
    /// # Errors
    /// `NotFound` (08003) for a session that has ended, `Invalid` for what is no name of one and
    /// for a caller who is not let in.
    pub(crate) async fn of_call(
        self: &Arc<Self>,
        metadata: &MetadataMap,
        peer: &Peer,
    ) -> Result<Caller> {
        match name(metadata)? {
            Name::None => {
                let who = self.let_in(credentials(metadata)?, peer).await?;
                self.begin(&who, Id::random()?, None, false, peer)
            }
            Name::Kept(id) => self
                .own(id, metadata)?
                .map(|session| Caller {
                    session,
                    id,
                    named: true,
                    renamed: false,
                })
                .ok_or_else(gone),
            Name::Fresh(id, floor) => match self.own(id, metadata)? {
                Some(session) => Ok(Caller {
                    session,
                    id,
                    named: true,
                    renamed: true,
                }),
                None => {
                    let who = self.let_in(credentials(metadata)?, peer).await?;
                    self.begin(&who, id, floor, true, peer)
                }
            },
        }
    }

    /// The session of this id, if it is there.
    ///
    /// # Errors
    /// `Invalid` (28000) for a call whose credentials are those of somebody else.
    fn own(&self, id: Id, metadata: &MetadataMap) -> Result<Option<Arc<Session>>> {
        let Some(session) = self.find(id) else {
            return Ok(None);
        };
        let given = credentials(metadata)?.filter(|given| !given.user.is_empty());
        match given {
            Some(given) if !self.is_open() && !session.is_of(&given.user) => {
                Err(Error::invalid(format!(
                    "the credentials are those of {:?}, the session is somebody else's",
                    given.user
                ))
                .with_hint("leave out the session's cookie, or the credentials")
                .with_sqlstate("28000"))
            }
            _ => Ok(Some(session)),
        }
    }

    /// Whether everybody on this machine is let in by name alone.
    fn is_open(&self) -> bool {
        self.database
            .is_open(self.known.by_name || self.known.by_certificate)
    }

    /// Whether a call is of somebody who was let in, as far as that shows without a password: then
    /// its messages may be long.
    pub(crate) fn is_let_in(&self, metadata: &MetadataMap, peer: &Peer) -> bool {
        if peer.check_place().is_err() {
            return false;
        }
        let needs_none = self.known.by_name || self.is_open();
        if (peer.is_local() && needs_none) || peer.certified().is_some() {
            return true;
        }
        match name(metadata) {
            Ok(Name::Kept(id) | Name::Fresh(id, _)) => self.entries.lock().contains_key(&id),
            Ok(Name::None) | Err(_) => false,
        }
    }

    /// Lets somebody in by a certificate, or a name and a password, or not.
    ///
    /// # Errors
    /// `Invalid`: 28000 for nobody where roles are asked for, for a name that nobody can have, and
    /// for another name than the certificate's; 28P01 for a password that is not right.
    /// `Unavailable` (53300) where too many others try passwords from the same address.
    pub(crate) async fn let_in(
        &self,
        given: Option<Credentials>,
        peer: &Peer,
    ) -> Result<Authenticated> {
        let refused = |message: &str| Error::invalid(message).with_sqlstate("28000");
        let user = given.as_ref().map_or("", |given| given.user.as_str());
        if user.len() > NAME_BYTES_MAX || user.contains('\0') {
            return Err(refused("no user has this name"));
        }
        if peer.is_local() && self.is_open() {
            return self.database.trust(user);
        }
        if self.database.is_open(true) {
            return Err(
                refused("nobody can log in from other machines").with_detail("no role has LOGIN")
            );
        }
        if let Some(name) = peer.certified() {
            return match user.is_empty() || user == name {
                true => self.database.trust_certificate(name),
                false => Err(refused(&format!(
                    "the certificate is that of {name:?}, not of {user:?}"
                ))),
            };
        }
        let Some(Credentials { user, password }) = given else {
            return Err(refused("who are you? a name and a password are needed")
                .with_hint("give the client a user name and a password of a role"));
        };
        if peer.is_local() && self.known.by_name {
            return self.database.trust_here(&user);
        }
        let turn = within(Attempts::PATIENCE, self.attempts.turn(peer.ip())).await;
        let turn = turn.flatten().ok_or_else(Attempts::too_many)?;
        pause(turn.delay(self.database.instance().now_micros())).await;
        let proved = self.database.authenticate_password(&user, &password).await;
        turn.end(proved.is_ok(), self.database.instance().now_micros());
        if proved
            .as_ref()
            .is_err_and(|error| error.sqlstate() == "28P01")
        {
            self.database.note_refused(&user, peer.address());
        }
        proved
    }

    /// A session that is kept from its beginning on, for a client that is told its name.
    pub(crate) fn open(self: &Arc<Self>, who: &Authenticated, peer: &Peer) -> Result<Caller> {
        self.begin(who, Id::random()?, None, true, peer)
    }

    /// The session of a client that does not know it yet, to be kept from now on.
    pub(crate) fn stay(&self, caller: Caller) -> Result<Caller> {
        self.keep(caller.id, &caller.session)?;
        Ok(Caller {
            named: true,
            renamed: true,
            ..caller
        })
    }

    fn begin(
        self: &Arc<Self>,
        who: &Authenticated,
        id: Id,
        floor: Option<Token>,
        kept: bool,
        peer: &Peer,
    ) -> Result<Caller> {
        let session = Arc::new(self.database.session_of(who));
        session.set("application_name", "Arrow Flight")?;
        session.set("lazybase.copy_format", "text")?;
        if let Some(floor) = floor {
            session.raise_floor(floor).map_err(|_| gone())?;
        }
        self.attend(&session, id, peer);
        if kept {
            self.keep(id, &session)?;
        }
        Ok(Caller {
            session,
            id,
            named: kept,
            renamed: kept,
        })
    }

    /// Lists a session among those that others see and end, for as long as it is there.
    fn attend(self: &Arc<Self>, session: &Session, id: Id, peer: &Peer) {
        let sessions = Arc::downgrade(self);
        session.attend_while_there(Client {
            pid: self.database.connection_number(),
            address: peer.address(),
            server: peer.server(),
            encrypted: peer.is_encrypted(),
            // What runs hears itself that it is ended.
            end: Box::new(move |what| {
                if let (End::Connection, Some(sessions)) = (what, sessions.upgrade()) {
                    sessions.close(id);
                    sessions.statements.close_of(id);
                }
            }),
        });
    }

    fn keep(&self, id: Id, session: &Arc<Session>) -> Result<()> {
        let mut entries = self.entries.lock();
        let kept = entries
            .values()
            .filter(|entry| entry.kept.is_some())
            .count();
        if kept >= self.sessions_max && !entries.contains_key(&id) {
            return Err(Error::unavailable("too many sessions")
                .with_detail(format!("the limit is {}", self.sessions_max))
                .with_hint("close those that are not needed: the others end when they are idle")
                .with_sqlstate("53300"));
        }
        let entry = Entry {
            session: Arc::downgrade(session),
            kept: Some(Arc::clone(session)),
            used: now(),
        };
        entries.insert(id, entry);
        Ok(())
    }

    /// A session that is still there; it is kept from now on.
    fn find(&self, id: Id) -> Option<Arc<Session>> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&id)?;
        let session = entry.session.upgrade()?;
        entry.used = now();
        entry.kept = Some(Arc::clone(&session));
        Some(session)
    }

    /// Remembers a session whose client does not know it yet, as long as something of it is held:
    /// a statement, a transaction.
    pub(crate) fn note(&self, caller: &Caller) {
        if !caller.named {
            let entry = Entry {
                session: Arc::downgrade(&caller.session),
                kept: None,
                used: now(),
            };
            self.entries.lock().entry(caller.id).or_insert(entry);
        }
    }

    /// Ends a session; false when there is none.
    pub(crate) fn close(&self, id: Id) -> bool {
        self.entries.lock().remove(&id).is_some()
    }

    /// Forgets what nobody has used for long, but for what is `busy`. What a session's transaction
    /// held goes with it.
    pub(crate) fn sweep(&self, busy: &HashSet<Id>) {
        let now = now();
        let mut ended = Vec::new();
        self.entries.lock().retain(|id, entry| match &entry.kept {
            Some(session) => {
                // A transaction has a session of its own.
                if Arc::strong_count(session) > 1 || busy.contains(id) {
                    // It is idle from the end of what runs on, however long that takes.
                    entry.used = now;
                }
                let stays = now.duration_since(entry.used) <= self.idle;
                if !stays {
                    ended.push(Arc::clone(session));
                }
                stays
            }
            None => entry.session.strong_count() > 0,
        });
    }
}

impl Caller {
    /// Tells the client the name of its session, where it does not know it.
    pub(crate) fn put(&self, metadata: &mut MetadataMap) {
        let id = self.id.text();
        let value = match (self.named, self.renamed) {
            (true, false) => return,
            (true, true) => format!("k{id}"),
            (false, _) => format!("f{id}.{}", self.session.floor()),
        };
        let cookie = format!("{NAME}={value}; Path=/; HttpOnly; SameSite=Strict");
        if let Ok(cookie) = MetadataValue::try_from(cookie) {
            metadata.append("set-cookie", cookie);
        }
    }

    /// What a client that has no cookies names its session with.
    pub(crate) fn bearer(&self) -> String {
        format!("k{}", self.id.text())
    }

    /// Refuses what would be lost with the call.
    ///
    /// # Errors
    /// `Invalid` (55000) for a client whose session ends with the call.
    pub(crate) fn check_kept(&self, what: &str) -> Result<()> {
        match self.named {
            true => Ok(()),
            false => Err(Error::invalid(format!("{what} would end with this call"))
                .with_detail("the client does not say which session it belongs to")
                .with_hint(
                    "let it keep cookies (ADBC: adbc.flight.sql.rpc.with_cookie_middleware=true), \
                     or give a user name; settings of one call are headers, lazybase-freshness",
                )
                .with_sqlstate("55000")),
        }
    }
}

fn gone() -> Error {
    Error::not_found("the session has ended")
        .with_detail("it was closed, or idle for too long, or the server was started again")
        .with_hint("connect again")
        .with_sqlstate(SESSION_GONE)
}

/// Lets the client forget its session's name.
pub(crate) fn forget(metadata: &mut MetadataMap) {
    if let Ok(cookie) = MetadataValue::try_from(format!("{NAME}=; Path=/; Max-Age=0")) {
        metadata.append("set-cookie", cookie);
    }
}

/// The name that a call gives.
fn name(metadata: &MetadataMap) -> Result<Name> {
    if let Some(name) = calls::header(metadata, NAME)? {
        return read(name);
    }
    for cookies in metadata.get_all("cookie") {
        // Cookies of others may be anything.
        let cookies = cookies.to_str().unwrap_or_default().split(';');
        let mut pairs = cookies.filter_map(|cookie| cookie.trim().split_once('='));
        if let Some((_, value)) = pairs.find(|(name, _)| *name == NAME) {
            let value = value.trim_matches('"');
            return match value.is_empty() {
                true => Ok(Name::None),
                false => read(value),
            };
        }
    }
    match calls::header(metadata, "authorization")? {
        Some(value) => match value.strip_prefix("Bearer ") {
            Some(token) => read(token),
            None => credentials(metadata).map(|_| Name::None),
        },
        None => Ok(Name::None),
    }
}

/// A name and what shows that somebody may use it.
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// The credentials of a call; `None` when it has none, or names a session by them.
///
/// # Errors
/// `Invalid` (28000) for credentials that can't be read.
pub(crate) fn credentials(metadata: &MetadataMap) -> Result<Option<Credentials>> {
    let Some(value) = calls::header(metadata, "authorization")? else {
        return Ok(None);
    };
    if value.starts_with("Bearer ") {
        return Ok(None);
    }
    let wrong = || Error::invalid("the credentials can't be read").with_sqlstate("28000");
    let encoded = value.strip_prefix("Basic ").ok_or_else(wrong)?;
    // Some clients pad, others don't.
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&alphabet::STANDARD, config);
    let pair = engine.decode(encoded.trim()).map_err(|_| wrong())?;
    let pair = String::from_utf8(pair).map_err(|_| wrong())?;
    let (user, password) = pair.split_once(':').ok_or_else(wrong)?;
    Ok(Some(Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    }))
}

fn read(name: &str) -> Result<Name> {
    let unknown = || {
        Error::invalid("this is no session of this server")
            .with_hint("connect again")
            .with_sqlstate("28000")
    };
    if let Some(id) = name.strip_prefix('k') {
        return Id::read(id.as_bytes()).map(Name::Kept).ok_or_else(unknown);
    }
    let fresh = name.strip_prefix('f').ok_or_else(unknown)?;
    let (id, floor) = fresh.split_once('.').unwrap_or((fresh, ""));
    let id = Id::read(id.as_bytes()).ok_or_else(unknown)?;
    let floor = match floor {
        "" => None,
        floor => Some(floor.parse().map_err(|_| unknown())?),
    };
    Ok(Name::Fresh(id, floor))
}
