//! The manifest's named invariants, checked before each commit and after each load.
//!
//! - MAN-1: the ranges of a view cover the key space: disjoint, ordered, without a hole.
//! - MAN-2: the current runs of each range tile SCUs 1 to `sorted_through`, without gap or overlap
//!   (the parts of one sort, numbered from 0, count as one run).
//! - MAN-3: no run ends after `sorted_through`, and `changes_through` lies in the span or right
//!   before it. So `sorted_through` is a boundary that every range can end at.
//! - MAN-4: the first current run of a range is its base, and no other is; base runs begin at SCU 1
//!   and hold whole-row upserts only.
//! - MAN-5: the segments of a run stand by key, disjoint, each with its least key at or before its
//!   greatest, with rows and bytes, and with a name of its own.
//! - MAN-6: numbers only grow: the manifest's (by one), epoch, clock, `sealed_through`,
//!   `sorted_through`, next ids. The database's identity stays.
//! - MAN-7: producers' numbers and epochs only grow, and no producer is forgotten.
//! - MAN-8: every SCU that is sealed but not sorted has its entry; no SCU beyond has.
//! - MAN-9: every run that a range names exists and is of its view; every run is named; a range
//!   names a run once, in order.
//! - MAN-10: times are known, without a gap, from the oldest base's end on to `sealed_through`.
//! - MAN-11: every id lies below its next id; names and views belong to one table; keys name
//!   columns.
//! - MAN-12: the newest batch that came with DDL has a number, and stands in an SCU that is sealed
//!   or the next to be; the entry of that SCU names it, and so does no other after it.
//! - MAN-13: a table's definitions follow each other: versions and boundaries rise, ids and key
//!   stay, and no column's id is that of another column of an earlier definition.
//! - MAN-14: each range of a partitioned table lies in one partition, or in none.
//! - MAN-15: every secondary view is of a table that is there, its columns are that table's with
//!   all labels of theirs, and its key holds the table's. It keeps MAN-1 to MAN-5 as a table does,
//!   but all its ranges end at one boundary of its own, at or before `sorted_through`.
//! - MAN-16: the next numbers of a key map only grow, from SCU to SCU and from manifest to
//!   manifest, each within its partition; they are of maps that are there and of SCUs that are
//!   remapped.
//! - MAN-17: what is kept of older times adjoins, and ends right before the first that is known.
//! - MAN-18: whatever access control names is there: roles, tables, views, sequences and columns;
//!   names of roles are of one role, and no role is a member of itself; ids of roles only grow.
//! - MAN-19: sequences have names of their own, numbers to give out, and stand within their bounds;
//!   what they are of, and what columns take numbers of, is there; unless a sequence was set, its
//!   numbers only go on.
//! - MAN-20: every plain view has a query, all that it reads is there, and none of that is the view
//!   itself, be it through others.
//!
//! The check of a commit looks at what it touched ([`touched`]): of the others it compares no more
//! than pointers. It refuses what the check of everything would refuse. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_model::{Error, ErrorKind, NextIds, Result, ScuNumber, SequenceId};

use super::partitions::check_partitions;
use super::state::{Manifest, Run, RunKind, RunRef, TableState};
use crate::schema::check_succession;
use touched::Touched;

mod sequences;
mod touched;

/// A broken invariant: its name, and what breaks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// `MAN-1` and so on.
    pub invariant: &'static str,
    /// What breaks it, naming table, range and run.
    pub what: String,
}

impl Violation {
    fn into_error(self, kind: ErrorKind) -> Error {
        let message = format!("the manifest breaks {}: {}", self.invariant, self.what);
        Error::new(kind, message)
    }
}

pub(super) type Checked = Result<(), Violation>;

pub(super) fn require(
    holds: bool,
    invariant: &'static str,
    what: impl FnOnce() -> String,
) -> Checked {
    match holds {
        true => Ok(()),
        false => Err(Violation {
            invariant,
            what: what(),
        }),
    }
}

/// Checks what a commit would make of `old`.
///
/// # Errors
/// `Internal`, naming the invariant and what breaks it.
pub fn check_commit(old: &Manifest, new: &Manifest) -> Result<()> {
    let checked = violation_of_commit(old, new);
    debug_assert_eq!(
        checked.is_some(),
        check_growth(old, new).is_err() || violation(new).is_some(),
        "what was not touched is not as it was: {checked:?}, {:?}",
        violation(new),
    );
    match checked {
        None => Ok(()),
        Some(found) => Err(found.into_error(ErrorKind::Internal)),
    }
}

