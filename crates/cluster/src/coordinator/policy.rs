//! The merge policy: from a manifest and the load to proposals of stage work, most urgent first
//! (section 3.3 of the paper: the merge tree).
//!
//! Sorted runs are joined into larger ones, and those into the authority, so that a read meets few
//! runs and each byte is written few times:
//!
//! 1. **Rounds.** A range that a best-effort read would meet with too many runs begins a round: it
//!    is merged up to the newest sorted boundary. Every range of every view with too many runs
//!    there is merged up to the same boundary before the next round begins, so that all of them
//!    can end at it. Several SCUs come in meanwhile: the slower the merges, the larger the rounds.
//! 2. **Windows.** A merge takes the newest runs of a range, as few as it must; then older ones as
//!    long as each is not much larger than all that is newer (`size_ratio`). Of the authority only
//!    the segments count that have to be rewritten. So sizes grow from run to run, and a byte is
//!    written once for each step. Under even load all ranges would reach their authority at
//!    once, and a round would last minutes: each range has a ratio of its own for that step.
//! 3. **Rest.** When nothing comes in, everything goes to the authority; where that takes long, a
//!    last round makes best effort fresh before. So does what has come to
//!    rest in one range: the later, the dearer it is. What somebody waits for goes there as soon as
//!    it is sorted, each range once, whatever else comes in.
//! 4. **Expiry.** A base of which whole segments have ended, by the table's time to live, is
//!    written anew without them, by itself: its other segments are moved.
//! 5. **Targets.** A table that says how stale an answer of few runs may be comes first where that
//!    is older than half of it, with a round of its own: before other tables' rounds, and before
//!    sorts that are not pressing.
//! 6. **Ranges** are cut where their base outgrows a merge task, and where all runs together fill
//!    several; the last one at its end when keys rise, so that new rows do not rewrite old ones.
//!
//! Reads [`Manifest`] and [`Load`]; no clock, no I/O. Invariants: a proposal takes adjacent current
//! runs that no running task reads; a settled state has no proposals.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::key::Key;
use lazybase_engine::manifest::{Manifest, RunId, RunKind};
use lazybase_model::limits::{
    BEST_EFFORT_RUNS_MAX, MERGE_FAN_IN, MERGE_TASK_BYTES, RANGE_SPLIT_BYTES, RUNS_PER_RANGE_MAX,
    UNSORTED_BYTES_MAX,
};
use lazybase_model::{ScuNumber, ViewId};

use crate::settings::Settings;
use chain::{Chain, Link};
use chains::Chains;
use targets::Late;

pub(super) use look::Look;
pub use targets::cheap_behind_micros;

mod chain;
mod chains;
mod look;
mod targets;
mod views;

#[cfg(test)]
mod tests;

/// What operators can set, and tests vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySettings {
    /// How many runs a merge joins; merges into the authority may join three times as many.
    pub fan_in: usize,
    /// The most runs that a best-effort read should meet in a range.
    pub runs_best: usize,
    /// How many runs more a range may have at the newest boundary before a round begins.
    pub runs_slack: usize,
    /// An older run joins a merge if it is at most this many times as large as all newer ones.
    pub size_ratio: u64,
    /// Bytes that one merge task should read at most.
    pub task_bytes: u64,
    /// The size of a range's base at which the range is cut.
    pub split_bytes: u64,
    /// The bytes from which on a segment that nothing overlaps is moved, not rewritten.
    pub move_bytes_min: u64,
    /// How many SCUs are sorted at once.
    pub sorts_max: usize,
    /// How long after the last acknowledgement everything goes to the authority.
    pub idle_after: Duration,
    /// Unsorted bytes beyond which writers wait.
    pub unsorted_bytes_max: u64,
    /// Runs over a range beyond which writers wait.
    pub runs_per_range_max: usize,
}

impl PolicySettings {
    /// As the database's settings say.
    pub(crate) fn of(settings: &Settings) -> PolicySettings {
        PolicySettings {
            fan_in: settings.merge_fan_in.max(2),
            task_bytes: settings.merge_task_bytes,
            split_bytes: settings.range_split_bytes,
            move_bytes_min: settings.move_bytes_min(),
            unsorted_bytes_max: settings.unsorted_bytes_max,
            ..PolicySettings::default()
        }
    }
}

