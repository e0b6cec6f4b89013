//! Flight's calls: each finds its session, does its work, and tells what happened in metadata.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::Command;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use lazybase_model::{Error, Result};
use lazybase_query::Session;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::watch;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status, Streaming};

use crate::answers::{Asked, Messages, flight_info, messages, schema_bytes};
use crate::calls::{self, Told};
use crate::catalog;
use crate::failure::{broken, status};
use crate::input::{Incoming, command, described};
use crate::peer::Peer;
use crate::sessions::{Caller, Credentials, Id, Sessions, credentials};
use crate::statements::{Cancelled, Statements};
use crate::updates::no_substrait;

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send + 'static>>;

/// What answers calls.
pub(crate) struct Service {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) statements: Arc<Statements>,
    /// Whether what runs must end, for the server stops.
    pub(crate) stop: watch::Receiver<bool>,
}

/// A call: whose session, and what its headers say.
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) metadata: MetadataMap,
    /// The other end of the connection that it came by.
    connection: SocketAddr,
}

impl Call {
    /// What alone tells whose call it is, where the client names no session.
    pub(crate) fn unnamed_connection(&self) -> Option<SocketAddr> {
        (!self.caller.named).then_some(self.connection)
    }

    /// The session with what the headers set for this call: a branch of it, unless its transaction
    /// is to go on.
    pub(crate) fn configured(&self, session: &Arc<Session>) -> Result<Arc<Session>> {
        if !calls::sets(&self.metadata) {
            return Ok(Arc::clone(session));
        }
        let session = match session.in_transaction() {
            true => Arc::clone(session),
            false => Arc::new(session.branch()),
        };
        calls::apply(&session, &self.metadata)?;
        Ok(session)
    }

    /// Refuses to change a session that ends with the call.
    pub(crate) fn check_kept(&self, session: &Arc<Session>, what: &str) -> Result<()> {
        // A transaction's session is found again by the transaction's id.
        match session.in_transaction() {
            true => Ok(()),
            false => self.caller.check_kept(what),
        }
    }

    /// A response with the session's name and what the answer tells.
    fn respond<T>(&self, body: T, told: Option<&Told>) -> Response<T> {
        let mut response = Response::new(body);
        self.caller.put(response.metadata_mut());
        if let Some(told) = told {
            told.put(response.metadata_mut());
        }
        response
    }
}

impl Service {
    async fn call<T>(&self, request: &Request<T>) -> Result<Call> {
        let metadata = request.metadata().clone();
        let peer = Peer::of(request.extensions());
        peer.check_place()?;
        let caller = self.sessions.of_call(&metadata, &peer).await?;
        peer.let_in();
        calls::check(&metadata)?;
        Ok(Call {
            caller,
            metadata,
            connection: peer.address(),
        })
    }

    /// The session that a call's statement runs in: that of its transaction, or the caller's.
    pub(crate) fn runner(&self, call: &Call, transaction: Option<&Bytes>) -> Result<Arc<Session>> {
        let Some(handle) = transaction.filter(|handle| !handle.is_empty()) else {
            return call.configured(&call.caller.session);
        };
        let (_, session) = self.statements.transaction(handle)?;
        if !session.in_transaction() {
            return Err(Error::invalid("the transaction has ended")
                .with_detail("a COMMIT or ROLLBACK in SQL has ended it")
                .with_sqlstate("25P01"));
        }
        call.configured(&session)
    }

