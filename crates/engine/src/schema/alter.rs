//! From a table's definition and what shall change to its next definition: pure.
//!
//! What can't be done says why. The check points for what depends on a column (a view that stores
//! it, a rule that reads it) are `check_unused`.

use arrow::array::ArrayRef;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use lazybase_model::limits::{COLUMNS_MAX, NAME_BYTES_MAX};
use lazybase_model::table::{Column, cell_label_name, check_labelled, check_operators};
use lazybase_model::{CellBytes, ColumnDefault, Error, Result, SchemaVersion, Table};

use super::{Widening, decode_cell, encode_cell, widening};
use crate::read::HiddenColumn;
use crate::segment::check_storable;

mod labels;

/// Names that no column of a user has.
const RESERVED: [&str; 6] = ["_row", "_scu", "_time", "_kind", "_mask", "_column_scus"];

/// One change of a table's definition.
#[derive(Debug, Clone, PartialEq)]
pub enum Alteration {
    /// A new column, the last that SQL shows, with what older rows hold there.
    AddColumn(Column),
    /// A column ends, with what is stored in it.
    DropColumn(String),
    /// A column gets another name.
    RenameColumn {
        /// The name that it has.
        from: String,
        /// The name that it gets.
        to: String,
    },
    /// A column gets a type that holds every value of the one before.
    SetType {
        /// The column.
        column: String,
        /// Its new type.
        data_type: DataType,
        /// The most characters of its texts; `None` for any number.
        characters_max: Option<u32>,
        /// Whether its texts are JSON.
        json: bool,
    },
    /// What a column gets where no value is given, from now on.
    SetDefault {
        /// The column.
        column: String,
        /// The default.
        default: ColumnDefault,
    },
    /// A column may hold NULL.
    DropNotNull(String),
    /// Cells of a column have labels from now on; those that are there have the empty one.
    AddLabels(String),
    /// Rows have labels from now on; those that are there have the empty one.
    AddRowLabels,
    /// The table gets another name.
    Rename(String),
    /// See [`Table::freshness_target_micros`]; `None` for no target.
    SetFreshnessTarget(Option<u64>),
    /// What the user says about the table, or about a column.
    Comment {
        /// The column; `None` for the table.
        column: Option<String>,
        /// What is said; `None` for nothing.
        text: Option<String>,
    },
}

/// The definition after these changes, in their order, under `version`.
///
/// # Errors
/// `Invalid` or `NotFound`, saying why: the table stays as it is.
pub fn altered(table: &Table, changes: &[Alteration], version: SchemaVersion) -> Result<Table> {
    let mut next = Table {
        next_column: table.next_column_id().0,
        version,
        ..table.clone()
    };
    for change in changes {
        alter(&mut next, change)?;
    }
    Ok(next)
}

fn alter(table: &mut Table, change: &Alteration) -> Result<()> {
    match change {
        Alteration::AddColumn(column) => add(table, column.clone()),
        Alteration::DropColumn(name) => drop_column(table, name),
        Alteration::RenameColumn { from, to } => {
            let at = visible(table, from)?;
            check_name(table, to)?;
            to.clone_into(&mut table.columns[at].name);
            if let Some(label) = table.cell_label(at)? {
                table.columns[label].name = cell_label_name(to);
            }
            Ok(())
        }
        Alteration::SetType {
            column,
            data_type,
            characters_max,
            json,
        } => set_type(table, column, data_type, *characters_max, *json),
        Alteration::SetDefault { column, default } => {
            let at = visible(table, column)?;
            check_default(table, at, default)?;
            table.columns[at].default = default.clone();
            Ok(())
        }
        Alteration::DropNotNull(name) => {
            let at = visible(table, name)?;
            if in_key(table, at) {
                return Err(refused(table, name, "a key never holds NULL", "42P16"));
            }
            if table.owns(&table.columns[at]) {
                return Err(refused(table, name, "every key has its ID", "42P16"));
            }
            table.columns[at].nullable = true;
            Ok(())
        }
        Alteration::AddLabels(name) => labels::of_cells(table, name),
        Alteration::AddRowLabels => labels::of_rows(table),
        Alteration::Rename(name) => {
            name.clone_into(&mut table.name);
            Ok(())
        }
        Alteration::SetFreshnessTarget(micros) => {
            table.freshness_target_micros = *micros;
            Ok(())
        }
        Alteration::Comment { column, text } => {
            match column {
                None => table.comment.clone_from(text),
                Some(name) => {
                    let at = visible(table, name)?;
                    table.columns[at].comment.clone_from(text);
                }
            }
            Ok(())
        }
    }
}

/// The position of a column that SQL shows.
fn visible(table: &Table, name: &str) -> Result<usize> {
    let at = table.column_index(name);
    match at.filter(|at| *at < table.visible_columns()) {
        Some(at) => Ok(at),
        None => table
            .require_column(name)
            .and_then(|_| Err(refused(table, name, "it is a hidden column", "42703"))),
    }
}

