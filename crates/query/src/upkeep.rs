//! Statements that look after what is stored: SETTLE, VERIFY TABLE and BACKUP TO.
//!
//! The latter two give rows that say what was done. A difference that VERIFY TABLE finds is an
//! error, so that no script passes over it, and so is a file that is lost.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lazybase_cluster::{Outcome, SettleTo, StageCheck, TableReport};
use lazybase_model::{Error, Result};

use crate::answer::AnswerStream;
use crate::error::from_arrow;
use crate::session::Shared;

/// The columns of what VERIFY TABLE tells.
pub(crate) fn verify_columns() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, false);
    let number = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![
        text("holds"),
        text("stage"),
        number("first_scu"),
        number("last_scu"),
        number("rows"),
        text("outcome"),
    ]))
}

/// The columns of what BACKUP tells.
pub(crate) fn backup_columns() -> SchemaRef {
    let names = [
        "backup",
        "scu",
        "oldest_scu",
        "files",
        "bytes",
        "copied_files",
        "copied_bytes",
    ];
    let fields = names.map(|name| Field::new(name, DataType::Int64, false));
    Arc::new(Schema::new(fields.to_vec()))
}

/// SETTLE, of one table or of all.
pub(crate) async fn settle(
    session: &Arc<Shared>,
    table: Option<String>,
    to: SettleTo,
) -> Result<AnswerStream> {
    let table = table.map(|name| session.table(&name)).transpose()?;
    let (id, teller) = (table.map(|table| table.id), session.teller());
    session.instance().settle(id, to, &teller).await?;
    Ok(AnswerStream::done("SETTLE", 0))
}

/// VERIFY TABLE.
pub(crate) async fn verify(session: &Arc<Shared>, table: &str, share: f64) -> Result<AnswerStream> {
    let seen = session.table(table)?;
    let table = seen.name.as_str();
    let instance = session.instance();
    let manifest = instance.manifest();
    // A temporary table is stored under another name than the one that its session sees.
    let stored = manifest.tables.get(&seen.id);
    let stored = stored.map_or(table, |state| state.table.name.as_str());
    let teller = session.teller();
    let report = instance.verify_table(stored, share, &teller).await?;
    if let Some(error) = difference(table, &report).or_else(|| damage(&report)) {
        return Err(error);
    }
    let checks = &report.checks;
    let text = |of: &dyn Fn(&StageCheck) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(checks.iter().map(of)))
    };
    let number = |of: &dyn Fn(&StageCheck) -> u64| -> ArrayRef {
        let values = checks.iter().map(|check| of(check) as i64);
        Arc::new(Int64Array::from_iter_values(values))
    };
    let outcome = |check: &StageCheck| match &check.outcome {
        Outcome::NotCompared(why) => format!("not compared: {why}"),
        Outcome::Same | Outcome::Differs { .. } => "the same".to_owned(),
    };
    let columns = vec![
        text(&|check| check.of.clone()),
        text(&|check| check.stage.to_owned()),
        number(&|check| check.span.first.0),
        number(&|check| check.span.last.0),
        number(&|check| check.rows),
        text(&outcome),
    ];
    let batch = RecordBatch::try_new(verify_columns(), columns);
    Ok(AnswerStream::of_batch(
        "VERIFY",
        batch.map_err(|error| from_arrow(&error))?,
    ))
}

/// What differs, if anything.
fn difference(table: &str, report: &TableReport) -> Option<Error> {
    let (mut rows, mut lines, mut all_healed) = (0, Vec::new(), true);
    for check in report.differing() {
        let Outcome::Differs {
            rows: of_check,
            told,
            healed,
        } = &check.outcome
        else {
            continue;
        };
        rows += of_check;
        all_healed &= healed;
        let place = format!("{} {:?}, SCUs {}", check.stage, check.of, check.span);
        lines.push(format!("{place}: {}", told.join("; ")));
    }
    if lines.is_empty() {
        return None;
    }
    let message = format!("table {table:?} differs from what earlier stages hold: {rows} rows");
    let hint = match all_healed {
        true => {
            "it was made again from the earlier stage: run VERIFY TABLE once more, and report it"
        }
        false => "it is being made again from the earlier stage: `lazybase status` shows it",
    };
    Some(
        Error::corrupt(message)
            .with_detail(lines.join("\n"))
            .with_hint(hint),
    )
}

/// What can't be read, if anything: the first of it, with all that is to be said in the detail.
fn damage(report: &TableReport) -> Option<Error> {
    let (first, others) = report.damage.split_first()?;
    if others.is_empty() {
        return Some(first.clone());
    }
    let lines: Vec<String> = report.damage.iter().map(Error::fact).collect();
    Some(first.clone().with_detail(lines.join("\n")))
}

/// BACKUP TO.
pub(crate) async fn backup(session: &Arc<Shared>, folder: &str) -> Result<AnswerStream> {
    let instance = session.instance();
    let target = instance.open_backups(Path::new(folder))?;
    let report = instance.backup(&target, &session.teller()).await?;
    for note in &report.notes {
        instance.note_trouble(note);
    }
    let number = |value: u64| -> ArrayRef { Arc::new(Int64Array::from(vec![value as i64])) };
    let columns = vec![
        number(report.number),
        number(report.newest.0),
        number(report.oldest.0),
        number(report.files),
        number(report.bytes),
        number(report.copied_files),
        number(report.copied_bytes),
    ];
    let batch = RecordBatch::try_new(backup_columns(), columns);
    Ok(AnswerStream::of_batch(
        "BACKUP",
        batch.map_err(|error| from_arrow(&error))?,
    ))
}
