//! What is there as the statements that make it again: SHOW CREATE TABLE and SHOW CREATE VIEW.
//!
//! Reads definitions; writes text. Invariant DEF-1: the statements of a table, run in a database
//! that has what the table refers to, make a table that gives the same statements.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::array_value_to_string;
use lazybase_model::sequence::SequenceOwner;
use lazybase_model::table::ColumnEncoding;
use lazybase_model::{Column, Layout, Result, Sequence, Table};

use crate::cast::uuid_text;
use crate::hex::put_hex;
use crate::parse::{self, Statement};
use crate::pg_catalog::sequences::{default_of, generation};
use crate::system_tables::partitions;
use crate::types::{self, UUID};
use crate::views;
use crate::visible::{SeenSequence, Visible};

#[cfg(test)]
mod tests;

/// The statements that make a table and its views, each with the name of what it makes.
///
/// # Errors
/// `Internal` when a definition holds what no statement says.
pub(crate) fn of_table(visible: &Visible, table: &Table) -> Result<Vec<(String, String)>> {
    let mut made = vec![(table.name.clone(), create_table(visible, table)?)];
    let views = visible.views_of(table.id);
    made.extend(views.iter().map(|view| of_view(visible, view)));
    Ok(made)
}

/// The statement that makes a view, with its name.
pub(crate) fn of_view(visible: &Visible, view: &Table) -> (String, String) {
    let (name, query) = (identifier(&view.name), views::definition(visible, view));
    let text = format!("CREATE MATERIALIZED VIEW {name} AS {query}");
    (view.name.clone(), text)
}

/// What of a table's meaning PostgreSQL's statements can't say, so that what they make of its rows
/// would be another table; nothing where they can.
pub(crate) fn beyond_postgres(table: &Table) -> Option<String> {
    let columns = &table.columns[..table.visible_columns()];
    let of_column = columns.iter().find_map(|column| {
        let what = match column {
            column if column.id_key.is_some() => "is an ID key".to_owned(),
            // Of it alone pg_dump says ALTER TABLE ... ADD GENERATED.
            column if column.identity.is_some() => "is an identity column".to_owned(),
            column if column.merge.is_some() => "has a merge operator".to_owned(),
            column if column.has_labels() => "has labels".to_owned(),
            column if !is_of_postgres(&column.data_type) => {
                format!("is {}", declared_type(column))
            }
            _ => return None,
        };
        Some(format!("column {:?} {what}", column.name))
    });
    of_column.or_else(|| {
        let labelled = table.row_label().map(|_| "its rows have labels".to_owned());
        labelled.or_else(|| table.ttl.map(|_| "its rows end by themselves".to_owned()))
    })
}

/// Whether PostgreSQL has a type that holds all values of this one.
fn is_of_postgres(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(_) | DataType::Map(..) => false,
        DataType::Time64(unit) | DataType::Timestamp(unit, _) => *unit != TimeUnit::Nanosecond,
        DataType::List(item) => !item.data_type().is_nested() && is_of_postgres(item.data_type()),
        _ => true,
    }
}

fn create_table(visible: &Visible, table: &Table) -> Result<String> {
    let key = table.key_indices();
    let shown = table.columns[..table.visible_columns()].iter().enumerate();
    let mut lines: Vec<String> = shown
        .map(|(at, column)| column_text(visible, table, column, key.contains(&at)))
        .collect();
    if !table.hidden_key {
        let key = key.iter().map(|at| identifier(&table.columns[*at].name));
        let key: Vec<String> = key.collect();
        lines.push(format!("PRIMARY KEY ({})", key.join(", ")));
    }
    let (name, lines) = (identifier(&table.name), lines.join(", "));
    let mut text = format!("CREATE TABLE {name} ({lines})");
    let options = options(table);
    if !options.is_empty() {
        text += &format!(" WITH ({})", options.join(", "));
    }
    if let Some(rules) = partitions::definition(table)? {
        text += &format!(" PARTITION BY {rules}");
    }
    Ok(text)
}