impl Default for PolicySettings {
    fn default() -> Self {
        PolicySettings {
            fan_in: MERGE_FAN_IN,
            runs_best: BEST_EFFORT_RUNS_MAX,
            runs_slack: 1,
            size_ratio: 4,
            task_bytes: MERGE_TASK_BYTES,
            split_bytes: RANGE_SPLIT_BYTES,
            move_bytes_min: Settings::default().move_bytes_min(),
            sorts_max: 4,
            idle_after: Duration::from_millis(500),
            unsorted_bytes_max: UNSORTED_BYTES_MAX,
            runs_per_range_max: RUNS_PER_RANGE_MAX,
        }
    }
}

/// A task that was handed out and whose edit is not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunningTask {
    /// SCUs are remapped, one attempt at a time.
    Remap,
    /// An SCU is sorted, or sorted and waiting for those before it.
    Sort {
        /// Which.
        scu: ScuNumber,
    },
    /// Runs of a range are merged.
    Merge {
        /// The view.
        view: ViewId,
        /// The range's least key.
        low: Option<Key>,
        /// The runs.
        inputs: Vec<RunId>,
    },
    /// A secondary view is brought to a boundary.
    Advance {
        /// The view.
        view: ViewId,
        /// The boundary.
        to: ScuNumber,
    },
    /// Damaged runs are made again; their newer forms may be merged meanwhile.
    Heal {
        /// The runs.
        runs: Vec<RunId>,
    },
    /// Suspected files are read back.
    Check {
        /// Their names.
        files: Vec<String>,
    },
}

/// What the policy knows beside the manifest.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// What is being done.
    pub running: &'a [RunningTask],
    /// How long ago the last batch was acknowledged.
    pub idle_for: Duration,
    /// The coordinator's clock, in microseconds since 1970.
    pub now_micros: i64,
    /// Acknowledged batches of the open SCU.
    pub open_batches: u64,
    /// Uncompressed bytes of the open SCU and of those that are sealed and not sorted.
    pub unsorted_bytes: u64,
    /// Up to where somebody waits for the authority; zero where nobody does.
    pub awaited_through: ScuNumber,
    /// The settings.
    pub settings: &'a PolicySettings,
}

impl Load<'_> {
    /// How much is unsorted, in thousandths of what may be; not more than all of it.
    fn pressure(&self) -> u64 {
        let most = self.settings.unsorted_bytes_max.max(1);
        (self.unsorted_bytes.saturating_mul(1000) / most).min(1000)
    }

    /// How urgent it is what somebody waits for: it comes before any sort of what that one does
    /// not wait for, or where sorting lags for ever it would never be done.
    fn awaited_urgency(&self) -> u64 {
        URGENCY_LATE + self.pressure()
    }

    /// Up to where somebody waits for the authority, once all of that is sorted.
    fn awaited(&self, manifest: &Manifest) -> Option<ScuNumber> {
        let through = Some(self.awaited_through).filter(|through| *through > ScuNumber::ZERO);
        through.filter(|through| *through <= manifest.sorted_through)
    }
}

/// Stage work that should be done. What is decided and recorded is a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal {
    /// Give numbers to the natural keys of all SCUs after those that have them: a backlog is
    /// remapped together.
    Remap {
        /// The first.
        first: ScuNumber,
        /// The last.
        last: ScuNumber,
    },
    /// Sort an SCU. Several may be sorted at once; they are adopted in order.
    Sort {
        /// Which.
        scu: ScuNumber,
    },
    /// Join adjacent runs of one range.
    Merge {
        /// The view.
        view: ViewId,
        /// The range's least key, which names it.
        low: Option<Key>,
        /// The runs, oldest first, parts of one SCU together.
        inputs: Vec<RunId>,
        /// What comes of it: `Base` if the base is among the inputs, else `Merged`.
        output: RunKind,
        /// Larger is more urgent.
        urgency: u64,
    },
    /// Bring a secondary view to a newer boundary.
    Advance {
        /// The view.
        view: ViewId,
        /// Where it ends.
        from: ScuNumber,
        /// Where it is to end.
        to: ScuNumber,
    },
    /// Cut a range in two: an edit, no work.
    Split {
        /// The view.
        view: ViewId,
        /// The range's least key, which names it.
        low: Option<Key>,
        /// The least key of the new range.
        at: Key,
    },
}

