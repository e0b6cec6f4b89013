//! The tables and views of a story, drawn by its dice.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::dice::Dice;
use crate::kind::{Cell, Class, Kind, PATHS};
use crate::ranges::Ranges;

/// What INSERT does with a column of a row that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merge {
    Sum,
    Min,
    Max,
    First,
}

impl Merge {
    fn word(self) -> &'static str {
        match self {
            Merge::Sum => "SUM",
            Merge::Min => "MIN",
            Merge::Max => "MAX",
            Merge::First => "FIRST",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) nullable: bool,
    /// Whether values may lie at the ends of the type.
    pub(crate) wild: bool,
    pub(crate) default: Option<Cell>,
    pub(crate) merge: Option<Merge>,
}

impl Column {
    fn declared(&self) -> String {
        let mut text = format!("{} {}", self.name, self.kind.declared());
        if let Some(merge) = self.merge {
            text += &format!(" MERGE {}", merge.word());
        }
        if !self.nullable {
            text += " NOT NULL";
        }
        if let Some(default) = &self.default {
            text += &format!(" DEFAULT {}", default.sql);
        }
        text
    }

    /// A value that the column takes.
    pub(crate) fn cell(&self, dice: &mut Dice, paths: usize) -> Cell {
        match self.nullable && dice.one_in(5) {
            true => self.kind.null(),
            false => self.kind.cell(dice, self.wild, paths),
        }
    }

    /// What it holds where it is not given.
    pub(crate) fn absent(&self) -> Cell {
        self.default.clone().unwrap_or_else(|| self.kind.null())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// Which one it is, whatever its name.
    pub(crate) id: usize,
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// Positions of the key's columns, in its order; none for a table without a key.
    pub(crate) key: Vec<usize>,
    is_point: bool,
    /// A rule of hash partitions, as it is declared.
    hash: Option<String>,
    /// Its range partitions, if it has a rule of them.
    pub(crate) ranges: Option<Ranges>,
    /// Whether it is seen by the session alone that writes.
    pub(crate) is_temporary: bool,
    /// Whether it owns the numbers of paths: nothing but references writes it.
    pub(crate) owner: bool,
}

/// A secondary view.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) table: Arc<Table>,
    /// Positions of its columns in the table.
    pub(crate) columns: Vec<usize>,
    order: Vec<usize>,
}

/// What a story has.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) tables: Vec<Arc<Table>>,
    /// Views that a story may make, one after the other.
    pub(crate) views: Vec<Arc<View>>,
    /// Temporary tables of the session that writes.
    pub(crate) temporary: Vec<Arc<Table>>,
    /// Range partitions that take no rows: tables, and places in their rules.
    pub(crate) ended: BTreeSet<(usize, usize)>,
}

/// How often a value is drawn again that no partition takes.
const TRIES: usize = 20;

impl Schema {
    pub(crate) fn draw(dice: &mut Dice) -> Schema {
        let mut tables = Vec::new();
        let with_files = dice.one_in(4);
        let count = 1 + dice.roll(3);
        if with_files {
            tables.push(Arc::new(files(count)));
        }
        for number in 0..count {
            tables.push(Arc::new(Table::draw(dice, number, with_files)));
        }
        let mut views = Vec::new();
        for table in &tables {
            for _ in 0..dice.roll(3) {
                let name = format!("v{}", views.len());
                views.extend(View::draw(dice, name, table).map(Arc::new));
            }
        }
        Schema {
            tables,
            views,
            temporary: Vec::new(),
            ended: BTreeSet::new(),
        }
    }

    /// What the session sees that writes: its temporary tables stand before others.
    pub(crate) fn seen(&self) -> Schema {
        let mut seen = self.clone();
        let is_free = |name: &str| self.temporary.iter().all(|of| of.name != name);
        seen.tables.retain(|table| is_free(&table.name));
        seen.views.retain(|view| is_free(&view.name));
        seen.tables.extend(self.temporary.iter().cloned());
        seen
    }

    /// Whether a table is there.
    pub(crate) fn has(&self, table: usize) -> bool {
        let mut all = self.tables.iter().chain(&self.temporary);
        all.any(|known| known.id == table)
    }

