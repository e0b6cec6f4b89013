//! Writers: each sends one batch after the other, with producer numbers or without, and tells the
//! model what it heard. What a writer remembers outlives the database's processes.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use lazybase_cluster::{Acknowledgement, BatchNumber, BatchWriter};
use lazybase_engine::manifest::{Ddl, ProducerMark};
use lazybase_model::{Error, ErrorKind, Horizon};
use parking_lot::Mutex;

use crate::dice::Dice;
use crate::life::{Answer, Life, Trouble};
use crate::marks::Mark;
use crate::model::{Batch, Cell, Change, Fate, OnRow, Row};
use crate::rows::{encode, key_of, ledger_row};
use crate::schema::TableDraw;
use crate::story::WriterDraw;

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

/// How a batch ended.
enum Sent {
    Done(Acknowledgement),
    Failed(Error),
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
            writing.open_session().await;
        }
        let answer = writing.send_next().await;
        if writing.life.report(answer).is_none() {
            writing.life.world().sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Writing {
    async fn open_session(&mut self) {
        let name = self.me.lock().name();
        loop {
            let since = self.life.world().now();
            let opened = self.life.instance.open_producer(&name).await;
            let answer = match opened {
                Ok((epoch, mark)) => {
                    self.epoch = epoch;
                    self.check_mark(mark.as_ref()).map_err(Trouble::from)
                }
                Err(error) => Err(self.life.judge("a producer's session", since, error)),
            };
            if self.life.report(answer).is_some() {
                return;
            }
            self.life.world().sleep(Duration::from_millis(3)).await;
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
                    model.send_again(batch, self.life.instance.now_micros());
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

    /// A new batch, of one to three tables.
    fn draw_batch(&self) -> usize {
        let mut me = self.me.lock();
        let now = self.life.instance.now_micros();
        let tables = &self.life.run.story.tables;
        let mut parts = Vec::new();
        for _ in 0..me.dice.between(1, 2) {
            let table = me.dice.index(tables.len());
            let changes = me.dice.between(1, 6);
            let changes = (0..changes).map(|_| draw_change(&mut me.dice, &tables[table], now));
            parts.push((table, changes.collect()));
        }
        let empties = me.dice.permille(12) && !self.numbered && self.life.run.story.trim.truncates;
        let empties = empties.then(|| me.dice.index(tables.len()));
        self.life.run.model.lock().send(Batch {
            writer: me.number,
            parts,
            empties,
            fate: Fate::Sent,
            place: None,
            sent_micros: now,
            heard_micros: None,
        })
    }

    async fn send(&mut self, batch: usize, again: bool) -> Answer<()> {
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
        let content = self.life.run.model.lock().batch(batch).clone();
        self.life
            .world()
            .note("send", batch as u64, u64::from(again), || {
                format!("batch {batch} of writer {}: {content:?}", content.writer)
            });
        let sending = self.commit(batch, content, number);
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
                self.heard(batch, &done, again, &doubts)
            }
            Sent::Failed(error) => self.failed(batch, since, again, error),
            Sent::Left => {
                self.life.world().meet(Mark::WriterGone);
                self.life
                    .world()
                    .note("left", batch as u64, 0, || format!("batch {batch}"));
                Ok(())
            }
        }
    }

    /// Appends a batch's parts and commits it.
    async fn commit(
        &self,
        batch: usize,
        content: Batch,
        number: Option<BatchNumber>,
    ) -> Answer<Sent> {
        let mut writer = self.life.instance.begin(number);
        if let Err(error) = self.append(&mut writer, batch, &content).await? {
            return Ok(Sent::Failed(error));
        }
        let done = match content.empties {
            None => writer.commit().await.map(Some),
            Some(table) => {
                let table = self.life.tables[table].table.id;
                let ddl = vec![Ddl::Truncate { table }];
                self.life.instance.commit(ddl, Some(writer)).await
            }
        };
        match done {
            Ok(Some(done)) => Ok(Sent::Done(done)),
            Ok(None) => Err(Trouble::Wrong(format!("batch {batch} was taken for empty"))),
            Err(error) => Ok(Sent::Failed(error)),
        }
    }

    async fn append(
        &self,
        writer: &mut BatchWriter,
        batch: usize,
        content: &Batch,
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
            let draw = &self.life.run.story.tables[*table];
            let known = &self.life.tables[*table];
            let changes = encode(draw, known, changes)?;
            if let Err(error) = writer.append(&known.table, changes).await {
                return Ok(Err(error));
            }
        }
        if batch % 2 == 1
            && let Err(error) = writer.append(&ledger.table, row).await
        {
            return Ok(Err(error));
        }
        Ok(Ok(()))
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
        let now = self.life.instance.now_micros();
        let mut me = self.me.lock();
        let mut model = self.life.run.model.lock();
        if done.duplicate && !again {
            return Err(format!("batch {batch} was new, and taken for a duplicate").into());
        }
        model.heard(batch, horizon, now)?;
        model.forget_doubts(doubts);
        if model.batch(batch).empties.is_some() {
            world.meet(Mark::Truncated);
        }
        if self.numbered {
            let place = model.batch(batch).place;
            me.last += 1;
            me.last_place = place;
            me.pending = None;
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

/// A change of a row of a table.
pub(crate) fn draw_change(dice: &mut Dice, table: &TableDraw, now_micros: i64) -> Change {
    let row = draw_row(dice, table, now_micros);
    let key = key_of(table, &row);
    let whole = |on_absent| Change {
        key,
        on_row: OnRow::Replace,
        on_absent,
    };
    let what = match table.ttl {
        Some(_) => dice.below(55),
        None => dice.below(100),
    };
    match what {
        0..40 => whole(Some(row)),
        40..55 => whole(None),
        55..68 => Change {
            key,
            on_row: OnRow::Keep(draw_sets(dice, table, now_micros)),
            on_absent: None,
        },
        68..76 => {
            let sets = draw_sets(dice, table, now_micros);
            let mut cells = row.to_vec();
            for (column, cell, _) in &sets {
                cells[*column] = *cell;
            }
            Change {
                key,
                on_row: OnRow::Keep(sets),
                on_absent: Some(cells.into()),
            }
        }
        76..82 => Change {
            key,
            on_row: OnRow::Keep(Vec::new()),
            on_absent: Some(row),
        },
        82..94 => {
            let columns = table.keys..table.columns.len();
            let sets = columns.map(|at| (at, row[at], table.columns[at].merge.is_some()));
            Change {
                key,
                on_row: OnRow::Keep(sets.collect()),
                on_absent: Some(row),
            }
        }
        _ => Change {
            key,
            on_row: OnRow::Keep(draw_sets(dice, table, now_micros)),
            on_absent: Some(row),
        },
    }
}

/// Some columns with new values, now and then combined where the column has an operator.
fn draw_sets(dice: &mut Dice, table: &TableDraw, now_micros: i64) -> Vec<(usize, Cell, bool)> {
    let mut sets = Vec::new();
    for at in table.keys..table.columns.len() {
        if dice.percent(50) {
            let combine = table.columns[at].merge.is_some() && dice.percent(60);
            sets.push((at, draw_cell(dice, table, at, now_micros), combine));
        }
    }
    sets
}

fn draw_row(dice: &mut Dice, table: &TableDraw, now_micros: i64) -> Row {
    let columns = 0..table.columns.len();
    columns
        .map(|at| draw_cell(dice, table, at, now_micros))
        .collect()
}

fn draw_cell(dice: &mut Dice, table: &TableDraw, at: usize, now_micros: i64) -> Cell {
    if at < table.keys {
        return Some(dice.below(table.key_values[at] as u64) as i64);
    }
    match table.ttl {
        Some((column, micros)) if column == at && !dice.percent(10) => {
            let span = micros as i64 + 1_000_000;
            Some(now_micros - span + dice.below(2 * span as u64) as i64)
        }
        _ => table.columns[at].kind.value(dice),
    }
}
