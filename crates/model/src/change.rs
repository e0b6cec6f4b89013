//! The algebra of changes, one entry at a time (the paper's section 3.2).
//!
//! A [`Change`] is a function from "a row or no row" to "a row or no row". This module is the
//! executable specification: every vectorised kernel that merges changes is tested against it. It
//! reads and writes nothing; [`Change::to_stored`] and [`Change::from_stored`] say how one change
//! lies in the rows of a run.
//!
//! # Two halves, four combinations
//!
//! A change has a half for a row ([`OnRow`]) and a half for no row ([`OnAbsent`]). The on-row half
//! keeps the row with some columns set or combined, or replaces it by whatever the absent half
//! makes:
//!
//! | on a row  | on no row | what users call it                                               |
//! | --------- | --------- | ---------------------------------------------------------------- |
//! | `Replace` | `Nothing` | delete                                                           |
//! | `Replace` | `Row`     | whole-row upsert                                                 |
//! | `Keep(S)` | `Nothing` | update; with `S` empty, the identity                             |
//! | `Keep(S)` | `Row`     | partial upsert, insert if absent, `ON CONFLICT DO UPDATE`        |
//!
//! *Why there is no `Drop`.* Dropping a row is `Replace` where absent makes nothing, so the table
//! lacks only "drop a row, but make one of nothing". Nobody can write that, and no composition
//! reaches it. Call a change **constant** if it gives one result whatever it meets, and **keeping**
//! if it makes a row of every row by setting or combining some columns. Every writable change is
//! one of the two: delete and whole-row upsert are constant, the others keeping. Now compose `f`
//! then `g`:
//!
//! 1. `g` constant: the result is the constant of `g`.
//! 2. `f` constant, `g` keeping: the result is the constant `g(f)`, for `f` ignores what it meets.
//! 3. both keeping: a row stays a row, with the columns of `f` set and then those of `g`.
//!
//! So every composition is constant or keeping. One that drops a row does not keep, hence it is
//! constant, hence it makes nothing of no row either. The same three cases are
//! [`Change::then`], and show that the four combinations are closed under it. Composition of
//! functions is associative, so a contiguous span can be merged in any grouping.
//!
//! # Invariants
//!
//! - **Equal means the same function.** Two changes compare equal exactly if they act alike on
//!   every entry, versions included. The one function with two spellings, "set every column, to
//!   what the absent row holds", is always spelt `Replace` (see [`Change::new`]).
//! - **Order is the caller's.** [`Change::then`] never looks at a version: the order inside a key
//!   is SCU number, then position in the SCU, and never a clock.
//!
//! # Merge operators
//!
//! A column of a kept row is left, set, or *combined* with what is there by its merge operator
//! (SUM, MIN, MAX, FIRST): [`Action`]. Set after anything is set; combine after set is set, to the
//! combined value; combine after combine is combine, since the operators are associative. A cell
//! that was combined has the version of the later of the two, whichever value it shows. A combined
//! column never counts as set when [`Change::new`] looks for whole-row upserts; so the four
//! combinations and the proof stay as they are. (The one gap: where a type ends, combining by MIN
//! with its least value acts like setting it, and is yet spelt as combining.)

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::table::MergeOperator;

#[cfg(test)]
mod tests;

/// What the algebra must know of values: equality, and what merge operators make of two.
pub trait Value: Clone + PartialEq {
    /// What `operator` makes of this value and a later one. NULL gives way to any value.
    ///
    /// Must be associative, for each operator.
    #[must_use]
    fn combine(&self, operator: MergeOperator, later: &Self) -> Self;
}

/// Where a cell was last set: the SCU, and the time of that write's ingestion.
///
/// Versions order by SCU first, so that clocks that jump cannot make an older cell look newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The number of the SCU that carried the write.
    pub scu: u64,
    /// When the write was ingested, in microseconds since the Unix epoch.
    pub time_micros: i64,
}