    /// A table is there, in the place of what it was.
    pub(crate) fn put(&mut self, table: Arc<Table>) {
        let tables = match table.is_temporary {
            true => &mut self.temporary,
            false => &mut self.tables,
        };
        match tables.iter_mut().find(|known| known.id == table.id) {
            Some(known) => *known = table,
            None => tables.push(table),
        }
    }

    /// A table is there no more, nor are its views.
    pub(crate) fn remove(&mut self, table: usize) {
        self.tables.retain(|known| known.id != table);
        self.temporary.retain(|known| known.id != table);
        self.views.retain(|view| view.table.id != table);
    }

    /// A value of a column of a row that is written: mostly one that a partition takes.
    pub(crate) fn cell(&self, dice: &mut Dice, table: &Table, at: usize, paths: usize) -> Cell {
        let column = &table.columns[at];
        let mut cell = column.cell(dice, paths);
        let Some(ranges) = table.ranges.as_ref().filter(|of| of.column == at) else {
            return cell;
        };
        for _ in 0..TRIES {
            let part = ranges.part_of(&cell.value);
            if !self.ended.contains(&(table.id, part)) || dice.one_in(200) {
                break;
            }
            cell = column.cell(dice, paths);
        }
        cell
    }
}

/// The table that gives paths their numbers.
fn files(id: usize) -> Table {
    let column = |name: &str, kind: Kind, nullable: bool| Column {
        name: name.to_owned(),
        kind,
        nullable,
        wild: false,
        default: None,
        merge: None,
    };
    let columns = vec![
        column("id", Kind::File, false),
        column("path", Kind::Text, false),
        column("note", Kind::Text, true),
    ];
    Table {
        owner: true,
        ..Table::plain(id, "files".to_owned(), columns, vec![1])
    }
}

impl Table {
    /// A table without options.
    pub(crate) fn plain(id: usize, name: String, columns: Vec<Column>, key: Vec<usize>) -> Table {
        Table {
            id,
            name,
            columns,
            key,
            is_point: false,
            hash: None,
            ranges: None,
            is_temporary: false,
            owner: false,
        }
    }

    pub(crate) fn draw(dice: &mut Dice, number: usize, with_files: bool) -> Table {
        let keys = [1, 1, 2, 2, 3, 0][dice.roll(6)];
        Table::with_keys(dice, number, with_files, keys)
    }

    /// A table whose key has so many columns.
    pub(crate) fn with_keys(
        dice: &mut Dice,
        number: usize,
        with_files: bool,
        keys: usize,
    ) -> Table {
        let mut columns = Vec::new();
        for at in 0..keys {
            columns.push(key_column(dice, &format!("k{at}"), with_files));
        }
        for at in 0..2 + dice.roll(5) {
            columns.push(value_column(dice, at, keys > 0, with_files));
        }
        // Columns of the key stand anywhere, in any order.
        if dice.one_in(2) {
            dice.shuffle(&mut columns);
        }
        let is_key = |at: &usize| columns[*at].name.starts_with('k');
        let mut key: Vec<usize> = (0..columns.len()).filter(is_key).collect();
        dice.shuffle(&mut key);
        let is_point = dice.one_in(5);
        let (hash, ranges) = partitions(dice, &columns, &key);
        Table {
            id: number,
            name: format!("t{number}"),
            columns,
            key,
            is_point,
            hash,
            ranges,
            is_temporary: false,
            owner: false,
        }
    }

    pub(crate) fn create(&self) -> String {
        if self.owner {
            return "CREATE TABLE files (id IDKEY, path TEXT PRIMARY KEY, note TEXT)".to_owned();
        }
        let mut parts: Vec<String> = self.columns.iter().map(Column::declared).collect();
        if !self.key.is_empty() {
            parts.push(format!(
                "PRIMARY KEY ({})",
                self.names(&self.key).join(", ")
            ));
        }
        let word = match self.is_temporary {
            true => "TEMPORARY ",
            false => "",
        };
        format!(
            "CREATE {word}TABLE {} ({}){}",
            self.name,
            parts.join(", "),
            self.options()
        )
    }

