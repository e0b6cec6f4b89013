//! What Tab offers: keywords, tables, columns, settings, the shell's commands.

use lazybase_engine::manifest::Manifest;
use lazybase_model::Result;
use lazybase_query::{Database, SYSTEM_TABLES, own_settings};
use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::{Shell, Target};
use crate::names::quoted;
use crate::render::cell_texts;

/// Words that begin or join clauses; those of freshness first.
const KEYWORDS: &str = "\
    FRESHNESS|SETTLE|AFTER|AS OF SCU|AS OF TIMESTAMP|ON MISS|BEST EFFORT|SELECT|FROM|WHERE|\
    GROUP BY|ORDER BY|HAVING|LIMIT|OFFSET|DISTINCT|JOIN|LEFT JOIN|RIGHT JOIN|FULL JOIN|\
    CROSS JOIN|ON|USING|UNION ALL|WITH|VALUES|AS|AND|OR|NOT|IN|IS NULL|IS NOT NULL|BETWEEN|LIKE|\
    CASE|WHEN|THEN|ELSE|END|CAST|COUNT|SUM|AVG|MIN|MAX|DATE|TIMESTAMP|INTERVAL|INSERT INTO|\
    ON CONFLICT|DO NOTHING|DO UPDATE SET|UPDATE|SET|DELETE FROM|TRUNCATE|CREATE TABLE|\
    CREATE TABLE IF NOT EXISTS|PRIMARY KEY|NOT NULL|DROP TABLE|DROP TABLE IF EXISTS|BEGIN|\
    BEGIN READ ONLY|COMMIT|ROLLBACK|EXPLAIN|COPY|SHOW|SHOW lazybase.last_answer|\
    SET lazybase.freshness =|TEXT|BIGINT|DOUBLE|BOOLEAN|PAUSE STAGE|RESUME STAGE";

const COMMANDS: [&str; 13] = [
    "\\d",
    "\\d+",
    "\\dt",
    "\\dv",
    "\\l",
    "\\freshness",
    "\\format",
    "\\status",
    "\\timing",
    "\\x",
    "\\q",
    "\\?",
    "\\help",
];

/// What system tables and settings begin with.
const SYSTEM: &str = "lazybase.";

/// Words behind which the name of a table stands.
const BEFORE_TABLES: [&str; 8] = [
    "from", "join", "into", "update", "table", "\\d", "\\d+", "\\dt",
];

/// Completes names of tables and columns.
pub(super) enum Words {
    /// From the newest manifest.
    Here(Box<Database>),
    /// From what a server had when the shell began.
    There(Names),
}

impl Shell {
    /// The names that Tab offers.
    pub(super) async fn words(&self) -> Result<Words> {
        let wire = match &self.target {
            Target::Here(here) => return Ok(Words::Here(Box::new(here.database.clone()))),
            Target::There(wire) => wire,
        };
        let mut names = Names::default();
        for (sql, found) in [
            ("SELECT name FROM lazybase.tables", &mut names.tables),
            (
                "SELECT DISTINCT column_name FROM lazybase.columns ORDER BY 1",
                &mut names.columns,
            ),
        ] {
            let (_, batches) = wire.collect(sql).await?;
            for batch in batches {
                found.extend(cell_texts(batch.column(0))?.into_iter().flatten());
            }
        }
        Ok(Words::There(names))
    }
}

impl Completer for Words {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let (start, words) = match self {
            Words::There(names) => offered(&line[..position], names),
            Words::Here(database) => {
                let manifest = database.instance().manifest();
                offered(&line[..position], &names(&manifest))
            }
        };
        let suggestion = |word| Suggestion {
            value: word,
            span: Span::new(start, position),
            append_whitespace: true,
            ..Suggestion::default()
        };
        CompletionResult::fresh(words.into_iter().map(suggestion).collect::<Vec<_>>())
    }
}

/// Tables and their columns.
#[derive(Default)]
pub(super) struct Names {
    tables: Vec<String>,
    columns: Vec<String>,
}

