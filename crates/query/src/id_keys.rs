//! ID keys in writes: natural keys where IDs go, as structs, texts or `IDKEY(...)`.
//!
//! ```text
//!   INSERT ... IDKEY('web1', '/var/log')     -> struct --+
//!   COPY:  (web1,/var/log)                   -> texts ---+-> key columns of the owner's types
//!   Arrow: struct                            ------------+   + defaults for the owner's new row
//!                                                        --> temporary IDs and MentionedKeys
//!   owner's INSERT: its own key's columns    ------------+
//! ```
//!
//! Reads arrays and definitions; writes nothing and asks nobody. Invariant IDW-1: an ID column gets
//! numbers as they are given, which are checked by who gave them out, or temporary IDs for the
//! keys returned beside.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StructArray, new_null_array,
};
use arrow::compute::{concat, concat_batches, filter, is_not_null};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::sql::sqlparser::ast::Expr;
use lazybase_cluster::Instance;
use lazybase_engine::stages::remap::{KeyedChanges, MentionedKeys};
use lazybase_model::access::Privilege;
use lazybase_model::id_key::{NO_ID, temporary_id};
use lazybase_model::{
    Column, ColumnDefault, Error, ErrorKind, IdKeyColumn, Result, Table, TableId,
};

use crate::access::Gate;
use crate::cast::{Place, checked_cells, place, to_column};
use crate::changes::change_schema;
use crate::context::Constants;
use crate::dml::defaults::Defaults;
use crate::error::from_arrow;
use crate::literal::{Literal, to_array};
use crate::parse::create::Reference;
use crate::parse::{CreateTable, unsupported};
use crate::session::Shared;
use crate::visible::Visible;

pub(crate) mod function;
pub(crate) mod lookup;
pub(crate) mod met;
pub(crate) mod own;
mod text;

use lookup::arguments;

#[cfg(test)]
mod tests;

/// A table that owns an ID key, and its key map.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) table: Arc<Table>,
    pub(crate) map: Arc<Table>,
}

impl Owner {
    /// The owner that an ID column refers to.
    pub(crate) fn of(visible: &Visible, id_key: IdKeyColumn) -> Result<Owner> {
        let find = |id: TableId| {
            let table = visible.by_id(id);
            table.ok_or_else(|| {
                Error::not_found(format!("table {id}, which owns an ID key, is gone"))
                    .with_sqlstate("42P01")
            })
        };
        Ok(Owner {
            table: find(id_key.owner)?,
            map: find(id_key.map)?,
        })
    }

    /// How the natural key is written, for hints.
    pub(crate) fn form(&self) -> String {
        let key = self.table.key_indices().into_iter();
        let names: Vec<&str> = key.map(|at| self.table.columns[at].name.as_str()).collect();
        format!(
            "IDKEY({}) is a key of table {:?}",
            names.join(", "),
            self.table.name
        )
    }
}

/// What is said of a natural key that is given with another number of values than it has.
fn other_width(given: usize, wanted: usize) -> String {
    let values = match given {
        1 => "1 value is".to_owned(),
        given => format!("{given} values are"),
    };
    format!("{values} given for a natural key of {wanted}")
}

impl Owner {
    /// The fields of a struct in the order of the key's columns: by their names, where these are
    /// the columns'; by their places, where none is.
    fn fields_of(&self, structs: &StructArray, place: &Place<'_>) -> Result<Vec<usize>> {
        let key = self.table.key_indices().into_iter();
        let names: Vec<&str> = key.map(|at| self.table.columns[at].name.as_str()).collect();
        let fields = structs.fields();
        let field_of = |name: &&str| fields.iter().position(|field| field.name() == *name);
        let by_name: Vec<Option<usize>> = names.iter().map(field_of).collect();
        if let Some(by_name) = by_name.iter().copied().collect::<Option<Vec<usize>>>() {
            return Ok(by_name);
        }
        if by_name.iter().any(Option::is_some) && structs.null_count() < structs.len() {
            let given: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            let what = format!("a natural key has the fields {}", given.join(", "));
            return Err(place.error(0, &what, "42601").with_hint(self.form()));
        }
        Ok((0..fields.len()).collect())
    }

