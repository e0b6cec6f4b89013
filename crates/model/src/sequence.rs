//! Sequences: numbers that are given out one after the other.
//!
//! ```text
//!   counter   last = 7, called        the next number is 8
//!             last = 7, not called    the next number is 7
//!   block     of 32: 8 to 39          reserved at once, and given out one by one
//! ```
//!
//! Numbers are given out once. Those of a block that nobody takes before the database is closed are
//! left out; nothing gives them back, no rollback either. Pure.

use std::fmt;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::table::{ColumnId, TableId};

/// A sequence's id: never used again, and of no table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SequenceId(pub u32);

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl SequenceId {
    /// The same number as the id of something that rights are about: tables, views and sequences
    /// share them.
    pub fn as_object(self) -> TableId {
        TableId(self.0)
    }
}

/// Where a sequence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// The number that was given out, or reserved, last; or that comes next.
    pub last: i64,
    /// Whether `last` was given out, or reserved.
    pub called: bool,
}

/// The column that a sequence numbers, and with which it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceOwner {
    /// The table.
    pub table: TableId,
    /// Its column.
    pub column: ColumnId,
}

/// A sequence's definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// Its id.
    pub id: SequenceId,
    /// Its name, as SQL folds it: no table or view has it.
    pub name: String,
    /// The type of its numbers: `Int16`, `Int32` or `Int64`.
    pub data_type: DataType,
    /// The first number.
    pub start: i64,
    /// From each number to the next; never 0.
    pub increment: i64,
    /// The least number.
    pub min: i64,
    /// The greatest number.
    pub max: i64,
    /// Whether it begins again where it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cycle: bool,
    /// The column that it ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<SequenceOwner>,
}

/// Numbers that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The first.
    pub first: i64,
    /// How many; at least one.
    pub count: u64,
    /// From each to the next.
    pub increment: i64,
}

impl Block {
    /// The last number of it.
    pub fn last(&self) -> i64 {
        self.at(self.count - 1)
    }

    /// The number at a place, counted from 0.
    pub fn at(&self, place: u64) -> i64 {
        let steps = i128::from(self.increment) * i128::from(place);
        // A block lies within the bounds of its sequence.
        (i128::from(self.first) + steps) as i64
    }
}

impl Sequence {
    /// A sequence of BIGINT: 1, 2, 3, ...
    pub fn new(id: SequenceId, name: impl Into<String>) -> Sequence {
        Sequence {
            id,
            name: name.into(),
            data_type: DataType::Int64,
            start: 1,
            increment: 1,
            min: 1,
            max: i64::MAX,
            cycle: false,
            owner: None,
        }
    }

    /// What has the owner that it has: the table that it is of, or itself.
    pub fn owned_with(&self) -> TableId {
        let of_column = self.owner.map(|owner| owner.table);
        of_column.unwrap_or(self.id.as_object())
    }

    /// The least and the greatest number of a type of integers; those of BIGINT for any other.
    pub fn bounds_of(data_type: &DataType) -> (i64, i64) {
        match data_type {
            DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// Checks that there are numbers to give out.
    ///
    /// # Errors
    /// `Invalid` (22023).
    pub fn check(&self) -> Result<()> {
        let (least, greatest) = Sequence::bounds_of(&self.data_type);
        let name = &self.name;
        let what = if self.increment == 0 {
            format!("INCREMENT of sequence {name:?} can't be 0")
        } else if self.min >= self.max {
            let (min, max) = (self.min, self.max);
            format!("MINVALUE ({min}) of sequence {name:?} is not less than MAXVALUE ({max})")
        } else if self.min < least || self.max > greatest {
            format!("the bounds of sequence {name:?} are not of its type")
        } else if !(self.min..=self.max).contains(&self.start) {
            let start = self.start;
            format!("START ({start}) of sequence {name:?} is not within its bounds")
        } else {
            return Ok(());
        };
        Err(Error::invalid(what)
            .with_detail(format!("numbers are from {} to {}", self.min, self.max))
            .with_sqlstate("22023"))
    }

    /// What says which numbers follow each other.
    pub fn numbers(&self) -> (i64, i64, i64, bool) {
        (self.increment, self.min, self.max, self.cycle)
    }

    /// Where it stands before its first number.
    pub fn begin(&self) -> Counter {
        Counter {
            last: self.start,
            called: false,
        }
    }

    /// A counter that stands at a number.
    ///
    /// # Errors
    /// `Invalid` (22003) for a number that it never gives out.
    pub fn counter(&self, last: i64, called: bool) -> Result<Counter> {
        match (self.min..=self.max).contains(&last) {
            true => Ok(Counter { last, called }),
            false => Err(Error::invalid(format!(
                "{last} is out of bounds for sequence {:?}",
                self.name
            ))
            .with_detail(format!("numbers are from {} to {}", self.min, self.max))
            .with_sqlstate("22003")),
        }
    }

    /// The numbers that come next: at most so many, and fewer where the sequence ends.
    ///
    /// # Errors
    /// `Invalid` (2200H) where none is left.
    pub fn block(&self, counter: Counter, count: u64) -> Result<Block> {
        let first = match counter.called {
            false => counter.last,
            true => self.after(counter.last).ok_or_else(|| self.exhausted())?,
        };
        let room = match self.increment > 0 {
            true => i128::from(self.max) - i128::from(first),
            false => i128::from(first) - i128::from(self.min),
        };
        let left = room / i128::from(self.increment).abs() + 1;
        let count = u64::try_from(left).unwrap_or(u64::MAX).min(count.max(1));
        Ok(Block {
            first,
            count,
            increment: self.increment,
        })
    }

    /// The number after another one.
    fn after(&self, number: i64) -> Option<i64> {
        let next = number.checked_add(self.increment);
        let next = next.filter(|next| (self.min..=self.max).contains(next));
        let again = match self.increment > 0 {
            true => self.min,
            false => self.max,
        };
        next.or(self.cycle.then_some(again))
    }

    fn exhausted(&self) -> Error {
        let (end, bound) = match self.increment > 0 {
            true => ("maximum", self.max),
            false => ("minimum", self.min),
        };
        let name = &self.name;
        Error::invalid(format!(
            "nextval: reached {end} value of sequence {name:?} ({bound})"
        ))
        .with_sqlstate("2200H")
    }

    /// Whether a counter may follow another one where nobody set it: numbers only go on.
    pub fn goes_on(&self, before: Counter, after: Counter) -> bool {
        let onwards = match self.increment > 0 {
            true => before.last <= after.last,
            false => before.last >= after.last,
        };
        before == after || (after.called && (onwards || self.cycle))
    }
}

#[cfg(test)]
mod tests;
