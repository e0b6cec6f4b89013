//! Readers: each asks with a bound on staleness, within a session or as of the past, and compares
//! every answer with the model: the exact rows of exactly the batches up to its horizon.

use std::sync::Arc;
use std::time::Duration;

use lazybase_cluster::{AsOf, SnapshotRequest};
use lazybase_engine::read::{ScanRequest, Snapshot};
use lazybase_model::{ErrorKind, Freshness, Horizon, OnMiss, ScuNumber, TableId};
use parking_lot::Mutex;

use crate::dice::Dice;
use crate::life::{Answer, Life, Trouble};
use crate::marks::Mark;
use crate::writer::Writer;

mod compare;

pub(crate) use compare::{compare_all, compare_one, compare_read};

/// How many pasts are far enough back to be asked for.
const PASTS: u64 = 24;
/// For how many milliseconds a snapshot is held.
const HELD_MILLIS: (u64, u64) = (300, 4_000);
/// The same, where it may be ended once it is old enough.
const HELD_LONG_MILLIS: (u64, u64) = (10_000, 20_000);
/// The SQLSTATE of a past that is not kept.
const PAST_GONE: &str = "72000";

/// What a reader remembers: its session.
#[derive(Debug)]
pub(crate) struct Reader {
    number: usize,
    dice: Dice,
    /// The newest horizon that it was answered at.
    seen: Horizon,
}

impl Reader {
    /// A reader that has read nothing.
    pub(crate) fn new(seed: u64, number: usize) -> Reader {
        Reader {
            number,
            dice: Dice::of(seed, 200 + number as u64),
            seen: Horizon::ZERO,
        }
    }
}

/// A reader at work.
struct Reading {
    life: Arc<Life>,
    number: usize,
    dice: Dice,
    seen: Horizon,
}

/// What a query asks for, and what it must hold by what is known before it begins.
struct Question {
    request: SnapshotRequest,
    tables: Vec<usize>,
    /// What the database's clock had to say when it began.
    asked_micros: i64,
    /// The last SCU that was known whole when it began.
    whole_through: ScuNumber,
    /// The last batch that the bound demands.
    needed: Option<(u64, u32)>,
    /// How many batches had been heard of.
    since: Duration,
}