fn in_key(table: &Table, at: usize) -> bool {
    table.primary.key.contains(&table.columns[at].id)
}

fn refused(table: &Table, column: &str, why: &str, sqlstate: &'static str) -> Error {
    let what = format!(
        "column {column:?} of table {:?} can't be changed so: {why}",
        table.name
    );
    Error::invalid(what)
        .with_name(column)
        .with_sqlstate(sqlstate)
}

fn check_name(table: &Table, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let error = Error::invalid(format!("{name:?} can't name a column"));
        return Err(error.with_sqlstate("42602"));
    }
    if RESERVED.contains(&name) || HiddenColumn::is_name(name) {
        let error = Error::invalid(format!("column name {name:?} is reserved"));
        return Err(error.with_sqlstate("42939"));
    }
    match table.column_index(name) {
        None => Ok(()),
        Some(_) => {
            let what = format!("table {:?} has a column {name:?} already", table.name);
            Err(Error::conflict(what).with_name(name).with_sqlstate("42701"))
        }
    }
}

fn add(table: &mut Table, mut column: Column) -> Result<()> {
    check_name(table, &column.name)?;
    check_room(table)?;
    if !column.nullable && column.older.is_none() {
        return Err(refused(
            table,
            &column.name,
            "rows that are there would hold NULL in it",
            "23502",
        )
        .with_hint("give a DEFAULT: older rows hold its value of this moment"));
    }
    let key: Vec<String> = match table.hidden_key {
        true => Vec::new(),
        false => {
            let names = table.key_indices().into_iter();
            names.map(|at| table.columns[at].name.clone()).collect()
        }
    };
    check_operators(std::slice::from_ref(&column), &key)?;
    check_storable(&column)?;
    if column.merge.is_some() && table.takes_whole_rows_only() {
        let why = "rows end by a column outside the key, so they are written whole";
        return Err(refused(table, &column.name, why, "42P16")
            .with_detail("combining a column is no write of a whole row")
            .with_hint("a table whose ttl_column is in the key takes such columns"));
    }
    check_labelled(&column, false)?;
    let is_labelled = column.has_labels();
    column.id = table.next_column_id();
    table.next_column = column.id.0 + 1;
    let at = table.visible_columns();
    table.columns.insert(at, column);
    match is_labelled {
        true => labels::begin(table, at),
        false => Ok(()),
    }
}

fn check_room(table: &Table) -> Result<()> {
    match table.columns.len() < COLUMNS_MAX {
        true => Ok(()),
        false => {
            let what = format!("table {:?} has {COLUMNS_MAX} columns already", table.name);
            Err(Error::invalid(what).with_sqlstate("54011"))
        }
    }
}

fn drop_column(table: &mut Table, name: &str) -> Result<()> {
    let at = visible(table, name)?;
    if in_key(table, at) {
        return Err(
            refused(table, name, "rows are sorted and found by it", "42P16")
                .with_hint("CREATE TABLE ... AS SELECT makes a table with another key"),
        );
    }
    if table.visible_columns() == 1 {
        return Err(refused(table, name, "it is the only one", "42P16")
            .with_hint("DROP TABLE drops the table"));
    }
    if table.ttl_index() == Some(at) {
        return Err(refused(table, name, "rows end by it", "42P16")
            .with_hint("CREATE TABLE ... AS SELECT makes a table without it"));
    }
    if table.owns(&table.columns[at]) {
        let why = "it is the ID of the table's key, which never ends";
        return Err(refused(table, name, why, "2BP01")
            .with_hint("DROP TABLE drops the table, once none refers to it"));
    }
    check_unused(table, at, "dropped")?;
    if let Some(label) = table.cell_label(at)? {
        table.columns.remove(label);
    }
    table.columns.remove(at);
    Ok(())
}

