//! Values as the type of the column they go to; what does not fit is an error that names table,
//! column and row; bad input rejects the batch whole.
//!
//! Reads and gives arrays; one decision a column, loops over arrays. Invariant CAST-1: a value
//! is stored as given or refused, but for rounding to the column's scale and precision, and the
//! sign of NaN.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, FixedSizeBinaryBuilder, ListArray, PrimitiveArray,
    StringArray, StructArray, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::kernels::cmp::neq;
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use lazybase_engine::stages::ingest::{first_no_label, first_too_long};
use lazybase_model::limits::{CELL_BYTES_MAX, KEY_BYTES_MAX};
use lazybase_model::{Column, Error, Result, Table};

use crate::array_text::array_elements;
use crate::floats::one_spelling;
use crate::hex::{from_hex, from_uuid, put_uuid};
use crate::moments::{has_fields, local_moment, spelt_interval};
use crate::planner::json_functions::is_json_text;
use crate::planner::spelt_moments::all_spelt;
use crate::text_form;
use crate::types::{self, UUID};

pub(crate) mod far;

#[cfg(test)]
mod tests;

/// Where values go: for messages, and for the type they must have.
pub(crate) struct Place<'p> {
    /// Empty where there is none.
    pub(crate) table: &'p str,
    pub(crate) column: &'p Column,
    /// The number of the first value's row, counted from 1 over the whole statement.
    pub(crate) first_row: u64,
}

impl Place<'_> {
    pub(crate) fn data_type(&self) -> &DataType {
        &self.column.data_type
    }

    /// The same from row `row` of the array on.
    pub(crate) fn beginning_at(&self, row: usize) -> Place<'_> {
        Place {
            table: self.table,
            column: self.column,
            first_row: self.first_row + row as u64,
        }
    }

    /// What is wrong with the value in row `row` of the array.
    pub(crate) fn error(&self, row: usize, fact: &str, sqlstate: &'static str) -> Error {
        let of_table = match self.table {
            "" => String::new(),
            table => format!("table {table:?}, "),
        };
        Error::invalid(format!(
            "{of_table}column {:?}, row {}: {fact}",
            self.column.name,
            self.first_row + row as u64,
        ))
        .with_sqlstate(sqlstate)
    }
}

/// Values of any type as values of the column.
///
/// # Errors
/// `Invalid` for the first value that does not fit.
pub(crate) fn to_column(values: &ArrayRef, place: &Place<'_>) -> Result<ArrayRef> {
    use DataType as A;
    let (given, wanted) = (values.data_type(), place.data_type());
    if given == wanted {
        return Ok(Arc::clone(values));
    }
    match (given, wanted) {
        (A::Utf8, _) => from_text(values, place),
        (A::Utf8View | A::LargeUtf8 | A::Dictionary(..), _) => {
            let plain = types::storable(given)?;
            let plain = plain_cast(values, &plain, place)?;
            match plain.data_type() == wanted {
                true => Ok(plain),
                false => to_column(&plain, place),
            }
        }
        (A::FixedSizeBinary(16), A::Utf8) => Ok(uuid_text(values)),
        (A::Duration(_), A::Interval(_)) => {
            let intervals = text_form::intervals(values)
                .map_err(|error| Error::invalid(error.to_string()).with_sqlstate("22008"))?;
            Ok(Arc::new(intervals))
        }
        (A::Map(..), A::List(_)) => {
            let map = values.as_map();
            let pairs = Arc::new(Field::new_list_field(
                map.entries().data_type().clone(),
                true,
            ));
            let lists = ListArray::new(
                pairs,
                map.offsets().clone(),
                Arc::new(map.entries().clone()),
                map.nulls().cloned(),
            );
            to_column(&(Arc::new(lists) as ArrayRef), place)
        }
        (A::Binary, uuid) if *uuid == UUID => checked_cast(values, place),
        (A::Float32, integer) if integer.is_integer() => {
            let rounded: PrimitiveArray<Float32Type> = values
                .as_primitive::<Float32Type>()
                .unary(f32::round_ties_even);
            checked_cast(&(Arc::new(rounded) as ArrayRef), place)
        }
        (A::Float64, integer) if integer.is_integer() => {
            let rounded: PrimitiveArray<Float64Type> = values
                .as_primitive::<Float64Type>()
                .unary(f64::round_ties_even);
            checked_cast(&(Arc::new(rounded) as ArrayRef), place)
        }
        (A::Decimal128(precision, scale), integer) if integer.is_integer() && *scale > 0 => {
            let rounded = plain_cast(values, &A::Decimal128(*precision, 0), place)?;
            checked_cast(&rounded, place)
        }
        _ if are_moment_and_number(given, wanted) => Err(not_stored(given, wanted, place)),
        _ => checked_cast(values, place),
    }
}

