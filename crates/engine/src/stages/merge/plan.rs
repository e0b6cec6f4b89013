//! Which parts of a merge need any work (section 3.8 of the paper: extents that overlap nothing
//! are copied whole).
//!
//! Pure: reads what the indexes of the input runs say, writes a list of steps in key order.
//!
//! 1. The inputs fall into atoms: extents where the index is known, whole segments where not.
//! 2. Atoms whose keys touch are merged together, in stretches as small as that allows.
//! 3. An atom that touches no other, lies inside the range, and may stand in the output as it is,
//!    is free. A segment of which all atoms are free, with nothing between them, moves: the output
//!    names the same file. Other free extents are copied as bytes, where their columns are the
//!    output's; but one that is small is merged together with a neighbour that is merged or small.
//! 4. All else is merged, in key stretches that begin and end where the steps around them do.
//! 5. A stretch is sparse if the oldest input's part of it could stand in the output but for what
//!    newer ones change, and those have few rows beside it.
//!
//! Invariant PLAN-1: steps rise by key and are disjoint; together they hold every row of the
//! inputs inside the range, once. Invariant PLAN-2: a segment that moves lies inside the range.

use std::ops::Range;

use super::MergeMode;
use crate::key::Key;
use crate::manifest::{KeyRange, SegmentFormat};

#[cfg(test)]
mod tests;

/// How many times as many rows the oldest input has in a sparse stretch as all newer ones.
pub const SPARSE_PART: u64 = 8;

/// What an index says about an extent.
#[derive(Debug, Clone)]
pub struct ExtentSummary {
    /// The least key in it.
    pub min: Key,
    /// The greatest key in it.
    pub max: Key,
    /// Whether every row is a whole-row upsert.
    pub all_upserts: bool,
    /// Its stored bytes.
    pub bytes: u64,
    /// Its stored rows.
    pub rows: u64,
    /// Whether it is so small that it had better be joined with others.
    pub is_small: bool,
}

/// What the manifest says about a segment, and its index if that was loaded.
#[derive(Debug, Clone)]
pub struct SegmentSummary {
    /// The least key in it.
    pub min: Key,
    /// The greatest key in it.
    pub max: Key,
    /// Whether every row is a whole-row upsert.
    pub all_upserts: bool,
    /// How its bytes are laid out.
    pub format: SegmentFormat,
    /// Its stored bytes.
    pub bytes: u64,
    /// Its extents, in key order and disjoint.
    pub extents: Option<Vec<ExtentSummary>>,
    /// Whether its extents may stand in the output as bytes: they have the output's columns.
    pub same_columns: bool,
}

/// One run that is merged: its segments, in key order and disjoint.
#[derive(Debug, Clone, Default)]
pub struct InputRun {
    /// The segments.
    pub segments: Vec<SegmentSummary>,
}

/// What the output is to be.
#[derive(Debug, Clone, Copy)]
pub struct PlanTarget {
    /// Changes may stand in the output as they are; in [`MergeMode::Rows`] only upserts.
    pub mode: MergeMode,
    /// Only what has this format may stand in the output as it is.
    pub format: SegmentFormat,
    /// Whether the writer of that format can take extents as bytes.
    pub copies_extents: bool,
    /// Segments with fewer bytes don't move, or small files would live for ever.
    pub move_bytes_min: u64,
    /// How many times as many rows as all newer inputs the oldest one must have in a stretch for
    /// its extents to be patched, each by itself; nothing where they can't be. By default
    /// [`SPARSE_PART`].
    pub sparse_part: Option<u64>,
}

/// One step of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanStep {
    /// A segment becomes part of the output as it is, without any I/O.
    MoveSegment {
        /// The position of its run among the inputs.
        input: usize,
        /// Its position in the run.
        segment: usize,
    },
    /// Extents of a segment are copied as bytes.
    CopyExtents {
        /// The position of the run among the inputs.
        input: usize,
        /// The position of the segment in the run.
        segment: usize,
        /// The positions of the extents in the segment.
        extents: Range<usize>,
    },
    /// The rows of a key stretch go through the merge kernel.
    Merge {
        /// What must be read, by input (older first), then by key.
        parts: Vec<MergePart>,
        /// The keys that count: rows outside are left out. Never wider than the merge's range.
        range: KeyRange,
        /// Whether the parts of newer inputs have so few rows beside those of the oldest that they
        /// had better be held against its extents one by one: what they leave alone of an extent,
        /// rows or columns, can stay as it is stored.
        sparse: bool,
    },
}