    async fn info(
        &self,
        call: &Call,
        descriptor: FlightDescriptor,
    ) -> Result<(FlightInfo, Option<Told>)> {
        match described(&descriptor)? {
            Command::CommandStatementQuery(query) => {
                let session = self.runner(call, query.transaction_id.as_ref())?;
                let prepared = Arc::new(session.prepare(&query.query).await?);
                let asked = Asked {
                    sql: query.query,
                    session,
                    prepared,
                    bound: None,
                };
                self.answer_info(call, descriptor, asked).await
            }
            Command::CommandPreparedStatementQuery(query) => {
                let statement = self.statements.prepared(&query.prepared_statement_handle)?;
                let (session, prepared) = self.prepared_in(call, &statement)?;
                let bound = statement
                    .bound
                    .lock()
                    .as_ref()
                    .map(|(bound, _)| bound.clone());
                let asked = Asked {
                    sql: statement.sql.clone(),
                    session,
                    prepared,
                    bound,
                };
                self.answer_info(call, descriptor, asked).await
            }
            Command::CommandStatementSubstraitPlan(_) => Err(no_substrait()),
            asked => {
                let schema = catalog::schema(&asked)?;
                let ticket = descriptor.cmd.clone();
                Ok((flight_info(descriptor, &schema, ticket)?, None))
            }
        }
    }

    async fn schema(&self, call: &Call, descriptor: &FlightDescriptor) -> Result<SchemaResult> {
        let columns = match described(descriptor)? {
            Command::CommandStatementQuery(query) => {
                let session = self.runner(call, query.transaction_id.as_ref())?;
                session.prepare(&query.query).await?.schema().await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                let statement = self.statements.prepared(&query.prepared_statement_handle)?;
                let (_, prepared) = self.prepared_in(call, &statement)?;
                prepared.schema().await?
            }
            Command::CommandStatementSubstraitPlan(_) => return Err(no_substrait()),
            asked => Some(catalog::schema(&asked)?),
        };
        let schema = columns.unwrap_or_else(|| Arc::new(arrow::datatypes::Schema::empty()));
        Ok(SchemaResult {
            schema: schema_bytes(&schema)?,
        })
    }

    async fn get(&self, call: &Call, ticket: &Ticket) -> Result<Messages> {
        match command(&ticket.ticket)? {
            Command::TicketStatementQuery(ticket) => self.fetch(&ticket.statement_handle).await,
            asked => {
                let rows = catalog::rows(&call.caller.session, asked).await?;
                let schema = rows.schema();
                let told = Told {
                    tag: format!("SELECT {}", rows.num_rows()),
                    rows: rows.num_rows() as u64,
                    ..Told::default()
                };
                let rows = stream::iter([Ok(rows)]).boxed();
                Ok(messages(schema, rows, Arc::new(Mutex::new(told))))
            }
        }
    }

    /// Keeps the statement of a ticket for as long again.
    pub(crate) fn renew(&self, endpoint: &FlightEndpoint) -> Result<()> {
        let ticket = endpoint.ticket.as_ref();
        let ticket = ticket.ok_or_else(|| broken("the endpoint has no ticket"))?;
        match command(&ticket.ticket)? {
            Command::TicketStatementQuery(ticket) => {
                self.statements.renew(&ticket.statement_handle)
            }
            // What catalogs hold is looked up with each call.
            _ => Ok(()),
        }
    }

    /// Cancels the statement of a FlightInfo.
    pub(crate) fn cancel(&self, info: &FlightInfo) -> Result<Cancelled> {
        let tickets = info.endpoint.iter().filter_map(|end| end.ticket.as_ref());
        let mut outcome = Cancelled::No;
        for ticket in tickets {
            if let Command::TicketStatementQuery(ticket) = command(&ticket.ticket)?
                && let Cancelled::Yes = self.statements.cancel(&ticket.statement_handle)
            {
                outcome = Cancelled::Yes;
            }
        }
        Ok(outcome)
    }

