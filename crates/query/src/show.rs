//! Statements that need nothing but the session and the manifest: BEGIN, savepoints, SET, SHOW,
//! RESET, DESCRIBE.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::sqlparser::tokenizer::Span;
use lazybase_model::{Column, Error, Result, Table};

use crate::answer::AnswerStream;
use crate::definition;
use crate::error::{from_arrow, unknown_system_table};
use crate::notice::Notice;
use crate::parse::{SCHEMA, SYSTEM_SCHEMA, Statement};
use crate::pg_catalog::sequences;
use crate::plain_views::text;
use crate::session::{Shared, State};
use crate::settings::listed::Listed;
use crate::settings::{self, READ_ONLY};
use crate::system_tables;
use crate::text_places::at_span;
use crate::told::Told;
use crate::transaction::Transaction;
use crate::types;
use crate::visible::Visible;

/// Does a statement of this kind.
pub(crate) fn local(session: &Arc<Shared>, statement: Statement) -> Result<AnswerStream> {
    match statement {
        Statement::ShowTables => return show_tables(session),
        Statement::ShowViews => return show_views(session),
        Statement::Describe { schema, name } => {
            return match schema {
                Some(schema) => describe_system(session, &schema, &name),
                None => describe(session, &name),
            };
        }
        Statement::ShowCreate { name, of_view } => return show_create(session, &name, of_view),
        _ => {}
    }
    let mut state = session.state.lock();
    match statement {
        Statement::Begin { read_only } => Ok(begin(&mut state, read_only)),
        Statement::SetTransaction { read_only } => {
            let transaction = transaction(&mut state, "SET TRANSACTION")?;
            if transaction.snapshot.is_some() || !transaction.buffer.is_empty() {
                return Err(Error::invalid("SET TRANSACTION must come before any query")
                    .with_sqlstate("25001"));
            }
            transaction.read_only = read_only.unwrap_or(transaction.read_only);
            Ok(AnswerStream::done("SET", 0))
        }
        Statement::SetCharacteristics { read_only } => characteristics(&mut state, read_only),
        Statement::Rollback { chain } => rollback(&mut state, chain),
        Statement::Savepoint(name) => {
            let (settings, acts_as) = (state.settings.clone(), state.identity);
            own(&mut state, "SAVEPOINT")?.savepoint(name, settings, acts_as);
            Ok(AnswerStream::done("SAVEPOINT", 0))
        }
        Statement::RollbackTo(name) => {
            let (settings, acts_as) = own(&mut state, "ROLLBACK TO")?.rollback_to(&name)?;
            state.settings = settings;
            state.identity = acts_as;
            Ok(AnswerStream::done("ROLLBACK", 0))
        }
        Statement::Release(name) => {
            own(&mut state, "RELEASE")?.release(&name)?;
            Ok(AnswerStream::done("RELEASE", 0))
        }
        Statement::Set { local: true, .. } if state.transaction.is_none() => {
            let notice = Notice::warning("SET LOCAL changes nothing outside of a transaction");
            Ok(AnswerStream::done("SET", 0).with_notices([notice.with_sqlstate("25P01")]))
        }
        Statement::Set {
            name,
            value,
            local,
            at,
        } => set(&mut state, &name, value.as_deref(), local, at),
        Statement::Reset(Some(name)) => {
            let reset = state.set(&name, None, false);
            reset.map_err(|error| named(error, &name))?;
            Ok(AnswerStream::done("RESET", 0))
        }
        Statement::Reset(None) => {
            state.reset()?;
            Ok(AnswerStream::done("RESET", 0))
        }
        Statement::Show(name) => {
            let told = Told::of(&state, &session.database);
            let settings = state.settings.clone().with_told(told);
            if name == "all" {
                return show_all(settings.listed());
            }
            let value = settings.show(&name);
            let value = value.map_err(|error| named(error, &name))?;
            let column = name.rsplit('.').next().unwrap_or(&name).to_owned();
            answer(vec![(column.as_str(), texts(vec![Some(value)]))], "SHOW")
        }
        other => Err(Error::internal(format!(
            "a statement was left over: {other:?}"
        ))),
    }
}

/// Sets a setting, and says so where that does nothing.
fn set(
    state: &mut State,
    name: &str,
    value: Option<&str>,
    local: bool,
    at: [Span; 2],
) -> Result<AnswerStream> {
    let set = state.set(name, value, local);
    set.map_err(|error| located(error, at))?;
    let notice = value.and_then(|value| settings::notice(name, value));
    Ok(AnswerStream::done("SET", 0).with_notices(notice))
}

/// An error of SET, with the place of its name or its value, whichever it is about.
fn located(error: Error, [name, value]: [Span; 2]) -> Error {
    match error.sqlstate() {
        "42704" | "55P02" => at_span(error, name),
        "22023" | "0A000" | "3F000" => at_span(error, value),
        _ => error,
    }
}