    /// The columns of natural keys as the table holds them.
    fn stored(&self, given: &[ArrayRef], at: &Place<'_>) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::with_capacity(self.map.columns.len());
        for (index, values) in self.table.key_indices().iter().zip(given) {
            let place = place(&self.table, *index, at.first_row);
            if let Some(row) = (0..values.len()).find(|row| values.is_null(*row)) {
                return Err(at
                    .error(row, "a natural key holds NULL", "23502")
                    .with_hint(self.form()));
            }
            columns.push(checked_cells(to_column(values, &place)?, true, &place)?);
        }
        Ok(columns)
    }
}

/// The names of the columns of the natural keys that a column takes; `None` if it is no ID column.
///
/// # Errors
/// As [`Owner::of`].
pub(crate) fn key_names(visible: &Visible, column: &Column) -> Result<Option<Vec<String>>> {
    let Some(id_key) = column.id_key else {
        return Ok(None);
    };
    let owner = Owner::of(visible, id_key)?.table;
    let key = owner.key_indices().into_iter();
    Ok(Some(key.map(|at| owner.columns[at].name.clone()).collect()))
}

/// The natural keys that the rows at hand mention.
pub(crate) struct Keys<'k> {
    visible: &'k Visible,
    constants: &'k Constants,
    maps: BTreeMap<TableId, OfMap>,
}

/// Those of one map.
struct OfMap {
    map: Arc<Table>,
    batches: Vec<RecordBatch>,
    rows: u32,
    /// The map's columns whose values the database generated.
    generated: Vec<usize>,
}

