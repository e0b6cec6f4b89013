//! Columns that number themselves, where their table is made: SERIAL, identity columns, and
//! defaults that are calls of nextval. Each of the first two has a sequence of its own, which ends
//! with it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::Expr;
use lazybase_model::limits::NAME_BYTES_MAX;
use lazybase_model::sequence::{Sequence, SequenceOwner};
use lazybase_model::{ColumnDefault, Error, IdentityKind, Result, SequenceId, Table};

use super::called::{name_of, next_of, takes_numbers};
use super::own::OwnSequence;
use crate::dml::defaults::{is_default, parse_expression};
use crate::parse::{Bound, CreateTable, OwnedBy, SequenceOptions, unsupported};
use crate::session::Shared;
use crate::visible::{TableChange, Visible};

/// How the names of sequences end that columns have of their own.
const ENDING: &str = "_seq";

/// A column of a table that is made, and its sequence, which has no owner yet.
pub(crate) type Planned = (String, Sequence);

/// The sequences of the columns of a table that is made, whose defaults they become. A default that
/// calls nextval names a sequence that is there.
///
/// # Errors
/// `Invalid`: 22023 for a column of no integer and for options that give no numbers, 0A000 where
/// nobody could number the rows; `Conflict` (42P07) for a name that is taken.
pub(crate) fn plan(session: &Shared, create: &mut CreateTable) -> Result<Vec<Planned>> {
    let visible = session.visible();
    for column in &mut create.columns {
        let default = std::mem::take(&mut column.default);
        column.default = resolved(&visible, create.temporary, default)?;
    }
    let mut planned: Vec<Planned> = Vec::with_capacity(create.numbered.len());
    for numbered in std::mem::take(&mut create.numbered) {
        let table = create.name.clone();
        let columns = &mut create.columns;
        let column = columns
            .iter_mut()
            .find(|column| column.name == numbered.column);
        let column =
            column.ok_or_else(|| Error::internal("a column is numbered that is not there"))?;
        let (named, temporary) = (numbered.options.name.clone(), create.temporary);
        let is_known = |name: &str| {
            let stored = stored_name(session, name, temporary);
            let mut planned = planned.iter();
            name == table
                || is_taken(&visible, name, temporary)
                || planned.any(|(_, sequence)| sequence.name == stored)
        };
        let name = match named {
            Some(name) if is_known(&name) => {
                let kind = visible.taken_by(&name).filter(|_| !temporary);
                return Err(taken(&name, kind));
            }
            Some(name) => name,
            None => own_name(&table, &column.name, is_known),
        };
        let id = session.instance().take_sequence_id();
        let name = stored_name(session, &name, temporary);
        let sequence = of_options(id, name, &column.data_type, &numbered.options)?;
        column.default = ColumnDefault::Next(id);
        column.identity = numbered.identity;
        planned.push((numbered.column, sequence));
    }
    let mut defaults = create.columns.iter().map(|column| &column.default);
    let owns_key = create
        .id_keys
        .iter()
        .any(|(_, reference)| reference.is_none());
    if owns_key && defaults.any(|default| default.sequence().is_some()) {
        return Err(
            unsupported("a table that owns an ID key can't have numbers as default")
                .with_detail("references to new keys make rows, which nobody could number"),
        );
    }
    Ok(planned)
}

/// What makes the sequences of a table's columns, once the table has its ids.
///
/// # Errors
/// `Internal` where a column is gone.
pub(crate) fn changes(planned: Vec<Planned>, table: &Table) -> Result<Vec<TableChange>> {
    let change = |(column, sequence): Planned| {
        let at = table.require_column(&column)?;
        let owner = SequenceOwner {
            table: table.id,
            column: table.columns[at].id,
        };
        let counter = Some(sequence.begin());
        let sequence = Sequence {
            owner: Some(owner),
            ..sequence
        };
        Ok(TableChange::CreateSequence(Arc::new(OwnSequence::new(
            sequence, counter,
        ))))
    };
    planned.into_iter().map(change).collect()
}

/// A default that a column is to have: a call of nextval is the sequence that it names. Whether its
/// numbers may be taken is asked of whoever takes one.
///
/// # Errors
/// As [`Visible::require_sequence`]; `Invalid` (0A000) for a call inside of something else.
pub(crate) fn resolved(
    visible: &Visible,
    of_temporary: bool,
    default: ColumnDefault,
) -> Result<ColumnDefault> {
    let ColumnDefault::Expression(text) = &default else {
        return Ok(default);
    };
    let expr = parse_expression(text)?;
    let Some(name) = next_of(&expr) else {
        return match takes_numbers(&expr) {
            false => Ok(default),
            true => Err(unsupported("that can't be a default")
                .with_detail("numbers of a sequence are a default by themselves alone")
                .with_hint("DEFAULT nextval('s')")),
        };
    };
    let seen = visible.require_sequence(&name_of(&name)?)?;
    match seen.is_temporary && !of_temporary {
        true => Err(
            unsupported("the sequence of a temporary table ends with its session")
                .with_hint("CREATE SEQUENCE makes one that stays"),
        ),
        false => Ok(ColumnDefault::Next(seen.sequence.id)),
    }
}

