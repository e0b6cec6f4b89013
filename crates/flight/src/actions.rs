//! DoAction: prepared statements, transactions, savepoints, cancelling, and a session's options.
//!
//! A transaction has a session of its own, which begins with the settings of the caller's: a client
//! may have several at a time.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, ActionEndSavepointRequest, ActionEndTransactionRequest,
    Any, EndTransaction, ProstMessageExt,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
    RenewFlightEndpointRequest,
};
use bytes::Bytes;
use lazybase_model::{Error, Result};
use lazybase_query::{Session, TransactionStatus};
use parking_lot::Mutex;
use prost::Message;

use crate::answers::schema_bytes;
use crate::calls::{self, Told};
use crate::failure::broken;
use crate::options;
use crate::service::{Call, Service, handle};
use crate::sessions::{Caller, Id};
use crate::statements::{Cancelled, Statement};
use crate::stream::limited;
use crate::updates::no_substrait;

/// The actions that are done, and what for.
pub(crate) const KNOWN: [(&str, &str); 13] = [
    (
        "CreatePreparedStatement",
        "reads a statement, to be run any number of times",
    ),
    ("ClosePreparedStatement", "forgets a prepared statement"),
    (
        "BeginTransaction",
        "begins a transaction with one snapshot, which becomes one batch",
    ),
    ("EndTransaction", "commits or rolls back a transaction"),
    ("BeginSavepoint", "marks a place in a transaction"),
    ("EndSavepoint", "forgets a savepoint, or goes back to it"),
    ("CancelQuery", "ends the statement of a FlightInfo"),
    ("CancelFlightInfo", "ends the statement of a FlightInfo"),
    ("RenewFlightEndpoint", "keeps a ticket for longer"),
    ("SetSessionOptions", "sets settings of the session"),
    ("GetSessionOptions", "the settings of the session"),
    ("CloseSession", "ends the session, and what goes with it"),
    ("CreatePreparedSubstraitPlan", "is refused: send SQL"),
];

/// What an action came to.
#[derive(Default)]
pub(crate) struct Acted {
    pub(crate) result: Option<arrow_flight::Result>,
    pub(crate) told: Option<Told>,
    /// Whether the client shall forget its session.
    pub(crate) forget: bool,
}

impl Acted {
    fn body(body: Vec<u8>) -> Acted {
        Acted {
            result: Some(arrow_flight::Result::new(body)),
            ..Acted::default()
        }
    }
}

/// The message of an action, in the wrapping of Flight SQL.
fn unpacked<M: ProstMessageExt>(body: &Bytes) -> Result<M> {
    let wrong = || broken(format!("the action's body is no {}", M::type_url()));
    let any = Any::decode(body.as_ref()).map_err(|_| wrong())?;
    any.unpack().map_err(|_| wrong())?.ok_or_else(wrong)
}

/// The message of an action of Flight itself.
fn plain<M: Message + Default>(body: &Bytes) -> Result<M> {
    M::decode(body.as_ref()).map_err(|_| broken("the action's body can't be read"))
}

