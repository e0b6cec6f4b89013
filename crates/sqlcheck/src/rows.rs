//! The naive model: rows in maps, changed one by one.
//!
//! What a predicate or an expression of a change is for a row, the plain engine says ([`Asked`]);
//! what becomes of the row is decided here, and who has set each of its cells ([`Mark`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::common::ScalarValue;

use crate::change::{Change, Conflict, Given, Set};
use crate::kind::{Cell, Kind, in_key};
use crate::schema::{Merge, Table, View};

/// The cells of a row, in the order of the table's columns.
pub(crate) type Row = Vec<ScalarValue>;

/// Who has set a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// An SCU, by its number.
    Scu(u64),
    /// The transaction of the session that writes, which has not committed.
    Own,
}

/// A row that is there.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) cells: Row,
    /// Who has set each of them.
    pub(crate) marks: Vec<Mark>,
}

impl Stored {
    fn new(cells: Row, mark: Mark) -> Stored {
        Stored {
            marks: vec![mark; cells.len()],
            cells,
        }
    }

    fn set(&mut self, at: usize, cell: ScalarValue, mark: Mark) {
        self.cells[at] = cell;
        self.marks[at] = mark;
    }

    /// Who has changed the row last.
    pub(crate) fn mark(&self) -> Mark {
        let newest = self.marks.iter().copied().max();
        newest.expect("each table has columns")
    }
}

/// The rows of a table by their keys as text; of a table without a key, by the order of arrival.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) table: Arc<Table>,
    pub(crate) rows: BTreeMap<String, Stored>,
    /// Range partitions that take no rows, by their places in the table's rule.
    pub(crate) ended: BTreeSet<usize>,
    arrived: u64,
}

/// What all tables hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) tables: BTreeMap<String, Arc<Rows>>,
    pub(crate) views: BTreeMap<String, Arc<View>>,
    /// The temporary tables of the session that writes: to it their names mean nothing else.
    pub(crate) temporary: BTreeMap<String, Arc<Rows>>,
}

/// What the plain engine said: the rows that a change touches, each with what its expressions are.
pub(crate) type Asked = Vec<(Row, Row)>;

