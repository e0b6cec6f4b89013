//! EXPLAIN's lines in the shape of PostgreSQL's JSON: a list with one object, whose `Plan` is a
//! tree of nodes by their indentation.
//!
//! ```text
//!   horizon 40+3, complete              {"Horizon": "40+3, complete",
//!   scan of t: the whole table           "Scans": [{"Scan": "scan of t: the whole table",
//!     authority  run r5 ...                         "Sources": ["authority  run r5 ..."]}],
//!   plan
//!     FilterExec: n@2 = 1                "Plan": {"Node Type": "FilterExec", "Details": "n@2 = 1",
//!       LazyScanExec: table=t, ...                "Plans": [{"Node Type": "LazyScanExec", ...}]}}
//! ```
//!
//! A read past the planner is its own node. Pure.

use serde_json::{Map, Value, json};

use super::PLAN;

/// The lines as a text of JSON.
pub(super) fn of_lines(lines: &[String]) -> String {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (told, plan) = match lines.iter().position(|line| *line == PLAN) {
        Some(at) => (&lines[..at], &lines[at + 1..]),
        None => (&lines[..], &lines[..0]),
    };
    let mut object = Map::new();
    let (horizon, told) = match told {
        [first, rest @ ..] if first.starts_with(HORIZON) => (first.strip_prefix(HORIZON), rest),
        told => (None, told),
    };
    if let Some(horizon) = horizon {
        object.insert("Horizon".to_owned(), horizon.into());
    }
    let root = match plan.is_empty() {
        true => nodes(told).into_iter().next(),
        false => {
            object.insert("Scans".to_owned(), scans(told));
            nodes(plan).into_iter().next()
        }
    };
    object.insert("Plan".to_owned(), root.unwrap_or_else(|| json!({})));
    format!("{:#}", Value::Array(vec![Value::Object(object)]))
}

/// What stands before the horizon.
const HORIZON: &str = "horizon ";

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The lines that are deeper than the first one, behind it.
fn below<'l, 't>(lines: &'l [&'t str]) -> &'l [&'t str] {
    let Some((first, rest)) = lines.split_first() else {
        return &[];
    };
    let deeper = rest.iter().take_while(|line| depth(line) > depth(first));
    &rest[..deeper.count()]
}

/// Each scan with the lines of its sources.
fn scans(mut lines: &[&str]) -> Value {
    let mut all = Vec::new();
    while let [scan, rest @ ..] = lines {
        let sources = below(lines);
        let mut told: Map<String, Value> = Map::new();
        told.insert("Scan".to_owned(), scan.trim().into());
        if !sources.is_empty() {
            let sources: Vec<Value> = sources.iter().map(|line| line.trim().into()).collect();
            told.insert("Sources".to_owned(), sources.into());
        }
        all.push(Value::Object(told));
        lines = &rest[sources.len()..];
    }
    all.into()
}

/// The nodes of lines that begin equally deep, each with those below it.
fn nodes(mut lines: &[&str]) -> Vec<Value> {
    let mut all = Vec::new();
    while let [line, rest @ ..] = lines {
        let inner = below(lines);
        all.push(node(line, nodes(inner)));
        lines = &rest[inner.len()..];
    }
    all
}

fn node(line: &str, inner: Vec<Value>) -> Value {
    let line = line.trim();
    let (kind, details) = line.split_once(": ").unwrap_or((line, ""));
    let mut node = Map::new();
    node.insert("Node Type".to_owned(), kind.trim_end_matches(':').into());
    let table = details.strip_prefix("table=");
    if let Some(table) = table.and_then(|table| table.split(',').next()) {
        node.insert("Relation Name".to_owned(), table.into());
    }
    let rows = details.split_once("metrics=[output_rows=");
    let rows = rows.and_then(|(_, rows)| rows.split([',', ']']).next());
    if let Some(rows) = rows.and_then(|rows| rows.parse::<u64>().ok()) {
        node.insert("Actual Rows".to_owned(), rows.into());
    }
    if !details.is_empty() {
        node.insert("Details".to_owned(), details.into());
    }
    if !inner.is_empty() {
        node.insert("Plans".to_owned(), inner.into());
    }
    Value::Object(node)
}

#[cfg(test)]
mod tests;
