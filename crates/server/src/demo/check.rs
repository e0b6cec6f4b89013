//! The checks at the end: the database's answers against sums taken straight from the files.

use lazybase_model::{Freshness, Result};
use lazybase_query::Database;
use serde::Serialize;

use super::desk::Desk;
use super::expected::Expected;
use super::questions::{Question, check_cut, clause};
use crate::render::cell_texts;

/// One thing that must hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) passed: bool,
    /// What was found instead, where it failed.
    pub(super) found: String,
}

impl Check {
    /// A check with what to say if it failed.
    pub(super) fn new(name: impl Into<String>, passed: bool, found: impl Into<String>) -> Check {
        Check {
            name: name.into(),
            passed,
            found: if passed { String::new() } else { found.into() },
        }
    }
}

/// Asks everything from the authority alone and at freshness 0, and compares.
pub(super) async fn run(
    database: &Database,
    expected: &[Expected],
    desk: &Desk,
) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for level in [Freshness::BestEffort, Freshness::ZERO] {
        let session = database.session();
        for question in expected {
            let sql = format!("{} {}", question.sql, clause(level));
            let name = format!("{} (asked {level})", question.name);
            let mut found = Vec::new();
            for answer in session.execute(&sql).await? {
                for batch in &answer.batches {
                    found.append(&mut texts(batch)?);
                }
            }
            checks.push(compare(name, &question.rows, &found));
        }
        let sql = Question::Cut.sql(level, "");
        let answers = session.execute(&sql).await?;
        let batches = answers.last().map_or(&[][..], |answer| &answer.batches);
        let cut = check_cut(batches)?;
        let whole = cut
            .as_ref()
            .is_some_and(|cut| cut.torn.is_none() && cut.changes == desk.changes as u64);
        let name = format!("the desk's tally (asked {level})");
        checks.push(Check::new(name, whole, format!("{cut:?} for {desk:?}")));
    }
    Ok(checks)
}

fn texts(batch: &arrow::array::RecordBatch) -> Result<Vec<Vec<String>>> {
    let columns: Result<Vec<Vec<Option<String>>>> =
        batch.columns().iter().map(cell_texts).collect();
    let columns = columns?;
    let cell = |column: &Vec<Option<String>>, row: usize| -> String {
        column[row].clone().unwrap_or_else(|| "NULL".to_owned())
    };
    let row = |row| columns.iter().map(|column| cell(column, row)).collect();
    Ok((0..batch.num_rows()).map(row).collect())
}

fn compare(name: String, expected: &[Vec<String>], found: &[Vec<String>]) -> Check {
    if expected == found {
        return Check::new(name, true, "");
    }
    let pairs = expected.iter().zip(found);
    let told = match pairs
        .into_iter()
        .find(|(expected, found)| expected != found)
    {
        Some((expected, found)) => {
            format!(
                "the files say {}, the database {}",
                expected.join(" "),
                found.join(" ")
            )
        }
        None => format!(
            "the files give {} rows, the database {}",
            expected.len(),
            found.len()
        ),
    };
    Check::new(name, false, told)
}

#[cfg(test)]
mod tests {
    use super::compare;

    fn rows(texts: &[&str]) -> Vec<Vec<String>> {
        texts.iter().map(|text| vec![(*text).to_owned()]).collect()
    }

    #[test]
    fn the_first_difference_is_told() {
        let check = |expected, found| compare("n".to_owned(), &rows(expected), &rows(found));
        assert!(check(&["1", "2"], &["1", "2"]).passed);
        assert_eq!(
            check(&["1", "2"], &["1", "3"]).found,
            "the files say 2, the database 3"
        );
        let short = check(&["1", "2"], &["1"]);
        assert_eq!(short.found, "the files give 2 rows, the database 1");
    }
}
