//! Readers: they look at everything, in all ways that there are, and note what they saw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use crate::clients::{Shared, shown};
use crate::history::{Answer, Horizon, Micros, Reached, Register};
use crate::trouble::Asked;
use crate::whole::whole;

/// What batches add to, in one query, so in one cut, as the server counts it; in the last column,
/// how many rows are not as they were written.
pub(crate) const LOOK: &str = "
    SELECT 'registers', register, max(number), count(*), count(*) FILTER (
        WHERE note IS DISTINCT FROM concat(CAST(number AS TEXT), '-',
            repeat('x', CAST(number * 37 % 400 AS INT))))
        FROM registers GROUP BY register
    UNION ALL SELECT 'view', register, max(number), count(*), 0 FROM registers_by_number
        GROUP BY register
    UNION ALL SELECT side, register, value, 0, 0 FROM pairs
    UNION ALL SELECT 'totals', register, n, 0, 0 FROM totals";

/// Reads until the server goes, or the time is over; how many answers it got.
pub(crate) async fn read(shared: Shared, port: u16, over: Arc<AtomicBool>, seed: u64) -> u64 {
    let mut answers = 0;
    let (Some(client), Some(past)) = (shared.connected(port).await, shared.connected(port).await)
    else {
        return answers;
    };
    if !shared
        .sent(Asked::Read, &past, "SET lazybase.monotonic = off")
        .await
    {
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
                reader.shared.refused(Asked::Read, "a query", &error);
                let broken = error.as_db_error().is_none();
                if broken || !reader.rolled_back().await {
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
    /// Whole rows, of `registers` those with greater numbers; else what the server makes of them.
    rows_from: Option<u64>,
}

/// So many of the newest numbers are read as whole rows, or all of them.
const NUMBERS_READ: u64 = 200;

/// Horizons that were heard so long ago are of no use any more.
const HORIZONS_USED: Micros = 30_000_000;

impl Reader {
    /// Ends what failed; whether the connections are still of use.
    async fn rolled_back(&self) -> bool {
        for client in [&self.client, &self.past] {
            if !self.shared.sent(Asked::Read, client, "ROLLBACK").await {
                return false;
            }
        }
        true
    }

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
                    rows_from: self.rows_from(),
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

    fn rows_from(&mut self) -> Option<u64> {
        match self.dice.random_range(0..12) {
            0 => Some(0),
            1..4 => {
                let read = self.dice.random_range(0..NUMBERS_READ);
                Some(self.shared.history.lock().newest().saturating_sub(read))
            }
            _ => None,
        }
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
            rows_from: self.rows_from(),
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
    let Ask {
        bound,
        token,
        scu,
        rows_from,
    } = ask;
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
    let seen = match rows_from {
        None => {
            let rows = client.simple_query(&format!("{LOOK}{clause}")).await?;
            reached(&rows).map(|reached| (reached, None))
        }
        Some(from) => {
            let whole = whole(client, from, &clause).await?;
            whole.map(|whole| (whole.reached, Some(whole.rows)))
        }
    };
    let ended = shared.now();
    let stamp = shown(client, "lazybase.last_answer")
        .await?
        .unwrap_or_default();
    let at = horizon_of(&stamp);
    if at.is_none() {
        shared.violated(format!("an answer has no stamp: {stamp:?}"));
    }
    match seen {
        Ok((reached, rows)) => Ok(Some(Answer {
            session,
            began,
            ended,
            bound,
            after,
            at,
            reached,
            rows,
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
pub(crate) fn reached(rows: &[SimpleQueryMessage]) -> Result<BTreeMap<Register, Reached>, String> {
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
    let registers: BTreeSet<Register> = parts.keys().map(|(register, _)| *register).collect();
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