/// A value and the version that set it. SQL's NULL is a value: `V` represents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell<V> {
    /// The value of the column.
    pub value: V,
    /// Who set it; part of the equality of cells, rows and changes.
    pub version: Version,
}

impl<V: Value> Cell<V> {
    /// What `operator` makes of this cell and a later one.
    fn combine(&self, operator: MergeOperator, later: &Cell<V>) -> Cell<V> {
        Cell {
            value: self.value.combine(operator, &later.value),
            version: later.version,
        }
    }
}

/// What an on-row half does to a column that it does not leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<V> {
    /// The column becomes this cell.
    Set(Cell<V>),
    /// The column's merge operator combines what is there with this cell.
    Combine(MergeOperator, Cell<V>),
}

impl<V> Action<V> {
    /// The cell that is set or combined with.
    pub fn cell(&self) -> &Cell<V> {
        match self {
            Action::Set(cell) | Action::Combine(_, cell) => cell,
        }
    }
}

impl<V: Value> Action<V> {
    /// What becomes of a cell.
    fn on(&self, before: &Cell<V>) -> Cell<V> {
        match self {
            Action::Set(cell) => cell.clone(),
            Action::Combine(operator, cell) => before.combine(*operator, cell),
        }
    }

    /// This action first, `later` second.
    fn then(&self, later: &Action<V>) -> Action<V> {
        match (self, later) {
            (_, Action::Set(_)) => later.clone(),
            (Action::Set(cell), Action::Combine(..)) => Action::Set(later.on(cell)),
            (Action::Combine(operator, cell), Action::Combine(..)) => {
                Action::Combine(*operator, later.on(cell))
            }
        }
    }
}

/// The columns that an on-row half does not leave, by ordinal in the table's schema.
pub type Sets<V> = BTreeMap<usize, Action<V>>;

/// A whole row: one cell for every column, in the order of the schema.
///
/// The algebra does not see keys. Whether the key's columns are among the cells is the caller's
/// choice, the same for all changes of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<V> {
    cells: Vec<Cell<V>>,
}

impl<V: Value> Row<V> {
    /// A row of these cells, defaults already filled in.
    pub fn new(cells: Vec<Cell<V>>) -> Self {
        Self { cells }
    }

    /// The cells, by column ordinal.
    pub fn cells(&self) -> &[Cell<V>] {
        &self.cells
    }

    /// The row's own version, the greatest of its cells'; `None` only for a row without columns.
    pub fn version(&self) -> Option<Version> {
        self.cells.iter().map(|cell| cell.version).max()
    }

    /// This row with the columns of `sets` set, or combined with what it holds.
    ///
    /// # Panics
    ///
    /// If `sets` names a column that the row lacks: the two come from different schemas.
    #[must_use]
    pub fn with(mut self, sets: &Sets<V>) -> Self {
        for (&ordinal, action) in sets {
            self.cells[ordinal] = action.on(&self.cells[ordinal]);
        }
        self
    }

    /// This row with the cells of `sets` in their places, whatever was there.
    fn holding(mut self, sets: &Sets<V>) -> Self {
        for (&ordinal, action) in sets {
            self.cells[ordinal] = action.cell().clone();
        }
        self
    }

    /// Whether the row has the cells of `sets` in their places, versions included.
    fn holds(&self, sets: &Sets<V>) -> bool {
        sets.iter()
            .all(|(&ordinal, action)| self.cells.get(ordinal) == Some(action.cell()))
    }
}

/// What a change makes of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnRow<V> {
    /// Keep the row, with these columns set or combined and the others left.
    Keep(Sets<V>),
    /// Forget the row and put there what the change makes of no row: a row, or nothing.
    Replace,
}

/// What a change makes of no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnAbsent<V> {
    /// There is still no row.
    Nothing,
    /// This row appears.
    Row(Row<V>),
}

impl<V> From<Option<Row<V>>> for OnAbsent<V> {
    fn from(entry: Option<Row<V>>) -> Self {
        entry.map_or(Self::Nothing, Self::Row)
    }
}

