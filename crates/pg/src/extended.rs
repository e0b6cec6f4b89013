//! The extended protocol: statements that are prepared, portals that give their rows in pieces.
//!
//! What stands between two Syncs is one transaction, as with PostgreSQL. A single statement needs
//! none: so Execute looks at what comes next before it begins.
//!
//! ```text
//!   Parse    text, declared types -> Statement      types of parameters as the session finds them
//!   Bind     values, formats      -> Portal
//!   Describe                      -> columns        planned without values
//!   Execute  how many rows        -> rows, then PortalSuspended or the tag
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use bytes::Bytes;
use lazybase_model::{Error, Result};
use lazybase_query::{AnswerStream, Columns, Prepared, TransactionStatus, Value};
use parking_lot::Mutex;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    BindComplete, CloseComplete, ParseComplete, PortalSuspended,
};
use pgwire::messages::response::EmptyQueryResponse;

use crate::cells::Rows;
use crate::connection::{Connection, Outcome};
use crate::cursors::{self, CursorStatement};
use crate::input::Gone;
use crate::messages::{Bind, Message, Named, broken};
use crate::words::{self, Kind};
use crate::{cells, failure, parameters, types};

/// The most portals that a connection keeps.
const KEPT_MAX: usize = 10_000;
/// The most bytes that the values of a connection's portals have, or the text of a statement.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A prepared statement.
pub(crate) struct Statement {
    sql: String,
    kind: Kind,
    /// Nothing where the text is empty, or concerns the connection itself.
    prepared: Option<Prepared>,
    /// What it asks of a cursor; then it is the cursor's query that is prepared.
    cursor: Option<CursorStatement>,
    /// The types of the parameters: those that the client declared, were they more, and those
    /// that the text has.
    oids: Vec<u32>,
    /// The columns that the client was told of last.
    told: Mutex<Option<Columns>>,
}

/// A statement with values: it gives its rows in as many pieces as the client wants.
pub(crate) struct Portal {
    statement: Arc<Statement>,
    values: Vec<Value>,
    /// What the values took in their message.
    bytes: usize,
    formats: Vec<i16>,
    /// The columns that the client takes its rows for.
    told: Option<Columns>,
    /// Once it has begun.
    answer: Option<AnswerStream>,
    /// Rows that were not asked for yet, and how many of them were.
    rows: Option<(Rows, usize)>,
    finished: bool,
    /// The last savepoint when it was bound, or when it began, which is when it sees its rows.
    pub(crate) savepoint: u64,
}

impl Portal {
    /// Whether it gave all that it has, and that was no rows.
    fn is_spent(&self) -> bool {
        let has_rows = self.answer.as_ref().is_some_and(AnswerStream::returns_rows);
        self.finished && !has_rows
    }
}

/// An error of a statement, with its text as the client sent it.
type Failed = (Error, String);

impl Connection {
    /// Does what a message of the extended protocol asks for.
    pub(crate) async fn extended(&mut self, message: Message) -> Result<Result<(), Failed>, Gone> {
        let statement = self.meant(&message);
        let mut text = String::new();
        let done = match message {
            Message::Parse { name, sql, types } => {
                let parsed = self.parse(name, &sql, &types).await?;
                text = sql;
                parsed
            }
            Message::Bind(bind) => self.bind(bind),
            Message::Describe(Named::Statement(name)) => self.describe_statement(&name).await?,
            Message::Describe(Named::Portal(name)) => self.describe_portal(&name).await?,
            Message::Execute { portal, rows_max } => self.execute(portal, rows_max).await?,
            Message::Close(named) => {
                match named {
                    Named::Statement(name) => {
                        self.statements.remove(&name);
                        self.session.forget_statement(&name);
                    }
                    Named::Portal(name) => drop(self.portals.remove(&name)),
                }
                self.wire.put(CloseComplete::new());
                Ok(())
            }
            other => Err(broken(format!("{other:?} has no place here"))),
        };
        Ok(done.map_err(|error| match statement {
            Some(statement) => (error, statement.sql.clone()),
            None => (error, text),
        }))
    }

    /// The statement that a message is about, where the client has sent that before.
    fn meant(&self, message: &Message) -> Option<Arc<Statement>> {
        let portal = match message {
            Message::Describe(Named::Statement(name)) => return self.statements.get(name).cloned(),
            Message::Describe(Named::Portal(name)) | Message::Execute { portal: name, .. } => name,
            _ => return None,
        };
        let portal = self.portals.get(portal)?;
        Some(Arc::clone(&portal.statement))
    }

