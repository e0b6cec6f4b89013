//! What a table with labels holds, said plainly, and what of it somebody may read.

use std::collections::BTreeMap;

use super::shape::Shape;

pub(super) const LABELS: [&str; 6] = ["", "x", "y", "x&y", "x|y", "(x&y)|z"];

pub(super) const AUTHORIZATIONS: [&str; 7] = ["", "x", "y", "x,y", "z", "x,y,z", "*"];

/// Whether a label admits somebody, by cases.
fn admits(label: &str, authorizations: &str) -> bool {
    let has = |term| authorizations == "*" || authorizations.split(',').any(|own| own == term);
    match label {
        "" => true,
        "x&y" => has("x") && has("y"),
        "x|y" => has("x") || has("y"),
        "(x&y)|z" => (has("x") && has("y")) || has("z"),
        term => has(term),
    }
}

/// A value with its label, and the SCU that set it.
type Cell = (Option<i64>, &'static str, u64);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    g: (i64, u64),
    a: Cell,
    b: Cell,
    label: (&'static str, u64),
    /// What made it.
    made: u64,
}

/// What somebody sees of a row.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) g: i64,
    pub(super) a: Option<i64>,
    pub(super) b: Option<i64>,
    /// `None` where it is not committed.
    pub(super) scu: Option<u64>,
}

/// What is set by a change, and gets its SCU when that is known: it is newer than all others.
const NEW: u64 = u64::MAX;

impl Row {
    pub(super) fn new(
        g: i64,
        a: (Option<i64>, &'static str),
        b: (Option<i64>, &'static str),
        label: &'static str,
    ) -> Row {
        Row {
            g: (g, NEW),
            a: (a.0, a.1, NEW),
            b: (b.0, b.1, NEW),
            label: (label, NEW),
            made: NEW,
        }
    }

    fn see(&self, authorizations: &str) -> Option<Seen> {
        let cell = |cell: Cell| cell.0.filter(|_| admits(cell.1, authorizations));
        let scu = |cell: Cell| match admits(cell.1, authorizations) {
            true => cell.2,
            false => 0,
        };
        let versions = [self.g.1, self.label.1, self.made, scu(self.a), scu(self.b)];
        admits(self.label.0, authorizations).then(|| Seen {
            g: self.g.0,
            a: cell(self.a),
            b: cell(self.b),
            scu: versions.into_iter().max().filter(|scu| *scu != NEW),
        })
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    /// Those that have not ended, by `k`; of one `k` there are several where there is no key.
    rows: BTreeMap<(i64, u64), Row>,
    /// How many rows have come to a table without a key.
    numbered: u64,
}

impl Model {
    /// INSERT of a row, which has ended by then or not.
    pub(super) fn put(&mut self, shape: Shape, k: i64, is_alive: bool, row: Row) {
        match (is_alive, shape) {
            (true, Shape::Keyless) => {
                self.numbered += 1;
                self.rows.insert((k, self.numbered), row);
            }
            (true, _) => {
                self.rows.insert((k, 0), row);
            }
            // It is in the place of the one that was there.
            (false, Shape::EndsByValue) => self.delete(k),
            (false, _) => {}
        }
    }

    pub(super) fn has(&self, k: i64) -> bool {
        self.rows.keys().any(|(known, _)| *known == k)
    }

    fn rows_of(&mut self, k: i64) -> impl Iterator<Item = &mut Row> {
        let rows = self.rows.range_mut((k, 0)..=(k, u64::MAX));
        rows.map(|(_, row)| row)
    }

    pub(super) fn delete(&mut self, k: i64) {
        self.rows.retain(|(known, _), _| *known != k);
    }

    pub(super) fn set_a(&mut self, k: i64, a: Option<i64>, label: &'static str) {
        for row in self.rows_of(k) {
            row.a = (a, label, NEW);
        }
    }

    pub(super) fn set_label(&mut self, k: i64, g: i64, label: &'static str) {
        for row in self.rows_of(k) {
            row.g = (g, NEW);
            row.label = (label, NEW);
        }
    }

    /// `SET g WHERE a >= least`, by somebody.
    pub(super) fn update_g(&mut self, authorizations: &str, g: i64, least: i64) {
        for row in self.rows.values_mut() {
            let seen = row.see(authorizations);
            if seen.and_then(|seen| seen.a).is_some_and(|a| a >= least) {
                row.g = (g, NEW);
            }
        }
    }

    /// `DELETE WHERE b = value`, by somebody.
    pub(super) fn delete_by_b(&mut self, authorizations: &str, value: i64) {
        self.rows.retain(|_, row| {
            let seen = row.see(authorizations);
            seen.and_then(|seen| seen.b) != Some(value)
        });
    }

    /// What the last change set is of this SCU.
    pub(super) fn stamp(&mut self, scu: u64) {
        for row in self.rows.values_mut() {
            let versions = [
                &mut row.g.1,
                &mut row.a.2,
                &mut row.b.2,
                &mut row.label.1,
                &mut row.made,
            ];
            for version in versions {
                if *version == NEW {
                    *version = scu;
                }
            }
        }
    }

    pub(super) fn visible(&self, authorizations: &str) -> Vec<(i64, Seen)> {
        let seen = self.rows.iter();
        seen.filter_map(|((k, _), row)| Some((*k, row.see(authorizations)?)))
            .collect()
    }
}
