//! Changes of tables: what a statement says of the tables that are there, and what the model makes
//! of it. Each is told by the table's number, so that it can be told whatever was left out before.

use std::sync::Arc;

use crate::rows::{Mark, Rows, State};
use crate::schema::Table;

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
    Comment {
        table: usize,
        number: usize,
    },
    /// A table without rows.
    Create(Arc<Table>),
    /// A table with the rows of another one.
    Copy {
        table: Arc<Table>,
        of: usize,
    },
    /// A table is called so.
    Rename(Arc<Table>),
    Drop {
        table: usize,
    },
    /// A table without a key is given one: its rows are another table's from then on.
    Key {
        table: Arc<Table>,
        of: usize,
    },
}

impl Define {
    /// The statement, over these tables; `None` where it has nothing to be about.
    pub(crate) fn sql(&self, state: &State) -> Option<String> {
        match self {
            Define::Partition { table, part, adds } => {
                let rows = state.seen(*table)?;
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
                let name = &state.seen(*table)?.table.name;
                Some(format!("COMMENT ON TABLE {name} IS 'comment {number}'"))
            }
            Define::Create(table) => {
                let is_taken = match table.is_temporary {
                    true => state.temporary.contains_key(&table.name),
                    false => state.has(&table.name),
                };
                (!is_taken).then(|| table.create())
            }
            Define::Copy { table, of } => {
                let of = state.seen(*of).filter(|_| !state.has(&table.name))?;
                Some(table.create_as(&of.table))
            }
            Define::Rename(to) => {
                let rows = state.seen(to.id).filter(|_| !state.has(&to.name))?;
                let name = &rows.table.name;
                Some(format!("ALTER TABLE {name} RENAME TO {}", to.name))
            }
            Define::Drop { table } => {
                let name = &state.seen(*table)?.table.name;
                let mut views = state.views.values();
                let cascade = match views.any(|view| view.table.id == *table) {
                    true => " CASCADE",
                    false => "",
                };
                Some(format!("DROP TABLE {name}{cascade}"))
            }
            Define::Key { table, of } => {
                let named = |rows: &&Arc<Rows>| rows.table.name == table.name;
                let name = &state.seen(*of).filter(named)?.table.name;
                let key = table.names(&table.key).join(", ");
                Some(format!("ALTER TABLE {name} ADD PRIMARY KEY ({key})"))
            }
        }
    }

    /// With which errors it is refused, where it is, for what the rows hold.
    pub(crate) fn refused(&self, state: &State) -> Vec<&'static str> {
        match self {
            Define::Key { table, of } => match state.seen(*of) {
                Some(rows) => rows.keyed(table, Mark::Own).1,
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The table whose rows must be out of the way then.
    pub(crate) fn in_the_way<'s>(&self, state: &'s State) -> Option<&'s Arc<Table>> {
        match self {
            Define::Key { of, .. } => state.seen(*of).map(|rows| &rows.table),
            _ => None,
        }
    }

    /// Whether a transaction may do it that found these tables.
    pub(crate) fn may_be_inside(&self, found: &State) -> bool {
        match self {
            Define::Key { of, .. } => found.table(*of).is_none(),
            _ => true,
        }
    }

    /// Whether names mean something else after it.
    pub(crate) fn changes_names(&self) -> bool {
        !matches!(self, Define::Partition { .. } | Define::Comment { .. })
    }

    /// Whether it takes rows away from a table that stays.
    pub(crate) fn empties(&self, state: &State) -> bool {
        match self {
            Define::Partition { table, part, adds } => {
                let is_there = |rows: &Arc<Rows>| !rows.ended.contains(part);
                !*adds && state.seen(*table).is_some_and(is_there)
            }
            _ => false,
        }
    }

    /// How many rows it tells that it has written.
    pub(crate) fn counted(&self, state: &State) -> u64 {
        match self {
            Define::Copy { of, .. } => {
                let rows = state.seen(*of).map_or(0, |rows| rows.rows.len());
                rows as u64
            }
            _ => 0,
        }
    }

    /// What becomes of the tables, with rows that are written by `mark`; without these, where they
    /// come later.
    pub(crate) fn apply(&self, state: &mut State, mark: Option<Mark>) {
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
            Define::Create(table) => state.create(table),
            Define::Copy { table, of } => {
                state.create(table);
                if let Some(mark) = mark {
                    state.copy_rows(table.id, *of, mark);
                }
            }
            Define::Rename(to) => state.rename(to),
            Define::Drop { table } => state.remove(*table),
            Define::Key { table, of } => {
                let mark = mark.unwrap_or(Mark::Own);
                if let Some((keyed, _)) = state.seen(*of).map(|rows| rows.keyed(table, mark)) {
                    state.remove(*of);
                    state.put(keyed);
                }
            }
        }
    }
}
