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
//! | `a::JSONB \|\| b::JSONB`             | `jsonb_concat(a::JSONB, b::JSONB)`              |
//! | `json_array_length(j)`               | `json_length(j)::INT`                           |
//! | `jsonb_typeof(j)`                    | `json_typeof(j)`, and so with all others        |
//! | `json_array_elements(j)`             | `unnest(json_elements(j))`                      |
//! | `json_array_elements_text(j)`        | `unnest(json_element_texts(j))`                 |
//! | `json_object_keys(j)`                | `unnest(json_keys(j))`                          |
//! | `json_each(j)` in FROM               | `unnest(json_keys(j), json_values(j))`          |
//! | `row_to_json(x)`, `to_jsonb(x)`      | `to_json(x)`                                    |
//! | `to_json(t)`, t a table of FROM      | `to_json(json_row(t.*))`                        |
//! | `to_json(ROW(a, b))`                 | `to_json(json_row('f1', a, 'f2', b))`           |
//! | `json_build_array(t::JSON)`          | `json_build_array(json_checked(t::JSON))`       |
//! | `json_agg(x)`                        | `json_list(array_agg(to_json(x)))`              |
//! | `json_object_agg(k, v)`              | `json_object_list(array_agg(json_member(k, v)))` |
//!
//! A step of a path that is a number means an element of an array, or a key of an object, whatever
//! is there. Rewrites sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, Select, TableFactor, Value,
};

use lazybase_model::Result;

use super::calls::{case, cast, plain};
use super::postgres::elements;
use super::{folded, outside_queries, unsupported};
use crate::pg_catalog::rewrite::call;
use crate::planner::json_values::{JSON_CHECKED, JSON_ROW};

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

/// Functions that make JSON of values, rows among them.
const OF_VALUES: [&str; 7] = [
    "to_json",
    "to_jsonb",
    "row_to_json",
    "json_agg",
    "json_build_array",
    "json_build_object",
    "json_object_agg",
];

const ARRAY_AGG: &str = "array_agg";

/// Functions whose answer is JSONB, of which `||` puts two together: of JSON it joins texts.
const OF_JSONB: [&str; 7] = [
    "jsonb_agg",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_concat",
    "jsonb_extract_path",
    "jsonb_object_agg",
    "to_jsonb",
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
        Expr::Function(function) => aggregated(function).or_else(|| {
            let call = plain(function);
            call.and_then(|(name, arguments)| {
                let either = of_either(&name);
                called(&either, &arguments).or_else(|| made(&name, &either, &arguments))
            })
        }),
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
        BinaryOperator::StringConcat if joins(left, right) => call("jsonb_concat", both()),
        _ => return Ok(None),
    }))
}

/// Whether `||` is between two JSONB, or one and what takes its type.
fn joins(left: &Expr, right: &Expr) -> bool {
    match (is_jsonb(left), is_jsonb(right)) {
        (true, true) => true,
        (true, false) => is_untyped(right),
        (false, true) => is_untyped(left),
        (false, false) => false,
    }
}

/// Whether an expression says of itself that it is JSONB.
fn is_jsonb(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_jsonb(inner),
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::JSONB),
        Expr::TypedString(typed) => matches!(typed.data_type, DataType::JSONB),
        Expr::BinaryOp { left, op, right } => match op {
            BinaryOperator::Arrow | BinaryOperator::HashArrow => is_jsonb(left),
            BinaryOperator::StringConcat => joins(left, right),
            _ => false,
        },
        Expr::Function(function) => {
            let [name] = function.name.0.as_slice() else {
                return false;
            };
            let name = name.as_ident().map(folded).unwrap_or_default();
            let chosen = || plain(function).is_some_and(|(_, from)| from.iter().any(is_jsonb));
            OF_JSONB.contains(&name.as_str()) || (name == "coalesce" && chosen())
        }
        _ => false,
    }
}

/// Whether a value has the type of what it stands beside: a constant, or a parameter.
fn is_untyped(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_)
                | Value::EscapedStringLiteral(_)
                | Value::DollarQuotedString(_)
                | Value::Null
                | Value::Placeholder(_)
        ),
        _ => false,
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