impl<V> From<OnAbsent<V>> for Option<Row<V>> {
    fn from(half: OnAbsent<V>) -> Self {
        match half {
            OnAbsent::Nothing => None,
            OnAbsent::Row(row) => Some(row),
        }
    }
}

/// A function from "a row or no row" to "a row or no row" (the paper's section 3.2).
///
/// Equality is equality of the functions, versions included; see the module's invariants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<V> {
    on_row: OnRow<V>,
    on_absent: OnAbsent<V>,
}

impl<V: Value> Change<V> {
    /// The change with these two halves, in its one spelling.
    ///
    /// Setting every column to what the absent row holds gives that row whatever was there, so
    /// it becomes a whole-row upsert: equal functions compare equal, and later merges see that
    /// nothing earlier matters.
    ///
    /// # Panics
    ///
    /// If the on-row half sets a column that the absent row lacks: they are not of one schema.
    pub fn new(on_row: OnRow<V>, on_absent: OnAbsent<V>) -> Self {
        let on_row = match (on_row, &on_absent) {
            (OnRow::Keep(sets), OnAbsent::Row(row)) => {
                let width = row.cells.len();
                let inside = first_beyond(&sets, width).is_none();
                assert!(inside, "a change sets a column beyond its row's {width}");
                let sets_all = sets.len() == width && sets.values().all(is_set);
                if sets_all && row.holds(&sets) {
                    OnRow::Replace
                } else {
                    OnRow::Keep(sets)
                }
            }
            (on_row, _) => on_row,
        };
        Self { on_row, on_absent }
    }

    /// DELETE: no row, whatever was there.
    pub fn delete() -> Self {
        Self::new(OnRow::Replace, OnAbsent::Nothing)
    }

    /// Whole-row upsert: this row, whatever was there.
    pub fn upsert(row: Row<V>) -> Self {
        Self::new(OnRow::Replace, OnAbsent::Row(row))
    }

    /// UPDATE: set these columns of a row; no row stays no row.
    pub fn update(sets: Sets<V>) -> Self {
        Self::new(OnRow::Keep(sets), OnAbsent::Nothing)
    }

    /// Upsert of some columns: set them in a row; of no row make `full_row` with them set.
    ///
    /// `full_row` brings the key and the defaults; what it holds in the columns of `sets` is
    /// ignored, so the halves of the result always agree.
    ///
    /// # Panics
    ///
    /// If `sets` names a column that `full_row` lacks.
    pub fn upsert_columns(sets: Sets<V>, full_row: Row<V>) -> Self {
        let row = full_row.holding(&sets);
        Self::new(OnRow::Keep(sets), OnAbsent::Row(row))
    }

    /// INSERT: of no row make `row`; in a row, combine the columns that have an operator and set
    /// the others. Without operators, a whole-row upsert.
    pub fn insert(row: Row<V>, operators: &[Option<MergeOperator>]) -> Self {
        let operators = operators.iter().copied().chain(std::iter::repeat(None));
        let actions = row.cells.iter().cloned().zip(operators);
        let sets = actions.map(|(cell, operator)| match operator {
            Some(operator) => Action::Combine(operator, cell),
            None => Action::Set(cell),
        });
        Self::new(OnRow::Keep(sets.enumerate().collect()), OnAbsent::Row(row))
    }

    /// Insert if absent, `ON CONFLICT DO NOTHING`: a row stays; of no row make `row`.
    pub fn insert_if_absent(row: Row<V>) -> Self {
        Self::new(OnRow::Keep(Sets::new()), OnAbsent::Row(row))
    }

    /// `ON CONFLICT DO UPDATE SET ...`: set the columns of a row; of no row make `row`, untouched.
    ///
    /// # Panics
    ///
    /// If `sets` names a column that `row` lacks.
    pub fn insert_or_update(row: Row<V>, sets: Sets<V>) -> Self {
        Self::new(OnRow::Keep(sets), OnAbsent::Row(row))
    }