/// An error of a statement that names one setting, and nothing else.
fn named(error: Error, name: &str) -> Error {
    match error.sqlstate() {
        "42704" | "55P02" => error.with_name(name.rsplit('.').next().unwrap_or(name)),
        _ => error,
    }
}

/// What the session's transactions are from here on.
fn characteristics(state: &mut State, read_only: Option<bool>) -> Result<AnswerStream> {
    if let Some(read_only) = read_only {
        let value = if read_only { "on" } else { "off" };
        state.set(READ_ONLY, Some(value), false)?;
    }
    Ok(AnswerStream::done("SET", 0))
}

/// A transaction begins, unless one has.
fn begin(state: &mut State, read_only: Option<bool>) -> AnswerStream {
    let read_only = read_only.unwrap_or(state.settings.read_only);
    let begun = AnswerStream::done("BEGIN", 0);
    match &mut state.transaction {
        None => state.begin(read_only, false),
        Some(transaction) if transaction.implicit => {
            // What came before it in the same message, or pipeline, is part of it.
            transaction.implicit = false;
            transaction.read_only = read_only;
        }
        Some(_) => {
            let notice = Notice::warning("there is already a transaction in progress");
            return begun.with_notices([notice.with_sqlstate("25001")]);
        }
    }
    begun
}

/// The transaction ends, and nothing of it is kept; with `chain`, one that is like it begins.
fn rollback(state: &mut State, chain: bool) -> Result<AnswerStream> {
    if chain {
        own(state, "ROLLBACK AND CHAIN")?;
    }
    let ended = AnswerStream::done("ROLLBACK", 0);
    let Some(transaction) = state.take() else {
        return Ok(ended.with_notices([nothing_to_end()]));
    };
    if chain {
        state.begin(transaction.read_only, false);
    }
    Ok(ended)
}

/// What COMMIT and ROLLBACK say outside of a transaction.
pub(crate) fn nothing_to_end() -> Notice {
    Notice::warning("there is no transaction in progress").with_sqlstate("25P01")
}

/// All views: of secondary ones their tables, and the queries of all.
fn show_views(session: &Arc<Shared>) -> Result<AnswerStream> {
    let visible = session.visible();
    let mut views = visible.views();
    views.extend(visible.plain_views());
    let gate = session.gate_now();
    views.retain(|view| gate.sees(view));
    views.sort_by(|a, b| a.name.cmp(&b.name));
    let of = |view: &Arc<Table>| visible.table_of(view).map(|table| table.name.clone());
    answer(
        vec![
            (
                "view_name",
                texts(views.iter().map(|view| Some(view.name.clone())).collect()),
            ),
            ("table_name", texts(views.iter().map(of).collect())),
            (
                "definition",
                texts(
                    views
                        .iter()
                        .map(|view| Some(crate::views::definition(&visible, view)))
                        .collect(),
                ),
            ),
        ],
        "SHOW",
    )
}

/// The statements that make a table and its views again, or a view.
fn show_create(session: &Arc<Shared>, name: &str, of_view: bool) -> Result<AnswerStream> {
    let visible = session.visible();
    let gate = session.gate_now();
    let made = match of_view {
        true => {
            let view = visible.view(name).or_else(|| visible.plain_view(name));
            let view = view.ok_or_else(|| crate::views::no_view(&visible, name))?;
            gate.look(&view)?;
            match view.query {
                Some(_) => text::statements(&visible, &view),
                None => vec![definition::of_view(&visible, &view)],
            }
        }
        false => {
            if let Some(view) = visible.plain_view(name) {
                gate.look(&view)?;
                return made_by(text::statements(&visible, &view));
            }
            let table = visible.require(name)?;
            gate.look(&table)?;
            definition::of_table(&visible, &table)?
        }
    };
    made_by(made)
}

/// Statements, each with the name of what it makes.
fn made_by(made: Vec<(String, String)>) -> Result<AnswerStream> {
    let (names, texts_of): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    answer(
        vec![
            ("name", texts(names.into_iter().map(Some).collect())),
            (
                "definition",
                texts(texts_of.into_iter().map(Some).collect()),
            ),
        ],
        "SHOW",
    )
}

/// The names of all tables.
fn show_tables(session: &Arc<Shared>) -> Result<AnswerStream> {
    let mut tables = session.visible().tables();
    let gate = session.gate_now();
    tables.retain(|table| gate.sees(table));
    let mut names: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
    names.sort();
    let schemas = names.iter().map(|_| Some(SCHEMA.to_owned())).collect();
    let names = names.into_iter().map(Some).collect();
    answer(
        vec![
            ("schema_name", texts(schemas)),
            ("table_name", texts(names)),
        ],
        "SHOW",
    )
}

