//! Composing the changes of one key, oldest first, into one stored change (section 3.2 of the
//! paper; the algebra is that of `lazybase_model::change`).
//!
//! Works on stored rows without looking at any value: the result is a set of picks, one stored
//! row for each cell (or, where a merge operator combines, several in their order). Usually the
//! newest change is total, and it alone is the result. Otherwise the walk goes from the newest
//! total change, or else the oldest change, to the newest one, and keeps for both halves which row
//! each column was last set by.
//!
//! 1. A later change that keeps rows sets its columns, in both halves. What it combines is picked
//!    after what was picked before; a column that was left is from then on combined by the change.
//! 2. It makes the absent half if there is none yet.
//! 3. The halves agree if all set columns have the same pick in both: one row serves. Where only
//!    chance makes the values equal, a split pair is written; it means the same.
//! 4. The result begins as the row that made its half, so that only cells set later are patched.
//!
//! Invariant COMPOSE-1: the row SCU of a half is that of the newest change that touched it, for
//! changes come in the order of their SCUs (CB-3). So it is right in projected batches too, where
//! the column that was set may be missing.

use std::sync::Arc;

use lazybase_model::Result;
use lazybase_model::change::StoredKind;

use super::{MergeMode, MergeShape, Operators};
use crate::change_batch::ChangeBatch;
use crate::change_batch::gather::{Gather, Hidden};
use crate::change_batch::masks;

/// One change of a key: its first stored row, in an input of the gather.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) input: u32,
    pub(crate) row: u32,
}

/// No row set this column.
const NONE: u32 = u32::MAX;

/// The first number that stands for a pair of picks.
const PAIRS: u32 = 1 << 31;

/// Where a cell comes from: twice the position of its entry, plus one for the second row of a
/// split pair. From [`PAIRS`] on, a place among the pairs: what was picked before, combined with
/// what was picked later.
type Pick = u32;

/// One half of the change composed so far.
#[derive(Debug, Default)]
struct Half {
    /// By column.
    picks: Vec<Pick>,
    /// The row that it begins as.
    base: Pick,
    scu: u64,
}

/// When the cells of a picked row were set: the row's SCU, and the place of its columns'
/// distances in the scratch where they differ.
#[derive(Debug, Clone, Copy)]
struct RowScus {
    scu: u64,
    distances: Option<usize>,
}

/// Composes changes, with scratch space that lives across keys.
#[derive(Debug)]
pub(crate) struct Composer {
    mode: MergeMode,
    width: usize,
    key: Vec<usize>,
    operators: Operators,
    on_row: Half,
    absent: Half,
    mask: Vec<u8>,
    /// What picks from [`PAIRS`] on stand for: before and later.
    pairs: Vec<(Pick, Pick)>,
    /// The later picks of a cell, newest first.
    laters: Vec<Pick>,
    scus: Vec<RowScus>,
    decoded: Vec<u64>,
    distances: Vec<u64>,
    encoded: Vec<u8>,
}

impl Composer {
    pub(crate) fn new(mode: MergeMode, shape: &MergeShape) -> Composer {
        Composer {
            mode,
            width: shape.schema.fields().len(),
            key: shape.key.clone(),
            operators: Arc::clone(&shape.operators),
            on_row: Half::default(),
            absent: Half::default(),
            mask: Vec::new(),
            pairs: Vec::new(),
            laters: Vec::new(),
            scus: Vec::new(),
            decoded: Vec::new(),
            distances: Vec::new(),
            encoded: Vec::new(),
        }
    }

    /// Adds to `out` what the changes `entries` of one key, oldest first, make together: a stored
    /// change, or in [`MergeMode::Rows`] the row that they make of no row, if they make one.
    ///
    /// # Errors
    /// `Corrupt` when column SCUs can't be decoded.
    pub(crate) fn compose(&mut self, out: &mut Gather, entries: &[Entry]) -> Result<()> {
        let total = |entry: &Entry| kind_of(out, entry).is_total();
        let first = entries.iter().rposition(total);
        let entries = &entries[first.unwrap_or(0)..];
        if self.mode == MergeMode::Values {
            self.compose_values(out, entries);
            return Ok(());
        }
        let [oldest, later @ ..] = entries else {
            return Ok(());
        };
        if later.is_empty() {
            push_single(out, self.mode, *oldest);
            return Ok(());
        }
        let made = self.walk(out, entries);
        let keeps = first.is_none();
        match (self.mode.makes_rows(), keeps, made) {
            (true, _, false) => Ok(()),
            (true, _, true) | (false, false, true) => {
                self.read_scus(out, entries)?;
                self.push_absent(out, entries, StoredKind::UPSERT)
            }
            (false, false, false) => {
                out.push(oldest.input, oldest.row as usize, 1);
                Ok(())
            }
            (false, true, made) => {
                self.read_scus(out, entries)?;
                self.push_keeping(out, entries, made)
            }
        }
    }

