//! The naive model: a map for each table, and a list of batches applied to it one by one.
//!
//! Reads what writers sent and heard, and what the ledger shows; tells the exact rows at any
//! horizon. It knows nothing of stages, runs or files.
//!
//! ```text
//!   begun -> sent --heard--> placed          (its place in the order of batches is known)
//!              |---in doubt--> placed | gone (the ledger tells, at the latest after a restart)
//!              \---refused---> gone          (or sent again, if its writer numbers its batches)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_engine::manifest::ScuTime;
use lazybase_model::{Horizon, MergeOperator, ScuNumber};

use crate::alter::{Alter, adapted};
use crate::marks::{Mark, Marks};
use crate::rows::agrees;
use crate::schema::{ColumnDraw, TableDraw, Version, key_of_code};

/// A cell: a number, or NULL.
pub type Cell = Option<i64>;
/// A row, key columns first.
pub type Row = Arc<[Cell]>;
/// A key; the second number is 0 where there is one column.
pub type Key = [i64; 2];
/// What a table holds.
pub type Rows = BTreeMap<Key, Row>;
/// What all tables hold.
pub type State = Vec<Held>;
/// A place in the order of batches: SCU, and position in it from 1 on.
pub type Place = (u64, u32);

/// What a table holds.
#[derive(Debug, Clone)]
pub struct Held {
    /// Its rows.
    pub rows: Arc<Rows>,
    /// Of one that owns an ID: the natural keys that have a number, for ever.
    pub known: Arc<BTreeSet<i64>>,
    /// Its columns.
    pub version: Arc<Version>,
    /// The batch that it was made again with.
    pub made: Option<usize>,
}

/// What a change does to a row that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnRow {
    /// It is forgotten.
    Replace,
    /// These columns get a value, by their operator where the last field says so.
    Keep(Vec<(usize, Cell, bool)>),
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// What becomes of a row.
    pub on_row: OnRow,
    /// What becomes of no row.
    pub on_absent: Option<Row>,
}

/// What is known of a batch beside its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its writer waits for an answer, or has stopped waiting.
    Sent,
    /// It ended in doubt, in this life of the database.
    InDoubt {
        /// Which life.
        life: u32,
    },
    /// It is not there, and never will be unless it is sent again.
    Gone,
}

/// A batch.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Who wrote it.
    pub writer: usize,
    /// What it changes.
    pub parts: Vec<(usize, Vec<Change>)>,
    /// The table that is emptied right before it.
    pub empties: Option<usize>,
    /// The range partition that is dropped right before it, and added again: its table, and its
    /// place among those.
    pub replaces: Option<(usize, usize)>,
    /// The table that is dropped right before it, and made again.
    pub remakes: Option<usize>,
    /// The table whose definition changes right before it, and how.
    pub alters: Option<(usize, Alter)>,
    /// References that are written as these numbers, by owner and natural key.
    pub given: BTreeMap<(usize, i64), i64>,
    /// What is known of it.
    pub fate: Fate,
    /// Where it stands.
    pub place: Option<Place>,
    /// The least that the database's clock said when it was sent.
    pub sent_micros: i64,
    /// The database's clock when its writer heard that it counts.
    pub heard_micros: Option<i64>,
}

/// The database as it should be.
#[derive(Debug)]
pub struct Model {
    tables: Vec<TableDraw>,
    batches: Vec<Batch>,
    /// The batches whose place is known.
    order: BTreeMap<Place, usize>,
    /// How many batches of an SCU there are, once no more can come.
    closed: BTreeMap<u64, u32>,
    /// All batches up to an SCU's end, as the manifest says.
    through: BTreeMap<u64, u64>,
    /// All batches before this place are known: an SCU, and how many of it.
    certain: Place,
    /// The certain batches, in order.
    sequence: Vec<(Place, usize)>,
    /// What the tables hold after so many certain batches.
    states: Vec<State>,
    /// The greatest horizon that a ledger showed.
    shown: Horizon,
    met: Marks,
}

/// The result of looking at the model: an error is a violation.
pub type Seen<T> = Result<T, String>;

