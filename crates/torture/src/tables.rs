//! The tables of the test: what a batch does to them, in SQL, and what they hold once some batches
//! are there, by our own reckoning. A batch does what its register and number say, and whatever two
//! registers do to one row is about different columns: so the rows follow from which batches are
//! there, in whatever order those of different registers came.
//!
//! | table | what a batch does | what can be wrong |
//! | --- | --- | --- |
//! | `registers` | adds a row | rows are lost, or come twice |
//! | `pairs` | overwrites two rows, which are zero together | batches are torn |
//! | `totals` | adds one to a sum | merge operators count wrong |
//! | `slots` | inserts, updates or deletes one of few rows | what was deleted comes up again |
//! | `slots` | now and then a column is added, another dropped | rows lose columns, or have more |
//! | `cells` | updates its register's own column of a row | others' columns are taken along |
//!
//! Views show three of them in another order.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Final, Register};

#[cfg(test)]
mod tests;

/// Writers; every other one numbers its batches.
pub(crate) const WRITERS: Register = 4;
/// Who writes alone, where all must be well.
pub(crate) const PROBE: Register = WRITERS + 1;
/// Whose batches add columns to `slots`. They have no numbers of a producer: under one no table can
/// be changed.
pub(crate) const DEFINER: Register = 1;
/// Every so many batches it adds one.
pub(crate) const ADDED_EVERY: u64 = 50;
/// So many batches later it drops it.
const ADDED_STAYS: u64 = 100;
/// What the columns that are added are called, before the number of their batch.
pub(crate) const ADDED: &str = "added_";
/// Rows of a register in `slots`.
const SLOTS: u64 = 7;
/// Rows of `cells`.
const CELLS: u64 = 8;

/// The columns of `cells`: its key, then one for each register.
pub(crate) const CELL_COLUMNS: [&str; 6] = ["cell", "w1", "w2", "w3", "w4", "w5"];

/// What makes the tables and their views, one transaction each.
pub(crate) const SET_UP: [&str; 3] = [
    "CREATE TABLE registers (
        register INT, number BIGINT, note TEXT, PRIMARY KEY (register, number));
    CREATE TABLE pairs (register INT, side TEXT, value BIGINT, PRIMARY KEY (register, side));
    CREATE TABLE totals (register INT PRIMARY KEY, n BIGINT MERGE SUM);
    CREATE TABLE slots (
        register INT, slot INT, number BIGINT, side BIGINT, PRIMARY KEY (register, slot));
    CREATE TABLE cells (
        cell INT PRIMARY KEY, w1 BIGINT, w2 BIGINT, w3 BIGINT, w4 BIGINT, w5 BIGINT);
    CREATE MATERIALIZED VIEW registers_by_number AS
        SELECT number, register FROM registers ORDER BY number, register;
    CREATE MATERIALIZED VIEW slots_by_side AS
        SELECT side, register, slot, number FROM slots ORDER BY side, register, slot;
    CREATE MATERIALIZED VIEW cells_by_w1 AS
        SELECT w1, cell, w2, w3, w4, w5 FROM cells ORDER BY w1, cell",
    "INSERT INTO cells VALUES (0, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0), (2, 0, 0, 0, 0, 0),
        (3, 0, 0, 0, 0, 0), (4, 0, 0, 0, 0, 0), (5, 0, 0, 0, 0, 0), (6, 0, 0, 0, 0, 0),
        (7, 0, 0, 0, 0, 0)",
    // No answer is from before the rows of `cells`.
    "SETTLE",
];

/// What a batch says beside its number.
pub(crate) fn note_of(number: u64) -> String {
    format!("{number}-{}", "x".repeat((number * 37 % 400) as usize))
}

/// One batch over all tables.
pub(crate) fn batch(register: Register, number: u64) -> String {
    let note = note_of(number);
    let altered = match changes_table(register, number) {
        true => change_of_table(number),
        false => String::new(),
    };
    let slot = change_of_slot(register, number);
    let cell = number % CELLS;
    format!(
        "BEGIN;
         {altered}
         INSERT INTO registers VALUES ({register}, {number}, '{note}');
         INSERT INTO pairs VALUES ({register}, 'a', {number}), ({register}, 'b', -{number});
         INSERT INTO totals VALUES ({register}, 1);
         {slot}
         UPDATE cells SET w{register} = {number} WHERE cell = {cell};
         COMMIT"
    )
}

/// Whether a batch adds a column.
pub(crate) fn changes_table(register: Register, number: u64) -> bool {
    register == DEFINER && number.is_multiple_of(ADDED_EVERY)
}

fn change_of_table(number: u64) -> String {
    let dropped = match number.checked_sub(ADDED_STAYS) {
        None | Some(0) => String::new(),
        Some(old) => format!(", DROP COLUMN IF EXISTS {ADDED}{old}"),
    };
    format!(
        "ALTER TABLE slots ADD COLUMN {ADDED}{number} BIGINT NOT NULL DEFAULT {number}{dropped};"
    )
}

