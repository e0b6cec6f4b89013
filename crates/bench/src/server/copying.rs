//! COPY FROM of wide rows: over the wire into LazyBase and into PostgreSQL, and what of it this
//! process does by itself.
//!
//! ```text
//!   over the wire    COPY by a client
//!   in process       COPY in a database of this process: no network
//!   parse            the text to batches: no database
//!   log              those batches to a log, one commit: no text, and no later stage
//! ```
//!
//! Parsing and the log, one after the other, are what the wire is held to. The first table is that
//! of all other measurements.

use std::io::Cursor;
use std::time::Instant;

use arrow::array::RecordBatch;
use bytes::Bytes;
use lazybase_query::Database;

use super::rows::Rows;
use super::socket::Socket;
use super::{Part, World, parsing};
use crate::Outcome;
use crate::ingest::{WARM_BATCHES, log_alone, one_batch};
use crate::report::median;

/// The table that everything else is measured on.
pub(super) const TABLE: &str = "events";

/// Copies the rows into new tables, in turns; the last of them stays.
pub(super) fn measure(world: &mut World<'_>) -> Outcome<()> {
    let text = world.rows.text(0..world.rows.count)?;
    let (rows, bytes) = (world.rows.count as f64, text.len() as f64);
    world
        .goals
        .note(&format!("COPY of {rows} rows, {:.0} MB", bytes / 1e6));
    let (mut ours, mut theirs, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let (mut parsed, mut logged) = (Vec::new(), Vec::new());
    let measured = world.args.wants(Part::Copy);
    for _ in 0..if measured { world.args.times() } else { 1 } {
        let mut socket = Socket::connect(&world.lazybase.address)?;
        ours.push(rows / copy(&mut socket, &text)?);
        socket.query("SETTLE")?;
        if let Some(postgres) = &world.postgres {
            let mut socket = Socket::connect(&postgres.address)?;
            theirs.push(rows / copy(&mut socket, &text)?);
            socket.query(&format!("VACUUM (ANALYZE) {TABLE}"))?;
            socket.query("CHECKPOINT")?;
        }
        if measured {
            alone.push(rows / in_process(world, &text)?);
            let begun = Instant::now();
            let batches = parsing::batches(&text)?;
            parsed.push(rows / begun.elapsed().as_secs_f64());
            logged.push(rows / log(world, batches)?);
        }
    }
    if !measured {
        return Ok(());
    }
    let (ours, theirs, alone) = (median(&mut ours), median(&mut theirs), median(&mut alone));
    let (parsed, logged) = (median(&mut parsed), median(&mut logged));
    let both = 1.0 / (1.0 / parsed + 1.0 / logged);
    let figure = |name: &str, value| world.goals.figure(name, value);
    figure("copy_row_bytes", bytes / rows);
    figure("copy_rows_s", ours);
    figure("copy_in_process_rows_s", alone);
    figure("copy_in_process_ratio", ours / alone);
    figure("copy_parse_rows_s", parsed);
    figure("copy_log_rows_s", logged);
    figure("copy_parse_log_rows_s", both);
    figure("copy_parse_log_ratio", ours / both);
    if world.postgres.is_some() {
        figure("postgres_copy_rows_s", theirs);
        figure("copy_postgres_ratio", ours / theirs);
    }
    Ok(())
}

/// The seconds until the rows are acknowledged, in a table that is made anew.
fn copy(socket: &mut Socket, text: &Bytes) -> Outcome<f64> {
    socket.query(&format!("DROP TABLE IF EXISTS {TABLE}"))?;
    socket.query(&Rows::create_table(TABLE))?;
    let begun = Instant::now();
    socket.copy_in(&format!("COPY {TABLE} FROM STDIN"), text)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// The same without a network, in a database of this process.
fn in_process(world: &World<'_>, text: &Bytes) -> Outcome<f64> {
    let folder = tempfile::tempdir_in(&world.folder)?;
    super::flight::runtime()?.block_on(async {
        let database = Database::open(folder.path().join("db")).await?;
        let session = database.session();
        session.execute(&Rows::create_table(TABLE)).await?;
        let begun = Instant::now();
        let sql = format!("COPY {TABLE} FROM STDIN WITH (FORMAT text)");
        let copied = session.copy_from(&sql, Cursor::new(text.clone())).await?;
        let copied = copied.collect().await?.rows;
        let took = begun.elapsed().as_secs_f64();
        database.close().await?;
        match copied == world.rows.count {
            true => Ok(took),
            false => Err(format!("{copied} rows were copied").into()),
        }
    })
}

/// The seconds until the log has the rows, as one batch.
fn log(world: &World<'_>, batches: Vec<RecordBatch>) -> Outcome<f64> {
    let folder = tempfile::tempdir_in(&world.folder)?;
    let running = log_alone(folder.path(), world.rows.pool.shape())?;
    let first = batches.iter().take(WARM_BATCHES).cloned();
    one_batch(&running, first.collect())?;
    let took = one_batch(&running, batches)?;
    running.close()?;
    Ok(took)
}