/// A proposal on its way to be sorted: by urgency, then by cost.
struct Ranked {
    urgency: u64,
    bytes: u64,
    proposal: Proposal,
}

const URGENCY_SPLIT: u64 = 10_000;
const URGENCY_REMAP: u64 = 5_000;
const URGENCY_LATE: u64 = 600;
const URGENCY_SORT: u64 = 100;
const URGENCY_ROUND: u64 = 100;
const URGENCY_IDLE: u64 = 50;
const URGENCY_REST: u64 = 10;
const URGENCY_FOLD: u64 = 5;
const URGENCY_EXPIRED: u64 = 20;

/// After so many SCUs without a change a range has come to rest, if merging it is cheap.
const REST_SCUS: u64 = 8;
/// The same where merging it is dear.
const REST_SCUS_MAX: u64 = 512;
/// Bytes that an idle database may rewrite at once; for more it waits longer, as a pause in a
/// stream is soon over.
const IDLE_BYTES: u64 = 48 << 20;
/// How often a longer pause counts before that.
const IDLE_FACTOR: u32 = 3;
/// A range whose runs fill so many merge tasks is cut before they are merged: a range is merged by
/// one worker at a time, and the others would look on.
const CROWDED_TASKS: u64 = 2;
/// So many SCUs of a backlog are remapped together.
const REMAP_SCUS_MAX: usize = 64;
/// So many runs without data in a range are folded into the run before them.
const FOLD_LINKS: usize = 32;

/// What should be done, most urgent first.
pub fn propose(manifest: &Manifest, load: &Load<'_>) -> Vec<Proposal> {
    let chains = Chains::of(manifest, load.running);
    let late = Late::of(manifest, load, &chains);
    propose_of(manifest, load, &chains, late)
}

/// The same, where the chains and what is late are known.
fn propose_of(manifest: &Manifest, load: &Load<'_>, chains: &Chains, late: Late) -> Vec<Proposal> {
    let policy = Policy::new(manifest, load, chains, late);
    let mut ranked = policy.sorts();
    ranked.extend(views::advances(manifest, load, policy.idle));
    ranked.extend(policy.remap());
    let (split, chains): (Vec<_>, Vec<_>) = policy
        .chains
        .iter()
        .map(|chain| (chain, policy.split(chain)))
        .partition(|(_, split)| split.is_some());
    // A range that is to be cut gets no new merges: it is cut when those that run are done.
    let quiet = split.into_iter().filter(|(chain, _)| !chain.is_busy());
    ranked.extend(quiet.filter_map(|(_, split)| split));
    for (chain, _) in chains {
        policy.merges(chain, &mut ranked);
    }
    ranked.sort_by_key(|ranked| (Reverse(ranked.urgency), ranked.bytes));
    ranked.into_iter().map(|ranked| ranked.proposal).collect()
}

/// Why writers have to wait for sorts, if they have to.
pub(super) fn too_much_unsorted(load: &Load<'_>) -> Option<String> {
    let most = load.settings.unsorted_bytes_max;
    (load.unsorted_bytes > most).then(|| {
        format!(
            "{} MiB are not sorted yet, {} MiB may be",
            load.unsorted_bytes >> 20,
            most >> 20,
        )
    })
}

struct Policy<'a> {
    manifest: &'a Manifest,
    load: &'a Load<'a>,
    settings: &'a PolicySettings,
    chains: Vec<Arc<Chain>>,
    /// Merges end here, in all ranges.
    boundary: ScuNumber,
    /// Whether a round is on: ranges with too many runs at the boundary are merged.
    round: bool,
    /// Tables that are late by their targets have rounds of their own.
    late: Late,
    /// Whether everything goes to the authority.
    idle: bool,
    /// Whether that takes so little that nothing else need be done first.
    soon_over: bool,
}