/// The first invariant that a commit breaks, if any; `old` keeps them all.
fn violation_of_commit(old: &Manifest, new: &Manifest) -> Option<Violation> {
    let grows = check_growth(old, new);
    grows.and_then(|()| check_value(new, Some(old))).err()
}

/// Checks a manifest that was loaded.
///
/// # Errors
/// `Corrupt`, naming the invariant and what breaks it.
pub fn check_loaded(manifest: &Manifest) -> Result<()> {
    violation(manifest).map_or(Ok(()), |found| Err(found.into_error(ErrorKind::Corrupt)))
}

/// The first invariant that a manifest breaks by itself, if any.
pub fn violation(manifest: &Manifest) -> Option<Violation> {
    check_value(manifest, None).err()
}

/// MAN-6, MAN-7, MAN-16 and MAN-19: what may only grow from one manifest to the next.
fn check_growth(old: &Manifest, new: &Manifest) -> Checked {
    let next = new.number == old.number + 1;
    require(next && new.database == old.database, "MAN-6", || {
        format!("number {} follows {}", new.number, old.number)
    })?;
    let counters = |m: &Manifest| {
        [
            ("epoch", m.epoch),
            ("sealed_through", m.sealed_through.0),
            ("sorted_through", m.sorted_through.0),
            ("last_remapped", m.last_remapped.0),
            ("ddl_batch", m.ddl_batch.map_or(0, |batch| batch.scu.0)),
            ("next_table", u64::from(m.next_table)),
            ("next_view", u64::from(m.next_view)),
            ("next_run", m.next_run),
            ("next_role", u64::from(m.access.next_role.0)),
        ]
    };
    for ((name, before), (_, after)) in counters(old).into_iter().zip(counters(new)) {
        require(before <= after, "MAN-6", || {
            format!("{name} falls from {before} to {after}")
        })?;
    }
    require(old.clock_micros <= new.clock_micros, "MAN-6", || {
        "the clock falls".to_owned()
    })?;
    for (name, before) in &old.producers {
        let after = new.producers.get(name);
        let grows = |after: &super::state::ProducerMark| {
            before.number <= after.number && before.epoch <= after.epoch
        };
        require(after.is_some_and(grows), "MAN-7", || {
            format!("producer {name:?} falls from {before:?} to {after:?}")
        })?;
    }
    sequences::check_growth(old, new)?;
    if old.next_ids == new.next_ids {
        return Ok(());
    }
    let newest = ScuNumber(u64::MAX);
    for map in new.tables.keys() {
        let (before, after) = (old.next_ids_at(*map, newest), new.next_ids_at(*map, newest));
        if let (Some(before), Some(after)) = (before, after) {
            require(after.follows(&before), "MAN-16", || {
                format!("next numbers of {map} fall to {after:?}")
            })?;
        }
    }
    Ok(())
}

fn check_value(new: &Manifest, old: Option<&Manifest>) -> Checked {
    let touched = Touched::since(old, new);
    check_scus(new)?;
    check_ddl_batch(new)?;
    check_next_ids(new, &touched)?;
    check_times(new, &touched)?;
    check_access(new, &touched)?;
    check_runs(new, old)?;
    check_partitions(new, old)?;
    sequences::check(new, &touched)?;
    if touched.definitions() {
        check_names(new)?;
        check_plain_views(new)?;
    }
    for state in new.tables.values().chain(new.views.values()) {
        if touched.has(state) {
            check_table(new, state, &touched).map_err(|violation| Violation {
                what: format!("table {:?}, {}", state.table.name, violation.what),
                ..violation
            })?;
        }
    }
    check_named(new, &touched)
}

/// MAN-11: names and views belong to one table.
fn check_names(new: &Manifest) -> Checked {
    let mut views = BTreeSet::new();
    let mut names = BTreeSet::new();
    for state in new.tables.values().chain(new.views.values()) {
        let table = &state.table;
        let alone = names.insert(table.name.as_str()) && views.insert(table.primary.id);
        require(alone, "MAN-11", || {
            format!("table {:?} or its view is there twice", table.name)
        })?;
    }
    for view in new.plain_views.values() {
        require(names.insert(view.name.as_str()), "MAN-11", || {
            format!("{:?} is there twice", view.name)
        })?;
    }
    Ok(())
}

/// MAN-20, and MAN-11 of the ids.
fn check_plain_views(new: &Manifest) -> Checked {
    for (id, view) in &new.plain_views {
        let of_sequence = new.sequences.contains_key(&SequenceId(id.0));
        let alone = *id == view.id && new.state_of(*id).is_none() && !of_sequence;
        require(alone && id.0 < new.next_table, "MAN-11", || {
            format!("view {:?} has the id of something else", view.name)
        })?;
        let missing = new.missing_for(view).map(|used| &used.name);
        let sound = view.query.is_some() && missing.is_none() && !new.reads_itself(*id);
        require(sound, "MAN-20", || {
            format!("view {:?} reads itself, or lacks {missing:?}", view.name)
        })?;
    }
    Ok(())
}

