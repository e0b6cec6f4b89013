//! What a snapshot shows of a table, against what the model says it should.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use futures::future::BoxFuture;
use lazybase_cluster::AsOf;
use lazybase_engine::key::Key as EncodedKey;
use lazybase_engine::manifest::KeyRange;
use lazybase_engine::read::{OwnChanges, ScanPlan, Snapshot};
use lazybase_model::{Error, Horizon};

use super::scan_request;
use crate::alter::adapted;
use crate::dice::Dice;
use crate::life::{Answer, Life};
use crate::marks::Mark;
use crate::model::{Cell, Change, OnRow, Row, Rows, apply};
use crate::rows::{Known, decode, project};
use crate::schema::{Kind, TableDraw};
use crate::writer::draw_change;

mod ids;

/// A column that was read: which of the drawn ones, and how it is spelt.
type Shown = (usize, Kind);

/// A way to read a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// All of it.
    Scan,
    /// The rows of a range of keys.
    Range,
    /// Rows by their keys.
    Point,
    /// With changes of a transaction's own.
    Own,
    /// Through a secondary view.
    View,
    /// Its key map, if it owns an ID.
    Map,
}

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// When.
    pub since: Duration,
    /// The past, if it was one.
    pub at: Option<AsOf>,
}

/// A table at a snapshot, as it should be.
struct Expected {
    table: usize,
    rows: Arc<Rows>,
    /// What is known of the table at the horizon.
    known: Known,
    as_of_micros: i64,
    horizon: Horizon,
}

/// Reads all tables in every way and compares: what is done when everything is at rest. The
/// snapshot was asked for at `since`.
pub(crate) async fn compare_all(
    life: &Life,
    dice: &mut Dice,
    snapshot: &Snapshot,
    since: Duration,
) -> Answer<()> {
    for table in 0..life.maps.len() {
        compare_one(life, dice, snapshot, table, since).await?;
    }
    Ok(())
}

/// Reads a table in every way and compares.
pub(crate) async fn compare_one(
    life: &Life,
    dice: &mut Dice,
    snapshot: &Snapshot,
    table: usize,
    since: Duration,
) -> Answer<()> {
    let asked = Asked { since, at: None };
    for way in [Way::Scan, Way::Point, Way::View, Way::Map] {
        compare(life, dice, snapshot, table, way, asked).await?;
    }
    Ok(())
}

/// Compares rows that were read of a whole table, with all of its columns. The snapshot was asked
/// for at `since`.
pub(crate) async fn compare_read(
    life: &Life,
    snapshot: &Snapshot,
    table: usize,
    batches: &[RecordBatch],
    since: Duration,
) -> Answer<()> {
    let asked = Asked { since, at: None };
    let comparing = Comparing {
        life,
        snapshot,
        expected: expected(life, snapshot, table, asked)?,
        since,
    };
    let columns: Vec<Shown> = comparing.known().version.columns().collect();
    let mut rows = Vec::new();
    for batch in batches {
        decode(&columns, batch, &mut rows)?;
    }
    let wanted = comparing.alive(&comparing.expected.rows);
    let wanted = wanted.iter().map(|row| project(row, &columns)).collect();
    let ordered = comparing.draw().is_ordered();
    let what = "a scan beside damage";
    comparing.same(what, &columns, ordered, rows, wanted).await
}

/// Reads a table in one way and compares.
pub(super) fn compare<'a>(
    life: &'a Life,
    dice: &'a mut Dice,
    snapshot: &'a Snapshot,
    table: usize,
    way: Way,
    asked: Asked,
) -> BoxFuture<'a, Answer<()>> {
    Box::pin(async move {
        let comparing = Comparing {
            life,
            snapshot,
            expected: expected(life, snapshot, table, asked)?,
            since: asked.since,
        };
        match way {
            Way::Scan => comparing.scan(dice).await,
            Way::Range => comparing.range(dice).await,
            Way::Point => comparing.point(dice).await,
            Way::Own => comparing.own(dice).await,
            Way::View => comparing.view(dice).await,
            Way::Map => comparing.map().await,
        }
    })
}