/// Whether one is a day, a moment or a time of day, and the other a number. Casts take each for the
/// other, as so many days or parts of a second: `2013-06-01` without its quotes is the number 2006.
fn are_moment_and_number(one: &DataType, other: &DataType) -> bool {
    let is_moment = |of: &DataType| {
        matches!(
            of,
            DataType::Date32 | DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_)
        )
    };
    (is_moment(one) && other.is_numeric()) || (one.is_numeric() && is_moment(other))
}

/// Texts as values of the column.
///
/// # Errors
/// `Invalid` for the first text that is no value of the column's type.
pub(crate) fn from_text(texts: &ArrayRef, place: &Place<'_>) -> Result<ArrayRef> {
    let strings = texts.as_string::<i32>();
    match place.data_type() {
        DataType::Utf8 => Ok(Arc::clone(texts)),
        DataType::Binary => bytes_of_text(strings, place),
        uuid if *uuid == UUID => uuids_of_text(strings, place),
        DataType::List(item) if has_array(strings) => arrays_of_text(strings, item, place),
        nested if nested.is_nested() => nested_of_text(strings, place),
        DataType::Interval(_) => {
            let spelt = strings.iter().map(|text| {
                text.map(|text| spelt_interval(text).map_or(Cow::Borrowed(text), Cow::Owned))
            });
            checked_cast(
                &(Arc::new(spelt.collect::<StringArray>()) as ArrayRef),
                place,
            )
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let digits = strings.iter().map(|text| text.map(figures));
            checked_cast(
                &(Arc::new(digits.collect::<StringArray>()) as ArrayRef),
                place,
            )
        }
        DataType::Date32 => {
            let days = all_spelt(&without_zones(&local(strings)));
            far::moments(&days, place.data_type(), |near| checked_cast(near, place))
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            checked_cast(&(Arc::new(without_zones(strings)) as ArrayRef), place)
        }
        DataType::Timestamp(_, zone) => {
            let texts = match zone {
                Some(_) => all_spelt(strings),
                None => all_spelt(&local(strings)),
            };
            far::moments(&texts, place.data_type(), |near| checked_cast(near, place))
        }
        _ => checked_cast(texts, place),
    }
}

/// More figures after the point than any scale has, and as many as Arrow reads.
const FRACTION_FIGURES: usize = 60;

/// A number's text as Arrow reads it: without exponent, and without figures that say nothing of
/// which way it is rounded.
fn figures(text: &str) -> Cow<'_, str> {
    let mut plain = without_exponent(text).map_or(Cow::Borrowed(text), Cow::Owned);
    let end = plain.find('.').map(|point| point + 1 + FRACTION_FIGURES);
    let rest = end.and_then(|end| Some((end, plain.trim_end().get(end..)?)));
    if let Some((end, rest)) = rest
        && rest.bytes().all(|byte| byte.is_ascii_digit())
    {
        plain = match plain {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
            Cow::Owned(mut text) => {
                text.truncate(end);
                Cow::Owned(text)
            }
        };
    }
    plain
}

