//! Changes of definitions: which are possible, how they are asked for, and what becomes of a
//! table's columns and rows.
//!
//! Pure. A column that was dropped never comes back; each drawn column is added once at most, so
//! that a name tells which it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use lazybase_engine::schema::{Alteration, encode_cell};
use lazybase_model::{Column, Table};

use crate::dice::Dice;
use crate::model::{Cell, Rows};
use crate::schema::{Kind, TableDraw, Version, column_name};

/// A change of a table's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alter {
    /// A drawn column is added.
    Add(usize),
    /// A column ends.
    Drop(usize),
    /// A column gets another name, by this number.
    Rename(usize, usize),
    /// A column gets a type with room for more.
    Widen(usize),
    /// Something is said about the table.
    Comment(usize),
}

/// Draws a change that can follow this definition. `gone` are the columns that were ever dropped;
/// `number` makes what is new unique.
pub(crate) fn draw_alter(
    dice: &mut Dice,
    draw: &TableDraw,
    version: &Version,
    gone: &BTreeSet<usize>,
    number: usize,
) -> Alter {
    let viewed = |at: usize| draw.is_viewed(at);
    let there = |at: &usize| version.place(*at).is_some();
    let bound = |at: usize| {
        let ttl = draw.ttl.is_some_and(|(ttl, _)| ttl == at);
        at < draw.keys || ttl || draw.owned == Some(at) || viewed(at)
    };
    let all = 0..draw.columns.len();
    let any = all.clone().filter(there).filter(|at| !viewed(*at));
    let any: Vec<usize> = any.collect();
    let new = |at: &usize| !there(at) && draw.columns[*at].late.is_some() && !gone.contains(at);
    let addable: Vec<usize> = all.clone().filter(new).collect();
    let free: Vec<usize> = all.filter(there).filter(|at| !bound(*at)).collect();
    let short = |at: &usize| {
        let column = draw.columns[*at];
        // A reference gives the default of its time.
        version.kind(*at) == Some(Kind::Short) && column.default.is_none()
    };
    let widenable: Vec<usize> = free.iter().copied().filter(short).collect();
    match dice.below(10) {
        0..4 if !addable.is_empty() => Alter::Add(*dice.pick(&addable)),
        4..6 if free.len() > 1 => Alter::Drop(*dice.pick(&free)),
        6..8 if !widenable.is_empty() => Alter::Widen(*dice.pick(&widenable)),
        0..8 if !addable.is_empty() => Alter::Add(*dice.pick(&addable)),
        0..9 if !any.is_empty() => Alter::Rename(*dice.pick(&any), number),
        _ => Alter::Comment(number),
    }
}

impl Alter {
    /// What the database is asked for.
    ///
    /// # Errors
    /// What is wrong with the column; a mistake of the simulator.
    pub(crate) fn asked(
        self,
        draw: &TableDraw,
        version: &Version,
        table: &Table,
    ) -> Result<Alteration, String> {
        let name = |at: usize| {
            let place = version
                .place(at)
                .ok_or("a column is changed that is not there")?;
            Ok::<String, String>(table.columns[place].name.clone())
        };
        Ok(match self {
            Alter::Add(at) => {
                let column = draw.columns[at];
                let older = column
                    .kind
                    .array(false, [column.late.flatten()].into_iter());
                Alteration::AddColumn(Column {
                    merge: column.merge,
                    older: encode_cell(&older).map_err(|error| error.to_string())?,
                    ..Column::new(column_name(at), column.kind.data_type())
                })
            }
            Alter::Drop(at) => Alteration::DropColumn(name(at)?),
            Alter::Rename(at, number) => Alteration::RenameColumn {
                from: name(at)?,
                to: format!("{}_{number}", column_name(at)),
            },
            Alter::Widen(at) => Alteration::SetType {
                column: name(at)?,
                data_type: DataType::Int64,
                characters_max: None,
                json: false,
            },
            Alter::Comment(number) => Alteration::Comment {
                column: None,
                text: Some(format!("comment {number}")),
            },
        })
    }

    /// The columns after it.
    pub(crate) fn version(self, draw: &TableDraw, before: &Version) -> Version {
        let mut columns: Vec<(usize, Kind)> = before.columns().collect();
        match self {
            Alter::Add(at) => columns.push((at, draw.columns[at].kind)),
            Alter::Drop(at) => columns.retain(|(column, _)| *column != at),
            Alter::Widen(at) => {
                let of_it = columns.iter_mut().filter(|(column, _)| *column == at);
                of_it.for_each(|(_, kind)| *kind = Kind::Long);
            }
            Alter::Rename(..) | Alter::Comment(_) => {}
        }
        Version::new(columns)
    }
}

/// Rows under other columns: new ones hold what was fixed for older rows.
pub(crate) fn adapted(
    rows: &Arc<Rows>,
    draw: &TableDraw,
    from: &Version,
    to: &Version,
) -> Arc<Rows> {
    let place = |at: usize| (from.place(at).is_some(), to.place(at).is_some());
    let changed = (0..draw.columns.len()).map(|at| (at, place(at)));
    let changed: Vec<(usize, Cell)> = changed
        .filter(|(_, (before, after))| before != after)
        .map(|(at, (before, _))| match before {
            true => (at, None),
            false => (at, draw.columns[at].late.flatten()),
        })
        .collect();
    if changed.is_empty() {
        return Arc::clone(rows);
    }
    let row = |row: &Arc<[Cell]>| {
        let mut cells = row.to_vec();
        changed.iter().for_each(|(at, cell)| cells[*at] = *cell);
        Arc::from(cells)
    };
    Arc::new(rows.iter().map(|(key, cells)| (*key, row(cells))).collect())
}
