//! ID keys: small numbers for natural keys (section 3.2 of the paper; design 0007).
//!
//! An owner's key map gives each distinct natural key one number, for ever. Numbers are given out
//! in partitions of the key's hash: a key of partition p gets the next number of p, all of which
//! are congruent to p modulo the count of partitions. New keys come in the order of their first
//! mention. So the numbers of an SCU are a function of the map before it, the next numbers before
//! it, and the SCU: whoever runs it gets the same ones. [`assign_one_by_one`] is the specification.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::table::TableId;

/// How many partitions the key maps of new owners have.
pub const PARTITIONS: u32 = 16;

/// What makes a column an ID key: its cells are numbers of a key map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdKeyColumn {
    /// The hidden table that maps natural keys to numbers.
    pub map: TableId,
    /// The table whose primary key is the natural key; the column's own table where that owns it.
    pub owner: TableId,
}

impl IdKeyColumn {
    /// Of a table to be made, which owns the ID key: its ids are not known yet.
    pub const OWN: IdKeyColumn = IdKeyColumn {
        map: TableId(0),
        owner: TableId(0),
    };
}

/// What makes a table the key map of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyMap {
    /// The table whose primary key it maps.
    pub owner: TableId,
    /// How many partitions its numbers come from: never changed.
    pub partitions: u32,
}

/// Who mentions a natural key: what the number's place in a key map's row holds in the log, until
/// the number is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mention {
    /// A column that refers to the owner: a key that is new gets a row of the owner.
    Reference,
    /// A row of the owner itself.
    Owner,
    /// A delete or an update that finds its row by the key: a key that is new stays unknown, and
    /// no row has it.
    Lookup,
}

impl Mention {
    /// As it stands in the log.
    pub fn code(self) -> i64 {
        match self {
            Mention::Reference => 0,
            Mention::Owner => 1,
            Mention::Lookup => 2,
        }
    }

    /// Whether the code is this one's.
    pub fn has_code(self, code: i64) -> bool {
        code == self.code()
    }
}

/// What no key is ever given: the number of a key that is looked for and not known.
pub const NO_ID: i64 = i64::MAX;

/// What stands for a number until it is known: the place of the natural key among those that the
/// batch mentions. Negative, so that it is never taken for a number.
pub fn temporary_id(place: u32) -> i64 {
    -1 - i64::from(place)
}

/// The place that a temporary ID stands for; `None` for a number.
pub fn place_of(id: i64) -> Option<usize> {
    (id < 0).then(|| (-1 - id) as usize)
}

/// The next number of each partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NextIds(Vec<u64>);

impl NextIds {
    /// Of a map without keys: the least positive number of each partition.
    pub fn first(partitions: u32) -> NextIds {
        let count = u64::from(partitions.max(1));
        NextIds((0..count).map(|p| if p == 0 { count } else { p }).collect())
    }

    /// The number of the next new key with this hash; it is given out by this.
    pub fn give(&mut self, hash: u64) -> i64 {
        let count = self.0.len() as u64;
        let next = &mut self.0[(hash % count) as usize];
        let given = *next;
        *next += count;
        given as i64
    }

    /// Whether a number was given out.
    pub fn has_given(&self, id: i64) -> bool {
        let count = self.0.len() as u64;
        u64::try_from(id).is_ok_and(|id| id > 0 && id < self.0[(id % count) as usize])
    }

    /// How many numbers were given out.
    pub fn given(&self) -> u64 {
        let count = self.0.len() as u64;
        let first = NextIds::first(count as u32);
        let pairs = self.0.iter().zip(&first.0);
        pairs.map(|(next, first)| (next - first) / count).sum()
    }

    /// Whether these may come to be from `before`: the same partitions, none with less given out,
    /// and only numbers of each partition's own.
    pub fn follows(&self, before: &NextIds) -> bool {
        let count = self.0.len() as u64;
        self.0.len() == before.0.len()
            && (self.0.iter().zip(&before.0)).all(|(next, old)| next >= old)
            && (0..).zip(&self.0).all(|(p, next)| next % count == p)
    }
}

/// The numbers of mentions, one by one: the specification of the remap stage. `known` is the key
/// map, and grows; each mention is a key and its hash.
pub fn assign_one_by_one<K: Ord>(
    known: &mut BTreeMap<K, i64>,
    next: &mut NextIds,
    mentions: impl IntoIterator<Item = (K, u64)>,
) -> Vec<i64> {
    let number = |(key, hash)| *known.entry(key).or_insert_with(|| next.give(hash));
    mentions.into_iter().map(number).collect()
}

#[cfg(test)]
mod tests;
