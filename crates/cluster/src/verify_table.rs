//! `VERIFY TABLE`: what a later stage holds is compared with what an earlier stage makes of the
//! same changes, run by run and view by view.
//!
//! ```text
//!   run ------ late and early way to its end (engine, recompute) --same--> said
//!                      \--differs--> its file and all that was made of it count as damaged:
//!                                    made again, oldest first; then all is compared once more
//!   view ----- its table, healed, at one boundary --differs--> built again
//! ```
//!
//! A checksum says that a file is what was written; this says that what was written is right. What
//! was made of a wrong run agrees with it, so a run is only known to be right when all that came
//! before it is; views are compared last, and begin again wherever a run of their table was wrong.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::manifest::{Manifest, Pin, RunKind, TableState};
use lazybase_engine::read::paths::segments_in;
use lazybase_engine::read::recompute::{
    Comparison, Recompute, StagePair, WrongEntries, stage_pairs,
};
use lazybase_engine::read::{AsOf, Snapshot, SnapshotAsk, ViewCheck};
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_model::{Error, ErrorKind, Freshness, Horizon, OnMiss, Result, Span, TableId, ViewId};
use tokio::sync::{mpsc, oneshot};

use crate::coordinator::{Command, Event, no_table};
use crate::shared::{DamageState, Shared};
use crate::task::StageName;

/// How long it waits for what differs to be made again.
const HEALING_MAX: Duration = Duration::from_secs(60);
/// How often all runs are compared, at most, until those that were made again are right.
const PASSES_MAX: usize = 4;
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What `VERIFY TABLE` compared.
#[derive(Debug, Clone, Default)]
pub struct TableReport {
    /// Each run of the table, of its key map, and each of its views.
    pub checks: Vec<StageCheck>,
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
}

/// Compares a share of a table's rows, from 0 to 1; `progress` hears how much of it is done.
pub(crate) async fn verify_table(
    shared: &Shared,
    events: &mpsc::UnboundedSender<Event>,
    (name, share): (&str, f64),
    progress: &(dyn Fn(f64) + Sync),
) -> Result<TableReport> {
    let mut report = TableReport::default();
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
        let is_new = |checked: &Checked| pass == 0 || !checked.wrong.is_empty();
        let checks = checked.into_iter().filter(is_new);
        report.checks.extend(checks.map(|checked| checked.check));
        let is_healed =
            |check: &StageCheck| matches!(check.outcome, Outcome::Differs { healed: true, .. });
        if !differs || !report.differing().all(is_healed) {
            break;
        }
    }
    let (verifier, state) = Verifier::begin(shared, (name, share))?;
    let views: Vec<Arc<TableState>> = verifier
        .manifest
        .views_of(state.table.id)
        .cloned()
        .collect();
    let mut rebuilt = Vec::new();
    for (at, view) in views.iter().enumerate() {
        let check = verifier.view(view).await?;
        if was_wrong || matches!(check.outcome, Outcome::Differs { .. }) {
            rebuilt.push((report.checks.len(), view.table.primary.id));
        }
        report.checks.push(check);
        progress(0.9 + 0.1 * (at + 1) as f64 / views.len() as f64);
    }
    drop(verifier);
    rebuild(shared, events, &rebuilt, &mut report).await?;
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
            recompute: Recompute::new(&shared.reader, unsorted.clone(), shared.now()),
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
            let (check, wrong) = self.run(table, pair).await?;
            let segments = pair
                .runs
                .iter()
                .flat_map(|run| segments_in(run, &pair.range));
            checked.push(Checked {
                check,
                files: segments.map(|segment| segment.file.clone()).collect(),
                wrong: wrong.unwrap_or_default(),
            });
            progress(0.9 * checked.len() as f64 / pairs.len() as f64);
            self.pin.check()?;
        }
        Ok(checked)
    }
}

impl Verifier<'_> {
    /// Compares a run, and names its files that hold other rows than they should.
    async fn run(
        &self,
        table: &TableState,
        pair: &StagePair,
    ) -> Result<(StageCheck, Option<BTreeSet<String>>)> {
        let mut check = StageCheck {
            of: table.table.name.clone(),
            stage: match pair.kind() {
                RunKind::Sorted => "sorted",
                RunKind::Merged => "merged",
                RunKind::Base => "authority",
            },
            span: pair.span(),
            rows: 0,
            outcome: Outcome::Same,
        };
        let ways = match &pair.ways {
            Ok(ways) => ways,
            Err(reason) => {
                check.outcome = Outcome::NotCompared(reason.clone());
                return Ok((check, None));
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
        let found = match compared.await {
            Ok(found) => found,
            Err(error) => {
                check.outcome = self.not_compared(error)?;
                return Ok((check, None));
            }
        };
        let Comparison {
            rows,
            differing,
            told,
            files,
        } = found;
        check.rows = rows;
        if differing == 0 {
            return Ok((check, None));
        }
        check.outcome = Outcome::Differs {
            rows: differing,
            told,
            healed: false,
        };
        Ok((check, Some(files)))
    }

    /// Compares what a view shows with its table's rows.
    async fn view(&self, view: &TableState) -> Result<StageCheck> {
        let mut check = StageCheck {
            of: view.table.name.clone(),
            stage: "view",
            span: Span::base(self.manifest.sorted_through),
            rows: 0,
            outcome: Outcome::Same,
        };
        let compared = async {
            let snapshot = self.snapshot(view.table.view_of)?;
            self.view_at(&snapshot, view.table.id).await
        };
        check.outcome = match compared.await {
            Err(error) => self.not_compared(error)?,
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
        Ok(check)
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

    /// Why a comparison could not be made, where others still can.
    fn not_compared(&self, error: Error) -> Result<Outcome> {
        if error.damaged_file().is_some() {
            self.shared.reader.damaged.note(&error);
            return Ok(Outcome::NotCompared(error.to_string()));
        }
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Corrupt => {
                Ok(Outcome::NotCompared(error.to_string()))
            }
            _ => Err(error),
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