/// A column as declared. The default stands last: nothing that follows can be taken for a part of
/// it.
fn column_text(visible: &Visible, table: &Table, column: &Column, in_key: bool) -> String {
    let mut words = vec![identifier(&column.name)];
    match column.id_key {
        None => words.push(numbered_type(visible, table, column)),
        Some(_) if table.owns(column) => words.push("IDKEY".to_owned()),
        Some(id_key) => {
            let owner = visible.by_id(id_key.owner);
            let name = owner.map_or_else(String::new, |owner| identifier(&owner.name));
            words.push(format!("IDKEY REFERENCES {name}"));
        }
    }
    if let Some(operator) = column.merge {
        words.push(format!("MERGE {}", operator.word()));
    }
    if column.has_labels() {
        words.push("WITH LABELS".to_owned());
    }
    // What the column's type, since widened, can't have has no effect any more.
    let of_type = ColumnEncoding::of_type(&column.stored_type());
    let encoding = column.storage.encoding;
    if let Some(encoding) = encoding.filter(|encoding| of_type.contains(encoding)) {
        words.push(format!("ENCODING {}", encoding.name()));
    }
    if let Some(codec) = column.storage.codec {
        words.push(format!("CODEC {codec}"));
    }
    if !column.nullable && !in_key && !table.owns(column) {
        words.push("NOT NULL".to_owned());
    }
    if let Some(comment) = &column.comment {
        words.push(format!("COMMENT {}", text(comment)));
    }
    if is_serial(visible, table, column) {
        return words.join(" ");
    }
    if let Some(default) = default_of(visible, column) {
        words.push(format!("DEFAULT {default}"));
    }
    words.join(" ")
}

/// A column's type, with how it numbers itself: SERIAL, or the clause of an identity column.
fn numbered_type(visible: &Visible, table: &Table, column: &Column) -> String {
    if is_serial(visible, table, column) {
        let name = match column.data_type {
            DataType::Int16 => "SMALLSERIAL",
            DataType::Int32 => "SERIAL",
            _ => "BIGSERIAL",
        };
        return name.to_owned();
    }
    let declared = declared_type(column);
    let Some(kind) = column.identity else {
        return declared;
    };
    let id = column.default.sequence();
    let options = id.and_then(|id| visible.sequence(id));
    let options = options.map_or_else(String::new, |seen| sequence_options(&seen.sequence));
    let generated = generation(kind);
    format!("{declared} GENERATED {generated} AS IDENTITY{options}")
}

/// Whether a column's default is all that SERIAL says: the next number of a sequence of its own,
/// which has the column's type and no options.
fn is_serial(visible: &Visible, table: &Table, column: &Column) -> bool {
    let id = column
        .default
        .sequence()
        .filter(|_| column.identity.is_none());
    let Some(SeenSequence { sequence, .. }) = id.and_then(|id| visible.sequence(id)) else {
        return false;
    };
    let owner = SequenceOwner {
        table: table.id,
        column: column.id,
    };
    !column.nullable
        && sequence.owner == Some(owner)
        && sequence.data_type == column.data_type
        && sequence_options(&sequence).is_empty()
}

/// The options of a sequence that are not what they are by themselves, in parentheses.
fn sequence_options(sequence: &Sequence) -> String {
    let (least, greatest) = Sequence::bounds_of(&sequence.data_type);
    let (min, max) = match sequence.increment >= 0 {
        true => (1, greatest),
        false => (least, -1),
    };
    let first = if sequence.increment >= 0 {
        sequence.min
    } else {
        sequence.max
    };
    let mut options = Vec::new();
    let mut say = |is_said: bool, text: String| {
        if is_said {
            options.push(text);
        }
    };
    let start = sequence.start;
    say(start != first, format!("START WITH {start}"));
    let increment = sequence.increment;
    say(increment != 1, format!("INCREMENT BY {increment}"));
    say(sequence.min != min, format!("MINVALUE {}", sequence.min));
    say(sequence.max != max, format!("MAXVALUE {}", sequence.max));
    say(sequence.cycle, "CYCLE".to_owned());
    match options.is_empty() {
        true => String::new(),
        false => format!(" ({})", options.join(" ")),
    }
}

