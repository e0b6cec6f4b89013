//! Edits of the manifest in words: a line for what happened, and lines below it for what it is
//! about; no I/O.
//!
//! An edit alone knows tables, views and roles by their ids: the manifest tells what they are
//! called.

use lazybase_engine::key::Key;
use lazybase_engine::manifest::history::TimesFile;
use lazybase_engine::manifest::{
    Ddl, Edit, HealedRun, ProducerMark, RetiredRun, Run, RunId, ScuEntry, ScuTime, VersionStep,
};
use lazybase_model::sequence::{Counter, Sequence};
use lazybase_model::{PartitionChange, RangeBounds, ScuNumber, SequenceId, Table, ViewId};

use super::access::change_text;
use super::{columns_text, moment, run_text, segment_text, span_text};
use crate::figures::{bytes, counted};

/// What an edit did.
pub(super) fn edit_text(edit: &Edit) -> String {
    match edit {
        Edit::Create {
            database,
            clock_micros,
        } => format!("database {database} begins, {}\n", at(*clock_micros)),
        Edit::Barrier {
            epoch,
            clock_micros,
        } => format!(
            "a process opens the database: epoch {epoch}, {}\n",
            at(*clock_micros)
        ),
        Edit::Transaction {
            ddl,
            batch,
            own_scu,
            clock_micros,
        } => transaction(ddl, batch.is_some(), *own_scu, *clock_micros),
        Edit::CreateTable { table } => begins("table", table),
        Edit::DropTable { table } => format!("table {table} ends\n"),
        Edit::TruncateTable {
            table,
            clock_micros,
        } => format!("all rows of table {table} end, {}\n", at(*clock_micros)),
        Edit::Seal {
            entry,
            time,
            producers,
        } => sealed(entry, time) + &marks(producers.iter()),
        Edit::Remapped { through, next_ids } => {
            let mut text = format!("natural keys have numbers up to SCU {through}\n");
            for (scu, maps) in next_ids {
                let maps: Vec<String> = maps.keys().map(|map| map.to_string()).collect();
                text += &format!("  new ones in SCU {scu}, of key map {}\n", maps.join(", "));
            }
            text
        }
        Edit::Sorted { scu, runs } => match runs.is_empty() {
            true => format!("SCU {scu} is sorted: it changes no table\n"),
            false => format!("SCU {scu} is sorted\n{}", runs_text(runs)),
        },
        Edit::Merged {
            view,
            low,
            inputs,
            output,
            clock_micros,
        } => merged(*view, low.as_ref(), inputs, output, *clock_micros),
        Edit::SplitRange { view, low, at } => {
            format!(
                "{} of view {view} is cut in two at {at:?}\n",
                range(low.as_ref())
            )
        }
        Edit::Retire {
            runs,
            scus,
            times_before,
        } => retired(runs, scus, *times_before),
        Edit::ArchiveTimes { file, replaces } => archived(file, *replaces),
        Edit::OpenProducer { name, epoch, owner } => {
            let owner = owner.map_or_else(String::new, |owner| format!(", of role {}", owner.0));
            format!("producer {name:?} opens a session: epoch {epoch}{owner}\n")
        }
        Edit::Advanced {
            view,
            from,
            to,
            runs,
            whole,
        } => advanced(*view, (*from, *to), runs, *whole),
        Edit::ResetView { view } => {
            format!("view {view} begins again from nothing, to be made from its table\n")
        }
        Edit::Heal { runs } => healed(runs),
        Edit::ReserveNumbers { sequence, through } => reserved(*sequence, *through),
        Edit::SetSequence { sequence, counter } => set(*sequence, *counter),
    }
}

fn set(sequence: SequenceId, counter: Counter) -> String {
    format!("sequence {sequence} goes on {}\n", counter_text(counter))
}

fn reserved(sequence: SequenceId, through: i64) -> String {
    format!("numbers of sequence {sequence} are reserved through {through}\n")
}

