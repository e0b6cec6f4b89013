//! `VERIFY TABLE`: what a later stage holds is compared with what an earlier stage makes of the
//! same changes, run by run and view by view.
//!
//! ```text
//!   run ------ late and early way to its end (engine, recompute) --same--> said
//!                                                  \--differs--> its file counts as damaged:
//!                                                                made again from the early stage
//!   view ----- its table, at one boundary ---------\--differs--> built again
//! ```
//!
//! A checksum says that a file is what was written; this says that what was written is right.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::manifest::{Manifest, Pin, RunKind, TableState};
use lazybase_engine::read::recompute::{Comparison, Recompute, StagePair, stage_pairs};
use lazybase_engine::read::{AsOf, Snapshot, SnapshotAsk};
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_model::{Error, ErrorKind, Freshness, Horizon, OnMiss, Result, Span, TableId, ViewId};
use tokio::sync::mpsc;

use crate::coordinator::{Command, Event, no_table};
use crate::shared::Shared;

/// How long it waits for what differs to be made again.
const HEALING_MAX: Duration = Duration::from_secs(60);
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
    /// The SCUs of the run; of a view, all up to its boundary.
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

/// What is to be made again because of a difference.
struct Condemned {
    /// Which check it belongs to.
    check: usize,
    files: BTreeSet<String>,
    /// A secondary view's, which is built anew.
    view: Option<(ViewId, u64)>,
}

/// Compares a share of a table's rows, from 0 to 1; `progress` hears how much of it is done.
pub(crate) async fn verify_table(
    shared: &Shared,
    events: &mpsc::UnboundedSender<Event>,
    (name, share): (&str, f64),
    progress: &(dyn Fn(f64) + Sync),
) -> Result<TableReport> {
    // The unsorted SCUs first: what is sorted between the two looks is then in both.
    let unsorted = shared.ingest.unsorted();
    let pin = shared
        .reader
        .pins
        .pin("VERIFY TABLE", || shared.manifests.current());
    let manifest = Arc::clone(pin.manifest());
    let sorted = manifest.sorted_through;
    let state = manifest.table_named(name).ok_or_else(|| no_table(name))?;
    let unsorted: Vec<_> = unsorted
        .iter()
        .filter(|scu| scu.scu() > sorted)
        .cloned()
        .collect();
    let verifier = Verifier {
        shared,
        share,
        recompute: Recompute::new(&shared.reader, unsorted.clone(), shared.now()),
        manifest: &manifest,
        pin: &pin,
    };
    let map = state.table.owned_id().map(|(_, map)| map);
    let map = map.and_then(|map| manifest.tables.get(&map));
    let tables: Vec<&Arc<TableState>> = [state].into_iter().chain(map).collect();
    let views: Vec<&Arc<TableState>> = manifest.views_of(state.table.id).collect();
    let pairs: Vec<(&Arc<TableState>, StagePair)> = tables
        .iter()
        .flat_map(|table| {
            stage_pairs(&manifest, table)
                .into_iter()
                .map(|pair| (*table, pair))
        })
        .collect();
    let all = (pairs.len() + views.len()).max(1) as f64;
    let mut report = TableReport::default();
    let mut condemned = Vec::new();
    for (table, pair) in &pairs {
        let (check, files) = verifier.run(table, pair).await?;
        condemned.extend(files.map(|files| Condemned {
            check: report.checks.len(),
            files,
            view: None,
        }));
        report.checks.push(check);
        progress(report.checks.len() as f64 / all);
        pin.check()?;
    }
    for view in views {
        let check = verifier.view(view, unsorted.clone()).await?;
        if matches!(check.outcome, Outcome::Differs { .. }) {
            condemned.push(Condemned {
                check: report.checks.len(),
                files: BTreeSet::new(),
                view: Some((view.table.primary.id, manifest.number)),
            });
        }
        report.checks.push(check);
        progress(report.checks.len() as f64 / all);
    }
    // What is pinned is not replaced.
    drop(pin);
    condemn(shared, events, &condemned, &mut report).await?;
    Ok(report)
}