impl<'k> Keys<'k> {
    pub(crate) fn new(visible: &'k Visible, constants: &'k Constants) -> Keys<'k> {
        Keys {
            visible,
            constants,
            maps: BTreeMap::new(),
        }
    }

    /// Values of a column as they are given: of an ID key, natural keys or numbers.
    ///
    /// # Errors
    /// `Invalid` for the first value that is neither.
    pub(crate) fn cells(&mut self, values: &ArrayRef, place: &Place<'_>) -> Result<ArrayRef> {
        let Some(id_key) = place.column.id_key else {
            return to_column(values, place);
        };
        match values.data_type() {
            DataType::Struct(_) => {
                let owner = Owner::of(self.visible, id_key)?;
                self.of_structs(&owner, values.as_struct(), place)
            }
            text if text.is_string() => {
                let owner = Owner::of(self.visible, id_key)?;
                self.of_texts(&owner, values, place)
            }
            _ => numbers(values, place),
        }
    }

    /// Values of an ID column as VALUES gives them: calls of the function, numbers, NULL.
    pub(crate) fn of_exprs(&mut self, cells: &[&Expr], place: &Place<'_>) -> Result<ArrayRef> {
        let calls: Vec<Option<Vec<&Expr>>> = cells.iter().map(|c| arguments(c)).collect();
        let others = cells.iter().copied().enumerate();
        let others: Vec<(usize, &Expr)> = others.filter(|(row, _)| calls[*row].is_none()).collect();
        if others.len() == cells.len() {
            return self.of_constants(&others, place);
        }
        let id_key = place.column.id_key;
        let id_key = id_key.ok_or_else(|| Error::internal("the column is no ID key"))?;
        let owner = Owner::of(self.visible, id_key)?;
        let key = owner.table.key_indices();
        let wrong = |row: usize, width: usize| {
            let what = other_width(width, key.len());
            place.error(row, &what, "42601").with_hint(owner.form())
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(key.len());
        for (nth, at) in key.iter().enumerate() {
            let of_column = crate::cast::place(&owner.table, *at, place.first_row);
            let mut values = Vec::new();
            for (row, call) in calls.iter().enumerate() {
                match call {
                    Some(call) if call.len() != key.len() => return Err(wrong(row, call.len())),
                    Some(call) => values.push((row, call[nth])),
                    None => {}
                }
            }
            columns.push(constants_of(self.constants, &values, &of_column)?);
        }
        let rows: Vec<usize> = (0..calls.len())
            .filter(|row| calls[*row].is_some())
            .collect();
        let first = self.mention(&owner, columns, &rows, place)?;
        let others = self.of_constants(&others, place)?;
        let mut others = others.as_primitive::<Int64Type>().iter();
        let mut next = first;
        let ids = calls.iter().map(|call| match call {
            None => others.next().flatten(),
            Some(_) => {
                next += 1;
                Some(temporary_id(next - 1))
            }
        });
        Ok(Arc::new(ids.collect::<Int64Array>()))
    }

    /// Values of some rows, each with its place.
    fn of_constants(&mut self, cells: &[(usize, &Expr)], place: &Place<'_>) -> Result<ArrayRef> {
        let mut values = Vec::with_capacity(cells.len());
        for (row, cell) in cells {
            let place = place.beginning_at(*row);
            values.push(match Literal::of(cell) {
                Some(Literal::Null) => new_null_array(place.data_type(), 1),
                Some(literal @ Literal::Number(_)) => {
                    numbers(&to_array(&[literal], &place)?, &place)?
                }
                _ => {
                    let value = self.constants.context().constant(cell, 1)?;
                    self.cells(&value, &place)?
                }
            });
        }
        match values.is_empty() {
            true => Ok(new_null_array(place.data_type(), 0)),
            false => {
                let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
                concat(&values).map_err(|error| from_arrow(&error))
            }
        }
    }

    /// Natural keys as structs, one field a column of the key.
    fn of_structs(
        &mut self,
        owner: &Owner,
        structs: &StructArray,
        place: &Place<'_>,
    ) -> Result<ArrayRef> {
        let key = owner.table.key_indices();
        if structs.num_columns() != key.len() && structs.null_count() < structs.len() {
            let what = other_width(structs.num_columns(), key.len());
            return Err(place.error(0, &what, "42601").with_hint(owner.form()));
        }
        let there = is_not_null(structs).map_err(|error| from_arrow(&error))?;
        let columns: Result<Vec<ArrayRef>> = owner
            .fields_of(structs, place)?
            .into_iter()
            .map(|at| filter(structs.column(at), &there).map_err(|error| from_arrow(&error)))
            .collect();
        let rows: Vec<usize> = (0..structs.len())
            .filter(|row| structs.is_valid(*row))
            .collect();
        let first = self.mention(owner, columns?, &rows, place)?;
        let mut next = first;
        let ids = (0..structs.len()).map(|row| {
            structs.is_valid(row).then(|| {
                next += 1;
                temporary_id(next - 1)
            })
        });
        Ok(Arc::new(ids.collect::<Int64Array>()))
    }

    /// Natural keys, or numbers, as texts.
    fn of_texts(
        &mut self,
        owner: &Owner,
        values: &ArrayRef,
        place: &Place<'_>,
    ) -> Result<ArrayRef> {
        let texts = arrow::compute::cast(values, &DataType::Utf8);
        let texts = texts.map_err(|error| from_arrow(&error))?;
        let width = owner.table.key_indices().len();
        let read = text::keys_of(texts.as_string::<i32>(), width, place)
            .map_err(|error| error.with_hint(owner.form()))?;
        let cells = read.cells.iter().enumerate();
        let keys = cells.filter(|(_, cell)| matches!(cell, text::Cell::Key(_)));
        let rows: Vec<usize> = keys.map(|(row, _)| row).collect();
        let first = self.mention(owner, read.columns, &rows, place)?;
        let ids = read.cells.into_iter().map(|cell| match cell {
            text::Cell::Null => None,
            text::Cell::Number(number) => Some(number),
            text::Cell::Key(at) => Some(temporary_id(first + at)),
        });
        Ok(Arc::new(ids.collect::<Int64Array>()))
    }

    /// Adds the natural keys that these rows mention; the place of the first.
    fn mention(
        &mut self,
        owner: &Owner,
        given: Vec<ArrayRef>,
        mentioned: &[usize],
        at: &Place<'_>,
    ) -> Result<u32> {
        let rows = mentioned.len();
        let first = self.maps.get(&owner.map.id).map_or(0, |keys| keys.rows);
        if rows == 0 {
            return Ok(first);
        }
        let stored = owner.stored(&given, at);
        let mut columns = match stored {
            Ok(columns) => columns,
            // One by one, for the row that the error is about.
            Err(error) => {
                let wrong = mentioned.iter().enumerate().find_map(|(nth, row)| {
                    let cells: Vec<ArrayRef> = given.iter().map(|c| c.slice(nth, 1)).collect();
                    owner.stored(&cells, &at.beginning_at(*row)).err()
                });
                return Err(wrong.unwrap_or(error));
            }
        };
        columns.push(Arc::new(Int64Array::from(vec![0; rows])));
        let defaults = Defaults::of(&owner.table)?;
        let mut generated = Vec::new();
        for column in &owner.map.columns[owner.map.key_map_id() + 1..] {
            // A column that was dropped since needs no value, nor one that has no default now.
            let mut own = owner.table.columns.iter().enumerate();
            let index = own.find(|(_, own)| own.id == column.id && has_default(&own.default));
            columns.push(match index {
                Some((index, _)) => {
                    if defaults.generate(self.constants, index, None) {
                        generated.push(columns.len());
                    }
                    defaults.values(self.constants, &owner.table, index, rows, at.first_row)?
                }
                None => new_null_array(&column.data_type, rows),
            });
        }
        self.push(&owner.map, columns, rows, &generated)?;
        Ok(first)
    }

    /// Keys of rows that were found, where IDs are of natural keys that are new in the transaction:
    /// these are mentioned once more. `is_new` says which numbers are of such keys, and not of
    /// nothing.
    ///
    /// # Errors
    /// When a key can't be read.
    pub(crate) fn found(
        &mut self,
        session: &Shared,
        table: &Table,
        keys: &[ArrayRef],
        is_new: impl Fn(i64) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let is_new = |id: i64| id < 0 && is_new(id);
        let mut found = keys.to_vec();
        for (column, at) in found.iter_mut().zip(table.key_indices()) {
            let Some(id_key) = table.columns[at].id_key else {
                continue;
            };
            let ids = column.as_primitive::<Int64Type>();
            let numbers: Vec<i64> = ids
                .values()
                .iter()
                .copied()
                .filter(|id| is_new(*id))
                .collect();
            if numbers.is_empty() {
                continue;
            }
            let owner = Owner::of(self.visible, id_key)?;
            let given = own::keys_of_numbers(session, id_key.map, &numbers)?;
            let rows: Vec<usize> = (0..numbers.len()).collect();
            let mut next = self.mention(&owner, given, &rows, &place(table, at, 1))?;
            let ids = ids.values().iter().map(|id| match is_new(*id) {
                true => {
                    next += 1;
                    temporary_id(next - 1)
                }
                false => *id,
            });
            *column = Arc::new(ids.collect::<Int64Array>());
        }
        Ok(found)
    }

    /// The IDs of an owner's own rows: temporary ones, for the keys that the rows have. The
    /// database generated the columns at the places `generated`.
    pub(crate) fn own(
        &mut self,
        table: &Table,
        columns: &[ArrayRef],
        rows: usize,
        generated: &[usize],
    ) -> Result<()> {
        let Some((_, map)) = table.owned_id() else {
            return Ok(());
        };
        let map = self.visible.by_id(map);
        let map = map.ok_or_else(|| Error::internal("an owner has a key map"))?;
        let key = table.key_indices();
        let mut of_map: Vec<ArrayRef> = key.iter().map(|at| Arc::clone(&columns[*at])).collect();
        let in_key = (0..key.len()).filter(|nth| generated.contains(&key[*nth]));
        let in_key: Vec<usize> = in_key.collect();
        of_map.push(Arc::new(Int64Array::from(vec![0; rows])));
        for column in &map.columns[map.key_map_id() + 1..] {
            of_map.push(new_null_array(&column.data_type, rows));
        }
        self.push(&map, of_map, rows, &in_key)
    }

    fn push(
        &mut self,
        map: &Arc<Table>,
        columns: Vec<ArrayRef>,
        rows: usize,
        generated: &[usize],
    ) -> Result<()> {
        let schema = change_schema(map, map.columns.len());
        let batch = RecordBatch::try_new(schema, columns);
        let batch = batch.map_err(|error| Error::internal(error.to_string()))?;
        let keys = self.maps.entry(map.id).or_insert_with(|| OfMap {
            map: Arc::clone(map),
            batches: Vec::new(),
            rows: 0,
            generated: Vec::new(),
        });
        keys.batches.push(batch);
        keys.rows += rows as u32;
        for at in generated {
            if !keys.generated.contains(at) {
                keys.generated.push(*at);
            }
        }
        Ok(())
    }

    /// All keys that were mentioned.
    pub(crate) fn finish(self) -> Result<Vec<MentionedKeys>> {
        let maps = self.maps.into_values();
        maps.map(|keys| {
            let rows = concat_batches(&keys.batches[0].schema(), &keys.batches);
            Ok(MentionedKeys {
                map: keys.map,
                rows: rows.map_err(|error| Error::internal(error.to_string()))?,
                generated: keys.generated,
            })
        })
        .collect()
    }
}