/// The digits of a number with an exponent, which Arrow reads in no text: `1.5e3` is `1500`.
pub(crate) fn without_exponent(text: &str) -> Option<String> {
    let (mantissa, exponent) = text.trim().split_once(['e', 'E'])?;
    let exponent = exponent.parse::<i32>().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.trim_start_matches(['+', '-']);
    let mut figures = digits.bytes().chain(fraction.bytes()).peekable();
    let is_number = figures.peek().is_some() && figures.all(|b| b.is_ascii_digit());
    // More is not of any type, or nothing.
    if !is_number || exponent.unsigned_abs() > 200 || whole.len() > digits.len() + 1 {
        return None;
    }
    let sign = if whole.starts_with('-') { "-" } else { "" };
    let zeros = "0".repeat(exponent.unsigned_abs() as usize);
    let (before, after) = match exponent < 0 {
        true => (format!("{zeros}{digits}"), fraction.to_owned()),
        false => (digits.to_owned(), format!("{fraction}{zeros}")),
    };
    let point = before.len() as i32 + exponent;
    let all = before + &after;
    let (before, after) = all.split_at(point as usize);
    Some(match after {
        "" => format!("{sign}{before}"),
        after => format!("{sign}{before}.{after}"),
    })
}

/// Texts as values of a column, of which the first is in row `first_row`, counted from 1.
///
/// # Errors
/// `Invalid` naming column and row for the first text that is no value of the column's type.
pub fn texts_as(texts: &ArrayRef, column: &Column, first_row: u64) -> Result<ArrayRef> {
    let place = Place {
        table: "",
        column,
        first_row,
    };
    to_column(texts, &place)
}

/// Whether one of the texts is an array as PostgreSQL writes it; JSON's begin otherwise.
fn has_array(texts: &StringArray) -> bool {
    texts
        .iter()
        .flatten()
        .any(|text| text.trim_start().starts_with('{'))
}

/// Lists from arrays as PostgreSQL writes them, JSON among them.
fn arrays_of_text(texts: &StringArray, item: &FieldRef, place: &Place<'_>) -> Result<ArrayRef> {
    if let Some(lists) = lists_of(texts, item, place) {
        return Ok(lists);
    }
    let mut lists = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        let one = texts.slice(row, 1);
        let list = match has_array(&one) {
            true => lists_of(&one, item, place),
            false => nested_values(&one, place.data_type()),
        };
        lists.push(list.ok_or_else(|| no_nested(texts, row, place))?);
    }
    let lists: Vec<&dyn Array> = lists.iter().map(AsRef::as_ref).collect();
    concat(&lists).map_err(|error| Error::internal(error.to_string()))
}

/// The lists of texts that are all arrays as PostgreSQL writes them.
fn lists_of(texts: &StringArray, item: &FieldRef, place: &Place<'_>) -> Option<ArrayRef> {
    let (mut elements, mut lengths) = (Vec::new(), Vec::with_capacity(texts.len()));
    for text in texts {
        let of_row = text.map_or(Some(vec![]), array_elements)?;
        lengths.push(of_row.len());
        elements.extend(of_row);
    }
    let column = Column::new(place.column.name.clone(), item.data_type().clone());
    let of_elements = Place {
        column: &column,
        ..*place
    };
    let elements: ArrayRef = Arc::new(StringArray::from(elements));
    let values = from_text(&elements, &of_elements).ok()?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(Arc::clone(item), offsets, values, texts.nulls().cloned());
    Some(Arc::new(lists.ok()?))
}

/// Moments without the zones that some of them are written with.
fn local(texts: &StringArray) -> StringArray {
    let has_zone = |text: &str| local_moment(text).len() != text.len();
    match texts.iter().flatten().any(has_zone) {
        true => texts.iter().map(|text| text.map(local_moment)).collect(),
        false => texts.clone(),
    }
}

