//! What Tab offers: keywords, tables, columns, the shell's commands.

use lazybase_engine::manifest::Manifest;
use lazybase_model::Result;
use lazybase_query::Database;
use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::{Shell, Target};
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
    let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '\\';
    let start = before
        .char_indices()
        .rev()
        .take_while(|(_, c)| inside(*c))
        .last()
        .map_or(before.len(), |(at, _)| at);
    let word = before[start..].to_lowercase();
    let starts = |candidate: &&str| candidate.to_lowercase().starts_with(&word);
    let pick = |candidates: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        candidates.filter(starts).map(str::to_owned).collect()
    };
    let mut tables = pick(&mut names.tables.iter().map(String::as_str));
    if word.starts_with('\\') {
        return (start, pick(&mut COMMANDS.iter().copied()));
    }
    let previous = before[..start].trim_end().to_lowercase();
    let wants_table = BEFORE_TABLES
        .iter()
        .any(|keyword| previous.ends_with(keyword));
    if wants_table {
        return (start, tables);
    }
    if word.is_empty() {
        return (start, Vec::new());
    }
    let mut words = pick(&mut names.columns.iter().map(String::as_str));
    words.append(&mut tables);
    words.append(&mut pick(&mut KEYWORDS.split('|')));
    (start, words)
}

#[cfg(test)]
mod tests;