/// Temporary IDs for an owner's rows, in their order.
pub(crate) fn own_ids(rows: usize) -> ArrayRef {
    Arc::new(
        (0..rows as u32)
            .map(|row| Some(temporary_id(row)))
            .collect::<Int64Array>(),
    )
}

/// Numbers as they are: positive ones.
pub(crate) fn numbers(values: &ArrayRef, place: &Place<'_>) -> Result<ArrayRef> {
    let numbers = to_column(values, place)?;
    let cells = numbers.as_primitive::<arrow::datatypes::Int64Type>();
    match (0..cells.len()).find(|row| cells.is_valid(*row) && cells.value(*row) <= 0) {
        None => Ok(numbers),
        Some(row) => Err(place
            .error(row, &never_given(cells.value(row)), "23503")
            .with_hint("give the natural key: IDKEY(...)")),
    }
}

fn never_given(id: i64) -> String {
    format!("the ID {id} was never given out")
}

/// Whether the numbers that changes hold in ID columns were given out. The changes are of rows as
/// they were given, of which the first has the number `first_row`.
///
/// # Errors
/// `Invalid` (23503), naming the column, the row and the number.
pub(crate) async fn check_numbers(
    instance: &Instance,
    table: &Table,
    keyed: &KeyedChanges,
    first_row: u64,
) -> Result<()> {
    let changes = &keyed.changes;
    let columns = changes.data.columns().iter().enumerate();
    let Some(unknown) = first_unknown(instance, table, columns).await? else {
        return Ok(());
    };
    // Of a pair, both stored rows are of the row that was given.
    let before = 0..unknown.cell;
    let pairs = before.filter(|row| changes.kind(*row).is_split()).count();
    Err(place(table, unknown.column, first_row)
        .error(unknown.cell - pairs, &never_given(unknown.id), "23503")
        .with_hint("give the natural key: IDKEY(...)"))
}