/// MAN-9: every run is named, by a range of its view.
fn check_named(new: &Manifest, touched: &Touched<'_>) -> Checked {
    let mut unnamed = touched.maybe_unnamed(new);
    let ranges = new.all_ranges().filter(|(view, _)| touched.has_view(*view));
    for (_, range) in ranges {
        if unnamed.is_empty() {
            break;
        }
        for entry in &range.runs {
            unnamed.remove(&entry.id);
        }
    }
    let mut runs = unnamed.iter().filter_map(|id| new.runs.get(id));
    let orphan = runs.find(|run| touched.has_view(run.view));
    require(orphan.is_none(), "MAN-9", || {
        format!("no range names {:?}", orphan.map(|run| run.id))
    })
}

/// MAN-8, and the order of the two boundaries.
fn check_scus(new: &Manifest) -> Checked {
    let (sorted, sealed) = (new.sorted_through, new.sealed_through);
    require(sorted <= sealed, "MAN-8", || {
        format!("sorted through {sorted}, sealed only through {sealed}")
    })?;
    let unsorted = new.scus.range(sorted.next()..).count() as u64;
    require(unsorted == sealed.0 - sorted.0, "MAN-8", || {
        format!("{unsorted} SCUs have a log after {sorted}, sealed are those through {sealed}")
    })?;
    let last = new.scus.last_key_value().map(|(scu, _)| *scu);
    let named = new.scus.iter().all(|(scu, entry)| entry.scu == *scu);
    require(
        named && last.is_none_or(|last| last <= sealed),
        "MAN-8",
        || format!("an SCU after {sealed} has a log"),
    )
}

/// MAN-18.
fn check_access(new: &Manifest, touched: &Touched<'_>) -> Checked {
    let same = |old: &Manifest| Arc::ptr_eq(&old.access, &new.access);
    if !touched.definitions() && touched.old().is_some_and(same) {
        return Ok(());
    }
    let found = new.access.violation(|table, column| new.has(table, column));
    require(found.is_none(), "MAN-18", || found.unwrap_or_default())
}

/// MAN-12.
fn check_ddl_batch(new: &Manifest) -> Checked {
    let newest = new.ddl_batch.map_or(ScuNumber::ZERO, |batch| batch.scu);
    let numbered = new.ddl_batch.is_none_or(|batch| batch.number != 0);
    require(
        numbered && newest <= new.sealed_through.next(),
        "MAN-12",
        || format!("SCU {newest} begins with a batch of a transaction"),
    )?;
    let expected = |scu| new.ddl_batch.filter(|batch| batch.scu == scu);
    for (scu, entry) in new.scus.range(newest..) {
        let expected = expected(*scu).map(|batch| batch.number);
        require(entry.ddl_batch == expected, "MAN-12", || {
            format!("the log of SCU {scu} begins with another batch")
        })?;
    }
    Ok(())
}

/// MAN-16.
fn check_next_ids(new: &Manifest, touched: &Touched<'_>) -> Checked {
    let old = touched.old();
    let remapped = new.last_remapped;
    let last = new.next_ids.last_key_value().map(|(scu, _)| *scu);
    let inside = remapped <= new.sealed_through && last.is_none_or(|last| last <= remapped);
    require(inside, "MAN-16", || {
        format!("next numbers are known for {last:?}, remapped is {remapped}")
    })?;
    if !touched.definitions() && old.is_some_and(|old| old.next_ids == new.next_ids) {
        return Ok(());
    }
    for state in new.tables.values() {
        let (map, Some(key_map)) = (state.table.id, state.table.key_map) else {
            continue;
        };
        let first = NextIds::first(key_map.partitions);
        let mut least = &first;
        for next in new
            .next_ids
            .values()
            .filter_map(|of_maps| of_maps.get(&map))
        {
            require(next.follows(least), "MAN-16", || {
                format!("next numbers of {map} fall from {least:?} to {next:?}")
            })?;
            least = next;
        }
    }
    let mut maps = new.next_ids.values().flat_map(|of_maps| of_maps.keys());
    let unknown = maps.find(|map| !new.is_key_map(**map));
    require(unknown.is_none(), "MAN-16", || {
        format!("next numbers are of {unknown:?}, which is no key map")
    })
}

