//! CREATE, ALTER and DROP SEQUENCE: a transaction of their own, or a part of the session's.

use std::sync::Arc;

use arrow::datatypes::DataType;
use lazybase_model::sequence::{Counter, Sequence};
use lazybase_model::{Error, ErrorKind, Result};

use super::columns::{is_taken, of_options, owner_of, stored_name, taken};
use super::own::OwnSequence;
use crate::answer::AnswerStream;
use crate::dml::sink::Sink;
use crate::notice::Notice;
use crate::parse::{Bound, Restart, SequenceOptions, SequenceStatement, checked_name, unsupported};
use crate::session::Shared;
use crate::temporary;
use crate::visible::{SeenSequence, TableChange, Visible};

/// Does a statement about sequences.
pub(crate) async fn run(
    session: &Arc<Shared>,
    statement: SequenceStatement,
) -> Result<AnswerStream> {
    match statement {
        SequenceStatement::Create {
            name,
            if_not_exists,
            options,
        } => create(session, name, if_not_exists, &options).await,
        SequenceStatement::Alter {
            name,
            if_exists,
            options,
        } => alter(session, &name, if_exists, &options).await,
        SequenceStatement::Drop { names, if_exists } => drop(session, &names, if_exists).await,
    }
}

async fn create(
    session: &Arc<Shared>,
    name: String,
    if_not_exists: bool,
    options: &SequenceOptions,
) -> Result<AnswerStream> {
    if temporary::named(&name).is_some_and(|_| temporary::named_in_public(&name).is_none()) {
        return Err(unsupported("a temporary sequence is not supported")
            .with_hint("a column of a temporary table may be SERIAL"));
    }
    let name = checked_name(temporary::own_name(&name).to_owned())?;
    session.gate_now().create()?;
    let visible = session.visible();
    if is_taken(&visible, &name, false) {
        let is_sequence = visible.sequence_named(&name).is_some();
        if !(if_not_exists && is_sequence) {
            return Err(taken(&name, visible.taken_by(&name)));
        }
        let said = format!("sequence {name:?} is there already: skipped");
        let notice = Notice::note(said).with_sqlstate("42P07");
        return Ok(AnswerStream::done("CREATE SEQUENCE", 0).with_notices([notice]));
    }
    let id = session.instance().take_sequence_id();
    let mut sequence = of_options(id, name, &DataType::Int64, options)?;
    if let Some(owned_by) = &options.owned_by {
        sequence.owner = owner_of(session, owned_by)?;
    }
    let counter = restarted(&sequence, options)?.unwrap_or(sequence.begin());
    let own = OwnSequence::new(sequence, Some(counter));
    let mut sink = Sink::of(session);
    sink.change_table(TableChange::CreateSequence(Arc::new(own)))?;
    let token = sink.finish(session).await?;
    Ok(AnswerStream::done("CREATE SEQUENCE", 0).with_token(token))
}

async fn alter(
    session: &Arc<Shared>,
    name: &str,
    if_exists: bool,
    options: &SequenceOptions,
) -> Result<AnswerStream> {
    let visible = session.visible();
    let seen = match visible.require_sequence(name) {
        Err(error) if if_exists && error.kind() == ErrorKind::NotFound => {
            let notice = Notice::note(format!("{}: skipped", error.message()));
            return Ok(AnswerStream::done("ALTER SEQUENCE", 0).with_notices([notice]));
        }
        seen => seen?,
    };
    session.gate_now().own_sequence(&seen.sequence)?;
    let mut after = altered(&as_stored(session, &seen), options)?;
    if let Some(owned_by) = &options.owned_by {
        after.owner = owner_of(session, owned_by)?;
    }
    let own = visible.changes.own_sequence(after.id);
    let counter = match restarted(&after, options)? {
        Some(counter) => Some(counter),
        None => own.and_then(|own| own.counter()),
    };
    let mut sink = Sink::of(session);
    let own = OwnSequence::new(after, counter);
    sink.change_table(TableChange::AlterSequence(Arc::new(own)))?;
    let token = sink.finish(session).await?;
    Ok(AnswerStream::done("ALTER SEQUENCE", 0).with_token(token))
}