    /// Lets a client in, with a session of its own.
    async fn greet(&self, request: Request<Streaming<HandshakeRequest>>) -> Result<Caller> {
        let metadata = request.metadata().clone();
        let peer = Peer::of(request.extensions());
        peer.check_place()?;
        let mut given = credentials(&metadata)?;
        if given.is_none() {
            // Older clients send their name in the first message.
            let first = request.into_inner().message().await.ok().flatten();
            let payload = first.map(|first| first.payload).unwrap_or_default();
            let basic = arrow_flight::BasicAuth::decode(payload)
                .map_err(|_| broken("the handshake can't be read").with_sqlstate("28000"))?;
            given = Some(Credentials {
                user: basic.username,
                password: basic.password,
            });
        }
        let who = self.sessions.let_in(given, &peer).await?;
        peer.let_in();
        self.sessions.open(&who, &peer)
    }
}

/// A prepared statement's or a transaction's id, as its handle.
pub(crate) fn handle(id: Id) -> Bytes {
    id.text().into()
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = Boxed<HandshakeResponse>;
    type ListFlightsStream = Boxed<FlightInfo>;
    type DoGetStream = Boxed<FlightData>;
    type DoPutStream = Boxed<PutResult>;
    type DoActionStream = Boxed<arrow_flight::Result>;
    type ListActionsStream = Boxed<ActionType>;
    type DoExchangeStream = Boxed<FlightData>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let caller = self.greet(request).await.map_err(|error| status(&error))?;
        let bearer = caller.bearer();
        let answer = HandshakeResponse {
            protocol_version: 0,
            payload: bearer.clone().into(),
        };
        let mut response: Response<Self::HandshakeStream> =
            Response::new(Box::pin(stream::iter([Ok(answer)])));
        caller.put(response.metadata_mut());
        if let Ok(bearer) = MetadataValue::try_from(format!("Bearer {bearer}")) {
            response.metadata_mut().insert("authorization", bearer);
        }
        Ok(response)
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        // Flight SQL lists tables by its own commands.
        Ok(Response::new(Box::pin(stream::empty())))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let call = self.call(&request).await.map_err(|error| status(&error))?;
        let done = Box::pin(self.info(&call, request.into_inner())).await;
        let (info, told) = done.map_err(|error| status(&error))?;
        Ok(call.respond(info, told.as_ref()))
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented(
            "[0A000] GetFlightInfo answers at once",
        ))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let call = self.call(&request).await.map_err(|error| status(&error))?;
        let schema = Box::pin(self.schema(&call, request.get_ref())).await;
        Ok(call.respond(schema.map_err(|error| status(&error))?, None))
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        let call = self.call(&request).await.map_err(|error| status(&error))?;
        let messages = Box::pin(self.get(&call, request.get_ref())).await;
        Ok(call.respond(messages.map_err(|error| status(&error))?, None))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let call = self.call(&request).await.map_err(|error| status(&error))?;
        let done = Box::pin(async {
            let incoming = Incoming::new(request.into_inner()).await?;
            self.put(&call, incoming).await
        });
        let put = done.await.map_err(|error| status(&error))?;
        let result = PutResult {
            app_metadata: put.result,
        };
        let results: Self::DoPutStream = Box::pin(stream::iter([Ok(result)]));
        Ok(call.respond(results, put.told.as_ref()))
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented(
            "[0A000] Flight SQL has no use for DoExchange",
        ))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let call = self.call(&request).await.map_err(|error| status(&error))?;
        let done = Box::pin(self.act(call, request.into_inner())).await;
        let (caller, acted) = done.map_err(|error| status(&error))?;
        let results: Self::DoActionStream = Box::pin(stream::iter(acted.result.map(Ok)));
        let mut response = Response::new(results);
        match acted.forget {
            true => crate::sessions::forget(response.metadata_mut()),
            false => caller.put(response.metadata_mut()),
        }
        if let Some(told) = acted.told {
            told.put(response.metadata_mut());
        }
        Ok(response)
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        let known = crate::actions::KNOWN.iter().map(|(name, what)| {
            Ok(ActionType {
                r#type: (*name).to_owned(),
                description: (*what).to_owned(),
            })
        });
        Ok(Response::new(Box::pin(stream::iter(
            known.collect::<Vec<_>>(),
        ))))
    }
}