fn set_type(
    table: &mut Table,
    name: &str,
    data_type: &DataType,
    characters_max: Option<u32>,
    json: bool,
) -> Result<()> {
    let at = visible(table, name)?;
    let before = table.columns[at].clone();
    let hint = "ADD COLUMN, and UPDATE ... SET new = CAST(old AS ...), makes a changed copy";
    let after = Column {
        data_type: data_type.clone(),
        ..before.clone()
    };
    after.check_merge()?;
    check_storable(&after)?;
    let how = widening(&before.data_type, data_type);
    // Sums are stored as another type than they are declared as.
    let stored = widening(&before.stored_type(), &after.stored_type());
    let how = match (how, stored) {
        (Widening::Cast, Widening::Refused(_)) => {
            Widening::Refused("its sums are stored with as many digits behind the point as now")
        }
        _ => how,
    };
    if let Widening::Refused(why) = how {
        return Err(refused(table, name, why, "42804").with_hint(hint));
    }
    if before.id_key.is_some() {
        return Err(refused(table, name, "IDs are BIGINT", "42804"));
    }
    if how == Widening::Cast && table.owned_id().is_some() && before.default != ColumnDefault::Null
    {
        let why = "references give its default with each new key";
        return Err(refused(table, name, why, "2BP01").with_hint("ALTER COLUMN ... DROP DEFAULT"));
    }
    let narrower = match (before.characters_max, characters_max) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => after < before,
    };
    if narrower {
        let why = "longer texts may be stored already";
        return Err(refused(table, name, why, "42804").with_hint(hint));
    }
    if json && !before.json {
        let why = "texts that are no JSON may be stored already";
        return Err(refused(table, name, why, "42804").with_hint(hint));
    }
    if how == Widening::Cast && in_key(table, at) {
        let why = "keys are stored by the bytes of their type";
        return Err(refused(table, name, why, "42P16")
            .with_hint("CREATE TABLE ... AS SELECT makes a table with another key"));
    }
    if how == Widening::Cast {
        check_unused(table, at, "given another type")?;
    }
    let older = widened(before.older.as_ref(), &before.data_type, data_type)?;
    let column = &mut table.columns[at];
    data_type.clone_into(&mut column.data_type);
    column.characters_max = characters_max;
    column.json = json;
    column.older = older;
    Ok(())
}

/// Whether a column may get a default: an ID key has none, and references make rows of an owner
/// that need a value for each column that can't be NULL.
fn check_default(table: &Table, at: usize, default: &ColumnDefault) -> Result<()> {
    let column = &table.columns[at];
    if column.id_key.is_some() && *default != ColumnDefault::Null {
        let why = "IDs are given out by the database";
        return Err(refused(table, &column.name, why, "42P16"));
    }
    if column.identity.is_some() {
        let why = "it is an identity column, whose default is the next number";
        return Err(refused(table, &column.name, why, "42601"));
    }
    if table.owned_id().is_some() && default.sequence().is_some() {
        let why = "references to new keys make rows, which nobody could number";
        return Err(refused(table, &column.name, why, "0A000"));
    }
    let needed = table.owned_id().is_some() && !column.nullable && !in_key(table, at);
    if needed && !table.owns(column) && *default == ColumnDefault::Null {
        let why = "references to new keys make rows, which need a value there";
        return Err(refused(table, &column.name, why, "42P16")
            .with_hint("ALTER COLUMN ... DROP NOT NULL first"));
    }
    Ok(())
}

/// The value of older rows under a wider type.
fn widened(cell: Option<&CellBytes>, from: &DataType, to: &DataType) -> Result<Option<CellBytes>> {
    let value: ArrayRef = decode_cell(cell, from)?;
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let value = cast_with_options(&value, to, &options)
        .map_err(|error| Error::internal(format!("a wider type lost a value: {error}")))?;
    encode_cell(&value)
}

/// Whether nothing of the table but its rows needs the column at position `at` as it is: what
/// stands on a column (another sort order of the table, a rule that reads it) is asked here, and
/// refuses with the reason and a hint.
///
/// # Errors
/// `Invalid` (2BP01) when something does.
fn check_unused(table: &Table, at: usize, change: &str) -> Result<()> {
    match in_key(table, at) {
        false => Ok(()),
        true => {
            let name = &table.columns[at].name;
            let what = format!("column {name:?} is in the key: it can't be {change}");
            Err(Error::invalid(what).with_sqlstate("2BP01"))
        }
    }
}

/// Whether `next` may follow `table` at a boundary of the order: the same table, columns that keep
/// their ids and hold what they held, and new ids for new columns.
///
/// # Errors
/// `Internal`: [`altered`] makes no other.
pub fn check_succession(table: &Table, next: &Table) -> Result<()> {
    let same = table.id == next.id
        && table.primary == next.primary
        && table.hidden_key == next.hidden_key
        && table.layout == next.layout
        && table.version < next.version
        && table.next_column_id() <= next.next_column_id();
    let wrong = next.columns.iter().find(|column| {
        let known = table.columns.iter().find(|before| before.id == column.id);
        match known {
            Some(before) => matches!(
                widening(&before.data_type, &column.data_type),
                Widening::Refused(_)
            ),
            None => column.id < table.next_column_id(),
        }
    });
    let keys = &next.primary.key;
    let keeps_key = keys.iter().all(|id| {
        let of = |table: &Table| {
            let column = table.columns.iter().find(|column| column.id == *id);
            column.map(|column| column.data_type.clone())
        };
        of(next).is_some() && of(next) == of(table)
    });
    match (same && keeps_key, wrong) {
        (true, None) => Ok(()),
        (_, wrong) => {
            let column = wrong.map(|column| column.name.as_str()).unwrap_or_default();
            let what = format!(
                "a definition of {:?} does not follow its last one",
                table.name
            );
            Err(Error::internal(what).with_detail(format!("column {column:?}")))
        }
    }
}
