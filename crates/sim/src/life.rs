//! One life of the processes: an open database, and what actors need to use it and to judge it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use lazybase_cluster::{Instance, SnapshotRequest};
use lazybase_engine::read::{ScanPlan, ScanRequest, Snapshot};
use lazybase_model::limits::SNAPSHOT_LEFT_ALONE;
use lazybase_model::{Error, ErrorKind, Freshness, SchemaVersion, Table, TableId};
use parking_lot::Mutex;

use crate::clock::{Clocks, micros};
use crate::damage::Promises;
use crate::marks::Mark;
use crate::mixes::Mixes;
use crate::model::Model;
use crate::names::Names;
use crate::rows::{Known, Maps, ledger_rows};
use crate::sequences::Sequences;
use crate::store::{Of, Past, SimStore, Wounds};
use crate::story::{End, LifeDraw, Story};
use crate::world::World;

/// So long after a fault of the store errors are no surprise: what was seen damaged is left alone
/// for a while.
const FAULTS_ECHO: Duration = Duration::from_secs(120);
/// So long after faults have ended for good, what hung may tell of one only now: longer than any
/// operation or attempt hangs.
const TOLD_LATE: Duration = Duration::from_secs(10);

/// So long after a damaged log was restored somebody may still be told of it: whoever knew of the
/// damage looks at the file again in half that time.
const RESTORED_ECHO: Duration = Duration::from_secs(60);

/// Why something was not answered.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// An error that may be.
    Excused(Error),
    /// What must not be.
    Wrong(String),
}

impl From<String> for Trouble {
    fn from(what: String) -> Trouble {
        Trouble::Wrong(what)
    }
}

/// An answer, or why there is none.
pub(crate) type Answer<T> = Result<T, Trouble>;

/// What was done in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Batches that were acknowledged.
    pub batches: u64,
    /// Queries that were answered, and found right.
    pub queries: u64,
    /// Crashes.
    pub crashes: u64,
    /// Openings after the first.
    pub restarts: u64,
    /// Answers by the stages that they came from. One that was compared again later counts once,
    /// and so does the one at rest, which is no query.
    pub mixes: Mixes,
    /// Merges into the authority.
    pub authority_merges: u64,
}

/// What outlives the processes.
#[derive(Debug)]
pub(crate) struct Run {
    /// Where it happens.
    pub(crate) world: World,
    /// What was decided before.
    pub(crate) story: Story,
    /// What should be.
    pub(crate) model: Mutex<Model>,
    /// What the database's clocks said.
    pub(crate) clocks: Mutex<Clocks>,
    /// How many files are still to be damaged for good while the database is used.
    pub(crate) strikes: Mutex<u32>,
    /// Those that are.
    pub(crate) wounds: Wounds,
    /// How often files of the log and of the manifest are still to be damaged while the database
    /// is used.
    pub(crate) record_strikes: Mutex<u32>,
    /// Whether the last life closed the database, and its store had never failed.
    pub(crate) closed: Mutex<bool>,
    /// What else went wrong on the disk.
    pub(crate) past: Arc<Past>,
    /// Tables that were made again, each with the batch that was last written under its id.
    pub(crate) made: Mutex<BTreeMap<TableId, usize>>,
    /// Of the views that come and go, by name, whether each is there; nothing where only the next
    /// opening tells.
    pub(crate) shown: Mutex<BTreeMap<String, Option<bool>>>,
    /// Of each table the columns that somebody wanted to drop.
    pub(crate) gone: Mutex<BTreeMap<usize, BTreeSet<usize>>>,
    /// What answers said of numbers.
    pub(crate) names: Mutex<Names>,
    /// What sequences gave out.
    pub(crate) sequences: Mutex<Sequences>,
    /// What was done.
    pub(crate) tally: Mutex<Tally>,
}