/// Where a sequence stands.
fn counter_text(counter: Counter) -> String {
    let word = if counter.called { "behind" } else { "with" };
    format!("{word} {}", counter.last)
}

/// A sequence has a definition that is new.
fn sequence_text(sequence: &Sequence, what: &str, counter: Option<Counter>) -> String {
    let stands = counter.map_or_else(String::new, |counter| {
        format!(", and goes on {}", counter_text(counter))
    });
    format!(
        "sequence {} ({}) {what}{stands}",
        sequence.name, sequence.id
    )
}

/// When, on the coordinator's clock.
fn at(micros: i64) -> String {
    format!("at {}", moment(micros))
}

/// The range whose least key this is.
fn range(low: Option<&Key>) -> String {
    match low {
        Some(low) => format!("the range from {low:?}"),
        None => "the first range".to_owned(),
    }
}

/// A table or view begins.
fn begins(what: &str, table: &Table) -> String {
    format!(
        "{what} {} ({}, primary view {}) begins\n  columns {}\n",
        table.name,
        table.id,
        table.primary.id,
        columns_text(table)
    )
}

fn transaction(ddl: &[Ddl], has_batch: bool, own_scu: bool, clock_micros: i64) -> String {
    let mut text = format!("a transaction is committed, {}\n", at(clock_micros));
    for change in ddl {
        // What it says of a table in further lines stands below that.
        for line in ddl_text(change).lines() {
            text += &format!("  {line}\n");
        }
    }
    if has_batch {
        text += "  its batch is the first of the next SCU\n";
    }
    if own_scu {
        text += "  it has an SCU of its own, without batches\n";
    }
    text
}

fn ddl_text(change: &Ddl) -> String {
    match change {
        Ddl::Create { table } => begins("table", table),
        Ddl::Drop { table } => format!("table {table} ends"),
        Ddl::Alter { base, table } => format!(
            "table {} ({}) goes from version {} to {}\n  columns {}",
            table.name,
            table.id,
            base.0,
            table.version.0,
            columns_text(table)
        ),
        Ddl::Truncate { table } => format!("all rows of table {table} end"),
        Ddl::Partition {
            table,
            change,
            versions,
        } => {
            let (bounds, what) = match change {
                PartitionChange::Add(bounds) => (bounds, "begins"),
                PartitionChange::Drop(bounds) => (bounds, "ends, with all its rows"),
            };
            let step = versions.as_ref().map_or_else(String::new, version_step);
            format!(
                "a partition{} of table {table} {what}{step}",
                bounds_text(bounds)
            )
        }
        Ddl::CreateView { view } => begins("materialized view", view),
        Ddl::DropView { view } => format!("materialized view {view} ends"),
        Ddl::CreatePlainView { view } => {
            format!("view {} ({}) begins: {}", view.name, view.id, query(view))
        }
        Ddl::AlterPlainView { base, view } => format!(
            "view {} ({}) goes from version {} to {}: {}",
            view.name,
            view.id,
            base.0,
            view.version.0,
            query(view)
        ),
        Ddl::DropPlainView { view } => format!("view {view} ends"),
        Ddl::Access { change } => change_text(change),
        Ddl::CreateSequence { sequence, counter } => {
            sequence_text(sequence, "begins", Some(*counter))
        }
        Ddl::AlterSequence { sequence, counter } => {
            sequence_text(sequence, "has another definition", *counter)
        }
        Ddl::DropSequence { sequence } => format!("sequence {sequence} ends"),
    }
}

