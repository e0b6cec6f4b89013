//! A large answer of wide rows: over Flight beside a bare Flight server that sends the same
//! batches from memory to the same client, and over PostgreSQL's protocol beside PostgreSQL's. It
//! has a table of its own, for it is larger than what the other measurements read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use super::World;
use super::flight::{Client, connect, runtime};
use super::rows::Rows;
use super::socket::Socket;
use crate::Outcome;
use crate::report::median;

/// The table whose rows are all asked for.
const LARGE: &str = "large";
/// Rows of a COPY that fills it.
const PIECE_ROWS: u64 = 100_000;
const GIB: f64 = (1 << 30) as f64;

/// Measures both protocols.
pub(super) fn measure(world: &World<'_>) -> Outcome<()> {
    let gib = world.args.result_rows() as f64 * world.rows.pool.row_bytes() / GIB;
    world.goals.figure("result_gib", gib);
    let mut socket = fill(world, &world.lazybase.address)?;
    socket.query("SETTLE")?;
    over_flight(world)?;
    let ours = over_postgres(world, &mut socket)?;
    world.goals.figure("result_rows_s", ours);
    // Nothing of it shall go on while others are measured.
    socket.query(&format!("DROP TABLE {LARGE}"))?;
    socket.query("SETTLE")?;
    if let Some(postgres) = &world.postgres {
        let mut socket = fill(world, &postgres.address)?;
        socket.query(&format!("VACUUM (ANALYZE) {LARGE}"))?;
        socket.query("CHECKPOINT")?;
        let theirs = over_postgres(world, &mut socket)?;
        world.goals.figure("postgres_result_rows_s", theirs);
        world.goals.figure("result_postgres_ratio", ours / theirs);
        socket.query(&format!("DROP TABLE {LARGE}"))?;
        socket.query("CHECKPOINT")?;
    }
    Ok(())
}

/// Makes the table, and gives the connection that did.
fn fill(world: &World<'_>, address: &SocketAddr) -> Outcome<Socket> {
    let mut socket = Socket::connect(address)?;
    socket.query(&Rows::create_table(LARGE))?;
    let rows = world.args.result_rows();
    for first in (0..rows).step_by(PIECE_ROWS as usize) {
        let text = world.rows.text(first..rows.min(first + PIECE_ROWS))?;
        socket.copy_in(&format!("COPY {LARGE} FROM STDIN"), &text)?;
    }
    Ok(socket)
}

/// Rows a second over PostgreSQL's protocol, in text.
fn over_postgres(world: &World<'_>, socket: &mut Socket) -> Outcome<f64> {
    let mut rates = Vec::new();
    for _ in 0..=world.args.times() {
        let begun = Instant::now();
        let told = socket.query(&format!("SELECT * FROM {LARGE}"))?;
        expect(world, told.rows)?;
        rates.push(told.rows as f64 / begun.elapsed().as_secs_f64());
    }
    // The first one warms up.
    Ok(median(&mut rates[1..]))
}

fn expect(world: &World<'_>, rows: u64) -> Outcome<()> {
    let expected = world.args.result_rows();
    match rows == expected {
        true => Ok(()),
        false => Err(format!("{rows} rows came, not {expected}").into()),
    }
}

fn over_flight(world: &World<'_>) -> Outcome<()> {
    let runtime = runtime()?;
    let (ours, bare) = runtime.block_on(async {
        let mut client = connect(world.lazybase.flight).await?;
        let kept = fetch(&mut client).await?;
        expect(world, kept.iter().map(|rows| rows.num_rows() as u64).sum())?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let service =
            FlightServiceServer::new(Bare(Arc::new(kept))).max_encoding_message_size(usize::MAX);
        let serving = Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
        let serving = tokio::spawn(serving);
        let mut bare = connect(address).await?;
        let (mut of_ours, mut of_bare) = (Vec::new(), Vec::new());
        for _ in 0..world.args.times() {
            let begun = Instant::now();
            let info = client.execute(sql(), None).await?;
            let ticket = info.endpoint.first().and_then(|at| at.ticket.clone());
            let rows = count(&mut client, ticket.ok_or("there is no ticket")?).await?;
            expect(world, rows)?;
            of_ours.push(rows as f64 / begun.elapsed().as_secs_f64());
            let begun = Instant::now();
            let rows = count(&mut bare, Ticket::default()).await?;
            expect(world, rows)?;
            of_bare.push(rows as f64 / begun.elapsed().as_secs_f64());
        }
        serving.abort();
        Outcome::Ok((median(&mut of_ours), median(&mut of_bare)))
    })?;
    world.goals.figure("flight_result_rows_s", ours);
    world.goals.figure("flight_bare_rows_s", bare);
    world.goals.figure("flight_result_bare_ratio", ours / bare);
    Ok(())
}

fn sql() -> String {
    format!("SELECT * FROM {LARGE} FRESHNESS 'best effort'")
}

/// All batches of the answer.
async fn fetch(client: &mut Client) -> Outcome<Vec<RecordBatch>> {
    let info = client.execute(sql(), None).await?;
    let ticket = info.endpoint.first().and_then(|at| at.ticket.clone());
    let rows = client.do_get(ticket.ok_or("there is no ticket")?).await?;
    Ok(rows.try_collect().await?)
}

/// How many rows a ticket gives.
async fn count(client: &mut Client, ticket: Ticket) -> Outcome<u64> {
    let mut rows = client.do_get(ticket).await?;
    let mut count = 0;
    while let Some(batch) = rows.try_next().await? {
        count += batch.num_rows() as u64;
    }
    Ok(count)
}

/// Sends what is in memory, whatever is asked for.
struct Bare(Arc<Vec<RecordBatch>>);

type Answer<T> = Result<Response<T>, Status>;
type Stream<T> = BoxStream<'static, Result<T, Status>>;

fn nothing_else<T>() -> Answer<T> {
    Err(Status::unimplemented("this server gives its batches alone"))
}

#[tonic::async_trait]
impl FlightService for Bare {
    type HandshakeStream = Stream<HandshakeResponse>;
    type ListFlightsStream = Stream<FlightInfo>;
    type DoGetStream = Stream<FlightData>;
    type DoPutStream = Stream<PutResult>;
    type DoActionStream = Stream<arrow_flight::Result>;
    type ListActionsStream = Stream<ActionType>;
    type DoExchangeStream = Stream<FlightData>;

    async fn do_get(&self, _: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let Some(first) = self.0.first() else {
            return nothing_else();
        };
        let batches = Arc::clone(&self.0);
        let rows =
            stream::iter(0..batches.len()).map(move |at| Ok::<_, FlightError>(batches[at].clone()));
        let messages = FlightDataEncoderBuilder::new()
            .with_schema(first.schema())
            .build(rows);
        Ok(Response::new(messages.map_err(Status::from).boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        nothing_else()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        nothing_else()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        nothing_else()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<PollInfo> {
        nothing_else()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        nothing_else()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        nothing_else()
    }

    async fn do_action(&self, _: Request<Action>) -> Answer<Self::DoActionStream> {
        nothing_else()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Answer<Self::ListActionsStream> {
        nothing_else()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        nothing_else()
    }
}