/// What a batch does to its row of `slots`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Insert,
    /// Sets the column `side`, if there is a row.
    Side,
    Delete,
}

fn change(number: u64) -> Change {
    match number / SLOTS % 4 {
        0 => Change::Insert,
        2 => Change::Delete,
        _ => Change::Side,
    }
}

fn change_of_slot(register: Register, number: u64) -> String {
    let slot = number % SLOTS;
    // By its key a row is changed unseen; by anything more it has to be found.
    let more = match number % 3 {
        0 => " AND number > 0",
        _ => "",
    };
    let found = format!("WHERE register = {register} AND slot = {slot}{more}");
    match change(number) {
        Change::Insert => format!(
            "INSERT INTO slots (register, slot, number, side)
             VALUES ({register}, {slot}, {number}, {number});"
        ),
        Change::Side => format!("UPDATE slots SET side = {number} {found};"),
        Change::Delete => format!("DELETE FROM slots {found};"),
    }
}

/// A row of `slots`: the batch that inserted it, and the one that last set its `side`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) number: u64,
    pub(crate) side: u64,
}

/// The rows of a cut, or as much of them as their reader keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rows {
    /// Of `registers` the rows with greater numbers than this were read.
    pub(crate) from: u64,
    /// How many these are, and the sum of their numbers.
    pub(crate) counted: BTreeMap<Register, (u64, u64)>,
    pub(crate) slots: BTreeMap<(Register, u64), Slot>,
    /// The batches whose columns `slots` has.
    pub(crate) added: BTreeSet<u64>,
    pub(crate) cells: BTreeMap<(u64, Register), u64>,
}

impl Rows {
    /// What they are where of all batches that are there at the end those up to `reached` are.
    pub(crate) fn due(from: u64, last: &Final, reached: impl Fn(Register) -> u64) -> Rows {
        let mut due = Rows {
            from,
            ..Rows::default()
        };
        for register in 1..=PROBE {
            for cell in 0..CELLS {
                due.cells.insert((cell, register), 0);
            }
        }
        for (register, there) in last {
            let through = reached(*register);
            if through > from {
                let numbers = there.range(from + 1..=through);
                let counted = numbers.fold((0_u64, 0_u64), |(count, sum), number| {
                    (count + 1, sum + number)
                });
                due.counted.insert(*register, counted);
            }
            let slots = slots_of(there, through).into_iter();
            due.slots
                .extend(slots.map(|(slot, row)| ((*register, slot), row)));
            let cells = cells_of(there, through).into_iter();
            due.cells
                .extend(cells.map(|(cell, number)| ((cell, *register), number)));
            if *register == DEFINER {
                due.added = added_of(there, through);
            }
        }
        due.counted.retain(|_, (count, _)| *count > 0);
        due
    }

    /// In what they differ from what is due, in words.
    pub(crate) fn differences(&self, due: &Rows) -> Vec<String> {
        if self == due {
            return Vec::new();
        }
        let parts = |rows: &Rows| {
            [
                ("count and sum of numbers", format!("{:?}", rows.counted)),
                ("rows of slots", format!("{:?}", rows.slots)),
                ("columns that were added", format!("{:?}", rows.added)),
                ("cells", format!("{:?}", rows.cells)),
            ]
        };
        let pairs = parts(self).into_iter().zip(parts(due));
        pairs
            .filter(|((_, is), (_, due))| is != due)
            .map(|((what, is), (_, due))| format!("{what}: {is}, not {due}"))
            .collect()
    }
}

/// The slots of a register that have a row: from the newest batch back, until each is known.
fn slots_of(there: &BTreeSet<u64>, through: u64) -> BTreeMap<u64, Slot> {
    let (mut slots, mut sides) = (BTreeMap::new(), BTreeMap::new());
    let mut known = BTreeSet::new();
    for number in there.range(..=through).rev() {
        let slot = number % SLOTS;
        if known.contains(&slot) {
            continue;
        }
        if change(*number) == Change::Side {
            sides.entry(slot).or_insert(*number);
            continue;
        }
        known.insert(slot);
        if change(*number) == Change::Insert {
            let side = sides.get(&slot).copied().unwrap_or(*number);
            let number = *number;
            slots.insert(slot, Slot { number, side });
        }
        if known.len() as u64 == SLOTS {
            break;
        }
    }
    slots
}

/// The cells that a register has set, with the last number each.
fn cells_of(there: &BTreeSet<u64>, through: u64) -> BTreeMap<u64, u64> {
    let mut cells = BTreeMap::new();
    for number in there.range(..=through).rev() {
        cells.entry(number % CELLS).or_insert(*number);
        if cells.len() as u64 == CELLS {
            break;
        }
    }
    cells
}

/// The batches whose columns are there.
fn added_of(there: &BTreeSet<u64>, through: u64) -> BTreeSet<u64> {
    let is_there = |number: u64| number <= through && there.contains(&number);
    let numbers = (ADDED_EVERY..=through).step_by(ADDED_EVERY as usize);
    numbers
        .filter(|number| is_there(*number) && !is_there(number + ADDED_STAYS))
        .collect()
}
