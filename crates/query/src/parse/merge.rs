//! `MERGE SUM` and `WITH LABELS` behind a column's type: merge operators (section 3.2 of the paper)
//! and labels of cells, which no dialect knows.
//!
//! Before sqlparser reads a statement, `MERGE SUM` becomes `COLLATE "merge sum"`, which may stand
//! wherever an option of a column may; afterwards it becomes an option of our own. So it can stand
//! in any order with DEFAULT, NOT NULL and COMMENT, in whatever statement declares columns.
//! `WITH LABELS` goes the same way; behind ALTER COLUMN, where it is set, it becomes a default.

use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, ColumnDef, ColumnOption, Expr, ObjectName, ObjectNamePart, Statement,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::{Error, MergeOperator, Result};

use super::unsupported;

const MERGE: &str = "MERGE";
/// The operator that a column has anyway: the last value counts.
const LAST: &str = "LAST";
/// What `WITH LABELS` is hidden as.
const LABELS: &str = "with labels";
/// What `DROP WITH LABELS` is hidden as.
const NO_LABELS: &str = "without labels";

/// Puts merge operators into words that sqlparser knows.
///
/// # Errors
/// `Invalid` (42601) for an operator that there is not.
pub(super) fn hide(tokens: &mut [TokenWithSpan]) -> Result<()> {
    if !tokens
        .first()
        .is_some_and(|first| is_word(&first.token, &["CREATE", "ALTER"]))
    {
        return Ok(());
    }
    for at in 2..tokens.len().saturating_sub(1) {
        let follows_type = !matches!(tokens[at - 1].token, Token::LParen | Token::Comma);
        if is_word(&tokens[at].token, &[MERGE])
            && is_word(&tokens[at - 1].token, &["SET"])
            && is_word(&tokens[0].token, &["ALTER"])
        {
            return Err(unsupported("a column's merge operator can't be changed")
                .with_detail("what was written before is stored by the operator that it had")
                .with_hint(
                    "ADD COLUMN takes one, and CREATE TABLE, into which INSERT INTO new SELECT \
                     ... FROM old brings the rows",
                ));
        }
        if is_labels(&tokens[at..]) && hide_altered(tokens, at) {
            continue;
        }
        if follows_type && is_labels(&tokens[at..]) {
            tokens[at].token = Token::make_keyword("COLLATE");
            tokens[at + 1].token = Token::make_word(LABELS, Some('"'));
        }
        if !follows_type || !is_word(&tokens[at].token, &[MERGE]) {
            continue;
        }
        let Token::Word(word) = &tokens[at + 1].token else {
            continue;
        };
        let operator = word.value.to_ascii_uppercase();
        if word.quote_style.is_some() {
            continue;
        }
        if operator == LAST || MergeOperator::of_word(&operator).is_some() {
            let name = format!("merge {}", operator.to_lowercase());
            tokens[at].token = Token::make_keyword("COLLATE");
            tokens[at + 1].token = Token::make_word(&name, Some('"'));
        } else if matches!(word.keyword, Keyword::NoKeyword | Keyword::AVG) {
            return Err(
                Error::invalid(format!("there is no merge operator {operator}"))
                    .with_hint("there are SUM, MIN, MAX, FIRST, and LAST, the default")
                    .with_sqlstate("42601"),
            );
        }
    }
    Ok(())
}

/// Puts `SET WITH LABELS` and `DROP WITH LABELS` of a column into words that sqlparser knows;
/// `WITH` stands at `at`.
fn hide_altered(tokens: &mut [TokenWithSpan], at: usize) -> bool {
    if !is_word(&tokens[0].token, &["ALTER"]) {
        return false;
    }
    let name = match &tokens[at - 1].token {
        token if is_word(token, &["SET"]) => LABELS,
        token if is_word(token, &["DROP"]) => NO_LABELS,
        _ => return false,
    };
    tokens[at - 1].token = Token::make_keyword("SET");
    tokens[at].token = Token::make_keyword("DEFAULT");
    tokens[at + 1].token = Token::make_word(name, Some('"'));
    true
}

/// What [`hide`] made of a default: whether cells shall have labels.
pub(super) fn altered(default: &Expr) -> Option<bool> {
    let Expr::Identifier(ident) = default else {
        return None;
    };
    match (ident.quote_style, ident.value.as_str()) {
        (Some('"'), LABELS) => Some(true),
        (Some('"'), NO_LABELS) => Some(false),
        _ => None,
    }
}

/// Whether tokens begin with `WITH LABELS`, and not with a query that is named so.
fn is_labels(tokens: &[TokenWithSpan]) -> bool {
    let [with, labels, rest @ ..] = tokens else {
        return false;
    };
    let next = rest.first().map(|next| &next.token);
    is_word(&with.token, &["WITH"])
        && is_word(&labels.token, &["LABELS"])
        && !next.is_some_and(|next| *next == Token::LParen || is_word(next, &["AS"]))
}

fn is_word(token: &Token, words: &[&str]) -> bool {
    match token {
        Token::Word(word) => {
            let is = |other: &&str| word.value.eq_ignore_ascii_case(other);
            word.quote_style.is_none() && words.iter().any(is)
        }
        _ => false,
    }
}

/// Undoes [`hide`] in a statement that was read.
pub(super) fn show(statement: &mut Statement) {
    match statement {
        Statement::CreateTable(create) => create.columns.iter_mut().for_each(show_in),
        Statement::AlterTable(alter) => {
            for operation in &mut alter.operations {
                if let AlterTableOperation::AddColumn { column_def, .. } = operation {
                    show_in(column_def);
                }
            }
        }
        _ => {}
    }
}

fn show_in(column: &mut ColumnDef) {
    for option in &mut column.options {
        if let ColumnOption::Collation(name) = &option.option
            && let Some(operator) = hidden(name)
        {
            option.option =
                ColumnOption::DialectSpecific(operator.map(Token::make_keyword).to_vec());
        }
    }
}

/// The words in a collation's name that [`hide`] made.
fn hidden(name: &ObjectName) -> Option<[&'static str; 2]> {
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
        return None;
    };
    if ident.value == LABELS {
        return Some(["WITH", "LABELS"]);
    }
    let word = match ident.value.strip_prefix("merge ")? {
        "last" => LAST,
        word => MergeOperator::of_word(word)?.word(),
    };
    Some([MERGE, word])
}

/// Whether an option of a column says that its cells have labels.
pub(super) fn labels(tokens: &[Token]) -> bool {
    matches!(tokens, [with, labels] if is_word(with, &["WITH"]) && is_word(labels, &["LABELS"]))
}

/// The merge operator that an option of a column says; `None` where it says something else.
pub(super) fn operator(tokens: &[Token]) -> Option<Option<MergeOperator>> {
    match tokens {
        [merge, Token::Word(word)] if is_word(merge, &[MERGE]) => {
            Some(MergeOperator::of_word(&word.value))
        }
        _ => None,
    }
}