/// A name as SQL writes it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Service {
    /// Does an action.
    pub(crate) async fn act(&self, call: Call, action: Action) -> Result<(Caller, Acted)> {
        let body = &action.body;
        let acted = match action.r#type.as_str() {
            "CreatePreparedStatement" => self.prepare(&call, unpacked(body)?).await?,
            "ClosePreparedStatement" => {
                let close: ActionClosePreparedStatementRequest = unpacked(body)?;
                self.statements.close(&close.prepared_statement_handle);
                Acted::default()
            }
            "BeginTransaction" => {
                let _: ActionBeginTransactionRequest = unpacked(body)?;
                self.begin(&call).await?
            }
            "EndTransaction" => self.end(&call, unpacked(body)?).await?,
            "BeginSavepoint" => self.begin_savepoint(&call, unpacked(body)?).await?,
            "EndSavepoint" => self.end_savepoint(unpacked(body)?).await?,
            "CancelQuery" => {
                let request: ActionCancelQueryRequest = unpacked(body)?;
                let info: FlightInfo = plain(&request.info)?;
                let result = match self.cancel(&info)? {
                    Cancelled::Yes => 1,
                    Cancelled::No => 3,
                };
                Acted::body(ActionCancelQueryResult { result }.as_any().encode_to_vec())
            }
            "CancelFlightInfo" => {
                let request: CancelFlightInfoRequest = plain(body)?;
                let status = match self.cancel(&request.info.unwrap_or_default())? {
                    Cancelled::Yes => CancelStatus::Cancelled,
                    Cancelled::No => CancelStatus::NotCancellable,
                };
                let status = i32::from(status);
                Acted::body(CancelFlightInfoResult { status }.encode_to_vec())
            }
            "RenewFlightEndpoint" => {
                let request: RenewFlightEndpointRequest = plain(body)?;
                let endpoint = request.endpoint.unwrap_or_default();
                self.renew(&endpoint)?;
                Acted::body(endpoint.encode_to_vec())
            }
            "SetSessionOptions" => {
                let result = options::set(&call.caller.session, &plain(body)?).await;
                return self.opened(call, Acted::body(result.encode_to_vec()));
            }
            "GetSessionOptions" => {
                let options = options::get(&call.caller.session).await?;
                Acted::body(options.encode_to_vec())
            }
            "CloseSession" => self.close(&call),
            "CreatePreparedSubstraitPlan" => return Err(no_substrait()),
            other => {
                return Err(Error::invalid(format!("there is no action {other:?}"))
                    .with_hint("ListActions names those that there are")
                    .with_sqlstate("0A000"));
            }
        };
        Ok((call.caller, acted))
    }

    /// The caller's session stays: it has options that would be lost.
    fn opened(&self, call: Call, acted: Acted) -> Result<(Caller, Acted)> {
        match call.caller.named {
            true => Ok((call.caller, acted)),
            false => Ok((self.sessions.stay(call.caller)?, acted)),
        }
    }

    fn close(&self, call: &Call) -> Acted {
        let closed = self.sessions.close(call.caller.id);
        self.statements.close_of(call.caller.id);
        let status = match closed {
            true => options::CLOSED,
            false => options::NOT_CLOSEABLE,
        };
        Acted {
            forget: true,
            ..Acted::body(options::CloseSessionResult { status }.encode_to_vec())
        }
    }

    async fn prepare(
        &self,
        call: &Call,
        request: ActionCreatePreparedStatementRequest,
    ) -> Result<Acted> {
        let transaction = request.transaction_id.filter(|handle| !handle.is_empty());
        let session = match &transaction {
            Some(handle) => self.statements.transaction(handle)?.1,
            None => Arc::clone(&call.caller.session),
        };
        let prepared = Arc::new(session.prepare(&request.query).await?);
        let columns = prepared.schema().await?;
        let parameters: Vec<Field> = prepared
            .parameter_types()
            .iter()
            .enumerate()
            .map(|(at, known)| Field::new(format!("${}", at + 1), asked_as(known), true))
            .collect();
        let columns = columns.unwrap_or_else(|| Arc::new(Schema::empty()));
        let statement = Statement {
            sql: request.query,
            session,
            transaction: transaction.as_deref().and_then(Id::read),
            prepared,
            bound: Mutex::new(None),
        };
        let id = self.statements.add_prepared(call.caller.id, statement)?;
        self.sessions.note(&call.caller);
        let result = ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle(id),
            dataset_schema: schema_bytes(&columns)?,
            parameter_schema: schema_bytes(&Schema::new(parameters))?,
        };
        Ok(Acted::body(result.as_any().encode_to_vec()))
    }

    async fn begin(&self, call: &Call) -> Result<Acted> {
        let session = Arc::new(call.caller.session.branch());
        calls::apply(&session, &call.metadata)?;
        session.query("BEGIN").await?;
        session.shows_transactions();
        let connection = call.unnamed_connection();
        let id = self
            .statements
            .add_transaction(call.caller.id, session, connection)?;
        self.sessions.note(&call.caller);
        let result = ActionBeginTransactionResult {
            transaction_id: handle(id),
        };
        Ok(Acted::body(result.as_any().encode_to_vec()))
    }

    async fn end(&self, call: &Call, request: ActionEndTransactionRequest) -> Result<Acted> {
        let (_, session) = self.statements.transaction(&request.transaction_id)?;
        let commits = match EndTransaction::try_from(request.action) {
            Ok(EndTransaction::Commit) => true,
            Ok(EndTransaction::Rollback) => false,
            Ok(EndTransaction::Unspecified) | Err(_) => {
                return Err(broken("a transaction ends with COMMIT or ROLLBACK"));
            }
        };
        calls::apply(&session, &call.metadata)?;
        let failed = session.transaction_status() == TransactionStatus::Failed;
        let sql = match commits && !failed {
            true => "COMMIT",
            false => "ROLLBACK",
        };
        self.statements.close(&request.transaction_id);
        let work = async {
            let answer = session.query(sql).await?;
            Ok(Told::of(&answer, &session))
        };
        let told = limited(&session, !commits, &self.stop, Box::pin(work)).await?;
        if commits && failed {
            return Err(
                Error::invalid("the transaction had failed: nothing of it is kept")
                    .with_detail("a statement of it ended with an error, or was given up")
                    .with_sqlstate("25P02"),
            );
        }
        Ok(Acted {
            told: Some(told),
            ..Acted::default()
        })
    }

    async fn begin_savepoint(
        &self,
        call: &Call,
        request: ActionBeginSavepointRequest,
    ) -> Result<Acted> {
        let (transaction, session) = self.statements.transaction(&request.transaction_id)?;
        // Several may have one name; each has an id.
        let name = format!("{} {}", request.name, Id::random()?.text());
        run(&session, &format!("SAVEPOINT {}", quoted(&name))).await?;
        let owner = call.caller.id;
        let id = self.statements.add_savepoint(owner, transaction, name)?;
        let result = ActionBeginSavepointResult {
            savepoint_id: handle(id),
        };
        Ok(Acted::body(result.as_any().encode_to_vec()))
    }

    async fn end_savepoint(&self, request: ActionEndSavepointRequest) -> Result<Acted> {
        let (transaction, name) = self.statements.savepoint(&request.savepoint_id)?;
        let (_, session) = self.statements.transaction(&handle(transaction))?;
        let name = quoted(&name);
        match request.action {
            1 => {
                run(&session, &format!("RELEASE SAVEPOINT {name}")).await?;
                self.statements.close(&request.savepoint_id);
            }
            2 => run(&session, &format!("ROLLBACK TO SAVEPOINT {name}")).await?,
            _ => return Err(broken("a savepoint ends with RELEASE or ROLLBACK")),
        }
        Ok(Acted::default())
    }
}

async fn run(session: &Session, sql: &str) -> Result<()> {
    session.query(sql).await?.collect().await.map(drop)
}

/// The type that values of a parameter are asked for as: texts where nothing tells, and for UUIDs.
fn asked_as(known: &Option<DataType>) -> DataType {
    match known {
        None | Some(DataType::FixedSizeBinary(16)) => DataType::Utf8,
        Some(known) => known.clone(),
    }
}