fn expected(life: &Life, snapshot: &Snapshot, table: usize, asked: Asked) -> Answer<Expected> {
    let since = asked.since;
    let horizon = snapshot.horizon();
    let name = &life.run.story.tables[table].name;
    let definition = snapshot.table(name);
    let definition = definition.and_then(|newest| snapshot.definition(newest.id));
    let definition = definition.map_err(|error| life.judge("a definition", since, error))?;
    check_as_of(life, snapshot, since)?;
    let made = life.run.made.lock().get(&definition.id).copied();
    let mut model = life.run.model.lock();
    let count = model.count_to(horizon);
    // What empties a table has a boundary of its own, right before its batch.
    let next = model.emptied_after(count);
    let emptied = next.filter(|(scu, emptied, _)| {
        *emptied == table && horizon == Horizon::end_of(scu.previous())
    });
    let held = model.held_after(count, table);
    let known = life.known_as(table, definition)?;
    let draw = &life.run.story.tables[table];
    if made != held.made {
        // There is nothing yet of a table that was made after the horizon.
        if !made.is_some_and(|batch| model.is_after(batch, horizon)) {
            return Err(format!(
                "table {name:?} at {horizon} is the one of batch {made:?}, not of {:?}",
                held.made
            )
            .into());
        }
        life.world().meet(Mark::TableEmpty);
        return Ok(Expected {
            table,
            rows: Arc::default(),
            known,
            as_of_micros: snapshot.stamp().as_of_micros,
            horizon,
        });
    }
    let next = model.altered_after(count);
    let next = next.filter(|(scu, altered, _)| {
        *altered == table && horizon == Horizon::end_of(scu.previous())
    });
    let next = next.map(|(_, _, alter)| alter.version(draw, &held.version));
    let fits = match asked.at {
        Some(AsOf::Scu(_)) => known.version == *held.version,
        // A change at the horizon may have come before the moment, or before the question.
        Some(AsOf::Timestamp { .. }) | None => {
            known.version == *held.version || next.as_ref() == Some(&known.version)
        }
    };
    if !fits {
        return Err(format!(
            "table {:?} at {horizon}, asked for {:?}, has the columns {:?}, not {:?}",
            draw.name, asked.at, known.version, held.version
        )
        .into());
    }
    let newest = life.known(table).table;
    let is_same = newest.id == known.table.id;
    if asked.at.is_some() && is_same && known.table.version < newest.version {
        life.world().meet(Mark::AsOfOlder);
    }
    let mut rows = held.rows;
    match emptied {
        None => {}
        Some((_, _, None)) => rows = Arc::default(),
        Some((_, _, Some(part))) => {
            life.world().meet(Mark::PartitionEmpty);
            Arc::make_mut(&mut rows).retain(|key, _| !draw.is_in(part, *key));
        }
    }
    Ok(Expected {
        table,
        rows: adapted(&rows, draw, &held.version, &known.version),
        known,
        as_of_micros: snapshot.stamp().as_of_micros,
        horizon,
    })
}

/// The moment as of which an answer says to be true is one that it can be.
fn check_as_of(life: &Life, snapshot: &Snapshot, since: Duration) -> Result<(), String> {
    let (horizon, as_of) = (snapshot.horizon(), snapshot.stamp().as_of_micros);
    let model = life.run.model.lock();
    let (mut least, most) = model.as_of_between(horizon, life.clock_at(since));
    // The catalogue may have changed right after an older boundary, or no more be known of what
    // came after it.
    if horizon.is_boundary() && horizon.scu < snapshot.manifest().sorted_through {
        least = least.min(model.last_sent_to(horizon).unwrap_or(i64::MIN));
    }
    let most = most.min(life.clock_micros());
    match (least..=most).contains(&as_of) {
        true => Ok(()),
        false => Err(format!(
            "an answer at {horizon} is said to be true as of {as_of}, which is not in \
             {least}..={most}"
        )),
    }
}

struct Comparing<'a> {
    life: &'a Life,
    snapshot: &'a Snapshot,
    expected: Expected,
    since: Duration,
}