/// A call that makes JSON, of one of the planner's functions.
fn made(name: &str, either: &str, arguments: &[Expr]) -> Option<Expr> {
    let known = match either {
        "to_json" | "to_jsonb" | "row_to_json" | "array_to_json" => "to_json",
        "json_build_array" => "json_build_array",
        "json_build_object" => "json_build_object",
        _ => return None,
    };
    let values = arguments.iter().map(known_json);
    let is_known = name == known && !arguments.iter().any(|of| is_cast(of) || is_row(of));
    (!is_known).then(|| call(known, values.collect()))
}

/// `json_agg` and `json_object_agg`, of lists.
fn aggregated(function: &Function) -> Option<Expr> {
    let [name] = function.name.0.as_slice() else {
        return None;
    };
    match of_either(&folded(name.as_ident()?)).as_str() {
        "json_agg" => put_together(function, "to_json", 1, "json_list"),
        "json_object_agg" => put_together(function, "json_member", 2, "json_object_list"),
        _ => None,
    }
}

/// What an aggregate puts together, out of the list of the JSON of each row.
fn put_together(function: &Function, each: &str, takes: usize, list: &str) -> Option<Expr> {
    let mut gathered = function.clone();
    let FunctionArguments::List(arguments) = &mut gathered.args else {
        return None;
    };
    let values = arguments.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(known_json(value)),
        _ => None,
    });
    let values = values.collect::<Option<Vec<Expr>>>()?;
    if values.len() != takes {
        return None;
    }
    let value = FunctionArgExpr::Expr(call(each, values));
    arguments.args = vec![FunctionArg::Unnamed(value)];
    gathered.name = ObjectName::from(vec![Ident::new(ARRAY_AGG)]);
    Some(call(list, vec![Expr::Function(gathered)]))
}

/// A value as what it is known to be: JSON where it is cast to that, a row with its names.
fn known_json(value: &Expr) -> Expr {
    match value {
        value if is_cast(value) => call(JSON_CHECKED, vec![value.clone()]),
        Expr::Nested(inner) if is_row(inner) => known_json(inner),
        Expr::Function(function) if is_row(value) => {
            let (_, elements) = plain(function).unwrap_or_default();
            let named = elements.into_iter().zip(1..).flat_map(|(element, at)| {
                let name = Value::SingleQuotedString(format!("f{at}"));
                [Expr::Value(name.into()), element]
            });
            call(JSON_ROW, named.collect())
        }
        other => other.clone(),
    }
}

fn is_cast(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_cast(inner),
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::JSON | DataType::JSONB),
        _ => false,
    }
}

/// Whether a value is `ROW(...)`.
fn is_row(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_row(inner),
        Expr::Function(function) => plain(function).is_some_and(|(name, _)| name == "row"),
        _ => false,
    }
}

/// Writes the rows of tables that a SELECT makes JSON of by the names of the tables.
pub(super) fn in_select(select: &mut Select) {
    let joined = select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(joined)
    });
    let tables: Vec<Ident> = joined.filter_map(table).collect();
    outside_queries::rewrite(select, |expr| {
        if let Expr::Function(function) = expr
            && let [name] = function.name.0.as_slice()
            && let Some(name) = name.as_ident()
            && OF_VALUES.contains(&of_either(&folded(name)).as_str())
            && let FunctionArguments::List(list) = &mut function.args
        {
            for argument in &mut list.args {
                whole_row(argument, &tables);
            }
        }
    });
}

/// What a table or a query in FROM is called.
fn table(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table {
            alias: Some(alias),
            args: None,
            ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        } => Some(alias.name.clone()),
        TableFactor::Table {
            name, args: None, ..
        } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// An argument as the JSON of a table's rows, if it names a table.
fn whole_row(argument: &mut FunctionArg, tables: &[Ident]) {
    let name = match &*argument {
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => name.clone(),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name))) => {
            let is_table = tables.iter().any(|table| folded(table) == folded(name));
            if !is_table {
                return;
            }
            ObjectName::from(vec![name.clone()])
        }
        _ => return,
    };
    let mut row = call(JSON_ROW, Vec::new());
    if let Expr::Function(function) = &mut row
        && let FunctionArguments::List(list) = &mut function.args
    {
        let whole = FunctionArgExpr::QualifiedWildcard(name);
        list.args.push(FunctionArg::Unnamed(whole));
    }
    *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(row));
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
