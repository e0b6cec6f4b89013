//! DoPut: statements that write, rows of parameters for them, and ingests.
//!
//! Invariant FLP-1: what one DoPut brings is one atomic batch, or part of its transaction; a stream
//! that breaks off leaves nothing.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use arrow_flight::sql::{
    Command, CommandPreparedStatementQuery, CommandStatementIngest, DoPutPreparedStatementResult,
    TableExistsOption, TableNotExistOption,
};
use bytes::Bytes;
use lazybase_model::{Error, Result};
use lazybase_query::{IfAbsent, IfPresent, Ingest, Session};
use prost::Message;

use crate::answers::{Asked, bound};
use crate::calls::{self, Told};
use crate::catalog::{CATALOG, SCHEMA};
use crate::failure::broken;
use crate::input::Incoming;
use crate::service::{Call, Service, handle};
use crate::statements::Statement;
use crate::stream::limited;
use crate::words;

/// What a DoPut came to.
pub(crate) struct Put {
    pub(crate) result: Bytes,
    pub(crate) told: Option<Told>,
}

impl From<Told> for Put {
    fn from(told: Told) -> Put {
        Put {
            result: told.update_result(),
            told: Some(told),
        }
    }
}

impl Service {
    /// Does what a client puts.
    pub(crate) async fn put(&self, call: &Call, incoming: Incoming) -> Result<Put> {
        match incoming.command.clone() {
            Command::CommandStatementUpdate(update) => {
                let session = self.runner(call, update.transaction_id.as_ref())?;
                if words::is_of_session(&update.query) {
                    call.check_kept(&session, "the statement")?;
                }
                let prepared = Arc::new(session.prepare(&update.query).await?);
                let asked = Asked {
                    sql: update.query,
                    session,
                    prepared,
                    bound: None,
                };
                self.run(&asked).await.map(Put::from)
            }
            Command::CommandPreparedStatementUpdate(update) => {
                let handle = &update.prepared_statement_handle;
                let statement = self.statements.prepared(handle)?;
                self.update_prepared(call, &statement, incoming).await
            }
            Command::CommandPreparedStatementQuery(query) => self.bind(query, incoming).await,
            Command::CommandStatementIngest(ingest) => {
                self.ingest(call, ingest, incoming).await.map(Put::from)
            }
            Command::CommandStatementSubstraitPlan(_) => Err(no_substrait()),
            other => Err(broken(format!("{} can't be put", other.type_url()))),
        }
    }

    /// Runs a prepared statement once for each row that comes.
    async fn update_prepared(
        &self,
        call: &Call,
        statement: &Statement,
        incoming: Incoming,
    ) -> Result<Put> {
        let (session, prepared) = self.prepared_in(call, statement)?;
        if words::is_of_session(&statement.sql) {
            call.check_kept(&session, "the statement")?;
        }
        let batches = incoming.batches().await?;
        let earlier = statement
            .bound
            .lock()
            .as_ref()
            .map(|(bound, _)| bound.clone());
        let asked = Asked {
            sql: statement.sql.clone(),
            session: Arc::clone(&session),
            prepared: Arc::clone(&prepared),
            bound: earlier.filter(|_| batches.schema.fields().is_empty()),
        };
        if prepared.parameters() == 0 || asked.bound.is_some() {
            return self.run(&asked).await.map(Put::from);
        }
        let work = async {
            let answer = prepared.execute_rows(batches.schema, batches.rows).await?;
            Ok(Told::of(&answer, &session))
        };
        let told = limited(&session, false, &self.stop, Box::pin(work)).await?;
        Ok(Put::from(told))
    }

    /// Keeps rows of parameters for a query.
    async fn bind(&self, query: CommandPreparedStatementQuery, incoming: Incoming) -> Result<Put> {
        let handle = query.prepared_statement_handle;
        let statement = self.statements.prepared(&handle)?;
        let bound = bound(incoming.batches().await?).await?;
        // Where the statement does not tell a parameter's type, what is bound to it does.
        let fields = bound.schema.fields().iter();
        let types: Vec<Option<DataType>> = fields
            .map(|field| Some(field.data_type().clone()).filter(|given| !given.is_null()))
            .zip(statement.prepared.parameter_types())
            .map(|(given, known)| known.clone().or(given))
            .collect();
        let prepared = match types == statement.prepared.parameter_types() {
            true => Arc::clone(&statement.prepared),
            false => {
                let typed = statement.session.prepare_typed(&statement.sql, &types);
                Arc::new(typed.await?)
            }
        };
        *statement.bound.lock() = Some((bound, prepared));
        let result = DoPutPreparedStatementResult {
            prepared_statement_handle: Some(handle),
        };
        Ok(Put {
            result: result.encode_to_vec().into(),
            told: None,
        })
    }