impl Comparing<'_> {
    fn draw(&self) -> &TableDraw {
        &self.life.run.story.tables[self.expected.table]
    }

    fn known(&self) -> &Known {
        &self.expected.known
    }

    /// The columns at some places of the table's.
    fn columns(&self, projection: &[usize]) -> Vec<Shown> {
        let all: Vec<Shown> = self.known().version.columns().collect();
        projection.iter().map(|at| all[*at]).collect()
    }

    fn failed(&self, what: &str, error: Error) -> crate::life::Trouble {
        self.life.judge(what, self.since, error)
    }

    /// The rows that have not ended, of those given.
    fn alive<'r>(&self, rows: &'r Rows) -> Vec<&'r Row> {
        let ended = |row: &Row| match self.draw().ttl {
            Some((column, micros)) => row[column]
                .is_some_and(|moment| moment <= self.expected.as_of_micros - micros as i64),
            None => false,
        };
        let alive: Vec<&Row> = rows.values().filter(|row| !ended(row)).collect();
        if alive.len() < rows.len() {
            self.life.world().meet(Mark::Expired);
        }
        alive
    }

    /// All columns, or some of them.
    fn projection(&self, dice: &mut Dice) -> Vec<usize> {
        let all = 0..self.known().version.columns().len();
        match dice.percent(60) {
            true => all.collect(),
            false => {
                let mut some: Vec<usize> = all.filter(|_| dice.percent(50)).collect();
                if some.is_empty() {
                    some.push(0);
                }
                some
            }
        }
    }

    async fn read(&self, plan: &ScanPlan, columns: &[Shown]) -> Answer<Vec<Vec<Cell>>> {
        let batches = self.life.rows(plan).await;
        let batches = batches.map_err(|error| self.failed("a scan", error))?;
        let mut rows = Vec::new();
        for batch in &batches {
            decode(columns, batch, &mut rows)?;
        }
        if let Some(exact) = plan.exact_rows {
            self.life.world().meet(Mark::ReadExact);
            if exact != rows.len() as u64 {
                let name = &self.draw().name;
                return Err(format!(
                    "table {name:?} is said to have exactly {exact} rows, and has {}",
                    rows.len()
                )
                .into());
            }
        }
        Ok(rows)
    }

    async fn scan(&self, dice: &mut Dice) -> Answer<()> {
        let projection = self.projection(dice);
        let columns = self.columns(&projection);
        let request = scan_request(self.known().table.id, projection);
        let plan = self.snapshot.plan_scan(request).await;
        let plan = plan.map_err(|error| self.failed("planning a scan", error))?;
        let rows = self.read(&plan, &columns).await?;
        let wanted = self.alive(&self.expected.rows);
        let wanted = wanted.iter().map(|row| project(row, &columns)).collect();
        let ordered = self.draw().is_ordered();
        self.same("a scan", &columns, ordered, rows, wanted).await
    }

    async fn range(&self, dice: &mut Dice) -> Answer<()> {
        let bounds = [0, 1].map(|_| draw_change(dice, self.draw(), 0));
        let mut bounds = self.encoded(&bounds).await?;
        bounds.sort();
        let [low, high] = [bounds[0].clone(), bounds[1].clone()];
        let range = KeyRange {
            low: Some(low),
            high: Some(high),
        };
        let columns: Vec<Shown> = self.known().version.columns().collect();
        let all = (0..columns.len()).collect();
        let mut request = scan_request(self.known().table.id, all);
        request.range = range.clone();
        let plan = self.snapshot.plan_scan(request).await;
        let plan = plan.map_err(|error| self.failed("planning a range", error))?;
        let rows = self.read(&plan, &columns).await?;
        let alive = self.alive(&self.expected.rows);
        let upserts: Vec<Change> = alive
            .iter()
            .map(|row| Change {
                key: crate::rows::key_of(self.draw(), row),
                on_row: OnRow::Replace,
                on_absent: Some(Arc::clone(row)),
            })
            .collect();
        let keys = self.encoded(&upserts).await?;
        let inside = keys
            .iter()
            .zip(&alive)
            .filter(|(key, _)| range.contains(key));
        let wanted = inside.map(|(_, row)| project(row, &columns)).collect();
        self.life.world().meet(Mark::ReadRange);
        let ordered = self.draw().is_ordered();
        self.same("a range", &columns, ordered, rows, wanted).await
    }

    /// The keys of changes as files have them.
    async fn encoded(&self, changes: &[Change]) -> Answer<Vec<EncodedKey>> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let whole = changes.iter().map(|change| Change {
            key: change.key,
            on_row: OnRow::Replace,
            on_absent: None,
        });
        let whole: Vec<Change> = whole.collect();
        self.learn_numbers(&whole).await?;
        let batch = self.with_numbers(&whole)?;
        let keys = self.known().layout.codec.encode(&batch.data);
        let keys = keys.map_err(|error| error.to_string())?;
        let count = batch.rows();
        Ok((0..count)
            .map(|row| EncodedKey::new(keys.row(row).data()))
            .collect())
    }

    async fn point(&self, dice: &mut Dice) -> Answer<()> {
        let count = dice.between(1, self.life.run.story.shape.pick(2, 4));
        let asked: Vec<Change> = (0..count)
            .map(|_| draw_change(dice, self.draw(), 0))
            .collect();
        let keys = self.encoded(&asked).await?;
        let projection = self.projection(dice);
        let columns = self.columns(&projection);
        let id = self.known().table.id;
        let found = self.snapshot.get(id, &keys, &projection, &[]).await;
        let found = found.map_err(|error| self.failed("a point read", error))?;
        let mut rows = Vec::new();
        decode(&columns, &found, &mut rows)?;
        let mut held = Rows::new();
        for change in &asked {
            if let Some(row) = self.expected.rows.get(&change.key) {
                held.insert(change.key, Arc::clone(row));
            }
        }
        let alive = self.alive(&held);
        let is_alive = |change: &&Change| {
            let row = held.get(&change.key);
            row.is_some_and(|row| alive.iter().any(|alive| Arc::ptr_eq(alive, row)))
        };
        let wanted = asked.iter().filter(is_alive);
        let wanted = wanted
            .map(|change| project(&held[&change.key], &columns))
            .collect();
        self.life.world().meet(Mark::ReadPoint);
        self.same("a point read", &columns, false, rows, wanted)
            .await
    }

    /// A transaction sees its own changes, and nobody else does. Those that name keys that have no
    /// number yet are left out: they get one when it commits.
    async fn own_changes(&self, dice: &mut Dice) -> Answer<(Vec<OwnChanges>, Arc<Rows>)> {
        let now = self.life.clock_micros();
        let mut rows = self.expected.rows.as_ref().clone();
        let mut buffered = Vec::new();
        for _ in 0..dice.between(1, 2) {
            let count = dice.between(1, 3);
            let changes: Vec<Change> = (0..count)
                .map(|_| draw_change(dice, self.draw(), now))
                .collect();
            self.learn_numbers(&changes).await?;
            let known = |change: &Change| self.has_numbers(change);
            let changes: Vec<Change> = changes.into_iter().filter(known).collect();
            let version = &self.known().version;
            let applied = changes.iter();
            applied.for_each(|change| apply(&mut rows, self.draw(), version, change));
            if !changes.is_empty() {
                buffered.push(self.with_numbers(&changes)?.into());
            }
        }
        Ok((buffered, Arc::new(rows)))
    }

    async fn own(&self, dice: &mut Dice) -> Answer<()> {
        let (buffered, held) = self.own_changes(dice).await?;
        let projection = self.projection(dice);
        let columns = self.columns(&projection);
        let mut request = scan_request(self.known().table.id, projection);
        request.buffered = buffered;
        let plan = self.snapshot.plan_scan(request).await;
        let plan = plan.map_err(|error| self.failed("planning a transaction's scan", error))?;
        let rows = self.read(&plan, &columns).await?;
        let wanted = self.alive(&held);
        let wanted = wanted.iter().map(|row| project(row, &columns)).collect();
        self.life.world().meet(Mark::ReadOwn);
        let ordered = self.draw().is_ordered();
        let what = "a transaction's scan";
        self.same(what, &columns, ordered, rows, wanted).await
    }

    async fn view(&self, dice: &mut Dice) -> Answer<()> {
        let manifest = self.snapshot.manifest();
        let views = self.draw().views.iter().map(|view| (view, false));
        let later = self.draw().later.iter().map(|view| (view, true));
        for (draw, is_later) in views.chain(later) {
            let view = match manifest.view_named(&draw.name) {
                Some(state) => state.table.id,
                None if is_later => continue,
                None => return Err(format!("view {:?} is gone", draw.name).into()),
            };
            let own = dice.percent(20);
            let (buffered, held) = match own {
                true => self.own_changes(dice).await?,
                false => (Vec::new(), Arc::clone(&self.expected.rows)),
            };
            let mut request = scan_request(view, (0..draw.columns.len()).collect());
            request.buffered = buffered;
            let plan = self.snapshot.plan_view_scan(&request).await;
            let plan = plan.map_err(|error| self.failed("planning a view's scan", error))?;
            let Some(plan) = plan else {
                self.life.world().meet(Mark::ViewAside);
                continue;
            };
            let columns = draw.columns.iter();
            let columns = columns.map(|at| (*at, self.draw().columns[*at].kind));
            let columns: Vec<Shown> = columns.collect();
            let rows = self.read(&plan, &columns).await?;
            let wanted = self.alive(&held);
            let wanted = wanted.iter().map(|row| project(row, &columns)).collect();
            self.life.world().meet(Mark::ReadView);
            if is_later && !held.is_empty() {
                self.life.world().meet(Mark::ViewMadeRead);
            }
            let name = format!("view {:?}", draw.name);
            self.in_order(&name, &columns, &draw.key, &rows)?;
            self.same(&name, &columns, false, rows, wanted).await?;
        }
        Ok(())
    }

    /// Whether rows rise by the columns of a key, all of which were read.
    fn in_order(
        &self,
        what: &str,
        columns: &[Shown],
        key: &[usize],
        rows: &[Vec<Cell>],
    ) -> Result<(), String> {
        let places = key
            .iter()
            .map(|at| columns.iter().position(|(column, _)| column == at));
        let Some(places) = places.collect::<Option<Vec<usize>>>() else {
            return Ok(());
        };
        let falls = |pair: &&[Vec<Cell>]| {
            let key_of = |row: usize| places.iter().map(move |at| pair[row][*at]);
            key_of(0).ge(key_of(1))
        };
        match rows.windows(2).find(falls) {
            None => Ok(()),
            Some(pair) => Err(format!(
                "{what} of table {:?} at {} is out of order: {pair:?}",
                self.draw().name,
                self.expected.horizon
            )),
        }
    }

    /// Compares the rows that came with those that should, once IDs are the keys they stand for.
    async fn same(
        &self,
        what: &str,
        columns: &[Shown],
        ordered: bool,
        mut rows: Vec<Vec<Cell>>,
        mut wanted: Vec<Vec<Cell>>,
    ) -> Answer<()> {
        let horizon = self.expected.horizon;
        let world = self.life.world();
        world.note("compared", rows.len() as u64, wanted.len() as u64, || {
            format!(
                "{what} of {:?} at {horizon}: {} rows",
                self.draw().name,
                rows.len()
            )
        });
        if ordered {
            let key: Vec<usize> = (0..self.draw().keys).collect();
            self.in_order(what, columns, &key, &rows)?;
        }
        self.name_rows(columns, &mut rows).await?;
        rows.sort();
        wanted.sort();
        if rows == wanted {
            return Ok(());
        }
        let lacks: Vec<_> = wanted
            .iter()
            .filter(|row| !rows.contains(row))
            .take(4)
            .collect();
        let extra: Vec<_> = rows
            .iter()
            .filter(|row| !wanted.contains(row))
            .take(4)
            .collect();
        Err(format!(
            "{what} of table {:?} at {horizon} shows {} rows, not {}: without {lacks:?}, \
             with {extra:?} (columns {columns:?}); {}",
            self.draw().name,
            rows.len(),
            wanted.len(),
            self.snapshot.stamp(),
        )
        .into())
    }
}
