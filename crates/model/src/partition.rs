//! How a table's key space is cut at its creation: zero or more hash rules, then an optional range
//! rule, each on key columns of its own.
//!
//! ```text
//!   key columns of a row -> hash rules: a bucket each
//!                        -> range rule: the partition whose bounds hold the row
//!   partition of the row = (buckets, number of the range partition)
//! ```
//!
//! A range partition has a number that is never given to another one, so that rows keep their
//! place in the key space whatever is added and dropped around them. A partition that was dropped
//! is remembered as long as an older answer may hold its rows; bounds of all that are known,
//! dropped or not, are disjoint. Invariant PART-1: a row lies in one partition, or in none.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::limits::{HASH_BUCKETS_MAX, HASH_RULES_MAX, PARTITIONS_MAX};
use crate::table::ColumnId;

/// An encoded value of the columns of a range rule; written as hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundBytes(pub Vec<u8>);

impl fmt::Debug for BoundBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for BoundBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for BoundBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let digits = String::deserialize(deserializer)?;
        if digits.len() % 2 != 0 || !digits.is_ascii() {
            return Err(D::Error::custom("a bound is an even number of digits"));
        }
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16);
        let bytes: Result<Vec<u8>, _> = (0..digits.len()).step_by(2).map(byte).collect();
        bytes.map(BoundBytes).map_err(D::Error::custom)
    }
}

/// Where a range partition begins or ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RangeBound {
    /// The value, encoded.
    pub value: BoundBytes,
    /// Whether the cut lies right after the value; otherwise right before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after: bool,
}

impl RangeBound {
    /// Whether an encoded value lies behind the cut.
    pub fn is_before(&self, value: &[u8]) -> bool {
        match self.value.0.as_slice().cmp(value) {
            Ordering::Less => true,
            Ordering::Equal => !self.after,
            Ordering::Greater => false,
        }
    }
}

/// The bounds of a range partition; `None` is open.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RangeBounds {
    /// Where it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<RangeBound>,
    /// Where it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<RangeBound>,
}

impl RangeBounds {
    /// Whether an encoded value lies inside.
    pub fn contains(&self, value: &[u8]) -> bool {
        self.low.as_ref().is_none_or(|low| low.is_before(value))
            && self.high.as_ref().is_none_or(|high| !high.is_before(value))
    }

    /// Whether no value can lie inside.
    pub fn is_empty(&self) -> bool {
        matches!((&self.low, &self.high), (Some(low), Some(high)) if low >= high)
    }

    fn ends_before(&self, other: &RangeBounds) -> bool {
        matches!((&self.high, &other.low), (Some(high), Some(low)) if high <= low)
    }

    /// Whether both hold a value.
    pub fn overlaps(&self, other: &RangeBounds) -> bool {
        !self.ends_before(other) && !other.ends_before(self)
    }
}

/// Rows are spread evenly by a hash of some key columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashRule {
    /// The columns.
    pub columns: Vec<ColumnId>,
    /// How many buckets there are: at least 2.
    pub buckets: u16,
}

/// One partition of a range rule, or a piece of it that has a number of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangePartition {
    /// Its number, from 1: never given to another one.
    pub number: u32,
    /// Which values it holds.
    pub bounds: RangeBounds,
    /// Whether it takes no rows any more: only older answers hold its rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}

/// Rows are kept apart by the range that some key columns lie in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeRule {
    /// The columns, most significant first.
    pub columns: Vec<ColumnId>,
    /// What is known, by bounds, disjoint.
    pub partitions: Vec<RangePartition>,
    /// The next number.
    pub next: u32,
}

/// What an ALTER TABLE does to a range rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionChange {
    /// A partition with these bounds begins, empty.
    Add(RangeBounds),
    /// The partition with these bounds ends, with all its rows.
    Drop(RangeBounds),
}

impl RangeRule {
    /// A rule with partitions of these bounds.
    ///
    /// # Errors
    /// `Invalid` when bounds are empty or overlap.
    pub fn new(columns: Vec<ColumnId>, partitions: Vec<RangeBounds>) -> Result<RangeRule> {
        let mut rule = RangeRule {
            columns,
            partitions: Vec::new(),
            next: 1,
        };
        let mut partitions = partitions;
        partitions.sort_by(|a, b| a.low.cmp(&b.low));
        for bounds in partitions {
            let mut before = rule.partitions.iter();
            if before.any(|partition| partition.bounds.overlaps(&bounds)) {
                return Err(Error::invalid("two range partitions overlap")
                    .with_hint("each begins where another ends, or after it; SPLIT AT (...) rises")
                    .with_sqlstate("42P17"));
            }
            rule.add(&bounds)?;
        }
        Ok(rule)
    }

    /// The known partition that holds an encoded value of the columns, dropped ones included.
    pub fn find(&self, value: &[u8]) -> Option<&RangePartition> {
        let after = self.partitions.partition_point(|partition| {
            let low = partition.bounds.low.as_ref();
            low.is_none_or(|low| low.is_before(value))
        });
        let partition = &self.partitions[after.checked_sub(1)?];
        partition.bounds.contains(value).then_some(partition)
    }