/// The texts without zones, for values that have none.
fn without_zones(texts: &StringArray) -> StringArray {
    texts.iter().map(|text| text.map(without_zone)).collect()
}

/// The text of a day, or of a time of day, without the zone that some clients write behind it and
/// that such values don't have.
fn without_zone(text: &str) -> &str {
    let text = text.trim();
    let is_zone = |zone: &str| {
        let digits = zone.trim_start_matches(['+', '-']);
        let known = digits.bytes().all(|b| b.is_ascii_digit() || b == b':');
        zone.len() == digits.len() + 1 && (1..=8).contains(&digits.len()) && known
    };
    // A day has hyphens of its own: its zone stands behind a space, or after the day.
    let zone = match text.get(..10).filter(|day| day.matches('-').count() == 2) {
        Some(day) => day.len(),
        None => text.find(['+', '-', ' ']).unwrap_or(text.len()),
    };
    match text.split_at_checked(zone) {
        Some((value, zone)) if is_zone(zone.trim_start()) => value,
        _ => text.strip_suffix(['Z', 'z']).unwrap_or(text),
    }
}

/// Lists and structs from their JSON.
fn nested_of_text(texts: &StringArray, place: &Place<'_>) -> Result<ArrayRef> {
    let rows = texts.len();
    if texts.null_count() == rows {
        return Ok(new_null_array(place.data_type(), rows));
    }
    if let Some(values) = nested_values(texts, place.data_type()) {
        return Ok(values);
    }
    let fits = |row: &usize| nested_values(&texts.slice(*row, 1), place.data_type()).is_some();
    let row = (0..rows).find(|row| !fits(row)).unwrap_or_default();
    Err(no_nested(texts, row, place))
}

fn no_nested(texts: &StringArray, row: usize, place: &Place<'_>) -> Error {
    let fact = format!(
        "{} is not of type {}",
        shown(texts.value(row)),
        types::name(place.data_type())
    );
    place
        .error(row, &fact, "22P02")
        .with_hint("write JSON: '[1, 2]', '{\"a\": 1}'; or ARRAY[1, 2], named_struct('a', 1)")
}

/// What the JSON of texts says; `None` when one is no JSON, or not of the type.
fn nested_values(texts: &StringArray, nested: &DataType) -> Option<ArrayRef> {
    let field = Field::new("value", with_texts(nested), true);
    let mut decoder = arrow::json::ReaderBuilder::new_with_field(field)
        .with_batch_size(texts.len() + 1)
        .with_strict_mode(true)
        .with_coerce_primitive(true)
        .build_decoder()
        .ok()?;
    for (before, text) in texts.iter().enumerate() {
        let line = format!("{}\n", text.unwrap_or("null"));
        let read = decoder.decode(line.as_bytes()).ok()?;
        let one = decoder.len() == before + 1 && !decoder.has_partial_record();
        if read != line.len() || !one {
            return None;
        }
    }
    let rows = decoder.flush().ok()??;
    of_texts_within(rows.column(0), nested)
}

/// The type with texts for all values within: JSON's reader cuts numbers to the types that it is
/// to read, and reads few types.
fn with_texts(nested: &DataType) -> DataType {
    let within = |field: &FieldRef| {
        let data_type = with_texts(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    match nested {
        DataType::List(item) => DataType::List(within(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(within).collect()),
        // Bytes are hexadecimal digits there.
        DataType::Binary => DataType::Binary,
        _ => DataType::Utf8,
    }
}

/// Lists and structs of texts as those of the values; `None` when one is not of its type.
fn of_texts_within(values: &ArrayRef, wanted: &DataType) -> Option<ArrayRef> {
    let nulls = values.nulls().cloned();
    Some(match wanted {
        _ if values.data_type() == wanted => Arc::clone(values),
        DataType::List(item) => {
            let lists = values.as_list::<i32>();
            let within = of_texts_within(lists.values(), item.data_type())?;
            let offsets = lists.offsets().clone();
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, within, nulls).ok()?)
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(values.as_struct().columns());
            let within = columns.map(|(field, values)| of_texts_within(values, field.data_type()));
            let within = within.collect::<Option<Vec<ArrayRef>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), within, nulls).ok()?)
        }
        _ => {
            let column = Column::new("value", wanted.clone());
            let place = Place {
                table: "",
                column: &column,
                first_row: 1,
            };
            from_text(values, &place).ok()?
        }
    })
}

