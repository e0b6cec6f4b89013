//! Which rows an UPDATE or a DELETE is about, and how many it says that it has changed.
//!
//! Where a WHERE names keys in full and nothing else, the database reads nothing and counts the
//! keys; otherwise it counts the rows that it has found.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::dice::Dice;
use crate::expr::{Name, Writer};
use crate::kind::{Cell, Kind, PATHS, in_key};
use crate::rows::{Row, Rows, key_text, text};
use crate::schema::{Schema, Table};

/// A predicate.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    pub(crate) sql: String,
    /// The keys that it names, in the order of the key's columns, if it names some in full.
    keys: Option<Vec<Row>>,
}

impl Filter {
    /// A predicate that names no keys in full.
    pub(crate) fn of(sql: String) -> Filter {
        Filter { sql, keys: None }
    }

    /// On all of a key, on some of it, or on anything.
    pub(crate) fn draw(dice: &mut Dice, schema: &Schema, table: &Table) -> Filter {
        if table.key.is_empty() {
            let names = Name::of_table(table, None);
            return Filter::of(Writer::new(dice, &names, Some(schema)).truth(2));
        }
        if dice.one_in(2) {
            return Filter::by_key(dice, table);
        }
        let mut names = Name::of_table(table, None);
        // Rows without a key would not be told apart by what hidden columns say.
        if dice.one_in(5) {
            names.extend(Name::hidden(table, None));
        }
        let truth = Writer::new(dice, &names, Some(schema)).truth(2);
        Filter::of(match may_name_keys(&truth, table) {
            // What it finds is counted then, whatever it names.
            true => format!("{truth} AND {} IS NOT NULL", table.names(&table.key)[0]),
            false => truth,
        })
    }

    /// One key or several, all of each.
    fn by_key(dice: &mut Dice, table: &Table) -> Filter {
        let mut keys: Vec<Row> = vec![Row::new()];
        let mut equal = Vec::new();
        for at in &table.key {
            let column = &table.columns[*at];
            // Paths that nobody knows have one number.
            let several = column.kind != Kind::File && dice.one_in(4);
            let count = if several { 1 + dice.roll(3) } else { 1 };
            let cells: Vec<Cell> = (0..count)
                .map(|_| column.kind.cell(dice, column.wild, PATHS.0))
                .collect();
            let spelt: Vec<&str> = cells.iter().map(|cell| cell.sql.as_str()).collect();
            equal.push(match spelt.as_slice() {
                [one] => format!("{} = {one}", column.name),
                all => format!("{} IN ({})", column.name, all.join(", ")),
            });
            let longer = keys.iter().flat_map(|key| {
                let with = |cell: &Cell| [key.as_slice(), &[in_key(cell.value.clone())]].concat();
                cells.iter().map(with).collect::<Vec<Row>>()
            });
            keys = longer.collect();
        }
        Filter {
            sql: equal.join(" AND "),
            keys: Some(keys),
        }
    }

    /// How many rows are told to be changed, where it finds so many; `rows` are those of the table
    /// before.
    pub(crate) fn counted(&self, found: u64, rows: &Rows) -> RangeInclusive<u64> {
        let Some(keys) = &self.keys else {
            return found..=found;
        };
        let table = &rows.table;
        let taken = |key: &&Row| {
            let mut cells = table.key.iter().zip(key.iter());
            cells.all(|(at, cell)| rows.takes(*at, cell))
        };
        let taken = keys.iter().filter(taken);
        let named: BTreeSet<String> = taken.map(|key| key_text(key.iter().map(text))).collect();
        let named = named.len() as u64;
        let inexact = |at: &usize| {
            let kind = table.columns[*at].kind;
            matches!(kind, Kind::Real | Kind::Double | Kind::Decimal)
        };
        match table.key.iter().any(inexact) {
            // Constants may be of another type than such a column: then the rows are looked for.
            true => found.min(named)..=found.max(named),
            false => named..=named,
        }
    }
}

/// Whether a predicate could be one that names keys in full. If in doubt, it could.
fn may_name_keys(sql: &str, table: &Table) -> bool {
    let others = [
        "OR ", "NOT ", "IS ", "BETWEEN ", "LIKE ", "<", ">", "SELECT ",
    ];
    let words = sql.split(|at: char| !at.is_ascii_alphanumeric() && at != '_');
    let words: BTreeSet<&str> = words.collect();
    let mut key = table.names(&table.key).into_iter();
    key.all(|name| words.contains(name)) && !others.iter().any(|other| sql.contains(other))
}

#[cfg(test)]
mod tests;