    /// The partitions that take rows.
    pub fn live(&self) -> impl Iterator<Item = &RangePartition> {
        self.partitions
            .iter()
            .filter(|partition| !partition.dropped)
    }

    /// Whether a partition of a number takes rows.
    pub fn is_live(&self, number: u32) -> bool {
        self.live().any(|partition| partition.number == number)
    }

    /// Adds a partition; gives the numbers that it is made of. A dropped one with the same bounds
    /// comes back under its number, empty.
    ///
    /// # Errors
    /// `Conflict` when it overlaps one that is there, or cuts a dropped one whose rows an older
    /// answer may hold.
    pub fn add(&mut self, bounds: &RangeBounds) -> Result<u32> {
        if bounds.is_empty() {
            return Err(Error::invalid("no value lies in the partition").with_sqlstate("42P17"));
        }
        let overlapping: Vec<usize> = (0..self.partitions.len())
            .filter(|at| self.partitions[*at].bounds.overlaps(bounds))
            .collect();
        if overlapping.iter().any(|at| !self.partitions[*at].dropped) {
            return Err(Error::conflict("the partition overlaps one that is there")
                .with_hint("lazybase.partitions lists the partitions of all tables")
                .with_sqlstate("42P17"));
        }
        match overlapping.as_slice() {
            [] => {
                let number = self.next;
                self.next += 1;
                let after = |at: &RangePartition| at.bounds.low <= bounds.low;
                let place = self.partitions.partition_point(after);
                let partition = RangePartition {
                    number,
                    bounds: bounds.clone(),
                    dropped: false,
                };
                self.partitions.insert(place, partition);
                Ok(number)
            }
            [same] if self.partitions[*same].bounds == *bounds => {
                let partition = &mut self.partitions[*same];
                partition.dropped = false;
                Ok(partition.number)
            }
            _ => Err(Error::conflict("the partition can't be added yet")
                .with_detail(
                    "it overlaps a dropped one whose rows answers of the past may still show",
                )
                .with_hint(
                    "use the very bounds of the dropped one, or try again when the retention has \
                     passed and the table is settled",
                )
                .with_sqlstate("55006")),
        }
    }

    /// Drops the partition with these bounds; gives its number.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn drop(&mut self, bounds: &RangeBounds) -> Result<u32> {
        let mut partitions = self.partitions.iter_mut();
        let found = partitions.find(|known| !known.dropped && known.bounds == *bounds);
        match found {
            Some(partition) => {
                partition.dropped = true;
                Ok(partition.number)
            }
            None => Err(
                Error::not_found("there is no range partition with these bounds")
                    .with_hint("lazybase.partitions lists the partitions of all tables")
                    .with_sqlstate("42704"),
            ),
        }
    }
}

/// How a table is partitioned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Partitioning {
    /// Its hash rules, in the order of declaration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hash: Vec<HashRule>,
    /// Its range rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<RangeRule>,
}

impl Partitioning {
    /// How many bytes of a key's beginning name its partition: two for each hash rule, four for the
    /// range rule.
    pub fn prefix_bytes(&self) -> usize {
        2 * self.hash.len() + 4 * usize::from(self.range.is_some())
    }

    /// How many combinations of buckets there are.
    pub fn bucket_combinations(&self) -> usize {
        let buckets = self.hash.iter().map(|rule| usize::from(rule.buckets));
        buckets.product()
    }

    /// How many partitions take rows.
    pub fn live_partitions(&self) -> usize {
        let ranges = self.range.as_ref().map_or(1, |rule| rule.live().count());
        self.bucket_combinations() * ranges
    }

    /// Checks the rules against each other and their limits.
    ///
    /// # Errors
    /// `Invalid` for a column in two rules, or too many buckets, rules or partitions.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::invalid(what).with_sqlstate("42P17"));
        let columns: Vec<ColumnId> = self
            .hash
            .iter()
            .flat_map(|rule| rule.columns.iter().copied())
            .chain(
                self.range
                    .iter()
                    .flat_map(|rule| rule.columns.iter().copied()),
            )
            .collect();
        if (1..columns.len()).any(|at| columns[..at].contains(&columns[at])) {
            return wrong("a column stands in two places of the partition rules".to_owned());
        }
        if self.hash.len() > HASH_RULES_MAX {
            return wrong(format!("a table has at most {HASH_RULES_MAX} hash rules"));
        }
        for rule in &self.hash {
            if !(2..=HASH_BUCKETS_MAX).contains(&rule.buckets) {
                return wrong(format!(
                    "a hash rule has from 2 to {HASH_BUCKETS_MAX} partitions, not {}",
                    rule.buckets
                ));
            }
        }
        match self.live_partitions() {
            too_many if too_many > PARTITIONS_MAX => wrong(format!(
                "the table would have {too_many} partitions, at most {PARTITIONS_MAX} are possible"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
