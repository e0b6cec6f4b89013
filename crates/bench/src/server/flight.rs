//! Flight ingest beside the appender of this process: the same batches, one commit.

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
use crate::report::median;

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

/// Measures both, in turns.
pub(super) fn ingest(world: &World<'_>) -> Outcome<()> {
    const TARGET: &str = "taken";
    let batches = world.rows.batches(0, world.rows.count);
    let (mut over, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..world.args.times() {
        runtime()?.block_on(async {
            let mut client = connect(world.lazybase.flight).await?;
            run(&mut client, &format!("DROP TABLE IF EXISTS {TARGET}")).await?;
            run(&mut client, &Rows::create_table(TARGET)).await?;
            let begun = Instant::now();
            send(&mut client, TARGET, batches.clone()).await?;
            over.push(world.rows.count as f64 / begun.elapsed().as_secs_f64());
            // Nothing of it shall go on while others are measured.
            run(&mut client, &format!("DROP TABLE {TARGET}")).await?;
            run(&mut client, "SETTLE").await
        })?;
        let folder = tempfile::tempdir_in(&world.folder)?;
        runtime()?.block_on(async {
            let database = Database::open(folder.path().join("db")).await?;
            database
                .session()
                .execute(&Rows::create_table(TARGET))
                .await?;
            let begun = Instant::now();
            let mut appender = database.appender();
            for batch in &batches {
                appender.append(TARGET, batch, Op::Upsert).await?;
            }
            appender.commit().await?;
            alone.push(world.rows.count as f64 / begun.elapsed().as_secs_f64());
            database.close().await?;
            Outcome::Ok(())
        })?;
    }
    let (over, alone) = (median(&mut over), median(&mut alone));
    world.goals.figure("flight_ingest_rows_s", over);
    world.goals.figure("appender_rows_s", alone);
    world
        .goals
        .figure("flight_ingest_appender_ratio", over / alone);
    Ok(())
}
