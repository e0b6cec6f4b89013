//! `VERIFY TABLE`: what a later stage holds is compared with what an earlier stage makes of the
//! same changes, run by run and view by view.
//!
//! ```text
//!   run ------ late and early way to its end (engine, recompute) --same--> said
//!                      \--differs--> its file and all that was made of it count as damaged:
//!                      |             made again, oldest first; then all is compared once more
//!                      \--no early way: its files are read back
//!   view ----- its table, healed, at one boundary --differs--> built again
//! ```
//!
//! A checksum says that a file is what was written; this says that what was written is right. What
//! was made of a wrong run agrees with it, so a run is only known to be right when all that came
//! before it is; views are compared last, and begin again wherever a run of their table was wrong.
//! Files that can't be read are made again as ever; whoever asked is told of those that are not.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_engine::manifest::{Manifest, Pin, RunKind, TableState};
use lazybase_engine::read::paths::segments_in;
use lazybase_engine::read::recompute::{
    Comparison, Recompute, StagePair, WrongEntries, stage_pairs,
};
use lazybase_engine::read::{AsOf, Snapshot, SnapshotAsk, ViewCheck};
use lazybase_engine::segment::{ReadCounters, Segment};
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_model::{Error, ErrorKind, Freshness, Horizon, OnMiss, Result, Span, TableId, ViewId};
use tokio::sync::{mpsc, oneshot};

use crate::coordinator::{Command, Event, no_table};
use crate::parts::place_of;
use crate::shared::{DamageState, Shared};
use crate::task::StageName;
use crate::verify::{Fate, HEALING_MAX, LOOK_EVERY, condemned, fate_of, read_back};

/// How often all runs are compared, at most, until those that were made again are right.
const PASSES_MAX: usize = 4;

/// What `VERIFY TABLE` compared.
#[derive(Debug, Clone, Default)]
pub struct TableReport {
    /// Each run of the table, of its key map, and each of its views.
    pub checks: Vec<StageCheck>,
    /// Damaged files that were met and could not be made again, or not in the time that it was
    /// waited for: what is to be said of each. The details name table, view and SCUs.
    pub damage: Vec<Error>,
}

/// One comparison.
#[derive(Debug, Clone)]
pub struct StageCheck {
    /// The table, key map or view.
    pub of: String,
    /// The stage that is checked: sorted, merged, base, or view.
    pub stage: &'static str,
    /// The SCUs of the run; of a view, all up to the horizon at which it was compared.
    pub span: Span,
    /// Rows that were compared.
    pub rows: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every row that was compared is the same.
    Same,
    /// It could not be compared: why.
    NotCompared(String),
    /// Rows differ.
    Differs {
        /// How many.
        rows: u64,
        /// Some of them in words.
        told: Vec<String>,
        /// Whether it was made again from the earlier stage, in the time that it was waited for.
        healed: bool,
    },
}

impl TableReport {
    /// The comparisons that showed a difference.
    pub fn differing(&self) -> impl Iterator<Item = &StageCheck> {
        let differs = |check: &&StageCheck| matches!(check.outcome, Outcome::Differs { .. });
        self.checks.iter().filter(differs)
    }
}

/// What is said of a view that can't be read by itself.
pub(crate) fn not_read(why: &str) -> String {
    format!("{why}, and its table answers")
}

/// A run of a key range that was compared.
struct Checked {
    check: StageCheck,
    /// All of its files.
    files: BTreeSet<String>,
    /// Those that hold wrong rows, or were made of such.
    wrong: BTreeSet<String>,
    /// Damaged files that were met, if any.
    damage: Vec<Error>,
}