/// The query of a plain view, on one line.
pub(super) fn query(view: &Table) -> String {
    let text = view.query.as_ref().map_or("", |query| query.text.as_str());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn version_step(step: &VersionStep) -> String {
    format!(", from version {} to {}", step.base.0, step.next.0)
}

/// Where a partition lies, by encoded values.
fn bounds_text(bounds: &RangeBounds) -> String {
    let mut text = String::new();
    if let Some(low) = &bounds.low {
        let side = if low.after { "after" } else { "from" };
        text += &format!(" {side} {:?}", low.value);
    }
    if let Some(high) = &bounds.high {
        let side = if high.after { "through" } else { "before" };
        text += &format!(" {side} {:?}", high.value);
    }
    text
}

fn sealed(entry: &ScuEntry, time: &ScuTime) -> String {
    let mut text = format!(
        "SCU {} is sealed: {}, {}, {}\n  \
         acknowledged from {} to {}; the database has {} by its end\n",
        entry.scu,
        counted(u64::from(entry.batches), "batch"),
        counted(entry.rows, "row"),
        bytes(entry.raw_bytes),
        moment(time.first_ack_micros),
        moment(time.last_ack_micros),
        counted(time.batches_through, "batch"),
    );
    for (table, rows) in &entry.tables {
        text += &format!("  table {table}: {}\n", counted(*rows, "stored row"));
    }
    for piece in &entry.log {
        text += &format!(
            "  committed in {}, bytes {} to {}\n",
            piece.file, piece.start, piece.end
        );
    }
    let committed = |file: &&String| entry.log.iter().any(|piece| piece.file == **file);
    for file in entry.files.iter().filter(|file| !committed(file)) {
        text += &format!("  rows of it in {file}\n");
    }
    text
}

fn marks<'m>(producers: impl Iterator<Item = (&'m String, &'m ProducerMark)>) -> String {
    let line = |(name, mark): (&String, &ProducerMark)| {
        format!("  producer {name:?}: last batch {}\n", mark.number)
    };
    producers.map(line).collect()
}

/// Runs, each below its view.
fn runs_text(runs: &[Run]) -> String {
    let mut text = String::new();
    let mut view = None;
    for run in runs {
        if view != Some(run.view) {
            text += &format!("  view {}\n", run.view);
            view = Some(run.view);
        }
        text += &run_text(run, true);
    }
    text
}

fn merged(
    view: ViewId,
    low: Option<&Key>,
    inputs: &[RunId],
    output: &Run,
    clock_micros: i64,
) -> String {
    let inputs: Vec<String> = inputs.iter().map(|run| run.0.to_string()).collect();
    format!(
        "runs {} of {} of view {view} are joined, {}\n  into\n{}",
        inputs.join(", "),
        range(low),
        at(clock_micros),
        run_text(output, true)
    )
}

fn retired(runs: &[RetiredRun], scus: &[ScuNumber], times_before: ScuNumber) -> String {
    let mut text = "what nobody can ask for any more goes\n".to_owned();
    for run in runs {
        text += &format!(
            "  run {} of {} of view {}\n",
            run.run.0,
            range(run.low.as_ref()),
            run.view
        );
    }
    if let (Some(first), Some(last)) = (scus.first(), scus.last()) {
        let count = counted(scus.len() as u64, "SCU");
        text += &format!("  logs of {count}, from {first} to {last}\n");
    }
    if times_before > ScuNumber::ZERO {
        text += &format!("  times before SCU {times_before}, but for the last\n");
    }
    text
}

fn archived(file: &TimesFile, replaces: usize) -> String {
    format!(
        "the times of {} are in a file\n  {}, {}, in place of {} and what the manifest had\n",
        span_text(file.first.0, file.last.0),
        file.file,
        bytes(file.bytes),
        counted(replaces as u64, "file")
    )
}

fn advanced(view: ViewId, (from, to): (ScuNumber, ScuNumber), runs: &[Run], whole: bool) -> String {
    let mut text = format!("view {view} comes from the end of SCU {from} to that of SCU {to}\n");
    if whole {
        text += "  with all rows that there are then\n";
    }
    for run in runs {
        text += &run_text(run, true);
    }
    if runs.is_empty() {
        text += "  nothing in it has changed\n";
    }
    text
}

fn healed(runs: &[HealedRun]) -> String {
    let mut text = "damaged files are made again\n".to_owned();
    for healed in runs {
        text += &format!("    run {}\n", healed.run.0);
        for segment in &healed.segments {
            text += &segment_text(segment);
        }
    }
    text
}

#[cfg(test)]
mod tests;
