//! Writers: each sends one batch after the other, with producer numbers or without, and tells the
//! model what it heard. What a writer remembers outlives the database's processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use lazybase_cluster::{Acknowledgement, BatchNumber, BatchWriter};
use lazybase_engine::manifest::{Ddl, ProducerMark, VersionStep};
use lazybase_model::{Error, ErrorKind, Horizon, Table};
use parking_lot::Mutex;

use crate::alter::{Alter, draw_alter};
use crate::dice::Dice;
use crate::life::{Answer, Life, Trouble, which};
use crate::marks::Mark;
use crate::model::{Batch, Change, Fate};
use crate::rows::{Known, ledger_row};
use crate::schema::{Shape, TableDraw};
use crate::story::WriterDraw;

mod change;
mod remake;

pub(crate) use change::draw_change;

/// What a writer remembers.
#[derive(Debug)]
pub(crate) struct Writer {
    number: usize,
    draw: WriterDraw,
    dice: Dice,
    /// The number of its last batch that counts, as a producer.
    last: u64,
    /// Where that batch stands.
    last_place: Option<(u64, u32)>,
    /// A numbered batch that is not known to count: it is sent until it does.
    pending: Option<usize>,
    /// The definitions under which it was sent first: under others it would be another batch.
    bound: Option<Bound>,
    /// Its newest batch that was acknowledged.
    floor: Horizon,
}

impl Writer {
    /// A writer that has sent nothing.
    pub(crate) fn new(seed: u64, number: usize, draw: WriterDraw) -> Writer {
        Writer {
            number,
            draw,
            dice: Dice::of(seed, 100 + number as u64),
            last: 0,
            last_place: None,
            pending: None,
            bound: None,
            floor: Horizon::ZERO,
        }
    }

    /// The newest of its batches that it knows to count: what it shall read.
    pub(crate) fn floor(&self) -> Horizon {
        self.floor
    }

    fn name(&self) -> String {
        format!("writer-{}", self.number)
    }
}

/// A writer at work.
pub(crate) struct Writing {
    life: Arc<Life>,
    me: Arc<Mutex<Writer>>,
    numbered: bool,
    epoch: u64,
}

/// How often a batch is bound again that nobody numbers.
const BOUND_AGAIN_MAX: u32 = 3;

/// The changes of a table in a long batch, at most.
const LONG_BATCH: u64 = 40;
/// How many of them are written at once.
const PIECE: usize = 5;

/// The definitions that a batch was written under: those of the tables that it changes.
type Bound = BTreeMap<usize, Known>;

/// How a batch ended.
enum Sent {
    Done(Acknowledgement),
    Failed(Error),
    /// A table has another definition than what the batch was written under.
    Stale(Error),
    /// Its writer did not wait.
    Left,
}

