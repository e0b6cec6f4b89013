//! The naive model of a table: its columns, and its rows by key, changed one by one.

use std::collections::BTreeMap;

use super::Passes;

/// What INSERT does with a column of a row that is there, and what its cells are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Last,
    Sum,
    Min,
    First,
    /// An ID key: the number of a path.
    File,
}

impl Kind {
    /// Whether INSERT combines.
    fn combines(self) -> bool {
        !matches!(self, Kind::Last | Kind::File)
    }

    fn combined(self, old: i64, new: i64) -> i64 {
        match self {
            Kind::Sum => old + new,
            Kind::Min => old.min(new),
            Kind::First => old,
            Kind::Last | Kind::File => new,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) default: Option<i64>,
}

impl Column {
    /// As CREATE TABLE and ADD COLUMN say it.
    pub(super) fn declared(&self) -> String {
        let data_type = match self.kind {
            Kind::Last => "INT",
            Kind::Sum => "BIGINT MERGE SUM",
            Kind::Min => "INT MERGE MIN",
            Kind::First => "INT MERGE FIRST",
            Kind::File => "IDKEY REFERENCES files",
        };
        match self.default {
            Some(default) => format!("{} {data_type} DEFAULT {default}", self.name),
            None => format!("{} {data_type}", self.name),
        }
    }

    /// A cell as a statement gives it.
    pub(super) fn written(&self, value: Option<i64>) -> String {
        match (self.kind, value) {
            (Kind::File, Some(path)) => format!("IDKEY('p{path}')"),
            _ => literal(value),
        }
    }
}

pub(super) fn literal(value: Option<i64>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

/// A row's key, and whether its moment, in the key or not, is one that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) k: i64,
    pub(super) file: Option<i64>,
    pub(super) alive: bool,
}

/// Cells by the ids of their columns.
pub(super) type Row = BTreeMap<u32, Option<i64>>;

/// What INSERT does where the row is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Replace,
    Nothing,
    Set(u32),
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) columns: Vec<Column>,
    /// Those that have not ended.
    pub(super) rows: BTreeMap<RowKey, Row>,
}

impl Model {
    pub(super) fn new(columns: Vec<Column>) -> Model {
        Model {
            columns,
            rows: BTreeMap::new(),
        }
    }

    pub(super) fn find(&self, id: u32) -> Option<&Column> {
        self.columns.iter().find(|column| column.id == id)
    }

    pub(super) fn column(&self, id: u32) -> &Column {
        self.find(id).expect("the column is there")
    }

    pub(super) fn add(&mut self, column: Column) {
        for row in self.rows.values_mut() {
            row.insert(column.id, column.default);
        }
        self.columns.push(column);
    }

    pub(super) fn drop_column(&mut self, id: u32) {
        self.columns.retain(|column| column.id != id);
        for row in self.rows.values_mut() {
            row.remove(&id);
        }
    }

    /// INSERT of one row; where the moment stands outside of the key, one that has ended replaces
    /// the row all the same.
    pub(super) fn insert(&mut self, key: &RowKey, given: &Row, mode: &Mode, replaces: bool) {
        if !key.alive {
            if replaces {
                self.rows.remove(&RowKey {
                    alive: true,
                    ..key.clone()
                });
            }
            return;
        }
        let whole = |column: &Column| {
            let cell = given.get(&column.id).copied();
            (column.id, cell.unwrap_or(column.default))
        };
        let whole: Row = self.columns.iter().map(whole).collect();
        let Some(row) = self.rows.get_mut(key) else {
            self.rows.insert(key.clone(), whole);
            return;
        };
        match mode {
            Mode::Nothing => {}
            Mode::Set(id) => {
                row.insert(*id, whole[id]);
            }
            Mode::Replace => {
                for column in &self.columns {
                    let old = row[&column.id];
                    let new = match given.get(&column.id) {
                        _ if !column.kind.combines() => whole[&column.id],
                        None => old,
                        Some(new) => match (old, *new) {
                            (Some(old), Some(new)) => Some(column.kind.combined(old, new)),
                            (old, new) => old.or(new),
                        },
                    };
                    row.insert(column.id, new);
                }
            }
        }
    }

    /// The rows that pass, as text, sorted: the key without its moment, then these columns.
    pub(super) fn lines(
        &self,
        columns: &[Column],
        passes: &Passes,
        numbers: &BTreeMap<i64, String>,
    ) -> Vec<String> {
        let number = |path: i64| numbers[&path].clone();
        let rows = self.rows.iter().filter(|(key, row)| passes.holds(key, row));
        let mut lines: Vec<String> = rows
            .map(|(key, row)| {
                let mut cells = vec![key.k.to_string()];
                cells.extend(key.file.map(number));
                cells.extend(
                    columns
                        .iter()
                        .map(|column| match (column.kind, row[&column.id]) {
                            (Kind::File, Some(path)) => number(path),
                            (_, value) => literal(value),
                        }),
                );
                cells.join(", ")
            })
            .collect();
        lines.sort();
        lines
    }
}