/// One life of the processes.
pub(crate) struct Life {
    /// What outlives it.
    pub(crate) run: Arc<Run>,
    /// Which life it is.
    pub(crate) number: u32,
    /// How it is to end.
    pub(crate) draw: LifeDraw,
    /// The store.
    pub(crate) store: SimStore,
    /// The database.
    pub(crate) instance: Instance,
    /// How far its clock is ahead of simulated time, in microseconds.
    pub(crate) ahead_micros: i64,
    /// The ledger.
    pub(crate) ledger: Known,
    /// The story's tables, as they were defined when somebody last looked.
    pub(crate) tables: Mutex<Vec<Known>>,
    /// Their key maps.
    pub(crate) maps: Vec<Option<Known>>,
    /// How many answers there were when it began, and whether its end has been ordered.
    pub(crate) progress: Mutex<Progress>,
    /// Since when there are no faults any more, so that everything comes to rest.
    pub(crate) rest: Mutex<Option<Duration>>,
    /// The damaged files that can't be lost any more.
    pub(crate) promises: Mutex<Promises>,
}

/// How far a life has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// Answers when it began.
    pub began_at: u64,
    /// Whether its crash has been ordered.
    pub ordered: bool,
}

impl Run {
    /// Batches and queries so far.
    pub(crate) fn operations(&self) -> u64 {
        let tally = self.tally.lock();
        tally.batches + tally.queries
    }
}

impl Life {
    /// The world.
    pub(crate) fn world(&self) -> &World {
        &self.run.world
    }

    /// What the database's clock said or says at this moment, by simulated time, in microseconds
    /// since 1970.
    pub(crate) fn clock_at(&self, moment: Duration) -> i64 {
        micros(moment) + self.ahead_micros
    }

    /// What the database's clock has to say now.
    pub(crate) fn clock_micros(&self) -> i64 {
        self.clock_at(self.world().now())
    }

    /// The database's clock goes as time does, whatever happens to the machine's.
    pub(crate) fn check_clock(&self) -> Result<(), String> {
        let (said, now) = (self.instance.now_micros(), self.clock_micros());
        match said == now {
            true => Ok(()),
            false => Err(format!("the database's clock says {said}, and it is {now}")),
        }
    }

    /// When the retention began, in microseconds of the database's clock.
    pub(crate) fn retention_began(&self) -> i64 {
        let latest = self.run.clocks.lock().latest(self.clock_micros());
        latest - micros(self.run.story.settings.retention)
    }

    /// The same, or the moment up to which the past has gone before its time: in this life by what
    /// the status says, and in earlier ones it may have been their last.
    pub(crate) fn past_begins(&self) -> i64 {
        let began = self.retention_began();
        if !self.run.story.is_bounded() {
            return began;
        }
        let kept = self.instance.status().superseded.kept_micros;
        let gone = self.clock_micros() - i64::try_from(kept).unwrap_or(i64::MAX);
        let earlier = self.run.clocks.lock().before();
        began.max(gone).max(earlier.unwrap_or(gone))
    }

    /// A table, as it was defined when somebody last looked.
    pub(crate) fn known(&self, table: usize) -> Known {
        self.tables.lock()[table].clone()
    }

    /// A table under its newest definition.
    pub(crate) fn bind(&self, table: usize) -> Result<Known, String> {
        let name = &self.run.story.tables[table].name;
        let newest = self.instance.table(name);
        let newest = newest.map_err(|error| format!("table {name:?} is gone: {error:?}"))?;
        let known = self.known_as(table, newest)?;
        self.tables.lock()[table] = known.clone();
        Ok(known)
    }

    /// A table under this definition.
    pub(crate) fn known_as(&self, table: usize, definition: Arc<Table>) -> Result<Known, String> {
        let known = self.known(table);
        match which(&known.table) == which(&definition) {
            true => Ok(known),
            false => Known::of(definition, &self.run.story.tables[table]),
        }
    }

