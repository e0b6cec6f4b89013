//! Random changes: what a statement says, and what the model makes of it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::dice::Dice;
use crate::expr::{Name, Writer};
use crate::filter::Filter;
use crate::kind::{Cell, Class, Kind, PATHS};
use crate::rows::Rows;
use crate::schema::{Schema, Table};
use crate::words::words;

/// What INSERT does where the row is there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Conflict {
    Replace,
    Nothing,
    /// These columns become these constants, or what was given.
    Set(Vec<(usize, Option<Cell>)>),
}

/// Where the rows of an INSERT come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given {
    Values(Vec<Vec<Cell>>),
    /// The same as a batch of Arrow: texts have any characters there.
    Arrow(Vec<Vec<Cell>>),
    /// A query whose columns have the types of those that they go to.
    Select(String),
}

/// What a column becomes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Set {
    Value(Cell),
    /// An expression over the row, of the column's type.
    Made(String),
}

impl Set {
    /// Whether it names a column of the row.
    fn reads(&self, table: &Table) -> bool {
        match self {
            Set::Value(_) => false,
            Set::Made(expr) => words(expr)
                .iter()
                .any(|word| table.columns.iter().any(|column| column.name == *word)),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Change {
    Insert {
        table: Arc<Table>,
        columns: Vec<usize>,
        given: Given,
        conflict: Conflict,
    },
    Update {
        table: Arc<Table>,
        sets: Vec<(usize, Set)>,
        filter: Filter,
    },
    Delete {
        table: Arc<Table>,
        filter: Filter,
    },
    Truncate {
        table: Arc<Table>,
    },
}

impl Change {
    /// A change of one of the tables; `paths` bounds those that rows may name.
    pub(crate) fn draw(dice: &mut Dice, schema: &Schema, paths: usize) -> Change {
        let written: Vec<&Arc<Table>> = schema.tables.iter().filter(|t| !t.owner).collect();
        let table = Arc::clone(written[dice.roll(written.len())]);
        match dice.roll(40) {
            0..=19 => Change::rows(dice, schema, table, paths),
            20 | 21 => appended(dice, schema, table, paths),
            22..=25 => select(dice, schema, table),
            26..=32 => update(dice, schema, table),
            33..=38 => Change::Delete {
                filter: Filter::draw(dice, schema, &table),
                table,
            },
            _ => Change::Truncate { table },
        }
    }

    /// New rows of a table.
    pub(crate) fn rows(
        dice: &mut Dice,
        schema: &Schema,
        table: Arc<Table>,
        paths: usize,
    ) -> Change {
        let columns = given_columns(dice, &table);
        let rows = match dice.roll(4) {
            0 => 1,
            1 => 2 + dice.roll(4),
            2 => 8 + dice.roll(8),
            _ => 16 + dice.roll(24),
        };
        let row = |dice: &mut Dice| {
            let cells = columns
                .iter()
                .map(|at| schema.cell(dice, &table, *at, paths));
            cells.collect()
        };
        let rows: Vec<Vec<Cell>> = (0..rows).map(|_| row(dice)).collect();
        Change::Insert {
            conflict: conflict(dice, &table),
            table,
            columns,
            given: Given::Values(rows),
        }
    }

    /// Where the rows of an INSERT come from.
    pub(crate) fn given(&self) -> Option<&Given> {
        match self {
            Change::Insert { given, .. } => Some(given),
            _ => None,
        }
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        match self {
            Change::Insert { table, .. }
            | Change::Update { table, .. }
            | Change::Delete { table, .. }
            | Change::Truncate { table } => table,
        }
    }

    /// The statement.
    pub(crate) fn sql(&self) -> String {
        let name = &self.table().name;
        match self {
            Change::Insert {
                table,
                columns,
                given,
                conflict,
            } => {
                let names = table.names(columns).join(", ");
                let given = match given {
                    Given::Values(rows) => format!("VALUES {}", tuples(rows)),
                    Given::Arrow(rows) => format!("-- by Arrow: {}", tuples(rows)),
                    Given::Select(query) => query.clone(),
                };
                let conflict = on_conflict(table, conflict);
                format!("INSERT INTO {name} ({names}) {given}{conflict}")
            }
            Change::Update {
                table,
                sets,
                filter,
            } => {
                let sets: Vec<String> = sets
                    .iter()
                    .map(|(at, set)| {
                        let value = match set {
                            Set::Value(cell) => &cell.sql,
                            Set::Made(expr) => expr,
                        };
                        format!("{} = {value}", table.columns[*at].name)
                    })
                    .collect();
                format!("UPDATE {name} SET {} WHERE {}", sets.join(", "), filter.sql)
            }
            Change::Delete { filter, .. } => format!("DELETE FROM {name} WHERE {}", filter.sql),
            Change::Truncate { .. } => format!("TRUNCATE {name}"),
        }
    }

    /// What the plain engine is asked before it: rows, and what is made of each; with how many
    /// columns of the answer are the row.
    pub(crate) fn question(&self) -> Option<(String, usize)> {
        let name = &self.table().name;
        let width = self.table().columns.len();
        // Each by its name: in plain tables hidden columns are as others.
        let all: Vec<usize> = (0..width).collect();
        let all = self.table().names(&all).join(", ");
        match self {
            Change::Insert {
                given: Given::Select(query),
                ..
            } => Some((query.clone(), 0)),
            Change::Update { sets, filter, .. } => {
                let mut made = String::new();
                for (number, (_, set)) in sets.iter().enumerate() {
                    if let Set::Made(expr) = set {
                        made += &format!(", {expr} AS made{number}");
                    }
                }
                let sql = format!("SELECT {all}{made} FROM {name} WHERE {}", filter.sql);
                Some((sql, width))
            }
            Change::Delete { filter, .. } => {
                let sql = format!("SELECT {all} FROM {name} WHERE {}", filter.sql);
                Some((sql, width))
            }
            Change::Insert { .. } | Change::Truncate { .. } => None,
        }
    }

    /// How many rows it tells that it has changed, where its question finds so many; `rows` are
    /// those of its table before.
    pub(crate) fn counted(&self, found: usize, rows: &Rows) -> RangeInclusive<u64> {
        let exactly = |count: usize| count as u64..=count as u64;
        match self {
            Change::Insert { given, .. } => match given {
                Given::Values(rows) | Given::Arrow(rows) => exactly(rows.len()),
                Given::Select(_) => exactly(found),
            },
            // What is made of a row needs the row.
            Change::Update { table, sets, .. } if sets.iter().any(|(_, set)| set.reads(table)) => {
                exactly(found)
            }
            Change::Update { filter, .. } | Change::Delete { filter, .. } => {
                filter.counted(found as u64, rows)
            }
            Change::Truncate { .. } => exactly(0),
        }
    }
}

fn tuples(rows: &[Vec<Cell>]) -> String {
    let rows: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells: Vec<&str> = row.iter().map(|cell| cell.sql.as_str()).collect();
            format!("({})", cells.join(", "))
        })
        .collect();
    rows.join(", ")
}

fn on_conflict(table: &Table, conflict: &Conflict) -> String {
    let key = || table.names(&table.key).join(", ");
    match conflict {
        Conflict::Replace => String::new(),
        Conflict::Nothing => " ON CONFLICT DO NOTHING".to_owned(),
        Conflict::Set(sets) => {
            let sets: Vec<String> = sets
                .iter()
                .map(|(at, constant)| {
                    let name = &table.columns[*at].name;
                    match constant {
                        Some(cell) => format!("{name} = {}", cell.sql),
                        None => format!("{name} = EXCLUDED.{name}"),
                    }
                })
                .collect();
            format!(" ON CONFLICT ({}) DO UPDATE SET {}", key(), sets.join(", "))
        }
    }
}

/// Rows that a program gives, some with texts that no statement can spell.
fn appended(dice: &mut Dice, schema: &Schema, table: Arc<Table>, paths: usize) -> Change {
    if table.columns.iter().any(|column| column.kind == Kind::File) {
        return Change::rows(dice, schema, table, paths);
    }
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let row = |dice: &mut Dice| {
        let cells = columns.iter().map(|at| {
            let cell = schema.cell(dice, &table, *at, paths);
            match table.columns[*at].class() == Class::Text && dice.one_in(6) {
                true => Cell::with_nul(dice),
                false => cell,
            }
        });
        cells.collect()
    };
    let rows: Vec<Vec<Cell>> = (0..1 + dice.roll(12)).map(|_| row(dice)).collect();
    Change::Insert {
        table,
        columns,
        given: Given::Arrow(rows),
        conflict: Conflict::Replace,
    }
}

/// The columns that an INSERT gives: all, or those that it must and some of the others.
fn given_columns(dice: &mut Dice, table: &Table) -> Vec<usize> {
    let may_miss = |at: &usize| {
        let column = &table.columns[*at];
        !table.is_key(*at) && (column.nullable || column.default.is_some())
    };
    let mut columns: Vec<usize> = (0..table.columns.len()).collect();
    if dice.one_in(3) {
        columns.retain(|at| !may_miss(at) || dice.one_in(2));
    }
    if columns.is_empty() {
        columns.push(0);
    }
    if dice.one_in(4) {
        dice.shuffle(&mut columns);
    }
    columns
}

/// What an INSERT does with rows that are there.
fn conflict(dice: &mut Dice, table: &Table) -> Conflict {
    let mut settable: Vec<usize> = (0..table.columns.len()).collect();
    settable.retain(|at| !table.is_key(*at));
    match dice.roll(6) {
        _ if table.key.is_empty() => Conflict::Replace,
        0 => Conflict::Nothing,
        1 if !settable.is_empty() => {
            let mut sets = dice.some(&settable, 2);
            sets.extend(sets.is_empty().then_some(settable[0]));
            let set = |at: usize| {
                let constant = dice.one_in(3) && table.columns[at].kind != Kind::File;
                let cell = constant.then(|| table.columns[at].cell(dice, PATHS.0));
                (at, cell)
            };
            Conflict::Set(sets.into_iter().map(set).collect())
        }
        _ => Conflict::Replace,
    }
}

/// Rows made of rows: keys stay those of a table, so each comes once.
fn select(dice: &mut Dice, schema: &Schema, table: Arc<Table>) -> Change {
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let items: Vec<String> = columns
        .iter()
        .map(|at| {
            let column = &table.columns[*at];
            // The only constant of a list is NULL here.
            let has_constant = match column.kind {
                Kind::File => false,
                Kind::List => column.nullable,
                _ => true,
            };
            let constant = !table.is_key(*at) && has_constant && dice.one_in(4);
            match constant {
                true => {
                    let cell = column.cell(dice, PATHS.0);
                    format!("{} AS {}", typed(&cell.sql, column.kind), column.name)
                }
                false => column.name.clone(),
            }
        })
        .collect();
    let filter = Filter::draw(dice, schema, &table);
    let query = format!(
        "SELECT {} FROM {} WHERE {}",
        items.join(", "),
        table.name,
        filter.sql
    );
    Change::Insert {
        table,
        columns,
        given: Given::Select(query),
        conflict: Conflict::Replace,
    }
}

/// A constant of a column's type in a query.
fn typed(sql: &str, kind: Kind) -> String {
    match kind {
        // Only columns of tables know how to read the text of a list.
        Kind::List => "NULL".to_owned(),
        Kind::Uuid | Kind::Text | Kind::Varchar => sql.to_owned(),
        _ => format!("CAST({sql} AS {})", kind.declared()),
    }
}

fn update(dice: &mut Dice, schema: &Schema, table: Arc<Table>) -> Change {
    let mut settable: Vec<usize> = (0..table.columns.len()).collect();
    settable.retain(|at| !table.is_key(*at));
    if settable.is_empty() {
        let filter = Filter::draw(dice, schema, &table);
        return Change::Delete { table, filter };
    }
    dice.shuffle(&mut settable);
    settable.truncate(1 + dice.roll(2));
    let names = Name::of_table(&table, None);
    let sets = settable
        .into_iter()
        .map(|at| {
            let column = &table.columns[at];
            let makes = column.nullable && dice.one_in(4);
            let set = match (makes, column.class()) {
                (true, Class::Int | Class::Text | Class::Bool) if column.merge.is_none() => {
                    let expr = Writer::new(dice, &names, None)
                        .tame()
                        .value(column.class(), 2);
                    Set::Made(format!("TRY_CAST({expr} AS {})", column.kind.declared()))
                }
                _ => Set::Value(column.cell(dice, PATHS.0)),
            };
            (at, set)
        })
        .collect();
    Change::Update {
        filter: Filter::draw(dice, schema, &table),
        sets,
        table,
    }
}