impl Model {
    /// Empty tables.
    pub fn new(tables: Vec<TableDraw>) -> Model {
        let empty = tables.iter().map(|table| Held {
            rows: Arc::default(),
            known: Arc::default(),
            version: Arc::new(table.first_version()),
            made: None,
        });
        let empty = empty.collect();
        Model {
            tables,
            batches: Vec::new(),
            order: BTreeMap::new(),
            closed: BTreeMap::new(),
            through: BTreeMap::from([(0, 0)]),
            certain: (1, 0),
            sequence: Vec::new(),
            states: vec![empty],
            shown: Horizon::ZERO,
            met: Marks::default(),
        }
    }

    /// A batch is about to be sent: its number.
    pub fn send(&mut self, batch: Batch) -> usize {
        self.batches.push(batch);
        self.batches.len() - 1
    }

    /// A batch that did not count is sent again. The clock may have gone back at a restart.
    pub fn send_again(&mut self, batch: usize, now_micros: i64) {
        let batch = &mut self.batches[batch];
        batch.fate = Fate::Sent;
        batch.sent_micros = batch.sent_micros.min(now_micros);
    }

    /// A batch.
    pub fn batch(&self, batch: usize) -> &Batch {
        &self.batches[batch]
    }

    /// How many batches have a place.
    pub fn placed(&self) -> usize {
        self.order.len()
    }

    /// A batch did not count.
    pub fn failed(&mut self, batch: usize, fate: Fate) -> Seen<()> {
        let place = self.batches[batch].place;
        if let (Some((scu, position)), Fate::Gone) = (place, fate) {
            return Err(format!(
                "batch {batch} was refused for certain, but stands at {scu}+{position}"
            ));
        }
        self.batches[batch].fate = fate;
        Ok(())
    }

    /// A batch was acknowledged.
    pub fn heard(&mut self, batch: usize, horizon: Horizon, now_micros: i64) -> Seen<()> {
        if horizon.is_boundary() || horizon.batches.0 == 0 {
            return Err(format!(
                "batch {batch} was acknowledged at horizon {horizon}"
            ));
        }
        let place = (horizon.scu.0, horizon.batches.0);
        if self.batches[batch].place.is_none() && horizon <= self.shown {
            return Err(format!(
                "batch {batch} was acknowledged at {horizon}, but answers to {} lacked it",
                self.shown
            ));
        }
        self.place(batch, place)?;
        self.batches[batch].heard_micros.get_or_insert(now_micros);
        Ok(())
    }

    /// Batches in doubt are not there once a later one is acknowledged, which was sent after they
    /// had failed.
    pub fn forget_doubts(&mut self, doubts: &[usize]) {
        for doubt in doubts {
            let batch = &mut self.batches[*doubt];
            if batch.place.is_none() && matches!(batch.fate, Fate::InDoubt { .. }) {
                batch.fate = Fate::Gone;
            }
        }
    }

    /// The batches in doubt.
    pub fn doubts(&self) -> Vec<usize> {
        let batches = self.batches.iter().enumerate();
        let doubts = batches.filter(|(_, batch)| {
            batch.place.is_none() && matches!(batch.fate, Fate::InDoubt { .. })
        });
        doubts.map(|(batch, _)| batch).collect()
    }

    fn place(&mut self, batch: usize, place: Place) -> Seen<()> {
        let (scu, position) = place;
        if let Some(known) = self.batches[batch].place {
            return match known == place {
                true => Ok(()),
                false => Err(format!(
                    "batch {batch} stands at {}+{} and at {scu}+{position}",
                    known.0, known.1
                )),
            };
        }
        if let Some(other) = self.order.get(&place) {
            return Err(format!(
                "batches {other} and {batch} both stand at {scu}+{position}"
            ));
        }
        if place < self.certain || self.closed.get(&scu).is_some_and(|count| *count < position) {
            return Err(format!(
                "batch {batch} came to stand at {scu}+{position}, where there was none"
            ));
        }
        self.order.insert(place, batch);
        self.batches[batch].place = Some(place);
        Ok(())
    }