    /// What a writer needs to name keys.
    pub(crate) fn naming(&self) -> Maps<'_> {
        Maps {
            draws: &self.run.story.tables,
            maps: &self.maps,
        }
    }

    /// Whether actors are to stop.
    pub(crate) fn is_over(&self) -> bool {
        let done = self.run.operations();
        match self.draw.end {
            End::Rest => done >= self.run.story.trim.operations,
            _ => {
                let since = done - self.progress.lock().began_at;
                // After its crash was ordered it goes on until that comes.
                since >= self.draw.answers + 40 || (self.draw.end == End::Close && self.is_due())
            }
        }
    }

    fn is_due(&self) -> bool {
        let since = self.run.operations() - self.progress.lock().began_at;
        since >= self.draw.answers
    }

    /// Something was answered: orders the crash once enough was.
    pub(crate) fn answered(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.run.tally.lock());
        if !self.is_due() || std::mem::replace(&mut self.progress.lock().ordered, true) {
            return;
        }
        match self.draw.end {
            End::CrashIn(polls) => self.world().crash_in(polls),
            End::CrashAt(point) => self.store.crash_at(Some(point)),
            End::Close | End::Rest => {}
        }
    }

    /// A batch ended in doubt: now and then a life that is to end in a crash ends at once.
    pub(crate) fn hasten(&self, batch: usize) {
        let crashes = matches!(self.draw.end, End::CrashIn(_) | End::CrashAt(_));
        if crashes
            && batch.is_multiple_of(2)
            && !std::mem::replace(&mut self.progress.lock().ordered, true)
        {
            self.world().crash_in(batch as u64 * 7 % 60);
        }
    }

    /// From now on nothing fails any more: everything is to come to rest.
    pub(crate) fn begin_rest(&self) {
        self.store.set_faults(false);
        *self.rest.lock() = Some(self.world().now());
    }

    /// Whether a whole file may have been taken for damaged for good: of late it was read with a
    /// flipped bit, and again when it was read back.
    pub(crate) fn may_have_misread(&self) -> bool {
        let from = self.world().now().saturating_sub(FAULTS_ECHO);
        self.run.past.flipped_since(from)
    }

    /// Whether no fault explains any more what can't be read.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.may_fail(self.world().now())
    }

    /// Whether a fault explains that a request failed which began at `since`.
    fn may_fail(&self, since: Duration) -> bool {
        let explaining = explaining_from(self.world().now(), since, *self.rest.lock());
        explaining.is_some_and(|from| self.store.failed_since(from))
    }

    /// Whether an error may be; `since` is when the request began.
    pub(crate) fn judge(&self, what: &str, since: Duration, error: Error) -> Trouble {
        let of_damage = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unavailable);
        let text = format!("{error:?}");
        let wounds = match of_damage {
            true => self.run.wounds.named(&text),
            false => Vec::new(),
        };
        if wounds.iter().any(|(_, of)| *of == Of::Manifest) {
            let told = "a file of the manifest, which is in memory";
            return Trouble::Wrong(format!("{what} failed for {told}: {error:?}"));
        }
        let now = self.world().now();
        let whole_since = self.run.wounds.whole_since(&text);
        let is_over = whole_since.is_some_and(|since| now > since + RESTORED_ECHO);
        if !wounds.is_empty() && !is_over {
            return match self.holder_of(&wounds) {
                None => Trouble::Excused(error),
                Some(holder) => Trouble::Wrong(format!(
                    "{what} failed, though {holder} holds the same rows: {error:?}"
                )),
            };
        }
        let may_be = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Corrupt | ErrorKind::MaybeHappened => {
                self.may_fail(since)
            }
            ErrorKind::SnapshotTooOld => self.may_be_ended(since, &error),
            _ => false,
        };
        match may_be {
            true => Trouble::Excused(error),
            false => Trouble::Wrong(format!("{what} failed: {error:?}")),
        }
    }

    /// Whether a snapshot that was asked for at `since` may have been ended as it kept too much: in
    /// a story where little may be kept, one that is old enough for that. Nobody holds one for so
    /// long that it is lost for want of use.
    fn may_be_ended(&self, since: Duration, error: &Error) -> bool {
        let is_old = self.world().now() >= since + SNAPSHOT_LEFT_ALONE;
        let says_why = error
            .detail()
            .is_some_and(|detail| detail.contains("superseded_bytes_max"));
        let superseded = self.instance.status().superseded;
        let may_be =
            self.run.story.is_bounded() && is_old && says_why && superseded.snapshots_ended > 0;
        if may_be {
            self.world().meet(Mark::SnapshotEnded);
        }
        may_be
    }

    /// Ends the run if something is wrong; nothing if it may be.
    pub(crate) fn report<T>(&self, answer: Answer<T>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(Trouble::Excused(error)) => {
                self.world().note("excused", 0, 0, || error.to_string());
                None
            }
            Err(Trouble::Wrong(what)) => {
                self.world().violate(what);
                None
            }
        }
    }

    /// All rows of a plan, part by part.
    pub(crate) async fn rows(&self, plan: &ScanPlan) -> Result<Vec<RecordBatch>, Error> {
        let mut rows = Vec::new();
        for part in &plan.parts {
            let mut stream = part.stream();
            while let Some(batch) = stream.try_next().await? {
                rows.push(batch);
            }
        }
        Ok(rows)
    }

    /// Makes sure that every batch up to a snapshot's horizon is known to the model.
    pub(crate) async fn know(&self, snapshot: &Snapshot) -> Answer<()> {
        loop {
            {
                let mut model = self.run.model.lock();
                model.see_times(&snapshot.manifest().times)?;
                if model.knows(snapshot.horizon()) {
                    return Ok(());
                }
            }
            self.learn().await?;
        }
    }

    /// Reads the ledger: which batches there are, in which order.
    pub(crate) fn learn(&self) -> BoxFuture<'_, Answer<()>> {
        Box::pin(self.read_ledger())
    }

    async fn read_ledger(&self) -> Answer<()> {
        let since = self.world().now();
        let table = self.ledger.table.id;
        let request = SnapshotRequest {
            freshness: Freshness::ZERO,
            tables: Some(vec![table]),
            owner: "ledger".to_owned(),
            ..SnapshotRequest::default()
        };
        let snapshot = self.instance.snapshot(request).await;
        let snapshot =
            snapshot.map_err(|error| self.judge("a look at the ledger", since, error))?;
        let read = async {
            let plan = snapshot.plan_scan(ScanRequest {
                table,
                projection: vec![0, 1],
                range: Default::default(),
                buffered: Vec::new(),
                batch_rows: 256,
                parts: 1,
            });
            self.rows(&plan.await?).await
        };
        let batches = read.await;
        let batches = batches.map_err(|error| self.judge("a read of the ledger", since, error))?;
        let mut rows = Vec::new();
        for batch in &batches {
            rows.extend(ledger_rows(batch)?);
        }
        let horizon = snapshot.horizon();
        self.world()
            .note("ledger", rows.len() as u64, horizon.scu.0, || {
                format!("{} batches at {horizon}", rows.len())
            });
        let learnt = self.run.model.lock().learn(&rows, horizon, self.number);
        Ok(learnt?)
    }

    /// Notes which stages an answer came from.
    pub(crate) fn note_stages(&self, snapshot: &Snapshot) {
        use lazybase_model::Stage;
        let stages = snapshot.stamp().sources.stages();
        for stage in &stages {
            match stage {
                Stage::Open => self.world().meet(Mark::ReadOpen),
                Stage::Ingested | Stage::Remapped => self.world().meet(Mark::ReadIngested),
                Stage::Sorted => self.world().meet(Mark::ReadSorted),
                Stage::Merged => self.world().meet(Mark::ReadMerged),
                Stage::Authority => self.world().meet(Mark::ReadAuthority),
            }
        }
        if stages.len() >= 3 {
            self.world().meet(Mark::ReadMixed);
        }
        self.run.tally.lock().mixes.count(&stages);
    }
}

/// What tells a definition from another one of the same name.
pub(crate) fn which(table: &Table) -> (TableId, SchemaVersion) {
    (table.id, table.version)
}

/// The moment from which on a fault explains the error of a request that began at `since`; nothing
/// where none does. At rest, which began at `rest`, only what hung until now does.
fn explaining_from(now: Duration, since: Duration, rest: Option<Duration>) -> Option<Duration> {
    match rest {
        None => Some(since.saturating_sub(FAULTS_ECHO)),
        Some(rest) => (now < rest + TOLD_LATE).then_some(Duration::ZERO),
    }
}

#[cfg(test)]
mod tests;
