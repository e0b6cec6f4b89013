//! What a session may not read is hidden here: rows and cells whose labels its authorisations do
//! not satisfy.
//!
//! ```text
//!   Gate::read -> Sight -> Shape -> rows of the engine, reconciled, with their labels
//!                                     -> rows that may be read, cells that may be read or NULL
//!                                        -> filters, limits, counts
//! ```
//!
//! Reads labels beside the columns that are wanted; they leave with the rest only where they were
//! asked for. Invariant LBL-2: no stored row reaches a statement but through a [`Shape`], which is
//! made of a [`Sight`], or by a sight that hides nothing of its table; only the gate gives sights.
//! Invariant LBL-3: nothing of what is hidden is left in the buffers of what is shown.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, MutableArrayData, PrimitiveArray,
    RecordBatch, RecordBatchOptions, downcast_primitive_array, make_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{filter_record_batch, interleave};
use arrow::datatypes::{Int64Type, Schema};
use arrow::error::ArrowError;
use lazybase_engine::read::HiddenColumn;
use lazybase_model::label::{Authorizations, Label};
use lazybase_model::{Error, LabelRole, Result, Table};
use parking_lot::Mutex;

use crate::error::from_arrow;

#[cfg(test)]
mod tests;

/// What somebody may see of rows and cells that have labels.
#[derive(Debug, Clone)]
#[must_use = "what is read is shown through it"]
pub(crate) struct Sight {
    /// `None` sees everything.
    authorizations: Option<Arc<Authorizations>>,
}

impl Sight {
    /// What a role with these authorisations sees that uses no others than `narrowed`; `None` is
    /// every one.
    pub(crate) fn new(
        authorizations: Option<&Authorizations>,
        narrowed: Option<&Arc<Authorizations>>,
    ) -> Sight {
        let authorizations = match (authorizations, narrowed) {
            (None, narrowed) => narrowed.cloned(),
            (Some(all), None) => Some(Arc::new(all.clone())),
            (Some(all), Some(narrowed)) => {
                Some(Arc::new(all.intersection(narrowed).cloned().collect()))
            }
        };
        Sight { authorizations }
    }

    /// What a statement sees of the rows that it gives itself.
    pub(crate) fn of_given_rows() -> Sight {
        Sight {
            authorizations: None,
        }
    }

    /// Whether anything of the table may be hidden.
    pub(crate) fn is_limited(&self, table: &Table) -> bool {
        self.authorizations.is_some() && table.has_labels()
    }

    /// Whether rows of the table may be hidden.
    pub(crate) fn hides_rows(&self, table: &Table) -> bool {
        self.authorizations.is_some() && table.row_label().is_some()
    }

    /// Whether the order of the rows of a view tells nothing of what is hidden in its table.
    pub(crate) fn may_use(&self, table: &Table, view: &Table) -> bool {
        let key = view.key_indices();
        !self.is_limited(table)
            || !(key.iter().any(|at| view.columns[*at].has_labels())
                || (table.row_label().is_some() && view.row_label().is_none()))
    }
}

/// How what is hidden in rows of a table is hidden.
#[derive(Debug)]
pub(crate) struct Hiding {
    /// What is read: the positions that are wanted, then those of labels and versions.
    stored: Vec<usize>,
    /// How many of these are shown.
    shown: usize,
    /// Where the labels of rows are among these.
    rows: Option<usize>,
    /// Where cells are, and their labels.
    cells: Vec<(usize, usize)>,
    /// Where versions of cells are, their labels, and the versions of cells that were never set
    /// since their row was made.
    versions: Vec<(usize, usize, usize)>,
    /// Where versions of whole rows are, and those of their cells.
    newest: Vec<(usize, Arc<Vec<Version>>)>,
    authorizations: Arc<Authorizations>,
    /// Labels that were met, and whether they admit.
    known: Mutex<HashMap<String, bool>>,
}

/// Where the version of a cell is: its SCU, what is shown for it, and the cell's label.
#[derive(Debug)]
struct Version {
    scu: usize,
    shown: usize,
    label: Option<usize>,
}

/// The most labels whose answers are kept: others are read again.
const KNOWN_MAX: usize = 1 << 16;
/// So many labels are found without a look among all that are known.
const RECENT: usize = 256;

/// Where among the recent ones a label is looked for.
fn place_of(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mixed = |mixed: usize, byte: &u8| mixed.wrapping_mul(31) ^ usize::from(*byte);
    // What differs, differs mostly at the end.
    let end = &bytes[bytes.len().saturating_sub(8)..];
    end.iter().fold(bytes.len(), mixed) % RECENT
}

