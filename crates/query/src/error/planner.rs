//! What the planner says, in LazyBase's words: a short fact, SQL's names of types, a hint.
//!
//! Reads messages of DataFusion; no I/O. A message that is not known comes out as its first
//! line, so that another version's wording costs polish and never an error.

use lazybase_engine::read::HiddenColumn;
use lazybase_model::{Error, ErrorKind};

use super::{first_line, nearest};
use crate::cast::shown;
use crate::moments::has_fields;

/// Functions that need OVER.
const WINDOW_FUNCTIONS: [&str; 8] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
];

/// Arrow's names of types with SQL's. Longer names stand before those that they begin with.
const TYPES: [(&str, &str); 19] = [
    ("LargeUtf8", "TEXT"),
    ("Utf8View", "TEXT"),
    ("Utf8", "TEXT"),
    ("Boolean", "BOOLEAN"),
    ("UInt16", "SMALLINT UNSIGNED"),
    ("UInt32", "INT UNSIGNED"),
    ("UInt64", "BIGINT UNSIGNED"),
    ("UInt8", "TINYINT UNSIGNED"),
    ("Int16", "SMALLINT"),
    ("Int32", "INT"),
    ("Int64", "BIGINT"),
    ("Int8", "TINYINT"),
    ("Float32", "REAL"),
    ("Float64", "DOUBLE PRECISION"),
    ("Decimal128", "DECIMAL"),
    ("Decimal256", "DECIMAL"),
    ("Date32", "DATE"),
    ("Timestamp(µs)", "TIMESTAMP"),
    ("Time64(µs)", "TIME"),
];

/// A message that the planner gave.
pub(super) fn from_plan(message: &str) -> Error {
    let known = unknown_function(message)
        .or_else(|| wrong_arguments(message))
        .or_else(|| not_grouped(message))
        .or_else(|| not_cast(message))
        .or_else(|| uneven_values(message))
        .or_else(|| no_position(message))
        .or_else(|| no_table(message))
        .or_else(|| no_operator(message))
        .or_else(|| no_limit(message))
        .or_else(|| nested_calls(message))
        .or_else(|| no_fields(message));
    if let Some(error) = known {
        return error;
    }
    let line = in_sql(&first_line(message));
    let lower = line.to_ascii_lowercase();
    let sqlstate = if lower.starts_with("table") && lower.contains("not found") {
        "42P01"
    } else if lower.contains("unsupported cast") {
        "42846"
    } else if lower.contains("arithmetic expression")
        || lower.contains("comparison operation")
        || lower.contains("in between expression")
    {
        "42883"
    } else if lower.contains("coerc")
        || lower.contains("non-boolean")
        || lower.contains("requires a boolean")
    {
        "42804"
    } else if lower.contains("group by") || lower.contains("aggregate function") {
        "42803"
    } else if lower.contains("limit must be") {
        "2201W"
    } else if lower.contains("out of bounds")
        || lower.contains("with position")
        || lower.contains("must match initial order by")
    {
        "42P10"
    } else if lower.contains("number of columns") || lower.contains("too many columns") {
        "42601"
    } else {
        "42000"
    };
    Error::invalid(line).with_sqlstate(sqlstate)
}

/// Rows of VALUES that are not of one length.
fn uneven_values(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("across values list: got ")?;
    let (has, rest) = rest.split_once(" values in row ")?;
    let (row, rest) = rest.split_once(" but expected ")?;
    let wanted = first_line(rest);
    let row = row.parse::<usize>().ok()? + 1;
    let said = format!("row {row} of VALUES has {has} values, the first has {wanted}");
    Some(Error::invalid(said).with_sqlstate("42601"))
}

/// A column of ORDER BY by a number that none has.
fn no_position(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("Order by column out of bounds, specified: ")?;
    let (position, rest) = rest.split_once(", max: ")?;
    let columns = first_line(rest);
    let said = format!("ORDER BY {position} lies beyond the last column, {columns}");
    Some(Error::invalid(said).with_sqlstate("42P10"))
}

/// `t.*` without such a table.
fn no_table(message: &str) -> Option<Error> {
    let name = first_line(message.strip_prefix("Invalid qualifier ")?);
    Some(
        Error::not_found(format!("there is no table {name:?} in FROM"))
            .with_hint("a table that has an alias there goes by the alias alone")
            .with_name(format!("{name}.*"))
            .with_sqlstate("42P01"),
    )
}

