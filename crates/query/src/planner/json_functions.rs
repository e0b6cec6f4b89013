//! Functions of JSON that stands in texts: those of a crate that finds what a path leads to, and
//! beside them the lists that arrays and objects are.
//!
//! | function             | gives                                            |
//! | -------------------- | ------------------------------------------------ |
//! | `json_elements`      | an array's elements, as JSON                     |
//! | `json_element_texts` | the same as texts: strings without their quotes  |
//! | `json_keys`          | an object's keys                                 |
//! | `json_values`        | its values, as JSON                              |
//! | `json_value_texts`   | the same as texts                                |
//! | `json_typeof`        | what a JSON is                                   |
//! | `jsonb_concat`       | the members, or elements, of two                 |
//!
//! What a path does not lead to is NULL, also where the text is no JSON; for the others a text that
//! is none is an error. What is JSON says so: a part of JSON by itself, elements and values by
//! their lists. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListBuilder, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion_functions_json::udfs::{
    json_as_text_udf, json_contains_udf, json_get_json_udf, json_length_udf,
};
use lazybase_model::Error;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::into_datafusion;
use crate::pg_catalog::types::mark;
use crate::planner::around::{self, Around};
use crate::planner::intervals::computed;
use crate::planner::json_values::quoted;

/// Adds the functions.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in [
        around::function(json_get_json_udf(), PartOfJson),
        json_as_text_udf(),
        json_contains_udf(),
        json_length_udf(),
    ] {
        state.register_udf(function)?;
    }
    for (name, part) in [
        ("json_elements", Part::Elements { as_texts: false }),
        ("json_element_texts", Part::Elements { as_texts: true }),
        ("json_keys", Part::Keys),
        ("json_values", Part::Values { as_texts: false }),
        ("json_value_texts", Part::Values { as_texts: true }),
    ] {
        let signature = Signature::string(1, Volatility::Immutable);
        let function = Lists {
            name,
            part,
            signature,
        };
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    state.register_udf(Arc::new(ScalarUDF::from(TypeOf {
        signature: Signature::string(1, Volatility::Immutable),
    })))?;
    state.register_udf(Arc::new(ScalarUDF::from(Joined {
        signature: Signature::string(2, Volatility::Immutable),
    })))?;
    Ok(())
}

/// A part of JSON, which is JSON.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PartOfJson;

impl Around for PartOfJson {
    fn field(&self, inner: &ScalarUDF, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = inner.return_field_from_args(args)?.as_ref().clone();
        Ok(Arc::new(field.with_metadata(mark("json"))))
    }

    fn answer(&self, inner: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        inner.invoke_with_args(args)
    }
}

/// What is listed of a JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Elements { as_texts: bool },
    Keys,
    Values { as_texts: bool },
}

/// An object's members in their order, the same key more than once too.
struct Members<'j>(Vec<(String, &'j RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(InOrder)
    }
}

impl Part {
    /// The list of one JSON.
    fn of(self, json: &str) -> Result<Vec<Option<String>>> {
        let listed = match self {
            Part::Elements { as_texts } => serde_json::from_str::<Vec<&RawValue>>(json)
                .map(|all| all.into_iter().map(|one| shown(one, as_texts)).collect()),
            Part::Keys => serde_json::from_str::<Members<'_>>(json)
                .map(|all| all.0.into_iter().map(|(key, _)| Some(key)).collect()),
            Part::Values { as_texts } => serde_json::from_str::<Members<'_>>(json)
                .map(|all| all.0.iter().map(|(_, one)| shown(one, as_texts)).collect()),
        };
        listed.map_err(|_| self.refused(json))
    }

    /// Whether what is listed is JSON.
    fn is_json(self) -> bool {
        match self {
            Part::Elements { as_texts } | Part::Values { as_texts } => !as_texts,
            Part::Keys => false,
        }
    }

    fn refused(self, json: &str) -> datafusion::error::DataFusionError {
        let wanted = match self {
            Part::Elements { .. } => "array",
            Part::Keys | Part::Values { .. } => "object",
        };
        into_datafusion(match kind(json) {
            Some(kind) => {
                Error::invalid(format!("an {wanted} is wanted, the JSON is of type {kind}"))
                    .with_sqlstate("22023")
            }
            None => no_json(json),
        })
    }
}

/// What is said of a text that is no JSON.
pub(super) fn no_json(text: &str) -> Error {
    let begin: String = text.chars().take(40).collect();
    Error::invalid(format!("invalid input syntax for type json: {begin:?}")).with_sqlstate("22P02")
}

