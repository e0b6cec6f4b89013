//! Writers, and what all clients share: they send SQL through PostgreSQL's protocol, and note what
//! they heard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use crate::history::{Fate, History, Horizon, Micros, Register, Write};
use crate::server::connect;
use crate::tables::batch;
use crate::trouble::{Asked, Trouble};

/// The SQLSTATE of rows whose table somebody else changed.
const CONFLICT: &str = "40001";

/// What all clients share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) history: Arc<Mutex<History>>,
    pub(crate) clock: Arc<Instant>,
    pub(crate) violations: Arc<Mutex<Vec<String>>>,
    /// What errors are to be expected of.
    pub(crate) trouble: Arc<Mutex<Trouble>>,
    /// Whether stages may not be held: somebody waits for all of them.
    pub(crate) settling: Arc<AtomicBool>,
    /// Whether the server is being ended: connections may break.
    pub(crate) ending: Arc<AtomicBool>,
    /// Horizons of answers, with when they were heard.
    pub(crate) horizons: Arc<Mutex<Vec<(Horizon, Micros)>>>,
    /// Tokens of the newest batches.
    pub(crate) tokens: Arc<Mutex<BTreeMap<Register, (u64, String)>>>,
    pub(crate) sessions: Arc<AtomicU64>,
    /// What was refused, by SQLSTATE.
    pub(crate) refusals: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        Shared {
            history: Arc::default(),
            clock: Arc::new(Instant::now()),
            violations: Arc::default(),
            trouble: Arc::default(),
            settling: Arc::default(),
            ending: Arc::default(),
            horizons: Arc::default(),
            tokens: Arc::default(),
            sessions: Arc::default(),
            refusals: Arc::default(),
        }
    }

    pub(crate) fn now(&self) -> Micros {
        self.clock.elapsed().as_micros() as Micros
    }

    pub(crate) fn violated(&self, what: String) {
        self.violations.lock().push(what);
    }

    /// Nothing is wrong, and nobody ends the server.
    pub(crate) fn calm(&self) {
        self.settling.store(false, Ordering::Relaxed);
        self.ending.store(false, Ordering::Relaxed);
        *self.trouble.lock() = Trouble::None;
    }

    /// Notes an error: one that the server told, or a connection that broke.
    pub(crate) fn refused(&self, asked: Asked, what: &str, error: &Error) {
        let is_ending = self.ending.load(Ordering::Relaxed);
        let Some(told) = error.as_db_error() else {
            if !is_ending {
                self.violated(format!(
                    "{what}: the connection broke without a cause: {error:?}"
                ));
            }
            return;
        };
        let code = told.code().code().to_owned();
        let trouble = *self.trouble.lock();
        if !trouble.excuses(asked, &code, is_ending) {
            self.violated(format!(
                "{what} failed without a cause ({trouble:?}): {code}: {told}"
            ));
        }
        *self.refusals.lock().entry(code).or_default() += 1;
    }

    /// Notes a batch that was refused because its table had been changed.
    fn conflict(&self, sent: Micros) {
        let heard = self.now();
        self.history.lock().conflicts.push((sent, heard));
        *self.refusals.lock().entry(CONFLICT.to_owned()).or_default() += 1;
    }

    /// A connection for a client of a round; `None` where the server is gone, as it may be.
    pub(crate) async fn connected(&self, port: u16) -> Option<Client> {
        match connect(port).await {
            Ok(client) => Some(client),
            Err(error) => {
                if !self.ending.load(Ordering::Relaxed) {
                    self.violated(format!("a connection is refused: {error}"));
                }
                None
            }
        }
    }

    /// Sends what has no answer; whether the connection is still of use.
    pub(crate) async fn sent(&self, asked: Asked, client: &Client, sql: &str) -> bool {
        match client.batch_execute(sql).await {
            Ok(()) => true,
            Err(error) => {
                self.refused(asked, sql, &error);
                false
            }
        }
    }
}

/// The SQLSTATE of an error that the server told.
pub(crate) fn code_of(error: &Error) -> Option<&str> {
    error.as_db_error().map(|told| told.code().code())
}

/// Whether a batch that was sent again hears that its number was taken: it was by what was sent
/// before, which is another batch once somebody has changed its table.
fn has_counted(error: &Error) -> bool {
    let told = error.as_db_error();
    told.is_some_and(|told| told.message().contains("to two different batches"))
}