    /// The same as a temporary table of this name, which is declared without partitions.
    pub(crate) fn temporary(self, name: String) -> Table {
        Table {
            name,
            hash: None,
            ranges: None,
            is_temporary: true,
            ..self
        }
    }

    /// The same table under another name.
    pub(crate) fn renamed(&self, name: String) -> Table {
        Table {
            name,
            ..self.clone()
        }
    }

    /// Another table that is made as this one.
    pub(crate) fn made_again(&self, id: usize) -> Table {
        Table { id, ..self.clone() }
    }

    /// What comes of a table without a key that is given one.
    pub(crate) fn keyed(&self, id: usize, key: Vec<usize>) -> Table {
        let mut columns = self.columns.clone();
        key.iter().for_each(|at| columns[*at].nullable = false);
        Table {
            id,
            columns,
            key,
            ..self.clone()
        }
    }

    /// What CREATE TABLE AS makes of all of its columns, with its key or without; nothing of
    /// columns whose numbers stand for paths.
    pub(crate) fn copied(&self, id: usize, with_key: bool) -> Option<Table> {
        let columns = self.columns.iter().enumerate().map(|(at, of)| Column {
            name: of.name.clone(),
            kind: match of.kind {
                Kind::Varchar => Kind::Text,
                other => other,
            },
            nullable: !(with_key && self.is_key(at)),
            wild: of.wild,
            default: None,
            merge: None,
        });
        let has_files = self.columns.iter().any(|of| of.kind == Kind::File);
        let key = match with_key {
            true => self.key.clone(),
            false => Vec::new(),
        };
        (!has_files).then(|| Table::plain(id, format!("t{id}"), columns.collect(), key))
    }

    /// CREATE TABLE AS, of a table of these columns.
    pub(crate) fn create_as(&self, of: &Table) -> String {
        let key = match self.key.is_empty() {
            true => String::new(),
            false => format!(" (PRIMARY KEY ({}))", self.names(&self.key).join(", ")),
        };
        let all: Vec<usize> = (0..self.columns.len()).collect();
        format!(
            "CREATE TABLE {}{key} AS SELECT {} FROM {}",
            self.name,
            self.names(&all).join(", "),
            of.name
        )
    }

    /// The layout, and PARTITION BY.
    fn options(&self) -> String {
        let layout = match self.is_point {
            true => " WITH (layout = 'point')",
            false => "",
        };
        let mut rules: Vec<String> = self.hash.iter().cloned().collect();
        if let Some(ranges) = &self.ranges {
            rules.push(ranges.declared(&self.columns[ranges.column].name));
        }
        match rules.is_empty() {
            true => layout.to_owned(),
            false => format!("{layout} PARTITION BY {}", rules.join(", ")),
        }
    }

    pub(crate) fn names(&self, columns: &[usize]) -> Vec<&str> {
        let name = |at: &usize| self.columns[*at].name.as_str();
        columns.iter().map(name).collect()
    }

    pub(crate) fn may_be_null(&self, at: usize) -> bool {
        self.columns[at].nullable && !self.is_key(at)
    }

    pub(crate) fn is_key(&self, at: usize) -> bool {
        self.key.contains(&at)
    }

    /// Whether INSERT combines columns of a row that is there.
    pub(crate) fn merges(&self) -> bool {
        self.columns.iter().any(|column| column.merge.is_some())
    }

    /// Whether ON CONFLICT that sets these columns, some of them to constants, makes the same row
    /// whatever was there: then it replaces that one, and its key counts as set.
    pub(crate) fn is_replaced_by(&self, sets: &[(usize, Option<Cell>)]) -> bool {
        let is_given = |at: usize| {
            let mut set = sets.iter();
            set.any(|(set, constant)| *set == at && constant.is_none())
        };
        (0..self.columns.len()).all(|at| self.is_key(at) || is_given(at))
    }
}

fn key_column(dice: &mut Dice, name: &str, with_files: bool) -> Column {
    let keyable: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::List)
        .collect();
    let kind = match dice.roll(8) {
        0 | 1 => Kind::Int,
        2 => Kind::Text,
        3 if with_files => Kind::File,
        _ => keyable[dice.roll(keyable.len())],
    };
    Column {
        name: name.to_owned(),
        kind,
        nullable: false,
        wild: dice.one_in(4),
        default: None,
        merge: None,
    }
}

