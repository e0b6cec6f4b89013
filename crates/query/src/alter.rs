//! ALTER TABLE and COMMENT ON: the table's next definition, under a version of its own; a
//! transaction of its own, or a part of the session's. A primary key makes another table.
//!
//! Reads the definition that the session sees; writes nothing that is stored. A new column's value
//! for older rows is its default's value of this moment.

use std::sync::Arc;

use arrow::array::ArrayRef;
use lazybase_cluster::check_views;
use lazybase_engine::schema::{Alteration, altered, encode_cell};
use lazybase_model::table::ColumnStorage;
use lazybase_model::{
    Column, ColumnDefault, Error, ErrorKind, Layout, Result, SchemaVersion, Table,
};

use crate::answer::AnswerStream;
use crate::cast::{Place, checked_texts, to_column};
use crate::dml::defaults::{Defaults, parse_expression};
use crate::dml::sink::Sink;
use crate::floats::one_spelling;
use crate::id_keys::own::Buffered;
use crate::literal::{Literal, to_array};
use crate::notice::Notice;
use crate::parse::alter::{AlterStep, AlterTable};
use crate::parse::create::no_storage;
use crate::parse::unsupported;
use crate::plain_views;
use crate::sequences::columns::resolved;
use crate::session::Shared;
use crate::temporary;
use crate::visible::{TableChange, Visible};

mod primary_key;

/// How often a change is made anew for a table that other sessions change meanwhile.
const ATTEMPTS: usize = 16;
/// The same for a change that reads the table.
const READING_ATTEMPTS: usize = 4;

/// Does ALTER TABLE or COMMENT ON.
pub(crate) async fn alter(session: &Arc<Shared>, alter: AlterTable) -> Result<AnswerStream> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let visible = session.visible();
        if alter.of_view || visible.plain_view(&alter.name).is_some() {
            return plain_views::alter(session, &alter).await;
        }
        let before = match visible.require(&alter.name) {
            Err(_) if alter.if_exists => {
                let name = temporary::own_name(&alter.name);
                let notice = Notice::note(format!("there is no table {name:?}: skipped"));
                return Ok(AnswerStream::done(alter.tag, 0).with_notices([notice]));
            }
            found => found?,
        };
        session.gate_now().own(&before)?;
        if let [AlterStep::AddPrimaryKey(key)] = alter.steps.as_slice() {
            let added = Box::pin(primary_key::add(session, &alter.name, key));
            match added.await {
                Err(error) if attempts < READING_ATTEMPTS && is_stale(&error) => continue,
                Err(error) => return Err(error),
                Ok(token) => return Ok(AnswerStream::done(alter.tag, 0).with_token(token)),
            }
        }
        let mut notices = Vec::new();
        let changes = changes(session, &before, &alter.steps, &mut notices)?;
        let done = || AnswerStream::done(alter.tag, 0).with_notices(notices);
        if changes.is_empty() {
            return Ok(done());
        }
        let after = session.instance().define_alteration(&before, &changes)?;
        if after.name != before.name {
            check_free(&visible, &before, &after.name)?;
        }
        // Views that the transaction has made itself are known to nobody else before COMMIT.
        let views = visible.views_of(before.id);
        check_views(&before, &after, views.iter().map(Arc::as_ref))?;
        let readers = plain_views::check_readers(&visible, &before, &after, alter.cascade)?;
        let mut sink = Sink::of(session);
        let in_transaction = sink.in_transaction();
        for view in readers {
            sink.change_table(TableChange::DropPlainView(view))?;
        }
        sink.change_table(TableChange::Alter { before, after })?;
        match sink.finish(session).await {
            Err(error) if !in_transaction && attempts < ATTEMPTS && is_stale(&error) => {}
            Err(error) => return Err(error),
            Ok(token) => return Ok(done().with_token(token)),
        }
    }
}

/// Whether a table may have another name, as far as the session sees; a temporary one stands
/// before others.
fn check_free(visible: &Visible, table: &Table, name: &str) -> Result<()> {
    let is_temporary = visible.is_temporary(table.id);
    let named = match is_temporary {
        true => visible.table(&temporary::of_session(name)),
        false => visible.in_public(name),
    };
    let taken_by = || visible.taken_by(name).filter(|_| !is_temporary);
    let what = match named {
        Some(_) => format!("table {name:?} is there already"),
        None => match taken_by() {
            Some(kind) => format!("{name:?} is there already: a {kind}"),
            None => return Ok(()),
        },
    };
    Err(Error::conflict(what).with_sqlstate("42P07"))
}

/// Whether a table has another definition than what was prepared for it.
pub(crate) fn is_stale(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.sqlstate() == "40001"
}

