//! Changes of tables: what a statement says of the tables that are there, and what the model makes
//! of it. Each is told by the table's number, so that it can be told whatever was left out before.

use std::sync::Arc;

use crate::rows::{Rows, State};

/// A change of a table.
#[derive(Debug, Clone)]
pub(crate) enum Define {
    /// A range partition begins to take rows, or ends with them.
    Partition {
        table: usize,
        part: usize,
        adds: bool,
    },
    /// Another definition that says the same of rows.
    Comment { table: usize, number: usize },
}

impl Define {
    /// The statement, over these tables; `None` where it has nothing to be about.
    pub(crate) fn sql(&self, state: &State) -> Option<String> {
        match self {
            Define::Partition { table, part, adds } => {
                let rows = state.table(*table)?;
                let ranges = rows.table.ranges.as_ref()?;
                let is_there = !rows.ended.contains(part);
                let verb = match (*adds, is_there) {
                    (true, false) => "ADD",
                    (true, true) => "ADD IF NOT EXISTS",
                    (false, true) => "DROP",
                    (false, false) => "DROP IF EXISTS",
                };
                let (name, partition) = (&rows.table.name, ranges.spelt(*part));
                Some(format!("ALTER TABLE {name} {verb} {partition}"))
            }
            Define::Comment { table, number } => {
                let name = &state.table(*table)?.table.name;
                Some(format!("COMMENT ON TABLE {name} IS 'comment {number}'"))
            }
        }
    }

    /// Whether it takes rows away from a table that stays.
    pub(crate) fn empties(&self, state: &State) -> bool {
        match self {
            Define::Partition { table, part, adds } => {
                let is_there = |rows: &Arc<Rows>| !rows.ended.contains(part);
                !*adds && state.table(*table).is_some_and(is_there)
            }
            Define::Comment { .. } => false,
        }
    }

    /// What becomes of the tables.
    pub(crate) fn apply(&self, state: &mut State) {
        match self {
            Define::Partition { table, part, adds } => {
                let Some(rows) = state.rows_mut(*table) else {
                    return;
                };
                match (*adds, rows.ended.contains(part)) {
                    (true, true) => rows.begin_partition(*part),
                    (false, false) => rows.end_partition(*part),
                    _ => {}
                }
            }
            Define::Comment { .. } => {}
        }
    }
}