/// A cell as text that tells every two values apart.
pub(crate) fn text(cell: &ScalarValue) -> String {
    match cell {
        ScalarValue::Utf8(Some(text)) => format!("'{text}'"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn key_text(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join("|")
}

impl Rows {
    pub(crate) fn new(table: Arc<Table>) -> Rows {
        Rows {
            table,
            rows: BTreeMap::new(),
            ended: BTreeSet::new(),
            arrived: 0,
        }
    }

    fn key_of(&mut self, row: &Row) -> String {
        if self.table.key.is_empty() {
            self.arrived += 1;
            return format!("{:012}", self.arrived);
        }
        key_text(self.table.key.iter().map(|at| text(&row[*at])))
    }

    /// Puts one row in, whose columns are `given`.
    fn insert(
        &mut self,
        columns: &[usize],
        cells: &[ScalarValue],
        conflict: &Conflict,
        mark: Mark,
    ) {
        let table = Arc::clone(&self.table);
        let place = |at: usize| columns.iter().position(|given| *given == at);
        let given = |at: usize| place(at).map(|place| &cells[place]);
        let absent = |at: usize| table.columns[at].absent().value;
        let whole = (0..table.columns.len()).map(|at| {
            let cell = given(at).cloned().unwrap_or_else(|| absent(at));
            match table.is_key(at) {
                true => in_key(cell),
                false => cell,
            }
        });
        let whole: Row = whole.collect();
        let key = self.key_of(&whole);
        let Some(old) = self.rows.get_mut(&key) else {
            self.rows.insert(key, Stored::new(whole, mark));
            return;
        };
        match conflict {
            Conflict::Nothing => {}
            Conflict::Set(sets) if table.is_replaced_by(sets) => *old = Stored::new(whole, mark),
            Conflict::Set(sets) => {
                for (at, constant) in sets {
                    let cell = match constant {
                        Some(cell) => cell.value.clone(),
                        None => whole[*at].clone(),
                    };
                    old.set(*at, cell, mark);
                }
            }
            Conflict::Replace if table.merges() => {
                for (at, new) in whole.into_iter().enumerate() {
                    match (table.columns[at].merge, given(at)) {
                        // The row was made before, and stays.
                        _ if table.is_key(at) => {}
                        (None, _) => old.set(at, new, mark),
                        (Some(_), None) => {}
                        (Some(merge), Some(_)) => {
                            let cell = combined(merge, &old.cells[at], new);
                            old.set(at, cell, mark);
                        }
                    }
                }
            }
            Conflict::Replace => *old = Stored::new(whole, mark),
        }
    }

    /// The same rows in a table with a key, and with which errors it may be refused: NULL in the
    /// key, or a key that is there twice.
    pub(crate) fn keyed(&self, table: &Arc<Table>, mark: Mark) -> (Rows, Vec<&'static str>) {
        let mut keyed = Rows::new(Arc::clone(table));
        let all: Vec<usize> = (0..table.columns.len()).collect();
        let mut refused = Vec::new();
        for row in self.rows.values() {
            if table.key.iter().any(|at| row.cells[*at].is_null()) {
                refused.push("23502");
            }
            keyed.insert(&all, &row.cells, &Conflict::Replace, mark);
        }
        if keyed.rows.len() < self.rows.len() {
            refused.push("23505");
        }
        (keyed, refused)
    }

    /// Whether partitions take rows with this value in a column.
    pub(crate) fn takes(&self, at: usize, value: &ScalarValue) -> bool {
        let ranges = self.table.ranges.as_ref();
        let ranges = ranges.filter(|ranges| ranges.column == at);
        ranges.is_none_or(|ranges| !self.ended.contains(&ranges.part_of(value)))
    }

    /// A range partition ends, with its rows.
    pub(crate) fn end_partition(&mut self, part: usize) {
        let Some(ranges) = &self.table.ranges else {
            return;
        };
        self.rows
            .retain(|_, row| ranges.part_of(&row.cells[ranges.column]) != part);
        self.ended.insert(part);
    }

    /// A range partition takes rows, and has none.
    pub(crate) fn begin_partition(&mut self, part: usize) {
        self.ended.remove(&part);
    }

    /// Gives each row that was asked about to `change`, which says what becomes of it.
    fn each(&mut self, asked: &Asked, change: impl Fn(Stored, &Row) -> Option<Stored>) {
        let whole = |row: &Row| key_text(row.iter().map(text));
        let touched: BTreeMap<String, &Row> =
            asked.iter().map(|(row, made)| (whole(row), made)).collect();
        let rows = std::mem::take(&mut self.rows);
        for (key, row) in rows {
            let kept = match touched.get(&whole(&row.cells)) {
                Some(made) => change(row, made),
                None => Some(row),
            };
            self.rows.extend(kept.map(|row| (key, row)));
        }
    }
}

fn combined(merge: Merge, old: &ScalarValue, new: ScalarValue) -> ScalarValue {
    if old.is_null() {
        return new;
    }
    if new.is_null() {
        return old.clone();
    }
    let less = new.partial_cmp(old) == Some(std::cmp::Ordering::Less);
    match merge {
        Merge::Sum => old.add(&new).expect("small numbers of one type"),
        Merge::Min if less => new,
        Merge::Max if !less => new,
        Merge::Min | Merge::Max | Merge::First => old.clone(),
    }
}

impl State {
    pub(crate) fn create(&mut self, table: &Arc<Table>) {
        self.put(Rows::new(Arc::clone(table)));
    }

    /// The same rows in the tables and views of another state, under their names, as others see
    /// them: of those that it has besides, none.
    pub(crate) fn under(&self, today: &State) -> State {
        let tables = today.tables.iter().map(|(name, now)| {
            let rows = match self.table(now.table.id) {
                Some(then) if Arc::ptr_eq(&then.table, &now.table) => Arc::clone(then),
                Some(then) => Arc::new(Rows {
                    table: Arc::clone(&now.table),
                    ..Rows::clone(then)
                }),
                None => Arc::new(Rows::new(Arc::clone(&now.table))),
            };
            (name.clone(), rows)
        });
        State {
            tables: tables.collect(),
            views: today.views.clone(),
            temporary: BTreeMap::new(),
        }
    }

    /// What tables and views are called that all see, and which they are.
    pub(crate) fn names(&self) -> Vec<String> {
        let tables = self.tables.iter();
        let tables = tables.map(|(name, rows)| format!("{name} {}", rows.table.id));
        tables.chain(self.views.keys().cloned()).collect()
    }

    /// Whether each table of an earlier state is still called as it was.
    pub(crate) fn keeps_names(&self, earlier: &State) -> bool {
        earlier.tables.iter().all(|(name, then)| {
            let now = self.tables.get(name);
            now.is_some_and(|now| now.table.id == then.table.id)
        })
    }

    /// Whether a name means a table or a view to everybody.
    pub(crate) fn is_stored(&self, name: &str) -> bool {
        self.tables.contains_key(name) || self.views.contains_key(name)
    }

    /// Whether a name means a table or a view to the session that writes.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.temporary.contains_key(name) || self.is_stored(name)
    }

    /// A table is there under its name, and no more under the one that it had.
    pub(crate) fn rename(&mut self, to: &Arc<Table>) {
        let Some(before) = self.table(to.id).map(|rows| rows.table.name.clone()) else {
            return;
        };
        let tables = self.beside(to);
        if let Some(mut rows) = tables.remove(&before) {
            Arc::make_mut(&mut rows).table = Arc::clone(to);
            tables.insert(to.name.clone(), rows);
        }
    }

    /// A table has these rows, under its name.
    pub(crate) fn put(&mut self, rows: Rows) {
        let name = rows.table.name.clone();
        self.beside(&rows.table).insert(name, Arc::new(rows));
    }

    /// The tables that a table is one of.
    fn beside(&mut self, table: &Table) -> &mut BTreeMap<String, Arc<Rows>> {
        match table.is_temporary {
            true => &mut self.temporary,
            false => &mut self.tables,
        }
    }

    /// A table ends, and its views with it.
    pub(crate) fn remove(&mut self, id: usize) {
        self.tables.retain(|_, rows| rows.table.id != id);
        self.temporary.retain(|_, rows| rows.table.id != id);
        self.views.retain(|_, view| view.table.id != id);
    }

    /// A table gets the rows of another one, which has as many columns.
    pub(crate) fn copy_rows(&mut self, table: usize, of: usize, mark: Mark) {
        let Some(of) = self.table(of).cloned() else {
            return;
        };
        if let Some(rows) = self.rows_mut(table) {
            let all: Vec<usize> = (0..rows.table.columns.len()).collect();
            for row in of.rows.values() {
                rows.insert(&all, &row.cells, &Conflict::Replace, mark);
            }
        }
    }

    /// A table, whatever its name.
    pub(crate) fn table(&self, id: usize) -> Option<&Arc<Rows>> {
        let mut all = self.tables.values().chain(self.temporary.values());
        all.find(|rows| rows.table.id == id)
    }

    /// A table that the session that writes can name.
    pub(crate) fn seen(&self, id: usize) -> Option<&Arc<Rows>> {
        let is_free = |name: &str| !self.temporary.contains_key(name);
        let found = self.table(id);
        found.filter(|rows| rows.table.is_temporary || is_free(&rows.table.name))
    }

    /// What a name means to the session that writes: rows, and which of their columns it shows.
    pub(crate) fn named(&self, name: &str) -> Option<(&Rows, Vec<usize>)> {
        let table = self.temporary.get(name).or_else(|| self.tables.get(name));
        if let Some(rows) = table {
            let all = 0..rows.table.columns.len();
            return Some((rows.as_ref(), all.collect()));
        }
        let view = self.views.get(name)?;
        let rows = self.table(view.table.id)?;
        Some((rows.as_ref(), view.columns.clone()))
    }

    pub(crate) fn rows_mut(&mut self, id: usize) -> Option<&mut Rows> {
        let mut all = self.tables.values_mut().chain(self.temporary.values_mut());
        all.find(|rows| rows.table.id == id).map(Arc::make_mut)
    }

    /// Whether an INSERT has a row that no partition of its table takes.
    pub(crate) fn has_no_place(&self, change: &Change, asked: &Asked) -> bool {
        let Change::Insert {
            table,
            columns,
            given,
            ..
        } = change
        else {
            return false;
        };
        let (Some(rows), Some(ranges)) = (self.table(table.id), &table.ranges) else {
            return false;
        };
        let ended = |value: &ScalarValue| !rows.takes(ranges.column, value);
        let place = columns.iter().position(|at| *at == ranges.column);
        place.is_some_and(|place| match given {
            Given::Values(values) | Given::Arrow(values) => {
                values.iter().any(|cells| ended(&cells[place].value))
            }
            Given::Select(_) => asked.iter().any(|(_, made)| ended(&made[place])),
        })
    }

    /// Does a change; `asked` is what the plain engine said of its questions.
    pub(crate) fn apply(&mut self, change: &Change, asked: &Asked, mark: Mark) {
        if let Change::Insert {
            columns,
            given,
            table,
            ..
        } = change
        {
            let files = columns
                .iter()
                .map(|at| table.columns[*at].kind == Kind::File);
            let files: Vec<bool> = files.collect();
            if let Given::Values(rows) = given {
                for row in rows {
                    let mentioned = row.iter().zip(&files).filter(|(_, file)| **file);
                    mentioned.for_each(|(cell, _)| self.mention(cell, mark));
                }
            }
        }
        let Some(rows) = self.rows_mut(change.table().id) else {
            return;
        };
        match change {
            Change::Insert {
                columns,
                given,
                conflict,
                ..
            } => match given {
                Given::Values(values) | Given::Arrow(values) => {
                    for cells in values {
                        let cells: Row = cells.iter().map(|cell| cell.value.clone()).collect();
                        rows.insert(columns, &cells, conflict, mark);
                    }
                }
                Given::Select(_) => {
                    for (_, made) in asked {
                        rows.insert(columns, made, conflict, mark);
                    }
                }
            },
            Change::Update { sets, .. } => rows.each(asked, |mut row, made| {
                let mut made = made.iter();
                for (at, set) in sets {
                    let cell = match set {
                        Set::Value(cell) => &cell.value,
                        Set::Made(_) => made.next().expect("one value an expression"),
                    };
                    row.set(*at, cell.clone(), mark);
                }
                Some(row)
            }),
            Change::Delete { .. } => rows.each(asked, |_, _| None),
            Change::Truncate { .. } => rows.rows.clear(),
        }
    }

    /// What the transaction has set, which has committed, an SCU has set.
    pub(crate) fn commit(&mut self, scu: u64) {
        let all = self.tables.values_mut().chain(self.temporary.values_mut());
        for rows in all {
            let is_own = |row: &Stored| row.marks.contains(&Mark::Own);
            if rows.rows.values().any(is_own) {
                let rows = Arc::make_mut(rows).rows.values_mut();
                let marks = rows.flat_map(|row| &mut row.marks);
                marks
                    .filter(|mark| **mark == Mark::Own)
                    .for_each(|mark| *mark = Mark::Scu(scu));
            }
        }
    }

    /// The first paths get their rows.
    pub(crate) fn know_paths(&mut self, paths: usize, mark: Mark) {
        for path in 0..paths {
            let path = Cell {
                sql: String::new(),
                value: ScalarValue::Utf8(Some(format!("p{path}"))),
            };
            self.mention(&path, mark);
        }
    }

    /// A path that is named gets a row, if it has none.
    fn mention(&mut self, path: &Cell, mark: Mark) {
        if path.value.is_null() {
            return;
        }
        let Some(files) = self.tables.get_mut("files").map(Arc::make_mut) else {
            return;
        };
        let row = vec![
            path.value.clone(),
            path.value.clone(),
            Kind::Text.null().value,
        ];
        let key = files.key_of(&row);
        files.rows.entry(key).or_insert(Stored::new(row, mark));
    }
}
