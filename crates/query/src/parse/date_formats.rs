//! Formats of dates and times as PostgreSQL writes them, as the planner's functions read them:
//! `to_date(text, 'YYYY-MM-DD')` becomes `to_date(text, '%Y-%m-%d')`. Pure.
//!
//! A format with a percent sign is one of strftime already. Whatever can't be said is refused: a
//! format that is not understood would come back as the answer.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};
use lazybase_model::Result;

use super::{folded, unsupported};

/// The functions whose second argument is a format.
const FUNCTIONS: [&str; 2] = ["to_date", "to_timestamp"];

/// What PostgreSQL writes, longest first, and what stands for it.
const PATTERNS: [(&str, &str); 37] = [
    ("FMMonth", "%B"),
    ("FMHH24", "%-H"),
    ("FMHH12", "%-I"),
    ("FMDay", "%A"),
    ("FMDDD", "%-j"),
    ("FMMM", "%-m"),
    ("FMMI", "%-M"),
    ("FMDD", "%-d"),
    ("FMHH", "%-I"),
    ("FMSS", "%-S"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("YYYY", "%Y"),
    ("IYYY", "%G"),
    ("yyyy", "%Y"),
    ("hh24", "%H"),
    ("hh12", "%I"),
    ("Mon", "%b"),
    ("DDD", "%j"),
    ("Dy", "%a"),
    ("YY", "%y"),
    ("yy", "%y"),
    ("MM", "%m"),
    ("mm", "%m"),
    ("DD", "%d"),
    ("dd", "%d"),
    ("HH", "%I"),
    ("hh", "%I"),
    ("MI", "%M"),
    ("mi", "%M"),
    ("SS", "%S"),
    ("ss", "%S"),
    ("MS", "%3f"),
    ("US", "%6f"),
    ("IW", "%V"),
    ("AM", "%p"),
    ("PM", "%p"),
];

/// What PostgreSQL fills up with spaces, for which strftime has nothing.
const PADDED: [&str; 2] = ["month", "day"];

/// Writes the format of a call in the planner's way.
///
/// # Errors
/// `Invalid` (0A000) for a format that has none there.
pub(super) fn rewrite(expr: &mut Expr) -> Result<()> {
    let Some((function, format)) = format_of(expr) else {
        return Ok(());
    };
    let (Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text)) = format else {
        return Ok(());
    };
    let spelt = spelt(text).map_err(|what| {
        unsupported(format!("{function}: {what:?} in a format is not supported"))
            .with_hint("formats of strftime are understood too: '%Y-%m-%d %H:%M:%S'")
    })?;
    // Without AM or PM, PostgreSQL reads hours as they stand.
    let spelt = match !spelt.contains("%p") {
        true => spelt.replace("%I", "%H").replace("%-I", "%-H"),
        false => spelt,
    };
    if function == "to_timestamp" && has_half_a_time(&spelt) {
        return Err(unsupported(format!(
            "to_timestamp: {text:?} has a time without hours and minutes"
        ))
        .with_hint("add what is missing: to_timestamp(at || ':00', 'YYYY-MM-DD HH24:MI')"));
    }
    *text = spelt;
    Ok(())
}

/// Whether a format has a part of a time, and not as much as makes one: the planner would read the
/// date alone.
fn has_half_a_time(format: &str) -> bool {
    let has = |parts: &[&str]| parts.iter().any(|part| format.contains(part));
    let has_hour = has(&["%H", "%-H", "%k"]) || (has(&["%I", "%-I", "%l"]) && has(&["%p", "%P"]));
    let has_minute = has(&["%M", "%-M"]);
    let whole = has(&["%T", "%R", "%X", "%r", "%c", "%s", "%+"]) || (has_hour && has_minute);
    let any = [
        "%H", "%-H", "%I", "%-I", "%M", "%-M", "%S", "%-S", "%p", "%P", "%3f", "%6f",
    ];
    !whole && has(&any)
}

/// The name of a function that takes a format, and the format where it is a constant.
fn format_of(expr: &mut Expr) -> Option<(String, &mut Value)> {
    let Expr::Function(Function { name, args, .. }) = expr else {
        return None;
    };
    let name = folded(name.0.last()?.as_ident()?);
    let FunctionArguments::List(list) = args else {
        return None;
    };
    if !FUNCTIONS.contains(&name.as_str()) {
        return None;
    }
    match list.args.as_mut_slice() {
        [
            _,
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(format))),
        ] => Some((name, &mut format.value)),
        _ => None,
    }
}

/// A format as strftime has it.
///
/// # Errors
/// The part that means nothing there.
fn spelt(format: &str) -> std::result::Result<String, String> {
    if format.contains('%') {
        return Ok(format.to_owned());
    }
    let mut spelt = String::with_capacity(format.len() + 8);
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            spelt.push_str(text);
            rest = after;
            continue;
        }
        // What counts the seconds of a day: not seconds, and seconds again.
        if let Some(seconds) = begins_with(rest, "SSSS") {
            return Err(seconds.to_owned());
        }
        if let Some(padded) = PADDED.iter().find_map(|word| begins_with(rest, word)) {
            return Err(padded.to_owned());
        }
        let pattern = PATTERNS
            .iter()
            .find(|(pattern, _)| rest.starts_with(pattern));
        match pattern {
            Some((pattern, meaning)) => {
                spelt.push_str(meaning);
                rest = &rest[pattern.len()..];
            }
            None if first.is_alphabetic() => {
                return Err(word_of(rest));
            }
            None => {
                spelt.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Ok(spelt)
}

/// The beginning of a text that is a word, in whatever case.
fn begins_with<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    text.get(..word.len())
        .filter(|begin| begin.eq_ignore_ascii_case(word))
}

fn word_of(rest: &str) -> String {
    let word = rest.split(|c: char| !c.is_alphanumeric()).next();
    word.unwrap_or(rest).to_owned()
}