/// MAN-10 and MAN-17.
fn check_times(new: &Manifest, touched: &Touched<'_>) -> Checked {
    let (first, last) = match (new.times.first_key_value(), new.times.last_key_value()) {
        (Some((first, _)), Some((last, _))) => (*first, *last),
        _ => (ScuNumber(1), ScuNumber::ZERO),
    };
    let whole = last == new.sealed_through && new.times.len() as u64 == last.0 + 1 - first.0;
    require(whole, "MAN-10", || {
        format!(
            "times are known from {first} to {last}, sealed are SCUs through {}",
            new.sealed_through
        )
    })?;
    let files = &new.history.files;
    let adjoin = files
        .windows(2)
        .all(|pair| pair[0].last.next() == pair[1].first);
    let tail = new.history.tail.as_ref().map(|tail| tail.first);
    let follows = files
        .last()
        .is_none_or(|file| tail.is_none_or(|tail| file.last.next() == tail));
    let ends = new.history.last().is_none_or(|last| last.next() == first);
    require(adjoin && follows && ends, "MAN-17", || {
        format!(
            "older times end at {:?}, the next are of {first}",
            new.history.last()
        )
    })?;
    let bases = touched
        .primary_ranges(new)
        .filter_map(|range| new.base_end(range));
    let oldest = bases.min().unwrap_or(new.sorted_through);
    require(first <= oldest.next(), "MAN-10", || {
        format!("times are known from {first}, a base ends at {oldest}")
    })
}

/// MAN-3, MAN-4, MAN-5 and MAN-11 of each run; what is the same as in `old` was checked with it.
fn check_runs(new: &Manifest, old: Option<&Manifest>) -> Checked {
    for (id, run) in &new.runs {
        let before = old.and_then(|old| old.runs.get(id));
        if before.is_some_and(|before| Arc::ptr_eq(before, run)) {
            continue;
        }
        require(run.id == *id && id.0 < new.next_run, "MAN-11", || {
            format!("{id} is not below r{}", new.next_run)
        })?;
        check_span(run, new.sorted_through)?;
        let pairs = |before: &Arc<Run>| {
            before.kind == run.kind
                && before.span.last <= run.span.last
                && before.segments.len() == run.segments.len()
                && before
                    .segments
                    .iter()
                    .zip(&run.segments)
                    .all(|(before, after)| Arc::ptr_eq(before, after))
        };
        if !before.is_some_and(pairs) {
            check_segments(run)?;
        }
    }
    Ok(())
}

fn check_span(run: &Run, sorted_through: ScuNumber) -> Checked {
    let Run {
        id,
        span,
        changes_through,
        ..
    } = run;
    let base = run.kind == RunKind::Base;
    let runs_forward = match base {
        true => span.first == ScuNumber(1),
        false => !span.is_empty() && span.first > ScuNumber::ZERO,
    };
    let inside = span.start() <= *changes_through && *changes_through <= span.last;
    let sorted = span.last <= sorted_through;
    require(runs_forward && inside && sorted, "MAN-3", || {
        format!("{id} holds {span} with changes through {changes_through}")
    })?;
    require(
        run.part == 0 || run.kind == RunKind::Sorted,
        "MAN-2",
        || format!("{id} is a part, but not of a sort"),
    )
}

/// MAN-5, and MAN-4 for what a base run holds.
fn check_segments(run: &Run) -> Checked {
    let mut files = BTreeSet::new();
    for segment in &run.segments {
        let sound = segment.min_key <= segment.max_key
            && segment.rows > 0
            && 0 < segment.bytes
            && segment.index_offset <= segment.bytes
            && segment.newest_scu <= run.span.last
            && files.insert(segment.file.as_str());
        require(sound, "MAN-5", || {
            format!("segment {:?} of {} is not sound", segment.file, run.id)
        })?;
        let upserts = segment.all_upserts || run.kind != RunKind::Base;
        require(upserts, "MAN-4", || {
            format!(
                "segment {:?} of base {} holds changes",
                segment.file, run.id
            )
        })?;
    }
    for pair in run.segments.windows(2) {
        require(pair[0].max_key < pair[1].min_key, "MAN-5", || {
            let (left, right) = (&pair[0].file, &pair[1].file);
            format!("segments {left:?} and {right:?} of {} overlap", run.id)
        })?;
    }
    Ok(())
}

