//! What EXPLAIN is asked to show, as one EXPLAIN with the things that it can do more.
//!
//! ```text
//!   EXPLAIN (ANALYZE, VERBOSE off, FORMAT text) q   ->   EXPLAIN ANALYZE q
//!   EXPLAIN (VERBOSE, FORMAT json) q                ->   EXPLAIN FORMAT JSON q
//! ```
//!
//! Reads sqlparser's tree; writes nothing. Invariant XPL-1: an option does what it says, or is
//! refused.

use datafusion::sql::sqlparser::ast::{
    AnalyzeFormat, AnalyzeFormatKind, Statement as Ast, UtilityOption,
};
use lazybase_model::{Error, Result};

use super::{folded, unsupported};

/// Options of PostgreSQL's that show what is not shown here; off, they ask for nothing.
const NOT_SHOWN: [&str; 7] = [
    "buffers",
    "costs",
    "generic_plan",
    "memory",
    "serialize",
    "settings",
    "wal",
];

/// EXPLAIN without options in parentheses.
///
/// # Errors
/// `Invalid`: 0A000 for what can't be shown, 42601 for an option that is none.
pub(super) fn plain(statement: Ast) -> Result<Ast> {
    let Ast::Explain {
        describe_alias,
        mut analyze,
        mut verbose,
        query_plan,
        estimate,
        statement,
        format,
        options,
    } = statement
    else {
        return Ok(statement);
    };
    if query_plan || estimate {
        return Err(
            unsupported("EXPLAIN QUERY PLAN and ESTIMATE are not supported")
                .with_hint("EXPLAIN shows the plan"),
        );
    }
    let mut in_json = match format {
        None => false,
        Some(AnalyzeFormatKind::Keyword(format) | AnalyzeFormatKind::Assignment(format)) => {
            match format {
                AnalyzeFormat::TEXT => false,
                AnalyzeFormat::JSON => true,
                other => return Err(other_format(&other.to_string())),
            }
        }
    };
    for option in options.iter().flatten() {
        match folded(&option.name).as_str() {
            "analyze" => analyze = switch(option)?,
            "verbose" => verbose = switch(option)?,
            // They are shown where the query runs, and only there.
            "summary" | "timing" => drop(switch(option)?),
            "format" => match value(option).as_deref() {
                Some("text") => in_json = false,
                Some("json") => in_json = true,
                other => return Err(other_format(other.unwrap_or_default())),
            },
            name if NOT_SHOWN.contains(&name) => match name {
                "serialize" if value(option).as_deref() == Some("none") => {}
                _ if switch(option).is_ok_and(|on| !on) => {}
                _ => return Err(not_shown(name)),
            },
            name => {
                return Err(Error::invalid(format!("EXPLAIN has no option {name:?}"))
                    .with_hint("it has ANALYZE and VERBOSE, and FORMAT TEXT or JSON")
                    .with_sqlstate("42601"));
            }
        }
    }
    Ok(Ast::Explain {
        describe_alias,
        analyze,
        // What it adds are steps on the way to the plan: lines, and no nodes.
        verbose: verbose && !in_json,
        query_plan,
        estimate,
        statement,
        format: in_json.then_some(AnalyzeFormatKind::Keyword(AnalyzeFormat::JSON)),
        options: None,
    })
}

fn not_shown(name: &str) -> Error {
    unsupported(format!("EXPLAIN does not show {}", name.to_uppercase()))
        .with_hint("EXPLAIN ANALYZE shows rows, times, and what was read")
}

fn other_format(name: &str) -> Error {
    unsupported(format!("EXPLAIN has no format {name:?}"))
        .with_detail("plans are lines of text, or JSON")
        .with_hint("leave FORMAT out")
}

/// The value of an option, as it is compared.
fn value(option: &UtilityOption) -> Option<String> {
    let value = option.arg.as_ref()?.to_string();
    Some(value.trim_matches(['\'', '"']).to_lowercase())
}

/// An option without a value is on.
fn switch(option: &UtilityOption) -> Result<bool> {
    match value(option).as_deref() {
        None | Some("on" | "true" | "1") => Ok(true),
        Some("off" | "false" | "0") => Ok(false),
        Some(other) => Err(Error::invalid(format!(
            "EXPLAIN's {} is on or off, not {other:?}",
            option.name
        ))
        .with_sqlstate("22023")),
    }
}