/// The changes that the steps come to, one after the other.
fn changes(
    session: &Arc<Shared>,
    table: &Table,
    steps: &[AlterStep],
    notices: &mut Vec<Notice>,
) -> Result<Vec<Alteration>> {
    let mut changes = Vec::with_capacity(steps.len());
    let mut then = table.clone();
    let owned = table.owned_id();
    let visible = session.visible();
    let map = owned.and_then(|(_, map)| visible.by_id(map));
    let of_temporary = visible.is_temporary(table.id);
    let resolve = |default| resolved(&visible, of_temporary, default);
    for step in steps {
        let change = match step {
            AlterStep::Add {
                column,
                if_not_exists,
            } => {
                if *if_not_exists && then.column_index(&column.name).is_some() {
                    let said = format!("column {:?} is there already: skipped", column.name);
                    notices.push(Notice::note(said).with_sqlstate("42701"));
                    continue;
                }
                let default = resolve(column.default.clone())?;
                if default.sequence().is_some() {
                    return Err(no_numbers(&column.name));
                }
                if then.layout == Layout::Point && column.storage != ColumnStorage::default() {
                    return Err(no_storage());
                }
                Alteration::AddColumn(with_older(session, &then, column)?)
            }
            AlterStep::DropIfExists(name) => {
                if then.column_index(name).is_none() {
                    let said = format!("there is no column {name:?}: skipped");
                    notices.push(Notice::note(said));
                    continue;
                }
                Alteration::DropColumn(name.clone())
            }
            AlterStep::AddPrimaryKey(_) => {
                return Err(unsupported("ADD PRIMARY KEY stands alone in ALTER TABLE")
                    .with_detail("it writes all rows anew, and nothing else does")
                    .with_hint("ALTER TABLE once more for the rest"));
            }
            AlterStep::Change(Alteration::SetDefault { column, default }) => {
                Alteration::SetDefault {
                    column: column.clone(),
                    default: resolve(default.clone())?,
                }
            }
            AlterStep::Change(change) => change.clone(),
        };
        let before = then;
        then = altered(
            &before,
            std::slice::from_ref(&change),
            SchemaVersion(u32::MAX),
        )?;
        let defaulted = match &change {
            Alteration::SetDefault { column, .. } | Alteration::SetType { column, .. } => {
                then.columns.iter().find(|known| known.name == *column)
            }
            _ => None,
        };
        if let Some(column) = defaulted {
            default_value(session, &then.name, column)?;
        }
        if let Some(map) = &map {
            check_made_by_references(session, map, (&before, &then), &change)?;
        }
        changes.push(change);
    }
    Ok(changes)
}

/// A column can't be added whose older rows would each need a number of their own.
fn no_numbers(name: &str) -> Error {
    unsupported(format!(
        "column {name:?} can't be added with numbers as default"
    ))
    .with_detail("rows that are there would all hold one number")
    .with_hint("ADD COLUMN without a default, then ALTER COLUMN ... SET DEFAULT nextval(...)")
}

/// Whether the rows of an owner that references make can have the default that a column gets. They
/// are made by the key map, which has the columns that had a default when both tables were made. In
/// any other, such rows hold what rows do that are older than the column.
fn check_made_by_references(
    session: &Arc<Shared>,
    map: &Table,
    (before, owner): (&Table, &Table),
    change: &Alteration,
) -> Result<()> {
    let (name, hint) = match change {
        Alteration::AddColumn(column) => (
            &column.name,
            "leave the default out, or let it be a constant",
        ),
        Alteration::SetDefault { column, .. } => (
            column,
            "DROP COLUMN, and ADD COLUMN with the default that is wanted",
        ),
        _ => return Ok(()),
    };
    let Some(at) = owner.column_index(name) else {
        return Ok(());
    };
    let column = &owner.columns[at];
    let is_known = |known: &Column| known.id == column.id;
    let is_fixed = match before.columns.iter().find(|known| is_known(known)) {
        Some(before) => before.default == column.default,
        None => !Defaults::of(owner)?.generate(&session.constants(), at, None),
    };
    if is_fixed || map.columns.iter().any(is_known) {
        return Ok(());
    }
    let table = &owner.name;
    let refused = unsupported(format!(
        "column {name:?} of table {table:?} can't have that default"
    ));
    Err(refused
        .with_detail(
            "references to new keys make rows of the table; in a column that was added to it, or \
             had no default at first, they hold what older rows do",
        )
        .with_hint(hint))
}

/// The column with what rows hold in it that are older than it.
fn with_older(session: &Arc<Shared>, table: &Table, column: &Column) -> Result<Column> {
    let value = default_value(session, &table.name, column)?;
    let older = match value {
        Some(value) => encode_cell(&value)?,
        None => None,
    };
    Ok(Column {
        older,
        ..column.clone()
    })
}

/// The value of a column's default at this moment: one cell. `None` where it has no default.
///
/// # Errors
/// `Invalid` when the default is no value of the column.
pub(crate) fn default_value(
    session: &Arc<Shared>,
    table: &str,
    column: &Column,
) -> Result<Option<ArrayRef>> {
    let ColumnDefault::Expression(text) = &column.default else {
        return Ok(None);
    };
    let place = Place {
        table,
        column,
        first_row: 1,
    };
    let value = || {
        let expr = parse_expression(text)?;
        let value = match Literal::of(&expr) {
            Some(literal) => to_array(&[literal], &place),
            None => {
                let (context, _) = session.context(None, Buffered::default(), None);
                let value = context.constant(&expr, 1);
                value.and_then(|value| to_column(&value, &place))
            }
        };
        checked_texts(value?, &place).map(|value| one_spelling(&value, false))
    };
    let within =
        |error: Error| error.within(format_args!("the default of column {:?}", column.name));
    value().map(Some).map_err(within)
}
