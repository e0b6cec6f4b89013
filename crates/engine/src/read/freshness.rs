//! Freshness to sources: which horizon an answer has, and what is read for it (section 3.7 of the
//! paper).
//!
//! 1. The bound says the least horizon that satisfies it: everything acknowledged before now minus
//!    the bound, and nothing before the session's floor.
//! 2. Of all horizons from there on that current runs lead to, the one with the least estimated
//!    work is taken, and the freshest of equal ones. Work is counted in bytes of the authority:
//!    see [`super::paths`].
//! 3. For that horizon, each key range is answered by its cheapest path of sorted runs, and by the
//!    batches after them that no stage has sorted.
//!
//! Best effort stands at the common horizon. Reads a [`ReadIndex`] and the acknowledged batches
//! after it; a pure function. Invariant FRS-1: a horizon never lies before the floor, whatever
//! the bound; FRS-2: `FRESHNESS 0` holds everything acknowledged, by order and not by a clock.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use lazybase_model::freshness::DisplayDuration;
use lazybase_model::{Error, ErrorKind, Freshness, Horizon, OnMiss, Result, ScuNumber, TableId};

use super::paths::{ReadIndex, TablePath, TablePaths, UNSORTED_WORK, WORK_PRECISION};
use crate::env::planted::{Planted, is_planted};

#[cfg(test)]
mod tests;

/// When the batches of an unsorted SCU were acknowledged, in microseconds since 1970.
#[derive(Debug, Clone)]
pub enum Acks {
    /// Each batch, in the order of commit frames.
    Each(Arc<[i64]>),
    /// The first and last of so many: a horizon then takes all of them or none.
    Between {
        /// The first batch's.
        first_micros: i64,
        /// The last batch's.
        last_micros: i64,
        /// How many batches there are.
        batches: u32,
    },
}

impl Acks {
    fn batches(&self) -> u32 {
        match self {
            Acks::Each(micros) => micros.len() as u32,
            Acks::Between { batches, .. } => *batches,
        }
    }

    /// When batch `at` (from 0) was acknowledged; no later than it was.
    fn at(&self, at: u32) -> Option<i64> {
        match self {
            Acks::Each(micros) => micros.get(at as usize).copied(),
            Acks::Between { first_micros, .. } => (at < self.batches()).then_some(*first_micros),
        }
    }

    fn last(&self) -> Option<i64> {
        match self {
            Acks::Each(micros) => micros.last().copied(),
            Acks::Between { last_micros, .. } => Some(*last_micros),
        }
    }

    /// The least count of batches that holds all that were acknowledged before `micros`.
    fn acknowledged_before(&self, micros: i64) -> u32 {
        match self {
            Acks::Each(each) => match each.iter().rposition(|ack| *ack < micros) {
                Some(last) => last as u32 + 1,
                None => 0,
            },
            Acks::Between {
                first_micros,
                batches,
                ..
            } => match *first_micros < micros {
                true => *batches,
                false => 0,
            },
        }
    }
}

/// What an SCU that is not sorted holds: sealed, or still open.
#[derive(Debug, Clone)]
pub struct UnsortedSummary {
    /// Its number.
    pub scu: ScuNumber,
    /// Whether it is sealed: no batch will join it.
    pub sealed: bool,
    /// Its acknowledged batches.
    pub acks: Acks,
    /// The bytes of its rows, by table; a table that is not named has no rows in it.
    pub bytes: BTreeMap<TableId, u64>,
}

impl UnsortedSummary {
    /// The horizon after its first `batches` batches.
    fn horizon(&self, batches: u32) -> Horizon {
        match self.sealed && batches >= self.acks.batches() {
            true => Horizon::end_of(self.scu),
            false => Horizon::inside(self.scu, batches),
        }
    }
}

/// What the choice is made from.
#[derive(Debug, Clone, Copy)]
pub struct FreshnessInput<'a> {
    /// The pinned manifest's paths and times.
    pub index: &'a ReadIndex,
    /// Every SCU after those that are sorted, the open one included, oldest first. SCUs that the
    /// manifest knows as sorted are passed over.
    pub unsorted: &'a [UnsortedSummary],
    /// The coordinator's clock, microseconds since 1970.
    pub now_micros: i64,
    /// The bound.
    pub freshness: Freshness,
    /// What the session has seen or was told to see: the answer is never older.
    pub floor: Horizon,
    /// What to do when the bound needs unsorted sources.
    pub on_miss: OnMiss,
    /// `AS OF`: exactly this horizon, whatever bound and floor say.
    pub at: Option<Horizon>,
    /// The tables that the query reads; all of them if not given.
    pub tables: Option<&'a [TableId]>,
}

