//! Point reads by prepared statement over many connections, a thread each, and what connections
//! cost that do nothing.
//!
//! Every read must find its row.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::World;
use super::copying::TABLE;
use super::mixed;
use super::rows::Rows;
use super::socket::Socket;
use crate::Outcome;
use crate::data::Seeded;

/// Connections that measure a rate.
const CONNECTIONS: u64 = 16;
/// Connections that are more than two cores can serve at a time.
const BUSY: u64 = 64;
/// Connections that do nothing.
const IDLE: u64 = 500;
/// Keys of new rows begin here, after those of other measurements.
const FIRST_NEW_ID: i64 = 2 * mixed::FIRST_NEW_ID;

/// The same rows in the layout for point reads.
const POINTED: &str = "pointed";

/// Rates of reads of whole rows, and of one value, beside PostgreSQL's; and from the layout that is
/// made for them.
pub(super) fn points(world: &World<'_>) -> Outcome<()> {
    let select =
        |columns: &str, table: &str| format!("SELECT {columns} FROM {table} WHERE id = $1");
    let rate = |address: &SocketAddr, sql: &str| {
        let reads = reads(world, address, sql, CONNECTIONS, world.args.time())?;
        Outcome::Ok(reads.rate())
    };
    let mut socket = Socket::connect(&world.lazybase.address)?;
    let create = Rows::create_table(POINTED);
    socket.query(&format!("{create} WITH (layout = 'point')"))?;
    socket.query(&format!("INSERT INTO {POINTED} SELECT * FROM {TABLE}"))?;
    socket.query("SETTLE")?;
    for (name, columns) in [("row", "*"), ("value", "likes")] {
        let figure = |what: String, value| world.goals.figure(&what, value);
        let ours = rate(&world.lazybase.address, &select(columns, TABLE))?;
        let pointed = rate(&world.lazybase.address, &select(columns, POINTED))?;
        figure(format!("point_{name}_s"), ours);
        figure(format!("point_layout_{name}_s"), pointed);
        if let Some(postgres) = &world.postgres {
            let theirs = rate(&postgres.address, &select(columns, TABLE))?;
            figure(format!("postgres_point_{name}_s"), theirs);
            figure(format!("point_{name}_postgres_ratio"), ours / theirs);
            figure(
                format!("point_layout_{name}_postgres_ratio"),
                pointed / theirs,
            );
        }
    }
    socket.query(&format!("DROP TABLE {POINTED}"))?;
    Ok(())
}

/// Memory of idle connections; latencies of busy ones, quiet and while rows come in.
pub(super) fn many(world: &World<'_>) -> Outcome<()> {
    let sql = format!("SELECT * FROM {TABLE} WHERE id = $1");
    let before = world.lazybase.memory_kib();
    let mut idle = Vec::new();
    for at in 0..IDLE {
        let mut socket = Socket::connect(&world.lazybase.address)?;
        socket.prepare("point", &sql)?;
        read_one(&mut socket, (at % world.rows.count) as i64)?;
        idle.push(socket);
    }
    thread::sleep(Duration::from_secs(1));
    let kib = (world.lazybase.memory_kib() - before) / IDLE as f64;
    world.goals.figure("idle_connection_kib", kib);
    // They must still be served.
    for socket in &mut idle {
        read_one(socket, 0)?;
    }
    drop(idle);
    let latencies = |prefix: &str, address: &SocketAddr| {
        let mut reads = reads(world, address, &sql, BUSY, world.args.time())?;
        let (median, last) = (reads.micros(0.5), reads.micros(0.99));
        let figure = |name: &str, value| world.goals.figure(&format!("{prefix}busy_{name}"), value);
        figure("point_s", reads.rate());
        figure("point_median_us", median);
        figure("point_p99_us", last);
        figure("point_p99_median_ratio", last / median);
        Outcome::Ok(())
    };
    latencies("quiet_", &world.lazybase.address)?;
    // What is promised is promised while rows come in.
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (rows, seconds) = thread::scope(|scope| {
        let begun = Instant::now();
        let writer = scope.spawn(|| mixed::write(world, FIRST_NEW_ID, &stop, &sent));
        let measured = latencies("", &world.lazybase.address);
        let seconds = begun.elapsed().as_secs_f64();
        let rows = sent.load(Ordering::Relaxed) as f64;
        stop.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| "the writer panicked")??;
        measured.map(|()| (rows, seconds))
    })?;
    let offered = world.args.rate() as f64 * seconds;
    world.goals.figure("busy_ingested_rows", rows);
    world.goals.figure("busy_offered_ratio", rows / offered);
    if let Some(postgres) = &world.postgres {
        latencies("postgres_", &postgres.address)?;
    }
    Ok(())
}

/// Reads a row by the statement that was prepared as `point`; it must be there.
pub(super) fn read_one(socket: &mut Socket, id: i64) -> Outcome<()> {
    match socket.execute("point", &[id])?.rows {
        1 => Ok(()),
        rows => Err(format!("{rows} rows have the id {id}").into()),
    }
}

/// What reads took.
struct Reads {
    micros: Vec<u32>,
    seconds: f64,
}

impl Reads {
    fn rate(&self) -> f64 {
        self.micros.len() as f64 / self.seconds
    }

    /// What so large a part of the reads took at most.
    fn micros(&mut self, part: f64) -> f64 {
        self.micros.sort_unstable();
        let at = (self.micros.len() as f64 * part) as usize;
        self.micros
            .get(at)
            .map_or(f64::NAN, |micros| f64::from(*micros))
    }
}

/// Reads rows of all ids on several connections: for a time that warms up, then for as long again.
fn reads(
    world: &World<'_>,
    address: &SocketAddr,
    sql: &str,
    connections: u64,
    time: Duration,
) -> Outcome<Reads> {
    let ready = Barrier::new(connections as usize + 1);
    let (measuring, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let work = |seed: u64| {
        let prepared = Socket::connect(address).and_then(|mut socket| {
            socket.prepare("point", sql)?;
            Ok(socket)
        });
        // Whoever fails must not leave the others waiting.
        ready.wait();
        let (mut socket, mut seeded, mut micros) = (prepared?, Seeded::new(seed), Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let id = seeded.below(world.rows.count) as i64;
            let begun = Instant::now();
            read_one(&mut socket, id)?;
            if measuring.load(Ordering::Relaxed) {
                micros.push(begun.elapsed().as_micros() as u32);
            }
        }
        Outcome::Ok(micros)
    };
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..connections)
            .map(|seed| scope.spawn(move || work(seed)))
            .collect();
        ready.wait();
        thread::sleep(time);
        measuring.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        thread::sleep(time);
        measuring.store(false, Ordering::Relaxed);
        let seconds = begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let mut micros = Vec::new();
        for thread in threads {
            micros.extend(
                thread
                    .join()
                    .map_err(|_| "a connection's thread panicked")??,
            );
        }
        Ok(Reads { micros, seconds })
    })
}