    /// The change that leaves every entry as it is.
    pub fn identity() -> Self {
        Self::update(Sets::new())
    }

    /// What this change makes of a row.
    pub fn on_row(&self) -> &OnRow<V> {
        &self.on_row
    }

    /// What this change makes of no row.
    pub fn on_absent(&self) -> &OnAbsent<V> {
        &self.on_absent
    }

    /// The entry after this change.
    ///
    /// # Panics
    ///
    /// If the change sets a column that the row lacks: they are not of one schema.
    pub fn apply(&self, entry: Option<Row<V>>) -> Option<Row<V>> {
        match (entry, &self.on_row) {
            (Some(row), OnRow::Keep(sets)) => Some(row.with(sets)),
            (None, _) | (Some(_), OnRow::Replace) => self.on_absent.clone().into(),
        }
    }

    /// The composition: this change first, `later` second.
    ///
    /// The arms are the three cases of the module's proof, in its order.
    ///
    /// # Panics
    ///
    /// If the two changes are not of one schema.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        let Self { on_row, on_absent } = self;
        match (on_row, &later.on_row) {
            (_, OnRow::Replace) => later,
            (OnRow::Replace, OnRow::Keep(_)) => {
                Self::new(OnRow::Replace, later.apply(on_absent.into()).into())
            }
            (OnRow::Keep(mut sets), OnRow::Keep(later_sets)) => {
                for (&ordinal, action) in later_sets {
                    let both = sets.get(&ordinal).map(|before| before.then(action));
                    sets.insert(ordinal, both.unwrap_or_else(|| action.clone()));
                }
                Self::new(OnRow::Keep(sets), later.apply(on_absent.into()).into())
            }
        }
    }

    /// Whether the change fixes the whole entry whatever was there, so that all earlier changes
    /// of the key can be forgotten: `f.then(g) == g` for every `f` exactly if `g` is total.
    pub fn is_total(&self) -> bool {
        self.on_row == OnRow::Replace
    }

    /// Whether one stored row serves both halves: the columns that the on-row half sets or
    /// combines, if the absent half makes a row, hold the same values and versions there.
    pub fn halves_agree(&self) -> bool {
        match (&self.on_row, &self.on_absent) {
            (OnRow::Keep(sets), OnAbsent::Row(row)) => row.holds(sets),
            _ => true,
        }
    }

    /// The change as it is stored: one row, or two where the halves disagree.
    pub fn to_stored(&self) -> Vec<StoredRow<V>> {
        match (&self.on_row, &self.on_absent) {
            (OnRow::Replace, OnAbsent::Nothing) => {
                vec![StoredRow {
                    kind: StoredKind::DELETE,
                    sets: None,
                    combines: BTreeMap::new(),
                    cells: Vec::new(),
                }]
            }
            (OnRow::Replace, OnAbsent::Row(row)) => {
                vec![StoredRow::whole(StoredKind::UPSERT, None, row)]
            }
            (OnRow::Keep(sets), OnAbsent::Nothing) => vec![StoredRow::update(sets)],
            (OnRow::Keep(sets), OnAbsent::Row(row)) if row.holds(sets) => {
                vec![StoredRow::whole(StoredKind::BOTH, Some(sets), row)]
            }
            (OnRow::Keep(sets), OnAbsent::Row(row)) => {
                vec![
                    StoredRow::whole(StoredKind::SPLIT, None, row),
                    StoredRow::update(sets),
                ]
            }
        }
    }

    /// The change that these stored rows are, the inverse of [`Change::to_stored`].
    ///
    /// Spellings that `to_stored` never chooses but that have one meaning are read too: a mask
    /// over all columns, a pair whose halves agree, missing cells at the end of a row.
    ///
    /// # Errors
    ///
    /// [`StoredError`] if the rows are not exactly one change: a pair torn or out of order, a mask
    /// or cell where the kind has none, or none where it needs one.
    pub fn from_stored(rows: &[StoredRow<V>]) -> Result<Self, StoredError> {
        match rows {
            [row] if !row.kind.is_split() => row.single(),
            [absent, update] if absent.kind.is_split() && update.kind == StoredKind::UPDATE => {
                absent.check_no_mask()?;
                let (row, sets) = (absent.full_row()?, update.exact_sets()?);
                let width = row.cells.len();
                match first_beyond(&sets, width) {
                    Some(ordinal) => Err(StoredError::BeyondRow { ordinal, width }),
                    None => Ok(Self::insert_or_update(row, sets)),
                }
            }
            _ => {
                let kinds = rows.iter().map(|row| row.kind.bits()).collect();
                Err(StoredError::NotOneChange { kinds })
            }
        }
    }
}

