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

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, Value,
};

use super::calls::{case, cast, plain};
use super::postgres::elements;
use crate::pg_catalog::rewrite::call;

/// The functions that give rows, those that give the same as lists, and what their columns are
/// called; nothing where they are called as the function is.
pub(super) const TABLES: [(&str, &[&str], &[&str]); 5] = [
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
pub(super) fn of_either(name: &str) -> String {
    match name.strip_prefix("jsonb_") {
        Some(rest) => format!("json_{rest}"),
        None => name.to_owned(),
    }
}

/// Rewrites an operator, or a call, that is one of them.
pub(super) fn rewrite(expr: &mut Expr) {
    let rewritten = match expr {
        Expr::BinaryOp { left, op, right } => operator(left, op, right),
        Expr::Function(function) => match plain(function) {
            Some((name, arguments)) => called(&of_either(&name), &arguments),
            None => None,
        },
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *expr = rewritten;
    }
}

fn operator(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    // An element counted from the end has no function.
    let counts_back = matches!(right, Expr::UnaryOp { .. });
    match op {
        BinaryOperator::Arrow | BinaryOperator::LongArrow if counts_back => None,
        BinaryOperator::Arrow => Some(call("json_get_json", vec![left.clone(), right.clone()])),
        BinaryOperator::LongArrow => Some(call("json_as_text", vec![left.clone(), right.clone()])),
        BinaryOperator::HashArrow => Some(path(left, &steps(right)?, false)),
        BinaryOperator::HashLongArrow => Some(path(left, &steps(right)?, true)),
        BinaryOperator::Question => {
            let contains = call("json_contains", vec![left.clone(), right.clone()]);
            let is_there = Expr::IsNotNull(Box::new(left.clone()));
            Some(case(is_there, contains, None))
        }
        _ => None,
    }
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
fn steps(path: &Expr) -> Option<Vec<Expr>> {
    match path {
        Expr::Nested(inner) => steps(inner),
        Expr::Cast {
            expr,
            data_type: DataType::Array(_),
            ..
        } => steps(expr),
        Expr::Array(array) => Some(array.elem.clone()),
        other => elements(other),
    }
}

/// What stands at the end of a path.
fn path(json: &Expr, steps: &[Expr], as_text: bool) -> Expr {
    let last = if as_text {
        "json_as_text"
    } else {
        "json_get_json"
    };
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
    arguments: &[FunctionArg],
) -> Option<(Vec<Expr>, &'static [&'static str])> {
    let name = of_either(name);
    let (_, lists, columns) = TABLES.iter().find(|(known, ..)| *known == name)?;
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(json))] = arguments else {
        return None;
    };
    let lists = lists.iter().map(|list| call(list, vec![json.clone()]));
    Some((lists.collect(), columns))
}