/// Reads until the life is over. `writer` is whom the reader's session writes with.
pub(crate) async fn read(life: Arc<Life>, me: Arc<Mutex<Reader>>, writer: Arc<Mutex<Writer>>) {
    let mut reading = {
        let me = me.lock();
        Reading {
            life,
            number: me.number,
            dice: me.dice.clone(),
            seen: me.seen,
        }
    };
    // A crash may take everything since; what was seen and what was drawn must outlive it.
    while !reading.life.is_over() {
        let think = Duration::from_micros(reading.dice.below(4_000));
        reading.life.world().sleep(think).await;
        let floor = match reading.dice.percent(40) {
            true => writer.lock().floor(),
            false => Horizon::ZERO,
        };
        {
            let mut me = me.lock();
            me.dice = reading.dice.clone();
            me.seen = me.seen.max(reading.seen);
        }
        let answer = reading.query(floor, &me).await;
        if reading.life.report(answer).is_none() {
            reading.life.world().sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Reading {
    async fn query(&mut self, floor: Horizon, me: &Mutex<Reader>) -> Answer<()> {
        self.life.check_clock()?;
        let question = self.draw_question(floor);
        let asked = self.life.instance.snapshot(question.request.clone()).await;
        let snapshot = match asked {
            Ok(snapshot) => snapshot,
            Err(error) => return self.refused(&question, error),
        };
        let answered_micros = self.life.clock_micros();
        let horizon = snapshot.horizon();
        self.life
            .world()
            .note("query", horizon.scu.0, u64::from(horizon.batches.0), || {
                format!(
                    "of reader {} at {horizon}: {:?}",
                    self.number, question.request
                )
            });
        self.life.know(&snapshot).await?;
        self.check_horizon(&question, &snapshot)?;
        check_staleness(&question, &snapshot, answered_micros)?;
        if question.request.at.is_none() {
            self.seen = self.seen.max(horizon);
            let mut me = me.lock();
            me.seen = me.seen.max(horizon);
        }
        for table in question.tables.clone() {
            self.compare(&snapshot, table, &question).await?;
        }
        self.life.check_damage()?;
        self.life.note_stages(&snapshot);
        self.life.answered(|tally| tally.queries += 1);
        if self.dice.permille(25) {
            self.hold(&question, &snapshot).await?;
        }
        Ok(())
    }

    /// The snapshot must stay what it is, whatever is merged and removed meanwhile; or its reader
    /// is told that it was ended.
    async fn hold(&mut self, question: &Question, snapshot: &Snapshot) -> Answer<()> {
        let is_long = self.life.run.story.is_bounded() && self.dice.percent(40);
        let (least, most) = match is_long {
            true => HELD_LONG_MILLIS,
            false => HELD_MILLIS,
        };
        let held = Duration::from_millis(self.dice.between(least, most));
        self.life.world().sleep(held).await;
        self.check_held(question, snapshot).await?;
        for table in question.tables.clone() {
            self.compare(snapshot, table, question).await?;
        }
        self.life.world().meet(Mark::ReadHeld);
        self.life.answered(|tally| tally.queries += 1);
        Ok(())
    }

    /// A snapshot that keeps no file any more tells no rows, though they may still be there.
    async fn check_held(&mut self, question: &Question, snapshot: &Snapshot) -> Answer<()> {
        let pins = self.life.instance.pins();
        let owner = &question.request.owner;
        if pins.iter().any(|held| held.pin.owner == *owner) {
            return Ok(());
        }
        let asked = compare::Asked {
            since: question.since,
            at: question.request.at,
        };
        let life = Arc::clone(&self.life);
        let (table, way) = (question.tables[0], compare::Way::Scan);
        compare::compare(&life, &mut self.dice, snapshot, table, way, asked).await?;
        let horizon = snapshot.horizon();
        Err(Trouble::Wrong(format!(
            "a snapshot that was ended is read as before: at {horizon}, asked: {:?}",
            question.request
        )))
    }

    fn draw_question(&mut self, floor: Horizon) -> Question {
        let dice = &mut self.dice;
        let count = self.life.run.story.tables.len();
        let mut tables = vec![dice.index(count)];
        if dice.percent(30) {
            let other = dice.index(count);
            tables.retain(|table| *table != other);
            tables.push(other);
        }
        let freshness = match dice.below(10) {
            0..4 => Freshness::ZERO,
            4..8 => Freshness::Within(Duration::from_micros(
                *dice.pick(&[500, 5_000, 30_000, 120_000, 600_000]),
            )),
            _ => Freshness::BestEffort,
        };
        let on_miss = match dice.below(10) {
            0..7 => OnMiss::Dig,
            7 => OnMiss::Error,
            8 => OnMiss::Stale,
            _ => OnMiss::Wait(Duration::from_millis(dice.between(1, 40))),
        };
        let at = match dice.below(10) {
            0 => self.draw_scu(),
            1 => Some(AsOf::Timestamp {
                micros: self.life.clock_micros() - self.dice.below(1_500_000) as i64,
            }),
            _ => None,
        };
        let named = self.dice.percent(50).then(|| ids_of(&self.life, &tables));
        let asked_micros = self.life.clock_micros();
        let model = self.life.run.model.lock();
        let cutoff = match (freshness, at) {
            (Freshness::Within(bound), None) if bound.is_zero() => Some(i64::MAX),
            (Freshness::Within(bound), None) => Some(asked_micros - bound.as_micros() as i64),
            _ => None,
        };
        Question {
            needed: cutoff.and_then(|cutoff| model.last_heard_before(cutoff)),
            whole_through: model.whole_through(),
            request: SnapshotRequest {
                freshness,
                floor: floor.max(self.seen),
                on_miss,
                at,
                tables: named,
                owner: format!("reader-{}", self.number),
            },
            tables,
            asked_micros,
            since: self.life.world().now(),
        }
    }

    /// An SCU of the last ones.
    fn draw_scu(&mut self) -> Option<AsOf> {
        let whole = self.life.run.model.lock().whole_through().0;
        let back = self.dice.below(PASTS);
        (whole > back).then(|| AsOf::Scu(ScuNumber(whole - back)))
    }

    /// An error instead of a snapshot: some of them are promised.
    fn refused(&self, question: &Question, error: lazybase_model::Error) -> Answer<()> {
        let request = &question.request;
        let world = self.life.world();
        world.note("refused", 0, 0, || format!("{request:?}: {error}"));
        let is_miss = request.on_miss == OnMiss::Error && request.at.is_none();
        if error.kind() == ErrorKind::Unavailable && is_miss {
            world.meet(Mark::MissError);
            return Ok(());
        }
        if error.kind() == ErrorKind::Invalid && request.at.is_some() {
            return self.past_refused(question, &error);
        }
        if error.kind() == ErrorKind::NotFound && self.is_remade(question) {
            return Ok(());
        }
        Err(self.life.judge("a snapshot", question.since, error))
    }

    /// A past is refused: one from before the retention, or from before what too much that was
    /// superseded has left of it.
    fn past_refused(&self, question: &Question, error: &lazybase_model::Error) -> Answer<()> {
        let at = question.request.at;
        let world = self.life.world();
        if !self.is_kept(question, self.life.retention_began()) {
            world.meet(Mark::AsOfGone);
            return Ok(());
        }
        if self.is_kept(question, self.life.past_begins()) {
            return Err(Trouble::Wrong(format!(
                "{at:?} lies inside the retention, and is refused: {error:?}"
            )));
        }
        if error.sqlstate() != PAST_GONE {
            return Err(Trouble::Wrong(format!(
                "{at:?} is gone as too much was superseded, and is refused otherwise: {error:?}"
            )));
        }
        world.meet(Mark::AsOfTooMuch);
        Ok(())
    }

    /// Whether a table is not the one any more that was asked for.
    fn is_remade(&self, question: &Question) -> bool {
        let Some(ids) = &question.request.tables else {
            return false;
        };
        let newest = |table: &usize| {
            let name = &self.life.run.story.tables[*table].name;
            self.life.instance.table(name).ok()
        };
        let mut newest = question.tables.iter().filter_map(newest);
        newest.any(|newest| !ids.contains(&newest.id))
    }

    /// Whether a past must be kept: it was the newest one when what is kept `began`, or came later.
    /// Whatever fails, what led there is not let go before.
    fn is_kept(&self, question: &Question, began: i64) -> bool {
        let is_recent = match question.request.at {
            // The next one was not complete yet then.
            Some(AsOf::Scu(scu)) => {
                let next = self.life.run.model.lock().last_sent(scu.next());
                next.is_some_and(|sent| sent > began)
            }
            Some(AsOf::Timestamp { micros }) => micros > began,
            None => false,
        };
        is_recent && !self.may_be_lost(question)
    }

    /// Whether runs may be lost, and be gone, that alone led to a past of the tables asked for.
    fn may_be_lost(&self, question: &Question) -> bool {
        let is_struck = match question.request.tables {
            None => !self.life.run.wounds.is_empty(),
            Some(_) => {
                let mut tables = question.tables.iter();
                tables.any(|table| self.life.is_struck(*table))
            }
        };
        is_struck || self.life.may_have_misread()
    }

    fn check_horizon(&self, question: &Question, snapshot: &Snapshot) -> Answer<()> {
        let horizon = snapshot.horizon();
        let place = (horizon.scu.0, horizon.batches.0);
        let request = &question.request;
        let wrong = |what: String| Err(Trouble::Wrong(format!("{what}; asked: {request:?}")));
        match request.at {
            Some(AsOf::Scu(scu)) => {
                if horizon != Horizon::end_of(scu) {
                    return wrong(format!("an answer as of SCU {scu} is at {horizon}"));
                }
                self.life.world().meet(Mark::AsOfScu);
                return Ok(());
            }
            Some(AsOf::Timestamp { micros }) => return self.check_time(question, horizon, micros),
            None => {}
        }
        if horizon < request.floor {
            return wrong(format!(
                "an answer at {horizon} lies before its session's floor"
            ));
        }
        if horizon == request.floor && horizon != Horizon::ZERO {
            self.life.world().meet(Mark::Floor);
        }
        let stamp = snapshot.stamp();
        let stale = request.on_miss == OnMiss::Stale;
        if let Some(needed) = question.needed.filter(|needed| *needed > place) {
            if !stale {
                return wrong(format!(
                    "an answer at {horizon} lacks the batch at {needed:?}"
                ));
            }
            self.life.world().meet(Mark::MissStale);
        }
        if let Freshness::Within(bound) = request.freshness
            && stamp.staleness > bound
            && !bound.is_zero()
            && !stale
        {
            return wrong(format!(
                "an answer within {bound:?} is {:?} stale",
                stamp.staleness
            ));
        }
        let world = self.life.world();
        match request.freshness {
            Freshness::BestEffort => world.meet(Mark::BestEffort),
            Freshness::Within(bound) if !bound.is_zero() => world.meet(Mark::Bounded),
            Freshness::Within(_) => {}
        }
        if matches!(request.on_miss, OnMiss::Wait(_)) && world.now() > question.since {
            world.meet(Mark::MissWait);
        }
        let left_out = self
            .life
            .run
            .model
            .lock()
            .heard_after(horizon, question.asked_micros);
        if stamp.batches_left_out < left_out {
            return wrong(format!(
                "an answer at {horizon} leaves out {left_out} batches and says {}",
                stamp.batches_left_out
            ));
        }
        if left_out > 0 && !stale && matches!(request.freshness, Freshness::Within(_)) {
            world.meet(Mark::BoundUsed);
        }
        Ok(())
    }

    /// As of a time: the newest boundary whose every batch was acknowledged by then.
    fn check_time(&self, question: &Question, horizon: Horizon, micros: i64) -> Answer<()> {
        let model = self.life.run.model.lock();
        let what = format!("as of {micros} is answered at {horizon}");
        if !horizon.is_boundary() {
            return Err(Trouble::Wrong(format!("{what}, which is no boundary")));
        }
        if let Some(batch) = model.sent_after(horizon, micros) {
            return Err(Trouble::Wrong(format!(
                "{what}, with batch {batch}, sent later"
            )));
        }
        let next = horizon.scu.next();
        let heard = model.heard_all(next).filter(|heard| *heard <= micros);
        if heard.is_some() && next <= question.whole_through {
            return Err(Trouble::Wrong(format!(
                "{what}, though SCU {next} was complete"
            )));
        }
        self.life.world().meet(Mark::AsOfTime);
        Ok(())
    }

    /// Reads a table in one of the ways there are, and compares.
    async fn compare(
        &mut self,
        snapshot: &Snapshot,
        table: usize,
        question: &Question,
    ) -> Answer<()> {
        let asked = compare::Asked {
            since: question.since,
            at: question.request.at,
        };
        let life = Arc::clone(&self.life);
        let way = match self.dice.below(20) {
            0..10 => compare::Way::Scan,
            10..12 => compare::Way::Range,
            12..15 => compare::Way::Point,
            // A transaction writes under the newest definition, and not in the past.
            15..17 if asked.at.is_none() => compare::Way::Own,
            15..17 => compare::Way::Scan,
            17 if life.maps[table].is_some() => compare::Way::Map,
            _ => compare::Way::View,
        };
        compare::compare(&life, &mut self.dice, snapshot, table, way, asked).await
    }
}

/// An answer is as stale as it says, by the moment as of which it is true.
fn check_staleness(
    question: &Question,
    snapshot: &Snapshot,
    answered_micros: i64,
) -> Result<(), String> {
    let stamp = snapshot.stamp();
    let said = i64::try_from(stamp.staleness.as_micros()).unwrap_or(i64::MAX);
    let since = |now: i64| (now - stamp.as_of_micros).max(0);
    let (least, most) = (since(question.asked_micros), since(answered_micros));
    match (least..=most).contains(&said) {
        true => Ok(()),
        false => Err(format!(
            "an answer is said to be {said} microseconds stale, which is not in {least}..={most}; \
             asked: {:?}",
            question.request
        )),
    }
}

/// The ids of tables, and of the key maps that tell what their ID columns stand for.
pub(crate) fn ids_of(life: &Life, tables: &[usize]) -> Vec<TableId> {
    let mut ids: Vec<TableId> = Vec::new();
    for table in tables {
        // It may have been made again.
        let known = life.bind(*table).unwrap_or_else(|_| life.known(*table));
        ids.push(known.table.id);
        let columns = &life.run.story.tables[*table].columns;
        let owners = columns.iter().filter_map(|column| column.kind.owner());
        let maps = owners.filter_map(|owner| life.maps[owner].as_ref());
        ids.extend(maps.map(|map| map.table.id));
    }
    ids.sort();
    ids.dedup();
    ids
}

/// A scan of a whole table.
pub(crate) fn scan_request(table: lazybase_model::TableId, projection: Vec<usize>) -> ScanRequest {
    ScanRequest {
        table,
        projection,
        range: Default::default(),
        buffered: Vec::new(),
        batch_rows: 64,
        parts: 2,
    }
}