/// The same of columns that are set, by their places in the table, whatever rows they are set in.
///
/// # Errors
/// `Invalid` (23503), naming the column and the number.
pub(crate) async fn check_cells<'a>(
    instance: &Instance,
    table: &Table,
    columns: impl Iterator<Item = (usize, &'a ArrayRef)>,
) -> Result<()> {
    match first_unknown(instance, table, columns).await? {
        None => Ok(()),
        Some(unknown) => Err(Error::invalid(format!(
            "table {:?}, column {:?}: {}",
            table.name,
            table.columns[unknown.column].name,
            never_given(unknown.id)
        ))
        .with_hint("give the natural key: IDKEY(...)")
        .with_sqlstate("23503")),
    }
}

/// A number that was never given out, and where it stands.
struct Unknown {
    column: usize,
    cell: usize,
    id: i64,
}

async fn first_unknown<'a>(
    instance: &Instance,
    table: &Table,
    columns: impl Iterator<Item = (usize, &'a ArrayRef)>,
) -> Result<Option<Unknown>> {
    for (at, cells) in columns {
        let Some(id_key) = table.columns.get(at).and_then(|column| column.id_key) else {
            continue;
        };
        let cells = cells.as_primitive::<Int64Type>();
        let numbers = cells.iter().flatten();
        let numbers: Vec<i64> = numbers.filter(|id| *id > 0 && *id != NO_ID).collect();
        let Some(first) = numbers.first() else {
            continue;
        };
        let missing = match instance.first_not_given(id_key.map, &numbers).await {
            // The map is made by this very transaction: it has given out nothing.
            Err(error) if error.kind() == ErrorKind::NotFound => Some(*first),
            missing => missing?,
        };
        if let Some(id) = missing {
            let cell = cells.iter().position(|cell| cell == Some(id));
            return Ok(Some(Unknown {
                column: at,
                cell: cell.unwrap_or_default(),
                id,
            }));
        }
    }
    Ok(None)
}

