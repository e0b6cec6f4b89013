//! Answers: what GetFlightInfo says of a statement before it runs, and DoGet's stream of its rows.
//!
//! ```text
//!   GetFlightInfo -> prepare -> its columns  -> ticket
//!                            -> it has none  -> it is run at once, the ticket gives nothing more
//!   DoGet -> schema, batches as the query makes them, an empty batch with the stamp, trailers
//! ```

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};
use arrow_flight::utils::batches_to_flight_data;
use arrow_flight::{
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket,
};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_model::{Error, Result};
use lazybase_query::{Prepared, Session, Value};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::oneshot;
use tonic::Status;

use crate::calls::Told;
use crate::failure::{broken, in_stream};
use crate::input::Batches;
use crate::service::{Call, Service};
use crate::statements::{Bound, Ready};
use crate::stream::{Running, limited};
use crate::watched::{Held, watched};
use crate::words;

/// What a client gets of an answer.
pub(crate) type Messages = BoxStream<'static, Result<FlightData, Status>>;

/// The most bytes of parameters that wait for their query.
const BOUND_BYTES_MAX: usize = 64 << 20;

/// A schema as its IPC message.
pub(crate) fn schema_bytes(schema: &Schema) -> Result<Bytes> {
    let options = IpcWriteOptions::default();
    let message: Result<IpcMessage, _> = SchemaAsIpc::new(schema, &options).try_into();
    match message {
        Ok(IpcMessage(bytes)) => Ok(bytes),
        Err(error) => Err(Error::internal(format!(
            "a schema can't be written: {error}"
        ))),
    }
}

/// What GetFlightInfo says of an answer that a ticket gives.
pub(crate) fn flight_info(
    descriptor: FlightDescriptor,
    schema: &Schema,
    ticket: impl Into<Bytes>,
) -> Result<FlightInfo> {
    let info = FlightInfo {
        schema: schema_bytes(schema)?,
        ..FlightInfo::new()
    };
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    Ok(info
        .with_descriptor(descriptor)
        .with_endpoint(endpoint)
        .with_total_records(-1)
        .with_total_bytes(-1)
        .with_ordered(true))
}

/// The ticket of a statement.
fn ticket(handle: String) -> Vec<u8> {
    let ticket = TicketStatementQuery {
        statement_handle: handle.into(),
    };
    ticket.as_any().encode_to_vec()
}

/// A statement that is to be answered.
pub(crate) struct Asked {
    pub(crate) sql: String,
    pub(crate) session: Arc<Session>,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) bound: Option<Bound>,
}

impl Service {
    /// Describes a statement, and runs it where it gives no rows.
    pub(crate) async fn answer_info(
        &self,
        call: &Call,
        descriptor: FlightDescriptor,
        asked: Asked,
    ) -> Result<(FlightInfo, Option<Told>)> {
        let columns = asked.prepared.schema().await?;
        let (schema, done) = match columns {
            Some(schema) => (schema, None),
            None => {
                if words::is_of_session(&asked.sql) {
                    call.check_kept(&asked.session, first_word(&asked.sql))?;
                }
                (Arc::new(Schema::empty()), Some(self.run(&asked).await?))
            }
        };
        let ready = Ready {
            session: asked.session,
            prepared: asked.prepared,
            bound: asked.bound,
            schema: Arc::clone(&schema),
            done: done.clone(),
        };
        let id = self.statements.add_ready(call.caller.id, ready)?;
        self.sessions.note(&call.caller);
        let mut info = flight_info(descriptor, &schema, ticket(id.text()))?;
        if let Some(done) = &done {
            info = info
                .with_total_records(0)
                .with_app_metadata(done.json().into_bytes());
        }
        Ok((info, done))
    }

    /// Runs a statement that gives no rows, or whose rows nobody wants.
    pub(crate) async fn run(&self, asked: &Asked) -> Result<Told> {
        let (session, prepared) = (&asked.session, &asked.prepared);
        let reads = words::only_reads(&asked.sql);
        let work = async {
            let mut answer = match &asked.bound {
                Some(bound) if prepared.parameters() > 0 => {
                    let rows = stream::iter(bound.batches.clone().into_iter().map(Ok)).boxed();
                    prepared
                        .execute_rows(Arc::clone(&bound.schema), rows)
                        .await?
                }
                _ => prepared.query(&[]).await?,
            };
            while let Some(rows) = answer.next().await {
                rows?;
            }
            Ok(Told::of(&answer, session))
        };
        limited(session, reads, &self.stop, Box::pin(work)).await
    }