fn is_set<V>(action: &Action<V>) -> bool {
    matches!(action, Action::Set(_))
}

/// The columns of `sets` that are combined, each with its operator.
fn combined<V>(sets: &Sets<V>) -> BTreeMap<usize, MergeOperator> {
    let operator = |(&ordinal, action): (&usize, &Action<V>)| match action {
        Action::Combine(operator, _) => Some((ordinal, *operator)),
        Action::Set(_) => None,
    };
    sets.iter().filter_map(operator).collect()
}

/// A column that a row of `width` columns lacks, if `sets` names one.
fn first_beyond<V>(sets: &Sets<V>, width: usize) -> Option<usize> {
    sets.range(width..).next().map(|(&ordinal, _)| ordinal)
}

/// The kind of a stored row: a set of bits in one byte (the paper's section 3.2).
///
/// | byte | bits           | on a row          | on no row                                       |
/// | ---- | -------------- | ----------------- | ----------------------------------------------- |
/// | 0    |                | nothing           | nothing                                         |
/// | 1    | KEEP           | masked cells act  | nothing                                         |
/// | 2    | ROW            | all cells         | all cells                                       |
/// | 3    | KEEP ROW       | masked cells act  | all cells                                       |
/// | 7    | KEEP ROW SPLIT | in the next row   | all cells                                       |
///
/// A row of kind 7 is the first of a pair: a row of kind 1 of the same key follows at once. The
/// pair is *one* change, not two in sequence: an absent entry becomes the first row, and the second
/// says nothing of it. So a pair is never torn between batches, files or merges.
///
/// A batch of whole-row upserts needs neither masks nor a kind a row: the byte 2 serves for all.
/// Masked cells are set, but for those that the mask says are combined. Other bytes are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredKind(u8);

impl StoredKind {
    /// The bit that says: a row is kept, with the masked columns set or combined.
    pub const KEEP_BIT: u8 = 1;
    /// The bit that says: of no row a row is made, and all cells are stored.
    pub const ROW_BIT: u8 = 2;
    /// The bit that says: the on-row half is in the next stored row.
    pub const SPLIT_BIT: u8 = 4;

    /// Delete.
    pub const DELETE: Self = Self(0);
    /// Update; also the second row of a split pair.
    pub const UPDATE: Self = Self(Self::KEEP_BIT);
    /// Whole-row upsert.
    pub const UPSERT: Self = Self(Self::ROW_BIT);
    /// Both halves in one row, for they agree: partial upsert, insert if absent.
    pub const BOTH: Self = Self(Self::KEEP_BIT | Self::ROW_BIT);
    /// The absent half of a change whose halves disagree; the on-row half follows.
    pub const SPLIT: Self = Self(Self::KEEP_BIT | Self::ROW_BIT | Self::SPLIT_BIT);

    /// The kind that a byte stands for, in a loop over bytes that were validated on their load.
    pub fn from_checked(byte: u8) -> Self {
        debug_assert!(
            Self::try_from(byte).is_ok(),
            "kinds are validated when they are loaded"
        );
        Self(byte)
    }

    /// The byte as stored.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether a row that is there stays, with columns set or combined.
    pub const fn keeps_row(self) -> bool {
        self.0 & Self::KEEP_BIT != 0
    }