/// A part of a segment that a step merges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergePart {
    /// The position of the run among the inputs.
    pub input: usize,
    /// The position of the segment in the run.
    pub segment: usize,
    /// The positions of the extents in the segment; `None` for all that the step's range meets.
    pub extents: Option<Range<usize>>,
}

/// The steps that merge the rows of `inputs`, older runs first, inside `range`.
pub fn plan_merge(inputs: &[InputRun], target: &PlanTarget, range: &KeyRange) -> Vec<PlanStep> {
    let atoms = atoms_of(inputs, target, range);
    let groups: Vec<&[Atom<'_>]> = touching(&atoms)
        .into_iter()
        .map(|group| &atoms[group])
        .collect();
    let fates = with_small_joined(&groups, &fates(inputs, target, &groups));
    let fated: Vec<(Fate, &[Atom<'_>])> = fates.into_iter().zip(groups).collect();
    let mut steps = Steps::new(inputs, target, range);
    let of_one_segment = |a: &(Fate, &[Atom<'_>]), b: &(Fate, &[Atom<'_>])| {
        a.0 == b.0 && a.1[0].segment() == b.1[0].segment()
    };
    for alike in fated.chunk_by(of_one_segment) {
        let (fate, first) = (alike[0].0, &alike[0].1[0]);
        let (input, segment) = first.segment();
        match (fate, first.extent) {
            (Fate::Moved, _) => steps.add(first.min, PlanStep::MoveSegment { input, segment }),
            (Fate::Copied, Some(start)) => {
                let extents = start..start + alike.len();
                let step = PlanStep::CopyExtents {
                    input,
                    segment,
                    extents,
                };
                steps.add(first.min, step);
            }
            (Fate::Copied, None) | (Fate::Merged, _) => {
                alike.iter().for_each(|(_, group)| steps.merge(group));
            }
        }
    }
    steps.finish()
}

/// What becomes of the atoms of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Moved,
    Copied,
    Merged,
}

/// Rule 3, but for what is small: the fate of each group.
fn fates(inputs: &[InputRun], target: &PlanTarget, groups: &[&[Atom<'_>]]) -> Vec<Fate> {
    let free_of = |group: &[Atom<'_>]| is_free(group).then(|| group[0].segment());
    let mut fates = Vec::with_capacity(groups.len());
    for of_segment in groups.chunk_by(|a, b| is_free(a) && free_of(a) == free_of(b)) {
        let first = &of_segment[0][0];
        let segment = &inputs[first.input].segments[first.segment];
        let whole = segment.extents.as_ref().map_or(1, Vec::len) == of_segment.len();
        let copies = target.copies_extents && segment.same_columns && first.extent.is_some();
        let fate = match is_free(of_segment[0]) {
            false => Fate::Merged,
            true if whole && segment.bytes >= target.move_bytes_min => Fate::Moved,
            true if copies => Fate::Copied,
            true => Fate::Merged,
        };
        fates.extend(of_segment.iter().map(|_| fate));
    }
    fates
}

/// Rule 3 for what is small: copied beside what is merged, or beside another small extent, it would
/// stay small for ever.
fn with_small_joined(groups: &[&[Atom<'_>]], fates: &[Fate]) -> Vec<Fate> {
    let is_small = |at: usize| fates[at] == Fate::Copied && groups[at][0].is_small;
    let is_joined = |at: usize| fates[at] == Fate::Merged || is_small(at);
    let of_group = |at: usize| {
        let before = at.checked_sub(1).is_some_and(is_joined);
        let after = at + 1 < fates.len() && is_joined(at + 1);
        match is_small(at) && (before || after) {
            true => Fate::Merged,
            false => fates[at],
        }
    };
    (0..fates.len()).map(of_group).collect()
}

/// The least part that is dealt with alone.
#[derive(Debug, Clone, Copy)]
struct Atom<'a> {
    min: &'a Key,
    max: &'a Key,
    input: usize,
    segment: usize,
    extent: Option<usize>,
    /// Whether it may stand in the output as it is, if nothing touches it.
    fits: bool,
    /// Whether it had better be joined with others.
    is_small: bool,
}

impl Atom<'_> {
    fn segment(&self) -> (usize, usize) {
        (self.input, self.segment)
    }
}

/// Rule 1: the atoms that the range meets, by least key.
fn atoms_of<'a>(inputs: &'a [InputRun], target: &PlanTarget, range: &KeyRange) -> Vec<Atom<'a>> {
    let mut atoms = Vec::new();
    let mut add = |min, max, place: (usize, usize, Option<usize>), is: (bool, bool)| {
        let below = |key: &Key| range.low.as_ref().is_some_and(|low| key < low);
        let above = |key: &Key| range.high.as_ref().is_some_and(|high| key >= high);
        if !below(max) && !above(min) {
            let (input, segment, extent) = place;
            let (content, is_small) = is;
            atoms.push(Atom {
                min,
                max,
                input,
                segment,
                extent,
                fits: content && !below(min) && !above(max),
                is_small,
            });
        }
    };
    for (input, run) in inputs.iter().enumerate() {
        for (at, segment) in run.segments.iter().enumerate() {
            let may = |upserts: bool| {
                let content = target.mode == MergeMode::Changes || upserts;
                content && segment.format == target.format
            };
            match &segment.extents {
                None => {
                    let is = (may(segment.all_upserts), false);
                    add(&segment.min, &segment.max, (input, at, None), is);
                }
                Some(extents) => extents.iter().enumerate().for_each(|(place, extent)| {
                    let content = may(segment.all_upserts || extent.all_upserts);
                    let place = (input, at, Some(place));
                    add(&extent.min, &extent.max, place, (content, extent.is_small));
                }),
            }
        }
    }
    atoms.sort_by(|a, b| a.min.cmp(b.min).then(a.input.cmp(&b.input)));
    atoms
}

/// Rule 2: the groups of atoms whose keys touch, directly or through others.
fn touching(atoms: &[Atom<'_>]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut max: Option<&Key> = None;
    for (at, atom) in atoms.iter().enumerate() {
        match (groups.last_mut(), max) {
            (Some(group), Some(max)) if atom.min <= max => group.end = at + 1,
            _ => groups.push(at..at + 1),
        }
        max = max.max(Some(atom.max));
    }
    groups
}

fn is_free(group: &[Atom<'_>]) -> bool {
    matches!(group, [only] if only.fits)
}

/// The steps so far, and the atoms that the next merge step gets.
struct Steps<'a> {
    inputs: &'a [InputRun],
    target: &'a PlanTarget,
    range: &'a KeyRange,
    steps: Vec<PlanStep>,
    merging: Vec<Atom<'a>>,
}

impl<'a> Steps<'a> {
    fn new(inputs: &'a [InputRun], target: &'a PlanTarget, range: &'a KeyRange) -> Steps<'a> {
        Steps {
            inputs,
            target,
            range,
            steps: Vec::new(),
            merging: Vec::new(),
        }
    }

    fn merge(&mut self, atoms: &[Atom<'a>]) {
        self.merging.extend_from_slice(atoms);
    }

    /// Adds a step whose least key is `min`.
    fn add(&mut self, min: &Key, step: PlanStep) {
        self.end_merge(Some(min.clone()));
        self.steps.push(step);
    }

    fn finish(mut self) -> Vec<PlanStep> {
        self.end_merge(self.range.high.clone());
        self.steps
    }

    fn end_merge(&mut self, high: Option<Key>) {
        let mut atoms = std::mem::take(&mut self.merging);
        let Some(first) = atoms.first() else {
            return;
        };
        let low = Some(first.min).max(self.range.low.as_ref()).cloned();
        let sparse = self.is_sparse(&atoms);
        atoms.sort_by_key(|atom| (atom.segment(), atom.extent));
        let of_segment = atoms.chunk_by(|a, b| a.segment() == b.segment());
        let parts = of_segment.map(|atoms| {
            let first = &atoms[0];
            MergePart {
                input: first.input,
                segment: first.segment,
                extents: first.extent.map(|start| start..start + atoms.len()),
            }
        });
        self.steps.push(PlanStep::Merge {
            parts: parts.collect(),
            range: KeyRange { low, high },
            sparse,
        });
    }

    /// Rule 5.
    fn is_sparse(&self, atoms: &[Atom<'_>]) -> bool {
        let Some(part) = self.target.sparse_part else {
            return false;
        };
        let (mut kept, mut changes) = (0u64, 0u64);
        for atom in atoms {
            let segment = &self.inputs[atom.input].segments[atom.segment];
            let extents = segment.extents.as_ref().zip(atom.extent);
            let rows = extents.map(|(extents, at)| extents[at].rows);
            if atom.input > 0 {
                changes = changes.saturating_add(rows.unwrap_or(u64::MAX));
                continue;
            }
            let stays = segment.format == self.target.format
                && segment.all_upserts
                && segment.same_columns
                && extents.is_some();
            if !stays {
                return false;
            }
            kept += rows.unwrap_or(0);
        }
        changes > 0 && changes.saturating_mul(part) <= kept
    }
}
