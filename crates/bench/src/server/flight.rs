//! Flight ingest beside the engine's own and beside the appender of this process: the same batches.
//!
//! What is measured of the engine is what `stages --measure ingest` measures: one writer that waits
//! for each batch to be durable, while all later stages are paused. They are paused in the server
//! too, until its client has all acknowledgements.

use std::net::SocketAddr;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use futures::stream;
use lazybase_query::{Database, Op};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

use super::World;
use super::rows::Rows;
use crate::Outcome;
use crate::ingest::{PAUSED, WARM_BATCHES, large_batches, log_alone};
use crate::report::median;

/// The table that they are sent to.
const TARGET: &str = "taken";
/// Paused stages make no room: beyond a gibibyte that is not sorted, writers would wait for ever.
pub(super) const PAUSED_ROWS_MAX: u64 = 600_000;

/// What the server may send before it is read: of one call, and of a connection.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// A client of Flight SQL.
pub(super) type Client = FlightSqlServiceClient<Channel>;

/// What clients and what runs in this process work on: two threads.
pub(super) fn runtime() -> Outcome<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}

/// A new connection.
pub(super) async fn connect(address: SocketAddr) -> Outcome<Client> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .tcp_nodelay(true)
        .connect()
        .await?;
    Ok(Client::new(channel))
}

/// Sends batches into a table that is there, as one atomic batch.
pub(super) async fn send(
    client: &mut Client,
    table: &str,
    batches: Vec<RecordBatch>,
) -> Outcome<()> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let command = CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Fail.into(),
            if_exists: TableExistsOption::Append.into(),
        }),
        table: table.to_owned(),
        ..CommandStatementIngest::default()
    };
    let taken = client
        .execute_ingest(command, stream::iter(batches.into_iter().map(Ok)))
        .await?;
    match taken == rows as i64 {
        true => Ok(()),
        false => Err(format!("{taken} rows were taken, not {rows}").into()),
    }
}

/// Runs a statement that gives no rows.
pub(super) async fn run(client: &mut Client, sql: &str) -> Outcome<()> {
    client.execute_update(sql.to_owned(), None).await?;
    Ok(())
}

/// Measures all of them, in turns.
pub(super) fn ingest(world: &World<'_>) -> Outcome<()> {
    let count = world.rows.count.min(PAUSED_ROWS_MAX);
    let batches = world.rows.batches(0, count);
    let (mut whole, mut each) = (Vec::new(), Vec::new());
    let (mut engine, mut appender) = (Vec::new(), Vec::new());
    for _ in 0..world.args.times() {
        whole.push(over_the_wire(world, vec![batches.clone()])?);
        let one_by_one = batches.iter().map(|batch| vec![batch.clone()]);
        each.push(over_the_wire(world, one_by_one.collect())?);
        engine.push(of_the_engine(world, count)?);
        appender.push(appended(world, &batches)?);
    }
    let (whole, each) = (median(&mut whole), median(&mut each));
    let (engine, appender) = (median(&mut engine), median(&mut appender));
    let figure = |name: &str, value| world.goals.figure(name, value);
    figure("flight_ingest_rows_s", whole);
    figure("flight_ingest_each_rows_s", each);
    figure("engine_ingest_rows_s", engine);
    figure("appender_rows_s", appender);
    figure("flight_ingest_engine_ratio", whole / engine);
    figure("flight_ingest_each_engine_ratio", each / engine);
    figure("flight_ingest_appender_ratio", whole / appender);
    Ok(())
}

/// Rows a second of a client that waits for each of these puts, while nothing but ingest works in
/// the server.
fn over_the_wire(world: &World<'_>, puts: Vec<Vec<RecordBatch>>) -> Outcome<f64> {
    runtime()?.block_on(async {
        let mut client = connect(world.lazybase.flight).await?;
        let warm = puts.iter().flatten().take(WARM_BATCHES).cloned().collect();
        begin_paused(&mut client, warm).await?;
        let rate = put_all(&mut client, puts).await?;
        resume(&mut client).await?;
        end(&mut client).await?;
        Outcome::Ok(rate)
    })
}

/// Makes the table that rows are put into while nothing but ingest works in the server; some warm
/// up.
pub(super) async fn begin_paused(client: &mut Client, warm: Vec<RecordBatch>) -> Outcome<()> {
    run(client, &Rows::create_table(TARGET)).await?;
    for stage in PAUSED {
        run(client, &format!("PAUSE STAGE {}", stage.name())).await?;
    }
    for batch in warm {
        send(client, TARGET, vec![batch]).await?;
    }
    Ok(())
}

/// Rows a second of a client that waits for each of these puts into that table.
pub(super) async fn put_all(client: &mut Client, puts: Vec<Vec<RecordBatch>>) -> Outcome<f64> {
    let rows: usize = puts.iter().flatten().map(RecordBatch::num_rows).sum();
    let begun = Instant::now();
    for put in puts {
        send(client, TARGET, put).await?;
    }
    Ok(rows as f64 / begun.elapsed().as_secs_f64())
}

/// The paused stages go on.
pub(super) async fn resume(client: &mut Client) -> Outcome<()> {
    for stage in PAUSED {
        run(client, &format!("RESUME STAGE {}", stage.name())).await?;
    }
    Ok(())
}

/// Drops the table: nothing of it shall go on while others are measured.
pub(super) async fn end(client: &mut Client) -> Outcome<()> {
    run(client, &format!("DROP TABLE {TARGET}")).await?;
    run(client, "SETTLE").await
}

/// Rows a second of the engine's own benchmark, with as many rows.
fn of_the_engine(world: &World<'_>, count: u64) -> Outcome<f64> {
    let folder = tempfile::tempdir_in(&world.folder)?;
    let pool = &world.rows.pool;
    let running = log_alone(folder.path(), pool.shape())?;
    let megabytes = count as f64 * pool.row_bytes() / 1e6;
    let reached = large_batches(pool, &running, megabytes)?;
    running.close()?;
    Ok(reached.rows_s)
}

/// Rows a second of an appender: one commit, which nothing is sorted before.
fn appended(world: &World<'_>, batches: &[RecordBatch]) -> Outcome<f64> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let folder = tempfile::tempdir_in(&world.folder)?;
    runtime()?.block_on(async {
        let database = Database::open(folder.path().join("db")).await?;
        database
            .session()
            .execute(&Rows::create_table(TARGET))
            .await?;
        let begun = Instant::now();
        let mut appender = database.appender();
        for batch in batches {
            appender.append(TARGET, batch, Op::Upsert).await?;
        }
        appender.commit().await?;
        let rate = rows as f64 / begun.elapsed().as_secs_f64();
        database.close().await?;
        Outcome::Ok(rate)
    })
}