struct Verifier<'v> {
    shared: &'v Shared,
    share: f64,
    recompute: Recompute,
    manifest: &'v Arc<Manifest>,
    pin: &'v Pin,
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
    async fn view(&self, view: &TableState, unsorted: Vec<Arc<UnsortedScu>>) -> Result<StageCheck> {
        let mut check = StageCheck {
            of: view.table.name.clone(),
            stage: "view",
            span: Span::base(self.manifest.sorted_through),
            rows: 0,
            outcome: Outcome::Same,
        };
        let compared = async {
            let snapshot = self.snapshot(unsorted, view.table.view_of)?;
            self.view_at(&snapshot, view.table.id).await
        };
        check.outcome = match compared.await {
            Err(error) => self.not_compared(error)?,
            Ok(None) => {
                let reason = "it is not read by itself now: its table answers";
                Outcome::NotCompared(reason.to_owned())
            }
            Ok(Some((0, told))) if told.is_empty() && self.share < 1.0 => {
                Outcome::NotCompared("the sample drew none of its rows".to_owned())
            }
            Ok(Some((rows, told))) => {
                check.rows = rows;
                match told.is_empty() {
                    true => Outcome::Same,
                    false => Outcome::Differs {
                        rows: told.len() as u64,
                        told,
                        healed: false,
                    },
                }
            }
        };
        Ok(check)
    }

    async fn view_at(
        &self,
        snapshot: &Snapshot,
        view: TableId,
    ) -> Result<Option<(u64, Vec<String>)>> {
        let random = &*self.shared.env.random;
        let found = snapshot.wrong_entries(view, self.share, random).await?;
        let Some((rows, mut told)) = found else {
            return Ok(None);
        };
        if self.share >= 1.0 && told.is_empty() {
            // Rows that it lacks show only where all of both are looked at.
            told.extend(snapshot.view_differs(view).await?);
        }
        Ok(Some((rows, told)))
    }

    fn snapshot(&self, unsorted: Vec<Arc<UnsortedScu>>, of: Option<TableId>) -> Result<Snapshot> {
        let reader = &self.shared.reader;
        reader.snapshot(SnapshotAsk {
            pin: reader
                .pins
                .pin("VERIFY TABLE", || Arc::clone(self.pin.manifest())),
            unsorted,
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

/// Has what differs made again, and waits for it.
async fn condemn(
    shared: &Shared,
    events: &mpsc::UnboundedSender<Event>,
    condemned: &[Condemned],
    report: &mut TableReport,
) -> Result<()> {
    let closed = || Error::new(ErrorKind::Cancelled, "the database is closed");
    for found in condemned {
        let check = &report.checks[found.check];
        let what = format!(
            "holds other rows of {:?}, SCUs {}, than the stage before it",
            check.of, check.span
        );
        for file in &found.files {
            let error = Error::corrupt(format!("{file} {what}")).with_file(file);
            let condemn = Command::Condemn { error };
            events.send(Event::Asked(condemn)).map_err(|_| closed())?;
        }
        if let Some((view, _)) = found.view {
            let rebuild = Command::RebuildView { view };
            events.send(Event::Asked(rebuild)).map_err(|_| closed())?;
        }
    }
    let begin = shared.env.clock.monotonic();
    for found in condemned {
        let is_healed = || {
            let manifest = shared.manifests.current();
            let mut segments = manifest.runs.values().flat_map(|run| &run.segments);
            match found.view {
                Some((view, number)) => {
                    let built = manifest.table_of_view(view).is_none_or(|state| {
                        state.created_after.0 > 0
                            || manifest.view_end(state) == manifest.sorted_through
                    });
                    manifest.number > number && built
                }
                None => {
                    !found.files.is_empty()
                        && !segments.any(|segment| found.files.contains(&segment.file))
                }
            }
        };
        while !is_healed() {
            if shared.env.clock.monotonic().saturating_sub(begin) > HEALING_MAX {
                break;
            }
            shared.env.clock.sleep(LOOK_EVERY).await;
        }
        let now_healed = is_healed();
        if let Outcome::Differs { healed, .. } = &mut report.checks[found.check].outcome {
            *healed = now_healed;
        }
    }
    Ok(())
}