    /// The cells of the row that the changes make of no row. It begins as the row that makes it
    /// and stays part of that row's stretch: the later changes only patch it.
    fn compose_values(&mut self, out: &mut Gather, entries: &[Entry]) {
        let mut made = false;
        for entry in entries {
            let (batch, row) = (out.batch(entry.input), entry.row as usize);
            let kind = batch.kind(row);
            if !made {
                made = kind.makes_row();
                if made {
                    out.push(entry.input, row, 1);
                }
            } else if kind.keeps_row() {
                let row = row + usize::from(kind.is_split());
                self.mask.clear();
                self.mask.extend_from_slice(batch.mask(row));
                let columns = masks::bits(&self.mask).take_while(|column| *column < self.width);
                let combines = combining(&self.operators, &self.mask, self.width);
                columns.for_each(|column| match combines(column) {
                    true => out.combine(column, entry.input, row as u32),
                    false => out.patch(column, entry.input, row as u32),
                });
            }
        }
    }

    /// Fills both halves; says whether the absent half makes a row.
    fn walk(&mut self, out: &Gather, entries: &[Entry]) -> bool {
        let width = self.width;
        self.mask.clear();
        self.pairs.clear();
        self.on_row.picks.clear();
        self.on_row.picks.resize(width, NONE);
        (self.on_row.base, self.on_row.scu) = (0, 0);
        let mut made = false;
        for (at, entry) in entries.iter().enumerate() {
            let (batch, row) = (out.batch(entry.input), entry.row as usize);
            let kind = batch.kind(row);
            let second = usize::from(kind.is_split());
            let pick = 2 * at as Pick + second as Pick;
            if at == 0 {
                // Of a pair, the on-row half; of a total change, nothing that is looked at.
                (self.on_row.base, self.on_row.scu) = (pick, batch.scu(row + second));
            }
            let sets = batch.mask(row + second);
            let touches = masks::any_bit(sets);
            if kind.keeps_row() && touches {
                self.set(batch.scu(row + second), sets, pick, made);
            }
            if kind.makes_row() && !made {
                made = true;
                self.absent.base = pick - second as Pick;
                self.absent.scu = batch.scu(row);
                self.absent.picks.clear();
                self.absent.picks.resize(width, self.absent.base);
            }
        }
        made
    }

    /// Rule 1: `pick` sets the columns of `sets`.
    fn set(&mut self, scu: u64, sets: &[u8], pick: Pick, made: bool) {
        let first = !masks::any_bit(&self.mask);
        let width = self.width;
        if self.operators.is_empty() {
            masks::union(&mut self.mask, sets);
        } else {
            self.set_or_combine(sets, pick, made);
        }
        let halves = [(true, &mut self.on_row), (made, &mut self.absent)];
        for (touched, half) in halves {
            if touched {
                if self.operators.is_empty() {
                    let columns = masks::bits(sets).take_while(|column| *column < width);
                    columns.for_each(|column| half.picks[column] = pick);
                }
                half.scu = half.scu.max(scu);
            }
        }
        if first {
            self.on_row.scu = scu;
        }
    }

    /// Rule 1 for a table with merge operators.
    fn set_or_combine(&mut self, sets: &[u8], pick: Pick, made: bool) {
        let width = self.width;
        let combines = combining(&self.operators, sets, width);
        for column in masks::bits(sets).take_while(|bit| *bit <= width) {
            masks::set_bit(&mut self.mask, column);
            if column == width {
                break;
            }
            let before = self.on_row.picks[column];
            let mut after = pick;
            match (combines(column), before) {
                (false, _) => masks::clear_bit(&mut self.mask, width + 1 + column),
                (true, NONE) => masks::set_bit(&mut self.mask, width + 1 + column),
                (true, _) => after = pair(&mut self.pairs, before, pick),
            }
            self.on_row.picks[column] = after;
            if made {
                let absent = self.absent.picks[column];
                self.absent.picks[column] = match combines(column) && absent != before {
                    true => pair(&mut self.pairs, absent, pick),
                    false => after,
                };
            }
        }
    }

    fn push_keeping(&mut self, out: &mut Gather, entries: &[Entry], made: bool) -> Result<()> {
        let mut mask = std::mem::take(&mut self.mask);
        // A mask that sets nothing has its full length too.
        masks::fit(&mut mask, self.width);
        let combines = !self.operators.is_empty() && masks::combines(&mask, self.width);
        let pushed = if made {
            let mut columns = 0..self.width;
            let agrees = |column: usize| {
                let set = self.on_row.picks[column];
                set == NONE || set == self.absent.picks[column]
            };
            let as_new = self.on_row.scu == self.absent.scu || !masks::any_bit(&mask);
            if !as_new || !columns.clone().all(agrees) {
                self.push_absent(out, entries, StoredKind::SPLIT)
                    .and_then(|()| self.push_on_row(out, entries, &mask))
            } else if columns.all(|column| masks::has_bit(&mask, column))
                && self.width > 0
                && !combines
            {
                self.push_absent(out, entries, StoredKind::UPSERT)
            } else {
                self.push_half(out, entries, true, StoredKind::BOTH, Some(&mask))
            }
        } else {
            self.push_on_row(out, entries, &mask)
        };
        self.mask = mask;
        pushed
    }