impl<'a> Policy<'a> {
    fn new(manifest: &'a Manifest, load: &'a Load<'a>, chains: &Chains, late: Late) -> Policy<'a> {
        let settings = load.settings;
        let tables = manifest.tables.values().chain(manifest.views.values());
        let chains: Vec<Arc<Chain>> = tables
            .flat_map(|table| chains.of_state(table).iter().cloned())
            .collect();
        let newest = manifest.sorted_through;
        let unfinished = unfinished(&chains, settings);
        let full = most_sources(&chains, newest) > settings.runs_best + settings.runs_slack;
        let still = load.open_batches == 0 && newest == manifest.sealed_through;
        let rewritten = rewritten_by_rest(&chains, settings);
        let pause = match rewritten <= IDLE_BYTES {
            true => settings.idle_after,
            false => settings.idle_after * IDLE_FACTOR,
        };
        let idle = still && load.idle_for >= pause;
        Policy {
            manifest,
            load,
            settings,
            boundary: unfinished.filter(|_| !idle).unwrap_or(newest),
            round: unfinished.is_some() || full || idle,
            late,
            idle,
            soon_over: rewritten <= IDLE_BYTES,
            chains,
        }
    }

    /// Sorts wait for it, so it comes before them.
    fn remap(&self) -> Option<Ranked> {
        let remapped = self.manifest.remapped_through();
        let busy = self.load.running.contains(&RunningTask::Remap);
        let waiting = self.manifest.scus.range(remapped.next()..);
        let last = waiting.take(REMAP_SCUS_MAX).last().map(|(scu, _)| *scu);
        let last = last.filter(|_| !busy)?;
        Some(Ranked {
            urgency: URGENCY_REMAP,
            bytes: 0,
            proposal: Proposal::Remap {
                first: remapped.next(),
                last,
            },
        })
    }

    fn sorts(&self) -> Vec<Ranked> {
        let busy = |scu: ScuNumber| {
            let task = RunningTask::Sort { scu };
            self.load.running.contains(&task)
        };
        let running = self.load.running.iter();
        let running = running.filter(|task| matches!(task, RunningTask::Sort { .. }));
        let room = self.settings.sorts_max.saturating_sub(running.count());
        let waiting = self
            .manifest
            .scus
            .range(self.manifest.sorted_through.next()..);
        let remapped = self.manifest.remapped_through();
        waiting
            .take_while(|(scu, _)| **scu <= remapped)
            .filter(|(scu, _)| !busy(**scu))
            .take(room)
            .map(|(scu, _)| Ranked {
                urgency: match self.late.wants(*scu) {
                    true => URGENCY_LATE + self.load.pressure(),
                    false => URGENCY_SORT + self.load.pressure(),
                },
                // The oldest first: the others wait for it.
                bytes: scu.0,
                proposal: Proposal::Sort { scu: *scu },
            })
            .collect()
    }

    /// A cut that comes before any further merge of the range.
    fn split(&self, chain: &Chain) -> Option<Ranked> {
        Some(Ranked {
            urgency: URGENCY_SPLIT,
            bytes: 0,
            proposal: Proposal::Split {
                view: chain.view,
                low: chain.low.clone(),
                at: self.cut(chain)?,
            },
        })
    }

    /// Where the range should be cut, if it should.
    fn cut(&self, chain: &Chain) -> Option<Key> {
        let base = chain.base()?;
        let most = self.settings.split_bytes.min(self.settings.task_bytes);
        if base.bytes > most {
            // A base of one segment has no middle.
            let middle = chain.middle().or_else(|| chain.middle_of_all());
            middle.or_else(|| chain.rising_edge())
        } else if chain.bytes() > most.saturating_mul(CROWDED_TASKS) {
            chain.middle_of_all()
        } else if base.bytes >= self.settings.split_bytes / 2 {
            chain.rising_edge()
        } else {
            None
        }
    }

    fn merges(&self, chain: &Chain, ranked: &mut Vec<Ranked>) {
        if let Some(base) = chain.expired(self.manifest) {
            self.push(
                chain,
                std::slice::from_ref(base),
                URGENCY_EXPIRED,
                base.bytes,
                ranked,
            );
            return;
        }
        if let Some(end) = self.awaited(chain) {
            self.merge(chain, 0, end, self.load.awaited_urgency(), ranked);
            return;
        }
        let late = self.late.round_of(chain.view).filter(|_| !self.idle);
        let boundary = late.unwrap_or(self.boundary);
        let end = chain.links_to(boundary);
        let free = chain.links[..end].iter().rposition(|link| link.busy);
        let begin = free.map_or(0, |busy| busy + 1);
        if end - begin < 2 {
            return;
        }
        let sources = chain.sources_to(boundary);
        if self.idle && (self.soon_over || sources <= self.settings.runs_best) {
            // Everything at once, as soon as nothing else is going on in the range.
            if begin == 0 {
                self.merge(chain, 0, end, URGENCY_IDLE, ranked);
            }
            return;
        }
        if (self.round || late.is_some()) && sources > self.settings.runs_best {
            let over = chain.sources_to(self.manifest.sorted_through) - self.settings.runs_best;
            let urgency = match late {
                Some(_) => URGENCY_LATE + 10 * over as u64,
                None => URGENCY_ROUND + 10 * over as u64,
            };
            let from = self.window(chain, begin, end);
            self.merge(chain, from, end, urgency, ranked);
        } else if begin == 0 && chain.bytes_after_base() > 0 && self.has_come_to_rest(chain, end) {
            self.merge(chain, 0, end, URGENCY_REST, ranked);
        } else {
            self.fold(chain, begin, end, ranked);
        }
    }

    /// How many links of a range go to the authority for somebody who waits for them, however much
    /// comes in behind. At rest all of them go there by themselves.
    fn awaited(&self, chain: &Chain) -> Option<usize> {
        let through = self.load.awaited(self.manifest)?;
        chain.links_to_reach(through).filter(|_| !self.idle)
    }

    /// Where a merge of the newest links begins.
    fn window(&self, chain: &Chain, begin: usize, end: usize) -> usize {
        let links = &chain.links;
        let before = |from: usize| links[..from].iter().map(|link| link.sources).sum::<usize>();
        let mut from = end - 1;
        while from > begin && (end - from < 2 || before(from) + 1 > self.settings.runs_best) {
            from -= 1;
        }
        let mut bytes: u64 = links[from..end].iter().map(|link| link.bytes).sum();
        while from > begin {
            let cost = chain.rewritten(from - 1, end, self.settings.move_bytes_min);
            let eighths = match links[from - 1].kind {
                RunKind::Base => chain.eighths(),
                RunKind::Sorted | RunKind::Merged => 8,
            };
            if cost > bytes.saturating_mul(self.settings.size_ratio) / 8 * eighths {
                break;
            }
            from -= 1;
            bytes += cost;
        }
        from
    }

    /// Whether nothing changed in the range for long, compared with what a merge would cost.
    fn has_come_to_rest(&self, chain: &Chain, end: usize) -> bool {
        let newest = chain.newest_change();
        let rest = self.manifest.sorted_through.0.saturating_sub(newest.0);
        if rest < REST_SCUS {
            return false;
        }
        let cost = chain.rewritten_of_first(end, self.settings.move_bytes_min);
        let after = chain.bytes_after_base().max(1);
        rest >= REST_SCUS + (cost / after).saturating_mul(16).min(REST_SCUS_MAX)
    }

    /// Runs without data in the range go into the run before them: nothing is rewritten.
    fn fold(&self, chain: &Chain, begin: usize, end: usize, ranked: &mut Vec<Ranked>) {
        let links = &chain.links[begin..end];
        if links.len() <= FOLD_LINKS {
            return;
        }
        let mut first = 0;
        for at in 1..=links.len() {
            if links.get(at).is_some_and(|link| link.sources == 0) {
                continue;
            }
            if at - first > FOLD_LINKS {
                let urgency = URGENCY_FOLD;
                self.push(
                    chain,
                    &chain.links[begin + first..begin + at],
                    urgency,
                    0,
                    ranked,
                );
            }
            first = at;
        }
    }

    /// Proposes to merge the links `from..end`; those after the base in groups first where those of
    /// them that hold anything are too many for one merge.
    fn merge(
        &self,
        chain: &Chain,
        from: usize,
        end: usize,
        urgency: u64,
        ranked: &mut Vec<Ranked>,
    ) {
        let links = &chain.links[from..end];
        let sources = links.iter().filter(|link| link.sources > 0).count();
        let with_base = links[0].kind == RunKind::Base;
        let most = match with_base {
            true => 3 * self.settings.fan_in,
            false => self.settings.fan_in,
        };
        if sources <= most {
            let bytes = links.iter().map(|link| link.bytes).sum();
            self.push(chain, links, urgency, bytes, ranked);
            return;
        }
        // What was joined before waits until nothing else is left to join: it is not written anew
        // for each group behind it.
        let newer = &links[usize::from(with_base)..];
        let is_large = |group: &&[Link]| group.iter().filter(|link| link.sources > 0).count() > 1;
        let sorted = newer.chunk_by(|one, next| one.kind == next.kind);
        let sorted = sorted.filter(|stretch| stretch[0].kind == RunKind::Sorted);
        let fan_in = self.settings.fan_in;
        let mut joined: Vec<&[Link]> = sorted
            .flat_map(|stretch| groups(stretch, fan_in))
            .filter(is_large)
            .collect();
        if joined.is_empty() {
            joined = groups(newer, fan_in).filter(is_large).collect();
        }
        for group in joined {
            let bytes = group.iter().map(|link| link.bytes).sum();
            self.push(chain, group, urgency, bytes, ranked);
        }
    }

    fn push(
        &self,
        chain: &Chain,
        links: &[Link],
        urgency: u64,
        bytes: u64,
        ranked: &mut Vec<Ranked>,
    ) {
        let output = match links[0].kind {
            RunKind::Base => RunKind::Base,
            RunKind::Sorted | RunKind::Merged => RunKind::Merged,
        };
        ranked.push(Ranked {
            urgency,
            bytes,
            proposal: Proposal::Merge {
                view: chain.view,
                low: chain.low.clone(),
                inputs: links
                    .iter()
                    .flat_map(|link| link.runs.iter().copied())
                    .collect(),
                output,
                urgency,
            },
        });
    }
}

/// Neighbours in groups of at most so many with data in the range; those without cost a merge
/// nothing, and go with what is before them.
fn groups(links: &[Link], sources_max: usize) -> impl Iterator<Item = &[Link]> {
    let mut rest = links;
    std::iter::from_fn(move || {
        let mut sources = 0;
        let is_too_much = |link: &Link| {
            sources += usize::from(link.sources > 0);
            sources > sources_max
        };
        let end = rest.iter().position(is_too_much).unwrap_or(rest.len());
        let (group, after) = rest.split_at(end);
        rest = after;
        (!group.is_empty()).then_some(group)
    })
}

/// The most runs that a reader meets in any of the ranges if it ends at `boundary`.
fn most_sources(chains: &[Arc<Chain>], boundary: ScuNumber) -> usize {
    let sources = chains.iter().map(|chain| chain.sources_to(boundary));
    sources.max().unwrap_or(0)
}

/// Where the round ends that these ranges are in, if one is not at its end.
fn unfinished(chains: &[Arc<Chain>], settings: &PolicySettings) -> Option<ScuNumber> {
    let front = chains.iter().map(|chain| chain.front()).max()?;
    (most_sources(chains, front) > settings.runs_best).then_some(front)
}

/// The bytes that are rewritten when everything goes to the authority.
fn rewritten_by_rest(chains: &[Arc<Chain>], settings: &PolicySettings) -> u64 {
    let open = chains.iter().filter(|chain| chain.links.len() > 1);
    open.map(|chain| chain.rewritten_of_first(chain.links.len(), settings.move_bytes_min))
        .sum()
}