/// A sequence as its options say.
///
/// # Errors
/// `Invalid` (22023) for a type of no integers, and for options that give no numbers.
pub(super) fn of_options(
    id: SequenceId,
    name: String,
    data_type: &DataType,
    options: &SequenceOptions,
) -> Result<Sequence> {
    let data_type = options.data_type.as_ref().unwrap_or(data_type);
    if !matches!(
        data_type,
        DataType::Int16 | DataType::Int32 | DataType::Int64
    ) {
        return Err(Error::invalid(
            "columns that number themselves are SMALLINT, INTEGER or BIGINT",
        )
        .with_sqlstate("22023"));
    }
    let (least, greatest) = Sequence::bounds_of(data_type);
    let increment = options.increment.unwrap_or(1);
    let (min, max) = match increment >= 0 {
        true => (1, greatest),
        false => (least, -1),
    };
    let at = |bound: Option<Bound>, of_type: i64| match bound {
        Some(Bound::At(number)) => number,
        Some(Bound::OfType) | None => of_type,
    };
    let (min, max) = (at(options.min, min), at(options.max, max));
    let first = if increment >= 0 { min } else { max };
    let sequence = Sequence {
        data_type: data_type.clone(),
        start: options.start.unwrap_or(first),
        increment,
        min,
        max,
        cycle: options.cycle.unwrap_or(false),
        ..Sequence::new(id, name)
    };
    sequence.check()?;
    Ok(sequence)
}

/// The column that OWNED BY names, as an owner.
///
/// # Errors
/// As for a table (42P01) or a column (42703) that is not there; `Invalid` (42501) for a table of
/// somebody else.
pub(super) fn owner_of(session: &Shared, owned_by: &OwnedBy) -> Result<Option<SequenceOwner>> {
    let OwnedBy::Column { table, column } = owned_by else {
        return Ok(None);
    };
    let table = session.table(table)?;
    session.gate_now().own(&table)?;
    let at = table.require_column(column)?;
    Ok(Some(SequenceOwner {
        table: table.id,
        column: table.columns[at].id,
    }))
}

/// Whether a table, a view or a sequence has a name, as the session sees it.
pub(super) fn is_taken(visible: &Visible, name: &str, of_temporary: bool) -> bool {
    let named = visible.sequences();
    let mut named = named.iter().filter(|seen| seen.sequence.name == name);
    match of_temporary {
        true => named.any(|seen| seen.is_temporary),
        false => named.any(|seen| !seen.is_temporary) || visible.is_taken(name),
    }
}

/// A name is taken, by a thing of that kind where it is known.
pub(super) fn taken(name: &str, kind: Option<&str>) -> Error {
    let what = match kind {
        Some(kind) => format!("{name:?} is there already: a {kind}"),
        None => format!("{name:?} is there already"),
    };
    Error::conflict(what).with_sqlstate("42P07")
}

/// The name that a sequence is stored under.
pub(super) fn stored_name(session: &Shared, name: &str, of_temporary: bool) -> String {
    match of_temporary {
        true => session.temporary().stored(name),
        false => name.to_owned(),
    }
}

/// `t_c_seq`, or as much of it as a name may have, with a number where that is taken.
fn own_name(table: &str, column: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut number = 0_u32;
    loop {
        let ending = match number {
            0 => ENDING.to_owned(),
            number => format!("{ENDING}{number}"),
        };
        // Room is left for what stands before the names of temporary tables.
        let room = NAME_BYTES_MAX - ending.len() - 32;
        let mut name = format!("{table}_{column}");
        let mut end = room.min(name.len());
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        name += &ending;
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

/// Refuses numbers that an INSERT gives for a column which the database numbers always, unless all
/// of its rows of VALUES say DEFAULT there.
///
/// # Errors
/// `Invalid` (428C9).
pub(crate) fn check_given(table: &Table, given: &[usize], rows: &[Vec<Expr>]) -> Result<()> {
    for (place, at) in given.iter().enumerate() {
        let column = &table.columns[*at];
        let is_default = |row: &Vec<Expr>| row.get(place).is_some_and(is_default);
        let is_left = !rows.is_empty() && rows.iter().all(is_default);
        if column.identity == Some(IdentityKind::Always) && !is_left {
            return Err(numbered_always(&column.name)
                .with_hint("OVERRIDING SYSTEM VALUE gives it one all the same"));
        }
    }
    Ok(())
}

/// A column is given a value that the database numbers always.
pub(crate) fn numbered_always(name: &str) -> Error {
    Error::invalid(format!(
        "column {name:?} can't be given a value but DEFAULT"
    ))
    .with_detail("it is an identity column, GENERATED ALWAYS")
    .with_name(name)
    .with_sqlstate("428C9")
}