    fn push_absent(&mut self, out: &mut Gather, entries: &[Entry], kind: StoredKind) -> Result<()> {
        self.push_half(out, entries, true, kind, None)
    }

    fn push_on_row(&mut self, out: &mut Gather, entries: &[Entry], mask: &[u8]) -> Result<()> {
        self.push_half(out, entries, false, StoredKind::UPDATE, Some(mask))
    }

    /// Adds one stored row: the half's base, patched by what was set later.
    fn push_half(
        &mut self,
        out: &mut Gather,
        entries: &[Entry],
        absent: bool,
        kind: StoredKind,
        mask: Option<&[u8]>,
    ) -> Result<()> {
        let scattered = self.encode_scus(absent);
        let half = if absent { &self.absent } else { &self.on_row };
        let place = |pick: Pick| {
            let entry = entries[pick as usize / 2];
            (entry.input, entry.row + pick % 2)
        };
        let (input, row) = place(half.base);
        // What a row that is made holds beyond what it sets is no part of the half that keeps. They
        // can only part where the row is then combined with.
        let combines = !self.operators.is_empty();
        let blanks = combines && !absent && kind_of(out, &Entry { input, row }).makes_row();
        let hidden = Hidden {
            kind,
            scu: half.scu,
            mask,
            column_scus: scattered.then_some(&self.encoded[..]),
        };
        out.push_composed(input, row, hidden);
        for (column, &pick) in half.picks.iter().enumerate() {
            if pick == NONE {
                if blanks && !self.key.contains(&column) {
                    out.blank(column);
                }
                continue;
            }
            let mut first = pick;
            self.laters.clear();
            while first >= PAIRS {
                let (before, later) = self.pairs[(first - PAIRS) as usize];
                self.laters.push(later);
                first = before;
            }
            if first != half.base {
                let (input, row) = place(first);
                out.patch(column, input, row);
            }
            for later in self.laters.iter().rev() {
                let (input, row) = place(*later);
                out.combine(column, input, row);
            }
        }
        Ok(())
    }

    /// Notes when the cells of all rows that may be picked were set.
    fn read_scus(&mut self, out: &Gather, entries: &[Entry]) -> Result<()> {
        self.scus.clear();
        self.decoded.clear();
        for entry in entries {
            let (batch, row) = (out.batch(entry.input), entry.row as usize);
            let second = row + usize::from(batch.kind(row).is_split());
            for row in [row, second] {
                let distances = match batch.column_scus_of(row) {
                    None => None,
                    Some(bytes) => {
                        let start = self.decoded.len();
                        masks::decode_distances(bytes, self.width, &mut self.decoded)?;
                        Some(start)
                    }
                };
                let scu = batch.scu(row);
                self.scus.push(RowScus { scu, distances });
            }
        }
        Ok(())
    }

    /// Encodes when the half's cells were set, if not all with the newest; says whether so.
    fn encode_scus(&mut self, absent: bool) -> bool {
        let half = if absent { &self.absent } else { &self.on_row };
        let alike = |scus: &RowScus| scus.scu == half.scu && scus.distances.is_none();
        if self.scus.iter().all(alike) {
            return false;
        }
        self.distances.clear();
        for (column, &pick) in half.picks.iter().enumerate() {
            let latest = match pick {
                NONE | 0..PAIRS => pick,
                pair => self.pairs[(pair - PAIRS) as usize].1,
            };
            let distance = self.scus.get(latest as usize).map_or(0, |row| {
                let before = row.distances.map_or(0, |at| self.decoded[at + column]);
                (half.scu + before).saturating_sub(row.scu)
            });
            self.distances.push(distance);
        }
        if self.distances.iter().all(|distance| *distance == 0) {
            return false;
        }
        self.encoded.clear();
        masks::encode_distances(&self.distances, &mut self.encoded);
        true
    }
}

/// The pick of what was picked before, combined with what is picked later.
fn pair(pairs: &mut Vec<(Pick, Pick)>, before: Pick, later: Pick) -> Pick {
    pairs.push((before, later));
    PAIRS + pairs.len() as Pick - 1
}

/// Which columns a mask combines.
fn combining(operators: &Operators, mask: &[u8], width: usize) -> impl Fn(usize) -> bool {
    let combines = !operators.is_empty() && masks::combines(mask, width);
    move |column| {
        combines && operators[column].is_some() && masks::combines_column(mask, column, width)
    }
}

/// Adds the only change of a key, or in [`MergeMode::Rows`] the row that it makes of no row.
#[inline]
pub(crate) fn push_single(out: &mut Gather, mode: MergeMode, entry: Entry) {
    let kind = kind_of(out, &entry);
    let rows = match mode.makes_rows() {
        false => 1 + usize::from(kind.is_split()),
        true => usize::from(kind.makes_row()),
    };
    if rows > 0 {
        out.push(entry.input, entry.row as usize, rows);
    }
}

fn kind_of(out: &Gather, entry: &Entry) -> StoredKind {
    let batch: &ChangeBatch = out.batch(entry.input);
    batch.kind(entry.row as usize)
}
