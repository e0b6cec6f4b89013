//! What PostgreSQL asks of JSON, as calls of functions over texts: JSON is kept as text.
//!
//! | written                              | read                                            |
//! | ------------------------------------ | ----------------------------------------------- |
//! | `j -> 'a'`, `j -> 0`                 | `json_get_json(j, 'a')`, `json_get_json(j, 0)`  |
//! | `j ->> 'a'`                          | `json_as_text(j, 'a')`                          |
//! | `j #> '{a,b}'`, `j #>> '{a,b}'`      | the same, step by step                          |
//! | `json_extract_path(j, 'a', 'b')`     | `j #> '{a,b}'`                                  |
//! | `json_extract_path_text(j, 'a', 'b')` | `j #>> '{a,b}'`                                |
//! | `j ? 'a'`                            | `json_contains(j, 'a')`, NULL of NULL           |
//! | `json_array_length(j)`               | `json_length(j)::INT`                           |
//! | `jsonb_typeof(j)`                    | `json_typeof(j)`, and so with all others        |
//! | `json_array_elements(j)`             | `unnest(json_elements(j))`                      |
//! | `json_array_elements_text(j)`        | `unnest(json_element_texts(j))`                 |
//! | `json_object_keys(j)`                | `unnest(json_keys(j))`                          |
//! | `json_each(j)` in FROM               | `unnest(json_keys(j), json_values(j))`          |
//!
//! A step of a path that is a number means an element of an array, or a key of an object, whatever
//! is there. Rewrites sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, Value};

use lazybase_model::Result;

use super::calls::{case, cast, plain};
use super::postgres::elements;
use super::unsupported;
use crate::pg_catalog::rewrite::call;

/// The functions that give rows, those that give the same as lists, and what their columns are
/// called; nothing where they are called as the function is.
const TABLES: [(&str, &[&str], &[&str]); 5] = [
    ("json_array_elements", &["json_elements"], &["value"]),
    (
        "json_array_elements_text",
        &["json_element_texts"],
        &["value"],
    ),
    ("json_object_keys", &["json_keys"], &[]),
    (
        "json_each",
        &["json_keys", "json_values"],
        &["key", "value"],
    ),
    (
        "json_each_text",
        &["json_keys", "json_value_texts"],
        &["key", "value"],
    ),
];

/// The name of a function for either of PostgreSQL's types of JSON.
fn of_either(name: &str) -> String {
    match name.strip_prefix("jsonb_") {
        Some(rest) => format!("json_{rest}"),
        None => name.to_owned(),
    }
}

/// Rewrites an operator, or a call, that is one of them.
///
/// # Errors
/// `Invalid` (0A000) for elements that are counted from the end, and for a path that is computed.
pub(super) fn rewrite(expr: &mut Expr) -> Result<()> {
    let rewritten = match expr {
        Expr::BinaryOp { left, op, right } => operator(left, op, right)?,
        Expr::Function(function) => {
            let call = plain(function);
            call.and_then(|(name, arguments)| called(&of_either(&name), &arguments))
        }
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *expr = rewritten;
    }
    Ok(())
}

fn operator(left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Option<Expr>> {
    let both = || vec![left.clone(), right.clone()];
    Ok(Some(match op {
        BinaryOperator::Arrow | BinaryOperator::LongArrow
            if matches!(right, Expr::UnaryOp { .. }) =>
        {
            return Err(unsupported("elements of JSON are not counted from the end")
                .with_hint("json_array_length(j) tells how many there are"));
        }
        BinaryOperator::Arrow => call("json_get_json", both()),
        BinaryOperator::LongArrow => call("json_as_text", both()),
        BinaryOperator::HashArrow => path(left, &steps(right)?, false),
        BinaryOperator::HashLongArrow => path(left, &steps(right)?, true),
        BinaryOperator::Question => {
            let is_there = Expr::IsNotNull(Box::new(left.clone()));
            case(is_there, call("json_contains", both()), None)
        }
        _ => return Ok(None),
    }))
}

fn called(name: &str, arguments: &[Expr]) -> Option<Expr> {
    Some(match (name, arguments) {
        ("json_extract_path", [json, steps @ ..]) => path(json, steps, false),
        ("json_extract_path_text", [json, steps @ ..]) => path(json, steps, true),
        ("json_array_length", [json]) => {
            cast(call("json_length", vec![json.clone()]), DataType::Int(None))
        }
        ("json_typeof", [json]) => call(name, vec![json.clone()]),
        (name, [json]) => {
            let (_, lists, _) = TABLES.iter().find(|(known, ..)| *known == name)?;
            let [list] = lists else {
                return None;
            };
            call("unnest", vec![call(list, vec![json.clone()])])
        }
        _ => return None,
    })
}

/// The steps of a path that is written out.
fn steps(path: &Expr) -> Result<Vec<Expr>> {
    match path {
        Expr::Nested(inner) => steps(inner),
        Expr::Cast {
            expr,
            data_type: DataType::Array(_),
            ..
        } => steps(expr),
        Expr::Array(array) => Ok(array.elem.clone()),
        other => elements(other).ok_or_else(|| {
            unsupported("a path into JSON that is computed")
                .with_hint("write it out, as '{a,0}' or ARRAY['a', x]; or take steps: j -> a -> b")
        }),
    }
}

/// What stands at the end of a path.
fn path(json: &Expr, steps: &[Expr], as_text: bool) -> Expr {
    let last = if as_text {
        "json_as_text"
    } else {
        "json_get_json"
    };
    let is_null = |step: &Expr| matches!(step, Expr::Value(value) if value.value == Value::Null);
    if steps.iter().any(is_null) {
        return cast(Expr::value(Value::Null), DataType::Text);
    }
    let Some((end, before)) = steps.split_last() else {
        return call(last, vec![json.clone()]);
    };
    let at = before
        .iter()
        .fold(json.clone(), |at, step| stepped("json_get_json", at, step));
    stepped(last, at, end)
}

fn stepped(function: &str, json: Expr, step: &Expr) -> Expr {
    let by_key = call(function, vec![json.clone(), step.clone()]);
    match number(step) {
        None => by_key,
        Some(number) => {
            let by_place = call(function, vec![json, number]);
            call("coalesce", vec![by_place, by_key])
        }
    }
}

/// The place in an array that a text is.
fn number(step: &Expr) -> Option<Expr> {
    let value = match step {
        Expr::Nested(inner) => return number(inner),
        Expr::Value(value) => value,
        _ => return None,
    };
    let Value::SingleQuotedString(text) = &value.value else {
        return None;
    };
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| Expr::value(Value::Number(text.clone(), false)))
}

/// The lists whose elements a function in FROM gives as rows, and what the columns are called.
pub(super) fn lists(
    name: &str,
    arguments: &[Expr],
) -> Option<(Vec<Expr>, &'static [&'static str])> {
    let name = of_either(name);
    let (_, lists, columns) = TABLES.iter().find(|(known, ..)| *known == name)?;
    let [json] = arguments else {
        return None;
    };
    let lists = lists.iter().map(|list| call(list, vec![json.clone()]));
    Some((lists.collect(), columns))
}
