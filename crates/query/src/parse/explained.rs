//! What EXPLAIN is asked to show, as one EXPLAIN with the things that it can do more.
//!
//! ```text
//!   EXPLAIN (ANALYZE, VERBOSE off, FORMAT text) q   ->   EXPLAIN ANALYZE q
//!   EXPLAIN (VERBOSE, COSTS on, FORMAT json) q      ->   EXPLAIN FORMAT JSON q
//!   EXPLAIN (STEPS) q                               ->   EXPLAIN (STEPS) q
//! ```
//!
//! Reads sqlparser's tree; writes nothing. Invariant XPL-1: an option does what it says, asks for
//! what is not here at all, or is refused.

use datafusion::sql::sqlparser::ast::{
    AnalyzeFormat, AnalyzeFormatKind, Ident, Statement as Ast, UtilityOption,
};
use lazybase_model::{Error, Result};

use super::{folded, unsupported};

/// Options of PostgreSQL's that tools switch on and off by habit: of what they ask for there is
/// nothing here, or it is shown wherever it is known.
const WITHOUT_EFFECT: [&str; 8] = [
    "buffers",
    "costs",
    "generic_plan",
    "memory",
    "settings",
    "summary",
    "timing",
    "wal",
];

/// The option that shows each of the optimizer's steps.
const STEPS: &str = "steps";

/// EXPLAIN without options in parentheses but for STEPS.
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
    let mut steps = false;
    for option in options.iter().flatten() {
        match folded(&option.name).as_str() {
            "analyze" => analyze = switch(option)?,
            "verbose" => verbose = switch(option)?,
            STEPS => steps = switch(option)?,
            "format" => match value(option).as_deref() {
                Some("text") => in_json = false,
                Some("json") => in_json = true,
                other => return Err(other_format(other.unwrap_or_default())),
            },
            // No values are made into the form that they are sent in.
            "serialize" => match value(option).as_deref() {
                None | Some("none" | "off" | "text" | "binary") => {}
                Some(other) => return Err(wrong(option, "none, text or binary", other)),
            },
            name if WITHOUT_EFFECT.contains(&name) => drop(switch(option)?),
            name => {
                return Err(Error::invalid(format!("EXPLAIN has no option {name:?}"))
                    .with_hint("it has ANALYZE, VERBOSE and STEPS, and FORMAT TEXT or JSON")
                    .with_sqlstate("42601"));
            }
        }
    }
    if steps && (analyze || in_json) {
        return Err(
            Error::invalid("STEPS goes with neither ANALYZE nor FORMAT JSON")
                .with_detail("it shows the plans on the way to the one that would run, as text")
                .with_sqlstate("42601"),
        );
    }
    Ok(Ast::Explain {
        describe_alias,
        analyze,
        // What it adds stands in lines: the nodes have no place for it.
        verbose: verbose && !in_json,
        query_plan,
        estimate,
        statement,
        format: in_json.then_some(AnalyzeFormatKind::Keyword(AnalyzeFormat::JSON)),
        options: steps.then(|| {
            vec![UtilityOption {
                name: Ident::new(STEPS),
                arg: None,
            }]
        }),
    })
}

fn other_format(name: &str) -> Error {
    unsupported(format!("EXPLAIN has no format {name:?}"))
        .with_detail("plans are lines of text, or JSON")
        .with_hint("FORMAT JSON is for tools")
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
        Some(other) => Err(wrong(option, "on or off", other)),
    }
}

fn wrong(option: &UtilityOption, allowed: &str, given: &str) -> Error {
    let fact = format!("EXPLAIN's {} is {allowed}, not {given:?}", option.name);
    Error::invalid(fact).with_sqlstate("22023")
}