    /// Whether a row is made where there is none.
    pub const fn makes_row(self) -> bool {
        self.0 & Self::ROW_BIT != 0
    }

    /// Whether this is the first row of a split pair.
    pub const fn is_split(self) -> bool {
        self.0 & Self::SPLIT_BIT != 0
    }

    /// Whether the change fixes the whole entry whatever was there.
    pub const fn is_total(self) -> bool {
        !self.keeps_row()
    }
}

impl TryFrom<u8> for StoredKind {
    type Error = StoredError;

    fn try_from(byte: u8) -> Result<Self, StoredError> {
        let kind = Self(byte);
        match kind {
            Self::DELETE | Self::UPDATE | Self::UPSERT | Self::BOTH | Self::SPLIT => Ok(kind),
            _ => Err(StoredError::UnknownKind(byte)),
        }
    }
}

impl From<StoredKind> for u8 {
    fn from(kind: StoredKind) -> Self {
        kind.bits()
    }
}

/// Why stored bytes or rows are not a change. All of them mean a damaged file or a faulty writer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoredError {
    /// A byte that is no [`StoredKind`].
    #[error("unknown kind of change: byte {0:#04x}")]
    UnknownKind(u8),
    /// The rows are neither one whole change nor a split pair in its order.
    #[error("stored rows of kinds {kinds:?} are not one change")]
    NotOneChange {
        /// The kinds of the rows, as stored.
        kinds: Vec<u8>,
    },
    /// A row of kind 1 or 3 has no mask.
    #[error("a stored row of kind {} needs a mask", .0.bits())]
    MaskMissing(StoredKind),
    /// A row of kind 0, 2 or 7 has a mask.
    #[error("a stored row of kind {} has a mask", .0.bits())]
    MaskUnexpected(StoredKind),
    /// A column that the kind or the mask promises has no cell.
    #[error("a stored row of kind {} lacks the cell of column {ordinal}", .kind.bits())]
    CellMissing {
        /// The kind of the row.
        kind: StoredKind,
        /// The column.
        ordinal: usize,
    },
    /// A column that the change leaves has a cell.
    #[error("a stored row of kind {} has a cell in column {ordinal}", .kind.bits())]
    CellUnexpected {
        /// The kind of the row.
        kind: StoredKind,
        /// The column.
        ordinal: usize,
    },
    /// A column is combined that the mask does not name.
    #[error("a stored row of kind {} combines column {ordinal}, which it leaves", .kind.bits())]
    CombineUnmasked {
        /// The kind of the row.
        kind: StoredKind,
        /// The column.
        ordinal: usize,
    },
    /// The second row of a pair sets a column that the first lacks.
    #[error("a split pair sets column {ordinal} of a row of {width} columns")]
    BeyondRow {
        /// The column.
        ordinal: usize,
        /// The number of columns of the pair's first row.
        width: usize,
    },
}

/// One row as a run stores it: what a row of a batch with its hidden columns says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow<V> {
    /// Which halves the row holds.
    pub kind: StoredKind,
    /// The mask: which columns the on-row half does not leave. `None` where the row itself holds
    /// no on-row half, so for the total kinds and for [`StoredKind::SPLIT`].
    pub sets: Option<BTreeSet<usize>>,
    /// Which of them it combines. Files keep one bit a column; the table knows the operator.
    pub combines: BTreeMap<usize, MergeOperator>,
    /// The cells by column ordinal: all of them if the kind makes a row, those of the mask in an
    /// update, none in a delete. Cells missing at the end count as `None`.
    pub cells: Vec<Option<Cell<V>>>,
}

impl<V: Value> StoredRow<V> {
    /// This row with `None` cells added up to `width` columns.
    ///
    /// A delete or an update does not know how wide its table is, so [`Change::to_stored`] gives
    /// the shortest row; a batch has a cell for every column. Both read alike.
    #[must_use]
    pub fn padded(mut self, width: usize) -> Self {
        let width = width.max(self.cells.len());
        self.cells.resize(width, None);
        self
    }