/// Whether a column's default is none: what an ID key must have.
pub(crate) fn has_default(default: &ColumnDefault) -> bool {
    *default != ColumnDefault::Null
}

/// One column of natural keys, as expressions, each with its row.
fn constants_of(
    constants: &Constants,
    cells: &[(usize, &Expr)],
    place: &Place<'_>,
) -> Result<ArrayRef> {
    let literals: Option<Vec<Literal>> = cells.iter().map(|(_, cell)| Literal::of(cell)).collect();
    if let Some(literals) = literals
        && let Ok(values) = to_array(&literals, place)
    {
        return Ok(values);
    }
    // One by one, so that an error names its row.
    let mut values = Vec::with_capacity(cells.len());
    for (row, cell) in cells {
        let place = place.beginning_at(*row);
        values.push(match Literal::of(cell) {
            Some(literal) => to_array(&[literal], &place)?,
            None => to_column(&constants.context().constant(cell, 1)?, &place)?,
        });
    }
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    concat(&values).map_err(|error| from_arrow(&error))
}

/// Makes the columns of type IDKEY of a table to be made what they are.
///
/// # Errors
/// `Invalid` with the reason when an ID key has no natural key, or refers to none.
pub(crate) fn declare(visible: &Visible, gate: &Gate, create: &mut CreateTable) -> Result<()> {
    let mut owned: Option<String> = None;
    let range = create
        .partitions
        .as_ref()
        .and_then(|clause| clause.range.as_ref());
    let is_id = |column: &&String| create.id_keys.iter().any(|(name, _)| name == *column);
    if let Some(name) = range.and_then(|range| range.columns.iter().find(is_id)) {
        return Err(
            Error::invalid(format!("range partitions by ID key {name:?}"))
                .with_detail("IDs are given out later, in the order of first mention")
                .with_hint("hash partitions take ID keys")
                .with_sqlstate("42P16"),
        );
    }
    for (name, reference) in create.id_keys.clone() {
        let id_key = match &reference {
            Some(reference) => {
                check_other(visible, create, &name, reference)?;
                referred(visible, gate, &name, reference)?
            }
            None => {
                check_owner(create, &name, owned.as_deref())?;
                owned = Some(name.clone());
                IdKeyColumn::OWN
            }
        };
        let mut columns = create.columns.iter_mut();
        let column = columns.find(|column| column.name == name);
        let column = column.ok_or_else(|| Error::internal("an ID key is a column"))?;
        column.id_key = Some(id_key);
        if reference.is_none() {
            column.nullable = false;
        }
    }
    Ok(())
}

