//! Writers and readers: they send SQL through PostgreSQL's protocol, and note what they heard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use crate::Outcome;
use crate::history::{Answer, Fate, Final, History, Micros, Reached, Register, Write};
use crate::server::connect;

/// The tables of the test: registers, the paper's two rows that are zero together, a counter, and
/// a secondary view.
pub(crate) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS registers (
        register INT, number BIGINT, note TEXT, PRIMARY KEY (register, number));
    CREATE TABLE IF NOT EXISTS pairs (
        register INT, side TEXT, value BIGINT, PRIMARY KEY (register, side));
    CREATE TABLE IF NOT EXISTS totals (register INT PRIMARY KEY, n BIGINT MERGE SUM);
    CREATE MATERIALIZED VIEW IF NOT EXISTS registers_by_number AS
        SELECT number, register FROM registers ORDER BY number, register;";

/// All of it in one query, so in one cut.
const LOOK: &str = "
    SELECT 'registers', register, max(number), count(*) FROM registers GROUP BY register
    UNION ALL SELECT 'view', register, max(number), count(*) FROM registers_by_number
        GROUP BY register
    UNION ALL SELECT side, register, value, 0 FROM pairs
    UNION ALL SELECT 'totals', register, n, 0 FROM totals";

/// What all clients share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) history: Arc<Mutex<History>>,
    pub(crate) clock: Arc<Instant>,
    pub(crate) violations: Arc<Mutex<Vec<String>>>,
    /// Whether errors are to be expected.
    pub(crate) trouble: Arc<AtomicBool>,
    /// Tokens of the newest batches.
    tokens: Arc<Mutex<BTreeMap<Register, (u64, String)>>>,
    sessions: Arc<AtomicU64>,
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

    /// Notes an error that the server told.
    pub(crate) fn refused(&self, what: &str, error: &Error) {
        let Some(told) = error.as_db_error() else {
            return;
        };
        let code = told.code().code().to_owned();
        let expected = self.trouble.load(Ordering::Relaxed) && !code.starts_with("XX");
        if !expected && code != "57P01" {
            self.violated(format!("{what} failed without a cause: {code}: {told}"));
        }
        *self.refusals.lock().entry(code).or_default() += 1;
    }
}