/// A value as JSON, or as a text: a string without its quotes, and null as NULL.
fn shown(value: &RawValue, as_text: bool) -> Option<String> {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'n') if as_text => None,
        Some(b'"') if as_text => serde_json::from_str(json).ok(),
        _ => Some(json.to_owned()),
    }
}

/// What a text is as JSON; nothing where it is none.
fn kind(text: &str) -> Option<&'static str> {
    let value: &RawValue = serde_json::from_str(text).ok()?;
    Some(match value.get().as_bytes().first()? {
        b'{' => "object",
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "boolean",
        b'n' => "null",
        _ => "number",
    })
}

/// Whether a text is JSON.
pub(crate) fn is_json_text(text: &str) -> bool {
    kind(text).is_some()
}

/// A function that gives a list.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Lists {
    name: &'static str,
    part: Part,
    signature: Signature,
}

/// The texts of a function's only argument.
fn texts(args: ScalarFunctionArgs) -> Result<ArrayRef> {
    let rows = args.number_rows;
    let [json] = args
        .args
        .try_into()
        .map_err(|_| into_datafusion(Error::internal("functions of JSON take one argument")))?;
    Ok(cast(&json.into_array(rows)?, &DataType::Utf8)?)
}

impl ScalarUDFImpl for Lists {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::new_list(DataType::Utf8, true))
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(self.name, self.return_type(&[])?, true);
        Ok(Arc::new(match self.part.is_json() {
            true => field.with_metadata(mark("json")),
            false => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let texts = texts(args)?;
        let mut lists = ListBuilder::new(StringBuilder::new());
        for text in texts.as_string::<i32>() {
            let list = text.map(|text| self.part.of(text)).transpose()?;
            lists.append_option(list);
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}

/// `json_typeof`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf {
    signature: Signature,
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "json_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let texts = texts(args)?;
        let mut kinds = StringBuilder::new();
        for text in texts.as_string::<i32>() {
            let kind = text.map(|text| kind(text).ok_or_else(|| into_datafusion(no_json(text))));
            kinds.append_option(kind.transpose()?);
        }
        Ok(ColumnarValue::Array(Arc::new(kinds.finish())))
    }
}

/// `jsonb_concat`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Joined {
    signature: Signature,
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        "jsonb_concat"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(self.name(), DataType::Utf8, true);
        Ok(Arc::new(field.with_metadata(mark("json"))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| {
            let [first, second] = arrays else {
                let wrong = Error::internal("jsonb_concat takes two arguments");
                return Err(into_datafusion(wrong));
            };
            let first = cast(first, &DataType::Utf8)?;
            let second = cast(second, &DataType::Utf8)?;
            let mut all = StringBuilder::new();
            for (first, second) in first
                .as_string::<i32>()
                .iter()
                .zip(second.as_string::<i32>())
            {
                let both = first.zip(second);
                all.append_option(
                    both.map(|(first, second)| joined(first, second))
                        .transpose()?,
                );
            }
            Ok(Arc::new(all.finish()))
        })
    }
}

/// Two values as one: an object with the members of two objects, of which those of the second
/// count, otherwise an array, in which an array stands as its elements.
fn joined(first: &str, second: &str) -> Result<String> {
    let values = [parsed::<&RawValue>(first)?, parsed::<&RawValue>(second)?];
    if values.iter().all(|value| value.get().starts_with('{')) {
        return merged(values);
    }
    let mut elements: Vec<&RawValue> = Vec::new();
    for value in values {
        match value.get().starts_with('[') {
            true => elements.extend(parsed::<Vec<&RawValue>>(value.get())?),
            false => elements.push(value),
        }
    }
    let elements: Vec<&str> = elements.iter().map(|element| element.get()).collect();
    Ok(format!("[{}]", elements.join(", ")))
}

/// The members of both objects, in the order that JSONB gives keys: short ones first.
fn merged(objects: [&RawValue; 2]) -> Result<String> {
    let mut members = BTreeMap::new();
    for object in objects {
        for (key, value) in parsed::<Members<'_>>(object.get())?.0 {
            members.insert((key.len(), key), value.get());
        }
    }
    let members = members.iter();
    let members = members.map(|((_, key), value)| Ok(format!("{}: {value}", quoted(key)?)));
    let members = members.collect::<Result<Vec<String>>>()?;
    Ok(format!("{{{}}}", members.join(", ")))
}

fn parsed<'j, T: Deserialize<'j>>(json: &'j str) -> Result<T> {
    serde_json::from_str(json).map_err(|_| into_datafusion(no_json(json)))
}