impl Hiding {
    /// What is to be hidden in these columns; `None` where nothing can be.
    ///
    /// # Errors
    /// `Internal` when the table lacks labels.
    pub(crate) fn of(table: &Table, projection: &[usize], sight: &Sight) -> Result<Option<Hiding>> {
        let Some(authorizations) = &sight.authorizations else {
            return Ok(None);
        };
        if !table.has_labels() {
            return Ok(None);
        }
        let mut hiding = Hiding {
            stored: projection.to_vec(),
            shown: projection.len(),
            rows: None,
            cells: Vec::new(),
            versions: Vec::new(),
            newest: Vec::new(),
            authorizations: Arc::clone(authorizations),
            known: Mutex::default(),
        };
        hiding.rows = table.row_label().map(|at| hiding.place(at));
        for (place, at) in projection.iter().enumerate() {
            match HiddenColumn::at(table, *at) {
                None => hiding.add_cell(table, place, *at)?,
                Some(HiddenColumn::Label(at)) => hiding.add_cell(table, place, at)?,
                Some(HiddenColumn::TimeOf(at)) => {
                    hiding.add_version(table, place, at, HiddenColumn::TimeOf)?;
                }
                Some(HiddenColumn::ScuOf(at)) => {
                    hiding.add_version(table, place, at, HiddenColumn::ScuOf)?;
                }
                Some(version @ (HiddenColumn::Scu | HiddenColumn::Time)) => {
                    hiding.add_newest(table, place, version)?;
                }
            }
        }
        let nothing = hiding.rows.is_none()
            && hiding.cells.is_empty()
            && hiding.versions.is_empty()
            && hiding.newest.is_empty();
        Ok((!nothing).then_some(hiding))
    }

    /// A cell, or its label, is hidden by its label.
    fn add_cell(&mut self, table: &Table, place: usize, at: usize) -> Result<()> {
        if let Some(label) = table.cell_label(labelled(table, at))? {
            let label = self.place(label);
            self.cells.push((place, label));
        }
        Ok(())
    }

    /// A cell that may not be read is as old as the row, as one that was never set: its version is
    /// that of the key.
    fn add_version(
        &mut self,
        table: &Table,
        place: usize,
        at: usize,
        version: fn(usize) -> HiddenColumn,
    ) -> Result<()> {
        if let Some(label) = table.cell_label(at)? {
            let label = self.place(label);
            let key = table.key_indices().first().copied().unwrap_or_default();
            let made = self.place(version(key).position(table));
            self.versions.push((place, label, made));
        }
        Ok(())
    }

    /// Where a column is that is read.
    fn place(&mut self, at: usize) -> usize {
        // What is shown may be hidden before it is needed: labels and versions are read besides.
        let besides = self.stored[self.shown..].iter();
        match besides.enumerate().find(|(_, known)| **known == at) {
            Some((place, _)) => self.shown + place,
            None => {
                self.stored.push(at);
                self.stored.len() - 1
            }
        }
    }

    /// A row is as new as the newest of its cells that may be read.
    fn add_newest(&mut self, table: &Table, place: usize, version: HiddenColumn) -> Result<()> {
        if !table.columns.iter().any(|column| column.has_labels()) {
            return Ok(());
        }
        let mut versions = Vec::new();
        for (at, column) in table.columns.iter().enumerate() {
            let is_row_label = table.row_label() == Some(at);
            if column.holds_labels() && !is_row_label {
                continue;
            }
            let scu = self.place(HiddenColumn::ScuOf(at).position(table));
            let shown = match version {
                HiddenColumn::Time => self.place(HiddenColumn::TimeOf(at).position(table)),
                _ => scu,
            };
            let label = table.cell_label(at)?.map(|label| self.place(label));
            versions.push(Version { scu, shown, label });
        }
        self.newest.push((place, Arc::new(versions)));
        Ok(())
    }

    /// What the engine is asked for.
    pub(crate) fn stored(&self) -> &[usize] {
        &self.stored
    }