/// Bytes as an array.
pub(crate) fn from_bytes(values: &[Option<&[u8]>]) -> ArrayRef {
    let mut builder = BinaryBuilder::new();
    for value in values {
        builder.append_option(*value);
    }
    Arc::new(builder.finish())
}

/// UUIDs as lower-case text.
pub(crate) fn uuid_text(values: &ArrayRef) -> ArrayRef {
    let uuids = values.as_fixed_size_binary();
    let mut text = String::with_capacity(36);
    let texts: StringArray = (0..uuids.len())
        .map(|row| {
            (!uuids.is_null(row)).then(|| {
                text.clear();
                put_uuid(uuids.value(row), &mut text);
                text.clone()
            })
        })
        .collect();
    Arc::new(texts)
}

fn uuids_of_text(texts: &StringArray, place: &Place<'_>) -> Result<ArrayRef> {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
    for (row, text) in texts.iter().enumerate() {
        match text {
            None => builder.append_null(),
            Some(text) => {
                let bytes = from_uuid(text).ok_or_else(|| {
                    place.error(row, &format!("{} is not a UUID", shown(text)), "22P02")
                })?;
                builder
                    .append_value(bytes)
                    .expect("a parsed UUID has 16 bytes");
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn bytes_of_text(texts: &StringArray, place: &Place<'_>) -> Result<ArrayRef> {
    let mut builder = BinaryBuilder::new();
    for (row, text) in texts.iter().enumerate() {
        match text.map(|text| (text, text.strip_prefix("\\x"))) {
            None => builder.append_null(),
            Some((text, None)) => builder.append_value(text),
            Some((text, Some(digits))) => {
                let bytes = from_hex(digits).ok_or_else(|| {
                    place.error(row, &format!("{} is not hexadecimal", shown(text)), "22P02")
                })?;
                builder.append_value(bytes);
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// A cast whose failures Arrow marks as nulls, so that the first can be named.
fn checked_cast(values: &ArrayRef, place: &Place<'_>) -> Result<ArrayRef> {
    let cast = plain_cast(values, place.data_type(), place)?;
    if let Some(row) = too_great(values, &cast) {
        let value = array_value_to_string(values, row).unwrap_or_default();
        let wanted = types::name(place.data_type());
        let fact = format!("{} is out of range for {wanted}", shown(&value));
        return Err(place.error(row, &fact, "22003"));
    }
    if cast.null_count() == values.logical_null_count() {
        return Ok(cast);
    }
    let failed = (0..values.len()).find(|row| cast.is_null(*row) && !values.is_null(*row));
    match failed {
        None => Ok(cast),
        Some(row) => Err(misfit(values, row, place)),
    }
}

/// The first finite number that has become an infinite one.
fn too_great(values: &ArrayRef, cast: &ArrayRef) -> Option<usize> {
    let was_infinite = |row: usize| match values.data_type() {
        DataType::Float64 => values
            .as_primitive::<Float64Type>()
            .value(row)
            .is_infinite(),
        DataType::Utf8 => values
            .as_string::<i32>()
            .value(row)
            .to_ascii_lowercase()
            .contains("inf"),
        _ => false,
    };
    let found = |row: &usize| !was_infinite(*row);
    match cast.data_type() {
        DataType::Float32 => {
            let cast = cast.as_primitive::<Float32Type>().iter().enumerate();
            let mut infinite = cast.filter(|(_, value)| value.is_some_and(f32::is_infinite));
            infinite.find_map(|(row, _)| Some(row).filter(found))
        }
        DataType::Float64 => {
            let cast = cast.as_primitive::<Float64Type>().iter().enumerate();
            let mut infinite = cast.filter(|(_, value)| value.is_some_and(f64::is_infinite));
            infinite.find_map(|(row, _)| Some(row).filter(found))
        }
        _ => None,
    }
}

fn plain_cast(values: &ArrayRef, to: &DataType, place: &Place<'_>) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    cast_with_options(values, to, &options).map_err(|_| not_stored(values.data_type(), to, place))
}

/// Values of a type that none of the column's can be made of.
fn not_stored(given: &DataType, wanted: &DataType, place: &Place<'_>) -> Error {
    let (given, wanted) = (types::name(given), types::name(wanted));
    Error::invalid(format!(
        "table {:?}, column {:?}: a {given} can't be stored as {wanted}",
        place.table, place.column.name
    ))
    .with_hint(format!(
        "CAST the value to {wanted} in the way that is meant"
    ))
    .with_sqlstate("42804")
}

/// Refuses a moment, or a time of day, with digits that the column does not keep.
///
/// # Errors
/// `Invalid` (22008) naming the first.
pub(crate) fn check_digits(values: &ArrayRef, place: &Place<'_>) -> Result<()> {
    let (given, wanted) = (values.data_type(), place.data_type());
    if !types::is_finer(given, wanted) {
        return Ok(());
    }
    let failed = |error: ArrowError| Error::internal(error.to_string());
    let kept = plain_cast(&plain_cast(values, wanted, place)?, given, place)?;
    let differs = neq(values, &kept).map_err(failed)?;
    match differs.iter().position(|differs| differs == Some(true)) {
        None => Ok(()),
        Some(row) => {
            let value = array_value_to_string(values, row).map_err(failed)?;
            let wanted = types::name(wanted);
            let fact = format!("{} has more digits than {wanted} keeps", shown(&value));
            Err(place
                .error(row, &fact, "22008")
                .with_hint(format!("cast the values to {wanted} before")))
        }
    }
}

fn misfit(values: &ArrayRef, row: usize, place: &Place<'_>) -> Error {
    let value = array_value_to_string(values, row).unwrap_or_default();
    let wanted = types::name(place.data_type());
    let is_text = *values.data_type() == DataType::Utf8;
    let is_number = value.parse::<f64>().is_ok_and(f64::is_finite);
    // A number with a point is no whole one, but every other type of numbers reads it.
    let is_read = !place.data_type().is_integer() || !value.contains(['.', 'e', 'E']);
    let overflows = place.data_type().is_numeric() && (!is_text || (is_number && is_read));
    let sqlstate = match place.data_type() {
        _ if overflows => "22003",
        DataType::Date32 | DataType::Time32(_) | DataType::Time64(_) | DataType::Timestamp(..)
            if has_fields(&value) =>
        {
            "22008"
        }
        DataType::Date32
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Interval(_) => "22007",
        _ => "22P02",
    };
    let fact = match overflows {
        true => format!("{} is out of range for {wanted}", shown(&value)),
        false => format!("{} is not of type {wanted}", shown(&value)),
    };
    place.error(row, &fact, sqlstate)
}

/// A value in a message: quoted and cut.
pub(crate) fn shown(value: &str) -> String {
    match value.char_indices().nth(40) {
        None => format!("{value:?}"),
        Some((cut, _)) => format!("{:?}...", &value[..cut]),
    }
}

/// Checks the values of a column of rows that are made or replaced: NULL only where it is
/// allowed, no cell above the limit, no text longer than its column takes. Floating-point numbers
/// get the one spelling that NaN has, those of a key also that of zero.
///
/// # Errors
/// `Invalid` for the first value that may not stand there.
pub(crate) fn checked_cells(values: ArrayRef, is_key: bool, place: &Place<'_>) -> Result<ArrayRef> {
    let values = checked_texts(values, place)?;
    if place.column.holds_labels()
        && let Some((row, error)) = first_no_label(&values, |_| true)
    {
        let placed = place.error(row, error.message(), "22023");
        return Err(match error.hint() {
            Some(hint) => placed.with_hint(hint),
            None => placed,
        });
    }
    checked_values(values, is_key, place)
}

/// Checks that no text is longer than its column takes, and that those of JSON are that.
///
/// # Errors
/// `Invalid` for the first that may not stand there: 22001 for its length, 22P02 for no JSON.
pub(crate) fn checked_texts(values: ArrayRef, place: &Place<'_>) -> Result<ArrayRef> {
    if let Some(row) = first_too_long(place.column, &values, |_| true) {
        let text = shown(values.as_string::<i32>().value(row));
        let wanted = types::column_name(place.column);
        return Err(place.error(row, &format!("{text} is too long for {wanted}"), "22001"));
    }
    if let Some(row) = first_no_json(place.column, &values) {
        let text = shown(values.as_string::<i32>().value(row));
        let fact = format!("invalid input syntax for type json: {text}");
        return Err(place.error(row, &fact, "22P02"));
    }
    Ok(values)
}

/// The first row whose text is no JSON, in a column of JSON.
fn first_no_json(column: &Column, values: &ArrayRef) -> Option<usize> {
    let texts = values.as_string_opt::<i32>().filter(|_| column.json)?;
    (0..texts.len()).find(|row| texts.is_valid(*row) && !is_json_text(texts.value(*row)))
}

/// Checks the values of a key that is looked for: unlike one that is written it may be longer than
/// its column takes, and is then not found.
///
/// # Errors
/// `Invalid` for the first value that no row can have.
pub(crate) fn checked_key(values: ArrayRef, place: &Place<'_>) -> Result<ArrayRef> {
    checked_values(values, true, place)
}

fn checked_values(values: ArrayRef, is_key: bool, place: &Place<'_>) -> Result<ArrayRef> {
    if (is_key || !place.column.nullable) && values.null_count() > 0 {
        let row = (0..values.len())
            .find(|row| values.is_null(*row))
            .unwrap_or(0);
        let (fact, hint) = match is_key {
            true => (
                "NULL is not a key",
                "give a value: rows are sorted and found by their key",
            ),
            false => (
                "NULL is not allowed",
                "give a value, or ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL",
            ),
        };
        return Err(place.error(row, fact, "23502").with_hint(hint));
    }
    let limit = match is_key {
        true => KEY_BYTES_MAX,
        false => CELL_BYTES_MAX,
    };
    if let Some(row) = first_longer_than(&values, limit) {
        let fact = format!("the value is longer than {limit} bytes");
        return Err(place.error(row, &fact, "54000"));
    }
    Ok(one_spelling(&values, is_key))
}

fn first_longer_than(values: &ArrayRef, limit: usize) -> Option<usize> {
    // The whole column fits in most cases: then no row is looked at.
    if values.get_buffer_memory_size() <= limit {
        return None;
    }
    match values.data_type() {
        DataType::Utf8 => {
            let offsets = values.as_string::<i32>().value_offsets();
            longer(offsets, limit)
        }
        DataType::Binary => longer(values.as_binary::<i32>().value_offsets(), limit),
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            (0..lists.len()).find(|row| lists.value(*row).get_array_memory_size() > limit)
        }
        _ => None,
    }
}

fn longer(offsets: &[i32], limit: usize) -> Option<usize> {
    offsets
        .windows(2)
        .position(|pair| usize::try_from(pair[1] - pair[0]).is_ok_and(|bytes| bytes > limit))
}

/// The place of a table's column, for rows numbered from `first_row`.
pub(crate) fn place(table: &Table, column: usize, first_row: u64) -> Place<'_> {
    Place {
        table: &table.name,
        column: &table.columns[column],
        first_row,
    }
}
