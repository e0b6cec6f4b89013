//! Where the changes of each key stand in batches that are not sorted, and what those of one key
//! come to: point reads of the open SCU, of unsorted ones, and of a transaction's own changes.
//!
//! Memory only. A place takes 16 bytes: the key's hash and where its row stands. Sorted tiers of
//! rising size hold them, so that a row is merged a logarithmic number of times as batches come
//! in. A hash is no key: whoever follows a place compares the keys.

use arrow::array::UInt32Array;
use lazybase_model::Result;

use crate::change_batch::ChangeBatch;
use crate::env::planted::{Planted, is_planted};
use crate::key::KeyCodec;
use crate::segment::key_hash;
use crate::stages::merge::{MergeShape, OutputSize};
use crate::stages::sort::sort_shaped;

#[cfg(test)]
mod tests;

/// A tier is merged into the older one before it unless that is so many times as large.
const TIER_RATIO: usize = 4;

/// The places of rows, of parts that were added one after the other.
#[derive(Debug, Default)]
pub(super) struct KeyPlaces {
    /// Each sorted; a later one holds later parts.
    tiers: Vec<Vec<KeyPlace>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct KeyPlace {
    hash: u64,
    part: u32,
    row: u32,
}

impl KeyPlaces {
    /// Adds the rows of a part whose number is higher than that of all parts before.
    ///
    /// # Errors
    /// `Internal` when the rows are not of the codec's schema.
    pub(super) fn add(&mut self, codec: &KeyCodec, part: u32, rows: &ChangeBatch) -> Result<()> {
        let keys = codec.encode(&rows.data)?;
        let mut newest = Vec::with_capacity(rows.rows());
        // The second row of a pair stands for both.
        let single = (0..rows.rows()).filter(|row| !rows.kind(*row).is_split());
        newest.extend(single.map(|row| KeyPlace {
            hash: key_hash(keys.row(row).data()),
            part,
            row: row as u32,
        }));
        newest.sort_unstable();
        newest.shrink_to_fit();
        let may_stay = |older: &Vec<_>, newest: &Vec<_>| older.len() >= TIER_RATIO * newest.len();
        while let Some(older) = self.tiers.pop_if(|older| !may_stay(older, &newest)) {
            newest = merged(&older, &newest);
        }
        self.tiers.push(newest);
        Ok(())
    }

    /// Where keys with this hash may stand, newest first: part and row.
    pub(super) fn with_hash(&self, hash: u64) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.tiers.iter().rev().flat_map(move |tier| {
            let from = tier.partition_point(|place| place.hash < hash);
            let after = tier.partition_point(|place| place.hash <= hash);
            let places = tier[from..after].iter().rev();
            places.map(|place| (place.part, place.row))
        })
    }

    /// The memory that this takes, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let places = self.tiers.iter().map(Vec::capacity).sum::<usize>();
        (places * size_of::<KeyPlace>()) as u64
    }
}

fn merged(older: &[KeyPlace], newer: &[KeyPlace]) -> Vec<KeyPlace> {
    let mut all = Vec::with_capacity(older.len() + newer.len());
    let (mut older, mut newer) = (older.iter().peekable(), newer.iter().peekable());
    while let (Some(one), Some(other)) = (older.peek(), newer.peek()) {
        all.extend(match one < other {
            true => older.next(),
            false => newer.next(),
        });
    }
    all.extend(older);
    all.extend(newer);
    all
}

/// The changes of one key, collected batch by batch, the newest batch first.
pub(super) struct KeyChanges<'k> {
    shape: &'k MergeShape,
    codec: &'k KeyCodec,
    key: &'k [u8],
    /// Of each batch, in the order in which they happened.
    found: Vec<ChangeBatch>,
}

impl<'k> KeyChanges<'k> {
    pub(super) fn new(shape: &'k MergeShape, codec: &'k KeyCodec, key: &'k [u8]) -> Self {
        KeyChanges {
            shape,
            codec,
            key,
            found: Vec::new(),
        }
    }

    /// Takes the changes at `places` of a batch, newest first, back to the first that is total;
    /// whether there is one, so that nothing before matters.
    ///
    /// # Errors
    /// `Internal` when the rows are not of the codec's schema.
    pub(super) fn take(
        &mut self,
        rows: &ChangeBatch,
        places: impl IntoIterator<Item = u32>,
    ) -> Result<bool> {
        let mut picked = Vec::new();
        let mut is_total = false;
        for row in places {
            picked.push(row);
            let at = row as usize;
            if at > 0 && rows.kind(at - 1).is_split() {
                picked.push(row - 1);
            }
            if rows.kind(at).is_total() && self.is_of_key(&rows.slice(at, 1))?[0] {
                is_total = true;
                break;
            }
        }
        match picked[..] {
            [] => return Ok(false),
            [only] if is_total => {
                self.found.push(rows.slice(only as usize, 1));
                return Ok(true);
            }
            _ => picked.reverse(),
        }
        let changes = rows.take(&UInt32Array::from(picked))?;
        let of_key = self.is_of_key(&changes)?;
        let same = of_key.iter().filter(|same| **same).count();
        match same == of_key.len() {
            true if same == 0 => {}
            true => self.found.push(changes),
            // Other keys have the same hash.
            false => {
                let rows = (0..).zip(&of_key).filter(|(_, same)| **same);
                let rows = UInt32Array::from_iter_values(rows.map(|(row, _)| row));
                self.found.push(changes.take(&rows)?);
            }
        }
        Ok(is_total)
    }

    fn is_of_key(&self, rows: &ChangeBatch) -> Result<Vec<bool>> {
        let keys = self.codec.encode(&rows.data)?;
        Ok(keys.iter().map(|key| key.data() == self.key).collect())
    }

    /// One change that is the same as all of them: joined at once, they take time in proportion to
    /// their number.
    ///
    /// # Errors
    /// As [`sort_shaped`].
    pub(super) fn composed(mut self) -> Result<Option<ChangeBatch>> {
        self.found.retain(|changes| changes.rows() > 0);
        let is_one = |changes: &ChangeBatch| match changes.rows() {
            1 => true,
            rows => rows == 2 && changes.kind(0).is_split(),
        };
        match &self.found[..] {
            [] => Ok(None),
            [only] if is_one(only) => Ok(self.found.pop()),
            [newest, ..] if is_planted(Planted::NewestAlone) => {
                Ok(Some(newest.slice(newest.rows() - 1, 1)))
            }
            _ => {
                self.found.reverse();
                let size = OutputSize::default();
                let composed = sort_shaped(self.shape, &self.found, size)?;
                Ok(composed.into_iter().next())
            }
        }
    }
}