/// A bound that sorted data alone does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Miss {
    /// The least horizon that meets bound and floor: once everything up to it is sorted, the same
    /// question needs no unsorted source.
    pub needed: Horizon,
    /// How far sorting has come.
    pub sorted_through: ScuNumber,
    /// How stale the freshest answer from sorted data would be.
    pub sorted_staleness: Duration,
}

/// What best effort would have cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cheaper {
    /// How stale the best-effort answer is.
    pub staleness: Duration,
    /// Its work.
    pub work: u64,
}

/// A horizon and the sources of an answer at it.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The answer holds exactly the batches up to here.
    pub horizon: Horizon,
    /// Up to this boundary the answer comes from sorted runs.
    pub sorted: ScuNumber,
    /// The sorted runs of each table that the query reads, by table id.
    pub paths: Vec<Arc<TablePath>>,
    /// The unsorted SCUs with rows of those tables, oldest first, and how many batches of each.
    pub unsorted_scus: Vec<(ScuNumber, u32)>,
    /// When the first batch after the horizon was acknowledged, or now if there is none.
    pub as_of_micros: i64,
    /// How stale that is.
    pub staleness: Duration,
    /// Acknowledged batches after the horizon.
    pub batches_left_out: u64,
    /// The work of reading it, in bytes of the authority.
    pub estimated_work: u64,
    /// Set if the bound is not met by sorted data alone. Under `ON MISS WAIT` the caller waits
    /// for it, then chooses again; every other answer to a miss is in the choice already.
    pub miss: Option<Miss>,
    /// Set if best effort would have cost at most half of it, and less by more than
    /// [`WORK_PRECISION`]: what is small is cheap enough.
    pub cheaper: Option<Cheaper>,
}

/// A horizon on its way to be chosen: a boundary of sorted runs, and after it `prefix` batches of
/// the unsorted SCUs.
#[derive(Debug, Clone, Copy)]
struct Target {
    sorted: ScuNumber,
    /// How many unsorted SCUs count, and how many batches of the last of them.
    scus: usize,
    batches: u32,
}

/// Chooses horizon and sources.
///
/// # Errors
/// - `Unavailable` under `ON MISS ERROR`, saying how stale the best answer from sorted data is.
/// - `Invalid` for a floor or an `AS OF` after everything acknowledged, and for an `AS OF` that
///   can't be answered any more, naming the oldest that can.
/// - `NotFound` for a table that the manifest does not have.
/// - `Internal` if the summaries leave an SCU out.
pub fn choose(input: &FreshnessInput<'_>) -> Result<Choice> {
    let chooser = Chooser::new(input)?;
    if let Some(at) = input.at {
        let target = chooser.exactly(at)?;
        return chooser.choice(target, None);
    }
    let floor = chooser.target_of(input.floor)?;
    let bound = match input.freshness {
        Freshness::BestEffort => chooser.sorted_target(input.index.common_horizon()),
        Freshness::Within(bound) if bound.is_zero() => chooser.everything(),
        Freshness::Within(bound) => chooser.acknowledged_before(cutoff(input.now_micros, bound)),
    };
    let best_effort = input.freshness == Freshness::BestEffort;
    if best_effort && chooser.horizon(floor) <= chooser.horizon(bound) {
        return chooser.choice(bound, None);
    }
    let needed = chooser.newer(bound, floor);
    let target = chooser.cheapest_from(needed)?;
    if chooser.unsorted_work(target) == 0 {
        return chooser.choice(target, None);
    }
    let miss = chooser.miss(needed);
    // A floor is a promise and not a bound: it is kept by digging.
    let target = match input.on_miss {
        _ if best_effort || chooser.unsorted_work(bound) == 0 => target,
        OnMiss::Dig | OnMiss::Wait(_) => target,
        OnMiss::Stale => chooser.newer(chooser.sorted_target(input.index.sorted_through), floor),
        OnMiss::Error => return Err(missed(input.freshness, &miss)),
    };
    chooser.choice(target, Some(miss))
}

