//! The kinds of JSON values, and the least kind that holds several.

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use lazybase_model::Result;
use lazybase_query::{JsonObject, json_objects};
use serde_json::value::RawValue;

use super::{INFERENCE_RECORDS, integers_of};

/// Lists and objects inside of one another, as deep as columns have types for.
const DEPTH_MAX: usize = 16;

/// What values of JSON have in common.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// Nothing but NULL.
    Nothing,
    Boolean,
    /// Integers, with the digits of the longest beyond BIGINT.
    Integer(usize),
    Number,
    Text,
    List(Box<Kind>),
    Object(Vec<(String, Kind)>),
    /// What no type of its own holds: it is kept as JSON.
    Mixed,
}

impl Kind {
    fn of(json: &str, depth: usize) -> Kind {
        match json.as_bytes().first() {
            _ if depth > DEPTH_MAX => Kind::Mixed,
            None | Some(b'n') => Kind::Nothing,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'"') => Kind::Text,
            Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(json) {
                Ok(elements) => {
                    let kinds = elements.iter();
                    let kinds = kinds.map(|element| Kind::of(element.get(), depth + 1));
                    Kind::List(Box::new(kinds.fold(Kind::Nothing, Kind::with)))
                }
                Err(_) => Kind::Mixed,
            },
            Some(b'{') => match serde_json::from_str::<JsonObject<'_>>(json) {
                Ok(object) => Kind::of_object(&object, depth),
                Err(_) => Kind::Mixed,
            },
            Some(_) if json.contains(['.', 'e', 'E']) => Kind::Number,
            Some(_) if json.parse::<i64>().is_ok() => Kind::Integer(0),
            Some(_) => Kind::Integer(json.trim_start_matches('-').len()),
        }
    }

    fn of_object(object: &JsonObject<'_>, depth: usize) -> Kind {
        let fields = object.0.iter();
        let fields =
            fields.map(|(name, value)| (name.to_string(), Kind::of(value.get(), depth + 1)));
        Kind::Object(joined(Vec::new(), fields))
    }

    /// The least kind that holds both.
    fn with(self, other: Kind) -> Kind {
        match (self, other) {
            (Kind::Nothing, kind) | (kind, Kind::Nothing) => kind,
            (Kind::Integer(one), Kind::Integer(two)) => Kind::Integer(one.max(two)),
            (Kind::Number, Kind::Integer(_)) | (Kind::Integer(_), Kind::Number) => Kind::Number,
            (Kind::List(one), Kind::List(two)) => Kind::List(Box::new(one.with(*two))),
            (Kind::Object(one), Kind::Object(two)) => Kind::Object(joined(one, two.into_iter())),
            (one, two) if one == two => one,
            _ => Kind::Mixed,
        }
    }

    /// The type of a column or field of this kind; `None` where it is kept as JSON.
    fn data_type(&self) -> Option<DataType> {
        Some(match self {
            Kind::Nothing | Kind::Text => DataType::Utf8,
            Kind::Boolean => DataType::Boolean,
            Kind::Integer(digits) => match integers_of(*digits) {
                DataType::Utf8 => return None,
                integers => integers,
            },
            Kind::Number => DataType::Float64,
            // Lists that are all empty don't say of what they are.
            Kind::List(element) if **element == Kind::Nothing => return None,
            Kind::List(element) => DataType::List(FieldRef::new(Field::new_list_field(
                element.data_type()?,
                true,
            ))),
            Kind::Object(fields) if fields.is_empty() => return None,
            Kind::Object(fields) => {
                let field =
                    |(name, kind): &(String, Kind)| Some(Field::new(name, kind.data_type()?, true));
                DataType::Struct(fields.iter().map(field).collect::<Option<Fields>>()?)
            }
            Kind::Mixed => return None,
        })
    }
}

/// Fields with more of them, each of a name once, in the order in which they were seen.
fn joined(
    mut fields: Vec<(String, Kind)>,
    more: impl Iterator<Item = (String, Kind)>,
) -> Vec<(String, Kind)> {
    for (at, (name, kind)) in more.enumerate() {
        // Most objects have their fields in one order.
        let same = fields.get(at).is_some_and(|(known, _)| *known == name);
        let place = match same {
            true => Some(at),
            false => fields.iter().position(|(known, _)| *known == name),
        };
        match place.map(|place| &mut fields[place]) {
            Some((_, known)) => {
                let before = std::mem::replace(known, Kind::Nothing);
                *known = before.with(kind);
            }
            None => fields.push((name, kind)),
        }
    }
    fields
}

/// The columns that lines of JSON have fields for, all of texts.
///
/// # Errors
/// `Invalid` for what is no object.
pub(in crate::source) fn json_names(lines: &[u8]) -> Result<Schema> {
    let mut all = Vec::new();
    for object in json_objects(lines).take(INFERENCE_RECORDS) {
        let names = object?.0.into_iter();
        all = joined(all, names.map(|(name, _)| (name.into_owned(), Kind::Text)));
    }
    let texts = all
        .iter()
        .map(|(name, _)| Field::new(name, DataType::Utf8, true));
    Ok(Schema::new(texts.collect::<Vec<_>>()))
}

/// The columns of lines of JSON with the types of their first values.
///
/// # Errors
/// `Invalid` for what is no object.
pub(in crate::source) fn json_columns(lines: &[u8]) -> Result<Schema> {
    let mut all = Vec::new();
    for object in json_objects(lines).take(INFERENCE_RECORDS) {
        if let Kind::Object(fields) = Kind::of_object(&object?, 0) {
            all = joined(all, fields.into_iter());
        }
    }
    let field = |(name, kind): &(String, Kind)| {
        Field::new(name, kind.data_type().unwrap_or(DataType::Utf8), true)
    };
    Ok(Schema::new(all.iter().map(field).collect::<Vec<_>>()))
}