/// Compares a share of a table's rows, from 0 to 1; `progress` hears how much of it is done.
pub(crate) async fn verify_table(
    shared: &Shared,
    events: &mpsc::UnboundedSender<Event>,
    (name, share): (&str, f64),
    progress: &(dyn Fn(f64) + Sync),
) -> Result<TableReport> {
    let mut report = TableReport::default();
    // By check, where one tells of it.
    let mut damage: Vec<(Option<usize>, Error)> = Vec::new();
    let mut was_wrong = false;
    for pass in 0..PASSES_MAX {
        let (verifier, state) = Verifier::begin(shared, (name, share))?;
        let mut checked = verifier.runs(&state, progress).await?;
        // What is pinned is not replaced.
        drop(verifier);
        let differs = checked.iter().any(|checked| !checked.wrong.is_empty());
        if differs {
            was_wrong = true;
            condemn(events, &mut checked).await?;
            wait_for_runs(shared, &mut checked).await;
        }
        for checked in checked {
            let is_new = pass == 0 || !checked.wrong.is_empty();
            let at = is_new.then_some(report.checks.len());
            damage.extend(checked.damage.into_iter().map(|error| (at, error)));
            report.checks.extend(is_new.then_some(checked.check));
        }
        let is_healed =
            |check: &StageCheck| matches!(check.outcome, Outcome::Differs { healed: true, .. });
        if !differs || !report.differing().all(is_healed) {
            break;
        }
    }
    let (verifier, state) = Verifier::begin(shared, (name, share))?;
    let views = verifier.manifest.views_of(state.table.id);
    let views: Vec<TableId> = views.map(|view| view.table.id).collect();
    drop(verifier);
    let mut rebuilt = Vec::new();
    for (at, view) in views.iter().enumerate() {
        // Each in the newest manifest: what an older one names may be gone.
        let (verifier, _) = Verifier::begin(shared, (name, share))?;
        let Some(view) = verifier.manifest.views.get(view) else {
            continue;
        };
        let (check, met) = verifier.view(view).await?;
        damage.extend(met.map(|error| (Some(report.checks.len()), error)));
        if was_wrong || matches!(check.outcome, Outcome::Differs { .. }) {
            rebuilt.push((report.checks.len(), view.table.primary.id));
        }
        report.checks.push(check);
        progress(0.9 + 0.1 * (at + 1) as f64 / views.len() as f64);
    }
    rebuild(shared, events, &rebuilt, &mut report).await?;
    settle_damage(shared, damage, &mut report).await;
    progress(1.0);
    Ok(report)
}

struct Verifier<'v> {
    shared: &'v Shared,
    share: f64,
    unsorted: Vec<Arc<UnsortedScu>>,
    recompute: Recompute,
    manifest: Arc<Manifest>,
    pin: Pin,
}

impl<'v> Verifier<'v> {
    /// Over the newest manifest; and the table in it.
    fn begin(
        shared: &'v Shared,
        (name, share): (&str, f64),
    ) -> Result<(Verifier<'v>, Arc<TableState>)> {
        // The unsorted SCUs first: what is sorted between the two looks is then in both.
        let unsorted = shared.ingest.unsorted();
        let pin = shared
            .reader
            .pins
            .pin("VERIFY TABLE", || shared.manifests.current());
        let manifest = Arc::clone(pin.manifest());
        let sorted = manifest.sorted_through;
        let state = Arc::clone(manifest.table_named(name).ok_or_else(|| no_table(name))?);
        let unsorted = unsorted.iter().filter(|scu| scu.scu() > sorted);
        let unsorted: Vec<_> = unsorted.cloned().collect();
        let verifier = Verifier {
            shared,
            share,
            recompute: Recompute::new(&shared.reader, &manifest, unsorted.clone(), shared.now()),
            unsorted,
            manifest,
            pin,
        };
        Ok((verifier, state))
    }

