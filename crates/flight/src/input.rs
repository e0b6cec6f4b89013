//! What clients send as Arrow: messages of a DoPut as batches.
//!
//! Invariant FLI-1: no number of a message is believed before it was checked against the message's
//! length (IPC-1), and arrays are validated as they are decoded; what Arrow's reader still trips
//! over is an error of the call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::root_as_message;
use arrow_flight::decode::{DecodedFlightData, DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{Any, Command};
use arrow_flight::{FlightData, FlightDescriptor};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use lazybase_engine::ipc::check_body;
use lazybase_model::Result;
use prost::Message;
use tonic::{Status, Streaming};

use crate::failure::{broken, of_flight};

/// What a DoPut brings.
pub(crate) struct Incoming {
    pub(crate) command: Command,
    messages: Messages,
}

/// The messages of a DoPut as they come.
pub(crate) struct Messages(BoxStream<'static, Result<FlightData, Status>>);

/// Batches of one schema.
pub(crate) struct Batches {
    pub(crate) schema: SchemaRef,
    pub(crate) rows: BoxStream<'static, Result<RecordBatch>>,
}

/// The command that the bytes of a descriptor or a ticket are.
///
/// # Errors
/// `Invalid` (08P01) for other bytes.
pub(crate) fn command(bytes: &[u8]) -> Result<Command> {
    let any = Any::decode(bytes).map_err(|_| broken("this is no command of Flight SQL"))?;
    Command::try_from(any).map_err(|error| broken(error.to_string()))
}

/// The command of a descriptor.
pub(crate) fn described(descriptor: &FlightDescriptor) -> Result<Command> {
    command(&descriptor.cmd)
}

impl Incoming {
    /// Hears what a client wants to put.
    pub(crate) async fn new(mut messages: Streaming<FlightData>) -> Result<Incoming> {
        let first = messages
            .message()
            .await
            .map_err(|status| of_flight(status.into()))?;
        let first = first.ok_or_else(|| {
            broken("nothing is put")
                .with_detail(
                    "neither a command nor a schema has come: ADBC's driver in Go, and in Python, \
                     sends nothing at all where there is no batch",
                )
                .with_hint("put a batch without rows: RecordBatch.from_pylist([], schema=schema)")
        })?;
        let descriptor = first.flight_descriptor.as_ref();
        let descriptor = descriptor.ok_or_else(|| broken("the first message has no descriptor"))?;
        Ok(Incoming {
            command: described(descriptor)?,
            messages: Messages::new(stream::iter([Ok(first)]).chain(messages)),
        })
    }

    /// The batches that follow.
    ///
    /// # Errors
    /// As [`Messages::batches`].
    pub(crate) async fn batches(self) -> Result<Batches> {
        self.messages.batches().await
    }
}

impl Messages {
    pub(crate) fn new(
        messages: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
    ) -> Messages {
        Messages(messages.boxed())
    }

    /// The batches that they are. Without a schema they have no columns, and there are none.
    ///
    /// # Errors
    /// `Invalid` (08P01) for what makes no batches.
    pub(crate) async fn batches(self) -> Result<Batches> {
        let messages = self.0.map(|message| checked(message?));
        // Messages without a header carry nothing but the descriptor or metadata.
        let messages = messages.filter(|message| {
            let empty = matches!(message, Ok(data) if data.data_header.is_empty());
            std::future::ready(!empty)
        });
        let mut decoded = Decoded {
            decoder: FlightDataDecoder::new(messages),
            over: false,
        };
        let schema = loop {
            match decoded.next().await {
                None => break Arc::new(Schema::empty()),
                Some(Ok(data)) => match data.payload {
                    DecodedPayload::Schema(schema) => break schema,
                    DecodedPayload::RecordBatch(_) => {
                        return Err(broken("a batch comes before its schema"));
                    }
                    DecodedPayload::None => {}
                },
                Some(Err(error)) => return Err(of_flight(error)),
            }
        };
        let rows = decoded.filter_map(|data| {
            std::future::ready(match data {
                Ok(data) => match data.payload {
                    DecodedPayload::RecordBatch(rows) => Some(Ok(rows)),
                    DecodedPayload::Schema(_) => Some(Err(broken("the schema comes twice"))),
                    DecodedPayload::None => None,
                },
                Err(error) => Some(Err(of_flight(error))),
            })
        });
        Ok(Batches {
            schema,
            rows: rows.boxed(),
        })
    }
}

/// A message whose numbers stay inside of it.
fn checked(data: FlightData) -> Result<FlightData, FlightError> {
    if data.data_header.is_empty() {
        return Ok(data);
    }
    let wrong = |what: String| FlightError::DecodeError(what);
    let message = root_as_message(&data.data_header)
        .map_err(|error| wrong(format!("the message is no Arrow: {error}")))?;
    let in_dictionary = message.header_as_dictionary_batch();
    let batch = match in_dictionary {
        Some(dictionary) => dictionary.data(),
        None => message.header_as_record_batch(),
    };
    if let Some(batch) = batch {
        check_body(&batch, data.data_body.len()).map_err(|error| {
            let what = match batch.compression() {
                Some(_) => "compressed batches are not taken".to_owned(),
                None => error.to_string(),
            };
            wrong(what)
        })?;
    }
    Ok(data)
}

/// A decoder that fails where it would panic.
struct Decoded {
    decoder: FlightDataDecoder,
    over: bool,
}

impl Stream for Decoded {
    type Item = Result<DecodedFlightData, FlightError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        let polled = catch_unwind(AssertUnwindSafe(|| self.decoder.poll_next_unpin(cx)));
        let polled = polled.unwrap_or_else(|_| {
            let wrong = "the message makes no Arrow batch".to_owned();
            Poll::Ready(Some(Err(FlightError::DecodeError(wrong))))
        });
        // Nothing that follows what is broken means anything.
        self.over = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }
}
