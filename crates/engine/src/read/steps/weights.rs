//! What a scan takes of the pieces of its sources, where it is cut into parts: rows inside the
//! range times columns that are read, whether they lie in a file or in memory.
//!
//! ```text
//!   file           |--------|--------|--------|--------|     cut between its row groups
//!   chunk       |---------------------------------------|    marks: rows from key to key
//!   weighs in   part 0: |---------------|  part 1: |----|
//! ```
//!
//! A chunk of an SCU that is not sorted yet reaches over much of the key space: what it weighs lies
//! in all parts that it meets, and not where it begins. Rows of a file are the heavier the more
//! bytes it takes to store them; one in memory is as heavy as the mean of those. Looks at keys
//! only; writes nothing.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::UInt32Array;

use super::{ReadStep, bounds, weigh};
use crate::change_batch::ChangeBatch;
use crate::key::Key;
use crate::manifest::KeyRange;
use crate::read::source::{Source, Stretch};
use crate::segment::RowLayout;

/// A piece has at most so many marks.
const MARKS_MAX: usize = 16;

/// In memory so many rows at least lie from one mark to the next.
const MARK_ROWS: usize = 64;

/// Weighs pieces of one scan.
#[derive(Debug, Clone)]
pub(in crate::read) struct Weights {
    layout: Arc<RowLayout>,
    /// How many columns are read.
    columns: u64,
    /// How many rows the pieces in files have, and as how many bytes these are stored.
    stored: (u64, u64),
}

/// Rows of a piece that follow each other.
#[derive(Debug)]
pub(super) struct Mark<'s> {
    /// None of them has a lesser key.
    pub(super) key: Cow<'s, [u8]>,
    pub(super) weight: u64,
}

impl Weights {
    /// Of a scan of so many columns whose files hold so many rows in so many bytes.
    pub(in crate::read) fn new(
        layout: &Arc<RowLayout>,
        columns: usize,
        stored: (u64, u64),
    ) -> Weights {
        Weights {
            layout: Arc::clone(layout),
            columns: columns.max(1) as u64,
            stored,
        }
    }

    /// Of some rows of a piece.
    fn of_rows(&self, source: &Source, segment: usize, piece: usize, rows: u64) -> u64 {
        let rows = match source {
            Source::Memory { .. } => rows,
            Source::Run { .. } => {
                let (of_piece, bytes, _) = weigh(source, segment, piece);
                let (all_rows, all_bytes) = self.stored;
                let bytes = u128::from(bytes) * u128::from(rows) / u128::from(of_piece.max(1));
                let alike = bytes * u128::from(all_rows) / u128::from(all_bytes.max(1));
                u64::try_from(alike).unwrap_or(u64::MAX)
            }
        };
        rows.saturating_mul(self.columns)
    }

    /// Of what a piece has in a range.
    pub(super) fn inside(
        &self,
        source: &Source,
        segment: usize,
        piece: usize,
        range: &KeyRange,
    ) -> u64 {
        let (min, max) = bounds(source, segment, piece);
        if range.encloses(min, max) {
            let (rows, ..) = weigh(source, segment, piece);
            return self.of_rows(source, segment, piece, rows);
        }
        let marks = self.marks(source, segment, piece, range);
        marks.iter().map(|mark| mark.weight).sum()
    }

    /// Of what a step reads.
    pub(in crate::read) fn step(&self, sources: &[Source], step: &ReadStep) -> u64 {
        let (stretches, range) = step.read();
        self.stretches(sources, stretches, range)
    }

    /// Of what stretches have in a range.
    pub(super) fn stretches(
        &self,
        sources: &[Source],
        stretches: &[Stretch],
        range: &KeyRange,
    ) -> u64 {
        let of_stretch = |stretch: &Stretch| -> u64 {
            let source = &sources[stretch.source];
            let inside = |piece| self.inside(source, stretch.segment, piece, range);
            stretch.pieces.clone().map(inside).sum()
        };
        stretches.iter().map(of_stretch).sum()
    }

    /// The rows of a piece that may lie in a range, by rising keys.
    pub(super) fn marks<'s>(
        &self,
        source: &'s Source,
        segment: usize,
        piece: usize,
        range: &'s KeyRange,
    ) -> Vec<Mark<'s>> {
        let low = range.low.as_ref().map(Key::as_bytes);
        let high = range.high.as_ref().map(Key::as_bytes);
        let (keys, each) = self.marked(source, segment, piece);
        let (all, ..) = weigh(source, segment, piece);
        let mut marks = Vec::with_capacity(keys.len());
        for (at, key) in keys.iter().enumerate() {
            let next = keys.get(at + 1);
            let before = low.is_some_and(|low| next.is_some_and(|next| **next <= *low));
            let behind = high.is_some_and(|high| **key >= *high);
            if before || behind {
                continue;
            }
            let rows = all.saturating_sub(at as u64 * each);
            let rows = match next {
                Some(_) => rows.min(each),
                None => rows,
            };
            marks.push(Mark {
                key: match low {
                    Some(low) if **key < *low => Cow::Borrowed(low),
                    _ => key.clone(),
                },
                weight: self.of_rows(source, segment, piece, rows),
            });
        }
        marks
    }

    /// Keys of a piece's rows, from its least one on, and how many rows lie from one to the next.
    fn marked<'s>(
        &self,
        source: &'s Source,
        segment: usize,
        piece: usize,
    ) -> (Vec<Cow<'s, [u8]>>, u64) {
        let (rows, ..) = weigh(source, segment, piece);
        let (keys, each): (Vec<Cow<'s, [u8]>>, usize) = match source {
            Source::Run { segments, .. } => {
                let (keys, stride) = segments[segment].known_keys(piece);
                let step = keys.len().div_ceil(MARKS_MAX).max(1);
                let keys = keys.iter().step_by(step);
                let keys = keys.map(|key| Cow::Borrowed(&key[..]));
                (keys.collect(), stride * step)
            }
            Source::Memory { chunks, .. } => {
                let rows = &chunks[piece].rows;
                let each = rows.rows().div_ceil(MARKS_MAX).max(MARK_ROWS);
                match rows.rows() > each {
                    true => (self.keys_of(rows, each), each),
                    false => (Vec::new(), each),
                }
            }
        };
        match keys.is_empty() {
            true => (vec![Cow::Borrowed(bounds(source, segment, piece).0)], rows),
            false => (keys, each as u64),
        }
    }

    /// The key of every so manieth row; none where they can't be had, which whoever reads the rows
    /// will be told.
    fn keys_of(&self, rows: &ChangeBatch, each: usize) -> Vec<Cow<'static, [u8]>> {
        let places = (0..rows.rows()).step_by(each);
        if let Some(mut numbers) = self.layout.codec.numbers(&rows.data) {
            let keys = places.map(|row| Cow::Owned(numbers.key(row).to_vec()));
            return keys.collect();
        }
        let places = UInt32Array::from_iter_values(places.map(|row| row as u32));
        let Ok(keys) = rows.keys_at(&self.layout.codec, &places) else {
            return Vec::new();
        };
        let keys = keys.iter().map(|key| Cow::Owned(key.data().to_vec()));
        keys.collect()
    }
}