fn value_column(dice: &mut Dice, at: usize, keyed: bool, with_files: bool) -> Column {
    let name = format!("{}", char::from(b'a' + at as u8));
    let merge = match dice.roll(20) {
        _ if !keyed => None,
        0 => Some(Merge::Sum),
        1 => Some(Merge::Min),
        2 => Some(Merge::Max),
        3 => Some(Merge::First),
        _ => None,
    };
    let kind = match merge {
        Some(Merge::Sum) => [Kind::BigInt, Kind::Int][dice.roll(2)],
        Some(Merge::Min | Merge::Max) => [Kind::Int, Kind::Text, Kind::Date][dice.roll(3)],
        None if with_files && dice.one_in(5) => Kind::File,
        _ if dice.one_in(4) => Kind::Int,
        _ => Kind::ALL[dice.roll(Kind::ALL.len())],
    };
    let nullable = merge.is_some() || !dice.one_in(4);
    let plain = merge.is_none() && kind != Kind::File;
    let default = match plain && (!nullable || dice.one_in(4)) {
        true => Some(kind.cell(dice, false, PATHS.0)),
        false => None,
    };
    // A reference is given with each row, or may be left out.
    let nullable = nullable || kind == Kind::File;
    Column {
        name,
        kind,
        nullable,
        wild: merge.is_none() && dice.one_in(6),
        default,
        merge,
    }
}

/// How a table is cut: by hashes of a column of its key, by ranges of another one, or by both.
fn partitions(
    dice: &mut Dice,
    columns: &[Column],
    key: &[usize],
) -> (Option<String>, Option<Ranges>) {
    if key.is_empty() || !dice.one_in(3) {
        return (None, None);
    }
    let mut left = key.to_vec();
    let mut hash = None;
    if dice.one_in(2) {
        let at = left.remove(dice.roll(left.len()));
        let partitions = 2 + dice.roll(3);
        let name = &columns[at].name;
        hash = Some(format!("HASH ({name}) PARTITIONS {partitions}"));
    }
    let ranged = hash.is_none() || dice.one_in(2);
    let at = dice.choose(&left).copied().filter(|_| ranged);
    let ranges = at.and_then(|at| Ranges::draw(dice, at, columns[at].kind));
    (hash, ranges)
}

impl Column {
    pub(crate) fn class(&self) -> Class {
        self.kind.class()
    }
}

impl View {
    /// A view of a table, if it can have one.
    pub(crate) fn draw(dice: &mut Dice, name: String, table: &Arc<Table>) -> Option<View> {
        if table.key.is_empty() {
            return None;
        }
        let sorts = |at: &usize| {
            let column = &table.columns[*at];
            !table.is_key(*at) && column.merge.is_none() && column.kind != Kind::List
        };
        let others: Vec<usize> = (0..table.columns.len())
            .filter(|at| !table.is_key(*at))
            .collect();
        let sorting: Vec<usize> = others.iter().copied().filter(sorts).collect();
        let mut order: Vec<usize> = dice.choose(&sorting).copied().into_iter().collect();
        if dice.one_in(4) {
            order.extend(
                dice.some(&sorting, 2)
                    .iter()
                    .filter(|at| !order.contains(at))
                    .copied()
                    .collect::<Vec<_>>(),
            );
        }
        let mut key = table.key.clone();
        dice.shuffle(&mut key);
        match dice.one_in(4) {
            true => order.splice(0..0, key).for_each(drop),
            false => order.extend(key),
        }
        let more = dice.some(&others, 2);
        let mut columns = order.clone();
        columns.extend(more.into_iter().filter(|at| !order.contains(at)));
        dice.shuffle(&mut columns);
        Some(View {
            name,
            table: Arc::clone(table),
            columns,
            order,
        })
    }

    /// What makes it, where its table has this name.
    pub(crate) fn create(&self, table: &str) -> String {
        format!(
            "CREATE MATERIALIZED VIEW {} AS SELECT {} FROM {table} ORDER BY {}",
            self.name,
            self.table.names(&self.columns).join(", "),
            self.table.names(&self.order).join(", ")
        )
    }
}