/// Arithmetic with types that have none.
fn no_operator(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("Cannot coerce arithmetic expression ")?;
    let (operation, _) = rest.split_once(" to valid types")?;
    Some(
        Error::invalid(format!("there is no operator {}", in_sql(operation)))
            .with_hint("CAST the values to the types that are meant")
            .with_sqlstate("42883"),
    )
}

/// LIMIT or OFFSET with what is no whole number.
fn no_limit(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("Expected ")?;
    let (clause, given) = rest.split_once(" to be an integer or null, but got ")?;
    let given = in_sql(&first_line(given));
    let said = format!("{clause} takes a whole number, and is given {given}");
    Some(Error::invalid(said).with_sqlstate("42804"))
}

/// Aggregates and windows inside others. The calls stand behind as the planner has them.
fn nested_calls(message: &str) -> Option<Error> {
    let (fact, _) = message.split_once(": '")?;
    let sqlstate = match fact {
        "Aggregate function calls cannot be nested"
        | "Aggregate function calls cannot contain window function calls" => "42803",
        "Window function calls cannot be nested" => "42P20",
        _ => return None,
    };
    Some(
        Error::invalid(fact.to_lowercase())
            .with_hint("let a subquery compute the inner one")
            .with_sqlstate(sqlstate),
    )
}

/// `a.b` where `a` is a column without fields.
fn no_fields(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("Cannot access field at argument ")?;
    let (_, rest) = rest.split_once(": type ")?;
    let (data_type, _) = rest.split_once(" is not Struct")?;
    Some(
        Error::invalid(format!(
            "a value of type {} has no fields",
            in_sql(data_type)
        ))
        .with_hint("a.b is field b of column a, and the alias of a function in FROM is its column")
        .with_sqlstate("42809"),
    )
}

/// The SQLSTATE where nothing better is known than that a function does not take a value.
pub(super) const UNKNOWN_VALUE: &str = "22023";

/// A message that a value's way met.
pub(super) fn from_execution(message: &str) -> Error {
    let known = not_cast(message)
        .or_else(|| out_of_type(message))
        .or_else(|| not_a_pattern(message))
        .or_else(|| no_fields(message))
        .or_else(|| {
            let more = message.contains("Scalar subquery returned more than one row");
            more.then(more_than_one_row)
        });
    if let Some(error) = known {
        return error;
    }
    let line = in_sql(&first_line(message));
    let lower = line.to_ascii_lowercase();
    let sqlstate = if lower.contains("divide by zero") {
        "22012"
    } else if lower.contains("negative count not allowed") {
        "22011"
    } else if lower.contains("overflow") || lower.contains("too large to store") {
        "22003"
    } else if let Some(value) = quoted(message, "Error parsing timestamp from '") {
        not_a_moment(value)
    } else if lower.contains("syntax for type interval") {
        "22007"
    } else if lower.contains("cast") || lower.contains("pars") {
        "22P02"
    } else {
        UNKNOWN_VALUE
    };
    Error::new(ErrorKind::Invalid, line).with_sqlstate(sqlstate)
}

/// Of a subquery that stands for a value.
pub(crate) fn more_than_one_row() -> Error {
    Error::invalid("more than one row was returned by a subquery used as an expression")
        .with_hint("let it find one row by a key, or say which with max(...) or LIMIT 1")
        .with_sqlstate("21000")
}

/// The text between the first two quotes after `before`.
fn quoted<'m>(message: &'m str, before: &str) -> Option<&'m str> {
    let rest = &message[message.find(before)? + before.len()..];
    rest.split_once('\'').map(|(name, _)| name)
}

fn unknown_function(message: &str) -> Option<Error> {
    let name = quoted(message, "Invalid function '")?;
    let error = Error::not_found(format!("there is no function {name:?}"))
        .with_name(name)
        .with_sqlstate("42883");
    if WINDOW_FUNCTIONS.contains(&name) {
        return Some(error.with_hint(format!("it needs a window: {name}(...) OVER (...)")));
    }
    if HiddenColumn::is_name(name) {
        let hint = format!("write {name}(column), with the name of one column of a table");
        return Some(error.with_hint(hint));
    }
    let suggested = quoted(message, "Did you mean '");
    Some(match nearest(name, suggested.into_iter()) {
        Some(near) => error.with_hint(format!("perhaps {near:?} is meant")),
        None => error.with_hint("information_schema.routines lists the functions"),
    })
}