/// What became of a statement that failed.
fn fate_of(error: &Error) -> Fate {
    match error.as_db_error().map(|told| told.code().code()) {
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
            dice: SmallRng::seed_from_u64(seed),
        }
    }

    /// Writes until the server goes, or the time is over.
    pub(crate) async fn write(
        mut self,
        shared: Shared,
        port: u16,
        over: Arc<AtomicBool>,
    ) -> Writer {
        let Ok(client) = self.session(port).await else {
            return self;
        };
        while !over.load(Ordering::Relaxed) {
            let (register, number) = (self.register, self.next);
            if self.numbered {
                let set = format!("SET lazybase.batch_number = {number}");
                if client.batch_execute(&set).await.is_err() {
                    return self;
                }
            }
            let sent = shared.now();
            // A batch that is sent again is the same one.
            let note = "x".repeat((number * 37 % 400) as usize);
            let done = client.batch_execute(&batch(register, number, &note)).await;
            let fate = match &done {
                Ok(()) => Fate::Acknowledged(shared.now()),
                Err(error) => {
                    shared.refused("a batch", error);
                    fate_of(error)
                }
            };
            self.heard(&shared, sent, fate);
            if fate == Fate::Unknown {
                return self;
            }
            if done.is_err() && client.batch_execute("ROLLBACK").await.is_err() {
                return self;
            }
            if done.is_ok() && number.is_multiple_of(3) {
                note_token(&client, &shared, register, number).await;
            }
            let pause = self.dice.random_range(0..12_000);
            tokio::time::sleep(Duration::from_micros(pause)).await;
        }
        self
    }

    async fn session(&self, port: u16) -> Outcome<Client> {
        let client = connect(port).await?;
        if self.numbered {
            let set = format!("SET lazybase.producer = 'writer-{}'", self.register);
            client.batch_execute(&set).await?;
        }
        Ok(client)
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

/// One batch over three tables.
fn batch(register: Register, number: u64, note: &str) -> String {
    format!(
        "BEGIN;
         INSERT INTO registers VALUES ({register}, {number}, '{note}');
         INSERT INTO pairs VALUES ({register}, 'a', {number}), ({register}, 'b', -{number});
         INSERT INTO totals VALUES ({register}, 1);
         COMMIT"
    )
}

async fn note_token(client: &Client, shared: &Shared, register: Register, number: u64) {
    if let Ok(rows) = client.simple_query("SHOW lazybase.last_token").await
        && let Some(token) = rows.iter().find_map(|row| match row {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    {
        shared.tokens.lock().insert(register, (number, token));
    }
}

/// Reads until the server goes, or the time is over.
pub(crate) async fn read(shared: Shared, port: u16, over: Arc<AtomicBool>, seed: u64) {
    let mut dice = SmallRng::seed_from_u64(seed);
    let session = shared.sessions.fetch_add(1, Ordering::Relaxed);
    let Ok(client) = connect(port).await else {
        return;
    };
    while !over.load(Ordering::Relaxed) {
        let bound = [
            Some(0),
            Some(0),
            Some(50_000),
            Some(400_000),
            Some(3_000_000),
            None,
        ][dice.random_range(0..6)];
        let token = match dice.random_range(0..4) {
            0 => {
                let tokens = shared.tokens.lock();
                let at = dice.random_range(0..tokens.len().max(1));
                tokens
                    .iter()
                    .nth(at)
                    .map(|(register, told)| (*register, told.clone()))
            }
            _ => None,
        };
        match look(&client, &shared, session, bound, token).await {
            Ok(Some(answer)) => shared.history.lock().answers.push(answer),
            Ok(None) => {}
            Err(error) => {
                shared.refused("a query", &error);
                if error.as_db_error().is_none() {
                    return;
                }
            }
        }
        let pause = dice.random_range(0..30_000);
        tokio::time::sleep(Duration::from_micros(pause)).await;
    }
}

/// One look at everything.
async fn look(
    client: &Client,
    shared: &Shared,
    session: u64,
    bound: Option<Micros>,
    token: Option<(Register, (u64, String))>,
) -> Result<Option<Answer>, Error> {
    let freshness = match bound {
        Some(micros) => format!("'{} ms'", micros / 1000),
        None => "'best effort'".to_owned(),
    };
    let set = format!("SET lazybase.freshness = {freshness}");
    client.batch_execute(&set).await?;
    let (after, clause) = match &token {
        Some((register, (number, token))) => {
            (Some((*register, *number)), format!(" AFTER '{token}'"))
        }
        None => (None, String::new()),
    };
    let began = shared.now();
    let rows = client.simple_query(&format!("{LOOK}{clause}")).await?;
    let ended = shared.now();
    match reached(&rows) {
        Ok(reached) => Ok(Some(Answer {
            session,
            began,
            ended,
            bound,
            after,
            reached,
        })),
        Err(what) => {
            shared.violated(format!("an answer at {freshness} is torn: {what}"));
            Ok(None)
        }
    }
}

/// How far an answer has come, if its parts agree.
fn reached(rows: &[SimpleQueryMessage]) -> Result<BTreeMap<Register, Reached>, String> {
    let mut parts: BTreeMap<(Register, String), (i64, u64)> = BTreeMap::new();
    for row in rows {
        let SimpleQueryMessage::Row(row) = row else {
            continue;
        };
        let cell = |at: usize| row.get(at).unwrap_or_default();
        let parse = || -> Option<_> {
            let register = cell(1).parse().ok()?;
            let key = (register, cell(0).to_owned());
            Some((key, (cell(2).parse().ok()?, cell(3).parse().ok()?)))
        };
        let (key, value) = parse().ok_or_else(|| format!("a row can't be read: {row:?}"))?;
        if parts.insert(key.clone(), value).is_some() {
            return Err(format!("{key:?} is there twice"));
        }
    }
    let registers: std::collections::BTreeSet<Register> =
        parts.keys().map(|(register, _)| *register).collect();
    let mut found = BTreeMap::new();
    for register in registers {
        let part = |name: &str| parts.get(&(register, name.to_owned())).copied();
        let all = (
            part("registers"),
            part("view"),
            part("a"),
            part("b"),
            part("totals"),
        );
        let (Some(registers), Some(view), Some((a, _)), Some((b, _)), Some((n, _))) = all else {
            return Err(format!("register {register} has {all:?}"));
        };
        let agrees = registers == view && a == registers.0 && a + b == 0 && n == registers.1 as i64;
        if !agrees {
            return Err(format!("register {register} has {all:?}"));
        }
        found.insert(
            register,
            Reached {
                greatest: a as u64,
                count: registers.1,
            },
        );
    }
    Ok(found)
}

/// Everything that is there, without any bound.
pub(crate) async fn last(client: &Client) -> Result<Final, Error> {
    client.batch_execute("SET lazybase.freshness = '0'").await?;
    let text = "SELECT register, number FROM registers";
    let rows = client.simple_query(text).await?;
    let mut last = Final::new();
    for row in rows {
        if let SimpleQueryMessage::Row(row) = row {
            let cell = |at: usize| row.get(at).and_then(|cell| cell.parse::<u64>().ok());
            if let (Some(register), Some(number)) = (cell(0), cell(1)) {
                last.entry(register as Register).or_default().insert(number);
            }
        }
    }
    Ok(last)
}

/// One answer without a session before it, after damage.
pub(crate) async fn look_once(
    client: &Client,
    shared: &Shared,
    bound: Option<Micros>,
) -> Result<Option<Answer>, Error> {
    let session = shared.sessions.fetch_add(1, Ordering::Relaxed);
    look(client, shared, session, bound, None).await
}