/// The transaction that the client itself has begun.
///
/// # Errors
/// `Invalid` (25P01) where there is none.
pub(crate) fn own<'s>(state: &'s mut State, statement: &str) -> Result<&'s mut Transaction> {
    let own = state
        .transaction
        .as_ref()
        .is_some_and(|open| !open.implicit);
    match own {
        true => transaction(state, statement),
        false => Err(no_transaction(statement)),
    }
}

fn no_transaction(statement: &str) -> Error {
    Error::invalid(format!("{statement} needs a transaction"))
        .with_hint("write BEGIN first")
        .with_sqlstate("25P01")
}

fn transaction<'s>(state: &'s mut State, statement: &str) -> Result<&'s mut Transaction> {
    let open = state.transaction.as_mut();
    open.ok_or_else(|| no_transaction(statement))
}

fn show_all(all: Vec<Listed>) -> Result<AnswerStream> {
    let (mut names, mut values, mut descriptions) = (vec![], vec![], vec![]);
    for setting in all {
        names.push(Some(setting.name.to_owned()));
        values.push(Some(setting.value));
        descriptions.push(Some(setting.description.to_owned()));
    }
    answer(
        vec![
            ("name", texts(names)),
            ("value", texts(values)),
            ("description", texts(descriptions)),
        ],
        "SHOW",
    )
}

/// The columns of a table or a view.
fn describe(session: &Arc<Shared>, name: &str) -> Result<AnswerStream> {
    let table = session
        .table(name)
        .or_else(|error| session.visible().relation(name).ok_or(error))?;
    session.gate_now().look(&table)?;
    let columns = &table.columns[..table.visible_columns()];
    // Nobody writes to a view: what its table says there is for new rows.
    let visible = session.visible();
    let defaults = columns.iter().map(|column| match table.view_of {
        None => default_text(&visible, column),
        Some(_) => None,
    });
    columns_answer(columns, &table.key_indices(), defaults.collect())
}

/// What a column gets where a row gives it no value.
pub(crate) fn default_text(visible: &Visible, column: &Column) -> Option<String> {
    let identity = column.identity;
    let generated =
        identity.map(|kind| format!("GENERATED {} AS IDENTITY", sequences::generation(kind)));
    generated.or_else(|| sequences::default_of(visible, column))
}

/// The columns of a system table.
fn describe_system(session: &Arc<Shared>, schema: &str, name: &str) -> Result<AnswerStream> {
    if schema != SYSTEM_SCHEMA {
        return Err(
            Error::invalid(format!("DESCRIBE is not for tables of {schema}"))
                .with_hint(format!(
                    "SELECT column_name, data_type FROM information_schema.columns \
                 WHERE table_schema = '{schema}' AND table_name = '{name}'"
                ))
                .with_sqlstate("0A000"),
        );
    }
    let gate = session.gate_now();
    system_tables::check(name, &gate)?;
    let settings = session.state.lock().settings.clone();
    let rows = system_tables::rows(name, session.instance(), &settings, &gate)?;
    let rows = rows.ok_or_else(|| {
        unknown_system_table(SYSTEM_SCHEMA, name, system_tables::NAMES.into_iter())
    })?;
    let column = |field: &Arc<Field>| Column::new(field.name(), field.data_type().clone());
    let columns: Vec<Column> = rows.schema().fields().iter().map(column).collect();
    columns_answer(&columns, &[], vec![None; columns.len()])
}

/// Columns as DESCRIBE shows them, with the positions of the key among them.
fn columns_answer(
    columns: &[Column],
    key: &[usize],
    defaults: Vec<Option<String>>,
) -> Result<AnswerStream> {
    let place = |at: usize| key.iter().position(|index| *index == at);
    answer(
        vec![
            (
                "column_name",
                texts(columns.iter().map(|c| Some(c.name.clone())).collect()),
            ),
            (
                "data_type",
                texts(
                    columns
                        .iter()
                        .map(|c| Some(types::declared_name(c)))
                        .collect(),
                ),
            ),
            ("nullable", {
                let nullable = columns.iter().map(|column| Some(column.nullable));
                Arc::new(nullable.collect::<BooleanArray>()) as ArrayRef
            }),
            ("key", {
                let places =
                    (0..columns.len()).map(|at| place(at).map(|place| (place + 1).to_string()));
                texts(places.collect())
            }),
            ("default", texts(defaults)),
            (
                "comment",
                texts(columns.iter().map(|c| c.comment.clone()).collect()),
            ),
        ],
        "DESCRIBE",
    )
}

fn texts(values: Vec<Option<String>>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

fn answer(columns: Vec<(&str, ArrayRef)>, word: &'static str) -> Result<AnswerStream> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| {
            debug_assert!(matches!(
                column.data_type(),
                DataType::Utf8 | DataType::Boolean
            ));
            Field::new(*name, column.data_type().clone(), true)
        })
        .collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| from_arrow(&error))?;
    Ok(AnswerStream::of_batch(word, batch))
}