    /// The ledger's rows at a horizon, in order: SCU, row in it, number of the batch.
    pub fn learn(&mut self, rows: &[(u64, u64, i64)], horizon: Horizon, life: u32) -> Seen<()> {
        let mut next = (0, 0);
        for (scu, row, number) in rows {
            let place = (*scu, *row as u32 + 1);
            next = match next.0 == *scu {
                true => (*scu, next.1 + 1),
                false => (*scu, 1),
            };
            if place != next {
                return Err(format!(
                    "the ledger shows row {place:?} where {next:?} should be"
                ));
            }
            self.learn_one(place, *number, life)?;
        }
        let end = match horizon.is_boundary() {
            true => (horizon.scu.0, u32::MAX),
            false => (horizon.scu.0, horizon.batches.0),
        };
        let shown: std::collections::BTreeSet<i64> = rows.iter().map(|row| row.2).collect();
        if shown.len() != rows.len() {
            return Err(format!("the ledger at {horizon} shows a batch twice"));
        }
        if next > end {
            return Err(format!("the ledger at {horizon} shows row {next:?}"));
        }
        let lost = self
            .order
            .range(..=end)
            .find(|(_, batch)| !shown.contains(&(**batch as i64)));
        if let Some((place, batch)) = lost {
            return Err(format!(
                "batch {batch}, which stands at {}+{}, is lost from the ledger at {horizon}",
                place.0, place.1
            ));
        }
        if !horizon.is_boundary() && self.order.range((end.0, 1)..=end).count() != end.1 as usize {
            return Err(format!("the ledger at {horizon} has too few rows"));
        }
        for scu in 1..horizon.scu.0 + u64::from(horizon.is_boundary()) {
            let count = self.order.range((scu, 0)..=(scu, u32::MAX)).count() as u32;
            self.close(scu, count)?;
        }
        self.shown = self.shown.max(horizon);
        self.extend()
    }

    fn learn_one(&mut self, place: Place, number: i64, life: u32) -> Seen<()> {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(batch) = self.batches.get(number) else {
            return Err(format!(
                "the ledger shows batch {number}, which was never sent"
            ));
        };
        if batch.place.is_none() {
            match batch.fate {
                Fate::Sent => {}
                Fate::InDoubt { life: then } if then < life => {}
                Fate::InDoubt { .. } => {
                    return Err(format!(
                        "batch {number} ended in doubt, and was read all the same"
                    ));
                }
                Fate::Gone => {
                    return Err(format!("batch {number} was not there, and is now"));
                }
            }
        }
        self.place(number, place)
    }

    fn close(&mut self, scu: u64, count: u32) -> Seen<()> {
        match self.closed.insert(scu, count) {
            Some(before) if before != count => Err(format!(
                "SCU {scu} had {before} batches, and has {count} now"
            )),
            _ => Ok(()),
        }
    }

    /// What a manifest says of its SCUs.
    pub fn see_times(&mut self, times: &BTreeMap<ScuNumber, ScuTime>) -> Seen<()> {
        for (scu, time) in times.range(ScuNumber(self.certain.0)..) {
            let through = time.batches_through;
            if *self.through.entry(scu.0).or_insert(through) != through {
                return Err(format!(
                    "the count of batches to the end of SCU {scu} changed"
                ));
            }
        }
        self.extend()
    }

