//! The range partitions of a table: the values of a column at which they meet, and which of them a
//! value lies in.

use std::cmp::Ordering;

use datafusion::common::ScalarValue;

use crate::dice::Dice;
use crate::kind::{Cell, Kind, in_key};

/// A rule of range partitions: the first is open below, the last above.
#[derive(Debug, Clone)]
pub(crate) struct Ranges {
    /// The position of its column.
    pub(crate) column: usize,
    /// Where each but the first begins, rising.
    bounds: Vec<Cell>,
}

impl Ranges {
    /// A rule for a column of this kind, if there can be one.
    pub(crate) fn draw(dice: &mut Dice, column: usize, kind: Kind) -> Option<Ranges> {
        if matches!(kind, Kind::File | Kind::List) {
            return None;
        }
        let count = 1 + dice.roll(3);
        let mut bounds: Vec<Cell> = (0..count).map(|_| kind.cell(dice, false, 0)).collect();
        bounds.sort_by(|one, other| compared(&one.value, &other.value));
        bounds.dedup_by(|one, other| compared(&one.value, &other.value).is_eq());
        Some(Ranges { column, bounds })
    }

    /// As CREATE TABLE declares it.
    pub(crate) fn declared(&self, column: &str) -> String {
        let bounds: Vec<&str> = self.bounds.iter().map(|bound| bound.sql.as_str()).collect();
        format!("RANGE ({column}) SPLIT AT ({})", bounds.join(", "))
    }

    /// How many partitions there are.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len() + 1
    }

    /// Which partition a value lies in.
    pub(crate) fn part_of(&self, value: &ScalarValue) -> usize {
        let begun = |bound: &&Cell| compared(&bound.value, value).is_le();
        self.bounds.iter().filter(begun).count()
    }

    /// A partition, as ALTER TABLE names it.
    pub(crate) fn spelt(&self, part: usize) -> String {
        let low = part.checked_sub(1).map(|before| &self.bounds[before].sql);
        let low = low.map_or(String::new(), |low| format!("{low} <= "));
        let high = self.bounds.get(part);
        let high = high.map_or(String::new(), |high| format!(" < {}", high.sql));
        format!("RANGE PARTITION {low}VALUES{high}")
    }
}

/// How values of one type stand in keys.
fn compared(one: &ScalarValue, other: &ScalarValue) -> Ordering {
    let (one, other) = (in_key(one.clone()), in_key(other.clone()));
    one.partial_cmp(&other).unwrap_or(Ordering::Equal)
}