/// MAN-1 and MAN-11 of a table, and what holds in each of its ranges.
fn check_table(new: &Manifest, state: &TableState, touched: &Touched<'_>) -> Checked {
    let table = &state.table;
    let view = table.primary.id;
    let below = table.id.0 < new.next_table && view.0 < new.next_view;
    let keys = &table.primary.key;
    let columns = keys.iter().all(|key| {
        let mut columns = table.columns.iter();
        columns.any(|column| column.id == *key)
    });
    require(below && columns, "MAN-11", || "ids".to_owned())?;
    check_definitions(new, state)?;
    let ends = state.ranges.first().map(|range| &range.range.low) == Some(&None)
        && state.ranges.last().map(|range| &range.range.high) == Some(&None);
    let joined = state.ranges.windows(2).all(|pair| {
        let (left, right) = (&pair[0].range, &pair[1].range);
        left.high.is_some() && left.high == right.low && left.low < left.high
    });
    require(ends && joined, "MAN-1", || {
        format!("the {} ranges do not cover its keys", state.ranges.len())
    })?;
    let end = end_of(new, state);
    if let Some(of) = table.view_of {
        let of = new.tables.get(&of);
        let fits = of.is_some_and(|of| super::apply::view_fits(&of.table, table));
        let known = new.views.contains_key(&table.id) && end <= new.sorted_through;
        require(fits && known, "MAN-15", || {
            format!("it is no view of a table, or ends at {end}")
        })?;
    }
    let before = touched.before(state);
    for (at, range) in state.ranges.iter().enumerate() {
        // The first runs that it listed before were checked then.
        let kept = before.map_or(0, |before| touched.kept(before, state, at));
        let (kept, rest) = range.runs.split_at(kept);
        check_entries(new, kept, rest, state)
            .and_then(|()| check_tiles(new, kept, rest, end))
            .map_err(|violation| Violation {
                what: format!("range {}: {}", range.range, violation.what),
                ..violation
            })?;
    }
    Ok(())
}

/// The boundary that all ranges of a table or view end at.
fn end_of(manifest: &Manifest, state: &TableState) -> ScuNumber {
    match state.table.view_of {
        None => manifest.sorted_through,
        Some(_) => manifest.view_end(state),
    }
}

/// MAN-13.
fn check_definitions(new: &Manifest, state: &TableState) -> Checked {
    let mut before = None;
    for older in &state.older {
        let rises = before.is_none_or(|before| before < older.through);
        require(
            rises && older.through <= new.sealed_through,
            "MAN-13",
            || {
                format!(
                    "a definition held through {}, not after {before:?}",
                    older.through
                )
            },
        )?;
        before = Some(older.through);
    }
    let older = state.older.iter().map(|older| &older.table);
    let all: Vec<_> = older.chain([&state.table]).collect();
    for pair in all.windows(2) {
        let follows = check_succession(pair[0], pair[1]);
        require(follows.is_ok(), "MAN-13", || {
            format!("version {} does not follow", pair[1].version.0)
        })?;
    }
    Ok(())
}

/// MAN-9 of a range: of the entries after those that were checked.
fn check_entries(
    new: &Manifest,
    checked: &[RunRef],
    rest: &[RunRef],
    state: &TableState,
) -> Checked {
    let mut before = checked.last().map(|entry| new.run(entry.id).order());
    for entry in rest {
        let run = new.runs.get(&entry.id);
        let run = run.filter(|run| run.view == state.table.primary.id);
        let order = run.map(|run| run.order());
        require(order.is_some() && before < order, "MAN-9", || {
            format!(
                "{} is not there, not of the view, or out of order",
                entry.id
            )
        })?;
        before = order;
    }
    Ok(())
}

/// MAN-2, and MAN-4 for where bases stand: of the entries after those that were checked.
fn check_tiles(new: &Manifest, checked: &[RunRef], rest: &[RunRef], end: ScuNumber) -> Checked {
    let newest = checked.iter().rev().find(|entry| entry.is_current());
    let mut last = newest.map(|entry| new.run(entry.id));
    let mut through = last.map_or(ScuNumber::ZERO, |last| last.span.last);
    for entry in rest.iter().filter(|entry| entry.is_current()) {
        let run = new.run(entry.id);
        let is_first = last.is_none();
        require(is_first == (run.kind == RunKind::Base), "MAN-4", || {
            format!("{} stands where a base must, or must not", run.id)
        })?;
        let next_part = last.is_some_and(|last| last.span == run.span && last.part + 1 == run.part);
        let next_span = through.next() == run.span.first && run.part == 0;
        require(next_part || next_span, "MAN-2", || {
            format!(
                "{} holds {}, but {} comes next",
                run.id,
                run.span,
                through.next()
            )
        })?;
        through = run.span.last;
        last = Some(run);
    }
    require(through == end && last.is_some(), "MAN-2", || {
        format!("its runs end at {through}, not at {end}")
    })
}

#[cfg(test)]
mod tests;