    /// Compares all runs of a table and of its key map.
    async fn runs(
        &self,
        state: &Arc<TableState>,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Vec<Checked>> {
        let map = state.table.owned_id().map(|(_, map)| map);
        let map = map.and_then(|map| self.manifest.tables.get(&map));
        let tables = [state].into_iter().chain(map);
        let pairs = tables.flat_map(|table| {
            let pairs = stage_pairs(&self.manifest, table).into_iter();
            pairs.map(move |pair| (table, pair))
        });
        let pairs: Vec<(&Arc<TableState>, StagePair)> = pairs.collect();
        let mut checked = Vec::new();
        for (table, pair) in &pairs {
            checked.push(self.run(table, pair).await?);
            progress(0.9 * checked.len() as f64 / pairs.len() as f64);
            self.pin.check()?;
        }
        Ok(checked)
    }
}

impl Verifier<'_> {
    /// Compares a run, and names its files that hold other rows than they should.
    async fn run(&self, table: &TableState, pair: &StagePair) -> Result<Checked> {
        let runs = pair.runs.iter();
        let segments = runs.flat_map(|run| segments_in(run, &pair.range));
        let mut checked = Checked {
            check: StageCheck {
                of: table.table.name.clone(),
                stage: match pair.kind() {
                    RunKind::Sorted => "sorted",
                    RunKind::Merged => "merged",
                    RunKind::Base => "authority",
                },
                span: pair.span(),
                rows: 0,
                outcome: Outcome::Same,
            },
            files: segments.map(|segment| segment.file.clone()).collect(),
            wrong: BTreeSet::new(),
            damage: Vec::new(),
        };
        let ways = match &pair.ways {
            Ok(ways) => ways,
            Err(reason) => {
                checked.check.outcome = Outcome::NotCompared(reason.clone());
                checked.damage = self.read_back(table, pair).await?;
                return Ok(checked);
            }
        };
        let compared = async {
            let last = pair.runs.iter().map(|run| run.changes_through).max();
            let layout = self.shared.layout_at(table, last.unwrap_or_default())?;
            let random = &*self.shared.env.random;
            let recompute = &self.recompute;
            let ranges = recompute.sample(&layout, pair, self.share, random).await?;
            recompute.compare(table.table.id, pair, ways, &ranges).await
        };
        match compared.await {
            Ok(Comparison {
                rows,
                differing,
                told,
                files,
            }) => {
                checked.check.rows = rows;
                if differing > 0 {
                    checked.wrong = files;
                    checked.check.outcome = Outcome::Differs {
                        rows: differing,
                        told,
                        healed: false,
                    };
                }
            }
            Err(error) => {
                // Without the pin a file may be gone by right.
                self.pin.check()?;
                let (outcome, met) = self.not_compared(error, &checked.check)?;
                checked.check.outcome = outcome;
                checked.damage.extend(met);
            }
        }
        Ok(checked)
    }

    /// Reads the files of a run that can't be compared; of a sample their indexes alone. Those that
    /// are damaged.
    async fn read_back(&self, table: &TableState, pair: &StagePair) -> Result<Vec<Error>> {
        let mut damage = Vec::new();
        for run in &pair.runs {
            let layout = self.shared.layout_at(table, run.changes_through)?;
            for segment in segments_in(run, &pair.range) {
                let read = match condemned(self.shared, &segment.file) {
                    Some(error) => Err(error),
                    None if self.share >= 1.0 => read_back(self.shared, &layout, segment).await,
                    None => {
                        let (env, counters) = (&self.shared.env, ReadCounters::default());
                        let opened = Segment::open(env, &layout, Arc::clone(segment), &counters);
                        opened.await.map(drop)
                    }
                };
                match read {
                    Err(error) if error.damaged_file().is_some() => {
                        self.pin.check()?;
                        damage.push(self.met(error, &table.table.name, run.span));
                    }
                    read => read?,
                }
            }
        }
        Ok(damage)
    }

    /// Compares what a view shows with its table's rows; and the damage that it met.
    async fn view(&self, view: &TableState) -> Result<(StageCheck, Option<Error>)> {
        let mut check = StageCheck {
            of: view.table.name.clone(),
            stage: "view",
            span: Span::base(self.manifest.sorted_through),
            rows: 0,
            outcome: Outcome::Same,
        };
        let compared = async {
            let snapshot = self.snapshot(view.table.view_of)?;
            let found = self.view_at(&snapshot, view.table.id).await;
            if found.is_err() {
                snapshot.check_pin()?;
            }
            found
        };
        let mut damage = None;
        check.outcome = match compared.await {
            Err(error) => {
                let (outcome, met) = self.not_compared(error, &check)?;
                damage = met;
                outcome
            }
            Ok(Err(why)) => Outcome::NotCompared(not_read(why)),
            Ok(Ok(found)) if found.compared == 0 && found.wrong == 0 && self.share < 1.0 => {
                Outcome::NotCompared("the sample drew none of its rows".to_owned())
            }
            Ok(Ok(found)) => {
                check.rows = found.compared;
                match found.wrong {
                    0 => Outcome::Same,
                    rows => Outcome::Differs {
                        rows,
                        told: found.told,
                        healed: false,
                    },
                }
            }
        };
        Ok((check, damage))
    }