/// The newest boundary whose every batch was acknowledged at or before `micros`: what
/// `AS OF TIMESTAMP` means. The open SCU has no boundary yet.
///
/// # Errors
/// `Invalid` if that was before all times that are kept.
pub fn boundary_at(
    index: &ReadIndex,
    unsorted: &[UnsortedSummary],
    micros: i64,
) -> Result<Horizon> {
    let sealed = unsorted
        .iter()
        .filter(|summary| summary.sealed && summary.scu > index.sealed_through)
        .take_while(|summary| summary.acks.last().is_none_or(|last| last <= micros));
    let known = index
        .times
        .partition_point(|(_, time)| time.last_ack_micros <= micros);
    if known == index.times.len()
        && let Some(newest) = sealed.last()
    {
        return Ok(Horizon::end_of(newest.scu));
    }
    match (known, index.times.first()) {
        (0, Some((oldest, _))) if *oldest > ScuNumber(1) => Err(Error::invalid(
            "the time asked for lies before everything that is kept",
        )
        .with_detail(format!("the oldest time kept is that of SCU {oldest}"))
        .with_hint("ask for a later time, or raise retention, or superseded_bytes_max")
        .with_sqlstate("72000")),
        (0, _) => Ok(Horizon::ZERO),
        (known, _) => Ok(Horizon::end_of(index.times[known - 1].0)),
    }
}

fn cutoff(now_micros: i64, bound: Duration) -> i64 {
    let bound = i64::try_from(bound.as_micros()).unwrap_or(i64::MAX);
    let bound = match is_planted(Planted::BoundDoubled) {
        true => bound.saturating_mul(2),
        false => bound,
    };
    now_micros.saturating_sub(bound)
}

/// The SQLSTATE of a bound that is not met: its own, so that clients tell it from a lack of room.
const MISSED: &str = "53L01";

fn missed(freshness: Freshness, miss: &Miss) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("sorted data does not meet FRESHNESS {freshness}"),
    )
    .with_detail(format!(
        "the best answer from sorted data is {} stale, as of SCU {}",
        DisplayDuration(miss.sorted_staleness),
        miss.sorted_through,
    ))
    .with_hint("use ON MISS DIG, WAIT or STALE, or a larger bound")
    .with_sqlstate(MISSED)
}

struct Chooser<'a> {
    input: &'a FreshnessInput<'a>,
    index: &'a ReadIndex,
    /// The SCUs right after those that are sorted.
    unsorted: &'a [UnsortedSummary],
    tables: Vec<&'a TablePaths>,
    ids: Vec<TableId>,
}

