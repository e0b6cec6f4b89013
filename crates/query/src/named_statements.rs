//! Statements that a session keeps under names: those of PREPARE, and those that a client of
//! PostgreSQL's protocol has named. Both share their names, and each way runs those of the other.
//!
//! ```text
//!   PREPARE p (int) AS SELECT ... $1    -> read, types found -> Named, until DEALLOCATE
//!   EXECUTE p (1 + 1)                   arguments -> values of the parameters' types -> it runs
//!   EXPLAIN EXECUTE p (1 + 1)           -> EXPLAIN SELECT ... 2
//! ```
//!
//! Keeps memory only, and nothing of it in a transaction: ROLLBACK leaves what was prepared.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::sql::sqlparser::ast::{self, CastKind, Expr};
use futures::future::BoxFuture;
use lazybase_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::answer::AnswerStream;
use crate::clauses::Clauses;
use crate::context::Constants;
use crate::literal::Literal;
use crate::parse::array_of_text;
use crate::parse::named::{self, Execution, NamedStatement};
use crate::parse::parameters::sql_name;
use crate::pg_catalog::types::format_type;
use crate::pg_catalog::{Cell, Row};
use crate::planner::sql_types;
use crate::prepared::{Kept, Prepared};
use crate::session::{Session, Shared};
use crate::value::Value;
use crate::{pg_type_of, types};

#[cfg(test)]
mod tests;

/// The most that a session keeps.
const KEPT_MAX: usize = 10_000;
/// The most bytes that their texts have.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The statements of one session by their names.
#[derive(Debug, Default)]
pub(crate) struct NamedStatements(Mutex<ByName>);

#[derive(Debug, Default)]
struct ByName {
    all: BTreeMap<String, Arc<Named>>,
    /// What all their texts have.
    bytes: usize,
}

#[derive(Debug)]
struct Named {
    /// As the client wrote it, PREPARE included.
    sql: String,
    /// Of all parameters: those that were declared, were they more, and those that it has.
    types: Vec<DataType>,
    from_sql: bool,
    /// When it was prepared, in microseconds since 1970.
    at_micros: i64,
    /// `None` for what only its client's connection can run.
    kept: Option<Kept>,
}

impl Named {
    /// Whether the texts of a parameter, counted from 0, are JSON.
    fn takes_json(&self, at: usize) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|kept| kept.takes_json(at))
    }
}

impl Session {
    /// Keeps a statement that was prepared for a client under a name; `sql` is its text. One that
    /// only the client's connection can run comes without a [`Prepared`].
    ///
    /// # Errors
    /// `Conflict` (42P05) for a name that is taken, `Unavailable` (53400) above the limits.
    pub fn keep_statement(&self, name: &str, sql: &str, prepared: Option<&Prepared>) -> Result<()> {
        let shared = self.shared();
        shared.named.insert(
            name,
            Named {
                sql: sql.to_owned(),
                types: prepared.map_or_else(Vec::new, |prepared| types_of(prepared, &[])),
                from_sql: false,
                at_micros: shared.instance().env().clock.wall_micros(),
                kept: prepared.map(Prepared::kept),
            },
        )
    }

    /// Whether the session keeps a statement of that name.
    pub fn keeps_statement(&self, name: &str) -> bool {
        self.shared().named.0.lock().all.contains_key(name)
    }

    /// The statement that PREPARE has kept under a name, and the types of all its parameters.
    pub fn kept_statement(&self, name: &str) -> Option<(Prepared, Vec<DataType>)> {
        let shared = self.shared();
        let named = shared.named.0.lock().all.get(name).cloned()?;
        let kept = named.kept.as_ref().filter(|_| named.from_sql)?;
        Some((kept.within(Arc::clone(shared)), named.types.clone()))
    }

    /// Keeps the statement of that name no longer, if there is one.
    pub fn forget_statement(&self, name: &str) {
        self.shared().named.0.lock().remove(name);
    }

    /// Keeps no statements any more.
    pub fn forget_statements(&self) {
        *self.shared().named.0.lock() = ByName::default();
    }
}

impl ByName {
    fn insert(&mut self, name: &str, statement: Named) -> Result<()> {
        if self.all.contains_key(name) {
            return Err(taken(name));
        }
        let bytes = self.bytes + statement.sql.len();
        if self.all.len() >= KEPT_MAX || bytes > KEPT_BYTES_MAX {
            return Err(Error::unavailable("too many prepared statements")
                .with_hint("DEALLOCATE those that are not needed")
                .with_sqlstate("53400"));
        }
        self.bytes = bytes;
        self.all.insert(name.to_owned(), Arc::new(statement));
        Ok(())
    }

    /// Whether there was one.
    fn remove(&mut self, name: &str) -> bool {
        let removed = self.all.remove(name);
        self.bytes -= removed.as_ref().map_or(0, |kept| kept.sql.len());
        removed.is_some()
    }
}

