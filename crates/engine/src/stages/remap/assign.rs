//! Numbers for the mentions of one SCU and key map: serial, in the order of the log.
//!
//! Pure: what the stored map knows is asked by the caller between [`Mentions`] and
//! [`Assigned::extend`].

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use lazybase_model::id_key::{Mention, NO_ID};
use lazybase_model::{Error, NextIds, Result, ScuNumber, TableId};

use super::key_table::KeyTable;
use crate::env::planted::{Planted, is_planted};
use crate::key::KeyCodec;
use crate::segment::key_hash;

/// What an SCU that is not sorted knows of its numbers, by key map.
pub(crate) type RemapState = tokio::sync::Mutex<BTreeMap<TableId, Assigned>>;

/// What a key map holds of a key: the number, and the SCU that it was given out in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: i64,
    pub(crate) scu: u64,
}

/// Mentions of a stretch of batches, in their order.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    /// Which of the distinct keys each mention names, and whether it only looks for it.
    of: Vec<(u32, bool)>,
}

impl Mentions {
    /// Adds rows of a key map as they stand in the log; their keys join the distinct ones.
    pub(crate) fn add(
        &mut self,
        distinct: &mut KeyTable,
        codec: &KeyCodec,
        rows: &RecordBatch,
    ) -> Result<()> {
        let keys = codec.encode(rows)?;
        let codes = rows.column(codec.indices().len());
        let codes = codes.as_primitive::<Int64Type>();
        self.of.reserve(keys.num_rows());
        for (key, code) in keys.iter().zip(codes.values()) {
            let (at, _) = distinct.insert(key_hash(key.data()), key.data());
            self.of.push((at, Mention::Lookup.has_code(*code)));
        }
        Ok(())
    }
}

/// The numbers of the mentions in the first batches of an SCU.
#[derive(Debug)]
pub(crate) struct Assigned {
    scu: ScuNumber,
    /// How many batches.
    pub(crate) batches: u32,
    /// The number of each mention.
    pub(crate) ids: Vec<i64>,
    /// The mentions that gave new keys their numbers, in order.
    pub(crate) new: Vec<u32>,
    fresh: KeyTable,
    fresh_ids: Vec<i64>,
    /// The next numbers after those batches.
    pub(crate) next: NextIds,
}

impl Assigned {
    pub(crate) fn new(scu: ScuNumber, next: NextIds) -> Assigned {
        Assigned {
            scu,
            batches: 0,
            ids: Vec::new(),
            new: Vec::new(),
            fresh: KeyTable::default(),
            fresh_ids: Vec::new(),
            next,
        }
    }

    /// The number that a key got here.
    pub(crate) fn fresh(&self, hash: u64, key: &[u8]) -> Option<i64> {
        let at = self.fresh.get(hash, key)?;
        Some(self.fresh_ids[at as usize])
    }

    /// Whether any of these mentions gave a new key its number.
    pub(crate) fn gives_new(&self, mentions: Range<u64>) -> bool {
        let before = |at: &u32| u64::from(*at) < mentions.start;
        let first = self.new.get(self.new.partition_point(before));
        first.is_some_and(|at| u64::from(*at) < mentions.end)
    }

    /// Numbers for the mentions of the batches up to `batches`. `numbers` holds those of distinct
    /// keys that are known so far, 0 for the others, and grows; `stored` is what the map holds.
    /// What that says of this SCU or later ones must come out again.
    ///
    /// # Errors
    /// `Corrupt` when the key map holds other numbers than come out.
    pub(crate) fn extend(
        &mut self,
        distinct: &KeyTable,
        mentions: &Mentions,
        numbers: &mut [i64],
        stored: &[Option<Known>],
        batches: u32,
    ) -> Result<()> {
        self.ids.reserve(mentions.of.len());
        for (at, looks) in &mentions.of {
            let at = *at as usize;
            if numbers[at] == 0 {
                match stored[at] {
                    Some(known) if known.scu < self.scu.0 => numbers[at] = known.id,
                    _ if *looks => {
                        self.ids.push(NO_ID);
                        continue;
                    }
                    known => {
                        let hash = distinct.hash(at);
                        let twice = is_planted(Planted::IdGivenTwice) && hash.is_multiple_of(5);
                        let id = match twice {
                            true => self.next.clone().give(hash),
                            false => self.next.give(hash),
                        };
                        check(self.scu, id, known)?;
                        numbers[at] = id;
                        self.fresh.insert(hash, distinct.key(at));
                        self.fresh_ids.push(id);
                        self.new.push(self.ids.len() as u32);
                    }
                }
            }
            self.ids.push(numbers[at]);
        }
        self.batches = batches;
        Ok(())
    }
}

/// A number that an earlier attempt wrote must be the one that comes out.
fn check(scu: ScuNumber, id: i64, known: Option<Known>) -> Result<()> {
    match known {
        Some(known) if known.id != id => Err(Error::corrupt(format!(
            "a key of SCU {scu} gets number {id}, but its map says {}",
            known.id
        ))),
        _ => Ok(()),
    }
}