/// A sequence under the name that it is stored with.
pub(crate) fn as_stored(session: &Shared, seen: &SeenSequence) -> Sequence {
    Sequence {
        name: stored_name(session, &seen.sequence.name, seen.is_temporary),
        ..seen.sequence.clone()
    }
}

/// A sequence after a change of its options: what they don't say stays.
fn altered(before: &Sequence, options: &SequenceOptions) -> Result<Sequence> {
    let data_type = options.data_type.as_ref().unwrap_or(&before.data_type);
    let of_type = Sequence::bounds_of(data_type);
    let before_of_type = Sequence::bounds_of(&before.data_type);
    let increment = options.increment.unwrap_or(before.increment);
    let (own_min, own_max) = match increment >= 0 {
        true => (1, of_type.1),
        false => (of_type.0, -1),
    };
    // Bounds that were those of the type are those of the next one.
    let kept = |bound: i64, of_type_before: i64, of_type_now: i64| match bound == of_type_before {
        true => of_type_now,
        false => bound,
    };
    let min = match options.min {
        Some(Bound::At(number)) => number,
        Some(Bound::OfType) => own_min,
        None => kept(before.min, before_of_type.0, of_type.0),
    };
    let max = match options.max {
        Some(Bound::At(number)) => number,
        Some(Bound::OfType) => own_max,
        None => kept(before.max, before_of_type.1, of_type.1),
    };
    let after = Sequence {
        data_type: data_type.clone(),
        start: options.start.unwrap_or(before.start),
        increment,
        min,
        max,
        cycle: options.cycle.unwrap_or(before.cycle),
        ..before.clone()
    };
    after.check()?;
    Ok(after)
}

/// Where a sequence stands that is to begin again.
fn restarted(sequence: &Sequence, options: &SequenceOptions) -> Result<Option<Counter>> {
    match options.restart {
        None => Ok(None),
        Some(Restart::AtStart) => Ok(Some(sequence.begin())),
        Some(Restart::With(number)) => sequence.counter(number, false).map(Some),
    }
}

async fn drop(session: &Arc<Shared>, names: &[String], if_exists: bool) -> Result<AnswerStream> {
    let visible = session.visible();
    let mut notices = Vec::new();
    let mut sink = Sink::of(session);
    let mut dropped = Vec::new();
    for name in names {
        let seen = match visible.require_sequence(name) {
            Err(error) if if_exists && error.kind() == ErrorKind::NotFound => {
                notices.push(Notice::note(format!("{}: skipped", error.message())));
                continue;
            }
            seen => seen?,
        };
        if dropped.contains(&seen.sequence.id) {
            continue;
        }
        dropped.push(seen.sequence.id);
        // Who may not drop it is not told what takes its numbers.
        session.gate_now().own_sequence(&seen.sequence)?;
        check_untaken(&visible, &seen.sequence)?;
        let sequence = as_stored(session, &seen);
        sink.change_table(TableChange::DropSequence(Arc::new(sequence)))?;
    }
    let token = sink.finish(session).await?;
    let answer = AnswerStream::done("DROP SEQUENCE", 0).with_token(token);
    Ok(answer.with_notices(notices))
}

/// Whether no column's default is the next number of a sequence.
fn check_untaken(visible: &Visible, sequence: &Sequence) -> Result<()> {
    for table in visible.tables() {
        let mut columns = table.columns.iter();
        let takes = columns.find(|column| column.default.sequence() == Some(sequence.id));
        if let Some(column) = takes {
            let (name, column, table) = (&sequence.name, &column.name, &table.name);
            return Err(
                Error::conflict(format!("sequence {name:?} can't be dropped"))
                    .with_detail(format!(
                        "column {column:?} of table {table:?} takes its numbers as default"
                    ))
                    .with_hint("ALTER TABLE ... ALTER COLUMN ... DROP DEFAULT first")
                    .with_sqlstate("2BP01"),
            );
        }
    }
    Ok(())
}