fn options(table: &Table) -> Vec<String> {
    let mut options = Vec::new();
    if table.layout == Layout::Point {
        options.push("layout = 'point'".to_owned());
    }
    if table.row_label().is_some() {
        options.push("row_labels = true".to_owned());
    }
    if let Some(ttl) = table.ttl {
        let column = table.ttl_index().map(|at| table.columns[at].name.as_str());
        options.push(format!("ttl = '{}'", duration(ttl.micros)));
        options.push(format!("ttl_column = {}", text(column.unwrap_or_default())));
    }
    if let Some(micros) = table.freshness_target_micros {
        options.push(format!("freshness_target = '{}'", duration(micros)));
    }
    if let Some(comment) = &table.comment {
        options.push(format!("comment = {}", text(comment)));
    }
    options
}

/// A time to live in the largest unit that holds it exactly.
pub(crate) fn duration(micros: u64) -> String {
    let units = [
        ("days", 86_400_000_000),
        ("hours", 3_600_000_000),
        ("min", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
    ];
    let whole = units.iter().find(|(_, unit)| micros.is_multiple_of(*unit));
    match whole {
        Some((name, unit)) => format!("{} {name}", micros / unit),
        None => format!("{micros} us"),
    }
}

/// A column's type as CREATE TABLE takes it.
fn declared_type(column: &Column) -> String {
    match column.characters_max.is_some() || column.json {
        true => types::column_name(column),
        false => type_text(&column.data_type),
    }
}

fn type_text(stored: &DataType) -> String {
    match stored {
        DataType::List(item) => format!("{}[]", type_text(item.data_type())),
        DataType::Struct(fields) => {
            let field = |field: &arrow::datatypes::FieldRef| {
                let (name, data_type) = (field.name(), field.data_type());
                format!("{} {}", identifier(name), type_text(data_type))
            };
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("STRUCT<{}>", fields.join(", "))
        }
        plain => types::name(plain),
    }
}

/// A text as SQL writes it.
pub(crate) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The first value of an array as SQL writes it, so that a column of its type takes it back.
pub(crate) fn literal(values: &ArrayRef) -> String {
    let spelt = |values: &ArrayRef| array_value_to_string(values, 0).unwrap_or_default();
    match values.data_type() {
        uuid if *uuid == UUID => text(&spelt(&uuid_text(values))),
        DataType::Boolean => spelt(values),
        DataType::Binary => {
            let mut digits = String::new();
            put_hex(values.as_binary::<i32>().value(0), &mut digits);
            format!("X'{digits}'")
        }
        number if number.is_integer() || number.is_decimal() => spelt(values),
        _ => text(&spelt(values)),
    }
}

/// A name as SQL reads it back: in double quotes where it must be.
pub(crate) fn identifier(name: &str) -> String {
    match reads_back(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Whether a name stands for itself without quotes, wherever definitions have names.
fn reads_back(name: &str) -> bool {
    let mut bytes = name.bytes();
    let plain = bytes
        .next()
        .is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if !plain {
        return false;
    }
    // A column beside it, of another name.
    let other = if name == "k" { "l" } else { "k" };
    let table =
        format!("CREATE TABLE {name} ({name} INT, {other} INT, PRIMARY KEY ({other}, {name}))");
    let table = match parse::parse(&table).map(|parsed| parsed.statement) {
        Ok(Statement::CreateTable(create)) => {
            create.name == name && create.columns[0].name == name && create.key[1] == name
        }
        _ => false,
    };
    let query = format!("SELECT {name}, {other} FROM {name} ORDER BY {name}, {other}");
    let view = format!("CREATE MATERIALIZED VIEW {name} AS {query}");
    let view = match parse::parse(&view).map(|parsed| parsed.statement) {
        Ok(Statement::CreateView(view)) => {
            let columns = view.columns.unwrap_or_default();
            view.name == name && view.table == name && columns[0] == name && view.key[0] == name
        }
        _ => false,
    };
    table && view
}