    fn whole(kind: StoredKind, sets: Option<&Sets<V>>, row: &Row<V>) -> Self {
        Self {
            kind,
            sets: sets.map(|sets| sets.keys().copied().collect()),
            combines: sets.map(combined).unwrap_or_default(),
            cells: row.cells.iter().cloned().map(Some).collect(),
        }
    }

    fn update(sets: &Sets<V>) -> Self {
        let width = sets.last_key_value().map_or(0, |(&last, _)| last + 1);
        let cells = (0..width)
            .map(|ordinal| sets.get(&ordinal).map(|action| action.cell().clone()))
            .collect();
        let mask = sets.keys().copied().collect();
        Self {
            kind: StoredKind::UPDATE,
            sets: Some(mask),
            combines: combined(sets),
            cells,
        }
    }

    /// The change of a row that is not part of a pair.
    fn single(&self) -> Result<Change<V>, StoredError> {
        match (self.kind.keeps_row(), self.kind.makes_row()) {
            (false, makes_row) => {
                self.check_no_mask()?;
                if makes_row {
                    return Ok(Change::upsert(self.full_row()?));
                }
                self.check_cells_within(&BTreeSet::new())?;
                Ok(Change::delete())
            }
            (true, false) => Ok(Change::update(self.exact_sets()?)),
            (true, true) => {
                let row = self.full_row()?;
                Ok(Change::insert_or_update(
                    row,
                    self.masked_cells(self.mask()?)?,
                ))
            }
        }
    }

    fn mask(&self) -> Result<&BTreeSet<usize>, StoredError> {
        let mask = self.sets.as_ref();
        let mask = mask.ok_or(StoredError::MaskMissing(self.kind))?;
        match self.combines.keys().find(|ordinal| !mask.contains(ordinal)) {
            None => Ok(mask),
            Some(&ordinal) => Err(StoredError::CombineUnmasked {
                kind: self.kind,
                ordinal,
            }),
        }
    }

    fn check_no_mask(&self) -> Result<(), StoredError> {
        match self.sets.is_none() && self.combines.is_empty() {
            true => Ok(()),
            false => Err(StoredError::MaskUnexpected(self.kind)),
        }
    }

    fn check_cells_within(&self, mask: &BTreeSet<usize>) -> Result<(), StoredError> {
        let stray = |&ordinal: &usize| self.cells[ordinal].is_some() && !mask.contains(&ordinal);
        match (0..self.cells.len()).find(stray) {
            None => Ok(()),
            Some(ordinal) => Err(StoredError::CellUnexpected {
                kind: self.kind,
                ordinal,
            }),
        }
    }

    fn cell(&self, ordinal: usize) -> Result<Cell<V>, StoredError> {
        let cell = self.cells.get(ordinal).and_then(Option::clone);
        cell.ok_or(StoredError::CellMissing {
            kind: self.kind,
            ordinal,
        })
    }

    fn full_row(&self) -> Result<Row<V>, StoredError> {
        let cells = (0..self.cells.len()).map(|ordinal| self.cell(ordinal));
        Ok(Row::new(cells.collect::<Result<_, _>>()?))
    }

    fn masked_cells(&self, mask: &BTreeSet<usize>) -> Result<Sets<V>, StoredError> {
        let action = |&ordinal: &usize| {
            let cell = self.cell(ordinal)?;
            let action = match self.combines.get(&ordinal) {
                Some(operator) => Action::Combine(*operator, cell),
                None => Action::Set(cell),
            };
            Ok((ordinal, action))
        };
        mask.iter().map(action).collect()
    }

    /// The sets of an update, which stores no other cells.
    fn exact_sets(&self) -> Result<Sets<V>, StoredError> {
        let mask = self.mask()?;
        self.check_cells_within(mask)?;
        self.masked_cells(mask)
    }
}