    /// Compares the entries of a view with its table's rows; or why it can't be.
    async fn view_at(
        &self,
        snapshot: &Snapshot,
        view: TableId,
    ) -> Result<Result<WrongEntries, &'static str>> {
        let random = &*self.shared.env.random;
        let found = snapshot.wrong_entries(view, self.share, random).await?;
        let Some(mut found) = found else {
            return Ok(Err(snapshot.why_unread(view)));
        };
        if self.share >= 1.0 && found.wrong == 0 {
            // Rows that it lacks show only where all of both are looked at.
            if let ViewCheck::Differs { rows, told } = snapshot.check_view(view).await? {
                found.wrong = rows;
                found.told.push(told);
            }
        }
        Ok(Ok(found))
    }

    fn snapshot(&self, of: Option<TableId>) -> Result<Snapshot> {
        let reader = &self.shared.reader;
        reader.snapshot(SnapshotAsk {
            pin: reader
                .pins
                .pin("VERIFY TABLE", || Arc::clone(self.pin.manifest())),
            unsorted: self.unsorted.clone(),
            now_micros: self.shared.now(),
            freshness: Freshness::BestEffort,
            floor: Horizon::ZERO,
            on_miss: OnMiss::Dig,
            at: Some(AsOf::Scu(self.manifest.sorted_through)),
            tables: of.map(|table| vec![table]),
        })
    }

    /// Why a comparison could not be made, where others still can; and the damage, if it is that.
    fn not_compared(&self, error: Error, check: &StageCheck) -> Result<(Outcome, Option<Error>)> {
        if error.damaged_file().is_some() {
            let outcome = Outcome::NotCompared(error.message().to_owned());
            return Ok((outcome, Some(self.met(error, &check.of, check.span))));
        }
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Corrupt => {
                Ok((Outcome::NotCompared(error.to_string()), None))
            }
            _ => Err(error),
        }
    }

    /// Damage that was met, with the place of what it keeps from being read.
    fn met(&self, error: Error, of: &str, span: Span) -> Error {
        self.shared.reader.damaged.note(&error);
        let mut runs = self.manifest.runs.values();
        let named = runs.find(|run| {
            let mut files = run.segments.iter().map(|segment| segment.file.as_str());
            files.any(|file| error.damaged_file() == Some(file))
        });
        let place = match named {
            Some(run) => place_of(&self.manifest, run),
            None => format!("table {of:?}, SCUs {span}"),
        };
        error.with_detail(place)
    }
}