    /// The rows of a statement whose ticket is shown.
    pub(crate) async fn fetch(&self, handle: &[u8]) -> Result<Messages> {
        let (ready, fetched) = self.statements.fetch(handle)?;
        if let Some(done) = ready.done {
            let told = Arc::new(Mutex::new(done));
            return Ok(messages(ready.schema, stream::empty().boxed(), told));
        }
        let values = match &ready.bound {
            Some(bound) if ready.prepared.parameters() > 0 => values_of(bound)?,
            _ => vec![Vec::new()],
        };
        let schema = Arc::clone(&ready.schema);
        let running = Running::begin(
            ready.session,
            ready.prepared,
            values,
            ready.schema,
            fetched,
            &self.stop,
        );
        let (running, ends) = running.await?;
        let (told, way_out) = (running.told(), running.way_out());
        let (over, is_over) = oneshot::channel();
        let rows = stream::unfold((running, over), |(mut running, over)| async move {
            let next = running.next().await?;
            Some((next.map_err(|error| in_stream(&error)), (running, over)))
        });
        let held = Held {
            messages: messages(schema, rows.boxed(), told),
            way_out,
        };
        Ok(watched(held, ends, is_over).boxed())
    }
}

fn first_word(sql: &str) -> &str {
    sql.split_whitespace().next().unwrap_or_default()
}

fn values_of(bound: &Bound) -> Result<Vec<Vec<Value>>> {
    let mut values = Vec::new();
    for batch in &bound.batches {
        values.extend(Value::rows_of(batch)?);
    }
    Ok(values)
}

/// Rows of parameters that are kept for a query.
pub(crate) async fn bound(batches: Batches) -> Result<Bound> {
    let (mut rows, mut bytes) = (batches.rows, 0_usize);
    let mut kept = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        bytes = bytes.saturating_add(batch.get_array_memory_size().min(sliced(&batch)));
        if bytes > BOUND_BYTES_MAX {
            return Err(Error::invalid("too many parameters are bound at once")
                .with_detail(format!("the limit is {BOUND_BYTES_MAX} bytes"))
                .with_hint("run the statement as an update, or ingest the rows")
                .with_sqlstate("54000"));
        }
        if batch.num_rows() > 0 {
            kept.push(batch);
        }
    }
    if batches.schema.fields().is_empty() && !kept.is_empty() {
        return Err(broken("rows of parameters have no columns"));
    }
    Ok(Bound {
        schema: batches.schema,
        batches: kept,
    })
}

/// The bytes of a batch's own rows.
fn sliced(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    let bytes = columns.map(|column| {
        column
            .to_data()
            .get_slice_memory_size()
            .unwrap_or(usize::MAX)
    });
    bytes.fold(0, usize::saturating_add)
}

/// Rows as Flight's messages; at their end, what is told of them: with an empty batch, and in
/// the trailers.
pub(crate) fn messages(
    schema: SchemaRef,
    rows: BoxStream<'static, Result<RecordBatch, FlightError>>,
    told: Arc<Mutex<Told>>,
) -> Messages {
    let encoder = FlightDataEncoderBuilder::new()
        .with_schema(Arc::clone(&schema))
        .build(rows);
    let sent = encoder.known_schema().unwrap_or(schema);
    let data = encoder.map(|message| message.map_err(Status::from));
    let end = stream::once(async move {
        let told = told.lock().clone();
        let mut ok = Status::ok("");
        told.put(ok.metadata_mut());
        let last = last_message(&sent, &told);
        // An error ends the stream with trailers; this one says that all went well.
        stream::iter(last.into_iter().map(Ok).chain([Err(ok)]))
    });
    data.chain(end.flatten()).boxed()
}

/// An empty batch that carries what is told.
fn last_message(schema: &Schema, told: &Told) -> Option<FlightData> {
    if schema.fields().is_empty() {
        return None;
    }
    let empty = RecordBatch::new_empty(Arc::new(schema.clone()));
    let last = batches_to_flight_data(schema, vec![empty]).ok()?.pop()?;
    Some(last.with_app_metadata(told.json().into_bytes()))
}