/// What became of a statement that failed.
fn fate_of(error: &Error) -> Fate {
    match code_of(error) {
        // Nobody can tell, or the server went.
        None | Some("40003" | "08006" | "57P01" | "57P02") => Fate::Unknown,
        Some(_) => Fate::Refused,
    }
}

/// A writer, over all rounds.
pub(crate) struct Writer {
    pub(crate) register: Register,
    /// Whether its batches carry a producer's numbers: those in doubt are sent again.
    pub(crate) numbered: bool,
    next: u64,
    again: bool,
    dice: SmallRng,
}

impl Writer {
    pub(crate) fn new(register: Register, numbered: bool, seed: u64) -> Writer {
        Writer {
            register,
            numbered,
            next: 1,
            again: false,
            dice: SmallRng::seed_from_u64(seed ^ (u64::from(register) << 32)),
        }
    }

    /// Writes until the server goes, or the time is over.
    pub(crate) async fn write(
        mut self,
        shared: Shared,
        port: u16,
        over: Arc<AtomicBool>,
    ) -> Writer {
        let Some(client) = self.session(&shared, port).await else {
            return self;
        };
        while !over.load(Ordering::Relaxed) {
            if !self.write_one(&client, &shared).await.goes_on {
                return self;
            }
            let pause = self.dice.random_range(0..12_000);
            tokio::time::sleep(Duration::from_micros(pause)).await;
        }
        self
    }

    /// Writes one batch.
    pub(crate) async fn write_one(&mut self, client: &Client, shared: &Shared) -> Written {
        let (register, number) = (self.register, self.next);
        let written = |acknowledged, goes_on| Written {
            acknowledged,
            goes_on,
        };
        if self.numbered {
            let set = format!("SET lazybase.batch_number = {number}");
            if !shared.sent(Asked::Write, client, &set).await {
                return written(false, false);
            }
        }
        let sent = shared.now();
        // A batch that is sent again is the same one.
        let done = client.batch_execute(&batch(register, number)).await;
        let fate = match &done {
            Ok(()) => Fate::Acknowledged(shared.now()),
            Err(error) if self.again && has_counted(error) => Fate::Acknowledged(shared.now()),
            Err(error) => {
                match code_of(error) {
                    // Whether somebody changed the table meanwhile is seen at the end.
                    Some(CONFLICT) => shared.conflict(sent),
                    _ => shared.refused(Asked::Write, "a batch", error),
                }
                fate_of(error)
            }
        };
        self.heard(shared, sent, fate);
        if fate == Fate::Unknown {
            return written(false, false);
        }
        if done.is_err() {
            return written(false, shared.sent(Asked::Read, client, "ROLLBACK").await);
        }
        if number.is_multiple_of(3) {
            note_token(client, shared, register, number).await;
        }
        written(true, true)
    }

    pub(crate) async fn session(&self, shared: &Shared, port: u16) -> Option<Client> {
        let client = shared.connected(port).await?;
        if self.numbered {
            let set = format!("SET lazybase.producer = 'writer-{}'", self.register);
            if !shared.sent(Asked::Write, &client, &set).await {
                return None;
            }
        }
        Some(client)
    }

    fn heard(&mut self, shared: &Shared, sent: Micros, fate: Fate) {
        // What may be there from before is not refused by being refused now.
        let told = match fate {
            Fate::Refused if self.again => Fate::Unknown,
            fate => fate,
        };
        shared.history.lock().note(Write {
            register: self.register,
            number: self.next,
            sent,
            fate: told,
        });
        let stays = self.numbered && !matches!(fate, Fate::Acknowledged(_));
        self.again = stays && (self.again || fate == Fate::Unknown);
        if !stays {
            self.next += 1;
        }
    }
}

/// What came of one batch.
pub(crate) struct Written {
    pub(crate) acknowledged: bool,
    /// Whether the connection is still of use.
    goes_on: bool,
}

async fn note_token(client: &Client, shared: &Shared, register: Register, number: u64) {
    match shown(client, "lazybase.last_token").await {
        Ok(Some(token)) => {
            shared.tokens.lock().insert(register, (number, token));
        }
        Ok(None) => shared.violated("a write has no token".to_owned()),
        Err(error) => shared.refused(Asked::Read, "SHOW", &error),
    }
}

/// The value of a setting.
pub(crate) async fn shown(client: &Client, setting: &str) -> Result<Option<String>, Error> {
    let rows = client.simple_query(&format!("SHOW {setting}")).await?;
    Ok(rows.iter().find_map(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}