impl NamedStatements {
    fn insert(&self, name: &str, statement: Named) -> Result<()> {
        self.0.lock().insert(name, statement)
    }

    fn get(&self, name: &str) -> Result<Arc<Named>> {
        let named = self.0.lock().all.get(name).cloned();
        named.ok_or_else(|| unknown(name))
    }

    fn deallocate(&self, name: Option<&str>) -> Result<&'static str> {
        let mut named = self.0.lock();
        match name {
            None => {
                *named = ByName::default();
                Ok("DEALLOCATE ALL")
            }
            Some(name) => match named.remove(name) {
                true => Ok("DEALLOCATE"),
                false => Err(unknown(name)),
            },
        }
    }

    /// The rows of `pg_prepared_statements`.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let named = self.0.lock();
        let rows = named.all.iter().map(|(name, statement)| {
            let types = statement.types.iter().enumerate();
            let types = types.map(|(at, of)| match statement.takes_json(at) {
                true => "json".to_owned(),
                false => type_name(of),
            });
            vec![
                ("name", name.clone().into()),
                ("statement", statement.sql.clone().into()),
                ("prepare_time", Cell::Moment(statement.at_micros)),
                ("parameter_types", Cell::Texts(types.collect())),
                ("from_sql", statement.from_sql.into()),
            ]
        });
        rows.collect()
    }
}

/// The name of a parameter's type in SQL.
fn type_name(data_type: &DataType) -> String {
    match *data_type == types::UUID {
        true => "uuid".to_owned(),
        false => format_type(pg_type_of(&Field::new("", data_type.clone(), true)), None),
    }
}

/// Does PREPARE, EXECUTE or DEALLOCATE; `sql` is its text.
pub(crate) fn run<'a>(
    session: &'a Arc<Shared>,
    statement: NamedStatement,
    sql: &'a str,
) -> BoxFuture<'a, Result<AnswerStream>> {
    Box::pin(async move {
        match statement {
            NamedStatement::Prepare { name, types, text } => {
                prepare(session, &name, &types, &text, sql).await?;
                Ok(AnswerStream::done("PREPARE", 0))
            }
            NamedStatement::Execute(execution) => {
                let (prepared, values) = bound(session, &execution)?;
                // The places of its text are not those of this one.
                prepared.run(&values).await.map_err(Error::elsewhere)
            }
            NamedStatement::Deallocate(name) => {
                let tag = session.named.deallocate(name.as_deref())?;
                Ok(AnswerStream::done(tag, 0))
            }
        }
    })
}

async fn prepare(
    session: &Arc<Shared>,
    name: &str,
    declared: &[ast::DataType],
    text: &str,
    sql: &str,
) -> Result<()> {
    let types: Result<Vec<Option<DataType>>> = declared.iter().map(declared_type).collect();
    let types = types?;
    let preparing = Box::pin(Prepared::new(Arc::clone(session), text, &types));
    let is_json = |at: usize| declared.get(at).is_some_and(sql_types::is_any_json);
    let prepared = preparing.await?.declared_json(is_json);
    let kept = prepared.kept();
    if !kept.may_be_executed() {
        return Err(Error::invalid("this statement can't be prepared")
            .with_detail("PREPARE is for SELECT, VALUES, INSERT, UPDATE and DELETE")
            .with_sqlstate("42601"));
    }
    // What else is wrong may come of not knowing the values.
    if let Err(error) = prepared.columns().await
        && error.kind() == ErrorKind::NotFound
    {
        return Err(error);
    }
    session.named.insert(
        name,
        Named {
            sql: sql.to_owned(),
            types: types_of(&prepared, &types),
            from_sql: true,
            at_micros: session.instance().env().clock.wall_micros(),
            kept: Some(kept),
        },
    )
}

/// The type that a parameter is declared with; none for PostgreSQL's `unknown`.
fn declared_type(sql_type: &ast::DataType) -> Result<Option<DataType>> {
    if sql_type.to_string().eq_ignore_ascii_case("unknown") {
        return Ok(None);
    }
    match sql_types::of_parameter(sql_type) {
        Some(data_type) => Ok(Some(data_type)),
        None => types::from_sql(sql_type).map(Some),
    }
}

/// The types of all parameters; those of which nothing is known are texts.
fn types_of(prepared: &Prepared, declared: &[Option<DataType>]) -> Vec<DataType> {
    let found = prepared.parameter_types();
    let one = |at: usize| {
        let known = found.get(at).and_then(Option::as_ref);
        let known = known.or_else(|| declared.get(at)?.as_ref());
        known.cloned().unwrap_or(DataType::Utf8)
    };
    (0..found.len().max(declared.len())).map(one).collect()
}