impl<'a> Chooser<'a> {
    fn new(input: &'a FreshnessInput<'a>) -> Result<Chooser<'a>> {
        let index = input.index;
        let sorted = index.sorted_through;
        let begin = input
            .unsorted
            .partition_point(|summary| summary.scu <= sorted);
        let unsorted = &input.unsorted[begin..];
        let expected = (sorted.0 + 1..).map(ScuNumber);
        if let Some((summary, _)) = unsorted.iter().zip(expected).find(|(s, n)| s.scu != *n) {
            return Err(Error::internal(format!(
                "unsorted SCUs are not complete: {} follows {sorted}",
                summary.scu
            )));
        }
        if (unsorted.len() as u64) < index.sealed_through.0 - sorted.0 {
            return Err(Error::internal("unsorted SCUs are missing"));
        }
        let mut ids: Vec<TableId> = match input.tables {
            Some(tables) => tables.to_vec(),
            None => index.tables.keys().copied().collect(),
        };
        ids.sort_unstable();
        ids.dedup();
        let tables: Result<Vec<&TablePaths>> = ids
            .iter()
            .map(|id| {
                let missing = || Error::not_found(format!("there is no table {id}"));
                index.tables.get(id).ok_or_else(missing)
            })
            .collect();
        Ok(Chooser {
            input,
            index,
            unsorted,
            tables: tables?,
            ids,
        })
    }

    fn sorted_target(&self, sorted: ScuNumber) -> Target {
        Target {
            sorted,
            scus: 0,
            batches: 0,
        }
    }

    /// The target of all batches of the first `scus` unsorted SCUs, but only `batches` of the last.
    fn unsorted_target(&self, scus: usize, batches: u32) -> Target {
        Target {
            sorted: self.index.sorted_through,
            scus,
            batches,
        }
    }

    fn everything(&self) -> Target {
        match self.unsorted.last() {
            Some(last) => self.unsorted_target(self.unsorted.len(), last.acks.batches()),
            None => self.sorted_target(self.index.sorted_through),
        }
    }

    /// The least target that holds everything acknowledged before `micros`.
    fn acknowledged_before(&self, micros: i64) -> Target {
        for (at, summary) in self.unsorted.iter().enumerate().rev() {
            let batches = summary.acks.acknowledged_before(micros);
            if batches > 0 {
                return self.unsorted_target(at + 1, batches);
            }
        }
        let times = &self.index.times;
        let sorted = times.partition_point(|(scu, _)| *scu <= self.index.sorted_through);
        let needed = times[..sorted].partition_point(|(_, time)| time.first_ack_micros < micros);
        match needed {
            0 => self.sorted_target(ScuNumber::ZERO),
            needed => self.sorted_target(times[needed - 1].0),
        }
    }

    /// The least target at or after a horizon.
    fn target_of(&self, horizon: Horizon) -> Result<Target> {
        let sorted = self.index.sorted_through;
        if horizon.scu <= sorted {
            return Ok(self.sorted_target(horizon.scu));
        }
        let at = (horizon.scu.0 - sorted.0 - 1) as usize;
        let target = self.unsorted.get(at).map(|summary| {
            let batches = horizon.batches.0.min(summary.acks.batches());
            self.unsorted_target(at + 1, batches)
        });
        match target {
            Some(target) if self.horizon(target) >= horizon => Ok(target),
            _ => Err(Error::invalid(format!(
                "horizon {horizon} lies after everything acknowledged"
            ))
            .with_detail(format!("the newest is {}", self.horizon(self.everything())))),
        }
    }

    fn horizon(&self, target: Target) -> Horizon {
        match target.scus {
            0 => Horizon::end_of(target.sorted),
            scus => self.unsorted[scus - 1].horizon(target.batches),
        }
    }

    fn newer(&self, one: Target, other: Target) -> Target {
        match self.horizon(one) >= self.horizon(other) {
            true => one,
            false => other,
        }
    }

    /// Of all targets from `needed` on, the one with the least work; the freshest of equal ones.
    fn cheapest_from(&self, needed: Target) -> Result<Target> {
        if needed.scus > 0 {
            return Ok(self.extended(needed));
        }
        let sorted = self.index.sorted_through;
        let works: Vec<(u64, ScuNumber)> = self
            .candidates(needed.sorted.0..=sorted.0)
            .into_iter()
            .filter(|boundary| self.is_worth_reading(*boundary))
            .filter_map(|boundary| Some((self.sorted_work(boundary)?, boundary)))
            .collect();
        let Some(least) = works.iter().map(|(work, _)| *work).min() else {
            return Err(self.no_path(sorted));
        };
        let most = least + (least / 8).max(WORK_PRECISION);
        let best = works.iter().rev().find(|(work, _)| *work <= most);
        match best {
            Some((_, boundary)) if *boundary < sorted => Ok(self.sorted_target(*boundary)),
            _ => Ok(self.extended(self.sorted_target(sorted))),
        }
    }

    /// Less data is always less work. So a choice among horizons is one among current runs, and
    /// never falls to what merges have replaced or to the time before a table began.
    fn is_worth_reading(&self, boundary: ScuNumber) -> bool {
        let mut ranges = self.tables.iter().flat_map(|table| &table.ranges);
        boundary == self.index.sorted_through
            || boundary == self.index.common_horizon()
            || ranges.all(|range| range.is_current(boundary))
    }

    /// The boundaries worth a look, oldest first: where some range stops being reached alike.
    fn candidates(&self, within: RangeInclusive<u64>) -> Vec<ScuNumber> {
        let newest = *within.end();
        if *within.start() == newest {
            return vec![ScuNumber(newest)];
        }
        let ranges = self.tables.iter().flat_map(|table| &table.ranges);
        let mut ends: Vec<u64> = ranges
            .flat_map(|range| range.stretch_ends())
            .chain([newest, self.index.common_horizon().0])
            .filter(|end| within.contains(end))
            .collect();
        ends.sort_unstable();
        ends.dedup();
        ends.into_iter().map(ScuNumber).collect()
    }

    /// The same answer made fresher at no cost: SCUs without rows of the query's tables.
    fn extended(&self, target: Target) -> Target {
        let mut target = target;
        if target.scus > 0 && self.bytes(&self.unsorted[target.scus - 1]) == 0 {
            target.batches = self.unsorted[target.scus - 1].acks.batches();
        }
        while self.takes_all_of_last(target) {
            match self.unsorted.get(target.scus) {
                Some(next) if self.bytes(next) == 0 => {
                    target = self.unsorted_target(target.scus + 1, next.acks.batches());
                }
                _ => break,
            }
        }
        target
    }

    fn takes_all_of_last(&self, target: Target) -> bool {
        match target.scus {
            0 => true,
            scus => target.batches == self.unsorted[scus - 1].acks.batches(),
        }
    }

    fn bytes(&self, summary: &UnsortedSummary) -> u64 {
        self.ids.iter().filter_map(|id| summary.bytes.get(id)).sum()
    }

    /// The work of the unsorted part. One at least if there is anything to read.
    fn unsorted_work(&self, target: Target) -> u64 {
        let scus = self.unsorted[..target.scus].iter().enumerate();
        scus.map(|(at, summary)| {
            let bytes = self.bytes(summary);
            let all = u64::from(summary.acks.batches().max(1));
            let share = match at + 1 == target.scus {
                true => u64::from(target.batches),
                false => all,
            };
            (bytes * UNSORTED_WORK).saturating_mul(share).div_ceil(all)
        })
        .sum()
    }

    fn sorted_work(&self, boundary: ScuNumber) -> Option<u64> {
        self.tables
            .iter()
            .map(|table| table.least_work(boundary))
            .sum()
    }

    /// The target of `AS OF`: this horizon and no other.
    fn exactly(&self, at: Horizon) -> Result<Target> {
        let target = self.target_of(at)?;
        let boundary = at.is_boundary() || self.is_end_of_sorted(at);
        if target.scus > 0 || (boundary && self.can_answer(target.sorted)) {
            return Ok(target);
        }
        Err(self.no_path(at.scu))
    }

    /// Whether a horizon inside a sorted SCU holds all of its batches.
    fn is_end_of_sorted(&self, at: Horizon) -> bool {
        let through = |scu| self.batches_through(scu);
        at.scu <= self.index.sorted_through
            && through(at.scu) == through(at.scu.previous()) + u64::from(at.batches.0)
    }

    fn no_path(&self, at: ScuNumber) -> Error {
        if let Some(lost) = self.tables.iter().find_map(|table| table.lost_at(at)) {
            return lost;
        }
        let newest = self.index.sorted_through;
        if at == newest {
            let broken = self
                .tables
                .iter()
                .find(|table| table.least_work(newest).is_none());
            let name = broken.map_or("", |table| table.name.as_str());
            return Error::corrupt(format!(
                "table {name:?}: no runs lead to the newest boundary {newest}"
            ));
        }
        // Before the oldest of the tables that are read there is nothing to answer from; those that
        // came later are empty there.
        let created = self
            .tables
            .iter()
            .map(|table| table.created_after.0 + 1)
            .min();
        let candidates = self.candidates(created.unwrap_or(0).min(newest.0)..=newest.0);
        let answerable = |boundary: &ScuNumber| self.can_answer(*boundary);
        let oldest = candidates.into_iter().find(answerable).unwrap_or(newest);
        Error::invalid(format!("the state as of SCU {at} is no longer kept"))
            .with_detail(format!("the oldest that can be answered is SCU {oldest}"))
            .with_hint("ask for a later one, or raise retention, or superseded_bytes_max")
            .with_sqlstate("72000")
    }

    fn miss(&self, needed: Target) -> Miss {
        let sorted = self.sorted_target(self.index.sorted_through);
        Miss {
            needed: self.horizon(needed),
            sorted_through: sorted.sorted,
            sorted_staleness: self.staleness(self.as_of(sorted)),
        }
    }

    fn staleness(&self, as_of_micros: i64) -> Duration {
        let micros = self.input.now_micros.saturating_sub(as_of_micros);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// When the first batch after the target was acknowledged, or now.
    fn as_of(&self, target: Target) -> i64 {
        let now = self.input.now_micros;
        if target.sorted < self.index.sorted_through {
            let known = self.sorted_as_of(target.sorted);
            return known.map_or(0, |known| known.min(now));
        }
        let inside = target.scus.checked_sub(1).map(|at| &self.unsorted[at]);
        let next = inside.and_then(|summary| summary.acks.at(target.batches));
        let mut after = self.unsorted[target.scus..].iter();
        next.or_else(|| after.find_map(|summary| summary.acks.at(0)))
            .unwrap_or(now)
            .min(now)
    }

    /// When the first batch after an older boundary was written, as far as times are kept.
    fn sorted_as_of(&self, boundary: ScuNumber) -> Option<i64> {
        let times = &self.index.times;
        let at = times.partition_point(|(scu, _)| *scu <= boundary);
        let next = times.get(at).filter(|(scu, _)| *scu == boundary.next());
        let last = at.checked_sub(1).map(|at| times[at].1.last_ack_micros);
        next.map(|(_, time)| time.first_ack_micros).or(last)
    }

    /// Whether a boundary can be answered: runs lead there, and it is known as of when it is true,
    /// which decides about rows that end by themselves.
    fn can_answer(&self, boundary: ScuNumber) -> bool {
        let has_time =
            boundary == self.index.sorted_through || self.sorted_as_of(boundary).is_some();
        has_time && self.sorted_work(boundary).is_some()
    }

    /// All batches up to the end of a sorted SCU.
    fn batches_through(&self, scu: ScuNumber) -> u64 {
        let times = &self.index.times;
        let known = times.partition_point(|(known, _)| *known <= scu);
        known
            .checked_sub(1)
            .map_or(0, |at| times[at].1.batches_through)
    }

    fn batches_after(&self, target: Target) -> u64 {
        let sorted = self.index.sorted_through;
        let merged = self.batches_through(sorted) - self.batches_through(target.sorted);
        let before: u64 = match target.scus {
            0 => 0,
            scus => {
                let whole = &self.unsorted[..scus - 1];
                whole
                    .iter()
                    .map(|s| u64::from(s.acks.batches()))
                    .sum::<u64>()
                    + u64::from(target.batches)
            }
        };
        let all: u64 = self
            .unsorted
            .iter()
            .map(|s| u64::from(s.acks.batches()))
            .sum();
        merged + all - before
    }

    fn choice(&self, target: Target, miss: Option<Miss>) -> Result<Choice> {
        let paths: Option<Vec<Arc<TablePath>>> = self
            .tables
            .iter()
            .map(|table| self.index.path(table, target.sorted))
            .collect();
        let paths = paths.ok_or_else(|| self.no_path(target.sorted))?;
        let unsorted = self.unsorted[..target.scus].iter().enumerate();
        let unsorted_scus = unsorted.filter_map(|(at, summary)| {
            let batches = match at + 1 == target.scus {
                true => target.batches,
                false => summary.acks.batches(),
            };
            (self.bytes(summary) > 0 && batches > 0).then_some((summary.scu, batches))
        });
        let as_of_micros = self.as_of(target);
        let sorted_work: u64 = paths.iter().map(|path| path.work).sum();
        let estimated_work = sorted_work + self.unsorted_work(target);
        Ok(Choice {
            horizon: self.horizon(target),
            sorted: target.sorted,
            unsorted_scus: unsorted_scus.collect(),
            as_of_micros,
            staleness: self.staleness(as_of_micros),
            batches_left_out: self.batches_after(target),
            estimated_work,
            miss,
            cheaper: self.cheaper(target, estimated_work),
            paths,
        })
    }

    fn cheaper(&self, target: Target, estimated_work: u64) -> Option<Cheaper> {
        let common = self.index.common_horizon();
        if common == target.sorted && target.scus == 0 {
            return None;
        }
        let common = self.sorted_target(common);
        let paths = self.tables.iter();
        let work: Option<u64> = paths
            .map(|table| self.index.path(table, common.sorted).map(|path| path.work))
            .sum();
        let saved = |work: u64| estimated_work.saturating_sub(work);
        let is_much = |work: &u64| *work <= estimated_work / 2 && saved(*work) > WORK_PRECISION;
        let work = work.filter(is_much)?;
        let staleness = self.staleness(self.as_of(common));
        (!staleness.is_zero()).then_some(Cheaper { staleness, work })
    }
}
