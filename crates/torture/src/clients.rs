//! Writers and readers: they send SQL through PostgreSQL's protocol, and note what they heard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use crate::history::{Answer, Fate, Final, History, Horizon, Micros, Reached, Register, Write};
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

/// All of it in one query, so in one cut; in the last column, how many rows are not as they were
/// written.
const LOOK: &str = "
    SELECT 'registers', register, max(number), count(*), count(*) FILTER (
        WHERE note IS DISTINCT FROM concat(CAST(number AS TEXT), '-',
            repeat('x', CAST(number * 37 % 400 AS INT))))
        FROM registers GROUP BY register
    UNION ALL SELECT 'view', register, max(number), count(*), 0 FROM registers_by_number
        GROUP BY register
    UNION ALL SELECT side, register, value, 0, 0 FROM pairs
    UNION ALL SELECT 'totals', register, n, 0, 0 FROM totals";

/// What a batch says beside its number.
fn note_of(number: u64) -> String {
    format!("{number}-{}", "x".repeat((number * 37 % 400) as usize))
}

/// What all clients share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) history: Arc<Mutex<History>>,
    pub(crate) clock: Arc<Instant>,
    pub(crate) violations: Arc<Mutex<Vec<String>>>,
    /// Whether errors are to be expected.
    pub(crate) trouble: Arc<AtomicBool>,
    /// Whether the server is being ended: connections may break.
    pub(crate) ending: Arc<AtomicBool>,
    /// Horizons of answers, with when they were heard.
    horizons: Arc<Mutex<Vec<(Horizon, Micros)>>>,
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

    /// Notes an error: one that the server told, or a connection that broke.
    pub(crate) fn refused(&self, what: &str, error: &Error) {
        let Some(told) = error.as_db_error() else {
            if !self.ending.load(Ordering::Relaxed) {
                self.violated(format!(
                    "{what}: the connection broke without a cause: {error:?}"
                ));
            }
            return;
        };
        let code = told.code().code().to_owned();
        let expected = self.trouble.load(Ordering::Relaxed) && !code.starts_with("XX");
        if !expected && code != "57P01" {
            self.violated(format!("{what} failed without a cause: {code}: {told}"));
        }
        *self.refusals.lock().entry(code).or_default() += 1;
    }

    /// A connection for a client of a round; `None` where the server is gone, as it may be.
    async fn connected(&self, port: u16) -> Option<Client> {
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
    pub(crate) async fn sent(&self, client: &Client, sql: &str) -> bool {
        match client.batch_execute(sql).await {
            Ok(()) => true,
            Err(error) => {
                self.refused(sql, &error);
                false
            }
        }
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
            if !shared.sent(client, &set).await {
                return written(false, false);
            }
        }
        let sent = shared.now();
        // A batch that is sent again is the same one.
        let done = client.batch_execute(&batch(register, number)).await;
        let fate = match &done {
            Ok(()) => Fate::Acknowledged(shared.now()),
            Err(error) => {
                shared.refused("a batch", error);
                fate_of(error)
            }
        };
        self.heard(shared, sent, fate);
        if fate == Fate::Unknown {
            return written(false, false);
        }
        if done.is_err() {
            return written(false, shared.sent(client, "ROLLBACK").await);
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
            if !shared.sent(&client, &set).await {
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

/// One batch over three tables.
fn batch(register: Register, number: u64) -> String {
    let note = note_of(number);
    format!(
        "BEGIN;
         INSERT INTO registers VALUES ({register}, {number}, '{note}');
         INSERT INTO pairs VALUES ({register}, 'a', {number}), ({register}, 'b', -{number});
         INSERT INTO totals VALUES ({register}, 1);
         COMMIT"
    )
}

async fn note_token(client: &Client, shared: &Shared, register: Register, number: u64) {
    match shown(client, "lazybase.last_token").await {
        Ok(Some(token)) => {
            shared.tokens.lock().insert(register, (number, token));
        }
        Ok(None) => shared.violated("a write has no token".to_owned()),
        Err(error) => shared.refused("SHOW", &error),
    }
}

/// The value of a setting.
async fn shown(client: &Client, setting: &str) -> Result<Option<String>, Error> {
    let rows = client.simple_query(&format!("SHOW {setting}")).await?;
    Ok(rows.iter().find_map(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

/// Reads until the server goes, or the time is over; how many answers it got.
pub(crate) async fn read(shared: Shared, port: u16, over: Arc<AtomicBool>, seed: u64) -> u64 {
    let mut answers = 0;
    let (Some(client), Some(past)) = (shared.connected(port).await, shared.connected(port).await)
    else {
        return answers;
    };
    if !shared.sent(&past, "SET lazybase.monotonic = off").await {
        return answers;
    }
    let mut reader = Reader {
        dice: SmallRng::seed_from_u64(seed),
        session: shared.sessions.fetch_add(1, Ordering::Relaxed),
        shared,
        client,
        past,
    };
    while !over.load(Ordering::Relaxed) {
        match reader.one().await {
            Ok(got) => answers += got,
            Err(error) => {
                reader.shared.refused("a query", &error);
                let broken = error.as_db_error().is_none();
                if broken || !reader.shared.sent(&reader.client, "ROLLBACK").await {
                    return answers;
                }
            }
        }
        let pause = reader.dice.random_range(0..30_000);
        tokio::time::sleep(Duration::from_micros(pause)).await;
    }
    answers
}

/// One that reads, in all ways that there are.
struct Reader {
    shared: Shared,
    client: Client,
    /// A session of its own for answers as of long ago.
    past: Client,
    session: u64,
    dice: SmallRng,
}

/// How a look is asked for.
#[derive(Debug, Clone, Default)]
struct Ask {
    bound: Option<Micros>,
    token: Option<(Register, (u64, String))>,
    /// As of the end of this SCU.
    scu: Option<u64>,
}

/// Horizons that were heard so long ago are of no use any more.
const HORIZONS_USED: Micros = 30_000_000;

impl Reader {
    /// One look, or two in a transaction; how many answers came.
    async fn one(&mut self) -> Result<u64, Error> {
        match self.dice.random_range(0..8) {
            0 => self.twice().await,
            1 => self.of_the_past().await,
            _ => {
                let bounds = [
                    Some(0),
                    Some(0),
                    Some(50_000),
                    Some(400_000),
                    Some(3_000_000),
                    None,
                ];
                let ask = Ask {
                    bound: bounds[self.dice.random_range(0..bounds.len())],
                    token: self.token(),
                    scu: None,
                };
                let answer = look(&self.client, &self.shared, self.session, ask).await?;
                Ok(self.shared.heard(answer).is_some().into())
            }
        }
    }

    fn token(&mut self) -> Option<(Register, (u64, String))> {
        let wanted = self.dice.random_range(0..4) == 0;
        let tokens = self.shared.tokens.lock();
        let at = self.dice.random_range(0..tokens.len().max(1));
        let token = tokens.iter().nth(at).filter(|_| wanted);
        token.map(|(register, told)| (*register, told.clone()))
    }

    /// Two looks in one transaction are the same.
    async fn twice(&mut self) -> Result<u64, Error> {
        self.client.batch_execute("BEGIN READ ONLY").await?;
        let mut seen = Vec::new();
        for _ in 0..2 {
            let ask = Ask::default();
            let answer = look(&self.client, &self.shared, self.session, ask).await?;
            seen.extend(self.shared.heard(answer));
            let pause = self.dice.random_range(0..40_000);
            tokio::time::sleep(Duration::from_micros(pause)).await;
        }
        self.client.batch_execute("COMMIT").await?;
        if let [one, other] = &seen[..]
            && (one.reached != other.reached || one.at != other.at)
        {
            let what = format!("a transaction that reads saw {one:?}, then {other:?}");
            self.shared.violated(what);
        }
        Ok(seen.len() as u64)
    }

    /// A look as of an SCU's end that some answer named.
    async fn of_the_past(&mut self) -> Result<u64, Error> {
        let scu = {
            let now = self.shared.now();
            let mut horizons = self.shared.horizons.lock();
            horizons.retain(|(_, heard)| heard + HORIZONS_USED > now);
            let at = self.dice.random_range(0..horizons.len().max(1));
            horizons.get(at).map(|((scu, _), _)| *scu)
        };
        let Some(scu) = scu.filter(|scu| *scu > 0) else {
            return Ok(0);
        };
        let ask = Ask {
            scu: Some(scu),
            ..Ask::default()
        };
        // Nothing that it saw before bounds what it sees of the past.
        let session = self.shared.sessions.fetch_add(1, Ordering::Relaxed);
        let answer = look(&self.past, &self.shared, session, ask).await?;
        let answer = self.shared.heard(answer);
        if let Some(answer) = &answer
            && answer.at != Some((scu, 0))
        {
            let at = answer.at;
            let what = format!("an answer as of SCU {scu} is stamped {at:?}");
            self.shared.violated(what);
        }
        Ok(answer.is_some().into())
    }
}

impl Shared {
    /// Notes an answer.
    fn heard(&self, answer: Option<Answer>) -> Option<Answer> {
        let answer = answer?;
        if let Some(at) = answer.at {
            self.horizons.lock().push((at, answer.ended));
        }
        self.history.lock().answers.push(answer.clone());
        Some(answer)
    }
}

/// One look at everything; `None` where the answer is no cut, which is noted.
async fn look(
    client: &Client,
    shared: &Shared,
    session: u64,
    ask: Ask,
) -> Result<Option<Answer>, Error> {
    let Ask { bound, token, scu } = ask;
    let freshness = match bound {
        Some(micros) => format!("'{} ms'", micros / 1000),
        None => "'best effort'".to_owned(),
    };
    let set = format!("SET lazybase.freshness = {freshness}");
    client.batch_execute(&set).await?;
    let after = token
        .as_ref()
        .map(|(register, (number, _))| (*register, *number));
    let clause = match (&token, scu) {
        (_, Some(scu)) => format!(" AS OF SCU {scu}"),
        (Some((_, (_, token))), None) => format!(" AFTER '{token}'"),
        (None, None) => String::new(),
    };
    let began = shared.now();
    let rows = client.simple_query(&format!("{LOOK}{clause}")).await?;
    let ended = shared.now();
    let stamp = shown(client, "lazybase.last_answer")
        .await?
        .unwrap_or_default();
    let at = horizon_of(&stamp);
    if at.is_none() {
        shared.violated(format!("an answer has no stamp: {stamp:?}"));
    }
    match reached(&rows) {
        Ok(reached) => Ok(Some(Answer {
            session,
            began,
            ended,
            bound,
            after,
            at,
            reached,
        })),
        Err(what) => {
            shared.violated(format!("an answer at {freshness}{clause} is torn: {what}"));
            Ok(None)
        }
    }
}

/// The horizon of a stamp.
fn horizon_of(stamp: &str) -> Option<Horizon> {
    let named = stamp.strip_prefix("horizon ")?;
    let named = named.split([',', ' ']).next()?;
    match named.split_once('+') {
        Some((scu, batches)) => Some((scu.parse().ok()?, batches.parse().ok()?)),
        None => Some((named.parse().ok()?, 0)),
    }
}

/// How far an answer has come, if its parts agree.
fn reached(rows: &[SimpleQueryMessage]) -> Result<BTreeMap<Register, Reached>, String> {
    let mut parts: BTreeMap<(Register, String), (i64, u64)> = BTreeMap::new();
    let mut changed = 0;
    for row in rows {
        let SimpleQueryMessage::Row(row) = row else {
            continue;
        };
        let cell = |at: usize| row.get(at).unwrap_or_default();
        let mut parse = || -> Option<_> {
            let register = cell(1).parse().ok()?;
            let key = (register, cell(0).to_owned());
            changed += cell(4).parse::<u64>().ok()?;
            Some((key, (cell(2).parse().ok()?, cell(3).parse().ok()?)))
        };
        let (key, value) = parse().ok_or_else(|| format!("a row can't be read: {row:?}"))?;
        if parts.insert(key.clone(), value).is_some() {
            return Err(format!("{key:?} is there twice"));
        }
    }
    if changed > 0 {
        return Err(format!("{changed} rows have other notes than were written"));
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

/// Everything that is there, without any bound; also what contradicts itself in it.
pub(crate) async fn last(client: &Client) -> Result<(Final, Vec<String>), Error> {
    client.batch_execute("SET lazybase.freshness = '0'").await?;
    let mut wrong = Vec::new();
    let mut last = Final::new();
    let text = "SELECT register, number, note FROM registers";
    for row in client.simple_query(text).await? {
        if let SimpleQueryMessage::Row(row) = row {
            match numbers(&row) {
                Some((register, number)) => {
                    last.entry(register).or_default().insert(number);
                    if row.get(2) != Some(&note_of(number)) {
                        let note = row.get(2);
                        wrong.push(format!("{register}, {number} has the note {note:?}"));
                    }
                }
                None => wrong.push(format!("a row can't be read: {row:?}")),
            }
        }
    }
    let mut view = Final::new();
    let text = "SELECT register, number FROM registers_by_number";
    for row in client.simple_query(text).await? {
        if let SimpleQueryMessage::Row(row) = row
            && let Some((register, number)) = numbers(&row)
            && !view.entry(register).or_default().insert(number)
        {
            wrong.push(format!("the view has {register}, {number} twice"));
        }
    }
    if view != last {
        wrong.push(format!("the view has {view:?}, its table {last:?}"));
    }
    match reached(&client.simple_query(LOOK).await?) {
        Ok(all) => {
            let counted = |(register, numbers): (&Register, &std::collections::BTreeSet<u64>)| {
                let greatest = numbers.last().copied().unwrap_or_default();
                let count = numbers.len() as u64;
                (*register, Reached { greatest, count })
            };
            let listed: BTreeMap<Register, Reached> = last.iter().map(counted).collect();
            if all != listed {
                wrong.push(format!("{all:?} is counted, {listed:?} is there"));
            }
        }
        Err(what) => wrong.push(what),
    }
    Ok((last, wrong))
}

fn numbers(row: &tokio_postgres::SimpleQueryRow) -> Option<(Register, u64)> {
    let cell = |at: usize| row.get(at)?.parse::<u64>().ok();
    Some((cell(0)? as Register, cell(1)?))
}

/// One answer without a session before it, after damage; whether it is a cut.
pub(crate) async fn look_once(
    client: &Client,
    shared: &Shared,
    bound: Option<Micros>,
) -> Result<bool, Error> {
    let session = shared.sessions.fetch_add(1, Ordering::Relaxed);
    let ask = Ask {
        bound,
        ..Ask::default()
    };
    let answer = look(client, shared, session, ask).await?;
    // Horizons of a copy are not those of the history.
    if let Some(answer) = &answer {
        let answer = Answer {
            at: None,
            ..answer.clone()
        };
        shared.history.lock().answers.push(answer);
    }
    Ok(answer.is_some())
}