fn wrong_arguments(message: &str) -> Option<Error> {
    let wrong = |name: &str| {
        Error::invalid(format!("function {name:?} does not take these arguments"))
            .with_hint("CAST them to the types that are meant")
            .with_name(name)
            .with_sqlstate("42883")
    };
    if message.contains("failed to match any signature") {
        let error = wrong(quoted(message, "Function '")?);
        let given = message
            .split_once("but received ")
            .and_then(|(_, rest)| rest.split_once("(DataType: "))
            .and_then(|(_, rest)| rest.split_once(')'));
        return Some(match given {
            Some((given, _)) => error.with_detail(format!("given: {}", in_sql(given))),
            None => error,
        });
    }
    if let Some((_, call)) = message.split_once("given name and argument types '") {
        let call = call.split('\'').next().unwrap_or(call);
        let name = call.split('(').next().unwrap_or(call);
        return Some(wrong(name).with_detail(format!("given: {}", in_sql(call))));
    }
    None
}

fn not_grouped(message: &str) -> Option<Error> {
    let (before, _) = message.split_once(" must appear in the GROUP BY clause")?;
    let column = before
        .rsplit_once("olumn ")
        .map_or(before, |(_, name)| name);
    Some(
        Error::invalid(format!(
            "column {column} must stand in GROUP BY, or inside an aggregate function"
        ))
        .with_sqlstate("42803"),
    )
}

/// A text that is no value of the type it is compared with or cast to.
fn not_cast(message: &str) -> Option<Error> {
    let rest = ["Cannot cast string '", "Cannot cast value '"]
        .iter()
        .find_map(|begin| message.split_once(begin))
        .map(|(_, rest)| rest)?;
    let (value, rest) = rest.rsplit_once("' to value of ")?;
    let wanted = rest.split_once(" type").map_or(rest, |(wanted, _)| wanted);
    let wanted = in_sql(wanted);
    let is_moment = ["DATE", "TIME", "TIMESTAMP"]
        .iter()
        .any(|of| wanted.starts_with(of));
    let is_integer = value.trim().parse::<i128>().is_ok();
    let is_number = value.trim().parse::<f64>().is_ok_and(f64::is_finite);
    let is_decimal = wanted.starts_with("DECIMAL");
    let sqlstate = match is_moment {
        true => not_a_moment(value),
        false if (is_integer && is_whole(&wanted)) || (is_number && is_decimal) => {
            let said = format!("{} is out of range for {wanted}", shown(value));
            return Some(Error::invalid(said).with_sqlstate("22003"));
        }
        false => "22P02",
    };
    Some(
        Error::invalid(format!("{} is not of type {wanted}", shown(value))).with_sqlstate(sqlstate),
    )
}

/// The SQLSTATE of a text that is no moment: of one that is written as one, or not.
fn not_a_moment(value: &str) -> &'static str {
    match has_fields(value) {
        true => "22008",
        false => "22007",
    }
}

/// Whether a type is one of whole numbers.
fn is_whole(name: &str) -> bool {
    let plain = name.trim_end_matches(" UNSIGNED");
    matches!(plain, "TINYINT" | "SMALLINT" | "INT" | "BIGINT")
}

/// A number that its type does not hold.
fn out_of_type(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("Can't cast value ")?;
    let (value, wanted) = rest.split_once(" to type ")?;
    value.parse::<f64>().ok()?;
    let said = format!(
        "{} out of range: {value}",
        in_sql(wanted.trim_end_matches('.'))
    );
    Some(Error::invalid(said).with_sqlstate("22003"))
}

/// A regular expression that is none; the message says in its last line why.
pub(super) fn not_a_pattern(message: &str) -> Option<Error> {
    let (_, said) = message.split_once("regex parse error:")?;
    let why = said
        .rsplit_once("error: ")
        .map_or("", |(_, why)| why.trim());
    let error = Error::invalid("a regular expression can't be read").with_sqlstate("2201B");
    Some(error.with_detail(why))
}

/// A message with SQL's names of types.
pub(super) fn in_sql(message: &str) -> String {
    let mut text = message.to_owned();
    for (arrow, sql) in TYPES {
        if text.contains(arrow) {
            text = text.replace(arrow, sql);
        }
    }
    // Some messages show the parser's own values: nobody wants to read them.
    match text.split_once(" { ") {
        Some((before, _)) if before.contains(' ') => {
            let cut = before.rsplit_once(' ').map_or(before, |(cut, _)| cut);
            cut.to_owned()
        }
        _ => text,
    }
}