    /// The session that an ingest runs in. The driver in Go, on which that of Python stands, never
    /// names the transaction of an ingest: it is the only one that its session has begun.
    fn ingest_runner(&self, call: &Call, ingest: &CommandStatementIngest) -> Result<Arc<Session>> {
        let named = ingest.transaction_id.as_ref();
        if named.is_some_and(|handle| !handle.is_empty()) {
            return self.runner(call, named);
        }
        let caller = &call.caller;
        let connection = call.unnamed_connection();
        let open = self.statements.transactions(caller.id, connection);
        let unclear = || {
            Error::invalid("an ingest does not say which transaction it is part of")
                .with_sqlstate("25000")
        };
        match open.as_slice() {
            [] => self.runner(call, None),
            [only] if caller.named => self.runner(call, Some(&handle(*only))),
            _ if caller.named => Err(unclear()
                .with_detail(format!("its session has {} open ones", open.len()))
                .with_hint("end the others first, or use a connection of its own for each")),
            _ => Err(unclear()
                .with_detail("its connection has begun one, and its client names no session")
                .with_hint(
                    "let it keep cookies (ADBC: adbc.flight.sql.rpc.with_cookie_middleware=true), \
                     or give a user name",
                )),
        }
    }

    /// Writes the batches of a stream into a table.
    async fn ingest(
        &self,
        call: &Call,
        ingest: CommandStatementIngest,
        incoming: Incoming,
    ) -> Result<Told> {
        let session = self.ingest_runner(call, &ingest)?;
        check_place(&ingest)?;
        if ingest.temporary {
            call.caller.check_kept("the temporary table")?;
        }
        let batches = incoming.batches().await?;
        let schema = Arc::clone(&batches.schema);
        if schema.fields().is_empty() {
            return Err(broken("the rows to ingest have no columns"));
        }
        let into = target(call, &ingest, &schema)?;
        let work = async {
            let answer = session.ingest(&into, schema, batches.rows).await?;
            Ok(Told::of(&answer, &session))
        };
        limited(&session, false, &self.stop, Box::pin(work)).await
    }

    /// The session that a prepared statement is run in, and the statement there.
    pub(crate) fn prepared_in(
        &self,
        call: &Call,
        statement: &Statement,
    ) -> Result<(Arc<Session>, Arc<lazybase_query::Prepared>)> {
        let session = match statement.transaction {
            Some(id) => {
                let runner = self.runner(call, Some(&id.text().into()));
                // Another transaction may be another client's: it is not guessed.
                runner.map_err(|error| match error.sqlstate() {
                    "25P01" => error
                        .with_detail("the transaction that the statement was prepared in has ended")
                        .with_hint("prepare it again; with ADBC in Python, on a new cursor"),
                    _ => error,
                })?
            }
            None if call.caller.named => self.runner(call, None)?,
            None => call.configured(&statement.session)?,
        };
        let bound = statement.bound.lock();
        let prepared = bound.as_ref().map(|(_, prepared)| prepared);
        let prepared = session.adopt(prepared.unwrap_or(&statement.prepared));
        Ok((session, Arc::new(prepared)))
    }
}

/// The refusal of plans that are no SQL.
pub(crate) fn no_substrait() -> Error {
    Error::invalid("Substrait plans are not taken")
        .with_hint("send SQL")
        .with_sqlstate("0A000")
}