/// Waits until it is known what becomes of damaged files, and says what is not good again.
async fn settle_damage(
    shared: &Shared,
    damage: Vec<(Option<usize>, Error)>,
    report: &mut TableReport,
) {
    let begin = shared.env.clock.monotonic();
    for (check, error) in damage {
        let file = error.damaged_file().unwrap_or_default();
        let (told, hint) = match fate_of(shared, file, begin).await {
            Fate::Whole => {
                let outcome = check.map(|check| &mut report.checks[check].outcome);
                if let Some(Outcome::NotCompared(why)) = outcome {
                    *why = format!("{}: it is whole again", error.message());
                }
                continue;
            }
            Fate::Lost => (
                "no earlier stage holds these rows",
                "restore the file from a backup; other tables can be read",
            ),
            Fate::Waits => (
                "it is not made again yet",
                "`lazybase status` shows what becomes of it",
            ),
        };
        let known = |known: &Error| known.damaged_file() == Some(file);
        if !report.damage.iter().any(known) {
            let place = error.detail().unwrap_or_default();
            let told = error.clone().with_detail(format!("{place}: {told}"));
            report.damage.push(told.with_hint(hint));
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, "the database is closed")
}

/// Has what differs made again, and what was made of it: that differs too, whatever it was compared
/// with.
async fn condemn(events: &mpsc::UnboundedSender<Event>, checked: &mut [Checked]) -> Result<()> {
    let mut errors = Vec::new();
    for Checked { check, wrong, .. } in checked.iter() {
        let what = format!(
            "holds other rows of {:?}, SCUs {}, than the stage before it",
            check.of, check.span
        );
        let named = |file: &String| Error::corrupt(format!("{file} {what}")).with_file(file);
        errors.extend(wrong.iter().map(named));
    }
    let (reply, answer) = oneshot::channel();
    let condemn = Command::Condemn { errors, reply };
    events.send(Event::Asked(condemn)).map_err(|_| closed())?;
    let made = answer.await.map_err(|_| closed())?;
    for checked in checked {
        let derived: Vec<(&String, &Error)> = made
            .iter()
            .filter(|(file, _)| checked.files.contains(*file))
            .collect();
        let Some((_, error)) = derived.first() else {
            continue;
        };
        let told = vec![error.message().to_owned()];
        if !matches!(checked.check.outcome, Outcome::Differs { .. }) {
            checked.check.outcome = Outcome::Differs {
                rows: 0,
                told,
                healed: false,
            };
        }
        checked
            .wrong
            .extend(derived.into_iter().map(|(file, _)| file.clone()));
    }
    Ok(())
}

/// Waits until nothing names what is wrong, or it is known that it can't be made again.
async fn wait_for_runs(shared: &Shared, checked: &mut [Checked]) {
    let begin = shared.env.clock.monotonic();
    let late = || shared.env.clock.monotonic().saturating_sub(begin) > HEALING_MAX;
    for Checked { check, wrong, .. } in checked {
        let Outcome::Differs { told, healed, .. } = &mut check.outcome else {
            continue;
        };
        loop {
            let manifest = shared.manifests.current();
            let mut segments = manifest.runs.values().flat_map(|run| &run.segments);
            if !segments.any(|segment| wrong.contains(&segment.file)) {
                *healed = true;
                break;
            }
            let is_lost = wrong.iter().any(|file| {
                let board = shared.tasks.lock();
                let status = board.damage.get(file);
                status.is_some_and(|status| status.state == DamageState::Lost)
            });
            if is_lost {
                told.push("it could not be made again: no earlier stage holds its rows".into());
            }
            if is_lost || late() {
                break;
            }
            shared.env.clock.sleep(LOOK_EVERY).await;
        }
    }
}

/// Has views built again, and waits for it.
async fn rebuild(
    shared: &Shared,
    events: &mpsc::UnboundedSender<Event>,
    views: &[(usize, ViewId)],
    report: &mut TableReport,
) -> Result<()> {
    let mut resets = Vec::new();
    for (check, view) in views {
        let (reply, answer) = oneshot::channel();
        let rebuild = Command::RebuildView { view: *view, reply };
        events.send(Event::Asked(rebuild)).map_err(|_| closed())?;
        if let Some(number) = answer.await.map_err(|_| closed())?? {
            resets.push((*check, *view, number));
        }
    }
    let begin = shared.env.clock.monotonic();
    let late = || shared.env.clock.monotonic().saturating_sub(begin) > HEALING_MAX;
    for (check, view, number) in resets {
        let Outcome::Differs { healed, .. } = &mut report.checks[check].outcome else {
            continue;
        };
        loop {
            let manifest = shared.manifests.current();
            let is_built = manifest.table_of_view(view).is_none_or(|state| {
                state.created_after.0 > 0 || manifest.view_end(state) == manifest.sorted_through
            });
            *healed = manifest.number >= number && is_built;
            // While nothing builds it, its table answers.
            let is_paused = shared.tasks.lock().paused.contains(&StageName::Authority);
            if *healed || is_paused || late() {
                break;
            }
            shared.env.clock.sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}
