//! `pg_get_keywords()`: the words that mean something in SQL, which tools ask for before they write
//! names without quotes.
//!
//! They are the words of the parser that reads statements here, more than PostgreSQL has. Pure.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_IDENTIFIER,
    RESERVED_FOR_TABLE_ALIAS, RESERVED_FOR_TABLE_FACTOR,
};

/// Adds the function to the planner's.
pub(crate) fn register(state: &mut SessionState) {
    state.register_udtf("pg_get_keywords", Arc::new(Keywords));
}

/// The function, which is called in FROM.
#[derive(Debug)]
struct Keywords;

impl TableFunctionImpl for Keywords {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            let message = "pg_get_keywords takes no arguments".to_owned();
            return Err(DataFusionError::Plan(message));
        }
        let rows = rows()?;
        Ok(Arc::new(MemTable::try_new(
            rows.schema(),
            vec![vec![rows]],
        )?))
    }
}

/// Whether a word must stand in quotes where it is a name or an alias.
fn is_reserved(word: Keyword) -> bool {
    [
        RESERVED_FOR_COLUMN_ALIAS,
        RESERVED_FOR_IDENTIFIER,
        RESERVED_FOR_TABLE_ALIAS,
        RESERVED_FOR_TABLE_FACTOR,
    ]
    .iter()
    .any(|words| words.contains(&word))
}

/// A row a word, in the order of the alphabet.
fn rows() -> Result<RecordBatch> {
    let words = || ALL_KEYWORDS.iter().zip(ALL_KEYWORDS_INDEX);
    let texts = |of: &dyn Fn(&str, Keyword) -> String| -> ArrayRef {
        let texts = words().map(|(word, keyword)| of(word, *keyword));
        Arc::new(StringArray::from_iter_values(texts))
    };
    let alias = |keyword: Keyword| !RESERVED_FOR_COLUMN_ALIAS.contains(&keyword);
    let one_of = |is: bool, yes: &str, no: &str| if is { yes } else { no }.to_owned();
    let labels: BooleanArray = words().map(|(_, keyword)| Some(alias(*keyword))).collect();
    let columns = [
        ("word", texts(&|word, _| word.to_lowercase())),
        (
            "catcode",
            texts(&|_, keyword| one_of(is_reserved(keyword), "R", "U")),
        ),
        ("barelabel", Arc::new(labels) as ArrayRef),
        (
            "catdesc",
            texts(&|_, keyword| one_of(is_reserved(keyword), "reserved", "unreserved")),
        ),
        (
            "baredesc",
            texts(&|_, keyword| one_of(alias(keyword), "can be bare label", "requires AS")),
        ),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