/// The statement that an EXECUTE names.
///
/// # Errors
/// `NotFound` (26000) when there is none of that name, `Invalid` (0A000) for one that only its
/// client's connection can run.
pub(crate) fn prepared(session: &Arc<Shared>, execution: &Execution) -> Result<Prepared> {
    let named = session.named.get(&execution.name)?;
    within(session, &named)
}

fn within(session: &Arc<Shared>, named: &Named) -> Result<Prepared> {
    match named.kept.as_ref().filter(|kept| kept.may_be_executed()) {
        Some(kept) => Ok(kept.within(Arc::clone(session))),
        None => Err(Error::invalid("this statement can't be run by EXECUTE")
            .with_detail("EXECUTE is for SELECT, VALUES, INSERT, UPDATE and DELETE")
            .with_sqlstate("0A000")),
    }
}

/// The statement that an EXECUTE names, and the values of its arguments.
fn bound(session: &Arc<Shared>, execution: &Execution) -> Result<(Prepared, Vec<Value>)> {
    let Execution { name, arguments } = execution;
    let named = session.named.get(name)?;
    let prepared = within(session, &named)?;
    if arguments.len() != named.types.len() {
        return Err(Error::invalid(format!(
            "wrong number of values for the prepared statement {name:?}"
        ))
        .with_detail(format!(
            "it has {} parameters, {} values are given",
            named.types.len(),
            arguments.len()
        ))
        .with_sqlstate("42601"));
    }
    let constants = session.constants();
    let values = arguments.iter().zip(&named.types).enumerate();
    let values = values.map(|(at, (argument, data_type))| {
        let value = value(&constants, argument, data_type)?;
        Ok(match value {
            Value::Text(text) if named.takes_json(at) => Value::Json(text),
            value => value,
        })
    });
    let mut values = values.collect::<Result<Vec<Value>>>()?;
    // More may be declared than the statement has.
    values.truncate(prepared.parameters());
    Ok((prepared, values))
}

/// The value of an argument as the type of its parameter.
fn value(constants: &Constants, argument: &Expr, wanted: &DataType) -> Result<Value> {
    let literal = match argument {
        Expr::Value(_) | Expr::UnaryOp { .. } => Literal::of(argument),
        _ => None,
    };
    if let Some(value) = literal.and_then(|literal| as_written(literal, wanted)) {
        return Ok(value);
    }
    let mut cast = sql_name(wanted).map(|data_type| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(argument.clone()),
        data_type,
        array: false,
        format: None,
    });
    if let Some(cast) = cast.as_mut().filter(|_| wanted.is_list()) {
        array_of_text(cast)?;
    }
    let expr = cast.as_ref().unwrap_or(argument);
    Value::only(&constants.context().constant(expr, 1)?)
}

/// The value that a constant of the wanted type is: the planner is not needed for it.
fn as_written(literal: Literal, wanted: &DataType) -> Option<Value> {
    let is_plain = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit() || b"-.".contains(&b))
    };
    match (literal, wanted) {
        (Literal::Null, _) => Some(Value::Null),
        (Literal::Bool(value), DataType::Boolean) => Some(Value::Bool(value)),
        (Literal::Text(text), DataType::Utf8) => Some(Value::Text(text)),
        (Literal::Number(text), DataType::Int16) => text.parse::<i16>().ok().map(Value::from),
        (Literal::Number(text), DataType::Int32) => text.parse::<i32>().ok().map(Value::from),
        (Literal::Number(text), DataType::Int64) => text.parse::<i64>().ok().map(Value::from),
        // All of its digits stay: the type is declared without saying how many.
        (Literal::Number(text), DataType::Decimal128(..) | DataType::Decimal256(..)) => {
            is_plain(&text).then_some(Value::Decimal(text))
        }
        _ => None,
    }
}

/// Puts the statement that EXPLAIN EXECUTE names in the place of the EXECUTE, with its clauses
/// where the EXPLAIN has none; whether there was one.
pub(crate) fn spell_out(
    session: &Arc<Shared>,
    explained: &mut ast::Statement,
    clauses: &mut Clauses,
) -> Result<bool> {
    let ast::Statement::Explain { statement, .. } = explained else {
        return Ok(false);
    };
    if !matches!(statement.as_ref(), ast::Statement::Execute { .. }) {
        return Ok(false);
    }
    let execution = named::execution(statement.as_ref().clone())?;
    let (prepared, values) = bound(session, &execution)?;
    let (tree, own) = prepared.with_values(&values)?;
    **statement = tree;
    if clauses.is_empty() {
        *clauses = own;
    }
    Ok(true)
}

fn taken(name: &str) -> Error {
    Error::conflict(format!("there is a prepared statement {name:?} already"))
        .with_sqlstate("42P05")
}

fn unknown(name: &str) -> Error {
    Error::not_found(format!("there is no prepared statement {name:?}")).with_sqlstate("26000")
}