/// Writes until the life is over.
pub(crate) async fn write(life: Arc<Life>, me: Arc<Mutex<Writer>>) {
    let numbered = me.lock().draw.numbered;
    let mut writing = Writing {
        life,
        me,
        numbered,
        epoch: 0,
    };
    if numbered {
        writing.open_session().await;
    }
    while !writing.life.is_over() {
        let (think, again) = {
            let mut me = writing.me.lock();
            let most = me.draw.think.as_micros() as u64;
            let think = match me.dice.permille(8) {
                true => 700_000 + me.dice.below(400_000),
                false => me.dice.below(most),
            };
            (Duration::from_micros(think), me.dice.permille(15))
        };
        writing.life.world().sleep(think).await;
        if numbered && again {
            let answer = writing.open_session_anew().await;
            writing.life.report(answer);
        }
        let answer = writing.send_next().await;
        if writing.life.report(answer).is_none() {
            writing.life.world().sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Writing {
    /// Opens the producer's session; its mark.
    async fn open_session(&mut self) -> Option<ProducerMark> {
        let name = self.me.lock().name();
        loop {
            let since = self.life.world().now();
            let opened = self.life.instance.open_producer(&name).await;
            let answer = match opened {
                Ok((epoch, mark)) => {
                    self.epoch = epoch;
                    let checked = self.check_mark(mark.as_ref());
                    checked.map(|()| mark).map_err(Trouble::from)
                }
                Err(error) => Err(self.life.judge("a producer's session", since, error)),
            };
            if let Some(mark) = self.life.report(answer) {
                return mark;
            }
            self.life.world().sleep(Duration::from_millis(3)).await;
        }
    }

    /// Opens another session; now and then the one before wakes up after it, with a batch.
    async fn open_session_anew(&mut self) -> Answer<()> {
        let wakes = {
            let mut me = self.me.lock();
            me.dice.percent(50) && me.pending.is_none()
        };
        if !wakes {
            self.open_session().await;
            return Ok(());
        }
        let batch = self.draw_batch();
        // It never counts.
        self.life.run.model.lock().failed(batch, Fate::Gone)?;
        let content = self.life.run.model.lock().batch(batch).clone();
        let bound = self.bind(&content)?;
        let number = {
            let mut me = self.me.lock();
            me.bound = None;
            BatchNumber {
                name: me.name(),
                epoch: self.epoch,
                number: me.last + 1,
            }
        };
        let since = self.life.world().now();
        let mut writer = self.life.instance.begin(Some(number));
        let appended = self.append(&mut writer, batch, &content, &bound).await?;
        self.open_session().await;
        if appended.is_err() {
            return Ok(());
        }
        match writer.commit().await {
            Ok(_) => Err(format!("batch {batch} of a session that was fenced counts").into()),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.life.world().meet(Mark::Fenced);
                Ok(())
            }
            Err(error) => Err(self.life.judge("a fenced session's batch", since, error)),
        }
    }

    /// The mark is the last batch that counts: one that was heard of, or the one that is pending.
    fn check_mark(&self, mark: Option<&ProducerMark>) -> Result<(), String> {
        let me = self.me.lock();
        let model = self.life.run.model.lock();
        let said = mark.map_or(0, |mark| mark.number);
        let at = mark.map(|mark| (mark.scu.0, mark.batches));
        let name = me.name();
        match me.pending {
            Some(batch) if said == me.last + 1 => {
                self.life.world().meet(Mark::ProducerKnown);
                match model.batch(batch).place {
                    Some(place) if at != Some(place) => Err(format!(
                        "{name}: number {said} is said to stand at {at:?}, not at {place:?}"
                    )),
                    _ => Ok(()),
                }
            }
            Some(batch) if model.batch(batch).place.is_some() => Err(format!(
                "{name} is said to have come to number {said}, but batch {batch} counts"
            )),
            _ if said != me.last => Err(format!(
                "{name} is said to have come to number {said}, but it is {}",
                me.last
            )),
            _ if said > 0 && at != me.last_place => Err(format!(
                "{name}: number {said} is said to stand at {at:?}, not at {:?}",
                me.last_place
            )),
            _ => Ok(()),
        }
    }

    async fn send_next(&mut self) -> Answer<()> {
        let pending = self.me.lock().pending;
        let batch = match pending {
            Some(batch) => {
                let mut model = self.life.run.model.lock();
                if model.batch(batch).place.is_none() {
                    model.send_again(batch, self.life.clock_micros());
                }
                batch
            }
            None => self.draw_batch(),
        };
        if self.numbered {
            self.me.lock().pending = Some(batch);
        }
        self.send(batch, pending.is_some()).await
    }

    /// A new batch: of the ledger alone, or of other tables too.
    fn draw_batch(&self) -> usize {
        let mut me = self.me.lock();
        let now = self.life.clock_micros();
        let tables = &self.life.run.story.tables;
        let shape = self.life.run.story.shape;
        let mut parts = Vec::new();
        let count = match shape {
            Shape::Plain => *me.dice.weigh(&[(2, 0), (7, 1), (1, 2)]),
            Shape::Rich => me.dice.between(1, 2),
        };
        for _ in 0..count {
            let table = me.dice.index(tables.len());
            let long = self.life.run.story.long_batches && me.dice.percent(25);
            let most = if long { LONG_BATCH } else { shape.pick(3, 6) };
            let changes = me.dice.between(1, most);
            let changes = (0..changes).map(|_| draw_change(&mut me.dice, &tables[table], now));
            parts.push((table, changes.collect::<Vec<Change>>()));
        }
        let given = self.draw_given(&mut me.dice, &parts);
        let actions = self.life.run.story.actions;
        let empties = me.dice.permille(actions.empties)
            && !self.numbered
            && self.life.run.story.trim.truncates;
        let empties = empties.then(|| me.dice.index(tables.len()));
        let replaces = match empties {
            Some(_) => None,
            None => self.draw_replaced(&mut me.dice),
        };
        let may_alter = self.life.run.story.trim.schema.alters && !self.numbered;
        let alters = may_alter && empties.is_none() && me.dice.permille(actions.alters);
        let alters = match (alters, replaces) {
            (true, _) => self.draw_alter(&mut me.dice, &mut parts),
            (false, Some((table, _))) if may_alter && me.dice.percent(30) => {
                self.draw_alter_of(&mut me.dice, table)
            }
            (false, _) => None,
        };
        let is_plain = empties.is_none() && replaces.is_none() && alters.is_none();
        let remakes = match is_plain {
            true => self.draw_remade(&mut me.dice, &mut parts, now),
            false => None,
        };
        self.life.run.model.lock().send(Batch {
            writer: me.number,
            parts,
            empties,
            replaces,
            remakes,
            alters,
            given,
            fate: Fate::Sent,
            place: None,
            sent_micros: now,
            heard_micros: None,
        })
    }

    /// Numbers that are known, in place of some of the keys: what a query told is written again.
    fn draw_given(
        &self,
        dice: &mut Dice,
        parts: &[(usize, Vec<Change>)],
    ) -> BTreeMap<(usize, i64), i64> {
        let tables = &self.life.run.story.tables;
        let mut given = BTreeMap::new();
        for (table, changes) in parts {
            let columns = tables[*table].columns.iter().enumerate();
            let ids = columns.filter_map(|(at, column)| Some((at, column.kind.owner()?)));
            for (at, owner) in ids.filter(|(_, owner)| owner != table) {
                for row in changes
                    .iter()
                    .filter_map(|change| change.on_absent.as_ref())
                {
                    let Some(code) = row[at].filter(|_| dice.percent(15)) else {
                        continue;
                    };
                    let number = self.life.run.names.lock().id(owner, code);
                    given.extend(number.map(|number| ((owner, code), number)));
                }
            }
        }
        given
    }

    /// A range partition that the batch replaces, and fills with its rows: a table, and the place
    /// of the partition.
    fn draw_replaced(&self, dice: &mut Dice) -> Option<(usize, usize)> {
        let story = &self.life.run.story;
        if self.numbered || !story.trim.replaces || story.actions.replaces == 0 {
            return None;
        }
        let tables = story.tables.iter().map(TableDraw::parts).enumerate();
        let ranged: Vec<(usize, usize)> = tables.filter(|(_, parts)| *parts > 0).collect();
        if ranged.is_empty() || !dice.permille(story.actions.replaces) {
            return None;
        }
        let (table, parts) = *dice.pick(&ranged);
        Some((table, dice.index(parts)))
    }

    /// A change of a definition, beside a batch that is empty now and then.
    fn draw_alter(
        &self,
        dice: &mut Dice,
        parts: &mut Vec<(usize, Vec<Change>)>,
    ) -> Option<(usize, Alter)> {
        let table = dice.index(self.life.run.story.tables.len());
        if dice.percent(30) {
            parts.clear();
        }
        self.draw_alter_of(dice, table)
    }

    fn draw_alter_of(&self, dice: &mut Dice, table: usize) -> Option<(usize, Alter)> {
        let draw = &self.life.run.story.tables[table];
        let known = self.life.bind(table).ok()?;
        let mut gone = self.life.run.gone.lock();
        let gone = gone.entry(table).or_default();
        let number = dice.below(1_000_000) as usize;
        let alter = draw_alter(dice, draw, &known.version, gone, number);
        if let Alter::Drop(column) = alter {
            gone.insert(column);
        }
        Some((table, alter))
    }

    /// The definitions of a batch's tables: those that it was sent under before, or the newest.
    fn bind(&self, content: &Batch) -> Answer<Bound> {
        let before = self.me.lock().bound.clone();
        if let Some(bound) = before {
            return Ok(bound);
        }
        let altered = content.alters.iter().map(|(table, _)| table);
        let replaced = content.replaces.iter().map(|(table, _)| table);
        let emptied = content.empties.iter().chain(&content.remakes);
        let tables = content.parts.iter().map(|(table, _)| table);
        let tables = tables.chain(altered).chain(replaced).chain(emptied);
        let bound = tables.map(|table| Ok((*table, self.life.bind(*table)?)));
        let bound = bound.collect::<Result<Bound, String>>()?;
        if self.numbered {
            self.me.lock().bound = Some(bound.clone());
        }
        Ok(bound)
    }

    /// Sends a batch, and again under newer definitions if a table changed meanwhile.
    async fn send(&mut self, batch: usize, again: bool) -> Answer<()> {
        let mut rounds = 0;
        loop {
            let content = self.life.run.model.lock().batch(batch).clone();
            let bound = self.bind(&content)?;
            let sent = self.send_bound(batch, again, &content, &bound).await?;
            let Some(error) = sent else {
                return Ok(());
            };
            self.check_stale(&bound, &error)?;
            let world = self.life.world();
            world.meet(Mark::Stale);
            world.note("stale", batch as u64, 0, || {
                format!("batch {batch}: {error}")
            });
            if again {
                return self.ask_again(batch).await;
            }
            self.me.lock().bound = None;
            self.life.run.model.lock().failed(batch, Fate::Gone)?;
            rounds += 1;
            if content.alters.is_some() || rounds > BOUND_AGAIN_MAX && !self.numbered {
                return Ok(());
            }
            world.meet(Mark::BoundAgain);
            let now = self.life.clock_micros();
            self.life.run.model.lock().send_again(batch, now);
        }
    }

    /// A batch is refused for its definitions only if one of them is no longer in force.
    fn check_stale(&self, bound: &Bound, error: &Error) -> Result<(), String> {
        for (table, known) in bound {
            if which(&self.life.bind(*table)?.table) != which(&known.table) {
                return Ok(());
            }
        }
        Err(format!("refused, though no table has changed: {error:?}"))
    }

    /// A numbered batch in doubt can't be sent again as it was: its producer's session tells
    /// whether it counts.
    async fn ask_again(&mut self, batch: usize) -> Answer<()> {
        let mark = self.open_session().await;
        let counts = mark.filter(|mark| mark.number == self.me.lock().last + 1);
        let mut me = self.me.lock();
        let mut model = self.life.run.model.lock();
        me.bound = None;
        match counts {
            None => Ok(model.failed(batch, Fate::Gone)?),
            Some(mark) => {
                self.life.world().meet(Mark::MarkTold);
                let horizon = Horizon::inside(mark.scu, mark.batches);
                model.heard(batch, horizon, self.life.clock_micros())?;
                me.last += 1;
                me.last_place = model.batch(batch).place;
                me.pending = None;
                me.floor = me.floor.max(horizon);
                Ok(())
            }
        }
    }

    /// The error, if a table had changed.
    async fn send_bound(
        &mut self,
        batch: usize,
        again: bool,
        content: &Batch,
        bound: &Bound,
    ) -> Answer<Option<Error>> {
        let since = self.life.world().now();
        let (number, patience) = {
            let mut me = self.me.lock();
            let number = self.numbered.then(|| BatchNumber {
                name: me.name(),
                epoch: self.epoch,
                number: me.last + 1,
            });
            let leaves = me.dice.permille(25);
            let patience = leaves.then(|| Duration::from_micros(me.dice.below(2_000)));
            (number, patience)
        };
        let (doubts, failures) = {
            let model = self.life.run.model.lock();
            (model.doubts(), self.life.store.log_failures())
        };
        self.life
            .world()
            .note("send", batch as u64, u64::from(again), || {
                format!("batch {batch} of writer {}: {content:?}", content.writer)
            });
        let sending = self.commit(batch, content, bound, number);
        futures::pin_mut!(sending);
        let sent = match patience {
            None => sending.await,
            Some(patience) => {
                let leaving = self.life.world().sleep(patience);
                futures::pin_mut!(leaving);
                match select(sending, leaving).await {
                    Either::Left((sent, _)) => sent,
                    Either::Right(_) => Ok(Sent::Left),
                }
            }
        };
        match sent? {
            Sent::Done(done) => {
                if self.life.store.log_failures() > failures {
                    self.life.world().meet(Mark::GroupMoved);
                }
                self.heard(batch, &done, again, &doubts)?;
                Ok(None)
            }
            Sent::Stale(error) => Ok(Some(error)),
            Sent::Failed(error) => self.failed(batch, since, again, error).map(|()| None),
            Sent::Left => {
                self.life.world().meet(Mark::WriterGone);
                self.life
                    .world()
                    .note("left", batch as u64, 0, || format!("batch {batch}"));
                Ok(None)
            }
        }
    }

    /// Appends a batch's parts and commits it.
    async fn commit(
        &self,
        batch: usize,
        content: &Batch,
        bound: &Bound,
        number: Option<BatchNumber>,
    ) -> Answer<Sent> {
        let mut bound = bound.clone();
        let mut ddl = Vec::new();
        if let Some(table) = content.empties {
            let table = bound[&table].table.id;
            ddl.push(Ddl::Truncate { table });
        }
        if let Some((table, part)) = content.replaces {
            let next = self.replace(part, table, &bound[&table].table, &mut ddl)?;
            bound.insert(table, next);
        }
        if let Some(table) = content.remakes {
            let next = self.remake(batch, table, bound[&table].table.id, &mut ddl)?;
            bound.insert(table, next);
        }
        if let Some((table, alter)) = content.alters {
            let draw = &self.life.run.story.tables[table];
            let before = &bound[&table];
            let asked = alter.asked(draw, &before.version, &before.table)?;
            let next = self
                .life
                .instance
                .define_alteration(&before.table, &[asked]);
            let next = next.map_err(|error| format!("{alter:?} is refused: {error:?}"))?;
            ddl.push(Ddl::Alter {
                base: before.table.version,
                table: next.as_ref().clone(),
            });
            bound.insert(table, Known::of(next, draw)?);
        }
        let mut writer = self.life.instance.begin(number);
        if let Err(error) = self.append(&mut writer, batch, content, &bound).await? {
            return Ok(sent_badly(error));
        }
        let thinks = self.me.lock().dice.permille(40);
        if thinks {
            let think = self.me.lock().dice.below(15_000);
            self.life.world().sleep(Duration::from_micros(think)).await;
        }
        let done = match ddl.is_empty() {
            true => writer.commit().await.map(Some),
            false => self.life.instance.commit(ddl, Some(writer)).await,
        };
        match done {
            Ok(Some(done)) => Ok(Sent::Done(done)),
            Ok(None) => Err(Trouble::Wrong(format!("batch {batch} was taken for empty"))),
            Err(error) => Ok(sent_badly(error)),
        }
    }

    /// Drops a range partition and adds it again: the table after both.
    fn replace(
        &self,
        part: usize,
        table: usize,
        before: &Table,
        ddl: &mut Vec<Ddl>,
    ) -> Answer<Known> {
        let draw = &self.life.run.story.tables[table];
        let mut next = before.clone();
        for change in draw.replaced(part, before)? {
            let base = next.version;
            let changed = self.life.instance.repartition(&next, &change);
            let changed = changed.map_err(|error| format!("{change:?} is refused: {error:?}"))?;
            next = changed.table;
            ddl.push(Ddl::Partition {
                table: next.id,
                change,
                versions: Some(VersionStep {
                    base,
                    next: next.version,
                }),
            });
        }
        Ok(Known::of(Arc::new(next), draw)?)
    }

    async fn append(
        &self,
        writer: &mut BatchWriter,
        batch: usize,
        content: &Batch,
        bound: &Bound,
    ) -> Answer<Result<(), Error>> {
        let ledger = &self.life.ledger;
        let row = ledger_row(ledger, batch)?;
        // The row of the ledger comes first or last, by the batch's number.
        if batch.is_multiple_of(2)
            && let Err(error) = writer.append(&ledger.table, row.clone()).await
        {
            return Ok(Err(error));
        }
        for (table, changes) in &content.parts {
            let known = &bound[table];
            let naming = self.life.naming();
            let long = self.life.run.story.long_batches;
            let rows = if long { PIECE } else { changes.len().max(1) };
            for piece in changes.chunks(rows) {
                let changes = naming.encode(*table, known, piece, &content.given)?;
                if let Err(error) = writer.append_keyed(&known.table, changes).await {
                    return Ok(Err(error));
                }
                if long {
                    self.think_between_pieces().await;
                }
            }
        }
        if batch % 2 == 1
            && let Err(error) = writer.append(&ledger.table, row).await
        {
            return Ok(Err(error));
        }
        Ok(Ok(()))
    }

    /// Meanwhile others commit, and what was written of the batch comes to stand before them.
    async fn think_between_pieces(&self) {
        let think = {
            let mut me = self.me.lock();
            let thinks = me.dice.percent(40);
            thinks.then(|| Duration::from_micros(me.dice.below(6_000)))
        };
        if let Some(think) = think {
            self.life.world().sleep(think).await;
        }
    }

    fn heard(
        &self,
        batch: usize,
        done: &Acknowledgement,
        again: bool,
        doubts: &[usize],
    ) -> Answer<()> {
        let horizon = done.token.horizon;
        let world = self.life.world();
        world.note("heard", batch as u64, horizon.scu.0, || {
            format!("batch {batch} at {horizon}, duplicate: {}", done.duplicate)
        });
        let now = self.life.clock_micros();
        let mut me = self.me.lock();
        let mut model = self.life.run.model.lock();
        if done.duplicate && !again {
            return Err(format!("batch {batch} was new, and taken for a duplicate").into());
        }
        model.heard(batch, horizon, now)?;
        // What counted before says nothing of the log after it.
        if !done.duplicate {
            model.forget_doubts(doubts);
        }
        if model.batch(batch).empties.is_some() {
            world.meet(Mark::Truncated);
        }
        if model.batch(batch).remakes.is_some() {
            world.meet(Mark::TableRemade);
        }
        if let Some((replaced, _)) = model.batch(batch).replaces {
            world.meet(Mark::PartitionReplaced);
            let altered = model.batch(batch).alters;
            if altered.is_some_and(|(altered, _)| altered == replaced) {
                world.meet(Mark::PartitionAltered);
            }
        }
        match model.batch(batch).alters {
            None => {}
            Some((_, Alter::Add(_))) => world.meet(Mark::ColumnAdded),
            Some((_, Alter::Drop(_))) => world.meet(Mark::ColumnDropped),
            Some((_, Alter::Rename(..))) => world.meet(Mark::ColumnRenamed),
            Some((_, Alter::Widen(_))) => world.meet(Mark::ColumnWidened),
            Some((_, Alter::Comment(_))) => world.meet(Mark::Commented),
        }
        if self.numbered {
            let place = model.batch(batch).place;
            me.last += 1;
            me.last_place = place;
            me.pending = None;
            me.bound = None;
            match (done.duplicate, again) {
                (true, _) => world.meet(Mark::Duplicate),
                (false, true) => world.meet(Mark::SentAgain),
                (false, false) => {}
            }
        }
        me.floor = me.floor.max(horizon);
        drop(model);
        drop(me);
        self.life.answered(|tally| tally.batches += 1);
        Ok(())
    }

    fn failed(&self, batch: usize, since: Duration, again: bool, error: Error) -> Answer<()> {
        let world = self.life.world();
        world.note("failed", batch as u64, 0, || {
            format!("batch {batch}: {error}")
        });
        let in_doubt = error.kind() == ErrorKind::MaybeHappened;
        let fate = match in_doubt {
            true => Fate::InDoubt {
                life: self.life.number,
            },
            false => Fate::Gone,
        };
        let trouble = self.life.judge("a commit", since, error);
        if let Trouble::Excused(_) = trouble {
            world.meet(match in_doubt {
                true => Mark::CommitInDoubt,
                false => Mark::CommitRefused,
            });
            if in_doubt {
                self.life.hasten(batch);
            }
            let mut model = self.life.run.model.lock();
            // What was sent before may count all the same.
            if !again {
                model.failed(batch, fate)?;
            }
        }
        Err(trouble)
    }
}

fn sent_badly(error: Error) -> Sent {
    let is_stale = match error.kind() {
        ErrorKind::Conflict => error.sqlstate() == "40001",
        // A table of the batch was made again, under another id.
        ErrorKind::NotFound => error.sqlstate() == "42P01",
        _ => false,
    };
    match is_stale {
        true => Sent::Stale(error),
        false => Sent::Failed(error),
    }
}