    /// The columns that are wanted, of the rows that may be read.
    ///
    /// # Errors
    /// `Internal` when the rows are not those that were asked for.
    pub(crate) fn hide(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let seen = match self.rows {
            None => rows.clone(),
            Some(label) => {
                let admitted = self.admitted(rows.column(label))?;
                match admitted.count_set_bits() == rows.num_rows() {
                    true => rows.clone(),
                    false => filter_record_batch(rows, &BooleanArray::new(admitted, None))
                        .map_err(|error| from_arrow(&error))?,
                }
            }
        };
        let mut columns = seen.columns()[..self.shown].to_vec();
        for (cell, label) in &self.cells {
            let admitted = self.admitted(seen.column(*label))?;
            let shown = without(&columns[*cell], &admitted);
            columns[*cell] = shown.map_err(|error| from_arrow(&error))?;
        }
        for (cell, label, made) in &self.versions {
            let admitted = self.admitted(seen.column(*label))?;
            let chosen = (0..seen.num_rows()).map(|row| (usize::from(!admitted.value(row)), row));
            let chosen: Vec<(usize, usize)> = chosen.collect();
            let both = [columns[*cell].as_ref(), seen.column(*made).as_ref()];
            columns[*cell] = interleave(&both, &chosen).map_err(|error| from_arrow(&error))?;
        }
        for (place, versions) in &self.newest {
            columns[*place] = self.newest_of(&seen, versions)?;
        }
        let fields = seen.schema().fields()[..self.shown].to_vec();
        let schema = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(seen.num_rows()));
        RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|error| from_arrow(&error))
    }

    /// Which rows have labels that admit.
    fn admitted(&self, labels: &ArrayRef) -> Result<BooleanBuffer> {
        let labels = labels.as_string_opt::<i32>();
        let labels = labels.ok_or_else(|| Error::internal("labels are texts"))?;
        let mut known = self.known.lock();
        let mut recent: [(&str, bool); RECENT] = [("", true); RECENT];
        let admits = |row: usize| {
            if labels.is_null(row) {
                return true;
            }
            let text = labels.value(row);
            // Few labels are met again and again: most are found without a hash of the whole.
            let (before, answer) = &mut recent[place_of(text)];
            if *before != text {
                *answer = self.admits(&mut known, text);
                *before = text;
            }
            *answer
        };
        Ok(BooleanBuffer::collect_bool(labels.len(), admits))
    }

    /// Whether a label admits, kept for the next time.
    fn admits(&self, known: &mut HashMap<String, bool>, text: &str) -> bool {
        if text.is_empty() {
            return true;
        }
        if let Some(admits) = known.get(text) {
            return *admits;
        }
        // What is no label admits nobody.
        let label = Label::parse(text);
        let admits = label.is_ok_and(|label| label.admits(&self.authorizations));
        if known.len() < KNOWN_MAX {
            known.insert(text.to_owned(), admits);
        }
        admits
    }

    /// Of each row, what is shown for the newest of its cells that may be read.
    fn newest_of(&self, rows: &RecordBatch, versions: &[Version]) -> Result<ArrayRef> {
        let mut best: Vec<(usize, usize)> = vec![(0, 0); rows.num_rows()];
        let mut newest = vec![i64::MIN; rows.num_rows()];
        for (at, version) in versions.iter().enumerate() {
            let admitted = match version.label {
                Some(label) => Some(self.admitted(rows.column(label))?),
                None => None,
            };
            let scus = rows.column(version.scu).as_primitive::<Int64Type>();
            for row in 0..rows.num_rows() {
                // What a transaction has not committed has no SCU, and is the newest.
                let scu = match scus.is_valid(row) {
                    true => scus.value(row),
                    false => i64::MAX,
                };
                let is_admitted = admitted.as_ref().is_none_or(|admitted| admitted.value(row));
                if is_admitted && scu > newest[row] {
                    newest[row] = scu;
                    best[row] = (at, row);
                }
            }
        }
        let shown: Vec<&dyn Array> = versions
            .iter()
            .map(|version| rows.column(version.shown).as_ref())
            .collect();
        interleave(&shown, &best).map_err(|error| from_arrow(&error))
    }
}

/// The column whose cells a column of labels is of; otherwise the column itself.
fn labelled(table: &Table, at: usize) -> usize {
    match table.columns.get(at).and_then(|column| column.label) {
        Some(LabelRole::OfCells(id)) => {
            let mut columns = table.columns.iter();
            columns.position(|column| column.id == id).unwrap_or(at)
        }
        _ => at,
    }
}

/// The values where they are admitted; NULL, with nothing behind it, where they are not.
fn without(
    values: &ArrayRef,
    admitted: &BooleanBuffer,
) -> std::result::Result<ArrayRef, ArrowError> {
    if admitted.count_set_bits() == values.len() {
        return Ok(Arc::clone(values));
    }
    if let Some(shown) = without_numbers(values, admitted) {
        return Ok(shown);
    }
    let data = values.to_data();
    let mut shown = MutableArrayData::new(vec![&data], true, values.len());
    let mut at = 0;
    for (start, end) in admitted.set_slices() {
        shown.try_extend_nulls(start - at)?;
        shown.try_extend(0, start, end)?;
        at = end;
    }
    shown.try_extend_nulls(values.len() - at)?;
    Ok(make_array(shown.freeze()))
}

/// The same of an array of numbers, if it is one: value by value, without a look at each run.
fn without_numbers(values: &ArrayRef, admitted: &BooleanBuffer) -> Option<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(
        values: &PrimitiveArray<T>,
        admitted: &BooleanBuffer,
    ) -> PrimitiveArray<T> {
        let given = values.values().iter().zip(admitted.iter());
        let kept = given.map(|(value, admitted)| match admitted {
            true => *value,
            false => T::Native::default(),
        });
        let hidden = NullBuffer::new(admitted.clone());
        let nulls = NullBuffer::union(values.nulls(), Some(&hidden));
        PrimitiveArray::new(kept.collect(), nulls).with_data_type(values.data_type().clone())
    }
    let values = values.as_ref();
    downcast_primitive_array!(
        values => Some(Arc::new(of(values, admitted))),
        _ => None
    )
}