/// Whether a table may own an ID key.
fn check_owner(create: &CreateTable, name: &str, other: Option<&str>) -> Result<()> {
    let refused = |what: String| Error::invalid(what).with_sqlstate("42P16");
    if let Some(other) = other {
        return Err(refused(format!(
            "{other:?} and {name:?} are both IDs of the table's key"
        ))
        .with_hint("a table owns one ID key; REFERENCES makes the ID of another table's key"));
    }
    if create.key.is_empty() {
        return Err(refused(format!(
            "ID key {name:?} stands for nothing: there is no key"
        ))
        .with_hint("declare the natural key: PRIMARY KEY (...)"));
    }
    if create.partitions.is_some() || create.ttl != (None, None) {
        return Err(refused(format!(
            "the owner of ID key {name:?} has no partitions and no TTL"
        ))
        .with_detail("references make its rows, wherever their keys lie")
        .with_hint("partition the tables that refer to it"));
    }
    if create.key.iter().any(|key| key == name) {
        return Err(refused(format!(
            "ID key {name:?} can't be part of the key it stands for"
        ))
        .with_hint("the primary key of the owner is the natural key alone"));
    }
    let is_id = |key: &&String| create.id_keys.iter().any(|(id_key, _)| id_key == *key);
    if let Some(key) = create.key.iter().find(is_id) {
        return Err(
            refused(format!("the natural key holds another ID key, {key:?}"))
                .with_detail("numbers are given out by natural keys, which have none in them")
                .with_hint("put that table's natural key into this one"),
        );
    }
    Ok(())
}

/// Whether a reference is to another table than that which is being made.
fn check_other(
    visible: &Visible,
    create: &CreateTable,
    name: &str,
    reference: &Reference,
) -> Result<()> {
    if reference.table != create.name || visible.table(&create.name).is_some() {
        return Ok(());
    }
    let refused = unsupported(format!("ID key {name:?} refers to its own table"));
    Err(refused
        .with_detail("a reference makes a row of the owner, here of the table that it stands in")
        .with_hint("a second table can hold the references, with two ID keys of this one"))
}

/// The owner that REFERENCES names. Whoever writes to the table that refers to it makes rows of the
/// owner by it, so its maker may do that.
fn referred(
    visible: &Visible,
    gate: &Gate,
    name: &str,
    reference: &Reference,
) -> Result<IdKeyColumn> {
    let table = visible.require(&reference.table);
    let table = table.map_err(|error| error.within(format_args!("ID key {name:?}")))?;
    let key = table.key_indices();
    gate.may_read(&table, &key)?;
    gate.write(Privilege::Insert, &table, &key)?;
    let refused = |what: String| Error::invalid(what).with_sqlstate("42830");
    let Some((at, map)) = table.owned_id() else {
        return Err(refused(format!(
            "ID key {name:?} refers to table {:?}, which owns none",
            table.name
        ))
        .with_hint("the owner has a column of type IDKEY without REFERENCES"));
    };
    let owned = &table.columns[at].name;
    if let Some(column) = reference.column.as_ref().filter(|column| *column != owned) {
        return Err(refused(format!(
            "column {column:?} of table {:?} is no ID key",
            table.name
        ))
        .with_hint(format!("REFERENCES {} ({owned})", table.name)));
    }
    let missing = table.columns.iter().enumerate().find(|(column, of)| {
        !key.contains(column) && *column != at && !of.nullable && !has_default(&of.default)
    });
    if let Some((_, column)) = missing {
        return Err(refused(format!(
            "table {:?} needs a value for column {:?}, which a reference can't give",
            table.name, column.name
        ))
        .with_detail("a reference to a new key makes the owner's row: its key, and defaults")
        .with_hint("give that column a DEFAULT, or let it be NULL"));
    }
    Ok(IdKeyColumn {
        map,
        owner: table.id,
    })
}