    /// Goes on through batches whose places are known, and the ends of SCUs.
    fn extend(&mut self) -> Seen<()> {
        loop {
            let (scu, known) = self.certain;
            let next = (scu, known + 1);
            if let Some(batch) = self.order.get(&next) {
                let batch = *batch;
                self.sequence.push((next, batch));
                self.certain = next;
                continue;
            }
            let through = |scu: u64| self.through.get(&scu).copied();
            let counted = match (scu.checked_sub(1).and_then(through), through(scu)) {
                (Some(before), Some(through)) => Some(through.saturating_sub(before)),
                _ => None,
            };
            let count = self
                .closed
                .get(&scu)
                .map(|count| u64::from(*count))
                .or(counted);
            match count {
                Some(count) if count < u64::from(known) => {
                    return Err(format!(
                        "SCU {scu} has {count} batches, but {known} are known"
                    ));
                }
                Some(count) if count == u64::from(known) => {
                    if self
                        .order
                        .range((scu, known + 1)..(scu + 1, 0))
                        .next()
                        .is_some()
                    {
                        return Err(format!("SCU {scu} has batches after its end"));
                    }
                    self.closed.insert(scu, known);
                    let before = scu.checked_sub(1).and_then(through);
                    if let Some(before) = before {
                        self.through.entry(scu).or_insert(before + u64::from(known));
                    }
                    self.certain = (scu + 1, 0);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Whether every batch up to a horizon is known.
    pub fn knows(&self, horizon: Horizon) -> bool {
        match horizon.is_boundary() {
            true => self.certain.0 > horizon.scu.0,
            false => (horizon.scu.0, horizon.batches.0) <= self.certain,
        }
    }

    /// How many batches lie up to a horizon that is known.
    pub fn count_to(&self, horizon: Horizon) -> usize {
        let end = (horizon.scu.0, horizon.batches.0);
        self.sequence.partition_point(|(place, _)| *place <= end)
    }

    /// What a table holds after so many batches.
    pub fn held_after(&mut self, count: usize, table: usize) -> Held {
        while self.states.len() <= count {
            let number = self.sequence[self.states.len() - 1].1;
            let batch = &self.batches[number];
            let mut state = self.states[self.states.len() - 1].clone();
            if let Some(emptied) = batch.empties {
                state[emptied].rows = Arc::default();
            }
            if let Some((cut, part)) = batch.replaces {
                let rows = Arc::make_mut(&mut state[cut].rows);
                rows.retain(|key, _| !self.tables[cut].is_in(part, *key));
            }
            if let Some(remade) = batch.remakes {
                let held = &mut state[remade];
                held.rows = Arc::default();
                held.version = Arc::new(self.tables[remade].first_version());
                held.made = Some(number);
            }
            if let Some((altered, alter)) = batch.alters {
                let (held, draw) = (&mut state[altered], &self.tables[altered]);
                let next = alter.version(draw, &held.version);
                held.rows = adapted(&held.rows, draw, &held.version, &next);
                held.version = Arc::new(next);
            }
            self.met.add(&mention(&mut state, &self.tables, batch));
            for (table, changes) in &batch.parts {
                let draw = &self.tables[*table];
                let Held { rows, version, .. } = &mut state[*table];
                let rows = Arc::make_mut(rows);
                let changes = changes.iter();
                changes.for_each(|change| apply(rows, draw, version, change));
            }
            self.states.push(state);
        }
        self.states[count][table].clone()
    }

    /// Whether a batch lies after a horizon, as far as its place is known.
    pub fn is_after(&self, batch: usize, horizon: Horizon) -> bool {
        let end = (horizon.scu.0, horizon.batches.0);
        let place = self.batches[batch].place;
        place.is_none_or(|place| place > end)
    }

    /// The marks that batches met in their places.
    pub fn marks(&self) -> &Marks {
        &self.met
    }

    /// The table that the batch right after these empties, or of which it replaces a range
    /// partition, and the SCU that the batch begins.
    pub fn emptied_after(&self, count: usize) -> Option<(ScuNumber, usize, Option<usize>)> {
        let (place, next) = self.sequence.get(count)?;
        let next = &self.batches[*next];
        let replaced = next.replaces.map(|(table, part)| (table, Some(part)));
        let (table, part) = next.empties.map(|table| (table, None)).or(replaced)?;
        Some((ScuNumber(place.0), table, part))
    }

    /// The table whose definition the batch right after these changes, how, and the SCU that the
    /// batch begins.
    pub fn altered_after(&self, count: usize) -> Option<(ScuNumber, usize, Alter)> {
        let (place, next) = self.sequence.get(count)?;
        let (table, alter) = self.batches[*next].alters?;
        Some((ScuNumber(place.0), table, alter))
    }

    fn is_heard_before(&self, batch: usize, micros: i64) -> bool {
        let heard = self.batches[batch].heard_micros;
        heard.is_some_and(|heard| heard < micros)
    }

    /// The latest time at which a batch was sent that was heard of.
    pub fn last_acknowledged(&self) -> Option<i64> {
        let heard = self
            .batches
            .iter()
            .filter(|batch| batch.heard_micros.is_some());
        heard.map(|batch| batch.sent_micros).max()
    }

    /// The least and the greatest time that an answer at a horizon can be true as of, which was
    /// asked for at `asked_micros`: when the first batch after it was written, which is after it
    /// was sent, and before it was heard of; or when it was answered.
    pub fn as_of_between(&self, horizon: Horizon, asked_micros: i64) -> (i64, i64) {
        let end = (horizon.scu.0, horizon.batches.0);
        let is_later = |batch: &&Batch| match batch.place {
            Some(place) => place > end,
            None => batch.fate != Fate::Gone,
        };
        let (mut least, mut most) = (asked_micros, i64::MAX);
        for batch in self.batches.iter().filter(is_later) {
            least = least.min(batch.sent_micros);
            most = most.min(batch.heard_micros.unwrap_or(i64::MAX));
        }
        (least, most)
    }

    /// When the last batch up to a horizon was sent.
    pub fn last_sent_to(&self, horizon: Horizon) -> Option<i64> {
        let end = (horizon.scu.0, horizon.batches.0);
        let (_, last) = self.order.range(..=end).next_back()?;
        Some(self.batches[*last].sent_micros)
    }

    /// The last place of a batch that was heard of before `micros`.
    pub fn last_heard_before(&self, micros: i64) -> Option<Place> {
        let mut last = self.order.iter().rev();
        let last = last.find(|(_, batch)| self.is_heard_before(**batch, micros));
        last.map(|(place, _)| *place)
    }

    /// How many batches after a horizon were heard of before `micros`.
    pub fn heard_after(&self, horizon: Horizon, micros: i64) -> u64 {
        let end = (horizon.scu.0, horizon.batches.0);
        let mut later = self.order.range(end..);
        if self.order.contains_key(&end) {
            later.next();
        }
        later
            .filter(|(_, batch)| self.is_heard_before(**batch, micros))
            .count() as u64
    }

    /// When the last of an SCU's batches was sent.
    pub fn last_sent(&self, scu: ScuNumber) -> Option<i64> {
        let batches = self.order.range((scu.0, 0)..=(scu.0, u32::MAX));
        batches
            .map(|(_, batch)| self.batches[*batch].sent_micros)
            .max()
    }

    /// The first batch up to a horizon that was sent only after `micros`.
    pub fn sent_after(&self, horizon: Horizon, micros: i64) -> Option<usize> {
        let end = (horizon.scu.0, horizon.batches.0);
        let mut earlier = self.order.range(..=end).map(|(_, batch)| *batch);
        earlier.find(|batch| self.batches[*batch].sent_micros > micros)
    }

    /// The last SCU that is known whole.
    pub fn whole_through(&self) -> ScuNumber {
        ScuNumber(self.certain.0 - 1)
    }

    /// When the last batch of an SCU was heard of, if each of them was.
    pub fn heard_all(&self, scu: ScuNumber) -> Option<i64> {
        let batches = self.order.range((scu.0, 0)..=(scu.0, u32::MAX));
        let heard = batches.map(|(_, batch)| self.batches[*batch].heard_micros);
        heard.collect::<Option<Vec<i64>>>()?.into_iter().max()
    }

    /// After a restart whose ledger was learnt: what became of the batches that nobody heard of.
    /// Calls `told` with each batch and whether it is there.
    pub fn settle_unheard(&mut self, mut told: impl FnMut(usize, &Batch)) {
        for number in 0..self.batches.len() {
            let batch = &mut self.batches[number];
            let open = batch.heard_micros.is_none() && batch.fate != Fate::Gone;
            if !open {
                continue;
            }
            told(number, batch);
            if batch.place.is_none() {
                batch.fate = Fate::Gone;
            }
        }
    }
}

/// What becomes of a table's rows by one change, under these columns.
pub fn apply(rows: &mut Rows, table: &TableDraw, version: &Version, change: &Change) {
    let is_there = |column: &usize| version.place(*column).is_some();
    if let (OnRow::Keep(sets), Some(row)) = (&change.on_row, rows.get_mut(&change.key)) {
        let mut cells: Vec<Cell> = row.to_vec();
        for (column, value, combine) in sets.iter().filter(|(column, ..)| is_there(column)) {
            let operator = table.columns[*column].merge.filter(|_| *combine);
            cells[*column] = combined(operator, cells[*column], *value);
        }
        *row = cells.into();
        return;
    }
    match &change.on_absent {
        Some(row) if version.columns().len() == row.len() => {
            rows.insert(change.key, Arc::clone(row))
        }
        Some(row) => {
            let cells = row.iter().enumerate();
            let cells = cells.map(|(at, cell)| cell.filter(|_| is_there(&at)));
            rows.insert(change.key, cells.collect())
        }
        None => rows.remove(&change.key),
    };
}

/// How a batch mentions a natural key: in an owner's own row, or by a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Owner,
    Reference,
}

/// The natural keys that a batch mentions get numbers; those that a reference mentions first get
/// rows, before all else.
fn mention(state: &mut State, tables: &[TableDraw], batch: &Batch) -> Marks {
    let mut met = Marks::default();
    let mut first: BTreeMap<(usize, i64), By> = BTreeMap::new();
    let mut sought: BTreeSet<(usize, i64)> = BTreeSet::new();
    for (table, changes) in &batch.parts {
        let draw = &tables[*table];
        let version = Arc::clone(&state[*table].version);
        for change in changes {
            for (owner, code, makes) in mentions(*table, draw, &version, change) {
                if owner != *table && batch.given.contains_key(&(owner, code)) {
                    met.meet(Mark::NumberWritten);
                    continue;
                }
                match makes {
                    None => {
                        sought.insert((owner, code));
                    }
                    Some(by) => {
                        first.entry((owner, code)).or_insert(by);
                    }
                }
            }
        }
    }
    for ((owner, code), by) in first {
        let held = &mut state[owner];
        let key = key_of_code(code);
        if held.known.contains(&code) {
            if by == By::Reference && !held.rows.contains_key(&key) {
                met.meet(Mark::ReferenceKnown);
            }
            continue;
        }
        Arc::make_mut(&mut held.known).insert(code);
        if by == By::Reference {
            met.meet(Mark::ReferenceMade);
            let row = row_of_reference(&tables[owner], &held.version, code);
            Arc::make_mut(&mut held.rows).entry(key).or_insert(row);
        }
    }
    if sought
        .iter()
        .any(|(owner, code)| !state[*owner].known.contains(code))
    {
        met.meet(Mark::LookupUnknown);
    }
    met
}

/// The row that a reference to a new key makes.
fn row_of_reference(draw: &TableDraw, version: &Version, code: i64) -> Row {
    let key = key_of_code(code);
    let cell = |(at, column): (usize, &ColumnDraw)| match at {
        of_key if of_key < draw.keys => Some(key[of_key]),
        id if Some(id) == draw.owned => Some(code),
        other if version.place(other).is_none() => None,
        _ => column.late.unwrap_or(column.default),
    };
    draw.columns.iter().enumerate().map(cell).collect()
}

/// The natural keys that a change mentions, in order: owner, key, and who makes a number for it;
/// nobody where it only looks for a row.
fn mentions(
    table: usize,
    draw: &TableDraw,
    version: &Version,
    change: &Change,
) -> Vec<(usize, i64, Option<By>)> {
    let mut all = Vec::new();
    let by = |owner: usize| match owner == table {
        true => By::Owner,
        false => By::Reference,
    };
    let ids = version
        .columns()
        .filter_map(|(at, kind)| Some((at, kind.owner()?)));
    let ids: Vec<(usize, usize)> = ids.collect();
    if ids.is_empty() {
        return all;
    }
    if let Some(row) = &change.on_absent {
        let cells = ids
            .iter()
            .filter_map(|(at, owner)| Some((*owner, row[*at]?)));
        all.extend(cells.map(|(owner, code)| (owner, code, Some(by(owner)))));
    } else {
        let in_key = ids.iter().filter(|(at, _)| *at < draw.keys);
        all.extend(in_key.map(|(at, owner)| (*owner, change.key[*at], None)));
    }
    if let OnRow::Keep(sets) = &change.on_row {
        let agrees = match &change.on_absent {
            Some(row) => agrees(sets, row, version),
            None => false,
        };
        for (at, owner) in ids.iter().filter(|_| !agrees) {
            let set = sets.iter().find(|(column, ..)| column == at);
            if let Some((_, Some(code), _)) = set {
                all.push((*owner, *code, Some(by(*owner))));
            }
        }
    }
    all
}

fn combined(operator: Option<MergeOperator>, there: Cell, later: Cell) -> Cell {
    let (Some(operator), Some(there)) = (operator, there) else {
        return later;
    };
    let Some(later) = later else {
        return Some(there);
    };
    Some(match operator {
        MergeOperator::Sum => there + later,
        MergeOperator::Min => there.min(later),
        MergeOperator::Max => there.max(later),
        MergeOperator::First => there,
    })
}

#[cfg(test)]
mod tests;