fn names(manifest: &Manifest) -> Names {
    let tables = manifest.tables.values();
    let mut columns: Vec<String> = tables
        .clone()
        .flat_map(|state| state.table.columns[..state.table.visible_columns()].iter())
        .map(|column| column.name.clone())
        .collect();
    columns.sort_unstable();
    columns.dedup();
    Names {
        tables: tables.map(|state| state.table.name.clone()).collect(),
        columns,
    }
}

/// Where the word before the cursor begins, and what it may become.
fn offered(before: &str, names: &Names) -> (usize, Vec<String>) {
    let quote = open_quote(before);
    let start = quote.unwrap_or_else(|| word_start(before));
    let word = match quote {
        Some(at) => before[at + 1..].replace("\"\"", "\"").to_lowercase(),
        None => before[start..].to_lowercase(),
    };
    let starts = |candidate: &str| candidate.to_lowercase().starts_with(&word);
    let named = |names: &[String]| -> Vec<String> {
        let names = names.iter().filter(|name| starts(name));
        names.map(|name| written(name, quote.is_some())).collect()
    };
    let picked = |candidates: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        let candidates = candidates.filter(|candidate| starts(candidate));
        candidates.map(str::to_owned).collect()
    };
    if word.starts_with('\\') {
        return (start, picked(&mut COMMANDS.iter().copied()));
    }
    let sets = is_about_settings(before);
    let system = system_names(sets);
    let mut system = system.iter().map(String::as_str);
    if quote.is_none() && before[..start].to_lowercase().ends_with(SYSTEM) {
        let mut members = system.filter_map(|name| name.strip_prefix(SYSTEM));
        return (start, picked(&mut members));
    }
    let mut tables = named(&names.tables);
    let previous = before[..start].trim_end().to_lowercase();
    let wants_table = BEFORE_TABLES
        .iter()
        .any(|keyword| previous.ends_with(keyword));
    if wants_table {
        if quote.is_none() && !word.is_empty() {
            tables.append(&mut picked(&mut system));
        }
        return (start, tables);
    }
    if word.is_empty() {
        return (start, Vec::new());
    }
    let mut words = named(&names.columns);
    words.append(&mut tables);
    if quote.is_none() {
        if sets {
            words.append(&mut picked(&mut system));
        }
        words.append(&mut picked(&mut KEYWORDS.split('|')));
    }
    (start, words)
}

fn word_start(before: &str) -> usize {
    let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '\\';
    before
        .char_indices()
        .rev()
        .take_while(|(_, c)| inside(*c))
        .last()
        .map_or(before.len(), |(at, _)| at)
}

/// Where the name in double quotes begins that is not ended yet.
fn open_quote(before: &str) -> Option<usize> {
    let (mut open, mut in_text) = (None, false);
    let mut characters = before.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            '\'' if open.is_none() => in_text = !in_text,
            '"' if in_text => {}
            '"' if open.is_none() => open = Some(at),
            // Two of them inside of a name stand for one.
            '"' if characters.next_if(|(_, next)| *next == '"').is_none() => open = None,
            _ => {}
        }
    }
    open
}

/// A name as it has to be written to be meant.
fn written(name: &str, in_quotes: bool) -> String {
    let plain = |c: char| c == '_' || (c.is_alphanumeric() && !c.is_uppercase());
    let begins = name.starts_with(|c: char| !c.is_numeric());
    match in_quotes || !begins || !name.chars().all(plain) {
        true => quoted(name),
        false => name.to_owned(),
    }
}

/// Whether the last statement sets or shows a setting.
fn is_about_settings(before: &str) -> bool {
    let statement = before.rsplit(';').next().unwrap_or_default();
    let first = statement.split_whitespace().next().unwrap_or_default();
    let mut words = ["set", "show", "reset"].iter();
    words.any(|word| first.eq_ignore_ascii_case(word))
}

/// The settings, or the system tables, with their schema.
fn system_names(settings: bool) -> Vec<String> {
    match settings {
        true => own_settings().map(str::to_owned).collect(),
        false => {
            let names = SYSTEM_TABLES.iter();
            names.map(|name| format!("{SYSTEM}{name}")).collect()
        }
    }
}

#[cfg(test)]
mod tests;