/// All tables live in one catalog and one schema.
fn check_place(ingest: &CommandStatementIngest) -> Result<()> {
    let is = |given: &Option<String>, known| {
        given
            .as_deref()
            .is_none_or(|given| given.is_empty() || given == known)
    };
    match (is(&ingest.catalog, CATALOG), is(&ingest.schema, SCHEMA)) {
        (true, true) => Ok(()),
        (false, _) => Err(
            Error::not_found(format!("there is no catalog {:?}", ingest.catalog()))
                .with_hint(format!("the catalog is called {CATALOG}"))
                .with_sqlstate("3D000"),
        ),
        (_, false) => Err(
            Error::not_found(format!("there is no schema {:?}", ingest.schema()))
                .with_hint(format!("all tables live in the schema {SCHEMA}"))
                .with_sqlstate("3F000"),
        ),
    }
}

/// Where an ingest goes.
fn target(call: &Call, ingest: &CommandStatementIngest, schema: &Schema) -> Result<Ingest> {
    let options = ingest.table_definition_options.as_ref();
    let (absent, present) = options.map_or((0, 0), |o| (o.if_not_exist, o.if_exists));
    let unknown = || broken("an option of the ingest is unknown");
    let if_absent = match TableNotExistOption::try_from(absent).map_err(|_| unknown())? {
        TableNotExistOption::Create => IfAbsent::Create,
        TableNotExistOption::Unspecified | TableNotExistOption::Fail => IfAbsent::Fail,
    };
    let if_present = match TableExistsOption::try_from(present).map_err(|_| unknown())? {
        TableExistsOption::Unspecified | TableExistsOption::Append => IfPresent::Append,
        TableExistsOption::Replace => IfPresent::Replace,
        TableExistsOption::Fail => IfPresent::Fail,
    };
    Ok(Ingest {
        table: ingest.table.clone(),
        temporary: ingest.temporary,
        in_public: ingest.schema() == SCHEMA,
        if_absent,
        if_present,
        op: calls::op(&call.metadata)?,
        key: primary_key(call, &ingest.options, schema)?,
        rows: calls::rows(&call.metadata)?,
    })
}

/// The primary key that a new table is to have: by header, by the ingest's options, by the
/// schema's metadata, or by the fields that are marked.
fn primary_key(
    call: &Call,
    options: &HashMap<String, String>,
    schema: &Schema,
) -> Result<Vec<String>> {
    const HEADER: &str = "lazybase-primary-key";
    const MARK: &str = "lazybase.primary_key";
    let header = calls::header(&call.metadata, HEADER)?;
    let option = options.get(HEADER).or_else(|| options.get(MARK));
    let named = header
        .or(option.map(String::as_str))
        .or(schema.metadata().get(MARK).map(String::as_str));
    if let Some(named) = named {
        return Ok(names(named));
    }
    let marked = |field: &&Arc<arrow::datatypes::Field>| {
        let mark = field
            .metadata()
            .get(MARK)
            .map(|mark| mark.to_ascii_lowercase());
        mark.is_some_and(|mark| matches!(mark.as_str(), "true" | "on" | "yes" | "1"))
    };
    let marked = schema.fields().iter().filter(marked);
    Ok(marked.map(|field| field.name().clone()).collect())
}

/// Names between commas; those that hold commas or blanks at their ends stand in double quotes.
fn names(text: &str) -> Vec<String> {
    let (mut names, mut name, mut quoted) = (Vec::new(), String::new(), false);
    let mut was_quoted = false;
    let mut chars = text.chars().peekable();
    let mut end = |name: &mut String, was_quoted: &mut bool| {
        let done = match std::mem::take(was_quoted) {
            true => std::mem::take(name),
            false => std::mem::take(name).trim().to_owned(),
        };
        if !done.is_empty() {
            names.push(done);
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                name.push('"');
            }
            '"' => {
                quoted = !quoted;
                if quoted {
                    name.clear();
                    was_quoted = true;
                }
            }
            ',' if !quoted => end(&mut name, &mut was_quoted),
            blank if was_quoted && !quoted && blank.is_whitespace() => {}
            other => name.push(other),
        }
    }
    end(&mut name, &mut was_quoted);
    names
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn names_stand_between_commas() {
        assert_eq!(names("a, B ,c"), ["a", "B", "c"]);
        assert_eq!(names("\"a, b\" , \"say \"\"x\"\"\""), ["a, b", "say \"x\""]);
        assert!(names(" , ").is_empty());
    }
}