    async fn parse(&mut self, name: String, sql: &str, oids: &[u32]) -> Outcome<()> {
        self.begin_statement();
        if !name.is_empty() && self.session.keeps_statement(&name) {
            return Ok(Err(Error::conflict(format!(
                "there is a prepared statement {name:?} already"
            ))
            .with_sqlstate("42P05")));
        }
        // How many have names, and how long these are together, is the session's to bound.
        if sql.len() > KEPT_BYTES_MAX {
            return Ok(Err(Error::unavailable(format!(
                "a prepared statement is longer than {KEPT_BYTES_MAX} bytes"
            ))
            .with_sqlstate("53400")));
        }
        let kind = words::kind(sql);
        let cursor = match kind {
            Kind::Cursor => match cursors::read(sql) {
                Ok(cursor) => Some(cursor),
                Err(error) => return Ok(Err(error)),
            },
            _ => None,
        };
        let text = match &cursor {
            Some(CursorStatement::Declare { query, .. }) => Some(query.as_str()),
            Some(_) => None,
            None => Some(sql).filter(|_| !matches!(kind, Kind::Connection | Kind::Discard)),
        };
        let empty = match lazybase_query::split_statements(sql) {
            Ok(statements) => statements.is_empty(),
            Err(error) => return Ok(Err(error)),
        };
        // Clients that send data ahead must hear of a COPY that can't be before they do.
        if kind == Kind::Copy
            && let Err(error) = self.session.copy_plan(sql)
        {
            return Ok(Err(error));
        }
        let declared: Vec<Option<DataType>> =
            oids.iter().map(|oid| types::to_arrow(*oid)).collect();
        let is_json = |at: usize| oids.get(at).is_some_and(|oid| types::is_json(*oid));
        let session = Arc::clone(&self.session);
        let prepared = match text.filter(|_| !empty) {
            None => None,
            Some(text) => {
                let preparing = session.prepare_typed(text, &declared);
                match self.watched(Kind::Read, preparing).await? {
                    Ok(prepared) => Some(prepared.declared_json(is_json)),
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        let found = prepared.as_ref().map_or(&[][..], Prepared::parameter_types);
        let oid = |at: usize| match oids.get(at) {
            Some(oid) if !matches!(*oid, 0 | types::UNKNOWN) => *oid,
            _ if prepared.as_ref().is_some_and(|of| of.takes_json(at)) => types::JSON,
            _ => {
                let found = found.get(at).and_then(Option::as_ref);
                found.map_or(types::TEXT, types::of_type)
            }
        };
        if !name.is_empty()
            && let Err(error) = self.session.keep_statement(&name, sql, prepared.as_ref())
        {
            return Ok(Err(error));
        }
        let statement = Statement {
            sql: sql.to_owned(),
            kind,
            oids: (0..found.len().max(oids.len())).map(oid).collect(),
            prepared,
            cursor,
            told: Mutex::new(None),
        };
        self.statements.insert(name, Arc::new(statement));
        self.wire.put(ParseComplete::new());
        Ok(Ok(()))
    }

    fn bind(&mut self, bind: Bind) -> Result<()> {
        let statement = self.prepared(&bind.statement)?;
        let wanted = statement.oids.len();
        if bind.values.len() != wanted {
            return Err(broken(format!(
                "{} values are given for {wanted} parameters",
                bind.values.len()
            )));
        }
        if bind.formats.len() > 1 && bind.formats.len() != wanted {
            return Err(broken("formats and values are not as many"));
        }
        if bind
            .result_formats
            .iter()
            .any(|format| !matches!(format, 0 | 1))
        {
            return Err(broken("there are formats 0 and 1 only"));
        }
        // The one of this name, which has none, is replaced.
        let others = self
            .portals
            .iter()
            .filter(|(name, _)| **name != bind.portal);
        let kept: usize = others.map(|(_, portal)| portal.bytes).sum();
        let bytes: usize = bind.values.iter().flatten().map(Bytes::len).sum();
        // A value that is taken alone is as long as its message may be.
        let are_long = kept > 0 && kept + bytes > KEPT_BYTES_MAX;
        if self.portals.len() >= KEPT_MAX || are_long {
            return Err(Error::unavailable("too many portals")
                .with_hint("close those that are not needed, or end their transaction")
                .with_sqlstate("53400"));
        }
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            return Err(
                Error::conflict(format!("there is a portal {:?} already", bind.portal))
                    .with_sqlstate("42P03"),
            );
        }
        let values = statement.oids.iter().zip(&bind.values).enumerate();
        let values = values.map(|(at, (oid, bytes))| {
            let format = types::format_of(&bind.formats, at);
            parameters::value(at + 1, *oid, format, bytes.as_ref())
        });
        let told = statement.told.lock().clone();
        let portal = Portal {
            values: values.collect::<Result<_>>()?,
            bytes,
            statement,
            told,
            formats: bind.result_formats,
            answer: None,
            rows: None,
            finished: false,
            savepoint: self.session.last_savepoint(),
        };
        self.portals.insert(bind.portal, portal);
        self.wire.put(BindComplete::new());
        Ok(())
    }

    /// The statement of a name, be it the client's or one of PREPARE.
    fn prepared(&mut self, name: &str) -> Result<Arc<Statement>> {
        if let Some(statement) = self.statements.get(name) {
            return Ok(Arc::clone(statement));
        }
        let Some((prepared, kinds)) = self.session.kept_statement(name) else {
            return Err(
                Error::not_found(format!("there is no prepared statement {name:?}"))
                    .with_sqlstate("26000"),
            );
        };
        let kinds = kinds.iter().enumerate();
        let kinds = kinds.map(|(at, kind)| match prepared.takes_json(at) {
            true => types::JSON,
            false => types::of_type(kind),
        });
        let statement = Arc::new(Statement {
            sql: prepared.sql().to_owned(),
            kind: words::kind(prepared.sql()),
            oids: kinds.collect(),
            prepared: Some(prepared),
            cursor: None,
            told: Mutex::new(None),
        });
        self.statements
            .insert(name.to_owned(), Arc::clone(&statement));
        Ok(statement)
    }

    async fn describe_statement(&mut self, name: &str) -> Outcome<()> {
        let statement = match self.prepared(name) {
            Ok(statement) => statement,
            Err(error) => return Ok(Err(error)),
        };
        self.wire
            .put(ParameterDescription::new(statement.oids.clone()));
        let told = self.describe(&statement, &[]).await?;
        Ok(told.map(|columns| *statement.told.lock() = columns))
    }

    async fn describe_portal(&mut self, name: &str) -> Outcome<()> {
        match self.portals.get(name) {
            Some(portal) => {
                let statement = Arc::clone(&portal.statement);
                let formats = portal.formats.clone();
                let told = self.describe(&statement, &formats).await?;
                Ok(told.map(|columns| {
                    if let Some(portal) = self.portals.get_mut(name) {
                        portal.told = columns;
                    }
                }))
            }
            None if self.cursors.contains_key(name) => Ok(self.describe_cursor(name, &[])),
            None => Ok(Err(no_portal(name))),
        }
    }

    /// Tells the columns of a statement's rows.
    async fn describe(
        &mut self,
        statement: &Statement,
        formats: &[i16],
    ) -> Outcome<Option<Columns>> {
        if let Some(CursorStatement::Fetch {
            name, sends: true, ..
        }) = &statement.cursor
        {
            return Ok(self.describe_cursor(name, formats).map(|()| None));
        }
        let prepared = statement.prepared.as_ref();
        let columns = match prepared.filter(|_| statement.cursor.is_none()) {
            None => Ok(None),
            Some(prepared) => {
                self.begin_statement();
                self.watched(Kind::Read, prepared.columns()).await?
            }
        };
        let columns = match columns {
            Ok(columns) => columns,
            Err(error) => return Ok(Err(error)),
        };
        match &columns {
            Some(columns) => match types::description(&columns.schema, &columns.origins, formats) {
                Ok(description) => self.wire.put(description),
                Err(error) => return Ok(Err(error)),
            },
            None => self.wire.put(NoData::new()),
        }
        Ok(Ok(columns))
    }

    async fn execute(&mut self, name: String, rows_max: i32) -> Outcome<()> {
        // One that has not begun is refused where its statement is.
        let has_begun = |portal: &Portal| portal.answer.is_some();
        if self.portals.get(&name).is_some_and(has_begun)
            && let Err(error) = self.session.check_not_failed()
        {
            return Ok(Err(error));
        }
        let Some(mut portal) = self.portals.remove(&name) else {
            return Ok(Err(no_portal(&name)));
        };
        self.begin_statement();
        if portal.is_spent() {
            return Ok(Err(Error::invalid(format!("portal {name:?} has ended"))
                .with_hint("bind its statement again")
                .with_sqlstate("55000")));
        }
        let executed = self.run_portal(&mut portal, rows_max).await?;
        let answer = portal.answer.as_ref().filter(|_| executed.is_ok());
        self.end_with(portal.statement.kind, answer);
        if executed.is_ok() {
            self.portals.insert(name, portal);
        }
        Ok(executed)
    }

    async fn run_portal(&mut self, portal: &mut Portal, rows_max: i32) -> Outcome<()> {
        let statement = Arc::clone(&portal.statement);
        let Some(prepared) = &statement.prepared else {
            if let Some(cursor) = &statement.cursor {
                portal.finished = true;
                let done = self.use_cursor(cursor, &portal.formats).await?;
                return Ok(done.map(|tag| self.complete(&tag)));
            }
            if !matches!(statement.kind, Kind::Connection | Kind::Discard) {
                self.wire.put(EmptyQueryResponse::new());
                return Ok(Ok(()));
            }
            portal.finished = true;
            let done = self.connection_statement(statement.kind, &statement.sql);
            return Ok(done.await?.map(|tag| self.complete(&tag)));
        };
        if portal.answer.is_none() {
            match self.begin_portal(&statement, prepared, portal).await? {
                Ok(true) => {}
                // It had no rows to give, and is done.
                Ok(false) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
        if let Some(cursor) = &statement.cursor
            && let Some(answer) = portal.answer.take()
        {
            portal.finished = true;
            let declared = self.declare(&statement.sql, cursor, answer);
            return Ok(declared.map(|tag| self.complete(&tag)));
        }
        let limit = usize::try_from(rows_max).ok().filter(|limit| *limit > 0);
        let sent = match self.take_rows(portal, limit, true).await? {
            Ok(sent) => sent,
            Err(error) => return Ok(Err(error)),
        };
        match (&portal.answer, portal.finished) {
            (Some(answer), true) => {
                self.note(answer);
                self.complete(&answer.tag_of(sent as u64));
            }
            _ => self.wire.put(PortalSuspended::new()),
        }
        Ok(Ok(()))
    }

    /// Takes rows off a portal, so many at most, and sends them; gives how many there were.
    async fn take_rows(
        &mut self,
        portal: &mut Portal,
        limit: Option<usize>,
        sends: bool,
    ) -> Outcome<usize> {
        let mut taken = 0;
        if sends && limit != Some(0) {
            match self.send_kept_row(portal) {
                Ok(is_sent) => taken = usize::from(is_sent),
                Err(error) => return Ok(Err(error)),
            }
            // There is no other; with a limit of one a client is told so when it asks again.
            portal.finished |= taken > 0 && limit != Some(1);
            self.flush_full().await?;
        }
        while !portal.finished && limit.is_none_or(|limit| taken < limit) {
            let more = match self.next_row_batch(portal).await? {
                Ok(more) => more,
                Err(error) => return Ok(Err(error)),
            };
            if !more {
                portal.finished = true;
                break;
            }
            let Some((rows, next)) = &mut portal.rows else {
                continue;
            };
            while *next < rows.count && limit.is_none_or(|limit| taken < limit) {
                if sends {
                    rows.put_row(*next, &mut self.wire.out);
                }
                (*next, taken) = (*next + 1, taken + 1);
                self.flush_full().await?;
            }
        }
        Ok(Ok(taken))
    }

    /// Sends a portal's only row, where it needs no batch for that; whether it did.
    fn send_kept_row(&mut self, portal: &mut Portal) -> Result<bool> {
        let Some(answer) = &mut portal.answer else {
            return Ok(false);
        };
        let Some(row) = answer.take_kept_row() else {
            return Ok(false);
        };
        let (schema, style) = (answer.schema(), self.session.interval_style());
        let told = portal.told.as_ref().map_or(&schema, |told| &told.schema);
        let out = &mut self.wire.out;
        cells::put_kept_row(&row, told, &portal.formats, style, out).map(|()| true)
    }

    /// Passes over rows of a portal; gives the tag.
    pub(crate) async fn move_portal(
        &mut self,
        name: &str,
        count: Option<usize>,
    ) -> Outcome<String> {
        let Some(mut portal) = self.portals.remove(name) else {
            return Ok(Err(no_portal(name)));
        };
        let statement = Arc::clone(&portal.statement);
        if portal.answer.is_none()
            && let Some(prepared) = statement.prepared.as_ref()
            && let Err(error) = self.begin_portal(&statement, prepared, &mut portal).await?
        {
            return Ok(Err(error));
        }
        let moved = self.take_rows(&mut portal, count, false).await?;
        self.portals.insert(name.to_owned(), portal);
        Ok(moved.map(|moved| format!("MOVE {moved}")))
    }

    /// Whether the portal has rows that were not sent.
    async fn next_row_batch(&mut self, portal: &mut Portal) -> Outcome<bool> {
        if portal.finished {
            return Ok(Ok(false));
        }
        if portal
            .rows
            .as_ref()
            .is_some_and(|(rows, next)| *next < rows.count)
        {
            return Ok(Ok(true));
        }
        let Some(answer) = &mut portal.answer else {
            return Ok(Ok(false));
        };
        let told = portal.told.as_ref().map(|columns| columns.schema.as_ref());
        let rows = self.next_rows_as(answer, told, &portal.formats).await?;
        Ok(rows.map(|rows| {
            portal.rows = rows.map(|rows| (rows, 0));
            portal.rows.is_some()
        }))
    }

    /// Begins to run a portal's statement; false where it has ended with that.
    async fn begin_portal(
        &mut self,
        statement: &Statement,
        prepared: &Prepared,
        portal: &mut Portal,
    ) -> Outcome<bool> {
        let kind = statement.kind;
        if let Err(error) = self.join_pipeline(kind).await? {
            return Ok(Err(error));
        }
        if kind == Kind::Copy
            && let Some(done) = self.copy(&statement.sql).await?
        {
            portal.finished = true;
            return Ok(done.map(|tag| {
                self.complete(&tag);
                false
            }));
        }
        if let Err(error) = self
            .check_told(kind, prepared, portal.told.as_ref())
            .await?
        {
            return Ok(Err(error));
        }
        let values = &portal.values[..prepared.parameters()];
        let answer = match self.watched(kind, prepared.query(values)).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(told) = &portal.told
            && answer.definitions() != &told.definitions
            && !types::is_same(&told.schema, &answer.schema())
        {
            return Ok(Err(self.unsent(&answer, failure::changed())));
        }
        portal.savepoint = self.session.last_savepoint();
        portal.answer = Some(answer);
        Ok(Ok(true))
    }

    /// Whether what a statement tells of rows that it writes is what its client was told: once
    /// they are written, it would be too late to refuse them.
    async fn check_told(
        &mut self,
        kind: Kind,
        prepared: &Prepared,
        told: Option<&Columns>,
    ) -> Outcome<()> {
        let Some(told) = told.filter(|_| kind == Kind::Other) else {
            return Ok(Ok(()));
        };
        let columns = match self.watched(Kind::Read, prepared.columns()).await? {
            Ok(columns) => columns,
            Err(error) => return Ok(Err(error)),
        };
        Ok(match columns {
            Some(now) if !types::is_same(&told.schema, &now.schema) => Err(failure::changed()),
            _ => Ok(()),
        })
    }

    /// Begins, or ends, the transaction of a pipeline, as a statement needs it.
    async fn join_pipeline(&mut self, kind: Kind) -> Outcome<()> {
        if kind.stands_alone() {
            return self.end_implicit().await;
        }
        let outside = self.session.transaction_status() == TransactionStatus::None;
        if !outside || !kind.joins() {
            return Ok(Ok(()));
        }
        match self.sync_is_next().await? {
            Ok(true) => {}
            Ok(false) => self.session.begin_implicit(),
            Err(error) => return Ok(Err(error)),
        }
        Ok(Ok(()))
    }

    /// Whether nothing but a Sync follows: a client that sent Execute always sends more.
    async fn sync_is_next(&mut self) -> Outcome<bool> {
        while self.wire.input.is_empty() {
            self.flush_in_time().await?;
            if let Err(error) = self.more().await? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(self.wire.input[0] == b'S'))
    }
}

fn no_portal(name: &str) -> Error {
    Error::not_found(format!("there is no portal {name:?}")).with_sqlstate("34000")
}
